//! `cfq`, completely fair queueing as in Linux 2.6.34 with `low_latency` (specs/cfq.md).
//!
//! *Problem.* Processes that read in turn, each waiting for one request before it issues the next,
//! look to an elevator as if none of them had anything to do; it goes to and fro between them, and
//! who issues most gets most.
//!
//! *Idea.* Every process has a *sync queue* of its own; all async writes go to a few *shared
//! queues*, one per I/O priority. Queues are served in time slices, one at a time, each in sector
//! order with one look at its oldest request. When the queue being served runs empty the device may
//! be kept *idle* for some ms, because the process will probably issue a request nearby.
//!
//! *Which queue.* Queues are sorted into three types (SYNC: idled for; NOIDLE: sync, not worth it;
//! ASYNC) within classes (RT before BE before IDLE) within groups. Groups are served by weighted
//! virtual time
//!
//! ```text
//!   vtime += charge * 4096 * 500 / weight        charge: ms of the slice
//! ```
//!
//! and get `300 ms * weight / total weight` per round, which the types of a group share by their
//! number of queues (the *workload slice*). Within a tree the order is a key, `now + (queues - 1) *
//! (base(0) - base(level)) - residual`: a queue of a lower priority starts that much later.
//!
//! *How long.* `base = slice + slice / 5 * (4 - level)`; with `low_latency` it shrinks so that all
//! busy queues of the group come round within the group's 300 ms.
//!
//! *State.* Per queue: its requests by sector and by arrival, seek history, slice, flags. Per
//! process: its two queues and its think time (8:1 running means). Per group: six trees and one for
//! IDLE. Per device: the active queue, near-trees (queues by the sector of their next request, for
//! *cooperators*: processes that read next to each other share a queue until it becomes seeky), and
//! whether the device can queue.
//!
//! *Guarantees.* Backlogged queues of one level, type and group get slices of equal length in turn;
//! no queue of RT or BE waits for ever while others of its class are served (its key stays, theirs
//! grow). IDLE waits for both. Nothing is promised in bytes: seeky readers get the time, not the
//! throughput.
//!
//! *Weaknesses.* Shared async queues tell nobody from anybody else. A depth above 1 undoes much of
//! the isolation, and idling a device that queues costs throughput, so flash is not idled for. A
//! sync queue that preempts an async one is not selected while the async workload slice lasts (6.2;
//! switch `preempt_switches_workload`).
//!
//! *Versions.* `cfq-2.6.30` is the CFQ of BFQ's first comparison: one tree, no groups, types or
//! merging, full slices. `cfq-2.6.38` adds what later kernels changed (section 12); most of it is
//! also there as switches of `cfq`.
//!
//! Time is counted in ticks of 1 ms, all divisions are of integers: think times and depths depend
//! on it. A slice or wait of `n` ticks thus lasts up to one tick less.

mod group;
mod idle;
mod queue;
mod requests;
mod slices;
#[cfg(test)]
mod tests;
mod tunables;

use super::{At, Depth, Dispatch, Entry, Merged, QueueUse, Run, Scheduler, Search, Setup};
use crate::device::Profile;
use crate::env::Cx;
use crate::group::{GroupId, ProcId};
use crate::list::{Links, List};
use crate::request::{Io, ReqId, Side};
use crate::stage::{Change, Figure, Stage, StageInfo};
use crate::table::NIL;
use crate::tree::{Nodes, Tree};
use crate::tunable::{self, TunableError};
use crate::unit::{Instant, QueueId};
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use group::Group;
use queue::{Ctx, Queue, ctx_of};
use requests::Rq;
use tunables::{Conf, GROUP_TUNABLES, TUNABLES_30, TUNABLES_34, TUNABLES_38};

/// The CFQ of Linux 2.6.34, the main version.
pub static ENTRY: Entry = Entry {
    stage: StageInfo {
        name: "cfq",
        summary: "time slices per process, idling, groups; as in 2.6.34",
        source: "specs/cfq.md (Linux 2.6.34)",
        tunables: TUNABLES_34,
        group_tunables: GROUP_TUNABLES,
        knobs: &[],
        figures: &[],
    },
    profile: Profile::Legacy,
    search: Search::Elevator,
    sorted: true,
    direct: false,
    tag_percent_min: None,
    build: |setup| Box::new(Cfq::new(setup, Version::V34)),
};

/// The CFQ of Linux 2.6.30.
pub static ENTRY_30: Entry = Entry {
    stage: StageInfo {
        name: "cfq-2.6.30",
        summary: "CFQ as in 2.6.30: one tree of queues, full slices",
        source: "specs/cfq.md 12 (Linux 2.6.30)",
        tunables: TUNABLES_30,
        group_tunables: &[],
        knobs: &[],
        ..ENTRY.stage
    },
    build: |setup| Box::new(Cfq::new(setup, Version::V30)),
    ..ENTRY
};

