//! Who is busy, and with which weights: what tells a symmetric scenario from an asymmetric one
//! (specs/bfq.md 4.3).

use super::ids::{EntityNo, Id, NodeNo, QueueNo, Rows};
use super::wf2q::{ByClass, Entity, FairQueue, ServiceClass};
use alloc::vec::Vec;

/// Counts over all queues of a device.
#[derive(Clone, Debug, Default)]
pub(super) struct Census {
    /// Busy queues by class. With quirk Q19 a class may have one too many and another one too few, below zero
    /// too, hence wrapping; the sum is right.
    pub busy: ByClass<u32>,
    /// Their sum.
    all_busy: u32,
    /// Busy queues whose weight is raised.
    pub wr_busy: i32,
    /// Of those that were taken off though they were not raised.
    #[cfg(any(test, debug_assertions))]
    pub uncounted: u32,
    /// Groups, the root included, of which a direct queue is busy or has requests in flight.
    pub groups: u32,
    /// Groups but the root that count as having pending requests in the sense of base 6.1.
    pub groups_pending: u32,
    /// Ascending weights of the queues that have pending or in-flight requests and are not raised, and
    /// how many queues have each. Queue weights take eight values, so it never grows.
    weights: Vec<(u32, u32)>,
}

impl Census {
    /// Nobody is busy.
    pub fn new() -> Census {
        Census { weights: Vec::with_capacity(QUEUE_WEIGHTS), ..Census::default() }
    }

    /// Number of busy queues.
    #[inline]
    pub fn tot_busy(&self) -> u32 {
        self.all_busy
    }

    /// At least two classes have busy queues.
    pub fn classes_differ(&self) -> bool {
        self.busy.0.iter().filter(|&&n| n != 0).count() > 1
    }

    /// Two or more weights are counted, unless `e` is counted itself and has the smallest one.
    pub fn weights_differ(&self, e: &Entity) -> bool {
        self.weights.len() > 1 && e.counted != self.weights[0].0
    }

    /// The queue has become busy.
    pub fn set_busy(&mut self, e: &mut Entity) {
        debug_assert!(!e.busy);
        e.busy = true;
        self.change_class_count(e.class, 1);
        if e.wr > 1 {
            self.wr_busy += 1;
        }
    }

    /// The queue is no longer busy.
    pub fn clear_busy(&mut self, e: &mut Entity) {
        debug_assert!(e.busy);
        e.busy = false;
        self.change_class_count(e.class, -1);
        if e.wr > 1 {
            self.wr_busy -= 1;
        }
    }

    /// A busy queue that is not raised is taken off the count of those that are.
    pub fn uncount_raised(&mut self) {
        self.wr_busy -= 1;
        #[cfg(any(test, debug_assertions))]
        {
            self.uncounted += 1;
        }
    }

    pub fn change_class_count(&mut self, class: ServiceClass, n: i32) {
        let count = &mut self.busy[class];
        *count = count.wrapping_add_signed(n);
        self.all_busy = self.all_busy.wrapping_add_signed(n);
    }

    /// Counts the busy queues of each class anew.
    pub fn recount_classes(&mut self, ents: &Rows<EntityNo, Entity>) {
        (self.busy, self.all_busy) = (ByClass::default(), 0);
        for e in ents.iter().filter(|e| e.busy) {
            self.change_class_count(e.class, 1);
        }
    }

    /// Counts the weight of a queue unless it is counted.
    pub fn count(&mut self, e: &mut Entity) {
        if e.counted != 0 {
            return;
        }
        e.counted = e.weight;
        match self.weights.binary_search_by_key(&e.weight, |w| w.0) {
            Ok(at) => self.weights[at].1 += 1,
            Err(at) => self.weights.insert(at, (e.weight, 1)),
        }
    }

    /// No longer counts the weight of a queue, if it is counted.
    pub fn uncount(&mut self, e: &mut Entity) {
        if e.counted == 0 {
            return;
        }
        let at = self.weights.binary_search_by_key(&e.counted, |w| w.0);
        let at = at.expect("a counted weight is in the table");
        self.weights[at].1 -= 1;
        if self.weights[at].1 == 0 {
            self.weights.remove(at);
        }
        e.counted = 0;
    }
}

/// As many weights as there are priority levels (2.10).
const QUEUE_WEIGHTS: usize = 8;

impl FairQueue {
    /// The queue has become busy with nothing in flight.
    #[inline]
    pub fn count(&mut self, q: QueueNo) {
        let e = &mut self.ents[q];
        if e.wr == 1 {
            self.census.count(e);
        }
        self.join_group_count(q);
    }

    /// The queue is neither busy nor has it requests in flight.
    #[inline]
    pub fn uncount(&mut self, q: QueueNo) {
        self.census.uncount(&mut self.ents[q]);
        self.leave_group_count(q);
        let mut at = self.ents[q].node;
        while self.nodes[at].entity.is_some() {
            let node = &mut self.nodes[at];
            if node.cached.is_some() || node.in_service.is_some() {
                break;
            }
            self.census.groups_pending -= u32::from(core::mem::take(&mut node.pending));
            at = self.ents[node.entity].node;
        }
    }

    /// Counts the queue in its group unless it is counted.
    #[inline]
    pub fn join_group_count(&mut self, q: QueueNo) {
        let e = &mut self.ents[q];
        if !core::mem::replace(&mut e.grouped, true) {
            let node = &mut self.nodes[e.node];
            node.queues += 1;
            self.census.groups += u32::from(node.queues == 1);
        }
    }

    /// No longer counts it there, if it is counted.
    #[inline]
    pub fn leave_group_count(&mut self, q: QueueNo) {
        let e = &mut self.ents[q];
        if core::mem::take(&mut e.grouped) {
            let node = &mut self.nodes[e.node];
            node.queues -= 1;
            self.census.groups -= u32::from(node.queues == 0);
        }
    }

    /// Puts an entity that is on no tree below another node (8.3).
    pub fn reparent(&mut self, q: QueueNo, node: NodeNo) {
        assert!(!self.ents[q].tracked, "an entity leaves its tree before it moves");
        let grouped = self.ents[q].grouped;
        self.leave_group_count(q);
        self.ents[q].node = node;
        if grouped {
            self.join_group_count(q);
        }
    }
}

#[cfg(any(test, debug_assertions))]
impl Census {
    /// Everything recomputed from the entities.
    pub fn check(&self, ents: &Rows<EntityNo, Entity>, classes_moved: bool) {
        for class in ServiceClass::ALL.into_iter().filter(|_| classes_moved) {
            let n = ents.iter().filter(|e| e.busy && e.class == class).count();
            assert_eq!(self.busy[class] as usize, n);
        }
        assert_eq!(self.all_busy, self.busy.0.iter().fold(0, |sum: u32, &n| sum.wrapping_add(n)));
        assert_eq!(self.tot_busy() as usize, ents.iter().filter(|e| e.busy).count());
        let raised = ents.iter().filter(|e| e.busy && e.wr > 1).count();
        assert_eq!(i64::from(self.wr_busy) + i64::from(self.uncounted), raised as i64);
        let counted = || ents.iter().filter(|e| e.counted != 0);
        assert!(counted().all(|e| e.counted == e.weight));
        assert!(self.weights.is_sorted_by(|a, b| a.0 < b.0));
        for &(weight, n) in &self.weights {
            assert_eq!(n as usize, counted().filter(|e| e.counted == weight).count());
        }
        assert_eq!(self.weights.iter().map(|w| w.1).sum::<u32>() as usize, counted().count());
    }
}
