//! Who uses and owns a queue, and what happens when it is let go: exits, changes of priority and group,
//! merges, splits, removal of groups (specs/bfq.md 1.3, 2.10, 3.8, 5.1, 6.5, 7.3 to 7.6, 8.3).

use super::rig::Rig;
use crate::group::{GroupId, ProcId};
use crate::sched::Dispatch;
use crate::sched::bfq::ids::{Id, NodeNo, QueueNo};
use crate::sched::bfq::queue::think::Average;
use crate::sched::bfq::slot::Reason;
use crate::sched::bfq::wf2q::{BE, On, ROOT, RT};
use crate::stage::{Change, Stage};
use crate::unit::{IoPrio, Nanos};

/// Value of the tunable `base`: Linux 6.1.
const V61: u64 = 0;
/// Linux 5.3.
const V53: u64 = 3;

fn set_prio(rig: &mut Rig, proc: ProcId, prio: IoPrio) {
    rig.env.procs.get_mut(proc).unwrap().prio = prio;
}

fn expire(rig: &mut Rig, reason: Reason) {
    let (now, q) = (rig.now, rig.sched.serving.queue);
    rig.sched.expire(now, q, false, reason, &mut rig.env.cx());
}

/// A and B share the queue in service; a request of A is in the device, B has one pending.
fn sharing(mut rig: Rig) -> (Rig, ProcId, ProcId) {
    rig.set("queue_merge", 1);
    let [a, b] = rig.procs();
    rig.read(a, 1_000_000, 256);
    rig.issue();
    rig.read(b, 1_002_000, 8);
    rig.read(b, 1_002_100, 8);
    assert_eq!(rig.q(a), rig.q(b));
    (rig, a, b)
}

#[test]
fn an_async_queue_is_used_by_its_group_and_owned_by_nobody() {
    let mut rig = Rig::ssd();
    let [a] = rig.procs();
    rig.write(a, 0, 8);
    let q = rig.sched.ctxs.pairs[a.index()].other;
    assert_eq!((rig.sched.queues[q].life.users, rig.sched.queues[q].life.owner), (2, ProcId::NONE));
    rig.exit(a);
    assert_eq!(rig.sched.queues[q].life.users, 1);
    // So guarantees may still need that it is waited for.
    assert!(rig.sched.guarantee_needs_idling(q));
    rig.serve_all();
    rig.fire_timer_if_armed();
    assert!(rig.sched.queues[q].live);
    rig.sched.check();
}

#[test]
fn the_exit_of_one_of_two_users_ends_the_slot() {
    let (mut rig, a, b) = sharing(Rig::hdd());
    let q = rig.q(a);
    let max_budget = rig.queue(a).slot.max_budget;
    while rig.kicked() {}
    rig.exit(b);
    assert_eq!(rig.sched.serving.queue, QueueNo::NONE);
    assert_eq!(rig.expiries(), [(q, "a process that uses it exits")]);
    assert!(rig.kicked());
    let queue = rig.queue(a);
    assert_eq!(
        (queue.slot.hole, queue.slot.max_budget, queue.life.users),
        (false, max_budget, 1),
        "nothing is learnt"
    );
    rig.sched.check();
}

#[test]
fn q21_what_a_slot_that_an_exit_ended_received_is_charged_once() {
    for (base, service) in [(V61, 256), (2, 0)] {
        let (mut rig, a, b) = sharing(Rig::hdd());
        rig.set("base", base);
        assert_eq!(rig.ent(a).service, 256);
        rig.exit(b);
        assert_eq!((rig.ent(a).service, rig.ent(a).on), (service, On::Active));
    }
}

