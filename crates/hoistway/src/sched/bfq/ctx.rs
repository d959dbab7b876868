//! Issuer contexts: which queues a process uses, and what happens when its priority or group changes or
//! it exits (specs/bfq.md 1.2, 2.10, 5.1 step 1, 8.3).

use super::Bfq;
use super::ids::{Id, NodeNo, QueueNo};
use super::queue::coop::Saved;
use super::queue::past::Past;
use super::queue::{BfqQueue, Wanted};
use super::stats::Tally;
use super::tunables::Base;
use super::wf2q::{BE, IDLE, ROOT, RT, ServiceClass};
use crate::env::Cx;
use crate::group::{GroupId, ProcId};
use crate::unit::{Class, Instant, IoPrio};
use alloc::vec::Vec;

/// An issuer context: a process, thread, client or tenant (1.2).
#[derive(Clone, Copy, Debug)]
pub(super) struct BfqCtx {
    /// Its requests that exist.
    pub in_pool: u32,
    /// Has exited.
    pub gone: bool,
    /// Its own priority as last seen, and the one in force.
    prio: IoPrio,
    effective: IoPrio,
    /// The node of its group as last seen.
    pub node: NodeNo,
}

/// A context's queues for one actuator.
#[derive(Clone, Debug)]
pub(super) struct Pair {
    /// Its queue for sync requests, none if it has none.
    pub sync: QueueNo,
    /// The shared queue it uses for async requests, none if none.
    pub other: QueueNo,
    /// Was merged for good with queues born at the same time (7.5).
    pub stably_merged: bool,
    /// A queue to be merged with later, and its generation (7.5).
    pub stable_candidate: (QueueNo, u32),
    /// State of its own queue while it uses a shared one (7.6).
    pub saved: Option<Saved>,
}

impl Pair {
    const NONE: Pair = Pair {
        sync: QueueNo::NONE,
        other: QueueNo::NONE,
        stably_merged: false,
        stable_candidate: (QueueNo::NONE, 0),
        saved: None,
    };

    /// The queue used for requests of that kind, none if none.
    pub fn queue(&self, sync: bool) -> QueueNo {
        if sync { self.sync } else { self.other }
    }
}

/// The async queues of one group and actuator: 8 levels of RT, 8 of BE, one of IDLE.
pub(super) type AsyncTable = [QueueNo; 17];

/// Where an async queue is found. Class none uses best-effort 4 (1.3).
fn async_place(prio: IoPrio) -> (usize, ServiceClass, u8) {
    let level = prio.level();
    match prio.class() {
        Class::Rt => (usize::from(level), RT, level),
        Class::Be => (8 + usize::from(level), BE, level),
        Class::None => (8 + 4, BE, 4),
        Class::Idle => (16, IDLE, 7),
    }
}

/// Class and level of a priority in force.
fn class_level(prio: IoPrio) -> (ServiceClass, u8) {
    match prio.class() {
        Class::Rt => (RT, prio.level()),
        Class::Be => (BE, prio.level()),
        Class::None => (BE, 4),
        Class::Idle => (IDLE, 7),
    }
}

/// Where a new queue belongs.
#[derive(Clone, Copy, Debug)]
struct QueuePlace {
    node: NodeNo,
    sync: bool,
    class: ServiceClass,
    level: u8,
    actuator: u8,
}

/// The context that asks for a queue, and which queue it asks for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ask {
    pub proc: ProcId,
    pub group: GroupId,
    pub sync: bool,
    pub actuator: u8,
}

/// All contexts of a device.
#[derive(Debug)]
pub(super) struct Contexts {
    /// By process.
    pub procs: Vec<BfqCtx>,
    /// By process and actuator.
    pub pairs: Vec<Pair>,
    /// How many are told apart.
    pub actuators: u8,
}

impl Contexts {
    pub fn new(actuators: u8) -> Contexts {
        Contexts { procs: Vec::new(), pairs: Vec::new(), actuators }
    }

    /// Index of what a context has for an actuator.
    #[inline]
    pub fn pair_at(&self, proc: ProcId, actuator: u8) -> usize {
        proc.index() * usize::from(self.actuators) + usize::from(actuator)
    }

