//! Periods, donation, vrate, forgiveness, classes.

use super::*;
use crate::ctl::cost::donate::Donor;
use crate::ctl::cost::model::DeviceClass;
use crate::ctl::cost::model::ONE;
use crate::ctl::cost::vrate::{Demand, Quality};

/// A period of 100 ms: a disk whose latency is 50 ms.
const P100: &str = "rlat=50000 wlat=50000";

/// Two groups; the clock stands at the end of a period of 100 ms.
fn two(weights: [u32; 2]) -> (Bench, [GroupId; 2]) {
    let mut b = Bench::new(HDD, P100);
    let groups = weights.map(|w| b.top(w));
    groups.iter().for_each(|&g| b.activate(g));
    assert_eq!(b.c.params.period_us, 100_000);
    b.now += Nanos::ms(100);
    (b, groups)
}

fn passed_v(b: &Bench) -> u64 {
    b.now().v - b.c.clock.start_v
}

/// As used in the last period.
fn used(b: &mut Bench, g: GroupId, us: u64) {
    b.node_mut(g).period.usage_us = us;
}

/// A held I/O for the group, so that it is short.
fn make_wait(b: &mut Bench, g: GroupId) {
    b.set_credit(g, 0);
    assert_eq!(b.submit(g, |io| io.sectors = Sectors(800_000)).1, Verdict::Hold);
}

/// Scenario 9.
#[test]
fn s9_a_donor_keeps_what_it_used_and_the_other_gets_the_rest() {
    let (mut b, [a, other]) = two([100, 100]);
    b.set_credit(a, b.c.clock.margins.target);
    used(&mut b, a, 10_000);
    make_wait(&mut b, other);
    let (now, v) = (b.now(), passed_v(&b));
    assert_eq!(b.c.shares.at_most(a), 32_768);
    assert_eq!(b.c.after_donation(a, [32_768, 32_768, 6_554], v, &now), 6_554);
    let demand = b.c.look_for_donors(v, &now);
    assert_eq!((demand.shortages, b.c.donation.donors.len()), (1, 1));
    b.c.donation.transfer(&mut b.c.shares, &now);
    b.c.shares.commit();
    assert_eq!(b.node(a).weights.inuse, 728_228);
    assert_eq!((b.shares(a), b.shares(other)), ((32_768, 6_554), (32_768, 58_981)));
}

/// Scenario 10.
#[test]
fn s10_a_donation_inside_a_tree_keeps_the_proportions_of_all_others() {
    let mut b = Bench::new(HDD, P100);
    let (a, other) = (b.top(100), b.top(300));
    let (a0, a1) = (b.group(a, 100), b.group(a, 100));
    for g in [a0, a1, other] {
        b.activate(g);
    }
    b.now += Nanos::ms(100);
    b.set_credit(a0, b.c.clock.margins.target);
    used(&mut b, a0, 2_000);
    make_wait(&mut b, a1);
    make_wait(&mut b, other);
    let (now, v) = (b.now(), passed_v(&b));
    b.c.look_for_donors(v, &now);
    let Donor { donating, after, .. } = b.c.donation.donors[0];
    assert_eq!((donating, after, b.c.donation.donors.len()), (8192, 1311, 1));
    b.c.donation.transfer(&mut b.c.shares, &now);
    b.c.shares.commit();
    assert_eq!((b.node(a0).weights.inuse, b.node(a).weights.inuse), (936_433, 3_745_017));
    assert_eq!([a0, a1, other].map(|g| b.shares(g).1), [1311, 9174, 55_049]);
}

/// Scenario 11.
#[test]
fn s11_without_a_shortage_nothing_is_transferred() {
    let (mut b, [a, other]) = two([100, 100]);
    for g in [a, other] {
        b.set_credit(g, b.c.clock.margins.target);
        used(&mut b, g, 10_000);
    }
    let now = b.now();
    let inuse = b.node(a).weights.inuse;
    let demand = b.c.look_for_donors(passed_v(&b), &now);
    assert_eq!((demand.shortages, b.c.donation.donors.len()), (0, 2));
    b.until(b.now + Nanos::ms(100));
    assert_eq!((b.node(a).weights.inuse, b.node(other).weights.inuse), (inuse, inuse));
}

