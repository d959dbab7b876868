//! C35 to C39: weight raising.

use super::rig::Rig;
use crate::group::ProcId;
use crate::sched::bfq::queue::past::Past;
use crate::stage::Stage;
use crate::unit::{IoPrio, Nanos};
use alloc::vec::Vec;

fn disk() -> Rig {
    let mut rig = Rig::hdd();
    rig.set("low_latency", 1);
    rig
}

#[test]
fn c35_a_new_queue_is_raised_as_interactive() {
    let mut rig = disk();
    let [a] = rig.procs();
    rig.read(a, 1_000, 8);
    assert_eq!((rig.ent(a).wr, rig.ent(a).weight, rig.ent(a).budget), (30, 1200, 1024));
    // 14000 * 7 s / 9333.
    assert_eq!(rig.queue(a).raise.limit.as_ms(), 10_500);
    let (id, _) = rig.issue();
    let limit = rig.now + Nanos::ms(3_750);
    assert_eq!(rig.queue(a).slot.deadline, Past::at(limit));
    rig.complete(id);
    assert_eq!(rig.sched.next_timer(), Some(rig.now + Nanos::ms(20)));

    let mut rig = disk();
    let b = rig.proc(IoPrio::be(0));
    rig.read(b, 1_000, 8);
    assert_eq!((rig.ent(b).wr, rig.ent(b).weight), (1, 80));
}

#[test]
fn c35_raising_ends_after_10_5_seconds() {
    let mut rig = disk();
    let [a] = rig.procs();
    for (n, ms) in [0, 1_900, 3_800, 5_700, 7_600, 9_500, 10_500, 10_501].into_iter().enumerate() {
        rig.at_ms(ms);
        rig.fire_timer_if_due();
        rig.read(a, 8 * n as u64, 8);
        rig.serve_all();
        let wr = if ms > 10_500 { 1 } else { 30 };
        assert_eq!((rig.ent(a).wr, rig.ent(a).weight), (wr, 40 * wr));
    }
}

/// Serves `n` requests of 256 sectors of a process.
fn stream(rig: &mut Rig, a: ProcId, from: u64, n: u64) {
    for i in from..from + n {
        rig.read(a, 256 * i, 256);
        rig.serve_all();
    }
}

#[test]
fn c35_raising_ends_with_the_dispatch_that_exceeds_120000_sectors() {
    let mut rig = disk();
    let [a] = rig.procs();
    stream(&mut rig, a, 0, 468);
    assert_eq!((rig.ent(a).wr, rig.ent(a).weight), (30, 1200));
    stream(&mut rig, a, 468, 1);
    assert_eq!((rig.ent(a).wr, rig.ent(a).weight), (1, 40));
    assert_eq!(rig.sched.fair.census.wr_busy, 0);
}

#[test]
fn c36_a_queue_is_interactive_again_after_two_idle_seconds() {
    for (idle_ms, wr) in [(1_900, 1), (2_100, 30)] {
        let mut rig = disk();
        let [a] = rig.procs();
        stream(&mut rig, a, 0, 469);
        rig.fire_timer();
        rig.now += Nanos::ms(idle_ms);
        rig.read(a, 256 * 469, 256);
        assert_eq!(rig.ent(a).wr, wr);
    }
}

/// Batches of 512 sectors, each done in 10 ms; coefficients at the arrival of batches 1 to 3 after an
/// interactive period.
fn batches(period_ms: u64, seeky: bool) -> Vec<u32> {
    let mut rig = disk();
    let [a] = rig.procs();
    let mut wr = Vec::new();
    for n in 0..4 {
        rig.at_ms(period_ms * n);
        rig.fire_timer_if_due();
        if seeky && n > 0 {
            rig.queue(a).seek.recall(u32::MAX);
        }
        let far = if seeky { n << 24 } else { 512 * n };
        rig.read(a, far, 256);
        wr.push(rig.ent(a).wr);
        if wr[n as usize] == 3_000 {
            assert_eq!((rig.queue(a).raise.limit, rig.ent(a).weight), (Nanos::ms(300), 120_000));
            assert!(rig.ent(a).budget <= 1_024);
        }
        let (first, _) = rig.issue();
        rig.read(a, far + 256, 256);
        let (second, _) = rig.issue();
        if n == 0 {
            // The interactive period ends.
            rig.set("low_latency", 0);
            rig.set("low_latency", 1);
        }
        rig.at_ms(period_ms * n + 10);
        rig.complete(first);
        rig.complete(second);
        rig.fire_timer();
        let softrt = rig.queue(a).raise.next_soft;
        let start = Nanos::ms(period_ms * n);
        assert!(softrt.as_nanos() >= start.0 + 73_142_857, "{softrt:?}");
    }
    wr.split_off(1)
}

