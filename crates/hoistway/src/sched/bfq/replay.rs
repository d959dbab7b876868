//! Decision replay: a recording of every call into a BFQ is fed to this one, and each merge verdict, each
//! dispatched request and each expiry is compared.
//!
//! A recording is a table of comma-separated lines, `event,ns,tick,request,ctx,sector,sectors,op,level,
//! group,result`, in the order of the calls:
//!
//! ```text
//!   merge      a bio is offered for merging; result 1 = merged (ctx empty: no context yet)
//!   insert     request number `request` is prepared and inserted; result `merged` = absorbed
//!   dispatch   the scheduler is asked; `request` is its answer, empty = nothing
//!   complete   the device has served `request`
//!   timer      the idle timer fired
//!   expire     follows the event that caused it: "reason slow=0 service=s max_budget=b start=v finish=v"
//! ```
//!
//! `ns` is the time of the call, `tick` the tick counter, which may lag the time. Around the scheduler
//! stands the elevator's merge search (specs/blk-mq-and-noop.md section 3) and nothing else: the recording
//! says what came when.

use super::budget::{Expiry, Reason};
use super::{Bfq, ENTRY};
use crate::device::Device;
use crate::env::Env;
use crate::group::{GroupId, ProcId};
use crate::request::{Flags, Io, IoId, Op, ReqId, Side};
use crate::sched::{At, Dispatch, Merged, Scheduler, Setup};
use crate::stack::elevator::Elevator;
use crate::table::NIL;
use crate::trace::Trace;
use crate::unit::{Instant, IoPrio, Nanos, QueueId, Sectors};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

/// The device and the settings a recording was made with.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// Spinning disk.
    pub rotational: bool,
    /// Length of a tick.
    pub tick: Nanos,
    /// Largest request built by merging.
    pub max_sectors: Sectors,
    /// Tunables of the scheduler, in the order they are set.
    pub tunables: Vec<(String, u64)>,
    /// Weights by group name; other groups have the default.
    pub weights: Vec<(String, u64)>,
}

/// The first line of every recording.
const HEADER: &str = "event,ns,tick,request,ctx,sector,sectors,op,level,group,result";
/// Weights of the groups in the recordings of Linux 6.1.
const WEIGHTS: [(&str, u64); 6] =
    [("a", 300), ("b", 100), ("w0", 100), ("w1", 200), ("w2", 300), ("w3", 400)];

impl Recorded {
    /// How the recordings of Linux 6.1 were made: flash, a tick of 10 ms, requests up to 512 KiB, a
    /// clock that stands still while a call lasts (hence `first_think`), group weights 100 to 400.
    pub fn linux_6_1(low_latency: bool) -> Recorded {
        let tunables = [("base", 0), ("first_think", 1), ("low_latency", low_latency.into())];
        Recorded {
            rotational: false,
            tick: Nanos::ms(10),
            max_sectors: Sectors(1024),
            tunables: tunables.map(|(name, value)| (name.to_string(), value)).into(),
            weights: WEIGHTS.map(|(name, weight)| (name.to_string(), weight)).into(),
        }
    }

    /// The same, with `low_latency` as the name of the file tells (`tags16.bfq-ll0.SCENARIO.csv.gz`).
    pub fn named(file: &str) -> Recorded {
        Recorded::linux_6_1(!file.split('.').any(|part| part == "bfq-ll0"))
    }

    /// Sets a tunable of the scheduler, in place of its earlier value if it has one.
    pub fn set(&mut self, name: &str, value: u64) {
        put(&mut self.tunables, name, value);
    }

    /// Sets the weight of a group, in place of its earlier one if it has one.
    pub fn set_weight(&mut self, group: &str, weight: u64) {
        put(&mut self.weights, group, weight);
    }
}

fn put(list: &mut Vec<(String, u64)>, name: &str, value: u64) {
    match list.iter_mut().find(|entry| entry.0 == name) {
        Some(entry) => entry.1 = value,
        None => list.push((name.to_string(), value)),
    }
}

/// What was compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Agreement {
    /// Bios offered, of which merged.
    pub offered: u64,
    /// Bios that joined a request.
    pub merged: u64,
    /// Requests inserted.
    pub inserted: u64,
    /// Calls of dispatch.
    pub dispatches: u64,
    /// Slots that ended.
    pub expiries: u64,
}

