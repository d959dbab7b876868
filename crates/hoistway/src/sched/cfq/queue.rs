//! Queues and processes: which queue a process's requests go to, its priority and group, how queues
//! of cooperating processes are merged and split again, and when a queue is freed (specs/cfq.md 3,
//! 6, 7.7, 11).

use super::coop::{Near, Sharing};
use super::group::TreeNo;
use super::habits::{Distance, SeekHistory, ThinkTime};
use super::ids::{CtxNo, QueueNo, RqNo};
use super::slice::Slice;
use super::{BE, Cfq, IDLE, QUEUES, RT, Version, tick};
use crate::env::Cx;
use crate::group::{GroupId, ProcId};
use crate::list::List;
use crate::rows::{Id, Rows};
use crate::tree::Tree;
use crate::unit::{Class, Instant, IoPrio};
use alloc::vec::Vec;
use core::ops::{Index, IndexMut};

/// The pending requests of a queue.
#[derive(Clone, Debug)]
pub(super) struct PendingRqs {
    /// By start sector, and by arrival.
    pub sorted: Tree,
    pub fifo: List,
    /// The best next request, nobody if there is none.
    pub next: RqNo,
    pub queued: u32,
    /// Metadata among them.
    pub meta: u32,
}

/// Where a queue stands in the order of service.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turn {
    /// Its group, and the group it is only away from while it is not worth idling for.
    pub group: GroupId,
    pub home: GroupId,
    /// The tree it is in (or was in last), and its key there.
    pub tree: TreeNo,
    pub key: i64,
    /// Busy: in a service tree.
    pub busy: bool,
}

/// One queue. Times are ticks.
#[derive(Clone, Debug)]
pub(super) struct CfqQueue {
    /// Not on the free list.
    pub live: bool,
    pub sync: bool,
    pub class: u8,
    pub level: u8,
    pub prio_changed: bool,
    /// It is worth idling for.
    pub idle_window: bool,
    /// It had several requests at a time: seeks are cheap then, since the device sorts them.
    pub deep: bool,
    /// Handed over and not completed.
    pub dispatched: u32,
    /// Requests that exist: from `prepare` to completion.
    pub allocated: u32,

    pub pending: PendingRqs,
    pub slice: Slice,
    pub turn: Turn,
    pub seek: SeekHistory,
    pub near: Near,
    pub sharing: Sharing,
}

impl CfqQueue {
    pub fn new(sync: bool, class: u8, level: u8, group: GroupId) -> CfqQueue {
        CfqQueue {
            live: true,
            sync,
            class,
            level,
            prio_changed: false,
            idle_window: sync && class != IDLE,
            deep: false,
            dispatched: 0,
            allocated: 0,
            pending: PendingRqs {
                sorted: Tree::new(),
                fifo: List::new(),
                next: RqNo::NONE,
                queued: 0,
                meta: 0,
            },
            slice: Slice::NONE,
            turn: Turn {
                group,
                home: GroupId::NONE,
                tree: TreeNo { group: GroupId::NONE, number: 0 },
                key: 0,
                busy: false,
            },
            seek: SeekHistory::default(),
            near: Near::NOWHERE,
            sharing: Sharing::NONE,
        }
    }

    pub fn empty(&self) -> bool {
        self.pending.queued == 0
    }
}

/// All queues. The number of one that is freed is given out again.
#[derive(Debug)]
pub(super) struct CfqQueues {
    rows: Rows<QueueNo, CfqQueue>,
    free: Vec<QueueNo>,
    /// The shared queues of async requests: RT by level, BE by level, IDLE. Writes are carried out by kernel threads
    /// long after the process that dirtied the pages has gone on, so that they are nobody's in particular.
    pub shared: [QueueNo; 17],
}

impl CfqQueues {
    pub fn new() -> CfqQueues {
        CfqQueues {
            rows: Rows::with_capacity(QUEUES),
            free: Vec::with_capacity(QUEUES),
            shared: [QueueNo::NONE; 17],
        }
    }

    pub fn add(&mut self, queue: CfqQueue) -> QueueNo {
        if let Some(q) = self.free.pop() {
            self.rows[q] = queue;
            return q;
        }
        let q = self.rows.push(queue);
        // The free list can then hold every queue.
        self.free.reserve(self.room() - self.free.len());
        q
    }

    /// So many queues are prepared for: doubled, so that nodes of trees are rarely made.
    pub fn room(&self) -> usize {
        self.rows.len().next_power_of_two().max(QUEUES)
    }

    pub fn free(&mut self, q: QueueNo) {
        self.rows[q].live = false;
        self.free.push(q);
    }

    pub fn ids(&self) -> impl Iterator<Item = QueueNo> + use<> {
        self.rows.ids()
    }

