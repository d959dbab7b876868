//! `io.max`: limits on bytes and I/Os per second for groups of a tree, as in Linux 6.1.
//!
//! # The problem and the idea
//!
//! A group is not to get more than a rate, whatever the drive could do. Per node and direction there is
//! a limit on bytes and one on I/Os; an I/O must pass its own group and every ancestor below the root,
//! bottom up. Nothing is lent: an idle drive does not lift a limit, an idle group saves up nothing.
//!
//! # Time slices
//!
//! Time is counted in ticks, rates are enforced on slices of 100 ms. A slice that began `e` ticks ago
//! has allowed
//!
//! ```text
//!   a = floor(rate * roundup(e, slice) / HZ)       (roundup(0) is a slice: a burst at its start)
//! ```
//!
//! An I/O passes if what passed in the slice and itself are not above `a`; else it waits in its node,
//! FIFO per direction, until enough time has passed. Whole slices that are over are cut off the front
//! with what they allowed. A slice ends when nothing happened for one to two slices; the next starts
//! with nothing used and nothing saved.
//!
//! # The tree
//!
//! Held I/O waits in the lowest node that it could not pass. Each parent keeps its waiting children in a
//! tree by `due`, the tick at which the first of their heads may pass, and one timer. The timer lets due
//! children pass up to 6 reads and 2 writes in turn, up to 32 I/Os per pass; what passes queues at the
//! parent like an own I/O of it, each child a source of its own, sources served in turn. What passes a
//! child of the root leaves as one batch of a worker thread, reads first.
//!
//! # Guarantee
//!
//! What a node passes in a window of L ticks is at most one I/O, whatever its size, and behind it
//!
//! ```text
//!   rate * (L + 2 * slice) / HZ
//! ```
//!
//! The one may have waited for as long as it is large. When it passes, the whole slices it waited are
//! cut off, so the slice in force began less than a slice ago, and what passes at the window's end may
//! use the slice begun there. A slice that runs out takes at least a slice of time without any I/O with
//! it, which pays for the burst of the next. A node whose slice begins with an I/O handed up from below
//! takes over the start of the child's slice; the first I/O uses that up, and is one more "one I/O".
//! (`tests/bounds.rs`.)
//!
//! # Cost
//!
//! O(depth) per I/O that passes at once; a held one costs a tree step per level and pass besides. A
//! write to `io.max` visits the subtree of the group, to mark which groups have a limit above them.
//! Groups without one cost a byte and one look.
//!
//! # Weaknesses
//!
//! Waits are whole slices for I/O rates; bursts at slice starts; no priorities: meta, swap and journal
//! I/O waits like any other, so an fsync can wait behind a throttled group's writes; I/Os count before
//! merging.
//!
//! Sources: specs/io-max-throttling.md A; specs/groups-and-priorities.md 1.1, 5, 6.3.

mod knob;
mod low;
mod queue;
mod slice;
mod tables;
#[cfg(test)]
mod tests;
mod timers;

use super::{Controller, Entry, Gate, TickTimers, Verdict};
use crate::device::Device;
use crate::env::Cx;
use crate::group::GroupId;
use crate::knob::KnobError;
use crate::request::{BioId, Dir, Op, ReqId};
use crate::setting::{self, Settings, TunableError};
use crate::stage::{Change, Figure, Gauge, Stage, StageInfo};
use crate::table::NIL;
use crate::tree::{Nodes, Tree};
use crate::unit::{Instant, Nanos};
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use knob::DirRates;
use low::Low;
use queue::{HeldBio, Source, SourceQueues};
use slice::{BPS_MAX, DirLane, IOPS_MAX, Limit, Rate, Size, SliceClock};
pub use tables::{ENTRY, ENTRY_LOW};
use tables::{
    GROUP_TUNABLES, KNOB, KNOB_LOW, MaxConf, MaxEffect, SETTINGS, SETTINGS_LOW, SLICE_ROTATIONAL,
    group_default,
};
use timers::Timers;

