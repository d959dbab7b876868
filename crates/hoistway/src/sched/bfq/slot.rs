//! Slots: what a request costs, when a slot ends and what the queue gets next time (specs/bfq.md section 3).
//!
//! Budgets are in sectors, not in time: a time slice gives a process on slow zones or at random offsets less data
//! for the same share, and with a queueing drive "time used by whom" cannot be measured at all. What that costs, a
//! seeky queue that could hold the disk for seconds per budget, the limit of a slot and the charge for time mend.

use super::Bfq;
use super::ids::{Id, QueueNo};
use super::queue::BfqQueue;
use super::queue::past::Past;
use super::queue::raise::{Isochrony, NOT_RAISED};
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

/// A queue's slots: budget, deadline, and how the last one ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct QueueSlot {
    /// Feedback budget, in sectors.
    pub max_budget: u64,
    /// End of the slot's time allowance; when idle: the instant at which it became empty with nothing in
    /// flight.
    pub deadline: Past,
    /// Sectors served since it became busy, and when that was.
    pub served: u64,
    pub busy_since: Instant,
    /// Its first request after that was served.
    pub first_io: Instant,
    /// Expired while empty; may recover its service hole.
    pub hole: bool,
    /// The idle timer is armed for it.
    pub waiting: bool,
    /// The fifo was examined in this slot.
    pub fifo_checked: bool,
}

impl QueueSlot {
    pub fn new(max_budget: u64, tn: Instant) -> QueueSlot {
        QueueSlot {
            max_budget,
            deadline: Past::LONG_AGO,
            served: 0,
            busy_since: tn,
            first_io: tn,
            hole: false,
            waiting: false,
            fifo_checked: false,
        }
    }

    /// The slot limit is over.
    #[inline]
    pub fn timed_out(&self, now: Instant) -> bool {
        self.deadline.reached(Nanos::ZERO, now)
    }

    /// `deadline + d` is past.
    #[inline]
    pub fn idle_for(&self, d: Nanos, tn: Instant) -> bool {
        self.deadline.over(d, tn)
    }

    /// Sectors of service.
    #[inline]
    fn serve(&mut self, n: u64, tn: Instant) {
        if self.served == 0 {
            self.first_io = tn;
        }
        self.served += n;
    }
}

/// The largest budget, and how far it is to be trusted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budgets {
    /// A 7/8 average of 256s: how many slots there have been, up to what the average remembers (3.1).
    pub assigned: u32,
    /// Sectors: from the peak rate, or as the user says.
    pub max: u64,
}

/// Rules of a scheduler that is built on these parts, where they differ from BFQ's.
#[derive(Clone, Copy, Debug)]
pub(super) struct EarlyRules {
    /// Weight of the lowest level.
    pub level_weight: u32,
    /// An async sector always costs this much, whatever the scenario.
    pub async_factor: Option<u64>,
    /// The budget stays when nothing is left to serve.
    pub keep_on_no_more: bool,
    /// It shortens the slot in service by itself when a limit changes.
    pub own_slot_limit: bool,
    /// Queues are merged when one in service has run empty, on any device and at any age (11.6); otherwise as
    /// requests come (7.3).
    pub merges_at_selection: bool,
    /// A raised queue is waited for so many times `slice_idle`; otherwise at least 20 ms (4.4).
    pub raised_waits: Option<u64>,
}

impl EarlyRules {
    /// Of BFQ itself.
    pub const BFQ: EarlyRules = EarlyRules {
        level_weight: 10,
        async_factor: None,
        keep_on_no_more: false,
        own_slot_limit: false,
        merges_at_selection: false,
        raised_waits: None,
    };
}

/// Evidence of a slot about the budget its queue needs (3.9).
#[derive(Clone, Copy, Debug)]
pub(super) struct Feedback {
    pub reason: Reason,
    pub sync: bool,
    pub raised: bool,
    /// Requests of the queue in the device.
    pub inflight: u32,
    /// Sectors received.
    pub service: u64,
    /// The budget stays when nothing is left to serve (`bfq-v1`).
    pub keep_on_no_more: bool,
}

impl Budgets {
    pub const NEW: Budgets = Budgets { assigned: 0, max: DEFAULT_MAX_BUDGET };

    /// `assigned` from which the estimate is trusted: eleven slots, when the average is three quarters converged.
    /// What the first slots of a device look like should not set everybody's budget (3.1).
    const TRUSTED: u32 = 194;

