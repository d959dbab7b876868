//! Statistics of runs and over repetitions (specs/statistics.md).
//!
//! Two levels that are never mixed: *samples* inside a run are correlated and described by a
//! [`Histogram`]; *repetitions* are what uncertainty is computed from. Logarithm and exponential come
//! from one portable implementation, so the last digit agrees on every machine.

mod censored;
mod student;

pub use censored::{Bound, Bounded, median};
pub use student::t_quantile;

use crate::result::Spread;
use hoistway::Nanos;
use hoistway_run::{Histogram, highest_of, lowest_of};

/// Two-sided level of every interval: 99 % (statistics.md 4).
pub const CONFIDENCE: f64 = 0.99;

/// Two configurations count as different only beyond 1 +- this (statistics.md 4, simulator).
pub const SAME_WITHIN: f64 = 0.03;

/// An interval that holds 1 and reaches beyond this factor, or one over it, does not tell whether two are the same.
pub const UNSURE_BEYOND: f64 = 2.0;

/// A percentile as a rational.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Percentile {
    /// Suffix of its metric, such as `p99.9`.
    pub name: &'static str,
    /// `numerator / denominator` of all values are not larger.
    pub numerator: u64,
    /// See `numerator`.
    pub denominator: u64,
}

const fn percentile(name: &'static str, numerator: u64, denominator: u64) -> Percentile {
    Percentile { name, numerator, denominator }
}

/// The reported set (statistics.md 1.2), without the maximum.
pub const PERCENTILES: &[Percentile] = &[
    percentile("p1", 1, 100),
    percentile("p5", 5, 100),
    percentile("p10", 10, 100),
    percentile("p25", 25, 100),
    percentile("p50", 50, 100),
    percentile("p75", 75, 100),
    percentile("p90", 90, 100),
    percentile("p95", 95, 100),
    percentile("p99", 99, 100),
    percentile("p99.9", 999, 1_000),
    percentile("p99.99", 9_999, 10_000),
];

impl Percentile {
    /// One of [`PERCENTILES`] by name.
    pub fn find(name: &str) -> Option<Percentile> {
        PERCENTILES.iter().copied().find(|p| p.name == name)
    }

    /// Its value in nanoseconds; `None` unless at least ten samples lie above it. Unfinished I/Os count as
    /// far as they were watched (Kaplan-Meier); `None`, too, if the percentile lies beyond that.
    pub fn of(self, h: &Histogram, censored: &[Nanos]) -> Option<u64> {
        let all = h.count() + censored.len() as u64;
        let above = u128::from(all) * u128::from(self.denominator - self.numerator);
        if above < 10 * u128::from(self.denominator) {
            return None;
        }
        if censored.is_empty() {
            return h.quantile(self.numerator, self.denominator);
        }
        // The highest value of a slot stands for it, as without censoring.
        let max = h.max().unwrap_or(u64::MAX);
        let ended = h.slots().map(|(slot, n)| (highest_of(slot).min(max) as f64, n));
        let ended: Vec<(f64, u64)> = ended.collect();
        let mut cut: Vec<f64> = censored.iter().map(|c| c.0 as f64).collect();
        cut.sort_by(f64::total_cmp);
        let share = self.numerator as f64 / self.denominator as f64;
        censored::quantile(ended, &cut, share).map(|ns| ns as u64)
    }
}

/// Mean, range and 99 % Student interval of one value per repetition. `None` without values.
pub fn spread(values: &[f64]) -> Option<Spread> {
    let n = values.len();
    if n == 0 {
        return None;
    }
    let mean = sum(values.iter().copied()) / n as f64;
    let half_width = (n >= 3).then(|| {
        let sd = sd_about(values, mean);
        t_quantile(0.5 + CONFIDENCE / 2.0, n as u32 - 1) * sd / (n as f64).sqrt()
    });
    let min = values.iter().copied().fold(f64::INFINITY, f64::min);
    let max = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    Some(Spread { mean, half_width, min, max, n: n as u32 })
}

/// Standard deviation (n - 1) of at least two values about their mean.
fn sd_about(values: &[f64], mean: f64) -> f64 {
    let squares = sum(values.iter().map(|v| (v - mean) * (v - mean)));
    (squares / (values.len() - 1) as f64).sqrt()
}

