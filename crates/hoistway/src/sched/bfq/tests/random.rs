//! Random runs through the trait: nothing is lost, nothing issued twice, everything drains.

use super::rig::Rig;
use crate::group::{GroupId, ProcId};
use crate::request::{Flags, Io, Op, ReqId, Side};
use crate::sched::bfq::idle::HwTag;
use crate::sched::bfq::ids::Id;
use crate::sched::bfq::requests::RqPlace;
use crate::sched::bfq::tunables::TUNABLES;
use crate::sched::{At, Dispatch, Merged, Scheduler};
use crate::setting::Unit;
use crate::stage::{Change, Stage};
use crate::testkit::Rng;
use crate::unit::{Class, IoPrio, Nanos, QueueId};
use alloc::format;
use alloc::vec::Vec;

/// A small block layer: merges as specs/blk-mq-and-noop.md section 3 does, keeps count of requests.
struct World {
    rig: Rig,
    rng: Rng,
    procs: Vec<ProcId>,
    groups: Vec<GroupId>,
    /// Prepared and held back, as by a plug.
    plugged: Vec<ReqId>,
    /// Inserted and not issued.
    pending: Vec<ReqId>,
    /// In the device.
    inside: Vec<ReqId>,
    merges: u32,
    timers: u32,
    /// Processes that went away while their queue was in service; groups with work that went away; moves.
    exits_in_service: u32,
    groups_gone_busy: u32,
    moves: u32,
}

impl World {
    fn new(seed: u64) -> World {
        let mut rng = Rng::new(seed);
        let borders: &[u64] = if rng.below(3) == 0 { &[200, 380, 1 << 20] } else { &[] };
        let mut rig = Rig::with_actuators(rng.below(2) == 0, 64, borders);
        rig.env.trace = crate::trace::Trace::digest_only();
        rig.sched.ncq.tag = [HwTag::Unknown, HwTag::No, HwTag::Yes][rng.below(3) as usize];
        let mut w = World {
            rig,
            rng,
            procs: Vec::new(),
            groups: alloc::vec![GroupId::ROOT],
            plugged: Vec::new(),
            pending: Vec::new(),
            inside: Vec::new(),
            merges: 0,
            timers: 0,
            exits_in_service: 0,
            groups_gone_busy: 0,
            moves: 0,
        };
        let base = w.rng.below(4);
        w.rig.set("base", base);
        // Half of the runs in a pure mode.
        if w.rng.below(2) == 0 {
            for name in SWITCHES {
                let value = w.rng.below(2);
                w.rig.set(name, value);
            }
        }
        if w.rng.below(8) == 0 {
            w.rig.set("strict_guarantees", 1);
        }
        if w.rng.below(4) == 0 {
            w.rig.set("max_budget", 16);
        }
        for _ in 0..3 {
            w.fork();
        }
        w
    }

    fn prio(&mut self) -> IoPrio {
        let level = self.rng.below(8) as u8;
        match self.rng.below(8) {
            0 => IoPrio::rt(level),
            1 => IoPrio::idle(),
            2 => IoPrio::NONE,
            3 | 4 => IoPrio::new(Class::Be, level).unwrap(),
            _ => IoPrio::be(4),
        }
    }

    fn fork(&mut self) {
        let prio = self.prio();
        let p = self.rig.proc(prio);
        self.procs.push(p);
    }

    fn bio(&mut self) -> Io {
        let mut proc = self.procs[self.rng.below(self.procs.len() as u64) as usize];
        if self.rng.below(40) == 0 {
            proc = ProcId::NONE;
        }
        let group = self.rig.env.procs.group(proc);
        let op = if self.rng.below(3) == 0 { Op::Write } else { Op::Read };
        let mut flags = Flags::NONE;
        if self.rng.below(3) == 0 {
            flags |= Flags::SYNC;
        }
        if self.rng.below(10) == 0 {
            flags |= Flags::META;
        }
        // Crowded, so that neighbours meet; now and then far away.
        let far = if self.rng.below(6) == 0 { self.rng.below(1 << 20) * 1_000 } else { 0 };
        let start = 8 * self.rng.below(64) + far;
        let sectors = 8 * (1 + self.rng.below(4));
        Io { group, ..self.rig.io(proc, op, start, sectors, flags) }
    }

    /// 3.1: kind, priority; a request that was issued never merges again, nor do requeued ones.
    fn mergeable(&self, io: &Io, id: ReqId) -> bool {
        let r = &self.rig.env.requests[id];
        let place = self.rig.sched.rqs[id].place;
        r.op == io.op && r.prio == io.prio && r.group == io.group && place == RqPlace::Queued
    }