/// One period's end with that quality and demand, as far as vrate is concerned.
fn period(b: &mut Bench, q: &Quality, d: &Demand) -> (i64, u64) {
    let allowed = b.c.params.qos.pct_ppm.map(|ppm| 1_000_000 - u64::from(ppm));
    b.c.clock.judge(q, d, allowed, &b.c.conf);
    b.c.clock.steer(d, b.c.conf.vrate_clamp_pct);
    (b.c.clock.busy_level, b.c.clock.base_rate)
}

/// Scenario 13.
#[test]
fn s13_saturation_lowers_vrate_from_the_fourth_period_on() {
    let mut b = Bench::new(HDD, "");
    let mut rates = Vec::new();
    for level in 1..=7 {
        let (now, rate) = period(&mut b, &waiting(6), &short(0));
        assert_eq!(now, level);
        rates.push(rate);
    }
    assert_eq!(rates, [137_438, 137_438, 137_438, 136_064, 134_704, 133_357, 132_024]);
    assert_eq!(period(&mut b, &waiting(4), &short(0)), (0, 132_024));
}

/// Scenario 14.
#[test]
fn s14_shortages_raise_vrate_unless_something_lags() {
    let mut b = Bench::new(HDD, "");
    let rates: Vec<u64> = (0..7).map(|_| period(&mut b, &waiting(0), &short(0)).1).collect();
    assert_eq!(rates, [137_438, 137_438, 137_438, 138_813, 140_202, 141_605, 143_022]);
    assert_eq!(period(&mut b, &waiting(0), &short(1)), (-7, 143_022));
    assert_eq!(period(&mut b, &waiting(6), &short(0)), (1, 143_022));
    assert_eq!(period(&mut b, &waiting(0), &short(1)), (0, 143_022));
}

/// Scenario 15.
#[test]
fn s15_the_level_changes_sides_at_once() {
    let mut b = Bench::new(HDD, "");
    b.c.clock.busy_level = 7;
    assert_eq!(period(&mut b, &waiting(0), &short(0)).0, -1);
    b.c.clock.busy_level = -9;
    assert_eq!(period(&mut b, &waiting(6), &short(0)).0, 1);
    b.c.clock.busy_level = 1000;
    assert_eq!(period(&mut b, &waiting(6), &short(0)).0, 1000);
    // Nobody was short: neither up nor down.
    assert_eq!(period(&mut b, &waiting(0), &Demand::default()).0, 0);
}

/// Scenario 16.
#[test]
fn s16_new_bounds_bite_in_periods_with_a_busy_level() {
    let mut b = Bench::new(HDD, "max=50");
    assert_eq!(b.c.clock.bounds[1], 68_719);
    for _ in 0..20 {
        assert_eq!(period(&mut b, &waiting(0), &Demand::default()), (0, 137_438));
    }
    for n in 1..=17 {
        let (_, rate) = period(&mut b, &waiting(6), &Demand::default());
        assert_eq!(rate == 68_719, n == 17, "period {n}: {rate}");
    }
    // Up again in steps of 4 %.
    b.write(GroupId::ROOT, "io.cost.qos", "8:0 min=100 max=100");
    assert_eq!(period(&mut b, &waiting(6), &Demand::default()).1, 71_467);
}

/// Scenario 17.
#[test]
fn s17_misses_are_judged_against_the_percentile() {
    let mut b = Bench::new(HDD, "rpct=95");
    b.c.clock.busy_level = 3;
    for (missed, level) in [(5, 0), (6, 1), (3, -1), (4, 0)] {
        b.c.served = Served { met: [100 - missed, 7], missed: [missed, 0], wait_ns: 0 };
        let quality = b.c.served.take(b.c.params.period_us);
        assert_eq!(quality.missed_ppm, [missed * 10_000, 0]);
        b.c.clock.busy_level = 0;
        assert_eq!(period(&mut b, &quality, &short(0)).0, level, "{missed} missed");
    }
    // One of three: rounded up.
    b.c.served = Served { met: [0, 2], missed: [0, 1], wait_ns: 31_000_000 };
    let quality = b.c.served.take(b.c.params.period_us);
    assert_eq!((quality.missed_ppm, quality.wait_pct), ([0, 333_334], 6));
}

