//! `git grep`: threads that read every file of the tree once, in the order of its directories.
//!
//! *Model.* The job's processes with this load are its threads. Each takes the next file that nobody has taken and reads
//! it in one call. Files have 4 to 32 KiB; two thirds of them lie behind the file before them. A thread has an I/O context
//! of its own, as in Linux, so that to a scheduler they are processes.
//!
//! *Figure.* The time from the mark `start` to the mark `done`, when the last thread has come to the end; or the mark
//! that it was given up after `limit`. The first process of the job sets them.
//!
//! *Weaknesses.* No look-ups of directories and inodes, no computing.

use crate::host::{Advice, BarrierId, FileId, Host, Notice, Operation};
use crate::load::params::ParamDoc;
use crate::load::tree::{self, PAGE};
use crate::load::{Build, Load, LoadEntry};
use crate::rng::stream;
use hoistway::{Instant, Nanos};
use hoistway_run::JobError;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

pub(in crate::load) const GREP: LoadEntry = LoadEntry {
    name: "git_grep",
    summary: "a thread of a search through all files of a tree; the time of the whole is that of the marks (7.3)",
    params: &[
        ParamDoc {
            name: "files",
            default: "60000",
            doc: "Files of the tree, 1 to 1000000; the same for all threads.",
        },
        ParamDoc {
            name: "together",
            default: "0.667",
            doc: "Probability that a file lies behind the one before it, 0 to 1.",
        },
        ParamDoc { name: "limit", default: "60 s", doc: "The search is given up after so long." },
    ],
    work: &["files"],
    build: |build| Ok(Box::new(Grep::new(build)?)),
    ..LoadEntry::USUAL
};

/// Sizes of the files.
const FILE: (u64, u64) = (4 << 10, 32 << 10);
const PROGRAM: &str = "git-grep";

/// What the threads have in common.
#[derive(Debug)]
struct GrepTree {
    file: FileId,
    /// Place and size of each, in the order of the directories.
    places: Vec<(u64, u64)>,
    next: AtomicU64,
}

#[derive(Clone, Copy, Debug)]
enum GrepStep {
    Start,
    Open,
    Read,
    Meet,
    Tell,
    Leave,
}

#[derive(Debug)]
struct Grep {
    tree: Arc<GrepTree>,
    barrier: BarrierId,
    /// It sets the marks.
    first: bool,
    begun: Instant,
    limit: Nanos,
    step: GrepStep,
}

impl Grep {
    fn new(build: &mut Build<'_>) -> Result<Grep, JobError> {
        let params = &build.params;
        let files = params.number("files")?.unwrap_or(60_000);
        if !(1..=1_000_000).contains(&files) {
            return Err(params.wrong(format!("files = {files}: choose 1 to 1000000")));
        }
        let together = params.real("together")?.unwrap_or(2.0 / 3.0);
        if !(0.0..=1.0).contains(&together) {
            return Err(params.wrong(format!("together = {together}: choose a probability")));
        }
        let limit = Nanos(params.time("limit")?.unwrap_or(60_000_000_000));
        let mut first = false;
        let tree = build.host.shared_memory(PROGRAM, |host: &mut Host| {
            first = true;
            let mut rng = stream(build.seed, PROGRAM);
            let (places, bytes) = tree::in_runs(files, together, FILE, &mut rng);
            let bytes = bytes.next_multiple_of(PAGE);
            Ok(GrepTree { file: host.add_file(bytes)?, places, next: AtomicU64::new(0) })
        })?;
        let barrier = build.host.barrier(PROGRAM);
        Ok(Grep { tree, barrier, first, begun: Instant::ZERO, limit, step: GrepStep::Start })
    }

    fn is_done(&self) -> bool {
        self.tree.next.load(Ordering::Relaxed) >= self.tree.places.len() as u64
    }
}

