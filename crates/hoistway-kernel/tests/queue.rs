//! Every scheduler behind the seam, driven as a kernel drives an elevator: in random order, by several hardware queues, with
//! requests that come back, groups that go and processes whose numbers are used again.

use hoistway::device::Tags;
use hoistway::knob::KnobErrorKind;
use hoistway::request::{Side, Told};
use hoistway::sched::{At, Entry, Open, SCHEDULERS, Search};
use hoistway::{Device, Flags, GroupId, Instant, Io, IoId, IoPrio, Op, ProcId, QueueId, Sectors};
use hoistway_kernel::queue::{Arrived, Found, Queue, Rq};
use hoistway_kernel::view::View;
use std::collections::BTreeMap;

/// Marsaglia's xorshift, for a test that is the same everywhere.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }
}

const SLOTS: usize = 96;

/// What the shim does, and what it would lose.
struct Shim<'v> {
    view: &'v View,
    queue: Queue<'v>,
    now: u64,
    next: Rq,
    /// Requests by number: handle, and where they are.
    waiting: BTreeMap<Rq, u64>,
    device: BTreeMap<Rq, u64>,
    back: BTreeMap<Rq, u64>,
    procs: Vec<ProcId>,
    groups: Vec<GroupId>,
    /// All that arrives is nobody's.
    anonymous: bool,
    /// In the order in which they went to the device.
    issued: Vec<Rq>,
}

