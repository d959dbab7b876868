//! Cooperation: contexts whose I/O interleaves, or whose queues were born together, share a queue, and
//! part again when that turns seeky (specs/bfq.md section 7).

use super::Bfq;
use super::ctx::Ask;
use super::groups::GroupParts;
use super::ids::{Id, NodeNo, QueueNo};
use super::queue::past::Past;
use super::queue::raise::NOT_RAISED;
use super::wf2q::IDLE;
use crate::env::Cx;
use crate::group::ProcId;
use crate::table::NIL;
use crate::tree::Tree;
use crate::unit::{Instant, Nanos};
use core::cmp::Ordering;

impl GroupParts {
    /// Puts a queue into the index of its group; false if another one stands at the same place.
    fn index_add(&mut self, node: NodeNo, q: QueueNo, pos: u64) -> bool {
        let index: &mut Tree = &mut self.parts[node].index;
        let at = index.lower_bound(&self.positions, pos);
        // Quirk Q14: two queues at the same place are not both there.
        let free = at == NIL || self.positions.key(at) != pos;
        if free {
            index.insert(&mut self.positions, q.0, pos, ());
        }
        free
    }

    /// The queue whose next request is nearest, as the reference's search finds it (7.3 step 5): the last one on the
    /// way down the tree, or the one on the other side of the position.
    pub(super) fn nearest(&self, node: NodeNo, pos: u64) -> QueueNo {
        let (mut at, mut end) = (self.parts[node].index.root(), NIL);
        while at != NIL {
            end = at;
            at = match pos.cmp(&self.positions.key(at)) {
                Ordering::Equal => return QueueNo(at),
                Ordering::Greater => self.positions.right(at),
                Ordering::Less => self.positions.left(at),
            };
        }
        if end == NIL {
            return QueueNo::NONE;
        }
        let key = self.positions.key(end);
        if close(key, pos) {
            return QueueNo(end);
        }
        let beside = if key < pos { self.positions.next(end) } else { self.positions.prev(end) };
        let found = beside != NIL && close(self.positions.key(beside), pos);
        if found { QueueNo(beside) } else { QueueNo::NONE }
    }
}

/// Two positions belong together.
fn close(a: u64, b: u64) -> bool {
    a.abs_diff(b) <= CLOSE
}

impl Bfq {
    // The index of positions: 7.2.

    /// It has been served for so long that others would have shown their interest in its region: real cooperators
    /// meet with their very first requests, and later proximity is chance.
    #[inline]
    fn too_late(&self, q: QueueNo) -> bool {
        let slot = &self.queues[q].slot;
        slot.served > 0 && slot.first_io + self.up(MERGE_WINDOW) < self.tn
    }

    #[inline(always)]
    pub(super) fn index_remove(&mut self, q: QueueNo) {
        if self.queues[q].coop.indexed {
            self.index_take(q);
        }
    }

    #[inline(never)]
    fn index_take(&mut self, q: QueueNo) {
        self.queues[q].coop.indexed = false;
        let node = self.fair.ents[q].node;
        let groups = &mut self.groups;
        groups.parts[node].index.remove(&mut groups.positions, q.0);
    }

    /// The next request of a queue has changed, or it goes back on its tree.
    #[inline(always)]
    pub(super) fn index_update(&mut self, q: QueueNo) {
        self.index_remove(q);
        let early = !self.nonrot_queueing() && self.conf.queue_merge;
        if early || self.rules.merges_at_selection {
            self.index_insert(q);
        }
    }

    #[inline(never)]
    fn index_insert(&mut self, q: QueueNo) {
        let (next, e) = (self.queues[q].rqs.next, &self.fair.ents[q]);
        let too_late = !self.rules.merges_at_selection && self.too_late(q);
        if next.is_none() || e.class == IDLE || too_late {
            return;
        }
        let pos = self.rqs[next].pos;
        self.queues[q].coop.indexed = self.groups.index_add(e.node, q, pos);
    }

    // Finding a partner: 7.3.

