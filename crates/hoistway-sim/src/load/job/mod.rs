//! The general load: what a fio job says, as parameters (docs/reference/fio.md).
//!
//! One process reads and writes one file, or the device, in sequence or at random, in a mix of directions and
//! sizes, synchronously or with a queue of direct calls, at a rate or with pauses, for a number of bytes, passes
//! or seconds, and exits. Its reads and writes are recorded apart, as the phases `read` and `write`.
//!
//! A pass is `io_size` bytes. Before each, the file's cached pages are dropped and it is opened afresh, as fio
//! does with a file of every loop. A run of sequential buffered calls of one size is one operation; with a time
//! limit it is at most 1 MiB long, so that the job ends that close to its time.
//!
//! Weaknesses. With sizes that differ, random places are drawn from all blocks each time, where fio keeps a map
//! of what it has visited. An fsync has no latency of its own in the record. Data is not verified here: the
//! worlds with data do that themselves.

mod pace;
mod places;
mod sizes;

use super::params::ParamDoc;
use super::{BS, Better, Build, CountDoc, DIRECT, Load, LoadEntry, SIZE};
use crate::host::{Advice, BarrierId, FileId, Notice, Operation, PAGE, Room, SyncKind};
use crate::rng::{Rng, stream};
use crate::world::JobError;
use hoistway::{Instant, Nanos};
use pace::{Pace, Think};
use places::{Places, Plan, Popularity};
use sizes::Sizes;

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
    work: &["io_size", "run"],
    params: &[
        param("rw", "read", "`read`, `write`, `randread`, `randwrite`, `rw` or `randrw`."),
        param("mix", "50", "Percent of the calls that read, with `rw` or `randrw`."),
        param(
            "random",
            "100",
            "Percent of the calls that are at random places, with the random kinds of `rw`.",
        ),
        param("run", "none", "It ends after this time."),
        param(
            "time_based",
            "false",
            "It makes passes until the time is over, however many bytes that takes.",
        ),
        param("loops", "1", "Passes over the region, if it is not time based."),
        ParamDoc {
            doc: "Size of a call: `4k`, `4k-64k` (multiples of the first, all alike) or `4k/60:64k/40` (percent).",
            ..BS
        },
        param("bs_write", "bs", "The same for writes."),
        param("align", "the smallest size", "Random places are multiples of it."),
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
            doc: "Bytes of the region; by default 500 MiB, less on drives below 15 GB, or all of a raw device behind `offset`.",
            ..SIZE
        },
        param("offset", "0", "Where the region begins in the file or on the device."),
        param("file_size", "offset + size", "Size of the file."),
        param("io_size", "size", "Bytes of a pass."),
        param("file", "its own", "Name of a file that it uses together with all that name it."),
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
            "`random`, `zipf:THETA`, `pareto:H`, `normal:PERCENT` or `zoned:ACCESS/SIZE:...`.",
        ),
        param(
            "repeat_blocks",
            "false",
            "Random blocks are drawn from all each time, and not each once per round.",
        ),
        param("row", "1", "Calls in a row from each random place on."),
        param("hole", "0", "Bytes left out behind each sequential call."),
        param("advice", "true", "It tells the kernel whether it reads at random or in sequence."),
        param("rate", "0", "Bytes per second of reads, 0: no limit."),
        param("rate_write", "0", "Bytes per second of writes."),
        param("rate_iops", "0", "Reads per second."),
        param("rate_iops_write", "0", "Writes per second."),
        param("poisson", "false", "Gaps under a rate are exponential and not even."),
        param("think", "0ms", "Pause after every `think_blocks` calls, when all are over."),
        param("think_blocks", "1", "How many."),
        param("think_spin", "0ms", "The first part of the pause, in which it computes."),
        param("fsync", "0", "fsync after every so many writes, 0: never."),
        param("fdatasync", "0", "fdatasync after every so many writes."),
        param("end_fsync", "false", "fsync at the end."),
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
    ],
    build: |build| Ok(Box::new(Job::new(build)?)),
};

/// Longest run of calls of a job that has a time limit.
const STRETCH: u64 = 1 << 20;

/// Where a job is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    Barriers(usize),
    Delay,
    Create,
    Drop,
    Open,
    Calls,
    Settled,
    EndSync,
    Ends(usize),
    Exit,
}

/// After how many writes a sync follows; 0: never.
#[derive(Clone, Copy, Debug, Default)]
struct Syncs {
    full: u64,
    data: u64,
    since_full: u64,
    since_data: u64,
}

