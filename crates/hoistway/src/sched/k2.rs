//! `k2`, a work-constraining real-time scheduler for NVMe (TU Dresden, 2019; specs/k2.md).
//!
//! *Problem.* An NVMe drive takes hundreds of requests at once and serves them as it likes. A real-time request that
//! comes then waits for all of them, whatever the scheduler thinks of it.
//!
//! *Idea.* Keep the drive from queueing deeply: at most `max_inflight` requests of the whole drive are out, however many
//! hardware queues it has. The next is the oldest of the most important queue that is not empty: real-time requests
//! first, all others in one FIFO behind them. It gives throughput for a bound on what a new real-time request finds before it.
//!
//! *State.* Eight FIFOs for real-time requests, one for all others (best-effort, idle, without a class); the number of
//! requests out; the waiting requests by sector, for front merges alone.
//!
//! *Rule.* `max_inflight` requests out: nothing. Else the head of the first FIFO that is not empty. Nothing is sorted,
//! nothing waits for time, reads and writes are alike.
//!
//! *Guarantees.* A real-time request is issued when those before it in its queue and at most one completion have passed: it finds at
//! most `max_inflight` requests in the drive and only more important or older real-time ones in the scheduler.
//!
//! *Weaknesses.* Best-effort requests starve without bound under real-time load (Q7), and idle ones are as good as they. In the
//! published program all real-time levels fall into one (Q1, `rt_levels`). With more than one request of a drive needed to fill it,
//! throughput is what `max_inflight` leaves. As published it also loses service in three cases (`base = 2019`):
//! a request that the device gives back counts twice for ever, so that after `max_inflight` of them nothing moves (Q2);
//! a limit raised while that many are out is noticed only at the next insertion (Q3); so is one raised from 0 (Q4).
//!
//! Sources: specs/k2.md; Miemietz, Weisbach, Roitzsch and Haertig, "K2: Work-Constraining Scheduling of NVMe-Attached
//! Storage", RTSS 2019.

use super::lane::{Lane, Place, Pool};
use super::{At, Dispatch, Entry, Merged, Open, Run, Scheduler, Search, Service, Setup};
use crate::device::Profile;
use crate::env::Cx;
use crate::group::CpuPolicy;
use crate::list::List;
use crate::request::{Dir, Io, ReqId, Request, Side};
use crate::setting::{OnChange, Setting, Settings, Tunable, TunableError, Unit, listed};
use crate::stage::{Figure, Stage, StageInfo};
use crate::table::NIL;
use crate::unit::{Class, Instant, QueueId};
use alloc::boxed::Box;

/// The registry entry.
pub static ENTRY: Entry = Entry {
    stage: StageInfo {
        name: "k2",
        summary: "few requests in the drive, real-time requests before all others",
        source: "specs/k2.md (K2, RTSS 2019)",
        tunables: &TUNABLES,
        group_tunables: &[],
        knobs: &[],
        figures: &[],
        decisions: &[],
    },
    profile: Profile::MultiQueue,
    service: Service::Requests,
    search: Search::Elevator,
    sorted: false,
    direct: false,
    tag_percent_min: Some(100),
    tags_min: 0,
    replaces_wbt: false,
    build: &|setup| Box::new(K2::new(setup)),
};

/// Queues of real-time requests, 0 the most important.
const LEVELS: usize = 8;
/// The queue of all others.
const OTHERS: usize = LEVELS;
/// Level of a request whose own is unknown.
const MIDDLE: usize = 4;
/// Largest limit: the original keeps 32 bits.
const LIMIT_MAX: u64 = u32::MAX as u64;

/// Settings in force.
#[derive(Clone, Copy, Debug, Default)]
struct K2Conf {
    max_inflight: u64,
    /// `rtss19` instead of the last published state.
    paper: bool,
    eight_levels: bool,
    count_bypassed: bool,
    /// Rules of the original that lose service are mended.
    mended: bool,
}

/// Makes what a row says of its change true.
type K2Effect = fn(&mut K2);

