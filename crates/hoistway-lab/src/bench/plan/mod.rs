//! What a bench would do, before it does anything: workloads, rounds, time, bytes.
//!
//! A *round* is one run of every chosen workload under every configuration. Three are the fewest that have an interval
//! (docs/specs/statistics.md 4). What decides soonest? Half the 99 % interval is `t(n - 1) / sqrt(n)` times the spread of a
//! run: 5.7 of it with three rounds, 2.9 with four, 2.1 with five, 1.7 with six, 1.2 with eight. A run that is longer, or
//! another workload of the same kind, narrows it by the square root alone: six workloads in four rounds or four in six
//! take the same time, and the interval of these is half as wide. So time that does not suffice costs workloads first,
//! the least important ones, then the fourth round, then the length of the runs down to the shortest that can be judged,
//! and never the third round; and time that is left over goes into rounds.
//!
//! How long a run is measured, and whether the limit is one of the wall clock or of processor time, is the business of
//! [`super::pace`].

mod fit;
mod words;

pub use words::{BenchPlanError, as_budget, as_flag, duration, size};

use super::pace::Pace;
use super::suite::{self, Part, SUITE, Under};
use crate::config::Config;
use crate::run::Grid;
use crate::world::WorldError;
use fit::{Bounds, FittingParts};
use hoistway::Nanos;
use hoistway_sim::drive::DriveFile;
use hoistway_sim::world::Job;
use serde::{Deserialize, Serialize};

/// How thorough a bench is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// An answer in 5 minutes.
    Quick,
    /// The whole suite in 20 minutes.
    Standard,
    /// The whole suite with long runs and many rounds, 2 hours.
    Full,
}

/// What a level means.
#[derive(Clone, Copy, Debug)]
pub(super) struct Amount {
    /// All of it, on the wall clock.
    time: Nanos,
    /// The same in processor time of simulations.
    processor: Nanos,
    /// Most rounds of simulations, which differ less than real runs.
    simulated: u32,
    /// Measured time of a run on flash and on disks.
    pub(super) measured: [Nanos; 2],
    /// The shortest runs that can be judged: tens of reads without control.
    pub(super) shortest: [Nanos; 2],
    /// Most rounds.
    rounds: u32,
    /// Bytes that may be written.
    writes: u64,
}

/// Fewest rounds: below three there is no interval.
pub const ROUNDS_MIN: u32 = 3;
/// Rounds that workloads are left out for: the 99 % interval of four is half as wide as that of three (Student's t is 5.8
/// instead of 9.9), which is worth more than one workload more.
const ROUNDS_WANTED: u32 = 4;
/// Most rounds, however much time there is.
pub const ROUNDS_MAX: u32 = 1000;
/// Part of the time that is planned for, in percent; the rest is for what cannot be foreseen.
const PLANNED: u64 = 90;

impl Level {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Level::Quick => "quick",
            Level::Standard => "standard",
            Level::Full => "full",
        }
    }

    fn amount(self) -> Amount {
        let ms = Nanos::ms;
        let quick = Amount {
            time: Nanos::secs(300),
            processor: Nanos::secs(60),
            simulated: 5,
            measured: [ms(1500), Nanos::secs(5)],
            shortest: [Nanos::secs(1), Nanos::secs(4)],
            rounds: 8,
            writes: 32 << 30,
        };
        match self {
            Level::Quick => quick,
            Level::Standard => Amount {
                time: Nanos::secs(1200),
                processor: Nanos::secs(300),
                simulated: 6,
                measured: [Nanos::secs(3), Nanos::secs(10)],
                rounds: 10,
                writes: 128 << 30,
                ..quick
            },
            Level::Full => Amount {
                time: Nanos::secs(7200),
                processor: Nanos::secs(3600),
                simulated: 10,
                measured: [Nanos::secs(10), Nanos::secs(20)],
                rounds: 20,
                writes: 1 << 40,
                ..quick
            },
        }
    }
}

/// The limit of time within which so much is planned.
pub(super) fn planned_for(time_ns: u64) -> u64 {
    time_ns.saturating_mul(100).div_ceil(PLANNED)
}

/// What is asked for.
#[derive(Clone, Debug)]
pub struct BenchRequest {
    /// How thorough.
    pub level: Level,
    /// All of it may take so long; `None`: as the level says.
    pub time: Option<Nanos>,
    /// So many bytes may be written; `None`: as the level says.
    pub writes: Option<u64>,
    /// So many rounds; `None`: as many as there is time for, up to those of the level.
    pub rounds: Option<u32>,
    /// The configurations of the parts that run under [`Under::Whole`].
    pub configs: Vec<Config>,
    /// Those of the parts that run under [`Under::Shares`].
    pub shares: Vec<Config>,
    /// First seed; round r has `seed + r` in every experiment.
    pub seed: u64,
}