/// What ended a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// This BFQ decided otherwise.
    Decision,
    /// The line is not one of a recording, or cannot follow those before it.
    Unreadable,
    /// A setting was refused.
    Setting,
}

/// The first line that differs, or that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Which of the two it is, or neither.
    pub cause: Cause,
    /// Number of the line, from 1; 0 if a setting was refused.
    pub line: usize,
    /// The line of the recording.
    pub recorded: String,
    /// What this BFQ did instead, or what is wrong with the line.
    pub ours: String,
    /// The state of this BFQ's queues at that moment.
    pub state: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.cause {
            Cause::Decision => write!(
                f,
                "line {} differs: recorded '{}', ours: {}\n{}",
                self.line, self.recorded, self.ours, self.state
            ),
            Cause::Unreadable => write!(f, "line {}: {}", self.line, self.ours),
            Cause::Setting => f.write_str(&self.ours),
        }
    }
}

impl core::error::Error for Difference {}

/// Feeds a recording to a fresh BFQ and compares all decisions, to the end or the first difference.
pub fn replay(recording: &str, recorded: &Recorded) -> Result<Agreement, Difference> {
    let wrong = |cause, line, text: &str, ours| Difference {
        cause,
        line,
        recorded: text.to_string(),
        ours,
        state: String::new(),
    };
    let mut lines = (1..).zip(recording.lines());
    let mut replay = Replay::new(recorded).map_err(|e| wrong(Cause::Setting, 0, "", e))?;
    let first = lines.next().map_or("", |(_, text)| text);
    if first != HEADER {
        let ours = format!("not a recording: it must begin with '{HEADER}'");
        return Err(wrong(Cause::Unreadable, 1, first, ours));
    }
    for (line, text) in lines {
        match replay.step(text) {
            Ok(()) => {}
            Err(Wrong::Unreadable(ours)) => {
                return Err(wrong(Cause::Unreadable, line, text, ours));
            }
            Err(Wrong::Differs(ours)) => {
                let state = replay.describe();
                return Err(Difference { state, ..wrong(Cause::Decision, line, text, ours) });
            }
        }
    }
    Ok(replay.agreement)
}

/// Why a line ends the comparison.
enum Wrong {
    Unreadable(String),
    Differs(String),
}

impl From<String> for Wrong {
    fn from(text: String) -> Wrong {
        Wrong::Unreadable(text)
    }
}

/// Request slots: more than any recording has at a time.
const SLOTS: usize = 1024;
/// Numbers in a recording are below these: requests, contexts, and everything else.
const REQUESTS: u64 = 1 << 24;
const CONTEXTS: u64 = 1 << 16;
const NUMBERS: u64 = 1 << 56;

struct Replay {
    env: Env,
    bfq: Bfq,
    elevator: Elevator,
    max_sectors: u64,
    /// The request a recorded number stands for.
    numbers: Vec<Option<ReqId>>,
    /// Recorded number by slot.
    number_of: Vec<usize>,
    /// At the device, by slot.
    issued: Vec<bool>,
    /// The time and tick of the last call.
    last: (Instant, u64),
    procs: Vec<Option<ProcId>>,
    groups: Vec<(String, GroupId)>,
    /// Expiries of the last event that were compared.
    seen: usize,
    agreement: Agreement,
}

/// One line, split.
struct Call<'a> {
    request: &'a str,
    ctx: &'a str,
    io: Io,
    result: &'a str,
}

