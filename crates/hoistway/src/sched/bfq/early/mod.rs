//! The early releases of BFQ: v1 of 2010 and v4 of 2012 (specs/bfq.md section 11): budgets, idling and the first two
//! forms of `low_latency`.
//!
//! *The idea.* As BFQ's, with the plain rules of its first release: an async request costs eleven times
//! its size, a slow queue is charged its whole budget, at most four requests of a queue are in the device beside
//! others. What differs between the two:
//!
//! | | v1 (2.6.32 to 2.6.36) | v4 (3.5) |
//! |---|---|---|
//! | who is preferred | a queue idle for 20 s | idle for 2 s; or soft real-time: at most 7000 sectors/s |
//! | by | a boost of 10, falling with service over 24 MiB, at most 6 s | weight times 20 for 7.5 s; 300 ms |
//! | idling | also on flash, for queues that do not seek | on flash that queues commands for raised queues only |
//! | of a raised queue | - | 24 ms |
//! | cooperating queues | - | merged when the one in service has run empty, split when seeky |
//! | dispatch | batches of four | one request at a time |
//!
//! ```text
//!   v1: weight = w + 9 w * boost_left / 49152      boost_left falls with every sector served
//!   v4: weight = 20 w                              until the period is over
//! ```
//!
//! It drives the fair queue, the queues and the contexts of `Bfq`; only the rules that differ are
//! here: `boost` (v1), `raise` and `cooperate` (v4), `expiry`, `tunables`. What neither had is off there:
//! back-shifting, preemption, injection, bursts, early and stable merging, symmetry, hole recovery, pool limits.
//!
//! *Known weaknesses.* v1 idles on flash as on a disk unless the reader seeks. In both, async queues wait for
//! all sync requests to leave the device, and a queue that comes back waits for the slot in service to end.

mod boost;
mod cooperate;
mod expiry;
mod raise;
mod tunables;

use super::idle::HwTag;
use super::ids::{Id, QueueNo, Rows, RqNo};
use super::queue::past::Past;
use super::queue::raise::NOT_RAISED;
use super::queue::think::Average;
use super::requests::RqPlace;
use super::slot::{EarlyRules, Reason};
use super::weights::{GROUP_TUNABLES, KNOBS};
use super::wf2q::IDLE;
use super::{Bfq, DECISIONS, requests::BfqRq};
use crate::device::Profile;
use crate::env::Cx;
use crate::group::GroupId;
use crate::knob::KnobError;
use crate::request::{Io, ReqId, Side};
use crate::sched::{
    At, Depth, Dispatch, Entry, Merged, QueueUse, Run, Scheduler, Search, Service, Setup,
};
use crate::setting::TunableError;
use crate::stage::{Change, Figure, Stage, StageInfo};
use crate::unit::{Instant, IoPrio, Nanos, QueueId};
use alloc::boxed::Box;
use alloc::string::String;

/// BFQ v1, the first release.
pub static ENTRY_V1: Entry = Entry {
    stage: StageInfo {
        name: "bfq-v1",
        summary: "BFQ as first released in 2010: budgets, idling, a boost for what starts",
        source: "specs/bfq.md section 11",
        tunables: &tunables::TUNABLES_V1,
        group_tunables: GROUP_TUNABLES,
        knobs: KNOBS,
        figures: &[],
        decisions: DECISIONS,
    },
    profile: Profile::Legacy,
    service: Service::Budgets,
    search: Search::Elevator,
    sorted: false,
    direct: false,
    tag_percent_min: Some(100),
    tags_min: 0,
    replaces_wbt: true,
    build: &|setup| Box::new(Early::new(setup, Release::V1)),
};

