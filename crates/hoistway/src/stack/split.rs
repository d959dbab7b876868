//! Splitting an I/O above the limits of the device, and what is known of its pieces until all are finished
//! (specs/blk-mq-and-noop.md section 2).
//!
//! One piece is under way at a time through gates, merging and tags; the rest follows when it has passed. So a large
//! I/O takes tags one by one and waits its turn like others, and its pieces reach the device in order.

use super::IoError;
use crate::device::Device;
use crate::request::{Io, IoId, Op};
use crate::table::{Handle, Table};
use crate::unit::Sectors;

/// Sectors of 4 KiB, the block of nearly all devices and file systems.
const BLOCK: u64 = 8;

/// Sectors of the first piece: all of them, if the I/O is within the limits; `most`: the largest request of data.
#[inline]
pub(super) fn first_piece(io: &Io, d: &Device, most: Sectors) -> Sectors {
    match io.op {
        Op::Flush => io.sectors,
        Op::Discard => {
            let grain = d.discard_granularity.0.max(1);
            let most = d.max_discard_sectors.0 / grain * grain;
            if io.sectors.0 <= most || most == 0 {
                return io.sectors;
            }
            // The next start is to be aligned: a device may ignore the parts of a discard that cover no whole unit.
            let end = (io.start.0 + most) / grain * grain;
            Sectors(end.saturating_sub(io.start.0).max(1))
        }
        _ => {
            let mut most = most.0;
            if d.chunk_sectors.0 > 0 {
                most = most.min(d.chunk_sectors.0 - io.start.0 % d.chunk_sectors.0);
            }
            if io.segments > d.max_segments {
                most = most.min(segment_sectors(io) * u64::from(d.max_segments)).max(1);
            }
            if io.sectors.0 <= most {
                return io.sectors;
            }
            // End on a block where possible: a device with such blocks would have to read around the cut to write.
            let end = (io.start.0 + most) / BLOCK * BLOCK;
            Sectors(if end > io.start.0 { end - io.start.0 } else { most })
        }
    }
}

/// Rest behind the first piece.
pub(super) fn rest_behind(io: &Io, piece: Sectors) -> Io {
    Io {
        start: io.start + piece,
        sectors: io.sectors - piece,
        segments: segments(io, io.sectors - piece),
        // Deviation: the text does not say which piece of a split keeps PREFLUSH. All do: none may
        // reach the device before the flush it asks for.
        ..*io
    }
}

/// Sectors of one segment of the bio, all but its last being of one size.
fn segment_sectors(io: &Io) -> u64 {
    io.sectors.0.div_ceil(u64::from(io.segments.max(1))).max(1)
}

/// Segments of so many sectors of the bio.
pub(super) fn segments(io: &Io, sectors: Sectors) -> u32 {
    (sectors.0.div_ceil(segment_sectors(io)) as u32).max(1)
}

/// An I/O that was split: what is left of it and how many pieces are under way.
#[derive(Clone, Copy, Debug)]
struct Account {
    id: IoId,
    rest: Option<Io>,
    outstanding: u32,
    accepted: bool,
    /// The first error of a piece.
    error: Option<IoError>,
}

/// All I/Os that were split. A bio that is a piece names its account.
#[derive(Debug)]
pub(super) struct Splits {
    accounts: Table<Account>,
}

impl Splits {
    pub fn new() -> Splits {
        Splits { accounts: Table::with_capacity(0) }
    }

    /// For an I/O of which the first piece is under way.
    pub fn open(&mut self, id: IoId, accepted: bool) -> Handle {
        if self.accounts.len() == self.accounts.capacity() {
            self.accounts.grow(self.accounts.capacity().max(16) * 2);
        }
        let fresh = Account { id, rest: None, outstanding: 1, accepted, error: None };
        self.accounts.insert(fresh).expect("the table has just grown")
    }

