//! One name, one meaning: no two types of a crate have the same name.
//!
//! A reader who meets `Place` or `Step` for the seventh time looks up the wrong six. Names of tests and of the test
//! kit do not count, nor do pairs of the public interface that are named below with the reason.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The crates that keep to it. To add one, write its name here and rename what the test then finds.
const CRATES: &[&str] = &[
    "hoistway",
    "hoistway-sim",
    "hoistway-serve",
    "hoistway-machine",
    "hoistway-run",
    "hoistway-lab",
];

/// Public on both sides and always written with the module, or never in the same build: crate, name, and why.
const PAIRS: &[(&str, &str, &str)] = &[
    ("hoistway", "Entry", "a line of a registry: of the schedulers, and of the controllers"),
    ("hoistway", "Steps", "with the feature `kernel`, and without"),
    ("hoistway-serve", "Tls", "with the feature `tls`, and without"),
    ("hoistway-serve", "TlsMode", "with the feature `tls`, and without"),
    ("hoistway-serve", "Relays", "with the feature `tls`, and without"),
];

#[test]
fn no_two_types_of_a_crate_share_a_name() {
    let mut wrong = Vec::new();
    for name in CRATES {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name).join("src");
        let mut types: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for file in sources(&root) {
            let text = fs::read_to_string(&file).expect("a source file");
            let place = file.strip_prefix(&root).expect("below the root").display().to_string();
            for found in defined(&text) {
                types.entry(found.to_string()).or_default().push(place.clone());
            }
        }
        assert!(types.len() > 20, "{name}: only {} types found in {}", types.len(), root.display());
        let twice = types.iter().filter(|(_, places)| places.len() > 1);
        let allowed = |found: &str| PAIRS.iter().any(|p| (p.0, p.1) == (*name, found));
        for (found, places) in twice.filter(|(found, _)| !allowed(found)) {
            wrong.push(format!("{name}: {found} in {}", places.join(", ")));
        }
    }
    assert!(
        wrong.is_empty(),
        "types with the same name; rename all but one:\n{}",
        wrong.join("\n")
    );
}

/// The source files of a crate without its tests.
fn sources(dir: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for entry in fs::read_dir(dir).expect("a directory") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
        if path.is_dir() {
            if !["tests", "testkit"].contains(&name) {
                all.extend(sources(&path));
            }
        } else if name.ends_with(".rs") && !name.ends_with("tests.rs") {
            all.push(path);
        }
    }
    all
}

/// The names of the types that a file defines in front of its tests.
fn defined(text: &str) -> impl Iterator<Item = &str> {
    let end = text.find("#[cfg(test)]\nmod tests {").unwrap_or(text.len());
    text[..end].lines().filter_map(name_of)
}

/// The name, if the line defines a type. An indented `type` belongs to a trait.
fn name_of(line: &str) -> Option<&str> {
    let rest = line.trim_start();
    let indented = rest.len() < line.len();
    let rest = match rest.strip_prefix("pub") {
        Some(rest) if rest.starts_with('(') => rest.split_once(')')?.1,
        Some(rest) => rest,
        None => rest,
    };
    let (kind, rest) = rest.trim_start().split_once(' ')?;
    if !["struct", "enum", "trait", "type"].contains(&kind) || (kind == "type" && indented) {
        return None;
    }
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
    (end > 0 && rest.starts_with(char::is_uppercase)).then_some(&rest[..end])
}

#[test]
fn types_are_found_by_their_definitions() {
    let text = "pub struct A;\nstruct B<T>(T);\npub(super) enum C {\n    type D = u32;\n}\n\
                type E = F;\n/// struct G\nlet structure = 1;\n#[cfg(test)]\nmod tests {\nstruct H;\n}";
    assert_eq!(defined(text).collect::<Vec<_>>(), ["A", "B", "C", "E"]);
}
