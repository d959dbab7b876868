//! A scheduler, a device that keeps a few requests, and the book that is kept on them: every rule of the trait that can
//! be seen from outside is checked at each step.

use crate::request::{Op, ReqId, Side};
use crate::sched::{At, Depth, Dispatch, Entry, Merged, Open, Scheduler, Search, Setup};
use crate::stage::Change;
use crate::testkit::Rng;
use crate::{Device, Env, Flags, GroupId, Instant, Io, IoPrio, Nanos, ProcId, QueueId, Sectors};
use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// Request slots.
pub const SLOTS: usize = 64;
const BIOS: usize = 512;
const PROCS: u32 = 6;
/// Requests that the device keeps.
pub const DEPTH: usize = 8;
/// Small, so that random places are often adjacent and often equal.
const SECTORS: u64 = 2048;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum State {
    Free,
    Waiting(ReqId),
    /// In the device.
    Flying(ReqId),
    /// Waits again after it was given back; nothing joins it.
    Returned(ReqId),
}

/// One scheduler under a random load.
#[derive(Debug)]
pub struct Harness {
    pub entry: &'static Entry,
    pub env: Env,
    pub sched: Box<dyn Scheduler>,
    pub now: Instant,
    rng: Rng,
    book: [State; SLOTS],
    pub flying: Vec<ReqId>,
    pub waiting: usize,
    pub joined: u64,
    pub issued: u64,
    prios: [IoPrio; PROCS as usize],
}

impl Harness {
    pub fn new(entry: &'static Entry, queues: u16, seed: u64) -> Harness {
        let mut device = Device::new(Sectors(SECTORS), DEPTH as u32);
        device.hw_queues = queues;
        device.profile = entry.profile;
        device.rotational = seed % 2 == 1;
        device.nr_requests = SLOTS as u32;
        let mut env = Env::new(device, SLOTS, BIOS);
        let group = env.groups.add(GroupId::ROOT, "a");
        let prios = [
            IoPrio::be(4),
            IoPrio::be(0),
            IoPrio::rt(4),
            IoPrio::idle(),
            IoPrio::be(7),
            IoPrio::be(4),
        ];
        for (i, prio) in prios.into_iter().enumerate() {
            env.procs.add(if i % 2 == 0 { GroupId::ROOT } else { group }, prio);
        }
        let setup = Setup { device: &env.device, requests: SLOTS, now: Instant::ZERO };
        let mut sched = (entry.build)(&setup);
        sched.changed(Instant::ZERO, &Change::GroupAdded(group), &mut env.cx());
        Harness {
            entry,
            env,
            sched,
            now: Instant::ZERO,
            rng: Rng::new(seed),
            book: [State::Free; SLOTS],
            flying: Vec::with_capacity(SLOTS),
            waiting: 0,
            joined: 0,
            issued: 0,
            prios,
        }
    }

    fn io(&mut self) -> Io {
        let proc = self.rng.below(PROCS.into()) as u32;
        let start = self.rng.below(SECTORS / 8 - 4) * 8;
        let mut io = Io::read(0, ProcId(proc), start, 8 * (1 + self.rng.below(2)));
        if self.rng.one_in(3) {
            io.op = Op::Write;
            if self.rng.one_in(2) {
                io.flags = Flags::SYNC;
            }
        }
        io.cpu = proc;
        io.group = self.env.procs.group(io.proc);
        io.prio = self.env.procs.prio(io.proc);
        io
    }

    /// A bio arrives: it joins a request or becomes one. False when there is no room.
    pub fn submit(&mut self) -> bool {
        let io = self.io();
        if self.join(&io) {
            return true;
        }
        if let Depth::Word(n) = self.sched.depth_limit(self.now, &io, &mut self.env.cx()) {
            // What the registry line announces decides how many waiters are woken at a time.
            let word = self.env.device.tag_word();
            let least = self.entry.tag_percent_min.map_or(1, |percent| word * percent / 100);
            assert!(n >= least.max(1), "{n} of {word} tags");
        }
        let sync = self.env.device.is_sync(io.op, io.flags);
        let queue = self.env.device.queue_of(io.cpu);
        let Some(id) = self.env.requests.create(io, sync, queue, self.now) else {
            return false;
        };
        assert_eq!(self.book[id.index()], State::Free);
        self.sched.prepare(self.now, id, &mut self.env.cx());
        let elevator = self.entry.search != Search::Own;
        let open = elevator && self.sched.open(id, &self.env.cx()) == Open::Full;
        if open && self.join_at_insertion(id) {
            return true;
        }
        self.insert(id, At::Tail);
        true
    }

