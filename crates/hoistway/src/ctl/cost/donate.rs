//! Donation: what a group that needs less than its share keeps, and how the rest reaches the others
//! (specs/io-cost.md 9.1 and 9.2).

use super::model::ONE;
use super::plan::share_of;
use super::weights::ceil_of;
use super::{IoCost, Now};
use crate::table::NIL;

/// A group that gives weight away.
#[derive(Clone, Copy, Debug)]
pub(super) struct Donor {
    pub node: u32,
    /// Its share by active weight, and what it keeps of it.
    pub donating: u64,
    pub after: u64,
}

impl IoCost {
    /// Step 4c of the plan: is this group a donor? If so it is listed.
    pub(super) fn donate(&mut self, n: u32, passed_v: u64, now: &Now) -> bool {
        let used = self.used_us(n);
        let since = self.shares[n].activated_at_us.max(self.period_at_us);
        let dur = now.us.saturating_sub(since).max(1);
        let share = used.saturating_mul(ONE).div_ceil(dur).clamp(1, ONE);
        let most = self.shares.at_most(n);
        let (hwa, hwi) = self.shares.of(n);
        let after = self.after_donation(n, [hwi, most, share], passed_v, now);
        if after < most && hwa >= 2 {
            self.donors.push(Donor { node: n, donating: hwa, after });
            return true;
        }
        false
    }

    /// 9.1: the share with which the group's credit is back at the target at the end of the next period,
    /// if its usage repeats.
    ///
    /// share / (1/2 + credit) solves "if the next period is like the last, the credit ends at the target of
    /// one half": exact, and without a history. What is in flight counts as used, or slow completions would
    /// look like idleness.
    pub(super) fn after_donation(
        &mut self,
        n: u32,
        [hwi, most, share]: [u64; 3],
        passed_v: u64,
        now: &Now,
    ) -> u64 {
        let margins = self.margins;
        let node = &mut self.shares[n];
        if node.debt != 0 {
            return 1;
        }
        let credit = now.v.wrapping_sub(node.vtime) as i64;
        if !node.waiters.is_empty() || credit < margins.min {
            return most;
        }
        let excess = credit - margins.target;
        if excess > 0 {
            node.vtime = node.vtime.wrapping_add(excess as u64);
            node.done_vtime = node.done_vtime.wrapping_add(excess as u64);
            self.vtime_err -= share_of(excess, hwi);
        }
        // Not negative: it was at least the least margin, and was taken down to the target.
        let credit = now.v.wrapping_sub(node.vtime);
        let delta = floor_of(ONE, credit, passed_v);
        let mut product = ONE * share;
        if self.set.donation_32bit != 0 {
            product &= u64::from(u32::MAX);
        }
        (product / (ONE / 2).saturating_add(delta)).min(most).max(1)
    }