    /// I/Os of which pieces are under way.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.accounts.len()
    }

    fn of(&mut self, account: Handle) -> &mut Account {
        self.accounts.get_mut(account).expect("a piece keeps its account")
    }

    pub fn set_rest(&mut self, account: Handle, rest: Io) {
        self.of(account).rest = Some(rest);
    }

    /// The piece has passed: the rest goes on now, as a piece that is under way; `None`: it was the last.
    pub fn next_piece(&mut self, account: Handle) -> Option<Io> {
        let a = self.of(account);
        let rest = a.rest.take()?;
        a.outstanding += 1;
        Some(rest)
    }

    /// The submitter has been told to go on.
    pub fn accepted(&self, account: Handle) -> bool {
        self.accounts.get(account).expect("a piece keeps its account").accepted
    }

    /// It is told now; had it been before?
    pub fn accept(&mut self, account: Handle) -> bool {
        core::mem::replace(&mut self.of(account).accepted, true)
    }

    /// A piece is over. With the last one the I/O is, and how.
    pub fn piece_finished(
        &mut self,
        account: Handle,
        error: Option<IoError>,
    ) -> Option<(IoId, Option<IoError>)> {
        let a = self.of(account);
        a.outstanding -= 1;
        a.error = a.error.or(error);
        if a.outstanding > 0 || a.rest.is_some() {
            return None;
        }
        self.accounts.remove(account).map(|a| (a.id, a.error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::group::ProcId;
    use alloc::vec::Vec;

    fn device(edit: impl FnOnce(&mut Device)) -> Device {
        let mut d = Device::new(Sectors(1 << 30), 32);
        (d.max_sectors, d.max_segments, d.chunk_sectors) = (Sectors(100), 1000, Sectors(0));
        edit(&mut d);
        d
    }

    fn read(start: u64, sectors: u64) -> Io {
        Io { segments: 1, ..Io::read(1, ProcId::NONE, start, sectors) }
    }

    /// Start and length of all pieces.
    fn pieces(mut io: Io, d: &Device) -> Vec<(u64, u64)> {
        let mut all = Vec::new();
        loop {
            let piece = first_piece(&io, d, d.max_sectors);
            assert!(piece.0 > 0 && piece <= io.sectors);
            all.push((io.start.0, piece.0));
            if piece == io.sectors {
                return all;
            }
            io = rest_behind(&io, piece);
        }
    }

    #[test]
    fn what_fits_stays_whole_wherever_it_begins_and_ends() {
        let d = device(|_| ());
        for (start, sectors) in [(0, 100), (3, 100), (5, 1)] {
            assert_eq!(pieces(read(start, sectors), &d), [(start, sectors)]);
        }
    }

    #[test]
    fn a_cut_lies_on_a_4_kib_block() {
        let d = device(|_| ());
        assert_eq!(pieces(read(0, 200), &d), [(0, 96), (96, 96), (192, 8)]);
        assert_eq!(pieces(read(3, 200), &d), [(3, 93), (96, 96), (192, 11)], "from an odd start");
        assert_eq!(pieces(read(4, 101), &d), [(4, 100), (104, 1)], "at the limit itself");
        assert_eq!(pieces(read(5, 101), &d), [(5, 99), (104, 2)], "one sector before it");
    }

    #[test]
    fn below_a_block_cuts_are_where_the_limit_is() {
        let d = device(|d| d.max_sectors = Sectors(3));
        assert_eq!(pieces(read(0, 8), &d), [(0, 3), (3, 3), (6, 2)]);
        assert_eq!(pieces(read(6, 4), &d), [(6, 2), (8, 2)], "but on a block that is in reach");
        assert_eq!(pieces(read(5, 4), &d), [(5, 3), (8, 1)], "also at the limit itself");
    }

    #[test]
    fn no_piece_crosses_a_chunk() {
        let d = device(|d| d.chunk_sectors = Sectors(64));
        assert_eq!(pieces(read(60, 80), &d), [(60, 4), (64, 64), (128, 12)]);
    }

    #[test]
    fn pieces_have_as_many_segments_as_the_device_takes() {
        let d = device(|d| d.max_segments = 2);
        let io = Io { segments: 4, ..read(0, 64) };
        assert_eq!(pieces(io, &d), [(0, 32), (32, 32)]);
        assert_eq!((segments(&io, Sectors(32)), segments(&io, Sectors(33))), (2, 3));
        assert_eq!(rest_behind(&io, Sectors(48)).segments, 1);
    }

    #[test]
    fn a_discard_is_cut_so_that_the_next_begins_on_its_unit() {
        let d = device(|d| {
            (d.discard_granularity, d.max_discard_sectors) = (Sectors(16), Sectors(70));
        });
        let io = Io { op: Op::Discard, ..read(10, 150) };
        assert_eq!(pieces(io, &d), [(10, 54), (64, 64), (128, 32)], "64 of 70 are whole units");
        let io = Io { op: Op::Discard, ..read(10, 64) };
        assert_eq!(pieces(io, &d), [(10, 64)]);
        let without = device(|d| d.max_discard_sectors = Sectors(0));
        assert_eq!(pieces(Io { op: Op::Discard, ..read(0, 1000) }, &without), [(0, 1000)]);
        let flush = Io { op: Op::Flush, sectors: Sectors(0), ..read(0, 1) };
        assert_eq!(first_piece(&flush, &d, d.max_sectors), Sectors(0));
    }

    #[test]
    fn an_io_is_over_with_its_last_piece_and_has_the_first_error() {
        let mut splits = Splits::new();
        let account = splits.open(IoId(7), false);
        splits.set_rest(account, read(8, 8));
        assert_eq!(splits.piece_finished(account, Some(IoError::Io)), None, "the rest is to come");
        assert_eq!(splits.next_piece(account).map(|io| io.start.0), Some(8));
        assert!(splits.next_piece(account).is_none());
        assert!(!splits.accept(account) && splits.accept(account) && splits.accepted(account));
        let over = splits.piece_finished(account, Some(IoError::Invalid));
        assert_eq!(over, Some((IoId(7), Some(IoError::Io))));
        let other = splits.open(IoId(8), true);
        assert!(splits.accepted(other) && splits.accounts.len() == 1);
    }
}
