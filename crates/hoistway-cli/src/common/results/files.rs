//! What programs read: the metrics of runs as CSV, and all that is known of them as JSON.

use hoistway_lab::judge::{Compared, Comparison};
use hoistway_lab::result::{Metric, Run, metrics_csv};
use hoistway_lab::stats::Bound;
use std::path::Path;

/// Version of the JSON.
const JSON_SCHEMA: u32 = 1;

/// The metrics of all runs under one header.
pub fn all_csv(runs: &[(&Run, &Path)]) -> String {
    metrics_csv(&runs.iter().map(|(run, _)| *run).collect::<Vec<_>>())
}

/// One run as an object, several as a list of them.
pub fn all_json(runs: &[(&Run, &Path)]) -> String {
    let mut objects: Vec<_> = runs.iter().map(|(run, dir)| json(run, dir)).collect();
    let all = match objects.len() {
        1 => objects.remove(0),
        _ => serde_json::json!({ "schema": JSON_SCHEMA, "runs": objects }),
    };
    format!("{all:#}\n")
}

/// What a comparison says, for JSON.
pub fn comparison_json(c: &Comparison) -> serde_json::Value {
    let interval = c.ratio.and_then(|r| r.interval);
    serde_json::json!({
        "ratio": c.ratio.map(|r| r.mean),
        "bound": c.ratio.map_or(Bound::Exact, |r| r.bound).sign(),
        "low": interval.map(|i| i.0), "high": interval.map(|i| i.1),
        "finding": c.finding.name(),
    })
}

fn json(run: &Run, dir: &Path) -> serde_json::Value {
    let metric = |x: Metric| {
        serde_json::json!({
            "experiment": x.experiment, "drive": x.drive, "config": x.config,
            "workload": x.workload, "metric": x.metric, "unit": x.unit, "value": x.value,
            "rep": x.rep, "source": x.source, "bound": x.bound.sign(),
        })
    };
    let metrics = run.cells.iter().flat_map(|cell| run.rows_of(cell)).map(metric);
    let compared = |c: &Compared| {
        let mut of = comparison_json(&c.comparison);
        of["drive"] = c.drive.as_str().into();
        of["config"] = c.config.as_str().into();
        of["workload"] = c.workload.as_str().into();
        of["metric"] = c.metric.into();
        of["reference"] = c.reference.as_str().into();
        of
    };
    let flag = |(cell, text): &(String, String)| serde_json::json!({ "cell": cell, "text": text });
    serde_json::json!({
        "schema": JSON_SCHEMA,
        "experiment": run.manifest.experiment,
        "version": run.manifest.version,
        "command": run.manifest.command,
        "seed": run.manifest.seed,
        "reps": run.manifest.reps,
        "directory": dir.display().to_string(),
        "report": dir.join("report.html").display().to_string(),
        "metrics": metrics.collect::<Vec<_>>(),
        "comparisons": run.comparisons.iter().map(compared).collect::<Vec<_>>(),
        "flags": run.flags.iter().map(flag).collect::<Vec<_>>(),
    })
}
