//! `hoistway compare` and `run`: a grid of runs, a table, a run directory.

use crate::args::{Common, Compare, JobArgs, RunOne};
use crate::baseline::{self, Baseline};
use crate::job::Jobs;
use crate::output::{self, Folder};
use crate::results::{all_csv, all_json, results};
use crate::table::{Table, limit};
use crate::world::{self, Chosen, choose};
use crate::{Failure, beside, explain, job, print};
use hoistway::setting::nearest;
use hoistway::{IoPrio, quantity};
use hoistway_files::{Dir, Kind};
use hoistway_lab::config::{Config, WBT, split_list};
use hoistway_lab::experiment::{Experiment, Idle, Options, idle_files, read_directory, who_heeds};
use hoistway_lab::replay::SavingSim;
use hoistway_lab::replay::saved::OURS;
use hoistway_lab::report::{html, overview};
use hoistway_lab::result::kept::{Found, Kept};
use hoistway_lab::result::{DirectoryError, Run, holds_runs, number_text};
use hoistway_lab::run::{Grid, Progress, RunError};
use hoistway_lab::world::World;
use hoistway_sim::drive::DriveFile;
use hoistway_sim::world::{JobError, ProcSpec};
use std::fmt::Write as _;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// Longest `--duration`: a day.
const DURATION_MAX_S: u64 = 86_400;

/// Experiments of `compare` that are named nowhere.
pub const USUAL: &str = "latency-2019";

/// What `compare` compares in the simulator where nothing is named: what people choose between, and what a latency
/// target brings. So few repetitions, that five take no longer than two did.
const FIRST: &[&str] = &["none", "mq-deadline", "kyber", "bfq", "slo-paternoster"];
const FIRST_REPS: u32 = 4;

/// The configurations asked for, or the experiment's.
pub fn configs_of(options: &Compare, experiment: &Experiment) -> Vec<String> {
    match parts(&options.config) {
        given if given.is_empty() => experiment.configs.clone(),
        given => given,
    }
}

pub fn compare(options: &Compare) -> Result<(), Failure> {
    let worlds = chosen(&options.common.on, &options.common.worlds(), "world")?;
    if worlds.len() > 1 {
        return beside::compare(options, &worlds);
    }
    let configs = |experiment: &Experiment| configs_of(options, experiment);
    if let (Some(flag), Some(name)) = (options.job.flag(), &options.experiment) {
        let what = format!("{flag} is in place of an experiment; leave '{name}' or {flag} out");
        return Err(Failure::Usage(what));
    }
    if let Some(jobs) = Jobs::load(&options.job)? {
        let configs = configs(&jobs.experiment);
        return of_jobs(jobs, &configs, "compare", &options.job, &options.common);
    }
    let named = options.experiment.clone().unwrap_or_else(|| USUAL.into());
    let names = chosen(&[named], &[], "experiment")?;
    if names.len() > 1 && !options.common.workload.is_empty() {
        let what = "--workload names workloads of one experiment; compare one at a time with it";
        return Err(Failure::Usage(what.into()));
    }
    let chosen = choose(&options.common)?;
    let mut grids = Vec::new();
    for name in &names {
        let mut experiment = load(name)?;
        if options.experiment.is_none()
            && options.config.is_empty()
            && options.common.world() == "sim"
        {
            experiment.configs = FIRST.iter().map(|c| c.to_string()).collect();
            experiment.reps = FIRST_REPS;
        }
        let configs = configs(&experiment);
        let source = Source { verb: "compare", name };
        grids.push(grid(experiment, &configs, &options.common, &chosen, &source)?);
    }
    carry_out(grids, &options.common, &chosen, &|_| String::new())
}

