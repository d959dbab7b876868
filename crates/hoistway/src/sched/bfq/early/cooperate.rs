//! Cooperating queues of v4 (specs/bfq.md 11.6): processes that read next to each other share a queue.
//!
//! Looked for when the queue in service has run empty and would be waited for or leave: another one whose next request
//! is within 8192 sectors of the head. Its process goes on with that queue from its next request on, and the slot
//! ends. Who is next remains the fair queue's choice: *chosen*, since to serve the partner at once would let a pair
//! pass others with earlier finishes. As in 7.3, partners are of one group and class, sync, and neither seeks. A shared
//! queue that seeks when its slot ends is split as in 7.6.

use super::{Early, Release};
use crate::env::Cx;
use crate::sched::bfq::ids::{Id, QueueNo, RqNo};
use crate::sched::bfq::wf2q::IDLE;
use crate::unit::Instant;

impl Early {
    /// The queue that a new request goes to: that of its process, or what that is to be merged into.
    pub(super) fn join_cooperator(&mut self, now: Instant, slot: RqNo, cx: &mut Cx<'_>) -> QueueNo {
        match self.release {
            Release::V1 => self.b.rqs[slot].queue,
            Release::V4 => self.b.cooperate(now, slot, cx),
        }
    }

    /// The queue in service has run empty. True: it is to be merged into another one.
    pub(super) fn merge_with_cooperator(&mut self, q: QueueNo) -> bool {
        let queue = &self.b.queues[q];
        if !self.b.rules.merges_at_selection
            || !queue.sync
            || queue.coop.into.is_some()
            || self.b.fair.census.tot_busy() < 2
        {
            return false;
        }
        let class = self.b.fair.class(q);
        let near = self.b.groups.nearest(self.b.fair.ents[q].node, self.b.rate.last_pos);
        if near.is_none()
            || near == q
            || !self.b.queues[near].sync
            || class == IDLE
            || self.b.fair.class(near) != class
            || self.extra(q).seek.seeky()
            || self.extra(near).seek.seeky()
        {
            return false;
        }
        self.b.setup_merge(q, near).is_some()
    }
}
