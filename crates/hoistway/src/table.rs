//! Slots with generations: a stale id is an error and not somebody else's entry.

use alloc::vec::Vec;

/// No slot: the end of a list, an empty tree.
pub const NIL: u32 = u32::MAX;

// Links of lists and trees count *places*: that of a slot is one above it, and the first is taken by
// nobody. What is kept for nobody may be written to and means nothing, so that most steps need not ask
// whether a relative exists.

/// The place of no slot.
pub(crate) const NOBODY: u32 = 0;

/// Place of a slot; `NIL` has that of nobody.
pub(crate) fn place(slot: u32) -> u32 {
    slot.wrapping_add(1)
}

/// Slot of a place, `NIL` for that of nobody.
pub(crate) fn slot_of(place: u32) -> u32 {
    place.wrapping_sub(1)
}

/// A slot number and the generation it was given out under.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Handle {
    /// Index of the slot, below the table's capacity.
    pub slot: u32,
    /// How often the slot had been reused.
    pub generation: u32,
}

#[derive(Clone, Debug)]
struct TableSlot<T> {
    generation: u32,
    /// Of a free slot: the one that is given out after it.
    next_free: u32,
    value: Option<T>,
}

impl<T> TableSlot<T> {
    fn free(next_free: u32) -> TableSlot<T> {
        TableSlot { generation: 0, next_free, value: None }
    }
}

/// A bounded table that never allocates after construction. The slot that was freed last is given out first.
#[derive(Clone, Debug)]
pub struct Table<T> {
    slots: Vec<TableSlot<T>>,
    first_free: u32,
    used: u32,
}

impl<T> Table<T> {
    /// A table of `capacity` slots; slots are handed out in ascending order first.
    pub fn with_capacity(capacity: usize) -> Table<T> {
        let mut table = Table { slots: Vec::new(), first_free: NIL, used: 0 };
        table.slots.reserve_exact(capacity);
        table.grow(capacity);
        table
    }

    /// Number of slots.
    pub fn capacity(&self) -> usize {
        self.slots.len()
    }

    /// Number of used slots.
    #[inline]
    pub fn len(&self) -> usize {
        self.used as usize
    }

    /// True when no slot is used.
    pub fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// True when the next value finds no slot.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.first_free == NIL
    }

    /// Makes room for `capacity` slots (allocates).
    pub fn grow(&mut self, capacity: usize) {
        assert!(capacity < NIL as usize, "slot numbers are 32 bits wide");
        let from = self.slots.len();
        if capacity <= from {
            return;
        }
        let (behind, last) = (self.first_free, capacity as u32 - 1);
        self.first_free = from as u32;
        let next = |slot: u32| if slot == last { behind } else { slot + 1 };
        self.slots.extend((from as u32..=last).map(|slot| TableSlot::free(next(slot))));
    }

    /// `None` when full.
    #[inline]
    pub fn insert(&mut self, value: T) -> Option<Handle> {
        self.insert_with(|_| value)
    }

    /// The same for a value that knows its own handle, made where it stays.
    #[inline(always)]
    pub fn insert_with(&mut self, make: impl FnOnce(Handle) -> T) -> Option<Handle> {
        let slot = self.first_free;
        // Nobody has slot `NIL`, so this is the test for a free one too.
        let entry = self.slots.get_mut(slot as usize)?;
        let handle = Handle { slot, generation: entry.generation };
        self.first_free = entry.next_free;
        self.used += 1;
        entry.value = Some(make(handle));
        Some(handle)
    }

    /// Frees a slot without moving its value; false for a stale handle.
    #[inline]
    pub fn discard(&mut self, at: Handle) -> bool {
        self.discard_with(at, |_| ()).is_some()
    }

    /// Frees a slot after a last look at its value; `None` for a stale handle.
    #[inline(always)]
    pub fn discard_with<R>(&mut self, at: Handle, look: impl FnOnce(&T) -> R) -> Option<R> {
        let entry = self.slots.get_mut(at.slot as usize)?;
        if entry.generation != at.generation {
            return None;
        }
        let seen = look(entry.value.as_ref()?);
        entry.value = None;
        entry.generation = entry.generation.wrapping_add(1);
        entry.next_free = self.first_free;
        self.first_free = at.slot;
        self.used -= 1;
        Some(seen)
    }

    /// `None` for a stale handle.
    pub fn remove(&mut self, at: Handle) -> Option<T> {
        let entry = self.slots.get_mut(at.slot as usize)?;
        if entry.generation != at.generation {
            return None;
        }
        let value = entry.value.take()?;
        entry.generation = entry.generation.wrapping_add(1);
        entry.next_free = self.first_free;
        self.first_free = at.slot;
        self.used -= 1;
        Some(value)
    }

    /// `None` for a stale handle.
    #[inline]
    pub fn get(&self, at: Handle) -> Option<&T> {
        let entry = self.slots.get(at.slot as usize)?;
        if entry.generation == at.generation { entry.value.as_ref() } else { None }
    }

    /// `None` for a stale handle.
    #[inline]
    pub fn get_mut(&mut self, at: Handle) -> Option<&mut T> {
        let entry = self.slots.get_mut(at.slot as usize)?;
        if entry.generation == at.generation { entry.value.as_mut() } else { None }
    }

    /// The entry of a slot whoever holds it.
    pub fn at(&self, slot: u32) -> Option<&T> {
        self.slots.get(slot as usize)?.value.as_ref()
    }

    /// Every entry, in the order of slots.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.slots.iter_mut().filter_map(|slot| slot.value.as_mut())
    }

    /// The current handle of a used slot.
    pub fn handle(&self, slot: u32) -> Option<Handle> {
        let entry = self.slots.get(slot as usize)?;
        entry.value.as_ref().map(|_| Handle { slot, generation: entry.generation })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_handle_finds_nothing() {
        let mut t = Table::with_capacity(1);
        let a = t.insert(7).unwrap();
        assert_eq!(t.insert(8), None);
        assert_eq!(t.remove(a), Some(7));
        let b = t.insert(9).unwrap();
        assert_eq!((a.slot, t.get(a), t.get(b)), (b.slot, None, Some(&9)));
        assert_eq!(t.remove(a), None);
        assert_eq!((t.discard_with(a, |v| *v), t.discard_with(b, |v| *v)), (None, Some(9)));
        assert!(t.is_empty() && !t.discard(b));
    }

    #[test]
    fn the_slot_freed_last_is_given_out_first_and_new_ones_before_old() {
        let mut t = Table::with_capacity(3);
        let handles: Vec<Handle> = (0..3).map(|n| t.insert(n).unwrap()).collect();
        assert_eq!(handles.iter().map(|h| h.slot).collect::<Vec<_>>(), [0, 1, 2]);
        assert!(t.is_full());
        for at in [0, 2] {
            assert!(t.discard(handles[at]));
        }
        t.grow(2);
        t.grow(5);
        assert_eq!((t.len(), t.capacity()), (1, 5));
        let slots: Vec<u32> = (0..4).map(|n| t.insert(n).unwrap().slot).collect();
        assert_eq!(slots, [3, 4, 2, 0]);
        assert_eq!((t.insert(9), t.len()), (None, 5));
    }
}
