//! The contract of `Controller`, and what the stack promises to controllers, with a test controller at
//! each gate: what is held is released, nothing is lost or reordered within a group and direction, every
//! bio that passed is told of exactly once more, and `Delay` comes out.

use hoistway::ctl::{Controller, Entry, Gate, Verdict};
use hoistway::request::Dir;
use hoistway::sched;
use hoistway::setting::TunableError;
use hoistway::stage::{Change, Stage, StageInfo};
use hoistway::testkit::Rng;
use hoistway::testkit::stack::Rig;
use hoistway::unit::{Instant, Nanos};
use hoistway::{
    BioId, Cx, Device, Flags, GroupId, Input, Io, Op, ProcId, Profile, ReqId, Sectors, Stack,
};
use std::collections::{BTreeMap, VecDeque};
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex};

/// Which lane a bio belongs to: inside one, the order is kept.
type LaneOf = (u32, bool);

/// What the test sees of a controller inside the stack.
#[derive(Debug, Default)]
struct Book {
    /// I/Os that arrived, that were passed or released, in order.
    arrived: Vec<(u64, LaneOf)>,
    left: Vec<(u64, LaneOf)>,
    /// Bios told of by `merged`, and those in requests told of by `complete`.
    merged: u64,
    completed: u64,
    requests_completed: Vec<ReqId>,
    requests_issued: Vec<ReqId>,
    groups: Vec<GroupId>,
}

/// Holds every third bio and all behind it in its lane for a while.
#[derive(Debug)]
struct Keeper {
    book: Arc<Mutex<Book>>,
    lanes: BTreeMap<LaneOf, VecDeque<BioId>>,
    until: Option<Instant>,
    opened: bool,
    seen: u64,
    hold: Nanos,
    delay: Nanos,
}

fn lane(io: &Io) -> LaneOf {
    (io.group.0, io.op.dir() == Dir::Write)
}

impl Controller for Keeper {
    fn submit(&mut self, now: Instant, bio: BioId, cx: &mut Cx<'_>) -> Verdict {
        let io = *cx.requests.bio(bio);
        let mut book = self.book.lock().unwrap();
        book.arrived.push((io.id.0, lane(&io)));
        self.seen += 1;
        let queue = self.lanes.entry(lane(&io)).or_default();
        if !queue.is_empty() || self.seen.is_multiple_of(3) {
            queue.push_back(bio);
            self.until.get_or_insert(now + self.hold);
            return Verdict::Hold;
        }
        book.left.push((io.id.0, lane(&io)));
        Verdict::Pass
    }

    fn release(&mut self, _now: Instant, cx: &mut Cx<'_>) -> Option<BioId> {
        if !self.opened {
            return None;
        }
        let bio = self.lanes.values_mut().find_map(VecDeque::pop_front);
        match bio {
            Some(bio) => {
                let io = cx.requests.bio(bio);
                self.book.lock().unwrap().left.push((io.id.0, lane(io)));
            }
            None => self.opened = false,
        }
        bio
    }

    fn merged(&mut self, _now: Instant, _bio: BioId, into: ReqId, cx: &mut Cx<'_>) {
        assert!(cx.requests.get(into).is_some());
        self.book.lock().unwrap().merged += 1;
    }

    fn issue(&mut self, _now: Instant, id: ReqId, cx: &mut Cx<'_>) {
        assert!(cx.requests.bios(id).count() > 0, "the stack's own commands are no one's");
        self.book.lock().unwrap().requests_issued.push(id);
    }

    fn complete(&mut self, _now: Instant, id: ReqId, cx: &mut Cx<'_>) {
        let mut book = self.book.lock().unwrap();
        book.completed += cx.requests.bios(id).count() as u64;
        book.requests_completed.push(id);
    }

    fn delay(&mut self, _now: Instant, proc: ProcId, _cx: &mut Cx<'_>) -> Nanos {
        if proc == ProcId(1) { self.delay } else { Nanos::ZERO }
    }
}

