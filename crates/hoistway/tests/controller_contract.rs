//! The contract of `Controller` for every registered controller, inside the stack: under random loads with
//! limits that bind, nothing is lost or reordered within a group and direction, every bio that passed is
//! told of once more, it comes to rest when the load stops, and looking at it changes nothing.

use hoistway::ctl::{CONTROLLERS, Controller, Entry, Verdict};
use hoistway::knob::KnobError;
use hoistway::sched;
use hoistway::setting::{TunableError, Unit};
use hoistway::stack::StageName;
use hoistway::stage::{Change, Figure, Gauge, Stage, StageInfo};
use hoistway::testkit::Rng;
use hoistway::trace::Trace;
use hoistway::unit::{Instant, Nanos};
use hoistway::{
    BioId, Cx, Device, Flags, GroupId, Input, Io, IoPrio, Op, Output, ProcId, Profile, ReqId,
    Sectors, Stack,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

/// Inside one lane the order is kept: group and direction. Flushes and discards cost some controllers
/// nothing and others more, so they are lanes of their own.
type Lane = (GroupId, u8);

/// Longer I/Os are split.
const PIECE: u64 = 64;

/// What is issued as root may overtake, and so may the rest of a split I/O (io.max): these loads mark them.
fn ordered(io: &Io) -> bool {
    !io.flags.issue_as_root() && !io.flags.any(Flags::IDLE)
}

fn lane(io: &Io) -> Lane {
    (io.group, io.op as u8)
}

/// What went in and out of a controller.
#[derive(Debug, Default)]
struct Book {
    arrived: BTreeMap<Lane, Vec<u64>>,
    left: BTreeMap<Lane, Vec<(Instant, u64)>>,
    inside: BTreeSet<u32>,
    held: u64,
    merged: u64,
    completed: u64,
    passed: u64,
}

/// The controller under test, watched.
#[derive(Debug)]
struct Watched {
    inner: Box<dyn Controller>,
    book: Arc<Mutex<Book>>,
}

impl Controller for Watched {
    fn submit(&mut self, now: Instant, bio: BioId, cx: &mut Cx<'_>) -> Verdict {
        let io = *cx.requests.bio(bio);
        let verdict = self.inner.submit(now, bio, cx);
        let mut book = self.book.lock().unwrap();
        let strict = ordered(&io);
        let lane = lane(&io);
        if strict {
            book.arrived.entry(lane).or_default().push(io.id.0);
        }
        if verdict == Verdict::Pass {
            book.passed += 1;
            if strict {
                book.left.entry(lane).or_default().push((now, io.id.0));
            }
        } else {
            book.held += 1;
            assert!(book.inside.insert(bio.0.slot), "held once");
        }
        verdict
    }

    fn release(&mut self, now: Instant, cx: &mut Cx<'_>) -> Option<BioId> {
        let bio = self.inner.release(now, cx)?;
        self.let_go(now, bio, cx);
        Some(bio)
    }

    fn drain(&mut self, now: Instant, cx: &mut Cx<'_>) -> Option<BioId> {
        let bio = self.inner.drain(now, cx)?;
        self.let_go(now, bio, cx);
        Some(bio)
    }

    fn merged(&mut self, now: Instant, bio: BioId, into: ReqId, cx: &mut Cx<'_>) {
        self.book.lock().unwrap().merged += 1;
        self.inner.merged(now, bio, into, cx);
    }

    fn issue(&mut self, now: Instant, id: ReqId, cx: &mut Cx<'_>) {
        self.inner.issue(now, id, cx);
    }

    fn complete(&mut self, now: Instant, id: ReqId, cx: &mut Cx<'_>) {
        self.book.lock().unwrap().completed += cx.requests.bios(id).count() as u64;
        self.inner.complete(now, id, cx);
    }

    fn delay(&mut self, now: Instant, proc: ProcId, cx: &mut Cx<'_>) -> Nanos {
        self.inner.delay(now, proc, cx)
    }

    fn stat(&self, now: Instant, group: GroupId, cx: &Cx<'_>, out: &mut String) {
        self.inner.stat(now, group, cx, out);
    }

    fn congested(&self, group: GroupId, cx: &Cx<'_>) -> bool {
        self.inner.congested(group, cx)
    }
}

impl Stage for Watched {
    fn info(&self) -> &'static StageInfo {
        self.inner.info()
    }

    fn changed(&mut self, now: Instant, change: &Change, cx: &mut Cx<'_>) {
        self.inner.changed(now, change, cx);
    }

    fn timer(&mut self, now: Instant, cx: &mut Cx<'_>) {
        assert!(self.inner.next_timer().is_some_and(|at| at <= now), "called when due");
        self.inner.timer(now, cx);
    }

    fn next_timer(&self) -> Option<Instant> {
        self.inner.next_timer()
    }

    fn set(
        &mut self,
        now: Instant,
        name: &str,
        value: u64,
        cx: &mut Cx<'_>,
    ) -> Result<(), TunableError> {
        self.inner.set(now, name, value, cx)
    }

    fn value(&self, name: &str) -> Option<u64> {
        self.inner.value(name)
    }

    fn set_group(
        &mut self,
        now: Instant,
        group: GroupId,
        name: &str,
        value: Option<u64>,
        cx: &mut Cx<'_>,
    ) -> Result<(), TunableError> {
        self.inner.set_group(now, group, name, value, cx)
    }

    fn write_knob(
        &mut self,
        now: Instant,
        group: GroupId,
        file: &str,
        line: &str,
        cx: &mut Cx<'_>,
    ) -> Result<(), KnobError> {
        self.inner.write_knob(now, group, file, line, cx)
    }

    fn read_knob(&self, group: GroupId, file: &str, cx: &Cx<'_>, out: &mut String) {
        self.inner.read_knob(group, file, cx, out);
    }

    fn gauges(&self, now: Instant, cx: &Cx<'_>, sink: &mut dyn FnMut(Gauge)) {
        self.inner.gauges(now, cx, sink);
    }

    fn figures(&self, sink: &mut dyn FnMut(Figure)) {
        self.inner.figures(sink);
    }
}