#[test]
fn who_lets_go_of_an_empty_queue_takes_it_off_the_busy_ones() {
    let mut rig = Rig::ssd();
    let (a, b) = (rig.proc(IoPrio::be(0)), rig.proc(IoPrio::be(4)));
    rig.read(a, 1_000, 8);
    rig.issue();
    rig.read(b, 1 << 24, 8);
    // A is worth waiting for, so it stays busy though it is empty and no longer in service.
    expire(&mut rig, Reason::Preempted);
    assert!(rig.ent(a).busy && rig.queue(a).empty());
    // Somebody else uses it too.
    let [c] = rig.procs();
    rig.read(c, 1 << 26, 8);
    let (q, mine) = (rig.q(a), rig.sched.ctxs.pair_at(c, 0));
    let own = rig.q(c);
    rig.sched.ctxs.pairs[mine].sync = q;
    rig.sched.queues[q].life.users += 1;
    rig.sched.drop_user(own);
    rig.exit(c);
    assert_eq!((rig.ent(a).busy, rig.queue(a).life.users), (false, 1));
    rig.sched.check();
}

#[test]
fn whoever_lets_go_of_a_queue_takes_it_from_those_that_new_ones_are_compared_with() {
    let mut rig = Rig::hdd();
    rig.set("stable_merge", 1);
    let [a] = rig.procs();
    rig.read(a, 1_000, 8);
    assert_eq!(rig.sched.groups[ROOT].last_created, rig.q(a));
    rig.issue();
    // A request is in the device, so the queue is not freed.
    rig.exit(a);
    assert_eq!(rig.sched.groups[ROOT].last_created, QueueNo::NONE);
}

/// A real-time queue turns best-effort while it is busy.
fn turned(base: u64) -> Rig {
    let mut rig = Rig::ssd();
    rig.set("base", base);
    let (a, b) = (rig.proc(IoPrio::rt(4)), rig.proc(IoPrio::be(4)));
    for n in 0..4 {
        rig.read(a, 1_000 + 8 * n, 8);
    }
    rig.read(b, 1 << 24, 8);
    set_prio(&mut rig, a, IoPrio::be(4));
    rig.read(a, 2_000, 8);
    let (id, _) = rig.issue();
    rig.complete(id);
    expire(&mut rig, Reason::Exhausted);
    assert_eq!(rig.ent(a).class, BE);
    rig
}

#[test]
fn q19_a_busy_queue_is_counted_in_the_class_it_has_now() {
    let rig = turned(2);
    assert_eq!(rig.sched.fair.census.busy.0, [0, 2, 0]);
    assert!(!rig.sched.fair.census.classes_differ());
    let mut rig = turned(V61);
    let busy = |rig: &Rig| rig.sched.fair.census.busy.0.map(|n| n as i32);
    assert_eq!((busy(&rig), rig.sched.fair.census.tot_busy()), ([1, 1, 0], 2));
    while rig.sched.load.queued > 0 || rig.sched.next_timer().is_some() {
        rig.serve_all();
        rig.fire_timer_if_armed();
    }
    assert_eq!(busy(&rig), [1, -1, 0], "for good");
    assert_eq!(rig.sched.fair.census.tot_busy(), 0);
    assert!(rig.sched.fair.census.classes_differ());
    rig.sched.check();
    rig.set("fix_class_count", 1);
    assert_eq!(busy(&rig), [0; 3]);
    rig.sched.check();
}

#[test]
fn a_queue_on_its_way_into_another_gets_no_owner() {
    let mut rig = Rig::hdd();
    rig.set("queue_merge", 1);
    let [a, b] = rig.procs();
    rig.read(a, 1_000, 8);
    rig.read(b, 1 << 24, 8);
    let (q, p) = (rig.q(a), rig.q(b));
    // The one user left of a shared queue that is to be merged into B's.
    rig.sched.queues[q].life.owner = ProcId::NONE;
    rig.sched.queues[q].coop.into = p;
    rig.sched.queues[p].life.users += 1;
    rig.read(a, 1_008, 8);
    assert_eq!(rig.q(a), p);
    // Its state is not taken for that of A's own queue.
    let pair = rig.sched.ctxs.pair_at(a, 0);
    assert!(rig.sched.ctxs.pairs[pair].saved.is_none());
    rig.sched.check();
}