    /// The largest budget (3.1).
    #[inline]
    pub fn largest(&self) -> u64 {
        if self.trusted() { self.max } else { DEFAULT_MAX_BUDGET }
    }

    #[inline]
    pub fn least(&self) -> u64 {
        self.largest() / 32
    }

    #[inline]
    fn trusted(&self) -> bool {
        self.assigned >= Budgets::TRUSTED
    }

    /// A slot begins.
    #[inline]
    fn assign(&mut self) {
        self.assigned = (7 * self.assigned + 256) / 8;
    }

    /// The budget of a queue after a slot, from that before; `None`: as it is. `derived`: the largest budget
    /// follows the peak rate.
    ///
    /// A feedback loop that may choose freely, because the share of a queue does not depend on its budget: larger
    /// only buys throughput, smaller only latency.
    pub fn feedback(&self, b: u64, f: Feedback, derived: bool) -> Option<u64> {
        let least = self.least();
        let b = if !f.sync {
            // Nobody waits for one write; long sorted runs are cheap, and the charge factor limits them.
            self.max
        } else if f.raised {
            // A small budget is an early finish, so a quick turn; twice the least avoids needless expirations.
            2 * least
        } else {
            match f.reason {
                // With requests in the device the process has not had the chance to ask for more: perhaps good.
                Reason::TooIdle if f.inflight > 0 => (2 * b).min(self.max),
                // The batch was smaller than the budget. A small step: it bets on the same next time, with less
                // delay for it.
                Reason::TooIdle if b > 5 * least => b - 4 * least,
                Reason::TooIdle => least,
                // Slow, or interrupted by others: perhaps good.
                Reason::Timeout => (2 * b).min(self.max),
                // Backlog, no timeout, no idling: surely a good stream.
                Reason::Exhausted => (4 * b).min(self.max),
                Reason::NoMore if f.keep_on_no_more => b,
                // What it received is its exact need. A budget much larger than the use leaves a stale, early
                // finish, with which the queue would return again and again ahead of newcomers.
                Reason::NoMore => f.service.max(least),
                Reason::Preempted => return None,
            }
        };
        Some(if self.trusted() && derived { b.min(self.max) } else { b })
    }
}

impl Bfq {
    /// Cost of a request of `len` sectors to its queue (3.2).
    ///
    /// Async ones are overcharged: writes finish in the drive's cache, so they look cheap while the drive pays for
    /// them later, at the expense of reads. Not in asymmetric scenarios, nor raised queues: there idling enforces the
    /// shares, and overcharging would only skew them.
    #[inline(always)]
    pub(super) fn charge_len(&self, len: u64, q: QueueNo) -> u64 {
        self.charge_of(&self.queues[q], len, q)
    }

    /// The same of a queue that is at hand.
    #[inline(always)]
    pub(super) fn charge_of(&self, queue: &BfqQueue, len: u64, q: QueueNo) -> u64 {
        if queue.sync { len } else { self.charge_async(len, q) }
    }

    #[inline(never)]
    fn charge_async(&self, len: u64, q: QueueNo) -> u64 {
        if let Some(factor) = self.rules.async_factor {
            return len * factor;
        }
        let full = self.fair.ents[q].wr > NOT_RAISED || self.asymmetric(q);
        if full { len } else { len * self.conf.async_charge_factor }
    }

    /// Cost of the next request of `q`.
    #[inline(always)]
    pub(super) fn charge_next(&self, q: QueueNo) -> u64 {
        let queue = &self.queues[q];
        self.charge_of(queue, self.rqs[queue.rqs.next].len.into(), q)
    }

    /// Is there a request, and does it fit what is left of the budget?
    #[inline(always)]
    pub(super) fn fits(&self, q: QueueNo) -> bool {
        self.queues[q].rqs.next.is_some() && self.charge_next(q) <= self.fair.ents[q].left()
    }

    /// Accounts service to a queue and its groups (2.7).
    #[inline(always)]
    pub(super) fn serve(&mut self, q: QueueNo, n: u64) {
        let queue = &mut self.queues[q];
        queue.slot.serve(n, self.tn);
        if self.fair.serve(q, n) > NOT_RAISED {
            queue.raise.served += n;
        }
    }

    /// The limit of a slot. In ticks the built-in one is rounded down and a written one up (10.1).
    pub(super) fn slot_limit(&self) -> Nanos {
        let limit = self.conf.timeout;
        if self.conf.timeout_written { self.up(limit) } else { self.down(limit) }
    }

