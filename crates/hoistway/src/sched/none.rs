//! `none`: no scheduler at all, as on multi-queue devices (specs/blk-mq-and-noop.md sections 3.8, 7.4, 11).
//!
//! Requests normally go from the submitting context straight to the device; that path, plugs and driver
//! tags belong to the stack, which is told by the registry entry's `direct`. What is left for this stage
//! is the backlog: requests that found the queue busy, or whose submitter went to sleep with a plug. They
//! wait in *software queues*, one FIFO per CPU. The CPUs are spread over the hardware queues
//! (`cpu mod hw_queues`), and a run of a hardware queue looks at its own CPUs only.
//!
//! - *Order.* Hardware queue not busy: CPUs in index order, oldest first. Busy (its last sends were
//!   refused): one request per CPU in turn, beginning where the last turn ended.
//! - *Merging.* A bio looks at the newest 8 entries of the submitting CPU's list, newest first.
//!   Requests of different CPUs never meet, and nothing is joined afterwards: this is why `none` merges
//!   less than any elevator.
//!
//! No tunables, no timers, no state per process.

use super::software_queue::newest_match;
use super::{At, Dispatch, Entry, Merged, Run, Scheduler, Search, Service, Setup};
use crate::device::Profile;
use crate::env::Cx;
use crate::list::{Links, List};
use crate::request::{Io, ReqId, Side};
use crate::setting::{self, TunableError};
use crate::stage::{Figure, Stage, StageInfo};
use crate::table::NIL;
use crate::unit::{Instant, QueueId};
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

/// The registry entry.
pub static ENTRY: Entry = Entry {
    stage: StageInfo {
        name: "none",
        summary: "no scheduler: direct issue, per-CPU first-in first-out backlog",
        source: "specs/blk-mq-and-noop.md section 11",
        tunables: &[],
        group_tunables: &[],
        knobs: &[],
        figures: &[],
        decisions: &[],
    },
    profile: Profile::MultiQueue,
    service: Service::Requests,
    search: Search::Own,
    sorted: false,
    direct: true,
    tag_percent_min: None,
    tags_min: 0,
    replaces_wbt: false,
    build: &|setup| Box::new(SoftwareQueues::new(setup)),
};

/// Where a request waits.
#[derive(Clone, Copy, Debug, PartialEq)]
enum NonePlace {
    Nowhere,
    /// In the list of this CPU.
    Cpu(u32),
    /// In the list of requeued requests of its hardware queue.
    Head(u16),
}

/// The software queues of one device.
#[derive(Debug)]
pub struct SoftwareQueues {
    hw_queues: u32,
    links: Links,
    slots: Vec<(ReqId, NonePlace)>,
    /// One list per CPU seen so far.
    cpus: Vec<List>,
    /// Per hardware queue: requeued requests, served before all others.
    heads: Vec<List>,
    /// Per hardware queue: how many requests wait.
    waiting: Vec<u32>,
    /// Per hardware queue: the CPU at which the next turn of a busy queue begins.
    turn: Vec<u32>,
}

impl SoftwareQueues {
    /// Empty software queues.
    pub fn new(setup: &Setup<'_>) -> SoftwareQueues {
        let queues = usize::from(setup.device.hw_queues);
        let nobody = ReqId(crate::table::Handle { slot: NIL, generation: 0 });
        SoftwareQueues {
            hw_queues: setup.device.hw_queues.into(),
            links: Links::new(setup.requests),
            slots: vec![(nobody, NonePlace::Nowhere); setup.requests],
            cpus: vec![List::new(); queues],
            heads: vec![List::new(); queues],
            waiting: vec![0; queues],
            turn: (0..queues as u32).collect(),
        }
    }

    fn queue_of(&self, cpu: u32) -> usize {
        // A division is dearer than the rest of an insertion, and most devices have one queue.
        if self.hw_queues == 1 { 0 } else { (cpu % self.hw_queues) as usize }
    }

    /// Takes `slot` out of whatever list it is on.
    #[inline]
    fn unlink(&mut self, slot: u32) -> ReqId {
        let (id, place) = self.slots[slot as usize];
        let queue = match place {
            NonePlace::Nowhere => return id,
            NonePlace::Cpu(cpu) => {
                self.cpus[cpu as usize].remove(&mut self.links, slot);
                self.queue_of(cpu)
            }
            NonePlace::Head(queue) => {
                self.heads[usize::from(queue)].remove(&mut self.links, slot);
                queue.into()
            }
        };
        self.waiting[queue] -= 1;
        self.slots[slot as usize].1 = NonePlace::Nowhere;
        id
    }

