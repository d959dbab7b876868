//! From the queues to the device and back: dispatch, choice of the queue, completion
//! (specs/bfq.md 4.1, 4.2, 4.9).

use super::Bfq;
use super::ids::{Id, QueueNo, RqNo};
use super::pool::ACTUATORS;
use super::queue::BfqQueue;
use super::queue::inject::{InjectRules, Sample};
use super::queue::past::Past;
use super::queue::raise::NOT_RAISED;
use super::rate::Dispatched;
use super::requests::RqPlace;
use super::slot::Reason;
use super::wf2q::IDLE;
use crate::env::Cx;
use crate::request::ReqId;
use crate::sched::Dispatch;
use crate::unit::{Instant, QueueId};

/// The queue in service.
#[derive(Clone, Copy, Debug)]
pub(super) struct InService {
    /// `NONE` if there is none.
    pub queue: QueueNo,
    /// Its slot began.
    pub since: Instant,
    /// End of the last request dispatched from it, 0 at its start.
    pub last_pos: u64,
    /// The device began to be kept idle for it.
    pub idle_since: Instant,
    /// When the idle timer fires, and the queue it was armed for.
    pub timer: Option<(Instant, QueueNo)>,
}

impl InService {
    pub fn new() -> InService {
        let never = Instant::ZERO;
        InService {
            queue: QueueNo::NONE,
            since: never,
            last_pos: 0,
            idle_since: never,
            timer: None,
        }
    }
}

/// Requests in the queues and in the device.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    /// Pending in all queues.
    pub queued: u32,
    /// In the device.
    pub inflight: u32,
    pub by_actuator: [u32; ACTUATORS],
}

impl Load {
    pub const NONE: Load = Load { queued: 0, inflight: 0, by_actuator: [0; ACTUATORS] };

    /// A request of the queue goes to the device.
    #[inline]
    pub fn issued(&mut self, queue: &mut BfqQueue) {
        queue.rqs.inflight += 1;
        self.by_actuator[usize::from(queue.actuator)] += 1;
        self.inflight += 1;
    }

    /// And comes back.
    #[inline]
    pub fn completed(&mut self, queue: &mut BfqQueue) {
        queue.rqs.inflight -= 1;
        self.by_actuator[usize::from(queue.actuator)] -= 1;
        self.inflight -= 1;
    }
}

impl Bfq {
    /// Which request goes to the device next (4.1)?
    #[inline(always)]
    pub(super) fn dispatch_one(&mut self, now: Instant, cx: &mut Cx<'_>) -> Dispatch {
        if let Some(slot) = self.rqs.pop_listed() {
            return Dispatch::Issue(self.issue_listed(slot, cx));
        }
        // Nothing else may be examined here: an empty queue in service keeps its slot.
        if self.load.queued == 0 {
            return Dispatch::Empty;
        }
        // One command in flight is the only way to make a queueing drive obey; it costs most of a fast drive's
        // speed.
        if self.conf.strict_guarantees && self.load.inflight > 0 {
            return Dispatch::Idle;
        }
        match self.select(now, cx) {
            Some(q) => Dispatch::Issue(self.issue_next(now, q, cx)),
            None => Dispatch::Idle,
        }
    }

    /// Any request, ignoring idling and the one-in-flight rule.
    #[cold]
    pub(super) fn drain_one(&mut self, now: Instant, cx: &mut Cx<'_>) -> Option<ReqId> {
        if let Some(slot) = self.rqs.pop_listed() {
            return Some(self.issue_listed(slot, cx));
        }
        while self.load.queued > 0 {
            // Bounded: each turn without a request takes one empty queue off the busy ones.
            if let Some(q) = self.select(now, cx) {
                return Some(self.issue_next(now, q, cx));
            }
            self.expire(now, self.serving.queue, false, Reason::NoMore, cx);
        }
        None
    }

