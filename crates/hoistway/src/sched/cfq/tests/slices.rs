//! Slices, keys, workloads, dispatch limits: scenarios 1 to 3, 7 to 12, 15, 20 to 22.

use super::rig::Rig;
use crate::group::{GroupId, ProcId};
use crate::request::{Flags, Op};
use crate::rows::Id;
use crate::sched::cfq::group::{ASYNC, CfqGroup, SYNC};
use crate::sched::cfq::ids::{QueueNo, RqNo};
use crate::sched::cfq::requests::slot;
use crate::sched::cfq::{BE, Version};
use crate::sched::{At, Scheduler};
use crate::stage::Stage;
use crate::unit::{Instant, IoPrio, Nanos, QueueId};
use alloc::string::String;
use alloc::vec::Vec;

/// Scenario 1.
#[test]
fn base_slices_and_async_limits_follow_the_level() {
    let rig = Rig::disk();
    let base = |sync| [0, 4, 7].map(|level| rig.sched.base(sync, level));
    assert_eq!(base(true), [180, 100, 40]);
    assert_eq!(base(false), [72, 40, 16]);
    assert_eq!([0, 4, 7].map(|level| rig.sched.max_async(level)), [32, 16, 4]);
}

/// The slice of a queue with `busy` queues of its class, the stored average being the same.
fn slice(busy: usize, level: u8, sync: bool, low_latency: bool) -> i64 {
    let mut rig = Rig::disk();
    rig.set("low_latency", low_latency.into());
    let mut procs = Vec::new();
    for i in 0..busy as u64 {
        // The async queue of a level is shared: other queues are sync ones of level 4.
        let first = i == 0;
        let proc = rig.proc(IoPrio::be(if first { level } else { 4 }));
        let op = if first && !sync { Op::Write } else { Op::Read };
        rig.flagged(proc, op, 100_000 * (i + 1), 8, Flags::NONE);
        procs.push(proc);
    }
    rig.sched.groups.rows[GroupId::ROOT].avg[usize::from(BE)] = busy as i64;
    let q = if sync { rig.q(procs[0]) } else { rig.sched.queues.shared[8 + usize::from(level)] };
    rig.sched.slice_length(q)
}

/// Scenario 2.
#[test]
fn slices_shrink_with_the_number_of_queues_down_to_a_floor() {
    for (busy, want) in [(3, 100), (4, 75), (6, 50), (10, 30), (20, 16)] {
        assert_eq!(slice(busy, 4, true, true), want, "{busy} queues at level 4");
        assert_eq!(slice(busy, 4, true, false), 100, "low_latency off");
    }
    assert_eq!([4, 30].map(|n| slice(n, 0, true, true)), [135, 28]);
    assert_eq!([4, 30].map(|n| slice(n, 7, true, true)), [30, 6]);
    assert_eq!([6, 20].map(|n| slice(n, 4, false, true)), [20, 6]);
}

/// Scenario 3.
#[test]
fn the_average_of_busy_queues_rises_fast_and_falls_slowly() {
    let averages = [1, 1, 4, 4, 4, 4, 1, 1, 1].map({
        let mut avg = 0;
        move |busy: u64| {
            let mut rig = Rig::disk();
            let mut first = None;
            for i in 0..busy {
                let [p] = rig.procs();
                rig.read(p, 1000 * (i + 1), 8);
                first.get_or_insert(p);
            }
            rig.sched.groups.rows[GroupId::ROOT].avg[usize::from(BE)] = avg;
            let q = rig.q(first.unwrap());
            rig.sched.slice_length(q);
            avg = rig.sched.groups.rows[GroupId::ROOT].avg[usize::from(BE)];
            avg
        }
    });
    assert_eq!(averages, [1, 1, 3, 4, 4, 4, 3, 3, 3]);
}

/// Which of two requests is chosen from `pos`: their starts.
fn chosen(pos: u64, a: (u64, Op, Flags), b: (u64, Op, Flags)) -> u64 {
    let mut rig = Rig::disk();
    let [p, other] = rig.procs();
    let x = rig.flagged(p, a.1, a.0, 8, a.2);
    let y = rig.flagged(other, b.1, b.0, 8, b.2);
    let one = rig.sched.choose(slot(x), slot(y), pos);
    assert_eq!(one, rig.sched.choose(slot(y), slot(x), pos), "the order does not matter");
    assert_eq!(rig.sched.choose(RqNo::NONE, slot(x), pos), slot(x));
    rig.sched.pool.rqs[one].pos
}