    /// Those that exist.
    pub fn live(&self) -> impl Iterator<Item = (QueueNo, &CfqQueue)> {
        self.rows.pairs().filter(|(_, queue)| queue.live)
    }

    /// How many exist.
    pub fn count(&self) -> usize {
        self.rows.len() - self.free.len()
    }
}

impl Index<QueueNo> for CfqQueues {
    type Output = CfqQueue;
    #[inline]
    fn index(&self, q: QueueNo) -> &CfqQueue {
        &self.rows[q]
    }
}

impl IndexMut<QueueNo> for CfqQueues {
    #[inline]
    fn index_mut(&mut self, q: QueueNo) -> &mut CfqQueue {
        &mut self.rows[q]
    }
}

/// One process and this device.
#[derive(Clone, Copy, Debug)]
pub(super) struct CfqCtx {
    pub sync_q: QueueNo,
    pub async_q: QueueNo,
    pub think: ThinkTime,
    /// 2.6.30: how far its requests are from each other.
    pub distance: Distance,
}

impl CfqCtx {
    fn new(t: i64) -> CfqCtx {
        CfqCtx {
            sync_q: QueueNo::NONE,
            async_q: QueueNo::NONE,
            think: ThinkTime::new(t),
            distance: Distance::default(),
        }
    }

    pub fn queue(&self, sync: bool) -> QueueNo {
        if sync { self.sync_q } else { self.async_q }
    }
}

/// Where the shared async queue of a priority is found: 8 levels of RT, 8 of BE, one of IDLE. A
/// priority that was never set counts as best-effort 4.
fn async_slot(prio: IoPrio) -> usize {
    match prio.class() {
        Class::Rt => usize::from(prio.level()),
        Class::Be => 8 + usize::from(prio.level()),
        Class::None => 8 + 4,
        Class::Idle => 16,
    }
}

fn class_level(effective: IoPrio) -> (u8, u8) {
    match effective.class() {
        Class::Rt => (RT, effective.level()),
        Class::Be => (BE, effective.level()),
        Class::None => (BE, 4),
        Class::Idle => (IDLE, 7),
    }
}

impl Cfq {
    /// The process of that context still runs.
    pub(super) fn alive(&self, ctx: CtxNo, cx: &Cx<'_>) -> bool {
        cx.procs.get(ctx.proc()).is_some_and(|p| p.alive)
    }

    /// The queue a new request of that process belongs to: section 6, `prepare`.
    pub(super) fn resolve(
        &mut self,
        now: Instant,
        proc: ProcId,
        sync: bool,
        cx: &mut Cx<'_>,
    ) -> QueueNo {
        let ctx = CtxNo::of(proc);
        while self.ctxs.get(ctx).is_none() {
            self.ctxs.push(CfqCtx::new(tick(now)));
        }
        if !sync {
            return self.resolve_async(now, ctx, proc, cx);
        }
        let before = self.ctxs[ctx].sync_q;
        let mut q = before;
        if q.is_some() && self.queues[q].sharing.coop && self.queues[q].sharing.split {
            q = self.split(now, ctx, q, cx);
        }
        if q.is_none() {
            let (class, level) = class_level(cx.procs.prio(proc));
            let group =
                if self.version == Version::V30 { GroupId::ROOT } else { cx.procs.group(proc) };
            self.groups.ensure(group);
            q = self.create(CfqQueue::new(true, class, level, group));
            self.queues[q].sharing.users = 1;
            self.ctxs[ctx].sync_q = q;
        }
        if let Some(into) = self.queues[q].sharing.merge_into.some() {
            // The reference was counted when the merge was planned.
            self.ctxs[ctx].sync_q = into;
            self.queues[into].sharing.coop = true;
            cx.trace.why(now, "queues merged", q.0, into.into(), ctx.into());
            self.stats.queue_merges += 1;
            self.lose_user(now, q, cx);
            q = into;
        }
        if q != before {
            cx.trace.why(now, "queue of process", q.0, proc.0.into(), 1);
        }
        q
    }

    fn resolve_async(
        &mut self,
        now: Instant,
        ctx: CtxNo,
        proc: ProcId,
        cx: &mut Cx<'_>,
    ) -> QueueNo {
        let found = self.ctxs[ctx].async_q;
        if found.is_some() {
            return found;
        }
        let own = cx.procs.get(proc).map_or(IoPrio::NONE, |p| p.prio);
        let slot = async_slot(own);
        if self.queues.shared[slot].is_none() {
            // The queue gets the priority in force of who needs it first, also where that follows
            // the nice value and the slot does not.
            let (class, level) = class_level(cx.procs.prio(proc));
            self.queues.shared[slot] =
                self.create(CfqQueue::new(false, class, level, GroupId::ROOT));
        }
        let q = self.queues.shared[slot];
        self.queues[q].sharing.users += 1;
        self.ctxs[ctx].async_q = q;
        cx.trace.why(now, "queue of process", q.0, proc.0.into(), 0);
        q
    }

