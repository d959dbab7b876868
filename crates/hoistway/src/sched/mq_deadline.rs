//! `mq-deadline` as of Linux 6.1 (specs/deadline.md C).
//!
//! *Problem.* As `deadline`'s, on multi-queue devices and with I/O priority classes: real-time requests
//! go first, idle ones last, and nobody is forgotten.
//!
//! *Idea.* Three levels (real-time, best-effort, idle), each with two sector-sorted trees, two FIFOs with
//! soft deadlines and a list of requeued requests. A level is served only when every more important one
//! has nothing queued **and nothing in flight**; a request that has waited for `prio_aging_expire` is
//! served before all that. Within a level batches run as in `deadline`, with three differences: the
//! sweeps of both directions survive each other, a request is expired at its deadline and not one tick
//! later, and `batching`, `starved` and the last direction are shared by the levels.
//!
//! *State.* Per level: the lists and the counters `inserted`, `merged`, `dispatched`, `completed`;
//! `queued = inserted - completed` includes what the driver holds. Global: `last_dir`, `batching`,
//! `starved`.
//!
//! *Guarantees.* Within a level those of `deadline`. Across levels: once the oldest waiting request of a
//! lower level is `prio_aging_expire` old, each dispatch serves that level until it is no longer so,
//! unless a running sweep hides it behind a younger one (scenario C-9).
//!
//! *Weaknesses.* Nothing asks again when the last request of an important level completes: the answer
//! is then `Idle` without a timer, and the queue is run by the next insertion or by the stack's delayed
//! rerun (specs/blk-mq-and-noop.md 7.4, N-21). A refused aged look leaves its traces in `batching`,
//! `starved` and the last direction (C-8), as in the kernel.
//!
//! Times are kernel ticks of the length the device's description gives. Zoned devices (C8) are not
//! modelled.

use super::lane::{Lane, LaneSlot, Place, Pool};
use super::tick::{COUNT_MAX, EXPIRE_MS_MAX};
use super::{At, Depth, Dispatch, Entry, Merged, Run, Scheduler, Search, Service, Setup};
use crate::device::Profile;
use crate::env::Cx;
use crate::list::List;
use crate::request::{Dir, Io, ReqId, Request, Side};
use crate::setting::{OnChange, Setting, Settings, Tunable, TunableError, Unit, listed};
use crate::stage::{Change, Decision, Figure, Role, Stage, StageInfo};
use crate::table::NIL;
use crate::unit::{Class, Instant, IoPrio, Nanos, QueueId, Sectors};
use alloc::boxed::Box;

/// The registry entry.
pub static ENTRY: Entry = Entry {
    stage: StageInfo {
        name: "mq-deadline",
        summary: "deadline with three priority levels and ageing, multi-queue",
        source: "specs/deadline.md C (Linux 6.1)",
        tunables: &TUNABLES,
        group_tunables: &[],
        knobs: &[],
        figures: &[],
        decisions: &[Decision::new("held by a busier level", Role::Aside)],
    },
    profile: Profile::MultiQueue,
    service: Service::Requests,
    search: Search::Elevator,
    sorted: false,
    direct: false,
    tag_percent_min: None,
    tags_min: 0,
    replaces_wbt: false,
    build: &|setup| Box::new(MqDeadline::new(setup)),
};

/// Settings in force.
#[derive(Clone, Copy, Debug, Default)]
struct MqConf {
    read_expire_ms: u64,
    write_expire_ms: u64,
    aging_expire_ms: u64,
    writes_starved: u64,
    fifo_batch: u64,
    front_merges: bool,
    async_depth: u64,
    three_quarters: bool,
    shared_at_head: bool,
    base: MqBase,
}

/// The version whose rules hold, where versions of the kernel differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum MqBase {
    V61,
    #[default]
    Hoistway,
    V612,
}

impl MqBase {
    const WORDS: &'static [&'static str] = &["6.1", "hoistway", "6.12"];
    const ALL: [MqBase; 3] = [MqBase::V61, MqBase::Hoistway, MqBase::V612];
}

const HOISTWAY: u64 = MqBase::Hoistway as u64;

/// Makes what a row says of its change true: whether the base keeps that is told.
type MqEffect = fn(&mut MqDeadline, bool);

