//! The core's merge search over the requests of a recording.

use crate::run::{Replay, Stop};
use crate::subject::Subject;
use hoistway::device::Merging;
use hoistway::env::{Cx, Env};
use hoistway::group::ProcId;
use hoistway::merge::{Elevator, Merger, Rules};
use hoistway::request::{Io, ReqId};
use hoistway::sched::Scheduler;
use hoistway::unit::{Instant, Sectors};

/// The requests of a replay during one call.
struct Call<'a> {
    replay: &'a mut Replay,
    now: Instant,
    /// The request that the kernel's bio joined.
    recorded: Option<ReqId>,
}

impl Merger for Call<'_> {
    type Left = ();

    fn now(&self) -> Instant {
        self.now
    }

    fn env(&self) -> &Env {
        &self.replay.env
    }

    fn env_mut(&mut self) -> &mut Env {
        &mut self.replay.env
    }

    fn elevator(&mut self) -> &mut Elevator {
        &mut self.replay.elevator
    }

    fn scheduler(&mut self) -> (&mut dyn Scheduler, Cx<'_>) {
        self.replay.scheduler()
    }

    fn rules(&self) -> Rules {
        Rules { merging: Merging::All, search: self.replay.subject.search(), mq: true }
    }

    fn max_sectors(&self) -> Sectors {
        self.replay.cut()
    }

    /// Which of several waiting requests that begin where the bio ends the kernel finds is a matter of how its tree has
    /// grown. No rule says it, so the recording does: it names the one that was joined, and where none was, one that the
    /// bio could not join had been found, if there is one: of another kind, or too large with it. BFQ's trees have reads and
    /// writes of a queue alike, whichever processes share it.
    fn meant(&mut self, io: &Io, found: ReqId) -> ReqId {
        let sharers = self.sharers(io.proc);
        let (replay, recorded) = (&self.replay, self.recorded);
        let of = &replay.env.requests[found];
        let (begin, op) = (io.end(), of.op);
        if of.start != begin || recorded == Some(found) {
            return found;
        }
        let mixed = matches!(replay.subject, Subject::Bfq(..));
        let waits = |id: &ReqId| {
            let r = &replay.env.requests[*id];
            let tree = r.op == op || mixed && (recorded == Some(*id) || sharers.contains(&r.proc));
            r.start == begin && tree && *id != found && !replay.names.at_device(*id)
        };
        let mut twins = replay.names.alive().map(|(_, id)| id).filter(waits);
        let other = match recorded {
            Some(recorded) => twins.find(|&id| id == recorded),
            None => twins.find(|&id| {
                !self.compatible(io, id) || !self.within(id, io.sectors, io.segments, io.start)
            }),
        };
        drop(twins);
        if other.is_some() {
            self.replay.counts.twins += 1;
        }
        other.unwrap_or(found)
    }

    fn leaving(&self, _gone: ReqId) {}

    fn absorbed(&mut self, _kept: ReqId, gone: ReqId, (): ()) {
        self.replay.names.forget(gone);
    }
}

impl Call<'_> {
    /// A process, and those that use a queue of its own too.
    fn sharers(&mut self, proc: ProcId) -> Vec<ProcId> {
        let mut uses = Vec::new();
        self.replay.subject.scheduler().queues(&mut |used| uses.push((used.proc, used.queue)));
        let own = |queue: u32| uses.contains(&(proc, queue));
        let others = uses.iter().filter(|(_, queue)| own(*queue)).map(|(other, _)| *other);
        std::iter::once(proc).chain(others).collect()
    }
}

impl Replay {
    /// The request the bio has joined. `recorded` is the one it joined in the kernel.
    pub(crate) fn try_merge(
        &mut self,
        now: Instant,
        io: &Io,
        recorded: Option<ReqId>,
    ) -> Result<Option<ReqId>, Stop> {
        let mut call = Call { replay: self, now, recorded };
        let Some((id, side)) = call.find(io) else { return Ok(None) };
        let bio = call.env_mut().requests.add_bio(*io, now).ok_or(Stop::Apart)?;
        call.join_bio(bio, id, side);
        Ok(Some(call.after_bio(id, side)))
    }

    /// May it merge at all (3.1)?
    pub(crate) fn mergeable(&mut self, id: ReqId) -> bool {
        Call { replay: self, now: Instant::ZERO, recorded: None }.mergeable(id)
    }

    pub(crate) fn merge_at_insertion(&mut self, now: Instant, new: ReqId) -> bool {
        Call { replay: self, now, recorded: None }.merge_at_insertion(new)
    }
}
