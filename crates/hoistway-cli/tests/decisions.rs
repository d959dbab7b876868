//! `replay-decisions` and `run --explain` from outside.

use flate2::read::GzDecoder;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// An empty folder that is gone at the test's end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let name = format!("hoistway-decisions-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn run(&self, args: &[&str]) -> (Option<i32>, String, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hoistway"));
        let Output { status, stdout, stderr } =
            command.args(args).current_dir(&self.0).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (status.code(), text(stdout), text(stderr))
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        fs::write(self.0.join(name), content).unwrap();
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Path of a recorded run of Linux 6.1.
fn recording(name: &str) -> String {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../hoistway-replay/tests/data");
    data.join(format!("tags16.{name}.csv.gz")).to_str().unwrap().to_string()
}

fn unpacked(name: &str) -> String {
    let mut text = String::new();
    let file = fs::File::open(recording(name)).unwrap();
    GzDecoder::new(file).read_to_string(&mut text).unwrap();
    text
}

const GROUPS: &str = "bfq-ll0.cgw_d8_st";

#[test]
fn recordings_agree_with_the_settings_their_names_tell() {
    let folder = Folder::new("agree");
    let (groups, levels) = (recording(GROUPS), recording("bfq.ioprio_st"));
    let (code, out, err) = folder.run(&["replay-decisions", &groups, &levels]);
    assert_eq!((code, &*err), (Some(0), ""), "{out}");
    for (setting, times) in [("low_latency 0", 1), ("low_latency 1", 1), ("w0 100, w1 200", 2)] {
        assert_eq!(out.matches(setting).count(), times, "{out}");
    }
    let counts = |merges, inserted, dispatches, expiries| {
        format!(
            "{merges} merged), {inserted} insertions, {dispatches} dispatches, {expiries} expiries"
        )
    };
    assert!(out.contains(&counts(354, 10_256, 31_894, 80)), "{out}");
    assert!(out.contains(&counts(0, 6_982, 16_051, 2_578)), "{out}");

    // The same, unpacked and under a name that tells nothing.
    folder.write("plain.csv", unpacked(GROUPS));
    let (code, out, _) = folder.run(&["replay-decisions", "plain.csv", "--low-latency", "0"]);
    assert_eq!(code, Some(0), "{out}");
    assert!(out.contains("low_latency 0") && out.contains("31894 dispatches"), "{out}");
}

#[test]
fn other_settings_differ_at_the_line_that_is_told() {
    let folder = Folder::new("settings");
    let file = recording(GROUPS);
    let (code, out, err) = folder.run(&["replay-decisions", &file, "--weight", "w0=400"]);
    assert_eq!(code, Some(1), "{out}");
    assert_eq!(err, "error: 1 of 1 recordings differ\n");
    assert!(out.contains("w0 400, w1 200"), "{out}");
    let after = |what: &str| out.split(what).nth(1).unwrap().lines().next().unwrap().trim();
    let line: usize = after("differs first at line ").parse().unwrap();
    assert_eq!(after("recorded:"), unpacked(GROUPS).lines().nth(line - 1).unwrap());
    assert!(out.contains("queue 6: group 3 class Be owner 0 "), "{out}");
    let differ = out.lines().find(|l| l.contains(" differ: ")).unwrap();
    let mut numbers = differ.split(|c: char| !c.is_ascii_digit()).filter(|n| !n.is_empty());
    let total: u64 = numbers.next().unwrap().parse().unwrap();
    assert_eq!(total, numbers.map(|n| n.parse::<u64>().unwrap()).sum::<u64>(), "{differ}");
    assert!(total > 1, "it goes on after the first: {differ}");
}

#[test]
fn another_base_decides_otherwise() {
    let folder = Folder::new("base");
    let file = recording(GROUPS);
    let (code, out, _) = folder.run(&["replay-decisions", &file, "--base", "hoistway"]);
    assert_eq!(code, Some(1), "{out}");
    assert!(out.contains("settings: base hoistway, "), "{out}");
}

#[test]
fn a_recording_with_every_event_agrees() {
    let folder = Folder::new("events");
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../hoistway-replay/tests/data");
    let file = data.join("hdd.bfq.exits.csv.gz").to_str().unwrap().to_string();
    let (code, out, err) = folder.run(&["replay-decisions", &file]);
    assert_eq!((code, &*err), (Some(0), ""), "{out}");
    assert!(out.contains("7126 lines") && out.contains("every line agrees"), "{out}");
}

