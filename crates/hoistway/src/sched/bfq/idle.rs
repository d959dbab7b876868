//! Keeping the device idle for the queue in service: when it pays, for how long, and what fills the gap meanwhile
//! (specs/bfq.md 4.3, 4.4, 4.6, 4.7).
//!
//! Two reasons. A reader that computes for a millisecond between contiguous reads looks finished; to move the head
//! away then costs two seeks ("deceptive idleness"). And a synchronous queue with one request at a time is empty
//! after each of them: without idling, others get one request each per request of its own, whatever the weights.

use super::Bfq;
use super::ids::{Id, QueueNo};
use super::queue::BfqQueue;
use super::queue::inject::{LARGE, LIMIT_LIFE, LIMIT_REST};
use super::queue::raise::NOT_RAISED;
use super::queue::waker::{WAKE_GAP, WakerRules};
use super::slot::Reason;
use super::tunables::Base;
use super::wf2q::{Entity, IDLE};
use crate::env::Cx;
use crate::unit::{Instant, Nanos};

/// Does the device queue commands internally? Unknown counts as yes (quirk Q8), which errs toward not idling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HwTag {
    Unknown,
    No,
    Yes,
}

/// Detection of command queueing (4.6): by behaviour, not by what the device claims of itself.
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

    /// A completion, before it is counted: `inflight` requests in the device and `queued` pending. `starved`: the
    /// queue in service sends too little to show anything.
    #[inline]
    pub fn completion(&mut self, inflight: u32, queued: u32, starved: impl Fn() -> bool) {
        self.max_inflight = self.max_inflight.max(inflight);
        // A load that small proves nothing about the device.
        if self.tag == HwTag::Yes || inflight + queued <= QUEUEING_MIN || starved() {
            return;
        }
        self.samples += 1;
        if self.samples <= QUEUEING_SAMPLES {
            return;
        }
        self.tag = if self.max_inflight > QUEUEING_MIN { HwTag::Yes } else { HwTag::No };
        self.max_inflight = 0;
        self.samples = 0;
    }
}

impl Bfq {
    /// Serving everybody alike would not give the guarantees (4.3).
    ///
    /// When all queues weigh the same and send alike, the drive's own order is fair enough, and on flash idling only
    /// wastes it. The test has to be cheap, so it looks at weights, classes and groups alone. Equal weights prove
    /// nothing if one group has more members; a group that is empty but has requests in the device still competes
    /// there. 6.1 assumes the worst of any group, which is slow in containers; 6.2 counts those that compete.
    #[inline]
    pub(super) fn asymmetric(&self, q: QueueNo) -> bool {
        self.is_odd(&self.fair.ents[q])
    }

    #[inline(always)]
    fn is_odd(&self, e: &Entity) -> bool {
        let census = &self.fair.census;
        census.weights_differ(e)
            || census.classes_differ()
            || match self.conf.base.before_6_2() {
                true => census.groups_pending > 0,
                false => census.groups > 1,
            }
    }

    /// The device has no head to move, and queues commands: positions do not matter.
    #[inline]
    pub(super) fn nonrot_queueing(&self) -> bool {
        !self.rotational && self.ncq.tag != HwTag::No
    }

    /// Idling raises throughput and harms nobody (4.4).
    ///
    /// Not while somebody is raised: ordinary processes that are served less ask for less, so when a writer has
    /// filled the pool the raised one still finds a free tag.
    #[inline]
    pub(super) fn thr_idling(&self, q: QueueNo) -> bool {
        let queue = &self.queues[q];
        // Nobody is left to send what would be waited for.
        queue.life.users != 0 && self.pays_for(queue)
    }

    #[inline(always)]
    fn pays_for(&self, queue: &BfqQueue) -> bool {
        if self.fair.census.wr_busy != 0 {
            return false;
        }
        let queueing = self.ncq.tag != HwTag::No;
        let steady = || !queue.seek.seeky() && queue.intensity.bound && queue.think.short;
        (self.rotational && !queueing) || ((self.rotational || !queueing) && steady())
    }

