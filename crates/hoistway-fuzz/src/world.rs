//! Runs a case: the stack, a device that does as it is told, and what is demanded after every event.

use crate::bounds::{self, Bound, Load};
use crate::ledger::{Broken, Ledger, demand};
use crate::op::{Case, Op, Step, Submission};
use hoistway::group::CpuPolicy;
use hoistway::sched;
use hoistway::stack::{StackError, StageName};
use hoistway::stage::Change;
use hoistway::trace::Trace;
use hoistway::{
    Device, GroupId, Input, Instant, Io, IoPrio, Nanos, Output, ProcId, Profile, ReqId, Sectors,
    Stack,
};

/// Ticks a pause may take; what is left of it is slept through.
const TICKS_OF_A_PAUSE: u32 = 96;
/// Groups and processes that may exist.
const MOST: usize = 48;
/// Events a drain may take at the settings in force: the longest idle waits and the lowest limits take more
/// with the reruns and periods that fall into them. Then all settings go back to where they do not.
const EVENTS_OF_A_DRAIN: u64 = 60_000;

/// What a run was like.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Inputs given to the stack.
    pub events: u64,
    /// Digest of the trace.
    pub digest: u64,
    /// I/Os submitted.
    pub ios: u64,
    /// Longest time from submission to the end of an I/O.
    pub oldest: Nanos,
    /// Longest time for which the device stood still although I/O waited.
    pub stand_still: Nanos,
    /// From the end of the load to the end of the last I/O.
    pub drain: Nanos,
    /// Limits had to be lifted for the drain.
    pub lifted: bool,
}

#[derive(Clone, Copy, Debug)]
struct Proc {
    alive: bool,
    /// The I/O it stands still for.
    blocked: Option<u64>,
    /// A controller delays it.
    until: Instant,
    plug: bool,
    /// The first I/O that is younger than the plug section.
    opened: u64,
    /// I/Os submitted in the open plug section that are not finished.
    plugged: u32,
}

const FRESH: Proc =
    Proc { alive: true, blocked: None, until: Instant::ZERO, plug: false, opened: 0, plugged: 0 };

/// A run under way.
#[derive(Debug)]
pub struct World {
    stack: Stack,
    now: Instant,
    wake: Option<Instant>,
    /// Commands with the device, oldest first.
    device: Vec<ReqId>,
    ledger: Ledger,
    load: Load,
    procs: Vec<Proc>,
    outcome: Outcome,
    /// Since when the device stands still although I/O waits and nobody collects it in a plug.
    still: Option<Instant>,
    /// The bound on that, and under which scheduler; `None`: a setting has changed.
    bound: Option<(&'static str, Nanos)>,
    longest: Nanos,
    max_sectors: u64,
    service: Nanos,
    order: u64,
    /// The step being run.
    pub at: usize,
}

impl World {
    /// The stack of a case, before its first step.
    pub fn new(case: &Case, trace: Trace) -> World {
        let entry = sched::find(&case.scheduler).expect("a case names a scheduler");
        let device = device_of(case);
        let max_sectors = device.max_sectors.0;
        let mut stack = Stack::new(device, entry, case.get("room") as usize);
        *stack.trace_mut() = trace;
        for name in &case.controllers {
            stack.install(hoistway::ctl::find(name).expect("a case names controllers"));
        }
        let procs = case.get("procs") as usize;
        for _ in 0..procs {
            stack.add_proc(GroupId::ROOT, IoPrio::NONE);
        }
        World {
            stack,
            now: Instant::ZERO,
            wake: None,
            device: Vec::new(),
            // What gate 1 holds is accepted before it takes its place among the others.
            ledger: Ledger::new(case.controllers.is_empty()),
            load: Load::default(),
            procs: vec![FRESH; procs],
            outcome: Outcome::default(),
            still: None,
            bound: None,
            longest: match case.get("still_ms") {
                0 => Nanos(u64::MAX),
                ms => Nanos::ms(ms),
            },
            max_sectors,
            service: Nanos(case.get("service_us") * 1000),
            order: case.get("order"),
            at: 0,
        }
    }

    /// Runs all steps, then lets everything drain.
    ///
    /// # Errors
    ///
    /// The first rule that was broken.
    pub fn run(&mut self, steps: &[Step]) -> Result<Outcome, Broken> {
        for (at, step) in steps.iter().enumerate() {
            self.at = at;
            self.step(step)?;
        }
        self.at = steps.len();
        self.drain()?;
        self.outcome.digest = self.stack.env().trace.digest();
        self.outcome.ios = self.ledger.len() as u64;
        Ok(self.outcome.clone())
    }

