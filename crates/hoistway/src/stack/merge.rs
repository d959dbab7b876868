//! Merging: bios into requests, requests into each other (specs/blk-mq-and-noop.md section 3).

use super::*;
use crate::device::Merging;
use crate::request::{Flags, Side};
use crate::sched::{Merged, Search};
use crate::trace::Event;
use crate::unit::Sectors;

impl Stack {
    /// 3.1: a request may merge while it is not started, not part of a flush sequence and not flagged.
    pub(super) fn mergeable(&self, id: ReqId) -> bool {
        let r = &self.env.requests[id];
        let state = &self.state[id.index()];
        !state.started
            && state.steps == 0
            && !state.flush_command
            && matches!(r.op, Op::Read | Op::Write | Op::Discard)
            && !r.flags.any(never())
    }

    /// 3.1 between a bio and a request, without the scheduler's veto.
    fn compatible(&self, io: &Io, id: ReqId) -> bool {
        let r = &self.env.requests[id];
        self.mergeable(id)
            && r.op == io.op
            && (!self.is_mq()
                || (r.group == io.group && r.prio == io.prio && alike(r.flags, io.flags)))
    }

    /// Tries to join the bio to a request; true if it did (the submitter then goes on).
    pub(super) fn try_merge(&mut self, bio: BioId) -> bool {
        let io = *self.env.requests.bio(bio);
        let merging = self.env.device.merging;
        let data = matches!(io.op, Op::Read | Op::Write | Op::Discard);
        if merging == Merging::Never || !data || io.flags.any(never()) {
            return false;
        }
        if self.is_mq() && self.merge_with_plug(bio, &io) {
            return true;
        }
        let found = match self.entry.search {
            Search::Elevator => self.elevator_search(&io, merging),
            Search::Own if merging == Merging::All => {
                self.scheduler.find_merge(self.now, &io, &mut self.env.cx())
            }
            Search::Own => None,
        };
        let Some((id, side)) = found else { return false };
        if !self.fits(id, io.sectors, io.segments, side, io.start) {
            return false;
        }
        self.join_bio(bio, id, side);
        self.after_bio_merge(id, side);
        self.unplug_after_merge(io.flags);
        self.passed(bio);
        true
    }

    /// 3.7: the newest request in the plug of the submitter, or of the worker.
    fn merge_with_plug(&mut self, bio: BioId, io: &Io) -> bool {
        let Some(id) = self.newest_in_plug(self.context(bio)) else { return false };
        if !self.compatible(io, id) {
            return false;
        }
        let Some(side) = adjacent(&self.env.requests[id], io) else { return false };
        if !self.fits(id, io.sectors, io.segments, side, io.start) {
            return false;
        }
        self.join_bio(bio, id, side);
        self.passed(bio);
        true
    }

    /// 3.3: one-hit cache, back-merge hash, then the scheduler's own look-up.
    fn elevator_search(&mut self, io: &Io, merging: Merging) -> Option<(ReqId, Side)> {
        let hit = self.elevator.one_hit();
        if hit != NIL {
            let id = self.env.requests.at(hit).id;
            // The veto comes before the position is compared: BFQ merges queues there.
            if self.compatible(io, id)
                && self.may_merge(io, id)
                && let Some(side) = adjacent(&self.env.requests[id], io)
            {
                return Some((id, side));
            }
        }
        if merging == Merging::Simple {
            return None;
        }
        let behind = self.elevator.find(io.start);
        if behind != NIL {
            let id = self.env.requests.at(behind).id;
            if self.compatible(io, id) && self.may_merge(io, id) {
                return Some((id, Side::Back));
            }
        }
        let (id, side) = self.scheduler.find_merge(self.now, io, &mut self.env.cx())?;
        let fine = self.compatible(io, id) && self.may_merge(io, id);
        fine.then_some((id, side))
    }

    fn may_merge(&mut self, io: &Io, id: ReqId) -> bool {
        self.scheduler.may_merge(self.now, io, id, &mut self.env.cx())
    }

    /// 3.2: the limits. A request that hits them never merges again.
    fn fits(
        &mut self,
        id: ReqId,
        more: Sectors,
        segments: u32,
        side: Side,
        start: Sectors,
    ) -> bool {
        let d = &self.env.device;
        let r = &self.env.requests[id];
        let (total, segments) = (r.sectors + more, r.segments + segments);
        let most = if r.op == Op::Discard { d.max_discard_sectors } else { self.max_sectors() };
        let begin = if side == Side::Front { start } else { r.start };
        let chunk = d.chunk_sectors.0;
        let crosses =
            chunk > 0 && self.is_mq() && begin.0 / chunk != (begin.0 + total.0 - 1) / chunk;
        if total <= most && segments <= d.max_segments && !crosses {
            return true;
        }
        self.env.requests.get_mut(id).flags |= Flags::NOMERGE;
        self.elevator.forget(id.slot());
        false
    }

    fn join_bio(&mut self, bio: BioId, id: ReqId, side: Side) {
        let io = *self.env.requests.bio(bio);
        self.env.requests.join_bio(id, bio, side);
        if !self.is_mq() {
            // Legacy: priorities may differ, the request takes the better of the two.
            let r = self.env.requests.get_mut(id);
            r.prio = better(r.prio, io.prio);
        }
        self.counters.merged += 1;
        let event = Event::Merged { bio: bio.0.slot, into: id.slot(), side };
        self.env.trace.emit(self.now, event);
        for c in &mut self.controllers {
            c.stage.merged(self.now, bio, id, &mut self.env.cx());
        }
    }