    /// A queue has been set in service (3.4).
    ///
    /// An interactive queue has as much longer as it weighs more: what loads an application seeks, and cut every
    /// 125 ms it would lose what raising gives. A soft real-time one is never greedy and needs no more.
    #[inline(always)]
    pub(super) fn start_slot(&mut self, now: Instant, q: QueueNo) {
        let (terms, tn) = (self.terms(), self.tn);
        let limit = self.slot_limit();
        let e = &self.fair.ents[q];
        let queue = &mut self.queues[q];
        let soft = queue.raise.soft(&terms);
        if soft && e.wr > NOT_RAISED {
            queue.raise.shift(queue.slot.deadline, tn);
        }
        let factor = if soft { 1 } else { u64::from(e.weight / e.orig_weight) };
        queue.slot.fifo_checked = false;
        queue.slot.deadline = Past::at(tn + limit * factor);
        let budget = e.budget;
        self.tally(q, |t| t.budgets += budget);
        self.budgets.assign();
        self.serving.since = now;
        self.serving.last_pos = 0;
    }

    /// The slot may end by its time limit (3.4): not while a queue that still has much of its budget is
    /// being waited for. To expire it would lose the alignment of its timestamps; only one that has wasted most of
    /// its budget is thrown out.
    #[inline]
    pub(super) fn may_time_out(&self, q: QueueNo) -> bool {
        let queue = &self.queues[q];
        queue.slot.timed_out(self.tn) && (!queue.slot.waiting || self.little_used(q))
    }

    /// At least a third of the budget is left.
    #[inline]
    fn little_used(&self, q: QueueNo) -> bool {
        let e = &self.fair.ents[q];
        e.left() >= e.budget / 3
    }

    /// Sets the budget of a queue that becomes busy; true: it wants to preempt, to recover its service
    /// hole (3.5).
    ///
    /// A hole is recovered only if both budget and timestamps are as if the queue had not left: hence what was left
    /// of the budget.
    pub(super) fn budget_on_activation(&mut self, q: QueueNo, now: Instant) -> bool {
        let left = self.fair.ents[q].left();
        let queue = &self.queues[q];
        let recovers = queue.slot.hole && queue.think.in_time(now, self.conf.slice_idle);
        self.fair.ents[q].service = 0;
        if recovers && left > 0 {
            self.fair.ents[q].budget = left.min(queue.slot.max_budget);
            return true;
        }
        self.fair.ents[q].budget = queue.slot.max_budget.max(self.charge_next(q));
        self.queues[q].slot.hole = false;
        false
    }

    /// `next` of a busy queue has changed (3.6). The budget of a slot never changes while it lasts.
    ///
    /// It holds the next request: else the queue would be selected, expire with nothing served, and pay a round for
    /// it.
    #[inline(always)]
    pub(super) fn update_budget(&mut self, q: QueueNo) {
        let queue = &self.queues[q];
        if queue.rqs.next.is_none() || self.serving.queue == q || !self.fair.ents[q].busy {
            return;
        }
        let b = queue.slot.max_budget.max(self.charge_next(q)).max(self.fair.ents[q].service);
        if b != self.fair.ents[q].budget {
            self.change_budget(q, b);
        }
    }

    #[inline(never)]
    fn change_budget(&mut self, q: QueueNo, b: u64) {
        self.fair.ents[q].budget = b;
        self.fair.activate_or_requeue(q, false, false, self.tn);
    }

    /// Was the slot slow, and how many milliseconds did it last (3.8 step 1)?
    ///
    /// Half of the largest budget: the inner tracks of a disk run at about half the rate of the outer ones, and the
    /// peak is an average, so a sequential reader there must not count as slow.
    fn slowness(&self, q: QueueNo, end: Instant) -> (bool, u64) {
        let queue = &self.queues[q];
        if !queue.sync {
            return (false, 0);
        }
        let us = end.since(self.serving.since).as_us();
        if us < NO_TIME_US {
            // Quirk Q5: the default idling times, whatever the tunables. They stand for what a seek costs
            // the device, so they are right also when idling is off.
            return (queue.seek.seeky(), if self.rotational { 8 } else { 2 });
        }
        let little = self.fair.ents[q].service < self.budgets.max / 2;
        (if us > SLOW_AFTER_US { little } else { queue.seek.seeky() }, us / 1000)
    }

