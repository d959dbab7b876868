//! `paternoster`: shares and latency targets without loss of throughput.
//!
//! *Problem.* A drive that is saturated by k units of greedy work does not go faster with 10 k units inside; it only
//! gets slower for everybody. What makes a target wait on flash is not the order in which requests are handed over
//! but how much is already inside, and how large the largest piece is. Idling gives a good latency and most of the
//! throughput away, throttling both.
//!
//! *Idea.* A *valve* (units of greedy work inside) and a *cut* (largest greedy request) stand before the drive and
//! are kept at the knee: the smallest values at which it still delivers all but `loss` of what it delivers with both
//! wide open (`valve.rs`). Behind the valve start-time fair queueing gives shares (`fair.rs`). Requests of groups
//! with a latency target go past it (`lane.rs`). What a change of stream costs is measured, and switches rows on and
//! pays for what targets cost. Behind a flush, writers may be held for a moment (`flush.rs`). Disks are served in
//! slices of time (`disk.rs`). Processes that have just begun go first for a bounded time (`begin.rs`).
//!
//! *State.* What waits: a FIFO per leaf (process, group, sync or async), a tree by deadline for the lane. What is
//! inside: `w` greedy units, `lane.inside` requests of the lane.
//!
//! *Rule.* The lane goes first unless it is paced or over its part; then the greedy request with the smallest tags, if
//! it fits into the valve or nothing greedy is inside. A completion asks again.
//!
//! *Guarantees.* The wait of a target in a drive that serves in order of arrival is at most `(k + u_max) / R` plus its
//! lone latency; the throughput at least `(1 - loss)` of the uncut ceiling as last measured; shares within
//! `(u_max + row) (1/w_i + 1/w_j)`. While greedy requests wait and nothing is inside, one is sent: what waits is held
//! for a time only (sync writes behind a flush, the lane while paced, anticipation on disks), and each wait has a timer.
//!
//! *Weaknesses.* Epochs that measure the ceiling let the drive fill up. Drives that serve a megabyte of one stream
//! before anything else hide the knee. Loads that change within ten milliseconds are averages here.
//!
//! Source: specs/paternoster.md.

mod answer;
mod begin;
mod budget;
mod disk;
mod epoch;
mod fair;
mod flash;
mod flush;
mod issue;
mod lane;
mod measure;
mod media;
mod report;
mod strict;
mod tournament;
mod tunables;
mod valve;

use super::{
    At, Depth, Dispatch, Entry, FlushCommand, Merged, Run, Scheduler, Search, Service, Setup,
};
use crate::device::Profile;
use crate::env::Cx;
use crate::group::GroupId;
use crate::knob::KnobError;
use crate::list::{Links, List};
use crate::request::{Io, Op, ReqId, Request};
use crate::rows::{Id, Rows};
use crate::setting::TunableError;
use crate::stage::{Change, Figure, Gauge, Stage, StageInfo};
use crate::table::{Handle, NIL};
use crate::target::TargetState;
use crate::unit::{Instant, IoPrio, Nanos, QueueId, Sectors};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use answer::Notes;
use begin::{Begin, Lead};
use budget::Budget;
use disk::Disk;
use epoch::{Around, Done, Passage};
use fair::{Fair, LeafId};
use flush::{Flushes, SyncWrites};
use issue::Next;
use lane::{InForce, Target, TargetLane, Waiting};
use measure::{UNIT, Units};
use media::{Media, MediaRead};
use strict::Strict;
use tunables::{GROUP_TUNABLES, KNOBS, SETTINGS, TUNABLES, WrittenWeight};
use valve::Valve;

