//! How long runs are measured, and what a run takes of the limit of time.
//!
//! On *real storage* the limit is one of the wall clock, so runs are short: a few seconds on flash, a few more on a disk,
//! and a start is watched for 6 or 8 s.
//!
//! In the *simulator* time is virtual, and the limit is one of processor time. Runs are as long as what is judged needs:
//! a start is watched until it ends ([`START`]), everything else for [`LONGEST`], which is longer than BFQ raises
//! weights, or as long as the processor time of a run allows. The same command makes the same plan everywhere, so the
//! processor time is an estimate, not a measurement: [`REQUEST`] for each request at the drive and [`SECOND`] for each
//! simulated second, with the requests per second that the drive file foretells ([`Pace::per_second`]). Of 84 runs on six
//! drives 60 took between half and twice of it (a release build at 2.5 GHz).

use super::plan::{Amount, BenchSubject, Level};
use super::suite::{Part, Time};
use crate::experiment::Experiment;
use crate::run::Grid;
use hoistway::Nanos;
use hoistway_run::ProcSpec;
use hoistway_sim::drive::DriveFile;
use hoistway_sim::load::params;
use hoistway_sim::world::Job;

/// Processor time of a request at a simulated drive.
pub const REQUEST: Nanos = Nanos(3_000);
/// Processor time of a simulated second beside its requests.
pub const SECOND: Nanos = Nanos::ms(1);
/// Bytes of a request of streams, about.
const STREAM: u64 = 128 << 10;
/// Requests per second of a load that waits for each of them.
const SINGLE: u64 = 1_000;

/// A run in the simulator is not measured for longer: BFQ raises weights for 25 s at most.
pub const LONGEST: Nanos = Nanos::secs(40);
/// The same at level full.
const LONGEST_FULL: Nanos = Nanos::secs(120);
/// Nor for less, however many requests that are.
const SHORTEST: Nanos = Nanos::ms(250);
/// Starts in the simulator are watched for so long: two, each given up after 10 minutes.
pub const START: Nanos = Nanos::secs(1300);
/// What they are taken to last: as long as the drive takes for so many random reads, of the others for the most part.
const STARTS_READ: u64 = 20_000;

/// How long runs are, and in which time the limit counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// On the wall clock.
    Wall {
        /// Measured time of a run.
        measured: Nanos,
        /// The shortest that can be judged.
        shortest: Nanos,
    },
    /// In processor time of simulations.
    Processor {
        /// Of a run, about.
        run: Nanos,
        /// Most measured time.
        longest: Nanos,
    },
}

/// Processor time of a simulated run at first; shorter runs than this half of it take are not planned.
const RUN: Nanos = Nanos::ms(200);
/// The same at level full.
const RUN_FULL: Nanos = Nanos::secs(1);
/// The least.
const RUN_LEAST: Nanos = Nanos::ms(20);

impl Pace {
    /// At first.
    pub(super) fn of(level: Level, amount: &Amount, subject: &BenchSubject) -> Pace {
        let kind = usize::from(subject.drive.identity.rotational);
        match (subject.real, level) {
            (true, _) => {
                Pace::Wall { measured: amount.measured[kind], shortest: amount.shortest[kind] }
            }
            (false, Level::Full) => Pace::Processor { run: RUN_FULL, longest: LONGEST_FULL },
            (false, _) => Pace::Processor { run: RUN, longest: LONGEST },
        }
    }

    /// With shorter runs; `None`: they would be too short to be judged.
    pub fn shorter(self) -> Option<Pace> {
        let less = |t: Nanos, least: Nanos| (t > least).then(|| Nanos(t.0 * 3 / 4).max(least));
        match self {
            Pace::Wall { measured, shortest } => {
                Some(Pace::Wall { measured: less(measured, shortest)?, shortest })
            }
            Pace::Processor { run, longest } => {
                Some(Pace::Processor { run: less(run, RUN_LEAST)?, longest })
            }
        }
    }

