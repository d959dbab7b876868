//! The one ordered tree: a red-black tree on slot numbers, optionally augmented.
//!
//! [`Nodes`] holds one node per slot (key, links, colour, summary); any number of [`Tree`] roots may share
//! it as long as a slot is in at most one of them at a time. Equal keys keep insertion order: the later
//! one sorts after. Nothing here allocates after construction.
//!
//! The shape is the textbook one (Cormen et al., chapter 13; a removed node with two children is
//! replaced by its in-order successor). That matters: BFQ's reference walks the shape itself
//! (specs/bfq.md 2.2, quirk Q1), so [`Tree::root`], [`Nodes::left`] and [`Nodes::right`] are public.

use crate::table::NIL;
use alloc::vec;
use alloc::vec::Vec;
use core::hint::select_unpredictable;

/// What a tree is ordered by. `before` must be a strict weak order over the keys that are in one tree
/// at the same time (virtual times that wrap are such an order while they span less than half the range).
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

#[derive(Clone, Copy, Debug)]
struct Node<K, A> {
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

/// Left child in the low half, right child in the high half. One word, so that a descent loads both while it
/// compares the keys: picking one of two fields would cost a dependent load per level.
#[derive(Clone, Copy, Debug)]
struct Children(u64);

impl Children {
    const NONE: Children = Children(u64::MAX);

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
    fn set(&mut self, side: usize, slot: u32) {
        self.0 = self.0 & !(u64::from(u32::MAX) << (32 * side)) | u64::from(slot) << (32 * side);
    }

    #[inline]
    fn both(self) -> [u32; 2] {
        [self.get(LEFT), self.get(RIGHT)]
    }
}

/// The nodes of all slots.
#[derive(Clone, Debug)]
pub struct Nodes<K, A = ()>(Vec<Node<K, A>>);

impl<K: Key, A: Augment> Nodes<K, A> {
    /// Nodes for `slots` slots, all in no tree.
    pub fn new(slots: usize) -> Nodes<K, A> {
        let mut nodes = Nodes(Vec::new());
        nodes.grow(slots);
        nodes
    }

    /// Makes room for at least `slots` slots (allocates).
    pub fn grow(&mut self, slots: usize) {
        if slots > self.0.len() {
            let empty = Node {
                key: K::default(),
                child: Children::NONE,
                parent: NIL,
                prev: NIL,
                next: NIL,
                red: false,
                linked: false,
                own: A::default(),
                sum: A::default(),
            };
            self.0.extend(vec![empty; slots - self.0.len()]);
        }
    }

    /// True when `slot` is in a tree.
    pub fn linked(&self, slot: u32) -> bool {
        self.0[slot as usize].linked
    }

    /// The key `slot` was last inserted with.
    pub fn key(&self, slot: u32) -> K {
        self.0[slot as usize].key
    }

    /// The summary of the subtree at `slot`.
    pub fn sum(&self, slot: u32) -> A {
        self.0[slot as usize].sum
    }

    /// The own value of `slot`.
    pub fn own(&self, slot: u32) -> A {
        self.0[slot as usize].own
    }

    /// The left child, `NIL` if none.
    pub fn left(&self, slot: u32) -> u32 {
        self.0[slot as usize].child.get(LEFT)
    }

    /// The right child, `NIL` if none.
    pub fn right(&self, slot: u32) -> u32 {
        self.0[slot as usize].child.get(RIGHT)
    }

    /// The slot that follows in key order, `NIL` after the last. Constant time.
    pub fn next(&self, slot: u32) -> u32 {
        self.0[slot as usize].next
    }

    /// The slot that precedes in key order, `NIL` before the first. Constant time.
    pub fn prev(&self, slot: u32) -> u32 {
        self.0[slot as usize].prev
    }

    fn rightmost(&self, mut at: u32) -> u32 {
        while self.0[at as usize].child.get(RIGHT) != NIL {
            at = self.0[at as usize].child.get(RIGHT);
        }
        at
    }

    fn red(&self, at: u32) -> bool {
        at != NIL && self.0[at as usize].red
    }

    fn refresh(&mut self, at: u32) {
        let n = &self.0[at as usize];
        let mut sum = n.own;
        for child in n.child.both() {
            if child != NIL {
                sum = sum.join(self.0[child as usize].sum);
            }
        }
        self.0[at as usize].sum = sum;
    }

