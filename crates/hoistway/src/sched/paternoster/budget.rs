//! What targets without a number may take from the others.
//!
//! *Problem.* "As low as goes without loss" holds for the drive as a whole when the valve keeps it saturated. But a
//! fast target that asks again at once takes a part of the drive itself: 6 % of a SATA drive beside streams, 20 % of
//! the commands of a metered volume, half of a drive that serves one request at a time. That is the others' loss.
//!
//! *Idea.* A part of what is moved, `others_loss` less what the valve has given away already, so that the others keep
//! `1 - others_loss` of what the drive delivers wide open. Counted in sectors: at a saturated drive the others lose
//! as many as the target moves. Units would not do: they count the command, and small requests beside large ones
//! would look four times as dear as they are. A drive that serves one request at a time tells what
//! each takes: time is owed and paid there, in the place of sectors.
//!
//! *Rule.* A request that goes by the lane while others wait owes its sectors to the account of its target; greedy
//! work pays `spare` of itself to each account. Beyond a short burst the target is held, until that is paid or
//! the turn of its leaf has come by its tags: it never gets less than its share. A second account holds what all
//! targets owe together, and is paid four times as much. Numeric targets and the real-time class owe nothing.
//!
//! *Guarantee.* At a drive that delivers its ceiling, a target without a number takes no more than its share or
//! `others_loss` of it, whichever is more, but for the burst; all of them together their shares or four times that.
//!
//! *Weakness.* Where a small request costs as much as a large one (metered volumes), the others lose more than its
//! sectors; there the valve sees the rate fall.

use crate::group::GroupId;
use crate::rows::Rows;
use crate::unit::Sectors;

/// Sectors that may be owed before a target is held: sixteen requests of 4 KiB, so that what comes in bursts and
/// thinks in between is not held.
const BURST: u64 = 128;
/// All targets together may take so many times the part of one.
const TOGETHER: u64 = 4;

/// What is owed, in thousandths of sectors, when so much had been paid in all.
#[derive(Clone, Copy, Debug, Default)]
struct SectorAccount {
    owed: u64,
    paid: u64,
}

impl SectorAccount {
    /// `paid` by now, each so many times.
    fn owes(&self, paid: u64, times: u64) -> u64 {
        self.owed.saturating_sub((paid - self.paid) * times)
    }

    fn take(&mut self, thousandths: u64, paid: u64, times: u64) {
        *self = SectorAccount { owed: self.owes(paid, times) + thousandths, paid };
    }
}

#[derive(Debug)]
pub(super) struct Budget {
    /// In thousandths of what the drive delivers; `NO_LIMIT` and more: no limit.
    pub others_loss: u64,
    /// What everybody who moved something has paid to one account, in thousandths of sectors. Accounts are brought up to
    /// date when they are looked at.
    paid: u64,
    of: Rows<GroupId, SectorAccount>,
    together: SectorAccount,
}

/// The whole drive.
pub(super) const NO_LIMIT: u64 = 1000;

impl Budget {
    pub fn new() -> Budget {
        Budget { others_loss: 50, paid: 0, of: Rows::new(), together: SectorAccount::default() }
    }

    /// The part left of what the others may lose, when the drive delivers so much less than it could (thousandths);
    /// 7/10 of it at the least. The ceiling is the best of several epochs, so a shortfall looks larger than it is:
    /// with 4/10 a target of 3.4 % on an eMMC waited for nothing.
    pub fn spare(&self, short: u64) -> u64 {
        self.others_loss.saturating_sub(short).max(self.others_loss * 7 / 10)
    }

    /// Was there a target ever? Before, nobody's payments count.
    #[inline]
    pub fn is_used(&self) -> bool {
        self.of.len() > 0
    }

    /// The group has a target, another one than before, or none any more: it owes nothing.
    pub fn reset(&mut self, owner: GroupId) {
        if self.of.len() <= owner.index() {
            self.of.resize(owner.index() + 1, SectorAccount::default());
        }
        self.of[owner] = SectorAccount { owed: 0, paid: self.paid };
    }

