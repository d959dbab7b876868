//! Nothing of others is cut, replaced, removed or written into: every option that names a place to write is given a file,
//! a folder, and links to both.

use super::*;
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::{MetadataExt, symlink};

/// What every option that names a place is for. That it has them all is tested beside the arguments (`src/args/tests.rs`).
const PLACES: &str = include_str!("places.txt");

/// An option and a command with it; `{}` is the place, which ends as the third says.
type Case = (&'static str, &'static str, &'static str);

const SIMULATED: &[Case] = &[
    ("bench --out", "bench -d null-block --out {}", ""),
    ("calibrate --out", "calibrate --drive null-block --fit --quick --out {}", ""),
    ("calibrate --out", "calibrate --drive null-block --fit --quick --out {}", ".toml"),
    ("calibrate --report", "calibrate --drive null-block --fit --quick --report {}", ".html"),
    ("compare --out", "compare latency-2019 --out {}", ""),
    ("compare --out", "compare latency-2019,bandwidth-2019 --out {}", ""),
    ("compare --out", "compare --job job.fio -d null-block --out {}", ""),
    ("describe --html", "describe trace --html {}", ".html"),
    ("merge --out", "merge none --out {}", ".html"),
    ("merge --out", "merge none --out {}", ""),
    ("oracle --out", "oracle -d maxtor-7l250s0 -w readers --quick --out {}", ""),
    ("population --out", "population --cases 1 --out {}", ""),
    ("recommend --rules", "recommend none --rules {}", ""),
    ("replay --out", "replay trace -c none -d null-block --out {}", ""),
    ("report --svg", "report none --svg {}", ""),
    ("reproduce --markdown", "reproduce fairness-2010 --quick --markdown {}", ".md"),
    ("reproduce --out", "reproduce fairness-2010 --quick --out {}", ""),
    ("run --out", "run latency-2019 none-none --out {}", ""),
    (
        "run --save-trace",
        "run latency-2019 none -d null-block -w readers --reps 1 --save-trace {}",
        "",
    ),
    (
        "run --timeline",
        "run latency-2019 none -d null-block -w readers --duration 10ms --timeline {}",
        ".json",
    ),
];

#[cfg(all(feature = "live", target_os = "linux"))]
const LIVE: &[Case] = &[
    ("compare --out", "compare latency-2019 --on sim,engine --out {}", ""),
    ("differ --out", "differ --out {}", ""),
    ("emulate --nbd", "emulate -d maxtor-7l250s0 --size 1M --nbd unix:{}", ""),
    ("emulate --store", "emulate -d maxtor-7l250s0 --size 1M --nbd unix:s --store {}", ""),
    #[cfg(feature = "fuse")]
    ("emulate --store", "emulate -d maxtor-7l250s0 --size 1M --loop --store {}", ""),
    ("module build --out", "module build --out {}", ""),
    ("module core --dkms", "module core --dkms {}", ""),
    ("module core --out", "module core --out {}", ""),
    ("record --out", "record --all --out {}", ""),
    ("record --out", "record --all --out {}", ".gz"),
    ("replay-decisions --out", "replay-decisions --on linux --out {}", ""),
    ("serve --control", "serve -e ram:1M --run true --control {}", ""),
    ("serve --export", "serve -e x=file:base,overlay={} --run true", ""),
    ("serve --export", "serve -e x=emulate:maxtor-7l250s0:1M,data={} --run true", ""),
    #[cfg(feature = "fuse")]
    ("serve --fuse", "serve -e ram:1M --fuse {} --run true", ""),
    ("serve --listen", "serve -e ram:1M --listen unix:{} --run true", ""),
    ("serve --metrics", "serve -e ram:1M --run true --metrics unix:{}", ""),
    ("serve --pidfile", "serve -e ram:1M --run true --pidfile {}", ""),
    ("serve --socket", "serve -e ram:1M --run true --socket {}", ""),
    #[cfg(feature = "fuse")]
    ("validate --markdown", "validate -d maxtor-7l250s0 --markdown {}", ".md"),
    #[cfg(feature = "fuse")]
    ("validate --out", "validate -d maxtor-7l250s0 --out {}", ""),
];

#[cfg(not(all(feature = "live", target_os = "linux")))]
const LIVE: &[Case] = &[];

/// All that can be seen of a file, a folder or a link.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    inode: u64,
    mode: u32,
    owner: u32,
    changed: (i64, i64),
    is: String,
}