/// What changed until Linux 2.6.38.
pub static ENTRY_38: Entry = Entry {
    stage: StageInfo {
        name: "cfq-2.6.38",
        summary: "CFQ with the changes up to 2.6.38: group_idle, isolation",
        source: "specs/cfq.md 12 (Linux 2.6.36 to 2.6.38)",
        tunables: TUNABLES_38,
        ..ENTRY.stage
    },
    build: |setup| Box::new(Cfq::new(setup, Version::V38)),
    ..ENTRY
};

/// Which kernel's rules (section 12).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    V30,
    V34,
    V38,
}

impl Version {
    fn entry(self) -> &'static Entry {
        match self {
            Version::V30 => &ENTRY_30,
            Version::V34 => &ENTRY,
            Version::V38 => &ENTRY_38,
        }
    }
}

/// Classes in the order in which they are served.
const RT: u8 = 0;
const BE: u8 = 1;
const IDLE: u8 = 2;

/// All busy queues are to come round in this time, in ticks.
const TARGET_LATENCY: i64 = 300;
/// How long ago a sync request was late when the scheduler starts, in ticks.
const LATE_AT_START: i64 = 1000;
/// Room for so many queues is made at first (chosen).
const QUEUES: usize = 64;
/// A tick: 1 ms.
const TICK_NS: u64 = 1_000_000;

/// The tick `now` lies in.
fn tick(now: Instant) -> i64 {
    (now.as_nanos() / TICK_NS) as i64
}

/// Device-wide state (specs/cfq.md 3). Times are ticks.
#[derive(Debug)]
struct Cfq {
    version: Version,
    conf: Conf,
    rotational: bool,

    queues: Vec<Queue>,
    /// Numbers of freed queues.
    free: Vec<u32>,
    /// By process, see [`queue::ctx_of`].
    ctxs: Vec<Ctx>,
    /// RT by level, BE by level, IDLE.
    async_queues: [u32; 17],

    /// By request slot.
    rqs: Vec<Rq>,
    sorted: Nodes<u64>,
    /// A request is on its queue's fifo or on the dispatch list.
    links: Links,
    /// Handed over beside the request that was asked for, or given back by the device.
    dispatch_list: List,

    /// By queue: service trees and near-trees.
    rr_nodes: Nodes<u64>,
    near_nodes: Nodes<u64>,
    /// By level.
    near: [Tree; 8],

    groups: Vec<Group>,
    group_nodes: Nodes<u64>,
    group_tree: Tree,
    min_vtime: u64,
    total_weight: i64,

    serving_class: u8,
    serving_type: u8,
    /// End of the workload slice.
    wl_end: i64,
    noidle_wants_idle: bool,

    active: u32,
    active_ctx: u32,
    timer: Option<i64>,
    busy_queues: u32,
    queued_total: u32,
    in_driver: u32,
    /// Handed over and not completed, of async and sync queues.
    in_flight: [u32; 2],
    /// End of the last request that went to the driver.
    last_pos: u64,
    last_delayed_sync: i64,

    /// The device queues requests: -1 unknown, 0, 1.
    hw_tag: i8,
    hw_depth: u32,
    hw_samples: u32,

    slices: u64,
    preemptions: u64,
    idle_armed: u64,
    idle_useful: u64,
    queue_merges: u64,
    queue_splits: u64,
}

impl Cfq {
    fn new(setup: &Setup<'_>, version: Version) -> Cfq {
        Cfq {
            version,
            conf: Conf::new(version),
            rotational: setup.device.rotational,
            queues: Vec::with_capacity(QUEUES),
            free: Vec::with_capacity(QUEUES),
            ctxs: Vec::new(),
            async_queues: [NIL; 17],
            rqs: vec![Rq::NONE; setup.requests],
            sorted: Nodes::new(setup.requests),
            links: Links::new(setup.requests),
            dispatch_list: List::new(),
            rr_nodes: Nodes::new(QUEUES),
            near_nodes: Nodes::new(QUEUES),
            near: [Tree::new(); 8],
            groups: vec![Group::new(group::ROOT_WEIGHT)],
            group_nodes: Nodes::new(1),
            group_tree: Tree::new(),
            min_vtime: 0,
            total_weight: 0,
            serving_class: BE,
            serving_type: group::ASYNC,
            wl_end: 0,
            noidle_wants_idle: false,
            active: NIL,
            active_ctx: NIL,
            timer: None,
            busy_queues: 0,
            queued_total: 0,
            in_driver: 0,
            in_flight: [0; 2],
            last_pos: 0,
            last_delayed_sync: tick(setup.now) - LATE_AT_START,
            hw_tag: if version == Version::V30 { 1 } else { -1 },
            hw_depth: 0,
            hw_samples: 0,
            slices: 0,
            preemptions: 0,
            idle_armed: 0,
            idle_useful: 0,
            queue_merges: 0,
            queue_splits: 0,
        }
    }

