//! Slices and dispatch: which queue is served, for how long, and whether a request of it goes to
//! the driver now (specs/cfq.md 7 and 8).

use super::queue::UNSET;
use super::{BE, Cfq, IDLE, RT, Version, tick};
use crate::env::Cx;
use crate::request::ReqId;
use crate::sched::Dispatch;
use crate::table::NIL;
use crate::unit::Instant;
use alloc::vec::Vec;

/// What becomes of the active queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// It is served on.
    Keep,
    /// The device is kept idle, or waits for what is under way.
    Wait,
    /// Its slice ends; that queue is next, if any.
    Expire(u32),
    /// 2.6.30: a real-time queue waits.
    GiveWay,
}

impl Cfq {
    /// 7.1: ends the slice of the active queue.
    pub(super) fn expire(
        &mut self,
        now: Instant,
        timed_out: bool,
        why: &'static str,
        cx: &mut Cx<'_>,
    ) {
        let a = self.active;
        if a == NIL {
            return;
        }
        self.end_slice(now, a, timed_out);
        let queue = self.q(a);
        cx.trace.why(now, why, a, queue.slice_dispatch, queue.slice_resid);
        self.slices += 1;
        self.active = NIL;
        self.active_ctx = NIL;
    }

    /// 7.1 steps 1 to 5.
    fn end_slice(&mut self, now: Instant, q: u32, timed_out: bool) {
        let t = tick(now);
        let early = self.early();
        if self.q(q).wait_request {
            self.timer = None;
        }
        let queue = self.q_mut(q);
        (queue.wait_request, queue.wait_busy) = (false, false);
        queue.split |= queue.coop && !early && queue.seeky();
        if timed_out && !queue.slice_new {
            queue.slice_resid = queue.slice_end - t;
        }
        self.charge(t, q);
        if self.q(q).on_rr {
            if self.q(q).empty() {
                self.stop_busy(q);
            } else {
                self.place(t, q, false);
                self.find_near_place(q);
            }
        }
    }

    /// 7.2.
    fn activate(&mut self, t: i64, q: u32) {
        self.active = q;
        if q == NIL {
            return;
        }
        self.timer = None;
        let queue = self.q_mut(q);
        queue.slice_start = UNSET;
        queue.slice_end = 0;
        queue.slice_len = 0;
        queue.slice_dispatch = 0;
        queue.dispatch_start = t;
        queue.wait_request = false;
        queue.must_dispatch = false;
        queue.must_alloc = false;
        queue.fifo_checked = false;
        queue.slice_new = true;
    }

    /// Slices and waits have other lengths now: what was given under the old ones is cut to them, and the order
    /// of the queues, which counts in slices, is made anew. Nothing is lengthened.
    ///
    /// Deviation: the kernel leaves what was given.
    pub(super) fn follow(&mut self, t: i64) {
        let wait = self.conf.slice_idle.max(self.conf.group_idle);
        self.timer = self.timer.map(|end| end.min(t + wait));

        self.wl_end = self.wl_end.min(t);
        self.groups.iter_mut().for_each(|g| g.saved = None);
        for q in 0..self.queues.len() as u32 {
            if !self.q(q).live {
                continue;
            }
            let most = self.base(self.q(q).sync, self.q(q).level);
            let queue = self.q_mut(q);
            queue.slice_resid = queue.slice_resid.min(most);
            if queue.slice_start != UNSET {
                queue.slice_len = queue.slice_len.min(most);
                queue.slice_end = queue.slice_end.min(queue.slice_start + most);
            }
        }
        let mut busy: Vec<(i64, u32)> = (0..self.queues.len() as u32)
            .filter(|&q| self.q(q).live && self.q(q).on_rr && self.q(q).class != IDLE)
            .map(|q| (self.q(q).key, q))
            .collect();
        busy.sort_unstable();
        busy.into_iter().for_each(|(_, q)| self.place(t, q, false));
    }

