//! The scenarios of specs/io-cost.md section 13 and of specs/groups-and-priorities.md section 9, on the
//! controller alone; numbers in the names of the tests are those of the scenarios.

mod knobs;
mod plan;
mod submit;
mod tree;

use super::*;
use crate::env::Env;
use crate::request::{Flags, Io, Op};
use crate::unit::{IoPrio, QueueId, Sectors};
use alloc::format;
use alloc::vec::Vec;

/// A controller with its surroundings and a request for every bio that passed.
struct Bench {
    env: Env,
    c: IoCost,
    now: Instant,
    next_io: u64,
    /// I/O released by the controller, in order.
    released: Vec<BioId>,
}

const HDD: &str = "hdd";
const SSD: &str = "ssd";

fn us(n: u64) -> Instant {
    Instant::from_nanos(1000 * n)
}

fn ms(n: u64) -> Instant {
    us(1000 * n)
}

impl Bench {
    /// A disk or an SSD of depth 32, the controller enabled by that line of io.cost.qos.
    fn new(kind: &str, qos: &str) -> Bench {
        let mut device = Device::new(Sectors(1 << 40), 32);
        device.rotational = kind == HDD;
        let env = Env::new(device, 1024, 4096);
        let c = IoCost::new(&env.device);
        let mut b = Bench { env, c, now: ms(52), next_io: 0, released: Vec::new() };
        b.write(GroupId::ROOT, "io.cost.qos", &format!("8:0 enable=1 {qos}"));
        b
    }

    fn write(&mut self, group: GroupId, file: &str, line: &str) {
        self.try_write(group, file, line).unwrap();
    }

    fn try_write(&mut self, group: GroupId, file: &str, line: &str) -> Result<(), KnobError> {
        let mut cx = self.env.cx();
        self.c.write_knob(self.now, group, file, line, &mut cx)
    }

    fn read(&mut self, group: GroupId, file: &str) -> String {
        let mut out = String::new();
        let cx = self.env.cx();
        self.c.read_knob(group, file, &cx, &mut out);
        out
    }

    fn group(&mut self, parent: GroupId, weight: u32) -> GroupId {
        let group = self.env.groups.add(parent, "g");
        let mut cx = self.env.cx();
        self.c.changed(self.now, &Change::GroupAdded(group), &mut cx);
        self.env.procs.add(group, IoPrio::NONE);
        self.write(group, "io.weight", &format!("{weight}"));
        group
    }

    fn top(&mut self, weight: u32) -> GroupId {
        self.group(GroupId::ROOT, weight)
    }

    /// Submits; the processes are numbered as the groups, from 0 for the first group made.
    fn submit(&mut self, group: GroupId, edit: impl FnOnce(&mut Io)) -> (BioId, Verdict) {
        self.next_io += 1;
        let mut io = Io::read(self.next_io, ProcId(group.0.wrapping_sub(1)), 0, 8);
        io.group = group;
        edit(&mut io);
        let bio = self.env.requests.store_bio(io, self.now);
        let mut cx = self.env.cx();
        let verdict = self.c.submit(self.now, bio, &mut cx);
        while let Some(bio) = self.c.release(self.now, &mut cx) {
            self.released.push(bio);
        }
        (bio, verdict)
    }

    fn read_at(&mut self, group: GroupId, start: u64) -> (BioId, Verdict) {
        self.submit(group, |io| io.start = Sectors(start))
    }

    /// A read at a place that is random after the group's last one.
    fn read_far(&mut self, group: GroupId) -> (BioId, Verdict) {
        let start = if self.next_io.is_multiple_of(2) { 1 << 30 } else { 8 };
        self.read_at(group, start)
    }

    fn request(&mut self, bio: BioId) -> ReqId {
        let (alloc, began) = (self.now, self.now);
        self.env.requests.add(bio, alloc, began, true, QueueId(0)).unwrap()
    }

    fn finish(&mut self, id: ReqId) {
        self.c.complete(self.now, id, &mut self.env.cx());
        self.env.requests.remove(id);
    }

    /// The bio becomes a request and is served at once.
    fn serve(&mut self, bio: BioId) {
        let id = self.request(bio);
        self.finish(id);
    }

    /// Moves the clock; timers on the way fire when they are due.
    fn until(&mut self, at: Instant) {
        assert!(at >= self.now, "time goes forward");
        while let Some(due) = self.c.next_timer().filter(|&due| due <= at) {
            self.now = due.max(self.now);
            let mut cx = self.env.cx();
            self.c.timer(self.now, &mut cx);
            while let Some(bio) = self.c.release(self.now, &mut cx) {
                self.released.push(bio);
            }
        }
        self.now = at;
    }

    fn node(&self, group: GroupId) -> &super::weights::CostNode {
        &self.c.shares[group]
    }

    fn node_mut(&mut self, group: GroupId) -> &mut super::weights::CostNode {
        &mut self.c.shares[group]
    }

    fn now(&self) -> Now {
        self.c.clock.at(self.now)
    }

    /// hwa and hwi.
    fn shares(&mut self, group: GroupId) -> (u64, u64) {
        self.c.shares.of(group)
    }

    /// Activates a group without an I/O.
    fn activate(&mut self, group: GroupId) {
        let now = self.now();
        self.c.exist(group, &now);
        assert!(self.c.activate(group, &now));
    }

    /// The group's credit becomes so much; nothing is in flight.
    fn set_credit(&mut self, group: GroupId, credit: i64) {
        let v = self.now().v.wrapping_sub(credit as u64);
        let node = self.node_mut(group);
        (node.time.charged, node.time.done) = (v, v);
    }
}

/// A quality of service without misses and with such a wait for tags, in percent of a period.
fn waiting(wait_pct: u64) -> super::vrate::Quality {
    super::vrate::Quality { missed_ppm: [0; 2], wait_pct }
}

fn short(lagging: u64) -> super::vrate::Demand {
    super::vrate::Demand { shortages: 1, lagging, ..Default::default() }
}
