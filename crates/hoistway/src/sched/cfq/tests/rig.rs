//! What tests of CFQ ask beyond the kit's rig. Times are in ms.

use crate::Device;
use crate::group::ProcId;
use crate::request::{Flags, Op, ReqId};
use crate::rows::Id;
use crate::sched::At;
use crate::sched::cfq::ids::{CtxNo, QueueNo};
use crate::sched::cfq::queue::CfqQueue;
use crate::sched::cfq::{CFQ, CFQ_30, CFQ_38, Cfq, Version};
use crate::testkit::scheduler;
use crate::unit::Sectors;
use alloc::boxed::Box;
use alloc::vec::Vec;

pub(in crate::sched::cfq) type Rig = scheduler::Rig<Cfq>;

impl Rig {
    /// A disk.
    pub(in crate::sched::cfq) fn disk() -> Rig {
        Rig::of(Version::V34, true)
    }

    pub(in crate::sched::cfq) fn of(version: Version, rotational: bool) -> Rig {
        let mut device = Device::new(Sectors(1 << 32), 128);
        device.profile = crate::Profile::Legacy;
        device.rotational = rotational;
        let kernel = match version {
            Version::V30 => &CFQ_30,
            Version::V34 => &CFQ,
            Version::V38 => &CFQ_38,
        };
        let mut rig = Rig::new(device, 512, |setup| Box::new(Cfq::new(setup, kernel)));
        rig.check = |cfq| cfq.check();
        rig
    }

    pub(in crate::sched::cfq) fn flagged(
        &mut self,
        proc: ProcId,
        op: Op,
        start: u64,
        sectors: u64,
        flags: Flags,
    ) -> ReqId {
        let io = self.io(proc, op, start, sectors, flags);
        self.submit(io, At::Tail)
    }

    /// The number of the sync queue of a process.
    pub(in crate::sched::cfq) fn q(&self, proc: ProcId) -> QueueNo {
        self.sched.ctxs[CtxNo::of(proc)].sync_q
    }

    pub(in crate::sched::cfq) fn queue(&mut self, proc: ProcId) -> &mut CfqQueue {
        let q = self.q(proc);
        &mut self.sched.queues[q]
    }

    /// The queue being served.
    pub(in crate::sched::cfq) fn active(&mut self) -> &mut CfqQueue {
        let a = self.sched.active;
        assert!(a.is_some(), "a queue is being served");
        &mut self.sched.queues[a]
    }

    pub(in crate::sched::cfq) fn is_active(&self, proc: ProcId) -> bool {
        self.sched.active == self.q(proc)
    }

    /// The active queue begins its slice now, as after a first completion, and has `ms` left.
    pub(in crate::sched::cfq) fn slice_left(&mut self, ms: i64) {
        let t = self.ms() as i64;
        self.active().slice.begin(t, ms);
    }

    /// The start sector of the request that is dispatched.
    pub(in crate::sched::cfq) fn issue_at(&mut self) -> u64 {
        let (id, _) = self.issue();
        self.env.requests[id].start.0
    }

    /// When the idle timer fires.
    pub(in crate::sched::cfq) fn timer_ms(&self) -> Option<u64> {
        crate::stage::Stage::next_timer(&*self.sched).map(|at| at.as_nanos() / 1_000_000)
    }

    /// The reasons given for ends of slices since the last call.
    pub(in crate::sched::cfq) fn ends(&mut self) -> Vec<&'static str> {
        let ends = |what: &&str| what.starts_with("expired") || what.starts_with("preempted");
        self.reasons().into_iter().map(|w| w.what).filter(ends).collect()
    }
}
