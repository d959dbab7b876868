//! Every call into a scheduler of Linux, with its answer, while scenarios are carried out in a guest.
//!
//! The host's side of [`actor`](super::actor): boots a kernel with the actor as its process 1, and takes the recordings
//! apart that the kernel has written (`linux/driver/hoistway_record.c`).

use super::actor::scenario::Scenario;
use super::actor::{DONE, FAILED, STALE, STILL, mark};
use super::{Boot, Kernel, twice};
use crate::MachineError;
use hoistway_sim::drive::DriveFile;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

/// Memory of the guest.
const MEMORY_MIB: u32 = 384;
/// The verb of this program that is the guest's process 1.
pub const ACTOR: &str = "linux-actor";

/// Why not all scenarios were recorded.
#[derive(Debug)]
pub struct NotRecorded {
    /// The first that was not, by its place.
    pub at: usize,
    /// What went wrong.
    pub error: MachineError,
}

/// What scenarios are carried out on.
#[derive(Clone, Copy, Debug)]
pub struct Recorder<'a> {
    /// The kernel.
    pub kernel: &'a Kernel,
    /// Of the drive's model.
    pub seed: u64,
    /// This program, which is the guest's too.
    pub program: &'a Path,
    /// A folder of the caller's for what passes between host and guest.
    pub folder: &'a Path,
}

impl Recorder<'_> {
    /// The recordings of these scenarios, carried out one after the other on one drive, in one boot as long as the groups
    /// of each go. A guest that fails at it is followed by one more, and `say` hears why; not one that stands still.
    /// `reported` gets what the kernels report of themselves on their consoles, of those that fail too: warnings, failed checks,
    /// wrong accesses.
    ///
    /// # Errors
    ///
    /// The kernel does not boot, a scenario cannot be carried out or does not end, or `watch` said `false`.
    pub fn record(
        &self,
        drive: &DriveFile,
        scenarios: &[Scenario],
        watch: &mut dyn FnMut() -> bool,
        say: &mut dyn FnMut(&str),
        reported: &mut Vec<String>,
    ) -> Result<Vec<String>, NotRecorded> {
        let mut all = Vec::new();
        while all.len() < scenarios.len() {
            let rest = &scenarios[all.len()..];
            let some = twice(say, || self.attempt(drive, rest, watch, reported));
            all.extend(some.map_err(|error| {
                // What the guest has handed over before it failed.
                let done = fs::read_to_string(self.calls()).map_or(0, |text| whole(&text));
                NotRecorded { at: all.len() + done, error }
            })?);
        }
        Ok(all)
    }

    /// The file that the kernel writes.
    fn calls(&self) -> PathBuf {
        self.folder.join("calls")
    }

    /// One boot: at least the first of them.
    fn attempt(
        &self,
        drive: &DriveFile,
        scenarios: &[Scenario],
        watch: &mut dyn FnMut() -> bool,
        reported: &mut Vec<String>,
    ) -> Result<Vec<String>, MachineError> {
        let mut init: Vec<OsString> = vec![self.program.into(), ACTOR.into()];
        let mut files = Vec::new();
        for (n, scenario) in scenarios.iter().enumerate() {
            let file = self.folder.join(format!("scenario-{n}.txt"));
            os("writing", &file, fs::write(&file, scenario.to_string()))?;
            init.push(file.clone().into());
            files.push(file);
        }
        let calls = self.calls();
        let _ = fs::remove_file(&calls);
        let boot = Boot {
            kernel: self.kernel,
            drive,
            seed: self.seed,
            memory_mib: MEMORY_MIB,
            init,
            record: Some(calls.clone()),
        };
        let ended = boot.run(watch).inspect_err(|error| {
            // A guest that dies has its last words in the error.
            reported.extend(reports(&error.to_string()));
        })?;
        reported.extend(reports(&ended.console));
        let failed = |what: String| Err(MachineError::Guest(what));
        if let Some(why) = ended.console.lines().find_map(|line| line.strip_prefix(STILL)) {
            // Another guest would do the same.
            return Err(MachineError::Program(format!("stands still: {why}")));
        }
        if let Some(line) = ended.console.lines().find_map(|line| line.strip_prefix(FAILED)) {
            return failed(format!("in the guest: {line}"));
        }
        let done = ended.console.lines().filter(|line| line.starts_with(DONE)).count();
        let stale = ended.console.lines().any(|line| line == STALE);
        if done != files.len() && !(stale && done > 0) {
            let last: Vec<&str> = ended.console.lines().rev().take(12).collect();
            let last: Vec<&str> = last.into_iter().rev().collect();
            return failed(format!(
                "{done} of {} scenarios were carried out; the guest's last words:\n{}",
                files.len(),
                last.join("\n")
            ));
        }
        let text = os("reading", &calls, fs::read_to_string(&calls))?;
        let _ = fs::remove_file(&calls);
        apart(&text, &files[..done]).or_else(failed)
    }
}