    pub fn insert(&mut self, id: ReqId, at: At) {
        self.sched.insert(self.now, id, at, &mut self.env.cx());
        self.book[id.index()] =
            if at == At::Head { State::Returned(id) } else { State::Waiting(id) };
        self.waiting += 1;
    }

    /// May `io` join `into`, position aside?
    fn generic(&self, io: &Io, into: ReqId) -> bool {
        let r = &self.env.requests[into];
        self.book[into.index()] == State::Waiting(into)
            && (r.op, r.prio, r.group) == (io.op, io.prio, io.group)
    }

    /// The elevator search (or the scheduler's own) and what follows it.
    fn join(&mut self, io: &Io) -> bool {
        let by_hash = (0..SLOTS).find_map(|slot| match self.book[slot] {
            State::Waiting(id) if self.env.requests[id].end() == io.start => Some((id, Side::Back)),
            _ => None,
        });
        let own = self.entry.search == Search::Own;
        let candidate = match by_hash {
            Some(found) if !own => Some(found),
            _ => self.sched.find_merge(self.now, io, &mut self.env.cx()),
        };
        let Some((id, side)) = candidate else { return false };
        assert!(matches!(self.book[id.index()], State::Waiting(i) if i == id), "only what waits");
        if !self.generic(io, id) || !self.sched.may_merge(self.now, io, id, &mut self.env.cx()) {
            return false;
        }
        let r = &self.env.requests[id];
        let fits = match side {
            Side::Back => r.end() == io.start,
            Side::Front => io.end() == r.start,
        };
        assert!(fits, "a candidate lies beside the bio");
        let Some(bio) = self.env.requests.add_bio(*io, self.now) else { return false };
        self.env.requests.join_bio(id, bio, side);
        self.joined += 1;
        if !self.join_neighbour(id, side) {
            self.sched.merged(self.now, id, Merged::Bio(side), &mut self.env.cx());
        }
        true
    }

    /// After a bio merge: the neighbour on that side may have become contiguous.
    fn join_neighbour(&mut self, id: ReqId, side: Side) -> bool {
        let Some(other) = self.sched.neighbour(id, side, &self.env.cx()) else { return false };
        let waits = matches!(self.book[other.index()], State::Waiting(i) if i == other);
        assert!(other != id && waits, "{}: a neighbour is another that waits", self.entry.name);
        let (kept, gone) = if side == Side::Back { (id, other) } else { (other, id) };
        self.absorb(kept, gone)
    }

    /// A request about to be inserted may be absorbed by one that ends where it begins.
    fn join_at_insertion(&mut self, id: ReqId) -> bool {
        let start = self.env.requests[id].start;
        let found = (0..SLOTS).find_map(|slot| match self.book[slot] {
            State::Waiting(k) if self.env.requests[k].end() == start => Some(k),
            _ => None,
        });
        let Some(kept) = found else { return false };
        let io = self.env.requests.bios(id).next().map(|(_, io)| *io).unwrap();
        self.sched.may_merge(self.now, &io, kept, &mut self.env.cx()) && self.absorb(kept, id)
    }

    fn absorb(&mut self, kept: ReqId, gone: ReqId) -> bool {
        let (k, g) = (self.env.requests[kept], self.env.requests[gone]);
        let alike = (k.op, k.prio, k.group) == (g.op, g.prio, g.group);
        let waits = self.book[kept.index()] == State::Waiting(kept)
            && matches!(self.book[gone.index()], State::Waiting(_) | State::Free);
        if !alike || !waits || k.end() != g.start {
            return false;
        }
        self.sched.merged(self.now, kept, Merged::Request(gone), &mut self.env.cx());
        self.env.requests.join(kept, gone);
        if self.book[gone.index()] != State::Free {
            self.waiting -= 1;
            self.book[gone.index()] = State::Free;
        }
        true
    }

