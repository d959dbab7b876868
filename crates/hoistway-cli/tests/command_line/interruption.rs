//! Runs that are interrupted, go on, and are not repeated.

use super::*;

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
    let args = ["compare", "latency-2019", "--reps", "10", "--duration", "1h", "--jobs", "1"];
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
        ["compare", "latency-2019", "--quick", "--jobs", "1", "--out", "x", "--reps", reps].to_vec()
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

#[cfg(target_os = "linux")]
#[test]
fn an_interrupted_oracle_goes_on_from_its_finished_cases() {
    let (folder, other) = (Folder::new("oracle-resume"), Folder::new("oracle-whole"));
    let args = |drives: &'static str, loads: &'static str| {
        ["oracle", "-d", drives, "-w", loads, "--quick", "--csv", "--jobs", "1", "--out", "x"]
    };
    // The disk has few requests to simulate, the flash drive behind it a hundred times as many.
    let first = folder.0.join("x/maxtor-7l250s0.readers.json");
    let both = args("maxtor-7l250s0,plextor-px-256m5s", "readers");
    let output = interrupted(&folder, &both, || first.is_file());
    assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
    assert!(stderr(&output).contains("19 of 38 runs are kept, and the same command goes on"));
    assert!(output.stdout.is_empty() && !folder.0.join("x/oracle.csv").exists());
    let written = fs::metadata(&first).unwrap().modified().unwrap();
    let again = folder.run(&args("maxtor-7l250s0", "readers,hog32"));
    assert_eq!(again.status.code(), Some(0), "{}", stderr(&again));
    assert_eq!(fs::metadata(&first).unwrap().modified().unwrap(), written, "not run again");
    assert_eq!(stdout(&again), stdout(&other.run(&args("maxtor-7l250s0", "readers,hog32"))));
}
