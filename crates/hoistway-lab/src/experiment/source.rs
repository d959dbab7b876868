//! A TOML file with the lines of its keys: every complaint names file and line.

use super::bounds::TIME_MAX;
use crate::registry::Registry;
use hoistway::Nanos;
use hoistway::quantity;
use hoistway::sched::Entry;
use hoistway::setting::nearest;
use hoistway_files::input::Lines;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use toml::de::{DeTable, DeValue};

/// What is wrong with an experiment file: message with file and line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExperimentError(pub String);

impl fmt::Display for ExperimentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ExperimentError {}

pub(super) type Result<T> = std::result::Result<T, ExperimentError>;

/// A parsed file.
#[derive(Debug)]
pub(super) struct ParsedFile<'r> {
    /// What its names stand for.
    registry: &'r Registry,
    label: String,
    table: toml::Table,
    /// Line, from 1, of every key by its path (`workload.readers.procs[0].count`).
    lines: BTreeMap<String, usize>,
}

impl<'r> ParsedFile<'r> {
    pub(super) fn parse(label: &str, text: &str, registry: &'r Registry) -> Result<ParsedFile<'r>> {
        let ends = Lines::of(text);
        let line_of = |at: usize| ends.at(at);
        let syntax = |e: toml::de::Error| {
            let line = e.span().map_or(1, |span| line_of(span.start));
            ExperimentError(format!("{label}:{line}: {}", e.message().replace('\n', ", ")))
        };
        let spans = DeTable::parse(text).map_err(syntax)?;
        let table: toml::Table = toml::from_str(text).map_err(syntax)?;
        let mut lines = BTreeMap::new();
        note_lines(spans.get_ref(), "", &line_of, &mut lines);
        Ok(ParsedFile { registry, label: label.into(), table, lines })
    }

    pub(super) fn top(&self) -> Section<'_> {
        Section { source: self, path: String::new(), table: &self.table }
    }

    /// Line of a path, or of the nearest thing around it that has one.
    fn line(&self, path: &str) -> usize {
        let mut path = path;
        loop {
            if let Some(&line) = self.lines.get(path) {
                return line;
            }
            match path.rfind(['.', '[']) {
                Some(cut) => path = &path[..cut],
                None => return 1,
            }
        }
    }

    fn error(&self, path: &str, what: &str) -> ExperimentError {
        ExperimentError(format!("{}:{}: {what}", self.label, self.line(path)))
    }
}

fn note_lines(
    table: &DeTable<'_>,
    path: &str,
    line_of: &dyn Fn(usize) -> usize,
    lines: &mut BTreeMap<String, usize>,
) {
    for (key, value) in table {
        let inner = join(path, key.get_ref());
        lines.insert(inner.clone(), line_of(key.span().start));
        match value.get_ref() {
            DeValue::Table(table) => note_lines(table, &inner, line_of, lines),
            DeValue::Array(items) => {
                for (i, item) in items.iter().enumerate() {
                    let inner = format!("{inner}[{i}]");
                    lines.insert(inner.clone(), line_of(item.span().start));
                    if let DeValue::Table(table) = item.get_ref() {
                        note_lines(table, &inner, line_of, lines);
                    }
                }
            }
            _ => {}
        }
    }
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_string() } else { format!("{path}.{key}") }
}

/// A table of the file.
#[derive(Clone, Debug)]
pub(super) struct Section<'a> {
    source: &'a ParsedFile<'a>,
    path: String,
    pub(super) table: &'a toml::Table,
}

