//! Units, priorities and the smallest ids. Time is an argument everywhere: an [`Instant`] counts
//! nanoseconds since the run began (2^64 ns is 584 years, so it never wraps).

use core::fmt;
use core::ops::{Add, AddAssign, Div, Mul, Rem, Sub, SubAssign};

/// A point in time: nanoseconds since the run began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(u64);

impl Instant {
    /// The beginning of the run.
    pub const ZERO: Instant = Instant(0);

    /// The instant `ns` nanoseconds after the beginning of the run.
    pub const fn from_nanos(ns: u64) -> Instant {
        Instant(ns)
    }

    /// Nanoseconds since the beginning of the run.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Time since `earlier`, zero if `earlier` is later.
    pub const fn since(self, earlier: Instant) -> Nanos {
        Nanos(self.0.saturating_sub(earlier.0))
    }
}

/// A length of time in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(pub u64);

impl Nanos {
    /// No time.
    pub const ZERO: Nanos = Nanos(0);

    /// `n` microseconds.
    pub const fn us(n: u64) -> Nanos {
        Nanos(n * 1_000)
    }

    /// `n` milliseconds.
    pub const fn ms(n: u64) -> Nanos {
        Nanos(n * 1_000_000)
    }

    /// `n` seconds.
    pub const fn secs(n: u64) -> Nanos {
        Nanos(n * 1_000_000_000)
    }

    /// The difference, or nothing if `other` is longer.
    #[inline]
    pub const fn saturating_sub(self, other: Nanos) -> Nanos {
        Nanos(self.0.saturating_sub(other.0))
    }

    /// Whole microseconds, rounded down.
    pub const fn as_us(self) -> u64 {
        self.0 / 1_000
    }

    /// Whole milliseconds, rounded down.
    pub const fn as_ms(self) -> u64 {
        self.0 / 1_000_000
    }
}

impl Add<Nanos> for Instant {
    type Output = Instant;
    fn add(self, d: Nanos) -> Instant {
        Instant(self.0 + d.0)
    }
}

impl AddAssign<Nanos> for Instant {
    fn add_assign(&mut self, d: Nanos) {
        self.0 += d.0;
    }
}

/// Panics (in debug builds) when the right side is later: use [`Instant::since`] if it may be.
impl Sub for Instant {
    type Output = Nanos;
    fn sub(self, earlier: Instant) -> Nanos {
        Nanos(self.0 - earlier.0)
    }
}

macro_rules! quantity {
    ($name:ident) => {
        impl Add for $name {
            type Output = $name;
            fn add(self, other: $name) -> $name {
                $name(self.0 + other.0)
            }
        }
        impl AddAssign for $name {
            fn add_assign(&mut self, other: $name) {
                self.0 += other.0;
            }
        }
        impl Sub for $name {
            type Output = $name;
            fn sub(self, other: $name) -> $name {
                $name(self.0 - other.0)
            }
        }
        impl SubAssign for $name {
            fn sub_assign(&mut self, other: $name) {
                self.0 -= other.0;
            }
        }
        impl Mul<u64> for $name {
            type Output = $name;
            fn mul(self, n: u64) -> $name {
                $name(self.0 * n)
            }
        }
        impl Div<u64> for $name {
            type Output = $name;
            fn div(self, n: u64) -> $name {
                $name(self.0 / n)
            }
        }
        impl Rem for $name {
            type Output = $name;
            fn rem(self, n: $name) -> $name {
                $name(self.0 % n.0)
            }
        }
    };
}

quantity!(Nanos);
quantity!(Sectors);
quantity!(Bytes);

/// A number of 512-byte sectors, or a place on the device counted in them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sectors(pub u64);

impl Sectors {
    /// The same in bytes.
    pub const fn bytes(self) -> Bytes {
        Bytes(self.0 * 512)
    }
}

impl From<Sectors> for Bytes {
    fn from(s: Sectors) -> Bytes {
        s.bytes()
    }
}

