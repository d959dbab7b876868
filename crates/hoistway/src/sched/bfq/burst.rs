//! Bursts of new queues: many processes that start at once are not interactive (specs/bfq.md 6.5).
//!
//! Queues born together (boot, a parallel build) serve one goal, which is throughput. To raise each also means to
//! idle for each, and slows the whole. To start an application makes a burst too, but a small one: size tells them
//! apart. The risk is a service that starts at the same moment and pushes an application over the limit.

use super::ids::{Id, NodeNo, QueueNo};
use super::queue::BfqQueues;
use crate::list::{Links, List};
use crate::unit::{Instant, Nanos};

/// The burst that goes on, if one does.
#[derive(Debug)]
pub(super) struct Burst {
    last_birth: Option<Instant>,
    pub size: u32,
    /// Queues that are in it while it may still become large.
    list: List,
    links: Links,
    parent: NodeNo,
    pub large: bool,
    /// Large bursts seen.
    pub seen: u64,
}

/// The first request of a new queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Birth {
    /// The node of its group.
    pub parent: NodeNo,
    /// No queue is busy.
    pub nobody_busy: bool,
    /// A pause that ends a burst.
    pub interval: Nanos,
    /// Size from which on a burst is large.
    pub large: u32,
}

impl Burst {
    pub fn new() -> Burst {
        Burst {
            last_birth: None,
            size: 0,
            list: List::new(),
            links: Links::new(0),
            parent: NodeNo::NONE,
            large: false,
            seen: 0,
        }
    }

    pub fn grow(&mut self, queues: usize) {
        self.links.grow(queues);
    }

    pub fn listed(&self, q: QueueNo) -> bool {
        self.links.linked(q.0)
    }

    /// Takes a queue off the list; false if it was not there.
    pub fn leave(&mut self, q: QueueNo) -> bool {
        let listed = self.listed(q);
        if listed {
            self.list.remove(&mut self.links, q.0);
        }
        listed
    }

    /// Puts a queue on the list without changing the size (7.6).
    pub fn rejoin(&mut self, q: QueueNo) {
        if !self.listed(q) {
            self.list.push_back(&mut self.links, q.0);
        }
    }

    /// A request of a queue that was just created. The burst is of one parent, so that unrelated births do not add up;
    /// and with others busy one does not begin, since to protect them matters more than throughput.
    pub fn birth(&mut self, q: QueueNo, b: Birth, tn: Instant, queues: &mut BfqQueues) {
        let over = self.last_birth.is_none_or(|at| at + b.interval < tn);
        self.last_birth = Some(tn);
        if over || b.parent != self.parent {
            self.begin(q, b);
        } else if self.large {
            queues[q].raise.in_large_burst = true;
        } else {
            self.size += 1;
            self.list.push_back(&mut self.links, q.0);
            if self.size == b.large {
                self.large = true;
                self.seen += 1;
                while let Some(listed) = self.list.pop_front(&mut self.links) {
                    queues[QueueNo(listed)].raise.in_large_burst = true;
                }
            }
        }
    }

    fn begin(&mut self, q: QueueNo, b: Birth) {
        while self.list.pop_front(&mut self.links).is_some() {}
        self.large = false;
        self.size = 0;
        if b.nobody_busy {
            self.list.push_back(&mut self.links, q.0);
            self.size = 1;
        }
        self.parent = b.parent;
    }
}

/// A queue that was split off this recently is not a new one.
pub(super) const AFTER_SPLIT: Nanos = Nanos::ms(10);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched::bfq::queue::{BfqQueue, Wanted};
    use alloc::vec::Vec;

    const B: Birth =
        Birth { parent: NodeNo(0), nobody_busy: true, interval: Nanos::ms(180), large: 3 };

    fn ms(n: u64) -> Instant {
        Instant::ZERO + Nanos::ms(n)
    }

    /// Births at these times; the queues that are in a large burst afterwards.
    fn births(at: &[(u64, Birth)]) -> (Burst, Vec<bool>) {
        let (mut burst, mut queues) = (Burst::new(), BfqQueues::new());
        for n in 0..at.len() as u32 {
            let wanted = Wanted { sync: true, actuator: 0 };
            queues.add(QueueNo(n), BfqQueue::new(wanted, 1, (ms(0), ms(0)), false));
        }
        burst.grow(at.len());
        for (n, &(at, b)) in (0..).zip(at) {
            burst.birth(QueueNo(n), b, ms(at), &mut queues);
        }
        let large = queues.live().map(|(_, queue)| queue.raise.in_large_burst).collect();
        (burst, large)
    }

    #[test]
    fn a_burst_is_large_from_its_threshold_on_and_takes_in_those_before() {
        assert_eq!(births(&[(0, B), (180, B)]).1, [false; 2]);
        let (burst, large) = births(&[(0, B), (180, B), (360, B), (361, B)]);
        assert_eq!((large, burst.seen), (alloc::vec![true; 4], 1));
    }

    #[test]
    fn a_pause_or_another_parent_begins_a_new_one() {
        assert_eq!(births(&[(0, B), (10, B), (191, B)]).1, [false; 3]);
        let other = Birth { parent: NodeNo(1), ..B };
        assert_eq!(births(&[(0, B), (10, B), (20, other), (30, other)]).1, [false; 4]);
    }

    #[test]
    fn with_others_busy_the_first_does_not_count() {
        let busy = Birth { nobody_busy: false, ..B };
        let (burst, _) = births(&[(0, busy), (10, busy)]);
        assert_eq!(
            (burst.size, burst.listed(QueueNo(0)), burst.listed(QueueNo(1))),
            (1, false, true)
        );
    }
}
