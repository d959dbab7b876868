//! `hoistway replay TRACE`: a block trace under several configurations on a simulated drive.

use crate::common::known::{Known, configs, drives};
use crate::common::options::Common;
use crate::common::runs::carry_out;
use crate::common::table::{Table, three};
use crate::common::worlds::Chosen;
use crate::failure::Failure;
use clap::Args as ClapArgs;
use hoistway_lab::replay::{BACKLOG, ReplayRequest, Split};
use hoistway_lab::result::control::over;
use hoistway_lab::result::{Cell, Run, pooled, reference, replayed, target};
use hoistway_lab::stats::Finding;
use hoistway_run::Histogram;
use std::fmt::Write as _;
use std::path::PathBuf;

/// `hoistway replay`.
#[derive(Debug, ClapArgs)]
pub struct Replay {
    /// Trace: a file (plain, .gz or .zst), `-` for standard input, or NAME of NAME.blktrace.0, NAME.blktrace.1, ...
    #[arg(value_name = "TRACE")]
    pub trace: PathBuf,
    /// Configurations [default: none,mq-deadline,bfq]
    #[arg(long, short, value_name = "LIST")]
    #[arg(value_parser = Known(configs), hide_possible_values = true)]
    pub config: Vec<String>,
    /// Drives: names, or paths of drive files [default: samsung-970-pro]
    #[arg(long, short, value_name = "LIST")]
    #[arg(value_parser = Known(drives), hide_possible_values = true)]
    pub drive: Vec<String>,
    /// Submit at the recorded times, whatever the drive does (the default)
    #[arg(long, conflicts_with = "closed")]
    pub open: bool,
    /// Submit after what an I/O had waited for in the recording
    #[arg(long)]
    pub closed: bool,
    /// With --closed: most I/Os of a process under way [default: as recorded; 1 if the trace has no completions]
    #[arg(long, value_name = "N", requires = "closed")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub depth: Option<u32>,
    /// So many times as fast as recorded: arrivals, or think times with --closed
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0)]
    pub speed: f64,
    /// What becomes a process, and a group under configurations that make groups
    #[arg(long, value_name = "WHAT", value_enum, default_value = "process")]
    pub split_by: SplitBy,
    /// Judge by this process (group, device); the others are its interferers [default: by all together]
    #[arg(long, value_name = "NAME")]
    pub target: Option<String>,
    /// Only these devices of the trace
    #[arg(long, value_name = "LIST")]
    pub device: Vec<String>,
    /// Only from this time of the trace on, such as 10s
    #[arg(long, value_name = "TIME")]
    pub from: Option<String>,
    /// Only up to this time of the trace
    #[arg(long, value_name = "TIME")]
    pub to: Option<String>,
    /// Only the first N records
    #[arg(long, value_name = "N")]
    pub limit: Option<u64>,
    /// Scale offsets from a device of this size to the drive's [default: offsets beyond the drive wrap]
    #[arg(long, value_name = "SIZE")]
    pub scale: Option<String>,
    /// Count writes as synchronous that the trace does not mark
    #[arg(long)]
    pub sync_writes: bool,
    /// Format of the trace [default: found from its content]
    #[arg(long, value_name = "FORMAT")]
    pub format: Option<String>,
    /// Stop at the first malformed record
    #[arg(long)]
    pub strict: bool,
    /// Stop when so many I/Os wait in open loop: the drive cannot keep up
    #[arg(long, value_name = "N", default_value_t = BACKLOG, hide_short_help = true)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    pub backlog: u32,
    /// Read cgroups from this directory, as for compare; cgroup.procs names processes of the trace
    #[arg(long, value_name = "DIR")]
    pub groups: Option<PathBuf>,
    /// Repetitions, each with another seed of the drive
    #[arg(long, short, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub reps: u32,
    /// First seed [default: 1]
    #[arg(long, short_alias = 's', value_name = "N", value_parser = clap::value_parser!(u64).range(0..=1 << 62))]
    pub seed: Option<u64>,
    /// Replays at a time [default: number of cores]. Results do not depend on it
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub jobs: Option<u16>,
    /// Run directory to write [default: runs/replay-TRACE.sim.DIGEST]
    #[arg(long, short, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Do not reuse what an interrupted replay of the same command has finished
    #[arg(long, hide_short_help = true)]
    pub fresh: bool,
    /// Print every column of the tables, however narrow the terminal
    #[arg(long, hide_short_help = true, conflicts_with_all = ["csv", "json"])]
    pub wide: bool,
    /// Print all metrics as CSV instead of tables
    #[arg(long, conflicts_with = "json")]
    pub csv: bool,
    /// Print all metrics as JSON instead of tables
    #[arg(long)]
    pub json: bool,
    /// Show no progress bar
    #[arg(long, short)]
    pub quiet: bool,
}

/// Processes whose latencies are printed.
const ROWS: usize = 20;

