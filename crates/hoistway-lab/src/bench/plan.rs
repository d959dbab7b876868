//! What a bench would do, before it does anything: workloads, rounds, time, bytes.
//!
//! A *round* is one run of every chosen workload under every configuration. Three are the fewest that have an interval
//! (docs/specs/statistics.md 4). What decides soonest? Half the 99 % interval is `t(n - 1) / sqrt(n)` times the spread of a
//! run: 5.7 of it with three rounds, 2.9 with four, 2.1 with five, 1.7 with six, 1.2 with eight. A run that is longer, or
//! another workload of the same kind, narrows it by the square root alone: six workloads in four rounds or four in six
//! take the same time, and the interval of these is half as wide. So time that does not suffice costs workloads first,
//! the least important ones, then the fourth round, then the length of the runs down to the shortest that can be judged,
//! and never the third round; and time that is left over goes into rounds.

use super::suite::{self, Part, SUITE, Time, Under};
use crate::config::Config;
use crate::experiment::{Experiment, Options};
use crate::run::{Grid, RunError};
use crate::world::WorldError;
use hoistway::Nanos;
use hoistway_sim::drive::DriveFile;
use hoistway_sim::world::Job;
use serde::{Deserialize, Serialize};
use std::fmt;

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
struct Amount {
    /// All of it.
    time: Nanos,
    /// Measured time of a run on flash and on disks.
    measured: [Nanos; 2],
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
/// The shortest runs that can be judged, on flash and on disks: tens of reads without control.
const SHORTEST: [Nanos; 2] = [Nanos::secs(1), Nanos::secs(4)];
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
        match self {
            Level::Quick => Amount {
                time: Nanos::secs(300),
                measured: [ms(1500), Nanos::secs(5)],
                rounds: 8,
                writes: 32 << 30,
            },
            Level::Standard => Amount {
                time: Nanos::secs(1200),
                measured: [Nanos::secs(3), Nanos::secs(10)],
                rounds: 10,
                writes: 128 << 30,
            },
            Level::Full => Amount {
                time: Nanos::secs(7200),
                measured: [Nanos::secs(10), Nanos::secs(20)],
                rounds: 20,
                writes: 1 << 40,
            },
        }
    }
}

