//! A bench for a lone scheduler: scenario tables in the notation of the specifications.
//!
//! One line per moment: the time in ms, then what happens, then (behind `->`) what the dispatches
//! answered. On a mismatch the whole table is printed with the actual answers.
//!
//! | word | meaning |
//! |---|---|
//! | `r1@500` | insert request r1 at sector 500, 8 sectors long |
//! | `w1@8+16` | the same, 16 sectors long |
//! | `head:h1@70` | insert at the head |
//! | `x3` | three dispatches, whose answers stand behind `->`; `-` is Empty, `~` is Idle |
//! | `done:r1` | the device completes r1 |
//! | `back:r1` | the device gives r1 back; it is inserted at the head again |
//! | `join:r1+r3` | r3 is absorbed by r1, which ends where r3 begins |
//! | `set:fifo_batch=2` | a tunable |
//!
//! The letters of a name say what it is: a leading `rt`, `be`, `id` sets the priority class; a `w` (also
//! behind those, and `bw`, `aw`) makes it an async write, `sw` a sync write, `D` a discard, `Z` a
//! write-zeroes; anything else is a read.
#![allow(dead_code, reason = "each test binary uses a part of the bench")]

use hoistway::device::Profile;
use hoistway::sched::{self, At, Dispatch, Merged, Scheduler, Setup};
use hoistway::stage::{Change, Figure};
use hoistway::{
    Device, Env, Flags, Instant, Io, IoPrio, Nanos, Op, ProcId, QueueId, ReqId, Sectors,
};
use std::collections::BTreeMap;

pub const SLOTS: usize = 256;

/// One scheduler, its surroundings, and names for its requests.
pub struct Bench {
    pub env: Env,
    pub sched: Box<dyn Scheduler>,
    pub now: Instant,
    pub ids: BTreeMap<String, ReqId>,
    next_io: u64,
}

impl Bench {
    /// A single-queue device, 1 ms ticks, a process with best-effort priority.
    pub fn new(name: &str, tunables: &[(&str, u64)]) -> Bench {
        Bench::on(Device::new(Sectors(1 << 30), 32), name, tunables)
    }

    pub fn on(mut device: Device, name: &str, tunables: &[(&str, u64)]) -> Bench {
        let entry = sched::find(name).expect("the test names a registered scheduler");
        device.tick = Nanos::ms(1);
        device.profile = entry.profile;
        if device.profile == Profile::Legacy {
            device.max_sectors = Sectors(1024);
        }
        let mut env = Env::new(device, SLOTS, 4 * SLOTS);
        env.procs.add(hoistway::GroupId::ROOT, IoPrio::be(4));
        let setup = Setup { device: &env.device, requests: SLOTS, now: Instant::ZERO };
        let sched = (entry.build)(&setup);
        let (now, ids) = (Instant::ZERO, BTreeMap::new());
        let mut bench = Bench { env, sched, now, ids, next_io: 0 };
        for &(name, value) in tunables {
            bench.set(name, value);
        }
        bench
    }

    pub fn at_ms(&mut self, ms: u64) {
        let at = Instant::ZERO + Nanos::ms(ms);
        assert!(at >= self.now, "time goes forward");
        self.now = at;
    }

    pub fn set(&mut self, name: &str, value: u64) {
        self.sched.set(self.now, name, value, &mut self.env.cx()).unwrap();
    }

    /// What the name of a request says about it.
    pub fn io(&mut self, name: &str, start: u64, sectors: u64) -> Io {
        let (prio, rest) = match name {
            n if n.starts_with("rt") => (IoPrio::rt(4), &n[2..]),
            n if n.starts_with("be") => (IoPrio::be(4), &n[2..]),
            n if n.starts_with("id") => (IoPrio::idle(), &n[2..]),
            n => (IoPrio::NONE, n),
        };
        self.next_io += 1;
        let mut io = Io::read(self.next_io, ProcId(0), start, sectors);
        if ["w", "bw", "aw", "sw"].iter().any(|w| rest.starts_with(w)) {
            io.op = Op::Write;
        } else if rest.starts_with('D') {
            io.op = Op::Discard;
        } else if rest.starts_with('Z') {
            io.op = Op::WriteZeroes;
        }
        if rest.starts_with("sw") {
            io.flags = Flags::SYNC;
        }
        io.prio = prio;
        io
    }

    /// Makes a request and inserts it.
    pub fn insert(&mut self, name: &str, io: Io, at: At) -> ReqId {
        let sync = self.env.device.is_sync(io.op, io.flags);
        let queue = self.env.device.queue_of(io.cpu);
        let id = self.env.requests.create(io, sync, queue, self.now).expect("the table has room");
        self.sched.prepare(self.now, id, &mut self.env.cx());
        self.sched.insert(self.now, id, at, &mut self.env.cx());
        assert!(self.ids.insert(name.into(), id).is_none(), "two requests are called {name}");
        id
    }

    pub fn id(&self, name: &str) -> ReqId {
        *self.ids.get(name).unwrap_or_else(|| panic!("no request is called {name}"))
    }

    pub fn name(&self, id: ReqId) -> String {
        self.ids.iter().find(|&(_, &i)| i == id).expect("every request has a name").0.clone()
    }

