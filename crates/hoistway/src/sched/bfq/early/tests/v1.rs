//! C46 to C48 (specs/bfq.md section 14), and random runs of both releases.

use super::super::{NEVER, Release};
use super::rig::Rig;
use crate::group::ProcId;
use crate::request::Op;
use crate::sched::bfq::ids::Id;
use crate::sched::bfq::queue::past::Past;
use crate::sched::{Dispatch, Scheduler};
use crate::stage::Stage;
use crate::unit::Nanos;
use alloc::vec::Vec;

#[test]
fn c46_a_new_queue_is_boosted_tenfold_and_less_with_every_sector() {
    let mut rig = Rig::new();
    let a = rig.proc();
    rig.read(a, 0, 256);
    assert_eq!(rig.weight(a), 40, "level 4 weighs 4");
    for n in 1..96 {
        rig.read(a, 256 * n, 256);
    }
    rig.serve_all();
    assert_eq!(rig.weight(a), 22);
    for n in 96..192 {
        rig.read(a, 256 * n, 256);
    }
    rig.serve_all();
    assert_eq!(rig.weight(a), 4);
    rig.early.b.check();
}

#[test]
fn c46_the_boost_ends_with_the_first_dispatch_after_6_seconds_and_returns_after_20() {
    let mut rig = Rig::new();
    let a = rig.proc();
    rig.read(a, 0, 8);
    rig.serve_all();
    rig.at_ms(5_999);
    rig.read(a, 8, 8);
    rig.serve_all();
    assert_eq!(rig.weight(a), 39);
    rig.at_ms(6_001);
    rig.read(a, 16, 8);
    rig.serve_all();
    assert_eq!(rig.weight(a), 4);
    rig.at_ms(16_100);
    rig.read(a, 24, 8);
    assert_eq!(rig.weight(a), 4, "10 s later: no boost");
    rig.serve_all();
    rig.at_ms(16_200 + 21_000);
    rig.read(a, 32, 8);
    assert_eq!(rig.weight(a), 40);
    assert_eq!(rig.early.boosts, 2);
}

#[test]
fn without_low_latency_nobody_is_boosted() {
    let mut rig = Rig::new();
    rig.early.set(rig.now, "low_latency", 0, &mut rig.env.cx()).unwrap();
    let a = rig.proc();
    rig.read(a, 0, 8);
    assert_eq!(rig.weight(a), 4);
}

#[test]
fn c47_an_async_request_costs_eleven_times_its_size() {
    let mut rig = Rig::new();
    let a = rig.proc();
    rig.submit(a, Op::Write, 0, 8);
    let q = rig.early.b.ctxs.pairs[a.index()].other;
    assert_eq!(rig.early.b.charge_next(q), 88);
}

#[test]
fn c47_a_slot_that_times_out_is_charged_in_full() {
    let mut rig = Rig::new();
    let a = rig.proc();
    // Random: the estimate of the peak rate is not moved by a timeout, and the queue is not slow.
    for n in 0..40 {
        rig.read(a, (n * 7 % 40) << 20, 8);
    }
    let mut t = 0;
    let q = rig.q(a);
    let budget = rig.early.b.fair.ents[q].budget;
    assert_eq!(budget, 10_922);
    while rig.early.b.groups.tally().slots[1] == 0 {
        let Dispatch::Issue(id) = rig.dispatch() else { break };
        t += 60;
        rig.at_ms(t);
        rig.complete(id);
    }
    assert_eq!(rig.early.b.groups.tally().slots[1], 1, "one timeout");
    assert_eq!(rig.early.b.queues[q].slot.max_budget, 16_384);
    assert!(rig.early.b.groups.tally().time_charged > 10_000);
}

#[test]
fn random_readers_alone_do_not_shrink_the_largest_budget() {
    for (rotational, peak) in [(true, 9_333), (false, 22_000)] {
        let mut rig = Rig::of(Release::V1, rotational);
        let a = rig.proc();
        let mut t = 0;
        // Slots end by their time; were they counted, 32 would be enough.
        for n in 0..4_000 {
            rig.read(a, (n * 7 % 4_001) << 20, 8);
            while let Dispatch::Issue(id) = rig.dispatch() {
                t += 12;
                rig.at_ms(t);
                rig.complete(id);
            }
        }
        assert!(rig.early.b.groups.tally().slots[1] > 64, "slots that timed out");
        assert_eq!((rig.early.peak, rig.early.b.budgets.max), (peak, 16_384));
    }
}