/// BFQ v4.
pub static ENTRY_V4: Entry = Entry {
    stage: StageInfo {
        name: "bfq-v4",
        summary: "BFQ of 2012: raises what starts or plays, merges queues that cooperate",
        source: "specs/bfq.md 11.6 and 11.8",
        tunables: &tunables::TUNABLES_V4,
        ..ENTRY_V1.stage
    },
    build: &|setup| Box::new(Early::new(setup, Release::V4)),
    ..ENTRY_V1
};

/// The version whose rules hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Release {
    V1,
    V4,
}

impl Release {
    fn entry(self) -> &'static Entry {
        match self {
            Release::V1 => &ENTRY_V1,
            Release::V4 => &ENTRY_V4,
        }
    }
}

/// State of a queue besides the shared one.
#[derive(Clone, Copy, Debug)]
struct Extra {
    generation: u32,
    /// Waiting for it may pay.
    idle_window: bool,
    seek: MeanDistance,
    /// The boost started, or the queue last became busy; `None` for a newborn. (v1)
    boost_t0: Option<Instant>,
    /// An arrival after it is soft real-time; `None`: none is. (v4)
    next_soft: Option<Instant>,
    /// It became idle.
    idle_since: Option<Instant>,
    /// Requests of this slot.
    dispatched: u64,
    /// First completion of this slot.
    slot_start: Option<Instant>,
}

/// The mean distance between the requests of a queue.
#[derive(Clone, Copy, Debug, Default)]
struct MeanDistance(Average);

impl MeanDistance {
    /// A distance in sectors; far ones are clipped, the more the more is known (11.3).
    fn add(&mut self, d: u64) {
        let slack = if self.0.samples() <= FEW { FAR_AT_FIRST } else { FAR };
        self.0.add(d.min(4 * self.0.mean() + slack));
    }

    fn seeky(&self) -> bool {
        self.0.mean() > SEEKY
    }
}

#[derive(Debug)]
struct Early {
    release: Release,
    /// On the heap: two copies of it in a constructor's frame are more than a kernel's stack may take.
    b: Box<Bfq>,
    extra: Rows<QueueNo, Extra>,
    sync_inflight: u32,
    /// 2^16 sectors per microsecond.
    peak: u64,
    peak_samples: u32,
    timeout_async: Nanos,
    quantum: u64,
    async_batch: u64,
    low_latency: bool,
    described: bool,
    boosts: u64,
}

impl Early {
    fn new(setup: &Setup<'_>, release: Release) -> Early {
        let mut b = Box::new(Bfq::new(setup));
        b.rules = RULES;
        b.rules.merges_at_selection = release == Release::V4;
        b.conf.low_latency = false;
        b.conf.stable_merge = false;
        b.conf.queue_merge = false;
        // Bursts are of later releases.
        b.conf.large_burst_thresh = u32::MAX;
        b.conf.fair.fix_double_charge = false;
        b.conf.fair.keep_idle_ticket = false;
        b.fair.count_weights = false;
        // The largest budget is trusted from the start.
        b.budgets.assigned = 255;
        b.ncq.tag = HwTag::Yes;
        // Deviation: begins at the reference of the kind of drive, not at 0 (11.4).
        let peak = b.rate.peak;
        let mut early = Early {
            release,
            b,
            extra: Rows::new(),
            sync_inflight: 0,
            peak,
            peak_samples: 0,
            timeout_async: Nanos::ZERO,
            quantum: 0,
            async_batch: 0,
            low_latency: false,
            described: false,
            boosts: 0,
        };
        release.settings().apply_defaults(&mut early);
        early.b.fair.set_rules(early.b.conf.fair);
        early.b.recompute_wr_duration();
        early
    }

    fn set_low_latency(&mut self, on: bool) {
        self.low_latency = on;
        // What is shared with BFQ knows raising, and no boost.
        self.b.conf.low_latency = on && self.release == Release::V4;
    }

    /// It weighs a multiple of its weight for a while. (v4)
    fn raised(&self, q: QueueNo) -> bool {
        self.b.fair.ents[q].wr > NOT_RAISED
    }