/// What is asked for.
#[derive(Clone, Debug)]
pub struct Wish {
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
pub struct Subject {
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
pub struct Plan {
    /// How thorough.
    pub level: Level,
    /// The limit of time.
    pub limit: Nanos,
    /// The limit of bytes written.
    pub writes_limit: u64,
    /// Rounds.
    pub rounds: u32,
    /// Rounds where runs take less than was foreseen: on real storage the time that is left makes the answer surer.
    pub most: u32,
    /// Measured time of a run of parts without a limit of their own.
    pub measured: Nanos,
    /// What runs, the most important first.
    pub parts: Vec<Planned>,
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
pub struct Planned {
    /// Which.
    pub part: Part,
    /// Index of its grid.
    pub grid: usize,
    /// Index of its workload in the grid.
    pub workload: usize,
    /// Runs of a round.
    pub configs: usize,
    /// What one run takes, about.
    pub run: Nanos,
}

/// What a plan takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Estimate {
    /// In all, ns.
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

/// Why there is no plan.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PlanError {
    /// The time does not suffice for three rounds of one part.
    Time {
        /// What was given.
        given: Nanos,
        /// What is needed.
        least: Nanos,
    },
    /// The bytes do not suffice for the files.
    Writes {
        /// What was given.
        given: u64,
        /// What is needed.
        least: u64,
    },
    /// No configuration to compare.
    Configs,
    /// An experiment cannot run.
    Run(RunError),
    /// The place allows none of the workloads.
    Nothing {
        /// The first reason.
        why: String,
    },
    /// The machine lacks something that every run needs.
    Environment(String),
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PlanError::Time { given, least } => write!(
                f,
                "--time {} does not suffice: {ROUNDS_MIN} rounds of the shortest suite take {} here; give more time, or \
                 fewer configurations with --config",
                duration(*given),
                duration(*least)
            ),
            PlanError::Writes { given, least } => write!(
                f,
                "--write-budget {} does not suffice: the files alone are {}",
                size(*given),
                size(*least)
            ),
            PlanError::Configs => f.write_str(
                "fewer than two configurations are left to compare; name others with --config",
            ),
            PlanError::Run(error) => error.fmt(f),
            PlanError::Nothing { why } => write!(f, "nothing of the suite can run here: {why}"),
            PlanError::Environment(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for PlanError {}

impl From<RunError> for PlanError {
    fn from(error: RunError) -> PlanError {
        PlanError::Run(error)
    }
}

/// `45 s`, `4 min 05 s`, `2 h 03 min`.
pub fn duration(t: Nanos) -> String {
    let s = t.0.div_ceil(1_000_000_000);
    match s {
        0..120 => format!("{s} s"),
        120..7200 => format!("{} min {:02} s", s / 60, s % 60),
        _ => format!("{} h {:02} min", s / 3600, s % 3600 / 60),
    }
}

/// `384 MB`, `1.2 GB`.
pub fn size(bytes: u64) -> String {
    match bytes {
        0..1_000_000_000 => format!("{} MB", bytes.div_ceil(1_000_000)),
        _ => format!("{:.1} GB", bytes as f64 / 1e9),
    }
}

/// What the place has to say to a job: refused, it is left out.
pub type Check<'a> = &'a dyn Fn(&Job<'_>) -> Result<(), WorldError>;

/// The plan that fits the limits.
///
/// # Errors
///
/// Limits that nothing fits, or a place where nothing can run.
pub fn plan(wish: &Wish, subject: &Subject, check: Check<'_>) -> Result<Plan, PlanError> {
    if wish.configs.len() < 2 && wish.shares.len() < 2 {
        return Err(PlanError::Configs);
    }
    let amount = wish.level.amount();
    let kind = usize::from(subject.drive.identity.rotational);
    let limit = wish.time.unwrap_or(amount.time);
    let usual = if subject.wears { amount.writes } else { u64::MAX };
    let writes_limit = wish.writes.unwrap_or(usual);
    let able = able(wish, subject, check)?;
    let bounds = |rounds: u32| Bounds { limit, writes: writes_limit, rounds: rounds.into() };
    let with = |measured: Nanos, rounds: u32| Fit::find(subject, &able, measured, bounds(rounds));
    let mut measured = amount.measured[kind];
    let mut fit = with(measured, wish.rounds.unwrap_or(ROUNDS_WANTED))?;
    let rounds = wish.rounds.unwrap_or(ROUNDS_MIN);
    if fit.parts.len() < 2 {
        fit = with(measured, rounds)?;
    }
    // Two questions with short runs say more than one with long ones.
    while fit.parts.len() < 2 && measured > SHORTEST[kind] {
        measured = Nanos(measured.0 * 3 / 4).max(SHORTEST[kind]);
        fit = with(measured, rounds)?;
    }
    if fit.parts.is_empty() {
        let least = fit.least.unwrap_or(limit);
        return Err(match fit.files > writes_limit {
            true => PlanError::Writes { given: writes_limit, least: fit.files },
            false => PlanError::Time { given: limit, least },
        });
    }
    let rounds = wish.rounds.unwrap_or_else(|| fit.rounds(amount.rounds, limit, writes_limit));
    let most = match wish.rounds.is_none() && subject.real {
        true => amount.rounds.max(rounds),
        false => rounds,
    };
    Ok(Plan { most, ..fit.plan(wish, subject, measured, bounds(rounds))? })
}

/// Each part with its configurations, or why it cannot run here.
type Able<'a> = Vec<(Part, Result<&'a [Config], String>)>;

fn able<'a>(wish: &'a Wish, subject: &Subject, check: Check<'_>) -> Result<Able<'a>, PlanError> {
    let mut all: Able<'a> = Vec::new();
    for part in SUITE {
        let configs = of_part(part, wish);
        if configs.len() < 2 {
            all.push((*part, Err("fewer than two configurations to compare".into())));
            continue;
        }
        let job = job(part, &configs[0], subject, Nanos::secs(1))?;
        match check(&job) {
            Ok(()) => all.push((*part, Ok(configs))),
            Err(WorldError::Usage(why)) => all.push((*part, Err(why))),
            Err(WorldError::Environment(what)) => return Err(PlanError::Environment(what)),
        }
    }
    match all.iter().find_map(|(_, able)| able.as_ref().err()) {
        Some(why) if all.iter().all(|(_, able)| able.is_err()) => {
            Err(PlanError::Nothing { why: why.clone() })
        }
        _ => Ok(all),
    }
}

/// What a plan must keep to.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    limit: Nanos,
    writes: u64,
    rounds: u64,
}

/// Parts that fit the limits.
struct Fit {
    parts: Vec<Cost>,
    left_out: Vec<(Part, String)>,
    /// Bytes of the files of the parts.
    files: u64,
    prepare: Nanos,
    /// What three rounds of the first part take, if not even they fit.
    least: Option<Nanos>,
}

/// What a part takes.
#[derive(Clone, Copy, Debug)]
struct Cost {
    part: Part,
    configs: usize,
    /// One run.
    run: Nanos,
    /// One run.
    written: u64,
    read: u64,
    files: u64,
}

impl Fit {
    fn find(
        subject: &Subject,
        able: &Able<'_>,
        measured: Nanos,
        bounds: Bounds,
    ) -> Result<Fit, PlanError> {
        let Bounds { limit, rounds, .. } = bounds;
        let mut fit = Fit {
            parts: Vec::new(),
            left_out: Vec::new(),
            files: 0,
            prepare: Nanos::ZERO,
            least: None,
        };
        let (mut round, mut written) = (0, 0);
        for (part, able) in able {
            let configs = match able {
                Ok(configs) => configs,
                Err(why) => {
                    fit.left_out.push((*part, why.clone()));
                    continue;
                }
            };
            let cost = Cost::of(part, configs, subject, measured)?;
            // Files are reused from run to run.
            let files = fit.files.max(cost.files);
            let prepare = match subject.prepares {
                true => Nanos(over(files, subject.rates.write)),
                false => Nanos::ZERO,
            };
            let runs = cost.configs as u64;
            let more = round + runs * cost.run.0;
            let wrote = written + runs * cost.written;
            let made = if subject.prepares { files } else { 0 };
            if prepare.0 + rounds * more > limit.0 / 100 * PLANNED {
                fit.least.get_or_insert(Nanos((prepare.0 + rounds * more) / PLANNED * 100));
                fit.left_out.push((*part, "not enough time; allow more with --time".into()));
            } else if made + rounds * wrote > bounds.writes {
                fit.files = if fit.parts.is_empty() { made } else { fit.files };
                fit.left_out.push((
                    *part,
                    "it would write too much; allow more with --write-budget".into(),
                ));
            } else {
                (round, written) = (more, wrote);
                (fit.files, fit.prepare) = (files, prepare);
                fit.parts.push(cost);
            }
        }
        Ok(fit)
    }