/// The registry entry.
pub static ENTRY: Entry = Entry {
    stage: StageInfo {
        name: "paternoster",
        summary: "shares and latency targets at the knee of the drive, without loss of throughput",
        source: "specs/paternoster.md",
        tunables: &TUNABLES,
        group_tunables: GROUP_TUNABLES,
        knobs: KNOBS,
        figures: report::FIGURES,
        decisions: &[],
    },
    profile: Profile::MultiQueue,
    service: Service::Requests,
    search: Search::Elevator,
    sorted: false,
    direct: false,
    tag_percent_min: Some(ABOVE_PERCENT),
    tags_min: TAGS,
    replaces_wbt: false,
    build: &|setup| Box::new(Paternoster::new(setup)),
};

/// Scheduler tags at the least: a USB stick has two by default, and who sees two requests cannot choose; with 64 of
/// them, 48 for greedy work, sixteen random readers wait for a tag first come first served, whatever their weights.
/// Not more: uncut requests in 256 tags made each change of the cut slow (specs/paternoster.md 2).
const TAGS: u32 = 128;
/// Of the tags, what greedy requests may hold. Without the reserve targets wait for a tag: 4.5 times the latency of
/// buffered writes (specs/paternoster.md 11). So did start-ups beside writers: a minute instead of seven seconds.
const GREEDY_PERCENT: u32 = 75;
/// The same for a process that holds more than its part.
const ABOVE_PERCENT: u32 = 25;
/// Rows of async requests when rows are on: nobody waits for them, and media with few open units want 4 MiB.
const ASYNC_ROW: u64 = 512 * UNIT;

/// A claim is eight valves, and no more than this: an open valve says nothing about the drive.
const CLAIM_MOST: Units = Units::whole(2048);

/// So many requests of the lane behind one that is held are looked at.
const LOOK_BEHIND: usize = 16;

/// Where a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SlotPlace {
    Nowhere,
    /// In the FIFO of its leaf.
    Greedy,
    Lane,
    /// Given back by the device; goes before everything.
    Returned,
    /// A sync write that waits until flushes are paid for.
    Syncs,
    Inside,
}

/// Facts about the request in one slot.
#[derive(Clone, Copy, Debug)]
struct RequestSlot {
    id: ReqId,
    leaf: LeafId,
    place: SlotPlace,
    lane: bool,
    /// Of a process that has just begun.
    lead: Option<Lead>,
    /// Its target has a number.
    number: bool,
    /// It went far from the one sent before.
    far: bool,
    /// Nothing else was inside when it was sent.
    lone: bool,
    /// Its target has none: it owes the others what it moves.
    auto: bool,
    /// A greedy sync write.
    sync_write: bool,
    /// As charged at dispatch.
    units: u32,
    arrived: Instant,
    thought: Nanos,
}

/// The scheduler.
#[derive(Debug)]
pub struct Paternoster {
    media: Media,
    written: Rows<GroupId, WrittenWeight>,
    links: Links,
    slots: Vec<RequestSlot>,
    returned: List,
    syncs: SyncWrites,
    fair: Fair,
    lane: TargetLane,
    valve: Valve,
    flushes: Flushes,
    disk: Disk,
    strict: Strict,
    notes: Notes,
    begin: Begin,
    /// The last completion, of a request or a flush.
    completed: Instant,
    budget: Budget,
    /// Requests that wait, wherever.
    waiting: u32,
    /// Requests in the drive.
    inside: u32,
    /// Greedy ones, in sixteenths of units.
    w: u64,
    /// Of these, sync writes.
    sync_w: u64,
    /// Those of the lane.
    lane_w: u64,
    /// The leaf whose row goes on, and its length so far.
    run_leaf: LeafId,
    run_units: u64,
    /// Something waits for time until then.
    wake: Option<Instant>,
    counts: report::SentCounts,
}

