//! Ours inside Linux in virtual time, where a kernel with the module was built (`hoistway linux build --with-module`).

#![cfg(all(feature = "live", target_os = "linux"))]

use hoistway_lab::result::Run;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("hoistway-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

fn hoistway(folder: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hoistway"));
    command.args(args).current_dir(folder).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn ours_inside_decides_as_ours_outside() {
    let folder = folder("inside-differ");
    let all = "h-mq-deadline,h-kyber,h-bfq,zoccolo,k2";
    // The second: the end of a flush is the first thing that kyber hears after its timer.
    for (schedulers, of, more) in [
        (all, 5, ["--scenarios", "3"].as_slice()),
        ("h-kyber", 1, &["--scenarios", "1", "--first", "355", "--seed", "6121"]),
    ] {
        let args = ["differ", "-s", schedulers, "--quiet", "--as-found", "--out", schedulers];
        let run = hoistway(&folder, &[&args, more].concat());
        if run.status.code() == Some(3) {
            return println!("skipped: {}", text(&run.stderr));
        }
        assert_eq!(run.status.code(), Some(0), "{run:?}");
        let agree = format!("{} agree on every line", more[1]);
        assert_eq!(text(&run.stdout).matches(&agree).count(), of, "{run:?}");
    }
    let _ = std::fs::remove_dir_all(&folder);
}

#[test]
fn a_table_has_the_kernels_own_and_ours_beside_them() {
    let folder = folder("inside-compare");
    let run = |out: &str| {
        let configs = "mq-deadline,h-mq-deadline,paternoster,cfq";
        let args = [
            "compare",
            "latency-2019",
            "-w",
            "readers",
            "--duration",
            "300ms",
            "-r",
            "1",
            "--on",
            "linux",
        ];
        hoistway(&folder, &[&args[..], &["--quiet", "--csv", "-c", configs, "-o", out]].concat())
    };
    let first = run("a");
    if first.status.code() == Some(3) || text(&first.stderr).contains("left out: h-mq-deadline") {
        return println!("skipped: {}", text(&first.stderr));
    }
    assert!(first.status.success(), "{first:?}");
    let read = Run::read(&folder.join("a")).unwrap();
    assert_eq!(read.cells.len(), 4, "{first:?}");
    let latency = |config: &str| {
        let cell = read.cells.iter().find(|c| c.config == config).unwrap();
        cell.reps[0].procs[0].latency.mean().unwrap()
    };
    let (own, ours) = (latency("mq-deadline"), latency("h-mq-deadline"));
    assert!(own > 0.0 && (ours / own - 1.0).abs() < 0.03, "{own} and {ours}");
    assert!(latency("paternoster") < own / 2.0, "{} beside {own}", latency("paternoster"));
    assert_eq!(text(&run("b").stdout), text(&first.stdout));
    let _ = std::fs::remove_dir_all(&folder);
}
