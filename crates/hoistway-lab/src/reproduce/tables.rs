//! What a reproduction is written down as: Markdown, and a table of everything for programs.

use super::agreement::{Agreement, FACTORS};
use super::figures::{Figure, Results};
use super::rows::{self, NoteKind, PublishedRow};
use super::value::Value;
use super::{ReproducePlan, Reproduction};
use crate::experiment::Procedure;
use crate::result::{Judge, csv, number_text};
use hoistway_sim::load::find_count;
use std::fmt::Write as _;

/// A reproduction with the published figures beside it.
#[derive(Debug)]
pub struct PublishedComparison<'a> {
    /// What was asked for.
    pub plan: &'a ReproducePlan,
    /// What came of it.
    pub done: &'a Reproduction,
    /// Every published figure of its experiments.
    pub rows: Vec<PublishedRow>,
}

impl<'a> PublishedComparison<'a> {
    /// Puts published figures beside ours.
    pub fn of(plan: &'a ReproducePlan, done: &'a Reproduction) -> PublishedComparison<'a> {
        PublishedComparison { plan, done, rows: rows::rows(&done.results) }
    }

    /// The rows of an experiment.
    pub fn rows_of(&self, id: &str) -> Vec<&PublishedRow> {
        let of = |r: &&PublishedRow| super::derived::experiment_of(&r.words[0]) == id;
        self.rows.iter().filter(of).collect()
    }

    /// Agreement by experiment, those without published figures left out; and of all.
    pub fn agreement(&self) -> (Vec<(&'a Results, Agreement)>, Agreement) {
        let each: Vec<(&Results, Agreement)> = self
            .done
            .results
            .iter()
            .map(|r| (r, Agreement::of(&self.rows_of(&r.id))))
            .filter(|(_, a)| a.published > 0)
            .collect();
        let all = each.iter().fold(Agreement::default(), |all, (_, a)| all.join(*a));
        (each, all)
    }

    /// Published figures measured without control that are compared.
    pub fn uncontrolled(&self) -> impl Iterator<Item = &PublishedRow> {
        self.rows.iter().filter(|r| r.uncontrolled && r.ours.is_some())
    }

    /// What was done, in a sentence or two.
    pub fn procedure(&self) -> String {
        let how = match self.plan.procedure {
            Procedure::Sound => {
                "Each experiment ran until its load was steady, with seeds 1 to N; intervals are two-sided 99 % \
                 Student intervals of the repetitions' means."
            }
            Procedure::AsPublished => {
                "Each experiment ran for the time and as often as its document says, with the statistics of its \
                 document: mean of the means of single runs; of the S suite's tests throughput is the mean of the \
                 device's samples but for the first. conf99_S is what the suite calls a 99 % confidence interval; it is \
                 about four times as wide as one."
            }
        };
        let quick = if self.plan.quick {
            " Quick: a quarter of all times and few repetitions; not for figures to quote."
        } else {
            ""
        };
        format!("{how}{quick}")
    }
}

/// Heads of the table of agreement.
pub const AGREEMENT: [&str; 9] = [
    "experiment",
    "published",
    "compared",
    "within 1.25x",
    "1.5x",
    "2x",
    "uncontrolled within 25 %",
    "order of pairs",
    "same leader",
];

/// A row of the table of agreement.
pub fn agreement_cells(id: &str, a: &Agreement) -> [String; 9] {
    let [n, m, k] = a.within;
    const { assert!(FACTORS.len() == 3) };
    let counts = [a.published, a.compared, n, m, k].map(|n| n.to_string());
    let [published, compared, x, y, z] = counts;
    let [uncontrolled, leaders] = [a.uncontrolled, a.leaders].map(super::agreement::Count::text);
    [id.into(), published, compared, x, y, z, uncontrolled, a.pairs.text(), leaders]
}

/// Why ours lies beyond the tolerance, as far as somebody has found out.
pub fn mechanism(row: &PublishedRow) -> &'static str {
    if row.within_tolerance() {
        return "";
    }
    rows::note(&row.words, NoteKind::Mechanism).unwrap_or("not explained yet")
}

/// The quantities that a reader looks at first, by what is judged.
fn first(judge: Judge) -> &'static [&'static str] {
    match judge {
        Judge::Latency => &[
            "latency_avg",
            "latency_p50",
            "latency_p99",
            "latency_max",
            "throughput_target",
            "throughput_total",
        ],
        Judge::Share => &[
            "throughput_target",
            "share_met_worst",
            "throughput_interferer_min",
            "throughput_total",
            "jain_weighted",
        ],
        Judge::Throughput => &[
            "throughput_total",
            "throughput_read",
            "throughput_written",
            "iops",
            "jain_interferers",
        ],
        Judge::Startup => &["startup_time", "startups_unfinished", "throughput_total"],
        // What is counted is shown wherever it is.
        Judge::Count => &["throughput_target", "throughput_total"],
    }
}

