//! The comparison: one line after the other into a BFQ of ours.

use crate::line::{DeviceLine, HEADER, Line, number, path};
use crate::names::Names;
use crate::{Counts, Difference, Differences, Mistake, Outcome, Recorded};
use hoistway::device::Device;
use hoistway::env::Env;
use hoistway::group::{GroupId, ProcId};
use hoistway::request::{Flags, Io, ReqId, Request, Side};
use hoistway::sched::bfq::probe::{Expiry, Probe, Reason};
use hoistway::sched::{At, Dispatch, Merged, Scheduler, Setup};
use hoistway::stack::elevator::Elevator;
use hoistway::stage::Change;
use hoistway::table::NIL;
use hoistway::trace::Trace;
use hoistway::unit::{Instant, Nanos, QueueId, Sectors};
use std::collections::BTreeMap;

pub fn replay(recording: &str, recorded: &Recorded) -> Result<Outcome, Mistake> {
    let wrong = |line, what| Mistake::Line { line, what };
    let mut lines = (1..).zip(recording.lines()).peekable();
    let first = lines.next().map_or("", |(_, text)| text);
    if first != HEADER {
        return Err(wrong(1, format!("not a recording: it must begin with '{HEADER}'")));
    }
    let device = match lines.next_if(|(_, text)| text.starts_with("device,")) {
        Some((line, text)) => {
            Some(Line::split(text).and_then(|l| l.device()).map_err(|e| wrong(line, e))?)
        }
        None => None,
    };
    let mut replay = Replay::new(recorded, device).map_err(Mistake::Setting)?;
    replay.counts.lines = 1 + u64::from(device.is_some());
    for (line, text) in lines {
        replay.counts.lines += 1;
        match replay.step(text) {
            Ok(()) => {}
            Err(Stop::Unreadable(what)) => return Err(wrong(line, what)),
            Err(Stop::Apart) => {
                replay.given_up = Some(line);
                break;
            }
        }
        if let Some(ours) = replay.differs.take()
            && replay.first.is_none()
        {
            let (recorded, state) = (text.to_string(), replay.probe.describe());
            replay.first = Some(Difference { line, recorded, ours, state });
        }
    }
    Ok(Outcome {
        weights: replay.weights,
        counts: replay.counts,
        differences: replay.differences,
        first: replay.first,
        given_up: replay.given_up,
    })
}

/// Why a line ends the comparison.
enum Stop {
    Unreadable(String),
    /// After a difference: the recording and ours have too little in common to go on.
    Apart,
}

impl From<String> for Stop {
    fn from(what: String) -> Stop {
        Stop::Unreadable(what)
    }
}

/// Request slots: more than any recording has at a time.
const SLOTS: usize = 1024;
/// The recorded clock: BFQ reads it in steps of so many nanoseconds.
const CLOCK_STEP: u64 = 256;
/// Sectors of a page, which is a segment of direct I/O at most.
const PAGE: u64 = 8;
/// Latest time of a recording in nanoseconds: two years.
const TIMES: u64 = 1 << 56;

/// A group of the recording.
struct Group {
    path: String,
    id: GroupId,
    /// Its general weight, if it was written.
    weight: Option<u64>,
    /// The device knows it.
    known: bool,
}

struct Replay {
    env: Env,
    probe: Probe,
    elevator: Elevator,
    max_sectors: u64,
    max_segments: u32,
    tick: u64,
    /// Sectors of a block buffer.
    buffer: u64,
    names: Names,
    /// Length of a bio that was offered and not merged, by its first sector: the first of the request that is
    /// inserted there.
    offered: BTreeMap<u64, u64>,
    /// The time and tick of the last call.
    last: (Instant, u64),
    procs: Vec<Option<ProcId>>,
    /// Paths of the groups that exist.
    groups: Vec<Group>,
    /// Weights it began with.
    weights: Vec<(String, u64)>,
    /// Expiries of the last event that were compared.
    seen: usize,
    counts: Counts,
    differences: Differences,
    /// What ours did instead of the present line.
    differs: Option<String>,
    first: Option<Difference>,
    given_up: Option<usize>,
}

