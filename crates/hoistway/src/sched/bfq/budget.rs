//! Budgets: what a request costs, when a slot ends and what the queue gets next time
//! (specs/bfq.md section 3).

use super::Bfq;
use super::ids::{Id, QueueNo};
use super::wf2q::{Entity, ROOT};
use crate::env::Cx;
use crate::unit::{Instant, Nanos};

/// Why a slot ended (3.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The idle timer fired and nothing had come.
    TooIdle,
    /// The time limit of the slot.
    Timeout,
    /// The next request costs more than is left of the budget.
    Exhausted,
    /// The queue is empty, and waiting for it would not pay.
    NoMore,
    /// Another queue takes over, or its own moves to another group.
    Preempted,
}

/// A slot that ended, for comparison with recorded runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expiry {
    /// Number of the queue.
    pub queue: u32,
    /// Why it ended.
    pub reason: Reason,
    /// It was slow for its length (3.8 step 1).
    pub slow: bool,
    /// Sectors charged, time included.
    pub service: u64,
    /// The feedback budget from here on, in sectors.
    pub max_budget: u64,
    /// Virtual start before the queue was requeued or deactivated.
    pub start: u64,
    /// Virtual finish, likewise.
    pub finish: u64,
}

impl Reason {
    pub(super) const NAMES: [&str; 5] = [
        "slots_expired_too_idle",
        "slots_expired_timeout",
        "slots_expired_exhausted",
        "slots_expired_no_more_requests",
        "slots_expired_preempted",
    ];

    fn why(self) -> &'static str {
        match self {
            Reason::TooIdle => "expired: too idle",
            Reason::Timeout => "expired: budget timeout",
            Reason::Exhausted => "expired: budget exhausted",
            Reason::NoMore => "expired: no more requests",
            Reason::Preempted => "expired: preempted",
        }
    }
}

impl Bfq {
    /// The largest budget; the estimate is trusted after some slots (3.1).
    pub(super) fn maxb(&self) -> u64 {
        if self.budgets_assigned < TRUSTED { DEFAULT_MAX_BUDGET } else { self.max_budget }
    }

    pub(super) fn minb(&self) -> u64 {
        self.maxb() / 32
    }

    /// What a request of `len` sectors costs its queue (3.2).
    pub(super) fn charge_len(&self, len: u64, q: QueueNo) -> u64 {
        if self.conf.v1 {
            return if self.queues[q].sync { len } else { len * V1_ASYNC_FACTOR };
        }
        let full = self.queues[q].sync || self.fair.ents[q].wr > 1;
        if full || self.asymmetric(q) { len } else { len * self.conf.async_charge_factor }
    }

    /// What the next request of `q` costs.
    pub(super) fn charge_next(&self, q: QueueNo) -> u64 {
        let next = self.queues[q].next;
        self.charge_len(self.rqs[next].len.into(), q)
    }

    /// Accounts service to a queue and its groups (2.7).
    pub(super) fn serve(&mut self, q: QueueNo, n: u64) {
        let queue = &mut self.queues[q];
        if queue.svc_backlog == 0 {
            queue.first_io = self.tn;
        }
        if self.fair.ents[q].wr > 1 {
            queue.svc_wr += n;
        }
        queue.svc_backlog += n;
        self.fair.serve(q, n);
    }

    /// The limit of a slot. In ticks the built-in one is rounded down and a written one up (10.1).
    pub(super) fn slot_limit(&self) -> Nanos {
        let limit = self.conf.timeout;
        if self.conf.timeout_written { self.up(limit) } else { self.down(limit) }
    }

    /// A queue has been set in service (3.4).
    pub(super) fn start_slot(&mut self, now: Instant, q: QueueNo) {
        self.shift_softrt_period(q);
        let timeout = self.slot_limit();
        let e = &self.fair.ents[q];
        let queue = &mut self.queues[q];
        let soft = queue.wr_limit == self.conf.wr_rt_max_time;
        let factor = if soft { 1 } else { u64::from(e.weight / e.orig_weight) };
        queue.fifo_checked = false;
        queue.budget_deadline = Some(self.tn + timeout * factor);
        let budget = e.budget;
        self.tally(q, |t| t.budgets += budget);
        self.budgets_assigned = (7 * self.budgets_assigned + 256) / 8;
        self.last_budget_start = now;
        self.serv_last_pos = 0;
    }

    /// The slot may end by its time limit (3.4): not while a queue that still has much of its budget is
    /// being waited for.
    pub(super) fn may_time_out(&self, q: QueueNo) -> bool {
        let queue = &self.queues[q];
        let e = &self.fair.ents[q];
        queue.timed_out(self.tn) && (!queue.waiting || e.left() >= e.budget / 3)
    }

    /// The last request came soon enough after the last completion to belong to the same run (3.5).
    fn in_time(&self, q: QueueNo, now: Instant) -> bool {
        let end = Instant::from_nanos(self.queues[q].tt_last_end);
        now <= end + self.conf.slice_idle * 3
    }

