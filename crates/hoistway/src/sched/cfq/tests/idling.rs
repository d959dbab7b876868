//! Habits, preemption, idling, cooperators, queueing devices: scenarios 4 to 6, 14, 16 to 19.

use super::rig::Rig;
use crate::group::{GroupId, ProcId};
use crate::request::{Flags, Op, Side};
use crate::rows::Id;
use crate::sched::cfq::Version;
use crate::sched::cfq::ids::QueueNo;
use crate::sched::cfq::requests::slot;
use crate::sched::{Depth, Merged, Run, Scheduler};
use crate::stage::{Change, Stage};
use crate::unit::{IoPrio, QueueId};
use alloc::vec::Vec;

/// The idle window after each of `n` requests, each `think` ms after the completion of the one
/// before.
fn windows(think: u64, n: u64) -> Vec<bool> {
    let mut rig = Rig::disk();
    let [p] = rig.procs();
    let (mut all, mut at) = (Vec::new(), 0);
    for i in 0..n {
        if i == 0 {
            // The context exists from the first allocation on.
            rig.sched.resolve(rig.now, p, true, &mut rig.env.cx());
        }
        at += think;
        if rig.timer_ms().is_some_and(|t| t <= at) {
            rig.fire_timer();
        }
        let id = rig.at_ms(at).read(p, 1000 + 8 * i, 8);
        all.push(rig.queue(p).idle_window);
        while let Some(issued) = rig.issue_next() {
            rig.complete(issued);
            if issued == id {
                break;
            }
        }
    }
    all
}

/// Scenario 4, the effect.
#[test]
fn the_idle_window_follows_the_think_time() {
    assert_eq!(windows(16, 4), [true, true, false, false]);
    assert_eq!(windows(0, 6), [true; 6]);
    let got = windows(8, 7);
    assert_eq!(got, [true, true, false, false, false, false, true]);
}

/// Scenario 5.
#[test]
fn more_than_four_far_requests_of_the_last_32_make_a_queue_seeky() {
    let mut rig = Rig::disk();
    let [p] = rig.procs();
    let mut at = 10_000;
    rig.read(p, at, 8);
    assert_eq!(rig.queue(p).seek.jumps, 0, "the first never counts");
    let mut go = |rig: &mut Rig, distance: u64| {
        at += 8 + distance;
        rig.read(p, at, 8);
        (rig.queue(p).seek.jumps.count_ones(), rig.queue(p).seek.seeky())
    };
    for n in 1..=4 {
        assert_eq!(go(&mut rig, 801), (n, false));
    }
    assert_eq!(go(&mut rig, 0), (4, false));
    assert_eq!(go(&mut rig, 800), (4, false), "800 is near");
    assert_eq!(go(&mut rig, 801), (5, true));

    let mut rig = Rig::of(Version::V34, false);
    let [p] = rig.procs();
    rig.read(p, 1000, 63);
    rig.read(p, 1063, 64);
    assert_eq!(rig.queue(p).seek.jumps, 0b10, "small counts, distance does not");
}

/// Scenario 6.
#[test]
fn four_queued_requests_make_a_seeky_queue_worth_idling_for() {
    let mut rig = Rig::disk();
    let [p, other] = rig.procs();
    for i in 0..8 {
        rig.read(p, 1_000_000 * (i + 1), 8);
    }
    rig.read(other, 500, 8);
    let queue = rig.queue(p);
    assert!(queue.seek.seeky() && queue.deep && queue.idle_window);
    let mut any = false;
    while let Some(id) = rig.issue_next() {
        any = true;
        rig.complete(id);
    }
    assert!(any);
    assert!(rig.is_active(p), "idled for");
    rig.fire_timer();
    assert_eq!(rig.ends().last(), Some(&"expired: idled in vain"));
    assert!(!rig.queue(p).deep && rig.queue(p).idle_window);
    rig.read(p, 20_000_000, 8);
    assert!(!rig.queue(p).idle_window, "the next insertion turns it off");
}

