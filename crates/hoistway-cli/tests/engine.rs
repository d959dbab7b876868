//! `--on engine`, `--on kernel` and `--on linux` from outside: runs on emulated drives, scratch files, files and loop devices, and
//! what is refused.
#![cfg(all(feature = "live", target_os = "linux"))]

use hoistway_lab::result::{Cell, Rep, Run};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

/// An empty folder that is gone at the test's end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("hoistway-on-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(path.join("scratch")).unwrap();
        fs::write(path.join("small.toml"), SMALL).unwrap();
        Folder(path)
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hoistway"));
        command.args(["compare", "./small.toml", "--on", "engine"]).args(args);
        command.current_dir(&self.0);
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// Folders of runs.
    fn runs(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.0.join("runs")).into_iter().flatten();
        entries.map(|e| e.unwrap().path()).collect()
    }

    fn file(&self, name: &str, size: u64) -> PathBuf {
        let path = self.0.join(name);
        fs::File::create(&path).unwrap().set_len(size).unwrap();
        path
    }

    fn scratch_is_empty(&self) -> bool {
        fs::read_dir(self.0.join("scratch")).unwrap().next().is_none()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

const SMALL: &str = r#"
schema = 1
title = "Small"
about = "For tests."
drives = ["hitachi-hts727550a9e364"]
configs = ["none-none", "none-bfq"]
workloads = ["writers", "readers"]
reps = 2

[host]
profile = "2019"

[window]
head_start = "100ms"
ramp = "0s"
measured = "600ms"
grace = "20s"
target_interval = "100ms"
device_interval = "100ms"

[target]
load = "reader"
pattern = "rand"
size = "2 MiB"

[workload.readers]
summary = "three readers"

[[workload.readers.procs]]
name = "reader"
count = 3
load = "reader"
size = "2 MiB"

[workload.writers]
summary = "three writers"

[[workload.writers.procs]]
name = "writer"
count = 3
load = "writer"
size = "2 MiB"
dsync = 2
"#;

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Checks what holds for every run of the small experiment.
fn check(folder: &Folder, output: &Output, drive: &str) -> Run {
    assert!(output.status.success(), "{}", text(&output.stderr));
    let runs = folder.runs();
    assert_eq!(runs.len(), 1, "{runs:?}");
    assert!(runs[0].file_name().unwrap().to_string_lossy().starts_with("small.engine."));
    let run = Run::read(&runs[0]).unwrap();
    let m = &run.manifest;
    assert_eq!((m.world.as_str(), m.drives[0].id.as_str()), ("engine", drive));
    assert!(m.machine.iter().any(|(name, _)| name == "kernel"));
    assert_eq!(run.cells.len(), 4);
    for cell in &run.cells {
        assert_eq!(cell.reps.len(), 2);
        // A machine that stands still for a moment may leave the target nothing of one window.
        let served = |rep: &Rep| {
            let target = &rep.procs[0];
            target.ios > 0 || target.latency.count() > 0 || target.censored.is_some()
        };
        assert!(cell.reps.iter().any(served), "{}/{}", cell.config, cell.workload);
        for rep in &cell.reps {
            let device: u64 = rep.device.intervals.iter().map(|i| i.bytes).sum();
            assert_eq!(device, rep.device.read_bytes + rep.device.written_bytes);
            // The target may keep the writers from the drive, if it is in the real-time class.
            let may_write = cell.workload == "writers";
            assert!(may_write || rep.device.written_bytes + rep.device.flushes == 0);
        }
    }
    let wrote = |cell: &&Cell| cell.workload == "writers" && cell.config == "none-none";
    let writers = run.cells.iter().find(wrote).unwrap();
    assert!(writers.reps.iter().any(|rep| rep.device.written_bytes > 0 && rep.device.flushes > 0));
    let table = text(&output.stdout);
    assert!(table.contains(drive) && table.contains("none-bfq"), "{table}");
    assert!(table.contains("\ntarget: ") && table.contains("\nkernel: Linux"), "{table}");
    let metrics = fs::read_to_string(runs[0].join("metrics.csv")).unwrap();
    // The last column says whether the value is a bound.
    let source = |line: &str| line.split(',').nth_back(1).map(str::to_string);
    let mut lines = metrics.lines().skip(1);
    assert!(lines.all(|line| source(line).as_deref() == Some("engine")), "{metrics}");
    assert!(fs::read_to_string(runs[0].join("report.html")).unwrap().contains("engine"));
    run
}

#[test]
fn an_emulated_drive_yields_a_run_directory_like_the_simulators() {
    let folder = Folder::new("emulated");
    let output = folder.run(&[]);
    if output.status.code() == Some(3) {
        return println!("skipped: {}", text(&output.stderr));
    }
    let run = check(&folder, &output, "hitachi-hts727550a9e364");
    let rows = &run.manifest.machine;
    let emulation = rows.iter().find(|(name, _)| name == "emulation of hitachi-hts727550a9e364");
    let (_, told) = emulation.expect("the manifest tells how well the machine kept up");
    assert!(told.contains("modelled") && told.contains("achieved") && told.contains("late by"));
    assert!(run.manifest.command.ends_with(
        "--config none-none,none-bfq --drive hitachi-hts727550a9e364 --on engine \
         --workload writers,readers --reps 2 --seed 1"
    ));
    // The report can be computed afresh.
    let before = fs::read(folder.runs()[0].join("metrics.csv")).unwrap();
    let mut report = Command::new(env!("CARGO_BIN_EXE_hoistway"));
    assert!(report.arg("report").arg(&folder.runs()[0]).output().unwrap().status.success());
    assert_eq!(fs::read(folder.runs()[0].join("metrics.csv")).unwrap(), before);
}

#[test]
fn a_scratch_file_is_a_drive_and_leaves_nothing() {
    let folder = Folder::new("scratch");
    let output = folder.run(&["--target-dir", "scratch", "--size", "400 MiB"]);
    let run = check(&folder, &output, "scratch");
    assert!(folder.scratch_is_empty());
    let reached = run.manifest.machine.iter().find(|(name, _)| name == "reached").unwrap();
    assert!(reached.1.starts_with("direct") || text(&output.stderr).contains("no direct I/O"));
}

#[test]
fn a_file_is_a_drive_and_can_be_used_again() {
    let folder = Folder::new("file");
    folder.file("disk.img", 400 << 20);
    check(&folder, &folder.run(&["--file", "disk.img"]), "disk.img");
    check(&folder, &folder.run(&["--file", "disk.img"]), "disk.img");
}

#[test]
fn ctrl_c_ends_the_work_at_once_and_leaves_nothing() {
    let folder = Folder::new("interrupt");
    for args in [&["--target-dir", "scratch", "--size", "400 MiB"][..], &[]] {
        let mut command = folder.command(args);
        command.args(["--duration", "1h"]).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // The processes of the run are there; or it has ended, where the machine cannot carry the drive.
        let mut ended = false;
        wait_for(|| {
            let tasks = fs::read_dir(format!("/proc/{}/task", child.id())).unwrap();
            let names = tasks.flatten().map(|t| fs::read_to_string(t.path().join("comm")));
            ended = child.try_wait().unwrap().is_some();
            ended || names.flatten().any(|name| name.starts_with("hoistway-p"))
        });
        if ended {
            let output = child.wait_with_output().unwrap();
            let error = text(&output.stderr);
            assert!(args.is_empty() && output.status.code() == Some(3), "{error}");
            println!("skipped: {error}");
            continue;
        }
        let id = child.id().to_string();
        assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(130), "{}", text(&output.stderr));
        assert!(text(&output.stderr).contains("interrupted; nothing was written"));
        assert!(folder.scratch_is_empty() && folder.runs().is_empty());
    }
}

