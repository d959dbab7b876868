//! What makes an overlay durable, in the order that a crash at any point leaves right:
//!
//! 1. the pages of the map that changed are copied, with the bits of blocks that are written by now;
//! 2. fdatasync: those blocks are stable;
//! 3. the copies are written to the file;
//! 4. fdatasync: the map is stable, and the flush is done.
//!
//! Blocks that are written meanwhile set their bits in memory alone, and come with the next run. One run
//! is under way at a time; who asks meanwhile waits for the next one, which serves all of them.

use super::bits::{Bits, PAGE, PAGE_BITS};
use super::lower::{Lower, Owner};
use super::overlay::MAP;
use crate::system::{Buffer, Part};
use hoistway::{Instant, Op};
use rustix::io::Errno;
use std::collections::BTreeSet;

#[derive(Debug, Default)]
pub(super) struct Sync {
    run: Option<Run>,
    /// Commands that wait for the next run.
    waiting: Vec<u32>,
    /// Pages of the map that changed since the last run began.
    dirty: BTreeSet<usize>,
}

#[derive(Debug)]
struct Run {
    /// Commands that are done with it.
    for_whom: Vec<u32>,
    pages: Vec<(usize, Buffer)>,
    step: SyncStep,
    /// Commands below that are under way.
    under_way: usize,
    result: Result<(), Errno>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SyncStep {
    Blocks,
    Map,
    MapSync,
}

impl Sync {
    /// The bits of these blocks were set.
    pub fn changed(&mut self, from: u64, to: u64) {
        if from < to {
            self.dirty.extend((from / PAGE_BITS) as usize..=((to - 1) / PAGE_BITS) as usize);
        }
    }

    /// A command wants everything that is written by now to be durable.
    pub fn ask(&mut self, now: Instant, work: u32, bits: &Bits, below: &mut Lower) {
        self.waiting.push(work);
        self.begin(now, bits, below);
    }

    fn begin(&mut self, now: Instant, bits: &Bits, below: &mut Lower) {
        if self.run.is_some() || self.waiting.is_empty() {
            return;
        }
        let copy = |page| {
            let mut buffer = Buffer::zeroed(PAGE);
            bits.page(page, &mut buffer);
            (page, buffer)
        };
        self.run = Some(Run {
            for_whom: std::mem::take(&mut self.waiting),
            pages: std::mem::take(&mut self.dirty).into_iter().map(copy).collect(),
            step: SyncStep::Blocks,
            under_way: 1,
            result: Ok(()),
        });
        below.submit(now, Owner::Sync, (Op::Flush, 0, 0), Vec::new());
    }

    /// One of its commands is done; returns the commands that are done with that, and how.
    pub fn stepped(
        &mut self,
        now: Instant,
        result: Result<(), Errno>,
        bits: &Bits,
        below: &mut Lower,
    ) -> (Vec<u32>, Result<(), Errno>) {
        let run = self.run.as_mut().expect("only a run has commands");
        run.under_way -= 1;
        run.result = run.result.and(result);
        if run.under_way > 0 {
            return (Vec::new(), Ok(()));
        }
        let next = match run.step {
            _ if run.result.is_err() => None,
            SyncStep::Blocks if run.pages.is_empty() => None,
            SyncStep::Blocks => Some(SyncStep::Map),
            SyncStep::Map => Some(SyncStep::MapSync),
            SyncStep::MapSync => None,
        };
        if let Some(step) = next {
            run.step = step;
            run.issue(now, below);
            return (Vec::new(), Ok(()));
        }
        let run = self.run.take().expect("looked at just now");
        if run.result.is_err() {
            // They are still to be written.
            self.dirty.extend(run.pages.iter().map(|(page, _)| *page));
        }
        self.begin(now, bits, below);
        (run.for_whom, run.result)
    }
}

impl Run {
    fn issue(&mut self, now: Instant, below: &mut Lower) {
        if self.step == SyncStep::MapSync {
            self.under_way = 1;
            return below.submit(now, Owner::Sync, (Op::Flush, 0, 0), Vec::new());
        }
        self.under_way = self.pages.len();
        for (page, buffer) in &mut self.pages {
            // SAFETY: the copy is kept, untouched, until the command is done; the backend is dropped,
            // and waits for what is under way, before the run is.
            let part = unsafe { Part::new(buffer, 0, PAGE) };
            let start = MAP + (*page * PAGE) as u64;
            below.submit(now, Owner::Sync, (Op::Write, start, PAGE as u64), vec![part]);
        }
    }
}
