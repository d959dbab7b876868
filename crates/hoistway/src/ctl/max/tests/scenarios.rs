//! Scenarios 1 to 17, 21 and 23 to 26 of specs/io-max-throttling.md D, in the order of the text. Ticks are
//! counted from the scenario's start.

use super::super::*;
use super::rig::{KIB, MIB, Rig};
use alloc::vec;

const IDEAL: u64 = 1;
const KERNEL: u64 = 0;
const ROOT: GroupId = GroupId::ROOT;

/// So many reads of a group at once: how many pass at which tick.
fn reads(timers: u64, line: &str, n: u64, bytes: u64) -> Vec<(u64, usize)> {
    let mut rig = Rig::new(timers);
    let g = rig.group(ROOT, line);
    rig.reads(g, n, bytes);
    rig.run_to(2000);
    let in_order: Vec<u64> = (1..=n).collect();
    assert_eq!(rig.ids(), in_order);
    rig.steps()
}

#[test]
fn d_1_an_io_limit_passes_its_share_per_slice() {
    let steps = reads(IDEAL, "riops=100", 35, 4 * KIB);
    assert_eq!(steps, [(0, 10), (25, 10), (50, 10), (75, 5)]);
}

#[test]
fn d_2_large_ios_wait_until_they_are_paid_for() {
    let steps = reads(IDEAL, "rbps=1048576", 3, MIB);
    assert_eq!(steps, [(250, 1), (500, 1), (750, 1)]);
}

#[test]
fn d_3_small_ios_fill_a_slice() {
    let steps = reads(IDEAL, "rbps=1048576", 60, 4 * KIB);
    assert_eq!(steps, [(0, 25), (26, 26), (51, 9)]);
}

#[test]
fn d_4_what_a_slice_leaves_over_counts_in_the_next() {
    let steps = reads(IDEAL, "rbps=10000000", 30, 128 * KIB);
    assert_eq!(steps, [(0, 7), (26, 8), (52, 7), (76, 8)]);
}

fn scenario_5(timers: u64) -> Vec<(u64, usize)> {
    let mut rig = Rig::new(timers);
    let g = rig.group(ROOT, "rbps=1048576");
    rig.reads(g, 1, 64 * KIB);
    rig.run_to(13);
    rig.reads(g, 1, 64 * KIB);
    rig.run_to(100);
    rig.steps()
}

#[test]
fn d_5_a_wait_within_the_slice() {
    assert_eq!(scenario_5(IDEAL), [(0, 1), (31, 1)]);
}

#[test]
fn d_6_a_long_wait_wakes_every_eight_slices() {
    let mut rig = Rig::new(IDEAL);
    let g = rig.group(ROOT, "rbps=2000");
    rig.reads(g, 1, 4 * KIB);
    rig.run_to(1000);
    assert_eq!(rig.steps(), [(512, 1)]);
    assert_eq!(rig.idle_timers, [200, 400]);
}

#[test]
fn d_7_both_limits() {
    let steps = reads(IDEAL, "rbps=1048576 riops=100", 4, 64 * KIB);
    assert_eq!(steps, [(0, 1), (31, 2), (62, 1)]);
}

#[test]
fn d_8_directions_are_independent() {
    let mut rig = Rig::new(IDEAL);
    let g = rig.group(ROOT, "rbps=1048576");
    rig.reads(g, 3, MIB);
    assert!(rig.passed.is_empty());
    let write = rig.submit(g, Op::Write, MIB);
    assert_eq!(rig.ids(), [write]);
}

#[test]
fn d_9_idling_earns_nothing() {
    let mut rig = Rig::new(IDEAL);
    let g = rig.group(ROOT, "riops=100");
    rig.run_to(2500);
    rig.reads(g, 30, 4 * KIB);
    rig.run_to(3000);
    assert_eq!(rig.steps(), [(2500, 10), (2525, 10), (2550, 10)]);
}

#[test]
fn d_10_a_childs_ios_queue_at_the_parent_once_the_child_has_admitted_them() {
    let mut rig = Rig::new(IDEAL);
    let parent = rig.group(ROOT, "riops=50");
    let child = rig.group(parent, "riops=100");
    rig.reads(child, 20, 4 * KIB);
    assert_eq!(rig.steps(), [(0, 5)]);
    let queued = |rig: &Rig, g: GroupId| rig.ctl.nodes[g.index()].lanes[0].queued;
    // Ten were admitted below: five passed, five wait at the parent, the rest at the child.
    assert_eq!((queued(&rig, parent), queued(&rig, child)), (5, 10));
    rig.reads(child, 40, 4 * KIB);
    rig.run_to(249);
    assert_eq!(rig.passed.len(), 50);
    let in_order: Vec<u64> = (1..=50).collect();
    assert_eq!(rig.ids(), in_order);
}

