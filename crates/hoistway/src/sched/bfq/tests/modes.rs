//! `base`: the reference with its quirks, or all of them mended (section 10). Each test shows what one
//! mended quirk changes. Q1 and Q15 are in `bounds`, Q10 there too, Q12 and Q18 in crate `hoistway-replay`.

use super::fair_queue::Core;
use super::rig::Rig;
use crate::sched::bfq::slot::Reason;
use crate::sched::bfq::wf2q::*;
use crate::stage::Stage;
use crate::unit::Nanos;
use alloc::vec::Vec;

/// Every switch of a quirk, and its value where all are mended.
const QUIRKS: [(&str, u64); 11] = [
    ("exact_pick", 1),
    ("exact_candidate", 1),
    ("fix_group_double_charge", 1),
    ("inject_after_long_idle", 1),
    ("charge_as_tuned", 1),
    ("raised_budget_fits", 1),
    ("keep_idle_ticket", 1),
    ("keep_device_weight", 1),
    ("fix_class_count", 1),
    ("move_counts", 1),
    ("fix_exit_charge", 1),
];

/// What `base` = 5.3 sets besides, and its value otherwise (11.7).
const SINCE_5_3: [(&str, u64, u64); 9] = [
    ("inject_sample_pause", 100, 10),
    ("inject_up_to_twice", 1, 0),
    ("inject_on_new_base", 1, 0),
    ("inject_flag_kept", 1, 0),
    ("stable_merge", 0, 1),
    ("think_margin", 0, 1),
    ("waker_detections", 1, 3),
    ("io_intensity", 0, 1),
    ("inherit_waker", 0, 1),
];

#[test]
fn base_turns_every_quirk_on_or_off_and_mended_is_the_default() {
    let mut rig = Rig::ssd();
    let all = |rig: &Rig, mended: bool| {
        for (name, value) in QUIRKS {
            assert_eq!(
                rig.sched.value(name),
                Some(if mended { value } else { 1 - value }),
                "{name}"
            );
        }
        assert_eq!(rig.sched.value("tick_rounding"), Some(u64::from(!mended)));
    };
    assert_eq!(rig.sched.value("base"), Some(2));
    rig.set("stable_merge", 1);
    all(&rig, true);
    for (base, mended) in [(0, false), (2, true), (1, false), (3, false), (0, false)] {
        rig.set("base", base);
        assert_eq!(rig.sched.value("base"), Some(base));
        all(&rig, mended);
        for (name, in_5_3, since) in SINCE_5_3 {
            let value = if base == 3 { in_5_3 } else { since };
            assert_eq!(rig.sched.value(name), Some(value), "{name}");
        }
    }
    rig.set("stable_merge", 0);
    rig.set("base", 1);
    assert_eq!(rig.sched.value("stable_merge"), Some(0), "only 5.3 decides about it");
    // Each can be set apart afterwards.
    rig.set("base", 0);
    rig.set("exact_pick", 1);
    assert_eq!(
        (rig.sched.value("exact_pick"), rig.sched.value("exact_candidate")),
        (Some(1), Some(0))
    );
}

/// Two groups of equal weight, always backlogged. In the first another queue wakes in the middle of each
/// slot, which repositions the group, and leaves before its turn. The sectors of each group.
fn repositioned(fix: bool) -> [u64; 2] {
    let mut c = Core::new();
    c.fair.rules.fix_double_charge = fix;
    let g = c.fair.add_group(ROOT, 100, c.now);
    let h = c.fair.add_group(ROOT, 100, c.now);
    let (a, b) = (c.queue_in(g, BE, 40, 1000), c.queue_in(h, BE, 40, 1000));
    let guest = c.fair.add_entity(g, BE, 40).queue();
    let mut served = [0; 2];
    for _ in 0..1000 {
        let q = c.select();
        c.fair.serve(q, 500);
        if q == a {
            c.wake(guest, 1000, false);
            c.fair.deactivate(guest.into(), false, false, c.now);
        }
        c.fair.serve(q, 500);
        served[usize::from(q == b)] += 1000;
        c.requeue(q);
    }
    served
}

#[test]
fn a_group_is_charged_once_although_a_queue_of_it_wakes_in_its_slot() {
    let [g, h] = repositioned(true);
    assert!(g.abs_diff(h) <= 2000, "{g} and {h} sectors");
    // Quirk Q3: the first half counts twice (and a third time when the guest leaves).
    let [g, h] = repositioned(false);
    assert!(3 * g < 2 * h, "{g} and {h} sectors");
}

#[test]
fn time_is_charged_for_its_part_of_the_limit_as_set() {
    // 250 of 500 ms, and of the 125 ms that the reference takes whatever is set.
    for (mended, charged) in [(1, 8_192), (0, 16_384)] {
        let mut rig = Rig::hdd();
        rig.set("charge_as_tuned", mended);
        rig.set("timeout_sync", 500);
        rig.sched.budgets.max = 16_384;
        let [a] = rig.procs();
        rig.read(a, 1000, 8);
        let (id, _) = rig.issue();
        rig.at_ms(250);
        let q = rig.q(a);
        rig.sched.expire(rig.now, q, false, Reason::NoMore, &mut rig.env.cx());
        assert_eq!(rig.ent(a).service, charged);
        rig.complete(id);
    }
}

#[test]
fn the_first_request_of_a_raised_queue_is_served_in_its_first_slot() {
    for (mended, slots) in [(1, 0), (0, 1)] {
        let mut rig = Rig::hdd();
        rig.set("low_latency", 1);
        rig.set("raised_budget_fits", mended);
        let [a] = rig.procs();
        // More than twice the least budget, which is what a raised queue gets.
        rig.read(a, 1000, 2000);
        assert_eq!(rig.ent(a).wr, 30);
        rig.issue();
        let q = rig.q(a);
        let exhausted: Vec<_> = (0..slots).map(|_| (q, "budget exhausted")).collect();
        assert_eq!(rig.expiries(), exhausted);
    }
}

/// A best-effort queue in slots of 10 ms; in the middle of each another one leaves and comes back, which
/// makes a look-up. How often the idle class is served in 3 s.
fn idle_slots(keep: bool) -> u32 {
    let mut c = Core::new();
    c.fair.rules.keep_idle_ticket = keep;
    let (a, guest) = (c.queue(40, 100), c.queue(40, 100));
    let idle = c.queue_in(ROOT, IDLE, 10, 100);
    let mut slots = 0;
    for _ in 0..300 {
        let q = c.select();
        slots += u32::from(q == idle);
        c.now += Nanos::ms(5);
        let other = if q == a { guest } else { a };
        c.fair.deactivate(other.into(), true, false, c.now);
        c.wake(other, 100, false);
        c.fair.serve(q, 100);
        c.now += Nanos::ms(5);
        c.requeue(q);
    }
    slots
}

#[test]
fn the_idle_class_keeps_its_turn_until_it_is_served() {
    assert!(idle_slots(true) >= 13, "every 200 ms and a slot or two");
    // Quirk Q10: about half of the turns fall to a look-up whose choice is replaced.
    assert!(idle_slots(false) < 10);
}
