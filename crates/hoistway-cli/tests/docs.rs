//! What the documents name is there: links, paths, dependencies.

use hoistway::setting::OnChange;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

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

/// Pages that links lead to from the index, directly or through other pages.
#[test]
fn every_page_is_reachable_from_the_index() {
    let begin = root().join("docs/README.md").canonicalize().expect("the index is there");
    let (mut found, mut ways) = (BTreeSet::from([begin.clone()]), vec![begin]);
    while let Some(page) = ways.pop() {
        let text = fs::read_to_string(&page).expect("a page is text");
        for (_, line) in prose(&text) {
            for target in links(line) {
                let file = target.split('#').next().unwrap_or_default();
                let path = page.parent().expect("a page lies in a folder").join(file);
                let Ok(path) = path.canonicalize() else { continue };
                if path.extension().is_some_and(|e| e == "md") && found.insert(path.clone()) {
                    ways.push(path);
                }
            }
        }
    }
    let mut all = Vec::new();
    files(&root().join("docs"), ".md", &mut all);
    all.retain(|page| !found.contains(&page.canonicalize().expect("it was just listed")));
    assert!(all.is_empty(), "docs/README.md does not lead to {all:#?}");
}

/// What a stranger reads first fits a screen or two, in an editor of any width.
#[test]
fn the_readme_is_short() {
    let text = fs::read_to_string(root().join("README.md")).expect("the readme is there");
    assert!(text.lines().count() <= 90, "{} lines", text.lines().count());
    let long = text.lines().find(|line| line.chars().count() > 120);
    assert_eq!(long, None);
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

/// What a manifest names in these tables, also in those for one target.
fn named(file: &Path, keys: &[&str]) -> BTreeSet<String> {
    let text = fs::read_to_string(file).expect("a manifest is text");
    let manifest: toml::Table = text.parse().expect("a manifest is TOML");
    let by_target = manifest.get("target").and_then(|t| t.as_table()).into_iter().flatten();
    let tables = by_target.filter_map(|(_, t)| t.as_table()).chain([&manifest]);
    let of = |table: &toml::Table, key: &str| table.get(key)?.as_table().cloned();
    let entries = tables.flat_map(|t| keys.iter().filter_map(|key| of(t, key))).flatten();
    entries.map(|(name, _)| name).collect()
}

/// Every crate that a manifest names as a dependency, our own left out.
fn dependencies() -> BTreeSet<String> {
    let keys = ["dependencies", "dev-dependencies", "build-dependencies"];
    let names = with_ending("Cargo.toml").into_iter().flat_map(|file| named(&file, &keys));
    names.filter(|name| !name.starts_with("hoistway")).collect()
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

/// Our crates that a crate depends on, features that are off included.
fn ours_below(folder: &Path) -> BTreeSet<String> {
    let names = named(&folder.join("Cargo.toml"), &["dependencies"]);
    names.into_iter().filter(|name| name.starts_with("hoistway")).collect()
}

/// The picture of the stack has each crate above what it depends on; the table beside it says what the others depend on.
#[test]
fn the_architecture_is_that_of_the_manifests() {
    let text = fs::read_to_string(root().join("docs/architecture.md")).expect("the page is there");
    let picture = text.split("```").nth(1).expect("a picture");
    let stack: Vec<&str> = picture
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .filter(|word| word.starts_with("hoistway"))
        .collect();
    let rows = text.lines().filter_map(|line| line.strip_prefix("| `hoistway-"));
    let beside: BTreeMap<String, BTreeSet<String>> = rows
        .map(|row| {
            let cells: Vec<&str> = row.split('|').map(str::trim).collect();
            let name = cells[0].split('`').next().unwrap_or_default();
            let below = cells[1].split(", ").filter(|word| *word != "-").map(|word| {
                let word = word.trim_matches('`');
                if word.starts_with("hoistway") { word.into() } else { format!("hoistway-{word}") }
            });
            (format!("hoistway-{name}"), below.collect())
        })
        .collect();
    let folders = fs::read_dir(root().join("crates")).expect("a folder");
    let folders = folders.map(|entry| entry.expect("an entry").path());
    for folder in folders.chain([root().join("python")]) {
        let name = folder.file_name().and_then(|n| n.to_str()).expect("a name");
        let name = if name == "python" { "hoistway-python" } else { name };
        let below = ours_below(&folder);
        let Some(at) = stack.iter().position(|of| *of == name) else {
            assert_eq!(beside.get(name), Some(&below), "{name}: in the table of architecture.md");
            continue;
        };
        for other in below {
            let under = stack[at..].contains(&other.as_str()) || beside.contains_key(&other);
            assert!(under, "{name} depends on {other}, which does not stand below it");
        }
    }
}

/// Whether an SPDX expression (`/` is the old `OR`) is met by these licences alone. Every bracket that crates use
/// holds alternatives, so that a part behind `AND` is met by any of them.
fn permitted(license: &str, allowed: &BTreeSet<&str>) -> bool {
    let part = |part: &str| {
        let bare = part.trim_matches(['(', ')', ' ']).replace('/', " OR ");
        bare.split(" OR ").any(|one| allowed.contains(one.trim()))
    };
    license.split(" AND ").all(part)
}

/// The rules of `deny.toml`, whose own program takes minutes to build.
#[test]
fn all_dependencies_are_permissive_and_come_from_the_registry() {
    let rules = fs::read_to_string(root().join("deny.toml")).expect("the rules are there");
    let rules: toml::Table = rules.parse().expect("the rules are TOML");
    let list = rules["licenses"]["allow"].as_array().expect("a list");
    let allowed: BTreeSet<_> = list.iter().filter_map(|l| l.as_str()).collect();
    assert!(permitted("MIT/GPL-2.0", &allowed) && permitted("(MIT OR X) AND ISC", &allowed));
    assert!(!permitted("GPL-2.0", &allowed) && !permitted("MIT AND GPL-2.0", &allowed));
    let banned = rules["bans"]["deny"].as_array().expect("a list");
    let banned: BTreeSet<_> = banned.iter().filter_map(|b| b["crate"].as_str()).collect();
    let said = Command::new(env!("CARGO"))
        .args(["metadata", "--locked", "--all-features", "--format-version", "1"])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    let said: serde_json::Value = serde_json::from_slice(&said.stdout).expect("JSON");
    for package in said["packages"].as_array().expect("a list") {
        let name = package["name"].as_str().expect("a name");
        let license = package["license"].as_str().unwrap_or("none named");
        assert!(permitted(license, &allowed), "{name}: its licence is {license}");
        assert!(!banned.contains(name), "{name} is ruled out in deny.toml");
        let from = &package["source"];
        let registry = "registry+https://github.com/rust-lang/crates.io-index";
        assert!(from.is_null() || from == registry, "{name} comes from {from}");
    }
}

/// Around the tables of settings in the reference pages.
const SETTINGS: &str = "<!-- settings of ";
const SETTINGS_END: &str = "<!-- end -->\n";

/// Where the words of the column *if changed* are explained.
const CHANGES: &str = "../reference/quantities.md#if-a-setting-is-changed";
/// What a page is told by that another page holds the rest.
const BESIDE: &str = ", without what is as in ";

/// What the program prints for the reference page of a scheduler or controller.
fn table_of(name: &str) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hoistway"));
    let output = command.args(["show", name, "--markdown"]).output().expect("the program starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "hoistway show {name} --markdown: {errors}");
    let text = String::from_utf8(output.stdout).expect("a table is text");
    // What the words of the last column mean stands on one page.
    let line = |line: &str| match line.starts_with("If changed while running: ") {
        true => format!("[If changed]({CHANGES}).\n"),
        false => format!("{line}\n"),
    };
    text.lines().map(line).collect()
}

/// The same without the rows that the page of `other` has, which are only named.
fn beside_of(name: &str, other: &str) -> String {
    let theirs = table_of(other);
    let known = |line: &&str| line.starts_with("| `") && theirs.lines().any(|row| row == *line);
    let own = table_of(name);
    let setting = |row: &str| row.split('|').nth(1).unwrap_or_default().trim().to_string();
    let same: Vec<String> = own.lines().filter(known).map(setting).collect();
    let rest: Vec<&str> = own.lines().filter(|line| !known(line)).collect();
    // Of a table all of whose rows are there only the heading and its rule are left.
    let blocks = rest.join("\n");
    let left = blocks.split("\n\n").filter(|b| !b.starts_with('|') || b.lines().count() > 2);
    let left: Vec<&str> = left.map(str::trim_end).collect();
    format!("{}\n\nAs in [{other}]({other}.md): {}.\n", left.join("\n\n"), same.join(", "))
}

/// A page with the tables the program prints now, and the names that its markers say.
fn with_tables(path: &Path, page: &str) -> (String, Vec<String>) {
    let (mut text, mut names) = (String::new(), Vec::new());
    let mut rest = page;
    while let Some(at) = rest.find(SETTINGS) {
        let (marker, body) = rest[at..].split_once('\n').expect("a marker ends its line");
        let name = marker[SETTINGS.len()..].split(':').next().unwrap_or_default();
        let other = marker.split_once(BESIDE).and_then(|(_, rest)| rest.strip_suffix(" -->"));
        let beside = other.map(|other| format!("{BESIDE}{other}")).unwrap_or_default();
        let expected = format!("{SETTINGS}{name}: hoistway show {name} --markdown{beside} -->");
        assert_eq!(marker, expected, "{}: a marker is written so", path.display());
        let (_, tail) = body
            .split_once(SETTINGS_END)
            .unwrap_or_else(|| panic!("{}: no `<!-- end -->` after {marker}", path.display()));
        let table = other.map_or_else(|| table_of(name), |other| beside_of(name, other));
        text.push_str(&format!("{}{marker}\n\n{}\n{SETTINGS_END}", &rest[..at], table));
        names.push(name.into());
        rest = tail;
    }
    (text + rest, names)
}

#[test]
fn what_a_change_does_stands_on_one_page() {
    let page = fs::read_to_string(root().join("docs/reference/quantities.md")).expect("a page");
    for change in OnChange::ALL {
        let line = format!("- *{}*: {}\n", change.word(), change.text());
        assert!(page.contains(&line), "docs/reference/quantities.md lacks: {line}");
    }
}

/// The rows are the one place where settings are described. `UPDATE_DOCS=1` writes the pages anew.
#[test]
fn settings_in_reference_pages_are_what_the_program_prints() {
    let update = std::env::var_os("UPDATE_DOCS").is_some();
    let mut stale = Vec::new();
    for folder in ["docs/schedulers", "docs/controllers"] {
        let mut pages = Vec::new();
        files(&root().join(folder), ".md", &mut pages);
        assert!(!pages.is_empty(), "no page in {folder}");
        if folder == "docs/controllers" {
            pages.push(root().join("docs/reference/faults.md"));
        }
        for path in pages {
            let page = fs::read_to_string(&path).expect("a document is text");
            let (text, names) = with_tables(&path, &page);
            let own = path.file_stem().unwrap_or_default().to_string_lossy();
            assert!(names.iter().any(|n| *n == own), "{}: no settings of {own}", path.display());
            if text != page && update {
                fs::write(&path, text).expect("the page can be written");
            } else if text != page {
                stale.push(path.display().to_string());
            }
        }
    }
    assert!(
        stale.is_empty(),
        "settings that are not what `hoistway show NAME --markdown` prints:\n{}\n\
         mend them with: UPDATE_DOCS=1 cargo test -p hoistway-cli --test docs settings",
        stale.join("\n")
    );
}