    fn round(&self) -> (u64, u64, u64) {
        self.parts.iter().fold((0, 0, 0), |(time, read, written), c| {
            let n = c.configs as u64;
            (time + n * c.run.0, read + n * c.read, written + n * c.written)
        })
    }

    /// As many as fit, at most those of the level.
    fn rounds(&self, most: u32, limit: Nanos, writes_limit: u64) -> u32 {
        let (time, _, written) = self.round();
        let by_time = (limit.0 / 100 * PLANNED).saturating_sub(self.prepare.0) / time.max(1);
        let by_writes = writes_limit.saturating_sub(self.files).checked_div(written);
        let all = by_time.min(by_writes.unwrap_or(u64::MAX)).min(u64::from(most));
        (all as u32).max(ROUNDS_MIN)
    }

    fn plan(
        self,
        wish: &Wish,
        subject: &Subject,
        measured: Nanos,
        bounds: Bounds,
    ) -> Result<Plan, PlanError> {
        let (time, read, written) = self.round();
        let n = bounds.rounds;
        let made = if subject.prepares { self.files } else { 0 };
        let estimate = Estimate {
            time_ns: self.prepare.0 + n * time,
            prepare_ns: self.prepare.0,
            read: n * read,
            written: made + n * written,
            files: self.files,
        };
        let mut grids: Vec<Grid> = Vec::new();
        let mut parts = Vec::new();
        for cost in &self.parts {
            let id = cost.part.experiment;
            let at = grids.iter().position(|g| g.experiment.id == id);
            let grid = match at {
                Some(at) => at,
                None => {
                    grids.push(grid(&cost.part, wish, subject, measured));
                    grids.len() - 1
                }
            };
            grids[grid].workloads.push(cost.part.workload.into());
            let workload = grids[grid].workloads.len() - 1;
            let Cost { part, configs, run, .. } = *cost;
            parts.push(Planned { part, grid, workload, configs, run });
        }
        Ok(Plan {
            level: wish.level,
            limit: bounds.limit,
            writes_limit: bounds.writes,
            rounds: n as u32,
            most: n as u32,
            measured,
            parts,
            left_out: self.left_out,
            grids,
            estimate,
            seed: wish.seed,
        })
    }
}

/// The configurations that a part runs under.
fn of_part<'a>(part: &Part, wish: &'a Wish) -> &'a [Config] {
    match part.configs {
        Under::Whole => &wish.configs,
        Under::Shares => &wish.shares,
    }
}

/// How long a run of the part is measured.
pub(super) fn measured_of(part: &Part, drive: &DriveFile, measured: Nanos) -> Nanos {
    match (part.time, drive.identity.rotational) {
        (Time::Level, _) => measured,
        (Time::Limit(flash, _), false) => flash,
        (Time::Limit(_, disk), true) => disk,
    }
}

/// The experiment's grid, without workloads, and with room for every round there may ever be.
fn grid(part: &Part, wish: &Wish, subject: &Subject, measured: Nanos) -> Grid {
    let experiment = Experiment::load(part.experiment).expect("the suite names embedded files");
    let duration = measured_of(part, &subject.drive, measured);
    let configs = of_part(part, wish);
    let ids: Vec<&str> = configs.iter().map(|c| c.id.as_str()).collect();
    let command = format!(
        "hoistway compare {} --config '{}' --duration {}ms",
        part.experiment,
        ids.join(","),
        duration.as_ms()
    );
    Grid {
        experiment,
        drives: vec![subject.drive.clone()],
        workloads: Vec::new(),
        configs: configs.to_vec(),
        reps: ROUNDS_MAX,
        seed: wish.seed,
        options: Options { duration: Some(duration), ..Options::default() },
        command,
    }
}

/// Time in which `bytes` pass at `rate`, ns.
fn over(bytes: u64, rate: u64) -> u64 {
    (u128::from(bytes) * 1_000_000_000 / u128::from(rate.max(1))) as u64
}

/// A run of a part.
fn job<'a>(
    part: &Part,
    config: &Config,
    subject: &'a Subject,
    measured: Nanos,
) -> Result<Job<'a>, RunError> {
    let experiment = Experiment::load(part.experiment).expect("the suite names embedded files");
    let duration = measured_of(part, &subject.drive, measured);
    let options = Options { duration: Some(duration), ..Options::default() };
    let workload = experiment.workload(part.workload).expect("the suite names workloads");
    experiment
        .job(&subject.drive, workload, config, 1, &options)
        .map_err(|error| RunError::Job { cell: part.experiment.into(), error })
}