/// Waits, at most a minute, until `there` says yes.
fn wait_for(mut there: impl FnMut() -> bool) {
    for _ in 0..1200 {
        if there() {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("it never came so far");
}

#[test]
fn what_must_not_be_touched_or_cannot_be_done_is_refused_before_anything_runs() {
    let folder = Folder::new("refused");
    folder.file("small.img", 1 << 20);
    let fast = "schema = 1\nname = \"Faster than light\"\nmodel = \"bucket\"\nbase = \"fixed-100us\"\n\
                [iocost]\nrrandiops = 1000000000\n";
    fs::write(folder.0.join("fast.toml"), fast).unwrap();
    fs::write(folder.file("foreign.img", 400 << 20), b"a letter").unwrap();
    fs::File::options()
        .write(true)
        .open(folder.0.join("foreign.img"))
        .unwrap()
        .set_len(400 << 20)
        .unwrap();
    let cases: &[(&[&str], i32, &str)] = &[
        (&["--file", "none.img"], 2, "truncate -s 16G none.img"),
        (&["--file", "small.img"], 2, "make it at least"),
        (&["--file", "foreign.img"], 2, "holds data that no run has written"),
        (&["--file", "foreign.img", "--yes-destroy-data", "small.img"], 2, "is not the target"),
        (&["--file", "scratch"], 2, "is not a file"),
        (&["--file", "small.img", "--drive", "cloud-gp3"], 2, "cannot be used with"),
        (&["--device", "/dev/null"], 2, "is not a block device"),
        (&["--device", "/dev/no-such-device"], 2, "No such file"),
        (&["--target-dir", "none"], 2, "is not a directory"),
        (&["--target-dir", "scratch", "--size", "1 MiB"], 2, "choose at least"),
        (
            &["--target-dir", "scratch", "--yes-destroy-data", "scratch"],
            2,
            "goes with --file or --device",
        ),
        (&["--target-dir", "scratch", "-j", "2"], 2, "disturb each other"),
        (&["--drive", "./fast.toml"], 3, "fast does 1000000000 random reads per second"),
    ];
    for (args, code, message) in cases {
        let output = folder.run(args);
        let error = text(&output.stderr);
        assert!(error.contains(message), "{args:?}: {error}");
        assert_eq!(output.status.code(), Some(*code), "{args:?}: {error}");
        assert!(folder.runs().is_empty() && folder.scratch_is_empty(), "{args:?}");
    }
    let moving = SMALL.replace("\"2019\"", "\"2019\"\nfs = \"btrfs\"");
    fs::write(folder.0.join("small.toml"), moving).unwrap();
    let output = folder.run(&[]);
    let error = text(&output.stderr);
    assert!(error.contains("btrfs and nilfs2 move pages") && error.contains("--on sim"), "{error}");
    assert!(output.status.code() == Some(2) && folder.runs().is_empty());
    let mut letter = fs::read(folder.0.join("foreign.img")).unwrap();
    letter.truncate(8);
    assert_eq!(letter, b"a letter");
    let output = Command::new(env!("CARGO_BIN_EXE_hoistway"))
        .args(["compare", "--on", "sim", "--target-dir", "."])
        .output()
        .unwrap();
    assert!(text(&output.stderr).contains("add --on engine"));
    let output =
        Command::new(env!("CARGO_BIN_EXE_hoistway")).args(["compare", "--on", "engin"]).output();
    assert!(text(&output.unwrap().stderr).contains("did you mean 'engine'?"));
}

#[test]
fn too_little_room_is_told_with_both_figures() {
    let folder = Folder::new("room");
    let big = SMALL.replace("size = \"2 MiB\"", "size = \"400 TiB\"");
    fs::write(folder.0.join("small.toml"), big).unwrap();
    let output = folder.run(&["--target-dir", "scratch", "--size", "4000000 GiB"]);
    let error = text(&output.stderr);
    // A file system may already refuse a file of that size, which is the same.
    assert_eq!(output.status.code(), Some(3), "{error}");
    assert!(
        error.contains("need") && error.contains("MB are free") || error.contains("too large"),
        "{error}"
    );
    assert!(folder.scratch_is_empty() && folder.runs().is_empty());
}

#[test]
fn a_dry_run_tells_the_time_it_would_take() {
    let folder = Folder::new("dry");
    let output = folder.run(&["--dry-run"]);
    // 2 configurations, 2 workloads, 2 repetitions of 0.1 s and 0.6 s.
    assert!(text(&output.stdout).contains("\n6 s in real time"), "{}", text(&output.stdout));
    assert!(folder.runs().is_empty());
}

/// A loop device over a file; detached at the end.
struct Loop(String);

impl Loop {
    fn new(file: &Path) -> Option<Loop> {
        let output = Command::new("losetup").args(["--find", "--show"]).arg(file).output().ok()?;
        output.status.success().then(|| Loop(text(&output.stdout).trim().to_string()))
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["--detach", &self.0]).status();
    }
}

struct Mounted(PathBuf);

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

#[test]
fn a_device_is_written_only_when_it_is_named_twice_and_never_while_it_is_used() {
    let folder = Folder::new("device");
    let image = folder.file("disk.img", 400 << 20);
    let Some(device) = Loop::new(&image) else {
        return println!("skipped: no loop device can be made here (root and losetup are needed)");
    };
    let name = device.0.as_str();
    let kernel = name.trim_start_matches("/dev/");

    // Without leave: writers are refused, readers run, and nothing is written.
    let output = folder.run(&["--device", name]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("--yes-destroy-data"), "{}", text(&output.stderr));
    let output = folder.run(&["--device", name, "--workload", "readers"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(fs::read(&image).unwrap().iter().all(|&b| b == 0), "only read");
    fs::remove_dir_all(folder.0.join("runs")).unwrap();

    let output = folder.run(&["--device", name, "--yes-destroy-data", image.to_str().unwrap()]);
    assert!(text(&output.stderr).contains("is not the target"), "{}", text(&output.stderr));
    check(&folder, &folder.run(&["--device", name, "--yes-destroy-data", name]), kernel);
    fs::remove_dir_all(folder.0.join("runs")).unwrap();

    let made = Command::new("mkfs.ext4").args(["-q", "-F", name]).output();
    let place = folder.0.join("mounted");
    fs::create_dir(&place).unwrap();
    let mounted = Command::new("mount").arg(name).arg(&place).output();
    if !(made.is_ok_and(|o| o.status.success()) && mounted.is_ok_and(|o| o.status.success())) {
        return println!("skipped: the mounted device: no mkfs.ext4, or mounting is not allowed");
    }
    let _mounted = Mounted(place);
    for args in [&["--device", name][..], &["--device", name, "--yes-destroy-data", name]] {
        let output = folder.run(args);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.contains("is mounted at") && folder.runs().is_empty(), "{error}");
    }
}

const KERNEL: &str = r#"
schema = 1
title = "Kernel"
about = "For tests."
drives = ["hitachi-hts727550a9e364"]
configs = ["none-none", "mq-deadline", "noop"]
workloads = ["readers"]
reps = 2

[host]
profile = "2019"

[window]
head_start = "100ms"
ramp = "0s"
measured = "2s"
grace = "20s"
target_interval = "100ms"
device_interval = "200ms"

[target]
load = "reader"
pattern = "rand"
direct = true
size = "4 MiB"

[workload.readers]
summary = "two readers, one of them asynchronous"

[[workload.readers.procs]]
name = "reader"
load = "reader"
direct = true
bs = "64k"
size = "8 MiB"

[[workload.readers.procs]]
name = "queue"
load = "reader"
direct = true
depth = 4
bs = "64k"
size = "8 MiB"

[workload.mixed]
summary = "a writer that syncs, and a program that starts"

[[workload.mixed.procs]]
name = "writer"
load = "writer"
dsync = 2
size = "4 MiB"

[[workload.mixed.procs]]
name = "start"
load = "app_start"
pause = "1ms"
"#;

/// What `hoistway` says of an experiment under the kernel's schedulers.
fn on_kernel(folder: &Folder, args: &[&str]) -> Output {
    fs::write(folder.0.join("kernel.toml"), KERNEL).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_hoistway"));
    command.args(["compare", "./kernel.toml", "--on", "kernel"]).args(args);
    command.env("HOISTWAY_STATE_DIR", folder.0.join("state"));
    command.current_dir(&folder.0).output().unwrap()
}

/// All settings of a queue that can be read.
fn settings(kernel: &str) -> Vec<(PathBuf, String)> {
    let mut all = Vec::new();
    for part in ["queue", "queue/iosched"] {
        let folder = PathBuf::from(format!("/sys/block/{kernel}")).join(part);
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            all.extend(fs::read_to_string(entry.path()).map(|text| (entry.path(), text)));
        }
    }
    all.sort();
    all
}

fn check_kernel(folder: &Folder, output: &Output, cells: usize) -> Run {
    assert!(output.status.success(), "{}", text(&output.stderr));
    let error = text(&output.stderr);
    assert!(error.contains("left out: noop: ") && error.contains("legacy"), "{error}");
    let run = Run::read(&folder.runs()[0]).unwrap();
    let rows = &run.manifest.machine;
    let row = |name: &str| rows.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str());
    assert_eq!((run.manifest.world.as_str(), run.cells.len()), ("kernel", cells));
    assert!(row("lacking").is_some_and(|text| text.starts_with("noop: ")), "{rows:?}");
    assert!(row("present_scheduler").is_some() && row("queue").is_some(), "{rows:?}");
    assert!(rows.iter().any(|(name, _)| name == "chain"), "{rows:?}");
    fs::remove_dir_all(folder.0.join("runs")).unwrap();
    run
}

