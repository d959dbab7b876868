//! From the queues to the device and back: dispatch, choice of the queue, completion
//! (specs/bfq.md 4.1, 4.2, 4.9).

use super::Bfq;
use super::budget::Reason;
use super::ids::{Id, QueueNo, RqNo};
use super::rate::Dispatched;
use super::requests::Place;
use super::wf2q::IDLE;
use crate::env::Cx;
use crate::request::ReqId;
use crate::sched::Dispatch;
use crate::unit::{Instant, QueueId};

impl Bfq {
    /// Which request goes to the device next (4.1)?
    pub(super) fn dispatch_one(&mut self, now: Instant, cx: &mut Cx<'_>) -> Dispatch {
        if let Some(slot) = self.dispatch_list.pop_front(&mut self.links) {
            return Dispatch::Issue(self.issue_listed(RqNo(slot), cx));
        }
        // Nothing else may be examined here: an empty queue in service keeps its slot.
        if self.queued == 0 {
            return Dispatch::Empty;
        }
        if self.conf.strict_guarantees && self.inflight > 0 {
            return Dispatch::Idle;
        }
        match self.select(now, cx) {
            Some(q) => Dispatch::Issue(self.issue_next(now, q, cx)),
            None => Dispatch::Idle,
        }
    }

    /// Any request, ignoring idling and the one-in-flight rule.
    pub(super) fn drain_one(&mut self, now: Instant, cx: &mut Cx<'_>) -> Option<ReqId> {
        if let Some(slot) = self.dispatch_list.pop_front(&mut self.links) {
            return Some(self.issue_listed(RqNo(slot), cx));
        }
        while self.queued > 0 {
            // Bounded: each turn without a request takes one empty queue off the busy ones.
            if let Some(q) = self.select(now, cx) {
                return Some(self.issue_next(now, q, cx));
            }
            self.expire(now, self.in_service, false, Reason::NoMore, cx);
        }
        None
    }

    pub(super) fn issue_listed(&mut self, slot: RqNo, cx: &Cx<'_>) -> ReqId {
        let rq = &mut self.rqs[slot];
        rq.place = Place::Issued;
        if rq.queue.is_some() {
            let queue = &mut self.queues[rq.queue];
            queue.inflight += 1;
            self.inflight_by[usize::from(queue.actuator)] += 1;
            self.inflight += 1;
        }
        cx.requests.at(slot.0).id
    }

    /// Hands over the next request of `q` (4.1 step 5).
    fn issue_next(&mut self, now: Instant, q: QueueNo, cx: &mut Cx<'_>) -> ReqId {
        let slot = self.queues[q].next;
        let cost = self.charge_next(q);
        self.serve(q, cost);
        if self.in_service == q && core::mem::take(&mut self.measure.wait_dispatch) {
            self.measure.waited = slot;
        }
        self.queues[q].inflight += 1;
        let rq = &self.rqs[slot];
        let seen = Dispatched {
            pos: rq.pos,
            len: rq.len.into(),
            inflight: self.inflight,
            rotational: self.rotational,
        };
        if self.rate.dispatched(now, seen) {
            self.peak_rate_changed();
        }
        if self.in_service == q {
            self.serv_last_pos = self.rate.last_pos;
        }
        self.tally(q, |t| {
            t.requests += 1;
            t.sectors += seen.len;
        });
        self.remove_request(now, slot);
        self.rqs[slot].place = Place::Issued;
        if self.in_service == q {
            self.update_raising(now, q, cx);
            if self.fair.class(q) == IDLE && self.fair.census.tot_busy() > 1 {
                self.expire(now, q, false, Reason::Exhausted, cx);
            }
        }
        self.inflight_by[usize::from(self.queues[q].actuator)] += 1;
        self.inflight += 1;
        cx.requests.at(slot.0).id
    }

    /// The queue to serve, `None` while an empty one is being waited for (4.2).
    fn select(&mut self, now: Instant, cx: &mut Cx<'_>) -> Option<QueueNo> {
        let mut q = self.in_service;
        let mut reason = Reason::Timeout;
        let mut keep = q.is_some() && (!self.may_time_out(q) || self.must_idle(q));
        // Bounded: each turn but the first ends the slot of a queue that was just set in service, and a
        // queue with a request that fits its budget ends the loop.
        loop {
            if keep {
                if let Some(other) = self.underused_actuator(q) {
                    return Some(other);
                }
                if self.queues[q].next.is_some() {
                    if self.charge_next(q) <= self.fair.ents[q].left() {
                        if self.queues[q].waiting {
                            self.stop_waiting(now, q);
                        }
                        return Some(q);
                    }
                    reason = Reason::Exhausted;
                } else if self.queues[q].waiting
                    || (self.queues[q].inflight > 0 && self.better_to_idle(q))
                {
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
            self.in_service = q;
            self.start_slot(now, q);
            cx.trace.why(now, "in service", q.0, self.fair.ents[q].budget as i64, 0);
            keep = true;
        }
    }

    /// The device has served a request, or gave it back (4.9).
    pub(super) fn completed(&mut self, now: Instant, slot: RqNo, cx: &mut Cx<'_>) {
        let rq = self.rqs[slot];
        assert_eq!(rq.place, Place::Issued, "only an issued request completes");
        if rq.queue.is_some() {
            if slot == self.measure.waited {
                self.update_inject_limit(now);
            }
            self.completed_in_queue(now, rq.queue, cx);
        }
        self.release(now, slot, cx);
    }

    fn completed_in_queue(&mut self, now: Instant, q: QueueNo, cx: &mut Cx<'_>) {
        self.detect_queueing();
        self.inflight -= 1;
        let queue = &mut self.queues[q];
        self.inflight_by[usize::from(queue.actuator)] -= 1;
        queue.inflight -= 1;
        let drained = queue.inflight == 0;
        if drained && !self.fair.ents[q].busy {
            queue.budget_deadline = Some(self.tn);
            self.fair.uncount(q);
        }
        self.queues[q].tt_last_end = now.as_nanos();
        if self.rate.completed(now) {
            self.peak_rate_changed();
        }
        let queue = &self.queues[q];
        self.last_completed_q = if queue.coop { QueueNo::NONE } else { q };
        if queue.softrt_pending
            && drained
            && queue.empty()
            && self.fair.ents[q].wr != self.conf.wr_coeff
        {
            let next = self.softrt_next(q);
            self.queues[q].srt_next = next;
        }
        if self.in_service == q {
            if self.must_idle(q) {
                if drained {
                    self.arm(now, q, cx);
                }
                return;
            }
            let empty = self.queues[q].empty();
            if self.may_time_out(q) {
                self.expire(now, q, false, Reason::Timeout, cx);
            } else if empty && (drained || !self.better_to_idle(q)) {
                self.expire(now, q, false, Reason::NoMore, cx);
            }
        }
        if self.inflight == 0 {
            self.kick(cx);
        }
    }

    /// Asks for dispatches soon, if there is something to dispatch (1.7).
    pub(super) fn kick(&self, cx: &mut Cx<'_>) {
        if self.queued > 0 || !self.dispatch_list.is_empty() {
            for queue in 0..cx.device.hw_queues {
                cx.run(QueueId(queue));
            }
        }
    }
}