#[test]
fn d_11_a_parent_alternates_between_its_children() {
    let mut rig = Rig::new(IDEAL);
    let parent = rig.group(ROOT, "riops=10");
    let children = [rig.group(parent, ""), rig.group(parent, "")];
    for child in children {
        rig.reads(child, 100, 4 * KIB);
    }
    rig.run_to(1000);
    let groups: Vec<GroupId> = rig.passed.iter().map(|p| p.group).collect();
    assert_eq!(groups.len(), 41);
    // The first passed before the second child had any.
    for pair in groups[1..].chunks(2) {
        assert_ne!(pair[0], pair[1], "{groups:?}");
    }
}

#[test]
fn d_12_a_raised_limit_takes_effect_at_once_and_keeps_what_is_left_over() {
    let mut rig = Rig::new(IDEAL);
    let g = rig.group(ROOT, "rbps=2000");
    rig.reads(g, 1, 4 * KIB);
    rig.run_to(100);
    assert!(rig.passed.is_empty());
    rig.write(g, "rbps=1048576");
    assert_eq!(rig.steps(), [(100, 1)]);
}

#[test]
fn d_13_a_removed_limit_releases_all_in_order() {
    let mut rig = Rig::new(IDEAL);
    let g = rig.group(ROOT, "rbps=2000");
    rig.reads(g, 50, 4 * KIB);
    rig.run_to(7);
    rig.write(g, "rbps=max");
    assert_eq!(rig.steps(), [(7, 50)]);
    let in_order: Vec<u64> = (1..=50).collect();
    assert_eq!(rig.ids(), in_order);
    rig.reads(g, 1, MIB);
    assert_eq!(rig.passed.len(), 51, "no limit any more");
}

#[test]
fn d_14_a_discard_counts_as_512_bytes() {
    let mut rig = Rig::new(IDEAL);
    let g = rig.group(ROOT, "wbps=1048576");
    // 104 857 bytes in the first slice.
    for _ in 0..204 {
        rig.submit(g, Op::Discard, 1 << 30);
    }
    assert_eq!(rig.passed.len(), 204);
    rig.submit(g, Op::Discard, 1 << 30);
    assert_eq!(rig.passed.len(), 204);
}

#[test]
fn d_16_rounds_of_six_reads_and_two_writes_and_all_reads_leave_first() {
    let mut rig = Rig::new(IDEAL);
    let g = rig.group(ROOT, "riops=100 wiops=100");
    rig.reads(g, 10, 4 * KIB);
    rig.writes(g, 10, 4 * KIB);
    rig.passed.clear();
    rig.reads(g, 20, 4 * KIB);
    rig.writes(g, 20, 4 * KIB);
    let now = rig.now();
    rig.ctl.clock.set(now);
    let cx = rig.env.cx();
    // All become admissible; the timer has not fired yet.
    let rate = Rate { iops: 1_000_000, ..Rate::MAX };
    rig.ctl.timers.kind = TickTimers::Kernel;
    rig.ctl.set_limits(g, [rate; 2], &cx);
    let rounds: Vec<u32> = (0..6).map(|_| rig.ctl.round(g.0, &cx)).collect();
    assert_eq!(rounds, [8, 8, 8, 4, 2, 2]);
    let left = |rig: &Rig| rig.ctl.nodes[g.index()].lanes.each_ref().map(|l| l.queued);
    assert_eq!(left(&rig), [0, 8]);
    rig.run_to(1);
    let dirs: Vec<Dir> = rig.passed.iter().map(|p| p.dir).collect();
    assert_eq!(dirs[..20], [Dir::Read; 20]);
    assert_eq!(dirs[20..], [Dir::Write; 20]);
}

#[test]
fn d_16_the_first_pass_ends_at_32() {
    let mut rig = Rig::new(KERNEL);
    let g = rig.group(ROOT, "riops=100 wiops=100");
    rig.reads(g, 30, 4 * KIB);
    rig.writes(g, 30, 4 * KIB);
    rig.write(g, "riops=max wiops=max");
    rig.passed.clear();
    rig.tick += 1;
    let now = rig.now();
    rig.ctl.clock.set(now);
    let cx = rig.env.cx();
    assert_eq!(rig.ctl.select(0, &cx), 32);
    assert_eq!(rig.ctl.select(0, &cx), 8);
}

#[test]
fn d_17_an_inner_groups_own_ios_and_its_childs_alternate() {
    let mut rig = Rig::new(IDEAL);
    let parent = rig.group(ROOT, "riops=10");
    let child = rig.group(parent, "");
    rig.reads(parent, 5, 4 * KIB);
    rig.reads(child, 4, 4 * KIB);
    rig.run_to(1000);
    let groups: Vec<GroupId> = rig.passed.iter().map(|p| p.group).collect();
    let want = [parent, parent, child, parent, child, parent, child, parent, child];
    assert_eq!(groups, want);
}

