//! The modelled machine: one processor, one alarm clock, one drive, and the stack between them.
//!
//! Work of the processor takes no time except that every look at the clock by a task, or by the worker
//! that hands a command over, costs one step of it. That, the alarm's slack and the order in which tasks
//! run are those of the machine on which the kernel was recorded; they decide who comes first when
//! several processes are ready within a microsecond.

use super::scenario::{DEVICE_BYTES, GROUPS, Job, Scenario};
use hoistway::ctl;
use hoistway::sched::{self, Entry};
use hoistway::stack::StageName;
use hoistway::{
    Bytes, Device, GroupId, Input, Instant, Io, Nanos, Output, ProcId, ReqId, Sectors, Stack,
};
use std::collections::{BTreeMap, VecDeque};

/// One step of the clock, and what a look at it costs.
const STEP: u64 = 256;
/// The alarm is never programmed closer than this.
const ALARM_MIN: u64 = 500;
/// Time between two ticks of the kernel.
const TICK: u64 = 10_000_000;
/// Pause of a process between a completion and its next submission; setting the timer takes 1 ns.
const PAUSE: u64 = 10_001;
/// The clock's step and true time are so far apart when a run begins.
const PHASE: u64 = 6;
/// How long is measured.
const WINDOW: u64 = 6_000_000_000;
/// Tasks at the beginning of the list that run after all others, later ones first.
const LATE_TASKS: usize = 6;
/// Commands the drive works on; more wait in front of it.
const PLACES: usize = 16;
/// Time the drive needs at least.
const SERVICE: u64 = 2_000_000;
/// Time per byte at 200 MB/s.
const BYTE: u64 = 5;

/// Scheduler and tags of a run.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    pub scheduler: &'static str,
    pub tunables: &'static [(&'static str, u64)],
    /// Driver tags; with a scheduler there are twice as many scheduler tags.
    pub tags: u32,
    /// Where the first search for a tag begins (the kernel draws it at random).
    pub tag_hint: u32,
    /// When the first processes start, in ns.
    pub t0: u64,
    /// The controller beside it.
    pub control: Option<Control>,
}

/// A controller of a run and the cgroup files written for it.
#[derive(Clone, Copy, Debug)]
pub struct Control {
    pub name: &'static str,
    pub tunables: &'static [(&'static str, u64)],
    /// Group (`/` for the root), file, line without the device number.
    pub files: &'static [(&'static str, &'static str, &'static str)],
    /// When the files are written, in ns; nothing else happens before.
    pub written_at: u64,
}

/// The figures of one process.
#[derive(Clone, Copy, Debug, Default)]
pub struct Measured {
    pub ios: u64,
    pub latency_ns: u64,
    pub bytes: u64,
}

impl Measured {
    pub fn latency_us(&self) -> f64 {
        self.latency_ns as f64 / 1e3 / self.ios.max(1) as f64
    }

    pub fn megabytes_per_second(&self) -> f64 {
        self.bytes as f64 / 1e6 / (WINDOW as f64 / 1e9)
    }
}

/// Runs a scenario; the figures in list order.
pub fn run(config: &Config, scenario: &Scenario) -> Vec<Measured> {
    let mut host = Host::new(config, scenario);
    while host.tasks.iter().any(|t| !t.stopped) {
        host.look_at_alarm();
        match host.next_task() {
            Some(task) => host.run_task(task),
            None => host.time = host.alarm.expect("the tick is always to come"),
        }
    }
    host.tasks.iter().map(|t| t.measured).collect()
}

/// The drive: 16 places, a shared link of 200 MB/s, 2 ms at least.
#[derive(Debug, Default)]
struct Drive {
    link_free: u64,
    inside: BTreeMap<(u64, u64), ReqId>,
    waiting: VecDeque<(ReqId, u64)>,
    entered: u64,
}

impl Drive {
    fn accept(&mut self, now: u64, req: ReqId, bytes: u64) {
        if self.inside.len() == PLACES {
            self.waiting.push_back((req, bytes));
        } else {
            self.enter(now, req, bytes);
        }
    }

    fn enter(&mut self, now: u64, req: ReqId, bytes: u64) {
        self.link_free = self.link_free.max(now) + bytes * BYTE;
        self.entered += 1;
        self.inside.insert(((now + SERVICE).max(self.link_free), self.entered), req);
    }

