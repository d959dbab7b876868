//! Bursts of new queues: an application that starts many processes at once is not interactive
//! (specs/bfq.md 6.5).

use super::Bfq;
use super::ids::{Id, NodeNo, QueueNo};
use crate::list::{Links, List};
use crate::unit::{Instant, Nanos};

/// Burst state of a device.
#[derive(Debug)]
pub(super) struct Burst {
    last_ins: Option<Instant>,
    pub size: u32,
    list: List,
    pub links: Links,
    parent: NodeNo,
    pub large: bool,
    /// Large bursts seen.
    pub seen: u64,
}

impl Burst {
    pub fn new() -> Burst {
        Burst {
            last_ins: None,
            size: 0,
            list: List::new(),
            links: Links::new(0),
            parent: NodeNo::NONE,
            large: false,
            seen: 0,
        }
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

    fn clear(&mut self) {
        while self.list.pop_front(&mut self.links).is_some() {}
    }
}

impl Bfq {
    /// A request of a queue that was just created.
    pub(super) fn handle_burst(&mut self, q: QueueNo) {
        let queue = &self.queues[q];
        let tn = self.tn;
        let fresh = queue.split_time.is_some_and(|at| at + self.up(AFTER_SPLIT) >= tn);
        if self.burst.listed(q) || queue.in_large_burst || fresh {
            return;
        }
        let parent = self.fair.ents[q].node;
        let over = self.burst.last_ins.is_none_or(|at| at + self.conf.burst_interval < tn);
        if over || parent != self.burst.parent {
            self.burst.large = false;
            self.burst.clear();
            self.burst.size = 0;
            if self.fair.census.tot_busy() == 0 {
                self.burst.list.push_back(&mut self.burst.links, q.0);
                self.burst.size = 1;
            }
            self.burst.parent = parent;
        } else if self.burst.large {
            self.queues[q].in_large_burst = true;
        } else {
            self.burst.size += 1;
            if self.burst.size == self.conf.large_burst_thresh {
                self.burst.large = true;
                self.burst.seen += 1;
                while let Some(listed) = self.burst.list.pop_front(&mut self.burst.links) {
                    self.queues[QueueNo(listed)].in_large_burst = true;
                }
                self.queues[q].in_large_burst = true;
            } else {
                self.burst.list.push_back(&mut self.burst.links, q.0);
            }
        }
        self.burst.last_ins = Some(tn);
    }
}

/// A queue that was split off this recently is not a new one.
const AFTER_SPLIT: Nanos = Nanos::ms(10);
