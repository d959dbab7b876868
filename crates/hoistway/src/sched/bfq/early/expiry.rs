//! The end of a slot: rate, slowness, full charges and budgets (specs/bfq.md 11.4).

use super::Early;
use crate::env::Cx;
use crate::sched::bfq::ids::{Id, QueueNo};
use crate::sched::bfq::slot::{DEFAULT_MAX_BUDGET, Reason};
use crate::unit::Instant;

impl Early {
    /// Was the slot slow? Moves the estimate of the peak rate.
    pub(super) fn slow(&mut self, q: QueueNo, end: Instant, reason: Reason) -> bool {
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
    pub(super) fn shorten_slot(&mut self) {
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

    pub(super) fn recompute_max_budget(&mut self) {
        self.b.budgets.max = match self.b.conf.user_max_budget {
            0 if self.peak_samples < PEAK_SAMPLES => DEFAULT_MAX_BUDGET,
            // At least one sector, or no request could ever be served.
            0 => ((self.peak * 1000 * self.b.conf.timeout.as_ms()) >> RATE_SHIFT).max(1),
            user => user,
        };
    }

    pub(super) fn expire(
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
        let (left, served) = (e.left(), e.service);
        if slow || (reason == Reason::Timeout && left >= e.budget / 3) {
            self.b.stats.time_charges += 1;
            self.b.tally(q, |t| t.time_charged += left);
            self.b.serve(q, left);
        }
        self.note_end_of_slot(now, q, served, reason);
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

/// As in `rate`: a slot below the first measures nothing, one above the second may move the peak rate (11.4).
pub(super) const RATE_SHIFT: u32 = 16;
const SHORT_US: u64 = 100;
const LONG_US: u64 = 20_000;
const PEAK_SAMPLES: u32 = 32;
