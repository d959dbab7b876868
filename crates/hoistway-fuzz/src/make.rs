//! Makes cases from choices.

use crate::op::{Case, Op, Step, Submission};
use crate::source::{Bytes, Source};
use hoistway::ctl::CONTROLLERS;
use hoistway::sched::{self, SCHEDULERS};
use hoistway::setting::Tunable;
use hoistway::stack::{IoError, QUEUE_TUNABLES, StageName};
use hoistway::unit::Class;
use hoistway::{Flags, Instant, IoPrio, Nanos, Op as IoOp, Profile};

/// Groups a case makes at its beginning, most of them below the root.
const GROUPS: u64 = 4;
/// Longest pause: longer than any wait that a tunable may ask for.
const LONG: u64 = 1_300_000_000_000;
/// What bytes may ask for: some thousand operations take libFuzzer a millisecond.
const STEPS_OF_BYTES: usize = 4000;

/// A case of `steps` operations.
pub fn case(source: &mut impl Source, steps: usize) -> Case {
    case_under(SCHEDULERS, source, steps)
}

/// A case of `steps` operations under these schedulers, one at a time.
pub fn case_under(
    schedulers: &[&'static sched::Entry],
    source: &mut impl Source,
    steps: usize,
) -> Case {
    Maker::new(schedulers, source).run(steps)
}

/// A case of as many operations as the bytes make.
pub fn case_of_bytes(bytes: &[u8]) -> Case {
    let mut source = Bytes::new(bytes);
    let mut maker = Maker::new(SCHEDULERS, &mut source);
    while maker.case.steps.len() < STEPS_OF_BYTES && !maker.source.is_empty() {
        maker.step();
    }
    maker.case
}

struct Maker<'a, S> {
    source: &'a mut S,
    case: Case,
    schedulers: &'a [&'static sched::Entry],
    now: Instant,
    legacy: bool,
    barriers: bool,
    procs: u64,
    /// The scheduler that was asked for last; a switch may still be pending.
    scheduler: &'static sched::Entry,
    /// One in so many operations changes a setting.
    settings: u64,
    /// Longest ordinary pause.
    pace: u64,
    /// Where the sequential streams go on.
    streams: [u64; 8],
}

impl<'a, S: Source> Maker<'a, S> {
    fn new(schedulers: &'a [&'static sched::Entry], source: &'a mut S) -> Maker<'a, S> {
        let scheduler = source.pick(schedulers);
        let likely = if scheduler.profile == Profile::Legacy { 3 } else { 1 };
        let legacy = !scheduler.direct && source.below(4) < likely;
        let mut case = Case::new(scheduler.name);
        fields(&mut case, legacy, source);
        for entry in CONTROLLERS {
            // cgroup v2 and most of its controllers are of the modern block layer.
            let fits = !legacy || entry.gate == hoistway::ctl::Gate::BeforeMerge;
            // io.low has the limits of io.max too.
            let twice = entry.name == "io.low" && case.controllers.iter().any(|c| c == "io.max");
            if fits && !twice && source.one_in(3) {
                case.controllers.push(entry.name.into());
            }
        }
        let mut maker = Maker {
            schedulers,
            legacy,
            barriers: legacy && source.one_in(2),
            procs: case.get("procs"),
            scheduler,
            settings: source.pick(&[4, 12, 40]),
            pace: source.pick(&[20_000, 400_000, 3_000_000, 30_000_000]),
            streams: [0; 8],
            now: Instant::ZERO,
            case,
            source,
        };
        for _ in 0..maker.source.below(GROUPS + 1) {
            let parent = maker.source.below(3) as u32;
            maker.push(Op::AddGroup(parent));
        }
        for proc in 0..maker.procs as u32 {
            let group = maker.source.below(GROUPS + 1) as u32;
            maker.push(Op::Move { proc, group });
        }
        if let Some(line) =
            maker.case.controllers.iter().any(|c| c == "io.cost").then_some("enable=1")
            && !maker.source.one_in(4)
        {
            maker.write(0, "io.cost.qos", format!("8:0 {line}"));
        }
        maker
    }

    fn run(mut self, steps: usize) -> Case {
        while self.case.steps.len() < steps {
            self.step();
        }
        self.case
    }

    fn push(&mut self, op: Op) {
        self.case.steps.push(Step { at: self.now, op });
    }

    fn proc(&mut self) -> u32 {
        self.source.below(self.procs) as u32
    }

