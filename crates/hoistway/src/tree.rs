//! The one ordered tree: a red-black tree on slot numbers, optionally augmented.
//!
//! [`Nodes`] holds one node per slot (key, links, colour, summary); any number of [`Tree`] roots
//! may share it as long as a slot is in at most one of them at a time. Equal keys keep insertion
//! order: the later one sorts after. Nothing here allocates after construction.
//!
//! The shape is the textbook one (Cormen et al., chapter 13; a removed node with two children is
//! replaced by its in-order successor). That matters: BFQ's reference walks the shape itself
//! (specs/bfq.md 2.2, quirk Q1), so [`Tree::root`], [`Nodes::left`] and [`Nodes::right`] are
//! public.

mod order;

use crate::table::{NIL, NOBODY, place, slot_of};
use alloc::vec;
use alloc::vec::Vec;
use core::hint::select_unpredictable;
pub use order::SlotOrder;

/// What a tree is ordered by. `before` must be a strict weak order over the keys that are in one
/// tree at the same time (virtual times that wrap are such an order while they span less than half
/// the range).
pub trait Key: Copy + Default {
    /// True when `self` sorts strictly before `other`.
    fn before(&self, other: &Self) -> bool;
}

impl Key for u64 {
    fn before(&self, other: &u64) -> bool {
        self < other
    }
}

impl Key for (u64, u64) {
    fn before(&self, other: &(u64, u64)) -> bool {
        self < other
    }
}

/// A summary kept for every subtree: of the node's own value and of its children's summaries.
pub trait Augment: Copy + Default + PartialEq {
    /// False removes all upkeep at compile time.
    const ACTIVE: bool = true;
    /// The summary of both; associative and commutative.
    fn join(self, other: Self) -> Self;
}

impl Augment for () {
    const ACTIVE: bool = false;
    fn join(self, _: ()) {}
}

/// Links are places (see the table). Nobody is black and takes part in no tree (Cormen's `nil`);
/// whether a relative exists is a coin toss.
///
/// Aligned so that a node lies in one cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
struct TreeNode<K, A> {
    key: K,
    child: Children,
    parent: u32,
    /// Neighbours in key order: a step along the order costs no walk.
    prev: u32,
    next: u32,
    red: bool,
    linked: bool,
    own: A,
    sum: A,
}

const LEFT: usize = 0;
const RIGHT: usize = 1;

/// Left child in the low half, right child in the high half. One word, so that a descent loads both
/// while it compares the keys: picking one of two fields would cost a dependent load per level.
#[derive(Clone, Copy, Debug)]
struct Children(u64);

impl Children {
    const NONE: Children = Children(0);
    const LOW: u64 = u32::MAX as u64;

    #[inline]
    fn get(self, side: usize) -> u32 {
        (self.0 >> (32 * side)) as u32
    }

    /// One of both without a branch and without an indexed load.
    #[inline]
    fn choose(self, left: bool) -> u32 {
        select_unpredictable(left, self.0, self.0 >> 32) as u32
    }

    #[inline]
    fn with(self, left: bool, at: u32) -> Children {
        let (at, old) = (u64::from(at), self.0);
        Children(select_unpredictable(
            left,
            (old & !Self::LOW) | at,
            (old & Self::LOW) | (at << 32),
        ))
    }

    /// With `new` where `old`, one of both, is.
    #[inline]
    fn replace(self, old: u32, new: u32) -> Children {
        let change = u64::from(old ^ new);
        Children(self.0 ^ select_unpredictable(self.get(LEFT) == old, change, change << 32))
    }

    /// The other one than `one`.
    #[inline]
    fn other(self, one: u32) -> u32 {
        self.get(LEFT) ^ self.get(RIGHT) ^ one
    }

    #[inline]
    fn both(self) -> [u32; 2] {
        [self.get(LEFT), self.get(RIGHT)]
    }

    #[inline]
    fn of(left: u32, right: u32) -> Children {
        Children(u64::from(left) | (u64::from(right) << 32))
    }
}

/// Where a new leaf goes: between two neighbours, below one of them.
struct Gap {
    prev: u32,
    next: u32,
    parent: u32,
    left: bool,
}

