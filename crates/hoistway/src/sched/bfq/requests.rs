//! Requests in their queues: insertion, choice of the next one, removal, merging
//! (specs/bfq.md 4.5, 5.1 to 5.5).

use super::Bfq;
use super::budget::Reason;
use super::ctx::Ask;
use super::ids::{Id, QueueNo, RqNo};
use super::rate::seeky_req;
use crate::env::Cx;
use crate::group::ProcId;
use crate::request::{Flags, Io, ReqId, Request, Side};
use crate::sched::{At, Merged};
use crate::unit::{Instant, Nanos};

/// Where a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// The slot is free, or its request is unknown here.
    Nowhere,
    /// Between `prepare` and `insert`.
    Prepared,
    /// On the dispatch list, past the queues.
    Listed,
    /// Pending in its queue.
    Queued,
    /// In the device.
    Issued,
}

/// What is kept per request, by slot: a compact copy of what decisions need, in one cache line.
#[repr(align(32))]
#[derive(Clone, Copy, Debug)]
pub(super) struct Rq {
    pub pos: u64,
    pub fifo_deadline: Instant,
    pub len: u32,
    /// `NONE` for a request of nobody.
    pub queue: QueueNo,
    pub proc: ProcId,
    pub place: Place,
    pub sync: bool,
    pub meta: bool,
}

impl Rq {
    pub const NONE: Rq = Rq {
        pos: 0,
        fifo_deadline: Instant::ZERO,
        len: 0,
        queue: QueueNo::NONE,
        proc: ProcId::NONE,
        place: Place::Nowhere,
        sync: false,
        meta: false,
    };

    pub fn end(&self) -> u64 {
        self.pos + u64::from(self.len)
    }
}

impl Bfq {
    /// Step 1 of 5.1.
    pub(super) fn prepare_request(&mut self, now: Instant, r: &Request, cx: &mut Cx<'_>) {
        let queue = if r.proc == ProcId::NONE {
            QueueNo::NONE
        } else {
            let actuator = self.actuator_of(r.end().0, cx.device);
            let ask = Ask { proc: r.proc, group: r.group, sync: r.sync, actuator };
            let q = self.resolve(now, ask, cx);
            self.count_allocated(q, 1);
            self.ctxs[r.proc.index()].in_pool += 1;
            let burst = self.burst.size > 0 || self.fair.census.tot_busy() == 0;
            if self.queues[q].just_created && burst {
                self.handle_burst(q);
            }
            q
        };
        let rq = &mut self.rqs[r.id];
        debug_assert_eq!(rq.place, Place::Nowhere);
        *rq = Rq {
            pos: r.start.0,
            fifo_deadline: now,
            len: r.sectors.0 as u32,
            queue,
            proc: r.proc,
            place: Place::Prepared,
            sync: r.sync,
            meta: r.flags.any(Flags::META),
        };
    }

    /// Steps 3 to 10 of 5.1.
    pub(super) fn insert_request(&mut self, now: Instant, slot: RqNo, at: At, cx: &mut Cx<'_>) {
        let rq = self.rqs[slot];
        assert_eq!(rq.place, Place::Prepared, "a request is prepared, then inserted once");
        if at == At::Head || rq.queue.is_none() {
            self.list_request(slot, at);
            return;
        }
        let q = self.cooperate(now, slot, cx);
        self.sample_think_time(now, q);
        self.update_short_tt(q, rq.proc);
        self.update_seek_history(now, q, &rq, cx);
        self.queues[q].queued += 1;
        self.queued += 1;
        if rq.sync {
            if self.ctxs[rq.proc.index()].in_pool <= 1 {
                self.first_request(now, q, cx);
            }
            self.update_io_intensity(now, q);
        }
        let queue = &mut self.queues[q];
        queue.sorted.insert(&mut self.sorted, slot.0, rq.pos, ());
        self.rqs[slot].place = Place::Queued;
        let old = self.queues[q].next;
        let next = self.better(old, slot, self.rate.last_pos);
        self.queues[q].next = next;
        if next != old {
            self.index_update(q);
        }
        let old_wr = self.fair.ents[q].wr;
        let mut inter = false;
        if !self.fair.ents[q].busy {
            inter = self.idle_to_busy(now, q, rq.proc, cx);
        } else {
            self.raise_async(now, q, cx);
            if next != old {
                self.update_budget(q);
            }
        }
        if self.conf.low_latency && (old_wr == 1 || self.fair.ents[q].wr == 1 || inter) {
            self.queues[q].wr_start = self.tn;
        }
        let expire = if rq.sync { self.conf.fifo_expire_sync } else { self.conf.fifo_expire_async };
        self.rqs[slot].fifo_deadline = now + expire;
        let queue = &mut self.queues[q];
        queue.fifo.push_back(&mut self.links, slot.0);
        queue.last_pos = rq.end();
        if self.in_service == q && self.queues[q].waiting {
            self.request_while_waiting(now, q, &rq, cx);
        }
    }

