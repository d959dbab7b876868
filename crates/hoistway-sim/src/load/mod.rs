//! Workloads (specs/experiments.md section 5): each is a state machine that is asked for its next
//! operation whenever the last one is over.
//!
//! A load hands a sequential run to the host as one operation covering many calls, so that the host can
//! do a whole window in one step (specs/host.md 1.3).

mod app_start;
mod boot;
mod copy_reader;
mod ddloop;
mod file_copy;
mod film_stream;
mod fsync_tester;
mod git;
mod interleaved;
mod interval_reader;
mod job;
mod make;
mod order;
pub mod params;
mod probe;
mod random_writer;
mod reader;
mod syncer;
mod tiotest;
mod tree;
mod unpacker;
mod video_player;
mod writer;

use crate::host::{Host, Operation, Room};
use crate::rng::{Rng, stream};
use hoistway::{Instant, Nanos};
use hoistway_run::JobError;
use order::Order;
use params::{ParamDoc, Params};

/// One process's workload.
pub trait Load: core::fmt::Debug + Send {
    /// The next operation: asked at the process's start and whenever the last one is over.
    fn next(&mut self, now: Instant) -> Operation;

    /// Measuring ends at `now`: what it counts of what is still undecided then.
    fn closing(&self, _now: Instant) -> Vec<(&'static str, u64)> {
        Vec::new()
    }

    /// What it reads or writes beside files: first byte on the device and length.
    fn places(&self) -> Vec<(u64, u64)> {
        Vec::new()
    }
}

/// What a load is built from.
#[derive(Debug)]
pub struct Build<'a> {
    /// Its parameters.
    pub params: Params<'a>,
    /// The host its files are laid out on.
    pub host: &'a mut Host,
    /// Number of the process in the job: every random choice is drawn from (seed, index).
    pub index: usize,
    /// The run's seed.
    pub seed: u64,
    /// When the process starts.
    pub start: Instant,
}

/// One line of the registry.
#[derive(Debug)]
pub struct LoadEntry {
    /// Name in experiment files.
    pub name: &'static str,
    /// One line.
    pub summary: &'static str,
    /// It may write.
    pub writes: bool,
    /// Its parameters.
    pub params: &'static [ParamDoc],
    /// What it counts ([`Notice::Count`](crate::host::Notice::Count)).
    pub counts: &'static [CountDoc],
    /// The parameters that say how much it does before it exits: whole numbers, bytes or times. A
    /// shortened run divides their values.
    pub work: &'static [&'static str],
    /// Its reads and its writes are recorded apart, as phases `read` and `write`.
    pub directions: bool,
    /// Builds the load and lays out its file.
    pub build: fn(&mut Build<'_>) -> Result<Box<dyn Load>, JobError>,
}

impl LoadEntry {
    /// What most loads have: they only read, count nothing and go on for ever. For `..LoadEntry::USUAL`.
    const USUAL: LoadEntry = LoadEntry {
        name: "",
        summary: "",
        writes: false,
        params: &[],
        counts: &[],
        work: &[],
        directions: false,
        build: |build| Err(build.params.wrong("a load without a builder".into())),
    };
}

/// Which values of a count are better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// More.
    Higher,
    /// Less.
    Lower,
    /// Neither: it says how much was tried.
    Neither,
}

impl Better {
    /// `more`, `less`, or nothing.
    pub fn name(self) -> &'static str {
        match self {
            Better::Higher => "more",
            Better::Lower => "less",
            Better::Neither => "",
        }
    }
}

/// Something that a load counts. The name is that of the metric.
#[derive(Clone, Copy, Debug)]
pub struct CountDoc {
    /// Name of the metric, such as `frames_dropped`.
    pub name: &'static str,
    /// Unit, such as `frames`.
    pub unit: &'static str,
    /// Which values are better.
    pub better: Better,
    /// The count that this one is a part of: then there is the metric `NAME_share`, in percent, too.
    pub of: Option<&'static str>,
    /// One sentence.
    pub doc: &'static str,
}