/// Scenario 18, over the path of a request.
#[test]
fn s18_a_request_is_missed_if_its_size_does_not_explain_its_latency() {
    let mut b = Bench::new(HDD, "");
    let a = b.top(100);
    for (ns, missed) in [(256_044_821, 0), (256_044_822, 1)] {
        let (bio, _) = b.submit(a, |io| io.sectors = Sectors(2048));
        let (began, alloc) = (b.now, b.now);
        let id = b.env.requests.add(bio, alloc, began, true, QueueId(0)).unwrap();
        b.now += Nanos(ns);
        b.finish(id);
        assert_eq!(b.c.served.missed, [missed, 0]);
        b.now = ms(1000 * (1 + b.now.as_nanos() / 1_000_000_000));
    }
    // Time before the tag counts as waiting.
    let (bio, _) = b.submit(a, |io| io.op = Op::Write);
    let began = b.now + Nanos::ms(3);
    let id = b.env.requests.add(bio, b.now, began, true, QueueId(0)).unwrap();
    b.now += Nanos::ms(4);
    b.finish(id);
    assert_eq!((b.c.served.wait_ns, b.c.served.met[1]), (3_000_000, 1));
}

/// Scenario 21.
#[test]
fn s21_debts_are_halved_while_the_device_is_little_used() {
    for (level, debt) in [(0, 200_000), (-3, 200_000), (1, 6_400_000)] {
        let mut b = Bench::new(HDD, "");
        let a = b.top(100);
        b.activate(a);
        let now = b.now();
        b.c.incur(a, 6_400_000, &now);
        b.set_credit(a, -1_000_000_000);
        b.c.forgiveness = Forgiveness { at_us: b.now.as_nanos() / 1000, ..Default::default() };
        b.c.clock.busy_level = level;
        b.now += Nanos::ms(500);
        b.set_credit(a, -1_000_000_000);
        let now = b.now();
        b.c.forgive(1, 100_000, &now);
        assert_eq!(b.node(a).debt, debt, "busy level {level}");
        assert_eq!(b.c.forgiveness.at_us, now.us);
    }
    // What is left of 100 ms counts for the next time; before that nothing happens.
    let mut b = Bench::new(HDD, "");
    let a = b.top(100);
    b.activate(a);
    let now = b.now();
    b.c.incur(a, 64, &now);
    b.node_mut(a).slow.us = 1000;
    b.c.forgiveness = Forgiveness { at_us: now.us, ..Default::default() };
    for (ms, debt, rest) in [(99, 64, 0), (151, 16, 50_000), (101, 8, 51_000), (900, 1, 51_000)] {
        b.now += Nanos::ms(ms);
        b.set_credit(a, -1_000_000_000);
        let now = b.now();
        b.c.forgive(1, 0, &now);
        assert_eq!((b.node(a).debt, b.c.forgiveness.rest_us), (debt, rest), "after {ms} ms");
    }
    b.c.forgive(0, 0, &now);
    assert_eq!(b.c.forgiveness.at_us, now.us);
}

