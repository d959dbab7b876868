//! The general load: what a fio job says, as parameters (docs/reference/fio.md).
//!
//! One process reads and writes its files, or the device, in sequence or at random, in a mix of directions and
//! sizes, synchronously or with a queue of direct calls, at a rate or with pauses, for a number of bytes, calls, passes
//! or seconds, and exits. Its reads and writes are recorded apart, as the phases `read` and `write`.
//!
//! A pass goes on until the bytes or calls are done or no file has a place left ([`places`]). Before each pass the
//! files' cached pages are dropped and they are opened afresh, when they are first used. A job that fills its time
//! does not begin passes: it goes on in the open files, whose pages stay in the cache. All of this is fio's
//! order of things, as is the following:
//!
//! - **Syncs.** Before each call that is not itself behind a sync: is the number of writes so far a multiple of
//!   `fsync`? Then it is time. In a mix the number stands still while reads are made, and each of them is followed by
//!   another sync.
//! - **Rates** are schedules of each direction by itself. Where the direction that was drawn is not due, the other one
//!   goes if it is, or has no rate: rates and not `mix` decide what a mix consists of.
//! - **A last call** is made if there is anything left to do, however little.
//!
//! A run of sequential buffered calls of one size is one operation; with a time limit it is at most 1 MiB long, so
//! that the job ends that close to its time.
//!
//! Weaknesses. An fsync has no latency of its own in the record. Data is not verified here: the worlds with data do
//! that themselves. A job that is told to stop by another one does so when its pause or its wait is over.

mod build;
mod pace;
mod places;
mod popularity;
mod region;
mod sizes;
mod stop;
mod turns;
mod visited;

use super::params::ParamDoc;
use super::{BS, Better, CountDoc, DIRECT, Load, LoadEntry, SIZE};
use crate::host::{Advice, BarrierId, Notice, Operation, Room, SyncKind};
use crate::rng::Rng;
use hoistway::{Instant, Nanos};
use pace::{CallRate, ThinkTime};
use places::{JobPlaces, PlacedCall};
use region::Region;
use sizes::Sizes;
use std::collections::VecDeque;
use stop::Stop;

const fn param(name: &'static str, default: &'static str, doc: &'static str) -> ParamDoc {
    ParamDoc { name, default, doc }
}