/// The nodes of all slots.
#[derive(Clone, Debug)]
pub struct Nodes<K, A = ()>(Vec<TreeNode<K, A>>);

impl<K: Key, A: Augment> Nodes<K, A> {
    /// Nodes for `slots` slots, all in no tree.
    pub fn new(slots: usize) -> Nodes<K, A> {
        let mut nodes = Nodes(Vec::new());
        nodes.grow(slots);
        nodes
    }

    /// Makes room for at least `slots` slots (allocates).
    pub fn grow(&mut self, slots: usize) {
        if slots + 1 > self.0.len() {
            let empty = TreeNode {
                key: K::default(),
                child: Children::NONE,
                parent: NOBODY,
                prev: NOBODY,
                next: NOBODY,
                red: false,
                linked: false,
                own: A::default(),
                sum: A::default(),
            };
            self.0.extend(vec![empty; slots + 1 - self.0.len()]);
        }
    }

    #[inline]
    fn node(&self, slot: u32) -> &TreeNode<K, A> {
        debug_assert!(slot != NIL);
        &self.0[place(slot) as usize]
    }

    /// True when `slot` is in a tree.
    pub fn linked(&self, slot: u32) -> bool {
        self.node(slot).linked
    }

    /// The key `slot` was last inserted with.
    pub fn key(&self, slot: u32) -> K {
        self.node(slot).key
    }

    /// Another key for `slot`, which sorts between those of its neighbours.
    pub fn rekey(&mut self, slot: u32, key: K) {
        let n = self.node(slot);
        debug_assert!(n.linked);
        debug_assert!(n.prev == NOBODY || !key.before(&self.0[n.prev as usize].key));
        debug_assert!(n.next == NOBODY || !self.0[n.next as usize].key.before(&key));
        self.at(place(slot)).key = key;
    }

    /// The summary of the subtree at `slot`.
    pub fn sum(&self, slot: u32) -> A {
        self.node(slot).sum
    }

    /// The own value of `slot`.
    pub fn own(&self, slot: u32) -> A {
        self.node(slot).own
    }

    /// The left child, `NIL` if none.
    pub fn left(&self, slot: u32) -> u32 {
        slot_of(self.node(slot).child.get(LEFT))
    }

    /// The right child, `NIL` if none.
    pub fn right(&self, slot: u32) -> u32 {
        slot_of(self.node(slot).child.get(RIGHT))
    }

    /// The slot that follows in key order, `NIL` after the last. Constant time.
    pub fn next(&self, slot: u32) -> u32 {
        slot_of(self.node(slot).next)
    }

    /// The slot that precedes in key order, `NIL` before the first. Constant time.
    pub fn prev(&self, slot: u32) -> u32 {
        slot_of(self.node(slot).prev)
    }

    fn at(&mut self, place: u32) -> &mut TreeNode<K, A> {
        &mut self.0[place as usize]
    }

    /// The gap between two neighbours, one of whom may be nobody.
    #[inline]
    fn gap(&self, prev: u32, next: u32) -> Gap {
        // One of both has no child on this side: where a descent would have ended.
        let left = (prev == NOBODY) | (self.0[prev as usize].child.get(RIGHT) != NOBODY);
        Gap { prev, next, parent: select_unpredictable(left, next, prev), left }
    }

    fn refresh(&mut self, at: u32) {
        let n = &self.0[at as usize];
        let mut sum = n.own;
        for child in n.child.both() {
            if child != NOBODY {
                sum = sum.join(self.0[child as usize].sum);
            }
        }
        self.0[at as usize].sum = sum;
    }

    /// Recomputes summaries from `at` to the root. Above `through` (nobody: from the start) the
    /// walk ends at the first that stays the same.
    fn refresh_up(&mut self, mut at: u32, through: u32) {
        if !A::ACTIVE {
            return;
        }
        let mut may_stop = through == NOBODY;
        while at != NOBODY {
            let old = self.0[at as usize].sum;
            self.refresh(at);
            may_stop |= at == through;
            if may_stop && self.0[at as usize].sum == old {
                return;
            }
            at = self.0[at as usize].parent;
        }
    }

