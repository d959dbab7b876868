//! Entries under small numbers, such as travel with a request and come back with its answer.

/// A list with gaps. The number of an entry that was taken out is given out again, the last one first.
///
/// Unlike the stack's `Table` it grows by itself, and a number says nothing about whose it was: for
/// numbers that come back once each.
#[derive(Debug)]
pub struct Slab<T> {
    entries: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Slab<T> {
    /// Allocates nothing until there are more than `room` entries.
    pub fn with_capacity(room: usize) -> Slab<T> {
        Slab { entries: Vec::with_capacity(room), free: Vec::with_capacity(room) }
    }

    /// Adds an entry and gives its number.
    pub fn insert(&mut self, entry: T) -> u32 {
        match self.free.pop() {
            Some(slot) => {
                self.entries[slot as usize] = Some(entry);
                slot
            }
            None => {
                self.entries.push(Some(entry));
                self.entries.len() as u32 - 1
            }
        }
    }

    /// The entry of a number.
    pub fn get_mut(&mut self, slot: u32) -> Option<&mut T> {
        self.entries.get_mut(slot as usize)?.as_mut()
    }

    /// Takes an entry out.
    pub fn remove(&mut self, slot: u32) -> Option<T> {
        let entry = self.entries.get_mut(slot as usize)?.take()?;
        self.free.push(slot);
        Some(entry)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    /// There are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes all of them out.
    pub fn drain(&mut self) -> impl Iterator<Item = T> + '_ {
        self.free.clear();
        self.entries.drain(..).flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_given_out_again_when_their_entries_are_gone() {
        let mut slots = Slab::with_capacity(2);
        assert_eq!([slots.insert('a'), slots.insert('b'), slots.insert('c')], [0, 1, 2]);
        assert_eq!((slots.remove(1), slots.remove(1), slots.remove(7)), (Some('b'), None, None));
        assert_eq!((slots.len(), slots.get_mut(1)), (2, None));
        assert_eq!(slots.get_mut(2), Some(&mut 'c'));
        assert_eq!((slots.insert('d'), slots.insert('e')), (1, 3));
        for slot in 0..4 {
            assert!(slots.remove(slot).is_some());
        }
        assert!(slots.is_empty());
    }
}