impl Replay {
    fn new(recorded: &Recorded, told: Option<DeviceLine>) -> Result<Replay, String> {
        let rotational = told.map_or(recorded.rotational, |told| told.rotational);
        let mut device = Device::new(Sectors(1 << 40), SLOTS as u32);
        device.rotational = rotational;
        device.tick = recorded.tick;
        let mut env = Env::new(device, SLOTS, 4 * SLOTS);
        env.trace = Trace::off();
        let created = told.map_or(0, |told| told.created_tick);
        let created = created.checked_mul(recorded.tick.0).filter(|&at| at < TIMES);
        let created = created.ok_or("the tick of creation is later than any clock")?;
        let setup = Setup { device: &env.device, requests: SLOTS, now: Instant::ZERO };
        let probe = Probe::new(&setup, Instant::from_nanos(created));
        let usual = if rotational { 4 } else { 1 };
        let buffer_kib = recorded.buffer_kib.unwrap_or(usual);
        let mut replay = Replay {
            env,
            probe,
            elevator: Elevator::new(SLOTS),
            max_sectors: recorded.max_sectors.0,
            max_segments: recorded.max_segments,
            tick: recorded.tick.0,
            buffer: 2 * u64::from(buffer_kib.max(1)),
            names: Names::new(SLOTS),
            offered: BTreeMap::new(),
            last: (Instant::ZERO, 0),
            procs: Vec::new(),
            groups: Vec::new(),
            weights: Vec::new(),
            seen: 0,
            counts: Counts::default(),
            differences: Differences::default(),
            differs: None,
            first: None,
            given_up: None,
        };
        for (name, value) in &recorded.tunables {
            replay.set(Instant::ZERO, name, *value)?;
        }
        let noweights = told.is_some_and(|told| told.noweights);
        let weights = if noweights { recorded.weights.clone() } else { recorded.all_weights() };
        for (group, weight) in &weights {
            let path = path(group)?;
            replay.weigh(Instant::ZERO, &path, *weight)?;
            replay.known(Instant::ZERO, &path)?;
        }
        replay.weights = weights;
        Ok(replay)
    }

    fn set(&mut self, now: Instant, name: &str, value: u64) -> Result<(), String> {
        let bfq = self.probe.scheduler();
        bfq.set(now, name, value, &mut self.env.cx()).map_err(|e| e.to_string())
    }

    /// Writes the general weight of a group. The device need not know the group yet.
    fn weigh(&mut self, now: Instant, path: &[&str], weight: u64) -> Result<(), String> {
        if path.is_empty() {
            return Err("the root group has no weight".to_string());
        }
        let at = self.group(path);
        let group = &mut self.groups[at];
        group.weight = Some(weight);
        if group.known { self.put_weight(now, at) } else { Ok(()) }
    }

    fn put_weight(&mut self, now: Instant, at: usize) -> Result<(), String> {
        let Group { id, weight, .. } = self.groups[at];
        let (bfq, mut cx) = self.bfq();
        bfq.set_group(now, id, "weight", weight, &mut cx).map_err(|e| e.to_string())
    }

    /// Writes its weight for this device, 0 to take it away.
    fn weigh_here(&mut self, now: Instant, path: &[&str], weight: u64) -> Result<(), String> {
        let id = self.known(now, path)?;
        let device = self.env.device.number;
        let line = match weight {
            0 => format!("{device} default"),
            weight => format!("{device} {weight}"),
        };
        let (bfq, mut cx) = self.bfq();
        bfq.write_knob(now, id, "io.bfq.weight", &line, &mut cx).map_err(|e| e.to_string())
    }

    fn bfq(&mut self) -> (&mut dyn Scheduler, hoistway::Cx<'_>) {
        (self.probe.scheduler(), self.env.cx())
    }

    /// What ours did otherwise.
    fn differ(&mut self, count: fn(&mut Differences) -> &mut u64, ours: String) {
        *count(&mut self.differences) += 1;
        self.differs.get_or_insert(ours);
    }

