//! `hoistway reproduce`: the experiments of the reference documents, published values beside ours.

use crate::common::known::{Known, documented};
use crate::common::output::{self, print};
use crate::common::process::{program, stop_flag, threads};
use crate::common::table::{Table, limit};
use crate::common::terminal;
use crate::failure::{Failure, directory_failure, run_failure};
use clap::Args as ClapArgs;
use hoistway_files::{Dir, Kind, PlaceError};
use hoistway_lab::experiment::Procedure;
use hoistway_lab::report::reproduction;
use hoistway_lab::reproduce::pool::{PoolCallbacks, PoolProgress};
use hoistway_lab::reproduce::rows::PublishedRow;
use hoistway_lab::reproduce::tables::{self, PublishedComparison};
use hoistway_lab::reproduce::{self, ReproducePlace, ReproducePlan, Results, Value};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// `hoistway reproduce`.
#[derive(Debug, ClapArgs)]
#[command(
    after_help = "Exit codes: 0 done, 1 an experiment failed (the others are written), 2 wrong usage, 3 the place \
                        cannot be written, 130 interrupted (the same command continues)."
)]
pub struct Reproduce {
    /// Experiments, or all: every one that repeats a document
    #[arg(required = true, value_name = "ID")]
    #[arg(value_parser = Known(documented), hide_possible_values = true)]
    pub experiments: Vec<String>,
    /// A quarter of all times and at most three repetitions: a first look
    #[arg(long)]
    pub quick: bool,
    /// The documents' own procedure: their durations, repetitions and statistics, faults included
    #[arg(long)]
    pub as_published: bool,
    /// Repetitions of each run [default: the experiment's for this procedure]
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub reps: Option<u32>,
    /// Simulations at a time [default: number of cores]. Results do not depend on it
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub jobs: Option<u16>,
    /// Folder to write [default: runs/reproduce.PROCEDURE, with .quick]
    #[arg(long, short, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Also write the tables as Markdown into this file
    #[arg(long, value_name = "FILE")]
    pub markdown: Option<PathBuf>,
    /// Print everything as JSON instead of tables
    #[arg(long)]
    pub json: bool,
    /// Run everything again, also what is finished
    #[arg(long, conflicts_with = "dry_run")]
    pub fresh: bool,
    /// Print every column of the tables, however narrow the terminal
    #[arg(long, hide_short_help = true, conflicts_with_all = ["json", "dry_run"])]
    pub wide: bool,
    /// Print what would run; run and write nothing
    #[arg(long, conflicts_with_all = ["json", "markdown", "out"])]
    pub dry_run: bool,
    /// Show no progress bar
    #[arg(long, short)]
    pub quiet: bool,
}

/// Stands for every experiment.
const ALL: &str = "all";

pub fn reproduce(options: &Reproduce) -> Result<(), Failure> {
    let plan = plan(options)?;
    if options.dry_run {
        return print(&preview(&plan)?);
    }
    let out = options.out.clone().unwrap_or_else(|| usual_place(&plan));
    output::check("--markdown", options.markdown.as_deref(), Kind::Marked)?;
    let threads = threads(options.jobs);
    let stop = stop_flag()?;
    let program = program();
    let place = ReproducePlace { out: &out, program: &program, fresh: options.fresh };
    let bar = terminal::bar(options.quiet, 0, "{pos}/{len} runs [{bar:40}] {msg}");
    let told = |text: &str| bar.suspend(|| eprintln!("{text}"));
    // The time left is for people: nothing that is computed sees it.
    #[expect(clippy::disallowed_methods, reason = "progress of the command, not of a simulation")]
    let begun = Instant::now();
    let clock = || begun.elapsed().as_secs_f64();
    let progress = |p: PoolProgress| {
        bar.set_length(p.total as u64);
        bar.set_position(p.done as u64);
        bar.set_message(p.left.map_or_else(String::new, |s| format!("{} left", time(s))));
    };
    let callbacks = PoolCallbacks { clock: &clock, progress: &progress, over: &|_, _| {} };
    let done = plan.run(&place, threads, &stop, &callbacks, &told);
    bar.finish_and_clear();
    let done = done.map_err(run_failure)?;
    let comparison = PublishedComparison::of(&plan, &done);
    let folder = place.folder().map_err(directory_failure)?;
    write(&comparison, &folder).map_err(|e| output::failure("--out", e))?;
    if let Some(path) = &options.markdown {
        output::write("--markdown", path, &tables::markdown(&comparison), Kind::Marked)?;
    }
    if options.json {
        print(&format!("{:#}\n", tables::json(&comparison, &out.display().to_string())))?;
    } else {
        print(&text(&comparison, options, &out))?;
    }
    match done.failed.len() {
        0 => Ok(()),
        n => {
            let names: Vec<&str> = done.failed.iter().map(|f| f.0.as_str()).collect();
            Err(Failure::Failed(format!("{n} experiments failed: {}", names.join(", "))))
        }
    }
}

