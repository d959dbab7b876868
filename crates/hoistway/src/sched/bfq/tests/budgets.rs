//! C11 to C22: budgets, charging, expiry, the peak rate.

use super::rig::Rig;
use crate::group::ProcId;
use crate::request::{Flags, Op, ReqId};
use crate::sched::bfq::ids::RqNo;
use crate::sched::bfq::rate::{Dispatched, PeakRate};
use crate::sched::bfq::slot::Reason;
use crate::sched::bfq::wf2q::RT;
use crate::sched::bfq::wf2q::delta;
use crate::sched::{At, Dispatch};
use crate::unit::{Class, Instant, IoPrio, Nanos};
use alloc::vec::Vec;

#[test]
fn c11_the_first_budget_is_two_thirds_or_the_first_request() {
    let mut rig = Rig::hdd();
    let [a, b] = rig.procs();
    rig.read(a, 0, 8);
    rig.read(b, 1 << 20, 12_000);
    assert_eq!((rig.queue(a).slot.max_budget, rig.ent(a).budget), (10_922, 10_922));
    assert_eq!((rig.queue(b).slot.max_budget, rig.ent(b).budget), (10_922, 12_000));
}

#[test]
fn c12_the_estimate_is_trusted_after_eleven_slots() {
    let mut rig = Rig::ssd();
    rig.sched.budgets.max = 20_000;
    let mut seen = Vec::new();
    for n in 0..13u64 {
        rig.at_ms(10 * n);
        let [p] = rig.procs();
        rig.read(p, 1000 * n, 8);
        seen.push(rig.queue(p).slot.max_budget);
        let (id, _) = rig.issue();
        rig.complete(id);
        rig.exit(p);
        let trust = [32, 60, 84, 105, 123, 139, 153, 165, 176, 186, 194];
        if let Some(&b) = trust.get(n as usize) {
            assert_eq!(rig.sched.budgets.assigned, b);
        }
    }
    assert_eq!(seen, [[10_922; 11].as_slice(), &[13_333; 2]].concat());
}

/// Sequential requests of one queue, dispatched over `ms` milliseconds until it has no more or expires.
/// Returns the sectors served; the requests stay in the device.
fn serve(rig: &mut Rig, proc: ProcId, requests: u64, sectors: u64, random: bool) -> u64 {
    for n in 0..requests {
        let start = if random { (n * 7919) % 1000 * 10_000 } else { n * sectors };
        rig.read(proc, 1_000_000 + start, sectors);
    }
    let mut served = 0;
    while let Dispatch::Issue(_) = rig.dispatch() {
        served += sectors;
        if rig.queue(proc).rqs.queued == 0 {
            break;
        }
    }
    served
}

#[test]
fn c13_an_exhausted_budget_grows_fourfold() {
    let mut rig = Rig::hdd();
    let [a, b] = rig.procs();
    for n in 0..44 {
        rig.read(a, 10_000 + 256 * n, 256);
    }
    let mut last = None;
    for _ in 0..42 {
        last = Some(rig.issue());
    }
    assert_eq!(last.unwrap().1, a);
    rig.read(b, 1 << 30, 8);
    assert_eq!((rig.ent(a).service, rig.ent(a).left()), (10_752, 170));
    rig.at_ms(60);
    let start = rig.ent(a).start.0;
    rig.issue();
    let q = rig.q(a);
    assert_eq!(rig.expiries(), [(q, "budget exhausted")]);
    assert_eq!(rig.ent(a).start.0 - start, 1_127_428_915);
    assert_eq!((rig.queue(a).slot.max_budget, rig.ent(a).budget), (16_384, 16_384));
    assert_eq!(rig.sched.stats.time_charges, 0);
}

