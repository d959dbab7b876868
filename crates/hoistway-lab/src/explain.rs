//! The story of one process, told from a trace: its requests, every decision about its queue with
//! its reason and figures, and in one line each what was served in between. Of a run that is over
//! it is told at once ([`story`]), of a server while it serves piece by piece ([`StoryWriter`]); there
//! it may be the story of all processes of a group.
//!
//! Times are in milliseconds since measuring, or listening, began.

use hoistway::request::Op;
use hoistway::sched::{Entry, Service};
use hoistway::stage::{Decision, Role};
use hoistway::trace::{Event, Record, Why};
use hoistway::{Instant, Nanos, ProcId, Sectors};
use hoistway_sim::world::Job;
use std::collections::{BTreeMap, BTreeSet};

/// What a story is about, and which part of it is told.
#[derive(Clone, Debug)]
pub struct Subject {
    /// Names of the processes by their ids.
    pub names: BTreeMap<u32, String>,
    /// Whose story, by their ids.
    pub procs: BTreeSet<u32>,
    /// The scheduler, which says what its decisions are; `None`: not known yet.
    pub scheduler: Option<&'static Entry>,
    /// Nothing before is told: measuring begins.
    pub begin: Instant,
    /// Nothing from then on is told: measuring ends.
    pub end: Instant,
}

impl Subject {
    /// The process of that name in a job, or among those that its loads made while it ran; `None`
    /// if there is none.
    pub fn of(job: &Job<'_>, made: &[(ProcId, String)], name: &str) -> Option<Subject> {
        let own = (0..).zip(&job.procs).map(|(id, p)| (id, p.name.clone()));
        let names: BTreeMap<u32, String> =
            own.chain(made.iter().map(|(id, name)| (id.0, name.clone()))).collect();
        let proc = *names.iter().find(|(_, n)| *n == name)?.0;
        let begin = job.measuring_begins();
        let end = begin + job.window.measured;
        let scheduler = Some(job.scheduler.entry);
        let procs = BTreeSet::from([proc]);
        Some(Subject { names, procs, scheduler, begin, end })
    }

    /// A queue is served for a budget of sectors, and what is served next is told by a decision.
    fn budgets(&self) -> bool {
        self.scheduler.is_some_and(|entry| entry.service == Service::Budgets)
    }

    fn decision(&self, what: &str) -> Decision {
        self.scheduler.map_or(Decision::new("", Role::Reason), |entry| entry.decision(what))
    }
}

/// The story: its first lines, and how many more there are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Story {
    /// The lines, each with its time.
    pub lines: Vec<String>,
    /// Lines beyond the limit.
    pub left_out: usize,
    /// Something is told of the process itself, and not only of others.
    pub own: bool,
}

/// Tells the story of a trace that was kept from the start of the run, in at most `limit` lines.
pub fn story(records: &[Record], subject: &Subject, limit: usize) -> Story {
    let mut writer = StoryWriter::new(subject.clone(), limit);
    records.iter().take_while(|r| r.at < subject.end).for_each(|r| writer.tell(r));
    let lines = writer.finish();
    Story { lines, left_out: writer.left_out(), own: writer.own }
}

/// A request at the drive.
#[derive(Debug)]
struct Flying {
    proc: ProcId,
    sectors: Sectors,
    since: Instant,
}

/// Tells a story record by record. Its memory is bounded by the numbers of requests and queues, and
/// the lines that were not taken yet.
#[derive(Debug)]
pub struct StoryWriter {
    subject: Subject,
    limit: usize,
    /// Lines told so far.
    told: usize,
    left_out: usize,
    /// Those not taken yet.
    lines: Vec<String>,
    /// The first line has been told.
    began: bool,
    /// A line was told of the process itself.
    own: bool,
    now: Instant,
    /// The queue of a process for sync and for other requests: (process, sync) to queue.
    queues: BTreeMap<(u32, bool), i64>,
    /// When the queue was set in service.
    slots: BTreeMap<i64, Instant>,
    /// Requests of the process in the scheduler, and since when.
    waiting: BTreeMap<u32, Instant>,
    /// Requests at the drive.
    flying: BTreeMap<u32, Flying>,
    /// Requests and sectors of others served since the last line.
    others: (u64, Sectors),
    /// The line about the end of a slot, to which the next queue in service is added; `None` if it
    /// is not wanted, or was left out.
    ended: Option<usize>,
    /// The last reason about no queue, which belongs to the next request that is issued at once.
    reason: Option<(Instant, &'static str)>,
}

impl StoryWriter {
    /// A story that begins.
    pub fn new(subject: Subject, limit: usize) -> StoryWriter {
        StoryWriter {
            subject,
            limit,
            told: 0,
            left_out: 0,
            lines: Vec::new(),
            began: false,
            own: false,
            now: Instant::ZERO,
            queues: BTreeMap::new(),
            slots: BTreeMap::new(),
            waiting: BTreeMap::new(),
            flying: BTreeMap::new(),
            others: (0, Sectors(0)),
            ended: None,
            reason: None,
        }
    }