    /// Puts a request on the dispatch list.
    pub(super) fn list_request(&mut self, slot: RqNo, at: At) {
        self.rqs[slot].place = Place::Listed;
        match at {
            At::Head => self.dispatch_list.push_front(&mut self.links, slot.0),
            At::Tail => self.dispatch_list.push_back(&mut self.links, slot.0),
        }
    }

    /// Puts a request into its queue and at the end of its fifo.
    pub(super) fn queue_request(&mut self, slot: RqNo) {
        let rq = &mut self.rqs[slot];
        rq.place = Place::Queued;
        let queue = &mut self.queues[rq.queue];
        queue.sorted.insert(&mut self.sorted, slot.0, rq.pos, ());
        queue.fifo.push_back(&mut self.links, slot.0);
        queue.queued += 1;
        self.queued += 1;
    }

    /// A scheduled merge of its queue takes the request along (5.1 step 4).
    fn cooperate(&mut self, now: Instant, slot: RqNo, cx: &mut Cx<'_>) -> QueueNo {
        let Rq { queue: q, proc, pos, .. } = self.rqs[slot];
        let to = self.find_cooperator(q, proc, pos);
        if to.is_none() {
            return q;
        }
        self.count_allocated(to, 1);
        self.count_allocated(q, -1);
        if self.queues[q].allocated == 0 {
            self.fair.loose.push(q);
        }
        self.queues[q].just_created = false;
        if self.pair(proc, self.queues[q].actuator).is_some_and(|pair| pair.sync == q) {
            self.merge_queues(now, proc, q, cx);
        }
        self.rqs[slot].queue = to;
        to
    }

    /// Is the request far from the last one (5.4)?
    fn update_seek_history(&mut self, now: Instant, q: QueueNo, rq: &Rq, cx: &mut Cx<'_>) {
        let duration = self.wr_duration;
        let queue = &mut self.queues[q];
        let seeky = seeky_req(queue.last_pos, rq.pos, rq.len.into(), self.rotational);
        queue.seek_hist = (queue.seek_hist << 1) | u32::from(seeky);
        if queue.totally_seeky()
            && self.fair.ents[q].wr > 1
            && queue.wr_limit == self.conf.wr_rt_max_time
        {
            // Not the pattern of a player.
            match queue.wr_start_before_srt {
                Some(before) if before + duration >= self.tn => {
                    self.back_to_interactive(q);
                }
                _ => self.end_raising(now, q, "raising ends: seeky", cx),
            }
        }
    }

    /// The request the device is kept idle for has come (5.1 step 10).
    fn request_while_waiting(&mut self, now: Instant, q: QueueNo, rq: &Rq, cx: &mut Cx<'_>) {
        let timed_out = self.queues[q].timed_out(self.tn);
        let small = self.queues[q].queued == 1 && rq.len < SMALL;
        if small && self.thr_idling(q) && !timed_out {
            // More may come and merge with it: the timer keeps running, nobody is kicked.
            return;
        }
        self.stop_waiting(now, q);
        if timed_out {
            self.expire(now, q, false, Reason::Timeout, cx);
        }
    }

