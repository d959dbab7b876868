//! What a tunable changed at run time must never do: strand I/O, or leave a wait of the old value behind.
//!
//! Every tunable of every scheduler is changed under load, in both profiles and under every `base`, from each of
//! its minimum, default, maximum and some values between to each other; also while another tunable is not at its
//! default. At every moment something queued implies
//! something at the device or a time to wake, that time is within what the new values allow, and in the end
//! everything finishes once. (Controllers: `controller_contract.rs`.)

use hoistway::sched::{Entry, SCHEDULERS, find};
use hoistway::setting::{OnChange, Tunable, Unit};
use hoistway::stack::StageName;
use hoistway::testkit::Rng;
use hoistway::{
    Device, Flags, GroupId, Input, Instant, Io, IoPrio, Nanos, Op, Output, ProcId, Profile, ReqId,
    Sectors, Stack,
};
use std::collections::BTreeSet;

const PROCS: u32 = 6;

/// Times that no tunable names: a delayed rerun, the device plug, an adaptation of kyber, seconds of BFQ's.
const OTHER_TIMES: Nanos = Nanos::secs(1);

struct Load {
    stack: Stack,
    now: Instant,
    rng: Rng,
    device: Vec<ReqId>,
    submitted: u64,
    finished: BTreeSet<u64>,
    accepted: BTreeSet<u64>,
    latest: [u64; PROCS as usize],
    wake: Option<Instant>,
    /// The longest wait of an old value that may go on, because the row says so under the base in force.
    kept: Nanos,
    /// For messages.
    what: String,
}

impl Load {
    fn new(entry: &'static Entry, profile: Profile, seed: u64, what: String) -> Load {
        let mut device = Device::new(Sectors(1 << 22), 1 + seed as u32 % 3);
        device.profile = profile;
        device.rotational = seed % 4 < 3;
        device.nr_requests = 0;
        let mut stack = Stack::new(device, entry, 64);
        let group = stack.add_group(Instant::ZERO, GroupId::ROOT, "g");
        while !matches!(stack.poll(Instant::ZERO), Output::WaitUntil(_)) {}
        for n in 0..PROCS {
            let prio =
                [IoPrio::be(4), IoPrio::be(4), IoPrio::idle(), IoPrio::rt(2)][n as usize % 4];
            stack.add_proc(if n % 2 == 0 { GroupId::ROOT } else { group }, prio);
        }
        Load {
            stack,
            now: Instant::ZERO,
            rng: Rng::new(seed),
            device: Vec::new(),
            submitted: 0,
            finished: BTreeSet::new(),
            accepted: BTreeSet::new(),
            latest: [0; PROCS as usize],
            wake: None,
            kept: Nanos::ZERO,
            what,
        }
    }

    fn input(&mut self, input: Input) {
        self.stack.handle(self.now, input).expect("a valid input");
        loop {
            match self.stack.poll(self.now) {
                Output::Issue { req, .. } => self.device.push(req),
                Output::Accepted { io } => assert!(self.accepted.insert(io.0)),
                Output::Finished { io, .. } => {
                    assert!(self.finished.insert(io.0), "{}: twice", self.what);
                }
                Output::Delay { .. } => {}
                Output::WaitUntil(at) => {
                    self.wake = at;
                    return self.check();
                }
            }
        }
    }

    /// The longest wait that the values in force allow.
    fn longest(&self) -> Nanos {
        let entry = self.stack.scheduler_entry();
        // It waits three times slice_idle for a raised queue (specs/bfq.md 11.6).
        let times = if entry.name == "bfq-v4" { 3 } else { 1 };
        let most = entry.tunables.iter().map(|t| self.time_of(t)).max().unwrap_or(Nanos::ZERO);
        most.max(self.kept) * times + OTHER_TIMES
    }

