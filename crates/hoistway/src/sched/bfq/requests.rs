//! Requests in their queues: insertion, choice of the next one, removal, merging
//! (specs/bfq.md 4.5, 5.1 to 5.5).

use super::Bfq;
use super::burst::{AFTER_SPLIT, Birth};
use super::ctx::Ask;
use super::ids::{Id, QueueNo, Rows, RqNo};
use super::queue::OwnRqs;
use super::queue::coop::SPLIT_REST;
use super::queue::raise::NOT_RAISED;
use super::slot::Reason;
use super::wf2q::{IDLE, ROOT};
use crate::env::Cx;
use crate::group::ProcId;
use crate::list::{Links, List};
use crate::request::{Flags, Io, ReqId, Request, Side};
use crate::sched::seek::Candidate;
use crate::sched::{At, Merged};
use crate::tree::Nodes;
use crate::unit::{Instant, Nanos};
use core::ops::{Index, IndexMut};

/// Where a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RqPlace {
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
pub(super) struct BfqRq {
    pub pos: u64,
    pub fifo_deadline: Instant,
    pub len: u32,
    /// `NONE` for a request of nobody.
    pub queue: QueueNo,
    pub proc: ProcId,
    pub place: RqPlace,
    pub sync: bool,
    pub meta: bool,
}

impl BfqRq {
    pub const NONE: BfqRq = BfqRq {
        pos: 0,
        fifo_deadline: Instant::ZERO,
        len: 0,
        queue: QueueNo::NONE,
        proc: ProcId::NONE,
        place: RqPlace::Nowhere,
        sync: false,
        meta: false,
    };

    pub fn end(&self) -> u64 {
        self.pos + u64::from(self.len)
    }
}

/// All requests that BFQ knows, by slot.
#[derive(Debug)]
pub(super) struct Rqs {
    rows: Rows<RqNo, BfqRq>,
    /// Pending ones by position, in the tree of their queue.
    sorted: Nodes<u64>,
    /// Pending ones by arrival, on the fifo of their queue; or on the dispatch list.
    links: Links,
    /// Requests that bypass the queues.
    dispatch_list: List,
}

impl Rqs {
    pub fn new(requests: usize) -> Rqs {
        Rqs {
            rows: alloc::vec![BfqRq::NONE; requests].into(),
            sorted: Nodes::new(requests),
            links: Links::new(requests),
            dispatch_list: List::new(),
        }
    }