    /// A queue gets its first request (4.5). True: it looks interactive.
    fn idle_to_busy(&mut self, now: Instant, q: QueueNo, proc: ProcId, cx: &mut Cx<'_>) -> bool {
        let stable = self.pair(proc, self.queues[q].actuator);
        let arrival = self.arrival(q, stable.is_some_and(|pair| pair.stably_merged));
        let recovers = self.budget_on_activation(q, now);
        if !self.queues[q].just_created && arrival.very_long_idle {
            self.burst.leave(q);
            self.queues[q].in_large_burst = false;
        }
        let (tn, suspended) = (self.tn, self.up(SPLIT_REST));
        let queue = &mut self.queues[q];
        queue.just_created = false;
        if self.conf.low_latency && queue.split_time.is_none_or(|at| at + suspended < tn) {
            self.raise_on_busy(now, q, arrival, cx);
        }
        let queue = &mut self.queues[q];
        queue.busy_since = tn;
        queue.svc_backlog = 0;
        queue.softrt_pending = false;
        let hole = core::mem::replace(&mut queue.hole, false);
        let (inflight, waker) = (queue.inflight, queue.waker);
        self.fair.activate_or_requeue(q, hole, false, tn);
        self.fair.census.set_busy(&mut self.fair.ents[q]);
        if inflight == 0 {
            self.fair.count(q);
        }
        if waker.is_some() {
            self.set_waker(q, waker);
        }
        self.preempt(now, q, recovers, cx);
        arrival.inter
    }

    /// Does the queue that became busy take over (4.5 step 8)?
    fn preempt(&mut self, now: Instant, q: QueueNo, recovers: bool, cx: &mut Cx<'_>) {
        let s = self.in_service;
        let root = &self.fair.nodes[super::wf2q::ROOT];
        if s.is_none() || root.cached == root.in_service || !self.conf.preemption {
            return;
        }
        let (mine, its) = (&self.fair.ents[q], &self.fair.ents[s]);
        let what = if recovers && mine.wr >= its.wr {
            self.stats.preempted_hole += 1;
            "preempts: recovers its service hole"
        } else if self.outranks(q, s) {
            self.stats.preempted_rank += 1;
            "preempts: higher class or weight"
        } else if !self.better_to_idle(s) {
            self.stats.preempted_pointless += 1;
            "preempts: idling is pointless"
        } else {
            return;
        };
        cx.trace.why(now, what, q.0, s.into(), 0);
        self.expire(now, s, false, Reason::Preempted, cx);
    }

    /// Which of two pending requests (or `NONE`) is better served after one that ended at `last` (5.2)?
    pub(super) fn better(&self, a: RqNo, b: RqNo, last: u64) -> RqNo {
        if a.is_none() || a == b {
            return b;
        }
        if b.is_none() {
            return a;
        }
        let (x, y) = (&self.rqs[a], &self.rqs[b]);
        if x.sync != y.sync {
            return if x.sync { a } else { b };
        }
        if x.meta != y.meta {
            return if x.meta { a } else { b };
        }
        let back_max = 2 * self.conf.back_seek_max_kib;
        let distance = |pos: u64| {
            if pos >= last {
                Some(pos - last)
            } else if pos + back_max >= last {
                Some((last - pos) * self.conf.back_seek_penalty)
            } else {
                None // Behind the arm's reach: the next sweep.
            }
        };
        let a_is_better = match (distance(x.pos), distance(y.pos)) {
            (Some(da), Some(db)) if da != db => da < db,
            (Some(_), Some(_)) => x.pos >= y.pos,
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (None, None) => x.pos <= y.pos,
        };
        if a_is_better { a } else { b }
    }