/// All that can be seen below a folder, by path.
fn seen(folder: &Path, all: &mut BTreeMap<PathBuf, Seen>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let meta = fs::symlink_metadata(&path).unwrap();
        let is = if meta.is_symlink() {
            format!("a link to {}", fs::read_link(&path).unwrap().display())
        } else if meta.is_dir() {
            "a folder".into()
        } else {
            format!(
                "{} bytes: {:?}",
                meta.len(),
                &fs::read(&path).unwrap()[..meta.len().min(99) as usize]
            )
        };
        let (mode, owner) = (meta.mode(), meta.uid());
        let changed = (meta.mtime(), meta.mtime_nsec());
        all.insert(path.clone(), Seen { inode: meta.ino(), mode, owner, changed, is });
        if meta.is_dir() {
            seen(&path, all);
        }
    }
}

/// Foreign things whose names end so, and what commands read.
fn ground(ending: &str) -> (Folder, [String; 4]) {
    let folder = Folder::new("outputs");
    let at = |name: &str| folder.0.join(format!("{name}{ending}"));
    // It mentions the program, and is none of its results for that.
    fs::write(at("thesis"), "How hoistway was tried, a thesis.\n").unwrap();
    fs::create_dir_all(at("album").join("1999")).unwrap();
    fs::write(at("album").join("photo"), "a photo").unwrap();
    fs::write(at("album").join("1999/photo"), "another photo").unwrap();
    symlink(format!("thesis{ending}"), at("to-thesis")).unwrap();
    symlink(format!("album{ending}"), at("to-album")).unwrap();
    fs::write(folder.0.join("trace"), "  8,0 1 1 0.000001 10 Q R 8 + 8 [copy]\n").unwrap();
    fs::write(folder.0.join("job.fio"), JOBS).unwrap();
    fs::File::create(folder.0.join("base")).unwrap().set_len(1 << 20).unwrap();
    let names = ["thesis", "album", "to-thesis", "to-album"].map(|name| format!("{name}{ending}"));
    (folder, names)
}

/// Runs a command, for a while at most: one that does not refuse its place may serve for ever.
fn try_it(folder: &Folder, command: &str) -> Output {
    let mut run = Command::new("timeout");
    run.args(["300", env!("CARGO_BIN_EXE_hoistway")]).args(command.split(' '));
    run.env("HOISTWAY_CACHE_DIR", folder.0.join("cache")).current_dir(&folder.0).output().unwrap()
}

#[test]
fn nothing_of_others_is_touched_by_an_option_that_names_a_place_to_write() {
    for (option, command, ending) in SIMULATED.iter().chain(LIVE) {
        if option.ends_with("--fuse") && !Path::new("/dev/fuse").exists() {
            println!("skipped: {option}: there is no /dev/fuse");
            continue;
        }
        let (folder, names) = ground(ending);
        let mut before = BTreeMap::new();
        seen(&folder.0, &mut before);
        for name in names {
            for place in [name.clone(), folder.0.join(&name).display().to_string()] {
                let command = command.replace("{}", &place);
                let output = try_it(&folder, &command);
                let told = stderr(&output);
                assert_eq!(output.status.code(), Some(2), "{command}\n{told}");
                let last = told.lines().rev().find(|line| line.starts_with("error: "));
                assert!(last.is_some_and(|line| line.contains(&place)), "{command}\n{told}");
                assert!(output.stdout.is_empty(), "{command}\n{}", stdout(&output));
                let mut after = BTreeMap::new();
                seen(&folder.0, &mut after);
                assert_eq!(after, before, "{command}");
            }
        }
    }
}