/// What is known of the place beforehand.
#[derive(Clone, Debug)]
pub struct BenchSubject {
    /// The drive, as the world sees it.
    pub drive: DriveFile,
    /// Bytes per second that it reads and writes, about.
    pub rates: Rates,
    /// What a run takes beside its time: files opened, caches dropped, the scheduler made anew.
    pub overhead: Nanos,
    /// Real storage: time is that of the wall clock.
    pub real: bool,
    /// What is written wears it, so the level limits that.
    pub wears: bool,
    /// Files are made before anything runs.
    pub prepares: bool,
}

/// Bytes per second.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rates {
    /// Sequential reads.
    pub read: u64,
    /// Sequential writes.
    pub write: u64,
}

/// What will run.
#[derive(Debug)]
pub struct BenchPlan {
    /// How thorough.
    pub level: Level,
    /// The limit of time, of the wall clock or in processor time.
    pub limit: Nanos,
    /// Which of them, and how long runs are.
    pub pace: Pace,
    /// The limit of bytes written.
    pub writes_limit: u64,
    /// Rounds.
    pub rounds: u32,
    /// Rounds that had to fit when the parts were chosen.
    pub fitted: u32,
    /// Rounds where runs take less than was foreseen: on real storage the time that is left makes the answer surer.
    pub most: u32,
    /// What runs, the most important first.
    pub parts: Vec<PlannedPart>,
    /// Parts of the suite that do not run, and why.
    pub left_out: Vec<(Part, String)>,
    /// One grid for each experiment that has parts, in the order of their first ones.
    pub grids: Vec<Grid>,
    /// What it takes.
    pub estimate: Estimate,
    /// First seed.
    pub seed: u64,
}

/// A part that runs.
#[derive(Clone, Copy, Debug)]
pub struct PlannedPart {
    /// Which.
    pub part: Part,
    /// Index of its grid.
    pub grid: usize,
    /// Index of its workload in the grid.
    pub workload: usize,
    /// Runs of a round.
    pub configs: usize,
    /// How long one run is measured, at most.
    pub measured: Nanos,
    /// What one run takes of the limit of time, about.
    pub run: Nanos,
}

/// What a plan takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Estimate {
    /// In all, ns of the time that is limited.
    pub time_ns: u64,
    /// Before the first run: files, ns.
    pub prepare_ns: u64,
    /// Bytes read, at most about.
    pub read: u64,
    /// Bytes written, at most about; the files included.
    pub written: u64,
    /// Bytes of the files.
    pub files: u64,
}

/// What the place has to say to a job: refused, it is left out.
pub type Check<'a> = &'a dyn Fn(&Job<'_>) -> Result<(), WorldError>;

/// The plan that fits the limits.
///
/// # Errors
///
/// Limits that nothing fits, or a place where nothing can run.
pub fn plan(
    request: &BenchRequest,
    subject: &BenchSubject,
    check: Check<'_>,
) -> Result<BenchPlan, BenchPlanError> {
    if request.configs.len() < 2 && request.shares.len() < 2 {
        return Err(BenchPlanError::Configs);
    }
    let amount = request.level.amount();
    let usual = if subject.real { amount.time } else { amount.processor };
    let limit = request.time.unwrap_or(usual);
    let usual = if subject.wears { amount.writes } else { u64::MAX };
    let writes_limit = request.writes.unwrap_or(usual);
    let able = able(request, subject, check)?;
    let bounds = |rounds: u32| Bounds { limit, writes: writes_limit, rounds: rounds.into() };
    let with = |pace: Pace, rounds: u32| FittingParts::find(subject, &able, pace, bounds(rounds));
    let mut fitted = request.rounds.unwrap_or(ROUNDS_WANTED);
    let mut fit = with(Pace::of(request.level, &amount, subject), fitted)?;
    let rounds = request.rounds.unwrap_or(ROUNDS_MIN);
    if fit.parts.len() < 2 {
        fitted = rounds;
        fit = with(fit.pace, rounds)?;
    }
    // Two questions with short runs say more than one with long ones.
    while fit.parts.len() < 2
        && let Some(shorter) = fit.pace.shorter()
    {
        fit = with(shorter, rounds)?;
    }
    if fit.parts.is_empty() {
        let least = fit.least.unwrap_or(limit);
        return Err(match fit.files > writes_limit {
            true => BenchPlanError::Writes { given: writes_limit, least: fit.files },
            false => BenchPlanError::Time { given: limit, least },
        });
    }
    let most = if subject.real { amount.rounds } else { amount.simulated };
    let rounds = request.rounds.unwrap_or_else(|| fit.rounds(most, limit, writes_limit));
    let most = match request.rounds.is_none() && subject.real {
        true => most.max(rounds),
        false => rounds,
    };
    Ok(BenchPlan { most, fitted, ..fit.plan(request, subject, bounds(rounds)) })
}

/// Each part with its configurations, or why it cannot run here.
type Able<'a> = Vec<(Part, Result<&'a [Config], String>)>;

