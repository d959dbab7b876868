//! `hoistway compare`, `run` and `report`: a grid of runs, a table, a run directory.

use crate::args::{Common, Compare, Report, RunOne};
use crate::results::results;
use crate::table::Table;
use crate::{Failure, explain, print};
use hoistway_lab::config::{Config, split_list};
use hoistway_lab::experiment::{Experiment, Options};
use hoistway_lab::quantity;
use hoistway_lab::report::html;
use hoistway_lab::result::{Metric, Run, metrics_csv, number_text};
use hoistway_lab::run::{Grid, Progress, RunError};
use hoistway_sim::drive::DriveFile;
use hoistway_sim::drive::keys::nearest;
use std::fmt::Write as _;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Version of the JSON that `--json` prints.
const JSON_SCHEMA: u32 = 1;

/// Longest `--duration`: a day.
const DURATION_MAX_S: u64 = 86_400;

pub fn compare(options: &Compare) -> Result<(), Failure> {
    let experiment = load(&options.experiment)?;
    let configs = match parts(&options.config) {
        given if given.is_empty() => experiment.configs.clone(),
        given => given,
    };
    carry_out(experiment, &configs, &options.common, "compare", &options.experiment)
}

pub fn run_one(options: &RunOne) -> Result<(), Failure> {
    let experiment = load(&options.experiment)?;
    let config = options.config.clone().unwrap_or_else(|| experiment.configs[0].clone());
    if split_list(&config).len() > 1 {
        return Err(Failure::Usage(format!(
            "run takes one configuration, not '{config}'; `hoistway compare` takes several"
        )));
    }
    if let Some(process) = &options.explain {
        let grid = explain::grid_of(experiment, &[config], &options.common, &options.experiment)?;
        return explain::explain(&grid, process, options.limit);
    }
    carry_out(experiment, &[config], &options.common, "run", &options.experiment)
}

pub fn report(options: &Report) -> Result<(), Failure> {
    // All are read before anything is written.
    let mut runs = Vec::new();
    for dir in &options.dirs {
        if !dir.join("run.toml").is_file() {
            return Err(Failure::Usage(format!(
                "{} is not a run directory (it has no run.toml)",
                dir.display()
            )));
        }
        runs.push((dir, Run::read(dir).map_err(|e| Failure::Failed(e.to_string()))?));
    }
    let mut out = String::new();
    for (dir, run) in &runs {
        run.write_derived(dir, &html::render(run)).map_err(|e| Failure::Failed(e.to_string()))?;
        out.push_str(&results(run));
        let _ = writeln!(out, "\nreport: {}", dir.join("report.html").display());
    }
    print(&out)
}

fn load(name: &str) -> Result<Experiment, Failure> {
    Experiment::load(name).map_err(|e| Failure::Usage(e.to_string()))
}

/// Everything given, split at commas.
fn parts(given: &[String]) -> Vec<String> {
    given.iter().flat_map(|g| split_list(g)).collect()
}

/// `given`, or the experiment's default; each thing once.
fn chosen(given: &[String], default: &[String], what: &str) -> Result<Vec<String>, Failure> {
    let list = match parts(given) {
        list if list.is_empty() => default.to_vec(),
        list => list,
    };
    if list.iter().any(String::is_empty) {
        return Err(Failure::Usage(format!("a {what} without a name; leave out the extra comma")));
    }
    match list.iter().enumerate().find(|(i, x)| list[..*i].contains(x)) {
        Some((_, twice)) => Err(Failure::Usage(format!("{what} '{twice}' is given twice"))),
        None => Ok(list),
    }
}

