//! What `calibrate` prints: plan, fit table, JSON.

use crate::common::table::Table;
use hoistway_lab::calibrate::{FitRow, FoundDrive, Raw, undecided};
use hoistway_sim::probe::{Subject, Test};
use std::path::Path;

/// What would be done.
pub fn plan(subject: &Subject, tests: &[Test], repetitions: usize) -> String {
    let mut table = Table::new(&["test", "s at most", "writes"], 1);
    let mut total = 0.0;
    for test in tests {
        let seconds = super::length(test, repetitions) as f64 / 1e9;
        total += seconds;
        let writes = if test.writes() { "yes" } else { "no" };
        table.row(vec![test.name.clone(), format!("{seconds:.1}"), writes.into()]);
    }
    format!("{}: {} tests, at most {total:.0} s\n\n{}", subject.title, tests.len(), table.render())
}

pub fn raw_text(raw: &Raw) -> String {
    serde_json::to_string(raw).expect("plain data")
}

fn figure(value: f64) -> String {
    match value {
        v if v >= 1000.0 => format!("{v:.0}"),
        v if v >= 100.0 => format!("{v:.1}"),
        v => format!("{v:.2}"),
    }
}

fn fit_table(rows: &[FitRow]) -> String {
    let headings =
        ["test", "figure", "unit", "measured", "simulated", "error", "demerit", "decides"];
    let mut table = Table::new(&headings, 3);
    for row in rows {
        table.row(vec![
            row.test.clone(),
            row.what.into(),
            row.unit.into(),
            figure(row.measured),
            figure(row.simulated),
            format!("{:+.1} %", 100.0 * row.error()),
            row.demerit.map_or_else(|| "-".into(), |d| format!("{d:.2}")),
            undecided(row).map_or_else(|| "yes".into(), |why| format!("no: {why}")),
        ]);
    }
    table.render()
}

/// Below this a submitter comes before the next flush, as everywhere in the simulator.
const REACTION_SHOWN_US: f64 = 20.0;

pub fn text(raw: &Raw, found: &FoundDrive, out: Option<&Path>) -> String {
    let mut text = fit_table(&found.rows);
    let mut line = |words: String| text.push_str(&format!("\n{words}\n"));
    line(format!(
        "Drive model: {}. What no test tells is as in {}.",
        found.choice.why, found.choice.class
    ));
    line(found.quality.sentence());
    if found.reaction_us > REACTION_SHOWN_US {
        line(format!(
            "After a flush this machine let submitters go on {:.0} us apart (not the drive's doing; in the simulated figures).",
            found.reaction_us
        ));
    }
    if !found.guessed.is_empty() {
        line(format!("Not measured in this run: {}.", found.guessed.join(", ")));
    }
    line(io_cost(found));
    let target =
        |us: Option<f64>| us.map_or_else(|| "not measured".into(), |us| format!("{us:.0} us"));
    let targets = &found.targets;
    line(format!(
        "Proposed latency targets, untried: reads {}, writes {}.",
        target(targets.read_us),
        target(targets.write_us)
    ));
    for note in &raw.notes {
        line(format!("Note: {note}."));
    }
    if let Some(out) = out {
        line(format!(
            "Written: {0}. Now `hoistway compare --drive {0}` answers for this drive.",
            out.display()
        ));
    }
    text
}

/// The line for io.cost, and what of it nobody has measured.
fn io_cost(found: &FoundDrive) -> String {
    let c = &found.file.iocost;
    let mut line = format!(
        "io.cost.model: rbps={} rseqiops={} rrandiops={} wbps={} wseqiops={} wrandiops={}",
        c.rbps, c.rseqiops, c.rrandiops, c.wbps, c.wseqiops, c.wrandiops
    );
    let guessed: Vec<&str> =
        found.guessed.iter().filter_map(|key| key.strip_prefix("iocost.")).collect();
    if !guessed.is_empty() {
        let class = &found.choice.class;
        line += &format!(
            "\n  Not to be set as it is: {} were not measured and are as in {class}; --write measures them.",
            guessed.join(", ")
        );
    }
    if !found.quality.good {
        line += "\n  The fit is poor: what io.cost makes of these rates is untold.";
    }
    line
}

pub fn json(raw: &Raw, found: &FoundDrive) -> String {
    let row = |r: &FitRow| {
        serde_json::json!({
            "test": r.test, "figure": r.what, "unit": r.unit, "measured": r.measured,
            "simulated": r.simulated, "error": r.error(),
            "demerit": r.demerit.filter(|d| d.is_finite()),
            "undecided": undecided(r),
        })
    };
    let quality = &found.quality;
    let value = serde_json::json!({
        "schema": 1,
        "subject": raw.subject,
        "notes": raw.notes,
        "model": found.choice.model,
        "why": found.choice.why,
        "class": found.choice.class,
        "fit": if quality.good { "good" } else { "poor" },
        "mean_error": quality.mean_error,
        "worst_error": quality.worst,
        "beyond": quality.beyond.iter().map(|(test, what, error, demerit)| {
            serde_json::json!({ "test": test, "figure": what, "error": error, "demerit": demerit })
        }).collect::<Vec<_>>(),
        "machine_reaction_us": found.reaction_us,
        "guessed": found.guessed,
        "latency_target_read_us": found.targets.read_us,
        "latency_target_write_us": found.targets.write_us,
        "rows": found.rows.iter().map(row).collect::<Vec<_>>(),
        "drive_file": found.text,
    });
    format!("{value:#}\n")
}
