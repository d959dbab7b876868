//! The simulated machine: host, stack, processes and what is counted, in whatever time its loop keeps.
//!
//! The event queue names who is next; ties at one instant go in the order device, stack timers, journal,
//! processes (specs/host.md 1.2). Every input to the stack is followed by its own drain. What carries out
//! requests, and where processes live, is the [`Platform`]'s part: a drive model and the loads themselves in the
//! simulator, storage and threads in a live world.

mod told;

use super::Job;
use super::built::{Built, build};
use super::control::{Gauges, add_groups, files, install, targets};
use super::events::{EventQueue, NEVER};
use super::record::{DeviceStats, ProcStats, Served, Span, figure};
use super::setup::{check_limits, span_of, stack_of};
use super::spawned::Spawned;
use super::step::Step;
use crate::drive::Command;
use crate::host::{Act, Host, Operation, ProcInfo, Ran};
use crate::load::{self, Load};
use hoistway::stack::IoError;
use hoistway::stage::Change;
use hoistway::table::Handle;
use hoistway::{Device, Flags, GroupId, Input, Instant, Io, IoId, IoPrio, Nanos, Output, ProcId};
use hoistway::{Profile, ReqId, Request, Stack};
use hoistway_run::{JobError, Mark, NamedFigure, Outcome, Role, TraceMode};

/// Entity 0 of the event queue is the device.
pub(super) const DEVICE: usize = 0;
const TICK: usize = 1;
const JOURNAL: usize = 2;
/// Where the flushers begin; behind them the processes.
pub(super) const FLUSHERS: usize = 3;

/// What a machine runs on: storage that carries out requests, and whatever runs its processes.
pub trait Platform {
    /// A request goes to the device; [`Machine::served`] is to follow.
    fn issue(&mut self, now: Instant, command: Command, req: ReqId, stack: &Stack);

    /// An I/O of the host enters the stack.
    fn submitted(&mut self, _io: &Io, _host: &Host) {}

    /// Something that is no I/O enters the stack, or exists from the beginning.
    #[inline]
    fn step(&mut self, _now: Instant, _step: Step<'_>) {}

    /// The stack has finished it; the host does not know yet.
    fn finished(&mut self, _io: IoId, _host: &Host) {}

    /// A process of the job, a flusher or the journal has done a step.
    fn stepped(&mut self, _host: &mut Host) {}

    /// What process `p` of the job does next; `None`: [`Machine::begin`] will say.
    fn next(&mut self, now: Instant, p: usize) -> Option<Operation>;

    /// Measuring ends: what process `p` counts of what is still undecided. A platform whose processes are
    /// threads cannot ask one that is waiting.
    fn closing(&self, _now: Instant, _p: usize) -> Vec<(&'static str, u64)> {
        Vec::new()
    }

    /// The host has done calls of process `p`. True: that is all, and they took the time it says; false:
    /// the process carries them out now, and [`Machine::ran`] will tell what they took.
    fn ran(&mut self, now: Instant, p: usize, ran: &Ran, host: &Host) -> bool;
}

/// When a process goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// When the event queue says.
    Due,
    /// When I/O it waits for has completed.
    Asleep,
    /// When the stack has accepted its submission, or never.
    Called,
}

/// Which part of the run goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Ramp,
    Window,
    Grace,
}

/// A process of the job.
#[derive(Debug)]
struct JobProc {
    name: String,
    /// Who it is to the host and the stack when it is not one of the processes it made.
    home: ProcInfo,
    prio: IoPrio,
    target: bool,
    stats: ProcStats,
}

