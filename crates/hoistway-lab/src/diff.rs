//! Two run directories beside each other: what was run differently, and how far what was measured differs.

use crate::judge::{self, Comparison, Side};
use crate::result::{Cell, Judge, Manifest, Run, counts};
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
    /// The second run over the first.
    pub comparison: Comparison,
}

impl Quantity {
    /// One side is known to be larger, or has no value where the other has one.
    pub fn differs(&self) -> bool {
        let Comparison { value, reference, finding, .. } = self.comparison;
        finding.differs() || value.is_some() != reference.is_some()
    }
}

impl Difference {
    /// Is anything measured different?
    pub fn differs(&self) -> bool {
        let alone = !self.only_old.is_empty() || !self.only_new.is_empty();
        alone || self.quantities.iter().any(Quantity::differs)
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
        let before = Side { manifest: &old.manifest, cell };
        let after = Side { manifest: &new.manifest, cell: &new.cells[at] };
        for (metric, unit) in measures(old, cell) {
            let comparison = judge::compare(after, before, metric);
            if comparison.value.is_some() || comparison.reference.is_some() {
                quantities.push(Quantity {
                    drive: cell.drive.clone(),
                    config: cell.config.clone(),
                    workload: cell.workload.clone(),
                    metric,
                    unit,
                    comparison,
                });
            }
        }
    }
    Difference {
        manifest: entries(&old.manifest, &new.manifest),
        quantities,
        only_old: alone(old, new),
        only_new: alone(new, old),
    }
}

/// What is compared, and its unit; what the experiment judges by comes first.
fn measures(run: &Run, cell: &Cell) -> Vec<(&'static str, &'static str)> {
    let same = |c: &&Cell| (&c.drive, &c.workload) == (&cell.drive, &cell.workload);
    let beside: Vec<&Cell> = run.cells.iter().filter(same).collect();
    let judge = Judge::of(&run.manifest, beside.iter().copied());
    let more: &[&str] = match judge {
        Judge::Startup | Judge::Count => &["throughput_total"],
        Judge::Latency => &["throughput_total", "throughput_target"],
        Judge::Share => {
            &["throughput_target", "jain_interferers", "throughput_total", "latency_avg"]
        }
        Judge::Throughput => &["jain_interferers"],
    };
    let all = judge::decisive(judge, &beside).into_iter().chain(more.iter().copied());
    let unit = |metric: &'static str| match metric {
        "latency_avg" => "ms",
        "startup_time" => "s",
        m if m.starts_with("throughput_") => "MB/s",
        m if m.starts_with("share_") || m.starts_with("jain_") => "1",
        count => counts::of_name(count).0,
    };
    all.map(|metric| (metric, unit(metric))).collect()
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
