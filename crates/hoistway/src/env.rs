//! What a stage may look at while it decides: [`Cx`]; and the owner of all of it: [`Env`].

use crate::device::Device;
use crate::group::{Groups, Procs};
use crate::request::{ReqId, Requests};
use crate::trace::Trace;
use crate::unit::QueueId;
use alloc::vec;
use alloc::vec::Vec;

/// The context of one call into a scheduler or controller.
#[derive(Debug)]
pub struct Cx<'a> {
    /// Every request, and the bios it is made of.
    pub requests: &'a Requests,
    /// Processes: priority, group, alive.
    pub procs: &'a Procs,
    /// The group tree.
    pub groups: &'a Groups,
    /// The device.
    pub device: &'a Device,
    /// Where a stage writes its reasons; costs one test when off.
    pub trace: &'a mut Trace,
    /// Queue runs a stage asks for, and what it may know about the queues.
    pub runs: &'a mut Runs,
    /// Requests that nothing may join any more, by slot.
    pub(crate) closed: &'a mut Vec<u32>,
}

impl Cx<'_> {
    /// Asks for a run of that hardware queue (specs/blk-mq-and-noop.md 7.4 c).
    pub fn run(&mut self, queue: QueueId) {
        self.runs.ask(queue);
    }

    /// Nothing is to join this queued request any more: it leaves the merge index (called while the
    /// scheduler dispatches).
    pub fn close(&mut self, id: ReqId) {
        self.closed.push(id.slot());
    }
}

/// Asked-for queue runs and the busy indicators of the hardware queues.
#[derive(Clone, Debug, Default)]
pub struct Runs {
    asked: Vec<bool>,
    /// Asked for through the queue's work item, of which there is one.
    work: Vec<bool>,
    /// How many of them.
    asked_for: usize,
    /// The queue that was asked for last; if only one was asked for, this is it.
    latest: usize,
    /// The queue that is looked at first.
    first: usize,
    busy: Vec<u8>,
}

impl Runs {
    /// For a device with `queues` hardware queues.
    pub fn new(queues: u16) -> Runs {
        let none = vec![false; queues.into()];
        Runs {
            asked: none.clone(),
            work: none,
            asked_for: 0,
            latest: 0,
            first: 0,
            busy: vec![0; queues.into()],
        }
    }

    /// Asks for a run of `queue`.
    #[inline]
    pub fn ask(&mut self, queue: QueueId) {
        self.work[usize::from(queue.0)] = true;
        self.ask_in_place(queue);
    }

    /// Asks for a run of `queue` by the submitter itself, past the work item: a delayed run stays pending.
    #[inline]
    pub fn ask_in_place(&mut self, queue: QueueId) {
        let at = usize::from(queue.0);
        let before = core::mem::replace(&mut self.asked[at], true);
        self.asked_for += usize::from(!before);
        self.latest = at;
    }

    /// Some run has been asked for.
    #[inline]
    pub fn any(&self) -> bool {
        self.asked_for > 0
    }

    /// Whether the run of `queue` that is about to happen was asked for through its work item.
    pub(crate) fn take_work(&mut self, queue: QueueId) -> bool {
        core::mem::take(&mut self.work[usize::from(queue.0)])
    }

    /// Takes the first queue that was asked for, in the order of their numbers, from the one on whose turn it is.
    #[inline]
    pub fn take(&mut self) -> Option<QueueId> {
        match self.asked_for {
            0 => None,
            1 if core::mem::take(&mut self.asked[self.latest]) => {
                self.asked_for = 0;
                Some(QueueId(self.latest as u16))
            }
            _ => self.take_of_several(),
        }
    }

    fn take_of_several(&mut self) -> Option<QueueId> {
        self.asked_for -= 1;
        let (before, from) = self.asked.split_at(self.first);
        let behind = from.iter().position(|&a| a).map(|at| at + self.first);
        let at = match behind {
            Some(at) => at,
            None => before.iter().position(|&a| a).expect("as many as were counted"),
        };
        self.asked[at] = false;
        Some(QueueId(at as u16))
    }

    /// The next queue has the first turn. Where a device is short of room the first queue that is run takes what became free: the
    /// same one each time, and what waits on the list of another one would wait for ever.
    pub(crate) fn turn(&mut self) {
        self.first = (self.first + 1) % self.asked.len();
    }

    /// The busy indicator of `queue` (specs/blk-mq-and-noop.md 7.6): above 0 after refused sends.
    #[inline]
    pub fn busy(&self, queue: QueueId) -> bool {
        self.busy[usize::from(queue.0)] > 0
    }

    /// Moves the busy indicator after a send: failed, b = (7 b + 16) / 8; successful, b = 7 b / 8.
    #[inline]
    pub fn sent(&mut self, queue: QueueId, ok: bool) {
        let b = &mut self.busy[usize::from(queue.0)];
        *b = if ok { 7 * *b / 8 } else { (7 * *b + 16) / 8 };
    }
}

/// Everything a [`Cx`] refers to, for whoever drives a stage: the stack, a test bench, a benchmark.
#[derive(Debug)]
pub struct Env {
    /// Every request.
    pub requests: Requests,
    /// Processes.
    pub procs: Procs,
    /// Groups.
    pub groups: Groups,
    /// The device.
    pub device: Device,
    /// The trace sink.
    pub trace: Trace,
    /// Asked-for runs.
    pub runs: Runs,
    /// Requests closed to merging, by slot; whoever keeps the merge index takes them.
    pub closed: Vec<u32>,
}

impl Env {
    /// An environment with room for `requests` requests and `bios` bios at a time.
    pub fn new(device: Device, requests: usize, bios: usize) -> Env {
        let runs = Runs::new(device.hw_queues);
        Env {
            requests: Requests::new(requests, bios),
            procs: Procs::new(),
            groups: Groups::new(),
            device,
            trace: Trace::off(),
            runs,
            closed: Vec::with_capacity(requests),
        }
    }

    /// The context of one call.
    #[inline]
    pub fn cx(&mut self) -> Cx<'_> {
        Cx {
            requests: &self.requests,
            procs: &self.procs,
            groups: &self.groups,
            device: &self.device,
            trace: &mut self.trace,
            runs: &mut self.runs,
            closed: &mut self.closed,
        }
    }
}
