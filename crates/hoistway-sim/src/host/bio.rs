//! Bios: before they are submitted ([`Pending`]) and while the block layer has them ([`BioTable`]).

use super::cache::PAGE;
use super::op::ProcInfo;
use hoistway::{Flags, GroupId, Io, IoId, Nanos, Op, ProcId, Sectors};

/// What becomes of a bio when it is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BioKind {
    /// Pages become up to date.
    Read,
    /// Pages leave write-back.
    Write,
    /// Its process counts it.
    Own,
    /// It is of an asynchronous call.
    Call,
}

/// A bio that its process is about to submit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pending {
    pub kind: BioKind,
    pub op: Op,
    pub flags: Flags,
    pub group: GroupId,
    pub file: u32,
    /// First page in the file.
    pub first: u64,
    /// Its number among the file's write-back bios, or that of its call.
    pub seq: u64,
    /// The transaction that waits for it; 0: none.
    pub order: u64,
    /// Place on the device.
    pub start: u64,
    /// Bytes; 0 for a flush.
    pub len: u64,
    /// Processor time of its data beside `submit_ns`: before a write, behind a read.
    pub cpu: Nanos,
}

impl Pending {
    /// A bio that its process counts itself: nothing happens to pages.
    pub fn own(op: Op, flags: Flags, group: GroupId, start: u64, len: u64) -> Pending {
        let (file, first, seq, order, cpu) = (0, 0, 0, 0, Nanos::ZERO);
        Pending { kind: BioKind::Own, op, flags, group, file, first, seq, order, start, len, cpu }
    }

    /// The page behind its last.
    pub fn end(&self) -> u64 {
        self.first + self.len / PAGE
    }

    /// It is a bio of asynchronous call `number`.
    pub fn of_call(self, number: u32) -> Pending {
        Pending { kind: BioKind::Call, seq: u64::from(number), ..self }
    }
}

/// Cuts [start, start + len) into bios of at most `most` bytes: first byte and length of each.
pub(super) fn pieces(start: u64, len: u64, most: u64) -> impl Iterator<Item = (u64, u64)> {
    (0..len.div_ceil(most)).map(move |i| (start + i * most, most.min(len - i * most)))
}

/// A bio in the block layer's hands.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))] // One line of the cache instead of two halves.
pub(super) struct Flight {
    pub kind: BioKind,
    pub file: u32,
    pub proc: u32,
    /// Whose identity it carries.
    pub owner: ProcId,
    pub pages: u32,
    pub first: u64,
    /// Its number among the file's write-back bios, or that of its call.
    pub seq: u64,
    /// The transaction that waits for it; 0: none.
    pub order: u64,
    /// An asynchronous write under the old write-back.
    pub pooled: bool,
    /// Processor time behind it.
    pub cpu: Nanos,
    generation: u32,
    live: bool,
}

/// All bios under way, and how many of each kind there have been.
#[derive(Debug, Default)]
pub(super) struct BioTable {
    flights: Vec<Flight>,
    free: Vec<u32>,
    pub reads: u64,
    pub writes: u64,
    pub flushes: u64,
}

impl BioTable {
    /// Bios submitted and not served.
    pub fn in_flight(&self) -> u64 {
        (self.flights.len() - self.free.len()) as u64
    }

    /// Process `p`, which is `info` to the block layer, submits a bio.
    pub fn send(&mut self, p: usize, info: &ProcInfo, bio: &Pending, pooled: bool) -> Io {
        match bio.op {
            Op::Flush => self.flushes += 1,
            Op::Read => self.reads += 1,
            _ => self.writes += 1,
        }
        let pages = bio.len.div_ceil(PAGE) as u32;
        let mut flight = Flight {
            kind: bio.kind,
            file: bio.file,
            proc: p as u32,
            owner: info.id,
            pages,
            first: bio.first,
            seq: bio.seq,
            order: bio.order,
            pooled,
            cpu: if bio.op == Op::Read { bio.cpu } else { Nanos::ZERO },
            generation: 0,
            live: true,
        };
        let slot = match self.free.pop() {
            Some(slot) => {
                flight.generation = self.flights[slot as usize].generation + 1;
                self.flights[slot as usize] = flight;
                slot
            }
            None => {
                self.flights.push(flight);
                self.flights.len() as u32 - 1
            }
        };
        Io {
            id: IoId(u64::from(flight.generation) << 32 | u64::from(slot)),
            proc: info.id,
            group: bio.group,
            cpu: info.cpu,
            op: bio.op,
            start: Sectors(bio.start / 512),
            sectors: Sectors(bio.len / 512),
            segments: pages,
            flags: bio.flags,
            prio: info.prio,
        }
    }

    /// A bio that is under way.
    pub fn get(&self, io: IoId) -> &Flight {
        let flight = &self.flights[(io.0 & 0xffff_ffff) as usize];
        assert!(flight.live && u64::from(flight.generation) == io.0 >> 32, "an I/O lives once");
        flight
    }

    /// A bio has been served; each is exactly once.
    pub fn land(&mut self, io: IoId) -> Flight {
        let landed = *self.get(io);
        let slot = (io.0 & 0xffff_ffff) as u32;
        self.flights[slot as usize].live = false;
        self.free.push(slot);
        landed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoistway::IoPrio;

    fn info() -> ProcInfo {
        ProcInfo { id: ProcId(5), group: GroupId::ROOT, prio: IoPrio::be(4), cpu: 0 }
    }

    #[test]
    fn a_range_is_cut_into_bios() {
        assert_eq!(pieces(100, 25, 10).collect::<Vec<_>>(), [(100, 10), (110, 10), (120, 5)]);
        assert_eq!(pieces(100, 10, 10).collect::<Vec<_>>(), [(100, 10)]);
    }

    #[test]
    fn a_slot_is_used_again_under_another_id() {
        let mut table = BioTable::default();
        let bio = Pending::own(Op::Write, Flags::NONE, GroupId::ROOT, 4096, 8192);
        let first = table.send(3, &info(), &bio, false);
        assert_eq!((first.start, first.sectors, first.segments), (Sectors(8), Sectors(16), 2));
        assert_eq!((table.get(first.id).proc, table.in_flight()), (3, 1));
        table.land(first.id);
        let second = table.send(3, &info(), &bio, false);
        assert_ne!(first.id, second.id);
        assert_eq!((table.in_flight(), table.writes), (1, 2));
    }

    #[test]
    #[should_panic(expected = "an I/O lives once")]
    fn an_io_completes_once() {
        let mut table = BioTable::default();
        let bio = Pending::own(Op::Flush, Flags::NONE, GroupId::ROOT, 0, 0);
        let io = table.send(0, &info(), &bio, false);
        table.land(io.id);
        table.land(io.id);
    }
}
