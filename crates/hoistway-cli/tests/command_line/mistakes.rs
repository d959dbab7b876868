//! Bad input: exit code 2, one error that says where, and nothing written.

use super::*;

#[test]
fn every_bad_input_ends_with_exit_2_one_error_and_nothing_written() {
    let cases: &[(&[&str], &str)] = &[
        (&["compare", "latency-2018"], "did you mean 'latency-2019'?"),
        (&["reproduce", "deadline-2009-ablation"], "repeats no document"),
        (&["reproduce", "fairness-2011"], "did you mean 'fairness-2010'?"),
        (&["reproduce", "all", "fairness-2010"], "'all' contains every experiment"),
        (&["compare", "no/such.toml"], "no/such.toml: cannot be read"),
        (&["compare", "--drive", "plextor-px-256m5"], "did you mean 'plextor-px-256m5s'?"),
        (&["compare", "--drive", "cloud-gp3,cloud-gp3"], "drive 'cloud-gp3' is given twice"),
        (&["compare", "--workload", "reader"], "did you mean 'readers'?"),
        (&["compare", "--config", "none-bfk"], "did you mean 'none-bfq'?"),
        (&["compare", "--config", "lat-nine"], "did you mean 'lat-none'?"),
        (&["compare", "--config", "prop-kyber"], "kyber does not share by the weights of groups"),
        (&["compare", "--config", "lat-none{target=0}"], "target = 0 is outside"),
        (&["compare", "--config", "max-none{rbps=10Mbit}"], "'10Mbit' is not a rate"),
        (&["compare", "--config", "io.cost"], "did you mean 'cost-none'?"),
        (&["calibrate", "--iocost", "/dev/sdx"], "--iocost is of a simulated drive (--drive)"),
        (&["compare", "--config", "iocost-bfq"], "did you mean 'cost-bfq'?"),
        (&["compare", "--drive", "samsung-970"], "samsung-970-pro"),
        (
            &["compare", "--drive", "nvme"],
            "nvme-consumer-gen4, nvme-dramless-gen4, nvme-enterprise-gen4",
        ),
        (
            &["compare", "latency-2019,bandwidth-2019", "-w", "readers"],
            "workloads of one experiment",
        ),
        (&["compare", "latency-2019,latency-2019"], "experiment 'latency-2019' is given twice"),
        (&["compare", "--groups", "/no/such/folder"], "give a directory of groups"),
        (&["compare", "--config", "mq-deadline{fifo_bach=8}"], "did you mean 'fifo_batch'?"),
        (&["compare", "--config", "mq-deadline{front_merges=2}"], "is outside"),
        (&["compare", "--config", "none-none,,"], "an empty configuration name"),
        (&["compare", "--reps", "0"], "0 is not in 1..=10000"),
        (&["compare", "--jobs", "0"], "0 is not in 1..=1024"),
        (&["compare", "--duration", "8"], "'8' is not a time"),
        (&["compare", "--duration", "0s"], "must be above 0"),
        (&["compare", "--csv", "--json"], "cannot be used with"),
        (&["compare", "--quick", "--duration", "1s"], "cannot be used with"),
        (&["compare", "--dry-run", "--out", "x"], "cannot be used with"),
        (&["compare", "--sead", "1"], "--seed"),
        (&["run", "latency-2019", "none-none,none-bfq"], "run takes one configuration"),
        (&["run", "latency-2019", "none-none", "--save-trace", "x"], "writes one run, but"),
        (&["replay", "no-such.csv"], "there is no such file"),
        (&["replay", "-"], "standard input can be read only once"),
        (&["replay", "-", "-c", "none", "--target", "x"], "need the processes before"),
        (&["replay", "no-such.csv", "--open", "--closed"], "cannot be used with"),
        (&["replay", "no-such.csv", "--depth", "4"], "--closed"),
        (&["replay", "no-such.csv", "--speed", "0"], "choose a number from 0.001"),
        (&["replay", "no-such.csv", "--format", "msx"], "did you mean 'msr'?"),
        (&["replay", "no-such.csv", "--scale", "0"], "above 0"),
        (&["replay", "no-such.csv", "--from", "8"], "'8' is not a time"),
        (&["run"], "<EXPERIMENT>"),
        (&["report", "nowhere"], "nowhere is not a run directory"),
        (&["show", "bfk"], "did you mean 'bfq'?"),
        (&["show", "bfk", "--markdown"], "did you mean 'bfq'?"),
        (&["show", "latency-2019", "--markdown"], "settings of a scheduler or controller"),
        (&["list", "drive"], "'drives'"),
        (&["frobnicate"], "unrecognized subcommand"),
        (&["recommend", "/etc/passwd"], "`hoistway replay /etc/passwd` makes one from a trace"),
    ];
    let folder = Folder::new("bad-input");
    for (args, expected) in cases {
        let output = folder.run(args);
        let errors = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {errors}");
        assert!(errors.contains(expected), "{args:?}: {errors}");
        assert_eq!(errors.matches("error:").count(), 1, "{args:?}: {errors}");
        assert_eq!(stdout(&output), "", "{args:?}");
        assert_eq!(folder.entries(), 0, "{args:?} wrote something");
    }
}

