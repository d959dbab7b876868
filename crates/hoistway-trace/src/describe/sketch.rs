//! Summaries of any number of values in fixed memory: a histogram, a count of distinct values, the most frequent ones, a
//! series that gets coarser.

use std::collections::BTreeMap;

/// A histogram of `u64` with a relative error of at most 1/32: exact below 64, then 32 buckets for each power of two.
#[derive(Clone, Debug)]
pub struct Histogram {
    counts: Vec<u64>,
    count: u64,
    sum: u128,
    min: u64,
    max: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram { counts: vec![0; bucket(u64::MAX) + 1], count: 0, sum: 0, min: u64::MAX, max: 0 }
    }
}

/// Below 64 the value itself, above that the exponent and the five bits after the first.
fn bucket(value: u64) -> usize {
    if value < 64 {
        return value as usize;
    }
    let exponent = 63 - value.leading_zeros() as usize;
    (exponent - 5) * 32 + (value >> (exponent - 5)) as usize
}

/// The largest value of a bucket.
fn highest(bucket: usize) -> u64 {
    if bucket < 64 {
        return bucket as u64;
    }
    let shift = bucket / 32 - 1;
    let first = ((bucket % 32 + 32) as u64) << shift;
    first + ((1_u64 << shift) - 1)
}

impl Histogram {
    /// One more value.
    #[inline]
    pub fn add(&mut self, value: u64) {
        self.counts[bucket(value)] += 1;
        self.count += 1;
        self.sum += u128::from(value);
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }

    /// How many.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Their mean; `None` without values.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }

    /// The largest.
    pub fn max(&self) -> Option<u64> {
        (self.count > 0).then_some(self.max)
    }

    /// The value that `percent` of them do not exceed, at most 1/32 too high.
    pub fn percentile(&self, percent: f64) -> Option<u64> {
        if self.count == 0 {
            return None;
        }
        let rank =
            (self.count as f64 * percent / 100.0).ceil().clamp(1.0, self.count as f64) as u64;
        let mut seen = 0;
        for (n, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return Some(highest(n).clamp(self.min, self.max));
            }
        }
        Some(self.max)
    }

    /// How many lie in each power of two: (lower end, count), without empty ends; 0 stands for itself.
    pub fn powers_of_two(&self) -> Vec<(u64, u64)> {
        let mut powers = BTreeMap::new();
        for (n, count) in self.counts.iter().enumerate().filter(|(_, c)| **c > 0) {
            let value = highest(n);
            let low = if value == 0 { 0 } else { 1 << (63 - value.leading_zeros()) };
            *powers.entry(low).or_insert(0) += count;
        }
        powers.into_iter().collect()
    }
}

/// How many distinct values: HyperLogLog with 2^14 registers, standard error 0.8 %, and linear counting while registers
/// are empty (Flajolet and others, "HyperLogLog", AofA 2007).
#[derive(Clone, Debug)]
pub struct Distinct {
    registers: Vec<u8>,
}

const REGISTERS: usize = 1 << 14;

impl Default for Distinct {
    fn default() -> Self {
        Distinct { registers: vec![0; REGISTERS] }
    }
}

impl Distinct {
    /// One more value.
    #[inline]
    pub fn add(&mut self, value: u64) {
        let h = mix(value);
        let at = (h >> 50) as usize;
        let rank = ((h << 14) | (1 << 13)).leading_zeros() as u8 + 1;
        if self.registers[at] < rank {
            self.registers[at] = rank;
        }
    }

    /// The estimate.
    pub fn estimate(&self) -> u64 {
        let m = REGISTERS as f64;
        let sum: f64 = self.registers.iter().map(|r| 1.0 / (1_u64 << r) as f64).sum();
        let raw = 0.7213 / (1.0 + 1.079 / m) * m * m / sum;
        let empty = self.registers.iter().filter(|r| **r == 0).count();
        if raw <= 2.5 * m && empty > 0 {
            return (m * libm::log(m / empty as f64)).round() as u64;
        }
        raw.round() as u64
    }
}

/// The finaliser of splitmix64: every bit of the value moves every bit of the result.
fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The most frequent keys: lossy counting with a bound on memory. Every key has a count that is too low by at most
/// [`Frequent::error`].
#[derive(Clone, Debug, Default)]
pub struct Frequent {
    counts: BTreeMap<(u32, u64), u64>,
    error: u64,
}

/// Keys kept after a cut; twice as many before it.
const KEPT: usize = 8192;

impl Frequent {
    /// One more of this key.
    #[inline]
    pub fn add(&mut self, key: (u32, u64)) {
        *self.counts.entry(key).or_insert(0) += 1;
        if self.counts.len() > 2 * KEPT {
            self.cut();
        }
    }

