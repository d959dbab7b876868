//! Queues and issuer contexts: what is known about them, which context uses which queue, and when a
//! queue is created and freed (specs/bfq.md 1.2, 1.3, 5.1 step 1).
//!
//! A queue has the same number as its entity in the fair-queue core; the numbers of group entities are
//! unused here.

use super::Bfq;
use super::wf2q::{BE, FairQueue, IDLE, ROOT, RT};
use crate::env::Cx;
use crate::group::ProcId;
use crate::list::List;
use crate::table::NIL;
use crate::tree::Tree;
use crate::unit::{Class, Instant, IoPrio};

/// Per-queue state (1.3); weight, budget and service are in its entity.
#[derive(Clone, Debug)]
pub(super) struct Queue {
    /// Pending requests by position.
    pub sorted: Tree,
    /// Pending requests by arrival.
    pub fifo: List,
    /// The request to be served next; `NIL` if there is none.
    pub next: u32,
    /// Pending requests.
    pub queued: u32,
    /// Dispatched and not completed.
    pub inflight: u32,
    /// Requests that exist: from `prepare` to completion.
    pub allocated: u32,
    /// Contexts whose pointer designates it.
    pub users: u32,
    /// Serves reads and synchronous writes.
    pub sync: bool,
    /// Set from creation to the first switch from idle to busy.
    pub just_created: bool,
    /// The idle timer is armed for it.
    pub waiting: bool,
    /// Expired while empty; may recover its service hole.
    pub hole: bool,
    /// The fifo was examined in this slot.
    pub fifo_checked: bool,
    /// Its issuer thinks for a short time.
    pub short_tt: bool,
    /// Its issuer is nearly always busy.
    pub io_bound: bool,
    /// In the table of live queues.
    pub live: bool,
    /// Feedback budget, in sectors.
    pub max_budget: u64,
    /// End of the slot's time allowance; when idle: the instant at which it became empty with nothing in
    /// flight. `None`: long ago.
    pub budget_deadline: Option<Instant>,
    /// Newest bit lowest, 1 = seeky.
    pub seek_hist: u32,
    /// End of the last request enqueued.
    pub last_pos: u64,
    /// Nanoseconds; wraps around with quirk Q18, hence no `Instant`.
    pub tt_last_end: u64,
    pub tt_total: u64,
    pub tt_samples: u64,
    pub tt_mean: u64,
    /// Start of the window over which I/O intensity is measured.
    pub io_start: Instant,
    /// Idle time in that window, in nanoseconds; wraps around with quirk Q18.
    pub tot_idle: u64,
}

impl Queue {
    fn new(sync: bool, class: u8, max_budget: u64, now: Instant, think_wraps: bool) -> Queue {
        Queue {
            sorted: Tree::new(),
            fifo: List::new(),
            next: NIL,
            queued: 0,
            inflight: 0,
            allocated: 0,
            users: 0,
            sync,
            just_created: sync,
            waiting: false,
            hole: false,
            fifo_checked: false,
            short_tt: sync && class != IDLE,
            io_bound: true,
            live: true,
            max_budget,
            budget_deadline: None,
            seek_hist: 1,
            last_pos: 0,
            tt_last_end: now.as_nanos() + u64::from(think_wraps),
            tt_total: 0,
            tt_samples: 0,
            tt_mean: 0,
            io_start: now,
            tot_idle: 0,
        }
    }

    /// The slot number of a group entity: nothing is ever kept here.
    fn unused() -> Queue {
        Queue { live: false, ..Queue::new(false, BE, 0, Instant::ZERO, false) }
    }

    /// 20 or more of the last 32 requests were far from their predecessor.
    pub fn seeky(&self) -> bool {
        self.seek_hist.count_ones() > SEEKY_BITS
    }

    /// The slot limit is over.
    pub fn timed_out(&self, now: Instant) -> bool {
        self.budget_deadline.is_none_or(|at| at <= now)
    }

    pub fn empty(&self) -> bool {
        self.queued == 0
    }
}

/// An issuer context: a process, thread, client or tenant (1.2).
#[derive(Clone, Copy, Debug)]
pub(super) struct Ctx {
    /// Its queue for sync requests, `NIL` if it has none.
    pub sync: u32,
    /// The shared queue it uses for async requests, `NIL` if none.
    pub other: u32,
    /// Its requests that exist.
    pub in_pool: u32,
    /// Has exited.
    pub gone: bool,
    /// Its own priority as last seen, and the one in force.
    prio: IoPrio,
    effective: IoPrio,
}

impl Ctx {
    fn new(prio: IoPrio, effective: IoPrio) -> Ctx {
        Ctx { sync: NIL, other: NIL, in_pool: 0, gone: false, prio, effective }
    }

    /// The queue it uses for requests of that kind, `NIL` if none.
    pub fn queue(&self, sync: bool) -> u32 {
        if sync { self.sync } else { self.other }
    }
}

/// The async queues of one group: 8 levels of RT, 8 of BE, one of IDLE.
pub(super) type AsyncTable = [u32; 17];

/// Where an async queue is found. Class none uses best-effort 4 (1.3).
fn async_place(prio: IoPrio) -> (usize, u8, u8) {
    let level = prio.level();
    match prio.class() {
        Class::Rt => (usize::from(level), RT, level),
        Class::Be => (8 + usize::from(level), BE, level),
        Class::None => (8 + 4, BE, 4),
        Class::Idle => (16, IDLE, 7),
    }
}