/// Which limits there are on the path from a group to the root.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct LimitsOnPath(u8);

impl LimitsOnPath {
    fn of(limits: [Rate; 2]) -> LimitsOnPath {
        let mut rules = 0;
        for (dir, rate) in limits.iter().enumerate() {
            rules |= u8::from(rate.bps != BPS_MAX) << (2 * dir);
            rules |= u8::from(rate.iops != IOPS_MAX) << (2 * dir + 1);
        }
        LimitsOnPath(rules)
    }

    fn and(self, other: LimitsOnPath) -> LimitsOnPath {
        LimitsOnPath(self.0 | other.0)
    }

    /// Does one apply to an I/O? Those on bytes do not if its bytes were counted before.
    fn apply(self, dir: Dir, charged: bool) -> bool {
        let here = self.0 >> (2 * dir as u32);
        here & if charged { 2 } else { 3 } != 0
    }
}

/// A group on this device. That of the root stands for the device: its rings hold what has passed
/// everything and waits for the worker.
#[derive(Clone, Debug)]
struct MaxNode {
    lanes: [DirLane; 2],
    /// Children with queued I/O, by the tick at which they are due.
    children: Tree,
    /// A direction got its first I/O since `due` was computed.
    was_empty: bool,
    /// The group was removed: everything passes, whatever `io.low` says; with `io.max` alone not.
    removed: bool,
    /// Something is queued here since then.
    queued_since: Instant,
    /// Time with something queued, up to `queued_since`.
    queued_for: Nanos,
}

impl MaxNode {
    const NEW: MaxNode = MaxNode {
        lanes: [DirLane::new(), DirLane::new()],
        children: Tree::new(),
        was_empty: false,
        removed: false,
        queued_since: Instant::ZERO,
        queued_for: Nanos::ZERO,
    };

    fn queued(&self) -> u32 {
        self.lanes[0].queued + self.lanes[1].queued
    }

    fn rates(&self) -> DirRates {
        [self.lanes[0].limit.rate, self.lanes[1].limit.rate]
    }
}

/// State of one device.
#[derive(Debug)]
pub struct IoMax {
    conf: MaxConf,

    clock: SliceClock,
    /// By group; as far as they were needed.
    nodes: Vec<MaxNode>,
    /// By group; groups beyond the end have no limit above them.
    rules: Vec<LimitsOnPath>,
    /// Place of each group among its siblings; the key is its `due`.
    due: Nodes<u64>,
    queues: SourceQueues,
    timers: Timers,
    /// `io.low`.
    low: Option<Box<Low>>,

    held: u64,
    timers_fired: u64,
}

impl IoMax {
    fn new(device: &Device) -> IoMax {
        let conf = SETTINGS.defaults();
        let mut this = IoMax {
            conf,
            clock: SliceClock::new(device.tick, conf.slice_ms),
            nodes: Vec::new(),
            rules: Vec::new(),
            due: Nodes::new(0),
            queues: SourceQueues::new(),
            timers: Timers::new(),
            low: None,
            held: 0,
            timers_fired: 0,
        };
        this.make_nodes(GroupId::ROOT);
        this
    }