impl<'v> Shim<'v> {
    fn new(entry: &'static Entry, view: &'v View) -> Shim<'v> {
        Shim::with_tags(entry, view, Tags::Words)
    }

    fn with_tags(entry: &'static Entry, view: &'v View, tags: Tags) -> Shim<'v> {
        let mut device = Device::new(Sectors(1 << 24), 32);
        device.hw_queues = 2;
        device.nr_requests = 64;
        device.write_cache = true;
        device.tags = tags;
        let queue = Queue::new(entry, device, SLOTS, Instant::ZERO, view);
        let (waiting, device, back) = Default::default();
        let (procs, groups, issued) = Default::default();
        let (now, next, anonymous) = (1, 1, false);
        Shim { view, queue, now, next, waiting, device, back, procs, groups, anonymous, issued }
    }

    fn instant(&self) -> Instant {
        Instant::from_nanos(self.now)
    }

    fn arrival(&self, dice: &mut Dice) -> Told {
        let write = dice.below(2) == 1;
        let some = |list: usize, dice: &mut Dice| dice.below(list as u64 + 1) as usize;
        let proc = some(self.procs.len(), dice);
        let group = some(self.groups.len(), dice);
        let io = Io {
            id: IoId(0),
            proc: self.procs.get(proc).copied().filter(|_| !self.anonymous).unwrap_or(ProcId(0)),
            group: self.groups.get(group).copied().unwrap_or(GroupId::ROOT),
            cpu: dice.below(2) as u32,
            op: if write { Op::Write } else { Op::Read },
            start: Sectors(dice.below(1 << 20) * 8),
            sectors: Sectors(8 * (1 + dice.below(16))),
            segments: 1,
            flags: if dice.below(4) == 0 { Flags::SYNC } else { Flags::NONE },
            prio: if dice.below(2) == 0 { IoPrio::be(dice.below(8) as u8) } else { IoPrio::NONE },
        };
        let sync = !write || io.flags.any(Flags::SYNC);
        let now = self.instant();
        Told { io, sync, queue: QueueId(io.cpu as u16), alloc: now, began: now }
    }

    fn arrive(&mut self, dice: &mut Dice) {
        let (rq, now) = (self.next, self.instant());
        let arrival = self.arrival(dice);
        let Some(arrived) = self.queue.arrive(now, || arrival, At::Tail, false, rq) else { return };
        self.next += 1;
        let id = self.take_in(now, arrived);
        assert!(self.waiting.insert(rq, id).is_none());
    }

    fn take_in(&mut self, now: Instant, arrived: Arrived) -> u64 {
        if !arrived.inserted {
            self.queue.insert(now, arrived.id, At::Tail);
        }
        arrived.id
    }

    fn dispatch(&mut self, hw: u16) {
        if self.view.waiting() == 0 || !self.view.is_fresh(hw) {
            return;
        }
        loop {
            let found = self.queue.dispatch(self.instant(), QueueId(hw));
            while self.queue.closed().is_some() {}
            match found {
                Found::Issue(rq) => {
                    let id = self.waiting.remove(&rq).expect("issued once, of those that wait");
                    self.device.insert(rq, id);
                    self.issued.push(rq);
                    return;
                }
                Found::Again(id, rq) => {
                    assert_eq!(self.waiting.get(&rq), Some(&id));
                    self.queue.open_again(id);
                    self.queue.insert(self.instant(), id, At::Tail);
                }
                Found::Nothing => return,
            }
        }
    }

    fn of(map: &BTreeMap<Rq, u64>, dice: &mut Dice) -> Option<(Rq, u64)> {
        let at = dice.below(map.len().max(1) as u64) as usize;
        map.iter().nth(at).map(|(&rq, &id)| (rq, id))
    }

    fn complete(&mut self, dice: &mut Dice) {
        let Some((rq, id)) = Shim::of(&self.device, dice) else { return };
        self.device.remove(&rq);
        match dice.below(12) {
            // The device gives it back; it comes again, or goes to the driver past the elevator.
            0 => {
                self.back.insert(rq, id);
            }
            _ => self.queue.complete(self.instant(), id),
        }
    }

    fn come_back(&mut self, dice: &mut Dice) {
        let Some((rq, id)) = Shim::of(&self.back, dice) else { return };
        self.back.remove(&rq);
        if dice.below(2) == 0 {
            self.device.insert(rq, id);
        } else {
            self.queue.requeue(self.instant(), id);
            self.waiting.insert(rq, id);
        }
    }

    fn change(&mut self, dice: &mut Dice) {
        let now = self.instant();
        match dice.below(6) {
            0 => self.procs.push(self.queue.add_proc(IoPrio::be(dice.below(8) as u8))),
            // A process is known for as long as it has requests.
            1 if !self.procs.is_empty() && self.known() == 0 => {
                let proc = self.procs.swap_remove(dice.below(self.procs.len() as u64) as usize);
                self.queue.proc_exits(now, proc);
            }
            2 if self.groups.len() < 4 => {
                let parent = self.groups.first().copied().unwrap_or(GroupId::ROOT);
                let group = self.queue.add_group(now, parent);
                self.queue.set_weight(now, group, 1 + dice.below(1000));
                self.groups.push(group);
            }
            // The kernel takes children first; requests of it may be under way.
            3 if self.groups.len() > 1 => {
                let group = self.groups.pop().expect("there is one");
                self.queue.remove_group(now, group);
            }
            4 if !self.procs.is_empty() => {
                let proc = self.procs[dice.below(self.procs.len() as u64) as usize];
                let group = self.groups.last().copied().unwrap_or(GroupId::ROOT);
                self.queue.proc_is(now, proc, IoPrio::be(dice.below(8) as u8), group);
            }
            _ => self.queue.resized(now, [4, 64, 32][dice.below(3) as usize]),
        }
    }

    fn known(&self) -> usize {
        self.waiting.len() + self.device.len() + self.back.len()
    }

    fn time(&mut self, by: u64) {
        self.now += by;
        if self.view.next_timer() <= self.now {
            self.queue.timer(self.instant());
            assert!(self.view.next_timer() > self.now, "a timer in the past");
        }
        self.view.take_runs();
    }

    /// Anything that a kernel may do next.
    fn turn(&mut self, dice: &mut Dice) {
        match dice.below(16) {
            0..6 => self.arrive(dice),
            6..10 => self.dispatch(dice.below(2) as u16),
            10..14 => self.complete(dice),
            14 => self.come_back(dice),
            _ => self.change(dice),
        }
        self.time(dice.below(2_000_000));
    }

    /// Nothing more comes: all of it has to go within bounded time.
    fn drain(&mut self, dice: &mut Dice, name: &str) {
        for _ in 0..200_000 {
            if self.known() == 0 {
                return;
            }
            self.time(1_000_000);
            (0..2).for_each(|hw| self.dispatch(hw));
            self.come_back(dice);
            self.complete(dice);
        }
        panic!("{name}: {} wait, {} in the device", self.waiting.len(), self.device.len());
    }
}

