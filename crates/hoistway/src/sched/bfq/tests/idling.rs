//! C23 to C32 (C33 on need layers that are not here): the device is kept idle, or not.

use super::rig::Rig;
use crate::group::ProcId;
use crate::request::ReqId;
use crate::sched::Dispatch;
use crate::sched::bfq::idle::HwTag;
use crate::sched::bfq::ids::{Id, QueueNo};
use crate::stage::{Change, Stage};
use crate::unit::{IoPrio, Nanos};
use alloc::vec::Vec;

/// A is in service with one request in the device, B has `b` pending ones.
fn a_in_service(mut rig: Rig, a: IoPrio, b: IoPrio, pending: u64) -> (Rig, ProcId, ProcId, ReqId) {
    let (a, b) = (rig.proc(a), rig.proc(b));
    rig.read(a, 1_000, 64);
    let (id, by) = rig.issue();
    assert_eq!(by, a);
    for n in 0..pending {
        rig.read(b, (1 << 24) + 8 * n, 8);
    }
    rig.expiries();
    (rig, a, b, id)
}

const BE4: IoPrio = IoPrio::be(4);

#[test]
fn c23_a_disk_is_kept_idle_for_a_sequential_reader() {
    let (mut rig, a, b, id) = a_in_service(Rig::hdd(), BE4, BE4, 4);
    rig.at_ms(5);
    rig.complete(id);
    assert!(rig.queue(a).slot.waiting);
    assert_eq!(rig.sched.next_timer(), Some(rig.now + Nanos::ms(8)));
    assert_eq!(rig.dispatch(), Dispatch::Idle);
    assert!(!rig.kicked());

    rig.at_ms(8);
    rig.read(a, 1_064, 64);
    assert_eq!(rig.sched.next_timer(), None);
    let (id, by) = rig.issue();
    assert_eq!((by, rig.expiries()), (a, Vec::new()));
    rig.at_ms(10);
    rig.complete(id);
    rig.fire_timer();
    assert_eq!(rig.now.as_nanos(), 18_000_000);
    let q = rig.q(a);
    assert_eq!(rig.expiries(), [(q, "too idle")]);
    assert!(rig.kicked());
    assert_eq!(rig.issue().1, b);
}

#[test]
fn c23_a_seeky_queue_is_waited_for_only_2_ms() {
    let (mut rig, a, _, id) = a_in_service(Rig::hdd(), BE4, BE4, 1);
    rig.queue(a).seek.recall((1 << 20) - 1);
    rig.complete(id);
    assert_eq!(rig.sched.next_timer(), Some(rig.now + Nanos::ms(2)));
    let (mut rig, a, _, id) = a_in_service(Rig::hdd(), BE4, BE4, 1);
    rig.queue(a).seek.recall((1 << 19) - 1);
    rig.complete(id);
    assert_eq!(rig.sched.next_timer(), Some(rig.now + Nanos::ms(8)));
    // Unequal weights: the full time, whatever the history.
    let (mut rig, a, _, id) = a_in_service(Rig::hdd(), IoPrio::be(0), BE4, 1);
    rig.queue(a).seek.recall(u32::MAX);
    rig.complete(id);
    assert_eq!(rig.sched.next_timer(), Some(rig.now + Nanos::ms(8)));
}

#[test]
fn c24_a_small_request_does_not_end_the_wait() {
    let (mut rig, a, _, id) = a_in_service(Rig::hdd(), BE4, BE4, 4);
    rig.complete(id);
    rig.at_ms(3);
    rig.read(a, 1_064, 8);
    assert!(rig.queue(a).slot.waiting && rig.sched.next_timer().is_some() && !rig.kicked());
    // A second one does.
    rig.read(a, 1_080, 8);
    assert!(!rig.queue(a).slot.waiting && rig.sched.next_timer().is_none());

    // So does a dispatch.
    let (mut rig, a, _, id) = a_in_service(Rig::hdd(), BE4, BE4, 4);
    rig.complete(id);
    rig.read(a, 1_064, 8);
    assert_eq!(rig.issue().1, a);
    assert!(!rig.queue(a).slot.waiting && rig.sched.next_timer().is_none());

    // A timer that fires first does not expire the queue.
    let (mut rig, a, _, id) = a_in_service(Rig::hdd(), BE4, BE4, 4);
    rig.complete(id);
    rig.read(a, 1_064, 8);
    rig.fire_timer();
    assert_eq!(rig.expiries(), []);
    assert!(rig.in_service(a) && rig.kicked());
    assert_eq!(rig.issue().1, a);
}

