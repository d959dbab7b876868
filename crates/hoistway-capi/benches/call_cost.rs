//! What the border costs: the load of `tests/support/drive.rs` in Rust, in C and in Go, one call at a time and in
//! batches of 32.
//!
//! C beside Rust in instructions, counted by valgrind: those of a long run without those of a short one, by I/O.
//! Go beside C in processor time, in turns, medians of the rounds: a busy machine hurts both.
//!
//! The static library is built as `install.sh` builds it. *Premise*, asserted: each program issues every I/O,
//! and in the order in which Rust does.
//!
//! *Limits*, asserted: a request costs C at most 350 instructions more than Rust, 150 in batches, and Go at most
//! 0.1 us more than C, in batches. `--quick` does without Go.

// The tests use other parts of it.
#[allow(dead_code)]
#[path = "../tests/support/mod.rs"]
mod support;

#[path = "../tests/support/drive.rs"]
mod drive;

use drive::drive;
use std::path::{Path, PathBuf};
use std::process::Command;
use support::{Link, compile, first_line, go_build, go_there, here, run, there};

/// I/Os of the two runs whose difference counts: the load is in its stride in both.
const SHORT: u64 = 5_000;
const LONG: u64 = 25_000;
const SCHEDULERS: [&str; 3] = ["none", "mq-deadline", "bfq"];
/// More than Rust, by I/O.
const MOST_ONE: f64 = 350.0;
const MOST_BATCH: f64 = 150.0;
/// I/Os, and pairs of runs, of a time.
const TIMED: u64 = 500_000;
const ROUNDS: usize = 11;
const MOST_GO_NS: f64 = 100.0;

/// A program with its arguments before `SCHEDULER TOTAL MODE`.
type Program<'a> = (&'a Path, &'a [&'a str]);

/// Instructions of a whole run.
fn instructions((program, before): Program<'_>, scheduler: &str, total: u64, mode: &str) -> u64 {
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]).arg(program);
    valgrind.args(before).args([scheduler, &total.to_string(), mode]);
    let output = run(&mut valgrind);
    let batches = mode == "batch";
    assert_eq!(first_line(&output), drive(scheduler, total, batches).to_string(), "same order");
    let errors = String::from_utf8_lossy(&output.stderr);
    let counted = errors.lines().find_map(|l| l.split_once("Collected :"));
    let (_, counted) = counted.unwrap_or_else(|| panic!("valgrind counted nothing: {errors}"));
    counted.trim().parse().expect("a number of instructions")
}

/// Instructions of an I/O.
fn each(program: Program<'_>, scheduler: &str, mode: &str) -> f64 {
    let [short, long] = [SHORT, LONG].map(|n| instructions(program, scheduler, n, mode));
    (long - short) as f64 / (LONG - SHORT) as f64
}

/// The folder with the static library, built for programs: alone, so that the whole of it is optimised.
fn library() -> PathBuf {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["rustc", "--quiet", "--release", "--package", "hoistway-capi", "--lib"]);
    cargo.args(["--crate-type", "staticlib"]).current_dir(here());
    run(&mut cargo);
    // The bench lies in `deps` of the same folder.
    let release = support::built();
    release.parent().expect("deps lies in the folder of the profile").into()
}

/// Nanoseconds of processor time that a program says an I/O took.
fn timed(program: &Path, scheduler: &str) -> f64 {
    let output = run(Command::new(program).args([scheduler, &TIMED.to_string(), "batch"]));
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().nth(1).and_then(|l| l.strip_suffix(" ns"));
    line.expect("the second line is a time").parse().expect("a number")
}

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

/// The table of instructions; what is over its limit.
fn count(c: &Path) -> Vec<String> {
    let me = std::env::current_exe().expect("the bench knows its own file");
    let mut over = Vec::new();
    println!("{:<12} {:<6} {:>6} {:>6} {:>6}", "scheduler", "calls", "Rust", "C", "more");
    for scheduler in SCHEDULERS {
        for (mode, most) in [("one", MOST_ONE), ("batch", MOST_BATCH)] {
            let rust = each((&me, &["--rust"]), scheduler, mode);
            let c = each((c, &[]), scheduler, mode);
            println!("{scheduler:<12} {mode:<6} {rust:>6.0} {c:>6.0} {:>+6.0}", c - rust);
            if c - rust > most {
                over.push(format!("{scheduler} {mode}: {:+.0} instructions, not {most}", c - rust));
            }
        }
    }
    over
}

/// The table of times; what is over its limit.
fn time(c: &Path, go: &Path) -> Vec<String> {
    let mut over = Vec::new();
    println!("\n{:<12} {:<6} {:>6} {:>6} {:>6}   ns of processor time", "", "", "C", "Go", "more");
    for scheduler in SCHEDULERS {
        let (mut of_c, mut of_go, mut more) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let pair = (timed(c, scheduler), timed(go, scheduler));
            of_c.push(pair.0);
            of_go.push(pair.1);
            more.push(pair.1 - pair.0);
        }
        let (c, go, more) = (median(of_c), median(of_go), median(more));
        println!("{scheduler:<12} {:<6} {c:>6.0} {go:>6.0} {more:>+6.0}", "batch");
        if more > MOST_GO_NS {
            over.push(format!("{scheduler}: Go takes {more:.0} ns more than C"));
        }
    }
    over
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [rust, scheduler, total, mode] = &arguments[..]
        && rust == "--rust"
    {
        let total = total.parse().expect("a number of I/Os");
        return println!("{}", drive(scheduler, total, mode == "batch"));
    }
    if !there("gcc", "--version") || !there("valgrind", "--version") {
        return;
    }
    let folder = support::scratch("cost");
    let (c, go) = (folder.join("drive-c"), folder.join("drive-go"));
    let library = library();
    compile(&here().join("tests/programs/drive.c"), &c, &library, Link::Static, &[]);
    let mut over = count(&c);
    if !arguments.iter().any(|a| a == "--quick") && go_there() {
        go_build(&here().join("tests/programs/go"), &go, &library);
        over.extend(time(&c, &go));
    }
    assert!(over.is_empty(), "over the limit:\n{}", over.join("\n"));
}
