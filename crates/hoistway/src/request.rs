//! I/Os, bios, requests, and the tables they live in.
//!
//! An [`Io`] is what a caller submits, under an id of its own choice. Inside the stack it travels as one
//! or more *bios* (a bio above the device's limits is split); a *request* is one or more bios that are
//! contiguous on the device and travel as one command.

use crate::group::{GroupId, ProcId};
use crate::table::{Handle, Table};
use crate::unit::{Instant, IoPrio, QueueId, Sectors};
use core::ops::{BitOr, BitOrAssign, Index};

/// Operation of an I/O.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Op {
    /// Read.
    #[default]
    Read = 0,
    /// Write.
    Write = 1,
    /// Discard (trim).
    Discard = 2,
    /// Cache flush without data.
    Flush = 3,
    /// Write zeroes.
    WriteZeroes = 4,
}

impl Op {
    /// Write for everything that changes the medium.
    pub const fn dir(self) -> Dir {
        match self {
            Op::Read => Dir::Read,
            _ => Dir::Write,
        }
    }
}

/// Direction of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Dir {
    /// From the medium.
    Read = 0,
    /// To the medium.
    Write = 1,
}

/// Which end of a request a bio or request joins, or lies beyond.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Side {
    /// The lower end: a front merge, or the neighbour before.
    Front = 0,
    /// The upper end: a back merge, or the neighbour behind.
    Back = 1,
}

/// Flags of a bio or request (specs/blk-mq-and-noop.md section 1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Flags(u16);

impl Flags {
    /// None.
    pub const NONE: Flags = Flags(0);
    /// Somebody waits for this write.
    pub const SYNC: Flags = Flags(1);
    /// Metadata.
    pub const META: Flags = Flags(1 << 1);
    /// Preference (3.1 and later; replaces META for that).
    pub const PRIO: Flags = Flags(1 << 2);
    /// The submitter will not issue a dependent request: do not idle after it (2.6.30 to 4.x).
    pub const NOIDLE: Flags = Flags(1 << 3);
    /// Expect more I/O soon (4.10 and later; NOIDLE inverted).
    pub const IDLE: Flags = Flags(1 << 4);
    /// Read-ahead.
    pub const RAHEAD: Flags = Flags(1 << 5);
    /// Start the device queue at once after this bio (legacy).
    pub const UNPLUG: Flags = Flags(1 << 6);
    /// Full ordering point (legacy, up to 2.6.36).
    pub const BARRIER: Flags = Flags(1 << 7);
    /// Flush the volatile cache first.
    pub const PREFLUSH: Flags = Flags(1 << 8);
    /// Forced unit access.
    pub const FUA: Flags = Flags(1 << 9);
    /// Never merge.
    pub const NOMERGE: Flags = Flags(1 << 10);
    /// Write-back of the flusher.
    pub const BACKGROUND: Flags = Flags(1 << 11);
    /// Swapping.
    pub const SWAP: Flags = Flags(1 << 12);

    /// True when any of `other` is set.
    pub const fn any(self, other: Flags) -> bool {
        self.0 & other.0 != 0
    }

    /// Must not wait inside a controller, for a task of another group may depend on it: metadata and swap
    /// (specs/groups-and-priorities.md section 3). Its group is charged afterwards.
    pub const fn issue_as_root(self) -> bool {
        self.any(Flags(Flags::META.0 | Flags::SWAP.0))
    }

    /// Without those of `other`.
    pub const fn without(self, other: Flags) -> Flags {
        Flags(self.0 & !other.0)
    }

    /// The bits.
    pub const fn bits(self) -> u16 {
        self.0
    }

    /// From bits that [`Flags::bits`] gave.
    pub const fn from_bits(bits: u16) -> Flags {
        Flags(bits & 0x1fff)
    }
}

impl BitOr for Flags {
    type Output = Flags;
    fn bitor(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }
}

impl BitOrAssign for Flags {
    fn bitor_assign(&mut self, other: Flags) {
        self.0 |= other.0;
    }
}