/// Everything is checked here, before anything runs or is written.
pub fn grid(
    experiment: Experiment,
    configs: &[String],
    common: &Common,
    verb: &str,
    source: &str,
) -> Result<Grid, Failure> {
    let duration = match &common.duration {
        None => None,
        Some(text) => {
            let d =
                quantity::duration(text).map_err(|e| Failure::Usage(format!("--duration: {e}")))?;
            if d.0 == 0 || d.0 > DURATION_MAX_S * 1_000_000_000 {
                let what = format!("--duration: {text} must be above 0 and at most 24h");
                return Err(Failure::Usage(what));
            }
            Some(d)
        }
    };
    let mut drives: Vec<DriveFile> = Vec::new();
    for name in chosen(&common.drive, &experiment.drives, "drive")? {
        let drive = DriveFile::load(&name).map_err(|e| Failure::Usage(e.to_string()))?;
        if drives.iter().any(|d| d.id == drive.id) {
            return Err(Failure::Usage(format!("two drives are called '{}'", drive.id)));
        }
        drives.push(drive);
    }
    let workloads = chosen(&common.workload, &experiment.default_workloads, "workload")?;
    for name in &workloads {
        if experiment.workload(name).is_none() {
            return Err(Failure::Usage(no_workload(&experiment, name)));
        }
    }
    let mut parsed: Vec<Config> = Vec::new();
    for text in chosen(configs, &[], "configuration")? {
        let config = Config::parse(&text).map_err(|e| Failure::Usage(e.to_string()))?;
        if parsed.iter().any(|c| c.id == config.id) {
            return Err(Failure::Usage(format!("configuration '{}' is given twice", config.id)));
        }
        parsed.push(config);
    }
    let options = Options { quick: common.quick, duration, trace: None };
    let mut grid = Grid {
        reps: common.reps.unwrap_or(experiment.reps),
        experiment,
        drives,
        workloads,
        configs: parsed,
        seed: common.seed,
        options,
        command: String::new(),
    };
    grid.command = command(&grid, common, verb, source);
    Ok(grid)
}

fn no_workload(experiment: &Experiment, name: &str) -> String {
    let known: Vec<&str> = experiment.workloads.iter().map(|w| w.id.as_str()).collect();
    let hint = match nearest(name, known.iter().copied()) {
        Some(n) => format!("did you mean '{n}'?"),
        None => format!("there are: {}", known.join(", ")),
    };
    format!("{} has no workload '{name}'; {hint}", experiment.id)
}

/// The command that repeats the grid, with every default spelled out and nothing that does not matter.
fn command(grid: &Grid, common: &Common, verb: &str, source: &str) -> String {
    let join = |items: Vec<&str>| items.join(",");
    let configs = join(grid.configs.iter().map(|c| c.id.as_str()).collect());
    // Braces mean something to the shell.
    let configs = if configs.contains('{') { format!("'{configs}'") } else { configs };
    let drives = match parts(&common.drive) {
        given if given.is_empty() => join(grid.drives.iter().map(|d| d.id.as_str()).collect()),
        given => given.join(","),
    };
    let config = if verb == "run" { format!(" {configs}") } else { format!(" --config {configs}") };
    let mut text = format!("hoistway {verb} {source}{config} --drive {drives}");
    let _ = write!(text, " --workload {}", grid.workloads.join(","));
    let _ = write!(text, " --reps {} --seed {}", grid.reps, grid.seed);
    if let Some(duration) = &common.duration {
        let _ = write!(text, " --duration '{duration}'");
    }
    if grid.options.quick {
        text.push_str(" --quick");
    }
    text
}

fn carry_out(
    experiment: Experiment,
    configs: &[String],
    common: &Common,
    verb: &str,
    source: &str,
) -> Result<(), Failure> {
    let grid = grid(experiment, configs, common, verb, source)?;
    if common.dry_run {
        return print(&preview(&grid)?);
    }
    // Also checks every job before the first one runs.
    grid.preview().map_err(run_failure)?;
    let name = format!("{}.sim.{}", grid.experiment.id, grid.digest());
    let dir = common.out.clone().unwrap_or_else(|| PathBuf::from("runs").join(name));
    Run::may_write(&dir).map_err(|e| Failure::Usage(e.to_string()))?;
    let threads = match common.jobs {
        Some(n) => usize::from(n),
        None => std::thread::available_parallelism().map_or(1, |n| n.get()),
    };
    let run = execute(&grid, threads, common)?;
    run.write(&dir, &html::render(&run)).map_err(|e| match e {
        hoistway_lab::result::DirectoryError::Io { .. } => {
            Failure::Environment(format!("{e}; choose a writable place with --out"))
        }
        e => Failure::Failed(e.to_string()),
    })?;
    if common.csv {
        print(&metrics_csv(&run.metrics))?;
        return note(&run, &dir);
    }
    if common.json {
        print(&json(&run, &dir))?;
        return note(&run, &dir);
    }
    let mut out = results(&run);
    let _ = write!(
        out,
        "\nreport: {}\nseed:   {} (repetitions use {} to {})\n",
        dir.join("report.html").display(),
        grid.seed,
        grid.seed,
        grid.seed + u64::from(grid.reps) - 1
    );
    print(&out)
}

