//! Scenario tables for a lone scheduler, in the notation of the specifications.
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

use super::scheduler::Rig;
use crate::device::Device;
use crate::group::ProcId;
use crate::request::{Flags, Io, Op, ReqId, Side};
use crate::sched::{At, Dispatch};
use crate::unit::{IoPrio, QueueId};
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::ops::{Deref, DerefMut};

/// A scheduler with names for its requests. Methods of the rig that take a request take its name here.
#[derive(Debug)]
pub struct Bench {
    /// The scheduler and its surroundings.
    pub rig: Rig,
    /// Requests by name, until they are completed.
    pub ids: BTreeMap<String, ReqId>,
}

impl Deref for Bench {
    type Target = Rig;

    fn deref(&self) -> &Rig {
        &self.rig
    }
}

impl DerefMut for Bench {
    fn deref_mut(&mut self) -> &mut Rig {
        &mut self.rig
    }
}

/// Plays a table on a fresh scheduler with these tunables.
#[track_caller]
pub fn scenario(name: &str, tunables: &[(&str, u64)], table: &str) -> Bench {
    let mut bench = Bench::new(name, tunables);
    bench.run(table);
    bench
}

impl Bench {
    /// A single-queue device, 1 ms ticks, a process with best-effort priority.
    pub fn new(name: &str, tunables: &[(&str, u64)]) -> Bench {
        Bench::of(Rig::named(name), tunables)
    }

    /// The same on that device.
    pub fn on(device: Device, name: &str, tunables: &[(&str, u64)]) -> Bench {
        Bench::of(Rig::named_on(device, name), tunables)
    }

    fn of(rig: Rig, tunables: &[(&str, u64)]) -> Bench {
        let mut bench = Bench { rig, ids: BTreeMap::new() };
        for &(name, value) in tunables {
            bench.set(name, value);
        }
        bench
    }

    /// Request that a name stands for.
    pub fn io(&mut self, name: &str, start: u64, sectors: u64) -> Io {
        let (prio, rest) = match name {
            n if n.starts_with("rt") => (IoPrio::rt(4), &n[2..]),
            n if n.starts_with("be") => (IoPrio::be(4), &n[2..]),
            n if n.starts_with("id") => (IoPrio::idle(), &n[2..]),
            n => (IoPrio::NONE, n),
        };
        let op = match rest {
            r if ["w", "bw", "aw", "sw"].iter().any(|w| r.starts_with(w)) => Op::Write,
            r if r.starts_with('D') => Op::Discard,
            r if r.starts_with('Z') => Op::WriteZeroes,
            _ => Op::Read,
        };
        let flags = if rest.starts_with("sw") { Flags::SYNC } else { Flags::NONE };
        Io { prio, ..self.rig.io(ProcId(0), op, start, sectors, flags) }
    }

    /// Makes a request of that name and inserts it.
    #[track_caller]
    pub fn insert(&mut self, name: &str, io: Io, at: At) -> ReqId {
        let id = self.rig.submit(io, at);
        assert!(self.ids.insert(name.into(), id).is_none(), "two requests are called {name}");
        id
    }

    /// The request of that name.
    #[track_caller]
    pub fn id(&self, name: &str) -> ReqId {
        *self.ids.get(name).unwrap_or_else(|| panic!("no request is called {name}"))
    }

    /// The name of a request.
    #[track_caller]
    pub fn name(&self, id: ReqId) -> String {
        let named = self.ids.iter().find(|&(_, &i)| i == id);
        named.expect("every request has a name").0.to_string()
    }

    /// The name of the request dispatched for `queue`, `-` for Empty, `~` for Idle.
    pub fn dispatch_for(&mut self, queue: u16) -> String {
        match self.rig.dispatch_for(QueueId(queue)) {
            Dispatch::Issue(id) => self.name(id),
            Dispatch::Idle => "~".into(),
            Dispatch::Empty => "-".into(),
        }
    }

    /// The device completes it.
    #[track_caller]
    pub fn done(&mut self, name: &str) {
        let id = self.id(name);
        self.rig.complete(id);
        self.ids.remove(name);
    }

    /// The device gives it back; it is inserted at the head again.
    #[track_caller]
    pub fn give_back(&mut self, name: &str) {
        let id = self.id(name);
        self.rig.give_back(id);
    }

    /// `gone` joins `kept` from behind.
    #[track_caller]
    pub fn join(&mut self, kept: &str, gone: &str) {
        let (k, g) = (self.id(kept), self.id(gone));
        self.rig.join(k, g);
        self.ids.remove(gone);
    }

    /// A bio joins `kept` at that side.
    #[track_caller]
    pub fn join_bio(&mut self, kept: &str, io: Io, side: Side) {
        let id = self.id(kept);
        self.rig.join_bio(id, io, side);
    }

    /// Carries out the actions of one line; the answers of the dispatches.
    fn actions(&mut self, line: &str) -> Vec<String> {
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
                self.rig.set(name, value.parse().expect("a number"));
            } else {
                self.insertion(word);
            }
        }
        answers
    }

    fn insertion(&mut self, word: &str) {
        let (at, word) = match word.strip_prefix("head:") {
            Some(rest) => (At::Head, rest),
            None => (At::Tail, word),
        };
        let (name, place) = word.split_once('@').expect("NAME@SECTOR");
        let (start, sectors) = place.split_once('+').unwrap_or((place, "8"));
        let number = |text: &str| text.parse().expect("a number of sectors");
        let io = self.io(name, number(start), number(sectors));
        self.insert(name, io, at);
    }

    /// Plays a table and compares.
    #[track_caller]
    pub fn run(&mut self, table: &str) {
        let (mut actual, mut same) = (String::new(), true);
        for line in table.lines().map(str::trim).filter(|l| !l.is_empty()) {
            let (left, want) = line.split_once("->").unwrap_or((line, ""));
            let (ms, actions) = left.trim().split_once(' ').expect("a time, then actions");
            self.rig.at_ms(ms.parse().expect("the time in ms"));
            let got = self.actions(actions);
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