const ROWS: &[Setting<MqConf, MqEffect>] = &[
    Tunable::new(
        "read_expire",
        Unit::Millis,
        500,
        (0, EXPIRE_MS_MAX),
        "A read this old starts the next batch of reads of its level.",
    )
    .on_change(OnChange::WaitingRequests)
    .only_with("base", HOISTWAY, OnChange::LaterRequests)
    .field_then(
        |c| c.read_expire_ms,
        |c, v| c.read_expire_ms = v,
        |m, mended| m.set_expire(READ, m.conf.read_expire_ms, mended),
    ),
    Tunable::new(
        "write_expire",
        Unit::Millis,
        5000,
        (0, EXPIRE_MS_MAX),
        "A write this old starts the next batch of writes of its level.",
    )
    .on_change(OnChange::WaitingRequests)
    .only_with("base", HOISTWAY, OnChange::LaterRequests)
    .field_then(
        |c| c.write_expire_ms,
        |c, v| c.write_expire_ms = v,
        |m, mended| m.set_expire(WRITE, m.conf.write_expire_ms, mended),
    ),
    Tunable::new(
        "prio_aging_expire",
        Unit::Millis,
        10_000,
        (0, EXPIRE_MS_MAX),
        "A request this old is served although more important levels are busy.",
    )
    .field_then(
        |c| c.aging_expire_ms,
        |c, v| c.aging_expire_ms = v,
        |m, _| m.aging_expire = m.clock.whole_ticks(m.conf.aging_expire_ms),
    ),
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
    Tunable::new(
        "async_depth",
        Unit::Requests,
        256,
        (1, COUNT_MAX),
        "Writes may take the part async_depth / nr_requests of each word of \
         tags. Fresh, and whenever nr_requests changes, it follows nr_requests \
         (256 on deep devices) as async_depth_default says.",
    )
    .field(|c| c.async_depth, |c, v| c.async_depth = v),
    Tunable::new(
        "async_depth_default",
        Unit::Choice(&["full", "three_quarters"]),
        0,
        (0, 1),
        "What async_depth is reset to: nr_requests (6.1 long-term and from \
         6.9), or three quarters of it (5.14 to 6.0, 6.2 to 6.8). Setting it \
         resets async_depth.",
    )
    .on_change(OnChange::Resets)
    .field_then(
        |c| c.three_quarters.into(),
        |c, v| c.three_quarters = v != 0,
        |m, _| m.conf.async_depth = m.default_async_depth(),
    ),
    Tunable::new(
        "shared_at_head",
        Unit::Switch,
        0,
        (0, 1),
        "Requeued requests of all levels go before everything else (recent \
         kernels).",
    )
    .field(|c| c.shared_at_head.into(), |c, v| c.shared_at_head = v != 0),
    Tunable::new(
        "base",
        Unit::Choice(MqBase::WORDS),
        MqBase::Hoistway as u64,
        (0, MqBase::ALL.len() as u64 - 1),
        "Whose rules. When read_expire or write_expire changes while requests \
         wait, hoistway moves their deadlines with it. 6.1 and 6.12 leave them, \
         and since the kernel takes a request's start to be its deadline less \
         the expiry in force, a lowered one makes them seem to come from the \
         future: nothing of them is dispatched until that time has come. A \
         sweep goes on with the request that followed the last one when that \
         was dispatched; with 6.12 (since 6.5) with the first one at its sector \
         or behind it, whenever it came.",
    )
    .field(|c| c.base as u64, |c, v| c.base = MqBase::ALL[v as usize]),
];
static SETTINGS: Settings<MqConf, MqEffect> = Settings::new("mq-deadline", ROWS);
static TUNABLES: [Tunable; ROWS.len()] = listed(ROWS);

const READ: usize = Dir::Read as usize;
const WRITE: usize = Dir::Write as usize;

const RT: usize = 0;
const BE: usize = 1;
const IDLE: usize = 2;

/// Ticks since the run began, and conversions.
#[derive(Debug)]
struct TickClock {
    tick_ns: u64,
    /// The tick last asked for and when it began: saves most divisions.
    tick: i64,
    tick_start_ns: u64,
}

