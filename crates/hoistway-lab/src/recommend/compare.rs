//! One configuration beside another: what their difference is, how sure, and how many rounds would tell.
//!
//! Everything here is a *score*: smaller is better, differences add up. Times count by their logarithm,
//! throughput by the logarithm of its inverse, parts of a share as they are. So the difference of two scores is
//! the logarithm of a ratio of times, and the mean over workloads is the geometric mean of the ratios.
//!
//! Two questions, two tests (specs/statistics.md 4). *Is it different?* By the two-sided 99 % Student interval
//! of the differences, paired by round: it must exclude 0, and the difference must be beyond 5 % (3 % in the
//! simulator). Each comparison has its own 99 %, and nothing is corrected for their number: of k
//! configurations that are all alike, one is called different from the present one in at most k of 100
//! recommendations. *Is it as good?* By two one-sided 95 % tests (Schuirmann 1987): the 90 % interval must not reach
//! beyond the tolerance. "All are as good" needs every one of these tests to succeed, so their number needs
//! no correction. Starts and I/Os that were given up at a limit: beside a whole value they are a bound, which is
//! certain on one side alone; where both sides have some, compared are the means up to the limit (restricted
//! means; Royston and Parmar 2013), since the limit is the same for all. Whoever passes neither test is undecided, and
//! [`ScoreDifference::more`] says how many rounds would tell.

use crate::stats::{self, t_quantile};

/// Fewer rounds than this never decide.
pub const ROUNDS_MIN: usize = 3;
/// No more rounds than this are advised.
pub const ROUNDS_MAX: usize = 1000;
/// Level of the interval for "different".
const DIFFERENT: f64 = 0.995;
/// One-sided level of each test for "as good".
const AS_GOOD: f64 = 0.95;

/// A score of one round; of something cut off it is only known that it is worse than this.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Score {
    /// Smaller is better.
    pub value: f64,
    /// The true one is larger.
    pub at_least: bool,
}

/// One configuration against another: differences of scores, negative where the first is better.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScoreDifference {
    /// Mean over the rounds.
    pub mean: f64,
    /// Standard deviation of the rounds; `None` of fewer than two.
    pub sd: Option<f64>,
    /// How many rounds.
    pub rounds: usize,
    /// The true difference is larger: the first one was cut off.
    pub at_least: bool,
    /// The true difference is smaller: the second one was.
    pub at_most: bool,
}

/// What a comparison says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Surely better.
    Better,
    /// Surely worse.
    Worse,
    /// Not told apart by more than the margin.
    Same,
    /// It may be either.
    Undecided,
}

impl ScoreDifference {
    /// Of scores with the same rounds.
    pub fn of(ours: &[Score], theirs: &[Score]) -> Option<ScoreDifference> {
        if ours.is_empty() || ours.len() != theirs.len() {
            return None;
        }
        let differences: Vec<f64> =
            ours.iter().zip(theirs).map(|(a, b)| a.value - b.value).collect();
        let n = differences.len();
        let mean = stats::sum(differences.iter().copied()) / n as f64;
        let squares = stats::sum(differences.iter().map(|d| (d - mean) * (d - mean)));
        let cut = |scores: &[Score]| scores.iter().any(|s| s.at_least);
        // Both were watched up to the same limit: then their means up to it are what is compared.
        let both = cut(ours) && cut(theirs);
        Some(ScoreDifference {
            mean,
            sd: (n >= 2).then(|| (squares / (n - 1) as f64).sqrt()),
            rounds: n,
            at_least: cut(ours) && !both,
            at_most: cut(theirs) && !both,
        })
    }

    /// Half of the 90 % interval: what a single one-sided test leaves open. `None` of too few rounds.
    pub fn leeway(&self) -> Option<f64> {
        self.half(AS_GOOD)
    }

    /// Half width of the interval whose ends each leave out `1 - level`; `None` of too few rounds.
    fn half(&self, level: f64) -> Option<f64> {
        let sd = self.sd.filter(|_| self.rounds >= ROUNDS_MIN)?;
        Some(width(sd, self.rounds, level))
    }

    /// The two-sided 99 % interval; `None` of too few rounds, or of values that were cut off.
    pub fn interval(&self) -> Option<(f64, f64)> {
        let half = self.half(DIFFERENT).filter(|_| !self.at_least && !self.at_most)?;
        Some((self.mean - half, self.mean + half))
    }

    /// Better, worse, the same within `margin`, or not known.
    pub fn verdict(&self, margin: f64) -> Verdict {
        let Some(half) = self.half(DIFFERENT) else { return Verdict::Undecided };
        let (low, high) = (self.mean - half, self.mean + half);
        // A bound is certain on its own side alone.
        if high < 0.0 && self.mean < -margin && !self.at_least {
            Verdict::Better
        } else if low > 0.0 && self.mean > margin && !self.at_most {
            Verdict::Worse
        } else if self.no_better(margin) && self.no_worse(margin) {
            Verdict::Same
        } else {
            Verdict::Undecided
        }
    }

    /// The first is surely not better by more than `tolerance`.
    pub fn no_better(&self, tolerance: f64) -> bool {
        let half = self.half(AS_GOOD).filter(|_| !self.at_most);
        half.is_some_and(|half| self.mean - half > -tolerance)
    }

