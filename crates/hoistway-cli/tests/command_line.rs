//! The binary from outside: what it prints, what it writes, how it ends.
//!
//! The file is long because every test program links the whole command line anew, which takes longer than its tests.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// An empty folder that is gone at the test's end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("hoistway-cli-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn run(&self, args: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hoistway"));
        command.args(args).current_dir(&self.0).output().unwrap()
    }

    fn entries(&self) -> usize {
        fs::read_dir(&self.0).unwrap().count()
    }

    fn file(&self, name: &str) -> Vec<u8> {
        fs::read(self.0.join(name)).unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

const JOBS: &str = "[global]\nsize=4m\ndirect=1\nioengine=libaio\nthread\n[deep]\nrw=randread\niodepth=16\n\
                    [mixed]\nrw=randrw\nrwmixread=70\nbs=4k,8k\n[log]\nstonewall\nrw=write\nfdatasync=8\nverify=md5\n";

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

#[test]
fn a_bench_plans_within_its_limits_runs_in_rounds_and_is_not_repeated() {
    let folder = Folder::new("bench");
    let bench = |more: &[&str]| {
        let args = ["bench", "-d", "hitachi-hts727550a9e364", "-c", "none,bfq", "--time", "80s"];
        folder.run(&[&args[..], more].concat())
    };
    let plan = bench(&["--dry-run"]);
    assert!(plan.status.success(), "{}", stderr(&plan));
    for part in ["bench-latency/readers", "left out: ", "3 rounds of", "nothing was run"] {
        assert!(stdout(&plan).contains(part), "{part}: {}", stdout(&plan));
    }
    assert_eq!(folder.entries(), 0, "a dry run writes nothing");
    let first = bench(&["--json", "--out", "x"]);
    assert!(first.status.success(), "{}", stderr(&first));
    let json: serde_json::Value = serde_json::from_str(&stdout(&first)).unwrap();
    assert_eq!((&json["rounds"], &json["ended"]), (&3.into(), &"whole".into()));
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
        (&["bench", "-d", "plextor-px-256m5s", "--time", "5s"], "does not suffice"),
        (&["bench", "-d", "plextor-px-256m5s", "-c", "none"], "fewer than two"),
        (&["bench", "-d", "plextor-px-256m5s", "--quick", "--full"], "cannot be used with"),
    ] {
        let output = folder.run(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(stderr(&output).contains(part), "{args:?}: {}", stderr(&output));
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

#[test]
fn fio_jobs_run_as_an_experiment_and_every_job_has_its_lines() {
    let folder = Folder::new("fio");
    fs::write(folder.0.join("my.fio"), JOBS).unwrap();
    let args = ["compare", "--job", "my.fio", "-c", "none,bfq", "-r", "2", "--out", "x", "--quiet"];
    let output = folder.run(&args);
    assert!(output.status.success(), "{}", stderr(&output));
    let (out, err) = (stdout(&output), stderr(&output));
    assert!(err.contains("note: my.fio:5: thread is ignored: "), "{err}");
    assert!(err.contains("warning: my.fio:17: verify is not supported: "), "{err}");
    for line in ["deep   read", "mixed  read", "mixed  write", "log    write"] {
        assert_eq!(out.lines().filter(|l| l.contains(line)).count(), 2, "{line}\n{out}");
    }
    assert!(folder.0.join("x/report.html").is_file());
    let target = folder.run(&[
        "run", "--job", "my.fio", "bfq", "--target", "deep", "--out", "y", "--quiet", "--csv",
    ]);
    assert!(target.status.success(), "{}", stderr(&target));
    assert!(stdout(&target).contains("latency_p99"), "the target is measured");
    for (args, part) in [
        (&["--job", "my.fio", "--strict"][..], "1 settings are not supported"),
        (&["--job", "my.fio", "--target", "deap"], "no job 'deap'; there are: deep"),
        (&["--job", "gone.fio"], "gone.fio: cannot be read"),
        (&["latency-2019", "--job", "my.fio"], "in place of an experiment"),
    ] {
        let output = folder.run(&[&["compare"], args].concat());
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(stderr(&output).contains(part), "{args:?}: {}", stderr(&output));
    }
}

/// Names and types of everything in a document, but for what differs by job and machine.
fn shape(value: &serde_json::Value, path: &str, all: &mut Vec<String>) {
    use serde_json::Value::{Array, Number, Object, String as Text};
    match value {
        Object(map) if !path.ends_with("/job options") => {
            map.iter().for_each(|(key, value)| shape(value, &format!("{path}/{key}"), all));
        }
        Array(list) if path.ends_with("/jobs") => {
            list.iter().for_each(|v| shape(v, &format!("{path}[]"), all));
        }
        Object(_) => all.push(format!("{path}: object")),
        Array(_) => all.push(format!("{path}: list")),
        Number(_) => all.push(format!("{path}: number")),
        Text(_) => all.push(format!("{path}: text")),
        other => all.push(format!("{path}: {other}")),
    }
}

#[test]
fn fio_json_has_the_names_and_types_of_what_fio_prints() {
    let folder = Folder::new("fio-json");
    let job = "[a]\nrw=randrw\nsize=1m\nbs=4k\nioengine=psync\nfilename=data\n";
    fs::write(folder.0.join("my.fio"), job).unwrap();
    let ours = folder.run(&[
        "run",
        "--job",
        "my.fio",
        "none",
        "--output-format",
        "fio-json",
        "--out",
        "x",
        "--quiet",
    ]);
    assert!(ours.status.success(), "{}", stderr(&ours));
    let text = stdout(&ours);
    let document: serde_json::Value = serde_json::from_str(&text).unwrap();
    let read = &document["jobs"][0]["read"];
    let ios = read["total_ios"].as_u64().unwrap()
        + document["jobs"][0]["write"]["total_ios"].as_u64().unwrap();
    assert_eq!(ios, 256);
    assert_eq!(read["clat_ns"]["N"], read["total_ios"]);
    assert_eq!(document["jobs"][0]["job options"]["rw"], "randrw");
    assert_eq!(
        fs::read_to_string(folder.0.join("x/fio/plextor-px-256m5s.none.1.json")).unwrap(),
        text
    );
    let real = Command::new("fio")
        .args(["my.fio", "--output-format=json"])
        .current_dir(&folder.0)
        .output();
    let Ok(real) = real else { return println!("skipped: fio is not installed") };
    let real = stdout(&real);
    // fio prints warnings before the document.
    let real: serde_json::Value = serde_json::from_str(&real[real.find('{').unwrap()..]).unwrap();
    let version = real["fio version"].as_str().unwrap_or("").to_string();
    if version != "fio-3.33" {
        return println!("skipped: {version} is installed, the shape is that of fio-3.33");
    }
    let mut shapes = [Vec::new(), Vec::new()];
    shape(&document, "", &mut shapes[0]);
    shape(&real, "", &mut shapes[1]);
    shapes.iter_mut().for_each(|s| s.sort_unstable());
    assert_eq!(shapes[0], shapes[1]);
}

/// The example job files of the distribution's package `fio-examples`.
#[test]
fn the_examples_that_come_with_fio_run_or_name_what_they_cannot() {
    let places =
        ["/usr/share/doc/fio/examples", "/usr/share/doc/fio-examples/examples"].map(PathBuf::from);
    let given = std::env::var_os("HOISTWAY_FIO_EXAMPLES").map(PathBuf::from);
    let Some(dir) = given.into_iter().chain(places).find(|p| p.is_dir()) else {
        return println!(
            "skipped: no fio examples (package fio-examples, or HOISTWAY_FIO_EXAMPLES=DIR)"
        );
    };
    let folder = Folder::new("fio-examples");
    let mut files: Vec<PathBuf> = fs::read_dir(&dir).unwrap().map(|e| e.unwrap().path()).collect();
    files.retain(|f| f.extension().is_some_and(|e| e == "fio"));
    files.sort();
    let mut parsed = 0;
    for file in &files {
        let name = file.to_str().unwrap();
        let output = folder.run(&["compare", "--job", name, "-c", "none", "--dry-run"]);
        let err = stderr(&output);
        match output.status.code() {
            Some(0) => parsed += 1,
            Some(2) => assert!(err.contains(&format!("error: {name}:")), "{name}: {err}"),
            other => panic!("{name}: {other:?} {err}"),
        }
    }
    println!("{parsed} of {} parse", files.len());
    assert!(parsed >= 10);
    for name in [
        "ssd-test",
        "tiobench-example",
        "iometer-file-access-server",
        "aio-read",
        "fio-rand-read",
        "fio-seq-write",
        "fio-rand-RW",
        "poisson-rate-submission",
        "waitfor",
        "1mbs_clients",
    ] {
        let file = dir.join(name).with_extension("fio");
        if !file.is_file() {
            println!("not in this package: {name}");
            continue;
        }
        let args = ["--duration", "300ms", "-c", "none", "-r", "1", "--quiet", "--out", name];
        let output =
            folder.run(&[&["compare", "--job", file.to_str().unwrap()], &args[..]].concat());
        assert!(output.status.success(), "{name}: {}", stderr(&output));
    }
}

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
        (&["compare", "--config", "iocost-bfq"], "did you mean 'cost-bfq'?"),
        (&["compare", "--drive", "samsung-970"], "samsung-970-pro"),
        (&["compare", "--drive", "nvme"], "nvme-consumer-gen4, nvme-enterprise-gen4"),
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
        (&["--seed", "2", "--out", "kept"], 3, "holds cases of another program or seed"),
        (&["-c", "kyper"], 2, "did you mean 'kyber'?"),
    ] {
        let output = folder.run(&[&["population", "-c", "kyber", "--cases", "1"], args].concat());
        assert_eq!(output.status.code(), Some(code), "{args:?}: {}", stderr(&output));
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
    assert!(stderr(&output).contains("is not a run directory"));
    assert!(folder.0.join("mine/notes.txt").is_file());
}

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
    for chart in charts {
        let text = fs::read_to_string(chart.unwrap().path()).unwrap();
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
        (Some(0), "0 of 6 quantities differ\n")
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
    let line = "baseline a: 0 of 6 quantities left the band of 5 %";
    assert!(code == Some(0) && out.ends_with(&format!("{line}\n")), "{out}");
    let (code, out, _) = gate(slow, "none-none", &["--out", "f"]);
    assert!(code == Some(1) && out.contains("worse"), "{out}");
    let missing = "- plextor-px-256m5s/none-bfq/readers: in the baseline, and not in this run";
    assert!(out.contains(missing) && out.contains("1 cells are missing"), "{out}");
    // Nothing leaves a band that is wide enough; what is missing fails all the same.
    let (code, _, told) =
        gate(slow, "none-none,none-bfq", &["--out", "g", "--band", "900%", "--csv"]);
    assert!(code == Some(0) && told.contains("0 of 6 quantities left the band"), "{told}");
    let (code, _, told) = gate(same, "none-none", &["--out", "a"]);
    assert!(code == Some(2) && told.contains("would replace its own baseline"), "{told}");
    let (code, _, told) = gate(same, "none-none", &["--out", "h", "--band", "some"]);
    assert!(code == Some(2) && told.contains("--band"), "{told}");
}

/// Without a terminal 100 columns are there.
#[test]
fn tables_lose_columns_rather_than_wrap() {
    let folder = Folder::new("width");
    let args = |more: &[&str]| {
        let text = "compare latency-2019 --quick --reps 3 --drive hitachi-hts727550a9e364 --out x";
        let output = folder.run(&text.split(' ').chain(more.iter().copied()).collect::<Vec<_>>());
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        stdout(&output)
    };
    let rows = |text: &str| -> Vec<String> {
        let table = text.lines().filter(|l| l.starts_with("drive ") || l.starts_with("hitachi"));
        table.map(str::to_string).collect()
    };
    let usual = args(&[]);
    assert!(rows(&usual).iter().all(|l| l.chars().count() <= 100), "{usual}");
    assert!(usual.contains("(--wide adds: "), "{usual}");
    let wide = args(&["--wide"]);
    assert!(rows(&wide)[0].len() > 100 && !wide.contains("--wide adds"), "{wide}");
    let report = stdout(&folder.run(&["report", "x", "--wide"]));
    assert_eq!(rows(&report), rows(&wide));
}

#[test]
fn a_process_that_does_not_exist_is_an_error_of_its_line() {
    let folder = Folder::new("groups");
    fs::create_dir_all(folder.0.join("g/batch")).unwrap();
    fs::write(folder.0.join("g/batch/cgroup.procs"), "reader1\n# two\nraeder\n").unwrap();
    let args = ["compare", "--config", "prop-bfq", "--groups", "g", "--dry-run"];
    let output = folder.run(&args);
    assert_eq!(output.status.code(), Some(2));
    let text = stderr(&output);
    assert!(text.contains("g/batch/cgroup.procs:3: no workload of latency-2019"), "{text}");
    assert!(text.contains("did you mean 'reader'?"), "{text}");
    fs::write(folder.0.join("g/batch/cgroup.procs"), "reader1\nreader\ntarget\n").unwrap();
    assert_eq!(folder.run(&args).status.code(), Some(0));
}

/// One grammar on flags, in experiment files and in drive files.
#[test]
fn quantities_are_read_alike_everywhere() {
    let folder = Folder::new("quantities");
    let drive = stdout(&folder.run(&["show", "plextor-px-256m5s"]));
    let rate = drive.lines().find(|l| l.starts_with("rate_mb_s")).unwrap().to_string();
    let with = |text: &str| {
        fs::write(folder.0.join("d.toml"), drive.replace(&rate, &format!("rate_mb_s = {text}")))
            .unwrap();
        folder.run(&["compare", "--drive", "d.toml", "--dry-run"])
    };
    assert_eq!(with("\"0.5GB/s\"").status.code(), Some(0));
    let refused = with("\"0.5 parsec\"");
    let text = stderr(&refused);
    assert!(refused.status.code() == Some(2) && text.contains("d.toml:"), "{text}");
    assert!(text.contains("rate_mb_s = '0.5 parsec' is not a rate; write a size"), "{text}");
    let flag = folder.run(&["compare", "--duration", "1.5min", "--dry-run"]);
    assert!(stdout(&flag).contains("90 s"), "{}", stderr(&flag));
}

#[test]
fn dry_run_says_what_would_run_and_writes_nothing() {
    let folder = Folder::new("dry-run");
    let hdd = "hitachi-hts727550a9e364";
    let output = folder.run(&["compare", "--drive", hdd, "--dry-run"]);
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(text.contains("40 runs: 10 repetitions of each, seeds 1 to 10"), "{text}");
    assert!(text.contains(&format!("{hdd}/none-none/readers")) && text.contains("10 s"), "{text}");
    assert_eq!(folder.entries(), 0);
    assert!(
        text.contains("I/O classes:") && text.contains("target rt/4"),
        "none-bfq's rule: {text}"
    );
    let none = stdout(&folder.run(&["compare", "--config", "none-none", "--dry-run"]));
    assert!(!none.contains("I/O classes"), "nobody has one: {none}");
}

#[test]
fn everything_listed_can_be_shown() {
    let folder = Folder::new("list");
    for kind in ["schedulers", "models", "drives", "experiments", "loads"] {
        let listed = stdout(&folder.run(&["list", kind]));
        let names = listed.lines().skip(2).filter_map(|l| l.split_whitespace().next());
        let names: Vec<&str> = names.collect();
        assert!(!names.is_empty(), "{kind}: {listed}");
        for name in names {
            let output = folder.run(&["show", name]);
            assert_eq!(output.status.code(), Some(0), "{name}: {}", stderr(&output));
            assert!(stdout(&output).contains(name), "{name}");
        }
    }
    let json = stdout(&folder.run(&["list", "--json"]));
    let parsed: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(parsed["schema"], 1);
    assert!(parsed["configs"].as_array().unwrap().len() > 5);
}

#[test]
fn settings_say_in_a_word_what_a_change_does_and_explain_each_word_once() {
    let folder = Folder::new("settings");
    let text = stdout(&folder.run(&["show", "cfq"]));
    let row = |name: &str| text.lines().find(|l| l.starts_with(&format!("{name} "))).unwrap();
    assert!(row("slice_idle").contains("0..=600000      waits           How long"), "{text}");
    assert!(row("quantum").contains("1..=2147483647  at once         Most requests"), "{text}");
    assert_eq!(text.matches("looked at in each decision").count(), 1, "{text}");
    assert!(text.contains("\nif changed while running:\n"), "{text}");
    assert!(text.contains("\n  waits           an armed wait is shortened to it"), "{text}");
    assert!(!text.contains("later samples"), "cfq has no such setting: {text}");

    let text = stdout(&folder.run(&["show", "cfq", "--markdown"]));
    assert!(text.contains("| `slice_idle` | 8 ms | 0 to 600000 | How long"), "{text}");
    assert!(text.contains("| setting of a group | default |"), "{text}");
    assert!(text.contains("| `weight` | 500 | 100 to 1000 |"), "{text}");
    assert!(text.contains("*waits*: an armed wait is shortened"), "{text}");
    let words = stdout(&folder.run(&["show", "mq-deadline", "--markdown"]));
    assert!(words.contains("| `full` | `full`, `three_quarters` |"), "{words}");
    assert_eq!(stdout(&folder.run(&["show", "noop", "--markdown"])), "No settings.\n");
}

#[test]
fn json_is_one_document_with_all_metrics() {
    let folder = Folder::new("json");
    let output = folder.run(&["compare", "--quick", "--reps", "1", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let parsed: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!((&parsed["schema"], &parsed["seed"]), (&1.into(), &1.into()));
    let metrics = parsed["metrics"].as_array().unwrap();
    assert!(metrics.iter().any(|m| m["metric"] == "latency_avg" && m["rep"].is_null()));
}

#[test]
fn help_fits_a_screen_and_completions_exist() {
    let folder = Folder::new("help");
    // A verb is a line of the first page, and none can be left out of it.
    for (args, most) in
        [(&["-h"][..], 38), (&["compare", "-h"], 30), (&["run", "-h"], 30), (&["list", "-h"], 30)]
    {
        let text = stdout(&folder.run(args));
        assert!(text.lines().count() <= most, "{args:?}: {} lines", text.lines().count());
    }
    for shell in ["bash", "zsh", "fish"] {
        let text = stdout(&folder.run(&["completions", shell]));
        assert!(text.contains("hoistway") && text.contains("compare"), "{shell}");
        // The scripts of fish know the values of options alone.
        let names = ["samsung-970-pro", "mq-deadline", "cost-none", "startup-s"];
        for name in &names[..if shell == "fish" { 3 } else { 4 }] {
            assert!(text.contains(name), "{shell} does not know {name}");
        }
    }
}

/// Whether a process has a handler for SIGINT, as Linux tells.
#[cfg(target_os = "linux")]
fn catches_interrupts(process: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
    u64::from_str_radix(caught.trim(), 16).unwrap() & 1 << (2 - 1) != 0
}

/// Starts a command and sends it SIGINT as soon as `ready` holds.
#[cfg(target_os = "linux")]
fn interrupted(folder: &Folder, args: &[&str], ready: impl Fn() -> bool) -> Output {
    let child = Command::new(env!("CARGO_BIN_EXE_hoistway"))
        .args(args)
        .current_dir(&folder.0)
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let waited = (0..6000).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(10));
        catches_interrupts(child.id()) && ready()
    });
    let kill = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(waited && kill.success(), "{}", stderr(&output));
    output
}

#[cfg(target_os = "linux")]
#[test]
fn ctrl_c_ends_with_130_and_leaves_nothing() {
    let folder = Folder::new("ctrl-c");
    // The signal must come after the handler is installed; the run takes minutes.
    let args = ["compare", "--reps", "1000", "--duration", "1h", "--jobs", "1"];
    let output = interrupted(&folder, &args, || true);
    assert_eq!(output.status.code(), Some(130));
    assert_eq!(folder.entries(), 0, "nothing half-written");
}

/// Every byte of a run directory, by name.
fn bytes_of(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let mut all = Vec::new();
    for name in ["", "records"] {
        for entry in fs::read_dir(dir.join(name)).unwrap().map(|e| e.unwrap().path()) {
            if entry.is_file() {
                all.push((entry.display().to_string(), fs::read(entry).unwrap()));
            }
        }
    }
    all.sort();
    all.iter_mut().for_each(|(name, _)| *name = name.rsplit('/').next().unwrap().into());
    all
}

#[cfg(target_os = "linux")]
#[test]
fn an_interrupted_run_goes_on_and_ends_with_the_same_bytes() {
    let (folder, other) = (Folder::new("resume"), Folder::new("resume-whole"));
    let args = "compare latency-2019 --quick --reps 12 --jobs 2 --out x --drive hitachi-hts727550a9e364 \
                --config none-none,none-bfq,lat-none --workload readers --seed 7";
    let args: Vec<&str> = args.split_whitespace().collect();
    let partial = folder.0.join(".x.partial");
    let kept = || {
        let entries = fs::read_dir(&partial).map(|d| d.filter_map(|e| e.ok()).collect::<Vec<_>>());
        let name = |e: &fs::DirEntry| e.file_name().to_string_lossy().ends_with(".json.gz");
        entries.map_or(0, |d| d.iter().filter(|e| name(e)).count())
    };
    let output = interrupted(&folder, &args, || kept() >= 5);
    assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
    let (text, count) = (stderr(&output), kept());
    assert!(text.contains(&format!("interrupted; {count} of 36 runs are kept")), "{text}");
    assert!(!folder.0.join("x").exists(), "no half run directory");

    let again = folder.run(&args);
    assert_eq!(again.status.code(), Some(0), "{}", stderr(&again));
    assert!(stderr(&again).contains(&format!("reusing {count} of 36 runs")));
    assert_eq!(folder.entries(), 1, "the runs are in their place now");
    let whole = other.run(&args);
    assert_eq!(whole.stdout, again.stdout);
    let (a, b) = (bytes_of(&folder.0.join("x")), bytes_of(&other.0.join("x")));
    assert!(a.len() >= 9, "{:?}", a.iter().map(|f| &f.0).collect::<Vec<_>>());
    for (mine, its) in a.iter().zip(&b) {
        assert_eq!(mine.0, its.0);
        assert!(mine.1 == its.1, "{} differs", mine.0);
    }
    assert_eq!(a.len(), b.len());
}

#[cfg(target_os = "linux")]
#[test]
fn what_is_finished_of_several_experiments_is_not_run_again() {
    let folder = Folder::new("resume-several");
    let args = "compare latency-2019,bandwidth-2019 --quick --reps 2 --jobs 1 --out x \
                --drive samsung-970-pro --config none-none";
    let args: Vec<&str> = args.split_whitespace().collect();
    let second = folder.0.join("x/.bandwidth-2019.partial");
    let output = interrupted(&folder, &args, || second.is_dir());
    assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
    let again = folder.run(&args);
    assert_eq!(again.status.code(), Some(0), "{}", stderr(&again));
    let text = stderr(&again);
    let reused = text.lines().find(|l| l.starts_with("latency-2019: reusing ")).unwrap();
    let counts: Vec<u32> = reused.split(' ').filter_map(|word| word.parse().ok()).collect();
    assert!(counts[0] > 0 && counts[0] == counts[1], "all of the first: {reused}");
    let left = fs::read_dir(folder.0.join("x")).unwrap().map(|e| e.unwrap().file_name());
    assert!(left.into_iter().all(|name| !name.to_string_lossy().ends_with(".partial")));
}

#[cfg(target_os = "linux")]
#[test]
fn kept_runs_of_another_command_are_not_used() {
    let folder = Folder::new("resume-other");
    let args = |reps: &'static str| {
        ["compare", "--quick", "--jobs", "1", "--out", "x", "--reps", reps].to_vec()
    };
    let partial = folder.0.join(".x.partial/000001.json.gz");
    let stop = |more: &[&str]| {
        let output = interrupted(&folder, &[&args("400")[..], more].concat(), || partial.is_file());
        assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
    };
    stop(&[]);
    let output = folder.run(&args("2"));
    assert!(stderr(&output).contains("of another command or build and are not reused"));
    assert_eq!(folder.entries(), 1);
    stop(&[]);
    let fresh = interrupted(&folder, &[&args("400")[..], &["--fresh"]].concat(), || true);
    assert!(!stderr(&fresh).contains("reusing"), "{}", stderr(&fresh));
}

