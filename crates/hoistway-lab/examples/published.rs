//! Our runs beside every published row that the lab can run (docs/results/blind.md).
//!
//!     cargo run --release -p hoistway-lab --example published -- run > now.csv
//!     cargo run --release -p hoistway-lab --example published -- run --reps 3 --only latency-2019
//!     cargo run --release -p hoistway-lab --example published -- count data/blind-2026-11.csv
//!     cargo run --release -p hoistway-lab --example published -- count now.csv data/blind-2026-11.csv
//!     cargo run --release -p hoistway-lab --example published -- table data/blind-2026-11.csv now.csv
//!
//! `run` takes some ten minutes of two cores with the ten repetitions of the experiments. `count` counts the
//! agreement of a file, or of those of its rows that another one has too.

use hoistway_lab::config::Config;
use hoistway_lab::experiment::{Experiment, Options};
use hoistway_lab::result::startup::Startups;
use hoistway_lab::result::{Run, csv, published};
use hoistway_lab::run::Grid;
use hoistway_lab::world::Sim;
use hoistway_sim::calibrate::{self, Plan};
use hoistway_sim::drive::DriveFile;
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

const HEADER: &str = "experiment,drive,config,workload,metric,unit,published,ours,ratio,note";
/// Published values that differ by less have no order.
const APART: f64 = 1.1;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["run", rest @ ..] => Lab::new(rest).and_then(|mut lab| lab.table()),
        ["count", file] => read(file).map(|rows| counts(&rows)),
        ["count", file, only] => read(only).and_then(|those| {
            let mut rows = read(file)?;
            rows.retain(|r| those.iter().any(|t| t.words[..7] == r.words[..7]));
            Ok(counts(&rows))
        }),
        ["table", before, after] => {
            read(before).and_then(|b| read(after).map(|a| comparison(&b, &a)))
        }
        _ => Err("usage: published run [--reps N] [--jobs N] [--only EXPERIMENT] | count FILE [ROWS OF] | \
                  table BEFORE AFTER"
            .into()),
    };
    match done {
        Ok(text) => print!("{text}"),
        Err(message) => {
            eprintln!("published: {message}");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}

// ---- our side of a row ----

/// A number, or that it lies above one.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Value {
    is: f64,
    beyond: bool,
}

impl Value {
    fn parse(text: &str) -> Option<Value> {
        let (text, beyond) = text.strip_prefix('>').map_or((text, false), |t| (t, true));
        text.parse().ok().map(|is| Value { is, beyond })
    }

    fn exactly(is: f64) -> Value {
        Value { is, beyond: false }
    }

    /// Four digits, so that the file does not change with the last bits.
    fn text(self) -> String {
        let digits = 3 - self.is.abs().max(1e-9).log10().floor() as i32;
        let text = match digits {
            0.. => {
                let text = format!("{:.*}", digits as usize, self.is);
                let short = text.trim_end_matches('0').trim_end_matches('.');
                if text.contains('.') { short.to_string() } else { text }
            }
            _ => format!("{:.0}", self.is),
        };
        format!("{}{text}", if self.beyond { ">" } else { "" })
    }
}

/// Runs cells, each once.
struct Lab {
    reps: Option<u32>,
    jobs: usize,
    only: Option<String>,
    done: BTreeMap<(String, String, String, String), Run>,
}

impl Lab {
    fn new(mut words: &[&str]) -> Result<Lab, String> {
        let mut lab = Lab { reps: None, jobs: 1, only: None, done: BTreeMap::new() };
        while let [name, value, rest @ ..] = words {
            let number =
                || value.parse().map_err(|_| format!("{name} {value}: a number is missing"));
            match *name {
                "--reps" => lab.reps = Some(number()?),
                "--jobs" => lab.jobs = number()? as usize,
                "--only" => lab.only = Some(value.to_string()),
                _ => return Err(format!("unknown option {name}")),
            }
            words = rest;
        }
        words.first().map_or(Ok(lab), |w| Err(format!("{w}: its value is missing")))
    }

    /// The whole table.
    fn table(&mut self) -> Result<String, String> {
        let mut out = format!("{HEADER}\n");
        for row in published::documents() {
            if self.only.as_ref().is_some_and(|only| *only != row[0]) {
                continue;
            }
            let Some((ours, note)) = self.ours(&row)? else { continue };
            let theirs = Value::parse(&row[6]).ok_or_else(|| format!("{row:?}: no number"))?;
            let ratio = ratio_text(theirs, ours);
            let words = row[..7].iter().map(String::as_str);
            csv::push_line(&mut out, words.chain([ours.text().as_str(), &ratio, note]));
        }
        Ok(out)
    }