const ROWS: &[Setting<K2Conf, K2Effect>] = &[
    Tunable::new(
        "max_inflight",
        Unit::Requests,
        32,
        (0, LIMIT_MAX),
        "Most requests of the whole drive that are out at a time; 0 stops the drive until it is raised.",
    )
    .stops_at(0)
    .field(|c| c.max_inflight, |c, v| c.max_inflight = v),
    Tunable::choice(
        "k2_version",
        &["head", "rtss19"],
        0,
        "head: the last published state (October 2019). rtss19: that of the paper, which merges nothing and looks at the \
         priority of the process alone, not at that of the request.",
    )
    .on_change(OnChange::LaterRequests)
    .field(|c| c.paper.into(), |c, v| c.paper = v == 1),
    Tunable::choice(
        "rt_levels",
        &["one", "eight"],
        0,
        "one: all real-time requests are of one level, as the program has it. eight: of eight, as its description has it.",
    )
    .on_change(OnChange::LaterRequests)
    .field(|c| c.eight_levels.into(), |c, v| c.eight_levels = v == 1),
    Tunable::switch(
        "count_bypassed",
        false,
        "A flush command that ends counts as a request of K2's that ends, and lets another one out, as in Linux 4.15.",
    )
    .on_change(OnChange::Resets)
    .only_with("base", 1, OnChange::Decides)
    .field_then(|c| c.count_bypassed.into(), |c, v| c.count_bypassed = v == 1, K2::count_anew),
    Tunable::choice(
        "base",
        &["2019", "hoistway"],
        1,
        "Whose arithmetic when the device gives a request back, or max_inflight is raised. hoistway: the request is no longer out, \
         and what waits is asked for. 2019: the request counts as out for ever, and what waits stands still until the next insertion.",
    )
    .on_change(OnChange::Resets)
    .only_with("base", 1, OnChange::Decides)
    .stops_at(0)
    .field_then(|c| c.mended.into(), |c, v| c.mended = v == 1, K2::count_anew),
];
static SETTINGS: Settings<K2Conf, K2Effect> = Settings::new("k2", ROWS);
static TUNABLES: [Tunable; ROWS.len()] = listed(ROWS);

/// Counts for reports.
#[derive(Clone, Copy, Debug, Default)]
struct K2Counters {
    dispatched: [u64; LEVELS + 1],
    refused: u64,
    runs: u64,
}

/// The scheduler.
#[derive(Debug)]
pub struct K2 {
    conf: K2Conf,
    pool: Pool,
    /// Waiting requests by sector, by direction; their FIFOs are not used.
    sorted: [Lane; 2],
    /// By importance; the last is that of all but real-time requests.
    queues: [List; LEVELS + 1],
    waiting: u32,
    /// Requests that count against the limit.
    inflight: u64,
    /// Requests that are out in truth.
    out: u64,
    counters: K2Counters,
}

impl K2 {
    /// An empty scheduler with all tunables at their defaults.
    pub fn new(setup: &Setup<'_>) -> K2 {
        let mut pool = Pool::new(setup.requests, 2);
        K2 {
            conf: SETTINGS.defaults(),
            sorted: [(); 2].map(|()| pool.lane()),
            pool,
            queues: [List::new(); LEVELS + 1],
            waiting: 0,
            inflight: 0,
            out: 0,
            counters: K2Counters::default(),
        }
    }

    /// Which queue a request belongs to.
    fn queue_of(&self, r: &Request, cx: &Cx<'_>) -> usize {
        let proc = cx.procs.get(r.proc);
        let asked = proc.map(|p| p.prio).filter(|p| p.class() != Class::None);
        let own = (!self.conf.paper && r.prio.class() != Class::None).then_some(r.prio);
        let Some(prio) = own.or(asked) else {
            let real_time = proc.is_some_and(|p| p.policy == CpuPolicy::RealTime);
            return if real_time { MIDDLE } else { OTHERS };
        };
        match prio.class() {
            // Quirk Q1: the original takes the word that also holds the class for the level, finds it outside 0 to 7
            // and takes the middle one.
            Class::Rt if self.conf.eight_levels => usize::from(prio.level()),
            Class::Rt => MIDDLE,
            Class::None | Class::Be | Class::Idle => OTHERS,
        }
    }

