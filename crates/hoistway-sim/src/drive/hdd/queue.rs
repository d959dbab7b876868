//! The commands that wait for an actuator. What each choice asks of all of them lies in columns: where they begin, and at
//! which angles. Most are passed over by one comparison.

use super::geometry::MediaPos;
use super::mechanism::Access;

/// A read or an uncached write that waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct QueuedAccess {
    pub access: Access,
    pub arrival: u64,
    pub number: u64,
    pub from: MediaPos,
    pub to: MediaPos,
    /// More positioning: the data lie in several places (3.8).
    pub extra: u64,
    /// Some of them in the media cache: it continues no read-ahead.
    pub cached: bool,
}

/// Reads and uncached writes; ties are decided by number. Those that came since the last removal are the last ones.
#[derive(Debug, Default)]
pub(super) struct Queue {
    all: Vec<QueuedAccess>,
    /// Where each begins.
    starts: Vec<u64>,
    /// Angle of its first byte.
    angles: Vec<u64>,
    /// Arrival of the oldest.
    oldest: u64,
}

impl Queue {
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub fn all(&self) -> &[QueuedAccess] {
        &self.all
    }

    pub fn push(&mut self, queued: QueuedAccess) {
        if self.all.is_empty() {
            self.oldest = queued.arrival;
        }
        self.starts.push(queued.access.start);
        self.angles.push(queued.from.angle);
        self.all.push(queued);
    }

    /// Takes the one at a place out; the last one comes there.
    pub fn take(&mut self, at: usize) -> QueuedAccess {
        self.starts.swap_remove(at);
        self.angles.swap_remove(at);
        let queued = self.all.swap_remove(at);
        if queued.arrival == self.oldest {
            self.oldest = self.all.iter().map(|q| q.arrival).min().unwrap_or(0);
        }
        queued
    }

    /// Arrival of the oldest: time does not go back.
    pub fn oldest(&self) -> u64 {
        self.oldest
    }

    /// The first from place `at` on that begins from `first` to `first + width`; none: at the end.
    #[inline(never)] // Alone the loop keeps all it needs in registers.
    pub fn next_start(&self, at: usize, first: u64, width: u64) -> usize {
        let rest = &self.starts[at..];
        let found = rest.iter().position(|start| start.wrapping_sub(first) <= width);
        at + found.unwrap_or(rest.len())
    }

    /// Angles of the first bytes.
    pub fn angles(&self) -> &[u64] {
        &self.angles
    }
}
