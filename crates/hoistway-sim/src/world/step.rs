//! What enters a stack and leaves it in a run, step by step: enough to feed another stack the same, at the same
//! instants and in the same order.
//!
//! Of what happens at one instant the order is the run's own: what the device has served, then what the stack's
//! timers do, then processes. So a second run that is told of the processes' steps alone, in this order, and has
//! the same drive behind it, makes the rest by itself.

use crate::drive::Command;
use hoistway::{GroupId, Instant, Io, IoPrio, ProcId};
use hoistway_run::Role;

/// One step.
#[derive(Clone, Copy, Debug)]
pub enum Step<'a> {
    /// A group exists from the beginning; in order of ids, without the root.
    Group {
        /// Its id.
        id: GroupId,
        /// Its parent.
        parent: GroupId,
        /// The last part of its path.
        name: &'a str,
    },
    /// A process comes into being; in order of ids.
    Proc {
        /// Its id.
        id: ProcId,
        /// Its group.
        group: GroupId,
        /// The priority set on it.
        prio: IoPrio,
        /// Who it is in the job; `None`: a thread of the host, or made by a load.
        role: Option<Role>,
        /// Its name.
        name: &'a str,
    },
    /// A plug section begins.
    Plug(ProcId),
    /// It ends.
    Unplug(ProcId),
    /// The process goes to sleep for I/O (legacy block layer).
    Sleep(ProcId),
    /// An I/O is submitted.
    Submit(&'a Io),
    /// The process exits.
    Exit(ProcId),
    /// Writers sleep on the dirty limit, which write-back throttling gives way to.
    DirtySlept(ProcId),
    /// A command goes to the drive.
    Issue {
        /// Of the process that submitted the request's first bio.
        proc: ProcId,
        /// What.
        command: Command,
    },
    /// The drive has served it.
    Done {
        /// As when it was issued.
        proc: ProcId,
        /// As when it was issued.
        command: Command,
    },
}

/// Hears of every step, in order.
pub trait Recorder {
    /// False: nobody listens, and steps need not be made.
    const LISTENS: bool = true;

    /// A step at `now`.
    fn step(&mut self, now: Instant, step: Step<'_>);
}

/// Nobody listens.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoRecorder;

impl Recorder for NoRecorder {
    const LISTENS: bool = false;

    #[inline]
    fn step(&mut self, _now: Instant, _step: Step<'_>) {}
}

impl<R: Recorder> Recorder for &mut R {
    const LISTENS: bool = R::LISTENS;

    #[inline]
    fn step(&mut self, now: Instant, step: Step<'_>) {
        (**self).step(now, step);
    }
}
