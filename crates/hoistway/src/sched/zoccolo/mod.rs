//! `deadline-zoccolo`: deadline by urgency instead of direction (C. Zoccolo, LKML, April 2009;
//! specs/deadline.md B).
//!
//! *Problem.* [`deadline`](super::deadline) tells reads from writes. But a sync write (fsync) has somebody
//! waiting as a read has, and behind the buffered writes of its direction it waits for seconds.
//!
//! *Idea.* Requests are divided by urgency: real-time reads, sync requests, async requests. Within a level
//! everything is as in deadline: a sector-sorted order, a FIFO with soft deadlines, batches. Around that
//! stand seven smaller ideas of the thread, each with its own switch so that its effect can be shown alone:
//!
//! - `continue_if_more_important`: when the less important level has its turn but a sweep of the more
//!   important one could go on, it does (unless the less important head has expired).
//! - `nonrot_fifo_reads`: without a spindle reads go in order of arrival; writes stay sorted, to merge.
//! - `batch_min_time`: a batch that can go on lasts at least so long; waiting real-time reads end that.
//! - `back_jump`: a batch for an expired request begins a third of a batch before it.
//! - `short_sweep`: with few requests waiting a batch begins at the lowest sector.
//! - `expired_sweep`: when all of a level have expired it is swept as a whole, deadlines unseen.
//! - `async_delay`: async requests wait a little, so that they can merge.
//!
//! *State.* Per level the two orders; one `next`, the request a sweep would go on with; `batching` and
//! `batch_start` of the running batch; `starved`: sync batches begun while async requests waited; `sweep`.
//!
//! *Guarantees.* With `continue_if_more_important` and `batch_min_time` off: after `async_starved` sync
//! batches with async requests waiting comes an async one, so at most `(async_starved + 1) * fifo_batch`
//! sync requests go in a row. With `continue_if_more_important` on that holds for expired async
//! requests. An expired head begins the next batch of its level, or lies within it (`back_jump`).
//!
//! *Weaknesses.* Real-time reads starve everything else. Nobody is told from anybody else but by class and
//! urgency. A sorted batch on a device that sorts by itself wastes its queue.
//!
//! Times are kernel ticks, 1 ms here; a request is expired when `now > deadline`. All points the thread leaves
//! open are decided in the specification (marked "choice" there).

mod tunables;

use self::tunables::{Classify, SETTINGS, TUNABLES, ZoccoloConf};
use super::lane::{Lane, Place, Pool};
use super::tick::{TICK_NS, ticks};
use super::{At, Dispatch, Entry, Merged, Run, Scheduler, Search, Service, Setup};
use crate::device::Profile;
use crate::env::Cx;
use crate::list::List;
use crate::request::{Dir, Io, Op, ReqId, Request, Side};
use crate::setting::TunableError;
use crate::stage::{Figure, Stage, StageInfo};
use crate::table::NIL;
use crate::unit::{Class, Instant, IoPrio, QueueId};
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