    fn settings(&self) -> &'static Settings<MaxConf, MaxEffect> {
        if self.low.is_some() { &SETTINGS_LOW } else { &SETTINGS }
    }

    fn with_low(device: &Device) -> IoMax {
        let mut conf = SETTINGS_LOW.defaults();
        if device.rotational {
            conf.slice_ms = SLICE_ROTATIONAL;
        }
        IoMax {
            conf,
            clock: SliceClock::new(device.tick, conf.slice_ms),
            low: Some(Box::new(Low::new(device.rotational))),
            ..IoMax::new(device)
        }
    }

    /// Makes nodes up to that of a group.
    fn make_nodes(&mut self, group: GroupId) {
        let n = group.index() + 1;
        if n > self.nodes.len() {
            self.nodes.resize(n, MaxNode::NEW);
            self.due.grow(n);
            self.queues.grow(n);
            self.timers.grow(n);
        }
    }

    fn lane(&mut self, node: u32, dir: Dir) -> &mut DirLane {
        &mut self.nodes[node as usize].lanes[dir as usize]
    }

    /// The limit in force.
    fn limit(&self, node: u32, dir: Dir) -> Limit {
        let n = &self.nodes[node as usize];
        match &self.low {
            None => n.lanes[dir as usize].limit,
            Some(_) if n.removed => Limit::MAX,
            Some(low) => low.limit(node, dir, &n.lanes[dir as usize].limit, &self.clock),
        }
    }

    /// An I/O passes a node.
    fn charge(&mut self, node: u32, dir: Dir, size: Size) {
        let now = self.clock.now;
        self.lane(node, dir).charge(size, now);
        if let Some(low) = &mut self.low
            && low.active()
        {
            low.passed(node, dir, if size.charged { 0 } else { size.bytes });
        }
    }

    /// Is a low limit anywhere on the device?
    fn low_is_active(&self) -> bool {
        self.low.as_ref().is_some_and(|low| low.active())
    }

    /// Lets `io.low` look at all groups if it is time to; after an upgrade what is held may be due.
    fn look_at_low(&mut self, cx: &Cx<'_>) {
        let Some(low) = &mut self.low else { return };
        let nodes = &self.nodes;
        let queued = |g: GroupId| {
            nodes.get(g.index()).map_or([0, 0], |n| n.lanes.each_ref().map(|l| l.queued))
        };
        if low.look(&self.clock, cx, queued) {
            self.look_at_all_again(cx);
        }
    }

    /// `io.low` ties the limits of all groups to the state of the device: what is held anywhere may be due
    /// earlier or later now, and must not wait for the time that other limits gave it.
    fn look_at_all_again(&mut self, cx: &Cx<'_>) {
        for g in 1..self.nodes.len() as u32 {
            self.look_again(GroupId(g), cx);
        }
    }

    /// Ticks that an I/O must wait at a node; 0: it may pass.
    fn wait(&mut self, node: u32, dir: Dir, size: Size) -> u64 {
        let limit = self.limit(node, dir);
        let clock = self.clock;
        self.lane(node, dir).wait(&limit, size, &clock)
    }

    fn trim(&mut self, node: u32, dir: Dir) {
        let limit = self.limit(node, dir);
        let clock = self.clock;
        self.lane(node, dir).trim(&limit, &clock);
    }

    /// Queues an I/O at a node, and the node at its parent (A.3.3).
    fn queue(&mut self, node: u32, dir: Dir, source: u32, bio: HeldBio, cx: &Cx<'_>) {
        let n = &mut self.nodes[node as usize];
        if n.queued() == 0 {
            n.queued_since = self.clock.instant;
        }
        let lane = &mut n.lanes[dir as usize];
        n.was_empty |= lane.queued == 0;
        lane.queued += 1;
        self.queues.push(&mut lane.ring, source, bio);
        if node != ROOT && !self.due.linked(node) {
            let due = self.due.key(node);
            self.children_of_parent(node, cx).insert_in(node, due);
        }
    }

    /// The tree that a node waits in.
    fn children_of_parent(&mut self, node: u32, cx: &Cx<'_>) -> WaitingChildren<'_> {
        let parent = parent(node, cx) as usize;
        WaitingChildren { tree: &mut self.nodes[parent].children, nodes: &mut self.due }
    }

    /// The head of a direction leaves the node's queue.
    fn take(&mut self, node: u32, dir: Dir) -> HeldBio {
        let n = &mut self.nodes[node as usize];
        let lane = &mut n.lanes[dir as usize];
        let bio = self.queues.pop(&mut lane.ring).expect("only a head that may pass is taken");
        lane.queued -= 1;
        if n.queued() == 0 {
            n.queued_for += self.clock.instant.since(n.queued_since);
        }
        bio
    }

    /// When the first of a node's heads may pass (A.7).
    fn update_due(&mut self, node: u32, cx: &Cx<'_>) {
        let mut soonest = u64::MAX;
        for dir in [Dir::Read, Dir::Write] {
            let ring = self.lane(node, dir).ring;
            if let Some(bio) = self.queues.head(&ring) {
                soonest = soonest.min(self.wait(node, dir, bio.size));
            }
        }
        let due = self.clock.now.saturating_add(soonest);
        let mut waiting = self.children_of_parent(node, cx);
        waiting.remove(node);
        waiting.insert_in(node, due);
        self.nodes[node as usize].was_empty = false;
    }

    /// The earliest tick at which a child of the node is due.
    fn earliest(&self, node: u32) -> Option<u64> {
        let first = self.nodes[node as usize].children.first();
        (first != NIL).then(|| self.due.key(first))
    }

    /// Sets the timer of a node for its earliest child, or earlier: then changed limits are seen.
    fn arm(&mut self, node: u32) {
        if let Some(due) = self.earliest(node) {
            let now = self.clock.now;
            let cap = now + self.conf.sleep_slices * self.clock.slice;
            self.timers.set(node, now, due.min(cap));
        }
    }

    /// The timer of a node (A.8).
    fn fire(&mut self, node: u32, cx: &Cx<'_>) {
        let mut node = node;
        loop {
            let passed = self.dispatch(node, cx);
            if !passed || node == ROOT || !self.nodes[node as usize].was_empty {
                return;
            }
            self.update_due(node, cx);
            let parent = parent(node, cx);
            if self.earliest(parent).is_some_and(|due| due > self.clock.now) {
                self.arm(parent);
                return;
            }
            node = parent;
        }
    }

    /// Lets all children pass what is due (A.8.1); true if anything passed.
    fn dispatch(&mut self, node: u32, cx: &Cx<'_>) -> bool {
        let mut passed = false;
        loop {
            passed |= self.select(node, cx) > 0;
            match self.earliest(node) {
                None => return passed,
                Some(due) if due > self.clock.now => {
                    self.arm(node);
                    return passed;
                }
                Some(_) => {}
            }
        }
    }

    /// One pass over the due children (A.8.2).
    fn select(&mut self, node: u32, cx: &Cx<'_>) -> u32 {
        let mut passed = 0;
        while passed < self.conf.select_quantum {
            let child = self.nodes[node as usize].children.first();
            if child == NIL || self.due.key(child) > self.clock.now {
                break;
            }
            passed += self.round(child, cx);
            if self.nodes[child as usize].queued() > 0 {
                self.update_due(child, cx);
            } else {
                self.children_of_parent(child, cx).remove(child);
            }
        }
        passed
    }

    /// A node's turn (A.8.3): some reads, then some writes.
    fn round(&mut self, node: u32, cx: &Cx<'_>) -> u32 {
        let reads = self.conf.quantum * 3 / 4;
        let mut all = 0;
        for (dir, most) in [(Dir::Read, reads), (Dir::Write, self.conf.quantum - reads)] {
            let mut passed = 0;
            while passed < most {
                let ring = self.lane(node, dir).ring;
                let Some(head) = self.queues.head(&ring) else { break };
                if self.wait(node, dir, head.size) > 0 {
                    break;
                }
                self.hand_up(node, dir, cx);
                passed += 1;
            }
            all += passed;
        }
        all
    }

    /// The head of a direction passes the node.
    fn hand_up(&mut self, node: u32, dir: Dir, cx: &Cx<'_>) {
        let bio = self.take(node, dir);
        self.charge(node, dir, bio.size);
        let start = self.lane(node, dir).start;
        let parent = parent(node, cx);
        self.queue(parent, dir, SourceQueues::source(node, dir, Source::Up), bio, cx);
        if parent != ROOT {
            let clock = self.clock;
            self.lane(parent, dir).credit(start, &clock);
        }
        self.trim(node, dir);
    }

    /// New limits of a group (A.9).
    fn set_limits(&mut self, group: GroupId, rates: DirRates, cx: &Cx<'_>) {
        self.make_nodes(group);
        let clock = self.clock;
        for (lane, rate) in self.nodes[group.index()].lanes.iter_mut().zip(rates) {
            let old = lane.limit;
            lane.carry(&old, &clock);
            lane.limit = clock.limit(rate);
            lane.limit_changed(&clock);
        }
        self.mark(group, cx);
        self.look_again(group, cx);
    }

    /// I/O queued at a group may be due earlier or later now.
    fn look_again(&mut self, group: GroupId, cx: &Cx<'_>) {
        let node = group.0;
        if group.index() < self.nodes.len() && self.due.linked(node) {
            self.update_due(node, cx);
            self.arm(parent(node, cx));
        }
    }

    /// Which limits apply to a group and its descendants.
    fn mark(&mut self, group: GroupId, cx: &Cx<'_>) {
        let mut todo = alloc::vec![group];
        while let Some(g) = todo.pop() {
            let above = cx.groups.parent(g).map_or(LimitsOnPath::default(), |p| self.rules_of(p));
            let own = self
                .nodes
                .get(g.index())
                .map_or(LimitsOnPath::default(), |n| LimitsOnPath::of(n.rates()));
            let rules = own.and(above);
            if self.rules_of(g) == rules && g != group {
                // Its descendants have theirs.
                continue;
            }
            if self.rules.len() <= g.index() {
                self.rules.resize(g.index() + 1, LimitsOnPath::default());
            }
            self.rules[g.index()] = rules;
            todo.extend(cx.groups.children(g));
        }
    }

    fn rules_of(&self, group: GroupId) -> LimitsOnPath {
        self.rules.get(group.index()).copied().unwrap_or_default()
    }

    fn rates(&self, group: GroupId) -> DirRates {
        self.nodes.get(group.index()).map_or([Rate::MAX; 2], MaxNode::rates)
    }

    /// A bio held at some node of its path, or `None`.
    fn pass_path(
        &mut self,
        group: GroupId,
        dir: Dir,
        size: Size,
        cx: &Cx<'_>,
    ) -> Option<(u32, u32)> {
        let (mut node, mut source) = (group.0, SourceQueues::source(group.0, dir, Source::Own));
        while node != ROOT {
            if self.lane(node, dir).queued > 0 || self.wait(node, dir, size) > 0 {
                return Some((node, source));
            }
            self.charge(node, dir, size);
            self.trim(node, dir);
            source = SourceQueues::source(node, dir, Source::Up);
            node = parent(node, cx);
        }
        None
    }
}