    /// 7.3: the slice proper begins with the first completion.
    pub(super) fn start_slice(&mut self, t: i64, q: u32) {
        let slice = self.slice_length(q);
        let queue = self.q_mut(q);
        queue.slice_start = t;
        queue.slice_len = slice;
        queue.slice_end = t + slice;
        queue.slice_new = false;
    }

    /// How long the slice is; moves the running average of the number of busy queues.
    pub(super) fn slice_length(&mut self, q: u32) -> i64 {
        let queue = self.q(q);
        let s = self.base(queue.sync, queue.level);
        if !self.conf.low_latency || self.early() {
            return s;
        }
        let class = if queue.class == RT { RT } else { BE };
        let group = queue.group;
        let g = &mut self.groups[group as usize];
        let busy = g.busy(class);
        let avg = &mut g.avg[usize::from(class)];
        *avg = (3 * busy.max(*avg) + busy.min(*avg) + 2) / 4;
        let expect = self.conf.slice[1] * *avg;
        let most = self.group_slice(group);
        if expect <= most {
            return s;
        }
        let low = s.min(2 * self.conf.slice_idle * s / self.conf.slice[1]);
        (s * most / expect).max(low)
    }

    /// 7.5: the queue to dispatch from, `NIL` for nothing now. Something is queued.
    fn select(&mut self, now: Instant, cx: &mut Cx<'_>) -> u32 {
        let (t, a) = (tick(now), self.active);
        let mut q = NIL;
        if a != NIL {
            match self.judge(t, a) {
                Verdict::Keep => return a,
                Verdict::Wait => return NIL,
                Verdict::GiveWay => self.expire(now, true, "expired: a real-time queue waits", cx),
                Verdict::Expire(c) => {
                    let used = self.q(a).slice_used(t);
                    let why =
                        if used { "expired: slice used" } else { "expired: no more requests" };
                    self.jump(a, c);
                    self.expire(now, false, why, cx);
                    q = c;
                }
            }
        }
        if q == NIL {
            q = self.choose_queue(t);
            if self.early() && q != NIL {
                self.q_mut(q).coop = false;
            }
        }
        self.activate(t, q);
        q
    }

    fn judge(&self, t: i64, a: u32) -> Verdict {
        let queue = self.q(a);
        if queue.wait_busy && !queue.empty() {
            return Verdict::Expire(NIL);
        }
        let group_waits =
            self.conf.group_idle > 0 && self.g(a).nr_q == 1 && self.g(a).dispatched > 0;
        if queue.slice_used(t) && !queue.must_dispatch {
            // Let the group get backlogged again before it loses its place.
            let alone = !self.early() && self.g(a).nr_q == 1;
            let hold = alone && queue.empty() && queue.dispatched > 0 && self.should_idle(a);
            return if hold || group_waits { Verdict::Wait } else { Verdict::Expire(NIL) };
        }
        if self.early() && queue.class != RT && self.real_time_waits() {
            return Verdict::GiveWay;
        }
        if !queue.empty() {
            return Verdict::Keep;
        }
        let c = self.cooperator(a);
        if c != NIL {
            return Verdict::Expire(c);
        }
        if self.timer.is_some() || (queue.dispatched > 0 && self.should_idle(a)) || group_waits {
            return Verdict::Wait;
        }
        Verdict::Expire(NIL)
    }

    /// 2.6.30: the first of all queues is a real-time one.
    fn real_time_waits(&self) -> bool {
        let first = self.groups[0].trees[0].first();
        first != NIL && self.q(first).class == RT
    }

    /// The neighbour goes next although it is not its turn; later kernels let both share a queue
    /// then.
    fn jump(&mut self, a: u32, c: u32) {
        if c == NIL {
            return;
        }
        if self.early() {
            self.q_mut(c).coop = true;
        } else if self.q(a).merge_into == NIL {
            self.plan_merge(a, c);
        }
    }

