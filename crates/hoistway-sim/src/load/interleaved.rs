//! W8, interleaved readers: process i of N reads blocks i, i + N, i + 2N, ... of the device, one buffered call
//! each. Each of them seeks, all of them together read in sequence.
//!
//! A scheduler that serves one process at a time and waits for its next read waits in vain: that read lies N
//! blocks further on, and those between belong to others. What it takes is to see that processes read side by
//! side (CFQ's cooperating processes, BFQ's queue merging), or not to wait at all.

use super::params::ParamDoc;
use super::{Build, Load, LoadEntry};
use crate::host::{Advice, FileId, Operation, PAGE};
use hoistway::Instant;
use hoistway_run::JobError;

pub(super) const ENTRY: LoadEntry = LoadEntry {
    name: "interleaved",
    summary: "one of N processes on the raw device: reads a block, skips those of the N - 1 others, and so \
              on (W8)",
    params: &[
        ParamDoc {
            name: "processes",
            default: "3",
            doc: "N: how many of these processes there are; write as many as `count` says.",
        },
        ParamDoc { name: "bs", default: "16 KiB", doc: "Bytes of a block, one buffered call." },
        ParamDoc {
            name: "size",
            default: "the device",
            doc: "The N processes share so much of the device, from its beginning on; then from the start.",
        },
    ],
    build: |build| Ok(Box::new(Interleaved::new(build)?)),
    ..LoadEntry::USUAL
};

#[derive(Debug)]
struct Interleaved {
    device: FileId,
    bs: u64,
    /// Bytes from one block of this process to its next, and where its first lies.
    stride: u64,
    first: u64,
    /// Bytes that all of them share.
    size: u64,
    next: u64,
    step: InterleavedStep,
}

#[derive(Clone, Copy, Debug)]
enum InterleavedStep {
    Forget,
    Open,
    Read,
}

impl Interleaved {
    fn new(build: &mut Build<'_>) -> Result<Interleaved, JobError> {
        let processes = build.params.number("processes")?.unwrap_or(3);
        if !(1..=10_000).contains(&processes) {
            let message = format!("processes = {processes}: choose 1 to 10000");
            return Err(build.params.wrong(message));
        }
        let bs = build.params.bytes("bs")?.unwrap_or(16 << 10);
        if bs == 0 || !bs.is_multiple_of(PAGE) || bs > 1 << 30 {
            return Err(build.params.wrong(format!("bs = {bs}: choose a multiple of {PAGE}")));
        }
        let stride = processes * bs;
        let capacity = build.host.capacity();
        let size = build.params.bytes("size")?.unwrap_or(capacity).min(capacity) / stride * stride;
        if size == 0 {
            let message = format!("size: choose at least {stride}, a block of each process");
            return Err(build.params.wrong(message));
        }
        let seats = build.host.barrier(&format!("interleaved {processes} {bs} {size}"));
        let number = build.host.joined(seats) - 1;
        if number >= processes {
            let message = format!("processes = {processes}, but this is one more of them");
            return Err(build.params.wrong(message));
        }
        let device = build.host.device_file()?;
        let first = number * bs;
        Ok(Interleaved {
            device,
            bs,
            stride,
            first,
            size,
            next: first,
            step: InterleavedStep::Forget,
        })
    }
}

impl Load for Interleaved {
    fn next(&mut self, _now: Instant) -> Operation {
        let file = self.device;
        match self.step {
            InterleavedStep::Forget => {
                self.step = InterleavedStep::Open;
                Operation::DontNeedPart { file, offset: 0, len: self.size }
            }
            InterleavedStep::Open => {
                self.step = InterleavedStep::Read;
                Operation::Open { file, advice: Advice::Sequential }
            }
            InterleavedStep::Read => {
                let offset = self.next;
                self.next += self.stride;
                if self.next >= self.size {
                    (self.next, self.step) = (self.first, InterleavedStep::Forget);
                }
                Operation::Read { offset, bs: self.bs, count: 1 }
            }
        }
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
    fn together_they_read_every_block_once_and_begin_again() {
        let drive = DriveFile::load("plextor-px-256m5s").unwrap();
        let mut host = Host::new(HostConfig::profile("2019").unwrap(), &drive, Sectors(1024), 1);
        let table: toml::Table = "processes = 3\nsize = \"100k\"".parse().unwrap();
        let start = Instant::ZERO;
        let mut build = |index| {
            let params = Params::new("i", &table, ENTRY.params).unwrap();
            (ENTRY.build)(&mut Build { params, host: &mut host, index, seed: 1, start })
        };
        let mut offsets = Vec::new();
        for i in 0..3 {
            let mut load = build(i).unwrap();
            for _ in 0..2 {
                let forgets = load.next(start);
                assert!(matches!(forgets, Operation::DontNeedPart { offset: 0, len: 98304, .. }));
                assert!(matches!(load.next(start), Operation::Open { .. }));
                for _ in 0..2 {
                    match load.next(start) {
                        Operation::Read { offset, bs: 16384, count: 1 } => {
                            offsets.push(offset >> 14)
                        }
                        other => panic!("{other:?}"),
                    }
                }
            }
        }
        assert_eq!(offsets, [0, 3, 0, 3, 1, 4, 1, 4, 2, 5, 2, 5]);
        let error = build(3).unwrap_err().to_string();
        assert!(error.contains("processes = 3, but this is one more of them"), "{error}");
    }
}
