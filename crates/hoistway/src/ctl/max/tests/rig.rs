//! The controller alone: groups, bios, and a clock in ticks.

use super::super::*;
use crate::env::Env;
use crate::group::ProcId;
use crate::request::Io;
use crate::unit::Sectors;
use alloc::collections::BTreeMap;

/// Start of the scenarios; a multiple of 25.
pub const T: u64 = 1_000_250;
pub const TICK: Nanos = Nanos::ms(4);

pub const KIB: u64 = 1024;
pub const MIB: u64 = 1024 * KIB;

/// One I/O that left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passed {
    /// Ticks after [`T`].
    pub tick: u64,
    pub id: u64,
    pub dir: Dir,
    pub group: GroupId,
}

pub struct Rig {
    pub ctl: IoMax,
    pub env: Env,
    /// Ticks after [`T`].
    pub tick: u64,
    pub passed: Vec<Passed>,
    pub bios: BTreeMap<u64, BioId>,
    next_id: u64,
    /// How often a timer fired without letting anything pass, and when.
    pub idle_timers: Vec<u64>,
}

impl Rig {
    /// `timers`: `ideal` (1) or `kernel` (0).
    pub fn new(timers: u64) -> Rig {
        Rig::with(timers, IoMax::new)
    }

    pub fn with(timers: u64, build: impl FnOnce(&Device) -> IoMax) -> Rig {
        let mut device = Device::new(Sectors(1 << 40), 32);
        device.tick = TICK;
        let ctl = build(&device);
        let mut rig = Rig {
            ctl,
            env: Env::new(device, 16, 4096),
            tick: 0,
            passed: Vec::new(),
            bios: BTreeMap::new(),
            next_id: 0,
            idle_timers: Vec::new(),
        };
        rig.ctl.set(Instant::ZERO, "tick_timers", timers, &mut rig.env.cx()).unwrap();
        rig
    }

    pub fn now(&self) -> Instant {
        Instant::from_nanos((T + self.tick) * TICK.0)
    }

    /// A group with limits that were set long ago.
    pub fn group(&mut self, parent: GroupId, line: &str) -> GroupId {
        let group = self.env.groups.add(parent, "g");
        let mut cx = self.env.cx();
        self.ctl.changed(Instant::ZERO, &Change::GroupAdded(group), &mut cx);
        if !line.is_empty() {
            let line = format!("8:0 {line}");
            self.ctl.write_knob(Instant::ZERO, group, "io.max", &line, &mut cx).unwrap();
        }
        group
    }

    pub fn write(&mut self, group: GroupId, line: &str) {
        let (now, line) = (self.now(), format!("8:0 {line}"));
        self.ctl.write_knob(now, group, "io.max", &line, &mut self.env.cx()).unwrap();
        self.settle();
    }

    pub fn submit(&mut self, group: GroupId, op: Op, bytes: u64) -> u64 {
        self.next_id += 1;
        let io = Io { op, group, ..Io::read(self.next_id, ProcId(0), 0, bytes.div_ceil(512)) };
        let bio = self.env.requests.store_bio(io, self.now());
        self.enter(bio);
        self.next_id
    }

    pub fn enter(&mut self, bio: BioId) {
        let now = self.now();
        self.bios.insert(self.env.requests.bio(bio).id.0, bio);
        if self.ctl.submit(now, bio, &mut self.env.cx()) == Verdict::Pass {
            self.leaves(bio);
        }
        self.settle();
    }

    pub fn reads(&mut self, group: GroupId, n: u64, bytes: u64) {
        for _ in 0..n {
            self.submit(group, Op::Read, bytes);
        }
    }

    pub fn writes(&mut self, group: GroupId, n: u64, bytes: u64) {
        for _ in 0..n {
            self.submit(group, Op::Write, bytes);
        }
    }

    fn leaves(&mut self, bio: BioId) {
        let io = self.env.requests.take_bio(bio).io;
        self.bios.remove(&io.id.0);
        let (id, dir) = (io.id.0, io.op.dir());
        self.passed.push(Passed { tick: self.tick, id, dir, group: io.group });
    }

    /// Timers that are due, and what is released.
    pub fn settle(&mut self) {
        let now = self.now();
        while self.ctl.next_timer().is_some_and(|at| at <= now) {
            let before = self.ctl.nodes[0].queued();
            self.ctl.timer(now, &mut self.env.cx());
            assert!(self.ctl.next_timer().is_none_or(|at| at > now));
            if self.ctl.nodes[0].queued() == before {
                self.idle_timers.push(self.tick);
            }
        }
        while let Some(bio) = self.ctl.release(now, &mut self.env.cx()) {
            self.leaves(bio);
        }
    }

    /// Lets time pass up to that tick, included.
    pub fn run_to(&mut self, tick: u64) {
        while let Some(at) = self.ctl.next_timer() {
            let at = at.as_nanos() / TICK.0 - T;
            if at > tick {
                break;
            }
            self.tick = at;
            self.settle();
        }
        self.tick = tick;
    }

    /// How many passed at which tick.
    pub fn steps(&self) -> Vec<(u64, usize)> {
        let mut steps: Vec<(u64, usize)> = Vec::new();
        for p in &self.passed {
            match steps.last_mut() {
                Some((tick, n)) if *tick == p.tick => *n += 1,
                _ => steps.push((p.tick, 1)),
            }
        }
        steps
    }

    pub fn ids(&self) -> Vec<u64> {
        self.passed.iter().map(|p| p.id).collect()
    }
}
