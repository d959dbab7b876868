//! Groups and service trees: weighted virtual time between groups, keys within a tree, and which
//! group, class and type is served next (specs/cfq.md 5, 7.1 step 4, 7.4).

use super::queue::{NOWHERE, Queue, UNSET};
use super::{BE, Cfq, IDLE, RT, TARGET_LATENCY, Version};
use crate::group::GroupId;
use crate::table::NIL;
use crate::tree::Tree;

/// Types of queue, in the order in which first keys are compared.
pub(super) const ASYNC: u8 = 0;
/// Sync queues not worth idling for.
pub(super) const NOIDLE: u8 = 1;
/// Sync queues that are idled for.
pub(super) const SYNC: u8 = 2;

/// The tree of the IDLE class behind the six of RT and BE.
const IDLE_TREE: u8 = 6;
/// Distance of an IDLE key behind the last one, in ticks.
const IDLE_DELAY: i64 = 200;
/// Distance of a preempting queue before the first key, in ticks.
const FRONT: i64 = 1000;
/// How far behind the others a group starts, in units of virtual time.
const GROUP_DELAY: u64 = 200;
/// Fraction bits of the virtual time of groups.
const SHIFT: u32 = 12;
/// Shortest workload slice, in ticks.
const WORKLOAD_MIN: i64 = 2;

/// Default weight of a group, and of the root.
pub(super) const WEIGHT: i64 = 500;
pub(super) const ROOT_WEIGHT: i64 = 1000;

/// One group.
#[derive(Clone, Debug)]
pub(super) struct Group {
    pub vtime: u64,
    /// In force, and to be in force when it is next off the tree.
    pub weight: i64,
    pub new_weight: i64,
    /// Busy queues.
    pub nr_q: u32,
    /// Handed over and not completed.
    pub dispatched: u32,
    /// Running average of the number of busy queues, RT and BE.
    pub avg: [i64; 2],
    /// RT and BE by type, then IDLE. 2.6.30 uses the first for everything.
    pub trees: [Tree; 7],
    /// What was left of the workload slice: ticks, type, class.
    pub saved: Option<(i64, u8, u8)>,
}

impl Group {
    pub fn new(weight: i64) -> Group {
        Group {
            vtime: 0,
            weight,
            new_weight: weight,
            nr_q: 0,
            dispatched: 0,
            avg: [0; 2],
            trees: [Tree::new(); 7],
            saved: None,
        }
    }

    pub fn tree(&self, class: u8, kind: u8) -> &Tree {
        &self.trees[usize::from(tree_number(class, kind))]
    }

    /// Busy queues of a class.
    pub fn busy(&self, class: u8) -> i64 {
        if class == IDLE {
            return self.trees[usize::from(IDLE_TREE)].len().into();
        }
        [ASYNC, NOIDLE, SYNC].iter().map(|&kind| i64::from(self.tree(class, kind).len())).sum()
    }

    fn busy_async(&self) -> i64 {
        i64::from(self.tree(RT, ASYNC).len() + self.tree(BE, ASYNC).len())
    }
}

fn tree_number(class: u8, kind: u8) -> u8 {
    if class == IDLE { IDLE_TREE } else { 3 * class + kind }
}

pub(super) fn kind(queue: &Queue) -> u8 {
    match (queue.sync, queue.idle_window) {
        (false, _) => ASYNC,
        (true, false) => NOIDLE,
        (true, true) => SYNC,
    }
}

impl Cfq {
    pub(super) fn ensure_group(&mut self, group: GroupId) {
        while self.groups.len() <= group.index() {
            self.groups.push(Group::new(WEIGHT));
        }
        self.group_nodes.grow(self.groups.len());
    }

    pub(super) fn g(&self, q: u32) -> &Group {
        &self.groups[self.queues[q as usize].group as usize]
    }

    /// The weight takes effect at once off the tree, else when the group is next charged or added.
    pub(super) fn set_weight(&mut self, group: GroupId, weight: i64) {
        self.ensure_group(group);
        let g = &mut self.groups[group.index()];
        g.new_weight = weight;
        if g.nr_q == 0 {
            g.weight = weight;
        }
    }

    /// `base(sync, level)`.
    pub(super) fn base(&self, sync: bool, level: u8) -> i64 {
        let s = self.conf.slice[usize::from(sync)];
        s + s / 5 * (4 - i64::from(level))
    }

    /// The tree a queue belongs in.
    fn own_tree(&self, queue: &Queue) -> (u32, u8) {
        let number = match self.version {
            Version::V30 => 0,
            _ => tree_number(queue.class, kind(queue)),
        };
        (queue.group, number)
    }

    /// The order in a tree: by key; the one tree of 2.6.30 has RT first and IDLE last.
    fn order(&self, class: u8, key: i64) -> u64 {
        // Keys are ticks and a few thousand: 2^61 ms are 73 million years.
        let by_key = (key + (1 << 61)) as u64;
        if self.version == Version::V30 { u64::from(class) << 62 | by_key } else { by_key }
    }