    /// 9.2: each donor's share becomes what it keeps; all others share what is freed in the proportions
    /// they have.
    ///
    /// With t the donors' former sum of shares and t' the later one, every other share is multiplied by
    /// g = (1 - t') / (1 - t), so the sum stays (1 - t) g + t' = 1, and the ratio of any two who do not
    /// donate stays what it was, on every level. Raising vrate for what is unused would be simpler, but when
    /// the donor wakes, everybody would have to be cut at once; lower weights can be taken back locally.
    pub(super) fn transfer(&mut self, now: &Now) {
        self.scale_donors();
        self.collect_inner();
        self.sum_inner();
        self.adjust_inner();
        // Latest first, as they are listed in the kernel.
        for i in (0..self.donors.len()).rev() {
            let Donor { node, after, .. } = self.donors[i];
            let n = &self.shares[node];
            if n.debt != 0 {
                continue;
            }
            let (active, up) = (n.active, self.shares[n.parent].plan);
            let inuse = ceil_of(up.sum_after, after, up.share_after);
            self.shares.set(node, active, inuse, Some(now.v));
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
    fn collect_inner(&mut self) {
        self.inner.clear();
        for i in 0..self.donors.len() {
            let begin = self.inner.len();
            let mut up = self.shares[self.donors[i].node].parent;
            while up != NIL && !self.shares[up].plan.seen {
                let plan = &mut self.shares[up].plan;
                plan.seen = true;
                (plan.donating, plan.after) = (0, 0);
                self.inner.push(up);
                up = self.shares[up].parent;
            }
            // Those above were listed with an earlier donor.
            self.inner[begin..].reverse();
        }
        for i in 0..self.inner.len() {
            let n = self.inner[i];
            self.shares[n].plan.seen = false;
        }
    }

    /// Step 2: what the donors below each inner node give and keep.
    fn sum_inner(&mut self) {
        for i in 0..self.donors.len() {
            let d = self.donors[i];
            let up = self.shares[d.node].parent;
            let plan = &mut self.shares[up].plan;
            plan.donating += d.donating;
            plan.after += d.after;
        }
        for i in (0..self.inner.len()).rev() {
            let n = self.inner[i];
            let (up, plan) = (self.shares[n].parent, self.shares[n].plan);
            if up != NIL {
                let sum = &mut self.shares[up].plan;
                sum.donating += plan.donating;
                sum.after += plan.after;
            }
        }
    }

    /// Steps 3 to 5: the shares of the inner nodes before and after, and the sums of inuse that their
    /// children are to have.
    fn adjust_inner(&mut self) {
        for i in 0..self.inner.len() {
            let n = self.inner[i];
            let share = match self.shares[n].parent {
                NIL => ONE,
                up => {
                    let up = &self.shares[up];
                    ceil_of(up.plan.share, self.shares[n].active, up.sum_active)
                }
            };
            let root = self.shares[n].parent == NIL;
            let plan = &mut self.shares[n].plan;
            plan.share = share;
            if !root {
                plan.donating = plan.donating.min(share);
                plan.after = plan.after.min(plan.donating.saturating_sub(1));
            }
        }
        let root = self.shares[0].plan;
        let gamma = ceil_of(ONE.saturating_sub(root.after), ONE, ONE - root.donating.min(ONE - 1));
        for i in 0..self.inner.len() {
            self.adjust(self.inner[i], gamma);
        }
    }

    /// Step 5 for one inner node, whose parent has been done.
    fn adjust(&mut self, n: u32, gamma: u64) {
        let node = &self.shares[n];
        let Some(up) = self.shares.get(node.parent).map(|p| p.plan) else {
            let plan = node.plan;
            let kept = ONE.saturating_sub(plan.donating);
            let sum = ceil_of(node.sum_active, kept, ONE.saturating_sub(plan.after).max(1));
            let plan = &mut self.shares[n].plan;
            (plan.sum_after, plan.share_after) = (sum, ONE);
            return;
        };
        let plan = node.plan;
        // The text divides by shares that cannot be 0 unless every child of a node of the least share
        // donates; then 1 stands for it.
        let share_after = (ceil_of(gamma, plan.share - plan.donating, ONE) + plan.after).max(1);
        let inuse = ceil_of(up.sum_after, share_after, up.share_after);
        let donating = ceil_of(node.sum_active, plan.donating, plan.share);
        let free = node.sum_active - donating;
        let weight = ceil_of(node.active, plan.donating, plan.share).max(1);
        let weight_after = ceil_of(inuse, plan.after, share_after);
        let sum = free + ceil_of(donating, weight_after, weight);
        let plan = &mut self.shares[n].plan;
        (plan.sum_after, plan.share_after) = (sum, share_after);
    }
}

/// a * b / c, rounded down, at most 2^64 - 1.
fn floor_of(a: u64, b: u64, c: u64) -> u64 {
    match a.checked_mul(b) {
        Some(product) => product / c,
        None => {
            let quotient = u128::from(a) * u128::from(b) / u128::from(c);
            u64::try_from(quotient).unwrap_or(u64::MAX)
        }
    }
}