#[test]
fn c25_an_empty_queue_expires_when_others_have_requests() {
    let mut rig = Rig::ssd();
    let [a, b] = rig.procs();
    rig.read(a, 1_000, 8);
    rig.read(b, 1 << 24, 8);
    rig.read(b, (1 << 24) + 8, 8);
    let (first, by) = rig.issue();
    assert_eq!(by, a);
    let q = rig.q(a);
    assert!(rig.in_service(a));
    // In flight, but not worth waiting for.
    rig.expiries();
    assert_eq!(rig.issue().1, b);
    assert_eq!(rig.expiries(), [(q, "no more requests")]);
    rig.complete(first);
}

#[test]
fn c25_flash_is_kept_idle_for_the_only_busy_queue() {
    let (mut rig, a, _, id) = a_in_service(Rig::ssd(), BE4, BE4, 0);
    rig.complete(id);
    assert!(rig.queue(a).slot.waiting);
    assert_eq!(rig.sched.next_timer(), Some(rig.now + Nanos::ms(8)));
}

#[test]
fn c26_flash_is_kept_idle_for_the_heavier_queue_only() {
    let (mut rig, a, _, id) = a_in_service(Rig::ssd(), IoPrio::be(0), BE4, 1);
    rig.complete(id);
    assert!(rig.queue(a).slot.waiting);
    assert_eq!(rig.dispatch(), Dispatch::Idle);

    // B, the lightest, is not waited for. A has run out of time and is charged for a whole slot.
    let mut rig = Rig::ssd();
    let (a, b) = (rig.proc(IoPrio::be(0)), rig.proc(BE4));
    rig.read(a, 1_000, 8);
    rig.read(a, 1_008, 8);
    rig.issue();
    rig.read(b, 1 << 24, 8);
    rig.at_ms(130);
    let (id, by) = rig.issue();
    assert_eq!(by, b);
    let q = rig.q(b);
    rig.expiries();
    rig.complete(id);
    assert!(!rig.queue(b).slot.waiting);
    assert_eq!(rig.expiries(), [(q, "no more requests")]);
    assert_eq!(rig.issue().1, a);
}

#[test]
fn c27_a_service_hole_is_recovered_by_preemption() {
    for (ms, budget, preempts) in [(15, 8_874, true), (30, 8_874, false)] {
        let mut rig = Rig::hdd();
        let [a, b] = rig.procs();
        rig.read(a, 1_000, 8);
        let (id, _) = rig.issue();
        for n in 0..4 {
            rig.read(b, (1 << 24) + 8 * n, 8);
        }
        rig.at_us(500);
        rig.complete(id);
        rig.fire_timer();
        let (q, qb) = (rig.q(a), rig.q(b));
        assert_eq!(rig.expiries(), [(q, "too idle")]);
        assert_eq!((rig.ent(a).budget, rig.ent(a).service), (10_922, 8));
        assert!(rig.queue(a).slot.hole);
        assert_eq!(rig.queue(a).slot.max_budget, 8_874);
        assert_eq!(rig.issue().1, b);
        let finish = rig.ent(a).finish;
        let (b_budget, b_max) = (rig.ent(b).budget, rig.queue(b).slot.max_budget);
        rig.at_us(500 + 1_000 * ms);
        rig.read(a, 1_008, 8);
        assert_eq!((rig.ent(a).budget, rig.queue(a).slot.hole), (budget, false));
        if preempts {
            assert_eq!(rig.expiries(), [(qb, "preempted")]);
            assert_eq!((rig.ent(b).budget, rig.queue(b).slot.max_budget), (b_budget, b_max));
            assert!(!rig.ent(a).start.after(finish) || rig.ent(a).start == finish);
            assert_eq!(rig.issue().1, a);
        } else {
            assert_eq!(rig.expiries(), []);
            assert_eq!(rig.issue().1, b);
        }
    }
}

#[test]
fn c28_where_idling_is_pointless_every_newcomer_forces_a_choice() {
    let mut rig = Rig::ssd();
    let [b, c] = rig.procs();
    rig.read(b, 1_000, 8);
    rig.read(b, 1_008, 8);
    rig.issue();
    let q = rig.q(b);
    let start = rig.ent(b).start.0;
    rig.expiries();
    rig.read(c, 1 << 24, 8);
    assert_eq!(rig.expiries(), [(q, "preempted")]);
    // Requeued with what it received.
    assert_eq!(rig.ent(b).start.0 - start, crate::sched::bfq::wf2q::delta(8, 40));
    assert_eq!(rig.sched.serving.queue, QueueNo::NONE);
}

