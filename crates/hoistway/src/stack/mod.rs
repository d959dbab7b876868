//! The block layer in small: the path of one I/O from submission to completion.
//!
//! One rule for callers: one [`Stack::handle`], then [`Stack::poll`] until it returns
//! [`Output::WaitUntil`], then wait (also after an error). The stack asserts it.
//!
//! The file is long because it is the public face: what goes in, what comes out and what is counted are
//! half of it, and read together. What happens in between has a file for each part.

mod checked;
mod error;
mod flush;
mod knobs;
mod legacy;
mod merge;
mod mq;
mod pass;
mod path;
mod room;
mod settings;
mod settle;
mod split;
mod tags;
#[cfg(test)]
mod tests;
mod words;
mod worker;

use crate::ctl::{self, Controller, Gate};
use crate::device::{Device, Profile, Tags};
use crate::env::{Cx, Env};
use crate::group::{GroupId, ProcId};
use crate::list::{Links, List};
use crate::merge::Elevator;
use crate::request::{BioId, Io, IoId, Op, ReqId, Request};
use crate::rows::Rows;
use crate::sched::{Entry, Scheduler, Setup};
use crate::stage::Change;
use crate::table::NIL;
use crate::unit::{Instant, IoPrio, QueueId};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
pub use error::StackError;
use flush::FlushMachine;
use knobs::PrioPolicy;
pub use knobs::{IoStat, QUEUE_KNOBS};
use legacy::Legacy;
use mq::{HwQueue, Plug, Reruns};

use room::Room;
pub use settings::QUEUE_TUNABLES;
use split::Splits;
use tags::{Tag, TagSet};
use worker::Worker;

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

/// Event that a caller hands to the stack.
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
    /// A line is written to a cgroup file of a group, as a shell would
    /// (specs/groups-and-priorities.md section 6).
    Write {
        /// Group whose file it is.
        group: GroupId,
        /// The file: `io.max`, `io.cost.qos`, ...
        file: String,
        /// The line.
        line: String,
    },
    /// Another scheduler takes over once no request exists; of several that were asked for meanwhile the
    /// last one does ("Changes" at [`Stack`]).
    SwitchScheduler(&'static Entry),
    /// The end: whatever there is and whatever still comes goes to the device as soon as that has room.
    /// Requests leave the scheduler by [`Scheduler::drain`], held bios their controllers by
    /// [`Controller::drain`], plugs collect nothing and nobody is delayed.
    /// There is no way back.
    End,
}

/// Event that the stack hands to its caller.
#[derive(Clone, Copy, Debug, PartialEq)]
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

/// Where a request is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum RequestPlace {
    #[default]
    Nowhere,
    /// In the plug list of its process.
    Plugged,
    /// In the scheduler's hands, not issued.
    Queued,
    /// On the residual list of its queue, or (legacy) the dispatch list.
    Residual,
    /// In the flush machine, between two steps.
    Flushing,
    /// With the device.
    Device,
}

/// State of a request beside the request itself.
#[derive(Clone, Copy, Debug, Default)]
struct State {
    place: RequestPlace,
    /// The scheduler knows it.
    scheduled: bool,
    /// It was issued before: never merges again.
    started: bool,
    /// Steps of its flush sequence still to do; 0: an ordinary request.
    steps: u8,
    /// It is the flush machine's own command.
    flush_command: bool,
    /// It is the flush of a legacy barrier.
    barrier_flush: bool,
    /// The tag it holds (multi-queue profile).
    tag: Tag,
}

impl State {
    /// A command of the stack itself: it carries no bio and no policy knows of it.
    fn own_command(self) -> bool {
        self.flush_command || self.barrier_flush
    }
}

/// A bio whose submitter sleeps until a tag is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Waiter {
    bio: BioId,
    queue: QueueId,
    /// Which tags it may have, as decided when it first asked.
    depth: Option<u32>,
}

impl Waiter {
    #[cfg(test)]
    fn for_test(n: u32) -> Waiter {
        let bio = BioId(crate::table::Handle { slot: n, generation: 0 });
        Waiter { bio, queue: QueueId(0), depth: None }
    }
}

/// Consequences of an input in the same instant, in the order in which they are worked off.
#[derive(Debug, Default)]
struct Agenda {
    /// Tag sets of which a tag is to be handed to a waiter (`tag_wait = fifo`), one entry per tag.
    handovers: VecDeque<usize>,
    /// Pieces, and bios that gate 2 released, that go on before anything else.
    reenter: VecDeque<(BioId, PathStep)>,
    /// Waiters that were woken in this instant.
    woken: VecDeque<Waiter>,
}

