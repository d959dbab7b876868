//! `--job` and `--fio`: fio jobs in place of experiments, and their results per job or as fio prints them.

use crate::common::baseline;
use crate::common::grid::{Source, grid, plan};
use crate::common::modules::Modules;
use crate::common::options::{Common, JobArgs};
use crate::common::output::{self, print};
use crate::common::runs::{carry_out, note, run_all};
use crate::common::table::Table;
use crate::common::worlds::choose;
use crate::failure::Failure;
use hoistway::Sectors;
use hoistway_files::{Dir, Kind};
use hoistway_fio::{JobFile, Machine, Weight};
use hoistway_lab::experiment::Experiment;
use hoistway_lab::report::fio_json::{self, Info, JobInfo};
use hoistway_lab::result::{Cell, Run, number_text};
use hoistway_lab::run::Grid;
use hoistway_lab::words::shell_quoted;
use hoistway_run::{Histogram, JobError};
use hoistway_sim::world::build;
use std::collections::BTreeMap;
use std::path::Path;

/// fio jobs, and the experiment that they are.
#[derive(Debug)]
pub struct Jobs {
    pub experiment: Experiment,
    /// The flags that name them again.
    pub flags: String,
    /// What they come from, for messages.
    title: String,
    file: JobFile,
    /// Number of the job by the name of its processes, which are numbered if there are several.
    procs: BTreeMap<String, usize>,
}

/// Processes that have a row each.
const APART: usize = 64;

/// Jobs that a message names.
const NAMED: usize = 5;

impl Jobs {
    /// The jobs that the command names, if it does; what of them is not carried out is said on stderr.
    pub fn load(args: &JobArgs) -> Result<Option<Jobs>, Failure> {
        let usage = |e: &dyn std::fmt::Display| Failure::Usage(e.to_string());
        let (file, label, title) = match (&args.job, &args.fio) {
            (Some(path), _) => {
                let name = path.file_name().map(|n| n.to_string_lossy().into_owned());
                let file = hoistway_fio::read(path, &mut Machine).map_err(|e| usage(&e))?;
                (file, path.display().to_string(), name.unwrap_or_default())
            }
            (None, Some(words)) => {
                let file = hoistway_fio::command_line(words, &mut Machine);
                (file.map_err(|e| usage(&e))?, "fio".into(), "a command line".into())
            }
            (None, None) => return Ok(None),
        };
        let made = hoistway_fio::experiment(&file, &title, args.target.as_deref());
        let made = made.map_err(|e| usage(&e))?;
        tell(&file, &made.notes);
        let unsupported = file.notes.iter().filter(|n| n.weight == Weight::Unsupported);
        let unsupported = unsupported.count() + made.notes.len();
        if args.strict && unsupported > 0 {
            return Err(Failure::Usage(format!(
                "{label}: {unsupported} settings are not supported (above), and --strict refuses that; remove \
                 them, or leave --strict out"
            )));
        }
        let experiment = Experiment::parse(&label, &made.text).map_err(|e| usage(&e))?;
        let procs = made.procs.into_iter().collect();
        Ok(Some(Jobs { experiment, flags: flags(args), title, file, procs }))
    }

    /// Builds the load of every job on every drive, so that what a job cannot do there is known with its line before
    /// anything runs.
    pub fn check(&self, grid: &Grid) -> Result<(), Failure> {
        let Some(config) = grid.configs.first() else { return Ok(()) };
        for drive in &grid.drives {
            for name in &grid.workloads {
                let Some(workload) = grid.experiment.workload(name) else { continue };
                let job = grid.experiment.job(drive, workload, config, grid.seed, &grid.options);
                let built = job.and_then(|job| build(&job, MAX_REQUEST).map(|_| ()));
                built.map_err(|error| self.failure(&drive.id, error))?;
            }
        }
        Ok(())
    }

    fn failure(&self, drive: &str, error: JobError) -> Failure {
        let JobError::Parameter { of, message } = &error else {
            return Failure::Usage(format!("{} on {drive}: {error}", self.title));
        };
        match self.number(of) {
            Some(i) => {
                let job = &self.file.jobs[i];
                Failure::Usage(format!("{}: job '{}' on {drive}: {message}", job.place, job.name))
            }
            None => Failure::Usage(format!("{} on {drive}: {error}", self.title)),
        }
    }

    /// The job of a process.
    fn number(&self, proc: &str) -> Option<usize> {
        let base = proc.trim_end_matches(|c: char| c.is_ascii_digit());
        self.procs.get(proc).or_else(|| self.procs.get(base)).copied()
    }