impl Stage for Keeper {
    fn info(&self) -> &'static StageInfo {
        &FIRST.stage
    }

    fn changed(&mut self, _now: Instant, change: &Change, _cx: &mut Cx<'_>) {
        if let Change::GroupAdded(group) = change {
            self.book.lock().unwrap().groups.push(*group);
        }
    }

    fn timer(&mut self, now: Instant, _cx: &mut Cx<'_>) {
        assert!(self.until.take().is_some_and(|at| at <= now), "called when due, not before");
        self.opened = true;
    }

    fn next_timer(&self) -> Option<Instant> {
        self.until
    }

    fn set(&mut self, _: Instant, name: &str, _: u64, _: &mut Cx<'_>) -> Result<(), TunableError> {
        Err(TunableError::Unknown { name: name.into(), stage: "keeper" })
    }

    fn value(&self, _name: &str) -> Option<u64> {
        None
    }

    fn set_group(
        &mut self,
        _: Instant,
        _: GroupId,
        name: &str,
        _: Option<u64>,
        _: &mut Cx<'_>,
    ) -> Result<(), TunableError> {
        Err(TunableError::Unknown { name: name.into(), stage: "keeper" })
    }
}

macro_rules! entry {
    ($entry:ident, $gate:ident) => {
        static $entry: Entry = Entry {
            stage: StageInfo {
                name: "keeper",
                summary: "holds every third bio",
                source: "this file",
                tunables: &[],
                group_tunables: &[],
                knobs: &[],
                figures: &[],
                decisions: &[],
            },
            gate: Gate::$gate,
            build: &|_| unreachable!("built by the test"),
        };
    };
}
entry!(FIRST, BeforeMerge);
entry!(SECOND, BeforeTag);

struct Bench {
    rig: Rig,
    books: Vec<Arc<Mutex<Book>>>,
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

impl Bench {
    fn new(scheduler: &str, gates: &[Gate], edit: impl FnOnce(&mut Device)) -> Bench {
        let entry = sched::find(scheduler).unwrap();
        let mut device = Device::new(Sectors(1 << 20), 4);
        device.profile = entry.profile;
        device.nr_requests = 0;
        device.max_discard_sectors = Sectors(64);
        edit(&mut device);
        let mut rig = Rig::of(Stack::new(device, entry, 64));
        let groups = ["a", "b"].map(|n| rig.group(GroupId::ROOT, n));
        for i in 0..6 {
            rig.procs(groups[i % 2], 1);
        }
        let mut books = Vec::new();
        for gate in gates {
            let book = Arc::new(Mutex::new(Book::default()));
            books.push(book.clone());
            let keeper = Keeper {
                book,
                lanes: BTreeMap::new(),
                until: None,
                opened: false,
                seen: 0,
                hold: Nanos::ms(2),
                delay: Nanos::ms(7),
            };
            let entry = if *gate == Gate::BeforeMerge { &FIRST } else { &SECOND };
            rig.stack.install_built(entry, Box::new(keeper));
        }
        Bench { rig, books }
    }

    fn submit(&mut self, proc: u32, edit: impl FnOnce(&mut Io)) -> u64 {
        self.rig.submit(ProcId(proc), edit)
    }

    fn read(&mut self, proc: u32, start: u64) -> u64 {
        self.submit(proc, |io| io.start = Sectors(start))
    }

