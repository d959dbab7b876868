//! Which scheduler, for which drive: `what-if`, `bench`.

use super::*;

/// A drive that takes 0.2 ms for a read keeps a second, and no quarter of that.
#[test]
fn what_if_says_whether_a_target_is_kept_and_why_not() {
    let folder = Folder::new("what-if");
    let ask = |more: &[&str]| {
        let args = [
            "what-if",
            "-d",
            "intel-320-160g",
            "--duration",
            "300ms",
            "-j",
            "1",
            "--quiet",
            "--loss",
            "50",
        ];
        folder.run(&[&args[..], more].concat())
    };
    let kept = ask(&["-t", "gold=1s"]);
    assert_eq!(kept.status.code(), Some(0), "{}", stderr(&kept));
    let out = stdout(&kept);
    for part in ["gold alone", "none-bfq", "paternoster", "gold=1s: kept: p99 ", "latency=1s"] {
        assert!(out.contains(part), "{part}: {out}");
    }
    assert!(out.contains("io.latency '8:0 target=1000000'"), "{out}");
    let missed = ask(&["-t", "gold=50us", "--json"]);
    assert_eq!(missed.status.code(), Some(1), "{}", stderr(&missed));
    let json: serde_json::Value = serde_json::from_str(&stdout(&missed)).unwrap();
    let target = &json["targets"][0];
    assert_eq!((&target["answer"], &target["kept"]), (&"device".into(), &false.into()));
    assert!(target["figures"]["least_ns"].as_u64().unwrap() >= 100_000, "{target}");
    assert!(target["words"].as_str().unwrap().contains("alone on this drive its p99 is 0.2"));
    for (args, part) in [
        (&["-t", "gold"][..], "write NAME=TIME"),
        (&["-t", "gold=1ms", "--load", "latency-2019/readers"], "no process 'gold'"),
        (&["-t", "target=1ms", "--load", "latency-2019/reader"], "no workload 'reader'"),
        (&["-t", "gold=0ms"], "whole microseconds"),
    ] {
        let wrong = ask(args);
        assert_eq!(wrong.status.code(), Some(2), "{args:?}");
        assert!(stderr(&wrong).contains(part), "{args:?}: {}", stderr(&wrong));
    }
    assert_eq!(folder.entries(), 0, "nothing is written");
}

