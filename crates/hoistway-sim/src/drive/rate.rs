//! Exact integer arithmetic without division instructions, and the queue of coming completions.

use super::{Completion, DriveOutput};
use hoistway::{Instant, Nanos};
use std::collections::VecDeque;

/// Division by a number known when the drive is built: one multiplication and one correction.
///
/// With m = floor((2^64 - 1) / d), which is at least 2^64/d - 1, the estimate floor(n * m / 2^64) is
/// the quotient or one less for every 64-bit n: n*m/2^64 >= n/d - n/2^64 > n/d - 1. The remainder
/// tells which.
#[derive(Clone, Copy, Debug)]
pub(super) struct Divisor {
    by: u64,
    reciprocal: u64,
}

impl Divisor {
    /// Division by `by` (> 0).
    pub fn new(by: u64) -> Divisor {
        assert!(by > 0, "division by zero");
        Divisor { by, reciprocal: u64::MAX / by }
    }

    /// Quotient and remainder.
    #[inline]
    pub fn div_rem(self, n: u64) -> (u64, u64) {
        let estimate = ((u128::from(n) * u128::from(self.reciprocal)) >> 64) as u64;
        let rest = n - estimate * self.by;
        if rest >= self.by { (estimate + 1, rest - self.by) } else { (estimate, rest) }
    }
}

/// A rate in bytes per second.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rate {
    half: u64,
    divisor: Divisor,
}

impl Rate {
    /// From 10^6 bytes per second (> 0), to the nearest byte per second.
    pub fn mb_s(rate: f64) -> Rate {
        Rate::bytes_per_s(((rate * 1e6 + 0.5) as u64).max(1))
    }

    /// From bytes per second (> 0).
    pub fn bytes_per_s(rate: u64) -> Rate {
        Rate { half: rate / 2, divisor: Divisor::new(rate) }
    }

    /// Nanoseconds for `n` bytes: round(n * 10^9 / rate), halves up.
    #[inline]
    pub fn dur(self, n: u64) -> u64 {
        // 2^33 * 10^9 + half is below 2^64 for rates below 2^63.
        if n <= 1 << 33 {
            self.divisor.div_rem(n * 1_000_000_000 + self.half).0
        } else {
            let exact = (u128::from(n) * 1_000_000_000 + u128::from(self.half))
                / u128::from(self.divisor.by);
            exact as u64
        }
    }

    /// Bytes in `ns` nanoseconds, rounded down.
    pub fn bytes_in(self, ns: u64) -> u64 {
        (u128::from(ns) * u128::from(self.divisor.by) / 1_000_000_000) as u64
    }
}

/// Microseconds of a drive file in nanoseconds, rounded.
pub(super) fn us(us: f64) -> u64 {
    (us * 1e3 + 0.5) as u64
}

/// Completions in order of time, ties in order of creation.
///
/// Drives finish commands nearly in the order in which they take them, so a sorted ring that is
/// searched only when a completion overtakes another beats a heap.
#[derive(Debug, Default)]
pub(super) struct Coming(VecDeque<Completion>);

impl Coming {
    /// A completion at `at` of a command that arrived at `arrived` and was begun at `begun`.
    #[inline]
    pub fn push(&mut self, tag: u64, arrived: u64, begun: u64, at: u64, transfer: u64) {
        debug_assert!(arrived <= begun && begun <= at);
        let transfer = transfer.min(at - begun);
        let done = Completion {
            tag,
            at: Instant::from_nanos(at),
            waiting: Nanos(begun - arrived),
            media: Nanos(at - begun - transfer),
            transfer: Nanos(transfer),
        };
        self.insert(done);
    }

    /// The same of a completion whose parts are known.
    #[inline]
    pub fn insert(&mut self, done: Completion) {
        match self.0.back() {
            Some(last) if last.at > done.at => {
                let place = self.0.partition_point(|c| c.at <= done.at);
                self.0.insert(place, done);
            }
            _ => self.0.push_back(done),
        }
    }

    /// The next time, `u64::MAX` if there is none.
    #[inline]
    pub fn next_at(&self) -> u64 {
        self.0.front().map_or(u64::MAX, |c| c.at.as_nanos())
    }

    /// The next one, if it is due.
    #[inline]
    pub fn pop_due(&mut self, now: Instant) -> Option<Completion> {
        if self.0.front()?.at <= now { self.0.pop_front() } else { None }
    }

    /// What a drive says that has nothing else to do.
    pub fn poll(&mut self, now: Instant) -> DriveOutput {
        match self.pop_due(now) {
            Some(done) => DriveOutput::Done(done),
            None => DriveOutput::WaitUntil(self.0.front().map(|c| c.at)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng;

    #[test]
    fn division_by_multiplication_equals_division() {
        let mut r = rng::stream(1, "test/divisor");
        let mut divisors = vec![1, 2, 3, 5, 7, 20, 1 << 32, (1 << 63) + 1, u64::MAX];
        divisors.extend((0..2000).map(|i| (r.bits() >> (i % 64)).max(1)));
        for d in divisors {
            let fast = Divisor::new(d);
            let mut check = |n: u64| assert_eq!(fast.div_rem(n), (n / d, n % d), "{n} / {d}");
            [0, 1, d - 1, d, u64::MAX - 1, u64::MAX].into_iter().for_each(&mut check);
            for i in 0..200 {
                let n = r.bits() >> (i % 64);
                check(n);
                let multiple = n / d * d;
                check(multiple);
                check(multiple.wrapping_sub(1));
            }
        }
    }

    #[test]
    fn durations_equal_the_128_bit_formula() {
        let mut r = rng::stream(1, "test/dur");
        for i in 0..100_000u64 {
            let rate = 1 + r.below(1_000_000_000_000 >> (i % 40));
            let n = r.bits() >> (20 + i % 44);
            let exact = (u128::from(n) * 2_000_000_000 + u128::from(rate)) / (2 * u128::from(rate));
            if let Ok(exact) = u64::try_from(exact) {
                assert_eq!(Rate::bytes_per_s(rate).dur(n), exact, "{n} bytes at {rate}");
            }
        }
    }

    #[test]
    fn completions_come_by_time_and_ties_by_creation() {
        let mut coming = Coming::default();
        for (tag, at) in [(1, 50), (2, 20), (3, 50), (4, 30), (5, 20), (6, 70)] {
            coming.push(tag, 0, 0, at, 0);
        }
        let mut tags = Vec::new();
        while let Some(done) = coming.pop_due(Instant::from_nanos(60)) {
            tags.push(done.tag);
        }
        assert_eq!(tags, [2, 5, 4, 1, 3]);
        assert_eq!(coming.next_at(), 70);
    }
}
