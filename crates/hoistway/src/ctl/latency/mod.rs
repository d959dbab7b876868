//! io.latency: keeps the latency targets of groups by giving their siblings fewer I/Os in flight
//! (specs/io-latency.md).
//!
//! Every group may have a *target*. Latency counts from behind io.max to completion, the wait in here, in
//! the scheduler and in the device included. A group is judged once per *window* (16 targets, 100 ms to
//! 1 s): on a rotational device by the mean, on others it misses when a tenth of its I/Os does. A group
//! that misses lowers the *cookie* of its parent, at most every 500 ms; one that is fine again, and for
//! whose sake the cookie was lowered last, raises it.
//!
//! The cookie is no depth but a notice board. Each child compares it, at each of its I/Os, with what it saw
//! last, and moves its own *depth* (I/Os in flight) one step whatever the distance: down by half, to 1, or
//! up by a sixteenth of the device's requests Q. Spared on the way down are groups whose own target is at
//! least as strict as that of the victim, and small ones (5 % of the I/O), both only if they have a
//! target. At depth 1 further steps count *users of the delay*: the tasks of the group sleep on their way
//! back from a system call for what their I/O that could not be held back gained on the target.
//!
//! ```text
//!   cookie down   Q/4 a step to a gap of Q, then 1 a step to a gap of 2 Q
//!   cookie up     1 a step to a gap of Q, then Q/16 a step to 1 000 000
//!   depth down    halved, from Q at most to 1
//!   depth up      + Q/16, to Q; unlimited when the cookie is 1 000 000 again
//! ```
//!
//! An I/O takes a slot in each group from its own to the one below the root, lowest first, and waits in the
//! order of arrival where there is none. Metadata, swap and the I/O of a dying task take theirs at once.
//!
//! Cost: O(depth of the group) per I/O; a judgement and a timer cost O(1) and O(parents with a lowered
//! cookie). What is left to each group, and when this controller disappoints, is in
//! docs/controllers/io.latency.md.

mod judge;
mod knob;
mod node;
mod tunables;

use super::{Controller, Entry, Gate, Verdict, tick_of};
use crate::device::Device;
use crate::env::Cx;
use crate::group::{GroupId, Groups, ProcId};
use crate::knob::KnobError;
use crate::list::{Links, List};
use crate::request::{BioId, ReqId};
use crate::setting::{self, TunableError};
use crate::stage::{Change, Figure, Gauge, Stage, StageInfo};
use crate::table::{Handle, NIL};
use crate::unit::{Instant, Nanos};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use node::{LatencyNode, Life, UNLIMITED};
use tunables::{GROUP_TUNABLES, LatencyConf, SETTINGS, TUNABLES};

/// The registry entry.
pub static ENTRY: Entry = Entry {
    stage: StageInfo {
        name: "io.latency",
        summary: "keeps latency targets of groups by holding their siblings back",
        source: "specs/io-latency.md",
        tunables: &TUNABLES,
        group_tunables: GROUP_TUNABLES,
        knobs: knob::KNOBS,
        figures: &[],
        decisions: &[],
    },
    gate: Gate::BeforeTag,
    build: &|device| Box::new(IoLatency::new(device)),
};

/// Table index of the root.
const ROOT: usize = 0;

/// State of a bio from its submission to its completion.
#[derive(Clone, Copy, Debug)]
struct Mark {
    /// The group it holds, or will hold, slots from upwards; `NIL`: it is not counted.
    leaf: u32,
    /// The group whose slot it takes next.
    at: u32,
    /// Of its handle.
    generation: u32,
    proc: ProcId,
    /// It never waits.
    free: bool,
}

const NO_MARK: Mark = Mark { leaf: NIL, at: NIL, generation: 0, proc: ProcId::NONE, free: false };

/// How far a bio came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Climb {
    /// It has all its slots.
    Passed,
    /// It waits for one.
    Waits,
    /// Others were woken before it; it stands behind them on the agenda.
    Behind,
}