#[test]
fn every_scheduler_gives_back_what_it_was_given() {
    for entry in SCHEDULERS.iter().filter(|entry| entry.name != "none") {
        for seed in 1..=20 {
            let (view, mut dice) = (View::new(), Dice(0x9E37_79B9_7F4A_7C15 ^ seed));
            let mut shim = Shim::new(entry, &view);
            for _ in 0..2000 {
                shim.turn(&mut dice);
                assert_eq!(view.waiting() as usize, shim.waiting.len(), "{}", entry.name);
            }
            shim.drain(&mut dice, entry.name);
            assert_eq!(shim.queue.sizes()[3], 0, "{}: requests are left", entry.name);
        }
    }
}

#[test]
fn a_full_table_refuses_and_a_neighbour_is_one_that_waits() {
    let entry = hoistway::sched::find("mq-deadline").unwrap();
    let view = View::new();
    let mut shim = Shim::new(entry, &view);
    let mut dice = Dice(7);
    let mut handles = Vec::new();
    for n in 0..SLOTS {
        let mut arrival = shim.arrival(&mut dice);
        (arrival.io.start, arrival.io.sectors) = (Sectors(n as u64 * 8), Sectors(8));
        arrival.io.op = Op::Read;
        let arrived =
            shim.queue.arrive(shim.instant(), || arrival, At::Tail, false, n + 1).unwrap();
        assert_eq!((arrived.open, arrived.inserted), (Open::Full, n == 0));
        if !arrived.inserted {
            assert_eq!(view.waiting(), n as u32);
            shim.queue.insert(shim.instant(), arrived.id, At::Tail);
        }
        assert_eq!(view.waiting(), n as u32 + 1);
        handles.push(arrived.id);
    }
    let arrival = shim.arrival(&mut dice);
    assert!(shim.queue.arrive(shim.instant(), || arrival, At::Tail, false, 999).is_none());
    assert_eq!(shim.queue.neighbour(handles[5], Side::Back), Some(7));
    assert_eq!(shim.queue.neighbour(handles[0], Side::Front), None);
}

fn read(proc: ProcId, group: GroupId, start: u64) -> Told {
    let io = Io { group, ..Io::read(0, proc, start, 8) };
    let now = Instant::from_nanos(1);
    Told { io, sync: true, queue: QueueId(0), alloc: now, began: now }
}

/// The shim looks for what a request joins before the core hears of it, and then says that there is nothing.
#[test]
fn who_opens_all_takes_in_at_once_what_joins_nothing() {
    let mut names = Vec::new();
    for entry in SCHEDULERS.iter().copied().filter(|entry| entry.name != "none") {
        let (view, mut dice) = (View::new(), Dice(31));
        let mut shim = Shim::new(entry, &view);
        let opens_all = shim.queue.wants()[2];
        let mut opened = [0; 2];
        for rq in 1..=40 {
            let (now, arrival) = (shim.instant(), shim.arrival(&mut dice));
            let (waited, alone) = (view.waiting(), rq % 2 == 0);
            let arrived = shim.queue.arrive(now, || arrival, At::Tail, alone, rq).unwrap();
            opened[usize::from(arrived.open == Open::Full)] += 1;
            let asks = arrived.open == Open::Full && waited > 0 && !alone;
            assert_eq!(arrived.inserted, !asks, "{}", entry.name);
            shim.take_in(now, arrived);
            assert_eq!(view.waiting(), waited + 1);
        }
        assert!(!opens_all || opened[0] == 0, "{}", entry.name);
        if opens_all {
            names.push(entry.name);
        }
    }
    assert!(names.contains(&"mq-deadline") && names.contains(&"bfq"), "{names:?}");
    assert!(!names.contains(&"kyber") && !names.contains(&"k2"), "{names:?}");
}

