//! Requests inside CFQ: insertion, order within a queue, merging, hand-over to the driver
//! (specs/cfq.md 4, 6, 8.4).

use super::ids::{CtxNo, QueueNo, RqNo};
use super::queue::PendingRqs;
use super::{Cfq, Version, tick};
use crate::env::Cx;
use crate::list::{Links, List};
use crate::request::{Dir, Flags, Io, Op, ReqId, Request, Side};
use crate::rows::{Id, Rows};
use crate::sched::seek::{Arm, Candidate};
use crate::sched::{At, Depth, Merged, Run};
use crate::table::{Handle, NIL};
use crate::tree::Nodes;
use crate::unit::Instant;
use alloc::vec;

/// Where a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CfqPlace {
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
pub(super) struct CfqRq {
    pub id: ReqId,
    pub pos: u64,
    pub len: u32,
    pub queue: QueueNo,
    pub ctx: CtxNo,
    /// Tick.
    pub fifo_deadline: i64,
    /// The tick in which it got its place in the pool, after any wait.
    pub began: i64,
    pub place: CfqPlace,
    pub sync: bool,
    pub meta: bool,
    pub noidle: bool,
    /// Nothing on the dispatch list is sorted past it.
    pub started: bool,
    /// Requests of different directions, and discards and others, are not sorted past each other.
    kind: (Dir, bool),
}

impl CfqRq {
    pub const NONE: CfqRq = CfqRq {
        id: ReqId(Handle { slot: NIL, generation: 0 }),
        pos: 0,
        len: 0,
        queue: QueueNo::NONE,
        ctx: CtxNo::NONE,
        fifo_deadline: 0,
        began: 0,
        place: CfqPlace::Nowhere,
        sync: false,
        meta: false,
        noidle: false,
        started: false,
        kind: (Dir::Read, false),
    };

    pub fn end(&self) -> u64 {
        self.pos + u64::from(self.len)
    }

    fn target(&self) -> Candidate {
        Candidate { start: self.pos, sync: self.sync, meta: self.meta }
    }
}

/// The slot of a request.
pub(super) fn slot(id: ReqId) -> RqNo {
    RqNo(id.slot())
}

/// All requests: pending in their queues, handed over, with the driver.
#[derive(Debug)]
pub(super) struct RqPool {
    pub rqs: Rows<RqNo, CfqRq>,
    /// Pending requests of each queue by sector.
    sorted: Nodes<u64>,
    /// A request is on its queue's fifo or on the dispatch list.
    links: Links,
    /// Handed over beside the request that was asked for, or given back by the device.
    pub listed: List,
    /// End of the last request that went to the driver: where the head is, as far as one can know.
    pub head: u64,
    /// Pending in all queues.
    pub queued: u32,
    pub in_driver: u32,
    /// Handed over and not completed, of async and sync queues.
    pub in_flight: [u32; 2],
}

impl RqPool {
    pub fn new(requests: usize) -> RqPool {
        RqPool {
            rqs: Rows::from(vec![CfqRq::NONE; requests]),
            sorted: Nodes::new(requests),
            links: Links::new(requests),
            listed: List::new(),
            head: 0,
            queued: 0,
            in_driver: 0,
            in_flight: [0; 2],
        }
    }

    /// A request becomes pending; it is sorted apart.
    fn pend(&mut self, pending: &mut PendingRqs, slot: RqNo, deadline: i64) {
        let rq = &mut self.rqs[slot];
        rq.fifo_deadline = deadline;
        rq.place = CfqPlace::Queued;
        pending.fifo.push_back(&mut self.links, slot.0);
        pending.queued += 1;
        pending.meta += u32::from(rq.meta);
        self.queued += 1;
    }

    /// It is pending no longer; `next` is chosen by the caller.
    fn unpend(&mut self, pending: &mut PendingRqs, slot: RqNo) {
        pending.sorted.remove(&mut self.sorted, slot.0);
        pending.fifo.remove(&mut self.links, slot.0);
        pending.queued -= 1;
        pending.meta -= u32::from(self.rqs[slot].meta);
        self.queued -= 1;
    }

    /// The pending request that begins at that sector.
    fn starts_at(&self, pending: &PendingRqs, sector: u64) -> RqNo {
        let found = pending.sorted.lower_bound(&self.sorted, sector);
        let hit = found != NIL && self.sorted.key(found) == sector;
        if hit { RqNo(found) } else { RqNo::NONE }
    }

    /// The better of two pending requests for a head at `head` (section 4).
    pub fn choose(&self, arm: Arm, a: RqNo, b: RqNo, head: u64) -> RqNo {
        arm.better(a, b, head, |rq| self.rqs[rq].target())
    }

