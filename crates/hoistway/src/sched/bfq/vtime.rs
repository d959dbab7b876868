//! Virtual time of the fair queue (specs/bfq.md 2.1).

use crate::tree::Key;

/// Virtual time: sectors over weight, times 2^22. Compared by signed difference, so it may wrap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct VTime(pub u64);

impl VTime {
    pub fn after(self, other: VTime) -> bool {
        self.0.wrapping_sub(other.0) as i64 > 0
    }

    pub fn later(self, other: VTime) -> VTime {
        if other.after(self) { other } else { self }
    }

    pub fn plus(self, d: u64) -> VTime {
        VTime(self.0.wrapping_add(d))
    }
}

impl Key for VTime {
    fn before(&self, other: &VTime) -> bool {
        other.after(*self)
    }
}

/// Sectors to virtual time for a weight or a sum of weights (2.1), rounded down. Budgets stay below
/// 2^34 sectors, so the shift does not overflow.
pub(super) fn delta(sectors: u64, weight: u64) -> u64 {
    (sectors << SERVICE_SHIFT) / weight
}

/// Fraction bits of virtual time (2.1).
const SERVICE_SHIFT: u32 = 22;