/// The device's own node.
const ROOT: u32 = GroupId::ROOT.0;

/// Children of a node that have queued I/O.
struct WaitingChildren<'a> {
    tree: &'a mut Tree,
    nodes: &'a mut Nodes<u64>,
}

impl WaitingChildren<'_> {
    fn insert_in(&mut self, node: u32, due: u64) {
        self.tree.insert(self.nodes, node, due, ());
    }

    fn remove(&mut self, node: u32) {
        self.tree.remove(self.nodes, node);
    }
}

fn parent(node: u32, cx: &Cx<'_>) -> u32 {
    cx.groups.parent(GroupId(node)).expect("only the root has no parent").0
}

impl Controller for IoMax {
    fn submit(&mut self, now: Instant, bio: BioId, cx: &mut Cx<'_>) -> Verdict {
        let io = cx.requests.bio(bio);
        let mut group = io.group;
        while self.low.is_some() && !cx.groups.alive(group) {
            // A group that is gone: the nearest living ancestor pays. With `io.max` alone it still pays itself.
            group = cx.groups.parent(group).expect("the root lives");
        }
        let dir = io.op.dir();
        let charged = cx.requests.continues(bio);
        let low = group != GroupId::ROOT && self.low_is_active();
        if !low && !self.rules_of(group).apply(dir, charged) {
            return Verdict::Pass;
        }
        let bytes = if io.op == Op::Discard { DISCARD_BYTES } else { io.sectors.bytes().0 };
        let size = Size { bytes, charged };
        self.clock.set(now);
        self.make_nodes(group);
        if let Some(low) = &mut self.low
            && low.active()
        {
            low.submitted(group, &self.clock);
            self.look_at_low(cx);
        }
        let Some((node, source)) = self.pass_path(group, dir, size, cx) else {
            return Verdict::Pass;
        };
        self.held += 1;
        self.queue(node, dir, source, HeldBio { bio, size }, cx);
        if self.nodes[node as usize].was_empty {
            self.update_due(node, cx);
            self.arm(parent(node, cx));
        }
        Verdict::Hold
    }

