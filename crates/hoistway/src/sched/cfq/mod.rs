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
//! *State.* Per queue (`queue`): its requests by sector and by arrival, seek history (`habits`), time
//! slice (`slice`), turn, how it is shared (`coop`). Per process: its two queues and its think time
//! (8:1 running means). Per group (`group`): six trees and one for IDLE. Per device: the active
//! queue, near-trees (queues by the sector of their next request, for *cooperators*: processes that
//! read next to each other share a queue until it becomes seeky), and whether the device can queue
//! (`device`).
//!
//! *Path.* A request is inserted (`requests`), may preempt or end a wait (`idle`), its queue gets a
//! turn (`turns`) and is served (`serve`), and its completion starts the slice and the next wait
//! (`idle`).
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
//! merging, full slices; `cfq-2.6.32` adds the slow start of async queues (`device`).
//! `cfq-2.6.38` adds what later kernels changed (section 12); most of it is also there as switches of `cfq`. Of 2.6.33
//! and 2.6.35 no text tells rules of their own, so they have no entry.
//!
//! Time is counted in ticks of 1 ms, all divisions are of integers: think times and depths depend
//! on it. A slice or wait of `n` ticks thus lasts up to one tick less.

mod coop;
mod device;
mod group;
mod habits;
mod idle;
mod ids;
mod queue;
mod requests;
mod serve;
mod slice;
#[cfg(test)]
mod tests;
mod tunables;
mod turns;
mod weights;

use super::{At, Depth, Dispatch, Entry, Merged, QueueUse, Run, Scheduler, Search, Service, Setup};
use crate::device::Profile;
use crate::env::Cx;
use crate::group::{GroupId, ProcId};
use crate::knob::KnobError;
use crate::request::{Io, ReqId, Side};
use crate::rows::{Id, Rows};
use crate::setting::{self, Settings, TunableError};
use crate::stage::{Change, Decision, Figure, Role, Stage, StageInfo};
use crate::unit::{Instant, QueueId};
use alloc::boxed::Box;
use alloc::string::String;
use coop::NearTrees;
use device::{AsyncRamp, Queueing};
use group::{CfqGroups, Workload};
use ids::{CtxNo, QueueNo};
use queue::{CfqCtx, CfqQueues};
use requests::{RqPool, slot};
use tunables::{
    CfqConf, GROUP_TUNABLES, SETTINGS_30, SETTINGS_32, SETTINGS_34, SETTINGS_38, TUNABLES_30,
    TUNABLES_32, TUNABLES_34, TUNABLES_38,
};

/// The CFQ of Linux 2.6.34, the main version.
pub static ENTRY: Entry = Entry {
    stage: StageInfo {
        name: "cfq",
        summary: "time slices per process, idling, groups; as in 2.6.34",
        source: "specs/cfq.md (Linux 2.6.34)",
        tunables: &TUNABLES_34,
        group_tunables: GROUP_TUNABLES,
        knobs: weights::KNOBS,
        figures: &[],
        decisions: &[
            Decision::new("queue of process", Role::QueueOfProcess),
            Decision::new("queues merged", Role::QueuesMerged),
            Decision::new("queue split", Role::QueueSplit),
            Decision::new("expired", Role::ServiceEnds).counting("request", ""),
            Decision::new("preempted", Role::ServiceEnds).counting("request", ""),
            Decision::new("idle", Role::IdlesTicks),
        ],
    },
    profile: Profile::Legacy,
    service: Service::Slices,
    search: Search::Elevator,
    sorted: true,
    direct: false,
    tag_percent_min: None,
    tags_min: 0,
    replaces_wbt: false,
    build: &|setup| Box::new(Cfq::new(setup, &CFQ)),
};

/// The CFQ of Linux 2.6.30.
pub static ENTRY_30: Entry = Entry {
    stage: StageInfo {
        name: "cfq-2.6.30",
        summary: "CFQ as in 2.6.30: one tree of queues, full slices",
        source: "specs/cfq.md 12 (Linux 2.6.30)",
        tunables: &TUNABLES_30,
        group_tunables: &[],
        knobs: &[],
        ..ENTRY.stage
    },
    build: &|setup| Box::new(Cfq::new(setup, &CFQ_30)),
    ..ENTRY
};

/// The CFQ of Linux 2.6.32: that of 2.6.30, and async queues start slowly after a late sync request.
pub static ENTRY_32: Entry = Entry {
    stage: StageInfo {
        name: "cfq-2.6.32",
        summary: "CFQ as in 2.6.32: one tree of queues, async queues start slowly",
        source: "specs/cfq.md 12 (Linux 2.6.32, from release history)",
        tunables: &TUNABLES_32,
        ..ENTRY_30.stage
    },
    build: &|setup| Box::new(Cfq::new(setup, &CFQ_32)),
    ..ENTRY
};

/// Changes until Linux 2.6.38.
pub static ENTRY_38: Entry = Entry {
    stage: StageInfo {
        name: "cfq-2.6.38",
        summary: "CFQ with the changes up to 2.6.38: group_idle, isolation",
        source: "specs/cfq.md 12 (Linux 2.6.36 to 2.6.38)",
        tunables: &TUNABLES_38,
        ..ENTRY.stage
    },
    build: &|setup| Box::new(Cfq::new(setup, &CFQ_38)),
    ..ENTRY
};

