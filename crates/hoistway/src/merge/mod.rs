//! Merging: bios into requests, requests into each other (specs/blk-mq-and-noop.md section 3).
//!
//! One search for whoever keeps requests, a merge index and a scheduler: the stack, and what feeds a scheduler with
//! recorded calls. [`Merger`] is what it asks of them; the rest is provided.

mod index;

pub use index::Elevator;

use crate::device::Merging;
use crate::env::{Cx, Env};
use crate::request::{BioId, Flags, Io, Op, ReqId, Request, Side};
use crate::sched::{Merged, Scheduler, Search};
use crate::table::NIL;
use crate::unit::{Instant, IoPrio, Sectors};

/// How the owner of the requests merges.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// How much is searched (`nomerges` of the queue).
    pub merging: Merging,
    /// Searcher: the elevator, or the scheduler alone.
    pub search: Search,
    /// The block layer is blk-mq: what merges has one group, one priority and one way past the controllers. The legacy
    /// layer takes the better of two priorities.
    pub mq: bool,
}

/// An owner of requests, with the merge search of section 3.
pub trait Merger {
    /// What [`Merger::absorbed`] needs of a request that no longer exists.
    type Left;

    /// The instant of the present call.
    fn now(&self) -> Instant;
    /// The requests, and the device with its limits.
    fn env(&self) -> &Env;
    /// The same, to change.
    fn env_mut(&mut self) -> &mut Env;
    /// The merge index.
    fn elevator(&mut self) -> &mut Elevator;
    /// The scheduler, with what it may look at.
    fn scheduler(&mut self) -> (&mut dyn Scheduler, Cx<'_>);
    /// How it merges.
    fn rules(&self) -> Rules;
    /// The longest request that merging may make of reads and writes.
    fn max_sectors(&self) -> Sectors;

    /// Whether the request has not begun, and belongs to no flush (3.1).
    fn waits(&self, _id: ReqId) -> bool {
        true
    }
    /// The request that is meant where the scheduler found `found` for `io`: itself, unless the owner knows of another
    /// in the same place.
    fn meant(&mut self, _io: &Io, found: ReqId) -> ReqId {
        found
    }
    /// `bio` has become part of `into`.
    fn bio_joined(&mut self, _bio: BioId, _into: ReqId, _side: Side) {}
    /// Remembers what [`Merger::absorbed`] needs of `gone`.
    fn leaving(&self, gone: ReqId) -> Self::Left;
    /// `gone` has become part of `kept` and exists no longer.
    fn absorbed(&mut self, kept: ReqId, gone: ReqId, left: Self::Left);

    /// 3.1: a request may merge while it waits, holds data and is not flagged.
    fn mergeable(&self, id: ReqId) -> bool {
        self.waits(id) && mergeable(&self.env().requests[id])
    }

    /// 3.1 between a bio and a request, without the scheduler's veto.
    fn compatible(&self, io: &Io, id: ReqId) -> bool {
        let r = &self.env().requests[id];
        let one =
            |r: &Request| r.group == io.group && r.prio == io.prio && alike(r.flags, io.flags);
        self.mergeable(id) && r.op == io.op && (!self.rules().mq || one(r))
    }

    /// Whether a bio of this kind looks for a request at all.
    fn may_search(&self, io: &Io) -> bool {
        self.rules().merging != Merging::Never && data(io.op) && !io.flags.any(never())
    }

    /// The request that the bio may join, and on which side. `None` too where the limits forbid it: that request never
    /// merges again.
    fn find(&mut self, io: &Io) -> Option<(ReqId, Side)> {
        if !self.may_search(io) {
            return None;
        }
        let Rules { merging, search, .. } = self.rules();
        let (id, side) = match search {
            Search::Elevator => self.search(io, merging)?,
            Search::Own if merging == Merging::All => {
                let now = self.now();
                let (scheduler, mut cx) = self.scheduler();
                scheduler.find_merge(now, io, &mut cx)?
            }
            Search::Own => return None,
        };
        self.fits(id, io, side).then_some((id, side))
    }

    /// 3.3: one-hit cache, back-merge hash, then the scheduler's own look-up.
    fn search(&mut self, io: &Io, merging: Merging) -> Option<(ReqId, Side)> {
        let hit = self.elevator().one_hit();
        if hit != NIL {
            let id = self.env().requests.at(hit).id;
            // The veto comes before the position is compared: BFQ merges queues there.
            if self.allowed(io, id)
                && let Some(side) = adjacent(&self.env().requests[id], io)
            {
                return Some((id, side));
            }
        }
        if merging == Merging::Simple {
            return None;
        }
        let behind = self.elevator().find(io.start);
        if behind != NIL {
            let id = self.env().requests.at(behind).id;
            if self.allowed(io, id) {
                return Some((id, Side::Back));
            }
        }
        let now = self.now();
        let (scheduler, mut cx) = self.scheduler();
        let (id, side) = scheduler.find_merge(now, io, &mut cx)?;
        let id = self.meant(io, id);
        self.allowed(io, id).then_some((id, side))
    }

    /// Compatible, and the scheduler has nothing against it.
    fn allowed(&mut self, io: &Io, id: ReqId) -> bool {
        let now = self.now();
        self.compatible(io, id) && {
            let (scheduler, mut cx) = self.scheduler();
            scheduler.may_merge(now, io, id, &mut cx)
        }
    }

    /// 3.2 for a bio. A request that hits the limits never merges again.
    fn fits(&mut self, id: ReqId, io: &Io, side: Side) -> bool {
        let begin = if side == Side::Front { io.start } else { self.env().requests[id].start };
        if self.within(id, io.sectors, io.segments, begin) {
            return true;
        }
        self.env_mut().requests.get_mut(id).flags |= Flags::NOMERGE;
        self.elevator().forget(id.slot());
        false
    }

    /// 3.2: the limits of a request that begins at `begin` and has `more` sectors in it.
    fn within(&self, id: ReqId, more: Sectors, segments: u32, begin: Sectors) -> bool {
        let d = &self.env().device;
        let r = &self.env().requests[id];
        let most = if r.op == Op::Discard { d.max_discard_sectors } else { self.max_sectors() };
        let total = r.sectors + more;
        let chunk = d.chunk_sectors.0;
        let crosses =
            chunk > 0 && self.rules().mq && begin.0 / chunk != (begin.0 + total.0 - 1) / chunk;
        total <= most && r.segments + segments <= d.max_segments && !crosses
    }

    /// Makes the bio part of the request.
    fn join_bio(&mut self, bio: BioId, id: ReqId, side: Side) {
        let mq = self.rules().mq;
        let requests = &mut self.env_mut().requests;
        let prio = requests.bio(bio).prio;
        requests.join_bio(id, bio, side);
        if !mq {
            let r = requests.get_mut(id);
            r.prio = better(r.prio, prio);
        }
        self.bio_joined(bio, id, side);
    }

    /// 3.4: the request may now touch its neighbour. Two interleaved writers otherwise leave a,b and c,d unjoined for
    /// ever (5 to 20 % of throughput; ML "block: recursive merge requests"). Returns the request that the bio is in.
    fn after_bio(&mut self, id: ReqId, side: Side) -> ReqId {
        let now = self.now();
        let own = self.rules().search == Search::Own;
        let (scheduler, mut cx) = self.scheduler();
        // Joined at once, the scheduler hears only of the join (both bios and requests are told by it).
        if !own && let Some(other) = scheduler.neighbour(id, side, &cx) {
            let (front, back) = if side == Side::Back { (id, other) } else { (other, id) };
            if self.joinable(front, back) {
                self.join(front, back);
                return front;
            }
            let (scheduler, mut cx) = self.scheduler();
            scheduler.merged(now, id, Merged::Bio(side), &mut cx);
        } else {
            scheduler.merged(now, id, Merged::Bio(side), &mut cx);
        }
        if own {
            return id;
        }
        if side == Side::Back {
            let end = self.env().requests[id].end();
            self.elevator().rehash(id.slot(), end);
        }
        self.elevator().set_one_hit(id.slot());
        id
    }

    /// Whether `back` may become part of `front`.
    fn joinable(&self, front: ReqId, back: ReqId) -> bool {
        let mq = self.rules().mq;
        let (f, b) = (&self.env().requests[front], &self.env().requests[back]);
        let one_payer = !mq || f.group == b.group && f.prio == b.prio && alike(f.flags, b.flags);
        f.op == b.op
            && f.end() == b.start
            && one_payer
            && self.mergeable(front)
            && self.mergeable(back)
            && self.within(front, b.sectors, b.segments, f.start)
    }

    /// Makes `gone` part of `kept`: the earlier on disk survives.
    fn join(&mut self, kept: ReqId, gone: ReqId) {
        let now = self.now();
        let (scheduler, mut cx) = self.scheduler();
        scheduler.merged(now, kept, Merged::Request(gone), &mut cx);
        let left = self.leaving(gone);
        let mq = self.rules().mq;
        let requests = &mut self.env_mut().requests;
        if !mq {
            let prio = better(requests[kept].prio, requests[gone].prio);
            requests.get_mut(kept).prio = prio;
        }
        requests.join(kept, gone);
        let end = requests[kept].end();
        let elevator = self.elevator();
        elevator.remove(gone.slot());
        elevator.rehash(kept.slot(), end);
        elevator.set_one_hit(kept.slot());
        self.absorbed(kept, gone, left);
    }

    /// 3.5: a prepared request meets those that wait; true if it was absorbed.
    fn merge_at_insertion(&mut self, new: ReqId) -> bool {
        let Rules { merging, search, .. } = self.rules();
        if merging == Merging::Never || search == Search::Own || !self.mergeable(new) {
            return false;
        }
        let hit = self.elevator().one_hit();
        if hit != NIL {
            let front = self.env().requests.at(hit).id;
            if self.joinable(front, new) {
                self.join(front, new);
                return true;
            }
        }
        if merging == Merging::Simple {
            return false;
        }
        let (mut absorbed, mut at) = (false, new);
        // Each turn removes a request, so there are at most as many turns as requests.
        loop {
            let start = self.env().requests[at].start;
            let before = self.elevator().find(start);
            if before == NIL {
                return absorbed;
            }
            let front = self.env().requests.at(before).id;
            if !self.joinable(front, at) {
                return absorbed;
            }
            self.join(front, at);
            (absorbed, at) = (true, front);
        }
    }
}

/// 3.1 of a request that waits.
#[inline]
pub(crate) fn mergeable(r: &Request) -> bool {
    data(r.op) && !r.flags.any(never())
}

/// Operations that carry data in an order that matters.
fn data(op: Op) -> bool {
    matches!(op, Op::Read | Op::Write | Op::Discard)
}

/// Flags that forbid merging.
fn never() -> Flags {
    Flags::NOMERGE | Flags::PREFLUSH | Flags::FUA | Flags::BARRIER
}

/// Both or neither pass the controllers at once (specs/groups-and-priorities.md section 5, step 7).
fn alike(a: Flags, b: Flags) -> bool {
    a.issue_as_root() == b.issue_as_root()
}

/// On which side of a request an I/O would join it.
pub(crate) fn adjacent(r: &Request, io: &Io) -> Option<Side> {
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