    /// The value in force, if it is a time.
    fn time_of(&self, t: &Tunable) -> Nanos {
        let value = self.stack.scheduler().value(t.name).unwrap_or(t.default);
        match t.unit {
            Unit::Nanos => Nanos(value.min(1_000_000_000_000)),
            Unit::Micros => Nanos::us(value),
            Unit::Millis => Nanos::ms(value),
            Unit::Secs => Nanos::secs(value),
            _ => Nanos::ZERO,
        }
    }

    /// The value of `base`, for the rows that depend on it.
    fn base(&self) -> u64 {
        self.stack.scheduler().value("base").unwrap_or(0)
    }

    fn armed(&self) -> Option<Instant> {
        self.stack.scheduler().next_timer()
    }

    fn check(&self) {
        if self.finished.len() as u64 == self.submitted || !self.device.is_empty() {
            return;
        }
        let Some(at) = self.wake else {
            panic!("{}: I/O is queued, the device is idle, and nobody will ask", self.what);
        };
        let latest = self.now + self.longest();
        assert!(at <= latest, "{}: waits until {at:?}, allowed is {latest:?}", self.what);
    }

    fn set(&mut self, name: &str, value: u64) {
        let t = self.stack.scheduler_entry().tunables.iter().find(|t| t.name == name);
        let t = t.expect("it is a tunable of the scheduler");
        if matches!(t.on_change_under(self.base()), OnChange::LaterWaits | OnChange::LaterLimits) {
            self.kept = self.kept.max(self.time_of(t));
        }
        let stage = StageName::Scheduler;
        self.input(Input::Set { stage, name: name.into(), value });
    }

    fn step(&mut self) {
        self.now += Nanos::us(self.rng.below(900));
        while let Some(at) = self.wake.filter(|&at| at <= self.now) {
            let now = core::mem::replace(&mut self.now, at);
            self.input(Input::Tick);
            self.now = now;
        }
        let turn = self.rng.below(10);
        if turn < 5 && !self.device.is_empty() {
            let req = self.device.remove(0);
            let back = self.rng.below(25) == 0;
            self.input(if back { Input::Requeue(req) } else { Input::Done { req, error: None } });
        } else {
            self.submit();
        }
    }

    fn submit(&mut self) {
        let proc = self.rng.below(PROCS.into()) as u32;
        let latest = self.latest[proc as usize];
        if latest > 0 && !self.accepted.contains(&latest) {
            return;
        }
        self.submitted += 1;
        let start = 8 * (u64::from(proc) * 40_000 + self.rng.below(30_000));
        let mut io = Io::read(self.submitted, ProcId(proc), start, 8);
        match self.rng.below(6) {
            0 => io.op = Op::Write,
            1 => (io.op, io.flags) = (Op::Write, Flags::SYNC),
            // In order: a process that is worth waiting for.
            _ if proc == 0 => io.start = Sectors(8 * self.submitted),
            _ => {}
        }
        (io.cpu, io.flags) = (proc, io.flags | Flags::UNPLUG);
        io.group = self.stack.env().procs.group(io.proc);
        io.prio = self.stack.env().procs.prio(io.proc);
        self.latest[proc as usize] = self.submitted;
        self.input(Input::Submit(io));
    }

    /// The load stops: everything finishes.
    fn rest(&mut self) {
        // The delayed rerun asks every few ms, the longest setting is ten minutes.
        for _ in 0..400_000 {
            if self.finished.len() as u64 == self.submitted {
                return;
            }
            if self.device.is_empty() {
                self.now = self.now.max(self.wake.expect("checked"));
                self.input(Input::Tick);
            } else {
                self.now += Nanos::us(400);
                let req = self.device.remove(0);
                self.input(Input::Done { req, error: None });
            }
        }
        panic!("{}: it does not come to rest", self.what);
    }
}

fn values(t: &Tunable, rng: &mut Rng) -> Vec<u64> {
    let span = t.max.saturating_sub(t.min);
    let mut all = vec![t.min, t.default, t.max, t.min + rng.below(span.min(1000) + 1)];
    all.push(t.min + rng.below(span.max(1)));
    all.sort_unstable();
    all.dedup();
    all
}

