//! What the documents name is there: links, paths, dependencies.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).expect("crates/NAME lies two below the root").into()
}

/// All files below `dir` with that ending, build results left out.
fn files(dir: &Path, ending: &str, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).expect("the folder can be read") {
        let path = entry.expect("the folder can be read").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() {
            let ours = !name.starts_with('.') && name != "target" && name != "runs";
            if ours {
                files(&path, ending, found);
            }
        } else if name.ends_with(ending) {
            found.push(path);
        }
    }
}

fn with_ending(ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    files(&root(), ending, &mut found);
    found.sort();
    assert!(!found.is_empty(), "no {ending} file below {}", root().display());
    found
}

/// The text outside fenced blocks, line by line with its number: what stands in a transcript names files
/// of the reader's.
fn prose(text: &str) -> Vec<(usize, &str)> {
    let mut fenced = false;
    let mut lines = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced {
            lines.push((number, line));
        }
    }
    lines
}

/// Targets of `[text](target)` in a line.
fn links(line: &str) -> Vec<&str> {
    let behind = line.split("](").skip(1);
    behind.filter_map(|rest| rest.split_once(')').map(|(target, _)| target)).collect()
}

/// `a/{b,c}.rs` as `a/b.rs` and `a/c.rs`.
fn expanded(path: &str) -> Vec<String> {
    match path.split_once('{').and_then(|(head, rest)| Some((head, rest.split_once('}')?))) {
        Some((head, (middle, tail))) => {
            middle.split(',').map(|part| format!("{head}{part}{tail}")).collect()
        }
        None => vec![path.into()],
    }
}

/// Folders of the repository: what begins with one of them in back quotes is a path of ours.
const FOLDERS: [&str; 7] =
    ["crates/", "docs/", "experiments/", "drives/", "benches/", "tests/", "fuzz/"];

/// `crates/NAME/src` and `drives/*.toml` stand for many.
fn is_pattern(path: &str) -> bool {
    path.contains(['*', '<', '$', ' ', '…'])
        || path.split(['/', '.']).any(|p| p.len() > 1 && p.chars().all(|c| c.is_ascii_uppercase()))
}

#[test]
fn links_of_documents_lead_somewhere() {
    let mut dead = Vec::new();
    for file in with_ending(".md") {
        let text = fs::read_to_string(&file).expect("a document is text");
        for (number, line) in prose(&text) {
            for link in links(line) {
                let target = link.split('#').next().unwrap_or_default();
                let outside = target.contains("://") || target.starts_with("mailto:");
                if target.is_empty() || outside {
                    continue;
                }
                let parent = file.parent().expect("a file lies in a folder");
                if !parent.join(target).exists() {
                    dead.push(format!("{}:{number}: {link}", file.display()));
                }
            }
        }
    }
    assert!(dead.is_empty(), "links that lead nowhere:\n{}", dead.join("\n"));
}

/// What a heading is called in a link: lower case, blanks as hyphens, other punctuation left out.
fn anchor(heading: &str) -> String {
    let kept = |c: &char| c.is_alphanumeric() || "-_ ".contains(*c);
    let text: String = heading.trim().chars().filter(kept).collect();
    text.to_lowercase().replace(' ', "-")
}

#[test]
fn anchors_of_links_are_headings() {
    let mut dead = Vec::new();
    for file in with_ending(".md") {
        let text = fs::read_to_string(&file).expect("a document is text");
        for (number, line) in prose(&text) {
            for link in links(line).into_iter().filter(|link| !link.contains("://")) {
                let Some((target, name)) = link.split_once('#') else { continue };
                let page = match target {
                    "" => file.clone(),
                    _ => file.parent().expect("a file lies in a folder").join(target),
                };
                let Ok(text) = fs::read_to_string(&page) else { continue };
                let mut headings = prose(&text).into_iter().filter(|(_, l)| l.starts_with('#'));
                if !headings.any(|(_, l)| anchor(l.trim_start_matches('#')) == name) {
                    dead.push(format!("{}:{number}: {link}", file.display()));
                }
            }
        }
    }
    assert!(dead.is_empty(), "links to headings that are not there:\n{}", dead.join("\n"));
}

