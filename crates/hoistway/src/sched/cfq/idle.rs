//! Idling: when the device is kept idle for the next request of a queue, and who may interrupt
//! (specs/cfq.md 6, 6.1, 6.2, 9, 9.1, 10).
//!
//! A process that reads in turn computes for a millisecond between two requests and looks finished. Moving the head
//! away then costs two seeks ("deceptive idleness", Iyer and Druschel, SOSP 2001). And a queue of depth 1 is empty
//! after each request: without idling the others get one of theirs for each of it, whatever the slices say.

use super::device::Queueing;
use super::group::{self, NOIDLE, SYNC};
use super::habits::CLOSE;
use super::ids::{CtxNo, QueueNo, RqNo};
use super::requests::{CfqPlace, CfqRq};
use super::{Cfq, IDLE, RT, Version, tick};
use crate::env::Cx;
use crate::rows::Id;
use crate::unit::Instant;

/// So many requests of one queue at a time make seeking cheap for a queueing device, which sorts them.
const DEEP: u32 = 4;
/// 2.6.30 idles no longer than this for a seeky process, in ticks: there is no locality to win, just its turn to keep.
const SEEKY_IDLE: i64 = 2;

impl Cfq {
    pub(super) fn early(&self) -> bool {
        self.version == Version::V30
    }

    /// 6 steps 5 and 6: think time of the process, seek history of the queue.
    pub(super) fn learn(&mut self, t: i64, rq: &CfqRq) {
        let ctx = &mut self.ctxs[rq.ctx];
        ctx.think.request_came(t, self.conf.slice_idle);
        if self.version == Version::V30 {
            ctx.distance.add(rq.pos, rq.end());
        }
        self.queues[rq.queue].seek.add(rq.pos, rq.len, self.rotational);
    }

    /// 6 step 7: is the queue worth idling for?
    pub(super) fn update_idle_window(&mut self, q: QueueNo, ctx: CtxNo, cx: &Cx<'_>) {
        let alive = self.alive(ctx, cx);
        let seeky_30 = self.queueing.possible() && self.ctxs[ctx].distance.seeky();
        let (early, slice_idle) = (self.early(), self.conf.slice_idle);
        let next = self.queues[q].pending.next;
        // From release history: later kernels do not idle for a queue whose next request says not
        // to.
        let asks_not = self.version == Version::V38 && next.is_some() && self.pool.rqs[next].noidle;
        let queue = &mut self.queues[q];
        if !queue.sync || queue.class == IDLE {
            return;
        }
        if queue.pending.queued >= DEEP {
            queue.deep = true;
        }
        let hopeless = if early { seeky_30 } else { !queue.deep && queue.seek.seeky() };
        if !alive || slice_idle == 0 || hopeless || asks_not {
            queue.idle_window = false;
        } else if let Some(soon) = self.ctxs[ctx].think.within(slice_idle) {
            queue.idle_window = soon;
        }
    }

    /// `should_idle(q)` (section 4); 2.6.30 knows the idle window only.
    pub(super) fn should_idle(&self, q: QueueNo) -> bool {
        let queue = &self.queues[q];
        if self.early() {
            return queue.idle_window;
        }
        if queue.class == IDLE || (self.version == Version::V38 && self.conf.slice_idle == 0) {
            return false;
        }
        if queue.idle_window && (self.rotational || !self.queueing.possible()) {
            return true;
        }
        // The last queue of a tree is idled for although it is seeky: its class would lose every hole to the next one
        // (ML "cfq-iosched: enable idling for last queue on priority class").
        queue.sync && self.groups.serves(q) && self.groups.len(queue.turn.tree) == 1
    }