impl<'a> Section<'a> {
    /// Schedulers that configurations may name.
    pub(super) fn schedulers(&self) -> &'a [&'static Entry] {
        self.source.registry.schedulers()
    }

    /// An error about a key, or about the table (empty key).
    pub(super) fn wrong(&self, key: &str, what: impl AsRef<str>) -> ExperimentError {
        let path = if key.is_empty() { self.path.clone() } else { join(&self.path, key) };
        self.source.error(&path, what.as_ref())
    }

    /// Refuses keys that are not in `known`.
    pub(super) fn only(&self, known: &[&str]) -> Result<()> {
        match self.table.keys().find(|k| !known.contains(&k.as_str())) {
            None => Ok(()),
            Some(key) => {
                let hint = match nearest(key, known.iter().copied()) {
                    Some(k) => format!("; did you mean '{k}'?"),
                    None => format!("; there are: {}", known.join(", ")),
                };
                Err(self.wrong(key, format!("unknown key '{key}'{}{hint}", self.inside())))
            }
        }
    }

    fn inside(&self) -> String {
        if self.path.is_empty() { String::new() } else { format!(" in [{}]", self.path) }
    }

    fn required<T>(&self, key: &str, value: Option<T>) -> Result<T> {
        value.ok_or_else(|| self.wrong("", format!("missing key '{key}'{}", self.inside())))
    }

    fn read<T>(
        &self,
        key: &str,
        what: &str,
        parse: impl FnOnce(&'a toml::Value) -> Option<T>,
    ) -> Result<Option<T>> {
        let Some(value) = self.table.get(key) else { return Ok(None) };
        match parse(value) {
            Some(parsed) => Ok(Some(parsed)),
            None => Err(self.wrong(key, format!("{key} = {value} must be {what}"))),
        }
    }

    pub(super) fn opt_text(&self, key: &str) -> Result<Option<&'a str>> {
        let filled = |v: &'a toml::Value| v.as_str().filter(|s| !s.trim().is_empty());
        self.read(key, "text in quotes, not empty", filled)
    }

    pub(super) fn text(&self, key: &str) -> Result<&'a str> {
        self.required(key, self.opt_text(key)?)
    }

    /// A whole number in `min..=max`.
    pub(super) fn opt_number(&self, key: &str, min: u64, max: u64) -> Result<Option<u64>> {
        self.read(key, &format!("a whole number in {min}..={max}"), |v| {
            let n = u64::try_from(v.as_integer()?).ok()?;
            (min..=max).contains(&n).then_some(n)
        })
    }

    pub(super) fn number(&self, key: &str, min: u64, max: u64) -> Result<u64> {
        self.required(key, self.opt_number(key, min, max)?)
    }

    pub(super) fn opt_flag(&self, key: &str) -> Result<Option<bool>> {
        self.read(key, "true or false", toml::Value::as_bool)
    }

    /// A time with its unit in quotes.
    pub(super) fn opt_time(&self, key: &str) -> Result<Option<Nanos>> {
        let Some(text) = self.read(key, "a time in quotes, such as \"8ms\"", |v| v.as_str())?
        else {
            return Ok(None);
        };
        match quantity::duration(text) {
            Ok(time) if time > TIME_MAX => {
                Err(self.wrong(key, format!("{key} = {text} must be at most 24h")))
            }
            Ok(time) => Ok(Some(time)),
            Err(e) => Err(self.wrong(key, format!("{key} = {e}"))),
        }
    }

    pub(super) fn time(&self, key: &str) -> Result<Nanos> {
        self.required(key, self.opt_time(key)?)
    }

    /// A list of different texts, not empty.
    pub(super) fn texts(&self, key: &str) -> Result<Vec<String>> {
        let list = self.read(key, "a list of texts, not empty", |v| {
            let list: Option<Vec<String>> =
                v.as_array()?.iter().map(|t| t.as_str().map(str::to_string)).collect();
            list.filter(|l| !l.is_empty())
        })?;
        let list = self.required(key, list)?;
        let mut seen = BTreeSet::new();
        match list.iter().enumerate().find(|(_, text)| !seen.insert(*text)) {
            None => Ok(list),
            Some((i, twice)) => {
                Err(self
                    .wrong(&format!("{key}[{i}]"), format!("'{twice}' is listed twice in {key}")))
            }
        }
    }

    pub(super) fn opt_section(&self, key: &str) -> Result<Option<Section<'a>>> {
        let table = self.read(key, &format!("a table [{key}]"), toml::Value::as_table)?;
        let section = |table| Section { source: self.source, path: join(&self.path, key), table };
        Ok(table.map(section))
    }

    pub(super) fn section(&self, key: &str) -> Result<Section<'a>> {
        let section = self.opt_section(key)?;
        section.ok_or_else(|| self.wrong("", format!("missing table [{}]", join(&self.path, key))))
    }

    /// An array of tables; empty if it is not there.
    pub(super) fn sections(&self, key: &str) -> Result<Vec<Section<'a>>> {
        let path = join(&self.path, key);
        let tables = self.read(key, &format!("a list of tables [[{path}]]"), |v| {
            v.as_array()?.iter().map(toml::Value::as_table).collect::<Option<Vec<_>>>()
        })?;
        let section =
            |(i, table)| Section { source: self.source, path: format!("{path}[{i}]"), table };
        Ok(tables.unwrap_or_default().into_iter().enumerate().map(section).collect())
    }
}
