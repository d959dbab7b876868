//! What a bench found, in one table: a line for each workload, a column for each configuration.

use super::suite::{Part, SUITE};
use crate::result::{Judge, Metric, Run};
use crate::stats::Bound;

/// One line.
#[derive(Clone, Debug, PartialEq)]
pub struct SummaryRow {
    /// Which workload.
    pub part: Part,
    /// What the numbers are.
    pub metric: &'static str,
    /// Their unit.
    pub unit: &'static str,
    /// Less is better.
    pub less: bool,
    /// By configuration, in the order of [`Summary::configs`]; `None`: it did not run under that, or has no value.
    pub values: Vec<Option<(f64, Bound)>>,
}

/// The table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    /// Every configuration of any run, in order of appearance.
    pub configs: Vec<String>,
    /// In the order of the suite.
    pub rows: Vec<SummaryRow>,
}

/// Metric, unit, whether less is better.
fn judged(judge: Judge) -> (&'static str, &'static str, bool) {
    match judge {
        Judge::Startup => ("startup_time", "s", true),
        Judge::Latency => ("latency_avg", "ms", true),
        Judge::Share => ("share_met_worst", "1", false),
        Judge::Throughput | Judge::Count => ("throughput_total", "MB/s", false),
    }
}

/// The table of the runs of a bench.
pub fn summary(runs: &[&Run]) -> Summary {
    let mut configs: Vec<String> = Vec::new();
    for config in runs.iter().flat_map(|run| &run.manifest.configs) {
        if !configs.contains(&config.id) {
            configs.push(config.id.clone());
        }
    }
    let mut rows = Vec::new();
    for part in SUITE {
        let of = |run: &&&Run| {
            run.manifest.experiment == part.experiment
                && run.manifest.workloads.iter().any(|w| w.id == part.workload)
        };
        let Some(run) = runs.iter().find(of) else { continue };
        let (metric, unit, less) = judged(run.manifest.judge.unwrap_or(Judge::Throughput));
        let value = |config: &String| {
            let is = |m: &&Metric| {
                m.metric == metric
                    && m.rep.is_none()
                    && m.workload == part.workload
                    && m.config == *config
            };
            let found = run.metrics.iter().find(is)?;
            Some((found.value?, found.bound))
        };
        let values = configs.iter().map(value).collect();
        rows.push(SummaryRow { part: *part, metric, unit, less, values });
    }
    Summary { configs, rows }
}