impl Watched {
    fn let_go(&self, now: Instant, bio: BioId, cx: &Cx<'_>) {
        let io = cx.requests.bio(bio);
        let mut book = self.book.lock().unwrap();
        assert!(book.inside.remove(&bio.0.slot), "what is released was held");
        book.passed += 1;
        if ordered(io) {
            book.left.entry(lane(io)).or_default().push((now, io.id.0));
        }
    }
}

/// What makes a controller hold I/O of these loads: tunables, lines of the root's files, and one line of
/// each group in turn. A controller that is not listed runs as it is built.
#[derive(Default)]
struct Settings {
    tunables: &'static [(&'static str, u64)],
    root: &'static [(&'static str, &'static str)],
    groups: &'static [(&'static str, &'static str)],
}

fn settings(name: &str) -> Settings {
    match name {
        "io.max" => Settings {
            groups: &[("io.max", "rbps=4000000 wiops=400"), ("io.max", "riops=600 wbps=3000000")],
            ..Settings::default()
        },
        "io.latency" => Settings {
            tunables: &[("decision_distance", 2), ("window_min", 1), ("timer", 20), ("give_up", 0)],
            groups: &[("io.latency", "target=1"), ("io.latency", "target=max")],
            ..Settings::default()
        },
        "io.cost" => Settings {
            root: &[
                ("io.cost.qos", "enable=1 ctrl=user rpct=0 wpct=0 min=50 max=100"),
                (
                    "io.cost.model",
                    "ctrl=user model=linear rbps=20000000 rseqiops=900 rrandiops=700 wbps=20000000 \
                     wseqiops=900 wrandiops=700",
                ),
            ],
            groups: &[("io.weight", "300"), ("io.weight", "100")],
            ..Settings::default()
        },
        _ => Settings::default(),
    }
}