    fn next(&self) -> Option<u64> {
        self.inside.first_key_value().map(|(&(at, _), _)| at)
    }

    fn finish(&mut self) -> ReqId {
        let ((at, _), req) = self.inside.pop_first().expect("asked for only when one is done");
        if let Some((next, bytes)) = self.waiting.pop_front() {
            self.enter(at, next, bytes);
        }
        req
    }
}

/// One process.
#[derive(Debug)]
struct Task {
    job: Job,
    proc: ProcId,
    group: GroupId,
    /// Submissions to make before the first wait.
    fill: usize,
    step: Step,
    /// Submission calls of operations that are complete and not yet seen.
    complete: VecDeque<u64>,
    /// Those seen by the latest wait.
    batch: VecDeque<u64>,
    wait_began: u64,
    /// A controller keeps it on its way back from the submission until then.
    kept_until: Option<u64>,
    stopped: bool,
    measured: Measured,
}

/// What a process does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Start,
    Submit,
    /// In the submission call.
    Submitting,
    /// Asleep in the submission call until a tag is free.
    Parked,
    /// After a submission, or a wait that found something.
    Next,
    /// Asleep until something is complete.
    Waiting,
}

/// An operation under way.
#[derive(Clone, Copy, Debug)]
struct Flying {
    task: usize,
    called: u64,
}

struct Host {
    /// True time in ns; the clock shows it rounded down to a step.
    time: u64,
    stack: Stack,
    stack_wake: Option<u64>,
    drive: Drive,
    tasks: Vec<Task>,
    /// In order of waking.
    ready: Vec<usize>,
    /// By expiry, then order of being set.
    sleepers: BTreeMap<(u64, u64), usize>,
    slept: u64,
    alarm: Option<u64>,
    alarm_for: Option<u64>,
    flying: BTreeMap<u64, Flying>,
    submitted: u64,
    /// The submission under way has not yet looked at the clock for its start time.
    starting: bool,
    /// A controller is installed; tags do not run out then.
    controlled: bool,
    /// The kernel's tick does nothing here, but its alarm shifts the others by fractions of a step.
    next_tick: u64,
    begin: u64,
}

impl Host {
    fn new(config: &Config, scenario: &Scenario) -> Host {
        let entry = sched::find(config.scheduler).unwrap();
        let mut stack = Stack::new(device(config, entry), entry, 256);
        let groups: BTreeMap<&str, GroupId> = GROUPS
            .iter()
            .map(|&(name, _)| (name, stack.add_group(Instant::ZERO, GroupId::ROOT, name)))
            .collect();
        let mut settings: Vec<Input> = Vec::new();
        for &(name, value) in config.tunables {
            settings.push(Input::Set { stage: StageName::Scheduler, name: name.into(), value });
        }
        if config.scheduler == "bfq" {
            settings.extend(GROUPS.iter().map(|&(name, weight)| Input::SetGroup {
                group: groups[name],
                stage: StageName::Scheduler,
                name: "weight".into(),
                value: Some(weight),
            }));
        }
        for setting in settings {
            set_up(&mut stack, 0, setting);
        }
        let stack_wake = config.control.and_then(|c| install(&mut stack, &c, &groups));
        let mut host = Host {
            time: PHASE,
            stack,
            stack_wake,
            drive: Drive::default(),
            tasks: Vec::new(),
            ready: Vec::new(),
            sleepers: BTreeMap::new(),
            slept: 0,
            alarm: None,
            alarm_for: None,
            flying: BTreeMap::new(),
            submitted: 0,
            starting: false,
            controlled: config.control.is_some(),
            next_tick: TICK,
            begin: config.t0 + scenario.measure_ms * 1_000_000,
        };
        for job in &scenario.jobs {
            let group = job.group.map_or(GroupId::ROOT, |name| groups[name]);
            let proc = host.stack.add_proc(group, job.prio);
            host.sleep_until(config.t0 + job.start_ms * 1_000_000, host.tasks.len());
            host.tasks.push(Task {
                job: job.clone(),
                proc,
                group,
                fill: if job.depth == 1 { 0 } else { job.depth },
                step: Step::Start,
                complete: VecDeque::new(),
                batch: VecDeque::new(),
                wait_began: 0,
                kept_until: None,
                stopped: false,
                measured: Measured::default(),
            });
        }
        host
    }

    fn clock(&self) -> u64 {
        self.time / STEP * STEP
    }