    /// What the stack did, if its trace is kept.
    pub fn take_records(&mut self) -> Vec<hoistway::trace::Record> {
        self.stack.trace_mut().take()
    }

    /// Events so far.
    pub fn events(&self) -> u64 {
        self.outcome.events
    }

    /// What is unfinished and what is waited for, for the report of a failure.
    pub fn describe(&self) -> String {
        let mut text = format!(
            "at {} ns: {} with the device, {} I/Os unfinished, wake {:?}, scheduler {}{}",
            self.now.as_nanos(),
            self.device.len(),
            self.ledger.open(),
            self.wake.map(Instant::as_nanos),
            self.stack.scheduler_entry().name,
            if self.stack.is_changing() { ", a change is pending" } else { "" },
        );
        if let Some((io, since)) = self.ledger.oldest() {
            text.push_str(&format!("\noldest: {io:?} since {} ns", since.as_nanos()));
        }
        text
    }

    fn step(&mut self, step: &Step) -> Result<(), Broken> {
        if step.op == Op::Late {
            self.sleep_through(step.at);
            return self.tick();
        }
        self.pause_until(step.at)?;
        match &step.op {
            Op::Submit(io) => self.submit(io),
            Op::Plug(n) => self.plug(*n),
            Op::Unplug(n) => self.unplug(*n as usize % self.procs.len()),
            Op::Sleep(n) => self.give(Input::Sleep(self.proc(*n))).map(drop),
            Op::Done { nth, error } => self.answer(*nth, false, *error),
            Op::Requeue(nth) => self.answer(*nth, true, None),
            Op::Tick | Op::Late => self.tick(),
            Op::Set { .. } | Op::SetGroup { .. } | Op::Write { .. } | Op::Switch(_) => {
                self.setting(&step.op)
            }
            Op::AddGroup(_) | Op::RemoveGroup(_) | Op::Move { .. } => self.groups(&step.op),
            _ => self.processes(&step.op),
        }
    }

    fn proc(&self, n: u32) -> ProcId {
        ProcId(n % self.procs.len() as u32)
    }

    fn group(&self, n: u32) -> GroupId {
        GroupId(n % self.stack.env().groups.len() as u32)
    }

    /// Time passes to `at`; what falls due on the way is served in time.
    fn pause_until(&mut self, at: Instant) -> Result<(), Broken> {
        let mut ticks = 0;
        while let Some(due) = self.wake.filter(|&due| due < at) {
            ticks += 1;
            if ticks > TICKS_OF_A_PAUSE {
                self.sleep_through(at);
                return self.tick();
            }
            self.now = due;
            self.tick()?;
        }
        self.now = self.now.max(at);
        Ok(())
    }

    /// Time passes, and nobody serves what falls due: no fault of the stack's.
    fn sleep_through(&mut self, at: Instant) {
        self.now = self.now.max(at);
        self.still = self.still.map(|_| self.now);
    }

    /// One event. `Ok(Err(_))`: the stack refuses the input.
    fn give(&mut self, input: Input) -> Result<Result<(), StackError>, Broken> {
        let result = self.stack.handle(self.now, input);
        self.take_outputs()?;
        Ok(result)
    }

    fn tick(&mut self) -> Result<(), Broken> {
        let result = self.give(Input::Tick)?;
        demand(result.is_ok(), "a tick is never refused", || format!("{result:?}"))
    }

    fn change(
        &mut self,
        change: Change,
        edit: impl FnOnce(&mut hoistway::Env),
    ) -> Result<(), Broken> {
        self.stack.change(self.now, change, edit);
        self.take_outputs()
    }

    fn take_outputs(&mut self) -> Result<(), Broken> {
        loop {
            match self.stack.poll(self.now) {
                Output::Issue { req, .. } => self.issued(req)?,
                Output::Accepted { io } => {
                    self.ledger.accepted(io)?;
                    let waits = self.procs.iter_mut().find(|p| p.blocked == Some(io.0));
                    waits.into_iter().for_each(|p| p.blocked = None);
                }
                Output::Finished { io, result } => {
                    self.ledger.finished(io, result, &self.stack.env().device)?;
                    // An I/O may end without a command: an empty barrier of a device without a cache.
                    self.still = None;
                    let age = Nanos(self.ledger.age(io, self.now));
                    self.outcome.oldest = self.outcome.oldest.max(age);
                    let proc = self.ledger.io(io).map(|io| io.proc.index());
                    if let Some(p) = proc.and_then(|at| self.procs.get_mut(at)) {
                        p.plugged -= u32::from(p.plug && io.0 >= p.opened);
                    }
                }
                Output::Delay { proc, until } => {
                    if let Some(proc) = self.procs.get_mut(proc.index()) {
                        proc.until = proc.until.max(until);
                    }
                }
                Output::WaitUntil(at) => {
                    self.wake = at;
                    break;
                }
            }
        }
        self.outcome.events += 1;
        self.check()
    }

