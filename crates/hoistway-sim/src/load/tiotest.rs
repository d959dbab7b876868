//! W7, a thread of tiotest: write a file, write it at random, read it, read it at random, each phase together
//! with all other threads.
//!
//! A barrier stands before each phase, so that the phases of all threads lie on top of each other as far as
//! their speeds let them. At the end of a phase every thread calls fsync on its file and closes it: that is
//! part of the phase's time, and of no call's latency. Caches are not dropped in between: what the write phase
//! left in memory the read phase finds there.
//!
//! Random offsets are drawn with replacement, so some blocks are met twice and others never.

use super::params::ParamDoc;
use super::{BS, Build, Load, LoadEntry};
use crate::host::{Advice, BarrierId, FileId, Notice, Operation, PAGE, SyncKind};
use crate::rng::Rng;
use hoistway::Instant;
use hoistway_run::JobError;

pub(super) const ENTRY: LoadEntry = LoadEntry {
    name: "tiotest",
    summary: "a thread of tiotest: writes its new file, writes it at random, reads it, reads it at random, \
              each phase together with all others, an fsync at the end of each; then exits (W7)",
    writes: true,
    params: &[
        BS,
        ParamDoc { name: "size", default: "80 MiB", doc: "Size of the thread's own file." },
        ParamDoc {
            name: "rops",
            default: "1000",
            doc: "Calls of each of the two random phases, at offsets drawn with replacement.",
        },
    ],
    work: &["size", "rops"],
    build: |build| Ok(Box::new(Tiotest::new(build)?)),
    ..LoadEntry::USUAL
};

/// The phases in their order.
const PHASES: [&str; 4] = ["write", "rand-write", "read", "rand-read"];

#[derive(Debug)]
struct Tiotest {
    file: FileId,
    start: BarrierId,
    bs: u64,
    blocks: u64,
    rops: u64,
    rng: Rng,
    /// Index into [`PHASES`].
    phase: usize,
    step: TiotestStep,
}

#[derive(Clone, Copy, Debug)]
enum TiotestStep {
    Meet,
    Begin,
    Create,
    Open,
    /// So many calls of a random phase are left.
    Calls(u64),
    Sync,
    End,
}

impl Tiotest {
    fn new(build: &mut Build<'_>) -> Result<Tiotest, JobError> {
        let bs = build.block_size(PAGE)?;
        let size = build.params.bytes("size")?.unwrap_or(80 << 20);
        if size < bs {
            let message = format!("size = {size}: choose at least one block of {bs}");
            return Err(build.params.wrong(message));
        }
        Ok(Tiotest {
            file: build.host.declare_file(size / bs * bs)?,
            start: build.host.barrier("tiotest"),
            bs,
            blocks: size / bs,
            rops: build.params.number("rops")?.unwrap_or(1000),
            rng: build.rng(),
            phase: 0,
            step: TiotestStep::Meet,
        })
    }

    /// Phases write or read, and go through the file or about it.
    fn calls(&mut self, left: u64) -> (Operation, TiotestStep) {
        let (writes, random) = (self.phase < 2, self.phase % 2 == 1);
        let (offset, count) = match random {
            true => (self.rng.below(self.blocks) * self.bs, 1),
            false => (0, self.blocks),
        };
        let bs = self.bs;
        let operation = match writes {
            true => Operation::Write { offset, bs, count, sync: SyncKind::No },
            false => Operation::Read { offset, bs, count },
        };
        let left = if random { left - 1 } else { 0 };
        (operation, if left == 0 { TiotestStep::Sync } else { TiotestStep::Calls(left) })
    }
}

impl Load for Tiotest {
    fn next(&mut self, _now: Instant) -> Operation {
        let (operation, step) = match self.step {
            TiotestStep::Meet if self.phase == PHASES.len() => (Operation::Exit, TiotestStep::Meet),
            TiotestStep::Meet => (Operation::Barrier(self.start), TiotestStep::Begin),
            TiotestStep::Begin => {
                let step = if self.phase == 0 { TiotestStep::Create } else { TiotestStep::Open };
                (Operation::Tell(Notice::Phase(PHASES[self.phase])), step)
            }
            TiotestStep::Create => (Operation::Create(self.file), TiotestStep::Open),
            TiotestStep::Open => {
                let open = Operation::Open { file: self.file, advice: Advice::Normal };
                let idle = self.phase % 2 == 1 && self.rops == 0;
                (open, if idle { TiotestStep::Sync } else { TiotestStep::Calls(self.rops) })
            }
            TiotestStep::Calls(left) => self.calls(left),
            TiotestStep::Sync => (Operation::Fsync(self.file), TiotestStep::End),
            TiotestStep::End => {
                self.phase += 1;
                (Operation::Tell(Notice::PhaseEnd), TiotestStep::Meet)
            }
        };
        self.step = step;
        operation
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drive::DriveFile;
    use crate::host::{Host, HostConfig};
    use crate::load::params::Params;
    use hoistway::Sectors;

    #[test]
    fn four_phases_each_behind_a_barrier_each_ending_with_an_fsync() {
        let drive = DriveFile::load("laptop-hdd-2009-noncq").unwrap();
        let mut host = Host::new(HostConfig::profile("2009").unwrap(), &drive, Sectors(1024), 1);
        let table: toml::Table = "size = \"1m\"\nrops = 3".parse().unwrap();
        let params = Params::new("tiotest", &table, ENTRY.params).unwrap();
        let start = Instant::ZERO;
        let mut build = Build { params, host: &mut host, index: 0, seed: 1, start };
        let mut load = (ENTRY.build)(&mut build).unwrap();
        let mut text = String::new();
        loop {
            let word = match load.next(start) {
                Operation::Barrier(_) => "\nmeet".to_string(),
                Operation::Tell(Notice::Phase(name)) => name.into(),
                Operation::Tell(Notice::PhaseEnd) => "end".into(),
                Operation::Create(_) => "create".into(),
                Operation::Open { advice: Advice::Normal, .. } => "open".into(),
                Operation::Fsync(_) => "fsync".into(),
                Operation::Write { offset: 0, bs: 4096, count: 256, sync: SyncKind::No } => {
                    "W".into()
                }
                Operation::Read { offset: 0, bs: 4096, count: 256 } => "R".into(),
                Operation::Write { offset, bs: 4096, count: 1, sync: SyncKind::No } => {
                    assert!(offset % 4096 == 0 && offset < 1 << 20);
                    "w".into()
                }
                Operation::Read { offset, bs: 4096, count: 1 } => {
                    assert!(offset % 4096 == 0 && offset < 1 << 20);
                    "r".into()
                }
                Operation::Exit => break,
                other => panic!("{other:?}"),
            };
            text.push_str(&word);
            text.push(' ');
        }
        let phases = [
            "write create open W fsync end",
            "rand-write open w w w fsync end",
            "read open R fsync end",
            "rand-read open r r r fsync end",
        ];
        let expected: String = phases.map(|p| format!("\nmeet {p} ")).concat();
        assert_eq!(text, expected);
    }
}