    /// A new leaf below `at`: joins its value into the summaries until one stays the same.
    fn join_up(&mut self, mut at: u32, own: A) {
        while A::ACTIVE && at != NOBODY {
            let n = &mut self.0[at as usize];
            let sum = n.sum.join(own);
            if sum == n.sum {
                return;
            }
            n.sum = sum;
            at = n.parent;
        }
    }
}

/// The root of one tree.
#[derive(Clone, Copy, Debug)]
pub struct Tree {
    root: u32,
    first: u32,
    len: u32,
}

impl Default for Tree {
    fn default() -> Tree {
        Tree::new()
    }
}

impl Tree {
    /// An empty tree.
    pub const fn new() -> Tree {
        Tree { root: NOBODY, first: NOBODY, len: 0 }
    }

    /// The root's slot, `NIL` when empty.
    pub fn root(&self) -> u32 {
        slot_of(self.root)
    }

    /// The slot with the smallest key, `NIL` when empty. Constant time.
    pub fn first(&self) -> u32 {
        slot_of(self.first)
    }

    /// The slot with the largest key, `NIL` when empty.
    pub fn last<K: Key, A: Augment>(&self, nodes: &Nodes<K, A>) -> u32 {
        let (mut at, mut last) = (self.root, NOBODY);
        while at != NOBODY {
            last = at;
            at = nodes.0[at as usize].child.get(RIGHT);
        }
        slot_of(last)
    }

    /// Number of slots in the tree.
    pub fn len(&self) -> u32 {
        self.len
    }

    /// True when nothing is in the tree.
    pub fn is_empty(&self) -> bool {
        self.root == NOBODY
    }

    /// The first slot in key order whose key is not before `key`, `NIL` if there is none.
    pub fn lower_bound<K: Key, A: Augment>(&self, nodes: &Nodes<K, A>, key: K) -> u32 {
        let (mut at, mut found) = (self.root, NOBODY);
        while at != NOBODY {
            let n = &nodes.0[at as usize];
            let before = n.key.before(&key);
            found = select_unpredictable(before, found, at);
            at = n.child.choose(!before);
        }
        slot_of(found)
    }

    /// The last slot in key order whose key is not behind `key`, `NIL` if there is none.
    pub fn floor<K: Key, A: Augment>(&self, nodes: &Nodes<K, A>, key: K) -> u32 {
        let (mut at, mut found) = (self.root, NOBODY);
        while at != NOBODY {
            let n = &nodes.0[at as usize];
            let behind = key.before(&n.key);
            found = select_unpredictable(behind, found, at);
            at = n.child.choose(behind);
        }
        slot_of(found)
    }

    /// Inserts `slot`, which must be in no tree, directly behind `at`, which must be in this one. The key
    /// must sort there.
    pub fn insert_after<K: Key, A: Augment>(
        &mut self,
        nodes: &mut Nodes<K, A>,
        at: u32,
        slot: u32,
        key: K,
        own: A,
    ) {
        debug_assert!(nodes.linked(at));
        let prev = place(at);
        let next = nodes.at(prev).next;
        self.link(nodes, slot, nodes.gap(prev, next), key, own);
    }

    /// Inserts `slot`, which must be in no tree, behind all equal keys.
    pub fn insert<K: Key, A: Augment>(
        &mut self,
        nodes: &mut Nodes<K, A>,
        slot: u32,
        key: K,
        own: A,
    ) {
        let (mut parent, mut at, mut left) = (NOBODY, self.root, false);
        while at != NOBODY {
            parent = at;
            let n = &nodes.0[at as usize];
            left = key.before(&n.key);
            // Which way it goes is a coin toss: a wrong guess costs more than waiting for the key.
            at = n.child.choose(left);
        }
        if parent == NOBODY {
            return self.link_alone(nodes, slot, key, own);
        }
        let p = nodes.at(parent);
        let prev = select_unpredictable(left, p.prev, parent);
        let next = select_unpredictable(left, parent, p.next);
        self.link(nodes, slot, Gap { prev, next, parent, left }, key, own);
    }

