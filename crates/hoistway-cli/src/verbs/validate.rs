//! `hoistway validate`: one experiment on one emulated drive under the kernel's schedulers, under ours on the wall
//! clock, and in the simulator.

use crate::common::beside;
use crate::common::output::{self, Folder, print};
use crate::common::process::{program, stop_flag, threads};
use crate::common::runs::forget;
use crate::common::table::limit;
use crate::common::terminal;
use crate::failure::{Failure, directory_failure, run_failure};
use clap::Args as ClapArgs;
use hoistway::quantity;
use hoistway_files::{Dir, Kind, shown};
use hoistway_lab::config::Config;
use hoistway_lab::experiment::{Experiment, Options};
use hoistway_lab::grid::parts;
use hoistway_lab::report::html;
use hoistway_lab::result::kept::Kept;
use hoistway_lab::result::{Run, holds_runs};
use hoistway_lab::run::Grid;
use hoistway_lab::validate::{ValidationRow, WorldSide, carry_out, rows};
use hoistway_lab::world::{Engine, Kernel, Sim, World};
use hoistway_machine::emulator::{Emulator, EmulatorOptions};
use hoistway_machine::engine::{Storage, StorageTarget};
use hoistway_machine::kernel::{Machine, MachineOptions, VolumeTarget};
use hoistway_sim::drive::DriveFile;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// `hoistway validate`.
#[derive(Debug, ClapArgs)]
#[command(
    after_help = "Exit codes: 0 every row within its limit, 1 some are not, 2 wrong usage, 3 this machine lacks \
                        something (root, FUSE, loop devices). Interrupted, the same command goes on."
)]
pub struct Validate {
    /// Experiment, by name or path
    #[arg(default_value = "validation")]
    pub experiment: String,
    /// Drives to emulate [default: the experiment's]
    #[arg(long, short, value_name = "LIST")]
    pub drive: Vec<String>,
    /// Schedulers; all must be the kernel's [default: the experiment's]
    #[arg(long, short, value_name = "LIST")]
    pub config: Vec<String>,
    /// Workloads [default: the experiment's]
    #[arg(long, short, value_name = "LIST")]
    pub workload: Vec<String>,
    /// Worlds to compare with the kernel
    #[arg(long = "with", value_name = "LIST", default_value = "engine,sim")]
    pub with: String,
    /// Version of the kernel's BFQ, whose rules ours follow
    #[arg(long, value_name = "BASE", default_value = "6.2+")]
    pub bfq_base: String,
    /// Runs of each cell in each world [default: the experiment's]
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub reps: Option<u32>,
    /// First seed
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Measured time of each run, such as 5s
    #[arg(long, value_name = "TIME")]
    pub duration: Option<String>,
    /// Processors that processes share in the simulator, too; 0: one each [default: this machine's]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(0..=1024))]
    pub cpus: Option<u16>,
    /// Folder for the run directories, DIR/DRIVE/WORLD
    #[arg(long, short, value_name = "DIR", default_value = "runs/validation")]
    pub out: PathBuf,
    /// Make the table from the run directories of an earlier validation, and run nothing
    #[arg(long, alias = "from", value_name = "DIR", conflicts_with_all = ["drive", "config", "workload", "reps", "duration", "dry_run"])]
    pub runs: Option<PathBuf>,
    /// Also write the table as Markdown
    #[arg(long, value_name = "FILE")]
    pub markdown: Option<PathBuf>,
    /// Run again what an interrupted run has left
    #[arg(long)]
    pub fresh: bool,
    /// Emulate drives that this machine cannot keep up with, too
    #[arg(long)]
    pub anyway: bool,
    /// Print what would run
    #[arg(long)]
    pub dry_run: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Print every column of the table, however narrow the terminal
    #[arg(long)]
    pub wide: bool,
    /// No progress
    #[arg(long, short)]
    pub quiet: bool,
}

/// One drive.
struct Task {
    drive: DriveFile,
    /// Of the kernel, then of the others.
    grids: Vec<Grid>,
}

pub fn validate(options: &Validate) -> Result<(), Failure> {
    let others = worlds(&options.with)?;
    output::check("--markdown", options.markdown.as_deref(), Kind::Marked)?;
    let results = match &options.runs {
        Some(folder) => stored(folder, &others)?,
        None => {
            let tasks = tasks(options, &others)?;
            if options.dry_run {
                return print(&preview(&tasks, &others)?);
            }
            check_places(options, &tasks, &others)?;
            Folder::open("--out", &options.out, is_ours)?;
            let stop = stop_flag()?;
            let mut kept = Vec::new();
            let mut one = |task: &Task| {
                Ok((task.drive.id.clone(), one(options, task, &others, &stop, &mut kept)?))
            };
            let all = tasks.iter().map(&mut one).collect::<Result<Vec<_>, Failure>>()?;
            forget(&kept)?;
            all
        }
    };
    report(options, &others, &results)
}