/// Names, each once; `all` alone.
fn plan(options: &Reproduce) -> Result<ReproducePlan, Failure> {
    let mut names: Vec<String> = Vec::new();
    for name in options.experiments.iter().flat_map(|given| given.split(',')) {
        if names.iter().any(|n| n == name) {
            return Err(Failure::Usage(format!("experiment '{name}' is given twice")));
        }
        names.push(name.to_string());
    }
    let all = names.iter().any(|n| n == ALL);
    if all && names.len() > 1 {
        return Err(Failure::Usage("'all' contains every experiment; give it alone".into()));
    }
    if all {
        names = reproduce::ids().into_iter().map(String::from).collect();
    }
    let procedure = match options.as_published {
        true => Procedure::AsPublished,
        false => Procedure::Sound,
    };
    let mut command = format!("hoistway reproduce {}", options.experiments.join(" "));
    if options.as_published {
        command.push_str(" --as-published");
    }
    if options.quick {
        command.push_str(" --quick");
    }
    if let Some(reps) = options.reps {
        let _ = write!(command, " --reps {reps}");
    }
    reproduce::plan(&names, procedure, options.quick, options.reps, &command)
        .map_err(|e| Failure::Usage(e.to_string()))
}

fn usual_place(plan: &ReproducePlan) -> PathBuf {
    let quick = if plan.quick { ".quick" } else { "" };
    PathBuf::from("runs").join(format!("reproduce.{}{quick}", plan.procedure.name()))
}

/// `35 s`, `4 min 05 s`.
fn time(seconds: f64) -> String {
    let s = seconds.ceil().max(0.0) as u64;
    if s < 60 { format!("{s} s") } else { format!("{} min {:02} s", s / 60, s % 60) }
}

fn write(c: &PublishedComparison<'_>, folder: &Dir) -> Result<(), PlaceError> {
    let file = |name: &str, text: &str| folder.place(name)?.replace(text.as_bytes(), Kind::Named);
    file("reproduction.md", &tables::markdown(c))?;
    file("reproduction.csv", &tables::all_csv(c))?;
    file("published.csv", &tables::rows_csv(c))?;
    file("reproduction.html", &reproduction::render(c))
}

