//! The book on every I/O: accepted once, finished once, each of its sectors served once, flushes and
//! barriers where they belong. It knows nothing of how the stack does that.

use hoistway::stack::IoError;
use hoistway::{Flags, Instant, Io, IoId, Op, Request, Stack};
use std::collections::BTreeSet;

/// A rule that was broken: its name, and what was seen.
#[derive(Clone, Debug, PartialEq)]
pub struct Broken {
    /// Name of the rule; a shrunk case breaks the same one.
    pub rule: String,
    /// What was seen.
    pub what: String,
}

/// Breaks `rule` unless `holds`.
pub(crate) fn demand(
    holds: bool,
    rule: &'static str,
    what: impl FnOnce() -> String,
) -> Result<(), Broken> {
    if holds { Ok(()) } else { Err(Broken { rule: rule.into(), what: what() }) }
}

/// One I/O.
#[derive(Clone, Debug)]
struct Record {
    io: Io,
    since: Instant,
    accepted: Option<u64>,
    finished: bool,
    /// Sectors with the device, and served.
    out: u64,
    served: u64,
    /// Some of its data failed; a flush failed that it may have waited for.
    failed: bool,
    excused: bool,
    /// Number of the latest flush that was issued before it was submitted, and before its data was served.
    before: u64,
    behind: u64,
}

/// All I/Os of a run.
#[derive(Debug, Default)]
pub struct Ledger {
    records: Vec<Record>,
    open: BTreeSet<u64>,
    acceptances: u64,
    /// I/Os take their place among the others when they are accepted.
    in_order: bool,
    /// Unfinished I/Os by order of acceptance; barriers among them.
    order: BTreeSet<(u64, u64)>,
    barriers: BTreeSet<(u64, u64)>,
    /// Flush commands issued, those with the device, and the latest that succeeded.
    flushes: u64,
    flying: Vec<(u32, u64)>,
    flushed: u64,
}

impl Ledger {
    /// Empty; `in_order`: no I/O is accepted before it takes its place among the others.
    pub fn new(in_order: bool) -> Ledger {
        Ledger { in_order, ..Ledger::default() }
    }

    /// The id of the next I/O.
    pub fn next(&self) -> IoId {
        IoId(self.records.len() as u64)
    }

    /// Number of I/Os submitted.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// True before the first.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// I/Os that are not finished.
    pub fn open(&self) -> usize {
        self.open.len()
    }

    /// The oldest I/O that is not finished.
    pub fn oldest(&self) -> Option<(&Io, Instant)> {
        let record = &self.records[*self.open.first()? as usize];
        Some((&record.io, record.since))
    }

    /// Who submitted it.
    pub fn io(&self, id: IoId) -> Option<&Io> {
        self.records.get(id.0 as usize).map(|r| &r.io)
    }

    /// How old it is.
    pub fn age(&self, id: IoId, now: Instant) -> u64 {
        self.records.get(id.0 as usize).map_or(0, |r| now.since(r.since).0)
    }

    pub(crate) fn submitted(&mut self, io: Io, now: Instant) {
        self.open.insert(io.id.0);
        self.records.push(Record {
            io,
            since: now,
            accepted: None,
            finished: false,
            out: 0,
            served: 0,
            failed: false,
            excused: false,
            before: self.flushes,
            behind: self.flushes,
        });
    }

    fn record(&mut self, id: IoId) -> Result<&mut Record, Broken> {
        self.records.get_mut(id.0 as usize).ok_or_else(|| Broken {
            rule: "only submitted I/Os are spoken of".into(),
            what: format!("I/O {} was never submitted", id.0),
        })
    }

    pub(crate) fn accepted(&mut self, id: IoId) -> Result<(), Broken> {
        let n = self.acceptances;
        self.acceptances += 1;
        let record = self.record(id)?;
        let again = record.accepted.replace(n).is_some();
        demand(!again && !record.finished, "accepted once, before it is finished", || {
            format!("I/O {} was accepted or finished before", id.0)
        })?;
        let barrier = record.io.flags.any(Flags::BARRIER);
        self.order.insert((n, id.0));
        if barrier {
            self.barriers.insert((n, id.0));
        }
        Ok(())
    }

    pub(crate) fn finished(
        &mut self,
        id: IoId,
        result: Result<(), IoError>,
        device: &hoistway::Device,
    ) -> Result<(), Broken> {
        let flushed = self.flushed;
        let record = self.record(id)?;
        demand(!std::mem::replace(&mut record.finished, true), "finished once", || {
            format!("I/O {} is finished again", id.0)
        })?;
        let Some(n) = record.accepted else {
            return demand(false, "accepted before it is finished", || format!("I/O {}", id.0));
        };
        demand(record.out == 0, "nothing finishes while it is with the device", || {
            format!("I/O {}: {} sectors are", id.0, record.out)
        })?;
        if result.is_ok() {
            let data = if record.io.op == Op::Flush { 0 } else { record.io.sectors.0 };
            demand(!record.failed && record.served == data, "what succeeds was served", || {
                format!(
                    "I/O {}: {} of {data} sectors, failed: {}",
                    id.0, record.served, record.failed
                )
            })?;
            let flush = needs_flush_behind(&record.io, device);
            demand(!flush || flushed > record.behind, "FUA and flushes are on the medium", || {
                format!("I/O {}: no flush since its data was served", id.0)
            })?;
        } else {
            demand(
                record.failed || record.excused,
                "only what failed is finished with an error",
                || format!("I/O {}: {result:?}", id.0),
            )?;
        }
        self.open.remove(&id.0);
        self.order.remove(&(n, id.0));
        self.barriers.remove(&(n, id.0));
        Ok(())
    }