#[test]
fn faults_of_drives_come_from_the_command_line_the_experiment_and_the_drive_file() {
    let folder = Folder::new("faults");
    let drive = "schema = 1\nname = \"x\"\nbase = \"fixed-100us\"\n\n[faults]\nstart_ms = \"10s\"\n\
                 start_factor = 3\n";
    fs::write(folder.0.join("slow.toml"), drive).unwrap();
    let show = folder.run(&["show", "latency-2019"]);
    let host = stdout(&show).find("[host]").unwrap();
    let (head, tail) = (&stdout(&show)[..host], &stdout(&show)[host..]);
    let text = format!("{head}[faults]\nstart_ms = 10000\nstart_factor = 3\n\n{tail}");
    fs::write(folder.0.join("mine.toml"), text).unwrap();
    let mean = |experiment: &str, drive: &str, more: &[&str]| {
        let args = ["run", experiment, "none", "-d", drive, "-w", "readers", "-r", "1", "--quiet"];
        let shape = ["--duration", "300ms", "--csv", "--out", "x"];
        let output = folder.run(&[&args[..], &shape[..], more].concat());
        assert!(output.status.success(), "{}", stderr(&output));
        let csv = stdout(&output);
        let mean = csv.lines().find_map(|l| l.split_once(",latency_avg,"));
        mean.expect("the target is measured").1.to_string()
    };
    let sound = mean("latency-2019", "fixed-100us", &[]);
    let faulty = mean("latency-2019", "fixed-100us", &["--faults", "start_ms=10s,start_factor=3"]);
    assert_ne!(sound, faulty);
    assert_eq!(mean("latency-2019", "./slow.toml", &[]), faulty);
    assert_eq!(mean("mine.toml", "fixed-100us", &[]), faulty);
    assert_eq!(mean("mine.toml", "fixed-100us", &["--faults", "start_ms=0"]), sound);
    let manifest = String::from_utf8(folder.file("x/run.toml")).unwrap();
    assert!(manifest.contains("--faults start_ms=0") && manifest.contains("start_factor = 3"));
    for (given, part) in [
        ("pause_every_ms=2s", "pause_every_ms = 2000 needs pause_ms above 0"),
        ("pauses=1", "--faults: [faults]: unknown key 'pauses'; did you mean 'pause_ms'?"),
        ("slow", "--faults: 'slow' has no '='; write pause_every_ms=2s"),
    ] {
        let output = folder.run(&["run", "latency-2019", "--faults", given]);
        assert_eq!(output.status.code(), Some(2), "{given}");
        assert!(stderr(&output).contains(part), "{given}: {}", stderr(&output));
    }
}