/// A run without its loop.
#[derive(Debug)]
pub struct Machine<G> {
    /// What it runs on.
    pub platform: G,
    pub(super) now: Instant,
    pub(super) events: EventQueue,
    /// The device was given something by the entity that goes on.
    issued: bool,
    /// The loop wants to be asked then at the latest; 0: at each instant.
    pub(super) pause: Instant,
    /// Before then nothing is due that no entity asks for.
    quiet: Instant,
    stack: Stack,
    host: Host,
    actors: Vec<JobProc>,
    /// Who acts, by process of the host: the actors, the journal's thread and the flushers. Apart from the rest of an
    /// actor, which of many is out of the cache.
    ids: Vec<ProcId>,
    /// It has done its last call, or exited; the same order.
    over: Vec<bool>,
    /// Where the processes begin in the event queue.
    first: usize,
    spawned: Spawned,
    marks: Vec<Mark>,
    legacy: bool,
    part: Part,
    span: Span,
    grace: Nanos,
    device_stats: DeviceStats,
    /// What the commands at the device were when issued, by request slot.
    sequential: Vec<bool>,
    /// The submission under way, and whether it is over.
    submission: IoId,
    accepted: bool,
    /// Targets that have not done their last call.
    running: usize,
    /// There are targets, which are measured then instead of all.
    targeted: bool,
    /// Who is measured and has not exited.
    measured: usize,
    monitor: Gauges,
    /// The last target, or without targets the last process, has just exited: nobody is left to be measured.
    exited: bool,
    /// Controllers are installed, which may want read-ahead cut.
    controlled: bool,
    /// An I/O failed.
    fault: Option<JobError>,
}

impl<G: Platform> Machine<G> {
    /// Sets a job up on `device`; `platform` is made from the loads of the job's processes, in their order.
    pub fn new(
        job: &Job<'_>,
        device: Device,
        platform: impl FnOnce(Vec<Box<dyn Load>>, &Host) -> Result<G, JobError>,
    ) -> Result<Machine<G>, JobError> {
        check_limits(job)?;
        let mut stack = stack_of(job, device)?;
        let most = stack.env().device.max_sectors;
        let span = span_of(job);
        install(&mut stack, &job.control)?;
        let groups = add_groups(&mut stack, job)?;
        let controlled = stack.controllers().next().is_some();

        let Built { mut host, loads, .. } = build(job, most)?;
        let mut flushers = vec![GroupId::ROOT];
        if job.host.group_writeback() {
            flushers.extend(&groups);
        }
        let first = FLUSHERS + flushers.len();
        let mut events = EventQueue::new(first + job.procs.len());
        let mut actors = Vec::with_capacity(job.procs.len());
        let mut ids = Vec::with_capacity(first + job.procs.len());
        for (index, spec) in job.procs.iter().enumerate() {
            let group = match spec.group {
                None => GroupId::ROOT,
                Some(g) => *groups.get(g).ok_or_else(|| JobError::Parameter {
                    of: spec.name.clone(),
                    message: format!("group {g} does not exist; there are {}", groups.len()),
                })?,
            };
            let target = spec.role == Role::Target;
            let id = stack.add_proc(group, spec.prio);
            let prio = stack.env().procs.prio(id);
            // Process i runs on CPU i mod 8 (architecture.md 2.4).
            let info = ProcInfo { id, group, prio, cpu: (index % 8) as u32 };
            host.add_proc(info, target.then_some(span.end));
            events.set(first + index, Instant::ZERO + spec.start);
            actors.push(JobProc {
                name: spec.name.clone(),
                home: info,
                prio: spec.prio,
                target,
                stats: ProcStats::new(spec, span, &job.window),
            });
            ids.push(id);
            if load::find(&spec.load)?.directions {
                actors[index].stats.by_direction();
            }
        }
        let journal = stack.add_proc(GroupId::ROOT, IoPrio::be(host.journal_level()));
        let prio = stack.env().procs.prio(journal);
        let cpu = (actors.len() % 8) as u32;
        host.add_journal(ProcInfo { id: journal, group: GroupId::ROOT, prio, cpu });
        ids.push(journal);
        host.add_flushers(flushers.into_iter().map(|group| {
            let id = stack.add_proc(group, IoPrio::be(4));
            let prio = stack.env().procs.prio(id);
            let cpu = (ids.len() % 8) as u32;
            ids.push(id);
            ProcInfo { id, group, prio, cpu }
        }));

        let targets = actors.iter().filter(|a| a.target).count();
        Ok(Machine {
            platform: platform(loads, &host)?,
            now: Instant::ZERO,
            events,
            issued: false,
            pause: Instant::ZERO,
            quiet: Instant::ZERO,
            sequential: vec![false; stack.env().requests.capacity()],
            legacy: job.host.block_profile() == Profile::Legacy,
            stack,
            host,
            exited: false,
            running: targets,
            targeted: targets > 0,
            measured: if targets > 0 { targets } else { actors.len() },
            actors,
            over: vec![false; ids.len()],
            ids,
            first,
            spawned: Spawned::default(),
            marks: Vec::new(),
            part: Part::Ramp,
            span,
            grace: job.window.grace,
            device_stats: DeviceStats::new(span, &job.window),
            submission: IoId(u64::MAX),
            accepted: true,
            monitor: Gauges::new(job.control.monitor),
            controlled,
            fault: None,
        })
    }

