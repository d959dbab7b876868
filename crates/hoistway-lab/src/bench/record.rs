//! `bench.json`: what a folder of a bench holds, and how far it is.

use super::plan::{self, BenchPlan, Estimate, Level};
use super::suite;
use crate::result::DirectoryError;
use hoistway_files::input::{self, Limit};
use hoistway_files::{Dir, Kind, Place};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Version of the file.
pub const SCHEMA: u32 = 1;
/// Its name.
pub const FILE: &str = "bench.json";

/// How far a bench is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// It runs, or was broken off without a word.
    Running,
    /// It was stopped, by somebody or by a limit, and can go on.
    Stopped,
    /// All its rounds are there.
    Done,
}

/// A workload of a bench.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartRecord {
    /// Id of the experiment; its run directory has this name.
    pub experiment: String,
    /// Id of the workload.
    pub workload: String,
    /// What it answers.
    pub question: String,
    /// Measured time of a run, ns.
    pub measured_ns: u64,
    /// Its configurations.
    pub configs: Vec<String>,
}

/// The file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// [`SCHEMA`].
    pub schema: u32,
    /// Of hoistway.
    pub version: String,
    /// Version and digest of the suite.
    pub suite: String,
    /// How far it is.
    pub state: State,
    /// Complete rounds.
    pub rounds_done: u32,
    /// Rounds of the plan.
    pub rounds: u32,
    /// How thorough.
    pub level: Level,
    /// The world of the runs.
    pub world: String,
    /// First seed.
    pub seed: u64,
    /// What runs, the most important first.
    pub parts: Vec<PartRecord>,
    /// Parts given up on the way: experiment and workload.
    pub given_up: Vec<(String, String)>,
    /// Parts of the suite that were not planned: experiment, workload, reason.
    pub left_out: Vec<(String, String, String)>,
    /// What the plan takes.
    pub estimate: Estimate,
    /// The limits that its parts were chosen for; 0 in files of earlier versions.
    #[serde(default)]
    pub limits: Limits,
    /// What was measured on: name and value.
    pub machine: Vec<(String, String)>,
    /// Equal for runs that may be put together.
    pub key: String,
}

/// The limits of a bench, and the rounds that had to fit them when its parts were chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Of time, ns.
    pub time_ns: u64,
    /// Of bytes written; none if it is the largest number.
    pub writes: u64,
    /// Rounds.
    pub rounds: u32,
}

impl Limits {
    /// The limits that the same parts are chosen for with so many rounds; `estimate`: what the plan took. On real
    /// storage, where files are made first, about the same parts.
    pub fn with(&self, estimate: &Estimate, rounds: usize) -> Option<Limits> {
        if self.rounds == 0 {
            return None;
        }
        let scaled = |of: u64, once: u64| {
            let each = u128::from(of.saturating_sub(once)) * rounds as u128;
            let all = u128::from(once) + each.div_ceil(u128::from(self.rounds));
            all.min(u128::from(u64::MAX)) as u64
        };
        // What is taken once is planned for within a part of the limit.
        let once = plan::planned_for(estimate.prepare_ns);
        let writes = match self.writes {
            u64::MAX => u64::MAX,
            writes => scaled(writes, estimate.files),
        };
        Some(Limits { time_ns: scaled(self.time_ns, once), writes, rounds: rounds as u32 })
    }
}

/// The files beside the runs of a bench.
const RECORD: Limit = Limit { what: "a record of a bench", bytes: 4 << 20 };

/// Name of the file with what a place was measured to carry.
pub const RATES_FILE: &str = "rates.json";

/// What a place carries, about. It decides what fits a plan, so a bench that goes on takes what it began with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Carried {
    /// [`SCHEMA`].
    pub schema: u32,
    /// Names the place.
    pub target: String,
    /// Bytes per second, read in order.
    pub read: u64,
    /// Bytes per second, written in order; `None`: not measured.
    pub write: Option<u64>,
    /// Random reads of 4 KiB per second.
    pub random_reads: u64,
}