/// Which kernel's rules (section 12).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    V30,
    V34,
    V38,
}

/// A kernel's CFQ: whose rules, with which defaults, under which name.
#[derive(Debug)]
struct Kernel {
    entry: &'static Entry,
    version: Version,
    settings: &'static Settings<CfqConf, tunables::CfqEffect>,
}

static CFQ_30: Kernel = Kernel { entry: &ENTRY_30, version: Version::V30, settings: &SETTINGS_30 };
static CFQ_32: Kernel = Kernel { entry: &ENTRY_32, version: Version::V30, settings: &SETTINGS_32 };
static CFQ: Kernel = Kernel { entry: &ENTRY, version: Version::V34, settings: &SETTINGS_34 };
static CFQ_38: Kernel = Kernel { entry: &ENTRY_38, version: Version::V38, settings: &SETTINGS_38 };

/// Classes in the order in which they are served.
const RT: u8 = 0;
const BE: u8 = 1;
const IDLE: u8 = 2;

/// All busy queues are to come round in this time, in ticks. Twenty processes with full slices would take two
/// seconds; a third of one is about what somebody at a screen bears.
const TARGET_LATENCY: i64 = 300;
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
    kernel: &'static Kernel,
    version: Version,
    conf: CfqConf,
    rotational: bool,

    queues: CfqQueues,
    ctxs: Rows<CtxNo, CfqCtx>,
    pool: RqPool,
    groups: CfqGroups,
    near: NearTrees,

    /// The type of queues being served, and the queue.
    workload: Workload,
    active: QueueNo,
    /// Context whose request began the slice.
    active_ctx: CtxNo,
    /// End of the wait for the active queue.
    timer: Option<i64>,
    busy_queues: u32,

    queueing: Queueing,
    ramp: AsyncRamp,
    stats: CfqStats,
}

/// Counted for reports; nothing is decided by it.
#[derive(Debug, Default)]
struct CfqStats {
    slices: u64,
    preemptions: u64,
    idle_armed: u64,
    idle_useful: u64,
    queue_merges: u64,
    queue_splits: u64,
}

impl Cfq {
    fn new(setup: &Setup<'_>, kernel: &'static Kernel) -> Cfq {
        let version = kernel.version;
        Cfq {
            kernel,
            version,
            conf: kernel.settings.defaults(),
            rotational: setup.device.rotational,
            queues: CfqQueues::new(),
            ctxs: Rows::new(),
            pool: RqPool::new(setup.requests),
            groups: CfqGroups::new(QUEUES),
            near: NearTrees::new(QUEUES),
            workload: Workload::NONE,
            active: QueueNo::NONE,
            active_ctx: CtxNo::NONE,
            timer: None,
            busy_queues: 0,
            queueing: Queueing::new((version == Version::V30).then_some(true)),
            ramp: AsyncRamp::new(tick(setup.now)),
            stats: CfqStats::default(),
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
        let run = self.insert_request(now, slot(id), at, cx);
        self.check_sometimes(now);
        run
    }

    fn dispatch(&mut self, now: Instant, _queue: QueueId, cx: &mut Cx<'_>) -> Dispatch {
        let answer = self.dispatch_one(now, cx);
        self.check_sometimes(now);
        answer
    }

    fn complete(&mut self, now: Instant, id: ReqId, cx: &mut Cx<'_>) {
        self.completed(now, slot(id), cx);
        self.check_sometimes(now);
    }

    fn requeue(&mut self, _now: Instant, id: ReqId, _cx: &mut Cx<'_>) {
        self.pool.give_back(slot(id));
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
        for (ctx, slots) in self.ctxs.pairs().filter(|(ctx, _)| ctx.proc() != ProcId::NONE) {
            for sync in [true, false] {
                if let Some(queue) = slots.queue(sync).some() {
                    let in_service = queue == self.active;
                    sink(QueueUse { proc: ctx.proc(), sync, queue: queue.0, in_service });
                }
            }
        }
    }
}

impl Stage for Cfq {
    fn info(&self) -> &'static StageInfo {
        &self.kernel.entry.stage
    }