    fn is_full(&self) -> bool {
        self.inflight >= self.conf.max_inflight
    }

    /// Takes a waiting request off its queue and the sector order.
    fn unlink(&mut self, slot: u32) -> usize {
        let entry = self.pool.slot(slot);
        let (queue, place, read) = (usize::from(entry.lane), entry.place, entry.read);
        if place == Place::Lane {
            self.sorted[usize::from(!read)].unsort(&mut self.pool, slot);
        }
        self.queues[queue].remove(&mut self.pool.links, slot);
        self.pool.slot_mut(slot).place = Place::Nowhere;
        self.waiting -= 1;
        queue
    }

    /// The next request, whatever the limit says.
    fn next(&mut self) -> Option<ReqId> {
        let slot = self.queues.iter().find(|q| !q.is_empty())?.head();
        let id = self.pool.id(slot);
        let queue = self.unlink(slot);
        self.pool.slot_mut(slot).counted = true;
        self.inflight += 1;
        self.out += 1;
        self.counters.dispatched[queue] += 1;
        Some(id)
    }

    /// One fewer is out; asks for a run where the original does.
    fn one_less(&mut self, cx: &mut Cx<'_>) {
        self.inflight = self.inflight.saturating_sub(1);
        // Quirk Q3: only at exactly one below the limit, which completions pass if it was raised meanwhile. Quirk Q4: with
        // a limit of 0 that is 2^32 - 1.
        let below = self.conf.max_inflight.checked_sub(1).unwrap_or(LIMIT_MAX);
        if self.inflight == below || self.conf.mended && !self.is_full() && self.waiting > 0 {
            self.run(cx);
        }
    }

    fn run(&mut self, cx: &mut Cx<'_>) {
        self.counters.runs += 1;
        (0..cx.device.hw_queues).for_each(|queue| cx.run(QueueId(queue)));
    }

    /// Is this request out, and counted as such?
    fn counted(&mut self, id: ReqId) -> Option<&mut bool> {
        let entry = self.pool.slot_mut(id.slot());
        (entry.is(id) && entry.counted).then_some(&mut entry.counted)
    }
}

impl Scheduler for K2 {
    fn opens_all(&self) -> bool {
        false
    }

    /// No request joins another at its insertion, and none does in the paper's version.
    fn open(&self, _id: ReqId, _cx: &Cx<'_>) -> Open {
        if self.conf.paper { Open::Closed } else { Open::ToBios }
    }

    /// Whether it came from the head makes no difference, but that it was out before and merges with nothing any more.
    fn insert(&mut self, _now: Instant, id: ReqId, at: At, cx: &mut Cx<'_>) -> Run {
        let r = &cx.requests[id];
        let queue = self.queue_of(r, cx);
        let (read, start, proc) = (r.dir() == Dir::Read, r.start, r.proc);
        let entry = self.pool.take(id);
        (entry.lane, entry.read, entry.counted) = (queue as u8, read, false);
        entry.place = if at == At::Head { Place::Aside } else { Place::Lane };
        if at == At::Tail {
            self.sorted[usize::from(!read)].sort(&mut self.pool, id.slot(), start, proc);
        }
        self.queues[queue].push_back(&mut self.pool.links, id.slot());
        self.waiting += 1;
        Run::Usual
    }

    fn dispatch(&mut self, _now: Instant, _queue: QueueId, _cx: &mut Cx<'_>) -> Dispatch {
        if self.waiting == 0 {
            // Deviation: the paper's version says here that it has work, is asked in vain and asked again 3 ms later,
            // for ever (specs/k2.md section 8). No decision depends on it.
            return Dispatch::Empty;
        }
        if self.is_full() {
            self.counters.refused += 1;
            return Dispatch::Idle;
        }
        self.next().map_or(Dispatch::Empty, Dispatch::Issue)
    }