    /// What we have for a published row, if we can run it.
    fn ours(&mut self, row: &[String]) -> Result<Option<(Value, &'static str)>, String> {
        let words: Vec<&str> = row.iter().map(String::as_str).collect();
        let [experiment, _, config, _, metric, unit, ..] = words[..] else {
            return Err(format!("{row:?}: too few fields"));
        };
        if experiment.starts_with("drive-") {
            return self.of_the_drive(row).map(|v| v.map(|v| (v, "without a host")));
        }
        if let Some(derived) = self.derived(row)? {
            return Ok(Some(derived));
        }
        // The same runs, told of once more with other words.
        let mut row = row.to_vec();
        row[2] = row[2].replace(" (with printks)", "");
        row[3] = row[3].replace(" (low_latency-off paragraph)", "");
        // Published samples of a single run have no counterpart.
        let Some(joined) = published::join(&row) else { return Ok(None) };
        if metric.contains("sample ") {
            return Ok(None);
        }
        let raw = Value::parse(&row[6]).ok_or_else(|| format!("{row:?}: no number"))?;
        let (cell, metric) = ((joined.experiment, joined.drive, joined.config), joined.metric);
        // A median of too few samples.
        let Some(value) = self.measured(cell, joined.workload, metric)? else { return Ok(None) };
        let factor = if unit == joined.unit { 1.0 } else { joined.value / raw.is };
        let note = match (experiment, config) {
            ("startup-ssd-2012" | "throughput-ssd-2012", "bfq") => "bfq of today; published bfq-v4",
            _ => "",
        };
        Ok(Some((Value { is: value.is / factor, ..value }, note)))
    }

    /// Rates of the drive alone.
    fn of_the_drive(&self, row: &[String]) -> Result<Option<Value>, String> {
        let Some(joined) = published::join(row) else { return Ok(None) };
        let file = DriveFile::load(joined.drive).map_err(|e| e.to_string())?;
        let plan = Plan { duration: hoistway::Nanos::secs(10), steady: false, seed: 1 };
        let rates = calibrate::measure(&file, &plan, &mut |_| {}).rates;
        Ok(Some(Value::exactly(match joined.metric {
            "iops" => rates.read[2] as f64 / 1e3,
            _ => rates.read[0] as f64 / 1e6,
        })))
    }

    /// Rows that are calculated from several of our cells.
    fn derived(&mut self, row: &[String]) -> Result<Option<(Value, &'static str)>, String> {
        let [experiment, drive, config, workload, metric] =
            [0, 1, 2, 3, 4].map(|i| row[i].as_str());
        let drive = published::drive_of(drive).unwrap_or("plextor-px-256m5s");
        let value = match experiment {
            "latency-2019" if config == "any" => {
                let cell = (experiment, drive, "none-none");
                let sporadic = self.value(cell, "sporadic", metric)?;
                return Ok(Some((sporadic, "none-none beside the readers")));
            }
            "latency-2019" => match config.split_once(" over ") {
                None => return Ok(None),
                Some((a, b)) => {
                    let b = if b == "lat-none" { b } else { "none-none" };
                    let load = if workload.contains("writers") { "writers" } else { "readers" };
                    let mut of = |c| self.number((experiment, drive, c), load, "latency_avg");
                    of(b)? / of(a)?
                }
            },
            "multiclient-claims-2019" => {
                let mut of = |c| self.clients(drive, c);
                of("prop-bfq")? / of("low-none")?
            }
            "multiclient-2018" => {
                let mut of = |c| self.clients(drive, c);
                match metric {
                    "throughput_lost" => 100.0 * (1.0 - of("low-none")? / of("none-none")?),
                    "slowdown_factor" => of("none-none")? / of("low-none")?,
                    "throughput_fraction_of_peak" => 100.0 * of("prop-bfq")? / of("none-none")?,
                    _ => return Ok(None),
                }
            }
            "shortcmd-2010" => match self.of_short_commands(drive, workload, metric)? {
                None => return Ok(None),
                Some(value) => value,
            },
            "startup-hdd-2010" => {
                return Ok(self
                    .of_starts(drive, (config, workload, metric))?
                    .map(|v| (v, "derived")));
            }
            _ => return Ok(None),
        };
        Ok(Some((Value::exactly(value), "derived")))
    }

