//! `hoistway replay-decisions FILE...`: recorded kernel decisions against those of this BFQ.

use crate::common::output::print;
use crate::failure::Failure;
use clap::Args as ClapArgs;
use flate2::read::MultiGzDecoder;
use hoistway_files::input::{self, Limit, ReadError};
use hoistway_replay::{Mistake, Outcome, Recorded, replay};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// `hoistway replay-decisions`.
#[derive(Debug, ClapArgs)]
pub struct ReplayDecisions {
    /// Recordings: CSV files, plain or compressed (.gz), named DRIVE.SCHEDULER.SCENARIO.csv. With --on: scenario files
    /// to record, as of `hoistway differ` [default: the fixed set of 14]
    #[arg(required_unless_present = "on", value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Record first: in linux, or linux:NAME (`hoistway linux list`)
    #[arg(long, value_name = "WORLD", conflicts_with_all = ["weight", "low_latency", "buffer_kib"])]
    pub on: Option<String>,
    /// With --on and no FILE: schedulers [default: mq-deadline,kyber,bfq]
    #[arg(
        long,
        short,
        value_name = "LIST",
        value_delimiter = ',',
        requires = "on",
        conflicts_with = "files"
    )]
    pub scheduler: Vec<String>,
    /// With --on: keep the recordings in this folder
    #[arg(long, short, value_name = "DIR", requires = "on")]
    pub out: Option<PathBuf>,
    /// Version of the kernel whose rules decide: value of bfq's tunable `base` [default: what the recording says, or 6.1]
    #[arg(long, value_name = "BASE")]
    pub base: Option<String>,
    /// Value of low_latency in the recordings [default: 0 if SCHEDULER is bfq-ll0, else 1]
    #[arg(long, value_name = "0|1", value_parser = clap::value_parser!(u64).range(0..=1))]
    pub low_latency: Option<u64>,
    /// Weight of a group in the recordings, as GROUP=N; may be repeated
    #[arg(long, value_name = "GROUP=N")]
    pub weight: Vec<String>,
    /// Size in KiB of the block buffers of buffered writes, each of which is a segment [default: 4 for disks, 1 for other
    /// drives]. A recording is of a disk if its device line says so or DRIVE is hdd
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub buffer_kib: Option<u32>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Version of the JSON that `--json` prints.
const JSON_SCHEMA: u32 = 2;
/// Largest recording, uncompressed: ten times those that there are.
const RECORDING: Limit = Limit { what: "a recording", bytes: 128 << 20 };

/// A file, the settings it was compared with, and what came of it.
struct Compared {
    file: String,
    settings: Recorded,
    outcome: Outcome,
}

pub fn replay_decisions(options: &ReplayDecisions) -> Result<(), Failure> {
    let weights = weights(&options.weight)?;
    // All are read before anything is compared.
    let recordings = match &options.on {
        Some(on) => recorded(on, options)?,
        None => {
            let read = |file: &PathBuf| Ok((file.display().to_string(), read(file)?));
            options.files.iter().map(read).collect::<Result<Vec<_>, Failure>>()?
        }
    };
    let mut all = Vec::new();
    for (file, text) in recordings {
        let name = Path::new(&file).file_name().unwrap_or_default().to_string_lossy();
        let mut settings = Recorded::named(&name);
        match &options.base {
            Some(base) => settings.set_base(base),
            None => {
                hoistway_replay::release(&text).iter().for_each(|r| settings.set_release(r));
                Ok(())
            }
        }
        .map_err(|e| Failure::Usage(format!("--base: {e}")))?;
        if let Some(on) = options.low_latency {
            settings.set("low_latency", on);
        }
        settings.buffer_kib = options.buffer_kib;
        weights.iter().for_each(|(group, weight)| settings.set_weight(group, *weight));
        let outcome = replay(&text, &settings).map_err(|mistake| match mistake {
            Mistake::Line { line, what } => Failure::Usage(format!("{file}:{line}: {what}")),
            Mistake::Setting(what) => Failure::Usage(what),
        })?;
        all.push(Compared { file, settings, outcome });
    }
    print(&if options.json { json(&all) } else { text(&all) })?;
    match all.iter().filter(|c| !c.outcome.agrees()).count() {
        0 => Ok(()),
        n => Err(Failure::Failed(format!("{n} of {} recordings differ", all.len()))),
    }
}

/// Names and texts of what is recorded now.
#[cfg(all(feature = "live", target_os = "linux"))]
fn recorded(on: &str, options: &ReplayDecisions) -> Result<Vec<(String, String)>, Failure> {
    crate::verbs::differ::record(on, &options.scheduler, &options.files, options.out.as_deref())
}

#[cfg(not(all(feature = "live", target_os = "linux")))]
fn recorded(on: &str, _: &ReplayDecisions) -> Result<Vec<(String, String)>, Failure> {
    let what = format!("--on {on}: this hoistway was built without its live part (feature live)");
    Err(Failure::Environment(what))
}