/// Counts for reports.
#[derive(Clone, Copy, Debug, Default)]
struct LatencyCounts {
    held: u64,
    downs: u64,
    ups: u64,
}

/// The controller of one device.
#[derive(Debug)]
pub struct IoLatency {
    conf: LatencyConf,
    /// Groups with a target.
    targets: u32,
    /// Bios that hold slots or wait for them. With none of them and no target the controller is off.
    counted: u32,

    /// By group.
    nodes: Vec<LatencyNode>,
    /// By bio slot.
    marks: Vec<Mark>,
    /// A bio is on the waiting list of one group, on the agenda, or ready.
    links: Links,
    /// Bios that were given the slot they waited for and go on upwards, by the level of the group they
    /// come to next. Those higher up came earlier and go first.
    agenda: Vec<List>,
    /// Bios on the agenda.
    agenda_len: u32,
    /// Bios that are woken go on to a higher group when told to.
    climbs_told: bool,
    /// Bios that have all their slots.
    ready: List,
    /// Processes whose delay is to be looked at on their way back.
    checks: Vec<bool>,
    /// Parents whose cookie is, or was, lowered.
    lowered: Vec<u32>,
    timer: Option<Instant>,

    counts: LatencyCounts,
}

impl IoLatency {
    /// Nothing is done before a group has a target.
    pub fn new(_device: &Device) -> IoLatency {
        let mut root = LatencyNode::absent(NIL, 0, None);
        root.life = Life::Alive;
        IoLatency {
            conf: SETTINGS.defaults(),
            targets: 0,
            counted: 0,
            nodes: alloc::vec![root],
            marks: Vec::new(),
            links: Links::new(0),
            agenda: alloc::vec![List::new()],
            agenda_len: 0,
            climbs_told: false,
            ready: List::new(),
            checks: Vec::new(),
            lowered: Vec::new(),
            timer: None,
            counts: LatencyCounts::default(),
        }
    }
}

impl Controller for IoLatency {
    fn submit(&mut self, now: Instant, bio: BioId, cx: &mut Cx<'_>) -> Verdict {
        let io = cx.requests.bio(bio);
        let leaf = self.node_of(now, io.group, cx);
        if self.targets == 0 && self.counted == 0 {
            return Verdict::Pass;
        }
        self.arm(now, cx.device);
        if leaf == ROOT {
            return Verdict::Pass;
        }
        let slot = bio.0.slot;
        self.make_room(slot);
        let dying = cx.procs.get(io.proc).is_some_and(|p| !p.alive);
        self.marks[slot as usize] = Mark {
            leaf: leaf as u32,
            at: leaf as u32,
            generation: bio.0.generation,
            proc: io.proc,
            free: dying || io.flags.issue_as_root(),
        };
        self.counted += 1;
        let climb = self.climb(now, slot, cx);
        if climb == Climb::Passed && self.ready.is_empty() {
            return Verdict::Pass;
        }
        if climb == Climb::Passed {
            // Nobody overtakes those that were given their slots.
            self.ready.push_back(&mut self.links, slot);
        }
        self.work_off(now, cx);
        self.counts.held += 1;
        Verdict::Hold
    }

    fn release(&mut self, _now: Instant, _cx: &mut Cx<'_>) -> Option<BioId> {
        let slot = self.ready.pop_front(&mut self.links)?;
        let generation = self.marks[slot as usize].generation;
        Some(BioId(Handle { slot, generation }))
    }

    fn drain(&mut self, now: Instant, cx: &mut Cx<'_>) -> Option<BioId> {
        // Bounded: whoever passes notices each cookie of its path once, and what was opened stays open till
        // a cookie moves.
        while self.ready.is_empty() && self.nodes.iter().any(|n| !n.waiters.is_empty()) {
            (1..self.nodes.len()).for_each(|at| self.open(at));
            self.work_off(now, cx);
        }
        self.release(now, cx)
    }

