//! The comparison: one line after the other into a controller of ours.

use super::told::Ctl;
use super::{Clock, Device, Process};
use crate::line::{Line, number, path};
use crate::{Counts, Difference, Differences, LEFT_OUT, Mistake, Outcome, left_out};
use hoistway::ctl::{self, Verdict};
use hoistway::env::Env;
use hoistway::group::{GroupId, ProcId};
use hoistway::request::{BioId, Io, Op, ReqId, Side};
use hoistway::stage::Change;
use hoistway::unit::{Instant, IoPrio, Nanos, QueueId, Sectors};
use std::collections::{BTreeMap, BTreeSet};

/// Feeds a recording to a fresh controller and compares all that it decides.
///
/// # Errors
/// The text is not a recording of a controller, or ours has no such file.
pub fn replay(recording: &str) -> Result<Outcome, Mistake> {
    let wrong = |line, what| Mistake::Line { line, what };
    let lines = super::lines(recording)?;
    let (at, told) = lines.first().ok_or_else(|| wrong(2, "no device line".to_string()))?;
    let device = Device::read(told).map_err(|e| wrong(*at, e))?;
    let lines = &lines[1..];
    let clock = Clock::new(&device, lines).map_err(|e| wrong(2, e))?;
    let mut replay = Replay::new(&device, clock).map_err(Mistake::Setting)?;
    replay.counts.lines = 2;
    replay.look_ahead(lines)?;
    let mut texts = recording.lines().skip(2);
    for (n, (line, of)) in lines.iter().enumerate() {
        replay.counts.lines += 1;
        replay.step(of, &lines[n..]).map_err(|e| wrong(*line, e))?;
        let text = texts.next().unwrap_or_default();
        replay.note_first(*line, text);
    }
    replay.end();
    replay.note_first(lines.last().map_or(2, |(line, _)| *line), "the end");
    Ok(Outcome {
        weights: Vec::new(),
        counts: replay.counts,
        differences: replay.differences,
        first: replay.first,
        given_up: None,
        processes: replay.processes.into_values().collect(),
        left_out: left_out(recording),
    })
}

/// Since then at the latest io.cost charges nothing for an empty flush, and io.max has the newer one of its bases.
const NEWER: (u32, u32) = (6, 12);

/// In the name of a group of an earlier scenario of the same boot (NAME@NUMBER). One that was removed in its course may
/// still have limits, which nothing tells, and pages.
const OF_ANOTHER: char = '@';

/// Bios at a time, and requests. A page cache that is written back to a group with a low limit makes many of both.
const SLOTS: usize = 1 << 17;

/// A bio of the recording.
pub(super) struct Bio {
    pub(super) id: BioId,
    process: u64,
    bytes: u64,
    /// When it came, by the recording's clock in ns and by ours.
    pub(super) came: (u64, Instant),
    /// When it went on, in the recording and in ours.
    theirs: Option<(u64, Instant)>,
    ours: Option<Instant>,
    /// Its instants are of the clock in ns.
    clock_reads: bool,
    /// Since when the worker that handed it on was busy, or the processor on which its task ran.
    busy_since: Instant,
    /// A difference of this bio was counted already.
    told: bool,
    /// The request it is in.
    request: Option<usize>,
    /// Linux has ended it.
    over: bool,
}

/// A request of the recording.
struct Request {
    id: ReqId,
    bios: Vec<usize>,
    /// Linux has ended it.
    done: bool,
}

pub(super) struct Replay {
    clock: Clock,
    name: String,
    pub(super) env: Env,
    pub(super) ctl: Ctl,
    pub(super) now: (u64, Instant),
    /// By path.
    groups: BTreeMap<String, GroupId>,
    procs: BTreeMap<u64, ProcId>,
    /// Removed groups of which, or below which, pages are still written: since when, and how many bios come yet.
    going: BTreeMap<GroupId, (u64, usize)>,
    pub(super) bios: BTreeMap<usize, Bio>,
    /// The number of a bio, by its slot.
    pub(super) numbers: BTreeMap<u32, usize>,
    /// Bios of groups of earlier scenarios, which are not compared.
    strangers: BTreeSet<usize>,
    requests: BTreeMap<usize, Request>,
    /// Of io.latency: the place of the line with which a bio passes.
    pub(super) passes: BTreeMap<usize, usize>,
    /// Lines from which on pages are written for this group.
    pub(super) inode_of: Vec<(usize, String)>,
    /// Of io.latency: the ns at which a bio was made.
    pub(super) made: BTreeMap<usize, u64>,
    /// io.max's worker: busy since, and when it was free again (none: it is not).
    worker: (Instant, Option<u64>),
    /// The processor has been busy since then.
    busy: Instant,
    processes: BTreeMap<u64, Process>,
    counts: Counts,
    differences: Differences,
    /// What ours did instead of the present line.
    differs: Option<String>,
    first: Option<Difference>,
}

