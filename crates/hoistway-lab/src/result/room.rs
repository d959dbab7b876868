//! What reading somebody's run directory may cost.
//!
//! Records are compressed well: a file of 14 MB can hold a gigabyte of text, and a short text can stand for a large
//! table. So the text is metered as it is decompressed, and what is kept of it is charged by its size in memory before
//! the next piece is read.

use super::{Cell, KnownNames, Rep, RepFigures};
use crate::experiment::bounds::RUNS_MAX;
use hoistway_run::{Histogram, Interval, PhaseRecord, ProcRecord};
use std::cell::{Cell as Shared, RefCell};
use std::collections::BTreeSet;
use std::io::{self, Read};
use std::mem::size_of;
use std::rc::Rc;

/// Most bytes of a file of records, decompressed.
pub(super) const TEXT_MAX: u64 = 1 << 30;
/// Most bytes of a repetition in `histograms.json`, and of a run that is kept: 1.3 KB for each of as many processes as
/// there may be, which have done some twenty I/Os then.
const REP_TEXT_MAX: u64 = 128 << 20;
/// Most memory that the records of a run take.
const MEMORY_MAX: usize = 256 << 20;
/// Most memory that the records of all runs take that a command reads.
const TOGETHER_MAX: usize = 512 << 20;
/// What a manifest takes in memory, for each byte of its text.
const MANIFEST: usize = 8;
/// Rows that a repetition has in `metrics.csv`, and more for each phase and count of it, in bytes of memory.
const METRICS: usize = 8 << 10;
const METRICS_OF_ONE: usize = 4 << 10;
/// Most names of phases and counts: some tables have a row for each.
const NAMES_MAX: usize = 200;
/// What a short name takes beside its letters.
const NAME: usize = 48;

/// Most cells: each has a run at least.
const CELLS_MAX: usize = RUNS_MAX as usize;

/// The memory that is left for the records of all runs that a command reads: who reads many gives it to each.
#[derive(Clone, Debug)]
pub struct Together(Rc<Shared<usize>>);

impl Default for Together {
    fn default() -> Together {
        Together(Rc::new(Shared::new(TOGETHER_MAX)))
    }
}

impl Together {
    fn take(&self, bytes: usize) -> Result<(), String> {
        let left = self.0.get().checked_sub(bytes);
        self.0.set(left.ok_or_else(|| {
            format!(
                "with it the records of all runs so far take more than {} MiB of memory; give fewer run directories at once",
                TOGETHER_MAX >> 20
            )
        })?);
        Ok(())
    }

    /// A manifest of so many bytes is read.
    pub(super) fn manifest(&self, text: usize) -> Result<(), String> {
        self.take(text.saturating_mul(MANIFEST))
    }
}

/// What may still be read.
#[derive(Debug)]
pub(super) struct Room {
    together: Together,
    memory: Shared<usize>,
    runs: Shared<u64>,
    cells: Shared<usize>,
    /// Bytes of text: of the file, and of the repetition.
    file: Shared<u64>,
    rep: Shared<u64>,
    /// Names of phases and counts.
    names: RefCell<BTreeSet<String>>,
    /// Names of figures.
    figures: RefCell<KnownNames>,
    /// All counters added up: no sum over some of them is too large for 64 bits.
    counted: Shared<u64>,
}

impl Room {
    pub(super) fn new(together: &Together) -> Room {
        Room {
            together: together.clone(),
            memory: Shared::new(MEMORY_MAX),
            runs: Shared::new(RUNS_MAX),
            cells: Shared::new(CELLS_MAX),
            file: Shared::new(TEXT_MAX),
            rep: Shared::new(REP_TEXT_MAX),
            names: RefCell::default(),
            figures: RefCell::default(),
            counted: Shared::new(0),
        }
    }

    /// So much memory is taken.
    pub(super) fn take(&self, bytes: usize) -> Result<(), String> {
        let left = self.memory.get().checked_sub(bytes);
        self.memory.set(left.ok_or_else(|| {
            format!("the records take more than {} MiB of memory", MEMORY_MAX >> 20)
        })?);
        self.together.take(bytes)
    }

    /// A repetition begins.
    pub(super) fn begin_rep(&self) {
        self.rep.set(REP_TEXT_MAX);
    }

    /// The files that follow have no repetitions in one piece.
    pub(super) fn begin_file(&self) {
        self.file.set(TEXT_MAX);
        self.rep.set(u64::MAX);
    }

    /// A cell was read.
    pub(super) fn cell(&self, cell: &Cell) -> Result<(), String> {
        let left = self.cells.get().checked_sub(1);
        self.cells.set(left.ok_or_else(|| format!("more than {CELLS_MAX} cells"))?);
        let names = [&cell.drive, &cell.config, &cell.workload];
        self.take(size_of::<Cell>() + names.iter().map(|n| NAME + n.len()).sum::<usize>())
    }