    /// The device is kept idle for its next request (11.3). v4: not a drive that has no head to move and orders
    /// commands itself, unless the queue is raised.
    fn waits_for(&mut self, q: QueueNo) -> bool {
        let pointless = self.release == Release::V4
            && !self.b.rotational
            && self.b.ncq.tag == HwTag::Yes
            && !self.raised(q);
        !pointless && self.extra(q).idle_window
    }

    /// The state of a queue, fresh if the number belongs to a new one.
    fn extra(&mut self, q: QueueNo) -> &mut Extra {
        let queue = &self.b.queues[q];
        let fresh = Extra {
            generation: queue.life.generation,
            idle_window: queue.sync && self.b.fair.class(q) != IDLE,
            seek: MeanDistance::default(),
            boost_t0: None,
            next_soft: None,
            idle_since: None,
            dispatched: 0,
            slot_start: None,
        };
        while self.extra.len() <= q.0 as usize {
            self.extra.push(Extra { generation: queue.life.generation.wrapping_sub(1), ..fresh });
        }
        let extra = &mut self.extra[q];
        if extra.generation != fresh.generation {
            *extra = fresh;
        }
        extra
    }

    // Insertion: 11.3.

    fn insert_request(&mut self, now: Instant, slot: RqNo, at: At, cx: &mut Cx<'_>) {
        let rq = self.b.rqs[slot];
        assert_eq!(rq.place, RqPlace::Prepared, "a request is prepared, then inserted once");
        if at == At::Head || rq.queue.is_none() {
            self.b.rqs.list(slot, at);
            return;
        }
        let q = self.join_cooperator(now, slot, cx);
        self.extra(q);
        let expire =
            if rq.sync { self.b.conf.fifo_expire_sync } else { self.b.conf.fifo_expire_async };
        let own = &mut self.b.queues[q].rqs;
        own.queued += 1;
        self.b.load.queued += 1;
        self.b.rqs.enqueue(own, slot, now + expire);
        let old = self.b.queues[q].rqs.next;
        let next = self.b.better(old, slot, self.b.rate.last_pos);
        self.b.queues[q].rqs.next = next;
        if next != old {
            self.b.index_update(q);
        }
        let cost = self.b.charge_next(q);
        let budget = self.b.queues[q].slot.max_budget.max(cost);
        self.note_arrival(now, q, cx);
        if !self.b.fair.ents[q].busy {
            self.b.fair.ents[q].service = 0;
            self.b.fair.ents[q].budget = budget;
            self.prefer_on_busy(now, q, cx);
            self.b.fair.activate_or_requeue(q, false, false, self.b.tn);
            self.b.fair.census.set_busy(&mut self.b.fair.ents[q]);
        } else if self.b.serving.queue != q && self.b.fair.ents[q].budget != budget {
            self.b.fair.ents[q].budget = budget;
            self.b.fair.activate_or_requeue(q, false, false, self.b.tn);
        }
        // Deviation: the text samples the think time of a process at its async requests too; here it
        // is kept with the sync queue.
        if rq.sync {
            self.sample(now, q, &rq);
        }
        self.b.queues[q].seek.last_pos = rq.end();
        if self.b.serving.queue == q && self.b.queues[q].slot.waiting {
            self.b.stop_waiting(now, q);
            if self.b.queues[q].slot.timed_out(now) {
                self.expire(now, q, false, Reason::Timeout, cx);
            }
            self.b.kick(cx);
        }
    }