impl Replay {
    fn new(recorded: &Recorded) -> Result<Replay, String> {
        let mut device = Device::new(Sectors(1 << 40), SLOTS as u32);
        device.rotational = recorded.rotational;
        device.tick = recorded.tick;
        let mut env = Env::new(device, SLOTS, 4 * SLOTS);
        env.trace = Trace::off();
        let setup = Setup { device: &env.device, requests: SLOTS, now: Instant::ZERO };
        let mut bfq = Bfq::new(&setup);
        for (name, value) in &recorded.tunables {
            bfq.set(Instant::ZERO, name, *value, &mut env.cx()).map_err(|e| e.to_string())?;
        }
        bfq.expiries = Some(Vec::new());
        let mut groups = Vec::new();
        for (name, weight) in &recorded.weights {
            let id = env.groups.add(GroupId::ROOT, name);
            groups.push((name.to_string(), id));
            bfq.set_group(Instant::ZERO, id, "weight", Some(*weight), &mut env.cx())
                .map_err(|e| e.to_string())?;
        }
        debug_assert_eq!(ENTRY.search, crate::sched::Search::Elevator);
        Ok(Replay {
            env,
            bfq,
            elevator: Elevator::new(SLOTS),
            max_sectors: recorded.max_sectors.0,
            numbers: Vec::new(),
            number_of: alloc::vec![0; SLOTS],
            issued: alloc::vec![false; SLOTS],
            last: (Instant::ZERO, 0),
            procs: Vec::new(),
            groups,
            seen: 0,
            agreement: Agreement::default(),
        })
    }

    /// One line; an error tells what this BFQ did, or what is wrong with the line.
    fn step(&mut self, text: &str) -> Result<(), Wrong> {
        if text.matches(',').count() != HEADER.matches(',').count() {
            return Err(Wrong::Unreadable(format!(
                "'{text}' has not the columns of the first line"
            )));
        }
        let mut fields = text.split(',');
        let mut field = || fields.next().unwrap_or("");
        let (event, ns, tick) = (field(), field(), field());
        let (request, ctx, sector, sectors) = (field(), field(), field(), field());
        let (op, level, group, result) = (field(), field(), field(), field());
        if event == "expire" {
            return self.compare_expiry(result);
        }
        if let Some(e) = self.bfq.expiries.as_ref().and_then(|log| log.get(self.seen)) {
            let ours = format!("a slot ended that did not: {}", expiry_text(e));
            return Err(Wrong::Differs(ours));
        }
        self.bfq.expiries.as_mut().expect("always kept").clear();
        self.seen = 0;
        let now = self.clock(ns, tick)?;
        match event {
            "merge" | "insert" => {
                let (start, len) = (number(sector)?, number(sectors)?);
                if !(1..=self.max_sectors).contains(&len) {
                    let most = self.max_sectors;
                    return Err(format!("{len} sectors; a request has 1 to {most}").into());
                }
                let known = !ctx.is_empty();
                let proc = if known { self.proc(ctx, level)? } else { ProcId::NONE };
                let op = match op {
                    "R" => Op::Read,
                    "W" => Op::Write,
                    other => return Err(format!("no such operation: '{other}'").into()),
                };
                let flags = if op == Op::Write { Flags::SYNC } else { Flags::NONE };
                let io = Io {
                    op,
                    flags,
                    id: IoId(0),
                    group: self.group(group),
                    prio: prio(level)?,
                    segments: 1,
                    ..Io::read(0, proc, start, len)
                };
                let call = Call { request, ctx, io, result };
                if event == "merge" { self.merge(now, &call) } else { self.insert(now, &call) }
            }
            "dispatch" => self.dispatch(now, request),
            "complete" => {
                let number = below(request, REQUESTS)?;
                let id = self.numbers.get(number).copied().flatten();
                let there =
                    |id: &ReqId| self.issued[id.index()] && self.number_of[id.index()] == number;
                let id = id.filter(there);
                let id = id.ok_or_else(|| format!("request {number} is not at the device"))?;
                self.issued[id.index()] = false;
                self.bfq.complete(now, id, &mut self.env.cx());
                self.env.requests.remove(id);
                self.numbers[number] = None;
                Ok(())
            }
            "timer" => match self.bfq.next_timer() {
                Some(at) if at <= now => {
                    self.bfq.timer(now, &mut self.env.cx());
                    Ok(())
                }
                other => Err(Wrong::Differs(format!("the timer is not due: {other:?}"))),
            },
            other => Err(format!("no such event: '{other}'").into()),
        }
    }

    /// Time and tick of a call, which never go back.
    fn clock(&mut self, ns: &str, tick: &str) -> Result<Instant, String> {
        let (now, ticks) = (Instant::from_nanos(number(ns)?), number(tick)?);
        let at = ticks.checked_mul(self.bfq.tick.0).filter(|&at| at < NUMBERS);
        let at = at.ok_or_else(|| format!("tick {ticks} is later than any clock"))?;
        if now < self.last.0 || ticks < self.last.1 {
            return Err(format!("time goes back: {ns} ns, tick {tick}"));
        }
        self.last = (now, ticks);
        self.bfq.recorded_tick = Some(Instant::from_nanos(at));
        Ok(now)
    }