#[test]
fn c29_a_larger_weight_or_higher_class_preempts() {
    for (prio, preempts) in
        [(IoPrio::be(0), true), (IoPrio::rt(7), true), (IoPrio::be(7), false), (BE4, false)]
    {
        let mut rig = Rig::hdd();
        let [b] = rig.procs();
        let c = rig.proc(prio);
        rig.read(b, 1_000, 64);
        rig.read(b, 1_064, 64);
        rig.issue();
        let q = rig.q(b);
        rig.expiries();
        rig.read(c, 1 << 24, 8);
        let expected: &[_] = if preempts { &[(q, "preempted")] } else { &[] };
        assert_eq!(rig.expiries(), expected, "{prio}");
    }
}

#[test]
fn c30_a_queue_preempted_while_it_is_waited_for_stays_busy() {
    let (mut rig, a, _, id) = a_in_service(Rig::ssd(), IoPrio::be(0), BE4, 1);
    rig.complete(id);
    assert!(rig.queue(a).slot.waiting);
    let r = rig.proc(IoPrio::rt(4));
    rig.read(r, 1 << 26, 8);
    let q = rig.q(a);
    assert_eq!(rig.expiries(), [(q, "preempted")]);
    assert!(rig.ent(a).busy && rig.queue(a).rqs.queued == 0 && !rig.queue(a).slot.waiting);
    assert_eq!(rig.sched.next_timer(), None);
    let (id, by) = rig.issue();
    assert_eq!(by, r);
    rig.complete(id);
    rig.exit(r);
    // A is selected again, empty: it ends at a dispatch attempt while B has a request.
    rig.expiries();
    while rig.sched.load.queued > 0 {
        rig.issue();
    }
    let ends = rig.expiries();
    assert!(ends.contains(&(q, "no more requests")), "{ends:?}");
    assert!(!rig.ent(a).busy);
}

#[test]
fn c30_nothing_is_decided_while_nothing_is_queued() {
    let (mut rig, a, _, id) = a_in_service(Rig::ssd(), BE4, BE4, 0);
    assert_eq!(rig.dispatch(), Dispatch::Empty);
    assert!(rig.in_service(a) && rig.ent(a).busy);
    assert_eq!(rig.expiries(), []);
    rig.complete(id);
    assert_eq!(rig.dispatch(), Dispatch::Empty);
    assert!(rig.queue(a).slot.waiting);
}

#[test]
fn c31_strict_guarantees_allow_one_request_in_the_device_and_always_idle() {
    let mut rig = Rig::ssd();
    rig.set("slice_idle", 0);
    rig.set("strict_guarantees", 1);
    assert_eq!(rig.sched.value("slice_idle"), Some(8));
    let [a, b] = rig.procs();
    rig.read(a, 1_000, 8);
    rig.read(b, 1 << 24, 8);
    rig.read(b, (1 << 24) + 8, 8);
    let (id, by) = rig.issue();
    assert_eq!((by, rig.dispatch()), (a, Dispatch::Idle));
    rig.complete(id);
    assert!(rig.queue(a).slot.waiting);
    assert_eq!(rig.dispatch(), Dispatch::Idle);
    rig.fire_timer();
    assert_eq!(rig.issue().1, b);
}

#[test]
fn c32_the_33rd_valid_sample_decides_on_command_queueing() {
    let mut rig = Rig::sized(false, 2048);
    let [a] = rig.procs();
    let mut at = 0;
    let mut inside: Vec<ReqId> = Vec::new();
    for done in 0..40 {
        while inside.len() < 8 {
            at += 8;
            rig.read(a, at, 8);
            inside.push(rig.issue().0);
        }
        let expected = if done < 33 { HwTag::Unknown } else { HwTag::Yes };
        assert_eq!(rig.sched.ncq.tag, expected, "after {done}");
        let id = inside.remove(0);
        rig.complete(id);
    }

    let mut rig = Rig::sized(false, 2048);
    let [a] = rig.procs();
    for n in 0..200 {
        rig.read(a, 8 * n, 8);
        let (id, _) = rig.issue();
        rig.complete(id);
    }
    assert_eq!(rig.sched.ncq.tag, HwTag::Unknown);
}

#[test]
fn a_disk_that_never_holds_more_than_three_commands_has_no_queueing() {
    let mut rig = Rig::sized(true, 2048);
    let [a] = rig.procs();
    for n in 0..60 {
        rig.read(a, 8 * n, 8);
    }
    for _ in 0..40 {
        let (id, _) = rig.issue();
        rig.complete(id);
    }
    assert_eq!(rig.sched.ncq.tag, HwTag::No);
}

