//! An instant that has passed, or "long ago": what the specification calls minus infinity.

use crate::unit::{Instant, Nanos};

/// In eight bytes, where an option would take sixteen of every queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Past(Instant);

impl Past {
    /// No run lasts that long: 2^64 ns are 584 years.
    pub const LONG_AGO: Past = Past(Instant::from_nanos(u64::MAX));

    pub const fn at(at: Instant) -> Past {
        Past(at)
    }

    /// `None`: long ago.
    #[inline]
    pub fn instant(self) -> Option<Instant> {
        (self != Past::LONG_AGO).then_some(self.0)
    }

    /// `latest` at the latest.
    #[must_use]
    pub fn at_most(self, latest: Instant) -> Past {
        self.instant().map_or(self, |at| Past(at.min(latest)))
    }

    /// More than `d` have passed since.
    #[inline]
    pub fn over(self, d: Nanos, tn: Instant) -> bool {
        self == Past::LONG_AGO || self.0 + d < tn
    }

    /// `d` have passed since, or more.
    #[inline]
    pub fn reached(self, d: Nanos, tn: Instant) -> bool {
        self == Past::LONG_AGO || self.0 + d <= tn
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_ago_is_over_whatever_the_time() {
        let (now, d) = (Instant::ZERO, Nanos::secs(1_000));
        assert!(Past::LONG_AGO.over(d, now) && Past::LONG_AGO.reached(d, now));
        assert_eq!(Past::LONG_AGO.instant(), None);
    }

    #[test]
    fn at_its_end_a_time_is_reached_and_not_over() {
        let past = Past::at(Instant::ZERO);
        let (d, end) = (Nanos::ms(1), Instant::ZERO + Nanos::ms(1));
        assert!(past.reached(d, end) && !past.over(d, end));
        assert!(past.over(d, end + Nanos(1)));
        assert_eq!(past.instant(), Some(Instant::ZERO));
    }
}
