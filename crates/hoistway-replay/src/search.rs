//! The elevator's merge search around the scheduler, as the stack has it (specs/blk-mq-and-noop.md 3.3 to 3.8).

use crate::run::{Replay, Stop};
use crate::subject::Subject;
use hoistway::request::{Flags, Io, Op, ReqId, Request, Side};
use hoistway::sched::{Merged, Search};
use hoistway::table::NIL;
use hoistway::unit::{Instant, Sectors};

impl Replay {
    fn compatible(&self, io: &Io, id: ReqId) -> bool {
        let r = &self.env.requests[id];
        r.op == io.op
            && r.group == io.group
            && r.prio == io.prio
            && alike(r.flags, io.flags)
            && !r.flags.any(Flags::NOMERGE)
    }

    fn may_merge(&mut self, now: Instant, io: &Io, id: ReqId) -> bool {
        if !self.compatible(io, id) {
            return false;
        }
        let (sched, mut cx) = self.scheduler();
        sched.may_merge(now, io, id, &mut cx)
    }

    fn search(&mut self, now: Instant, io: &Io, recorded: Option<ReqId>) -> Option<(ReqId, Side)> {
        if io.flags.any(Flags::NOMERGE) {
            return None;
        }
        if self.subject.search() == Search::Own {
            let (sched, mut cx) = self.scheduler();
            return sched.find_merge(now, io, &mut cx);
        }
        let hit = self.elevator.one_hit();
        if hit != NIL {
            let id = self.env.requests.at(hit).id;
            if self.may_merge(now, io, id) {
                let r = &self.env.requests[id];
                if r.end() == io.start {
                    return Some((id, Side::Back));
                }
                if io.end() == r.start {
                    return Some((id, Side::Front));
                }
            }
        }
        let behind = self.elevator.find(io.start);
        if behind != NIL {
            let id = self.env.requests.at(behind).id;
            if self.may_merge(now, io, id) {
                return Some((id, Side::Back));
            }
        }
        let (sched, mut cx) = self.scheduler();
        let (id, side) = sched.find_merge(now, io, &mut cx)?;
        let id = self.twin(io, id, recorded);
        self.may_merge(now, io, id).then_some((id, side))
    }

    /// Which of several waiting requests that begin where the bio ends the kernel finds is a matter of how its tree has
    /// grown. No rule says it, so the recording does: it names the one that was joined, and where none was, one that the
    /// bio could not join had been found, if there is one. BFQ's trees have reads and writes of a queue alike.
    fn twin(&mut self, io: &Io, found: ReqId, recorded: Option<ReqId>) -> ReqId {
        let of = &self.env.requests[found];
        let (begin, op) = (io.end(), of.op);
        if of.start != begin || recorded == Some(found) {
            return found;
        }
        let mixed = matches!(self.subject, Subject::Bfq(_));
        let waits = |id: &ReqId| {
            let r = &self.env.requests[*id];
            let tree = r.op == op || mixed && (recorded == Some(*id) || r.proc == io.proc);
            r.start == begin && tree && *id != found && !self.names.at_device(*id)
        };
        let mut twins = self.names.alive().map(|(_, id)| id).filter(waits);
        let other = match recorded {
            Some(recorded) => twins.find(|&id| id == recorded),
            None => twins.find(|&id| !self.compatible(io, id)),
        };
        if other.is_some() {
            self.counts.twins += 1;
        }
        other.unwrap_or(found)
    }

    fn fits(&self, r: &Request, sectors: Sectors, segments: u32) -> bool {
        r.sectors.0 + sectors.0 <= self.max_sectors && r.segments + segments <= self.max_segments
    }

    /// The request the bio has joined. `recorded` is the one it joined in the kernel.
    pub(crate) fn try_merge(
        &mut self,
        now: Instant,
        io: &Io,
        recorded: Option<ReqId>,
    ) -> Result<Option<ReqId>, Stop> {
        let Some((id, side)) = self.search(now, io, recorded) else { return Ok(None) };
        if !self.fits(&self.env.requests[id], io.sectors, io.segments) {
            self.env.requests.get_mut(id).flags |= Flags::NOMERGE;
            self.elevator.forget(id.slot());
            return Ok(None);
        }
        let bio = self.env.requests.add_bio(*io, now).ok_or(Stop::Apart)?;
        self.env.requests.join_bio(id, bio, side);
        if self.subject.search() == Search::Own {
            return Ok(Some(id));
        }
        if let Some(other) = self.subject.scheduler().neighbour(id, side, &self.env.cx()) {
            let (front, back) = if side == Side::Back { (id, other) } else { (other, id) };
            if self.joinable(front, back) {
                self.join(now, front, back);
                return Ok(Some(front));
            }
        }
        let (sched, mut cx) = self.scheduler();
        sched.merged(now, id, Merged::Bio(side), &mut cx);
        if side == Side::Back {
            let end = self.env.requests[id].end();
            self.elevator.rehash(id.slot(), end);
        }
        self.elevator.set_one_hit(id.slot());
        Ok(Some(id))
    }

    fn joinable(&self, front: ReqId, back: ReqId) -> bool {
        let (f, b) = (&self.env.requests[front], &self.env.requests[back]);
        f.op == b.op
            && f.end() == b.start
            && f.prio == b.prio
            && f.group == b.group
            && alike(f.flags, b.flags)
            && !(f.flags | b.flags).any(Flags::NOMERGE)
            && self.fits(f, b.sectors, b.segments)
    }

    fn join(&mut self, now: Instant, kept: ReqId, gone: ReqId) {
        let (sched, mut cx) = self.scheduler();
        sched.merged(now, kept, Merged::Request(gone), &mut cx);
        self.elevator.remove(gone.slot());
        self.names.forget(gone);
        self.env.requests.join(kept, gone);
        let end = self.env.requests[kept].end();
        self.elevator.rehash(kept.slot(), end);
        self.elevator.set_one_hit(kept.slot());
    }

    /// May it merge at all (3.1)?
    pub(crate) fn mergeable(&self, id: ReqId) -> bool {
        let r = &self.env.requests[id];
        matches!(r.op, Op::Read | Op::Write | Op::Discard) && !r.flags.any(Flags::NOMERGE)
    }

    pub(crate) fn merge_at_insertion(&mut self, now: Instant, new: ReqId) -> bool {
        if self.subject.search() == Search::Own || !self.mergeable(new) {
            return false;
        }
        let hit = self.elevator.one_hit();
        if hit != NIL {
            let front = self.env.requests.at(hit).id;
            if self.joinable(front, new) {
                self.join(now, front, new);
                return true;
            }
        }
        let (mut absorbed, mut at) = (false, new);
        // Each turn removes a request.
        loop {
            let before = self.elevator.find(self.env.requests[at].start);
            if before == NIL {
                return absorbed;
            }
            let front = self.env.requests.at(before).id;
            if !self.joinable(front, at) {
                return absorbed;
            }
            self.join(now, front, at);
            (absorbed, at) = (true, front);
        }
    }
}

/// Both or neither pass the controllers at once, as the stack asks.
fn alike(a: Flags, b: Flags) -> bool {
    a.issue_as_root() == b.issue_as_root()
}
