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
use hoistway_sim::hist::{Histogram, highest_of, lowest_of};
use hoistway_sim::world::ProcRecord;

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

/// How two configurations compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Not told apart: the interval holds 1, or the ratio is within 1 +- 3 %.
    Same,
    /// The interval holds 1, and a half or double of it, too: the repetitions are too few or too unlike.
    Unsure,
    /// Different.
    Different,
    /// Fewer than three pairs, or bounds instead of values: no interval, no verdict.
    TooFew,
}

/// A value over a reference value, both measured with the same seeds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    /// Geometric mean of the ratios of pairs.
    pub mean: f64,
    /// A bound if values of one side are: above what a lower bound gives, below what one of the reference
    /// gives.
    pub bound: Bound,
    /// Bounds of the 99 % Student interval of the logarithms, as ratios; `None` below three pairs.
    pub interval: Option<(f64, f64)>,
    /// What it says.
    pub verdict: Verdict,
}

/// Different only if the interval excludes 1 and the ratio is beyond the limit.
fn verdict(mean: f64, (low, high): (f64, f64)) -> Verdict {
    let beyond = (mean - 1.0).abs() > SAME_WITHIN;
    let wide = low < 1.0 / UNSURE_BEYOND || high > UNSURE_BEYOND;
    match low > 1.0 || high < 1.0 {
        true if beyond => Verdict::Different,
        false if wide => Verdict::Unsure,
        _ => Verdict::Same,
    }
}

impl Ratio {
    /// The two are told apart: by the verdict, or, where there is none, by more than 3 %. A bound differs if
    /// it lies beyond that on its own side.
    pub fn differs(&self) -> bool {
        let (low, high) = (self.mean < 1.0 - SAME_WITHIN, self.mean > 1.0 + SAME_WITHIN);
        match (self.bound, self.verdict) {
            (Bound::Above | Bound::AtLeast, _) => high,
            (Bound::Below, _) => low,
            (Bound::Exact, Verdict::TooFew) => low || high,
            (Bound::Exact, verdict) => verdict == Verdict::Different,
        }
    }
}

/// Compares `values` with `reference`, paired by position. `None` unless there are equally many,
/// finite and above 0.
pub fn paired_ratio(values: &[f64], reference: &[f64]) -> Option<Ratio> {
    let positive = |v: &[f64]| v.iter().all(|x| x.is_finite() && *x > 0.0);
    if values.is_empty() || values.len() != reference.len() {
        return None;
    }
    if !positive(values) || !positive(reference) {
        return None;
    }
    let logs: Vec<f64> = values.iter().zip(reference).map(|(v, r)| libm::log(v / r)).collect();
    let logs = spread(&logs)?;
    let mean = libm::exp(logs.mean);
    let interval = logs.half_width.map(|h| (libm::exp(logs.mean - h), libm::exp(logs.mean + h)));
    let verdict = match interval {
        None => Verdict::TooFew,
        Some(interval) => verdict(mean, interval),
    };
    Some(Ratio { mean, bound: Bound::Exact, interval, verdict })
}

/// The same of repetitions that do not belong together: geometric mean over geometric mean, with Welch's
/// interval of the logarithms. Values may be lower bounds, as in [`paired_ratio_bounded`].
pub fn unpaired_ratio(values: &[Bounded], reference: &[Bounded]) -> Option<Ratio> {
    let cut = |v: &[Bounded]| v.iter().any(|b| b.bound != Bound::Exact);
    let logs = |v: &[Bounded]| -> Option<Vec<f64>> {
        let log = |b: &Bounded| (b.value > 0.0 && b.value.is_finite()).then(|| libm::log(b.value));
        v.iter().map(log).collect()
    };
    let (ours, theirs) = (logs(values)?, logs(reference)?);
    let (a, b) = (spread(&ours)?, spread(&theirs)?);
    let difference = a.mean - b.mean;
    let mean = libm::exp(difference);
    let bound = match (cut(values), cut(reference)) {
        (false, false) => Bound::Exact,
        (true, false) => Bound::Above,
        (false, true) => Bound::Below,
        (true, true) => return None,
    };
    if a.n < 3 || b.n < 3 || bound != Bound::Exact {
        return Some(Ratio { mean, bound, interval: None, verdict: Verdict::TooFew });
    }
    let part = |v: &[f64], s: &Spread| sd_about(v, s.mean).powi(2) / f64::from(s.n);
    let (pa, pb) = (part(&ours, &a), part(&theirs, &b));
    let freedom = (pa + pb).powi(2)
        / (pa * pa / f64::from(a.n - 1) + pb * pb / f64::from(b.n - 1)).max(f64::MIN_POSITIVE);
    // Welch and Satterthwaite, rounded down; without any spread there is nothing to be unsure of.
    let freedom = if pa + pb > 0.0 { freedom.floor().max(1.0) as u32 } else { 1 };
    let half = t_quantile(0.5 + CONFIDENCE / 2.0, freedom) * (pa + pb).sqrt();
    let interval = (libm::exp(difference - half), libm::exp(difference + half));
    Some(Ratio { mean, bound, interval: Some(interval), verdict: verdict(mean, interval) })
}

