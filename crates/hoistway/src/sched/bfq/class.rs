//! The scheduling classes of the fair queue: one service tree each (specs/bfq.md 2).

use core::ops::{Index, IndexMut};

/// The classes, in the order in which they are served: one service tree each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ServiceClass {
    /// Real-time.
    Rt,
    /// Best-effort.
    Be,
    /// Idle.
    Idle,
}

impl ServiceClass {
    pub const ALL: [ServiceClass; 3] = [RT, BE, IDLE];
}

pub(super) const RT: ServiceClass = ServiceClass::Rt;
pub(super) const BE: ServiceClass = ServiceClass::Be;
pub(super) const IDLE: ServiceClass = ServiceClass::Idle;

/// One value for each class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ByClass<T>(pub [T; 3]);

impl<T> Index<ServiceClass> for ByClass<T> {
    type Output = T;

    #[inline]
    fn index(&self, class: ServiceClass) -> &T {
        &self.0[class as usize]
    }
}

impl<T> IndexMut<ServiceClass> for ByClass<T> {
    #[inline]
    fn index_mut(&mut self, class: ServiceClass) -> &mut T {
        &mut self.0[class as usize]
    }
}