/// The bounds come before the table, and in JSON with the same figures.
#[test]
fn what_if_says_first_what_no_scheduler_can_do() {
    let folder = Folder::new("what-if-bounds");
    let ask = |drive: &str, target: &str, more: &[&str]| {
        let args = ["what-if", "-d", drive, "-t", target, "--duration", "300ms", "-j", "1"];
        let out = folder.run(&[&args[..], &["--quiet"], more].concat());
        assert!(matches!(out.status.code(), Some(0 | 1)), "{}", stderr(&out));
        stdout(&out)
    };
    // 4 KiB in 0.5 ms, from a drive that moves a few MB/s.
    let metered = ask("cloud-gp3", "gold=600us", &[]);
    let first = metered.find("gold=600us: R = ").unwrap_or_else(|| panic!("{metered}"));
    assert!(first < metered.find("of none %").unwrap(), "{metered}");
    assert!(metered.contains(" blocks; 5 % and 600us exclude each other (B1: "), "{metered}");
    let json = ask("cloud-gp3", "gold=600us", &["--json"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let bounds = &json["bounds"][0];
    let figure = |name: &str| bounds[name].as_f64().unwrap_or_else(|| panic!("{bounds}"));
    let blocks = figure("rate_bytes_per_s") * figure("lone_ns") / 1e9 / figure("block_bytes");
    assert!((blocks / figure("rate_lone_blocks") - 1.0).abs() < 0.01, "{bounds}");
    assert!(metered.contains(&format!("R L0 = {:.1} blocks", figure("rate_lone_blocks"))));
    let least = bounds["b1"]["least_mean_ns"].as_f64().unwrap();
    // One is outstanding: b / (eps R).
    let expected = figure("block_bytes") / (0.05 * figure("rate_bytes_per_s")) * 1e9;
    assert!((least / expected - 1.0).abs() < 0.05, "{least} and {expected}: {bounds}");
    assert_eq!((&bounds["b1"]["allows"], bounds["b2"].is_null()), (&false.into(), true));
    let easy = ask("cloud-gp3", "gold=1s", &[]);
    assert!(easy.contains("5 % and 1s do not exclude each other (B1: "), "{easy}");
}

#[test]
fn a_bench_plans_within_its_limits_runs_in_rounds_and_is_not_repeated() {
    let folder = Folder::new("bench");
    let bench = |more: &[&str]| {
        let args = ["bench", "-d", "hitachi-hts727550a9e364", "-c", "none,bfq", "--time", "2s"];
        folder.run(&[&args[..], more].concat())
    };
    let plan = bench(&["--dry-run"]);
    assert!(plan.status.success(), "{}", stderr(&plan));
    for part in ["bench-latency/readers", "left out: ", "rounds of", "nothing was run"] {
        assert!(stdout(&plan).contains(part), "{part}: {}", stdout(&plan));
    }
    assert_eq!(folder.entries(), 0, "a dry run writes nothing");
    let first = bench(&["--json", "--out", "x"]);
    assert!(first.status.success(), "{}", stderr(&first));
    let json: serde_json::Value = serde_json::from_str(&stdout(&first)).unwrap();
    assert!(json["rounds"].as_u64() >= Some(3) && json["ended"] == "whole", "{json}");
    let latency = &json["results"][0]["values"];
    let of = |at: usize| latency[at]["value"].as_f64().unwrap();
    assert!(of(0) > 20.0 * of(1), "bfq serves the reader: {latency}");
    assert!(folder.0.join("x/bench.json").is_file());
    let manifest = String::from_utf8(folder.file("x/bench-latency/run.toml")).unwrap();
    for row in ["\"suite\"", "\"drive_class\"", "\"present_scheduler\""] {
        assert!(manifest.contains(row), "{row}: {manifest}");
    }
    let again = bench(&["--json", "--out", "x"]);
    assert!(stderr(&again).contains("finished runs are there already"), "{}", stderr(&again));
    assert_eq!(stdout(&again), stdout(&first));
    for (args, part) in [
        (&["bench"][..], "--drive"),
        (&["bench", "-d", "plextor-px-256m5s", "--time", "1ms"], "does not suffice"),
        (&["bench", "-d", "plextor-px-256m5s,nowhere"], "nowhere"),
        (&["bench", "-d", "plextor-px-256m5s,plextor-px-256m5s"], "given twice"),
        (&["bench", "-d", "plextor-px-256m5s", "-c", "none"], "fewer than two"),
        (&["bench", "-d", "plextor-px-256m5s", "--quick", "--full"], "cannot be used with"),
    ] {
        let output = folder.run(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(stderr(&output).contains(part), "{args:?}: {}", stderr(&output));
    }
}

/// What kernels have: write-back throttling, and the scheduler that Linux chooses for the kind of drive.
#[test]
fn a_simulated_bench_compares_what_kernels_have() {
    let folder = Folder::new("bench-defaults");
    for (drive, present) in
        [("nvme-enterprise-gen4", "none+wbt"), ("usb-stick-32g", "mq-deadline+wbt")]
    {
        let plan = folder.run(&["bench", "-d", drive, "--dry-run"]);
        let text = stdout(&plan);
        assert!(plan.status.success(), "{}", stderr(&plan));
        assert!(text.contains(&format!("compared with {present}, which Linux chooses")), "{text}");
        let usual = "bench-throughput: none+wbt, mq-deadline+wbt, kyber+wbt, bfq";
        assert!(text.contains(usual), "{text}");
        assert!(text.contains(&format!("bench-share: {present}, prop-bfq, cost-none")), "{text}");
        assert!(text.contains("of processor time, by an estimate: "), "{text}");
    }
    let all = folder.run(&["bench", "-d", "all", "--dry-run", "--json"]);
    let plans: serde_json::Value = serde_json::from_str(&stdout(&all)).unwrap();
    let drives = stdout(&folder.run(&["list", "drives", "--json"]));
    let drives: serde_json::Value = serde_json::from_str(&drives).unwrap();
    let count = drives["drives"].as_array().unwrap().len();
    assert_eq!(plans.as_array().unwrap().len(), count);
    assert!(plans.as_array().unwrap().iter().all(|p| p["limit_is"] == "processor time"));
    assert_eq!(folder.entries(), 0, "a dry run writes nothing");
}

/// Two drives in one command: a folder and an answer for each, and the exit code of `recommend`. What is missing is a
/// command.
#[test]
fn a_bench_of_several_drives_has_a_folder_and_an_answer_for_each() {
    let folder = Folder::new("bench-several");
    let drives = "sd-card-2009,usb-stick-32g";
    let args = ["bench", "-d", drives, "-c", "none+wbt,bfq", "--time", "2s", "-j", "1", "-o", "x"];
    let few = folder.run(&[&args[..], &["--rounds", "2"]].concat());
    let text = stdout(&few);
    assert_eq!(few.status.code(), Some(1), "two rounds never decide: {text} {}", stderr(&few));
    let next = "next        hoistway bench --drive sd-card-2009 --config 'none+wbt,bfq' --time 3s --rounds 3 --out x/sd-card-2009";
    assert!(text.contains(next), "{text}");
    assert!(text.lines().any(|l| l.starts_with("usb-stick-32g  not enough data")), "{text}");
    let asked = folder.run(&["recommend", "x/sd-card-2009"]);
    assert_eq!(asked.status.code(), Some(1));
    let words = next.split_whitespace().skip(2);
    let next: Vec<&str> = words.map(|word| word.trim_matches('\'')).collect();
    let more = folder.run(&[&next[..], &["--quiet", "-j", "1"]].concat());
    let asked = folder.run(&["recommend", "x/sd-card-2009"]);
    assert_eq!(more.status.code(), asked.status.code(), "{}", stderr(&more));
    assert!(stderr(&more).contains("finished runs are there already"), "{}", stderr(&more));
    assert!(stdout(&asked).contains("measured    3 rounds"), "{}", stdout(&asked));
    // The folder of a bench, and that of several.
    for (dir, runs) in [("x/sd-card-2009", 1), ("x", 2)] {
        let report = folder.run(&["report", dir]);
        assert!(report.status.success(), "{}", stderr(&report));
        let count = stdout(&report).matches("bench-latency/report.html").count();
        assert_eq!(count, runs, "{dir}: {}", stdout(&report));
    }
}

/// The plan of a real place needs no rights and changes nothing.
#[cfg(target_os = "linux")]
#[test]
fn a_bench_of_a_place_says_what_it_would_do_or_why_it_cannot() {
    let folder = Folder::new("bench-place");
    fs::write(folder.0.join("file"), "x").unwrap();
    let file = folder.run(&["bench", "file", "--dry-run"]);
    assert_eq!(file.status.code(), Some(2), "{}", stderr(&file));
    assert!(stderr(&file).contains("neither a directory nor a block device"), "{}", stderr(&file));
    if Path::new("/dev/shm").is_dir() {
        let memory = folder.run(&["bench", "/dev/shm", "--dry-run"]);
        assert_eq!(memory.status.code(), Some(3), "{}", stderr(&memory));
        assert!(stderr(&memory).contains("nothing schedules here"), "{}", stderr(&memory));
    } else {
        eprintln!("skipped in part: there is no /dev/shm");
    }
    let here = folder.run(&["bench", ".", "--dry-run"]);
    match here.status.code() {
        Some(0) => {
            for part in
                ["; while it runs the scheduler of ", "bench-latency/readers", "nothing was run"]
            {
                assert!(stdout(&here).contains(part), "{part}: {}", stdout(&here));
            }
        }
        _ => eprintln!("skipped in part: {}", stderr(&here)),
    }
    assert_eq!(folder.entries(), 1, "a dry run writes nothing");
}

/// Two loads in files of one name had one manifest, and `diff` named 28 differences and no cause.
#[test]
fn a_run_directory_says_what_its_processes_did() {
    let folder = Folder::new("loads");
    let shown = stdout(&folder.run(&["show", "latency-2019"]));
    let few = shown.replacen("count = 15", "count = 3", 1);
    assert_ne!(shown, few);
    for (out, text) in [("many", &shown), ("few", &few)] {
        fs::write(folder.0.join("paper.toml"), text).unwrap();
        let args =
            ["compare", "./paper.toml", "-c", "none,bfq", "-w", "readers", "--quick", "-r", "1"];
        let done = folder.run(&[&args[..], &["--quiet", "-o", out]].concat());
        assert!(done.status.success(), "{}", stderr(&done));
        assert!(stdout(&done).contains("bfq raises what has just started"), "{}", stdout(&done));
        // Whoever reads the report alone decides by it, too.
        let report = String::from_utf8(folder.file(&format!("{out}/report.html"))).unwrap();
        assert!(report.contains("bfq raises what has just started"));
    }
    let differs = stdout(&folder.run(&["diff", "many", "few"]));
    assert!(differs.contains("workload readers: load") && differs.contains("3 x "), "{differs}");
    // What a run has not finished is no run.
    fs::create_dir(folder.0.join(".few.part-1")).unwrap();
    fs::write(folder.0.join(".few.part-1/run.toml"), "").unwrap();
    let args = ["recommend", ".", "--for", "latency<5ms"];
    let said = folder.run(&args);
    assert!(!stderr(&said).contains("part-1"), "{}", stderr(&said));
}