    /// Time goes on to `at`, which is never before the last one; true when the run is over. Whatever is
    /// due is to be carried out now, in the order of [`Machine::due`].
    #[inline]
    pub fn advance(&mut self, at: Instant) -> bool {
        if at < self.quiet {
            assert!(at >= self.now, "time never goes back");
            self.now = at;
            return false;
        }
        self.turn(at)
    }

    /// The same where something may be due that no entity asks for.
    #[cold]
    fn turn(&mut self, at: Instant) -> bool {
        if self.part == Part::Window && self.exited {
            self.cut_window();
        }
        // The next instant at which something is due that no entity asks for.
        loop {
            let limit = self.span.end + self.grace.max(Nanos(1));
            self.part = match self.part {
                Part::Ramp if at >= self.span.begin => {
                    self.device_stats.begin(self.stack.counters().merged);
                    Part::Window
                }
                Part::Window if at >= self.span.end => {
                    self.end_window();
                    Part::Grace
                }
                Part::Grace if at >= limit => {
                    self.censor(self.span.end + self.grace);
                    return true;
                }
                _ => break,
            };
        }
        if self.part == Part::Grace && self.running == 0 {
            return true;
        }
        assert!(at >= self.now, "time never goes back");
        self.monitor.record(at, &mut self.stack);
        self.now = at;
        let border = match self.part {
            Part::Ramp => self.span.begin,
            Part::Window => self.span.end,
            Part::Grace => self.span.end + self.grace,
        };
        self.quiet = if self.exited { Instant::ZERO } else { border.min(self.monitor.next()) };
        false
    }

    /// Who is next, and when.
    #[inline]
    pub fn due(&self) -> (usize, Instant) {
        self.events.next()
    }

    /// Lets entity `who`, which is not the device, go on.
    #[inline]
    pub fn go(&mut self, who: usize) -> Result<(), JobError> {
        match who {
            TICK => self.input(Input::Tick),
            _ => self.go_on(who)?,
        }
        self.fault.take().map_or(Ok(()), Err)
    }

    /// The measured window ends then, and nothing that ends later is counted.
    pub fn window_end(&self) -> Instant {
        self.span.end
    }

    /// What process `p` of the job, which was asked, does next.
    pub fn begin(&mut self, p: usize, operation: Operation) {
        self.host.begin(self.now, p, operation);
        self.events.set(self.first + p, self.now);
    }

    /// What calls of process `p` of the job took.
    #[inline]
    pub fn ran(&mut self, p: usize, ran: &Ran) {
        self.actors[p].stats.ran(ran);
    }

    /// Process `p` of the job has carried out the calls that the host did, and goes on.
    pub fn resume(&mut self, p: usize) {
        self.events.set(self.first + p, self.now);
    }