    /// The queue that `q`, asked for by `proc` at that position, is to be merged into; `NONE` if none.
    ///
    /// At insertion: that catches even pairs for which CFQ needed preemption. Cooperating threads (a dump, the I/O
    /// threads of a virtual machine) each read every n-th block: at random one by one, sequential together.
    #[inline(always)]
    pub(super) fn find_cooperator(&mut self, q: QueueNo, proc: ProcId, pos: u64) -> QueueNo {
        if self.queues[q].coop.into.is_some() {
            return self.queues.end_of_chain(q);
        }
        // From here on, merging by position or by age, both of which flash has no use for: it merges internally, and a
        // shared queue is never empty, stays heavy and makes BFQ idle (since 5.2).
        if self.nonrot_queueing() {
            return QueueNo::NONE;
        }
        self.find_partner(q, proc, pos)
    }

    #[inline(never)]
    fn find_partner(&mut self, q: QueueNo, proc: ProcId, pos: u64) -> QueueNo {
        if let Some(found) = self.late_stable_merge(q, proc) {
            return found;
        }
        if !self.conf.queue_merge || self.too_late(q) || self.fair.census.tot_busy() == 1 {
            return QueueNo::NONE;
        }
        // First the one in service: its context is at hand, and near requests join the run of the head.
        let (s, node) = (self.serving.queue, self.fair.ents[q].node);
        if s.is_some()
            && s != q
            && close(self.serving.last_pos, pos)
            && self.fair.ents[s].node == node
            && self.compatible(q, s)
        {
            let found = self.setup_merge(q, s);
            if found.is_some() {
                return found;
            }
        }
        let near = self.groups.nearest(node, pos);
        if near.is_some() && near != q && self.compatible(q, near) {
            return self.setup_merge(q, near);
        }
        QueueNo::NONE
    }

    /// A queue born at about the same time was remembered (7.3 step 2). `None`: not the time for it.
    fn late_stable_merge(&mut self, q: QueueNo, proc: ProcId) -> Option<QueueNo> {
        let queue = &self.queues[q];
        let (tn, window) = (self.tn, self.up(STABLE_LATER));
        let ripe = queue.sync
            && !queue.just_created
            && !queue.coop.split_within(window, tn)
            && queue.created + window < tn;
        let at = self.ctxs.pair_at(proc, queue.actuator);
        let (candidate, generation) = self.ctxs.pairs[at].stable_candidate;
        if !ripe || candidate.is_none() {
            return None;
        }
        self.ctxs.pairs[at].stable_candidate.0 = QueueNo::NONE;
        // Deviation: the reference keeps the remembered queue alive; here one that was freed in the
        // meantime, which has no users, is told by its generation.
        let same = self.queues[candidate].life.generation == generation;
        let fits = same && self.queues[candidate].live && !self.thr_idling(q);
        if !fits {
            return Some(QueueNo::NONE);
        }
        let found = self.setup_merge(q, candidate);
        if found.is_some() {
            // The context that asks, which is not the owner of a shared queue.
            self.ctxs.pairs[at].stably_merged = true;
            self.mark_stably_merged(found);
        }
        Some(found)
    }

    /// Marks the owner of a queue as merged for good.
    fn mark_stably_merged(&mut self, q: QueueNo) {
        let queue = &self.queues[q];
        if queue.life.owner.is_some() {
            let at = self.ctxs.pair_at(queue.life.owner, queue.actuator);
            self.ctxs.pairs[at].stably_merged = true;
        }
    }

    fn compatible(&self, q: QueueNo, p: QueueNo) -> bool {
        let (a, b) = (&self.queues[q], &self.queues[p]);
        let class = self.fair.class(q);
        !self.too_late(p)
            && class == self.fair.class(p)
            && class != IDLE
            && !a.seek.seeky()
            && !b.seek.seeky()
            && a.sync
            && b.sync
            && a.actuator == b.actuator
    }

