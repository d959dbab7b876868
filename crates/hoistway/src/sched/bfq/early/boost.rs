//! The boost of `bfq-v1` (specs/bfq.md 11.5): a queue that comes back after 20 s weighs ten times as much, falling
//! with what it is served to nothing after 24 MiB, or at once after 6 s.

use super::Early;
use crate::env::Cx;
use crate::sched::bfq::ids::QueueNo;
use crate::sched::bfq::wf2q;
use crate::unit::{Instant, Nanos};

impl Early {
    /// Deviation: the text does not limit the boost to sync queues; async queues get it too.
    pub(super) fn start_boost(&mut self, now: Instant, q: QueueNo, cx: &mut Cx<'_>) {
        let (on, described) = (self.low_latency, self.described);
        let boosted = self.b.fair.ents[q].boost > 0;
        let extra = self.extra(q);
        let since = if described { extra.idle_since } else { extra.boost_t0 };
        let newborn = extra.boost_t0.is_none();
        let long_ago = newborn || since.is_none_or(|at| at + BOOST_PAUSE < now);
        if boosted {
            return;
        }
        extra.boost_t0 = Some(now);
        if on && long_ago {
            let e = &mut self.b.fair.ents[q];
            e.boost = BOOST_SECTORS;
            e.prio_dirty = true;
            self.boosts += 1;
            cx.trace.why(now, "boosted: starts", q.0, BOOST_SECTORS.into(), 0);
        }
    }

    pub(super) fn use_boost(&mut self, now: Instant, q: QueueNo, cost: u64) {
        let left = u64::from(self.b.fair.ents[q].boost);
        if left == 0 {
            return;
        }
        let t0 = self.extra(q).boost_t0.expect("a boost has a start");
        let fresh = now.since(t0) <= BOOST_TIME && left > cost;
        let e = &mut self.b.fair.ents[q];
        e.boost = if fresh { (left - cost) as u32 } else { 0 };
        e.prio_dirty = true;
        self.b.fair.apply(q.into(), false);
    }
}

/// 24 MiB (11.5). By service, so the boost of whoever reads fast ends by itself; the 6 s stop processes that seek, and
/// 20 s of idleness tell a new start from a pause. Chosen by tuning; replaced in v2 by periods of time.
const BOOST_SECTORS: u32 = wf2q::BOOST_SECTORS;
const BOOST_TIME: Nanos = Nanos::secs(6);
const BOOST_PAUSE: Nanos = Nanos::secs(20);