    /// The same, `None` for nobody and for a process without a context.
    #[inline]
    pub fn pair(&self, proc: ProcId, actuator: u8) -> Option<&Pair> {
        if proc == ProcId::NONE {
            return None;
        }
        self.pairs.get(self.pair_at(proc, actuator))
    }

    #[cold]
    fn grow(&mut self, proc: ProcId) {
        while self.procs.len() <= proc.index() {
            self.procs.push(BfqCtx {
                in_pool: 0,
                gone: false,
                prio: IoPrio::NONE,
                effective: IoPrio::be(4),
                node: ROOT,
            });
            self.pairs.extend((0..self.actuators).map(|_| Pair::NONE));
        }
    }

    /// The context uses that queue for its sync requests from here on. A queue to be merged with later that it
    /// uses already is forgotten (7.3 item 0).
    pub fn set_sync(&mut self, at: usize, q: QueueNo) {
        let pair = &mut self.pairs[at];
        pair.sync = q;
        if q.is_some() && pair.stable_candidate.0 == q {
            pair.stable_candidate.0 = QueueNo::NONE;
        }
    }
}

impl Bfq {
    /// The queue a new request of that context belongs to; makes contexts and queues as needed.
    pub(super) fn resolve(&mut self, now: Instant, ask: Ask, cx: &mut Cx<'_>) -> QueueNo {
        let proc = ask.proc;
        let (own, effective, alive) = match cx.procs.get(proc) {
            Some(p) => (p.prio, p.effective(), p.alive),
            None => (IoPrio::NONE, cx.procs.prio(proc), true),
        };
        let node = self.node_of(ask.group, cx.groups);
        if self.ctxs.procs.len() <= proc.index() {
            self.ctxs.grow(proc);
        }
        let ctx = &mut self.ctxs.procs[proc.index()];
        ctx.gone = !alive;
        if ctx.prio != own || ctx.effective != effective {
            ctx.prio = own;
            ctx.effective = effective;
            self.priority_changed(now, ask, own, node);
        }
        if self.ctxs.procs[proc.index()].node != node {
            self.group_changed(now, proc, node, cx);
        }
        let pair = &self.ctxs.pairs[self.ctxs.pair_at(proc, ask.actuator)];
        let found = pair.queue(ask.sync);
        if found.is_none() {
            return self.new_queue(now, ask, own, node, cx);
        }
        let queue = &mut self.queues[found];
        if queue.coop.shared && queue.coop.split_me && ask.sync && !pair.stably_merged {
            return self.split(now, ask, found, cx);
        }
        // A sync queue used by exactly one context is owned by it, unless it is on its way into another (5.1 step 1).
        if queue.sync && queue.life.users == 1 && queue.coop.into.is_none() {
            queue.life.owner = proc;
        }
        found
    }

    /// The first of that kind.
    #[cold]
    fn new_queue(
        &mut self,
        now: Instant,
        ask: Ask,
        own: IoPrio,
        node: NodeNo,
        cx: &mut Cx<'_>,
    ) -> QueueNo {
        let proc = ask.proc;
        if ask.sync {
            let q = self.new_sync_queue(now, ask);
            cx.trace.why(now, "queue of process", q.0, proc.0.into(), 1);
            self.stable_merge_at_creation(now, ask, q, cx)
        } else {
            let q = self.use_async_queue(now, ask, own, node);
            cx.trace.why(now, "queue of process", q.0, proc.0.into(), 0);
            q
        }
    }

    /// A fresh queue for the context, used by it alone.
    pub(super) fn new_sync_queue(&mut self, now: Instant, ask: Ask) -> QueueNo {
        let ctx = &self.ctxs.procs[ask.proc.index()];
        let (class, level) = class_level(ctx.effective);
        let actuator = ask.actuator;
        let wanted = QueuePlace { node: ctx.node, sync: true, class, level, actuator };
        let q = self.create(now, wanted);
        self.queues[q].life.users = 1;
        self.queues[q].life.owner = ask.proc;
        let at = self.ctxs.pair_at(ask.proc, ask.actuator);
        self.ctxs.set_sync(at, q);
        q
    }