    fn create(&mut self, queue: CfqQueue) -> QueueNo {
        let q = self.queues.add(queue);
        let room = self.queues.room();
        self.groups.grow_queues(room);
        self.near.grow(room);
        q
    }

    /// A shared queue has become seeky: the first to come gets a queue of its own, the last one
    /// keeps this one. Answers the queue that is kept, nobody for a fresh one.
    fn split(&mut self, now: Instant, ctx: CtxNo, q: QueueNo, cx: &mut Cx<'_>) -> QueueNo {
        cx.trace.why(now, "queue split", q.0, ctx.into(), self.queues[q].sharing.users.into());
        self.stats.queue_splits += 1;
        if self.queues[q].sharing.users == 1 {
            self.queues[q].sharing.keep();
            return q;
        }
        self.ctxs[ctx].sync_q = QueueNo::NONE;
        self.drop_merge_references(now, q, cx);
        self.lose_user(now, q, cx);
        QueueNo::NONE
    }

    /// A slot no longer refers to `q`, which was the cause of a reference along the chain of
    /// merges.
    fn drop_merge_references(&mut self, now: Instant, q: QueueNo, cx: &mut Cx<'_>) {
        let mut at = self.queues[q].sharing.merge_into;
        // The chain has no loop: a merge is planned with the end of a chain only.
        while at.is_some() {
            let next = self.queues[at].sharing.merge_into;
            self.lose_user(now, at, cx);
            at = next;
        }
    }

    fn lose_user(&mut self, now: Instant, q: QueueNo, cx: &mut Cx<'_>) {
        let sharing = &mut self.queues[q].sharing;
        sharing.users -= 1;
        if sharing.users == 0 {
            // Nobody is left to go over; the target may be freed before this queue is.
            sharing.merge_into = QueueNo::NONE;
        }
        self.free_unused(now, q, cx);
    }

    /// Frees a sync queue with no user and no request.
    pub(super) fn free_unused(&mut self, now: Instant, q: QueueNo, cx: &mut Cx<'_>) {
        let queue = &self.queues[q];
        if !queue.sync || queue.sharing.users > 0 || queue.allocated > 0 {
            return;
        }
        if self.active == q {
            self.expire(now, false, "expired: nobody uses it", cx);
            self.kick(cx);
        }
        let queue = &self.queues[q];
        assert!(queue.live && !queue.turn.busy && queue.empty() && queue.dispatched == 0);
        debug_assert!(!queue.near.listed());
        self.queues.free(q);
    }

    /// A priority that was changed takes effect (insertion, allocation check).
    pub(super) fn renew_priority(&mut self, q: QueueNo, proc: ProcId, cx: &Cx<'_>) {
        let queue = &mut self.queues[q];
        if !queue.prio_changed {
            return;
        }
        let (class, level) = class_level(cx.procs.prio(proc));
        queue.prio_changed = false;
        queue.class = class;
        queue.level = level;
        if class == IDLE {
            queue.idle_window = false;
        }
    }

    pub(super) fn priority_changed(&mut self, now: Instant, proc: ProcId, cx: &mut Cx<'_>) {
        let ctx = CtxNo::of(proc);
        let Some(&CfqCtx { sync_q, async_q, .. }) = self.ctxs.get(ctx) else { return };
        if async_q.is_some() {
            self.ctxs[ctx].async_q = QueueNo::NONE;
            self.lose_user(now, async_q, cx);
        }
        if sync_q.is_some() {
            self.queues[sync_q].prio_changed = true;
        }
    }

    /// The process gets a fresh queue, in its new group, with its next request.
    pub(super) fn moved(&mut self, now: Instant, proc: ProcId, cx: &mut Cx<'_>) {
        if self.version == Version::V30 {
            return;
        }
        if let Some(c) = self.ctxs.get_mut(CtxNo::of(proc))
            && c.sync_q.is_some()
        {
            let q = core::mem::replace(&mut c.sync_q, QueueNo::NONE);
            self.drop_merge_references(now, q, cx);
            self.lose_user(now, q, cx);
        }
    }

    pub(super) fn exited(&mut self, now: Instant, proc: ProcId, cx: &mut Cx<'_>) {
        let Some(c) = self.ctxs.get_mut(CtxNo::of(proc)) else { return };
        let slots = [c.async_q, c.sync_q];
        (c.async_q, c.sync_q) = (QueueNo::NONE, QueueNo::NONE);
        for q in slots.into_iter().filter(|q| q.is_some()) {
            if self.active == q {
                self.expire(now, false, "expired: its process exited", cx);
                self.kick(cx);
            }
            self.drop_merge_references(now, q, cx);
            self.lose_user(now, q, cx);
        }
    }
}
