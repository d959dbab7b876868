//! Passing, waiting, snapping back, debt and delay.

use super::*;
use crate::ctl::cost::debt::delay_for;
use crate::ctl::cost::held::BioNo;

/// Scenario 5.
#[test]
fn s5_half_a_period_of_credit_then_waiting() {
    let mut b = Bench::new(HDD, "");
    let a = b.top(100);
    b.now = ms(100);
    let passed = (0..200).take_while(|_| b.read_far(a).1 == Verdict::Pass).count();
    assert_eq!(passed, 93);
    assert_eq!(b.c.clock.margins.target, 34_359_500_000);
    assert_eq!(b.node(a).waiters.len(), 1);
    assert_eq!(b.c.next_timer(), Some(us(106_378)));
    for _ in 0..3 {
        assert_eq!(b.read_far(a).1, Verdict::Hold);
    }
    b.until(us(106_377));
    assert!(b.released.is_empty());
    b.until(us(106_378));
    assert_eq!((b.released.len(), b.node(a).waiters.len()), (2, 2));
}

/// Scenarios 6 and 7.
#[test]
fn s6_s7_shares_follow_weights_over_the_tree() {
    let mut b = Bench::new(HDD, "");
    let (a, c) = (b.top(100), b.top(300));
    b.activate(a);
    b.activate(c);
    assert_eq!((b.shares(a), b.shares(c)), ((16_384, 16_384), (49_152, 49_152)));
    let before = b.node(a).time.charged;
    b.read_at(a, 8);
    b.read_at(a, 1 << 30);
    let (seq, rand) = (4 * 3_295_266, 1_485_826_528);
    assert_eq!(b.node(a).time.charged - before, seq + rand);

    let mut b = Bench::new(HDD, "");
    let (a, c) = (b.top(100), b.top(300));
    let (a0, a1) = (b.group(a, 100), b.group(a, 100));
    for g in [a0, a1, c] {
        b.activate(g);
    }
    assert_eq!([a0, a1, c].map(|g| b.shares(g).0), [8192, 8192, 49_152]);
    b.c.retire(c);
    b.c.shares.commit();
    assert_eq!([a0, a1].map(|g| b.shares(g).0), [32_768, 32_768]);
}

/// Scenario 8.
#[test]
fn s8_only_leaves_of_the_active_tree_are_charged() {
    let mut b = Bench::new(HDD, "");
    let a = b.top(100);
    let a0 = b.group(a, 100);
    assert_eq!(b.read_at(a0, 8).1, Verdict::Pass);
    for _ in 0..200 {
        assert_eq!(b.read_far(a).1, Verdict::Pass);
    }
    assert_eq!((b.node(a).usage, b.node(a).listed), (0, false));

    let mut b = Bench::new(HDD, "");
    let a = b.top(100);
    let a0 = b.group(a, 100);
    let (bio, _) = b.read_at(a, 8);
    b.serve(bio);
    assert!(b.node(a).listed);
    for _ in 0..200 {
        assert_eq!(b.read_far(a0).1, Verdict::Pass);
    }
    assert_eq!((b.node(a0).usage, b.node(a0).listed), (0, false));
    // Two periods of silence, and A retires.
    b.until(b.now + Nanos::secs(2));
    assert!(!b.node(a).listed);
    b.read_far(a0);
    assert!(b.node(a0).listed && b.node(a0).usage > 0);
}

