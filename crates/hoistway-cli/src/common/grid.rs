//! What runs: an experiment with what the command line changes about it.

use crate::common::lists::{chosen, parts};
use crate::common::options::Common;
use crate::common::worlds::{self, Chosen};
use crate::failure::Failure;
use hoistway::quantity;
use hoistway::setting::nearest;
use hoistway_lab::config::{Config, WBT};
use hoistway_lab::experiment::{Experiment, Idle, Options, idle_files, read_directory, who_heeds};
use hoistway_lab::run::Grid;
use hoistway_sim::drive::DriveFile;
use std::fmt::Write as _;

/// Longest `--duration`: a day.
const DURATION_MAX_S: u64 = 86_400;

/// What the command began with.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// `compare` or `run`.
    pub verb: &'a str,
    /// The experiment as it was named.
    pub name: &'a str,
}

pub fn load(name: &str) -> Result<Experiment, Failure> {
    Experiment::load(name).map_err(|e| Failure::Usage(e.to_string()))
}

/// Everything is checked here, before anything runs or is written.
pub fn grid(
    mut experiment: Experiment,
    configs: &[String],
    common: &Common,
    world: &Chosen,
    source: &Source<'_>,
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
    if let Some(dir) = &common.groups {
        let groups = read_directory(dir).and_then(|groups| experiment.set_groups(groups));
        groups.map_err(|e| Failure::Usage(e.to_string()))?;
    }
    let mut drives: Vec<DriveFile> = world.drive.iter().cloned().collect();
    let named = match drives.is_empty() {
        true => chosen(&common.drive, &experiment.drives, "drive")?,
        false => Vec::new(),
    };
    for name in named {
        let drive = DriveFile::load(&name).map_err(|e| Failure::Usage(e.to_string()))?;
        if drives.iter().any(|d| d.id == drive.id) {
            return Err(Failure::Usage(format!(
                "two drive files have the name '{}'; rename one",
                drive.id
            )));
        }
        drives.push(drive);
    }
    with_faults(&mut drives, &experiment, common, world.drive.is_some())?;
    let workloads = chosen(&common.workload, &experiment.default_workloads, "workload")?;
    for name in &workloads {
        if experiment.workload(name).is_none() {
            return Err(Failure::Usage(no_workload(&experiment, name)));
        }
    }
    let mut parsed: Vec<Config> = Vec::new();
    for text in chosen(configs, &[], "configuration")? {
        let text = match common.wbt && !text.ends_with(WBT) {
            true => format!("{text}{WBT}"),
            false => text,
        };
        let config = Config::parse(&text).map_err(|e| Failure::Usage(e.to_string()))?;
        if parsed.iter().any(|c| c.id == config.id) {
            return Err(Failure::Usage(format!("configuration '{}' is given twice", config.id)));
        }
        parsed.push(config);
    }
    for Idle { path, file, configs } in idle_files(&experiment.tree, &parsed) {
        eprintln!(
            "warning: {file} of group {path} does nothing under {}; it takes {}",
            configs.join(", "),
            who_heeds(&file)
        );
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
    if let Some(what) = grid.too_large() {
        return Err(Failure::Usage(what));
    }
    grid.command = command(&grid, common, world.drive.is_none(), source);
    Ok(grid)
}

/// Gives the drives the faults of the experiment and of the command line.
fn with_faults(
    drives: &mut [DriveFile],
    experiment: &Experiment,
    common: &Common,
    real: bool,
) -> Result<(), Failure> {
    let wrong = |what: String| Failure::Usage(format!("--faults: {what}"));
    let mut given = Vec::new();
    for part in parts(&common.faults) {
        let Some((key, value)) = part.split_once('=') else {
            return Err(wrong(format!("'{part}' has no '='; write pause_every_ms=2s")));
        };
        given.push((key.trim().to_string(), fault_value(value.trim())));
    }
    if real && !(given.is_empty() && experiment.faults.is_empty()) {
        let what = "faults are of simulated drives, and this run uses real storage; name a drive with --drive";
        return Err(Failure::Usage(what.into()));
    }
    for drive in drives {
        *drive = experiment.on(drive).map_err(|e| Failure::Usage(e.to_string()))?;
        if !given.is_empty() {
            *drive = drive.with_faults(&given).map_err(|e| wrong(e.to_string()))?;
        }
    }
    Ok(())
}

/// A number in the unit of the key, or a quantity with a unit of its own.
fn fault_value(text: &str) -> toml::Value {
    match (text.parse::<i64>(), text.parse::<f64>()) {
        (Ok(n), _) => toml::Value::Integer(n),
        (_, Ok(x)) => toml::Value::Float(x),
        _ => toml::Value::String(text.into()),
    }
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
pub fn command(grid: &Grid, common: &Common, drives_named: bool, source: &Source<'_>) -> String {
    let join = |items: Vec<&str>| items.join(",");
    let configs = join(grid.configs.iter().map(|c| c.id.as_str()).collect());
    // Braces mean something to the shell.
    let configs = if configs.contains('{') { format!("'{configs}'") } else { configs };
    let drives = match parts(&common.drive) {
        given if given.is_empty() => join(grid.drives.iter().map(|d| d.id.as_str()).collect()),
        given => given.join(","),
    };
    let Source { verb, name } = source;
    let config =
        if *verb == "run" { format!(" {configs}") } else { format!(" --config {configs}") };
    let mut text = format!("hoistway {verb} {name}{config}");
    if drives_named {
        let _ = write!(text, " --drive {drives}");
    }
    text.push_str(&worlds::flags(common));
    if !common.faults.is_empty() {
        let _ = write!(text, " --faults {}", parts(&common.faults).join(","));
    }
    let _ = write!(text, " --workload {}", grid.workloads.join(","));
    let _ = write!(text, " --reps {} --seed {}", grid.reps, grid.seed);
    if let Some(duration) = &common.duration {
        let _ = write!(text, " --duration '{duration}'");
    }
    if grid.options.quick {
        text.push_str(" --quick");
    }
    if let Some(dir) = &common.groups {
        let _ = write!(text, " --groups '{}'", dir.display());
    }
    text
}