    #[cfg(any(test, debug_assertions))]
    pub fn iter(&self) -> core::slice::Iter<'_, BfqRq> {
        self.rows.iter()
    }

    /// Puts a request on the dispatch list.
    pub fn list(&mut self, slot: RqNo, at: At) {
        self.rows[slot].place = RqPlace::Listed;
        match at {
            At::Head => self.dispatch_list.push_front(&mut self.links, slot.0),
            At::Tail => self.dispatch_list.push_back(&mut self.links, slot.0),
        }
    }

    #[inline]
    pub fn pop_listed(&mut self) -> Option<RqNo> {
        if self.dispatch_list.is_empty() {
            return None;
        }
        self.dispatch_list.pop_front(&mut self.links).map(RqNo)
    }

    #[inline]
    pub fn any_listed(&self) -> bool {
        !self.dispatch_list.is_empty()
    }

    #[cfg(any(test, debug_assertions))]
    pub fn listed(&self) -> u32 {
        self.dispatch_list.len()
    }

    /// Puts a request into its queue, by position and at the end of its fifo. `queued` counts it already.
    ///
    /// One that is alone is in neither, only `next`: with one request at a time nothing is to be ordered, and there
    /// are many such queues. It takes its places when a second one comes.
    #[inline(always)]
    pub fn enqueue(&mut self, own: &mut OwnRqs, slot: RqNo, deadline: Instant) {
        let row = &mut self.rows[slot];
        row.place = RqPlace::Queued;
        row.fifo_deadline = deadline;
        if own.queued == 1 {
            return;
        }
        if own.sorted.is_empty() {
            let lone = own.next;
            self.order(own, lone);
        }
        self.order(own, slot);
    }

    fn order(&mut self, own: &mut OwnRqs, slot: RqNo) {
        own.sorted.insert(&mut self.sorted, slot.0, self.rows[slot].pos, ());
        own.fifo.push_back(&mut self.links, slot.0);
    }

    /// Takes a request out of its queue; `queued` no longer counts it.
    #[inline]
    fn dequeue(&mut self, own: &mut OwnRqs, slot: RqNo) {
        if !own.sorted.is_empty() {
            own.sorted.remove(&mut self.sorted, slot.0);
            own.fifo.remove(&mut self.links, slot.0);
        }
        own.queued -= 1;
    }

    /// What the choice of the next request looks at.
    #[inline]
    fn candidate(&self, slot: RqNo) -> Candidate {
        let rq = &self.rows[slot];
        Candidate { start: rq.pos, sync: rq.sync, meta: rq.meta }
    }

    /// The request of a queue that has waited longest.
    #[inline]
    pub fn oldest(&self, own: &OwnRqs) -> RqNo {
        if own.fifo.is_empty() { own.next } else { RqNo(own.fifo.head()) }
    }

    /// The start of a pending request has moved.
    fn reorder(&mut self, own: &mut OwnRqs, slot: RqNo) {
        if !own.sorted.is_empty() {
            own.sorted.remove(&mut self.sorted, slot.0);
            own.sorted.insert(&mut self.sorted, slot.0, self.rows[slot].pos, ());
        }
    }

    /// The request of a queue that starts there.
    fn starting_at(&self, own: &OwnRqs, pos: u64) -> RqNo {
        let slot = match own.sorted.is_empty() {
            true => own.next,
            false => RqNo(own.sorted.lower_bound(&self.sorted, pos)),
        };
        if slot.is_some() && self.rows[slot].pos == pos { slot } else { RqNo::NONE }
    }

    /// The neighbour of a pending request in the order of positions.
    fn neighbour(&self, slot: RqNo, side: Side) -> RqNo {
        if !self.sorted.linked(slot.0) {
            return RqNo::NONE;
        }
        RqNo(match side {
            Side::Front => self.sorted.prev(slot.0),
            Side::Back => self.sorted.next(slot.0),
        })
    }

    /// The requests after and before one that is still in its queue; after the last comes the first.
    #[inline]
    fn around(&self, own: &OwnRqs, slot: RqNo) -> (RqNo, RqNo) {
        if own.sorted.is_empty() {
            return (RqNo::NONE, RqNo::NONE);
        }
        let mut after = RqNo(self.sorted.next(slot.0));
        let first = RqNo(own.sorted.first());
        if after.is_none() && first != slot {
            after = first;
        }
        (after, RqNo(self.sorted.prev(slot.0)))
    }
}

impl<I: Into<RqNo>> Index<I> for Rqs {
    type Output = BfqRq;

    #[inline]
    fn index(&self, slot: I) -> &BfqRq {
        &self.rows[slot.into()]
    }
}

impl<I: Into<RqNo>> IndexMut<I> for Rqs {
    #[inline]
    fn index_mut(&mut self, slot: I) -> &mut BfqRq {
        &mut self.rows[slot.into()]
    }
}

impl Bfq {
    /// Step 1 of 5.1.
    #[inline]
    pub(super) fn prepare_request(&mut self, now: Instant, r: &Request, cx: &mut Cx<'_>) {
        let queue = if r.proc == ProcId::NONE {
            QueueNo::NONE
        } else {
            let actuator = self.actuator_of(r.end().0, cx.device);
            let ask = Ask { proc: r.proc, group: r.group, sync: r.sync, actuator };
            let q = self.resolve(now, ask, cx);
            self.ctxs.procs[r.proc.index()].in_pool += 1;
            if self.count_allocated(q, 1).just_created {
                self.handle_burst(q);
            }
            q
        };
        let rq = &mut self.rqs[r.id];
        debug_assert_eq!(rq.place, RqPlace::Nowhere);
        *rq = BfqRq {
            pos: r.start.0,
            fifo_deadline: now,
            len: r.sectors.0 as u32,
            queue,
            proc: r.proc,
            place: RqPlace::Prepared,
            sync: r.sync,
            meta: r.flags.any(Flags::META),
        };
    }