#[test]
fn c14_a_random_reader_is_charged_for_its_time() {
    let mut rig = Rig::hdd();
    let [a, b] = rig.procs();
    assert_eq!(serve(&mut rig, a, 30, 8, true), 240);
    rig.read(b, 1 << 30, 8);
    rig.read(a, 1 << 25, 8);
    assert_eq!(rig.ent(a).service, 240);
    let start = rig.ent(a).start.0;
    rig.at_ms(130);
    rig.issue();
    let q = rig.q(a);
    assert_eq!(rig.expiries(), [(q, "budget timeout")]);
    assert_eq!(rig.sched.groups.tally().time_charged, 16_384 - 240);
    assert_eq!(rig.ent(a).start.0 - start, 1_717_986_918);
    assert_eq!(rig.queue(a).slot.max_budget, 16_384);
}

#[test]
fn c15_a_timeout_with_a_third_left_is_charged_for_time() {
    for (budget, service, charged) in [(10_922, 8_448, 8_448), (16_384, 10_240, 16_384)] {
        let mut rig = Rig::hdd();
        let [a] = rig.procs();
        rig.read(a, 1000, 8);
        rig.issue();
        rig.read(a, 1008, 8);
        let q = rig.q(a);
        rig.sched.fair.serve(q, service - 8);
        rig.ent(a).budget = budget;
        let start = rig.ent(a).start.0;
        rig.at_ms(126);
        rig.sched.expire(rig.now, q, false, Reason::Timeout, &mut rig.env.cx());
        assert_eq!(rig.ent(a).start.0 - start, delta(charged, 40));
        assert_eq!(rig.ent(a).service, 0);
    }
}

#[test]
fn c16_a_part_of_the_slot_is_charged_for_a_part_of_the_time() {
    let mut rig = Rig::hdd();
    let [a] = rig.procs();
    rig.read(a, 1000, 8);
    let (id, _) = rig.issue();
    rig.at_ms(50);
    let q = rig.q(a);
    rig.sched.fair.serve(q, 92);
    rig.queue(a).seek.recall(u32::MAX);
    rig.sched.expire(rig.now, q, false, Reason::NoMore, &mut rig.env.cx());
    assert_eq!((rig.ent(a).service, rig.queue(a).slot.max_budget), (6_553, 6_553));
    rig.complete(id);
}

/// One slot of `ms` with that much service, ended for `reason`; the new budget.
fn adapted(max_budget: u64, ms: u64, service: u64, in_flight: bool, reason: Reason) -> u64 {
    let mut rig = Rig::hdd();
    let [a] = rig.procs();
    rig.read(a, 1000, 8);
    let (id, _) = rig.issue();
    let q = rig.q(a);
    rig.queue(a).slot.max_budget = max_budget;
    rig.sched.fair.serve(q, service - 8);
    rig.at_us(1000 * ms + 500);
    if !in_flight {
        rig.queue(a).rqs.inflight = 0;
    }
    rig.sched.expire(rig.now, q, false, reason, &mut rig.env.cx());
    rig.queue(a).rqs.inflight = u32::from(in_flight);
    if in_flight {
        rig.complete(id);
    }
    rig.queue(a).slot.max_budget
}

#[test]
fn c17_a_queue_that_stays_idle_shrinks() {
    assert_eq!(adapted(10_922, 0, 8, false, Reason::TooIdle), 8_874);
    assert_eq!(adapted(2_000, 0, 8, false, Reason::TooIdle), 512);
    assert_eq!(adapted(10_922, 0, 8, true, Reason::TooIdle), 16_384);
}

#[test]
fn c18_a_queue_without_more_requests_gets_what_it_used() {
    assert_eq!(adapted(10_922, 10, 128, false, Reason::NoMore), 512);
    assert_eq!(adapted(10_922, 10, 700, false, Reason::NoMore), 700);
}