#[test]
fn the_kernels_schedulers_run_on_a_device_and_on_a_directory_and_leave_nothing() {
    let folder = Folder::new("kernel");
    let image = folder.file("disk.img", 1 << 30);
    let device = Loop::new(&image).filter(|device| {
        let kernel = device.0.trim_start_matches("/dev/");
        let offered = fs::read_to_string(format!("/sys/block/{kernel}/queue/scheduler"));
        offered.is_ok_and(|text| text.contains("mq-deadline"))
    });
    let Some(device) = device else {
        return println!("skipped: no loop device with mq-deadline (root and losetup are needed)");
    };
    let name = device.0.as_str();
    let kernel = name.trim_start_matches("/dev/");
    let before = settings(kernel);
    let output = on_kernel(&folder, &["--device", name]);
    let run = check_kernel(&folder, &output, 2);
    assert_eq!(settings(kernel), before);
    for rep in run.cells.iter().flat_map(|cell| &cell.reps) {
        let told: u64 = rep.procs.iter().map(|p| p.bytes).sum();
        let moved = rep.device.read_bytes;
        // All of it is direct; calls that straddle a border of the window make the difference.
        assert!(told.abs_diff(moved) <= moved / 20 + (1 << 20), "{told} against {moved}");
        assert!(rep.procs.iter().all(|p| p.ios > 0 && p.latency.count() > 0));
        assert!(rep.device.intervals.len() >= 4 && rep.device.written_bytes == 0);
    }
    let output = on_kernel(&folder, &["--device", name, "--workload", "mixed"]);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("--yes-destroy-data"), "{}", text(&output.stderr));

    let made = Command::new("mkfs.ext4").args(["-q", "-F", name]).output();
    let place = folder.0.join("mounted");
    fs::create_dir(&place).unwrap();
    let mounted = Command::new("mount").arg(name).arg(&place).output();
    if !(made.is_ok_and(|o| o.status.success()) && mounted.is_ok_and(|o| o.status.success())) {
        return println!("skipped: the directory: no mkfs.ext4, or mounting is not allowed");
    }
    let _mounted = Mounted(place.clone());
    let args = ["--target-dir", "mounted", "--size", "1100 MiB", "--workload", "mixed"];
    let output = on_kernel(&folder, &[&args[..], &["--reps", "1"]].concat());
    let run = check_kernel(&folder, &output, 2);
    assert_eq!(settings(kernel), before);
    // Where others keep the disk busy, one sync may take longer than the window of a run.
    let reps = run.cells.iter().flat_map(|cell| &cell.reps);
    let synced: Vec<_> = reps.map(|rep| (rep.device.written_bytes, rep.device.flushes)).collect();
    // A queue that was told to be write-through stays so from file to file, and its device gets no flush.
    let cache = fs::read_to_string(format!("/sys/block/{kernel}/queue/write_cache")).unwrap();
    let flushed = |flushes: u64| flushes > 0 || cache.trim() == "write through";
    let seen = synced.iter().any(|&(written, flushes)| written > 0 && flushed(flushes));
    assert!(seen, "the writer syncs: {synced:?}");
    for rep in run.cells.iter().flat_map(|cell| &cell.reps) {
        assert!(rep.marks.iter().any(|mark| mark.text == "start"), "{:?}", rep.marks);
        assert!(rep.procs.iter().all(|p| p.ios > 0));
    }
    let names = fs::read_dir(&place).unwrap().flatten().map(|e| e.file_name());
    let names: Vec<_> = names.filter(|name| name != "lost+found").collect();
    assert!(names.is_empty(), "{names:?}");
    let output = on_kernel(&folder, &["--device", name]);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("is mounted at"), "{}", text(&output.stderr));
}

