//! Donation: what a group that needs less than its share keeps, and how the rest reaches the others
//! (specs/io-cost.md 9.1 and 9.2).

use super::model::ONE;
use super::vrate::Now;
use super::weights::{Shares, ceil_of};
use crate::group::GroupId;
use crate::rows::Id;
use alloc::vec::Vec;

/// A group that gives weight away.
#[derive(Clone, Copy, Debug)]
pub(super) struct Donor {
    pub node: GroupId,
    /// Its share by active weight, and what it keeps of it.
    pub donating: u64,
    pub after: u64,
}

/// 9.1: the share with which a group's credit is back at the target at the end of the next period,
/// if its usage (`share`) repeats; `credit` of a period of `passed_v`, at most `most`.
///
/// share / (1/2 + credit) solves "if the next period is like the last, the credit ends at the target of
/// one half": exact, and without a history. What is in flight counts as used, or slow completions would
/// look like idleness. `wraps`: the product in 32 bits, as in Linux.
#[inline]
pub(super) fn kept_share(share: u64, credit: u64, passed_v: u64, most: u64, wraps: bool) -> u64 {
    let delta = floor_of(ONE, credit, passed_v);
    let mut product = ONE * share;
    if wraps {
        product &= u64::from(u32::MAX);
    }
    (product / (ONE / 2).saturating_add(delta)).min(most).max(1)
}

/// The donors of one period, and how their weight reaches the others.
#[derive(Debug, Default)]
pub(super) struct Donation {
    pub donors: Vec<Donor>,
    inner: Vec<GroupId>,
}

impl Donation {
    /// 9.2: each donor's share becomes what it keeps; all others share what is freed in the proportions
    /// they have.
    ///
    /// With t the donors' former sum of shares and t' the later one, every other share is multiplied by
    /// g = (1 - t') / (1 - t), so the sum stays (1 - t) g + t' = 1, and the ratio of any two who do not
    /// donate stays what it was, on every level. Raising vrate for what is unused would be simpler, but when
    /// the donor wakes, everybody would have to be cut at once; lower weights can be taken back locally.
    pub fn transfer(&mut self, shares: &mut Shares, now: &Now) {
        self.scale_donors();
        self.collect_inner(shares);
        self.sum_inner(shares);
        self.adjust_inner(shares);
        // Latest first, as they are listed in the kernel.
        for i in (0..self.donors.len()).rev() {
            let Donor { node, after, .. } = self.donors[i];
            let n = &shares[node];
            if n.debt != 0 {
                continue;
            }
            let (active, up) = (n.weights.active, shares[n.parent].plan);
            let inuse = ceil_of(up.sum_after, after, up.share_after);
            shares.set(node, active, inuse, Some(now.v));
        }
    }

    /// Step 1: what all keep must be less than the whole device.
    fn scale_donors(&mut self) {
        let kept: u64 = self.donors.iter().map(|d| d.after).sum();
        let over: u64 = self.donors.iter().filter(|d| d.after > d.donating).map(|d| d.after).sum();
        if kept < ONE || over == 0 {
            return;
        }
        let left = over.saturating_sub(kept - ONE + 1);
        for d in self.donors.iter_mut().filter(|d| d.after > d.donating) {
            d.after = d.after * left / over;
        }
    }

    /// Step 2: the ancestors of all donors, parents before their children.
    fn collect_inner(&mut self, shares: &mut Shares) {
        self.inner.clear();
        for i in 0..self.donors.len() {
            let begin = self.inner.len();
            let mut up = shares[self.donors[i].node].parent;
            while up.is_some() && !shares[up].plan.seen {
                let plan = &mut shares[up].plan;
                plan.seen = true;
                (plan.donating, plan.after) = (0, 0);
                self.inner.push(up);
                up = shares[up].parent;
            }
            // Those above were listed with an earlier donor.
            self.inner[begin..].reverse();
        }
        for i in 0..self.inner.len() {
            let n = self.inner[i];
            shares[n].plan.seen = false;
        }
    }

    /// Step 2: what the donors below each inner node give and keep.
    fn sum_inner(&self, shares: &mut Shares) {
        for i in 0..self.donors.len() {
            let d = self.donors[i];
            let up = shares[d.node].parent;
            let plan = &mut shares[up].plan;
            plan.donating += d.donating;
            plan.after += d.after;
        }
        for i in (0..self.inner.len()).rev() {
            let n = self.inner[i];
            let (up, plan) = (shares[n].parent, shares[n].plan);
            if up.is_some() {
                let sum = &mut shares[up].plan;
                sum.donating += plan.donating;
                sum.after += plan.after;
            }
        }
    }

    /// Steps 3 to 5: the shares of the inner nodes before and after, and the sums of inuse that their
    /// children are to have.
    fn adjust_inner(&self, shares: &mut Shares) {
        for i in 0..self.inner.len() {
            let n = self.inner[i];
            let share = match shares[n].parent.some() {
                None => ONE,
                Some(up) => {
                    let up = &shares[up];
                    ceil_of(up.plan.share, shares[n].weights.active, up.sums.active)
                }
            };
            let plan = &mut shares[n].plan;
            plan.share = share;
            plan.donating = plan.donating.min(share);
            // Also the root's: donors whose shares grow may come to more than they had.
            plan.after = plan.after.min(plan.donating.saturating_sub(1));
        }
        let root = shares[GroupId::ROOT].plan;
        let gamma = ceil_of(ONE.saturating_sub(root.after), ONE, ONE - root.donating.min(ONE - 1));
        for i in 0..self.inner.len() {
            adjust(shares, self.inner[i], gamma);
        }
    }
}

