//! A lone scheduler with a device and processes around it. Times are in ms.

use crate::Device;
use crate::env::Env;
use crate::group::{GroupId, ProcId};
use crate::request::{Flags, Io, IoId, Op, ReqId};
use crate::rows::Id;
use crate::sched::cfq::ids::{CtxNo, QueueNo};
use crate::sched::cfq::queue::Queue;
use crate::sched::cfq::{Cfq, Version};
use crate::sched::{At, Dispatch, Run, Scheduler, Setup};
use crate::stage::{Change, Stage};
use crate::trace::{Event, Trace};
use crate::unit::{Instant, IoPrio, Nanos, QueueId, Sectors};
use alloc::vec::Vec;

pub struct Rig {
    pub env: Env,
    pub cfq: Cfq,
    pub now: Instant,
    /// The answer to the last insertion.
    pub run: Run,
    ids: u64,
    calls: u64,
}

impl Rig {
    /// A disk.
    pub fn new() -> Rig {
        Rig::of(Version::V34, true)
    }

    pub fn of(version: Version, rotational: bool) -> Rig {
        let mut device = Device::new(Sectors(1 << 32), 128);
        device.profile = crate::Profile::Legacy;
        device.rotational = rotational;
        let mut env = Env::new(device, 512, 2048);
        env.trace = Trace::keep(100_000);
        let setup = Setup { device: &env.device, requests: 512, now: Instant::ZERO };
        let cfq = Cfq::new(&setup, version);
        Rig { env, cfq, now: Instant::ZERO, run: Run::Usual, ids: 0, calls: 0 }
    }

    /// Recomputes all counts; seldom in long runs.
    pub fn check(&mut self) {
        self.calls += 1;
        if self.calls < 200 || self.calls.is_multiple_of(257) {
            self.cfq.check();
        }
    }

    pub fn at(&mut self, ms: u64) -> &mut Rig {
        let at = Instant::ZERO + Nanos::ms(ms);
        assert!(at >= self.now, "time goes forward");
        self.now = at;
        self
    }

    pub fn ms(&self) -> u64 {
        self.now.as_nanos() / 1_000_000
    }

    pub fn set(&mut self, name: &str, value: u64) {
        self.cfq.set(self.now, name, value, &mut self.env.cx()).unwrap();
    }

    pub fn proc(&mut self, prio: IoPrio) -> ProcId {
        self.env.procs.add(GroupId::ROOT, prio)
    }

    /// `N` processes of best-effort 4.
    pub fn procs<const N: usize>(&mut self) -> [ProcId; N] {
        [(); N].map(|()| self.proc(IoPrio::be(4)))
    }

    pub fn group(&mut self, name: &str, weight: u64) -> GroupId {
        let group = self.env.groups.add(GroupId::ROOT, name);
        self.cfq.changed(self.now, &Change::GroupAdded(group), &mut self.env.cx());
        let set = self.cfq.set_group(self.now, group, "weight", Some(weight), &mut self.env.cx());
        set.unwrap();
        group
    }

    pub fn io(&mut self, proc: ProcId, op: Op, start: u64, sectors: u64, flags: Flags) -> Io {
        self.ids += 1;
        Io { op, flags, id: IoId(self.ids), ..Io::read(0, proc, start, sectors) }
    }

    pub fn submit(&mut self, io: Io) -> ReqId {
        let sync = self.env.device.is_sync(io.op, io.flags);
        let id = self.env.requests.create(io, sync, QueueId(0), self.now).unwrap();
        let mut cx = self.env.cx();
        self.cfq.prepare(self.now, id, &mut cx);
        self.run = self.cfq.insert(self.now, id, At::Tail, &mut cx);
        self.check();
        id
    }

    pub fn read(&mut self, proc: ProcId, start: u64, sectors: u64) -> ReqId {
        self.flagged(proc, Op::Read, start, sectors, Flags::NONE)
    }

    /// An async write of 8 sectors.
    pub fn write(&mut self, proc: ProcId, start: u64) -> ReqId {
        self.flagged(proc, Op::Write, start, 8, Flags::NONE)
    }

    pub fn flagged(
        &mut self,
        proc: ProcId,
        op: Op,
        start: u64,
        sectors: u64,
        flags: Flags,
    ) -> ReqId {
        let io = self.io(proc, op, start, sectors, flags);
        self.submit(io)
    }

    pub fn dispatch(&mut self) -> Option<ReqId> {
        let answer = self.cfq.dispatch(self.now, QueueId(0), &mut self.env.cx());
        self.check();
        match answer {
            Dispatch::Issue(id) => Some(id),
            Dispatch::Idle | Dispatch::Empty => None,
        }
    }

    /// The process of the request that is dispatched, which is returned too; panics if there is
    /// none.
    pub fn issue(&mut self) -> (ReqId, ProcId) {
        let id = self.dispatch().expect("something to dispatch");
        (id, self.env.requests[id].proc)
    }

    /// The start sector of the request that is dispatched.
    pub fn issue_at(&mut self) -> u64 {
        let (id, _) = self.issue();
        self.env.requests[id].start.0
    }

    /// All that is dispatched in this instant.
    pub fn issue_all(&mut self) -> Vec<ReqId> {
        core::iter::from_fn(|| self.dispatch()).collect()
    }

    pub fn complete(&mut self, id: ReqId) {
        self.cfq.complete(self.now, id, &mut self.env.cx());
        self.env.requests.remove(id);
        self.check();
    }

    /// When the idle timer fires.
    pub fn timer(&self) -> Option<u64> {
        self.cfq.next_timer().map(|at| at.as_nanos() / 1_000_000)
    }

    pub fn fire_timer(&mut self) {
        self.now = self.cfq.next_timer().expect("armed");
        self.cfq.timer(self.now, &mut self.env.cx());
        self.check();
        assert!(self.cfq.next_timer().is_none_or(|at| at > self.now));
    }

    pub fn exit(&mut self, proc: ProcId) {
        self.env.procs.get_mut(proc).unwrap().alive = false;
        self.cfq.changed(self.now, &Change::ProcExited(proc), &mut self.env.cx());
        self.check();
    }

    pub fn renice(&mut self, proc: ProcId, prio: IoPrio) {
        self.env.procs.get_mut(proc).unwrap().prio = prio;
        self.cfq.changed(self.now, &Change::ProcPriority(proc), &mut self.env.cx());
    }

    /// The number of the sync queue of a process.
    pub fn q(&self, proc: ProcId) -> QueueNo {
        self.cfq.ctxs[CtxNo::of(proc)].sync_q
    }

    pub fn queue(&mut self, proc: ProcId) -> &mut Queue {
        let q = self.q(proc);
        &mut self.cfq.queues[q]
    }

    /// The queue being served.
    pub fn active(&mut self) -> &mut Queue {
        let a = self.cfq.active;
        assert!(a.is_some(), "a queue is being served");
        &mut self.cfq.queues[a]
    }

    pub fn is_active(&self, proc: ProcId) -> bool {
        self.cfq.active == self.q(proc)
    }

    /// The active queue begins its slice now, as after a first completion, and has `ms` left.
    pub fn slice_left(&mut self, ms: i64) {
        let t = self.ms() as i64;
        self.active().slice.begin(t, ms);
    }

    /// The reasons given for ends of slices since the last call.
    pub fn reasons(&mut self) -> Vec<&'static str> {
        let why = |e: Event| match e {
            Event::Why(w) if w.what.starts_with("expired") || w.what.starts_with("preempted") => {
                Some(w.what)
            }
            _ => None,
        };
        self.env.trace.take().into_iter().filter_map(|r| why(r.event)).collect()
    }
}