    /// Measuring ends with the exit of the last who is measured.
    fn cut_window(&mut self) {
        self.exited = false;
        let end = self.now.max(self.span.begin + Nanos(1)).min(self.span.end);
        self.span.end = end;
        self.device_stats.cut(end);
        self.actors.iter_mut().for_each(|a| a.stats.cut(end));
    }

    /// The measured window is over: the target finishes its current call, everybody else is only load.
    fn end_window(&mut self) {
        let end = self.span.end;
        self.device_stats.end(self.stack.counters().merged);
        for p in 0..self.actors.len() {
            let open = self.host.call_begun(p);
            let undecided = self.platform.closing(end, p);
            let actor = &mut self.actors[p];
            // The last instant of the window.
            let last = Instant::from_nanos(end.as_nanos() - 1);
            undecided.iter().for_each(|&(what, n)| actor.stats.count_of(last, what, n));
            match open {
                Some(began) if !actor.target => actor.stats.left_open(end, began),
                None if actor.target && !self.over[p] => {
                    self.over[p] = true;
                    self.running -= 1;
                    self.events.set(self.first + p, NEVER);
                }
                _ => {}
            }
        }
    }

    /// The grace is over and a target's last call is not.
    fn censor(&mut self, now: Instant) {
        self.now = now;
        for (p, actor) in self.actors.iter_mut().enumerate() {
            if actor.target
                && !self.over[p]
                && let Some(began) = self.host.call_begun(p)
            {
                actor.stats.censored = Some(now - began);
                actor.stats.left_open(now, began);
            }
        }
    }

    /// Tells the stack something, and carries out what it says.
    #[inline]
    fn input(&mut self, input: Input) {
        if let Err(error) = self.stack.handle(self.now, input) {
            // The host keeps to the device's limits and the world to the life of requests.
            panic!("the stack refuses what the world must never say: {error:?}");
        }
        self.drain();
    }

    fn drain(&mut self) {
        loop {
            match self.stack.poll(self.now) {
                Output::Issue { req, .. } => self.issue(req),
                Output::Accepted { io } => {
                    if io == self.submission {
                        self.accepted = true;
                    } else {
                        let p = self.host.submitter(io);
                        self.events.set(self.entity(p), self.now);
                    }
                }
                Output::Finished { io, result } => {
                    if let Err(error) = result {
                        let what = format!("an I/O of the run failed: {error:?}");
                        self.fault.get_or_insert(JobError::Storage { what });
                    }
                    self.finished(io);
                }
                Output::Delay { proc, until } => {
                    let p = self.spawned.actor_of(proc).unwrap_or(proc.index());
                    // The journal's thread and the flushers, which come behind, are exempt.
                    if p < self.actors.len() {
                        self.host.delay(p, until);
                    }
                }
                Output::WaitUntil(at) => {
                    self.events.set(TICK, at.unwrap_or(NEVER));
                    return;
                }
            }
        }
    }

    /// What a request asks of the device.
    #[inline]
    pub fn command(&self, req: ReqId) -> Command {
        command_of(self.stack.request(req))
    }

    fn issue(&mut self, req: ReqId) {
        self.issued = true;
        let command = self.command(req);
        self.sequential[req.index()] =
            self.device_stats.issue(self.now, command.op, command.start, command.len);
        self.platform.issue(self.now, command, req, &self.stack);
    }

    /// The device has served a request, or failed to.
    #[inline]
    pub fn served(&mut self, req: ReqId, error: Option<IoError>) {
        let r = self.stack.request(req);
        let served = Served {
            op: r.op,
            bytes: r.sectors.bytes().0,
            issued: r.issued,
            sequential: self.sequential[req.index()],
        };
        self.device_stats.done(self.now, &served);
        let passed = if error.is_none() { self.stack.pass_back(self.now, req) } else { None };
        match passed {
            Some(io) => self.finished(io),
            None => self.input(Input::Done { req, error }),
        }
    }

    /// An I/O of the host is over.
    #[inline]
    fn finished(&mut self, io: IoId) {
        self.platform.finished(io, &self.host);
        self.host.completed(self.now, io);
        self.wake();
    }

