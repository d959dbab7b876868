//! The page of a reproduction: agreement, figures without control, and every experiment with its charts,
//! folded. Self-contained like the report of one run.

use super::section::{self, open_table};
use super::svg::{Svg, WIDTH, esc, px};
use super::{html, verdict};
use crate::reproduce::agreement::Agreement;
use crate::reproduce::rows::PublishedRow;
use crate::reproduce::tables::{self, PublishedComparison};
use crate::reproduce::{Results, Value};
use crate::result::Run;
use std::fmt::Write;

/// The part of the page about one run: verdicts, charts and tables of every drive. Anchors carry the
/// experiment's name, so that those of several do not meet.
pub fn section(run: &Run) -> String {
    let mut out = verdict::section(run, &mut |_, _| {});
    for (n, drive) in run.manifest.drives.iter().enumerate() {
        section::drive(run, n, drive, &mut out, &mut |_, _| {});
    }
    let name: String = run
        .manifest
        .experiment
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .collect();
    with_own_anchors(&out, &name)
}

/// What anchors and their uses stand behind, and what ends them.
const ANCHORS: [(&str, char); 5] = [
    (" id=\"", '"'),
    (" href=\"#", '"'),
    (" aria-labelledby=\"", '"'),
    (" aria-describedby=\"", '"'),
    ("url(#", ')'),
];

/// The same markup with `name-` before every anchor.
fn with_own_anchors(text: &str, name: &str) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 20);
    let find = |mark: &str, from: usize| text[from..].find(mark).map(|at| from + at);
    let mut next = ANCHORS.map(|(mark, _)| find(mark, 0));
    let mut done = 0;
    while let Some((at, n)) = next.iter().enumerate().filter_map(|(n, at)| Some(((*at)?, n))).min()
    {
        let (mark, end) = ANCHORS[n];
        let begin = at + mark.len();
        let length = text[begin..].find(end).unwrap_or(text.len() - begin);
        out.push_str(&text[done..begin]);
        for (i, anchor) in text[begin..begin + length].split(' ').enumerate() {
            let _ = write!(out, "{}{name}-{anchor}", if i > 0 { " " } else { "" });
        }
        done = begin + length;
        for (slot, (mark, _)) in next.iter_mut().zip(ANCHORS) {
            if slot.is_some_and(|at| at < done) {
                *slot = find(mark, done);
            }
        }
    }
    out.push_str(&text[done..]);
    out
}

/// The page. The same reproduction gives the same bytes.
pub fn render(c: &PublishedComparison<'_>) -> String {
    let title = format!("Reproduction, {} procedure", c.plan.procedure.name());
    let mut out = html::head(&title);
    out.push_str(
        "<nav aria-label=\"Sections\"><div class=\"bar-in\"><a class=\"brand\" href=\"#top\">hoistway</a><ul>\
         <li><a href=\"#agreement\">Agreement</a></li><li><a href=\"#uncontrolled\">Without control</a></li>\
         <li><a href=\"#experiments\">Experiments</a></li></ul><button id=\"theme\" type=\"button\" hidden \
         aria-label=\"Switch between light and dark\"></button></div></nav>\n<main>\n",
    );
    let _ = writeln!(
        out,
        "<header id=\"top\">\n<h1>{}</h1>\n<p class=\"lead\">{}</p>\n<pre class=\"cmd\"><code>{}</code></pre>",
        esc(&title),
        esc(&c.procedure()),
        esc(&c.plan.command)
    );
    if !c.done.failed.is_empty() {
        out.push_str("<ul class=\"warn\">");
        for (id, what) in &c.done.failed {
            let _ = write!(out, "<li>{}: {}</li>", esc(id), esc(what));
        }
        out.push_str("</ul>\n");
    }
    out.push_str("</header>\n");
    out.push_str(&agreement(c));
    out.push_str(&uncontrolled(c));
    out.push_str("<section id=\"experiments\">\n<h2>Every experiment</h2>\n");
    for results in &c.done.results {
        out.push_str(&experiment(results, &c.rows_of(&results.id)));
    }
    let _ = write!(
        out,
        "</section>\n<footer>Made by hoistway {} from the records of the runs.</footer>\n</main>\n\
         <script>\n{}</script>\n</body>\n</html>\n",
        env!("CARGO_PKG_VERSION"),
        html::SCRIPT
    );
    out
}

