//! What `./hoistway compare` compiles on a machine that has nothing yet: crates and lines, since seconds differ.

use super::*;
use std::collections::BTreeSet;

/// Crates of others, and lines of ours with and without optimisation, that are enough for a first result. The lab takes
/// the compiler four times as long with it. With 68,695 and 24,944 lines the build and the comparison took 47 s of processor
/// time (two processors of an AMD EPYC); the aim is 75.
const OTHERS_MAX: usize = 45;
const OPTIMISED_MAX: usize = 69_500;
const PLAIN_MAX: usize = 25_500;

fn root() -> PathBuf {
    fs::canonicalize(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")).unwrap()
}

/// The arguments that the script gives to cargo: a `cargo` of ours notes them and fails.
fn asked_of_cargo(verb: &str) -> Vec<String> {
    let folder = Folder::new("first-build");
    let (cargo, noted) = (folder.0.join("cargo"), folder.0.join("noted"));
    let script = format!("#!/bin/sh\nprintf '%s\\n' \"$@\" >'{}'\nexit 9\n", noted.display());
    fs::write(&cargo, script).unwrap();
    make_runnable(&cargo);
    let path = format!("{}:{}", folder.0.display(), std::env::var("PATH").unwrap());
    let mut command = Command::new("bash");
    let status = command.arg(root().join("hoistway")).arg(verb).env("PATH", path).status();
    assert_eq!(status.unwrap().code(), Some(9));
    let text = fs::read_to_string(noted).unwrap();
    text.lines().map(String::from).collect()
}

fn make_runnable(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Names of the crates of that build and, of ours, their folders.
fn crates(asked: &[String]) -> BTreeSet<(String, Option<PathBuf>)> {
    let mut command = Command::new(env!("CARGO"));
    command.args(["tree", "--locked", "--offline", "--edges", "normal,build", "--prefix", "none"]);
    command.args(["--format", "{p}", "-p", "hoistway-cli"]).current_dir(root());
    let of_features = |a: &&String| a.contains("features") || *a == "studies";
    let output = command.args(asked.iter().filter(of_features)).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let of_line = |line: &str| {
        let folder = line.split_once(" (/").map(|(_, rest)| rest.split(')').next().unwrap());
        let folder = folder.map(|rest| Path::new("/").join(rest));
        (line.split(' ').next().unwrap().to_string(), folder)
    };
    let text = stdout(&output);
    let lines = text.lines().filter(|line| !line.is_empty());
    lines.map(|line| of_line(line.trim_end_matches(" (*)"))).collect()
}

/// Lines of a file and of the modules that it declares, without tests and without what a feature brings.
fn lines(file: &Path) -> usize {
    let text = fs::read_to_string(file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    let stem = file.file_stem().unwrap().to_str().unwrap();
    let below = match stem {
        "lib" | "main" | "mod" => file.parent().unwrap().to_path_buf(),
        _ => file.with_extension(""),
    };
    let (mut count, mut out) = (0, false);
    for line in text.lines() {
        if line.starts_with("#[cfg(") {
            let left =
                !line.contains("not(") && (line.contains("feature") || line.contains("test"));
            out |= left || line.contains("not(unix)");
            continue;
        }
        let declared = line.strip_suffix(';').and_then(|l| l.split("mod ").nth(1));
        let module = declared.filter(|_| line.starts_with("mod ") || line.starts_with("pub"));
        match (out, module) {
            // Tests are the last of a file.
            (true, _) if line.starts_with("mod tests {") => break,
            (true, _) => {}
            (false, Some(name)) => {
                let alone = below.join(format!("{name}.rs"));
                let path = if alone.is_file() { alone } else { below.join(name).join("mod.rs") };
                count += lines(&path);
            }
            (false, None) => {}
        }
        out &= line.starts_with("#[");
        count += 1;
    }
    count
}

#[test]
fn a_first_comparison_compiles_little() {
    let asked = asked_of_cargo("compare");
    let profile = asked.iter().position(|a| a == "--profile").map(|at| asked[at + 1].clone());
    assert_eq!(profile.as_deref(), Some("first"), "{asked:?}");
    let manifest: toml::Table =
        fs::read_to_string(root().join("Cargo.toml")).unwrap().parse().unwrap();
    let profiles = &manifest["profile"]["first"]["package"];
    let (mut others, mut optimised, mut plain) = (0, 0, 0);
    for (name, folder) in crates(&asked) {
        let level = profiles.get(&name).map(|of_crate| of_crate["opt-level"].as_integer());
        match folder.map(|folder| lines(&folder.join("src/lib.rs"))) {
            None => others += 1,
            Some(lines) if level == Some(Some(0)) => plain += lines,
            Some(lines) => optimised += lines,
        }
    }
    let counted = format!("{others} crates, {optimised} lines optimised, {plain} not");
    assert!(others > 20 && optimised > 10_000 && plain > 10_000, "{counted}");
    let within = others <= OTHERS_MAX && optimised <= OPTIMISED_MAX && plain <= PLAIN_MAX;
    assert!(within, "{counted}: keep what a comparison does not need behind a feature");
}

/// What is left out is there for who asks for it.
#[test]
fn other_verbs_are_built_with_what_they_need() {
    let has = |verb: &str, word: &str| asked_of_cargo(verb).iter().any(|a| a == word);
    for verb in ["run", "reproduce", "replay", "describe", "replay-decisions", "calibrate"] {
        assert!(has(verb, "--no-default-features") && has(verb, "studies"), "{verb}");
    }
    for verb in ["serve", "bench", "recommend", "list"] {
        assert!(!has(verb, "--no-default-features"), "{verb}");
    }
    assert!(has("report", "--no-default-features") && !has("report", "studies"));
}