impl Replay {
    fn new(told: &Device, clock: Clock) -> Result<Replay, String> {
        let entry = super::CONTROLLERS.contains(&told.controller.as_str());
        let entry = entry.then(|| ctl::find(&told.controller)).flatten().ok_or_else(|| {
            let there = super::CONTROLLERS.join(", ");
            format!("no decisions of '{}' can be compared; there are {there}", told.controller)
        })?;
        let tags = u32::try_from(told.tags).unwrap_or(u32::MAX).max(1);
        let mut device = hoistway::Device::new(Sectors(1 << 40), tags);
        device.rotational = told.rotational;
        device.tick = Nanos(told.tick);
        device.nr_requests = tags;
        let ctl = Ctl::new(entry, &device);
        let mut replay = Replay {
            clock,
            name: told.controller.clone(),
            env: Env::new(device, SLOTS, SLOTS),
            ctl,
            now: (0, Instant::ZERO),
            groups: BTreeMap::new(),
            procs: BTreeMap::new(),
            going: BTreeMap::new(),
            bios: BTreeMap::new(),
            numbers: BTreeMap::new(),
            strangers: BTreeSet::new(),
            requests: BTreeMap::new(),
            passes: BTreeMap::new(),
            inode_of: Vec::new(),
            made: BTreeMap::new(),
            worker: (Instant::ZERO, None),
            busy: Instant::ZERO,
            processes: BTreeMap::new(),
            counts: Counts::default(),
            differences: Differences::default(),
            differs: None,
            first: None,
        };
        // The machine's clock is the recording's; Linux prices nothing anew.
        let settings: &[(&str, u64)] = match replay.name.as_str() {
            "io.latency" => &[("from_boot", 1)],
            "io.cost" if told.release >= Some(NEWER) => &[("reprice", 0), ("charge_flushes", 0)],
            "io.cost" => &[("reprice", 0)],
            "io.max" if told.release >= Some(NEWER) => &[("base", 1)],
            _ => &[],
        };
        for &(name, value) in settings {
            let cx = &mut replay.env.cx();
            replay.ctl.set(Instant::ZERO, name, value, cx).map_err(|e| e.to_string())?;
        }
        Ok(replay)
    }

    fn differ(&mut self, count: fn(&mut Differences) -> &mut u64, ours: String) {
        *count(&mut self.differences) += 1;
        self.differs.get_or_insert(ours);
    }

    fn note_first(&mut self, line: usize, recorded: &str) {
        if let Some(ours) = self.differs.take()
            && self.first.is_none()
        {
            let (recorded, state) = (recorded.to_string(), self.describe());
            self.first = Some(Difference { line, recorded, ours, state });
        }
    }

