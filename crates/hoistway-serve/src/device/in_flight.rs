//! The I/Os that are in the stack or with the backend, by the ids the stack knows them by.

use super::core::{ReplyTo, TenantId};
use crate::storage::Extent;
use crate::system::{Buffer, Part};
use hoistway::table::{Handle, Table};
use hoistway::{Instant, IoId, Op, Sectors};
use rustix::io::Errno;

/// An I/O under way.
#[derive(Debug)]
pub(super) struct InFlight {
    pub op: Op,
    pub start: Sectors,
    pub len: u64,
    pub buffer: Buffer,
    pub reply_to: ReplyTo,
    pub tenant: TenantId,
    pub taken: Instant,
    /// When its first bio went to the device; [`Instant::ZERO`]: not yet.
    pub issued: Instant,
    /// The first error the backend reported for this very I/O.
    pub errno: Option<Errno>,
    /// It asks what is stored instead of reading it.
    pub lookup: Option<Box<Lookup>>,
}

/// What a request for extents asks, and what it has found.
#[derive(Debug)]
pub(super) struct Lookup {
    /// First byte.
    pub offset: u64,
    pub len: u64,
    /// Extents at most.
    pub most: usize,
    pub extents: Vec<Extent>,
}

/// The I/Os under way.
#[derive(Debug)]
pub(super) struct InFlightTable {
    table: Table<InFlight>,
}

impl InFlightTable {
    pub fn new() -> InFlightTable {
        InFlightTable { table: Table::with_capacity(1024) }
    }

    pub fn insert(&mut self, io: InFlight) -> IoId {
        if self.table.len() == self.table.capacity() {
            self.table.grow(2 * self.table.capacity());
        }
        let at = self.table.insert(io).expect("the table has just grown");
        IoId(u64::from(at.generation) << 32 | u64::from(at.slot))
    }

    pub fn get(&self, io: IoId) -> Option<&InFlight> {
        self.table.get(handle_of(io))
    }

    pub fn get_mut(&mut self, io: IoId) -> Option<&mut InFlight> {
        self.table.get_mut(handle_of(io))
    }

    pub fn remove(&mut self, io: IoId) -> InFlight {
        self.table.remove(handle_of(io)).expect("the stack finishes an I/O once")
    }

    pub fn len(&self) -> usize {
        self.table.len()
    }

    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// The error of a command is this I/O's.
    pub fn blame(&mut self, io: IoId, errno: Errno) {
        let live = self.get_mut(io).expect("an I/O lives until it is finished");
        live.errno.get_or_insert(errno);
    }

    /// The memory of a bio that goes to the device: the piece of its I/O's buffer that belongs to those
    /// sectors.
    pub fn part(&mut self, now: Instant, io: IoId, start: Sectors, sectors: Sectors) -> Part {
        let live = self.get_mut(io).expect("an I/O lives until it is finished");
        live.mark_issued(now);
        let from = (start - live.start).bytes().0 as usize;
        // SAFETY: the buffer stays in the table, untouched, until the stack says `Finished`, which it does
        // after the backend has reported the command done; on drop the backend goes first and waits.
        unsafe { Part::new(&mut live.buffer, from, sectors.bytes().0 as usize) }
    }

    /// Leaves the memory behind that a backend may still work on; whoever waits for it hears ESHUTDOWN.
    pub fn leak_buffers(mut self) {
        for slot in 0..self.table.capacity() as u32 {
            if let Some(live) = self.table.handle(slot).and_then(|at| self.table.remove(at)) {
                std::mem::forget(live.buffer);
            }
        }
    }
}

impl InFlight {
    pub fn mark_issued(&mut self, now: Instant) {
        if self.issued == Instant::ZERO {
            self.issued = now;
        }
    }
}

fn handle_of(io: IoId) -> Handle {
    Handle { slot: (io.0 & 0xffff_ffff) as u32, generation: (io.0 >> 32) as u32 }
}