#[test]
fn a_population_is_the_same_whatever_runs_it_and_its_cases_are_files() {
    let folder = Folder::new("population");
    let run = |args: &[&str]| {
        let output = folder.run(&[&["population", "--quiet", "-c", "kyber"], args].concat());
        assert!(output.status.success(), "{args:?}: {}", stderr(&output));
        stdout(&output)
    };
    let half = ["--half", "report", "--cases", "2", "--csv"];
    let whole = run(&[&half[..], &["-j", "2"]].concat());
    // A case that is there already is not run again.
    run(&["--case", "3", "--out", "kept", "--csv"]);
    assert_eq!(run(&[&half[..], &["-j", "1", "--out", "kept"]].concat()), whole);
    assert_eq!(folder.file("kept/population.csv"), whole.as_bytes());
    let row = |number: &str| {
        let begin = format!("{number},");
        whole.lines().find(|l| l.starts_with(&begin) && l.contains(",kyber,")).unwrap().to_string()
    };
    assert!(row("3").starts_with("3,metered,cloud-gp3,latency,kyber,"), "{whole}");
    assert!(row("1").starts_with("1,"));
    // The same figures come from its files and the ordinary command.
    fs::write(folder.0.join("random-1-3.toml"), run(&["--print-drive", "3"])).unwrap();
    fs::write(folder.0.join("load-1-3.toml"), run(&["--print-load", "3"])).unwrap();
    let args = ["run", "./load-1-3.toml", "kyber", "-d", "./random-1-3.toml", "-r", "1", "--csv"];
    let output = folder.run(&[&args[..], &["--quiet", "--out", "x"]].concat());
    let csv = stdout(&output);
    let mean = csv.lines().find_map(|l| l.split_once(",latency_avg,ms,")).unwrap().1;
    let mean: f64 = mean.split(',').next().unwrap().parse().unwrap();
    let told: f64 = row("3").split(',').nth(11).unwrap().parse().unwrap();
    assert!((mean - told).abs() < 1e-6, "{mean} and {told}\n{csv}");
    let tables = run(&["--half", "report", "--cases", "2", "--out", "kept", "--worst", "1"]);
    for part in ["2 cases: 2 of latency", "throughput kept, % of none's", "by class of drive"] {
        assert!(tables.contains(part), "{part}\n{tables}");
    }
    for (args, code, part) in [
        (&["--of", "bfq"][..], 2, "--of bfq: it does not run; there are: kyber"),
        (&["--seed", "2", "--out", "kept"], 2, "holds cases of another program or seed"),
        (&["-c", "kyper"], 2, "did you mean 'kyber'?"),
    ] {
        let output = folder.run(&[&["population", "-c", "kyber", "--cases", "1"], args].concat());
        assert_eq!(output.status.code(), Some(code), "{args:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(part), "{args:?}: {}", stderr(&output));
    }
}

#[test]
fn the_oracle_is_the_same_whatever_runs_it_and_says_what_it_cannot_run() {
    let folder = Folder::new("oracle");
    let run = |args: &[&str]| {
        let args = [&["oracle", "-d", "maxtor-7l250s0", "--quick", "--quiet"], args].concat();
        let output = folder.run(&args);
        assert!(output.status.success(), "{args:?}: {}", stderr(&output));
        stdout(&output)
    };
    let both = ["-w", "readers,hog32", "-c", "slo-paternoster,bfq", "--csv"];
    let whole = run(&[&both[..], &["-j", "2"]].concat());
    let heads = whole.lines().skip(1).map(|line| {
        let cells: Vec<&str> = line.split(',').collect();
        [cells[0], cells[1], cells[5]].join(" ")
    });
    let expected = ["readers slo-paternoster", "readers bfq", "hog32 slo-paternoster", "hog32 bfq"];
    assert_eq!(heads.collect::<Vec<_>>(), expected.map(|case| format!("maxtor-7l250s0 {case}")));
    // The other load and configuration are added to what is there.
    run(&["-w", "readers", "--out", "kept"]);
    assert_eq!(run(&[&both[..], &["-j", "1", "--out", "kept"]].concat()), whole);
    assert_eq!(folder.file("kept/oracle.csv"), whole.as_bytes());
    let json: serde_json::Value = serde_json::from_slice(&folder.file("kept/oracle.json")).unwrap();
    let row = &json["rows"][0];
    assert_eq!((&json["seed"], &row["load"]), (&1.into(), &"readers".into()));
    assert!(row["alone_mean_ms"].as_f64() < row["none_mean_ms"].as_f64(), "{row}");
    assert!(row["best"]["setting"].is_string() && row["bound_ms"].as_f64() > Some(0.0), "{row}");
    let table = run(&["-w", "readers", "--out", "kept"]);
    assert!(table.contains("  oracle  ") && table.contains("slo-paternoster"), "{table}");
    let drawn = folder.run(&["oracle", "--cases", "1", "--half", "report", "--csv", "--quick"]);
    assert!(stdout(&drawn).contains("\nrandom-1-1,load-1-1,"), "{}", stderr(&drawn));
    for (args, part) in [
        (&["-w", "reader"][..], "did you mean 'readers'?"),
        (&["-w", "alone"], "control-latency/alone has nobody beside the target"),
        (&["fairness-2010"], "has no target; name a workload with a target and others beside it"),
        (&["-d", "maxtor-7l250s"], "did you mean 'maxtor-7l250s0'?"),
        (&["-c", "none-none"], "everything is told against none-none"),
        (&["-c", "slo-paternosta"], "did you mean 'slo-paternoster'?"),
        (&["--half", "report"], "--cases"),
        (&["--cases", "2", "-w", "readers"], "cannot be used with"),
        (&["--cases", "1", "--seed", "6"], "none of them asks for a latency"),
        (&["--out", "kept", "--seed", "2"], "holds cases of another program or seed"),
        (
            &["-d", "maxtor-7l250s0", "--out", "kept"],
            "kept/maxtor-7l250s0.readers.json is of another",
        ),
    ] {
        let output = folder.run(&[&["oracle"], args].concat());
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(part), "{args:?}: {}", stderr(&output));
    }
}

