//! What a request will take: per kind of request a linear model, base + slope per KiB, learned from completions
//! (specs/adios.md section 6).
//!
//! *Samples* are sorted into buckets by how far they lie above the prediction: small requests (a page or less) teach the
//! base, large ones the slope. An update takes the buckets from below up to 99 % of their weight, so that the outliers of
//! a drive, such as garbage collection, are left out, and adds the rest to a running mean; the mean forgets by halves or
//! quarters when it has seen enough, so that the model follows the drive.
//!
//! *The pool.* Buckets that an update did not process are not kept for their kind but in one pool, and whichever kind is
//! updated next learns from them. That is how the original is; models of all kinds drift to a common mixture except for
//! samples consumed by their own kind first (Q7).

use crate::unit::Nanos;
use alloc::vec;
use alloc::vec::Vec;

/// Kinds of requests that have a model of their own.
pub(super) const KINDS: usize = 4;
/// Up to here a request is small.
const SMALL: u64 = 4096;
/// Buckets of each half of a histogram.
const BUCKETS: usize = 64;
/// So many samples force an update.
const ENOUGH: u64 = 1024;
/// So much time forces one.
const STALE: Nanos = Nanos::ms(1500);
/// Percent of the weight that is learned from; what lies above are outliers.
const CUT: u64 = 99;

/// Sums of the samples of one bucket.
#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    weight: u64,
    latency: u64,
    bytes: u64,
}

/// Samples by how far they lie above the prediction. On the heap: one is 1.5 KiB, and a constructor's frame with all of them
/// is more than a kernel's stack has.
#[derive(Clone, Debug)]
struct Histogram(Vec<Bucket>);

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram(vec![Bucket::default(); BUCKETS])
    }
}

impl Histogram {
    fn total(&self) -> u64 {
        self.0.iter().map(|b| b.weight).sum()
    }

    fn clear(&mut self) {
        self.0.fill(Bucket::default());
    }

    /// Moves everything out of `other`.
    fn take_from(&mut self, other: &mut Histogram) {
        for (mine, theirs) in self.0.iter_mut().zip(&mut other.0) {
            let b = core::mem::take(theirs);
            mine.weight += b.weight;
            mine.latency = mine.latency.wrapping_add(b.latency);
            mine.bytes += b.bytes;
        }
    }

    /// The sums of the lower 99 % of `total` weight, or of all of it; the last bucket counts in part.
    fn cut(&self, total: u64, all: bool) -> Bucket {
        let limit = if all { total } else { (u128::from(total) * u128::from(CUT) / 100) as u64 };
        let (mut sum, mut running) = (Bucket::default(), 0);
        for b in &self.0 {
            running += b.weight;
            if running >= limit {
                let rest = limit - (running - b.weight);
                if b.weight > 0 {
                    let part =
                        |x: u64| (u128::from(x) * u128::from(rest) / u128::from(b.weight)) as u64;
                    sum.latency = sum.latency.wrapping_add(part(b.latency));
                    sum.bytes += part(b.bytes);
                    sum.weight += rest;
                }
                break;
            }
            sum.weight += b.weight;
            sum.latency = sum.latency.wrapping_add(b.latency);
            sum.bytes += b.bytes;
        }
        sum
    }
}

/// Small and large samples.
#[derive(Clone, Debug, Default)]
struct Samples {
    small: Histogram,
    large: Histogram,
}

impl Samples {
    fn take_from(&mut self, other: &mut Samples) {
        self.small.take_from(&mut other.small);
        self.large.take_from(&mut other.large);
    }

    fn clear(&mut self) {
        self.small.clear();
        self.large.clear();
    }
}

/// When and how much the running means forget.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Shrink {
    /// A mean over so many thousand small samples is shrunk.
    pub kreqs: u64,
    /// One over so many GiB of large ones is.
    pub gbytes: u64,
    /// By its 2^-resist.
    pub resist: u64,
}

/// How long a request took.
#[derive(Clone, Copy, Debug)]
pub(super) struct ServiceSample {
    pub bytes: u64,
    /// ns, and what had been predicted at its insertion; 0: nothing.
    pub latency: u64,
    pub predicted: u64,
    /// It counts so many times.
    pub weight: u64,
}

/// The model of one kind.
#[derive(Clone, Debug, Default)]
pub(super) struct LatencyModel {
    /// Latency of a page or less, ns; 0: not known.
    pub base: u64,
    /// ns per KiB beyond that; 0: not known.
    pub slope: u64,
    /// Small samples: sum of latencies and their number.
    pub small: (u64, u64),
    /// Large ones: sum of latencies and of bytes.
    pub large: (u64, u64),
    /// Tick of the last update.
    pub updated: u64,
    own: Samples,
}

