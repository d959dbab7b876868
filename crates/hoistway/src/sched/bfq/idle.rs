//! When the device is kept idle for a queue, and what is known about its issuer: think time, I/O
//! intensity, symmetry, command queueing of the device (specs/bfq.md 4.3, 4.4, 4.6, 5.6 to 5.8).

use super::Bfq;
use super::budget::Reason;
use super::ids::{Id, QueueNo};
use super::requests::SPLIT_REST;
use super::wf2q::IDLE;
use crate::env::Cx;
use crate::group::ProcId;
use crate::unit::{Instant, Nanos};

/// Does the device queue commands internally? Unknown counts as yes (quirk Q8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HwTag {
    Unknown,
    No,
    Yes,
}

/// Detection of command queueing (4.6).
#[derive(Clone, Copy, Debug)]
pub(super) struct Ncq {
    pub tag: HwTag,
    pub max_inflight: u32,
    pub samples: u32,
}

impl Ncq {
    pub fn new() -> Ncq {
        Ncq { tag: HwTag::Unknown, max_inflight: 0, samples: 0 }
    }
}

impl Bfq {
    /// Serving everybody alike would not give the guarantees (4.3).
    pub(super) fn asymmetric(&self, q: QueueNo) -> bool {
        let census = &self.fair.census;
        census.weights_differ(&self.fair.ents[q])
            || census.classes_differ()
            || match self.conf.base.before_6_2() {
                true => census.groups_pending > 0,
                false => census.groups > 1,
            }
    }

    /// Idling raises throughput and harms nobody (4.4).
    pub(super) fn thr_idling(&self, q: QueueNo) -> bool {
        let queue = &self.queues[q];
        if queue.users == 0 || self.fair.census.wr_busy > 0 {
            return false;
        }
        let queueing = self.ncq.tag != HwTag::No;
        let steady = !queue.seeky() && queue.io_bound && queue.short_tt;
        (self.rotational && !queueing) || ((self.rotational || !queueing) && steady)
    }

    /// Idling preserves service guarantees (4.4).
    pub(super) fn guarantee_needs_idling(&self, q: QueueNo) -> bool {
        let queue = &self.queues[q];
        if queue.users == 0 {
            return false;
        }
        let census = &self.fair.census;
        let raised = self.fair.ents[q].wr > 1;
        (raised
            && (census.wr_busy < census.tot_busy()
                || self.inflight >= queue.inflight + RAISED_INFLIGHT))
            || census.tot_busy() == 1
            || self.asymmetric(q)
    }

    pub(super) fn better_to_idle(&self, q: QueueNo) -> bool {
        let queue = &self.queues[q];
        if queue.users == 0 {
            return false;
        }
        if self.conf.strict_guarantees {
            return true;
        }
        if self.conf.slice_idle == Nanos::ZERO || !queue.sync || self.fair.class(q) == IDLE {
            return false;
        }
        self.thr_idling(q) || self.guarantee_needs_idling(q)
    }

    pub(super) fn must_idle(&self, q: QueueNo) -> bool {
        self.queues[q].empty() && self.better_to_idle(q)
    }

    /// Starts waiting for the next request of the queue in service (4.4).
    pub(super) fn arm(&mut self, now: Instant, q: QueueNo, cx: &mut Cx<'_>) {
        let raised = self.fair.ents[q].wr > 1;
        let seeky = self.queues[q].seeky();
        let wait = if seeky && !raised && !self.asymmetric(q) {
            self.conf.slice_idle.min(SEEKY_IDLE)
        } else if raised {
            self.conf.slice_idle.max(RAISED_IDLE)
        } else {
            self.conf.slice_idle
        };
        self.wait_for(now, q, wait, cx);
    }

    /// Arms the idle timer.
    pub(super) fn wait_for(&mut self, now: Instant, q: QueueNo, wait: Nanos, cx: &mut Cx<'_>) {
        self.queues[q].waiting = true;
        self.last_idling_start = now;
        self.timer = Some((now + wait, q));
        self.tally(q, |t| t.idle_armed += 1);
        cx.trace.why(now, "idles: waits for the next request", q.0, wait.0 as i64, 0);
    }

    /// The wait is over because a request came.
    pub(super) fn stop_waiting(&mut self, now: Instant, q: QueueNo) {
        self.queues[q].waiting = false;
        self.timer = None;
        self.tally(q, |t| t.idle_useful += 1);
        self.tally_idling(now, q);
    }

    /// The idle timer fired (4.4).
    pub(super) fn idle_over(&mut self, now: Instant, q: QueueNo, cx: &mut Cx<'_>) {
        if self.in_service == q {
            self.tally_idling(now, q);
            let queue = &mut self.queues[q];
            queue.waiting = false;
            let reason = if queue.timed_out(self.tn) {
                Some(Reason::Timeout)
            } else {
                queue.empty().then_some(Reason::TooIdle)
            };
            match reason {
                Some(reason) => self.expire(now, q, true, reason, cx),
                None => self.tally(q, |t| t.idle_useful += 1),
            }
        }
        self.kick(cx);
    }