/// A trace of two programs: one reads in sequence in bursts, the other writes at random.
fn trace_text() -> String {
    let mut out = String::new();
    for i in 0..400_u64 {
        let at = |n: u64| format!("{}.{:06}", n / 1_000_000, n % 1_000_000);
        let burst = i / 20 * 100_000 + i % 20;
        let (sector, far) = (i * 8, 1_000_000 + (i * 7919) % 10_007 * 8);
        out += &format!("  8,0 1 {i} {}  10  Q  R {sector} + 8 [copy]\n", at(burst));
        out += &format!("  8,0 1 {i} {}  11  Q WS {far} + 16 [db]\n", at(burst + 30));
        out += &format!("  8,0 1 {i} {}   0  C  R {sector} + 8 [0]\n", at(burst + 500));
    }
    out
}

#[test]
fn describe_tells_what_a_trace_is_made_of() {
    let folder = Folder::new("describe");
    fs::write(folder.0.join("t.txt"), trace_text()).unwrap();
    let output = folder.run(&["describe", "t.txt", "--html", "t.html"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let text = stdout(&output);
    for part in [
        "t.txt: blkparse text",
        "800 requests in 1.9",
        "copy/10",
        "db/11",
        "49.9 % their process's",
        "response of reads on the recorded device: 500 us (mean)",
        "hoistway replay t.txt --split-by process --target",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    let html = String::from_utf8(folder.file("t.html")).unwrap();
    assert!(html.contains("<svg") && html.contains("<td>db/11</td>"));
    let json = stdout(&folder.run(&["describe", "t.txt", "--json", "--device", "8,0"]));
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["schema"], &json["requests"]), (&1.into(), &800.into()));
    assert_eq!(json["operations"]["write"]["bytes"], 400 * 8192);
    assert_eq!(json["sequential"]["of_process"], 399);
    assert_eq!(json["depth"]["response_read_ns"]["count"], 400);
}

#[test]
fn bad_traces_end_with_exit_2_and_say_where() {
    let folder = Folder::new("bad-traces");
    let mut text = trace_text();
    text.insert_str(text.find('\n').unwrap() + 1, "  8,0 1 x 0.1 10 Q R 0 + 8 [copy]\n");
    fs::write(folder.0.join("t.txt"), &text).unwrap();
    fs::write(folder.0.join("v1"), "0, 4096, 512\n").unwrap();
    let cases: &[(&[&str], &str)] = &[
        (&["t.txt"], "t.txt: is no trace of a known format"),
        (&["v1"], "a fio iolog of version 1"),
        (&["t.txt", "--format", "blkparse", "--strict"], "line 2: sequence is not a whole number"),
        (&["t.txt", "--format", "msr"], "none of the first 100 records"),
        (&["t.txt", "--format", "blkparse", "--device", "8,1"], "no request passes the filters"),
        (&["t.txt", "--from", "5s", "--to", "1s"], "the time range is empty"),
        (&["t.txt", "--offsets", "5"], "two offsets with a minus between"),
        (&["none.txt"], "there is no such file, nor none.txt.blktrace.0"),
    ];
    for (args, message) in cases {
        let output = folder.run(&[&["describe"], *args].concat());
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(stderr(&output).contains(message), "{args:?}: {}", stderr(&output));
    }
    let output = folder.run(&["describe", "t.txt", "--format", "blkparse"]);
    assert!(output.status.success());
    assert!(stderr(&output).contains("1 malformed records were left out; the first: line 2"));
}

#[test]
fn a_saved_run_is_replayed_compared_and_read_by_blkparse() {
    let folder = Folder::new("replay");
    let saved = folder.run(&[
        "run",
        "latency-2019",
        "none-bfq",
        "--workload",
        "readers",
        "--drive",
        "samsung-970-pro",
        "--duration",
        "300ms",
        "--save-trace",
        "run.blktrace.0",
        "--quiet",
    ]);
    assert!(saved.status.success(), "{}", stderr(&saved));

    let again = folder.run(&["replay", "run.blktrace.0", "--quiet", "--out", "again"]);
    assert!(again.status.success(), "{}", stderr(&again));
    assert!(stderr(&again).contains("hoistway's own run of none-bfq on samsung-970-pro"));
    let printed = stdout(&again);
    assert!(printed.contains("target") && printed.contains("one configuration was replayed"));
    let manifest = String::from_utf8(folder.file("again/run.toml")).unwrap();
    assert!(manifest.contains("open, every step of a run"), "{manifest}");

    let args = ["replay", "run.blktrace.0", "-c", "none,mq-deadline", "--speed", "2", "--quiet"];
    let others = folder.run(&args);
    let printed = stdout(&others);
    assert!(others.status.success(), "{}", stderr(&others));
    assert!(printed.contains("format blktrace, 0 malformed"), "{printed}");
    assert!(printed.contains("latency by process") && printed.contains("verdict: "), "{printed}");

    // Records of the trace, without what is not an I/O.
    let queued = printed.split("trace: ").nth(1).and_then(|t| t.split(' ').next()).unwrap();
    match Command::new("blkparse").args(["-i", "run"]).current_dir(&folder.0).output() {
        Err(error) => println!("skipped: blkparse: {error}"),
        Ok(output) => {
            let lines = stdout(&output);
            let of = |action: &str| {
                lines.lines().filter(|l| l.split_whitespace().nth(5) == Some(action)).count()
            };
            assert_eq!(of("Q").to_string(), queued);
            assert!(of("D") > 100 && of("C") > 100 && of("m") > 10);
        }
    }
}

/// What it writes and prints; what is there already is not run again.
#[test]
fn reproduce_puts_published_values_beside_ours() {
    let folder = Folder::new("reproduce");
    let args = ["reproduce", "fairness-2010", "--quick", "--out", "out", "--markdown", "page.md"];
    let first = folder.run(&args);
    let text = stdout(&first);
    assert!(first.status.success(), "{}", stderr(&first));
    assert!(text.contains("2 parallel readers of files 500 MB apart"), "{text}");
    assert!(text.contains("agreement with published figures"), "{text}");
    for file in ["reproduction.html", "reproduction.csv", "published.csv", "fairness-2010/run.toml"]
    {
        assert!(!folder.file(&format!("out/{file}")).is_empty(), "{file}");
    }
    assert_eq!(folder.file("page.md"), folder.file("out/reproduction.md"));
    let csv = String::from_utf8(folder.file("out/reproduction.csv")).unwrap();
    let published = csv.lines().filter(|l| l.contains(",cfq,2r-seq,") && l.contains(",34.1,"));
    assert_eq!(published.count(), 1, "the published value stands beside ours");
    let again = folder.run(&args);
    assert!(stderr(&again).contains("1 of 1 experiments are there already"), "{}", stderr(&again));
    assert_eq!(stdout(&again), text);
    let json = folder.run(&["reproduce", "fairness-2010", "--quick", "--out", "out", "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(json["agreement"]["compared"], 4, "{}", json["agreement"]);
    let dry = stdout(&folder.run(&["reproduce", "all", "--as-published", "--dry-run"]));
    assert!(dry.contains("latency-2019") && dry.contains("nothing was run or written"), "{dry}");
}

/// The same runs give the same answer and the same bytes; the rules that it writes undo themselves.
#[test]
fn recommend_answers_from_runs_and_merge_counts_machines() {
    let folder = Folder::new("recommend");
    let common = ["compare", "latency-2019", "-c", "none,mq-deadline,bfq", "--quick", "--quiet"];
    let run = |reps: &str, out: &str| {
        let done = folder.run(&[&common[..], &["-r", reps, "-o", out]].concat());
        assert!(done.status.success(), "{}", stderr(&done));
    };
    run("3", "three");
    run("2", "two");
    let args = ["recommend", "three", "--rules", "rules"];
    let (once, again) = (folder.run(&args), folder.run(&args));
    let text = stdout(&once);
    assert_eq!((once.status.code(), &once.stdout), (Some(0), &again.stdout));
    assert!(text.contains("for desktop: bfq instead of none, sure"), "{text}");
    assert!(text.contains("simulated") && text.contains("undo:"), "{text}");
    let rule = String::from_utf8(folder.file("rules/90-hoistway-sata-ssd.rules")).unwrap();
    assert!(rule.contains("ENV{ID_BUS}==\"ata\"") && rule.contains("=\"bfq\""), "{rule}");
    let (install, undo) = (folder.file("rules/install.sh"), folder.file("rules/undo.sh"));
    let lines = |script: Vec<u8>| String::from_utf8(script).unwrap();
    assert!(lines(install).contains("/etc/udev/rules.d/90-hoistway-sata-ssd.rules"));
    assert!(lines(undo).contains("rm -f /etc/udev/rules.d/90-hoistway-sata-ssd.rules"));

    let few = folder.run(&["recommend", "two", "--json"]);
    let value: serde_json::Value = serde_json::from_slice(&few.stdout).unwrap();
    assert_eq!(few.status.code(), Some(1));
    assert_eq!(value["drives"][0]["answer"], "not enough data");
    assert_eq!(value["drives"][0]["rounds_more"], 1);

    let merged = folder.run(&["merge", "three", "--out", "page.html"]);
    let text = stdout(&merged);
    assert!(merged.status.success() && text.contains("1 of at least 3 machines"), "{text}");
    assert!(folder.file("page.html").starts_with(b"<!doctype html>"));
    for (args, said) in [
        (&["merge", "three", "nowhere"][..], "nowhere"),
        (&["recommend", "three", "--for", "dekstop"], "there are: desktop"),
        (&["recommend", "three", "--for", "share"], "choose another goal"),
        (&["recommend", "three", "--present", "kyber"], "there are: none, mq-deadline, bfq"),
    ] {
        let output = folder.run(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(stderr(&output).contains(said), "{args:?}: {}", stderr(&output));
    }
}

/// A device with a fixed latency is found, its file can be used, and the same command asks nothing twice.
#[test]
fn calibrate_finds_the_file_of_a_drive_that_it_only_asks() {
    let folder = Folder::new("calibrate");
    let args = ["calibrate", "--drive", "fixed-100us", "--fit", "--quick", "--out", "mine.toml"];
    let args = [&args[..], &["--report", "fit.html"]].concat();
    let first = folder.run(&args);
    assert!(first.status.success(), "{}", stderr(&first));
    assert!(
        stdout(&first).contains("F2/depth 64") && stdout(&first).contains("Drive model: bucket")
    );
    let text = String::from_utf8(folder.file("mine.toml")).unwrap();
    assert!(text.contains("read_us = 100.0") && text.contains("# measured: F1"), "{text}");
    assert!(folder.0.join("mine.answers.json").exists() && folder.0.join("mine.fit.json").exists());
    let page = String::from_utf8(folder.file("fit.html")).unwrap();
    assert!(page.contains("Random reads by depth") && page.contains("F2/depth 64"), "a chart");
    let again = folder.run(&args);
    assert_eq!(stdout(&again), stdout(&first));
    assert!(!stderr(&again).contains("F1"), "nothing is asked twice: {}", stderr(&again));
    let used = folder.run(&["compare", "latency-2019", "--drive", "mine.toml", "--dry-run"]);
    assert!(used.status.success(), "{}", stderr(&used));
    for bad in [
        &["calibrate", "--drive", "fixed-100us"][..],
        &["calibrate", "/dev/null", "--drive", "fixed-100us", "--fit"],
        &["calibrate", "nowhere"],
        &["calibrate", ".", "--size", "4k"],
    ] {
        let output = folder.run(bad);
        assert_eq!(output.status.code(), Some(2), "{bad:?}: {}", stderr(&output));
    }
}
