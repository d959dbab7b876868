//! Think time: how long a process pauses between the end of a request and the next one (specs/bfq.md 5.6, 5.7).
//!
//! Waiting for a queue pays only if its process comes back soon. Pauses are sampled when the queue has nothing
//! left; a gap while requests are in flight is not thinking.

use crate::unit::{Instant, Nanos};

/// A running average: seven eighths of the old value and one of the new.
///
/// One shift and one subtraction per sample, and a memory of about five samples (0.875^5 is about a half): enough
/// to ride out one odd sample and to follow a change of phase. From the anticipatory scheduler and CFQ. Samples
/// count 256, so that the fractions of the sums are kept. (The other two averages of 7/8 in BFQ are of something
/// else: `budgets_assigned` counts towards trust in the peak rate, and the peak rate of `bfq-v1` is no longer
/// divided by a number of samples.)
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct Average {
    total: u64,
    samples: u32,
}

impl Average {
    #[inline]
    pub fn add(&mut self, x: u64) {
        self.samples = (7 * self.samples + 256) / 8;
        self.total = (7 * self.total + 256 * x) / 8;
    }

    /// Of many samples of that value.
    #[cfg(test)]
    pub fn of(x: u64) -> Average {
        let mut average = Average::default();
        (0..50).for_each(|_| average.add(x));
        average
    }

    /// Rounded to the nearest; 0 if there is no sample.
    pub fn mean(&self) -> u64 {
        (self.total + 128).checked_div(self.samples.into()).unwrap_or(0)
    }

    /// The mean is above `limit`: without the division.
    #[inline]
    fn above(&self, limit: u64) -> bool {
        self.total + 128 >= (limit + 1) * u64::from(self.samples)
    }

    /// How much is known: 256 less what is still missing.
    pub fn samples(&self) -> u32 {
        self.samples
    }

    /// From the third sample on: two may be chance.
    #[inline]
    pub fn valid(&self) -> bool {
        self.samples > VALID
    }
}

/// Samples weigh 32, 60, 84, ...: the third is the first one above it (5.6).
const VALID: u32 = 80;

/// Pauses of a queue's issuer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Think {
    /// End of the last request, in nanoseconds; wraps around with quirk Q18, hence no `Instant`.
    pub last_end: u64,
    pub average: Average,
    /// The issuer comes back soon. Assumed of a sync queue until the samples say otherwise: an application that
    /// starts would else lose its first slots.
    pub short: bool,
}

impl Think {
    /// `long_first` is quirk Q18: the last end lies 1 ns after the creation, and the first gap wraps around if no
    /// time passes in between.
    pub fn new(sync: bool, now: Instant, long_first: bool) -> Think {
        let last_end = now.as_nanos() + u64::from(long_first);
        Think { last_end, average: Average::default(), short: sync }
    }

    /// Nanoseconds since the last end; wraps (Q18).
    #[inline]
    pub fn gap(&self, now: Instant) -> u64 {
        now.as_nanos().wrapping_sub(self.last_end)
    }

    /// A request arrives at a queue that has nothing pending and nothing in flight.
    ///
    /// Cut at twice `slice_idle`: one coffee break must not label a process slow for minutes, and beyond the time
    /// that is waited for all pauses are equally too long.
    #[inline]
    pub fn sample(&mut self, now: Instant, slice_idle: Nanos) {
        self.average.add(self.gap(now).min(2 * slice_idle.0));
    }

    /// The pauses are known, and longer than `limit`.
    #[inline]
    pub fn longer_than(&self, limit: Nanos) -> bool {
        self.average.valid() && self.average.above(limit.0)
    }

    /// The last request came soon enough after the last end to belong to the same run: three times the wait
    /// covers the wait itself and a process that was late because of others (3.5).
    #[inline]
    pub fn in_time(&self, now: Instant, slice_idle: Nanos) -> bool {
        now <= Instant::from_nanos(self.last_end) + slice_idle * 3
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDLE: Nanos = Nanos::ms(8);

    fn ms(n: u64) -> Instant {
        Instant::ZERO + Nanos::ms(n)
    }

    #[test]
    fn pauses_count_from_the_third_on() {
        let mut think = Think::new(true, ms(0), false);
        for n in 1..=3 {
            think.last_end = ms(100 * n).as_nanos();
            assert!(!think.longer_than(Nanos::ms(4)), "{n}");
            think.sample(ms(100 * n + 6), IDLE);
        }
        assert!(think.longer_than(Nanos::ms(4)));
        // Not at the limit itself, whatever the rounding.
        assert!(!think.longer_than(Nanos(think.average.mean())));
        assert!(think.longer_than(Nanos(think.average.mean() - 1)));
    }

    #[test]
    fn a_long_pause_counts_as_twice_the_wait() {
        let mut think = Think::new(true, ms(0), false);
        (0..30).for_each(|_| think.sample(ms(1_000_000), IDLE));
        // The weights round down, to 249 of 256, so the mean is a little high.
        assert_eq!(think.average.mean() / 1_000_000, 16);
    }

    #[test]
    fn the_memory_is_about_five_samples() {
        let mut average = Average::default();
        (0..50).for_each(|_| average.add(1_000_000));
        (0..5).for_each(|_| average.add(0));
        assert!((480_000..530_000).contains(&average.mean()), "{}", average.mean());
    }

    #[test]
    fn three_times_the_wait_is_still_in_time() {
        let think = Think::new(true, ms(10), false);
        assert!(think.in_time(ms(34), IDLE));
        assert!(!think.in_time(ms(34) + Nanos(1), IDLE));
    }

    #[test]
    fn with_quirk_q18_the_first_gap_wraps() {
        let think = Think::new(true, ms(10), true);
        assert_eq!(think.gap(ms(10)), u64::MAX);
    }
}