    fn sample(&mut self, now: Instant, q: QueueNo, rq: &BfqRq) {
        let maxb = self.b.budgets.max;
        let idle = self.b.conf.slice_idle;
        let queue = &mut self.b.queues[q];
        queue.think.sample(now, idle);
        let think = queue.think.average;
        let distance =
            if queue.seek.last_pos == 0 { 0 } else { queue.seek.last_pos.abs_diff(rq.pos) };
        let gone = self.b.ctxs.procs[rq.proc.index()].gone;
        let service = self.b.fair.ents[q].service;
        let queueing = self.b.ncq.tag == HwTag::Yes;
        let class = self.b.fair.class(q);
        // A raised queue is waited for although it seeks: what starts does (11.6).
        let raised = self.raised(q);
        let extra = self.extra(q);
        extra.seek.add(distance);
        if (service > maxb / 8 || !extra.seek.seeky()) && class != IDLE {
            if gone || idle == Nanos::ZERO || (queueing && extra.seek.seeky() && !raised) {
                extra.idle_window = false;
            } else if think.valid() {
                extra.idle_window = think.mean() <= idle.0;
            }
        }
    }

    // Dispatch: 11.3.

    fn dispatch_one(&mut self, now: Instant, force: bool, cx: &mut Cx<'_>) -> Dispatch {
        // Bounded: each turn ends a slot, or stops.
        while !self.b.rqs.any_listed() {
            if self.b.load.queued == 0 {
                return Dispatch::Empty;
            }
            let Some(q) = self.select(now, cx) else {
                if !force {
                    return Dispatch::Idle;
                }
                self.expire(now, self.b.serving.queue, false, Reason::NoMore, cx);
                continue;
            };
            let queue = &self.b.queues[q];
            let lim = match (queue.sync, self.b.fair.class(q)) {
                (_, IDLE) => 1,
                (false, _) => self.async_batch,
                (true, _) => self.quantum,
            };
            let inside = u64::from(queue.rqs.inflight);
            let full = (inside >= lim && self.b.fair.census.tot_busy() > 1) || inside >= 4 * lim;
            if !force && (full || (!queue.sync && self.sync_inflight > 0)) {
                return Dispatch::Idle;
            }
            let at_once = if self.release == Release::V4 { 1 } else { lim };
            self.batch(now, q, at_once, cx);
        }
        let slot = self.b.rqs.pop_listed().expect("just filled");
        let rq = &self.b.rqs[slot];
        self.sync_inflight += u32::from(rq.queue.is_some() && rq.sync);
        Dispatch::Issue(self.b.issue_listed(slot, cx))
    }

    /// Moves up to `lim` requests of the queue in service to the dispatch list.
    fn batch(&mut self, now: Instant, q: QueueNo, lim: u64, cx: &mut Cx<'_>) {
        for _ in 0..lim {
            let queue = &mut self.b.queues[q];
            if queue.rqs.next.is_none() {
                break;
            }
            let mut slot = queue.rqs.next;
            if !core::mem::replace(&mut queue.slot.fifo_checked, true) {
                let oldest = self.b.rqs.oldest(&queue.rqs);
                if now >= self.b.rqs[oldest].fifo_deadline {
                    slot = oldest;
                }
            }
            let cost = self.b.charge_len(self.b.rqs[slot].len.into(), q);
            if cost > self.b.fair.ents[q].left() {
                self.b.queues[q].rqs.next = slot;
                self.expire(now, q, false, Reason::Exhausted, cx);
                return;
            }
            self.b.serve(q, cost);
            self.b.remove_request(now, slot);
            self.b.rate.last_pos = self.b.rqs[slot].end();
            self.b.rqs.list(slot, At::Tail);
            self.served(now, q, cost, cx);
            self.extra(q).dispatched += 1;
        }
        let others = self.b.fair.census.tot_busy() > 1;
        let many = !self.b.queues[q].sync && self.extra(q).dispatched >= self.async_batch;
        if others && (many || self.b.fair.class(q) == IDLE) {
            self.expire(now, q, false, Reason::Exhausted, cx);
        }
    }

