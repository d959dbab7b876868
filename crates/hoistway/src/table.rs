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
    value: Option<T>,
}

/// A bounded table that never allocates after construction.
#[derive(Clone, Debug)]
pub struct Table<T> {
    slots: Vec<TableSlot<T>>,
    free: Vec<u32>,
}

impl<T> Table<T> {
    /// A table of `capacity` slots; slots are handed out in ascending order first.
    pub fn with_capacity(capacity: usize) -> Table<T> {
        assert!(capacity < NIL as usize, "slot numbers are 32 bits wide");
        Table {
            slots: (0..capacity).map(|_| TableSlot { generation: 0, value: None }).collect(),
            free: (0..capacity as u32).rev().collect(),
        }
    }

    /// Number of slots.
    pub fn capacity(&self) -> usize {
        self.slots.len()
    }

    /// Number of used slots.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// True when no slot is used.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Makes room for `capacity` slots (allocates).
    pub fn grow(&mut self, capacity: usize) {
        assert!(capacity < NIL as usize, "slot numbers are 32 bits wide");
        let from = self.slots.len();
        for slot in (from..capacity).rev() {
            self.free.push(slot as u32);
        }
        self.slots.resize_with(capacity.max(from), || TableSlot { generation: 0, value: None });
    }

    /// `None` when full.
    #[inline]
    pub fn insert(&mut self, value: T) -> Option<Handle> {
        let slot = self.free.pop()?;
        let entry = &mut self.slots[slot as usize];
        entry.value = Some(value);
        Some(Handle { slot, generation: entry.generation })
    }

    /// The same for a value that knows its own handle.
    #[inline]
    pub fn insert_with(&mut self, make: impl FnOnce(Handle) -> T) -> Option<Handle> {
        let slot = self.free.pop()?;
        let entry = &mut self.slots[slot as usize];
        let handle = Handle { slot, generation: entry.generation };
        entry.value = Some(make(handle));
        Some(handle)
    }

    /// Frees a slot without moving its value; false for a stale handle.
    #[inline]
    pub fn discard(&mut self, at: Handle) -> bool {
        let Some(entry) = self.slots.get_mut(at.slot as usize) else { return false };
        if entry.generation != at.generation || entry.value.is_none() {
            return false;
        }
        entry.value = None;
        entry.generation = entry.generation.wrapping_add(1);
        self.free.push(at.slot);
        true
    }

    /// `None` for a stale handle.
    pub fn remove(&mut self, at: Handle) -> Option<T> {
        let entry = self.slots.get_mut(at.slot as usize)?;
        if entry.generation != at.generation {
            return None;
        }
        let value = entry.value.take()?;
        entry.generation = entry.generation.wrapping_add(1);
        self.free.push(at.slot);
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
    }
}
