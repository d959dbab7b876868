//! `bench`: which scheduler for a simulated drive.

use crate::compare::{Names, names, warned};
use crate::errors;
use crate::scheduler::registry;
use crate::work::{Far, carry_out, threads};
use hoistway_lab::bench::outcome::outcome_json;
use hoistway_lab::bench::plan::{self, BenchPlan, Level};
use hoistway_lab::bench::record;
use hoistway_lab::bench::run::{self, BenchCallbacks, BenchPlace, BenchProgress, Ended};
use hoistway_lab::bench::setting::{BenchAsked, Setting, simulated};
use hoistway_lab::bench::subject::suite_rows;
use hoistway_lab::recommend::{Goal, RunSource, recommend};
use hoistway_lab::run::RunError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Instant;

/// Benches a simulated drive and answers which scheduler suits it: a dictionary, what "hoistway bench --json" prints.
///
/// drive: name, or path of a drive file. level: "quick", "standard" or "full". configs: what is compared [the schedulers of
/// Linux, with write-back throttling]. rounds: at least 3 for an answer. time: processor time for all of it, with its unit.
/// goal: "desktop", "server", "throughput", "share" or "latency<TIME". out: the folder to write [runs/bench.sim.DRIVE.LEVEL];
/// its run directories are listed under "runs", for load. What an interrupted bench has finished there is not run again, but
/// for fresh. seed, jobs, progress and Ctrl-C: as in compare.
#[pyfunction]
#[pyo3(signature = (drive, *, level = "quick", configs = None, rounds = None, time = None, goal = "desktop", out = None, fresh = false, seed = 1, jobs = None, progress = None))]
#[expect(clippy::too_many_arguments, reason = "each is a keyword in Python")]
pub fn bench<'py>(
    py: Python<'py>,
    drive: &str,
    level: &str,
    configs: Option<Names>,
    rounds: Option<u32>,
    time: Option<String>,
    goal: &str,
    out: Option<PathBuf>,
    fresh: bool,
    seed: u64,
    jobs: Option<u16>,
    progress: Option<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let goal = Goal::parse(goal).map_err(errors::wrong)?;
    let level =
        [Level::Quick, Level::Standard, Level::Full].into_iter().find(|l| l.name() == level);
    let level = level.ok_or_else(|| errors::wrong("level is quick, standard or full"))?;
    if let Some(rounds) = rounds.filter(|n| !(1..=plan::ROUNDS_MAX).contains(n)) {
        let most = plan::ROUNDS_MAX;
        return Err(errors::wrong(format!("--rounds: {rounds} is not in 1..={most}")));
    }
    let setting = simulated(drive, level).map_err(errors::wrong)?;
    let (writes, place, destroy) = (None, None, None);
    let configs = names(configs);
    let registry = registry();
    let asked = BenchAsked { place, level, time, writes, rounds, configs, seed, destroy, registry };
    let request = asked.request(&setting).map_err(errors::wrong)?;
    let check = |job: &hoistway_sim::world::Job<'_>| setting.check(job);
    let planned = plan::plan(&request, &setting.subject, &check).map_err(errors::wrong)?;
    let out = out.unwrap_or_else(|| setting.usual_place(level));
    record::may_write(&out).map_err(errors::directory)?;
    let (program, threads) = (program(py)?, threads(jobs)?);
    let told = Mutex::new(Vec::new());
    let text = carry_out(py, progress.as_ref(), |stop, tell| {
        let rows = rows(&asked, &setting);
        let target = &setting.target;
        let place = BenchPlace { out: &out, program: &program, target, fresh, rows: &rows };
        // Nothing that is simulated sees it.
        #[expect(clippy::disallowed_methods, reason = "how long the bench takes is told to people")]
        let begun = Instant::now();
        let clock = || begun.elapsed().as_secs_f64();
        let progress = |p: BenchProgress| {
            let part = p.done as f64 / p.total.max(1) as f64;
            tell(Far { part, done: p.done, total: p.total });
        };
        let hear = |text: &str| told.lock().expect("nobody panics with the lock").push(text.into());
        let callbacks = BenchCallbacks { clock: &clock, progress: &progress, told: &hear };
        let outcome = run::run(&planned, &*setting.world, threads, &place, stop, &callbacks)?;
        if outcome.ended == Ended::Interrupted {
            let (kept, total) = outcome.kept;
            return Err(RunError::Interrupted { kept, total });
        }
        Ok(answer(&planned, &outcome, &out, &goal))
    })?;
    let told = told.into_inner().expect("nobody panics with the lock");
    warned(py, told)?;
    let json = py.import("json")?.call_method1("loads", (text,))?;
    Ok(json.cast_into::<PyDict>()?)
}

fn rows(asked: &BenchAsked, setting: &Setting) -> Vec<(String, String)> {
    let mut rows = suite_rows(asked.level.name());
    rows.push(("bench_command".into(), asked.command(setting)));
    rows.extend(setting.rows.iter().cloned());
    rows
}

/// What came of it, and what follows from it, as text in JSON.
fn answer(plan: &BenchPlan, outcome: &run::Outcome, out: &Path, goal: &Goal) -> String {
    let source = |(dir, run): &(PathBuf, _)| RunSource {
        name: dir.display().to_string(),
        run: Clone::clone(run),
    };
    let sources: Vec<RunSource> = outcome.runs.iter().map(source).collect();
    // What was measured may not tell what is asked; the figures stand all the same.
    let (advice, why) = match recommend(&sources, goal, None) {
        Ok(advice) => (advice, None),
        Err(error) => (Vec::new(), Some(error.to_string())),
    };
    outcome_json(plan, outcome, out, &advice, why.as_deref()).to_string()
}

/// Names this build, as finished runs of another are not reused: version, size and time of the module's file.
fn program(py: Python<'_>) -> PyResult<String> {
    let module = py.import("hoistway._hoistway")?;
    let file: PathBuf = module.getattr("__file__")?.extract()?;
    let file = std::fs::metadata(file)?;
    let since = file.modified()?.duration_since(std::time::UNIX_EPOCH);
    let since = since.map_or(0, |t| t.as_nanos());
    Ok(format!("{} {} {since}", env!("CARGO_PKG_VERSION"), file.len()))
}