    /// Idling preserves service guarantees (4.4).
    pub(super) fn guarantee_needs_idling(&self, q: QueueNo) -> bool {
        let queue = &self.queues[q];
        queue.life.users != 0 && self.owed_to(queue, &self.fair.ents[q])
    }

    #[inline(always)]
    fn owed_to(&self, queue: &BfqQueue, e: &Entity) -> bool {
        let census = &self.fair.census;
        let busy = census.tot_busy();
        (e.wr > NOT_RAISED
            && (i64::from(census.wr_busy) < i64::from(busy)
                || self.load.inflight >= queue.rqs.inflight + RAISED_INFLIGHT))
            // The only busy queue harms nobody by waiting; to let it go invites a lighter newcomer to fill the drive
            // before it comes back.
            || busy == 1
            || self.is_odd(e)
    }

    #[inline(never)]
    pub(super) fn better_to_idle(&self, q: QueueNo) -> bool {
        let (queue, e) = (&self.queues[q], &self.fair.ents[q]);
        if queue.life.users == 0 {
            return false;
        }
        if self.conf.strict_guarantees {
            return true;
        }
        if self.conf.slice_idle == Nanos::ZERO || !queue.sync || e.class == IDLE {
            return false;
        }
        self.owed_to(queue, e) || self.pays_for(queue)
    }

    #[inline]
    pub(super) fn must_idle(&self, q: QueueNo) -> bool {
        self.queues[q].empty() && self.better_to_idle(q)
    }

    /// Starts waiting for the next request of the queue in service (4.4).
    ///
    /// A seeky queue has no locality to win: just time enough for back-to-back seeks to claim their share. But when
    /// asymmetric the wait *is* the guarantee.
    pub(super) fn arm(&mut self, now: Instant, q: QueueNo, cx: &mut Cx<'_>) {
        let raised = self.fair.ents[q].wr > NOT_RAISED;
        let wait = if raised {
            self.raised_wait()
        } else if self.queues[q].seek.seeky() && !self.asymmetric(q) {
            self.conf.slice_idle.min(SEEKY_IDLE)
        } else {
            self.conf.slice_idle
        };
        self.wait_for(now, q, wait, cx);
    }

    /// How long a raised queue is waited for.
    pub(super) fn raised_wait(&self) -> Nanos {
        let idle = self.conf.slice_idle;
        match self.rules.raised_waits {
            Some(times) => idle * times,
            None => idle.max(RAISED_IDLE),
        }
    }

    /// Arms the idle timer.
    pub(super) fn wait_for(&mut self, now: Instant, q: QueueNo, wait: Nanos, cx: &mut Cx<'_>) {
        self.queues[q].slot.waiting = true;
        self.serving.idle_since = now;
        self.serving.timer = Some((now + wait, q));
        self.tally(q, |t| t.idle_armed += 1);
        cx.trace.why(now, "idles: waits for the next request", q.0, wait.0 as i64, 0);
    }

    /// The wait is over because a request came.
    pub(super) fn stop_waiting(&mut self, now: Instant, q: QueueNo) {
        self.queues[q].slot.waiting = false;
        self.serving.timer = None;
        let length = now.since(self.serving.idle_since);
        self.tally(q, |t| {
            t.idle_useful += 1;
            t.idled += length;
        });
    }