    /// Schedules the merge of `q` into the end of `p`'s chain; returns that end, `NONE` if it cannot be.
    pub(super) fn setup_merge(&mut self, q: QueueNo, mut p: QueueNo) -> QueueNo {
        if self.queues[p].life.users == 0 || p == q {
            return QueueNo::NONE;
        }
        while self.queues[p].coop.into.is_some() {
            p = self.queues[p].coop.into;
            if p == q {
                return QueueNo::NONE;
            }
        }
        let users = self.queues[q].life.users;
        let same_parent = self.fair.ents[q].node == self.fair.ents[p].node;
        if users == 0 || self.queues[p].life.users == 0 || !same_parent {
            return QueueNo::NONE;
        }
        self.queues[q].coop.into = p;
        self.queues[p].life.users += users;
        p
    }

    // Merging: 7.4.

    /// The context, which uses `q`, goes on with the end of `q`'s chain.
    pub(super) fn merge_queues(&mut self, now: Instant, proc: ProcId, q: QueueNo, cx: &mut Cx<'_>) {
        let mut from = q;
        while self.queues[from].coop.into.is_some() {
            let to = self.queues[from].coop.into;
            self.merge_one(proc, from, to);
            cx.trace.why(now, "queues merged", from.0, to.into(), proc.0.into());
            from = to;
        }
        self.tally(q, |t| t.merges += 1);
    }

    fn merge_one(&mut self, proc: ProcId, q: QueueNo, p: QueueNo) {
        self.save(q);
        self.save(p);
        let bound = core::mem::take(&mut self.queues[q].intensity.bound);
        self.queues[p].intensity.bound |= bound;
        let waker = self.queues[q].waker.queue;
        let inherits = self.conf.inherit_waker && waker.is_some() && waker != p;
        if inherits && self.queues[p].waker.queue.is_none() {
            self.queues[p].waker.suspect = QueueNo::NONE;
            self.queues.set_waker(p, waker);
        }
        self.hand_over_raising(q, p);
        let node = self.fair.ents[q].node;
        if self.groups[node].last_created == q {
            self.groups[node].last_created = p;
        }
        let at = self.ctxs.pair_at(proc, self.queues[q].actuator);
        self.ctxs.set_sync(at, p);
        self.queues[p].coop.shared = true;
        self.queues[p].life.owner = ProcId::NONE;
        self.queues[q].life.owner = ProcId::NONE;
        self.release_queue(q);
    }

    fn hand_over_raising(&mut self, q: QueueNo, p: QueueNo) {
        let wr = self.fair.ents[q].wr;
        if wr == NOT_RAISED {
            return;
        }
        let from = self.queues[q].raise;
        let e = &mut self.fair.ents[p];
        if e.wr == NOT_RAISED {
            e.wr = wr;
            e.prio_dirty = true;
            self.fair.census.wr_busy += i32::from(e.busy);
            self.queues[p].raise.take_over(&from);
        }
        let e = &mut self.fair.ents[q];
        e.wr = NOT_RAISED;
        e.prio_dirty = true;
        self.fair.census.wr_busy -= i32::from(e.busy);
    }

    /// Keeps what is known of the queue for its owner.
    fn save(&mut self, q: QueueNo) {
        let queue = &self.queues[q];
        if queue.life.owner.is_none() {
            return;
        }
        let at = self.ctxs.pair_at(queue.life.owner, queue.actuator);
        let mut saved = queue.save(&self.fair.ents[q], self.burst.listed(q));
        if queue.just_created && !queue.raise.in_large_burst && self.conf.low_latency {
            // Merged before it could be raised: it is from now on, or early merging would rob programs that start.
            let served = self.ctxs.pairs[at].saved.map_or(0, |old| old.raise.served);
            saved.wr = saved.raise.begin_interactive(self.tn, served, &self.terms());
        }
        self.ctxs.pairs[at].saved = Some(saved);
    }

    // Queues born together: 7.5.