#[test]
fn a_change_of_priority_replaces_the_async_queue_at_once() {
    let mut rig = Rig::ssd();
    let [a] = rig.procs();
    rig.write(a, 0, 8);
    let old = rig.sched.ctxs.pairs[a.index()].other;
    set_prio(&mut rig, a, IoPrio::be(1));
    // Noticed at a read too.
    rig.read(a, 1 << 24, 8);
    let new = rig.sched.ctxs.pairs[a.index()].other;
    assert_ne!(new, old);
    assert_eq!(rig.sched.fair.ents[new].weight, 70);
    let users = |q: QueueNo| rig.sched.queues[q].life.users;
    assert_eq!((users(old), users(new)), (1, 2));
    rig.sched.check();
}

/// 8 processes, 10 ms apart, each ends after a read.
fn short_processes(base: u64) -> bool {
    let mut rig = Rig::hdd();
    rig.set("low_latency", 1);
    rig.set("base", base);
    for n in 0..8 {
        rig.at_ms(10 * n);
        let [p] = rig.procs();
        rig.read(p, (n + 1) << 24, 8);
        rig.serve_all();
        rig.exit(p);
    }
    rig.sched.burst.large
}

#[test]
fn c38_short_processes_one_after_the_other_are_a_burst() {
    assert!(short_processes(2));
    assert!(short_processes(V61));
    assert!(!short_processes(V53), "each that ended was taken back");
}

#[test]
fn a_queue_that_a_context_uses_is_not_remembered_as_one_to_merge_with() {
    let mut rig = Rig::hdd();
    rig.set("queue_merge", 1);
    rig.set("stable_merge", 1);
    let [a, b] = rig.procs();
    rig.read(a, 1_000_000, 256);
    rig.issue();
    rig.read(b, 1_002_000, 8);
    let pair = rig.sched.ctxs.pair_at(b, 0);
    assert_eq!(rig.sched.ctxs.pairs[pair].stable_candidate.0, rig.q(a));
    rig.read(b, 1_002_100, 8);
    assert_eq!(rig.q(a), rig.q(b));
    assert_eq!(rig.sched.ctxs.pairs[pair].stable_candidate.0, QueueNo::NONE);
}

#[test]
fn a_late_stable_merge_of_a_shared_queue_marks_who_asks() {
    let (mut rig, a, b) = sharing(Rig::sized(true, 2048));
    rig.set("stable_merge", 1);
    let [c] = rig.procs();
    rig.read(c, 1 << 28, 8);
    let (q, pair) = (rig.q(c), rig.sched.ctxs.pair_at(b, 0));
    rig.sched.ctxs.pairs[pair].stable_candidate = (q, rig.sched.queues[q].life.generation);
    rig.queue(b).intensity.bound = false;
    rig.at_ms(700);
    rig.read(b, 1 << 27, 8);
    assert_eq!(rig.q(b), q);
    assert!(rig.sched.ctxs.pairs[pair].stably_merged);
    let other = rig.sched.ctxs.pair_at(a, 0);
    assert!(!rig.sched.ctxs.pairs[other].stably_merged, "A has not asked");
}

/// B leaves the queue it shares with A.
fn split(rig: &mut Rig, b: ProcId) {
    rig.queue(b).coop.split_me = true;
    let shared = rig.q(b);
    rig.read(b, 1 << 28, 8);
    assert_ne!(rig.q(b), shared);
}

#[test]
fn a_split_restores_the_weight_in_force_at_the_merge() {
    let (mut rig, a, b) = sharing(Rig::hdd());
    // Real-time of level 0 while it shares: the class counts from then on, the level is lost.
    set_prio(&mut rig, b, IoPrio::rt(0));
    rig.read(b, 1_002_200, 8);
    assert_eq!((rig.ent(a).new_weight, rig.ent(a).new_class), (80, RT));
    split(&mut rig, b);
    assert_eq!((rig.ent(b).class, rig.ent(b).new_weight), (RT, 40));
    rig.sched.check();
}