    /// `rest` begins with this line.
    fn step(&mut self, line: &Line<'_>, rest: &[(usize, Line<'_>)]) -> Result<(), String> {
        let (ns, tick) = (number(line.ns)?, number(line.tick)?);
        let now = self.clock.at(ns, tick)?;
        if ns < self.now.0 || now < self.now.1 {
            return Err(format!("time goes back: {ns} ns, tick {tick}"));
        }
        if ns - self.now.0 > BUSY {
            self.busy = now;
        }
        self.climb_told(line)?;
        // Timers that are due now wait for the line that tells of them.
        if self.name == "io.cost" {
            self.fire_told(now, rest);
        } else {
            let mut same = rest.iter().map_while(|(_, l)| Some((l, self.same_time(l, now)?)));
            let told = same.any(|(l, _)| l.event == "timer");
            self.fire(now, !told || line.event == "timer");
        }
        let now = self.reading(line, now, rest);
        self.now = (ns, now);
        match line.event {
            "enter" => self.enter(line)?,
            "pass" => self.pass(line)?,
            "back" => self.worker.1 = Some(ns),
            "track" => self.track(line)?,
            "join" => self.join(line)?,
            "over" => self.over(line)?,
            "done" => self.done(line)?,
            "timer" => {
                self.counts.timers += 1;
                if self.name == "io.cost" {
                    self.timer_told(line, rest);
                }
            }
            "write" => self.write(line)?,
            "remove" => self.remove(line, rest)?,
            "buffered" | LEFT_OUT => {}
            "stat" => self.stat(line)?,
            other => return Err(format!("no such event: '{other}'")),
        }
        if matches!(line.event, "enter" | "join") && !self.going.is_empty() {
            self.see_off(line)?;
        }
        self.release(now);
        Ok(())
    }

    /// When io.cost reads the clock, which is behind the line of a bio: reading advances the guest's clock by 1 ns, after
    /// which another microsecond may have begun. The next line tells whether it was read.
    fn reading(&self, line: &Line<'_>, now: Instant, rest: &[(usize, Line<'_>)]) -> Instant {
        let reads = self.name == "io.cost" && matches!(line.event, "enter" | "join");
        let ns = |line: &Line<'_>| number(line.ns).ok();
        let moved = reads && rest.get(1).is_some_and(|(_, next)| ns(next) > ns(line));
        if moved { now + Nanos(1) } else { now }
    }

    fn same_time(&self, line: &Line<'_>, now: Instant) -> Option<()> {
        let at = self.clock.at(number(line.ns).ok()?, number(line.tick).ok()?).ok()?;
        (at == now).then_some(())
    }

    /// Fires what is due before `now`, and if asked to what is due then.
    fn fire(&mut self, now: Instant, then: bool) {
        while let Some(due) = self.ctl.next_timer().filter(|&due| due < now || (then && due == now))
        {
            let due = due.max(self.now.1);
            self.ctl.timer(due, &mut self.env.cx());
            self.release(due);
        }
    }

    // Groups and processes.

    fn group(&mut self, text: &str) -> Result<GroupId, String> {
        let (mut id, mut name) = (GroupId::ROOT, String::new());
        for part in path(text)? {
            if !name.is_empty() {
                name.push('/');
            }
            name.push_str(part);
            id = match self.groups.get(&name) {
                Some(&there) => there,
                None => {
                    let new = self.env.groups.add(id, part);
                    self.groups.insert(name.clone(), new);
                    self.ctl.changed(self.now.1, &Change::GroupAdded(new), &mut self.env.cx());
                    new
                }
            };
        }
        Ok(id)
    }

    /// The group is gone, unless it or a group below it has the disk's inode: then it and all above it stay until pages
    /// are written for another group, or to the end. Without such lines the bios tell that are still made for it. `rest`
    /// begins with this line.
    fn remove(&mut self, line: &Line<'_>, rest: &[(usize, Line<'_>)]) -> Result<(), String> {
        let id = self.group(line.group)?;
        if id == GroupId::ROOT {
            return Err("the root group is not removed".to_string());
        }
        let below = format!("{}/", line.group);
        let within = |group: &str| group == line.group || group.starts_with(&below);
        if self.inode_stays(rest.first().map_or(0, |(at, _)| *at), within) {
            return Ok(());
        }
        let mut bios = 0;
        for (_, l) in rest.iter().filter(|(_, l)| matches!(l.event, "enter" | "join")) {
            if within(l.group) {
                bios += usize::from(self.keeps(l, self.now.0)?);
            }
        }
        match bios {
            0 => self.gone(id),
            bios => {
                self.going.insert(id, (self.now.0, bios));
            }
        }
        Ok(())
    }

    /// What is written of its pages later is still of that group: its name is not forgotten.
    fn gone(&mut self, id: GroupId) {
        self.ctl.changed(self.now.1, &Change::GroupRemoved(id), &mut self.env.cx());
        self.env.groups.remove(id);
    }

    /// Does this bio show that its group, removed at `removed`, still has pages? One that was made before the removal,
    /// such as the rest of one that is split, does not: io.latency lets a group go whose bios are under way.
    fn keeps(&self, line: &Line<'_>, removed: u64) -> Result<bool, String> {
        let made = line.request()?.and_then(|n| self.made.get(&n));
        Ok(made.is_none_or(|&made| made >= removed))
    }

    /// A bio of a removed group has come; behind the last one the group goes, and those above it that were removed.
    fn see_off(&mut self, line: &Line<'_>) -> Result<(), String> {
        let mut next = Some(self.group(line.group)?);
        while let Some(id) = next {
            next = self.env.groups.parent(id);
            let Some(&(removed, bios)) = self.going.get(&id) else { continue };
            if !self.keeps(line, removed)? {
                continue;
            }
            self.going.insert(id, (removed, bios - 1));
            if bios == 1 {
                self.going.remove(&id);
                self.gone(id);
            }
        }
        Ok(())
    }

    fn write(&mut self, line: &Line<'_>) -> Result<(), String> {
        let group = self.group(line.group)?;
        let (file, value) = line
            .result
            .split_once(' ')
            .ok_or_else(|| format!("'{}' is not FILE VALUE", line.result))?;
        let value = value.replace("DEV", &self.env.device.number.to_string());
        let answer = self.ctl.write_knob(self.now.1, group, file, &value, &mut self.env.cx());
        if let Err(e) = answer {
            self.differ(|d| &mut d.verdicts, format!("{file} is refused: {e}"));
        }
        Ok(())
    }

    // Bios.

    fn io(&mut self, line: &Line<'_>) -> Result<(u64, Io), String> {
        let process = number(line.ctx)?;
        let group = self.group(line.group)?;
        let procs = &mut self.env.procs;
        let proc = *self.procs.entry(process).or_insert_with(|| procs.add(group, IoPrio::NONE));
        let (start, sectors) = line.extent()?;
        let kind = line.kind()?;
        // A flush is a write without data.
        let op = if kind.op == Op::Write && sectors.0 == 0 { Op::Flush } else { kind.op };
        Ok((process, Io { op, start, sectors, group, proc, ..kind }))
    }

    fn new_bio(&mut self, line: &Line<'_>) -> Result<usize, String> {
        let number = line.request()?.ok_or("a bio without a number")?;
        let (process, io) =
            if line.event == "join" { (0, self.joining(line)?) } else { self.io(line)? };
        let issue = match line.figure("issue")? {
            Some(ns) => Instant::from_nanos(ns.saturating_sub(self.clock.phase)),
            None => self.now.1,
        };
        if self.bios.contains_key(&number) {
            return Err(format!("bio {number} comes twice"));
        }
        let id = self.env.requests.add_bio(io, issue);
        let id = id.ok_or_else(|| format!("more than {SLOTS} bios at a time"))?;
        if line.segments == "1" {
            self.env.requests.set_continues(id);
        }
        self.numbers.insert(id.0.slot, number);
        let bio = Bio {
            id,
            process,
            bytes: io.sectors.bytes().0,
            came: self.now,
            theirs: None,
            ours: None,
            clock_reads: self.clock.first.is_none(),
            busy_since: self.now.1,
            told: false,
            request: None,
            over: false,
        };
        self.bios.insert(number, bio);
        Ok(number)
    }

    fn enter(&mut self, line: &Line<'_>) -> Result<(), String> {
        if self.name == "io.max" && line.group.contains(OF_ANOTHER) {
            self.strangers.extend(line.request()?);
            return Ok(());
        }
        let n = self.new_bio(line)?;
        let (ns, now) = self.now;
        let bio = &self.bios[&n];
        let (id, process) = (bio.id, bio.process);
        self.counts.ios += 1;
        let of = self
            .processes
            .entry(process)
            .or_insert(Process { number: process, ..Process::default() });
        of.ios += 1;
        let verdict = self.ctl.submit(now, id, &mut self.env.cx());
        let asked = matches!(line.result, "pass" | "hold" | "free");
        let held = line.result == "hold";
        self.counts.held += u64::from(held);
        if asked && held != (verdict == Verdict::Hold) {
            let ours = if held { "passed at once" } else { "held" };
            self.differ(|d| &mut d.verdicts, ours.to_string());
            self.bio(n).told = true;
        }
        if asked && !held {
            self.bio(n).theirs = Some((ns, now));
        }
        if verdict == Verdict::Pass {
            self.bio(n).ours = Some(now);
        }
        self.settle(n);
        Ok(())
    }

    fn bio(&mut self, n: usize) -> &mut Bio {
        self.bios.get_mut(&n).expect("its number was just looked up")
    }

    fn pass(&mut self, line: &Line<'_>) -> Result<(), String> {
        let n = line.request()?.ok_or("a bio without a number")?;
        let (ns, now) = self.now;
        if self.clock.first.is_some() {
            // Behind another one of the worker's, however long that took.
            if self.worker.1 != Some(ns) {
                self.worker.0 = now;
            }
            self.worker.1 = None;
        }
        if self.strangers.remove(&n) {
            return Ok(());
        }
        let Some(bio) = self.bios.get_mut(&n) else {
            return Err(format!("bio {n} has not entered"));
        };
        bio.theirs = Some((ns, now));
        if self.clock.first.is_some() {
            bio.busy_since = self.worker.0;
        } else {
            bio.busy_since = self.busy;
            self.counts.held += u64::from(ns - bio.came.0 >= READING);
        }
        if bio.ours.is_none() && !bio.told {
            bio.told = true;
            let since = ns - bio.came.0;
            self.differ(
                |d| &mut d.holds,
                format!("bio {n} is still held, {since} ns after it came"),
            );
        }
        self.settle(n);
        Ok(())
    }

    /// Those that ours lets go.
    pub(super) fn release(&mut self, now: Instant) {
        while let Some(id) = self.ctl.release(now, &mut self.env.cx()) {
            let Some(&n) = self.numbers.get(&id.0.slot) else { continue };
            self.bio(n).ours = Some(now);
            self.settle(n);
        }
    }

    /// Both have let it go.
    fn settle(&mut self, n: usize) {
        let Some(bio) = self.bios.get(&n) else { return };
        let (Some(theirs), Some(ours)) = (bio.theirs, bio.ours) else { return };
        let [held, our_hold] = holds(bio, theirs, ours);
        let (told, process, bytes) = (bio.told, bio.process, bio.bytes);
        if held != our_hold && !told {
            let ours = format!("bio {n} was held for {} ns and not for {} ns", our_hold.0, held.0);
            self.differ(|d| &mut d.holds, ours);
            self.bio(n).told = true;
        }
        self.account(process, [bytes; 2], [held, our_hold]);
        if self.clock.first.is_some() {
            self.forget(n);
            return;
        }
        let bio = &self.bios[&n];
        let (over, request) = (bio.over, bio.request);
        match request {
            Some(r) => self.finish_request(r),
            None if over => self.finish_bio(n),
            None => {}
        }
    }

    fn account(&mut self, process: u64, bytes: [u64; 2], held: [Nanos; 2]) {
        let of = self.processes.entry(process).or_default();
        for i in 0..2 {
            of.bytes[i] += bytes[i];
            of.held[i] += held[i];
        }
    }

    /// The bio leaves the tables.
    fn forget(&mut self, n: usize) {
        let Some(bio) = self.bios.remove(&n) else { return };
        self.numbers.remove(&bio.id.0.slot);
        let made = self.env.requests.add(bio.id, self.now.1, self.now.1, false, QueueId(0));
        if let Some(id) = made {
            self.env.requests.remove(id);
        }
    }

    // What follows in io.cost and io.latency.

    fn track(&mut self, line: &Line<'_>) -> Result<(), String> {
        let (Some(n), now) = (line.request()?, self.now.1) else { return Ok(()) };
        if self.name != "io.cost" {
            return Ok(());
        }
        let request = line.in_request()?;
        let Some(bio) = self.bios.get_mut(&n) else { return Ok(()) };
        if bio.request.is_some() || self.requests.contains_key(&request) {
            return Err(format!("bio {n} or request {request} is tracked twice"));
        }
        let made = self.env.requests.add(bio.id, now, now, true, QueueId(0));
        let id = made.ok_or_else(|| format!("more than {SLOTS} requests at a time"))?;
        bio.request = Some(request);
        self.requests.insert(request, Request { id, bios: vec![n], done: false });
        Ok(())
    }

    fn joining(&mut self, line: &Line<'_>) -> Result<Io, String> {
        let group = self.group(line.group)?;
        let (start, sectors) = line.extent()?;
        Ok(Io { start, sectors, group, ..line.kind()? })
    }

    fn join(&mut self, line: &Line<'_>) -> Result<(), String> {
        if self.name != "io.cost" || line.ctx.is_empty() {
            return Ok(());
        }
        let Some(of) = self.requests.get(&line.in_request()?) else { return Ok(()) };
        let (into, at) = (of.id, line.in_request()?);
        let n = self.new_bio(line)?;
        let id = self.bios[&n].id;
        let back = self.env.requests[into].end() == self.env.requests.bio(id).start;
        self.env.requests.join_bio(into, id, if back { Side::Back } else { Side::Front });
        self.ctl.merged(self.now.1, id, into, &mut self.env.cx());
        let (ns, now) = self.now;
        let bio = self.bio(n);
        (bio.theirs, bio.ours, bio.request) = (Some((ns, now)), Some(now), Some(at));
        if let Some(of) = self.requests.get_mut(&at) {
            of.bios.push(n);
        }
        Ok(())
    }

    fn over(&mut self, line: &Line<'_>) -> Result<(), String> {
        let Some(n) = line.request()? else { return Ok(()) };
        let Some(bio) = self.bios.get_mut(&n) else { return Ok(()) };
        bio.over = true;
        let (held, alone) = (bio.ours.is_none(), bio.request.is_none());
        if held && !std::mem::replace(&mut bio.told, true) {
            self.differ(|d| &mut d.holds, format!("bio {n} is over in Linux and still held"));
        }
        if alone && !held {
            self.finish_bio(n);
        }
        Ok(())
    }

    /// A bio that is in no request we know: it is one.
    fn finish_bio(&mut self, n: usize) {
        let Some(bio) = self.bios.remove(&n) else { return };
        self.numbers.remove(&bio.id.0.slot);
        let (came, now) = (bio.came.1, self.now.1);
        if let Some(id) = self.env.requests.add(bio.id, came, came, true, QueueId(0)) {
            self.ctl.complete(now, id, &mut self.env.cx());
            self.env.requests.remove(id);
        }
    }

    fn done(&mut self, line: &Line<'_>) -> Result<(), String> {
        let Some(r) = line.request()? else { return Ok(()) };
        let Some(of) = self.requests.get_mut(&r) else { return Ok(()) };
        of.done = true;
        let at = |ns: u64| Instant::from_nanos(ns.saturating_sub(self.clock.phase));
        let (alloc, start) = (line.figure("alloc")?, line.figure("start")?);
        let request = self.env.requests.get_mut(of.id);
        request.alloc = alloc.map_or(request.alloc, at);
        request.began = start.map_or(request.began, at);
        self.finish_request(r);
        Ok(())
    }

    /// Ends a request that Linux has ended, once ours has let go all that is in it.
    fn finish_request(&mut self, r: usize) {
        let Some(of) = self.requests.get(&r) else { return };
        if !of.done || of.bios.iter().any(|n| self.bios.get(n).is_some_and(|b| b.ours.is_none())) {
            return;
        }
        let of = self.requests.remove(&r).expect("it was there");
        self.ctl.complete(self.now.1, of.id, &mut self.env.cx());
        self.env.requests.remove(of.id);
        for n in of.bios {
            if let Some(bio) = self.bios.remove(&n) {
                self.numbers.remove(&bio.id.0.slot);
            }
        }
    }

    // What is counted.

    /// Charges that both show, within 1 %, and depths, which are the same.
    fn stat(&mut self, line: &Line<'_>) -> Result<(), String> {
        let group = self.group(line.group)?;
        let mut text = String::new();
        self.ctl.stat(self.now.1, group, &self.env.cx(), &mut text);
        let words: BTreeMap<&str, &str> =
            text.split_whitespace().filter_map(|word| word.split_once('=')).collect();
        for (name, theirs) in line.result.split_whitespace().filter_map(|word| word.split_once('='))
        {
            let Some(&ours) = words.get(name).filter(|_| COUNTED.contains(&name)) else { continue };
            if !about_the_same(theirs, ours) {
                let text = format!("{name}={ours} of {} and not {theirs}", line.group);
                self.differ(|d| &mut d.charges, text);
            }
        }
        Ok(())
    }

    /// What both still hold is no difference; what one has let go is.
    fn end(&mut self) {
        let (end, now) = self.now;
        for n in self.bios.keys().copied().collect::<Vec<_>>() {
            let bio = &self.bios[&n];
            let (process, bytes, told) = (bio.process, bio.bytes, bio.told);
            let (one, held) = match (bio.theirs, bio.ours) {
                (Some(theirs), None) => {
                    ([bytes, 0], [Nanos(theirs.0 - bio.came.0), Nanos(end - bio.came.0)])
                }
                (None, Some(ours)) => {
                    ([0, bytes], [Nanos(end - bio.came.0), ours.since(bio.came.1)])
                }
                _ => continue,
            };
            self.account(process, one, held);
            if !told {
                let text = match one[0] {
                    0 => format!("bio {n} passed, which is held to the end"),
                    _ => format!("bio {n} is held to the end"),
                };
                self.differ(|d| &mut d.holds, text);
            }
        }
        let _ = now;
    }

    fn describe(&mut self) -> String {
        let mut text = format!("now {}\n", self.now.1.as_nanos());
        let cx = self.env.cx();
        self.ctl.gauges(self.now.1, &cx, &mut |g| {
            let of = g.group.map_or(String::new(), |group| format!("[{}]", cx.groups.name(group)));
            text += &format!("{}{of} = {} {}\n", g.name, g.value, g.unit);
        });
        let held = self.bios.iter().filter(|(_, b)| b.ours.is_none());
        for (n, bio) in held {
            text += &format!(
                "held: bio {n} of process {} since {}\n",
                bio.process,
                bio.came.1.as_nanos()
            );
        }
        text
    }
}