/// The caller's name for an I/O; the stack only hands it back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IoId(pub u64);

/// One I/O as submitted, and the form in which schedulers see a bio.
#[derive(Clone, Copy, Debug)]
pub struct Io {
    /// The caller's id.
    pub id: IoId,
    /// Process that submits it.
    pub proc: ProcId,
    /// Group that pays for it.
    pub group: GroupId,
    /// Where it is submitted; chooses the hardware queue.
    pub cpu: u32,
    /// Its operation.
    pub op: Op,
    /// First sector.
    pub start: Sectors,
    /// Length; 0 only for a pure flush.
    pub sectors: Sectors,
    /// Scatter-gather segments.
    pub segments: u32,
    /// Flags.
    pub flags: Flags,
    /// Effective priority of this I/O (specs/groups-and-priorities.md section 4).
    pub prio: IoPrio,
}

impl Io {
    /// A read of `sectors` at `start` by `proc`, one segment per 8 sectors, everything else default.
    pub fn read(id: u64, proc: ProcId, start: u64, sectors: u64) -> Io {
        Io {
            id: IoId(id),
            proc,
            group: GroupId::ROOT,
            cpu: 0,
            op: Op::Read,
            start: Sectors(start),
            sectors: Sectors(sectors),
            segments: sectors.div_ceil(8) as u32,
            flags: Flags::NONE,
            prio: IoPrio::NONE,
        }
    }

    /// The same as a write.
    pub fn write(id: u64, proc: ProcId, start: u64, sectors: u64) -> Io {
        Io { op: Op::Write, ..Io::read(id, proc, start, sectors) }
    }

    /// The first sector behind it.
    pub fn end(&self) -> Sectors {
        self.start + self.sectors
    }
}

/// A bio inside the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BioId(pub Handle);

/// A request inside the stack. Stale ids find nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ReqId(pub Handle);

impl ReqId {
    /// The slot: what side tables of schedulers are indexed by.
    pub const fn slot(self) -> u32 {
        self.0.slot
    }

    /// The same as a table index.
    pub const fn index(self) -> usize {
        self.0.slot as usize
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Bio {
    pub io: Io,
    /// Next bio of the same request.
    pub next: Option<BioId>,
    /// The account of the split I/O it is a piece of.
    pub account: Option<Handle>,
    /// When it was submitted, later when it asked for a tag.
    pub alloc: Instant,
    /// When it left the first gate (the issue time of io.latency and io.cost).
    pub entered: Instant,
    /// Its submitter was told to go on.
    pub accepted: bool,
}

impl Bio {
    #[inline(always)]
    fn new(io: &Io, now: Instant, accepted: bool) -> Bio {
        Bio { io: *io, next: None, account: None, alloc: now, entered: now, accepted }
    }
}

/// One request.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// Its id.
    pub id: ReqId,
    /// Its operation.
    pub op: Op,
    /// Sync in the sense of the device's profile ([`crate::device::Device::is_sync`]).
    pub sync: bool,
    // What a request takes over from its I/O stands in the order of `Io`: neighbours are copied at a time.
    /// Process that submitted the first bio.
    pub proc: ProcId,
    /// Group that pays.
    pub group: GroupId,
    /// Where it was submitted.
    pub cpu: u32,
    /// First sector.
    pub start: Sectors,
    /// Length.
    pub sectors: Sectors,
    /// Segments.
    pub segments: u32,
    /// Flags of the first bio.
    pub flags: Flags,
    /// Priority of the I/O (legacy merges: the better of both).
    pub prio: IoPrio,
    /// Its hardware queue.
    pub queue: QueueId,
    /// First bio.
    pub first_io: Option<BioId>,
    /// Last bio.
    pub last_io: Option<BioId>,
    /// When it was asked for, before any wait for a tag.
    pub alloc: Instant,
    /// When the tag was taken.
    pub began: Instant,
    /// When it was handed to the device.
    pub issued: Instant,
}

impl Request {
    /// A request without a bio.
    #[inline(always)]
    fn bare(
        id: ReqId,
        io: &Io,
        alloc: Instant,
        began: Instant,
        sync: bool,
        queue: QueueId,
    ) -> Request {
        Request {
            id,
            op: io.op,
            sync,
            start: io.start,
            sectors: io.sectors,
            segments: io.segments,
            flags: io.flags,
            prio: io.prio,
            proc: io.proc,
            group: io.group,
            cpu: io.cpu,
            queue,
            first_io: None,
            last_io: None,
            alloc,
            began,
            issued: Instant::ZERO,
        }
    }