    /// How the job of a process is called.
    fn label(&self, proc: &str) -> String {
        match self.number(proc) {
            Some(i) if proc == "target" => format!("{} (target)", self.file.jobs[i].name),
            _ => proc.into(),
        }
    }

    /// The rows of a cell: names, and the processes that each is of. Those of a job stand together where there are many.
    fn rows(&self, cell: &Cell) -> Vec<(String, Vec<usize>)> {
        let names = cell.reps.first().map_or(&[][..], |r| &r.procs[..]).iter().map(|p| &p.name);
        let each = || names.clone().enumerate().map(|(i, name)| (self.label(name), vec![i]));
        if names.len() <= APART {
            return each().collect();
        }
        let mut jobs: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (i, name) in names.clone().enumerate() {
            jobs.entry(self.number(name).unwrap_or(usize::MAX)).or_default().push(i);
        }
        let row = |(job, procs): (usize, Vec<usize>)| match (procs.len(), self.file.jobs.get(job)) {
            (n, Some(job)) if n > 1 => (format!("{} x {n}", job.name), procs),
            _ => (names.clone().nth(procs[0]).map_or_else(String::new, |n| self.label(n)), procs),
        };
        jobs.into_iter().map(row).collect()
    }

    /// Says which jobs have no result, since nothing of them was measured.
    pub fn tell_unmeasured(&self, run: &Run) {
        for cell in &run.cells {
            let Some(rep) = cell.reps.first() else { continue };
            let none: Vec<&str> =
                rep.procs.iter().filter(|p| p.ios == 0).map(|p| p.name.as_str()).collect();
            if none.is_empty() {
                continue;
            }
            let shown = none.iter().take(NAMED).copied().collect::<Vec<_>>().join(", ");
            let more = match none.len() {
                n if n > NAMED => format!(" and {} more", n - NAMED),
                _ => String::new(),
            };
            let (ramp, end) = (self.experiment.window.ramp, rep.measured);
            let seconds = |ns: u64| number_text((ns as f64 / 1e6).round() / 1e3);
            eprintln!(
                "warning: {} {}: {shown}{more}: nothing was measured. Measuring begins {} s after the start \
                 (ramp_time) and ended {} s later: the job was over before, or had not begun",
                cell.drive,
                cell.config,
                seconds(ramp.0),
                seconds(end.0),
            );
        }
    }

    /// What fio's JSON says of each job beside its results.
    fn info(&self) -> Info {
        let job = |(proc, &i): (&String, &usize)| {
            let job = &self.file.jobs[i];
            let (name, group) = (job.name.clone(), job.group);
            (proc.clone(), JobInfo { name, group, options: job.options[0].clone() })
        };
        let global = self.file.jobs.last().map(|job| job.options[1].clone());
        Info { jobs: self.procs.iter().map(job).collect(), global: global.unwrap_or_default() }
    }

    /// The documents of a run in its directory, one per drive, configuration and repetition; a single one is
    /// printed, of several the paths are.
    pub fn print_documents(&self, run: &Run, dir: &Path) -> Result<(), Failure> {
        let info = self.info();
        // A simulator's results are the same bytes every time; others have a date.
        let time = if run.manifest.world == "sim" { 0 } else { today() };
        // Of the run directory, which was written just now.
        let folder = dir.join("fio");
        let failed = |e| output::failure("--out", e);
        let documents = Dir::make_all(&folder).map_err(failed)?;
        let (mut only, mut paths) = (None, String::new());
        for cell in &run.cells {
            for (i, rep) in cell.reps.iter().enumerate() {
                let document = fio_json::document(run, cell, rep, &info, time);
                let text = format!("{document:#}\n");
                let clean =
                    |c: char| if c.is_ascii_alphanumeric() || ".-_+".contains(c) { c } else { '_' };
                let name = format!("{}.{}.{}.json", cell.drive, cell.config, i + 1);
                let name: String = name.chars().map(clean).collect();
                let place = documents.place(&name).map_err(failed)?;
                place.replace(text.as_bytes(), Kind::Named).map_err(failed)?;
                paths.push_str(&format!("{}\n", folder.join(name).display()));
                only = Some(text);
            }
        }
        match only {
            Some(text) if paths.lines().count() == 1 => print(&text),
            _ => print(&paths),
        }
    }
}

