//! `hoistway what-if`: whether latency targets would be kept, and at what price, before anything is deployed.

use crate::common::jobs::Jobs;
use crate::common::known::{Known, drives};
use crate::common::options::JobArgs;
use crate::common::output::print;
use crate::common::process::{stop_flag, threads};
use crate::common::table::{Table, three as number};
use crate::common::terminal;
use crate::failure::{Failure, run_failure};
use clap::Args as ClapArgs;
use hoistway::target::percent;
use hoistway_lab::what_if::{
    Basis, Measured, Point, Report, Use, Wanted, WhatIfQuestion, configuration, default_load,
    find_load, json, measured_time,
};
use hoistway_sim::drive::DriveFile;
use std::fmt::Write as _;
use std::path::PathBuf;

/// `hoistway what-if`.
#[derive(Debug, ClapArgs)]
#[command(
    after_help = "Exit codes: 0 every target is kept, 1 one is not, 2 wrong usage, 130 interrupted."
)]
pub struct WhatIf {
    /// Simulated drive: name, or path of a drive file
    #[arg(long, short, value_name = "DRIVE")]
    #[arg(value_parser = Known(drives), hide_possible_values = true)]
    pub drive: String,
    /// A latency target: NAME=TIME, or NAME=auto for as low as goes without loss of throughput; ,weight=N behind it
    /// gives the group a weight. NAME is a process of the load or a kind of processes. May be repeated
    #[arg(long, short, value_name = "NAME=TIME", required = true)]
    pub target: Vec<String>,
    /// Load: EXPERIMENT/WORKLOAD [default: a random 4 KiB reader for each target beside 15 sequential readers]
    #[arg(long, value_name = "LOAD", conflicts_with = "job")]
    pub load: Option<String>,
    /// Load: the jobs of this fio job file; NAME is a job
    #[arg(long, value_name = "FILE")]
    pub job: Option<PathBuf>,
    /// Keep the targets whatever throughput that costs
    #[arg(long)]
    pub strict: bool,
    /// Percent of the throughput without control that may be lost
    #[arg(long, value_name = "PERCENT", default_value_t = 3, value_parser = clap::value_parser!(u16).range(0..=99))]
    pub loss: u16,
    /// Measured time of each run [default: 3s, of disks 20s], behind 2 s (10 s) to settle
    #[arg(long, value_name = "TIME")]
    pub duration: Option<String>,
    /// Seed of the drive and the load
    #[arg(long, short_alias = 's', value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(0..=1 << 62))]
    pub seed: u64,
    /// Simulations at a time [default: number of cores]. Results do not depend on it
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub jobs: Option<u16>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Show no progress bar
    #[arg(long, short)]
    pub quiet: bool,
}

pub fn what_if(options: &WhatIf) -> Result<(), Failure> {
    let question = question(options)?;
    let stop = stop_flag()?;
    let bar = terminal::bar(options.quiet, 1, "{pos}/{len} runs [{bar:40}] {elapsed}");
    let progress = |done: usize, total: usize| {
        bar.set_length(total as u64);
        bar.set_position(done as u64);
    };
    let threads = threads(options.jobs);
    let basis = question.basis(threads, &stop, &progress);
    let basis = basis.map_err(|e| {
        bar.finish_and_clear();
        run_failure(e)
    })?;
    if !options.json {
        // Known before the other runs are made.
        bar.suspend(|| print(&opening(&question, &basis)))?;
    }
    let report = question.answer(basis, threads, &stop, &progress);
    bar.finish_and_clear();
    let report = report.map_err(run_failure)?;
    print(&match options.json {
        true => format!("{:#}\n", json(&question, &report)),
        false => text(&question, &report),
    })?;
    if report.kept() { Ok(()) } else { Err(Failure::No) }
}