/// The same where values may be lower bounds: then the ratio is one, and without interval. `None`, too, if
/// there are bounds on both sides.
pub fn paired_ratio_bounded(values: &[Bounded], reference: &[Bounded]) -> Option<Ratio> {
    let plain = |v: &[Bounded]| v.iter().map(|b| b.value).collect::<Vec<_>>();
    let cut = |v: &[Bounded]| v.iter().any(|b| b.bound != Bound::Exact);
    let ratio = paired_ratio(&plain(values), &plain(reference))?;
    let bound = match (cut(values), cut(reference)) {
        (false, false) => return Some(ratio),
        (true, false) => Bound::Above,
        (false, true) => Bound::Below,
        (true, true) => return None,
    };
    Some(Ratio { bound, interval: None, verdict: Verdict::TooFew, ..ratio })
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
pub fn latency_mean(proc: &ProcRecord) -> Option<Bounded> {
    match proc.censored {
        None => proc.latency.mean().map(Bounded::from),
        Some(cut) => {
            let all = proc.latency.sum() + u128::from(cut.0);
            Some(Bounded::above(all as f64 / (proc.latency.count() + 1) as f64))
        }
    }
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

    #[test]
    fn repetitions_that_do_not_belong_together_are_compared_by_welch() {
        let of = |v: &[f64]| v.iter().map(|&v| Bounded::from(v)).collect::<Vec<_>>();
        let r = unpaired_ratio(&of(&[2.0, 2.1, 1.9, 2.0]), &of(&[1.0, 1.01, 0.99])).unwrap();
        assert!((r.mean - 2.0).abs() < 0.01 && r.differs(), "{r:?}");
        let (low, high) = r.interval.unwrap();
        assert!(low < r.mean && r.mean < high && low > 1.7 && high < 2.3, "{r:?}");
        let wide = unpaired_ratio(&of(&[1.0, 3.0, 0.5]), &of(&[1.0, 1.0, 1.2])).unwrap();
        assert_eq!((wide.verdict, wide.differs()), (Verdict::Unsure, false));
        let few = unpaired_ratio(&of(&[2.0]), &of(&[1.0])).unwrap();
        assert_eq!((few.verdict, few.differs()), (Verdict::TooFew, true));
        let none = unpaired_ratio(&of(&[1.0; 3]), &of(&[1.0; 3])).unwrap();
        assert_eq!((none.verdict, none.interval), (Verdict::Same, Some((1.0, 1.0))));
        let cut = [Bounded::above(0.5)];
        assert!(!unpaired_ratio(&cut, &of(&[1.0])).unwrap().differs(), "it may still be larger");
    }

    #[test]
    fn a_ratio_of_bounds_is_a_bound() {
        let (one, two) = ([Bounded::from(1.0)], [Bounded::above(2.0)]);
        let above = paired_ratio_bounded(&two, &one).unwrap();
        assert_eq!((above.bound, above.interval), (Bound::Above, None));
        assert!((above.mean - 2.0).abs() < 1e-12);
        assert_eq!(paired_ratio_bounded(&one, &two).unwrap().bound, Bound::Below);
        assert_eq!(paired_ratio_bounded(&two, &two), None);
    }

    #[test]
    fn ratios_of_pairs_ignore_what_both_share() {
        // The layouts differ by a factor of 100, the ratio is 2 throughout.
        let r = paired_ratio(&[2.0, 20.0, 200.0], &[1.0, 10.0, 100.0]).unwrap();
        assert!((r.mean - 2.0).abs() < 1e-12);
        assert_eq!(r.verdict, Verdict::Different);
        let near = paired_ratio(&[1.02, 10.2, 102.0], &[1.0, 10.0, 100.0]).unwrap();
        assert_eq!(near.verdict, Verdict::Same, "within three percent");
        let close = paired_ratio(&[0.95, 1.06, 1.1], &[1.0, 1.0, 1.0]).unwrap();
        assert_eq!(close.verdict, Verdict::Same, "the interval holds 1");
        let wide = paired_ratio(&[0.5, 2.0, 3.0], &[1.0, 1.0, 1.0]).unwrap();
        assert_eq!(wide.verdict, Verdict::Unsure, "it holds everything else, too");
        assert_eq!(paired_ratio(&[2.0], &[1.0]).unwrap().verdict, Verdict::TooFew);
        assert_eq!(paired_ratio(&[1.0], &[0.0]), None);
        assert_eq!(paired_ratio(&[1.0], &[1.0, 2.0]), None);
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