#[test]
fn c47_a_queue_that_runs_dry_keeps_its_budget() {
    let mut rig = Rig::new();
    let (a, b) = (rig.proc(), rig.proc());
    rig.read(a, 0, 8);
    let q = rig.q(a);
    rig.early.extra(q).idle_window = false;
    rig.serve_all();
    rig.read(b, 1 << 20, 8);
    rig.fill();
    assert_ne!(rig.early.b.serving.queue, q);
    assert_eq!(rig.early.b.queues[q].slot.max_budget, 10_922);
    assert_eq!(rig.early.b.groups.tally().slots[3], 1, "no more requests");
}

#[test]
fn c48_a_queue_has_4_requests_in_flight_beside_others_and_16_alone() {
    let mut rig = Rig::new();
    let a = rig.proc();
    for n in 0..20 {
        rig.read(a, 8 * n, 8);
    }
    assert_eq!(rig.fill().len(), 16);

    let mut rig = Rig::new();
    let (a, b) = (rig.proc(), rig.proc());
    for n in 0..20 {
        rig.read(a, 8 * n, 8);
        rig.read(b, (1 << 20) + 8 * n, 8);
    }
    assert_eq!(rig.fill().len(), 4);
}

#[test]
fn c48_async_queues_wait_for_sync_requests_in_flight() {
    let mut rig = Rig::new();
    let (a, b) = (rig.proc(), rig.proc());
    rig.read(a, 0, 8);
    let q = rig.q(a);
    rig.early.extra(q).idle_window = false;
    let inside = rig.fill();
    rig.submit(b, Op::Write, 1 << 20, 8);
    assert_eq!(rig.dispatch(), Dispatch::Idle);
    for id in inside {
        rig.complete(id);
    }
    assert!(matches!(rig.dispatch(), Dispatch::Issue(_)));
}

#[test]
fn the_slot_limit_runs_from_the_first_completion() {
    let mut rig = Rig::new();
    let a = rig.proc();
    rig.read(a, 0, 8);
    rig.read(a, 8, 8);
    let q = rig.q(a);
    rig.early.low_latency = false;
    let inside = rig.fill();
    assert_eq!(rig.early.b.queues[q].slot.deadline, Past::at(NEVER));
    rig.at_ms(50);
    rig.complete(inside[0]);
    // The boost of a newborn multiplies it: weight 39 over 4.
    let limit = Nanos::ms(125) * 9;
    assert_eq!(rig.early.b.queues[q].slot.deadline, Past::at(rig.now + limit));
}

#[test]
fn random_loads_drain() {
    let mut x = 9_u64;
    let mut draw = |n: u64| {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        x % n
    };
    for round in 0..60 {
        let release = if round < 40 { Release::V1 } else { Release::V4 };
        let mut rig = Rig::of(release, round % 4 > 0);
        let procs: Vec<ProcId> = (0..5).map(|_| rig.proc()).collect();
        let (mut inside, mut given, mut done) = (Vec::new(), 0, 0);
        for _ in 0..600 {
            match draw(5) {
                0 | 1 => {
                    let op = if draw(4) == 0 { Op::Write } else { Op::Read };
                    let far = draw(3) << 24;
                    rig.submit(procs[draw(5) as usize], op, far + 8 * draw(1_000), 8);
                    given += 1;
                }
                2 => {
                    if let Dispatch::Issue(id) = rig.dispatch() {
                        inside.push(id);
                    }
                }
                3 if !inside.is_empty() => {
                    let at = draw(inside.len() as u64) as usize;
                    rig.complete(inside.swap_remove(at));
                    done += 1;
                }
                _ => {
                    let ms = rig.now.as_nanos() / 1_000_000 + draw(20);
                    rig.at_ms(ms);
                }
            }
            rig.early.b.check();
        }
        while let Some(id) = rig.early.drain(rig.now, &mut rig.env.cx()) {
            inside.push(id);
        }
        for id in inside.drain(..) {
            rig.complete(id);
            done += 1;
        }
        assert_eq!((given, rig.early.b.load.queued, rig.early.sync_inflight), (done, 0, 0));
        assert!(rig.early.b.serving.queue.is_none() || rig.early.b.load.inflight == 0);
    }
}
