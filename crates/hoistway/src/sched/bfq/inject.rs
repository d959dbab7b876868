//! Injection: requests of others fill the gaps in which the device waits for the queue in service; and
//! wakers: queues whose completions make another one go on (specs/bfq.md 4.7, 4.8).

use super::Bfq;
use super::ids::{Id, QueueNo, RqNo};
use super::tunables::Base;
use crate::env::Cx;
use crate::unit::{Instant, Nanos};

/// Measurement of the total service time of the queue in service (4.7.1).
#[derive(Clone, Copy, Debug)]
pub(super) struct Measure {
    /// Requests of others were dispatched in the gap.
    pub injected: bool,
    /// The next request dispatched from the queue in service is the one to be measured.
    pub wait_dispatch: bool,
    /// Slot of the request that is being measured, `NONE` if none.
    pub waited: RqNo,
    first: Instant,
}

impl Measure {
    pub fn new(now: Instant) -> Measure {
        Measure { injected: false, wait_dispatch: false, waited: RqNo::NONE, first: now }
    }

    /// A slot ended.
    pub fn reset(&mut self) {
        self.injected = false;
        self.wait_dispatch = false;
        self.waited = RqNo::NONE;
    }
}

impl Bfq {
    pub(super) fn reset_inject_limit(&mut self, q: QueueNo) {
        self.measure.waited = RqNo::NONE;
        let queue = &mut self.queues[q];
        queue.base_serv = Nanos::ZERO;
        queue.inject_limit = u32::from(!queue.short_tt);
        queue.inj_decr = Some(self.tn);
    }

    /// `inj_decr + d` is past or now.
    pub(super) fn inject_quiet_for(&self, q: QueueNo, d: Nanos) -> bool {
        self.queues[q].inj_decr.is_none_or(|at| at + self.up(d) <= self.tn)
    }

    /// A request arrives at a sync queue whose context has no other (4.7.1).
    pub(super) fn first_request(&mut self, now: Instant, q: QueueNo, cx: &mut Cx<'_>) {
        self.check_waker(now, q, cx);
        if self.inject_quiet_for(q, LIMIT_LIFE) {
            self.reset_inject_limit(q);
        }
        let known = self.queues[q].base_serv > Nanos::ZERO;
        if self.in_service == q
            && (self.inflight == 0 || (known && self.measure.injected))
            && self.inject_quiet_for(q, self.conf.inject_sample_pause)
        {
            self.measure.first = now;
            self.measure.wait_dispatch = true;
            if self.inflight == 0 || self.conf.inject_flag_kept {
                self.measure.injected = false;
            }
        }
    }

    /// The measured request is done (4.7.2).
    pub(super) fn update_inject_limit(&mut self, now: Instant) {
        let total = now.since(self.measure.first);
        let q = self.rqs[self.measure.waited].queue;
        let (injected, max, inflight) =
            (self.measure.injected, self.ncq.max_inflight, self.inflight);
        let (flag_kept, every_base) = (self.conf.inject_flag_kept, self.conf.inject_on_new_base);
        let bound = if self.conf.inject_up_to_twice { 2 * max } else { max + 1 };
        let queue = &mut self.queues[q];
        let old = queue.inject_limit;
        if queue.base_serv > Nanos::ZERO && (injected || flag_kept) {
            let threshold = Nanos(3 * queue.base_serv.0 / 2);
            if total >= threshold && old > 0 {
                queue.inject_limit -= 1;
                queue.inj_decr = Some(self.tn);
            } else if total < threshold && old < bound {
                queue.inject_limit += 1;
            }
        }
        if (queue.base_serv == Nanos::ZERO && inflight == 1) || total < queue.base_serv {
            if queue.base_serv == Nanos::ZERO {
                queue.inject_limit = old.max(1);
            } else if every_base {
                queue.inject_limit = queue.inject_limit.max(1);
            }
            queue.base_serv = total;
        } else if !injected && inflight == 1 {
            queue.base_serv = total;
        }
        self.measure.waited = RqNo::NONE;
        if !flag_kept {
            self.measure.injected = false;
        }
    }

    /// Is `p` busy with a request that fits what is left of its budget?
    fn injectable(&self, p: QueueNo) -> bool {
        p.is_some()
            && self.fair.ents[p].busy
            && self.queues[p].next.is_some()
            && self.charge_next(p) <= self.fair.ents[p].left()
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
        cx.trace.why(now, what, other.0, q.into(), self.inflight.into());
        Some(other)
    }