#[test]
fn a_split_keeps_a_waker_that_is_still_used() {
    for (exits, inherited) in [(false, true), (true, false)] {
        let (mut rig, a, b) = sharing(Rig::hdd());
        let [w] = rig.procs();
        rig.read(w, 1 << 29, 8);
        let (q, waker) = (rig.q(a), rig.q(w));
        rig.sched.queues.set_waker(q, waker);
        if exits {
            rig.exit(w);
            assert!(rig.sched.queues[waker].live, "it has a request");
        }
        split(&mut rig, b);
        assert_eq!(rig.queue(b).waker.queue, if inherited { waker } else { QueueNo::NONE });
        rig.sched.check();
    }
}

#[test]
fn a_waker_that_only_the_leaving_context_uses_is_not_kept() {
    let (mut rig, a, b) = sharing(Rig::hdd());
    let [w] = rig.procs();
    rig.read(w, 1 << 29, 8);
    let (q, waker) = (rig.q(a), rig.q(w));
    rig.sched.queues.set_waker(q, waker);
    // The shared queue is to be merged into its waker, whose own process then ends.
    rig.sched.queues[q].coop.into = waker;
    rig.sched.queues[waker].life.users += 2;
    rig.exit(w);
    rig.sched.drop_user(waker);
    rig.sched.queues[q].life.users -= 1;
    let pair = rig.sched.ctxs.pair_at(a, 0);
    rig.sched.ctxs.pairs[pair].sync = QueueNo::NONE;
    assert_eq!(rig.sched.queues[waker].life.users, 1);
    split(&mut rig, b);
    assert_eq!(rig.queue(b).waker.queue, QueueNo::NONE);
}

#[test]
fn the_target_of_a_scheduled_merge_moves_with_its_process() {
    let mut rig = Rig::hdd();
    let (g, h) = (rig.group(100), rig.group(100));
    let (a, b) = (rig.env.procs.add(g, IoPrio::be(4)), rig.env.procs.add(g, IoPrio::be(4)));
    rig.read(a, 1_000, 8);
    rig.read(b, 1 << 24, 8);
    let (q, p) = (rig.q(a), rig.q(b));
    rig.sched.queues[q].coop.into = p;
    rig.sched.queues[p].life.users += 1;
    rig.env.procs.get_mut(b).unwrap().group = h;
    rig.read(b, 1 << 25, 8);
    assert_eq!(rig.q(b), p, "how many use it does not matter");
    assert_eq!(rig.sched.fair.ents[p].node, rig.sched.groups.nodes[h.index()]);
    rig.sched.check();
}

#[test]
fn q20_the_requests_of_a_queue_that_moves_count_in_its_new_group() {
    for (base, counts) in [(2, (0, 2)), (V61, (1, 1))] {
        let mut rig = Rig::ssd();
        rig.set("base", base);
        let (g, h) = (rig.group(300), rig.group(100));
        let a = rig.env.procs.add(g, IoPrio::be(4));
        rig.read(a, 1_000, 8);
        rig.env.procs.get_mut(a).unwrap().group = h;
        rig.read(a, 2_000, 8);
        let nodes = [g, h].map(|group| rig.sched.groups.nodes[group.index()]);
        let allocated = |rig: &Rig| nodes.map(|node| rig.sched.groups[node].allocated);
        assert_eq!(allocated(&rig), [counts.0, counts.1]);
        rig.serve_all();
        let left = if base == V61 { [1, -1] } else { [0, 0] };
        assert_eq!(allocated(&rig), left);
        rig.set("move_counts", 1);
        assert_eq!(allocated(&rig), [0, 0], "put right");
    }
}

fn remove(rig: &mut Rig, group: GroupId) {
    rig.sched.changed(rig.now, &Change::GroupRemoved(group), &mut rig.env.cx());
    rig.env.groups.remove(group);
    rig.sched.check();
}

