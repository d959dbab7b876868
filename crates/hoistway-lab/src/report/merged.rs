//! The page of `hoistway merge`: a row per class and model of drives, then the configurations of each.

use super::html;
use super::section::open_table;
use super::svg::{esc, number};
use crate::merge::{Group, MACHINES_MIN, Merged};
use crate::recommend::compare::{ScoreDifference, Verdict};
use crate::recommend::goal::Aspect;
use crate::recommend::{Advice, Recommendation};
use crate::words::counted;
use std::fmt::Write as _;

/// Headings of the summary.
const SUMMARY: [&str; 7] =
    ["drives", "machines", "models", "default", "how sure", "instead of", "what it changes"];

/// The page. The same benches give the same bytes.
pub fn render(all: &[Merged]) -> String {
    let mut out = html::head("Schedulers by class of drives");
    out.push_str(
        "<nav aria-label=\"Sections\"><div class=\"bar-in\"><a class=\"brand\" href=\"#top\">hoistway</a><ul>",
    );
    for n in 0..all.len() {
        let _ = write!(out, "<li><a href=\"#s{n}\">Defaults{}</a></li>", number_of(n, all.len()));
        let _ = write!(out, "<li><a href=\"#m{n}\">Machines{}</a></li>", number_of(n, all.len()));
    }
    out.push_str(
        "</ul><button id=\"theme\" type=\"button\" hidden aria-label=\"Switch between light and dark\"></button></div></nav>\n<main>\n\
         <header id=\"top\">\n<h1>Schedulers by class of drives</h1>\n<p class=\"lead\">Runs of one suite from many machines. A \
         machine is one unit, however many rounds it measured.</p>\n</header>\n",
    );
    for (n, merged) in all.iter().enumerate() {
        out.push_str(&section(n, merged));
    }
    let _ = write!(
        out,
        "<footer>Made by hoistway {} from the records of the runs.</footer>\n</main>\n<script>\n{}</script>\n</body>\n</html>\n",
        env!("CARGO_PKG_VERSION"),
        html::SCRIPT
    );
    out
}

fn number_of(n: usize, all: usize) -> String {
    if all > 1 { format!(" {}", n + 1) } else { String::new() }
}

fn section(n: usize, m: &Merged) -> String {
    let mut out = format!(
        "<section id=\"s{n}\">\n<h2>Defaults</h2>\n<p class=\"mute\">{}; goal {}: {}. Fewer than {MACHINES_MIN} machines are \
         no evidence.</p>\n",
        esc(&m.suite.to_string()),
        esc(&m.goal.name),
        esc(&m.goal.about)
    );
    let rows = m.groups.iter().map(|g| summary(g).to_vec()).collect();
    out.push_str(&table("Defaults", &SUMMARY.map(String::from), rows));
    for group in &m.groups {
        let Some(advice) = &group.advice else { continue };
        let (headings, rows) = configurations(group, advice);
        let mut words = counted(group.machines.len(), "machine");
        if !group.kernels.is_empty() {
            let _ = write!(words, ", Linux {}", group.kernels.join(", "));
        }
        let _ = write!(
            out,
            "<h3>{}</h3>\n<p class=\"mute\">{}; over {}, with the 99 % interval over machines</p>\n",
            esc(&group.name()),
            esc(&words),
            esc(&advice.field.configs[advice.base])
        );
        out.push_str(&table(&group.name(), &headings, rows));
    }
    let (files, cannot) = m.files();
    for why in &cannot {
        let _ = writeln!(out, "<p>No rule: {}</p>", esc(why));
    }
    for file in &files {
        let _ = write!(
            out,
            "<h3>{}</h3>\n<pre class=\"cmd\"><code>{}</code></pre>\n",
            esc(&file.path),
            esc(&file.text)
        );
    }
    out.push_str("</section>\n");
    let _ = write!(out, "<section id=\"m{n}\">\n<h2>Machines</h2>\n");
    let row = |(i, x): (usize, &crate::merge::Machine)| {
        let text = |t: &Option<String>| t.clone().unwrap_or_else(|| "–".into());
        let certain = if x.certain { "serial number" } else { "model, size, processor, kernel" };
        vec![
            (i + 1).to_string(),
            x.identity.name(),
            text(&x.identity.class),
            text(&x.identity.kernel),
            text(&x.identity.present_scheduler),
            x.benches.len().to_string(),
            certain.to_string(),
        ]
    };
    let headings = ["machine", "model", "class", "kernel", "present", "benches", "known by"];
    let rows = m.machines.iter().enumerate().map(row).collect();
    out.push_str(&table("Machines", &headings.map(String::from), rows));
    out.push_str("</section>\n");
    out
}