#[test]
fn the_table_has_every_option_that_is_written_to() {
    let of = |kinds: &[&str]| -> BTreeSet<&str> {
        let lines = PLACES.lines().filter_map(|line| line.split_once(' '));
        lines.filter(|(kind, _)| kinds.contains(kind)).map(|(_, option)| option.trim()).collect()
    };
    let live = if LIVE.is_empty() { &["output"][..] } else { &["output", "live-output"] };
    let tried: BTreeSet<&str> = SIMULATED.iter().chain(LIVE).map(|case| case.0).collect();
    assert_eq!(tried, of(live));
}

/// Places that no option names: beside, below or within those that one names.
#[test]
fn nothing_of_others_is_touched_beside_and_below_what_is_named() {
    let cases: &[(&str, &[&str])] = &[
        (
            "calibrate --drive null-block --fit --quick --out x.toml",
            &["x.fit.json", "x.answers.json"],
        ),
        ("compare latency-2019 -d null-block --out x", &[".x.partial"]),
        (
            "compare latency-2019,bandwidth-2019 --out x",
            &["x/bandwidth-2019", "x/.latency-2019.partial"],
        ),
        (
            "reproduce fairness-2010 --quick --out x",
            &["x/fairness-2010", "x/.fairness-2010.partial"],
        ),
        ("bench -d null-block --out x", &["x/bench-latency", "x/.bench-latency.partial"]),
        ("population --cases 1 --out x", &["x/key"]),
        ("oracle -d maxtor-7l250s0 -w readers --quick --out x", &["x/key"]),
    ];
    for (command, places) in cases {
        for place in *places {
            for what in ["thesis", "album", "to-thesis", "to-album"] {
                let (folder, _) = ground("");
                if place.starts_with("x/") {
                    fs::create_dir(folder.0.join("x")).unwrap();
                    fs::write(folder.0.join("x/.hoistway"), "Made by hoistway\n").unwrap();
                }
                if let Some(to) = what.strip_prefix("to-") {
                    symlink(folder.0.join(to), folder.0.join(place)).unwrap();
                } else {
                    fs::rename(folder.0.join(what), folder.0.join(place)).unwrap();
                }
                let mut before = BTreeMap::new();
                seen(&folder.0, &mut before);
                let output = try_it(&folder, command);
                let told = stderr(&output);
                assert_eq!(output.status.code(), Some(2), "{place}, {what}: {command}\n{told}");
                assert!(told.contains(place), "{place}, {what}: {command}\n{told}");
                let mut after = BTreeMap::new();
                seen(&folder.0, &mut after);
                assert_eq!(after, before, "{place}, {what}: {command}");
            }
        }
    }
}

/// A run over an earlier one, and a report of it: what somebody has put there stays.
#[test]
fn what_somebody_puts_into_a_run_directory_survives_the_next_run() {
    let folder = Folder::new("notes");
    let command =
        "run latency-2019 none-none -d maxtor-6l080l0 -w readers --duration 10ms --reps 1 --out x";
    let args: Vec<&str> = command.split(' ').collect();
    let ok = |args: &[&str]| {
        let output = folder.run(args);
        assert!(output.status.success(), "{}", stderr(&output));
    };
    ok(&args);
    let written: Vec<Vec<u8>> = ["run.toml", "metrics.csv", "records/marks.csv"]
        .map(|f| folder.file(&format!("x/{f}")))
        .into();
    for (name, text) in
        [("x/notes", "mine"), ("x/records/more", "mine, too"), ("x/run.toml.part", "3")]
    {
        fs::write(folder.0.join(name), text).unwrap();
    }
    fs::create_dir(folder.0.join("x/photos")).unwrap();
    fs::write(folder.0.join("x/photos/1"), "a photo").unwrap();
    symlink("notes", folder.0.join("x/link")).unwrap();
    ok(&args);
    for (name, text) in [
        ("notes", "mine"),
        ("records/more", "mine, too"),
        ("photos/1", "a photo"),
        ("link", "mine"),
    ] {
        assert_eq!(folder.file(&format!("x/{name}")), text.as_bytes(), "{name}");
    }
    let again: Vec<Vec<u8>> = ["run.toml", "metrics.csv", "records/marks.csv"]
        .map(|f| folder.file(&format!("x/{f}")))
        .into();
    assert_eq!(again, written);
    assert_eq!(folder.entries(), 1, "nothing is left beside it");
    // A derived file that is somebody's link is not followed, and not replaced.
    fs::remove_file(folder.0.join("x/report.html")).unwrap();
    symlink("notes", folder.0.join("x/report.html")).unwrap();
    for args in [&["report", "x"][..], &args] {
        let output = folder.run(args);
        let told = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{told}");
        assert!(told.contains("x/report.html: is a link"), "{told}");
    }
    assert_eq!(folder.file("x/notes"), b"mine");
}

