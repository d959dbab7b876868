//! Latency heuristics: which queues are raised, when, and for how long (specs/bfq.md 6.1 to 6.4). The periods
//! themselves are `queue/raise.rs`.

use super::Bfq;
use super::ids::{Id, QueueNo};
use super::queue::raise::{Arrival, NOT_RAISED, Terms, WR_SERVICE};
use super::tunables::Base;
use super::wf2q::On;
use crate::env::Cx;
use crate::unit::{Instant, Nanos};

impl Bfq {
    /// Terms of raising at present.
    #[inline]
    pub(super) fn terms(&self) -> Terms {
        Terms {
            coeff: self.conf.wr_coeff,
            interactive: self.wr_duration,
            soft: self.conf.wr_rt_max_time,
            by_length: self.conf.base != Base::Hoistway,
        }
    }

    /// How long an interactive queue stays raised (6.1): longer on a slower device. It changes with the
    /// peak rate, the tunables and the device.
    pub(super) fn recompute_wr_duration(&mut self) {
        self.wr_duration = self.wr_duration_now();
    }

    /// The time that the largest start-up measured takes on a device of this peak rate.
    fn wr_duration_now(&self) -> Nanos {
        let (fixed, t) = (self.conf.wr_max_time, self.tick);
        if fixed > Nanos::ZERO {
            return self.up(fixed);
        }
        let (rate, duration) = self.rate.reference();
        let raised = if self.conf.tick_rounding {
            Nanos(rate * duration.0.div_ceil(t.0) / self.rate.peak * t.0)
        } else {
            Nanos((u128::from(rate) * u128::from(duration.0) / u128::from(self.rate.peak)) as u64)
        };
        raised.clamp(self.up(WR_MIN), self.up(WR_MAX))
    }

    /// Looks at a queue that is about to become busy. Queues of merged contexts are not raised: interleaved I/O is
    /// batch work; but queues born together may be one application starting.
    #[inline]
    pub(super) fn arrival(&self, q: QueueNo, stably_merged: bool) -> Arrival {
        let (queue, e, tn) = (&self.queues[q], &self.fair.ents[q], self.tn);
        let idle = queue.rqs.inflight == 0;
        let long_idle = idle && queue.slot.idle_for(self.conf.wr_min_idle, tn);
        let in_burst = queue.raise.in_large_burst;
        let plain = !in_burst && e.new_weight == DEFAULT_WEIGHT;
        // Random synchronous I/O is slow enough to look isochronous by accident: not if it seeks totally.
        let soft = self.conf.wr_max_softrt_rate > 0
            && plain
            && !queue.seek.totally()
            && queue.raise.next_soft < tn
            && idle;
        let inter = plain && long_idle;
        let single = queue.life.owner.is_some() || stably_merged;
        let deserves = self.conf.low_latency
            && (e.wr > NOT_RAISED || (queue.sync && single && (inter || soft)));
        let very_long_idle = long_idle && queue.slot.idle_for(self.up(VERY_LONG_IDLE), tn);
        Arrival { in_burst, soft, inter, deserves, very_long_idle }
    }

    /// Starts, changes or ends raising of a queue that becomes busy (6.2).
    #[inline]
    pub(super) fn raise_on_busy(&mut self, now: Instant, q: QueueNo, a: Arrival, cx: &mut Cx<'_>) {
        let old = self.fair.ents[q].wr;
        if old == NOT_RAISED && !a.deserves {
            return;
        }
        let (terms, tn) = (self.terms(), self.tn);
        let wr = self.queues[q].raise.on_busy(old, a, &terms, tn);
        if old == NOT_RAISED {
            // An early finish: it is served soon, and its turn is short.
            let small = 2 * self.budgets.least();
            let first = self.rqs[self.queues[q].rqs.next].len.into();
            let e = &mut self.fair.ents[q];
            e.budget = e.budget.min(small);
            if self.conf.raised_budget_fits {
                // Quirk Q6: otherwise it may be less, and the first slot ends without any service.
                e.budget = e.budget.max(first);
            }
        }
        if wr != old {
            self.fair.ents[q].wr = wr;
            self.fair.ents[q].prio_dirty = true;
            self.tell_raised(now, q, wr, cx);
        }
    }

    pub(super) fn tell_raised(&mut self, now: Instant, q: QueueNo, wr: u32, cx: &mut Cx<'_>) {
        let period = &self.queues[q].raise;
        let limit = period.limit;
        let what = if wr == NOT_RAISED {
            "raising ends: large burst"
        } else if period.soft(&self.terms()) {
            self.tally(q, |t| t.raised_soft += 1);
            "raised: soft real-time"
        } else {
            self.tally(q, |t| t.raised_interactive += 1);
            "raised: interactive"
        };
        cx.trace.why(now, what, q.0, wr.into(), limit.0 as i64);
    }

    /// A busy async queue gets another request after a pause (6.2, last item). A shared queue never becomes busy as
    /// that of a process does; a gap is the only sign of a new burst, such as a file that is saved.
    #[inline]
    pub(super) fn raise_async(&mut self, now: Instant, q: QueueNo, cx: &mut Cx<'_>) {
        if !self.queues[q].sync {
            self.raise_after_pause(now, q, cx);
        }
    }

