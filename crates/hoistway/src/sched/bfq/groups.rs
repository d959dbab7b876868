//! Groups: their nodes, weights, moves of queues between them, removal (specs/bfq.md 8.1 to 8.3).

use super::Bfq;
use super::budget::Reason;
use super::ctx::AsyncTable;
use super::ids::{Id, NodeNo, QueueNo};
use super::stats::Tally;
use super::weights::{DEFAULT_WEIGHT, GroupWeight};
use super::wf2q::{BE, IDLE, ROOT, RT};
use crate::env::Cx;
use crate::group::{GroupId, Groups};
use crate::tree::Tree;
use crate::unit::Instant;
use alloc::vec;
use alloc::vec::Vec;

/// What BFQ keeps per group besides the fair-queue node; the index is the node's.
#[derive(Debug)]
pub(super) struct GroupPart {
    /// By actuator.
    pub async_queues: Vec<AsyncTable>,
    /// The sync queue created last (7.5).
    pub last_created: QueueNo,
    /// Queues by the position of their next request (7.2).
    pub index: Tree,
    /// Requests that exist of its subtree (8.5); below zero with quirk Q20.
    pub allocated: i32,
    /// As written; in force is the weight of its entity.
    pub weight: GroupWeight,
    /// Counts of its own queues.
    pub tally: Tally,
    pub group: GroupId,
    pub removed: bool,
}

impl GroupPart {
    pub fn new(actuators: u8, group: GroupId) -> GroupPart {
        GroupPart {
            async_queues: vec![[QueueNo::NONE; 17]; actuators.into()],
            last_created: QueueNo::NONE,
            index: Tree::new(),
            allocated: 0,
            weight: GroupWeight::DEFAULT,
            tally: Tally::default(),
            group,
            removed: false,
        }
    }
}

impl Bfq {
    /// The node of a group, made if there is none; of a removed group that of its nearest living
    /// ancestor.
    #[inline]
    pub(super) fn node_of(&mut self, group: GroupId, groups: &Groups) -> NodeNo {
        if let Some(&node) = self.group_nodes.get(group.index())
            && node.is_some()
        {
            return node;
        }
        self.make_node(group, groups)
    }

    #[cold]
    fn make_node(&mut self, group: GroupId, groups: &Groups) -> NodeNo {
        let parent = groups.parent(group).expect("only the root has no parent");
        let above = self.node_of(parent, groups);
        if !groups.alive(group) {
            return above;
        }
        let node = self.fair.add_group(above, DEFAULT_WEIGHT, self.tn);
        while self.group_nodes.len() <= group.index() {
            self.group_nodes.push(NodeNo::NONE);
        }
        self.group_nodes[group.index()] = node;
        let part = self.groups.push(GroupPart::new(self.actuators, group));
        debug_assert_eq!(part, node);
        node
    }

    /// Counts (or uncounts) requests of a queue in its groups.
    pub(super) fn count_allocated(&mut self, q: QueueNo, n: i32) {
        let queue = &mut self.queues[q];
        queue.allocated = queue.allocated.wrapping_add_signed(n);
        self.count_in_groups(self.fair.ents[q].node, n);
    }

    fn count_in_groups(&mut self, mut node: NodeNo, n: i32) {
        loop {
            let up = self.fair.nodes[node].entity;
            if up.is_none() {
                return;
            }
            let part = &mut self.groups[node];
            part.allocated += n;
            node = self.fair.ents[up].node;
        }
    }

    /// Moves a queue to another group (8.3).
    pub(super) fn move_queue(&mut self, now: Instant, q: QueueNo, node: NodeNo, cx: &mut Cx<'_>) {
        let from = self.fair.ents[q].node;
        if from == node {
            return;
        }
        if self.in_service == q {
            self.expire(now, q, false, Reason::Preempted, cx);
        }
        if self.fair.ents[q].busy {
            self.fair.deactivate(q.into(), false, false, self.tn);
        } else {
            self.fair.forget_idle(q.into());
        }
        self.index_remove(q);
        self.forget_last_created(q);
        // Quirk Q20: without it the old groups keep the count of requests that end in the new ones.
        let moved = if self.conf.move_counts { self.queues[q].allocated } else { 0 };
        self.count_in_groups(from, -(moved as i32));
        self.fair.reparent(q, node);
        self.count_in_groups(node, moved as i32);
        if self.fair.ents[q].busy {
            self.fair.activate_or_requeue(q, false, false, self.tn);
            self.index_update(q);
        }
        if self.in_service.is_none() && self.inflight == 0 {
            self.kick(cx);
        }
    }

    /// Quirk Q20; what went wrong without it is put right.
    pub(super) fn set_move_counts(&mut self, on: bool) {
        self.conf.move_counts = on;
        if on {
            self.groups.iter_mut().for_each(|group| group.allocated = 0);
            for q in self.queues.ids() {
                if self.queues[q].live {
                    let n = self.queues[q].allocated as i32;
                    self.count_in_groups(self.fair.ents[q].node, n);
                }
            }
        }
    }

    /// A group goes away (8.3).
    pub(super) fn remove_group(&mut self, now: Instant, group: GroupId, cx: &mut Cx<'_>) {
        let Some(&node) = self.group_nodes.get(group.index()) else { return };
        if node.is_none() || group == GroupId::ROOT {
            return;
        }
        self.remove_node(now, node, cx);
        let up = self.fair.nodes[node].entity;
        let parent = self.fair.ents[up].node;
        // Ids are not reused: later look-ups find the ancestor at once. So do those of groups that went
        // before and stood for this one until now: a request of theirs, made into one only after the
        // removal, would else become busy below a node that no selection reaches any more.
        for known in self.group_nodes.iter_mut().filter(|known| **known == node) {
            *known = parent;
        }
        for ctx in &mut self.ctxs {
            if ctx.node == node {
                ctx.node = NodeNo::NONE;
            }
        }
    }

    fn remove_node(&mut self, now: Instant, node: NodeNo, cx: &mut Cx<'_>) {
        // Groups below it lose their place too.
        for child in self.groups.ids() {
            let up = self.fair.nodes[child].entity;
            if up.is_some() && self.fair.ents[up].node == node && !self.groups[child].removed {
                let group = self.groups[child].group;
                self.remove_group(now, group, cx);
            }
        }
        for class in [RT, BE, IDLE] {
            // Bounded: each turn takes a leaf out of the group.
            loop {
                let q = self.fair.first_leaf(node, class);
                if q.is_none() {
                    break;
                }
                self.move_queue(now, q, ROOT, cx);
            }
            let q = self.fair.leaf_in_service(node);
            if q.is_some() {
                self.move_queue(now, q, ROOT, cx);
            }
            self.fair.flush_idle(node, class);
        }
        let up = self.fair.nodes[node].entity;
        self.fair.retire(up, self.tn);
        for table in 0..usize::from(self.actuators) {
            for place in 0..17 {
                let tables = &mut self.groups[node].async_queues;
                let q = core::mem::replace(&mut tables[table][place], QueueNo::NONE);
                if q.is_some() {
                    self.move_queue(now, q, ROOT, cx);
                    self.drop_user(q);
                }
            }
        }
        // A sync queue that stands nowhere stays until its context issues I/O for another group.
        // What it received counts for its parent from now on (8.3).
        let parent = self.fair.ents[up].node;
        let gone = &mut self.groups[node];
        gone.removed = true;
        let tally = core::mem::take(&mut gone.tally);
        self.groups[parent].tally.add(&tally);
    }
}
