//! Published figures that are calculated from several of our cells: factors, gains, extremes over loads.

use super::figures::Results;
use super::value::Value;
use crate::result::published;
use hoistway::sched::{Service, find};

/// What comes of a row: ours and how it came about, or what is missing for it.
type Derived = Result<(Value, &'static str), String>;

/// The experiment whose runs a row is compared with.
pub fn experiment_of(published: &str) -> &str {
    match published {
        "multiclient-claims-2019" => "multiclient-2018",
        other => other,
    }
}

/// `None`: the row is a figure of one cell.
pub fn of(row: &[String], results: &Results) -> Option<Derived> {
    let [experiment, drive, config, workload, metric] = [0, 1, 2, 3, 4].map(|i| row[i].as_str());
    let drive = published::drive_of(drive).unwrap_or("plextor-px-256m5s");
    let at = At { results, drive };
    match experiment {
        "latency-2019" => at.latency(config, workload, metric),
        "multiclient-claims-2019" => Some(at.clients("prop-bfq", "low-none").map(derived)),
        "multiclient-2018" => at.lost_by_clients(metric),
        "shortcmd-2010" => at.short_commands(workload, metric),
        "startup-hdd-2010" => at.starts(config, workload, metric),
        _ => None,
    }
}

fn derived(value: f64) -> (Value, &'static str) {
    (Value::exactly(value), "derived")
}

/// The cells of one drive.
#[derive(Clone, Copy)]
struct At<'a> {
    results: &'a Results,
    drive: &'a str,
}