    /// Who it is about; may change while it is told.
    pub fn subject_mut(&mut self) -> &mut Subject {
        &mut self.subject
    }

    /// Where the trace begins late: the process uses that queue.
    pub fn uses(&mut self, proc: ProcId, sync: bool, queue: u32) {
        self.queues.insert((proc.0, sync), queue.into());
    }

    /// The next record of the trace; not before the one before.
    pub fn tell(&mut self, record: &Record) {
        self.now = record.at;
        if record.at >= self.subject.begin {
            self.begin();
        }
        self.event(&record.event);
    }

    /// The trace has a hole.
    pub fn missed(&mut self, records: u64) {
        self.slots.clear();
        self.flying.clear();
        self.waiting.clear();
        self.flush_others();
        self.push(format!("{:15}  {records} events were dropped here", ""));
    }

    /// The lines told since they were last taken, but for one that may go on.
    pub fn take(&mut self) -> Vec<String> {
        let rest = self.lines.split_off(self.ended.unwrap_or(self.lines.len()));
        self.ended = self.ended.map(|_| 0);
        std::mem::replace(&mut self.lines, rest)
    }

    /// The last lines.
    pub fn finish(&mut self) -> Vec<String> {
        self.flush_others();
        self.ended = None;
        self.take()
    }

    /// Lines beyond the limit.
    pub fn left_out(&self) -> usize {
        self.left_out
    }

    fn event(&mut self, event: &Event) {
        match *event {
            Event::Inserted { req, proc, start, sectors } if self.mine(proc) => {
                self.waiting.insert(req, self.now);
                let who = self.who(proc);
                let place = start.0;
                self.line(&format!(
                    "{who}request {req} queued: {} at sector {place}",
                    size(sectors)
                ));
            }
            Event::Joined { kept, gone } if self.waiting.remove(&gone).is_some() => {
                self.line(&format!("request {gone} merged into request {kept}"));
            }
            Event::Issued { req, proc, op, start, sectors, .. } => {
                self.issued(req, Flying { proc, sectors, since: self.now }, op, start);
            }
            Event::Requeued { req } => match self.flying.remove(&req) {
                Some(f) if self.mine(f.proc) => {
                    self.waiting.insert(req, self.now);
                    let who = self.who(f.proc);
                    self.line(&format!("{who}request {req} given back by the drive"));
                }
                _ => {}
            },
            Event::Done { req } => match self.flying.remove(&req) {
                Some(f) if self.mine(f.proc) => {
                    let (who, took) = (self.who(f.proc), ms(self.now - f.since));
                    self.line(&format!("{who}request {req} done: {took} ms in the drive"));
                }
                Some(f) if self.now >= self.subject.begin => {
                    self.others.0 += 1;
                    self.others.1.0 += f.sectors.0;
                }
                _ => {}
            },
            Event::Why(why) => self.why(&why),
            _ => {}
        }
    }

    fn issued(&mut self, req: u32, flying: Flying, op: Op, start: Sectors) {
        let because = self.reason.take().filter(|&(at, _)| at == self.now);
        let waited = self.waiting.remove(&req);
        if !self.subject.budgets() {
            self.next_is(&self.name(flying.proc.0));
        }
        if self.mine(flying.proc) {
            let op = match op {
                Op::Read => "read",
                Op::Write => "write",
                Op::Flush => "flush",
                _ => "other operation",
            };
            let who = self.who(flying.proc);
            let mut text =
                format!("{who}request {req} to the drive: {op}, {}", size(flying.sectors));
            text += &format!(" at sector {}", start.0);
            if let Some(since) = waited {
                text += &format!(", waited {} ms", ms(self.now - since));
            }
            if let Some((_, what)) = because {
                text += &format!(" ({what})");
            }
            self.line(&text);
        }
        self.flying.insert(req, flying);
    }