    /// Sets the budget of a queue that becomes busy; true: it wants to preempt, to recover its service
    /// hole (3.5).
    pub(super) fn budget_on_activation(&mut self, q: QueueNo, now: Instant) -> bool {
        let recovers = self.queues[q].hole && self.in_time(q, now);
        let left = self.fair.ents[q].left();
        let cost = self.charge_next(q);
        let queue = &mut self.queues[q];
        let e = &mut self.fair.ents[q];
        e.service = 0;
        if recovers && left > 0 {
            e.budget = left.min(queue.max_budget);
            return true;
        }
        e.budget = queue.max_budget.max(cost);
        queue.hole = false;
        false
    }

    /// `next` of a busy queue has changed (3.6). The budget of a slot never changes while it lasts.
    pub(super) fn update_budget(&mut self, q: QueueNo) {
        let queue = &self.queues[q];
        if queue.next.is_none() || self.in_service == q || !self.fair.ents[q].busy {
            return;
        }
        let b = queue.max_budget.max(self.charge_next(q)).max(self.fair.ents[q].service);
        if b != self.fair.ents[q].budget {
            self.fair.ents[q].budget = b;
            self.fair.activate_or_requeue(q, false, false, self.tn);
        }
    }

    /// Was the slot slow, and how many milliseconds did it last (3.8 step 1)?
    fn slowness(&self, q: QueueNo, end: Instant) -> (bool, u64) {
        if !self.queues[q].sync {
            return (false, 0);
        }
        let us = end.since(self.last_budget_start).as_us();
        let seeky = self.queues[q].seeky();
        if us < 1000 {
            // Quirk Q5: the default idling times, whatever the tunables. They stand for what a seek costs
            // the device, so they are right also when idling is off.
            return (seeky, if self.rotational { 8 } else { 2 });
        }
        let little = self.fair.ents[q].service < self.max_budget / 2;
        (if us > SLOW_AFTER_US { little } else { seeky }, us / 1000)
    }

    /// Ends the slot of the queue in service (3.8). `compensate`: the time spent idling is not its fault.
    pub(super) fn expire(
        &mut self,
        now: Instant,
        q: QueueNo,
        compensate: bool,
        reason: Reason,
        cx: &mut Cx<'_>,
    ) {
        debug_assert_eq!(self.in_service, q);
        let end = if compensate { self.last_idling_start } else { now };
        let (slow, ms) = self.slowness(q, end);
        // Quirk Q5: the default limit of 125 ms, whatever the tunable.
        let limit = if self.conf.charge_as_tuned { self.slot_limit() } else { self.down(SLOT) };
        let slot = limit.as_ms();
        let e = &mut self.fair.ents[q];
        if e.wr == 1 && (slow || (reason == Reason::Timeout && e.left() >= e.budget / 3)) {
            let by_time = self.max_budget * ms.min(slot) / slot;
            let tot = by_time.max(e.service);
            e.budget = e.budget.max(tot);
            let extra = tot - e.service;
            self.stats.time_charges += 1;
            self.tally(q, |t| t.time_charged += extra);
            self.serve(q, extra);
        }
        if self.conf.low_latency {
            self.note_end_of_slot(q);
        }
        self.measure.reset();
        self.adapt(q, reason);
        let queue = &mut self.queues[q];
        if queue.coop && queue.seeky() {
            queue.split_me = true;
        }
        let e = &self.fair.ents[q];
        let service = e.service;
        if let Some(log) = &mut self.expiries {
            let max_budget = self.queues[q].max_budget;
            let (start, finish) = (e.start.0, e.finish.0);
            log.push(Expiry { queue: q.0, reason, slow, service, max_budget, start, finish });
        }
        self.tell_expiry(now, q, reason, cx);
        self.leave_service(now, q, reason);
        let e = &mut self.fair.ents[q];
        if !e.busy && !matches!(reason, Reason::Timeout | Reason::Exhausted) {
            self.queues[q].hole = true;
        } else {
            e.service = 0;
        }
        self.fair.clear_ancestor_service(q);
    }

    /// Counts and traces the end of a slot.
    pub(super) fn tell_expiry(
        &mut self,
        now: Instant,
        q: QueueNo,
        reason: Reason,
        cx: &mut Cx<'_>,
    ) {
        let service = self.fair.ents[q].service;
        let max_budget = self.queues[q].max_budget;
        cx.trace.why(now, reason.why(), q.0, service as i64, max_budget as i64);
        self.tally(q, |t| t.slots[reason as usize] += 1);
        self.tally_slot(now, q);
    }

    /// Steps 3 and 4 of 3.8.
    fn note_end_of_slot(&mut self, q: QueueNo) {
        if self.fair.ents[q].wr == 1 {
            self.queues[q].wr_start = self.tn;
        }
        let queue = &self.queues[q];
        if self.conf.wr_max_softrt_rate > 0 && queue.empty() {
            if queue.inflight == 0 {
                let next = self.softrt_next(q);
                self.queues[q].srt_next = next;
            } else {
                self.queues[q].softrt_pending = true;
            }
        }
    }

