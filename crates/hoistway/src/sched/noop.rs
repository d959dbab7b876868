//! `noop`: one first-in first-out list (Linux 2.6.30; specs/blk-mq-and-noop.md section 10).
//!
//! The elevator around it still merges: the stack's one-hit cache finds both sides of the last request,
//! its hash finds back merges with any pending one. noop adds no look-up of its own, so a front merge
//! happens only through the cache, and two requests are joined only when they are neighbours in the
//! list as well as on the device. No tunables, no timers, no idea of direction, priority or process.

use super::{At, Dispatch, Entry, Merged, Run, Scheduler, Search, Service, Setup};
use crate::device::Profile;
use crate::env::Cx;
use crate::list::{Links, List};
use crate::request::{ReqId, Side};
use crate::setting::{self, TunableError};
use crate::stage::{Figure, Stage, StageInfo};
use crate::table::{Handle, NIL};
use crate::unit::{Instant, QueueId};
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

/// The registry entry.
pub static ENTRY: Entry = Entry {
    stage: StageInfo {
        name: "noop",
        summary: "first in, first out, with merging",
        source: "specs/blk-mq-and-noop.md section 10",
        tunables: &[],
        group_tunables: &[],
        knobs: &[],
        figures: &[],
        decisions: &[],
    },
    profile: Profile::Legacy,
    service: Service::Requests,
    search: Search::Elevator,
    sorted: true,
    direct: false,
    tag_percent_min: Some(100),
    tags_min: 0,
    replaces_wbt: false,
    build: &|setup| Box::new(Noop::new(setup)),
};

/// One list of requests.
#[derive(Debug)]
pub struct Noop {
    links: Links,
    ids: Vec<ReqId>,
    fifo: List,
}

impl Noop {
    /// An empty list.
    pub fn new(setup: &Setup<'_>) -> Noop {
        let nobody = ReqId(Handle { slot: NIL, generation: 0 });
        Noop {
            links: Links::new(setup.requests),
            ids: vec![nobody; setup.requests],
            fifo: List::new(),
        }
    }

    /// True when this very request waits here (its slot may have had other tenants).
    fn holds(&self, id: ReqId) -> bool {
        self.ids[id.index()] == id && self.links.linked(id.slot())
    }
}

impl Scheduler for Noop {
    fn knows_procs(&self) -> bool {
        false
    }

    fn insert(&mut self, _now: Instant, id: ReqId, at: At, _cx: &mut Cx<'_>) -> Run {
        self.ids[id.index()] = id;
        match at {
            At::Tail => self.fifo.push_back(&mut self.links, id.slot()),
            At::Head => self.fifo.push_front(&mut self.links, id.slot()),
        }
        Run::Usual
    }

    fn dispatch(&mut self, _now: Instant, _queue: QueueId, _cx: &mut Cx<'_>) -> Dispatch {
        match self.fifo.pop_front(&mut self.links) {
            Some(slot) => Dispatch::Issue(self.ids[slot as usize]),
            None => Dispatch::Empty,
        }
    }

    fn neighbour(&self, id: ReqId, side: Side, _cx: &Cx<'_>) -> Option<ReqId> {
        if !self.holds(id) {
            return None;
        }
        let slot = match side {
            Side::Front => self.links.prev(id.slot()),
            Side::Back => self.links.next(id.slot()),
        };
        (slot != NIL).then(|| self.ids[slot as usize])
    }

    fn merged(&mut self, _now: Instant, _kept: ReqId, what: Merged, _cx: &mut Cx<'_>) {
        // A request absorbed before its insertion (3.5) is not on the list.
        if let Merged::Request(gone) = what
            && self.holds(gone)
        {
            self.fifo.remove(&mut self.links, gone.slot());
        }
    }
}

impl Stage for Noop {
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
        sink(Figure { name: "waiting", of: None, value: self.fifo.len().into() });
    }
}