impl LatencyModel {
    /// The latency expected of `bytes`.
    pub fn predict(&self, bytes: u64) -> u64 {
        let more = bytes.saturating_sub(SMALL).div_ceil(1024);
        self.base.wrapping_add(self.slope.wrapping_mul(more))
    }

    /// Sorts a sample in; true if an update is due at once, for nothing was known.
    fn add(&mut self, sample: ServiceSample, wraps: bool) -> bool {
        let ServiceSample { bytes, latency, predicted, weight } = sample;
        let weighted = latency.wrapping_mul(weight);
        if bytes <= SMALL {
            let b = &mut self.own.small.0[bucket(latency, self.base.max(1), wraps)];
            b.weight += weight;
            b.latency = b.latency.wrapping_add(weighted);
            return self.base == 0;
        }
        if self.base != 0 && predicted != 0 {
            let b = &mut self.own.large.0[bucket(latency, predicted, wraps)];
            b.weight += weight;
            b.latency = b.latency.wrapping_add(weighted);
            b.bytes += bytes.wrapping_mul(weight) & u64::from(u32::MAX);
        }
        false
    }

    /// Learns from small samples; false if nothing was left of them.
    fn learn_small(&mut self, sum: Bucket, shrink: &Shrink) -> bool {
        let (latency, count) = &mut self.small;
        if *count >= 1000 * shrink.kreqs && *count >> shrink.resist > 0 {
            *latency -= *latency >> shrink.resist;
            *count -= *count >> shrink.resist;
        }
        if sum.weight == 0 {
            return false;
        }
        *latency = latency.wrapping_add(sum.latency);
        *count += sum.weight;
        true
    }

    /// The same with large ones.
    fn learn_large(&mut self, sum: Bucket, shrink: &Shrink) -> bool {
        if sum.weight == 0 {
            return false;
        }
        let (latency, bytes) = &mut self.large;
        if *bytes >= shrink.gbytes << 30 && *bytes >> shrink.resist > 0 {
            *latency -= *latency >> shrink.resist;
            *bytes -= *bytes >> shrink.resist;
        }
        // The base is taken off once for the whole sum and not once a sample (Q8).
        let above = if sum.latency > self.base { sum.latency - self.base } else { sum.latency };
        *latency = latency.wrapping_add(above);
        *bytes += sum.bytes;
        true
    }
}

/// The models of all kinds, and the pool that they share.
#[derive(Clone, Debug)]
pub(super) struct Models {
    pub of: [LatencyModel; KINDS],
    pool: Samples,
    /// Ticks after which an update is due.
    stale: u64,
}

impl Models {
    /// Nothing is known at that tick.
    pub fn new(tick: u64, tick_length: Nanos) -> Models {
        let model = LatencyModel { updated: tick, ..LatencyModel::default() };
        let stale = STALE.0.div_ceil(tick_length.0.max(1));
        Models { of: core::array::from_fn(|_| model.clone()), pool: Samples::default(), stale }
    }

    /// A completion. Far buckets wrap around as in 3.1.9 if `wraps`.
    pub fn learn(
        &mut self,
        kind: usize,
        sample: ServiceSample,
        wraps: bool,
        tick: u64,
        shrink: &Shrink,
    ) {
        if self.of[kind].add(sample, wraps) {
            self.update(kind, tick, shrink);
        }
    }

    /// Brings the model of a kind up to date with the pool, if it is time (6.4).
    pub fn update(&mut self, kind: usize, tick: u64, shrink: &Shrink) {
        let (model, pool) = (&mut self.of[kind], &mut self.pool);
        pool.take_from(&mut model.own);
        let (small, large) = (pool.small.total(), pool.large.total());
        let due = model.base == 0 || model.updated + self.stale <= tick;
        let mut small_ok = false;
        if small > 0 && (due || small >= ENOUGH) {
            small_ok = model.learn_small(pool.small.cut(small, model.base == 0), shrink);
            pool.small.clear();
        }
        let mut large_ok = false;
        if large > 0 && (due || large >= ENOUGH || model.slope == 0) {
            large_ok = model.learn_large(pool.large.cut(large, model.slope == 0), shrink);
            pool.large.clear();
        }
        if small_ok && let Some(base) = mean(model.small.0, model.small.1) {
            model.base = base;
        }
        if large_ok && let Some(slope) = mean(model.large.0, model.large.1.div_ceil(1024)) {
            model.slope = slope;
        }
        if small_ok || large_ok || due {
            model.updated = tick;
        }
    }

    /// Puts a model in the place of what was learned (6.5).
    pub fn load(&mut self, kind: usize, base: u64, slope: u64, tick: u64) {
        let small = (base, 1);
        let large = (slope, 1024);
        let own = Samples::default();
        self.of[kind] = LatencyModel { base, slope, small, large, updated: tick, own };
    }

    /// Forgets the samples that no update has processed.
    pub fn empty_pool(&mut self) {
        self.pool.clear();
    }
}

