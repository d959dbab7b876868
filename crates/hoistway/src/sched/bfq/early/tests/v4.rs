//! What v4 does otherwise (specs/bfq.md 11.6).

use super::super::Release;
use super::rig::Rig;
use crate::group::ProcId;
use crate::request::Op;
use crate::sched::Dispatch;
use crate::sched::bfq::ids::{Id, QueueNo};
use crate::stage::Stage;
use crate::unit::Nanos;

/// v4 on a disk.
fn disk() -> Rig {
    Rig::of(Release::V4, true)
}

/// A read, and all of it served at once.
fn serve_one(rig: &mut Rig, proc: ProcId, start: u64, sectors: u64) {
    rig.read(proc, start, sectors);
    rig.serve_all();
}

/// The slot of whoever is in service ends: the wait for it is over.
fn let_idle(rig: &mut Rig) {
    let at =
        rig.early.next_timer().expect("the device is kept idle").as_nanos().div_ceil(1_000_000);
    rig.at_ms(at);
}

#[test]
fn a_new_queue_weighs_twenty_times_as_much_for_seven_and_a_half_seconds() {
    let mut rig = disk();
    let a = rig.proc();
    serve_one(&mut rig, a, 0, 256);
    assert_eq!(rig.weight(a), 80, "level 4 weighs 4, and service does not make it fade");
    for s in 1..=7 {
        rig.at_ms(s * 1_000);
        serve_one(&mut rig, a, 256 * s, 256);
        assert_eq!(rig.weight(a), 80, "{s} s");
    }
    rig.at_ms(7_500);
    serve_one(&mut rig, a, 4_096, 8);
    assert_eq!(rig.weight(a), 80, "not yet over at its limit");
    rig.at_ms(7_501);
    serve_one(&mut rig, a, 4_104, 8);
    assert_eq!(rig.weight(a), 4, "over with the first dispatch after it");
    rig.early.b.check();
}

#[test]
fn it_is_raised_again_after_two_seconds_of_idleness() {
    for (pause, raised) in [(1_999, false), (2_000, true)] {
        let mut rig = disk();
        rig.early.set(rig.now, "wr_max_softrt_rate", 0, &mut rig.env.cx()).unwrap();
        let a = rig.proc();
        serve_one(&mut rig, a, 0, 256);
        rig.at_ms(8_000);
        // The wait ends here, and with it the slot; by now the first period is over.
        serve_one(&mut rig, a, 256, 256);
        let_idle(&mut rig);
        assert_eq!(rig.weight(a), 4);
        let idle_at = rig.now.as_nanos() / 1_000_000;
        rig.at_ms(idle_at + pause);
        rig.read(a, 512, 8);
        assert_eq!(rig.weight(a) == 80, raised, "{pause} ms");
    }
}

/// A queue that is not raised, and whose only slot so far received 70 sectors and ended at the time returned: the
/// arrival that is soft real-time comes 10 ms later.
fn plain(rig: &mut Rig) -> (ProcId, u64) {
    let a = rig.proc();
    rig.early.set(rig.now, "low_latency", 0, &mut rig.env.cx()).unwrap();
    serve_one(rig, a, 0, 70);
    rig.early.set(rig.now, "low_latency", 1, &mut rig.env.cx()).unwrap();
    let_idle(rig);
    assert_eq!(rig.weight(a), 4);
    (a, rig.now.as_nanos() / 1_000_000)
}

#[test]
fn who_comes_back_after_its_service_was_due_is_soft_real_time_for_300_ms() {
    for (pause, raised) in [(10, false), (11, true)] {
        let mut rig = disk();
        let (a, end) = plain(&mut rig);
        rig.at_ms(end + pause);
        rig.read(a, 70, 70);
        assert_eq!(rig.weight(a) == 80, raised, "after {pause} ms");
    }
    let mut rig = disk();
    let (a, end) = plain(&mut rig);
    rig.at_ms(end + 20);
    serve_one(&mut rig, a, 70, 70);
    let_idle(&mut rig);
    // In time again: 300 ms from here, although less than that was left.
    rig.at_ms(end + 220);
    serve_one(&mut rig, a, 140, 70);
    rig.at_ms(end + 400);
    assert_eq!(rig.weight(a), 80);
    let q = rig.q(a);
    assert_eq!(rig.early.b.queues[q].raise.limit, Nanos::ms(300));
}

#[test]
fn a_soft_real_time_queue_that_comes_back_too_early_is_so_no_longer() {
    let mut rig = disk();
    let (a, end) = plain(&mut rig);
    rig.at_ms(end + 20);
    // 1400 sectors are due in 200 ms.
    serve_one(&mut rig, a, 70, 1_400);
    let_idle(&mut rig);
    assert_eq!(rig.weight(a), 80);
    rig.at_ms(end + 100);
    rig.read(a, 1_470, 70);
    assert_eq!(rig.weight(a), 4);
    rig.early.b.check();
}

