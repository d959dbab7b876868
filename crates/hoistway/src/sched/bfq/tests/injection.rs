//! C33 and C34: gaps are filled with requests of others.

use super::rig::Rig;
use crate::group::ProcId;
use crate::sched::Dispatch;
use crate::sched::bfq::queue::past::Past;
use crate::sched::bfq::queue::think::Average;
use crate::unit::{IoPrio, Nanos};

/// A (level 0) alone in service, its gaps measured: base 2 ms, limit 1, A just empty at 12 ms. P has
/// pending requests of that length.
fn measured(len: u64) -> (Rig, ProcId, ProcId) {
    let mut rig = Rig::ssd();
    let (a, p) = (rig.proc(IoPrio::be(0)), rig.proc(IoPrio::be(4)));
    rig.read(a, 1_000, 8);
    let (id, _) = rig.issue();
    for n in 0..20 {
        rig.read(p, (1 << 24) + len * n, len);
    }
    rig.at_ms(2);
    rig.complete(id);
    assert_eq!((rig.queue(a).inject.limit, rig.queue(a).inject.base), (0, Nanos::ZERO));
    assert_eq!(rig.dispatch(), Dispatch::Idle);
    // Less than 10 ms after the reset: not measured.
    rig.at_ms(4);
    rig.read(a, 1_008, 8);
    let (id, by) = rig.issue();
    assert_eq!(by, a);
    rig.at_ms(6);
    rig.complete(id);
    assert_eq!(rig.queue(a).inject.base, Nanos::ZERO);
    rig.at_ms(10);
    rig.read(a, 1_016, 8);
    let (id, _) = rig.issue();
    rig.at_ms(12);
    rig.complete(id);
    assert_eq!((rig.queue(a).inject.limit, rig.queue(a).inject.base), (1, Nanos::ms(2)));
    (rig, a, p)
}

#[test]
fn c33_one_request_is_injected_once_the_service_time_is_known() {
    let (mut rig, _, p) = measured(8);
    assert_eq!(rig.issue().1, p);
    assert_eq!(rig.dispatch(), Dispatch::Idle);
    assert_eq!(rig.sched.stats.injected_general, 1);
}

#[test]
fn c33_the_limit_grows_while_the_service_time_stays_below_one_and_a_half_of_the_base() {
    for (total_us, limit) in [(2_900, 2), (3_000, 0)] {
        let (mut rig, a, _) = measured(8);
        let (injected, _) = rig.issue();
        rig.at_ms(13);
        rig.read(a, 1_024, 8);
        let (id, by) = rig.issue();
        assert_eq!(by, a);
        rig.complete(injected);
        rig.at_us(13_000 + total_us);
        rig.complete(id);
        assert_eq!(rig.queue(a).inject.limit, limit);
        if limit == 0 {
            // No measurement for 10 ms.
            rig.at_ms(25);
            rig.read(a, 1_032, 8);
            assert!(!rig.sched.measure.wait_dispatch);
            let (id, _) = rig.issue();
            rig.at_ms(26);
            rig.complete(id);
            rig.read(a, 1_040, 8);
            assert!(rig.sched.measure.wait_dispatch);
        }
    }
}

#[test]
fn c33_a_large_request_is_injected_only_into_an_idle_flash_device() {
    let (mut rig, a, p) = measured(64);
    rig.queue(a).inject.limit = 2;
    assert_eq!(rig.issue().1, p);
    assert_eq!(rig.dispatch(), Dispatch::Idle);
    // 6.1 lets even limit 2 through for small ones only.
    let (mut rig, a, p) = measured(8);
    rig.queue(a).inject.limit = 2;
    assert_eq!((rig.issue().1, rig.issue().1), (p, p));
    assert_eq!(rig.dispatch(), Dispatch::Idle);
}

#[test]
fn c33_a_limit_that_was_not_lowered_for_a_second_is_learnt_anew() {
    let (mut rig, a, _) = measured(8);
    rig.at_ms(999);
    rig.queue(a).slot.deadline = Past::at(rig.now);
    rig.read(a, 1_024, 8);
    assert_eq!(rig.queue(a).inject.limit, 1);
    rig.serve_all();
    rig.at_ms(1_001);
    rig.read(a, 1_032, 8);
    assert_eq!((rig.queue(a).inject.limit, rig.queue(a).inject.base), (0, Nanos::ZERO));
}

#[test]
fn without_injection_the_device_waits() {
    let (mut rig, _, _) = measured(8);
    rig.set("injection", 0);
    assert_eq!(rig.dispatch(), Dispatch::Idle);
}

/// q (level 0, long think time) gets three requests, each 1 ms after a completion of w.
fn woken_three_times() -> (Rig, ProcId, ProcId) {
    let mut rig = Rig::ssd();
    let (q, w) = (rig.proc(IoPrio::be(0)), rig.proc(IoPrio::be(4)));
    rig.read(q, 1_000, 8);
    rig.serve_all();
    rig.queue(q).think.average = Average::of(16_000_000);
    for n in 1..=3 {
        rig.at_ms(40 * n);
        rig.fire_timer_if_due();
        rig.read(w, (1 << 24) + 8 * n, 8);
        rig.serve_all();
        rig.at_ms(40 * n + 1);
        rig.read(q, 1_000 + 8 * n, 8);
        if n < 3 {
            assert_eq!(u64::from(rig.queue(q).waker.hits), n);
            rig.serve_all();
        }
    }
    (rig, q, w)
}

#[test]
fn c34_a_queue_that_wakes_another_three_times_is_served_in_its_gaps() {
    let (mut rig, q, w) = woken_three_times();
    let number = rig.q(w);
    assert_eq!(rig.queue(q).waker.queue, number);
    let (id, by) = rig.issue();
    assert_eq!(by, q);
    // Too late for w to recover its service hole, which would end q's slot.
    rig.at_ms(160);
    for n in 0..4 {
        rig.read(w, (1 << 25) + 8 * n, 8);
    }
    rig.complete(id);
    assert!(rig.queue(q).slot.waiting, "{:?}", rig.expiries());
    for _ in 0..4 {
        assert_eq!(rig.issue().1, w);
    }
    assert_eq!(rig.sched.stats.injected_waker, 4);
}

#[test]
fn c34_another_completion_in_between_restarts_the_count() {
    let (mut rig, q, _) = woken_three_times();
    let q = rig.q(q);
    let x = rig.proc(IoPrio::be(4));
    rig.serve_all();
    rig.at_ms(200);
    rig.fire_timer_if_due();
    rig.read(x, 1 << 26, 8);
    rig.serve_all();
    let by = rig.q(x);
    rig.at_ms(201);
    rig.sched.tn = rig.now;
    let now = rig.now;
    rig.sched.first_request(now, q, &mut rig.env.cx());
    assert_eq!((rig.sched.queues[q].waker.suspect, rig.sched.queues[q].waker.hits), (by, 1));
}