    /// A group by number: of those that exist, dead ones included.
    fn group(&mut self) -> u32 {
        self.source.below(16) as u32
    }

    fn step(&mut self) {
        self.pause();
        if self.source.one_in(self.settings) {
            return self.change();
        }
        let op = match self.source.below(32) {
            0..=13 => Op::Submit(self.submission()),
            14..=23 => Op::Done { nth: self.source.below(64) as u32, error: self.error() },
            24 => Op::Requeue(self.source.below(64) as u32),
            25 => Op::Plug(self.proc()),
            26..=27 => Op::Unplug(self.proc()),
            28 => Op::Sleep(self.proc()),
            29 => Op::Tick,
            30 => return self.groups(),
            _ => return self.processes(),
        };
        self.push(op);
    }

    fn error(&mut self) -> Option<IoError> {
        let kinds = [IoError::Io, IoError::Invalid, IoError::NotSupported];
        self.source.one_in(30).then(|| self.source.pick(&kinds))
    }

    fn pause(&mut self) {
        let longest = match self.source.below(64) {
            0..=25 => return,
            26..=61 => self.pace,
            62 => 1_000_000_000,
            _ if self.source.one_in(4) => LONG,
            _ => 40_000_000,
        };
        self.now += Nanos(self.source.magnitude(0, longest));
        if self.source.one_in(64) {
            self.push(Op::Late);
        }
    }

    fn submission(&mut self) -> Submission {
        let proc = self.proc();
        let stream = self.source.below(8) as usize;
        // A small region, so that neighbours meet; mostly streams, so that they merge.
        let start = match self.source.below(4) {
            0 => self.source.below(1 << 18) * 8,
            1 => self.source.below(600) * 8,
            _ => self.streams[stream],
        };
        let largest = if self.legacy { 64 } else { 900 };
        let sectors = match self.source.below(12) {
            0 => 1 + self.source.below(largest),
            n => [8, 8, 8, 8, 16, 24, 32, 64, 64, 200, 8][n as usize - 1].min(largest),
        };
        self.streams[stream] = start + sectors;
        let op = match self.source.below(24) {
            0..=11 => IoOp::Read,
            12..=20 => IoOp::Write,
            21 => IoOp::Discard,
            22 => IoOp::WriteZeroes,
            _ => IoOp::Flush,
        };
        let group = self.source.one_in(24).then(|| self.group());
        Submission {
            proc: (!self.source.one_in(100)).then_some(proc),
            group,
            prio: self.source.one_in(24).then(|| self.prio()),
            op,
            start,
            sectors: if op == IoOp::Flush { 0 } else { sectors },
            segments: 1 + self.source.below(sectors.div_ceil(8)) as u32,
            flags: self.flags(op),
            cpu: if self.source.one_in(16) { self.source.below(32) as u32 } else { proc },
        }
    }

    fn flags(&mut self, op: IoOp) -> Flags {
        let mut flags = Flags::NONE;
        if op != IoOp::Read && self.source.one_in(2) {
            flags |= Flags::SYNC;
        }
        let some = [
            Flags::META,
            Flags::PRIO,
            Flags::NOIDLE,
            Flags::IDLE,
            Flags::RAHEAD,
            Flags::UNPLUG,
            Flags::NOMERGE,
            Flags::BACKGROUND,
            Flags::SWAP,
        ];
        if self.source.one_in(3) {
            flags |= self.source.pick(&some);
        }
        // Barriers or sequences: no kernel had both.
        if op == IoOp::Write && self.source.one_in(12) {
            flags |= match (self.barriers, self.source.below(3)) {
                (true, _) => Flags::BARRIER,
                (_, 0) => Flags::PREFLUSH,
                (_, 1) => Flags::FUA,
                _ => Flags::PREFLUSH | Flags::FUA,
            };
        }
        if op == IoOp::Flush && self.barriers {
            flags |= Flags::BARRIER;
        }
        flags
    }

    fn prio(&mut self) -> IoPrio {
        let class = self.source.pick(&[Class::None, Class::Rt, Class::Be, Class::Be, Class::Idle]);
        let level = if class == Class::None { 0 } else { self.source.below(8) as u8 };
        IoPrio::new(class, level).expect("a level below 8 of a class, or none of none")
    }