impl Syncs {
    fn wrote(&mut self, calls: u64) {
        self.since_full += calls;
        self.since_data += calls;
    }

    /// Writes until the next one.
    fn room(&self) -> u64 {
        let left = |every: u64, since: u64| if every == 0 { u64::MAX } else { every - since };
        left(self.full, self.since_full).min(left(self.data, self.since_data))
    }

    fn due(&mut self, file: FileId) -> Option<Operation> {
        if self.full > 0 && self.since_full >= self.full {
            self.since_full = 0;
            return Some(Operation::Fsync(file));
        }
        if self.data > 0 && self.since_data >= self.data {
            self.since_data = 0;
            return Some(Operation::Fdatasync(file));
        }
        None
    }
}

#[derive(Debug)]
struct Job {
    file: FileId,
    /// The region, and whether the file is larger than it.
    base: u64,
    size: u64,
    part: bool,
    creates: bool,
    keep_cache: bool,
    advice: Advice,
    /// Percent of the calls that read.
    mix: u64,
    sizes: [Sizes; 2],
    places: Places,
    direct: bool,
    room: Room,
    batch: u32,
    batched: u32,
    queued: bool,
    pace: [Option<Pace>; 2],
    /// The call that a pace or a pause held back.
    chosen: Option<(bool, u64)>,
    think: Option<Think>,
    /// Calls since the last pause; the pause that is due: its two parts.
    thought: u64,
    pausing: Option<(Nanos, Nanos)>,
    syncs: Syncs,
    sync: bool,
    end_fsync: bool,
    io_size: u64,
    done: u64,
    loops: u64,
    run: Option<Nanos>,
    time_based: bool,
    deadline: Option<Instant>,
    delay: Nanos,
    waits_for: Vec<BarrierId>,
    ends_at: Vec<BarrierId>,
    counted: bool,
    at: At,
    rng: Rng,
}

/// Words of `rw`, and whether each is random; percent of reads, if it is no mix.
const KINDS: &[&str] = &["read", "write", "randread", "randwrite", "rw", "randrw", "readwrite"];

