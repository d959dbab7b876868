//! Units of the write buffer that are programmed or wait for it, by the end of their program.
//!
//! Reads delay dies by different times, so units are not released in the order of their programs. They lie in bins
//! of equal time: a large write, which waits until tens of units are gone, takes whole bins, and looks at single
//! units in the last of them alone.

use std::collections::VecDeque;

/// Units that end in a bin when all dies program.
const PER_BIN: u64 = 16;

/// Units by release.
#[derive(Debug)]
pub(super) struct Releases {
    /// Time in a bin is a power of two of ns.
    shift: u32,
    /// Number of the first bin since time 0.
    first: u64,
    bins: VecDeque<Bin>,
    /// Bytes of all units.
    bytes: u64,
}

#[derive(Debug, Default)]
struct Bin {
    /// (release, bytes), in no order.
    units: Vec<(u64, u64)>,
    bytes: u64,
}

impl Releases {
    /// Of so many dies, of which each programs a unit in so many ns.
    pub fn new(dies: u64, program: u64) -> Releases {
        let shift = (program * PER_BIN / dies).max(1).ilog2();
        Releases { shift, first: 0, bins: VecDeque::new(), bytes: 0 }
    }

    /// It is `now`: bins that lie behind are empty.
    #[inline]
    pub fn pass(&mut self, now: u64) {
        let now = now >> self.shift;
        while self.first < now {
            match self.bins.is_empty() {
                true => self.first = now,
                false => self.drop_bin(),
            }
        }
    }

    /// A unit that will be released at `release`.
    #[inline]
    pub fn push(&mut self, release: u64, bytes: u64) {
        // One released before others that have gone already is in the first, too.
        let at = (release >> self.shift).saturating_sub(self.first) as usize;
        if at >= self.bins.len() {
            self.bins.resize_with(at + 1, Bin::default);
        }
        let bin = &mut self.bins[at];
        bin.units.push((release, bytes));
        bin.bytes += bytes;
        self.bytes += bytes;
    }

    /// Lets units go, the earliest first, until no more than `room` bytes are left; the release of the last of them, 0
    /// if there is no need.
    #[inline]
    pub fn shrink(&mut self, room: u64) -> u64 {
        let mut last = 0;
        while self.bytes > room {
            let bin = &mut self.bins[0];
            if self.bytes - bin.bytes > room {
                self.drop_bin();
                continue;
            }
            let units = bin.units.iter().enumerate();
            let earliest = units.min_by_key(|(_, unit)| unit.0).map(|(at, _)| at);
            let (release, bytes) = bin.units.swap_remove(earliest.expect("it has bytes"));
            bin.bytes -= bytes;
            self.bytes -= bytes;
            last = release;
        }
        last
    }

    fn drop_bin(&mut self) {
        let mut bin = self.bins.pop_front().expect("there is one");
        self.first += 1;
        self.bytes -= bin.bytes;
        // Its memory serves again behind the last.
        bin.bytes = 0;
        bin.units.clear();
        self.bins.push_back(bin);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::stream;

    #[test]
    fn units_leave_by_release_one_by_one_and_in_bins() {
        let mut rng = stream(1, "releases");
        for most in [3, 60, 2000] {
            let (mut releases, mut plain, mut now) = (Releases::new(32, 1_000_000), vec![], 0);
            for _ in 0..3000 {
                let (release, bytes) = (now + rng.below(30_000_000), 1 + rng.below(9));
                releases.pass(now);
                releases.push(release, bytes);
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
