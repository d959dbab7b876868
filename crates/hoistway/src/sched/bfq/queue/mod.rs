//! What is known about a queue: one component for each mechanism, with its own state and rules (specs/bfq.md 1.3).
//!
//! A queue has the same number as its entity in the fair-queue core, where its weight, budget and service are;
//! the numbers of group entities are unused here.

pub(super) mod coop;
pub(super) mod inject;
pub(super) mod intensity;
pub(super) mod past;
pub(super) mod raise;
pub(super) mod seek;
pub(super) mod think;
pub(super) mod waker;

use super::ids::{Id, QueueNo, Rows, RqNo};
use super::slot::QueueSlot;
use super::wf2q::{Entity, ServiceClass};
use crate::group::ProcId;
use crate::list::{Links, List};
use crate::tree::Tree;
use crate::unit::Instant;
use alloc::vec::Vec;
use coop::{Coop, Saved};
use core::ops::{Index, IndexMut};
use inject::Injection;
use intensity::Intensity;
use raise::Raise;
use seek::Seek;
use think::Think;
use waker::Waker;

/// A queue of a process, of several, or of the async requests of a level.
#[derive(Clone, Debug)]
pub(super) struct BfqQueue {
    /// Serves reads and synchronous writes.
    pub sync: bool,
    /// Contexts whose requests it holds (8.4).
    pub actuator: u8,
    /// In the table of live queues.
    pub live: bool,
    /// Set from creation to the first switch from idle to busy.
    pub just_created: bool,
    pub created: Instant,
    pub rqs: OwnRqs,
    pub slot: QueueSlot,
    pub think: Think,
    pub seek: Seek,
    pub intensity: Intensity,
    pub inject: Injection,
    pub raise: Raise,
    pub coop: Coop,
    pub waker: Waker,
    pub life: Users,
}

/// The requests of a queue.
#[derive(Clone, Debug)]
pub(super) struct OwnRqs {
    /// Pending ones by position.
    pub sorted: Tree,
    /// Pending ones by arrival.
    pub fifo: List,
    /// The one to be served next; `NONE` if there is none.
    pub next: RqNo,
    /// Number of pending ones.
    pub queued: u32,
    /// Dispatched and not completed.
    pub inflight: u32,
    /// That exist: from `prepare` to completion.
    pub allocated: u32,
}

/// Users of a queue.
#[derive(Clone, Debug)]
pub(super) struct Users {
    /// How often the number has been given to another queue.
    pub generation: u32,
    /// Contexts whose pointer designates it, scheduled merges into it, and the table of its group if it is
    /// async.
    pub users: u32,
    /// The process whose queue it is, `NONE` if it is shared.
    pub owner: ProcId,
}

impl BfqQueue {
    /// `now` in nanoseconds, `tn` as the instants that the reference keeps in ticks (10.1). `long_first`: quirk
    /// Q18.
    pub fn new(
        wanted: Wanted,
        max_budget: u64,
        (now, tn): (Instant, Instant),
        long_first: bool,
    ) -> BfqQueue {
        BfqQueue {
            sync: wanted.sync,
            actuator: wanted.actuator,
            live: true,
            just_created: wanted.sync,
            created: tn,
            rqs: OwnRqs {
                sorted: Tree::new(),
                fifo: List::new(),
                next: RqNo::NONE,
                queued: 0,
                inflight: 0,
                allocated: 0,
            },
            slot: QueueSlot::new(max_budget, tn),
            think: Think::new(wanted.sync, now, long_first),
            seek: Seek::NEW,
            intensity: Intensity::new(now),
            inject: Injection::NEW,
            raise: Raise::new(tn),
            coop: Coop::NEW,
            waker: Waker::new(now),
            life: Users { generation: 0, users: 0, owner: ProcId::NONE },
        }
    }

    /// The row of a group entity: nothing is ever kept here.
    fn unused() -> BfqQueue {
        let wanted = Wanted { sync: false, actuator: 0 };
        let mut queue = BfqQueue::new(wanted, 0, (Instant::ZERO, Instant::ZERO), false);
        queue.live = false;
        queue
    }

    /// A shared queue that seeks is not worth sharing: its contexts part at their next insertions (7.6).
    #[inline]
    pub fn note_split(&mut self) {
        self.coop.split_me |= self.coop.shared && self.seek.seeky();
    }

    #[inline]
    pub fn empty(&self) -> bool {
        self.rqs.queued == 0
    }