    /// A sync queue was created for a context; returns the queue the context then uses.
    pub(super) fn stable_merge_at_creation(
        &mut self,
        now: Instant,
        ask: Ask,
        q: QueueNo,
        cx: &mut Cx<'_>,
    ) -> QueueNo {
        let node = self.fair.ents[q].node;
        let last = self.groups[node].last_created;
        let created = self.queues[q].created;
        let kept = last.is_some()
            && self.queues[last].created + self.up(STABLE_LATER) >= created
            && self.alike(q, last);
        if !kept {
            self.groups[node].last_created = q;
            return q;
        }
        let near = self.queues[last].created + self.up(STABLE_NOW) >= created;
        if !near || !self.conf.stable_merge {
            return q;
        }
        if !self.nonrot_queueing() {
            let at = self.ctxs.pair_at(ask.proc, ask.actuator);
            let generation = self.queues[last].life.generation;
            self.ctxs.pairs[at].stable_candidate = (last, generation);
            return q;
        }
        let found = self.setup_merge(q, last);
        if found.is_none() {
            return q;
        }
        self.mark_stably_merged(found);
        self.mark_stably_merged(q);
        self.stats.stable_merges += 1;
        self.merge_queues(now, ask.proc, q, cx);
        found
    }

    /// Same level, class and actuator.
    fn alike(&self, q: QueueNo, last: QueueNo) -> bool {
        let (a, b) = (&self.fair.ents[q], &self.fair.ents[last]);
        let actuator = |q: QueueNo| self.queues[q].actuator;
        a.orig_weight == b.orig_weight && a.class == b.class && actuator(q) == actuator(last)
    }

    // Splitting: 7.6.

    /// The shared queue of the context has turned seeky; returns the queue the context then uses.
    pub(super) fn split(&mut self, now: Instant, ask: Ask, q: QueueNo, cx: &mut Cx<'_>) -> QueueNo {
        let at = self.ctxs.pair_at(ask.proc, ask.actuator);
        if self.queues[q].raise.in_large_burst
            && let Some(saved) = &mut self.ctxs.pairs[at].saved
        {
            saved.raise.in_large_burst = true;
        }
        self.tally(q, |t| t.splits += 1);
        let queue = &mut self.queues[q];
        if queue.life.users == 1 && queue.coop.into.is_none() {
            queue.life.owner = ask.proc;
            queue.coop.shared = false;
            queue.coop.split_me = false;
            cx.trace.why(now, "shared queue kept by its last user", q.0, ask.proc.0.into(), 0);
            self.resume(q, at);
            return q;
        }
        let waker = self.waker_after_split(q);
        self.detach(ask.proc, at, q);
        let new = self.new_sync_queue(now, ask);
        if waker.is_some() {
            self.queues.set_waker(new, waker);
        }
        self.queues[new].coop.split_at = Past::at(self.tn);
        if let Some(saved) = &self.ctxs.pairs[at].saved {
            if (saved.was_in_burst && self.burst.large) || saved.raise.in_large_burst {
                self.queues[new].raise.in_large_burst = true;
            } else if saved.was_in_burst {
                self.burst.rejoin(new);
            }
        }
        cx.trace.why(now, "split off a shared queue", new.0, q.into(), ask.proc.0.into());
        self.resume(new, at);
        new
    }

    /// The waker that a queue split off `q` has: that of `q` if it still has users, without the one that is
    /// about to leave `q` and its merge chain.
    fn waker_after_split(&self, q: QueueNo) -> QueueNo {
        let waker = self.queues[q].waker.queue;
        if waker.is_none() {
            return QueueNo::NONE;
        }
        let mut at = q;
        while at.is_some() && at != waker {
            at = self.queues[at].coop.into;
        }
        let users = self.queues[waker].life.users - u32::from(at == waker);
        if users > 0 { waker } else { QueueNo::NONE }
    }

