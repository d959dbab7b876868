//! W11, the sporadic probe: an open loop of single direct random reads. Latency counts from the
//! scheduled time, so that a stall is not hidden by the reads it prevents.

use super::params::ParamDoc;
use super::{BS, Build, Load, LoadEntry, SIZE};
use crate::host::{Advice, FileId, Operation};
use crate::rng::Rng;
use hoistway::{Instant, Nanos};
use hoistway_run::JobError;

pub(super) const ENTRY: LoadEntry = LoadEntry {
    name: "sporadic_probe",
    summary: "one direct random read at every multiple of `interval`, latency from the scheduled time (W11)",
    writes: false,
    params: &[
        ParamDoc {
            name: "interval",
            default: "100 ms",
            doc: "Time between two scheduled reads; a late one does not shift the schedule.",
        },
        BS,
        SIZE,
    ],
    build: |build| Ok(Box::new(ProbeLoad::new(build)?)),
    ..LoadEntry::USUAL
};

#[derive(Debug)]
struct ProbeLoad {
    file: FileId,
    bs: u64,
    blocks: u64,
    interval: Nanos,
    start: Instant,
    rng: Rng,
    /// Number of the next scheduled read.
    turn: u64,
    opened: bool,
}

impl ProbeLoad {
    fn new(build: &mut Build<'_>) -> Result<ProbeLoad, JobError> {
        let interval = build.params.time("interval")?.unwrap_or(100_000_000);
        if interval == 0 || interval > LONGEST {
            let message = format!("interval = {interval} ns: choose a time above 0, at most 24 h");
            return Err(build.params.wrong(message));
        }
        let bs = build.block_size(build.host.sector())?;
        let size = build.size(bs)?;
        Ok(ProbeLoad {
            bs,
            blocks: size / bs,
            interval: Nanos(interval),
            start: build.start,
            rng: build.rng(),
            turn: 0,
            opened: false,
            file: build.host.add_file(size)?,
        })
    }
}

/// Longest interval: a day in ns.
const LONGEST: u64 = 24 * 3_600_000_000_000;

impl Load for ProbeLoad {
    fn next(&mut self, now: Instant) -> Operation {
        if !self.opened {
            self.opened = true;
            return Operation::Open { file: self.file, advice: Advice::Random };
        }
        let due = self.start + self.interval * self.turn;
        if now < due {
            return Operation::Sleep(due);
        }
        self.turn += 1;
        let offset = self.rng.below(self.blocks) * self.bs;
        Operation::Direct { write: false, offset, len: self.bs, since: Some(due), sync: false }
    }
}