#[test]
fn c19_a_preempted_queue_keeps_its_budget() {
    assert_eq!(adapted(4_000, 10, 128, false, Reason::Preempted), 4_000);
    let mut rig = Rig::ssd();
    let [a] = rig.procs();
    rig.write(a, 0, 8);
    rig.write(a, 8, 8);
    rig.issue();
    let q = rig.sched.ctxs.pairs[a.index()].other;
    rig.sched.queues[q].slot.max_budget = 4_000;
    rig.sched.expire(rig.now, q, false, Reason::Preempted, &mut rig.env.cx());
    assert_eq!(rig.sched.queues[q].slot.max_budget, 16_384);
    // Raised: twice the smallest budget.
    let mut rig = Rig::ssd();
    let [a] = rig.procs();
    rig.read(a, 0, 8);
    rig.read(a, 8, 8);
    rig.issue();
    let q = rig.q(a);
    rig.ent(a).wr = 30;
    rig.sched.fair.census.wr_busy = 1;
    let e = &mut rig.sched.fair.ents[q];
    rig.sched.fair.census.uncount(e);
    rig.sched.expire(rig.now, q, false, Reason::Preempted, &mut rig.env.cx());
    assert_eq!(rig.queue(a).slot.max_budget, 1_024);
}

#[test]
fn c20_an_async_request_costs_three_times_when_all_weigh_alike() {
    for (prio, cost) in
        [(IoPrio::be(4), 24), (IoPrio::be(0), 24), (IoPrio::be(7), 8), (IoPrio::rt(4), 8)]
    {
        let mut rig = Rig::ssd();
        let reader = rig.proc(prio);
        let [writer] = rig.procs();
        rig.read(reader, 0, 8);
        rig.write(writer, 1 << 20, 8);
        let q = rig.sched.ctxs.pairs[writer.index()].other;
        assert_eq!(rig.sched.charge_next(q), cost, "sync queue of {prio}");
        let q = rig.q(reader);
        assert_eq!(rig.sched.charge_next(q), 8);
    }
}

fn sequential(n: u64, len: u64, inflight: u32) -> Dispatched {
    Dispatched { pos: 1_000 + n * len, len, inflight, rotational: true }
}

#[test]
fn c21_a_second_of_sequential_service_moves_the_peak_rate() {
    let mut rate = PeakRate::new(true);
    assert_eq!(rate.peak, 9_333);
    let at = |n: u64| Instant::ZERO + Nanos::us(1_280 * n);
    for n in 0..782 {
        assert!(!rate.dispatched(at(n), sequential(n, 256, 1)));
        assert!(!rate.completed(at(n) + Nanos::us(600)));
    }
    assert!(rate.dispatched(at(782), sequential(782, 256, 1)));
    assert_eq!(rate.peak, 11_227);
    assert_eq!(rate.max_budget(125), 21_413);
}

#[test]
fn q30_the_first_completion_follows_a_pause_since_instant_0() {
    // Whoever was made at `made` ms sees the second request at the head of the first whole interval.
    let moves_at = |made: u64| {
        let mut rate = PeakRate::new(true);
        let at = |n: u64| Instant::ZERO + Nanos::ms(made) + Nanos::us(1_280 * n);
        let moves = |n: &u64| {
            let moved = rate.dispatched(at(*n), sequential(*n, 256, 1));
            moved | rate.completed(at(*n) + Nanos::us(600))
        };
        (0..1_000).find(moves)
    };
    assert_eq!((moves_at(0), moves_at(5_000)), (Some(782), Some(783)));
}

#[test]
fn c21_a_pause_closes_a_shorter_interval_with_less_weight() {
    let mut rate = PeakRate::new(true);
    let at = |n: u64| Instant::ZERO + Nanos::us(1_280 * n);
    for n in 0..313 {
        assert!(!rate.dispatched(at(n), sequential(n, 256, 1)));
        rate.last_completion = at(n);
    }
    assert!(rate.dispatched(at(312) + Nanos::ms(101), sequential(313, 256, 0)));
    assert_eq!(rate.peak, 9_877);
}

