//! io.latency alone: a controller, groups, and I/Os in flight by name.

use hoistway::ctl::{self, Controller, Verdict};
use hoistway::knob::KnobError;
use hoistway::stage::Change;
use hoistway::{
    BioId, Device, Env, Flags, GroupId, Instant, Io, IoPrio, Nanos, ProcId, QueueId, ReqId, Sectors,
};
use std::collections::BTreeMap;

/// The scenarios' zero: the clock has run for a second.
pub const START_MS: u64 = 1_000;

pub struct Rig {
    pub env: Env,
    pub ctl: Box<dyn Controller>,
    pub now: Instant,
    groups: BTreeMap<String, GroupId>,
    procs: BTreeMap<String, ProcId>,
    /// Bios let in, by I/O id, oldest first.
    pub flying: BTreeMap<u64, (ReqId, GroupId)>,
    held: BTreeMap<u64, (BioId, GroupId)>,
    next_io: u64,
    /// I/Os that `release` returned, in order.
    pub released: Vec<u64>,
}

impl Rig {
    /// Q = 64, not rotational, no groups.
    pub fn new() -> Rig {
        Rig::on(|_| {})
    }

    pub fn on(edit: impl FnOnce(&mut Device)) -> Rig {
        let mut device = Device::new(Sectors(1 << 30), 64);
        device.nr_requests = 64;
        edit(&mut device);
        let env = Env::new(device, 20_000, 20_000);
        let ctl = (ctl::find("io.latency").unwrap().build)(&env.device);
        let mut rig = Rig {
            env,
            ctl,
            now: Instant::ZERO + Nanos::ms(START_MS),
            groups: BTreeMap::new(),
            procs: BTreeMap::new(),
            flying: BTreeMap::new(),
            held: BTreeMap::new(),
            next_io: 0,
            released: Vec::new(),
        };
        rig.groups.insert("/".into(), GroupId::ROOT);
        rig
    }

    pub fn set(&mut self, name: &str, value: u64) {
        self.ctl.set(self.now, name, value, &mut self.env.cx()).unwrap();
    }

    /// Makes a group; `w/x` is a child of `w`. Every group has one process.
    pub fn group(&mut self, path: &str) {
        let parent = path.rsplit_once('/').map_or(GroupId::ROOT, |(parent, _)| self.id(parent));
        let group = self.env.groups.add(parent, path);
        self.ctl.changed(self.now, &Change::GroupAdded(group), &mut self.env.cx());
        self.groups.insert(path.into(), group);
        let proc = self.env.procs.add(group, IoPrio::NONE);
        self.procs.insert(path.into(), proc);
    }

    /// Makes groups with targets: `a=5ms` or `b`.
    pub fn with(groups: &str) -> Rig {
        let mut rig = Rig::new();
        rig.add(groups);
        rig
    }

    pub fn add(&mut self, groups: &str) {
        for word in groups.split_whitespace() {
            let (name, target) = word.split_once('=').unwrap_or((word, ""));
            self.group(name);
            if let Some(ms) = target.strip_suffix("ms") {
                self.target(name, ms.parse::<u64>().unwrap() * 1000);
            }
        }
    }

    pub fn id(&self, group: &str) -> GroupId {
        self.groups[group]
    }

    pub fn proc(&self, group: &str) -> ProcId {
        self.procs[group]
    }

    pub fn target(&mut self, group: &str, us: u64) {
        self.write(group, &format!("8:0 target={us}")).unwrap();
    }

    pub fn write(&mut self, group: &str, line: &str) -> Result<(), KnobError> {
        let id = self.id(group);
        let result = self.ctl.write_knob(self.now, id, "io.latency", line, &mut self.env.cx());
        self.release();
        result
    }

    pub fn read(&mut self, group: &str) -> String {
        let (id, mut out) = (self.id(group), String::new());
        self.ctl.read_knob(id, "io.latency", &self.env.cx(), &mut out);
        out
    }

    pub fn stat(&mut self, group: &str) -> String {
        let (id, mut out) = (self.id(group), String::new());
        self.ctl.stat(self.now, id, &self.env.cx(), &mut out);
        out
    }

    pub fn remove(&mut self, group: &str) {
        let id = self.id(group);
        self.ctl.changed(self.now, &Change::GroupRemoved(id), &mut self.env.cx());
        self.env.groups.remove(id);
        self.release();
    }

    /// Time since the scenario's zero.
    pub fn at_us(&mut self, us: u64) {
        let at = Instant::ZERO + Nanos::ms(START_MS) + Nanos::us(us);
        assert!(at >= self.now, "time goes forward");
        self.now = at;
    }

    pub fn at_ms(&mut self, ms: u64) {
        self.at_us(ms * 1000);
    }

    pub fn wait_us(&mut self, us: u64) {
        self.now += Nanos::us(us);
    }

    /// Submits a read; true if it passed.
    pub fn submit(&mut self, group: &str) -> bool {
        self.submit_with(group, Flags::NONE)
    }

