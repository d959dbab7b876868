//! Grids are run, their run directories written, and their tables printed.

use crate::common::baseline::{self, Baseline};
use crate::common::options::Common;
use crate::common::output::{self, Folder, print};
use crate::common::process::{program, stop_flag, threads};
use crate::common::results::{all_csv, all_json, repetitions, results};
use crate::common::table::{Table, limit};
use crate::common::terminal;
use crate::common::worlds::{self, Chosen};
use crate::failure::{Failure, directory_failure, run_failure};
use hoistway::IoPrio;
use hoistway_files::{Dir, Kind};
use hoistway_lab::report::{html, overview};
use hoistway_lab::result::kept::{Found, Kept};
use hoistway_lab::result::{Run, holds_runs, number_text};
use hoistway_lab::run::{Grid, Progress, RunError, Share};
use hoistway_lab::world::World;
use hoistway_run::ProcSpec;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

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
            worlds::leave_out(world, grid)?;
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
    let mut out = tables(&runs, common.wide, more);
    if let Some(path) = overview {
        let _ = writeln!(out, "overview of all: {}", path.display());
    }
    if let Some(judgement) = judgement {
        let _ = write!(out, "\n{}", judgement.text);
    }
    print(&out)?;
    verdict
}

/// The tables of each run, and where its report is.
fn tables(runs: &[(&Run, &Path)], wide: bool, more: &dyn Fn(&Run) -> String) -> String {
    let mut out = String::new();
    for (run, dir) in runs {
        out.push_str(&results(run, limit(wide)));
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
    out
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
    let left_out = grids.iter_mut().map(|grid| worlds::leave_out(world, grid));
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

/// Whether a folder is one for the run directories of several experiments.
fn is_ours(dir: &Dir) -> bool {
    dir.holds(OVERVIEW, Kind::Marked) || holds_runs(dir, false)
}

/// The page over several runs.
const OVERVIEW: &str = "overview.html";

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
        worlds::check(world, grid)?;
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
            "{}: reusing {} of {} runs, which are finished",
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

fn execute(
    grid: &Grid,
    world: &dyn World,
    threads: usize,
    common: &Common,
    stop: &AtomicBool,
    kept: &Kept,
) -> Result<Run, Failure> {
    with_bar(grid.len(), world, common, |progress| {
        grid.run_kept(world, threads, stop, progress, Some(kept))
    })
}

/// A bar over so many runs while they are worked off.
fn with_bar<T>(
    runs: usize,
    world: &dyn World,
    common: &Common,
    work: impl FnOnce(&(dyn Fn(Progress) + Sync)) -> Result<T, RunError>,
) -> Result<T, Failure> {
    let template = match (world.alone(), world.even()) {
        (true, _) => REAL_TIME,
        (_, true) => "{msg} runs [{bar:40}] {eta} left",
        _ => "{pos}/{len} runs [{bar:40}] {eta} left",
    };
    let bar = terminal::bar(common.quiet, runs, template);
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
    let done = work(&progress);
    bar.finish_and_clear();
    done.map_err(run_failure)
}

/// Runs a part of a grid and keeps its runs: how many they are, and where. Nothing is there if they are none.
pub fn keep_share(
    grid: Grid,
    share: Share,
    common: &Common,
    chosen: &Chosen,
) -> Result<(usize, PathBuf), Failure> {
    let (world, mut grids) = (&*chosen.world, [grid]);
    worlds::leave_out(world, &mut grids[0])?;
    let dirs = directories(&grids, common, world)?;
    let (grid, stop, threads) = (&grids[0], stop_flag()?, threads(common.jobs));
    let kept = kept_runs(grid, world, &dirs[0], common)?;
    let runs = grid.runs_of(share).len();
    let work = |progress: &(dyn Fn(Progress) + Sync)| {
        grid.keep_share(world, share, threads, &stop, progress, &kept)
    };
    with_bar(runs, world, common, work)?;
    Ok((runs, kept.folder().to_path_buf()))
}

/// Where the runs of the grid are kept that [`carry_out`] would write, and what is there.
pub fn kept_of(grid: &Grid, common: &Common, chosen: &Chosen) -> Result<Kept, Failure> {
    let dirs = directories(std::slice::from_ref(grid), common, &*chosen.world)?;
    kept_runs(grid, &*chosen.world, &dirs[0], common)
}

/// Progress bar of worlds in real time.
const REAL_TIME: &str = "[{bar:40}] {msg}";

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
    for one in grid.preview() {
        let (cell, job) = one.map_err(run_failure)?;
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
        repetitions(grid.reps),
        grid.seed,
        grid.seed + u64::from(grid.reps) - 1
    );
    Ok(out)
}