impl Carried {
    /// The file in a folder, if it is of this place.
    pub fn read(folder: &Path, target: &str) -> Option<Carried> {
        let text = input::text(&folder.join(RATES_FILE), RECORD).ok()?;
        let found: Carried = serde_json::from_str(&text).ok()?;
        (found.schema == SCHEMA && found.target == target).then_some(found)
    }

    /// Writes the file; it appears as a whole.
    ///
    /// # Errors
    ///
    /// What the file system says.
    pub fn write(&self, folder: &Path) -> Result<(), DirectoryError> {
        let text = serde_json::to_string_pretty(self).expect("names and numbers");
        put(folder, RATES_FILE, &text)
    }
}

/// Whether a folder is that of a bench, of whatever version: its file, or that of the rates, which is there first.
pub fn is_bench(dir: &Dir) -> bool {
    dir.holds(FILE, Kind::Begins(&[b"{\n  \"schema\": 1,\n  \"version\": "]))
        || dir.holds(RATES_FILE, Kind::Begins(&[b"{\n  \"schema\": 1,\n  \"target\": "]))
}

/// Whether a bench may write into a folder: it is new, empty or one of a bench.
///
/// # Errors
///
/// What stands there instead.
pub fn may_write(folder: &Path) -> Result<(), DirectoryError> {
    match Place::of(folder) {
        // It is made with those above it.
        Err(e) if e.kind() == Some(std::io::ErrorKind::NotFound) => Ok(()),
        place => Ok(place?.may_fill(is_bench)?),
    }
}

/// Writes a file that appears as a whole.
fn put(folder: &Path, name: &str, text: &str) -> Result<(), DirectoryError> {
    let dir = Place::make(folder)?.fill(is_bench)?;
    Ok(dir.place(name)?.replace(format!("{text}\n").as_bytes(), Kind::Named)?)
}

impl Record {
    /// Of a plan that begins.
    pub fn of(
        plan: &BenchPlan,
        key: &str,
        world: &str,
        machine: &[(String, String)],
        given_up: Vec<(String, String)>,
    ) -> Record {
        let part = |p: &super::plan::PlannedPart| {
            let grid = &plan.grids[p.grid];
            PartRecord {
                experiment: p.part.experiment.into(),
                workload: p.part.workload.into(),
                question: p.part.question.into(),
                measured_ns: p.measured.0,
                configs: grid.configs.iter().map(|c| c.id.clone()).collect(),
            }
        };
        let left = plan.left_out.iter();
        Record {
            schema: SCHEMA,
            version: env!("CARGO_PKG_VERSION").into(),
            suite: suite::name(),
            state: State::Running,
            rounds_done: 0,
            rounds: plan.rounds,
            level: plan.level,
            world: world.into(),
            seed: plan.seed,
            parts: plan.parts.iter().map(part).collect(),
            given_up,
            left_out: left
                .map(|(p, why)| (p.experiment.into(), p.workload.into(), why.clone()))
                .collect(),
            estimate: plan.estimate,
            limits: Limits {
                time_ns: plan.limit.0,
                writes: plan.writes_limit,
                rounds: plan.fitted,
            },
            machine: machine.to_vec(),
            key: key.into(),
        }
    }

    /// The same, so far.
    pub fn with(self, state: State, rounds_done: u32) -> Record {
        Record { state, rounds_done, ..self }
    }

    /// The file in a folder; `None`: there is none that this version reads.
    pub fn read(folder: &Path) -> Option<Record> {
        let text = input::text(&folder.join(FILE), RECORD).ok()?;
        let record: Record = serde_json::from_str(&text).ok()?;
        (record.schema == SCHEMA).then_some(record)
    }

    /// Writes the file; it appears as a whole.
    ///
    /// # Errors
    ///
    /// What the file system says.
    pub fn write(&self, folder: &Path) -> Result<(), DirectoryError> {
        let text = serde_json::to_string_pretty(self).expect("names and numbers");
        put(folder, FILE, &text)
    }
}
