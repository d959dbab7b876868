//! Conformance scenarios C1 to C45 (specs/bfq.md section 14), bounds (13), and random runs.

mod bounds;
mod budgets;
mod cooperation;
mod fair_queue;
mod groups;
mod idling;
mod injection;
mod latency;
mod modes;
mod random;
mod release;
mod rig;
mod statistics;
mod weights;

use super::ids::EntityNo;
use super::wf2q::{FairQueue, ServiceTree};

impl FairQueue {
    /// The tree of an entity's class.
    fn tree(&self, e: EntityNo) -> &ServiceTree {
        let ent = &self.ents[e];
        &self.nodes[ent.node].trees[ent.class]
    }
}
