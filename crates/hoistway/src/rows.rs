//! Numbers of things inside a scheduler or controller, each kind with a type of its own, and vectors indexed by
//! them: a request's slot is no index into the queues, and the compiler says so.
//!
//! All are 32 bits wide, and one value of each stands for nobody, so that a link costs four bytes and a list or
//! tree may be asked for its next member without a branch.

use crate::group::GroupId;
use crate::table::NIL;
use crate::unit::QueueId;
use alloc::vec::Vec;
use core::marker::PhantomData;
use core::ops::{Index, IndexMut};

/// A number that a [`Rows`] is indexed by.
pub(crate) trait Id: Copy + PartialEq {
    /// Nobody. No row has this number.
    const NONE: Self;
    fn new(number: u32) -> Self;
    fn number(self) -> u32;

    /// Somebody.
    #[inline]
    fn is_some(self) -> bool {
        self != Self::NONE
    }

    #[inline]
    fn is_none(self) -> bool {
        self == Self::NONE
    }

    /// `self`, or `other` if that is nobody.
    #[inline]
    fn or(self, other: Self) -> Self {
        if self.is_some() { self } else { other }
    }

    /// For the places where somebody or nobody is told apart once and then used.
    #[inline]
    fn some(self) -> Option<Self> {
        self.is_some().then_some(self)
    }
}

/// Declares kinds of numbers.
macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub(super) struct $name(pub u32);

        impl $crate::rows::Id for $name {
            const NONE: $name = $name($crate::table::NIL);

            #[inline]
            fn new(number: u32) -> $name {
                $name(number)
            }

            #[inline]
            fn number(self) -> u32 {
                self.0
            }
        }
    )*};
}
pub(crate) use ids;

/// Groups are numbered by the tree of groups; controllers and schedulers keep a row for each.
impl Id for GroupId {
    const NONE: GroupId = GroupId(NIL);

    #[inline]
    fn new(number: u32) -> GroupId {
        GroupId(number)
    }

    #[inline]
    fn number(self) -> u32 {
        self.0
    }
}

/// Hardware queues are numbered in 16 bits.
impl Id for QueueId {
    const NONE: QueueId = QueueId(u16::MAX);

    #[inline]
    fn new(number: u32) -> QueueId {
        QueueId(number as u16)
    }

    #[inline]
    fn number(self) -> u32 {
        self.0.into()
    }
}

/// A vector indexed by one kind of number, or by another that stands for it.
#[derive(Clone, Debug)]
pub(crate) struct Rows<I, T> {
    rows: Vec<T>,
    by: PhantomData<I>,
}

impl<I: Id, T> Rows<I, T> {
    pub const fn new() -> Rows<I, T> {
        Rows { rows: Vec::new(), by: PhantomData }
    }

    /// No rows, and room for so many.
    pub fn with_capacity(room: usize) -> Rows<I, T> {
        Rows { rows: Vec::with_capacity(room), by: PhantomData }
    }

    /// The next free number goes to `row`.
    pub fn push(&mut self, row: T) -> I {
        let id = I::new(self.rows.len() as u32);
        self.rows.push(row);
        id
    }

    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Makes it `len` long, new rows like `row`.
    pub fn resize(&mut self, len: usize, row: T)
    where
        T: Clone,
    {
        self.rows.resize(len, row);
    }

    pub fn get(&self, id: I) -> Option<&T> {
        self.rows.get(id.number() as usize)
    }

    pub fn get_mut(&mut self, id: I) -> Option<&mut T> {
        self.rows.get_mut(id.number() as usize)
    }

    #[cfg(test)]
    pub fn capacity(&self) -> usize {
        self.rows.capacity()
    }

    pub fn clear(&mut self) {
        self.rows.clear();
    }

    pub fn iter(&self) -> core::slice::Iter<'_, T> {
        self.rows.iter()
    }

    pub fn iter_mut(&mut self) -> core::slice::IterMut<'_, T> {
        self.rows.iter_mut()
    }

    /// All numbers; nothing is borrowed meanwhile.
    pub fn ids(&self) -> impl Iterator<Item = I> + use<I, T> {
        (0..self.rows.len() as u32).map(I::new)
    }

    /// All rows with their numbers.
    pub fn pairs(&self) -> impl Iterator<Item = (I, &T)> {
        (0..).map(I::new).zip(&self.rows)
    }
}

impl<I: Id, T> Default for Rows<I, T> {
    fn default() -> Rows<I, T> {
        Rows::new()
    }
}

impl<I: Id, T> From<Vec<T>> for Rows<I, T> {
    fn from(rows: Vec<T>) -> Rows<I, T> {
        Rows { rows, by: PhantomData }
    }
}

impl<I: Id, J: Into<I>, T> Index<J> for Rows<I, T> {
    type Output = T;

    #[inline]
    fn index(&self, id: J) -> &T {
        &self.rows[id.into().number() as usize]
    }
}

impl<I: Id, J: Into<I>, T> IndexMut<J> for Rows<I, T> {
    #[inline]
    fn index_mut(&mut self, id: J) -> &mut T {
        &mut self.rows[id.into().number() as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_found_by_their_numbers_and_nobody_has_none() {
        let mut rows = Rows::<GroupId, char>::new();
        assert_eq!([rows.push('a'), rows.push('b')], [GroupId(0), GroupId(1)]);
        rows[GroupId(1)] = 'c';
        assert_eq!(
            rows.pairs().map(|(id, &c)| (id.0, c)).collect::<Vec<_>>(),
            [(0, 'a'), (1, 'c')]
        );
        assert_eq!((rows.get(GroupId::NONE), rows.get(GroupId(2)), rows.len()), (None, None, 2));
        assert!(GroupId::NONE.is_none() && GroupId::NONE.some().is_none() && GroupId(0).is_some());
    }
}