pub(super) const ENTRY: LoadEntry = LoadEntry {
    name: "job",
    summary: "what a fio job says: a mix of reads and writes by size, place, depth, rate and time, then the end",
    writes: true,
    directions: true,
    counts: &[CountDoc {
        name: "syncs",
        unit: "calls",
        better: Better::Neither,
        of: None,
        doc: "fsync and fdatasync calls of load `job`.",
    }],
    work: &["io_size", "calls", "run"],
    params: &[
        param("rw", "read", "`read`, `write`, `randread`, `randwrite`, `rw` or `randrw`."),
        param("mix", "50", "Percent of the calls that read, with `rw` or `randrw`."),
        param(
            "random",
            "100",
            "Percent of the calls that are at random places, with the random kinds of `rw`.",
        ),
        param("random_write", "random", "The same for writes."),
        param("run", "none", "It ends after this time."),
        param(
            "time_based",
            "false",
            "It makes passes until the time is over, however many bytes that takes.",
        ),
        param("loops", "1", "Passes over the region, if it is not time based."),
        ParamDoc {
            doc: "Size of a call: `4k`, `4k-64k` (up to 64k, all alike, in multiples of 4k) or `4k/60:64k/40` (percent).",
            ..BS
        },
        param("bs_write", "bs", "The same for writes."),
        param("align", "the smallest size", "Random places are multiples of it, and may repeat."),
        param("align_write", "align", "The same for writes."),
        DIRECT,
        param(
            "depth",
            "1",
            "Calls in flight, at most 4096; above 1 they are asynchronous, which takes `direct = true`.",
        ),
        param("depth_low", "depth - 1", "A full queue is emptied until so many are in flight."),
        param("batch", "1", "Calls go to the block layer so many at a time."),
        param(
            "batch_complete",
            "1",
            "With a full queue it waits for at least so many calls at a time.",
        ),
        ParamDoc {
            doc: "Bytes of the region in each file, or percent of the device or of `file_size`: `20%`; by default all of these behind `offset`, or 500 MiB, less on drives below 15 GB.",
            ..SIZE
        },
        param(
            "offset",
            "0",
            "Where the region begins in the file or on the device; percent as with `size`, also added: `8k + 20%`.",
        ),
        param("offset_align", "the smallest size", "What percent of `offset` are rounded up to."),
        param("file_size", "offset + size", "Size of each file."),
        param(
            "io_size",
            "size",
            "Bytes that it reads and writes, or percent of `size`, for each of the `loops`.",
        ),
        param("calls", "none", "Calls after which it ends, for each of the `loops`."),
        param("files", "1", "Files of its own."),
        param(
            "file",
            "its own",
            "Name of a file that it uses together with all that name it, or a list of names.",
        ),
        param("turns", "roundrobin", "Which file is next: `roundrobin`, `random` or `sequential`."),
        param("turn_calls", "1", "Calls in a row of one file."),
        param("open_files", "all", "Files that are open at a time."),
        param(
            "new_file",
            "false",
            "The file is created when the job starts, so that the first pass allocates blocks; only for jobs that write alone.",
        ),
        param("raw", "false", "The device past the file system; writes must be direct."),
        param("keep_cache", "false", "Cached pages are not dropped before a pass."),
        param(
            "distribution",
            "random",
            "`random`, `zipf:THETA`, `pareto:H`, `normal:PERCENT`, all of them with `:CENTRE` behind, `zoned:ACCESS/SIZE:...` in percent or `zoned_abs:ACCESS/BYTES:...`.",
        ),
        param("distribution_write", "distribution", "The same for writes."),
        param(
            "repeat_blocks",
            "false",
            "Random blocks are drawn from all each time, and not each once per round.",
        ),
        param("row", "1", "Calls in a row from each random place on."),
        param("row_stays", "false", "They are all at that place."),
        param(
            "hole",
            "0",
            "Bytes left out behind each sequential call; below 0 it goes backwards.",
        ),
        param("advice", "true", "It tells the kernel whether it reads at random or in sequence."),
        param("rate", "0", "Bytes per second of reads, 0: no limit."),
        param("rate_write", "0", "Bytes per second of writes."),
        param("rate_iops", "0", "Reads per second, of the smallest size."),
        param("rate_iops_write", "0", "Writes per second."),
        param("poisson", "false", "Gaps under a rate are exponential and not even."),
        param(
            "catch_up",
            "true",
            "Behind a pause a rate is caught up with; otherwise its schedule moves.",
        ),
        param("think", "0ms", "Pause after every `think_blocks` calls, when all are over."),
        param("think_blocks", "1", "How many; with `think_every` by default none."),
        param("think_first", "think_blocks", "Calls before the first pause."),
        param("think_every", "none", "Pause after this time too."),
        param("think_spin", "0ms", "The first part of the pause, in which it computes."),
        param(
            "fsync",
            "0",
            "fsync while the number of writes is a multiple of it, but not behind another sync; 0: never.",
        ),
        param("fdatasync", "0", "The same with fdatasync."),
        param("end_fsync", "false", "fsync at the end of each pass."),
        param(
            "sync",
            "false",
            "Every write is followed by an fdatasync that counts into its latency (O_DSYNC).",
        ),
        param("delay", "0ms", "It starts so much later."),
        param(
            "seed",
            "the run's",
            "Another seed for its random choices, the same in every repetition.",
        ),
        param(
            "waits_for",
            "none",
            "Barriers it waits at before it starts, by name, separated by blanks.",
        ),
        param("ends_at", "none", "Barriers it comes to when it is over."),
        param("stops", "none", "Whom it stops when it is over: names, separated by blanks."),
        param("stopped_by", "none", "Names under which others stop it."),
    ],
    build: |build| Ok(Box::new(JobLoad::new(build)?)),
};

/// Longest run of calls of a job that has a time limit.
const STRETCH: u64 = 1 << 20;

/// A sync was made.
const COUNTED: Operation = Operation::Tell(Notice::Count { what: "syncs", n: 1 });

/// Where a job is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum JobStage {
    Barriers(usize),
    Delay,
    Begin,
    Create(usize),
    Pass,
    Calls,
    Settled,
    EndSync(usize),
    Over,
    Ends(usize),
    Exit,
}