/// Whether a folder is that of a validation.
fn is_ours(dir: &Dir) -> bool {
    holds_runs(dir, true)
}

/// Every place that will be written to, before anything runs.
fn check_places(options: &Validate, tasks: &[Task], others: &[&str]) -> Result<(), Failure> {
    output::check_folder("--out", Some(&options.out), is_ours)?;
    for task in tasks {
        for world in std::iter::once(&KERNEL).chain(others) {
            let dir = options.out.join(&task.drive.id).join(world);
            Run::may_write(&dir).map_err(directory_failure)?;
            Kept::check(&dir).map_err(directory_failure)?;
        }
    }
    Ok(())
}

/// The runs on a drive: the kernel's, then those of the others.
type OnDrive = (String, Vec<Run>);

/// The run directories of an earlier validation.
fn stored(folder: &Path, others: &[&str]) -> Result<Vec<OnDrive>, Failure> {
    let entries = std::fs::read_dir(folder)
        .map_err(|e| Failure::Usage(format!("--runs {}: {e}", folder.display())))?;
    let mut places: Vec<PathBuf> = entries.flatten().map(|e| e.path()).collect();
    places.retain(|place| place.join(KERNEL).join("run.toml").is_file());
    places.sort();
    if places.is_empty() {
        let what = format!(
            "--runs {}: there is no DRIVE/{KERNEL}/run.toml in it; name the --out of a validation",
            folder.display()
        );
        return Err(Failure::Usage(what));
    }
    let read = |place: &PathBuf| {
        let worlds = std::iter::once(&KERNEL).chain(others);
        let runs = worlds.map(|world| Run::read(&place.join(world)));
        let runs = runs.collect::<Result<Vec<_>, _>>();
        let drive = place.file_name().map_or_else(String::new, |n| n.to_string_lossy().into());
        Ok((drive, runs.map_err(|e| Failure::Usage(e.to_string()))?))
    };
    places.iter().map(read).collect()
}

fn report(options: &Validate, others: &[&'static str], results: &[OnDrive]) -> Result<(), Failure> {
    let mut all = Vec::new();
    let mut notes = Vec::new();
    for (drive, runs) in results {
        for (world, run) in std::iter::once(&KERNEL).chain(others).zip(runs) {
            let rows = run.manifest.machine.iter().filter(|(name, _)| name == "warning");
            notes.extend(rows.map(|(_, what)| format!("{drive}, {world}: {what}")));
        }
        all.extend(rows(&runs[0], &runs[1..].iter().collect::<Vec<_>>()));
    }
    notes.dedup();
    if let Some(path) = &options.markdown {
        let table = beside::markdown(&all, KERNEL, others);
        let text = format!("<!-- Made by hoistway validate. -->\n\n{table}");
        output::write("--markdown", path, &text, Kind::Marked)?;
    }
    print(&match options.json {
        true => format!("{:#}\n", beside::json(&all, KERNEL, others, &notes)),
        false => text(&all, others, &notes, options),
    })?;
    let missed = |row: &ValidationRow| (0..others.len()).any(|o| row.holds(o) == Some(false));
    if all.iter().any(missed) { Err(Failure::No) } else { Ok(()) }
}

/// The world that the others are compared with.
const KERNEL: &str = "kernel";

fn worlds(text: &str) -> Result<Vec<&'static str>, Failure> {
    let mut list = Vec::new();
    for name in text.split(',').map(str::trim) {
        let known = ["engine", "sim"].into_iter().find(|known| *known == name);
        let Some(world) = known.filter(|w| !list.contains(w)) else {
            return Err(Failure::Usage(format!("--with {text}: choose engine, sim or engine,sim")));
        };
        list.push(world);
    }
    Ok(list)
}