    /// Debug builds recompute all counts at some of the calls.
    fn check_sometimes(&self, now: Instant) {
        #[cfg(debug_assertions)]
        if (now.as_nanos() / 1_000).is_multiple_of(CHECK_EVERY) {
            self.check();
        }
        let _ = now;
    }
}

impl Scheduler for Cfq {
    fn depth_limit(&mut self, _now: Instant, io: &Io, cx: &mut Cx<'_>) -> Depth {
        self.allocation_check(io, cx)
    }

    fn prepare(&mut self, now: Instant, id: ReqId, cx: &mut Cx<'_>) {
        let request = cx.requests[id];
        self.prepare_request(now, &request, cx);
    }

    fn insert(&mut self, now: Instant, id: ReqId, at: At, cx: &mut Cx<'_>) -> Run {
        let run = self.insert_request(now, id.slot(), at, cx);
        self.check_sometimes(now);
        run
    }

    fn dispatch(&mut self, now: Instant, _queue: QueueId, cx: &mut Cx<'_>) -> Dispatch {
        let answer = self.dispatch_one(now, cx);
        self.check_sometimes(now);
        answer
    }

    fn complete(&mut self, now: Instant, id: ReqId, cx: &mut Cx<'_>) {
        self.completed(now, id.slot(), cx);
        self.check_sometimes(now);
    }

    fn requeue(&mut self, _now: Instant, id: ReqId, _cx: &mut Cx<'_>) {
        self.give_back(id.slot());
    }

    fn drain(&mut self, now: Instant, cx: &mut Cx<'_>) -> Option<ReqId> {
        self.drain_one(now, cx)
    }

    fn may_merge(&mut self, _now: Instant, io: &Io, into: ReqId, cx: &mut Cx<'_>) -> bool {
        self.allows_merge(io, into, cx)
    }

    fn find_merge(&mut self, _now: Instant, io: &Io, cx: &mut Cx<'_>) -> Option<(ReqId, Side)> {
        self.front_merge(io, cx)
    }

    fn neighbour(&self, id: ReqId, side: Side, _cx: &Cx<'_>) -> Option<ReqId> {
        self.beside(id, side)
    }

    fn merged(&mut self, now: Instant, kept: ReqId, what: Merged, cx: &mut Cx<'_>) {
        self.was_merged(now, kept, what, cx);
        self.check_sometimes(now);
    }

    fn queues(&self, sink: &mut dyn FnMut(QueueUse)) {
        for proc in (0..self.ctxs.len().saturating_sub(1) as u32).map(ProcId) {
            let ctx = &self.ctxs[ctx_of(proc) as usize];
            for sync in [true, false] {
                let queue = ctx.queue(sync);
                if queue != NIL {
                    sink(QueueUse { proc, sync, queue, in_service: queue == self.active });
                }
            }
        }
    }
}