fn agreement(c: &PublishedComparison<'_>) -> String {
    let (each, all) = c.agreement();
    let mut out =
        String::from("<section id=\"agreement\">\n<h2>Agreement with the published figures</h2>\n");
    out.push_str(&ratios(
        &each.iter().map(|e| (e.0.id.as_str(), c.rows_of(&e.0.id))).collect::<Vec<_>>(),
    ));
    let rows = each.iter().map(|(r, a)| tables::agreement_cells(&r.id, a));
    let rows = rows.chain([tables::agreement_cells("all", &all)]);
    out.push_str(&table("Agreement", &tables::AGREEMENT, 1, rows));
    out.push_str("</section>\n");
    out
}

fn uncontrolled(c: &PublishedComparison<'_>) -> String {
    let mut out = String::from(
        "<section id=\"uncontrolled\">\n<h2>Measured without I/O control</h2>\n<p class=\"mute\">What drives and host are \
         calibrated to: 25 % are allowed.</p>\n",
    );
    let rows = c.uncontrolled().map(|row| {
        let w = |i: usize| row.words[i].clone();
        let unit = format!("{}, {}", w(4), w(5));
        let ours = row.ours.map_or_else(String::new, Value::text);
        let why = tables::mechanism(row).to_string();
        [w(0), w(1), w(2), w(3), unit, w(6), ours, row.ratio_text(), why]
    });
    out.push_str(&table("Without control", &tables::UNCONTROLLED, 5, rows));
    out.push_str("</section>\n");
    out
}

fn experiment(results: &Results, rows: &[&PublishedRow]) -> String {
    let a = Agreement::of(rows);
    let mut out = format!(
        "<details id=\"x-{}\"><summary><b>{}</b>: {}{}</summary><div>\n<p class=\"lead\">{}</p>\n<p class=\"mute\">{}; {} \
         repetitions of each run</p>\n",
        esc(&results.id),
        esc(&results.id),
        esc(&results.title),
        match a.compared {
            0 => String::new(),
            n => format!(", {} of {n} within 1.25x", a.within[0]),
        },
        esc(&results.about),
        esc(results.source.title),
        results.reps
    );
    if a.compared > 0 {
        let heads =
            ["drive", "configuration", "workload", "metric", "published", "ours", "ratio", "note"];
        let rows = rows.iter().filter(|r| r.ours.is_some()).map(|row| {
            let w = |i: usize| row.words[i].clone();
            let unit = format!("{}, {}", w(4), w(5));
            let ours = row.ours.map_or_else(String::new, Value::text);
            [w(1), w(2), w(3), unit, w(6), ours, row.ratio_text(), row.note.clone()]
        });
        out.push_str("<h3>Published and ours</h3>\n");
        out.push_str(&table(&results.id, &heads, 4, rows));
    }
    out.push_str(&results.section);
    out.push_str("</div></details>\n");
    out
}

