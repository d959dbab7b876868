//! A block trace as a feed of the replay: read by a thread of its own, in batches.
//!
//! Reading, decompressing, parsing and putting in order cost about as much as the simulation of a record, so they are
//! done beside it. Batches go round: memory is what is in flight between the two.

use super::{HOUR, LATEST, Loop, OffsetMapping, ReplayPlan, Split};
use hoistway::{Flags, Instant, IoPrio, Nanos, Op};
use hoistway_run::{JobError, ProcSpec};
use hoistway_sim::world::Job;
use hoistway_sim::world::replay::{Arrival, Feed, Follow, Member};
use hoistway_trace::{self as trace, Kind, Reader, Record};
use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::Scope;

/// Processes that are kept apart; later ones are `OTHERS` together. Each costs a histogram and a series.
pub const MEMBERS_MAX: usize = 1024;
/// The name of those that came later.
pub const OTHERS: &str = "(others)";
/// The name of a process that the trace does not name.
const UNNAMED: &str = "trace";
/// Records of a batch.
const BATCH: usize = 2048;
/// Batches between the two threads.
const BATCHES: usize = 8;
/// Submissions whose ends are awaited; a trace that lost more completions than that has no ends to follow.
const AWAITED_MAX: usize = 1 << 16;

/// What was found while a trace was read.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// Format.
    pub format: String,
    /// Of all records that were replayed: time, place, length, what and who.
    pub digest: u64,
    /// Records replayed.
    pub records: u64,
    /// Records that could not be read.
    pub malformed: u64,
    /// The first of them, with its place.
    pub first_malformed: Option<String>,
    /// Records out of order beyond the reader's window.
    pub late: u64,
    /// Arrivals without a time of their own.
    pub untimed: u64,
    /// Recordings behind the first in the same file.
    pub recordings: u64,
    /// The times are those of the recording.
    pub timed: bool,
    /// Gaps longer than an hour, and what was cut of them in ns.
    pub gaps: u64,
    pub gaps_ns: u64,
    /// Reads, writes and discards of nothing, left out.
    pub empty: u64,
    /// Records beyond the drive, wrapped.
    pub beyond: u64,
    /// Records longer than the drive, cut.
    pub too_long: u64,
    /// Records widened to whole sectors of the drive.
    pub unaligned: u64,
    /// Processes beyond [`MEMBERS_MAX`].
    pub joined: u64,
}

/// Some records, and who is new in them.
#[derive(Debug, Default)]
struct Batch {
    arrivals: Vec<Arrival>,
    names: Vec<String>,
    progress: u64,
    /// What was found up to its end: all there is of a replay that is stopped.
    facts: Facts,
}

#[derive(Debug)]
enum Message {
    Batch(Batch),
    End,
    Failed(String),
}

/// The drive as far as placing records needs it, in sectors of 512 bytes.
#[derive(Clone, Copy, Debug)]
struct Geometry {
    capacity: u64,
    sector: u64,
}

/// Who records belong to: numbers in order of first appearance.
#[derive(Debug, Default)]
struct Members {
    /// By number of the trace's table; `u32::MAX`: not met yet.
    numbers: Vec<u32>,
    count: u32,
    others: Option<u32>,
    joined: u64,
}

impl Members {
    /// The number of a key; a new one's name is made by `name`.
    #[inline]
    fn of(&mut self, key: u32, fresh: &mut Vec<String>, name: impl FnOnce() -> String) -> u32 {
        match self.numbers.get(key as usize) {
            Some(&number) if number != u32::MAX => number,
            _ => self.add(key, fresh, name),
        }
    }

    #[cold]
    fn add(&mut self, key: u32, fresh: &mut Vec<String>, name: impl FnOnce() -> String) -> u32 {
        if self.numbers.len() <= key as usize {
            self.numbers.resize(key as usize + 1, u32::MAX);
        }
        let mut next = |name: String, count: &mut u32| {
            fresh.push(name);
            *count += 1;
            *count - 1
        };
        let number = if (self.count as usize) < MEMBERS_MAX {
            next(name(), &mut self.count)
        } else {
            self.joined += 1;
            match self.others {
                Some(others) => others,
                None => {
                    let others = next(OTHERS.into(), &mut self.count);
                    self.others = Some(others);
                    others
                }
            }
        };
        self.numbers[key as usize] = number;
        number
    }
}