fn question(options: &WhatIf) -> Result<WhatIfQuestion, Failure> {
    let usage = |e: &dyn std::fmt::Display| Failure::Usage(e.to_string());
    let wanted: Result<Vec<Wanted>, String> =
        options.target.iter().map(|t| Wanted::parse(t)).collect();
    let wanted = wanted.map_err(|e| Failure::Usage(format!("--target: {e}")))?;
    let drive = DriveFile::load(&options.drive).map_err(|e| usage(&e))?;
    let (experiment, workload) = match (&options.load, &options.job) {
        (Some(load), _) => find_load(load).map_err(|e| Failure::Usage(format!("--load: {e}")))?,
        (None, Some(path)) => {
            let args = JobArgs {
                job: Some(path.clone()),
                fio: None,
                target: None,
                strict: false,
                output_format: None,
            };
            let experiment = Jobs::load(&args)?.expect("a file is named").experiment;
            let workload = experiment.default_workloads[0].clone();
            (experiment, workload)
        }
        (None, None) => {
            default_load(&wanted).map_err(|e| Failure::Usage(format!("--target: {e}")))?
        }
    };
    let duration = measured_time(options.duration.as_deref());
    let duration = duration.map_err(|e| Failure::Usage(format!("--duration: {e}")))?;
    let question = WhatIfQuestion {
        experiment,
        workload,
        drive,
        wanted,
        strict: options.strict,
        loss_permille: u32::from(options.loss) * 10,
        duration,
        seed: options.seed,
    };
    question.check().map_err(Failure::Usage)?;
    Ok(question)
}

/// What is asked, and what no scheduler can do.
fn opening(question: &WhatIfQuestion, basis: &Basis) -> String {
    let (load, summary) = (question.load_name(), question.load_summary());
    let mut out = format!("{}\n{load}: {summary}\n\n", question.drive.name);
    for bounds in question.bounds(basis) {
        let _ = writeln!(out, "{}: {}", bounds.wanted.text(), bounds.words());
    }
    out.push('\n');
    out
}

fn text(question: &WhatIfQuestion, report: &Report) -> String {
    let mut out = String::new();
    let several = question.wanted.len() > 1;
    let mut heads = vec!["".to_string(), "MB/s".into(), "of none %".into(), "others MB/s".into()];
    for w in &question.wanted {
        let of = |what: &str| if several { format!("{} {what}", w.name) } else { what.to_string() };
        heads.extend([of("mean ms"), of("p99 ms"), of("I/Os")]);
    }
    let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
    let mut table = Table::new(&heads, 1);
    let mut few = false;
    for point in report.alone.iter().chain(&report.others).chain([&report.ours]) {
        few |= point.targets.iter().flatten().any(|m| m.ios < FEW);
        table.row(row(question, report, point));
    }
    for finding in &report.findings {
        if let Some(point) = finding.by.map(|at| &report.sweep[at]) {
            table.row(row(question, report, point));
        }
    }
    out += &table.render();
    out.push('\n');
    for finding in &report.findings {
        let _ = writeln!(out, "{}: {}", finding.wanted.text(), finding.words);
        if !finding.also.is_empty() {
            let also =
                finding.also.iter().map(|(name, kept)| format!("{name} at {}", percent(*kept)));
            let also = also.collect::<Vec<_>>().join(", ");
            let _ = writeln!(out, "  also kept by {also} of the throughput");
        }
    }
    if few {
        let _ = writeln!(out, "p99 of fewer than {FEW} I/Os is rough; --duration makes it better");
    }
    let Use { serve, running } = configuration(question, report);
    // Where a target is missed another line of the table may come nearer.
    let missed = if report.kept() { "" } else { "    # misses: compare the table" };
    let _ = write!(out, "\nto serve:{:7} {serve}{missed}\n", "");
    for (n, line) in running.iter().enumerate() {
        let head = if n == 0 { "while it serves:" } else { "" };
        let _ = writeln!(out, "{head:16} {line}");
    }
    let kernel = question.kernel(report);
    let does = if kernel.kept { "keeps them all" } else { "comes nearest, and misses" };
    let (config, left) = (kernel.config, percent(kernel.permille));
    let head = "in the kernel:";
    let _ = writeln!(out, "{head:16} {config} {does}, at {left} of the throughput");
    for line in &kernel.lines {
        let _ = writeln!(out, "{:16} {line}", "");
    }
    out
}

/// Fewer I/Os than ten above the 99th percentile.
const FEW: u64 = 1000;

fn row(question: &WhatIfQuestion, report: &Report, point: &Point) -> Vec<String> {
    let alone = report.alone.iter().any(|p| p.way == point.way);
    let kept = format!("{:.1}", f64::from(report.kept_permille(point)) / 10.0);
    let others = if alone { "-".into() } else { number(point.others) };
    let mut cells = vec![
        point.way.name(question),
        number(point.total),
        if alone { "-".into() } else { kept },
        others,
    ];
    let ms = |ns: u64| number(ns as f64 / 1e6);
    for of in &point.targets {
        match of {
            Some(Measured { p99, mean, ios, .. }) => {
                cells.extend([ms(mean.0), ms(p99.0), ios.to_string()]);
            }
            None => cells.extend(["-", "-", "-"].map(String::from)),
        }
    }
    cells
}