    fn has_differed(&self) -> bool {
        self.first.is_some() || self.differs.is_some()
    }

    fn step(&mut self, text: &str) -> Result<(), Stop> {
        let line = Line::split(text)?;
        if line.event == "expire" {
            self.compare_expiry(line.result);
            return Ok(());
        }
        if let Some(e) = self.probe.expiries().get(self.seen) {
            let ours = format!("a slot ended that did not: {}", expiry_text(e));
            self.differ(|d| &mut d.expiries, ours);
        }
        self.probe.forget_expiries();
        self.seen = 0;
        let now = self.clock(line.ns, line.tick)?;
        self.late_timer(now);
        match line.event {
            "merge" => self.merge(now, &line),
            "insert" => self.insert(now, &line),
            "dispatch" => self.dispatch(now, line.request()?),
            "complete" => self.complete(now, &line),
            "timer" => {
                self.timer(now);
                Ok(())
            }
            "exit" => self.exit(now, &line),
            "set" => {
                let (name, value) = line.setting()?;
                Ok(self.set(now, name, value)?)
            }
            "weight" => Ok(self.weigh(now, &line.group()?, number(line.result)?)?),
            "devweight" => Ok(self.weigh_here(now, &line.group()?, number(line.result)?)?),
            "remove" => self.remove(now, &line),
            "device" => Err("a device line is the second line".to_string().into()),
            other => Err(format!("no such event: '{other}'").into()),
        }
    }

    /// Time and tick of a call, which never go back.
    fn clock(&mut self, ns: &str, tick: &str) -> Result<Instant, String> {
        let now = Instant::from_nanos(number(ns)? / CLOCK_STEP * CLOCK_STEP);
        let ticks = number(tick)?;
        let at = ticks.checked_mul(self.tick).filter(|&at| at < TIMES);
        let at = at.ok_or_else(|| format!("tick {ticks} is later than any clock"))?;
        if now < self.last.0 || ticks < self.last.1 {
            return Err(format!("time goes back: {ns} ns, tick {tick}"));
        }
        self.last = (now, ticks);
        self.probe.set_tick(Instant::from_nanos(at));
        Ok(now)
    }

    /// The process of a line, with the priority it has there.
    fn proc(&mut self, line: &Line<'_>) -> Result<ProcId, String> {
        let at = line.ctx()?;
        if self.procs.len() <= at {
            self.procs.resize(at + 1, None);
        }
        let prio = line.prios()?.0;
        let proc = *self.procs[at].get_or_insert_with(|| self.env.procs.add(GroupId::ROOT, prio));
        self.env.procs.get_mut(proc).expect("just added").prio = prio;
        Ok(proc)
    }

    /// The group of a path, by its place in the list; it and what is above it are made if need be.
    fn group(&mut self, path: &[&str]) -> usize {
        let (mut parent, mut at) = (GroupId::ROOT, 0);
        for depth in 1..=path.len() {
            let name = path[..depth].join("/");
            at = match self.groups.iter().position(|g| g.path == name) {
                Some(at) => at,
                None => {
                    let id = self.env.groups.add(parent, path[depth - 1]);
                    self.groups.push(Group { path: name, id, weight: None, known: false });
                    self.groups.len() - 1
                }
            };
            parent = self.groups[at].id;
        }
        at
    }

    /// The group of a path, which has I/O for the device or a weight there: from then on BFQ knows it and
    /// what is above it.
    fn known(&mut self, now: Instant, path: &[&str]) -> Result<GroupId, String> {
        let mut id = GroupId::ROOT;
        for depth in 1..=path.len() {
            let at = self.group(&path[..depth]);
            if !std::mem::replace(&mut self.groups[at].known, true) {
                self.put_weight(now, at)?;
            }
            id = self.groups[at].id;
        }
        Ok(id)
    }