impl Paternoster {
    fn new(setup: &Setup<'_>) -> Paternoster {
        let vacant = RequestSlot {
            id: ReqId(Handle { slot: NIL, generation: 0 }),
            leaf: LeafId::NONE,
            place: SlotPlace::Nowhere,
            lane: false,
            lead: None,
            number: false,
            far: false,
            lone: false,
            auto: false,
            sync_write: false,
            units: 0,
            arrived: Instant::ZERO,
            thought: Nanos::ZERO,
        };
        let mut p = Paternoster {
            media: Media::new(setup.device.rotational),
            written: Rows::from(vec![WrittenWeight::NOTHING]),
            links: Links::new(setup.requests),
            slots: vec![vacant; setup.requests],
            returned: List::new(),
            syncs: SyncWrites::new(),
            fair: Fair::new(),
            lane: TargetLane::new(setup.requests),
            valve: Valve::new(setup.now),
            flushes: Flushes::default(),
            disk: Disk::default(),
            strict: Strict::default(),
            notes: Notes::default(),
            begin: Begin::new(setup.now),
            completed: setup.now,
            budget: Budget::new(),
            waiting: 0,
            inside: 0,
            w: 0,
            sync_w: 0,
            lane_w: 0,
            run_leaf: LeafId::NONE,
            run_units: 0,
            wake: None,
            counts: report::SentCounts::default(),
        };
        SETTINGS.apply_defaults(&mut p);
        p
    }

    /// Makes room for a group and those above it.
    #[inline]
    fn learn(&mut self, group: GroupId, cx: &Cx<'_>) {
        if !self.fair.knows(group) {
            self.learn_new(group, cx);
        }
    }

    /// Groups are learnt in the order they were made: who comes to be known as a gap between others has its parent too.
    #[cold]
    fn learn_new(&mut self, group: GroupId, cx: &Cx<'_>) {
        while !self.fair.knows(group) {
            let next = self.fair.next_group();
            let parent = cx.groups.parent(next).unwrap_or(GroupId::ROOT);
            debug_assert!(self.fair.knows(parent), "{parent:?} was made before {next:?}");
            self.fair.add_group(next, parent);
            self.lane.add_group(next, parent);
        }
        self.written.resize(group.index() + 1, WrittenWeight::NOTHING);
    }

    /// `waiting`, counted anew.
    fn count_waiting(&self) -> u32 {
        self.fair.waiting() + self.lane.waiting() + self.returned.len() + self.syncs.list.len()
    }

    /// What a group with a weight of its own keeps a claim to while it is empty: so much work is inside at once.
    fn claim(&self) -> Units {
        if self.media.is_disk() { disk::CLAIM } else { (self.valve.k() * 8).min(CLAIM_MOST) }
    }

    fn around(&self) -> Around {
        let requests = self.waiting + self.inside;
        Around { requests, inside: self.inside, service_least: self.lane.service_least }
    }

    fn goes_by_lane(&self, group: GroupId, prio: IoPrio) -> bool {
        prio.is_rt() || self.lane.target(group).is_some()
    }

    /// Units of the request in that slot, in sixteenths: one for the command and one for each 8 KiB.
    fn units_of(&self, slot: u32, cx: &Cx<'_>) -> u64 {
        units(cx.requests.at(slot))
    }

    fn waiting_of(&self, slot: u32) -> Waiting {
        let s = &self.slots[slot as usize];
        let thought = s.thought.max(self.fair.leaf(s.leaf).rest);
        Waiting { arrived: s.arrived, thought, number: s.number }
    }

    /// The queue is to be asked again at that time at the latest.
    fn wake_by(&mut self, at: Instant) {
        self.wake = Some(self.wake.map_or(at, |old| old.min(at)));
    }

    /// A request of the lane has been in the drive which the target was in force for.
    #[inline(never)]
    fn target_completed(&mut self, now: Instant, of: InForce, r: &Request) {
        let s = &self.slots[r.id.index()];
        let (units, latency) = (u64::from(s.units), now.since(s.arrived));
        let lone = s.lone.then(|| now.since(r.issued));
        self.notes.completed(now, of.owner, lone, s.thought, units);
        self.lane.served(now, s.arrived, of.owner, units);
        if let Target::Number(target) = of.target {
            self.strict.completed(now, latency, target, self.valve.k().0, self.valve.cut());
        }
    }

