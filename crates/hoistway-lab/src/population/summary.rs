//! What finished cases say together: distributions, the worst of them, and what the project demands.

use super::{Finished, Question, Worth, part_of, quantiles};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Parts of the distribution that tables show: minimum, 5th and 10th percentile, median, 90th, maximum.
pub const PARTS: [f64; 6] = [0.0, 0.05, 0.1, 0.5, 0.9, 1.0];
/// Their names.
pub const PART_NAMES: [&str; 6] = ["min", "p5", "p10", "median", "p90", "max"];

/// A quantity of [`Worth`].
#[derive(Clone, Copy, Debug)]
pub struct Measure {
    /// Its name in CSV and JSON.
    pub name: &'static str,
    /// Heading of its table.
    pub title: &'static str,
    /// The value.
    pub of: fn(&Worth) -> Option<f64>,
    /// Small values are the bad ones.
    pub low_is_bad: bool,
}

/// All of them.
pub const MEASURES: &[Measure] = &[
    Measure {
        name: "total_kept_percent",
        title: "throughput kept, % of none's",
        of: |w| Some(100.0 * w.total),
        low_is_bad: true,
    },
    Measure {
        name: "others_kept_percent",
        title: "throughput of the others kept, % of none's",
        of: |w| w.mean.map(|_| 100.0 * w.others),
        low_is_bad: true,
    },
    Measure {
        name: "mean_over_lone",
        title: "target's mean latency over its lone one",
        of: |w| w.mean,
        low_is_bad: false,
    },
    Measure {
        name: "p99_over_lone",
        title: "target's 99th percentile over its lone one",
        of: |w| w.p99,
        low_is_bad: false,
    },
    Measure {
        name: "share_error_points",
        title: "largest error of a share, points",
        of: |w| w.share_error,
        low_is_bad: false,
    },
];

/// Configurations that ran, in the order given, then what is kept besides.
pub fn distribution(cases: &[Finished], config: &str, measure: &Measure) -> Vec<f64> {
    cases.iter().filter_map(|c| (measure.of)(&c.worth(config)?)).collect()
}

/// The worst cases of a configuration by a measure, worst first: number and value.
pub fn worst<'a>(
    cases: &'a [Finished],
    config: &str,
    measure: &Measure,
    most: usize,
) -> Vec<(&'a Finished, f64)> {
    let value = |c: &'a Finished| Some((c, (measure.of)(&c.worth(config)?)?));
    let mut all: Vec<(&Finished, f64)> = cases.iter().filter_map(value).collect();
    all.sort_by(|a, b| {
        let order = a.1.total_cmp(&b.1);
        if measure.low_is_bad { order } else { order.reverse() }
    });
    all.truncate(most);
    all
}

/// One line of what must hold over a population: words, value, limit, met.
#[derive(Clone, Debug, PartialEq)]
pub struct Demand {
    /// What is demanded.
    pub what: &'static str,
    /// What it is, in percent.
    pub is: f64,
    /// At least this.
    pub least: f64,
}

impl Demand {
    /// Met?
    pub fn met(&self) -> bool {
        self.is >= self.least
    }
}

/// What must hold, of a configuration that ran.
pub fn demands(cases: &[Finished], config: &str) -> Vec<Demand> {
    let total = distribution(cases, config, &MEASURES[0]);
    let mut all = Vec::new();
    if let [p5, median] = quantiles(&total, &[0.05, 0.5])[..] {
        all.push(Demand { what: "median of the throughput kept, %", is: median, least: 99.0 });
        all.push(Demand { what: "5th percentile of the throughput kept, %", is: p5, least: 95.0 });
    }
    let mean = distribution(cases, config, &MEASURES[2]);
    if let Some(part) = part_of(mean.iter().map(|&m| m < 4.0)) {
        let what = "cases with a mean latency below 4 times the lone one, %";
        all.push(Demand { what, is: 100.0 * part, least: 90.0 });
    }
    all
}

/// Cases by class of drive, in the order of their names.
pub fn by_class(cases: &[Finished]) -> BTreeMap<&str, Vec<Finished>> {
    let mut classes: BTreeMap<&str, Vec<Finished>> = BTreeMap::new();
    for case in cases {
        classes.entry(case.class.as_str()).or_default().push(case.clone());
    }
    classes
}

/// A line per case and configuration.
pub fn csv(cases: &[Finished], configs: &[String]) -> String {
    let mut text = String::from("case,class,around,question,config");
    MEASURES.iter().for_each(|m| text.extend([",", m.name]));
    text.push_str(",total_mb_s,mean_ms,p99_ms,max_ms,load\n");
    for case in cases {
        for config in configs {
            let (Some(worth), Some(run)) = (case.worth(config), case.runs.get(config)) else {
                continue;
            };
            let question = match case.question {
                Question::Latency => "latency",
                Question::Weights => "weights",
            };
            let Finished { number, class, around, .. } = case;
            let config =
                if config.contains(',') { format!("\"{config}\"") } else { config.clone() };
            let _ = write!(text, "{number},{class},{around},{question},{config}");
            let mut number = |value: Option<f64>| {
                let _ = match value {
                    Some(v) => write!(text, ",{v:.6}"),
                    None => write!(text, ","),
                };
            };
            MEASURES.iter().for_each(|m| number((m.of)(&worth)));
            number(Some(run.total / 1e6));
            [run.mean, run.p99, run.max].iter().for_each(|t| number(t.map(|t| t / 1e6)));
            let _ = writeln!(text, ",\"{}\"", case.load);
        }
    }
    text
}

/// Everything as one document.
pub fn json(cases: &[Finished], configs: &[String], seed: u64) -> serde_json::Value {
    let of_config = |config: &String| {
        let mut measures = serde_json::Map::new();
        for m in MEASURES {
            let values = distribution(cases, config, m);
            let parts = quantiles(&values, &PARTS);
            if parts.is_empty() {
                continue;
            }
            let mut object = serde_json::Map::from_iter([("cases".into(), values.len().into())]);
            for (name, value) in PART_NAMES.iter().zip(parts) {
                object.insert((*name).to_string(), value.into());
            }
            measures.insert(m.name.into(), object.into());
        }
        let demands = demands(cases, config).into_iter().map(
            |d| serde_json::json!({ "what": d.what, "is": d.is, "least": d.least, "met": d.met() }),
        );
        let demands: Vec<_> = demands.collect();
        serde_json::json!({ "config": config, "measures": measures, "demands": demands })
    };
    let configs: Vec<_> = configs.iter().map(of_config).collect();
    serde_json::json!({ "schema": 1, "seed": seed, "configs": configs, "cases": cases })
}