impl TickClock {
    fn new(tick: Nanos) -> TickClock {
        TickClock { tick_ns: tick.0.max(1), tick: 0, tick_start_ns: 0 }
    }

    fn ticks(&mut self, now: Instant) -> i64 {
        let ns = now.as_nanos();
        if ns.wrapping_sub(self.tick_start_ns) >= self.tick_ns {
            self.tick = (ns / self.tick_ns) as i64;
            self.tick_start_ns = self.tick as u64 * self.tick_ns;
        }
        self.tick
    }

    /// Whole ticks of a time in ms, rounded up, as the kernel converts.
    fn whole_ticks(&self, ms: u64) -> i64 {
        Nanos::ms(ms).0.div_ceil(self.tick_ns) as i64
    }
}

/// One priority level.
#[derive(Debug)]
struct Level {
    at_head: List,
    lanes: [Lane; 2],
    inserted: u64,
    merged: u64,
    dispatched: u64,
    completed: u64,
    /// By direction: where the request started that was dispatched last.
    latest: [Sectors; 2],
}

impl Level {
    fn new(pool: &mut Pool) -> Level {
        Level {
            at_head: List::new(),
            lanes: [(); 2].map(|()| pool.lane()),
            inserted: 0,
            merged: 0,
            dispatched: 0,
            completed: 0,
            latest: [Sectors(0); 2],
        }
    }

    /// Requests of this level that wait or are with the driver.
    fn queued(&self) -> u64 {
        self.inserted - self.completed
    }
}

/// The scheduler.
#[derive(Debug)]
pub struct MqDeadline {
    clock: TickClock,
    conf: MqConf,
    /// `read_expire` and `write_expire` in ticks, by direction.
    expire: [i64; 2],
    /// `prio_aging_expire` in ticks.
    aging_expire: i64,
    nr_requests: u32,
    pool: Pool,
    levels: [Level; 3],
    /// A bit for each level that has queued requests. The first of them is the only one a dispatch may
    /// serve, so no other is looked at.
    busy: u8,
    /// Requeued requests of all levels, with `shared_at_head`.
    at_head: List,
    /// Requests on any list: zero is what "has no work" means.
    waiting: u32,
    last_dir: usize,
    batching: u64,
    starved: u64,
}

impl MqDeadline {
    /// An empty scheduler with all tunables at their defaults.
    pub fn new(setup: &Setup<'_>) -> MqDeadline {
        let clock = TickClock::new(setup.device.tick);
        let mut pool = Pool::new(setup.requests, 6);
        let async_depth = setup.device.nr_requests.max(1).into();
        let conf = MqConf { async_depth, ..SETTINGS.defaults() };
        MqDeadline {
            expire: [conf.read_expire_ms, conf.write_expire_ms].map(|ms| clock.whole_ticks(ms)),
            aging_expire: clock.whole_ticks(conf.aging_expire_ms),
            clock,
            conf,
            nr_requests: setup.device.nr_requests,
            levels: [(); 3].map(|()| Level::new(&mut pool)),
            pool,
            busy: 0,
            at_head: List::new(),
            waiting: 0,
            last_dir: WRITE,
            batching: 0,
            starved: 0,
        }
    }

    /// C3 step 2: level and counter, the first time this request is seen.
    #[inline]
    fn admit(&mut self, id: ReqId, r: &Request) -> &mut LaneSlot {
        let entry = self.pool.slot_mut(id.slot());
        if !(entry.is(id) && entry.counted) {
            let level = level_of(r.prio);
            entry.take(id);
            entry.lane = (2 * level + r.dir() as usize) as u8;
            entry.place = Place::Nowhere;
            entry.counted = true;
            self.levels[level].inserted += 1;
            self.busy |= 1 << level;
        }
        entry
    }

    /// C6: the request is freed.
    fn finish(&mut self, id: ReqId) {
        let entry = self.pool.slot_mut(id.slot());
        if entry.is(id) && entry.counted {
            entry.counted = false;
            let at = usize::from(entry.lane / 2);
            let level = &mut self.levels[at];
            level.completed += 1;
            if level.queued() == 0 {
                self.busy &= !(1 << at);
            }
        }
    }