    /// A task looks at the clock.
    fn read(&mut self) -> u64 {
        self.time += STEP;
        let now = self.clock();
        self.look_at_alarm();
        now
    }

    fn look_at_alarm(&mut self) {
        if self.alarm.is_some_and(|at| at <= self.time) {
            self.interrupt();
        }
    }

    fn earliest(&self) -> Option<u64> {
        let sleeper = self.sleepers.first_key_value().map(|(&(at, _), _)| at);
        let others = [sleeper, self.drive.next(), self.stack_wake].into_iter().flatten();
        others.chain([self.next_tick]).min()
    }

    /// Sets the alarm for the earliest timer, if that is another one than before.
    fn program(&mut self) {
        let earliest = self.earliest();
        if earliest != self.alarm_for {
            self.alarm_for = earliest;
            self.alarm =
                earliest.map(|at| self.time + at.saturating_sub(self.clock()).max(ALARM_MIN) + 1);
        }
    }

    /// The alarm has come: whatever is due by the clock happens in order of expiry.
    fn interrupt(&mut self) {
        self.alarm = None;
        while let Some(at) = self.earliest().filter(|&at| at <= self.clock()) {
            if self.drive.next() == Some(at) {
                let req = self.drive.finish();
                self.tell(Input::Done { req, error: None });
            } else if self.stack_wake == Some(at) {
                self.tell(Input::Tick);
            } else if self.next_tick == at {
                self.next_tick += TICK;
            } else {
                let (_, task) = self.sleepers.pop_first().unwrap();
                self.ready.push(task);
            }
        }
        self.alarm_for = None;
        self.program();
    }

    fn sleep_until(&mut self, at: u64, task: usize) {
        self.slept += 1;
        self.sleepers.insert((at, self.slept), task);
        self.program();
    }

    /// Who runs next: see [`LATE_TASKS`].
    fn next_task(&mut self) -> Option<usize> {
        let usual = self.ready.iter().position(|&t| t >= LATE_TASKS);
        let at = match usual {
            Some(at) => at,
            None => (0..self.ready.len()).max_by_key(|&at| self.ready[at])?,
        };
        Some(self.ready.remove(at))
    }

    /// Hands an input to the stack and carries out what it says.
    fn tell(&mut self, input: Input) {
        let now = Instant::from_nanos(self.clock());
        self.stack.handle(now, input).unwrap();
        // The stack lets go what a controller held once the I/O that made room is finished; in the kernel
        // the controller hears of the end first and wakes its waiter before the submitter of that I/O.
        let mut first = self.ready.len();
        loop {
            match self.stack.poll(now) {
                Output::Issue { req, .. } => {
                    let bytes = Bytes::from(self.stack.request(req).sectors).0;
                    self.time += if std::mem::take(&mut self.starting) { 2 * STEP } else { STEP };
                    self.drive.accept(self.clock(), req, bytes);
                }
                Output::Accepted { io } => {
                    let at = self.flying[&io.0].task;
                    if self.tasks[at].step == Step::Parked && self.controlled {
                        self.ready.insert(first, at);
                        first += 1;
                    } else if self.tasks[at].step == Step::Parked {
                        self.ready.push(at);
                    }
                    self.tasks[at].step = Step::Next;
                }
                Output::Finished { io, result } => {
                    result.unwrap();
                    let done = self.flying.remove(&io.0).unwrap();
                    let task = &mut self.tasks[done.task];
                    task.complete.push_back(done.called);
                    if task.step == Step::Waiting {
                        task.step = Step::Next;
                        self.ready.push(done.task);
                    }
                }
                Output::Delay { proc, until } => {
                    let task = self.tasks.iter_mut().find(|t| t.proc == proc).unwrap();
                    task.kept_until = Some(until.as_nanos());
                }
                Output::WaitUntil(at) => {
                    self.stack_wake = at.map(Instant::as_nanos);
                    break;
                }
            }
        }
        self.program();
    }

