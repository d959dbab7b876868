//! `hoistway run`: one configuration.

mod explain;
mod timeline;

use crate::common::baseline;
use crate::common::grid::{Source, grid, plan};
use crate::common::jobs::{Jobs, of_jobs};
use crate::common::known::{Known, configs, experiments};
use crate::common::modules::{Modules, simulator_only};
use crate::common::options::{Common, JobArgs};
use crate::common::output;
use crate::common::runs::carry_out;
use crate::common::worlds::{Chosen, choose};
use crate::failure::Failure;
use clap::Args as ClapArgs;
use hoistway_lab::grid::only;
use hoistway_lab::replay::SavingSim;
use hoistway_lab::replay::saved::OURS;
use hoistway_lab::result::Run;
use hoistway_lab::run::Grid;
use hoistway_lab::words::{shell_quoted, shell_word};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// `hoistway run`.
#[derive(Debug, ClapArgs)]
pub struct RunOne {
    /// Experiment: name, or path of an experiment file; left out with --job
    #[arg(required_unless_present = "from_fio")]
    #[arg(value_parser = Known(experiments), hide_possible_values = true)]
    pub experiment: Option<String>,
    #[command(flatten)]
    pub job: JobArgs,
    /// Configuration [default: the experiment's first]
    #[arg(value_parser = Known(configs), hide_possible_values = true)]
    pub config: Option<String>,
    /// Print a timeline of this process instead of tables: its requests, and every scheduling decision about
    /// it with the reason. For one drive, one workload and one repetition; writes no files
    #[arg(long, value_name = "PROCESS")]
    #[arg(conflicts_with_all = ["csv", "json", "dry_run", "out"])]
    pub explain: Option<String>,
    /// Longest timeline to print, in lines [default: 200]
    #[arg(long, value_name = "N", requires = "explain", hide_short_help = true)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub limit: Option<u32>,
    /// Write every step of the run into this file, a trace in the binary format of blktrace, which `hoistway replay`
    /// repeats to the nanosecond. For one drive, one workload and one repetition
    #[arg(long, value_name = "FILE", conflicts_with_all = ["explain", "dry_run"])]
    #[arg(hide_short_help = true)]
    pub save_trace: Option<PathBuf>,
    /// Write a timeline of the run into this file: JSON for https://ui.perfetto.dev and chrome://tracing. A slice for each
    /// request in the scheduler and at the drive, with the reason; the scheduler's decisions. For one drive, one workload
    /// and one repetition; prints no tables
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    #[arg(conflicts_with_all = ["explain", "save_trace", "csv", "json", "dry_run", "out", "wide"])]
    pub timeline: Option<PathBuf>,
    #[command(flatten)]
    pub common: Common,
}

pub fn run_one(options: &RunOne) -> Result<(), Failure> {
    simulator_only(&options.common)?;
    let modules = Modules::load(&options.common)?;
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
            (modules.experiment(&name)?, shell_word(&name), options.config.clone())
        }
    };
    let config = modules.only(config)?;
    let config = only(config.as_deref(), &experiment);
    let config = config.map_err(|e| Failure::Usage(e.to_string()))?;
    let traced = options.explain.is_some() || options.timeline.is_some();
    let jobs = match (jobs, &options.save_trace) {
        (Some(jobs), None) if !traced => {
            return of_jobs(jobs, &[config], "run", &options.job, &options.common, &modules);
        }
        (jobs, ..) => jobs,
    };
    if traced {
        refuse_traced(options)?;
    }
    let chosen = choose(&options.common)?;
    let source = Source { verb: "run", name: &name };
    let check = |grid: &Grid| jobs.as_ref().map_or(Ok(()), |jobs| jobs.check(grid));
    if traced {
        let flag = traced_by(options);
        let plan = plan(experiment, &[config], &options.common, &chosen, &source);
        let plan = modules.beside(plan);
        let grid = explain::grid_of(&plan, &options.common, flag)?;
        check(&grid)?;
        return match (&options.explain, &options.timeline) {
            (Some(process), _) => explain::explain(&grid, &*chosen.world, process, options.limit),
            (None, path) => timeline::timeline(&grid, &*chosen.world, path.as_deref()),
        };
    }
    let plan = plan(experiment, &[config], &options.common, &chosen, &source);
    let mut grid = grid(&modules.beside(plan))?;
    check(&grid)?;
    let nothing = |_: &Run| String::new();
    if let Some(path) = &options.save_trace {
        let chosen = saving(&mut grid, &options.common, path)?;
        return carry_out(vec![grid], &options.common, &chosen, &nothing);
    }
    carry_out(vec![grid], &options.common, &chosen, &nothing)
}

/// The option that shows one run step by step.
fn traced_by(options: &RunOne) -> &'static str {
    if options.explain.is_some() { "--explain" } else { "--timeline" }
}

/// Before anything is looked for that a refused run does not need, such as a kernel.
fn refuse_traced(options: &RunOne) -> Result<(), Failure> {
    let flag = traced_by(options);
    baseline::refuse(&options.common, flag)?;
    if ["sim", "engine"].contains(&options.common.world().as_str()) {
        return Ok(());
    }
    let what = "the kernel's schedulers do not tell what they decide; use --on sim or engine";
    Err(Failure::Usage(format!("{flag}: {what}")))
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
    let _ = write!(grid.command, " --save-trace {}", shell_quoted(&path.display().to_string()));
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