/// A reader who shares with nobody has all requests, and is asked for no limit until they run out.
#[test]
fn bfq_asks_for_limits_of_reads_where_several_share() {
    let view = View::new();
    let mut shim = Shim::new(hoistway::sched::find("bfq").unwrap(), &view);
    let procs = [4, 4].map(|level| shim.queue.add_proc(IoPrio::be(level)));
    let mut add = |proc: ProcId, rq: Rq| {
        let arrival = read(proc, GroupId::ROOT, 64 * rq as u64);
        shim.queue.arrive(shim.instant(), || arrival, At::Tail, true, rq).unwrap();
        let io = read(proc, GroupId::ROOT, 0).io;
        let limits = procs.map(|proc| shim.queue.depth(shim.instant(), &Io { proc, ..io }));
        (view.limits_reads(), limits)
    };
    for rq in 1..64 {
        assert_eq!(add(procs[0], rq), (false, [None; 2]));
    }
    // The device has 64.
    assert_eq!(add(procs[0], 64), (true, [Some(1), None]));
    let (asked, limits) = add(procs[1], 65);
    assert!(asked && limits[0] == Some(1), "{limits:?}");
}

#[test]
fn what_has_reached_a_limit_is_passed_over() {
    let view = View::default();
    let entry = hoistway::sched::find("kyber").unwrap();
    let mut shim = Shim::new(entry, &view);
    let proc = shim.queue.add_proc(IoPrio::NONE);
    let bio = read(proc, GroupId::ROOT, 16).io;
    let mut handles = Vec::new();
    // One ends where the bio begins; the newer begins where it ends, and is found first.
    for (rq, start) in [(1, 8), (2, 24)] {
        let now = shim.instant();
        let arrival = read(proc, GroupId::ROOT, start);
        let arrived = shim.queue.arrive(now, || arrival, At::Tail, false, rq).unwrap();
        // It searches by itself, and so nothing is looked for before it has it.
        assert!(arrived.inserted);
        handles.push(arrived.id);
    }
    let find = |shim: &mut Shim<'_>| shim.queue.find_merge(shim.instant(), &bio);
    assert_eq!(find(&mut shim), Some((2, Side::Front)));
    shim.queue.unmergeable(handles[1]);
    assert_eq!(find(&mut shim), Some((1, Side::Back)));
    shim.queue.unmergeable(handles[0]);
    assert_eq!(find(&mut shim), None);
}

/// The kernel merges within a group. Who searches by itself is told them apart by numbers of which it knows no more.
#[test]
fn a_search_of_its_own_passes_what_is_another_groups() {
    let view = View::default();
    for entry in SCHEDULERS.iter().copied().filter(|entry| entry.search == Search::Own) {
        let mut shim = Shim::new(entry, &view);
        assert!(!entry.weighs_groups(), "{} knows its groups", entry.name);
        let proc = shim.queue.add_proc(IoPrio::NONE);
        let arrival = |group| read(proc, GroupId(group), 8);
        for (rq, group) in [(1, 1 << 20), (2, 7)] {
            shim.queue.arrive(shim.instant(), || arrival(group), At::Tail, false, rq).unwrap();
        }
        for (group, found) in [(1 << 20, Some(1)), (7, Some(2)), (8, None)] {
            let bio = read(proc, GroupId(group), 16).io;
            let found = found.map(|rq| (rq, Side::Back));
            assert_eq!(shim.queue.find_merge(shim.instant(), &bio), found, "{}", entry.name);
        }
    }
}

#[test]
fn who_is_not_waited_for_any_more_leaves_no_timer() {
    let view = View::default();
    let mut device = Device::new(Sectors(1 << 24), 32);
    device.rotational = true;
    let entry = hoistway::sched::find("bfq").unwrap();
    let mut queue = Queue::new(entry, device, SLOTS, Instant::ZERO, &view);
    let proc = queue.add_proc(IoPrio::NONE);
    let groups = [1, 2].map(|n| queue.add_group(Instant::from_nanos(n), GroupId::ROOT));
    let now = Instant::from_nanos(10);
    let arrived = queue.arrive(now, || read(proc, groups[0], 8), At::Tail, false, 1).unwrap();
    assert!(arrived.inserted, "there is nothing to join");
    let id = arrived.id;
    assert_eq!(queue.dispatch(now, QueueId(0)), Found::Issue(1));
    queue.complete(Instant::from_nanos(20), id);
    assert_eq!(queue.dispatch(Instant::from_nanos(20), QueueId(0)), Found::Nothing);
    assert_ne!(view.next_timer(), u64::MAX, "it waits for the next read of the group");
    // The next is of another group.
    let bio = read(proc, groups[1], 16).io;
    assert_eq!(queue.find_merge(Instant::from_nanos(30), &bio), None);
    assert_eq!(view.next_timer(), u64::MAX);
}