/// Scenario 12: one step is enough, then several are needed; the others' shares shrink.
#[test]
fn s12_a_donor_takes_its_weight_back() {
    let mut b = Bench::new(HDD, "");
    let (a, other) = (b.top(100), b.top(100));
    b.activate(a);
    b.activate(other);
    b.c.shares.set(a, 6_553_600, 728_228, None);
    b.c.shares.commit();
    let low = b.c.clock.margins.low;
    let saved = low + 1000;
    // Above the low margin: nothing changes.
    b.set_credit(a, low + 1_000_000_000);
    b.node_mut(a).saved_margin = i64::MAX;
    b.read_at(a, 8);
    assert_eq!(b.node(a).weights.inuse, 728_228);
    // Below the low margin but not below what was saved: neither.
    b.set_credit(a, low);
    b.node_mut(a).saved_margin = 0;
    b.read_at(a, 16);
    assert_eq!(b.node(a).weights.inuse, 728_228);
    // Below both: one step of 25 %.
    b.set_credit(a, low);
    b.node_mut(a).saved_margin = saved;
    let others = b.shares(other).1;
    assert_eq!(b.read_at(a, 24).1, Verdict::Pass);
    assert_eq!(b.node(a).weights.inuse, 2_366_628);
    assert!(b.shares(other).1 < others);
    // As far as it needs to.
    b.set_credit(a, 7_200_000);
    b.node_mut(a).saved_margin = saved;
    assert_eq!(b.read_at(a, 32).1, Verdict::Pass);
    assert_eq!(b.node(a).weights.inuse, 5_643_428);
    // With no credit at all it waits, with its full share.
    b.set_credit(a, 0);
    b.node_mut(a).saved_margin = saved;
    assert_eq!(b.read_at(a, 40).1, Verdict::Hold);
    assert_eq!(b.node(a).weights.inuse, 6_553_600);
}

#[test]
fn a_step_of_inuse_wraps_in_32_bits() {
    for (wrap, turns) in [(1, 1), (0, 1)] {
        let mut b = Bench::new(HDD, "");
        let (a, other) = (b.top(10_000), b.top(100));
        b.c.conf.inuse_step_32bit = wrap;
        b.activate(a);
        b.activate(other);
        let active = 655_360_000;
        b.c.shares.set(a, active, 1, None);
        b.c.shares.commit();
        b.set_credit(a, b.c.clock.margins.low);
        b.node_mut(a).saved_margin = i64::MAX;
        b.read_at(a, 8);
        let step = if wrap == 1 { 34_990_982 } else { 163_840_000 };
        assert_eq!(b.node(a).weights.inuse, 1 + turns * step);
    }
}

/// Scenario 19.
#[test]
fn s19_credit_pays_debt_first() {
    let mut b = Bench::new(HDD, "");
    let (a, other) = (b.top(100), b.top(100));
    b.activate(a);
    b.activate(other);
    let now = b.now();
    b.c.incur(a, 1_000_000, &now);
    assert_eq!((b.node(a).weights.inuse, b.node(a).last_inuse), (1, 6_553_600));
    b.set_credit(a, 1_500_000);
    let before = b.node(a).time.charged;
    let (bio, _) = b.read_at(other, 8);
    let slot = bio.0.slot;
    b.c.bios.of_mut(BioNo(slot)).cost = 1;
    b.c.shares[a].waiters.push_back(&mut b.c.bios.links, slot);
    b.c.kick_waiters(a, true, &now);
    assert_eq!((b.node(a).debt, b.node(a).time.charged.wrapping_sub(before)), (250_000, 1_500_000));
    assert_eq!((b.node(a).waiters.len(), b.c.bios.ready.len()), (1, 0));
    // It wakes when the rest of the debt and its own cost can be paid; the share by inuse is the least.
    let k = model::cost_of(1, b.shares(a).1);
    let wake = (500_000 + k).div_ceil(VUS);
    assert_eq!(b.node(a).wake_at_ns, b.now.as_nanos() + wake * 1000 + b.c.params.slack_ns);
}

/// Scenario 20.
#[test]
fn s20_the_delay_grows_with_overuse_and_fades() {
    let mut b = Bench::new(HDD, "");
    let a = b.top(100);
    b.activate(a);
    let period = (b.c.params.period_us * VUS) as i64;
    let expected = [(10, 5346), (50, 46_122), (5, 0), (250, 250_000), (10_000, 250_000), (-3, 0)];
    for (periods, delay) in expected {
        let got = delay_for(periods * period, period as u64, &b.c.conf);
        assert_eq!(got, delay, "{periods} periods");
    }
    let little = delay_for(5 * period + period / 100, period as u64, &b.c.conf);
    assert_eq!(little, 250 + 249_750 / 24_500);

    let node = b.node_mut(a);
    (node.slow.us, node.slow.at_us) = (40_000, 52_000);
    for (second, delay) in [(1, 20_000), (2, 10_000), (7, 312)] {
        b.now = ms(52) + Nanos::secs(second);
        let now = b.now();
        assert!(b.c.kick_delay(a, &now));
        assert_eq!(b.node(a).slow.tasks.nanos(), Nanos::us(delay));
        assert_eq!(b.node(a).slow.tasks.uses(), -1);
        assert!(b.c.is_congested(a));
    }
    b.now = ms(52) + Nanos::secs(8);
    let now = b.now();
    assert!(!b.c.kick_delay(a, &now));
    assert_eq!((b.node(a).slow.us, b.node(a).slow.tasks.uses()), (0, 0));
    assert!(!b.c.is_congested(a));
}