const PROCS: u32 = 8;

struct World {
    stack: Stack,
    book: Arc<Mutex<Book>>,
    rng: Rng,
    now: Instant,
    entry: &'static Entry,
    groups: Vec<GroupId>,
    device: Vec<ReqId>,
    waits: [Option<u64>; PROCS as usize],
    accepted: BTreeSet<u64>,
    finished: BTreeSet<u64>,
    wake: Option<Instant>,
    next_io: u64,
}

impl World {
    fn new(entry: &'static Entry, scheduler: &'static sched::Entry, seed: u64) -> World {
        let mut device = Device::new(Sectors(1 << 20), 2 + seed as u32 % 7);
        device.profile = scheduler.profile;
        device.rotational = seed.is_multiple_of(2);
        device.write_cache = seed.is_multiple_of(3);
        device.max_discard_sectors = Sectors(64);
        device.max_sectors = Sectors(PIECE);
        device.nr_requests = 0;
        let mut stack = Stack::new(device, scheduler, 256);
        *stack.trace_mut() = Trace::digest_only();
        let book = Arc::new(Mutex::new(Book::default()));
        let inner = (entry.build)(&stack.env().device);
        stack.install_built(entry, Box::new(Watched { inner, book: book.clone() }));
        let mut world = World {
            stack,
            book,
            rng: Rng::new(seed),
            now: Instant::ZERO,
            entry,
            groups: Vec::new(),
            device: Vec::new(),
            waits: [None; PROCS as usize],
            accepted: BTreeSet::new(),
            finished: BTreeSet::new(),
            wake: None,
            next_io: 0,
        };
        let Settings { tunables, root, .. } = settings(entry.name);
        for &(name, value) in tunables {
            let stage = StageName::Controller(entry.name.into());
            world.input(Input::Set { stage, name: name.into(), value });
        }
        for &(file, body) in root {
            world.write(GroupId::ROOT, file, body);
        }
        for i in 0..4 {
            let parent = if i == 3 { world.groups[1] } else { GroupId::ROOT };
            world.add_group(parent);
        }
        for i in 0..PROCS {
            let group = world.groups[i as usize % 4];
            world.stack.add_proc(group, IoPrio::NONE);
        }
        world
    }

    fn add_group(&mut self, parent: GroupId) {
        let name = format!("g{}", self.groups.len());
        let group = self.stack.add_group(self.now, parent, &name);
        self.drain();
        let all = settings(self.entry.name).groups;
        if !all.is_empty() {
            let (file, body) = all[self.groups.len() % all.len()];
            self.write(group, file, body);
        }
        self.groups.push(group);
    }

    fn write(&mut self, group: GroupId, file: &str, body: &str) {
        // A line that names no device is the group's default.
        let line = if file == "io.weight" { body.into() } else { format!("8:0 {body}") };
        self.input(Input::Write { group, file: file.into(), line });
    }

    fn input(&mut self, input: Input) {
        self.stack.handle(self.now, input).unwrap();
        self.drain();
    }

    fn drain(&mut self) {
        loop {
            match self.stack.poll(self.now) {
                Output::Issue { req, .. } => self.device.push(req),
                Output::Accepted { io } => {
                    assert!(self.accepted.insert(io.0), "accepted once");
                    self.waits.iter_mut().for_each(|w| *w = w.filter(|&id| id != io.0));
                }
                Output::Finished { io, .. } => assert!(self.finished.insert(io.0), "once"),
                Output::Delay { until, .. } => assert!(until > self.now),
                Output::WaitUntil(at) => {
                    self.wake = at;
                    return;
                }
            }
        }
    }

