//! Instructions per operation, counted by valgrind: the same on a busy machine and on a quiet one, so a
//! change can be compared with a file (`benches/instructions.txt`).

#[path = "tool_chain.rs"]
mod tool_chain;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;
use std::process::Command;
use tool_chain::{MADE_BY, made_by, tool_chain};

/// What is counted: the functions of the bench around the calls, and the whole turn.
const OPERATIONS: [&str; 3] = ["op_insert", "op_dispatch", "op_complete"];
/// Part by which a count may exceed the recorded one, of an operation and of the sums, and instructions that it may in any
/// case. The counts of one source and tool chain are the same on every machine. But a change of one scheduler alters what
/// the compiler inlines in others: up to 6.5 % of an operation and 3.1 % of a sum were seen.
const TOLERANCES: [f64; 5] = [0.08, 0.08, 0.08, 0.04, 0.04];
const FEW: f64 = 3.0;
/// Turns that are counted.
const TURNS: u64 = 20_000;

/// A line of the table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Counts {
    /// Per turn, in insert (with prepare), dispatch, complete.
    pub operations: [f64; 3],
    /// Per turn, of the scheduler alone: the operations without what the bench's functions around the calls
    /// take themselves.
    pub alone: f64,
    /// Per turn: one request put in, taken out and completed. The bench's own are included.
    pub turn: f64,
}

/// The line of a scheduler with that many busy queues, each of a process with that many requests; `tree`:
/// in groups.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Row {
    pub scheduler: String,
    pub queues: usize,
    pub pending: usize,
    pub tree: bool,
}

/// Is the tool there? The reason if not.
pub fn available() -> Result<(), String> {
    match Command::new("valgrind").arg("--version").output() {
        Ok(out) if out.status.success() => Ok(()),
        Ok(out) => Err(format!("valgrind fails: {}", String::from_utf8_lossy(&out.stderr).trim())),
        Err(e) => Err(format!("valgrind does not run: {e}")),
    }
}

/// Runs this bench under callgrind for one row.
pub fn count(row: &Row, set: &[(String, u64)]) -> Counts {
    let name = format!("hoistway-instructions-{}.out", std::process::id());
    let file = std::env::temp_dir().join(name);
    let (queues, pending) = (row.queues.to_string(), row.pending.to_string());
    let mut command = Command::new("valgrind");
    command
        .args(["--tool=callgrind", "--collect-atstart=no", "--toggle-collect=*counted_turns*"])
        .arg(format!("--callgrind-out-file={}", file.display()))
        .arg(std::env::current_exe().expect("the bench knows its own file"))
        .args(["--only", &row.scheduler, "--runs", "1", "--turns", &TURNS.to_string()]);
    for (name, value) in set {
        command.args(["--set", &format!("{name}={value}")]);
    }
    match row.tree {
        true => command.arg("--groups"),
        false => command.args(["--queues", &queues, "--pending", &pending]),
    };
    let out = command.output().expect("valgrind ran a moment ago");
    let errors = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{row:?}: the bench under valgrind failed: {errors}");
    let written = std::fs::read_to_string(&file);
    let profile = written.unwrap_or_else(|e| panic!("valgrind left no profile: {e}\n{errors}"));
    std::fs::remove_file(&file).expect("the profile can be removed");
    let total = errors.lines().find_map(|l| l.split_once("Collected :"));
    let (_, total) = total.unwrap_or_else(|| panic!("valgrind counted nothing: {errors}"));
    let total: f64 = total.trim().parse().expect("a number of instructions");
    // By turn, not by call: valgrind counts calls also where it counts no instructions, in the warm-up.
    let operations = OPERATIONS.map(|f| inclusive(&profile, f) as f64 / TURNS as f64);
    let own = OPERATIONS.map(|f| exclusive(&profile, f) as f64 / TURNS as f64);
    let alone = operations.iter().sum::<f64>() - own.iter().sum::<f64>();
    Counts { operations, alone, turn: total / TURNS as f64 }
}

/// Instructions of a function itself, what is inlined into it included, those it calls not: the lines
/// `PLACE INSTRUCTIONS` behind its `fn=` but those that follow a `calls=`.
fn exclusive(profile: &str, function: &str) -> u64 {
    let (mut mine, mut call, mut sum) = (false, false, 0);
    let mut ids = Vec::new();
    for line in profile.lines() {
        if let Some(name) = line.strip_prefix("fn=") {
            let id = name.split(' ').next().unwrap_or(name);
            if name.contains(function) && !ids.contains(&id) {
                ids.push(id);
            }
            mine = ids.contains(&id);
        } else if let Some(name) = line.strip_prefix("cfn=") {
            // A name may be written in full where it is first called.
            if let Some((id, name)) = name.split_once(' ')
                && name.contains(function)
            {
                ids.push(id);
            }
        } else if line.starts_with("calls=") {
            call = true;
        } else if mine && line.starts_with(|c: char| c.is_ascii_digit() || "+-*".contains(c)) {
            if !call {
                let cost = line.split(' ').nth(1).expect("a place and a cost");
                sum += cost.parse::<u64>().expect("a number of instructions");
            }
            call = false;
        } else if line.starts_with(|c: char| c.is_ascii_digit() || "+-*".contains(c)) {
            call = false;
        }
    }
    sum
}

