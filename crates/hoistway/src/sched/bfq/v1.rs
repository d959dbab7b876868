//! The original BFQ of 2010 (specs/bfq.md section 11): budgets, idling and the first `low_latency`, a
//! weight boost that fades with the service received.
//!
//! *The idea.* As BFQ's, with the plain rules of its first release: an async request costs eleven times
//! its size, a slow queue is charged its whole budget, batches of four requests go to the device, and a
//! process that was idle for 20 s weighs up to ten times as much for its first 24 MiB or 6 s.
//!
//! ```text
//!   weight = w + 9 w * boost_left / 49152      boost_left falls with every sector served
//! ```
//!
//! It drives the fair queue, the queues and the contexts of `Bfq`; only the rules that differ are
//! here. What v1 did not have is off there: back-shifting, preemption, injection, merging, raising,
//! symmetry, hole recovery, pool limits.
//!
//! The file is long because all that differs stands in it: its settings, its rules and its calls into `Bfq`.
//!
//! *Known weaknesses.* It idles on flash as on a disk unless the reader seeks, and async queues wait for
//! all sync requests to leave the device.

use super::idle::HwTag;
use super::ids::{Id, QueueNo, Rows, RqNo};
use super::queue::past::Past;
use super::queue::think::Average;
use super::requests::Place;
use super::slot::{Reason, Rules};
use super::weights::{GROUP_TUNABLES, KNOBS};
use super::wf2q::IDLE;
use super::{Bfq, DECISIONS, requests::Rq};
use crate::device::Profile;
use crate::env::Cx;
use crate::group::GroupId;
use crate::knob::KnobError;
use crate::request::{Io, ReqId, Side};
use crate::sched::{
    At, Depth, Dispatch, Entry, Merged, QueueUse, Run, Scheduler, Search, Service, Setup,
};
use crate::setting::{OnChange, Setting, Settings, Tunable, TunableError, Unit, listed};
use crate::stage::{Change, Figure, Stage, StageInfo};
use crate::unit::{Instant, IoPrio, Nanos, QueueId};
use alloc::boxed::Box;
use alloc::string::String;