    /// The first is surely not worse by more than `tolerance`.
    pub fn no_worse(&self, tolerance: f64) -> bool {
        let half = self.half(AS_GOOD).filter(|_| !self.at_least);
        half.is_some_and(|half| self.mean + half < tolerance)
    }

    /// Rounds that would tell whether it is different, if they spread as these do.
    pub fn more(&self, margin: f64) -> usize {
        self.rounds_for(DIFFERENT, self.mean.abs().max(margin))
    }

    /// Rounds that would tell that it is not better by more than `tolerance`.
    pub fn more_to_exclude(&self, tolerance: f64) -> usize {
        // At the edge of the tolerance no number of rounds would do.
        self.rounds_for(AS_GOOD, (tolerance + self.mean).max(tolerance / 4.0))
    }

    /// Rounds that would tell on which side of 0 it is.
    pub fn more_to_tell_sign(&self) -> usize {
        self.rounds_for(DIFFERENT, self.mean.abs().max(1e-3))
    }

    /// Rounds beyond these until the half width is below `wanted`.
    fn rounds_for(&self, level: f64, wanted: f64) -> usize {
        let Some(sd) = self.sd.filter(|_| self.rounds >= ROUNDS_MIN) else {
            return ROUNDS_MIN.saturating_sub(self.rounds).max(1);
        };
        let enough = |&n: &usize| width(sd, n, level) <= wanted;
        let all = (self.rounds + 1..ROUNDS_MAX).find(enough).unwrap_or(ROUNDS_MAX);
        all.saturating_sub(self.rounds).max(1)
    }
}

fn width(sd: f64, rounds: usize, level: f64) -> f64 {
    if sd == 0.0 {
        return 0.0;
    }
    t_quantile(level, rounds as u32 - 1) * sd / (rounds as f64).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scores(values: &[f64]) -> Vec<Score> {
        values.iter().map(|&value| Score { value, at_least: false }).collect()
    }

    fn against_zero(values: &[f64]) -> ScoreDifference {
        ScoreDifference::of(&scores(values), &scores(&vec![0.0; values.len()])).unwrap()
    }

    #[test]
    fn different_needs_an_interval_without_zero_and_a_difference_that_matters() {
        assert_eq!(against_zero(&[-0.5, -0.52, -0.48]).verdict(0.05), Verdict::Better);
        assert_eq!(against_zero(&[0.5, 0.52, 0.48]).verdict(0.05), Verdict::Worse);
        assert_eq!(against_zero(&[0.5, 0.9, 0.1]).verdict(0.05), Verdict::Undecided);
        assert_eq!(against_zero(&[0.02, 0.021, 0.019]).verdict(0.05), Verdict::Same, "too small");
        assert_eq!(against_zero(&[0.5, 0.5]).verdict(0.05), Verdict::Undecided, "too few");
        assert_eq!(against_zero(&[0.0; 3]).verdict(0.05), Verdict::Same);
    }

    /// t(0.995, 2) = 9.925; t(0.95, 2) = 2.920: sd 0.01, so 0.0573 and 0.01686.
    #[test]
    fn the_two_intervals_have_the_levels_of_their_questions() {
        let c = against_zero(&[0.03, 0.04, 0.05]);
        let (low, high) = c.interval().unwrap();
        assert!((low + 0.0173).abs() < 1e-4 && (high - 0.0973).abs() < 1e-4, "{low} {high}");
        assert!(c.no_worse(0.057) && !c.no_worse(0.0568));
        assert!(c.no_better(0.001));
    }

    #[test]
    fn a_bound_is_certain_on_its_own_side_alone() {
        let cut = |v: f64| vec![Score { value: v, at_least: true }; 3];
        let worse = ScoreDifference::of(&cut(1.0), &scores(&[0.0; 3])).unwrap();
        assert_eq!((worse.verdict(0.05), worse.interval()), (Verdict::Worse, None));
        let better = ScoreDifference::of(&cut(-1.0), &scores(&[0.0; 3])).unwrap();
        assert_eq!(better.verdict(0.05), Verdict::Undecided, "it may be worse in truth");
        let gained = ScoreDifference::of(&scores(&[0.0; 3]), &cut(1.0)).unwrap();
        assert_eq!(gained.verdict(0.05), Verdict::Better);
        let of =
            |ours, theirs| ScoreDifference::of(&cut(ours), &cut(theirs)).unwrap().verdict(0.05);
        assert_eq!(of(1.0, 1.0), Verdict::Same, "as far as the limit lets see");
        assert_eq!((of(-1.0, 0.0), of(0.0, -1.0)), (Verdict::Better, Verdict::Worse));
    }

    #[test]
    fn advised_rounds_make_the_interval_narrow_enough() {
        let few = against_zero(&[0.5]);
        assert_eq!(few.more(0.05), 2, "three are the least");
        let c = against_zero(&[-0.2, -0.1, -0.3, -0.05]);
        let all = c.rounds + c.more(0.05);
        let sd = c.sd.unwrap();
        assert!(width(sd, all, DIFFERENT) <= 0.1625 && width(sd, all - 1, DIFFERENT) > 0.1625);
        assert_eq!(against_zero(&[9.0, -9.0, 0.0]).more(1e-6), ROUNDS_MAX - 3, "bounded");
    }
}