    fn proc(&mut self, ctx: &str, level: &str) -> Result<ProcId, String> {
        let at = below(ctx, CONTEXTS)?;
        if self.procs.len() <= at {
            self.procs.resize(at + 1, None);
        }
        let prio = prio(level)?;
        let proc = *self.procs[at].get_or_insert_with(|| self.env.procs.add(GroupId::ROOT, prio));
        self.env.procs.get_mut(proc).expect("just added").prio = prio;
        Ok(proc)
    }

    fn group(&mut self, name: &str) -> GroupId {
        if name == "root" {
            return GroupId::ROOT;
        }
        if let Some(known) = self.groups.iter().find(|g| g.0 == name) {
            return known.1;
        }
        let id = self.env.groups.add(GroupId::ROOT, name);
        self.groups.push((name.to_string(), id));
        id
    }

    // The elevator's merge search, as the stack has it.

    fn compatible(&self, io: &Io, id: ReqId) -> bool {
        let r = &self.env.requests[id];
        r.op == io.op && r.group == io.group && r.prio == io.prio && !r.flags.any(Flags::NOMERGE)
    }

    fn search(&mut self, now: Instant, io: &Io) -> Option<(ReqId, Side)> {
        let hit = self.elevator.one_hit();
        if hit != NIL {
            let id = self.env.requests.at(hit).id;
            if self.compatible(io, id) && self.bfq.may_merge(now, io, id, &mut self.env.cx()) {
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
            if self.compatible(io, id) && self.bfq.may_merge(now, io, id, &mut self.env.cx()) {
                return Some((id, Side::Back));
            }
        }
        let (id, side) = self.bfq.find_merge(now, io, &mut self.env.cx())?;
        let fine = self.compatible(io, id) && self.bfq.may_merge(now, io, id, &mut self.env.cx());
        fine.then_some((id, side))
    }

    fn try_merge(&mut self, now: Instant, io: &Io) -> Result<bool, String> {
        let Some((id, side)) = self.search(now, io) else { return Ok(false) };
        if self.env.requests[id].sectors.0 + io.sectors.0 > self.max_sectors {
            self.env.requests.get_mut(id).flags |= Flags::NOMERGE;
            self.elevator.forget(id.slot());
            return Ok(false);
        }
        let bio = self
            .env
            .requests
            .add_bio(*io, now)
            .ok_or_else(|| format!("more than {} bios at a time", 4 * SLOTS))?;
        self.env.requests.join_bio(id, bio, side);
        if let Some(other) = self.bfq.neighbour(id, side, &self.env.cx()) {
            let (front, back) = if side == Side::Back { (id, other) } else { (other, id) };
            if self.joinable(front, back) {
                self.join(now, front, back);
                return Ok(true);
            }
        }
        self.bfq.merged(now, id, Merged::Bio(side), &mut self.env.cx());
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
            && !(f.flags | b.flags).any(Flags::NOMERGE)
            && f.sectors.0 + b.sectors.0 <= self.max_sectors
    }

    fn join(&mut self, now: Instant, kept: ReqId, gone: ReqId) {
        self.bfq.merged(now, kept, Merged::Request(gone), &mut self.env.cx());
        self.elevator.remove(gone.slot());
        self.env.requests.join(kept, gone);
        let end = self.env.requests[kept].end();
        self.elevator.rehash(kept.slot(), end);
        self.elevator.set_one_hit(kept.slot());
    }

    // Events.

    fn merge(&mut self, now: Instant, call: &Call<'_>) -> Result<(), Wrong> {
        let merged = self.try_merge(now, &call.io)?;
        self.agreement.offered += 1;
        self.agreement.merged += u64::from(merged);
        if merged == (call.result == "1") {
            return Ok(());
        }
        let not = if merged { "" } else { "not " };
        Err(Wrong::Differs(format!("bio of context {} {not}merged", call.ctx)))
    }

    fn insert(&mut self, now: Instant, call: &Call<'_>) -> Result<(), Wrong> {
        let id = self.env.requests.create(call.io, true, QueueId(0), now);
        let id = id.ok_or_else(|| format!("more than {SLOTS} requests at a time"))?;
        self.bfq.prepare(now, id, &mut self.env.cx());
        self.agreement.inserted += 1;
        let absorbed = self.merge_at_insertion(now, id);
        if absorbed != (call.result == "merged") {
            return Err(Wrong::Differs(format!("absorbed at insertion: {absorbed}")));
        }
        if absorbed {
            return Ok(());
        }
        let number = below(call.request, REQUESTS)?;
        if self.numbers.len() <= number {
            self.numbers.resize(number + 1, None);
        }
        self.numbers[number] = Some(id);
        self.number_of[id.index()] = number;
        self.issued[id.index()] = false;
        self.bfq.insert(now, id, At::Tail, &mut self.env.cx());
        let end = self.env.requests[id].end();
        self.elevator.add(id.slot(), end);
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

    fn dispatch(&mut self, now: Instant, request: &str) -> Result<(), Wrong> {
        self.agreement.dispatches += 1;
        match self.bfq.dispatch(now, QueueId(0), &mut self.env.cx()) {
            Dispatch::Issue(id) => {
                self.elevator.remove(id.slot());
                self.issued[id.index()] = true;
                let ours = self.number_of[id.index()];
                if !request.is_empty() && below(request, REQUESTS)? == ours {
                    return Ok(());
                }
                Err(Wrong::Differs(format!("dispatched {ours}")))
            }
            Dispatch::Idle | Dispatch::Empty if request.is_empty() => Ok(()),
            other => {
                below(request, REQUESTS)?;
                Err(Wrong::Differs(format!("dispatched nothing ({other:?})")))
            }
        }
    }

    fn compare_expiry(&mut self, recorded: &str) -> Result<(), Wrong> {
        let log = self.bfq.expiries.as_ref().expect("always kept");
        let Some(e) = log.get(self.seen) else {
            return Err(Wrong::Differs("no slot ended".to_string()));
        };
        self.seen += 1;
        self.agreement.expiries += 1;
        let ours = expiry_text(e);
        if ours == recorded { Ok(()) } else { Err(Wrong::Differs(ours)) }
    }

    /// The queues that matter, for a report.
    fn describe(&self) -> String {
        let b = &self.bfq;
        let mut text = format!(
            "in service {}, queued {}, in flight {}, raised busy {}\n",
            b.in_service as i32, b.queued, b.inflight, b.fair.census.wr_busy
        );
        for (q, queue) in b.queues.iter().enumerate().filter(|(_, queue)| queue.live) {
            let e = &b.fair.ents[q];
            text += &format!(
                "queue {q}: owner {} weight {} (x{}) busy {} next {} queued {} in flight {} service {} \
                 budget {} max {} start {} finish {} waiting {} inject {} base {}\n",
                queue.owner as i32,
                e.weight,
                e.wr,
                e.busy,
                queue.next as i32,
                queue.queued,
                queue.inflight,
                e.service,
                e.budget,
                queue.max_budget,
                e.start.0,
                e.finish.0,
                queue.waiting,
                queue.inject_limit,
                queue.base_serv.0,
            );
        }
        text
    }
}

fn number(text: &str) -> Result<u64, String> {
    let wrong = || format!("'{text}' is not a number, or too large");
    text.parse().ok().filter(|&n| n < NUMBERS).ok_or_else(wrong)
}

/// A number that stands for something there are fewer than `bound` of.
fn below(text: &str, bound: u64) -> Result<usize, String> {
    match number(text)? {
        n if n < bound => Ok(n as usize),
        n => Err(format!("{n} is not below {bound}")),
    }
}

fn prio(level: &str) -> Result<IoPrio, String> {
    if level.is_empty() {
        return Ok(IoPrio::NONE);
    }
    match number(level)? {
        n @ 0..8 => Ok(IoPrio::be(n as u8)),
        n => Err(format!("no such level: {n}")),
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
    format!(
        "{reason} slow={} service={} max_budget={} start={} finish={}",
        u8::from(e.slow),
        e.service,
        e.max_budget,
        e.start,
        e.finish
    )
}