    /// The context uses the async queue of that group for its priority from here on.
    fn use_async_queue(&mut self, now: Instant, ask: Ask, own: IoPrio, node: NodeNo) -> QueueNo {
        let q = self.async_queue(now, ask.actuator, own, node);
        self.queues[q].life.users += 1;
        let at = self.ctxs.pair_at(ask.proc, ask.actuator);
        self.ctxs.pairs[at].other = q;
        q
    }

    fn async_queue(&mut self, now: Instant, actuator: u8, own: IoPrio, node: NodeNo) -> QueueNo {
        let (place, class, level) = async_place(own);
        let table = usize::from(actuator);
        let found = self.groups[node].async_queues[table][place];
        if found.is_some() {
            return found;
        }
        let q = self.create(now, QueuePlace { node, sync: false, class, level, actuator });
        // The table counts as a user: the queue stays although nobody issues anything (1.3).
        self.queues[q].life.users = 1;
        self.groups[node].async_queues[table][place] = q;
        q
    }

    /// The sync queue, shared or not, gets its new weight and class lazily; the async one is replaced at once
    /// by that of the group of the I/O (2.10).
    #[cold]
    fn priority_changed(&mut self, now: Instant, ask: Ask, own: IoPrio, node: NodeNo) {
        let proc = ask.proc;
        let (class, level) = class_level(self.ctxs.procs[proc.index()].effective);
        let weight = self.weight_of(level);
        for actuator in 0..self.ctxs.actuators {
            let at = self.ctxs.pair_at(proc, actuator);
            let sync = self.ctxs.pairs[at].sync;
            if sync.is_some() {
                let e = &mut self.fair.ents[sync];
                e.new_weight = weight;
                e.new_class = class;
                e.prio_dirty = true;
            }
            let other = self.ctxs.pairs[at].other;
            if other.is_some() {
                self.use_async_queue(now, Ask { actuator, ..ask }, own, node);
                self.release_queue(other);
            }
        }
    }

    /// The context issues I/O of another group (8.3).
    #[cold]
    pub(super) fn group_changed(
        &mut self,
        now: Instant,
        proc: ProcId,
        node: NodeNo,
        cx: &mut Cx<'_>,
    ) {
        self.know(node);
        self.ctxs.procs[proc.index()].node = node;
        for actuator in 0..self.ctxs.actuators {
            let at = self.ctxs.pair_at(proc, actuator);
            let other = self.ctxs.pairs[at].other;
            if other.is_some() && self.fair.ents[other].node != node {
                self.ctxs.pairs[at].other = QueueNo::NONE;
                self.release_queue(other);
            }
            let q = self.ctxs.pairs[at].sync;
            if q.is_none() {
                continue;
            }
            let queue = &self.queues[q];
            if !queue.coop.shared && queue.coop.into.is_none() {
                self.move_queue(now, q, node, cx);
                continue;
            }
            let mut at_q = q;
            while at_q.is_some() && self.fair.ents[at_q].node == node {
                at_q = self.queues[at_q].coop.into;
            }
            if at_q.is_some() {
                self.detach(proc, at, q);
            }
        }
    }

    /// The context goes on without that queue, which it does not own any more.
    pub(super) fn detach(&mut self, proc: ProcId, at: usize, q: QueueNo) {
        self.ctxs.set_sync(at, QueueNo::NONE);
        self.disown(q, proc);
        self.let_go(q);
    }

    fn disown(&mut self, q: QueueNo, proc: ProcId) {
        let queue = &mut self.queues[q];
        if queue.life.owner == proc {
            queue.life.owner = ProcId::NONE;
        }
    }

    /// The context lets go of its queues (3.8). If one is in service the slot ends first, even if others use
    /// the queue too.
    pub(super) fn ctx_exit(&mut self, now: Instant, proc: ProcId, cx: &mut Cx<'_>) {
        let Some(ctx) = self.ctxs.procs.get_mut(proc.index()) else { return };
        ctx.gone = true;
        for actuator in 0..self.ctxs.actuators {
            let at = self.ctxs.pair_at(proc, actuator);
            let (sync, other) = (self.ctxs.pairs[at].sync, self.ctxs.pairs[at].other);
            self.ctxs.pairs[at] = Pair { other, ..Pair::NONE };
            for q in [sync, other] {
                if q.is_none() {
                    continue;
                }
                if q == other {
                    self.ctxs.pairs[at].other = QueueNo::NONE;
                }
                self.disown(q, proc);
                if self.serving.queue == q {
                    self.end_slot_at_exit(now, q, cx);
                }
                self.let_go(q);
            }
        }
    }

