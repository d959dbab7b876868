//! What a tunable changed at run time must never do: strand I/O, or leave a wait of the old value behind.
//!
//! Every tunable of every scheduler is changed under load, in both profiles, from each of its minimum,
//! default, maximum and some values between to each other. At every moment something queued implies
//! something at the device or a time to wake, that time is within what the new values allow, and in the end
//! everything finishes once. (Controllers: `controller_contract.rs`.)

use hoistway::sched::{Entry, SCHEDULERS};
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
        let scheduler = self.stack.scheduler();
        let of = |t: &Tunable| {
            let value = scheduler.value(t.name).unwrap_or(t.default);
            match t.unit {
                Unit::Nanos => Nanos(value.min(1_000_000_000_000)),
                Unit::Micros => Nanos::us(value),
                Unit::Millis => Nanos::ms(value),
                Unit::Secs => Nanos::secs(value),
                _ => Nanos::ZERO,
            }
        };
        let entry = self.stack.scheduler_entry();
        // It waits three times slice_idle for a raised queue (specs/bfq.md 11.6).
        let times = if entry.name == "bfq-v4" { 3 } else { 1 };
        entry.tunables.iter().map(of).max().unwrap_or(Nanos::ZERO) * times + OTHER_TIMES
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

#[test]
fn no_change_of_a_tunable_strands_io_or_leaves_a_wait_of_the_old_value() {
    let mut rng = Rng::new(11);
    let mut changes = 0;
    for entry in SCHEDULERS {
        for &profile in profiles(entry) {
            for t in entry.tunables {
                // mq-deadline as the kernel has it strands by design; that is what its default mends.
                let reference = ["mq-deadline", "k2"].contains(&entry.name) && t.name == "base";
                let mut all = values(t, &mut rng);
                if entry.name == "k2" && t.name == "max_inflight" {
                    // It stops the drive until it is raised, which `contract.rs` and `k2.rs` look at.
                    all.retain(|&v| v > 0);
                }
                for &old in &all {
                    for &new in all.iter().filter(|&&new| new != old && !reference) {
                        changes += 1;
                        let what = format!("{} {profile:?} {} {old} -> {new}", entry.name, t.name);
                        let mut load = Load::new(entry, profile, changes, what);
                        load.set(t.name, old);
                        (0..120).for_each(|_| load.step());
                        load.set(t.name, new);
                        assert_eq!(load.stack.scheduler().value(t.name), Some(new));
                        (0..40).for_each(|_| load.step());
                        load.rest();
                    }
                }
            }
        }
    }
    assert!(changes > 2000, "{changes} changes");
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
        for t in entry.tunables.iter().filter(waits) {
            for &profile in profiles(entry) {
                for seed in 0..40 {
                    let what = format!("{} {profile:?} {} seed {seed}", entry.name, t.name);
                    let mut load = Load::new(entry, profile, seed, what);
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