    /// The name of the request dispatched for `queue`, `-` for Empty, `~` for Idle.
    pub fn dispatch_for(&mut self, queue: u16) -> String {
        match self.sched.dispatch(self.now, QueueId(queue), &mut self.env.cx()) {
            Dispatch::Issue(id) => self.name(id),
            Dispatch::Idle => "~".into(),
            Dispatch::Empty => "-".into(),
        }
    }

    pub fn done(&mut self, name: &str) {
        let id = self.id(name);
        self.sched.complete(self.now, id, &mut self.env.cx());
        self.env.requests.remove(id);
        self.ids.remove(name);
    }

    pub fn give_back(&mut self, name: &str) {
        let id = self.id(name);
        self.sched.requeue(self.now, id, &mut self.env.cx());
        self.sched.prepare(self.now, id, &mut self.env.cx());
        self.sched.insert(self.now, id, At::Head, &mut self.env.cx());
    }

    /// `gone` joins `kept` from behind.
    pub fn join(&mut self, kept: &str, gone: &str) {
        let (k, g) = (self.id(kept), self.id(gone));
        assert_eq!(self.env.requests[k].end(), self.env.requests[g].start, "contiguous");
        self.sched.merged(self.now, k, Merged::Request(g), &mut self.env.cx());
        self.env.requests.join(k, g);
        self.ids.remove(gone);
    }

    /// A bio joins `kept` at that side.
    pub fn join_bio(&mut self, kept: &str, io: Io, side: hoistway::request::Side) {
        let id = self.id(kept);
        let bio = self.env.requests.add_bio(io, self.now).expect("room for a bio");
        self.env.requests.join_bio(id, bio, side);
        self.sched.merged(self.now, id, Merged::Bio(side), &mut self.env.cx());
    }

    pub fn change(&mut self, change: Change) {
        self.sched.changed(self.now, &change, &mut self.env.cx());
    }

    /// A figure of the scheduler.
    pub fn figure(&self, name: &str, of: Option<u32>) -> i64 {
        let mut found = None;
        self.sched.figures(&mut |f: Figure| {
            if f.name == name && f.of == of {
                found = Some(f.value);
            }
        });
        found.unwrap_or_else(|| panic!("no figure {name} of {of:?}"))
    }

    /// Carries out one line without its time; the answers of the dispatches.
    fn play(&mut self, line: &str) -> Vec<String> {
        let mut answers = Vec::new();
        for word in line.split_whitespace() {
            if let Some(n) = word.strip_prefix('x') {
                let n: usize = n.parse().expect("x is followed by a number");
                answers.extend((0..n).map(|_| self.dispatch_for(0)));
            } else if let Some(name) = word.strip_prefix("done:") {
                self.done(name);
            } else if let Some(name) = word.strip_prefix("back:") {
                self.give_back(name);
            } else if let Some(pair) = word.strip_prefix("join:") {
                let (kept, gone) = pair.split_once('+').expect("join:KEPT+GONE");
                self.join(kept, gone);
            } else if let Some(pair) = word.strip_prefix("set:") {
                let (name, value) = pair.split_once('=').expect("set:NAME=VALUE");
                self.set(name, value.parse().expect("a number"));
            } else {
                self.play_insert(word);
            }
        }
        answers
    }

    fn play_insert(&mut self, word: &str) {
        let (at, word) = match word.strip_prefix("head:") {
            Some(rest) => (At::Head, rest),
            None => (At::Tail, word),
        };
        let (name, place) = word.split_once('@').expect("NAME@SECTOR");
        let (start, sectors) = place.split_once('+').unwrap_or((place, "8"));
        let io = self.io(name, start.parse().unwrap(), sectors.parse().unwrap());
        self.insert(name, io, at);
    }

    /// Plays a table on this bench and compares.
    #[track_caller]
    pub fn run(&mut self, table: &str) {
        let (mut actual, mut same) = (String::new(), true);
        for line in table.lines().map(str::trim).filter(|l| !l.is_empty()) {
            let (left, want) = line.split_once("->").unwrap_or((line, ""));
            let (ms, actions) = left.trim().split_once(' ').expect("a time, then actions");
            self.at_ms(ms.parse().expect("the time in ms"));
            let got = self.play(actions);
            let good = want.split_whitespace().eq(got.iter().map(String::as_str));
            same &= good;
            let mark = if good { ' ' } else { '!' };
            let arrow =
                if got.is_empty() { String::new() } else { format!(" -> {}", got.join(" ")) };
            actual.push_str(&format!("{mark} {}{arrow}\n", left.trim()));
        }
        assert!(same, "expected:\n{table}\nactual (differing lines marked):\n{actual}");
    }
}

/// Plays a table on a fresh scheduler.
#[track_caller]
pub fn scenario(name: &str, tunables: &[(&str, u64)], table: &str) -> Bench {
    let mut bench = Bench::new(name, tunables);
    bench.run(table);
    bench
}

/// A small generator for tests: splitmix64.
pub struct Rng(pub u64);

impl Rng {
    pub fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Uniform in `0..n`; the bias of the modulus is of no interest here.
    pub fn below(&mut self, n: u64) -> u64 {
        self.word() % n
    }

    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}
