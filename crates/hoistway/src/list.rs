//! The one intrusive list: doubly linked, links are slot numbers kept in a side table.
//!
//! [`Links`] holds one `prev`/`next` pair per slot, alone or inside an entry of the user's that is
//! [`Linked`]; any number of [`List`] heads may share it as long as a slot is on at most one of them at
//! a time. Nothing here allocates after construction.

use crate::table::{NOBODY, place, slot_of};
use alloc::vec;
use alloc::vec::Vec;
use core::hint::select_unpredictable;

/// The place of a slot on its list; nothing else can be done with it than to keep it.
#[derive(Clone, Copy, Debug)]
pub struct Link {
    prev: u32,
    next: u32,
}

impl Link {
    /// On no list.
    pub const OFF: Link = Link { prev: OFF, next: NOBODY };
}

/// Marks a slot that is on no list (in `prev`).
const OFF: u32 = u32::MAX;

/// What has a link in it: then a walk along the list, or taking something off, touches the memory of
/// what it is about, and no other.
pub trait Linked {
    /// The link.
    fn link(&self) -> &Link;
    /// The link, to be changed by the list.
    fn link_mut(&mut self) -> &mut Link;
}

impl Linked for Link {
    fn link(&self) -> &Link {
        self
    }

    fn link_mut(&mut self) -> &mut Link {
        self
    }
}

/// The links of all slots.
#[derive(Clone, Debug)]
pub struct Links<T = Link>(Vec<T>);

impl Links {
    /// Links for `slots` slots, all on no list.
    pub fn new(slots: usize) -> Links {
        Links::of(slots, Link::OFF)
    }

    /// Makes room for at least `slots` slots (allocates).
    pub fn grow(&mut self, slots: usize) {
        if slots >= self.0.len() {
            self.0.resize(slots + 1, Link::OFF);
        }
    }
}

impl<T: Linked> Links<T> {
    /// An entry like `item`, whose link is off, for each of `slots` slots.
    pub fn of(slots: usize, item: T) -> Links<T>
    where
        T: Clone,
    {
        // And one for nobody.
        Links(vec![item; slots + 1])
    }

    /// The entry of `slot`.
    pub fn item(&self, slot: u32) -> &T {
        &self.0[place(slot) as usize]
    }

    /// The entry of `slot`.
    pub fn item_mut(&mut self, slot: u32) -> &mut T {
        &mut self.0[place(slot) as usize]
    }

    /// True when `slot` is on a list.
    pub fn linked(&self, slot: u32) -> bool {
        self.item(slot).link().prev != OFF
    }

    /// The slot after `slot`, `NIL` at the tail.
    pub fn next(&self, slot: u32) -> u32 {
        slot_of(self.item(slot).link().next)
    }

    /// The slot before `slot`, `NIL` at the head.
    pub fn prev(&self, slot: u32) -> u32 {
        slot_of(self.item(slot).link().prev)
    }

    #[inline]
    fn at(&mut self, place: u32) -> &mut Link {
        self.0[place as usize].link_mut()
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
        List { head: NOBODY, tail: NOBODY, len: 0 }
    }

    /// The first slot, `NIL` when empty.
    pub fn head(&self) -> u32 {
        slot_of(self.head)
    }

    /// The last slot, `NIL` when empty.
    pub fn tail(&self) -> u32 {
        slot_of(self.tail)
    }

    /// The number of slots on the list.
    pub fn len(&self) -> u32 {
        self.len
    }

    /// True when nothing is on the list.
    pub fn is_empty(&self) -> bool {
        self.head == NOBODY
    }

    /// Appends `slot`, which must be on no list.
    #[inline]
    pub fn push_back<T: Linked>(&mut self, links: &mut Links<T>, slot: u32) {
        debug_assert!(!links.linked(slot));
        let new = place(slot);
        *links.at(new) = Link { prev: self.tail, next: NOBODY };
        links.at(self.tail).next = new;
        self.head = select_unpredictable(self.tail == NOBODY, new, self.head);
        self.tail = new;
        self.len += 1;
    }

    /// Puts `slot`, which must be on no list, before all others.
    pub fn push_front<T: Linked>(&mut self, links: &mut Links<T>, slot: u32) {
        debug_assert!(!links.linked(slot));
        let new = place(slot);
        *links.at(new) = Link { prev: NOBODY, next: self.head };
        links.at(self.head).prev = new;
        self.tail = select_unpredictable(self.head == NOBODY, new, self.tail);
        self.head = new;
        self.len += 1;
    }

    /// Puts `slot`, which must be on no list, directly before `at`, which must be on this one.
    pub fn insert_before<T: Linked>(&mut self, links: &mut Links<T>, at: u32, slot: u32) {
        debug_assert!(!links.linked(slot) && links.linked(at));
        let (new, next) = (place(slot), place(at));
        let prev = links.at(next).prev;
        *links.at(new) = Link { prev, next };
        links.at(prev).next = new;
        links.at(next).prev = new;
        self.head = select_unpredictable(prev == NOBODY, new, self.head);
        self.len += 1;
    }

    /// Appends everything on `other`, which is empty afterwards; both must use these links.
    pub fn append<T: Linked>(&mut self, links: &mut Links<T>, other: &mut List) {
        if other.is_empty() {
            return;
        }
        links.at(other.head).prev = self.tail;
        links.at(self.tail).next = other.head;
        self.head = select_unpredictable(self.tail == NOBODY, other.head, self.head);
        self.tail = other.tail;
        self.len += other.len;
        *other = List::new();
    }

    /// Takes `slot` off; it must be on this list.
    #[inline]
    pub fn remove<T: Linked>(&mut self, links: &mut Links<T>, slot: u32) {
        debug_assert!(links.linked(slot));
        let Link { prev, next } = core::mem::replace(links.at(place(slot)), Link::OFF);
        links.at(prev).next = next;
        links.at(next).prev = prev;
        self.head = select_unpredictable(prev == NOBODY, next, self.head);
        self.tail = select_unpredictable(next == NOBODY, prev, self.tail);
        self.len -= 1;
    }

    /// Takes the first slot off.
    #[inline]
    pub fn pop_front<T: Linked>(&mut self, links: &mut Links<T>) -> Option<u32> {
        (!self.is_empty()).then(|| self.take_first(links))
    }

    /// Takes the first slot off; there must be one.
    #[inline]
    pub(crate) fn take_first<T: Linked>(&mut self, links: &mut Links<T>) -> u32 {
        debug_assert!(!self.is_empty());
        let first = self.head;
        let next = core::mem::replace(links.at(first), Link::OFF).next;
        links.at(next).prev = NOBODY;
        self.tail = select_unpredictable(next == NOBODY, NOBODY, self.tail);
        self.head = next;
        self.len -= 1;
        slot_of(first)
    }

    /// The slots from head to tail.
    pub fn iter<'a, T: Linked>(
        &self,
        links: &'a Links<T>,
    ) -> impl Iterator<Item = u32> + use<'a, T> {
        let mut at = self.head;
        core::iter::from_fn(move || {
            if at == NOBODY {
                return None;
            }
            let slot = slot_of(at);
            at = place(links.next(slot));
            Some(slot)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::NIL;
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