    /// A request of a queue that was just created (6.5).
    fn handle_burst(&mut self, q: QueueNo) {
        let nobody_busy = self.fair.census.tot_busy() == 0;
        if self.burst.size == 0 && !nobody_busy {
            return;
        }
        let queue = &self.queues[q];
        let fresh = queue.coop.split_within(self.up(AFTER_SPLIT), self.tn);
        if self.burst.listed(q) || queue.raise.in_large_burst || fresh {
            return;
        }
        let birth = Birth {
            parent: self.fair.ents[q].node,
            nobody_busy,
            interval: self.conf.burst_interval,
            large: self.conf.large_burst_thresh,
        };
        self.burst.birth(q, birth, self.tn, &mut self.queues);
    }

    /// Steps 3 to 10 of 5.1.
    #[inline]
    pub(super) fn insert_request(&mut self, now: Instant, slot: RqNo, at: At, cx: &mut Cx<'_>) {
        let rq = self.rqs[slot];
        assert_eq!(rq.place, RqPlace::Prepared, "a request is prepared, then inserted once");
        if at == At::Head || rq.queue.is_none() {
            self.rqs.list(slot, at);
            return;
        }
        let q = self.cooperate(now, slot, cx);
        self.learn_from_arrival(now, q, &rq, cx);
        let expire = if rq.sync { self.conf.fifo_expire_sync } else { self.conf.fifo_expire_async };
        let own = &mut self.queues[q].rqs;
        self.rqs.enqueue(own, slot, now + expire);
        let old = own.next;
        let head = self.rate.last_pos;
        let next = self.conf.arm().better(old, slot, head, |slot| self.rqs.candidate(slot));
        own.next = next;
        if next != old {
            self.index_update(q);
        }
        let e = &self.fair.ents[q];
        let (old_wr, busy) = (e.wr, e.busy);
        let mut inter = false;
        if !busy {
            inter = self.idle_to_busy(now, q, rq.proc, cx);
        } else {
            self.raise_async(now, q, cx);
            if next != old {
                self.update_budget(q);
            }
        }
        let plain = old_wr == NOT_RAISED || self.fair.ents[q].wr == NOT_RAISED;
        let queue = &mut self.queues[q];
        if self.conf.low_latency && (plain || inter) {
            queue.raise.start = self.tn;
        }
        queue.seek.last_pos = rq.end();
        if self.serving.queue == q && queue.slot.waiting {
            self.request_while_waiting(now, q, &rq, cx);
        }
    }

    /// What an arrival tells about its issuer (5.4, 5.6 to 5.8, 4.7), and counts.
    #[inline]
    fn learn_from_arrival(&mut self, now: Instant, q: QueueNo, rq: &BfqRq, cx: &mut Cx<'_>) {
        let slice_idle = self.conf.slice_idle;
        let ctx = &self.ctxs.procs[rq.proc.index()];
        let e = &self.fair.ents[q];
        let queue = &mut self.queues[q];
        if !e.busy && queue.rqs.inflight == 0 {
            queue.think.sample(now, slice_idle);
        }
        let mut turned = false;
        if queue.sync
            && e.class != IDLE
            && slice_idle > Nanos::ZERO
            && !queue.coop.split_within(SPLIT_REST, self.tn)
        {
            // 8 ms are made for the seek of a disk, and call too many queues short of thought: half of it (5.12).
            let limit = if self.conf.think_margin { slice_idle.0 / 2 } else { slice_idle.0 };
            let short = !ctx.gone && !queue.think.longer_than(Nanos(limit));
            turned = core::mem::replace(&mut queue.think.short, short) != short;
        }
        queue.seek.record(rq.pos, rq.len.into(), self.rotational);
        queue.rqs.queued += 1;
        self.load.queued += 1;
        if rq.sync {
            if queue.rqs.queued == 1 && queue.rqs.inflight == 0 {
                queue.intensity.arrival(queue.think.gap(now));
            }
            if !queue.just_created && self.conf.io_intensity {
                queue.intensity.judge(now);
            }
        }
        let never_plays = e.wr > NOT_RAISED && queue.seek.totally();
        let first = rq.sync && ctx.in_pool <= 1;
        if turned {
            self.think_time_changed(q);
        }
        if never_plays {
            self.totally_seeky(now, q, cx);
        }
        if first {
            self.first_request(now, q, cx);
        }
    }

