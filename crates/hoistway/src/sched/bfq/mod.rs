//! BFQ, budget fair queueing (specs/bfq.md), complete: the fair queue, budgets, device idling,
//! injection, latency heuristics, merging of queues, groups, actuators. The early releases are in [`early`].
//!
//! *The problem.* A disk serves a queue fast only if it may serve it for a while. Fair queueing by
//! request size knows nothing of that, and a process that sends its next request only when the last one
//! is done has nothing to be chosen between two of them.
//!
//! *The idea.* Each process has a queue. The queue in service keeps the device for a *budget*, a number
//! of sectors, and budgets, not requests, are what the fair queue schedules. Budgets adapt: who uses
//! all of it gets more, who stops early gets less. Since a queue's timestamps follow from the service it
//! really received, the size of its budgets changes its delay but not its share.
//!
//! ```text
//!   start  = max(V, finish of the last slot)     finish = start + budget / weight
//!   V advances by service / sum of weights        next   = least finish among start <= V
//! ```
//!
//! An empty queue in service may be *waited for* (8 ms): on a disk to keep the head where it is, anywhere
//! if the queue would otherwise lose its share because weights or classes differ.
//!
//! *State.* `wf2q`: entities, service trees, virtual times, along paths of groups. `census`: who is busy
//! with which weight. `queue`: what is known of a queue, a component for each mechanism. `ctx`, `groups`: who uses
//! queues, where they belong. `requests`: requests in queues. `slot`: budgets and their ends. `idle`: waiting, what
//! justifies it, what fills it. `latency`, `burst`: who is raised. `merge`: cooperation. `rate`: the peak rate, which
//! makes the largest budget. `flow`: from the queues to the device and back. `pool`: limits in the request pool,
//! actuators. `follow`: what a changed tunable does. Times are nanoseconds, everything else is in sectors.
//!
//! *Guarantees*, with B the largest budget, w weights, φ a queue's share, W service (section 13; tested in
//! `tests/bounds.rs` for fixed budgets): over any interval from the instant queue i became backlogged,
//! `φ_i W - W_i <= B_i + (B - B_i) φ_i`; and for two queues backlogged from the start
//! `|W_i/w_i - W_j/w_j| <= B_i/w_i + B_j/w_j`. The shortcut of the reference adds one B. A slow or seeky queue is charged for time instead of service, an unraised async
//! queue three times its service when all weights are equal; that is policy and outside the bounds.
//!
//! *Latency.* With `low_latency` a queue that was idle for long, or issues periodically at a low rate, is
//! *raised*: it weighs 30 or 3000 times as much for some seconds. While a queue is waited for, requests
//! of others are *injected* as far as its own do not get slower. Contexts whose I/O interleaves, or whose
//! queues were born together, share a queue. Each layer has a switch: `low_latency`, `injection`,
//! `preemption`, `queue_merge`, `stable_merge`, `slice_idle`; with all of them off this is plain B-WF2Q+
//! over budgets.
//!
//! *The reference.* `base` = 6.1 decides as Linux 6.1 does, quirks included: fed with recordings of every
//! call into its BFQ, this one answers the same on every line ([`probe`], crate `hoistway-replay`). The
//! default, `base` = hoistway, mends the quirks that cost something (section 10; `docs/schedulers/bfq.md`
//! lists each), and each has a switch of its own.
//!
//! *Known weaknesses.* A queue with one request at a time in a symmetric scenario on flash is not
//! waited for and gets its share of slots, not of sectors. What is in a queueing device is out of reach: it
//! may leave a request there for seconds (`docs/guide/bfq.md`).
//!
//! Sources: P. Valente and F. Checconi, "High Throughput Disk Scheduling with Fair Bandwidth
//! Distribution", IEEE Trans. Computers 59(9), 2010; J. Bennett and H. Zhang, "Hierarchical Packet Fair
//! Queueing Algorithms", IEEE/ACM ToN 5(5), 1997.

