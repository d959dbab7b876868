//! Cooperation: contexts whose I/O interleaves, or whose queues were born together, share a queue, and
//! part again when that turns seeky (specs/bfq.md section 7).

use super::Bfq;
use super::ctx::Ask;
use super::idle::HwTag;
use super::ids::{Id, NodeNo, QueueNo};
use super::wf2q::IDLE;
use crate::env::Cx;
use crate::group::ProcId;
use crate::tree::Tree;
use crate::unit::{Instant, Nanos};

/// State of a context's own queue while it uses a shared one (7.6).
#[derive(Clone, Copy, Debug)]
pub(super) struct Saved {
    short_tt: bool,
    io_bound: bool,
    in_large_burst: bool,
    was_in_burst: bool,
    inject_limit: u32,
    orig_weight: u32,
    wr: u32,
    base_serv: Nanos,
    inj_decr: Option<Instant>,
    think: (u64, u64, u32, u64),
    io_start: Instant,
    tot_idle: u64,
    svc_wr: u64,
    wr_start: Instant,
    wr_start_before_srt: Option<Instant>,
    wr_limit: Nanos,
}

impl Bfq {
    /// The device queues commands and has no head to move: positions do not matter.
    pub(super) fn nonrot_queueing(&self) -> bool {
        !self.rotational && self.ncq.tag != HwTag::No
    }

    // The index of positions: 7.2.

    /// It has been served for so long that others would have shown their interest in its region.
    fn too_late(&self, q: QueueNo) -> bool {
        let queue = &self.queues[q];
        queue.svc_backlog > 0 && queue.first_io + self.up(MERGE_WINDOW) < self.tn
    }

    pub(super) fn index_remove(&mut self, q: QueueNo) {
        if core::mem::take(&mut self.queues[q].indexed) {
            let node = self.fair.ents[q].node;
            self.groups[node].index.remove(&mut self.positions, q.0);
        }
    }

    /// The next request of a queue has changed, or it goes back on its tree.
    pub(super) fn index_update(&mut self, q: QueueNo) {
        self.index_remove(q);
        if self.nonrot_queueing() || !self.conf.queue_merge {
            return;
        }
        let (next, e) = (self.queues[q].next, &self.fair.ents[q]);
        if next.is_none() || e.class == IDLE || self.too_late(q) {
            return;
        }
        let (pos, node) = (self.rqs[next].pos, e.node);
        let index: &mut Tree = &mut self.groups[node].index;
        let at = QueueNo(index.lower_bound(&self.positions, pos));
        // Quirk Q14: two queues at the same place are not both there.
        if at.is_none() || self.positions.key(at.0) != pos {
            index.insert(&mut self.positions, q.0, pos, ());
            self.queues[q].indexed = true;
        }
    }

    /// The queue whose next request is nearest, as the reference's search finds it (7.3 step 5).
    fn nearest(&self, node: NodeNo, pos: u64) -> QueueNo {
        let mut at = QueueNo(self.groups[node].index.root());
        let mut end = QueueNo::NONE;
        while at.is_some() {
            end = at;
            let key = self.positions.key(at.0);
            at = match pos.cmp(&key) {
                core::cmp::Ordering::Equal => return at,
                core::cmp::Ordering::Greater => QueueNo(self.positions.right(at.0)),
                core::cmp::Ordering::Less => QueueNo(self.positions.left(at.0)),
            };
        }
        if end.is_none() {
            return QueueNo::NONE;
        }
        let key = self.positions.key(end.0);
        if key.abs_diff(pos) <= CLOSE {
            return end;
        }
        let beside = if key < pos {
            QueueNo(self.positions.next(end.0))
        } else {
            QueueNo(self.positions.prev(end.0))
        };
        let close = beside.is_some() && self.positions.key(beside.0).abs_diff(pos) <= CLOSE;
        if close { beside } else { QueueNo::NONE }
    }

    // Finding a partner: 7.3.

    /// The queue that `q`, asked for by `proc` at that position, is to be merged into; `NONE` if none.
    pub(super) fn find_cooperator(&mut self, q: QueueNo, proc: ProcId, pos: u64) -> QueueNo {
        let mut end = self.queues[q].merge_into;
        if end.is_some() {
            while self.queues[end].merge_into.is_some() {
                end = self.queues[end].merge_into;
            }
            return end;
        }
        // From here on, merging by position or by age, both of which flash has no use for.
        if self.nonrot_queueing() {
            return QueueNo::NONE;
        }
        if let Some(found) = self.late_stable_merge(q, proc) {
            return found;
        }
        if !self.conf.queue_merge || self.too_late(q) || self.fair.census.tot_busy() == 1 {
            return QueueNo::NONE;
        }
        let (s, node) = (self.in_service, self.fair.ents[q].node);
        if s.is_some()
            && s != q
            && self.serv_last_pos.abs_diff(pos) <= CLOSE
            && self.fair.ents[s].node == node
            && self.compatible(q, s)
        {
            let found = self.setup_merge(q, s);
            if found.is_some() {
                return found;
            }
        }
        let near = self.nearest(node, pos);
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
            && queue.split_time.is_none_or(|at| at + window < tn)
            && queue.created + window < tn;
        let at = self.pair_at(proc, queue.actuator);
        let (candidate, generation) = self.pairs[at].stable_candidate;
        if !ripe || candidate.is_none() {
            return None;
        }
        self.pairs[at].stable_candidate.0 = QueueNo::NONE;
        // Deviation: the reference keeps the remembered queue alive; here one that was freed in the
        // meantime, which has no users, is told by its generation.
        let same = self.queues[candidate].generation == generation;
        let fits = same && self.queues[candidate].live && !self.thr_idling(q);
        if !fits {
            return Some(QueueNo::NONE);
        }
        let found = self.setup_merge(q, candidate);
        if found.is_some() {
            // The context that asks, which is not the owner of a shared queue.
            self.pairs[at].stably_merged = true;
            self.mark_stably_merged(found);
        }
        Some(found)
    }