    /// A scheduled merge of its queue takes the request along (5.1 step 4).
    #[inline(always)]
    pub(super) fn cooperate(&mut self, now: Instant, slot: RqNo, cx: &mut Cx<'_>) -> QueueNo {
        let q = self.rqs[slot].queue;
        if self.queues[q].coop.into.is_none() && self.nonrot_queueing() {
            return q;
        }
        self.cooperate_at(now, slot, cx)
    }

    #[inline(never)]
    fn cooperate_at(&mut self, now: Instant, slot: RqNo, cx: &mut Cx<'_>) -> QueueNo {
        let BfqRq { queue: q, proc, pos, .. } = self.rqs[slot];
        let to = self.find_cooperator(q, proc, pos);
        if to.is_none() {
            return q;
        }
        self.count_allocated(to, 1);
        self.count_allocated(q, -1);
        if self.queues[q].rqs.allocated == 0 {
            self.fair.loose.push(q);
        }
        if self.ctxs.pair(proc, self.queues[q].actuator).is_some_and(|pair| pair.sync == q) {
            self.merge_queues(now, proc, q, cx);
        }
        // After the merge: what it saves of a queue that was never served is that it is raised from now on (7.6).
        self.queues[q].just_created = false;
        self.rqs[slot].queue = to;
        to
    }

    /// The request the device is kept idle for has come (5.1 step 10).
    ///
    /// A small one that is alone does not end a wait for throughput: the plug of its process probably holds the
    /// neighbours, and to send 4 KiB at once forfeits the merge. Elsewhere a delay would break a guarantee. Nor a large
    /// one: CFQ once lost half of the throughput of threaded readers by waiting too strictly.
    fn request_while_waiting(&mut self, now: Instant, q: QueueNo, rq: &BfqRq, cx: &mut Cx<'_>) {
        let queue = &self.queues[q];
        let timed_out = queue.slot.timed_out(self.tn);
        let small = queue.rqs.queued == 1 && rq.len < SMALL;
        if small && self.thr_idling(q) && !timed_out {
            // The timer keeps running, nobody is kicked.
            return;
        }
        self.stop_waiting(now, q);
        if timed_out {
            self.expire(now, q, false, Reason::Timeout, cx);
        }
    }

    /// A queue gets its first request (4.5). True: it looks interactive.
    fn idle_to_busy(&mut self, now: Instant, q: QueueNo, proc: ProcId, cx: &mut Cx<'_>) -> bool {
        let pair = self.ctxs.pair(proc, self.queues[q].actuator);
        let arrival = self.arrival(q, pair.is_some_and(|pair| pair.stably_merged));
        let recovers = self.budget_on_activation(q, now);
        let (tn, rest) = (self.tn, self.up(SPLIT_REST));
        let queue = &mut self.queues[q];
        if !queue.just_created && arrival.very_long_idle {
            self.burst.leave(q);
            queue.raise.in_large_burst = false;
        }
        queue.just_created = false;
        if self.conf.low_latency && !queue.coop.split_within(rest, tn) {
            self.raise_on_busy(now, q, arrival, cx);
        }
        let queue = &mut self.queues[q];
        queue.slot.busy_since = tn;
        queue.slot.served = 0;
        queue.raise.soft_pending = false;
        let hole = core::mem::replace(&mut queue.slot.hole, false);
        let (inflight, waker) = (queue.rqs.inflight, queue.waker.queue);
        self.fair.activate_or_requeue(q, hole, false, tn);
        self.fair.census.set_busy(&mut self.fair.ents[q]);
        if inflight == 0 {
            self.fair.count(q);
        }
        if waker.is_some() {
            // To the front of its list: the latest to become busy is injected first.
            self.queues.set_waker(q, waker);
        }
        self.preempt(now, q, recovers, cx);
        arrival.inter
    }