    /// Ends the slot of the queue in service (3.8). `compensate`: the time spent idling is not its fault.
    ///
    /// A slow queue is charged what it *would* have received at peak speed: fairness in sectors with a queue at a
    /// hundredth of the peak rate would give it nearly all of the time. That makes a time-slice scheduler of WF2Q+
    /// for just these queues. With deep drive queues, though, length and cost of a slot are loosely related.
    pub(super) fn expire(
        &mut self,
        now: Instant,
        q: QueueNo,
        compensate: bool,
        reason: Reason,
        cx: &mut Cx<'_>,
    ) {
        debug_assert_eq!(self.serving.queue, q);
        let end = if compensate { self.serving.idle_since } else { now };
        let (slow, ms) = self.slowness(q, end);
        let by_time = slow || (reason == Reason::Timeout && self.little_used(q));
        if self.fair.ents[q].wr == NOT_RAISED && by_time {
            self.charge_time(q, ms);
        }
        self.note_end_of_slot(q);
        self.measure.reset();
        self.adapt(q, reason);
        self.log_expiry(q, reason, slow);
        self.tell_expiry(now, q, reason, cx);
        self.leave_service(now, q, reason);
        let e = &mut self.fair.ents[q];
        if !e.busy && !matches!(reason, Reason::Timeout | Reason::Exhausted) {
            // Service and budget stay: what is left is computed from both if it comes back in time.
            self.queues[q].slot.hole = true;
        } else {
            e.service = 0;
        }
        // Quirk Q28: of a queue that is freed here the reference asks no more, not even for its ancestors.
        if !(self.conf.base.as_recorded() && self.is_gone(q)) {
            self.fair.clear_ancestor_service(q);
        }
    }

    /// Nobody uses the queue, and nothing holds it.
    fn is_gone(&self, q: QueueNo) -> bool {
        let queue = &self.queues[q];
        queue.life.users == 0 && queue.rqs.allocated == 0 && !self.fair.ents[q].tracked
    }

    /// The queue pays for `ms` milliseconds at the peak rate, if that is more than its service.
    fn charge_time(&mut self, q: QueueNo, ms: u64) {
        // Quirk Q5: the default limit of 125 ms, whatever the tunable.
        let limit = if self.conf.charge_as_tuned { self.slot_limit() } else { self.down(SLOT) };
        let slot = limit.as_ms();
        let e = &mut self.fair.ents[q];
        let tot = e.service.max(self.budgets.max * ms.min(slot) / slot);
        e.budget = e.budget.max(tot);
        let extra = tot - e.service;
        self.stats.time_charges += 1;
        self.tally(q, |t| t.time_charged += extra);
        self.serve(q, extra);
    }

    fn log_expiry(&mut self, q: QueueNo, reason: Reason, slow: bool) {
        if let Some(log) = &mut self.expiries {
            let e = &self.fair.ents[q];
            log.push(Expiry {
                queue: q.0,
                reason,
                slow,
                service: e.service,
                max_budget: self.queues[q].slot.max_budget,
                start: e.start.0,
                finish: e.finish.0,
            });
        }
    }

    /// Counts and traces the end of a slot.
    #[inline(always)]
    pub(super) fn tell_expiry(
        &mut self,
        now: Instant,
        q: QueueNo,
        reason: Reason,
        cx: &mut Cx<'_>,
    ) {
        let service = self.fair.ents[q].service;
        let max_budget = self.queues[q].slot.max_budget;
        cx.trace.why(now, reason.why(), q.0, service as i64, max_budget as i64);
        let length = now.since(self.serving.since);
        self.tally(q, |t| {
            t.slots[reason as usize] += 1;
            t.in_service += length;
        });
    }

    /// Steps 3 and 4 of 3.8; and whether the queue is to be split.
    fn note_end_of_slot(&mut self, q: QueueNo) {
        let tn = self.tn;
        let queue = &mut self.queues[q];
        queue.note_split();
        if !self.conf.low_latency {
            return;
        }
        if self.fair.ents[q].wr == NOT_RAISED {
            queue.raise.start = tn;
        }
        if self.conf.wr_max_softrt_rate > 0 && queue.empty() {
            if queue.rqs.inflight == 0 {
                self.note_next_soft(q);
            } else {
                queue.raise.soft_pending = true;
            }
        }
    }