    /// Marks the owner of a queue as merged for good.
    fn mark_stably_merged(&mut self, q: QueueNo) {
        let queue = &self.queues[q];
        if queue.owner.is_some() {
            let at = self.pair_at(queue.owner, queue.actuator);
            self.pairs[at].stably_merged = true;
        }
    }

    fn compatible(&self, q: QueueNo, p: QueueNo) -> bool {
        let (a, b) = (&self.queues[q], &self.queues[p]);
        let class = self.fair.class(q);
        !self.too_late(p)
            && class == self.fair.class(p)
            && class != IDLE
            && !a.seeky()
            && !b.seeky()
            && a.sync
            && b.sync
            && a.actuator == b.actuator
    }

    /// Schedules the merge of `q` into the end of `p`'s chain; returns that end, `NONE` if it cannot be.
    fn setup_merge(&mut self, q: QueueNo, mut p: QueueNo) -> QueueNo {
        if self.queues[p].users == 0 || p == q {
            return QueueNo::NONE;
        }
        while self.queues[p].merge_into.is_some() {
            p = self.queues[p].merge_into;
            if p == q {
                return QueueNo::NONE;
            }
        }
        let users = self.queues[q].users;
        let same_parent = self.fair.ents[q].node == self.fair.ents[p].node;
        if users == 0 || self.queues[p].users == 0 || !same_parent {
            return QueueNo::NONE;
        }
        self.queues[q].merge_into = p;
        self.queues[p].users += users;
        p
    }

    // Merging: 7.4.

    /// The context, which uses `q`, goes on with the end of `q`'s chain.
    pub(super) fn merge_queues(&mut self, now: Instant, proc: ProcId, q: QueueNo, cx: &mut Cx<'_>) {
        let mut from = q;
        while self.queues[from].merge_into.is_some() {
            let to = self.queues[from].merge_into;
            self.merge_one(proc, from, to);
            cx.trace.why(now, "queues merged", from.0, to.into(), proc.0.into());
            from = to;
        }
        self.tally(q, |t| t.merges += 1);
    }

    fn merge_one(&mut self, proc: ProcId, q: QueueNo, p: QueueNo) {
        self.save(q);
        self.save(p);
        let bound = core::mem::take(&mut self.queues[q].io_bound);
        self.queues[p].io_bound |= bound;
        let waker = self.queues[q].waker;
        let inherits = self.conf.inherit_waker && waker.is_some() && waker != p;
        if inherits && self.queues[p].waker.is_none() {
            self.queues[p].tent_waker = QueueNo::NONE;
            self.set_waker(p, waker);
        }
        self.hand_over_raising(q, p);
        let node = self.fair.ents[q].node;
        if self.groups[node].last_created == q {
            self.groups[node].last_created = p;
        }
        let at = self.pair_at(proc, self.queues[q].actuator);
        self.set_sync(at, p);
        self.queues[p].coop = true;
        self.queues[p].owner = ProcId::NONE;
        self.queues[q].owner = ProcId::NONE;
        self.release_queue(q);
    }

    fn hand_over_raising(&mut self, q: QueueNo, p: QueueNo) {
        let wr = self.fair.ents[q].wr;
        if wr == 1 {
            return;
        }
        let from = &self.queues[q];
        let (limit, start, before) = (from.wr_limit, from.wr_start, from.wr_start_before_srt);
        let e = &mut self.fair.ents[p];
        if e.wr == 1 {
            e.wr = wr;
            e.prio_dirty = true;
            self.fair.census.wr_busy += u32::from(e.busy);
            let to = &mut self.queues[p];
            to.wr_limit = limit;
            to.wr_start = start;
            to.wr_start_before_srt = before;
        }
        let e = &mut self.fair.ents[q];
        e.wr = 1;
        e.prio_dirty = true;
        self.fair.census.wr_busy -= u32::from(e.busy);
    }

