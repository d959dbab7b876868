//! Whose turn it is: keys within a service tree, when a queue is in one, and which group, class, type and queue come
//! next (specs/cfq.md 5, 7.1 step 4, 7.4).

use super::group::{ASYNC, CfqGroup, NOIDLE, SYNC, TreeNo, kind};
use super::ids::QueueNo;
use super::queue::CfqQueue;
use super::{Cfq, IDLE, TARGET_LATENCY, Version};
use crate::group::GroupId;
use crate::rows::Id;

/// Distance of an IDLE key behind the last one, in ticks: IDLE queues go round among themselves.
const IDLE_DELAY: i64 = 200;
/// Distance of a preempting queue before the first key, in ticks: more than any residual moves a key.
const FRONT: i64 = 1000;

impl Cfq {
    pub(super) fn group_of(&self, q: QueueNo) -> &CfqGroup {
        &self.groups.rows[self.queues[q].turn.group]
    }

    /// `base(sync, level)`: the length of a slice carries the priority, 180 ms to 40 for sync queues. Length and not
    /// frequency, so that everybody's wait is bounded by one round of the others.
    pub(super) fn base(&self, sync: bool, level: u8) -> i64 {
        let s = self.conf.slice[usize::from(sync)];
        s + s / 5 * (4 - i64::from(level))
    }

    /// The tree a queue belongs in.
    fn own_tree(&self, queue: &CfqQueue) -> TreeNo {
        match self.version {
            Version::V30 => TreeNo { group: queue.turn.group, number: 0 },
            _ => TreeNo::of(queue.turn.group, queue.class, kind(queue)),
        }
    }

    /// The order in a tree: by key; the one tree of 2.6.30 has RT first and IDLE last.
    fn order(&self, class: u8, key: i64) -> u64 {
        // Keys are ticks and a few thousand: 2^61 ms are 73 million years.
        let by_key = (key + (1 << 61)) as u64;
        if self.version == Version::V30 { u64::from(class) << 62 | by_key } else { by_key }
    }

    /// 5.1: puts a busy queue on its tree, or elsewhere on it.
    pub(super) fn place(&mut self, now: i64, q: QueueNo, front: bool) {
        let was_on = self.groups.serves(q);
        let moved = self.rehome(q, was_on);
        let to = self.own_tree(&self.queues[q]);
        let key = self.key_for(now, q, to, front);
        let turn = &self.queues[q].turn;
        let same = self.groups.serves(q) && turn.tree == to && turn.key == key;
        // In 2.6.30 the class is a part of the order and may have changed.
        if !same || self.version == Version::V30 {
            self.take_off(q);
            let order = self.order(self.queues[q].class, key);
            let turn = &mut self.queues[q].turn;
            turn.tree = to;
            turn.key = key;
            self.groups.put(q, to, order);
        }
        if moved || !(front || was_on) {
            self.groups.count_in(to.group);
        }
    }

    /// 5.1 step 1: without isolation a queue not worth idling for is served in the root group. True
    /// if it changed its group; it is then off its tree and counted out.
    ///
    /// To isolate such queues the device would have to be kept idle for each group in turn, which costs most of the
    /// throughput; `group_isolation` is the choice.
    fn rehome(&mut self, q: QueueNo, was_on: bool) -> bool {
        if self.conf.group_isolation || self.version == Version::V30 {
            return false;
        }
        let queue = &self.queues[q];
        let from = queue.turn.group;
        let to = match kind(queue) {
            NOIDLE if from != GroupId::ROOT => GroupId::ROOT,
            SYNC if queue.turn.home.is_some() => queue.turn.home,
            _ => return false,
        };
        if was_on {
            self.take_off(q);
            self.groups.count_out(from);
        }
        let queue = &mut self.queues[q];
        queue.turn.home = if to == GroupId::ROOT { from } else { GroupId::NONE };
        queue.turn.group = to;
        self.groups.rows[from].dispatched -= queue.dispatched;
        self.groups.rows[to].dispatched += queue.dispatched;
        true
    }

