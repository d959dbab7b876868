//! Answers to paste: a page in Markdown for each drive, and a table of all drives by goals.

use super::text::{figures, headline, how, installed, reasons};
use super::words;
use crate::common::table::Table;
use hoistway_lab::recommend::{Advice, Match};
use std::fmt::Write as _;

/// A page for each drive.
pub fn pages(all: &[Advice], by: Match) -> String {
    all.iter().map(|a| page(a, by)).collect::<Vec<_>>().join("\n")
}

fn page(a: &Advice, by: Match) -> String {
    let mut out = format!("# {}, for {}\n\n", escaped(&a.field.identity.name()), a.goal.name);
    let _ = write!(out, "**{}.**", escaped(&headline(a)));
    let chosen = a.answer.config().filter(|&c| c != a.base);
    let changes = chosen.map_or_else(Vec::new, |c| words::changes(a, c, a.base));
    if !changes.is_empty() {
        let base = escaped(&a.field.configs[a.base]);
        let _ = write!(out, " Against {base}: {}.", changes.join(", "));
    }
    let (table, note) = figures(a);
    let _ = write!(out, "\n\n{}\n{}\n", table.markdown(), escaped(note.trim_end()));
    out.push_str("\n## Why\n\n");
    out.push_str(&list(&reasons(a)));
    out.push_str("\n## How it was measured and decided\n\n");
    out.push_str(&list(&how(a)));
    let lines = installed(a, by);
    if !lines.trim().is_empty() {
        let _ = write!(out, "\n## To install\n\n```text\n{}\n```\n", lines.trim());
    }
    out
}

/// `word   text` by the line as a list; a line without a word belongs to the one before.
fn list(lines: &str) -> String {
    let mut out = String::new();
    for line in lines.lines().filter(|l| !l.trim().is_empty()) {
        let own = !line.starts_with(' ');
        let (word, text) = line.split_once("  ").unwrap_or(("", line));
        let text = escaped(text.trim());
        let _ = match (own, word.trim()) {
            (true, "") => writeln!(out, "- {}", escaped(line.trim())),
            (true, word) => writeln!(out, "- *{}*: {text}", escaped(word)),
            (false, _) => writeln!(out, "  - {}", escaped(line.trim())),
        };
    }
    out
}

/// Text that stays text: names come from files of others.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '&' => out.push_str("&amp;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' => {
                out.push('\\');
                out.push(c);
            }
            c => out.push(c),
        }
    }
    out
}

/// A row for each drive, a column for each goal. Of each goal the same drives in the same order.
pub fn matrix(goals: &[(String, Vec<Advice>)]) -> Table {
    let mut headings = vec!["class", "drive"];
    headings.extend(goals.iter().map(|(goal, _)| goal.as_str()));
    let mut table = Table::new(&headings, headings.len());
    let drives = goals.iter().map(|(_, all)| all.len()).max().unwrap_or(0);
    for i in 0..drives {
        let of = |all: &Vec<Advice>| all.get(i).map_or_else(|| "-".into(), cell);
        let Some(first) = goals.iter().find_map(|(_, all)| all.get(i)) else { continue };
        let id = &first.field.identity;
        let class = id.class.clone().unwrap_or_else(|| "-".into());
        let mut row = vec![class, id.drive.clone()];
        row.extend(goals.iter().map(|(_, all)| of(all)));
        table.row(row);
    }
    table
}

/// The answer in few words.
fn cell(a: &Advice) -> String {
    match a.answer.config() {
        Some(c) => format!("{}, {}", a.field.configs[c], a.sureness.word()),
        None => a.answer.word().into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_words_are_a_list_and_names_stay_text() {
        let text =
            "gains       start-up time 2 times shorter\nruled out   a: b\n            a: c\n";
        let expected = "- *gains*: start-up time 2 times shorter\n- *ruled out*: a: b\n  - a: c\n";
        assert_eq!(list(text), expected);
        assert_eq!(escaped("<b>[x](y)|*"), "&lt;b>\\[x\\](y)\\|\\*");
    }
}
