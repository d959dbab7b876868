//! A lone scheduler with a device and processes around it.

use crate::Device;
use crate::env::Env;
use crate::group::{GroupId, ProcId};
use crate::request::{Flags, Io, IoId, Op, ReqId};
use crate::sched::bfq::Bfq;
use crate::sched::bfq::idle::HwTag;
use crate::sched::bfq::ids::QueueNo;
use crate::sched::bfq::queue::Queue;
use crate::sched::bfq::wf2q::Entity;
use crate::sched::{At, Dispatch, Scheduler, Setup};
use crate::stage::{Change, Stage};
use crate::trace::{Event, Trace};
use crate::unit::{Instant, IoPrio, Nanos, QueueId, Sectors};
use alloc::vec::Vec;

pub struct Rig {
    pub env: Env,
    pub bfq: Bfq,
    pub now: Instant,
    ids: u64,
}

impl Rig {
    pub fn new(rotational: bool) -> Rig {
        Rig::sized(rotational, 2048)
    }

    /// With room for that many requests.
    pub fn sized(rotational: bool, requests: usize) -> Rig {
        Rig::with_actuators(rotational, requests, &[])
    }

    /// With actuators that begin at sector 0 and at those borders.
    pub fn with_actuators(rotational: bool, requests: usize, borders: &[u64]) -> Rig {
        let capacity = 1 << 32;
        let mut device = Device::new(Sectors(capacity), 128);
        device.rotational = rotational;
        let mut from = 0;
        if !borders.is_empty() {
            for &to in borders.iter().chain(&[capacity]) {
                device.actuators.push((Sectors(from), Sectors(to)));
                from = to;
            }
        }
        let mut env = Env::new(device, requests, 4 * requests);
        env.trace = Trace::keep(100_000);
        let setup = Setup { device: &env.device, requests, now: Instant::ZERO };
        let bfq = Bfq::new(&setup);
        let mut rig = Rig { env, bfq, now: Instant::ZERO, ids: 0 };
        // Scenarios about raising turn it on; so do those about merging.
        rig.set("low_latency", 0);
        rig.set("stable_merge", 0);
        rig.set("queue_merge", 0);
        rig
    }

    /// A disk that serves one command at a time.
    pub fn hdd() -> Rig {
        let mut rig = Rig::new(true);
        rig.bfq.ncq.tag = HwTag::No;
        rig
    }

    /// Flash that queues commands.
    pub fn ssd() -> Rig {
        let mut rig = Rig::new(false);
        rig.bfq.ncq.tag = HwTag::Yes;
        rig
    }

    pub fn at_us(&mut self, us: u64) {
        self.now = Instant::ZERO + Nanos::us(us);
    }

    pub fn at_ms(&mut self, ms: u64) {
        self.at_us(1000 * ms);
    }

    pub fn set(&mut self, name: &str, value: u64) {
        self.bfq.set(self.now, name, value, &mut self.env.cx()).unwrap();
    }

    pub fn proc(&mut self, prio: IoPrio) -> ProcId {
        self.env.procs.add(GroupId::ROOT, prio)
    }

    /// `n` processes of best-effort 4.
    pub fn procs<const N: usize>(&mut self) -> [ProcId; N] {
        [(); N].map(|()| self.proc(IoPrio::be(4)))
    }

    pub fn io(&mut self, proc: ProcId, op: Op, start: u64, sectors: u64, flags: Flags) -> Io {
        self.ids += 1;
        let group = self.env.procs.group(proc);
        Io { op, flags, group, id: IoId(self.ids), ..Io::read(0, proc, start, sectors) }
    }

    pub fn submit(&mut self, io: Io, at: At) -> ReqId {
        let sync = self.env.device.is_sync(io.op, io.flags);
        let id = self.env.requests.create(io, sync, QueueId(0), self.now).unwrap();
        let mut cx = self.env.cx();
        self.bfq.prepare(self.now, id, &mut cx);
        self.bfq.insert(self.now, id, at, &mut cx);
        id
    }

    pub fn read(&mut self, proc: ProcId, start: u64, sectors: u64) -> ReqId {
        let io = self.io(proc, Op::Read, start, sectors, Flags::NONE);
        self.submit(io, At::Tail)
    }

    /// An async write.
    pub fn write(&mut self, proc: ProcId, start: u64, sectors: u64) -> ReqId {
        let io = self.io(proc, Op::Write, start, sectors, Flags::NONE);
        self.submit(io, At::Tail)
    }

    /// A group below the root, of that weight.
    pub fn group(&mut self, weight: u64) -> GroupId {
        let group = self.env.groups.add(GroupId::ROOT, "group");
        let cx = &mut self.env.cx();
        self.bfq.set_group(self.now, group, "weight", Some(weight), cx).unwrap();
        group
    }

    /// Issues and completes everything of a queue that is alone, at once.
    pub fn serve_all(&mut self) {
        while let Dispatch::Issue(id) = self.dispatch() {
            self.complete(id);
        }
    }

    pub fn dispatch(&mut self) -> Dispatch {
        self.bfq.dispatch(self.now, QueueId(0), &mut self.env.cx())
    }

    /// The process of the request that is dispatched; panics if there is none.
    pub fn issue(&mut self) -> (ReqId, ProcId) {
        match self.dispatch() {
            Dispatch::Issue(id) => (id, self.env.requests[id].proc),
            other => panic!("{other:?}"),
        }
    }

    pub fn complete(&mut self, id: ReqId) {
        self.bfq.complete(self.now, id, &mut self.env.cx());
        self.env.requests.remove(id);
    }

    pub fn fire_timer(&mut self) {
        self.now = self.bfq.next_timer().expect("armed");
        self.bfq.timer(self.now, &mut self.env.cx());
        assert!(self.bfq.next_timer().is_none_or(|at| at > self.now));
    }

    /// Fires the idle timer at the present time if it is due.
    pub fn fire_timer_if_due(&mut self) {
        if self.bfq.next_timer().is_some_and(|at| at <= self.now) {
            self.bfq.timer(self.now, &mut self.env.cx());
        }
    }

    /// Goes on to the idle timer if it is armed.
    pub fn fire_timer_if_armed(&mut self) {
        if self.bfq.next_timer().is_some() {
            self.fire_timer();
        }
    }

    pub fn exit(&mut self, proc: ProcId) {
        self.env.procs.get_mut(proc).unwrap().alive = false;
        self.bfq.changed(self.now, &Change::ProcExited(proc), &mut self.env.cx());
    }

    /// The number of the sync queue of a process.
    pub fn q(&self, proc: ProcId) -> QueueNo {
        self.bfq.ctxs.pairs[self.bfq.ctxs.pair_at(proc, 0)].sync
    }

    pub fn queue(&mut self, proc: ProcId) -> &mut Queue {
        let q = self.q(proc);
        &mut self.bfq.queues[q]
    }

    pub fn ent(&mut self, proc: ProcId) -> &mut Entity {
        let q = self.q(proc);
        &mut self.bfq.fair.ents[q]
    }

    pub fn in_service(&self, proc: ProcId) -> bool {
        self.bfq.serving.queue == self.q(proc)
    }

    pub fn kicked(&mut self) -> bool {
        self.env.runs.take().is_some()
    }

    /// Reasons of expiry since the last call, as (queue, reason).
    pub fn expiries(&mut self) -> Vec<(QueueNo, &'static str)> {
        let why = |e: Event| match e {
            Event::Why(w) => w.what.strip_prefix("expired: ").map(|what| (QueueNo(w.of), what)),
            _ => None,
        };
        self.env.trace.take().into_iter().filter_map(|r| why(r.event)).collect()
    }
}
