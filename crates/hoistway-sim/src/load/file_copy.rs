//! A copy of a file, as `cp`: reads its source in sequence and writes what it has read into a new file, over and
//! over. Each round is a turn of the phase `copy`.
//!
//! A round begins cold: the cached pages of the source are dropped and the copy of the round before is deleted.
//! It ends when the copy is on the disk (fsync); without that, what is measured is how much memory there is.
//! All copies of a job start their rounds together, at a barrier, as a script does that waits for all of them.

use super::params::ParamDoc;
use super::{Build, Load, LoadEntry};
use crate::host::{Advice, BarrierId, FileId, Notice, Operation, PAGE, SyncKind};
use hoistway::Instant;
use hoistway_run::JobError;

pub(super) const ENTRY: LoadEntry = LoadEntry {
    name: "file_copy",
    summary: "copies its file through the page cache to a new one, several times, and exits; phase `copy`",
    writes: true,
    params: &[
        ParamDoc { name: "size", default: "500 MiB", doc: "Size of the file." },
        ParamDoc { name: "bs", default: "128 KiB", doc: "Bytes read and then written at a time." },
        ParamDoc { name: "times", default: "10", doc: "How often it is copied." },
        ParamDoc {
            name: "sync",
            default: "true",
            doc: "A round ends with an fsync of the copy; otherwise with its last write.",
        },
    ],
    work: &["size"],
    build: |build| Ok(Box::new(FileCopy::new(build)?)),
    ..LoadEntry::USUAL
};

#[derive(Debug)]
struct FileCopy {
    source: FileId,
    copy: FileId,
    start: BarrierId,
    bs: u64,
    blocks: u64,
    times: u64,
    sync: bool,
    step: CopyStep,
}

#[derive(Clone, Copy, Debug)]
enum CopyStep {
    Unlink,
    Forget,
    Meet,
    Begin,
    Create,
    OpenCopy,
    TurnToSource,
    OpenSource,
    /// Block so and so is next: it is read, the copy is turned to, it is written, the source is turned to.
    Read(u64),
    TurnToCopy(u64),
    Write(u64),
    TurnBack(u64),
    Sync,
    End,
}

impl FileCopy {
    fn new(build: &mut Build<'_>) -> Result<FileCopy, JobError> {
        let bs = build.params.bytes("bs")?.unwrap_or(128 << 10);
        if bs == 0 || !bs.is_multiple_of(PAGE) || bs > 1 << 30 {
            return Err(build.params.wrong(format!("bs = {bs}: choose a multiple of {PAGE}")));
        }
        let size = build.size(bs)?;
        Ok(FileCopy {
            source: build.host.add_file(size)?,
            copy: build.host.declare_file(size)?,
            start: build.host.barrier("file_copy"),
            bs,
            blocks: size / bs,
            times: build.params.number("times")?.unwrap_or(10),
            sync: build.params.flag("sync")?.unwrap_or(true),
            step: CopyStep::Forget,
        })
    }
}

impl Load for FileCopy {
    fn next(&mut self, _now: Instant) -> Operation {
        let (source, copy, bs) = (self.source, self.copy, self.bs);
        let (operation, step) = match self.step {
            CopyStep::Unlink => (Operation::Unlink(copy), CopyStep::Forget),
            CopyStep::Forget if self.times == 0 => (Operation::Exit, CopyStep::Forget),
            CopyStep::Forget => (Operation::DontNeed(source), CopyStep::Meet),
            CopyStep::Meet => (Operation::Barrier(self.start), CopyStep::Begin),
            CopyStep::Begin => {
                self.times -= 1;
                (Operation::Tell(Notice::Phase("copy")), CopyStep::Create)
            }
            CopyStep::Create => (Operation::Create(copy), CopyStep::OpenCopy),
            CopyStep::OpenCopy => {
                (Operation::Open { file: copy, advice: Advice::Normal }, CopyStep::TurnToSource)
            }
            CopyStep::TurnToSource => (Operation::TurnOver, CopyStep::OpenSource),
            CopyStep::OpenSource => {
                (Operation::Open { file: source, advice: Advice::Sequential }, CopyStep::Read(0))
            }
            CopyStep::Read(block) => {
                (Operation::Read { offset: block * bs, bs, count: 1 }, CopyStep::TurnToCopy(block))
            }
            CopyStep::TurnToCopy(block) => (Operation::TurnOver, CopyStep::Write(block)),
            CopyStep::Write(block) => {
                let sync = SyncKind::No;
                let write = Operation::Write { offset: block * bs, bs, count: 1, sync };
                let last = if self.sync { CopyStep::Sync } else { CopyStep::End };
                (write, if block + 1 == self.blocks { last } else { CopyStep::TurnBack(block + 1) })
            }
            CopyStep::TurnBack(block) => (Operation::TurnOver, CopyStep::Read(block)),
            CopyStep::Sync => (Operation::Fsync(copy), CopyStep::End),
            CopyStep::End => (Operation::Tell(Notice::PhaseEnd), CopyStep::Unlink),
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
    fn each_round_reads_a_block_and_writes_it_until_all_are_copied() {
        let drive = DriveFile::load("plextor-px-256m5s").unwrap();
        let mut host = Host::new(HostConfig::profile("2019").unwrap(), &drive, Sectors(1024), 1);
        let table: toml::Table = "size = \"256k\"\ntimes = 2".parse().unwrap();
        let params = Params::new("copy", &table, ENTRY.params).unwrap();
        let start = Instant::ZERO;
        let mut build = Build { params, host: &mut host, index: 0, seed: 1, start };
        let mut load = (ENTRY.build)(&mut build).unwrap();
        let (mut text, mut open, mut other) = (String::new(), None, None);
        let mut source = None;
        loop {
            let word = match load.next(start) {
                Operation::DontNeed(file) => {
                    source = Some(file);
                    "\nforget".to_string()
                }
                Operation::Barrier(_) => "meet".into(),
                Operation::Tell(Notice::Phase("copy")) => "begin".into(),
                Operation::Tell(Notice::PhaseEnd) => "end".into(),
                Operation::Create(_) => "create".into(),
                Operation::Unlink(_) => "unlink".into(),
                Operation::Open { file, .. } => {
                    open = Some(file);
                    continue;
                }
                Operation::TurnOver => {
                    std::mem::swap(&mut open, &mut other);
                    continue;
                }
                Operation::Read { offset, bs: 131_072, count: 1 } => {
                    assert_eq!(open, source);
                    format!("R{offset}")
                }
                Operation::Write { offset, bs: 131_072, count: 1, sync: SyncKind::No } => {
                    assert_ne!(open, source);
                    format!("W{offset}")
                }
                Operation::Fsync(file) => {
                    assert_eq!(open, Some(file));
                    "fsync".into()
                }
                Operation::Exit => break,
                other => panic!("{other:?}"),
            };
            text.push_str(&word);
            text.push(' ');
        }
        let round = "meet begin create R0 W0 R131072 W131072 fsync end unlink ";
        assert_eq!(text, format!("\nforget {round}").repeat(2));
    }
}