    /// A request with that group's target, which has no number, goes while others wait.
    pub fn take(&mut self, owner: GroupId, sectors: Sectors, spare: u64) {
        let both = [(&mut self.of[owner], 1), (&mut self.together, TOGETHER)];
        for (account, times) in both {
            account.take(sectors.0 * (NO_LIMIT - (times * spare).min(NO_LIMIT)), self.paid, times);
        }
    }

    /// Greedy work goes.
    #[inline]
    pub fn pay(&mut self, sectors: Sectors, spare: u64) {
        self.paid += sectors.0 * spare;
    }

    /// The target of that group, or all together, owe more than a burst.
    pub fn is_spent(&self, owner: GroupId) -> bool {
        self.others_loss < NO_LIMIT
            && (self.of[owner].owes(self.paid, 1) > BURST * NO_LIMIT
                || self.together.owes(self.paid, TOGETHER) > TOGETHER * BURST * NO_LIMIT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use alloc::vec::Vec;

    /// Lanes that always ask, beside greedy requests of 64 sectors: the part of each in thousandths.
    fn parts(targets: u32, spare: u64) -> Vec<u64> {
        let mut b = Budget::new();
        (0..targets).for_each(|n| b.reset(GroupId(n)));
        let (mut lanes, mut all) = (vec![0; targets as usize], 0);
        for turn in 0..400_000u32 {
            // Each has the first word in turn.
            let next =
                (0..targets).map(|n| (n + turn) % targets).find(|&n| !b.is_spent(GroupId(n)));
            match next {
                Some(n) => {
                    b.take(GroupId(n), Sectors(8), spare);
                    lanes[n as usize] += 8;
                    all += 8;
                }
                None => {
                    b.pay(Sectors(64), spare);
                    all += 64;
                }
            }
        }
        lanes.iter().map(|lane| 1000 * lane / all).collect()
    }

    #[test]
    fn a_lane_that_always_asks_gets_its_part_and_not_more() {
        for spare in [20, 50, 200] {
            let got = parts(1, spare)[0];
            assert!(got.abs_diff(spare) <= 1, "{got} of {spare}");
        }
    }

    #[test]
    fn each_target_has_a_part_and_all_together_four_of_them() {
        let two = parts(2, 50);
        assert!(two.iter().all(|part| part.abs_diff(50) <= 3), "{two:?}");
        let ten = parts(10, 50);
        assert!(ten.iter().sum::<u64>().abs_diff(200) <= 10, "{ten:?}");
    }

    #[test]
    fn what_the_valve_gives_away_is_not_there_for_the_lane() {
        let b = Budget::new();
        assert_eq!(b.spare(0), 50);
        assert_eq!(b.spare(10), 40);
        assert_eq!(b.spare(300), 35, "the valve is to mend that, not the lane");
        assert_eq!(Budget { others_loss: 0, ..Budget::new() }.spare(0), 0);
    }

    #[test]
    fn no_limit_is_never_spent() {
        let (mut b, owner) = (Budget { others_loss: NO_LIMIT, ..Budget::new() }, GroupId(3));
        b.reset(owner);
        b.take(owner, Sectors(1 << 20), 50);
        assert!(!b.is_spent(owner));
        b.others_loss = 50;
        assert!(b.is_spent(owner));
        b.pay(Sectors(1 << 30), 50);
        assert!(!b.is_spent(owner));
        let debt = b.of[owner].owes(b.paid, 1);
        assert_eq!(debt, 0, "nothing is saved up");
    }

    #[test]
    fn another_target_owes_nothing() {
        let (mut b, owner) = (Budget::new(), GroupId(1));
        b.reset(owner);
        b.take(owner, Sectors(150), 50);
        assert!(b.is_spent(owner));
        b.reset(owner);
        assert!(!b.is_spent(owner));
    }
}
