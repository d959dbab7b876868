//! `hoistway compare`: a grid of runs, a table, a run directory.

mod beside;

use crate::common::grid::{Source, grid, load, plan};
use crate::common::jobs::{Jobs, of_jobs};
use crate::common::known::{Known, configs, experiments};
use crate::common::lists::chosen;
use crate::common::options::{Common, JobArgs};
use crate::common::runs::carry_out;
use crate::common::worlds::choose;
use crate::failure::Failure;
use clap::Args as ClapArgs;
use hoistway_lab::grid::USUAL;

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
}

pub fn compare(options: &Compare) -> Result<(), Failure> {
    let worlds = chosen(&options.common.on, &options.common.worlds(), "world")?;
    if worlds.len() > 1 {
        return beside::compare(options, &worlds);
    }
    if let (Some(flag), Some(name)) = (options.job.flag(), &options.experiment) {
        let what = format!("{flag} is in place of an experiment; leave '{name}' or {flag} out");
        return Err(Failure::Usage(what));
    }
    if let Some(jobs) = Jobs::load(&options.job)? {
        return of_jobs(jobs, &options.config, "compare", &options.job, &options.common);
    }
    let named = options.experiment.clone().unwrap_or_else(|| USUAL.into());
    let names = chosen(&[named], &[], "experiment")?;
    if names.len() > 1 && !options.common.workload.is_empty() {
        let what = "--workload names workloads of one experiment; compare one at a time with it";
        return Err(Failure::Usage(what.into()));
    }
    let chosen = choose(&options.common)?;
    let nothing = options.experiment.is_none() && options.config.is_empty();
    let first = nothing && options.common.world() == "sim";
    let mut grids = Vec::new();
    for name in &names {
        let source = Source { verb: "compare", name };
        let plan = plan(load(name)?, &options.config, &options.common, &chosen, &source);
        grids.push(grid(&if first { plan.first_look() } else { plan })?);
    }
    carry_out(grids, &options.common, &chosen, &|_| String::new())
}
