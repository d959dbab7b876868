//! What tests of BFQ ask beyond the kit's rig.

use crate::Device;
use crate::group::ProcId;
use crate::sched::bfq::Bfq;
use crate::sched::bfq::idle::HwTag;
use crate::sched::bfq::ids::QueueNo;
use crate::sched::bfq::queue::BfqQueue;
use crate::sched::bfq::wf2q::Entity;
use crate::testkit::scheduler;
use crate::trace::Why;
use crate::unit::Sectors;
use alloc::boxed::Box;
use alloc::vec::Vec;

pub(in crate::sched::bfq) type Rig = scheduler::Rig<Bfq>;

impl Rig {
    /// With room for that many requests.
    pub(in crate::sched::bfq) fn sized(rotational: bool, requests: usize) -> Rig {
        Rig::with_actuators(rotational, requests, &[])
    }

    /// With actuators that begin at sector 0 and at those borders.
    pub(in crate::sched::bfq) fn with_actuators(
        rotational: bool,
        requests: usize,
        borders: &[u64],
    ) -> Rig {
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
        let mut rig = Rig::new(device, requests, |setup| Box::new(Bfq::new(setup)));
        // Scenarios about raising turn it on; so do those about merging.
        rig.set("low_latency", 0);
        rig.set("stable_merge", 0);
        rig.set("queue_merge", 0);
        rig
    }

    /// A disk that serves one command at a time.
    pub(in crate::sched::bfq) fn hdd() -> Rig {
        let mut rig = Rig::sized(true, 2048);
        rig.sched.ncq.tag = HwTag::No;
        rig
    }

    /// Flash that queues commands.
    pub(in crate::sched::bfq) fn ssd() -> Rig {
        let mut rig = Rig::sized(false, 2048);
        rig.sched.ncq.tag = HwTag::Yes;
        rig
    }

    /// The number of the sync queue of a process.
    pub(in crate::sched::bfq) fn q(&self, proc: ProcId) -> QueueNo {
        self.sched.ctxs.pairs[self.sched.ctxs.pair_at(proc, 0)].sync
    }

    pub(in crate::sched::bfq) fn queue(&mut self, proc: ProcId) -> &mut BfqQueue {
        let q = self.q(proc);
        &mut self.sched.queues[q]
    }

    pub(in crate::sched::bfq) fn ent(&mut self, proc: ProcId) -> &mut Entity {
        let q = self.q(proc);
        &mut self.sched.fair.ents[q]
    }

    pub(in crate::sched::bfq) fn in_service(&self, proc: ProcId) -> bool {
        self.sched.serving.queue == self.q(proc)
    }

    /// Reasons of expiry since the last call, as (queue, reason).
    pub(in crate::sched::bfq) fn expiries(&mut self) -> Vec<(QueueNo, &'static str)> {
        let ended = |w: Why| Some((QueueNo(w.of), w.what.strip_prefix("expired: ")?));
        self.reasons().into_iter().filter_map(ended).collect()
    }
}