    /// Does the queue that became busy take over (4.5 step 8)?
    ///
    /// To repair a hole, to serve a higher class or weight at once, or to stop a wait that the newcomer made pointless.
    /// Not simply because it would finish earlier: to know that, both would have to be requeued, and preemption breaks
    /// up sequential runs.
    fn preempt(&mut self, now: Instant, q: QueueNo, recovers: bool, cx: &mut Cx<'_>) {
        let s = self.serving.queue;
        let root = &self.fair.nodes[ROOT];
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
    #[inline]
    pub(super) fn better(&self, a: RqNo, b: RqNo, last: u64) -> RqNo {
        self.conf.arm().better(a, b, last, |slot| self.rqs.candidate(slot))
    }

    /// Takes a pending request out of its queue and chooses the next one (5.3).
    pub(super) fn remove_request(&mut self, now: Instant, slot: RqNo) {
        self.remove_from(now, slot, self.rqs[slot].queue);
    }

    /// The same, of queue `q`.
    #[inline(always)]
    pub(super) fn remove_from(&mut self, now: Instant, slot: RqNo, q: QueueNo) {
        let queue = &mut self.queues[q];
        let was_next = queue.rqs.next == slot;
        if was_next {
            if queue.rqs.queued == 1 {
                queue.slot.fifo_checked = true;
                queue.rqs.next = RqNo::NONE;
            } else {
                self.queues[q].rqs.next = self.next_after(now, slot, q);
            }
        }
        let own = &mut self.queues[q].rqs;
        self.rqs.dequeue(own, slot);
        self.load.queued -= 1;
        let empty = own.queued == 0;
        if was_next {
            if !empty {
                self.update_budget(q);
            }
            self.index_update(q);
        }
        // Its last request was injected or merged away.
        if empty && self.serving.queue != q && self.fair.ents[q].busy {
            self.no_longer_busy(q, false);
            let e = &mut self.fair.ents[q];
            e.budget = 0;
            e.service = 0;
        }
    }

    /// The request to be served after `slot`, which is still in its queue. Once per slot the oldest one goes first if
    /// it is overdue: a request at an unlucky sector would else wait for ever, and one more seek per slot is cheap.
    #[inline]
    fn next_after(&mut self, now: Instant, slot: RqNo, q: QueueNo) -> RqNo {
        let queue = &mut self.queues[q];
        let own = &queue.rqs;
        if !core::mem::replace(&mut queue.slot.fifo_checked, true) {
            let oldest = self.rqs.oldest(own);
            if oldest != slot && now >= self.rqs[oldest].fifo_deadline {
                return oldest;
            }
        }
        let (after, before) = self.rqs.around(own, slot);
        self.better(after, before, self.rqs[slot].pos)
    }

    // Merging: 5.5.

    /// The queue that process uses for requests like this bio, `NONE` if it has none; its group is read
    /// again (8.3).
    fn queue_of(&mut self, now: Instant, io: &Io, cx: &mut Cx<'_>) -> QueueNo {
        let actuator = self.actuator_of(io.end().0, cx.device);
        if self.ctxs.pair(io.proc, actuator).is_none() {
            return QueueNo::NONE;
        }
        let node = self.node_of(io.group, cx.groups);
        if self.ctxs.procs[io.proc.index()].node != node {
            self.group_changed(now, io.proc, node, cx);
        }
        let sync = cx.device.is_sync(io.op, io.flags);
        self.ctxs.pairs[self.ctxs.pair_at(io.proc, actuator)].queue(sync)
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
        let slot = self.rqs.starting_at(&self.queues[q].rqs, end);
        slot.is_some().then(|| (cx.requests.at(slot.0).id, Side::Front))
    }

    pub(super) fn beside(&self, id: ReqId, side: Side, cx: &Cx<'_>) -> Option<ReqId> {
        if self.rqs[id].place != RqPlace::Queued {
            return None;
        }
        let slot = self.rqs.neighbour(id.into(), side);
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
                if side == Side::Front && moved && rq.place == RqPlace::Queued {
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
    ///
    /// The kernel looks at it anew only if it now comes before the one that was before it (Q23).
    fn reposition(&mut self, slot: RqNo) {
        let q = self.rqs[slot].queue;
        let before = self.rqs.neighbour(slot, Side::Front);
        let overtakes = before.is_some() && self.rqs[slot].pos < self.rqs[before].pos;
        let own = &mut self.queues[q].rqs;
        self.rqs.reorder(own, slot);
        if !overtakes && self.conf.base.as_recorded() {
            if own.next == slot {
                self.index_update(q);
            }
            return;
        }
        let old = own.next;
        let next = self.better(old, slot, self.rate.last_pos);
        if next == slot {
            // It may have been next before, and moved.
            self.queues[q].rqs.next = next;
            self.index_update(q);
        }
        if next != old {
            self.queues[q].rqs.next = next;
            self.update_budget(q);
        }
    }

    /// Two requests became one; `gone` is pending, on the dispatch list, or not inserted yet.
    fn joined(&mut self, now: Instant, kept: RqNo, gone: RqNo) {
        let g = self.rqs[gone];
        match g.place {
            RqPlace::Queued => {
                self.inherit_fifo_place(kept, gone);
                let queue = &mut self.queues[g.queue];
                // Where the absorbed request was to be served next, it is the survivor now, which contains it. The
                // reference leaves the budget at what the absorbed one cost (Q24).
                if queue.rqs.next == gone && self.rqs[kept].queue == g.queue {
                    queue.rqs.next = kept;
                    if !self.conf.base.as_recorded() {
                        self.update_budget(g.queue);
                    }
                    self.index_update(g.queue);
                }
                self.remove_request(now, gone);
            }
            RqPlace::Listed => self.rqs.dispatch_list.remove(&mut self.rqs.links, gone.0),
            RqPlace::Prepared => {}
            RqPlace::Nowhere | RqPlace::Issued => panic!("only a waiting request is merged away"),
        }
    }

    /// The survivor of a join takes the earlier fifo place and its deadline.
    fn inherit_fifo_place(&mut self, kept: RqNo, gone: RqNo) {
        let (k, g) = (self.rqs[kept], self.rqs[gone]);
        if k.place != RqPlace::Queued || k.queue != g.queue || g.fifo_deadline >= k.fifo_deadline {
            return;
        }
        self.rqs[kept].fifo_deadline = g.fifo_deadline;
        let fifo = &mut self.queues[g.queue].rqs.fifo;
        fifo.remove(&mut self.rqs.links, kept.0);
        fifo.insert_before(&mut self.rqs.links, gone.0, kept.0);
    }

    /// The request no longer exists: the counts of `prepare` go back.
    #[inline(always)]
    pub(super) fn release(&mut self, now: Instant, slot: RqNo, cx: &mut Cx<'_>) {
        let rq = &mut self.rqs[slot];
        let (queue, proc) = (rq.queue, rq.proc);
        rq.place = RqPlace::Nowhere;
        rq.queue = QueueNo::NONE;
        if queue.is_none() {
            return;
        }
        self.count_allocated(queue, -1);
        let q = &self.queues[queue];
        if q.life.users == 0 && q.rqs.allocated == 0 {
            self.fair.loose.push(queue);
        }
        let ctx = &mut self.ctxs.procs[proc.index()];
        ctx.in_pool -= 1;
        if ctx.gone && ctx.in_pool == 0 {
            // I/O on behalf of a process that had exited made it a queue again.
            self.ctx_exit(now, proc, cx);
        }
    }
}

/// A lone request below this many sectors does not end the wait (5.1 step 10): 16 KiB.
const SMALL: u32 = 32;