mod active;
mod burst;
mod census;
mod class;
mod ctx;
pub mod early;
mod flow;
mod follow;
mod groups;
mod idle;
mod ids;
mod latency;
mod merge;
mod pool;
pub mod probe;
mod queue;
mod rate;
mod requests;
mod runs;
mod slot;
mod stats;
#[cfg(test)]
mod tests;
mod tunables;
mod vtime;
mod weights;
mod wf2q;

use super::{At, Depth, Dispatch, Entry, Merged, QueueUse, Run, Scheduler, Search, Service, Setup};
use crate::device::Profile;
use crate::env::Cx;
use crate::group::{GroupId, ProcId};
use crate::knob::KnobError;
use crate::request::{Io, ReqId, Side};
use crate::setting::TunableError;
use crate::stage::{Change, Decision, Figure, Role, Stage, StageInfo};
use crate::unit::{Class, Instant, IoPrio, Nanos, QueueId};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use burst::Burst;
use ctx::Contexts;
use flow::{InService, Load};
use groups::GroupParts;
use idle::Ncq;
use ids::{Id, QueueNo};
use pool::actuators;
use queue::BfqQueues;
use queue::inject::Measure;
use rate::PeakRate;
use requests::Rqs;
use slot::{Budgets, EarlyRules, Expiry};
use stats::{BfqStats, FIGURES};
use tunables::{BfqConf, SETTINGS, TUNABLES};
use weights::{GROUP_TUNABLES, KNOBS};
use wf2q::FairQueue;

/// The registry entry.
pub static ENTRY: Entry = Entry {
    stage: StageInfo {
        name: "bfq",
        summary: "proportional share by budgets, idles for who deserves it",
        source: "specs/bfq.md",
        tunables: &TUNABLES,
        group_tunables: GROUP_TUNABLES,
        knobs: KNOBS,
        figures: FIGURES,
        decisions: DECISIONS,
    },
    profile: Profile::MultiQueue,
    service: Service::Budgets,
    search: Search::Elevator,
    sorted: false,
    direct: false,
    tag_percent_min: None,
    tags_min: 0,
    replaces_wbt: true,
    build: &|setup| Box::new(Bfq::new(setup)),
};

/// Decisions in the trace; `bfq-v1` makes a part of them.
const DECISIONS: &[Decision] = &[
    Decision::new("queue of process", Role::QueueOfProcess),
    Decision::new("queues merged", Role::QueuesMerged),
    Decision::new("split off a shared queue", Role::SplitOff),
    Decision::new("shared queue kept by its last user", Role::OfQueue),
    Decision::new("in service", Role::InService),
    Decision::new("expired", Role::ServiceEnds).counting("sectors", "sectors"),
    Decision::new("preempts", Role::Preempts),
    Decision::new("idles", Role::Idles),
    Decision::new("injected", Role::Injected),
    Decision::new("waker found", Role::WakerFound),
    Decision::new("raised", Role::Raised),
    Decision::new("raising ends", Role::RaisingEnds),
    Decision::new("boosted", Role::Boosted),
];

/// Device-wide state (specs/bfq.md 1.6).
#[derive(Debug)]
struct Bfq {
    conf: BfqConf,
    rules: EarlyRules,
    rotational: bool,

    fair: FairQueue,
    queues: BfqQueues,
    ctxs: Contexts,
    groups: GroupParts,
    rqs: Rqs,

    serving: InService,
    load: Load,
    budgets: Budgets,
    rate: PeakRate,
    ncq: Ncq,
    measure: Measure,
    /// The queue of the request that was completed last, `NONE` if it is shared or gone.
    last_completed: QueueNo,
    burst: Burst,
    /// How long an interactive queue stays raised (6.1).
    wr_duration: Nanos,

    /// The time of the call as the reference keeps it in ticks, if `tick_rounding` is on (10.1).
    tn: Instant,
    /// Length of a tick.
    tick: Nanos,
    /// The tick a recording names, instead of the one of the clock.
    recorded_tick: Option<Instant>,
    /// Every slot that ends, if somebody compares them.
    expiries: Option<Vec<Expiry>>,
    stats: BfqStats,
}