    /// What the drive of `multiclient-2018` moves in all.
    fn clients(&mut self, drive: &str, config: &str) -> Result<f64, String> {
        self.number(("multiclient-2018", drive, config), "4r-seq+1r-rand", "throughput_total")
    }

    /// Extremes over the loads of `shortcmd-2010`.
    fn of_short_commands(
        &mut self,
        drive: &str,
        workload: &str,
        metric: &str,
    ) -> Result<Option<f64>, String> {
        let (bfq, cfq) = ("bfq-v1{low_latency=0}", "cfq");
        let mut over = |loads: &[&str], metric: &str, configs: [&str; 2]| {
            let mut all = Vec::new();
            for load in loads {
                let load = format!("bash+{load}");
                let [a, b] =
                    configs.map(|c| self.number(("shortcmd-2010", drive, c), &load, metric));
                all.push(a? / b?);
            }
            Ok::<_, String>(all)
        };
        let all = ["10r-seq", "10r-rand", "5r5w-seq", "5r5w-rand"];
        let gains = |r: Vec<f64>| r.into_iter().map(|r| 100.0 * (r - 1.0)).collect::<Vec<_>>();
        Ok(Some(match (metric, workload) {
            ("throughput_gain_min", _) => {
                least(&gains(over(&all, "throughput_total", [bfq, cfq])?))
            }
            ("throughput_gain_max", _) => most(&gains(over(&all, "throughput_total", [bfq, cfq])?)),
            ("latency_reduction_factor_min", _) => {
                least(&over(&["10r-seq", "5r5w-seq", "5r5w-rand"], "startup_time", [cfq, bfq])?)
            }
            ("latency_reduction_factor_max", _) => {
                most(&over(&["10r-seq", "5r5w-seq", "5r5w-rand"], "startup_time", [cfq, bfq])?)
            }
            ("startup_time_max", w) => {
                let kind = if w.contains("-rand") { "rand" } else { "seq" };
                let mut times = Vec::new();
                for load in ["10r", "5r5w"] {
                    let cell = ("shortcmd-2010", drive, "bfq-v1");
                    times.push(self.number(
                        cell,
                        &format!("bash+{load}-{kind}"),
                        "startup_time",
                    )?);
                }
                most(&times)
            }
            _ => return Ok(None),
        }))
    }

    /// Comparisons and extremes of `startup-hdd-2010`.
    fn of_starts(
        &mut self,
        drive: &str,
        (config, workload, metric): (&str, &str, &str),
    ) -> Result<Option<Value>, String> {
        let id = "startup-hdd-2010";
        let mut factor = |load: &str, metric: &str, [a, b]: [&str; 2]| {
            let load = format!("konsole+{load}");
            let mut of = |c| self.number((id, drive, c), &load, metric);
            Ok::<_, String>(of(a)? / of(b)?)
        };
        let (bfq, cfq) = ("bfq-v1", "cfq");
        Ok(Some(Value::exactly(match metric {
            "latency_reduction_factor" => factor("10r-seq", "startup_time", [cfq, bfq])?,
            "latency_reduction_factor_min" => {
                let mut all = Vec::new();
                for load in ["10r-rand", "5r5w-seq", "5r5w-rand"] {
                    all.push(factor(load, "startup_time", [cfq, bfq])?);
                }
                least(&all)
            }
            "throughput_loss" => 100.0 * (1.0 - factor("10r-seq", "throughput_total", [bfq, cfq])?),
            _ if workload.starts_with("xterm") => {
                let config = if config.starts_with("bfq") { bfq } else { cfq };
                let mut times = Vec::new();
                for load in ["10r-seq", "10r-rand", "5r5w-seq", "5r5w-rand"] {
                    let cell = (id, drive, config);
                    times.push(self.value(cell, &format!("xterm+{load}"), "startup_time")?);
                }
                times.sort_by(|a, b| a.is.total_cmp(&b.is));
                let best = workload.contains("best");
                return Ok(if best { times.first() } else { times.last() }.copied());
            }
            _ => return Ok(None),
        })))
    }

    /// A value; of a start that was given up, the time it had.
    fn number(
        &mut self,
        cell: (&str, &str, &str),
        workload: &str,
        metric: &str,
    ) -> Result<f64, String> {
        self.value(cell, workload, metric).map(|v| v.is)
    }