/// After how many writes a sync follows; 0: never.
#[derive(Clone, Copy, Debug, Default)]
struct Syncs {
    full: u64,
    data: u64,
    /// Writes so far.
    writes: u64,
    /// The last call was a sync.
    last: bool,
}

impl Syncs {
    /// Writes until the next one.
    fn room(&self) -> u64 {
        let left = |every: u64| if every == 0 { u64::MAX } else { every - self.writes % every };
        left(self.full).min(left(self.data))
    }

    /// What is due: whether it is an fsync.
    fn due(&self) -> Option<bool> {
        let is = |every: u64| every > 0 && self.writes > 0 && self.writes.is_multiple_of(every);
        match (self.last, is(self.full), is(self.data)) {
            (false, true, _) => Some(true),
            (false, false, true) => Some(false),
            _ => None,
        }
    }
}

/// How much a job does.
#[derive(Clone, Copy, Debug)]
struct JobAmount {
    /// Bytes, and whether they were given; calls; each times `loops`.
    bytes: u64,
    given: bool,
    calls: u64,
    loops: u64,
    /// Its time, and whether that alone ends it.
    run: Option<Nanos>,
    endless: bool,
}

/// How much it has done.
#[derive(Clone, Copy, Debug, Default)]
struct Done {
    bytes: u64,
    calls: u64,
    passes: u64,
    /// Calls when the pass began.
    before: u64,
}

impl JobAmount {
    /// All of it is issued.
    fn reached(&self, done: &Done) -> bool {
        !self.endless
            && (done.bytes >= self.bytes.saturating_mul(self.loops)
                || done.calls >= self.calls.saturating_mul(self.loops))
    }

    /// Another pass follows one that has come to its end; `largest`: of its calls.
    fn goes_on(&self, done: &Done, largest: u64) -> bool {
        // A pass without a call would be followed by as empty ones.
        if done.calls == done.before || self.reached(done) {
            return false;
        }
        if self.endless || done.passes < self.loops {
            return true;
        }
        // Less than a call is not begun anew for, nor are files that are done if nobody asked for more.
        let left = self.bytes.saturating_sub(done.bytes);
        self.given && done.calls < self.calls && left >= largest
    }
}

#[derive(Debug)]
struct JobLoad {
    regions: Vec<Region>,
    /// Files that are created; of each, whether this pass has opened it; the one in use.
    creates: bool,
    opened: Vec<bool>,
    current: Option<usize>,
    keep_cache: bool,
    advice: Advice,
    /// Percent of the calls that read.
    mix: u64,
    sizes: [Sizes; 2],
    largest: u64,
    places: JobPlaces,
    direct: bool,
    room: Room,
    batch: u32,
    batched: u32,
    queued: bool,
    pace: [Option<CallRate>; 2],
    catch_up: bool,
    /// The direction that waits for its pace.
    held: Option<bool>,
    think: Option<ThinkTime>,
    /// The pause that is due: its two parts.
    pausing: Option<(Nanos, Nanos)>,
    syncs: Syncs,
    sync: bool,
    end_fsync: bool,
    extent: JobAmount,
    done: Done,
    deadline: Option<Instant>,
    delay: Nanos,
    waits_for: Vec<BarrierId>,
    ends_at: Vec<BarrierId>,
    stop: Stop,
    /// What is to be done before anything is decided anew.
    next: VecDeque<Operation>,
    at: JobStage,
    /// For directions and sizes, and as it was at the beginning of a pass.
    rng: Rng,
    first: Rng,
}

impl JobLoad {
    /// What its queue has under way is collected before it does something else.
    fn settle(&mut self) -> Option<Operation> {
        self.batched = 0;
        std::mem::take(&mut self.queued).then_some(Operation::Collect)
    }

    fn is_mixed(&self) -> bool {
        !matches!(self.mix, 0 | 100)
    }

