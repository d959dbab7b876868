//! `hoistway oracle`: configurations beside the best fixed setting.

use super::population::{HalfArg, KeptCases, configs};
use crate::common::known::{Known, drives, experiments};
use crate::common::output::{self, print};
use crate::common::process::{program, stop_flag, threads};
use crate::common::table::{Table, three};
use crate::common::terminal;
use crate::failure::{Failure, run_failure};
use clap::Args as ClapArgs;
use hoistway_files::Kind;
use hoistway_lab::config::Config;
use hoistway_lab::experiment::{Experiment, Options};
use hoistway_lab::grid::Plan;
use hoistway_lab::oracle::{self, OraclePlan, OraclePoint, OracleSubject, Row};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The loads where none are named.
const USUAL: &str = "control-latency";
/// What is held against it where nothing else is said.
const CONFIGS: &[&str] = &["slo-paternoster"];

/// `hoistway oracle`.
#[derive(Debug, ClapArgs)]
#[command(
    after_help = "The oracle is the fastest of 16 fixed settings of slo-paternoster (on flash valve and cut, on disks \
                  lane_part or valve) that leave 97 % of the throughput of none-none and 94 % of the others'; \
                  (max): none does, and it is the one with the most throughput. over: mean latency over that of \
                  the fastest setting with no less throughput, to one point (of the others none's is enough); -: \
                  there is none. bound: the least mean latency if the others keep 95 %."
)]
pub struct Oracle {
    /// Loads: an experiment, name or path [default: control-latency]
    #[arg(value_parser = Known(experiments), hide_possible_values = true)]
    pub experiment: Option<String>,
    /// Drives: names, or paths of drive files [default: the experiment's]
    #[arg(long, short, value_name = "LIST")]
    #[arg(value_parser = Known(drives), hide_possible_values = true)]
    pub drive: Vec<String>,
    /// Workloads of the experiment [default: those that it names and that have a target and others beside it]
    #[arg(long, short, value_name = "LIST")]
    pub workload: Vec<String>,
    /// In place of those: so many cases of `hoistway population`; those that ask for latency are run
    #[arg(long, value_name = "N", conflicts_with_all = ["experiment", "drive", "workload"])]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub cases: Option<u32>,
    /// With --cases: which numbers they have: design (even, to tune by), report (odd, to judge by) or all
    #[arg(long, value_name = "HALF", value_enum, default_value = "all", requires = "cases")]
    pub half: HalfArg,
    /// Configurations beside none-none, against which everything is told [default: slo-paternoster]
    #[arg(long, short, value_name = "LIST")]
    #[arg(value_parser = Known(crate::common::known::configs), hide_possible_values = true)]
    pub config: Vec<String>,
    /// Seed of every run, and of the population
    #[arg(long, short_alias = 's', value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u64).range(0..=1 << 62))]
    pub seed: u64,
    /// Measure for a quarter of the time, at least 1 s
    #[arg(long)]
    pub quick: bool,
    #[command(flatten)]
    pub kept: KeptCases,
}

pub fn oracle(options: &Oracle) -> Result<(), Failure> {
    let configs = configs(&options.config, CONFIGS)?;
    if configs.is_empty() {
        let what = "--config: everything is told against none-none; name another configuration";
        return Err(Failure::Usage(what.into()));
    }
    let (stop, threads) = (stop_flag()?, threads(options.kept.jobs));
    let subjects = match options.cases {
        Some(cases) => {
            let numbers = options.half.half().numbers(cases);
            let drawn = OracleSubject::drawn(options.seed, &numbers, threads, &stop);
            if drawn.is_empty() && !stop.load(Ordering::Relaxed) {
                let what = format!("--cases {cases}: none of them asks for a latency; take more");
                return Err(Failure::Usage(what));
            }
            drawn
        }
        None => named(options, &configs)?,
    };
    let key = format!("{}\nseed {}\noracle\n", program(), options.seed);
    let plan = OraclePlan {
        seed: options.seed,
        subjects,
        configs,
        options: Options { quick: options.quick, ..Options::default() },
        keep: options.kept.out.clone().map(|dir| (dir, key)),
    };
    let rows = run(&plan, options, threads, &stop)?;
    let csv = oracle::csv(&rows);
    let json = format!("{:#}\n", oracle::json(&rows, options.seed));
    if let Some(dir) = &options.kept.out {
        // It holds the cases, and so is ours.
        output::write("--out", &dir.join("oracle.csv"), &csv, Kind::Named)?;
        output::write("--out", &dir.join("oracle.json"), &json, Kind::Named)?;
    }
    match (options.kept.csv, options.kept.json) {
        (true, _) => print(&csv),
        (_, true) => print(&json),
        _ => print(&table(&rows)),
    }
}