/// `GROUP=N`, each.
fn weights(given: &[String]) -> Result<Vec<(String, u64)>, Failure> {
    let parse = |text: &String| {
        let (group, weight) = text.split_once('=')?;
        let weight = weight.parse().ok()?;
        (!group.is_empty() && group != "root").then(|| (group.to_string(), weight))
    };
    let wrong = |text| format!("--weight: '{text}' is not GROUP=N, such as w0=100");
    given.iter().map(|t| parse(t).ok_or_else(|| Failure::Usage(wrong(t)))).collect()
}

fn read(path: &Path) -> Result<String, Failure> {
    let usage = |e: ReadError| Failure::Usage(e.to_string());
    let file = input::sized(path, RECORDING).map_err(usage)?;
    let bytes = match path.extension().is_some_and(|e| e == "gz") {
        true => input::bounded(MultiGzDecoder::new(file), RECORDING.bytes),
        false => input::bounded(file, RECORDING.bytes),
    };
    let bytes = bytes.map_err(|error| usage(ReadError::Io { path: path.into(), error }))?;
    let too_long = || usage(ReadError::TooLong { path: path.into(), limit: RECORDING });
    input::utf8(path, bytes.ok_or_else(too_long)?).map_err(usage)
}

fn pairs(list: &[(String, u64)]) -> String {
    let pairs: Vec<String> = list.iter().map(|(name, value)| format!("{name} {value}")).collect();
    pairs.join(", ")
}

/// The tunables but `base`, which is printed as a word.
fn tunables(settings: &Recorded) -> Vec<(String, u64)> {
    settings.tunables.iter().filter(|(name, _)| name != "base").cloned().collect()
}

fn text(all: &[Compared]) -> String {
    let mut out = String::new();
    for c in all {
        let (counts, outcome) = (&c.outcome.counts, &c.outcome);
        let _ = writeln!(out, "{}", c.file);
        let _ = writeln!(
            out,
            "  settings: base {}, {}",
            c.settings.base(),
            pairs(&tunables(&c.settings))
        );
        if !outcome.weights.is_empty() {
            let _ = writeln!(out, "  weights:  {}", pairs(&outcome.weights));
        }
        let _ = writeln!(
            out,
            "  compared: {} lines: {} merge verdicts ({} merged), {} insertions, {} dispatches, {} \
             expiries",
            counts.lines,
            counts.offered,
            counts.merged,
            counts.inserted,
            counts.dispatches,
            counts.expiries
        );
        if !outcome.left_out.is_empty() {
            let left_out: Vec<(String, u64)> =
                outcome.left_out.iter().map(|(name, n)| (name.clone(), *n)).collect();
            let _ = writeln!(
                out,
                "  left out, since the kernel does not have it or does not take it (how often): {}",
                pairs(&left_out)
            );
        }
        let Some(d) = &outcome.first else {
            out.push_str("  every line agrees\n");
            continue;
        };
        let kinds = outcome.differences.kinds().map(|(kind, n)| format!("{n} {kind}")).join(", ");
        let _ = writeln!(out, "  {} differ: {kinds}", outcome.differences.total());
        if let Some(line) = outcome.given_up {
            let _ = writeln!(out, "  ended at line {line}: too little is left in common");
        }
        let _ = writeln!(out, "  differs first at line {}", d.line);
        let _ = writeln!(out, "  recorded: {}", d.recorded);
        let _ = writeln!(out, "  ours:     {}", d.ours);
        out.push_str("  our queues:\n");
        d.state.lines().for_each(|line| out.push_str(&format!("    {line}\n")));
    }
    out
}

fn json(all: &[Compared]) -> String {
    let map = |list: &[(String, u64)]| -> serde_json::Value {
        list.iter().map(|(name, value)| (name.clone(), serde_json::Value::from(*value))).collect()
    };
    let one = |c: &Compared| {
        let (counts, differences) = (&c.outcome.counts, &c.outcome.differences);
        let kinds = differences.kinds().map(|(kind, n)| (kind.to_string(), n));
        let mut value = serde_json::json!({
            "file": c.file,
            "base": c.settings.base(),
            "tunables": map(&tunables(&c.settings)),
            "weights": map(&c.outcome.weights),
            "agrees": c.outcome.agrees(),
            "counts": {
                "lines": counts.lines, "merge_verdicts": counts.offered, "merged": counts.merged,
                "insertions": counts.inserted, "dispatches": counts.dispatches,
                "expiries": counts.expiries, "timers": counts.timers,
            },
            "differences": map(&kinds),
            "left_out": c.outcome.left_out,
        });
        if let Some(d) = &c.outcome.first {
            value["first"] = serde_json::json!({
                "line": d.line, "recorded": d.recorded, "ours": d.ours, "state": d.state,
            });
        }
        if let Some(line) = c.outcome.given_up {
            value["ended_at_line"] = line.into();
        }
        value
    };
    let recordings: Vec<serde_json::Value> = all.iter().map(one).collect();
    format!("{:#}\n", serde_json::json!({ "schema": JSON_SCHEMA, "recordings": recordings }))
}