    fn issued(&mut self, req: ReqId) -> Result<(), Broken> {
        let r = *self.stack.request(req);
        let device = &self.stack.env().device;
        demand(!self.device.contains(&req), "nothing is issued twice", || format!("{req:?}"))?;
        let room = self.device.len() < device.queue_depth as usize;
        demand(room, "no more commands than driver tags", || format!("{}", self.device.len()))?;
        let alone =
            |r: &hoistway::Request| matches!(r.op, hoistway::Op::Flush | hoistway::Op::Discard);
        if device.flush_nonqueued {
            let other = self.device.iter().any(|&id| alone(self.stack.request(id)));
            demand(!other, "nothing runs beside a command that runs alone", || format!("{req:?}"))?;
        }
        if matches!(r.op, hoistway::Op::Read | hoistway::Op::Write) {
            demand(r.sectors.0 <= self.max_sectors, "requests keep to max_sectors", || {
                format!("{} of {}", r.sectors.0, self.max_sectors)
            })?;
        }
        self.ledger.issued(&self.stack, &r)?;
        self.device.push(req);
        self.still = None;
        Ok(())
    }

    /// What holds after every event.
    fn check(&mut self) -> Result<(), Broken> {
        demand(self.wake.is_none_or(|at| at > self.now), "a deadline lies in the future", || {
            format!("{:?}", self.wake)
        })?;
        let counters = self.stack.counters();
        let books = self.stack.in_flight() as usize == self.device.len()
            && counters.submitted as usize == self.ledger.len()
            && counters.finished as usize == self.ledger.len() - self.ledger.open();
        demand(books, "the stack counts as the book does", || format!("{counters:?}"))?;
        let waits = self.ledger.open() > 0 && self.device.is_empty();
        // A task that waits has emptied its plug.
        let collects = |p: &Proc| p.plug && p.plugged > 0 && p.blocked.is_none();
        if !waits || self.procs.iter().any(collects) {
            self.still = None;
            return Ok(());
        }
        if self.wake.is_none() {
            return self.stranded("what waits has something to wait for", String::new());
        }
        let since = *self.still.get_or_insert(self.now);
        self.check_stand_still(self.now.since(since))
    }

    fn check_stand_still(&mut self, time: Nanos) -> Result<(), Broken> {
        self.outcome.stand_still = self.outcome.stand_still.max(time);
        if time > self.longest {
            return self.stranded("the device stands still no longer than still_ms", String::new());
        }
        // Whatever the settings: shorter than the block layer's own delays.
        if time < Nanos::ms(3) {
            return Ok(());
        }
        // A switch takes effect some time after it was asked for.
        let scheduler = self.stack.scheduler_entry().name;
        let bound = match self.bound.filter(|known| known.0 == scheduler) {
            Some((_, bound)) => bound,
            None => {
                self.load.note(&mut self.stack);
                sum(&bounds::stand_still(&mut self.stack, &self.load))
            }
        };
        self.bound = Some((scheduler, bound));
        if time <= bound {
            return Ok(());
        }
        let list = bounds::stand_still(&mut self.stack, &self.load);
        let list: Vec<String> =
            list.iter().map(|b| format!("{}: {} ns, {}\n", b.who, b.time.0, b.why)).collect();
        let what = format!("{} ns; bounds:\n{}", time.0, list.concat());
        self.stranded("the device stands still no longer than the policies say", what)
    }

    /// A rule of liveness is broken under the scheduler in force.
    fn stranded(&self, rule: &str, what: String) -> Result<(), Broken> {
        let scheduler = self.stack.scheduler_entry().name;
        Err(Broken { rule: format!("{rule} ({scheduler})"), what: what + &self.describe() })
    }

    /// Somebody changed something: waits may begin anew.
    fn settings_changed(&mut self) {
        self.load.note(&mut self.stack);
        self.bound = None;
        self.still = self.still.map(|_| self.now);
    }