    /// The queue has nothing left: an arrival after that instant will be soft real-time (6.3).
    pub(super) fn note_next_soft(&mut self, q: QueueNo) {
        let queue = &self.queues[q];
        let (rate, tick) = (self.conf.wr_max_softrt_rate.max(1), self.tick);
        let (served, pause) = if self.conf.tick_rounding {
            let ticks = Nanos::secs(1).0 / tick.0 * queue.slot.served / rate;
            (Nanos(ticks * tick.0), Nanos(self.conf.slice_idle.0 / tick.0 * tick.0))
        } else {
            (Nanos(Nanos::secs(1).0 * queue.slot.served / rate), self.conf.slice_idle)
        };
        let due = queue.slot.busy_since + served;
        let next = queue.raise.next_soft(Isochrony { due, pause, tick }, self.tn);
        self.queues[q].raise.next_soft = next;
    }

    /// Steps 8 and 9 of 3.8: out of service, and idle or back on its tree.
    pub(super) fn leave_service(&mut self, now: Instant, q: QueueNo, reason: Reason) {
        let stays = reason == Reason::Preempted && self.guarantee_needs_idling(q);
        let queue = &mut self.queues[q];
        if queue.empty() && !stays {
            if queue.rqs.inflight == 0 {
                queue.slot.deadline = Past::at(self.tn);
            }
            self.no_longer_busy(q, true);
        } else {
            self.fair.activate_or_requeue(q, false, true, self.tn);
            self.index_update(q);
        }
        self.fair.clear_in_service(q);
        self.serving.queue = QueueNo::NONE;
        if core::mem::take(&mut self.queues[q].slot.waiting) {
            self.tally_idling(now, q);
        }
        self.serving.timer = None;
    }

    /// A user of the queue in service exits (3.8, exit and release): nothing is charged or learnt.
    pub(super) fn end_slot_at_exit(&mut self, now: Instant, q: QueueNo, cx: &mut Cx<'_>) {
        cx.trace.why(now, "expired: a process that uses it exits", q.0, 0, 0);
        let length = now.since(self.serving.since);
        self.tally(q, |t| t.in_service += length);
        self.queues[q].note_split();
        self.leave_service(now, q, Reason::Timeout);
        if self.conf.fix_exit_charge {
            // Quirk Q21: otherwise what the slot received is charged again at the end of the next one.
            self.fair.ents[q].service = 0;
            self.fair.clear_ancestor_service(q);
        }
        self.kick(cx);
    }

    /// Off the busy queues and into the idle set.
    #[inline(always)]
    pub(super) fn no_longer_busy(&mut self, q: QueueNo, expiring: bool) {
        self.fair.census.clear_busy(&mut self.fair.ents[q]);
        self.fair.deactivate(q.into(), true, expiring, self.tn);
        if self.queues[q].rqs.inflight == 0 {
            self.fair.uncount(q);
        }
    }

    /// The feedback of a slot on the next budget (3.9).
    #[inline(always)]
    pub(super) fn adapt(&mut self, q: QueueNo, reason: Reason) {
        let queue = &mut self.queues[q];
        let e = &self.fair.ents[q];
        let feedback = Feedback {
            reason,
            sync: queue.sync,
            raised: e.wr > NOT_RAISED,
            inflight: queue.rqs.inflight,
            service: e.service,
            keep_on_no_more: self.rules.keep_on_no_more,
        };
        let derived = self.conf.user_max_budget == 0;
        let Some(b) = self.budgets.feedback(queue.slot.max_budget, feedback, derived) else {
            return;
        };
        queue.slot.max_budget = b;
        if queue.rqs.next.is_some() {
            self.fair.ents[q].budget = b.max(self.charge_next(q));
        }
    }

    /// The peak rate has a new estimate.
    #[cold]
    pub(super) fn peak_rate_changed(&mut self) {
        self.recompute_wr_duration();
        if self.conf.user_max_budget == 0 {
            self.recompute_max_budget();
        }
    }

    /// The estimate moved, or `max_budget` or `timeout_sync` was written.
    pub(super) fn recompute_max_budget(&mut self) {
        self.budgets.max = match self.conf.user_max_budget {
            0 => self.rate.max_budget(self.slot_limit().as_ms()),
            user => user,
        };
    }

    /// A queue of another, higher class or larger weight than `s` (4.5 step 8).
    pub(super) fn outranks(&self, q: QueueNo, s: QueueNo) -> bool {
        let (a, b) = (&self.fair.ents[q], &self.fair.ents[s]);
        let rank = |e: &Entity| match (a.node == b.node, e.node) {
            (true, _) | (_, ROOT) => e.weight,
            (false, node) => self.fair.ents[self.fair.nodes[node].entity].weight,
        };
        a.class < b.class || rank(a) > rank(b)
    }
}