    fn step(&mut self) {
        self.now += Nanos::us(self.rng.below(700));
        let at = self.rng.below(PROCS.into()) as usize;
        let proc = ProcId(at as u32);
        let legacy = self.stack.env().device.profile == Profile::Legacy;
        match self.rng.below(100) {
            0 => self.change_groups(),
            1..=30 if !self.device.is_empty() => {
                let n = self.rng.below(self.device.len() as u64) as usize;
                let req = self.device.swap_remove(n);
                let error = (self.rng.below(30) == 0).then_some(hoistway::stack::IoError::Io);
                let back = self.rng.below(20) == 0;
                self.input(if back { Input::Requeue(req) } else { Input::Done { req, error } });
            }
            31..=35 => self.input(Input::Tick),
            36 if !legacy => self.input(Input::Plug(proc)),
            37..=40 => self.input(Input::Unplug(proc)),
            _ if self.waits[at].is_none() => self.submit(at),
            _ => {}
        }
    }

    fn submit(&mut self, at: usize) {
        self.next_io += 1;
        let proc = ProcId(at as u32);
        let start = 8 * self.rng.below(5000);
        let mut io = Io::read(self.next_io, proc, start, 8);
        io.group = self.groups[self.rng.below(self.groups.len() as u64) as usize];
        io.cpu = at as u32;
        match self.rng.below(12) {
            0 => (io.op, io.sectors) = (Op::Flush, Sectors(0)),
            1 => (io.op, io.flags) = (Op::Write, Flags::PREFLUSH | Flags::FUA),
            2 => io.op = Op::Discard,
            3 => (io.op, io.flags) = (Op::Write, Flags::META),
            4 => io.flags = Flags::SWAP,
            5 if self.stack.env().device.profile == Profile::MultiQueue => {
                (io.sectors, io.segments) = (Sectors(4 * PIECE), 32);
                io.flags = Flags::IDLE;
            }
            6..=8 => io.op = Op::Write,
            _ => {}
        }
        self.waits[at] = Some(self.next_io);
        self.input(Input::Submit(io));
    }

    /// A group comes, goes, or loses a process.
    fn change_groups(&mut self) {
        let (last, proc) = (self.groups.len() - 1, ProcId(self.rng.below(PROCS.into()) as u32));
        match self.rng.below(3) {
            0 if self.groups.len() < 12 => {
                let at = self.rng.below(3) as usize;
                self.add_group(self.groups[at]);
            }
            1 if last > 3 => {
                let group = self.groups[last];
                if !self.stack.env().groups.alive(group) {
                    return;
                }
                for proc in (0..PROCS).map(ProcId) {
                    if self.stack.env().procs.group(proc) == group {
                        self.move_proc(proc, GroupId::ROOT);
                    }
                }
                // Its I/O, old and new, still carries it.
                self.stack.remove_group(self.now, group);
                self.drain();
            }
            _ => {
                let to = self.groups[self.rng.below(4) as usize];
                self.move_proc(proc, to);
            }
        }
    }

    fn move_proc(&mut self, proc: ProcId, to: GroupId) {
        let from = self.stack.env().procs.group(proc);
        let change = Change::ProcMoved { proc, from, to };
        self.stack.change(self.now, change, |env| {
            env.procs.get_mut(proc).expect("it exists").group = to;
        });
        self.drain();
    }

    /// Everything that may be read, at any time.
    fn look(&mut self) {
        for group in std::iter::once(GroupId::ROOT).chain(self.groups.clone()) {
            let files: Vec<_> = self.stack.knobs().map(|k| k.file).collect();
            for file in files {
                let text = self.stack.read_knob(group, file).unwrap();
                assert!(text.is_empty() || text.ends_with('\n'), "{file}: {text:?}");
            }
            self.stack.congested(group);
        }
        self.stack.gauges(&mut |_, g| assert!(!g.name.is_empty()));
        self.stack.controllers().for_each(|(_, c)| c.figures(&mut |_| {}));
    }