    /// A metric of a cell that cannot be missing.
    fn value(
        &mut self,
        cell: (&str, &str, &str),
        workload: &str,
        metric: &str,
    ) -> Result<Value, String> {
        let missing = || format!("{cell:?}: no {metric}");
        self.measured(cell, workload, metric)?.ok_or_else(missing)
    }

    /// A metric of a cell, over all repetitions.
    fn measured(
        &mut self,
        (experiment, drive, config): (&str, &str, &str),
        workload: &str,
        metric: &str,
    ) -> Result<Option<Value>, String> {
        let run = self.run(experiment, drive, config, workload)?;
        let cell = &run.cells[0];
        if metric == "startup_time" {
            let all = Startups::of(&cell.reps).ok_or("a start-up without starts")?;
            // With starts that were given up the mean is a lower bound of what it would have been.
            let exact = all.time.exact().is_some();
            return Ok(Some(Value { is: all.time.value, beyond: !exact }));
        }
        let of = |rep: Option<u32>| {
            let mut all = run.metrics.iter().filter(|m| m.source == run.manifest.world);
            all.find(|m| m.metric == metric && m.rep == rep).and_then(|m| m.value)
        };
        // A published maximum is that of one run; the maximum of ten is another thing.
        let found = match metric {
            "latency_max" => {
                let each: Option<Vec<f64>> = (1..=run.manifest.reps).map(|r| of(Some(r))).collect();
                each.map(|each| each.iter().sum::<f64>() / each.len() as f64)
            }
            _ => of(None),
        };
        Ok(found.map(Value::exactly))
    }

    fn run(
        &mut self,
        experiment: &str,
        drive: &str,
        config: &str,
        workload: &str,
    ) -> Result<&Run, String> {
        let key = [experiment, drive, config, workload].map(str::to_string).into();
        if !self.done.contains_key(&key) {
            eprintln!("{experiment} {drive} {config} {workload}");
            let experiment = Experiment::load(experiment).map_err(|e| e.to_string())?;
            let grid = Grid {
                drives: vec![DriveFile::load(drive).map_err(|e| e.to_string())?],
                workloads: vec![workload.to_string()],
                configs: vec![Config::parse(config).map_err(|e| e.to_string())?],
                reps: self.reps.unwrap_or(experiment.reps),
                seed: 1,
                options: Options::default(),
                command: String::new(),
                experiment,
            };
            let run = grid.run(&Sim, self.jobs, &AtomicBool::new(false), &|_| {});
            self.done.insert(key.clone(), run.map_err(|e| e.to_string())?);
        }
        Ok(&self.done[&key])
    }
}

fn least(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::INFINITY, f64::min)
}

fn most(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::NEG_INFINITY, f64::max)
}

// ---- what the rows say ----

/// One line of the table.
struct Row {
    words: Vec<String>,
    published: Value,
    ours: Value,
}

fn read(path: &str) -> Result<Vec<Row>, String> {
    let text = std::fs::read_to_string(path).map_err(|e| format!("{path}: {e}"))?;
    let lines = csv::parse(&text).map_err(|e| format!("{path}:{e}"))?;
    let mut rows = Vec::new();
    for (i, words) in lines.into_iter().enumerate().skip(1) {
        let wrong =
            || format!("{path}:{}: ten fields, the 7th and 8th numbers, are expected", i + 1);
        let number = |n: usize| words.get(n).and_then(|w| Value::parse(w)).ok_or_else(wrong);
        let (published, ours) = (number(6)?, number(7)?);
        rows.push(Row { words, published, ours });
    }
    Ok(rows)
}

/// What stands in the column `ratio`.
fn ratio_text(published: Value, ours: Value) -> String {
    let ratio = Value::exactly(ours.is / published.is);
    let ratio = Value { is: (ratio.is * 1000.0).round() / 1000.0, ..ratio }.text();
    match (published.beyond, ours.beyond) {
        (true, true) => "both given up".into(),
        (true, false) => format!("{ratio} of >{}", published.is),
        (false, true) => format!(">{ratio}"),
        (false, false) => ratio,
    }
}

impl Row {
    /// By what factor the two differ; `None` if one of them was given up or they differ in sign.
    fn factor(&self) -> Option<f64> {
        let ratio = self.ours.is / self.published.is;
        match (self.published.beyond, self.ours.beyond) {
            (true, true) => Some(1.0),
            (false, false) if ratio > 0.0 => Some(ratio.max(1.0 / ratio)),
            _ => None,
        }
    }