impl Bfq {
    // Large on the stack, and a kernel's is small: not in the frame of an earlier version's as well.
    #[inline(never)]
    fn new(setup: &Setup<'_>) -> Bfq {
        let rotational = setup.device.rotational;
        let actuators = actuators(setup.device);
        let conf = SETTINGS.defaults();
        let mut bfq = Bfq {
            rules: EarlyRules::BFQ,
            rotational,
            fair: FairQueue::new(setup.now, conf.fair),
            conf,
            queues: BfqQueues::new(),
            ctxs: Contexts::new(actuators),
            groups: GroupParts::new(actuators),
            rqs: Rqs::new(setup.requests),
            // What has not happened yet was at instant 0, and not when this was made (quirk Q30).
            serving: InService::new(),
            load: Load::NONE,
            budgets: Budgets::NEW,
            rate: PeakRate::new(rotational),
            ncq: Ncq::new(),
            measure: Measure::new(),
            last_completed: QueueNo::NONE,
            burst: Burst::new(),
            wr_duration: Nanos::ZERO,
            tn: setup.now,
            tick: setup.device.tick,
            recorded_tick: None,
            expiries: None,
            stats: BfqStats::default(),
        };
        bfq.recompute_wr_duration();
        bfq
    }

    /// Reads the clock at the start of a call.
    #[inline]
    fn clock(&mut self, now: Instant) {
        self.tn = now;
        if self.conf.tick_rounding {
            self.tn = self.in_ticks(now);
        }
    }

    #[cold]
    fn in_ticks(&self, now: Instant) -> Instant {
        let whole = Instant::from_nanos(now.as_nanos() / self.tick.0 * self.tick.0);
        self.recorded_tick.unwrap_or(whole)
    }

    /// A duration that is compared with instants kept in ticks.
    #[inline]
    fn up(&self, d: Nanos) -> Nanos {
        if !self.conf.tick_rounding {
            return d;
        }
        Nanos(d.0.div_ceil(self.tick.0) * self.tick.0)
    }

    /// The limit of a slot, which the reference rounds down.
    fn down(&self, d: Nanos) -> Nanos {
        if !self.conf.tick_rounding {
            return d;
        }
        Nanos((d.0 / self.tick.0).max(1) * self.tick.0)
    }

    /// The end of a call.
    #[inline]
    fn tidy(&mut self, now: Instant) {
        if !self.fair.loose.is_empty() {
            self.free_loose();
        }
        self.check_sometimes(now);
    }

    /// Debug builds recompute all counts at some of the calls.
    #[inline]
    fn check_sometimes(&self, now: Instant) {
        #[cfg(debug_assertions)]
        if (now.as_nanos() / 1_000).is_multiple_of(CHECK_EVERY) {
            self.check();
        }
        let _ = now;
    }
}

impl Scheduler for Bfq {
    fn depth_limit(&mut self, now: Instant, io: &Io, cx: &mut Cx<'_>) -> Depth {
        self.clock(now);
        self.pool_limit(io, cx)
    }

    /// A read's limit is a share in all requests: who shares with nobody reaches it where there is no request left.
    #[inline]
    fn limits_reads(&self, cx: &Cx<'_>) -> bool {
        self.fair.shared() || cx.requests.len() >= cx.device.nr_requests as usize
    }

    #[cfg_attr(feature = "kernel", inline(always))]
    fn prepare(&mut self, now: Instant, id: ReqId, cx: &mut Cx<'_>) {
        self.clock(now);
        let requests = cx.requests;
        self.prepare_request(now, &requests[id], cx);
        self.tidy(now);
    }

    #[cfg_attr(feature = "kernel", inline(always))]
    fn insert(&mut self, now: Instant, id: ReqId, at: At, cx: &mut Cx<'_>) -> Run {
        self.clock(now);
        self.insert_request(now, id.into(), at, cx);
        self.tidy(now);
        Run::Usual
    }

    #[cfg_attr(feature = "kernel", inline(always))]
    fn dispatch(&mut self, now: Instant, _queue: QueueId, cx: &mut Cx<'_>) -> Dispatch {
        self.clock(now);
        let answer = self.dispatch_one(now, cx);
        self.tidy(now);
        answer
    }

