//! Weight raising: interactive and soft real-time queues get a multiple of their weight for a while
//! (specs/bfq.md 6.1 to 6.4).

use super::Bfq;
use super::ids::{Id, QueueNo};
use super::tunables::Base;
use super::wf2q::On;
use crate::env::Cx;
use crate::unit::{Instant, Nanos};

/// What is known of a queue at the moment it becomes busy, before anything changes (4.5 step 1).
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival {
    pub in_burst: bool,
    pub soft: bool,
    pub inter: bool,
    pub deserves: bool,
    /// Idle for at least 10 s.
    pub very_long_idle: bool,
}

impl Bfq {
    /// How long an interactive queue stays raised (6.1): longer on a slower device. It changes with the
    /// peak rate, the tunables and the device.
    pub(super) fn recompute_wr_duration(&mut self) {
        self.wr_duration = self.wr_duration_now();
    }

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

    /// Looks at a queue that is about to become busy with a request of `proc`.
    pub(super) fn arrival(&self, q: QueueNo, stably_merged: bool) -> Arrival {
        let (queue, e) = (&self.queues[q], &self.fair.ents[q]);
        let tn = self.tn;
        let idle = queue.inflight == 0;
        let since = |d: Nanos| queue.budget_deadline.is_none_or(|at| at + d < tn);
        let long_idle = idle && since(self.conf.wr_min_idle);
        let plain = !queue.in_large_burst && e.new_weight == DEFAULT_WEIGHT;
        let soft = self.conf.wr_max_softrt_rate > 0
            && plain
            && !queue.totally_seeky()
            && queue.srt_next < tn
            && idle;
        let inter = plain && long_idle;
        let single = queue.owner.is_some() || stably_merged;
        let deserves =
            self.conf.low_latency && (e.wr > 1 || (queue.sync && single && (inter || soft)));
        let very_long_idle = long_idle && since(self.up(VERY_LONG_IDLE));
        let in_burst = queue.in_large_burst;
        Arrival { in_burst, soft, inter, deserves, very_long_idle }
    }

    /// Starts, changes or ends raising of a queue that becomes busy (6.2).
    pub(super) fn raise_on_busy(&mut self, now: Instant, q: QueueNo, a: Arrival, cx: &mut Cx<'_>) {
        let (coeff, rt_coeff) = (self.conf.wr_coeff, self.conf.wr_coeff * SOFTRT_FACTOR);
        let (duration, rt, tn) = (self.wr_duration, self.conf.wr_rt_max_time, self.tn);
        let small = 2 * self.minb();
        let first = self.rqs[self.queues[q].next].len.into();
        let queue = &mut self.queues[q];
        let e = &mut self.fair.ents[q];
        let old = e.wr;
        if old == 1 && a.deserves {
            if a.inter {
                queue.svc_wr = 0;
                e.wr = coeff;
                queue.wr_limit = duration;
            } else {
                queue.wr_start_before_srt = None;
                e.wr = rt_coeff;
                queue.wr_limit = rt;
            }
            e.budget = e.budget.min(small);
            if self.conf.raised_budget_fits {
                // Quirk Q6: otherwise it may be less, and the first slot ends without any service.
                e.budget = e.budget.max(first);
            }
        } else if old > 1 {
            if a.inter {
                e.wr = coeff;
                queue.wr_limit = duration;
            } else if a.in_burst {
                e.wr = 1;
            } else if a.soft {
                if queue.wr_limit != rt {
                    queue.wr_start_before_srt = Some(queue.wr_start);
                    queue.wr_limit = rt;
                    e.wr = rt_coeff;
                }
                queue.wr_start = tn;
            }
        }
        if e.wr != old {
            e.prio_dirty = true;
            let (wr, limit) = (e.wr, queue.wr_limit);
            self.raised(now, q, wr, limit, cx);
        }
    }

    fn raised(&mut self, now: Instant, q: QueueNo, wr: u32, limit: Nanos, cx: &mut Cx<'_>) {
        let what = if wr == 1 {
            "raising ends: large burst"
        } else if limit == self.conf.wr_rt_max_time {
            self.tally(q, |t| t.raised_soft += 1);
            "raised: soft real-time"
        } else {
            self.tally(q, |t| t.raised_interactive += 1);
            "raised: interactive"
        };
        cx.trace.why(now, what, q.0, wr.into(), limit.0 as i64);
    }

    /// A busy async queue gets another request after a pause (6.2, last item).
    pub(super) fn raise_async(&mut self, now: Instant, q: QueueNo, cx: &mut Cx<'_>) {
        let queue = &mut self.queues[q];
        let paused = queue.wr_start + self.conf.wr_min_inter_arr_async < self.tn;
        if queue.sync || !self.conf.low_latency || self.fair.ents[q].wr > 1 || !paused {
            return;
        }
        let duration = self.wr_duration;
        let coeff = self.conf.wr_coeff;
        self.queues[q].wr_limit = duration;
        let e = &mut self.fair.ents[q];
        e.wr = coeff;
        e.prio_dirty = true;
        self.fair.census.wr_busy += 1;
        self.raised(now, q, coeff, duration, cx);
    }