/// The key of a record, and its name.
fn key(split: Split, record: &Record) -> u32 {
    match split {
        Split::Process => record.process,
        Split::Group => record.group,
        Split::Lun => record.device,
        Split::None => 0,
    }
}

fn name(split: Split, key: u32, names: &trace::Names) -> String {
    let name = match split {
        Split::Process => names.processes.name(key),
        Split::Group => names.groups.name(key),
        Split::Lun => names.devices.name(key),
        Split::None => "-",
    };
    match name {
        "-" => UNNAMED.into(),
        // A slash would part a path of groups.
        name => name.replace('/', ":"),
    }
}

/// Names of all members of a trace.
pub(super) fn survey(plan: &ReplayPlan) -> Result<Vec<String>, String> {
    let mut reader = Reader::open(&plan.path, &plan.reader).map_err(|e| e.to_string())?;
    let (mut members, mut names, mut record) = (Members::default(), Vec::new(), Record::default());
    while reader.read(&mut record).map_err(|e| e.to_string())? {
        let key = key(plan.split, &record);
        members.of(key, &mut names, || name(plan.split, key, reader.names()));
    }
    Ok(names)
}

/// Turns records into arrivals.
struct Parser<'a> {
    plan: &'a ReplayPlan,
    room: Geometry,
    reader: Reader,
    facts: Facts,
    members: Members,
    /// Closed loop: what each member's submissions follow.
    follows: Vec<Follow>,
    /// Closed loop: submissions whose ends are awaited, by device and first byte.
    awaited: BTreeMap<(u32, u64), (u32, u64)>,
    closed: bool,
    /// Time of the record before, as recorded.
    last: u64,
    /// Longest gap, as recorded: an hour of the replay.
    gap_max: u64,
}