#[test]
fn a_slot_that_timed_out_disqualifies() {
    let mut rig = disk();
    let (a, end) = plain(&mut rig);
    let b = rig.proc();
    rig.at_ms(end + 5);
    rig.read(b, 1 << 24, 8);
    rig.read(a, 70, 8);
    let mut t = end + 5;
    let q = rig.q(a);
    // Its next slot lasts longer than 125 ms, with a request of somebody else waiting.
    let mut n = 0;
    while rig.early.b.groups.tally().slots[1] == 0 && n < 200 {
        n += 1;
        let issued = rig.dispatch();
        t += 60;
        rig.at_ms(t);
        if let Dispatch::Issue(id) = issued {
            rig.complete(id);
        }
        rig.read(a, 1_000 + 8 * n, 8);
    }
    assert_eq!(rig.early.b.groups.tally().slots[1], 1, "one timeout");
    assert_eq!(rig.early.extra(q).next_soft, None);
}

#[test]
fn a_busy_async_queue_is_raised_after_half_a_second_without_arrivals() {
    for (pause, raised) in [(500, false), (501, true)] {
        let mut rig = disk();
        let (a, b) = (rig.proc(), rig.proc());
        rig.read(b, 1 << 24, 8);
        let inside = rig.fill();
        rig.early.set(rig.now, "low_latency", 0, &mut rig.env.cx()).unwrap();
        rig.submit(a, Op::Write, 0, 8);
        rig.early.set(rig.now, "low_latency", 1, &mut rig.env.cx()).unwrap();
        rig.early.b.queues[rig.early.b.ctxs.pairs[a.index()].other].raise.start = rig.now;
        rig.at_ms(pause);
        rig.submit(a, Op::Write, 8, 8);
        let q = rig.early.b.ctxs.pairs[a.index()].other;
        assert_eq!(rig.early.b.fair.ents[q].wr == 20, raised, "{pause} ms");
        rig.early.b.check();
        drop(inside);
    }
}

#[test]
fn the_end_of_low_latency_ends_raising() {
    let mut rig = disk();
    let a = rig.proc();
    serve_one(&mut rig, a, 0, 8);
    rig.early.set(rig.now, "low_latency", 0, &mut rig.env.cx()).unwrap();
    serve_one(&mut rig, a, 8, 8);
    assert_eq!(rig.weight(a), 4);
    rig.early.b.check();
}

#[test]
fn a_raised_queue_is_waited_for_three_times_as_long() {
    for (low_latency, ms) in [(1, 24), (0, 8)] {
        let mut rig = disk();
        rig.early.set(rig.now, "low_latency", low_latency, &mut rig.env.cx()).unwrap();
        let a = rig.proc();
        serve_one(&mut rig, a, 0, 8);
        assert_eq!(rig.early.next_timer(), Some(rig.now + Nanos::ms(ms)));
    }
}

#[test]
fn flash_that_queues_is_kept_idle_for_raised_queues_only() {
    for (low_latency, waits) in [(1, true), (0, false)] {
        let mut rig = Rig::of(Release::V4, false);
        rig.early.set(rig.now, "low_latency", low_latency, &mut rig.env.cx()).unwrap();
        let a = rig.proc();
        serve_one(&mut rig, a, 0, 8);
        assert_eq!(rig.early.next_timer().is_some(), waits);
    }
    // As v1 does whatever the queue is.
    let mut rig = Rig::of(Release::V1, false);
    let a = rig.proc();
    serve_one(&mut rig, a, 0, 8);
    assert!(rig.early.next_timer().is_some());
}

#[test]
fn a_raised_queue_is_waited_for_although_it_seeks() {
    for (low_latency, waits) in [(1, true), (0, false)] {
        let mut rig = disk();
        rig.early.set(rig.now, "low_latency", low_latency, &mut rig.env.cx()).unwrap();
        let a = rig.proc();
        for n in 0..40 {
            rig.read(a, (n * 7 % 40) << 20, 8);
        }
        // More than an eighth of the largest budget: the window is judged anew.
        rig.read(a, 1 << 30, 4_096);
        let inside = rig.fill();
        rig.read(a, 1 << 31, 8);
        let q = rig.q(a);
        rig.early.b.fair.ents[q].service = 4_096;
        rig.read(a, 5 << 20, 8);
        assert_eq!(rig.early.extra(q).idle_window, waits);
        drop(inside);
    }
}