#[test]
fn c37_a_periodic_reader_below_7000_sectors_per_second_is_soft_real_time() {
    assert_eq!(batches(100, false), [3_000, 3_000, 3_000]);
    assert_eq!(batches(60, false), [1, 1, 1]);
    assert_eq!(batches(100, true), [1, 1, 1]);
}

#[test]
fn c38_queues_of_a_large_burst_are_not_raised() {
    let mut rig = disk();
    let p: [ProcId; 10] = rig.procs();
    for n in 0..8 {
        rig.at_ms(10 * n);
        rig.read(p[n as usize], (n + 1) << 24, 8);
        rig.read(p[n as usize], ((n + 1) << 24) + 64, 8);
    }
    for &p in &p[..7] {
        assert_eq!(rig.ent(p).wr, 30);
    }
    assert_eq!(rig.ent(p[7]).wr, 1);
    rig.at_ms(170);
    rig.read(p[8], 9 << 24, 8);
    assert_eq!(rig.ent(p[8]).wr, 1);
    for _ in 0..16 {
        let (id, by) = rig.issue();
        let in_service = rig.in_service(by);
        assert!(!in_service || rig.ent(by).wr == 1, "raising ends with the first dispatch");
        rig.complete(id);
        rig.fire_timer_if_armed();
    }
    rig.read(p[0], 1 << 28, 8);
    rig.at_ms(170 + 200);
    rig.read(p[9], 10 << 24, 8);
    assert_eq!((rig.ent(p[9]).wr, rig.sched.burst.size, rig.sched.burst.large), (30, 0, false));
}

#[test]
fn c39_a_busy_async_queue_is_raised_after_a_pause() {
    let mut rig = disk();
    let [a] = rig.procs();
    rig.write(a, 0, 8);
    let q = rig.sched.ctxs.pairs[a.index()].other;
    assert_eq!(rig.sched.fair.ents[q].wr, 1);
    rig.at_ms(400);
    rig.write(a, 1_000, 8);
    assert_eq!(rig.sched.fair.ents[q].wr, 1);
    rig.at_ms(1_000);
    rig.write(a, 2_000, 8);
    assert_eq!((rig.sched.fair.ents[q].wr, rig.sched.fair.census.wr_busy), (30, 1));
}

#[test]
fn c45_raised_queues_leave_writers_a_smaller_part_of_the_pool() {
    use crate::request::{Flags, Op};
    use crate::sched::Depth;
    let mut rig = disk();
    let [a, b] = rig.procs();
    rig.read(a, 1_000, 8);
    let mut limit = |op, flags| {
        let io = rig.io(b, op, 0, 8, flags);
        rig.sched.pool_limit(&io, &rig.env.cx())
    };
    assert_eq!(limit(Op::Write, Flags::NONE), Depth::Word(12));
    assert_eq!(limit(Op::Write, Flags::SYNC), Depth::Word(24));
    assert_eq!(limit(Op::Read, Flags::NONE), Depth::Usual);
}