/// The count of that name, of any load.
pub fn find_count(name: &str) -> Option<&'static CountDoc> {
    LOADS.iter().flat_map(|l| l.counts).find(|c| c.name == name)
}

/// Every load, in the order of listing.
pub static LOADS: &[LoadEntry] = &[
    reader::ENTRY,
    writer::ENTRY,
    job::ENTRY,
    probe::ENTRY,
    app_start::ENTRY,
    fsync_tester::ENTRY,
    random_writer::ENTRY,
    ddloop::ENTRY,
    syncer::ENTRY,
    tiotest::ENTRY,
    interleaved::ENTRY,
    copy_reader::ENTRY,
    file_copy::ENTRY,
    video_player::ENTRY,
    interval_reader::ENTRY,
    make::ENTRY,
    git::CHECKOUT,
    git::MERGE,
    git::GREP,
    boot::ENTRY,
    unpacker::ENTRY,
    film_stream::ENTRY,
    film_stream::NOISE,
];

/// Finds a load by name.
pub fn find(name: &str) -> Result<&'static LoadEntry, JobError> {
    LOADS.iter().find(|l| l.name == name).ok_or_else(|| JobError::Unknown {
        kind: "load",
        name: name.to_string(),
        known: LOADS.iter().map(|l| l.name.to_string()).collect(),
    })
}

impl Build<'_> {
    /// The stream of this process's random choices.
    fn rng(&self) -> Rng {
        stream(self.seed, &format!("load/{}", self.index))
    }

    /// Parameter `size`: by default 500 MiB, less on small drives (experiments.md 3.1: a fifteenth of
    /// half the drive), in whole blocks.
    fn size(&self, bs: u64) -> Result<u64, JobError> {
        let usual = (500 << 20).min(self.host.capacity() / 30) >> 20 << 20;
        let size = self.params.bytes("size")?.unwrap_or(usual);
        if size < bs {
            let message = format!("size = {size}: choose at least one block of {bs}");
            return Err(self.params.wrong(message));
        }
        Ok(size / bs * bs)
    }

    /// Parameter `pattern`: at random?
    fn random(&self) -> Result<bool, JobError> {
        Ok(self.params.choice("pattern", PATTERNS)?.is_some_and(|i| i >= 2))
    }

    /// Parameter `depth` of a load whose calls are direct, or not.
    fn depth(&self, direct: bool) -> Result<u32, JobError> {
        let depth = self.params.number("depth")?.unwrap_or(1);
        if !(1..=DEPTH_MAX).contains(&depth) {
            let message = format!("depth = {depth}: choose 1 to {DEPTH_MAX}");
            return Err(self.params.wrong(message));
        }
        if depth > 1 && !direct {
            let message = format!(
                "depth = {depth}: only direct calls are asynchronous; set direct = true, or depth = 1"
            );
            return Err(self.params.wrong(message));
        }
        Ok(depth as u32)
    }

    /// Parameter `bs`, a positive multiple of `unit`.
    fn block_size(&self, unit: u64) -> Result<u64, JobError> {
        let bs = self.params.bytes("bs")?.unwrap_or(4096);
        if bs == 0 || bs % unit != 0 || bs > 1 << 30 {
            return Err(self.params.wrong(format!("bs = {bs}: choose a multiple of {unit}")));
        }
        Ok(bs)
    }
}

/// Words of the parameter `pattern`; the long forms have odd indices.
const PATTERNS: &[&str] = &["seq", "sequential", "rand", "random"];

const PATTERN: ParamDoc = ParamDoc {
    name: "pattern",
    default: "seq",
    doc: "`seq`: one block behind the other, and again from the start; `rand`: every block of the file \
          once per pass, in a random order.",
};
const BS: ParamDoc = ParamDoc { name: "bs", default: "4k", doc: "Bytes of a call." };
const DIRECT: ParamDoc =
    ParamDoc { name: "direct", default: "false", doc: "Past the page cache (O_DIRECT)." };
