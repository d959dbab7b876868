//! The way to the knee on a drive whose rate scatters.
//!
//! *Problem.* With one epoch a step (`valve.rs`) the ceiling is the luckiest epoch, steps are refused for an unlucky one,
//! and rows seem to pay by chance: the valve stays open, and a target waits nearly as long as without it.
//!
//! *Rule.* If the epochs of Holds scatter by more than three times `loss` (standard deviation, from neighbours),
//! everything is judged by pairs of slices (`pairs.rs`) from there on. Rows that are in force are tried again. Then four
//! times the rate times the least latency of the lane is compared with everything open; where that is not enough, the
//! cut and then the valve are doubled. From there it goes down by halves, after the first refusal by quarters, and on
//! to smaller pieces. What accepted steps lost is multiplied, and no step may take the product below 1 - `loss`. At the
//! end of a Hold the knee is compared with everything open, and cut and valve are raised in turn if they are not
//! enough. Scatter below half of what it began with ends it.
//!
//! *Guarantee.* A drive that does not scatter is served as if this file did not exist. Losses do not add up beyond
//! `loss`, as far as pairs show them.
//!
//! *Weakness.* A step takes 0.1 to 1 s, so the knee is found after 1 to 3 s, and a change of the load is seen at the end
//! of a Hold only.
//!
//! Source: specs/paternoster.md 4.

use super::super::epoch::{Around, Measured};
use super::super::measure::{Permille, SectorRate, Units};
use super::pairs::{Pairs, PartEnd, StepVerdict, WHOLE};
use super::{
    CUT_FIRST, FIRST, HOLD, LEAST, Limits, Phase, ROW, UNCUT, Valve, doubled, quarter_less,
};
use crate::unit::{Nanos, Sectors};

/// Least that the way down begins with.
const FIRST_LEAST: Units = Units::whole(24);
/// Doublings of a Hold at most: a changed load is not seen before its end.
const BACKOFF_MOST: u32 = 2;

/// What pairs are to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Trial {
    /// Rows are still worth it.
    Rows,
    /// The first valve is enough.
    Open,
    /// Half the valve is enough.
    Coarse,
    /// Three quarters of it are; so much was refused.
    Fine { refused: Units },
    /// Half the cut is enough.
    Cut,
    /// What was held is still enough.
    Check,
}

/// What is known while steps are judged by pairs.
#[derive(Clone, Copy, Debug)]
pub(super) struct ByPairs {
    /// Of the open rate, what the accepted steps keep (millionths).
    kept: i64,
    /// Where the way down begins.
    first: Units,
}

/// Four times what fills the drive: rate with everything open times least latency.
fn first(measured: &Measured, ceiling: SectorRate, around: Around) -> Units {
    if around.service_least == Nanos::ZERO {
        return FIRST;
    }
    let rate = u128::from(measured.sample.rate.0.max(1));
    let work = u128::from(measured.units.0) * u128::from(ceiling.0).max(rate) / rate;
    let fills = work * u128::from(around.service_least.0) / u128::from(measured.time.0.max(1));
    Units(4 * fills.min(u128::from(FIRST.0)) as u64).clamp(FIRST_LEAST, FIRST)
}

impl Valve {
    /// Epochs under the same limits differ so much that one of them decides nothing.
    pub(super) fn scatters(&self) -> bool {
        let fixed = self.fixed_k() > Units(0) || self.fixed_cut() > Sectors(0);
        !fixed && self.scatter.exceeds(Permille(3 * self.loss().0))
    }

    /// Less than that, and one is enough again.
    pub(super) fn scatters_still(&self) -> bool {
        self.scatter.exceeds(Permille(3 * self.loss().0 / 2))
    }

    /// From here on by pairs.
    pub(super) fn begin_pairs(&mut self, measured: &Measured, around: Around) {
        let open = self.open();
        let first = first(measured, self.ceiling, around);
        self.by_pairs = Some(ByPairs { kept: WHOLE, first });
        self.backoff = 0;
        if self.knee.row == Units(0) {
            return self.begin_down(around);
        }
        let (none, rows) = (Limits { row: Units(0), ..open }, Limits { row: ROW, ..open });
        self.compare(Trial::Rows, none, rows, 2 * self.loss_millionths(), around);
    }

    fn loss_millionths(&self) -> i64 {
        1000 * self.loss().0 as i64
    }

    fn begin_down(&mut self, around: Around) {
        let Some(by) = &mut self.by_pairs else { return };
        by.kept = WHOLE;
        let k = by.first;
        let cut = if self.lane_seen { CUT_FIRST } else { UNCUT };
        let step = Limits { k, cut, row: self.knee.row };
        self.against(Trial::Open, self.open(), step, around);
    }