#[test]
fn a_changed_decision_is_told_as_json_with_both_sides() {
    let folder = Folder::new("changed");
    let good = unpacked(GROUPS);
    let lines: Vec<&str> = good.lines().collect();
    let at = (500..).find(|&i| lines[i].starts_with("dispatch") && lines[i].contains(",,,,,,,"));
    let at = at.unwrap();
    let fields: Vec<&str> = lines[at].split(',').collect();
    let other = format!("dispatch,{},{},77777,,,,,,,", fields[1], fields[2]);
    let mut changed = lines.clone();
    changed[at] = &other;
    folder.write("bfq-ll0.csv", changed.join("\n"));
    folder.write("bfq-ll0.good.csv", lines[..at].join("\n"));
    let (_, text, _) = folder.run(&["replay-decisions", "bfq-ll0.csv"]);
    assert!(text.contains("bfq-ll0.csv\n  settings: "), "{text}");
    let args = ["replay-decisions", "--json", "bfq-ll0.good.csv", "bfq-ll0.csv"];
    let (code, out, _) = folder.run(&args);
    assert_eq!(code, Some(1), "{out}");
    let all: serde_json::Value = serde_json::from_str(&out).unwrap();
    let (same, differs) = (&all["recordings"][0], &all["recordings"][1]);
    assert_eq!((&same["agrees"], &differs["agrees"]), (&true.into(), &false.into()));
    assert!(same["counts"]["dispatches"].as_u64().unwrap() > 100, "{out}");
    assert_eq!(differs["tunables"]["low_latency"], 0);
    assert_eq!(differs["weights"]["w3"], 400);
    assert!(differs["differences"]["dispatches"].as_u64().unwrap() >= 1, "{out}");
    assert_eq!(same["differences"]["dispatches"], 0);
    let difference = &differs["first"];
    assert_eq!(difference["line"], at + 1);
    assert_eq!(difference["recorded"], *other);
    let ours = difference["ours"].as_str().unwrap();
    let expected = match fields[3] {
        "" => "dispatched nothing".to_string(),
        n => format!("dispatched {n}"),
    };
    assert!(ours.starts_with(&expected), "{ours}");
}

#[test]
fn bad_recordings_end_with_exit_2_file_and_line() {
    let folder = Folder::new("bad");
    let good = unpacked(GROUPS);
    let packed = fs::read(recording(GROUPS)).unwrap();
    let lines: Vec<&str> = good.lines().take(10).collect();
    let broken = |line: usize, text: &str| {
        let mut lines = lines.clone();
        lines[line - 1] = text;
        lines.join("\n")
    };
    folder.write("column.csv", broken(7, "insert,60170477,6,2"));
    folder.write("event.csv", broken(5, "sleep,60170477,6,,,,,,,,"));
    folder.write("back.csv", broken(5, "dispatch,1,6,,,,,,,,"));
    folder.write("empty.csv", "");
    folder.write("bytes.csv", b"event\nno\xff\n");
    folder.write("not.csv.gz", &good[..100]);
    folder.write("cut.csv.gz", &packed[..packed.len() / 2]);
    let cases: &[(&[&str], &str)] = &[
        (&["column.csv"], "column.csv:7: "),
        (&["event.csv"], "event.csv:5: no such event: 'sleep'"),
        (&["back.csv"], "back.csv:5: time goes back"),
        (&["empty.csv"], "empty.csv:1: not a recording"),
        (&["bytes.csv"], "bytes.csv:2: is no text in UTF-8"),
        (&["not.csv.gz"], "not.csv.gz: invalid gzip header"),
        (&["cut.csv.gz"], "cut.csv.gz: incomplete deflate stream"),
        (&["none.csv"], "none.csv: No such file"),
        (&["column.csv", "--weight", "w0"], "'w0' is not GROUP=N"),
        (&["column.csv", "--weight", "w0=0"], "weight = 0 is outside 1..=1000"),
        (&["column.csv", "--low-latency", "2"], "2 is not in 0..=1"),
        (&["column.csv", "--buffer-kib", "0"], "0 is not in 1..=1024"),
        (&["column.csv", "--base", "2.6"], "--base: no such base: '2.6'; there are 6.1, "),
        (&[], "<FILE>"),
    ];
    for (args, expected) in cases {
        let (code, out, err) = folder.run(&[&["replay-decisions"], *args].concat());
        assert_eq!((code, &*out), (Some(2), ""), "{args:?}: {err}");
        assert!(err.contains(expected), "{args:?}: {err}");
    }
}