    /// The idle timer fired (4.4).
    pub(super) fn idle_over(&mut self, now: Instant, q: QueueNo, cx: &mut Cx<'_>) {
        if self.serving.queue == q {
            self.tally_idling(now, q);
            let queue = &mut self.queues[q];
            queue.slot.waiting = false;
            let reason = if queue.slot.timed_out(self.tn) {
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

    /// Detects command queueing, at a completion before the in-flight counts go down (4.6).
    #[inline]
    pub(super) fn detect_queueing(&mut self) {
        let (q, inflight) = (self.serving.queue, self.load.inflight);
        let queues = &self.queues;
        self.ncq.completion(inflight, self.load.queued, || {
            q.is_some()
                && queues[q].think.short
                && queues[q].rqs.inflight + queues[q].rqs.queued < QUEUEING_MIN
                && inflight < QUEUEING_MIN
        });
    }

    // Injection: 4.7 and 4.8.

    /// Nothing is known about injection into the gaps of the queue any more.
    pub(super) fn reset_inject_limit(&mut self, q: QueueNo) {
        self.measure.waited = Id::NONE;
        let queue = &mut self.queues[q];
        queue.inject.reset(self.tn, queue.think.short);
    }

    /// A request arrives at a sync queue whose context has no other (4.7.1).
    pub(super) fn first_request(&mut self, now: Instant, q: QueueNo, cx: &mut Cx<'_>) {
        self.check_waker(now, q, cx);
        let tn = self.tn;
        if self.queues[q].inject.quiet_for(self.up(LIMIT_LIFE), tn) {
            self.reset_inject_limit(q);
        }
        if self.serving.queue != q {
            return;
        }
        let inject = &self.queues[q].inject;
        let alone = self.load.inflight == 0;
        // Nothing in the device at its arrival: the base. Injected requests still there: the price.
        if (alone || (inject.base > Nanos::ZERO && self.measure.injected))
            && inject.quiet_for(self.up(self.conf.inject_sample_pause), tn)
        {
            self.measure.first = now;
            self.measure.wait_dispatch = true;
            if alone || self.conf.inject_flag_kept {
                self.measure.injected = false;
            }
        }
    }

    /// The think time of the issuer may have changed what may be injected (5.7).
    pub(super) fn think_time_changed(&mut self, q: QueueNo) {
        let queue = &self.queues[q];
        let unknown = queue.inject.base == Nanos::ZERO;
        if unknown && (!queue.think.short || queue.inject.quiet_for(self.up(LIMIT_REST), self.tn)) {
            self.reset_inject_limit(q);
        }
    }

    /// Is `p` busy with a request that fits what is left of its budget?
    fn injectable(&self, p: QueueNo) -> bool {
        p.is_some() && self.fair.ents[p].busy && self.fits(p)
    }

    /// The queue to serve while `q`, in service, is empty and waited for (4.7.3).
    pub(super) fn injection(
        &mut self,
        now: Instant,
        q: QueueNo,
        cx: &mut Cx<'_>,
    ) -> Option<QueueNo> {
        if !self.conf.injection {
            return None;
        }
        let (other, what) = self.injected(now, q)?;
        self.tally(other, |t| t.injected += 1);
        cx.trace.why(now, what, other.0, q.into(), self.load.inflight.into());
        Some(other)
    }

    /// That queue, and why it.
    fn injected(&mut self, now: Instant, q: QueueNo) -> Option<(QueueNo, &'static str)> {
        let queue = &self.queues[q];
        let owner = queue.life.owner;
        if owner.is_some() {
            // Harmless to the process that waits: the writes are its own.
            let pair = self.ctxs.pair(owner, queue.actuator);
            let other = pair.map_or(QueueNo::NONE, |pair| pair.other);
            if self.injectable(other) && self.rqs[self.queues[other].rqs.next].proc == owner {
                self.stats.injected_async += 1;
                return Some((other, "injected: async of the same process"));
            }
        }
        // Brings nearer what the owner waits for, so the limit does not apply; with it, one request per idle period
        // would trickle through.
        if self.injectable(queue.waker.queue) {
            self.stats.injected_waker += 1;
            return Some((queue.waker.queue, "injected: it wakes the queue waited for"));
        }
        // It lives on what the owner produces, so it runs dry by itself and cannot steal for long.
        let woken = QueueNo(queue.waker.woken.head());
        if self.injectable(woken) {
            self.stats.injected_woken += 1;
            return Some((woken, "injected: woken by the queue waited for"));
        }
        // Not into the short gaps of a raised queue, where latency is the whole point, unless others are raised too.
        let raised = self.fair.ents[q].wr > NOT_RAISED;
        let spare = !raised || self.fair.census.wr_busy > 1 || !queue.think.short;
        if self.thr_idling(q) || !spare {
            return None;
        }
        let other = self.general_injection(now, q)?;
        self.measure.injected = true;
        self.stats.injected_general += 1;
        Some((other, "injected: the device has room"))
    }

    /// Any queue, as far as the limit allows. A candidate is nearly always at the front of the list: budgets are
    /// made for the backlog, and queues that injection has emptied leave it.
    fn general_injection(&self, now: Instant, q: QueueNo) -> Option<QueueNo> {
        let queue = &self.queues[q];
        let mut limit = queue.inject.limit;
        // Quirk Q4: the reference takes the nanoseconds of slice_idle for ticks, so only a wait that lasts while 0 is
        // written is ever too long.
        let too_long = match self.conf.inject_after_long_idle {
            true => now.since(self.serving.idle_since) >= self.conf.slice_idle,
            false => self.conf.slice_idle == Nanos::ZERO,
        };
        let unknown = queue.inject.base == Nanos::ZERO;
        if limit == 0 && unknown && queue.slot.waiting && too_long {
            limit = 1;
        }
        let inflight = self.load.inflight;
        if inflight >= limit {
            return None;
        }
        let only_raised = self.fair.ents[q].wr > NOT_RAISED && queue.think.short;
        self.fair.active_queues().find(|&p| {
            if (only_raised && self.fair.ents[p].wr == NOT_RAISED) || !self.fits(p) {
                return false;
            }
            let large = !self.rotational && self.rqs[self.queues[p].rqs.next].len >= LARGE;
            match self.conf.base {
                // Quirk Q4: the raised limit is lost for a small request, and for every one looked at after it.
                Base::V53 | Base::V61 => {
                    limit = if large { limit.min(1) } else { queue.inject.limit };
                    inflight < limit
                }
                Base::V62 | Base::V612 | Base::V73 | Base::Hoistway => !large || inflight == 0,
            }
        })
    }

    /// Does the queue that was served last wake this one (4.8)? Only one with a long think time can be blocked, and
    /// not just busy.
    fn check_waker(&mut self, now: Instant, q: QueueNo, cx: &mut Cx<'_>) {
        let last = self.last_completed;
        if last.is_none()
            || last == q
            || self.queues[q].think.short
            || now.since(self.rate.last_completion) >= WAKE_GAP
        {
            return;
        }
        // Sixteen bits of the generation tell them apart well enough.
        let suspect = (last, self.queues[last].life.generation as u16);
        let queue = &mut self.queues[q];
        let rules = WakerRules {
            slice_idle: self.conf.slice_idle,
            needed: self.conf.waker_detections,
            by_place: self.conf.base != Base::Hoistway,
        };
        if queue.waker.follows(suspect, now, rules) {
            self.queues.set_waker(q, last);
            self.stats.wakers += 1;
            cx.trace.why(now, "waker found", q.0, last.into(), 0);
        }
    }
}

/// A raised queue is also waited for when others have this many requests in the device (4.4): a drive full of them
/// delays its next one, and to feed it more during the gap compounds that, the worse the faster and deeper it is.
const RAISED_INFLIGHT: u32 = 4;
/// Wait for a seeky queue (3.1).
const SEEKY_IDLE: Nanos = Nanos::ms(2);
/// Least wait for a raised queue (4.4). On a loaded machine a program that starts often takes longer than 8 ms to ask
/// again, and would lose its turn (since 5.2).
const RAISED_IDLE: Nanos = Nanos::ms(20);
/// More commands than this at a time are queueing, and less load than this shows nothing (4.6).
const QUEUEING_MIN: u32 = 3;
/// Completions that decide, less one.
const QUEUEING_SAMPLES: u32 = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_queues_if_it_had_four_at_a_time_in_33_samples() {
        for (most, tag) in [(3, HwTag::No), (4, HwTag::Yes)] {
            let mut ncq = Ncq::new();
            for sample in 1..=33 {
                assert_eq!(ncq.tag, HwTag::Unknown, "{sample}");
                ncq.completion(most, 1, || false);
            }
            assert_eq!((ncq.tag, ncq.samples), (tag, 0), "{most}");
        }
    }

    #[test]
    fn a_load_that_proves_nothing_is_not_a_sample() {
        let mut ncq = Ncq::new();
        ncq.completion(1, 2, || false);
        ncq.completion(2, 2, || true);
        assert_eq!((ncq.samples, ncq.max_inflight), (0, 2));
        ncq.completion(2, 2, || false);
        assert_eq!(ncq.samples, 1);
    }
}