    /// 5.1: puts a busy queue on its tree, or elsewhere on it.
    pub(super) fn place(&mut self, now: i64, q: u32, front: bool) {
        let was_on = self.rr_nodes.linked(q);
        let moved = self.rehome(q, was_on);
        let to = self.own_tree(self.q(q));
        let key = self.key_for(now, q, to, front);
        let same = self.rr_nodes.linked(q) && self.q(q).tree == to && self.q(q).key == key;
        // In 2.6.30 the class is a part of the order and may have changed.
        if !same || self.version == Version::V30 {
            self.take_off(q);
            let queue = &mut self.queues[q as usize];
            queue.tree = to;
            queue.key = key;
            let order = self.order(self.q(q).class, key);
            let tree = &mut self.groups[to.0 as usize].trees[usize::from(to.1)];
            tree.insert(&mut self.rr_nodes, q, order, ());
        }
        if moved || !(front || was_on) {
            self.count_in(to.0);
        }
    }

    /// 5.1 step 1: without isolation a queue not worth idling for is served in the root group. True
    /// if it changed its group; it is then off its tree and counted out.
    fn rehome(&mut self, q: u32, was_on: bool) -> bool {
        if self.conf.group_isolation || self.version == Version::V30 {
            return false;
        }
        let queue = self.q(q);
        let to = match kind(queue) {
            NOIDLE if queue.group != 0 => 0,
            SYNC if queue.home != NIL => queue.home,
            _ => return false,
        };
        let (from, dispatched) = (queue.group, queue.dispatched);
        if was_on {
            self.take_off(q);
            self.count_out(from);
        }
        let queue = self.q_mut(q);
        queue.home = if to == 0 { from } else { NIL };
        queue.group = to;
        self.groups[from as usize].dispatched -= dispatched;
        self.groups[to as usize].dispatched += dispatched;
        true
    }

    /// 5.1 step 2.
    fn key_for(&mut self, now: i64, q: u32, to: (u32, u8), front: bool) -> i64 {
        let tree = &self.groups[to.0 as usize].trees[usize::from(to.1)];
        let queue = self.q(q);
        if queue.class == IDLE {
            let last = tree.last(&self.rr_nodes);
            let after = if last != NIL && last != q { self.q(last).key } else { now };
            return IDLE_DELAY + after;
        }
        let early = self.version == Version::V30;
        if front {
            let first = tree.first();
            return match first {
                _ if early => 0,
                NIL => now - FRONT,
                first => self.q(first).key - FRONT,
            };
        }
        let step = self.base(true, 0) - self.base(queue.sync, queue.level);
        let resid = queue.slice_resid;
        let key = if early {
            // The residual is added: the sign error of that time.
            now + (i64::from(self.busy_queues) - 1) * step + resid
        } else {
            now + (i64::from(self.groups[to.0 as usize].nr_q) - 1) * step - resid
        };
        self.q_mut(q).slice_resid = 0;
        key
    }

    fn take_off(&mut self, q: u32) {
        if self.rr_nodes.linked(q) {
            let (group, number) = self.q(q).tree;
            self.groups[group as usize].trees[usize::from(number)].remove(&mut self.rr_nodes, q);
        }
    }

    /// A busy queue more in that group.
    fn count_in(&mut self, group: u32) {
        let last = self.group_tree.last(&self.group_nodes);
        let start = if last == NIL {
            self.min_vtime
        } else {
            self.groups[last as usize].vtime + GROUP_DELAY
        };
        let g = &mut self.groups[group as usize];
        g.nr_q += 1;
        if !self.group_nodes.linked(group) {
            g.vtime = start;
            g.weight = g.new_weight;
            self.total_weight += g.weight;
            self.group_tree.insert(&mut self.group_nodes, group, start, ());
        }
    }

    fn count_out(&mut self, group: u32) {
        let g = &mut self.groups[group as usize];
        g.nr_q -= 1;
        if g.nr_q == 0 {
            g.saved = None;
            self.total_weight -= g.weight;
            g.weight = g.new_weight;
            self.group_tree.remove(&mut self.group_nodes, group);
        }
    }

    /// 5.3.
    pub(super) fn become_busy(&mut self, now: i64, q: u32) {
        debug_assert!(!self.q(q).on_rr);
        self.q_mut(q).on_rr = true;
        self.busy_queues += 1;
        self.place(now, q, false);
        self.find_near_place(q);
    }

    /// 5.4.
    pub(super) fn stop_busy(&mut self, q: u32) {
        debug_assert!(self.q(q).on_rr && self.q(q).empty());
        self.q_mut(q).on_rr = false;
        self.take_off(q);
        self.leave_near(q);
        self.count_out(self.q(q).group);
        self.busy_queues -= 1;
    }