/// The registry entry.
pub static ENTRY: Entry = Entry {
    stage: StageInfo {
        name: "deadline-zoccolo",
        summary: "deadline by urgency: real-time reads, sync, async; every idea a switch",
        source: "specs/deadline.md B (C. Zoccolo, LKML, April 2009)",
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
    tag_percent_min: None,
    tags_min: 0,
    replaces_wbt: false,
    build: &|setup| Box::new(Zoccolo::new(setup)),
};

/// Real-time reads.
const RT: usize = 0;
/// Sync requests; by direction: reads.
const SYNC: usize = 1;
/// Async and idle requests; by direction: writes.
const ASYNC: usize = 2;
const LEVELS: usize = 3;

/// A level that is swept as a whole (B6.6).
#[derive(Clone, Copy, Debug, PartialEq)]
struct Sweep {
    level: usize,
    /// Requests of the level until the sweep ends.
    left: u32,
}

/// A run to ask for when the oldest async request is old enough (B6.7).
#[derive(Clone, Copy, Debug, PartialEq)]
struct Wake {
    at: Instant,
    queue: QueueId,
}

/// The scheduler.
#[derive(Debug)]
pub struct Zoccolo {
    conf: ZoccoloConf,
    pool: Pool,
    /// By slot: tick of insertion.
    arrived: Vec<i64>,
    levels: [Lane; LEVELS],
    /// Requeued requests: returned before anything is decided.
    out: List,
    /// The request to continue the sweep with, or `NIL`; its level is that of the request.
    next: u32,
    batching: u64,
    /// Tick of the first request of the batch.
    batch_start: i64,
    starved: u64,
    sweep: Option<Sweep>,
    wake: Option<Wake>,
}

impl Zoccolo {
    /// An empty scheduler with all tunables at their defaults.
    pub fn new(setup: &Setup<'_>) -> Zoccolo {
        let mut pool = Pool::new(setup.requests, LEVELS);
        Zoccolo {
            conf: SETTINGS.defaults(),
            arrived: vec![0; setup.requests],
            levels: [(); LEVELS].map(|()| pool.lane()),
            pool,
            out: List::new(),
            next: NIL,
            batching: 0,
            batch_start: 0,
            starved: 0,
            sweep: None,
            wake: None,
        }
    }

    /// B2. The class is that of the I/O itself; none counts as best-effort.
    fn level_of(&self, op: Op, sync: bool, prio: IoPrio) -> usize {
        let read = op.dir() == Dir::Read;
        // An fsync is a write that somebody waits for; told apart from buffered writes it came from 0.8 to 5 s
        // down to 0.02 to 0.3 s in the thread's own measurements.
        let urgent = match self.conf.classify {
            Classify::Direction => read,
            Classify::Sync => sync,
            Classify::Full if read && prio.class() == Class::Rt => return RT,
            Classify::Full => sync && prio.class() != Class::Idle,
        };
        if urgent { SYNC } else { ASYNC }
    }

    fn level(&self, slot: u32) -> usize {
        self.pool.slot(slot).lane.into()
    }

    /// B6 step 1: does the sweep go on in the same batch?
    fn goes_on(&self, tick: i64, device: Spindle) -> bool {
        if self.next == NIL {
            return false;
        }
        if self.batching < self.fifo_batch(device) {
            return true;
        }
        // Sixteen near requests take a few ms and sixteen far ones 150: a count alone gives up near runs, which
        // are cheap, as early as far ones. A least time lets cheap batches go on and costs dear ones nothing.
        let more_urgent = !self.levels[RT].is_empty() && self.level(self.next) != RT;
        tick - self.batch_start < self.conf.batch_min_time && !more_urgent
    }

    fn fifo_batch(&self, device: Spindle) -> u64 {
        let one = self.conf.nonrot_fifo_batch_one && device == Spindle::Absent;
        if one { 1 } else { self.conf.fifo_batch }
    }

    /// B6 step 2: the level of a new batch.
    fn choose_level(&mut self, tick: i64, forced: bool) -> Option<usize> {
        // Strict: the class is for what must not wait. It can starve all others, as its name says.
        if !self.levels[RT].is_empty() {
            return Some(RT);
        }
        let eligible = !self.levels[ASYNC].is_empty() && (forced || tick >= self.eligible_at());
        let sync = !self.levels[SYNC].is_empty();
        if sync && !(eligible && self.spend_patience()) {
            return Some(SYNC);
        }
        if !eligible {
            return None;
        }
        self.starved = 0;
        Some(ASYNC)
    }

    /// Sync requests are about to pass waiting async ones: true when they have done so often enough.
    fn spend_patience(&mut self) -> bool {
        let before = self.starved;
        self.starved += 1;
        before >= self.conf.async_starved
    }

    /// B6.7: the tick at which the oldest async request may go; there must be one.
    ///
    /// Async requests come in bursts from the flusher. One that is sent as soon as it is alone goes without the
    /// neighbours that follow within milliseconds, and that cannot merge with it any more.
    fn eligible_at(&self) -> i64 {
        self.arrived[self.levels[ASYNC].fifo.head() as usize] + self.conf.async_delay
    }

    /// B6 step 3: the first request of a batch for `level`, which is not empty.
    fn choose_start(&mut self, tick: i64, level: usize, device: Spindle) -> (u32, &'static str) {
        let fifo = self.levels[level].fifo;
        let head = fifo.head();
        // Deviation: B6.2 exempts starts that are reads from back_jump and short_sweep; expired_sweep
        // would break the order of arrival just the same, so it is treated alike.
        let as_they_came = self.fifo_reads(device) && self.is_read(head);
        let mut sweeping = self.sweep.is_some_and(|s| s.level == level);
        if self.conf.expired_sweep
            && !sweeping
            && !as_they_came
            && tick > self.pool.slot(fifo.tail()).deadline
        {
            self.sweep = Some(Sweep { level, left: fifo.len() });
            // When everything is late, going to the oldest each time seeks as often as first in, first out
            // would, and makes all later still. One sweep over the whole level is the quickest way out.
            return (self.lowest(level, device), "batch: all expired");
        }
        // With the switch off again a recorded sweep has no more say.
        sweeping &= self.conf.expired_sweep;
        let expired = !sweeping && tick > self.pool.slot(head).deadline;
        if self.next != NIL && !expired {
            let level_of_next = self.level(self.next);
            let more_important = self.conf.continue_if_more_important && level_of_next < level;
            if level_of_next == level || more_important {
                return (self.next, "batch: goes on");
            }
        }
        if as_they_came {
            (head, "batch: oldest read")
        } else if sweeping {
            (self.lowest(level, device), "batch: sweep")
        } else if expired && self.conf.back_jump {
            // What lies just below the oldest request would else wait for a whole turn of the sweep; a third of
            // a batch is taken on the way, which the oldest hardly feels.
            (self.jump_back(head, device), "batch: before the expired")
        } else if expired {
            (head, "batch: expired")
        } else if self.conf.short_sweep && u64::from(fifo.len()) < self.fifo_batch(device) {
            // Fewer than a batch wait: one sweep from the lowest sector takes all of them, nobody is starved by
            // not being first.
            (self.lowest(level, device), "batch: short")
        } else {
            (head, "batch: oldest")
        }
    }

    /// True when reads go in order of arrival (B6.2).
    ///
    /// Without a spindle sorting reads wins nothing. Writes stay sorted: flash too is faster with few long
    /// writes than with many short ones, and sorted neighbours merge.
    fn fifo_reads(&self, device: Spindle) -> bool {
        self.conf.nonrot_fifo_reads && device == Spindle::Absent
    }

    fn is_read(&self, slot: u32) -> bool {
        self.pool.slot(slot).read
    }

    /// The request of the level at the lowest sector. Where reads go in order of arrival, the lowest write:
    /// a batch that a write begins holds writes only.
    fn lowest(&self, level: usize, device: Spindle) -> u32 {
        let mut at = self.levels[level].lowest(&self.pool);
        while self.fifo_reads(device) && self.is_read(at) {
            at = self.pool.after(at);
        }
        assert!(at != NIL, "the caller saw a request that may begin a sorted batch");
        at
    }

    /// B6.4: a third of a batch before `slot` in the order it will be served in.
    fn jump_back(&self, slot: u32, device: Spindle) -> u32 {
        let (mut start, mut at) = (slot, slot);
        let mut left = self.fifo_batch(device) / 3;
        while left > 0 {
            at = self.pool.before(at);
            if at == NIL {
                break;
            }
            if !(self.fifo_reads(device) && self.is_read(at)) {
                start = at;
                left -= 1;
            }
        }
        start
    }

    /// B6 "successor" and B6.2: what the sweep goes on with behind `slot`. Bounded by the requests of the
    /// level; only mixed levels without a spindle walk at all.
    fn successor(&self, slot: u32, device: Spindle) -> u32 {
        if !self.fifo_reads(device) {
            return self.pool.after(slot);
        }
        let read = self.is_read(slot);
        let step = |at| if read { self.pool.links.next(at) } else { self.pool.after(at) };
        let mut at = step(slot);
        while at != NIL && self.is_read(at) != read {
            at = step(at);
        }
        at
    }

    /// B6 step 4.
    fn send(&mut self, slot: u32, device: Spindle) -> ReqId {
        self.batching += 1;
        self.next = self.successor(slot, device);
        let level = self.level(slot);
        self.levels[level].unlink(&mut self.pool, slot);
        self.count_off(level);
        self.pool.id(slot)
    }

    /// One request fewer until the sweep of its level ends.
    fn count_off(&mut self, level: usize) {
        if let Some(sweep) = &mut self.sweep
            && sweep.level == level
        {
            sweep.left -= 1;
            if sweep.left == 0 {
                self.sweep = None;
            }
        }
    }

    /// One dispatch; `forced` ignores the age of async requests.
    fn pick(&mut self, now: Instant, cx: &mut Cx<'_>, forced: bool) -> Option<ReqId> {
        if let Some(slot) = self.out.pop_front(&mut self.pool.links) {
            self.pool.slot_mut(slot).place = Place::Nowhere;
            return Some(self.pool.id(slot));
        }
        let (tick, device) = (ticks(now), Spindle::of(cx));
        if self.goes_on(tick, device) {
            return Some(self.send(self.next, device));
        }
        let level = self.choose_level(tick, forced)?;
        let (start, why) = self.choose_start(tick, level, device);
        let waiting = self.levels[level].fifo.len();
        cx.trace.why(now, why, level as u32, self.starved as i64, waiting.into());
        self.batching = 0;
        self.batch_start = tick;
        Some(self.send(start, device))
    }

    /// Requests merged (A5). The kept one also takes the age of the other when it takes its place.
    fn absorb(&mut self, kept: ReqId, gone: ReqId, device: Spindle) {
        let (k, g) = (kept.slot(), gone.slot());
        match self.pool.place(gone) {
            Place::Nowhere => {}
            Place::Aside => {
                self.out.remove(&mut self.pool.links, g);
                self.pool.slot_mut(g).place = Place::Nowhere;
            }
            Place::Lane => {
                let level = self.level(g);
                if self.pool.place(kept) == Place::Lane && self.level(k) == level {
                    if self.pool.slot(g).deadline < self.pool.slot(k).deadline {
                        self.arrived[k as usize] = self.arrived[g as usize];
                    }
                    self.levels[level].hand_over(&mut self.pool, k, g);
                }
                if self.next == g {
                    self.next = self.successor(g, device);
                }
                self.levels[level].unlink(&mut self.pool, g);
                self.count_off(level);
            }
        }
    }
}

impl Scheduler for Zoccolo {
    fn knows_procs(&self) -> bool {
        false
    }

    fn insert(&mut self, now: Instant, id: ReqId, at: At, cx: &mut Cx<'_>) -> Run {
        let slot = id.slot();
        let r: &Request = &cx.requests[id];
        let level = self.level_of(r.op, r.sync, r.prio);
        let tick = ticks(now);
        self.arrived[id.index()] = tick;
        let entry = self.pool.take(id);
        entry.read = r.dir() == Dir::Read;
        entry.lane = level as u8;
        if at == At::Head {
            entry.place = Place::Aside;
            self.out.push_front(&mut self.pool.links, slot);
            return Run::Usual;
        }
        entry.place = Place::Lane;
        entry.deadline = tick + self.conf.expire[level];
        self.levels[level].sort(&mut self.pool, slot, r.start, r.proc);
        self.levels[level].queue(&mut self.pool, slot);
        Run::Usual
    }

    fn dispatch(&mut self, now: Instant, queue: QueueId, cx: &mut Cx<'_>) -> Dispatch {
        if let Some(id) = self.pick(now, cx, false) {
            return Dispatch::Issue(id);
        }
        if self.levels[ASYNC].is_empty() {
            return Dispatch::Empty;
        }
        // Not negative: it is later than `now`.
        let at = Instant::from_nanos(self.eligible_at() as u64 * TICK_NS);
        self.wake = Some(Wake { at, queue });
        Dispatch::Idle
    }

    fn drain(&mut self, now: Instant, cx: &mut Cx<'_>) -> Option<ReqId> {
        self.pick(now, cx, true)
    }

    /// Only within a level (B5); what was given back has left the elevator.
    fn may_merge(&mut self, _now: Instant, io: &Io, into: ReqId, cx: &mut Cx<'_>) -> bool {
        let level = self.level_of(io.op, cx.device.is_sync(io.op, io.flags), io.prio);
        self.pool.place(into) == Place::Lane && self.level(into.slot()) == level
    }

    fn find_merge(&mut self, _now: Instant, io: &Io, cx: &mut Cx<'_>) -> Option<(ReqId, Side)> {
        if !self.conf.front_merges {
            return None;
        }
        let level = self.level_of(io.op, cx.device.is_sync(io.op, io.flags), io.prio);
        let read = io.op.dir() == Dir::Read;
        let mut slot = self.levels[level].starting_at(&self.pool, io.end());
        // A level mixes reads and writes, and equal sectors may coexist: the oldest of this direction.
        while slot != NIL && self.is_read(slot) != read {
            let after = self.pool.after(slot);
            let alike = after != NIL && self.pool.alias(after) == Some(slot);
            slot = if alike { after } else { NIL };
        }
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
                    let (slot, r) = (kept.slot(), &cx.requests[kept]);
                    let level = &mut self.levels[usize::from(self.pool.slot(slot).lane)];
                    level.unsort(&mut self.pool, slot);
                    level.sort(&mut self.pool, slot, r.start, r.proc);
                }
            }
            Merged::Request(gone) => self.absorb(kept, gone, Spindle::of(cx)),
        }
    }
}