    /// A Hold is over: the knee against everything open.
    pub(super) fn check(&mut self, measured: &Measured, around: Around) {
        if let Some(by) = &mut self.by_pairs {
            by.kept = WHOLE;
            by.first = first(measured, self.ceiling, around);
        }
        self.against(Trial::Check, self.open(), self.knee, around);
    }

    /// Compares; what the steps before have lost is not there to be lost again.
    fn against(&mut self, trial: Trial, accepted: Limits, step: Limits, around: Around) {
        let kept = self.by_pairs.map_or(WHOLE, |by| by.kept);
        let least = (WHOLE - self.loss_millionths()) * WHOLE / kept - WHOLE;
        self.compare(trial, accepted, step, least, around);
    }

    fn compare(&mut self, trial: Trial, a: Limits, b: Limits, least: i64, around: Around) {
        self.put(Phase::Pairs { trial, pairs: Pairs::new(a, b, least) }, a, around);
    }

    /// A part of a slice is over.
    pub(super) fn pair(
        &mut self,
        measured: &Measured,
        trial: Trial,
        mut pairs: Pairs,
        around: Around,
    ) {
        if measured.flush_limited {
            // Beside flushes nothing steps down.
            return self.hold_pairs(around);
        }
        match pairs.add(measured) {
            PartEnd::Part => self.phase = Phase::Pairs { trial, pairs },
            PartEnd::Slice(limits) => self.put(Phase::Pairs { trial, pairs }, limits, around),
            PartEnd::Over(verdict) => {
                let step = pairs.step();
                if matches!(trial, Trial::Open | Trial::Check) {
                    self.ceiling = pairs.rate();
                }
                match verdict {
                    StepVerdict::Enough(gain) => self.accepted(trial, step, gain, around),
                    StepVerdict::TooLittle => self.refused(trial, step, around),
                }
            }
        }
    }

    fn accepted(&mut self, trial: Trial, step: Limits, gain: i64, around: Around) {
        if trial == Trial::Rows {
            return self.begin_down(around);
        }
        if let Some(by) = &mut self.by_pairs {
            by.kept = (by.kept * (WHOLE + gain) / WHOLE).min(WHOLE);
        }
        self.knee = step;
        match trial {
            Trial::Open | Trial::Coarse => self.halve(around),
            Trial::Fine { refused } => self.quarter(refused, around),
            Trial::Rows | Trial::Cut => self.quarter(Units(0), around),
            Trial::Check => {
                self.backoff = (self.backoff + 1).min(BACKOFF_MOST);
                self.quarter(Units(0), around);
            }
        }
    }

    fn refused(&mut self, trial: Trial, step: Limits, around: Around) {
        match trial {
            Trial::Rows => {
                (self.knee.row, self.change) = (Units(0), Units(0));
                self.begin_down(around);
            }
            Trial::Open => self.widen(step, around),
            Trial::Coarse => self.quarter(step.k, around),
            Trial::Fine { .. } => self.smaller_pieces(around),
            Trial::Cut => self.hold_pairs(around),
            Trial::Check => self.raise(around),
        }
    }

    /// Not even the first valve was enough: larger pieces, then more of them.
    fn widen(&mut self, mut step: Limits, around: Around) {
        let open = self.open();
        if step.cut < open.cut {
            step.cut = doubled(step.cut);
        } else {
            step.k = step.k * 2;
        }
        if step.k >= open.k {
            self.knee = open;
            return self.hold_pairs(around);
        }
        self.against(Trial::Open, open, step, around);
    }

    fn halve(&mut self, around: Around) {
        if self.knee.k <= LEAST {
            return self.smaller_pieces(around);
        }
        let step = Limits { k: (self.knee.k / 2).max(LEAST), ..self.knee };
        self.against(Trial::Coarse, self.knee, step, around);
    }

    fn quarter(&mut self, refused: Units, around: Around) {
        let k = quarter_less(self.knee.k);
        if k <= refused || k >= self.knee.k {
            return self.smaller_pieces(around);
        }
        self.against(Trial::Fine { refused }, self.knee, Limits { k, ..self.knee }, around);
    }

    fn smaller_pieces(&mut self, around: Around) {
        if !self.worth_cutting(around) {
            return self.hold_pairs(around);
        }
        self.against(Trial::Cut, self.knee, self.half_the_cut(), around);
    }