    pub(super) fn issue_listed(&mut self, slot: RqNo, cx: &Cx<'_>) -> ReqId {
        let rq = &mut self.rqs[slot];
        rq.place = RqPlace::Issued;
        if rq.queue.is_some() {
            self.load.issued(&mut self.queues[rq.queue]);
        }
        cx.requests.at(slot.0).id
    }

    /// Hands over the next request of `q` (4.1 step 5).
    #[inline(always)]
    fn issue_next(&mut self, now: Instant, q: QueueNo, cx: &mut Cx<'_>) -> ReqId {
        let serving = self.serving.queue == q;
        let queue = &self.queues[q];
        let slot = queue.rqs.next;
        let rq = &self.rqs[slot];
        let (pos, len, actuator) = (rq.pos, u64::from(rq.len), usize::from(queue.actuator));
        let cost = self.charge_of(queue, len, q);
        self.serve(q, cost);
        if serving && core::mem::take(&mut self.measure.wait_dispatch) {
            self.measure.waited = slot;
        }
        let (inflight, rotational) = (self.load.inflight, self.rotational);
        if self.rate.dispatched(now, Dispatched { pos, len, inflight, rotational }) {
            self.peak_rate_changed();
        }
        if serving {
            self.serving.last_pos = self.rate.last_pos;
        }
        self.tally(q, |t| {
            t.requests += 1;
            t.sectors += len;
        });
        // Before the request leaves its queue: what that does to a queue left empty depends on it.
        self.queues[q].rqs.inflight += 1;
        self.remove_from(now, slot, q);
        self.rqs[slot].place = RqPlace::Issued;
        if serving {
            self.update_raising(now, q, cx);
            // One request per chance: enough that an idle-class process which holds a lock goes on.
            if self.fair.class(q) == IDLE && self.fair.census.tot_busy() > 1 {
                self.expire(now, q, false, Reason::Exhausted, cx);
            }
        }
        self.load.by_actuator[actuator] += 1;
        self.load.inflight += 1;
        cx.requests.at(slot.0).id
    }

    /// The queue to serve, `None` while an empty one is being waited for (4.2).
    #[inline(always)]
    fn select(&mut self, now: Instant, cx: &mut Cx<'_>) -> Option<QueueNo> {
        let q = self.serving.queue;
        if q.is_some() && !self.may_time_out(q) && self.ctxs.actuators == 1 {
            let queue = &self.queues[q];
            if queue.rqs.next.is_some() && !queue.slot.waiting && self.fits(q) {
                return Some(q);
            }
        }
        self.select_anew(now, cx)
    }

    /// The same where the queue in service may have to wait or to go.
    #[inline(never)]
    fn select_anew(&mut self, now: Instant, cx: &mut Cx<'_>) -> Option<QueueNo> {
        let mut q = self.serving.queue;
        let mut reason = Reason::Timeout;
        let mut keep = q.is_some() && (!self.may_time_out(q) || self.must_idle(q));
        // Bounded: each turn but the first ends the slot of a queue that was just set in service, and a
        // queue with a request that fits its budget ends the loop.
        loop {
            if keep {
                if let Some(other) = self.underused_actuator(q) {
                    return Some(other);
                }
                let queue = &self.queues[q];
                let waiting = queue.slot.waiting;
                if queue.rqs.next.is_some() {
                    if self.fits(q) {
                        if waiting {
                            self.stop_waiting(now, q);
                        }
                        return Some(q);
                    }
                    reason = Reason::Exhausted;
                } else if waiting || (queue.rqs.inflight > 0 && self.better_to_idle(q)) {
                    return self.injection(now, q, cx);
                } else {
                    reason = Reason::NoMore;
                }
            }
            if q.is_some() {
                self.expire(now, q, false, reason, cx);
            }
            if self.fair.census.tot_busy() == 0 {
                return None;
            }
            q = self.fair.select(self.tn);
            self.serving.queue = q;
            self.start_slot(now, q);
            cx.trace.why(now, "in service", q.0, self.fair.ents[q].budget as i64, 0);
            keep = true;
        }
    }