/// A number of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(pub u64);

impl Bytes {
    /// Whole sectors, rounded down.
    pub const fn sectors(self) -> Sectors {
        Sectors(self.0 / 512)
    }
}

/// A share of service relative to others, 1 to 1000.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Weight(u16);

impl Weight {
    /// The smallest weight.
    pub const MIN: Weight = Weight(1);
    /// The largest weight.
    pub const MAX: Weight = Weight(1000);
    /// The weight of a group nobody configured.
    pub const DEFAULT: Weight = Weight(100);

    /// `None` outside 1..=1000.
    pub const fn new(weight: u64) -> Option<Weight> {
        if weight >= 1 && weight <= 1000 { Some(Weight(weight as u16)) } else { None }
    }

    /// The number.
    pub const fn value(self) -> u64 {
        self.0 as u64
    }
}

/// I/O priority class (specs/groups-and-priorities.md section 4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Class {
    /// Unset: taken from CPU scheduling.
    #[default]
    None = 0,
    /// Real-time.
    Rt = 1,
    /// Best-effort.
    Be = 2,
    /// Idle.
    Idle = 3,
}

/// The kernel's 16-bit I/O priority word: class in bits 15-13, level 0 (highest) to 7 in bits 2-0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IoPrio(u16);

impl IoPrio {
    /// No priority set.
    pub const NONE: IoPrio = IoPrio(0);

    /// `None` for a level above 7, or a level with class none.
    pub const fn new(class: Class, level: u8) -> Option<IoPrio> {
        if level > 7 || (matches!(class, Class::None) && level > 0) {
            None
        } else {
            Some(IoPrio(((class as u16) << 13) | level as u16))
        }
    }

    /// Real-time at `level` (taken modulo 8).
    pub const fn rt(level: u8) -> IoPrio {
        IoPrio((1 << 13) | (level & 7) as u16)
    }

    /// Best-effort at `level` (taken modulo 8).
    pub const fn be(level: u8) -> IoPrio {
        IoPrio((2 << 13) | (level & 7) as u16)
    }

    /// The idle class.
    pub const fn idle() -> IoPrio {
        IoPrio((3 << 13) | 7)
    }

    /// The class.
    pub const fn class(self) -> Class {
        match self.0 >> 13 {
            1 => Class::Rt,
            2 => Class::Be,
            3 => Class::Idle,
            _ => Class::None,
        }
    }

    /// Of the real-time class.
    #[inline]
    pub(crate) const fn is_rt(self) -> bool {
        matches!(self.class(), Class::Rt)
    }

    /// The level, 0 to 7.
    pub const fn level(self) -> u8 {
        (self.0 & 7) as u8
    }

    /// From the 16-bit word, which must be of a valid class and level.
    pub(crate) const fn from_word(word: u16) -> IoPrio {
        IoPrio(word)
    }

    /// The 16-bit word.
    pub const fn word(self) -> u16 {
        self.0
    }
}

impl fmt::Display for IoPrio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.class() {
            Class::None => f.write_str("none"),
            Class::Rt => write!(f, "rt/{}", self.level()),
            Class::Be => write!(f, "be/{}", self.level()),
            Class::Idle => f.write_str("idle"),
        }
    }
}

/// A hardware queue of the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueId(pub u16);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_weight_outside_its_range_does_not_exist() {
        assert_eq!(Weight::new(0), None);
        assert_eq!(Weight::new(1001), None);
        assert_eq!(Weight::new(1000).map(Weight::value), Some(1000));
    }

    #[test]
    fn a_priority_word_is_the_kernels() {
        assert_eq!(IoPrio::rt(4).word(), 0x2004);
        assert_eq!(IoPrio::new(Class::Be, 8), None);
        assert_eq!(IoPrio::new(Class::None, 1), None);
        assert_eq!(IoPrio::be(2).class(), Class::Be);
    }
}
