//! `sio`, the simple I/O scheduler for flash (out of tree, 2010 to 2018; specs/sio.md).
//!
//! *Problem.* On a device without seeks sorting buys nothing and costs time, but plain first in, first out
//! lets buffered writes stand before the reads and syncs somebody waits for.
//!
//! *Idea.* One FIFO per class, no order by sector. Synchronous goes before asynchronous and reads go
//! before writes. Each request has a soft deadline by its class; only the heads of the lists are looked
//! at, and only once in a while.
//!
//! *State.* `sio` (revision 0.2 of 2012) has four lists, {sync, async} x {read, write}; `sio-1` (2010) has
//! two, {sync, async}. `batched`: dispatches since the last look at the deadlines. `starved`: reads
//! dispatched since the last write (`sio` only).
//!
//! *Rule.* When `batched > fifo_batch`, the first expired head goes, the least favoured class being asked
//! first. Otherwise the preferred direction is read, or write when `starved > writes_starved`; the first
//! non-empty list of sync preferred, async preferred, sync other, async other gives its head. `sio-1`
//! knows no directions: it is the same rule with every request taken for a read.
//!
//! *Guarantees.* With reads and writes pending at most `writes_starved + 1` reads go in a row, plus one if
//! it had expired. An expired head of the least favoured class goes after at most `fifo_batch + 1` others;
//! every further one needs as many again.
//!
//! *Weaknesses.* Deadlines are very soft: at most one expired request per `fifo_batch + 1` dispatches. In
//! `sio-1` an async write waits for its expiry while sync requests keep coming. No processes, no
//! priorities, no idling. Two requests are joined only if they are neighbours in their FIFO.
//!
//! Times are kernel ticks, 1 ms here; a request is expired when `now > deadline`.

use super::tick::{COUNT_MAX, EXPIRE_MS_MAX, ticks};
use super::{At, Dispatch, Entry, Merged, Run, Scheduler, Search, Service, Setup};
use crate::device::Profile;
use crate::env::Cx;
use crate::list::{Links, List};
use crate::request::{Dir, Io, ReqId, Request, Side};
use crate::setting::{OnChange, Setting, Settings, Tunable, TunableError, Unit, listed};
use crate::stage::{Figure, Stage, StageInfo};
use crate::table::{Handle, NIL};
use crate::unit::{Instant, QueueId};
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

/// The registry entry of the revision of 2012, the usual one.
pub static ENTRY: Entry = Entry {
    stage: StageInfo {
        name: "sio",
        summary: "first in, first out per class: sync before async, reads before writes",
        source: "specs/sio.md (sio 0.2, 2012)",
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
    build: &|setup| Box::new(Sio::new(setup, Revision::Directions)),
};

/// The registry entry of the revision of 2010.
pub static ENTRY_1: Entry = Entry {
    stage: StageInfo {
        name: "sio-1",
        summary: "first in, first out, sync before async (the sio of 2010)",
        source: "specs/sio.md (sio-1, 2010)",
        tunables: &TUNABLES_1,
        ..ENTRY.stage
    },
    build: &|setup| Box::new(Sio::new(setup, Revision::SyncOnly)),
    ..ENTRY
};

/// Settings in force.
#[derive(Clone, Copy, Debug, Default)]
struct SioConf {
    /// In ticks, by class.
    expire: [i64; CLASSES],
    fifo_batch: u64,
    writes_starved: u64,
}

// Four times as patient from class to class (the factor between sync reads and sync writes, and between reads and
// writes that nobody waits for).
const ROWS: &[Setting<SioConf>] = &[
    expire("sync_read_expire", 500, "Age at which a sync read counts as expired.")
        .field(|c| c.expire[SYNC_READ] as u64, |c, v| c.expire[SYNC_READ] = v as i64),
    expire("sync_write_expire", 2000, "Age at which a sync write counts as expired.")
        .field(|c| c.expire[SYNC_WRITE] as u64, |c, v| c.expire[SYNC_WRITE] = v as i64),
    expire("async_read_expire", 4000, "Age at which an async read counts as expired.")
        .field(|c| c.expire[ASYNC_READ] as u64, |c, v| c.expire[ASYNC_READ] = v as i64),
    expire("async_write_expire", 16_000, "Age at which an async write counts as expired.")
        .field(|c| c.expire[ASYNC_WRITE] as u64, |c, v| c.expire[ASYNC_WRITE] = v as i64),
    fifo_batch(8),
    // Quirk Q1: the published source leaves it and its counter uninitialised; these are the intended values.
    Tunable::new(
        "writes_starved",
        Unit::Count,
        2,
        (0, COUNT_MAX),
        "A write is due when more reads than this have gone since the last one.",
    )
    .field(|c| c.writes_starved, |c, v| c.writes_starved = v),
];
static SETTINGS: Settings<SioConf> = Settings::new("sio", ROWS);
static TUNABLES: [Tunable; ROWS.len()] = listed(ROWS);

const ROWS_1: &[Setting<SioConf>] = &[
    expire("sync_expire", 500, "Age at which a sync request counts as expired.")
        .field(|c| c.expire[SYNC_READ] as u64, |c, v| c.expire[SYNC_READ] = v as i64),
    expire("async_expire", 5000, "Age at which an async request counts as expired.")
        .field(|c| c.expire[ASYNC_READ] as u64, |c, v| c.expire[ASYNC_READ] = v as i64),
    fifo_batch(16),
];
static SETTINGS_1: Settings<SioConf> = Settings::new("sio-1", ROWS_1);
static TUNABLES_1: [Tunable; ROWS_1.len()] = listed(ROWS_1);

const fn expire(name: &'static str, default: u64, doc: &'static str) -> Tunable {
    Tunable::new(name, Unit::Millis, default, (0, EXPIRE_MS_MAX), doc)
        .on_change(OnChange::LaterRequests)
}

const fn fifo_batch(default: u64) -> Setting<SioConf> {
    Tunable::new(
        "fifo_batch",
        Unit::Requests,
        default,
        (0, COUNT_MAX),
        "Dispatches that go, less one, before deadlines are looked at again.",
    )
    .field(|c| c.fifo_batch, |c, v| c.fifo_batch = v)
}

/// Which of the two published schedulers.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Revision {
    /// 2012: reads and writes apart.
    Directions,
    /// 2010: sync and async only.
    SyncOnly,
}

