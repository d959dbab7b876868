//! Where the stack merges: with the plug of the submitter, and in its elevator by [`Merger`]
//! (specs/blk-mq-and-noop.md section 3).

use super::*;
use crate::merge::{Elevator, Merger, Rules, adjacent};
use crate::request::Side;
use crate::trace::Event;
use crate::unit::Sectors;

/// The stack as the owner of requests: not the stack itself, whose callers have nothing to merge.
struct InStack<'a>(&'a mut Stack);

impl Merger for InStack<'_> {
    type Left = path::Holder;

    fn now(&self) -> Instant {
        self.0.now
    }

    fn env(&self) -> &Env {
        &self.0.env
    }

    fn env_mut(&mut self) -> &mut Env {
        &mut self.0.env
    }

    fn elevator(&mut self) -> &mut Elevator {
        &mut self.0.elevator
    }

    fn scheduler(&mut self) -> (&mut dyn Scheduler, Cx<'_>) {
        (self.0.scheduler.as_mut(), self.0.env.cx())
    }

    fn rules(&self) -> Rules {
        let merging = self.0.env.device.merging;
        Rules { merging, search: self.0.entry.search, mq: self.0.is_mq() }
    }

    fn max_sectors(&self) -> Sectors {
        self.0.max_sectors()
    }

    fn waits(&self, id: ReqId) -> bool {
        waits(&self.0.state[id.index()])
    }

    fn bio_joined(&mut self, bio: BioId, into: ReqId, side: Side) {
        self.0.counters.merged += 1;
        let event = Event::Merged { bio: bio.0.slot, into: into.slot(), side };
        self.0.env.trace.emit(self.0.now, event);
        for c in &mut self.0.controllers {
            c.stage.merged(self.0.now, bio, into, &mut self.0.env.cx());
        }
    }

    fn leaving(&self, gone: ReqId) -> path::Holder {
        self.0.holder(gone)
    }

    fn absorbed(&mut self, kept: ReqId, gone: ReqId, holder: path::Holder) {
        self.0.held -= u32::from(self.0.state[gone.index()].place == RequestPlace::Queued);
        self.0.state[gone.index()] = State::default();
        self.0.counters.joined += 1;
        let event = Event::Joined { kept: kept.slot(), gone: gone.slot() };
        self.0.env.trace.emit(self.0.now, event);
        self.0.free_tag(holder);
    }
}

/// Has not begun, and belongs to no flush (3.1).
#[inline(always)]
pub(super) fn waits(state: &State) -> bool {
    !state.started && state.steps == 0 && !state.flush_command
}

impl Stack {
    /// Tries to join the bio to a request; true if it did (the submitter then goes on).
    pub(super) fn try_merge(&mut self, bio: BioId, io: &Io) -> bool {
        if self.is_mq()
            && let Some(partner) = self.partner_in_plug(self.context(bio), io)
        {
            self.join(bio, io, partner, true);
            return true;
        }
        let partner = self.partner_that_waits(io);
        partner.is_some_and(|partner| {
            self.join(bio, io, partner, false);
            true
        })
    }

    /// What the scheduler has that the bio may join, and on which side.
    #[inline]
    pub(super) fn partner_that_waits(&mut self, io: &Io) -> Option<(ReqId, Side)> {
        if self.entry.direct && self.held == 0 {
            return None;
        }
        InStack(self).find(io)
    }

    /// 3.7: the newest request in the plug of the submitter, or of the worker.
    pub(super) fn partner_in_plug(&mut self, context: Context, io: &Io) -> Option<(ReqId, Side)> {
        let id = self.newest_in_plug(context)?;
        let mut requests = InStack(self);
        if !requests.may_search(io) || !requests.compatible(io, id) {
            return None;
        }
        let side = adjacent(&requests.env().requests[id], io)?;
        requests.fits(id, io, side).then_some((id, side))
    }

    /// The bio joins the request that was found for it.
    pub(super) fn join(&mut self, bio: BioId, io: &Io, (id, side): (ReqId, Side), in_plug: bool) {
        let mut requests = InStack(self);
        requests.join_bio(bio, id, side);
        if !in_plug {
            requests.after_bio(id, side);
            self.unplug_after_merge(io.flags);
        }
        self.passed(bio);
    }

    /// 3.5: a prepared request meets those that wait; true if it was absorbed.
    pub(super) fn merge_at_insertion(&mut self, new: ReqId) -> bool {
        InStack(self).merge_at_insertion(new)
    }
}
