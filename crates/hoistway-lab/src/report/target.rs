//! How the latency targets stood at the end of the runs: one line per configuration and group that has one.

use super::figures::CellFigures;
use super::section::open_table;
use super::svg::{esc, letter};
use crate::result::Run;
use hoistway::Nanos;
use hoistway::target::{Answer, millis, percent};
use hoistway_run::TargetRecord;
use std::fmt::Write;

/// A line: place of the configuration in the manifest, and its cells.
pub(super) struct TargetLine {
    pub(super) key: usize,
    pub(super) cells: [String; 5],
}

pub(super) const HEADS: [&str; 6] =
    ["configuration", "group", "target", "p99", "share of the drive", "answer at the end"];

/// The lines of the cells of a drive and workload; none where no scheduler takes targets.
pub(super) fn lines(all: &[CellFigures<'_>]) -> Vec<TargetLine> {
    let mut lines = Vec::new();
    for f in all {
        let reps: Vec<&[TargetRecord]> = f.cell.reps.iter().map(|r| &r.targets[..]).collect();
        let mut groups: Vec<&str> = Vec::new();
        for record in reps.iter().copied().flatten() {
            if !groups.contains(&&record.group[..]) {
                groups.push(&record.group);
            }
        }
        for group in groups {
            let of_group: Vec<&TargetRecord> =
                reps.iter().copied().flatten().filter(|t| t.group == group).collect();
            lines.push(TargetLine { key: f.key, cells: cells(group, &of_group) });
        }
    }
    lines
}

/// The records of one group, one per repetition; at least one.
fn cells(group: &str, of: &[&TargetRecord]) -> [String; 5] {
    let known: Vec<u64> = of.iter().map(|t| t.p99.0).filter(|ns| *ns > 0).collect();
    let p99 = match known.len() as u64 {
        0 => "–".into(),
        n => millis(Nanos(known.iter().sum::<u64>() / n)),
    };
    let share = of.iter().map(|t| t.share_permille).sum::<u32>() / of.len() as u32;
    let target = of[0].target.map_or_else(|| "auto".into(), millis);
    [group.into(), target, p99, percent(share), answers(of)]
}

/// The answers of the repetitions: the most frequent first, each with the figures of its first repetition.
fn answers(of: &[&TargetRecord]) -> String {
    let mut kinds: Vec<(Answer, Option<Nanos>, usize)> = Vec::new();
    for t in of {
        match kinds.iter_mut().find(|(answer, ..)| answer.name() == t.answer.name()) {
            Some((.., count)) => *count += 1,
            None => kinds.push((t.answer, t.target, 1)),
        }
    }
    kinds.sort_by_key(|(.., count)| std::cmp::Reverse(*count));
    let words = |(answer, target, count): &(Answer, Option<Nanos>, usize)| {
        let words = answer.words(*target);
        if *count == of.len() { words } else { format!("{count} of {}: {words}", of.len()) }
    };
    kinds.iter().map(words).collect::<Vec<_>>().join("; ")
}

/// The table of a page.
pub(super) fn table(run: &Run, title: &str, all: &[CellFigures<'_>]) -> String {
    let lines = lines(all);
    if lines.is_empty() {
        return String::new();
    }
    let mut out = open_table(title);
    out.push_str("<thead><tr>");
    for head in HEADS {
        let _ = write!(out, "<th scope=\"col\" class=\"l\">{head}</th>");
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    for TargetLine { key, cells } in lines {
        let config = esc(&run.manifest.configs[key].id);
        let _ = write!(out, "<tr><th scope=\"row\">{} {config}</th>", letter(key));
        for cell in &cells {
            let _ = write!(out, "<td class=\"l\">{}</td>", esc(cell));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div>\n");
    out
}
