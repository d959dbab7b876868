//! Idling: what is known of a process's habits, whether the device can queue, when the device is
//! kept idle, and who may interrupt (specs/cfq.md 6, 6.1, 6.2, 9, 9.1, 10).

use super::group::{self, NOIDLE, SYNC};
use super::queue::NOWHERE;
use super::requests::{Place, Rq};
use super::{Cfq, IDLE, RT, Version, tick};
use crate::env::Cx;
use crate::table::NIL;
use crate::unit::Instant;

/// A request this far from where the head is (in sectors) is close.
const CLOSE: u64 = 8192;
/// A request farther from its predecessor than this (in sectors) is a seek.
const FAR: u64 = 800;
/// On non-rotational devices distance is nothing, but requests shorter than this (in sectors) are
/// small.
const SMALL: u32 = 64;
/// So many requests of one queue at a time make seeking cheap for a queueing device.
const DEEP: u32 = 4;
/// Requests in the driver that prove queueing, and samples before anything is believed.
const QUEUEING: u32 = 5;
const HW_SAMPLES: u32 = 50;
/// 2.6.30 idles no longer than this for a seeky process, in ticks.
const SEEKY_IDLE: i64 = 2;
/// 2.6.30: a distance counts at most 4 means and this many sectors: until there are enough samples,
/// and then.
const FIRST_DISTANCE: i64 = 2_097_152;
const LATER_DISTANCE: i64 = 131_072;
const FEW_SAMPLES: i64 = 60;

impl Cfq {
    pub(super) fn early(&self) -> bool {
        self.version == Version::V30
    }

    /// 6 steps 5 and 6: think time of the process, seek history of the queue.
    pub(super) fn sample(&mut self, t: i64, rq: &Rq) {
        let most = 2 * self.conf.slice_idle;
        let ctx = &mut self.ctxs[rq.ctx as usize];
        ctx.think.add((t - ctx.last_end).min(most));
        if self.version == Version::V30 {
            let distance = if ctx.last_pos == 0 { 0 } else { ctx.last_pos.abs_diff(rq.pos) as i64 };
            let more =
                if ctx.seek.samples <= FEW_SAMPLES { FIRST_DISTANCE } else { LATER_DISTANCE };
            ctx.seek.add(distance.min(4 * ctx.seek.mean + more));
            ctx.last_pos = rq.end();
        }
        let rotational = self.rotational;
        let queue = self.q_mut(rq.queue);
        let seeks = if rotational {
            queue.last_pos != 0 && queue.last_pos.abs_diff(rq.pos) > FAR
        } else {
            rq.len < SMALL
        };
        queue.seek_history = queue.seek_history << 1 | u32::from(seeks);
    }

    /// 2.6.30: requests of that process are far from each other.
    fn seeky_ctx(&self, ctx: u32) -> bool {
        self.ctxs[ctx as usize].seek.mean > CLOSE as i64
    }

    /// 6 step 7.
    pub(super) fn update_idle_window(&mut self, q: u32, ctx: u32, cx: &Cx<'_>) {
        let alive = self.alive(ctx, cx);
        let seeky_30 = self.hw_tag != 0 && self.seeky_ctx(ctx);
        let (early, slice_idle) = (self.early(), self.conf.slice_idle);
        let think = self.ctxs[ctx as usize].think;
        let next = self.q(q).next;
        // From release history: later kernels do not idle for a queue whose next request says not
        // to.
        let asks_not =
            self.version == Version::V38 && next != NIL && self.rqs[next as usize].noidle;
        let queue = self.q_mut(q);
        if !queue.sync || queue.class == IDLE {
            return;
        }
        if queue.queued >= DEEP {
            queue.deep = true;
        }
        let hopeless = if early { seeky_30 } else { !queue.deep && queue.seeky() };
        if !alive || slice_idle == 0 || hopeless || asks_not {
            queue.idle_window = false;
        } else if think.valid() {
            queue.idle_window = think.mean <= slice_idle;
        }
    }

    /// `should_idle(q)` (section 4); 2.6.30 knows the idle window only.
    pub(super) fn should_idle(&self, q: u32) -> bool {
        let queue = self.q(q);
        if self.early() {
            return queue.idle_window;
        }
        if queue.class == IDLE || (self.version == Version::V38 && self.conf.slice_idle == 0) {
            return false;
        }
        if queue.idle_window && (self.rotational || self.hw_tag == 0) {
            return true;
        }
        queue.sync && self.alone_in_tree(q)
    }

    fn alone_in_tree(&self, q: u32) -> bool {
        self.rr_nodes.linked(q) && self.tree_len(q) == 1
    }

    fn tree_len(&self, q: u32) -> u32 {
        let (group, number) = self.q(q).tree;
        self.groups[group as usize].trees[usize::from(number)].len()
    }

