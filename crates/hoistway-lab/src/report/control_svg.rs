//! The picture of what control brings and costs: a row per configuration, a dot per drive, what the target
//! waits on the left and what the others keep on the right. A file of its own, readable on light and on
//! dark pages.

use super::figures::CellFigures;
use super::svg::{AxisUnit, Scale, esc, number, px};
use crate::result::Run;
use crate::result::control::{Control, alone_workload};
use std::fmt::Write;

const WIDTH: f64 = 880.0;
const ROW: f64 = 26.0;
/// Above the rows: title, what the halves show. Below them: the ticks.
const TOP: f64 = 70.0;
const BOTTOM: f64 = 44.0;
/// The two halves.
const LEFT: (f64, f64) = (150.0, 480.0);
const RIGHT: (f64, f64) = (545.0, 855.0);

/// A configuration: what its dots stand at.
struct Dots {
    name: String,
    /// Name of the drive, latency over that alone.
    waits: Vec<(String, f64)>,
    /// Name of the drive, what the others keep, percent.
    keeps: Vec<(String, f64)>,
}

/// The picture of the first workload that is not a target alone. The same run gives the same bytes.
pub fn render(run: &Run) -> String {
    let workload = run.manifest.workloads.iter().find(|w| alone_workload(&w.id).is_some());
    let Some(workload) = workload else { return empty() };
    let rows = rows(run, &workload.id);
    let waits = rows.iter().flat_map(|r| &r.waits).map(|w| w.1);
    let height = TOP + ROW * rows.len() as f64 + BOTTOM;
    let drives = run.manifest.drives.len();
    let title = format!("{}: {}", run.manifest.title, workload.summary);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" role=\"img\" font-family=\"sans-serif\">\
         <title>{}</title><style>{STYLE}</style>",
        px(WIDTH),
        px(height),
        esc(&title)
    );
    let _ = write!(
        out,
        "<text class=\"h\" x=\"12\" y=\"22\">A random reader beside: {}</text>\
         <text class=\"m\" x=\"{}\" y=\"50\">the reader waits, times as long as alone</text>\
         <text class=\"m\" x=\"{}\" y=\"50\">the others keep, % of their throughput without control</text>",
        esc(&workload.summary),
        px(LEFT.0),
        px(RIGHT.0)
    );
    // Alone is the left edge.
    let most = waits.fold(10.0, f64::max);
    let left = Scale::log(1.0, most, AxisUnit::Number, LEFT.0, LEFT.1);
    let right = Scale::linear(100.0, AxisUnit::Number, RIGHT.0, RIGHT.1);
    let floor = TOP + ROW * rows.len() as f64;
    for (scale, sign) in [(&left, "×"), (&right, "")] {
        for (at, text) in scale.ticks() {
            let x = px(at);
            let _ = write!(
                out,
                "<path class=\"g\" d=\"M{x} {}V{}\"/><text class=\"m c\" x=\"{x}\" y=\"{}\">{sign}{text}</text>",
                px(TOP - 8.0),
                px(floor),
                px(floor + 17.0)
            );
        }
    }
    for (i, row) in rows.iter().enumerate() {
        let y = TOP + ROW * (i as f64 + 0.5);
        let class = if row.name.contains("paternoster") { "o" } else { "d" };
        let _ = write!(
            out,
            "<text class=\"n {class}\" x=\"{}\" y=\"{}\">{}</text>",
            px(LEFT.0 - 12.0),
            px(y + 4.0),
            esc(&row.name)
        );
        dots(&mut out, class, y, &left, &row.waits, "×");
        dots(&mut out, class, y, &right, &row.keeps, " %");
    }
    let _ = writeln!(
        out,
        "<text class=\"m\" x=\"{}\" y=\"{}\">a dot per drive ({drives}), the bar is their median; {} seeds, simulated</text></svg>",
        px(LEFT.0),
        px(floor + 36.0),
        run.manifest.reps
    );
    out
}

fn rows(run: &Run, workload: &str) -> Vec<Dots> {
    let configs = run.manifest.configs.iter();
    let mut rows: Vec<Dots> = configs
        .map(|c| Dots { name: c.id.clone(), waits: Vec::new(), keeps: Vec::new() })
        .collect();
    for drive in &run.manifest.drives {
        for f in CellFigures::of(run, &drive.id, workload) {
            let c = Control::of(&run.manifest, &run.cells, f.cell);
            if let Some(wait) = c.latency.and_then(|c| c.ratio) {
                rows[f.key].waits.push((drive.name.clone(), wait.mean.max(1.0)));
            }
            if let Some(kept) = c.others.and_then(|c| c.ratio) {
                rows[f.key].keeps.push((drive.name.clone(), 100.0 * kept.mean));
            }
        }
    }
    rows
}

/// A dot each and the median; what lies beyond the scale stands at its end.
fn dots(out: &mut String, class: &str, y: f64, scale: &Scale, all: &[(String, f64)], unit: &str) {
    let mut values: Vec<f64> = all.iter().map(|v| v.1).collect();
    values.sort_by(f64::total_cmp);
    let at = |v: f64| px(scale.at(v));
    if let Some(median) = values.get(values.len() / 2) {
        let _ =
            write!(out, "<path class=\"b {class}\" d=\"M{} {}v16\"/>", at(*median), px(y - 8.0));
    }
    for (drive, v) in all {
        let tip = match unit {
            "×" => format!("{drive}: ×{}", number(*v)),
            _ => format!("{drive}: {}{unit}", number(*v)),
        };
        let _ = write!(
            out,
            "<circle class=\"{class}\" cx=\"{}\" cy=\"{}\" r=\"4\"><title>{}</title></circle>",
            at(*v),
            px(y),
            esc(&tip)
        );
    }
}

fn empty() -> String {
    "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 1 1\"><title>nothing beside a target alone</title></svg>\n"
        .into()
}

const STYLE: &str = "text{font-size:12px;fill:#1b1f24}.h{font-size:14px;font-weight:600}.m{fill:#5b636d}.c{text-anchor:middle}\
.n{text-anchor:end}.g{stroke:#d5dae0;fill:none}circle.d{fill:#5b636d;fill-opacity:.55}circle.o{fill:#d55e00;fill-opacity:.75}\
.b{stroke-width:2.5;fill:none}.b.d{stroke:#1b1f24}.b.o{stroke:#d55e00}text.o{fill:#b34f00;font-weight:700}\
@media (prefers-color-scheme:dark){text{fill:#e4e7ea}.m{fill:#9aa3ad}.g{stroke:#30363d}circle.d{fill:#9aa3ad}circle.o{fill:#f0803c}\
.b.d{stroke:#e4e7ea}.b.o{stroke:#f0803c}text.o{fill:#f0803c}}";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::control::tests::{latency_run, share_run};

    #[test]
    fn a_picture_has_a_row_per_configuration_and_a_dot_per_drive() {
        let text = render(&latency_run());
        assert!(text.contains(">none-none</text>") && text.contains(">slo</text>"), "{text}");
        assert_eq!(text.matches("<circle").count(), 4, "two configurations, two halves");
        assert!(text.contains("<title>Plextor: ×2.00</title>"), "{text}");
        assert!(text.contains("<title>Plextor: 95.0 %</title>"), "{text}");
        assert!(text.contains("prefers-color-scheme:dark"));
        assert_eq!(text, render(&latency_run()));
    }

    #[test]
    fn names_of_drives_cannot_break_out() {
        let mut run = share_run();
        run.manifest.drives[0].name = "</title><script>".into();
        assert!(!render(&run).contains("<script>"));
    }
}