    /// The device has served a request, or gave it back (4.9).
    #[inline]
    pub(super) fn completed(&mut self, now: Instant, slot: RqNo, cx: &mut Cx<'_>) {
        let rq = &self.rqs[slot];
        assert_eq!(rq.place, RqPlace::Issued, "only an issued request completes");
        let q = rq.queue;
        if q.is_some() {
            if slot == self.measure.waited {
                self.measured(now, q);
            }
            self.completed_in_queue(now, q, cx);
        }
        self.release(now, slot, cx);
    }

    /// The measured request of the queue is done (4.7.2).
    fn measured(&mut self, now: Instant, q: QueueNo) {
        let sample = Sample {
            total: now.since(self.measure.first),
            injected: self.measure.injected,
            inflight: self.load.inflight,
            max_inflight: self.ncq.max_inflight,
        };
        let rules = InjectRules {
            up_to_twice: self.conf.inject_up_to_twice,
            on_new_base: self.conf.inject_on_new_base,
            flag_kept: self.conf.inject_flag_kept,
        };
        self.queues[q].inject.learn(sample, rules, self.tn);
        self.measure.waited = RqNo::NONE;
        if !rules.flag_kept {
            self.measure.injected = false;
        }
    }

    fn completed_in_queue(&mut self, now: Instant, q: QueueNo, cx: &mut Cx<'_>) {
        self.detect_queueing();
        let queue = &mut self.queues[q];
        self.load.completed(queue);
        let drained = queue.rqs.inflight == 0;
        if drained && !self.fair.ents[q].busy {
            queue.slot.deadline = Past::at(self.tn);
            self.fair.uncount(q);
        }
        queue.think.last_end = now.as_nanos();
        // Shared queues complete so much that they would look like everybody's waker.
        self.last_completed = if queue.coop.shared { QueueNo::NONE } else { q };
        let (empty, soft_pending) = (queue.empty(), queue.raise.soft_pending);
        if self.rate.completed(now) {
            self.peak_rate_changed();
        }
        // Not within an interactive period: a loading phase says nothing about what is loaded.
        if soft_pending && drained && empty && self.fair.ents[q].wr != self.conf.wr_coeff {
            self.note_next_soft(q);
        }
        if self.serving.queue == q {
            if self.must_idle(q) {
                // While requests are in flight it is kept even past its limit: to expire it here would take away
                // the wait that begins when the last one completes.
                if drained {
                    self.arm(now, q, cx);
                }
                return;
            }
            if self.may_time_out(q) {
                self.expire(now, q, false, Reason::Timeout, cx);
            } else if empty && (drained || !self.better_to_idle(q)) {
                self.expire(now, q, false, Reason::NoMore, cx);
            }
        }
        if self.load.inflight == 0 {
            self.kick(cx);
        }
    }

    /// Asks for dispatches soon, if there is something to dispatch (1.7).
    pub(super) fn kick(&self, cx: &mut Cx<'_>) {
        if self.load.queued > 0 || self.rqs.any_listed() {
            for queue in 0..cx.device.hw_queues {
                cx.run(QueueId(queue));
            }
        }
    }

    /// After a dispatch from the queue in service (6.4).
    #[inline(always)]
    fn update_raising(&mut self, now: Instant, q: QueueNo, cx: &mut Cx<'_>) {
        if self.fair.ents[q].wr > NOT_RAISED && self.queues[q].raise.may_end(self.tn) {
            self.check_raising(now, q, cx);
        }
        // Even mid-slot. Ending: the whole slot is stamped with the low weight, so the queue leaves the device quickly
        // to those that are still raised.
        let e = &self.fair.ents[q];
        if (e.weight > e.orig_weight) != (e.wr > NOT_RAISED) {
            self.fair.apply(q.into(), false);
        }
    }
}
