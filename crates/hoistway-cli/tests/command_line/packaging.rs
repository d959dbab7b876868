//! Packages without building them: `packaging/` names what is there, and what it makes from the command line is complete.
//! `packaging/try.sh` tries the finished ones.

use super::*;
use std::collections::{BTreeMap, BTreeSet};

// Its `main` is the example's.
#[allow(dead_code)]
#[path = "../../examples/man.rs"]
mod man;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn text(name: &str) -> String {
    fs::read_to_string(root().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// What a man page shows: the marks of roff taken away.
fn shown(page: &[u8]) -> String {
    let text = String::from_utf8_lossy(page).replace("\\-", "-").replace("\\fB", "");
    text.replace("\\fI", "").replace("\\fR", "").replace("\\*(Aq", "'").replace("\\&", "")
}

fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Each verb's page holds the help of each of its options.
fn compare(command: &clap::Command, page: &str, pages: &BTreeMap<String, String>) {
    let text = &pages[page];
    for arg in command.get_arguments().filter(|arg| !arg.is_hide_set()) {
        if let Some(long) = arg.get_long() {
            assert!(text.contains(&format!("--{long}")), "{page} has no --{long}");
        }
        let help = arg.get_help().map(|help| words(&help.to_string())).unwrap_or_default();
        assert!(text.contains(&help), "{page}: {}: {help}", arg.get_id());
    }
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        let name = format!("{}-{}.1", page.trim_end_matches(".1"), below.get_name());
        compare(below, &name, pages);
    }
}

#[test]
fn man_pages_hold_the_help_of_every_verb() {
    let pages: BTreeMap<_, _> = man::pages()
        .unwrap()
        .into_iter()
        .map(|(name, page)| (name, words(&shown(&page))))
        .collect();
    compare(&hoistway_cli::command(), "hoistway.1", &pages);
    assert!(pages["hoistway.1"].contains("130 interrupted"), "{}", pages["hoistway.1"]);
}

#[test]
fn what_the_package_holds_is_there() {
    let mut sources = BTreeSet::new();
    let mut places = BTreeSet::from(["usr/bin/hoistway".to_string()]);
    for line in text("packaging/deb/files").lines().filter(|line| !line.starts_with('#')) {
        let parts: Vec<&str> = line.split(' ').collect();
        let [mode, source, place] = parts[..] else { panic!("{line}") };
        assert!(["644", "755"].contains(&mode), "{line}");
        assert!(root().join(source).is_file(), "{line}");
        assert!(place.starts_with("usr/") && places.insert(place.into()), "{line}");
        sources.insert(source.to_string());
    }
    for entry in fs::read_dir(root().join("examples/serve")).unwrap() {
        let source = format!("examples/serve/{}", entry.unwrap().file_name().to_string_lossy());
        assert!(sources.contains(&source), "packaging/deb/files leaves out {source}");
    }
    let unit = text("examples/serve/hoistway.service");
    let start = unit.lines().find_map(|line| line.strip_prefix("ExecStart=/")).unwrap();
    assert!(places.contains(start.split(' ').next().unwrap()), "{start}");
}

/// The places that `packaging/build.sh` fills in are those of the templates.
#[test]
fn templates_and_the_script_agree() {
    let script = text("packaging/build.sh");
    let folder = "packaging/phoronix/hoistway";
    let names = ["packaging/deb/control".to_string()]
        .into_iter()
        .chain(["test-definition.xml", "downloads.xml.in"].map(|name| format!("{folder}/{name}")));
    let mut found = BTreeSet::new();
    for name in names {
        let text = text(&name);
        found.extend(text.split('@').skip(1).step_by(2).map(|place| format!("@{place}@")));
    }
    assert!(found.len() > 8, "{found:?}");
    for place in &found {
        assert!(script.contains(&format!("s|{place}|")), "packaging/build.sh leaves {place}");
    }
    let filled = script.split("s|@").skip(1).map(|rest| rest.split('@').next().unwrap());
    for place in filled {
        assert!(found.contains(&format!("@{place}@")), "no template has @{place}@");
    }
}

fn scripts() -> Vec<PathBuf> {
    let deb = ["postinst", "prerm", "postrm"].map(|name| format!("packaging/deb/{name}"));
    let others = ["build.sh", "try.sh", "phoronix/hoistway/install.sh"];
    let all = others.map(|name| format!("packaging/{name}")).into_iter().chain(deb);
    all.map(|name| root().join(name)).collect()
}

#[cfg(unix)]
#[test]
fn scripts_of_packages_can_be_read_by_their_shell() {
    use std::os::unix::fs::PermissionsExt;
    for script in scripts() {
        let text = fs::read_to_string(&script).unwrap();
        let shell = if text.starts_with("#!/bin/sh\n") { "sh" } else { "bash" };
        let read = Command::new(shell).arg("-n").arg(&script).output().unwrap();
        assert!(read.status.success(), "{}: {}", script.display(), stderr(&read));
        let mode = fs::metadata(&script).unwrap().permissions().mode();
        assert!(mode & 0o111 == 0o111, "{} cannot be started", script.display());
    }
    match Command::new("shellcheck").arg("--severity=warning").args(scripts()).output() {
        Err(error) => println!("skipped: shellcheck: {error}"),
        Ok(told) => assert!(told.status.success(), "{}", stdout(&told)),
    }
}

/// Lines that the Phoronix profile prints are those that it looks for, and its menu has configurations that there are.
#[cfg(unix)]
#[test]
fn the_profile_finds_its_results_in_what_compare_prints() {
    let folder = Folder::new("profile");
    let profile = "packaging/phoronix/hoistway";
    let install = text(&format!("{profile}/install.sh"));
    let run =
        install.split("<<'RUN'\n").nth(1).and_then(|rest| rest.split("RUN\n").next()).unwrap();
    let definition = text(&format!("{profile}/test-definition.xml"));
    let results = text(&format!("{profile}/results-definition.xml"));
    let values = |text: &str, tag: &str| -> Vec<String> {
        let open = format!("<{tag}>");
        let behind = text.split(open.as_str()).skip(1);
        behind.map(|rest| rest.split("</").next().unwrap().to_string()).collect()
    };
    // The simulator in place of the kernel, which takes no root.
    let mut ours = run.to_string();
    for (from, to) in
        [("--on kernel --target-dir .", "--drive fixed-100us"), ("--quick", "--duration 10ms")]
    {
        assert!(ours.contains(from), "{ours}");
        ours = ours.replace(from, to);
    }
    fs::write(folder.0.join("test.sh"), ours).unwrap();
    fs::create_dir(folder.0.join("program")).unwrap();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_hoistway"), folder.0.join("program/hoistway"))
        .unwrap();
    let menu = values(&definition, "Value");
    let (loads, schedulers): (Vec<_>, Vec<_>) =
        menu.iter().partition(|value| ["readers", "writers"].contains(&value.as_str()));
    assert!(loads.len() == 2 && schedulers.len() == 4, "{menu:?}");
    for (load, scheduler) in schedulers.iter().enumerate().map(|(i, s)| (loads[i % 2], s)) {
        let done = Command::new("sh")
            .args(["test.sh", scheduler, load])
            .env("HOME", &folder.0)
            .env("LOG_FILE", folder.0.join("log"))
            .current_dir(&folder.0)
            .output()
            .unwrap();
        let log = String::from_utf8(folder.file("log")).unwrap();
        assert_eq!(folder.file("test-exit-status"), b"0\n", "{log}{}", stderr(&done));
        for template in values(&results, "OutputTemplate") {
            let (before, after) = template.split_once("#_RESULT_#").unwrap();
            let mut lines = log.lines().filter_map(|line| line.strip_prefix(before));
            let value = lines.next().and_then(|rest| rest.strip_suffix(after));
            assert_eq!(lines.next(), None, "{log}");
            let value: f64 = value.unwrap_or_default().parse().unwrap_or_else(|_| panic!("{log}"));
            assert!(value > 0.0, "{scheduler} {load}: {log}");
        }
    }
}