/// The registry entry.
pub static ENTRY: Entry = Entry {
    stage: StageInfo {
        name: "bfq-v1",
        summary: "BFQ as first released in 2010: budgets, idling, a boost for what starts",
        source: "specs/bfq.md section 11",
        tunables: &TUNABLES,
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
    build: |setup| Box::new(BfqV1::new(setup)),
};

const MS_MAX: u64 = 600_000;

const ROWS: &[Setting<BfqV1>] = &[
    Tunable::new(
        "slice_idle",
        Unit::Millis,
        8,
        (0, MS_MAX),
        "Longest wait for a sync queue. 0: none.",
    )
    .on_change(OnChange::Waits)
    .field(|s| s.b.conf.slice_idle.as_ms(), |s, v| s.b.conf.slice_idle = Nanos::ms(v)),
    Tunable::switch("low_latency", true, "Boosts queues that come back after 20 s.")
        .on_change(OnChange::Resets)
        .field(|s| s.low_latency.into(), |s, v| s.low_latency = v != 0),
    Tunable::new(
        "max_budget",
        Unit::Sectors,
        0,
        (0, i32::MAX as u64),
        "Largest service of a slot. 0: what the device serves in timeout_sync at its \
         peak rate.",
    )
    .on_change(OnChange::Limits)
    .field(|s| s.b.conf.user_max_budget, |s, v| s.b.conf.user_max_budget = v),
    Tunable::new("timeout_sync", Unit::Millis, 125, (1, MS_MAX), "Time limit of a sync slot.")
        .on_change(OnChange::Limits)
        .field(|s| s.b.conf.timeout.as_ms(), |s, v| s.b.conf.timeout = Nanos::ms(v)),
    Tunable::new("timeout_async", Unit::Millis, 40, (1, MS_MAX), "Time limit of an async slot.")
        .on_change(OnChange::Limits)
        .field(|s| s.timeout_async.as_ms(), |s, v| s.timeout_async = Nanos::ms(v)),
    Tunable::new(
        "fifo_expire_sync",
        Unit::Millis,
        125,
        (1, MS_MAX),
        "Age that breaks the sorted order.",
    )
    .on_change(OnChange::LaterRequests)
    .field(|s| s.b.conf.fifo_expire_sync.as_ms(), |s, v| s.b.conf.fifo_expire_sync = Nanos::ms(v)),
    Tunable::new(
        "fifo_expire_async",
        Unit::Millis,
        250,
        (1, MS_MAX),
        "The same for async requests.",
    )
    .on_change(OnChange::LaterRequests)
    .field(
        |s| s.b.conf.fifo_expire_async.as_ms(),
        |s, v| s.b.conf.fifo_expire_async = Nanos::ms(v),
    ),
    Tunable::new("back_seek_max", Unit::Kib, 16_384, (0, 1 << 40), "Reach behind the head.")
        .field(|s| s.b.conf.back_seek_max_kib, |s, v| s.b.conf.back_seek_max_kib = v),
    Tunable::new("back_seek_penalty", Unit::Factor, 2, (1, 1_000), "Cost of a way back.")
        .field(|s| s.b.conf.back_seek_penalty, |s, v| s.b.conf.back_seek_penalty = v),
    Tunable::new("quantum", Unit::Requests, 4, (1, 1_000), "Requests of a sync queue per batch.")
        .field(|s| s.quantum, |s, v| s.quantum = v),
    Tunable::new(
        "max_budget_async_rq",
        Unit::Requests,
        4,
        (1, 1_000),
        "The same of an async queue.",
    )
    .field(|s| s.async_batch, |s, v| s.async_batch = v),
    Tunable::new("class_idle_period", Unit::Millis, 200, (1, MS_MAX), "Look-in of the idle class.")
        .field(
            |s| s.b.conf.fair.idle_class_period.as_ms(),
            |s, v| s.b.conf.fair.idle_class_period = Nanos::ms(v),
        ),
    Tunable::switch(
        "exact_pick",
        true,
        "1: the eligible queue with the smallest finish. 0: the reference's tree descent \
         (Q1).",
    )
    .field(|s| s.b.conf.fair.exact_pick.into(), |s, v| s.b.conf.fair.exact_pick = v != 0),
    Tunable::switch("exact_candidate", false, "1: a look-up at every activation (Q15).").field(
        |s| s.b.conf.fair.exact_candidate.into(),
        |s, v| s.b.conf.fair.exact_candidate = v != 0,
    ),
    Tunable::choice(
        "v1_rules",
        &["shipped", "described"],
        0,
        "What was released, or what its page says, where they differ: slow queues, age \
         of a boost.",
    )
    .field(|s| s.described.into(), |s, v| s.described = v != 0),
];
/// Settings that BFQ does not have, or that mean something else there.
const OWN: &[&str] =
    &["low_latency", "timeout_async", "quantum", "max_budget_async_rq", "v1_rules"];
static SETTINGS: Settings<BfqV1> = Settings::new("bfq-v1", ROWS);
static TUNABLES: [Tunable; ROWS.len()] = listed(ROWS);

/// What v1 keeps per queue besides the shared state.
#[derive(Clone, Copy, Debug)]
struct Extra {
    generation: u32,
    /// Waiting for it may pay.
    idle_window: bool,
    seek: Distance,
    /// The boost started, or the queue last became busy; `None` for a newborn.
    boost_t0: Option<Instant>,
    /// It became idle.
    idle_since: Option<Instant>,
    /// Requests of this slot.
    dispatched: u64,
    /// First completion of this slot.
    slot_start: Option<Instant>,
}

/// The mean distance between the requests of a queue.
#[derive(Clone, Copy, Debug, Default)]
struct Distance(Average);

impl Distance {
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
struct BfqV1 {
    b: Bfq,
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

impl BfqV1 {
    fn new(setup: &Setup<'_>) -> BfqV1 {
        let mut b = Bfq::new(setup);
        b.rules = RULES;
        b.conf.low_latency = false;
        b.conf.stable_merge = false;
        b.conf.queue_merge = false;
        b.conf.fair.fix_double_charge = false;
        b.conf.fair.keep_idle_ticket = false;
        b.fair.count_weights = false;
        // The largest budget is trusted from the start.
        b.budgets.assigned = 255;
        b.ncq.tag = HwTag::Yes;
        let mut v1 = BfqV1 {
            b,
            extra: Rows::new(),
            sync_inflight: 0,
            peak: 0,
            peak_samples: 0,
            timeout_async: Nanos::ZERO,
            quantum: 0,
            async_batch: 0,
            low_latency: false,
            described: false,
            boosts: 0,
        };
        SETTINGS.apply_defaults(&mut v1);
        v1.b.fair.set_rules(v1.b.conf.fair);
        v1
    }

    /// The state of a queue, fresh if the number belongs to a new one.
    fn extra(&mut self, q: QueueNo) -> &mut Extra {
        let queue = &self.b.queues[q];
        let fresh = Extra {
            generation: queue.life.generation,
            idle_window: queue.sync && self.b.fair.class(q) != IDLE,
            seek: Distance::default(),
            boost_t0: None,
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
        assert_eq!(rq.place, Place::Prepared, "a request is prepared, then inserted once");
        if at == At::Head || rq.queue.is_none() {
            self.b.rqs.list(slot, at);
            return;
        }
        let q = rq.queue;
        self.extra(q);
        let expire =
            if rq.sync { self.b.conf.fifo_expire_sync } else { self.b.conf.fifo_expire_async };
        self.b.rqs[slot].fifo_deadline = now + expire;
        let own = &mut self.b.queues[q].rqs;
        own.queued += 1;
        self.b.load.queued += 1;
        self.b.rqs.enqueue(own, slot);
        let old = self.b.queues[q].rqs.next;
        let next = self.b.better(old, slot, self.b.rate.last_pos);
        self.b.queues[q].rqs.next = next;
        let cost = self.b.charge_next(q);
        let budget = self.b.queues[q].slot.max_budget.max(cost);
        if !self.b.fair.ents[q].busy {
            self.b.fair.ents[q].service = 0;
            self.b.fair.ents[q].budget = budget;
            self.start_boost(now, q, cx);
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

    fn sample(&mut self, now: Instant, q: QueueNo, rq: &Rq) {
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
        let extra = self.extra(q);
        extra.seek.add(distance);
        if (service > maxb / 8 || !extra.seek.seeky()) && class != IDLE {
            if gone || idle == Nanos::ZERO || (queueing && extra.seek.seeky()) {
                extra.idle_window = false;
            } else if think.valid() {
                extra.idle_window = think.mean() <= idle.0;
            }
        }
    }

    // The boost: 11.5.

    /// Deviation: the text does not limit the boost to sync queues; async queues get it too.
    fn start_boost(&mut self, now: Instant, q: QueueNo, cx: &mut Cx<'_>) {
        let (on, described) = (self.low_latency, self.described);
        let boosted = self.b.fair.ents[q].boost > 0;
        let extra = self.extra(q);
        let since = if described { extra.idle_since } else { extra.boost_t0 };
        let newborn = extra.boost_t0.is_none();
        let long_ago = newborn || since.is_none_or(|at| at + BOOST_PAUSE < now);
        if boosted {
            return;
        }
        extra.boost_t0 = Some(now);
        if on && long_ago {
            let e = &mut self.b.fair.ents[q];
            e.boost = BOOST_SECTORS;
            e.prio_dirty = true;
            self.boosts += 1;
            cx.trace.why(now, "boosted: starts", q.0, BOOST_SECTORS.into(), 0);
        }
    }

    fn use_boost(&mut self, now: Instant, q: QueueNo, cost: u64) {
        let left = u64::from(self.b.fair.ents[q].boost);
        if left == 0 {
            return;
        }
        let t0 = self.extra(q).boost_t0.expect("a boost has a start");
        let fresh = now.since(t0) <= BOOST_TIME && left > cost;
        let e = &mut self.b.fair.ents[q];
        e.boost = if fresh { (left - cost) as u32 } else { 0 };
        e.prio_dirty = true;
        self.b.fair.apply(q.into(), false);
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
            self.batch(now, q, lim, cx);
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
            self.use_boost(now, q, cost);
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
                } else if queue.slot.waiting
                    || (queue.rqs.inflight > 0 && self.extra(q).idle_window)
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
        assert_eq!(rq.place, Place::Issued, "only an issued request completes");
        if rq.queue.is_some() {
            self.completed_in_queue(now, &rq, cx);
        }
        self.b.release(now, slot, cx);
    }

    fn completed_in_queue(&mut self, now: Instant, rq: &Rq, cx: &mut Cx<'_>) {
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

    fn after_completion(&mut self, now: Instant, q: QueueNo, rq: &Rq, cx: &mut Cx<'_>) {
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
            && self.extra(q).idle_window
            && self.b.queues[q].life.users > 0
        {
            self.arm(now, q, cx);
        } else if self.b.load.queued == 0
            && !self.b.queues[q].slot.waiting
            && (self.b.queues[q].rqs.inflight == 0 || !self.extra(q).idle_window)
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
        let wait = if seeks { idle.min(SEEKY_IDLE) } else { idle };
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

    // Expiry: 11.4.

    /// Was the slot slow? Moves the estimate of the peak rate.
    fn slow(&mut self, q: QueueNo, end: Instant, reason: Reason) -> bool {
        let Some(start) = self.extra(q).slot_start else { return false };
        let us = end.since(start).as_us();
        if !self.b.queues[q].sync || us < SHORT_US {
            return false;
        }
        let e = &self.b.fair.ents[q];
        let (service, budget) = (e.service, e.budget);
        let bw = (service << RATE_SHIFT) / us;
        let seeky = self.extra(q).seek.seeky();
        if us > LONG_US && (bw > self.peak || (!seeky && reason == Reason::Timeout)) {
            self.peak = 7 * self.peak / 8 + bw / 8;
            self.peak_samples = (self.peak_samples + 1).min(PEAK_SAMPLES);
            self.recompute_max_budget();
        }
        if budget <= self.b.budgets.max / 8 {
            return false;
        }
        let expected = (bw * 1000 * self.b.conf.timeout.as_ms()) >> RATE_SHIFT;
        if self.described { expected < 3 * budget / 4 } else { expected > 4 * budget / 3 }
    }

    /// The slot in service ends by the present limits ([`super::follow`]).
    fn shorten_slot(&mut self) {
        let q = self.b.serving.queue;
        if q.is_none() {
            return;
        }
        let Some(start) = self.extra(q).slot_start else { return };
        let e = &self.b.fair.ents[q];
        let factor = u64::from(e.weight / e.orig_weight);
        let queue = &mut self.b.queues[q];
        let limit = if queue.sync { self.b.conf.timeout } else { self.timeout_async };
        queue.slot.deadline = queue.slot.deadline.at_most(start + limit * factor);
    }

    fn recompute_max_budget(&mut self) {
        self.b.budgets.max = match self.b.conf.user_max_budget {
            0 if self.peak_samples < PEAK_SAMPLES => super::slot::DEFAULT_MAX_BUDGET,
            // At least one sector, or no request could ever be served.
            0 => ((self.peak * 1000 * self.b.conf.timeout.as_ms()) >> RATE_SHIFT).max(1),
            user => user,
        };
    }

    fn expire(
        &mut self,
        now: Instant,
        q: QueueNo,
        compensate: bool,
        reason: Reason,
        cx: &mut Cx<'_>,
    ) {
        let end = if compensate { self.b.serving.idle_since } else { now };
        let slow = self.slow(q, end, reason);
        let e = &self.b.fair.ents[q];
        let left = e.left();
        if slow || (reason == Reason::Timeout && left >= e.budget / 3) {
            self.b.stats.time_charges += 1;
            self.b.tally(q, |t| t.time_charged += left);
            self.b.serve(q, left);
        }
        self.b.adapt(q, reason);
        let queue = &self.b.queues[q];
        if queue.rqs.next.is_none() {
            self.b.fair.ents[q].budget = queue.slot.max_budget;
        }
        self.b.tell_expiry(now, q, reason, cx);
        self.b.leave_service(now, q, reason);
        if !self.b.fair.ents[q].busy {
            self.extra(q).idle_since = Some(now);
        }
        self.b.fair.ents[q].service = 0;
        self.b.fair.clear_ancestor_service(q);
    }
}

impl Scheduler for BfqV1 {
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

impl Stage for BfqV1 {
    fn info(&self) -> &'static StageInfo {
        &ENTRY.stage
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
        let before = self.b.conf.clone();
        let name = SETTINGS.set(self, name, value)?;
        if !OWN.contains(&name) {
            self.b.clock(now);
            self.b.applied(now, name, &before, cx);
        }
        self.recompute_max_budget();
        self.shorten_slot();
        Ok(())
    }

    fn value(&self, name: &str) -> Option<u64> {
        SETTINGS.value(self, name)
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
        put("boosts", self.boosts);
        put("peak_rate_sectors_per_s", (self.peak * 1_000_000) >> RATE_SHIFT);
        put("max_budget_sectors", self.b.budgets.max);
        put("queues_busy", self.b.fair.census.tot_busy().into());
    }
}

/// What differs in the parts shared with BFQ (11.2). Early BFQ overcharged async requests elevenfold in every
/// scenario; too much, since a group's bandwidth then depends on whether it reads or writes.
const RULES: Rules =
    Rules { level_weight: 1, async_factor: Some(11), keep_on_no_more: true, own_slot_limit: true };
/// No slot ends before its first completion.
const NEVER: Instant = Instant::from_nanos(u64::MAX - 1);
/// 24 MiB (11.5). By service, so the boost of whoever reads fast ends by itself; the 6 s stop processes that seek, and
/// 20 s of idleness tell a new start from a pause. Chosen by tuning; replaced in v2 by periods of time.
const BOOST_SECTORS: u32 = super::wf2q::BOOST_SECTORS;
const BOOST_TIME: Nanos = Nanos::secs(6);
const BOOST_PAUSE: Nanos = Nanos::secs(20);
/// While few samples are known a far request may be the rule (11.3).
const FEW: u32 = 60;
const FAR_AT_FIRST: u64 = 2 << 20;
const FAR: u64 = 2 << 16;
/// Mean distance above which a queue seeks, in sectors (11.2).
const SEEKY: u64 = 8192;
const SEEKY_IDLE: Nanos = Nanos::ms(2);
const QUEUEING: u32 = 4;
const QUEUEING_SAMPLES: u32 = 33;
/// As in `rate`: a slot below the first measures nothing, one above the second may move the peak rate (11.4).
const RATE_SHIFT: u32 = 16;
const SHORT_US: u64 = 100;
const LONG_US: u64 = 20_000;
const PEAK_SAMPLES: u32 = 32;

#[cfg(test)]
mod tests;
