//! BFQ with its decisions laid open, for whoever compares them with recorded ones.

use super::Bfq;
use super::ids::{Id, NodeNo};
use crate::sched::{Scheduler, Setup};
use crate::unit::Instant;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

pub use super::slot::{Expiry, Reason};

/// A BFQ whose tick counter follows a recording, and which notes every slot that ends.
#[derive(Debug)]
pub struct Probe {
    bfq: Bfq,
}

impl Probe {
    /// A fresh one; `created` is the instant of creation as its tick counter has it.
    pub fn new(setup: &Setup<'_>, created: Instant) -> Probe {
        let mut bfq = Bfq::new(&Setup { now: created, ..*setup });
        bfq.expiries = Some(Vec::new());
        Probe { bfq }
    }

    /// The scheduler.
    pub fn scheduler(&mut self) -> &mut dyn Scheduler {
        &mut self.bfq
    }

    /// The tick that the calls from here on happen in, which may lag their time. It counts only with
    /// `tick_rounding`.
    pub fn set_tick(&mut self, tick: Instant) {
        self.bfq.recorded_tick = Some(tick);
    }

    /// The slots that have ended since the last call of [`Probe::forget_expiries`], in order.
    pub fn expiries(&self) -> &[Expiry] {
        self.bfq.expiries.as_deref().unwrap_or(&[])
    }

    /// Starts a new list of slots that ended.
    pub fn forget_expiries(&mut self) {
        if let Some(log) = &mut self.bfq.expiries {
            log.clear();
        }
    }

    /// The queues, one per line, after a line about the device.
    pub fn describe(&self) -> String {
        let b = &self.bfq;
        let mut text = format!(
            "in service {}, queued {}, in flight {}, raised busy {}, busy by class {:?}\n",
            b.serving.queue.0 as i32,
            b.load.queued,
            b.load.inflight,
            b.fair.census.wr_busy,
            b.fair.census.busy.0.map(|n| n as i32),
        );
        for (q, queue) in b.queues.live() {
            let e = &b.fair.ents[q];
            text += &format!(
                "queue {}: group {} class {:?} owner {} users {} weight {} (x{}) busy {} next {} queued {} in flight {} \
                 service {} budget {} max {} start {} finish {} waiting {} inject {} base {}",
                q.0,
                b.fair.ents[q].node.0,
                e.class,
                queue.life.owner.0 as i32,
                queue.life.users,
                e.weight,
                e.wr,
                e.busy,
                queue.rqs.next.0 as i32,
                queue.rqs.queued,
                queue.rqs.inflight,
                e.service,
                e.budget,
                queue.slot.max_budget,
                e.start.0,
                e.finish.0,
                queue.slot.waiting,
                queue.inject.limit,
                queue.inject.base.0,
            );
            if queue.waker.by_place && queue.waker.queue.is_some() {
                text += &format!(" waker {} by its number", queue.waker.queue.0);
            }
            text.push('\n');
        }
        for n in 0..b.fair.nodes.len() {
            let node = &b.fair.nodes[NodeNo(n as u32)];
            text += &format!(
                "group {n}: in service {} cached {} queues {} V {:?} wsum {:?}",
                node.in_service.0 as i32,
                node.cached.0 as i32,
                node.queues,
                node.trees.0.each_ref().map(|t| t.v.0),
                node.trees.0.each_ref().map(|t| t.wsum),
            );
            if node.entity.is_some() {
                let e = &b.fair.ents[node.entity];
                text += &format!(
                    "; entity {} in group {} weight {} on {:?} service {} budget {} start {} finish {}",
                    node.entity.0,
                    e.node.0,
                    e.weight,
                    e.on,
                    e.service,
                    e.budget,
                    e.start.0,
                    e.finish.0,
                );
            }
            text.push('\n');
        }
        text
    }
}
