//! Queues: what is known about them, and when they are created and freed (specs/bfq.md 1.3).
//!
//! A queue has the same number as its entity in the fair-queue core; the numbers of group entities are
//! unused here.

use super::Bfq;
use super::ids::{Id, NodeNo, QueueNo, RqNo};
use super::stats::Tally;
use super::tunables::Base;
use super::wf2q::{FairQueue, ServiceClass};
use crate::group::ProcId;
use crate::list::List;
use crate::tree::Tree;
use crate::unit::{Instant, Nanos};

/// Per-queue state (1.3); weight, budget and service are in its entity.
#[derive(Clone, Debug)]
pub(super) struct Queue {
    /// Pending requests by position.
    pub sorted: Tree,
    /// Pending requests by arrival.
    pub fifo: List,
    /// The request to be served next; `NONE` if there is none.
    pub next: RqNo,
    /// Pending requests.
    pub queued: u32,
    /// Dispatched and not completed.
    pub inflight: u32,
    /// Requests that exist: from `prepare` to completion.
    pub allocated: u32,
    /// Contexts whose pointer designates it, scheduled merges into it, and the table of its group if it is
    /// async.
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
    /// Shared by contexts that were merged (7.4).
    pub coop: bool,
    /// To be split at the next insertion (7.6).
    pub split_me: bool,
    /// Created in a large burst of queues (6.5).
    pub in_large_burst: bool,
    /// The next soft real-time instant must be computed at completion (6.3).
    pub softrt_pending: bool,
    /// In the index of positions (7.2).
    pub indexed: bool,
    /// Times in a row that `tent_waker` woke it (4.8).
    pub waker_hits: u8,
    /// Whose requests it holds (8.4).
    pub actuator: u8,
    /// The process whose queue it is, `NONE` if it is shared.
    pub owner: ProcId,
    /// The queue it will be merged into, `NONE` if none (7.3).
    pub merge_into: QueueNo,
    /// The queue whose completions wake it, and the one that is suspected to; `NONE` if none.
    pub waker: QueueNo,
    pub tent_waker: QueueNo,
    pub waker_t0: Instant,
    /// The queues it wakes, the latest to become busy first.
    pub woken: List,
    /// Largest number of requests in the device while the gap it leaves is filled (4.7).
    pub inject_limit: u32,
    /// How often the number has been given to another queue.
    pub generation: u32,
    /// Service time without injection, 0 = unknown.
    pub base_serv: Nanos,
    /// When the limit was last lowered or reset; `None`: long ago.
    pub inj_decr: Option<Instant>,
    /// Start of the raising period, or end of the last one, or arrival time (6.2).
    pub wr_start: Instant,
    /// Duration of the raising period.
    pub wr_limit: Nanos,
    /// `wr_start` of the interactive period that a soft real-time one interrupted (6.3).
    pub wr_start_before_srt: Option<Instant>,
    /// Sectors served while raised; since it became busy.
    pub svc_wr: u64,
    pub svc_backlog: u64,
    pub busy_since: Instant,
    pub first_io: Instant,
    pub created: Instant,
    /// When it was split off a shared queue; `None`: long ago.
    pub split_time: Option<Instant>,
    /// From then on an arrival is soft real-time (6.3).
    pub srt_next: Instant,
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
    pub tt_samples: u32,
    pub tt_mean: u64,
    /// Start of the window over which I/O intensity is measured.
    pub io_start: Instant,
    /// Idle time in that window, in nanoseconds; wraps around with quirk Q18.
    pub tot_idle: u64,
}

impl Queue {
    /// `now` in nanoseconds, `tn` as the instants that the reference keeps in ticks (10.1).
    fn new(sync: bool, max_budget: u64, (now, tn): (Instant, Instant)) -> Queue {
        Queue {
            sorted: Tree::new(),
            fifo: List::new(),
            next: RqNo::NONE,
            queued: 0,
            inflight: 0,
            allocated: 0,
            users: 0,
            sync,
            just_created: sync,
            waiting: false,
            hole: false,
            fifo_checked: false,
            short_tt: sync,
            io_bound: true,
            live: true,
            coop: false,
            split_me: false,
            in_large_burst: false,
            softrt_pending: false,
            indexed: false,
            waker_hits: 0,
            actuator: 0,
            owner: ProcId::NONE,
            merge_into: QueueNo::NONE,
            waker: QueueNo::NONE,
            tent_waker: QueueNo::NONE,
            waker_t0: now,
            woken: List::new(),
            inject_limit: 0,
            generation: 0,
            base_serv: Nanos::ZERO,
            inj_decr: None,
            wr_start: tn,
            wr_limit: Nanos::ZERO,
            wr_start_before_srt: None,
            svc_wr: 0,
            svc_backlog: 0,
            busy_since: tn,
            first_io: tn,
            created: tn,
            split_time: None,
            srt_next: tn,
            max_budget,
            budget_deadline: None,
            seek_hist: 1,
            last_pos: 0,
            tt_last_end: now.as_nanos(),
            tt_total: 0,
            tt_samples: 0,
            tt_mean: 0,
            io_start: now,
            tot_idle: 0,
        }
    }

    /// The slot number of a group entity: nothing is ever kept here.
    fn unused() -> Queue {
        Queue { live: false, ..Queue::new(false, 0, (Instant::ZERO, Instant::ZERO)) }
    }

