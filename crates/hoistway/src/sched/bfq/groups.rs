//! Groups: their nodes, weights, moves of queues between them, removal (specs/bfq.md 8.1 to 8.3).
//!
//! A removed group hands its leaves to the root: requests in the device may outlive the group, and the root is always
//! there.

use super::Bfq;
use super::ctx::AsyncTable;
use super::ids::{Id, NodeNo, QueueNo, Rows};
use super::queue::BfqQueue;
use super::slot::Reason;
use super::stats::Tally;
use super::weights::{DEFAULT_WEIGHT, GroupWeight};
use super::wf2q::{BE, IDLE, ROOT, RT};
use crate::env::Cx;
use crate::group::{GroupId, Groups};
use crate::tree::Nodes;
use crate::tree::Tree;
use crate::unit::Instant;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::{Index, IndexMut};

/// State of a group besides its fair-queue node; the index is the node's.
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
    /// The device knows it: it or one below had I/O, or a line about the device was written to its files.
    pub known: bool,
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
            known: false,
            tally: Tally::default(),
            group,
            removed: false,
        }
    }
}

/// The groups of a device, as far as BFQ knows them.
#[derive(Debug)]
pub(super) struct GroupParts {
    pub parts: Rows<NodeNo, GroupPart>,
    /// Node by group number; that of a removed group is its ancestor's.
    pub nodes: Vec<NodeNo>,
    /// Queues by the position of their next request, in the index of their group (7.2).
    pub positions: Nodes<u64>,
}

impl GroupParts {
    /// The root alone.
    pub fn new(actuators: u8) -> GroupParts {
        let mut parts = Rows::new();
        let root = parts.push(GroupPart::new(actuators, GroupId::ROOT));
        debug_assert_eq!(root, ROOT);
        GroupParts { parts, nodes: vec![ROOT], positions: Nodes::new(0) }
    }

    pub fn iter(&self) -> core::slice::Iter<'_, GroupPart> {
        self.parts.iter()
    }

    pub fn iter_mut(&mut self) -> core::slice::IterMut<'_, GroupPart> {
        self.parts.iter_mut()
    }

    pub fn ids(&self) -> impl Iterator<Item = NodeNo> + use<> {
        self.parts.ids()
    }

    /// The node of a group, `NONE` if there is none yet.
    #[inline]
    pub fn node(&self, group: GroupId) -> NodeNo {
        self.nodes.get(group.index()).copied().unwrap_or(NodeNo::NONE)
    }

    /// Counts of all queues, those that are gone included.
    pub fn tally(&self) -> Tally {
        let mut all = Tally::default();
        self.parts.iter().for_each(|part| all.add(&part.tally));
        all
    }

    fn add(&mut self, node: NodeNo, part: GroupPart) {
        let group = part.group.index();
        while self.nodes.len() <= group {
            self.nodes.push(NodeNo::NONE);
        }
        self.nodes[group] = node;
        let added = self.parts.push(part);
        debug_assert_eq!(added, node);
    }
}

impl Index<NodeNo> for GroupParts {
    type Output = GroupPart;

    #[inline]
    fn index(&self, node: NodeNo) -> &GroupPart {
        &self.parts[node]
    }
}

impl IndexMut<NodeNo> for GroupParts {
    #[inline]
    fn index_mut(&mut self, node: NodeNo) -> &mut GroupPart {
        &mut self.parts[node]
    }
}

impl Bfq {
    /// The node of a group, made if there is none; of a removed group that of its nearest living
    /// ancestor.
    #[inline]
    pub(super) fn node_of(&mut self, group: GroupId, groups: &Groups) -> NodeNo {
        let node = self.groups.node(group);
        if node.is_some() { node } else { self.make_node(group, groups) }
    }

    #[cold]
    fn make_node(&mut self, group: GroupId, groups: &Groups) -> NodeNo {
        let parent = groups.parent(group).expect("only the root has no parent");
        let above = self.node_of(parent, groups);
        if !groups.alive(group) {
            return above;
        }
        let node = self.fair.add_group(above, DEFAULT_WEIGHT, self.tn);
        self.groups.add(node, GroupPart::new(self.ctxs.actuators, group));
        node
    }

    /// The device knows the group from now on, and those above it.
    pub(super) fn know(&mut self, mut node: NodeNo) {
        while node != ROOT && !self.groups[node].known {
            self.groups[node].known = true;
            let up = self.fair.nodes[node].entity;
            node = self.fair.ents[up].node;
        }
    }

    /// Counts (or uncounts) requests of a queue in its groups.
    #[inline(always)]
    pub(super) fn count_allocated(&mut self, q: QueueNo, n: i32) -> &BfqQueue {
        let node = self.fair.ents[q].node;
        if node != ROOT {
            self.count_in_groups(node, n);
        }
        let queue = &mut self.queues[q];
        queue.rqs.allocated = queue.rqs.allocated.wrapping_add_signed(n);
        queue
    }

    #[inline(never)]
    fn count_in_groups(&mut self, mut node: NodeNo, n: i32) {
        while node != ROOT {
            let up = self.fair.nodes[node].entity;
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
        // Quirk Q27: as if it had left its group already when its slot ends.
        let leaves_first = self.conf.base.leaves_count_first() && self.fair.ents[q].grouped;
        if leaves_first {
            self.fair.leave_group_count(q);
        }
        if self.serving.queue == q {
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
        let moved = if self.conf.move_counts { self.queues[q].rqs.allocated } else { 0 };
        self.count_in_groups(from, -(moved as i32));
        self.fair.reparent(q, node);
        // Even where it has nothing any more: so it is until something of it ends or is empty again.
        if leaves_first {
            self.fair.join_group_count(q);
        }
        self.count_in_groups(node, moved as i32);
        if self.fair.ents[q].busy {
            self.fair.activate_or_requeue(q, false, false, self.tn);
            self.index_update(q);
        }
        if self.serving.queue.is_none() && self.load.inflight == 0 {
            self.kick(cx);
        }
    }

    /// Quirk Q20; what went wrong without it is put right.
    pub(super) fn recount_groups(&mut self) {
        self.groups.iter_mut().for_each(|group| group.allocated = 0);
        for q in self.queues.ids() {
            if self.queues[q].live {
                let n = self.queues[q].rqs.allocated as i32;
                self.count_in_groups(self.fair.ents[q].node, n);
            }
        }
    }

    /// A group goes away (8.3).
    pub(super) fn remove_group(&mut self, now: Instant, group: GroupId, cx: &mut Cx<'_>) {
        let node = self.groups.node(group);
        if node.is_none() || group == GroupId::ROOT {
            return;
        }
        self.remove_node(now, node, cx);
        let up = self.fair.nodes[node].entity;
        let parent = self.fair.ents[up].node;
        // Ids are not reused: later look-ups find the ancestor at once. So do those of groups that went
        // before and stood for this one until now: a request of theirs, made into one only after the
        // removal, would else become busy below a node that no selection reaches any more.
        for known in self.groups.nodes.iter_mut().filter(|known| **known == node) {
            *known = parent;
        }
        for ctx in &mut self.ctxs.procs {
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
        for table in 0..usize::from(self.ctxs.actuators) {
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
