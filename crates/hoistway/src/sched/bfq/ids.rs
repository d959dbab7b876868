//! Numbers of queues, entities, nodes and requests, each with a type of its own: a node is no index into the
//! queues, and the compiler says so.
//!
//! All are 32 bits wide, and one value of each stands for nobody, so that a link costs four bytes.

use crate::group::ProcId;
use crate::request::ReqId;
use crate::table::NIL;
use alloc::vec::Vec;
use core::marker::PhantomData;
use core::ops::{Index, IndexMut};

/// A number that a [`Rows`] is indexed by.
pub(super) trait Id: Copy + PartialEq {
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
}

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub(super) struct $name(pub u32);

        impl Id for $name {
            const NONE: $name = $name(NIL);

            #[inline]
            fn new(number: u32) -> $name {
                $name(number)
            }

            #[inline]
            fn number(self) -> u32 {
                self.0
            }
        }

        /// As a decision of the trace names it.
        impl From<$name> for i64 {
            fn from(id: $name) -> i64 {
                id.0.into()
            }
        }
    )*};
}

ids! {
    /// A queue. Its entity has the same number.
    QueueNo;
    /// An entity of the fair queue: a queue, or a group as its parent sees it.
    EntityNo;
    /// The scheduler of a group; that of the root is 0.
    NodeNo;
    /// A request, by its slot in the request table.
    RqNo;
}

impl Id for ProcId {
    const NONE: ProcId = ProcId::NONE;

    fn new(number: u32) -> ProcId {
        ProcId(number)
    }

    fn number(self) -> u32 {
        self.0
    }
}

impl From<QueueNo> for EntityNo {
    #[inline]
    fn from(q: QueueNo) -> EntityNo {
        EntityNo(q.0)
    }
}

impl From<ReqId> for RqNo {
    #[inline]
    fn from(id: ReqId) -> RqNo {
        RqNo(id.slot())
    }
}

impl EntityNo {
    /// The queue whose entity it is; the caller knows that it is none of a group.
    #[inline]
    pub fn queue(self) -> QueueNo {
        QueueNo(self.0)
    }
}

/// A vector indexed by one kind of number, or by another that stands for it (a queue for its entity).
#[derive(Clone, Debug)]
pub(super) struct Rows<I, T> {
    rows: Vec<T>,
    by: PhantomData<I>,
}

impl<I: Id, T> Rows<I, T> {
    pub const fn new() -> Rows<I, T> {
        Rows { rows: Vec::new(), by: PhantomData }
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

    #[cfg(test)]
    pub fn capacity(&self) -> usize {
        self.rows.capacity()
    }

    pub fn clear(&mut self) {
        self.rows.clear();
    }

    /// Makes it at least `len` long, or cuts it.
    pub fn resize(&mut self, len: usize, row: T)
    where
        T: Clone,
    {
        self.rows.resize(len, row);
    }

    pub fn get_mut(&mut self, id: I) -> Option<&mut T> {
        self.rows.get_mut(id.number() as usize)
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