    /// 6.1: why a request of `n`, which is not being served, ends the slice of the queue that is.
    ///
    /// Sync before async and RT before BE: somebody waits. Metadata: others may hold locks until it is there. Near the
    /// head while the device is kept idle: it rides for free.
    pub(super) fn preempts(&self, t: i64, n: QueueNo, rq: &CfqRq) -> Option<&'static str> {
        if self.active.is_none() {
            return None;
        }
        let (new, a) = (&self.queues[n], &self.queues[self.active]);
        let used = a.slice.used(t).then_some("preempted: its slice is over");
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
            if a.turn.group != new.turn.group {
                return None;
            }
            if used.is_some() {
                return used;
            }
            let pair = group::kind(new) == NOIDLE
                && self.groups.serves(n)
                && self.groups.len(new.turn.tree) == 2;
            if self.workload.kind == NOIDLE && pair && a.empty() {
                return Some("preempted: no need to idle for one of two");
            }
        }
        if rq.meta && a.pending.meta == 0 {
            return Some("preempted: metadata");
        }
        if new.class == RT && a.class != RT {
            return Some("preempted: real-time");
        }
        let waits = self.active_ctx.is_some() && a.slice.wait_request;
        (waits && self.close(rq.pos)).then_some("preempted: a close request instead of idling")
    }

    /// 6.2.
    pub(super) fn preempt(&mut self, now: Instant, n: QueueNo, why: &'static str, cx: &mut Cx<'_>) {
        let a = &self.queues[self.active];
        let (kind, group) = (group::kind(a), a.turn.group);
        self.expire(now, true, why, cx);
        if self.conf.preempt_switches_workload && kind != group::kind(&self.queues[n]) {
            self.groups.rows[group].saved = None;
        }
        self.stats.preemptions += 1;
        self.place(tick(now), n, true);
        self.queues[n].slice.renew();
    }

    /// 9.
    pub(super) fn completed(&mut self, now: Instant, slot: RqNo, cx: &mut Cx<'_>) {
        let rq = self.pool.rqs[slot];
        assert_eq!(rq.place, CfqPlace::Issued, "only what was issued completes");
        let (t, q) = (tick(now), rq.queue);
        self.watch_queueing();
        self.pool.in_driver -= 1;
        self.count_returned(q);
        if rq.sync {
            self.ctxs[rq.ctx].think.request_ended(t);
            self.ramp.sync_ended(t, rq.began, self.conf.fifo_expire[1]);
        }
        if self.active == q {
            self.completed_of_active(now, q, &rq, cx);
        }
        if self.pool.in_driver == 0 && self.busy_queues > 0 {
            self.kick(cx);
        }
        self.release(now, slot, cx);
    }

    /// 9 step 1. A queue that is idled for and issues little proves nothing.
    pub(super) fn watch_queueing(&mut self) {
        let (early, in_driver) = (self.early(), self.pool.in_driver);
        let lone = || {
            !early && self.active.is_some() && {
                let a = &self.queues[self.active];
                a.idle_window && Queueing::too_few(a.dispatched + a.pending.queued, in_driver)
            }
        };
        self.queueing.watch(in_driver, self.pool.queued, lone, early);
    }

    /// 9 step 3.
    fn completed_of_active(&mut self, now: Instant, q: QueueNo, rq: &CfqRq, cx: &mut Cx<'_>) {
        let t = tick(now);
        if self.queues[q].slice.fresh {
            let len = self.slice_length(q);
            self.queues[q].slice.begin(t, len);
        }
        if self.should_wait_busy(t, q) {
            let idle = match self.conf.slice_idle {
                0 => self.conf.group_idle,
                idle => idle,
            };
            self.queues[q].slice.prolong(t, idle);
        }
        if self.queues[q].slice.used(t) || self.queues[q].class == IDLE {
            self.expire(now, true, "expired: slice used", cx);
        } else if rq.sync && self.queues[q].empty() && self.cooperator(q).is_none() {
            let wanted = match self.version {
                Version::V30 => !rq.noidle,
                Version::V34 => {
                    let w = &mut self.workload;
                    w.noidle_wants_idle |= !rq.noidle;
                    let wants = w.kind == SYNC || w.noidle_wants_idle;
                    wants || self.group_of(q).nr_q == 1
                }
                Version::V38 => true,
            };
            if wanted {
                self.arm(now, q, cx);
            }
        }
    }

    /// The only queue of its group gets time for its next request, so that the group keeps its
    /// place: it would leave the tree when the queue runs empty, and come back behind all others.
    fn should_wait_busy(&self, t: i64, q: QueueNo) -> bool {
        if self.early() || self.group_of(q).nr_q != 1 {
            return false;
        }
        let slice = &self.queues[q].slice;
        let left = slice.end - t;
        slice.used(t) || left == 1 || self.thinks_longer_than(left)
    }

    /// The process being served will not be back in that time, as far as is known.
    fn thinks_longer_than(&self, left: i64) -> bool {
        self.active_ctx.some().is_some_and(|ctx| self.ctxs[ctx].think.longer_than(left))
    }

    /// 9.1: keeps the device idle for the next request of `q`, if that is worth while.
    ///
    /// For `slice_idle`, 8 ms: about one seek and half a turn of a disk. Who waits as long as the wrong move costs
    /// never loses more than twice the optimum.
    fn arm(&mut self, now: Instant, q: QueueNo, cx: &mut Cx<'_>) {
        if !self.rotational && self.queueing.possible() {
            return;
        }
        let mut time = self.conf.slice_idle;
        let worth = time > 0 && self.should_idle(q);
        let busy = if self.early() {
            let distance = self.active_ctx.some().and_then(|ctx| self.ctxs[ctx].distance.known());
            if distance.is_some_and(|mean| mean > CLOSE as i64) {
                time = time.min(SEEKY_IDLE);
            }
            self.pool.in_driver > 0
        } else if worth {
            self.queues[q].dispatched > 0
        } else {
            // 2.6.36: for the group's sake.
            if self.conf.group_idle == 0 || self.group_of(q).nr_q != 1 {
                return;
            }
            time = self.conf.group_idle;
            self.group_of(q).dispatched > 0
        };
        let t = tick(now);
        let back = self.active_ctx.some().is_some_and(|ctx| self.alive(ctx, cx));
        let left = self.queues[q].slice.end - t;
        if busy || time == 0 || (self.early() && !worth) || !back || self.thinks_longer_than(left) {
            return;
        }
        self.queues[q].slice.wait_request = true;
        self.timer = Some(t + time);
        self.stats.idle_armed += 1;
        cx.trace.why(now, "idle: armed", q.0, time, left);
    }

    /// 10: the wait was in vain, or nearly.
    pub(super) fn idle_over(&mut self, now: Instant, cx: &mut Cx<'_>) {
        self.timer = None;
        let (a, t) = (self.active, tick(now));
        if a.is_some() {
            let queue = &self.queues[a];
            let used = queue.slice.used(t);
            if queue.slice.must_dispatch {
                // A small request came meanwhile.
            } else if used {
                self.expire(now, false, "expired: slice used while idle", cx);
            } else if self.busy_queues == 0 {
                return;
            } else if queue.empty() {
                // It was idled for since it had been deep once; that was too much trust.
                self.queues[a].deep = false;
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
}