    /// The drive was served as a disk, or not: it is not what it was taken for.
    #[inline]
    fn turn_if(&mut self, was_disk: bool, now: Instant, cx: &mut Cx<'_>) {
        if self.media.is_disk() != was_disk {
            self.turn(now, cx);
        }
    }

    #[cold]
    fn turn(&mut self, now: Instant, cx: &mut Cx<'_>) {
        self.disk.reset();
        self.part_syncs();
        self.valve.restart(now);
        // A wait of the other kind is over.
        if self.waiting > 0 {
            cx.run(QueueId(0));
        }
    }

    /// A request is in the drive no longer.
    #[inline]
    fn left(&mut self, id: ReqId) -> Option<RequestSlot> {
        let s = &mut self.slots[id.index()];
        if s.id != id || s.place != SlotPlace::Inside {
            return None;
        }
        s.place = SlotPlace::Nowhere;
        self.inside -= 1;
        let of = if s.lane { &mut self.lane_w } else { &mut self.w };
        *of -= u64::from(s.units);
        if s.sync_write {
            self.sync_w -= u64::from(s.units);
        }
        Some(*s)
    }

    /// Flash that serves one request at a time: what each takes is known, and is the service.
    #[inline]
    fn is_serial(&self, cx: &Cx<'_>) -> bool {
        cx.device.queue_depth == 1 && !self.media.is_disk()
    }

    /// What a request of flash says about the valve.
    #[inline]
    fn completed_flash(&mut self, now: Instant, done: Done) {
        if self.strict.binds() {
            // What is given away for a target says nothing about the drive.
            self.strict.moved(now, done.sectors);
            self.valve.resumed_after_limit(now);
        } else if self.begin.stops_others(now) || self.flushes.price.looks(now).is_some() {
            self.valve.resumed_after_limit(now);
        } else {
            self.valve.completed(now, done, self.around());
        }
    }
}

/// In sixteenths: a unit for the command and one for each 8 KiB, which are 16 sectors. What moves no data is one.
fn units(r: &Request) -> u64 {
    match r.op {
        Op::Read | Op::Write => UNIT + r.sectors.0,
        Op::Discard | Op::Flush | Op::WriteZeroes => UNIT,
    }
}

impl Scheduler for Paternoster {
    fn depth_limit(&mut self, now: Instant, io: &Io, cx: &mut Cx<'_>) -> Depth {
        let leaf = self.fair.known_leaf(io.proc, io.group, cx.device.is_sync(io.op, io.flags));
        if let Some(leaf) = leaf {
            self.fair.leaf_mut(leaf).asks(now);
        }
        let tags = cx.device.queue_depth;
        if self.goes_by_lane(io.group, io.prio) || self.would_lead(now, io, leaf, tags) {
            return Depth::Usual;
        }
        // Who has more than its part leaves the last ones to the others: who waits for a tag is not chosen, whatever its
        // weight.
        let greedy = cx.device.nr_requests * GREEDY_PERCENT / 100;
        let above = leaf.is_some_and(|leaf| self.fair.is_above(leaf, greedy));
        let percent = if above { ABOVE_PERCENT } else { GREEDY_PERCENT };
        Depth::Word((cx.device.tag_word() * percent / 100).max(1))
    }

    fn max_sectors(&self, limit: Sectors) -> Sectors {
        if self.media.is_disk() { limit } else { limit.min(self.strict.cut(self.valve.cut())) }
    }

