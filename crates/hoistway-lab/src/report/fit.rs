//! The page of a calibration: the found drive beside the measured one, figure by figure. What `hoistway calibrate
//! --report` writes.
//!
//! A dot or bar is the simulated drive that was found, a dashed stroke what was measured: where they are apart the model
//! does something else than the device. Rows are named by their tests, grouped by what varies in them.

use super::chart::{Bar, Line, Panel, bars, panels};
use super::html;
use super::section::{Chart, figure, open_table};
use super::svg::{AxisUnit, esc, number};
use crate::calibrate::{ERROR_MAX, FitRow, FoundDrive, undecided};
use crate::result::Spread;
use crate::stats::Bound;
use std::fmt::Write as _;

/// Figures that belong together, by the beginnings of their tests' names.
struct FigureGroup {
    slug: &'static str,
    title: &'static str,
    tests: &'static [&'static str],
}

const GROUPS: &[FigureGroup] = &[
    FigureGroup { slug: "size", title: "Reads by size", tests: &["F3", "F4", "H4"] },
    FigureGroup { slug: "depth", title: "Random reads by depth", tests: &["F1", "F2", "H6"] },
    FigureGroup { slug: "place", title: "Reads by place and distance", tests: &["H1", "H3"] },
    FigureGroup { slug: "streams", title: "Slow sequential streams and gaps", tests: &["H5"] },
    FigureGroup { slug: "mix", title: "A reader beside sequential streams", tests: &["F5", "H7"] },
    FigureGroup { slug: "limits", title: "Limits and bursts", tests: &["B1"] },
    FigureGroup { slug: "writes", title: "Writes", tests: &["F6", "F7", "F9", "C1", "H8"] },
    FigureGroup { slug: "flushes", title: "Writes and flushes", tests: &["F8", "H2", "H9"] },
    FigureGroup { slug: "beside", title: "A reader beside paced writes", tests: &["F10"] },
    FigureGroup { slug: "discards", title: "Discards", tests: &["F11"] },
];

/// The group of a row: F1 is not F11, and F6/rate is one of F6.
fn group_of(row: &FitRow) -> Option<usize> {
    let is = |test: &&str| {
        row.test.strip_prefix(*test).is_some_and(|r| r.is_empty() || r.starts_with('/'))
    };
    GROUPS.iter().position(|g| g.tests.iter().any(is))
}

/// The page. The same answers give the same bytes.
pub fn render(subject: &str, found: &FoundDrive, notes: &[String]) -> String {
    let title = format!("Calibration of {subject}");
    let quality = &found.quality;
    let mut out = html::head(&title);
    let within = found.rows.iter().filter(|r| r.error().abs() <= ERROR_MAX).count();
    let _ = write!(
        out,
        "<main>\n<header id=\"top\">\n<h1>{}</h1>\n<p class=\"lead\">{}</p>\n<ul class=\"chips\">",
        esc(&title),
        esc(&format!(
            "Model {}. What no test tells is as in {}.",
            found.choice.why, found.choice.class
        ))
    );
    for fact in [
        format!("fit {}", if quality.good { "good" } else { "poor" }),
        format!("{within} of {} figures within 15 %", found.rows.len()),
        format!("mean error {:.1} %", 100.0 * quality.mean_error),
        format!("largest {:.0} %", 100.0 * quality.worst),
    ] {
        let _ = write!(out, "<li>{}</li>", esc(&fact));
    }
    let _ = write!(
        out,
        "</ul></header>\n<section>\n<p>{}</p>\n<p class=\"mute\">Bars and dots: the simulated drive that was found. Dashed \
         strokes: measured. A: within 15 %, B: beyond it.</p>\n<div class=\"charts\">\n",
        esc(&quality.sentence())
    );
    charts(found).iter().for_each(|chart| out.push_str(&figure(chart)));
    out.push_str("</div>\n");
    out.push_str(&table(&found.rows));
    for note in notes {
        let _ = writeln!(out, "<p class=\"mute\">{}</p>", esc(note));
    }
    let _ = write!(
        out,
        "<h2>The drive file</h2>\n<pre class=\"cmd\"><code>{}</code></pre>\n</section>\n<footer>Made by hoistway {}.</footer>\n</main>\n\
         <script>\n{}</script>\n</body>\n</html>\n",
        esc(&found.text),
        env!("CARGO_PKG_VERSION"),
        html::SCRIPT
    );
    out
}

/// A chart for each group and unit that has figures, then the sustained write over time.
fn charts(found: &FoundDrive) -> Vec<Chart> {
    let mut all = Vec::new();
    for (g, group) in GROUPS.iter().enumerate() {
        for (unit, scale, axis) in [("us", 1e3, "mean latency"), ("MB/s", 1.0, "throughput, MB/s")]
        {
            let here = found.rows.iter().filter(|r| r.unit == unit && group_of(r) == Some(g));
            let rows: Vec<Bar> = here.map(|r| bar(r, scale)).collect();
            if rows.is_empty() {
                continue;
            }
            let kind = if unit == "us" { AxisUnit::Time } else { AxisUnit::Rate };
            let slug = format!("{}-{}", group.slug, if unit == "us" { "latency" } else { "rate" });
            let svg = bars(&slug, group.title, axis, kind, &rows);
            all.push(Chart::new(&slug, group.title, axis, svg));
        }
    }
    all.extend(sustained(found));
    all
}

