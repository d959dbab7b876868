//! Pairs of slices: is one setting of the valve as good as another on a drive whose rate scatters?
//!
//! *Problem.* One epoch against one compares chances where the drive is a third as fast in the next epoch. Means of
//! settings 3 % apart would take hundreds of epochs each (specs/paternoster.md, B7).
//!
//! *Idea.* Do not compare means. What disturbs a drive (garbage collection, a neighbour on the same host) comes and
//! goes; between two disturbances the rates of short parts lie close together, and a valve that is too small shows
//! there as well. And compare neighbours in time, so that drift cancels.
//!
//! *Rule.* A *slice* is eight parts of epochs under the same limits; its *clear* rate is that of the third fastest.
//! Slices come in the order A B B A: A what was accepted last, B the step. Two neighbours are a pair. After every
//! second pair the mean of the differences of clear rates is compared with the least that is enough: the step is
//! accepted if the mean is two standard errors above it, refused if two below, and after twelve pairs by the mean
//! alone; with two pairs it takes twelve errors, with four pairs three. It is refused too if the plain rates, with all
//! disturbances, are that much below.
//!
//! *Guarantee.* Linear drift cancels. Disturbances that leave three parts of a slice alone do not change its rate.
//!
//! *Weakness.* A drive that needs more inside while it is disturbed than between is throttled then, as far as the plain
//! rates do not show it.
//!
//! Source: specs/paternoster.md 4.

use super::super::epoch::Measured;
use super::super::measure::{Permille, SectorRate};
use super::Limits;
use crate::unit::Sectors;

/// Parts of a slice, and how many are faster than its clear rate.
const PARTS: usize = 8;
const FASTER: usize = 2;
/// Pairs before something is decided, and when it must be.
const PAIRS_LEAST: i64 = 2;
const PAIRS_MOST: i64 = 12;
/// A whole, in millionths.
pub(super) const WHOLE: i64 = 1_000_000;

/// b - a in millionths of a, at most three wholes.
fn difference(a: SectorRate, b: SectorRate) -> i64 {
    let ratio = u128::from(b.0) * WHOLE as u128 / u128::from(a.0.max(1));
    ratio.min(4 * WHOLE as u128) as i64 - WHOLE
}

/// How far rates of neighbouring epochs under the same limits lie apart.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Scatter {
    /// Variance of an epoch, in thousandths squared, and differences behind it.
    var: i64,
    known: i64,
    last: Option<SectorRate>,
}

impl Scatter {
    /// Differences that it takes to be believed, and that are remembered.
    const LEAST: i64 = 2;
    const MOST: i64 = 32;

    /// An epoch; those with flushes lie apart because of them.
    pub fn add(&mut self, measured: &Measured) {
        let rate = measured.sample.rate;
        if measured.flushing {
            self.last = None;
        } else if let Some(last) = self.last.replace(rate) {
            let apart = difference(last, rate) / 1000;
            self.known = (self.known + 1).min(Scatter::MOST);
            self.var += (apart * apart / 2 - self.var) / self.known;
        }
    }

    /// What comes is not to be compared with what was.
    pub fn interrupted(&mut self) {
        self.last = None;
    }

    /// The standard deviation of an epoch is above so much.
    pub fn exceeds(&self, most: Permille) -> bool {
        self.known >= Scatter::LEAST && self.var > (most.0 * most.0) as i64
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Differences {
    n: i64,
    sum: i64,
    squares: i128,
}

impl Differences {
    fn add(&mut self, d: i64) {
        self.n += 1;
        self.sum += d;
        self.squares += i128::from(d) * i128::from(d);
    }

    fn mean(&self) -> i64 {
        self.sum / self.n.max(1)
    }

    /// Two standard errors of the mean; more while few pairs say little about it (Student's t).
    fn error(&self) -> i64 {
        let times = match self.n {
            ..3 => 12,
            3..5 => 3,
            _ => 2,
        };
        let (n, sum) = (i128::from(self.n.max(1)), i128::from(self.sum));
        let var = (self.squares - sum * sum / n) / (n - 1).max(1);
        times * (var / n).max(0).isqrt() as i64
    }
}

/// Rates of a slice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct SliceRates {
    clear: SectorRate,
    plain: SectorRate,
}

/// The slice that runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Parts {
    rates: [SectorRate; PARTS],
    got: usize,
    /// Sectors a second times nanoseconds, and nanoseconds.
    moved: u128,
    time: u64,
}

