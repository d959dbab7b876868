//! The one intrusive list: doubly linked, links are slot numbers kept in a side table.
//!
//! [`Links`] holds one `prev`/`next` pair per slot; any number of [`List`] heads may share it as long as
//! a slot is on at most one of them at a time. Nothing here allocates after construction.

use crate::table::NIL;
use alloc::vec;
use alloc::vec::Vec;

#[derive(Clone, Copy, Debug)]
struct Link {
    prev: u32,
    next: u32,
}

/// Marks a slot that is on no list (in `prev`).
const OFF: u32 = u32::MAX - 1;

/// The links of all slots.
#[derive(Clone, Debug)]
pub struct Links(Vec<Link>);

impl Links {
    /// Links for `slots` slots, all on no list.
    pub fn new(slots: usize) -> Links {
        Links(vec![Link { prev: OFF, next: NIL }; slots])
    }

    /// Makes room for at least `slots` slots (allocates).
    pub fn grow(&mut self, slots: usize) {
        if slots > self.0.len() {
            self.0.resize(slots, Link { prev: OFF, next: NIL });
        }
    }

    /// True when `slot` is on a list.
    pub fn linked(&self, slot: u32) -> bool {
        self.0[slot as usize].prev != OFF
    }

    /// The slot after `slot`, `NIL` at the tail.
    pub fn next(&self, slot: u32) -> u32 {
        self.0[slot as usize].next
    }

    /// The slot before `slot`, `NIL` at the head.
    pub fn prev(&self, slot: u32) -> u32 {
        self.0[slot as usize].prev
    }
}

/// Head, tail and length of one list.
#[derive(Clone, Copy, Debug)]
pub struct List {
    head: u32,
    tail: u32,
    len: u32,
}

impl Default for List {
    fn default() -> List {
        List::new()
    }
}

impl List {
    /// An empty list.
    pub const fn new() -> List {
        List { head: NIL, tail: NIL, len: 0 }
    }

    /// The first slot, `NIL` when empty.
    pub fn head(&self) -> u32 {
        self.head
    }

    /// The last slot, `NIL` when empty.
    pub fn tail(&self) -> u32 {
        self.tail
    }

    /// The number of slots on the list.
    pub fn len(&self) -> u32 {
        self.len
    }

    /// True when nothing is on the list.
    pub fn is_empty(&self) -> bool {
        self.head == NIL
    }

    /// Appends `slot`, which must be on no list.
    pub fn push_back(&mut self, links: &mut Links, slot: u32) {
        debug_assert!(!links.linked(slot));
        links.0[slot as usize] = Link { prev: self.tail, next: NIL };
        if self.tail == NIL {
            self.head = slot;
        } else {
            links.0[self.tail as usize].next = slot;
        }
        self.tail = slot;
        self.len += 1;
    }

    /// Puts `slot`, which must be on no list, before all others.
    pub fn push_front(&mut self, links: &mut Links, slot: u32) {
        debug_assert!(!links.linked(slot));
        links.0[slot as usize] = Link { prev: NIL, next: self.head };
        if self.head == NIL {
            self.tail = slot;
        } else {
            links.0[self.head as usize].prev = slot;
        }
        self.head = slot;
        self.len += 1;
    }

    /// Puts `slot`, which must be on no list, directly before `at`, which must be on this one.
    pub fn insert_before(&mut self, links: &mut Links, at: u32, slot: u32) {
        debug_assert!(!links.linked(slot) && links.linked(at));
        let prev = links.0[at as usize].prev;
        if prev == NIL {
            return self.push_front(links, slot);
        }
        links.0[slot as usize] = Link { prev, next: at };
        links.0[prev as usize].next = slot;
        links.0[at as usize].prev = slot;
        self.len += 1;
    }

    /// Appends everything on `other`, which is empty afterwards; both must use these links.
    pub fn append(&mut self, links: &mut Links, other: &mut List) {
        if other.is_empty() {
            return;
        }
        links.0[other.head as usize].prev = self.tail;
        if self.tail == NIL {
            self.head = other.head;
        } else {
            links.0[self.tail as usize].next = other.head;
        }
        self.tail = other.tail;
        self.len += other.len;
        *other = List::new();
    }

    /// Takes `slot` off; it must be on this list.
    pub fn remove(&mut self, links: &mut Links, slot: u32) {
        debug_assert!(links.linked(slot));
        let Link { prev, next } = links.0[slot as usize];
        if prev == NIL {
            self.head = next;
        } else {
            links.0[prev as usize].next = next;
        }
        if next == NIL {
            self.tail = prev;
        } else {
            links.0[next as usize].prev = prev;
        }
        links.0[slot as usize] = Link { prev: OFF, next: NIL };
        self.len -= 1;
    }

    /// Takes the first slot off.
    pub fn pop_front(&mut self, links: &mut Links) -> Option<u32> {
        if self.head == NIL {
            return None;
        }
        let slot = self.head;
        self.remove(links, slot);
        Some(slot)
    }

    /// The slots from head to tail.
    pub fn iter<'a>(&self, links: &'a Links) -> impl Iterator<Item = u32> + use<'a> {
        let mut at = self.head;
        core::iter::from_fn(move || {
            if at == NIL {
                return None;
            }
            let slot = at;
            at = links.next(slot);
            Some(slot)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn a_list_behaves_like_a_vector() {
        let mut links = Links::new(8);
        let mut list = List::new();
        let mut model: Vec<u32> = Vec::new();
        let mut x = 12345u32;
        for _ in 0..2000 {
            x = x.wrapping_mul(1664525).wrapping_add(1013904223);
            let slot = (x >> 16) % 8;
            if links.linked(slot) {
                list.remove(&mut links, slot);
                model.retain(|&s| s != slot);
            } else if x & 1 == 0 {
                list.push_back(&mut links, slot);
                model.push(slot);
            } else if x & 2 == 0 || model.is_empty() {
                list.push_front(&mut links, slot);
                model.insert(0, slot);
            } else {
                let at = model[model.len() / 2];
                list.insert_before(&mut links, at, slot);
                model.insert(model.len() / 2, slot);
            }
            assert_eq!(list.iter(&links).collect::<Vec<_>>(), model);
            assert_eq!(list.len() as usize, model.len());
        }
    }

    #[test]
    fn appending_keeps_both_orders_and_empties_the_other_list() {
        for (mine, others) in [(0, 0), (0, 2), (2, 0), (2, 3)] {
            let mut links = Links::new(8);
            let (mut list, mut other) = (List::new(), List::new());
            (0..mine).for_each(|slot| list.push_back(&mut links, slot));
            (0..others).for_each(|slot| other.push_back(&mut links, 4 + slot));
            list.append(&mut links, &mut other);
            assert_eq!((other.head(), other.tail(), other.len()), (NIL, NIL, 0));
            let want: Vec<u32> = (0..mine).chain((0..others).map(|slot| 4 + slot)).collect();
            assert_eq!(list.iter(&links).collect::<Vec<_>>(), want);
            assert_eq!((list.len(), list.tail()), (mine + others, *want.last().unwrap_or(&NIL)));
            let before = |&slot: &u32| Some(links.prev(slot)).filter(|&slot| slot != NIL);
            let last = Some(list.tail()).filter(|&slot| slot != NIL);
            let reverse: Vec<u32> = core::iter::successors(last, before).collect();
            assert_eq!(reverse, want.into_iter().rev().collect::<Vec<_>>());
        }
    }
}