    fn cut(&mut self) {
        let mut all: Vec<u64> = self.counts.values().copied().collect();
        let (_, least, _) = all.select_nth_unstable_by(KEPT, |a, b| b.cmp(a));
        let least = *least;
        // Subtracting keeps the error at the sum of what was subtracted (Misra and Gries, 1982).
        self.counts.retain(|_, count| {
            *count = count.saturating_sub(least);
            *count > 0
        });
        self.error += least;
    }

    /// The `n` most frequent, with counts that are too low by at most [`Frequent::error`].
    pub fn top(&self, n: usize) -> Vec<((u32, u64), u64)> {
        let mut all: Vec<_> = self.counts.iter().map(|(k, c)| (*k, *c)).collect();
        all.sort_by_key(|(key, count)| (std::cmp::Reverse(*count), *key));
        all.truncate(n);
        all
    }

    /// By how much counts may be too low.
    pub fn error(&self) -> u64 {
        self.error
    }
}

/// Sums over equal bins of a range that is not known beforehand: when it does not fit, neighbours are added up and bins
/// are twice as wide.
#[derive(Clone, Debug)]
pub struct Bins<const N: usize> {
    width: u64,
    bins: Vec<[u64; N]>,
    most: usize,
}

impl<const N: usize> Bins<N> {
    /// At most `most` bins (a power of two), `width` wide at first.
    pub fn new(width: u64, most: usize) -> Bins<N> {
        Bins { width, bins: Vec::new(), most }
    }

    /// Adds to the bin of `at`.
    #[inline]
    pub fn add(&mut self, at: u64, values: [u64; N]) {
        while at / self.width >= self.most as u64 {
            let pairs = self.bins.chunks(2);
            let sum = |c: &[[u64; N]]| std::array::from_fn(|i| c.iter().map(|v| v[i]).sum());
            self.bins = pairs.map(sum).collect();
            self.width = self.width.saturating_mul(2);
        }
        let n = (at / self.width) as usize;
        if self.bins.len() <= n {
            self.bins.resize(n + 1, [0; N]);
        }
        for (sum, value) in self.bins[n].iter_mut().zip(values) {
            *sum += value;
        }
    }

    /// Width of a bin.
    pub fn width(&self) -> u64 {
        self.width
    }

    /// The bins up to the last that has anything.
    pub fn bins(&self) -> &[[u64; N]] {
        &self.bins
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_at_most_a_thirty_second_too_high() {
        let mut h = Histogram::default();
        (0..100_000_u64).for_each(|n| h.add(n * n));
        for percent in [1.0, 50.0, 90.0, 99.0, 99.9, 100.0] {
            let rank = (100_000.0 * percent / 100.0_f64).ceil() as u64 - 1;
            let (exact, got) = (rank * rank, h.percentile(percent).unwrap());
            assert!(got >= exact && got <= exact + exact / 32, "{percent}: {got} for {exact}");
        }
        assert_eq!(Histogram::default().percentile(50.0), None);
        let mut h = Histogram::default();
        [0, 512, 700, 4096, u64::MAX].iter().for_each(|v| h.add(*v));
        assert_eq!(h.powers_of_two(), [(0, 1), (512, 2), (4096, 1), (1 << 63, 1)]);
        assert_eq!(h.max(), Some(u64::MAX));
    }

    #[test]
    fn every_value_lies_in_its_bucket_and_buckets_do_not_overlap() {
        for v in (0..64).flat_map(|s| [1_u64 << s, (1 << s) - 1, (1 << s) + (1 << s) / 3]) {
            let b = bucket(v);
            assert!(v <= highest(b), "{v}");
            assert!(b == 0 || v > highest(b - 1), "{v}");
        }
    }

    #[test]
    fn distinct_values_are_estimated_within_four_standard_errors() {
        for n in [0_u64, 10, 1000, 30_000, 1_000_000] {
            let mut d = Distinct::default();
            (0..n).chain(0..n / 2).for_each(|v| d.add(v * 8));
            let apart = d.estimate().abs_diff(n) as f64;
            assert!(apart <= (n as f64 * 0.033).max(1.0), "{n}: {}", d.estimate());
        }
    }

    #[test]
    fn frequent_keys_survive_a_flood_of_rare_ones_within_the_stated_error() {
        let mut f = Frequent::default();
        for n in 0..200_000_u64 {
            f.add((0, n));
            if n % 20 == 0 {
                f.add((1, 7));
            }
        }
        let top = f.top(1);
        assert_eq!(top[0].0, (1, 7));
        assert!(top[0].1 <= 10_000 && top[0].1 + f.error() >= 10_000, "{top:?} {}", f.error());
        assert!(f.error() < 10_000 && f.counts.len() <= 2 * KEPT);
    }

    #[test]
    fn bins_get_wider_and_lose_nothing() {
        let mut bins = Bins::<2>::new(10, 4);
        for at in [0, 9, 10, 39, 40, 1000] {
            bins.add(at, [1, at]);
        }
        assert_eq!(bins.width(), 320);
        assert_eq!(bins.bins(), [[5, 98], [0, 0], [0, 0], [1, 1000]]);
    }
}