    /// The first sector behind it.
    pub fn end(&self) -> Sectors {
        self.start + self.sectors
    }

    /// Its direction.
    pub fn dir(&self) -> Dir {
        self.op.dir()
    }
}

/// A request without its bios, as somebody tells of it who keeps them.
#[derive(Clone, Copy, Debug)]
pub struct Told {
    /// The I/O.
    pub io: Io,
    /// Somebody waits for it.
    pub sync: bool,
    /// Its hardware queue.
    pub queue: QueueId,
    /// When it was asked for, before any wait for a tag.
    pub alloc: Instant,
    /// When it had its tag.
    pub began: Instant,
}

/// All requests and bios. Bounded; nothing allocates after construction.
#[derive(Debug)]
pub struct Requests {
    requests: Table<Request>,
    bios: Table<Bio>,
}

impl Requests {
    /// Room for `requests` requests made of `bios` bios.
    pub fn new(requests: usize, bios: usize) -> Requests {
        Requests { requests: Table::with_capacity(requests), bios: Table::with_capacity(bios) }
    }

    /// Number of request slots; a scheduler's side tables have this size.
    pub fn capacity(&self) -> usize {
        self.requests.capacity()
    }

    /// Number of requests that exist.
    #[inline]
    pub fn len(&self) -> usize {
        self.requests.len()
    }

    /// True when no request exists.
    pub fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// `None` for a stale id.
    pub fn get(&self, id: ReqId) -> Option<&Request> {
        self.requests.get(id.0)
    }

    /// The request in `slot`; panics if there is none.
    #[inline]
    pub fn at(&self, slot: u32) -> &Request {
        self.requests.at(slot).expect("a scheduler only asks for slots it was given")
    }

    /// The I/O of a bio; panics for a stale id.
    #[inline(always)]
    pub fn bio(&self, id: BioId) -> &Io {
        &self.bios.get(id.0).expect("a bio lives until its request is complete").io
    }

    /// When a bio left the first gate: the time from which the controllers behind it count its latency
    /// (specs/groups-and-priorities.md section 5, step 5). Panics for a stale id.
    pub fn entered(&self, id: BioId) -> Instant {
        self.bio_ref(id).entered
    }

    /// True for what is left of an I/O whose first piece has gone on: io.max has counted the bytes of
    /// all of it, and counts this as one more I/O (specs/groups-and-priorities.md section 5, step 6).
    pub fn continues(&self, id: BioId) -> bool {
        self.bio_ref(id).account.is_some()
    }

    /// Makes it what is left of an I/O whose first piece has gone on, for whoever drives a controller alone.
    pub fn set_continues(&mut self, id: BioId) {
        self.bio_mut(id).account = Some(id.0);
    }

    /// The bios of a request in the order of their sectors.
    pub fn bios(&self, id: ReqId) -> impl Iterator<Item = (BioId, &Io)> {
        let mut at = self[id].first_io;
        core::iter::from_fn(move || {
            let id = at?;
            let bio = self.bios.get(id.0)?;
            at = bio.next;
            Some((id, &bio.io))
        })
    }

    /// Stores a bio; `None` when the table is full.
    #[inline(always)]
    pub fn add_bio(&mut self, io: Io, now: Instant) -> Option<BioId> {
        self.bios.insert_with(|_| Bio::new(&io, now, false)).map(BioId)
    }

