//! An order of slots that is a list as long as that is cheap, and a tree from there on.
//!
//! *Problem.* Keys that come nearly in order belong behind the last one or a few places before it, and mostly few are
//! there at a time. A tree makes colours and rotations for them, and nobody descends.
//!
//! *Idea.* A new one is brought to its place by a walk from the last. The first walk that is long makes a tree of all,
//! which stays until it is empty. So a walk never costs more than `FAR` steps, and a tree is made at most once for as
//! many as have come since it was empty.

use super::{Children, Key, Nodes, Tree, TreeNode};
use crate::table::{NOBODY, place, slot_of};

/// Steps of the longest walk: a few dozen are as dear as a descent and what follows it.
const FAR: u32 = 32;

/// First and last of one order. Equal keys keep insertion order.
#[derive(Clone, Copy, Debug)]
pub struct SlotOrder {
    /// Without a root: a list.
    tree: Tree,
    /// Of the list.
    last: u32,
}

impl Default for SlotOrder {
    fn default() -> SlotOrder {
        SlotOrder { tree: Tree::new(), last: NOBODY }
    }
}

impl SlotOrder {
    /// The slot with the smallest key, `NIL` when empty. Constant time.
    #[inline]
    pub fn first(&self) -> u32 {
        slot_of(self.tree.first)
    }

    /// True when nothing is in it.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.tree.first == NOBODY
    }

    /// Number of slots in it.
    pub fn len(&self) -> u32 {
        self.tree.len
    }

    /// Inserts `slot`, which must be in no order, behind all equal keys.
    #[inline]
    pub fn insert<K: Key>(&mut self, nodes: &mut Nodes<K>, slot: u32, key: K) {
        debug_assert!(!nodes.linked(slot));
        if self.tree.root != NOBODY {
            return self.insert_into_tree(nodes, slot, key);
        }
        let (mut prev, mut next) = (self.last, NOBODY);
        let mut steps = 0;
        while prev != NOBODY && key.before(&nodes.at(prev).key) {
            if steps == FAR {
                self.plant(nodes);
                return self.insert_into_tree(nodes, slot, key);
            }
            steps += 1;
            (prev, next) = (nodes.at(prev).prev, prev);
        }
        let new = place(slot);
        *nodes.at(new) = TreeNode {
            key,
            child: Children::NONE,
            parent: NOBODY,
            prev,
            next,
            red: false,
            linked: true,
            own: (),
            sum: (),
        };
        self.join(nodes, prev, new);
        self.join(nodes, new, next);
        self.tree.len += 1;
    }

    /// Takes `slot` out; it must be in this order.
    #[inline]
    pub fn remove<K: Key>(&mut self, nodes: &mut Nodes<K>, slot: u32) {
        debug_assert!(nodes.linked(slot));
        if self.tree.root != NOBODY {
            self.tree.remove(nodes, slot);
            return;
        }
        let gone = nodes.at(place(slot));
        gone.linked = false;
        let (prev, next) = (gone.prev, gone.next);
        self.join(nodes, prev, next);
        self.tree.len -= 1;
    }

    /// Makes two of the list neighbours; one of them may be nobody.
    #[inline]
    fn join<K: Key>(&mut self, nodes: &mut Nodes<K>, prev: u32, next: u32) {
        if prev == NOBODY {
            self.tree.first = next;
        } else {
            nodes.at(prev).next = next;
        }
        if next == NOBODY {
            self.last = prev;
        } else {
            nodes.at(next).prev = prev;
        }
    }

    #[cold]
    fn insert_into_tree<K: Key>(&mut self, nodes: &mut Nodes<K>, slot: u32, key: K) {
        self.tree.insert(nodes, slot, key, ());
    }

    /// Makes a tree of the list.
    #[cold]
    fn plant<K: Key>(&mut self, nodes: &mut Nodes<K>) {
        let mut at = self.tree.first;
        *self = SlotOrder::default();
        while at != NOBODY {
            let n = nodes.at(at);
            n.linked = false;
            let (key, next) = (n.key, n.next);
            self.tree.insert(nodes, slot_of(at), key, ());
            at = next;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::NIL;
    use alloc::vec::Vec;

    #[test]
    fn it_is_the_order_of_a_sorted_vector_as_a_list_and_as_a_tree() {
        const SLOTS: u32 = 200;
        let mut nodes = Nodes::<u64>::new(SLOTS as usize);
        let (mut order, mut model) = (SlotOrder::default(), Vec::<(u64, u32)>::new());
        let (mut lists, mut trees) = (0, 0);
        let mut x = 7u64;
        for round in 0..40_000u64 {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let slot = (x >> 40) as u32 % SLOTS;
            // Few at times, so that a tree gets empty.
            let most = [0, 30, SLOTS as usize][round as usize / 2000 % 3];
            if let Some(at) = model.iter().position(|m| m.1 == slot) {
                model.remove(at);
                order.remove(&mut nodes, slot);
            } else if model.len() < most {
                // Nearly in order, with equal ones; some far from it.
                let near = round / 8 + (x >> 20) % 9;
                let key = if x >> 60 == 0 { near / 2 } else { near };
                model.insert(model.partition_point(|m| m.0 <= key), (key, slot));
                order.insert(&mut nodes, slot, key);
            }
            lists += u32::from(order.tree.root == NOBODY && !model.is_empty());
            trees += u32::from(order.tree.root != NOBODY);
            let some = |slot: u32| (slot != NIL).then_some(slot);
            let along = core::iter::successors(some(order.first()), |&at| some(nodes.next(at)));
            assert!(along.eq(model.iter().map(|m| m.1)), "{round}");
            let last = model.last().map(|m| m.1);
            let back = core::iter::successors(last, |&at| some(nodes.prev(at)));
            assert!(back.eq(model.iter().rev().map(|m| m.1)), "{round}");
            assert_eq!((order.len() as usize, order.is_empty()), (model.len(), model.is_empty()));
        }
        assert!(lists > 5_000 && trees > 5_000, "{lists} {trees}");
    }
}