/// Scenario 7.
#[test]
fn the_nearer_request_is_chosen_and_backward_counts_double() {
    let read = |start| (start, Op::Read, Flags::NONE);
    assert_eq!(chosen(1000, read(1100), read(960)), 960);
    assert_eq!(chosen(1000, read(1100), read(950)), 1100, "a tie: the later one");
    // 32768 sectors back is within reach and beats a request farther ahead; one sector more is not.
    assert_eq!(chosen(100_000, read(67_232), read(170_000)), 67_232);
    assert_eq!(chosen(100_000, read(67_231), read(170_000)), 170_000);
    assert_eq!(chosen(100_000, read(5), read(900)), 5, "both wrapped");
    let write = (1001, Op::Write, Flags::NONE);
    assert_eq!(chosen(1000, read(99_999_999), write), 99_999_999, "sync first");
    let meta = (90_000, Op::Read, Flags::META);
    assert_eq!(chosen(1000, meta, read(1001)), 90_000);
}

/// Scenario 8.
#[test]
fn the_oldest_request_is_looked_at_once_per_slice() {
    for (late, want) in [(0, [90_000, 5000, 5100]), (1, [5000, 5100, 90_000])] {
        let mut rig = Rig::disk();
        let [p] = rig.procs();
        let old = rig.read(p, 90_000, 8);
        let second = rig.read(p, 5000, 8);
        let third = rig.read(p, 5100, 8);
        rig.at_ms(10);
        rig.sched.pool.rqs[slot(old)].fifo_deadline = 10 + late;
        // More deadlines pass: it makes no difference.
        rig.sched.pool.rqs[slot(second)].fifo_deadline = 10 + late;
        rig.sched.pool.rqs[slot(third)].fifo_deadline = 10 + late;
        // At the head the sweep would begin with 5000.
        assert_eq!(rig.queue(p).pending.next, slot(second));
        assert_eq!([(); 3].map(|()| rig.issue_at()), want, "{late} ms early");
    }
}

/// Two queues, the active one with 12 requests.
fn twelve_and_another() -> (Rig, ProcId) {
    let mut rig = Rig::disk();
    let [p, other] = rig.procs();
    for i in 0..12 {
        rig.read(p, 1000 * (i + 1), 8);
    }
    rig.read(other, 1_000_000, 8);
    (rig, p)
}

/// Scenario 9.
#[test]
fn a_queue_has_few_requests_in_flight_while_another_waits() {
    let (mut rig, _) = twelve_and_another();
    assert_eq!(rig.issue_all().len(), 4, "before any completion");
    rig.slice_left(31);
    assert_eq!(rig.issue_next(), None, "4 * 8 = 32 > 31");
    rig.slice_left(32);
    assert!(rig.issue_next().is_some());
    rig.slice_left(100);
    assert_eq!(rig.issue_all().len(), 3, "up to 8");
}

/// Scenario 9, end.
#[test]
fn the_only_busy_queue_has_no_limit() {
    let mut rig = Rig::disk();
    let [p] = rig.procs();
    for i in 0..12 {
        rig.read(p, 1000 * (i + 1), 8);
    }
    assert_eq!(rig.issue_all().len(), 12);
}

/// Scenario 10.
#[test]
fn async_depth_grows_with_the_time_since_a_late_sync_request() {
    let fill = |ms| {
        let mut rig = Rig::disk();
        let [p] = rig.procs();
        rig.at_ms(ms);
        for i in 0..20 {
            rig.write(p, 1000 * (i + 1), 8);
        }
        rig.issue_all().len()
    };
    assert_eq!((fill(0), fill(500)), (10, 15));
}

/// A disk on which a sync request allocated at 0 was completed at `done`, with async requests
/// waiting.
fn after_sync(done: u64) -> Rig {
    let mut rig = Rig::disk();
    let [p] = rig.procs();
    rig.read(p, 1 << 20, 8);
    let (id, _) = rig.issue();
    rig.at_ms(done).complete(id);
    if rig.sched.active.is_some() {
        rig.at_ms(done + 1).exit(p);
    }
    let [writer] = rig.procs();
    for i in 0..20 {
        rig.write(writer, 1000 * (i + 1), 8);
    }
    rig
}

