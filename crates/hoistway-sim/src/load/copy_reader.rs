//! W9, a copy to nothing: reads so many bytes in sequence through the page cache and exits. How long it took is
//! its phase `copy`.

use super::params::ParamDoc;
use super::{Build, Load, LoadEntry};
use crate::host::{Advice, FileId, Notice, Operation};
use hoistway::Instant;
use hoistway_run::JobError;

pub(super) const ENTRY: LoadEntry = LoadEntry {
    name: "copy_reader",
    summary: "reads so many bytes of its file in sequence, in large calls, and exits; phase `copy` (W9)",
    params: &[
        ParamDoc {
            name: "bytes",
            default: "200 MiB",
            doc: "How much it reads; the size of its file.",
        },
        ParamDoc { name: "bs", default: "1 MiB", doc: "Bytes of a call." },
        ParamDoc { name: "delay", default: "0 s", doc: "It begins so long after its start." },
    ],
    work: &["bytes"],
    build: |build| Ok(Box::new(CopyReader::new(build)?)),
    ..LoadEntry::USUAL
};

#[derive(Debug)]
struct CopyReader {
    file: FileId,
    bs: u64,
    calls: u64,
    begin: Instant,
    step: CopyReaderStep,
}

#[derive(Clone, Copy, Debug)]
enum CopyReaderStep {
    Delay,
    Begin,
    Forget,
    Open,
    Read,
    End,
    Exit,
}

impl CopyReader {
    fn new(build: &mut Build<'_>) -> Result<CopyReader, JobError> {
        let bs = build.params.bytes("bs")?.unwrap_or(1 << 20);
        if bs == 0 || bs > 1 << 30 {
            return Err(build.params.wrong(format!("bs = {bs}: choose 1 to {}", 1 << 30)));
        }
        let bytes = build.params.bytes("bytes")?.unwrap_or(200 << 20);
        if bytes < bs {
            return Err(build.params.wrong(format!("bytes = {bytes}: choose at least {bs}")));
        }
        let calls = bytes / bs;
        let file = build.host.add_file(calls * bs)?;
        let delay = build.params.time("delay")?.unwrap_or(0);
        let begin = Instant::from_nanos(build.start.as_nanos().saturating_add(delay));
        let step = if delay == 0 { CopyReaderStep::Begin } else { CopyReaderStep::Delay };
        Ok(CopyReader { file, bs, calls, begin, step })
    }
}

impl Load for CopyReader {
    fn next(&mut self, _now: Instant) -> Operation {
        let file = self.file;
        let (operation, step) = match self.step {
            CopyReaderStep::Delay => (Operation::Sleep(self.begin), CopyReaderStep::Begin),
            CopyReaderStep::Begin => {
                (Operation::Tell(Notice::Phase("copy")), CopyReaderStep::Forget)
            }
            CopyReaderStep::Forget => (Operation::DontNeed(file), CopyReaderStep::Open),
            CopyReaderStep::Open => {
                (Operation::Open { file, advice: Advice::Normal }, CopyReaderStep::Read)
            }
            CopyReaderStep::Read => {
                (Operation::Read { offset: 0, bs: self.bs, count: self.calls }, CopyReaderStep::End)
            }
            CopyReaderStep::End => (Operation::Tell(Notice::PhaseEnd), CopyReaderStep::Exit),
            CopyReaderStep::Exit => (Operation::Exit, CopyReaderStep::Exit),
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
    use hoistway::{Nanos, Sectors};

    #[test]
    fn it_reads_its_file_once_cold_and_ends() {
        let drive = DriveFile::load("plextor-px-256m5s").unwrap();
        let mut host = Host::new(HostConfig::profile("2019").unwrap(), &drive, Sectors(1024), 1);
        let table: toml::Table = "bytes = \"3500k\"\ndelay = \"1s\"".parse().unwrap();
        let params = Params::new("copy", &table, ENTRY.params).unwrap();
        let start = Instant::ZERO + Nanos::ms(5);
        let mut build = Build { params, host: &mut host, index: 0, seed: 1, start };
        let mut load = (ENTRY.build)(&mut build).unwrap();
        let all: Vec<Operation> = (0..7).map(|_| load.next(start)).collect();
        let Operation::DontNeed(file) = all[2] else { panic!("{:?}", all[2]) };
        let expected = [
            Operation::Sleep(start + Nanos::secs(1)),
            Operation::Tell(Notice::Phase("copy")),
            Operation::DontNeed(file),
            Operation::Open { file, advice: Advice::Normal },
            // Whole calls only.
            Operation::Read { offset: 0, bs: 1 << 20, count: 3 },
            Operation::Tell(Notice::PhaseEnd),
            Operation::Exit,
        ];
        assert_eq!(all, expected);
    }
}