/// Instructions of a function, those it calls included, from a callgrind profile: behind each `cfn=` of it
/// stand `calls=NUMBER ...` and a line `PLACE INSTRUCTIONS`.
fn inclusive(profile: &str, function: &str) -> u64 {
    // Names are written in full once, as `(7) name`, and as `(7)` from then on.
    let id = profile.lines().find_map(|l| {
        let (id, name) = l.strip_prefix("cfn=").or(l.strip_prefix("fn="))?.split_once(' ')?;
        name.contains(function).then_some(id)
    });
    let id = id.unwrap_or_else(|| panic!("no {function} in the profile"));
    let mut sum = 0u64;
    let mut lines = profile.lines();
    while let Some(line) = lines.next() {
        if line.strip_prefix("cfn=").and_then(|l| l.split(' ').next()) != Some(id) {
            continue;
        }
        let calls = lines.next().is_some_and(|l| l.starts_with("calls="));
        assert!(calls, "calls= follows cfn=");
        let cost = lines.next().and_then(|l| l.split(' ').nth(1)).expect("a place and a cost");
        sum += cost.parse::<u64>().expect("a number of instructions");
    }
    sum
}

/// The recorded table.
fn path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("benches/instructions.txt")
}

pub fn heading() -> String {
    format!(
        "{:<18} {:>7} {:>8} {:<7} {:>8} {:>9} {:>9} {:>7} {:>7}",
        "# scheduler",
        "queues",
        "requests",
        "groups",
        "insert",
        "dispatch",
        "complete",
        "alone",
        "turn"
    )
}

pub fn line(row: &Row, counts: &Counts) -> String {
    let [insert, dispatch, complete] = counts.operations;
    format!(
        "{:<18} {:>7} {:>8} {:<7} {insert:>8.0} {dispatch:>9.0} {complete:>9.0} {:>7.0} {:>7.0}",
        row.scheduler,
        row.queues,
        row.pending,
        if row.tree { "tree" } else { "root" },
        counts.alone,
        counts.turn
    )
}

/// Why counts of here cannot be held against the table.
pub fn incomparable() -> Option<String> {
    let text = std::fs::read_to_string(path()).expect("the table is in the repository");
    let (made, here) = (made_by(&text), tool_chain());
    (made != here).then(|| format!("the table was made by {made}; here is {here}"))
}

/// Writes the table anew.
pub fn record(rows: &[(Row, Counts)]) {
    let mut text = String::from(
        "# Instructions per turn, by operation (insert includes prepare), of the scheduler alone (the three\n\
         # without the bench's functions around the calls) and in all, counted by valgrind:\n\
         # cargo bench -p hoistway --bench sched_cost -- --record; compared by -- --check.\n",
    );
    writeln!(text, "{MADE_BY}{}", tool_chain()).expect("a String takes everything");
    writeln!(text, "{}", heading()).expect("a String takes everything");
    for (row, counts) in rows {
        writeln!(text, "{}", line(row, counts)).expect("a String takes everything");
    }
    std::fs::write(path(), text).expect("the table can be written");
}

/// The rows of the recorded table.
pub fn recorded() -> BTreeMap<Row, Counts> {
    let text = std::fs::read_to_string(path()).expect("the table is in the repository");
    let mut rows = BTreeMap::new();
    for line in text.lines().filter(|l| !l.starts_with('#') && !l.trim().is_empty()) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let &[scheduler, queues, pending, groups, insert, dispatch, complete, alone, turn] =
            &words[..]
        else {
            panic!("{}: '{line}' has not nine columns", path().display());
        };
        let number = |t: &str| t.parse::<f64>().expect("a count is a number");
        let row = Row {
            scheduler: scheduler.into(),
            queues: queues.parse().expect("a number of queues"),
            pending: pending.parse().expect("a number of requests"),
            tree: groups == "tree",
        };
        let operations = [insert, dispatch, complete].map(number);
        rows.insert(row, Counts { operations, alone: number(alone), turn: number(turn) });
    }
    rows
}

/// What a count says beside the recorded one; `Err`: it is over it by more than the tolerance.
pub fn compare(old: &Counts, new: &Counts) -> Result<String, String> {
    let names = ["insert", "dispatch", "complete", "alone", "turn"];
    let old = old.operations.into_iter().chain([old.alone, old.turn]);
    let new = new.operations.into_iter().chain([new.alone, new.turn]);
    let mut over = Vec::new();
    let mut under = Vec::new();
    for (((name, old), new), tolerance) in names.into_iter().zip(old).zip(new).zip(TOLERANCES) {
        let part = new / old - 1.0;
        let told = format!("{name} {:+.1} % ({old:.0} to {new:.0})", 100.0 * part);
        // The table has whole numbers.
        if part > tolerance && new - old > FEW {
            over.push(told);
        } else if part < -tolerance && old - new > FEW {
            under.push(told);
        }
    }
    match (over.is_empty(), under.is_empty()) {
        (false, _) => Err(over.join(", ")),
        (true, false) => Ok(format!("less than recorded, record anew: {}", under.join(", "))),
        (true, true) => Ok("as recorded".into()),
    }
}
