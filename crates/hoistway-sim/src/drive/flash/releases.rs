//! Units of the write buffer that are programmed or wait for it, by the end of their program.
//!
//! Reads delay dies by different times, so units are not released in the order of their programs. They lie in buckets
//! of equal time: a large write, which waits until tens of units are gone, takes whole buckets, and looks at single
//! units in the last of them alone.

use std::collections::VecDeque;

/// Units that end in a bucket when all dies program.
const PER_BUCKET: u64 = 16;

/// Units by release.
#[derive(Debug)]
pub(super) struct Releases {
    /// Time in a bucket is a power of two of ns.
    shift: u32,
    /// Number of the first bucket since time 0.
    first: u64,
    buckets: VecDeque<Bucket>,
    /// Bytes of all units.
    bytes: u64,
}

#[derive(Debug, Default)]
struct Bucket {
    /// (release, bytes), in no order.
    units: Vec<(u64, u64)>,
    bytes: u64,
}

impl Releases {
    /// Of so many dies, of which each programs a unit in so many ns.
    pub fn new(dies: u64, program: u64) -> Releases {
        let shift = (program * PER_BUCKET / dies).max(1).ilog2();
        Releases { shift, first: 0, buckets: VecDeque::new(), bytes: 0 }
    }

    /// At `now`, a unit that will be released at `release`.
    #[inline]
    pub fn push(&mut self, now: u64, release: u64, bytes: u64) {
        while self.first < now >> self.shift {
            match self.buckets.is_empty() {
                true => self.first = now >> self.shift,
                false => self.drop_bucket(),
            }
        }
        // One released before others that have gone already is in the first, too.
        let at = (release >> self.shift).saturating_sub(self.first) as usize;
        while self.buckets.len() <= at {
            self.buckets.push_back(Bucket::default());
        }
        let bucket = &mut self.buckets[at];
        bucket.units.push((release, bytes));
        bucket.bytes += bytes;
        self.bytes += bytes;
    }

    /// Lets units go, the earliest first, until no more than `room` bytes are left; the release of the last of them, 0
    /// if there is no need.
    #[inline]
    pub fn shrink(&mut self, room: u64) -> u64 {
        let mut last = 0;
        while self.bytes > room {
            let bucket = &mut self.buckets[0];
            if self.bytes - bucket.bytes > room {
                self.drop_bucket();
                continue;
            }
            let units = bucket.units.iter().enumerate();
            let earliest = units.min_by_key(|(_, unit)| unit.0).map(|(at, _)| at);
            let (release, bytes) = bucket.units.swap_remove(earliest.expect("it has bytes"));
            bucket.bytes -= bytes;
            self.bytes -= bytes;
            last = release;
        }
        last
    }

    fn drop_bucket(&mut self) {
        let mut bucket = self.buckets.pop_front().expect("there is one");
        self.first += 1;
        self.bytes -= bucket.bytes;
        // Its memory serves again behind the last.
        bucket.bytes = 0;
        bucket.units.clear();
        self.buckets.push_back(bucket);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::stream;

    #[test]
    fn units_leave_by_release_one_by_one_and_in_buckets() {
        let mut rng = stream(1, "releases");
        for most in [3, 60, 2000] {
            let (mut releases, mut plain, mut now) = (Releases::new(32, 1_000_000), vec![], 0);
            for _ in 0..3000 {
                let (release, bytes) = (now + rng.below(30_000_000), 1 + rng.below(9));
                releases.push(now, release, bytes);
                plain.push((release, bytes));
                let idle = rng.below(50) == 0;
                now += rng.below(if idle { 60_000_000 } else { 50_000 });
                let room = rng.below(most * 5);
                plain.sort_unstable();
                let mut left: u64 = plain.iter().map(|unit: &(u64, u64)| unit.1).sum();
                let (mut gone, mut last) = (0, 0);
                while left > room {
                    (left, last, gone) = (left - plain[gone].1, plain[gone].0, gone + 1);
                }
                plain.drain(..gone);
                // Those released by now may have gone unseen.
                assert_eq!(releases.shrink(room).max(now), last.max(now));
            }
        }
    }
}