    /// That queue, and why it.
    fn injected(&mut self, now: Instant, q: QueueNo) -> Option<(QueueNo, &'static str)> {
        let queue = &self.queues[q];
        if queue.owner.is_some() {
            let owner = queue.owner;
            let other = self.pair(owner, queue.actuator).map_or(QueueNo::NONE, |pair| pair.other);
            if self.injectable(other) {
                let next = self.queues[other].next;
                if self.rqs[next].proc == owner {
                    self.stats.injected_async += 1;
                    return Some((other, "injected: async of the same process"));
                }
            }
        }
        if self.injectable(queue.waker) {
            self.stats.injected_waker += 1;
            return Some((queue.waker, "injected: it wakes the queue waited for"));
        }
        let woken = QueueNo(queue.woken.head());
        if self.injectable(woken) {
            self.stats.injected_woken += 1;
            return Some((woken, "injected: woken by the queue waited for"));
        }
        let raised = self.fair.ents[q].wr > 1;
        if !self.thr_idling(q) && (!raised || self.fair.census.wr_busy > 1 || !queue.short_tt) {
            let found = self.general_injection(now, q);
            if found.is_some() {
                self.measure.injected = true;
                self.stats.injected_general += 1;
            }
            return found.map(|other| (other, "injected: the device has room"));
        }
        None
    }

    fn general_injection(&self, now: Instant, q: QueueNo) -> Option<QueueNo> {
        let queue = &self.queues[q];
        let mut limit = queue.inject_limit;
        if limit == 0
            && self.conf.inject_after_long_idle
            && queue.base_serv == Nanos::ZERO
            && queue.waiting
            && now.since(self.last_idling_start) >= self.conf.slice_idle
        {
            limit = 1;
        }
        if self.inflight >= limit {
            return None;
        }
        let only_raised = self.fair.ents[q].wr > 1 && queue.short_tt;
        self.fair.active_queues().find(|&p| {
            let (other, e) = (&self.queues[p], &self.fair.ents[p]);
            if other.next.is_none() || (only_raised && e.wr == 1) || self.charge_next(p) > e.left()
            {
                return false;
            }
            let large = !self.rotational && self.rqs[other.next].len >= LARGE;
            match self.conf.base {
                Base::V53 | Base::V61 if large => self.inflight < limit.min(1),
                Base::V53 | Base::V61 => self.inflight < queue.inject_limit,
                Base::V62 | Base::Hoistway => !large || self.inflight == 0,
            }
        })
    }

    /// Does the queue that was served last wake this one (4.8)?
    fn check_waker(&mut self, now: Instant, q: QueueNo, cx: &mut Cx<'_>) {
        let last = self.last_completed_q;
        let queue = &mut self.queues[q];
        if last.is_none()
            || last == q
            || queue.short_tt
            || now.since(self.rate.last_completion) >= WAKE_GAP
        {
            return;
        }
        if last != queue.tent_waker || now > queue.waker_t0 + self.conf.slice_idle * WAKE_WINDOW {
            queue.tent_waker = last;
            queue.waker_hits = 1;
            queue.waker_t0 = now;
        } else {
            queue.waker_hits += 1;
        }
        if queue.waker_hits >= self.conf.waker_detections {
            queue.tent_waker = QueueNo::NONE;
            queue.waker_hits = 0;
            self.set_waker(q, last);
            self.stats.wakers += 1;
            cx.trace.why(now, "waker found", q.0, last.into(), 0);
        }
    }

    /// `q` is woken by `waker`, at the front of whose list it goes.
    pub(super) fn set_waker(&mut self, q: QueueNo, waker: QueueNo) {
        self.forget_waker(q);
        self.queues[q].waker = waker;
        self.queues[waker].woken.push_front(&mut self.woken_links, q.0);
    }

    pub(super) fn forget_waker(&mut self, q: QueueNo) {
        let waker = core::mem::replace(&mut self.queues[q].waker, QueueNo::NONE);
        if waker.is_some() {
            self.queues[waker].woken.remove(&mut self.woken_links, q.0);
        }
    }
}

/// A limit that was not lowered for this long is learnt anew (4.7.1).
const LIMIT_LIFE: Nanos = Nanos::ms(1000);
/// A request this large is injected only into an idle device, on flash (4.7.3), in sectors.
const LARGE: u32 = 64;
/// 4.8.
const WAKE_GAP: Nanos = Nanos::ms(4);
const WAKE_WINDOW: u64 = 128;
