//! Properties: fairness of slices in time, nobody of the served classes starves, workload slices.

use super::rig::Rig;
use crate::group::ProcId;
use crate::request::{Flags, Op, ReqId};
use crate::sched::cfq::Version;
use crate::unit::IoPrio;
use alloc::vec;
use alloc::vec::Vec;

/// A device of depth 1 that serves every request in so many ms, and processes that always have four
/// requests pending: ms of service by process after `until` ms, and the longest wait for service.
struct Served {
    ms: Vec<u64>,
    gap: Vec<u64>,
}

fn serve(rig: &mut Rig, procs: &[(ProcId, Op)], cost: u64, until: u64) -> Served {
    let mut at = vec![0u64; procs.len()];
    let mut served = Served { ms: vec![0; procs.len()], gap: vec![0; procs.len()] };
    let mut last = vec![0u64; procs.len()];
    let mut add = |rig: &mut Rig, i: usize| {
        at[i] += 64;
        rig.flagged(procs[i].0, procs[i].1, 40_000_000 * i as u64 + at[i], 64, Flags::NONE);
    };
    for i in 0..procs.len() {
        (0..4).for_each(|_| add(rig, i));
    }
    let mut now = 0;
    while now < until {
        rig.at_ms(now);
        if rig.timer_ms().is_some_and(|t| t <= now) {
            rig.fire_timer();
        }
        let Some(id) = rig.issue_next() else {
            now = rig.timer_ms().map_or(now + 1, |t| t.max(now));
            continue;
        };
        let i = owner(rig, id, procs);
        served.gap[i] = served.gap[i].max(now - last[i]);
        now += cost;
        last[i] = now;
        served.ms[i] += cost;
        rig.at_ms(now).complete(id);
        add(rig, i);
    }
    for (gap, last) in served.gap.iter_mut().zip(last) {
        *gap = (*gap).max(now - last);
    }
    served
}

fn owner(rig: &Rig, id: ReqId, procs: &[(ProcId, Op)]) -> usize {
    let proc = rig.env.requests[id].proc;
    procs.iter().position(|p| p.0 == proc).expect("a process of the test")
}

/// Backlogged queues of one level differ by at most one slice (and the request that overran it).
#[test]
fn backlogged_queues_of_one_level_get_equal_time() {
    for version in [Version::V30, Version::V34, Version::V38] {
        for n in [2, 3, 5, 12] {
            for cost in [1, 3, 7] {
                let mut rig = Rig::of(version, true);
                let procs: Vec<_> = (0..n).map(|_| (rig.proc(IoPrio::be(4)), Op::Read)).collect();
                let served = serve(&mut rig, &procs, cost, 20_000);
                let (most, least) =
                    (served.ms.iter().max().unwrap(), served.ms.iter().min().unwrap());
                // A slice begins with the first completion, so one request of `cost` comes before
                // it.
                let bound = 100 + 2 * cost;
                assert!(
                    most - least <= bound,
                    "{version:?}, {n} queues, {cost} ms: {:?}",
                    served.ms
                );
                let round = n as u64 * (100 + 2 * cost);
                assert!(served.gap.iter().all(|&g| g <= round), "{:?} > {round}", served.gap);
            }
        }
    }
}

/// With `low_latency` a round of queues takes about 300 ms, whatever their number up to the floor.
#[test]
fn a_round_of_queues_takes_the_target_latency() {
    for n in [4, 6, 10] {
        let mut rig = Rig::disk();
        let procs: Vec<_> = (0..n).map(|_| (rig.proc(IoPrio::be(4)), Op::Read)).collect();
        let served = serve(&mut rig, &procs, 1, 10_000);
        // Each slice is preceded by its first request and overrun by less than one.
        let bound = 300 + 3 * n as u64 + 100;
        assert!(served.gap.iter().all(|&g| g <= bound), "{n} queues: {:?}", served.gap);
        // The first round, before the average has risen, is the longest.
        assert!(served.gap.iter().any(|&g| g >= 200), "{n} queues: {:?}", served.gap);
    }
}

/// Higher levels get longer slices, in about the ratio of the bases; nobody starves.
#[test]
fn levels_share_in_the_ratio_of_their_slices() {
    for version in [Version::V30, Version::V34] {
        let mut rig = Rig::of(version, true);
        rig.set("low_latency", 0);
        let procs = [0, 4, 7].map(|level| (rig.proc(IoPrio::be(level)), Op::Read));
        let served = serve(&mut rig, &procs, 2, 60_000).ms;
        assert!(served[0] > served[1] && served[1] > served[2] && served[2] > 0, "{served:?}");
        // 180 : 100 : 40, and each slice is longer by its first request (2 ms) and up to one more.
        // A lower level also comes later by its key, so it may get less than its ratio, never more.
        assert!(served[0] * 104 >= served[1] * 180, "{version:?} {served:?}");
        assert!(served[1] * 44 >= served[2] * 100, "{version:?} {served:?}");
    }
}

/// Buffered writes keep being served beside readers, and do not take more than their part.
#[test]
fn async_writes_get_a_workload_slice_beside_readers() {
    let mut rig = Rig::disk();
    let mut procs: Vec<_> = (0..3).map(|_| (rig.proc(IoPrio::be(4)), Op::Read)).collect();
    procs.push((rig.proc(IoPrio::be(4)), Op::Write));
    let served = serve(&mut rig, &procs, 2, 30_000);
    let all: u64 = served.ms.iter().sum();
    let writes = served.ms[3];
    assert!(writes > 0 && served.gap[3] < 2000, "writes waited {} ms", served.gap[3]);
    // One of four queues, at 40 % of its share of 300 ms: 30 of 255 ms.
    assert!(writes * 4 < all, "{:?}", served.ms);
}

/// A real-time reader shuts others out; the idle class gets nothing beside best effort.
#[test]
fn classes_are_strict() {
    for version in [Version::V30, Version::V34] {
        let mut rig = Rig::of(version, true);
        let procs = [IoPrio::rt(4), IoPrio::be(0)].map(|prio| (rig.proc(prio), Op::Read));
        assert_eq!(serve(&mut rig, &procs, 2, 5000).ms[1], 0, "{version:?}");
        let mut rig = Rig::of(version, true);
        let procs = [IoPrio::be(7), IoPrio::idle()].map(|prio| (rig.proc(prio), Op::Read));
        assert_eq!(serve(&mut rig, &procs, 2, 5000).ms[1], 0, "{version:?}");
    }
}

/// Groups share by weight however many queues they have.
#[test]
fn groups_share_time_by_weight() {
    for version in [Version::V34, Version::V38] {
        let mut rig = Rig::of(version, true);
        let (a, b) = (rig.group(300), rig.group(900));
        let mut procs = Vec::new();
        for i in 0..6 {
            let group = if i < 5 { a } else { b };
            procs.push((rig.env.procs.add(group, IoPrio::be(4)), Op::Read));
        }
        let served = serve(&mut rig, &procs, 2, 60_000).ms;
        let light: u64 = served[..5].iter().sum();
        let ratio = served[5] as f64 / light as f64;
        // Slices are charged without their first request, so short ones are cheaper than they look.
        assert!((2.4..3.3).contains(&ratio), "{version:?}: {ratio:.2}, {served:?}");
    }
}