#[test]
fn d_21_on_the_kernels_timers_everything_is_late() {
    let steps = reads(KERNEL, "riops=100", 35, 4 * KIB);
    assert_eq!(steps, [(0, 10), (26, 10), (51, 10), (76, 5)]);
    let steps = reads(KERNEL, "rbps=1048576", 3, MIB);
    assert_eq!(steps, [(251, 1), (501, 1), (751, 1)]);
    let steps = reads(KERNEL, "rbps=1048576", 60, 4 * KIB);
    assert_eq!(steps, [(0, 25), (27, 26), (52, 9)]);
    let steps = reads(KERNEL, "rbps=10000000", 30, 128 * KIB);
    assert_eq!(steps, [(0, 7), (27, 8), (53, 7), (77, 8)]);
    assert_eq!(scenario_5(KERNEL), [(0, 1), (32, 1)]);
    let mut rig = Rig::new(KERNEL);
    let g = rig.group(ROOT, "rbps=2000");
    rig.reads(g, 1, 4 * KIB);
    rig.run_to(1000);
    assert_eq!((rig.steps(), rig.idle_timers), (vec![(518, 1)], vec![206, 414]));
}

/// Scenario 23: the root's timer is set first, then the parent's, for the same edge.
#[test]
fn d_23_timers_of_one_edge_run_in_reverse_order_of_being_set() {
    let mut rig = Rig::new(KERNEL);
    let parent = rig.group(ROOT, "");
    let child = rig.group(parent, "riops=10");
    let other = rig.group(ROOT, "riops=10");
    // Both use up their slice.
    rig.reads(other, 1, 4 * KIB);
    rig.reads(child, 1, 4 * KIB);
    rig.passed.clear();
    // Each sets a timer for tick 25: the device's, then the parent's.
    rig.reads(other, 1, 4 * KIB);
    rig.reads(child, 1, 4 * KIB);
    let order: Vec<u32> = {
        let mut timers = Vec::new();
        let now = super::rig::T + 26;
        while let Some(group) = rig.ctl.timers.take_due(now) {
            timers.push(group);
        }
        for &group in timers.iter().rev() {
            rig.ctl.timers.set(group, super::rig::T, super::rig::T + 25);
        }
        timers
    };
    assert_eq!(order, [parent.0, 0]);
    rig.run_to(26);
    assert_eq!(rig.steps(), [(26, 2)]);
}

/// 100 of 130 reads have passed when the limit becomes half as much.
fn overdrawn(base: u64) -> Vec<(u64, usize)> {
    let mut rig = Rig::new(IDEAL);
    rig.ctl.set(Instant::ZERO, "base", base, &mut rig.env.cx()).unwrap();
    let g = rig.group(ROOT, "riops=1000");
    rig.reads(g, 130, 4 * KIB);
    rig.run_to(3);
    rig.write(g, "riops=500");
    rig.run_to(200);
    rig.steps()
}

#[test]
fn d_24_what_is_overdrawn_by_a_change_lets_all_pass_or_is_waited_for() {
    assert_eq!(overdrawn(0), [(0, 100), (3, 30)]);
    assert_eq!(overdrawn(1), [(0, 100), (28, 12), (53, 18)]);
}

#[test]
fn d_25_an_io_waits_for_its_slice_or_until_one_is_allowed() {
    for (base, second) in [(0, 25), (1, 26)] {
        let mut rig = Rig::new(IDEAL);
        rig.ctl.set(Instant::ZERO, "base", base, &mut rig.env.cx()).unwrap();
        let g = rig.group(ROOT, "riops=10");
        rig.reads(g, 2, 4 * KIB);
        rig.run_to(100);
        assert_eq!(rig.steps(), [(0, 1), (second, 1)]);
    }
}

#[test]
fn d_26_the_longer_wait_counts_in_the_newer_rules() {
    for (base, passes) in [(0, 100), (1, 126)] {
        let mut rig = Rig::new(IDEAL);
        rig.ctl.set(Instant::ZERO, "base", base, &mut rig.env.cx()).unwrap();
        let g = rig.group(ROOT, "rbps=1048576 riops=2");
        rig.reads(g, 1, 128 * KIB);
        rig.run_to(200);
        assert_eq!(rig.steps(), [(passes, 1)]);
    }
}

/// Scenario 27: only I/Os are limited, and less than one is allowed beside what is overdrawn.
#[test]
fn d_27_half_a_second_without_a_limit_of_bytes_is_not_trimmed_in_the_newer_rules() {
    let mut rig = Rig::new(IDEAL);
    rig.ctl.set(Instant::ZERO, "base", 1, &mut rig.env.cx()).unwrap();
    let g = rig.group(ROOT, "riops=10 wiops=10");
    rig.reads(g, 3, 4 * KIB);
    rig.run_to(10);
    rig.write(g, "riops=2 wiops=10");
    // Writes in time for a look at the reads 230 ticks after the change.
    rig.writes(g, 5, 4 * KIB);
    rig.run_to(600);
    // Reads at 0, 240 and 366; trimmed at 240, the last one would come at 492.
    let steps = [(0, 1), (10, 1), (36, 1), (62, 1), (88, 1), (114, 1), (240, 1), (366, 1)];
    assert_eq!(rig.steps(), steps);
}