    /// Recomputes summaries from `at` to the root. Above `through` (`NIL`: from the start) the walk ends
    /// at the first that stays the same.
    fn refresh_up(&mut self, mut at: u32, through: u32) {
        if !A::ACTIVE {
            return;
        }
        let mut may_stop = through == NIL;
        while at != NIL {
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
        while A::ACTIVE && at != NIL {
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
        Tree { root: NIL, first: NIL, len: 0 }
    }

    /// The root's slot, `NIL` when empty.
    pub fn root(&self) -> u32 {
        self.root
    }

    /// The slot with the smallest key, `NIL` when empty. Constant time.
    pub fn first(&self) -> u32 {
        self.first
    }

    /// The slot with the largest key, `NIL` when empty.
    pub fn last<K: Key, A: Augment>(&self, nodes: &Nodes<K, A>) -> u32 {
        if self.root == NIL { NIL } else { nodes.rightmost(self.root) }
    }

    /// Number of slots in the tree.
    pub fn len(&self) -> u32 {
        self.len
    }

    /// True when nothing is in the tree.
    pub fn is_empty(&self) -> bool {
        self.root == NIL
    }

    /// The first slot in key order whose key is not before `key`, `NIL` if there is none.
    pub fn lower_bound<K: Key, A: Augment>(&self, nodes: &Nodes<K, A>, key: K) -> u32 {
        let (mut at, mut found) = (self.root, NIL);
        while at != NIL {
            let n = &nodes.0[at as usize];
            let before = n.key.before(&key);
            found = select_unpredictable(before, found, at);
            at = n.child.choose(!before);
        }
        found
    }

    /// Inserts `slot`, which must be in no tree, behind all equal keys.
    pub fn insert<K: Key, A: Augment>(
        &mut self,
        nodes: &mut Nodes<K, A>,
        slot: u32,
        key: K,
        own: A,
    ) {
        debug_assert!(!nodes.linked(slot));
        let (mut parent, mut at, mut left) = (NIL, self.root, false);
        while at != NIL {
            parent = at;
            let n = &nodes.0[at as usize];
            left = key.before(&n.key);
            // Which way it goes is a coin toss: a wrong guess costs more than waiting for the key.
            at = n.child.choose(left);
        }
        let (mut prev, mut next) = (NIL, NIL);
        if parent == NIL {
            self.root = slot;
        } else {
            let p = &mut nodes.0[parent as usize];
            prev = select_unpredictable(left, p.prev, parent);
            next = select_unpredictable(left, parent, p.next);
            p.child.set(usize::from(!left), slot);
        }
        nodes.0[slot as usize] = Node {
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
        if prev == NIL {
            self.first = slot;
        } else {
            nodes.0[prev as usize].next = slot;
        }
        if next != NIL {
            nodes.0[next as usize].prev = slot;
        }
        self.len += 1;
        nodes.join_up(parent, own);
        self.balance_after_insert(nodes, slot);
    }

    /// Takes `slot` out; it must be in this tree.
    pub fn remove<K: Key, A: Augment>(&mut self, nodes: &mut Nodes<K, A>, slot: u32) {
        debug_assert!(nodes.linked(slot));
        let Node { child, parent, red, prev, next, .. } = nodes.0[slot as usize];
        let [left, right] = child.both();
        if prev == NIL {
            self.first = next;
        } else {
            nodes.0[prev as usize].next = next;
        }
        if next != NIL {
            nodes.0[next as usize].prev = prev;
        }
        self.len -= 1;
        let (child, child_parent, removed_red);
        let mut replaced_by = NIL;
        if left == NIL || right == NIL {
            child = if left == NIL { right } else { left };
            child_parent = parent;
            removed_red = red;
            self.transplant(nodes, parent, slot, child);
        } else {
            let heir = next;
            removed_red = nodes.0[heir as usize].red;
            child = nodes.0[heir as usize].child.get(RIGHT);
            if heir == right {
                child_parent = heir;
            } else {
                child_parent = nodes.0[heir as usize].parent;
                self.transplant(nodes, child_parent, heir, child);
                nodes.0[heir as usize].child.set(RIGHT, right);
                nodes.0[right as usize].parent = heir;
            }
            self.transplant(nodes, parent, slot, heir);
            nodes.0[heir as usize].child.set(LEFT, left);
            nodes.0[left as usize].parent = heir;
            nodes.0[heir as usize].red = red;
            // What the nodes above expect of this place, for the comparison on the way up.
            nodes.0[heir as usize].sum = nodes.0[slot as usize].sum;
            replaced_by = heir;
        }
        nodes.0[slot as usize].linked = false;
        nodes.refresh_up(child_parent, replaced_by);
        if !removed_red {
            self.balance_after_remove(nodes, child, child_parent);
        }
    }

    /// Changes the own value of `slot`, which must be in this tree; the key stays.
    pub fn set_own<K: Key, A: Augment>(&self, nodes: &mut Nodes<K, A>, slot: u32, own: A) {
        nodes.0[slot as usize].own = own;
        nodes.refresh_up(slot, NIL);
    }

    /// Puts `new` (or nothing) where `old` hangs below `parent`.
    fn transplant<K: Key, A: Augment>(
        &mut self,
        nodes: &mut Nodes<K, A>,
        parent: u32,
        old: u32,
        new: u32,
    ) {
        if parent == NIL {
            self.root = new;
        } else {
            let child = &mut nodes.0[parent as usize].child;
            child.set(usize::from(child.get(LEFT) != old), new);
        }
        if new != NIL {
            nodes.0[new as usize].parent = parent;
        }
    }

    /// Rotates `at` down to the left or to the right; its child on the other side takes its place.
    fn rotate<K: Key, A: Augment>(&mut self, nodes: &mut Nodes<K, A>, at: u32, to_left: bool) {
        let (near, far) = if to_left { (LEFT, RIGHT) } else { (RIGHT, LEFT) };
        let Node { parent, child, .. } = nodes.0[at as usize];
        let up = child.get(far);
        let inner = nodes.0[up as usize].child.get(near);
        nodes.0[at as usize].child.set(far, inner);
        if inner != NIL {
            nodes.0[inner as usize].parent = at;
        }
        self.transplant(nodes, parent, at, up);
        nodes.0[up as usize].child.set(near, at);
        nodes.0[at as usize].parent = up;
        if A::ACTIVE {
            nodes.0[up as usize].sum = nodes.0[at as usize].sum;
            nodes.refresh(at);
        }
    }

    fn balance_after_insert<K: Key, A: Augment>(&mut self, nodes: &mut Nodes<K, A>, mut at: u32) {
        loop {
            let mut parent = nodes.0[at as usize].parent;
            if parent == NIL || !nodes.0[parent as usize].red {
                break;
            }
            let grand = nodes.0[parent as usize].parent;
            let [left, right] = nodes.0[grand as usize].child.both();
            let parent_left = left == parent;
            let uncle = if parent_left { right } else { left };
            if nodes.red(uncle) {
                nodes.0[parent as usize].red = false;
                nodes.0[uncle as usize].red = false;
                nodes.0[grand as usize].red = true;
                at = grand;
                continue;
            }
            let at_left = nodes.0[parent as usize].child.get(LEFT) == at;
            if at_left != parent_left {
                self.rotate(nodes, parent, parent_left);
                core::mem::swap(&mut at, &mut parent);
            }
            nodes.0[parent as usize].red = false;
            nodes.0[grand as usize].red = true;
            self.rotate(nodes, grand, !parent_left);
        }
        let root = self.root;
        nodes.0[root as usize].red = false;
    }

    fn balance_after_remove<K: Key, A: Augment>(
        &mut self,
        nodes: &mut Nodes<K, A>,
        mut at: u32,
        mut parent: u32,
    ) {
        while parent != NIL && !nodes.red(at) {
            let at_left = nodes.0[parent as usize].child.get(LEFT) == at;
            let side = |n: &Node<K, A>, same: bool| n.child.get(usize::from(at_left != same));
            let mut sibling = side(&nodes.0[parent as usize], false);
            if nodes.red(sibling) {
                nodes.0[sibling as usize].red = false;
                nodes.0[parent as usize].red = true;
                self.rotate(nodes, parent, at_left);
                sibling = side(&nodes.0[parent as usize], false);
            }
            let near = side(&nodes.0[sibling as usize], true);
            let far = side(&nodes.0[sibling as usize], false);
            if !nodes.red(near) && !nodes.red(far) {
                nodes.0[sibling as usize].red = true;
                at = parent;
                parent = nodes.0[at as usize].parent;
                continue;
            }
            if !nodes.red(far) {
                nodes.0[near as usize].red = false;
                nodes.0[sibling as usize].red = true;
                self.rotate(nodes, sibling, !at_left);
                sibling = side(&nodes.0[parent as usize], false);
            }
            let far = side(&nodes.0[sibling as usize], false);
            nodes.0[sibling as usize].red = nodes.0[parent as usize].red;
            nodes.0[parent as usize].red = false;
            if far != NIL {
                nodes.0[far as usize].red = false;
            }
            self.rotate(nodes, parent, at_left);
            at = self.root;
            break;
        }
        if at != NIL {
            nodes.0[at as usize].red = false;
        }
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
        if at == NIL {
            return (1, u64::MAX);
        }
        let n = nodes.0[at as usize];
        assert!(!(n.red && (n.child.both().iter().any(|&c| nodes.red(c)))));
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
            if nodes.linked(slot) {
                tree.remove(&mut nodes, slot);
                model.retain(|&(_, s)| s != slot);
            } else {
                let key = (x >> 20) % 40;
                tree.insert(&mut nodes, slot, key, Least(x >> 50));
                let at = model.partition_point(|&(k, _)| k <= key);
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
                check(&nodes, tree.root());
                let bound = (x >> 30) % 42;
                let want = model.iter().find(|&&(k, _)| k >= bound).map_or(NIL, |&(_, s)| s);
                assert_eq!(tree.lower_bound(&nodes, bound), want);
            }
        }
    }
}
