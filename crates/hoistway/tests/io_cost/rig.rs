//! A stack under `io.cost` with a device that takes exactly as long as the model says (a tenth less, so
//! that the controller and not the device decides), and processes that keep so many I/Os under way.

use hoistway::ctl;
use hoistway::sched;
use hoistway::stack::StageName;
use hoistway::stage::Gauge;
use hoistway::testkit::Rng;
use hoistway::{
    Device, Flags, GroupId, Input, Instant, Io, IoPrio, Nanos, Op, Output, ProcId, ReqId, Sectors,
    Stack,
};
use std::collections::{BTreeMap, VecDeque};

/// Bytes and I/Os per second of the model, reads and writes, near and far alike.
const BPS: u64 = 200_000_000;
const IOPS: u64 = 8_000;
pub const MODEL: &str = "8:0 ctrl=user model=linear rbps=200000000 rseqiops=8000 rrandiops=8000 \
                         wbps=200000000 wseqiops=8000 wrandiops=8000";

/// What a process does.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    pub group: GroupId,
    /// I/Os under way; 0: none now.
    pub depth: usize,
    /// Lengths in sectors are multiples of 8 up to this.
    pub sectors_max: u64,
    /// One of so many is a write, metadata, a discard or a flush; 0: none.
    pub others: u64,
    /// Pause after a completion.
    pub think: Nanos,
}

#[derive(Debug)]
struct Task {
    load: Load,
    flying: usize,
    /// In the submission call.
    inside: bool,
    ready_at: Instant,
}

pub struct Rig {
    pub stack: Stack,
    pub now: Instant,
    pub rng: Rng,
    wake: Option<Instant>,
    queue: VecDeque<ReqId>,
    serving: Option<(Instant, ReqId)>,
    tasks: Vec<Task>,
    /// Device time by group in ns.
    pub served: BTreeMap<GroupId, u64>,
    /// Waiting I/O by group and direction in the order of submission; those that must not wait apart.
    order: BTreeMap<(GroupId, bool), VecDeque<u64>>,
    /// There are tags for all, so that nothing behind the controller changes the order.
    pub ordered: bool,
    owner: BTreeMap<u64, (usize, GroupId)>,
    pub submitted: u64,
    pub finished: u64,
    /// Delays put out.
    pub delays: u64,
}

impl Rig {
    /// `qos` without the device number.
    pub fn new(qos: &str, tags: u32, seed: u64) -> Rig {
        let mut device = Device::new(Sectors(1 << 34), tags);
        device.max_discard_sectors = Sectors(1 << 20);
        device.write_cache = true;
        let mut stack = Stack::new(device, sched::find("none").unwrap(), 1024);
        stack.install(ctl::find("io.cost").unwrap());
        let mut rig = Rig {
            stack,
            now: Instant::ZERO + Nanos::ms(1),
            rng: Rng::new(seed),
            wake: None,
            queue: VecDeque::new(),
            serving: None,
            tasks: Vec::new(),
            served: BTreeMap::new(),
            order: BTreeMap::new(),
            ordered: tags >= 512,
            owner: BTreeMap::new(),
            submitted: 0,
            finished: 0,
            delays: 0,
        };
        rig.write(GroupId::ROOT, "io.cost.model", MODEL);
        rig.write(GroupId::ROOT, "io.cost.qos", &format!("8:0 {qos}"));
        rig
    }

    pub fn group(&mut self, parent: GroupId, weight: u64) -> GroupId {
        let group = self.stack.add_group(self.now, parent, "g");
        self.drain();
        self.write(group, "io.weight", &format!("{weight}"));
        group
    }

    pub fn task(&mut self, load: Load) -> usize {
        self.stack.add_proc(load.group, IoPrio::NONE);
        self.tasks.push(Task { load, flying: 0, inside: false, ready_at: self.now });
        self.tasks.len() - 1
    }

    pub fn load_mut(&mut self, task: usize) -> &mut Load {
        &mut self.tasks[task].load
    }

    pub fn write(&mut self, group: GroupId, file: &str, line: &str) {
        let (file, line) = (file.into(), line.into());
        self.input(Input::Write { group, file, line });
    }

    /// Everything that happens until then.
    pub fn run_until(&mut self, end: Instant) {
        loop {
            self.submit_what_is_ready();
            let done = self.serving.map(|(at, _)| at);
            let task = self.tasks.iter().filter(|t| t.ready_at > self.now && wants(t));
            let task = task.map(|t| t.ready_at).min();
            let Some(at) = [done, self.wake, task].into_iter().flatten().min() else { return };
            if at > end {
                self.now = end;
                return;
            }
            self.now = self.now.max(at);
            match self.serving {
                Some((due, req)) if due <= self.now => {
                    self.serving = None;
                    self.input(Input::Done { req, error: None });
                    self.serve();
                }
                _ => self.input(Input::Tick),
            }
        }
    }

    /// No process submits any more; runs until nothing is to be done, at most so long.
    pub fn run_dry(&mut self, limit: Nanos) {
        for task in &mut self.tasks {
            task.load.depth = 0;
        }
        let end = self.now + limit;
        self.run_until(end);
    }