/// A target that reads most of what is read, and ends when measuring does.
const TRAFFIC: &str = r#"
schema = 1
title = "Traffic"
about = "For tests."
drives = ["hitachi-hts727550a9e364"]
configs = ["none-none"]
workloads = ["readers"]
reps = 2

[host]
profile = "2019"

[window]
head_start = "50ms"
ramp = "0s"
measured = "400ms"
grace = "5s"
target_interval = "100ms"
device_interval = "200ms"

[target]
load = "reader"
pattern = "seq"
bs = "256k"
size = "16 MiB"
direct = true

[workload.readers]
summary = "another reader"

[[workload.readers.procs]]
name = "reader"
load = "reader"
bs = "4k"
pattern = "rand"
direct = true
size = "4 MiB"

[workload.saver]
summary = "a writer that syncs every 4 KiB: the journal writes more than it does"

[[workload.saver.procs]]
name = "saver"
load = "writer"
dsync = 2
size = "4 MiB"
"#;

/// Warnings of others' traffic, of one run with `args`.
fn strangers(folder: &Folder, args: &[&str]) -> Vec<String> {
    fs::write(folder.0.join("traffic.toml"), TRAFFIC).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_hoistway"));
    command.args(["compare", "./traffic.toml", "--on", "kernel"]).args(args);
    command.env("HOISTWAY_STATE_DIR", folder.0.join("state"));
    let output = command.current_dir(&folder.0).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let run = Run::read(&folder.runs()[0]).unwrap();
    fs::remove_dir_all(folder.0.join("runs")).unwrap();
    let rows = run.manifest.machine.into_iter();
    rows.filter(|(name, text)| name == "warning" && text.contains("was not the run's"))
        .map(|(_, text)| text)
        .collect()
}