/// The drives and workloads that are named, or the usual ones.
fn named(options: &Oracle, configs: &[Config]) -> Result<Vec<OracleSubject>, Failure> {
    let usage = |e: &dyn std::fmt::Display| Failure::Usage(e.to_string());
    let name = options.experiment.as_deref().unwrap_or(USUAL);
    let experiment = Experiment::load(name).map_err(|e| usage(&e))?;
    let plan = Plan::of(experiment.clone()).drives(options.drive.clone());
    let plan = plan.workloads(options.workload.clone()).quick(options.quick);
    let plan = plan.configs(configs.iter().map(|c| c.id.clone()));
    let warn = &mut |warning: &str| terminal::say(format_args!("warning: {warning}\n"));
    let grid = plan.grid(warn).map_err(|e| usage(&e))?;
    let experiment = Arc::new(experiment);
    let mut subjects = Vec::new();
    let mut refused = None;
    for drive in &grid.drives {
        for workload in &grid.workloads {
            match OracleSubject::named(drive.clone(), &experiment, workload) {
                Ok(subject) => subjects.push(subject),
                Err(e) if options.workload.is_empty() => refused = Some(e),
                Err(e) => return Err(usage(&e)),
            }
        }
    }
    match (refused, subjects.is_empty()) {
        (Some(e), true) => Err(usage(&e)),
        _ => Ok(subjects),
    }
}

fn run(
    plan: &OraclePlan,
    options: &Oracle,
    threads: usize,
    stop: &AtomicBool,
) -> Result<Vec<Row>, Failure> {
    let bar = terminal::bar(options.kept.quiet, 1, "{pos}/{len} runs [{bar:40}] {eta} left");
    let progress = |done: usize, total: usize| {
        bar.set_length(total as u64);
        bar.set_position(done as u64);
    };
    let rows = plan.run(threads, stop, &progress);
    bar.finish_and_clear();
    rows.map_err(run_failure)
}

fn table(rows: &[Row]) -> String {
    let heads = [
        "drive",
        "load",
        "configuration",
        "alone ms",
        "bound",
        "none",
        "mean",
        "all/others %",
        "oracle",
        "mean ms",
        "all/others %",
        "over",
    ];
    let mut table = Table::new(&heads, 3);
    let number = |value: Option<f64>| value.map_or_else(|| "-".into(), three);
    let ms = |ns: Option<f64>| number(ns.map(|ns| ns / 1e6));
    let kept = |p: &OraclePoint| format!("{:.0}/{:.0}", p.all, p.others);
    for row in rows {
        let (setting, of) = match &row.best {
            Some(best) => {
                let max = if best.max { " (max)" } else { "" };
                (format!("{}{max}", best.setting), [ms(best.point.mean), kept(&best.point)])
            }
            None => ("-".into(), ["-", "-"].map(String::from)),
        };
        let [drive, load, config] = [&row.drive, &row.load, &row.config].map(Clone::clone);
        let mut cells = vec![drive, load, config, ms(row.alone), ms(row.bound), ms(row.none)];
        cells.extend([ms(row.of.mean), kept(&row.of), setting]);
        cells.extend(of);
        cells.push(number(row.over));
        table.row(cells);
    }
    table.render()
}