#[test]
fn what_hoistway_wrote_is_replaced() {
    let folder = Folder::new("again");
    fs::write(
        folder.0.join("trace"),
        "  8,0 1 1 0.000001 10 Q R 8 + 8 [copy]\n  8,0 1 2 0.000002 10 Q R 64 + 8 [copy]\n",
    )
    .unwrap();
    let run =
        "run latency-2019 none-none -d maxtor-6l080l0 -w readers --duration 10ms --reps 1 --out x";
    let two = "compare bench-latency,bench-throughput -d maxtor-6l080l0 -c none --duration 10ms --reps 1 --out both";
    for command in [
        run,
        "run latency-2019 none -d maxtor-6l080l0 -w readers --duration 10ms --reps 1 --save-trace t --out y",
        two,
        "describe trace --html t.html",
        "report x --svg charts",
        "recommend both --rules rules",
        "merge both --out merged --apart",
        "merge both --out merged.html --apart",
        "population --cases 1 -c none --out cases",
        "oracle -d maxtor-7l250s0 -w readers --quick --out best",
    ] {
        for time in ["first", "second"] {
            let output = try_it(&folder, command);
            let code = output.status.code();
            // A recommendation may have too little data.
            assert!(
                code == Some(0) || (code == Some(1) && command.starts_with("recommend")),
                "{time}: {command}\n{}",
                stderr(&output)
            );
        }
    }
    assert!(
        folder.file("merged/report.html").len() > 1000
            && folder.file("charts/.hoistway").len() > 10
    );
    // Somebody's chart of the same name among ours.
    let chart = fs::read_dir(folder.0.join("charts")).unwrap().map(|e| e.unwrap().path());
    let chart = chart.filter(|p| p.extension().is_some_and(|e| e == "svg")).min().unwrap();
    fs::write(&chart, "<svg/>").unwrap();
    let output = try_it(&folder, "report x --svg charts");
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert_eq!(fs::read(&chart).unwrap(), b"<svg/>");
}

#[cfg(all(feature = "live", target_os = "linux"))]
#[test]
fn a_kernel_is_built_over_nothing_of_others() {
    for what in ["thesis", "album", "to-thesis", "to-album"] {
        let (folder, _) = ground("");
        fs::create_dir_all(folder.0.join("cache/linux")).unwrap();
        let place = folder.0.join("cache/linux/mine");
        match what.strip_prefix("to-") {
            Some(to) => symlink(folder.0.join(to), &place).unwrap(),
            None => fs::rename(folder.0.join(what), &place).unwrap(),
        }
        let mut before = BTreeMap::new();
        seen(&folder.0, &mut before);
        let output = try_it(&folder, "linux build --name mine");
        let told = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{told}");
        assert!(told.contains(&place.display().to_string()), "{told}");
        let mut after = BTreeMap::new();
        seen(&folder.0, &mut after);
        assert_eq!(after, before, "{what}");
    }
}