#[test]
fn a_queue_without_a_place_stays_in_a_removed_group_until_its_next_request() {
    let mut rig = Rig::ssd();
    let g = rig.group(300);
    let (a, b) = (rig.env.procs.add(g, IoPrio::be(4)), rig.env.procs.add(g, IoPrio::be(4)));
    rig.read(a, 1_000, 8);
    rig.serve_all();
    rig.fire_timer_if_armed();
    rig.read(b, 1 << 24, 8);
    rig.serve_all();
    rig.fire_timer_if_armed();
    rig.read(b, 1 << 25, 8);
    let a_q = rig.q(a);
    rig.sched.fair.forget_idle(a_q.into());
    let dead = rig.sched.fair.ents[a_q].node;
    remove(&mut rig, g);
    assert_eq!(rig.ent(b).node, ROOT);
    assert_eq!(rig.ent(a).node, dead);
    rig.read(a, 2_000, 8);
    assert_eq!(rig.ent(a).node, ROOT);
    rig.serve_all();
    rig.sched.check();
}

#[test]
fn the_leaves_of_a_removed_group_move_in_the_order_of_their_finish() {
    let mut rig = Rig::ssd();
    let g = rig.group(300);
    let order = [5, 0, 3];
    let procs = order.map(|level| rig.env.procs.add(g, IoPrio::be(level)));
    for (n, &p) in (1..).zip(&procs) {
        rig.read(p, n << 24, 8);
    }
    remove(&mut rig, g);
    // Queues on an active tree, the newest first: the smallest finish has the largest weight.
    let active: [QueueNo; 3] = {
        let mut it = rig.sched.fair.active_queues();
        [(); 3].map(|()| it.next().unwrap())
    };
    assert_eq!(active, [procs[0], procs[2], procs[1]].map(|p| rig.q(p)));
    let up = rig.sched.fair.nodes[NodeNo(1)].entity;
    assert!(!rig.sched.fair.ents[up].tracked);
}

#[test]
fn the_async_queues_of_a_removed_group_go_to_the_root() {
    let mut rig = Rig::ssd();
    let g = rig.group(300);
    let a = rig.env.procs.add(g, IoPrio::be(4));
    rig.write(a, 1_000, 8);
    let q = rig.sched.ctxs.pairs[a.index()].other;
    remove(&mut rig, g);
    assert_eq!((rig.sched.fair.ents[q].node, rig.sched.queues[q].life.users), (ROOT, 1));
    rig.env.procs.get_mut(a).unwrap().group = GroupId::ROOT;
    rig.serve_all();
    rig.exit(a);
    rig.fire_timer_if_armed();
    rig.sched.check();
}

#[test]
fn low_latency_off_spares_the_queue_in_service_of_the_reference_only() {
    for (base, left) in [(V61, 30), (2, 1)] {
        let mut rig = Rig::hdd();
        rig.set("base", base);
        rig.set("low_latency", 1);
        rig.set("preemption", 0);
        let [a, b] = rig.procs();
        rig.at_ms(3_000);
        rig.read(a, 1_000, 8);
        rig.read(a, 1_008, 8);
        rig.issue();
        rig.read(b, 1 << 24, 8);
        assert_eq!((rig.ent(a).wr, rig.ent(b).wr), (30, 30));
        rig.set("low_latency", 0);
        assert_eq!((rig.ent(a).wr, rig.ent(b).wr), (left, 1), "base {base}");
        rig.sched.check();
    }
}

#[test]
fn a_written_timeout_is_rounded_up_to_ticks_and_the_built_in_one_down() {
    let mut rig = Rig::hdd();
    rig.sched.tick = Nanos::ms(10);
    rig.set("base", V61);
    assert_eq!(rig.sched.slot_limit(), Nanos::ms(120));
    rig.set("timeout_sync", 125);
    assert_eq!(rig.sched.slot_limit(), Nanos::ms(130));
    // 9333 sectors per 2^16 us for 130 ms.
    assert_eq!(rig.sched.budgets.max, (9_333 * 1_000 * 130) >> 16);
    rig.set("base", 2);
    assert_eq!(rig.sched.slot_limit(), Nanos::ms(125));
}