/// Recorded of Linux 7.3: SATA (31 of 62), and NVMe drives of 256 tags by their depth (0: no limit).
#[test]
fn q29_in_7_3_the_parts_are_of_the_depth_of_the_drive() {
    use crate::device::Tags;
    use crate::request::{Flags, Op};
    use crate::sched::Depth;
    let recorded = [
        (31, 62, [31, 20, 15, 7]),
        (200, 256, [200, 133, 100, 50]),
        (300, 256, [0, 200, 150, 75]),
        (400, 256, [0, 0, 200, 100]),
        (1023, 256, [0, 0, 0, 255]),
        (1, 2, [1, 1, 1, 1]),
    ];
    for (depth, tags, parts) in recorded {
        let mut rig = disk();
        rig.env.device.queue_depth = depth;
        rig.env.device.nr_requests = tags;
        rig.env.device.tags = Tags::Plain;
        rig.sched.conf.base = crate::sched::bfq::tunables::Base::V73;
        let [a, b] = rig.procs();
        let limit = |rig: &mut Rig, op, flags| {
            let io = rig.io(b, op, 0, 8, flags);
            match rig.sched.pool_limit(&io, &rig.env.cx()) {
                Depth::Word(n) => n,
                _ => 0,
            }
        };
        let both = |rig: &mut Rig| [Flags::SYNC, Flags::NONE].map(|f| limit(rig, Op::Write, f));
        let usual = both(&mut rig);
        // Somebody is raised from here on.
        rig.read(a, 1_000, 8);
        assert_eq!([usual, both(&mut rig)].concat(), parts, "{depth} of {tags}");
        assert_eq!(limit(&mut rig, Op::Read, Flags::NONE), 0);
    }
}

#[test]
fn an_arrival_is_soft_real_time_after_its_instant_and_interactive_after_two_seconds() {
    let mut rig = disk();
    let [a] = rig.procs();
    stream(&mut rig, a, 0, 469);
    rig.fire_timer();
    let (q, empty_since) = (rig.q(a), rig.queue(a).slot.deadline.instant().unwrap());
    let next = rig.now + Nanos::ms(100);
    rig.queue(a).raise.next_soft = next;
    let mut arrival = |tn| {
        rig.sched.tn = tn;
        rig.sched.arrival(q, false)
    };
    assert!(!arrival(next).soft && !arrival(next).deserves);
    assert!(arrival(next + Nanos(1)).soft && arrival(next + Nanos(1)).deserves);
    for (after, inter) in [(Nanos::secs(2), false), (Nanos(2_000_000_001), true)] {
        assert_eq!(arrival(empty_since + after).inter, inter, "{after:?}");
    }
    for (after, long) in [(Nanos::secs(10), false), (Nanos(10_000_000_001), true)] {
        assert_eq!(arrival(empty_since + after).very_long_idle, long, "{after:?}");
    }
    rig.queue(a).raise.in_large_burst = true;
    rig.sched.tn = empty_since + Nanos::secs(20);
    let arrival = rig.sched.arrival(q, false);
    assert!(!arrival.soft && !arrival.inter && arrival.in_burst);
}

#[test]
fn the_end_of_a_batch_counts_at_completion_but_not_within_an_interactive_period() {
    for (wr, counts) in [(1, true), (30, false), (3_000, true)] {
        let mut rig = disk();
        rig.at_ms(1);
        let [a] = rig.procs();
        rig.read(a, 1_000, 8);
        let (id, _) = rig.issue();
        let before = rig.queue(a).raise.next_soft;
        rig.ent(a).wr = wr;
        rig.queue(a).raise.soft_pending = true;
        // At 7000 sectors/s they are due in 2 s.
        rig.queue(a).slot.served = 14_000;
        rig.at_ms(3);
        rig.complete(id);
        let due = rig.queue(a).slot.busy_since + Nanos::secs(2);
        let expected = if counts { due } else { before };
        assert_eq!(rig.queue(a).raise.next_soft, expected, "{wr}");
    }
}

#[test]
fn a_slot_of_a_raised_queue_is_as_much_longer_as_it_weighs_more_unless_it_plays() {
    for (soft, factor) in [(false, 30), (true, 1)] {
        let mut rig = disk();
        rig.at_ms(1);
        let [a, b] = rig.procs();
        rig.read(a, 1_000, 8);
        let (id, _) = rig.issue();
        rig.complete(id);
        if soft {
            let terms = rig.sched.terms();
            rig.queue(a).raise.limit = terms.soft;
            rig.queue(a).raise.cause = crate::sched::bfq::queue::raise::Cause::SoftRealTime;
        }
        let q = rig.q(a);
        rig.read(b, 1 << 24, 8);
        rig.sched.start_slot(rig.now, q);
        let end = rig.now + Nanos::ms(125) * factor;
        assert_eq!(rig.queue(a).slot.deadline, Past::at(end), "{soft}");
    }
}