    fn find(&self, io: &Io, fits: impl Fn(u64, u64) -> bool) -> Option<ReqId> {
        let all = self.pending.iter().copied();
        all.filter(|&id| self.mergeable(io, id)).find(|&id| {
            let r = &self.rig.env.requests[id];
            fits(r.start.0, r.end().0)
        })
    }

    fn submit(&mut self) {
        if self.rig.env.requests.capacity() - self.rig.env.requests.len() < 4 {
            return;
        }
        let io = self.bio();
        let now = self.rig.now;
        let limit = self.rig.sched.depth_limit(now, &io, &mut self.rig.env.cx());
        if let crate::sched::Depth::Word(n) = limit {
            assert!(n > 0, "a limit of nothing would lock the process out");
        }
        if self.merge_bio(&io) {
            return;
        }
        let sync = self.rig.env.device.is_sync(io.op, io.flags);
        let id = self.rig.env.requests.create(io, sync, QueueId(0), now).unwrap();
        self.rig.sched.prepare(now, id, &mut self.rig.env.cx());
        if self.rng.below(2) == 0
            && let Some(kept) = self.find(&io, |_, end| end == io.start.0)
        {
            // The insertion merge knows no veto.
            self.join(kept, id);
            return;
        }
        if self.rng.below(4) == 0 {
            self.plugged.push(id);
            return;
        }
        let at = if self.rng.below(30) == 0 { At::Head } else { At::Tail };
        self.rig.sched.insert(now, id, at, &mut self.rig.env.cx());
        self.pending.push(id);
    }

    /// What was held back is inserted, whatever has happened to its process, group or queue since.
    fn unplug(&mut self) {
        for id in core::mem::take(&mut self.plugged) {
            self.rig.sched.insert(self.rig.now, id, At::Tail, &mut self.rig.env.cx());
            self.pending.push(id);
        }
    }

    fn merge_bio(&mut self, io: &Io) -> bool {
        let now = self.rig.now;
        let back = self.find(io, |_, end| end == io.start.0);
        let back = back.filter(|&id| self.rig.sched.may_merge(now, io, id, &mut self.rig.env.cx()));
        let own = self.rig.sched.find_merge(now, io, &mut self.rig.env.cx());
        let own = own.filter(|&(id, _)| self.mergeable(io, id));
        let own =
            own.filter(|&(id, _)| self.rig.sched.may_merge(now, io, id, &mut self.rig.env.cx()));
        let Some((id, side)) = back.map(|id| (id, Side::Back)).or(own) else { return false };
        if side == Side::Front {
            assert_eq!(self.rig.env.requests[id].start, io.end());
        }
        let bio = self.rig.env.requests.add_bio(*io, now).unwrap();
        self.rig.env.requests.join_bio(id, bio, side);
        self.rig.sched.merged(now, id, Merged::Bio(side), &mut self.rig.env.cx());
        self.merges += 1;
        // Does it now touch its neighbour?
        if let Some(near) = self.rig.sched.neighbour(id, side, &self.rig.env.cx()) {
            let (low, high) = if side == Side::Back { (id, near) } else { (near, id) };
            let (a, b) = (self.rig.env.requests[low], self.rig.env.requests[high]);
            if a.end() == b.start && a.op == b.op && a.prio == b.prio && a.group == b.group {
                self.join(low, high);
            }
        }
        true
    }

    fn join(&mut self, kept: ReqId, gone: ReqId) {
        let now = self.rig.now;
        self.rig.sched.merged(now, kept, Merged::Request(gone), &mut self.rig.env.cx());
        self.rig.env.requests.join(kept, gone);
        self.pending.retain(|&id| id != gone);
        self.merges += 1;
    }

    fn issued(&mut self, id: ReqId) {
        let at = self.pending.iter().position(|&p| p == id);
        self.pending.remove(at.expect("only a pending request is issued, and once"));
        let (r, rq) = (&self.rig.env.requests[id], &self.rig.sched.rqs[id]);
        assert_eq!((r.start.0, r.sectors.0), (rq.pos, rq.len.into()));
        self.inside.push(id);
    }

    fn dispatch(&mut self) -> bool {
        match self.rig.dispatch() {
            Dispatch::Issue(id) => self.issued(id),
            Dispatch::Empty => {
                assert!(self.pending.is_empty(), "Empty although requests are pending");
                return false;
            }
            Dispatch::Idle => {
                assert!(!self.pending.is_empty(), "Idle although nothing is pending");
                // Whoever is waited for comes back by timer or completion.
                assert!(self.rig.sched.next_timer().is_some() || !self.inside.is_empty());
                return false;
            }
        }
        true
    }