    fn complete(&mut self, now: Instant, id: ReqId, cx: &mut Cx<'_>) {
        let requests = cx.requests;
        for (bio, io) in requests.bios(id) {
            let Some(mark) = self.marks.get_mut(bio.0.slot as usize) else { continue };
            let leaf = core::mem::replace(&mut mark.leaf, NIL);
            if leaf != NIL {
                debug_assert_eq!(mark.generation, bio.0.generation);
                self.counted -= 1;
                let latency = age(requests.entered(bio), now);
                self.done(now, leaf, latency, io.flags.issue_as_root(), cx);
            }
        }
        self.work_off(now, cx);
    }

    fn delay(&mut self, now: Instant, proc: ProcId, cx: &mut Cx<'_>) -> Nanos {
        match self.checks.get_mut(proc.index()) {
            Some(check) if *check => *check = false,
            _ => return Nanos::ZERO,
        }
        let mut longest = Nanos::ZERO;
        let mut at = cx.procs.group(proc).index();
        while at != ROOT && at < self.nodes.len() {
            let node = &mut self.nodes[at];
            longest = longest.max(node.delay.sleep(now));
            at = node.parent as usize;
        }
        longest
    }

    fn stat(&self, _now: Instant, group: GroupId, _cx: &Cx<'_>, out: &mut String) {
        match self.nodes.get(group.index()) {
            // The root is a parent only.
            Some(node) if group != GroupId::ROOT && node.life != Life::Absent => {
                knob::print_stat(node, out);
            }
            _ => {}
        }
    }

    fn congested(&self, group: GroupId, _cx: &Cx<'_>) -> bool {
        if self.targets == 0 {
            return false;
        }
        let mut at = group.index();
        while at != ROOT && at < self.nodes.len() {
            if self.nodes[at].delay.uses() != 0 {
                return true;
            }
            at = self.nodes[at].parent as usize;
        }
        false
    }
}

impl Stage for IoLatency {
    fn info(&self) -> &'static StageInfo {
        &ENTRY.stage
    }

    fn changed(&mut self, now: Instant, change: &Change, cx: &mut Cx<'_>) {
        match *change {
            Change::GroupAdded(_) => self.know(cx.groups),
            Change::GroupRemoved(group) => self.remove(now, group, cx),
            _ => {}
        }
    }

    fn timer(&mut self, now: Instant, cx: &mut Cx<'_>) {
        self.timer = None;
        self.look_at_parents(now, cx);
    }

    fn next_timer(&self) -> Option<Instant> {
        self.timer
    }

    fn set(
        &mut self,
        now: Instant,
        name: &str,
        value: u64,
        cx: &mut Cx<'_>,
    ) -> Result<(), TunableError> {
        let before = self.conf.last_scale();
        SETTINGS.set(&mut self.conf, name, value)?;
        let after = self.conf.last_scale();
        for node in &mut self.nodes {
            node.window = self.conf.window(node.target);
            if node.scale.last == before {
                node.scale.last = after;
            }
        }
        // An armed timer fires no later than one that is armed now.
        if let Some(old) = self.timer.take() {
            self.arm(now, cx.device);
            self.timer = self.timer.map(|new| new.min(old));
        }
        Ok(())
    }

    fn value(&self, name: &str) -> Option<u64> {
        SETTINGS.value(&self.conf, name)
    }

    fn set_group(
        &mut self,
        now: Instant,
        group: GroupId,
        name: &str,
        value: Option<u64>,
        cx: &mut Cx<'_>,
    ) -> Result<(), TunableError> {
        let value = value.unwrap_or(0);
        setting::check(GROUP_TUNABLES, ENTRY.stage.name, name, value)?;
        self.set_target(now, group, Nanos::us(value), cx).map_err(|_| TunableError::Unknown {
            name: "target of the root or of a removed group".into(),
            stage: ENTRY.stage.name,
        })
    }

    fn write_knob(
        &mut self,
        now: Instant,
        group: GroupId,
        _file: &str,
        line: &str,
        cx: &mut Cx<'_>,
    ) -> Result<(), KnobError> {
        let target = knob::parse(cx.device.number, line)?;
        self.set_target(now, group, target, cx)
    }

    fn read_knob(&self, group: GroupId, _file: &str, cx: &Cx<'_>, out: &mut String) {
        if let Some(node) = self.nodes.get(group.index()) {
            knob::print_target(cx.device.number, node, out);
        }
    }

    fn gauges(&self, _now: Instant, cx: &Cx<'_>, sink: &mut dyn FnMut(Gauge)) {
        for (group, node) in (0..).map(GroupId).zip(&self.nodes) {
            if node.life == Life::Alive {
                knob::gauges(group, node, cx.device.nr_requests, sink);
            }
        }
    }

    fn figures(&self, sink: &mut dyn FnMut(Figure)) {
        let LatencyCounts { held, downs, ups } = self.counts;
        for (name, value) in [("ios_held", held), ("scaled_down", downs), ("scaled_up", ups)] {
            sink(Figure { name, of: None, value: value as i64 });
        }
    }
}