/// 8 MiB: the budget before anything is known of the device (3.1). In 125 ms it is 67 MB/s, the disks of 2008 to
/// 2010.
pub(super) const DEFAULT_MAX_BUDGET: u64 = 16_384;
/// A slot longer than this is judged by its service (3.8); shorter ones measure luck, not speed, so the history of
/// seeks decides.
const SLOW_AFTER_US: u64 = 20_000;
/// A slot shorter than this has no length worth dividing by.
const NO_TIME_US: u64 = 1_000;
/// Limit of a slot (3.4). Without it a random reader at 1 MB/s would hold a disk for 8 s to use up 8 MiB. Long enough
/// that one seek of 10 ms per slot costs less than a tenth, short enough that ten streams come round in about a
/// second.
pub(super) const SLOT: Nanos = Nanos::ms(125);

#[cfg(test)]
mod tests {
    use super::*;

    const F: Feedback = Feedback {
        reason: Reason::TooIdle,
        sync: true,
        raised: false,
        inflight: 0,
        service: 700,
        keep_on_no_more: false,
    };
    /// The least budget is 512.
    const B: Budgets = Budgets { assigned: 255, max: 16_384 };

    fn next(b: u64, f: Feedback) -> Option<u64> {
        B.feedback(b, f, true)
    }

    #[test]
    fn budgets_grow_by_what_is_known_and_shrink_by_four_least_ones() {
        let after = |reason| Feedback { reason, ..F };
        assert_eq!(next(2_000, after(Reason::Exhausted)), Some(8_000));
        assert_eq!(next(2_000, after(Reason::Timeout)), Some(4_000));
        assert_eq!(next(2_000, Feedback { inflight: 1, ..F }), Some(4_000));
        assert_eq!(next(2_561, F), Some(513));
        assert_eq!(next(2_560, F), Some(512), "five least ones: to the least");
        assert_eq!(next(2_000, after(Reason::NoMore)), Some(700));
        assert_eq!(next(2_000, after(Reason::Preempted)), None);
        assert_eq!(next(9_000, after(Reason::Exhausted)), Some(16_384), "the largest");
        assert_eq!(next(2_000, Feedback { service: 3, ..after(Reason::NoMore) }), Some(512));
        assert_eq!(
            next(2_000, Feedback { keep_on_no_more: true, ..after(Reason::NoMore) }),
            Some(2_000)
        );
    }

    #[test]
    fn async_queues_have_the_largest_and_raised_ones_twice_the_least() {
        let preempted = Feedback { reason: Reason::Preempted, ..F };
        assert_eq!(next(1, Feedback { sync: false, ..preempted }), Some(16_384));
        assert_eq!(next(9_000, Feedback { raised: true, ..preempted }), Some(1_024));
    }

    #[test]
    fn the_estimate_is_trusted_from_the_eleventh_slot_on() {
        let mut b = Budgets { max: 40_000, ..Budgets::NEW };
        for slot in 1..=11 {
            assert_eq!(b.largest(), DEFAULT_MAX_BUDGET, "{slot}");
            b.assign();
        }
        assert_eq!(b.largest(), 40_000);
        // From then on a budget above it is cut, unless the user has said how large it is.
        let cut = Feedback { reason: Reason::NoMore, service: 50_000, ..F };
        assert_eq!(b.feedback(1, cut, true), Some(40_000));
        assert_eq!(b.feedback(1, cut, false), Some(50_000));
        assert_eq!(Budgets { max: 40_000, ..Budgets::NEW }.feedback(1, cut, true), Some(50_000));
    }

    #[test]
    fn a_deadline_that_was_never_set_is_long_past() {
        let mut slot = QueueSlot::new(1, Instant::ZERO);
        let at = Instant::ZERO + Nanos::ms(5);
        assert!(slot.timed_out(Instant::ZERO) && slot.idle_for(Nanos::secs(100), Instant::ZERO));
        slot.deadline = Past::at(at);
        assert!(slot.timed_out(at) && !slot.idle_for(Nanos::ZERO, at));
        assert!(!slot.timed_out(Instant::ZERO));
        assert!(slot.idle_for(Nanos::ZERO, at + Nanos(1)));
    }
}
