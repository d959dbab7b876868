//! What is known of bios, those that wait or are released among them, and the timers that wake their groups.

use super::weights::CostNode;
use crate::group::GroupId;
use crate::list::{Links, List};
use crate::request::BioId;
use crate::rows::{Id, Rows, ids};
use crate::table::{Handle, NIL};
use crate::tree::{Nodes, Tree};
use alloc::vec::Vec;

ids! {
    /// A bio, by its slot.
    BioNo;
}

/// Facts about the bio in one slot.
#[derive(Clone, Copy, Debug)]
pub(super) struct BioState {
    pub id: BioId,
    /// The node it belongs to.
    pub node: GroupId,
    /// Absolute cost, while it waits.
    pub cost: u64,
    /// vtime it was charged.
    pub charged: u64,
}

/// All bios.
#[derive(Debug)]
pub(super) struct Bios {
    rows: Rows<BioNo, BioState>,
    pub links: Links,
    /// Released bios that the stack has not asked for yet.
    pub ready: List,
    /// Bios that wait or are ready.
    pub waiting: u32,
}

impl Bios {
    pub fn new() -> Bios {
        Bios { rows: Rows::new(), links: Links::new(0), ready: List::new(), waiting: 0 }
    }

    /// A bio that is new here: nothing is remembered of it.
    #[inline]
    pub fn forget(&mut self, bio: BioId) {
        let no = BioNo(bio.0.slot);
        if self.rows.get(no).is_none() {
            self.make_room(no);
        }
        self.rows[no] = BioState { id: bio, node: GroupId::ROOT, cost: 0, charged: 0 };
    }

    #[cold]
    fn make_room(&mut self, no: BioNo) {
        let nobody = BioId(Handle { slot: NIL, generation: 0 });
        let fresh = BioState { id: nobody, node: GroupId::ROOT, cost: 0, charged: 0 };
        let len = (no.0 as usize + 1).next_power_of_two().max(64);
        self.rows.resize(len, fresh);
        self.links.grow(len);
    }

    #[inline]
    pub fn of(&self, no: BioNo) -> &BioState {
        &self.rows[no]
    }

    #[inline]
    pub fn of_mut(&mut self, no: BioNo) -> &mut BioState {
        &mut self.rows[no]
    }

    #[inline]
    pub fn state(&mut self, bio: BioId) -> &mut BioState {
        &mut self.rows[BioNo(bio.0.slot)]
    }

    /// The cost that a bio was charged; 0 for one that is not known.
    #[inline]
    pub fn charged(&self, bio: BioId) -> u64 {
        self.rows.get(BioNo(bio.0.slot)).filter(|s| s.id == bio).map_or(0, |s| s.charged)
    }

    /// It waits behind the others of its node.
    pub fn hold(&mut self, node: &mut CostNode, bio: BioId) {
        node.waiters.push_back(&mut self.links, bio.0.slot);
        self.waiting += 1;
    }

    /// It is released behind all others that are; the stack has still to ask for it.
    pub fn follow(&mut self, node: &mut CostNode, bio: BioId) {
        self.ready.push_back(&mut self.links, bio.0.slot);
        node.ready += 1;
        self.waiting += 1;
    }

    /// The first that waits.
    #[inline]
    pub fn first_waiter(&self, node: &CostNode) -> BioNo {
        BioNo(node.waiters.head())
    }

    /// Bios that wait behind it.
    pub fn behind(&self, no: BioNo) -> BioNo {
        BioNo(self.links.next(no.0))
    }

    /// From the waiters to the released.
    pub fn ready(&mut self, node: &mut CostNode, no: BioNo) {
        node.waiters.remove(&mut self.links, no.0);
        self.ready.push_back(&mut self.links, no.0);
        node.ready += 1;
    }

    /// The stack takes the first of the released.
    #[inline]
    pub fn take_ready(&mut self) -> BioNo {
        let Some(slot) = self.ready.pop_front(&mut self.links) else { return BioNo::NONE };
        self.waiting -= 1;
        BioNo(slot)
    }
}

/// Wake timers of nodes, by time and order of being set.
#[derive(Debug)]
pub(super) struct Wakes {
    tree: Tree,
    nodes: Nodes<(u64, u64)>,
    set: u64,
}

impl Wakes {
    pub fn new() -> Wakes {
        Wakes { tree: Tree::new(), nodes: Nodes::new(1), set: 0 }
    }

    pub fn grow(&mut self, nodes: usize) {
        self.nodes.grow(nodes);
    }

    pub fn armed(&self, n: GroupId) -> bool {
        self.nodes.linked(n.0)
    }

    /// When the timer of a node fires, if it is set.
    pub fn at(&self, n: GroupId) -> Option<u64> {
        self.armed(n).then(|| self.nodes.key(n.0).0)
    }