    /// The only one of its tree: a black root.
    #[inline]
    fn link_alone<K: Key, A: Augment>(
        &mut self,
        nodes: &mut Nodes<K, A>,
        slot: u32,
        key: K,
        own: A,
    ) {
        debug_assert!(!nodes.linked(slot));
        let new = place(slot);
        *nodes.at(new) = TreeNode {
            key,
            child: Children::NONE,
            parent: NOBODY,
            prev: NOBODY,
            next: NOBODY,
            red: false,
            linked: true,
            own,
            sum: own,
        };
        *self = Tree { root: new, first: new, len: 1 };
    }

    /// Hangs a new leaf into its gap.
    #[inline]
    fn link<K: Key, A: Augment>(
        &mut self,
        nodes: &mut Nodes<K, A>,
        slot: u32,
        gap: Gap,
        key: K,
        own: A,
    ) {
        debug_assert!(!nodes.linked(slot));
        let new = place(slot);
        let Gap { prev, next, parent, left } = gap;
        // There was nobody on this side.
        let p = nodes.at(parent);
        p.child.0 |= select_unpredictable(left, u64::from(new), u64::from(new) << 32);
        *nodes.at(new) = TreeNode {
            key,
            child: Children::NONE,
            parent,
            prev,
            next,
            red: true,
            linked: true,
            own,
            sum: own,
        };
        nodes.at(prev).next = new;
        nodes.at(next).prev = new;
        if prev == NOBODY {
            self.first = new;
        }
        self.len += 1;
        nodes.join_up(parent, own);
        self.balance_after_insert(nodes, new, parent);
    }

    /// Takes `slot` out; it must be in this tree. The answer is what preceded and what followed it in
    /// key order, `NIL` where there was nobody.
    pub fn remove<K: Key, A: Augment>(&mut self, nodes: &mut Nodes<K, A>, slot: u32) -> (u32, u32) {
        debug_assert!(nodes.linked(slot));
        let gone = place(slot);
        let n = nodes.at(gone);
        n.linked = false;
        if self.len == 1 {
            *self = Tree::new();
            return (NIL, NIL);
        }
        let TreeNode { child, parent, red, prev, next, .. } = *n;
        let [left, right] = child.both();
        nodes.at(prev).next = next;
        nodes.at(next).prev = prev;
        if prev == NOBODY {
            self.first = next;
        }
        self.len -= 1;
        let (child, child_parent, removed_red);
        let mut replaced_by = NOBODY;
        if left == NOBODY || right == NOBODY {
            child = left | right; // The one that is somebody.
            child_parent = parent;
            removed_red = red;
            self.hang(nodes, parent, gone, child);
        } else {
            let heir = next;
            let TreeNode { child: below, parent: above, red: heir_red, .. } = *nodes.at(heir);
            removed_red = heir_red;
            child = below.get(RIGHT);
            // If the heir is the right child this changes `gone`, from where its new right child is
            // taken.
            self.hang(nodes, above, heir, child);
            let right = nodes.at(gone).child.get(RIGHT);
            nodes.at(right).parent = heir;
            nodes.at(left).parent = heir;
            self.hang(nodes, parent, gone, heir);
            // What the nodes above expect of this place, for the comparison on the way up.
            let sum = nodes.at(gone).sum;
            let h = nodes.at(heir);
            h.child = Children::of(left, right);
            h.red = red;
            h.sum = sum;
            child_parent = select_unpredictable(above == gone, heir, above);
            replaced_by = heir;
        }
        nodes.refresh_up(child_parent, replaced_by);
        if !removed_red {
            self.balance_after_remove(nodes, child, child_parent);
        }
        (slot_of(prev), slot_of(next))
    }

    /// Changes the own value of `slot`, which must be in this tree; the key stays.
    pub fn set_own<K: Key, A: Augment>(&self, nodes: &mut Nodes<K, A>, slot: u32, own: A) {
        nodes.at(place(slot)).own = own;
        nodes.refresh_up(place(slot), NOBODY);
    }

    /// Puts `new` (or nobody) where `old` hangs below `parent`.
    #[inline]
    fn hang<K: Key, A: Augment>(
        &mut self,
        nodes: &mut Nodes<K, A>,
        parent: u32,
        old: u32,
        new: u32,
    ) {
        nodes.at(new).parent = parent;
        let p = nodes.at(parent);
        p.child = p.child.replace(old, new);
        if parent == NOBODY {
            self.root = new;
        }
    }