/// Class and level of a priority in force.
fn class_level(prio: IoPrio) -> (u8, u8) {
    match prio.class() {
        Class::Rt => (RT, prio.level()),
        Class::Be => (BE, prio.level()),
        Class::None => (BE, 4),
        Class::Idle => (IDLE, 7),
    }
}

/// Weight of a queue of that level (2.10).
pub(super) fn weight_of(level: u8) -> u32 {
    (8 - u32::from(level)) * 10
}

impl Bfq {
    /// The queue a new request of that context belongs to; makes contexts and queues as needed.
    pub(super) fn resolve(&mut self, now: Instant, proc: ProcId, sync: bool, cx: &Cx<'_>) -> u32 {
        let own = cx.procs.get(proc).map_or(IoPrio::NONE, |p| p.prio);
        let effective = cx.procs.prio(proc);
        while self.ctxs.len() <= proc.index() {
            self.ctxs.push(Ctx::new(IoPrio::NONE, IoPrio::be(4)));
        }
        let ctx = &mut self.ctxs[proc.index()];
        ctx.gone = cx.procs.get(proc).is_some_and(|p| !p.alive);
        if ctx.prio != own || ctx.effective != effective {
            ctx.prio = own;
            ctx.effective = effective;
            self.priority_changed(proc);
        }
        let ctx = self.ctxs[proc.index()];
        let found = ctx.queue(sync);
        if found != NIL {
            return found;
        }
        let q = if sync {
            let (class, level) = class_level(effective);
            self.create(now, true, class, level)
        } else {
            let (place, class, level) = async_place(own);
            if self.async_queues[place] == NIL {
                self.async_queues[place] = self.create(now, false, class, level);
            }
            self.async_queues[place]
        };
        self.queues[q as usize].users += 1;
        let ctx = &mut self.ctxs[proc.index()];
        *(if sync { &mut ctx.sync } else { &mut ctx.other }) = q;
        q
    }

    /// The sync queue gets its new weight and class lazily; the async pointer is looked up anew (2.10).
    fn priority_changed(&mut self, proc: ProcId) {
        let ctx = self.ctxs[proc.index()];
        if ctx.sync != NIL {
            let (class, level) = class_level(ctx.effective);
            let e = &mut self.fair.ents[ctx.sync as usize];
            e.new_weight = weight_of(level);
            e.new_class = class;
            e.prio_dirty = true;
        }
        if ctx.other != NIL {
            self.ctxs[proc.index()].other = NIL;
            self.queues[ctx.other as usize].users -= 1;
        }
    }

    fn create(&mut self, now: Instant, sync: bool, class: u8, level: u8) -> u32 {
        let max_budget = 2 * self.maxb() / 3;
        let queue = Queue::new(sync, class, max_budget, now, self.conf.first_think_long);
        self.sweep();
        let weight = weight_of(level);
        if let Some(q) = self.free.pop() {
            self.fair.reuse_entity(q, ROOT, class, weight);
            self.queues[q as usize] = queue;
            return q;
        }
        let q = self.fair.add_entity(ROOT, class, weight);
        while self.queues.len() < q as usize {
            self.queues.push(Queue::unused());
        }
        self.queues.push(queue);
        self.queue_links.grow(self.queues.len());
        self.free.reserve(self.queues.len() - self.free.len());
        q
    }

    /// The context lets go of its queues. The last user of a queue in service ends its slot (3.8).
    pub(super) fn ctx_exit(&mut self, now: Instant, proc: ProcId, cx: &mut Cx<'_>) {
        let Some(ctx) = self.ctxs.get_mut(proc.index()) else { return };
        let (sync, other) = (ctx.sync, ctx.other);
        ctx.sync = NIL;
        ctx.other = NIL;
        ctx.gone = true;
        if other != NIL {
            self.queues[other as usize].users -= 1;
        }
        if sync == NIL {
            return;
        }
        self.queues[sync as usize].users -= 1;
        if self.queues[sync as usize].users > 0 {
            return;
        }
        if self.in_service == sync {
            self.end_slot_of_exited(now, sync, cx);
        }
        self.dying.push_back(&mut self.queue_links, sync);
    }

    /// Frees queues nobody uses any more. At most [`SWEEP`] are examined, so creating a queue stays
    /// cheap after a mass exit; one that still waits in an idle set goes to the back.
    fn sweep(&mut self) {
        for _ in 0..SWEEP.min(self.dying.len()) {
            let q = self.dying.pop_front(&mut self.queue_links).expect("the length was asked");
            let queue = &mut self.queues[q as usize];
            let e = &self.fair.ents[q as usize];
            if queue.allocated == 0 && !e.busy && !e.tracked && self.in_service != q {
                debug_assert!(queue.users == 0 && queue.queued == 0 && queue.inflight == 0);
                queue.live = false;
                self.free.push(q);
            } else {
                self.dying.push_back(&mut self.queue_links, q);
            }
        }
    }
}

impl FairQueue {
    /// Class of a queue in force.
    pub fn class(&self, q: u32) -> u8 {
        self.ents[q as usize].class
    }
}

/// A queue with more seeky bits than this is seeky (1.3).
const SEEKY_BITS: u32 = 19;
/// Dying queues examined per creation (chosen).
const SWEEP: u32 = 4;