fn table(title: &str, headings: &[String], rows: Vec<Vec<String>>) -> String {
    let mut out = open_table(title);
    out.push_str("<thead><tr>");
    headings.iter().for_each(|h| out.push_str(&format!("<th scope=\"col\">{}</th>", esc(h))));
    out.push_str("</tr></thead>\n<tbody>\n");
    for row in rows {
        out.push_str("<tr>");
        for (i, cell) in row.iter().enumerate() {
            let _ = match i {
                0 => write!(out, "<th scope=\"row\">{}</th>", esc(cell)),
                // Words may take several lines, figures may not.
                _ if cell.contains(' ') && !cell.contains('×') => {
                    write!(out, "<td class=\"w\">{}</td>", esc(cell))
                }
                _ => write!(out, "<td>{}</td>", esc(cell)),
            };
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div>\n");
    out
}

/// A group in a row: drives, machines, models, default, how sure, instead of what, and what that changes.
pub fn summary(group: &Group) -> [String; 7] {
    let count = |n: usize| n.to_string();
    let dash = || "–".to_string();
    let (machines, models) = (count(group.machines.len()), count(group.models.len()));
    let Some(a) = &group.advice else {
        let lack = group.lack.clone().unwrap_or_default();
        return [group.name(), machines, models, "no evidence".into(), lack, dash(), dash()];
    };
    let base = a.field.configs[a.base].clone();
    let default = match &a.answer {
        Recommendation::NotEnough { .. } => "not enough data".to_string(),
        Recommendation::Nothing(_) => "none keeps the limits".into(),
        Recommendation::Processors => "not decided (processors)".into(),
        Recommendation::NoDifference(c) => format!("{} (no difference)", a.field.configs[*c]),
        Recommendation::Change(c) | Recommendation::Keep(c) => a.field.configs[*c].clone(),
    };
    let sure = format!("{} ({:.0} %)", a.sureness.word(), 100.0 * a.same());
    let changes = a.answer.config().filter(|&c| c != a.base).map(|c| {
        let surely = |(aspect, x): &(Aspect, ScoreDifference)| {
            matches!(x.verdict(a.margin(*aspect)), Verdict::Better | Verdict::Worse)
        };
        let each = a.effects(c).into_iter().filter(surely);
        let each = each.map(|(aspect, x)| format!("{} {}", aspect.words(), ratio(aspect, &x)));
        each.collect::<Vec<_>>().join(", ")
    });
    [group.name(), machines, models, default, sure, base, changes.unwrap_or_else(dash)]
}

/// The configurations of a group: headings and rows.
pub fn configurations(group: &Group, a: &Advice) -> (Vec<String>, Vec<Vec<String>>) {
    let complete = || (0..a.field.configs.len()).filter(|&c| a.complete(c));
    let told =
        |x: &Aspect| a.field.has(*x) && complete().all(|c| a.field.scores(c, &[*x]).is_some());
    let aspects: Vec<Aspect> = Aspect::ALL.into_iter().filter(told).collect();
    let mut headings = vec!["configuration".to_string()];
    headings.extend(aspects.iter().map(|x| x.words().to_string()));
    headings.extend(["better", "worse", "ruled out"].map(String::from));
    let row = |c: usize| {
        let cell = |&aspect: &Aspect| {
            let x = a.field.compare(c, a.base, &[aspect])?;
            let own = if aspect.is_part() { "0" } else { "×1" };
            Some(if c == a.base { own.to_string() } else { ratio(aspect, &x) })
        };
        let tally = group.tallies.get(c).copied().unwrap_or_default();
        let mut row = vec![a.field.configs[c].clone()];
        row.extend(aspects.iter().map(|x| cell(x).unwrap_or_else(|| "–".into())));
        row.extend([tally.better, tally.worse, tally.ruled_out].map(|n| n.to_string()));
        row
    };
    (headings, complete().map(row).collect())
}

/// The ratio to what it is compared with (of parts of shares: the difference), and its 99 % interval.
pub fn figures(aspect: Aspect, x: &ScoreDifference) -> (f64, Option<f64>, Option<f64>) {
    let of = |d: f64| match (aspect.is_part(), aspect.rises()) {
        (true, _) => d,
        (_, true) => libm::exp(-d),
        _ => libm::exp(d),
    };
    let interval = x.interval().map(|(low, high)| (of(low).min(of(high)), of(low).max(of(high))));
    (of(x.mean), interval.map(|i| i.0), interval.map(|i| i.1))
}

/// `×0.31 (0.22–0.44)`; of parts `-12.0 (-15.0–-9.0) points`.
fn ratio(aspect: Aspect, x: &ScoreDifference) -> String {
    let (mean, low, high) = figures(aspect, x);
    let text = |v: f64| match aspect.is_part() {
        true => format!("{:+.1}", 100.0 * v),
        false => number(v),
    };
    let interval = low.zip(high).map(|(l, h)| format!(" ({} to {})", text(l), text(h)));
    let sign = if aspect.is_part() { "" } else { "×" };
    let bound = match (x.at_least, x.at_most) {
        (true, false) => ">",
        (false, true) => "<",
        (true, true) => return "?".into(),
        (false, false) => "",
    };
    format!("{bound}{sign}{}{}", text(mean), interval.unwrap_or_default())
}