    /// Rotates `at` down to the left or to the right; its child on the other side takes its place.
    fn rotate<K: Key, A: Augment>(&mut self, nodes: &mut Nodes<K, A>, at: u32, to_left: bool) {
        let TreeNode { parent, child, .. } = *nodes.at(at);
        let up = child.choose(!to_left);
        let u = nodes.at(up);
        let inner = u.child.choose(to_left);
        u.child = u.child.with(to_left, at);
        let n = nodes.at(at);
        n.child = child.with(!to_left, inner);
        n.parent = up;
        nodes.at(inner).parent = at;
        self.hang(nodes, parent, at, up);
        if A::ACTIVE {
            nodes.at(up).sum = nodes.at(at).sum;
            nodes.refresh(at);
        }
    }

    /// Both cases of a rotation that ends an unbalance: of three nodes below each other the one with
    /// the middle key goes up, the others become its children. `left`: the second is the left child of
    /// the first. `outer`: the third is on the same side of the second, which then is the middle one
    /// (one rotation); else the third is (two rotations). `red`: the colour of the middle one, and of
    /// the others.
    ///
    /// Which case it is is a coin toss, so both take the same steps.
    fn lift<K: Key, A: Augment>(
        &mut self,
        nodes: &mut Nodes<K, A>,
        [first, second, third]: [u32; 3],
        left: bool,
        outer: bool,
        red: [bool; 2],
    ) {
        let top = select_unpredictable(outer, second, third);
        let arm = select_unpredictable(outer, third, second);
        // Turned so that the side of the second is the low half.
        let turn = 32 * u32::from(!left);
        let t = nodes.at(top).child.0.rotate_right(turn);
        // The middle one's children go over to the others. If it is the second it keeps the third, and
        // what is written for that is overwritten.
        let (near, far) = (select_unpredictable(outer, NOBODY, t as u32), (t >> 32) as u32);
        nodes.at(second).child.0 ^= u64::from(third ^ near) << (turn ^ 32);
        nodes.at(near).parent = second;
        let n = nodes.at(arm);
        n.parent = top;
        n.red = red[1];
        let n = nodes.at(first);
        let (parent, sum) = (n.parent, n.sum);
        n.child.0 ^= u64::from(second ^ far) << turn;
        n.parent = top;
        n.red = red[1];
        nodes.at(far).parent = first;
        let n = nodes.at(top);
        n.child = Children((u64::from(arm) | (u64::from(first) << 32)).rotate_left(turn));
        n.red = red[0];
        self.hang(nodes, parent, first, top);
        if A::ACTIVE {
            nodes.refresh(arm);
            nodes.refresh(first);
            nodes.at(top).sum = sum;
        }
    }

    #[inline]
    fn balance_after_insert<K: Key, A: Augment>(
        &mut self,
        nodes: &mut Nodes<K, A>,
        mut at: u32,
        mut parent: u32,
    ) {
        while nodes.at(parent).red {
            // A red node has a parent: the root is black.
            let grand = nodes.at(parent).parent;
            let children = nodes.at(grand).child;
            let uncle = children.other(parent);
            if nodes.at(uncle).red {
                nodes.at(parent).red = false;
                nodes.at(uncle).red = false;
                let g = nodes.at(grand);
                g.red = true;
                at = grand;
                parent = g.parent;
                continue;
            }
            let parent_left = children.get(LEFT) == parent;
            let at_left = nodes.at(parent).child.get(LEFT) == at;
            let outer = parent_left == at_left;
            self.lift(nodes, [grand, parent, at], parent_left, outer, [false, true]);
            return;
        }
        nodes.at(self.root).red = false;
    }