    /// The entity of process `p` of the host in the event queue.
    #[inline]
    fn entity(&self, p: usize) -> usize {
        match p.checked_sub(self.actors.len()) {
            None => self.first + p,
            Some(0) => JOURNAL,
            Some(flusher) => FLUSHERS - 1 + flusher,
        }
    }

    #[inline]
    fn wake(&mut self) {
        while let Some((p, at)) = self.host.woken() {
            self.events.set(self.entity(p), at);
        }
    }

    /// Process `who` does nothing before `at`. True: nor does anybody else, and it is `at` now.
    #[inline(always)]
    fn goes_on(&mut self, who: usize, at: Instant) -> bool {
        self.wake();
        // A device that was given something has not said yet when it wants to be called.
        let alone =
            at < self.pause && at < self.quiet && !self.issued && self.events.precedes(who, at);
        if alone {
            self.now = at;
        } else {
            self.events.set(who, at);
        }
        alone
    }

    /// A process goes on.
    #[inline(always)] // Of the loop of every simulation.
    fn go_on(&mut self, who: usize) -> Result<(), JobError> {
        let p = match who {
            JOURNAL => self.actors.len(),
            _ if who < self.first => self.actors.len() + 1 + who - FLUSHERS,
            _ => who - self.first,
        };
        self.issued = false;
        // What the queue has of it is past: it says when it goes on, or that it does not. Nobody wakes who runs.
        if !self.controlled {
            let others = self.events.next_but(who);
            self.host.alone_until(others.min(self.pause).min(self.quiet));
        }
        let next = if self.over[p] { Next::Called } else { self.steps(who, p)? };
        if next != Next::Due {
            self.events.set(who, NEVER);
        }
        self.wake();
        if self.legacy && next == Next::Asleep {
            // Whoever waits for I/O starts the device's queue.
            self.platform.step(self.now, Step::Sleep(self.id(p)));
            self.input(Input::Sleep(self.id(p)));
        }
        Ok(())
    }

    /// Process `p` of the host in the block layer.
    fn id(&self, p: usize) -> ProcId {
        self.ids[p]
    }