impl Agenda {
    fn is_empty(&self) -> bool {
        self.handovers.is_empty() && self.reenter.is_empty() && self.woken.is_empty()
    }
}

/// Changes that must wait until no request exists: of each kind the one that was asked for last. The
/// scheduler is changed first.
#[derive(Clone, Copy, Debug, Default)]
struct PendingChanges {
    switch: Option<&'static Entry>,
    nr_requests: Option<u32>,
    tags: Option<Tags>,
}

/// An installed controller.
#[derive(Debug)]
struct Installed {
    entry: &'static ctl::Entry,
    stage: Box<dyn Controller>,
}

impl Installed {
    /// A held bio that goes on: one that may, at the end any.
    fn release(&mut self, ending: bool, now: Instant, cx: &mut Cx<'_>) -> Option<BioId> {
        if ending { self.stage.drain(now, cx) } else { self.stage.release(now, cx) }
    }
}

/// The block layer of one device.
///
/// Life of an I/O: gate 1 (io.max), split, merge, gate 2 (io.cost, wbt, io.latency), tag, flush machine
/// or plug, scheduler, device, completion. Each step is a function in `path.rs`; what differs between
/// the generations is in `mq.rs` and `legacy.rs`.
///
/// # Changes
///
/// Another scheduler, another `nr_requests` and another kind of tags come into force at the first moment
/// when no request exists. From the asking to that moment ([`Stack::is_changing`]):
///
/// - Requests leave the old scheduler by [`Scheduler::drain`], as fast as the device takes them: no idling,
///   no token, no batch and no limit puts the change off. What processes had collected in plugs is with the
///   scheduler at once. The change is therefore made when the device has answered what existed.
/// - No further request comes into being. A bio that is submitted waits before the merge step; one that
///   waited for a tag, or that a controller releases meanwhile, waits where it would take one. Their
///   submitters sleep as they do for a tag. With the change made all go on, those that had passed the
///   controllers first.
/// - What a controller holds it keeps holding, by its own rules: it is no request and puts nothing off.
///   When it is released, before the change or after it, it goes to the scheduler then in force.
/// - Of several changes of one kind only the one asked for last is made: a scheduler that was asked for in
///   between is never built.
///
/// [`Input::End`] treats requests in the same way, and lets go what controllers hold.
#[derive(Debug)]
pub struct Stack {
    env: Env,
    entry: &'static Entry,
    scheduler: Box<dyn Scheduler>,
    controllers: Vec<Installed>,
    /// `io.prio.class` by group; groups beyond the end have none.
    prio_classes: Vec<PrioPolicy>,
    /// I/O submitted by each group.
    stats: Vec<IoStat>,

    state: Vec<State>,
    /// Residual lists, plug lists, dispatch list: a request is on at most one of them.
    links: Links,
    elevator: Elevator,
    flush: FlushMachine,
    queues: Rows<QueueId, HwQueue>,
    tag_sets: Vec<TagSet>,
    plugs: Vec<Plug>,
    worker: Worker,
    legacy: Legacy,
    room: Room,
    reruns: Reruns,

    splits: Splits,
    agenda: Agenda,
    pending: Option<PendingChanges>,
    /// Bios that wait for the end of a change, and where they go on.
    frozen: VecDeque<(BioId, PathStep)>,
    /// [`Input::End`] has come.
    ending: bool,
    collected: Vec<ReqId>,

    /// What the last input brought, told up to there.
    outputs: Vec<Output>,
    told: usize,
    drained: bool,
    /// The earliest timer, as of the end of the last call.
    wake: Option<Instant>,
    /// Between submission and tag nothing has a say in an I/O but its own kind and the merge search: no controller, no
    /// change, no policy for priorities. [`Stack::find_plain`] keeps it, called by all that alter what it depends on: those
    /// who take another input than an I/O or a completion, and the end of a change. False where it could be true costs
    /// time and nothing else.
    plain: bool,
    /// Besides there is no scheduler and nothing waits for anything, as of the end of the last call: an I/O that fits and
    /// a request that comes back may pass in one step ([`Stack::pass`]). `settle` finds it out anew.
    clear: bool,
    now: Instant,
    counters: Counters,
    /// Requests in the scheduler's hands.
    held: u32,
}