impl Revision {
    fn entry(self) -> &'static Entry {
        match self {
            Revision::Directions => &ENTRY,
            Revision::SyncOnly => &ENTRY_1,
        }
    }

    fn settings(self) -> &'static Settings<SioConf> {
        match self {
            Revision::Directions => &SETTINGS,
            Revision::SyncOnly => &SETTINGS_1,
        }
    }
}

// Why no order by sector: on flash a position costs next to nothing, and two pointers a request are less work than
// a tree. The price is merges: only neighbours in time are found, not neighbours on the device.
/// Lists: two bits, async in the upper and write in the lower; the last is no class but what was given
/// back by the device and goes before all others.
const ASYNC: usize = 2;
const SYNC_READ: usize = Dir::Read as usize;
const SYNC_WRITE: usize = Dir::Write as usize;
const ASYNC_READ: usize = ASYNC + SYNC_READ;
const ASYNC_WRITE: usize = ASYNC + SYNC_WRITE;
const CLASSES: usize = 4;
const ASIDE: usize = CLASSES;

/// The order of section 6 by preferred direction.
///
/// Sync before async inside a direction, because somebody waits for it; the direction before urgency, so
/// that a turn for writes really serves one although sync reads wait.
const CHOICE: [[usize; CLASSES]; 2] = [
    [SYNC_READ, ASYNC_READ, SYNC_WRITE, ASYNC_WRITE],
    [SYNC_WRITE, ASYNC_WRITE, SYNC_READ, ASYNC_READ],
];
/// The order of section 5.
///
/// Least favoured first: the usual choice never comes to that class while others wait, whereas a favoured
/// one needs no rescue.
const EXPIRY: [usize; CLASSES] = [ASYNC_WRITE, ASYNC_READ, SYNC_WRITE, SYNC_READ];

#[derive(Clone, Copy, Debug)]
struct SioSlot {
    /// In ticks.
    deadline: i64,
    id: ReqId,
    /// Index of its list.
    list: u8,
}

/// The scheduler.
#[derive(Debug)]
pub struct Sio {
    revision: Revision,
    conf: SioConf,
    links: Links,
    slots: Vec<SioSlot>,
    lists: [List; CLASSES + 1],
    batched: u64,
    starved: u64,
}

impl Sio {
    fn new(setup: &Setup<'_>, revision: Revision) -> Sio {
        let nobody = ReqId(Handle { slot: NIL, generation: 0 });
        Sio {
            revision,
            conf: revision.settings().defaults(),
            starved: 0,
            links: Links::new(setup.requests),
            slots: vec![SioSlot { deadline: 0, id: nobody, list: 0 }; setup.requests],
            lists: [List::new(); CLASSES + 1],
            batched: 0,
        }
    }

    fn class_of(&self, r: &Request) -> usize {
        let dir = match self.revision {
            Revision::Directions => r.dir() as usize,
            Revision::SyncOnly => Dir::Read as usize,
        };
        if r.sync { dir } else { ASYNC + dir }
    }

    /// The list this very request waits on (its slot may have had other tenants).
    fn list_of(&self, id: ReqId) -> Option<usize> {
        let s = &self.slots[id.index()];
        (s.id == id && self.links.linked(id.slot())).then_some(s.list.into())
    }

    /// Section 5: the first expired head, the least favoured class first.
    fn expired(&self, now: Instant) -> Option<usize> {
        let tick = ticks(now);
        EXPIRY.into_iter().find(|&class| {
            let head = self.lists[class].head();
            head != NIL && tick > self.slots[head as usize].deadline
        })
    }

    /// Section 6: the first non-empty list in order of preference.
    fn preferred(&self) -> Option<usize> {
        let dir = usize::from(self.starved > self.conf.writes_starved);
        CHOICE[dir].into_iter().find(|&class| !self.lists[class].is_empty())
    }