    /// Think time of the issuer, sampled when the queue has nothing left (5.6).
    pub(super) fn sample_think_time(&mut self, now: Instant, q: QueueNo) {
        let queue = &mut self.queues[q];
        if self.fair.ents[q].busy || queue.inflight > 0 {
            return;
        }
        // Quirk Q18: with `first_think = long` the end lies 1 ns after the creation, and the difference
        // wraps when no time has passed since.
        let gap = now.as_nanos().wrapping_sub(queue.tt_last_end);
        let x = gap.min(2 * self.conf.slice_idle.0);
        queue.tt_samples = (7 * queue.tt_samples + 256) / 8;
        queue.tt_total = (7 * queue.tt_total + 256 * x) / 8;
        queue.tt_mean = (queue.tt_total + 128) / u64::from(queue.tt_samples);
    }

    /// Does the issuer come back soon (5.7)?
    pub(super) fn update_short_tt(&mut self, q: QueueNo, proc: ProcId) {
        let queue = &mut self.queues[q];
        if !queue.sync || self.fair.ents[q].class == IDLE || self.conf.slice_idle == Nanos::ZERO {
            return;
        }
        if queue.split_time.is_some_and(|at| at + SPLIT_REST >= self.tn) {
            return;
        }
        let gone = self.ctxs[proc.index()].gone;
        let short = self.conf.slice_idle.0 / if self.conf.think_margin { 2 } else { 1 };
        let long = queue.tt_samples > VALID_SAMPLES && queue.tt_mean > short;
        let short = !gone && !long;
        let changed = short != queue.short_tt;
        queue.short_tt = short;
        if changed
            && queue.base_serv == Nanos::ZERO
            && (!short || self.inject_quiet_for(q, LIMIT_REST))
        {
            self.reset_inject_limit(q);
        }
    }

    /// Is the issuer nearly always waiting for I/O (5.8)?
    pub(super) fn update_io_intensity(&mut self, now: Instant, q: QueueNo) {
        let queue = &mut self.queues[q];
        let tot = now.since(queue.io_start);
        if queue.sorted.is_empty() && queue.inflight == 0 {
            // Wrapping: quirk Q18.
            let gap = now.as_nanos().wrapping_sub(queue.tt_last_end);
            queue.tot_idle = queue.tot_idle.wrapping_add(gap);
        }
        if queue.just_created || !self.conf.io_intensity {
            return;
        }
        queue.io_bound = queue.tot_idle.wrapping_mul(5) <= tot.0;
        if tot > INTENSITY_WINDOW {
            queue.io_start = Instant::from_nanos(now.as_nanos() - tot.0 / 2);
            queue.tot_idle /= 2;
        }
    }

    /// Detects command queueing, at a completion before the in-flight counts go down (4.6).
    pub(super) fn detect_queueing(&mut self) {
        let ncq = &mut self.ncq;
        ncq.max_inflight = ncq.max_inflight.max(self.inflight);
        if ncq.tag == HwTag::Yes || self.inflight + self.queued <= QUEUEING_MIN {
            return;
        }
        if self.in_service.is_some() {
            let queue = &self.queues[self.in_service];
            if queue.short_tt
                && queue.inflight + queue.queued < QUEUEING_MIN
                && self.inflight < QUEUEING_MIN
            {
                return;
            }
        }
        ncq.samples += 1;
        if ncq.samples <= QUEUEING_SAMPLES {
            return;
        }
        ncq.tag = if ncq.max_inflight > QUEUEING_MIN { HwTag::Yes } else { HwTag::No };
        ncq.max_inflight = 0;
        ncq.samples = 0;
    }
}

/// A raised queue is also waited for when others have this many requests in the device (4.4).
const RAISED_INFLIGHT: u32 = 4;
/// Wait for a seeky queue (3.1).
const SEEKY_IDLE: Nanos = Nanos::ms(2);
/// Least wait for a raised queue (4.4).
pub(super) const RAISED_IDLE: Nanos = Nanos::ms(20);
/// Think time is valid above this sum of sample weights: from the third sample (5.6).
const VALID_SAMPLES: u32 = 80;
/// 5.8.
const INTENSITY_WINDOW: Nanos = Nanos::ms(200);
/// 4.6: the threshold of three different tests.
const QUEUEING_MIN: u32 = 3;
const QUEUEING_SAMPLES: u32 = 32;
/// A change of think time resets an injection limit that was left alone for this long (5.7).
const LIMIT_REST: Nanos = Nanos::ms(100);
