//! Slices and dispatch: which queue is served, for how long, and whether a request of it goes to
//! the driver now (specs/cfq.md 7 and 8).

use super::group::TreeNo;
use super::ids::{CtxNo, QueueNo, RqNo};
use super::{BE, Cfq, IDLE, RT, Version, tick};
use crate::env::Cx;
use crate::request::ReqId;
use crate::rows::Id;
use crate::sched::Dispatch;
use crate::unit::Instant;
use alloc::vec::Vec;

/// Fate of the active queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TurnVerdict {
    /// It is served on.
    Keep,
    /// The device is kept idle, or waits for what is under way.
    Wait,
    /// Its slice ends; that queue is next, if any.
    Expire(QueueNo),
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
        if a.is_none() {
            return;
        }
        self.end_slice(now, a, timed_out);
        let slice = &self.queues[a].slice;
        cx.trace.why(now, why, a.0, slice.sent, slice.resid);
        self.stats.slices += 1;
        self.active = QueueNo::NONE;
        self.active_ctx = CtxNo::NONE;
    }

    /// 7.1 steps 1 to 5.
    fn end_slice(&mut self, now: Instant, q: QueueNo, timed_out: bool) {
        let t = tick(now);
        let early = self.early();
        let queue = &mut self.queues[q];
        if queue.slice.wait_request {
            self.timer = None;
        }
        if !early {
            queue.sharing.judge(queue.seek.seeky());
        }
        queue.slice.stop(t, timed_out);
        self.charge(t, q);
        if self.queues[q].turn.busy {
            if self.queues[q].empty() {
                self.stop_busy(q);
            } else {
                self.place(t, q, false);
                self.find_near_place(q);
            }
        }
    }

    /// 7.2.
    fn activate(&mut self, t: i64, q: QueueNo) {
        self.active = q;
        if q.is_some() {
            self.timer = None;
            self.queues[q].slice.choose(t);
        }
    }

    /// Slices and waits have other lengths now: what was given under the old ones is cut to them, and the order
    /// of the queues, which counts in slices, is made anew. Nothing is lengthened.
    ///
    /// Deviation: the kernel leaves what was given.
    pub(super) fn follow(&mut self, t: i64) {
        let wait = self.conf.slice_idle.max(self.conf.group_idle);
        self.timer = self.timer.map(|end| end.min(t + wait));

        self.workload.end = self.workload.end.min(t);
        self.groups.rows.iter_mut().for_each(|g| g.saved = None);
        for q in self.queues.ids() {
            if self.queues[q].live {
                let most = self.base(self.queues[q].sync, self.queues[q].level);
                self.queues[q].slice.cut(most);
            }
        }
        let in_turn = self.queues.live().filter(|(_, q)| q.turn.busy && q.class != IDLE);
        let mut busy: Vec<(i64, QueueNo)> = in_turn.map(|(no, q)| (q.turn.key, no)).collect();
        busy.sort_unstable();
        busy.into_iter().for_each(|(_, q)| self.place(t, q, false));
    }

    /// How long the slice is; moves the running average of the number of busy queues (7.3).
    ///
    /// Twenty queues of 100 ms each would come round in two seconds. With `low_latency` slices shrink to bring all
    /// round in 300 ms, though not below two waits, which keeps the speed of sequential readers (2.6.32, ML
    /// "cfq-iosched: adapt slice to number of processes doing I/O").
    pub(super) fn slice_length(&mut self, q: QueueNo) -> i64 {
        let queue = &self.queues[q];
        let s = self.base(queue.sync, queue.level);
        if !self.conf.low_latency || self.early() {
            return s;
        }
        let class = if queue.class == RT { RT } else { BE };
        let group = queue.turn.group;
        let expect = self.conf.slice[1] * self.groups.rows[group].average_busy(class);
        let most = self.groups.slice(group);
        if expect <= most {
            return s;
        }
        let low = s.min(2 * self.conf.slice_idle * s / self.conf.slice[1]);
        (s * most / expect).max(low)
    }

    /// 7.5: the queue to dispatch from, nobody for nothing now. Something is queued.
    fn select(&mut self, now: Instant, cx: &mut Cx<'_>) -> QueueNo {
        let (t, a) = (tick(now), self.active);
        let mut q = QueueNo::NONE;
        if a.is_some() {
            match self.judge(t, a) {
                TurnVerdict::Keep => return a,
                TurnVerdict::Wait => return QueueNo::NONE,
                TurnVerdict::GiveWay => {
                    self.expire(now, true, "expired: a real-time queue waits", cx)
                }
                TurnVerdict::Expire(c) => {
                    let used = self.queues[a].slice.used(t);
                    let why =
                        if used { "expired: slice used" } else { "expired: no more requests" };
                    self.jump(a, c);
                    self.expire(now, false, why, cx);
                    q = c;
                }
            }
        }
        if q.is_none() {
            q = self.choose_queue(t);
            if self.early() && q.is_some() {
                self.queues[q].sharing.coop = false;
            }
        }
        self.activate(t, q);
        q
    }

    fn judge(&self, t: i64, a: QueueNo) -> TurnVerdict {
        let (queue, slice) = (&self.queues[a], &self.queues[a].slice);
        if slice.wait_busy && !queue.empty() {
            return TurnVerdict::Expire(QueueNo::NONE);
        }
        let alone = || self.group_of(a).nr_q == 1;
        let group_waits = self.conf.group_idle > 0 && alone() && self.group_of(a).dispatched > 0;
        if slice.used(t) && !slice.must_dispatch {
            // Let the group get backlogged again before it loses its place.
            let hold = !self.early()
                && alone()
                && queue.empty()
                && queue.dispatched > 0
                && self.should_idle(a);
            let over = TurnVerdict::Expire(QueueNo::NONE);
            return if hold || group_waits { TurnVerdict::Wait } else { over };
        }
        if self.early() && queue.class != RT && self.real_time_waits() {
            return TurnVerdict::GiveWay;
        }
        if !queue.empty() {
            return TurnVerdict::Keep;
        }
        let c = self.cooperator(a);
        if c.is_some() {
            return TurnVerdict::Expire(c);
        }
        if self.timer.is_some() || (queue.dispatched > 0 && self.should_idle(a)) || group_waits {
            return TurnVerdict::Wait;
        }
        TurnVerdict::Expire(QueueNo::NONE)
    }

    /// 2.6.30: the first of all queues is a real-time one.
    fn real_time_waits(&self) -> bool {
        let first = self.groups.first_of(TreeNo::ONLY);
        first.is_some() && self.queues[first].class == RT
    }

    /// The neighbour goes next although it is not its turn; later kernels let both share a queue
    /// then.
    fn jump(&mut self, a: QueueNo, c: QueueNo) {
        if c.is_none() {
            return;
        }
        if self.early() {
            self.queues[c].sharing.coop = true;
        } else if self.queues[a].sharing.merge_into.is_none() {
            self.queues.plan_merge(a, c);
        }
    }

    /// 8 step 3: may a request of `q` go to the driver?
    ///
    /// Depth helps a device that sorts, but what is in the driver is beyond recall: near the end of a slice it would
    /// run in the successor's time, hence the half quantum until then. A write in the drive would move the head while
    /// the device is kept idle for a reader, so writes leave it first and none goes beside sync I/O.
    pub(super) fn may_dispatch(&self, t: i64, q: QueueNo) -> bool {
        let queue = &self.queues[q];
        let early = self.early();
        let [asyncs, syncs] = self.pool.in_flight;
        if !early && asyncs > 0 && self.should_idle(q) {
            return false; // Async requests first leave the device.
        }
        if !queue.sync && syncs > 0 {
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
            most = most.min(self.ramp.depth(t, self.conf.slice[1], dispatched));
        }
        dispatched < most
    }

    /// Requests in flight will take the rest of the slice.
    fn used_soon(&self, t: i64, q: QueueNo) -> bool {
        let queue = &self.queues[q];
        let needs = self.conf.slice_idle * i64::from(queue.dispatched);
        queue.slice.fresh || t + needs > queue.slice.end
    }

    /// Requests an async queue may dispatch in a slice.
    pub(super) fn max_async(&self, level: u8) -> i64 {
        2 * self.conf.slice_async_rq * (8 - i64::from(level))
    }

    /// 8.
    pub(super) fn dispatch_one(&mut self, now: Instant, cx: &mut Cx<'_>) -> Dispatch {
        if let Some(id) = self.pool.issue() {
            return Dispatch::Issue(id);
        }
        if self.pool.queued == 0 {
            return Dispatch::Empty;
        }
        let q = self.select(now, cx);
        let t = tick(now);
        if q.is_none() || !self.may_dispatch(t, q) {
            return Dispatch::Idle;
        }
        let slot = self.pick(t, q);
        let ctx = self.pool.rqs[slot].ctx;
        self.hand_over(slot);
        if self.active_ctx.is_none() {
            self.active_ctx = ctx;
        }
        let queue = &mut self.queues[q];
        queue.slice.sent += 1;
        queue.slice.must_dispatch = false;
        let (sync, class, level, sent) = (queue.sync, queue.class, queue.level, queue.slice.sent);
        let over = class == IDLE || (!sync && sent >= self.max_async(level));
        if self.busy_queues > 1 && over {
            self.queues[q].slice.close(t);
            self.expire(now, false, "expired: enough requests", cx);
        }
        Dispatch::Issue(self.pool.issue().expect("a request was just put on the list"))
    }

    /// 8 step 4: once per slice the oldest request is looked at. It stops a request at an unlucky sector from waiting
    /// for ever in its own queue, at one seek per slice.
    fn pick(&mut self, t: i64, q: QueueNo) -> RqNo {
        let queue = &mut self.queues[q];
        let first_look = queue.slice.first_look();
        let oldest = RqNo(queue.pending.fifo.head());
        if first_look && self.pool.rqs[oldest].fifo_deadline <= t {
            return oldest;
        }
        queue.pending.next
    }

    /// 8 step 1, forced: everything goes to the dispatch list, limits and idling ignored.
    pub(super) fn drain_one(&mut self, now: Instant, cx: &mut Cx<'_>) -> Option<ReqId> {
        if self.pool.queued > 0 {
            self.expire(now, false, "expired: drained", cx);
            for group in self.groups.rows.ids() {
                for number in 0..self.groups.rows[group].trees.len() as u8 {
                    self.drain_tree(now, TreeNo { group, number });
                }
            }
            debug_assert_eq!(self.pool.queued, 0);
        }
        self.pool.issue()
    }

    fn drain_tree(&mut self, now: Instant, tree: TreeNo) {
        while let Some(q) = self.groups.first_of(tree).some() {
            while let Some(next) = self.queues[q].pending.next.some() {
                self.hand_over(next);
            }
            // 2.6.30 took the empty queue off its tree.
            if self.version != Version::V30 {
                self.end_slice(now, q, false);
            }
        }
    }
}