impl Load for Grep {
    fn next(&mut self, now: Instant) -> Operation {
        loop {
            match self.step {
                GrepStep::Start => {
                    self.step = GrepStep::Open;
                    self.begun = now;
                    if self.first {
                        return Operation::Tell(Notice::Mark("start"));
                    }
                }
                GrepStep::Open => {
                    self.step = GrepStep::Read;
                    return Operation::Open { file: self.tree.file, advice: Advice::Random };
                }
                GrepStep::Read if now - self.begun >= self.limit || self.is_done() => {
                    self.step = GrepStep::Meet
                }
                GrepStep::Read => {
                    let k = self.tree.next.fetch_add(1, Ordering::Relaxed);
                    let Some(&(offset, bs)) = self.tree.places.get(k as usize) else { continue };
                    return Operation::Read { offset, bs, count: 1 };
                }
                GrepStep::Meet => {
                    self.step = GrepStep::Tell;
                    return Operation::Barrier(self.barrier);
                }
                GrepStep::Tell => {
                    self.step = GrepStep::Leave;
                    if self.first {
                        let notice = match self.is_done() {
                            true => Notice::Mark("done"),
                            false => Notice::GivenUp(self.limit),
                        };
                        return Operation::Tell(notice);
                    }
                }
                GrepStep::Leave => return Operation::Exit,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drive::DriveFile;
    use crate::host::HostConfig;
    use crate::load::params::Params;
    use hoistway::Sectors;

    #[test]
    fn threads_read_every_file_once_and_the_first_tells_when_all_are_done() {
        let drive = DriveFile::load("hitachi-hts727550a9e364").unwrap();
        let mut host = Host::new(HostConfig::profile("today").unwrap(), &drive, Sectors(1024), 1);
        let table: toml::Table = "files = 300".parse().unwrap();
        let mut threads: Vec<Grep> = (0..8)
            .map(|index| {
                let params = Params::new("target", &table, GREP.params).unwrap();
                let start = Instant::ZERO;
                Grep::new(&mut Build { params, host: &mut host, index, seed: 1, start }).unwrap()
            })
            .collect();
        let (mut reads, mut marks, mut met) = (Vec::new(), Vec::new(), 0);
        let mut left: Vec<usize> = (0..8).collect();
        let mut turn = 0;
        while !left.is_empty() {
            turn = (turn + 3) % left.len();
            let p = left[turn];
            match threads[p].next(Instant::ZERO) {
                Operation::Read { offset, bs, count: 1 } => reads.push((offset, bs)),
                Operation::Tell(Notice::Mark(mark)) => marks.push((p, mark)),
                Operation::Barrier(_) => met += 1,
                Operation::Open { advice: Advice::Random, .. } => {}
                Operation::Exit => drop(left.remove(turn)),
                other => panic!("{other:?}"),
            }
        }
        reads.sort_unstable();
        reads.dedup();
        assert_eq!((reads.len(), met), (300, 8));
        assert_eq!(marks, [(0, "start"), (0, "done")]);
    }

    #[test]
    fn a_search_that_takes_too_long_is_given_up() {
        let drive = DriveFile::load("hitachi-hts727550a9e364").unwrap();
        let mut host = Host::new(HostConfig::profile("today").unwrap(), &drive, Sectors(1024), 1);
        let table: toml::Table = "limit = \"2s\"".parse().unwrap();
        let params = Params::new("target", &table, GREP.params).unwrap();
        let start = Instant::ZERO;
        let mut grep =
            Grep::new(&mut Build { params, host: &mut host, index: 0, seed: 1, start }).unwrap();
        let mut ops = Vec::new();
        for ms in [0, 0, 1, 1999, 2000, 2000, 2000] {
            ops.push(grep.next(Instant::ZERO + Nanos::ms(ms)));
        }
        assert!(matches!(ops[3], Operation::Read { .. }), "{:?}", ops[3]);
        assert!(matches!(ops[4], Operation::Barrier(_)), "{:?}", ops[4]);
        assert_eq!(ops[5], Operation::Tell(Notice::GivenUp(Nanos::secs(2))));
        assert_eq!(ops[6], Operation::Exit);
    }
}
