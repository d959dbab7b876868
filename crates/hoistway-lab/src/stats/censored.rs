//! Values that are only known to lie beyond something: starts that were given up, I/Os that had not ended
//! when the run did (right-censored values; specs/statistics.md 1.4 and 4).
//!
//! A mean over such values is a lower bound: every censored one counts with the time it had. Quantiles are
//! those of the Kaplan-Meier estimate of the survival curve (Kaplan & Meier, "Nonparametric Estimation from
//! Incomplete Observations", 1958), which uses the censored ones as long as they were watched. Without
//! censored values both are the usual mean and the usual quantile.

use std::fmt;

/// How a number relates to the quantity it stands for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Bound {
    /// It is the quantity.
    #[default]
    Exact,
    /// The quantity is larger.
    Above,
    /// The quantity is this or larger.
    AtLeast,
    /// The quantity is smaller.
    Below,
}

impl Bound {
    /// What stands before the number: nothing, `>`, `>=` or `<`.
    pub fn sign(self) -> &'static str {
        match self {
            Bound::Exact => "",
            Bound::Above => ">",
            Bound::AtLeast => ">=",
            Bound::Below => "<",
        }
    }

    /// Of one over the number.
    #[must_use]
    pub fn turned(self) -> Bound {
        match self {
            Bound::Exact => Bound::Exact,
            Bound::Above | Bound::AtLeast => Bound::Below,
            Bound::Below => Bound::Above,
        }
    }
}

/// A number and what it says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounded {
    /// The number.
    pub value: f64,
    /// How the quantity relates to it.
    pub bound: Bound,
}

impl From<f64> for Bounded {
    fn from(value: f64) -> Bounded {
        Bounded { value, bound: Bound::Exact }
    }
}

impl Bounded {
    /// The quantity is larger than `value`.
    pub fn above(value: f64) -> Bounded {
        Bounded { value, bound: Bound::Above }
    }

    /// The number itself, unless it is only a bound.
    pub fn exact(self) -> Option<f64> {
        (self.bound == Bound::Exact).then_some(self.value)
    }

    /// The same in another unit, above 0.
    #[must_use]
    pub fn times(self, factor: f64) -> Bounded {
        Bounded { value: self.value * factor, ..self }
    }

    /// Mean of values and lower bounds: a lower bound as soon as one of them is. `None` of nothing.
    pub fn mean(values: &[Bounded]) -> Option<Bounded> {
        if values.is_empty() {
            return None;
        }
        let value = super::sum(values.iter().map(|v| v.value)) / values.len() as f64;
        let cut = values.iter().any(|v| v.bound != Bound::Exact);
        Some(Bounded { value, bound: if cut { Bound::Above } else { Bound::Exact } })
    }

    /// The largest of values that ended and of those cut after the times in `cut`. Above all that ended is
    /// the largest bound; below it one of the cut may still be the largest.
    pub fn largest(ended: Option<f64>, cut: Option<f64>) -> Option<Bounded> {
        match (ended, cut) {
            (Some(e), Some(c)) if e > c => Some(Bounded { value: e, bound: Bound::AtLeast }),
            (_, Some(c)) => Some(Bounded::above(c)),
            (e, None) => e.map(Bounded::from),
        }
    }
}

impl Bounded {
    /// Three significant digits of it; of a bound on its safe side, so that it is true as printed.
    pub fn three(self) -> f64 {
        if self.value == 0.0 || !self.value.is_finite() {
            return self.value;
        }
        let scale = libm::pow(10.0, f64::from(self.power()));
        // Decimal fractions are not exact: 25.6 must not become 25.5.
        let slack = self.value.abs() * scale * 1e-12;
        let scaled = self.value * scale;
        let whole = match self.bound {
            // What it is at least was measured: rounded like any other value.
            Bound::Exact | Bound::AtLeast => libm::round(scaled),
            Bound::Above => libm::floor(scaled + slack),
            Bound::Below => libm::ceil(scaled - slack),
        };
        whole / scale
    }

    /// Of ten, by which the third significant digit is a whole number.
    fn power(self) -> i32 {
        2 - libm::floor(libm::log10(self.value.abs())) as i32
    }
}

/// Three significant digits, a bound rounded to its safe side: `>13.3`, `>60`.
impl fmt::Display for Bounded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.value == 0.0 || !self.value.is_finite() {
            return write!(f, "{}{}", self.bound.sign(), self.value);
        }
        let digits = usize::try_from(self.power()).unwrap_or(0);
        let text = format!("{:.digits$}", self.three());
        let text = match text.contains('.') {
            true => text.trim_end_matches('0').trim_end_matches('.'),
            false => &text,
        };
        write!(f, "{}{text}", self.bound.sign())
    }
}

/// Of products of ratios: this near is the same.
const NEAR: f64 = 1e-9;