#[test]
fn mistakes_in_files_name_file_and_line() {
    let folder = Folder::new("files");
    let shown = stdout(&folder.run(&["show", "latency-2019"]));
    let line = 1 + shown[..shown.find("reps = ").unwrap()].matches('\n').count();
    fs::write(folder.0.join("own.toml"), shown.replace("reps = ", "rep = ")).unwrap();
    let output = folder.run(&["compare", "own.toml"]);
    let errors = stderr(&output);
    assert_eq!(output.status.code(), Some(2));
    let expected = format!("own.toml:{line}: unknown key 'rep'; did you mean 'reps'?");
    assert!(errors.contains(&expected), "{errors}");

    let drive = stdout(&folder.run(&["show", "plextor-px-256m5s"]));
    fs::write(folder.0.join("d.toml"), drive.replace("queue_depth =", "queue_deepth =")).unwrap();
    let output = folder.run(&["compare", "--drive", "d.toml"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("did you mean 'queue_depth'?"), "{}", stderr(&output));
    assert_eq!(folder.entries(), 2, "nothing else was written");
}

#[test]
fn an_unwritable_place_is_refused_before_anything_runs() {
    let folder = Folder::new("in-the-way");
    fs::create_dir(folder.0.join("mine")).unwrap();
    fs::write(folder.0.join("mine/notes.txt"), "x").unwrap();
    let output = folder.run(&["compare", "--out", "mine"]);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(stderr(&output).contains("something in it that hoistway did not write"));
    assert!(folder.0.join("mine/notes.txt").is_file());
}