const EXPLAIN: [&str; 6] = ["run", "latency-2019", "--workload", "readers", "--explain", "target"];

/// Not the BFQ of the host of 2019, which merges no queues at their creation.
const BFQ: &str = "bfq{base=hoistway}";

/// The lines of a story, and how many were left out.
fn story(folder: &Folder, more: &[&str]) -> (Vec<String>, usize) {
    let (code, out, err) = folder.run(&[&EXPLAIN, more].concat());
    assert_eq!((code, &*err), (Some(0), ""), "{more:?}: {out}");
    let lines: Vec<&str> = out.lines().collect();
    assert!(lines[0].contains("timeline of target"), "{out}");
    let body = lines[3..].iter().take_while(|l| !l.is_empty());
    let left_out = lines.iter().find_map(|l| l.split_once(" more lines were left out"));
    let left_out = left_out.map_or(0, |(n, _)| n.parse().unwrap());
    (body.map(|l| l.to_string()).collect(), left_out)
}

fn time(line: &str) -> Option<f64> {
    line.split_once(" ms  ").and_then(|(time, _)| time.trim().parse().ok())
}

#[test]
fn a_story_tells_each_decision_with_its_figures() {
    let folder = Folder::new("story");
    let (all, none) = story(&folder, &[BFQ, "--duration", "6s", "--limit", "1000000"]);
    assert_eq!(none, 0);
    let has = |text: &str| all.iter().filter(|l| l.contains(text)).count();
    assert_eq!(has("weight raised x30 as interactive until"), 1);
    assert_eq!(has("preempts queue 0 (reader0 and 14 more): higher class or weight"), 1);
    assert!(has("expired: budget exhausted, ") > 1);
    assert!(has("; next: queue ") > 1);
    assert!(has("others: ") > 1);
    assert!(has("is empty: the drive is kept idle for it up to 20.000 ms") > 1000);
    let times: Vec<f64> = all.iter().filter_map(|l| time(l)).collect();
    assert!(times.is_sorted() && times[0] >= 0.0 && times[times.len() - 1] < 6000.0);

    // Raising ends with the dispatch that takes it over 120,000 sectors, before its time is over.
    let at = |text: &str| all.iter().position(|l| l.contains(text)).unwrap();
    let until = all[at("until")].split("until ").nth(1).unwrap().split(' ').next().unwrap();
    let end = at("raising ends: service, after 120008 sectors");
    assert!(time(&all[end]).unwrap() < until.parse().unwrap(), "{until}");
    let before = all[..end].iter().filter(|l| l.contains("to the drive: read, 4 KiB"));
    assert_eq!(8 * (before.count() + 1), 120_008);

    // Budgets are used up by the requests that are told: sectors of a slot.
    let slot = all.iter().position(|l| l.contains("in service, budget 1024")).unwrap();
    let end = slot + all[slot..].iter().position(|l| l.contains("budget exhausted")).unwrap();
    let requests = all[slot..end].iter().filter(|l| l.contains("to the drive: read, 4 KiB"));
    assert_eq!(8 * requests.count(), 1024);
    assert!(all[end].contains(", 1024 sectors in "), "{}", all[end]);

    let (first, left_out) = story(&folder, &[BFQ, "--duration", "6s", "--limit", "20"]);
    assert_eq!((&first[..], left_out), (&all[..20], all.len() - 20));
    let (usual, left_out) = story(&folder, &[BFQ, "--duration", "6s"]);
    assert_eq!((&usual[..199], left_out), (&all[..199], all.len() - 200));
    assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 0, "nothing is written");

    // At the end stands what was counted of its queue.
    let (_, out, _) = folder.run(&[&EXPLAIN[..], &[BFQ, "--duration", "6s"]].concat());
    let (_, counts) = out.split_once("in the whole run:\n").expect("the counts of one queue");
    let count = |name: &str| -> u64 {
        let line = counts.lines().find(|l| l.ends_with(name)).unwrap();
        line.split_whitespace().next().unwrap().parse().unwrap()
    };
    assert_eq!(count(" raised_interactive"), 1);
    assert_eq!(count(" sectors_served"), 8 * count(" requests_served"));
    assert!(8 * count(" requests_served") > 120_008);
}

