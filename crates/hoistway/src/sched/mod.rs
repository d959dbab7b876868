//! I/O schedulers: the trait, its vocabulary, and the registry.
//!
//! A scheduler answers one question: which request goes to the device next? It is told of events by
//! method calls and answers with return values; it holds no clock. The names of the events are those of
//! the block layer (specs/blk-mq-and-noop.md section 12).

mod chunk;
mod lane;
mod seek;
mod software_queue;
#[cfg(feature = "kernel")]
mod steps;
mod tick;
mod twins;

pub mod adios;
pub mod bfq;
pub mod cfq;
pub mod deadline;
pub mod k2;
pub mod kyber;
pub mod mq_deadline;
pub mod none;
pub mod noop;
pub mod paternoster;
pub mod sio;
pub mod zoccolo;

use crate::device::{Device, Profile};
use crate::env::Cx;
use crate::group::ProcId;
use crate::request::{Io, ReqId, Side};
use crate::stage::{Stage, StageInfo};
use crate::target::TargetState;
use crate::unit::{Instant, IoPrio, QueueId, Sectors};
use alloc::boxed::Box;
#[cfg(feature = "kernel")]
pub use steps::{Entered, Entrance, Steps, Wish};
pub use twins::{TWINS, find_or_twin, twin};

/// Which tags a bio may have when it asks for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// As many as the pool has.
    Usual,
    /// Only the first so many places of each word of tags ([`Device::tag_word`] has their number), at
    /// least 1. Places count, not requests: one that is held, by whomever, is not to be had. In the
    /// legacy profile, which numbers no tags: refused when so many or more exist in the pool.
    Word(u32),
    /// Past the pool's size up to its absolute cap (legacy 3/2; elsewhere as `Usual`).
    Insist,
}

/// Which end of its queue a request joins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// The ordinary place.
    Tail,
    /// Before everything else (requeues).
    Head,
}

/// Which merges a waiting request takes part in ([`Search::Elevator`] in the multi-queue profile).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Open {
    /// None.
    Closed,
    /// Bios may join it. At its insertion it joins no other request.
    ToBios,
    /// Also the merge at insertion (specs/blk-mq-and-noop.md 3.5).
    Full,
}

/// The answer to `insert`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Run {
    /// The stack runs the queue when it usually does.
    Usual,
    /// Run the queue although it is plugged (legacy profile).
    Now,
}

/// The answer to `dispatch`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dispatch {
    /// This one goes to the device now.
    Issue(ReqId),
    /// Requests are pending but held back on purpose (idling, no token, too young).
    Idle,
    /// Nothing is pending. The call changed no state: a stack of the multi-queue profile, whose kernel asks
    /// `has_work` first, leaves it out.
    Empty,
}

/// Object that joined a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Merged {
    /// A bio, at that side.
    Bio(Side),
    /// Another request, which no longer exists in the table when the call returns. Stands for its
    /// completion too.
    Request(ReqId),
}

/// Stages of a flush command of the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlushCommand {
    /// It has gone to the device.
    Began,
    /// It is over, or was given back.
    Ended,
}

/// A process and a queue it uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueUse {
    /// The process.
    pub proc: ProcId,
    /// It uses the queue for sync requests; otherwise for async ones.
    pub sync: bool,
    /// Number of the queue; several processes may share one.
    pub queue: u32,
    /// The queue is being served.
    pub in_service: bool,
}

/// Several calls in one, where a kernel drives a scheduler.
#[cfg(not(feature = "kernel"))]
pub trait Steps {}

#[cfg(not(feature = "kernel"))]
impl<S: Scheduler> Steps for S {}