    fn select(&mut self, now: Instant, cx: &mut Cx<'_>) -> Option<QueueNo> {
        // Bounded: a queue just set in service has a request and a fresh budget that fits it.
        loop {
            let q = self.b.serving.queue;
            if q.is_some() {
                let queue = &self.b.queues[q];
                let reason = if self.b.may_time_out(q) {
                    Reason::Timeout
                } else if queue.rqs.next.is_some() {
                    if self.b.charge_next(q) <= self.b.fair.ents[q].left() {
                        return Some(q);
                    }
                    Reason::Exhausted
                } else if self.merge_with_cooperator(q) {
                    Reason::NoMore
                } else if self.b.queues[q].slot.waiting
                    || (self.b.queues[q].rqs.inflight > 0 && self.waits_for(q))
                {
                    return None;
                } else {
                    Reason::NoMore
                };
                self.expire(now, q, false, reason, cx);
            }
            if self.b.fair.census.tot_busy() == 0 {
                return None;
            }
            let q = self.b.fair.select(self.b.tn);
            self.b.serving.queue = q;
            let extra = self.extra(q);
            extra.dispatched = 0;
            extra.slot_start = None;
            let queue = &mut self.b.queues[q];
            queue.slot.fifo_checked = false;
            queue.slot.deadline = Past::at(NEVER);
            cx.trace.why(now, "in service", q.0, self.b.fair.ents[q].budget as i64, 0);
        }
    }

    // Completion: 11.3.

    fn completed(&mut self, now: Instant, slot: RqNo, cx: &mut Cx<'_>) {
        let rq = self.b.rqs[slot];
        assert_eq!(rq.place, RqPlace::Issued, "only an issued request completes");
        if rq.queue.is_some() {
            self.completed_in_queue(now, &rq, cx);
        }
        self.b.release(now, slot, cx);
    }

    fn completed_in_queue(&mut self, now: Instant, rq: &BfqRq, cx: &mut Cx<'_>) {
        let q = rq.queue;
        self.detect_queueing();
        self.b.load.inflight -= 1;
        self.sync_inflight -= u32::from(rq.sync);
        let queue = &mut self.b.queues[q];
        queue.rqs.inflight -= 1;
        self.b.load.by_actuator[usize::from(queue.actuator)] -= 1;
        if rq.sync {
            queue.think.last_end = now.as_nanos();
        }
        if self.b.serving.queue == q {
            self.after_completion(now, q, rq, cx);
        }
        self.b.kick(cx);
    }

    fn after_completion(&mut self, now: Instant, q: QueueNo, rq: &BfqRq, cx: &mut Cx<'_>) {
        if self.extra(q).slot_start.is_none() {
            self.extra(q).slot_start = Some(now);
            let e = &self.b.fair.ents[q];
            let factor = u64::from(e.weight / e.orig_weight);
            let queue = &mut self.b.queues[q];
            let limit = if queue.sync { self.b.conf.timeout } else { self.timeout_async };
            queue.slot.deadline = Past::at(now + limit * factor);
        }
        if self.b.may_time_out(q) {
            self.expire(now, q, false, Reason::Timeout, cx);
        } else if rq.sync
            && self.b.load.inflight == 0
            && self.b.queues[q].empty()
            && self.waits_for(q)
            && self.b.queues[q].life.users > 0
        {
            self.arm(now, q, cx);
        } else if self.b.load.queued == 0
            && !self.b.queues[q].slot.waiting
            && (self.b.queues[q].rqs.inflight == 0 || !self.waits_for(q))
        {
            // Deviation: a run with nothing queued may change no state here, so the end of the slot that
            // the run after this completion would bring comes now.
            self.expire(now, q, false, Reason::NoMore, cx);
        }
    }

    fn arm(&mut self, now: Instant, q: QueueNo, cx: &mut Cx<'_>) {
        let much = self.b.fair.ents[q].service > self.b.budgets.max / 8;
        let seek = self.extra(q).seek;
        let idle = self.b.conf.slice_idle;
        let seeks = seek.0.valid() && seek.seeky() && much;
        let wait = if self.raised(q) {
            self.b.raised_wait()
        } else if seeks {
            idle.min(SEEKY_IDLE)
        } else {
            idle
        };
        self.b.wait_for(now, q, wait, cx);
    }