/// An active queue of priority `a` with a request in flight, and a new request of priority `b`.
fn active_and_new(a: (IoPrio, Op), b: (IoPrio, Op, Flags)) -> bool {
    let mut rig = Rig::disk();
    let (pa, pb) = (rig.proc(a.0), rig.proc(b.0));
    rig.flagged(pa, a.1, 1000, 8, Flags::NONE);
    rig.flagged(pa, a.1, 2000, 8, Flags::NONE);
    rig.issue();
    rig.flagged(pb, b.1, 50_000_000, 8, b.2);
    assert_eq!(rig.run == Run::Now, rig.sched.stats.preemptions == 1);
    rig.run == Run::Now
}

/// Scenario 14, classes and kinds.
#[test]
fn who_preempts_whom() {
    let (be, rt, idle) = (IoPrio::be(4), IoPrio::rt(4), IoPrio::idle());
    let read = |prio| (prio, Op::Read, Flags::NONE);
    let meta = (be, Op::Read, Flags::META);
    assert!(active_and_new((be, Op::Write), read(be)), "sync before async");
    assert!(active_and_new((be, Op::Read), read(rt)));
    assert!(!active_and_new((rt, Op::Read), read(be)));
    assert!(!active_and_new((rt, Op::Read), meta));
    assert!(active_and_new((idle, Op::Read), read(be)));
    assert!(!active_and_new((be, Op::Read), read(idle)));
    assert!(!active_and_new((be, Op::Read), read(be)));
    assert!(active_and_new((be, Op::Read), meta));
}

/// Scenario 14, end: a request at that distance from the head, while idling or not.
fn close_request(distance: u64, idling: bool) -> bool {
    let mut rig = Rig::disk();
    let (p, other) = (rig.proc(IoPrio::be(4)), rig.proc(IoPrio::be(5)));
    rig.read(p, 992, 8);
    let (id, _) = rig.issue();
    if idling {
        rig.at_ms(2).complete(id);
        assert_eq!(rig.timer_ms(), Some(10));
    }
    rig.read(other, 1000 + distance, 8);
    rig.run == Run::Now
}

#[test]
fn a_close_request_preempts_idling_only() {
    assert!(close_request(8192, true));
    assert!(!close_request(8193, true));
    assert!(!close_request(8192, false));
}

/// Two readers not worth idling for; the first has been dispatched.
fn two_seeky() -> (Rig, ProcId, ProcId, crate::ReqId) {
    let mut rig = Rig::disk();
    let [p1, p2] = rig.procs();
    for (i, p) in [p1, p2].into_iter().enumerate() {
        rig.sched.resolve(rig.now, p, true, &mut rig.env.cx());
        rig.queue(p).idle_window = false;
        rig.queue(p).seek.jumps = u32::MAX;
        rig.read(p, 10_000_000 * (i as u64 + 1), 8);
    }
    let (id, proc) = rig.issue();
    assert_eq!(proc, p1);
    (rig, p1, p2, id)
}

/// Scenario 16.
#[test]
fn seeky_readers_are_not_idled_for_but_the_last_of_them_is() {
    let (mut rig, p1, p2, first) = two_seeky();
    let (second, proc) = rig.issue();
    assert_eq!(proc, p2, "selected at once");
    rig.at_ms(8).complete(first);
    assert_eq!(rig.timer_ms(), None);
    rig.at_ms(12).complete(second);
    assert_eq!(rig.timer_ms(), Some(20), "the last one is idled for");
    rig.at_ms(13).read(p1, 900_000_000, 8);
    assert_eq!(rig.run, Run::Now);
    assert_eq!(rig.ends().last(), Some(&"preempted: no need to idle for one of two"));
    assert_eq!(rig.issue().1, p1);
}

/// Scenario 16, end: the timer after the last noidle write of a queue, with another busy.
fn after_noidle(flags: Flags) -> Option<u64> {
    let mut rig = Rig::disk();
    let [w, other] = rig.procs();
    rig.sched.resolve(rig.now, w, true, &mut rig.env.cx());
    rig.sched.resolve(rig.now, other, true, &mut rig.env.cx());
    rig.queue(w).idle_window = false;
    rig.queue(w).seek.jumps = u32::MAX;
    let write = rig.flagged(w, Op::Write, 1000, 8, Flags::SYNC | flags);
    rig.issue();
    rig.read(other, 50_000_000, 8);
    rig.at_ms(4).complete(write);
    rig.timer_ms()
}