    /// What process `p`, entity `who`, does until it has to wait for others.
    #[inline(always)]
    fn steps(&mut self, who: usize, p: usize) -> Result<Next, JobError> {
        loop {
            if self.controlled
                && let Some(actor) = self.actors.get(p)
            {
                let congested = self.stack.congested(actor.home.group);
                self.host.set_congested(p, congested);
            }
            let act = self.host.step(self.now, p);
            self.platform.stepped(&mut self.host);
            match act {
                Act::Plug => {
                    self.platform.step(self.now, Step::Plug(self.id(p)));
                    self.input(Input::Plug(self.id(p)));
                }
                Act::PlugUntil(at) => {
                    self.platform.step(self.now, Step::Plug(self.id(p)));
                    if !self.stack.passes() {
                        self.input(Input::Plug(self.id(p)));
                    }
                    if !self.goes_on(who, at) {
                        return Ok(Next::Due);
                    }
                }
                Act::Unplug => {
                    self.platform.step(self.now, Step::Unplug(self.id(p)));
                    self.input(Input::Unplug(self.id(p)));
                }
                Act::SubmitAlone if self.pass(p) => {}
                Act::Submit | Act::SubmitAlone => {
                    if !self.submit() {
                        // It sleeps (tag, controller); the stack will say when it is accepted.
                        return Ok(Next::Called);
                    }
                }
                Act::Throttled(at) => {
                    // Write-back throttling gives way to tasks that sleep on the dirty limit.
                    if self.controlled {
                        let id = self.id(p);
                        self.platform.step(self.now, Step::DirtySlept(id));
                        self.stack.change(self.now, Change::DirtySlept(id), |_| {});
                        self.drain();
                    }
                    self.events.set(who, at);
                    return Ok(Next::Due);
                }
                Act::RanThrottled(at) => {
                    let ran = self.host.ran();
                    self.actors[p].stats.ran(ran);
                    self.now = ran.until;
                    self.events.set(who, at);
                    return Ok(Next::Due);
                }
                Act::WaitUntil(at) => {
                    if !self.goes_on(who, at) {
                        return Ok(Next::Due);
                    }
                }
                Act::Ran => {
                    let ran = self.host.ran();
                    if !self.platform.ran(self.now, p, ran, &self.host) {
                        return Ok(Next::Called);
                    }
                    self.actors[p].stats.ran(ran);
                    let until = ran.until;
                    if until > self.now && !self.goes_on(who, until) {
                        return Ok(Next::Due);
                    }
                }
                Act::Block => return Ok(Next::Asleep),
                Act::Rest => return Ok(Next::Called),
                Act::Finished => {
                    if self.now >= self.span.end && self.actors[p].target {
                        // Its last calls run to their ends.
                        if self.host.open_calls(p) > 0 {
                            self.host.begin(self.now, p, Operation::Collect);
                            continue;
                        }
                        self.retire(p);
                        return Ok(Next::Called);
                    }
                    let until = self.host.delayed(p);
                    if until > self.now {
                        self.events.set(who, until);
                        return Ok(Next::Due);
                    }
                    let Some(operation) = self.platform.next(self.now, p) else {
                        return Ok(Next::Called);
                    };
                    self.host.begin(self.now, p, operation);
                }
                Act::Stopped => {
                    self.retire(p);
                    return Ok(Next::Called);
                }
                Act::Exited => {
                    self.retire(p);
                    self.end_procs(p, true);
                    self.exit(self.ids[p]);
                    self.exited = self.was_last(p);
                    if self.exited {
                        self.quiet = Instant::ZERO;
                    }
                    return Ok(Next::Called);
                }
                Act::Tell => self.told(p, self.host.notice()),
                Act::Fault => return Err(self.host.fault()),
            }
        }
    }

    /// Process `p` submits an I/O alone in its plug section; true if it is on its way, and the section closed.
    #[inline]
    fn pass(&mut self, p: usize) -> bool {
        if !self.stack.passes() {
            return false;
        }
        let io = self.host.submitted();
        let Some(req) = self.stack.pass(self.now, io) else {
            // That it was opened the stack has not been told.
            self.input(Input::Plug(self.id(p)));
            return false;
        };
        self.platform.submitted(io, &self.host);
        self.platform.step(self.now, Step::Submit(io));
        self.platform.step(self.now, Step::Unplug(self.id(p)));
        self.host.passed(p);
        self.issue(req);
        true
    }

    /// An I/O enters the stack; false if that does not accept it yet.
    fn submit(&mut self) -> bool {
        let io = *self.host.submitted();
        if self.stack.pass_flush(self.now, &io) {
            self.platform.submitted(&io, &self.host);
            self.platform.step(self.now, Step::Submit(&io));
            return true;
        }
        self.submission = io.id;
        self.accepted = false;
        self.platform.submitted(&io, &self.host);
        self.platform.step(self.now, Step::Submit(&io));
        self.input(Input::Submit(io));
        self.submission = IoId(u64::MAX);
        self.accepted
    }

    /// Nothing is lost: what was submitted has been finished or is still in flight, at each border
    /// (statistics.md 6).
    fn check_conservation(&self) {
        let c = self.stack.counters();
        assert_eq!(c.submitted, c.finished + self.host.in_flight(), "I/Os of the host");
        assert_eq!(c.issued, c.completed + self.device_stats.outstanding, "requests at the device");
        assert_eq!(
            (c.issued, self.device_stats.outstanding),
            (self.device_stats.issued, u64::from(self.stack.in_flight()))
        );
    }