impl Job {
    fn new(build: &mut Build<'_>) -> Result<Job, JobError> {
        let p = &build.params;
        let kind = KINDS[p.choice("rw", KINDS)?.unwrap_or(0)];
        let random = kind.starts_with("rand");
        let mix = match kind {
            "read" | "randread" => 100,
            "write" | "randwrite" => 0,
            _ => percent(build, "mix", 50)?,
        };
        let direct = p.flag("direct")?.unwrap_or(false);
        let sizes = sizes(build, direct, mix)?;
        let [reads, writes] = &sizes;
        let used = |of: fn(&Sizes) -> u64, pick: fn(u64, u64) -> u64| match mix {
            100 => of(reads),
            0 => of(writes),
            _ => pick(of(reads), of(writes)),
        };
        let (smallest, largest) = (used(Sizes::smallest, u64::min), used(Sizes::largest, u64::max));
        let region = Region::new(build, mix, direct, largest)?;
        let align = build.params.bytes("align")?.unwrap_or(smallest);
        let unit = unit(build, direct, mix < 100);
        if align == 0 || align % unit != 0 {
            return Err(build
                .params
                .wrong(format!("align = {align}: choose a multiple of {unit}")));
        }
        let p = &build.params;
        let seed = p.number("seed")?;
        let rng = |what: &str| match seed {
            Some(seed) => stream(seed, &format!("job/{what}")),
            None => stream(build.seed, &format!("load/{}/{what}", build.index)),
        };
        let popularity = match p.text("distribution")? {
            None => Popularity::Uniform,
            Some(text) => Popularity::parse(text)
                .map_err(|e| p.wrong(format!("distribution = {text}: {e}")))?,
        };
        let hole = p.bytes("hole")?.unwrap_or(0) as i64;
        let plan = Plan {
            size: region.size,
            align,
            random: if random { percent(build, "random", 100)? } else { 0 },
            run: p.number("row")?.unwrap_or(1).max(1),
            hole,
            popularity,
            once: smallest == largest
                && align == smallest
                && !p.flag("repeat_blocks")?.unwrap_or(false),
        };
        let (room, batch) = room(build, direct)?;
        let pace = paces(build)?;
        let sync = p.flag("sync")?.unwrap_or(false);
        if sync && room.depth > 1 {
            return Err(p.wrong("sync: a synced write is waited for; set depth = 1".into()));
        }
        let advised = p.flag("advice")?.unwrap_or(true);
        let advice = match (advised, random) {
            (false, _) => Advice::Normal,
            (true, true) => Advice::Random,
            (true, false) => Advice::Sequential,
        };
        let time = |name| p.time(name).map(|t| t.map(Nanos));
        let run = time("run")?;
        let time_based = p.flag("time_based")?.unwrap_or(false);
        if time_based && run.is_none() {
            return Err(p.wrong("time_based needs run, the time".into()));
        }
        let think_time = time("think")?.unwrap_or_default();
        let think = (think_time > Nanos::ZERO).then_some(Think {
            time: think_time,
            spin: time("think_spin")?.unwrap_or_default().min(think_time),
            blocks: p.number("think_blocks")?.unwrap_or(1).max(1),
        });
        let syncs = Syncs {
            full: p.number("fsync")?.unwrap_or(0),
            data: p.number("fdatasync")?.unwrap_or(0),
            ..Syncs::default()
        };
        let io_size = p.bytes("io_size")?.unwrap_or(region.size);
        if io_size == 0 {
            return Err(p.wrong("io_size = 0: choose at least a call".into()));
        }
        let words = |name| -> Result<Vec<&str>, JobError> {
            Ok(p.text(name)?.map(|t| t.split_whitespace().collect()).unwrap_or_default())
        };
        let (waits, ends) = (words("waits_for")?, words("ends_at")?);
        let (rng_calls, rng_places) = (rng("calls"), rng("places"));
        let (end_fsync, keep_cache) =
            (p.flag("end_fsync")?.unwrap_or(false), p.flag("keep_cache")?.unwrap_or(false));
        let (loops, delay) =
            (p.number("loops")?.unwrap_or(1).max(1), time("delay")?.unwrap_or_default());
        Ok(Job {
            file: region.file,
            base: region.base,
            size: region.size,
            part: region.part,
            creates: region.creates,
            keep_cache,
            advice,
            mix,
            sizes,
            places: Places::new(plan, rng_places),
            direct,
            room,
            batch,
            batched: 0,
            queued: false,
            pace,
            chosen: None,
            think,
            thought: 0,
            pausing: None,
            syncs,
            sync,
            end_fsync,
            io_size,
            done: 0,
            loops,
            run,
            time_based,
            deadline: None,
            delay,
            waits_for: waits.iter().map(|name| build.host.barrier(name)).collect(),
            ends_at: ends.iter().map(|name| build.host.barrier(name)).collect(),
            counted: false,
            at: At::Barriers(0),
            rng: rng_calls,
        })
    }

    /// What its queue has under way is collected before it does something else.
    fn settle(&mut self) -> Option<Operation> {
        self.batched = 0;
        std::mem::take(&mut self.queued).then_some(Operation::Collect)
    }

    /// The next call, or what comes before it; `None`: the pass is over.
    fn call(&mut self, now: Instant) -> Option<Operation> {
        if self.done >= self.io_size || self.deadline.is_some_and(|end| now >= end) {
            return None;
        }
        if let Some(sync) = self.syncs.due(self.file) {
            self.counted = true;
            return Some(sync);
        }
        if std::mem::take(&mut self.counted) {
            return Some(Operation::Tell(Notice::Count { what: "syncs", n: 1 }));
        }
        if let Some(pause) = self.pause(now) {
            return Some(pause);
        }
        let (write, len) = self.chosen.take().unwrap_or_else(|| {
            let write = match self.mix {
                100 => false,
                0 => true,
                mix => self.rng.below(100) >= mix,
            };
            (write, self.sizes[usize::from(write)].draw(&mut self.rng))
        });
        if let Some(pace) = &self.pace[usize::from(write)]
            && pace.due() > now
        {
            let due = pace.due().min(self.deadline.unwrap_or(pace.due()));
            self.chosen = Some((write, len));
            return Some(self.settle().unwrap_or(Operation::Sleep(due)));
        }
        Some(self.make(write, len))
    }