    fn run(&mut self, steps: u64, look: bool) {
        for n in 0..steps {
            self.step();
            if look && n % 17 == 0 {
                self.look();
            }
        }
        for proc in (0..PROCS).map(ProcId) {
            self.input(Input::Unplug(proc));
        }
        // At rest: nothing is under way. A controller may keep a timer of its own running.
        for _ in 0..1_000_000 {
            if let Some(req) = self.device.pop() {
                self.now += Nanos::us(300);
                self.input(Input::Done { req, error: None });
            } else if self.finished.len() as u64 == self.next_io {
                return;
            } else {
                self.now = self.now.max(self.wake.expect("what is held is timed"));
                self.input(Input::Tick);
            }
        }
        panic!("it does not come to rest");
    }

    fn check(&self, name: &str) -> u64 {
        let all: BTreeSet<u64> = (1..=self.next_io).collect();
        assert_eq!(self.finished, all, "{name}: every I/O is finished");
        assert_eq!(self.accepted, all, "{name}: every submitter went on");
        let book = self.book.lock().unwrap();
        assert!(book.inside.is_empty(), "{name}");
        for (lane, arrived) in &book.arrived {
            // Within an instant a newcomer may pass before those are asked for that a timer let go: in
            // the kernel a worker issues them later. Ids are in order of arrival.
            let mut left = book.left[lane].clone();
            left.sort_unstable();
            let left: Vec<u64> = left.into_iter().map(|(_, io)| io).collect();
            assert_eq!(arrived, &left, "{name}: {lane:?} keeps its order");
        }
        let merged =
            if self.entry.gate == hoistway::ctl::Gate::BeforeTag { book.merged } else { 0 };
        assert_eq!(book.completed, book.passed + merged, "{name}: told of once more");
        book.held
    }
}

fn schedulers(entry: &Entry) -> impl Iterator<Item = &'static &'static sched::Entry> {
    // cgroup v2 and its controllers are of the modern block layer; io.max is asked in both.
    let legacy = entry.gate == hoistway::ctl::Gate::BeforeMerge;
    sched::SCHEDULERS.iter().filter(move |s| legacy || s.profile == Profile::MultiQueue)
}

#[test]
fn nothing_is_lost_or_reordered_by_any_controller() {
    for &entry in CONTROLLERS {
        let mut held = 0;
        for scheduler in schedulers(entry) {
            for seed in 0..12 {
                let name = format!("{} over {} seed {seed}", entry.name, scheduler.name);
                let mut world = World::new(entry, scheduler, seed);
                world.run(3000, false);
                held += world.check(&name);
            }
        }
        let binds = !settings(entry.name).groups.is_empty();
        assert!(!binds || held > 1000, "{}: the limits bind ({held})", entry.name);
    }
}

/// The end: no limit holds anything, and the order within a lane is kept all the same.
#[test]
fn at_the_end_everything_held_goes_at_once() {
    for &entry in CONTROLLERS {
        for (seed, scheduler) in (0..).zip(schedulers(entry)) {
            let name = format!("{} over {}", entry.name, scheduler.name);
            let mut world = World::new(entry, scheduler, seed);
            for _ in 0..1500 {
                world.step();
            }
            world.input(Input::End);
            // Time for the delay before a shared flush command, which is no policy.
            let until = world.now + Nanos::ms(1);
            loop {
                if let Some(req) = world.device.pop() {
                    world.input(Input::Done { req, error: None });
                } else if world.wake.is_some_and(|at| at <= until) {
                    world.now = world.wake.unwrap();
                    world.input(Input::Tick);
                } else {
                    break;
                }
            }
            world.check(&name);
        }
    }
}