    /// The next call, or what comes before it; `None`: the pass is over.
    fn call(&mut self, now: Instant) -> Option<Operation> {
        if let Some(operation) = self.next.pop_front() {
            return Some(operation);
        }
        let over = self.deadline.is_some_and(|end| now >= end) || self.stop.is_stopped();
        if over || self.extent.reached(&self.done) {
            return None;
        }
        if let Some(pause) = self.pause(now) {
            return Some(pause);
        }
        if let Some(full) = self.syncs.due().filter(|_| self.mix < 100) {
            let file = self.regions[self.places.file()?].file;
            self.syncs.last = true;
            if self.done.calls == self.done.before {
                // One that a pass begins with takes no turn.
                self.places.first_turn();
            }
            self.next.push_back(COUNTED);
            return Some(if full { Operation::Fsync(file) } else { Operation::Fdatasync(file) });
        }
        let write = self.held.take().unwrap_or_else(|| match self.mix {
            100 => false,
            0 => true,
            mix => self.rng.below(100) >= mix,
        });
        match self.paced(write, now) {
            Ok(write) => {
                let call = self.places.next(write, &mut self.rng)?;
                let operation = self.make(write, call);
                self.turn_to(call.file);
                self.next.push_back(operation);
                self.next.pop_front()
            }
            Err((write, due)) => {
                self.held = Some(write);
                let due = due.min(self.deadline.unwrap_or(due));
                Some(self.settle().unwrap_or(Operation::Sleep(due)))
            }
        }
    }

    /// The direction that is due: the one that was drawn, or else the other of a mix. Or which one is next, and when.
    fn paced(&self, write: bool, now: Instant) -> Result<bool, (bool, Instant)> {
        let due = |write: bool| self.pace[usize::from(write)].as_ref().map_or(now, CallRate::due);
        match (due(write), due(!write)) {
            (own, _) if own <= now => Ok(write),
            (own, _) if !self.is_mixed() => Err((write, own)),
            (_, other) if other <= now => Ok(!write),
            (own, other) if other < own => Err((!write, other)),
            (own, _) => Err((write, own)),
        }
    }

    /// What comes before a call in a file that is not the one in use.
    fn turn_to(&mut self, file: usize) {
        if self.current == Some(file) && self.opened[file] {
            return;
        }
        let advice = self.advice;
        let afresh = !std::mem::replace(&mut self.opened[file], true);
        self.current = Some(file);
        let Region { file, base: offset, size: len, part, .. } = self.regions[file];
        if afresh && !self.keep_cache {
            self.next.push_back(match part {
                true => Operation::DontNeedPart { file, offset, len },
                false => Operation::DontNeed(file),
            });
        }
        self.next.push_back(match self.regions.len() {
            1 => Operation::Open { file, advice },
            _ => Operation::TurnTo { file, advice, afresh },
        });
    }

    /// A pause that is due, when all calls are over.
    fn pause(&mut self, now: Instant) -> Option<Operation> {
        if let Some(think) = &mut self.think
            && let Some((spin, sleep)) = think.due(now)
        {
            self.pausing = Some((spin, sleep));
            if !self.catch_up {
                self.pace.iter_mut().flatten().for_each(|pace| pace.shift(spin + sleep));
            }
        }
        let (spin, sleep) = self.pausing?;
        if let Some(settle) = self.settle() {
            return Some(settle);
        }
        if spin > Nanos::ZERO {
            self.pausing = Some((Nanos::ZERO, sleep));
            return Some(Operation::Compute(spin));
        }
        self.pausing = None;
        let end = now + sleep;
        Some(Operation::Sleep(end.min(self.deadline.unwrap_or(end))))
    }

    /// One call, or a run of them.
    fn make(&mut self, write: bool, call: PlacedCall) -> Operation {
        let side = usize::from(write);
        let PlacedCall { offset, len, .. } = call;
        let single = self.direct
            || self.pace[side].is_some()
            || self.think.is_some()
            || self.is_mixed()
            || !matches!(self.sizes[side], Sizes::One(_))
            || (write && self.sync);
        let mut calls = 1;
        if !single {
            let most = match self.deadline {
                Some(_) => (STRETCH / len).max(1),
                None => u64::MAX,
            };
            let room = if write { self.syncs.room() } else { u64::MAX };
            calls += self.places.follow(write, len, most.min(self.left(len)).min(room) - 1);
        }
        self.done.bytes += len * calls;
        self.done.calls += calls;
        self.syncs.last = false;
        if write {
            self.syncs.writes += calls;
        }
        if let Some(think) = &mut self.think {
            think.made(calls);
        }
        if let Some(pace) = &mut self.pace[side] {
            pace.spent(len, &mut self.rng);
        }
        let since = None;
        match (self.direct, write) {
            (true, _) if self.room.depth > 1 => {
                self.queued = true;
                self.batched = (self.batched + 1) % self.batch;
                // What a sync follows, or ends the pass, is not held back.
                let last = self.extent.reached(&self.done) || self.syncs.due().is_some();
                let room = Room { more: self.batched > 0 && !last, ..self.room };
                Operation::Queue { write, offset, len, since, room }
            }
            (true, _) => Operation::Direct { write, offset, len, since, sync: write && self.sync },
            (false, false) => Operation::Read { offset, bs: len, count: calls },
            (false, true) => {
                let sync = if self.sync { SyncKind::Data } else { SyncKind::No };
                Operation::Write { offset, bs: len, count: calls, sync }
            }
        }
    }