/// Scenario 10, second half.
#[test]
fn a_late_sync_request_cuts_the_async_depth_to_one() {
    for (at, depth) in [(130, 1), (224, 1), (225, 1), (325, 2)] {
        let mut rig = after_sync(125);
        assert_eq!(rig.sched.ramp.last_late, 125);
        assert_eq!(rig.at_ms(at).issue_all().len(), depth, "at {at}");
    }
    let mut rig = after_sync(125);
    // One is in flight: at 224 the depth is still 0, at 225 it is 1.
    let one = rig.at_ms(130).issue().0;
    assert_eq!(rig.at_ms(224).issue_next(), None);
    assert_eq!(rig.at_ms(225).issue_next(), None);
    rig.complete(one);
    assert!(rig.issue_next().is_some());
    assert_eq!(after_sync(124).sched.ramp.last_late, -1000, "124 ms are not late");
}

/// Scenario 11.
#[test]
fn async_waits_for_sync_in_flight_and_idling_queues_for_async() {
    let mut rig = Rig::disk();
    let [p, w] = rig.procs();
    rig.read(p, 1000, 8);
    rig.issue();
    rig.write(w, 500_000, 8);
    let shared = rig.sched.queues.shared[8 + 4];
    assert!(!rig.sched.may_dispatch(0, shared), "sync in flight");

    let mut rig = Rig::disk();
    let [a, b, w] = rig.procs();
    rig.write(w, 500_000, 8);
    rig.issue();
    rig.read(a, 1000, 8);
    assert!(rig.sched.should_idle(rig.q(a)));
    assert!(!rig.sched.may_dispatch(0, rig.q(a)), "async in flight, idles");
    rig.read(b, 900_000, 8);
    for proc in [a, b] {
        rig.queue(proc).idle_window = false;
        let q = rig.q(proc);
        rig.sched.place(0, q, false);
    }
    assert!(!rig.sched.should_idle(rig.q(a)));
    assert!(rig.sched.may_dispatch(0, rig.q(a)), "async in flight, does not idle");
}

/// Scenario 12: dispatches as (time, process).
#[test]
fn two_sequential_readers_take_turns_by_slices() {
    let mut rig = Rig::disk();
    let [p1, p2] = rig.procs();
    rig.read(p1, 1000, 256);
    assert_eq!((rig.queue(p1).turn.key, rig.issue().1), (-80, p1));
    assert_eq!((rig.sched.workload.end, rig.sched.workload.kind), (300, SYNC));
    rig.at_ms(1).read(p2, 50_000_000, 256);
    assert_eq!(rig.queue(p2).turn.key, 1);
    assert!(rig.is_active(p1), "no preemption");
    assert_eq!(rig.issue_next(), None, "one is in flight and the queue idles");
    // Each request takes 8, each process thinks for 2.
    let mut at = 1000;
    for turn in 0..10 {
        rig.at_ms(10 * turn + 8);
        let id = rig.env.requests.at(0).id;
        rig.complete(id);
        assert_eq!(rig.timer_ms(), Some(10 * turn + 16));
        assert_eq!(rig.issue_next(), None);
        if turn == 0 {
            let q = rig.queue(p1);
            assert_eq!((q.slice.end, q.slice.used_time(28)), (108, 20));
        }
        at += 256;
        rig.at_ms(10 * turn + 10).read(p1, at, 256);
        assert_eq!(rig.timer_ms(), None);
        assert_eq!(rig.issue().1, p1);
    }
    // The request of 100 completes at 108: the slice is used.
    let vtime = rig.sched.groups.rows[GroupId::ROOT].vtime;
    let id = rig.env.requests.at(0).id;
    rig.at_ms(108).complete(id);
    assert_eq!(rig.sched.active, QueueNo::NONE);
    assert_eq!(rig.queue(p1).slice.resid, 0);
    assert_eq!(rig.sched.groups.rows[GroupId::ROOT].vtime - vtime, (100 << 12) * 500 / 1000);
    let (second, proc) = rig.issue();
    assert_eq!((proc, rig.sched.workload.end), (p2, 300), "the workload slice goes on");
    rig.at_ms(110).read(p1, at + 256, 256);
    assert_eq!(rig.queue(p1).turn.key, 110);
    rig.at_ms(116).complete(second);
    assert_eq!(rig.timer_ms(), Some(124));
    assert_eq!(rig.issue_next(), None);
    rig.fire_timer();
    assert_eq!((rig.ms(), rig.issue().1), (124, p1));
}