    /// Steps 8 and 9 of 3.8: out of service, and idle or back on its tree.
    pub(super) fn leave_service(&mut self, now: Instant, q: QueueNo, reason: Reason) {
        let stays = reason == Reason::Preempted && self.guarantee_needs_idling(q);
        let queue = &mut self.queues[q];
        if queue.empty() && !stays {
            if queue.inflight == 0 {
                queue.budget_deadline = Some(self.tn);
            }
            self.no_longer_busy(q, true);
        } else {
            self.fair.activate_or_requeue(q, false, true, self.tn);
            self.index_update(q);
        }
        self.fair.clear_in_service(q);
        self.in_service = QueueNo::NONE;
        if core::mem::take(&mut self.queues[q].waiting) {
            self.tally_idling(now, q);
        }
        self.timer = None;
    }

    /// A user of the queue in service exits (3.8, exit and release): nothing is charged or learnt.
    pub(super) fn end_slot_at_exit(&mut self, now: Instant, q: QueueNo, cx: &mut Cx<'_>) {
        cx.trace.why(now, "expired: a process that uses it exits", q.0, 0, 0);
        self.tally_slot(now, q);
        let queue = &mut self.queues[q];
        if queue.coop && queue.seeky() {
            queue.split_me = true;
        }
        self.leave_service(now, q, Reason::Timeout);
        if self.conf.fix_exit_charge {
            // Quirk Q21: otherwise what the slot received is charged again at the end of the next one.
            self.fair.ents[q].service = 0;
            self.fair.clear_ancestor_service(q);
        }
        self.kick(cx);
    }

    /// Off the busy queues and into the idle set.
    pub(super) fn no_longer_busy(&mut self, q: QueueNo, expiring: bool) {
        self.fair.census.clear_busy(&mut self.fair.ents[q]);
        self.fair.deactivate(q.into(), true, expiring, self.tn);
        if self.queues[q].inflight == 0 {
            self.fair.uncount(q);
        }
    }

    /// The feedback of a slot on the next budget (3.9).
    pub(super) fn adapt(&mut self, q: QueueNo, reason: Reason) {
        let minb = self.minb();
        let queue = &self.queues[q];
        let e = &self.fair.ents[q];
        let b = if e.wr == 1 { queue.max_budget } else { 2 * minb };
        let mut b = if !queue.sync {
            self.max_budget
        } else if e.wr > 1 {
            2 * minb
        } else {
            match reason {
                Reason::TooIdle if queue.inflight > 0 => (2 * b).min(self.max_budget),
                Reason::TooIdle if b > 5 * minb => b - 4 * minb,
                Reason::TooIdle => minb,
                Reason::Timeout => (2 * b).min(self.max_budget),
                Reason::Exhausted => (4 * b).min(self.max_budget),
                Reason::NoMore if self.conf.v1 => b,
                Reason::NoMore => e.service.max(minb),
                Reason::Preempted => return,
            }
        };
        if self.budgets_assigned >= TRUSTED && self.conf.user_max_budget == 0 {
            b = b.min(self.max_budget);
        }
        self.queues[q].max_budget = b;
        if self.queues[q].next.is_some() {
            self.fair.ents[q].budget = b.max(self.charge_next(q));
        }
    }

    /// The peak rate has a new estimate.
    pub(super) fn peak_rate_changed(&mut self) {
        self.recompute_wr_duration();
        if self.conf.user_max_budget == 0 {
            self.recompute_max_budget();
        }
    }

    /// The estimate moved, or `max_budget` or `timeout_sync` was written.
    pub(super) fn recompute_max_budget(&mut self) {
        self.max_budget = match self.conf.user_max_budget {
            0 => self.rate.max_budget(self.slot_limit().as_ms()),
            user => user,
        };
    }

    /// A queue of another, higher class or larger weight than `s` (4.5 step 8).
    pub(super) fn outranks(&self, q: QueueNo, s: QueueNo) -> bool {
        let (a, b) = (&self.fair.ents[q], &self.fair.ents[s]);
        let rank = |queue: QueueNo, e: &Entity| match (a.node == b.node, e.node) {
            (true, _) | (_, ROOT) => self.fair.ents[queue].weight,
            (false, node) => {
                let group = self.fair.nodes[node].entity;
                self.fair.ents[group].weight
            }
        };
        a.class < b.class || rank(q, a) > rank(s, b)
    }
}

/// An async sector of `bfq-v1` costs this much (11.2).
const V1_ASYNC_FACTOR: u64 = 11;
/// 3.1: a full budget before the estimate is trusted, in sectors.
pub(super) const DEFAULT_MAX_BUDGET: u64 = 16_384;
/// `budgets_assigned` from which the estimate is trusted: eleven slots (3.1).
const TRUSTED: u32 = 194;
/// A slot longer than this is judged by its service (3.8).
const SLOW_AFTER_US: u64 = 20_000;
/// Default slot limit in milliseconds (3.1).
const SLOT_MS: u64 = 125;
/// The same as a time.
pub(super) const SLOT: Nanos = Nanos::ms(SLOT_MS);