    fn too_young(&self, slot: u32, latest_start: i64) -> bool {
        let entry = self.pool.slot(slot);
        entry.deadline - self.expire[usize::from(entry.lane % 2)] > latest_start
    }

    /// Puts a request on an `at_head` list.
    fn put_aside(&mut self, slot: u32, level: usize) {
        self.waiting += 1;
        let list = if self.conf.shared_at_head {
            &mut self.at_head
        } else {
            &mut self.levels[level].at_head
        };
        list.push_front(&mut self.pool.links, slot);
    }

    /// Takes the first request off an `at_head` list.
    fn take_aside(&mut self, slot: u32, shared: bool) -> ReqId {
        let id = self.pool.id(slot);
        let entry = self.pool.slot_mut(slot);
        entry.place = Place::Nowhere;
        let level = &mut self.levels[usize::from(entry.lane / 2)];
        let list = if shared { &mut self.at_head } else { &mut level.at_head };
        list.remove(&mut self.pool.links, slot);
        level.dispatched += 1;
        self.waiting -= 1;
        id
    }

    /// C5 pick, steps 1 and 2. What steps 3 to 5 change stays although the request is then refused as too
    /// young.
    #[inline(always)]
    fn pick(&mut self, level: usize, now: i64, latest_start: i64) -> Option<ReqId> {
        let head = self.levels[level].at_head.head();
        if head != NIL {
            if self.too_young(head, latest_start) {
                return None;
            }
            return Some(self.take_aside(head, false));
        }
        let next = self.next(level, self.last_dir);
        let slot = if next != NIL && self.batching < self.conf.fifo_batch {
            next
        } else {
            self.start_batch(level, now)?
        };
        if self.too_young(slot, latest_start) {
            return None;
        }
        self.batching += 1;
        self.waiting -= 1;
        let level = &mut self.levels[level];
        level.dispatched += 1;
        let lane = &mut level.lanes[self.last_dir];
        if self.conf.base == MqBase::V612 {
            level.latest[self.last_dir] = self.pool.start(slot);
        }
        lane.next = lane.unlink(&mut self.pool, slot);
        Some(self.pool.id(slot))
    }

    /// The request that the sweep of a direction goes on with, or `NIL`.
    #[inline]
    fn next(&self, level: usize, dir: usize) -> u32 {
        let Level { lanes, latest, .. } = &self.levels[level];
        if self.conf.base == MqBase::V612 {
            return lanes[dir].from(&self.pool, latest[dir]);
        }
        lanes[dir].next
    }

    /// The first pick that succeeds; all but the usual way to a request.
    #[inline(never)]
    fn pick_of(&mut self, levels: &[usize], now: i64, latest_start: i64) -> Option<(usize, ReqId)> {
        levels.iter().find_map(|&level| Some((level, self.pick(level, now, latest_start)?)))
    }

    /// C5 steps 3 to 5.
    fn start_batch(&mut self, level: usize, now: i64) -> Option<u32> {
        let lanes = &self.levels[level].lanes;
        let (reads, writes) = (!lanes[READ].is_empty(), !lanes[WRITE].is_empty());
        let mut dir = READ;
        if reads && writes {
            if self.starved >= self.conf.writes_starved {
                dir = WRITE;
            }
            self.starved += 1;
        } else if writes {
            dir = WRITE;
        } else if !reads {
            return None;
        }
        if dir == WRITE {
            self.starved = 0;
        }
        let lane = &lanes[dir];
        let oldest = lane.fifo.head();
        let expired = now >= self.pool.slot(oldest).deadline;
        self.last_dir = dir;
        self.batching = 0;
        let next = self.next(level, dir);
        Some(if expired || next == NIL { oldest } else { next })
    }

    /// C5 knows a request's start only as its deadline less the expiry in force, so the deadlines of those
    /// that wait move with it: their starts stay what they were, and they expire by the new value.
    ///
    /// Deviation: the kernel leaves them (`base = 6.1`), see the tunable. Requests on an `at_head` list have
    /// the instant of their insertion for a deadline and are never too young.
    fn set_expire(&mut self, dir: usize, ms: u64, waiting_too: bool) {
        let old = core::mem::replace(&mut self.expire[dir], self.clock.whole_ticks(ms));
        if waiting_too {
            let by = self.expire[dir] - old;
            self.levels.iter().for_each(|l| l.lanes[dir].postpone(&mut self.pool, by));
        }
    }