/// While `by_the_side` is called over and over in this process, which is not the run's.
fn beside<T>(mut by_the_side: impl FnMut() + Send, run: impl FnOnce() -> T) -> T {
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                by_the_side();
            }
        });
        let found = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        found.unwrap()
    })
}

#[test]
fn only_what_others_read_and_write_is_called_theirs() {
    let folder = Folder::new("strangers");
    let image = folder.file("disk.img", 1 << 30);
    let Some(device) = Loop::new(&image) else {
        return println!("skipped: no loop device can be made here (root and losetup are needed)");
    };
    let name = device.0.as_str();
    let alone = strangers(&folder, &["--device", name]);
    assert_eq!(alone, Vec::<String>::new(), "nobody else reads it");
    let file = fs::File::open(name).unwrap();
    let mut at = 0;
    let read = || {
        // Past what the run reads, and never from the cache.
        let mut bytes = vec![0; 1 << 20];
        std::os::unix::fs::FileExt::read_exact_at(&file, &mut bytes, (512 << 20) + at).unwrap();
        at = (at + (1 << 20)) % (256 << 20);
        if at == 0 {
            rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        }
    };
    let found = beside(read, || strangers(&folder, &["--device", name]));
    // One run of the two may name this process, the other one of another test.
    assert!(!found.is_empty(), "nobody was seen");

    let made = Command::new("mkfs.ext4")
        .args(["-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0", name])
        .output();
    let place = folder.0.join("mounted");
    fs::create_dir(&place).unwrap();
    let mounted = Command::new("mount").arg(name).arg(&place).output();
    if !(made.is_ok_and(|o| o.status.success()) && mounted.is_ok_and(|o| o.status.success())) {
        return println!("skipped: the directory: no mkfs.ext4, or mounting is not allowed");
    }
    let _mounted = Mounted(place.clone());
    let args = ["--target-dir", "mounted", "--size", "400 MiB", "--workload", "readers,saver"];
    // What a process writes elsewhere is told apart by nothing, and other tests write meanwhile: one run of three without
    // a warning shows that the journal alone is none.
    let alone = || strangers(&folder, &args).is_empty();
    assert!((0..3).any(|_| alone()), "a journal is nobody's");
    let write = || {
        let file = fs::File::create(place.join("stranger")).unwrap();
        let data = vec![1; 4 << 20];
        std::os::unix::fs::FileExt::write_all_at(&file, &data, 0).unwrap();
        file.sync_all().unwrap();
    };
    let found = beside(write, || strangers(&folder, &args));
    assert!(found.iter().any(|text| text.contains("most of it: ")), "{found:?}");
}

