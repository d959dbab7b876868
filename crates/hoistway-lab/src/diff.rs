//! Two run directories beside each other: what was run differently, and how far what was measured differs.

use crate::judge::{self, Comparison, Side};
use crate::result::{Cell, Judge, Manifest, Metric, Run, counts};
use crate::stats::Ratio;
use std::collections::BTreeMap;

/// What differs between two runs.
#[derive(Clone, Debug)]
pub struct Difference {
    /// Of what decided the results.
    pub manifest: Vec<ManifestDifference>,
    /// Every quantity of the cells that both have.
    pub quantities: Vec<PairedQuantity>,
    /// Cells of the first run alone, as `drive/config/workload`.
    pub only_old: Vec<String>,
    /// Cells of the second run alone.
    pub only_new: Vec<String>,
}

/// Something in the manifests that is not the same; `None`: one run does not have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestDifference {
    /// What it is, such as `drive plextor-px-256m5s: flash.channels`.
    pub what: String,
    /// In the first run.
    pub old: Option<String>,
    /// In the second.
    pub new: Option<String>,
}

/// A quantity of a cell in both runs.
#[derive(Clone, Debug)]
pub struct PairedQuantity {
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

impl PairedQuantity {
    /// It differs, and by more than the band allows: 0.05 is 5 % in both directions.
    pub fn left(&self, band: f64) -> bool {
        let far = |r: Ratio| r.mean > 1.0 + band || r.mean < 1.0 / (1.0 + band);
        // No value, or the value 0, on one side: nothing to divide.
        self.differs() && self.comparison.ratio.is_none_or(far)
    }

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
        alone || self.quantities.iter().any(PairedQuantity::differs)
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
                quantities.push(PairedQuantity {
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
    // How much is merged moves where times hardly do.
    let more = more.iter().copied().chain(["merges"]);
    let all = judge::decisive(judge, &beside).into_iter().chain(more);
    let unit = |metric: &'static str| match metric {
        "latency_avg" => "ms",
        "startup_time" => "s",
        m if m.starts_with("throughput_") => "MB/s",
        m if m.starts_with("share_") || m.starts_with("jain_") => "1",
        count => counts::of_name(count).0,
    };
    all.map(|metric| (metric, unit(metric))).collect()
}

/// A scheduler that chose less than this part of its requests among several had no choice.
const CHOICE: f64 = 0.01;

/// The cells in which the scheduler had next to no choice, as `drive/config/workload`: a change of it hardly shows there.
/// `None` where the world does not count choices.
pub fn without_choice(run: &Run) -> Option<Vec<String>> {
    let choice = |m: &&Metric| m.metric == "scheduler_choice" && m.rep.is_none();
    let mut counted = run.metrics.iter().filter(choice).peekable();
    counted.peek()?;
    let scheduler =
        |id: &str| run.manifest.configs.iter().find(|c| c.id == id).map(|c| c.scheduler.as_str());
    let none = counted.filter(|m| m.value.is_some_and(|part| part < CHOICE));
    // Who only passes on has none by its nature.
    let none = none.filter(|m| scheduler(&m.config) != Some("none"));
    Some(none.map(|m| format!("{}/{}/{}", m.drive, m.config, m.workload)).collect())
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
        if !workload.load.is_empty() {
            put(format!("workload {}: load", workload.id), workload.load.clone());
        }
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

fn entries(old: &Manifest, new: &Manifest) -> Vec<ManifestDifference> {
    let (old, new) = (flat(old), flat(new));
    let names: std::collections::BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    let entry = |name: &String| ManifestDifference {
        what: name.clone(),
        old: old.get(name).cloned(),
        new: new.get(name).cloned(),
    };
    names.into_iter().map(entry).filter(|e| e.old != e.new).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::experiment::{Experiment, Options};
    use crate::run::Grid;
    use crate::world::Sim;
    use hoistway_sim::drive::DriveFile;
    use std::sync::atomic::AtomicBool;

    /// A run of the experiment for patches under one configuration, which is called `subject` whatever it is.
    fn run(experiment: &str, drive: &str, workloads: &[&str], config: &str) -> Run {
        let experiment = Experiment::load(experiment).unwrap();
        let mut grid = Grid {
            reps: experiment.reps,
            experiment,
            drives: vec![DriveFile::load(drive).unwrap()],
            workloads: workloads.iter().map(|w| w.to_string()).collect(),
            configs: vec![Config::parse(config).unwrap()],
            seed: 1,
            options: Options { quick: false, duration: None, trace: None },
            command: String::new(),
        };
        grid.configs[0].id = "subject".into();
        grid.run(&Sim, 2, &AtomicBool::new(false), &|_| {}).unwrap()
    }

    /// Each constant changed as a patch would change it leaves the band in the experiment of the guide.
    #[test]
    fn the_gate_for_patches_notices_changed_constants() {
        let disk = "laptop-hdd-2009-noncq";
        let all: [(&str, &str, &[&str], &[&str]); 3] = [
            (
                "mq-deadline",
                disk,
                &["reads", "writes", "read-sweep", "write-sweep", "classes", "merges"],
                &[
                    "fifo_batch=1",
                    "writes_starved=8",
                    "read_expire=50",
                    "write_expire=500",
                    "prio_aging_expire=5000",
                    "front_merges=0",
                ],
            ),
            ("kyber", "plextor-px-256m5s", &["writes"], &["read_lat_nsec=200000"]),
            (
                "bfq",
                disk,
                &["reads", "merges", "streams", "start"],
                &[
                    "slice_idle=0",
                    "timeout_sync=30",
                    "max_budget=512",
                    "back_seek_max=0",
                    "back_seek_penalty=16",
                    "low_latency=0",
                    "wr_coeff=4",
                ],
            ),
        ];
        let mut passed = Vec::new();
        for (scheduler, drive, workloads, patches) in all {
            let of = |more: &str| {
                let config = format!("{scheduler}{{nr_requests=256{more}}}");
                run("scheduler-patch", drive, workloads, &config)
            };
            let base = of("");
            assert_eq!(without_choice(&base), Some(Vec::new()), "{scheduler} has a choice");
            let again = diff(&base, &of(""));
            assert!(!again.quantities.iter().any(|q| q.left(0.0)), "{scheduler}: the same");
            for patch in patches {
                let found = diff(&base, &of(&format!(",{patch}")));
                if !found.quantities.iter().any(|q| q.left(0.05)) {
                    passed.push(format!("{scheduler} {patch}"));
                }
            }
        }
        assert_eq!(passed, Vec::<String>::new(), "patches that the gate lets pass");
    }

    /// What the drive takes at once leaves nothing to choose: patches pass, and the gate says why.
    #[test]
    fn where_nothing_waits_the_scheduler_has_no_choice() {
        let of = |config: &str| run("latency-2019", "plextor-px-256m5s", &["readers"], config);
        let (base, patched) = (of("mq-deadline"), of("mq-deadline{writes_starved=8}"));
        assert!(!diff(&base, &patched).quantities.iter().any(|q| q.left(0.0)));
        let cell = "plextor-px-256m5s/subject/readers".to_string();
        assert_eq!(without_choice(&base), Some(vec![cell]));
        let mut other = base;
        other.metrics.retain(|m| m.metric != "scheduler_choice");
        assert_eq!(without_choice(&other), None);
    }
}