/// What phases of loads have (docs/reference/metrics.md).
const OF_PHASES: &[&str] = &[
    "phase_time",
    "throughput_total",
    "latency_avg",
    "latency_max",
    "latency_share_over_2s",
    "latency_share_over_10s",
];

/// The figures of ours that are printed: by what is judged, and everything that loads count.
pub fn shown(results: &Results) -> impl Iterator<Item = &Figure> {
    results.figures.iter().filter(|f| {
        let counted = f.metric.strip_suffix("_share").unwrap_or(&f.metric);
        let of_cell = match results.judges.get(&(f.drive.clone(), f.workload.clone())) {
            Some(judge) => first(*judge).contains(&f.metric.as_str()),
            None => OF_PHASES.contains(&f.metric.as_str()),
        };
        f.value.is_some() && (of_cell || find_count(counted).is_some())
    })
}

/// The value of a figure, four digits.
pub fn value_text(f: &Figure) -> String {
    f.value.map_or_else(|| "-".into(), |v| Value::from(v).text())
}

/// Half of its interval, three digits.
pub fn interval_text(f: &Figure) -> String {
    f.ci99.map_or_else(|| "-".into(), |half| Value::exactly(half).text())
}

// ---- Markdown ----

/// The whole as Markdown.
pub fn markdown(c: &PublishedComparison<'_>) -> String {
    let mut out = format!(
        "# Reproduction, {} procedure{}\n\n```text\n{}\n```\n\nMade by hoistway {}. {}\n",
        c.plan.procedure.name(),
        if c.plan.quick { ", quick" } else { "" },
        c.plan.command,
        env!("CARGO_PKG_VERSION"),
        c.procedure()
    );
    if !c.done.failed.is_empty() {
        out.push_str("\n## Not carried out\n\n");
        for (id, what) in &c.done.failed {
            let _ = writeln!(out, "- `{id}`: {}", cell(what));
        }
    }
    let (each, all) = c.agreement();
    out.push_str("\n## Agreement with the published figures\n\n");
    out.push_str(AGREEMENT_NOTE);
    head(&mut out, &AGREEMENT, 1);
    for (results, agreement) in &each {
        line(&mut out, &agreement_cells(&format!("`{}`", results.id), agreement));
    }
    line(&mut out, &agreement_cells("all", &all));
    out.push_str("\n## Measured without I/O control\n\n");
    let beyond = c.uncontrolled().filter(|r| !r.within_tolerance()).count();
    let _ = writeln!(
        out,
        "{} figures; {beyond} of them lie more than 25 % off.\n",
        c.uncontrolled().count()
    );
    head(&mut out, &UNCONTROLLED, 5);
    for row in c.uncontrolled() {
        let w = |i: usize| row.words[i].clone();
        let unit = format!("{}, {}", w(4), w(5));
        let ours = row.ours.map_or_else(String::new, Value::text);
        let why = mechanism(row).to_string();
        line(&mut out, &[w(0), w(1), w(2), w(3), unit, w(6), ours, row.ratio_text(), why]);
    }
    out.push_str("\n## Every experiment\n");
    for results in &c.done.results {
        experiment(&mut out, results, &c.rows_of(&results.id), c.plan.procedure);
    }
    let without: Vec<&PublishedRow> = c.rows.iter().filter(|r| r.ours.is_none()).collect();
    if !without.is_empty() {
        out.push_str("\n## Published figures without one of ours\n\n");
        head(&mut out, &["experiment", "configuration", "workload", "metric", "why"], 5);
        for row in without {
            let w = |i: usize| row.words[i].clone();
            line(&mut out, &[w(0), w(2), w(3), w(4), row.note.clone()]);
        }
    }
    out
}

const AGREEMENT_NOTE: &str = "*Within 1.25x*: ours lies between published / 1.25 and published x 1.25; where both sides gave up it agrees, where one \
did there is no ratio. *Order of pairs*: of two configurations published more than 10 % apart under the same load, the same one is ahead in \
ours, by more than 10 % too; *tied* are those of which ours lie nearer. *Same leader*: where one configuration was published more than 10 % ahead of all others, it is the best in ours too. Factors and percentages form no pairs.\n\n";

/// Heads of the table of figures without control.
pub const UNCONTROLLED: [&str; 9] = [
    "experiment",
    "drive",
    "configuration",
    "workload",
    "metric",
    "published",
    "ours",
    "ratio",
    "mechanism",
];