#[test]
fn numbers_of_processes_are_used_again() {
    let view = View::new();
    let mut shim = Shim::new(hoistway::sched::find("bfq").unwrap(), &view);
    for _ in 0..1000 {
        let proc = shim.queue.add_proc(IoPrio::be(4));
        shim.queue.proc_exits(shim.instant(), proc);
    }
    assert_eq!(shim.queue.sizes()[..2], [0, 2]);
}

#[test]
fn a_tunable_out_of_range_is_refused_and_the_old_value_stays() {
    let view = View::new();
    let mut shim = Shim::new(hoistway::sched::find("mq-deadline").unwrap(), &view);
    let at = shim.queue.entry().tunables.iter().position(|t| t.name == "fifo_batch").unwrap();
    assert!(shim.queue.set(shim.instant(), at, 7));
    assert!(!shim.queue.set(shim.instant(), at, u64::MAX));
    assert_eq!(shim.queue.value(at), Some(7));
    assert!(!shim.queue.set(shim.instant(), 1000, 1) && shim.queue.value(1000).is_none());
}

#[test]
fn a_weight_is_one_of_its_range_or_taken_back() {
    let set = |name: &str, weights: [u64; 3]| {
        let view = View::new();
        let mut shim = Shim::new(hoistway::sched::find(name).unwrap(), &view);
        let group = shim.queue.add_group(Instant::ZERO, GroupId::ROOT);
        weights.map(|weight| shim.queue.set_weight(Instant::ZERO, group, weight))
    };
    for name in ["bfq", "cfq", "paternoster"] {
        assert_eq!(set(name, [100, 0, 10_001]), [true, true, false], "{name}");
    }
    assert_eq!(set("noop", [100, 0, 1]), [false; 3]);
}

#[test]
fn a_target_is_a_line_of_its_group_and_goes_with_it() {
    let view = View::new();
    let mut shim = Shim::new(hoistway::sched::find("paternoster").unwrap(), &view);
    let now = shim.instant();
    let group = shim.queue.add_group(now, GroupId::ROOT);
    for (setting, shown) in [
        ("target=1500\n", Some("target=1500")),
        ("target=auto", Some("target=auto")),
        ("target=0", None),
        ("target=auto", Some("target=auto")),
    ] {
        shim.queue.set_target(now, group, setting).unwrap();
        assert_eq!(shim.queue.target(group).as_deref(), shown, "{setting:?}");
    }
    let mut refused = |setting: &str| shim.queue.set_target(now, group, setting).unwrap_err().kind;
    for setting in ["", "target", "target=", "target=1.5", "other=1", "target=1  target=2"] {
        assert_eq!(refused(setting), KnobErrorKind::Invalid, "{setting:?}");
    }
    assert_eq!(refused(&format!("target={}", u64::MAX)), KnobErrorKind::Range);
    assert_eq!(shim.queue.target(group).as_deref(), Some("target=auto"));
    shim.queue.remove_group(now, group);
    assert_eq!(shim.queue.target(group), None);
}

/// The kernel makes the words of tags once for the most, and complains of a limit below the least that it was told for these.
#[test]
fn a_limit_fits_the_words_that_were_made_however_few_tags_are_left() {
    let view = View::new();
    let mut shim = Shim::new(hoistway::sched::find("paternoster").unwrap(), &view);
    let io = shim.arrival(&mut Dice(3)).io;
    let mut limit = |nr| {
        shim.queue.resized(Instant::from_nanos(5), nr);
        shim.queue.depth(Instant::from_nanos(5), &Io { op: Op::Write, ..io })
    };
    // 64 tags are four words of 16.
    assert_eq!((limit(4), limit(64)), (Some(12), Some(12)));
    // 300 are made anew, in words of 64.
    assert_eq!((limit(300), limit(16)), (Some(48), Some(48)));
}