    fn groups(&mut self) {
        let op = match self.source.below(8) {
            0 => Op::AddGroup(self.group()),
            1 => Op::RemoveGroup(self.group()),
            _ => Op::Move { proc: self.proc(), group: self.group() },
        };
        self.push(op);
    }

    fn processes(&mut self) {
        let op = match self.source.below(12) {
            0..=1 => Op::Exit(self.proc()),
            2..=3 => Op::AddProc { group: self.group(), prio: self.prio() },
            4..=8 => Op::Prio { proc: self.proc(), prio: self.prio() },
            9 => Op::Nice {
                proc: self.proc(),
                policy: self.source.below(3) as u32,
                nice: self.source.below(40) as i8 - 20,
            },
            10 => Op::DirtySlept(self.proc()),
            _ => Op::Rotational(self.source.one_in(2)),
        };
        self.push(op);
    }

    /// A setting of some stage changes.
    fn change(&mut self) {
        match self.source.below(16) {
            0..=4 => {
                let entry = self.scheduler;
                self.set(StageName::Scheduler, entry.tunables);
            }
            5..=6 => self.set(StageName::Queue, QUEUE_TUNABLES),
            7..=8 => {
                if let Some(entry) = self.controller() {
                    self.set(StageName::Controller(entry.name.into()), entry.tunables);
                }
            }
            9 => self.set_group(),
            10 => self.switch(),
            11 => {
                let (group, file) = (self.group(), "io.prio.class");
                let words = ["no-change", "none-to-rt", "restrict-to-be", "idle", "promote-to-rt"];
                let line = self.source.pick(&words).to_string();
                self.write(group, file, line);
            }
            _ => self.knob(),
        }
    }

    fn controller(&mut self) -> Option<&'static hoistway::ctl::Entry> {
        let n = self.case.controllers.len() as u64;
        let at = if n == 0 { return None } else { self.source.below(n) as usize };
        hoistway::ctl::find(&self.case.controllers[at])
    }

    fn switch(&mut self) {
        let entry = self.source.pick(self.schedulers);
        if !(entry.direct && self.legacy) {
            self.scheduler = entry;
        }
        // Refused where the profile has no such scheduler; that is tried too.
        self.push(Op::Switch(entry.name.into()));
    }

    /// A value over the whole range; now and then beside it, which must be refused.
    fn value(&mut self, t: &Tunable) -> u64 {
        match self.source.below(16) {
            0..=2 => t.min,
            3..=5 => t.max,
            6..=9 => t.default,
            10 => t.max.saturating_add(1),
            11 => t.min.saturating_sub(1),
            _ => self.source.magnitude(t.min, t.max),
        }
    }

    fn set(&mut self, stage: StageName, tunables: &'static [Tunable]) {
        if !tunables.is_empty() {
            let t = &tunables[self.source.below(tunables.len() as u64) as usize];
            let value = self.value(t);
            // No rule to hold it to.
            if t.stops_at != Some(value) {
                self.push(Op::Set { stage, name: t.name.into(), value });
            }
        }
    }

    fn set_group(&mut self) {
        let (stage, tunables) = match self.controller().filter(|_| self.source.one_in(2)) {
            Some(entry) => (StageName::Controller(entry.name.into()), entry.group_tunables),
            None => (StageName::Scheduler, self.scheduler.group_tunables),
        };
        if !tunables.is_empty() {
            let t = &tunables[self.source.below(tunables.len() as u64) as usize];
            let value = (!self.source.one_in(6)).then(|| self.value(t));
            let (group, name) = (self.group(), t.name.into());
            self.push(Op::SetGroup { group, stage, name, value });
        }
    }

    /// A line of a cgroup file of the scheduler or of a controller.
    fn knob(&mut self) {
        let knobs = match self.controller().filter(|_| !self.source.one_in(4)) {
            Some(entry) => entry.knobs,
            None => self.scheduler.knobs,
        };
        if knobs.is_empty() {
            return;
        }
        let file = knobs[self.source.below(knobs.len() as u64) as usize].file;
        let group = match file {
            "io.cost.qos" | "io.cost.model" if !self.source.one_in(8) => 0,
            _ => self.group(),
        };
        let line = self.line(file);
        self.write(group, file, line);
    }

    fn write(&mut self, group: u32, file: &str, line: String) {
        self.push(Op::Write { group, file: file.into(), line });
    }

    fn line(&mut self, file: &str) -> String {
        if self.source.one_in(40) {
            return self.source.pick(&["", "8:0", "9:9 rbps=5", "8:0 bogus=1", "-1"]).into();
        }
        let mut line = String::from("8:0");
        match file {
            "io.max" => self.keys(&mut line, &["rbps", "wbps", "riops", "wiops"], (2, 1 << 34)),
            "io.low" => {
                self.keys(&mut line, &["rbps", "wbps", "riops", "wiops"], (2, 1 << 34));
                self.keys(&mut line, &["idle", "latency"], (0, 10_000_000));
            }
            // A target without a number, which io.latency refuses, is the usual one of paternoster.
            "io.latency" if self.source.one_in(3) => line.push_str(" target=auto"),
            "io.latency" => self.keys(&mut line, &["target"], (1, 10_000_000)),
            "io.cost.model" => {
                let keys = ["rbps", "rseqiops", "rrandiops", "wbps", "wseqiops", "wrandiops"];
                line.push_str(self.source.pick(&[" ctrl=auto", " ctrl=user", ""]));
                self.keys_without_max(&mut line, &keys, (0, 1 << 34));
            }
            "io.cost.qos" => {
                line.push_str(self.source.pick(&[" enable=1", " enable=1", " enable=0", ""]));
                line.push_str(self.source.pick(&[" ctrl=auto", " ctrl=user", ""]));
                self.keys_without_max(&mut line, &["rpct", "wpct"], (0, 100));
                self.keys_without_max(&mut line, &["rlat", "wlat"], (0, 100_000_000));
                self.keys_without_max(&mut line, &["min"], (0, 100));
                self.keys_without_max(&mut line, &["max"], (100, 100_000));
            }
            // Weights: of this device, or by default.
            _ => {
                let (weight, form) = (self.source.magnitude(1, 1000), self.source.below(4));
                return match form {
                    0 => format!("{weight}"),
                    1 => format!("default {weight}"),
                    2 => "8:0 default".into(),
                    _ => format!("8:0 {}", self.source.magnitude(1, 10_000)),
                };
            }
        }
        line
    }

    fn keys(&mut self, line: &mut String, keys: &[&str], (min, max): (u64, u64)) {
        for key in keys {
            match self.source.below(6) {
                0..=2 => {}
                3 => line.push_str(&format!(" {key}=max")),
                _ => line.push_str(&format!(" {key}={}", self.source.magnitude(min, max))),
            }
        }
    }

    fn keys_without_max(&mut self, line: &mut String, keys: &[&str], (min, max): (u64, u64)) {
        for key in keys {
            if self.source.one_in(2) {
                line.push_str(&format!(" {key}={}", self.source.magnitude(min, max)));
            }
        }
    }
}

