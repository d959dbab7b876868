//! Does a change of place cost, and how much?
//!
//! *Problem.* A disk, and a volume that merges what arrives in sequence, are faster if one process goes on for a while;
//! other drives are not, and a target waits for each row.
//!
//! *Rule.* With everything open: an epoch as it is (Ceiling), one in the other way (Batch). Only if that is better by
//! twice `loss`, one more of each (Again, Proof). The other way is taken if it was better both times than the better of
//! the two. What it gains by so much longer rows is the price of a change.
//!
//! *Guarantee.* A burst at the beginning of a load (a write buffer that fills, credit that is spent), whichever epoch it
//! falls into, gives no rows and no price.
//!
//! *Weakness.* Two bursts in the right epochs do.
//!
//! Source: specs/paternoster.md 4.

use super::super::epoch::{Around, Measured, RateSample};
use super::super::measure::Units;
use super::{Asked, Limits, Phase, ROW, Valve};

/// Most that a change of place is believed to cost: a megabyte. For more than that a read waited half a second.
const CHANGE_MOST: Units = Units::whole(128);

impl Valve {
    /// Rows where there are none, and none where there are.
    pub(super) fn other_row(&self) -> Units {
        if self.knee.row == Units(0) { ROW } else { Units(0) }
    }

    /// Beside flushes no price of a change is inferred: their scatter would be taken for one.
    fn is_better(&self, measured: &Measured, other: RateSample, than: RateSample) -> bool {
        !measured.flushing && other.rate.is_better_than(than.rate, self.loss)
    }

    pub(super) fn other_rows(
        &mut self,
        measured: &Measured,
        asked: Asked,
        open: RateSample,
        around: Around,
    ) {
        let other = measured.sample;
        if !self.is_better(measured, other, open) {
            return self.judge(open.rate, asked, around);
        }
        let limits = Limits { row: self.knee.row, ..self.in_force };
        self.put(Phase::Again { asked, open, other }, limits, around);
    }

    pub(super) fn rows_again(
        &mut self,
        measured: &Measured,
        asked: Asked,
        open: RateSample,
        other: RateSample,
        around: Around,
    ) {
        let best = measured.sample.best_of(open);
        if !self.is_better(measured, other, best) {
            return self.judge(best.rate, asked, around);
        }
        let limits = Limits { row: self.other_row(), ..self.in_force };
        self.put(Phase::Proof { asked, best }, limits, around);
    }

    pub(super) fn rows_proven(
        &mut self,
        measured: &Measured,
        asked: Asked,
        best: RateSample,
        around: Around,
    ) {
        let other = measured.sample;
        if !self.is_better(measured, other, best) {
            return self.judge(best.rate, asked, around);
        }
        let rows = self.knee.row > Units(0);
        (self.knee.row, self.change) = match rows {
            true => (Units(0), Units(0)),
            false => (ROW, price_of_change(best, other)),
        };
        self.judge(other.rate, asked, around);
    }
}

/// (B / A - 1) / max(1 / s_A - 1 / s_B, 0.1 / s_A) sectors, which are sixteenths of units.
fn price_of_change(a: RateSample, b: RateSample) -> Units {
    let fewer = 1000u64.saturating_sub(1000 * a.row / b.row.max(1)).max(100);
    let gain = u128::from(b.rate.0 - a.rate.0) * u128::from(a.row) * 1000;
    let price = gain / (u128::from(a.rate.0.max(1)) * u128::from(fewer));
    Units(price as u64).clamp(Units(1), CHANGE_MOST)
}

#[cfg(test)]
mod tests {
    use super::super::super::epoch::{Done, Passage};
    use super::super::super::measure::UNIT;
    use super::*;
    use crate::unit::{Instant, Nanos, Sectors};

    const AROUND: Around = Around { requests: 300, inside: 8, service_least: Nanos::us(100) };

    /// Epochs of the first trial of rows, as long as it lasts: rates in percent. The price of a change, and how many
    /// requests were completed.
    fn trial(percent: &[u64]) -> (Units, usize) {
        let mut valve = Valve::new(Instant::ZERO);
        let (mut now, mut requests) = (Instant::ZERO, 0);
        for percent in percent {
            let phase = valve.phase();
            while valve.phase() == phase {
                now += Nanos(20_000_000 / percent);
                requests += 1;
                assert!(requests < 10_000, "{:?}", valve.phase());
                let sectors = Sectors(64);
                valve.issued(sectors, sectors, Units(UNIT));
                let done = Done { sectors, units: Units(UNIT + 64), passage: Passage::Greedy };
                valve.completed(now, done, AROUND);
            }
        }
        assert!(!valve.phase().is_open(), "the trial is over: {:?}", valve.phase());
        (valve.change(), requests)
    }

    #[test]
    fn rows_must_be_better_twice() {
        assert!(trial(&[100, 150, 100, 150]).0 > Units(0));
        // A burst in any one epoch, and a rate that rises or falls.
        for rates in [
            &[150, 100][..],
            &[100, 150, 150],
            &[100, 150, 100, 100],
            &[100, 120, 140],
            &[140, 120],
        ] {
            assert_eq!(trial(rates).0, Units(0), "{rates:?}");
        }
    }

    #[test]
    fn a_trial_waits_for_what_is_inside_and_not_for_all_that_waits() {
        let epochs = 4 * 50;
        let settled = trial(&[100, 150, 100, 150]).1;
        assert!((epochs..epochs + 100).contains(&settled), "{settled}, and 300 wait");
    }
}