/// The way of an I/O.
impl IoLatency {
    /// Takes the bio's slots from `at` of its mark upwards (section 4).
    fn climb(&mut self, now: Instant, slot: u32, cx: &mut Cx<'_>) -> Climb {
        let Mark { at, proc, free, .. } = self.marks[slot as usize];
        let mut at = at as usize;
        while at != ROOT {
            let cookie = self.nodes[self.nodes[at].parent as usize].scale.cookie;
            if cookie != self.nodes[at].seen && self.cookie_moved(now, at, cx) {
                // Those that waited here came before this bio, those that come next behind it.
                if self.wake(at) > 0 {
                    self.marks[slot as usize].at = at as u32;
                    let level = self.nodes[at].level as usize;
                    self.agenda[level].push_front(&mut self.links, slot);
                    self.agenda_len += 1;
                    return Climb::Behind;
                }
            }
            let node = &mut self.nodes[at];
            // Delay is used at depth 1 only.
            if node.depth == 1 && node.delay.uses() != 0 && proc != ProcId::NONE {
                look_at_delay_of(&mut self.checks, proc);
            }
            if !free && (!node.waiters.is_empty() || !node.has_room()) {
                node.waiters.push_back(&mut self.links, slot);
                self.marks[slot as usize].at = at as u32;
                return Climb::Waits;
            }
            node.inflight += 1;
            at = node.parent as usize;
        }
        Climb::Passed
    }

    /// Those on the agenda go on until they wait again or are ready. Each turn takes a bio off; one that is
    /// put behind others comes back after a cookie was noticed, which happens once per event and group.
    fn work_off(&mut self, now: Instant, cx: &mut Cx<'_>) {
        while self.agenda_len > 0 {
            // Nobody waits for the root.
            let levels = if self.climbs_told { 1 } else { self.agenda.len() };
            let mut lists = self.agenda[..levels].iter_mut();
            let slot = lists.find_map(|list| list.pop_front(&mut self.links));
            if slot.is_none() && self.climbs_told {
                return;
            }
            self.agenda_len -= 1;
            let slot = slot.expect("the lists hold as many as counted");
            if self.climb(now, slot, cx) == Climb::Passed {
                self.ready.push_back(&mut self.links, slot);
            }
        }
    }

    /// Gives slots to the first waiters of a group, as many as fit; how many.
    fn wake(&mut self, at: usize) -> u32 {
        let mut woken = 0;
        while self.nodes[at].has_room() && self.hand_over(at) {
            woken += 1;
        }
        woken
    }

    /// Gives a slot to the first waiter; false if there is none.
    fn hand_over(&mut self, at: usize) -> bool {
        let node = &mut self.nodes[at];
        let Some(slot) = node.waiters.pop_front(&mut self.links) else { return false };
        node.inflight += 1;
        self.marks[slot as usize].at = node.parent;
        self.agenda[node.level as usize - 1].push_back(&mut self.links, slot);
        self.agenda_len += 1;
        true
    }