    /// 5.2: near-trees hold queues by the sector of their next request, one per sector.
    pub(super) fn find_near_place(&mut self, q: u32) {
        self.leave_near(q);
        let queue = self.q(q);
        if queue.class == IDLE || queue.next == NIL {
            return;
        }
        let (level, at) = (queue.level, self.rqs[queue.next as usize].pos);
        self.q_mut(q).near_at = at;
        let tree = &mut self.near[usize::from(level)];
        let taken = tree.lower_bound(&self.near_nodes, at);
        if taken == NIL || self.near_nodes.key(taken) != at {
            tree.insert(&mut self.near_nodes, q, at, ());
            self.q_mut(q).near = level;
        }
    }

    pub(super) fn leave_near(&mut self, q: u32) {
        let level = core::mem::replace(&mut self.q_mut(q).near, NOWHERE);
        if level != NOWHERE {
            self.near[usize::from(level)].remove(&mut self.near_nodes, q);
        }
    }

    /// 7.1 step 4: the group of `q` pays for its slice, and what is left of the workload slice is
    /// kept.
    pub(super) fn charge(&mut self, now: i64, q: u32) {
        if self.version == Version::V30 {
            return;
        }
        let queue = self.q(q);
        let (group, sync) = (queue.group, queue.sync);
        let used = if queue.slice_start == UNSET || queue.slice_start == now {
            (now - queue.dispatch_start).max(1)
        } else {
            (now - queue.slice_start).min(queue.slice_len)
        };
        let (slice_len, requests) = (queue.slice_len, queue.slice_dispatch);
        let g = &mut self.groups[group as usize];
        let no_sync = i64::from(g.nr_q) - g.busy_async() - g.busy(IDLE) == 0;
        let charge = if self.conf.iops_mode && self.conf.slice_idle == 0 && self.hw_tag != 0 {
            requests
        } else if !sync && no_sync {
            slice_len
        } else {
            used
        };
        debug_assert!(charge >= 0);
        self.group_tree.remove(&mut self.group_nodes, group);
        g.vtime += ((charge << SHIFT) * WEIGHT / g.weight) as u64;
        // Deviation: section 11 applies a new weight when the group is next off the tree; a group
        // that always has requests would never get there, but it is off the tree for this moment.
        self.total_weight += g.new_weight - g.weight;
        g.weight = g.new_weight;
        self.group_tree.insert(&mut self.group_nodes, group, g.vtime, ());
        g.saved = (self.wl_end > now).then_some((
            self.wl_end - now,
            self.serving_type,
            self.serving_class,
        ));
    }

    /// 300 ms by the group's share of the weight of all busy groups.
    pub(super) fn group_slice(&self, group: u32) -> i64 {
        TARGET_LATENCY * self.groups[group as usize].weight / self.total_weight
    }

    /// 7.4, and the first queue of what was chosen. Requests are queued and no queue is active, so
    /// there is one, and it has a request.
    pub(super) fn choose_queue(&mut self, now: i64) -> u32 {
        let group = self.group_tree.first();
        debug_assert_ne!(group, NIL, "requests are queued, so a queue is busy");
        if self.version == Version::V30 {
            return self.groups[group as usize].trees[0].first();
        }
        let g = &self.groups[group as usize];
        self.min_vtime = self.min_vtime.max(g.vtime);
        match g.saved {
            Some((left, kind, class)) => {
                self.wl_end = now + left;
                self.serving_type = kind;
                self.serving_class = class;
            }
            None => self.wl_end = now - 1,
        }
        self.choose_workload(now, group);
        let g = &self.groups[group as usize];
        g.tree(self.serving_class, self.serving_type).first()
    }

    fn choose_workload(&mut self, now: i64, group: u32) {
        let g = &self.groups[group as usize];
        let class = if g.busy(RT) > 0 {
            RT
        } else if g.busy(BE) > 0 {
            BE
        } else {
            IDLE
        };
        let goes_on = !g.tree(class, self.serving_type).is_empty() && now <= self.wl_end;
        self.serving_class = class;
        if class == IDLE {
            self.wl_end = now + 1;
            return;
        }
        if goes_on {
            return;
        }
        let mut best = NIL;
        for kind in [ASYNC, NOIDLE, SYNC] {
            let first = g.tree(class, kind).first();
            if first != NIL && (best == NIL || self.q(first).key < self.q(best).key) {
                best = first;
                self.serving_type = kind;
            }
        }
        let g = &self.groups[group as usize];
        let count = i64::from(g.tree(class, self.serving_type).len());
        let queues = g.avg[usize::from(class)].max(g.busy(class));
        let mut slice = self.group_slice(group) * count / queues;
        if self.serving_type == ASYNC {
            // Across groups async queues get no more than their part of all queues.
            let part = TARGET_LATENCY * g.busy_async() / i64::from(self.busy_queues);
            slice = slice.min(part) * self.conf.slice[0] / self.conf.slice[1];
        } else {
            slice = slice.max(2 * self.conf.slice_idle);
        }
        self.wl_end = now + slice.max(WORKLOAD_MIN);
        self.noidle_wants_idle = false;
    }
}