/// Scenario 13.
#[test]
fn a_reader_that_does_not_return_is_waited_for_once() {
    let mut rig = Rig::disk();
    let [p1, p2] = rig.procs();
    rig.read(p1, 1000, 256);
    let (id, _) = rig.issue();
    rig.at_ms(1).read(p2, 50_000_000, 256);
    rig.at_ms(8).complete(id);
    assert_eq!(rig.timer_ms(), Some(16));
    rig.fire_timer();
    assert_eq!(rig.queue(p1).slice.resid, 0, "no residual");
    assert_eq!((rig.ms(), rig.issue().1), (16, p2));
}

/// A writer is active, and at 10 a read arrives; nothing of the writer is in flight any more.
fn read_after_writes(switch: u64) -> (Rig, ProcId, ProcId) {
    let mut rig = Rig::disk();
    rig.set("preempt_switches_workload", switch);
    let [w, r] = rig.procs();
    for i in 0..40 {
        rig.write(w, 1000 * (i + 1), 8);
    }
    let (id, _) = rig.issue();
    assert_eq!((rig.sched.workload.end, rig.sched.workload.kind), (120, ASYNC));
    rig.at_ms(10).complete(id);
    rig.read(r, 5_000_000, 8);
    assert_eq!(rig.ends().last(), Some(&"preempted: sync before async"));
    (rig, w, r)
}

/// Scenario 15.
#[test]
fn a_preempting_reader_is_not_selected_while_the_async_workload_lasts() {
    let (mut rig, _, r) = read_after_writes(1);
    assert_eq!(rig.issue().1, r, "the switch");
    let (mut rig, w, r) = read_after_writes(0);
    let (id, proc) = rig.issue();
    assert_eq!((proc, rig.sched.workload.kind, rig.sched.workload.end), (w, ASYNC, 120));
    rig.at_ms(20).complete(id);
    // The first choice of a new queue after 120.
    for (at, want) in [(119, w), (121, r)] {
        rig.at_ms(at);
        rig.sched.expire(rig.now, false, "expired: by the test", &mut rig.env.cx());
        let (id, proc) = rig.issue();
        assert_eq!(proc, want, "at {at}");
        rig.complete(id);
    }
}

/// Scenario 15, end.
#[test]
fn the_reader_is_selected_when_the_async_queue_runs_empty() {
    let mut rig = Rig::disk();
    let [w, r] = rig.procs();
    rig.write(w, 1000, 8);
    rig.write(w, 2000, 8);
    let (id, _) = rig.issue();
    rig.at_ms(10).complete(id);
    rig.read(r, 5_000_000, 8);
    let (id, proc) = rig.issue();
    assert_eq!(proc, w);
    rig.at_ms(15).complete(id);
    assert_eq!(rig.issue().1, r);
}

/// Scenario 20.
#[test]
fn groups_get_time_by_weight() {
    let mut rig = Rig::disk();
    let (a, b) = (rig.group(500), rig.group(1000));
    let mut procs = Vec::new();
    for (i, group) in [a, b].into_iter().enumerate() {
        let proc = rig.env.procs.add(group, IoPrio::be(4));
        procs.push(proc);
        for n in 0..40 {
            rig.read(proc, 10_000_000 * i as u64 + 1000 * n, 8);
        }
    }
    assert_eq!(rig.sched.groups.rows[a].vtime, 0);
    assert_eq!(rig.sched.groups.rows[b].vtime, 200);
    assert_eq!(rig.sched.groups.slice(a), 100);
    assert_eq!(rig.sched.groups.slice(b), 200);
    let mut order = Vec::new();
    for turn in 0..6 {
        let (id, proc) = rig.at_ms(1000 * turn).issue();
        order.push(if proc == procs[0] { 'A' } else { 'B' });
        let before = rig.sched.group_of(rig.q(proc)).vtime;
        rig.complete(id);
        rig.slice_left(100);
        rig.at_ms(1000 * turn + 100);
        rig.sched.expire(rig.now, true, "expired: by the test", &mut rig.env.cx());
        let step = if proc == procs[0] { 409_600 } else { 204_800 };
        assert_eq!(rig.sched.group_of(rig.q(proc)).vtime - before, step);
    }
    assert_eq!(order, ['A', 'B', 'B', 'A', 'B', 'B']);
}