    fn hold_pairs(&mut self, around: Around) {
        self.hold_for(HOLD.doubled(self.backoff.min(BACKOFF_MOST)), around);
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::epoch::{Done, Meter, Passage, RateSample};
    use super::super::super::measure::UNIT;
    use super::*;
    use crate::unit::Instant;

    const AROUND: Around = Around { requests: 8, inside: 8, service_least: Nanos::us(400) };
    /// With less inside, the drive below is slower.
    const KNEE: Units = Units::whole(40);
    const DONE: Done =
        Done { sectors: Sectors(64), units: Units(UNIT + 64), passage: Passage::Greedy };

    /// A request each 100 us; if it is disturbed, each 300 us in 10 of 30 ms.
    struct Drive {
        valve: Valve,
        now: Instant,
        disturbed: bool,
    }

    impl Drive {
        fn new(disturbed: bool) -> Drive {
            let mut valve = Valve::new(Instant::ZERO);
            valve.see_lane(AROUND);
            Drive { valve, now: Instant::ZERO, disturbed }
        }

        fn complete(&mut self) {
            let slow = self.disturbed && self.now.since(Instant::ZERO).0 / 10_000_000 % 3 == 2;
            let time = Nanos::us(if slow { 300 } else { 100 });
            self.now += Nanos(time.0 * KNEE.0.max(self.valve.k().0) / self.valve.k().0);
            self.valve.held();
            self.valve.completed(self.now, DONE, AROUND);
        }

        /// Until the way down by pairs is over.
        fn down(&mut self) {
            let held = |v: &Valve| matches!(v.phase(), Phase::Hold { .. });
            let paired = |v: &Valve| matches!(v.phase(), Phase::Pairs { .. });
            for wanted in [paired, held] {
                let found = (0..200_000).any(|_| {
                    self.complete();
                    wanted(&self.valve)
                });
                assert!(found, "{:?}", self.valve.phase());
            }
        }
    }

    #[test]
    fn the_knee_is_found_on_a_drive_whose_rate_scatters() {
        let mut d = Drive::new(true);
        d.down();
        let near = |k: Units| k.0 * 100 >= KNEE.0 * 97 && k.0 * 5 < KNEE.0 * 7;
        assert!(near(d.valve.knee().k), "{:?}", d.valve.knee());
        assert_eq!(d.valve.knee().cut, Sectors(64));
        for _ in 0..100_000 {
            d.complete();
        }
        assert!(near(d.valve.knee().k), "checked, and kept: {:?}", d.valve.knee());
    }

    #[test]
    fn a_sound_drive_is_not_judged_by_pairs_and_one_that_was_disturbed_no_longer() {
        let mut d = Drive::new(false);
        for _ in 0..200_000 {
            d.complete();
            assert!(d.valve.by_pairs.is_none());
        }
        let mut d = Drive::new(true);
        d.down();
        d.disturbed = false;
        assert!((0..200_000).any(|_| {
            d.complete();
            d.valve.by_pairs.is_none()
        }));
    }

    #[test]
    fn steps_share_one_loss() {
        let mut valve = Valve::new(Instant::ZERO);
        valve.by_pairs = Some(ByPairs { kept: WHOLE, first: FIRST });
        for _ in 0..2 {
            let knee = valve.knee();
            valve.accepted(Trial::Coarse, knee, -10_000, AROUND);
        }
        // 98.01 % are left, so that 1.03 % of them may go.
        let Phase::Pairs { pairs, .. } = valve.phase() else { panic!("it is under way") };
        assert_eq!(pairs.least(), 970_000 * WHOLE / 980_100 - WHOLE);
    }

    fn half(sample: RateSample) -> RateSample {
        RateSample { rate: SectorRate(sample.rate.0 / 2), ..sample }
    }

    #[test]
    fn the_way_down_begins_at_four_times_rate_times_latency() {
        let mut meter = Meter::new(Instant::ZERO);
        let at = |n: u64| Instant::ZERO + Nanos::us(100 * n);
        let mut one = |n| meter.completed(at(n), DONE, CUT_FIRST, true);
        let measured = (1..200).find_map(&mut one).expect("a part ends");
        // Five units each 100 us, for 400 us, four times; the same if it was measured at half the rate.
        let rate = measured.sample.rate;
        let slow = Measured { time: measured.time * 2, sample: half(measured.sample), ..measured };
        for measured in [measured, slow] {
            assert_eq!(first(&measured, rate, AROUND), Units::whole(80));
        }
        let quick = Around { service_least: Nanos::us(1), ..AROUND };
        assert_eq!(first(&measured, rate, quick), FIRST_LEAST);
        let unknown = Around { service_least: Nanos::ZERO, ..AROUND };
        assert_eq!(first(&measured, rate, unknown), FIRST);
    }
}