/// Loads that a setting changes under: I/O may be held, but then there is a time to look again, and that
/// is no farther off than the new setting, or 30 s of what the others allow.
impl World {
    fn check_held(&self, what: &str, longest: Nanos) {
        if self.finished.len() as u64 == self.next_io || !self.device.is_empty() {
            return;
        }
        if self.stack.in_flight() == 0 && self.stack.env().requests.is_empty() {
            let at = self.wake.unwrap_or_else(|| panic!("{what}: held, and nobody will look"));
            let latest = self.now + longest + Nanos::secs(30);
            assert!(at <= latest, "{what}: looks at {at:?}, allowed is {latest:?}");
        }
    }

    /// The load stops; how long it takes until everything is finished.
    fn rest(&mut self, what: &str, longest: Nanos) -> Nanos {
        let since = self.now;
        for proc in (0..PROCS).map(ProcId) {
            self.input(Input::Unplug(proc));
        }
        for _ in 0..1_000_000 {
            self.check_held(what, longest);
            if let Some(req) = self.device.pop() {
                self.now += Nanos::us(300);
                self.input(Input::Done { req, error: None });
            } else if self.finished.len() as u64 == self.next_io {
                return self.now.since(since);
            } else {
                self.now = self.now.max(self.wake.expect("what is held is timed"));
                self.input(Input::Tick);
            }
        }
        panic!("{what}: it does not come to rest");
    }
}

#[test]
fn no_change_of_a_tunable_strands_io() {
    for &entry in CONTROLLERS {
        for t in entry.tunables {
            for old in [t.min, t.default, t.max] {
                for new in [t.min, t.default, t.max] {
                    let what = format!("{} {} {old} -> {new}", entry.name, t.name);
                    let mut world = World::new(entry, sched::find("none").unwrap(), old ^ new);
                    let set = |value| Input::Set {
                        stage: StageName::Controller(entry.name.into()),
                        name: t.name.into(),
                        value,
                    };
                    let longest = match t.unit {
                        Unit::Micros => Nanos::us(new),
                        Unit::Millis => Nanos::ms(new),
                        Unit::Secs => Nanos::secs(new),
                        _ => Nanos::ZERO,
                    };
                    world.input(set(old));
                    (0..250).for_each(|_| world.step());
                    world.input(set(new));
                    (0..50).for_each(|_| world.step());
                    world.rest(&what, longest);
                    world.check(&what);
                }
            }
        }
    }
}

/// Lines that bind hard and lines that do not, by file.
const LINES: &[(&str, &[&str])] = &[
    ("io.max", &["riops=2 wiops=2 rbps=2000 wbps=2000", "riops=max wiops=max rbps=max wbps=max"]),
    ("io.low", &["riops=2 wiops=2 rbps=2000 wbps=2000", "riops=max wiops=max rbps=max wbps=max"]),
    ("io.latency", &["target=1", "target=max", "target=10000000"]),
    (
        "io.cost.qos",
        &[
            "enable=1 ctrl=user rpct=0 wpct=0 min=1 max=1",
            "enable=1 ctrl=user rpct=0 wpct=0 min=100 max=10000",
            "enable=0",
        ],
    ),
    (
        "io.cost.model",
        &[
            "ctrl=user model=linear rbps=4096 rseqiops=1 rrandiops=1 wbps=4096 wseqiops=1 wrandiops=1",
            "ctrl=user model=linear rbps=2000000000 rseqiops=900000 rrandiops=900000 \
             wbps=2000000000 wseqiops=900000 wrandiops=900000",
            "ctrl=auto",
        ],
    ),
];