    fn default_async_depth(&self) -> u64 {
        let nr = u64::from(self.nr_requests);
        if self.conf.three_quarters { (3 * nr / 4).max(1) } else { nr.max(1) }
    }
}

impl Scheduler for MqDeadline {
    fn limits_reads(&self, _cx: &Cx<'_>) -> bool {
        false
    }

    fn knows_procs(&self) -> bool {
        false
    }

    /// C7: `async_depth` of the hardware queue's tags, as a part of each word.
    fn depth_limit(&mut self, _now: Instant, io: &Io, cx: &mut Cx<'_>) -> Depth {
        match io.op.dir() {
            Dir::Read => Depth::Usual,
            Dir::Write => {
                let all = u64::from(cx.device.nr_requests.max(1));
                let word = u64::from(cx.device.tag_word());
                Depth::Word((self.conf.async_depth * word).div_ceil(all).clamp(1, word) as u32)
            }
        }
    }

    #[inline(always)]
    fn insert(&mut self, now: Instant, id: ReqId, at: At, cx: &mut Cx<'_>) -> Run {
        let slot = id.slot();
        let r = &cx.requests[id];
        let now = self.clock.ticks(now);
        let expire = self.expire;
        let entry = self.admit(id, r);
        let (level, dir) = (usize::from(entry.lane / 2), usize::from(entry.lane % 2));
        if at == At::Head {
            entry.place = Place::Aside;
            entry.deadline = now;
            self.put_aside(slot, level);
            return Run::Usual;
        }
        entry.place = Place::Lane;
        entry.deadline = now + expire[dir];
        self.waiting += 1;
        let level = &mut self.levels[level];
        let lane = &mut level.lanes[dir];
        lane.sort(&mut self.pool, slot, r.start, r.proc);
        lane.queue(&mut self.pool, slot);
        Run::Usual
    }

    #[inline(always)]
    fn dispatch(&mut self, now: Instant, _queue: QueueId, cx: &mut Cx<'_>) -> Dispatch {
        if self.waiting == 0 {
            return Dispatch::Empty;
        }
        let head = self.at_head.head();
        if head != NIL {
            return Dispatch::Issue(self.take_aside(head, true));
        }
        let tick = self.clock.ticks(now);
        if self.busy.count_ones() >= 2
            && let Some((level, id)) = self.pick_of(&[BE, IDLE], tick, tick - self.aging_expire)
        {
            cx.trace.why(now, "aged", level as u32, 0, 0);
            return Dispatch::Issue(id);
        }
        // Nobody is served past a level that has queued requests, be they waiting or with the driver.
        let level = self.busy.trailing_zeros() as usize;
        if let Some(id) = self.pick(level, tick, tick) {
            return Dispatch::Issue(id);
        }
        let l = &self.levels[level];
        let flying = (l.dispatched + l.merged) as i64 - l.completed as i64;
        cx.trace.why(now, "held by a busier level", level as u32, flying, 0);
        Dispatch::Idle
    }

    /// Everything that waits, by level; the limits between the levels do not count.
    fn drain(&mut self, now: Instant, _cx: &mut Cx<'_>) -> Option<ReqId> {
        let head = self.at_head.head();
        if head != NIL {
            return Some(self.take_aside(head, true));
        }
        let tick = self.clock.ticks(now);
        self.pick_of(&[RT, BE, IDLE], tick, i64::MAX).map(|(_, id)| id)
    }

    #[inline(always)]
    fn complete(&mut self, _now: Instant, id: ReqId, _cx: &mut Cx<'_>) {
        self.finish(id);
    }

    /// Deviation: the kernel has no such hook and counts a requeued request as dispatched twice, which
    /// spoils `owned_by_driver`; here it is taken back. No decision depends on that counter.
    fn requeue(&mut self, _now: Instant, id: ReqId, _cx: &mut Cx<'_>) {
        let entry = self.pool.slot(id.slot());
        if entry.is(id) && entry.counted {
            self.levels[usize::from(entry.lane / 2)].dispatched -= 1;
        }
    }