#[test]
fn a_queue_of_the_idle_class_begins_with_a_short_think_time() {
    let mut rig = Rig::hdd();
    let a = rig.proc(IoPrio::idle());
    rig.read(a, 1_000, 8);
    assert!(rig.queue(a).think.short);
}

// `base` = 5.3 (11.7).

#[test]
fn in_5_3_a_slow_sample_stops_injection_for_100_ms_and_the_next_brings_it_back() {
    let mut rig = Rig::ssd();
    rig.set("base", V53);
    let (a, p) = (rig.proc(IoPrio::rt(4)), rig.proc(IoPrio::be(4)));
    for n in 0..40 {
        rig.read(p, (1 << 24) + 8 * n, 8);
    }
    // One read of A at a time, in the device for so long; the gap before it is filled with a read of P.
    let read = |rig: &mut Rig, at_us: u64, takes_us: u64| {
        rig.at_us(at_us);
        rig.read(a, at_us, 8);
        let (id, by) = rig.issue();
        assert_eq!(by, a);
        rig.at_us(at_us + takes_us);
        rig.complete(id);
    };
    read(&mut rig, 0, 150);
    read(&mut rig, 110_000, 150);
    assert_eq!((rig.queue(a).inject.base, rig.queue(a).inject.limit), (Nanos::us(150), 1));
    let (injected, by) = rig.issue();
    assert_eq!(by, p);
    read(&mut rig, 110_300, 500);
    assert_eq!(rig.queue(a).inject.limit, 0);
    rig.complete(injected);
    // No sample for 100 ms, so nothing is injected.
    read(&mut rig, 160_000, 150);
    assert_eq!(rig.queue(a).inject.limit, 0);
    assert_eq!(rig.dispatch(), Dispatch::Idle);
    read(&mut rig, 220_000, 150);
    assert_eq!(rig.queue(a).inject.limit, 1);
}

#[test]
fn in_5_3_one_detection_makes_a_waker_and_queues_born_together_stay_apart() {
    for (base, found) in [(V61, false), (V53, true)] {
        let mut rig = Rig::ssd();
        rig.set("base", base);
        let [w, q] = rig.procs();
        rig.read(q, 1 << 24, 8);
        rig.serve_all();
        rig.fire_timer_if_armed();
        // It thinks for 10 ms.
        let queue = rig.queue(q);
        queue.think.average = Average::of(10_000_000);
        rig.now += Nanos::ms(3);
        rig.read(w, 1_000, 8);
        rig.serve_all();
        rig.now += Nanos::ms(1);
        rig.read(q, 1 << 25, 8);
        let waker = rig.q(w);
        assert_eq!(rig.queue(q).waker.queue == waker, found, "base {base}");
    }
    let mut rig = Rig::ssd();
    rig.set("stable_merge", 1);
    rig.set("base", V53);
    let [a, b] = rig.procs();
    rig.read(a, 1_000, 8);
    rig.read(b, 1 << 24, 8);
    assert_ne!(rig.q(a), rig.q(b));
}

#[test]
fn in_5_3_think_times_are_short_up_to_all_of_slice_idle() {
    for (base, short) in [(V61, false), (V53, true)] {
        let mut rig = Rig::ssd();
        rig.set("base", base);
        let [a] = rig.procs();
        for n in 0..30 {
            rig.read(a, 8 * n, 8);
            rig.serve_all();
            expire(&mut rig, Reason::NoMore);
            // Above half of 8 ms.
            rig.now += Nanos::ms(6);
        }
        assert_eq!(rig.queue(a).think.short, short, "base {base}");
    }
}