/// Runs the jobs of a file, or of a command line.
fn of_jobs(
    jobs: Jobs,
    configs: &[String],
    verb: &str,
    args: &JobArgs,
    common: &Common,
) -> Result<(), Failure> {
    let chosen = choose(common)?;
    let source = Source { verb, name: &jobs.flags };
    let mut grid = grid(jobs.experiment.clone(), configs, common, &chosen, &source)?;
    jobs.check(&grid)?;
    if args.as_fio() && common.reps.is_none() {
        // One document is one run.
        grid.reps = 1;
        grid.command = command(&grid, common, chosen.drive.is_none(), &source);
    }
    if !args.as_fio() {
        let more = |run: &Run| {
            jobs.tell_unmeasured(run);
            format!("\n{}", job::table(run, &jobs))
        };
        return carry_out(vec![grid], common, &chosen, &more);
    }
    baseline::refuse(common, "output in fio's formats")?;
    let mut grids = [grid];
    let (runs, dirs) = run_all(&mut grids, common, &chosen)?;
    jobs.tell_unmeasured(&runs[0]);
    jobs.print_documents(&runs[0], &dirs[0])?;
    note(&runs[0], &dirs[0])
}

pub fn run_one(options: &RunOne) -> Result<(), Failure> {
    let jobs = Jobs::load(&options.job)?;
    let (experiment, name, config) = match (&jobs, &options.experiment) {
        (Some(jobs), config) => {
            if let (Some(flag), Some(first), Some(_)) =
                (options.job.flag(), config, &options.config)
            {
                let what = format!("{flag} is in place of an experiment; leave '{first}' out");
                return Err(Failure::Usage(what));
            }
            (jobs.experiment.clone(), jobs.flags.clone(), config.clone())
        }
        (None, name) => {
            let name = name.clone().expect("clap requires one of the two");
            (load(&name)?, name, options.config.clone())
        }
    };
    let config = config.unwrap_or_else(|| experiment.configs[0].clone());
    if split_list(&config).len() > 1 {
        return Err(Failure::Usage(format!(
            "run takes one configuration, not '{config}'; `hoistway compare` takes several"
        )));
    }
    let jobs = match (jobs, &options.explain, &options.save_trace) {
        (Some(jobs), None, None) => {
            return of_jobs(jobs, &[config], "run", &options.job, &options.common);
        }
        (jobs, ..) => jobs,
    };
    let chosen = choose(&options.common)?;
    let source = Source { verb: "run", name: &name };
    let check = |grid: &Grid| jobs.as_ref().map_or(Ok(()), |jobs| jobs.check(grid));
    if let Some(process) = &options.explain {
        baseline::refuse(&options.common, "--explain")?;
        if !["sim", "engine"].contains(&options.common.world().as_str()) {
            let what = "--explain: the kernel's schedulers do not tell what they decide; use --on sim or engine";
            return Err(Failure::Usage(what.into()));
        }
        let grid = explain::grid_of(experiment, &[config], &options.common, &chosen, &source)?;
        check(&grid)?;
        return explain::explain(&grid, &*chosen.world, process, options.limit);
    }
    let mut grid = grid(experiment, &[config], &options.common, &chosen, &source)?;
    check(&grid)?;
    let nothing = |_: &Run| String::new();
    if let Some(path) = &options.save_trace {
        let chosen = saving(&mut grid, &options.common, path)?;
        return carry_out(vec![grid], &options.common, &chosen, &nothing);
    }
    carry_out(vec![grid], &options.common, &chosen, &nothing)
}

/// The world that writes the run of a grid of one into a trace.
fn saving(grid: &mut Grid, common: &Common, path: &Path) -> Result<Chosen, Failure> {
    if common.world() != "sim" {
        let what = "--save-trace writes runs of the simulator; leave out --on";
        return Err(Failure::Usage(what.into()));
    }
    if common.reps.is_none() {
        grid.command = grid.command.replace(&format!(" --reps {} ", grid.reps), " --reps 1 ");
        grid.reps = 1;
    }
    let _ = write!(grid.command, " --save-trace '{}'", path.display());
    if grid.len() != 1 {
        return Err(Failure::Usage(format!(
            "--save-trace writes one run, but {} are chosen; choose one drive with --drive, one workload with \
             --workload, and --reps 1",
            grid.len()
        )));
    }
    output::check("--save-trace", Some(path), OURS)?;
    let (path, config) = (path.to_path_buf(), grid.configs[0].id.clone());
    Ok(Chosen { world: Box::new(SavingSim { path, config }), drive: None })
}

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

/// Most names of a list.
const LIST_MAX: usize = 1000;

/// Everything given, split at commas.
pub fn parts(given: &[String]) -> Vec<String> {
    given.iter().flat_map(|g| split_list(g)).collect()
}

