//! Weight raising of v4 (specs/bfq.md 11.6): interactive and soft real-time periods, both with the same coefficient.
//!
//! *Interactive*: a new queue, or one that was idle for 2 s; 7.5 s long. *Soft real-time*: a queue that comes back
//! after `next_soft`, the instant at which the service of its last slot would be due at 7000 sectors/s; 300 ms long,
//! prolonged by every arrival that is late enough again, and cut by one that is too early. A slot that ended by its
//! time limit says that the queue is greedy: then no arrival qualifies until another slot has ended.
//!
//! *Chosen* where the text says nothing: a queue split off a shared one is not new; an interactive period that lasts
//! longer than a soft real-time one would is kept; service is what the slot received, without the charge for
//! slowness.

use super::{Early, Release};
use crate::env::Cx;
use crate::sched::bfq::ids::QueueNo;
use crate::sched::bfq::queue::raise::NOT_RAISED;
use crate::sched::bfq::slot::Reason;
use crate::unit::{Instant, Nanos};

impl Early {
    /// The queue becomes busy: who starts, or plays, is preferred.
    pub(super) fn prefer_on_busy(&mut self, now: Instant, q: QueueNo, cx: &mut Cx<'_>) {
        match self.release {
            Release::V1 => self.start_boost(now, q, cx),
            Release::V4 => self.raise_on_busy(now, q, cx),
        }
    }

    /// The queue in service was served `cost` sectors: what was preferred may end.
    pub(super) fn served(&mut self, now: Instant, q: QueueNo, cost: u64, cx: &mut Cx<'_>) {
        match self.release {
            Release::V1 => self.use_boost(now, q, cost),
            Release::V4 => self.check_raising(now, q, cx),
        }
    }

    fn raise_on_busy(&mut self, now: Instant, q: QueueNo, cx: &mut Cx<'_>) {
        self.b.queues[q].just_created = false;
        if !self.low_latency {
            return;
        }
        let (pause, rate) = (self.b.conf.wr_min_idle, self.b.conf.wr_max_softrt_rate);
        let split_off = self.b.queues[q].coop.split_at.instant().is_some();
        let extra = *self.extra(q);
        let long_idle = extra.idle_since.map_or(!split_off, |at| at + pause <= now);
        let soft = rate > 0 && extra.next_soft.is_some_and(|at| at < now);
        let (terms, raised) = (self.b.terms(), self.raised(q));
        let raise = &mut self.b.queues[q].raise;
        let was_soft = raise.soft(&terms);
        let lasts = raised && !was_soft && raise.start + raise.limit >= now + terms.soft;
        if long_idle {
            raise.interactive(&terms);
        } else if soft && !lasts {
            raise.soft_real_time(&terms);
        } else {
            if raised && was_soft {
                self.b.end_raising(now, q, "raising ends: too early for soft real-time", cx);
            }
            return;
        }
        raise.start = now;
        let e = &mut self.b.fair.ents[q];
        e.wr = terms.coeff;
        e.prio_dirty = true;
        self.b.tell_raised(now, q, terms.coeff, cx);
    }

    /// A request comes to a queue. A busy async one that had none for half a second is raised: a file is saved.
    pub(super) fn note_arrival(&mut self, now: Instant, q: QueueNo, cx: &mut Cx<'_>) {
        if self.release == Release::V1 || !self.low_latency {
            return;
        }
        let raised = self.raised(q);
        if self.b.fair.ents[q].busy {
            self.b.raise_async(now, q, cx);
        }
        if !raised {
            self.b.queues[q].raise.start = now;
        }
    }

    fn check_raising(&mut self, now: Instant, q: QueueNo, cx: &mut Cx<'_>) {
        if self.raised(q) && self.b.queues[q].raise.over(now) {
            self.b.end_raising(now, q, "raising ends: time", cx);
        }
        let e = &self.b.fair.ents[q];
        if (e.weight > e.orig_weight) != (e.wr > NOT_RAISED) {
            self.b.fair.apply(q.into(), false);
        }
    }

    /// A slot that received `served` sectors ends.
    pub(super) fn note_end_of_slot(
        &mut self,
        now: Instant,
        q: QueueNo,
        served: u64,
        reason: Reason,
    ) {
        if self.release == Release::V1 {
            return;
        }
        let rate = self.b.conf.wr_max_softrt_rate.max(1);
        let due = now + Nanos(Nanos::secs(1).0 * served / rate);
        let extra = self.extra(q);
        extra.next_soft = (reason != Reason::Timeout).then_some(due);
        let seeky = extra.seek.seeky();
        let raised = self.raised(q);
        let queue = &mut self.b.queues[q];
        if !raised {
            queue.raise.start = now;
        }
        // Contexts of a shared queue that seeks part at their next requests.
        queue.coop.split_me |= queue.coop.shared && seeky;
    }
}
