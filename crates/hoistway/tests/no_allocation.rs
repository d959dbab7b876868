//! The whole stack allocates nothing in steady state: submission, merging, waiting for a tag, plugs, flush
//! sequences, completion and requeue, under every scheduler.

#[path = "common/counting.rs"]
mod counting;

use hoistway::ctl;
use hoistway::device::Profile;
use hoistway::sched::{self, SCHEDULERS};
use hoistway::testkit::Rng;
use hoistway::{
    Device, Flags, GroupId, Input, Instant, Io, IoPrio, Nanos, Op, Output, ProcId, ReqId, Sectors,
    Stack,
};

/// Steps until every buffer has had its largest content: bfq-v1's comes after 100,000 to 150,000.
const WARM: u32 = 300_000;
const PROCS: usize = 16;

struct World {
    stack: Stack,
    rng: Rng,
    now: Instant,
    /// With the device.
    flying: Vec<ReqId>,
    /// The I/O whose acceptance a process waits for.
    waits: [Option<u64>; PROCS],
    wake: Option<Instant>,
    next_io: u64,
    finished: u64,
    /// The most I/Os outstanding.
    limit: u64,
    /// The root, and what groups I/O is of.
    group: GroupId,
    groups: [GroupId; 2],
}

impl World {
    fn new(scheduler: &'static hoistway::sched::Entry, profile: Profile) -> World {
        let mut device = Device::new(Sectors(1 << 20), 4);
        device.profile = profile;
        device.hw_queues = if profile == Profile::Legacy { 1 } else { 2 };
        device.nr_requests = if profile == Profile::Legacy { 6 } else { 8 };
        device.write_cache = true;
        device.max_discard_sectors = Sectors(64);
        let mut stack = Stack::new(device, scheduler, 4096);
        for _ in 0..PROCS {
            stack.add_proc(GroupId::ROOT, IoPrio::NONE);
        }
        World {
            stack,
            rng: Rng::new(1),
            now: Instant::ZERO,
            flying: Vec::with_capacity(64),
            waits: [None; PROCS],
            wake: None,
            next_io: 0,
            finished: 0,
            limit: u64::MAX,
            group: GroupId::ROOT,
            groups: [GroupId::ROOT; 2],
        }
    }

    fn input(&mut self, input: Input) {
        self.stack.handle(self.now, input).expect("valid inputs");
        loop {
            match self.stack.poll(self.now) {
                Output::Issue { req, .. } => self.flying.push(req),
                Output::Accepted { io } => {
                    for wait in &mut self.waits {
                        *wait = wait.filter(|&w| w != io.0);
                    }
                }
                Output::Finished { .. } => self.finished += 1,
                Output::Delay { .. } => {}
                Output::WaitUntil(at) => {
                    self.wake = at;
                    return;
                }
            }
        }
    }

    fn step(&mut self) {
        self.now += Nanos::us(self.rng.below(200));
        let at = self.rng.below(PROCS as u64) as usize;
        let proc = ProcId(at as u32);
        match self.rng.below(10) {
            0 => self.input(Input::Plug(proc)),
            1 => self.input(Input::Unplug(proc)),
            2 => self.input(Input::Tick),
            3..=5 if !self.flying.is_empty() => {
                let req =
                    self.flying.swap_remove(self.rng.below(self.flying.len() as u64) as usize);
                let back = self.rng.below(20) == 0;
                self.input(if back {
                    Input::Requeue(req)
                } else {
                    Input::Done { req, error: None }
                });
            }
            _ if self.waits[at].is_none() && self.next_io - self.finished < self.limit => {
                self.submit(at);
            }
            _ => {
                if let Some(wake) = self.wake {
                    self.now = self.now.max(wake);
                    self.input(Input::Tick);
                }
            }
        }
    }

