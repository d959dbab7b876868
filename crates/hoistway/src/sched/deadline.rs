//! `deadline`, the elevator of Linux 2.6.30 to 2.6.34 (specs/deadline.md A).
//!
//! *Problem.* A disk is fastest when served in sector order, but a pure sweep lets a request far from
//! the head wait without bound, and buffered writes, which arrive by the thousand, drown the reads
//! somebody waits for.
//!
//! *Idea.* Reads and writes are kept apart. Each direction has its requests twice: sorted by start
//! sector, and in order of arrival with a soft deadline. Dispatching runs *batches*: up to `fifo_batch`
//! requests of one direction in ascending sector order. Deadlines and the choice between reads and
//! writes are looked at only between batches.
//!
//! *State.* Per direction the two orders and `next`, the request a sweep would go on with (set for at
//! most one direction). `batching`: requests sent in the current batch. `starved`: read batches begun
//! while writes waited.
//!
//! *Guarantees.* After `writes_starved` read batches with writes waiting comes a write batch. A request
//! whose deadline has passed waits for at most the running batch, the batches of the other direction
//! that precede the next batch of its own, and the older ones of its own direction that have expired too,
//! one batch each.
//!
//! *Weaknesses.* A batch is not cut short for anything; 16 distant reads take 150 ms on a disk. The
//! sweep restarts at the oldest request after each change of direction. Nobody is told from anybody
//! else: no processes, no priorities, no idling.
//!
//! Times are kernel ticks, 1 ms here; a request is expired when `now > deadline`, in whole ticks.

use super::lane::{Lane, Place, Pool};
use super::tick::{COUNT_MAX, EXPIRE_MS_MAX, ticks};
use super::{At, Dispatch, Entry, Merged, Run, Scheduler, Search, Service, Setup};
use crate::device::Profile;
use crate::env::Cx;
use crate::list::List;
use crate::request::{Dir, Io, ReqId, Request, Side};
use crate::setting::{OnChange, Setting, Settings, Tunable, TunableError, Unit, listed};
use crate::stage::{Figure, Stage, StageInfo};
use crate::table::NIL;
use crate::unit::{Instant, QueueId, Sectors};
use alloc::boxed::Box;

/// The registry entry.
pub static ENTRY: Entry = Entry {
    stage: StageInfo {
        name: "deadline",
        summary: "sector-sorted batches per direction, soft expiry",
        source: "specs/deadline.md A (Linux 2.6.30)",
        tunables: &TUNABLES,
        group_tunables: &[],
        knobs: &[],
        figures: &[],
        decisions: &[],
    },
    profile: Profile::Legacy,
    service: Service::Requests,
    search: Search::Elevator,
    sorted: false,
    direct: false,
    tag_percent_min: Some(100),
    tags_min: 0,
    replaces_wbt: false,
    build: &|setup| Box::new(Deadline::new(setup)),
};

/// Settings in force.
#[derive(Clone, Copy, Debug, Default)]
struct DeadlineConf {
    /// In ticks, by direction.
    expire: [i64; 2],
    writes_starved: u64,
    fifo_batch: u64,
    front_merges: bool,
}

// Why these defaults. Seeks are shared by up to 16 requests of a batch; a batch of one is first in, first out,
// and longer ones make the other direction wait longer. A count is used, not a time: it is tuned for the worst
// case, sixteen seeks (what `deadline-zoccolo` mends with `batch_min_time`). Half a second is about what a
// reader bears; writes may wait ten times as long, since mostly nobody waits for them.
const ROWS: &[Setting<DeadlineConf>] = &[
    Tunable::new(
        "read_expire",
        Unit::Millis,
        500,
        (0, EXPIRE_MS_MAX),
        "A read older than this starts the next batch of reads. Affects later insertions.",
    )
    .on_change(OnChange::LaterRequests)
    .field(|c| c.expire[READ] as u64, |c, v| c.expire[READ] = v as i64),
    Tunable::new(
        "write_expire",
        Unit::Millis,
        5000,
        (0, EXPIRE_MS_MAX),
        "A write older than this starts the next batch of writes. Affects later insertions.",
    )
    .on_change(OnChange::LaterRequests)
    .field(|c| c.expire[WRITE] as u64, |c, v| c.expire[WRITE] = v as i64),
    Tunable::new(
        "writes_starved",
        Unit::Count,
        2,
        (0, COUNT_MAX),
        "Batches of reads that may go before waiting writes.",
    )
    .field(|c| c.writes_starved, |c, v| c.writes_starved = v),
    Tunable::new(
        "fifo_batch",
        Unit::Requests,
        16,
        (0, COUNT_MAX),
        "Longest batch; 0 behaves as 1.",
    )
    .field(|c| c.fifo_batch, |c, v| c.fifo_batch = v),
    Tunable::new(
        "front_merges",
        Unit::Switch,
        1,
        (0, 1),
        "Look for requests that begin where a bio ends.",
    )
    .field(|c| c.front_merges.into(), |c, v| c.front_merges = v != 0),
];
static SETTINGS: Settings<DeadlineConf> = Settings::new("deadline", ROWS);
static TUNABLES: [Tunable; ROWS.len()] = listed(ROWS);