/// Scenario 21.
#[test]
fn the_idle_class_is_served_last_and_one_request_at_a_time() {
    let mut rig = Rig::disk();
    let (i1, i2) = (rig.proc(IoPrio::idle()), rig.proc(IoPrio::idle()));
    let [p] = rig.procs();
    for n in 0..3 {
        rig.read(i1, 1000 * (n + 1), 8);
    }
    for n in 0..3 {
        rig.read(i2, 100_000 + 1000 * n, 8);
    }
    assert_eq!((rig.queue(i1).turn.key, rig.queue(i2).turn.key), (200, 400));
    let read = rig.read(p, 5_000_000, 8);
    assert_eq!(rig.issue().1, p, "best effort first");
    assert_eq!(rig.issue_next(), None, "it is idled for");
    rig.at_ms(5).complete(read);
    rig.fire_timer();
    rig.ends();
    let (first, second) = (rig.issue(), rig.issue());
    assert_eq!((first.1, second.1), (i1, i2), "one each");
    assert_eq!(rig.ends(), ["expired: enough requests"; 2]);
    assert_eq!(rig.issue_next(), None, "at most one in flight per queue");
    rig.complete(first.0);
    assert_eq!(rig.issue_next(), None, "the turn has passed to the other");
    rig.complete(second.0);
    assert_eq!(rig.issue().1, i1);
}

/// Scenario 22.
#[test]
fn an_async_queue_dispatches_sixteen_requests_per_slice() {
    let mut rig = Rig::disk();
    let [w, r] = rig.procs();
    for i in 0..40 {
        rig.write(w, 1000 * (i + 1), 8);
    }
    // A sync queue is busy too: nothing is active, so nothing is preempted, and its key is larger.
    rig.read(r, 5_000_000, 8);
    // Nothing completes, or the slice proper would begin: depth is to be no limit.
    rig.sched.ramp.last_late = -100_000;
    rig.set("quantum", 64);
    for i in 0..16 {
        assert_eq!(rig.at_ms(i).issue().1, w);
    }
    assert_eq!(rig.ends(), ["expired: enough requests"]);
    // slice_start is unset: 15 ms since it was selected.
    assert_eq!(rig.sched.groups.rows[GroupId::ROOT].vtime, (15 << 12) * 500 / 1000);
}

#[test]
fn a_weight_takes_effect_when_the_group_is_next_charged() {
    let mut rig = Rig::disk();
    let a = rig.group(500);
    let p = rig.env.procs.add(a, IoPrio::be(4));
    for n in 0..4 {
        rig.read(p, 1000 * n, 8);
    }
    rig.sched.set_group(rig.now, a, "weight", Some(1000), &mut rig.env.cx()).unwrap();
    assert_eq!((rig.sched.groups.rows[a].weight, rig.sched.groups.total_weight), (500, 500));
    rig.issue();
    rig.at_ms(10);
    rig.sched.expire(rig.now, false, "expired: by the test", &mut rig.env.cx());
    assert_eq!((rig.sched.groups.rows[a].weight, rig.sched.groups.total_weight), (1000, 1000));
    assert_eq!(rig.sched.groups.rows[a].vtime, 10 << 12, "charged by the old weight");
    let default = |rig: &mut Rig, g| {
        rig.sched.set_group(rig.now, g, "weight", None, &mut rig.env.cx()).unwrap();
        rig.sched.groups.rows[g].new_weight
    };
    assert_eq!((default(&mut rig, a), default(&mut rig, GroupId::ROOT)), (500, 1000));
    assert_eq!(CfqGroup::new(500).busy(BE), 0);
}

#[test]
fn the_weight_file_takes_a_number_in_its_range_and_prints_it() {
    let mut rig = Rig::disk();
    let a = rig.group(500);
    let write = |rig: &mut Rig, line: &str| {
        rig.sched.write_knob(rig.now, a, "blkio.weight", line, &mut rig.env.cx())
    };
    assert!(write(&mut rig, "200\n").is_ok());
    for wrong in ["99", "1001", "", "8:0 200", "0x80"] {
        assert!(write(&mut rig, wrong).is_err(), "{wrong}");
    }
    let read = |rig: &mut Rig, group| {
        let mut text = String::new();
        rig.sched.read_knob(group, "blkio.weight", &rig.env.cx(), &mut text);
        text
    };
    assert_eq!((read(&mut rig, a).as_str(), rig.sched.groups.rows[a].new_weight), ("200\n", 200));
    assert_eq!(read(&mut rig, GroupId::ROOT), "1000\n");
}

#[test]
fn requests_at_one_sector_push_each_other_out() {
    let mut rig = Rig::disk();
    let [p] = rig.procs();
    let old = rig.read(p, 1000, 8);
    let new = rig.read(p, 1000, 8);
    assert_eq!(rig.sched.pool.queued, 1);
    assert_eq!([rig.issue().0, rig.issue().0], [old, new]);
}