    fn run_dry(&mut self) {
        self.rig.run_dry_with(Nanos::us(300));
    }
}

#[test]
fn a_hold_before_merging_lets_the_submitter_go_on() {
    let mut b = Bench::new("none", &[Gate::BeforeMerge], |_| {});
    for i in 0..4 {
        b.read(0, 1000 * i);
    }
    assert_eq!(b.accepted, [1, 2, 3, 4]);
    assert_eq!(b.sent, [1, 2], "the third is held, the fourth stands behind it");
    assert_eq!(b.wake, Some(Instant::ZERO + Nanos::ms(2)));
    b.now = Instant::ZERO + Nanos::ms(2);
    b.input(Input::Tick);
    assert_eq!(b.sent, [1, 2, 3, 4]);
    b.run_dry();
    assert_eq!(b.finished, [1, 2, 3, 4]);
    assert_eq!(b.accepted.len(), 4, "accepted once");
}

#[test]
fn a_hold_before_the_tag_stops_the_submitter_and_empties_its_plug() {
    let mut b = Bench::new("mq-deadline", &[Gate::BeforeTag], |_| {});
    b.input(Input::Plug(ProcId(0)));
    b.read(0, 1000);
    b.read(0, 2000);
    assert!(b.sent.is_empty());
    let held = b.read(0, 3000);
    assert!(!b.accepted.contains(&held));
    assert_eq!(b.sent, [1, 2], "a task that waits keeps no plug");
    b.now = Instant::ZERO + Nanos::ms(2);
    b.input(Input::Tick);
    assert_eq!((b.accepted.last(), b.sent.len()), (Some(&held), 2), "its section is open still");
    b.input(Input::Unplug(ProcId(0)));
    assert_eq!(b.sent, [1, 2, held]);
}

#[test]
fn what_the_first_gate_held_stays_out_of_the_plug_of_its_submitter() {
    let mut b = Bench::new("none", &[Gate::BeforeMerge], |_| {});
    b.input(Input::Plug(ProcId(0)));
    for i in 0..3 {
        b.read(0, 1000 * i);
    }
    assert!(b.sent.is_empty());
    b.now = Instant::ZERO + Nanos::ms(2);
    b.input(Input::Tick);
    assert_eq!(b.sent, [3], "the task that submitted it may be anywhere now");
}

#[test]
fn a_merged_bio_meets_the_first_gate_only() {
    let mut b = Bench::new("mq-deadline", &[Gate::BeforeMerge, Gate::BeforeTag], |d| {
        d.queue_depth = 1;
        d.nr_requests = 64;
    });
    b.read(0, 50_000);
    b.read(0, 1000);
    b.read(2, 1008);
    b.now = Instant::ZERO + Nanos::ms(2);
    b.input(Input::Tick);
    assert_eq!(b.stack.counters().merged, 1);
    for (at, arrived) in [3, 2].into_iter().enumerate() {
        let book = b.books[at].lock().unwrap();
        assert_eq!((book.arrived.len(), book.merged), (arrived, 1));
    }
}

#[test]
fn a_delay_is_put_out_when_the_submitter_goes_on() {
    let mut b = Bench::new("none", &[Gate::BeforeTag], |_| {});
    b.now = Instant::ZERO + Nanos::ms(5);
    b.read(0, 0);
    b.read(1, 1000);
    assert_eq!(b.delays, [(ProcId(1), Instant::ZERO + Nanos::ms(12))]);
}

#[test]
fn a_controller_hears_of_the_groups_that_exist_and_of_later_ones() {
    let mut b = Bench::new("none", &[Gate::BeforeTag], |_| {});
    let late = b.group(GroupId::ROOT, "c");
    assert_eq!(b.books[0].lock().unwrap().groups, [GroupId(1), GroupId(2), late]);
}

#[test]
fn the_end_of_a_flush_is_told_once_and_the_stacks_own_commands_not_at_all() {
    let mut b = Bench::new("none", &[Gate::BeforeTag], |d| d.write_cache = true);
    let flush = |io: &mut Io| (io.op, io.sectors) = (Op::Flush, Sectors(0));
    b.submit(0, flush);
    b.submit(2, |io| {
        *io = Io { op: Op::Write, flags: Flags::PREFLUSH | Flags::FUA, ..*io };
    });
    b.run_dry();
    let book = b.books[0].lock().unwrap();
    assert_eq!((book.completed, book.requests_issued.len()), (2, 1));
    drop(book);
    b.submit(0, flush);
    b.run_dry();
    assert_eq!(b.finished, [1, 2, 3]);
}

/// Random loads with keepers at both gates, under every scheduler: both contracts hold.
#[test]
fn nothing_is_lost_or_reordered_at_any_gate() {
    const GATES: [&[Gate]; 4] = [
        &[Gate::BeforeMerge],
        &[Gate::BeforeTag],
        &[Gate::BeforeTag, Gate::BeforeMerge],
        &[Gate::BeforeMerge, Gate::BeforeMerge, Gate::BeforeTag, Gate::BeforeTag],
    ];
    for entry in sched::SCHEDULERS {
        for seed in 0..60 {
            let mut rng = Rng::new(seed);
            let gates = GATES[seed as usize % 4];
            let mut b = Bench::new(entry.name, gates, |d| {
                d.queue_depth = 1 + seed as u32 % 5;
                d.write_cache = seed % 2 == 0;
                d.flush_nonqueued = seed % 3 == 0;
                d.max_sectors = Sectors(32);
            });
            let mut waiting = [None; 6];
            for _ in 0..300 {
                random_step(&mut b, &mut rng, &mut waiting);
            }
            for proc in 0..6 {
                b.input(Input::Unplug(ProcId(proc)));
            }
            b.run_dry();
            check(&mut b, gates, &format!("{} seed {seed}", entry.name));
        }
    }
}

fn random_step(b: &mut Bench, rng: &mut Rng, waiting: &mut [Option<u64>; 6]) {
    b.now += Nanos::us(rng.below(900));
    let proc = rng.below(6) as u32;
    let legacy = b.stack.env().device.profile == Profile::Legacy;
    match rng.below(8) {
        0..=2 if !b.device.is_empty() => {
            let at = rng.below(b.device.len() as u64) as usize;
            let req = b.device.remove(at);
            let again = rng.below(8) == 0;
            b.input(if again { Input::Requeue(req) } else { Input::Done { req, error: None } });
        }
        3 => b.input(Input::Tick),
        4 if !legacy => b.input(Input::Plug(ProcId(proc))),
        5 => b.input(Input::Unplug(ProcId(proc))),
        _ => {
            let slot = &mut waiting[proc as usize];
            if slot.is_some_and(|io| !b.accepted.contains(&io)) {
                return;
            }
            let (start, kind) = (8 * rng.below(500), rng.below(8));
            let long = if legacy { 0 } else { rng.below(8) * 8 };
            *slot = Some(b.submit(proc, |io| {
                (io.start, io.sectors, io.cpu) = (Sectors(start), Sectors(8 + long), proc);
                match kind {
                    0 => (io.op, io.sectors) = (Op::Flush, Sectors(0)),
                    1 => (io.op, io.flags) = (Op::Write, Flags::PREFLUSH | Flags::FUA),
                    2 => io.op = Op::Discard,
                    3 | 4 => io.op = Op::Write,
                    _ => {}
                }
            }));
        }
    }
}

fn check(b: &mut Bench, gates: &[Gate], name: &str) {
    let all: Vec<u64> = (1..=b.last_io()).collect();
    b.finished.sort_unstable();
    b.accepted.sort_unstable();
    assert_eq!(b.finished, all, "{name}");
    assert_eq!(b.accepted, all, "{name}: accepted once");
    for (book, gate) in b.books.iter().zip(gates) {
        let book = book.lock().unwrap();
        assert_eq!(book.arrived.len(), book.left.len(), "{name}: nothing is lost");
        let lanes: std::collections::BTreeSet<LaneOf> =
            book.arrived.iter().map(|&(_, lane)| lane).collect();
        for of in lanes {
            let only = |all: &[(u64, LaneOf)]| -> Vec<u64> {
                all.iter().filter(|(_, lane)| *lane == of).map(|&(io, _)| io).collect()
            };
            assert_eq!(
                only(&book.arrived),
                only(&book.left),
                "{name}: lane {of:?} keeps its order"
            );
        }
        let mut over = book.requests_completed.iter().map(|id| (id.slot(), id.0.generation));
        let distinct: std::collections::BTreeSet<(u32, u32)> = over.by_ref().collect();
        assert_eq!(distinct.len(), book.requests_completed.len(), "{name}: completed once");
        // Behind the second gate a bio becomes a request; those that merged never came there. Behind the
        // first gate both happens.
        let merged = if *gate == Gate::BeforeTag { book.merged } else { 0 };
        assert_eq!(book.completed, book.left.len() as u64 + merged, "{name}: told of once more");
    }
}