    /// 5.1 step 2. A queue of a lower priority comes later, by as much as its slice is shorter times the number of
    /// others: beside the length of slices also their frequency differs a little. What the queue had left of its last
    /// slice, or overran it by, brings it back earlier or later.
    fn key_for(&mut self, now: i64, q: QueueNo, to: TreeNo, front: bool) -> i64 {
        let queue = &self.queues[q];
        if queue.class == IDLE {
            let last = self.groups.last_of(to);
            let after = if last.is_some() && last != q { self.queues[last].turn.key } else { now };
            return IDLE_DELAY + after;
        }
        let early = self.version == Version::V30;
        if front {
            return match self.groups.first_of(to) {
                _ if early => 0,
                QueueNo::NONE => now - FRONT,
                first => self.queues[first].turn.key - FRONT,
            };
        }
        let step = self.base(true, 0) - self.base(queue.sync, queue.level);
        let resid = queue.slice.resid;
        let key = if early {
            // The residual is added: the sign error of that time.
            now + (i64::from(self.busy_queues) - 1) * step + resid
        } else {
            now + (i64::from(self.groups.rows[to.group].nr_q) - 1) * step - resid
        };
        self.queues[q].slice.resid = 0;
        key
    }

    fn take_off(&mut self, q: QueueNo) {
        self.groups.take(q, self.queues[q].turn.tree);
    }

    /// 5.3.
    pub(super) fn become_busy(&mut self, now: i64, q: QueueNo) {
        debug_assert!(!self.queues[q].turn.busy);
        self.queues[q].turn.busy = true;
        self.busy_queues += 1;
        self.place(now, q, false);
        self.find_near_place(q);
    }

    /// 5.4.
    pub(super) fn stop_busy(&mut self, q: QueueNo) {
        debug_assert!(self.queues[q].turn.busy && self.queues[q].empty());
        self.queues[q].turn.busy = false;
        self.take_off(q);
        self.leave_near(q);
        self.groups.count_out(self.queues[q].turn.group);
        self.busy_queues -= 1;
    }

    /// 7.1 step 4: the group of `q` pays for its slice, and what is left of the workload slice is
    /// kept.
    pub(super) fn charge(&mut self, now: i64, q: QueueNo) {
        if self.version == Version::V30 {
            return;
        }
        let queue = &self.queues[q];
        let group = queue.turn.group;
        let g = &self.groups.rows[group];
        let no_sync = i64::from(g.nr_q) - g.busy_async() - g.busy(IDLE) == 0;
        // Time is what a device of depth 1 shares. On one that serves several queues at once nobody can tell whose
        // time it was, so requests are counted. Async queues alone pay whole slices: their requests complete late.
        let by_requests =
            self.conf.iops_mode && self.conf.slice_idle == 0 && self.queueing.possible();
        let charge = if by_requests {
            queue.slice.sent
        } else if !queue.sync && no_sync {
            queue.slice.len
        } else {
            queue.slice.used_time(now)
        };
        self.groups.charge(group, charge);
        self.groups.rows[group].saved = self.workload.save(now);
    }

    /// 7.4, and the first queue of what was chosen. Requests are queued and no queue is active, so
    /// there is one, and it has a request.
    pub(super) fn choose_queue(&mut self, now: i64) -> QueueNo {
        let group = self.groups.first();
        debug_assert!(group.is_some(), "requests are queued, so a queue is busy");
        if self.version == Version::V30 {
            return self.groups.first_of(TreeNo::ONLY);
        }
        self.groups.pass(group);
        self.workload.resume(now, self.groups.rows[group].saved);
        if self.workload.turn_to(now, &self.groups.rows[group]) {
            self.choose_workload(now, group);
        }
        self.groups.first_of(TreeNo::of(group, self.workload.class, self.workload.kind))
    }

    /// The type whose first queue has waited longest, for its part of the group's slice.
    fn choose_workload(&mut self, now: i64, group: GroupId) {
        let class = self.workload.class;
        let mut best = QueueNo::NONE;
        for kind in [ASYNC, NOIDLE, SYNC] {
            let first = self.groups.first_of(TreeNo::of(group, class, kind));
            if first.is_some()
                && (best.is_none() || self.queues[first].turn.key < self.queues[best].turn.key)
            {
                best = first;
                self.workload.kind = kind;
            }
        }
        let g = &self.groups.rows[group];
        let count = i64::from(g.tree(class, self.workload.kind).len());
        let queues = g.avg[usize::from(class)].max(g.busy(class));
        let mut slice = self.groups.slice(group) * count / queues;
        if self.workload.kind == ASYNC {
            // Across groups async queues get no more than their part of all queues.
            let part = TARGET_LATENCY * g.busy_async() / i64::from(self.busy_queues);
            slice = slice.min(part) * self.conf.slice[0] / self.conf.slice[1];
        } else {
            // Shorter than two waits it would be spent on waiting.
            slice = slice.max(2 * self.conf.slice_idle);
        }
        self.workload.begin(now, slice);
    }
}