impl Parts {
    /// One more; the slice, if that was the last.
    fn add(&mut self, m: &Measured) -> Option<SliceRates> {
        self.rates[self.got] = m.sample.rate;
        self.got += 1;
        self.moved += u128::from(m.sample.rate.0) * u128::from(m.time.0);
        self.time += m.time.0;
        if self.got < PARTS {
            return None;
        }
        self.rates.sort_unstable_by(|a, b| b.cmp(a));
        let plain = SectorRate((self.moved / u128::from(self.time.max(1))) as u64);
        let slice = SliceRates { clear: self.rates[FASTER], plain };
        *self = Parts::default();
        Some(slice)
    }
}

/// Is the step enough?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StepVerdict {
    /// With its rate less that of what was accepted, in millionths.
    Enough(i64),
    TooLittle,
}

/// What follows a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PartEnd {
    /// More of the same.
    Part,
    /// A slice under those limits.
    Slice(Limits),
    Over(StepVerdict),
}

/// A comparison under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Pairs {
    accepted: Limits,
    step: Limits,
    /// Least difference that is enough.
    least: i64,
    parts: Parts,
    /// Slices of this A B B A.
    slices: u32,
    /// The first of a pair.
    first: SliceRates,
    clear: Differences,
    plain: Differences,
    /// Plain rate under the accepted limits, and slices behind it.
    rate: SectorRate,
    rates: u64,
}

impl Pairs {
    pub fn new(accepted: Limits, step: Limits, least: i64) -> Pairs {
        Pairs {
            accepted,
            step,
            least,
            parts: Parts::default(),
            slices: 0,
            first: SliceRates::default(),
            clear: Differences::default(),
            plain: Differences::default(),
            rate: SectorRate::UNKNOWN,
            rates: 0,
        }
    }

    /// What is on trial.
    pub fn step(&self) -> Limits {
        self.step
    }

    /// Least difference that is enough.
    #[cfg(test)]
    pub fn least(&self) -> i64 {
        self.least
    }

    /// From now on no larger pieces.
    pub fn cut_to(&mut self, cut: Sectors) {
        self.accepted.cut = self.accepted.cut.min(cut);
        self.step.cut = self.step.cut.min(cut);
    }

    fn is_accepted(&self) -> bool {
        matches!(self.slices, 0 | 3)
    }

    /// Limits of the slice that runs.
    pub fn limits(&self) -> Limits {
        if self.is_accepted() { self.accepted } else { self.step }
    }

    /// Mean rate of what was accepted, with all disturbances.
    pub fn rate(&self) -> SectorRate {
        self.rate
    }

    /// A part of the slice is over.
    pub(super) fn add(&mut self, measured: &Measured) -> PartEnd {
        let Some(slice) = self.parts.add(measured) else { return PartEnd::Part };
        if self.is_accepted() {
            self.rates += 1;
            let sum = self.rate.0 * (self.rates - 1) + slice.plain.0;
            self.rate = SectorRate(sum / self.rates);
        }
        match self.slices {
            1 => self.pair(self.first, slice),
            3 => self.pair(slice, self.first),
            _ => self.first = slice,
        }
        self.slices = (self.slices + 1) % 4;
        match self.verdict() {
            Some(verdict) if self.slices == 0 => PartEnd::Over(verdict),
            _ => PartEnd::Slice(self.limits()),
        }
    }

    fn pair(&mut self, accepted: SliceRates, step: SliceRates) {
        self.clear.add(difference(accepted.clear, step.clear));
        self.plain.add(difference(accepted.plain, step.plain));
    }