impl Stage for Cfq {
    fn info(&self) -> &'static StageInfo {
        &self.version.entry().stage
    }

    fn changed(&mut self, now: Instant, change: &Change, cx: &mut Cx<'_>) {
        match *change {
            Change::GroupAdded(group) => self.ensure_group(group),
            Change::ProcMoved { proc, .. } => self.moved(now, proc, cx),
            Change::ProcPriority(proc) => self.priority_changed(now, proc, cx),
            Change::ProcExited(proc) => self.exited(now, proc, cx),
            Change::Device => self.rotational = cx.device.rotational,
            // Its queues go with its last requests.
            Change::GroupRemoved(_) => {}
            Change::DirtySlept(_) => {}
        }
    }

    fn timer(&mut self, now: Instant, cx: &mut Cx<'_>) {
        if self.timer.is_some_and(|at| at <= tick(now)) {
            self.idle_over(now, cx);
        }
    }

    fn next_timer(&self) -> Option<Instant> {
        self.timer.map(|at| Instant::from_nanos(at as u64 * TICK_NS))
    }

    fn set(
        &mut self,
        now: Instant,
        name: &str,
        value: u64,
        _cx: &mut Cx<'_>,
    ) -> Result<(), TunableError> {
        self.set_tunable(name, value)?;
        if matches!(name, "slice_sync" | "slice_async" | "slice_idle" | "group_idle") {
            self.follow(tick(now));
        }
        Ok(())
    }

    fn value(&self, name: &str) -> Option<u64> {
        self.tunable(name)
    }

    fn set_group(
        &mut self,
        _now: Instant,
        group: GroupId,
        name: &str,
        value: Option<u64>,
        _cx: &mut Cx<'_>,
    ) -> Result<(), TunableError> {
        let entry = self.version.entry();
        let default =
            if group == GroupId::ROOT { group::ROOT_WEIGHT } else { group::WEIGHT } as u64;
        let value = value.unwrap_or(default);
        tunable::check(entry.group_tunables, entry.name, name, value)?;
        self.set_weight(group, value as i64);
        Ok(())
    }

    fn figures(&self, sink: &mut dyn FnMut(Figure)) {
        let mut put = |name, value: u64| sink(Figure { name, of: None, value: value as i64 });
        put("slices", self.slices);
        put("preemptions", self.preemptions);
        put("idle_timer_armed", self.idle_armed);
        put("idle_timer_useful", self.idle_useful);
        put("queue_merges", self.queue_merges);
        put("queue_splits", self.queue_splits);
        put("busy_queues", self.busy_queues.into());
        put("queues", (self.queues.len() - self.free.len()) as u64);
        sink(Figure { name: "device_queues", of: None, value: self.hw_tag.into() });
        for (i, group) in (0u32..).zip(&self.groups).filter(|(_, g)| g.vtime > 0) {
            sink(Figure { name: "group_vtime", of: Some(i), value: group.vtime as i64 });
        }
    }
}

#[cfg(any(test, debug_assertions))]
impl Cfq {
    /// What must hold between calls, recomputed.
    fn check(&self) {
        use requests::Place;
        let count = |f: &dyn Fn(&Rq) -> bool| self.rqs.iter().filter(|r| f(r)).count() as u32;
        assert_eq!(self.queued_total, count(&|r| r.place == Place::Queued));
        assert_eq!(self.in_driver, count(&|r| r.place == Place::Issued));
        assert_eq!(self.dispatch_list.len(), count(&|r| r.place == Place::Listed));
        let mut busy = 0;
        let mut flying = [0; 2];
        for (q, queue) in (0u32..).zip(&self.queues).filter(|(_, queue)| queue.live) {
            let mine = |f: &dyn Fn(&Rq) -> bool| count(&|r| r.queue == q && f(r));
            assert_eq!(queue.queued, mine(&|r| r.place == Place::Queued));
            assert_eq!(queue.queued, queue.sorted.len());
            assert_eq!(queue.queued, queue.fifo.len());
            assert_eq!(queue.meta_pending, mine(&|r| r.place == Place::Queued && r.meta));
            let out = |r: &Rq| matches!(r.place, Place::Listed | Place::Issued | Place::Returned);
            assert_eq!(queue.dispatched, mine(&out));
            assert_eq!(queue.allocated, mine(&|_| true));
            assert_eq!(queue.next == NIL, queue.queued == 0);
            assert!(queue.next == NIL || self.rqs[queue.next as usize].queue == q);
            assert_eq!(queue.on_rr, self.rr_nodes.linked(q));
            assert!(queue.queued == 0 || queue.on_rr, "a queue with requests is busy");
            let may_be_empty = self.active == q && self.version != Version::V30;
            assert!(queue.queued > 0 || !queue.on_rr || may_be_empty);
            assert_eq!(queue.near != queue::NOWHERE, self.near_nodes.linked(q));
            assert!(queue.near == queue::NOWHERE || queue.queued > 0);
            assert!(!queue.wait_request || self.active == q);
            let users = self.ctxs.iter().filter(|c| c.sync_q == q || c.async_q == q).count();
            assert!(queue.users as usize >= users);
            assert!(queue.merge_into == NIL || self.queues[queue.merge_into as usize].live);
            busy += u32::from(queue.on_rr);
            flying[usize::from(queue.sync)] += queue.dispatched;
        }
        assert_eq!((self.busy_queues, self.in_flight), (busy, flying));
        assert!(self.timer.is_none() || self.queues[self.active as usize].wait_request);
        let mut weights = 0;
        for (g, group) in (0u32..).zip(&self.groups) {
            let in_trees: u32 = group.trees.iter().map(|t| t.len()).sum();
            assert_eq!(group.nr_q, in_trees);
            assert_eq!(group.nr_q > 0, self.group_nodes.linked(g));
            weights += if group.nr_q > 0 { group.weight } else { 0 };
        }
        assert_eq!(self.total_weight, weights);
    }
}

/// Debug builds check everything in microseconds divisible by this (chosen: a check costs as much
/// as many calls).
#[cfg(debug_assertions)]
const CHECK_EVERY: u64 = 61;