/// The bucket of a latency `m` where `p` was expected. Not monotone (section 6.2), and the divisor has 32 bits (Q6).
fn bucket(m: u64, p: u64, wraps: bool) -> usize {
    let divisor = p & u64::from(u32::MAX);
    if divisor == 0 {
        // Deviation: the original divides by zero.
        return BUCKETS - 1;
    }
    let index = if m < p.saturating_mul(2) {
        m.wrapping_mul(20) / divisor
    } else if m < p.saturating_mul(5) {
        m.wrapping_mul(10) / divisor + 20
    } else {
        m.wrapping_mul(3) / divisor + 40
    };
    let index = if wraps { index & 0xff } else { index };
    index.min(BUCKETS as u64 - 1) as usize
}

/// A quotient with a divisor of 32 bits, as the original has it (Q6).
fn mean(sum: u64, count: u64) -> Option<u64> {
    sum.checked_div(count & u64::from(u32::MAX)).filter(|_| count > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHRINK: Shrink = Shrink { kreqs: 5000, gbytes: 50, resist: 2 };

    ///
    #[test]
    fn buckets_are_not_monotone() {
        let of = |m| bucket(m, 1000, true);
        let known = [
            (0, 0),
            (1999, 39),
            (2000, 40),
            (4299, 62),
            (4300, 63),
            (4999, 63),
            (5000, 55),
            (7666, 62),
            (7667, 63),
            (72_000, 0),
            (80_000, 24),
        ];
        assert_eq!(known.map(|(m, _)| of(m)), known.map(|(_, i)| i));
        assert_eq!(bucket(72_000, 1000, false), 63);
        assert_eq!(bucket(5, 1 << 32, true), 63);
    }

    ///
    #[test]
    fn the_cut_leaves_the_last_percent_out() {
        let mut h = Histogram::default();
        h.0[20] = Bucket { weight: 99, latency: 9900, bytes: 0 };
        h.0[63] = Bucket { weight: 1, latency: 1000, bytes: 0 };
        let sum = h.cut(h.total(), false);
        assert_eq!((sum.latency, sum.weight), (9900, 99));

        let mut one = Histogram::default();
        one.0[5] = Bucket { weight: 1, latency: 77, bytes: 0 };
        assert_eq!(one.cut(1, false).weight, 0);
        assert_eq!(one.cut(1, true).weight, 1);

        let mut h = Histogram::default();
        h.0[3] = Bucket { weight: 10, latency: 1000, bytes: 0 };
        h.0[8] = Bucket { weight: 190, latency: 19_001, bytes: 0 };
        let sum = h.cut(200, false);
        assert_eq!((sum.latency, sum.weight), (19_800, 198));
    }

    ///
    #[test]
    fn means_forget_when_they_have_seen_enough() {
        let mut m =
            LatencyModel { small: (1_000_000_000_000, 5_000_000), ..LatencyModel::default() };
        assert!(m.learn_small(Bucket { weight: 99, latency: 9900, bytes: 0 }, &SHRINK));
        assert_eq!(m.small, (750_000_009_900, 3_750_099));
    }

    ///
    #[test]
    fn predictions_grow_with_each_kib_beyond_a_page() {
        let m = LatencyModel { base: 100_000, slope: 1000, ..LatencyModel::default() };
        let sizes = [4096, 4608, 8192, 131_072, 0];
        assert_eq!(sizes.map(|b| m.predict(b)), [100_000, 101_000, 104_000, 224_000, 100_000]);
    }

    fn small(latency: u64, predicted: u64) -> ServiceSample {
        ServiceSample { bytes: 4096, latency, predicted, weight: 1 }
    }

    /// after a load of zeros the zero counts as a sample.
    #[test]
    fn the_first_sample_after_a_reset_counts_half() {
        let mut all = Models::new(1, Nanos::ms(1));
        all.load(0, 0, 0, 2);
        all.learn(0, small(1_000_000, 0), true, 3, &SHRINK);
        assert_eq!((all.of[0].base, all.of[0].small), (500_000, (1_000_000, 2)));
    }

    /// what one kind has left is learned by another.
    #[test]
    fn kinds_learn_from_the_common_pool() {
        let mut all = Models::new(0, Nanos::ms(1));
        all.learn(0, small(2_000_000, 0), true, 3, &SHRINK);
        assert_eq!(all.of[0].base, 2_000_000);
        all.learn(0, small(1_000_000, 2_000_000), true, 5, &SHRINK);
        all.learn(0, small(2_000_000, 2_000_000), true, 7, &SHRINK);
        for kind in 0..KINDS {
            all.update(kind, 103, &SHRINK);
        }
        assert_eq!([0, 1, 2].map(|k| all.of[k].base), [2_000_000, 1_500_000, 0]);
        assert_eq!([1, 2, 3].map(|k| all.of[k].updated), [103; 3]);
    }
}
