//! Replay of a block trace: the experiment it is, and the world that carries it out.
//!
//! A trace becomes an experiment of one workload, whose processes are those of the trace (or its groups, or its
//! devices), so that grids, run directories, tables and reports are those of every other experiment. What runs is
//! [`hoistway_sim::world::replay`], fed by a thread of its own that reads, decompresses and parses (`feed`); a trace
//! that our own simulator wrote is fed with every step of its processes instead ([`saved`]).

mod feed;
mod request;
pub mod saved;

pub use feed::{Facts, MEMBERS_MAX};
pub use request::{BACKLOG, ReplayRequest};

use crate::experiment::{Experiment, ProcTemplate};
use crate::result::replayed::UNTIMED;
use crate::world::World;
use feed::RecordFeed;
use hoistway::setting::nearest;
use hoistway::{Instant, Nanos};
use hoistway_files::PlaceError;
use hoistway_files::input::{self, Limit};
use hoistway_run::{JobError, NamedFigure, Outcome, PhaseRecord, ProcRecord, Role, TraceMode};
use hoistway_sim::world::replay::{self as world, ALL, Ended, Pace};
use hoistway_sim::world::{Job, NoRecorder};
use hoistway_trace::{Kind, Reader, Record};
use saved::SavedFeed;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// What becomes a process of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Split {
    /// Each process of the trace.
    Process,
    /// Each cgroup.
    Group,
    /// Each device, volume or LUN.
    Lun,
    /// Nothing: all of it is one.
    None,
}

/// What becomes of offsets beyond the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OffsetMapping {
    /// Modulo the drive's size.
    Wrap,
    /// Times the drive's size over this one, in bytes.
    Scale(u64),
}

/// When I/Os are submitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loop {
    /// At the recorded times.
    Open,
    /// After what they had waited for.
    Closed,
}

/// Everything that decides a replay beside configuration, drive and seed.
#[derive(Clone, Debug)]
pub struct ReplayPlan {
    /// The trace.
    pub path: PathBuf,
    /// What the reader delivers.
    pub reader: hoistway_trace::Options,
    /// Open or closed loop.
    pub by: Loop,
    /// Closed loop: most I/Os of a process under way; `None`: as the trace's ends tell, 1 without them.
    pub depth: Option<u32>,
    /// Times are divided by it.
    pub speed: f64,
    /// What becomes a process.
    pub split: Split,
    /// The process that is judged; `None`: all together.
    pub target: Option<String>,
    /// Offsets beyond the drive.
    pub place: OffsetMapping,
    /// Steps that may wait before an open loop is given up.
    pub backlog: usize,
    /// Writes without a mark are synchronous.
    pub sync_writes: bool,
    /// The trace is one of our own, and every step of it is replayed.
    pub exact: bool,
}

/// A gap in which the trace has no record is cut to this length, in ns of the replay. No scheduler, controller or drive
/// remembers more than minutes, so that the rest changes no latency; and a clock that jumped by years would be years in
/// which a drive with faults has its pauses.
const HOUR: u64 = 3_600_000_000_000;
/// Latest time of a replay: times and sums of them must fit into 64 bits.
const LATEST: u64 = 1 << 62;

/// Closed loop: records looked ahead.
const AHEAD: usize = 1 << 18;

/// Records looked at to find out whether a trace has times and ends.
const PROBE: usize = 10_000;

/// Why a replay cannot be set up; the text says what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplayError(pub String);

impl std::fmt::Display for ReplayError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ReplayError {}

fn wrong(error: impl std::fmt::Display) -> ReplayError {
    ReplayError(error.to_string())
}

/// What the first records of a trace say of its times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// It says when I/Os ended.
    pub ends: bool,
    /// Its times are those of the recording.
    pub timed: bool,
}

/// Looks at the first records of a trace, which are read again by the replay.
///
/// # Errors
///
/// What cannot be read.
pub fn probe(plan: &ReplayPlan) -> Result<Probe, ReplayError> {
    let options = hoistway_trace::Options { completions: true, ..plan.reader.clone() };
    let mut reader = Reader::open(&plan.path, &options).map_err(wrong)?;
    let (mut record, mut ends) = (Record::default(), false);
    for _ in 0..PROBE {
        if !reader.read(&mut record).map_err(wrong)? {
            break;
        }
        ends |= record.kind == Kind::Complete || record.response.is_some();
    }
    Ok(Probe { ends, timed: reader.times_known() })
}