    /// The I/O of a line. `first` is the length of the bio it began with: a page or more at once is direct
    /// I/O, less a block buffer.
    fn io(&mut self, now: Instant, line: &Line<'_>, first: Option<u64>) -> Result<Io, String> {
        let mut io = line.io(self.max_sectors)?;
        io.group = self.known(now, &line.group()?)?;
        if !line.ctx.is_empty() {
            io.proc = self.proc(line)?;
        }
        let small = first.unwrap_or(io.sectors.0) < PAGE;
        let buffered = line.is_async() || (small && io.op == hoistway::Op::Write);
        io.segments = io.sectors.0.div_ceil(if buffered { self.buffer } else { PAGE }) as u32;
        Ok(io)
    }

    // The elevator's merge search, as the stack has it.

    fn compatible(&self, io: &Io, id: ReqId) -> bool {
        let r = &self.env.requests[id];
        r.op == io.op
            && r.group == io.group
            && r.prio == io.prio
            && alike(r.flags, io.flags)
            && !r.flags.any(Flags::NOMERGE)
    }

    fn may_merge(&mut self, now: Instant, io: &Io, id: ReqId) -> bool {
        if !self.compatible(io, id) {
            return false;
        }
        let (bfq, mut cx) = self.bfq();
        bfq.may_merge(now, io, id, &mut cx)
    }

    fn search(&mut self, now: Instant, io: &Io) -> Option<(ReqId, Side)> {
        let hit = self.elevator.one_hit();
        if hit != NIL {
            let id = self.env.requests.at(hit).id;
            if self.may_merge(now, io, id) {
                let r = &self.env.requests[id];
                if r.end() == io.start {
                    return Some((id, Side::Back));
                }
                if io.end() == r.start {
                    return Some((id, Side::Front));
                }
            }
        }
        let behind = self.elevator.find(io.start);
        if behind != NIL {
            let id = self.env.requests.at(behind).id;
            if self.may_merge(now, io, id) {
                return Some((id, Side::Back));
            }
        }
        let (bfq, mut cx) = self.bfq();
        let (id, side) = bfq.find_merge(now, io, &mut cx)?;
        self.may_merge(now, io, id).then_some((id, side))
    }

    fn fits(&self, r: &Request, sectors: Sectors, segments: u32) -> bool {
        r.sectors.0 + sectors.0 <= self.max_sectors && r.segments + segments <= self.max_segments
    }

    fn try_merge(&mut self, now: Instant, io: &Io) -> Result<bool, Stop> {
        let Some((id, side)) = self.search(now, io) else { return Ok(false) };
        if !self.fits(&self.env.requests[id], io.sectors, io.segments) {
            self.env.requests.get_mut(id).flags |= Flags::NOMERGE;
            self.elevator.forget(id.slot());
            return Ok(false);
        }
        let bio = self.env.requests.add_bio(*io, now).ok_or(Stop::Apart)?;
        self.env.requests.join_bio(id, bio, side);
        if let Some(other) = self.probe.scheduler().neighbour(id, side, &self.env.cx()) {
            let (front, back) = if side == Side::Back { (id, other) } else { (other, id) };
            if self.joinable(front, back) {
                self.join(now, front, back);
                return Ok(true);
            }
        }
        let (bfq, mut cx) = self.bfq();
        bfq.merged(now, id, Merged::Bio(side), &mut cx);
        if side == Side::Back {
            let end = self.env.requests[id].end();
            self.elevator.rehash(id.slot(), end);
        }
        self.elevator.set_one_hit(id.slot());
        Ok(true)
    }

    fn joinable(&self, front: ReqId, back: ReqId) -> bool {
        let (f, b) = (&self.env.requests[front], &self.env.requests[back]);
        f.op == b.op
            && f.end() == b.start
            && f.prio == b.prio
            && f.group == b.group
            && alike(f.flags, b.flags)
            && !(f.flags | b.flags).any(Flags::NOMERGE)
            && self.fits(f, b.sectors, b.segments)
    }