    /// A pause that is due, when all calls are over.
    fn pause(&mut self, now: Instant) -> Option<Operation> {
        if let Some(think) = self.think
            && self.thought >= think.blocks
        {
            self.thought = 0;
            self.pausing = Some((think.spin, Nanos(think.time.0 - think.spin.0)));
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
    fn make(&mut self, write: bool, len: u64) -> Operation {
        let side = usize::from(write);
        let single = self.direct
            || self.pace[side].is_some()
            || self.think.is_some()
            || !matches!(self.mix, 0 | 100)
            || !matches!(self.sizes[side], Sizes::One(_))
            || (write && self.sync);
        let mut calls = 1;
        if !single {
            let most = match self.deadline {
                Some(_) => (STRETCH / len).max(1),
                None => u64::MAX,
            };
            let left = (self.io_size - self.done).div_ceil(len);
            let room = if write { self.syncs.room() } else { u64::MAX };
            calls = self.places.stretch(write, len, most.min(left).min(room));
        }
        let offset = self.base + self.places.next(write, len);
        self.places.skip(write, len, calls - 1);
        self.done += len * calls;
        self.thought += calls;
        if write {
            self.syncs.wrote(calls);
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
                let last = self.done >= self.io_size || self.syncs.room() == 0;
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

    /// A pass is over: another one, or the end.
    fn pass_over(&mut self, now: Instant) -> At {
        self.done = 0;
        self.chosen = None;
        self.loops = self.loops.saturating_sub(1);
        let in_time = self.deadline.is_none_or(|end| now < end);
        if in_time && (self.time_based || self.loops > 0) { At::Drop } else { At::EndSync }
    }
}

impl Load for Job {
    fn next(&mut self, now: Instant) -> Operation {
        loop {
            match self.at {
                At::Barriers(i) => match self.waits_for.get(i) {
                    Some(&barrier) => {
                        self.at = At::Barriers(i + 1);
                        return Operation::Barrier(barrier);
                    }
                    None => self.at = At::Delay,
                },
                At::Delay => {
                    self.at = At::Create;
                    if self.delay > Nanos::ZERO {
                        return Operation::Sleep(now + self.delay);
                    }
                }
                At::Create => {
                    self.deadline = self.run.map(|run| now + run);
                    self.pace.iter_mut().flatten().for_each(|pace| pace.start(now));
                    self.at = At::Drop;
                    if std::mem::take(&mut self.creates) {
                        return Operation::Create(self.file);
                    }
                }
                At::Drop => {
                    self.at = At::Open;
                    self.places.restart();
                    if !self.keep_cache {
                        let (file, offset, len) = (self.file, self.base, self.size);
                        return match self.part {
                            true => Operation::DontNeedPart { file, offset, len },
                            false => Operation::DontNeed(file),
                        };
                    }
                }
                At::Open => {
                    self.at = At::Calls;
                    return Operation::Open { file: self.file, advice: self.advice };
                }
                At::Calls => match self.call(now) {
                    Some(operation) => return operation,
                    None => self.at = At::Settled,
                },
                At::Settled => match self.settle() {
                    Some(collect) => return collect,
                    None => self.at = self.pass_over(now),
                },
                At::EndSync => {
                    self.at = At::Ends(0);
                    if self.end_fsync && self.mix < 100 {
                        return Operation::Fsync(self.file);
                    }
                }
                At::Ends(i) => match self.ends_at.get(i) {
                    Some(&barrier) => {
                        self.at = At::Ends(i + 1);
                        return Operation::Barrier(barrier);
                    }
                    None => self.at = At::Exit,
                },
                At::Exit => return Operation::Exit,
            }
        }
    }
}

/// Smallest unit of a call.
fn unit(build: &Build<'_>, direct: bool, writes: bool) -> u64 {
    match (direct, writes) {
        (true, _) => build.host.sector(),
        (false, true) => PAGE,
        (false, false) => 512,
    }
}

fn percent(build: &Build<'_>, name: &str, usual: u64) -> Result<u64, JobError> {
    match build.params.number(name)?.unwrap_or(usual) {
        n @ 0..=100 => Ok(n),
        n => Err(build.params.wrong(format!("{name} = {n}: choose 0 to 100 percent"))),
    }
}

/// Sizes of reads and of writes, in units that the calls can have.
fn sizes(build: &Build<'_>, direct: bool, mix: u64) -> Result<[Sizes; 2], JobError> {
    let p = &build.params;
    let read = |name: &str| -> Result<Option<Sizes>, JobError> {
        let sizes = match p.bytes(name) {
            Ok(None) => return Ok(None),
            Ok(Some(n)) => Sizes::parse(&n.to_string()),
            // No quantity: several sizes.
            Err(_) => Sizes::parse(p.text(name)?.unwrap_or_default()),
        };
        sizes.map(Some).map_err(|e| p.wrong(format!("{name}: {e}")))
    };
    let reads = read("bs")?.unwrap_or(Sizes::One(4096));
    let writes = read("bs_write")?.unwrap_or_else(|| reads.clone());
    for (sizes, writing, used) in [(&reads, false, mix > 0), (&writes, true, mix < 100)] {
        let unit = unit(build, direct, writing);
        if let Some(odd) = sizes.all().find(|size| used && size % unit != 0) {
            let kind = match (direct, writing) {
                (true, _) => "direct calls",
                (false, true) => "buffered writes",
                (false, false) => "buffered reads",
            };
            return Err(p.wrong(format!("bs = {odd}: {kind} are multiples of {unit} bytes here")));
        }
    }
    Ok([reads, writes])
}

/// The queue, and how many calls go together.
fn room(build: &Build<'_>, direct: bool) -> Result<(Room, u32), JobError> {
    let p = &build.params;
    let depth = build.depth(direct)?;
    let upto = |name: &str, usual: u64, low: u64, most: u32| match p.number(name)?.unwrap_or(usual)
    {
        n if (low..=u64::from(most)).contains(&n) => Ok(n as u32),
        n => Err(p.wrong(format!("{name} = {n}: choose {low} to {most}"))),
    };
    let low = upto("depth_low", u64::from(depth) - 1, 0, depth - 1)?;
    let batch = upto("batch", 1, 1, depth)?;
    let complete = upto("batch_complete", 1, 1, depth)?;
    Ok((Room { depth, low, batch: complete, more: false }, batch))
}

fn paces(build: &Build<'_>) -> Result<[Option<Pace>; 2], JobError> {
    let p = &build.params;
    let poisson = p.flag("poisson")?.unwrap_or(false);
    let of = |bytes: &str, calls: &str| -> Result<Option<Pace>, JobError> {
        let (bytes, calls) = (p.bytes(bytes)?.unwrap_or(0), p.number(calls)?.unwrap_or(0));
        Ok(Pace::new(bytes, calls, poisson))
    };
    Ok([of("rate", "rate_iops")?, of("rate_write", "rate_iops_write")?])
}

/// Where a job's calls go.
struct Region {
    file: FileId,
    base: u64,
    size: u64,
    /// There is more in the file than it.
    part: bool,
    creates: bool,
}

impl Region {
    fn new(
        build: &mut Build<'_>,
        mix: u64,
        direct: bool,
        largest: u64,
    ) -> Result<Region, JobError> {
        let p = &build.params;
        let base = p.bytes("offset")?.unwrap_or(0);
        let unit = unit(build, direct, mix < 100);
        if base % unit != 0 {
            return Err(p.wrong(format!("offset = {base}: choose a multiple of {unit}")));
        }
        let (raw, creates) =
            (p.flag("raw")?.unwrap_or(false), p.flag("new_file")?.unwrap_or(false));
        let (shared, given) = (p.text("file")?, p.bytes("size")?);
        if raw && (shared.is_some() || creates || (mix < 100 && !direct)) {
            let what = "raw: the device is no file, and writes to it are direct; leave file and new_file \
                        out, and set direct = true where it writes";
            return Err(p.wrong(what.into()));
        }
        if creates && (mix > 0 || shared.is_some()) {
            let what =
                "new_file: only a job that writes alone, to its own file, begins with a new one";
            return Err(p.wrong(what.into()));
        }
        let room = build.host.capacity().saturating_sub(base);
        let size = match (raw, given) {
            (true, None) => room,
            (true, Some(size)) if size > room => {
                return Err(JobError::DoesNotFit {
                    needed: base + size,
                    available: build.host.capacity(),
                });
            }
            (_, Some(size)) => size,
            (false, None) => build.size(1)?,
        };
        // Whole units, so that no call crosses the end.
        let size = size / unit * unit;
        if size < largest {
            return Err(p.wrong(format!("size = {size}: choose at least one call of {largest}")));
        }
        if raw {
            return Ok(Region { file: build.host.device_file()?, base, size, part: true, creates });
        }
        let whole = p.bytes("file_size")?.unwrap_or(base + size).next_multiple_of(512);
        if whole < base + size {
            return Err(p.wrong(format!("file_size = {whole}: less than offset and size together")));
        }
        let file = match shared {
            Some(name) => build.host.shared_file(name, whole)?,
            None if creates => build.host.declare_file(whole)?,
            None => build.host.add_file(whole)?,
        };
        Ok(Region { file, base, size, part: whole > size || shared.is_some(), creates })
    }
}

#[cfg(test)]
mod tests;