#[test]
fn what_the_world_kernel_needs_is_told_before_anything_runs() {
    let folder = Folder::new("kernel-refused");
    let cases: &[(&[&str], i32, &str)] = &[
        (&[], 2, "name a directory with --target-dir"),
        (&["--file", "x"], 2, "name its folder with --target-dir"),
        (&["--device", "/dev/null"], 2, "not a block device"),
        (&["--target-dir", "/proc"], 3, "nothing schedules here"),
        (&["--target-dir", ".", "-j", "2"], 2, "disturb each other"),
    ];
    for (args, code, message) in cases {
        let output = on_kernel(&folder, args);
        let error = text(&output.stderr);
        assert!(error.contains(message), "{args:?}: {error}");
        assert_eq!(output.status.code(), Some(*code), "{args:?}: {error}");
        assert!(folder.runs().is_empty(), "{args:?}");
    }
    let worker = Command::new(env!("CARGO_BIN_EXE_hoistway")).args(["kernel-worker", "x"]).output();
    assert_eq!(worker.unwrap().status.code(), Some(2));
}

/// Three worlds on one emulated drive: each gives its figure of the same cells, and nothing is left.
#[test]
fn the_kernels_schedulers_and_ours_are_compared_on_one_emulated_drive() {
    let folder = Folder::new("validate");
    let place = folder.0.join("out");
    let child = Command::new(env!("CARGO_BIN_EXE_hoistway"))
        .args(["validate", "./small.toml", "-d", "fixed-100us", "-c", "none,mq-deadline"])
        .args(["-w", "readers", "--reps", "1", "--json", "--anyway", "--out"])
        .arg(&place)
        .current_dir(&folder.0)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let pid = child.id();
    let output = child.wait_with_output().unwrap();
    if output.status.code() == Some(3) {
        return println!("skipped: {}", text(&output.stderr));
    }
    // Whether rows hold depends on the machine; that there are figures does not.
    assert!(matches!(output.status.code(), Some(0 | 1)), "{}", text(&output.stderr));
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = found["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 4, "latency and throughput of two configurations: {found:#}");
    for row in rows {
        assert!(row["kernel"]["value"].as_f64().unwrap() > 0.0, "{row:#}");
        let worlds: Vec<&str> = row["others"]
            .as_array()
            .unwrap()
            .iter()
            .map(|o| o["world"].as_str().unwrap())
            .collect();
        assert_eq!(worlds, ["engine", "sim"]);
        assert!(row["others"][1]["ratio"].as_f64().unwrap() > 0.0, "{row:#}");
    }
    for world in ["kernel", "engine", "sim"] {
        let run = Run::read(&place.join("fixed-100us").join(world)).unwrap();
        assert_eq!((run.manifest.world.as_str(), run.cells.len()), (world, 2));
    }
    let emulated =
        Command::new(env!("CARGO_BIN_EXE_hoistway")).args(["emulate", "--list"]).output();
    assert!(!text(&emulated.unwrap().stdout).contains(&format!("process {pid}")));
}

/// `compare ./small.toml --on linux` with a cache folder, the usual one if `None`.
fn on_linux(folder: &Folder, cache: Option<&Path>, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hoistway"));
    command.args(["compare", "./small.toml", "--on", "linux"]).args(args).current_dir(&folder.0);
    if let Some(cache) = cache {
        command.env("HOISTWAY_CACHE_DIR", cache);
    }
    command.output().unwrap()
}

#[test]
fn a_kernel_of_its_own_gives_the_same_bytes_every_time() {
    let folder = Folder::new("linux");
    let lacking = on_linux(&folder, Some(&folder.0), &[]);
    assert_eq!(lacking.status.code(), Some(3), "{}", text(&lacking.stderr));
    assert!(text(&lacking.stderr).contains("hoistway linux build"), "{}", text(&lacking.stderr));
    let args = ["-r", "1", "--quiet", "--csv", "-c", "mq-deadline,none-bfq,low-none", "--out"];
    let run = |out: &str| on_linux(&folder, None, &[&args[..], &[out]].concat());
    let first = run("a");
    if first.status.code() == Some(3) {
        return println!("skipped: {}", text(&first.stderr));
    }
    assert!(first.status.success(), "{}", text(&first.stderr));
    assert!(text(&first.stderr).contains("left out: low-none"), "{}", text(&first.stderr));
    let read = Run::read(&folder.0.join("a")).unwrap();
    assert_eq!((read.manifest.world.as_str(), read.cells.len()), ("linux", 4));
    for cell in &read.cells {
        let rep = &cell.reps[0];
        assert!(rep.procs[0].latency.count() > 0, "{}/{}", cell.config, cell.workload);
        assert!(rep.device.read_bytes > 0);
        // BFQ gives a process that starts nearly all of the drive for seconds: in these 0.6 s a writer beside it may have
        // written nothing to the drive.
        let writes = cell.workload == "writers" && cell.config == "mq-deadline";
        assert!(rep.device.written_bytes > 0 || !writes, "{}/{}", cell.config, cell.workload);
        assert!(rep.device.written_bytes == 0 || cell.workload == "writers", "{}", cell.config);
    }
    let second = run("b");
    assert_eq!(text(&second.stdout), text(&first.stdout));
    let records = |out: &str| fs::read(folder.0.join(out).join("metrics.csv")).unwrap();
    assert_eq!(records("a"), records("b"));
}

#[test]
fn several_worlds_are_compared_with_the_first() {
    let folder = Folder::new("beside");
    let run = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hoistway"));
        command.args(["compare", "./small.toml", "-r", "1", "--quiet"]).args(args);
        command.current_dir(&folder.0).output().unwrap()
    };
    let twice = run(&["--on", "sim,sim"]);
    assert!(text(&twice.stderr).contains("world 'sim' is given twice"), "{}", text(&twice.stderr));
    let job = run(&["--on", "sim", "--on", "linux", "--out", "both", "--json"]);
    if job.status.code() == Some(3) {
        return println!("skipped: {}", text(&job.stderr));
    }
    assert!(job.status.success(), "{}", text(&job.stderr));
    let found: serde_json::Value = serde_json::from_slice(&job.stdout).unwrap();
    let rows = found["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 8, "latency and throughput of four cells: {found:#}");
    for row in rows {
        assert!(row["sim"]["value"].as_f64().unwrap() > 0.0, "{row:#}");
        assert_eq!(row["others"][0]["world"], "linux");
    }
    for world in ["sim", "linux"] {
        let run = Run::read(&folder.0.join("both").join(world)).unwrap();
        assert_eq!(run.manifest.world, world);
    }
}
