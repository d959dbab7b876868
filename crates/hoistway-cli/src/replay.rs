//! `hoistway replay-decisions FILE...`: recorded kernel decisions against those of this BFQ.

use crate::args::ReplayDecisions;
use crate::{Failure, print};
use flate2::read::MultiGzDecoder;
use hoistway::sched::bfq::replay::{Agreement, Cause, Difference, Recorded, replay};
use std::fmt::Write as _;
use std::io::Read as _;
use std::path::Path;

/// Version of the JSON that `--json` prints.
const JSON_SCHEMA: u32 = 1;
/// Largest recording, uncompressed: a hundred times those that there are.
const MOST_BYTES: u64 = 1 << 30;

/// A file, the settings it was compared with, and what came of it.
struct Compared {
    file: String,
    settings: Recorded,
    result: Result<Agreement, Difference>,
}

pub fn replay_decisions(options: &ReplayDecisions) -> Result<(), Failure> {
    let weights = weights(&options.weight)?;
    // All are read before anything is compared.
    let mut recordings = Vec::new();
    for file in &options.files {
        recordings.push((file.display().to_string(), read(file)?, file));
    }
    let mut all = Vec::new();
    for (file, text, path) in recordings {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let mut settings = Recorded::named(&name);
        if let Some(on) = options.low_latency {
            settings.set("low_latency", on);
        }
        weights.iter().for_each(|(group, weight)| settings.set_weight(group, *weight));
        let result = replay(&text, &settings);
        match &result {
            Err(d) if d.cause == Cause::Unreadable => {
                return Err(Failure::Usage(format!("{file}:{}: {}", d.line, d.ours)));
            }
            Err(d) if d.cause == Cause::Setting => return Err(Failure::Usage(d.ours.clone())),
            _ => all.push(Compared { file, settings, result }),
        }
    }
    print(&if options.json { json(&all) } else { text(&all) })?;
    match all.iter().filter(|c| c.result.is_err()).count() {
        0 => Ok(()),
        n => Err(Failure::Failed(format!("{n} of {} recordings differ", all.len()))),
    }
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
    let wrong =
        |e: std::io::Error| Failure::Usage(format!("{}: cannot be read: {e}", path.display()));
    let file = std::fs::File::open(path).map_err(wrong)?;
    let mut bytes = Vec::new();
    if path.extension().is_some_and(|e| e == "gz") {
        MultiGzDecoder::new(file).take(MOST_BYTES).read_to_end(&mut bytes).map_err(wrong)?;
    } else {
        file.take(MOST_BYTES).read_to_end(&mut bytes).map_err(wrong)?;
    }
    if bytes.len() as u64 == MOST_BYTES {
        let text = format!("{}: longer than {MOST_BYTES} bytes; split it", path.display());
        return Err(Failure::Usage(text));
    }
    String::from_utf8(bytes).map_err(|e| {
        let good = &e.as_bytes()[..e.utf8_error().valid_up_to()];
        let line = 1 + good.iter().filter(|&&b| b == b'\n').count();
        Failure::Usage(format!("{}:{line}: not text", path.display()))
    })
}

fn pairs(list: &[(String, u64)]) -> String {
    let pairs: Vec<String> = list.iter().map(|(name, value)| format!("{name} {value}")).collect();
    pairs.join(", ")
}

fn text(all: &[Compared]) -> String {
    let mut out = String::new();
    for c in all {
        let _ = writeln!(out, "{}", c.file);
        let _ = writeln!(out, "  settings: {}", pairs(&c.settings.tunables));
        let _ = writeln!(out, "  weights:  {}", pairs(&c.settings.weights));
        match &c.result {
            Ok(a) => {
                let _ = writeln!(
                    out,
                    "  agrees:   {} merge verdicts ({} merged), {} insertions, {} dispatches, {} \
                     expiries",
                    a.offered, a.merged, a.inserted, a.dispatches, a.expiries
                );
            }
            Err(d) => {
                let _ = writeln!(out, "  differs at line {}", d.line);
                let _ = writeln!(out, "  recorded: {}", d.recorded);
                let _ = writeln!(out, "  ours:     {}", d.ours);
                out.push_str("  our queues:\n");
                d.state.lines().for_each(|line| out.push_str(&format!("    {line}\n")));
            }
        }
    }
    out
}

fn json(all: &[Compared]) -> String {
    let map = |list: &[(String, u64)]| -> serde_json::Value {
        list.iter().map(|(name, value)| (name.clone(), serde_json::Value::from(*value))).collect()
    };
    let one = |c: &Compared| {
        let mut value = serde_json::json!({
            "file": c.file,
            "tunables": map(&c.settings.tunables),
            "weights": map(&c.settings.weights),
            "agrees": c.result.is_ok(),
        });
        match &c.result {
            Ok(a) => {
                value["counts"] = serde_json::json!({
                    "merge_verdicts": a.offered, "merged": a.merged, "insertions": a.inserted,
                    "dispatches": a.dispatches, "expiries": a.expiries,
                });
            }
            Err(d) => {
                value["difference"] = serde_json::json!({
                    "line": d.line, "recorded": d.recorded, "ours": d.ours, "state": d.state,
                });
            }
        }
        value
    };
    let recordings: Vec<serde_json::Value> = all.iter().map(one).collect();
    format!("{:#}\n", serde_json::json!({ "schema": JSON_SCHEMA, "recordings": recordings }))
}