    #[cfg_attr(feature = "kernel", inline(always))]
    fn complete(&mut self, now: Instant, id: ReqId, cx: &mut Cx<'_>) {
        self.clock(now);
        self.completed(now, id.into(), cx);
        self.tidy(now);
    }

    fn requeue(&mut self, now: Instant, id: ReqId, cx: &mut Cx<'_>) {
        self.complete(now, id, cx);
    }

    fn drain(&mut self, now: Instant, cx: &mut Cx<'_>) -> Option<ReqId> {
        self.clock(now);
        let answer = self.drain_one(now, cx);
        self.tidy(now);
        answer
    }

    fn may_merge(&mut self, now: Instant, io: &Io, into: ReqId, cx: &mut Cx<'_>) -> bool {
        self.clock(now);
        let answer = self.allows_merge(now, io, into, cx);
        self.tidy(now);
        answer
    }

    fn find_merge(&mut self, now: Instant, io: &Io, cx: &mut Cx<'_>) -> Option<(ReqId, Side)> {
        self.clock(now);
        let answer = self.front_merge(now, io, cx);
        self.tidy(now);
        answer
    }

    fn neighbour(&self, id: ReqId, side: Side, cx: &Cx<'_>) -> Option<ReqId> {
        self.beside(id, side, cx)
    }

    fn merged(&mut self, now: Instant, kept: ReqId, what: Merged, cx: &mut Cx<'_>) {
        self.clock(now);
        self.was_merged(now, kept, what, cx);
        self.tidy(now);
    }

    fn weight_of(&self, prio: IoPrio) -> Option<u64> {
        level_weight(prio)
    }

    fn queues(&self, sink: &mut dyn FnMut(QueueUse)) {
        for (at, pair) in self.ctxs.pairs.iter().enumerate() {
            let proc = ProcId((at / usize::from(self.ctxs.actuators)) as u32);
            for (sync, queue) in [(true, pair.sync), (false, pair.other)] {
                if queue.is_some() {
                    sink(QueueUse {
                        proc,
                        sync,
                        queue: queue.0,
                        in_service: queue == self.serving.queue,
                    });
                }
            }
        }
    }
}

/// Weight by level in the best-effort class, the only one in which weights count (1.2).
fn level_weight(prio: IoPrio) -> Option<u64> {
    (prio.class() == Class::Be).then(|| 10 * (8 - u64::from(prio.level())))
}

impl Stage for Bfq {
    fn info(&self) -> &'static StageInfo {
        &ENTRY.stage
    }

    fn changed(&mut self, now: Instant, change: &Change, cx: &mut Cx<'_>) {
        self.clock(now);
        match *change {
            Change::ProcExited(proc) => self.ctx_exit(now, proc, cx),
            Change::GroupRemoved(group) => self.remove_group(now, group, cx),
            Change::Device => {
                // Deviation: the number of actuators is read once, when the scheduler comes into force.
                self.rotational = cx.device.rotational;
                self.tick = cx.device.tick;
                self.recompute_wr_duration();
            }
            // Priorities and groups are compared at each `prepare`.
            _ => {}
        }
        self.tidy(now);
    }

    fn timer(&mut self, now: Instant, cx: &mut Cx<'_>) {
        self.clock(now);
        if let Some((at, q)) = self.serving.timer
            && at <= now
        {
            self.serving.timer = None;
            self.idle_over(now, q, cx);
        }
        self.tidy(now);
    }

    fn next_timer(&self) -> Option<Instant> {
        self.serving.timer.map(|(at, _)| at)
    }

    fn set(
        &mut self,
        now: Instant,
        name: &str,
        value: u64,
        cx: &mut Cx<'_>,
    ) -> Result<(), TunableError> {
        self.clock(now);
        let before = self.conf.clone();
        let row = SETTINGS.set(&mut self.conf, name, value)?;
        self.follow(now, row, &before, cx);
        Ok(())
    }

    fn value(&self, name: &str) -> Option<u64> {
        SETTINGS.value(&self.conf, name)
    }

    fn set_group(
        &mut self,
        now: Instant,
        group: GroupId,
        name: &str,
        value: Option<u64>,
        cx: &mut Cx<'_>,
    ) -> Result<(), TunableError> {
        self.clock(now);
        self.set_group_weight(group, name, value, cx.groups)
    }

    fn write_knob(
        &mut self,
        now: Instant,
        group: GroupId,
        file: &str,
        line: &str,
        cx: &mut Cx<'_>,
    ) -> Result<(), KnobError> {
        self.clock(now);
        self.write_weight_file(group, file, line, cx)
    }

    fn read_knob(&self, group: GroupId, file: &str, cx: &Cx<'_>, out: &mut String) {
        self.read_weight_file(group, file, cx, out);
    }

    fn figures(&self, sink: &mut dyn FnMut(Figure)) {
        self.all_figures(sink);
    }
}