    /// A repetition was read.
    pub(super) fn rep(&self, rep: &Rep) -> Result<(), String> {
        let left = self.runs.get().checked_sub(1);
        self.runs
            .set(left.ok_or_else(|| format!("more than {RUNS_MAX} repetitions in all cells"))?);
        let named = |name: &str, bytes: usize| NAME + name.len() + bytes;
        let procs = rep.procs.iter().map(memory_of);
        let figures = rep.figures.iter().map(|(name, value)| named(name, 2 * size_of_val(&value)));
        let targets = rep.targets.iter().map(|t| named(&t.group, 2 * size_of_val(t)));
        let lists: usize = procs.chain(figures).chain(targets).sum();
        self.take(2 * size_of::<Rep>() + METRICS + rep.device.device_time.memory() + lists)?;
        self.names(rep)?;
        let d = &rep.device;
        if d.flushes > d.commands {
            return Err("more flushes than commands".into());
        }
        self.count(rep.measured.0)?;
        for n in [d.read_bytes, d.written_bytes, d.commands, d.merges, d.sequential] {
            self.count(n)?;
        }
        self.count(d.device_time.overflow())?;
        rep.procs.iter().try_for_each(|p| self.count_proc(p))
    }

    /// Lets figures share the names of others that were read.
    pub(super) fn share_names(&self, figures: &mut RepFigures) {
        self.figures.borrow_mut().share(figures);
    }

    /// Names that become rows of `metrics.csv`.
    fn names(&self, rep: &Rep) -> Result<(), String> {
        let of = |p: &ProcRecord| {
            p.counts
                .iter()
                .map(|c| c.0.clone())
                .chain(p.phases.iter().map(|p| p.name.clone()))
                .collect::<Vec<_>>()
        };
        let own: BTreeSet<String> = rep.procs.iter().flat_map(of).collect();
        self.take(own.len() * METRICS_OF_ONE)?;
        let mut names = self.names.borrow_mut();
        names.extend(own);
        match names.len() > NAMES_MAX {
            true => Err(format!("more than {NAMES_MAX} names of phases and counts")),
            false => Ok(()),
        }
    }

    fn count_proc(&self, p: &ProcRecord) -> Result<(), String> {
        for n in [p.bytes, p.ios, p.starved.0, p.censored.map_or(0, |c| c.0), p.latency.overflow()]
        {
            self.count(n)?;
        }
        p.counts.iter().try_for_each(|c| self.count(c.1))?;
        for phase in &p.phases {
            let ends = [phase.begin, phase.end].map(|t| t.map_or(0, |t| t.0));
            for n in [phase.bytes, phase.ios, phase.turns, phase.spent.0].into_iter().chain(ends) {
                self.count(n)?;
            }
        }
        Ok(())
    }

    /// An interval was read.
    pub(super) fn interval(&self, i: &Interval) -> Result<(), String> {
        self.take(size_of::<Interval>() * 3 / 2)?;
        [i.bytes, i.ios].into_iter().try_for_each(|n| self.count(n))
    }

    /// A counter was read.
    pub(super) fn count(&self, n: u64) -> Result<(), String> {
        let sum = self.counted.get().checked_add(n);
        self.counted
            .set(sum.ok_or("the counters add up to more than 2^64: nothing counts so far")?);
        Ok(())
    }

    /// What is wrong with a text: its place and kind, and nothing of the text itself, which may be another's file.
    pub(super) fn why(&self, error: &serde_json::Error) -> String {
        crate::words::unquoted(&error.to_string())
    }
}

fn memory_of(p: &ProcRecord) -> usize {
    let histogram = |h: &Histogram| h.memory();
    let phase = |p: &PhaseRecord| size_of_val(p) + NAME + p.name.len() + histogram(&p.latency);
    let counts: usize = p.counts.iter().map(|c| NAME + c.0.len() + 2 * size_of_val(c)).sum();
    let phases: usize = p.phases.iter().map(phase).sum();
    size_of_val(p) + NAME + p.name.len() + histogram(&p.latency) + counts + phases
}

/// A text that ends in an error where it is too long.
pub(super) struct Meter<'a, R> {
    source: R,
    room: &'a Room,
}

impl<'a, R: Read> Meter<'a, R> {
    pub(super) fn new(source: R, room: &'a Room) -> Meter<'a, R> {
        Meter { source, room }
    }
}

impl<R: Read> Read for Meter<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.source.read(buffer)?;
        for (left, max, what) in [
            (&self.room.file, TEXT_MAX, "the records are"),
            (&self.room.rep, REP_TEXT_MAX, "a repetition is"),
        ] {
            let rest = left.get().checked_sub(read as u64);
            let too_long =
                || io::Error::other(format!("{what} longer than {} MiB of text", max >> 20));
            left.set(rest.ok_or_else(too_long)?);
        }
        Ok(read)
    }
}