    /// 3.4: the request may now touch its neighbour. Two interleaved writers otherwise leave a,b and c,d unjoined for
    /// ever (5 to 20 % of throughput; ML "block: recursive merge requests").
    fn after_bio_merge(&mut self, id: ReqId, side: Side) {
        if self.entry.search == Search::Own {
            self.scheduler.merged(self.now, id, Merged::Bio(side), &mut self.env.cx());
            return;
        }
        // Joined at once, the scheduler hears only of the join (both bios and requests are told by it).
        if let Some(other) = self.scheduler.neighbour(id, side, &self.env.cx()) {
            let (front, back) = if side == Side::Back { (id, other) } else { (other, id) };
            if self.joinable(front, back) {
                self.join(front, back);
                return;
            }
        }
        self.scheduler.merged(self.now, id, Merged::Bio(side), &mut self.env.cx());
        if side == Side::Back {
            let end = self.env.requests[id].end();
            self.elevator.rehash(id.slot(), end);
        }
        self.elevator.set_one_hit(id.slot());
    }

    fn joinable(&mut self, front: ReqId, back: ReqId) -> bool {
        let (f, b) = (&self.env.requests[front], &self.env.requests[back]);
        let fitting = f.op == b.op && f.end() == b.start && (!self.is_mq() || f.prio == b.prio);
        let (sectors, segments) = (b.sectors, b.segments);
        let one_payer = !self.is_mq() || f.group == b.group && alike(f.flags, b.flags);
        fitting
            && one_payer
            && self.mergeable(front)
            && self.mergeable(back)
            && self.sum_fits(front, sectors, segments)
    }

    fn sum_fits(&self, front: ReqId, more: Sectors, segments: u32) -> bool {
        let d = &self.env.device;
        let f = &self.env.requests[front];
        let most = if f.op == Op::Discard { d.max_discard_sectors } else { self.max_sectors() };
        let total = f.sectors + more;
        let chunk = d.chunk_sectors.0;
        let crosses =
            chunk > 0 && self.is_mq() && f.start.0 / chunk != (f.start.0 + total.0 - 1) / chunk;
        total <= most && f.segments + segments <= d.max_segments && !crosses
    }

    /// The earlier on disk survives.
    fn join(&mut self, kept: ReqId, gone: ReqId) {
        self.scheduler.merged(self.now, kept, Merged::Request(gone), &mut self.env.cx());
        let holder = self.holder(gone);
        if !self.is_mq() {
            let prio = better(self.env.requests[kept].prio, self.env.requests[gone].prio);
            self.env.requests.get_mut(kept).prio = prio;
        }
        self.elevator.remove(gone.slot());
        self.held -= u32::from(self.state[gone.index()].place == Place::Queued);
        self.state[gone.index()] = State::default();
        self.env.requests.join(kept, gone);
        let end = self.env.requests[kept].end();
        self.elevator.rehash(kept.slot(), end);
        self.elevator.set_one_hit(kept.slot());
        self.counters.joined += 1;
        let event = Event::Joined { kept: kept.slot(), gone: gone.slot() };
        self.env.trace.emit(self.now, event);
        self.free_tag(holder);
    }

    /// 3.5: a prepared request meets those that wait; true if it was absorbed.
    pub(super) fn merge_at_insertion(&mut self, new: ReqId) -> bool {
        if self.env.device.merging == Merging::Never || !self.mergeable(new) {
            return false;
        }
        let hit = self.elevator.one_hit();
        if hit != NIL {
            let front = self.env.requests.at(hit).id;
            if self.joinable(front, new) {
                self.join(front, new);
                return true;
            }
        }
        if self.env.device.merging == Merging::Simple {
            return false;
        }
        let (mut absorbed, mut at) = (false, new);
        // Each turn removes a request, so there are at most as many turns as requests.
        loop {
            let before = self.elevator.find(self.env.requests[at].start);
            if before == NIL {
                return absorbed;
            }
            let front = self.env.requests.at(before).id;
            if !self.joinable(front, at) {
                return absorbed;
            }
            self.join(front, at);
            (absorbed, at) = (true, front);
        }
    }
}

/// Flags that forbid merging.
fn never() -> Flags {
    Flags::NOMERGE | Flags::PREFLUSH | Flags::FUA | Flags::BARRIER
}

/// Both or neither pass the controllers at once (specs/groups-and-priorities.md section 5, step 7).
fn alike(a: Flags, b: Flags) -> bool {
    a.issue_as_root() == b.issue_as_root()
}

fn adjacent(r: &Request, io: &Io) -> Option<Side> {
    if r.end() == io.start {
        Some(Side::Back)
    } else if io.end() == r.start {
        Some(Side::Front)
    } else {
        None
    }
}

/// The more important of two priorities; unset counts as best-effort 4.
fn better(a: IoPrio, b: IoPrio) -> IoPrio {
    let rank = |p: IoPrio| if p == IoPrio::NONE { IoPrio::be(4).word() } else { p.word() };
    if rank(b) < rank(a) { b } else { a }
}