    #[inline(never)]
    fn raise_after_pause(&mut self, now: Instant, q: QueueNo, cx: &mut Cx<'_>) {
        let queue = &self.queues[q];
        let pause = self.conf.wr_min_inter_arr_async;
        let paused = queue.raise.start + pause < self.tn;
        let e = &mut self.fair.ents[q];
        if !self.conf.low_latency || e.wr > NOT_RAISED || !paused {
            return;
        }
        e.wr = self.conf.wr_coeff;
        e.prio_dirty = true;
        self.fair.census.wr_busy += 1;
        let (wr, terms) = (self.conf.wr_coeff, self.terms());
        self.queues[q].raise.interactive(&terms);
        self.tell_raised(now, q, wr, cx);
    }

    /// The queue in service is raised, has just been served, and its period may end (6.4).
    #[cold]
    pub(super) fn check_raising(&mut self, now: Instant, q: QueueNo, cx: &mut Cx<'_>) {
        let (terms, tn) = (self.terms(), self.tn);
        let raise = &self.queues[q].raise;
        if raise.in_large_burst {
            self.end_raising(now, q, "raising ends: large burst", cx);
        } else if raise.over(tn) {
            self.end_or_resume(now, q, "raising ends: time", cx);
        }
        let period = &self.queues[q].raise;
        if self.fair.ents[q].wr > NOT_RAISED && !period.soft(&terms) && period.served > WR_SERVICE {
            self.end_raising(now, q, "raising ends: service", cx);
        }
    }

    /// A raised queue all of whose last requests were far from each other is no player (6.3).
    #[cold]
    pub(super) fn totally_seeky(&mut self, now: Instant, q: QueueNo, cx: &mut Cx<'_>) {
        if self.queues[q].raise.soft(&self.terms()) {
            self.end_or_resume(now, q, "raising ends: seeky", cx);
        }
    }

    /// A period is over: a soft real-time one may have an interactive one to fall back to.
    fn end_or_resume(&mut self, now: Instant, q: QueueNo, why: &'static str, cx: &mut Cx<'_>) {
        let (terms, tn) = (self.terms(), self.tn);
        let period = &self.queues[q].raise;
        match period.unfinished(&terms, tn) {
            Some(start) if period.soft(&terms) => self.resume_interactive(q, start),
            _ => self.end_raising(now, q, why, cx),
        }
    }

    pub(super) fn resume_interactive(&mut self, q: QueueNo, start: Instant) {
        let terms = self.terms();
        self.queues[q].raise.resume_interactive(start, &terms);
        let e = &mut self.fair.ents[q];
        e.wr = terms.coeff;
        e.prio_dirty = true;
    }

    pub(super) fn end_raising(
        &mut self,
        now: Instant,
        q: QueueNo,
        why: &'static str,
        cx: &mut Cx<'_>,
    ) {
        let (terms, tn) = (self.terms(), self.tn);
        let raise = &mut self.queues[q].raise;
        raise.end(&terms, tn);
        let served = raise.served;
        let e = &mut self.fair.ents[q];
        let raised = e.wr > NOT_RAISED;
        self.fair.census.wr_busy -= i32::from(e.busy && raised);
        self.stats.raising_ended += u64::from(raised);
        e.wr = NOT_RAISED;
        e.prio_dirty = true;
        cx.trace.why(now, why, q.0, served as i64, 0);
    }

    /// `low_latency` was turned off (9). The reference does so to every queue that stands on a tree or is
    /// async, raised or not; the queue in service and those that the fair queue has forgotten keep their
    /// raising until it ends by itself. Whoever is busy is taken off the count of raised queues then, raised or not
    /// (the mended form ends only what is raised), an async queue on a tree twice: the count stays wrong, below 0 at times, which to most rules means
    /// that somebody is raised.
    pub(super) fn end_all_raising(&mut self, now: Instant, cx: &mut Cx<'_>) {
        let (mended, twice) = (self.conf.base == Base::Hoistway, self.conf.base.as_recorded());
        for q in self.queues.ids() {
            let (queue, e) = (&self.queues[q], &self.fair.ents[q]);
            // An async queue on a tree is met twice: there, and in the table of its group.
            let times = match mended {
                true => u32::from(e.wr > NOT_RAISED),
                false if twice => u32::from(!queue.sync) + u32::from(e.on != On::None),
                false => u32::from(!queue.sync || e.on != On::None),
            };
            if queue.live && times > 0 {
                let (busy, raised) = (e.busy, e.wr > NOT_RAISED);
                self.end_raising(now, q, "raising ends: low_latency is off", cx);
                let uncounted = if busy { times - u32::from(raised) } else { 0 };
                (0..uncounted).for_each(|_| self.fair.census.uncount_raised());
            }
        }
    }
}

/// Quirk Q11: only queues of this very weight are raised. Whoever has set a priority has said what is meant.
const DEFAULT_WEIGHT: u32 = 40;
/// Bounds of the interactive period (6.1). Below 3 s most start-ups are cut off; 25 s are enough for the worst that
/// was found (a player in a virtual machine on a slow disk, 23 s), and longer only feeds false positives.
const WR_MIN: Nanos = Nanos::secs(3);
const WR_MAX: Nanos = Nanos::secs(25);
/// A queue idle for this long leaves its burst (4.5 step 3): the burst's job is done.
const VERY_LONG_IDLE: Nanos = Nanos::secs(10);