/// Compensated summation (Neumaier) in the order given (statistics.md 6).
pub fn sum(values: impl IntoIterator<Item = f64>) -> f64 {
    let (mut total, mut lost) = (0.0f64, 0.0f64);
    for v in values {
        let next = total + v;
        lost += if total.abs() >= v.abs() { (total - next) + v } else { (v - next) + total };
        total = next;
    }
    total + lost
}

/// What two sides of a comparison say, repetition beside repetition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finding {
    /// Not told apart: the interval holds 1, or the ratio is within 1 +- 3 %.
    Same,
    /// The interval holds 1, and a half or double of it, too: the repetitions are too few or too unlike.
    Unsure,
    /// The value is smaller than the reference.
    Less,
    /// The value is larger.
    More,
    /// A side has no value, or what is known of it allows either.
    Unknown,
}

impl Finding {
    /// Its word in files.
    pub fn name(self) -> &'static str {
        match self {
            Finding::Same => "same",
            Finding::Unsure => "unsure",
            Finding::Less => "less",
            Finding::More => "more",
            Finding::Unknown => "unknown",
        }
    }

    /// One side is known to be larger.
    pub fn differs(self) -> bool {
        matches!(self, Finding::Less | Finding::More)
    }

    /// The same with the sides exchanged.
    #[must_use]
    pub fn turned(self) -> Finding {
        match self {
            Finding::Less => Finding::More,
            Finding::More => Finding::Less,
            same => same,
        }
    }

    /// Different only if the interval excludes 1 and the ratio is beyond the limit. Without an interval (fewer than
    /// three repetitions) the limit alone decides.
    fn of(mean: f64, interval: Option<(f64, f64)>) -> Finding {
        let (low, high) = interval.unwrap_or((mean, mean));
        let wide = low < 1.0 / UNSURE_BEYOND || high > UNSURE_BEYOND;
        match (mean - 1.0).abs() > SAME_WITHIN {
            true if low > 1.0 => Finding::More,
            true if high < 1.0 => Finding::Less,
            _ if wide && (low..=high).contains(&1.0) => Finding::Unsure,
            _ => Finding::Same,
        }
    }
}

/// A value over a reference value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    /// Geometric mean of the ratios of pairs, or ratio of the geometric means; ratio of the means where a repetition
    /// has the value 0.
    pub mean: f64,
    /// A bound if values of one side are: above what a lower bound gives, below what one of the reference
    /// gives.
    pub bound: Bound,
    /// Bounds of the 99 % Student interval, as ratios; `None` below three repetitions, and of a bound.
    pub interval: Option<(f64, f64)>,
    /// What it says.
    pub finding: Finding,
}

impl Ratio {
    fn exact(mean: f64, interval: Option<(f64, f64)>) -> Ratio {
        Ratio { mean, bound: Bound::Exact, interval, finding: Finding::of(mean, interval) }
    }

    /// Reference over value.
    #[must_use]
    pub fn turned(self) -> Ratio {
        Ratio {
            mean: 1.0 / self.mean,
            bound: self.bound.turned(),
            interval: self.interval.map(|(low, high)| (1.0 / high, 1.0 / low)),
            finding: self.finding.turned(),
        }
    }

    /// The mean with its bound.
    pub fn bounded(self) -> Bounded {
        Bounded { value: self.mean, bound: self.bound }
    }
}