/// A line that no longer binds lets go, soon, what waited by the one before: no wait, slice, price or timer
/// of that one is left.
#[test]
fn a_line_that_binds_no_more_holds_nothing_back() {
    for &entry in CONTROLLERS {
        for knob in entry.knobs {
            let Some((_, lines)) = LINES.iter().find(|(file, _)| *file == knob.file) else {
                assert!(matches!(knob.file, "io.weight"), "{}: no lines to try", knob.file);
                continue;
            };
            for (i, old) in lines.iter().enumerate() {
                for (j, new) in lines.iter().enumerate().filter(|&(j, _)| j != i) {
                    let what = format!("{} '{old}' -> '{new}'", knob.file);
                    let mut world = World::new(entry, sched::find("none").unwrap(), 7 + i as u64);
                    let groups = match knob.of {
                        hoistway::knob::KnobOf::Root => vec![GroupId::ROOT],
                        _ => world.groups.clone(),
                    };
                    groups.iter().for_each(|&g| world.write(g, knob.file, old));
                    (0..200).for_each(|_| world.step());
                    let groups = match knob.of {
                        hoistway::knob::KnobOf::Root => vec![GroupId::ROOT],
                        _ => world.groups.clone(),
                    };
                    let alive = |g: &&GroupId| world.stack.env().groups.alive(**g);
                    let groups: Vec<GroupId> = groups.iter().filter(alive).copied().collect();
                    groups.iter().for_each(|&g| world.write(g, knob.file, new));
                    let took = world.rest(&what, Nanos::secs(3600));
                    world.check(&what);
                    if j > 0 {
                        assert!(took <= Nanos::secs(10), "{what}: took {took:?}");
                    }
                }
            }
        }
    }
}

#[test]
fn looking_changes_nothing() {
    for &entry in CONTROLLERS {
        for seed in 0..6 {
            let digest = |look| {
                let mut world = World::new(entry, sched::find("none").unwrap(), seed);
                world.run(2000, look);
                world.stack.trace_mut().digest()
            };
            assert_eq!(digest(true), digest(false), "{} seed {seed}", entry.name);
        }
    }
}

#[test]
fn every_tunable_takes_its_ends_and_nothing_beyond() {
    for &entry in CONTROLLERS {
        let mut world = World::new(entry, sched::find("none").unwrap(), 1);
        let stage = || StageName::Controller(entry.name.into());
        let value = |world: &World, name| world.stack.controllers().next().unwrap().1.value(name);
        for t in entry.tunables {
            let set = |value| Input::Set { stage: stage(), name: t.name.into(), value };
            assert!((t.min..=t.max).contains(&t.default), "{}", t.name);
            let before = value(&world, t.name);
            for wrong in [t.min.checked_sub(1), t.max.checked_add(1)].into_iter().flatten() {
                assert!(world.stack.handle(world.now, set(wrong)).is_err(), "{} {wrong}", t.name);
                world.drain();
                assert_eq!(value(&world, t.name), before, "{}", t.name);
            }
            for end in [t.min, t.max, t.default] {
                world.input(set(end));
                assert_eq!(value(&world, t.name), Some(end), "{}", t.name);
            }
            if let Unit::Choice(words) = t.unit {
                assert_eq!((t.min, t.max + 1), (0, words.len() as u64), "{}", t.name);
            }
        }
        let unknown = Input::Set { stage: stage(), name: "no_such".into(), value: 1 };
        assert!(world.stack.handle(world.now, unknown).is_err());
        world.drain();
        assert_eq!(value(&world, "no_such"), None);
        world.run(500, false);
    }
}

#[test]
fn a_refused_line_changes_nothing_and_says_what_is_accepted() {
    for &entry in CONTROLLERS {
        let mut world = World::new(entry, sched::find("none").unwrap(), 1);
        for knob in entry.knobs {
            let group = match knob.of {
                hoistway::knob::KnobOf::Root => GroupId::ROOT,
                _ => world.groups[0],
            };
            let before = world.stack.read_knob(group, knob.file);
            for line in ["8:0 bogus=1", "8:0", "9:9 x=1", "8:0 =", "-1", "8:0 target=-5 rbps=-5"] {
                let input = Input::Write { group, file: knob.file.into(), line: line.into() };
                let error = world.stack.handle(world.now, input);
                world.drain();
                let error = error.expect_err(line).to_string();
                assert!(error.contains(knob.form), "{}: {error}", knob.file);
                assert_eq!(world.stack.read_knob(group, knob.file), before, "{line}");
            }
        }
    }
}
