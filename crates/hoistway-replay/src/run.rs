//! The comparison: one line after the other into a BFQ of ours.

use crate::inside::{Inside, living};
use crate::line::{DeviceLine, HEADER, HEADER_2, Line, number, path};
use crate::names::Names;
use crate::subject::{Subject, Time};
use crate::{
    Counts, Difference, Differences, LEFT_OUT, Mistake, Outcome, Recorded, left_out, version,
};
use hoistway::device::{Device, Tags};
use hoistway::env::Env;
use hoistway::group::{GroupId, ProcId};
use hoistway::merge::Elevator;
use hoistway::request::{Io, Op, ReqId};
use hoistway::sched::bfq::probe::{Expiry, Reason};
use hoistway::sched::{At, Depth, Dispatch, Open, Scheduler};
use hoistway::stage::Change;
use hoistway::trace::Trace;
use hoistway::unit::{Instant, IoPrio, Nanos, QueueId, Sectors};
use std::collections::BTreeMap;

pub fn replay(recording: &str, recorded: &Recorded) -> Result<Outcome, Mistake> {
    let wrong = |line, what| Mistake::Line { line, what };
    let mut lines = (1..).zip(recording.lines()).peekable();
    let first = lines.next().map_or("", |(_, text)| text);
    let form = match first {
        HEADER => Form::First,
        HEADER_2 => Form::Second,
        _ => return Err(wrong(1, format!("not a recording: it must begin with '{HEADER}'"))),
    };
    let device = match lines.next_if(|(_, text)| text.starts_with("device,")) {
        Some((line, text)) => {
            Some(Line::split(text).and_then(|l| l.device()).map_err(|e| wrong(line, e))?)
        }
        None if form == Form::Second => {
            return Err(wrong(2, "the second line must be the device's".to_string()));
        }
        None => None,
    };
    let mut replay = Replay::new(recorded, form, device).map_err(Mistake::Setting)?;
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
            let (recorded, state) = (text.to_string(), replay.describe());
            replay.first = Some(Difference { line, recorded, ours, state });
        }
    }
    Ok(Outcome {
        weights: replay.weights,
        counts: replay.counts,
        differences: replay.differences,
        first: replay.first,
        given_up: replay.given_up,
        processes: Vec::new(),
        left_out: left_out(recording),
    })
}

/// Why a line ends the comparison.
pub enum Stop {
    Unreadable(String),
    /// After a difference: the recording and ours have too little in common to go on.
    Apart,
}

impl From<String> for Stop {
    fn from(what: String) -> Stop {
        Stop::Unreadable(what)
    }
}

/// From here on a limit of tags is one for all of them and not for each word: upstream from 6.17 on, and 6.12.117.
const PLAIN_TAGS: (u32, u32) = (6, 12);
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

/// The two forms of recordings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// Of BFQ, with its expiries and without the segments of a request.
    First,
    /// Of any scheduler: calls and answers.
    Second,
}

pub struct Replay {
    pub(crate) env: Env,
    pub(crate) subject: Subject,
    form: Form,
    /// The recording says when timers fire.
    timers: bool,
    /// It is of ours inside the kernel, with what else that is told.
    pub(crate) inside: Option<Inside>,
    pub(crate) elevator: Elevator,
    tick: u64,
    /// Sectors of a block buffer.
    buffer: u64,
    pub(crate) names: Names,
    /// Ours that were given back and come again, by their numbers.
    returned: BTreeMap<usize, ReqId>,
    /// Length of a bio that was offered and not merged, by its first sector: the first of the request that is
    /// inserted there.
    offered: BTreeMap<u64, u64>,
    /// The time and tick of the last call.
    last: (Instant, u64),
    pub(crate) procs: Vec<Option<ProcId>>,
    /// Paths of the groups that exist.
    groups: Vec<Group>,
    /// Weights it began with.
    weights: Vec<(String, u64)>,
    /// Expiries of the last event that were compared.
    seen: usize,
    pub(crate) counts: Counts,
    differences: Differences,
    /// What ours did instead of the present line.
    differs: Option<String>,
    first: Option<Difference>,
    given_up: Option<usize>,
}

