//! `--job`: fio job files in place of experiments, and their results per job or as fio prints them.

use crate::args::JobArgs;
use crate::table::Table;
use crate::{Failure, print};
use hoistway_fio::{Machine, Weight};
use hoistway_lab::experiment::{Experiment, ProcTemplate};
use hoistway_lab::report::fio_json::{self, Options};
use hoistway_lab::result::{Cell, Run, number_text};
use hoistway_sim::hist::Histogram;
use std::path::Path;

/// The experiment of a job file; what of the file is not carried out is said on stderr.
pub fn load(args: &JobArgs, path: &Path) -> Result<Experiment, Failure> {
    let usage = |e: &dyn std::fmt::Display| Failure::Usage(e.to_string());
    let file = hoistway_fio::read(path, &mut Machine).map_err(|e| usage(&e))?;
    let mut unsupported = 0;
    for note in &file.notes {
        let word = match note.weight {
            Weight::Ignored => "note",
            Weight::Unsupported => "warning",
        };
        unsupported += usize::from(note.weight == Weight::Unsupported);
        eprintln!("{word}: {note}");
    }
    if args.strict && unsupported > 0 {
        return Err(Failure::Usage(format!(
            "{}: {unsupported} settings are not supported (above), and --strict refuses that; remove \
             them, or leave --strict out",
            path.display()
        )));
    }
    let title = path.file_name().map_or_else(String::new, |n| n.to_string_lossy().into_owned());
    let made = hoistway_fio::experiment(&file, &title, args.target.as_deref());
    let text = made.map_err(|e| usage(&e))?;
    Experiment::parse(&path.display().to_string(), &text).map_err(|e| usage(&e))
}

/// The flags that name the jobs again.
pub fn flags(args: &JobArgs, path: &Path) -> String {
    let mut text = format!("--job '{}'", path.display());
    if let Some(target) = &args.target {
        text.push_str(&format!(" --target '{target}'"));
    }
    text
}

/// A line per configuration, job and direction.
pub fn table(run: &Run) -> String {
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
        for name in cell.reps.first().map_or(&[][..], |r| &r.procs[..]).iter().map(|p| &p.name) {
            for (kind, phase) in [("read", "read"), ("write", "write")] {
                let Some(figures) = figures(cell, name, phase) else { continue };
                let mut row = vec![cell.config.clone(), name.clone(), kind.to_string()];
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

/// Over all repetitions: calls per second, MB/s, mean and percentiles of the latency in ms.
fn figures(cell: &Cell, name: &str, phase: &str) -> Option<Vec<String>> {
    let (mut latency, mut seconds, mut bytes, mut ios) = (Histogram::new(), 0.0, 0u64, 0u64);
    for rep in &cell.reps {
        let proc = rep.procs.iter().find(|p| p.name == name)?;
        let Some(phase) = proc.phases.iter().find(|p| p.name == phase && p.ios > 0) else {
            continue;
        };
        latency.merge(&phase.latency);
        let begin = phase.begin.unwrap_or_default();
        seconds += phase.end.unwrap_or(rep.measured).0.saturating_sub(begin.0) as f64 / 1e9;
        bytes += phase.bytes;
        ios += phase.ios;
    }
    let ms = |ns: f64| number_text((ns / 1e3).round() / 1e3);
    let rank = |n, of| latency.quantile(n, of).map_or_else(String::new, |ns| ms(ns as f64));
    (ios > 0 && seconds > 0.0).then(|| {
        vec![
            number_text((ios as f64 / seconds).round()),
            number_text((bytes as f64 / seconds / 1e4).round() / 1e2),
            latency.mean().map_or_else(String::new, ms),
            rank(1, 2),
            rank(99, 100),
            rank(999, 1000),
            latency.max().map_or_else(String::new, |ns| ms(ns as f64)),
        ]
    })
}

/// Parameters of every job's process, as texts.
fn options(experiment: &Experiment) -> Options {
    let one = |t: &ProcTemplate| {
        let value = |v: &toml::Value| v.as_str().map_or_else(|| v.to_string(), str::to_string);
        (t.name.clone(), t.params.iter().map(|(k, v)| (k.clone(), value(v))).collect())
    };
    let of = |w: &hoistway_lab::experiment::Workload| {
        w.target.iter().chain(&w.procs).map(one).collect::<Vec<_>>()
    };
    experiment.workloads.iter().flat_map(of).collect()
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

/// The documents of a run in its directory, one per drive, configuration and repetition; a single one is
/// printed, of several the paths are.
pub fn print_documents(run: &Run, dir: &Path, experiment: &Experiment) -> Result<(), Failure> {
    let options = options(experiment);
    // A simulator's results are the same bytes every time; others have a date.
    let time = if run.manifest.world == "sim" { 0 } else { today() };
    let folder = dir.join("fio");
    let failed = |e: std::io::Error| {
        Failure::Environment(format!(
            "{}: {e}; choose a writable place with --out",
            folder.display()
        ))
    };
    std::fs::create_dir_all(&folder).map_err(failed)?;
    let (mut only, mut paths) = (None, String::new());
    for cell in &run.cells {
        for (i, rep) in cell.reps.iter().enumerate() {
            let document = fio_json::document(run, cell, rep, &options, time);
            let text = format!("{document:#}\n");
            let clean =
                |c: char| if c.is_ascii_alphanumeric() || ".-_+".contains(c) { c } else { '_' };
            let name = format!("{}.{}.{}.json", cell.drive, cell.config, i + 1);
            let path = folder.join(name.chars().map(clean).collect::<String>());
            std::fs::write(&path, &text).map_err(failed)?;
            paths.push_str(&format!("{}\n", path.display()));
            only = Some(text);
        }
    }
    match only {
        Some(text) if paths.lines().count() == 1 => print(&text),
        _ => print(&paths),
    }
}