/// Scenario 24, and the delay of the task that made the debt.
#[test]
fn s24_what_must_not_wait_leaves_a_debt() {
    let mut b = Bench::new(HDD, "");
    let (a, other) = (b.top(100), b.top(100));
    b.activate(other);
    while b.read_far(a).1 == Verdict::Pass {}
    let held = b.node(a).waiters.len();
    let swap = |io: &mut Io| (io.op, io.flags) = (Op::Write, Flags::SWAP);
    assert_eq!(b.submit(a, swap).1, Verdict::Pass);
    let debt = b.node(a).debt;
    assert!(debt > 0);
    assert_eq!((b.node(a).weights.inuse, b.node(a).waiters.len()), (1, held));
    let (bio, verdict) = b.read_at(a, 8);
    assert_eq!(verdict, Verdict::Hold);
    for _ in 0..100 {
        let at = b.c.next_timer().unwrap();
        b.until(at);
        if b.released.contains(&bio) {
            break;
        }
        assert!(b.node(a).debt > 0 || !b.node(a).waiters.is_empty());
    }
    assert!(b.released.contains(&bio), "the debt is paid, then what waits goes on");
    assert_eq!(b.node(a).debt, 0);

    // Metadata without end: the task is delayed once per I/O that made the debt.
    let proc = ProcId(a.0 - 1);
    assert_eq!(b.c.delay(b.now, proc, &mut b.env.cx()), Nanos::ZERO);
    for i in 0..40_000 {
        let meta = |io: &mut Io| {
            (io.op, io.flags, io.start) = (Op::Write, Flags::META, Sectors((i % 2) << 30));
        };
        let (bio, verdict) = b.submit(a, meta);
        assert_eq!(verdict, Verdict::Pass);
        b.serve(bio);
    }
    let delay = b.c.delay(b.now, proc, &mut b.env.cx());
    assert!(delay >= Nanos::ms(200) && delay <= Nanos::ms(250), "{delay:?}");
    assert_eq!(b.c.delay(b.now, proc, &mut b.env.cx()), Nanos::ZERO, "the check is forgotten");
}

#[test]
fn a_merge_pays_for_its_bytes_and_never_waits() {
    let mut b = Bench::new(HDD, "");
    let a = b.top(100);
    b.now = ms(100);
    let (first, _) = b.read_at(a, 800);
    let id = b.request(first);
    let before = (b.node(a).time.charged, b.node(a).usage);
    let join = |b: &mut Bench, start, side| {
        let io = Io { group: a, ..Io::read(77, ProcId(0), start, 16) };
        let bio = b.env.requests.add_bio(io, b.now).unwrap();
        b.env.requests.join_bio(id, bio, side);
        b.c.merged(b.now, bio, id, &mut b.env.cx());
    };
    let bytes = 2 * 3_234_924;
    join(&mut b, 808, crate::request::Side::Back);
    assert_eq!((b.node(a).time.charged - before.0, b.node(a).usage - before.1), (bytes, bytes));
    assert_eq!(b.node(a).cursor, 824, "the request ended at the cursor");
    join(&mut b, 784, crate::request::Side::Front);
    assert_eq!((b.node(a).time.charged - before.0, b.node(a).cursor), (2 * bytes, 824));
    // Without credit the group owes it.
    b.set_credit(a, 0);
    b.node_mut(a).time.done = b.node(a).time.charged - 2 * bytes - 3_295_266;
    join(&mut b, 824, crate::request::Side::Back);
    assert_eq!((b.node(a).debt, b.node(a).weights.inuse), (bytes, 1));
    // All that was charged comes back, the debt apart.
    b.finish(id);
    assert_eq!(b.node(a).time.done, b.node(a).time.charged);
}