#[test]
fn noidle_writes_do_not_ask_for_idling() {
    assert_eq!(after_noidle(Flags::NOIDLE), None);
    assert_eq!(after_noidle(Flags::NONE), Some(12));
}

/// P1 active and empty with the head at 10000, P2 with a request at that distance behind.
fn neighbours(distance: u64, level: u8) -> (Rig, ProcId, ProcId, crate::ReqId) {
    let mut rig = Rig::disk();
    let (p1, p2) = (rig.proc(IoPrio::be(4)), rig.proc(IoPrio::be(level)));
    let first = rig.read(p1, 9992, 8);
    assert_eq!(rig.issue().0, first);
    let second = rig.read(p2, 10_000 + distance, 8);
    rig.at_ms(5).complete(first);
    (rig, p1, p2, second)
}

/// Scenario 17.
#[test]
fn neighbours_share_a_queue_until_it_becomes_seeky() {
    let (mut rig, p1, p2, second) = neighbours(8, 4);
    assert_eq!(rig.timer_ms(), None, "no idling beside a neighbour");
    let (q1, q2) = (rig.q(p1), rig.q(p2));
    assert_eq!(rig.issue().0, second);
    assert!(rig.is_active(p2));
    assert_eq!(
        (rig.sched.queues[q1].sharing.merge_into, rig.sched.queues[q2].sharing.users),
        (q2, 2)
    );
    rig.read(p1, 10_016, 8);
    assert_eq!(
        (rig.q(p1), rig.sched.queues[q2].sharing.coop, rig.sched.stats.queue_merges),
        (q2, true, 1)
    );
    assert!(!rig.sched.queues[q1].live, "nobody uses it any more");
    // It becomes seeky and its slice ends.
    rig.queue(p2).seek.jumps = u32::MAX;
    rig.sched.expire(rig.now, false, "expired: by the test", &mut rig.env.cx());
    assert!(rig.sched.queues[q2].sharing.split);
    rig.read(p2, 70_000_000, 8);
    assert_ne!(rig.q(p2), q2, "who comes first gets a new one");
    assert_eq!(rig.sched.queues[q2].sharing.users, 1);
    rig.read(p1, 10_024, 8);
    assert_eq!(rig.q(p1), q2);
    assert!(!rig.sched.queues[q2].sharing.coop && !rig.sched.queues[q2].sharing.split);
}

#[test]
fn far_requests_and_other_levels_do_not_cooperate() {
    for (distance, level, timer) in [(8, 5, Some(13)), (8193, 4, Some(13)), (8192, 4, None)] {
        let (mut rig, _, _, second) = neighbours(distance, level);
        assert_eq!(rig.timer_ms(), timer, "{distance} at level {level}");
        let next = if timer.is_some() { None } else { Some(second) };
        assert_eq!(rig.issue_next(), next);
    }
}

#[test]
fn an_exit_during_a_planned_merge_leaves_the_books_balanced() {
    for first in [true, false] {
        let (mut rig, p1, p2, second) = neighbours(8, 4);
        rig.issue();
        let q2 = rig.q(p2);
        let (a, b) = if first { (p1, p2) } else { (p2, p1) };
        rig.exit(a);
        rig.exit(b);
        assert_eq!(rig.sched.queues[q2].sharing.users, 0);
        rig.complete(second);
        assert!(rig.sched.queues.live().next().is_none());
        assert_eq!(rig.sched.busy_queues, 0);
    }
}

/// Completions with that many requests in the driver and queued, as the detection sees them.
fn completions(rig: &mut Rig, n: usize, in_driver: u32, queued: u32) {
    for _ in 0..n {
        (rig.sched.pool.in_driver, rig.sched.pool.queued) = (in_driver, queued);
        rig.sched.watch_queueing();
    }
    (rig.sched.pool.in_driver, rig.sched.pool.queued) = (0, 0);
}