fn profiles(entry: &Entry) -> &'static [Profile] {
    if entry.direct { &[Profile::MultiQueue] } else { &[Profile::MultiQueue, Profile::Legacy] }
}

/// What stands still by design is looked at elsewhere: requests of a future start (`mq_deadline.rs`), and those of K2
/// as published (`k2.rs`).
fn strands(entry: &Entry, t: &Tunable, base: u64) -> bool {
    match entry.name {
        "mq-deadline" => t.name == "base" || !t.keeps_promise(base),
        "k2" => t.name == "base" || base == 0,
        _ => false,
    }
}

/// The values to change among. K2's limit of 0 stops the drive until it is raised, which `contract.rs` and `k2.rs`
/// look at.
fn among(entry: &Entry, t: &Tunable, rng: &mut Rng) -> Vec<u64> {
    let mut all = values(t, rng);
    all.retain(|&v| v > 0 || (entry.name, t.name) != ("k2", "max_inflight"));
    all
}

/// A change under load, with these set before.
fn change(
    entry: &'static Entry,
    profile: Profile,
    before: &[(&str, u64)],
    (t, old, new): (&Tunable, u64, u64),
    seed: u64,
) {
    let what = format!("{} {profile:?} {before:?} {} {old} -> {new}", entry.name, t.name);
    let mut load = Load::new(entry, profile, seed, what);
    before.iter().for_each(|&(name, value)| load.set(name, value));
    load.set(t.name, old);
    (0..120).for_each(|_| load.step());
    load.set(t.name, new);
    assert_eq!(load.stack.scheduler().value(t.name), Some(new), "{}", load.what);
    (0..40).for_each(|_| load.step());
    load.rest();
}

fn bases(entry: &Entry) -> Vec<u64> {
    let base = entry.tunables.iter().find(|t| t.name == "base");
    base.map_or(Vec::new(), |t| (t.min..=t.max).collect())
}

#[test]
fn no_change_of_a_tunable_strands_io_or_leaves_a_wait_of_the_old_value() {
    let mut rng = Rng::new(11);
    let mut changes = 0;
    for entry in SCHEDULERS {
        let own = entry.tunables.iter().find(|t| t.name == "base").map_or(0, |t| t.default);
        for &profile in profiles(entry) {
            for t in entry.tunables.iter().filter(|t| !strands(entry, t, own)) {
                let all = among(entry, t, &mut rng);
                for &old in &all {
                    for &new in all.iter().filter(|&&new| new != old) {
                        changes += 1;
                        change(entry, profile, &[], (t, old, new), changes);
                    }
                }
            }
        }
    }
    assert!(changes > 2000, "{changes} changes");
}

#[test]
fn nor_under_any_base() {
    let mut rng = Rng::new(12);
    let mut changes = 0;
    for entry in SCHEDULERS {
        for base in bases(entry) {
            for t in entry.tunables.iter().filter(|t| !strands(entry, t, base)) {
                let all = among(entry, t, &mut rng);
                for (i, &old) in all.iter().enumerate() {
                    // Up and down, each value in turn.
                    let new = all[(i + 1) % all.len()];
                    let profile = profiles(entry)[i % profiles(entry).len()];
                    changes += 1;
                    change(entry, profile, &[("base", base)], (t, old, new), changes);
                }
            }
        }
    }
    assert!(changes > 800, "{changes} changes");
}