    /// A command goes to the device.
    pub(crate) fn issued(&mut self, stack: &Stack, r: &Request) -> Result<(), Broken> {
        let device = &stack.env().device;
        if r.op == Op::Flush {
            self.flushes += 1;
            self.flying.push((r.id.slot(), self.flushes));
            return Ok(());
        }
        demand(
            r.sectors.0 > 0 && r.end() <= device.capacity,
            "commands lie on the device",
            || format!("{} + {} of {}", r.start.0, r.sectors.0, device.capacity.0),
        )?;
        let mut at = r.start;
        for (_, bio) in stack.env().requests.bios(r.id) {
            demand(
                bio.start == at && bio.op == r.op,
                "the bios of a request are its range",
                || format!("I/O {} at {}, expected at {}", bio.id.0, bio.start.0, at.0),
            )?;
            at = bio.end();
            self.bio_issued(bio, r, device)?;
        }
        demand(at == r.end(), "the bios of a request are its range", || {
            format!("they end at {}, the request at {}", at.0, r.end().0)
        })
    }

    fn bio_issued(
        &mut self,
        bio: &Io,
        r: &Request,
        device: &hoistway::Device,
    ) -> Result<(), Broken> {
        let flushed = self.flushed;
        let record = self.record(bio.id)?;
        record.out += bio.sectors.0;
        let (io, out, served) = (record.io, record.out, record.served);
        let inside = bio.start >= io.start && bio.end() <= io.end() && !record.finished;
        demand(inside && out + served <= io.sectors.0, "nothing is issued twice", || {
            format!("I/O {}: {out} sectors out, {served} served, of {}", io.id.0, io.sectors.0)
        })?;
        let cached = device.write_cache;
        let barrier = io.flags.any(Flags::BARRIER);
        let pre = cached && io.flags.any(Flags::PREFLUSH);
        demand(!pre || flushed > record.before, "PREFLUSH: a flush goes before", || {
            format!("I/O {} is issued without one", io.id.0)
        })?;
        let fua = cached && device.fua && io.flags.any(Flags::FUA);
        demand(!fua || r.flags.any(Flags::FUA), "FUA reaches a device that knows it", || {
            format!("I/O {} is issued without it", io.id.0)
        })?;
        let Some(n) = record.accepted.filter(|_| self.in_order) else { return Ok(()) };
        let earlier = |set: &BTreeSet<(u64, u64)>| set.first().is_some_and(|first| first.0 < n);
        let passed = earlier(&self.barriers) || (barrier && earlier(&self.order));
        demand(!passed, "nothing passes a barrier", || format!("I/O {} does", io.id.0))
    }

    /// The device answers: `given_back` unserved, served, or with an error.
    pub(crate) fn answered(
        &mut self,
        stack: &Stack,
        r: &Request,
        given_back: bool,
        error: Option<IoError>,
    ) {
        if r.op == Op::Flush {
            let at = self.flying.iter().position(|f| f.0 == r.id.slot());
            let (_, number) = self.flying.swap_remove(at.expect("it was noted when issued"));
            if !given_back && error.is_none() {
                self.flushed = self.flushed.max(number);
            }
        }
        let flushes = self.flushes;
        for (_, bio) in stack.env().requests.bios(r.id) {
            let Some(record) = self.records.get_mut(bio.id.0 as usize) else { continue };
            record.out -= bio.sectors.0;
            if !given_back && error.is_none() {
                record.served += bio.sectors.0;
                record.behind = flushes;
            }
            record.failed |= !given_back && error.is_some();
        }
    }

    /// A flush failed: whoever waits for one may fail with it.
    pub(crate) fn flush_failed(&mut self) {
        let waits = Flags::PREFLUSH | Flags::FUA | Flags::BARRIER;
        for &id in &self.open {
            let record = &mut self.records[id as usize];
            record.excused |= record.io.flags.any(waits) || record.io.op == Op::Flush;
        }
    }
}

/// A flush must follow what it did: an empty flush, or forced unit access that the device does not know.
fn needs_flush_behind(io: &Io, device: &hoistway::Device) -> bool {
    let pure = io.op == Op::Flush;
    let fua = io.flags.any(Flags::FUA | Flags::BARRIER);
    device.write_cache && (pure || (fua && !device.fua))
}
