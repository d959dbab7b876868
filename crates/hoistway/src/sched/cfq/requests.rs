//! Requests inside CFQ: insertion, order within a queue, merging, hand-over to the driver
//! (specs/cfq.md 4, 6, 8.4).

use super::queue::ctx_of;
use super::{Cfq, Version, tick};
use crate::env::Cx;
use crate::request::{Dir, Flags, Io, Op, ReqId, Request, Side};
use crate::sched::{At, Depth, Merged, Run};
use crate::table::{Handle, NIL};
use crate::unit::Instant;

/// Where a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Not in this scheduler.
    Nowhere,
    /// Between `prepare` and `insert`.
    Prepared,
    /// Pending in its queue.
    Queued,
    /// On the dispatch list.
    Listed,
    /// With the device.
    Issued,
    /// Given back by the device, between `requeue` and `insert`.
    Returned,
}

/// What is kept per request, by slot: a compact copy of what decisions need.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rq {
    pub id: ReqId,
    pub pos: u64,
    pub len: u32,
    pub queue: u32,
    pub ctx: u32,
    /// Tick.
    pub fifo_deadline: i64,
    /// The tick in which it got its place in the pool, after any wait.
    pub began: i64,
    pub place: Place,
    pub sync: bool,
    pub meta: bool,
    pub noidle: bool,
    /// Nothing on the dispatch list is sorted past it.
    pub started: bool,
    /// Requests of different directions, and discards and others, are not sorted past each other.
    kind: (Dir, bool),
}

impl Rq {
    pub const NONE: Rq = Rq {
        id: ReqId(Handle { slot: NIL, generation: 0 }),
        pos: 0,
        len: 0,
        queue: NIL,
        ctx: NIL,
        fifo_deadline: 0,
        began: 0,
        place: Place::Nowhere,
        sync: false,
        meta: false,
        noidle: false,
        started: false,
        kind: (Dir::Read, false),
    };

    pub fn end(&self) -> u64 {
        self.pos + u64::from(self.len)
    }
}

/// More than this (in sectors: 4 KiB) ends the wait at once (6 step 9).
const SMALL: u32 = 8;

impl Cfq {
    /// Where the request in that slot belongs, at its allocation.
    pub(super) fn prepare_request(&mut self, now: Instant, r: &Request, cx: &mut Cx<'_>) {
        if self.rqs[r.id.index()].place == Place::Returned {
            return; // It keeps its queue.
        }
        let queue = self.resolve(now, r.proc, r.sync, cx);
        self.q_mut(queue).allocated += 1;
        let rq = &mut self.rqs[r.id.index()];
        debug_assert_eq!(rq.place, Place::Nowhere);
        *rq = Rq {
            id: r.id,
            pos: r.start.0,
            len: r.sectors.0 as u32,
            queue,
            ctx: ctx_of(r.proc),
            fifo_deadline: 0,
            began: tick(r.began),
            place: Place::Prepared,
            sync: r.sync,
            meta: r.flags.any(Flags::META),
            noidle: r.flags.any(Flags::NOIDLE),
            started: false,
            kind: (r.dir(), r.op == Op::Discard),
        };
    }

    pub(super) fn insert_request(
        &mut self,
        now: Instant,
        slot: u32,
        at: At,
        cx: &mut Cx<'_>,
    ) -> Run {
        if at == At::Head {
            self.insert_at_head(slot);
            return Run::Usual;
        }
        let rq = self.rqs[slot as usize];
        assert_eq!(rq.place, Place::Prepared, "a request is prepared, then inserted once");
        let (t, q) = (tick(now), rq.queue);
        self.renew_priority(q, super::queue::proc_of(rq.ctx), cx);
        let from = if self.version == Version::V30 { rq.began } else { t };
        let kept = &mut self.rqs[slot as usize];
        kept.fifo_deadline = from + self.conf.fifo_expire[usize::from(rq.sync)];
        kept.place = Place::Queued;
        self.queues[q as usize].fifo.push_back(&mut self.links, slot);
        self.queues[q as usize].queued += 1;
        self.queued_total += 1;
        self.queues[q as usize].meta_pending += u32::from(rq.meta);
        self.sort(t, slot);
        self.sample(t, &rq);
        self.update_idle_window(q, rq.ctx, cx);
        self.q_mut(q).last_pos = rq.end();
        if self.active == q {
            return self.request_of_active(q, &rq);
        }
        match self.preempts(t, q, &rq) {
            Some(why) => {
                self.preempt(now, q, why, cx);
                Run::Now
            }
            None => Run::Usual,
        }
    }