    /// Takes a pending request out of its queue and chooses the next one (5.3).
    pub(super) fn remove_request(&mut self, now: Instant, slot: RqNo) {
        let rq = self.rqs[slot];
        let q = rq.queue;
        let was_next = self.queues[q].next == slot;
        if was_next {
            let next = self.next_after(now, slot, &rq);
            self.queues[q].next = next;
        }
        let queue = &mut self.queues[q];
        queue.sorted.remove(&mut self.sorted, slot.0);
        queue.fifo.remove(&mut self.links, slot.0);
        queue.queued -= 1;
        self.queued -= 1;
        if was_next {
            self.update_budget(q);
            self.index_update(q);
        }
        // Its last request was injected or merged away.
        if self.queues[q].empty() && self.fair.ents[q].busy && self.in_service != q {
            self.no_longer_busy(q, false);
            let e = &mut self.fair.ents[q];
            e.budget = 0;
            e.service = 0;
        }
    }

    /// The request to be served after `slot`, which is still in its queue.
    fn next_after(&mut self, now: Instant, slot: RqNo, rq: &Rq) -> RqNo {
        let queue = &mut self.queues[rq.queue];
        if !queue.fifo_checked {
            queue.fifo_checked = true;
            let head = RqNo(queue.fifo.head());
            if head != slot && now >= self.rqs[head].fifo_deadline {
                return head;
            }
        }
        let mut after = RqNo(self.sorted.next(slot.0));
        if after.is_none() && RqNo(queue.sorted.first()) != slot {
            after = RqNo(queue.sorted.first());
        }
        let before = RqNo(self.sorted.prev(slot.0));
        self.better(after, before, rq.pos)
    }

    // Merging: 5.5.

    /// The queue that process uses for requests like this bio, `NONE` if it has none; its group is read
    /// again (8.3).
    fn queue_of(&mut self, now: Instant, io: &Io, cx: &mut Cx<'_>) -> QueueNo {
        let actuator = self.actuator_of(io.end().0, cx.device);
        if self.pair(io.proc, actuator).is_none() {
            return QueueNo::NONE;
        }
        let node = self.node_of(io.group, cx.groups);
        if self.ctxs[io.proc.index()].node != node {
            self.group_changed(now, io.proc, node, cx);
        }
        let sync = cx.device.is_sync(io.op, io.flags);
        self.pairs[self.pair_at(io.proc, actuator)].queue(sync)
    }

    /// The veto. It may merge the queue of the bio's issuer into another.
    pub(super) fn allows_merge(
        &mut self,
        now: Instant,
        io: &Io,
        into: ReqId,
        cx: &mut Cx<'_>,
    ) -> bool {
        let q = self.queue_of(now, io, cx);
        let rq = self.rqs[into];
        if (cx.device.is_sync(io.op, io.flags) && !rq.sync) || q.is_none() {
            return false;
        }
        let to = self.find_cooperator(q, io.proc, io.start.0);
        if to.is_none() {
            return rq.queue == q;
        }
        self.merge_queues(now, io.proc, q, cx);
        rq.queue == to
    }

    /// The front-merge candidate: a request of that queue which starts where the bio ends.
    pub(super) fn front_merge(
        &mut self,
        now: Instant,
        io: &Io,
        cx: &mut Cx<'_>,
    ) -> Option<(ReqId, Side)> {
        let q = self.queue_of(now, io, cx);
        if q.is_none() {
            return None;
        }
        let end = io.end().0;
        let slot = RqNo(self.queues[q].sorted.lower_bound(&self.sorted, end));
        let hit = slot.is_some() && self.sorted.key(slot.0) == end;
        hit.then(|| (cx.requests.at(slot.0).id, Side::Front))
    }

    pub(super) fn beside(&self, id: ReqId, side: Side, cx: &Cx<'_>) -> Option<ReqId> {
        if self.rqs[id].place != Place::Queued {
            return None;
        }
        let slot = match side {
            Side::Front => RqNo(self.sorted.prev(id.slot())),
            Side::Back => RqNo(self.sorted.next(id.slot())),
        };
        slot.is_some().then(|| cx.requests.at(slot.0).id)
    }

