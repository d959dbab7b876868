//! Groups: weighted virtual time between them, service trees in them, and the workload slice that says which type of
//! queue is served (specs/cfq.md 5, 7.1 step 4, 7.4).

use super::ids::QueueNo;
use super::queue::CfqQueue;
use super::{BE, IDLE, RT, TARGET_LATENCY};
use crate::group::GroupId;
use crate::rows::Rows;
use crate::table::NIL;
use crate::tree::{Nodes, Tree};

/// Types of queue, in the order in which first keys are compared.
///
/// Queues not worth idling for were once mixed with those that are idled for, and waited whole slices for one request.
/// Together they fill the device's queue, and one wait after the last of them protects them all (2.6.33, ML
/// "cfq-iosched: fairness for sync no-idle queues").
pub(super) const ASYNC: u8 = 0;
/// Sync queues not worth idling for.
pub(super) const NOIDLE: u8 = 1;
/// Sync queues that are idled for.
pub(super) const SYNC: u8 = 2;

/// The tree of the IDLE class behind the six of RT and BE.
const IDLE_TREE: u8 = 6;
/// How far behind the others a group starts, in units of virtual time: one that comes and goes must not be first
/// each time it comes.
const GROUP_DELAY: u64 = 200;
/// Fraction bits of the virtual time of groups.
const SHIFT: u32 = 12;
/// Shortest workload slice, in ticks: with 1 it could be over before anything is dispatched.
const WORKLOAD_MIN: i64 = 2;

/// Default weight of a group, and of the root: what is in no group is most of the machine.
pub(super) const WEIGHT: i64 = 500;
pub(super) const ROOT_WEIGHT: i64 = 1000;

/// A service tree of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TreeNo {
    pub group: GroupId,
    pub number: u8,
}

impl TreeNo {
    pub fn of(group: GroupId, class: u8, kind: u8) -> TreeNo {
        TreeNo { group, number: tree_number(class, kind) }
    }

    /// 2.6.30 has one tree.
    pub const ONLY: TreeNo = TreeNo { group: GroupId::ROOT, number: 0 };
}

fn tree_number(class: u8, kind: u8) -> u8 {
    if class == IDLE { IDLE_TREE } else { 3 * class + kind }
}

pub(super) fn kind(queue: &CfqQueue) -> u8 {
    match (queue.sync, queue.idle_window) {
        (false, _) => ASYNC,
        (true, false) => NOIDLE,
        (true, true) => SYNC,
    }
}

/// One group.
#[derive(Clone, Debug)]
pub(super) struct CfqGroup {
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
    /// Rest of the workload slice.
    pub saved: Option<SavedWorkload>,
}

/// A workload slice that was cut off by another group's turn: ticks, type, class. Without it a group whose slices are
/// short would begin with the same type each time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SavedWorkload {
    left: i64,
    kind: u8,
    class: u8,
}