fn text(c: &PublishedComparison<'_>, options: &Reproduce, out: &Path) -> String {
    let width = limit(options.wide);
    let mut text = format!("{}\n\n", c.procedure());
    for results in &c.done.results {
        let rows = c.rows_of(&results.id);
        let all = options.experiments.iter().any(|e| e == ALL);
        if let Some(table) = published(results, &rows, width) {
            let _ = writeln!(text, "{}: {}\n{table}", results.id, results.title);
        }
        // Of all experiments they are hundreds of lines; the files have them.
        if !all {
            let _ = writeln!(text, "{}: ours\n{}", results.id, ours(results, width));
        }
    }
    let (each, all) = c.agreement();
    if all.published > 0 {
        let mut table = Table::new(&tables::AGREEMENT, 1);
        for (results, agreement) in &each {
            table.row(tables::agreement_cells(&results.id, agreement).to_vec());
        }
        if each.len() > 1 {
            table.row(tables::agreement_cells("all", &all).to_vec());
        }
        let spare = ["1.5x", "same leader", "published"];
        let _ = writeln!(text, "agreement with published figures\n{}", table.fit(width, &spare));
    }
    let beyond: Vec<&PublishedRow> = c.uncontrolled().filter(|r| !r.within_tolerance()).collect();
    if !beyond.is_empty() {
        let mut table = Table::new(
            &["measured without control, more than 25 % off", "published", "ours", "ratio"],
            1,
        );
        for row in beyond {
            let w = |i: usize| row.words[i].as_str();
            let name = format!("{}, {}, {}, {}", w(0), w(2), w(3), w(4));
            let ours = row.ours.map_or_else(String::new, Value::text);
            table.row(vec![name, format!("{} {}", w(6), w(5)), ours, row.ratio_text()]);
        }
        let _ = writeln!(text, "{}", table.render());
    }
    let place = |name: &str| out.join(name).display().to_string();
    let _ = writeln!(
        text,
        "report: {}\ntables: {}, {}",
        place("reproduction.html"),
        place("reproduction.md"),
        place("reproduction.csv")
    );
    text
}

/// Published figures of an experiment beside ours; `None` without any.
fn published(results: &Results, rows: &[&PublishedRow], width: Option<usize>) -> Option<String> {
    let compared: Vec<&&PublishedRow> = rows.iter().filter(|r| r.ours.is_some()).collect();
    if compared.is_empty() {
        return None;
    }
    let several =
        results.judges.keys().any(|k| Some(&k.0) != results.judges.keys().next().map(|k| &k.0));
    let heads = ["drive", "configuration", "workload", "metric", "published", "ours", "ratio"];
    let mut table = Table::new(&heads[usize::from(!several)..], if several { 4 } else { 3 });
    for row in compared {
        let w = |i: usize| row.words[i].clone();
        let ours = row.ours.map_or_else(String::new, Value::text);
        let metric = format!("{}, {}", w(4), w(5));
        let cells = vec![w(1), w(2), w(3), metric, w(6), ours, row.ratio_text()];
        table.row(cells.into_iter().skip(usize::from(!several)).collect());
    }
    Some(table.fit(width, &[]))
}

fn ours(results: &Results, width: Option<usize>) -> String {
    let heads = ["drive", "workload", "configuration", "metric", "ours", "± 99 %"];
    let mut table = Table::new(&heads, 4);
    for f in tables::shown(results) {
        let metric = format!("{}, {}", f.metric, f.unit);
        let cells = [f.drive.clone(), f.workload.clone(), f.config.clone(), metric];
        let numbers = [tables::value_text(f), tables::interval_text(f)];
        table.row(cells.into_iter().chain(numbers).collect());
    }
    table.fit(width, &["± 99 %"])
}

fn preview(plan: &ReproducePlan) -> Result<String, Failure> {
    let mut table = Table::new(
        &[
            "experiment",
            "document",
            "drives",
            "workloads",
            "configurations",
            "repetitions",
            "runs",
            "simulated",
        ],
        2,
    );
    let (mut runs, mut whole) = (0, 0.0);
    for planned in &plan.experiments {
        let g = &planned.grid;
        let seconds = g.whole().map_err(run_failure)?.0 as f64 / 1e9;
        runs += g.len();
        whole += seconds;
        let counts = [g.drives.len(), g.workloads.len(), g.configs.len(), g.reps as usize, g.len()];
        let words = [g.experiment.id.clone(), planned.source.name.to_string()];
        let counts = counts.map(|n| n.to_string());
        table.row(words.into_iter().chain(counts).chain([time(seconds)]).collect());
    }
    Ok(format!(
        "{}\n\n{}\n{runs} runs, {} of simulated time at most; nothing was run or written\n",
        plan.command,
        table.render(),
        time(whole)
    ))
}