    /// 20 or more of the last 32 requests were far from their predecessor.
    pub fn seeky(&self) -> bool {
        self.seek_hist.count_ones() > SEEKY_BITS
    }

    /// The slot limit is over.
    pub fn timed_out(&self, now: Instant) -> bool {
        self.budget_deadline.is_none_or(|at| at <= now)
    }

    /// All of the last 32 requests were.
    pub fn totally_seeky(&self) -> bool {
        self.seek_hist == u32::MAX
    }

    pub fn empty(&self) -> bool {
        self.queued == 0
    }
}

/// What is asked of a new queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    pub node: NodeNo,
    pub sync: bool,
    pub class: ServiceClass,
    pub level: u8,
    pub actuator: u8,
}

impl Bfq {
    /// Weight of a queue of that level (2.10, 11.2).
    pub(super) fn weight_of(&self, level: u8) -> u32 {
        (8 - u32::from(level)) * if self.conf.v1 { 1 } else { 10 }
    }

    pub(super) fn create(&mut self, now: Instant, wanted: Wanted) -> QueueNo {
        let max_budget = 2 * self.maxb() / 3;
        let mut queue = Queue::new(wanted.sync, max_budget, (now, self.tn));
        queue.actuator = wanted.actuator;
        // Quirk Q18: one nanosecond after the creation.
        queue.tt_last_end += u64::from(self.conf.first_think_long);
        let weight = self.weight_of(wanted.level);
        if let Some(q) = self.free.pop() {
            self.fair.reuse_entity(q.into(), wanted.node, wanted.class, weight);
            queue.generation = self.queues[q].generation.wrapping_add(1);
            self.queues[q] = queue;
            if let Some(tally) = self.stats.queues.get_mut(q) {
                *tally = Tally::default();
            }
            return q;
        }
        let q = self.fair.add_entity(wanted.node, wanted.class, weight).queue();
        while self.queues.len() < q.0 as usize {
            self.queues.push(Queue::unused());
        }
        self.queues.push(queue);
        if self.conf.queue_statistics {
            self.stats.queues.resize(self.queues.len(), Tally::default());
        }
        self.burst.links.grow(self.queues.len());
        self.woken_links.grow(self.queues.len());
        self.positions.grow(self.queues.len());
        self.free.reserve(self.queues.len() - self.free.len());
        q
    }

    /// A context no longer designates the queue, nor what that is to be merged into.
    pub(super) fn let_go(&mut self, q: QueueNo) {
        let mut at = self.queues[q].merge_into;
        while at.is_some() {
            self.drop_user(at);
            at = self.queues[at].merge_into;
        }
        self.release_queue(q);
    }

    /// A context no longer designates the queue (3.8): an empty one leaves the busy ones, even if others use
    /// it.
    pub(super) fn release_queue(&mut self, q: QueueNo) {
        let idles = self.queues[q].empty() && self.fair.ents[q].busy;
        if idles && self.in_service != q {
            self.no_longer_busy(q, false);
        }
        self.forget_last_created(q);
        self.drop_user(q);
    }

    /// The queue is no longer the one that new queues of its group are compared with (7.5).
    pub(super) fn forget_last_created(&mut self, q: QueueNo) {
        let node = self.fair.ents[q].node;
        if self.groups[node].last_created == q {
            self.groups[node].last_created = QueueNo::NONE;
        }
    }

    pub(super) fn drop_user(&mut self, q: QueueNo) {
        let queue = &mut self.queues[q];
        queue.users -= 1;
        if queue.users == 0 {
            self.fair.ents[q].dying = true;
            self.fair.loose.push(q);
        }
    }

    /// Frees the queues that nobody uses and nothing holds any more.
    #[cold]
    pub(super) fn free_loose(&mut self) {
        while let Some(q) = self.fair.loose.pop() {
            let (queue, e) = (&self.queues[q], &self.fair.ents[q]);
            if queue.live && e.dying && queue.allocated == 0 && !e.tracked {
                self.free_queue(q);
            }
        }
    }

    fn free_queue(&mut self, q: QueueNo) {
        let queue = &mut self.queues[q];
        debug_assert!(queue.users == 0 && queue.queued == 0 && queue.inflight == 0);
        queue.live = false;
        self.index_remove(q);
        self.forget_waker(q);
        while let Some(woken) = self.queues[q].woken.pop_front(&mut self.woken_links) {
            self.queues[QueueNo(woken)].waker = QueueNo::NONE;
        }
        // The size of the burst stays: short processes one after the other are one (6.5). Not so in 5.3.
        let coop = self.queues[q].coop;
        if self.burst.leave(q) && self.conf.base == Base::V53 && !coop {
            self.burst.size = self.burst.size.saturating_sub(1);
        }
        self.forget_last_created(q);
        if self.last_completed_q == q {
            self.last_completed_q = QueueNo::NONE;
        }
        self.free.push(q);
    }
}

impl FairQueue {
    /// Class of a queue in force.
    pub fn class(&self, q: QueueNo) -> ServiceClass {
        self.ents[q].class
    }
}

/// A queue with more seeky bits than this is seeky (1.3).
const SEEKY_BITS: u32 = 19;
