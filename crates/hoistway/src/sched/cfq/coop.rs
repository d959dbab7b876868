//! Cooperators: processes that read next to each other share a queue until it turns seeky (specs/cfq.md 5.2, 7.6,
//! 7.7).
//!
//! Threads of one program that each read every n-th block are random one by one and sequential together. A process
//! alone cannot know; the head can, which sees that another queue's next request lies where it has just been.

use super::habits::CLOSE;
use super::ids::{QueueNo, RqNo};
use super::queue::{CfqQueue, CfqQueues};
use super::{Cfq, IDLE, RT, Version};
use crate::rows::Id;
use crate::table::NIL;
use crate::tree::{Nodes, Tree};

/// In no near-tree.
const NOWHERE: u8 = u8::MAX;

/// Where a queue is found by the sector of its next request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Near {
    /// The tree it is in, by level.
    level: u8,
    /// The sector it was last tried there with.
    tried: u64,
}

impl Near {
    pub const NOWHERE: Near = Near { level: NOWHERE, tried: 0 };

    pub fn listed(&self) -> bool {
        self.level != NOWHERE
    }
}

/// Queues by the sector of their next request, a tree for each level: one that is merged brings its level along.
#[derive(Debug)]
pub(super) struct NearTrees {
    nodes: Nodes<u64>,
    trees: [Tree; 8],
}

impl NearTrees {
    pub fn new(queues: usize) -> NearTrees {
        NearTrees { nodes: Nodes::new(queues), trees: [Tree::new(); 8] }
    }

    pub fn grow(&mut self, queues: usize) {
        self.nodes.grow(queues);
    }

    /// Queue `q` goes to that sector of its level's tree, unless another one is there: either serves as a neighbour.
    pub fn put(&mut self, q: QueueNo, near: &mut Near, level: u8, sector: u64) {
        self.take(q, near);
        near.tried = sector;
        let tree = &mut self.trees[usize::from(level)];
        let taken = tree.lower_bound(&self.nodes, sector);
        if taken == NIL || self.nodes.key(taken) != sector {
            tree.insert(&mut self.nodes, q.0, sector, ());
            near.level = level;
        }
    }

    pub fn take(&mut self, q: QueueNo, near: &mut Near) {
        let level = core::mem::replace(&mut near.level, NOWHERE);
        if level != NOWHERE {
            self.trees[usize::from(level)].remove(&mut self.nodes, q.0);
        }
    }

    /// The first queue at or above that sector.
    fn above(&self, level: u8, sector: u64) -> QueueNo {
        QueueNo(self.trees[usize::from(level)].lower_bound(&self.nodes, sector))
    }

    /// The last queue before `above`.
    fn below(&self, level: u8, above: QueueNo) -> QueueNo {
        QueueNo(match above {
            QueueNo::NONE => self.trees[usize::from(level)].last(&self.nodes),
            above => self.nodes.prev(above.0),
        })
    }

    #[cfg(any(test, debug_assertions))]
    pub fn linked(&self, q: QueueNo) -> bool {
        self.nodes.linked(q.0)
    }
}

/// How a queue is shared.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sharing {
    /// Contexts whose slot refers to it, and pending merge references.
    pub users: u32,
    /// Users go over to that queue at their next allocation.
    pub merge_into: QueueNo,
    /// Shared by several processes (2.6.30: was jumped to).
    pub coop: bool,
    /// To be split: it has turned seeky.
    pub split: bool,
}

impl Sharing {
    pub const NONE: Sharing =
        Sharing { users: 0, merge_into: QueueNo::NONE, coop: false, split: false };

    /// A slice ends. What turned seeky no longer reads next to each other: merging was wrong, or is over.
    pub fn judge(&mut self, seeky: bool) {
        self.split |= self.coop && seeky;
    }

    /// The one user that is left keeps it.
    pub fn keep(&mut self) {
        (self.coop, self.split) = (false, false);
    }
}

impl CfqQueues {
    /// 7.7: who shares `c`'s neighbourhood with `a` is to share its queue. The one with fewer users goes over.
    pub fn plan_merge(&mut self, a: QueueNo, mut c: QueueNo) {
        while let Some(next) = self[c].sharing.merge_into.some() {
            c = next;
            if c == a {
                return;
            }
        }
        let (mine, its) = (self[a].sharing.users, self[c].sharing.users);
        if mine == 0 {
            return;
        }
        // Deviation: the text compares only. A candidate without users is about to be freed, and as
        // the one that goes over it would bring no one: then there is nothing to plan.
        if its == 0 {
            return;
        }
        let (from, into, users) = if its >= mine { (a, c, mine) } else { (c, a, its) };
        self[from].sharing.merge_into = into;
        self[into].sharing.users += users;
    }
}

impl Cfq {
    /// 5.2: near-trees hold queues by the sector of their next request, one per sector.
    pub(super) fn find_near_place(&mut self, q: QueueNo) {
        let queue = &mut self.queues[q];
        if queue.class == IDLE || queue.pending.next.is_none() {
            return self.near.take(q, &mut queue.near);
        }
        let at = self.pool.rqs[queue.pending.next].pos;
        self.near.put(q, &mut queue.near, queue.level, at);
    }

    pub(super) fn leave_near(&mut self, q: QueueNo) {
        self.near.take(q, &mut self.queues[q].near);
    }

    /// The near-tree shows where `next` is.
    pub(super) fn follow_next(&mut self, q: QueueNo) {
        let queue = &self.queues[q];
        let next = queue.pending.next;
        if next.is_some() && self.pool.rqs[next].pos != queue.near.tried {
            self.find_near_place(q);
        }
    }