    /// Requeued requests and whatever else goes before everything.
    fn insert_at_head(&mut self, slot: u32) {
        let rq = &mut self.rqs[slot as usize];
        let counted = rq.place == Place::Returned;
        assert!(
            counted || rq.place == Place::Prepared,
            "a request is prepared before it is inserted"
        );
        rq.place = Place::Listed;
        rq.started = true;
        let q = rq.queue;
        if !counted {
            self.count_dispatched(q);
        }
        self.dispatch_list.push_front(&mut self.links, slot);
    }

    /// 6 step 9 for the queue being served.
    fn request_of_active(&mut self, q: u32, rq: &Rq) -> Run {
        if !self.q(q).wait_request {
            return Run::Usual;
        }
        if rq.len > SMALL || self.busy_queues > 1 {
            self.timer = None;
            self.q_mut(q).wait_request = false;
            self.idle_useful += 1;
            return Run::Now;
        }
        // More may come and merge with it. The timer keeps running.
        self.q_mut(q).must_dispatch = true;
        Run::Usual
    }

    /// 6 steps 2 and 3: into the sorted set; an older request at the same sector is handed over.
    /// Makes the queue busy.
    fn sort(&mut self, t: i64, slot: u32) {
        let rq = self.rqs[slot as usize];
        let q = rq.queue;
        loop {
            let sorted = &self.queues[q as usize].sorted;
            let alias = sorted.lower_bound(&self.sorted, rq.pos);
            if alias == NIL || self.sorted.key(alias) != rq.pos {
                break;
            }
            self.hand_over(alias);
        }
        self.queues[q as usize].sorted.insert(&mut self.sorted, slot, rq.pos, ());
        if !self.q(q).on_rr {
            self.become_busy(t, q);
        }
        let old = self.q(q).next;
        let next = self.choose(old, slot, self.last_pos);
        self.q_mut(q).next = next;
        // The active queue is looked for by nobody, and placed anew when its slice ends.
        if next != old || self.active != q {
            self.follow_next(q);
        }
    }

    /// The near-tree shows where `next` is.
    fn follow_next(&mut self, q: u32) {
        let queue = self.q(q);
        if queue.next != NIL && self.rqs[queue.next as usize].pos != queue.near_at {
            self.find_near_place(q);
        }
    }