pub fn replay(options: &Replay) -> Result<(), Failure> {
    let asked = asked(options);
    let mut note = |text: &str| eprintln!("{text}");
    let grid = asked.grid(&mut note, &mut |warning| eprintln!("warning: {warning}"));
    let (grid, world) = grid.map_err(|e| Failure::Usage(e.to_string()))?;
    let chosen = Chosen { world: Box::new(world), drive: None };
    carry_out(vec![grid], &common(options), &chosen, &more)
}

fn asked(options: &Replay) -> ReplayRequest {
    ReplayRequest {
        configs: options.config.clone(),
        drives: options.drive.clone(),
        open: options.open,
        closed: options.closed,
        depth: options.depth,
        speed: options.speed,
        split: match options.split_by {
            SplitBy::Process => Split::Process,
            SplitBy::Group => Split::Group,
            SplitBy::Lun => Split::Lun,
            SplitBy::None => Split::None,
        },
        target: options.target.clone(),
        devices: options.device.clone(),
        from: options.from.clone(),
        to: options.to.clone(),
        limit: options.limit,
        scale: options.scale.clone(),
        sync_writes: options.sync_writes,
        format: options.format.clone(),
        strict: options.strict,
        backlog: options.backlog,
        groups: options.groups.clone(),
        reps: options.reps,
        seed: options.seed,
        ..ReplayRequest::of(options.trace.clone())
    }
}

/// What `--split-by` takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum SplitBy {
    /// Each process
    Process,
    /// Each cgroup
    Group,
    /// Each device, volume or LUN
    Lun,
    /// Nothing: all is one process
    None,
}

/// How it is carried out.
fn common(options: &Replay) -> Common {
    Common {
        jobs: options.jobs,
        out: options.out.clone(),
        fresh: options.fresh,
        wide: options.wide,
        csv: options.csv,
        json: options.json,
        quiet: options.quiet,
        on: vec!["sim".into()],
        ..Common::default()
    }
}

/// What is said of a run beside the tables that every run has.
fn more(run: &Run) -> String {
    let mut out = String::new();
    let fact = |name: &str| {
        let found = run.manifest.host.iter().find(|(n, _)| n == name);
        found.map(|(_, value)| value.as_str())
    };
    let _ = writeln!(
        out,
        "\ntrace: {} records, format {}, {} malformed{}; {}; digest {}",
        fact("trace.records").unwrap_or("?"),
        fact("trace.format").unwrap_or("?"),
        fact("trace.malformed").unwrap_or("?"),
        fact("trace.malformed_first").map_or_else(String::new, |f| format!(" (the first: {f})")),
        fact("replay.loop").map_or_else(String::new, |l| format!("loop: {l}")),
        fact("trace.digest").unwrap_or("-"),
    );
    let notes = [
        (
            "trace.late",
            "records out of order beyond the reader's window, moved behind the one before",
        ),
        (
            "trace.recordings",
            "further recordings in the same file, with times from 0; each was put behind the one before",
        ),
        ("trace.untimed", "I/Os without a time of their own, which have that of the one before"),
        ("trace.empty", "records of length 0, left out"),
        (
            "trace.beyond",
            "records beyond the end of the drive, wrapped (--scale SIZE scales instead)",
        ),
        ("trace.too_long", "records longer than the drive, cut"),
        ("trace.unaligned", "records widened to whole sectors of the drive"),
        ("trace.members_joined", "processes beyond the first 1024, put together as '(others)'"),
    ];
    for (name, text) in notes {
        if let Some(count) = fact(name) {
            let _ = writeln!(out, "note: {count} {text}");
        }
    }
    if let Some(count) = fact("trace.gaps_cut") {
        let hours = fact("trace.gaps_cut_hours").unwrap_or("0");
        let _ = writeln!(
            out,
            "note: {count} gaps of more than an hour without a record, each cut to an hour ({hours} h in all left out)"
        );
    }
    for drive in &run.manifest.drives {
        let cells: Vec<&Cell> = run.cells.iter().filter(|c| c.drive == drive.id).collect();
        let table = by_member(&cells);
        if let Some((table, left)) = table {
            let _ = write!(out, "\n{}: latency by process\n{}", drive.id, table.render());
            if left > 0 {
                let _ = writeln!(out, "and {left} more, in the run directory");
            }
        }
        let _ = writeln!(out, "\n{}", verdict(run, &drive.id, &cells));
    }
    out
}

/// Name, latencies, bytes and measured seconds of every member of a cell, over its repetitions.
fn members(cell: &Cell) -> Vec<(String, Histogram, u64)> {
    let mut all: Vec<(String, Histogram, u64)> = Vec::new();
    let mut add =
        |name: &str, latency: &Histogram, bytes: u64| match all.iter_mut().find(|m| m.0 == name) {
            Some(m) => {
                m.1.merge(latency);
                m.2 += bytes;
            }
            None => all.push((name.to_string(), latency.clone(), bytes)),
        };
    for rep in &cell.reps {
        let phases = rep.procs.iter().flat_map(|p| &p.phases);
        phases.for_each(|p| add(&p.name, &p.latency, p.bytes));
        if rep.procs.iter().all(|p| p.phases.is_empty()) {
            rep.procs.iter().for_each(|p| add(&p.name, &p.latency, p.bytes));
        }
    }
    all
}