/// One I/O scheduler for one device.
///
/// The contract, tested once for all implementations: every insertion is answered by exactly one
/// [`Dispatch::Issue`] or by being merged away; a requeue is a new insertion; `now` never goes back.
/// `dispatch` is asked only while the device has room, and only when the queue *runs* (never merely
/// because something completed). `timer(now)` is called when `next_timer() <= now`, never later than
/// needed; afterwards `next_timer()` is in the future or `None`. A scheduler that answers `Idle` and
/// waits for time alone must say until when by `next_timer`, and its `timer` asks for the run
/// ([`Cx::run`]).
pub trait Scheduler: Stage + Steps {
    /// Which tags this bio may have. Asked once, when the bio first asks for a tag, and kept while its
    /// submitter waits (legacy: at every try); never for a flush or a bio with PREFLUSH or FUA in the
    /// multi-queue profile.
    fn depth_limit(&mut self, _now: Instant, _io: &Io, _cx: &mut Cx<'_>) -> Depth {
        Depth::Usual
    }

    /// A request exists for a bio that joined no other. Choose its queue here; the stack may still merge
    /// it into a neighbour before `insert` (then `merged(kept, Request(this))` follows instead).
    fn prepare(&mut self, _now: Instant, _id: ReqId, _cx: &mut Cx<'_>) {}

    /// Which merges may this request, which is about to be inserted at the tail, take part in from now on? What is
    /// open to merging is so until it is issued or the scheduler says [`Cx::close`].
    fn open(&self, _id: ReqId, _cx: &Cx<'_>) -> Open {
        Open::Full
    }

    /// Whether `open` answers [`Open::Full`] for every request: then a kernel may look for what it joins before it asks.
    fn opens_all(&self) -> bool {
        true
    }

    /// Takes the request in.
    fn insert(&mut self, now: Instant, id: ReqId, at: At, cx: &mut Cx<'_>) -> Run;

    /// Which request goes to the device next, for a run of `queue`? In the multi-queue profile asked only while the
    /// scheduler holds a request.
    fn dispatch(&mut self, now: Instant, queue: QueueId, cx: &mut Cx<'_>) -> Dispatch;

    /// Asked after `dispatch` said `Idle`, or `drain` nothing, until it answers `None`: a request that has waited
    /// apart from the others and is inserted again now (`open`, merging, `insert` at the tail). If there was one,
    /// `dispatch` or `drain` is asked once more.
    fn reinsert(&mut self, _now: Instant, _cx: &mut Cx<'_>) -> Option<ReqId> {
        None
    }

    /// After `dispatch` said `Idle`: would it be worth asking again after a while? `false`: the scheduler itself asks
    /// for a run when something has changed, so the stack adds no delayed rerun (the kernel asks `has_work` first).
    fn has_work(&self) -> bool {
        true
    }

    /// The device has served it. It is still in the table during the call.
    fn complete(&mut self, _now: Instant, _id: ReqId, _cx: &mut Cx<'_>) {}

    /// The device has served a request that took a scheduler tag and passed the scheduler by: a flush command, or the
    /// data step of a flush sequence. It is still in the table during the call.
    fn complete_bypassed(&mut self, _now: Instant, _id: ReqId, _cx: &mut Cx<'_>) {}

    /// A flush that a process asked for is over, and with it a request that took a scheduler tag and never went to the
    /// device itself: the commands that were sent for it are the stack's. It is still in the table during the call.
    fn complete_unsent(&mut self, _now: Instant, _id: ReqId, _cx: &mut Cx<'_>) {}

    /// The device gave it back unserved; `prepare` and `insert(At::Head)` follow.
    fn requeue(&mut self, _now: Instant, _id: ReqId, _cx: &mut Cx<'_>) {}

    /// Hands over everything, ignoring idling, batches and limits; called until it returns `None`.
    fn drain(&mut self, now: Instant, cx: &mut Cx<'_>) -> Option<ReqId> {
        match self.dispatch(now, QueueId(0), cx) {
            Dispatch::Issue(id) => Some(id),
            Dispatch::Idle | Dispatch::Empty => None,
        }
    }

    /// The largest request to build by splitting and merging, at most `limit`, the device's own, and at least
    /// one sector. Asked for each bio, so a change is for those that come later.
    fn max_sectors(&self, limit: Sectors) -> Sectors {
        limit
    }

    /// Whether `flush` is to be called: telling of flush commands costs a kernel something for every request.
    fn hears_flushes(&self) -> bool {
        false
    }

    /// Whether `depth_limit` may answer a read with a limit as things stand: where not, a kernel need not ask.
    fn limits_reads(&self, _cx: &Cx<'_>) -> bool {
        true
    }

    /// Whether what it decides depends on who asks: where not, a kernel need not find that out.
    fn knows_procs(&self) -> bool {
        true
    }

    /// A flush command of the stack itself, which no scheduler is asked for, goes to the device or is over
    /// (multi-queue profile, where `hears_flushes`).
    fn flush(&mut self, _now: Instant, _what: FlushCommand, _cx: &mut Cx<'_>) {}

    /// One of the `askers` that shared the flush command which is over now; after `FlushCommand::Ended`, unless the command
    /// failed (multi-queue profile).
    fn flushed(&mut self, _now: Instant, _id: ReqId, _askers: u32, _cx: &mut Cx<'_>) {}

    /// May this bio join that request, which passes the generic tests? Asked before the position is
    /// compared.
    fn may_merge(&mut self, _now: Instant, _io: &Io, _into: ReqId, _cx: &mut Cx<'_>) -> bool {
        true
    }

    /// The scheduler's own look-up: the front-merge candidate (`Search::Elevator`), or the whole search
    /// (`Search::Own`).
    fn find_merge(&mut self, _now: Instant, _io: &Io, _cx: &mut Cx<'_>) -> Option<(ReqId, Side)> {
        None
    }

    /// The request next to a queued one in the scheduler's order, for joining two requests.
    fn neighbour(&self, _id: ReqId, _side: Side, _cx: &Cx<'_>) -> Option<ReqId> {
        None
    }

    /// Something joined `kept`. For a bio the table already shows the new start and length; for a
    /// request both are still in the table as they were before the join.
    fn merged(&mut self, _now: Instant, _kept: ReqId, _what: Merged, _cx: &mut Cx<'_>) {}

    /// Which queue each process uses now, for a scheduler with queues of processes: what its trace would
    /// have told by "queue of process", and by merges and splits since, had it been on from the start.
    fn queues(&self, _sink: &mut dyn FnMut(QueueUse)) {}

    /// The weight that a process has by its priority among those of its class and group; `None`: none.
    fn weight_of(&self, _prio: IoPrio) -> Option<u64> {
        None
    }

    /// How the latency targets stand, for a scheduler that takes some: one call for each.
    fn targets(&self, _now: Instant, _cx: &Cx<'_>, _sink: &mut dyn FnMut(TargetState)) {}
}

/// The unit in which a scheduler divides the device among its queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// Requests, one by one or in batches; there are no queues of processes.
    Requests,
    /// Slots with a budget of sectors.
    Budgets,
    /// Slices of time.
    Slices,
}

/// Searcher for a request that a bio can join.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Search {
    /// One-hit cache, back-merge hash, then `find_merge` (specs/blk-mq-and-noop.md 3.3).
    Elevator,
    /// `find_merge` is the whole search (none, kyber).
    Own,
}

/// Facts for a constructor.
#[derive(Clone, Copy, Debug)]
pub struct Setup<'a> {
    /// The device.
    pub device: &'a Device,
    /// Number of request slots: the size of side tables.
    pub requests: usize,
    /// When the scheduler comes into force.
    pub now: Instant,
}

/// One line of the registry.
pub struct Entry {
    /// Facts that every stage has: name, tunables, files, figures.
    pub stage: StageInfo,
    /// Its usual surroundings.
    pub profile: Profile,
    /// Unit in which a queue is served before another is.
    pub service: Service,
    /// Searcher for merges.
    pub search: Search,
    /// Drained requests are sorted into the dispatch list (legacy noop and cfq).
    pub sorted: bool,
    /// No scheduler at all: driver tags, direct issue, software queues (`none`).
    pub direct: bool,
    /// The smallest share of a word of tags that `depth_limit` may leave to an I/O, in percent (rounded
    /// down to whole tags); 100: it sets no limit; `None`: a single tag. Decides how many waiters a
    /// freed tag wakes (specs/blk-mq-and-noop.md section 6). A scheduler that goes below what it says
    /// here makes the stack wake fewer at a time from then on.
    pub tag_percent_min: Option<u32>,
    /// The least scheduler tags it asks for where nothing is set (multi-queue profile): a scheduler that sees
    /// two requests cannot choose. 0: the device's usual number.
    pub tags_min: u32,
    /// Write-back throttling is off while it is in force, as Linux switches it off for BFQ.
    pub replaces_wbt: bool,
    /// Makes an instance with all tunables at their defaults. An entry made at run time, by `Box::leak`, takes along
    /// what it needs: a module, an object of another language.
    pub build: &'static (dyn Fn(&Setup<'_>) -> Box<dyn Scheduler> + Send + Sync),
}

impl Entry {
    /// Whether groups share by weights.
    pub fn weighs_groups(&self) -> bool {
        self.group_tunables.iter().any(|t| t.name == "weight")
    }
}

impl core::fmt::Debug for Entry {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Entry").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Fields of the stage are read as the entry's own: `entry.name`, `entry.tunables`.
impl core::ops::Deref for Entry {
    type Target = StageInfo;

    fn deref(&self) -> &StageInfo {
        &self.stage
    }
}

/// Instructions of a request under each scheduler, as `sched_cost --record` counted them: its table, as text.
pub static INSTRUCTIONS: &str = include_str!("../../benches/instructions.txt");

/// Every scheduler, in the order of listing.
pub static SCHEDULERS: &[&Entry] = &[
    &none::ENTRY,
    &noop::ENTRY,
    &deadline::ENTRY,
    &zoccolo::ENTRY,
    &mq_deadline::ENTRY,
    &cfq::ENTRY,
    &cfq::ENTRY_30,
    &cfq::ENTRY_32,
    &cfq::ENTRY_38,
    &bfq::ENTRY,
    &bfq::early::ENTRY_V1,
    &bfq::early::ENTRY_V4,
    &sio::ENTRY,
    &sio::ENTRY_1,
    &kyber::ENTRY,
    &adios::ENTRY,
    &k2::ENTRY,
    &paternoster::ENTRY,
];

/// Finds an entry by name.
pub fn find(name: &str) -> Option<&'static Entry> {
    SCHEDULERS.iter().copied().find(|e| e.name == name)
}

/// With it a module's core says which schedulers it has: their names follow, and a zero.
pub const CORE_OF: &str = "hoistway core of:";

/// What the kernel module calls a scheduler: those that the kernel has, or has as an alias, are `h-NAME` there, and a name
/// has at most 15 characters. `None`: it is not in the module.
pub fn module_name(entry: &Entry) -> Option<&'static str> {
    match entry.name {
        "none" => None,
        "mq-deadline" => Some("h-mq-deadline"),
        "bfq" => Some("h-bfq"),
        "kyber" => Some("h-kyber"),
        "deadline" => Some("h-deadline"),
        "deadline-zoccolo" => Some("zoccolo"),
        name => Some(name),
    }
}

/// The scheduler that the kernel module calls so.
pub fn of_module(name: &str) -> Option<&'static Entry> {
    SCHEDULERS.iter().copied().find(|e| module_name(e) == Some(name))
}

/// Why a scheduler that measurements were published of has no entry, and what to choose.
pub fn why_missing(name: &str) -> Option<&'static str> {
    matches!(name, "cfq-2.6.33" | "cfq-2.6.35").then_some(
        "no text tells its rules apart from those of its neighbours; choose cfq-2.6.32, cfq (2.6.34) or cfq-2.6.38",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bfq_and_its_releases_replace_write_back_throttling_and_nobody_else() {
        for entry in SCHEDULERS {
            let of_bfq = entry.name == "bfq" || entry.name.starts_with("bfq-v");
            assert_eq!(entry.replaces_wbt, of_bfq, "{}", entry.name);
            assert_eq!(entry.service == Service::Budgets, of_bfq, "{}", entry.name);
        }
    }
}