    /// How long a run of the part is measured; `job`: one of it, whatever its measured time.
    pub fn measured(self, part: &Part, job: &Job<'_>) -> Nanos {
        let drive = &*job.drive;
        match (self, part.time) {
            (Pace::Wall { measured, .. }, Time::Level) => measured,
            (Pace::Wall { .. }, Time::Limit(flash, disk)) => {
                if drive.identity.rotational {
                    disk
                } else {
                    flash
                }
            }
            (Pace::Processor { .. }, Time::Limit(..)) => START,
            (Pace::Processor { run, longest }, Time::Level) => {
                let before = Grid::length(job).0 - job.window.measured.0;
                let whole = over(run, Pace::per_second(job)).0;
                let measured = Nanos(whole.saturating_sub(before));
                rounded(measured.max(SHORTEST).min(longest))
            }
        }
    }

    /// How long a run lasts in its world's time, about; `job`: of its measured time.
    pub fn lasts(self, part: &Part, job: &Job<'_>) -> Nanos {
        let (length, measured) = (Grid::length(job).0, job.window.measured.0);
        match (self, part.time) {
            (_, Time::Level) => Nanos(length),
            // A start is over long before its limit, or is cut off at it: about half on the average.
            (Pace::Wall { .. }, Time::Limit(..)) => Nanos(length - measured / 2),
            (Pace::Processor { .. }, Time::Limit(..)) => {
                let last = STARTS_READ * 1_000_000_000 / job.drive.iocost.rrandiops.max(1);
                Nanos(length - measured + last.min(measured))
            }
        }
    }

    /// What a run takes of the limit, but for what the place adds; `job`: of its measured time.
    pub fn takes(self, part: &Part, job: &Job<'_>) -> Nanos {
        let lasts = self.lasts(part, job);
        match self {
            Pace::Wall { .. } => lasts,
            Pace::Processor { .. } => {
                let per_second = u128::from(Pace::per_second(job).0);
                Nanos((u128::from(lasts.0) * per_second / 1_000_000_000) as u64)
            }
        }
    }

    /// Processor time of a simulated second of a job.
    pub fn per_second(job: &Job<'_>) -> Nanos {
        Nanos(SECOND.0 + REQUEST.0 * requests(&job.procs, &job.drive))
    }
}

/// Requests per second at the drive, foretold by its file: who streams leaves the others little.
fn requests(procs: &[ProcSpec], drive: &DriveFile) -> u64 {
    let c = &drive.iocost;
    let is = |p: &ProcSpec, name: &str, word: &str| {
        p.params.get(name).and_then(|v| v.as_str()) == Some(word)
    };
    let number = |p: &ProcSpec, name: &str| {
        p.params.get(name).and_then(|v| params::quantity(v).ok()).unwrap_or(0)
    };
    let deep = |p: &ProcSpec| is(p, "pattern", "rand") && number(p, "depth") > 1;
    let synced = |p: &ProcSpec| p.load == "writer" && number(p, "dsync") > 0;
    let streams = |p: &ProcSpec| {
        p.load == "file_copy"
            || is(p, "pattern", "seq")
                && !synced(p)
                && matches!(p.load.as_str(), "reader" | "writer")
    };
    let any = |of: &dyn Fn(&ProcSpec) -> bool| procs.iter().any(of);
    let all = if any(&streams) {
        c.rbps.max(c.wbps) / STREAM
    } else if any(&deep) {
        c.rrandiops
    } else if any(&synced) {
        // Each waits for its flush.
        c.wrandiops / 4
    } else {
        SINGLE
    };
    all.min(REQUESTS_MAX)
}

/// Test devices answer at once; so many requests a second are what there is to do.
const REQUESTS_MAX: u64 = 1_000_000;

/// Simulated time that takes so much.
fn over(run: Nanos, per_second: Nanos) -> Nanos {
    Nanos((u128::from(run.0) * 1_000_000_000 / u128::from(per_second.0.max(1))) as u64)
}

/// To two digits of milliseconds, down.
fn rounded(t: Nanos) -> Nanos {
    let ms = t.as_ms().max(1);
    let unit = 10_u64.pow(ms.ilog10().saturating_sub(1));
    Nanos::ms(ms / unit * unit)
}

/// A job of the part whose measured time is not decided yet.
pub(super) fn experiment(part: &Part) -> Experiment {
    Experiment::load(part.experiment).expect("the suite names embedded files")
}