    #[inline]
    fn balance_after_remove<K: Key, A: Augment>(
        &mut self,
        nodes: &mut Nodes<K, A>,
        mut at: u32,
        mut parent: u32,
    ) {
        while parent != NOBODY && !nodes.at(at).red {
            let children = nodes.at(parent).child;
            let at_left = children.get(LEFT) == at;
            let mut sibling = children.other(at);
            if nodes.at(sibling).red {
                nodes.at(sibling).red = false;
                nodes.at(parent).red = true;
                self.rotate(nodes, parent, at_left);
                sibling = nodes.at(parent).child.other(at);
            }
            let nephews = nodes.at(sibling).child;
            let (near, far) = (nephews.choose(at_left), nephews.choose(!at_left));
            let (near_red, far_red) = (nodes.at(near).red, nodes.at(far).red);
            if !(near_red | far_red) {
                nodes.at(sibling).red = true;
                at = parent;
                parent = nodes.at(at).parent;
                continue;
            }
            let nephew = select_unpredictable(far_red, far, near);
            let red = [nodes.at(parent).red, false];
            self.lift(nodes, [parent, sibling, nephew], !at_left, far_red, red);
            return;
        }
        nodes.at(at).red = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[derive(Clone, Copy, Debug, PartialEq)]
    struct Least(u64);

    impl Default for Least {
        fn default() -> Least {
            Least(u64::MAX)
        }
    }

    impl Augment for Least {
        fn join(self, other: Least) -> Least {
            Least(self.0.min(other.0))
        }
    }

    /// Black height, after checking order of colours and summaries below `at`.
    fn check(nodes: &Nodes<u64, Least>, at: u32) -> (u32, u64) {
        if at == NOBODY {
            assert!(!nodes.0[0].red && !nodes.0[0].linked);
            return (1, u64::MAX);
        }
        let n = nodes.0[at as usize];
        for child in n.child.both() {
            let c = &nodes.0[child as usize];
            assert!(!(n.red && c.red));
            assert!(child == NOBODY || c.parent == at);
        }
        let (l, lm) = check(nodes, n.child.get(LEFT));
        let (r, rm) = check(nodes, n.child.get(RIGHT));
        assert_eq!(l, r);
        let least = n.own.0.min(lm).min(rm);
        assert_eq!(n.sum.0, least);
        (l + u32::from(!n.red), least)
    }

    #[test]
    fn a_tree_behaves_like_a_sorted_vector() {
        const SLOTS: u32 = 64;
        let mut nodes: Nodes<u64, Least> = Nodes::new(SLOTS as usize);
        let mut tree = Tree::new();
        let mut model: Vec<(u64, u32)> = Vec::new();
        let mut x = 99u64;
        for round in 0..20_000 {
            x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let slot = (x >> 40) as u32 % SLOTS;
            let here = model.iter().position(|&(_, s)| s == slot);
            if let Some(i) = here.filter(|_| x & 6 == 0) {
                let low = if i > 0 { model[i - 1].0 } else { 0 };
                let high = model.get(i + 1).map_or(40, |&(k, _)| k);
                model[i].0 = low + (x >> 20) % (high - low + 1);
                nodes.rekey(slot, model[i].0);
            } else if let Some(i) = here {
                tree.remove(&mut nodes, slot);
                model.remove(i);
            } else {
                let key = (x >> 20) % 40;
                let at = model.partition_point(|&(k, _)| k <= key);
                // Who knows its neighbour may say so: the outcome is the same.
                if x & 1 == 0 && at > 0 {
                    tree.insert_after(&mut nodes, model[at - 1].1, slot, key, Least(x >> 50));
                } else {
                    tree.insert(&mut nodes, slot, key, Least(x >> 50));
                }
                model.insert(at, (key, slot));
            }
            assert_eq!(tree.len() as usize, model.len());
            if round % 7 == 0 {
                let mut seen = Vec::new();
                let mut at = tree.first();
                while at != NIL {
                    seen.push((nodes.key(at), at));
                    at = nodes.next(at);
                }
                assert_eq!(seen, model);
                let mut back = Vec::new();
                let mut at = tree.last(&nodes);
                while at != NIL {
                    back.push((nodes.key(at), at));
                    at = nodes.prev(at);
                }
                back.reverse();
                assert_eq!(back, model);
                check(&nodes, tree.root);
                let bound = (x >> 30) % 42;
                let want = model.iter().find(|&&(k, _)| k >= bound).map_or(NIL, |&(_, s)| s);
                assert_eq!(tree.lower_bound(&nodes, bound), want);
            }
        }
    }
}