    /// When an arrival would next be soft real-time (6.3).
    pub(super) fn softrt_next(&self, q: QueueNo) -> Instant {
        let queue = &self.queues[q];
        let (rate, t) = (self.conf.wr_max_softrt_rate.max(1), self.tick);
        let (served, pause) = if self.conf.tick_rounding {
            let ticks = Nanos::secs(1).0 / t.0 * queue.svc_backlog / rate;
            (Nanos(ticks * t.0), Nanos(self.conf.slice_idle.0 / t.0 * t.0))
        } else {
            (Nanos(Nanos::secs(1).0 * queue.svc_backlog / rate), self.conf.slice_idle)
        };
        queue.srt_next.max(queue.busy_since + served).max(self.tn + pause + t * 4)
    }

    /// A slot of a soft real-time queue begins: waiting for it does not use up the period (6.3).
    pub(super) fn shift_softrt_period(&mut self, q: QueueNo) {
        let (tn, rt) = (self.tn, self.conf.wr_rt_max_time);
        let queue = &mut self.queues[q];
        let (wr, deadline) = (self.fair.ents[q].wr, queue.budget_deadline);
        if wr > 1
            && queue.wr_limit == rt
            && queue.wr_start < tn
            && deadline.is_none_or(|at| at < tn)
        {
            match deadline {
                Some(at) if at > queue.wr_start => queue.wr_start += tn.since(at),
                _ => queue.wr_start = tn,
            }
        }
    }

    /// After a dispatch from the queue in service (6.4).
    pub(super) fn update_raising(&mut self, now: Instant, q: QueueNo, cx: &mut Cx<'_>) {
        if self.fair.ents[q].wr > 1 {
            let (duration, rt, tn) = (self.wr_duration, self.conf.wr_rt_max_time, self.tn);
            let queue = &mut self.queues[q];
            if queue.in_large_burst {
                self.end_raising(now, q, "raising ends: large burst", cx);
            } else if queue.wr_start + queue.wr_limit < tn {
                match queue.wr_start_before_srt {
                    Some(before) if queue.wr_limit == rt && before + duration >= tn => {
                        self.back_to_interactive(q);
                    }
                    _ => self.end_raising(now, q, "raising ends: time", cx),
                }
            }
            let queue = &self.queues[q];
            if self.fair.ents[q].wr > 1 && queue.wr_limit != rt && queue.svc_wr > WR_SERVICE {
                self.end_raising(now, q, "raising ends: service", cx);
            }
        }
        let e = &self.fair.ents[q];
        if (e.weight > e.orig_weight) != (e.wr > 1) {
            self.fair.apply(q.into(), false);
        }
    }

    /// A soft real-time period is over within an interactive one.
    pub(super) fn back_to_interactive(&mut self, q: QueueNo) {
        let duration = self.wr_duration;
        let queue = &mut self.queues[q];
        queue.wr_limit = duration;
        queue.wr_start = queue.wr_start_before_srt.expect("an interactive period was interrupted");
        let e = &mut self.fair.ents[q];
        e.wr = self.conf.wr_coeff;
        e.prio_dirty = true;
    }

    pub(super) fn end_raising(
        &mut self,
        now: Instant,
        q: QueueNo,
        why: &'static str,
        cx: &mut Cx<'_>,
    ) {
        let (rt, tn) = (self.conf.wr_rt_max_time, self.tn);
        let queue = &mut self.queues[q];
        let e = &mut self.fair.ents[q];
        if queue.wr_limit != rt {
            // A loading phase must not disqualify the player it started.
            queue.srt_next = tn;
        }
        self.fair.census.wr_busy -= u32::from(e.busy && e.wr > 1);
        self.stats.raising_ended += u64::from(e.wr > 1);
        e.wr = 1;
        e.prio_dirty = true;
        queue.wr_limit = Nanos::ZERO;
        queue.wr_start = tn;
        cx.trace.why(now, why, q.0, queue.svc_wr as i64, 0);
    }

    /// `low_latency` was turned off (9). The reference does so to every queue that stands on a tree or is
    /// async, raised or not; the queue in service and those that the fair queue has forgotten keep their
    /// raising until it ends by itself.
    pub(super) fn end_all_raising(&mut self, now: Instant, cx: &mut Cx<'_>) {
        let mended = self.conf.base == Base::Hoistway;
        for q in self.queues.ids() {
            let e = &self.fair.ents[q];
            let ends = match mended {
                true => e.wr > 1,
                false => !self.queues[q].sync || e.on != On::None,
            };
            if self.queues[q].live && ends {
                self.end_raising(now, q, "raising ends: low_latency is off", cx);
            }
        }
    }
}

/// Soft real-time against interactive coefficient (6.1).
const SOFTRT_FACTOR: u32 = 100;
/// Quirk Q11: only queues of this very weight are raised.
const DEFAULT_WEIGHT: u32 = 40;
/// Bounds of the interactive period (6.1).
const WR_MIN: Nanos = Nanos::secs(3);
const WR_MAX: Nanos = Nanos::secs(25);
/// Most sectors an interactive queue receives while raised (6.1), about 61 MB.
const WR_SERVICE: u64 = 120_000;
/// A queue idle for this long leaves its burst (4.5 step 3).
const VERY_LONG_IDLE: Nanos = Nanos::secs(10);