fn os<T>(what: &str, path: &Path, result: std::io::Result<T>) -> Result<T, MachineError> {
    result.map_err(|error| MachineError::Os { what: format!("{what} {}", path.display()), error })
}

/// How a report of the kernel about itself begins.
const REPORTS: [&str; 10] = [
    "BUG: ",
    "UBSAN: ",
    "WARNING: ",
    "INFO: ",
    "rcu: INFO: ",
    "kernel BUG at ",
    "general protection fault",
    "list_add corruption",
    "list_del corruption",
    "refcount_t: ",
];
/// In the line of our module that says that a scheduler is switched off.
const FAILED_INSIDE: &str = ": the scheduler has failed (";
/// User-mode Linux's fork walks this tree without the lock that PROVE_RCU wants, whatever runs in it. The place is in the third
/// line behind the first of the report.
const USUAL: &str = "lib/maple_tree.c";
const PLACE: usize = 3;

/// First lines of the reports on a console.
fn reports(console: &str) -> Vec<String> {
    let lines: Vec<&str> = console.lines().map(|line| without_time(line.trim_start())).collect();
    let begins = |line: &str| {
        REPORTS.iter().any(|first| line.starts_with(first)) || line.contains(FAILED_INSIDE)
    };
    let usual = |n: usize| {
        let place = lines.get(n + PLACE).is_some_and(|line| line.starts_with(USUAL));
        place && lines[n].contains("suspicious RCU usage")
    };
    let found = lines.iter().enumerate().filter(|(n, line)| begins(line) && !usual(*n));
    found.map(|(_, line)| without_process(line)).collect()
}

/// A line of the kernel's may begin with `[    1.234567] `, and with its caller with `[    1.234567][    T1] `.
fn without_time(line: &str) -> &str {
    let Some((front, rest)) = line.strip_prefix('[').and_then(|l| l.split_once("] ")) else {
        return line;
    };
    let time = front.split(']').next().unwrap_or(front);
    if time.trim().parse::<f64>().is_ok() { rest } else { line }
}

/// The same report of two boots is one: the number of its process differs.
fn without_process(line: &str) -> String {
    let Some((before, behind)) = line.split_once("PID: ") else { return line.to_string() };
    format!("{before}PID: *{}", behind.trim_start_matches(|c: char| c.is_ascii_digit()))
}

/// How many recordings a text has from begin to end.
fn whole(text: &str) -> usize {
    text.lines().filter(|line| *line == "end").count()
}

/// The recordings in the order of the scenarios.
fn apart(text: &str, files: &[PathBuf]) -> Result<Vec<String>, String> {
    let mut all = Vec::new();
    let mut rest = text;
    for (n, file) in files.iter().enumerate() {
        let head = format!("begin {}\n", file.display());
        let found = rest.strip_prefix(&head).and_then(|rest| rest.split_once("\nend\n"));
        let Some((recording, after)) = found else {
            return Err(format!("the recording of {} is not there, or not whole", file.display()));
        };
        // Later scenarios have larger numbers, so this one is no part of another's that is found here.
        all.push(format!("{}\n", recording.replace(&mark(n), "")));
        rest = after;
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_reports_is_found_on_its_console() {
        let console = "hoistway: done: /x/0\n[    0.000000] =====\n[    1.250000] BUG: KASAN: use-after-free in f+0x1\n\
                       WARNING: suspicious RCU usage\n6.1 Not tainted\n---\nlib/maple_tree.c:856 suspicious!\n\
                       WARNING: suspicious RCU usage\n6.1\n---\nblock/x.c:1 suspicious!\n[x] BUG: no\n\
                       [ 1.2][    T1] WARNING: CPU: 0 PID: 731 at block/x.c:2 f+0x1\n\
                       hoistway: hw0: the scheduler has failed (index); requests are served\nit WARNING: no\n";
        let found = [
            "BUG: KASAN: use-after-free in f+0x1",
            "WARNING: suspicious RCU usage",
            "WARNING: CPU: 0 PID: * at block/x.c:2 f+0x1",
            "hoistway: hw0: the scheduler has failed (index); requests are served",
        ];
        assert_eq!(reports(console), found);
    }

    #[test]
    fn recordings_are_taken_apart_in_order() {
        let files = [PathBuf::from("/x/0"), PathBuf::from("/x/1")];
        let text = "begin /x/0\nevent\na@0/x@0\nend\nbegin /x/1\nevent,b@1,a@0\nend\n";
        let both = ["event\na/x\n", "event,b,a@0\n"];
        assert_eq!(apart(text, &files).unwrap(), both, "a group of an earlier one is another");
        assert_eq!((whole(text), whole(&text[..text.len() - 4]), whole("")), (2, 1, 0));
        assert!(apart("begin /x/0\nevent\na\n", &files[..1]).unwrap_err().contains("not whole"));
    }
}
