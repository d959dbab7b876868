//! What 2.6.30 and 2.6.38 do differently: section 12.

use super::rig::Rig;
use crate::request::{Flags, Op};
use crate::rows::Id;
use crate::sched::cfq::{CFQ_30, CFQ_32, Cfq, ENTRY_30, ENTRY_32, Version};
use crate::sched::{self, Entry, Run};
use crate::unit::{IoPrio, Sectors};
use crate::{Device, Profile};
use alloc::boxed::Box;
use alloc::vec::Vec;

#[test]
fn in_2_6_30_an_empty_queue_leaves_the_tree_at_once() {
    let mut rig = Rig::of(Version::V30, true);
    let [p] = rig.procs();
    let id = rig.read(p, 1000, 8);
    rig.issue();
    assert_eq!((rig.sched.busy_queues, rig.queue(p).turn.busy), (0, false));
    assert!(rig.is_active(p));
    rig.at_ms(3).complete(id);
    assert_eq!((rig.timer_ms(), rig.queue(p).slice.end), (Some(11), 103));
    // Nobody else is busy: the slice outlives the wait.
    rig.fire_timer();
    assert!(rig.is_active(p));
    rig.at_ms(12).read(p, 1008, 16);
    assert_eq!(rig.run, Run::Now);
}

#[test]
fn in_2_6_30_slices_are_full_and_depth_is_four() {
    let mut rig = Rig::of(Version::V30, true);
    let procs: [_; 10] = rig.procs();
    for (i, &p) in procs.iter().enumerate() {
        for n in 0..20 {
            rig.read(p, 10_000_000 * i as u64 + 1000 * n, 8);
        }
    }
    let flying = rig.issue_all();
    assert_eq!(flying.len(), 4);
    rig.at_ms(10).complete(flying[0]);
    assert_eq!(rig.active().slice.end, 110, "ten queues, and still 100 ms");
    assert_eq!(rig.issue_all().len(), 1);

    let mut rig = Rig::of(Version::V30, true);
    let [p] = rig.procs();
    for n in 0..20 {
        rig.read(p, 1000 * n, 8);
    }
    assert_eq!(rig.issue_all().len(), 16, "alone: 4 * quantum");
}

#[test]
fn in_2_6_30_the_one_tree_has_real_time_first_and_idle_last() {
    let mut rig = Rig::of(Version::V30, true);
    let (idle, be, rt) =
        (rig.proc(IoPrio::idle()), rig.proc(IoPrio::be(4)), rig.proc(IoPrio::rt(7)));
    for (i, p) in [idle, be, rt].into_iter().enumerate() {
        rig.read(p, 10_000_000 * (i as u64 + 1), 8);
    }
    for want in [rt, be, idle] {
        let (id, proc) = rig.issue();
        assert_eq!(proc, want);
        rig.complete(id);
        rig.sched.expire(rig.now, false, "expired: by the test", &mut rig.env.cx());
    }
}

#[test]
fn in_2_6_30_a_waiting_real_time_queue_ends_the_slice() {
    let mut rig = Rig::of(Version::V30, true);
    let (p, rt) = (rig.proc(IoPrio::be(4)), rig.proc(IoPrio::be(4)));
    for n in 0..3 {
        rig.read(p, 1000 * (n + 1), 8);
    }
    rig.read(rt, 50_000_000, 8);
    rig.issue();
    // It becomes real-time while it waits; its next placement shows it.
    rig.queue(rt).class = crate::sched::cfq::RT;
    let q = rig.q(rt);
    rig.sched.place(0, q, false);
    assert_eq!(rig.issue().1, rt);
    assert_eq!(rig.ends(), ["expired: a real-time queue waits"]);
}

#[test]
fn in_2_6_30_a_neighbour_is_jumped_to_once() {
    let mut rig = Rig::of(Version::V30, true);
    let [p1, p2] = rig.procs();
    let first = rig.read(p1, 9992, 8);
    rig.issue();
    let second = rig.read(p2, 10_008, 8);
    rig.at_ms(2).complete(first);
    assert_eq!(rig.timer_ms(), None);
    assert_eq!(rig.issue().0, second);
    let q2 = rig.queue(p2);
    assert!(
        q2.sharing.coop && q2.sharing.merge_into.is_none() && q2.sharing.users == 1,
        "jumped to, nothing shared"
    );
    // A second jump is refused until it was selected in its turn.
    rig.read(p2, 10_032, 8);
    rig.sched.expire(rig.now, false, "expired: by the test", &mut rig.env.cx());
    let q1 = rig.q(p1);
    assert!(rig.sched.cooperator(q1).is_none());
    assert_eq!(rig.issue().1, p2);
    assert!(!rig.queue(p2).sharing.coop);
}

#[test]
fn in_2_6_30_a_process_with_distant_requests_is_not_idled_for() {
    for (step, window) in [(8, true), (10_000_000, false)] {
        let mut rig = Rig::of(Version::V30, true);
        let [p] = rig.procs();
        // Above 80 samples the mean counts.
        for n in 0..20 {
            rig.read(p, 1000 + step * n, 8);
        }
        assert_eq!(rig.queue(p).idle_window, window, "step {step}");
    }
}