    /// A bio of `leaf` is over (section 5).
    fn done(
        &mut self,
        now: Instant,
        leaf: u32,
        latency: Option<Nanos>,
        as_root: bool,
        cx: &mut Cx<'_>,
    ) {
        let mut at = leaf as usize;
        while at != ROOT {
            let node = &mut self.nodes[at];
            assert!(node.inflight > 0, "every slot is given back once");
            node.inflight -= 1;
            if node.target.0 > 0 {
                if let Some(latency) = latency {
                    record(node, now, latency, as_root);
                }
                if now.since(node.window_start) >= node.window {
                    node.window_start = now;
                    self.judge(now, at, cx);
                }
            }
            let node = &self.nodes[at];
            let parent = node.parent as usize;
            if !node.waiters.is_empty() && node.has_room() {
                self.hand_over(at);
            }
            at = parent;
        }
    }

    /// Sets the timer, unless it is set (section 7).
    fn arm(&mut self, now: Instant, device: &Device) {
        if self.timer.is_none() {
            let tick = Nanos(device.tick.0.max(1));
            let ticks = self.conf.timer().0.div_ceil(tick.0);
            let at = self.conf.tick_timers.fires_at(now, tick, tick_of(now, tick) + ticks, false);
            // An ideal timer of a tick longer than itself would fire at once for ever.
            self.timer = Some(at.max(now + Nanos(1)));
        }
    }

    fn make_room(&mut self, slot: u32) {
        if slot as usize >= self.marks.len() {
            let slots = (slot as usize + 1).next_power_of_two();
            self.marks.resize(slots, NO_MARK);
            self.links.grow(slots);
        }
    }
}

/// For comparisons with a kernel, in which a bio that was given a slot goes on to the next group when its task runs.
impl IoLatency {
    /// From now on it goes on when [`IoLatency::climb_on`] says so.
    pub fn tell_climbs(&mut self) {
        self.climbs_told = true;
    }

    /// Those that are to go on to a group above theirs, in the order in which they were woken.
    pub fn climbers(&self) -> Vec<BioId> {
        let all = self.agenda.iter().skip(1).flat_map(|list| list.iter(&self.links));
        let id = |slot: u32| Handle { slot, generation: self.marks[slot as usize].generation };
        all.map(|slot| BioId(id(slot))).collect()
    }

    /// One of them goes on.
    pub fn climb_on(&mut self, now: Instant, bio: BioId, cx: &mut Cx<'_>) {
        let slot = bio.0.slot;
        let at = self.marks[slot as usize].at;
        let level = self.nodes[at as usize].level as usize;
        self.agenda[level].remove(&mut self.links, slot);
        self.agenda_len -= 1;
        if self.climb(now, slot, cx) == Climb::Passed {
            self.ready.push_back(&mut self.links, slot);
        }
        self.work_off(now, cx);
    }
}

/// Groups that come, go and are set.
impl IoLatency {
    /// Makes the tables as long as the tree.
    fn know(&mut self, groups: &Groups) {
        for group in (self.nodes.len() as u32..groups.len() as u32).map(GroupId) {
            let parent = groups.parent(group).expect("only the root has no parent");
            let level = groups.level(group);
            self.nodes.push(LatencyNode::absent(parent.0, level, self.conf.last_scale()));
            if level as usize >= self.agenda.len() {
                self.agenda.resize(level as usize + 1, List::new());
            }
        }
    }

    /// The node of a group, made as needed.
    ///
    /// That of a removed group serves its I/O as before: what was made before, such as the rest of a split bio, may come
    /// behind the removal and must not overtake what waits.
    fn node_of(&mut self, now: Instant, group: GroupId, cx: &Cx<'_>) -> usize {
        let at = group.index();
        if at >= self.nodes.len() {
            self.know(cx.groups);
        }
        if self.nodes[at].life == Life::Absent {
            self.make_node(now, at, cx.device);
        }
        at
    }