#[cfg(any(test, debug_assertions))]
impl Bfq {
    /// The invariants of specs/bfq.md section 15, recomputed.
    fn check(&self) {
        use requests::{BfqRq, RqPlace};
        self.fair.check();
        let count = |f: &dyn Fn(&BfqRq) -> bool| self.rqs.iter().filter(|r| f(r)).count() as u32;
        let in_queue = |r: &BfqRq, place| r.queue.is_some() && r.place == place;
        assert_eq!(self.load.queued, count(&|r| in_queue(r, RqPlace::Queued)));
        assert_eq!(self.load.inflight, count(&|r| in_queue(r, RqPlace::Issued)));
        assert_eq!(self.rqs.listed(), count(&|r| r.place == RqPlace::Listed));
        for (q, queue) in self.queues.live() {
            let mine = |place| count(&|r| r.queue == q && r.place == place);
            let e = &self.fair.ents[q];
            assert_eq!(queue.rqs.queued, mine(RqPlace::Queued));
            assert_eq!(queue.rqs.fifo.len(), queue.rqs.sorted.len());
            let alone = queue.rqs.queued <= 1 && queue.rqs.sorted.is_empty();
            assert!(alone || queue.rqs.queued == queue.rqs.sorted.len());
            assert_eq!(queue.rqs.inflight, mine(RqPlace::Issued));
            assert_eq!(queue.rqs.allocated, count(&|r| r.queue == q));
            assert_eq!(queue.rqs.next.is_none(), queue.rqs.queued == 0);
            let users =
                self.ctxs.pairs.iter().filter(|c| c.sync == q || c.other == q).count() as u32;
            let chained = self.queues.live().map(|(_, p)| p).filter(|p| p.coop.into == q);
            let tables = self.groups.iter().flat_map(|g| g.async_queues.iter().flatten());
            let users = users + tables.filter(|&&p| p == q).count() as u32;
            assert_eq!(queue.life.users, users + chained.map(|p| p.life.users).sum::<u32>());
            assert!(queue.sync || queue.life.owner.is_none(), "an async queue has no owner");
            assert!(queue.rqs.queued == 0 || e.busy, "a queue with requests is busy");
            assert!(
                !queue.slot.waiting || (self.serving.queue == q && self.serving.timer.is_some())
            );
            // Not the other way round: a queue that becomes busy while a request of its that bypassed
            // the queues is in the device is not counted (4.3).
            assert!(e.counted == 0 || e.busy || queue.rqs.inflight > 0);
            let moved = self.conf.base.leaves_count_first();
            assert!(!e.grouped || e.busy || queue.rqs.inflight > 0 || moved);
        }
        assert!(self.serving.queue.is_none() || self.fair.ents[self.serving.queue].busy);
        assert!(self.serving.timer.is_none_or(|(_, q)| self.queues[q].slot.waiting));
        for pair in &self.ctxs.pairs {
            assert!(pair.sync.is_none() || self.queues[pair.sync].sync);
            assert!(pair.other.is_none() || !self.queues[pair.other].sync);
        }
        assert_eq!(self.load.by_actuator.iter().sum::<u32>(), self.load.inflight);
    }
}

/// Debug builds check everything in microseconds divisible by this (chosen: a check costs as much as
/// many calls; a counter of calls would be state that an empty dispatch must not change).
#[cfg(debug_assertions)]
const CHECK_EVERY: u64 = 61;