    fn complete_or_requeue(&mut self) {
        if self.inside.is_empty() {
            return;
        }
        let at = self.rng.below(self.inside.len() as u64) as usize;
        let id = self.inside.swap_remove(at);
        if self.rng.below(20) == 0 {
            let now = self.rig.now;
            self.rig.sched.requeue(now, id, &mut self.rig.env.cx());
            self.rig.sched.prepare(now, id, &mut self.rig.env.cx());
            self.rig.sched.insert(now, id, At::Head, &mut self.rig.env.cx());
            self.pending.push(id);
        } else {
            self.rig.complete(id);
        }
    }

    fn group(&mut self) -> GroupId {
        let at = self.rng.below(self.groups.len() as u64) as usize;
        self.groups[at]
    }

    fn change_groups(&mut self) {
        let group = self.group();
        let now = self.rig.now;
        match self.rng.below(5) {
            0 if self.groups.len() < 8 => {
                let new = self.rig.env.groups.add(group, "g");
                self.groups.push(new);
                let change = Change::GroupAdded(new);
                self.rig.sched.changed(now, &change, &mut self.rig.env.cx());
            }
            1 if group != GroupId::ROOT && self.rig.env.groups.children(group).is_empty() => {
                let node = self.rig.sched.groups.nodes.get(group.index());
                let busy =
                    node.is_some_and(|&n| n.is_some() && self.rig.sched.fair.nodes[n].queues > 0);
                self.groups_gone_busy += u32::from(busy);
                let change = Change::GroupRemoved(group);
                self.rig.sched.changed(now, &change, &mut self.rig.env.cx());
                self.rig.env.groups.remove(group);
                self.groups.retain(|&g| g != group);
                // Its processes may stay in it for a while.
            }
            2 if group != GroupId::ROOT && self.rng.below(2) == 0 => {
                let n = 1 + self.rng.below(1000);
                let forms = [format!("{n}"), format!("8:0 {n}"), "8:0 default".into()];
                let line = &forms[self.rng.below(3) as usize];
                let cx = &mut self.rig.env.cx();
                self.rig.sched.write_knob(now, group, "io.bfq.weight", line, cx).unwrap();
            }
            2 if group != GroupId::ROOT => {
                let weight = Some(1 + self.rng.below(1000)).filter(|w| w % 7 > 0);
                let cx = &mut self.rig.env.cx();
                self.rig.sched.set_group(now, group, "weight", weight, cx).unwrap();
            }
            _ => {
                let at = self.rng.below(self.procs.len() as u64) as usize;
                let proc = self.rig.env.procs.get_mut(self.procs[at]).unwrap();
                self.moves += u32::from(proc.group != group);
                proc.group = group;
            }
        }
    }

    fn change(&mut self) {
        match self.rng.below(9) {
            4 => {
                match self.rng.below(4) {
                    0 => return self.set_base(),
                    1 => return self.set_number(),
                    _ => {}
                }
                let name = SWITCHES[self.rng.below(SWITCHES.len() as u64) as usize];
                let value = self.rng.below(2);
                self.rig.set(name, value);
            }
            5..8 => self.change_groups(),
            0 => self.fork(),
            1 if self.procs.len() > 2 => {
                let at = self.rng.below(self.procs.len() as u64) as usize;
                let p = self.procs[at];
                let serving = self.rig.sched.serving.queue;
                if serving.is_some() && self.rig.sched.queues[serving].life.owner == p {
                    self.exits_in_service += 1;
                }
                self.rig.exit(p);
                // Some I/O still comes on behalf of the dead.
                if self.rng.below(4) > 0 {
                    self.procs.swap_remove(at);
                }
            }
            2 => {
                let at = self.rng.below(self.procs.len() as u64) as usize;
                let prio = self.prio();
                self.rig.env.procs.get_mut(self.procs[at]).unwrap().prio = prio;
            }
            _ => {
                let now = self.rig.now;
                self.rig.env.device.rotational = self.rng.below(2) == 0;
                self.rig.sched.changed(now, &Change::Device, &mut self.rig.env.cx());
            }
        }
    }

    fn set_base(&mut self) {
        let base = self.rng.below(4);
        self.rig.set("base", base);
    }

    /// Any tunable to its least, its usual, its largest or a small value.
    fn set_number(&mut self) {
        let t = &TUNABLES[self.rng.below(TUNABLES.len() as u64) as usize];
        let small = t.min + self.rng.below((t.max - t.min + 1).min(20));
        let values = [t.min, t.default, t.max, small];
        let value = values[self.rng.below(4) as usize];
        // Times of minutes would only make the run stand still.
        self.rig.set(t.name, if t.unit == Unit::Millis { value.min(1_000) } else { value });
    }

