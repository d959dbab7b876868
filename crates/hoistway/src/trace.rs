//! The trace sink: every step of every I/O, and the reasons of the stages, as small `Copy` records.
//!
//! A trace is off, a running digest (two runs with the same seed must agree on it), or a buffer of
//! records. When it is off a step costs one test.

use crate::group::{GroupId, ProcId};
use crate::request::{Op, Side};
use crate::unit::{Instant, QueueId, Sectors};
use alloc::vec::Vec;

/// One step. Numbers of requests and bios are their slots; sizes and places are in sectors.
#[allow(missing_docs)] // The fields are what their types and the variant say.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Event {
    /// An I/O was submitted.
    Queued { io: u64, proc: ProcId, group: GroupId, op: Op, start: Sectors, sectors: Sectors },
    /// A controller holds a bio; `stage` is its place among the installed ones.
    Held { bio: u32, stage: u8 },
    /// A held bio goes on.
    Released { bio: u32 },
    /// A bio joined a request.
    Merged { bio: u32, into: u32, side: Side },
    /// Two requests became one.
    Joined { kept: u32, gone: u32 },
    /// The scheduler was given a request.
    Inserted { req: u32, proc: ProcId, start: Sectors, sectors: Sectors },
    /// A request went to the device.
    Issued { req: u32, queue: QueueId, proc: ProcId, op: Op, start: Sectors, sectors: Sectors },
    /// The device gave it back unserved.
    Requeued { req: u32 },
    /// The device completed it.
    Done { req: u32 },
    /// A submitted I/O is finished.
    Finished { io: u64 },
    /// A reason of a stage.
    Why(Why),
}

/// Why a stage did what it did: `what` names the decision, `of` its subject (a queue, process or group
/// number of that stage), `a` and `b` are its figures.
///
/// Schedulers with queues tell whose they are: "queue of process" has the queue as its subject, the
/// process as its first figure and 1 (sync) or 0 (async) as its second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Why {
    /// Name of the decision, such as "expired: budget exhausted".
    pub what: &'static str,
    /// Subject.
    pub of: u32,
    /// First figure; its meaning belongs to `what`.
    pub a: i64,
    /// Second figure.
    pub b: i64,
}

/// A step and its time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Record {
    /// When.
    pub at: Instant,
    /// What.
    pub event: Event,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Off,
    Digest,
    Keep,
}

/// The sink.
#[derive(Clone, Debug)]
pub struct Trace {
    mode: Mode,
    digest: u64,
    count: u64,
    limit: usize,
    dropped: u64,
    records: Vec<Record>,
}

impl Default for Trace {
    fn default() -> Trace {
        Trace::off()
    }
}

impl Trace {
    /// Nothing is recorded.
    pub fn off() -> Trace {
        Trace {
            mode: Mode::Off,
            digest: 0xcbf2_9ce4_8422_2325,
            count: 0,
            limit: 0,
            dropped: 0,
            records: Vec::new(),
        }
    }

    /// Only the digest is kept.
    pub fn digest_only() -> Trace {
        Trace { mode: Mode::Digest, ..Trace::off() }
    }

    /// The first `limit` records are kept, the digest covers all; what did not fit is counted.
    pub fn keep(limit: usize) -> Trace {
        Trace { mode: Mode::Keep, limit, ..Trace::off() }
    }

    /// True unless off.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.mode != Mode::Off
    }

    /// Records a step.
    #[inline]
    pub fn emit(&mut self, at: Instant, event: Event) {
        if self.mode != Mode::Off {
            self.record(at, event);
        }
    }

    /// Records a reason.
    #[inline]
    pub fn why(&mut self, at: Instant, what: &'static str, of: u32, a: i64, b: i64) {
        if self.mode != Mode::Off {
            self.record(at, Event::Why(Why { what, of, a, b }));
        }
    }

    /// Digest of every step so far: equal runs have equal digests.
    pub fn digest(&self) -> u64 {
        self.digest
    }

    /// Number of steps so far.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Steps that did not fit into the buffer.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// The kept records.
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// Takes the kept records out.
    pub fn take(&mut self) -> Vec<Record> {
        core::mem::take(&mut self.records)
    }

    fn record(&mut self, at: Instant, event: Event) {
        self.count += 1;
        self.mix(at.as_nanos());
        match event {
            Event::Queued { io, proc, group, op, start, sectors } => {
                self.mix2(1 | (op as u64) << 8 | u64::from(proc.0) << 32, io);
                self.mix2(start.0, sectors.0 | u64::from(group.0) << 40);
            }
            Event::Held { bio, stage } => {
                self.mix(2 | u64::from(stage) << 8 | u64::from(bio) << 32)
            }
            Event::Released { bio } => self.mix(3 | u64::from(bio) << 32),
            Event::Merged { bio, into, side } => {
                self.mix2(4 | (side as u64) << 8 | u64::from(bio) << 32, into.into());
            }
            Event::Joined { kept, gone } => self.mix2(5 | u64::from(kept) << 32, gone.into()),
            Event::Inserted { req, proc, start, sectors } => {
                self.mix2(6 | u64::from(req) << 32, start.0);
                self.mix(sectors.0 | u64::from(proc.0) << 32);
            }
            Event::Issued { req, queue, proc, op, start, sectors } => {
                self.mix2(7 | (op as u64) << 8 | u64::from(queue.0) << 16, start.0);
                self.mix2(sectors.0 | u64::from(proc.0) << 32, req.into());
            }
            Event::Requeued { req } => self.mix(8 | u64::from(req) << 32),
            Event::Done { req } => self.mix(9 | u64::from(req) << 32),
            Event::Finished { io } => self.mix2(10, io),
            Event::Why(w) => {
                for chunk in w.what.as_bytes().chunks(8) {
                    let mut word = [0u8; 8];
                    word[..chunk.len()].copy_from_slice(chunk);
                    self.mix(u64::from_le_bytes(word));
                }
                self.mix2(11 | u64::from(w.of) << 32, w.a as u64);
                self.mix(w.b as u64);
            }
        }
        if self.mode == Mode::Keep {
            if self.records.len() < self.limit {
                self.records.push(Record { at, event });
            } else {
                self.dropped += 1;
            }
        }
    }

    fn mix2(&mut self, a: u64, b: u64) {
        self.mix(a);
        self.mix(b);
    }

    /// One multiply-rotate step per word: fast, order-sensitive, the same on every platform.
    fn mix(&mut self, word: u64) {
        self.digest = (self.digest ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29);
    }
}