impl Parser<'_> {
    fn run(mut self, out: &SyncSender<Message>, back: &Receiver<Batch>) {
        loop {
            let mut batch = back.try_recv().unwrap_or_default();
            batch.arrivals.clear();
            batch.names.clear();
            let more = self.fill(&mut batch);
            batch.progress = self.reader.progress().0;
            batch.facts = self.found();
            let last = match &more {
                Ok(true) => None,
                Ok(false) => Some(Message::End),
                Err(error) => Some(Message::Failed(error.clone())),
            };
            // A replay that has ended hears no more.
            if out.send(Message::Batch(batch)).is_err() {
                return;
            }
            if let Some(last) = last {
                let _ = out.send(last);
                return;
            }
        }
    }

    fn found(&self) -> Facts {
        let mut facts = self.facts.clone();
        facts.format = self.reader.format().map_or("-", |f| f.name).to_string();
        facts.malformed = self.reader.malformed();
        facts.first_malformed = self.reader.first_malformed().map(ToString::to_string);
        facts.late = self.reader.late();
        facts.untimed = self.reader.untimed();
        facts.recordings = self.reader.recordings();
        facts.timed = self.reader.times_known();
        facts.joined = self.members.joined;
        facts
    }

    /// Fills a batch; false at the end of the trace.
    fn fill(&mut self, batch: &mut Batch) -> Result<bool, String> {
        let mut record = Record::default();
        while batch.arrivals.len() < BATCH {
            if !self.reader.read(&mut record).map_err(|e| e.to_string())? {
                return Ok(false);
            }
            self.cut_gap(&mut record)?;
            match record.kind {
                Kind::Arrival => {}
                Kind::Complete if self.closed => {
                    self.completed(&record);
                    continue;
                }
                _ => continue,
            }
            let split = self.plan.split;
            let key = key(split, &record);
            let names = self.reader.names();
            let proc = self.members.of(key, &mut batch.names, || name(split, key, names));
            let Some((start, sectors)) = self.placed(&record) else { continue };
            let mut arrival = Arrival {
                at: Instant::from_nanos(self.scaled(record.time)),
                proc,
                op: match record.op {
                    trace::Op::Read => Op::Read,
                    trace::Op::Write => Op::Write,
                    trace::Op::Flush => Op::Flush,
                    trace::Op::Discard => Op::Discard,
                },
                flags: self.flags(&record),
                prio: IoPrio::NONE,
                start,
                sectors,
                ..Arrival::default()
            };
            if self.closed {
                self.follow(&record, &mut arrival);
            }
            let f = &mut self.facts;
            f.records += 1;
            for word in [record.time, record.offset, record.len << 2 ^ record.op as u64] {
                f.digest = (f.digest ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23);
            }
            f.digest ^= u64::from(proc);
            batch.arrivals.push(arrival);
        }
        Ok(true)
    }

    /// Moves a record towards the one before, if a long time without any lies between.
    #[inline]
    fn cut_gap(&mut self, record: &mut Record) -> Result<(), String> {
        let gap = record.time - self.last;
        self.last = record.time;
        if gap > self.gap_max {
            self.facts.gaps += 1;
            self.facts.gaps_ns += gap - self.gap_max;
        }
        record.time -= self.facts.gaps_ns;
        match self.scaled(record.time) {
            0..=LATEST => Ok(()),
            _ => {
                Err("the replay would take more than 146 years; --from and --to choose a part"
                    .into())
            }
        }
    }

    #[inline]
    fn scaled(&self, ns: u64) -> u64 {
        if self.plan.speed == 1.0 { ns } else { (ns as f64 / self.plan.speed) as u64 }
    }

    /// First sector and length on the drive; `None`: nothing to do.
    #[inline]
    fn placed(&mut self, record: &Record) -> Option<(u64, u64)> {
        if record.op == trace::Op::Flush {
            return Some((0, 0));
        }
        let f = &mut self.facts;
        if record.len == 0 {
            f.empty += 1;
            return None;
        }
        let Geometry { capacity, sector } = self.room;
        let offset = match self.plan.place {
            OffsetMapping::Wrap => record.offset,
            OffsetMapping::Scale(from) => {
                let end = capacity * 512;
                (u128::from(record.offset) * u128::from(end) / u128::from(from)) as u64
            }
        };
        let bytes = sector * 512;
        let first = offset / bytes * sector;
        let end = offset.saturating_add(record.len).div_ceil(bytes).saturating_mul(sector);
        let mut sectors = end.saturating_sub(first);
        // Of a scaled offset the rest has no meaning.
        if self.plan.place == OffsetMapping::Wrap {
            f.unaligned += u64::from(!(record.offset | record.len).is_multiple_of(bytes));
        } else {
            sectors = record.len.div_ceil(bytes) * sector;
        }
        if sectors > capacity {
            f.too_long += 1;
            sectors = capacity;
        }
        let last = capacity - sectors;
        if first <= last {
            return Some((first, sectors));
        }
        f.beyond += 1;
        Some(((first % capacity).min(last), sectors))
    }

    fn flags(&self, record: &Record) -> Flags {
        let pairs = [
            (trace::Flags::SYNC, Flags::SYNC),
            (trace::Flags::META, Flags::META),
            (trace::Flags::AHEAD, Flags::RAHEAD),
            (trace::Flags::FUA, Flags::FUA),
            (trace::Flags::PREFLUSH, Flags::PREFLUSH),
        ];
        let mut flags = Flags::NONE;
        if record.flags != trace::Flags::NONE {
            let set = pairs.iter().filter(|(theirs, _)| record.flags.has(*theirs));
            set.for_each(|&(_, ours)| flags |= ours);
        }
        if self.plan.sync_writes && record.op == trace::Op::Write {
            flags |= Flags::SYNC;
        }
        flags
    }

    /// Closed loop: what this one follows.
    fn follow(&mut self, record: &Record, arrival: &mut Arrival) {
        let member = arrival.proc as usize;
        if self.follows.len() <= member {
            self.follows.resize_with(member + 1, Follow::default);
        }
        let end = record.response.map(|r| record.time.saturating_add(r));
        let (after, think, number) = self.follows[member].submit(record.time, end);
        (arrival.after, arrival.think) = (after, Nanos(self.scaled(think)));
        if end.is_none() {
            if self.awaited.len() >= AWAITED_MAX {
                self.awaited.clear();
            }
            self.awaited.insert((record.device, record.offset), (arrival.proc, number));
        }
    }

    /// Closed loop: a range was served, and with it what was submitted in it.
    fn completed(&mut self, record: &Record) {
        let end = record.offset.saturating_add(record.len.max(1));
        let range = (record.device, record.offset)..(record.device, end);
        while let Some((&place, &(member, number))) = self.awaited.range(range.clone()).next() {
            self.awaited.remove(&place);
            self.follows[member as usize].ended(number, record.time);
        }
    }
}

