//! What every process of the host has whatever it does: identity, open file, bios of its own, and what
//! makes it wait before a call.

use super::ahead::Ahead;
use super::balance::Dirtier;
use super::calls::OpenCalls;
use super::kernel::Kernel;
use super::op::{Act, Advice, ProcInfo, Ran};
use super::submission::Submission;
use hoistway::{Instant, Nanos, ProcId};
use std::collections::BTreeMap;

/// A call whose latency is still open.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call {
    pub begun: Instant,
    pub bytes: u64,
    pub write: bool,
}

impl Call {
    /// The call, alone, ends now.
    pub fn over(self, now: Instant, k: &mut Kernel) -> Act {
        k.ran = Ran {
            first: now - self.begun,
            first_end: now,
            each: Nanos::ZERO,
            calls: 1,
            bytes: self.bytes,
            write: self.write,
            until: now,
        };
        Act::Ran
    }
}

/// What an operation says when it is asked to go on.
#[derive(Debug)]
pub(super) enum OpStep {
    /// The process does that; the operation goes on behind it.
    Act(Act),
    /// Ask again, once what is in the batch has been submitted.
    Again,
    /// The operation is over.
    Over,
    /// The write is done, and its sync follows.
    Sync,
    /// There is no memory, and nothing under way that could free some.
    NoMemory,
}

impl OpStep {
    /// The process blocks if there is anything to wait for.
    pub fn wait(act: Option<Act>) -> OpStep {
        act.map_or(OpStep::Again, OpStep::Act)
    }
}

/// The file a process has open.
#[derive(Clone, Copy, Debug)]
pub(super) struct OpenFile {
    pub file: u32,
    pub advice: Advice,
    pub ahead: Ahead,
}

/// Bios that a process counts itself (direct, flush, journal) and that are not served yet.
#[derive(Debug, Default)]
pub(super) struct OwnBios {
    pub left: u32,
    /// Those of identities that do not act now.
    away: Vec<(ProcId, u32)>,
    /// Bytes submitted without waiting since the last call that was recorded.
    pub unseen: u64,
}

impl OwnBios {
    /// The process acts as `to` from now on, instead of as `from`.
    fn change_identity(&mut self, from: ProcId, to: ProcId) {
        if self.left > 0 {
            self.away.push((from, self.left));
        }
        let back = self.away.iter().position(|&(id, _)| id == to);
        self.left = back.map_or(0, |i| self.away.swap_remove(i).1);
    }

    /// A bio of identity `id` has been served; true if it was the last one of `acting`, who acts now.
    pub fn done(&mut self, acting: ProcId, id: ProcId) -> bool {
        if acting != id {
            let other = self.away.iter_mut().find(|(owner, _)| *owner == id);
            let other = other.expect("an identity is away while its bios are under way");
            other.1 -= 1;
            self.away.retain(|&(_, left)| left > 0);
            return false;
        }
        self.left -= 1;
        self.left == 0
    }
}

/// One process of the host. In this order: of thousands of processes each is out of the cache when it goes on, and
/// what most steps look at are neighbours.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Task {
    /// Files that it can turn to, by number.
    shelf: BTreeMap<u32, OpenFile>,
    /// Its other file, open too.
    pub other: Option<OpenFile>,
    /// Its asynchronous calls.
    pub calls: OpenCalls,
    pub throttled: Nanos,
    /// What it has dirtied since it last paused, and how long it has paused in all.
    pub dirtier: Dirtier,
    pub own: OwnBios,
    /// Its number at the host.
    pub p: usize,
    pub info: ProcInfo,
    /// A controller slows its group down.
    pub congested: bool,
    /// Its operation is over behind the act that it does.
    pub over: bool,
    /// A controller's wish: no next call before then.
    pub delay: Instant,
    /// It starts no call at or after that time.
    stop: Option<Instant>,
    pub submission: Submission,
    pub open: Option<OpenFile>,
}

/// Longest run of calls in one step (host.md 1.3).
const STEP: u64 = 10_000_000;

impl Task {
    /// Process `p`.
    pub fn new(p: usize, info: ProcInfo, stop: Option<Instant>) -> Task {
        Task {
            p,
            info,
            stop,
            open: None,
            other: None,
            shelf: BTreeMap::new(),
            submission: Submission::default(),
            own: OwnBios::default(),
            calls: OpenCalls::default(),
            dirtier: Dirtier::new(),
            throttled: Nanos::ZERO,
            delay: Instant::ZERO,
            congested: false,
            over: false,
        }
    }

    /// From now on its I/O carries another identity.
    pub fn act_as(&mut self, info: ProcInfo) {
        self.own.change_identity(self.info.id, info.id);
        self.info = info;
    }

    /// Another of its files is the one in use; what it had open stays so.
    pub fn turn_to(&mut self, file: u32, advice: Advice, afresh: bool) {
        if let Some(open) = self.open.take() {
            self.shelf.insert(open.file, open);
        }
        let kept = self.shelf.remove(&file).filter(|_| !afresh);
        let new = || OpenFile { file, advice, ahead: Ahead::default() };
        self.open = Some(kept.unwrap_or_else(new));
    }

    /// It does that, and its operation is over behind it.
    pub fn last(&mut self, act: Act) -> OpStep {
        self.over = true;
        OpStep::Act(act)
    }

    /// The same, if there is anything to wait for.
    pub fn wait_last(&mut self, act: Option<Act>) -> OpStep {
        act.map_or(OpStep::Over, |act| self.last(act))
    }

    /// The file that a load has opened before it reads or writes.
    pub fn opened(&mut self) -> &mut OpenFile {
        self.open.as_mut().expect("a load opens its file before it reads or writes")
    }

    /// How many calls of `cost` ns, of `left`, may be done in one step that begins now.
    pub fn run_length(&self, now: Instant, left: u64, cost: u64) -> u64 {
        let mut room = STEP;
        if let Some(stop) = self.stop {
            room = room.min(stop.since(now).0);
        }
        left.min((room / cost).max(1))
    }

    /// Before a call: the process has reached its stop time, or a controller has it wait.
    pub fn held_back(&self, now: Instant) -> Option<Act> {
        if self.stop.is_some_and(|stop| stop <= now) {
            return Some(Act::Stopped);
        }
        (self.delay > now).then_some(Act::WaitUntil(self.delay))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bios_of_an_identity_that_does_not_act_are_counted_apart() {
        let (a, b) = (ProcId(1), ProcId(2));
        let mut own = OwnBios { left: 2, ..OwnBios::default() };
        own.change_identity(a, b);
        own.left = 1;
        assert!(!own.done(b, a), "not the one who acts");
        assert!(own.done(b, b));
        own.change_identity(b, a);
        assert_eq!(own.left, 1);
        assert!(own.done(a, a));
        assert!(own.away.is_empty());
    }
}