    /// Calls of a size that are left to do, this one included.
    fn left(&self, len: u64) -> u64 {
        if self.extent.endless {
            return u64::MAX;
        }
        let JobAmount { bytes, calls, loops, .. } = self.extent;
        let of_bytes = (bytes.saturating_mul(loops) - self.done.bytes).div_ceil(len);
        of_bytes.min(calls.saturating_mul(loops) - self.done.calls)
    }

    /// A pass is over: another one, or the end.
    fn pass_over(&mut self, now: Instant) -> JobStage {
        self.done.passes += 1;
        let in_time = self.deadline.is_none_or(|end| now < end) && !self.stop.is_stopped();
        match in_time && self.extent.goes_on(&self.done, self.largest) {
            true => JobStage::Pass,
            false => JobStage::Over,
        }
    }
}

impl Load for JobLoad {
    fn next(&mut self, now: Instant) -> Operation {
        loop {
            match self.at {
                JobStage::Barriers(i) => match self.waits_for.get(i) {
                    Some(&barrier) => {
                        self.at = JobStage::Barriers(i + 1);
                        return Operation::Barrier(barrier);
                    }
                    None => self.at = JobStage::Delay,
                },
                JobStage::Delay => {
                    self.at = JobStage::Begin;
                    if self.delay > Nanos::ZERO {
                        return Operation::Sleep(now + self.delay);
                    }
                }
                JobStage::Begin => {
                    self.deadline = self.extent.run.map(|run| now + run);
                    self.pace.iter_mut().flatten().for_each(|pace| pace.start(now));
                    self.think.iter_mut().for_each(|think| think.start(now));
                    self.at = JobStage::Create(0);
                }
                JobStage::Create(i) => match self.regions.get(i).filter(|_| self.creates) {
                    Some(region) => {
                        self.at = JobStage::Create(i + 1);
                        return Operation::Create(region.file);
                    }
                    None => self.at = JobStage::Pass,
                },
                JobStage::Pass => {
                    self.at = JobStage::Calls;
                    self.done.before = self.done.calls;
                    self.held = None;
                    if self.done.passes > 0 {
                        self.places.restart();
                        self.rng = self.first.clone();
                        // As fio does it: a sync that is due then is made once more.
                        self.syncs.last = false;
                    }
                    self.opened.fill(false);
                }
                JobStage::Calls => match self.call(now) {
                    Some(operation) => return operation,
                    None => self.at = JobStage::Settled,
                },
                JobStage::Settled => match self.settle() {
                    Some(collect) => return collect,
                    None => self.at = JobStage::EndSync(0),
                },
                JobStage::EndSync(i) => {
                    if let Some(counted) = self.next.pop_front() {
                        return counted;
                    }
                    let syncs = self.end_fsync && self.mix < 100 && !self.syncs.last;
                    match self.regions.get(i).filter(|_| syncs) {
                        Some(region) => {
                            self.at = JobStage::EndSync(i + 1);
                            self.next.push_back(COUNTED);
                            return Operation::Fsync(region.file);
                        }
                        None => self.at = self.pass_over(now),
                    }
                }
                JobStage::Over => {
                    self.stop.stop_others();
                    self.at = JobStage::Ends(0);
                }
                JobStage::Ends(i) => match self.ends_at.get(i) {
                    Some(&barrier) => {
                        self.at = JobStage::Ends(i + 1);
                        return Operation::Barrier(barrier);
                    }
                    None => self.at = JobStage::Exit,
                },
                JobStage::Exit => return Operation::Exit,
            }
        }
    }
}

#[cfg(test)]
mod tests;