/// Scenario 18.
#[test]
fn queueing_is_found_out_after_fifty_samples() {
    let mut rig = Rig::disk();
    completions(&mut rig, 50, 8, 0);
    assert_eq!(rig.sched.queueing.figure(), -1);
    completions(&mut rig, 1, 8, 0);
    assert_eq!(rig.sched.queueing.figure(), 1);

    let mut rig = Rig::disk();
    completions(&mut rig, 50, 4, 6);
    assert_eq!(rig.sched.queueing.figure(), -1);
    completions(&mut rig, 1, 4, 6);
    assert_eq!(rig.sched.queueing.figure(), 0);
    completions(&mut rig, 1, 6, 6);
    assert_eq!(rig.sched.queueing.figure(), 1);

    let mut rig = Rig::disk();
    completions(&mut rig, 200, 5, 5);
    assert_eq!(rig.sched.queueing.figure(), -1, "such a load proves nothing");
}

/// Scenario 19.
#[test]
fn flash_that_queues_is_not_idled_for() {
    for (tag, timer, idles) in [(-1, None, false), (1, None, false), (0, Some(9), true)] {
        let mut rig = Rig::of(Version::V34, false);
        rig.sched.queueing.answer = (tag >= 0).then_some(tag == 1);
        let [p, other] = rig.procs();
        rig.read(p, 1000, 128);
        assert!(rig.sched.should_idle(rig.q(p)), "alone in its tree");
        rig.read(other, 50_000_000, 128);
        assert_eq!(rig.sched.should_idle(rig.q(p)), idles, "hw_tag {tag}");
        let (id, _) = rig.issue();
        rig.at_ms(1).complete(id);
        assert_eq!(rig.timer_ms(), timer);
    }
}

#[test]
fn a_small_request_during_the_wait_may_still_grow() {
    let mut rig = Rig::disk();
    let [p] = rig.procs();
    let first = rig.read(p, 1000, 8);
    rig.issue();
    rig.at_ms(2).complete(first);
    rig.at_ms(3).read(p, 1008, 8);
    assert_eq!((rig.run, rig.timer_ms()), (Run::Usual, Some(10)), "the timer keeps running");
    assert!(rig.queue(p).slice.must_dispatch);
    // Unplugged, it is dispatched; the timer may then end the slice with the request in flight.
    rig.issue();
    assert_eq!(rig.timer_ms(), Some(10));
    rig.fire_timer();
    assert_eq!(rig.sched.active, QueueNo::NONE);
    assert_eq!(rig.ends().last(), Some(&"expired: idled in vain"));
}

#[test]
fn a_large_request_during_the_wait_is_served_at_once() {
    let mut rig = Rig::disk();
    let [p] = rig.procs();
    let first = rig.read(p, 1000, 8);
    rig.issue();
    rig.at_ms(2).complete(first);
    rig.at_ms(3).read(p, 1008, 9);
    assert_eq!((rig.run, rig.timer_ms()), (Run::Now, None));
}

#[test]
fn the_queue_idled_for_may_pass_the_limit_once_per_slice() {
    let mut rig = Rig::disk();
    let [p, other] = rig.procs();
    let first = rig.read(p, 1000, 8);
    rig.issue();
    rig.at_ms(2).complete(first);
    let io = rig.io(p, Op::Read, 1008, 8, Flags::NONE);
    let theirs = rig.io(other, Op::Read, 1008, 8, Flags::NONE);
    let mut ask = |io| rig.sched.depth_limit(rig.now, io, &mut rig.env.cx());
    assert_eq!(ask(&theirs), Depth::Usual);
    assert_eq!(ask(&io), Depth::Insist);
    assert_eq!(ask(&io), Depth::Usual);
}

#[test]
fn an_exit_ends_the_wait() {
    let mut rig = Rig::disk();
    let [p, other] = rig.procs();
    let first = rig.read(p, 1000, 8);
    rig.issue();
    let far = rig.read(other, 50_000_000, 8);
    rig.at_ms(2).complete(first);
    assert_eq!(rig.issue_next(), None);
    rig.exit(p);
    assert_eq!(rig.env.runs.take(), Some(QueueId(0)), "asks for a run");
    assert_eq!(rig.timer_ms(), None);
    assert_eq!(rig.issue().0, far);
}