    fn submit(&mut self, s: &Submission) -> Result<(), Broken> {
        let procs = &self.stack.env().procs;
        let (proc, own, prio) = match s.proc {
            None => (ProcId::NONE, GroupId::ROOT, IoPrio::be(4)),
            Some(n) => {
                let id = self.proc(n);
                let p = self.procs[id.index()];
                if !p.alive || p.blocked.is_some() || p.until > self.now {
                    return Ok(());
                }
                (id, procs.group(id), procs.prio(id))
            }
        };
        let io = Io {
            id: self.ledger.next(),
            proc,
            group: s.group.map_or(own, |n| self.group(n)),
            cpu: s.cpu,
            op: s.op,
            start: Sectors(s.start),
            sectors: Sectors(s.sectors),
            segments: s.segments,
            flags: s.flags,
            // No I/O is without a class: its task's is derived.
            prio: s.prio.filter(|p| p.class() != hoistway::Class::None).unwrap_or(prio),
        };
        if let Err(error) = self.stack.handle(self.now, Input::Submit(io)) {
            demand(matches!(error, StackError::BadIo(_)), "a good I/O is taken", || {
                format!("{io:?}: {error}")
            })?;
            return self.take_outputs();
        }
        self.ledger.submitted(io, self.now);
        self.load.ios += 1;
        self.load.sectors += io.sectors;
        if io.flags.issue_as_root() {
            self.load.on_credit.0 += 1;
            self.load.on_credit.1 += io.sectors;
        }
        self.load.largest = self.load.largest.max(io.sectors);
        // What is granted in advance is bounded by what was asked for.
        self.bound = None;
        if let Some(p) = self.procs.get_mut(proc.index()) {
            p.blocked = Some(io.id.0);
            p.plugged += u32::from(p.plug);
        }
        self.take_outputs()
    }

    fn plug(&mut self, n: u32) -> Result<(), Broken> {
        let (proc, next) = (self.proc(n), self.ledger.next().0);
        let p = &mut self.procs[proc.index()];
        if !p.alive || p.blocked.is_some() {
            return Ok(());
        }
        if !p.plug {
            (p.plug, p.opened, p.plugged) = (true, next, 0);
        }
        self.give(Input::Plug(proc)).map(drop)
    }

    fn unplug(&mut self, at: usize) -> Result<(), Broken> {
        if self.procs[at].blocked.is_some() {
            return Ok(());
        }
        (self.procs[at].plug, self.procs[at].plugged) = (false, 0);
        self.give(Input::Unplug(ProcId(at as u32))).map(drop)
    }

    fn answer(
        &mut self,
        nth: u32,
        back: bool,
        error: Option<hoistway::stack::IoError>,
    ) -> Result<(), Broken> {
        if self.device.is_empty() {
            return Ok(());
        }
        let req = self.device.remove(nth as usize % self.device.len());
        let r = *self.stack.request(req);
        if r.op == hoistway::Op::Flush && error.is_some() {
            self.ledger.flush_failed();
        }
        self.ledger.answered(&self.stack, &r, back, error);
        let input = if back { Input::Requeue(req) } else { Input::Done { req, error } };
        let result = self.give(input)?;
        demand(result.is_ok(), "a command with the device may be answered", || {
            format!("{result:?}")
        })
    }

    fn setting(&mut self, op: &Op) -> Result<(), Broken> {
        self.settings_changed();
        let input = match op.clone() {
            Op::Set { stage, name, value } => {
                if stage == StageName::Queue && name == "max_sectors_kb" {
                    self.max_sectors = self.max_sectors.max(2 * value);
                }
                Input::Set { stage, name, value }
            }
            Op::SetGroup { group, stage, name, value } => {
                Input::SetGroup { group: self.group(group), stage, name, value }
            }
            Op::Write { group, file, line } => {
                Input::Write { group: self.group(group), file, line }
            }
            Op::Switch(name) => match sched::find(&name) {
                Some(entry) => Input::SwitchScheduler(entry),
                None => return Ok(()),
            },
            _ => unreachable!("the caller chose the settings"),
        };
        // May be refused: out of range, not in this profile, of another scheduler.
        self.give(input).map(drop)
    }