/// Runs the jobs of a file, or of a command line.
pub fn of_jobs(
    jobs: Jobs,
    configs: &[String],
    verb: &str,
    args: &JobArgs,
    common: &Common,
    modules: &Modules,
) -> Result<(), Failure> {
    let chosen = choose(common)?;
    let source = Source { verb, name: &jobs.flags };
    let plan = modules.beside(plan(jobs.experiment.clone(), configs, common, &chosen, &source));
    let mut grid = grid(&plan)?;
    jobs.check(&grid)?;
    if args.as_fio() && common.reps.is_none() {
        // One document is one run.
        grid.reps = 1;
        grid.command = plan.command(&grid);
    }
    if !args.as_fio() {
        let more = |run: &Run| {
            jobs.tell_unmeasured(run);
            format!("\n{}", table(run, &jobs))
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

/// Largest request of a block layer that is only built.
const MAX_REQUEST: Sectors = Sectors(1024);

fn tell(file: &JobFile, more: &[String]) {
    for note in &file.notes {
        let word = match note.weight {
            Weight::Ignored => "note",
            Weight::Unsupported => "warning",
        };
        eprintln!("{word}: {note}");
    }
    more.iter().for_each(|what| eprintln!("warning: {what}"));
}

/// The flags that name the jobs again.
fn flags(args: &JobArgs) -> String {
    let mut text = match (&args.job, &args.fio) {
        (Some(path), _) => format!("--job {}", shell_quoted(&path.display().to_string())),
        (None, words) => format!("--fio {}", shell_quoted(words.as_deref().unwrap_or_default())),
    };
    if let Some(target) = &args.target {
        text.push_str(&format!(" --target {}", shell_quoted(target)));
    }
    text
}

/// A line per configuration, job and direction; `jobs`: the names of jobs, the target's too.
fn table(run: &Run, jobs: &Jobs) -> String {
    let several =
        |of: &dyn Fn(&Cell) -> &String| run.cells.iter().any(|c| of(c) != of(&run.cells[0]));
    let drives = several(&|c| &c.drive);
    let mut heads =
        vec!["config", "job", "calls", "IOPS", "MB/s", "mean ms", "p50", "p99", "p99.9", "max"];
    if drives {
        heads.insert(0, "drive");
    }
    let mut table = Table::new(&heads, if drives { 4 } else { 3 });
    for cell in &run.cells {
        for (label, procs) in jobs.rows(cell) {
            for kind in ["read", "write"] {
                let Some(figures) = figures(cell, &procs, kind) else { continue };
                let mut row = vec![cell.config.clone(), label.clone(), kind.to_string()];
                if drives {
                    row.insert(0, cell.drive.clone());
                }
                row.extend(figures);
                table.row(row);
            }
        }
    }
    format!("jobs, each over the time from its first call to its last\n\n{}", table.render())
}

/// Of these processes over all repetitions: calls per second and MB/s of all, mean and percentiles of the latency in ms.
fn figures(cell: &Cell, procs: &[usize], phase: &str) -> Option<Vec<String>> {
    let (mut latency, mut iops, mut rate) = (Histogram::new(), 0.0, 0.0);
    for &i in procs {
        let (mut seconds, mut bytes, mut ios) = (0.0, 0u64, 0u64);
        for rep in &cell.reps {
            let proc = rep.procs.get(i)?;
            let Some(phase) = proc.phases.iter().find(|p| p.name == phase && p.ios > 0) else {
                continue;
            };
            latency.merge(&phase.latency);
            let begin = phase.begin.unwrap_or_default();
            seconds += phase.end.unwrap_or(rep.measured).0.saturating_sub(begin.0) as f64 / 1e9;
            bytes += phase.bytes;
            ios += phase.ios;
        }
        if seconds > 0.0 {
            (iops, rate) = (iops + ios as f64 / seconds, rate + bytes as f64 / seconds);
        }
    }
    let ms = |ns: f64| number_text((ns / 1e3).round() / 1e3);
    let rank = |n, of| latency.quantile(n, of).map_or_else(String::new, |ns| ms(ns as f64));
    (iops > 0.0).then(|| {
        vec![
            number_text(iops.round()),
            number_text((rate / 1e4).round() / 1e2),
            latency.mean().map_or_else(String::new, ms),
            rank(1, 2),
            rank(99, 100),
            rank(999, 1000),
            latency.max().map_or_else(String::new, |ns| ms(ns as f64)),
        ]
    })
}

/// Seconds since 1970.
#[expect(
    clippy::disallowed_methods,
    reason = "the date of a run in real time, in its document only"
)]
fn today() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |t| t.as_secs())
}