/// Compares repetitions with those of a reference, with the same seeds one by one (`paired`) or all together. `None`
/// unless both sides have values, finite and none below 0, and something to divide by; also where both have lower
/// bounds among them: their ratio may be anything. Where one side has, the ratio is a bound without an interval.
///
/// The ratio is that of the geometric means (pairs that share a disk layout differ by a factor), with an interval of
/// the logarithms: Student's of the pairs', or Welch's. Where a repetition has the value 0 it is the ratio of the
/// means, with the interval of their difference over the reference's mean.
pub fn ratio(values: &[Bounded], reference: &[Bounded], paired: bool) -> Option<Ratio> {
    let plain = |v: &[Bounded]| -> Option<Vec<f64>> {
        let good = |b: &Bounded| (b.value.is_finite() && b.value >= 0.0).then_some(b.value);
        v.iter().map(good).collect::<Option<Vec<_>>>().filter(|v| !v.is_empty())
    };
    let cut = |v: &[Bounded]| v.iter().any(|b| b.bound != Bound::Exact);
    let (ours, theirs) = (plain(values)?, plain(reference)?);
    if paired && ours.len() != theirs.len() {
        return None;
    }
    let ratio = match ours.iter().chain(&theirs).any(|&v| v == 0.0) {
        false => {
            let logs = |v: &[f64]| v.iter().map(|&v| libm::log(v)).collect::<Vec<_>>();
            let (mean, half) = match paired {
                true => {
                    let pairs = ours.iter().zip(&theirs);
                    lone(&pairs.map(|(v, r)| libm::log(v / r)).collect::<Vec<_>>())?
                }
                false => welch(&logs(&ours), &logs(&theirs))?,
            };
            let interval = half.map(|h| (libm::exp(mean - h), libm::exp(mean + h)));
            Ratio::exact(libm::exp(mean), interval)
        }
        true => {
            let whole = spread(&theirs)?.mean;
            let (difference, half) = difference(&ours, &theirs, paired)?;
            let over = |d: f64| (1.0 + d / whole).max(0.0);
            let interval = half.map(|h| (over(difference - h), over(difference + h)));
            (whole > 0.0).then(|| Ratio::exact(over(difference), interval))?
        }
    };
    let bounds = |bound, known: Finding| {
        let finding = if ratio.finding == known { known } else { Finding::Unknown };
        Ratio { bound, interval: None, finding, ..ratio }
    };
    match (cut(values), cut(reference)) {
        (false, false) => Some(ratio),
        (true, false) => Some(bounds(Bound::Above, Finding::More)),
        (false, true) => Some(bounds(Bound::Below, Finding::Less)),
        (true, true) => None,
    }
}

/// What two sides say: by their ratio, and where there is none by the sign of their difference.
pub fn finding(values: &[Bounded], reference: &[Bounded], paired: bool) -> Finding {
    if let Some(ratio) = ratio(values, reference, paired) {
        return ratio.finding;
    }
    let exact = |v: &[Bounded]| v.iter().map(|b| b.exact()).collect::<Option<Vec<_>>>();
    let sides = exact(values).zip(exact(reference));
    let Some((mean, half)) = sides.and_then(|(v, r)| difference(&v, &r, paired)) else {
        return Finding::Unknown;
    };
    match half.unwrap_or(0.0) {
        half if mean > half => Finding::More,
        half if mean < -half => Finding::Less,
        0.0 => Finding::Same,
        _ => Finding::Unsure,
    }
}

/// Mean difference and half its interval.
fn difference(ours: &[f64], theirs: &[f64], paired: bool) -> Option<(f64, Option<f64>)> {
    match paired {
        true if ours.len() != theirs.len() => None,
        true => lone(&ours.iter().zip(theirs).map(|(v, r)| v - r).collect::<Vec<_>>()),
        false => welch(ours, theirs),
    }
}

fn lone(values: &[f64]) -> Option<(f64, Option<f64>)> {
    spread(values).map(|s| (s.mean, s.half_width))
}

/// Difference of two means and half its interval by Welch; none below three values a side.
fn welch(ours: &[f64], theirs: &[f64]) -> Option<(f64, Option<f64>)> {
    let (a, b) = (spread(ours)?, spread(theirs)?);
    let difference = a.mean - b.mean;
    if a.n < 3 || b.n < 3 {
        return Some((difference, None));
    }
    let part = |v: &[f64], s: &Spread| {
        let sd = sd_about(v, s.mean);
        sd * sd / f64::from(s.n)
    };
    let (pa, pb) = (part(ours, &a), part(theirs, &b));
    let freedom = (pa + pb) * (pa + pb)
        / (pa * pa / f64::from(a.n - 1) + pb * pb / f64::from(b.n - 1)).max(f64::MIN_POSITIVE);
    // Welch and Satterthwaite, rounded down; without any spread there is nothing to be unsure of.
    let freedom = if pa + pb > 0.0 { freedom.floor().max(1.0) as u32 } else { 1 };
    let half = t_quantile(0.5 + CONFIDENCE / 2.0, freedom) * (pa + pb).sqrt();
    Some((difference, Some(half)))
}

/// Jain's index of equal shares: 1 when all are equal, 1/n when one has everything. `None` without
/// clients or when nobody got anything.
pub fn jain(shares: &[f64]) -> Option<f64> {
    let total = sum(shares.iter().copied());
    let squares = sum(shares.iter().map(|x| x * x));
    (squares > 0.0).then(|| total * total / (shares.len() as f64 * squares))
}

/// All repetitions' histograms in one, exactly.
pub fn merged<'a>(histograms: impl IntoIterator<Item = &'a Histogram>) -> Histogram {
    let mut all = Histogram::new();
    for h in histograms {
        all.merge(h);
    }
    all
}

