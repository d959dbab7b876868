//! What control brings the target and what it costs the drive, where an experiment has the target alone on
//! the drive: latency over that alone, and throughput over that without control.
//!
//! The target alone is the workload `alone`, or `TARGET+alone` for a workload `TARGET+LOAD`, under the
//! reference configuration: what the drive itself needs, whatever is measured. Throughput is that of the
//! device, and beside it that of the *others*: a target that is served faster moves more itself, which
//! must not hide what the others lose.

use super::{Cell, Manifest, pooled, reference, target};
use crate::judge::{self, Comparison, Side};
use crate::stats::Percentile;

/// The last word of a workload that is a target alone.
pub const ALONE: &str = "alone";

/// The workload in which the target of this one is alone; `None`: this is one itself.
pub fn alone_workload(workload: &str) -> Option<String> {
    let (target, load) = match workload.split_once('+') {
        Some((target, load)) => (Some(target), load),
        None => (None, workload),
    };
    let alone = || target.map_or_else(|| ALONE.to_string(), |t| format!("{t}+{ALONE}"));
    (load != ALONE).then(alone)
}

/// The target of a workload alone on the drive, under the reference configuration.
pub fn alone<'a>(manifest: &Manifest, cells: &'a [Cell], cell: &Cell) -> Option<&'a Cell> {
    let (workload, config) = (alone_workload(&cell.workload)?, reference(manifest)?);
    cells.iter().find(|c| {
        (c.drive.as_str(), c.config.as_str(), c.workload.as_str())
            == (cell.drive.as_str(), config, workload.as_str())
    })
}

/// The same drive and workload under the reference configuration.
pub fn uncontrolled<'a>(manifest: &Manifest, cells: &'a [Cell], cell: &Cell) -> Option<&'a Cell> {
    let config = reference(manifest)?;
    cells.iter().find(|c| {
        (c.drive.as_str(), c.config.as_str(), c.workload.as_str())
            == (cell.drive.as_str(), config, cell.workload.as_str())
    })
}

/// A cell beside the same without control and the target alone.
#[derive(Clone, Copy, Debug, Default)]
pub struct Control {
    /// Mean latency over that alone.
    pub latency: Option<Comparison>,
    /// 99th percentile over that alone, each of all repetitions' samples; `None` of too few.
    pub p99: Option<f64>,
    /// Throughput of the device over that without control; 1 is all of it.
    pub total: Option<Comparison>,
    /// The same of the bytes of the others' calls.
    pub others: Option<Comparison>,
}

impl Control {
    /// Of a cell. Everything is `None` that has no counterpart.
    pub fn of(manifest: &Manifest, cells: &[Cell], cell: &Cell) -> Control {
        let alone = alone(manifest, cells, cell);
        let free = uncontrolled(manifest, cells, cell);
        let targeted = cell.reps.iter().all(|rep| target(rep).is_some());
        let p99 = || Some(p99(cell)? / p99(alone?)?);
        let over = |other: Option<&Cell>, metric| other.map(|o| over(manifest, cell, o, metric));
        Control {
            latency: over(alone.filter(|_| targeted), "latency_avg"),
            p99: p99(),
            total: over(free, "throughput_total"),
            others: over(free, "throughput_interferers"),
        }
    }
}

/// A quantity of a cell over that of another one of the same run.
pub fn over(manifest: &Manifest, cell: &Cell, other: &Cell, metric: &str) -> Comparison {
    let [value, reference] = [cell, other].map(|cell| Side { manifest, cell });
    judge::compare(value, reference, metric)
}