fn tasks(options: &Validate, others: &[&str]) -> Result<Vec<Task>, Failure> {
    let usage = |e: &dyn std::fmt::Display| Failure::Usage(e.to_string());
    let load = || Experiment::load(&options.experiment).map_err(|e| usage(&e));
    let experiment = load()?;
    let or = |given: &[String], usual: &[String]| match parts(given) {
        given if given.is_empty() => usual.to_vec(),
        given => given,
    };
    let workloads = or(&options.workload, &experiment.default_workloads);
    if let Some(name) = workloads.iter().find(|w| experiment.workload(w).is_none()) {
        return Err(Failure::Usage(format!("{} has no workload '{name}'", experiment.id)));
    }
    let names = or(&options.config, &experiment.configs);
    let configs: Result<Vec<Config>, _> = names.iter().map(|n| Config::parse(n)).collect();
    let configs = configs.map_err(|e| usage(&e))?;
    let ours: Result<Vec<Config>, Failure> =
        configs.iter().map(|c| of_that_kernel(c, &options.bfq_base)).collect();
    let ours = ours?;
    let duration = options.duration.as_ref().map(|text| {
        quantity::duration(text).map_err(|e| Failure::Usage(format!("--duration {text}: {e}")))
    });
    let changes = Options { quick: false, duration: duration.transpose()?, trace: None };
    let mut tasks = Vec::new();
    for name in or(&options.drive, &experiment.drives) {
        let drive = DriveFile::load(&name).map_err(|e| usage(&e))?;
        let mut grids = Vec::new();
        for side in 0..=others.len() {
            let mut of_side = load()?;
            if side > 0 && others[side - 1] == "sim" {
                share_processors(&mut of_side, options);
            }
            grids.push(Grid {
                experiment: of_side,
                drives: vec![drive.clone()],
                workloads: workloads.clone(),
                configs: match side {
                    0 => configs.iter().map(|c| with_requests_of(c, &drive)).collect(),
                    _ => ours.clone(),
                },
                reps: options.reps.unwrap_or(experiment.reps),
                seed: options.seed,
                options: changes,
                command: command(options, &drive, &names, &workloads),
            });
        }
        if let Some(what) = grids.iter().find_map(Grid::too_large) {
            return Err(Failure::Usage(what));
        }
        tasks.push(Task { drive, grids });
    }
    Ok(tasks)
}

/// What a process that was woken takes of a processor on the way through loop device and emulator, about: two processors
/// carry 50,000 to 64,000 commands per second. Any time from 5 to 80 us gives the same figures.
const TURN_NS: i64 = 30_000;

/// The processes of the other worlds share this machine's processors, so those of the simulator do, unless the
/// experiment says how many there are: those whom one flush has woken write one after the other.
fn share_processors(experiment: &mut Experiment, options: &Validate) {
    if experiment.host.iter().any(|(name, _)| name == "cpus") {
        return;
    }
    experiment.host.push(("cpus".into(), cpus(options).into()));
    experiment.host.push(("turn_ns".into(), TURN_NS.into()));
}

fn cpus(options: &Validate) -> i64 {
    let here = || std::thread::available_parallelism().map_or(0, |n| n.get() as i64);
    options.cpus.map_or_else(here, i64::from)
}

/// Our scheduler of that name with the kernel's rules, where ours has mended some: BFQ's of the version asked for, the
/// newest recorded of others.
fn of_that_kernel(config: &Config, bfq_base: &str) -> Result<Config, Failure> {
    let has_base = config.scheduler.tunables.iter().any(|t| t.name == "base");
    if !has_base || config.set.iter().any(|(name, _)| name == "base") {
        return Ok(config.clone());
    }
    let base = if config.scheduler.name == "bfq" { bfq_base } else { RECORDED };
    let settings = match config.id.strip_prefix(&config.base).filter(|rest| !rest.is_empty()) {
        None => format!("{{base={base}}}"),
        // What is given for the scheduler comes after the version, which resets it.
        Some(rest) => rest.replacen('{', &format!("{{base={base},"), 1),
    };
    let ours = Config::parse(&format!("{}{settings}", config.base));
    let mut ours = ours.map_err(|e| Failure::Usage(e.to_string()))?;
    ours.id.clone_from(&config.id);
    Ok(ours)
}

/// The kernel whose decisions were recorded (docs/results/kernel-reference.md).
const RECORDED: &str = "6.1";

/// The kernel's configuration with as many requests as the drive itself would get. A loop device gives each
/// scheduler those of its compiled-in depth, whatever the drive's.
fn with_requests_of(config: &Config, drive: &DriveFile) -> Config {
    let mut config = config.clone();
    let given = config.queue.iter().any(|(name, _)| name == "nr_requests");
    if !given && config.scheduler.name != "none" {
        let requests = 2 * u64::from(drive.host.queue_depth.min(REQUESTS));
        config.queue.push(("nr_requests".into(), requests));
    }
    config
}

/// Half of the requests that a scheduler gets at most (docs/specs/blk-mq-and-noop.md).
const REQUESTS: u32 = 128;

fn command(options: &Validate, drive: &DriveFile, configs: &[String], loads: &[String]) -> String {
    let mut text = format!(
        "hoistway validate {} --drive {} --config '{}' --workload {} --with {} --bfq-base {} --cpus {} --seed {}",
        options.experiment,
        drive.id,
        configs.join(","),
        loads.join(","),
        options.with,
        options.bfq_base,
        cpus(options),
        options.seed
    );
    if let Some(reps) = options.reps {
        let _ = write!(text, " --reps {reps}");
    }
    if let Some(duration) = &options.duration {
        let _ = write!(text, " --duration '{duration}'");
    }
    text
}