    fn release(&mut self, _now: Instant, _cx: &mut Cx<'_>) -> Option<BioId> {
        if self.nodes[ROOT as usize].queued() == 0 {
            return None;
        }
        let dir = if self.lane(ROOT, Dir::Read).queued > 0 { Dir::Read } else { Dir::Write };
        Some(self.take(ROOT, dir).bio)
    }

    /// Nothing is charged. Parents have smaller numbers than their children, and what waits at a parent came
    /// before what waits below it.
    fn drain(&mut self, _now: Instant, cx: &mut Cx<'_>) -> Option<BioId> {
        let node = self.nodes.iter().position(|n| n.queued() > 0)? as u32;
        let dir = if self.lane(node, Dir::Read).queued > 0 { Dir::Read } else { Dir::Write };
        let bio = self.take(node, dir).bio;
        if node != ROOT && self.nodes[node as usize].queued() == 0 {
            self.children_of_parent(node, cx).remove(node);
        }
        Some(bio)
    }

    fn complete(&mut self, now: Instant, id: ReqId, cx: &mut Cx<'_>) {
        if let Some(low) = &mut self.low
            && low.active()
        {
            low.completed(now, &cx.requests[id], cx);
        }
    }
}

impl IoMax {
    /// Limits of a slice, anew for its length.
    fn slice_changed(&mut self) {
        self.clock.set_slice(self.conf.slice_ms);
        let clock = self.clock;
        for lane in self.nodes.iter_mut().flat_map(|n| &mut n.lanes) {
            lane.limit = clock.limit(lane.limit.rate);
        }
    }
}