    /// Which of two pending requests (or `NIL`) is better served by a head at `pos` (section 4)?
    pub(super) fn choose(&self, a: u32, b: u32, pos: u64) -> u32 {
        if a == NIL || a == b {
            return b;
        }
        if b == NIL {
            return a;
        }
        let (x, y) = (&self.rqs[a as usize], &self.rqs[b as usize]);
        if x.sync != y.sync {
            return if x.sync { a } else { b };
        }
        if x.meta != y.meta {
            return if x.meta { a } else { b };
        }
        let back_max = 2 * self.conf.back_max_kib;
        let distance = |start: u64| {
            if start >= pos {
                Some(start - pos)
            } else if start + back_max >= pos {
                Some((pos - start) * self.conf.back_penalty)
            } else {
                None // Wrapped: the next sweep.
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

    /// The request to be served after that one, which is still in its queue.
    fn after(&self, slot: u32) -> u32 {
        let rq = &self.rqs[slot as usize];
        let mut after = self.sorted.next(slot);
        if after == NIL {
            let first = self.q(rq.queue).sorted.first();
            after = if first == slot { NIL } else { first };
        }
        let from = if self.version == Version::V30 { self.last_pos } else { rq.pos };
        self.choose(after, self.sorted.prev(slot), from)
    }

    /// Takes a pending request out of its queue; `next` is chosen by the caller.
    fn unqueue(&mut self, slot: u32) {
        let rq = self.rqs[slot as usize];
        let queue = &mut self.queues[rq.queue as usize];
        queue.sorted.remove(&mut self.sorted, slot);
        queue.fifo.remove(&mut self.links, slot);
        queue.queued -= 1;
        queue.meta_pending -= u32::from(rq.meta);
        self.queued_total -= 1;
        if self.q(rq.queue).empty() {
            self.leave_near(rq.queue);
            if self.version == Version::V30 && self.q(rq.queue).on_rr {
                self.stop_busy(rq.queue);
            }
        }
    }

    fn count_dispatched(&mut self, q: u32) {
        let queue = &mut self.queues[q as usize];
        queue.dispatched += 1;
        self.in_flight[usize::from(queue.sync)] += 1;
        self.groups[queue.group as usize].dispatched += 1;
    }

    /// 8.4: from its queue to the dispatch list.
    pub(super) fn hand_over(&mut self, slot: u32) {
        let q = self.rqs[slot as usize].queue;
        let next = self.after(slot);
        self.q_mut(q).next = next;
        self.unqueue(slot);
        self.count_dispatched(q);
        self.rqs[slot as usize].place = Place::Listed;
        self.list_sorted(slot);
    }

    /// Sorted insertion into the dispatch list: a one-way elevator from the end of the last request
    /// that went to the driver, with wrap-around (specs/blk-mq-and-noop.md 7.2). The list is empty
    /// but for aliases, requeues and drains.
    fn list_sorted(&mut self, slot: u32) {
        let new = self.rqs[slot as usize];
        let boundary = self.last_pos;
        let mut at = self.dispatch_list.tail();
        while at != NIL {
            let e = &self.rqs[at as usize];
            let stop = if new.pos >= boundary {
                e.pos >= boundary && new.pos >= e.pos
            } else {
                e.pos >= boundary || new.pos >= e.pos
            };
            if e.kind != new.kind || e.started || stop {
                break;
            }
            at = self.links.prev(at);
        }
        let before = if at == NIL { self.dispatch_list.head() } else { self.links.next(at) };
        if before == NIL {
            self.dispatch_list.push_back(&mut self.links, slot);
        } else {
            self.dispatch_list.insert_before(&mut self.links, before, slot);
        }
    }

    /// The first of the dispatch list goes to the driver (*activate*).
    pub(super) fn issue(&mut self) -> Option<ReqId> {
        let slot = self.dispatch_list.pop_front(&mut self.links)?;
        let rq = &mut self.rqs[slot as usize];
        rq.place = Place::Issued;
        self.in_driver += 1;
        self.last_pos = rq.end();
        Some(rq.id)
    }

    /// The driver gives it back (*deactivate*).
    pub(super) fn give_back(&mut self, slot: u32) {
        let rq = &mut self.rqs[slot as usize];
        assert_eq!(rq.place, Place::Issued, "only the device gives requests back");
        rq.place = Place::Returned;
        self.in_driver -= 1;
    }

    // Merging: 6.3.

    /// The queue the issuer would use, `NIL` if it has none.
    fn queue_of(&self, io: &Io, cx: &Cx<'_>) -> u32 {
        let sync = cx.device.is_sync(io.op, io.flags);
        self.ctxs.get(ctx_of(io.proc) as usize).map_or(NIL, |ctx| ctx.queue(sync))
    }

    /// The veto.
    pub(super) fn allows_merge(&self, io: &Io, into: ReqId, cx: &Cx<'_>) -> bool {
        let rq = &self.rqs[into.index()];
        let sync = cx.device.is_sync(io.op, io.flags);
        // What has left its queue has left the elevator: it joins nothing any more.
        let waits = matches!(rq.place, Place::Queued | Place::Prepared);
        waits && (!sync || rq.sync) && rq.queue == self.queue_of(io, cx)
    }

    pub(super) fn front_merge(&self, io: &Io, cx: &Cx<'_>) -> Option<(ReqId, Side)> {
        let q = self.queue_of(io, cx);
        if q == NIL {
            return None;
        }
        let end = io.end().0;
        let slot = self.q(q).sorted.lower_bound(&self.sorted, end);
        let hit = slot != NIL && self.sorted.key(slot) == end;
        hit.then(|| (self.rqs[slot as usize].id, Side::Front))
    }

    pub(super) fn beside(&self, id: ReqId, side: Side) -> Option<ReqId> {
        let rq = &self.rqs[id.index()];
        if rq.id != id || rq.place != Place::Queued {
            return None;
        }
        let slot = match side {
            Side::Front => self.sorted.prev(id.slot()),
            Side::Back => self.sorted.next(id.slot()),
        };
        (slot != NIL).then(|| self.rqs[slot as usize].id)
    }

    pub(super) fn was_merged(&mut self, now: Instant, kept: ReqId, what: Merged, cx: &mut Cx<'_>) {
        match what {
            Merged::Bio(side) => {
                let r = &cx.requests[kept];
                let rq = &mut self.rqs[kept.index()];
                rq.len = r.sectors.0 as u32;
                let moved = rq.pos != r.start.0;
                if side == Side::Front && moved && rq.place == Place::Queued {
                    self.reposition(tick(now), kept.slot(), r.start.0);
                } else {
                    rq.pos = r.start.0;
                }
            }
            Merged::Request(gone) => {
                let both = cx.requests[kept].sectors.0 + cx.requests[gone].sectors.0;
                self.rqs[kept.index()].len = both as u32;
                self.joined(kept.slot(), gone.slot());
                self.release(now, gone.slot(), cx);
            }
        }
    }

    /// A front merge moved the start of a pending request: sorted anew, its place in the fifo
    /// stays.
    fn reposition(&mut self, t: i64, slot: u32, start: u64) {
        let q = self.rqs[slot as usize].queue;
        self.queues[q as usize].sorted.remove(&mut self.sorted, slot);
        self.rqs[slot as usize].pos = start;
        self.sort(t, slot);
    }

    /// `gone` is pending or not inserted yet; `kept` contains it now.
    fn joined(&mut self, kept: u32, gone: u32) {
        let (k, g) = (self.rqs[kept as usize], self.rqs[gone as usize]);
        match g.place {
            Place::Prepared => return,
            Place::Queued => {}
            Place::Listed => return self.dispatched_was_joined(gone),
            _ => panic!("only a waiting request is merged away"),
        }
        let together = k.place == Place::Queued && k.queue == g.queue;
        if together && g.fifo_deadline < k.fifo_deadline {
            self.rqs[kept as usize].fifo_deadline = g.fifo_deadline;
            let fifo = &mut self.queues[g.queue as usize].fifo;
            fifo.remove(&mut self.links, kept);
            fifo.insert_before(&mut self.links, gone, kept);
        }
        if self.q(g.queue).next == gone {
            let next = if together { kept } else { self.after(gone) };
            self.q_mut(g.queue).next = next;
        }
        self.unqueue(gone);
        if !self.q(g.queue).empty() {
            self.follow_next(g.queue);
        } else if self.active != g.queue && self.q(g.queue).on_rr {
            // Merged into a request of another queue (only without the veto): only the active queue
            // may be busy and empty.
            self.stop_busy(g.queue);
        }
    }

    /// A request on the dispatch list is merged away: the insertion merge of the multi-queue
    /// profile asks for no veto.
    fn dispatched_was_joined(&mut self, gone: u32) {
        self.dispatch_list.remove(&mut self.links, gone);
        let q = self.rqs[gone as usize].queue;
        let queue = &mut self.queues[q as usize];
        queue.dispatched -= 1;
        self.in_flight[usize::from(queue.sync)] -= 1;
        self.groups[queue.group as usize].dispatched -= 1;
    }

    /// The request no longer exists.
    pub(super) fn release(&mut self, now: Instant, slot: u32, cx: &mut Cx<'_>) {
        let q = core::mem::replace(&mut self.rqs[slot as usize], Rq::NONE).queue;
        self.q_mut(q).allocated -= 1;
        self.free_unused(now, q, cx);
    }

    /// 6.4: once per slice the queue that is idled for may pass the limit of the pool.
    pub(super) fn allocation_check(&mut self, io: &Io, cx: &Cx<'_>) -> Depth {
        let q = self.queue_of(io, cx);
        if q == NIL {
            return Depth::Usual;
        }
        self.renew_priority(q, io.proc, cx);
        let queue = self.q_mut(q);
        if queue.wait_request && !queue.must_alloc {
            queue.must_alloc = true;
            return Depth::Insist;
        }
        Depth::Usual
    }
}
