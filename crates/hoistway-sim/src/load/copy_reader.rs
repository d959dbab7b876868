//! W9, a copy to nothing: reads so many bytes in sequence through the page cache and exits. How long it took is
//! its phase `copy`.

use super::params::ParamDoc;
use super::{Build, Load, LoadEntry};
use crate::host::{Advice, FileId, Notice, Operation};
use crate::world::JobError;
use hoistway::Instant;

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
    step: Step,
}

#[derive(Clone, Copy, Debug)]
enum Step {
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
        Ok(CopyReader { file, bs, calls, step: Step::Begin })
    }
}

impl Load for CopyReader {
    fn next(&mut self, _now: Instant) -> Operation {
        let file = self.file;
        let (operation, step) = match self.step {
            Step::Begin => (Operation::Tell(Notice::Phase("copy")), Step::Forget),
            Step::Forget => (Operation::DontNeed(file), Step::Open),
            Step::Open => (Operation::Open { file, advice: Advice::Normal }, Step::Read),
            Step::Read => {
                (Operation::Read { offset: 0, bs: self.bs, count: self.calls }, Step::End)
            }
            Step::End => (Operation::Tell(Notice::PhaseEnd), Step::Exit),
            Step::Exit => (Operation::Exit, Step::Exit),
        };
        self.step = step;
        operation
    }
}