impl Stage for IoMax {
    fn info(&self) -> &'static StageInfo {
        if self.low.is_some() { &ENTRY_LOW.stage } else { &ENTRY.stage }
    }

    fn changed(&mut self, now: Instant, change: &Change, cx: &mut Cx<'_>) {
        self.clock.set(now);
        match (change, &mut self.low) {
            (&Change::GroupAdded(group), Some(low)) => low.added(group, cx),
            (&Change::GroupRemoved(group), Some(low)) => low.removed(group, cx, &self.clock),
            _ => {}
        }
        match *change {
            Change::GroupAdded(group) => self.mark(group, cx),
            // What it holds stays until its limits allow it.
            Change::GroupRemoved(group) if self.low.is_some() => {
                if let Some(node) = self.nodes.get_mut(group.index()) {
                    node.removed = true;
                    node.lanes.iter_mut().for_each(|l| l.limit = Limit::MAX);
                }
                // Its low limits may have been the only ones.
                self.look_at_all_again(cx);
            }
            _ => {}
        }
    }

    fn timer(&mut self, now: Instant, cx: &mut Cx<'_>) {
        self.clock.set(now);
        while let Some(node) = self.timers.take_due(self.clock.now) {
            self.timers_fired += 1;
            self.fire(node, cx);
        }
        if self.low_is_active() {
            self.look_at_low(cx);
            // What an upgrade has made due at once.
            while let Some(node) = self.timers.take_due(self.clock.now) {
                self.fire(node, cx);
            }
        }
    }

    fn next_timer(&self) -> Option<Instant> {
        self.timers.next().map(|tick| self.clock.edge(tick))
    }

    fn set(
        &mut self,
        now: Instant,
        name: &str,
        value: u64,
        cx: &mut Cx<'_>,
    ) -> Result<(), TunableError> {
        self.clock.set(now);
        let row = self.settings().set(&mut self.conf, name, value)?;
        if let Some(effect) = row.effect {
            effect(self);
        }
        self.timers.kind = self.conf.tick_timers;
        self.clock.newer = self.conf.base == 1;
        // Who waits was told when to look again by the old values.
        for group in 1..self.nodes.len() as u32 {
            self.look_again(GroupId(group), cx);
        }
        Ok(())
    }

    fn value(&self, name: &str) -> Option<u64> {
        self.settings().value(&self.conf, name)
    }

    fn set_group(
        &mut self,
        now: Instant,
        group: GroupId,
        name: &str,
        value: Option<u64>,
        cx: &mut Cx<'_>,
    ) -> Result<(), TunableError> {
        let value = value.unwrap_or_else(|| group_default(name));
        let key = setting::check(GROUP_TUNABLES, ENTRY.stage.name, name, value)?.name;
        self.clock.set(now);
        let mut rates = self.rates(group);
        knob::set(&mut rates, key, value);
        self.set_limits(group, rates, cx);
        Ok(())
    }

    fn write_knob(
        &mut self,
        now: Instant,
        group: GroupId,
        file: &str,
        line: &str,
        cx: &mut Cx<'_>,
    ) -> Result<(), KnobError> {
        match &mut self.low {
            Some(low) if file == KNOB_LOW.file => {
                let setting = knob::parse_low(cx.device.number, line, low.setting(group))?;
                self.clock.set(now);
                low.set(group, setting, &self.clock);
                self.look_at_all_again(cx);
                return Ok(());
            }
            _ if file != KNOB.file => {
                return Err(KnobError::unsupported(format!("no file '{file}'")));
            }
            _ => {}
        }
        let rates = knob::parse(cx.device.number, line, self.rates(group))?;
        self.clock.set(now);
        self.set_limits(group, rates, cx);
        Ok(())
    }

    fn read_knob(&self, group: GroupId, file: &str, cx: &Cx<'_>, out: &mut String) {
        if let (Some(low), "io.low") = (&self.low, file) {
            return knob::print_low(cx.device.number, low.setting(group), out);
        }
        knob::print(cx.device.number, self.rates(group), out);
    }

    fn gauges(&self, now: Instant, cx: &Cx<'_>, sink: &mut dyn FnMut(Gauge)) {
        if let Some(low) = &self.low {
            let mut gauge = |name, value| sink(Gauge { name, unit: "", group: None, value });
            gauge("at_max", i64::from(low.at_max));
            gauge("scale", low.scale() as i64);
        }
        for (g, n) in self.nodes.iter().enumerate().skip(1) {
            let group = GroupId(g as u32);
            let limited = n.rates() != [Rate::MAX; 2] || n.queued() > 0 || self.low_is_active();
            if !limited || !cx.groups.alive(group) {
                continue;
            }
            let mut gauge = |name, unit, value: u64| {
                sink(Gauge { name, unit, group: Some(group), value: value as i64 });
            };
            let running = if n.queued() > 0 { now.since(n.queued_since) } else { Nanos::ZERO };
            gauge("queued", "I/Os", n.queued().into());
            gauge("throttled", "ms", (n.queued_for + running).as_ms());
            gauge("allowed", "bytes", n.lanes[0].passed_bytes + n.lanes[1].passed_bytes);
        }
    }

    fn figures(&self, sink: &mut dyn FnMut(Figure)) {
        let mut figure = |name, value: u64| sink(Figure { name, of: None, value: value as i64 });
        figure("held_ios", self.held);
        figure("timers_fired", self.timers_fired);
        if let Some(low) = &self.low {
            figure("upgrades", low.upgrades);
            figure("downgrades", low.downgrades);
        }
    }
}

/// A discard counts for so many bytes whatever its length.
const DISCARD_BYTES: u64 = 512;