/// The names of the processes that a replay will have, in order of their first record. Reads the whole trace.
pub fn members(plan: &ReplayPlan) -> Result<Vec<String>, ReplayError> {
    feed::survey(plan).map_err(ReplayError)
}

/// The trace as an experiment; `members`: its processes, where they are to be known before (groups, a target).
pub fn experiment(plan: &ReplayPlan, members: &[String]) -> Result<Experiment, ReplayError> {
    let stem = plan.path.file_name().map_or_else(|| "trace".into(), |n| n.to_string_lossy());
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-._".contains(c) { c } else { '-' };
    let id = match stem.as_ref() {
        "-" => "replay-stdin".to_string(),
        stem => format!("replay-{}", stem.chars().map(plain).collect::<String>()),
    };
    let mut experiment = Experiment::parse(&id, SKELETON).map_err(wrong)?;
    experiment.id = id;
    experiment.title = format!("Replay of {}", plan.path.display());
    experiment.about = about(plan);
    experiment.text = format!("{plan:?} {:?}", fingerprint(&plan.path));
    let workload = &mut experiment.workloads[0];
    workload.procs.clear();
    let template = |name: &String| ProcTemplate {
        name: name.clone(),
        count: 1,
        stagger: Nanos::ZERO,
        prio: None,
        load: "reader".into(),
        params: toml::Table::new(),
    };
    if plan.exact {
        let feed = SavedFeed::open(&plan.path).map_err(ReplayError)?;
        if let Some((profile, set)) = feed.host() {
            experiment.host_profile = profile.to_string();
            let value = |text: &String| toml::Value::String(text.clone());
            experiment.host = set.iter().map(|(n, v)| (n.clone(), value(v))).collect();
        }
        for (name, role) in feed.roles() {
            match role {
                Role::Target if workload.target.is_none() => {
                    workload.target = Some(template(&name))
                }
                _ => workload.procs.push(template(&name)),
            }
        }
    } else {
        let is_target = |name: &&String| Some(name.as_str()) == plan.target.as_deref();
        workload.procs = members.iter().filter(|n| !is_target(n)).map(template).collect();
        workload.target = members.iter().find(is_target).map(template);
    }
    if let (Some(target), None) = (&plan.target, &workload.target) {
        let hint = match nearest(target, members.iter().map(String::as_str)) {
            Some(near) => format!("did you mean '{near}'?"),
            None => {
                let some: Vec<&str> = members.iter().take(8).map(String::as_str).collect();
                format!("there are: {}", some.join(", "))
            }
        };
        return Err(ReplayError(format!("--target {target}: no such process; {hint}")));
    }
    // Progress is told in bytes of the trace, as if they were nanoseconds.
    let size = std::fs::metadata(&plan.path).map_or(0, |m| m.len());
    experiment.window.measured = Nanos(size.max(1));
    Ok(experiment)
}

/// Size of a file and a digest of its ends: enough to tell that what an interrupted replay has left is of another.
fn fingerprint(path: &Path) -> Option<(u64, u64)> {
    let (mut file, size) = input::open(path, TRACE).ok()?;
    let size = size?;
    let mut ends = Vec::new();
    file.by_ref().take(END).read_to_end(&mut ends).ok()?;
    file.seek(SeekFrom::Start(size.saturating_sub(END))).ok()?;
    file.take(END).read_to_end(&mut ends).ok()?;
    let mix = |h: u64, b: &u8| (h ^ u64::from(*b)).wrapping_mul(0x0000_0100_0000_01b3);
    Some((size, ends.iter().fold(0xcbf2_9ce4_8422_2325, mix)))
}

/// Traces have any length.
const TRACE: Limit = Limit { what: "a trace", bytes: u64::MAX };

/// Bytes of each end of a file that are looked at.
const END: u64 = 1 << 16;