    /// Makes a request of one stored bio; `None` when the table is full.
    #[inline(always)]
    pub fn add(
        &mut self,
        bio: BioId,
        alloc: Instant,
        began: Instant,
        sync: bool,
        queue: QueueId,
    ) -> Option<ReqId> {
        let io = &self.bios.get(bio.0).expect("a bio lives until its request is complete").io;
        let made = |handle| {
            let bare = Request::bare(ReqId(handle), io, alloc, began, sync, queue);
            Request { first_io: Some(bio), last_io: Some(bio), ..bare }
        };
        self.requests.insert_with(made).map(ReqId)
    }

    /// Makes a request of an I/O that was accepted, and is issued at `issued` if it is not to wait; the table of bios
    /// doubles when it is full.
    #[inline(always)]
    pub(crate) fn add_alone(
        &mut self,
        io: &Io,
        now: Instant,
        sync: bool,
        queue: QueueId,
        issued: Instant,
    ) -> Option<ReqId> {
        self.make_room_for_bio();
        let bio = self.bios.insert_with(|_| Bio::new(io, now, true)).map(BioId);
        let made = |handle| {
            let bare = Request::bare(ReqId(handle), io, now, now, sync, queue);
            Request { first_io: bio, last_io: bio, issued, ..bare }
        };
        self.requests.insert_with(made).map(ReqId)
    }

    /// Makes a request of an I/O whose bios somebody else keeps; `None` when the table is full, and nothing is asked for.
    #[inline]
    pub fn add_bare(&mut self, told: impl FnOnce() -> Told) -> Option<ReqId> {
        let made = |handle| {
            let Told { io, alloc, began, sync, queue } = told();
            Request::bare(ReqId(handle), &io, alloc, began, sync, queue)
        };
        self.requests.insert_with(made).map(ReqId)
    }

    /// Stores `io` and makes a request of it: what test benches and benchmarks of a lone scheduler use.
    pub fn create(&mut self, io: Io, sync: bool, queue: QueueId, now: Instant) -> Option<ReqId> {
        let bio = self.add_bio(io, now)?;
        let id = self.add(bio, now, now, sync, queue);
        if id.is_none() {
            self.bios.remove(bio.0);
        }
        id
    }

    /// Joins a stored bio to a request at that side.
    pub fn join_bio(&mut self, id: ReqId, bio: BioId, side: Side) {
        let io = *self.bio(bio);
        match side {
            Side::Back => {
                let last = self[id].last_io.expect("a live request has a bio");
                self.bios.get_mut(last.0).expect("the last bio lives").next = Some(bio);
                let r = &mut self[id.0];
                r.last_io = Some(bio);
            }
            Side::Front => {
                let first = self[id].first_io;
                self.bios.get_mut(bio.0).expect("the caller just stored it").next = first;
                let r = &mut self[id.0];
                r.first_io = Some(bio);
                r.start = io.start;
            }
        }
        let r = &mut self[id.0];
        r.sectors += io.sectors;
        r.segments += io.segments;
    }

    /// Appends the bios of `gone` to `kept` and frees `gone`; `kept` takes the smaller start time.
    pub fn join(&mut self, kept: ReqId, gone: ReqId) {
        let g = self[gone];
        // Both have bios here, or neither has.
        if let Some(last) = self[kept].last_io {
            self.bios.get_mut(last.0).expect("the last bio lives").next = g.first_io;
        }
        let k = &mut self[kept.0];
        k.last_io = g.last_io;
        k.sectors += g.sectors;
        k.segments += g.segments;
        k.began = k.began.min(g.began);
        self.requests.discard(gone.0);
    }

    /// Frees a request and its bios.
    pub fn remove(&mut self, id: ReqId) {
        let mut at = self[id].first_io;
        while let Some(bio) = at {
            at = self.bios.remove(bio.0).and_then(|b| b.next);
        }
        self.requests.discard(id.0);
    }

    /// Frees a request that [`Requests::add_bare`] made.
    #[inline]
    pub fn remove_bare(&mut self, id: ReqId) {
        debug_assert!(self[id].first_io.is_none());
        self.requests.discard(id.0);
    }