impl Stage for Zoccolo {
    fn info(&self) -> &'static StageInfo {
        &ENTRY.stage
    }

    fn timer(&mut self, now: Instant, cx: &mut Cx<'_>) {
        if let Some(wake) = self.wake
            && wake.at <= now
        {
            self.wake = None;
            cx.run(wake.queue);
        }
    }

    fn next_timer(&self) -> Option<Instant> {
        self.wake.map(|wake| wake.at)
    }

    fn set(
        &mut self,
        _now: Instant,
        name: &str,
        value: u64,
        cx: &mut Cx<'_>,
    ) -> Result<(), TunableError> {
        SETTINGS.set(&mut self.conf, name, value)?;
        // What waits for its age may be old enough by the new settings.
        // Nothing else would ask again before the old time.
        if let Some(wake) = self.wake.take() {
            cx.run(wake.queue);
        }
        Ok(())
    }

    fn value(&self, name: &str) -> Option<u64> {
        SETTINGS.value(&self.conf, name)
    }

    fn figures(&self, sink: &mut dyn FnMut(Figure)) {
        for (level, lane) in self.levels.iter().enumerate() {
            let (of, value) = (Some(level as u32), lane.fifo.len().into());
            sink(Figure { name: "waiting", of, value });
        }
        let mut put = |name, value| sink(Figure { name, of: None, value });
        put("batching", self.batching as i64);
        put("starved", self.starved as i64);
        put("sweep_left", self.sweep.map_or(0, |s| s.left.into()));
    }
}

/// Has the device one? Some of the rules ask.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Spindle {
    Present,
    Absent,
}

impl Spindle {
    fn of(cx: &Cx<'_>) -> Spindle {
        if cx.device.rotational { Spindle::Present } else { Spindle::Absent }
    }
}
