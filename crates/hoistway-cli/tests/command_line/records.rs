//! What is kept of a run: the same bytes again, and what `report` and `diff` make of it.

use super::*;

#[test]
fn the_same_seed_gives_the_same_bytes_with_any_number_of_threads() {
    let folder = Folder::new("same-bytes");
    let compare = |jobs: &str, out: &str, seed: &str| {
        let base = ["compare", "--quick", "--reps", "3", "--jobs", jobs, "--out", out];
        let output = folder.run(&[&base[..], &["--seed", seed, "--csv"]].concat());
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        assert!(stderr(&output).contains(&format!("seed:   {seed}")));
        output.stdout
    };
    let one = compare("1", "a", "1");
    let two = compare("4", "b", "1");
    assert_eq!(one, two);
    let files =
        ["metrics.csv", "series.csv.gz", "report.html", "run.toml", "records/histograms.json.gz"];
    for name in files {
        let (a, b) = (folder.file(&format!("a/{name}")), folder.file(&format!("b/{name}")));
        assert!(a == b, "{name} differs");
    }
    assert_eq!(one, folder.file("a/metrics.csv"), "--csv prints the file");
    let header = "experiment,drive,config,workload,metric,unit,value,rep,source,bound\n";
    assert!(one.starts_with(header.as_bytes()));
    assert_ne!(one, compare("2", "c", "2"), "another seed, other figures");
}