#[test]
fn a_new_priority_counts_from_the_next_request_on() {
    let mut rig = Rig::disk();
    let [p] = rig.procs();
    rig.read(p, 1000, 8);
    rig.write(p, 5000, 8);
    rig.renice(p, IoPrio::be(1));
    assert_eq!(rig.queue(p).level, 4);
    rig.read(p, 2000, 8);
    assert_eq!(rig.queue(p).level, 1);
    rig.write(p, 6000, 8);
    let async_of = |level: usize| rig.sched.queues.shared[8 + level];
    assert_ne!(async_of(1), QueueNo::NONE);
    assert_eq!(rig.sched.queues[async_of(4)].sharing.users, 0);
}

#[test]
fn a_process_that_moves_gets_a_queue_in_its_new_group() {
    let mut rig = Rig::disk();
    let group = rig.group(500);
    let [p] = rig.procs();
    rig.read(p, 1000, 8);
    let old = rig.q(p);
    rig.env.procs.get_mut(p).unwrap().group = group;
    let change = Change::ProcMoved { proc: p, from: crate::GroupId::ROOT, to: group };
    rig.sched.changed(rig.now, &change, &mut rig.env.cx());
    rig.read(p, 2000, 8);
    assert_ne!(rig.q(p), old);
    assert_eq!((rig.sched.queues[old].turn.group, rig.queue(p).turn.group), (GroupId::ROOT, group));
}

#[test]
fn without_isolation_a_seeky_queue_is_served_in_the_root_group() {
    for isolation in [0, 1] {
        let mut rig = Rig::disk();
        rig.set("group_isolation", isolation);
        let group = rig.group(500);
        let p = rig.env.procs.add(group, IoPrio::be(4));
        rig.read(p, 1000, 8);
        assert_eq!(rig.queue(p).turn.group, group);
        let q = rig.q(p);
        let mut group_of = |window| {
            rig.queue(p).idle_window = window;
            rig.sched.place(0, q, false);
            rig.check();
            rig.queue(p).turn.group
        };
        let away = if isolation == 0 { GroupId::ROOT } else { group };
        assert_eq!((group_of(false), group_of(true)), (away, group));
    }
}

#[test]
fn merging_keeps_queue_kind_and_the_older_place_in_the_fifo() {
    let mut rig = Rig::disk();
    let [p, other] = rig.procs();
    let late = rig.read(p, 1008, 8);
    rig.at_ms(3);
    let early = rig.read(p, 1000, 8);
    rig.read(other, 50_000, 8);
    let mut may = |proc, op| {
        let io = rig.io(proc, op, 1016, 8, Flags::NONE);
        rig.sched.may_merge(rig.now, &io, late, &mut rig.env.cx())
    };
    assert!(may(p, Op::Read) && !may(other, Op::Read) && !may(p, Op::Write));
    let front = rig.io(p, Op::Read, 992, 8, Flags::NONE);
    let found = rig.sched.find_merge(rig.now, &front, &mut rig.env.cx());
    assert_eq!(found, Some((early, Side::Front)));
    assert_eq!(rig.sched.neighbour(early, Side::Back, &rig.env.cx()), Some(late));
    rig.sched.merged(rig.now, early, Merged::Request(late), &mut rig.env.cx());
    rig.env.requests.join(early, late);
    rig.check();
    assert_eq!(rig.sched.pool.rqs[slot(early)].fifo_deadline, 125, "the older one's deadline");
    assert_eq!(rig.queue(p).pending.next, slot(early));
    rig.issue();
    assert_eq!(rig.sched.pool.head, 1016);
}

#[test]
fn a_front_merge_sorts_anew() {
    let mut rig = Rig::disk();
    let [p] = rig.procs();
    let id = rig.read(p, 1000, 8);
    let io = rig.io(p, Op::Read, 992, 8, Flags::NONE);
    let bio = rig.env.requests.add_bio(io, rig.now).unwrap();
    rig.env.requests.join_bio(id, bio, Side::Front);
    rig.sched.merged(rig.now, id, Merged::Bio(Side::Front), &mut rig.env.cx());
    rig.check();
    assert_eq!((rig.sched.pool.rqs[slot(id)].pos, rig.sched.pool.rqs[slot(id)].len), (992, 16));
    let again = rig.io(p, Op::Read, 984, 8, Flags::NONE);
    let found = rig.sched.find_merge(rig.now, &again, &mut rig.env.cx());
    assert_eq!(found, Some((id, Side::Front)));
}