/// Time-average latency in nanoseconds, sum x^2 / sum x: what an observer who arrives at a random
/// instant waits through. Unfinished I/Os count with the time they have waited (statistics.md 1.4). That
/// makes it a lower bound, since it grows with every x above half of it, unless they have waited less.
pub fn time_weighted(h: &Histogram, censored: &[Nanos]) -> Option<Bounded> {
    let add = |total: u128, power: u32| {
        censored.iter().fold(total, |t, c| t + u128::from(c.0).pow(power))
    };
    let time = add(h.sum(), 1);
    let value = (time > 0).then(|| add(h.sum_sq(), 2) as f64 / time as f64)?;
    let bound = match censored.iter().map(|c| c.0).min() {
        Some(least) if least as f64 >= value / 2.0 => Bound::Above,
        _ => Bound::Exact,
    };
    Some(Bounded { value, bound })
}

/// Time in nanoseconds spent in I/Os longer than `limit`, to the resolution of the histogram (0.1 %). At
/// least that where an unfinished I/O had not waited so long yet.
pub fn time_over(h: &Histogram, censored: &[Nanos], limit: Nanos) -> Bounded {
    let finished = h.slots().filter(|&(slot, _)| lowest_of(slot) > limit.0).map(|(slot, n)| {
        // The middle of a slot stands for its values; the last one is capped at the exact maximum.
        let high = h.max().map_or(highest_of(slot), |max| max.min(highest_of(slot)));
        (lowest_of(slot) as f64 + high as f64) / 2.0 * n as f64
    });
    let unfinished = censored.iter().filter(|c| c.0 > limit.0).map(|c| c.0 as f64);
    let value = sum(finished.chain(unfinished));
    let open = censored.iter().any(|c| c.0 <= limit.0);
    Bounded { value, bound: if open { Bound::AtLeast } else { Bound::Exact } }
}

/// Too many I/Os were still unfinished when their run ended: more than 1 %, or any among fewer than
/// 100 (statistics.md 1.4).
pub fn censored_too_many(finished: u64, censored: u64) -> bool {
    let all = finished + censored;
    censored > 0 && (all < 100 || censored * 100 > all)
}

/// Mean latency in nanoseconds. An unfinished I/O makes it a lower bound: it counts with the time it had
/// waited.
///
/// Deviation: statistics.md 1.4 leaves it out of the mean. A target that reads once in 20 ms and is stuck
/// for the rest of the run would then look like one that waits 20 ms.
pub fn latency_mean(h: &Histogram, censored: &[Nanos]) -> Option<Bounded> {
    if censored.is_empty() {
        return h.mean().map(Bounded::from);
    }
    let all = censored.iter().fold(h.sum(), |sum, cut| sum + u128::from(cut.0));
    Some(Bounded::above(all as f64 / (h.count() + censored.len() as u64) as f64))
}

/// Largest latency in nanoseconds, unfinished I/Os included with the time they had waited.
pub fn latency_max(h: &Histogram, censored: &[Nanos]) -> Option<Bounded> {
    let cut = censored.iter().map(|c| c.0).max();
    Bounded::largest(h.max().map(|m| m as f64), cut.map(|c| c as f64))
}

