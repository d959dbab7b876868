//! The same million I/Os through Rust, C and Go: their requests are issued in the same order.

// Each test uses a part of it.
#[allow(dead_code)]
mod support;

#[path = "support/drive.rs"]
mod drive;

use drive::{Told, drive};
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;
use support::{Link, built, compile, first_line, go_build, go_there, here, run, scratch, there};

const TOTAL: u64 = 1_000_000;
/// What is driven: one by one, or in batches.
const RUNS: [(&str, bool); 4] =
    [("none", false), ("mq-deadline", true), ("bfq", false), ("bfq", true)];

/// What Rust tells of each run.
fn ours() -> &'static [Told; RUNS.len()] {
    static OURS: OnceLock<[Told; RUNS.len()]> = OnceLock::new();
    OURS.get_or_init(|| RUNS.map(|(scheduler, batches)| drive(scheduler, TOTAL, batches)))
}

/// Runs a program over all that Rust has run.
fn compare(program: &Path) {
    for ((scheduler, batches), told) in RUNS.into_iter().zip(ours()) {
        assert_eq!((told.issued, told.finished), (TOTAL, TOTAL), "nothing merges, all is done");
        let mode = if batches { "batch" } else { "one" };
        let said = run(Command::new(program).args([scheduler, &TOTAL.to_string(), mode]));
        assert_eq!(first_line(&said), told.to_string(), "{scheduler} {mode}");
    }
}

#[test]
fn c_issues_a_million_in_the_same_order() {
    if !there("gcc", "--version") {
        return;
    }
    let source = here().join("tests/programs/drive.c");
    for link in [Link::Static, Link::Shared] {
        let program = scratch("order").join(format!("drive-{link:?}"));
        compile(&source, &program, &built(), link, &[]);
        match link {
            Link::Static => compare(&program),
            // The same code: one run shows that it links and answers.
            Link::Shared => {
                let output = run(Command::new(&program).args(["bfq", "10000", "batch"]));
                assert_eq!(first_line(&output), drive("bfq", 10_000, true).to_string());
            }
        }
    }
}

#[test]
fn go_issues_a_million_in_the_same_order() {
    if !go_there() || !there("gcc", "--version") {
        return;
    }
    let program = scratch("order").join("drive-go");
    go_build(&here().join("tests/programs/go"), &program, &built());
    compare(&program);
}

#[test]
fn schedulers_differ_in_their_order() {
    let orders = ["none", "mq-deadline", "bfq"].map(|s| drive(s, 10_000, false).order);
    assert!(orders[0] != orders[1] && orders[1] != orders[2], "{orders:?}");
    assert_ne!(drive("bfq", 10_000, false), drive("bfq", 10_000, true), "batches are another load");
}
