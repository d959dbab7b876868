//! What a changed tunable does to waits, limits and budgets made under the old value.
//!
//! Deviation: the reference leaves them. A wait armed under a `slice_idle` of ten minutes then keeps the device
//! idle for ten minutes although 8 ms were written meanwhile, and a queue with a budget of the old size stands
//! behind everything that smaller ones can do. Nothing is ever lengthened. Only with `base = hoistway`: the rows
//! say so ([`crate::setting::OnlyWith`]), and each has the function that makes it true.

use super::Bfq;
use super::ids::Id;
use super::queue::raise::NOT_RAISED;
use super::tunables::{BfqConf, SETTINGS};
use crate::env::Cx;
use crate::setting::Setting;
use crate::unit::{Instant, Nanos};

/// Makes what a row says of its change true.
pub(super) type BfqEffect = fn(&mut Bfq, &Written<'_>, &mut Cx<'_>);

/// A tunable was written.
pub(super) struct Written<'a> {
    pub now: Instant,
    /// Settings until now.
    pub before: &'a BfqConf,
    /// Under this base the row keeps what it says; otherwise what was made under the old value stays.
    pub mended: bool,
}

impl Bfq {
    /// Calls the effects of the row that was `written`, and of those that it changed with itself.
    pub(super) fn follow(
        &mut self,
        now: Instant,
        written: &'static Setting<BfqConf, BfqEffect>,
        before: &BfqConf,
        cx: &mut Cx<'_>,
    ) {
        let after = self.conf.clone();
        for row in SETTINGS.touched(written, before, &after) {
            let mended = row.tunable.keeps_promise(after.base as u64);
            if let Some(effect) = row.effect {
                effect(self, &Written { now, before, mended }, cx);
            }
        }
    }

    /// `slice_idle` in any of its forms.
    pub(super) fn idling_changed(&mut self, written: &Written<'_>, _cx: &mut Cx<'_>) {
        if written.mended {
            self.shorten_wait(written.now);
        }
    }

    pub(super) fn budgets_changed(&mut self, written: &Written<'_>, _cx: &mut Cx<'_>) {
        self.recompute_max_budget();
        if written.mended {
            self.shorten_slot();
            self.cut_budgets();
        }
    }

    pub(super) fn timeout_changed(&mut self, written: &Written<'_>, cx: &mut Cx<'_>) {
        self.conf.timeout_written = true;
        self.budgets_changed(written, cx);
    }

    /// How long queues stay raised.
    pub(super) fn raising_changed(&mut self, written: &Written<'_>, _cx: &mut Cx<'_>) {
        self.recompute_wr_duration();
        if written.mended {
            self.shorten_raising();
        }
    }

    pub(super) fn low_latency_changed(&mut self, written: &Written<'_>, cx: &mut Cx<'_>) {
        if written.before.low_latency && !self.conf.low_latency {
            self.end_all_raising(written.now, cx);
        }
    }

    /// Rules of the fair queue.
    pub(super) fn rules_changed(&mut self, _written: &Written<'_>, _cx: &mut Cx<'_>) {
        self.fair.set_rules(self.conf.fair);
    }

    pub(super) fn rounding_changed(&mut self, _written: &Written<'_>, _cx: &mut Cx<'_>) {
        self.recompute_wr_duration();
    }

    pub(super) fn counting_changed(&mut self, written: &Written<'_>, _cx: &mut Cx<'_>) {
        if self.conf.move_counts && !written.before.move_counts {
            self.recount_groups();
        }
    }

    pub(super) fn statistics_changed(&mut self, _written: &Written<'_>, _cx: &mut Cx<'_>) {
        self.restart_queue_statistics();
    }

    /// A wait that is armed ends when one of the present length would have.
    pub(super) fn shorten_wait(&mut self, now: Instant) {
        let Some((end, q)) = self.serving.timer else { return };
        let idle = self.conf.slice_idle;
        let longest = match self.fair.ents[q].wr > 1 && idle > Nanos::ZERO {
            true => self.raised_wait(),
            false => idle,
        };
        let latest = (self.serving.idle_since + longest).max(now);
        self.serving.timer = Some((end.min(latest), q));
    }

    /// The slot in service ends by the present limit. (That of `bfq-v1` begins with a completion, and its own
    /// `set` sees to it.)
    pub(super) fn shorten_slot(&mut self) {
        let q = self.serving.queue;
        if q.is_none() || self.rules.own_slot_limit {
            return;
        }
        let e = &self.fair.ents[q];
        let latest = self.serving.since + self.slot_limit() * u64::from(e.weight / e.orig_weight);
        let deadline = &mut self.queues[q].slot.deadline;
        *deadline = deadline.at_most(latest);
    }

    /// No budget is above the largest; queues that wait their turn are stamped anew.
    pub(super) fn cut_budgets(&mut self) {
        let most = if self.conf.user_max_budget > 0 {
            self.conf.user_max_budget
        } else {
            self.budgets.largest()
        };
        for q in self.queues.ids() {
            let queue = &mut self.queues[q];
            if !queue.live || queue.slot.max_budget <= most {
                continue;
            }
            queue.slot.max_budget = most;
            if self.serving.queue == q {
                let e = &mut self.fair.ents[q];
                e.budget = e.budget.min(most.max(e.service));
            } else {
                self.update_budget(q);
            }
        }
    }

    /// Raised queues stay so for no longer than one that is raised now.
    pub(super) fn shorten_raising(&mut self) {
        let terms = self.terms();
        for q in self.queues.ids() {
            let queue = &mut self.queues[q];
            if queue.live && self.fair.ents[q].wr > NOT_RAISED {
                queue.raise.shorten(&terms);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setting::OnChange;

    /// A promise to touch what was made under the old value needs a function that does.
    #[test]
    fn every_promise_has_its_effect() {
        let needs = |change| matches!(change, OnChange::Waits | OnChange::Limits);
        let mut found = 0;
        for row in SETTINGS.rows.iter().filter(|row| needs(row.tunable.on_change)) {
            assert!(row.effect.is_some(), "{}", row.tunable.name);
            assert!(
                row.tunable.only_with.is_some(),
                "{}: the reference leaves it",
                row.tunable.name
            );
            found += 1;
        }
        assert_eq!(found, 7);
    }
}