#[test]
fn report_computes_the_same_from_the_records() {
    let folder = Folder::new("report");
    let output = folder.run(&["run", "latency-2019", "none-none", "--quick", "--reps", "2"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = stdout(&output);
    let path = text.lines().find_map(|l| l.strip_prefix("report: ")).unwrap();
    assert!(text.contains("seed:   1"), "{text}");
    let dir = Path::new(path).parent().unwrap().to_str().unwrap().to_string();
    let before: Vec<_> =
        ["metrics.csv", "report.html"].map(|f| folder.file(&format!("{dir}/{f}"))).into();
    fs::remove_file(folder.0.join(&dir).join("metrics.csv")).unwrap();
    let output = folder.run(&["report", &dir]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let after: Vec<_> =
        ["metrics.csv", "report.html"].map(|f| folder.file(&format!("{dir}/{f}"))).into();
    assert!(before == after, "the report of the same records differs");
    assert_eq!(folder.entries(), 1, "one folder, runs/");
    let page = folder.run(&["report", &dir, "--format", "html"]).stdout;
    assert!(page == after[1], "the page is what stands in report.html");
    let output = folder.run(&["report", &dir, "--format", "markdown", "--svg", "charts"]);
    let tables = stdout(&output);
    assert!(tables.starts_with("# ") && tables.contains("| none-none |"), "{tables}");
    assert!(stderr(&output).contains(" charts: charts"), "stdout is the file");
    let charts: Vec<_> = fs::read_dir(folder.0.join("charts")).unwrap().collect();
    assert!(!charts.is_empty());
    for chart in charts.into_iter().map(|chart| chart.unwrap().path()) {
        if chart.file_name().unwrap() == ".hoistway" {
            continue;
        }
        let text = fs::read_to_string(chart).unwrap();
        assert!(text.contains("<svg ") && text.trim_end().ends_with("</svg>"));
    }
    let output = folder.run(&["report", &dir, "--format", "pdf"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("html, markdown"), "{}", stderr(&output));
}

/// Both starts in full, and then the second cut off after a second by the end of the run.
#[test]
fn a_start_that_was_cut_off_makes_bounds_everywhere() {
    let folder = Folder::new("censored");
    let run = |more: &[&str]| {
        let args = "compare startup-s --reps 1 --drive intel-320-160g --config none \
                    --workload gnome-terminal+10r-seq --wide";
        let args: Vec<&str> = args.split_whitespace().chain(more.iter().copied()).collect();
        let output = folder.run(&args);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        stdout(&output)
    };
    let value = |dir: &str, metric: &str| {
        let csv = String::from_utf8(folder.file(&format!("{dir}/metrics.csv"))).unwrap();
        let ours = |l: &&str| {
            l.contains(&format!(",{metric},s,")) && l.trim_end_matches(">=").contains(",,sim,")
        };
        let fields: Vec<&str> = csv.lines().find(ours).unwrap().split(',').collect();
        (fields[6].parse::<f64>().unwrap(), fields[9].to_string())
    };
    run(&["--out", "whole"]);
    let marks = String::from_utf8(folder.file("whole/records/marks.csv")).unwrap();
    let at = |line: usize| marks.lines().nth(line).unwrap().split(',').nth(4).unwrap();
    let [begin, end, again]: [u64; 3] = [1, 2, 3].map(|line| at(line).parse().unwrap());
    assert!(again + 1_000_000_000 < at(4).parse().unwrap(), "the second takes longer: {marks}");
    let text = run(&["--out", "cut", "--duration", &format!("{}ns", again + 1_000_000_000)]);

    let took = (end - begin) as f64 / 1e9;
    let near = |dir: &str, metric: &str, expected: f64, bound: &str| {
        let (got, sign) = value(dir, metric);
        assert!((got - expected).abs() < 1e-6 && sign == bound, "{metric}: {sign}{got}");
    };
    near("cut", "startup_time", (took + 1.0) / 2.0, ">");
    near("cut", "startup_time_min", took, "");
    near("cut", "startup_time_p50", took, "");
    near("cut", "startup_time_max", took, ">=");
    assert_eq!(value("whole", "startup_time").1, "");
    let row = text.lines().find(|l| l.starts_with("intel-320-160g  gnome-terminal")).unwrap();
    let cells: Vec<&str> = row.split_whitespace().skip(3).collect();
    assert!(cells[0].starts_with('>') && cells[4].starts_with(">="), "{text}");
    assert_eq!((cells[1], cells[2], cells[4]), ("-", cells[3], &*format!(">={}", cells[3])));
    assert!(text.contains("1 of 2 starts were cut off by the end of the run"), "{text}");
    let html = String::from_utf8(folder.file("cut/report.html")).unwrap();
    let mean = format!("{} s (median", cells[0].replace('>', "&gt;"));
    assert!(html.contains(&mean), "glance and headline: {mean}");
}

/// What starts applications does no I/O itself: its story names those that do.
#[test]
fn a_timeline_names_the_processes_that_the_asked_one_started() {
    let folder = Folder::new("made");
    let explain = |process: &str| {
        let args =
            "run startup-hdd-2010 bfq-v1 -d maxtor-6l080l0 -w konsole+10r-seq --quick --explain";
        let args: Vec<&str> = args.split(' ').chain([process]).collect();
        let output = folder.run(&args);
        (output.status.code(), stdout(&output) + &stderr(&output))
    };
    let (code, told) = explain("target");
    assert_eq!(code, Some(0), "{told}");
    assert!(told.contains("no I/O of target itself, and no decision about it"), "{told}");
    let words = "target started target/konsole, target/kdeinit";
    assert!(told.contains(words) && told.contains("--explain target/konsole tells"), "{told}");
    let (code, told) = explain("target/konsole");
    assert!(code == Some(0) && told.contains(" to the drive: read"), "{told}");
    assert!(!told.contains("no I/O of"), "{told}");
    let (code, told) = explain("target/xterm");
    assert!(code == Some(2) && told.contains("there are: target/konsole, "), "{told}");
}

#[test]
fn a_run_is_repeated_to_the_byte_or_it_is_said_what_differs() {
    let folder = Folder::new("repeat");
    let args =
        "compare --quick --reps 2 -d plextor-px-256m5s -w readers -c none,bfq{low_latency=0}";
    let words: Vec<&str> = args.split(' ').chain(["--quiet", "--out", "a"]).collect();
    assert_eq!(folder.run(&words).status.code(), Some(0));
    let again = folder.run(&["repeat", "a"]);
    let told = stdout(&again);
    assert_eq!(again.status.code(), Some(0), "{told}{}", stderr(&again));
    assert!(told.contains("'none,bfq{low_latency=0}'") && told.contains("same bytes: "), "{told}");
    // A derived file, then a record.
    let changed = |name: &str| {
        let mut bytes = folder.file(name);
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        fs::write(folder.0.join(name), bytes).unwrap();
        folder.run(&["repeat", "a", "--json"])
    };
    let other = changed("a/report.html");
    assert_eq!(other.status.code(), Some(1), "{}", stderr(&other));
    let told: serde_json::Value = serde_json::from_slice(&other.stdout).unwrap();
    let files = told["files"].as_array().unwrap();
    let names: Vec<&str> = files
        .iter()
        .filter(|file| file["same"] == false)
        .map(|file| file["name"].as_str().unwrap())
        .collect();
    assert_eq!((&told["same"], names), (&false.into(), vec!["report.html"]));
    fs::write(folder.0.join("a/records/mine.csv"), "x").unwrap();
    let told = stdout(&folder.run(&["repeat", "a"]));
    assert!(told.contains("records/mine.csv") && told.contains("`hoistway diff`"), "{told}");
}

/// A run directory may come from a stranger, and its command is no order of ours.
#[test]
fn only_simulations_are_repeated() {
    let folder = Folder::new("repeat-not");
    let args = "compare --quick --reps 1 -d plextor-px-256m5s -w readers -c none --quiet --out a";
    assert_eq!(folder.run(&args.split(' ').collect::<Vec<_>>()).status.code(), Some(0));
    let manifest = String::from_utf8(folder.file("a/run.toml")).unwrap();
    let line = manifest.lines().find(|l| l.starts_with("command = ")).unwrap().to_string();
    let commands = [
        (
            "hoistway serve -e a=file:/etc/passwd",
            "not `hoistway VERB` with one of: compare, run, replay",
        ),
        ("rm -rf a", "not `hoistway VERB` with one of: compare, run, replay"),
        ("hoistway compare latency-2019 --out /tmp/there", "--out, which is no part"),
        ("hoistway compare latency-2019 --out=/tmp/there", "--out=/tmp/there, which"),
        ("hoistway run latency-2019 none --save-trace t", "--save-trace, which"),
        ("hoistway compare latency-2019 -o there", "-o, which"),
        ("hoistway compare 'latency-2019", "quotation mark"),
    ];
    for (command, why) in commands {
        let text = manifest.replace(&line, &format!("command = {command:?}"));
        fs::write(folder.0.join("a/run.toml"), text).unwrap();
        let refused = folder.run(&["repeat", "a"]);
        let told = stderr(&refused);
        assert_eq!(refused.status.code(), Some(2), "{command}: {told}");
        assert!(told.contains("a/run.toml") && told.contains(why), "{command}: {told}");
    }
    let kernel = manifest.replace("world = \"sim\"", "world = \"kernel\"");
    fs::write(folder.0.join("a/run.toml"), kernel).unwrap();
    let told = stderr(&folder.run(&["repeat", "a"]));
    assert!(told.contains("one of the world kernel"), "{told}");
}

#[test]
fn diff_tells_what_was_run_differently_and_what_it_changed() {
    let folder = Folder::new("diff");
    let run = |out: &str, more: &[&str]| {
        let base =
            ["compare", "--quick", "--reps", "3", "--drive", "plextor-px-256m5s", "--out", out];
        let output = folder.run(&[&base[..], more].concat());
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    };
    run("a", &["-w", "readers", "-c", "none-none,none-bfq"]);
    run("b", &["-w", "readers", "-c", "none-none,none-bfq"]);
    let same = folder.run(&["diff", "a", "b"]);
    assert_eq!(
        (same.status.code(), stdout(&same).as_str()),
        (Some(0), "0 of 8 quantities differ\n")
    );

    // A slower drive of the same id, one configuration less.
    let text = stdout(&folder.run(&["show", "plextor-px-256m5s"]));
    let rate = text.lines().find(|l| l.starts_with("rate_mb_s")).unwrap().to_string();
    let slow = text.replace(&rate, "rate_mb_s = 150.0");
    assert_ne!(text, slow);
    fs::create_dir(folder.0.join("d")).unwrap();
    fs::write(folder.0.join("d/plextor-px-256m5s.toml"), slow).unwrap();
    let args =
        "compare --quick --reps 3 -w readers -c none-none --out c --drive d/plextor-px-256m5s.toml";
    let output = folder.run(&args.split_whitespace().collect::<Vec<_>>());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let differ = folder.run(&["diff", "a", "c"]);
    let out = stdout(&differ);
    assert_eq!(differ.status.code(), Some(1), "{out}");
    assert!(out.contains("drive plextor-px-256m5s: link.rate_mb_s\n  - "), "{out}");
    assert!(out.contains("- plextor-px-256m5s/none-bfq/readers: in this run alone"), "{out}");
    let row = out.lines().find(|l| l.contains("latency_avg")).unwrap();
    assert!(row.contains(" x") && row.contains(" to "), "{out}");
    let json = stdout(&folder.run(&["diff", "a", "c", "--json"]));
    let parsed: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&parsed["schema"], &parsed["differs"]), (&1.into(), &true.into()));
    let first = &parsed["quantities"][0];
    assert_eq!((&first["metric"], &first["paired"]), (&"latency_avg".into(), &true.into()));
    assert!(first["low"].as_f64() > Some(1.03), "{first}");
    assert_eq!(folder.run(&["diff", "a", "nowhere"]).status.code(), Some(2));

    // The same as a gate of a build.
    let gate = |drive: &str, configs: &str, more: &[&str]| {
        let base = ["compare", "--quick", "--reps", "3", "-w", "readers", "--baseline", "a"];
        let output = folder.run(&[&base[..], &["--drive", drive, "-c", configs], more].concat());
        (output.status.code(), stdout(&output), stderr(&output))
    };
    let (same, slow) = ("plextor-px-256m5s", "d/plextor-px-256m5s.toml");
    let (code, out, _) = gate(same, "none-none,none-bfq", &["--out", "e"]);
    let line = "baseline a: 0 of 8 quantities left the band of 5 %";
    assert!(code == Some(0) && out.ends_with(&format!("{line}\n")), "{out}");
    let (code, out, _) = gate(slow, "none-none", &["--out", "f"]);
    assert!(code == Some(1) && out.contains("worse"), "{out}");
    let missing = "- plextor-px-256m5s/none-bfq/readers: in the baseline, and not in this run";
    assert!(out.contains(missing) && out.contains("1 cells are missing"), "{out}");
    // Nothing leaves a band that is wide enough; what is missing fails all the same.
    let (code, _, told) =
        gate(slow, "none-none,none-bfq", &["--out", "g", "--band", "900%", "--csv"]);
    assert!(code == Some(0) && told.contains("0 of 8 quantities left the band"), "{told}");
    let (code, _, told) = gate(same, "none-none", &["--out", "a"]);
    assert!(code == Some(2) && told.contains("would replace its own baseline"), "{told}");
    let (code, _, told) = gate(same, "none-none", &["--out", "h", "--band", "some"]);
    assert!(code == Some(2) && told.contains("--band"), "{told}");
}

const PARTED: [&str; 6] = ["compare", "--quick", "--reps", "2", "--config", "none,bfq,kyber"];

/// The folders of the parts of a run whose directory would be `NAME-K`.
fn parts(folder: &Folder, of: u32) -> Vec<String> {
    let part = |k: u32| {
        let (shard, out) = (format!("{k}/{of}"), format!("part-{k}/x"));
        let output = folder.run(&[&PARTED[..], &["--shard", &shard, "--out", &out]].concat());
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        assert!(stderr(&output).contains(&format!("part {shard}: ")), "{}", stderr(&output));
        stdout(&output).trim().to_string()
    };
    (1..=of).map(part).collect()
}

/// Every file of a run directory, with its bytes.
fn bytes_of(folder: &Folder, dir: &str) -> Vec<(String, Vec<u8>)> {
    let files = ["metrics.csv", "series.csv.gz", "report.html", "run.toml"];
    let names = files.map(str::to_string).into_iter();
    let records = fs::read_dir(folder.0.join(dir).join("records")).unwrap();
    let records = records.map(|e| format!("records/{}", e.unwrap().file_name().display()));
    let mut names: Vec<String> = names.chain(records).collect();
    names.sort();
    names.into_iter().map(|n| (n.clone(), folder.file(&format!("{dir}/{n}")))).collect()
}

#[test]
fn parts_put_together_are_the_run_of_one_process() {
    let folder = Folder::new("shards");
    let whole = folder.run(&[&PARTED[..], &["--out", "whole"]].concat());
    assert_eq!(whole.status.code(), Some(0), "{}", stderr(&whole));
    let parts = parts(&folder, 4);

    let some: Vec<&str> = parts[1..].iter().map(String::as_str).collect();
    let merge = |parts: &[&str], out: &str| folder.run(&[&["merge", "--out", out], parts].concat());
    let output = merge(&some, "merged");
    assert_eq!(output.status.code(), Some(2));
    let told =
        "4 runs of 12 are missing: plextor-px-256m5s/none/readers, plextor-px-256m5s/bfq/writers. ";
    assert!(stderr(&output).contains(told), "{}", stderr(&output));

    let all: Vec<&str> = parts.iter().map(String::as_str).collect();
    let output = merge(&all, "merged");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(bytes_of(&folder, "merged"), bytes_of(&folder, "whole"));
    let table = |output: &Output| stdout(output).split("\nreport:").next().unwrap().to_string();
    assert_eq!(table(&output), table(&whole));
    assert!(!folder.0.join(".merged.partial").exists(), "what was put together is gone");
    assert!(folder.0.join(&parts[0]).exists(), "the parts stay");
}

#[test]
fn parts_in_one_folder_need_no_merging() {
    let folder = Folder::new("shared-shards");
    for shard in ["1/2", "2/2"] {
        let output = folder.run(&[&PARTED[..], &["--shard", shard]].concat());
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    }
    let output = folder.run(&PARTED);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stderr(&output).contains("reusing 12 of 12 runs"), "{}", stderr(&output));
}

#[test]
fn what_are_no_parts_of_one_command_is_refused() {
    let folder = Folder::new("no-shards");
    let parts = parts(&folder, 2);
    let refused = |args: &[&str], told: &str| {
        let output = folder.run(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", stdout(&output));
        assert!(stderr(&output).contains(told), "{args:?}: {}", stderr(&output));
    };
    let [first, second] = [parts[0].as_str(), parts[1].as_str()];
    refused(&["merge", first, second, "--apart"], "--for, --against and --apart are about");
    refused(&["merge", first, "part-1"], "merge either alone");
    let key = folder.0.join(second).join("key");
    let text = fs::read_to_string(&key).unwrap();
    fs::write(&key, text.replace("--reps 2", "--reps 3")).unwrap();
    refused(&["merge", first, second], "are parts of different commands");
    refused(&["merge", second], "are not those of the parts");
    // A folder may come from a stranger.
    fs::write(&key, text.replace("--reps 2", "--out /tmp/x")).unwrap();
    refused(&["merge", second], "its command has --out, which is no part of a simulation");
    fs::write(&key, text.replace("hoistway compare", "hoistway serve")).unwrap();
    refused(&["merge", second], "its command is not `hoistway VERB` with one of: compare");

    refused(&["compare", "--shard", "3/2"], "'3/2' is not K/N with K from 1 to N");
    refused(
        &["compare", "--shard", "1/2", "--on", "engine"],
        "--shard parts the runs of the simulator",
    );
    refused(&["compare", "latency-2019,bandwidth-2019", "--shard", "1/2"], "name one");
}

#[test]
fn a_timeline_holds_the_requests_of_one_run() {
    let folder = Folder::new("timeline");
    let one = ["run", "latency-2019", "bfq", "-w", "readers", "--duration", "100ms"];
    let told = |file: &str| {
        let output = folder.run(&[&one[..], &["--timeline", file]].concat());
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        assert!(stdout(&output).contains(&format!("timeline: {file}")), "{}", stdout(&output));
        folder.file(file)
    };
    let (first, again) = (told("a.json"), told("a.json"));
    assert!(first == again, "the same run, the same bytes; and a timeline may be replaced");
    let all: serde_json::Value = serde_json::from_slice(&first).unwrap();
    let events = all["traceEvents"].as_array().unwrap();
    let has = |name: &str| events.iter().any(|e| e["args"]["name"] == name);
    assert!(has("target") && has("reader0") && has("hardware queue 0"));
    let served = |e: &&serde_json::Value| e["ph"] == "X" && e["pid"] == 2;
    let of_target = events.iter().filter(served).filter(|e| e["args"]["process"] == "target");
    assert!(of_target.count() > 10, "the target has read");
    assert!(events.iter().any(|e| e["args"]["ended by"].as_str().is_some()), "slots of service");

    let output = folder.run(&["run", "latency-2019", "bfq", "--timeline", "b.json"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("--timeline shows one run, but 2 workloads"));
    let output = folder.run(&[&one[..], &["--timeline", "b.json", "--on", "linux"]].concat());
    assert!(stderr(&output).contains("--timeline: the kernel's schedulers"), "{}", stderr(&output));
}

#[test]
fn latencies_are_written_as_a_log_of_hdrhistogram() {
    let folder = Folder::new("hdr");
    let base = ["compare", "-c", "none,bfq{low_latency=0,slice_idle=0}", "-w", "readers"];
    let more = ["--duration", "100ms", "--reps", "2", "--out", "a"];
    let output = folder.run(&[&base[..], &more].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let log = stdout(&folder.run(&["report", "a", "--format", "hdr"]));
    let lines: Vec<&str> = log.lines().filter(|l| l.starts_with("Tag=")).collect();
    assert_eq!(lines.len(), 2 * 2 * 16, "a line for each process, repetition and configuration");
    for line in lines {
        assert_eq!(line.split(',').count(), 5, "{line}");
        assert!(line.split(',').nth(4).unwrap().starts_with("HISTFAA"), "{line}");
    }
    assert!(
        log.contains("Tag=plextor-px-256m5s/bfq{low_latency=0;slice_idle=0}/readers/r2/target,")
    );
}

#[test]
fn names_that_mean_something_to_a_shell_are_repeated() {
    let folder = Folder::new("quoting");
    let place = folder.0.join("it's mine; $HOME");
    fs::create_dir(&place).unwrap();
    let shown = folder.run(&["show", "latency-2019"]);
    fs::write(place.join("my latency.toml"), shown.stdout).unwrap();
    let text = "schema = 1\nname = \"mine\"\nbase = \"plextor-px-256m5s\"\n";
    fs::write(place.join("my drive.toml"), text).unwrap();
    let experiment = "it's mine; $HOME/my latency.toml";
    let drive = "it's mine; $HOME/my drive.toml";
    for verb in [&["compare", experiment, "-c", "none"][..], &["run", experiment, "none"]] {
        let more =
            ["-d", drive, "-w", "readers", "--reps", "1", "--duration", "50 ms", "--out", "a"];
        let output = folder.run(&[verb, &more].concat());
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let output = folder.run(&["repeat", "a"]);
        assert!(stdout(&output).contains("same bytes: "), "{}{}", stdout(&output), stderr(&output));
    }
}