    /// Makes the node of a group and those of its ancestors, theirs first.
    fn make_node(&mut self, now: Instant, group: usize, device: &Device) {
        let mut path = Vec::new();
        let mut at = group;
        while self.nodes[at].life == Life::Absent {
            path.push(at);
            at = self.nodes[at].parent as usize;
        }
        for at in path.into_iter().rev() {
            let seen = self.nodes[self.nodes[at].parent as usize].scale.cookie;
            let window = self.conf.window(Nanos::ZERO);
            let node = &mut self.nodes[at];
            node.life = Life::Alive;
            node.rotational = device.rotational;
            (node.seen, node.window, node.window_start) = (seen, window, now);
        }
    }

    /// Section 3.1; zero: no target.
    fn set_target(
        &mut self,
        now: Instant,
        group: GroupId,
        target: Nanos,
        cx: &Cx<'_>,
    ) -> Result<(), KnobError> {
        let at = self.node_of(now, group, cx);
        if group == GroupId::ROOT || self.nodes[at].life == Life::Gone {
            return Err(KnobError::unsupported("the root and removed groups have no target"));
        }
        let window = self.conf.window(target);
        let node = &mut self.nodes[at];
        let old = core::mem::replace(&mut node.target, target);
        node.window = window;
        if old == target {
            return Ok(());
        }
        if old.0 == 0 {
            self.targets += 1;
        } else if target.0 == 0 {
            node.delay.clear();
            self.targets -= 1;
        }
        // The last target may be gone now. Then what waits still goes on as slots come back; a group's limit and its
        // delay end with its next I/O, which sees that the cookie is up again.
        self.reset_parent(at);
        Ok(())
    }

    fn reset_parent(&mut self, at: usize) {
        let parent = self.nodes[at].parent as usize;
        self.nodes[parent].scale.reset(self.conf.last_scale());
    }

    fn remove(&mut self, now: Instant, group: GroupId, cx: &Cx<'_>) {
        self.know(cx.groups);
        let at = group.index();
        if group == GroupId::ROOT || self.nodes[at].life == Life::Gone {
            return;
        }
        // One that had neither I/O nor a target is not known, and nobody else's limits are looked at. What was made in it
        // may still come.
        if self.nodes[at].life == Life::Absent {
            self.make_node(now, at, cx.device);
            self.nodes[at].life = Life::Gone;
            return;
        }
        self.set_target(now, group, Nanos::ZERO, cx).expect("it is alive and not the root");
        self.reset_parent(at);
        let node = &mut self.nodes[at];
        node.delay.clear();
        node.life = Life::Gone;
    }

    /// No limit: all that wait go on.
    fn open(&mut self, at: usize) {
        self.nodes[at].depth = UNLIMITED;
        self.wake(at);
    }
}

/// Remembers that the task is to be delayed on its way back.
#[cold]
fn look_at_delay_of(checks: &mut Vec<bool>, proc: ProcId) {
    if checks.len() <= proc.index() {
        checks.resize(proc.index() + 1, false);
    }
    checks[proc.index()] = true;
}

/// Section 5.1.
///
/// I/O that passes as the root's did not wait in here: counted, it would make the group look too good.
fn record(node: &mut LatencyNode, now: Instant, latency: Nanos, as_root: bool) {
    if as_root && node.depth != UNLIMITED {
        if latency < node.target {
            node.delay.add(now, node.target - latency);
        }
        return;
    }
    node.stat.samples += 1;
    node.stat.missed += u64::from(latency >= node.target);
    node.stat.sum += latency.0;
}

/// Time since the issue, `None` if there is none. Both are known to 51 bits: they wrap after 26 days.
fn age(issued: Instant, now: Instant) -> Option<Nanos> {
    const BITS: u64 = (1 << 51) - 1;
    let (issued, now) = (issued.as_nanos() & BITS, now.as_nanos() & BITS);
    (now > issued).then(|| Nanos(now - issued))
}