#[test]
fn in_2_6_30_detection_starts_anew_every_51_samples() {
    let mut rig = Rig::of(Version::V30, true);
    assert_eq!(rig.sched.queueing.answer, Some(true));
    for _ in 0..51 {
        (rig.sched.pool.in_driver, rig.sched.pool.queued) = (3, 6);
        rig.sched.watch_queueing();
    }
    assert_eq!(rig.sched.queueing.answer, Some(false));
    for _ in 0..51 {
        (rig.sched.pool.in_driver, rig.sched.pool.queued) = (6, 6);
        rig.sched.watch_queueing();
    }
    assert_eq!(rig.sched.queueing.answer, Some(true));
}

#[test]
fn in_2_6_30_an_used_slice_gives_way_to_anybody() {
    let mut rig = Rig::of(Version::V30, true);
    let (p, idle) = (rig.proc(IoPrio::be(4)), rig.proc(IoPrio::idle()));
    for n in 0..3 {
        rig.read(p, 1000 * (n + 1), 8);
    }
    rig.issue();
    rig.slice_left(10);
    rig.at_ms(10).read(idle, 50_000_000, 8);
    assert_eq!(rig.run, Run::Now);
}

#[test]
fn in_2_6_30_a_residual_moves_a_queue_back() {
    for (version, key) in [(Version::V30, 57), (Version::V34, 3)] {
        let mut rig = Rig::of(version, true);
        let [p] = rig.procs();
        for n in 0..3 {
            rig.read(p, 1000 * (n + 1), 8);
        }
        rig.issue();
        rig.slice_left(57);
        rig.at_ms(30);
        rig.sched.expire(rig.now, true, "expired: by the test", &mut rig.env.cx());
        // 27 ms were left.
        let want = if version == Version::V30 { 30 + 27 } else { 30 - 27 };
        assert_eq!((rig.queue(p).turn.key, want), (key, key), "{version:?}");
    }
}

#[test]
fn group_idle_waits_for_the_last_queue_of_a_group() {
    for (version, timer) in [(Version::V34, None), (Version::V38, Some(13))] {
        let mut rig = Rig::of(version, true);
        rig.set("slice_idle", 0);
        let (a, b) = (rig.group(500), rig.group(500));
        let p = rig.env.procs.add(a, IoPrio::be(4));
        let other = rig.env.procs.add(b, IoPrio::be(4));
        rig.set("group_isolation", 1);
        let id = rig.read(p, 1000, 8);
        assert_eq!(rig.issue().1, p);
        rig.read(other, 50_000_000, 8);
        rig.at_ms(5).complete(id);
        assert_eq!(rig.timer_ms(), timer, "{version:?}");
        assert_eq!(rig.issue_next().is_some(), timer.is_none());
    }
}

#[test]
fn with_iops_mode_a_group_pays_by_request() {
    let mut rig = Rig::of(Version::V38, true);
    rig.set("slice_idle", 0);
    rig.set("group_idle", 0);
    rig.sched.queueing.answer = Some(true);
    let a = rig.group(500);
    let p = rig.env.procs.add(a, IoPrio::be(4));
    for n in 0..6 {
        rig.read(p, 1000 * (n + 1), 8);
    }
    for _ in 0..3 {
        rig.issue();
    }
    rig.at_ms(77);
    rig.sched.expire(rig.now, false, "expired: by the test", &mut rig.env.cx());
    assert_eq!(rig.sched.groups.rows[a].vtime, 3 << 12);
}

#[test]
fn in_2_6_38_a_noidle_request_costs_the_idle_window() {
    for (version, window) in [(Version::V34, true), (Version::V38, false)] {
        let mut rig = Rig::of(version, true);
        let [p] = rig.procs();
        rig.flagged(p, Op::Write, 1000, 8, Flags::SYNC | Flags::NOIDLE);
        assert_eq!(rig.queue(p).idle_window, window, "{version:?}");
    }
}

/// 2.6.32 is 2.6.30 with the slow start. 2.6.33 and 2.6.35 have no rules of their own, so no entry.
#[test]
fn the_kernels_between_differ_by_no_more_than_the_text_says() {
    let defaults =
        |entry: &Entry| -> Vec<_> { entry.tunables.iter().map(|t| (t.name, t.default)).collect() };
    let (v30, v32) = (defaults(&ENTRY_30), defaults(&ENTRY_32));
    let differ: Vec<_> = v30.iter().zip(&v32).filter(|(a, b)| a != b).collect();
    assert_eq!(differ, [(&("low_latency", 0), &("low_latency", 1))]);
    assert!(CFQ_32.version == Version::V30);
    for name in ["cfq-2.6.33", "cfq-2.6.35"] {
        assert!(sched::find(name).is_none());
        assert!(sched::why_missing(name).is_some_and(|why| why.contains("choose cfq-2.6.32")));
    }
    assert_eq!(sched::why_missing("cfq"), None);
}

/// One async request at a time right after a late sync one, as many as there are without the slow start.
#[test]
fn in_2_6_32_async_queues_start_slowly_after_a_late_sync_request() {
    for (kernel, depth) in [(&CFQ_30, 16), (&CFQ_32, 1)] {
        let mut device = Device::new(Sectors(1 << 32), 128);
        device.profile = Profile::Legacy;
        device.rotational = true;
        let mut rig = Rig::new(device, 512, |setup| Box::new(Cfq::new(setup, kernel)));
        let [reader, writer] = rig.procs();
        let late = rig.read(reader, 1000, 8);
        rig.issue();
        rig.at_ms(200).complete(late);
        rig.exit(reader);
        for n in 0..20 {
            rig.write(writer, (1 << 20) + 8 * n, 8);
        }
        assert_eq!(rig.issue_all().len(), depth, "{}", kernel.entry.name);
    }
}