    /// A task runs until it sleeps.
    fn run_task(&mut self, at: usize) {
        loop {
            match self.tasks[at].step {
                Step::Start => {
                    self.tasks[at].step = Step::Submit;
                    self.read();
                    if self.tasks[at].job.depth == 1 {
                        return self.pause(at);
                    }
                    self.tasks[at].fill -= 1;
                }
                Step::Submit => {
                    self.submit(at);
                    if self.tasks[at].step == Step::Submitting {
                        self.tasks[at].step = Step::Parked;
                        return;
                    }
                }
                Step::Next if self.tasks[at].kept_until.is_some() => {
                    let until = self.tasks[at].kept_until.take().expect("just seen");
                    return self.sleep_until(until, at);
                }
                Step::Next if self.tasks[at].fill > 0 => {
                    self.tasks[at].fill -= 1;
                    self.tasks[at].step = Step::Submit;
                }
                Step::Next => {
                    if let Some(called) = self.tasks[at].batch.pop_front() {
                        return self.record(at, called);
                    }
                    let task = &mut self.tasks[at];
                    if task.complete.is_empty() {
                        task.step = Step::Waiting;
                        return;
                    }
                    // Never more than the depth are under way.
                    task.batch.append(&mut task.complete);
                }
                Step::Submitting | Step::Parked | Step::Waiting => {
                    unreachable!("a sleeping task does not run")
                }
            }
        }
    }

    fn pause(&mut self, at: usize) {
        let now = self.read();
        self.sleep_until(now + PAUSE, at);
    }

    /// A completion was seen: take its latency, look whether the window is over, pause.
    fn record(&mut self, at: usize, called: u64) {
        let seen = self.read();
        let task = &mut self.tasks[at];
        let end = self.begin + WINDOW;
        if seen >= self.begin && task.wait_began < end {
            task.measured.ios += 1;
            task.measured.latency_ns += seen - called;
            task.measured.bytes += task.job.block_bytes;
        }
        let now = self.read();
        let task = &mut self.tasks[at];
        if task.batch.is_empty() {
            task.wait_began = now;
        }
        if now >= end && task.batch.is_empty() {
            task.stopped = true;
            return;
        }
        task.step = Step::Submit;
        self.pause(at);
    }

    /// One submission call. It looks at the clock when called, before the merge attempt, and once more
    /// for a new request; the worker then once per command it hands over.
    fn submit(&mut self, at: usize) {
        let called = self.read();
        let task = &mut self.tasks[at];
        let start = Bytes(task.job.next_offset()).sectors();
        let sectors = Bytes(task.job.block_bytes).sectors();
        self.submitted += 1;
        let io = Io {
            op: task.job.op,
            flags: task.job.flags(),
            group: task.group,
            prio: task.job.prio,
            ..Io::read(self.submitted, task.proc, start.0, sectors.0)
        };
        task.step = Step::Submitting;
        self.flying.insert(self.submitted, Flying { task: at, called });
        let merged = self.stack.counters().merged;
        self.read();
        self.starting = true;
        self.tell(Input::Submit(io));
        let starting = std::mem::take(&mut self.starting);
        if starting && self.stack.counters().merged == merged {
            self.read();
        }
    }
}

/// Installs the controller and writes its files; when it wants to be called.
fn install(stack: &mut Stack, control: &Control, groups: &BTreeMap<&str, GroupId>) -> Option<u64> {
    stack.install(ctl::find(control.name).expect("a registered controller"));
    for &(name, value) in control.tunables {
        let stage = StageName::Controller(control.name.into());
        set_up(stack, 0, Input::Set { stage, name: name.into(), value });
    }
    let mut wake = None;
    for &(group, file, body) in control.files {
        let group = if group == "/" { GroupId::ROOT } else { groups[group] };
        let line = format!("{} {body}", stack.env().device.number);
        wake = set_up(stack, control.written_at, Input::Write { group, file: file.into(), line });
    }
    wake
}

/// An input before the processes start.
fn set_up(stack: &mut Stack, at: u64, input: Input) -> Option<u64> {
    let at = Instant::from_nanos(at);
    stack.handle(at, input).unwrap();
    loop {
        if let Output::WaitUntil(wake) = stack.poll(at) {
            return wake.map(Instant::as_nanos);
        }
    }
}

fn device(config: &Config, entry: &'static Entry) -> Device {
    let tags = config.tags;
    let with_scheduler = !entry.direct;
    Device {
        nr_requests: if with_scheduler { 2 * tags } else { tags },
        tag_hint: config.tag_hint,
        overask: true,
        tick: Nanos(TICK),
        max_sectors: Sectors(1024),
        none_plug_lifo: true,
        ..Device::new(Bytes(DEVICE_BYTES).sectors(), tags)
    }
}