fn experiment(out: &mut String, results: &Results, rows: &[&PublishedRow], procedure: Procedure) {
    let _ = write!(
        out,
        "\n<details><summary><code>{}</code>: {} ({}, {} repetitions)</summary>\n\n{}\n\n",
        results.id,
        cell(&results.title),
        results.source.title,
        results.reps,
        cell(&results.about)
    );
    let compared: Vec<&&PublishedRow> = rows.iter().filter(|r| r.ours.is_some()).collect();
    if !compared.is_empty() {
        let heads =
            ["drive", "configuration", "workload", "metric", "published", "ours", "ratio", "note"];
        head(out, &heads, 4);
        for row in compared {
            let w = |i: usize| row.words[i].clone();
            let unit = format!("{}, {}", w(4), w(5));
            let ours = row.ours.map_or_else(String::new, Value::text);
            line(out, &[w(1), w(2), w(3), unit, w(6), ours, row.ratio_text(), row.note.clone()]);
        }
        out.push('\n');
    }
    let suite = procedure == Procedure::AsPublished;
    let mut heads = vec!["drive", "workload", "configuration", "metric", "ours", "± 99 %"];
    if suite {
        heads.extend(["sd", "min", "max"]);
        heads.extend(results.source.suite.then_some("conf99_S"));
    }
    head(out, &heads, 4);
    for f in shown(results) {
        let metric = format!("{}, {}", f.metric, f.unit);
        let mut cells = vec![f.drive.clone(), f.workload.clone(), f.config.clone(), metric];
        cells.extend([value_text(f), interval_text(f)]);
        if suite {
            let text = |x: Option<f64>| x.map_or_else(|| "-".into(), |x| Value::exactly(x).text());
            let spread = f.spread();
            cells.extend([f.sd(), spread.map(|s| s.min), spread.map(|s| s.max)].map(text));
            cells.extend(results.source.suite.then(|| text(f.conf99_of_the_suite())));
        }
        line(out, &cells);
    }
    out.push_str("\n</details>\n");
}

/// `left`: so many columns are text; so is the last one if it is called so.
fn head(out: &mut String, heads: &[&str], left: usize) {
    let _ = writeln!(out, "| {} |", heads.join(" | "));
    let rule = heads.iter().enumerate().map(|(i, head)| {
        if i < left || matches!(*head, "mechanism" | "note" | "why") { "---" } else { "--:" }
    });
    let _ = writeln!(out, "|{}|", rule.collect::<Vec<_>>().join("|"));
}

fn line(out: &mut String, cells: &[String]) {
    let cells: Vec<String> = cells.iter().map(|c| cell(c)).collect();
    let _ = writeln!(out, "| {} |", cells.join(" | "));
}

/// A text that cannot end a cell or begin a tag. Published `>60` stays readable.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('<', "&lt;")
}

// ---- for programs ----

/// Header of `reproduction.csv`.
pub const COLUMNS: [&str; 19] = [
    "experiment",
    "drive",
    "config",
    "workload",
    "metric",
    "unit",
    "ours",
    "ci99",
    "n",
    "sd",
    "min",
    "max",
    "conf99_S",
    "published",
    "ratio",
    "uncontrolled",
    "document_config",
    "document_workload",
    "note",
];

/// Every figure of ours, with the published one where there is one; then the published ones that are
/// calculated from several of ours, or have none.
pub fn all_csv(c: &PublishedComparison<'_>) -> String {
    let mut out = String::new();
    csv::push_line(&mut out, COLUMNS);
    let opt = |x: Option<f64>| x.map_or_else(String::new, number_text);
    for results in &c.done.results {
        let rows = c.rows_of(&results.id);
        for f in &results.figures {
            let Some(value) = f.value else { continue };
            let cell = [&f.drive, &f.config, &f.workload, &f.metric].map(String::as_str);
            let beside: Vec<&&PublishedRow> =
                rows.iter().filter(|r| r.cell == Some(cell)).collect();
            let spread = f.spread();
            let value = format!("{}{}", value.bound.sign(), number_text(value.value));
            let own = [
                value,
                opt(f.ci99),
                f.reps.len().to_string(),
                opt(f.sd()),
                opt(spread.map(|s| s.min)),
                opt(spread.map(|s| s.max)),
                opt(f.conf99_of_the_suite().filter(|_| {
                    c.plan.procedure == Procedure::AsPublished && results.source.suite
                })),
            ];
            let place = [&results.id, &f.drive, &f.config, &f.workload, &f.metric, &f.unit];
            let mut put = |last: [&str; 6]| {
                let words = place.into_iter().chain(&own).map(String::as_str);
                csv::push_line(&mut out, words.chain(last));
            };
            if beside.is_empty() {
                put([""; 6]);
            }
            for row in beside {
                let ratio = row.ratio_text();
                put(published(row, &in_our_unit(row), &ratio));
            }
        }
        for row in rows.iter().filter(|r| r.cell.is_none() || r.ours.is_none()) {
            let w = |i: usize| row.words[i].as_str();
            let ours = row.ours.map_or_else(String::new, Value::text);
            let ratio = row.ratio_text();
            let place = [results.id.as_str(), w(1), w(2), w(3), w(4), w(5), &ours];
            let words = place.into_iter().chain([""; 6]);
            csv::push_line(&mut out, words.chain(published(row, w(6), &ratio)));
        }
    }
    out
}