#[test]
fn one_request_leaves_the_queues_at_a_time() {
    for (release, waiting) in [(Release::V1, 3), (Release::V4, 0)] {
        let mut rig = Rig::of(release, true);
        let a = rig.proc();
        for n in 0..8 {
            rig.read(a, 8 * n, 8);
        }
        assert!(matches!(rig.dispatch(), Dispatch::Issue(_)));
        assert_eq!(rig.early.b.rqs.listed(), waiting);
    }
}

#[test]
fn charges_and_limits_are_those_of_v1() {
    let mut rig = disk();
    let (a, b) = (rig.proc(), rig.proc());
    rig.submit(a, Op::Write, 0, 8);
    let other = rig.early.b.ctxs.pairs[a.index()].other;
    assert_eq!(rig.early.b.charge_next(other), 88);
    let mut rig2 = disk();
    let (c, d) = (rig2.proc(), rig2.proc());
    for n in 0..20 {
        rig2.read(c, 8 * n, 8);
        rig2.read(d, (1 << 20) + 8 * n, 8);
    }
    assert_eq!(rig2.fill().len(), 4, "beside others");
    rig.read(b, 1 << 20, 8);
    assert_eq!(rig.fill().len(), 2, "the write, and then the read beside it");
}

/// Two processes that read every other 8 sectors of one stretch.
fn interleaved(rig: &mut Rig) -> (ProcId, ProcId) {
    let (a, b) = (rig.proc(), rig.proc());
    rig.read(a, 10_000, 8);
    let Dispatch::Issue(id) = rig.dispatch() else { panic!("nothing to do") };
    rig.read(b, 10_008, 8);
    rig.complete(id);
    (a, b)
}

#[test]
fn queues_next_to_each_other_are_merged_when_the_one_in_service_has_run_empty() {
    let mut rig = disk();
    let (a, b) = interleaved(&mut rig);
    let (qa, qb) = (rig.q(a), rig.q(b));
    assert_eq!(rig.early.b.queues[qa].coop.into, QueueNo::NONE, "not before the choice");
    assert!(matches!(rig.dispatch(), Dispatch::Issue(_)), "no wait for the first");
    assert_eq!(rig.early.b.queues[qa].coop.into, qb);
    rig.read(a, 10_016, 8);
    assert_eq!(rig.q(a), qb, "its next request goes to the queue of the other");
    assert!(rig.early.b.queues[qb].coop.shared);
    rig.early.b.check();
}

#[test]
fn far_or_seeky_queues_are_not_merged_and_none_without_the_switch() {
    for distance in [8_192, 8_193] {
        let mut rig = disk();
        let (a, b) = (rig.proc(), rig.proc());
        rig.read(a, 10_000, 8);
        let Dispatch::Issue(id) = rig.dispatch() else { panic!("nothing to do") };
        rig.read(b, 10_008 + distance, 8);
        rig.complete(id);
        rig.dispatch();
        let q = rig.q(a);
        assert_eq!(rig.early.b.queues[q].coop.into.is_some(), distance == 8_192, "{distance}");
    }
    let mut rig = disk();
    rig.early.set(rig.now, "queue_merge", 0, &mut rig.env.cx()).unwrap();
    let (a, _) = interleaved(&mut rig);
    assert_eq!(rig.dispatch(), Dispatch::Idle, "the first is waited for");
    let q = rig.q(a);
    assert!(rig.early.b.queues[q].coop.into.is_none());
}

#[test]
fn a_shared_queue_that_seeks_is_split_and_the_part_is_not_new() {
    let mut rig = disk();
    rig.early.set(rig.now, "wr_max_time", 1, &mut rig.env.cx()).unwrap();
    rig.early.set(rig.now, "wr_max_softrt_rate", 0, &mut rig.env.cx()).unwrap();
    let (a, b) = interleaved(&mut rig);
    rig.fill();
    rig.read(a, 10_016, 8);
    let shared = rig.q(a);
    assert_eq!(shared, rig.q(b));
    // The periods with which both began are over.
    let mut t = 10;
    rig.at_ms(t);
    for n in 0..80 {
        let proc = if n % 2 == 0 { a } else { b };
        rig.read(proc, (n * 7 % 40) << 22, 8);
        rig.serve_all();
        t += 10;
        rig.at_ms(t);
    }
    assert_ne!(rig.q(a), rig.q(b), "it seeks, and its slots end");
    let split_off = if rig.q(a) == shared { b } else { a };
    assert_eq!(rig.weight(split_off), 4, "not raised as a new one would be");
    assert_eq!(rig.early.b.groups.tally().splits, 2, "one got a new queue, the other kept it");
    rig.early.b.check();
}