    fn groups(&mut self, op: &Op) -> Result<(), Broken> {
        let groups = &self.stack.env().groups;
        match *op {
            Op::AddGroup(n) => {
                let parent = self.group(n);
                if groups.alive(parent) && groups.len() < MOST {
                    let name = format!("g{}", groups.len());
                    self.stack.add_group(self.now, parent, &name);
                    self.settings_changed();
                    return self.take_outputs();
                }
            }
            Op::RemoveGroup(n) => {
                let group = self.group(n);
                // As rmdir: no children, no processes; I/O of it may be under way.
                if let Some(parent) = groups.parent(group)
                    && groups.alive(group)
                    && groups.children(group).is_empty()
                {
                    for at in 0..self.procs.len() {
                        if self.stack.env().procs.group(ProcId(at as u32)) == group {
                            self.move_proc(ProcId(at as u32), parent)?;
                        }
                    }
                    self.load.note_removal(&mut self.stack, group);
                    self.stack.remove_group(self.now, group);
                    self.settings_changed();
                    return self.take_outputs();
                }
            }
            Op::Move { proc, group } => {
                let group = self.group(group);
                if self.stack.env().groups.alive(group) {
                    return self.move_proc(self.proc(proc), group);
                }
            }
            _ => unreachable!("the caller chose the operations on groups"),
        }
        Ok(())
    }

    fn move_proc(&mut self, proc: ProcId, to: GroupId) -> Result<(), Broken> {
        let from = self.stack.env().procs.group(proc);
        self.change(Change::ProcMoved { proc, from, to }, |env| {
            env.procs.get_mut(proc).expect("it exists").group = to;
        })
    }

    fn processes(&mut self, op: &Op) -> Result<(), Broken> {
        match *op {
            Op::AddProc { group, prio } => {
                let group = self.group(group);
                if self.procs.len() < MOST && self.stack.env().groups.alive(group) {
                    self.stack.add_proc(group, prio);
                    self.procs.push(FRESH);
                }
                Ok(())
            }
            Op::Exit(n) => {
                let proc = self.proc(n);
                let p = self.procs[proc.index()];
                if !p.alive || p.blocked.is_some() {
                    return Ok(());
                }
                // A task that ends closes its plug section.
                self.unplug(proc.index())?;
                self.procs[proc.index()].alive = false;
                self.change(Change::ProcExited(proc), |env| {
                    env.procs.get_mut(proc).expect("it exists").alive = false;
                })
            }
            Op::Prio { proc, prio } => {
                let proc = self.proc(proc);
                self.change(Change::ProcPriority(proc), |env| {
                    env.procs.get_mut(proc).expect("it exists").prio = prio;
                })
            }
            Op::Nice { proc, policy, nice } => {
                let proc = self.proc(proc);
                let policies = [CpuPolicy::Normal, CpuPolicy::RealTime, CpuPolicy::Idle];
                self.change(Change::ProcPriority(proc), |env| {
                    let p = env.procs.get_mut(proc).expect("it exists");
                    (p.policy, p.nice) = (policies[policy as usize % 3], nice.clamp(-20, 19));
                })
            }
            Op::Rotational(on) => {
                self.settings_changed();
                self.change(Change::Device, |env| env.device.rotational = on)
            }
            Op::DirtySlept(n) => {
                let proc = self.proc(n);
                self.change(Change::DirtySlept(proc), |_| {})
            }
            _ => unreachable!("the caller chose the operations on processes"),
        }
    }

    /// The load has stopped: plugs are closed, the device serves, and everything comes out.
    fn drain(&mut self) -> Result<(), Broken> {
        let (begin, events) = (self.now, self.outcome.events);
        // A plug section that is open while its task waits closes when it goes on.
        let mut open: Vec<usize> =
            (0..self.procs.len()).filter(|&at| self.procs[at].plug).collect();
        loop {
            for at in std::mem::take(&mut open) {
                self.unplug(at)?;
                if self.procs[at].plug {
                    open.push(at);
                }
            }
            if self.ledger.open() == 0 {
                break;
            }
            if self.outcome.events - events > EVENTS_OF_A_DRAIN {
                let again = std::mem::replace(&mut self.outcome.lifted, true);
                demand(
                    !again || self.outcome.events - events < 4 * EVENTS_OF_A_DRAIN,
                    "everything drains once the limits are lifted",
                    || self.describe(),
                )?;
                if !again {
                    self.lift()?;
                }
            }
            if self.device.is_empty() {
                let Some(due) = self.wake else {
                    return demand(false, "what waits has something to wait for", || {
                        self.describe()
                    });
                };
                self.now = due;
                self.tick()?;
            } else {
                self.order = crate::source::mix(self.order);
                self.pause_until(self.now + self.service)?;
                self.answer(self.order as u32, false, None)?;
            }
        }
        self.outcome.drain = self.now.since(begin);
        let rest = self.stack.env().requests.len();
        demand(rest == 0 && self.device.is_empty(), "nothing is left behind", || {
            format!("{rest} requests\n{}", self.describe())
        })?;
        demand(!self.stack.is_changing(), "a change waits for requests only", || self.describe())
    }