    /// Full, it waits for a completion.
    fn has_work(&self) -> bool {
        !self.is_full() && (self.waiting > 0 || self.conf.paper)
    }

    fn drain(&mut self, _now: Instant, _cx: &mut Cx<'_>) -> Option<ReqId> {
        self.next()
    }

    fn complete(&mut self, _now: Instant, id: ReqId, cx: &mut Cx<'_>) {
        if let Some(counted) = self.counted(id) {
            *counted = false;
            self.out -= 1;
            self.one_less(cx);
        }
    }

    /// Quirk Q6.
    fn complete_bypassed(&mut self, _now: Instant, _id: ReqId, cx: &mut Cx<'_>) {
        if self.conf.count_bypassed {
            self.one_less(cx);
        }
    }

    /// Quirk Q2: the original has no such hook. `base = hoistway` takes the request back.
    fn requeue(&mut self, _now: Instant, id: ReqId, cx: &mut Cx<'_>) {
        if let Some(counted) = self.counted(id) {
            *counted = false;
            self.out -= 1;
            if self.conf.mended {
                self.one_less(cx);
            }
        }
    }

    fn may_merge(&mut self, _now: Instant, _io: &Io, into: ReqId, _cx: &mut Cx<'_>) -> bool {
        !self.conf.paper && self.pool.place(into) == Place::Lane
    }

    fn find_merge(&mut self, _now: Instant, io: &Io, _cx: &mut Cx<'_>) -> Option<(ReqId, Side)> {
        if self.conf.paper {
            return None;
        }
        let slot = self.sorted[io.op.dir() as usize].starting_at(&self.pool, io.end());
        (slot != NIL).then(|| (self.pool.id(slot), Side::Front))
    }

    fn merged(&mut self, _now: Instant, kept: ReqId, what: Merged, cx: &mut Cx<'_>) {
        match what {
            Merged::Bio(Side::Back) => {}
            Merged::Bio(Side::Front) => {
                if self.pool.place(kept) == Place::Lane {
                    let r = &cx.requests[kept];
                    let lane = &mut self.sorted[r.dir() as usize];
                    lane.unsort(&mut self.pool, kept.slot());
                    lane.sort(&mut self.pool, kept.slot(), r.start, r.proc);
                }
            }
            Merged::Request(gone) => {
                if self.pool.place(gone) != Place::Nowhere {
                    self.unlink(gone.slot());
                }
            }
        }
    }
}

impl K2 {
    /// Counts requests as they are, whatever other rules made of them.
    fn count_anew(&mut self) {
        self.inflight = self.out;
    }
}

impl Stage for K2 {
    fn info(&self) -> &'static StageInfo {
        &ENTRY.stage
    }

    fn set(
        &mut self,
        _now: Instant,
        name: &str,
        value: u64,
        cx: &mut Cx<'_>,
    ) -> Result<(), TunableError> {
        let row = SETTINGS.set(&mut self.conf, name, value)?;
        let mended = self.conf.mended;
        if let Some(effect) = row.effect.filter(|_| row.tunable.keeps_promise(mended.into())) {
            effect(self);
        }
        // What may go now goes.
        if mended && !self.is_full() && self.waiting > 0 {
            self.run(cx);
        }
        Ok(())
    }

    fn value(&self, name: &str) -> Option<u64> {
        SETTINGS.value(&self.conf, name)
    }

    fn figures(&self, sink: &mut dyn FnMut(Figure)) {
        for (level, queue) in self.queues.iter().enumerate() {
            let mut put = |name, value| sink(Figure { name, of: Some(level as u32), value });
            put("waiting", queue.len().into());
            put("dispatched", self.counters.dispatched[level] as i64);
        }
        let mut put = |name, value| sink(Figure { name, of: None, value });
        put("inflight", self.inflight as i64);
        put("limit", self.conf.max_inflight as i64);
        put("refused_full", self.counters.refused as i64);
        put("runs", self.counters.runs as i64);
    }
}