/// Where the report is and which seed was used, beside data on stdout.
fn note(run: &Run, dir: &Path) -> Result<(), Failure> {
    eprintln!("report: {}\nseed:   {}", dir.join("report.html").display(), run.manifest.seed);
    Ok(())
}

fn execute(grid: &Grid, threads: usize, common: &Common) -> Result<Run, Failure> {
    let stop = stop_flag()?;
    let visible = !common.quiet && std::io::stderr().is_terminal();
    let bar = match visible {
        true => indicatif::ProgressBar::new(grid.len() as u64),
        false => indicatif::ProgressBar::hidden(),
    };
    let style = indicatif::ProgressStyle::with_template("{pos}/{len} runs [{bar:40}] {eta} left")
        .expect("the template is fixed and valid");
    bar.set_style(style.progress_chars("=> "));
    let progress = |p: Progress| bar.set_position(p.done as u64);
    let run = grid.run(hoistway_sim::world::run, threads, &stop, &progress);
    bar.finish_and_clear();
    run.map_err(run_failure)
}

/// Set by Ctrl-C.
pub fn stop_flag() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&stop);
    // A second handler cannot exist: a command asks for one, once.
    ctrlc::set_handler(move || flag.store(true, Ordering::Relaxed))
        .map_err(|e| Failure::Environment(format!("Ctrl-C cannot be caught: {e}")))?;
    Ok(stop)
}

/// A job that cannot run was asked for in a wrong way.
pub fn run_failure(error: RunError) -> Failure {
    match error {
        RunError::Interrupted => Failure::Interrupted,
        error => Failure::Usage(error.to_string()),
    }
}

fn preview(grid: &Grid) -> Result<String, Failure> {
    let mut out = format!("{}\n{}\n\n", grid.experiment.title, grid.command);
    let mut table = Table::new(&["drive/config/workload", "processes", "ramp", "measured"], 1);
    for (cell, job) in grid.preview().map_err(run_failure)? {
        let seconds = |ns: u64| format!("{} s", number_text(ns as f64 / 1e9));
        let processes = job.procs.len().to_string();
        let window = job.window;
        table.row(vec![cell, processes, seconds(window.ramp.0), seconds(window.measured.0)]);
    }
    out.push_str(&table.render());
    let _ = writeln!(
        out,
        "\n{} runs: {} repetitions of each, seeds {} to {}; nothing was run or written",
        grid.len(),
        grid.reps,
        grid.seed,
        grid.seed + u64::from(grid.reps) - 1
    );
    Ok(out)
}

fn json(run: &Run, dir: &Path) -> String {
    let metric = |x: &Metric| {
        serde_json::json!({
            "experiment": x.experiment, "drive": x.drive, "config": x.config,
            "workload": x.workload, "metric": x.metric, "unit": x.unit, "value": x.value,
            "rep": x.rep, "source": x.source,
        })
    };
    let flag = |(cell, text): &(String, String)| serde_json::json!({ "cell": cell, "text": text });
    let all = serde_json::json!({
        "schema": JSON_SCHEMA,
        "experiment": run.manifest.experiment,
        "version": run.manifest.version,
        "command": run.manifest.command,
        "seed": run.manifest.seed,
        "reps": run.manifest.reps,
        "directory": dir.display().to_string(),
        "report": dir.join("report.html").display().to_string(),
        "metrics": run.metrics.iter().map(metric).collect::<Vec<_>>(),
        "flags": run.flags.iter().map(flag).collect::<Vec<_>>(),
    });
    format!("{all:#}\n")
}
