//! What targets without a number may take from the others.
//!
//! *Problem.* "As low as goes without loss" holds for the drive as a whole when the valve keeps it saturated. But a
//! fast target that asks again at once takes a part of the drive itself: 6 % of a SATA drive beside streams, 20 % of
//! the commands of a metered volume, half of a drive that serves one request at a time. That is the others' loss.
//!
//! *Idea.* A part of what is moved, `others_loss` less what the valve has given away already, so that the others keep
//! `1 - others_loss` of what the drive delivers wide open. Counted in sectors: at a saturated drive the others lose
//! as many as the target moves. Units would not do: they count the command, and small requests beside large ones
//! would look four times as dear as they are.
//!
//! *Rule.* A request that goes by the lane while others wait owes its sectors; whatever is moved pays `spare` of
//! itself. Beyond a short burst the lane is held, until that is paid or the turn of its leaf has come by its tags: it
//! never gets less than its share. Numeric targets and the real-time class owe nothing.
//!
//! *Guarantee.* At a drive that delivers its ceiling, a target without a number takes no more than its share or
//! `others_loss` of it, whichever is more, but for the burst.
//!
//! *Weakness.* Where a small request costs as much as a large one (metered volumes), the others lose more than its
//! sectors; there the valve sees the rate fall.

use crate::unit::Sectors;

/// Sectors that may be owed before the lane is held: sixteen requests of 4 KiB, so that what comes in bursts and
/// thinks in between is not held.
const BURST: u64 = 128;

#[derive(Debug)]
pub(super) struct Budget {
    /// In thousandths of what the drive delivers; `NO_LIMIT` and more: no limit.
    pub others_loss: u64,
    /// In thousandths of sectors.
    owed: u64,
}

/// The whole drive.
pub(super) const NO_LIMIT: u64 = 1000;

impl Budget {
    pub fn new() -> Budget {
        Budget { others_loss: 50, owed: 0 }
    }

    /// The part left of what the others may lose, when the drive delivers so much less than it could (thousandths);
    /// 7/10 of it at the least. The ceiling is the best of several epochs, so a shortfall looks larger than it is:
    /// with 4/10 a target of 3.4 % on an eMMC waited for nothing.
    pub fn spare(&self, short: u64) -> u64 {
        self.others_loss.saturating_sub(short).max(self.others_loss * 7 / 10)
    }

    /// A request with a target without a number goes while others wait.
    pub fn take(&mut self, sectors: Sectors, spare: u64) {
        self.owed += sectors.0 * (NO_LIMIT - spare);
    }

    /// Greedy work goes.
    pub fn pay(&mut self, sectors: Sectors, spare: u64) {
        self.owed = self.owed.saturating_sub(sectors.0 * spare);
    }

    /// More is owed than a burst.
    pub fn spent(&self) -> bool {
        self.others_loss < NO_LIMIT && self.owed > BURST * NO_LIMIT
    }

    /// In sectors.
    #[cfg(test)]
    fn owed(&self) -> u64 {
        self.owed / NO_LIMIT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A lane that always asks, beside greedy requests of 64 sectors: its part in thousandths.
    fn part(spare: u64) -> u64 {
        let mut b = Budget::new();
        let (mut lane, mut greedy) = (0, 0);
        for _ in 0..100_000 {
            if b.spent() {
                b.pay(Sectors(64), spare);
                greedy += 64;
            } else {
                b.take(Sectors(8), spare);
                lane += 8;
            }
        }
        1000 * lane / (lane + greedy)
    }

    #[test]
    fn a_lane_that_always_asks_gets_its_part_and_not_more() {
        for spare in [20, 50, 200] {
            let got = part(spare);
            assert!(got.abs_diff(spare) <= 1, "{got} of {spare}");
        }
    }

    #[test]
    fn what_the_valve_gives_away_is_not_there_for_the_lane() {
        let b = Budget::new();
        assert_eq!(b.spare(0), 50);
        assert_eq!(b.spare(10), 40);
        assert_eq!(b.spare(300), 35, "the valve is to mend that, not the lane");
        assert_eq!(Budget { others_loss: 0, owed: 0 }.spare(0), 0);
    }

    #[test]
    fn no_limit_is_never_spent() {
        let mut b = Budget { others_loss: NO_LIMIT, owed: 0 };
        b.take(Sectors(1 << 20), 50);
        assert!(!b.spent());
        let mut b = Budget::new();
        b.take(Sectors(1 << 20), 50);
        assert!(b.spent());
        b.pay(Sectors(1 << 30), 50);
        assert_eq!(b.owed(), 0, "nothing is saved up");
    }
}