fn able<'a>(
    request: &'a BenchRequest,
    subject: &BenchSubject,
    check: Check<'_>,
) -> Result<Able<'a>, BenchPlanError> {
    let mut all: Able<'a> = Vec::new();
    for part in SUITE {
        let configs = of_part(part, request);
        if configs.len() < 2 {
            all.push((*part, Err("fewer than two configurations to compare".into())));
            continue;
        }
        let experiment = super::pace::experiment(part);
        let job = fit::job(&experiment, part, &configs[0], subject)?;
        match check(&job) {
            Ok(()) => all.push((*part, Ok(configs))),
            Err(WorldError::Usage(why)) => all.push((*part, Err(why))),
            Err(WorldError::Environment(what)) => return Err(BenchPlanError::Environment(what)),
        }
    }
    match all.iter().find_map(|(_, able)| able.as_ref().err()) {
        Some(why) if all.iter().all(|(_, able)| able.is_err()) => {
            Err(BenchPlanError::Nothing { why: why.clone() })
        }
        _ => Ok(all),
    }
}

/// A part that runs or does not by how fast the drive writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Depends {
    /// Which.
    pub part: Part,
    /// At which it runs, bytes per second, from and to; `None`: at the slowest, or the fastest, that was tried.
    pub rates: Vec<Range>,
}

/// From and to.
pub type Range = (Option<u64>, Option<u64>);

/// Rates are tried up to so many times as fast and as slow as what is assumed, in steps of this factor.
const RATES: (i32, f64) = (12, 1.25);

/// Parts of which it depends on the drive's rate of writing, not known yet, whether they run.
///
/// # Errors
///
/// As of [`plan()`], of what has nothing to do with the rate.
pub fn depends(
    request: &BenchRequest,
    subject: &BenchSubject,
    check: Check<'_>,
) -> Result<Vec<Depends>, BenchPlanError> {
    let mut tried: Vec<(u64, Vec<Part>)> = Vec::new();
    for step in -RATES.0..=RATES.0 {
        let write = (subject.rates.write as f64 * libm::pow(RATES.1, f64::from(step))) as u64;
        let subject = BenchSubject { rates: Rates { write, ..subject.rates }, ..subject.clone() };
        let parts = match plan(request, &subject, check) {
            Ok(plan) => plan.parts.iter().map(|p| p.part).collect(),
            Err(BenchPlanError::Time { .. } | BenchPlanError::Writes { .. }) => Vec::new(),
            Err(error) => return Err(error),
        };
        tried.push((write, parts));
    }
    let of = |part: &Part| {
        let runs: Vec<bool> = tried.iter().map(|(_, parts)| parts.contains(part)).collect();
        let mut rates: Vec<Range> = Vec::new();
        for (i, &here) in runs.iter().enumerate() {
            let before = i > 0 && runs[i - 1];
            if here && !before {
                rates.push(((i > 0).then_some(tried[i].0), None));
            } else if before && !here {
                let open = rates.last_mut().expect("it ran before");
                open.1 = Some(tried[i - 1].0);
            }
        }
        let always = runs.iter().all(|&r| r) || rates.is_empty();
        (!always).then_some(Depends { part: *part, rates })
    };
    Ok(SUITE.iter().filter_map(of).collect())
}

/// The configurations that a part runs under.
fn of_part<'a>(part: &Part, request: &'a BenchRequest) -> &'a [Config] {
    match part.configs {
        Under::Whole => &request.configs,
        Under::Shares => &request.shares,
    }
}

/// What the results of one plan have in common with those that may be put together with them.
pub fn key(plan: &BenchPlan, world: &str, program: &str, place: &str) -> String {
    let mut text = format!("{program}\n{world} {place}\nsuite {}\n", suite::name());
    for grid in &plan.grids {
        let ids: Vec<&str> = grid.configs.iter().map(|c| c.id.as_str()).collect();
        text.push_str(&format!("{} {} seed {}\n", grid.command, ids.join(","), grid.seed));
    }
    text
}