/// Step 5 for one inner node, whose parent has been done.
fn adjust(shares: &mut Shares, n: GroupId, gamma: u64) {
    let node = &shares[n];
    let Some(up) = shares.get(node.parent).map(|p| p.plan) else {
        let plan = node.plan;
        let kept = ONE.saturating_sub(plan.donating);
        let sum = ceil_of(node.sums.active, kept, ONE.saturating_sub(plan.after).max(1));
        let plan = &mut shares[n].plan;
        (plan.sum_after, plan.share_after) = (sum, ONE);
        return;
    };
    let plan = node.plan;
    // The text divides by shares that cannot be 0 unless every child of a node of the least share
    // donates; then 1 stands for it.
    let share_after = (ceil_of(gamma, plan.share - plan.donating, ONE) + plan.after).max(1);
    let inuse = ceil_of(up.sum_after, share_after, up.share_after);
    let donating = ceil_of(node.sums.active, plan.donating, plan.share);
    let free = node.sums.active - donating;
    let weight = ceil_of(node.weights.active, plan.donating, plan.share).max(1);
    let weight_after = ceil_of(inuse, plan.after, share_after);
    let sum = free + ceil_of(donating, weight_after, weight);
    let plan = &mut shares[n].plan;
    (plan.sum_after, plan.share_after) = (sum, share_after);
}

/// a * b / c, rounded down, at most 2^64 - 1.
#[inline]
fn floor_of(a: u64, b: u64, c: u64) -> u64 {
    match a.checked_mul(b) {
        Some(product) => product / c,
        None => {
            let quotient = u128::from(a) * u128::from(b) / u128::from(c);
            u64::try_from(quotient).unwrap_or(u64::MAX)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_used_half_and_is_at_the_target_keeps_half() {
        assert_eq!(kept_share(ONE / 2, 50, 100, ONE, false), ONE / 2);
        assert_eq!(kept_share(ONE / 2, 0, 100, ONE, false), ONE, "without credit, twice as much");
        assert_eq!(
            kept_share(ONE / 2, 0, 100, ONE / 3, false),
            ONE / 3,
            "but not more than it has"
        );
        assert_eq!(kept_share(0, 50, 100, ONE, false), 1, "the least share");
        assert_eq!(kept_share(ONE, 50, 100, ONE, true), 1, "a full share vanishes in 32 bits");
    }

    #[test]
    fn quotients_of_large_products_are_exact_or_the_most() {
        assert_eq!(floor_of(7, 3, 2), 10);
        assert_eq!(floor_of(1 << 40, 1 << 40, 1 << 50), 1 << 30);
        assert_eq!(floor_of(u64::MAX, u64::MAX, 1), u64::MAX);
    }

    /// Two groups beside each other with equal weights; the first one keeps a sixteenth.
    #[test]
    fn what_a_donor_gives_reaches_the_others_and_nothing_is_lost() {
        let mut shares = Shares::new();
        let [a, b] = [(); 2].map(|()| {
            let n = shares.push(GroupId::ROOT);
            shares[n].listed = true;
            shares.set(n, 100 * ONE, 100 * ONE, None);
            n
        });
        shares.commit();
        let now = Now { at: crate::unit::Instant::ZERO, us: 0, v: 0 };
        let (donating, after) = (shares.of(a).0, ONE / 16);
        let mut donation =
            Donation { donors: alloc::vec![Donor { node: a, donating, after }], inner: Vec::new() };
        donation.transfer(&mut shares, &now);
        shares.commit();
        let kept = [a, b].map(|n| shares.of(n).1);
        assert!(
            kept[0].abs_diff(ONE / 16) <= 2 && kept[1].abs_diff(ONE - ONE / 16) <= 2,
            "{kept:?}"
        );
        assert_eq!([a, b].map(|n| shares[n].weights.active), [100 * ONE; 2], "weights stay");
    }

    /// Recorded with Linux 6.1: together the donors would keep 65,535 of the 65,503 that they have by weight.
    #[test]
    fn donors_keep_less_than_they_have_by_weight() {
        let mut shares = Shares::new();
        let a = shares.push(GroupId::ROOT);
        shares[a].given.in_force = 100 * ONE;
        let [small, large, b] = [(a, 10), (a, 10_000), (GroupId::ROOT, 100)].map(|(up, weight)| {
            let n = shares.push(up);
            shares[n].listed = true;
            shares.set(n, weight * ONE, weight * ONE, None);
            n
        });
        shares.set(b, 100 * ONE, 3_247_563, None);
        shares.commit();
        let donors = [(b, 22_522), (large, 43_324)].map(|(node, after)| {
            let (donating, _) = shares.of(node);
            Donor { node, donating, after }
        });
        let mut donation = Donation { donors: donors.to_vec(), inner: Vec::new() };
        let now = Now { at: crate::unit::Instant::ZERO, us: 0, v: 0 };
        donation.transfer(&mut shares, &now);
        shares.commit();
        assert_eq!(shares[b].weights.inuse, 4_371_918);
        assert_eq!(shares.of(small), (32, 39));
    }
}