    /// Takes the limits of the controllers away, and puts every tunable back.
    fn lift(&mut self) -> Result<(), Broken> {
        self.settings_changed();
        for t in self.stack.scheduler_entry().tunables {
            self.set(StageName::Scheduler, t.name, t.default)?;
        }
        let groups: Vec<GroupId> = self.stack.env().groups.living().collect();
        let entries: Vec<_> = self.stack.controllers().map(|c| c.0).collect();
        for entry in entries {
            for t in entry.tunables {
                self.set(StageName::Controller(entry.name.into()), t.name, t.default)?;
            }
            if entry.name == "io.cost" {
                self.write(GroupId::ROOT, "io.cost.qos", "8:0 enable=0")?;
            }
            let files: &[_] = match entry.name {
                "io.max" => &[("io.max", "")],
                "io.low" => &[("io.max", ""), ("io.low", " idle=max latency=max")],
                _ => &[],
            };
            for (file, more) in files {
                for &group in &groups {
                    let line = format!("8:0 rbps=max wbps=max riops=max wiops=max{more}");
                    self.write(group, file, &line)?;
                }
            }
        }
        if self.load.left != (0, 0) {
            // Removed groups keep their limits, of some bytes a second maybe, and nobody can write to them.
            let result = self.give(Input::End)?;
            demand(result.is_ok(), "an end is taken", || format!("{result:?}"))?;
        }
        Ok(())
    }

    fn set(&mut self, stage: StageName, name: &str, value: u64) -> Result<(), Broken> {
        let result = self.give(Input::Set { stage, name: name.into(), value })?;
        demand(result.is_ok(), "a default is taken", || format!("{name}: {result:?}"))
    }

    fn write(&mut self, group: GroupId, file: &str, line: &str) -> Result<(), Broken> {
        let input = Input::Write { group, file: file.into(), line: line.into() };
        let result = self.give(input)?;
        demand(result.is_ok(), "a good line is taken", || format!("{file}: {line}: {result:?}"))
    }
}

fn sum(bounds: &[Bound]) -> Nanos {
    Nanos(bounds.iter().fold(0, |sum: u64, b| sum.saturating_add(b.time.0)))
}

fn device_of(case: &Case) -> Device {
    let mut d = Device::new(Sectors(case.get("capacity").max(8)), case.get("depth").max(1) as u32);
    d.profile = if case.get("legacy") == 1 { Profile::Legacy } else { Profile::MultiQueue };
    d.hw_queues = if case.get("legacy") == 1 { 1 } else { case.get("queues").max(1) as u16 };
    d.nr_requests = case.get("nr_requests") as u32;
    d.max_sectors = Sectors(case.get("max_sectors").max(1));
    d.max_segments = case.get("max_segments").max(1) as u32;
    d.chunk_sectors = Sectors(case.get("chunk"));
    d.max_discard_sectors = Sectors(case.get("discard"));
    d.discard_granularity = Sectors(case.get("grain"));
    d.rotational = case.get("rotational") == 1;
    d.write_cache = case.get("write_cache") == 1;
    d.fua = case.get("fua") == 1;
    d.flush_nonqueued = case.get("alone") == 1;
    d.merging = [
        hoistway::device::Merging::All,
        hoistway::device::Merging::Simple,
        hoistway::device::Merging::Never,
    ][case.get("nomerges") as usize];
    d.overask = case.get("overask") == 1;
    d.none_plug_lifo = case.get("plug_lifo") == 1;
    if case.get("fifo_tags") == 1 {
        d.tag_wait = hoistway::device::TagWait::Fifo;
    }
    if case.get("plain_tags") == 1 {
        d.tags = hoistway::device::Tags::Plain;
    }
    d.tags_round_robin = case.get("round_robin") == 1;
    d.scsi = case.get("scsi") == 1;
    d.tick = Nanos(case.get("tick_us").max(1) * 1000);
    d.flush_kick_delay = Nanos(case.get("kick_us") * 1000);
    let actuators = case.get("actuators").max(1);
    if actuators > 1 {
        let part = d.capacity.0 / actuators;
        d.actuators = (0..actuators).map(|n| (Sectors(n * part), Sectors(part))).collect();
    }
    d
}