/// Kaplan-Meier estimate of the median: half are known to last at most as long. Where the curve stays at
/// one half, the middle of that stretch, as of an even number of values; `None` if it does not come down to
/// one half, or stays there for ever.
pub fn median(ended: &[f64], cut: &[f64]) -> Option<f64> {
    let (mut ended, mut cut) = (ended.to_vec(), cut.to_vec());
    ended.sort_by(f64::total_cmp);
    cut.sort_by(f64::total_cmp);
    let steps = ended.iter().map(|&v| (v, 1));
    let mut half = None;
    for (value, survivors) in survival(steps, &cut) {
        if let Some(at) = half {
            return Some((at + value) / 2.0);
        }
        if (survivors - 0.5).abs() < NEAR {
            half = Some(value);
        } else if survivors < 0.5 {
            return Some(value);
        }
    }
    None
}

/// Kaplan-Meier estimate of a quantile: the smallest value up to which at least `share` have ended. `ended`:
/// values, ascending, and how many; `cut`: ascending.
pub fn quantile(
    ended: impl IntoIterator<Item = (f64, u64), IntoIter: Clone>,
    cut: &[f64],
    share: f64,
) -> Option<f64> {
    survival(ended, cut).find(|&(_, s)| s <= 1.0 - share + NEAR).map(|(value, _)| value)
}

/// The values and the share that lasts longer than each. Who was cut at a value was still watched then.
fn survival(
    ended: impl IntoIterator<Item = (f64, u64), IntoIter: Clone>,
    cut: &[f64],
) -> impl Iterator<Item = (f64, f64)> {
    let ended = ended.into_iter();
    let mut watched = ended.clone().map(|(_, n)| n).sum::<u64>() + cut.len() as u64;
    let (mut share, mut gone) = (1.0, 0);
    ended.filter(|&(_, n)| n > 0).map(move |(value, n)| {
        let before = cut.partition_point(|&c| c < value);
        watched -= (before - gone) as u64;
        gone = before;
        share *= (watched - n) as f64 / watched as f64;
        watched -= n;
        (value, share)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_censoring_the_median_is_the_usual_one() {
        assert_eq!(median(&[3.0, 1.0, 2.0], &[]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0], &[]), Some(2.5));
        assert_eq!(median(&[1.0, 1.0, 1.0, 9.0], &[]), Some(1.0));
        assert_eq!(median(&[], &[]), None);
    }

    /// Freireich's data of 6-mercaptopurine (1963), the textbook's example: the median is 23 weeks.
    #[test]
    fn the_textbook_median_of_a_censored_sample() {
        let ended = [6.0, 6.0, 6.0, 7.0, 10.0, 13.0, 16.0, 22.0, 23.0];
        let cut = [6.0, 9.0, 10.0, 11.0, 17.0, 19.0, 20.0, 25.0, 32.0, 32.0, 34.0, 35.0];
        assert_eq!(median(&ended, &cut), Some(23.0));
        let steps: Vec<(f64, u64)> =
            vec![(6.0, 3), (7.0, 1), (10.0, 1), (13.0, 1), (16.0, 1), (22.0, 1), (23.0, 1)];
        let curve: Vec<f64> = survival(steps.clone(), &cut).map(|(_, s)| s).collect();
        let printed = [0.857, 0.807, 0.753, 0.690, 0.627, 0.538, 0.448];
        for (got, expected) in curve.iter().zip(printed) {
            assert!((got - expected).abs() < 0.0006, "{curve:?}");
        }
        assert_eq!(quantile(steps, &cut, 0.25), Some(13.0));
    }

    #[test]
    fn a_median_beyond_what_was_watched_is_unknown() {
        assert_eq!(median(&[1.0], &[60.0]), None, "the curve stays at one half");
        assert_eq!(median(&[1.0], &[60.0, 60.0]), None);
        // Cut before anybody ended: it says nothing about the others.
        assert_eq!(median(&[25.6], &[1.0]), Some(25.6));
    }

    #[test]
    fn bounds_are_rounded_to_their_safe_side() {
        let text = |value, bound| Bounded { value, bound }.to_string();
        assert_eq!(text(60.0, Bound::Above), ">60");
        assert_eq!(text(13.3399, Bound::Above), ">13.3");
        assert_eq!(text(25.6, Bound::Above), ">25.6");
        assert_eq!(text(25.599, Bound::AtLeast), ">=25.6");
        assert_eq!(text(0.012_39, Bound::Above), ">0.0123");
        assert_eq!(text(3.121, Bound::Below), "<3.13");
        assert_eq!(text(12_345.0, Bound::Above), ">12300");
        assert_eq!(text(2.5, Bound::Exact), "2.5");
        assert_eq!(text(99.99, Bound::Exact), "100");
        assert_eq!(text(0.0, Bound::Above), ">0");
    }

    #[test]
    fn a_mean_with_a_bound_in_it_is_a_bound() {
        let mean = |v: &[Bounded]| Bounded::mean(v);
        assert_eq!(mean(&[1.0.into(), 3.0.into()]), Some(2.0.into()));
        assert_eq!(mean(&[25.0.into(), Bounded::above(1.0)]), Some(Bounded::above(13.0)));
        assert_eq!(mean(&[]), None);
        let at_least = Bounded { value: 25.0, bound: Bound::AtLeast };
        assert_eq!(Bounded::largest(Some(25.0), Some(1.0)), Some(at_least));
        assert_eq!(Bounded::largest(Some(25.0), Some(60.0)), Some(Bounded::above(60.0)));
        assert_eq!(Bounded::largest(Some(25.0), None), Some(25.0.into()));
    }
}