    pub fn submit_with(&mut self, group: &str, flags: Flags) -> bool {
        self.next_io += 1;
        let (id, proc) = (self.id(group), self.proc(group));
        let io = Io { group: id, flags, ..Io::read(self.next_io, proc, self.next_io * 8, 8) };
        let bio = self.env.requests.add_bio(io, self.now).expect("room for a bio");
        let verdict = self.ctl.submit(self.now, bio, &mut self.env.cx());
        match verdict {
            Verdict::Pass => self.start(self.next_io, bio, id),
            Verdict::Hold => {
                self.held.insert(self.next_io, (bio, id));
            }
        }
        self.release();
        self.flying.contains_key(&self.next_io)
    }

    /// The I/O submitted last.
    pub fn last(&self) -> u64 {
        self.next_io
    }

    fn start(&mut self, io: u64, bio: BioId, group: GroupId) {
        let req = self.env.requests.add(bio, self.now, self.now, true, QueueId(0));
        self.flying.insert(io, (req.expect("room for a request"), group));
        self.ctl.issue(self.now, req.unwrap(), &mut self.env.cx());
    }

    fn release(&mut self) {
        while let Some(bio) = self.ctl.release(self.now, &mut self.env.cx()) {
            let io = self.env.requests.bio(bio).id.0;
            let (kept, group) = self.held.remove(&io).expect("what is released was held");
            assert_eq!(kept, bio);
            self.released.push(io);
            self.start(io, bio, group);
        }
    }

    pub fn held(&self, group: &str) -> usize {
        self.held.values().filter(|(_, g)| *g == self.id(group)).count()
    }

    pub fn complete(&mut self, io: u64) {
        let (req, _) = self.flying.remove(&io).expect("it is in flight");
        self.ctl.complete(self.now, req, &mut self.env.cx());
        self.env.requests.remove(req);
        self.release();
    }

    /// Completes all of a group that are in flight.
    pub fn complete_all(&mut self, group: &str) {
        let id = self.id(group);
        let all: Vec<u64> =
            self.flying.iter().filter(|(_, f)| f.1 == id).map(|(&io, _)| io).collect();
        for io in all {
            self.complete(io);
        }
    }

    /// One I/O of the group with that latency, in and out.
    pub fn io(&mut self, group: &str, latency_us: u64) {
        assert!(self.submit(group), "a lone I/O passes");
        self.wait_us(latency_us);
        self.complete(self.next_io);
    }

    /// So many I/Os of a group side by side, of that latency.
    pub fn batch(&mut self, group: &str, n: usize, latency_us: u64) {
        let ios: Vec<u64> = (0..n).map(|_| self.start_free(group)).collect();
        self.wait_us(latency_us);
        ios.into_iter().for_each(|io| self.complete(io));
    }

    /// `bad` and `good` I/Os of a group, 20 ms and 1 us long: one ends at `ms`, the others come at once.
    /// A window is judged by the first I/O past its end, so this is one window of the group if its last
    /// one was judged not long ago.
    pub fn window(&mut self, group: &str, ms: u64, good: usize, bad: usize) {
        let last_bad = bad.min(1);
        self.batch(group, bad - last_bad, 20_000);
        self.batch(group, good - (1 - last_bad), 1);
        let latency = if last_bad == 1 { 20_000 } else { 1 };
        self.at_us(ms * 1000 - latency);
        self.batch(group, 1, latency);
    }

    /// These end 1 us before, the last one at `ms`.
    pub fn finish_at(&mut self, ms: u64, ios: &[u64]) {
        let (last, others) = ios.split_last().unwrap();
        self.at_us(ms * 1000 - 1);
        others.iter().for_each(|&io| self.complete(io));
        self.at_ms(ms);
        self.complete(*last);
    }

    pub fn start_free(&mut self, group: &str) -> u64 {
        assert!(self.submit(group), "'{group}' is not limited");
        self.next_io
    }

    /// A figure of a group (`/`: the root).
    pub fn gauge(&mut self, name: &str, group: &str) -> i64 {
        let (id, mut found) = (self.id(group), None);
        self.ctl.gauges(self.now, &self.env.cx(), &mut |g| {
            if g.name == name && g.group == Some(id) {
                found = Some(g.value);
            }
        });
        found.unwrap_or_else(|| panic!("no gauge {name} of {group}"))
    }

    pub fn cookie(&mut self) -> i64 {
        self.gauge("cookie", "/")
    }

    /// Has the group a node?
    pub fn depth_known(&mut self, group: &str) -> bool {
        !self.stat(group).is_empty()
    }

    /// The allowed depth as io.stat prints it.
    pub fn depth(&mut self, group: &str) -> String {
        let stat = self.stat(group);
        let field = stat.split(' ').find_map(|f| f.strip_prefix("depth="));
        field.unwrap_or_else(|| panic!("no depth in '{stat}'")).into()
    }

    pub fn use_delay(&mut self, group: &str) -> i64 {
        self.gauge("use_delay", group)
    }

    /// How long the group's process sleeps on its way back.
    pub fn sleep(&mut self, group: &str) -> Nanos {
        let proc = self.proc(group);
        self.ctl.delay(self.now, proc, &mut self.env.cx())
    }

    /// Fires the timer if it is due.
    pub fn tick(&mut self) -> bool {
        let due = self.ctl.next_timer().is_some_and(|at| at <= self.now);
        if due {
            self.ctl.timer(self.now, &mut self.env.cx());
            self.release();
        }
        due
    }
}