const READ: usize = Dir::Read as usize;
const WRITE: usize = Dir::Write as usize;

/// The scheduler.
#[derive(Debug)]
pub struct Deadline {
    conf: DeadlineConf,
    pool: Pool,
    lanes: [Lane; 2],
    /// Aliases pushed out by an insertion and requeued requests: returned before anything is decided.
    out: List,
    batching: u64,
    starved: u64,
    /// End of the last dispatched request, for reports.
    last_sector: Sectors,
}

impl Deadline {
    /// An empty scheduler with all tunables at their defaults.
    pub fn new(setup: &Setup<'_>) -> Deadline {
        let mut pool = Pool::new(setup.requests, 2);
        Deadline {
            conf: SETTINGS.defaults(),
            lanes: [(); 2].map(|()| pool.lane()),
            pool,
            out: List::new(),
            batching: 0,
            starved: 0,
            last_sector: Sectors(0),
        }
    }

    /// Sorts `slot` in at its start. An older request at the same sector goes out at once (A4 step 1); the
    /// sweep then stands at what followed *that* one, which is never the new one.
    fn sort(&mut self, dir: usize, slot: u32, r: &Request) {
        // One tree slot a sector in the original: a second request there would be lost if the first stayed.
        self.lanes[dir].sort(&mut self.pool, slot, r.start, r.proc);
        if let Some(alias) = self.pool.alias(slot) {
            self.take(dir, alias);
            self.lanes[dir].next = self.pool.after(slot);
            self.pool.slot_mut(alias).place = Place::Aside;
            self.out.push_back(&mut self.pool.links, alias);
        }
    }

    /// A6 step 5 without the hand-over: the sweep now stands behind `slot`.
    fn take(&mut self, dir: usize, slot: u32) -> ReqId {
        // The head leaves where the other direction's sweep stood; going back there would be one more seek, for
        // requests that are served from their oldest anyway.
        self.lanes[1 - dir].next = NIL;
        self.last_sector = self.pool.end(slot);
        let lane = &mut self.lanes[dir];
        lane.next = lane.unlink(&mut self.pool, slot);
        self.pool.id(slot)
    }

    /// A6 steps 2 to 4: direction and first request of a new batch.
    fn start_batch(&mut self, now: Instant, cx: &mut Cx<'_>) -> Option<(usize, u32)> {
        let (reads, writes) = (!self.lanes[READ].is_empty(), !self.lanes[WRITE].is_empty());
        // Reads first, because they depend on each other and so never accumulate, as writes do: without the
        // preference one flush of the page cache blocks every reader. The count ends it, so writes keep at least
        // a third of the batches by default; `write_expire` has no say in the direction.
        let dir = if reads && !(writes && self.spend_patience()) {
            READ
        } else if writes {
            self.starved = 0;
            WRITE
        } else {
            return None;
        };
        let lane = &self.lanes[dir];
        let oldest = lane.fifo.head();
        // Age is looked at only here, between batches: expiry chooses where a batch begins, not when, so that a
        // full queue of expired requests does not turn the elevator into first in, first out.
        let expired = ticks(now) > self.pool.slot(oldest).deadline;
        // Without a sweep to go on with it begins at the oldest request, not at the lowest sector: low sectors
        // would be served far more often than high ones.
        let first = if expired || lane.next == NIL { oldest } else { lane.next };
        self.batching = 0;
        let why = if expired { "batch: expired" } else { "batch" };
        cx.trace.why(now, why, dir as u32, self.starved as i64, lane.fifo.len().into());
        Some((dir, first))
    }

    /// Reads are about to pass waiting writes: true when they have done so often enough.
    /// Counts even when the answer is no: what is limited is batches in a row, not requests.
    fn spend_patience(&mut self) -> bool {
        let before = self.starved;
        self.starved += 1;
        before >= self.conf.writes_starved
    }
}

impl Scheduler for Deadline {
    fn knows_procs(&self) -> bool {
        false
    }