    fn join(&mut self, now: Instant, kept: ReqId, gone: ReqId) {
        let (bfq, mut cx) = self.bfq();
        bfq.merged(now, kept, Merged::Request(gone), &mut cx);
        self.elevator.remove(gone.slot());
        self.names.forget(gone);
        self.env.requests.join(kept, gone);
        let end = self.env.requests[kept].end();
        self.elevator.rehash(kept.slot(), end);
        self.elevator.set_one_hit(kept.slot());
    }

    // Events.

    fn merge(&mut self, now: Instant, line: &Line<'_>) -> Result<(), Stop> {
        let io = self.io(now, line, None)?;
        let merged = self.try_merge(now, &io)?;
        self.counts.offered += 1;
        self.counts.merged += u64::from(merged);
        if line.result == "0" {
            self.offered.insert(io.start.0, io.sectors.0);
        }
        if merged != (line.result == "1") {
            let not = if merged { "" } else { "not " };
            let ours = format!("bio of context {} {not}merged", line.ctx);
            self.differ(|d| &mut d.merges, ours);
        }
        Ok(())
    }

    fn insert(&mut self, now: Instant, line: &Line<'_>) -> Result<(), Stop> {
        let at = match line.result {
            "head" => At::Head,
            "" | "merged" => At::Tail,
            other => return Err(format!("an insertion does not end with '{other}'").into()),
        };
        let first = self.offered.remove(&line.io(self.max_sectors)?.start.0);
        let io = self.io(now, line, first)?;
        let id = self.env.requests.create(io, !line.is_async(), QueueId(0), now);
        let id = match id {
            Some(id) => id,
            None if self.has_differed() => return Err(Stop::Apart),
            None => return Err(format!("more than {SLOTS} requests at a time").into()),
        };
        let (bfq, mut cx) = self.bfq();
        bfq.prepare(now, id, &mut cx);
        self.counts.inserted += 1;
        let absorbed = at == At::Tail && self.merge_at_insertion(now, id);
        if absorbed != (line.result == "merged") {
            self.differ(|d| &mut d.insertions, format!("absorbed at insertion: {absorbed}"));
        }
        if absorbed {
            return Ok(());
        }
        let number = line.request()?;
        if number.is_none() && line.result != "merged" {
            return Err("a request without a number".to_string().into());
        }
        self.names.inserted(id, number);
        let (bfq, mut cx) = self.bfq();
        bfq.insert(now, id, at, &mut cx);
        if at == At::Tail {
            let end = self.env.requests[id].end();
            self.elevator.add(id.slot(), end);
        }
        Ok(())
    }

    fn merge_at_insertion(&mut self, now: Instant, new: ReqId) -> bool {
        let hit = self.elevator.one_hit();
        if hit != NIL {
            let front = self.env.requests.at(hit).id;
            if self.joinable(front, new) {
                self.join(now, front, new);
                return true;
            }
        }
        let (mut absorbed, mut at) = (false, new);
        // Each turn removes a request.
        loop {
            let before = self.elevator.find(self.env.requests[at].start);
            if before == NIL {
                return absorbed;
            }
            let front = self.env.requests.at(before).id;
            if !self.joinable(front, at) {
                return absorbed;
            }
            self.join(now, front, at);
            (absorbed, at) = (true, front);
        }
    }

    fn dispatch(&mut self, now: Instant, recorded: Option<usize>) -> Result<(), Stop> {
        self.counts.dispatches += 1;
        let (bfq, mut cx) = self.bfq();
        let answer = bfq.dispatch(now, QueueId(0), &mut cx);
        let ours = match answer {
            Dispatch::Issue(id) => {
                self.elevator.remove(id.slot());
                Some(id)
            }
            Dispatch::Idle | Dispatch::Empty => None,
        };
        let number = ours.and_then(|id| self.names.number(id));
        if ours.is_some() != recorded.is_some() || number != recorded {
            let what = match (ours, number) {
                (Some(_), Some(n)) => format!("dispatched {n}"),
                (Some(_), None) => "dispatched a request that the recording has not".to_string(),
                (None, _) => format!("dispatched nothing ({answer:?})"),
            };
            self.differ(|d| &mut d.dispatches, what);
        }
        if let Some(done) = self.names.dispatched(ours, recorded) {
            self.names.forget(done);
            self.finish(now, done);
        }
        Ok(())
    }