    pub(super) fn was_merged(&mut self, now: Instant, kept: ReqId, what: Merged, cx: &mut Cx<'_>) {
        match what {
            Merged::Bio(side) => {
                let r = &cx.requests[kept];
                let rq = &mut self.rqs[kept];
                rq.len = r.sectors.0 as u32;
                let moved = rq.pos != r.start.0;
                rq.pos = r.start.0;
                if side == Side::Front && moved && rq.place == Place::Queued {
                    self.reposition(kept.into());
                }
            }
            Merged::Request(gone) => {
                // The bio that made them touch may have been told of by this call alone.
                let all = cx.requests[kept].sectors + cx.requests[gone].sectors;
                self.rqs[kept].len = all.0 as u32;
                self.joined(now, kept.into(), gone.into());
                self.release(now, gone.into(), cx);
            }
        }
    }

    /// A front merge moved the start of a pending request.
    fn reposition(&mut self, slot: RqNo) {
        let rq = self.rqs[slot];
        let queue = &mut self.queues[rq.queue];
        queue.sorted.remove(&mut self.sorted, slot.0);
        queue.sorted.insert(&mut self.sorted, slot.0, rq.pos, ());
        let old = queue.next;
        let next = self.better(old, slot, self.rate.last_pos);
        if next == slot {
            // It may have been next before, and moved.
            self.queues[rq.queue].next = next;
            self.index_update(rq.queue);
        }
        if next != old {
            self.queues[rq.queue].next = next;
            self.update_budget(rq.queue);
        }
    }

    /// Two requests became one; `gone` is pending, on the dispatch list, or not inserted yet.
    fn joined(&mut self, now: Instant, kept: RqNo, gone: RqNo) {
        let g = self.rqs[gone];
        match g.place {
            Place::Queued => {
                self.inherit_fifo_place(kept, gone);
                let queue = &mut self.queues[g.queue];
                // Deviation: the text does not say who follows when the absorbed request was to be
                // served next; the survivor contains it, so it is the survivor.
                if queue.next == gone && self.rqs[kept].queue == g.queue {
                    queue.next = kept;
                    self.update_budget(g.queue);
                    self.index_update(g.queue);
                }
                self.remove_request(now, gone);
            }
            Place::Listed => self.dispatch_list.remove(&mut self.links, gone.0),
            Place::Prepared => {}
            Place::Nowhere | Place::Issued => panic!("only a waiting request is merged away"),
        }
    }

    /// The survivor of a join takes the earlier fifo place and its deadline.
    fn inherit_fifo_place(&mut self, kept: RqNo, gone: RqNo) {
        let (k, g) = (self.rqs[kept], self.rqs[gone]);
        if k.place != Place::Queued || k.queue != g.queue || g.fifo_deadline >= k.fifo_deadline {
            return;
        }
        self.rqs[kept].fifo_deadline = g.fifo_deadline;
        let fifo = &mut self.queues[g.queue].fifo;
        fifo.remove(&mut self.links, kept.0);
        fifo.insert_before(&mut self.links, gone.0, kept.0);
    }

    /// The request no longer exists: the counts of `prepare` go back.
    pub(super) fn release(&mut self, now: Instant, slot: RqNo, cx: &mut Cx<'_>) {
        let rq = core::mem::replace(&mut self.rqs[slot], Rq::NONE);
        if rq.queue.is_none() {
            return;
        }
        self.count_allocated(rq.queue, -1);
        let q = &self.queues[rq.queue];
        if q.users == 0 && q.allocated == 0 {
            self.fair.loose.push(rq.queue);
        }
        let ctx = &mut self.ctxs[rq.proc.index()];
        ctx.in_pool -= 1;
        if ctx.gone && ctx.in_pool == 0 {
            // I/O on behalf of a process that had exited made it a queue again.
            self.ctx_exit(now, rq.proc, cx);
        }
    }
}

/// A lone request below this many sectors does not end the wait (5.1 step 10).
const SMALL: u32 = 32;
/// Nothing is decided about raising for this long after a split (7.6).
pub(super) const SPLIT_REST: Nanos = Nanos::secs(2);