const DEPTH: ParamDoc = ParamDoc {
    name: "depth",
    default: "1",
    doc: "Calls in flight at a time, at most 4096; above 1 they are asynchronous, which takes \
          `direct = true`. A rate has the process wait for all of them before each pause.",
};
/// Most calls in flight of a process.
const DEPTH_MAX: u64 = 4096;
const SIZE: ParamDoc = ParamDoc {
    name: "size",
    default: "500 MiB",
    doc: "Size of the process's own file or range; by default less on drives below 15 GB.",
};
const RATE: ParamDoc = ParamDoc {
    name: "rate",
    default: "0",
    doc: "Bytes per second at most, evenly paced; 0: no limit.",
};

/// Direct calls, awaited one by one or kept in flight.
#[derive(Debug)]
struct Calls {
    write: bool,
    depth: u32,
    /// Some may be in flight.
    queued: bool,
}

impl Calls {
    fn new(write: bool, depth: u32) -> Calls {
        Calls { write, depth, queued: false }
    }

    /// The next call; `sync`: an awaited one is followed by an fdatasync.
    fn call(&mut self, offset: u64, len: u64, sync: bool) -> Operation {
        let (write, since) = (self.write, None);
        if self.depth == 1 {
            return Operation::Direct { write, offset, len, since, sync };
        }
        self.queued = true;
        Operation::Queue { write, offset, len, since, room: Room::of(self.depth) }
    }

    /// What is to be done before the process does something else than the next call.
    fn settle(&mut self) -> Option<Operation> {
        std::mem::take(&mut self.queued).then_some(Operation::Collect)
    }
}

/// The order in which the blocks of a file are visited, and the pace.
#[derive(Debug)]
struct Blocks {
    /// Where in the file the first block lies.
    base: u64,
    bs: u64,
    count: u64,
    order: Order,
    next: u64,
    /// Time between two calls; zero without a rate.
    gap: Nanos,
    due: Instant,
}

/// The next blocks of a pass.
#[derive(Clone, Copy, Debug)]
enum Turn {
    /// The pass is over; the next one begins with the next question.
    Pass,
    /// Not before then.
    Wait(Instant),
    /// `calls` blocks from this offset on.
    Calls { offset: u64, calls: u64 },
}

impl Blocks {
    fn new(build: &Build<'_>, bs: u64, size: u64) -> Result<Blocks, JobError> {
        let count = size / bs;
        let order = match build.random()? {
            true => Order::random(count, &mut build.rng()),
            false => Order::Ascending,
        };
        let gap = match build.params.bytes("rate")?.unwrap_or(0) {
            0 => Nanos::ZERO,
            rate => Nanos((u128::from(bs) * 1_000_000_000 / u128::from(rate)) as u64),
        };
        // The first question starts a pass.
        Ok(Blocks { base: 0, bs, count, order, next: count, gap, due: build.start })
    }

    fn random(&self) -> bool {
        !matches!(self.order, Order::Ascending)
    }

    /// It is to wait before its next call, or a pass is over: [`Blocks::turn`] will say.
    fn pauses(&self, now: Instant) -> bool {
        self.next == self.count || (self.gap > Nanos::ZERO && now < self.due)
    }

    /// `most`: how many calls one operation may cover.
    fn turn(&mut self, now: Instant, most: u64) -> Turn {
        if self.next == self.count {
            self.next = 0;
            return Turn::Pass;
        }
        let mut calls = most.min(self.count - self.next);
        if self.gap > Nanos::ZERO {
            if now < self.due {
                return Turn::Wait(self.due);
            }
            // The schedule is kept on average: a late call does not shift those behind it.
            self.due += self.gap;
            calls = 1;
        }
        if self.random() {
            calls = 1;
        }
        let block = self.order.block(self.next);
        self.next += calls;
        Turn::Calls { offset: self.base + block * self.bs, calls }
    }
}