    /// Whether the device queues commands is decided anew every 33 valid samples (11.2).
    fn detect_queueing(&mut self) {
        let ncq = &mut self.b.ncq;
        ncq.max_inflight = ncq.max_inflight.max(self.b.load.inflight);
        if self.b.load.inflight + self.b.load.queued < QUEUEING {
            return;
        }
        ncq.samples += 1;
        if ncq.samples >= QUEUEING_SAMPLES {
            ncq.tag = if ncq.max_inflight >= QUEUEING { HwTag::Yes } else { HwTag::No };
            ncq.max_inflight = 0;
            ncq.samples = 0;
        }
    }
}

impl Scheduler for Early {
    fn depth_limit(&mut self, _now: Instant, _io: &Io, _cx: &mut Cx<'_>) -> Depth {
        Depth::Usual
    }

    fn prepare(&mut self, now: Instant, id: ReqId, cx: &mut Cx<'_>) {
        self.b.prepare(now, id, cx);
    }

    fn insert(&mut self, now: Instant, id: ReqId, at: At, cx: &mut Cx<'_>) -> Run {
        self.b.clock(now);
        self.insert_request(now, id.into(), at, cx);
        self.b.tidy(now);
        Run::Usual
    }

    fn dispatch(&mut self, now: Instant, _queue: QueueId, cx: &mut Cx<'_>) -> Dispatch {
        self.b.clock(now);
        let answer = self.dispatch_one(now, false, cx);
        self.b.tidy(now);
        answer
    }

    fn complete(&mut self, now: Instant, id: ReqId, cx: &mut Cx<'_>) {
        self.b.clock(now);
        self.completed(now, id.into(), cx);
        self.b.tidy(now);
    }

    fn requeue(&mut self, now: Instant, id: ReqId, cx: &mut Cx<'_>) {
        self.complete(now, id, cx);
    }

    fn drain(&mut self, now: Instant, cx: &mut Cx<'_>) -> Option<ReqId> {
        self.b.clock(now);
        let answer = self.dispatch_one(now, true, cx);
        self.b.tidy(now);
        match answer {
            Dispatch::Issue(id) => Some(id),
            Dispatch::Idle | Dispatch::Empty => None,
        }
    }

    fn may_merge(&mut self, now: Instant, io: &Io, into: ReqId, cx: &mut Cx<'_>) -> bool {
        self.b.may_merge(now, io, into, cx)
    }

    fn find_merge(&mut self, now: Instant, io: &Io, cx: &mut Cx<'_>) -> Option<(ReqId, Side)> {
        self.b.find_merge(now, io, cx)
    }

    fn neighbour(&self, id: ReqId, side: Side, cx: &Cx<'_>) -> Option<ReqId> {
        self.b.neighbour(id, side, cx)
    }

    fn merged(&mut self, now: Instant, kept: ReqId, what: Merged, cx: &mut Cx<'_>) {
        self.b.merged(now, kept, what, cx);
    }

    fn weight_of(&self, prio: IoPrio) -> Option<u64> {
        self.b.weight_of(prio)
    }

    fn queues(&self, sink: &mut dyn FnMut(QueueUse)) {
        self.b.queues(sink);
    }
}

