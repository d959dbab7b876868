//! `hoistway diff`: two run directories beside each other.

use crate::common::output::print;
use crate::common::run_dirs::read;
use crate::common::table::{Table, cell, limit, three, told_apart};
use crate::failure::Failure;
use clap::Args as ClapArgs;
use hoistway_lab::diff::{Difference, ManifestDifference, PairedQuantity, diff as compare};
use hoistway_lab::stats::Bounded;
use std::fmt::Write as _;
use std::path::PathBuf;

/// `hoistway diff`.
#[derive(Debug, ClapArgs)]
#[command(
    after_help = "Exit codes: 0 nothing differs, 1 something differs, 2 wrong usage. A measured \
                        quantity differs if the 99 % interval of its ratio excludes 1 and the ratio is off 1 by \
                        more than 3 % (with fewer than three repetitions: if the ratio is). A run that only one \
                        of the directories has counts as a difference."
)]
pub struct Diff {
    /// Old run directory
    #[arg(value_name = "RUN")]
    pub old: PathBuf,
    /// New run directory, compared with the old one
    #[arg(value_name = "RUN")]
    pub new: PathBuf,
    /// Also print what does not differ
    #[arg(long)]
    pub all: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Print every column of the table, however narrow the terminal
    #[arg(long)]
    pub wide: bool,
}

pub fn diff(options: &Diff) -> Result<(), Failure> {
    let (old, new) = (read(&options.old)?, read(&options.new)?);
    if old.manifest.experiment != new.manifest.experiment {
        return Err(Failure::Usage(format!(
            "{} is a run of {}, {} one of {}; give two runs of one experiment",
            options.old.display(),
            old.manifest.experiment,
            options.new.display(),
            new.manifest.experiment
        )));
    }
    let found = compare(&old, &new);
    print(&if options.json { json(&found) } else { text(&found, options) })?;
    if found.differs() { Err(Failure::No) } else { Ok(()) }
}

fn text(found: &Difference, options: &Diff) -> String {
    let mut out = String::new();
    let side = |v: &Option<String>| v.clone().unwrap_or_else(|| "(not there)".into());
    for ManifestDifference { what, old, new } in &found.manifest {
        let _ = writeln!(out, "{what}\n  - {}\n  + {}", side(old), side(new));
    }
    for (sign, cells) in [('-', &found.only_old), ('+', &found.only_new)] {
        for cell in cells {
            let _ = writeln!(out, "{sign} {cell}: in this run alone");
        }
    }
    let shown: Vec<&PairedQuantity> =
        found.quantities.iter().filter(|q| options.all || q.differs()).collect();
    if !shown.is_empty() {
        if !out.is_empty() {
            out.push('\n');
        }
        let headings =
            ["drive", "workload", "config", "metric", "old", "new", "unit", "ratio", "99 %"];
        let mut table = Table::new(&headings, 4);
        for q in shown {
            table.row(vec![
                q.drive.clone(),
                q.workload.clone(),
                q.config.clone(),
                q.metric.into(),
                cell(q.comparison.reference),
                cell(q.comparison.value),
                q.unit.into(),
                told_apart(&q.comparison),
                interval(q),
            ]);
        }
        out.push_str(&table.fit(limit(options.wide), &["unit", "99 %"]));
    }
    let differ = found.quantities.iter().filter(|q| q.differs()).count();
    let _ = writeln!(out, "{differ} of {} quantities differ", found.quantities.len());
    if found.quantities.iter().any(|q| !q.comparison.paired) {
        out.push_str("(seeds differ: repetitions are not compared one by one)\n");
    }
    out
}

fn interval(q: &PairedQuantity) -> String {
    let interval = q.comparison.ratio.and_then(|r| r.interval);
    interval.map_or_else(|| "-".into(), |(low, high)| format!("{} to {}", three(low), three(high)))
}

fn json(found: &Difference) -> String {
    let value = |v: Option<Bounded>| {
        v.map(|v| serde_json::json!({ "value": v.value, "bound": v.bound.sign() }))
    };
    let quantity = |q: &PairedQuantity| {
        let c = &q.comparison;
        let mut of = crate::common::results::comparison_json(c);
        let own = serde_json::json!({
            "drive": q.drive, "config": q.config, "workload": q.workload,
            "metric": q.metric, "unit": q.unit, "old": value(c.reference), "new": value(c.value),
            "paired": c.paired, "differs": q.differs(),
        });
        of.as_object_mut().expect("it is one").extend(own.as_object().expect("it is one").clone());
        of
    };
    let entry =
        |e: &ManifestDifference| serde_json::json!({ "what": e.what, "old": e.old, "new": e.new });
    let value = serde_json::json!({
        "schema": 1,
        "differs": found.differs(),
        "manifest": found.manifest.iter().map(entry).collect::<Vec<_>>(),
        "only_old": found.only_old,
        "only_new": found.only_new,
        "quantities": found.quantities.iter().map(quantity).collect::<Vec<_>>(),
    });
    format!("{value:#}\n")
}