/// What the target moves, or those beside it, or how long its flushes take.
fn label(row: &FitRow) -> String {
    match row.what {
        "mean flush" => format!("{} flush", row.test),
        "throughput of the others" => format!("{} others", row.test),
        _ => row.test.clone(),
    }
}

fn bar(row: &FitRow, scale: f64) -> Bar {
    let value = row.simulated * scale;
    Bar {
        key: usize::from(row.error().abs() > ERROR_MAX),
        label: label(row),
        value: Some(Spread { mean: value, half_width: None, min: value, max: value, n: 1 }),
        bound: Bound::Exact,
        published: Some(row.measured * scale),
    }
}

fn sustained(found: &FoundDrive) -> Option<Chart> {
    let s = found.sustained.as_ref()?;
    let line = |key: usize, tip: &str, bins: &[u64]| {
        let each = s.span_ns as f64 / 1e9;
        let point =
            |(i, &bytes): (usize, &u64)| ((i as f64 + 0.5) * each, bytes as f64 / each / 1e6);
        Line { key, tip: tip.into(), points: bins.iter().enumerate().map(point).collect() }
    };
    let panel = Panel {
        name: "sequential writes".into(),
        unit: "MB/s".into(),
        lines: vec![line(0, "simulated", &s.simulated), line(1, "measured", &s.measured)],
    };
    let title = format!("Sustained writes ({})", s.test);
    let svg = panels("sustained", &title, "the rate of a long write over time", &[panel]);
    Some(Chart::new("sustained", &title, "A: simulated, B: measured", svg))
}

fn table(rows: &[FitRow]) -> String {
    let mut out = open_table("Every figure");
    out.push_str(
        "<thead><tr><th>test</th><th>figure</th><th>unit</th><th>measured</th><th>simulated</th><th>error</th>\
         <th>demerit</th><th>decides</th></tr></thead>\n<tbody>\n",
    );
    for row in rows {
        let demerit = row.demerit.map_or_else(|| "–".into(), |d| format!("{d:.2}"));
        let decides = undecided(row).map_or_else(|| "yes".into(), |why| format!("no: {why}"));
        let _ = writeln!(
            out,
            "<tr><th scope=\"row\">{}</th><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{:+.1} %</td><td>{demerit}</td><td>{}</td></tr>",
            esc(&row.test),
            esc(row.what),
            row.unit,
            number(row.measured),
            number(row.simulated),
            100.0 * row.error(),
            esc(&decides)
        );
    }
    out.push_str("</tbody></table></div>\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calibrate::{ChosenModel, Sustained, Targets, quality};
    use hoistway_sim::drive::DriveFile;

    fn row(
        test: &str,
        what: &'static str,
        unit: &'static str,
        measured: f64,
        simulated: f64,
    ) -> FitRow {
        FitRow {
            test: test.into(),
            what,
            unit,
            measured,
            simulated,
            count: Some(100),
            demerit: None,
        }
    }

    fn found() -> FoundDrive {
        let rows = vec![
            row("F1", "mean latency", "us", 100.0, 104.0),
            row("F2/depth 31", "mean latency", "us", 400.0, 900.0),
            row("F8/alone", "mean flush", "us", 3000.0, 3100.0),
            row("F11/64M", "mean latency", "us", 50.0, 50.0),
            row("F6", "throughput", "MB/s", 300.0, 310.0),
        ];
        FoundDrive {
            file: DriveFile::load("cloud-gp3").unwrap(),
            text: "name = \"a<b\"\n".into(),
            choice: ChosenModel { model: "flash", why: "it is".into(), class: "x".into() },
            quality: quality(&rows),
            rows,
            guessed: Vec::new(),
            targets: Targets { read_us: None, write_us: None },
            reaction_us: 0.0,
            sustained: Some(Sustained {
                test: "F6".into(),
                span_ns: 1_000_000_000,
                measured: vec![300_000_000, 100_000_000],
                simulated: vec![310_000_000, 120_000_000],
            }),
        }
    }

    #[test]
    fn each_figure_stands_in_one_chart_and_in_the_table() {
        let found = found();
        assert!(found.rows.iter().all(|r| group_of(r).is_some()));
        assert_ne!(group_of(&found.rows[0]), group_of(&found.rows[3]), "F1 is not F11");
        let html = render("a <drive>", &found, &["a note".into()]);
        // Depth, writes, flushes, discards, and the write over time.
        assert_eq!(html.matches("<figure").count(), 5, "{html}");
        assert_eq!(html.matches("<th scope=\"row\">").count(), 5);
        assert!(html.contains("a &lt;drive&gt;") && html.contains("name = &quot;a&lt;b&quot;"));
        assert!(html.contains("4 of 5 figures within 15 %") && html.contains("a note"));
        assert_eq!(html, render("a <drive>", &found, &["a note".into()]));
    }

    #[test]
    fn every_test_of_the_suites_has_a_group() {
        use crate::calibrate::{SuiteOptions, subject_of, suite};
        for id in ["plextor-px-256m5s", "hitachi-hts727550a9e364", "sd-card-2009", "cloud-gp3"] {
            let subject = subject_of(&DriveFile::load(id).unwrap());
            let options =
                SuiteOptions { quick: false, write: true, write_budget: 1 << 34, seed: 1 };
            for test in suite(&subject, &options) {
                let row = row(&test.name, "mean latency", "us", 1.0, 1.0);
                assert!(group_of(&row).is_some(), "{}", test.name);
            }
        }
    }
}