/// The 99th percentile of the target's latencies in all repetitions, ns; `None` of too few samples.
pub fn p99(cell: &Cell) -> Option<f64> {
    let (all, censored) = pooled(&cell.reps);
    let p = Percentile::find("p99").expect("the list has it");
    p.of(&all, &censored).map(|ns| ns as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::tests::{manifest, rep};
    use crate::result::{WorkloadInfo, derive};

    #[test]
    fn a_workload_has_its_target_alone_beside_it() {
        assert_eq!(alone_workload("readers").as_deref(), Some("alone"));
        assert_eq!(alone_workload("probe+readers").as_deref(), Some("probe+alone"));
        assert_eq!(alone_workload("probe+10r-seq+x").as_deref(), Some("probe+alone"));
        assert_eq!(alone_workload("alone"), None);
        assert_eq!(alone_workload("probe+alone"), None);
    }

    fn cell(config: usize, workload: &str, target_ms: u64, others: u64) -> Cell {
        let m = manifest();
        let reps = (1..=3).map(|seed| {
            let mut rep = rep(seed, target_ms * (10 + seed), "target");
            rep.procs[1].bytes = others;
            rep.procs[2].bytes = others;
            rep.device.read_bytes = 3 * others;
            rep
        });
        Cell {
            drive: m.drives[0].id.clone(),
            config: m.configs[config].id.clone(),
            workload: workload.into(),
            reps: reps.collect(),
        }
    }

    #[test]
    fn latency_is_over_that_alone_and_throughput_over_that_without_control() {
        let mut m = manifest();
        let info = |id: &str| WorkloadInfo {
            id: id.into(),
            summary: String::new(),
            weights: Vec::new(),
            kind: None,
            load: String::new(),
        };
        m.workloads = vec![info("alone"), info("readers")];
        let cells = vec![
            cell(0, "alone", 1, 0),
            // Slower than under the reference: it is not what the others are compared with.
            cell(1, "alone", 2, 0),
            cell(0, "readers", 12, 2_000_000),
            cell(1, "readers", 3, 1_900_000),
        ];
        let c = Control::of(&m, &cells, &cells[3]);
        let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-9, "{a} {b}");
        let mean = |c: Option<Comparison>| c.unwrap().ratio.unwrap().mean;
        near(mean(c.latency), 3.0);
        near(mean(c.total), 0.95);
        near(mean(c.others), 0.95);
        assert_eq!(c.p99, None, "six samples have no p99");
        let alone = Control::of(&m, &cells, &cells[0]);
        assert!(alone.latency.is_none(), "it is alone itself");
        assert_eq!(alone.others.unwrap().ratio, None, "nothing over nothing");

        let run = derive(m, cells);
        let value = |config: usize, workload: &str, metric: &str| {
            let id = &run.manifest.configs[config].id;
            let mut found = run
                .metrics
                .iter()
                .filter(|m| (&*m.config, &*m.workload, &*m.metric) == (&id[..], workload, metric));
            found.next().map(|m| m.value)
        };
        near(value(1, "readers", "latency_avg_over_alone").flatten().unwrap(), 3.0);
        near(value(0, "readers", "latency_avg_over_alone").flatten().unwrap(), 12.0);
        near(value(1, "readers", "throughput_interferers_ratio").flatten().unwrap(), 0.95);
        assert_eq!(value(1, "readers", "latency_p99_over_alone"), Some(None));
        assert_eq!(value(0, "alone", "latency_avg_over_alone"), None);
    }

    #[test]
    fn who_gets_nothing_keeps_nothing() {
        let cells = [cell(0, "readers", 4, 2_000_000), cell(1, "readers", 1, 0)];
        let kept = |metric| {
            let over = over(&manifest(), &cells[1], &cells[0], metric);
            over.ratio.map(|r| r.mean)
        };
        assert_eq!(kept("throughput_interferers"), Some(0.0));
        assert_eq!(kept("startup_time"), None, "nothing is started");
    }

    #[test]
    fn without_a_target_alone_nothing_is_added() {
        let m = manifest();
        let cells = vec![cell(0, "readers", 4, 1), cell(1, "readers", 1, 1)];
        let run = derive(m, cells);
        assert!(!run.metrics.iter().any(|m| m.metric.ends_with("_over_alone")));
    }
}