#[test]
fn a_story_has_every_request_under_any_scheduler() {
    let folder = Folder::new("schedulers");
    for (scheduler, reason) in [
        ("bfq", "in service, budget"),
        ("bfq-v1", "in service, budget"),
        ("bfq-v4", "in service, budget"),
        ("cfq", "expired: no more requests, after 1 request; next: reader"),
        ("deadline", " (batch)"),
        ("mq-deadline", ""),
        ("none-none", ""),
    ] {
        let (all, _) = story(&folder, &[scheduler, "--duration", "1s", "--limit", "1000000"]);
        assert!(all.iter().any(|l| l.contains(reason)), "{scheduler}");
        let done = all.iter().filter(|l| l.contains(" done: ")).count();
        // The metric of an ordinary run of the same seed, in MB over 1 s.
        let args = ["run", "latency-2019", scheduler, "--duration", "1s", "--reps", "1", "--csv"];
        let (code, csv, err) = folder.run(&[&args[..], &["--workload", "readers"]].concat());
        assert_eq!(code, Some(0), "{err}");
        let row = csv.lines().find(|l| l.contains(",throughput_target,")).unwrap();
        let mb: f64 = row.split(',').nth(6).unwrap().parse().unwrap();
        assert!((done as f64 - mb * 1e6 / 4096.0).abs() <= 2.0, "{scheduler}: {done}, {mb} MB");
    }
}

#[test]
fn a_story_is_of_one_process_in_one_run() {
    let folder = Folder::new("one");
    let run = |more: &[&str]| folder.run(&[&["run", "latency-2019", "bfq"], more].concat());
    let cases: &[(&[&str], &str)] = &[
        (&["--explain", "target"], "2 workloads are chosen; choose one with --workload"),
        (&["-w", "readers", "-d", "cloud-gp3,cloud-ssd", "--explain", "target"], "drive"),
        (&["-w", "readers", "--reps", "2", "--explain", "target"], "2 repetitions are chosen"),
        (&["-w", "readers", "--explain", "reader99"], "no process 'reader99'; did you mean"),
        (&["-w", "readers", "--explain", "target", "--csv"], "cannot be used with"),
        (&["-w", "readers", "--explain", "target", "--limit", "0"], "0 is not in 1..="),
        (&["-w", "readers", "--limit", "5"], "--explain"),
    ];
    for (args, expected) in cases {
        let (code, out, err) = run(args);
        assert_eq!((code, &*out), (Some(2), ""), "{args:?}: {err}");
        assert!(err.contains(expected), "{args:?}: {err}");
    }
    assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 0, "nothing is written");
}

/// `differ` with that cache folder, the usual one if `None`.
#[cfg(all(feature = "live", target_os = "linux"))]
fn differ(cache: Option<&Path>, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hoistway"));
    command.arg("differ").args(args);
    if let Some(cache) = cache {
        command.env("HOISTWAY_CACHE_DIR", cache);
    }
    command.output().unwrap()
}

#[cfg(all(feature = "live", target_os = "linux"))]
#[test]
fn random_scenarios_agree_with_a_linux_that_was_built() {
    let folder = std::env::temp_dir().join(format!("hoistway-differ-test-{}", std::process::id()));
    let none = differ(Some(&folder), &[]);
    assert_eq!(none.status.code(), Some(3), "{none:?}");
    assert!(String::from_utf8_lossy(&none.stderr).contains("hoistway linux build"), "{none:?}");
    let out = folder.to_str().unwrap();
    let args = ["-s", "mq-deadline", "-n", "2", "--fresh", "--quiet", "--out", out];
    let first = differ(None, &args);
    if first.status.code() == Some(3) {
        return println!("skipped: {}", String::from_utf8_lossy(&first.stderr));
    }
    let said = String::from_utf8_lossy(&first.stdout).into_owned();
    assert_eq!(first.status.code(), Some(0), "{first:?}");
    assert!(
        said.contains("mq-deadline: 2 scenarios") && said.contains("2 agree on every line"),
        "{said}"
    );
    assert_eq!(String::from_utf8_lossy(&differ(None, &args).stdout), said);
    let other = differ(None, &["-s", "anticipatory"]);
    assert_eq!(other.status.code(), Some(2));
    assert!(
        String::from_utf8_lossy(&other.stderr).contains("the kernel has no 'anticipatory'"),
        "{other:?}"
    );
    let _ = std::fs::remove_dir_all(&folder);
}
