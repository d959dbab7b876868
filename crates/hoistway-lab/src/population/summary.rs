//! What finished cases say together: distributions, the worst of them, and what the project demands.

use super::{Finished, Question, Worth, part_of, quantiles};
use crate::bounds::{LatencyDemand, others_loss};
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

/// The mean latency that is demanded, in lone ones, where the bounds allow it.
const FACTOR: f64 = 4.0;

/// One line of what must hold over a population.
#[derive(Clone, Debug, PartialEq)]
pub struct Demand {
    /// What is demanded.
    pub what: String,
    /// What it is.
    pub is: f64,
    /// At least this, or at most.
    pub limit: f64,
    /// `limit` is the most.
    pub at_most: bool,
}

impl Demand {
    fn least(what: impl Into<String>, is: f64, limit: f64) -> Demand {
        Demand { what: what.into(), is, limit, at_most: false }
    }

    fn most(what: impl Into<String>, is: f64, limit: f64) -> Demand {
        Demand { what: what.into(), is, limit, at_most: true }
    }

    /// Met?
    pub fn met(&self) -> bool {
        if self.at_most { self.is <= self.limit } else { self.is >= self.limit }
    }
}

/// What must hold, of a configuration that ran.
pub fn demands(cases: &[Finished], config: &str) -> Vec<Demand> {
    let parts = |measure: usize, parts: &[f64]| {
        quantiles(&distribution(cases, config, &MEASURES[measure]), parts)
    };
    let mut all = Vec::new();
    if let [p1, p5, median] = parts(0, &[0.01, 0.05, 0.5])[..] {
        all.push(Demand::least("median of the throughput kept, %", median, 99.0));
        all.push(Demand::least("5th percentile of the throughput kept, %", p5, 92.0));
        all.push(Demand::least("1st percentile of the throughput kept, %", p1, 80.0));
    }
    if let [p5] = parts(1, &[0.05])[..] {
        all.push(Demand::least("5th percentile of the others' throughput, %", p5, 85.0));
    }
    if let [p90] = parts(2, &[0.9])[..] {
        all.push(Demand::most("90th percentile of mean latency over the lone one", p90, 8.0));
    }
    let demand = LatencyDemand { loss: others_loss(), factor: FACTOR };
    let allowed = cases.iter().filter(|c| c.allows(demand) == Some(true));
    let below: Vec<bool> = allowed.filter_map(|c| Some(c.worth(config)?.mean? < FACTOR)).collect();
    if let Some(part) = part_of(below.iter().copied()) {
        let n = below.len();
        let what = format!(
            "mean below {FACTOR} times the lone one, % of the {n} cases that B1 and B2 allow"
        );
        all.push(Demand::least(what, 100.0 * part, 90.0));
    }
    if let [median, p90] = parts(4, &[0.5, 0.9])[..] {
        all.push(Demand::most("median error of a share, points", median, 0.5));
        all.push(Demand::most("90th percentile of the error of a share, points", p90, 5.0));
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
        let demands = demands(cases, config).into_iter().map(|d| {
            let limit = if d.at_most { "most" } else { "least" };
            serde_json::json!({ "what": d.what, "is": d.is, limit: d.limit, "met": d.met() })
        });
        let demands: Vec<_> = demands.collect();
        serde_json::json!({ "config": config, "measures": measures, "demands": demands })
    };
    let configs: Vec<_> = configs.iter().map(of_config).collect();
    serde_json::json!({ "schema": 1, "seed": seed, "configs": configs, "cases": cases })
}