    #[inline]
    fn pop(&mut self, list: usize) -> Option<ReqId> {
        let slot = self.lists[list].pop_front(&mut self.links)?;
        Some(self.slots[slot as usize].id)
    }
}

impl Scheduler for Sio {
    fn knows_procs(&self) -> bool {
        false
    }

    fn insert(&mut self, now: Instant, id: ReqId, at: At, cx: &mut Cx<'_>) -> Run {
        let slot = id.slot();
        match at {
            At::Tail => {
                let class = self.class_of(&cx.requests[id]);
                let deadline = ticks(now) + self.conf.expire[class];
                self.slots[id.index()] = SioSlot { deadline, id, list: class as u8 };
                self.lists[class].push_back(&mut self.links, slot);
            }
            At::Head => {
                self.slots[id.index()] = SioSlot { deadline: 0, id, list: ASIDE as u8 };
                self.lists[ASIDE].push_front(&mut self.links, slot);
            }
        }
        Run::Usual
    }

    /// Section 4. `Empty` may still have reset `batched`: scenario 7 asks for it.
    fn dispatch(&mut self, now: Instant, _queue: QueueId, cx: &mut Cx<'_>) -> Dispatch {
        if let Some(id) = self.pop(ASIDE) {
            return Dispatch::Issue(id);
        }
        // Deadlines are only a guard against starvation, so they are looked at once in a while: four
        // comparisons every `fifo_batch + 1` dispatches instead of at each.
        let mut class = None;
        if self.batched > self.conf.fifo_batch {
            self.batched = 0;
            class = self.expired(now);
            if let Some(class) = class {
                cx.trace.why(now, "expired", class as u32, self.starved as i64, 0);
            }
        }
        let Some(class) = class.or_else(|| self.preferred()) else { return Dispatch::Empty };
        self.batched += 1;
        if self.revision == Revision::Directions {
            // Reads in a row, whoever sent them: a reader that waits for each answer would otherwise keep
            // writes out for ever.
            let read = class == SYNC_READ || class == ASYNC_READ;
            self.starved = if read { self.starved + 1 } else { 0 };
        }
        Dispatch::Issue(self.pop(class).expect("the chosen list has a head"))
    }

    /// A request that the device gave back has left the elevator: it joins nothing any more.
    fn may_merge(&mut self, _now: Instant, _io: &Io, into: ReqId, _cx: &mut Cx<'_>) -> bool {
        self.list_of(into) != Some(ASIDE)
    }

    fn neighbour(&self, id: ReqId, side: Side, _cx: &Cx<'_>) -> Option<ReqId> {
        if self.list_of(id).is_none_or(|list| list == ASIDE) {
            return None;
        }
        let slot = match side {
            Side::Front => self.links.prev(id.slot()),
            Side::Back => self.links.next(id.slot()),
        };
        (slot != NIL).then(|| self.slots[slot as usize].id)
    }

    fn merged(&mut self, _now: Instant, kept: ReqId, what: Merged, _cx: &mut Cx<'_>) {
        let Merged::Request(gone) = what else { return };
        // One absorbed before its insertion (blk-mq-and-noop.md 3.5) is on no list.
        let Some(of_gone) = self.list_of(gone) else { return };
        let (k, g) = (kept.index(), gone.index());
        if let Some(of_kept) = self.list_of(kept)
            && of_kept != ASIDE
            && of_gone != ASIDE
            && self.slots[g].deadline < self.slots[k].deadline
        {
            // Directly behind `gone`, which then goes, is where `gone` was; also in the other list, when
            // a sync and an async write are joined.
            self.lists[of_kept].remove(&mut self.links, kept.slot());
            self.lists[of_gone].insert_before(&mut self.links, gone.slot(), kept.slot());
            self.slots[k].deadline = self.slots[g].deadline;
            self.slots[k].list = of_gone as u8;
        }
        self.lists[of_gone].remove(&mut self.links, gone.slot());
    }
}

impl Stage for Sio {
    fn info(&self) -> &'static StageInfo {
        &self.revision.entry().stage
    }

    fn set(
        &mut self,
        _now: Instant,
        name: &str,
        value: u64,
        _cx: &mut Cx<'_>,
    ) -> Result<(), TunableError> {
        self.revision.settings().set(&mut self.conf, name, value).map(drop)
    }

    fn value(&self, name: &str) -> Option<u64> {
        self.revision.settings().value(&self.conf, name)
    }

    fn figures(&self, sink: &mut dyn FnMut(Figure)) {
        let mut put = |name, value| sink(Figure { name, of: None, value });
        put("batched", self.batched as i64);
        match self.revision {
            Revision::Directions => {
                put("sync_reads_waiting", self.lists[SYNC_READ].len().into());
                put("sync_writes_waiting", self.lists[SYNC_WRITE].len().into());
                put("async_reads_waiting", self.lists[ASYNC_READ].len().into());
                put("async_writes_waiting", self.lists[ASYNC_WRITE].len().into());
                put("starved", self.starved as i64);
            }
            Revision::SyncOnly => {
                put("sync_waiting", self.lists[SYNC_READ].len().into());
                put("async_waiting", self.lists[ASYNC_READ].len().into());
            }
        }
    }
}