#[test]
fn nor_while_another_is_not_at_its_default() {
    let mut rng = Rng::new(13);
    let mut changes = 0;
    for entry in SCHEDULERS {
        for t in entry.tunables {
            for other in entry.tunables.iter().filter(|other| other.name != t.name) {
                let of_base = |base| strands(entry, t, base) || strands(entry, other, base);
                let bases = bases(entry);
                let base = bases.get(rng.below(bases.len().max(1) as u64) as usize).copied();
                if of_base(base.unwrap_or(0)) || rng.below(6) > 0 {
                    continue;
                }
                let (all, others) = (among(entry, t, &mut rng), among(entry, other, &mut rng));
                let pick = |of: &[u64], rng: &mut Rng| of[rng.below(of.len() as u64) as usize];
                let (old, new) = (pick(&all, &mut rng), pick(&all, &mut rng));
                let mut before: Vec<_> = base.map(|base| ("base", base)).into_iter().collect();
                before.push((other.name, pick(&others, &mut rng)));
                changes += 1;
                let profile = profiles(entry)[changes as usize % profiles(entry).len()];
                change(entry, profile, &before, (t, old, new), changes);
            }
        }
    }
    assert!(changes > 400, "{changes} changes");
}

/// A wait that is armed: where its row says so it is shortened, and under the bases that leave it, it stays.
#[test]
fn an_armed_wait_does_what_its_row_says_under_each_base() {
    let entry = find("bfq").expect("a scheduler");
    for base in bases(entry) {
        for t in entry.tunables.iter().filter(|t| t.name.starts_with("slice_idle")) {
            let promise = t.on_change_under(base);
            let (mut shortened, mut stayed) = (0, 0);
            for seed in 0..60 {
                let what = format!("base {base} {} seed {seed}", t.name);
                let mut load = Load::new(entry, Profile::MultiQueue, seed, what);
                load.set("base", base);
                load.set(t.name, t.max);
                (0..60 + seed).for_each(|_| load.step());
                let armed = load.armed();
                load.set(t.name, t.min + 1);
                match (armed, load.armed()) {
                    (Some(old), Some(new)) if new == old => stayed += 1,
                    (Some(old), Some(new)) if new < old => shortened += 1,
                    // It is over at once.
                    (Some(_), None) => shortened += 1,
                    (None, None) => {}
                    other => panic!("{}: {other:?}", load.what),
                }
            }
            match promise {
                OnChange::Waits => assert!(shortened > 0 && stayed == 0, "{base} {}", t.name),
                OnChange::LaterWaits => assert!(shortened == 0 && stayed > 0, "{base} {}", t.name),
                other => panic!("{}: {other:?}", t.name),
            }
        }
    }
}

/// The case that was found: the load stands still while the value changes, so nothing but the change ends
/// the wait.
#[test]
fn a_lowered_wait_ends_although_nothing_else_happens() {
    for entry in SCHEDULERS {
        let waits = |t: &&Tunable| {
            matches!(t.on_change, OnChange::Waits | OnChange::WaitingRequests | OnChange::Limits)
                && matches!(t.unit, Unit::Millis | Unit::Micros)
        };
        let bases = bases(entry);
        for t in entry.tunables.iter().filter(waits) {
            for &profile in profiles(entry) {
                for seed in 0..40 {
                    let base = bases.get(seed as usize % bases.len().max(1)).copied();
                    if strands(entry, t, base.unwrap_or(0)) {
                        continue;
                    }
                    let what = format!("{} {profile:?} {} seed {seed}", entry.name, t.name);
                    let mut load = Load::new(entry, profile, seed, what);
                    base.into_iter().for_each(|base| load.set("base", base));
                    load.set(t.name, t.max);
                    (0..60 + seed).for_each(|_| load.step());
                    while let Some(req) = load.device.pop() {
                        load.input(Input::Done { req, error: None });
                    }
                    load.set(t.name, t.default);
                    // `check` holds every wait from here on against the new values; in the multi-queue
                    // profile the delayed rerun cuts each into pieces, so their sum counts as well.
                    let (since, left) = (load.now, load.submitted - load.finished.len() as u64);
                    load.rest();
                    let most = Nanos(load.longest().0 * (left + 1));
                    assert!(load.now <= since + most, "{}: {left} left", load.what);
                }
            }
        }
    }
}