    /// 8 step 3: may a request of `q` go to the driver?
    pub(super) fn may_dispatch(&self, t: i64, q: u32) -> bool {
        let queue = self.q(q);
        let early = self.early();
        if !early && self.in_flight[0] > 0 && self.should_idle(q) {
            return false; // Async requests first leave the device.
        }
        if !queue.sync && self.in_flight[1] > 0 {
            return false;
        }
        let quantum = self.conf.quantum;
        let dispatched = i64::from(queue.dispatched);
        let mut most = match (queue.class, early) {
            (IDLE, _) => 1,
            (_, true) => quantum,
            (_, false) => (quantum / 2).max(1),
        };
        if dispatched >= most {
            if queue.class == IDLE {
                return false;
            }
            let others = self.busy_queues > 1;
            if others && (early || self.used_soon(t, q)) {
                return false;
            }
            most = match (early, others) {
                (true, _) => 4 * quantum,
                (false, true) => quantum,
                (false, false) => i64::MAX,
            };
        }
        if !queue.sync && self.conf.low_latency {
            let mut depth = (t - self.last_delayed_sync) / self.conf.slice[1];
            if depth == 0 && dispatched == 0 {
                depth = 1;
            }
            most = most.min(depth);
        }
        dispatched < most
    }

    /// What is in flight will take the rest of the slice.
    fn used_soon(&self, t: i64, q: u32) -> bool {
        let queue = self.q(q);
        queue.slice_new || t + self.conf.slice_idle * i64::from(queue.dispatched) > queue.slice_end
    }

    /// Requests an async queue may dispatch in a slice.
    pub(super) fn max_async(&self, level: u8) -> i64 {
        2 * self.conf.slice_async_rq * (8 - i64::from(level))
    }

    /// 8.
    pub(super) fn dispatch_one(&mut self, now: Instant, cx: &mut Cx<'_>) -> Dispatch {
        if let Some(id) = self.issue() {
            return Dispatch::Issue(id);
        }
        if self.queued_total == 0 {
            return Dispatch::Empty;
        }
        let q = self.select(now, cx);
        let t = tick(now);
        if q == NIL || !self.may_dispatch(t, q) {
            return Dispatch::Idle;
        }
        let slot = self.pick(t, q);
        let ctx = self.rqs[slot as usize].ctx;
        self.hand_over(slot);
        if self.active_ctx == NIL {
            self.active_ctx = ctx;
        }
        let queue = self.q_mut(q);
        queue.slice_dispatch += 1;
        queue.must_dispatch = false;
        let (sync, class, level, sent) =
            (queue.sync, queue.class, queue.level, queue.slice_dispatch);
        let over = class == IDLE || (!sync && sent >= self.max_async(level));
        if self.busy_queues > 1 && over {
            self.q_mut(q).slice_end = t + 1;
            self.expire(now, false, "expired: enough requests", cx);
        }
        Dispatch::Issue(self.issue().expect("a request was just put on the list"))
    }

    /// 8 step 4: once per slice the oldest request is looked at.
    fn pick(&mut self, t: i64, q: u32) -> u32 {
        let queue = &mut self.queues[q as usize];
        let first_look = !core::mem::replace(&mut queue.fifo_checked, true);
        let oldest = queue.fifo.head();
        if first_look && self.rqs[oldest as usize].fifo_deadline <= t {
            return oldest;
        }
        queue.next
    }

    /// 8 step 1, forced: everything goes to the dispatch list, limits and idling ignored.
    pub(super) fn drain_one(&mut self, now: Instant, cx: &mut Cx<'_>) -> Option<ReqId> {
        if self.queued_total > 0 {
            self.expire(now, false, "expired: drained", cx);
            for group in 0..self.groups.len() {
                for number in 0..self.groups[group].trees.len() {
                    self.drain_tree(now, group, number);
                }
            }
            debug_assert_eq!(self.queued_total, 0);
        }
        self.issue()
    }

    fn drain_tree(&mut self, now: Instant, group: usize, number: usize) {
        loop {
            let q = self.groups[group].trees[number].first();
            if q == NIL {
                return;
            }
            loop {
                let next = self.q(q).next;
                if next == NIL {
                    break;
                }
                self.hand_over(next);
            }
            // 2.6.30 took the empty queue off its tree.
            if self.version != Version::V30 {
                self.end_slice(now, q, false);
            }
        }
    }
}