    fn why(&mut self, why: &Why) {
        let (of, a, b) = (i64::from(why.of), why.a, why.b);
        let what = why.what;
        let (head, tail) = what.split_once(": ").unwrap_or((what, ""));
        let decision = self.subject.decision(what);
        match decision.role {
            Role::QueueOfProcess => return self.designate(a, b != 0, of, "uses"),
            Role::QueuesMerged => {
                // Told of every process that uses either.
                if self.is_mine(of) || self.is_mine(a) {
                    let (from, into) = (self.queue(of), self.queue(a));
                    self.line(&format!("{from} merged into {into}"));
                }
                // Others than BFQ name the process afterwards.
                if self.subject.budgets() {
                    self.queues.insert((b as u32, true), a);
                }
                return;
            }
            Role::SplitOff => {
                if self.mine(ProcId(b as u32)) {
                    let (who, old) = (self.who(ProcId(b as u32)), self.queue(a));
                    self.line(&format!("{who}split off {old}, which has turned seeky"));
                }
                return self.designate(b, true, of, "goes on with");
            }
            Role::Aside => return,
            Role::InService => {
                self.slots.insert(of, self.now);
                self.next_is(&self.queue(of));
            }
            _ => {}
        }
        if decision.role == Role::Reason || self.queues.is_empty() {
            self.reason = Some((self.now, what));
            return;
        }
        let names_two = matches!(decision.role, Role::Preempts | Role::Injected | Role::WakerFound);
        if self.is_mine(of) || (names_two && self.is_mine(a)) {
            let text = self.decision(&decision, head, tail, of, a, b);
            self.line(&text);
            if decision.role == Role::ServiceEnds {
                self.ended = self.lines.len().checked_sub(1);
                self.ended = self.ended.filter(|_| self.began && self.left_out == 0);
            }
        }
        if decision.role == Role::ServiceEnds {
            self.slots.remove(&of);
        }
    }

    /// A decision about a queue, in words.
    fn decision(&self, d: &Decision, head: &str, tail: &str, of: i64, a: i64, b: i64) -> String {
        let queue = self.queue(of);
        let budgets = self.subject.budgets();
        match d.role {
            Role::InService => format!("{queue} in service, budget {a} sectors"),
            Role::ServiceEnds if budgets => {
                let mut text = format!("{queue} expired: {tail}");
                if let Some(&since) = self.slots.get(&of) {
                    text += &format!(", {a} sectors in {} ms", ms(self.now - since));
                }
                if b > 0 {
                    text += &format!("; next budget {b} sectors");
                }
                text
            }
            Role::ServiceEnds => {
                let (unit, s) = (d.units[0], if a == 1 { "" } else { "s" });
                format!("{queue} {head}: {tail}, after {a} {unit}{s}")
            }
            Role::Idles => {
                let wait = ms(Nanos(a.unsigned_abs()));
                format!("{queue} is empty: the drive is kept idle for it up to {wait} ms")
            }
            Role::IdlesTicks => {
                format!("{queue} is empty: the drive is kept idle for it up to {a} ticks")
            }
            Role::Raised => {
                let until = self.since(self.now + Nanos(b.unsigned_abs()));
                format!("{queue}: weight raised x{a} as {tail} until {until} ms at most")
            }
            Role::RaisingEnds if b == 0 => {
                format!("{queue}: raising ends: {tail}, after {a} sectors")
            }
            Role::RaisingEnds => format!("{queue}: raising ends: {tail}"),
            Role::Boosted => format!("{queue}: weight raised, it {tail}, for {a} sectors"),
            Role::Preempts => format!("{queue} preempts {}: {tail}", self.queue(a)),
            Role::Injected => {
                let waited = self.queue(a);
                format!("{queue} injected while {waited} is waited for: {tail}; {b} in the drive")
            }
            Role::WakerFound => format!("{queue} is woken by {}", self.queue(a)),
            Role::QueueSplit => format!("{queue} has turned seeky and is split"),
            _ => {
                let what = if tail.is_empty() { head.into() } else { format!("{head}: {tail}") };
                let figures = [a, b].into_iter().zip(d.units).filter(|(_, unit)| !unit.is_empty());
                let figures: Vec<_> = figures.map(|(n, unit)| format!(", {n} {unit}")).collect();
                format!("{queue}: {what}{}", figures.concat())
            }
        }
    }