impl Cost {
    fn of(
        part: &Part,
        configs: &[Config],
        subject: &Subject,
        measured: Nanos,
    ) -> Result<Cost, PlanError> {
        let duration = measured_of(part, &subject.drive, measured);
        let job = job(part, &configs[0], subject, measured)?;
        // A start is over long before its limit, or is killed after 5 s of it: about half on the average.
        let busy = match part.time {
            Time::Level => Grid::length(&job).0,
            Time::Limit(..) => Grid::length(&job).0 - duration.0 / 2,
        };
        let through = |rate: u64| (u128::from(rate) * u128::from(busy) / 1_000_000_000) as u64;
        let files = super::files::bytes(&job)
            .map_err(|error| RunError::Job { cell: part.experiment.into(), error })?;
        // Dirty pages are written out before the next run begins.
        let drain =
            if part.writes && subject.prepares { over(files, subject.rates.write) } else { 0 };
        Ok(Cost {
            part: *part,
            configs: configs.len(),
            run: Nanos(busy + subject.overhead.0 + drain),
            written: if part.writes { through(subject.rates.write) } else { 0 },
            read: through(subject.rates.read),
            files,
        })
    }
}

/// What the results of one plan have in common with those that may be put together with them.
pub fn key(plan: &Plan, world: &str, program: &str, place: &str) -> String {
    let mut text = format!("{program}\n{world} {place}\nsuite {}\n", suite::name());
    for grid in &plan.grids {
        let ids: Vec<&str> = grid.configs.iter().map(|c| c.id.as_str()).collect();
        text.push_str(&format!("{} {} seed {}\n", grid.command, ids.join(","), grid.seed));
    }
    text
}