    fn insert(&mut self, now: Instant, id: ReqId, at: At, cx: &mut Cx<'_>) -> Run {
        let requests = cx.requests;
        let r = &requests[id];
        self.learn(r.group, cx);
        if self.waiting == 0 && self.inside == 0 {
            self.valve.resumed(now);
        }
        let leaf_id = self.fair.leaf_of(r.proc, r.group, r.sync);
        self.fair.leaf_mut(leaf_id).sync_write = r.sync && r.op != Op::Read;
        let lead = self.leads(now, leaf_id, r, cx.device.queue_depth);
        let target = self.lane.target(r.group).map(|t| t.target);
        let real_time = r.prio.is_rt();
        let lane = lead.is_some() || real_time || target.is_some();
        // The real-time class and who has just begun owe nothing, whatever their group wants.
        let (number, auto) = match target {
            None => (false, false),
            Some(Target::Number(_)) => (lead.is_none(), false),
            Some(Target::Auto) => (false, lead.is_none() && !real_time),
        };
        let leaf = self.fair.leaf_mut(leaf_id);
        leaf.arrives(now, r.start, r.end());
        let thought = leaf.thought;
        if let Some(lead) = lead {
            self.begin.arrived(now, leaf_id, lead);
        }
        if number {
            self.valve.see_number();
        }
        let slot = id.slot();
        let place = match (at, lane) {
            (At::Head, _) => SlotPlace::Returned,
            (At::Tail, true) => SlotPlace::Lane,
            (At::Tail, false) if self.joins(now, leaf_id) => SlotPlace::Syncs,
            (At::Tail, false) => SlotPlace::Greedy,
        };
        let arrived = r.alloc;
        self.slots[id.index()] = RequestSlot {
            id,
            leaf: leaf_id,
            place,
            lane,
            lead,
            number,
            auto,
            sync_write: !lane && r.sync && r.op == Op::Write,
            far: false,
            lone: false,
            units: 0,
            arrived,
            thought,
        };
        match place {
            SlotPlace::Returned => self.returned.push_front(&mut self.links, slot),
            SlotPlace::Lane => {
                if target.is_some() || real_time {
                    self.valve.see_lane(self.around());
                }
                self.lane.push(slot, arrived, target);
            }
            SlotPlace::Syncs => self.syncs.list.push_back(&mut self.links, slot),
            _ => self.fair.push(&mut self.links, leaf_id, slot),
        }
        self.waiting += 1;
        Run::Usual
    }

    fn dispatch(&mut self, now: Instant, _queue: QueueId, cx: &mut Cx<'_>) -> Dispatch {
        debug_assert_eq!(self.waiting, self.count_waiting());
        if self.waiting == 0 {
            return Dispatch::Empty;
        }
        let next = if !self.returned.is_empty() {
            Some(Next::Returned)
        } else if self.media.is_disk() {
            self.next_of_disk(now, cx)
        } else {
            self.next_of_flash(now, cx)
        };
        match next {
            Some(next) => Dispatch::Issue(self.issue(next, cx)),
            None => Dispatch::Idle,
        }
    }

    fn drain(&mut self, _now: Instant, cx: &mut Cx<'_>) -> Option<ReqId> {
        let next = if !self.returned.is_empty() {
            Next::Returned
        } else if !self.syncs.list.is_empty() {
            Next::Sync
        } else if let Some(slot) = self.lane.first() {
            Next::Lane(slot)
        } else {
            let (requests, leaf) = (cx.requests, self.fair.smallest()?);
            Next::Greedy { leaf, r: requests.at(self.fair.head(leaf)), chosen: true }
        };
        Some(self.issue(next, cx))
    }