    /// A process uses another queue from now on.
    fn designate(&mut self, proc: i64, sync: bool, queue: i64, verb: &str) {
        let proc = proc as u32;
        self.queues.insert((proc, sync), queue);
        if self.mine(ProcId(proc)) {
            let kind = if sync { "" } else { " for async writes" };
            let name = self.name(proc);
            self.line(&format!("{name} {verb} {}{kind}", self.queue(queue)));
        }
    }

    fn is_mine(&self, queue: i64) -> bool {
        let uses = |p: &u32| [true, false].map(|sync| self.queues.get(&(*p, sync)) == Some(&queue));
        self.subject.procs.iter().any(|p| uses(p).contains(&true))
    }

    fn mine(&self, proc: ProcId) -> bool {
        self.subject.procs.contains(&proc.0)
    }

    /// Whose a request is, where that is not clear.
    fn who(&self, proc: ProcId) -> String {
        match self.subject.procs.len() {
            0 | 1 => String::new(),
            _ => format!("{}: ", self.name(proc.0)),
        }
    }

    /// The next to be served is known: it is told with the end of the slot before.
    fn next_is(&mut self, next: &str) {
        if let Some(line) = self.ended.take() {
            self.lines[line] += &format!("; next: {next}");
        }
    }

    fn name(&self, proc: u32) -> String {
        match self.subject.names.get(&proc) {
            Some(name) => name.clone(),
            None if proc == ProcId::NONE.0 => "a flush".to_string(),
            None => "the journal".to_string(),
        }
    }

    /// Number and users of a queue.
    fn queue(&self, queue: i64) -> String {
        let mut users: Vec<u32> =
            self.queues.iter().filter(|&(_, &q)| q == queue).map(|(&(proc, _), _)| proc).collect();
        users.dedup();
        let shown: Vec<String> = users.iter().take(3).map(|&p| self.name(p)).collect();
        match users.len() {
            0 => format!("queue {queue}"),
            1..=3 => format!("queue {queue} ({})", shown.join(", ")),
            n => format!("queue {queue} ({} and {} more)", shown[0], n - 1),
        }
    }

    fn since(&self, at: Instant) -> String {
        ms(at - self.subject.begin)
    }

    fn line(&mut self, text: &str) {
        if self.now < self.subject.begin {
            return;
        }
        self.flush_others();
        self.own = true;
        let line = format!("{:>12} ms  {text}", self.since(self.now));
        self.push(line);
    }

    /// What the process has when measuring begins.
    fn begin(&mut self) {
        if std::mem::replace(&mut self.began, true) {
            return;
        }
        let uses = |p: u32| [true, false].map(|sync| (p, sync));
        for (proc, sync) in self.subject.procs.clone().into_iter().flat_map(uses) {
            if let Some(&queue) = self.queues.get(&(proc, sync)) {
                let kind = if sync { "" } else { " for async writes" };
                let name = self.name(proc);
                let line = format!("{:>12} ms  {name} has {}{kind}", "0.000", self.queue(queue));
                self.own = true;
                self.push(line);
            }
        }
    }

    fn flush_others(&mut self) {
        let (requests, sectors) = std::mem::take(&mut self.others);
        if requests > 0 {
            let s = if requests == 1 { "" } else { "s" };
            self.push(format!("{:15}  others: {requests} request{s}, {}", "", size(sectors)));
        }
    }

    fn push(&mut self, line: String) {
        if self.told < self.limit {
            self.told += 1;
            self.lines.push(line);
        } else {
            self.left_out += 1;
        }
    }
}

/// Milliseconds with microseconds behind the point.
fn ms(t: Nanos) -> String {
    let us = t.0 / 1000;
    format!("{}.{:03}", us / 1000, us % 1000)
}

/// A size with three significant digits at most.
fn size(sectors: Sectors) -> String {
    let bytes = sectors.bytes().0;
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..1_000_000 => format!("{} KiB", bytes / 1024),
        1_000_000..10_000_000 => format!("{:.1} MB", bytes as f64 / 1e6),
        _ => format!("{} MB", bytes / 1_000_000),
    }
}