/// Scenario 22.
#[test]
fn s22_an_idle_group_retires_after_a_whole_period_and_leaves_its_credit() {
    let mut b = Bench::new(HDD, P100);
    let (a, other) = (b.top(100), b.top(100));
    b.activate(other);
    let (bio, _) = b.read_at(a, 8);
    b.serve(bio);
    let first = b.c.period.timer.unwrap();
    b.read_at(other, 8);
    b.until(first);
    assert!(b.node(a).listed, "it was active in this period");
    b.read_at(other, 16);
    let second = b.c.period.timer.unwrap();
    b.until(Instant::from_nanos(second.as_nanos() - 1));
    // Only the end of this period is of interest.
    b.c.clock.err = 0;
    let at = b.c.clock.at(second);
    let excess = at.v.wrapping_sub(b.node(a).time.charged) as i64 - b.c.clock.margins.target;
    let lost = crate::ctl::cost::plan::share_of(excess, b.shares(a).1);
    let others = at.v.wrapping_sub(b.node(other).time.charged) as i64 - b.c.clock.margins.target;
    assert!(excess > 0 && others > 0);
    let others = crate::ctl::cost::plan::share_of(others, b.shares(other).1);
    b.until(second);
    assert!(!b.node(a).listed && b.node(other).listed);
    // Both, the retired one's and what the donor had too much, come back as rate.
    let left = b.c.params.period_us as i64;
    let more = ((lost + others) / left).min(b.c.clock.base_rate as i64);
    assert_eq!(b.c.clock.rate as i64 - b.c.clock.base_rate as i64, more);
    let most = left * VUS as i64;
    assert_eq!(b.c.clock.err, (more * left - lost - others).clamp(-most, most));

    // At most doubled, at least halved.
    for (err, rate) in [(i64::MIN / 4, 2 * VUS), (i64::MAX / 4, VUS - VUS / 2)] {
        b.c.clock.err = err;
        let now = b.now();
        b.c.clock.compensate(&now, b.c.params.period_us);
        assert_eq!(b.c.clock.rate, rate);
        assert_eq!(b.c.clock.err.abs(), 100_000 * VUS as i64);
    }
}

/// Scenario 23.
#[test]
fn s23_a_much_faster_device_gets_the_faster_class_after_10_s() {
    let mut b = Bench::new(SSD, "");
    assert_eq!(b.c.params.class, Some(DeviceClass::SsdDefault));
    b.c.clock.base_rate = 5 * VUS;
    b.c.refresh(false, 1_000_000);
    b.c.refresh(false, 10_999_999);
    assert_eq!(b.c.params.class, Some(DeviceClass::SsdDefault));
    b.c.refresh(false, 11_000_000);
    assert_eq!((b.c.params.class, b.c.params.period_us), (Some(DeviceClass::SsdFast), 10_000));
    assert_eq!((b.c.clock.base_rate, b.c.clock.rate), (5 * VUS, VUS));
    // Back, if a tenth is enough for as long; an interruption starts the clock anew.
    b.c.clock.base_rate = VUS / 10;
    b.c.refresh(false, 20_000_000);
    b.c.clock.base_rate = VUS;
    b.c.refresh(false, 29_000_000);
    b.c.clock.base_rate = VUS / 10;
    b.c.refresh(false, 30_000_000);
    b.c.refresh(false, 39_999_999);
    assert_eq!(b.c.params.class, Some(DeviceClass::SsdFast));
    b.c.refresh(false, 40_000_000);
    assert_eq!(b.c.params.class, Some(DeviceClass::SsdDefault));
    // Not with anything of the user's.
    b.write(GroupId::ROOT, "io.cost.qos", "8:0 max=5000");
    b.c.clock.base_rate = 5 * VUS;
    b.c.refresh(false, 50_000_000);
    b.c.refresh(false, 70_000_000);
    assert_eq!(b.c.params.class, Some(DeviceClass::SsdDefault));
}

#[test]
fn the_class_follows_the_device() {
    let mut b = Bench::new(SSD, "");
    for (rotational, depth, class) in [
        (false, 1, DeviceClass::SsdQd1),
        (true, 1, DeviceClass::Hdd),
        (false, 2, DeviceClass::SsdDefault),
    ] {
        (b.env.device.rotational, b.env.device.queue_depth) = (rotational, depth);
        b.c.changed(b.now, &Change::Device, &mut b.env.cx());
        assert_eq!((b.c.params.class, b.c.params.rates), (Some(class), class.rates()));
    }
}