/// The members that moved most, under each configuration; and how many are left out. Nothing for a single one, whose
/// latencies are in the table of the whole.
fn by_member(cells: &[&Cell]) -> Option<(Table, usize)> {
    let first = members(cells.first()?);
    if first.len() < 2 {
        return None;
    }
    let mut order: Vec<(&str, u64)> = first.iter().map(|m| (m.0.as_str(), m.2)).collect();
    order.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(b.0)));
    let all: Vec<_> = cells.iter().map(|c| (c, members(c))).collect();
    let headings =
        ["process", "config", "I/Os", "MB/s", "avg ms", "p50 ms", "p99 ms", "p99.9 ms", "max ms"];
    let mut table = Table::new(&headings, 2);
    for (name, _) in order.iter().take(ROWS) {
        for (cell, members) in &all {
            let Some((_, latency, bytes)) = members.iter().find(|m| m.0 == *name) else { continue };
            let seconds: f64 = cell.reps.iter().map(|r| r.measured.0 as f64 / 1e9).sum();
            let ms = |ns: Option<f64>| ns.map_or_else(|| "-".into(), |ns| three(ns / 1e6));
            let at = |n, d| ms(latency.quantile(n, d).map(|ns| ns as f64));
            table.row(vec![
                name.to_string(),
                cell.config.clone(),
                latency.count().to_string(),
                three(*bytes as f64 / 1e6 / seconds.max(1e-9)),
                ms(latency.mean()),
                at(50, 100),
                at(99, 100),
                at(999, 1000),
                ms(latency.max().map(|ns| ns as f64)),
            ]);
        }
    }
    Some((table, order.len().saturating_sub(ROWS)))
}

/// p99 of the target over all repetitions, ns.
fn p99(cell: &Cell) -> Option<u64> {
    let mut all = Histogram::new();
    cell.reps.iter().filter_map(target).for_each(|t| all.merge(&t.latency));
    all.quantile(99, 100)
}

/// Histograms know latencies this well, and models far worse: p99 so near are the same.
const SAME: f64 = 1.03;

/// Which configuration to take, and how sure that is. A target is judged by its 99th percentile, all together by the
/// mean.
fn verdict(run: &Run, drive: &str, cells: &[&Cell]) -> String {
    let first = reference(&run.manifest).unwrap_or_default();
    let Some(base) = cells.iter().find(|c| c.config == first) else { return String::new() };
    if cells.iter().any(|c| replayed::untimed(c)) {
        return "no verdict: the trace has no times, and was submitted at once; --closed replays it one after another"
            .into();
    }
    let lost: Vec<&str> =
        cells.iter().filter(|c| replayed::overloaded(c)).map(|c| c.config.as_str()).collect();
    if lost.len() == cells.len() {
        return format!(
            "verdict: {drive} cannot carry this trace under any of these configurations; slow it down (--speed 0.5), \
             replay it in closed loop (--closed), or choose another drive"
        );
    }
    if cells.len() == 1 {
        return "verdict: one configuration was replayed; name several with -c to compare them"
            .into();
    }
    let named = base.reps.iter().filter_map(target).any(|t| t.procs[0].phases.is_empty());
    let value = |c: &Cell| {
        if named {
            return p99(c).map(|ns| ns as f64);
        }
        pooled(&c.reps).0.mean()
    };
    let what = if named { "99th percentile" } else { "mean latency" };
    let fit = cells.iter().filter(|c| !replayed::overloaded(c));
    let best = fit.filter_map(|c| Some((*c, value(c)?))).min_by(|a, b| a.1.total_cmp(&b.1));
    let Some((best, least)) = best else { return "verdict: nothing was served".into() };
    // Those that are no worse than the best as far as that can be known.
    let same = |c: &&&Cell| {
        let near = value(c).is_some_and(|v| v <= least * SAME);
        let beside = || over(&run.manifest, c, best, "latency_avg").finding;
        let noise = !named && matches!(beside(), Finding::Same | Finding::Unsure);
        c.config != best.config && !replayed::overloaded(c) && (near || noise)
    };
    let equal: Vec<&str> = cells.iter().filter(same).map(|c| c.config.as_str()).collect();
    let shown = format!("{} ms", three(least / 1e6));
    let mut text = match (equal.is_empty(), best.config == first) {
        (false, _) => format!(
            "verdict: {} is best by {what} ({shown}), but {} cannot be told apart from it: take the simplest",
            best.config,
            equal.join(", ")
        ),
        (true, true) => {
            format!("verdict: stay with {first}: no other has a shorter {what} ({shown})")
        }
        (true, false) => {
            let times = value(base).map_or_else(String::new, |v| {
                format!(", {} times shorter than under {first}", three(v / least))
            });
            format!("verdict: take {}: {what} {shown}{times}", best.config)
        }
    };
    if !lost.is_empty() {
        let _ = write!(text, "; {} cannot keep up", lost.join(", "));
    }
    text.push_str(
        "\n(one recorded load: repetitions vary the drive's chance alone; replay traces of other days before you decide)",
    );
    text
}