    fn pass_time(&mut self) {
        let step = [1, 50, 2_000, 30_000][self.rng.below(4) as usize];
        let until = self.rig.now + Nanos::us(self.rng.below(step));
        while self.rig.sched.next_timer().is_some_and(|at| at <= until) {
            self.rig.fire_timer();
            self.timers += 1;
        }
        self.rig.now = until;
    }

    /// Without new requests everything is served in bounded time.
    fn finish(&mut self) {
        self.unplug();
        let now = self.rig.now;
        if self.rng.below(2) == 0 {
            while let Some(id) = self.rig.sched.drain(now, &mut self.rig.env.cx()) {
                self.issued(id);
            }
            assert!(self.pending.is_empty(), "drain leaves nothing behind");
        }
        let mut turns = 4 * (self.pending.len() + self.inside.len()) + 100;
        while !self.pending.is_empty() || !self.inside.is_empty() {
            assert!(turns > 0, "does not drain");
            turns -= 1;
            if self.dispatch() {
                continue;
            }
            if let Some(id) = self.inside.pop() {
                self.rig.complete(id);
            } else if self.rig.sched.next_timer().is_some() {
                self.rig.fire_timer();
            }
        }
        self.rig.sched.check();
        assert_eq!((self.rig.sched.load.queued, self.rig.sched.load.inflight), (0, 0));
        assert!(self.rig.env.requests.is_empty());
    }
}

/// Tunables of two values.
const SWITCHES: [&str; 16] = [
    "exact_pick",
    "exact_candidate",
    "first_think",
    "tick_rounding",
    "inject_after_long_idle",
    "fix_group_double_charge",
    "charge_as_tuned",
    "raised_budget_fits",
    "keep_idle_ticket",
    "keep_device_weight",
    "queue_statistics",
    "low_latency",
    "injection",
    "preemption",
    "queue_merge",
    "stable_merge",
];

/// Runs of the main test.
const SEEDS: u64 = 800;

fn run(seed: u64, steps: u32) -> World {
    let mut w = World::new(seed);
    let depth = 1 + w.rng.below(32) as usize;
    // In half of the runs the surroundings change all the time.
    let calm = [2, 10][seed as usize % 2];
    for _ in 0..w.rng.below(12) {
        w.change_groups();
    }
    for _ in 0..steps {
        match w.rng.below(20) {
            0..7 => w.submit(),
            7..13 if w.inside.len() < depth => {
                w.dispatch();
            }
            13..17 => w.complete_or_requeue(),
            17 if w.rng.below(2) == 0 => w.unplug(),
            17 | 18 if w.rng.below(calm) == 0 => w.change(),
            _ => w.pass_time(),
        }
        w.rig.sched.check();
    }
    w.finish();
    w
}

#[test]
fn nothing_is_lost_or_issued_twice_and_everything_drains() {
    let (mut merges, mut timers) = (0, 0);
    let mut rare = [0; 3];
    let mut seen = [0; 8];
    for seed in 0..SEEDS {
        let w = run(seed, 1_000);
        merges += w.merges;
        timers += w.timers;
        for (sum, n) in rare.iter_mut().zip([w.exits_in_service, w.groups_gone_busy, w.moves]) {
            *sum += n;
        }
        let (s, all) = (&w.rig.sched.stats, w.rig.sched.groups.tally());
        let now = [
            s.injected_general,
            s.injected_waker + s.injected_woken + s.injected_async,
            all.raised_interactive,
            all.raised_soft,
            all.merges,
            s.stable_merges,
            all.splits,
            w.rig.sched.burst.seen,
        ];
        for (sum, n) in seen.iter_mut().zip(now) {
            *sum += n;
        }
    }
    assert!(merges > 1_000 && timers > 1_000, "{merges} merges, {timers} timers: too tame");
    assert!(rare.iter().all(|&n| n > 50), "exits in service, groups, moves: {rare:?}");
    assert!(rare[2] > 1_000, "processes hardly move: {rare:?}");
    assert!(seen.iter().all(|&n| n > 0), "hardly used: {seen:?}");
}

#[test]
fn equal_seeds_give_equal_traces() {
    for seed in 0..10 {
        let digest = |w: World| (w.rig.env.trace.digest(), w.rig.env.trace.count());
        let first = digest(run(seed, 400));
        assert!(first.1 > 0);
        assert_eq!(first, digest(run(seed, 400)));
    }
}