    fn verdict(&self) -> Option<StepVerdict> {
        let (mean, error) = (self.clear.mean(), self.clear.error());
        if self.clear.n < PAIRS_LEAST {
            return None;
        }
        let plain = self.plain.mean() + self.plain.error();
        if mean + error < self.least || plain < self.least {
            return Some(StepVerdict::TooLittle);
        }
        let decided = mean - error >= self.least || self.clear.n >= PAIRS_MOST;
        let enough = mean >= self.least;
        decided.then_some(if enough { StepVerdict::Enough(mean) } else { StepVerdict::TooLittle })
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::epoch::RateSample;
    use super::super::super::measure::Units;
    use super::*;
    use crate::unit::Nanos;

    const A: Limits = Limits { k: Units::whole(96), cut: Sectors(256), row: Units(0) };
    const B: Limits = Limits { k: Units::whole(48), ..A };
    const LEAST: i64 = -WHOLE * 3 / 100;

    fn part(rate: u64) -> Measured {
        Measured {
            sample: RateSample { rate: SectorRate(rate), row: 1 },
            held: true,
            flush_limited: false,
            flushed: false,
            flushing: false,
            peak: A.k,
            by_valve: true,
            by_syncs: false,
            units: A.k,
            time: Nanos::us(2_500),
        }
    }

    /// Parts until it is over; `rate` knows the number of the part and whether the step is in force.
    fn compare(rate: impl Fn(u64, bool) -> u64) -> (StepVerdict, u64) {
        let mut pairs = Pairs::new(A, B, LEAST);
        for n in 0..1_000 {
            let step = pairs.limits() == B;
            if let PartEnd::Over(verdict) = pairs.add(&part(rate(n, step))) {
                return (verdict, n + 1);
            }
        }
        panic!("it never ends");
    }

    /// Five of eight parts are three times as slow, others each time.
    fn disturbed(n: u64) -> u64 {
        if (n * 5 + n / 8) % 8 < 5 { 3 } else { 1 }
    }

    #[test]
    fn disturbances_that_come_and_go_hide_no_loss_and_show_none() {
        let same = compare(|n, _| 300_000 / disturbed(n));
        assert_eq!(same, (StepVerdict::Enough(0), 4 * PARTS as u64), "two pairs are enough");
        let less = compare(|n, step| 300_000 * (100 - 5 * u64::from(step)) / 100 / disturbed(n));
        assert_eq!(less.0, StepVerdict::TooLittle);
    }

    #[test]
    fn drift_cancels_between_the_pairs() {
        // 1 % a slice: in the order A B A B the step would gain or lose 1 %.
        for slope in [-1_000, 1_000] {
            let drifting = |n: u64, _| (100_000 + slope * (n as i64 / PARTS as i64)) as u64;
            let StepVerdict::Enough(gain) = compare(drifting).0 else { panic!("nothing is lost") };
            assert!(gain.abs() < WHOLE / 1000, "{gain}");
        }
    }

    #[test]
    fn the_plain_rate_is_looked_at_too() {
        // Three parts of each slice are as fast, the others half as fast as they were.
        let slower = compare(|n, step| if n % 8 < 3 || !step { 100_000 } else { 50_000 });
        assert_eq!(slower.0, StepVerdict::TooLittle);
    }

    #[test]
    fn what_cannot_be_told_is_decided_by_the_mean_in_the_end() {
        let wild = |n: u64, _| 100_000 + 20_000 * ((n / PARTS as u64).pow(3) * 7 % 5);
        let (_, parts) = compare(wild);
        assert!(parts > 4 * PARTS as u64 && parts <= 24 * PARTS as u64, "{parts}");
    }

    #[test]
    fn scatter_is_that_of_neighbours_and_not_drift_and_not_flushes() {
        let scatter = |rate: fn(u64) -> u64, flushing| {
            let mut scatter = Scatter::default();
            for n in 0..64 {
                scatter.add(&Measured { flushing, ..part(rate(n)) });
            }
            scatter
        };
        let third = |n: u64| 300_000 / [1, 1, 3][n as usize % 3];
        assert!(scatter(third, false).exceeds(Permille(300)));
        assert!(!scatter(third, true).exceeds(Permille(1)));
        let drift = |n: u64| 300_000 + 3_000 * n;
        assert!(!scatter(drift, false).exceeds(Permille(10)), "although it ends 63 % higher");
    }
}
