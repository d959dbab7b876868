//! Jobs of fio: what runs of them, and output as fio prints it.

use super::*;

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
        (&["--job", "gone.fio"], "gone.fio: No such file"),
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