    fn save(&mut self, q: QueueNo) {
        let queue = &self.queues[q];
        if queue.owner.is_none() {
            return;
        }
        let at = self.pair_at(queue.owner, queue.actuator);
        let e = &self.fair.ents[q];
        let fresh = queue.just_created && !queue.in_large_burst && self.conf.low_latency;
        let (wr, start, limit, before, svc_wr) = if fresh {
            let kept = self.pairs[at].saved.map_or(0, |saved| saved.svc_wr);
            (self.conf.wr_coeff, self.tn, self.wr_duration, None, kept)
        } else {
            (e.wr, queue.wr_start, queue.wr_limit, queue.wr_start_before_srt, queue.svc_wr)
        };
        self.pairs[at].saved = Some(Saved {
            short_tt: queue.short_tt,
            io_bound: queue.io_bound,
            in_large_burst: queue.in_large_burst,
            was_in_burst: self.burst.listed(q),
            inject_limit: queue.inject_limit,
            orig_weight: e.orig_weight,
            wr,
            base_serv: queue.base_serv,
            inj_decr: queue.inj_decr,
            think: (queue.tt_last_end, queue.tt_total, queue.tt_samples, queue.tt_mean),
            io_start: queue.io_start,
            tot_idle: queue.tot_idle,
            svc_wr,
            wr_start: start,
            wr_start_before_srt: before,
            wr_limit: limit,
        });
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
            let at = self.pair_at(ask.proc, ask.actuator);
            let generation = self.queues[last].generation;
            self.pairs[at].stable_candidate = (last, generation);
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
        let at = self.pair_at(ask.proc, ask.actuator);
        if self.queues[q].in_large_burst
            && let Some(saved) = &mut self.pairs[at].saved
        {
            saved.in_large_burst = true;
        }
        self.tally(q, |t| t.splits += 1);
        let queue = &mut self.queues[q];
        if queue.users == 1 && queue.merge_into.is_none() {
            queue.owner = ask.proc;
            queue.coop = false;
            queue.split_me = false;
            cx.trace.why(now, "shared queue kept by its last user", q.0, ask.proc.0.into(), 0);
            self.resume(q, at);
            return q;
        }
        let waker = self.waker_after_split(q);
        self.detach(ask.proc, at, q);
        let new = self.new_sync_queue(now, ask);
        if waker.is_some() {
            self.set_waker(new, waker);
        }
        self.queues[new].split_time = Some(self.tn);
        if let Some(saved) = &self.pairs[at].saved {
            if (saved.was_in_burst && self.burst.large) || saved.in_large_burst {
                self.queues[new].in_large_burst = true;
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
        let waker = self.queues[q].waker;
        if waker.is_none() {
            return QueueNo::NONE;
        }
        let mut at = q;
        while at.is_some() && at != waker {
            at = self.queues[at].merge_into;
        }
        let users = self.queues[waker].users - u32::from(at == waker);
        if users > 0 { waker } else { QueueNo::NONE }
    }

    /// Restores what was saved when the context's queue was merged.
    fn resume(&mut self, q: QueueNo, at: usize) {
        // Deviation: a context whose queue was never its own has nothing saved; the text does not say what
        // then, and the new queue stays as it is.
        let Some(s) = self.pairs[at].saved else { return };
        let duration = self.wr_duration;
        let queue = &mut self.queues[q];
        let e = &mut self.fair.ents[q];
        queue.short_tt = s.short_tt;
        queue.io_bound = s.io_bound;
        queue.base_serv = s.base_serv;
        queue.inject_limit = s.inject_limit;
        queue.inj_decr = s.inj_decr;
        (queue.tt_last_end, queue.tt_total, queue.tt_samples, queue.tt_mean) = s.think;
        queue.io_start = s.io_start;
        queue.tot_idle = s.tot_idle;
        queue.svc_wr = s.svc_wr;
        queue.wr_start_before_srt = s.wr_start_before_srt;
        queue.wr_start = s.wr_start;
        queue.wr_limit = s.wr_limit;
        // A level that changed meanwhile is lost; the class is that of the context's present priority.
        e.new_weight = s.orig_weight;
        let old = e.wr;
        if self.conf.low_latency {
            e.wr = s.wr;
        }
        let over = queue.in_large_burst || queue.wr_start + queue.wr_limit < self.tn;
        if e.wr > 1 && over {
            let resumes = queue.wr_limit == self.conf.wr_rt_max_time
                && !queue.in_large_burst
                && queue.wr_start_before_srt.is_some_and(|at| at + duration >= self.tn);
            if resumes {
                self.back_to_interactive(q);
            } else {
                e.wr = 1;
            }
        }
        let e = &mut self.fair.ents[q];
        e.prio_dirty = true;
        if e.busy {
            self.fair.census.wr_busy += u32::from(e.wr > 1);
            self.fair.census.wr_busy -= u32::from(old > 1);
        }
    }
}

/// Positions this near belong together (3.1), in sectors.
const CLOSE: u64 = 8192;
/// A queue served for longer is not merged any more (7.2).
const MERGE_WINDOW: Nanos = Nanos::ms(100);
/// Queues created this close to each other may be merged at once (7.5), and how long a queue is the one
/// that others are compared with.
const STABLE_NOW: Nanos = Nanos::ms(180);
const STABLE_LATER: Nanos = Nanos::ms(600);