    /// Frees a request but not its bios: the caller finishes them one by one.
    #[inline(always)]
    pub(crate) fn remove_keeping_bios(&mut self, id: ReqId) -> Option<BioId> {
        let first = self.requests.discard_with(id.0, |r| r.first_io);
        first.expect("a request id is not used after completion")
    }

    #[inline(always)]
    pub(crate) fn bio_mut(&mut self, id: BioId) -> &mut Bio {
        self.bios.get_mut(id.0).expect("a bio lives until its request is complete")
    }

    #[inline(always)]
    pub(crate) fn bio_ref(&self, id: BioId) -> &Bio {
        self.bios.get(id.0).expect("a bio lives until its request is complete")
    }

    #[cfg(test)]
    pub(crate) fn take_bio(&mut self, id: BioId) -> Bio {
        self.bios.remove(id.0).expect("a bio is finished once")
    }

    /// Frees a bio: whose it was, the account of the I/O it is a piece of, and the next of its request.
    #[inline(always)]
    pub(crate) fn end_bio(&mut self, id: BioId) -> (IoId, Option<Handle>, Option<BioId>) {
        let left = self.bios.discard_with(id.0, |bio| (bio.io.id, bio.account, bio.next));
        left.expect("a bio lives until its request is complete")
    }

    /// Stores a bio; the table doubles when it is full.
    #[inline(always)]
    pub(crate) fn store_bio(&mut self, io: Io, now: Instant) -> BioId {
        self.make_room_for_bio();
        self.add_bio(io, now).expect("the table has just grown")
    }

    #[inline(always)]
    fn make_room_for_bio(&mut self) {
        if self.bios.is_full() {
            self.bios.grow(self.bios.capacity().max(32) * 2);
        }
    }

    /// The flush machine's own command.
    pub(crate) fn add_flush(&mut self, now: Instant, queue: QueueId) -> Option<ReqId> {
        let io = Io { op: Op::Flush, ..Io::read(0, ProcId::NONE, 0, 0) };
        self.add_bare(|| Told { io, sync: true, queue, alloc: now, began: now })
    }

    /// Changes a request; the scheduler must be told where that matters.
    pub fn get_mut(&mut self, id: ReqId) -> &mut Request {
        &mut self[id.0]
    }
}

impl Index<ReqId> for Requests {
    type Output = Request;
    #[inline]
    fn index(&self, id: ReqId) -> &Request {
        self.requests.get(id.0).expect("a request id is not used after completion")
    }
}

impl Index<Handle> for Requests {
    type Output = Request;
    #[inline]
    fn index(&self, at: Handle) -> &Request {
        self.requests.get(at).expect("a request id is not used after completion")
    }
}

impl core::ops::IndexMut<Handle> for Requests {
    #[inline]
    fn index_mut(&mut self, at: Handle) -> &mut Request {
        self.requests.get_mut(at).expect("a request id is not used after completion")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merges_keep_the_bios_in_sector_order() {
        let mut rq = Requests::new(4, 8);
        let p = ProcId(0);
        let t = Instant::ZERO;
        let a = rq.create(Io::write(1, p, 100, 8), false, QueueId(0), t).unwrap();
        let b = rq.create(Io::write(2, p, 116, 8), false, QueueId(0), t).unwrap();
        let front = rq.add_bio(Io::write(3, p, 92, 8), t).unwrap();
        rq.join_bio(a, front, Side::Front);
        let back = rq.add_bio(Io::write(4, p, 108, 8), t).unwrap();
        rq.join_bio(a, back, Side::Back);
        rq.join(a, b);
        assert_eq!((rq[a].start, rq[a].sectors, rq[a].segments), (Sectors(92), Sectors(32), 4));
        let ids: alloc::vec::Vec<u64> = rq.bios(a).map(|(_, io)| io.id.0).collect();
        assert_eq!(ids, [3, 1, 4, 2]);
        assert!(rq.get(b).is_none());
        rq.remove(a);
        assert!(rq.is_empty() && rq.bios.is_empty());
    }
}