    /// `kept` has taken in `gone`, which was older: it stands where that stood.
    fn take_place(&mut self, pending: &mut PendingRqs, kept: RqNo, gone: RqNo) {
        let older = self.rqs[gone].fifo_deadline;
        if older < self.rqs[kept].fifo_deadline {
            self.rqs[kept].fifo_deadline = older;
            pending.fifo.remove(&mut self.links, kept.0);
            pending.fifo.insert_before(&mut self.links, gone.0, kept.0);
        }
    }

    /// Sorted insertion into the dispatch list: a one-way elevator from the end of the last request
    /// that went to the driver, with wrap-around (specs/blk-mq-and-noop.md 7.2). The list is empty
    /// but for aliases, requeues and drains.
    fn list_sorted(&mut self, slot: RqNo) {
        self.rqs[slot].place = CfqPlace::Listed;
        let new = self.rqs[slot];
        let boundary = self.head;
        let mut at = self.listed.tail();
        while at != NIL {
            let e = &self.rqs[RqNo(at)];
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
        let before = if at == NIL { self.listed.head() } else { self.links.next(at) };
        if before == NIL {
            self.listed.push_back(&mut self.links, slot.0);
        } else {
            self.listed.insert_before(&mut self.links, before, slot.0);
        }
    }

    fn list_first(&mut self, slot: RqNo) {
        let rq = &mut self.rqs[slot];
        rq.place = CfqPlace::Listed;
        rq.started = true;
        self.listed.push_front(&mut self.links, slot.0);
    }

    /// The first of the dispatch list goes to the driver (*activate*).
    pub fn issue(&mut self) -> Option<ReqId> {
        let slot = RqNo(self.listed.pop_front(&mut self.links)?);
        let rq = &mut self.rqs[slot];
        rq.place = CfqPlace::Issued;
        self.in_driver += 1;
        self.head = rq.end();
        Some(rq.id)
    }

    /// The driver gives it back (*deactivate*).
    pub fn give_back(&mut self, slot: RqNo) {
        let rq = &mut self.rqs[slot];
        assert_eq!(rq.place, CfqPlace::Issued, "only the device gives requests back");
        rq.place = CfqPlace::Returned;
        self.in_driver -= 1;
    }
}

/// More than this (in sectors: 4 KiB) ends the wait at once (6 step 9). A smaller one may be the first of a run whose
/// others the plug still holds, and sent alone it would merge with none of them. Waiting for every request cost half of
/// the speed of a threaded reader, hence the limit (ML "cfq-iosched: don't delay queue kick for a merged request").
const SMALL: u32 = 8;

impl Cfq {
    /// Where the request in that slot belongs, at its allocation.
    pub(super) fn prepare_request(&mut self, now: Instant, r: &Request, cx: &mut Cx<'_>) {
        let slot = slot(r.id);
        if self.pool.rqs[slot].place == CfqPlace::Returned {
            return; // It keeps its queue.
        }
        let queue = self.resolve(now, r.proc, r.sync, cx);
        self.queues[queue].allocated += 1;
        let rq = &mut self.pool.rqs[slot];
        debug_assert_eq!(rq.place, CfqPlace::Nowhere);
        *rq = CfqRq {
            id: r.id,
            pos: r.start.0,
            len: r.sectors.0 as u32,
            queue,
            ctx: CtxNo::of(r.proc),
            fifo_deadline: 0,
            began: tick(r.began),
            place: CfqPlace::Prepared,
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
        slot: RqNo,
        at: At,
        cx: &mut Cx<'_>,
    ) -> Run {
        if at == At::Head {
            self.insert_at_head(slot);
            return Run::Usual;
        }
        let rq = self.pool.rqs[slot];
        assert_eq!(rq.place, CfqPlace::Prepared, "a request is prepared, then inserted once");
        let (t, q) = (tick(now), rq.queue);
        self.renew_priority(q, rq.ctx.proc(), cx);
        let from = if self.version == Version::V30 { rq.began } else { t };
        let deadline = from + self.conf.fifo_expire[usize::from(rq.sync)];
        self.pool.pend(&mut self.queues[q].pending, slot, deadline);
        self.sort(t, slot);
        self.learn(t, &rq);
        self.update_idle_window(q, rq.ctx, cx);
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
    fn insert_at_head(&mut self, slot: RqNo) {
        let rq = self.pool.rqs[slot];
        let counted = rq.place == CfqPlace::Returned;
        assert!(
            counted || rq.place == CfqPlace::Prepared,
            "a request is prepared before it is inserted"
        );
        if !counted {
            self.count_dispatched(rq.queue);
        }
        self.pool.list_first(slot);
    }

    /// 6 step 9 for the queue being served.
    fn request_of_active(&mut self, q: QueueNo, rq: &CfqRq) -> Run {
        let slice = &mut self.queues[q].slice;
        if !slice.wait_request {
            return Run::Usual;
        }
        if rq.len > SMALL || self.busy_queues > 1 {
            self.timer = None;
            slice.wait_request = false;
            self.stats.idle_useful += 1;
            return Run::Now;
        }
        // More may come and merge with it. The timer keeps running.
        slice.must_dispatch = true;
        Run::Usual
    }

    /// 6 steps 2 and 3: into the sorted set; an older request at the same sector is handed over.
    /// Makes the queue busy.
    fn sort(&mut self, t: i64, slot: RqNo) {
        let rq = self.pool.rqs[slot];
        let q = rq.queue;
        while let Some(alias) = self.pool.starts_at(&self.queues[q].pending, rq.pos).some() {
            self.hand_over(alias);
        }
        let sorted = &mut self.queues[q].pending.sorted;
        sorted.insert(&mut self.pool.sorted, slot.0, rq.pos, ());
        if !self.queues[q].turn.busy {
            self.become_busy(t, q);
        }
        let old = self.queues[q].pending.next;
        let next = self.choose(old, slot, self.pool.head);
        self.queues[q].pending.next = next;
        // The active queue is looked for by nobody, and placed anew when its slice ends.
        if next != old || self.active != q {
            self.follow_next(q);
        }
    }

    /// Which of two pending requests (or nobody) is better served by a head at `head` (section 4)?
    pub(super) fn choose(&self, a: RqNo, b: RqNo, head: u64) -> RqNo {
        let back_max = 2 * self.conf.back_max_kib;
        let arm = Arm { back_max, back_penalty: self.conf.back_penalty };
        self.pool.choose(arm, a, b, head)
    }

    /// The request to be served after that one, which is still in its queue.
    fn after(&self, slot: RqNo) -> RqNo {
        let rq = &self.pool.rqs[slot];
        let mut after = RqNo(self.pool.sorted.next(slot.0));
        if after.is_none() {
            let first = RqNo(self.queues[rq.queue].pending.sorted.first());
            after = if first == slot { RqNo::NONE } else { first };
        }
        let from = if self.version == Version::V30 { self.pool.head } else { rq.pos };
        self.choose(after, RqNo(self.pool.sorted.prev(slot.0)), from)
    }

    /// Takes a pending request out of its queue; `next` is chosen by the caller.
    fn unqueue(&mut self, slot: RqNo) {
        let q = self.pool.rqs[slot].queue;
        self.pool.unpend(&mut self.queues[q].pending, slot);
        if self.queues[q].empty() {
            self.leave_near(q);
            if self.version == Version::V30 && self.queues[q].turn.busy {
                self.stop_busy(q);
            }
        }
    }

    fn count_dispatched(&mut self, q: QueueNo) {
        let queue = &mut self.queues[q];
        queue.dispatched += 1;
        self.pool.in_flight[usize::from(queue.sync)] += 1;
        self.groups.rows[queue.turn.group].dispatched += 1;
    }

    /// The other way: completed, or merged away behind the queue.
    pub(super) fn count_returned(&mut self, q: QueueNo) {
        let queue = &mut self.queues[q];
        queue.dispatched -= 1;
        self.pool.in_flight[usize::from(queue.sync)] -= 1;
        self.groups.rows[queue.turn.group].dispatched -= 1;
    }

    /// 8.4: from its queue to the dispatch list.
    pub(super) fn hand_over(&mut self, slot: RqNo) {
        let q = self.pool.rqs[slot].queue;
        let next = self.after(slot);
        self.queues[q].pending.next = next;
        self.unqueue(slot);
        self.count_dispatched(q);
        self.pool.list_sorted(slot);
    }

    // Merging: 6.3.

    /// The queue the issuer would use, nobody if it has none.
    fn queue_of(&self, io: &Io, cx: &Cx<'_>) -> QueueNo {
        let sync = cx.device.is_sync(io.op, io.flags);
        self.ctxs.get(CtxNo::of(io.proc)).map_or(QueueNo::NONE, |ctx| ctx.queue(sync))
    }

    /// The veto: no I/O joins a request of another queue, which would be served and charged for it; and no sync one a
    /// request that nobody waits for.
    pub(super) fn allows_merge(&self, io: &Io, into: ReqId, cx: &Cx<'_>) -> bool {
        let rq = &self.pool.rqs[slot(into)];
        let sync = cx.device.is_sync(io.op, io.flags);
        // What has left its queue has left the elevator: it joins nothing any more.
        let waits = matches!(rq.place, CfqPlace::Queued | CfqPlace::Prepared);
        waits && (!sync || rq.sync) && rq.queue == self.queue_of(io, cx)
    }

    pub(super) fn front_merge(&self, io: &Io, cx: &Cx<'_>) -> Option<(ReqId, Side)> {
        let q = self.queue_of(io, cx);
        if q.is_none() {
            return None;
        }
        let found = self.pool.starts_at(&self.queues[q].pending, io.end().0).some()?;
        Some((self.pool.rqs[found].id, Side::Front))
    }

    pub(super) fn beside(&self, id: ReqId, side: Side) -> Option<ReqId> {
        let rq = &self.pool.rqs[slot(id)];
        if rq.id != id || rq.place != CfqPlace::Queued {
            return None;
        }
        let beside = RqNo(match side {
            Side::Front => self.pool.sorted.prev(id.slot()),
            Side::Back => self.pool.sorted.next(id.slot()),
        });
        beside.some().map(|rq| self.pool.rqs[rq].id)
    }

    pub(super) fn was_merged(&mut self, now: Instant, kept: ReqId, what: Merged, cx: &mut Cx<'_>) {
        match what {
            Merged::Bio(side) => {
                let r = &cx.requests[kept];
                let rq = &mut self.pool.rqs[slot(kept)];
                rq.len = r.sectors.0 as u32;
                let moved = rq.pos != r.start.0;
                if side == Side::Front && moved && rq.place == CfqPlace::Queued {
                    self.reposition(tick(now), slot(kept), r.start.0);
                } else {
                    rq.pos = r.start.0;
                }
            }
            Merged::Request(gone) => {
                let both = cx.requests[kept].sectors.0 + cx.requests[gone].sectors.0;
                self.pool.rqs[slot(kept)].len = both as u32;
                self.joined(slot(kept), slot(gone));
                self.release(now, slot(gone), cx);
            }
        }
    }

    /// A front merge moved the start of a pending request: sorted anew, its place in the fifo
    /// stays.
    fn reposition(&mut self, t: i64, slot: RqNo, start: u64) {
        let q = self.pool.rqs[slot].queue;
        self.queues[q].pending.sorted.remove(&mut self.pool.sorted, slot.0);
        self.pool.rqs[slot].pos = start;
        self.sort(t, slot);
    }

    /// `gone` is pending or not inserted yet; `kept` contains it now.
    fn joined(&mut self, kept: RqNo, gone: RqNo) {
        let (k, g) = (self.pool.rqs[kept], self.pool.rqs[gone]);
        match g.place {
            CfqPlace::Prepared => return,
            CfqPlace::Queued => {}
            CfqPlace::Listed => {
                // The insertion merge of the multi-queue profile asks for no veto.
                self.pool.listed.remove(&mut self.pool.links, gone.0);
                return self.count_returned(g.queue);
            }
            _ => panic!("only a waiting request is merged away"),
        }
        let together = k.place == CfqPlace::Queued && k.queue == g.queue;
        if together {
            self.pool.take_place(&mut self.queues[g.queue].pending, kept, gone);
        }
        if self.queues[g.queue].pending.next == gone {
            let next = if together { kept } else { self.after(gone) };
            self.queues[g.queue].pending.next = next;
        }
        self.unqueue(gone);
        if !self.queues[g.queue].empty() {
            self.follow_next(g.queue);
        } else if self.active != g.queue && self.queues[g.queue].turn.busy {
            // Merged into a request of another queue (only without the veto): only the active queue
            // may be busy and empty.
            self.stop_busy(g.queue);
        }
    }

    /// The request no longer exists.
    pub(super) fn release(&mut self, now: Instant, slot: RqNo, cx: &mut Cx<'_>) {
        let q = core::mem::replace(&mut self.pool.rqs[slot], CfqRq::NONE).queue;
        self.queues[q].allocated -= 1;
        self.free_unused(now, q, cx);
    }

    /// 6.4: once per slice the queue that is idled for may pass the limit of the pool. In a pool full of others'
    /// requests the device would be kept idle for a process that waits for a place.
    pub(super) fn allocation_check(&mut self, io: &Io, cx: &Cx<'_>) -> Depth {
        let q = self.queue_of(io, cx);
        if q.is_none() {
            return Depth::Usual;
        }
        self.renew_priority(q, io.proc, cx);
        let slice = &mut self.queues[q].slice;
        if slice.wait_request && !slice.must_alloc {
            slice.must_alloc = true;
            return Depth::Insist;
        }
        Depth::Usual
    }
}