/// The feed: what the thread sends, and who its members are in the job.
#[derive(Debug)]
pub(super) struct RecordFeed<'a> {
    messages: Receiver<Message>,
    back: Sender<Batch>,
    batch: Batch,
    at: usize,
    names: Vec<String>,
    procs: &'a [ProcSpec],
    /// The job's processes by name.
    places: BTreeMap<&'a str, usize>,
    facts: Facts,
    ended: bool,
    progress: u64,
}

impl<'a> RecordFeed<'a> {
    /// Starts the thread.
    pub fn start<'scope>(
        scope: &'scope Scope<'scope, '_>,
        plan: &'a ReplayPlan,
        job: &'a Job<'_>,
    ) -> RecordFeed<'a>
    where
        'a: 'scope,
    {
        let (out, messages) = sync_channel(BATCHES);
        let (back, recycled) = channel();
        let identity = &job.drive.identity;
        let room = Geometry {
            capacity: identity.capacity_bytes / 512,
            sector: identity.sector_bytes / 512,
        };
        scope.spawn(move || {
            let closed = plan.by == Loop::Closed;
            let options = trace::Options { completions: closed, ..plan.reader.clone() };
            let reader = match Reader::open(&plan.path, &options) {
                Ok(reader) => reader,
                Err(error) => {
                    let _ = out.send(Message::Failed(error.to_string()));
                    return;
                }
            };
            let parser = Parser {
                plan,
                room,
                reader,
                facts: Facts { digest: 0xcbf2_9ce4_8422_2325, ..Facts::default() },
                members: Members::default(),
                follows: Vec::new(),
                awaited: BTreeMap::new(),
                closed,
                last: 0,
                gap_max: (HOUR as f64 * plan.speed) as u64,
            };
            parser.run(&out, &recycled);
        });
        let places = job.procs.iter().enumerate().map(|(i, p)| (p.name.as_str(), i)).collect();
        RecordFeed {
            messages,
            back,
            batch: Batch::default(),
            at: 0,
            names: Vec::new(),
            procs: &job.procs,
            places,
            facts: Facts::default(),
            ended: false,
            progress: 0,
        }
    }

    /// What the thread found in what was replayed.
    pub fn finish(self) -> Facts {
        self.facts
    }

    #[cold]
    fn refill(&mut self) -> Result<bool, JobError> {
        loop {
            if self.ended {
                return Ok(false);
            }
            match self.messages.recv() {
                Ok(Message::Batch(mut batch)) => {
                    self.names.append(&mut batch.names);
                    self.progress = batch.progress;
                    self.facts = std::mem::take(&mut batch.facts);
                    let old = std::mem::replace(&mut self.batch, batch);
                    // The thread may be gone already.
                    let _ = self.back.send(old);
                    self.at = 0;
                    if !self.batch.arrivals.is_empty() {
                        return Ok(true);
                    }
                }
                Ok(Message::End) => self.ended = true,
                Ok(Message::Failed(message)) => {
                    return Err(super::trace_error(message));
                }
                Err(_) => return Err(super::trace_error("its reader is gone".into())),
            }
        }
    }
}

impl Feed for RecordFeed<'_> {
    #[inline]
    fn next(&mut self) -> Result<Option<Arrival>, JobError> {
        if self.at == self.batch.arrivals.len() && !self.refill()? {
            return Ok(None);
        }
        self.at += 1;
        Ok(Some(self.batch.arrivals[self.at - 1]))
    }

    fn introduce(&mut self, number: u32) -> Member {
        let name = self.names[number as usize].clone();
        let known = self.places.get(name.as_str()).map(|&i| &self.procs[i]);
        let (group, prio) = known.map_or((None, IoPrio::NONE), |p| (p.group, p.prio));
        Member { name, group, prio, counted: true }
    }

    fn progress(&self) -> u64 {
        self.progress
    }
}