    /// Restores what was saved when the context's queue was merged.
    fn resume(&mut self, q: QueueNo, at: usize) {
        // Deviation: a context whose queue was never its own has nothing saved; the text does not say what
        // then, and the new queue stays as it is.
        let Some(saved) = self.ctxs.pairs[at].saved else { return };
        let (terms, tn) = (self.terms(), self.tn);
        let queue = &mut self.queues[q];
        queue.resume(&saved);
        let e = &mut self.fair.ents[q];
        // A level that changed meanwhile is lost; the class is that of the context's present priority.
        e.new_weight = saved.orig_weight;
        let old = e.wr;
        if self.conf.low_latency {
            e.wr = saved.wr;
        }
        let raise = queue.raise;
        let burst = raise.in_large_burst;
        if e.wr > NOT_RAISED && (burst || raise.over(tn)) {
            match raise.unfinished(&terms, tn) {
                Some(start) if raise.soft(&terms) && !burst => self.resume_interactive(q, start),
                _ => e.wr = NOT_RAISED,
            }
        }
        let e = &mut self.fair.ents[q];
        e.prio_dirty = true;
        if e.busy {
            self.fair.census.wr_busy += i32::from(e.wr > NOT_RAISED);
            self.fair.census.wr_busy -= i32::from(old > NOT_RAISED);
        }
    }
}

/// Positions this near belong together (7.3), in sectors: 4 MiB, CFQ's closeness. Wrong merges are undone by splits.
const CLOSE: u64 = 8192;
/// A queue served for longer is not merged any more (7.2): the longest limit that still kept false ones out.
const MERGE_WINDOW: Nanos = Nanos::ms(100);
/// Queues created this close to each other may be merged at once (7.5): threads of one task need no protection from
/// each other, and one queue for them halves the cost of BFQ.
const STABLE_NOW: Nanos = Nanos::ms(180);
/// How long a queue is the one that others are compared with, and how long a disk looks first and decides then: a
/// member that reads sequentially is better served alone there. 180 and 200 ms proved too short (since 5.14); the
/// comparison above still uses the old time, so those born 180 to 600 ms after it are merged with nobody.
const STABLE_LATER: Nanos = Nanos::ms(600);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched::bfq::wf2q::ROOT;

    /// Queues 0, 1, ... with their next requests at these positions.
    fn index(positions: &[u64]) -> GroupParts {
        let mut groups = GroupParts::new(1);
        groups.positions.grow(positions.len());
        for (q, &pos) in (0..).map(QueueNo).zip(positions) {
            assert!(groups.index_add(ROOT, q, pos));
        }
        groups
    }

    #[test]
    fn a_queue_is_near_up_to_8192_sectors_on_either_side() {
        let groups = index(&[100_000]);
        for (pos, near) in [(91_808, true), (91_807, false), (108_192, true), (108_193, false)] {
            let found = if near { QueueNo(0) } else { QueueNo::NONE };
            assert_eq!(groups.nearest(ROOT, pos), found, "{pos}");
        }
        assert!(index(&[]).nearest(ROOT, 0).is_none());
    }

    #[test]
    fn the_one_on_the_other_side_is_found_within_the_same_distance() {
        // The descent for 200 000 ends at queue 2, too far above; queue 0 is below.
        for (below, near) in [(191_808, true), (191_807, false)] {
            let groups = index(&[below, 900_000, 300_000]);
            let found = if near { QueueNo(0) } else { QueueNo::NONE };
            assert_eq!(groups.nearest(ROOT, 200_000), found, "{below}");
        }
        // And the other way round, from below.
        for (above, near) in [(208_192, true), (208_193, false)] {
            let groups = index(&[above, 10_000, 100_000]);
            let found = if near { QueueNo(0) } else { QueueNo::NONE };
            assert_eq!(groups.nearest(ROOT, 200_000), found, "{above}");
        }
    }

    #[test]
    fn of_two_queues_at_one_place_the_first_is_there() {
        let mut groups = index(&[5_000]);
        groups.positions.grow(2);
        assert!(!groups.index_add(ROOT, QueueNo(1), 5_000));
        assert_eq!(groups.nearest(ROOT, 5_000), QueueNo(0));
    }
}