/// The device and its surroundings.
fn fields(case: &mut Case, legacy: bool, s: &mut impl Source) {
    case.set("legacy", legacy.into());
    case.set("procs", 1 + s.below(12));
    case.set("depth", s.pick(&[1, 2, 4, 8, 32, 64]));
    case.set("nr_requests", if s.one_in(3) { 0 } else { 4 + s.below(60) });
    case.set("rotational", s.below(2));
    case.set("write_cache", s.below(2));
    case.set("fua", s.below(2));
    case.set("alone", s.below(2));
    case.set("nomerges", s.pick(&[0, 0, 0, 0, 1, 2]));
    case.set("overask", s.below(2));
    case.set("plug_lifo", s.below(2));
    case.set("fifo_tags", u64::from(s.one_in(3)));
    case.set("plain_tags", u64::from(s.one_in(3)));
    case.set("round_robin", s.below(2));
    case.set("scsi", s.below(2));
    case.set("tick_us", s.pick(&[1000, 4000, 4000, 10_000]));
    case.set("kick_us", s.pick(&[0, 20, 20, 1000]));
    case.set("actuators", if s.one_in(8) { 2 } else { 1 });
    case.set("service_us", s.pick(&[1, 100, 300, 8000]));
    case.set("order", s.below(1 << 32));
    case.set("discard", if s.one_in(4) { 0 } else { 8 + s.below(200) });
    case.set("grain", s.pick(&[1, 8, 8, 32]));
    if !legacy {
        case.set("queues", 1 + s.below(4));
        case.set("max_sectors", 8 + s.magnitude(0, 1000));
        case.set("max_segments", 1 + s.magnitude(0, 127));
        case.set("chunk", s.pick(&[0, 0, 0, 128]));
    }
}