#[test]
fn paths_that_documents_name_exist() {
    let root = root();
    // A path may be said from the root, or from a crate that the text is about.
    let mut bases = vec![root.clone()];
    bases.extend(fs::read_dir(root.join("crates")).expect("crates").flatten().map(|e| e.path()));
    bases.push(root.join("crates"));
    let mut gone = Vec::new();
    for file in with_ending(".md") {
        let text = fs::read_to_string(&file).expect("a document is text");
        for (number, line) in prose(&text) {
            for word in line.split('`').skip(1).step_by(2) {
                let path = word.trim_end_matches('/');
                if !FOLDERS.iter().any(|f| word.starts_with(f)) || is_pattern(word) {
                    continue;
                }
                for path in expanded(path) {
                    if !bases.iter().any(|base| base.join(&path).exists()) {
                        gone.push(format!("{}:{number}: {path}", file.display()));
                    }
                }
            }
        }
    }
    assert!(gone.is_empty(), "paths that are not there:\n{}", gone.join("\n"));
}

/// Comments say `specs/host.md 6`, meaning docs/specs.
#[test]
fn documents_that_comments_name_exist() {
    let root = root();
    let mut gone = Vec::new();
    for file in with_ending(".rs") {
        let text = fs::read_to_string(&file).expect("source is text");
        for (number, line) in (1..).zip(text.lines()).filter(|(_, l)| l.contains("//")) {
            let words = line.split(|c: char| !(c.is_alphanumeric() || "/._-".contains(c)));
            for word in words.filter(|w| w.contains("specs/") || w.starts_with("docs/")) {
                let name = word.trim_end_matches('.');
                if !name.ends_with(".md") {
                    continue;
                }
                let path = match name.strip_prefix("specs/") {
                    Some(spec) => format!("docs/specs/{spec}"),
                    None => name.into(),
                };
                if !root.join(&path).exists() {
                    gone.push(format!("{}:{number}: {name}", file.display()));
                }
            }
        }
    }
    assert!(gone.is_empty(), "documents that are not there:\n{}", gone.join("\n"));
}

/// Every crate that a manifest names as a dependency, our own left out.
fn dependencies() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for file in with_ending("Cargo.toml") {
        let text = fs::read_to_string(&file).expect("a manifest is text");
        let manifest: toml::Table = text.parse().expect("a manifest is TOML");
        let by_target = manifest.get("target").and_then(|t| t.as_table()).into_iter().flatten();
        let tables = by_target.filter_map(|(_, t)| t.as_table()).chain([&manifest]);
        for table in tables {
            for key in ["dependencies", "dev-dependencies", "build-dependencies"] {
                let entries = table.get(key).and_then(|d| d.as_table()).into_iter().flatten();
                names.extend(entries.map(|(name, _)| name.clone()));
            }
        }
    }
    names.retain(|name| !name.starts_with("hoistway"));
    names
}

#[test]
fn each_dependency_has_a_line_in_the_decision_and_each_line_a_dependency() {
    let path = root().join("docs/decisions/0002-dependencies.md");
    let text = fs::read_to_string(&path).expect("the decision is there");
    let rows = text.lines().filter(|l| l.starts_with("| `"));
    let told: BTreeSet<String> = rows
        .filter_map(|row| row.split('|').nth(1))
        .flat_map(|cell| cell.split('`').skip(1).step_by(2))
        .map(str::to_string)
        .collect();
    let used = dependencies();
    let missing: Vec<_> = used.difference(&told).collect();
    let stale: Vec<_> = told.difference(&used).collect();
    assert!(missing.is_empty(), "{}: no line for {missing:?}", path.display());
    assert!(stale.is_empty(), "{}: nothing depends on {stale:?}", path.display());
}