    /// Asks once for `queue`; what was issued is flying.
    pub fn dispatch(&mut self, queue: u16) -> Dispatch {
        let answer = self.sched.dispatch(self.now, QueueId(queue), &mut self.env.cx());
        // Who searches for merges here looks at what waits, and asks `may_merge`.
        self.env.closed.clear();
        match answer {
            Dispatch::Issue(id) => {
                let state = self.book[id.index()];
                let waited = matches!(state, State::Waiting(i) | State::Returned(i) if i == id);
                assert!(waited, "{} issued {id:?}, which is {state:?}", self.entry.name);
                self.book[id.index()] = State::Flying(id);
                self.flying.push(id);
                self.waiting -= 1;
                self.issued += 1;
            }
            Dispatch::Idle => assert!(self.waiting > 0, "Idle although nothing waits"),
            Dispatch::Empty => {
                let one = self.env.device.hw_queues == 1;
                assert!(
                    !one || self.waiting == 0,
                    "{}: Empty, {} wait",
                    self.entry.name,
                    self.waiting
                );
            }
        }
        answer
    }

    pub fn finish(&mut self, index: usize) {
        let id = self.flying.remove(index);
        self.sched.complete(self.now, id, &mut self.env.cx());
        self.env.requests.remove(id);
        self.book[id.index()] = State::Free;
    }

    pub fn give_back(&mut self, index: usize) {
        let id = self.flying.remove(index);
        self.sched.requeue(self.now, id, &mut self.env.cx());
        self.sched.prepare(self.now, id, &mut self.env.cx());
        self.insert(id, At::Head);
    }

    pub fn pass(&mut self, time: Nanos) {
        let until = self.now + time;
        while let Some(at) = self.sched.next_timer().filter(|&at| at <= until) {
            self.now = self.now.max(at);
            self.sched.timer(self.now, &mut self.env.cx());
            let next = self.sched.next_timer();
            assert!(next.is_none_or(|next| next > self.now), "the timer did not move");
        }
        self.now = until;
    }

    /// One random step of a load; `settings` also allows what may allocate.
    pub fn step(&mut self, settings: bool) {
        let us = self.rng.below(400);
        self.pass(Nanos::us(us));
        match self.rng.below(if settings { 120 } else { 100 }) {
            0..40 => {
                self.submit();
            }
            40..70 => {
                if self.flying.len() < DEPTH {
                    let queue = self.rng.below(self.env.device.hw_queues.into()) as u16;
                    self.dispatch(queue);
                }
            }
            70..95 => {
                if !self.flying.is_empty() {
                    let index = self.rng.below(self.flying.len() as u64) as usize;
                    self.finish(index);
                }
            }
            95..98 => {
                if !self.flying.is_empty() {
                    self.give_back(0);
                }
            }
            98..100 => {
                // An early wake-up: not its time yet.
                self.sched.timer(self.now, &mut self.env.cx());
            }
            100..105 => self.change_priority(),
            105..108 => self.exit(),
            108..111 => self.change_group(),
            111 => self.change_device(),
            _ => self.set_something(),
        }
    }

    fn change_priority(&mut self) {
        let proc = self.rng.below(PROCS.into()) as usize;
        let prio = self.prios[self.rng.below(PROCS.into()) as usize];
        let id = ProcId(proc as u32);
        self.env.procs.get_mut(id).unwrap().prio = prio;
        self.sched.changed(self.now, &Change::ProcPriority(id), &mut self.env.cx());
    }

    /// A process exits, perhaps with requests pending; another takes its number over in this harness.
    fn exit(&mut self) {
        let id = ProcId(self.rng.below(PROCS.into()) as u32);
        self.env.procs.get_mut(id).unwrap().alive = false;
        self.sched.changed(self.now, &Change::ProcExited(id), &mut self.env.cx());
        self.env.procs.get_mut(id).unwrap().alive = true;
    }

