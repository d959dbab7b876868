//! `hoistway compare`: a grid of runs, a table, a run directory.

#[cfg(all(feature = "live", target_os = "linux"))]
mod beside;

use crate::common::grid::{Source, grid, plan};
use crate::common::jobs::{Jobs, of_jobs};
use crate::common::known::{Known, configs, experiments};
use crate::common::lists::chosen;
use crate::common::modules::Modules;
use crate::common::options::{Common, JobArgs};
use crate::common::output::print;
use crate::common::runs::{carry_out, keep_share};
use crate::common::worlds::{Chosen, choose};
use crate::failure::Failure;
use clap::Args as ClapArgs;
use hoistway_lab::grid::USUAL;
use hoistway_lab::run::{Grid, Share};
use hoistway_lab::words::{counted, shell_word};

/// `hoistway compare`.
#[derive(Debug, ClapArgs)]
pub struct Compare {
    /// Experiments: names or paths of experiment files, separated by commas, such as
    /// latency-2019,bandwidth-2019 [default: latency-2019]
    #[arg(value_parser = Known(experiments), hide_possible_values = true)]
    pub experiment: Option<String>,
    #[command(flatten)]
    pub job: JobArgs,
    /// Configurations, such as none-bfq,mq-deadline{fifo_batch=8}; `hoistway list configs` lists them
    #[arg(long, short, value_name = "LIST")]
    #[arg(value_parser = Known(configs), hide_possible_values = true)]
    pub config: Vec<String>,
    #[command(flatten)]
    pub common: Common,
    /// Run part K of N only and keep its runs beside the place of the run directory; prints the folder. `hoistway merge`
    /// puts the parts together, wherever they ran
    #[arg(long, value_name = "K/N", hide_short_help = true)]
    #[arg(conflicts_with_all = ["dry_run", "csv", "json", "baseline", "wide", "from_fio"])]
    pub shard: Option<Share>,
}

pub fn compare(options: &Compare) -> Result<(), Failure> {
    let worlds = chosen(&options.common.on, &options.common.worlds(), "world")?;
    if worlds.len() > 1 {
        if options.shard.is_some() {
            return Err(Failure::Usage(
                "--shard parts the runs of one world; give --on one".into(),
            ));
        }
        return beside_each_other(options, &worlds);
    }
    if let (Some(flag), Some(name)) = (options.job.flag(), &options.experiment) {
        let what = format!("{flag} is in place of an experiment; leave '{name}' or {flag} out");
        return Err(Failure::Usage(what));
    }
    if let Some(jobs) = Jobs::load(&options.job)? {
        let modules = Modules::load(&options.common)?;
        return of_jobs(jobs, &options.config, "compare", &options.job, &options.common, &modules);
    }
    let named = options.experiment.clone().unwrap_or_else(|| USUAL.into());
    let names = chosen(&[named], &[], "experiment")?;
    if names.len() > 1 && !options.common.workload.is_empty() {
        let what = "--workload names workloads of one experiment; compare one at a time with it";
        return Err(Failure::Usage(what.into()));
    }
    let chosen = choose(&options.common)?;
    let mut grids = grids(options, &names, &chosen)?;
    match options.shard {
        None => carry_out(grids, &options.common, &chosen, &|_| String::new()),
        Some(share) => match (grids.pop(), grids.is_empty()) {
            (Some(grid), true) => keep(grid, share, options, &chosen),
            _ => Err(Failure::Usage("--shard parts the runs of one experiment; name one".into())),
        },
    }
}

#[cfg(all(feature = "live", target_os = "linux"))]
fn beside_each_other(options: &Compare, worlds: &[String]) -> Result<(), Failure> {
    beside::compare(options, worlds)
}

#[cfg(not(all(feature = "live", target_os = "linux")))]
fn beside_each_other(_: &Compare, worlds: &[String]) -> Result<(), Failure> {
    Err(Failure::Usage(format!(
        "--on {}: this program has the simulator alone; build it on Linux with the feature `live` \
         (cargo build --release -p hoistway-cli)",
        worlds.join(",")
    )))
}

/// The grid of each experiment.
fn grids(options: &Compare, names: &[String], chosen: &Chosen) -> Result<Vec<Grid>, Failure> {
    let nothing = options.experiment.is_none() && options.config.is_empty();
    let first = nothing && options.common.world() == "sim";
    let modules = Modules::load(&options.common)?;
    let mut grids = Vec::new();
    for name in names {
        let source = Source { verb: "compare", name: &shell_word(name) };
        let experiment = modules.experiment(name)?;
        let plan = plan(experiment, &options.config, &options.common, chosen, &source);
        let plan = modules.beside(plan);
        grids.push(grid(&if first { plan.first_look() } else { plan })?);
    }
    Ok(grids)
}

/// What a command asks for that names one experiment, in the simulator.
pub fn one_grid(options: &Compare, chosen: &Chosen) -> Result<Grid, Failure> {
    let named = options.experiment.clone().unwrap_or_else(|| USUAL.into());
    let mut grids = grids(options, &[named], chosen)?;
    Ok(grids.remove(0))
}

/// Runs a part and says where it is.
fn keep(grid: Grid, share: Share, options: &Compare, chosen: &Chosen) -> Result<(), Failure> {
    if options.common.world() != "sim" {
        let what = "--shard parts the runs of the simulator; what machines measure each by itself, `hoistway merge`                     compares as run directories";
        return Err(Failure::Usage(what.into()));
    }
    let (runs, folder) = keep_share(grid, share, &options.common, chosen)?;
    if runs == 0 {
        eprintln!("part {share}: there are fewer cells than parts, and none for this one");
        return Ok(());
    }
    eprintln!(
        "part {share}: {} kept; `hoistway merge` puts the parts together",
        counted(runs, "run")
    );
    print(&format!("{}\n", folder.display()))
}
