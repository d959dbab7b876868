//! A job, as far as it is carried out.

use super::Place;

/// Which directions a job moves data in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Reads.
    Read,
    /// Writes.
    Write,
    /// Both.
    Mixed,
}

/// Bytes, or percent of a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// Bytes.
    Bytes(u64),
    /// Percent of a file or device.
    Percent(u64),
}

/// Which file of several is next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// One after another.
    RoundRobin,
    /// At random.
    Random,
    /// One is finished before the next.
    Sequential,
}

/// Advice on the access pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hint {
    /// None is given.
    None,
    /// What the pattern is.
    Pattern,
}

/// One job; what is not given is fio's default. Times in nanoseconds; of pairs the first is for reads.
#[derive(Clone, Debug)]
pub struct Job {
    /// Its name.
    pub name: String,
    /// Where its section begins.
    pub place: Place,
    /// Its description, or nothing.
    pub description: String,
    /// Copies of it.
    pub numjobs: u64,
    /// Settings of its section as they stand there, under their first names, and those that hold for others too.
    pub options: [Vec<(String, String)>; 2],
    /// Its reporting group.
    pub group: u64,

    /// Directions.
    pub direction: Direction,
    /// At random places.
    pub random: bool,
    /// Percent of reads of a mix.
    pub mix: u64,
    /// Percent of random places of a random job.
    pub percentage_random: [u64; 2],
    /// Calls in a row from a random place, and whether they stay there.
    pub row: u64,
    /// See `row`.
    pub row_stays: bool,
    /// Bytes left out behind a sequential call.
    pub hole: i64,
    /// Sizes: `4096`, `4096-65536`, `4096/60:65536/40`.
    pub sizes: [String; 2],
    /// Alignment of random places.
    pub align: [Option<u64>; 2],
    /// Random blocks may repeat.
    pub repeat_blocks: bool,
    /// Distribution of random places, in the words of load `job`.
    pub distribution: [Option<String>; 2],

    /// Names of files shared with others, or none: files of its own.
    pub files: Vec<String>,
    /// The raw device.
    pub raw: bool,
    /// Files of its own.
    pub nrfiles: u64,
    /// Which one is next, how many calls in a row, and how many are open.
    pub service: Service,
    /// See `service`.
    pub service_calls: u64,
    /// See `service`.
    pub openfiles: Option<u64>,
    /// Bytes of all files together.
    pub size: Option<Amount>,
    /// Size of each file.
    pub filesize: Option<u64>,
    /// Bytes that it moves.
    pub io_size: Option<Amount>,
    /// Calls that it makes.
    pub number_ios: Option<u64>,
    /// Where the region begins, and how much later in each copy.
    pub offset: Amount,
    /// See `offset`.
    pub offset_increment: Amount,
    /// What percent are rounded up to.
    pub offset_align: u64,
    /// The file exists although the job only writes.
    pub overwrite: bool,
    /// Advice.
    pub hint: Hint,
    /// Cached pages are dropped.
    pub invalidate: bool,

    /// Past the page cache.
    pub direct: bool,
    /// Calls in flight; the low mark, and sizes of batches.
    pub depth: u64,
    /// See `depth`.
    pub depth_low: Option<u64>,
    /// See `depth`.
    pub batch: u64,
    /// See `depth`.
    pub batch_complete: u64,
    /// Syncs after so many writes.
    pub fsync: u64,
    /// See `fsync`.
    pub fdatasync: u64,
    /// A last fsync.
    pub end_fsync: bool,
    /// Every write is synced.
    pub sync: bool,

    /// Pause, its busy part, calls between pauses and before the first, and time between pauses.
    pub think: u64,
    /// See `think`.
    pub think_spin: u64,
    /// See `think`.
    pub think_blocks: Option<u64>,
    /// See `think`.
    pub think_first: Option<u64>,
    /// See `think`.
    pub think_every: u64,
    /// Bytes per second.
    pub rate: [u64; 2],
    /// Calls per second.
    pub rate_iops: [u64; 2],
    /// Independent arrivals.
    pub poisson: bool,
    /// Pauses move the schedule of a rate.
    pub rate_ignore_thinktime: bool,

    /// Its time.
    pub runtime: Option<u64>,
    /// It fills the time.
    pub time_based: bool,
    /// It starts so much later.
    pub startdelay: u64,
    /// It is not measured so long.
    pub ramp: u64,
    /// Passes.
    pub loops: u64,
    /// It begins when all jobs before it are over.
    pub stonewall: bool,
    /// It begins when that job is over, by number.
    pub wait_for: Option<usize>,
    /// Whom it ends when it is over.
    pub exits: Option<Exits>,

    /// I/O priority: `rt/4`, `be/2`, `idle`.
    pub prio: Option<String>,
    /// Group, and its weight.
    pub cgroup: Option<String>,
    /// See `cgroup`.
    pub cgroup_weight: Option<u64>,
}

/// Whom a job ends when it is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exits {
    /// Those of its reporting group.
    Group,
    /// All, also those that have not begun.
    All,
    /// Those between the same two stonewalls.
    Stage,
}
