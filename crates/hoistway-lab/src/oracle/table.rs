//! What the oracle says, for programs.

use super::{Best, OraclePoint};
use crate::result::csv::push_line;

/// A configuration on a drive under a load, and the oracle beside it. Times are in ns.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The drive.
    pub drive: String,
    /// The load.
    pub load: String,
    /// Mean latency of the target alone on the drive.
    pub alone: Option<f64>,
    /// Bound B1.
    pub bound: Option<f64>,
    /// Mean latency without control.
    pub none: Option<f64>,
    /// The configuration.
    pub config: String,
    /// What it gave.
    pub of: OraclePoint,
    /// The best fixed setting.
    pub best: Option<Best>,
    /// The configuration's mean latency over that of the fastest setting with no less throughput ([`over`](super::over())).
    pub over: Option<f64>,
}

fn ms(ns: Option<f64>) -> Option<f64> {
    ns.map(|ns| ns / 1e6)
}

/// A line per row.
pub fn csv(rows: &[Row]) -> String {
    let mut text = String::from(
        "drive,load,alone_mean_ms,bound_ms,none_mean_ms,configuration,mean_ms,all_percent_of_none,\
         others_percent_of_none,best_setting,best_mean_ms,best_all_percent_of_none,best_others_percent_of_none,\
         best_keeps_throughput,mean_over_oracle\n",
    );
    let number = |value: Option<f64>| value.map_or_else(String::new, |v| format!("{v:.6}"));
    let percent = |value: Option<f64>| value.map_or_else(String::new, |v| format!("{v:.2}"));
    for row in rows {
        let point = row.best.map(|best| best.point);
        let cells = [
            row.drive.clone(),
            row.load.clone(),
            number(ms(row.alone)),
            number(ms(row.bound)),
            number(ms(row.none)),
            row.config.clone(),
            number(ms(row.of.mean)),
            percent(Some(row.of.all)),
            percent(Some(row.of.others)),
            row.best.map_or_else(String::new, |best| best.setting.to_string()),
            number(point.and_then(|p| ms(p.mean))),
            percent(point.map(|p| p.all)),
            percent(point.map(|p| p.others)),
            row.best.map_or_else(String::new, |best| (!best.max).to_string()),
            percent(row.over),
        ];
        push_line(&mut text, cells.iter().map(String::as_str));
    }
    text
}

/// Everything as one document.
pub fn json(rows: &[Row], seed: u64) -> serde_json::Value {
    let point = |p: &OraclePoint| {
        serde_json::json!({
            "mean_ms": ms(p.mean), "all_percent_of_none": p.all, "others_percent_of_none": p.others,
        })
    };
    let best = |best: &Best| {
        let mut object = point(&best.point);
        object["setting"] = best.setting.to_string().into();
        object["keeps_throughput"] = (!best.max).into();
        object
    };
    let row = |row: &Row| {
        serde_json::json!({
            "drive": row.drive, "load": row.load, "alone_mean_ms": ms(row.alone), "bound_ms": ms(row.bound),
            "none_mean_ms": ms(row.none), "configuration": row.config, "of": point(&row.of),
            "best": row.best.as_ref().map(best), "mean_over_oracle": row.over,
        })
    };
    let rows: Vec<_> = rows.iter().map(row).collect();
    serde_json::json!({ "schema": 1, "seed": seed, "rows": rows })
}