    fn complete(&mut self, now: Instant, line: &Line<'_>) -> Result<(), Stop> {
        let number = line.request()?.ok_or_else(|| "which request?".to_string())?;
        match self.names.completed(number) {
            Some(id) => self.finish(now, id),
            None if self.has_differed() => {}
            None => return Err(format!("request {number} is not at the device").into()),
        }
        Ok(())
    }

    fn finish(&mut self, now: Instant, id: ReqId) {
        let (bfq, mut cx) = self.bfq();
        bfq.complete(now, id, &mut cx);
        self.env.requests.remove(id);
    }

    fn timer(&mut self, now: Instant) {
        self.counts.timers += 1;
        let (bfq, mut cx) = self.bfq();
        match bfq.next_timer() {
            // A clock that stands still in between shows it up to a step early.
            Some(at) if at < now + Nanos(CLOCK_STEP) => bfq.timer(now.max(at), &mut cx),
            other => {
                self.differ(|d| &mut d.timers, format!("the timer is not due: {other:?}"));
            }
        }
    }

    /// Once the two differ, the recording does not say when a timer of ours fires.
    fn late_timer(&mut self, now: Instant) {
        if self.first.is_some() && self.probe.scheduler().next_timer().is_some_and(|at| at < now) {
            let (bfq, mut cx) = self.bfq();
            bfq.timer(now, &mut cx);
        }
    }

    fn exit(&mut self, now: Instant, line: &Line<'_>) -> Result<(), Stop> {
        let at = line.ctx()?;
        // One that never issued anything has no context.
        let Some(proc) = self.procs.get_mut(at).and_then(Option::take) else { return Ok(()) };
        self.env.procs.get_mut(proc).expect("it is known").alive = false;
        self.changed(now, Change::ProcExited(proc));
        Ok(())
    }

    fn remove(&mut self, now: Instant, line: &Line<'_>) -> Result<(), Stop> {
        let path = line.group()?;
        if path.is_empty() {
            return Err("the root group is not removed".to_string().into());
        }
        let name = path.join("/");
        let below = format!("{name}/");
        if self.groups.iter().any(|g| g.path.starts_with(&below)) {
            return Err(format!("group {name} has groups below it").into());
        }
        let at = self.group(&path);
        let Group { id, .. } = self.groups.remove(at);
        self.changed(now, Change::GroupRemoved(id));
        self.env.groups.remove(id);
        Ok(())
    }

    fn changed(&mut self, now: Instant, change: Change) {
        let (bfq, mut cx) = self.bfq();
        bfq.changed(now, &change, &mut cx);
    }

    fn compare_expiry(&mut self, recorded: &str) {
        self.counts.expiries += 1;
        let ours = self.probe.expiries().get(self.seen).map(expiry_text);
        match ours {
            None => self.differ(|d| &mut d.expiries, "no slot ended".to_string()),
            Some(ours) => {
                self.seen += 1;
                if ours != recorded {
                    self.differ(|d| &mut d.expiries, ours);
                }
            }
        }
    }
}

/// Both or neither pass the controllers at once, as the stack asks.
fn alike(a: Flags, b: Flags) -> bool {
    a.issue_as_root() == b.issue_as_root()
}

fn expiry_text(e: &Expiry) -> String {
    let reason = match e.reason {
        Reason::TooIdle => "too_idle",
        Reason::Timeout => "timeout",
        Reason::Exhausted => "exhausted",
        Reason::NoMore => "no_more",
        Reason::Preempted => "preempted",
    };
    let slow = u8::from(e.slow);
    let Expiry { service, max_budget, start, finish, .. } = e;
    format!(
        "{reason} slow={slow} service={service} max_budget={max_budget} start={start} finish={finish}"
    )
}