    /// Tells the platform of the groups and processes that there are.
    pub fn introduce(&mut self, job: &Job<'_>) {
        let (stack, now) = (&self.stack, self.now);
        let groups = &stack.env().groups;
        for id in groups.living() {
            let parent = groups.parent(id).expect("only the root has none");
            self.platform.step(now, Step::Group { id, parent, name: groups.name(id) });
        }
        let procs = &stack.env().procs;
        let mut told = |id: ProcId, role, name: &str| {
            let proc = procs.get(id).expect("it was added when the machine was made");
            let (group, prio) = (proc.group, proc.prio);
            self.platform.step(now, Step::Proc { id, group, prio, role, name });
        };
        for (actor, spec) in self.actors.iter().zip(&job.procs) {
            told(actor.home.id, Some(spec.role), &spec.name);
        }
        for (n, &id) in self.ids[self.actors.len()..].iter().enumerate() {
            match n.checked_sub(1) {
                None => told(id, None, "journal"),
                Some(n) => told(id, None, &format!("flusher{n}")),
            }
        }
    }

    /// What the stack knows.
    pub fn stack(&self) -> &Stack {
        &self.stack
    }

    /// From now on the platform can ask the host what happens to pages.
    pub fn watch_pages(&mut self) {
        self.host.watch_pages();
    }

    /// The run is given up.
    pub fn into_platform(self) -> G {
        self.platform
    }

    /// What has been counted; the run is over.
    pub fn outcome(mut self, job: &Job<'_>) -> (Outcome, G) {
        self.check_conservation();
        let scheduler = self.stack.scheduler();
        let entry = self.stack.scheduler_entry();
        let tunables = (entry.tunables.iter())
            .filter_map(|t| scheduler.value(t.name).map(|v| (t.name.to_string(), v)))
            .collect();
        let counters = self.stack.counters();
        let counted = [("requests_issued", counters.issued), ("requests_chosen", counters.chosen)];
        let counted =
            counted.map(|(name, n)| NamedFigure { name: name.into(), of: None, value: n as i64 });
        let mut scheduler_figures = Vec::from(counted);
        scheduler.figures(&mut |f| scheduler_figures.push(figure(f)));
        let mut controller_figures = Vec::new();
        for (entry, stage) in self.stack.controllers() {
            stage.figures(&mut |f| controller_figures.push((entry.name.to_string(), figure(f))));
        }
        let files = files(&mut self.stack);
        let targets = targets(&mut self.stack);
        let trace = self.stack.trace_mut();
        let trace_digest = if job.trace == TraceMode::Off { 0 } else { trace.digest() };
        let outcome = Outcome {
            trace: trace.take(),
            trace_digest,
            tunables,
            scheduler_figures,
            controller_figures,
            files,
            targets,
            monitor: self.monitor.finish(self.span.begin),
            begin: self.span.begin,
            commands_total: self.device_stats.issued,
            device: self.device_stats.finish(self.now.max(self.span.end)),
            procs: (self.actors.into_iter().zip(&job.procs))
                .map(|(actor, spec)| actor.stats.record(spec))
                .collect(),
            measured: job.window.measured.min(self.span.end - self.span.begin),
            marks: self.marks,
            made: self.spawned.names(),
            host_parameters: self.host.parameters(),
            host_figures: self.host.figures(),
            end: self.now,
        };
        (outcome, self.platform)
    }
}

/// A request as a command.
#[inline]
pub fn command_of(r: &Request) -> Command {
    Command {
        tag: tag_of(r.id),
        op: r.op,
        start: r.start.bytes().0,
        len: r.sectors.bytes().0,
        fua: r.flags.any(Flags::FUA),
    }
}

/// A request as the tag of its command.
pub fn tag_of(req: ReqId) -> u64 {
    u64::from(req.0.generation) << 32 | u64::from(req.0.slot)
}

/// The request of a command's tag.
pub fn request_of(tag: u64) -> ReqId {
    ReqId(Handle { slot: (tag & 0xffff_ffff) as u32, generation: (tag >> 32) as u32 })
}
