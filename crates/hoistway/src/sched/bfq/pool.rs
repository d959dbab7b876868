//! Limits in the request pool, and drives with several actuators (specs/bfq.md 8.5, 8.4).

use super::Bfq;
use super::ids::{EntityNo, Id, QueueNo};
use super::tunables::Base;
use crate::device::{Device, Profile};
use crate::env::Cx;
use crate::request::{Dir, Io};
use crate::sched::Depth;

impl Bfq {
    /// Which tags this bio may have: a part of each word by kind, and only the first place of each for a
    /// process over its share.
    ///
    /// When tags run out the scheduler no longer chooses, allocation does. So a quarter is kept for reads always, and
    /// about 63 % while somebody is raised: the largest reserve with which no start-up was lost to a lack of tags.
    /// A process over its share has requests queued already, so one tag per word does not idle it.
    pub(super) fn pool_limit(&self, io: &Io, cx: &Cx<'_>) -> Depth {
        let n = u64::from(cx.device.nr_requests);
        let sync = cx.device.is_sync(io.op, io.flags);
        let reads = sync && io.op.dir() == Dir::Read;
        let (limit, depth) = match self.conf.base {
            _ if reads => (n, Depth::Usual),
            Base::V73 => self.part_of_depth(sync, cx.device),
            _ => self.part_of_word(sync, cx.device),
        };
        // Deviation: the legacy pool has no place of its own for those over their share, so there a queue
        // without requests is never locked out.
        let counted = cx.device.profile == Profile::Legacy;
        for actuator in 0..self.ctxs.actuators {
            let q =
                self.ctxs.pair(io.proc, actuator).map_or(QueueNo::NONE, |pair| pair.queue(sync));
            // One queue over its limit is enough.
            if q.is_some()
                && (!counted || self.queues[q].rqs.allocated > 0)
                && self.share(q.into(), limit).is_some_and(|share| share.over)
            {
                return Depth::Word(1);
            }
        }
        depth
    }

    /// Of all requests, and of a word of tags.
    fn part_of_word(&self, sync: bool, device: &Device) -> (u64, Depth) {
        let word = u64::from(device.tag_word());
        let part = match (sync, self.fair.census.wr_busy != 0) {
            (true, false) => 3 * word / 4,
            (true, true) => 6 * word / 16,
            (false, false) => word / 2,
            (false, true) => 3 * word / 16,
        }
        .max(1);
        (u64::from(device.nr_requests) * part / word, Depth::Word(part as u32))
    }

    /// The same in 7.3: parts of the drive's depth (Q29).
    fn part_of_depth(&self, sync: bool, device: &Device) -> (u64, Depth) {
        let (n, whole) = (u64::from(device.nr_requests), u64::from(device.queue_depth));
        let part = match (sync, self.fair.census.wr_busy != 0) {
            (true, false) => whole,
            (true, true) => whole / 2,
            (false, false) => 2 * whole / 3,
            (false, true) => whole / 4,
        }
        .max(1);
        if part >= n {
            return (part, Depth::Usual);
        }
        let word = u64::from(device.tag_word());
        (part, Depth::Word((part * word / n).max(1) as u32))
    }

    /// The share of an entity in `n` requests, from the top down; `None` if some level is not tracked. Eight times as
    /// much per class: the lowest level of a class must beat the highest of the next.
    fn share(&self, e: EntityNo, n: u64) -> Option<Share> {
        let ent = &self.fair.ents[e];
        if !ent.tracked {
            return None;
        }
        let up = self.fair.nodes[ent.node].entity;
        let above = if up.is_none() { Share { limit: n, over: false } } else { self.share(up, n)? };
        let trees = &self.fair.nodes[ent.node].trees;
        let (wsum, allocated) = if ent.child.is_none() {
            let upto = &trees.0[..=ent.class as usize];
            let wsum = upto.iter().fold(0, |sum, tree| 8 * sum + tree.wsum);
            (wsum, self.queues[e.queue()].rqs.allocated as i32)
        } else {
            (trees[ent.class].wsum, self.groups[ent.child].allocated)
        };
        if wsum == 0 {
            return Some(above);
        }
        let limit = (above.limit * u64::from(ent.weight) + wsum / 2) / wsum;
        Some(Share { limit, over: above.over || i64::from(allocated) >= limit as i64 })
    }

    /// The actuator of a request that ends before `end`.
    #[inline]
    pub(super) fn actuator_of(&self, end: u64, device: &Device) -> u8 {
        if self.ctxs.actuators == 1 {
            return 0;
        }
        let last = end.saturating_sub(1);
        let at = device.actuators.iter().position(|&(from, to)| from.0 <= last && last < to.0);
        at.map_or(0, |i| (i as u8).min(self.ctxs.actuators - 1))
    }

    /// A queue that keeps an otherwise idle actuator busy, if it is not the one in service (8.4). Each head is a disk of
    /// its own, so for one that starves the rule of the queue in service is broken.
    #[inline(always)]
    pub(super) fn underused_actuator(&self, q: QueueNo) -> Option<QueueNo> {
        if self.ctxs.actuators == 1 || self.conf.base.before_6_2() {
            return None;
        }
        self.starved_actuator(q)
    }

    #[inline(never)]
    fn starved_actuator(&self, q: QueueNo) -> Option<QueueNo> {
        let last = usize::from(self.ctxs.actuators) - 1;
        for i in 0..=last {
            let load = self.load.by_actuator[i];
            if load >= self.conf.actuator_load || (i < last && load >= self.load.by_actuator[i + 1])
            {
                continue;
            }
            if usize::from(self.queues[q].actuator) == i {
                return None;
            }
            let found = self
                .fair
                .active_queues()
                .find(|&p| usize::from(self.queues[p].actuator) == i && self.fits(p));
            if found.is_some() {
                return found;
            }
        }
        None
    }
}

struct Share {
    limit: u64,
    over: bool,
}

/// How many actuators BFQ tells apart (8.4).
pub(super) const ACTUATORS: usize = 8;

/// Drives with more ranges than that count as one.
pub(super) fn actuators(device: &Device) -> u8 {
    match device.actuators.len() {
        n @ 1..=ACTUATORS => n as u8,
        _ => 1,
    }
}