    fn insert(&mut self, now: Instant, id: ReqId, at: At, cx: &mut Cx<'_>) -> Run {
        let slot = id.slot();
        let r = &cx.requests[id];
        let dir = r.dir() as usize;
        let entry = self.pool.take(id);
        entry.lane = dir as u8;
        entry.sectors = r.sectors.0 as u32;
        if at == At::Head {
            entry.place = Place::Aside;
            self.out.push_front(&mut self.pool.links, slot);
            return Run::Usual;
        }
        entry.place = Place::Lane;
        // Made here and never moved: deadlines in the order of arrival are what makes looking at the head alone
        // enough.
        entry.deadline = ticks(now) + self.conf.expire[dir];
        self.sort(dir, slot, r);
        self.lanes[dir].queue(&mut self.pool, slot);
        Run::Usual
    }

    fn dispatch(&mut self, now: Instant, _queue: QueueId, cx: &mut Cx<'_>) -> Dispatch {
        if let Some(slot) = self.out.pop_front(&mut self.pool.links) {
            self.pool.slot_mut(slot).place = Place::Nowhere;
            return Dispatch::Issue(self.pool.id(slot));
        }
        let dir = if self.lanes[WRITE].next != NIL { WRITE } else { READ };
        let next = self.lanes[dir].next;
        let (dir, slot) = if next != NIL && self.batching < self.conf.fifo_batch {
            (dir, next)
        } else {
            match self.start_batch(now, cx) {
                Some(first) => first,
                None => return Dispatch::Empty,
            }
        };
        self.batching += 1;
        Dispatch::Issue(self.take(dir, slot))
    }

    /// A request that has left the two orders has left the elevator: it joins nothing any more (3.6).
    fn may_merge(&mut self, _now: Instant, _io: &Io, into: ReqId, _cx: &mut Cx<'_>) -> bool {
        self.pool.place(into) != Place::Aside
    }

    fn find_merge(&mut self, _now: Instant, io: &Io, _cx: &mut Cx<'_>) -> Option<(ReqId, Side)> {
        if !self.conf.front_merges {
            return None;
        }
        let slot = self.lanes[io.op.dir() as usize].starting_at(&self.pool, io.end());
        (slot != NIL).then(|| (self.pool.id(slot), Side::Front))
    }

    fn neighbour(&self, id: ReqId, side: Side, _cx: &Cx<'_>) -> Option<ReqId> {
        if self.pool.place(id) != Place::Lane {
            return None;
        }
        let slot = match side {
            Side::Front => self.pool.before(id.slot()),
            Side::Back => self.pool.after(id.slot()),
        };
        (slot != NIL).then(|| self.pool.id(slot))
    }

    fn merged(&mut self, _now: Instant, kept: ReqId, what: Merged, cx: &mut Cx<'_>) {
        self.pool.slot_mut(kept.slot()).sectors = cx.requests[kept].sectors.0 as u32;
        match what {
            Merged::Bio(Side::Back) => {}
            Merged::Bio(Side::Front) => {
                if self.pool.place(kept) == Place::Lane {
                    let dir = usize::from(self.pool.slot(kept.slot()).lane);
                    self.lanes[dir].unsort(&mut self.pool, kept.slot());
                    self.sort(dir, kept.slot(), &cx.requests[kept]);
                }
            }
            Merged::Request(gone) => match self.pool.place(gone) {
                Place::Nowhere => {}
                Place::Aside => {
                    self.out.remove(&mut self.pool.links, gone.slot());
                    self.pool.slot_mut(gone.slot()).place = Place::Nowhere;
                }
                Place::Lane => {
                    let lane = self.pool.slot(gone.slot()).lane;
                    let dir = usize::from(lane);
                    if self.pool.place(kept) == Place::Lane
                        && self.pool.slot(kept.slot()).lane == lane
                    {
                        self.lanes[dir].hand_over(&mut self.pool, kept.slot(), gone.slot());
                    }
                    self.lanes[dir].forget(&mut self.pool, gone.slot());
                }
            },
        }
    }
}

impl Stage for Deadline {
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
        SETTINGS.set(&mut self.conf, name, value).map(drop)
    }

    fn value(&self, name: &str) -> Option<u64> {
        SETTINGS.value(&self.conf, name)
    }

    fn figures(&self, sink: &mut dyn FnMut(Figure)) {
        let mut put = |name, value| sink(Figure { name, of: None, value });
        put("reads_waiting", self.lanes[READ].fifo.len().into());
        put("writes_waiting", self.lanes[WRITE].fifo.len().into());
        put("batching", self.batching as i64);
        put("starved", self.starved as i64);
        put("last_sector", self.last_sector.0 as i64);
    }
}
