//! Two run directories beside each other: what was run differently, and how far what was measured differs.

use crate::result::{Cell, Judge, Manifest, Rep, Run, counts, rep_value};
use crate::stats::{Bounded, Ratio, paired_ratio_bounded, unpaired_ratio};
use std::collections::BTreeMap;

/// What differs between two runs.
#[derive(Clone, Debug)]
pub struct Difference {
    /// Of what decided the results.
    pub manifest: Vec<Entry>,
    /// Every quantity of the cells that both have.
    pub quantities: Vec<Quantity>,
    /// Cells of the first run alone, as `drive/config/workload`.
    pub only_old: Vec<String>,
    /// Cells of the second run alone.
    pub only_new: Vec<String>,
}

/// Something in the manifests that is not the same; `None`: one run does not have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What it is, such as `drive plextor-px-256m5s: flash.channels`.
    pub what: String,
    /// In the first run.
    pub old: Option<String>,
    /// In the second.
    pub new: Option<String>,
}

/// A quantity of a cell in both runs.
#[derive(Clone, Debug)]
pub struct Quantity {
    /// The cell.
    pub drive: String,
    /// Its configuration.
    pub config: String,
    /// Its workload.
    pub workload: String,
    /// Name, as in `metrics.csv`.
    pub metric: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// Mean over the repetitions of the first run.
    pub old: Option<Bounded>,
    /// The same of the second.
    pub new: Option<Bounded>,
    /// Second over first. `None` if either has no value or the value 0.
    pub ratio: Option<Ratio>,
    /// Repetitions with the same seeds were compared one by one.
    pub paired: bool,
    /// It differs, see [`Ratio::differs`]; without a ratio: the means are not the same.
    pub differs: bool,
}

impl Difference {
    /// Is anything measured different?
    pub fn differs(&self) -> bool {
        let alone = !self.only_old.is_empty() || !self.only_new.is_empty();
        alone || self.quantities.iter().any(|q| q.differs)
    }
}

/// Compares two runs.
pub fn diff(old: &Run, new: &Run) -> Difference {
    let name = |c: &Cell| format!("{}/{}/{}", c.drive, c.config, c.workload);
    let partner = |run: &'_ Run, c: &Cell| run.cells.iter().position(|o| name(o) == name(c));
    let alone = |of: &Run, other: &Run| {
        let cells = of.cells.iter().filter(|c| partner(other, c).is_none());
        cells.map(name).collect::<Vec<_>>()
    };
    let mut quantities = Vec::new();
    for cell in &old.cells {
        let Some(at) = partner(new, cell) else { continue };
        let judge = judge_of(old, cell);
        let all = measures(judge, cell);
        quantities.extend(all.iter().filter_map(|m| quantity(cell, &new.cells[at], m)));
    }
    Difference {
        manifest: entries(&old.manifest, &new.manifest),
        quantities,
        only_old: alone(old, new),
        only_new: alone(new, old),
    }
}

fn judge_of(run: &Run, cell: &Cell) -> Judge {
    let beside =
        run.cells.iter().filter(|c| (&c.drive, &c.workload) == (&cell.drive, &cell.workload));
    Judge::of(&run.manifest, beside)
}

/// What is compared, and its unit; what the experiment judges by comes first.
fn measures(judge: Judge, cell: &Cell) -> Vec<(&'static str, &'static str)> {
    const TOTAL: (&str, &str) = ("throughput_total", "MB/s");
    match judge {
        Judge::Startup => vec![("startup_time", "s"), TOTAL],
        Judge::Count => {
            let count = counts::decisive(cell).map(|d| (d.name, d.unit));
            count.into_iter().chain([TOTAL]).collect()
        }
        Judge::Latency => vec![("latency_avg", "ms"), TOTAL, ("throughput_target", "MB/s")],
        Judge::Share => vec![
            ("throughput_target", "MB/s"),
            ("jain_interferers", "1"),
            TOTAL,
            ("latency_avg", "ms"),
        ],
        Judge::Throughput => vec![TOTAL, ("jain_interferers", "1")],
    }
}

fn quantity(old: &Cell, new: &Cell, measure: &(&'static str, &'static str)) -> Option<Quantity> {
    let &(metric, unit) = measure;
    let column = |c: &Cell| -> Option<Vec<Bounded>> {
        c.reps.iter().map(|rep: &Rep| rep_value(rep, metric)).collect()
    };
    let seeds = |c: &Cell| c.reps.iter().map(|r| r.seed).collect::<Vec<_>>();
    let (before, after) = (column(old), column(new));
    if before.is_none() && after.is_none() {
        return None;
    }
    let paired = seeds(old) == seeds(new);
    let ratio = before.as_ref().zip(after.as_ref()).and_then(|(before, after)| {
        let of = if paired { paired_ratio_bounded } else { unpaired_ratio };
        of(after, before)
    });
    let mean = |c: Option<Vec<Bounded>>| c.and_then(|c| Bounded::mean(&c));
    let (before, after) = (mean(before), mean(after));
    let differs = ratio.map_or(before != after, |r| r.differs());
    Some(Quantity {
        drive: old.drive.clone(),
        config: old.config.clone(),
        workload: old.workload.clone(),
        metric,
        unit,
        old: before,
        new: after,
        ratio,
        paired,
        differs,
    })
}

/// Names and values of everything in a manifest that may differ.
fn flat(m: &Manifest) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    let mut put = |name: String, value: String| drop(all.insert(name, value));
    put("experiment".into(), m.experiment.clone());
    put("world".into(), m.world.clone());
    put("hoistway".into(), m.version.clone());
    put("command".into(), m.command.clone());
    put("seed".into(), m.seed.to_string());
    put("repetitions".into(), m.reps.to_string());
    put("quick".into(), m.quick.to_string());
    for (name, value) in &m.host {
        put(format!("host: {name}"), value.clone());
    }
    for (name, value) in &m.machine {
        put(format!("machine: {name}"), value.clone());
    }
    for config in &m.configs {
        for (name, value) in &config.tunables {
            put(format!("config {}: {name}", config.id), value.to_string());
        }
    }
    for workload in &m.workloads {
        put(format!("workload {}", workload.id), workload.summary.clone());
    }
    for drive in &m.drives {
        let table: toml::Table = drive.parameters.parse().unwrap_or_default();
        let mut values = Vec::new();
        leaves("", &toml::Value::Table(table), &mut values);
        for (name, value) in values {
            put(format!("drive {}: {name}", drive.id), value);
        }
    }
    all
}

/// Path and text of every value in a table.
fn leaves(path: &str, value: &toml::Value, out: &mut Vec<(String, String)>) {
    match value {
        toml::Value::Table(table) => {
            for (key, inner) in table {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                leaves(&path, inner, out);
            }
        }
        value => out.push((path.to_string(), value.to_string())),
    }
}

fn entries(old: &Manifest, new: &Manifest) -> Vec<Entry> {
    let (old, new) = (flat(old), flat(new));
    let names: std::collections::BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    let entry = |name: &String| Entry {
        what: name.clone(),
        old: old.get(name).cloned(),
        new: new.get(name).cloned(),
    };
    names.into_iter().map(entry).filter(|e| e.old != e.new).collect()
}