/// All worlds on one drive; the finished runs are kept until those of all drives are there.
fn one(
    options: &Validate,
    task: &Task,
    others: &[&'static str],
    stop: &std::sync::Arc<std::sync::atomic::AtomicBool>,
    all_kept: &mut Vec<Kept>,
) -> Result<Vec<Run>, Failure> {
    let failed = |e: hoistway_machine::MachineError| Failure::Environment(e.to_string());
    let emulated =
        EmulatorOptions { anyway: options.anyway, ..EmulatorOptions::new(task.drive.clone()) };
    let emulator = Emulator::start(&emulated).map_err(failed)?;
    emulator.notes().iter().for_each(|note| eprintln!("warning: {}: {note}", task.drive.id));
    // Declared behind it: its device must be free before the emulator can go.
    let mut worlds: Vec<Box<dyn World>> = vec![kernel(&emulator.device())?];
    for name in others {
        worlds.push(match *name {
            "engine" => {
                Box::new(Engine(Storage::open(&StorageTarget::Emulated, None).map_err(failed)?))
            }
            _ => Box::new(Sim),
        });
    }
    let mut keeps = Vec::new();
    let place = |world: &dyn World| options.out.join(&task.drive.id).join(world.name());
    for (world, grid) in worlds.iter().zip(&task.grids) {
        crate::common::worlds::check(&**world, grid)?;
        let dir = place(&**world);
        Run::may_write(&dir).map_err(directory_failure)?;
        let kept = Kept::open(&dir, &grid.key(&**world, &program()), options.fresh);
        keeps.push(kept.map_err(directory_failure)?.0);
    }
    let sides = worlds.iter().zip(&task.grids).zip(&keeps);
    let sides: Vec<WorldSide<'_>> =
        sides.map(|((world, grid), kept)| WorldSide { world: &**world, grid, kept }).collect();
    let bar = bar(options.quiet, &task.drive.id);
    let progress = |done: usize, total: usize| {
        bar.set_length(total as u64);
        bar.set_position(done as u64);
    };
    let runs = carry_out(&sides, threads(None), stop, &progress);
    bar.finish_and_clear();
    let runs = runs.map_err(run_failure)?;
    for (side, run) in sides.iter().zip(&runs) {
        let written = run.write(&place(side.world), &html::render(run));
        written.map_err(directory_failure)?;
    }
    drop(sides);
    all_kept.extend(keeps);
    Ok(runs)
}

/// The kernel's schedulers on an emulated drive, which holds nothing.
fn kernel(device: &Path) -> Result<Box<dyn World>, Failure> {
    let options = MachineOptions {
        destroy: Some(device.into()),
        what: "validate".into(),
        ..MachineOptions::default()
    };
    let machine = Machine::open(&VolumeTarget::Device(device.into()), options);
    let machine = machine.map_err(|e| Failure::Environment(e.to_string()))?;
    Ok(Box::new(Kernel(machine)))
}

fn bar(quiet: bool, drive: &str) -> indicatif::ProgressBar {
    let bar = terminal::bar(quiet, 0, "{msg}: {pos}/{len} runs [{bar:40}] {eta} left");
    bar.set_message(shown::line(drive).into_owned());
    bar
}

fn preview(tasks: &[Task], others: &[&str]) -> Result<String, Failure> {
    let mut out = String::new();
    for task in tasks {
        let grid = &task.grids[0];
        let whole = grid.whole().map_err(run_failure)?.0.div_ceil(1_000_000_000);
        let clocks = 1 + u64::from(others.contains(&"engine"));
        let _ = writeln!(
            out,
            "{}: {} runs in each of {}, {}: about {} s in real time",
            task.drive.id,
            grid.len(),
            KERNEL,
            others.join(", "),
            whole * clocks
        );
    }
    out.push_str("nothing was run or written\n");
    Ok(out)
}

fn text(all: &[ValidationRow], others: &[&str], notes: &[String], options: &Validate) -> String {
    let mut out =
        beside::table(all, KERNEL, others).fit(limit(options.wide), &["unit", "sim", "engine"]);
    out.push_str("(! beyond the limit)\n");
    out.push_str(&beside::verdict(all, others));
    for note in notes {
        let _ = writeln!(out, "warning: {note}");
    }
    let place = options.runs.as_ref().unwrap_or(&options.out);
    let _ = writeln!(out, "runs: {}", place.display());
    out
}
