//! The verbs beyond the first result, which is a comparison and its report (feature `studies`).

pub mod bench;
pub mod calibrate;
pub mod describe;
pub mod merge;
pub mod oracle;
pub mod population;
pub mod recommend;
pub mod replay;
pub mod replay_decisions;
pub mod reproduce;
pub mod run;
pub mod what_if;

use crate::failure::Failure;
use clap::Subcommand;

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum Study {
    /// Run an experiment under one configuration, or explain what happened to one process
    Run(Box<run::RunOne>),
    /// Bench every scheduler for a drive within a limit of time: what people feel, what servers need, what it costs
    Bench(bench::Bench),
    /// Recommend a configuration from runs: what it gains and costs, how sure, and the lines to install
    Recommend(recommend::Recommend),
    /// Merge runs of one suite from many machines: a default per class and model of drives
    Merge(merge::Merge),
    /// Measure a drive: a drive file for the simulator, and io.cost's linear model
    Calibrate(calibrate::Calibrate),
    /// Repeat the experiments of the reference documents, published values beside ours
    Reproduce(reproduce::Reproduce),
    /// Judge configurations on random drives under random loads: how much throughput they keep, what a target waits
    Population(population::Population),
    /// Hold configurations against the best fixed setting of the drive and the load, and against the bound of latency
    Oracle(oracle::Oracle),
    /// Find out in the simulator whether latency targets would be kept, and what they cost
    WhatIf(what_if::WhatIf),
    /// Print what the load in a block trace is made of: mix, sizes, sequentiality, arrivals, depth, working set
    Describe(describe::Describe),
    /// Replay a block trace under several configurations on a simulated drive
    Replay(Box<replay::Replay>),
    /// Feed recorded calls into the kernel's schedulers to ours and compare every decision
    ReplayDecisions(replay_decisions::ReplayDecisions),
}

/// Carries out a verb.
pub fn run(verb: &Study) -> Result<(), Failure> {
    match verb {
        Study::Run(options) => run::run_one(options),
        Study::Bench(options) => bench::bench(options),
        Study::Recommend(options) => recommend::recommend(options),
        Study::Merge(options) => merge::merge(options),
        Study::Calibrate(options) => calibrate::calibrate(options),
        Study::Reproduce(options) => reproduce::reproduce(options),
        Study::Population(options) => population::population(options),
        Study::Oracle(options) => oracle::oracle(options),
        Study::WhatIf(options) => what_if::what_if(options),
        Study::Describe(options) => describe::describe(options),
        Study::Replay(options) => replay::replay(options),
        Study::ReplayDecisions(options) => replay_decisions::replay_decisions(options),
    }
}