impl Replay {
    fn new(
        recorded: &Recorded,
        form: Form,
        told: Option<DeviceLine<'_>>,
    ) -> Result<Replay, String> {
        let rotational = told.map_or(recorded.rotational, |told| told.rotational);
        let told = told.unwrap_or_default();
        let tick = told.tick_ns.filter(|&ns| ns > 0).map_or(recorded.tick, Nanos);
        let mut device = Device::new(Sectors(1 << 40), SLOTS as u32);
        device.rotational = rotational;
        device.tick = tick;
        if let Some(tags) = told.tags {
            device.nr_requests = u32::try_from(tags).unwrap_or(u32::MAX).max(1);
            device.tags_made_for = device.nr_requests;
        }
        if let Some(depth) = told.depth {
            device.queue_depth = u32::try_from(depth).unwrap_or(u32::MAX).max(1);
        }
        if told.release.is_some_and(|release| version(release) >= PLAIN_TAGS) {
            device.tags = Tags::Plain;
        }
        device.max_sectors = told.max_sectors.map_or(recorded.max_sectors, Sectors);
        device.max_discard_sectors = device.max_sectors;
        let max_segments = told.max_segments.map(|n| u32::try_from(n).unwrap_or(u32::MAX));
        device.max_segments = max_segments.unwrap_or(recorded.max_segments);
        let cut = device.max_sectors;
        let mut env = Env::new(device, SLOTS, 4 * SLOTS);
        env.trace = Trace::off();
        if told.inside {
            // Nobody, whose number the module gives away first.
            env.procs.add(GroupId::ROOT, IoPrio::NONE);
        }
        let created = told.created_tick.checked_mul(tick.0).filter(|&at| at < TIMES);
        let created = created.ok_or("the tick of creation is later than any clock")?;
        let created = Instant::from_nanos(created);
        let name = told.scheduler.unwrap_or("bfq");
        let exact = told.created_ns.filter(|&at| at < TIMES).map(Instant::from_nanos);
        let subject = Subject::new(name, &env.device, SLOTS, created, exact.unwrap_or(created))?;
        let usual = if rotational { 4 } else { 1 };
        let buffer_kib = recorded.buffer_kib.unwrap_or(usual);
        let mut replay = Replay {
            env,
            subject,
            form,
            timers: form == Form::First || told.timers,
            inside: told.inside.then(|| Inside::new(cut)),
            elevator: Elevator::new(SLOTS),
            tick: tick.0,
            buffer: 2 * u64::from(buffer_kib.max(1)),
            names: Names::new(SLOTS),
            returned: BTreeMap::new(),
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
        for (name, value) in recorded.settings(name) {
            replay.set(Instant::ZERO, &name, value)?;
        }
        let weights = if told.noweights || !name.ends_with("bfq") {
            recorded.weights.clone()
        } else {
            recorded.all_weights()
        };
        for (group, weight) in &weights {
            let path = path(group)?;
            replay.weigh(Instant::ZERO, &path, *weight)?;
            replay.known(Instant::ZERO, &path)?;
        }
        replay.weights = weights;
        replay.settle_cut();
        Ok(replay)
    }

    fn set(&mut self, now: Instant, name: &str, value: u64) -> Result<(), String> {
        let (sched, mut cx) = self.scheduler();
        let done = sched.set(now, name, value, &mut cx).map_err(|e| e.to_string());
        self.settle_cut();
        done
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
        if !self.subject.weighs_groups() {
            return Ok(());
        }
        let Group { id, weight, .. } = self.groups[at];
        let (sched, mut cx) = self.scheduler();
        sched.set_group(now, id, "weight", weight, &mut cx).map_err(|e| e.to_string())
    }

    /// Writes its weight for this device, 0 to take it away.
    fn weigh_here(&mut self, now: Instant, path: &[&str], weight: u64) -> Result<(), String> {
        let id = self.known(now, path)?;
        let device = self.env.device.number;
        let line = match weight {
            0 => format!("{device} default"),
            weight => format!("{device} {weight}"),
        };
        let (sched, mut cx) = self.scheduler();
        sched.write_knob(now, id, "io.bfq.weight", &line, &mut cx).map_err(|e| e.to_string())
    }

    pub(crate) fn scheduler(&mut self) -> (&mut dyn Scheduler, hoistway::Cx<'_>) {
        (self.subject.scheduler(), self.env.cx())
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
        if self.form == Form::First
            && let Some(e) = self.subject.expiries().get(self.seen)
        {
            let ours = format!("a slot ended that did not: {}", expiry_text(e));
            self.differ(|d| &mut d.expiries, ours);
        }
        self.subject.forget_expiries();
        self.seen = 0;
        let now = self.clock(line.ns, line.tick)?;
        self.late_timer(now, line.event);
        match line.event {
            "merge" => self.merge(now, &line),
            "insert" => self.insert(now, &line),
            "dispatch" => self.dispatch(now, line.request()?),
            "complete" => self.complete(now, &line),
            "sample" => self.sample(&line),
            "timer" => {
                self.timer(now);
                Ok(())
            }
            "requeue" => self.requeue(now, &line),
            "limit" => self.limit(now, &line),
            "proc" => Ok(self.proc_line(now, &line)?),
            "flush" => Ok(self.flush(now, &line)?),
            "exit" => self.exit(now, &line),
            "set" => {
                let (name, value) = line.setting()?;
                Ok(self.set(now, name, value)?)
            }
            "weight" => Ok(self.weigh(now, &line.group()?, number(line.result)?)?),
            "devweight" => Ok(self.weigh_here(now, &line.group()?, number(line.result)?)?),
            "remove" => self.remove(now, &line),
            LEFT_OUT => Ok(()),
            "device" => Err("a device line is the second line".to_string().into()),
            other => Err(format!("no such event: '{other}'").into()),
        }
    }

    /// Time and tick of a call, which never go back.
    fn clock(&mut self, ns: &str, tick: &str) -> Result<Instant, String> {
        let ns_read = number(ns)?;
        let now = match self.form {
            Form::First => ns_read / CLOCK_STEP * CLOCK_STEP,
            Form::Second => ns_read,
        };
        let now = Instant::from_nanos(now);
        let ticks = number(tick)?;
        let at = ticks.checked_mul(self.tick).filter(|&at| at < TIMES);
        let at = at.ok_or_else(|| format!("tick {ticks} is later than any clock"))?;
        if now < self.last.0 || ticks < self.last.1 {
            return Err(format!("time goes back: {ns} ns, tick {tick}"));
        }
        self.last = (now, ticks);
        let at = Instant::from_nanos(at);
        self.subject.set_tick(at);
        Ok(if self.subject.time() == Time::Ticks { at } else { now })
    }

    /// The process of a line, with the priority it has there.
    fn proc(&mut self, line: &Line<'_>) -> Result<ProcId, String> {
        let at = line.ctx()?;
        if self.procs.len() <= at {
            self.procs.resize(at + 1, None);
        }
        let prio = line.prios()?.0;
        if self.inside.is_some() {
            return self.procs[at].ok_or_else(|| format!("no line has told of process {at}"));
        }
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
                    // The module numbers a group with its first I/O.
                    let id = match self.inside {
                        Some(_) => GroupId::ROOT,
                        None => self.env.groups.add(parent, path[depth - 1]),
                    };
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
    pub(crate) fn known(&mut self, now: Instant, path: &[&str]) -> Result<GroupId, String> {
        let mut id = GroupId::ROOT;
        let path = if self.inside.is_some() { living(path) } else { path };
        for depth in 1..=path.len() {
            let at = self.group(&path[..depth]);
            if !std::mem::replace(&mut self.groups[at].known, true) {
                if self.inside.is_some() {
                    self.groups[at].id = self.env.groups.add(id, path[depth - 1]);
                    self.changed(now, Change::GroupAdded(self.groups[at].id));
                }
                self.put_weight(now, at)?;
            }
            id = self.groups[at].id;
        }
        Ok(id)
    }

    /// The I/O of a line. `first` is the length of the bio it began with: a page or more at once is direct
    /// I/O, less a block buffer.
    fn io(&mut self, now: Instant, line: &Line<'_>, first: Option<u64>) -> Result<Io, String> {
        let mut io = line.io(self.env.device.max_sectors.0)?;
        io.group = self.known(now, &line.group()?)?;
        io.proc = if line.ctx.is_empty() { self.nobody() } else { self.proc(line)? };
        if !line.segments.is_empty() {
            io.segments = line.segments()?;
            return Ok(io);
        }
        let small = first.unwrap_or(io.sectors.0) < PAGE;
        let buffered = line.is_async() || (small && io.op == Op::Write);
        io.segments = io.sectors.0.div_ceil(if buffered { self.buffer } else { PAGE }) as u32;
        Ok(io)
    }

    // Events.

    fn merge(&mut self, now: Instant, line: &Line<'_>) -> Result<(), Stop> {
        let io = self.io(now, line, None)?;
        let recorded = line.request()?.and_then(|number| self.names.request(number));
        let joined = self.try_merge(now, &io, recorded)?;
        let merged = joined.is_some();
        self.counts.offered += 1;
        self.counts.merged += u64::from(merged);
        if line.result == "0" {
            self.offered.insert(io.start.0, io.sectors.0);
        }
        if merged != (line.result == "1") {
            let not = if merged { "" } else { "not " };
            let ours = format!("bio of context {} {not}merged", line.ctx);
            self.differ(|d| &mut d.merges, ours);
        } else if let (Some(id), Some(recorded)) = (joined, line.request()?)
            && self.names.number(id) != Some(recorded)
        {
            let ours = format!("the bio joined request {:?}", self.names.number(id));
            self.differ(|d| &mut d.merges, ours);
        }
        Ok(())
    }

    /// How many tags of a word the scheduler lets a request have: 0 stands for all.
    fn limit(&mut self, now: Instant, line: &Line<'_>) -> Result<(), Stop> {
        let mut io = line.kind()?;
        io.prio = line.prios()?.1;
        io.group = self.known(now, &line.group()?)?;
        io.proc = if line.ctx.is_empty() { self.nobody() } else { self.proc(line)? };
        // A word of a small set has no more places than there are tags.
        let word = self.env.device.tag_word().min(self.env.device.nr_requests.max(1));
        let all = |depth| if depth >= word { 0 } else { depth };
        let (sched, mut cx) = self.scheduler();
        let ours = match sched.depth_limit(now, &io, &mut cx) {
            Depth::Usual | Depth::Insist => 0,
            Depth::Word(depth) => all(depth),
        };
        let recorded = u32::try_from(number(line.result)?).map_or(0, all);
        self.counts.limits += 1;
        if ours != recorded {
            self.differ(
                |d| &mut d.limits,
                format!("{ours} places of a word of {word} tags (0: all)"),
            );
        }
        Ok(())
    }

    /// The device gave it back; it is inserted again later.
    fn requeue(&mut self, now: Instant, line: &Line<'_>) -> Result<(), Stop> {
        let number = line.request()?.ok_or_else(|| "which request?".to_string())?;
        let Some(id) = self.names.completed(number) else {
            let what = format!("request {number} is not at the device");
            return if self.has_differed() { Ok(()) } else { Err(what.into()) };
        };
        if self.inside.is_none() {
            let (sched, mut cx) = self.scheduler();
            sched.requeue(now, id, &mut cx);
        }
        self.returned.insert(number, id);
        Ok(())
    }

    fn insert(&mut self, now: Instant, line: &Line<'_>) -> Result<(), Stop> {
        let merged = line.says("merged");
        let at = match line.result.split_whitespace().find(|word| !word.contains('=')) {
            Some("head") => At::Head,
            None | Some("merged") => At::Tail,
            Some(other) => return Err(format!("an insertion does not end with '{other}'").into()),
        };
        if let Some(id) = line.request()?.and_then(|number| self.returned.remove(&number)) {
            self.names.inserted(id, line.request()?);
            self.comes_again(now, id, at);
            return Ok(());
        }
        let first = self.offered.remove(&line.io(self.env.device.max_sectors.0)?.start.0);
        let io = self.io(now, line, first)?;
        let sync = self.env.device.is_sync(io.op, io.flags);
        let id = self.env.requests.create(io, sync, QueueId(0), now);
        let id = match id {
            Some(id) => id,
            None if self.has_differed() => return Err(Stop::Apart),
            None => return Err(format!("more than {SLOTS} requests at a time").into()),
        };
        self.begin(id, line)?;
        let (sched, mut cx) = self.scheduler();
        sched.prepare(now, id, &mut cx);
        self.counts.inserted += 1;
        let open = self.open(id, at);
        let absorbed = open == Open::Full && self.merge_at_insertion(now, id);
        if absorbed != merged {
            self.differ(|d| &mut d.insertions, format!("absorbed at insertion: {absorbed}"));
        }
        if absorbed {
            return Ok(());
        }
        let number = line.request()?;
        if number.is_none() && !merged {
            return Err("a request without a number".to_string().into());
        }
        self.names.inserted(id, number);
        self.take_in(now, id, at, open);
        Ok(())
    }

    /// Which merges a request takes part in that is inserted there.
    fn open(&mut self, id: ReqId, at: At) -> Open {
        let (sched, cx) = self.scheduler();
        if at == At::Tail { sched.open(id, &cx) } else { Open::Closed }
    }

    fn take_in(&mut self, now: Instant, id: ReqId, at: At, open: Open) {
        let (sched, mut cx) = self.scheduler();
        sched.insert(now, id, at, &mut cx);
        if open != Open::Closed && self.mergeable(id) {
            let end = self.env.requests[id].end();
            self.elevator.add(id.slot(), end);
        }
    }

    /// The scheduler's answer, after what it has kept apart is inserted again, which a recording does not say.
    fn ask(&mut self, now: Instant) -> Dispatch {
        loop {
            let (sched, mut cx) = self.scheduler();
            let answer = sched.dispatch(now, QueueId(0), &mut cx);
            while let Some(slot) = self.env.closed.pop() {
                self.elevator.remove(slot);
            }
            if answer != Dispatch::Idle || !self.insert_again(now) {
                return answer;
            }
        }
    }

    fn insert_again(&mut self, now: Instant) -> bool {
        let mut any = false;
        loop {
            let (sched, mut cx) = self.scheduler();
            let Some(id) = sched.reinsert(now, &mut cx) else { return any };
            any = true;
            let open = self.open(id, At::Tail);
            if open != Open::Full || !self.merge_at_insertion(now, id) {
                self.take_in(now, id, At::Tail, open);
            }
        }
    }

    fn dispatch(&mut self, now: Instant, recorded: Option<usize>) -> Result<(), Stop> {
        self.counts.dispatches += 1;
        let answer = self.ask(now);
        let ours = match answer {
            Dispatch::Issue(id) => {
                self.elevator.remove(id.slot());
                if self.inside.is_some() {
                    self.env.requests.get_mut(id).issued = now;
                }
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
            Some(id) => {
                // Inside, the module knows them earlier.
                let (start, issue) = match self.inside {
                    Some(_) => (None, None),
                    None => (line.figure("start")?, line.figure("issue")?),
                };
                let end = line.figure("end")?.map_or(now, Instant::from_nanos);
                let r = self.env.requests.get_mut(id);
                start.into_iter().for_each(|at| r.began = Instant::from_nanos(at));
                issue.into_iter().for_each(|at| r.issued = Instant::from_nanos(at));
                self.finish(end, id);
            }
            None if self.has_differed() => {}
            None => return Err(format!("request {number} is not at the device").into()),
        }
        Ok(())
    }

    /// A step of a flush sequence has ended, of which the scheduler has seen nothing else.
    fn sample(&mut self, line: &Line<'_>) -> Result<(), Stop> {
        if line.op == "F" && self.inside.is_none() {
            // Nobody measures those.
            return Ok(());
        }
        let instant = |name| -> Result<Instant, String> {
            let at = line.figure(name)?;
            at.map(Instant::from_nanos).ok_or_else(|| format!("'{}' has no {name}=", line.result))
        };
        let (start, issue, end) = (instant("start")?, instant("issue")?, instant("end")?);
        let (mut io, unsent) = (line.kind()?, line.says("unsent") && self.inside.is_some());
        let sync = self.env.device.is_sync(io.op, io.flags);
        io.op = if unsent { Op::Flush } else { io.op };
        let Some(id) = self.env.requests.create(io, sync, QueueId(0), start) else {
            return Err(Stop::Apart);
        };
        let r = self.env.requests.get_mut(id);
        (r.began, r.issued) = (start, issue);
        self.bypassed(end, id, unsent);
        self.env.requests.remove(id);
        Ok(())
    }

    fn finish(&mut self, now: Instant, id: ReqId) {
        let (sched, mut cx) = self.scheduler();
        sched.complete(now, id, &mut cx);
        self.env.requests.remove(id);
        self.settle_cut();
    }

    fn timer(&mut self, now: Instant) {
        self.counts.timers += 1;
        let early = match self.subject.time() {
            // A clock that stands still in between shows it up to a step early.
            Time::Both => Nanos(CLOCK_STEP),
            // It fires at the edge of a tick, which the tick counter may show earlier than the clock.
            Time::Ticks | Time::Exact => Nanos(self.tick),
        };
        let (sched, mut cx) = self.scheduler();
        match sched.next_timer() {
            Some(at) if at < now + early => sched.timer(now.max(at), &mut cx),
            other => {
                self.differ(|d| &mut d.timers, format!("the timer is not due: {other:?}"));
            }
        }
    }

    /// A timer of ours that is over: the recording does not say when it fired, or does not once the two differ.
    fn late_timer(&mut self, now: Instant, event: &str) {
        let Some(at) = self.subject.scheduler().next_timer().filter(|&at| at < now) else { return };
        let late = now.since(at) > Nanos(2 * self.tick);
        if self.form == Form::Second && self.timers && event != "timer" && late {
            self.differ(|d| &mut d.timers, format!("a timer fired at {} ns", at.as_nanos()));
        }
        if self.first.is_some() || !self.timers || (self.form == Form::Second && late) {
            let (sched, mut cx) = self.scheduler();
            sched.timer(now, &mut cx);
        }
    }

    fn exit(&mut self, now: Instant, line: &Line<'_>) -> Result<(), Stop> {
        let at = line.ctx()?;
        // One that never issued anything has no context.
        let Some(proc) = self.procs.get_mut(at).and_then(Option::take) else { return Ok(()) };
        self.env.procs.get_mut(proc).expect("it is known").alive = false;
        self.changed(now, Change::ProcExited(proc));
        self.gone(proc);
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
        let Group { id, known, .. } = self.groups.remove(at);
        if self.inside.is_some() {
            if !known {
                return Ok(());
            }
            self.leave(now, id);
        }
        self.changed(now, Change::GroupRemoved(id));
        self.env.groups.remove(id);
        Ok(())
    }

    /// The state of ours at a difference: the scheduler's, and the requests that wait or are at the device.
    fn describe(&self) -> String {
        let mut text = self.subject.describe();
        for (number, id) in self.names.alive() {
            let r = &self.env.requests[id];
            text += &format!(
                "request {number}: {:?} {} +{} {:?}{}\n",
                r.op,
                r.start.0,
                r.sectors.0,
                r.prio,
                if self.names.at_device(id) { ", at the device" } else { "" }
            );
        }
        text
    }

    pub(crate) fn changed(&mut self, now: Instant, change: Change) {
        let (sched, mut cx) = self.scheduler();
        sched.changed(now, &change, &mut cx);
    }

    fn compare_expiry(&mut self, recorded: &str) {
        self.counts.expiries += 1;
        let ours = self.subject.expiries().get(self.seen).map(expiry_text);
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