/// The level changed during the series: the means of its first and last third differ by more than
/// 20 % (statistics.md 3). Needs six values.
pub fn level_changed(values: &[f64]) -> bool {
    let third = values.len() / 3;
    if third < 2 {
        return false;
    }
    let mean = |v: &[f64]| sum(v.iter().copied()) / v.len() as f64;
    let (first, last) = (mean(&values[..third]), mean(&values[values.len() - third..]));
    (first - last).abs() > 0.2 * first.max(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spread_needs_three_repetitions_for_an_interval() {
        assert_eq!(spread(&[]), None);
        assert_eq!(spread(&[4.0, 6.0]).unwrap().half_width, None);
        let s = spread(&[1.0, 2.0, 3.0]).unwrap();
        assert_eq!((s.mean, s.min, s.max, s.n), (2.0, 1.0, 3.0, 3));
        // sd = 1, so 9.925 / sqrt(3).
        assert!((s.half_width.unwrap() - 9.925 / 3f64.sqrt()).abs() < 1e-3);
    }

    #[test]
    fn a_percentile_needs_ten_samples_above_it() {
        let mut h = Histogram::new();
        for v in 1..=999 {
            h.record(v);
        }
        let p99 = Percentile::find("p99").unwrap();
        assert_eq!(p99.of(&h, &[]), None);
        h.record(1000);
        assert_eq!(p99.of(&h, &[]), Some(990));
        assert_eq!(Percentile::find("p99.9").unwrap().of(&h, &[]), None);
        assert_eq!(Percentile::find("p1").unwrap().of(&h, &[]), Some(10));
    }

    #[test]
    fn unfinished_ios_move_percentiles_as_far_as_they_were_watched() {
        let mut h = Histogram::new();
        for v in 1..=100 {
            h.record(v);
        }
        let p50 = Percentile::find("p50").unwrap();
        assert_eq!(p50.of(&h, &[]), Some(50));
        assert_eq!(p50.of(&h, &[Nanos(500); 10]), Some(55), "all of them beyond");
        assert_eq!(p50.of(&h, &[Nanos(0); 10]), Some(50), "never watched");
        assert_eq!(p50.of(&h, &[Nanos(500); 200]), None, "most are still waiting");
    }

    fn of(values: &[f64]) -> Vec<Bounded> {
        values.iter().map(|&v| Bounded::from(v)).collect()
    }

    fn paired(values: &[f64], reference: &[f64]) -> Option<Ratio> {
        ratio(&of(values), &of(reference), true)
    }

    fn unpaired(values: &[f64], reference: &[f64]) -> Option<Ratio> {
        ratio(&of(values), &of(reference), false)
    }

    #[test]
    fn repetitions_that_do_not_belong_together_are_compared_by_welch() {
        let r = unpaired(&[2.0, 2.1, 1.9, 2.0], &[1.0, 1.01, 0.99]).unwrap();
        assert!((r.mean - 2.0).abs() < 0.01 && r.finding == Finding::More, "{r:?}");
        let (low, high) = r.interval.unwrap();
        assert!(low < r.mean && r.mean < high && low > 1.7 && high < 2.3, "{r:?}");
        let wide = unpaired(&[1.0, 3.0, 0.5], &[1.0, 1.0, 1.2]).unwrap();
        assert_eq!(wide.finding, Finding::Unsure);
        let few = unpaired(&[2.0], &[1.0]).unwrap();
        assert_eq!((few.finding, few.interval), (Finding::More, None));
        let none = unpaired(&[1.0; 3], &[1.0; 3]).unwrap();
        assert_eq!((none.finding, none.interval), (Finding::Same, Some((1.0, 1.0))));
    }

    #[test]
    fn a_ratio_of_bounds_is_a_bound_and_of_two_bounds_nothing() {
        for pairs in [true, false] {
            let (one, two) = ([Bounded::from(1.0)], [Bounded::above(2.0)]);
            let above = ratio(&two, &one, pairs).unwrap();
            assert_eq!((above.bound, above.interval), (Bound::Above, None));
            assert!((above.mean - 2.0).abs() < 1e-12);
            assert_eq!(above.finding, Finding::More);
            let below = ratio(&one, &two, pairs).unwrap();
            assert_eq!((below.bound, below.finding), (Bound::Below, Finding::Less));
            assert_eq!(ratio(&two, &two, pairs), None);
            assert_eq!(finding(&two, &[Bounded::above(9.0)], pairs), Finding::Unknown);
            let open = ratio(&[Bounded::above(0.5)], &one, pairs).unwrap();
            assert_eq!(open.finding, Finding::Unknown, "it may still be larger");
            let back = open.turned();
            assert_eq!((back.mean, back.bound), (2.0, Bound::Below));
            assert_eq!(back.finding, Finding::Unknown);
        }
        // One bound among values that scatter: larger only if the repetitions tell so.
        let cut = [Bounded::from(1.0), Bounded::from(3.0), Bounded::above(0.6)];
        assert_eq!(ratio(&cut, &of(&[1.0; 3]), true).unwrap().finding, Finding::Unknown);
    }

    #[test]
    fn ratios_of_pairs_ignore_what_both_share() {
        // The layouts differ by a factor of 100, the ratio is 2 throughout.
        let r = paired(&[2.0, 20.0, 200.0], &[1.0, 10.0, 100.0]).unwrap();
        assert!((r.mean - 2.0).abs() < 1e-12);
        assert_eq!((r.finding, r.turned().finding), (Finding::More, Finding::Less));
        let near = paired(&[1.02, 10.2, 102.0], &[1.0, 10.0, 100.0]).unwrap();
        assert_eq!(near.finding, Finding::Same, "within three percent");
        let close = paired(&[0.95, 1.06, 1.1], &[1.0, 1.0, 1.0]).unwrap();
        assert_eq!(close.finding, Finding::Same, "the interval holds 1");
        let wide = paired(&[0.5, 2.0, 3.0], &[1.0, 1.0, 1.0]).unwrap();
        assert_eq!(wide.finding, Finding::Unsure, "it holds everything else, too");
        let few = paired(&[2.0], &[1.0]).unwrap();
        assert_eq!((few.interval, few.finding), (None, Finding::More));
        assert_eq!(paired(&[1.02], &[1.0]).unwrap().finding, Finding::Same);
        assert_eq!(paired(&[1.0], &[1.0, 2.0]), None);
    }

    #[test]
    fn where_a_repetition_has_nothing_the_means_are_compared() {
        let none = paired(&[0.0; 3], &[12.0, 12.0, 12.0]).unwrap();
        assert_eq!((none.mean, none.interval), (0.0, Some((0.0, 0.0))));
        assert_eq!(none.finding, Finding::Less);
        let some = paired(&[0.0, 3.0, 5.0], &[10.0, 12.0, 14.0]).unwrap();
        assert!((some.mean - 2.0 / 9.0).abs() < 1e-12, "all pairs count: {some:?}");
        assert_eq!(some.finding, Finding::Less);
        for pairs in [true, false] {
            let say = |v: &[f64], r: &[f64]| finding(&of(v), &of(r), pairs);
            assert_eq!(ratio(&of(&[3.0]), &of(&[0.0]), pairs), None, "nothing to divide by");
            assert_eq!(say(&[3.0], &[0.0]), Finding::More);
            assert_eq!(say(&[0.0; 3], &[0.0; 3]), Finding::Same);
            assert_eq!(say(&[0.0, 0.0, 4.0], &[0.0; 3]), Finding::Unsure);
        }
    }

    #[test]
    fn jain_runs_from_one_client_to_equal_shares() {
        assert_eq!(jain(&[5.0, 5.0, 5.0]), Some(1.0));
        assert_eq!(jain(&[9.0, 0.0, 0.0]), Some(1.0 / 3.0));
        assert_eq!(jain(&[0.0, 0.0]), None);
        assert_eq!(jain(&[]), None);
    }

    #[test]
    fn the_time_weighted_mean_sees_the_stall() {
        let mut h = Histogram::new();
        h.record_n(1_000_000, 999);
        h.record(999_000_000);
        // Half of the time passes inside the one long I/O.
        assert!((time_weighted(&h, &[]).unwrap().value - 500_000_000.0).abs() < 1.0);
        let over = time_over(&h, &[], Nanos::ms(10));
        assert!((over.exact().unwrap() / 999e6 - 1.0).abs() < 1e-3);
        assert_eq!(time_over(&h, &[Nanos::secs(60)], Nanos::secs(10)), 60e9.into());
        let open = time_over(&h, &[Nanos::secs(5)], Nanos::secs(10));
        assert_eq!(open, Bounded { value: 0.0, bound: Bound::AtLeast });
        assert_eq!(time_weighted(&h, &[Nanos::secs(60)]).unwrap().bound, Bound::Above);
        assert_eq!(time_weighted(&h, &[Nanos::ms(1)]).unwrap().bound, Bound::Exact);
    }

    #[test]
    fn censoring_is_flagged_above_a_percent_or_on_short_runs() {
        assert!(!censored_too_many(50, 0));
        assert!(censored_too_many(50, 1));
        assert!(!censored_too_many(99, 1));
        assert!(!censored_too_many(999, 10 - 1));
        assert!(censored_too_many(980, 20));
    }

    #[test]
    fn merged_percentiles_are_those_of_all_samples() {
        let (mut a, mut b) = (Histogram::new(), Histogram::new());
        a.record_n(10, 90);
        b.record_n(1000, 110);
        let all = merged([&a, &b]);
        assert_eq!(Percentile::find("p50").unwrap().of(&all, &[]), Some(1000));
        assert_eq!(Percentile::find("p25").unwrap().of(&all, &[]), Some(10));
    }

    #[test]
    fn a_step_in_the_series_is_seen() {
        assert!(!level_changed(&[1.0, 9.0]));
        assert!(!level_changed(&[10.0, 10.0, 10.0, 10.0, 9.0, 9.0]));
        assert!(level_changed(&[10.0, 10.0, 10.0, 7.0, 7.0, 7.0]));
    }
}