    // Creation and release: 1.3, 3.8.

    /// Weight of a queue of that level (2.10, 11.2): linear and gentle, at most 8:1 inside a class. Real separation is
    /// for classes and groups.
    fn weight_of(&self, level: u8) -> u32 {
        (8 - u32::from(level)) * self.rules.level_weight
    }

    fn create(&mut self, now: Instant, place: QueuePlace) -> QueueNo {
        let max_budget = 2 * self.budgets.largest() / 3;
        let wanted = Wanted { sync: place.sync, actuator: place.actuator };
        let mut queue =
            BfqQueue::new(wanted, max_budget, (now, self.tn), self.conf.first_think_long);
        if self.conf.base.has_rules_of_6_12() {
            // Q25: its first request does not begin a period of learning anew, and so ends nobody's measurement.
            queue.inject.lowered = Past::at(self.tn);
        }
        let weight = self.weight_of(place.level);
        if let Some(q) = self.queues.reusable() {
            self.fair.reuse_entity(q.into(), place.node, place.class, weight);
            self.queues.replace(q, queue);
            if let Some(tally) = self.stats.queues.get_mut(q) {
                *tally = Tally::default();
            }
            return q;
        }
        let q = self.fair.add_entity(place.node, place.class, weight).queue();
        self.queues.add(q, queue);
        let n = self.queues.len();
        if self.conf.queue_statistics {
            self.stats.queues.resize(n, Tally::default());
        }
        self.burst.grow(n);
        self.groups.positions.grow(n);
        q
    }

    /// A context no longer designates the queue, nor what that is to be merged into.
    pub(super) fn let_go(&mut self, q: QueueNo) {
        let mut at = self.queues[q].coop.into;
        while at.is_some() {
            self.drop_user(at);
            at = self.queues[at].coop.into;
        }
        self.release_queue(q);
    }

    /// A context no longer designates the queue (3.8): an empty one leaves the busy ones, even if others use
    /// it.
    pub(super) fn release_queue(&mut self, q: QueueNo) {
        let idles = self.queues[q].empty() && self.fair.ents[q].busy;
        if idles && self.serving.queue != q {
            self.no_longer_busy(q, false);
        }
        self.forget_last_created(q);
        self.drop_user(q);
    }

    /// The queue is no longer the one that new queues of its group are compared with (7.5).
    pub(super) fn forget_last_created(&mut self, q: QueueNo) {
        let node = self.fair.ents[q].node;
        if self.groups[node].last_created == q {
            self.groups[node].last_created = QueueNo::NONE;
        }
    }

    pub(super) fn drop_user(&mut self, q: QueueNo) {
        let queue = &mut self.queues[q];
        queue.life.users -= 1;
        if queue.life.users == 0 {
            self.fair.ents[q].dying = true;
            self.fair.loose.push(q);
        }
    }

    /// Frees the queues that nobody uses and nothing holds any more.
    #[cold]
    pub(super) fn free_loose(&mut self) {
        while let Some(q) = self.fair.loose.pop() {
            let (queue, e) = (&self.queues[q], &self.fair.ents[q]);
            if queue.live && e.dying && queue.rqs.allocated == 0 && !e.tracked {
                self.free_queue(q);
            }
        }
    }

    fn free_queue(&mut self, q: QueueNo) {
        let queue = &mut self.queues[q];
        debug_assert!(queue.life.users == 0 && queue.rqs.queued == 0 && queue.rqs.inflight == 0);
        queue.live = false;
        self.index_remove(q);
        // The size of the burst stays: short processes one after the other are one (6.5). Not so in 5.3.
        let coop = self.queues[q].coop.shared;
        if self.burst.leave(q) && self.conf.base == Base::V53 && !coop {
            self.burst.size = self.burst.size.saturating_sub(1);
        }
        // It may be counted without I/O of its own (quirk Q27).
        self.fair.leave_group_count(q);
        self.forget_last_created(q);
        if self.last_completed == q {
            self.last_completed = QueueNo::NONE;
        }
        self.queues.release(q);
    }
}