    /// Nothing waits for time or the device.
    pub fn at_rest(&self) -> bool {
        self.wake.is_none() && self.serving.is_none() && self.owner.is_empty()
    }

    pub fn gauge(&mut self, name: &str, group: Option<GroupId>) -> Option<i64> {
        let mut found = None;
        self.stack.gauges(&mut |_, g: Gauge| {
            if g.name == name && g.group == group {
                found = Some(g.value);
            }
        });
        found
    }

    fn submit_what_is_ready(&mut self) {
        while let Some(at) = self.tasks.iter().position(|t| wants(t) && t.ready_at <= self.now) {
            self.submit(at);
        }
    }

    fn submit(&mut self, at: usize) {
        let load = self.tasks[at].load;
        self.submitted += 1;
        let start = 8 * self.rng.below(1 << 30);
        let sectors = 8 * (1 + self.rng.below(load.sectors_max / 8));
        let mut io = Io::read(self.submitted, ProcId(at as u32), start, sectors);
        io.group = load.group;
        io.segments = 1;
        if load.others > 0 && self.rng.below(load.others) == 0 {
            match self.rng.below(5) {
                0 => (io.op, io.sectors) = (Op::Flush, Sectors(0)),
                1 => io.op = Op::Discard,
                2 => (io.op, io.flags) = (Op::Write, Flags::META),
                _ => io.op = Op::Write,
            }
        }
        if !io.flags.issue_as_root() && !matches!(io.op, Op::Discard | Op::Flush) {
            let lane = (io.group, io.op == Op::Write);
            self.order.entry(lane).or_default().push_back(self.submitted);
        }
        self.owner.insert(self.submitted, (at, io.group));
        let task = &mut self.tasks[at];
        (task.inside, task.flying) = (true, task.flying + 1);
        self.input(Input::Submit(io));
    }

    pub fn input(&mut self, input: Input) {
        self.stack.handle(self.now, input).unwrap();
        self.drain();
    }

    fn drain(&mut self) {
        loop {
            match self.stack.poll(self.now) {
                Output::Issue { req, .. } => {
                    self.check_order(req);
                    self.queue.push_back(req);
                    self.serve();
                }
                Output::Accepted { io } => {
                    let (task, _) = self.owner[&io.0];
                    self.tasks[task].inside = false;
                }
                Output::Finished { io, result } => {
                    result.unwrap();
                    let (task, _) = self.owner.remove(&io.0).unwrap();
                    self.finished += 1;
                    let task = &mut self.tasks[task];
                    task.flying -= 1;
                    task.ready_at = task.ready_at.max(self.now + task.load.think);
                }
                Output::Delay { proc, until } => {
                    self.delays += 1;
                    let task = &mut self.tasks[proc.index()];
                    task.ready_at = task.ready_at.max(until);
                }
                Output::WaitUntil(at) => {
                    self.wake = at;
                    return;
                }
            }
        }
    }

    /// What one group submitted in one direction comes in that order, as long as no tag is waited for.
    fn check_order(&mut self, req: ReqId) {
        let r = self.stack.request(req);
        if !self.ordered || r.op == Op::Flush || r.op == Op::Discard || r.flags.issue_as_root() {
            return;
        }
        let lane = (r.group, r.op == Op::Write);
        let ids: Vec<u64> = self.stack.env().requests.bios(req).map(|(_, io)| io.id.0).collect();
        for id in ids {
            let queue = self.order.get_mut(&lane).unwrap();
            if queue.front() == Some(&id) {
                queue.pop_front();
            } else {
                // A later piece of a split I/O, whose first piece was this one.
                assert!(
                    !queue.contains(&id),
                    "{id} of {lane:?} came before {:?} at {:?}",
                    queue.front(),
                    self.now
                );
            }
        }
    }

    /// The device takes one at a time.
    fn serve(&mut self) {
        if self.serving.is_some() {
            return;
        }
        let Some(req) = self.queue.pop_front() else { return };
        let r = self.stack.request(req);
        let ns = match r.op {
            Op::Read | Op::Write => {
                let base = 1_000_000_000 / IOPS - 4096 * 1_000_000_000 / BPS;
                base + r.sectors.bytes().0 * 1_000_000_000 / BPS
            }
            _ => 10_000,
        };
        *self.served.entry(r.group).or_default() += ns;
        self.serving = Some((self.now + Nanos(ns * 9 / 10), req));
    }
}

fn wants(task: &Task) -> bool {
    !task.inside && task.flying < task.load.depth
}

impl Rig {
    /// Removes a group; what it held goes on.
    pub fn remove(&mut self, group: GroupId) {
        self.stack.remove_group(self.now, group);
        self.drain();
    }

    /// Longest request from now on.
    pub fn limit(&mut self, sectors: Sectors) {
        let (name, value) = ("max_sectors_kb".into(), sectors.0 / 2);
        self.input(Input::Set { stage: StageName::Queue, name, value });
    }
}