    /// `close(rq)`: near the end of the last request that went to the driver.
    pub(super) fn close(&self, pos: u64) -> bool {
        let mut most = CLOSE;
        if self.early()
            && self.active_ctx.is_some()
            && let Some(mean) = self.ctxs[self.active_ctx].distance.known()
        {
            most = mean as u64;
        }
        pos.abs_diff(self.pool.head) <= most
    }

    /// 7.6: a queue whose next request is near where the active one left the head.
    ///
    /// Not for a seeky queue, which is near to somebody all the time; nor for the only queue of a group, whose
    /// neighbour would be of another one.
    pub(super) fn cooperator(&self, a: QueueNo) -> QueueNo {
        let queue = &self.queues[a];
        let seeky = match self.version {
            Version::V30 => {
                self.active_ctx.is_some() && self.ctxs[self.active_ctx].distance.seeky()
            }
            _ => queue.seek.seeky(),
        };
        let lone = !self.early() && self.group_of(a).nr_q == 1;
        if queue.class == IDLE || !queue.sync || seeky || lone {
            return QueueNo::NONE;
        }
        debug_assert!(!queue.near.listed(), "an empty queue is near nothing");
        let is_close =
            |q: QueueNo| q.is_some() && self.close(self.start_of(self.queues[q].pending.next));
        let mut c = self.near.above(queue.level, self.pool.head);
        if !is_close(c) {
            c = self.near.below(queue.level, c);
            if !is_close(c) {
                return QueueNo::NONE;
            }
        }
        if self.may_cooperate(queue, &self.queues[c]) { c } else { QueueNo::NONE }
    }

    fn start_of(&self, rq: RqNo) -> u64 {
        self.pool.rqs[rq].pos
    }

    fn may_cooperate(&self, queue: &CfqQueue, other: &CfqQueue) -> bool {
        let fits = other.sync && (other.class == RT) == (queue.class == RT);
        let right = match self.version {
            // It was jumped to before: two queues near each other would starve all others.
            Version::V30 => !other.sharing.coop,
            _ => other.turn.group == queue.turn.group && !other.seek.seeky(),
        };
        fits && right
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: QueueNo = QueueNo(0);
    const B: QueueNo = QueueNo(1);

    #[test]
    fn one_queue_per_sector_is_near_and_it_is_found_from_both_sides() {
        let mut trees = NearTrees::new(3);
        let mut near = [Near::NOWHERE; 3];
        trees.put(A, &mut near[0], 4, 1000);
        trees.put(B, &mut near[1], 4, 1000);
        assert_eq!(near.map(|n| n.listed()), [true, false, false], "the sector is taken");
        trees.put(B, &mut near[1], 4, 2000);
        trees.put(QueueNo(2), &mut near[2], 3, 1500);
        let around = |level, sector| {
            let above = trees.above(level, sector);
            [above, trees.below(level, above)]
        };
        assert_eq!(around(4, 1000), [A, QueueNo::NONE], "at the sector counts as above");
        assert_eq!(around(4, 1500), [B, A]);
        assert_eq!(around(4, 2001), [QueueNo::NONE, B]);
        assert_eq!(around(0, 5), [QueueNo::NONE; 2]);
        trees.take(A, &mut near[0]);
        trees.take(A, &mut near[0]);
        assert!(!near[0].listed() && !trees.linked(A));
    }

    /// Two queues with so many users.
    fn queues(users: [u32; 2]) -> CfqQueues {
        let mut queues = CfqQueues::new();
        for n in users {
            let q = queues.add(CfqQueue::new(true, RT, 0, crate::group::GroupId::ROOT));
            queues[q].sharing.users = n;
        }
        queues
    }

    fn plan(users: [u32; 2]) -> [(QueueNo, u32); 2] {
        let mut queues = queues(users);
        queues.plan_merge(A, B);
        [A, B].map(|q| (queues[q].sharing.merge_into, queues[q].sharing.users))
    }

    #[test]
    fn the_smaller_goes_over_to_the_larger_and_nobody_to_nobody() {
        let none = QueueNo::NONE;
        assert_eq!(plan([1, 1]), [(B, 1), (none, 2)]);
        assert_eq!(plan([2, 1]), [(none, 3), (A, 1)]);
        assert_eq!(plan([0, 1]), [(none, 0), (none, 1)]);
        assert_eq!(plan([1, 0]), [(none, 1), (none, 0)]);
    }

    #[test]
    fn a_chain_of_merges_is_followed_to_its_end_and_makes_no_loop() {
        let mut queues = queues([1, 1]);
        queues.plan_merge(A, B);
        queues.plan_merge(B, A);
        assert_eq!(queues[B].sharing.merge_into, QueueNo::NONE, "A goes to B already");
        let c = queues.add(CfqQueue::new(true, RT, 0, crate::group::GroupId::ROOT));
        queues[c].sharing.users = 1;
        queues.plan_merge(c, A);
        assert_eq!(queues[c].sharing.merge_into, B);
        assert_eq!(queues[B].sharing.users, 3);
    }

    #[test]
    fn only_a_shared_queue_that_turned_seeky_is_split() {
        let mut sharing = Sharing::NONE;
        sharing.judge(true);
        assert!(!sharing.split);
        sharing.coop = true;
        sharing.judge(false);
        assert!(!sharing.split);
        sharing.judge(true);
        sharing.judge(false);
        assert!(sharing.split, "once is enough");
        sharing.keep();
        assert!(!sharing.split && !sharing.coop);
    }
}