    /// `close(rq)`: near the end of the last request that went to the driver.
    pub(super) fn close(&self, pos: u64) -> bool {
        let mut most = CLOSE;
        if self.early()
            && self.active_ctx != NIL
            && let seek = self.ctxs[self.active_ctx as usize].seek
            && seek.valid()
        {
            most = seek.mean as u64;
        }
        pos.abs_diff(self.last_pos) <= most
    }

    /// 6.1: why a request of `n`, which is not being served, ends the slice of the queue that is.
    pub(super) fn preempts(&self, t: i64, n: u32, rq: &Rq) -> Option<&'static str> {
        if self.active == NIL {
            return None;
        }
        let (new, a) = (self.q(n), self.q(self.active));
        let used = a.slice_used(t).then_some("preempted: its slice is over");
        if self.early() && used.is_some() {
            return used;
        }
        if new.class == IDLE {
            return None;
        }
        if a.class == IDLE {
            return Some("preempted: it is of the idle class");
        }
        if !self.early() && a.class == RT && new.class != RT {
            return None;
        }
        if rq.sync && !a.sync {
            return Some("preempted: sync before async");
        }
        if !self.early() {
            if a.group != new.group {
                return None;
            }
            if used.is_some() {
                return used;
            }
            let pair =
                group::kind(new) == NOIDLE && self.rr_nodes.linked(n) && self.tree_len(n) == 2;
            if self.serving_type == NOIDLE && pair && a.empty() {
                return Some("preempted: no need to idle for one of two");
            }
        }
        if rq.meta && a.meta_pending == 0 {
            return Some("preempted: metadata");
        }
        if new.class == RT && a.class != RT {
            return Some("preempted: real-time");
        }
        let waits = self.active_ctx != NIL && a.wait_request;
        (waits && self.close(rq.pos)).then_some("preempted: a close request instead of idling")
    }

    /// 6.2.
    pub(super) fn preempt(&mut self, now: Instant, n: u32, why: &'static str, cx: &mut Cx<'_>) {
        let a = self.active;
        let (kind, group) = (group::kind(self.q(a)), self.q(a).group);
        self.expire(now, true, why, cx);
        if self.conf.preempt_switches_workload && kind != group::kind(self.q(n)) {
            self.groups[group as usize].saved = None;
        }
        self.preemptions += 1;
        self.place(tick(now), n, true);
        let new = self.q_mut(n);
        new.slice_end = 0;
        new.slice_new = true;
    }

    /// 9.
    pub(super) fn completed(&mut self, now: Instant, slot: u32, cx: &mut Cx<'_>) {
        let rq = self.rqs[slot as usize];
        assert_eq!(rq.place, Place::Issued, "only what was issued completes");
        let (t, q) = (tick(now), rq.queue);
        self.watch_queueing();
        self.in_driver -= 1;
        let queue = &mut self.queues[q as usize];
        queue.dispatched -= 1;
        self.in_flight[usize::from(queue.sync)] -= 1;
        self.groups[queue.group as usize].dispatched -= 1;
        if rq.sync {
            self.ctxs[rq.ctx as usize].last_end = t;
            if t >= rq.began + self.conf.fifo_expire[1] {
                self.last_delayed_sync = t;
            }
        }
        if self.active == q {
            self.completed_of_active(now, q, &rq, cx);
        }
        if self.in_driver == 0 && self.busy_queues > 0 {
            self.kick(cx);
        }
        self.release(now, slot, cx);
    }

    /// 9 step 3.
    fn completed_of_active(&mut self, now: Instant, q: u32, rq: &Rq, cx: &mut Cx<'_>) {
        let t = tick(now);
        if self.q(q).slice_new {
            self.start_slice(t, q);
        }
        if self.should_wait_busy(t, q) {
            let idle = match self.conf.slice_idle {
                0 => self.conf.group_idle,
                idle => idle,
            };
            let queue = self.q_mut(q);
            queue.slice_end = t + idle;
            queue.wait_busy = true;
        }
        if self.q(q).slice_used(t) || self.q(q).class == IDLE {
            self.expire(now, true, "expired: slice used", cx);
        } else if rq.sync && self.q(q).empty() && self.cooperator(q) == NIL {
            let wanted = match self.version {
                Version::V30 => !rq.noidle,
                Version::V34 => {
                    self.noidle_wants_idle |= !rq.noidle;
                    self.serving_type == SYNC || self.noidle_wants_idle || self.g(q).nr_q == 1
                }
                Version::V38 => true,
            };
            if wanted {
                self.arm(now, q, cx);
            }
        }
    }

    /// The only queue of its group gets time for its next request, so that the group keeps its
    /// place.
    fn should_wait_busy(&self, t: i64, q: u32) -> bool {
        if self.early() || self.g(q).nr_q != 1 {
            return false;
        }
        let left = self.q(q).slice_end - t;
        self.q(q).slice_used(t) || left == 1 || self.thinks_longer_than(left)
    }

    /// The process being served will not be back in that time, as far as is known.
    fn thinks_longer_than(&self, left: i64) -> bool {
        self.active_ctx != NIL && {
            let think = &self.ctxs[self.active_ctx as usize].think;
            think.valid() && left < think.mean
        }
    }

    /// 9 step 1: does the device take more than one request at a time?
    pub(super) fn watch_queueing(&mut self) {
        self.hw_depth = self.hw_depth.max(self.in_driver);
        let light = self.queued_total <= QUEUEING && self.in_driver <= QUEUEING;
        if light || (self.hw_tag == 1 && !self.early()) {
            return;
        }
        if !self.early() && self.active != NIL {
            // A queue that is idled for and issues little proves nothing.
            let a = self.q(self.active);
            let few = a.dispatched + a.queued < QUEUEING && self.in_driver < QUEUEING;
            if a.idle_window && few {
                return;
            }
        }
        if self.hw_samples < HW_SAMPLES {
            self.hw_samples += 1;
            return;
        }
        self.hw_tag = i8::from(self.hw_depth >= QUEUEING);
        if self.early() {
            self.hw_samples = 0;
            self.hw_depth = 0;
        }
    }

    /// 9.1: keeps the device idle for the next request of `q`, if that is worth while.
    fn arm(&mut self, now: Instant, q: u32, cx: &mut Cx<'_>) {
        if !self.rotational && self.hw_tag != 0 {
            return;
        }
        let mut time = self.conf.slice_idle;
        let worth = time > 0 && self.should_idle(q);
        let busy = if self.early() {
            if self.active_ctx != NIL {
                let seek = self.ctxs[self.active_ctx as usize].seek;
                if seek.valid() && seek.mean > CLOSE as i64 {
                    time = time.min(SEEKY_IDLE);
                }
            }
            self.in_driver > 0
        } else if worth {
            self.q(q).dispatched > 0
        } else {
            // 2.6.36: for the group's sake.
            if self.conf.group_idle == 0 || self.g(q).nr_q != 1 {
                return;
            }
            time = self.conf.group_idle;
            self.g(q).dispatched > 0
        };
        let t = tick(now);
        let back = self.active_ctx != NIL && self.alive(self.active_ctx, cx);
        let left = self.q(q).slice_end - t;
        if busy || time == 0 || (self.early() && !worth) || !back || self.thinks_longer_than(left) {
            return;
        }
        self.q_mut(q).wait_request = true;
        self.timer = Some(t + time);
        self.idle_armed += 1;
        cx.trace.why(now, "idle: armed", q, time, left);
    }

    /// 10: the wait was in vain, or nearly.
    pub(super) fn idle_over(&mut self, now: Instant, cx: &mut Cx<'_>) {
        self.timer = None;
        let (a, t) = (self.active, tick(now));
        if a != NIL {
            let queue = self.q(a);
            let used = queue.slice_used(t);
            if queue.must_dispatch {
                // A small request came meanwhile.
            } else if used {
                self.expire(now, false, "expired: slice used while idle", cx);
            } else if self.busy_queues == 0 {
                return;
            } else if queue.empty() {
                self.q_mut(a).deep = false;
                self.expire(now, false, "expired: idled in vain", cx);
            }
        }
        self.kick(cx);
    }

    /// Runs the queue, if there may be something to hand over.
    pub(super) fn kick(&mut self, cx: &mut Cx<'_>) {
        if self.busy_queues > 0 {
            cx.run(crate::unit::QueueId(0));
        }
    }

    /// 7.6: a queue whose next request is near where the active one left the head.
    pub(super) fn cooperator(&self, a: u32) -> u32 {
        let queue = self.q(a);
        let seeky = match self.version {
            Version::V30 => self.active_ctx != NIL && self.seeky_ctx(self.active_ctx),
            _ => queue.seeky(),
        };
        if queue.class == IDLE || !queue.sync || seeky || (!self.early() && self.g(a).nr_q == 1) {
            return NIL;
        }
        debug_assert_eq!(queue.near, NOWHERE, "an empty queue is near nothing");
        let tree = &self.near[usize::from(queue.level)];
        let start = |q: u32| self.rqs[self.q(q).next as usize].pos;
        let above = tree.lower_bound(&self.near_nodes, self.last_pos);
        let c = if above != NIL && self.close(start(above)) {
            above
        } else {
            let below = if above == NIL {
                tree.last(&self.near_nodes)
            } else {
                self.near_nodes.prev(above)
            };
            if below == NIL || !self.close(start(below)) {
                return NIL;
            }
            below
        };
        let other = self.q(c);
        let fits = other.sync && (other.class == RT) == (queue.class == RT);
        let right = match self.version {
            // It was jumped to before.
            Version::V30 => !other.coop,
            _ => other.group == queue.group && !other.seeky(),
        };
        if fits && right { c } else { NIL }
    }
}