/// Carrier of a bio through the stack: sleeps for it, collects its request in a plug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Context {
    /// The task that submitted it.
    Proc(ProcId),
    /// The worker: gate 1 held it, and its submitter has gone on.
    Worker,
}

/// Where a bio goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PathStep {
    /// Gate 1 from this controller on.
    Gate1(usize),
    /// Behind gate 1: split and merge.
    Merge,
    /// Gate 2 from this controller on.
    Gate2(usize),
    /// Behind gate 2: a tag, or a place in a pool.
    Tag,
}

/// Counts of the stack so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// I/Os submitted.
    pub submitted: u64,
    /// I/Os finished.
    pub finished: u64,
    /// Bios that joined a request.
    pub merged: u64,
    /// Requests that joined another request.
    pub joined: u64,
    /// Requests handed to the device, flush commands included.
    pub issued: u64,
    /// Requests the device has completed, flush commands included.
    pub completed: u64,
    /// Times a submitter went to sleep for a tag.
    pub tag_waits: u64,
    /// Requests that the scheduler chose among at least two that it held. The others it could not have served
    /// otherwise than it did, except later.
    pub chosen: u64,
}

impl Stack {
    /// A stack for `device` under the scheduler `entry`, with room for `ios` outstanding I/Os (more
    /// may be submitted; the tables then grow).
    ///
    /// `device.nr_requests` of 0 takes the default for this scheduler.
    ///
    /// # Panics
    ///
    /// When no I/O could ever be served: no hardware queue, no driver tag, `max_sectors` of 0; and for
    /// a scheduler that the profile does not have (`none` in the legacy profile).
    pub fn new(mut device: Device, entry: &'static Entry, ios: usize) -> Stack {
        assert!(
            !(entry.direct && device.profile == Profile::Legacy),
            "'{}' exists in the multi-queue profile only",
            entry.name
        );
        assert!(device.hw_queues > 0, "a device has at least one hardware queue");
        assert!(device.queue_depth > 0, "a device takes at least one command");
        assert!(device.max_sectors.0 > 0, "a request is at least one sector long");
        let usual = device.default_nr_requests(true);
        if device.nr_requests == 0 || device.nr_requests == usual || entry.direct {
            device.nr_requests = usual_requests(&device, entry);
        }
        device.tags_made_for = device.nr_requests;
        let requests = capacity(&device);
        let setup = Setup { device: &device, requests, now: Instant::ZERO };
        let scheduler = (entry.build)(&setup);
        let queues = usize::from(device.hw_queues);
        let mut stack = Stack {
            entry,
            scheduler,
            controllers: Vec::new(),
            prio_classes: Vec::new(),
            stats: Vec::with_capacity(16),
            state: vec![State::default(); requests],
            links: Links::new(requests),
            elevator: Elevator::new(requests),
            flush: FlushMachine::new(),
            queues: Rows::from((0..queues).map(|_| HwQueue::default()).collect::<Vec<_>>()),
            tag_sets: Vec::new(),
            plugs: Vec::new(),
            worker: Worker::default(),
            legacy: Legacy::new(device.nr_requests),
            room: Room::default(),
            reruns: Reruns::default(),
            splits: Splits::new(),
            agenda: Agenda {
                handovers: VecDeque::with_capacity(64),
                reenter: VecDeque::new(),
                woken: VecDeque::with_capacity(64),
            },
            pending: None,
            frozen: VecDeque::new(),
            ending: false,
            collected: Vec::with_capacity(requests.min(1024)),
            outputs: Vec::with_capacity(256),
            told: 0,
            drained: true,
            wake: None,
            plain: false,
            clear: false,
            now: Instant::ZERO,
            counters: Counters::default(),
            held: 0,
            env: Env::new(device, requests, ios),
        };
        stack.tag_sets = stack.make_tag_sets();
        stack.find_plain();
        stack
    }

    /// Installs a controller; the order of installation within a gate is the order of asking. It is
    /// told of the groups that exist already.
    pub fn install(&mut self, entry: &'static ctl::Entry) {
        let stage = (entry.build)(&self.env.device);
        self.install_built(entry, stage);
    }

    /// Installs a controller of the embedder's own.
    pub fn install_built(&mut self, entry: &'static ctl::Entry, stage: Box<dyn Controller>) {
        let at = self.controllers.partition_point(|c| c.entry.gate <= entry.gate);
        let mut stage = stage;
        for group in self.env.groups.living() {
            stage.changed(self.now, &Change::GroupAdded(group), &mut self.env.cx());
        }
        self.controllers.insert(at, Installed { entry, stage });
        self.find_plain();
    }

