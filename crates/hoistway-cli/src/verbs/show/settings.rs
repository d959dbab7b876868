//! The settings of a scheduler or controller from their rows: as a table for people, and as the table of its
//! reference page.

use crate::common::table::Table;
use hoistway::setting::{OnChange, Tunable, Unit};
use hoistway::{ctl, sched};

/// The rows of one stage: a heading, and what stands below it.
type StageRows<'a> = (&'a str, &'a [Tunable]);

/// Aligned columns, and below them what the words of the column `if changed` mean.
pub fn text(of_device: StageRows, of_group: &[Tunable]) -> String {
    let (heading, list) = of_device;
    let mut out = match list {
        [] => "no tunables\n".into(),
        list => columns(heading, list),
    };
    if !of_group.is_empty() {
        out.push_str(&columns("per group", of_group));
    }
    let words = words(list.iter().chain(of_group));
    if !words.is_empty() {
        out.push_str("\nif changed while running:\n");
        let width = words.iter().map(|w| w.word().len()).max().unwrap_or(0);
        for change in words {
            out.push_str(&format!("  {:width$}  {}\n", change.word(), change.text()));
        }
    }
    for (condition, names) in exceptions(list, |word| word.to_string()) {
        out.push_str(&format!("\nwith {condition}:\n"));
        for (change, names) in names {
            out.push_str(&format!("  {}: {}\n", change.word(), names.join(", ")));
        }
    }
    out
}

/// Rows whose change does something else, by what it does.
type Exceptions = Vec<(OnChange, Vec<String>)>;

/// Under which values of a selector changes do not do what their rows say, and what they do there instead.
fn exceptions(list: &[Tunable], quoted: impl Fn(&str) -> String) -> Vec<(String, Exceptions)> {
    let mut all: Vec<(String, Exceptions)> = Vec::new();
    for t in list {
        let Some(only) = t.only_with else { continue };
        let selector = list.iter().find(|s| s.name == only.selector);
        let value = match selector.map(|s| s.unit) {
            Some(Unit::Choice(words)) => words[only.value as usize].to_string(),
            _ => only.value.to_string(),
        };
        let (name, value) = (quoted(only.selector), quoted(&value));
        let condition = format!("another {name} than {value}");
        let at = all.iter().position(|(c, _)| *c == condition).unwrap_or_else(|| {
            all.push((condition, Vec::new()));
            all.len() - 1
        });
        let of = &mut all[at].1;
        match of.iter_mut().find(|(change, _)| *change == only.otherwise) {
            Some((_, names)) => names.push(quoted(t.name)),
            None => of.push((only.otherwise, vec![quoted(t.name)])),
        }
    }
    all
}

fn columns(heading: &str, list: &[Tunable]) -> String {
    let mut table = Table::new(&[heading, "default", "unit", "range", "if changed", ""], 6);
    for t in list {
        let (default, range) = match t.unit {
            Unit::Choice(words) => (word(t, words).to_string(), words.join(", ")),
            _ => (t.default.to_string(), format!("{}..={}", t.min, t.max)),
        };
        let unit = match t.unit {
            Unit::Switch => "0 or 1",
            Unit::Choice(_) => "word",
            unit => unit.suffix(),
        };
        let change = t.on_change.word().into();
        table.row(vec![t.name.into(), default, unit.into(), range, change, t.doc.into()]);
    }
    format!("\n{}", table.render())
}

/// The tables of the reference page of a scheduler or controller; nothing if there is none of that name.
pub fn markdown(name: &str) -> Option<String> {
    let (of_device, of_group) = match (sched::find(name), ctl::find(name)) {
        (Some(entry), _) => (entry.tunables, entry.group_tunables),
        (None, Some(entry)) => (entry.tunables, entry.group_tunables),
        (None, None) => return None,
    };
    if of_device.is_empty() && of_group.is_empty() {
        return Some("No settings.\n".into());
    }
    let mut parts = Vec::new();
    for (heading, list) in [("setting", of_device), ("setting of a group", of_group)] {
        if !list.is_empty() {
            parts.push(pipes(heading, list));
        }
    }
    let words = words(of_device.iter().chain(of_group));
    let meanings: Vec<String> =
        words.iter().map(|change| format!("*{}*: {}", change.word(), change.text())).collect();
    parts.push(format!("If changed while running: {}.\n", meanings.join("; ")));
    for (condition, names) in exceptions(of_device, |word| format!("`{word}`")) {
        let one = |(change, names): &(OnChange, Vec<String>)| {
            format!("*{}*: {}", change.word(), names.join(", "))
        };
        let all: Vec<String> = names.iter().map(one).collect();
        parts.push(format!("With {condition}: {}.\n", all.join("; ")));
    }
    Some(parts.join("\n"))
}

fn pipes(heading: &str, list: &[Tunable]) -> String {
    let mut out = format!("| {heading} | default | range | what it does | if changed |\n");
    out.push_str("|---|---|---|---|---|\n");
    for t in list {
        let (default, range) = match t.unit {
            Unit::Choice(words) => {
                let quoted: Vec<String> = words.iter().map(|w| format!("`{w}`")).collect();
                (format!("`{}`", word(t, words)), quoted.join(", "))
            }
            Unit::Switch => (t.default.to_string(), "0 or 1".into()),
            unit => {
                let default = format!("{} {}", t.default, unit.suffix());
                (default.trim_end().to_string(), format!("{} to {}", t.min, t.max))
            }
        };
        // A bar ends a cell, also between back quotes.
        let doc = t.doc.replace('|', "\\|");
        let change = t.on_change.word();
        out.push_str(&format!("| `{}` | {default} | {range} | {doc} | {change} |\n", t.name));
    }
    out
}

fn word(t: &Tunable, words: &[&'static str]) -> &'static str {
    words.get(t.default as usize).copied().unwrap_or("?")
}

/// Each once, in the order of the rows.
fn words<'a>(list: impl Iterator<Item = &'a Tunable>) -> Vec<OnChange> {
    let mut found = Vec::new();
    for t in list {
        let elsewhere = t.only_with.map(|only| only.otherwise);
        for change in [Some(t.on_change), elsewhere].into_iter().flatten() {
            if !found.contains(&change) {
                found.push(change);
            }
        }
    }
    found
}