    fn submit(&mut self, at: usize) {
        self.next_io += 1;
        let start = 8 * self.rng.below(400);
        let mut io = Io::read(self.next_io, ProcId(at as u32), start, 8);
        io.cpu = at as u32 % 8;
        io.group = self.groups[at % 2];
        match self.rng.below(12) {
            0..=4 => {}
            5 => (io.op, io.flags) = (Op::Write, Flags::PREFLUSH | Flags::FUA),
            6 => (io.op, io.sectors) = (Op::Flush, Sectors(0)),
            7 => io.op = Op::Discard,
            8 if self.stack.env().device.profile == Profile::MultiQueue => {
                io.sectors = Sectors(4000);
                io.segments = 500;
            }
            9 if self.stack.env().device.profile == Profile::Legacy => {
                (io.op, io.flags) = (Op::Write, Flags::BARRIER);
            }
            _ => io.op = Op::Write,
        }
        self.waits[at] = Some(self.next_io);
        self.input(Input::Submit(io));
    }
}

/// With io.max and wbt: limits that bind, and a queue that is bounded (the tables grow with what is
/// outstanding).
#[test]
fn controllers_allocate_nothing_after_warming_up() {
    for entry in SCHEDULERS.iter().filter(|e| e.profile == Profile::MultiQueue) {
        let mut world = World::new(entry, Profile::MultiQueue);
        world.limit = 300;
        for name in ["io.max", "wbt"] {
            world.stack.install(hoistway::ctl::find(name).expect("a registry name"));
        }
        for (i, rate) in [40_000_000, 20_000_000].into_iter().enumerate() {
            let group = world.stack.add_group(Instant::ZERO, world.group, "g");
            let line = format!("8:0 rbps={rate} wiops={}", rate / 10_000);
            world.input(Input::Write { group, file: "io.max".into(), line });
            world.groups[i] = group;
        }
        for _ in 0..300_000 {
            world.step();
        }
        let (before, finished) = (counting::allocations(), world.finished);
        for _ in 0..40_000 {
            world.step();
        }
        assert_eq!(counting::allocations() - before, 0, "{}: allocations", entry.name);
        assert!(world.finished > finished + 1000, "{}", entry.name);
        let mut held = 0;
        for (_, c) in world.stack.controllers() {
            c.figures(&mut |f| held += f.value * i64::from(f.name == "held_ios"));
        }
        assert!(held > 1000, "{}: {held} held", entry.name);
    }
}

/// A target nobody can keep, among groups that are held back for its sake.
#[test]
fn io_latency_allocates_nothing_after_warming_up() {
    let mut world = World::new(sched::find("none").unwrap(), Profile::MultiQueue);
    world.stack.install(ctl::find("io.latency").unwrap());
    for (i, target) in [1, 1_000_000].into_iter().enumerate() {
        let group = world.stack.add_group(world.now, world.group, "g");
        let line = format!("8:0 target={target}");
        world.input(Input::Write { group, file: "io.latency".into(), line });
        world.groups[i] = group;
    }
    for _ in 0..200_000 {
        world.step();
    }
    let held = |world: &mut World| {
        let mut held = 0;
        let (_, ctl) = world.stack.controllers().next().unwrap();
        ctl.figures(&mut |f| held += if f.name == "ios_held" { f.value } else { 0 });
        held
    };
    let (before, held_before) = (counting::allocations(), held(&mut world));
    for _ in 0..40_000 {
        world.step();
    }
    assert_eq!(counting::allocations() - before, 0);
    assert!(held(&mut world) > held_before + 1000, "I/Os wait");
}

#[test]
fn nothing_is_allocated_after_warming_up() {
    for entry in SCHEDULERS {
        for profile in [Profile::MultiQueue, Profile::Legacy] {
            if entry.direct && profile == Profile::Legacy {
                continue;
            }
            let mut world = World::new(entry, profile);
            for _ in 0..WARM {
                world.step();
            }
            let (before, finished) = (counting::allocations(), world.finished);
            let joined = world.stack.counters().merged;
            for _ in 0..40_000 {
                world.step();
            }
            let new = counting::allocations() - before;
            assert_eq!(new, 0, "{} in {profile:?}: allocations", entry.name);
            // The loop did what it is about.
            let counters = world.stack.counters();
            assert!(world.finished > finished + 2000, "{}: {counters:?}", entry.name);
            assert!(counters.merged > joined && counters.tag_waits > 100, "{counters:?}");
        }
    }
}