    fn complete(&mut self, now: Instant, id: ReqId, cx: &mut Cx<'_>) {
        let Some(s) = self.left(id) else { return };
        let requests = cx.requests;
        let r = &requests[id];
        let units = Units(s.units.into());
        self.notes.serve(units.0);
        self.flushes.price.served(now, units, !s.lane && !s.sync_write);
        self.fair.claim = self.claim();
        if s.lane {
            self.lane.completed(now, r.issued);
            if let Some(of) = self.lane.target(r.group) {
                self.target_completed(now, of, r);
            }
        }
        let took = now.since(self.completed.max(r.issued));
        self.completed = now;
        let leaf = self.fair.leaf_mut(s.leaf);
        leaf.left(now);
        leaf.drive_time = Nanos(leaf.drive_time.0.saturating_add(took.0));
        if let Some(lead) = s.lead {
            let idle = leaf.is_idle();
            self.begin.completed(now, lead, idle);
        }
        if self.media.is_disk() {
            self.completed_disk(took, id.slot());
        } else {
            let data = matches!(r.op, Op::Read | Op::Write);
            let sectors = if data { r.sectors } else { Sectors(0) };
            let passage = match data && !s.lane {
                false => Passage::Past,
                true if s.sync_write => Passage::SyncWrite,
                true => Passage::Greedy,
            };
            self.completed_flash(now, Done { sectors, units, passage });
            if self.is_serial(cx) {
                self.completed_serial(took, id, cx);
            }
        }
        self.fair.release_if_idle(s.leaf);
        if self.media.asks() {
            let was = self.media.is_disk();
            let read = MediaRead {
                start: r.start,
                sectors: r.sectors,
                far: s.far,
                lane: s.lane || s.lead.is_some(),
                beside: self.inside,
            };
            self.media.completed(now, r.issued, (r.op == Op::Read).then_some(read));
            self.turn_if(was, now, cx);
        }
        if self.waiting > 0 {
            cx.run(r.queue);
        }
    }

    fn requeue(&mut self, now: Instant, id: ReqId, _cx: &mut Cx<'_>) {
        let Some(s) = self.left(id) else { return };
        self.fair.leaf_mut(s.leaf).left(now);
        self.lane.inside -= u32::from(s.lane);
        if let Some(lead) = s.lead {
            self.begin.withdrawn(now, lead);
        }
    }

    fn hears_flushes(&self) -> bool {
        true
    }

    fn flush(&mut self, now: Instant, what: FlushCommand, cx: &mut Cx<'_>) {
        match what {
            FlushCommand::Began => {
                self.flushes.began(now);
                self.valve.flush_began(now);
            }
            FlushCommand::Ended => {
                self.valve.flush_ended(now);
                let exclusive = cx.device.flush_nonqueued;
                let lane = &self.lane;
                self.flushes.ended(
                    now,
                    self.completed,
                    exclusive,
                    (lane.active, lane.service_least),
                );
                // Its time is that of its askers, not of whoever completes next.
                self.completed = now;
            }
        }
    }

    /// The askers pay for the flush, each the same.
    fn flushed(&mut self, _now: Instant, id: ReqId, askers: u32, cx: &mut Cx<'_>) {
        let r = &cx.requests[id];
        let (proc, group) = (r.proc, r.group);
        self.learn(group, cx);
        let leaf = match self.fair.known_leaf(proc, group, true) {
            Some(leaf) => leaf,
            // Who has gone or moved away takes its debt along.
            None if cx.procs.get(proc).is_some_and(|p| !p.alive || p.group != group) => return,
            None => self.fair.leaf_of(proc, group, true),
        };
        let price = if self.media.is_disk() || self.is_serial(cx) {
            Units(disk::service(self.flushes.alone) / u64::from(askers.max(1)))
        } else {
            self.flushes.price.each(askers)
        };
        if !self.fair.is_weighted(leaf) {
            self.flushes.price.owe(price);
        }
        self.fair.charge(leaf, price.0, false);
        self.fair.release_if_idle(leaf);
    }

    fn targets(&self, now: Instant, _cx: &Cx<'_>, sink: &mut dyn FnMut(TargetState)) {
        self.answers(now, sink);
    }

    /// Completions and the timer ask for a run; between them asking again would find nothing new.
    fn has_work(&self) -> bool {
        false
    }