    /// A process changes its group, I/O pending or not; now and then to a new one, and one that nobody is in goes.
    fn change_group(&mut self) {
        if self.rng.one_in(3) && self.env.groups.len() < 20 {
            let group = self.env.groups.add(GroupId::ROOT, "later");
            self.sched.changed(self.now, &Change::GroupAdded(group), &mut self.env.cx());
        }
        let living: Vec<GroupId> = self.env.groups.living().collect();
        let to = living[self.rng.below(living.len() as u64) as usize];
        let proc = ProcId(self.rng.below(PROCS.into()) as u32);
        let from = core::mem::replace(&mut self.env.procs.get_mut(proc).unwrap().group, to);
        let change = Change::ProcMoved { proc, from, to };
        self.sched.changed(self.now, &change, &mut self.env.cx());
        let left = (0..PROCS).all(|p| self.env.procs.group(ProcId(p)) != from);
        if left && from != GroupId::ROOT {
            self.sched.changed(self.now, &Change::GroupRemoved(from), &mut self.env.cx());
            self.env.groups.remove(from);
        }
    }

    fn change_device(&mut self) {
        self.env.device.rotational = self.rng.one_in(2);
        self.sched.changed(self.now, &Change::Device, &mut self.env.cx());
    }

    fn set_something(&mut self) {
        let tunables = self.entry.tunables;
        if tunables.is_empty() {
            return;
        }
        let t = &tunables[self.rng.below(tunables.len() as u64) as usize];
        let value = match self.rng.below(3) {
            0 => t.min,
            1 => t.max.min(t.min + 20),
            _ => t.default,
        };
        self.sched.set(self.now, t.name, value, &mut self.env.cx()).unwrap();
    }

    /// The load stops: everything that waits comes out in bounded time.
    pub fn run_dry(&mut self) {
        self.set_going();
        let queues = self.env.device.hw_queues;
        for round in 0..20_000u64 {
            let mut moved = false;
            for queue in 0..queues {
                while self.flying.len() < DEPTH
                    && matches!(self.dispatch(queue), Dispatch::Issue(_))
                {
                    moved = true;
                }
            }
            if !self.flying.is_empty() {
                self.finish(0);
                self.pass(Nanos::us(50));
            } else if self.waiting == 0 {
                break;
            } else if !moved {
                // Nothing flies and nothing comes: time must do. The delayed rerun takes 3 ms; the pauses
                // grow so that the longest settings of the tunables pass.
                let pause =
                    self.sched.next_timer().map_or(Nanos::ms(3 + round), |at| at.since(self.now));
                self.pass(pause);
            }
        }
        assert_eq!(self.waiting, 0, "{}: {} requests never came", self.entry.name, self.waiting);
        assert!(self.env.requests.is_empty());
        self.assert_empty();
    }

    /// No setting is left under which requests may stand still for ever.
    fn set_going(&mut self) {
        for t in self.entry.tunables {
            if t.stops_at.is_some() && t.stops_at == self.sched.value(t.name) {
                self.sched.set(self.now, t.name, t.default, &mut self.env.cx()).unwrap();
            }
        }
    }

    /// Asking an empty scheduler is answered by Empty and changes nothing.
    pub fn assert_empty(&mut self) {
        for queue in 0..self.env.device.hw_queues {
            let before = state(&*self.sched);
            assert_eq!(self.dispatch(queue), Dispatch::Empty, "{}", self.entry.name);
            assert_same(&before, &state(&*self.sched), "refused or Empty, but changed");
        }
        assert_eq!(self.sched.drain(self.now, &mut self.env.cx()), None);
    }
}

/// Everything a scheduler knows, as text; a counter of calls, which a stage may keep for its own checks, is
/// no part of it.
pub fn state(sched: &dyn Scheduler) -> String {
    let all = format!("{sched:?}");
    match all.split_once("calls: ") {
        Some((before, after)) => {
            format!("{before}{}", after.trim_start_matches(|c: char| c.is_ascii_digit()))
        }
        None => all,
    }
}

/// Fails with the first difference only: the whole states are pages long.
#[track_caller]
pub fn assert_same(before: &str, after: &str, what: &str) {
    if let Some(at) = before.bytes().zip(after.bytes()).position(|(a, b)| a != b) {
        let near = |s: &str| s[at.saturating_sub(60)..(at + 60).min(s.len())].to_string();
        panic!("{what}: was ...{}..., is ...{}...", near(before), near(after));
    }
    assert_eq!(before.len(), after.len(), "{what}");
}
