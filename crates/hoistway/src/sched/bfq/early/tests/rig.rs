//! A device under one of the early releases.

use super::super::{Early, Release};
use crate::Device;
use crate::device::Profile;
use crate::env::Env;
use crate::group::{GroupId, ProcId};
use crate::request::{Io, IoId, Op, ReqId};
use crate::sched::bfq::ids::QueueNo;
use crate::sched::{At, Dispatch, Scheduler, Setup};
use crate::stage::Stage;
use crate::unit::{Instant, IoPrio, Nanos, QueueId, Sectors};
use alloc::vec::Vec;

pub struct Rig {
    pub env: Env,
    pub early: Early,
    pub now: Instant,
    ids: u64,
}

impl Rig {
    /// early on a disk.
    pub fn new() -> Rig {
        Rig::of(Release::V1, true)
    }

    pub fn of(release: Release, rotational: bool) -> Rig {
        let mut device = Device::new(Sectors(1 << 32), 128);
        device.profile = Profile::Legacy;
        device.rotational = rotational;
        let env = Env::new(device, 1_024, 2_048);
        let setup = Setup { device: &env.device, requests: 1_024, now: Instant::ZERO };
        let early = Early::new(&setup, release);
        Rig { env, early, now: Instant::ZERO, ids: 0 }
    }

    pub fn proc(&mut self) -> ProcId {
        self.env.procs.add(GroupId::ROOT, IoPrio::be(4))
    }

    pub fn at_ms(&mut self, ms: u64) {
        self.now = Instant::ZERO + Nanos::ms(ms);
        while self.early.next_timer().is_some_and(|at| at <= self.now) {
            self.early.timer(self.now, &mut self.env.cx());
        }
    }

    pub fn submit(&mut self, proc: ProcId, op: Op, start: u64, sectors: u64) {
        self.ids += 1;
        let io = Io { op, id: IoId(self.ids), ..Io::read(0, proc, start, sectors) };
        let sync = self.env.device.is_sync(io.op, io.flags);
        let id = self.env.requests.create(io, sync, QueueId(0), self.now).unwrap();
        self.early.prepare(self.now, id, &mut self.env.cx());
        self.early.insert(self.now, id, At::Tail, &mut self.env.cx());
    }

    pub fn read(&mut self, proc: ProcId, start: u64, sectors: u64) {
        self.submit(proc, Op::Read, start, sectors);
    }

    pub fn dispatch(&mut self) -> Dispatch {
        self.early.dispatch(self.now, QueueId(0), &mut self.env.cx())
    }

    pub fn complete(&mut self, id: ReqId) {
        self.early.complete(self.now, id, &mut self.env.cx());
        self.env.requests.remove(id);
    }

    /// All that is dispatched without a completion.
    pub fn fill(&mut self) -> Vec<ReqId> {
        let mut all = Vec::new();
        while let Dispatch::Issue(id) = self.dispatch() {
            all.push(id);
        }
        all
    }

    pub fn serve_all(&mut self) {
        loop {
            let some = self.fill();
            if some.is_empty() {
                return;
            }
            for id in some {
                self.complete(id);
            }
        }
    }

    pub fn q(&self, proc: ProcId) -> QueueNo {
        self.early.b.ctxs.pairs[proc.index()].sync
    }

    pub fn weight(&self, proc: ProcId) -> u32 {
        self.early.b.fair.ents[self.q(proc)].weight
    }
}