impl At<'_> {
    /// A figure, or what is missing.
    fn value(&self, config: &str, workload: &str, metric: &str) -> Result<Value, String> {
        let found = self.results.find(self.drive, config, workload, metric);
        let missing = || format!("no {metric} of {config}, {workload}");
        found.and_then(|f| f.value).map(Value::from).ok_or_else(missing)
    }

    /// The same as a number; of a start that was given up, the time it had.
    fn number(&self, config: &str, workload: &str, metric: &str) -> Result<f64, String> {
        self.value(config, workload, metric).map(|v| v.is)
    }

    /// Of `a` over that of `b`.
    fn ratio(&self, metric: &str, workload: &str, a: &str, b: &str) -> Result<f64, String> {
        Ok(self.number(a, workload, metric)? / self.number(b, workload, metric)?)
    }

    fn latency(&self, config: &str, workload: &str, metric: &str) -> Option<Derived> {
        if config == "any" {
            let both = ["sporadic", "sporadic-writers"].map(|w| self.value("none-none", w, metric));
            let [readers, writers] = both;
            let mean = readers.and_then(|a| {
                let b = writers?;
                Ok(Value { is: (a.is + b.is) / 2.0, beyond: a.beyond || b.beyond })
            });
            return Some(mean.map(|v| (v, "none-none, mean of both loads")));
        }
        let (of, over) = config.split_once(" over ")?;
        let over = if over == "lat-none" { over } else { "none-none" };
        let load = if workload.contains("writers") { "writers" } else { "readers" };
        Some(self.ratio("latency_avg", load, over, of).map(derived))
    }

    /// What the drive of `multiclient-2018` moves in all.
    fn clients(&self, a: &str, b: &str) -> Result<f64, String> {
        self.ratio("throughput_total", "4r-seq+1r-rand", a, b)
    }

    fn lost_by_clients(&self, metric: &str) -> Option<Derived> {
        Some(match metric {
            "throughput_lost" => self.clients("low-none", "none-none").map(|r| 100.0 * (1.0 - r)),
            "slowdown_factor" => self.clients("none-none", "low-none"),
            "throughput_fraction_of_peak" => {
                self.clients("prop-bfq", "none-none").map(|r| 100.0 * r)
            }
            _ => return None,
        })
        .map(|value| value.map(derived))
    }

    /// Extremes over the loads of `shortcmd-2010`.
    fn short_commands(&self, workload: &str, metric: &str) -> Option<Derived> {
        let (bfq, cfq) = ("bfq-v1{low_latency=0}", "cfq");
        let over = |loads: &[&str], metric: &str, a: &str, b: &str| -> Result<Vec<f64>, String> {
            loads.iter().map(|load| self.ratio(metric, &format!("bash+{load}"), a, b)).collect()
        };
        let gains = || {
            let all = ["10r-seq", "10r-rand", "5r5w-seq", "5r5w-rand"];
            let ratios = over(&all, "throughput_total", bfq, cfq)?;
            Ok::<_, String>(ratios.into_iter().map(|r| 100.0 * (r - 1.0)).collect::<Vec<_>>())
        };
        let shorter = || over(&["10r-seq", "5r5w-seq", "5r5w-rand"], "startup_time", cfq, bfq);
        let value = match metric {
            "throughput_gain_min" => gains().map(least),
            "throughput_gain_max" => gains().map(most),
            "latency_reduction_factor_min" => shorter().map(least),
            "latency_reduction_factor_max" => shorter().map(most),
            "startup_time_max" => {
                let kind = if workload.contains("-rand") { "rand" } else { "seq" };
                let times = ["10r", "5r5w"].map(|load| {
                    self.number("bfq-v1", &format!("bash+{load}-{kind}"), "startup_time")
                });
                times.into_iter().collect::<Result<Vec<_>, _>>().map(most)
            }
            _ => return None,
        };
        Some(value.map(derived))
    }

    /// Comparisons and extremes of `startup-hdd-2010`.
    fn starts(&self, config: &str, workload: &str, metric: &str) -> Option<Derived> {
        let (bfq, cfq) = ("bfq-v1", "cfq");
        let times = |load: &str| self.ratio("startup_time", &format!("konsole+{load}"), cfq, bfq);
        let value = match metric {
            "latency_reduction_factor" => times("10r-seq"),
            "latency_reduction_factor_min" => {
                let all = ["10r-rand", "5r5w-seq", "5r5w-rand"].map(times);
                all.into_iter().collect::<Result<Vec<_>, _>>().map(least)
            }
            "throughput_loss" => self
                .ratio("throughput_total", "konsole+10r-seq", bfq, cfq)
                .map(|ratio| 100.0 * (1.0 - ratio)),
            _ if workload.starts_with("xterm") => {
                return Some(self.extreme_xterm(config, workload.contains("best")));
            }
            _ => return None,
        };
        Some(value.map(derived))
    }

    /// The shortest or the longest start of xterm over the four loads.
    fn extreme_xterm(&self, config: &str, best: bool) -> Derived {
        let config = ours_of_2010(config);
        let all = ["10r-seq", "10r-rand", "5r5w-seq", "5r5w-rand"]
            .map(|load| self.value(config, &format!("xterm+{load}"), "startup_time"));
        let mut all = all.into_iter().collect::<Result<Vec<_>, _>>()?;
        all.sort_by(|a, b| a.is.total_cmp(&b.is));
        let found = if best { all.first() } else { all.last() };
        found.map(|v| (*v, "derived")).ok_or_else(|| "no start of xterm".into())
    }
}

/// Our configuration for the words of the document of 2010: a scheduler, then what was set.
fn ours_of_2010(config: &str) -> &'static str {
    let scheduler = config.split_whitespace().next().and_then(find);
    let budgets = scheduler.is_some_and(|entry| entry.service == Service::Budgets);
    if budgets { "bfq-v1" } else { "cfq" }
}

fn least(values: Vec<f64>) -> f64 {
    values.into_iter().fold(f64::INFINITY, f64::min)
}

fn most(values: Vec<f64>) -> f64 {
    values.into_iter().fold(f64::NEG_INFINITY, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_the_document_of_2010_tell_bfq_from_cfq() {
        let words = ["bfq low_latency on", "bfq", "cfq", "cfq 2.6.35"];
        assert_eq!(words.map(ours_of_2010), ["bfq-v1", "bfq-v1", "cfq", "cfq"]);
    }
}
