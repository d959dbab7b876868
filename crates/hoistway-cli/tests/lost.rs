//! Storage that fails under a run: it is named, the error is told, and the program ends with 1, as interrupted by nobody.
#![cfg(all(feature = "live", target_os = "linux"))]

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

const EXPERIMENT: &str = r#"
schema = 1
title = "Lost"
about = "For tests."
drives = ["hitachi-hts727550a9e364"]
configs = ["none-none"]
workloads = ["readers"]
reps = 1

[host]
profile = "2019"

[window]
head_start = "100ms"
ramp = "0s"
measured = "30s"
grace = "1s"
target_interval = "100ms"
device_interval = "100ms"

[target]
load = "reader"
pattern = "rand"
direct = true
size = "64 MiB"

[workload.readers]
summary = "a reader"

[[workload.readers.procs]]
name = "reader"
load = "reader"
pattern = "rand"
direct = true
depth = 4
size = "64 MiB"
"#;

/// An empty folder that is gone at the test's end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path =
            std::env::temp_dir().join(format!("hoistway-lost-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        fs::write(path.join("lost.toml"), EXPERIMENT).unwrap();
        Folder(path)
    }

    fn start(&self, args: &[&str]) -> Child {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hoistway"));
        command.args(["compare", "./lost.toml", "--quiet"]).args(args).current_dir(&self.0);
        command.env("HOISTWAY_STATE_DIR", self.0.join("state"));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Waits for the end of a run whose storage is gone; a run that does not notice is killed.
fn ended(mut child: Child) -> Output {
    for _ in 0..200 {
        if child.try_wait().unwrap().is_some() {
            return child.wait_with_output().unwrap();
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    child.kill().unwrap();
    let output = child.wait_with_output().unwrap();
    panic!("still running 20 s after its storage was taken away: {}", text(&output.stderr));
}

fn told(output: &Output, parts: &[&str]) {
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    for part in parts {
        assert!(said.contains(part), "'{part}' is missing: {said}");
    }
    assert!(!said.contains("interrupted"), "{said}");
}

#[test]
fn a_file_that_is_truncated_under_the_engine_is_named() {
    let folder = Folder::new("file");
    let file = folder.0.join("disk.img");
    fs::File::create(&file).unwrap().set_len(400 << 20).unwrap();
    let name = file.to_str().unwrap();
    let child = folder.start(&["--on", "engine", "--file", name, "--yes-destroy-data", name]);
    // The layout is done when the file no longer grows; then random reads of it go on for half a minute.
    let blocks = || std::os::unix::fs::MetadataExt::blocks(&fs::metadata(&file).unwrap());
    let (mut before, mut still) = (0, 0);
    while still < 15 {
        std::thread::sleep(Duration::from_millis(100));
        let now = blocks();
        still = if now > 0 && now == before { still + 1 } else { 0 };
        before = now;
    }
    fs::OpenOptions::new().write(true).open(&file).unwrap().set_len(4096).unwrap();
    let output = ended(child);
    told(
        &output,
        &[
            name,
            "a read of ",
            "(os error 5)",
            "it has 4096 of its 419430400 bytes by now: somebody has shortened it",
        ],
    );
}

/// An emulator that is killed at the end, and cleaned up behind.
struct Emulator(Child);

impl Drop for Emulator {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
        let _ =
            Command::new(env!("CARGO_BIN_EXE_hoistway")).args(["emulate", "--cleanup"]).output();
    }
}

#[test]
fn a_device_whose_emulator_is_killed_under_the_kernel_is_named() {
    let folder = Folder::new("emulator");
    let mut emulator = Command::new(env!("CARGO_BIN_EXE_hoistway"))
        .args(["emulate", "--loop", "--drive", "hitachi-hts727550a9e364", "--size", "1G"])
        .arg("--anyway")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut device = String::new();
    BufReader::new(emulator.stdout.take().unwrap()).read_line(&mut device).unwrap();
    let device = device.trim();
    if device.is_empty() {
        let output = emulator.wait_with_output().unwrap();
        return println!("skipped: no emulated drive here: {}", text(&output.stderr));
    }
    let mut emulator = Emulator(emulator);
    let mut child = folder.start(&["--on", "kernel", "--device", device]);
    std::thread::sleep(Duration::from_secs(4));
    if child.try_wait().unwrap().is_some_and(|status| matches!(status.code(), Some(2 | 3))) {
        let output = child.wait_with_output().unwrap();
        return println!("skipped: no run under the kernel here: {}", text(&output.stderr));
    }
    emulator.0.kill().unwrap();
    emulator.0.wait().unwrap();
    let output = ended(child);
    told(&output, &[device, "read of ", "(os error 5)"]);
}