/// `left`: so many columns are text; so is the last one if it is called so.
fn table<const N: usize>(
    title: &str,
    heads: &[&str; N],
    left: usize,
    rows: impl Iterator<Item = [String; N]>,
) -> String {
    let is_text = |i: usize| i < left || matches!(heads[i], "mechanism" | "note");
    let mut out = open_table(title);
    out.push_str("<thead><tr>");
    for (i, head) in heads.iter().enumerate() {
        let class = if is_text(i) { " class=\"l\"" } else { "" };
        let _ = write!(out, "<th scope=\"col\"{class}>{}</th>", esc(head));
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    for row in rows {
        out.push_str("<tr>");
        for (i, text) in row.iter().enumerate() {
            let _ = match i {
                0 => write!(out, "<th scope=\"row\">{}</th>", esc(text)),
                i if is_text(i) => write!(out, "<td class=\"l\">{}</td>", esc(text)),
                _ => write!(out, "<td>{}</td>", esc(text)),
            };
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div>\n");
    out
}

/// Widest ratio that is drawn; what lies beyond stands at the edge.
const EDGE: f64 = 16.0;

/// Ours over published on a logarithmic axis, a line per experiment; the band is the tolerance. Filled:
/// measured without control.
fn ratios(experiments: &[(&str, Vec<&PublishedRow>)]) -> String {
    const LEFT: f64 = 150.0;
    const RIGHT: f64 = WIDTH - 16.0;
    const STEP: f64 = 18.0;
    let lines: Vec<_> = experiments
        .iter()
        .map(|(id, rows)| {
            (*id, rows.iter().filter_map(|r| Some((*r, r.ratio()?))).collect::<Vec<_>>())
        })
        .filter(|(_, dots)| !dots.is_empty())
        .collect();
    if lines.is_empty() {
        return String::new();
    }
    let x = |ratio: f64| {
        let at = libm::log(ratio.clamp(1.0 / EDGE, EDGE)) / libm::log(EDGE);
        LEFT + (RIGHT - LEFT) * (at + 1.0) / 2.0
    };
    let bottom = 14.0 + STEP * lines.len() as f64;
    let title = "Ours over published";
    let mut svg = Svg::open(
        "ratios",
        bottom + 36.0,
        title,
        "Ratio of ours to the published figure, by experiment",
    );
    svg.rect("h1", x(0.75), 8.0, x(1.25) - x(0.75), bottom - 8.0);
    for (ratio, text) in [
        (1.0 / 16.0, "1/16"),
        (0.25, "1/4"),
        (0.5, "1/2"),
        (1.0, "1"),
        (2.0, "2"),
        (4.0, "4"),
        (16.0, "16"),
    ] {
        svg.line(if ratio == 1.0 { "axis" } else { "grid" }, x(ratio), 8.0, x(ratio), bottom);
        svg.text("t mid", x(ratio), bottom + 14.0, text);
    }
    svg.text("t mid name", (LEFT + RIGHT) / 2.0, bottom + 30.0, "ours / published, log scale");
    for (i, (id, dots)) in lines.iter().enumerate() {
        let y = 14.0 + STEP * (i as f64 + 0.5);
        svg.text("t end", LEFT - 8.0, y + 4.0, id);
        for (row, ratio) in dots {
            let class = if row.uncontrolled { "dot" } else { "dot open" };
            let tip = format!(
                "{}, {}, {}, {}: published {} {}, ours {}",
                row.words[1],
                row.words[2],
                row.words[3],
                row.words[4],
                row.words[6],
                row.words[5],
                row.ours.map_or_else(String::new, Value::text)
            );
            let _ = write!(
                svg.out,
                "<g class=\"k k1\" data-k=\"{}\"><title>{}</title><circle class=\"{class}\" cx=\"{}\" cy=\"{}\" r=\"3.4\"/></g>",
                1,
                esc(&tip),
                px(x(ratio.abs().max(1.0 / EDGE))),
                px(y)
            );
        }
    }
    let note = "each dot is a published figure; filled: measured without I/O control; the band: within 25 %";
    let chart = section::Chart::new("agreement", title, note, svg.close());
    format!("<div class=\"work\"><div class=\"charts\">\n{}</div></div>\n", section::figure(&chart))
}

#[cfg(test)]
mod tests {
    use super::with_own_anchors;

    #[test]
    fn anchors_of_several_runs_do_not_meet() {
        let text = "<a href=\"#d0\">x</a><svg aria-labelledby=\"d0t d0d\"><title id=\"d0t\">id=</title></svg>";
        assert_eq!(
            with_own_anchors(text, "a-1"),
            "<a href=\"#a-1-d0\">x</a><svg aria-labelledby=\"a-1-d0t a-1-d0d\"><title id=\"a-1-d0t\">id=</title></svg>"
        );
    }
}
