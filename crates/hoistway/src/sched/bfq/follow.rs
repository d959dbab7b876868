//! What a changed tunable does to waits, limits and budgets made under the old value.
//!
//! Deviation: the reference leaves them. A wait armed under a `slice_idle` of ten minutes then keeps the device
//! idle for ten minutes although 8 ms were written meanwhile, and a queue with a budget of the old size stands
//! behind everything that smaller ones can do. Nothing is ever lengthened. Only with `base = hoistway`.

use super::Bfq;
use super::ids::Id;
use super::queue::raise::NOT_RAISED;
use super::tunables::{Base, Conf};
use crate::env::Cx;
use crate::unit::{Instant, Nanos};

impl Bfq {
    /// `name` was set, what was set `before` is known: what follows from it.
    pub(super) fn applied(&mut self, now: Instant, name: &str, before: &Conf, cx: &mut Cx<'_>) {
        match name {
            "low_latency" if before.low_latency && !self.conf.low_latency => {
                self.end_all_raising(now, cx);
            }
            "max_budget" => self.recompute_max_budget(),
            "timeout_sync" => {
                self.conf.timeout_written = true;
                self.recompute_max_budget();
            }
            "queue_statistics" => self.restart_queue_statistics(),
            _ => {}
        }
        self.fair.set_rules(self.conf.fair);
        if self.conf.move_counts && !before.move_counts {
            self.recount_groups();
        }
        self.recompute_wr_duration();
        self.follow(now, name);
    }

    /// After `name` was set.
    fn follow(&mut self, now: Instant, name: &str) {
        if self.conf.base != Base::Hoistway {
            return;
        }
        match name {
            "slice_idle" | "slice_idle_us" | "strict_guarantees" => self.shorten_wait(now),
            "max_budget" | "timeout_sync" => {
                self.shorten_slot();
                self.cut_budgets();
            }
            "wr_max_time" | "wr_rt_max_time" => self.shorten_raising(),
            _ => {}
        }
    }

    /// A wait that is armed ends when one of the present length would have.
    fn shorten_wait(&mut self, now: Instant) {
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
    fn shorten_slot(&mut self) {
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
    fn cut_budgets(&mut self) {
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

    /// What is raised stays so for no longer than a queue that is raised now.
    fn shorten_raising(&mut self) {
        let terms = self.terms();
        for q in self.queues.ids() {
            let queue = &mut self.queues[q];
            if queue.live && self.fair.ents[q].wr > NOT_RAISED {
                queue.raise.shorten(&terms);
            }
        }
    }
}
