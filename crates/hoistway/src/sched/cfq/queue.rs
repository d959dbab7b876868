//! Queues and issuer contexts: what is known about them, which context uses which queue, how queues
//! of cooperating processes are merged and split again, and when a queue is freed (specs/cfq.md 3,
//! 6, 7.7, 11).

use super::{BE, Cfq, IDLE, RT, Version, tick};
use crate::env::Cx;
use crate::group::{GroupId, ProcId};
use crate::list::List;
use crate::table::NIL;
use crate::tree::Tree;
use crate::unit::{Class, Instant, IoPrio};

/// No such time: the slice has not begun.
pub(super) const UNSET: i64 = i64::MIN;
/// In no near-tree.
pub(super) const NOWHERE: u8 = u8::MAX;
/// A queue with more seeky bits than this among the last 32 requests is seeky.
const SEEKY_BITS: u32 = 4;

/// One queue. Times are ticks.
#[derive(Clone, Debug)]
pub(super) struct Queue {
    /// Not on the free list.
    pub live: bool,
    pub sync: bool,
    pub class: u8,
    pub level: u8,

    /// Pending requests by start sector, and by arrival.
    pub sorted: Tree,
    pub fifo: List,
    /// The best next request, `NIL` if none.
    pub next: u32,
    pub queued: u32,
    /// Handed over and not completed.
    pub dispatched: u32,
    /// Requests that exist: from `prepare` to completion.
    pub allocated: u32,
    pub meta_pending: u32,
    /// Contexts whose slot refers to it, and pending merge references.
    pub users: u32,
    /// Users go over to that queue at their next allocation.
    pub merge_into: u32,

    /// Its group, and the group it is only away from while it is not worth idling for.
    pub group: u32,
    pub home: u32,
    /// The tree it is in (or was in last), by group and number.
    pub tree: (u32, u8),
    pub key: i64,
    /// The near-tree it is in, and the sector it was last tried there with.
    pub near: u8,
    pub near_at: u64,

    /// Newest bit lowest, 1 = far from its predecessor (or small, on flash).
    pub seek_history: u32,
    /// End of the last request inserted; 0 = none.
    pub last_pos: u64,

    pub dispatch_start: i64,
    pub slice_start: i64,
    pub slice_end: i64,
    pub slice_len: i64,
    pub slice_resid: i64,
    /// Requests dispatched in this slice.
    pub slice_dispatch: i64,

    /// Busy: in a service tree.
    pub on_rr: bool,
    /// The device is kept idle for it.
    pub wait_request: bool,
    /// Its slice was prolonged until its group gets busy again.
    pub wait_busy: bool,
    pub must_dispatch: bool,
    pub must_alloc: bool,
    pub fifo_checked: bool,
    /// It is worth idling for.
    pub idle_window: bool,
    pub prio_changed: bool,
    /// Selected, and nothing of it completed yet.
    pub slice_new: bool,
    /// Shared by several processes (2.6.30: was jumped to).
    pub coop: bool,
    pub split: bool,
    pub deep: bool,
}

impl Queue {
    fn new(sync: bool, class: u8, level: u8, group: u32) -> Queue {
        Queue {
            live: true,
            sync,
            class,
            level,
            sorted: Tree::new(),
            fifo: List::new(),
            next: NIL,
            queued: 0,
            dispatched: 0,
            allocated: 0,
            meta_pending: 0,
            users: 0,
            merge_into: NIL,
            group,
            home: NIL,
            tree: (NIL, 0),
            key: 0,
            near: NOWHERE,
            near_at: 0,
            seek_history: 0,
            last_pos: 0,
            dispatch_start: 0,
            slice_start: UNSET,
            slice_end: 0,
            slice_len: 0,
            slice_resid: 0,
            slice_dispatch: 0,
            on_rr: false,
            wait_request: false,
            wait_busy: false,
            must_dispatch: false,
            must_alloc: false,
            fifo_checked: false,
            idle_window: sync && class != IDLE,
            prio_changed: false,
            slice_new: false,
            coop: false,
            split: false,
            deep: false,
        }
    }

    /// More than 4 of its last 32 requests were far from their predecessors.
    pub fn seeky(&self) -> bool {
        self.seek_history.count_ones() > SEEKY_BITS
    }

    pub fn slice_used(&self, now: i64) -> bool {
        !self.slice_new && now >= self.slice_end
    }

    pub fn empty(&self) -> bool {
        self.queued == 0
    }
}

/// A running mean of the kind CFQ keeps: scale 256, an eighth of weight to the newest sample.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Mean {
    pub samples: i64,
    total: i64,
    pub mean: i64,
}

impl Mean {
    pub fn add(&mut self, sample: i64) {
        self.samples = (7 * self.samples + 256) / 8;
        self.total = (7 * self.total + 256 * sample) / 8;
        self.mean = (self.total + 128) / self.samples;
    }