impl Stage for Early {
    fn info(&self) -> &'static StageInfo {
        &self.release.entry().stage
    }

    fn changed(&mut self, now: Instant, change: &Change, cx: &mut Cx<'_>) {
        self.b.changed(now, change, cx);
    }

    fn timer(&mut self, now: Instant, cx: &mut Cx<'_>) {
        self.b.clock(now);
        if let Some((at, q)) = self.b.serving.timer
            && at <= now
        {
            self.b.serving.timer = None;
            if self.b.serving.queue == q {
                let queue = &mut self.b.queues[q];
                queue.slot.waiting = false;
                let timed_out = queue.slot.timed_out(now);
                self.b.tally_idling(now, q);
                let reason = if timed_out { Reason::Timeout } else { Reason::TooIdle };
                self.expire(now, q, true, reason, cx);
            }
            self.b.kick(cx);
        }
        self.b.tidy(now);
    }

    fn next_timer(&self) -> Option<Instant> {
        self.b.next_timer()
    }

    fn set(
        &mut self,
        now: Instant,
        name: &str,
        value: u64,
        cx: &mut Cx<'_>,
    ) -> Result<(), TunableError> {
        let row = self.release.settings().set(self, name, value)?;
        self.b.clock(now);
        if let Some(effect) = row.effect {
            effect(self, now, cx);
        }
        Ok(())
    }

    fn value(&self, name: &str) -> Option<u64> {
        self.release.settings().value(self, name)
    }

    fn set_group(
        &mut self,
        now: Instant,
        group: GroupId,
        name: &str,
        value: Option<u64>,
        cx: &mut Cx<'_>,
    ) -> Result<(), TunableError> {
        self.b.set_group(now, group, name, value, cx)
    }

    fn write_knob(
        &mut self,
        now: Instant,
        group: GroupId,
        file: &str,
        line: &str,
        cx: &mut Cx<'_>,
    ) -> Result<(), KnobError> {
        self.b.write_knob(now, group, file, line, cx)
    }

    fn read_knob(&self, group: GroupId, file: &str, cx: &Cx<'_>, out: &mut String) {
        self.b.read_knob(group, file, cx, out);
    }

    fn figures(&self, sink: &mut dyn FnMut(Figure)) {
        let mut put = |name, value: u64| sink(Figure { name, of: None, value: value as i64 });
        let (s, all) = (&self.b.stats, self.b.groups.tally());
        for (name, n) in Reason::NAMES.iter().zip(all.slots) {
            put(name, n);
        }
        put("full_charges", s.time_charges);
        put("full_charged_sectors", all.time_charged);
        put("idle_timer_armed", all.idle_armed);
        put("idle_timer_useful", all.idle_useful);
        put("idle_time_ns", all.idled.0);
        match self.release {
            Release::V1 => put("boosts", self.boosts),
            Release::V4 => {
                put("raised_interactive", all.raised_interactive);
                put("raised_soft_real_time", all.raised_soft);
                put("raising_ended", s.raising_ended);
                put("queue_merges", all.merges);
                put("queue_splits", all.splits);
            }
        }
        put("peak_rate_sectors_per_s", (self.peak * 1_000_000) >> expiry::RATE_SHIFT);
        put("max_budget_sectors", self.b.budgets.max);
        put("queues_busy", self.b.fair.census.tot_busy().into());
    }
}

/// What differs in the parts shared with BFQ (11.2). Early BFQ overcharged async requests elevenfold in every
/// scenario; too much, since a group's bandwidth then depends on whether it reads or writes.
const RULES: EarlyRules = EarlyRules {
    level_weight: 1,
    async_factor: Some(11),
    keep_on_no_more: true,
    own_slot_limit: true,
    merges_at_selection: false,
    raised_waits: Some(3),
};
/// No slot ends before its first completion.
const NEVER: Instant = Instant::from_nanos(u64::MAX - 1);
/// While few samples are known a far request may be the rule (11.3).
const FEW: u32 = 60;
const FAR_AT_FIRST: u64 = 2 << 20;
const FAR: u64 = 2 << 16;
/// Mean distance above which a queue seeks, in sectors (11.2).
const SEEKY: u64 = 8192;
const SEEKY_IDLE: Nanos = Nanos::ms(2);
const QUEUEING: u32 = 4;
const QUEUEING_SAMPLES: u32 = 33;
#[cfg(test)]
mod tests;