#[test]
fn a_request_given_back_is_returned_before_anything_else() {
    let mut rig = Rig::disk();
    let [p] = rig.procs();
    for n in 0..3 {
        rig.read(p, 1000 * (n + 1), 8);
    }
    let (id, _) = rig.issue();
    let dispatched = rig.queue(p).slice.sent;
    rig.sched.requeue(rig.now, id, &mut rig.env.cx());
    assert_eq!(rig.sched.pool.in_driver, 0);
    rig.sched.prepare(rig.now, id, &mut rig.env.cx());
    rig.sched.insert(rig.now, id, At::Head, &mut rig.env.cx());
    rig.check();
    assert_eq!(rig.issue().0, id);
    assert_eq!(rig.queue(p).slice.sent, dispatched, "no slice accounting");
}

#[test]
fn draining_ignores_slices_and_sorts_from_the_head() {
    for version in [Version::V30, Version::V34, Version::V38] {
        let mut rig = Rig::of(version, true);
        let [p, other, w] = rig.procs();
        rig.read(p, 5000, 8);
        rig.issue();
        rig.read(p, 9000, 8);
        rig.read(other, 1000, 8);
        rig.read(other, 7000, 8);
        rig.write(w, 6000, 8);
        let order: Vec<u64> = core::iter::from_fn(|| {
            let id = rig.sched.drain(rig.now, &mut rig.env.cx())?;
            rig.check();
            Some(rig.env.requests[id].start.0)
        })
        .collect();
        // The sweep goes on behind 5008 and wraps; a write is not passed.
        let reads: Vec<u64> = order.iter().copied().filter(|&s| s != 6000).collect();
        assert_eq!(reads, [7000, 9000, 1000], "{version:?}: {order:?}");
        assert_eq!(order.len(), 4);
        let answer = rig.sched.dispatch(rig.now, QueueId(0), &mut rig.env.cx());
        assert_eq!(answer, crate::sched::Dispatch::Empty);
    }
}

/// The slice of a workload runs down only while a queue is served (7.1 step 4, 7.4), in whole ticks.
/// Processes that write and wait for the drive's flush are served for microseconds and preempt each
/// other when the next of them come back ("no need to idle for one of two"); from then on nobody is
/// served until the drive has room, and another type's turn does not come nearer.
#[test]
fn a_workload_slice_stands_still_while_nobody_is_served() {
    let mut rig = Rig::of(Version::V34, false);
    let writers = rig.procs::<8>();
    let [reader] = rig.procs();
    let write = |rig: &mut Rig, round: u64| {
        // Four by four in turn.
        for w in &writers[round as usize % 2 * 4..][..4] {
            let at = 1_000_000 * (w.index() as u64 + 1) + 8 * round;
            rig.flagged(*w, Op::Write, at, 8, Flags::SYNC);
        }
    };
    for &w in &writers {
        rig.sched.resolve(rig.now, w, true, &mut rig.env.cx());
        // Short requests count as seeks on flash, and these have had many.
        (rig.queue(w).seek.jumps, rig.queue(w).idle_window) = (u32::MAX, false);
    }
    rig.at_ms(1);
    write(&mut rig, 1);
    // Each round the four that wait are served and `served` later the others come back from a flush;
    // then those four complete. There is room for more after that flush.
    let mut round = 0;
    let mut rounds = |rig: &mut Rig, n: u64, served: Nanos| {
        for _ in 0..n {
            rig.now = Instant::ZERO + Nanos::us(2_300 + 3_000 * round);
            let ids: Vec<_> = (0..4).filter_map(|_| rig.issue_next()).collect();
            if ids.iter().any(|&id| rig.env.requests[id].proc == reader) {
                return Some(round);
            }
            if round == 0 {
                rig.read(reader, 500_000_000, 8);
            }
            rig.now += served;
            write(rig, round);
            rig.now += Nanos::us(50);
            ids.into_iter().for_each(|id| rig.complete(id));
            round += 1;
        }
        None
    };
    assert_eq!(rounds(&mut rig, 5_000, Nanos::us(15)), None, "served within one tick: for 15 s");
    let reasons = rig.ends();
    let preempted = reasons.iter().filter(|why| why.starts_with("preempted: no need")).count();
    assert!(preempted >= 4_999, "{preempted} rounds end by preemption");
    // Now a round costs the slice, of 300 ms, one tick.
    assert_eq!(rounds(&mut rig, 400, Nanos::us(800)), Some(5_300));
}