    /// Everything the stages see.
    pub fn env(&self) -> &Env {
        &self.env
    }

    /// The trace sink, to turn it on or take the records.
    pub fn trace_mut(&mut self) -> &mut crate::trace::Trace {
        &mut self.env.trace
    }

    /// A request that exists; panics for a stale id. Valid from its `Issue` to its `Done`.
    #[inline]
    pub fn request(&self, id: ReqId) -> &Request {
        &self.env.requests[id]
    }

    /// The scheduler in force.
    pub fn scheduler(&self) -> &dyn Scheduler {
        &*self.scheduler
    }

    /// The registry entry of the scheduler in force.
    pub fn scheduler_entry(&self) -> &'static Entry {
        self.entry
    }

    /// A change of scheduler or of `nr_requests` waits for requests to complete.
    #[inline(always)]
    pub fn is_changing(&self) -> bool {
        self.pending.is_some()
    }

    /// The scheduler that a pending change brings; `None` when no change of scheduler is pending.
    pub fn scheduler_to_come(&self) -> Option<&'static Entry> {
        self.pending.and_then(|pending| pending.switch)
    }

    /// Nothing that exists may be held up: a change is pending, or the end has come.
    #[inline(always)]
    fn hurries(&self) -> bool {
        self.ending || self.is_changing()
    }

    /// Counts of the stack so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Requests with the device.
    pub fn in_flight(&self) -> u32 {
        self.room.used
    }

    /// Takes an input. After an error nothing of the input was done, but the outputs of timers that
    /// were due must be drained as after a success.
    ///
    /// # Panics
    ///
    /// When the outputs of the call before were not drained, or `now` is earlier than at that call.
    // Inlined, so that what each I/O takes is made where the path takes it.
    #[inline]
    pub fn handle(&mut self, now: Instant, input: Input) -> Result<(), StackError> {
        self.advance(now);
        let result = match input {
            Input::Submit(io) => self.submit(&io),
            Input::Done { req, error } => self.done(req, error),
            rarer => return self.handle_rarer(rarer),
        };
        self.end_of_io();
        result
    }

    /// What follows from the submission or the completion of an I/O.
    #[inline(always)]
    fn end_of_io(&mut self) {
        if !self.rests() {
            self.settle();
        }
        self.drained = false;
    }

    /// Settles what is not an I/O.
    fn end_of_rarer(&mut self) {
        self.find_plain();
        self.settle();
        self.drained = false;
    }

    /// What [`Stack::plain`] is to be, and so [`Stack::clear`].
    fn find_plain(&mut self) {
        self.plain = self.controllers.is_empty()
            && self.is_mq()
            && !self.hurries()
            && self.prio_classes.is_empty();
        self.clear = self.is_clear();
    }

    fn handle_rarer(&mut self, input: Input) -> Result<(), StackError> {
        let now = self.now;
        let result = match input {
            Input::Submit(_) | Input::Done { .. } => unreachable!("`handle` has them"),
            Input::Plug(proc) => {
                let result = self.check_proc(proc).map(|()| self.plug(proc).open = true);
                if self.wake.is_none_or(|due| due > now) {
                    // Nothing follows from it.
                    self.drained = false;
                    return result;
                }
                result
            }
            Input::Unplug(proc) => {
                if self.plug_of(Context::Proc(proc)).is_some_and(|p| p.open) {
                    self.plug(proc).open = false;
                    self.flush_plug(Context::Proc(proc), false);
                }
                Ok(())
            }
            Input::Sleep(proc) => {
                self.flush_plug(Context::Proc(proc), true);
                self.legacy_unplug_for_sleeper();
                Ok(())
            }
            Input::Requeue(req) => self.requeue(req),
            Input::Tick => Ok(()),
            Input::Set { stage, name, value } => self.set(stage, &name, value),
            Input::SetGroup { group, stage, name, value } => {
                self.set_group(group, stage, &name, value)
            }
            Input::Write { group, file, line } => self.write_knob(group, &file, &line),
            Input::SwitchScheduler(entry) => self.switch(entry),
            Input::End => {
                self.ending = true;
                self.hurry();
                Ok(())
            }
        };
        self.end_of_rarer();
        result
    }

    /// The next output; `WaitUntil` ends the drain.
    #[inline]
    pub fn poll(&mut self, now: Instant) -> Output {
        debug_assert!(now >= self.now);
        if let Some(&output) = self.outputs.get(self.told) {
            self.told += 1;
            return output;
        }
        self.outputs.clear();
        (self.told, self.drained) = (0, true);
        Output::WaitUntil(self.wake)
    }

    /// Changes processes, groups or the device and tells every stage. The outputs of the call before
    /// must have been drained; drain those of this one.
    pub fn change(&mut self, now: Instant, change: Change, edit: impl FnOnce(&mut Env)) {
        self.advance(now);
        edit(&mut self.env);
        self.tell(&change);
        self.end_of_rarer();
    }

    /// Adds a group below `parent`; drain the outputs if I/O is under way.
    pub fn add_group(&mut self, now: Instant, parent: GroupId, name: &str) -> GroupId {
        self.advance(now);
        let group = self.env.groups.add(parent, name);
        self.tell(&Change::GroupAdded(group));
        self.settle();
        self.drained = self.outputs.is_empty();
        group
    }

    /// Removes a group: the stages hear of it while it is still in the tree. Drain the outputs.
    pub fn remove_group(&mut self, now: Instant, group: GroupId) {
        self.advance(now);
        self.tell(&Change::GroupRemoved(group));
        self.env.groups.remove(group);
        self.end_of_rarer();
    }

    /// Adds a process.
    pub fn add_proc(&mut self, group: GroupId, prio: IoPrio) -> ProcId {
        self.env.procs.add(group, prio)
    }

    /// The clock moves. What was due before this input happens before it; what is due now happens after
    /// it.
    #[inline(always)]
    fn advance(&mut self, now: Instant) {
        self.check_turn(now);
        self.go_to(now);
    }

    /// An input may come at `now`.
    #[inline(always)]
    fn check_turn(&self, now: Instant) {
        assert!(self.drained, "drain poll() until WaitUntil before the next input");
        assert!(now >= self.now, "time never goes back");
    }

    #[inline(always)]
    fn go_to(&mut self, now: Instant) {
        self.now = now;
        if self.wake.is_some_and(|due| due < now) {
            self.fire_timers(|due| due < now);
        }
    }

    fn tell(&mut self, change: &Change) {
        self.scheduler.changed(self.now, change, &mut self.env.cx());
        for c in &mut self.controllers {
            c.stage.changed(self.now, change, &mut self.env.cx());
        }
        self.ask_legacy_run();
    }

    #[inline(always)]
    fn is_mq(&self) -> bool {
        self.env.device.profile == Profile::MultiQueue
    }

    /// Room at the device: a free driver tag, and no command that runs alone waits or runs.
    fn room(&self) -> bool {
        self.room.any(&self.env.device)
    }

    fn check_issued(&self, req: ReqId) -> Result<(), StackError> {
        let issued = self.env.requests.get(req).is_some()
            && self.state[req.index()].place == RequestPlace::Device;
        if issued { Ok(()) } else { Err(StackError::StaleRequest(req)) }
    }

    #[inline(always)]
    fn check_proc(&self, proc: ProcId) -> Result<(), StackError> {
        let known = self.env.procs.get(proc).is_some();
        if known { Ok(()) } else { Err(StackError::NoSuchProcess(proc)) }
    }
}

/// Requests that may exist where nothing is set: the device's usual number for the scheduler, or what that asks
/// for.
fn usual_requests(device: &Device, entry: &Entry) -> u32 {
    let usual = device.default_nr_requests(!entry.direct);
    if device.profile == Profile::MultiQueue { usual.max(entry.tags_min) } else { usual }
}

/// Request slots: all tags that can exist, one for the flush command and one for a barrier's flush.
fn capacity(device: &Device) -> usize {
    let tags = match device.profile {
        // Two pools with an absolute cap of 3/2.
        Profile::Legacy => 3 * device.nr_requests as usize,
        Profile::MultiQueue => {
            // Also enough for a scheduler that takes over from `none`.
            let asked = crate::sched::SCHEDULERS.iter().map(|e| e.tags_min).max().unwrap_or(0);
            let usual =
                device.default_nr_requests(true).max(device.nr_requests).max(asked) as usize;
            (usual * usize::from(device.hw_queues)).max(device.queue_depth as usize)
        }
    };
    // Room to raise nr_requests at run time.
    tags.max(512) + 2
}
