//! The background sync of the start-up and throughput tests (specs/experiments.md 3.3).

use super::params::ParamDoc;
use super::{Build, Load, LoadEntry};
use crate::host::Operation;
use hoistway::{Instant, Nanos};
use hoistway_run::JobError;

pub(super) const ENTRY: LoadEntry = LoadEntry {
    name: "syncer",
    summary: "calls sync() at every multiple of `interval`",
    writes: true,
    params: &[
        ParamDoc {
            name: "interval",
            default: "2 s",
            doc: "Time between two calls; a long one makes others fall out, and shifts none.",
        },
        ParamDoc { name: "count", default: "0", doc: "It exits after so many calls; 0: never." },
    ],
    build: |build| Ok(Box::new(Syncer::new(build)?)),
    ..LoadEntry::USUAL
};

#[derive(Debug)]
struct Syncer {
    interval: Nanos,
    due: Instant,
    /// Calls left; `None`: without end.
    left: Option<u64>,
}

impl Syncer {
    fn new(build: &mut Build<'_>) -> Result<Syncer, JobError> {
        let interval = build.params.time("interval")?.unwrap_or(2_000_000_000);
        if interval == 0 {
            return Err(build.params.wrong("interval = 0: choose a time above 0".into()));
        }
        let left = build.params.number("count")?.filter(|&n| n > 0);
        Ok(Syncer { interval: Nanos(interval), due: build.start, left })
    }
}

impl Load for Syncer {
    fn next(&mut self, now: Instant) -> Operation {
        if self.left == Some(0) {
            return Operation::Exit;
        }
        if now < self.due {
            return Operation::Sleep(self.due);
        }
        self.due += self.interval;
        if self.due <= now {
            // Calls that were missed are not made up for.
            let missed = now.since(self.due).0 / self.interval.0;
            self.due += self.interval * (missed + 1);
        }
        self.left = self.left.map(|n| n - 1);
        Operation::Sync
    }
}