    /// Enough samples to go by.
    pub fn valid(&self) -> bool {
        self.samples > VALID_SAMPLES
    }
}

/// Think-time (and, in 2.6.30, seek) samples are valid above this.
const VALID_SAMPLES: i64 = 80;

/// One process and this device.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ctx {
    pub sync_q: u32,
    pub async_q: u32,
    /// When a sync request of it completed last.
    pub last_end: i64,
    pub think: Mean,
    /// 2.6.30: mean distance of its requests from their predecessors, and the end of the last one.
    pub seek: Mean,
    pub last_pos: u64,
}

impl Ctx {
    pub fn queue(&self, sync: bool) -> u32 {
        if sync { self.sync_q } else { self.async_q }
    }
}

/// The number of a process's context; requests of nobody share the first.
pub(super) fn ctx_of(proc: ProcId) -> u32 {
    if proc == ProcId::NONE { 0 } else { proc.0 + 1 }
}

/// The process of a context.
pub(super) fn proc_of(ctx: u32) -> ProcId {
    if ctx == 0 { ProcId::NONE } else { ProcId(ctx - 1) }
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
    pub(super) fn q(&self, q: u32) -> &Queue {
        &self.queues[q as usize]
    }

    pub(super) fn q_mut(&mut self, q: u32) -> &mut Queue {
        &mut self.queues[q as usize]
    }

    /// The process of that context still runs.
    pub(super) fn alive(&self, ctx: u32, cx: &Cx<'_>) -> bool {
        cx.procs.get(proc_of(ctx)).is_some_and(|p| p.alive)
    }

    /// The queue a new request of that process belongs to: section 6, `prepare`.
    pub(super) fn resolve(
        &mut self,
        now: Instant,
        proc: ProcId,
        sync: bool,
        cx: &mut Cx<'_>,
    ) -> u32 {
        let ctx = ctx_of(proc);
        while self.ctxs.len() <= ctx as usize {
            let fresh = Ctx {
                sync_q: NIL,
                async_q: NIL,
                last_end: tick(now),
                think: Mean::default(),
                seek: Mean::default(),
                last_pos: 0,
            };
            self.ctxs.push(fresh);
        }
        if !sync {
            return self.resolve_async(now, ctx, proc, cx);
        }
        let before = self.ctxs[ctx as usize].sync_q;
        let mut q = before;
        if q != NIL && self.q(q).coop && self.q(q).split {
            q = self.split(now, ctx, q, cx);
        }
        if q == NIL {
            let (class, level) = class_level(cx.procs.prio(proc));
            let group =
                if self.version == Version::V30 { GroupId::ROOT } else { cx.procs.group(proc) };
            self.ensure_group(group);
            q = self.create(Queue::new(true, class, level, group.0));
            self.q_mut(q).users = 1;
            self.ctxs[ctx as usize].sync_q = q;
        }
        let into = self.q(q).merge_into;
        if into != NIL {
            // The reference was counted when the merge was planned.
            self.ctxs[ctx as usize].sync_q = into;
            self.q_mut(into).coop = true;
            cx.trace.why(now, "queues merged", q, into.into(), ctx.into());
            self.queue_merges += 1;
            self.lose_user(now, q, cx);
            q = into;
        }
        if q != before {
            cx.trace.why(now, "queue of process", q, proc.0.into(), 1);
        }
        q
    }

    fn resolve_async(&mut self, now: Instant, ctx: u32, proc: ProcId, cx: &mut Cx<'_>) -> u32 {
        let found = self.ctxs[ctx as usize].async_q;
        if found != NIL {
            return found;
        }
        let own = cx.procs.get(proc).map_or(IoPrio::NONE, |p| p.prio);
        let slot = async_slot(own);
        if self.async_queues[slot] == NIL {
            // The queue gets the priority in force of who needs it first, also where that follows
            // the nice value and the slot does not.
            let (class, level) = class_level(cx.procs.prio(proc));
            self.async_queues[slot] = self.create(Queue::new(false, class, level, 0));
        }
        let q = self.async_queues[slot];
        self.q_mut(q).users += 1;
        self.ctxs[ctx as usize].async_q = q;
        cx.trace.why(now, "queue of process", q, proc.0.into(), 0);
        q
    }

    fn create(&mut self, queue: Queue) -> u32 {
        if let Some(q) = self.free.pop() {
            self.queues[q as usize] = queue;
            return q;
        }
        let q = self.queues.len();
        self.queues.push(queue);
        // Doubled, so that nodes are rarely made; the free list can then hold every queue.
        let room = (q + 1).next_power_of_two().max(super::QUEUES);
        self.rr_nodes.grow(room);
        self.near_nodes.grow(room);
        self.free.reserve(room - self.free.len());
        q as u32
    }

    /// A shared queue has become seeky: the first to come gets a queue of its own, the last one
    /// keeps this one. Answers the queue that is kept, `NIL` for a fresh one.
    fn split(&mut self, now: Instant, ctx: u32, q: u32, cx: &mut Cx<'_>) -> u32 {
        cx.trace.why(now, "queue split", q, ctx.into(), self.q(q).users.into());
        self.queue_splits += 1;
        if self.q(q).users == 1 {
            let queue = self.q_mut(q);
            (queue.coop, queue.split) = (false, false);
            return q;
        }
        self.ctxs[ctx as usize].sync_q = NIL;
        self.drop_merge_references(now, q, cx);
        self.lose_user(now, q, cx);
        NIL
    }

    /// A slot no longer refers to `q`, which was the cause of a reference along the chain of
    /// merges.
    fn drop_merge_references(&mut self, now: Instant, q: u32, cx: &mut Cx<'_>) {
        let mut at = self.q(q).merge_into;
        // The chain has no loop: a merge is planned with the end of a chain only.
        while at != NIL {
            let next = self.q(at).merge_into;
            self.lose_user(now, at, cx);
            at = next;
        }
    }

    fn lose_user(&mut self, now: Instant, q: u32, cx: &mut Cx<'_>) {
        let queue = self.q_mut(q);
        queue.users -= 1;
        if queue.users == 0 {
            // Nobody is left to go over; the target may be freed before this queue is.
            queue.merge_into = NIL;
        }
        self.free_unused(now, q, cx);
    }

    /// Frees a sync queue with no user and no request.
    pub(super) fn free_unused(&mut self, now: Instant, q: u32, cx: &mut Cx<'_>) {
        let queue = self.q(q);
        if !queue.sync || queue.users > 0 || queue.allocated > 0 {
            return;
        }
        if self.active == q {
            self.expire(now, false, "expired: nobody uses it", cx);
            self.kick(cx);
        }
        let queue = self.q_mut(q);
        assert!(queue.live && !queue.on_rr && queue.queued == 0 && queue.dispatched == 0);
        debug_assert_eq!(queue.near, NOWHERE);
        queue.live = false;
        self.free.push(q);
    }

    /// 7.7: who shares `c`'s neighbourhood with `a` is to share its queue.
    pub(super) fn plan_merge(&mut self, a: u32, mut c: u32) {
        while self.q(c).merge_into != NIL {
            c = self.q(c).merge_into;
            if c == a {
                return;
            }
        }
        let (mine, its) = (self.q(a).users, self.q(c).users);
        if mine == 0 {
            return;
        }
        // Deviation: the text compares only. A candidate without users is about to be freed, and as
        // the one that goes over it would bring no one: then there is nothing to plan.
        if its == 0 {
            return;
        }
        let (from, into, users) = if its >= mine { (a, c, mine) } else { (c, a, its) };
        self.q_mut(from).merge_into = into;
        self.q_mut(into).users += users;
    }

    /// A priority that was changed takes effect (insertion, allocation check).
    pub(super) fn renew_priority(&mut self, q: u32, proc: ProcId, cx: &Cx<'_>) {
        if !self.q(q).prio_changed {
            return;
        }
        let (class, level) = class_level(cx.procs.prio(proc));
        let queue = self.q_mut(q);
        queue.prio_changed = false;
        queue.class = class;
        queue.level = level;
        if class == IDLE {
            queue.idle_window = false;
        }
    }

    pub(super) fn priority_changed(&mut self, now: Instant, proc: ProcId, cx: &mut Cx<'_>) {
        let ctx = ctx_of(proc);
        let Some(&Ctx { sync_q, async_q, .. }) = self.ctxs.get(ctx as usize) else { return };
        if async_q != NIL {
            self.ctxs[ctx as usize].async_q = NIL;
            self.lose_user(now, async_q, cx);
        }
        if sync_q != NIL {
            self.q_mut(sync_q).prio_changed = true;
        }
    }

    /// The process gets a fresh queue, in its new group, with its next request.
    pub(super) fn moved(&mut self, now: Instant, proc: ProcId, cx: &mut Cx<'_>) {
        let ctx = ctx_of(proc);
        if self.version == Version::V30 {
            return;
        }
        if let Some(c) = self.ctxs.get_mut(ctx as usize)
            && c.sync_q != NIL
        {
            let q = core::mem::replace(&mut c.sync_q, NIL);
            self.drop_merge_references(now, q, cx);
            self.lose_user(now, q, cx);
        }
    }

    pub(super) fn exited(&mut self, now: Instant, proc: ProcId, cx: &mut Cx<'_>) {
        let ctx = ctx_of(proc);
        let Some(c) = self.ctxs.get_mut(ctx as usize) else { return };
        let slots = [c.async_q, c.sync_q];
        (c.async_q, c.sync_q) = (NIL, NIL);
        for q in slots.into_iter().filter(|&q| q != NIL) {
            if self.active == q {
                self.expire(now, false, "expired: its process exited", cx);
                self.kick(cx);
            }
            self.drop_merge_references(now, q, cx);
            self.lose_user(now, q, cx);
        }
    }
}