    fn merged(&mut self, now: Instant, kept: ReqId, what: Merged, cx: &mut Cx<'_>) {
        let k = self.slots[kept.index()];
        if k.id == kept && k.place != SlotPlace::Nowhere {
            let r = &cx.requests[kept];
            self.fair.leaf_mut(k.leaf).extended(r.start, r.end());
        }
        let Merged::Request(gone) = what else { return };
        let s = self.slots[gone.index()];
        // One that was absorbed before its insertion waits nowhere.
        if s.id != gone {
            return;
        }
        match s.place {
            SlotPlace::Greedy => self.fair.remove(&mut self.links, s.leaf, gone.slot()),
            SlotPlace::Lane => self.lane.remove(gone.slot()),
            SlotPlace::Returned => self.returned.remove(&mut self.links, gone.slot()),
            SlotPlace::Syncs => {
                // Whoever is counted as going may be the one that is gone.
                self.syncs.list.remove(&mut self.links, gone.slot());
                self.syncs.going = self.syncs.going.min(self.syncs.list.len());
            }
            SlotPlace::Nowhere | SlotPlace::Inside => return,
        }
        self.slots[gone.index()].place = SlotPlace::Nowhere;
        self.waiting -= 1;
        if let Some(lead) = s.lead {
            self.begin.withdrawn(now, lead);
        }
        self.fair.leaf_mut(s.leaf).waiting -= 1;
        self.fair.release_if_idle(s.leaf);
    }

    /// A request that the device gave back is on its way: nothing joins it.
    fn may_merge(&mut self, _now: Instant, _io: &Io, into: ReqId, _cx: &mut Cx<'_>) -> bool {
        self.slots[into.index()].place != SlotPlace::Returned
    }
}

impl Stage for Paternoster {
    fn info(&self) -> &'static StageInfo {
        &ENTRY.stage
    }

    fn set(
        &mut self,
        now: Instant,
        name: &str,
        value: u64,
        cx: &mut Cx<'_>,
    ) -> Result<(), TunableError> {
        let was = self.media.is_disk();
        SETTINGS.set(self, name, value)?;
        self.turn_if(was, now, cx);
        Ok(())
    }

    fn value(&self, name: &str) -> Option<u64> {
        SETTINGS.value(self, name)
    }

    fn set_group(
        &mut self,
        _now: Instant,
        group: GroupId,
        name: &str,
        value: Option<u64>,
        cx: &mut Cx<'_>,
    ) -> Result<(), TunableError> {
        self.set_group_weight(group, name, value, cx)
    }

    fn write_knob(
        &mut self,
        now: Instant,
        group: GroupId,
        file: &str,
        line: &str,
        cx: &mut Cx<'_>,
    ) -> Result<(), KnobError> {
        self.write_file(now, group, file, line, cx)
    }

    fn read_knob(&self, group: GroupId, file: &str, cx: &Cx<'_>, out: &mut String) {
        self.read_file(group, file, cx, out);
    }

    fn changed(&mut self, now: Instant, change: &Change, cx: &mut Cx<'_>) {
        match *change {
            Change::GroupAdded(group) => self.learn(group, cx),
            Change::GroupRemoved(group) => {
                self.fair.group_gone(group);
                self.lane.group_gone(group);
                self.notes.reset(now, group, false);
                self.strict.release();
            }
            Change::ProcMoved { proc, from, .. } => self.fair.proc_gone(proc, Some(from)),
            Change::ProcExited(proc) => self.fair.proc_gone(proc, None),
            Change::Device => {
                let was = self.media.is_disk();
                self.media.says(cx.device.rotational);
                self.turn_if(was, now, cx);
            }
            _ => {}
        }
    }

    fn timer(&mut self, now: Instant, cx: &mut Cx<'_>) {
        if self.wake.is_some_and(|at| at <= now) {
            self.wake = None;
            if self.flushes.hold(now).is_none() {
                self.flushes.release();
            }
            cx.run(QueueId(0));
        }
    }

    fn next_timer(&self) -> Option<Instant> {
        self.wake
    }

    fn gauges(&self, _now: Instant, _cx: &Cx<'_>, sink: &mut dyn FnMut(Gauge)) {
        self.report_gauges(sink);
    }

    fn figures(&self, sink: &mut dyn FnMut(Figure)) {
        self.report_figures(sink);
    }
}

#[cfg(test)]
mod tests;