impl CfqGroup {
    pub fn new(weight: i64) -> CfqGroup {
        CfqGroup {
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

    pub fn busy_async(&self) -> i64 {
        i64::from(self.tree(RT, ASYNC).len() + self.tree(BE, ASYNC).len())
    }

    /// The first class that has busy queues. A strict order: IDLE waits for both others.
    fn first_class(&self) -> u8 {
        [RT, BE].into_iter().find(|&class| self.busy(class) > 0).unwrap_or(IDLE)
    }

    /// Moves the average of busy queues of a class, and returns it. It rises quickly and falls slowly (3:1 for the
    /// larger of old and new): slices are short at once when many come, for latency, and long again only when they
    /// stay away, for fairness among those who pause.
    pub fn average_busy(&mut self, class: u8) -> i64 {
        let busy = self.busy(class);
        let avg = &mut self.avg[usize::from(class)];
        *avg = (3 * busy.max(*avg) + busy.min(*avg) + 2) / 4;
        *avg
    }
}

/// All groups, and the service trees in them.
#[derive(Debug)]
pub(super) struct CfqGroups {
    pub rows: Rows<GroupId, CfqGroup>,
    /// Busy groups by virtual time.
    nodes: Nodes<u64>,
    tree: Tree,
    min_vtime: u64,
    pub total_weight: i64,
    /// Busy queues in the trees of their groups.
    service: Nodes<u64>,
}

impl CfqGroups {
    /// The root, and room for so many queues.
    pub fn new(queues: usize) -> CfqGroups {
        CfqGroups {
            rows: Rows::from(alloc::vec![CfqGroup::new(ROOT_WEIGHT)]),
            nodes: Nodes::new(1),
            tree: Tree::new(),
            min_vtime: 0,
            total_weight: 0,
            service: Nodes::new(queues),
        }
    }

    pub fn grow_queues(&mut self, queues: usize) {
        self.service.grow(queues);
    }

    pub fn ensure(&mut self, group: GroupId) {
        while self.rows.len() <= group.index() {
            self.rows.push(CfqGroup::new(WEIGHT));
        }
        self.nodes.grow(self.rows.len());
    }

    /// The weight takes effect at once off the tree, else when the group is next charged or added.
    pub fn set_weight(&mut self, group: GroupId, weight: i64) {
        self.ensure(group);
        let g = &mut self.rows[group];
        g.new_weight = weight;
        if g.nr_q == 0 {
            g.weight = weight;
        }
    }

    /// The busy group whose turn it is.
    pub fn first(&self) -> GroupId {
        GroupId(self.tree.first())
    }

    #[cfg(any(test, debug_assertions))]
    pub fn linked(&self, group: GroupId) -> bool {
        self.nodes.linked(group.0)
    }

    /// It is served now: nobody who comes later starts before it.
    pub fn pass(&mut self, group: GroupId) {
        self.min_vtime = self.min_vtime.max(self.rows[group].vtime);
    }

    /// A busy queue more in that group.
    pub fn count_in(&mut self, group: GroupId) {
        let last = self.tree.last(&self.nodes);
        let start =
            if last == NIL { self.min_vtime } else { self.rows[GroupId(last)].vtime + GROUP_DELAY };
        let g = &mut self.rows[group];
        g.nr_q += 1;
        if !self.nodes.linked(group.0) {
            g.vtime = start;
            g.weight = g.new_weight;
            self.total_weight += g.weight;
            self.tree.insert(&mut self.nodes, group.0, start, ());
        }
    }

    pub fn count_out(&mut self, group: GroupId) {
        let g = &mut self.rows[group];
        g.nr_q -= 1;
        if g.nr_q == 0 {
            g.saved = None;
            self.total_weight -= g.weight;
            g.weight = g.new_weight;
            self.tree.remove(&mut self.nodes, group.0);
        }
    }

    /// 7.1 step 4: the group pays for a slice, in ticks or requests, and goes where its virtual time puts it.
    pub fn charge(&mut self, group: GroupId, charge: i64) {
        debug_assert!(charge >= 0);
        let g = &mut self.rows[group];
        self.tree.remove(&mut self.nodes, group.0);
        g.vtime += ((charge << SHIFT) * WEIGHT / g.weight) as u64;
        // Deviation: section 11 applies a new weight when the group is next off the tree; a group
        // that always has requests would never get there, but it is off the tree for this moment.
        self.total_weight += g.new_weight - g.weight;
        g.weight = g.new_weight;
        self.tree.insert(&mut self.nodes, group.0, g.vtime, ());
    }

    /// 300 ms by the group's share of the weight of all busy groups.
    pub fn slice(&self, group: GroupId) -> i64 {
        TARGET_LATENCY * self.rows[group].weight / self.total_weight
    }

    // Service trees.

    /// In a service tree.
    pub fn serves(&self, q: QueueNo) -> bool {
        self.service.linked(q.0)
    }

    pub fn put(&mut self, q: QueueNo, at: TreeNo, order: u64) {
        let tree = &mut self.rows[at.group].trees[usize::from(at.number)];
        tree.insert(&mut self.service, q.0, order, ());
    }

    /// Takes `q` out of that tree, if it is in one.
    pub fn take(&mut self, q: QueueNo, at: TreeNo) {
        if self.service.linked(q.0) {
            let tree = &mut self.rows[at.group].trees[usize::from(at.number)];
            tree.remove(&mut self.service, q.0);
        }
    }

    fn tree(&self, at: TreeNo) -> &Tree {
        &self.rows[at.group].trees[usize::from(at.number)]
    }

    pub fn len(&self, at: TreeNo) -> u32 {
        self.tree(at).len()
    }

    pub fn first_of(&self, at: TreeNo) -> QueueNo {
        QueueNo(self.tree(at).first())
    }

    pub fn last_of(&self, at: TreeNo) -> QueueNo {
        QueueNo(self.tree(at).last(&self.service))
    }
}

/// The workload in service: a type of queues of a class, for a while.
#[derive(Clone, Copy, Debug)]
pub(super) struct Workload {
    pub class: u8,
    pub kind: u8,
    /// End of the workload slice.
    pub end: i64,
    /// One of the NOIDLE queues that were served asks to be idled for after all.
    pub noidle_wants_idle: bool,
}

impl Workload {
    pub const NONE: Workload =
        Workload { class: BE, kind: ASYNC, end: 0, noidle_wants_idle: false };

    /// Rest of it, for when the group is served next.
    pub fn save(&self, t: i64) -> Option<SavedWorkload> {
        (self.end > t).then_some(SavedWorkload {
            left: self.end - t,
            kind: self.kind,
            class: self.class,
        })
    }

    /// The group goes on where it was interrupted, or begins anew.
    pub fn resume(&mut self, t: i64, saved: Option<SavedWorkload>) {
        match saved {
            Some(saved) => {
                self.end = t + saved.left;
                self.kind = saved.kind;
                self.class = saved.class;
            }
            None => self.end = t - 1,
        }
    }

    /// The class to serve; true if the type and its slice are to be chosen.
    pub fn turn_to(&mut self, t: i64, group: &CfqGroup) -> bool {
        self.class = group.first_class();
        if self.class == IDLE {
            self.end = t + 1;
            return false;
        }
        group.tree(self.class, self.kind).is_empty() || t > self.end
    }

    /// A slice of that length.
    pub fn begin(&mut self, t: i64, length: i64) {
        self.end = t + length.max(WORKLOAD_MIN);
        self.noidle_wants_idle = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::Id;

    /// Two groups beside the root, of weights 500 and 1000, each with a busy queue.
    fn two() -> (CfqGroups, GroupId, GroupId) {
        let mut groups = CfqGroups::new(4);
        let (a, b) = (GroupId(1), GroupId(2));
        groups.set_weight(a, 500);
        groups.set_weight(b, 1000);
        groups.count_in(a);
        groups.count_in(b);
        (groups, a, b)
    }

    #[test]
    fn a_newcomer_starts_behind_the_last_and_weights_divide_the_round() {
        let (groups, a, b) = two();
        assert_eq!((groups.rows[a].vtime, groups.rows[b].vtime), (0, GROUP_DELAY));
        assert_eq!((groups.slice(a), groups.slice(b), groups.first()), (100, 200, a));
    }

    #[test]
    fn a_slice_costs_the_heavier_less_and_the_least_served_is_first() {
        let (mut groups, a, b) = two();
        groups.charge(a, 10);
        assert_eq!((groups.rows[a].vtime, groups.first()), (10 << 12, b));
        groups.charge(b, 30);
        assert_eq!((groups.rows[b].vtime, groups.first()), (GROUP_DELAY + (15 << 12), a));
    }

    #[test]
    fn who_comes_back_starts_where_the_served_ones_are() {
        let (mut groups, a, b) = two();
        groups.charge(b, 100);
        groups.pass(b);
        groups.count_out(b);
        groups.count_out(a);
        assert!(groups.first().is_none());
        assert_eq!(groups.total_weight, 0);
        groups.count_in(a);
        assert_eq!(groups.rows[a].vtime, groups.min_vtime, "no credit for the time away");
    }

    #[test]
    fn a_weight_counts_when_the_group_is_charged_or_idle() {
        let (mut groups, a, _) = two();
        groups.set_weight(a, 100);
        assert_eq!((groups.rows[a].weight, groups.total_weight), (500, 1500));
        groups.charge(a, 1);
        assert_eq!((groups.rows[a].weight, groups.total_weight), (100, 1100));
        groups.count_out(a);
        groups.set_weight(a, 300);
        assert_eq!((groups.rows[a].weight, groups.total_weight), (300, 1000));
    }

    #[test]
    fn the_average_of_busy_queues_rises_quickly_and_falls_slowly() {
        let mut groups = CfqGroups::new(16);
        let at = TreeNo::of(GroupId::ROOT, BE, SYNC);
        (0..8).for_each(|q| groups.put(QueueNo(q), at, q.into()));
        let group = &mut groups.rows[GroupId::ROOT];
        assert_eq!(group.average_busy(BE), 6, "from 0 to 8");
        group.trees = [Tree::new(); 7];
        assert_eq!([(); 3].map(|()| group.average_busy(BE)), [5, 4, 3]);
    }

    #[test]
    fn a_workload_goes_on_after_an_interruption() {
        let mut w = Workload { class: RT, kind: SYNC, end: 150, noidle_wants_idle: true };
        let saved = w.save(100);
        assert_eq!(w.save(150), None, "nothing is left");
        w = Workload::NONE;
        w.resume(1000, saved);
        assert_eq!((w.class, w.kind, w.end), (RT, SYNC, 1050));
        w.resume(2000, None);
        assert_eq!((w.kind, w.end), (SYNC, 1999), "over at once");
        w.begin(2000, 0);
        assert_eq!((w.end, w.noidle_wants_idle), (2002, false), "the shortest");
    }

    #[test]
    fn classes_are_served_in_order_and_a_type_until_its_slice_or_its_queues_end() {
        let mut groups = CfqGroups::new(4);
        let mut w = Workload::NONE;
        assert!(!w.turn_to(5, &groups.rows[GroupId::ROOT]));
        assert_eq!((w.class, w.end), (IDLE, 6));
        groups.put(QueueNo(0), TreeNo::of(GroupId::ROOT, BE, NOIDLE), 1);
        assert!(w.turn_to(5, &groups.rows[GroupId::ROOT]), "nothing of its type is left");
        (w.kind, w.end) = (NOIDLE, 10);
        assert!(!w.turn_to(10, &groups.rows[GroupId::ROOT]));
        assert!(w.turn_to(11, &groups.rows[GroupId::ROOT]));
        groups.put(QueueNo(1), TreeNo::of(GroupId::ROOT, RT, SYNC), 1);
        w.turn_to(10, &groups.rows[GroupId::ROOT]);
        assert_eq!(w.class, RT);
    }
}