    /// Which of our configurations it is, as far as a document names one in several ways.
    fn config(&self) -> &str {
        match self.words[2].as_str() {
            "cfq low_latency on" => "cfq",
            "deadline-patched (with printks)" => "deadline-patched",
            other => other,
        }
    }

    /// What is compared: experiment, drive, workload, metric; `None`: derived rows form no pairs.
    fn setting(&self) -> Option<[&str; 4]> {
        let [experiment, drive, workload, metric, unit] =
            [0, 1, 3, 4, 5].map(|i| self.words[i].as_str());
        let workload = workload.trim_end_matches(" (low_latency-off paragraph)");
        (unit != "x" && unit != "percent").then_some([experiment, drive, workload, metric])
    }
}

fn within(rows: &[&Row], factor: f64) -> usize {
    rows.iter().filter(|r| r.factor().is_some_and(|f| f <= factor)).count()
}

/// Pairs of configurations whose published values lie apart, and those of them that ours order alike.
fn pairs(rows: &[&Row]) -> (usize, usize) {
    let (mut right, mut all) = (0, 0);
    for (i, a) in rows.iter().enumerate() {
        for b in &rows[i + 1..] {
            let (p, q) = (a.published, b.published);
            let apart = p.is.max(q.is) > APART * p.is.min(q.is) && !(p.beyond && q.beyond);
            if a.setting().is_none() || a.setting() != b.setting() || !apart {
                continue;
            }
            if a.config() != b.config() {
                all += 1;
                right += usize::from((p.is < q.is) == (a.ours.is < b.ours.is) && a.ours != b.ours);
            }
        }
    }
    (right, all)
}

/// Experiments in the order of the file, with their rows.
fn experiments(rows: &[Row]) -> Vec<(&str, Vec<&Row>)> {
    let mut all: Vec<(&str, Vec<&Row>)> = Vec::new();
    for row in rows {
        let id = row.words[0].as_str();
        match all.iter_mut().find(|e| e.0 == id) {
            Some(found) => found.1.push(row),
            None => all.push((id, vec![row])),
        }
    }
    all
}

/// Agreement by experiment, as Markdown.
fn counts(rows: &[Row]) -> String {
    let mut out = String::from(
        "| experiment | rows | within 1.25x | 1.5x | 2x | order of pairs |\n|---|--:|--:|--:|--:|--:|\n",
    );
    let mut line = |id: &str, rows: &[&Row], (right, all): (usize, usize)| {
        let [a, b, c] = [1.25, 1.5, 2.0].map(|f| within(rows, f));
        let order = if all == 0 { "-".to_string() } else { format!("{right} of {all}") };
        out.push_str(&format!("| {id} | {} | {a} | {b} | {c} | {order} |\n", rows.len()));
    };
    let mut sum = (0, 0);
    for (id, rows) in experiments(rows) {
        let found = pairs(&rows);
        sum = (sum.0 + found.0, sum.1 + found.1);
        line(&format!("`{id}`"), &rows, found);
    }
    line("all", &rows.iter().collect::<Vec<_>>(), sum);
    out
}

/// Every row of `before` with ours of both states, folded by experiment, as Markdown.
fn comparison(before: &[Row], after: &[Row]) -> String {
    let mut out = String::new();
    for (id, rows) in experiments(before) {
        out.push_str(&format!(
            "\n<details><summary><code>{id}</code>, {} rows</summary>\n\n",
            rows.len()
        ));
        out.push_str("| drive | configuration | workload | metric | published | ours | ratio | now | ratio |\n");
        out.push_str("|---|---|---|---|--:|--:|--:|--:|--:|\n");
        for row in rows {
            let now = after.iter().find(|a| a.words[..7] == row.words[..7]);
            let now = now.map_or(["-", "-"], |a| [7, 8].map(|i| a.words[i].as_str()));
            let w = |i: usize| row.words[i].as_str();
            let unit = format!("{}, {}", w(4), w(5));
            let cells = [w(1), w(2), w(3), &unit, w(6), w(7), w(8), now[0], now[1]];
            out.push_str(&format!("| {} |\n", cells.join(" | ")));
        }
        out.push_str("\n</details>\n");
    }
    out
}