/// Scenario 25.
#[test]
fn s25_a_group_that_used_the_whole_period_counts_as_a_donor() {
    for (wraps, after) in [(1, 1), (0, 65_536)] {
        let mut b = Bench::new(HDD, P100);
        b.c.conf.donation_32bit = wraps;
        let a = b.top(100);
        b.activate(a);
        b.now += Nanos::ms(100);
        b.set_credit(a, b.c.clock.margins.target);
        used(&mut b, a, 100_000);
        let (now, v) = (b.now(), passed_v(&b));
        let demand = b.c.look_for_donors(v, &now);
        assert_eq!(
            (b.c.donation.donors.len(), demand.shortages),
            if wraps == 1 { (1, 0) } else { (0, 1) }
        );
        assert_eq!(b.c.after_donation(a, [ONE, ONE, ONE], v, &now), after);
        assert_eq!(period(&mut b, &waiting(0), &demand).0, -i64::from(wraps == 0));
    }
    let (mut b, [a, other]) = two([100, 100]);
    b.set_credit(a, b.c.clock.margins.target);
    used(&mut b, a, 100_000);
    make_wait(&mut b, other);
    let (now, v) = (b.now(), passed_v(&b));
    b.c.look_for_donors(v, &now);
    b.c.donation.transfer(&mut b.c.shares, &now);
    b.c.shares.commit();
    assert_eq!(b.node(a).weights.inuse, 101);
    assert_eq!((b.shares(a).1, b.shares(other).1), (1, 65_534));
}

/// Scenario 26.
#[test]
fn s26_the_period_timer_is_at_least_a_tick_late() {
    for (tick, fires) in [(10, [70, 90, 110]), (4, [68, 84, 100])] {
        let mut b = Bench::new(SSD, "rlat=5000 wlat=5000");
        b.c.params.tick = Nanos::ms(tick);
        let a = b.top(100);
        for at in fires {
            b.read_at(a, 8);
            assert_eq!(b.c.period.timer, Some(ms(at)));
            b.until(ms(at));
        }
    }
    let mut b = Bench::new(HDD, "");
    let a = b.top(100);
    b.read_at(a, 8);
    assert_eq!(b.c.period.timer, Some(ms(576)));

    let mut b = Bench::new(SSD, "rlat=5000 wlat=5000");
    b.c.conf.tick_timers = 1;
    let a = b.top(100);
    b.read_at(a, 8);
    assert_eq!(b.c.period.timer, Some(ms(64)), "three ticks of 4 ms after 52 ms");
}

#[test]
fn io_in_flight_for_longer_than_a_period_lags() {
    let mut b = Bench::new(HDD, "rlat=50000 wlat=50000 rpct=95");
    let a = b.top(100);
    b.activate(a);
    b.now += Nanos::ms(100);
    let (now, v) = (b.now(), passed_v(&b));
    let lags = |b: &mut Bench, vtime: i64, done: i64| {
        let node = b.node_mut(a);
        node.time.charged = now.v.wrapping_add(vtime as u64);
        node.time.done = now.v.wrapping_add(done as u64);
        b.c.lags(a, v, &now)
    };
    let v1 = v as i64;
    assert!(lags(&mut b, 0, -v1 - 1));
    assert!(!lags(&mut b, 0, -v1), "issued within the period");
    assert!(!lags(&mut b, -v1 - 1, -v1 - 1), "nothing in flight");
    assert!(!lags(&mut b, -10 * v1, -11 * v1), "beyond the horizon");
    assert!(lags(&mut b, 1 - 10 * v1, -11 * v1));
    b.node_mut(a).slow.tasks.set(Nanos::us(300));
    assert!(!lags(&mut b, 0, -v1 - 1), "its tasks are delayed");
    b.node_mut(a).slow.tasks.clear();
    let node = b.node_mut(a);
    (node.time.charged, node.time.done) = (now.v, now.v.wrapping_sub(2 * v));
    assert_eq!(b.c.look_for_donors(v, &now).lagging, 1);
    b.c.params.qos.pct_ppm = [0; 2];
    assert_eq!(b.c.look_for_donors(v, &now).lagging, 0, "without percentiles nobody lags");
}