/// Later kernels count over all tags that there are now.
#[test]
fn a_limit_is_a_part_of_all_tags_where_they_are_plain() {
    let view = View::new();
    let paternoster = hoistway::sched::find("paternoster").unwrap();
    let mut shim = Shim::with_tags(paternoster, &view, Tags::Plain);
    let io = Io { op: Op::Write, ..shim.arrival(&mut Dice(3)).io };
    let mut limit = |nr| {
        shim.queue.resized(Instant::from_nanos(5), nr);
        shim.queue.depth(Instant::from_nanos(5), &io)
    };
    assert_eq!((limit(4), limit(16)), (Some(3), Some(12)));
    assert_eq!((limit(64), limit(300)), (Some(48), Some(225)));
}

#[test]
fn a_scheduler_without_targets_refuses_them() {
    let view = View::new();
    let mut shim = Shim::new(hoistway::sched::find("bfq").unwrap(), &view);
    let group = shim.queue.add_group(shim.instant(), GroupId::ROOT);
    let error = shim.queue.set_target(shim.instant(), group, "target=auto").unwrap_err();
    assert_eq!(error.kind, KnobErrorKind::Unsupported);
    assert_eq!(shim.queue.target(group), None);
}

#[test]
fn only_who_wants_to_hear_of_flushes_makes_the_kernel_tell() {
    let hears = |entry: &&'static Entry| {
        let view = View::new();
        Shim::new(entry, &view).queue.wants()[0]
    };
    let names: Vec<&str> = SCHEDULERS.iter().copied().filter(hears).map(|e| e.name).collect();
    assert_eq!(names, ["paternoster"]);
}

/// Schedulers that answer false to `Queue::wants` there, by name.
fn without(want: usize) -> impl Iterator<Item = &'static Entry> {
    let lacks = move |entry: &&'static Entry| {
        let view = View::new();
        !Shim::new(entry, &view).queue.wants()[want]
    };
    SCHEDULERS.iter().copied().filter(|entry| entry.name != "none").filter(lacks)
}

/// The kernel asks nobody who says so at the time.
#[test]
fn who_limits_no_reads_gives_none_a_limit() {
    let mut never = Vec::new();
    for entry in SCHEDULERS.iter().copied().filter(|entry| entry.name != "none") {
        let (view, mut dice) = (View::new(), Dice(11));
        let (mut shim, mut unasked, mut limited) = (Shim::new(entry, &view), 0, [0; 2]);
        for _ in 0..20_000 {
            shim.turn(&mut dice);
            let (now, io) = (shim.instant(), shim.arrival(&mut dice).io);
            let limit = shim.queue.depth(now, &io);
            let asked = io.op != Op::Read || view.limits_reads();
            assert!(asked || limit.is_none(), "{}", entry.name);
            unasked += u32::from(!asked);
            limited[usize::from(io.op == Op::Read)] += u32::from(limit.is_some());
        }
        match (entry.name, unasked) {
            (name, 5000..) => never.push((name, limited[0] > 1000, limited[1])),
            ("bfq", n) => assert!(n > 0 && limited[1] > 1000, "{n} {limited:?}"),
            (_, n) => assert_eq!(n, 0, "{}", entry.name),
        }
    }
    assert_eq!(never, [("mq-deadline", true, 0), ("kyber", true, 0)]);
}

/// The kernel tells those that say so of nobody.
#[test]
fn who_does_not_know_processes_decides_the_same_without_them() {
    let issued = |entry: &'static Entry, anonymous| {
        let (view, mut dice) = (View::new(), Dice(23));
        let mut shim = Shim::new(entry, &view);
        shim.anonymous = anonymous;
        (0..20_000).for_each(|_| shim.turn(&mut dice));
        shim.issued
    };
    let mut names = Vec::new();
    for entry in without(1) {
        assert_eq!(issued(entry, false), issued(entry, true), "{}", entry.name);
        names.push(entry.name);
    }
    assert!(names.contains(&"mq-deadline") && names.contains(&"adios"), "{names:?}");
    let bfq = hoistway::sched::find("bfq").unwrap();
    assert_ne!(issued(bfq, false), issued(bfq, true), "the test tells them apart");
}
