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
mod lane;
mod measure;
mod media;
mod pairs;
mod report;
mod scatter;
mod strict;
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
use crate::unit::{Class, Instant, IoPrio, Nanos, QueueId, Sectors};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use answer::Notes;
use begin::{Begin, Lead};
use budget::Budget;
use disk::Disk;
use epoch::{Around, Done};
use fair::{Fair, LeafId};
use flush::{Flushes, SyncWrites};
use lane::{Target, TargetLane, Waiting};
use measure::{UNIT, Units};
use media::Media;
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
const ABOVE_PERCENT: u32 = 50;
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
    /// Requests in the drive.
    inside: u32,
    /// Greedy ones, in sixteenths of units.
    w: u64,
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
            inside: 0,
            w: 0,
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
    fn learn(&mut self, group: GroupId, cx: &Cx<'_>) {
        if self.fair.knows(group) {
            return;
        }
        let parent = cx.groups.parent(group).unwrap_or(GroupId::ROOT);
        self.learn(parent, cx);
        self.fair.add_group(group, parent);
        self.lane.add_group(group, parent);
        self.written.resize(group.index() + 1, WrittenWeight::NOTHING);
    }

    fn waiting(&self) -> u32 {
        self.fair.waiting() + self.lane.waiting() + self.returned.len() + self.syncs.list.len()
    }

    /// What a group with a weight of its own keeps a claim to while it is empty: so much work is inside at once.
    fn claim(&self) -> Units {
        if self.media.is_disk() { disk::CLAIM } else { (self.valve.k() * 8).min(CLAIM_MOST) }
    }

    fn around(&self) -> Around {
        let requests = self.waiting() + self.inside;
        Around { requests, service_least: self.lane.service_least }
    }

    fn goes_by_lane(&self, group: GroupId, prio: IoPrio) -> bool {
        prio.class() == Class::Rt || self.lane.target(group).is_some()
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

    /// A request of the lane has been in the drive.
    fn lane_completed(&mut self, now: Instant, s: &RequestSlot, r: &Request) {
        let units = u64::from(s.units);
        self.lane.completed(now, r.issued, s.arrived, r.group, units);
        let Some(t) = self.lane.target(r.group) else { return };
        let lone = s.lone.then(|| now.since(r.issued));
        self.notes.completed(now, t.owner, lone, s.thought, units);
        if let Target::Number(target) = t.target {
            let latency = now.since(s.arrived);
            self.strict.completed(now, latency, target, self.valve.k().0, self.valve.cut());
        }
    }

    fn spare(&self) -> u64 {
        self.budget.spare(self.valve.short().0)
    }

    fn issue_lane(&mut self, slot: u32, cx: &Cx<'_>) -> Dispatch {
        self.lane.remove(slot);
        let units = self.units_of(slot, cx);
        let leaf = self.slots[slot as usize].leaf;
        self.fair.charge(leaf, units, false);
        self.sent(slot, units, cx)
    }

    fn issue_greedy(&mut self, leaf: LeafId, chosen: bool, cx: &Cx<'_>) -> Dispatch {
        let slot = self.fair.head(leaf);
        self.fair.remove(&mut self.links, leaf, slot);
        let units = self.units_of(slot, cx);
        self.fair.charge(leaf, units, chosen);
        if chosen {
            (self.run_leaf, self.run_units) = (leaf, 0);
        }
        self.run_units += units;
        self.sent(slot, units, cx)
    }

    /// The request goes to the drive; it waits nowhere any more.
    fn sent(&mut self, slot: u32, units: u64, cx: &Cx<'_>) -> Dispatch {
        let s = &mut self.slots[slot as usize];
        (s.place, s.units, s.lone) = (SlotPlace::Inside, units as u32, self.inside == 0);
        let (id, lane, auto) = (s.id, s.lane, s.auto);
        let leaf = self.fair.leaf_mut(s.leaf);
        leaf.waiting -= 1;
        leaf.inside += 1;
        self.inside += 1;
        if lane {
            let greedy = self.fair.waiting() > 0;
            self.lane.issued(units, self.valve.change().0, greedy);
            self.lane_w += units;
            self.counts.lane += 1;
        } else {
            self.lane.greedy_issued(units);
            self.w += units;
            self.counts.greedy += 1;
        }
        let r = cx.requests.at(slot);
        if !lane {
            self.budget.pay(r.sectors, self.spare());
            if !(r.sync && r.op == Op::Write) {
                self.flushes.price.pay(Units(units));
            }
        } else if auto
            && self.fair.waiting() > 0
            && let Some(owner) = self.owner(slot, cx)
        {
            self.budget.take(owner, r.sectors, self.spare());
        }
        self.valve.issued(r.start, r.end(), Units(self.w));
        self.slots[slot as usize].far = self.media.sent(r.start, r.end());
        Dispatch::Issue(id)
    }

    fn issue_returned(&mut self, cx: &Cx<'_>) -> Option<Dispatch> {
        let slot = self.returned.pop_front(&mut self.links)?;
        let units = self.units_of(slot, cx);
        Some(self.sent(slot, units, cx))
    }

    /// The drive was served as a disk, or not: it is not what it was taken for.
    fn turn_if(&mut self, was_disk: bool, now: Instant, cx: &mut Cx<'_>) {
        if self.media.is_disk() == was_disk {
            return;
        }
        self.disk.reset();
        self.part_syncs();
        self.valve.restart(now);
        // A wait of the other kind is over.
        if self.waiting() > 0 {
            cx.run(QueueId(0));
        }
    }

    /// A request is in the drive no longer.
    fn left(&mut self, now: Instant, id: ReqId) -> Option<RequestSlot> {
        let s = self.slots[id.index()];
        if s.id != id || s.place != SlotPlace::Inside {
            return None;
        }
        self.slots[id.index()].place = SlotPlace::Nowhere;
        self.inside -= 1;
        let of = if s.lane { &mut self.lane_w } else { &mut self.w };
        *of -= u64::from(s.units);
        self.fair.leaf_mut(s.leaf).left(now);
        Some(s)
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
        let r = &cx.requests[id];
        let (proc, group, sync, prio) = (r.proc, r.group, r.sync, r.prio);
        self.learn(group, cx);
        if self.waiting() == 0 && self.inside == 0 {
            self.valve.resumed(now);
        }
        let leaf_id = self.fair.leaf_of(proc, group, sync);
        let r = &cx.requests[id];
        let leaf = self.fair.leaf_mut(leaf_id);
        leaf.sync_write = sync && r.op != Op::Read;
        let lead = self.leads(now, leaf_id, group, cx.device.queue_depth);
        let lane = lead.is_some() || self.goes_by_lane(group, prio);
        let leaf = self.fair.leaf_mut(leaf_id);
        leaf.arrives(now, r.start, r.end());
        let thought = leaf.thought;
        let target = self.lane.target(group).map(|t| t.target);
        let number = lead.is_none() && matches!(target, Some(Target::Number(_)));
        // The real-time class and who has just begun owe nothing, whatever their group wants.
        let auto = target == Some(Target::Auto) && lead.is_none() && prio.class() != Class::Rt;
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
            (At::Tail, false) if self.joins(leaf_id) => SlotPlace::Syncs,
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
            far: false,
            lone: false,
            units: 0,
            arrived,
            thought,
        };
        match place {
            SlotPlace::Returned => self.returned.push_front(&mut self.links, slot),
            SlotPlace::Lane => {
                if lead.is_none() {
                    self.valve.see_lane(self.around());
                }
                self.lane.push(slot, arrived, group);
            }
            SlotPlace::Syncs => self.syncs.list.push_back(&mut self.links, slot),
            _ => self.fair.push(&mut self.links, leaf_id, slot),
        }
        Run::Usual
    }

    fn dispatch(&mut self, now: Instant, _queue: QueueId, cx: &mut Cx<'_>) -> Dispatch {
        if self.waiting() == 0 {
            return Dispatch::Empty;
        }
        if let Some(answer) = self.issue_returned(cx) {
            return answer;
        }
        if self.media.is_disk() {
            self.dispatch_disk(now, cx)
        } else {
            self.dispatch_flash(now, cx)
        }
    }

    fn drain(&mut self, _now: Instant, cx: &mut Cx<'_>) -> Option<ReqId> {
        let first = self.issue_returned(cx).or_else(|| self.issue_sync(cx));
        let answer = first.or_else(|| match self.lane.first() {
            Some(slot) => Some(self.issue_lane(slot, cx)),
            None => self.fair.smallest().map(|leaf| self.issue_greedy(leaf, true, cx)),
        });
        match answer? {
            Dispatch::Issue(id) => Some(id),
            Dispatch::Idle | Dispatch::Empty => None,
        }
    }

    fn complete(&mut self, now: Instant, id: ReqId, cx: &mut Cx<'_>) {
        let Some(s) = self.left(now, id) else { return };
        let r = &cx.requests[id];
        let (issued, queue, units) = (r.issued, r.queue, u64::from(s.units));
        let data = matches!(r.op, Op::Read | Op::Write);
        let sectors = if data { r.sectors } else { Sectors(0) };
        self.notes.serve(units);
        self.flushes.price.served(now, Units(units));
        self.fair.claim = self.claim();
        if s.lane {
            self.lane_completed(now, &s, r);
        }
        let far = (s.far && r.op == Op::Read).then_some((r.start, r.sectors));
        let took = now.since(self.completed.max(issued));
        self.completed = now;
        let leaf = self.fair.leaf_mut(s.leaf);
        leaf.drive_time = Nanos(leaf.drive_time.0.saturating_add(took.0));
        if let Some(lead) = s.lead {
            let idle = leaf.is_idle();
            self.begin.completed(now, lead, idle);
        }
        if self.media.is_disk() {
            self.completed_disk(took, &s);
        } else {
            let done = Done { sectors, units: Units(units), cuttable: data && !s.lane };
            let around = self.around();
            if self.strict.binds() {
                // What is given away for a target says nothing about the drive.
                self.strict.moved(now, sectors);
                self.valve.resumed_after_limit(now);
            } else {
                self.valve.completed(now, done, around);
            }
        }
        self.fair.release_if_idle(s.leaf);
        let was = self.media.is_disk();
        self.media.completed(now, issued, far);
        self.turn_if(was, now, cx);
        if self.waiting() > 0 {
            cx.run(queue);
        }
    }

    fn requeue(&mut self, now: Instant, id: ReqId, _cx: &mut Cx<'_>) {
        let Some(s) = self.left(now, id) else { return };
        self.lane.inside -= u32::from(s.lane);
        if let Some(lead) = s.lead {
            self.begin.withdrawn(now, lead);
        }
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
        let price = if self.media.is_disk() {
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