/// `given`, or the experiment's default; each thing once.
pub fn chosen(given: &[String], default: &[String], what: &str) -> Result<Vec<String>, Failure> {
    let list = match parts(given) {
        list if list.is_empty() => default.to_vec(),
        list => list,
    };
    if list.len() > LIST_MAX {
        return Err(Failure::Usage(format!(
            "{} {what} names in the list, at most {LIST_MAX}",
            list.len()
        )));
    }
    if list.iter().any(String::is_empty) {
        return Err(Failure::Usage(format!(
            "an empty {what} name in the list; remove the extra comma"
        )));
    }
    match list.iter().enumerate().find(|(i, x)| list[..*i].contains(x)) {
        Some((_, twice)) => Err(Failure::Usage(format!("{what} '{twice}' is given twice"))),
        None => Ok(list),
    }
}

/// Everything is checked here, before anything runs or is written.
pub fn grid(
    mut experiment: Experiment,
    configs: &[String],
    common: &Common,
    chosen_world: &Chosen,
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
    let mut drives: Vec<DriveFile> = chosen_world.drive.iter().cloned().collect();
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
    with_faults(&mut drives, &experiment, common, chosen_world.drive.is_some())?;
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
    grid.command = command(&grid, common, chosen_world.drive.is_none(), source);
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
fn command(grid: &Grid, common: &Common, drives_named: bool, source: &Source<'_>) -> String {
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
    text.push_str(&world::flags(common));
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

/// Runs the grids one after another, writes a run directory for each, and prints.
/// `more`: what else is said of a run, between its tables and the place of its report.
pub fn carry_out(
    grids: Vec<Grid>,
    common: &Common,
    chosen: &Chosen,
    more: &dyn Fn(&Run) -> String,
) -> Result<(), Failure> {
    let world = &*chosen.world;
    let mut grids = grids;
    if common.dry_run {
        for grid in &mut grids {
            world::leave_out(world, grid)?;
        }
        let previews = grids.iter().map(|grid| preview(grid, world));
        let previews: Result<Vec<String>, Failure> = previews.collect();
        return print(&previews?.join("\n"));
    }
    let baseline = Baseline::read(common, &grids)?;
    let (runs, dirs) = run_all(&mut grids, common, chosen)?;
    let runs: Vec<(&Run, &Path)> = runs.iter().zip(dirs.iter().map(PathBuf::as_path)).collect();
    let judge = |baseline: Baseline| {
        let threads = threads(common.jobs);
        let each = grids.iter_mut().zip(&runs);
        let each = each.map(|(grid, (run, _))| baseline::unchosen(grid, run, threads));
        let unchosen = each.collect::<Result<Vec<_>, Failure>>()?;
        Ok::<_, Failure>(baseline.judge(&runs, &unchosen, common.wide))
    };
    let judgement = baseline.map(judge).transpose()?;
    let verdict = match &judgement {
        Some(judgement) if !judgement.holds => Err(Failure::No),
        _ => Ok(()),
    };
    let overview = match runs.len() {
        1 => None,
        _ => Some(write_overview(&runs, &grids, common)?),
    };
    if common.csv || common.json {
        print(&if common.csv { all_csv(&runs) } else { all_json(&runs) })?;
        runs.iter().try_for_each(|(run, dir)| note(run, dir))?;
        if let Some(path) = overview {
            eprintln!("overview: {}", path.display());
        }
        if let Some(judgement) = judgement {
            eprint!("{}", judgement.text);
        }
        return verdict;
    }
    let mut out = String::new();
    for (run, dir) in &runs {
        out.push_str(&results(run, limit(common.wide)));
        out.push_str(&more(run));
        let m = &run.manifest;
        let _ = write!(
            out,
            "\nreport: {}\nseed:   {} (repetitions use {} to {})\n",
            dir.join("report.html").display(),
            m.seed,
            m.seed,
            m.seed + u64::from(m.reps) - 1
        );
        for (name, value) in &m.machine {
            let _ = writeln!(out, "{name}: {value}");
        }
        if runs.len() > 1 {
            out.push('\n');
        }
    }
    if let Some(path) = overview {
        let _ = writeln!(out, "overview of all: {}", path.display());
    }
    if let Some(judgement) = judgement {
        let _ = write!(out, "\n{}", judgement.text);
    }
    print(&out)?;
    verdict
}

/// Runs the grids one after another and writes a run directory for each.
pub fn run_all(
    grids: &mut [Grid],
    common: &Common,
    chosen: &Chosen,
) -> Result<(Vec<Run>, Vec<PathBuf>), Failure> {
    let mut kept = Vec::new();
    let done = run_keeping(grids, common, chosen, &mut kept)?;
    forget(&kept)?;
    Ok(done)
}

/// Whoever has nothing left to run forgets the finished runs of all that it ran: until then the same command goes on
/// from any of them.
pub fn forget(kept: &[Kept]) -> Result<(), Failure> {
    let forgotten = kept.iter().try_for_each(Kept::remove);
    forgotten.map_err(directory_failure)
}

/// Runs the grids; their finished runs stay, for [`forget`].
pub fn run_keeping(
    grids: &mut [Grid],
    common: &Common,
    chosen: &Chosen,
    all_kept: &mut Vec<Kept>,
) -> Result<(Vec<Run>, Vec<PathBuf>), Failure> {
    let world = &*chosen.world;
    let left_out = grids.iter_mut().map(|grid| world::leave_out(world, grid));
    let left_out: Vec<_> = left_out.collect::<Result<_, Failure>>()?;
    let dirs = directories(grids, common, world)?;
    let threads = threads(common.jobs);
    let stop = stop_flag()?;
    let mut runs = Vec::new();
    // Before the first of them runs.
    let kept = grids.iter().zip(&dirs).map(|(grid, dir)| kept_runs(grid, world, dir, common));
    let kept: Vec<Kept> = kept.collect::<Result<_, Failure>>()?;
    let each = grids.iter().zip(&dirs).zip(left_out).zip(kept);
    for (((grid, dir), left_out), kept) in each {
        let mut run = execute(grid, world, threads, common, &stop, &kept)?;
        run.manifest.machine.extend(left_out);
        if let (Some(out), true) = (&common.out, grids.len() > 1) {
            Folder::open("--out", out, is_ours)?;
        }
        run.write(dir, &html::render(&run)).map_err(directory_failure)?;
        all_kept.push(kept);
        runs.push(run);
    }
    if let Some(cost) = world.cost().filter(|_| !common.quiet) {
        eprintln!("{cost}");
    }
    Ok((runs, dirs))
}

/// What keeps a run directory from being written.
pub fn directory_failure(error: DirectoryError) -> Failure {
    match error {
        DirectoryError::Io { .. } => {
            Failure::Environment(format!("{error}; choose a writable place with --out"))
        }
        DirectoryError::InTheWay(_) => Failure::Usage(error.to_string()),
        error => Failure::Failed(error.to_string()),
    }
}

/// Whether a folder is one for the run directories of several experiments.
pub fn is_ours(dir: &Dir) -> bool {
    dir.holds(OVERVIEW, Kind::Marked) || holds_runs(dir, false)
}

/// The page over several runs.
const OVERVIEW: &str = "overview.html";

/// So many as wanted, or one per core.
pub fn threads(jobs: Option<u16>) -> usize {
    match jobs {
        Some(n) => usize::from(n),
        None => std::thread::available_parallelism().map_or(1, |n| n.get()),
    }
}

/// Where each grid's results go; all is checked that can be before the first one runs.
fn directories(
    grids: &[Grid],
    common: &Common,
    world: &dyn World,
) -> Result<Vec<PathBuf>, Failure> {
    let mut dirs = Vec::new();
    if let (Some(out), true) = (&common.out, grids.len() > 1) {
        output::check_folder("--out", Some(out), is_ours)?;
    }
    for grid in grids {
        world::check(world, grid)?;
        let dir = match (&common.out, grids.len()) {
            (Some(out), 1) => out.clone(),
            (Some(out), _) => out.join(&grid.experiment.id),
            (None, _) => {
                let (id, digest) = (&grid.experiment.id, grid.digest());
                // Two kernels of one name would share a folder.
                let world = common.world().replace(':', "-");
                PathBuf::from("runs").join(format!("{id}.{world}.{digest}"))
            }
        };
        Run::may_write(&dir).map_err(directory_failure)?;
        baseline::keep(common, &dir)?;
        dirs.push(dir);
    }
    Ok(dirs)
}

/// One page over several runs, in the folder they have in common.
fn write_overview(
    runs: &[(&Run, &Path)],
    grids: &[Grid],
    common: &Common,
) -> Result<PathBuf, Failure> {
    let folder = common.out.clone().unwrap_or_else(|| PathBuf::from("runs"));
    let name = match &common.out {
        Some(_) => OVERVIEW.to_string(),
        None => {
            let digests: Vec<String> = grids.iter().map(Grid::digest).collect();
            format!("overview.{}.html", digests.join("-"))
        }
    };
    let linked: Vec<(&Run, String)> = runs
        .iter()
        .map(|(run, dir)| {
            let name = dir.file_name().map_or_else(String::new, |n| n.to_string_lossy().into());
            (*run, format!("{name}/report.html"))
        })
        .collect();
    let path = folder.join(name);
    output::write("--out", &path, &overview::render(&linked), Kind::Marked)?;
    Ok(path)
}

/// Where the report is and which seed was used, beside data on stdout.
pub fn note(run: &Run, dir: &Path) -> Result<(), Failure> {
    eprintln!("report: {}\nseed:   {}", dir.join("report.html").display(), run.manifest.seed);
    Ok(())
}

/// The finished runs that an interrupted run of the same command has left; reports them.
fn kept_runs(grid: &Grid, world: &dyn World, dir: &Path, common: &Common) -> Result<Kept, Failure> {
    let opened = Kept::open(dir, &grid.key(world, &program()), common.fresh);
    let (kept, found) = opened.map_err(directory_failure)?;
    match found {
        Found::Nothing => {}
        Found::Ours => eprintln!(
            "{}: reusing {} of {} runs from an interrupted run; --fresh runs them again",
            grid.experiment.id,
            kept.count(),
            grid.len()
        ),
        Found::Others => eprintln!(
            "{}: the finished runs there are of another command or build and are not reused",
            kept.folder().display()
        ),
    }
    Ok(kept)
}

/// Names this build: version, size and time of the program file.
pub fn program() -> String {
    let file = std::env::current_exe().and_then(std::fs::metadata).ok();
    let built = file.as_ref().and_then(|f| f.modified().ok());
    let since = built.and_then(|t| t.duration_since(std::time::UNIX_EPOCH).ok());
    let size = file.map_or(0, |f| f.len());
    format!("{} {size} {}", env!("CARGO_PKG_VERSION"), since.map_or(0, |t| t.as_nanos()))
}

fn execute(
    grid: &Grid,
    world: &dyn World,
    threads: usize,
    common: &Common,
    stop: &AtomicBool,
    kept: &Kept,
) -> Result<Run, Failure> {
    let visible = !common.quiet && std::io::stderr().is_terminal();
    let bar = match visible {
        true => indicatif::ProgressBar::new(grid.len() as u64),
        false => indicatif::ProgressBar::hidden(),
    };
    let template = match (world.alone(), world.even()) {
        (true, _) => REAL_TIME,
        (_, true) => "{msg} runs [{bar:40}] {eta} left",
        _ => "{pos}/{len} runs [{bar:40}] {eta} left",
    };
    let style = indicatif::ProgressStyle::with_template(template)
        .expect("the templates are fixed and valid");
    bar.set_style(style.progress_chars("=> "));
    let progress = |p: Progress| {
        if world.even() {
            bar.set_length(p.whole.0);
            bar.set_position(p.passed.0);
            return bar.set_message(format!("{}/{}", p.done, p.total));
        }
        if !world.alone() {
            return bar.set_position(p.done as u64);
        }
        // The time that is left is known.
        let left = p.whole.0.saturating_sub(p.passed.0).div_ceil(1_000_000_000);
        bar.set_length(p.whole.as_ms());
        bar.set_position(p.passed.as_ms());
        bar.set_message(format!("{}/{} runs, {left} s left", p.done, p.total));
    };
    let run = grid.run_kept(world, threads, stop, &progress, Some(kept));
    bar.finish_and_clear();
    run.map_err(run_failure)
}

/// Progress bar of worlds in real time.
const REAL_TIME: &str = "[{bar:40}] {msg}";

/// Set by Ctrl-C, SIGTERM and SIGHUP from the first call on; the same for all callers. Whoever changes the machine asks
/// for it before the first change: without it a signal ends the program on the spot, and nothing is put back.
pub fn stop_flag() -> Result<Arc<AtomicBool>, Failure> {
    static STOP: OnceLock<Arc<AtomicBool>> = OnceLock::new();
    if let Some(stop) = STOP.get() {
        return Ok(Arc::clone(stop));
    }
    let stop = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&stop);
    ctrlc::set_handler(move || flag.store(true, Ordering::Relaxed))
        .map_err(|e| Failure::Environment(format!("Ctrl-C cannot be caught: {e}")))?;
    Ok(Arc::clone(STOP.get_or_init(|| stop)))
}

/// A job that cannot run was asked for in a wrong way.
pub fn run_failure(error: RunError) -> Failure {
    match error {
        RunError::Interrupted { .. } => Failure::Interrupted(error.to_string()),
        RunError::Keep { what } => {
            Failure::Environment(format!("{what}; choose a writable place with --out"))
        }
        RunError::InTheWay { what } => Failure::Usage(what),
        RunError::Job { error: JobError::Storage { .. }, .. } | RunError::Broken { .. } => {
            Failure::Failed(error.to_string())
        }
        error => Failure::Usage(error.to_string()),
    }
}

/// Who has an I/O class or level: `target rt/4, reader0 to reader14 be/7`.
fn classes_of(procs: &[ProcSpec]) -> Option<String> {
    let set = |p: &&ProcSpec| p.prio != IoPrio::NONE;
    let mut runs: Vec<(&ProcSpec, &ProcSpec)> = Vec::new();
    for (i, proc) in procs.iter().enumerate().filter(|(_, p)| set(p)) {
        match runs.last_mut() {
            Some((_, last))
                if i > 0 && last.name == procs[i - 1].name && last.prio == proc.prio =>
            {
                *last = proc;
            }
            _ => runs.push((proc, proc)),
        }
    }
    let text = |(first, last): &(&ProcSpec, &ProcSpec)| match first.name == last.name {
        true => format!("{} {}", first.name, first.prio),
        false => format!("{} to {} {}", first.name, last.name, first.prio),
    };
    let texts: Vec<String> = runs.iter().map(text).collect();
    (!texts.is_empty()).then(|| texts.join(", "))
}

pub fn preview(grid: &Grid, world: &dyn World) -> Result<String, Failure> {
    let mut out = format!("{}\n{}\n\n", grid.experiment.title, grid.command);
    let mut table = Table::new(&["drive/config/workload", "processes", "ramp", "measured"], 1);
    let mut classes: Vec<(String, String)> = Vec::new();
    for (cell, job) in grid.preview().map_err(run_failure)? {
        if let Some(text) = classes_of(&job.procs) {
            classes.push((cell.clone(), text));
        }
        let seconds = |ns: u64| format!("{} s", number_text(ns as f64 / 1e9));
        let processes = job.procs.len().to_string();
        let window = job.window;
        table.row(vec![cell, processes, seconds(window.ramp.0), seconds(window.measured.0)]);
    }
    out.push_str(&table.render());
    if !classes.is_empty() {
        out.push_str("\nI/O classes:\n");
        let mut table = Table::new(&["drive/config/workload", "processes"], 2);
        for (cell, text) in classes {
            table.row(vec![cell, text]);
        }
        out.push_str(&table.render());
    }
    if world.alone() {
        let whole = grid.whole().map_err(run_failure)?.0.div_ceil(1_000_000_000);
        let _ = write!(
            out,
            "\n{whole} s in real time, one run after another; the target's last I/O may add up to the \
             grace of each"
        );
    }
    let _ = writeln!(
        out,
        "\n{} runs: {} of each, seeds {} to {}; nothing was run or written",
        grid.len(),
        crate::results::repetitions(grid.reps),
        grid.seed,
        grid.seed + u64::from(grid.reps) - 1
    );
    Ok(out)
}
