//! A strict reader of Prometheus' text format 0.0.4: what a lenient one would overlook is an error.

use std::collections::{BTreeMap, BTreeSet};

type Labels = BTreeMap<String, String>;

/// Everything one scrape said.
#[derive(Clone, Debug)]
pub struct Scrape {
    samples: BTreeMap<(String, Labels), f64>,
    kinds: BTreeMap<String, String>,
}

impl Scrape {
    fn matching(&self, name: &str, labels: &[(&str, &str)]) -> Vec<f64> {
        let fits = |of: &Labels| labels.iter().all(|(l, v)| of.get(*l).is_some_and(|x| x == v));
        let all = self.samples.iter().filter(|((n, of), _)| n == name && fits(of));
        all.map(|(_, value)| *value).collect()
    }

    /// The only sample of that name with these labels among its own.
    pub fn value(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let found = self.matching(name, labels);
        assert_eq!(found.len(), 1, "{name} {labels:?}: {found:?}");
        found[0]
    }

    /// The sum of all samples of that name with these labels among theirs.
    pub fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        self.matching(name, labels).into_iter().sum()
    }

    /// Samples that may only grow: counters and histograms.
    pub fn counters(&self) -> BTreeMap<(String, Labels), f64> {
        let grows = |name: &str| {
            let family = family_of(name, &self.kinds);
            matches!(&self.kinds[&family][..], "counter" | "histogram")
        };
        self.samples.clone().into_iter().filter(|((name, _), _)| grows(name)).collect()
    }

    /// No counter is below that of an earlier scrape; only those of clients may have gone.
    pub fn assert_not_before(&self, earlier: &Scrape) {
        let now = self.counters();
        for ((name, labels), before) in earlier.counters() {
            match now.get(&(name.clone(), labels.clone())) {
                Some(value) => {
                    assert!(*value >= before, "{name} {labels:?}: {before}, then {value}")
                }
                None => assert!(labels.contains_key("client"), "{name} {labels:?} is gone"),
            }
        }
    }
}

/// Reads a text; an error names the line.
pub fn parse(text: &str) -> Result<Scrape, String> {
    let mut scrape = Scrape { samples: BTreeMap::new(), kinds: BTreeMap::new() };
    if !text.ends_with('\n') {
        return Err("the last line has no end".into());
    }
    let mut helped = BTreeSet::new();
    let mut closed = BTreeSet::new();
    let mut current = String::new();
    for line in text.lines() {
        let wrong = |what: &str| Err(format!("{what}: {line}"));
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').ok_or(format!("no help: {line}"))?;
            if !is_name(name, true) || help.is_empty() || !helped.insert(name.to_string()) {
                return wrong("a bad or second HELP");
            }
            closed.insert(std::mem::replace(&mut current, name.to_string()));
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').ok_or(format!("no type: {line}"))?;
            if name != current || !matches!(kind, "counter" | "gauge" | "histogram") {
                return wrong("a TYPE without its HELP, or of no kind");
            }
            if kind == "counter" && !name.ends_with("_total") {
                return wrong("a counter is named _total");
            }
            if scrape.kinds.insert(name.into(), kind.into()).is_some() {
                return wrong("a second TYPE");
            }
        } else {
            let (name, labels, value) = sample(line)?;
            let family = family_of(&name, &scrape.kinds);
            if family != current || closed.contains(&family) {
                return wrong("a sample outside its family");
            }
            if scrape.samples.insert((name, labels), value).is_some() {
                return wrong("a sample twice");
            }
        }
    }
    check_values(&scrape)?;
    Ok(scrape)
}

fn family_of(name: &str, kinds: &BTreeMap<String, String>) -> String {
    let base = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end));
    let base = base.filter(|b| kinds.get(*b).is_some_and(|kind| kind == "histogram"));
    base.unwrap_or(name).to_string()
}

fn is_name(name: &str, colon: bool) -> bool {
    let first = name.chars().next().is_some_and(|c| !c.is_ascii_digit());
    first && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || (colon && c == ':'))
}

/// `name{label="value",...} value`
fn sample(line: &str) -> Result<(String, Labels, f64), String> {
    let wrong = |what: &str| format!("{what}: {line}");
    let end = line.find(['{', ' ']).ok_or_else(|| wrong("no value"))?;
    let (name, mut rest) = line.split_at(end);
    if !is_name(name, true) {
        return Err(wrong("a bad name"));
    }
    let mut labels = Labels::new();
    if let Some(inside) = rest.strip_prefix('{') {
        rest = inside;
        loop {
            let (label, behind) = rest.split_once("=\"").ok_or_else(|| wrong("a bad label"))?;
            if !is_name(label, false) || label.starts_with("__") {
                return Err(wrong("a bad name of a label"));
            }
            let (value, behind) = quoted(behind).ok_or_else(|| wrong("a bad value of a label"))?;
            if labels.insert(label.into(), value).is_some() {
                return Err(wrong("a label twice"));
            }
            match behind.strip_prefix(',') {
                Some(more) => rest = more,
                None => {
                    rest = behind.strip_prefix('}').ok_or_else(|| wrong("no closing brace"))?;
                    break;
                }
            }
        }
    }
    let value = rest.strip_prefix(' ').ok_or_else(|| wrong("no blank before the value"))?;
    let value = value.parse().map_err(|_| wrong("a bad value"))?;
    Ok((name.into(), labels, value))
}

/// The text up to the closing quote, unescaped, and what follows.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => value.push(match chars.next()?.1 {
                'n' => '\n',
                c @ ('\\' | '"') => c,
                _ => return None,
            }),
            c => value.push(c),
        }
    }
    None
}

/// Counters are not negative; the buckets of a histogram ascend, end with +Inf and agree with the
/// count.
fn check_values(scrape: &Scrape) -> Result<(), String> {
    for ((name, labels), value) in scrape.counters() {
        if !value.is_finite() || value < 0.0 {
            return Err(format!("{name} {labels:?} is {value}"));
        }
    }
    let mut histograms: BTreeMap<(String, Labels), Vec<(f64, f64)>> = BTreeMap::new();
    for ((name, labels), value) in &scrape.samples {
        let family = family_of(name, &scrape.kinds);
        if scrape.kinds[&family] != "histogram" {
            continue;
        }
        let mut rest = labels.clone();
        let bound = rest.remove("le");
        let buckets = histograms.entry((family.clone(), rest)).or_default();
        match (name.strip_suffix("_bucket"), bound) {
            (Some(_), Some(bound)) => {
                buckets.push((bound.parse().map_err(|_| format!("le={bound}"))?, *value));
            }
            (None, None) => {}
            _ => return Err(format!("{name} {labels:?}: a bound where none is, or none")),
        }
    }
    for ((family, labels), mut buckets) in histograms {
        buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
        let name = |end: &str| (format!("{family}{end}"), labels.clone());
        let count = scrape.samples.get(&name("_count"));
        let last = buckets.last().copied();
        if last.is_none_or(|(bound, n)| bound != f64::INFINITY || Some(&n) != count) {
            return Err(format!("{family} {labels:?}: +Inf is not the count"));
        }
        if !buckets.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1) {
            return Err(format!("{family} {labels:?}: buckets do not ascend: {buckets:?}"));
        }
        if !scrape.samples.contains_key(&name("_sum")) {
            return Err(format!("{family} {labels:?}: no sum"));
        }
    }
    Ok(())
}