    /// A timer that is set later fires later at the same time: the order of the kernel's.
    pub fn arm(&mut self, n: GroupId, fires_ns: u64) {
        self.cancel(n);
        self.set += 1;
        self.tree.insert(&mut self.nodes, n.0, (fires_ns, self.set), ());
    }

    pub fn cancel(&mut self, n: GroupId) {
        if self.nodes.linked(n.0) {
            self.tree.remove(&mut self.nodes, n.0);
        }
    }

    /// The first that fires, and when.
    pub fn first(&self) -> Option<(GroupId, u64)> {
        let n = self.tree.first();
        (n != NIL).then(|| (GroupId(n), self.nodes.key(n).0))
    }
}

/// Tasks that are to be delayed on their way back, by number.
#[derive(Debug, Default)]
pub(super) struct Checks {
    asked: Vec<bool>,
    pub count: u32,
}

impl Checks {
    pub fn ask(&mut self, task: usize) {
        if task >= self.asked.len() {
            self.asked.resize((task + 1).next_power_of_two(), false);
        }
        if !core::mem::replace(&mut self.asked[task], true) {
            self.count += 1;
        }
    }

    /// Was it asked for? It is no longer.
    pub fn take(&mut self, task: usize) -> bool {
        let asked = self.asked.get_mut(task).is_some_and(core::mem::take);
        self.count -= u32::from(asked);
        asked
    }
}

/// Active nodes, the latest first.
#[derive(Debug)]
pub(super) struct Active {
    list: List,
    links: Links,
}

impl Active {
    pub fn new() -> Active {
        Active { list: List::new(), links: Links::new(1) }
    }

    pub fn grow(&mut self, nodes: usize) {
        self.links.grow(nodes);
    }

    pub fn add(&mut self, n: GroupId) {
        self.list.push_front(&mut self.links, n.0);
    }

    pub fn remove(&mut self, n: GroupId) {
        self.list.remove(&mut self.links, n.0);
    }

    /// The latest; nobody if none is active.
    #[inline]
    pub fn first(&self) -> GroupId {
        GroupId(self.list.head())
    }

    #[inline]
    pub fn next(&self, n: GroupId) -> GroupId {
        GroupId(self.links.next(n.0))
    }

    pub fn len(&self) -> u32 {
        self.list.len()
    }

    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = GroupId> + '_ {
        self.list.iter(&self.links).map(GroupId)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wakes_fire_by_time_and_at_one_time_in_the_order_they_were_set() {
        let mut wakes = Wakes::new();
        wakes.grow(3);
        let [a, b, c] = [0, 1, 2].map(GroupId);
        wakes.arm(b, 50);
        wakes.arm(a, 50);
        wakes.arm(c, 40);
        let mut order = Vec::new();
        while let Some((n, at)) = wakes.first() {
            order.push((n.0, at));
            wakes.cancel(n);
            assert!(!wakes.armed(n));
        }
        assert_eq!(order, [(2, 40), (1, 50), (0, 50)]);
        wakes.arm(a, 9);
        wakes.arm(a, 7);
        assert_eq!(wakes.first(), Some((a, 7)), "one timer per node");
        wakes.cancel(b);
    }

    #[test]
    fn a_check_is_asked_for_and_taken_once() {
        let mut checks = Checks::default();
        assert!(!checks.take(3));
        checks.ask(3);
        checks.ask(3);
        assert_eq!(checks.count, 1);
        assert!(!checks.take(2) && checks.take(3) && !checks.take(3));
        assert_eq!(checks.count, 0);
    }

    #[test]
    fn a_reused_slot_knows_nothing_of_its_predecessor() {
        let mut bios = Bios::new();
        let [old, new] = [0, 1].map(|generation| BioId(Handle { slot: 70, generation }));
        assert_eq!(bios.charged(old), 0);
        bios.forget(old);
        bios.state(old).charged = 9;
        assert_eq!((bios.charged(old), bios.charged(new)), (9, 0));
        bios.forget(new);
        assert_eq!((bios.charged(old), bios.charged(new)), (0, 0));
    }

    #[test]
    fn the_latest_active_node_is_first() {
        let mut active = Active::new();
        active.grow(3);
        [0, 1, 2].into_iter().for_each(|n| active.add(GroupId(n)));
        active.remove(GroupId(1));
        assert_eq!(active.iter().map(|n| n.0).collect::<Vec<_>>(), [2, 0]);
        assert_eq!(
            (active.first(), active.next(GroupId(2)), active.len()),
            (GroupId(2), GroupId(0), 2)
        );
        assert!(active.next(GroupId(0)).is_none() && !active.is_empty());
    }
}