    fn changed(&mut self, now: Instant, change: &Change, cx: &mut Cx<'_>) {
        match *change {
            Change::GroupAdded(group) => self.groups.ensure(group),
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
        let row = self.kernel.settings.set(&mut self.conf, name, value)?;
        if let Some(effect) = row.effect {
            effect(self, tick(now));
        }
        Ok(())
    }

    fn value(&self, name: &str) -> Option<u64> {
        self.kernel.settings.value(&self.conf, name)
    }

    fn set_group(
        &mut self,
        _now: Instant,
        group: GroupId,
        name: &str,
        value: Option<u64>,
        _cx: &mut Cx<'_>,
    ) -> Result<(), TunableError> {
        let entry = self.kernel.entry;
        let default =
            if group == GroupId::ROOT { group::ROOT_WEIGHT } else { group::WEIGHT } as u64;
        let value = value.unwrap_or(default);
        setting::check(entry.group_tunables, entry.name, name, value)?;
        self.groups.set_weight(group, value as i64);
        Ok(())
    }

    fn write_knob(
        &mut self,
        _now: Instant,
        group: GroupId,
        file: &str,
        line: &str,
        _cx: &mut Cx<'_>,
    ) -> Result<(), KnobError> {
        self.write_weight(group, file, line)
    }

    fn read_knob(&self, group: GroupId, file: &str, _cx: &Cx<'_>, out: &mut String) {
        self.read_weight(group, file, out);
    }

    fn figures(&self, sink: &mut dyn FnMut(Figure)) {
        let mut put = |name, value: u64| sink(Figure { name, of: None, value: value as i64 });
        put("slices", self.stats.slices);
        put("preemptions", self.stats.preemptions);
        put("idle_timer_armed", self.stats.idle_armed);
        put("idle_timer_useful", self.stats.idle_useful);
        put("queue_merges", self.stats.queue_merges);
        put("queue_splits", self.stats.queue_splits);
        put("busy_queues", self.busy_queues.into());
        put("queues", self.queues.count() as u64);
        sink(Figure { name: "device_queues", of: None, value: self.queueing.figure() });
        for (id, group) in self.groups.rows.pairs().filter(|(_, g)| g.vtime > 0) {
            sink(Figure { name: "group_vtime", of: Some(id.0), value: group.vtime as i64 });
        }
    }
}

#[cfg(any(test, debug_assertions))]
impl Cfq {
    /// Invariants between calls, recomputed.
    fn check(&self) {
        use requests::{CfqPlace, CfqRq};
        let pool = &self.pool;
        let count = |f: &dyn Fn(&CfqRq) -> bool| pool.rqs.iter().filter(|r| f(r)).count() as u32;
        assert_eq!(pool.queued, count(&|r| r.place == CfqPlace::Queued));
        assert_eq!(pool.in_driver, count(&|r| r.place == CfqPlace::Issued));
        assert_eq!(pool.listed.len(), count(&|r| r.place == CfqPlace::Listed));
        let mut busy = 0;
        let mut flying = [0; 2];
        for (q, queue) in self.queues.live() {
            self.check_queue(q, queue);
            busy += u32::from(queue.turn.busy);
            flying[usize::from(queue.sync)] += queue.dispatched;
        }
        assert_eq!((self.busy_queues, pool.in_flight), (busy, flying));
        assert!(self.timer.is_none() || self.queues[self.active].slice.wait_request);
        let mut weights = 0;
        for (id, group) in self.groups.rows.pairs() {
            let in_trees: u32 = group.trees.iter().map(|t| t.len()).sum();
            assert_eq!(group.nr_q, in_trees);
            assert_eq!(group.nr_q > 0, self.groups.linked(id));
            weights += if group.nr_q > 0 { group.weight } else { 0 };
        }
        assert_eq!(self.groups.total_weight, weights);
    }

    fn check_queue(&self, q: QueueNo, queue: &queue::CfqQueue) {
        use requests::{CfqPlace, CfqRq};
        let pool = &self.pool;
        let mine = |f: &dyn Fn(&CfqRq) -> bool| {
            pool.rqs.iter().filter(|r| r.queue == q && f(r)).count() as u32
        };
        let pending = &queue.pending;
        assert_eq!(pending.queued, mine(&|r| r.place == CfqPlace::Queued));
        assert_eq!(pending.queued, pending.sorted.len());
        assert_eq!(pending.queued, pending.fifo.len());
        assert_eq!(pending.meta, mine(&|r| r.place == CfqPlace::Queued && r.meta));
        let out =
            |r: &CfqRq| matches!(r.place, CfqPlace::Listed | CfqPlace::Issued | CfqPlace::Returned);
        assert_eq!(queue.dispatched, mine(&out));
        assert_eq!(queue.allocated, mine(&|_| true));
        assert_eq!(pending.next.is_none(), queue.empty());
        assert!(pending.next.is_none() || pool.rqs[pending.next].queue == q);
        assert_eq!(queue.turn.busy, self.groups.serves(q));
        assert!(queue.empty() || queue.turn.busy, "a queue with requests is busy");
        let may_be_empty = self.active == q && self.version != Version::V30;
        assert!(!queue.empty() || !queue.turn.busy || may_be_empty);
        assert_eq!(queue.near.listed(), self.near.linked(q));
        assert!(!queue.near.listed() || !queue.empty());
        assert!(!queue.slice.wait_request || self.active == q);
        let sharing = &queue.sharing;
        let users = self.ctxs.iter().filter(|c| c.sync_q == q || c.async_q == q).count();
        assert!(sharing.users as usize >= users);
        assert!(sharing.merge_into.is_none() || self.queues[sharing.merge_into].live);
    }
}

/// Debug builds check everything in microseconds divisible by this (chosen: a check costs as much
/// as many calls).
#[cfg(debug_assertions)]
const CHECK_EVERY: u64 = 61;
