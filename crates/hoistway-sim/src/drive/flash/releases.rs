//! Units of the write buffer that are programmed or wait for it, by the end of their program.
//!
//! Reads delay dies by different times, so units are not released in the order of their programs. They lie in bins
//! of equal time: a large write, which waits until tens of units are gone, takes whole bins, and looks at single
//! units in the last of them alone.

/// Units that end in a bin when all dies program.
const PER_BIN: u64 = 16;

/// Units by release.
#[derive(Debug)]
pub(super) struct Releases {
    /// Time in a bin is a power of two of ns.
    shift: u32,
    /// Number of the first bin since time 0.
    first: u64,
    /// A ring: bin `n` since time 0 lies at `n` modulo its length, a power of two.
    bins: Vec<Bin>,
    /// Bytes of all units.
    bytes: u64,
    /// Most bytes of a unit.
    largest: u64,
}

#[derive(Clone, Debug, Default)]
struct Bin {
    /// (release, bytes), in no order.
    units: Vec<(u64, u64)>,
    bytes: u64,
}

impl Releases {
    /// Of so many dies, of which each programs a unit in so many ns.
    pub fn new(dies: u64, program: u64) -> Releases {
        let shift = (program * PER_BIN / dies).max(1).ilog2();
        Releases { shift, first: 0, bins: vec![Bin::default(); 64], bytes: 0, largest: 0 }
    }

    /// It is `now`: bins that lie behind are empty.
    #[inline]
    pub fn pass(&mut self, now: u64) {
        let now = now >> self.shift;
        while self.first < now {
            match self.bytes {
                0 => self.first = now,
                _ => self.drop_bin(),
            }
        }
    }

    /// Units will be pushed that are released at `last` at the latest.
    #[inline]
    pub fn reach(&mut self, last: u64) {
        let number = (last >> self.shift).max(self.first);
        if number - self.first >= self.bins.len() as u64 {
            self.grow(number);
        }
    }

    /// A unit that will be released at `release`, behind [`Releases::reach`]; [`Releases::count`] is to follow.
    #[inline]
    pub fn push(&mut self, release: u64, bytes: u64) {
        // One released before others that have gone already is in the first, too.
        let number = (release >> self.shift).max(self.first);
        debug_assert!(number - self.first < self.bins.len() as u64);
        let at = number as usize & (self.bins.len() - 1);
        let bin = &mut self.bins[at];
        bin.units.push((release, bytes));
        bin.bytes += bytes;
    }

    /// So many units of so many bytes each were pushed.
    #[inline]
    pub fn count(&mut self, units: u64, bytes: u64) {
        self.bytes += units * bytes;
        self.largest = self.largest.max(bytes);
    }

    /// The ring has room for bin `number`.
    #[cold]
    fn grow(&mut self, number: u64) {
        let old = std::mem::take(&mut self.bins);
        let most = (number - self.first + 1).next_power_of_two() as usize;
        self.bins.resize(most, Bin::default());
        let first = self.first as usize;
        for (at, bin) in old.iter().enumerate() {
            // Those of the ring before `first` belong behind its end.
            let behind = at.wrapping_sub(first) & (old.len() - 1);
            self.bins[(first + behind) & (most - 1)] = bin.clone();
        }
    }

    /// Lets units go, the earliest first, until no more than `room` bytes are left; the release of the last of them, 0
    /// if there is no need.
    #[inline]
    pub fn shrink(&mut self, room: u64) -> u64 {
        let mut last = 0;
        while self.bytes > room {
            let at = self.first as usize & (self.bins.len() - 1);
            let bin = &mut self.bins[at];
            if self.bytes - bin.bytes > room {
                self.drop_bin();
                continue;
            }
            if bin.bytes == bin.units.len() as u64 * self.largest {
                // Equal sizes: how many go is known, so one selection finds them instead of a search for each.
                let gone = (self.bytes - room).div_ceil(self.largest) as usize;
                last = bin.units.select_nth_unstable_by_key(gone - 1, |unit| unit.0).1.0;
                bin.units.drain(..gone);
                bin.bytes -= gone as u64 * self.largest;
                self.bytes -= gone as u64 * self.largest;
                break;
            }
            let (mut least, mut earliest) = (u64::MAX, 0);
            for (at, unit) in bin.units.iter().enumerate() {
                if unit.0 < least {
                    (least, earliest) = (unit.0, at);
                }
            }
            let (release, bytes) = bin.units.swap_remove(earliest);
            bin.bytes -= bytes;
            self.bytes -= bytes;
            last = release;
        }
        last
    }

    /// The first bin is empty, and serves again behind the last.
    fn drop_bin(&mut self) {
        let at = self.first as usize & (self.bins.len() - 1);
        let bin = &mut self.bins[at];
        self.first += 1;
        self.bytes -= bin.bytes;
        bin.bytes = 0;
        bin.units.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::stream;

    #[test]
    fn units_leave_by_release_one_by_one_and_in_bins() {
        let mut rng = stream(1, "releases");
        for (most, alike) in [3, 60, 2000].into_iter().flat_map(|n| [(n, false), (n, true)]) {
            let (mut releases, mut plain, mut now) = (Releases::new(32, 1_000_000), vec![], 0);
            for _ in 0..3000 {
                let release = now + rng.below(30_000_000);
                let bytes = if alike { 5 } else { 1 + rng.below(9) };
                releases.pass(now);
                releases.reach(release);
                releases.push(release, bytes);
                releases.count(1, bytes);
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