fn about(plan: &ReplayPlan) -> String {
    let speed = match plan.speed {
        1.0 => String::new(),
        speed => format!(", {speed} times as fast"),
    };
    let how = match plan.by {
        _ if plan.exact => {
            return "Every step of a run of the simulator, replayed at its own times.".into();
        }
        Loop::Open => format!("at the recorded times{speed} (open loop)"),
        Loop::Closed => format!("after what it had waited for{speed} (closed loop)"),
    };
    let who = match plan.split {
        Split::Process => "process",
        Split::Group => "cgroup",
        Split::Lun => "device",
        Split::None => "record, whoever made it,",
    };
    format!(
        "The I/O of a block trace, straight into the block layer, each {who} as one process; submitted {how}. \
         Latency counts from the time an I/O was to be submitted to its end."
    )
}

const SKELETON: &str = r#"
schema = 1
title = "Replay"
about = "Replay"
drives = ["samsung-970-pro"]
configs = ["none"]
workloads = ["trace"]
reps = 1
[host]
profile = "today"
[window]
ramp = "0s"
measured = "1s"
target_interval = "1s"
device_interval = "1s"
[workload.trace]
summary = "the trace"
[[workload.trace.procs]]
name = "all"
load = "reader"
"#;

/// Replays a trace.
#[derive(Debug)]
pub struct ReplayWorld(pub ReplayPlan);

impl World for ReplayWorld {
    fn name(&self) -> &'static str {
        "sim"
    }

    fn alone(&self) -> bool {
        false
    }

    fn even(&self) -> bool {
        true
    }

    fn run(
        &self,
        job: &Job<'_>,
        watch: &mut dyn FnMut(Instant) -> bool,
    ) -> Result<Outcome, JobError> {
        let plan = &self.0;
        let mut job = job.clone();
        // A step of the stack is a hundred instructions of hashing; the drive's timeline has a digest of its own.
        (job.trace, job.control.monitor) = (TraceMode::Off, None);
        let mut watch = |bytes: u64| watch(Instant::from_nanos(bytes));
        if plan.exact {
            let mut feed = SavedFeed::open(&plan.path).map_err(trace_error)?;
            feed.place(&job);
            let options = options(plan, false);
            let (mut outcome, _) = world::replay(&job, options, &mut feed, NoRecorder, &mut watch)?;
            outcome.host_parameters = feed.facts(&plan.path);
            arrange(&mut outcome, target_of(&job));
            return Ok(outcome);
        }
        let (mut outcome, ended, facts) = std::thread::scope(|scope| {
            let mut feed = RecordFeed::start(scope, plan, &job);
            let done = world::replay(&job, options(plan, true), &mut feed, NoRecorder, &mut watch);
            let facts = feed.finish();
            done.map(|(outcome, ended)| (outcome, ended, facts))
        })?;
        if facts.records == 0 {
            let path = plan.path.display();
            return Err(trace_error(format!("{path}: there is no request in it to replay")));
        }
        outcome.host_parameters = facts_of(plan, &facts, &ended);
        if plan.by == Loop::Open && !facts.timed {
            outcome.host_figures.push(NamedFigure { name: UNTIMED.into(), of: None, value: 1 });
        }
        arrange(&mut outcome, target_of(&job));
        Ok(outcome)
    }
}

fn trace_error(message: String) -> JobError {
    JobError::Parameter { of: "trace".into(), message }
}

fn target_of<'a>(job: &'a Job<'_>) -> Option<&'a str> {
    job.procs.iter().find(|p| p.role == Role::Target).map(|p| p.name.as_str())
}

fn options(plan: &ReplayPlan, delays: bool) -> world::Options {
    let pace = match plan.by {
        Loop::Open => Pace::Open,
        Loop::Closed => Pace::Closed { depth: plan.depth },
    };
    let backlog = if plan.by == Loop::Open { plan.backlog } else { AHEAD };
    world::Options { pace, backlog, delays }
}

