//! What always holds: nothing lost, FIFO per group and direction, everything drains, and no node passes
//! more in any window than its limit and the stated burst; big trees.

use super::super::*;
use super::rig::{KIB, Rig};
use crate::testkit::Rng;
use alloc::vec;

const ROOT: GroupId = GroupId::ROOT;

/// What a node has passed in one direction: tick and bytes of each I/O.
type Log = Vec<(u64, u64)>;

/// One I/O, and behind it `rate * (L + 2 slices) / HZ`.
fn check_windows(rig: &Rig, node: usize, log: &Log, dir: usize) {
    let rate = rig.ctl.nodes[node].rates()[dir];
    let clock = &rig.ctl.clock;
    for (i, &(first, ..)) in log.iter().enumerate() {
        let (mut bytes, mut ios) = (0, 0);
        for &(tick, more) in &log[i + 1..] {
            (bytes, ios) = (bytes + more, ios + 1);
            let ticks = tick - first + 2 * clock.slice;
            let most = clock.allowed(rate.bps, ticks);
            let most_ios = clock.allowed(rate.iops, ticks);
            assert!(
                bytes <= most && ios <= most_ios,
                "node {node}: {bytes} of {most} bytes, {ios} of {most_ios} I/Os in {first} to {tick}"
            );
        }
    }
}

fn random_line(rng: &mut Rng) -> String {
    let mut line = String::new();
    for key in ["rbps", "wbps"] {
        if rng.below(3) > 0 {
            line += &format!("{key}={} ", 20_000 + rng.below(4_000_000));
        }
    }
    for key in ["riops", "wiops"] {
        if rng.below(3) == 0 {
            line += &format!("{key}={} ", 10 + rng.below(500));
        }
    }
    line
}

fn random_tree(rig: &mut Rig, rng: &mut Rng) -> Vec<GroupId> {
    let mut groups = vec![ROOT];
    for _ in 0..2 + rng.below(10) {
        let parent = groups[rng.below(groups.len() as u64) as usize];
        let line = if rng.below(5) > 0 { random_line(rng) } else { String::new() };
        groups.push(rig.group(parent, line.trim_end()));
    }
    groups
}

fn check_order_and_loss(rig: &Rig, submitted: u64, seed: u64) {
    assert_eq!(rig.passed.len() as u64, submitted, "seed {seed}: nothing is lost");
    let mut last = alloc::collections::BTreeMap::new();
    for p in &rig.passed {
        let before = last.insert((p.group, p.dir as u8), p.id);
        assert!(before < Some(p.id), "seed {seed}: {p:?} after {before:?}");
    }
}

#[test]
fn no_node_passes_more_than_its_limit_and_two_slices_behind_an_io() {
    for seed in 0..80 {
        let mut rng = Rng::new(seed);
        let mut rig = Rig::new(seed % 2);
        let groups = random_tree(&mut rig, &mut rng);
        let mut submitted = 0;
        for _ in 0..250 {
            let step = [0, 0, 1, 3, 30, 70][rng.below(6) as usize];
            let until = rig.tick + step;
            rig.run_to(until);
            let group = groups[1 + rng.below(groups.len() as u64 - 1) as usize];
            let op = [Op::Read, Op::Write][rng.below(2) as usize];
            let bytes = (4 * KIB) << rng.below(6);
            for _ in 0..1 + rng.below(8) {
                rig.submit(group, op, bytes);
                submitted += 1;
            }
        }
        let end = rig.tick + 2_000_000;
        rig.run_to(end);
        check_order_and_loss(&rig, submitted, seed);
        assert_eq!(rig.ctl.next_timer(), None, "seed {seed}: at rest no timer is set");
        for node in 1..rig.ctl.nodes.len() {
            for dir in 0..2 {
                let lane = &rig.ctl.nodes[node].lanes[dir];
                let log: Log =
                    lane.log.iter().map(|&(tick, bytes)| (tick - super::rig::T, bytes)).collect();
                check_windows(&rig, node, &log, dir);
            }
        }
    }
}

/// Limits change, groups go, with I/O queued.
#[test]
fn nothing_is_lost_while_limits_change_and_groups_go() {
    for seed in 0..150 {
        let mut rng = Rng::new(1000 + seed);
        let mut rig = Rig::new(seed % 2);
        let mut groups = random_tree(&mut rig, &mut rng);
        let mut submitted = 0;
        for _ in 0..400 {
            let to = rig.tick + rng.below(20);
            rig.run_to(to);
            let at = 1 + rng.below(groups.len() as u64 - 1) as usize;
            let group = groups[at];
            match rng.below(12) {
                0 if rig.env.groups.alive(group) => {
                    let line = random_line(&mut rng);
                    rig.write(group, line.trim_end());
                }
                1 if rig.env.groups.alive(group) => {
                    rig.write(group, "rbps=max wbps=max riops=max wiops=max");
                }
                2 if rig.env.groups.alive(group)
                    && rig.env.groups.children(group).is_empty()
                    && groups.len() > 3 =>
                {
                    let now = rig.now();
                    rig.ctl.changed(now, &Change::GroupRemoved(group), &mut rig.env.cx());
                    rig.env.groups.remove(group);
                    rig.settle();
                    if rng.below(2) == 0 {
                        groups.swap_remove(at);
                    }
                }
                _ => {
                    let op = [Op::Read, Op::Write, Op::Discard][rng.below(3) as usize];
                    for _ in 0..1 + rng.below(5) {
                        rig.submit(group, op, (4 * KIB) << rng.below(9));
                        submitted += 1;
                    }
                }
            }
        }
        let end = rig.tick + 100_000_000;
        rig.run_to(end);
        // I/O of a removed group is ordered with its own; what came after is the ancestor's.
        assert_eq!(rig.passed.len() as u64, submitted, "seed {seed}");
        assert_eq!(rig.ctl.next_timer(), None, "seed {seed}");
    }
}

#[test]
fn a_path_of_64_levels_is_charged_at_every_level() {
    let mut rig = Rig::new(1);
    let mut group = ROOT;
    let mut path = Vec::new();
    for level in 0..64 {
        group = rig.group(group, &format!("riops={}", 1000 - level));
        path.push(group);
    }
    rig.reads(group, 93, 4 * KIB);
    assert_eq!(rig.passed.len(), 93);
    // The lowest has the lowest limit: 937 per second are 93 per slice.
    rig.reads(group, 10, 4 * KIB);
    assert_eq!(rig.passed.len(), 93);
    rig.run_to(30);
    assert_eq!(rig.passed.len(), 103);
    for g in path {
        assert_eq!(rig.ctl.nodes[g.index()].lanes[0].passed_ios, 103);
    }
}

#[test]
fn a_hundred_thousand_groups_each_with_a_limit() {
    let mut rig = Rig::new(1);
    let parents: Vec<GroupId> = (0..100).map(|_| rig.group(ROOT, "")).collect();
    let groups: Vec<GroupId> =
        (0..100_000).map(|i| rig.group(parents[i % 100], "riops=10")).collect();
    for &group in groups.iter().step_by(97) {
        rig.reads(group, 2, 4 * KIB);
    }
    assert_eq!(rig.passed.len(), 1031);
    rig.run_to(25);
    assert_eq!(rig.passed.len(), 2062);
    // Setting a limit above reaches all below.
    rig.write(parents[3], "wiops=10");
    let write = rig.submit(groups[3], Op::Write, 4 * KIB);
    assert_eq!(rig.ids().last(), Some(&write));
    let held = rig.submit(groups[103], Op::Write, 4 * KIB);
    assert!(!rig.ids().contains(&held));
}