/// Fields of `io.stat` that are compared.
const COUNTED: [&str; 5] = ["cost.vrate", "cost.usage", "cost.wait", "depth", "use_delay"];

/// Numbers within 1 %, or equal words.
fn about_the_same(one: &str, other: &str) -> bool {
    let value = |text: &str| text.parse::<f64>().ok();
    match (value(one), value(other)) {
        (Some(a), Some(b)) => (a - b).abs() <= 0.01 * a.abs().max(b.abs()),
        _ => one == other,
    }
}

/// The guest's clock moves by 1 ns when it is read, so what takes no time has some ns; io.cost's own clock has µs.
pub(super) const READING: u64 = 1000;

/// A processor that computes reads the clock, so there are some ns from one line to the next (13 at most of 47,000 that
/// were looked at); to be idle takes longer, since it lasts to the next event of the drive or of a timer.
const BUSY: u64 = 32;

/// How long a bio was held in Linux and in ours.
fn holds(bio: &Bio, theirs: (u64, Instant), ours: Instant) -> [Nanos; 2] {
    let held = Nanos(theirs.0 - bio.came.0);
    // The worker came to it late, but not for longer than it was busy; or its task ran behind others on the one
    // processor, each of whose bios takes some readings of the clock.
    let near = bio.clock_reads && theirs.1.since(ours).max(ours.since(theirs.1)).0 < READING;
    if near || (bio.busy_since..=theirs.1).contains(&ours) {
        return [held, held];
    }
    let ours = match ours > theirs.1 {
        true => held + ours.since(theirs.1),
        false => Nanos(held.0.saturating_sub(bio.busy_since.since(ours).0)),
    };
    [held, ours]
}

#[cfg(test)]
mod tests {
    use super::about_the_same;

    #[test]
    fn what_is_counted_is_the_same_within_a_hundredth() {
        let same = |pairs: &[(&str, &str)]| pairs.iter().all(|(a, b)| about_the_same(a, b));
        assert!(same(&[
            ("-1", "-1"),
            ("max", "max"),
            ("100", "99"),
            ("0", "0"),
            ("100.00", "100")
        ]));
        for (a, b) in [("-1", "1"), ("max", "1"), ("100", "98"), ("0", "1")] {
            assert!(!about_the_same(a, b), "{a} {b}");
        }
    }
}
