//! The block layer in small: the path of one I/O from submission to completion.
//!
//! One rule for callers: one [`Stack::handle`], then [`Stack::poll`] until it returns
//! [`Output::WaitUntil`], then wait. The stack asserts it.

use crate::ctl::Controller;
use crate::device::Device;
use crate::env::Env;
use crate::group::{GroupId, ProcId};
use crate::request::{Io, IoId, ReqId, Request};
use crate::sched::{Change, Entry, Scheduler};
use crate::tunable::TunableError;
use crate::unit::{Instant, IoPrio, QueueId};
use alloc::boxed::Box;
use alloc::string::String;

/// Which stage a setting is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StageName {
    /// The block layer itself: `nr_requests`, `nomerges`, `max_sectors_kb`.
    Queue,
    /// The scheduler in force.
    Scheduler,
    /// A controller, by its registry name.
    Controller(String),
}

/// The device could not serve a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum IoError {
    /// Medium or transport error (EIO).
    Io,
    /// Beyond the end of the device, or misaligned (EINVAL).
    Invalid,
    /// The operation is not supported (EOPNOTSUPP).
    NotSupported,
}

/// What a caller tells the stack.
#[derive(Clone, Debug)]
pub enum Input {
    /// A new I/O.
    Submit(Io),
    /// The process opens a plug section.
    Plug(ProcId),
    /// The process closes its plug section.
    Unplug(ProcId),
    /// The process goes to sleep: its plug is emptied (the section stays open).
    Sleep(ProcId),
    /// The device has completed a command.
    Done {
        /// Which.
        req: ReqId,
        /// `None`: served.
        error: Option<IoError>,
    },
    /// The device gives a command back unserved.
    Requeue(ReqId),
    /// Time has passed.
    Tick,
    /// A setting of a stage.
    Set {
        /// Which stage.
        stage: StageName,
        /// Its tunable.
        name: String,
        /// The value.
        value: u64,
    },
    /// A setting of a group.
    SetGroup {
        /// Which group.
        group: GroupId,
        /// Which stage reads it.
        stage: StageName,
        /// Its tunable.
        name: String,
        /// `None`: back to the default.
        value: Option<u64>,
    },
    /// Another scheduler takes over.
    SwitchScheduler(&'static Entry),
}

/// What the stack tells its caller.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    /// Hand this request to the device.
    Issue {
        /// Which; [`Stack::request`] has its details.
        req: ReqId,
        /// Its hardware queue.
        queue: QueueId,
    },
    /// The submission is over: the submitting task may go on.
    Accepted {
        /// Which I/O.
        io: IoId,
    },
    /// The I/O is finished.
    Finished {
        /// Which I/O.
        io: IoId,
        /// How it ended.
        result: Result<(), IoError>,
    },
    /// A controller wants this process to wait before its next operation.
    Delay {
        /// Which process.
        proc: ProcId,
        /// Until when.
        until: Instant,
    },
    /// Nothing more to say; call again at that time at the latest (`Tick`), or with the next input.
    WaitUntil(Option<Instant>),
}

/// Why an input was refused. Nothing changed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StackError {
    /// A tunable was refused.
    Tunable(TunableError),
    /// No such controller is installed.
    NoSuchStage(String),
    /// A request id that is not in the device's hands.
    StaleRequest(ReqId),
    /// Beyond the device, empty, or larger than the legacy limits allow.
    BadIo(IoId),
}

/// The block layer of one device.
#[derive(Debug)]
pub struct Stack {
    env: Env,
    scheduler: Box<dyn Scheduler>,
    controllers: alloc::vec::Vec<Box<dyn Controller>>,
}

impl Stack {
    /// A stack for `device` under `scheduler`, with room for `ios` outstanding I/Os.
    pub fn new(_device: Device, _scheduler: &'static Entry, _ios: usize) -> Stack {
        todo!()
    }

    /// Adds a group.
    pub fn add_group(&mut self, _now: Instant, _parent: GroupId, _name: &str) -> GroupId {
        todo!()
    }

    /// Removes a group.
    pub fn remove_group(&mut self, _now: Instant, _group: GroupId) {
        todo!()
    }

    /// Adds a process.
    pub fn add_proc(&mut self, _group: GroupId, _prio: IoPrio) -> ProcId {
        todo!()
    }

    /// Changes a process or a device property and tells every stage.
    pub fn change(&mut self, _now: Instant, _change: Change, _edit: impl FnOnce(&mut Env)) {
        todo!()
    }

    /// Everything the stages see.
    pub fn env(&self) -> &Env {
        &self.env
    }

    /// The trace sink, to turn it on or take the records.
    pub fn trace_mut(&mut self) -> &mut crate::trace::Trace {
        &mut self.env.trace
    }

    /// A request that exists.
    pub fn request(&self, id: ReqId) -> &Request {
        &self.env.requests[id]
    }

    /// The scheduler in force.
    pub fn scheduler(&self) -> &dyn Scheduler {
        &*self.scheduler
    }

    /// Takes an input. `poll` must be drained before.
    pub fn handle(&mut self, _now: Instant, _input: Input) -> Result<(), StackError> {
        todo!()
    }

    /// The next output; `WaitUntil` ends the drain.
    pub fn poll(&mut self, _now: Instant) -> Output {
        todo!()
    }
}