    /// Facts that a context needs again if the queue, which is about to be merged, is split (7.6).
    pub fn save(&self, e: &Entity, was_in_burst: bool) -> Saved {
        Saved {
            think: self.think,
            intensity: self.intensity,
            inject: self.inject,
            raise: self.raise,
            wr: e.wr,
            orig_weight: e.orig_weight,
            was_in_burst,
        }
    }

    /// Takes over what was saved, but for weight and raising coefficient.
    pub fn resume(&mut self, saved: &Saved) {
        self.think = saved.think;
        self.intensity = saved.intensity;
        self.inject = saved.inject;
        self.raise = Raise {
            next_soft: self.raise.next_soft,
            soft_pending: self.raise.soft_pending,
            in_large_burst: self.raise.in_large_burst,
            ..saved.raise
        };
    }
}

/// Demands on a new queue, but for its entity.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    pub sync: bool,
    pub actuator: u8,
}

/// All queues of a device.
#[derive(Debug)]
pub(super) struct BfqQueues {
    rows: Rows<QueueNo, BfqQueue>,
    /// Numbers of freed queues.
    free: Vec<QueueNo>,
    /// A queue is among those that its waker wakes.
    woken_links: Links,
}

impl BfqQueues {
    pub fn new() -> BfqQueues {
        BfqQueues { rows: Rows::new(), free: Vec::new(), woken_links: Links::new(0) }
    }

    /// A number that may be given to a new queue.
    pub fn reusable(&mut self) -> Option<QueueNo> {
        self.free.pop()
    }

    /// Puts a new queue where an old one was.
    pub fn replace(&mut self, q: QueueNo, mut queue: BfqQueue) {
        queue.life.generation = self.rows[q].life.generation.wrapping_add(1);
        self.rows[q] = queue;
    }

    /// A queue with a number above all others (allocates).
    pub fn add(&mut self, q: QueueNo, queue: BfqQueue) {
        while self.rows.len() < q.0 as usize {
            self.rows.push(BfqQueue::unused());
        }
        self.rows.push(queue);
        self.woken_links.grow(self.rows.len());
        self.free.reserve(self.rows.len() - self.free.len());
    }

    /// The queue is gone; its number may be given to another.
    pub fn release(&mut self, q: QueueNo) {
        self.forget_waker(q);
        while let Some(woken) = self.rows[q].waker.woken.pop_front(&mut self.woken_links) {
            self.rows[QueueNo(woken)].waker.queue = QueueNo::NONE;
        }
        self.free.push(q);
    }

    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// All numbers, of queues that are gone and of group entities too.
    pub fn ids(&self) -> impl Iterator<Item = QueueNo> + use<> {
        self.rows.ids()
    }

    /// The queues that exist.
    pub fn live(&self) -> impl Iterator<Item = (QueueNo, &BfqQueue)> {
        self.rows.pairs().filter(|(_, queue)| queue.live)
    }

    /// The end of the chain of merges that are scheduled from `q` on.
    pub fn end_of_chain(&self, mut q: QueueNo) -> QueueNo {
        while self.rows[q].coop.into.is_some() {
            q = self.rows[q].coop.into;
        }
        q
    }

    /// `q` is woken by `waker`, at the front of whose list it goes.
    pub fn set_waker(&mut self, q: QueueNo, waker: QueueNo) {
        self.forget_waker(q);
        self.rows[q].waker.queue = waker;
        self.rows[waker].waker.woken.push_front(&mut self.woken_links, q.0);
    }

    fn forget_waker(&mut self, q: QueueNo) {
        let waker = core::mem::replace(&mut self.rows[q].waker.queue, QueueNo::NONE);
        if waker.is_some() {
            self.rows[waker].waker.woken.remove(&mut self.woken_links, q.0);
        }
    }
}

impl Index<QueueNo> for BfqQueues {
    type Output = BfqQueue;

    #[inline]
    fn index(&self, q: QueueNo) -> &BfqQueue {
        &self.rows[q]
    }
}

impl IndexMut<QueueNo> for BfqQueues {
    #[inline]
    fn index_mut(&mut self, q: QueueNo) -> &mut BfqQueue {
        &mut self.rows[q]
    }
}

impl super::wf2q::FairQueue {
    /// Class of a queue in force.
    #[inline]
    pub fn class(&self, q: QueueNo) -> ServiceClass {
        self.ents[q].class
    }
}
