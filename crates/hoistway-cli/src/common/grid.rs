//! What runs: an experiment with what the command line changes about it.

use crate::common::options::Common;
use crate::common::worlds::{self, Chosen};
use crate::failure::Failure;
use hoistway_lab::experiment::Experiment;
use hoistway_lab::grid::Plan;
use hoistway_lab::run::Grid;

/// What the command began with.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// `compare` or `run`.
    pub verb: &'a str,
    /// The experiment as it was named.
    pub name: &'a str,
}

#[cfg(all(feature = "live", target_os = "linux"))]
pub fn load(name: &str) -> Result<Experiment, Failure> {
    Experiment::load(name).map_err(|e| Failure::Usage(e.to_string()))
}

/// What the options say of an experiment.
pub fn plan(
    experiment: Experiment,
    configs: &[String],
    common: &Common,
    chosen: &Chosen,
    source: &Source<'_>,
) -> Plan {
    Plan::of(experiment)
        .named(source.verb, source.name)
        .configs(configs)
        .drives(&common.drive)
        .workloads(&common.workload)
        .faults(&common.faults)
        .reps(common.reps)
        .seed(common.seed)
        .duration(common.duration.as_deref())
        .quick(common.quick)
        .wbt(common.wbt)
        .groups(common.groups.clone())
        .world(worlds::flags(common), chosen.drive.clone())
}

/// Everything is checked here, before anything runs or is written.
pub fn grid(plan: &Plan) -> Result<Grid, Failure> {
    let grid = plan.grid(&mut |warning| eprintln!("warning: {warning}"));
    grid.map_err(|e| Failure::Usage(e.to_string()))
}