fn published<'a>(row: &'a PublishedRow, value: &'a str, ratio: &'a str) -> [&'a str; 6] {
    let control = if row.uncontrolled { "1" } else { "" };
    [value, ratio, control, &row.words[2], &row.words[3], &row.note]
}

/// The published value of a row that has one cell, in the unit of ours.
fn in_our_unit(row: &PublishedRow) -> String {
    let words = rows::plain(&row.words);
    match crate::result::published::join(&words) {
        Some(joined) => {
            format!("{}{}", if joined.beyond { ">" } else { "" }, number_text(joined.value))
        }
        None => row.words[6].clone(),
    }
}

/// Published figures beside ours in the columns of `data/published-ours.csv`.
pub fn rows_csv(c: &PublishedComparison<'_>) -> String {
    let mut out = String::new();
    let heads = ["published", "ours", "ratio", "note"];
    let place = ["experiment", "drive", "config", "workload", "metric", "unit"];
    csv::push_line(&mut out, place.into_iter().chain(heads));
    for row in c.rows.iter().filter(|r| r.ours.is_some()) {
        let ours = row.ours.map_or_else(String::new, Value::text);
        let ratio = row.ratio_text();
        let words = row.words[..7].iter().map(String::as_str);
        csv::push_line(&mut out, words.chain([ours.as_str(), &ratio, &row.note]));
    }
    out
}

/// The whole for programs.
pub fn json(c: &PublishedComparison<'_>, out: &str) -> serde_json::Value {
    let row = |r: &PublishedRow| {
        let w = |i: usize| r.words[i].as_str();
        let cell = r.cell.map(|[drive, config, workload, metric]| {
            serde_json::json!({ "drive": drive, "config": config, "workload": workload, "metric": metric })
        });
        serde_json::json!({
            "experiment": w(0), "drive": w(1), "config": w(2), "workload": w(3), "metric": w(4), "unit": w(5),
            "published": r.published.is, "published_beyond": r.published.beyond,
            "ours": r.ours.map(|v| v.is), "ours_beyond": r.ours.is_some_and(|v| v.beyond),
            "ratio": r.ratio(), "uncontrolled": r.uncontrolled, "note": r.note, "cell": cell,
        })
    };
    let figure = |f: &Figure| {
        serde_json::json!({
            "drive": f.drive, "config": f.config, "workload": f.workload, "metric": f.metric, "unit": f.unit,
            "value": f.value.map(|v| v.value), "bound": f.value.map_or("", |v| v.bound.sign()),
            "ci99": f.ci99, "reps": f.reps,
        })
    };
    let experiment = |r: &Results| {
        let a = Agreement::of(&c.rows_of(&r.id));
        serde_json::json!({
            "experiment": r.id, "title": r.title, "document": r.source.name, "reps": r.reps,
            "agreement": agreement_json(&a),
            "figures": r.figures.iter().map(figure).collect::<Vec<_>>(),
        })
    };
    let failed =
        |(id, what): &(String, String)| serde_json::json!({ "experiment": id, "error": what });
    serde_json::json!({
        "schema": 1, "version": env!("CARGO_PKG_VERSION"), "command": c.plan.command,
        "procedure": c.plan.procedure.name(), "quick": c.plan.quick, "directory": out,
        "agreement": agreement_json(&c.agreement().1),
        "rows": c.rows.iter().map(row).collect::<Vec<_>>(),
        "experiments": c.done.results.iter().map(experiment).collect::<Vec<_>>(),
        "failed": c.done.failed.iter().map(failed).collect::<Vec<_>>(),
    })
}

fn agreement_json(a: &Agreement) -> serde_json::Value {
    let count = |c: super::agreement::Count| serde_json::json!({ "n": c.n, "of": c.of });
    serde_json::json!({
        "published": a.published, "compared": a.compared,
        "within_1.25": a.within[0], "within_1.5": a.within[1], "within_2": a.within[2],
        "uncontrolled_within_25_percent": count(a.uncontrolled),
        "pairs": { "n": a.pairs.right, "of": a.pairs.all(), "tied": a.pairs.tied },
        "leaders": count(a.leaders),
    })
}