/// The record of all is the target, and each process a phase of it; with a target of one's own that one is, and the
/// others stand beside it.
fn arrange(outcome: &mut Outcome, target: Option<&str>) {
    let mut procs = std::mem::take(&mut outcome.procs);
    if let Some(at) = target.and_then(|t| procs.iter().position(|p| p.name == t)) {
        procs.swap(0, at);
        procs.retain(|p| p.name != ALL);
        procs[0].role = Role::Target;
        outcome.procs = procs;
        return;
    }
    let mut all = procs.remove(0);
    let measured = outcome.measured;
    let phase = |p: ProcRecord| PhaseRecord {
        name: p.name,
        begin: Some(Nanos::ZERO),
        end: Some(measured),
        turns: 1,
        spent: measured,
        latency: p.latency,
        bytes: p.bytes,
        ios: p.ios,
    };
    all.phases = procs.into_iter().map(phase).collect();
    outcome.procs = vec![all];
}

/// What the manifest says of the trace.
fn facts_of(plan: &ReplayPlan, facts: &Facts, ended: &Ended) -> Vec<(String, String)> {
    let mut rows = vec![
        ("trace", plan.path.display().to_string()),
        ("trace.format", facts.format.clone()),
        ("trace.digest", format!("{:016x}", facts.digest)),
        ("trace.records", facts.records.to_string()),
        ("trace.malformed", facts.malformed.to_string()),
    ];
    if let Some(first) = &facts.first_malformed {
        rows.push(("trace.malformed_first", first.clone()));
    }
    let counts = [
        ("trace.late", facts.late),
        ("trace.untimed", facts.untimed),
        ("trace.recordings", facts.recordings),
        ("trace.gaps_cut", facts.gaps),
        ("trace.gaps_cut_hours", facts.gaps_ns / HOUR),
        ("trace.empty", facts.empty),
        ("trace.beyond", facts.beyond),
        ("trace.too_long", facts.too_long),
        ("trace.unaligned", facts.unaligned),
        ("trace.members_joined", facts.joined),
        ("trace.unsupported", ended.unsupported),
    ];
    rows.extend(counts.into_iter().filter(|c| c.1 > 0).map(|(n, v)| (n, v.to_string())));
    let place = match plan.place {
        OffsetMapping::Wrap => "wrap".to_string(),
        OffsetMapping::Scale(from) => format!("scale from {from}"),
    };
    let depth = plan.depth.map_or_else(|| "any".into(), |d| d.to_string());
    rows.extend([
        (
            "replay.loop",
            if plan.by == Loop::Open { "open".into() } else { format!("closed, depth {depth}") },
        ),
        ("replay.speed", plan.speed.to_string()),
        ("replay.split", format!("{:?}", plan.split).to_lowercase()),
        ("replay.offsets", place),
    ]);
    rows.into_iter().map(|(name, value)| (name.to_string(), value)).collect()
}

/// Whether a file is a trace that our own simulator wrote.
pub fn is_saved(path: &Path) -> bool {
    path != Path::new("-") && SavedFeed::open(path).is_ok()
}

/// What a trace of our own says of the run it is of: drive, seed, configuration.
pub fn saved_from(path: &Path) -> Option<[String; 3]> {
    SavedFeed::open(path).ok().map(|f| f.origin())
}

/// The simulator, which writes every step of its run into a trace.
#[derive(Debug)]
pub struct SavingSim {
    /// The trace.
    pub path: PathBuf,
    /// Id of the configuration, for the trace's head.
    pub config: String,
}

impl World for SavingSim {
    fn name(&self) -> &'static str {
        "sim"
    }

    fn alone(&self) -> bool {
        false
    }

    fn run(
        &self,
        job: &Job<'_>,
        watch: &mut dyn FnMut(Instant) -> bool,
    ) -> Result<Outcome, JobError> {
        let refused = |e: PlaceError| JobError::Parameter {
            of: "--save-trace".into(),
            message: e.to_string(),
        };
        let failed = |e: std::io::Error| JobError::Storage {
            what: format!("--save-trace {}: {e}", self.path.display()),
        };
        let saver = saved::Saver::create(&self.path, &job.drive.id, job.seed, &self.config);
        let mut saver = saver.map_err(refused)?;
        saver.host(&job.host);
        let outcome = hoistway_sim::world::run_recorded(job, watch, &mut saver)?;
        let out = saver.finish(outcome.end).map_err(failed)?;
        out.into_inner().map_err(|e| failed(e.into()))?.finish().map_err(refused)?;
        Ok(outcome)
    }
}

#[cfg(test)]
mod tests;
