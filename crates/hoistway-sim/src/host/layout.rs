//! Where files lie (specs/host.md 3): one after another from a fraction of the capacity on, each
//! contiguous, with a random gap behind it; the journal in the middle of the file system.

use super::cache::PAGE;
use crate::rng::{Rng, stream};
use hoistway_run::JobError;

/// Length of the journal.
pub(super) const JOURNAL: u64 = 128 << 20;

/// Places of files on the device.
#[derive(Debug)]
pub(super) struct Layout {
    capacity: u64,
    /// Where the next file may begin.
    next: u64,
    /// First byte of the file area.
    begin: u64,
    /// What the file system keeps for itself, ascending: first byte and length. The journal, or the trees.
    reserved: Vec<(u64, u64)>,
    gap_pages: u64,
    gaps: Rng,
}

impl Layout {
    /// A device of `capacity` bytes; `copy`: distance of a second place of the same length as the journal's.
    pub fn new(
        capacity: u64,
        start_frac: f64,
        gap_kib: u64,
        seed: u64,
        copy: Option<u64>,
    ) -> Layout {
        let down = |byte: u64| byte / PAGE * PAGE;
        let (begin, journal) = (down((capacity as f64 * start_frac) as u64), down(capacity / 2));
        let copy = copy.map(|distance| journal + distance).filter(|at| at + JOURNAL <= capacity);
        Layout {
            capacity,
            next: begin,
            begin,
            reserved: [journal].into_iter().chain(copy).map(|at| (at, JOURNAL)).collect(),
            gap_pages: gap_kib * 1024 / PAGE,
            gaps: stream(seed, "layout"),
        }
    }

    /// Bytes of the device.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// First byte of the journal.
    pub fn journal(&self) -> u64 {
        self.reserved[0].0
    }

    /// What the file system keeps for itself, ascending: first byte and length.
    pub fn reserved(&self) -> &[(u64, u64)] {
        &self.reserved
    }

    /// Where the file area begins, and where the next file may.
    pub fn area(&self) -> (u64, u64) {
        (self.begin, self.next)
    }

    /// The first byte of a new file of `bytes`.
    pub fn place(&mut self, bytes: u64) -> Result<u64, JobError> {
        let mut at = self.next;
        if self.capacity - self.journal() < JOURNAL {
            // Not even the journal fits into the second half.
            return Err(JobError::DoesNotFit { needed: bytes, available: 0 });
        }
        for &(start, len) in &self.reserved {
            if at < start + len && at + bytes > start {
                at = start + len;
            }
        }
        if at + bytes > self.capacity {
            let available = self.capacity.saturating_sub(at);
            return Err(JobError::DoesNotFit { needed: bytes, available });
        }
        // Drawn for every file, the last one too, so that a file's place depends only on those before.
        let gap = if self.gap_pages == 0 { 0 } else { self.gaps.below(self.gap_pages) };
        self.next = at + bytes.next_multiple_of(PAGE) + gap * PAGE;
        Ok(at)
    }
}
