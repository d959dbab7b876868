//! Instructions of a bench's rows, counted by valgrind, and the table of recorded ones
//! (`benches/instructions.txt`) that `--check` holds them against.
//!
//! A row runs twice, for two lengths, and the difference leaves out what setting a run up costs. The bench
//! itself is run for it, with `--row "ROW LENGTH"`, and prints how many commands or records that were.

#[path = "../../../hoistway/benches/support/tool_chain.rs"]
mod tool_chain;

use std::fmt::Write;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use tool_chain::{MADE_BY, made_by, tool_chain};

/// A row: its name, and what `--row` runs for the shorter and the longer length.
pub struct Gated {
    pub name: String,
    pub lengths: [String; 2],
}

/// Part by which a figure may exceed the recorded one. A simulation allocates and copies, and libc does so differently on
/// another processor (0.1 %) and in another version.
const TOLERANCE: f64 = 0.03;
const TABLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/instructions.txt");
const HEAD: &str = "\
# Instructions per command and per replayed record, counted by valgrind in a build for tests:
# CARGO_INCREMENTAL=0 cargo test --workspace --features hoistway-cli/plugin --bench path --bench replay -- --record
# (the words of test.sh, so that it shares that build). Compared by -- --check.
";
/// What the figures depend on beside the program.
fn made_here() -> String {
    let tests = if cfg!(debug_assertions) { "tests" } else { "benches" };
    // Incremental builds are cut into other units, and inline less.
    let incremental = option_env!("CARGO_INCREMENTAL").unwrap_or("as the profile has it");
    format!("{}, profile of {tests}, incremental {incremental}", tool_chain())
}

/// Instructions and units of one run.
fn count(what: &str) -> Result<(u64, u64), String> {
    let out = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(std::env::current_exe().expect("the bench knows its own file"))
        .args(["--row", what])
        .output()
        .map_err(|e| format!("valgrind does not run: {e}"))?;
    let log = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{what}: the bench under valgrind failed: {log}");
    let refs = log.lines().find_map(|l| l.split_once("refs:")).map(|l| l.1.trim().replace(',', ""));
    let refs = refs.and_then(|r| r.parse().ok());
    let said = String::from_utf8_lossy(&out.stdout).trim().parse().ok();
    refs.zip(said).ok_or_else(|| panic!("{what}: valgrind counted nothing: {log}"))
}

/// Instructions per command of a row; an error: there is no valgrind.
pub fn instructions(row: &Gated) -> Result<u64, String> {
    let [short, long] = &row.lengths;
    let (short, long) = (count(short)?, count(long)?);
    assert!(long.1 > short.1, "{}: the longer run has no more commands", row.name);
    Ok((long.0 - short.0) / (long.1 - short.1))
}

/// The same of all rows, as many at a time as there are processors.
fn all(rows: &[Gated]) -> Result<Vec<u64>, String> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        while let Some((i, row)) = {
            let i = next.fetch_add(1, Ordering::Relaxed);
            rows.get(i).map(|row| (i, row))
        } {
            done.push((i, instructions(row)?));
        }
        Ok::<_, String>(done)
    };
    let processors = std::thread::available_parallelism().map_or(1, |n| n.get());
    let mut done = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..processors).map(|_| scope.spawn(work)).collect();
        let ended = threads.into_iter().map(|t| t.join().expect("a row that fails ends the bench"));
        ended.collect::<Result<Vec<_>, _>>().map(|parts| parts.concat())
    })?;
    done.sort_unstable();
    Ok(done.into_iter().map(|d| d.1).collect())
}

pub fn line(name: &str, each: u64) -> String {
    format!("{name:<56} {each:>6}")
}

/// The table without its head: names and figures.
fn recorded(text: &str) -> Vec<(String, u64)> {
    let lines = text.lines().filter(|l| !l.starts_with('#'));
    let row = |l: &str| {
        let (name, each) = l.trim_end().rsplit_once(' ')?;
        Some((name.trim_end().to_string(), each.parse().ok()?))
    };
    lines.map(|l| row(l).unwrap_or_else(|| panic!("{TABLE}: '{l}' is no row"))).collect()
}

/// Ends the bench. It compares the rows with the table, or (`anew`) puts their figures into it; the exit status is
/// 1 if one is over its figure by more than the tolerance, or not in the table.
pub fn gate(rows: &[Gated], anew: bool) -> ! {
    let text = std::fs::read_to_string(TABLE).unwrap_or_default();
    let (made, here) = (made_by(&text), made_here());
    if !anew && made != here {
        println!("skipped: {TABLE} was made by {made}; here is {here}");
        std::process::exit(0);
    }
    let counted = all(rows).unwrap_or_else(|why| {
        println!("skipped: instructions are not counted: {why}");
        std::process::exit(i32::from(anew));
    });
    // Figures of another tool chain do not stay.
    let mut table = if made == here { recorded(&text) } else { Vec::new() };
    let mut good = true;
    for (row, each) in rows.iter().zip(counted) {
        let old = table.iter_mut().find(|old| old.0 == row.name);
        let said = match (&old, anew) {
            (_, true) => "recorded".into(),
            (None, false) => "NOT in the table".into(),
            (Some((_, old)), false) => {
                let part = each as f64 / *old as f64 - 1.0;
                let word = if part > TOLERANCE { "MORE than recorded" } else { "of recorded" };
                good &= part <= TOLERANCE;
                format!("{:+.1} %, {word} {old}", 100.0 * part)
            }
        };
        good &= anew || old.is_some();
        println!("{}  {said}", line(&row.name, each));
        match old {
            Some(old) => old.1 = each,
            None => table.push((row.name.clone(), each)),
        }
    }
    if anew {
        let mut text = format!("{HEAD}{MADE_BY}{here}\n");
        for (name, each) in table {
            writeln!(text, "{}", line(&name, each)).expect("a String takes everything");
        }
        std::fs::write(TABLE, text).expect("the table can be written");
    }
    std::process::exit(i32::from(!good));
}