#[test]
fn discards_and_the_roots_own_io_are_free_and_an_empty_flush_is_a_page() {
    let mut b = Bench::new(HDD, "");
    let a = b.top(100);
    for op in [Op::Discard, Op::WriteZeroes] {
        b.submit(a, |io| io.op = op);
    }
    for _ in 0..1000 {
        assert_eq!(b.read_far(GroupId::ROOT).1, Verdict::Pass);
    }
    assert_eq!((b.node(a).usage, b.node(a).listed), (0, false));
    b.submit(a, |io| (io.op, io.sectors) = (Op::Flush, Sectors(0)));
    assert_eq!(b.node(a).usage, 3_161_261 + 57_074);
}

/// Its own I/O keeps a group that was removed; what is new after that is its parent's.
#[test]
fn a_removed_group_stays_until_its_last_io_is_over() {
    let mut b = Bench::new(HDD, "");
    let a = b.top(100);
    let child = b.group(a, 100);
    let mut under_way = Vec::new();
    loop {
        let (bio, verdict) = b.read_far(child);
        under_way.push(bio);
        if verdict == Verdict::Hold {
            break;
        }
    }
    b.c.changed(b.now, &Change::GroupRemoved(child), &mut b.env.cx());
    b.env.groups.remove(child);
    assert_eq!(b.c.release(b.now, &mut b.env.cx()), None, "what it holds waits for its turn");
    b.until(b.now + Nanos::ms(20));
    assert_eq!(b.released.len(), 1);
    assert!(b.node(child).listed && b.node(a).sums.active != 0);
    under_way.into_iter().for_each(|bio| b.serve(bio));
    assert!(b.node(child).listed, "what else happens in this moment still finds it");
    b.until(b.now + Nanos::us(1));
    let (bio, _) = b.read_far(a);
    b.serve(bio);
    let (bio, _) = b.read_far(child);
    assert!(!b.node(child).listed && b.node(a).listed && b.node(a).usage > 0);
    b.serve(bio);
    assert_eq!((b.node(a).sums.active, b.node(a).sums.inuse), (0, 1), "the child left its 1");
}

#[test]
fn disabling_stops_charging_and_waiters_drain() {
    let mut b = Bench::new(HDD, "");
    let a = b.top(100);
    while b.read_far(a).1 == Verdict::Pass {}
    for _ in 0..5 {
        b.read_far(a);
    }
    b.write(GroupId::ROOT, "io.cost.qos", "8:0 enable=0");
    let (usage, other) = (b.node(a).usage, b.top(100));
    assert_eq!(b.read_far(other).1, Verdict::Pass);
    // Its own goes behind what waits, and is free.
    let (last, verdict) = b.read_far(a);
    assert_eq!((verdict, b.node(a).usage), (Verdict::Hold, usage));
    b.until(b.now + Nanos::secs(1));
    assert_eq!((b.released.len(), b.released.last()), (7, Some(&last)));
    assert_eq!((b.node(a).waiters.len(), b.c.bios.waiting), (0, 0));
    let usage = b.node(a).usage;
    assert_eq!(b.read_far(a).1, Verdict::Pass);
    assert_eq!(b.node(a).usage, usage);
}

#[test]
fn a_kernel_wake_is_at_the_end_of_its_slack_or_at_a_tick() {
    for (start, fires) in [(100_000, 108_000), (101_000, 108_000), (102_000, 112_000)] {
        let mut b = Bench::new(HDD, "");
        let a = b.top(100);
        b.c.conf.wake = 1;
        b.now = us(start);
        while b.read_far(a).1 == Verdict::Pass {}
        // The span begins 6.378 ms later and is 5 ms long; the tick is 4 ms.
        assert_eq!(b.c.next_timer(), Some(us(fires)), "{start}");
    }
    let mut b = Bench::new(HDD, "");
    let a = b.top(100);
    (b.c.conf.wake, b.c.params.tick) = (1, Nanos::ms(100));
    b.now = us(1000);
    while b.read_far(a).1 == Verdict::Pass {}
    assert_eq!(b.c.next_timer(), Some(us(1000 + 6378 + 5000)), "no tick in between");
}
