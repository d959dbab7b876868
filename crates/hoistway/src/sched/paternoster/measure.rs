//! Quantities of the valve: work, rates and counts of epochs, each a type of its own.

use crate::unit::{Instant, Sectors};

/// Sixteenths in a unit of work.
pub(super) const UNIT: u64 = 16;

/// Work, in sixteenths of a unit. A unit is a command or 8 KiB, so a sector is a sixteenth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Units(pub u64);

impl Units {
    pub const fn whole(units: u64) -> Units {
        Units(units * UNIT)
    }

    /// Whole units, rounded down.
    pub fn in_whole(self) -> u64 {
        self.0 / UNIT
    }

    pub fn saturating_sub(self, other: Units) -> Units {
        Units(self.0.saturating_sub(other.0))
    }
}

impl core::ops::Mul<u64> for Units {
    type Output = Units;
    fn mul(self, times: u64) -> Units {
        Units(self.0 * times)
    }
}

impl core::ops::Div<u64> for Units {
    type Output = Units;
    fn div(self, by: u64) -> Units {
        Units(self.0 / by)
    }
}

/// Thousandths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Permille(pub u64);

/// Sectors per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SectorRate(pub u64);

impl SectorRate {
    /// Not measured yet.
    pub const UNKNOWN: SectorRate = SectorRate(0);

    pub fn of(sectors: Sectors, from: Instant, to: Instant) -> SectorRate {
        let ns = to.since(from).0.max(1);
        SectorRate((u128::from(sectors.0) * 1_000_000_000 / u128::from(ns)) as u64)
    }

    /// At least the whole less the loss.
    pub fn is_enough_of(self, whole: SectorRate, loss: Permille) -> bool {
        u128::from(self.0) * 1000 >= u128::from(whole.0) * u128::from(1000 - loss.0)
    }

    /// By more than twice the loss.
    pub fn is_better_than(self, other: SectorRate, loss: Permille) -> bool {
        u128::from(self.0) * 1000 > u128::from(other.0) * u128::from(1000 + 2 * loss.0)
    }

    /// Below 85 %.
    pub fn is_low_beside(self, ceiling: SectorRate) -> bool {
        u128::from(self.0) * 100 < u128::from(ceiling.0) * 85
    }

    /// Above 110 %.
    pub fn is_high_beside(self, ceiling: SectorRate) -> bool {
        u128::from(self.0) * 10 > u128::from(ceiling.0) * 11
    }

    /// Lack to the ceiling.
    pub fn short_of(self, ceiling: SectorRate) -> Permille {
        if self.0 >= ceiling.0 {
            return Permille(0);
        }
        // Asked for each request while there are targets: a division of 128 bits only for a rate above 9 EB/s.
        let part = match self.0.checked_mul(1000) {
            Some(thousand) => thousand / ceiling.0,
            None => (u128::from(self.0) * 1000 / u128::from(ceiling.0)) as u64,
        };
        Permille(1000 - part)
    }

    /// A moving mean, a quarter of the way to `rate`.
    pub fn moved_to(self, rate: SectorRate) -> SectorRate {
        SectorRate((3 * self.0 + rate.0) / 4)
    }

    /// Nanoseconds that a piece takes.
    pub fn time_of(self, piece: Sectors) -> u128 {
        u128::from(piece.0) * 1_000_000_000 / u128::from(self.0.max(1))
    }
}

/// A number of epochs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Epochs(pub u32);

impl Epochs {
    pub fn one_more(self) -> Epochs {
        Epochs(self.0 + 1)
    }

    pub fn less_one(self) -> Epochs {
        Epochs(self.0.saturating_sub(1))
    }

    pub fn doubled(self, times: u32) -> Epochs {
        Epochs(self.0 << times)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::unit::Nanos;

    #[test]
    fn a_unit_is_a_command_or_8_kib() {
        assert_eq!(Units::whole(3), Units(48));
        assert_eq!((Units(47).in_whole(), Units(48).in_whole()), (2, 3));
    }

    #[test]
    fn the_loss_decides_what_is_enough_and_twice_the_loss_what_is_better() {
        let (whole, loss) = (SectorRate(10_000), Permille(30));
        assert!(
            SectorRate(9_700).is_enough_of(whole, loss)
                && !SectorRate(9_699).is_enough_of(whole, loss)
        );
        assert!(SectorRate(10_601).is_better_than(whole, loss));
        assert!(!SectorRate(10_600).is_better_than(whole, loss));
        assert_eq!(SectorRate(9_700).short_of(whole), Permille(30));
        assert_eq!(SectorRate(10_001).short_of(whole), Permille(0), "faster is not short");
    }

    #[test]
    fn a_rate_is_in_sectors_per_second() {
        let (from, to) = (Instant::ZERO, Instant::ZERO + Nanos::ms(10));
        assert_eq!(SectorRate::of(Sectors(2_000), from, to), SectorRate(200_000));
        assert_eq!(SectorRate(200_000).time_of(Sectors(64)), 320_000);
        assert_eq!(SectorRate(4_000).moved_to(SectorRate(8_000)), SectorRate(5_000));
    }
}