#[test]
fn c22_random_service_does_not_lower_the_peak_rate() {
    for (n, accepted, peak) in [(800u64, 0, 9_333), (60_000, 1, 11_544)] {
        let mut rate = PeakRate::new(true);
        for i in 0..=n {
            let now = Instant::from_nanos(i * 1_000_000_000 / n);
            let pos = 10_000 + (i % 2) * 1_000_000;
            let r = Dispatched { pos, len: 8, inflight: 1, rotational: true };
            rate.dispatched(now, r);
            rate.last_completion = now;
        }
        assert_eq!((rate.accepted, rate.rejected, rate.peak), (accepted, 1 - accepted, peak));
    }
}

#[test]
fn the_estimate_becomes_the_largest_budget_unless_one_is_set() {
    let mut rig = Rig::hdd();
    rig.set("timeout_sync", 125);
    assert_eq!(rig.sched.budgets.max, 9_333 * 125_000 / 65_536);
    rig.set("max_budget", 4_000);
    assert_eq!(rig.sched.budgets.max, 4_000);
    rig.set("timeout_sync", 250);
    assert_eq!(rig.sched.budgets.max, 4_000);
    rig.set("max_budget", 0);
    assert_eq!(rig.sched.budgets.max, 9_333 * 250_000 / 65_536);
}

#[test]
fn an_expired_request_is_served_once_per_slot_out_of_order() {
    let mut rig = Rig::hdd();
    let [a] = rig.procs();
    let old = rig.read(a, 500_000, 8);
    rig.at_ms(10);
    let rest: Vec<ReqId> = (0..4).map(|n| rig.read(a, 8 * n, 8)).collect();
    // The nearest to position 0 first, at an instant when only the first arrival has expired.
    rig.at_ms(125);
    let order: Vec<ReqId> = (0..5).map(|_| rig.issue().0).collect();
    assert_eq!(order[..2], [rest[0], old]);
    // Then the next sweep, from the lowest position.
    assert_eq!(order[2..], rest[1..]);
}

#[test]
fn metadata_and_forward_distance_decide_which_request_is_next() {
    let mut rig = Rig::hdd();
    let [a] = rig.procs();
    rig.sched.rate.last_pos = 100_000;
    rig.read(a, 100_100, 8);
    // Behind counts twice: 49 sectors behind are nearer than 100 ahead, 51 are not.
    let behind = rig.read(a, 99_951, 8);
    assert_eq!(rig.queue(a).rqs.next, behind.into());
    // Out of the arm's reach behind: the next sweep.
    rig.sched.rate.last_pos = 1 << 30;
    assert_eq!(rig.sched.better(RqNo(0), RqNo(1), 1 << 30), RqNo(1));
    let io = rig.io(a, Op::Read, 5, 8, Flags::META);
    let meta = rig.submit(io, At::Tail);
    assert_eq!(rig.queue(a).rqs.next, meta.into());
}

#[test]
fn the_priority_of_a_process_is_read_at_every_insertion() {
    let mut rig = Rig::ssd();
    let [a, b] = rig.procs();
    rig.read(b, 0, 8);
    rig.read(a, 1 << 20, 8);
    rig.write(a, 1 << 21, 8);
    let old = rig.sched.ctxs.pairs[a.index()].other;
    rig.env.procs.get_mut(a).unwrap().prio = IoPrio::new(Class::Rt, 2).unwrap();
    assert_eq!(rig.ent(a).new_weight, 40);
    rig.read(a, (1 << 20) + 8, 8);
    assert_eq!((rig.ent(a).weight, rig.ent(a).new_weight, rig.ent(a).prio_dirty), (40, 60, true));
    rig.write(a, (1 << 21) + 8, 8);
    assert_ne!(rig.sched.ctxs.pairs[a.index()].other, old);
    // Lazily: the class changes when the queue is enqueued again.
    for _ in 0..5 {
        if let Dispatch::Issue(id) = rig.dispatch() {
            rig.complete(id);
        }
    }
    rig.read(a, 1 << 22, 8);
    assert_eq!((rig.ent(a).weight, rig.ent(a).class), (60, RT));
}