    /// The oldest request of the first CPU of `queue` that has one, from CPU `from` on and round again.
    #[inline]
    fn first_from(&self, queue: usize, from: u32) -> Option<(u32, u32)> {
        let step = self.hw_queues as usize;
        let from = (from as usize).max(queue);
        let after = (from..self.cpus.len()).step_by(step);
        let before = (queue..from.min(self.cpus.len())).step_by(step);
        after.chain(before).find_map(|cpu| {
            let head = self.cpus[cpu].head();
            (head != NIL).then_some((cpu as u32, head))
        })
    }
}

impl Scheduler for SoftwareQueues {
    fn insert(&mut self, _now: Instant, id: ReqId, at: At, cx: &mut Cx<'_>) -> Run {
        let slot = id.slot();
        let cpu = cx.requests[id].cpu;
        let queue = self.queue_of(cpu);
        let place = match at {
            At::Tail => {
                if cpu as usize >= self.cpus.len() {
                    self.cpus.resize(cpu as usize + 1, List::new());
                }
                self.cpus[cpu as usize].push_back(&mut self.links, slot);
                NonePlace::Cpu(cpu)
            }
            At::Head => {
                self.heads[queue].push_front(&mut self.links, slot);
                NonePlace::Head(queue as u16)
            }
        };
        self.slots[id.index()] = (id, place);
        self.waiting[queue] += 1;
        Run::Usual
    }

    fn dispatch(&mut self, _now: Instant, queue: QueueId, cx: &mut Cx<'_>) -> Dispatch {
        let q = usize::from(queue.0);
        if self.waiting[q] == 0 {
            return Dispatch::Empty;
        }
        let head = self.heads[q].head();
        if head != NIL {
            return Dispatch::Issue(self.unlink(head));
        }
        let busy = cx.runs.busy(queue);
        let from = if busy { self.turn[q] } else { 0 };
        let (cpu, slot) =
            self.first_from(q, from).expect("waiting counts the requests in the lists");
        if busy {
            self.turn[q] = cpu + self.hw_queues;
        }
        Dispatch::Issue(self.unlink(slot))
    }

    fn drain(&mut self, now: Instant, cx: &mut Cx<'_>) -> Option<ReqId> {
        let queue = self.waiting.iter().position(|&n| n > 0)?;
        match self.dispatch(now, QueueId(queue as u16), cx) {
            Dispatch::Issue(id) => Some(id),
            Dispatch::Idle | Dispatch::Empty => None,
        }
    }

    fn may_merge(&mut self, _now: Instant, _io: &Io, into: ReqId, _cx: &mut Cx<'_>) -> bool {
        !matches!(self.slots[into.index()].1, NonePlace::Head(_))
    }

    fn find_merge(&mut self, _now: Instant, io: &Io, cx: &mut Cx<'_>) -> Option<(ReqId, Side)> {
        // What was issued once waits in the list of requeued requests, where nobody looks.
        let list = self.cpus.get(io.cpu as usize)?;
        let (slot, side) = newest_match(list, &self.links, cx.requests, io, |_| true)?;
        Some((self.slots[slot as usize].0, side))
    }

    fn merged(&mut self, _now: Instant, _kept: ReqId, what: Merged, _cx: &mut Cx<'_>) {
        if let Merged::Request(gone) = what
            && self.slots[gone.index()].0 == gone
        {
            self.unlink(gone.slot());
        }
    }
}

impl Stage for SoftwareQueues {
    fn info(&self) -> &'static StageInfo {
        &ENTRY.stage
    }

    fn set(
        &mut self,
        _now: Instant,
        name: &str,
        value: u64,
        _cx: &mut Cx<'_>,
    ) -> Result<(), TunableError> {
        setting::check(ENTRY.stage.tunables, ENTRY.stage.name, name, value).map(|_| ())
    }

    fn value(&self, _name: &str) -> Option<u64> {
        None
    }

    fn figures(&self, sink: &mut dyn FnMut(Figure)) {
        for (queue, &n) in self.waiting.iter().enumerate() {
            sink(Figure { name: "waiting", of: Some(queue as u32), value: n.into() });
        }
    }
}
