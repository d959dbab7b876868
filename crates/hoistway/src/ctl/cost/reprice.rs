//! Another model: what was priced by the old one is priced anew.
//!
//! Deviation: Linux leaves it, as do we without `reprice`. I/O held at a second each by a wrong line then goes on waiting for minutes
//! after the line was corrected.

use super::IoCost;
use crate::env::Cx;
use crate::request::Dir;
use crate::rows::Id;
use crate::unit::Instant;

impl IoCost {
    /// Price of a random write of a page: by it the prices of two models are compared.
    pub(super) fn price_of_a_page(&self) -> u64 {
        self.params.model.cost(Dir::Write, 0, 8, u64::MAX, self.conf.random_pages).max(1)
    }

    /// The model has changed; `old` is what a page cost by the one before.
    ///
    /// I/O that waits gets its new price, the first of each group that of a random access since its
    /// predecessor is gone. Debts are worth as many pages as before. What a group is ahead of the device for
    /// I/O that has passed is forgiven: it was counted in old prices, and is a period's worth at most where
    /// they were right.
    pub(super) fn reprice(&mut self, at: Instant, old: u64, cx: &Cx<'_>) {
        let (now, new) = (self.clock.at(at), self.price_of_a_page());
        let mut n = self.active.first();
        while n.is_some() {
            let next = self.active.next(n);
            let mut cursor = u64::MAX;
            let mut no = self.bios.first_waiter(&self.shares[n]);
            while no.is_some() {
                let io = cx.requests.bio(self.bios.of(no).id);
                if let Some(dir) = self.costs(io) {
                    let far = self.conf.random_pages;
                    let cost = self.params.model.cost(dir, io.start.0, io.sectors.0, cursor, far);
                    self.bios.of_mut(no).cost = cost;
                    cursor = io.end().0;
                }
                no = self.bios.behind(no);
            }
            let node = &mut self.shares[n];
            if node.debt > 0 {
                let debt = u128::from(node.debt) * u128::from(new) / u128::from(old);
                node.debt = u64::try_from(debt).unwrap_or(u64::MAX).max(1);
            }
            if node.time.ahead_of(now.v) > 0 {
                node.time.move_to(now.v);
            }
            self.kick_waiters(n, true, &now);
            n = next;
        }
        self.shares.commit();
    }
}