#[test]
fn a_queue_whose_issuer_thinks_long_is_not_waited_for_on_a_disk_with_queueing() {
    let mut rig = Rig::sized(true, 2048);
    rig.sched.ncq.tag = HwTag::Yes;
    let [a, b] = rig.procs();
    rig.read(b, 1 << 24, 8);
    rig.read(b, (1 << 24) + 8, 8);
    let mut t = 0;
    for n in 0..4 {
        rig.at_ms(t);
        rig.read(a, 1_000 + 8 * n, 8);
        let q = rig.q(a);
        while rig.sched.serving.queue != q || rig.queue(a).rqs.queued > 0 {
            if let Dispatch::Issue(id) = rig.dispatch() {
                let by = rig.env.requests[id].proc;
                rig.complete(id);
                if by == b {
                    rig.read(b, (1 << 24) + 16 + t, 8);
                } else {
                    break;
                }
            } else {
                rig.fire_timer();
            }
        }
        t += 30;
    }
    // Samples are clipped at 16 ms; the mean is far above half of slice_idle.
    assert!(
        rig.queue(a).think.average.samples() > 80 && rig.queue(a).think.average.mean() > 4_000_000
    );
    assert!(!rig.queue(a).think.short);
    let q = rig.q(a);
    assert!(!rig.sched.thr_idling(q));
}

#[test]
fn a_first_think_time_of_16_ms_makes_the_issuer_look_slow_at_first() {
    for (long, mean, short) in [(0, 1, true), (1, 4_666_668, false)] {
        let mut rig = Rig::ssd();
        rig.set("first_think", long);
        let [a] = rig.procs();
        for n in 0..3 {
            rig.read(a, 8 * n, 8);
            let (id, _) = rig.issue();
            rig.complete(id);
            rig.fire_timer();
            rig.queue(a).think.last_end = rig.now.as_nanos();
        }
        assert_eq!((rig.queue(a).think.average.mean(), rig.queue(a).think.short), (mean, short));
    }
}

#[test]
fn the_exit_of_the_last_user_ends_the_slot_and_frees_the_queue() {
    let (mut rig, a, b, id) = a_in_service(Rig::hdd(), BE4, BE4, 1);
    rig.complete(id);
    assert!(rig.queue(a).slot.waiting);
    rig.exit(a);
    assert_eq!((rig.sched.serving.queue, rig.sched.next_timer()), (QueueNo::NONE, None));
    assert!(rig.kicked());
    assert_eq!(rig.issue().1, b);
    // Its number is given to the next process once virtual time has passed it.
    for n in 0..200 {
        rig.read(b, (1 << 24) + 8 + 64 * n, 64);
        if let Dispatch::Issue(id) = rig.dispatch() {
            rig.complete(id);
        }
    }
    let queues = rig.sched.queues.len();
    let [c] = rig.procs();
    rig.read(c, 0, 8);
    assert_eq!(rig.sched.queues.len(), queues);
}

#[test]
fn a_device_that_turns_out_to_be_flash_is_treated_as_such() {
    let mut rig = Rig::hdd();
    rig.env.device.rotational = false;
    rig.sched.changed(rig.now, &Change::Device, &mut rig.env.cx());
    assert!(!rig.sched.rotational);
}

#[test]
fn c45_the_pool_is_shared_by_weight() {
    use crate::request::{Flags, Op};
    use crate::sched::Depth;
    let mut rig = Rig::ssd();
    let [a] = rig.procs();
    let b = rig.proc(IoPrio::be(4));
    assert_eq!(rig.env.device.nr_requests, 256);
    let limit = |rig: &mut Rig, p, op, flags| {
        let io = rig.io(p, op, 0, 8, flags);
        let cx = rig.env.cx();
        rig.sched.pool_limit(&io, &cx)
    };
    assert_eq!(limit(&mut rig, a, Op::Read, Flags::NONE), Depth::Usual);
    assert_eq!(limit(&mut rig, a, Op::Write, Flags::NONE), Depth::Word(32));
    assert_eq!(limit(&mut rig, a, Op::Write, Flags::SYNC), Depth::Word(48));
    // Async queues of weights 50 and 40.
    let c = rig.proc(IoPrio::be(3));
    rig.write(c, 1 << 20, 8);
    let other = rig.sched.ctxs.pairs[c.index()].other;
    let tree = rig.sched.fair.tree(other.into()).wsum;
    assert_eq!(tree, 50);
    for n in 0..56 {
        rig.write(b, 8 * n, 8);
    }
    // 128 * 40 / 90 = 56.9, rounded to 57.
    assert_eq!(limit(&mut rig, b, Op::Write, Flags::NONE), Depth::Word(32));
    rig.write(b, 8 * 56, 8);
    assert_eq!(limit(&mut rig, b, Op::Write, Flags::NONE), Depth::Word(1));
}