    /// A request on an `at_head` list is neither in the sector order nor in the hash (C4).
    fn may_merge(&mut self, _now: Instant, _io: &Io, into: ReqId, _cx: &mut Cx<'_>) -> bool {
        self.pool.place(into) != Place::Aside
    }

    fn find_merge(&mut self, _now: Instant, io: &Io, _cx: &mut Cx<'_>) -> Option<(ReqId, Side)> {
        if !self.conf.front_merges {
            return None;
        }
        let lane = &self.levels[level_of(io.prio)].lanes[io.op.dir() as usize];
        let slot = lane.starting_at(&self.pool, io.end());
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
        match what {
            Merged::Bio(Side::Back) => {}
            Merged::Bio(Side::Front) => {
                if self.pool.place(kept) == Place::Lane {
                    let lane = usize::from(self.pool.slot(kept.slot()).lane);
                    let lane = &mut self.levels[lane / 2].lanes[lane % 2];
                    lane.unsort(&mut self.pool, kept.slot());
                    let r = &cx.requests[kept];
                    lane.sort(&mut self.pool, kept.slot(), r.start, r.proc);
                }
            }
            Merged::Request(gone) => self.absorb(kept, gone, cx),
        }
    }
}

impl Stage for MqDeadline {
    fn info(&self) -> &'static StageInfo {
        &ENTRY.stage
    }

    fn changed(&mut self, _now: Instant, change: &Change, cx: &mut Cx<'_>) {
        if *change == Change::Device && cx.device.nr_requests != self.nr_requests {
            self.nr_requests = cx.device.nr_requests;
            self.conf.async_depth = self.default_async_depth();
        }
    }

    fn set(
        &mut self,
        _now: Instant,
        name: &str,
        value: u64,
        _cx: &mut Cx<'_>,
    ) -> Result<(), TunableError> {
        let row = SETTINGS.set(&mut self.conf, name, value)?;
        if let Some(effect) = row.effect {
            effect(self, row.tunable.keeps_promise(self.conf.base as u64));
        }
        Ok(())
    }

    fn value(&self, name: &str) -> Option<u64> {
        SETTINGS.value(&self.conf, name)
    }

    fn figures(&self, sink: &mut dyn FnMut(Figure)) {
        for (i, l) in self.levels.iter().enumerate() {
            let mut put = |name, value| sink(Figure { name, of: Some(i as u32), value });
            put("inserted", l.inserted as i64);
            put("merged", l.merged as i64);
            put("dispatched", l.dispatched as i64);
            put("completed", l.completed as i64);
            put("queued", l.queued() as i64);
            put("owned_by_driver", (l.dispatched + l.merged) as i64 - l.completed as i64);
        }
        let mut put = |name, value| sink(Figure { name, of: None, value });
        put("batching", self.batching as i64);
        put("starved", self.starved as i64);
        put("last_dir", self.last_dir as i64);
    }
}

impl MqDeadline {
    /// Requests merged: C4, and C6 for `gone`. One absorbed at its insertion is on no list yet.
    fn absorb(&mut self, kept: ReqId, gone: ReqId, cx: &Cx<'_>) {
        let lane = self.admit(gone, &cx.requests[gone]).lane;
        let at = usize::from(lane);
        match self.pool.place(gone) {
            Place::Nowhere => {}
            Place::Aside => {
                // An at_head request merges with nobody, so the stack never names one here.
                unreachable!("a request on an at_head list was merged away");
            }
            Place::Lane => {
                let side_by_side = self.pool.place(kept) == Place::Lane
                    && self.pool.slot(kept.slot()).lane == lane;
                let level = &mut self.levels[at / 2];
                let lane = &mut level.lanes[at % 2];
                if side_by_side {
                    lane.hand_over(&mut self.pool, kept.slot(), gone.slot());
                }
                lane.forget(&mut self.pool, gone.slot());
                self.waiting -= 1;
            }
        }
        self.levels[at / 2].merged += 1;
        self.finish(gone);
    }
}

/// Only the class counts; no class is best-effort.
fn level_of(prio: IoPrio) -> usize {
    match prio.class() {
        Class::Rt => RT,
        Class::None | Class::Be => BE,
        Class::Idle => IDLE,
    }
}
