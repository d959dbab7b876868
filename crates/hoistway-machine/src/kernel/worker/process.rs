//! A process of a job: it asks its load what to do and does it, by the real system calls.
//!
//! What each operation becomes:
//!
//! | operation          | system call                                                              |
//! |--------------------|--------------------------------------------------------------------------|
//! | Open, TurnTo       | open, posix_fadvise, where the file is not open                          |
//! | Read, Write        | pread, pwrite, one per call; fdatasync or fsync where the load says       |
//! | Direct             | pread or pwrite on a descriptor with O_DIRECT                             |
//! | Queue, Collect     | io_uring, one read or write per call                                      |
//! | Fdatasync, Fsync   | the same; on a device msync of the file's range                           |
//! | Sync               | syncfs of the folder; fsync of the device                                 |
//! | Create, Unlink     | open with O_CREAT and O_TRUNC, unlink                                     |
//! | DontNeed, ...Part  | posix_fadvise(POSIX_FADV_DONTNEED): starts write-back, drops what is clean |
//! | DropCaches         | the same for every file that no load writes                              |
//! | Block              | O_DIRECT at the offset; without `wait` by io_uring                        |
//! | Compute            | a loop until the thread has had that much processor time; in virtual time sleep |
//! | Sleep              | clock_nanosleep until then                                                |
//! | Barrier            | futex in the shared memory                                                |
//!
//! Latency is the time between two readings of the monotonic clock around the call, or from the time the load says it
//! was due. The flags of bios that a load wants (metadata, read-ahead) cannot be set from user space.

use super::charge::{Charge, Sequence, waited};
use super::descriptors::{Descriptors, Open, call_failed};
use super::queue::{Call, CallQueue};
use super::shared::{SharedMemory, WorkerState};
use super::wire::Event;
use hoistway::{Instant, Nanos};
use hoistway_serve::system::Buffer;
use hoistway_serve::system::{Clock, processor_time};
use hoistway_sim::host::{Advice, BlockIo, Notice, Operation, Room, SyncKind};
use hoistway_sim::load::Load;
use hoistway_sim::rng::stream;
use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::Duration;

/// What comes next.
#[derive(Debug, PartialEq, Eq)]
pub enum Flow {
    /// The next operation.
    On,
    /// It is done by another process of the block layer: the load's own of that number.
    Become { slot: u32, lasting: bool },
    /// The load's processes of the block layer exit, but for the lasting ones.
    Home,
    /// That was all.
    End(WorkerState),
}

/// What one process of the block layer has under way on its own.
#[derive(Debug, Default)]
pub struct BlockIdentity {
    /// I/O that was submitted without waiting.
    ahead: Option<CallQueue>,
}

/// A process.
#[derive(Debug)]
pub struct WorkerProcess {
    pub p: usize,
    load: Box<dyn Load>,
    shared: Arc<SharedMemory>,
    clock: Clock,
    files: Descriptors,
    /// Files that no load of the job writes.
    unwritten: Arc<[bool]>,
    /// How many processes come to each barrier.
    parties: Arc<[u32]>,
    /// A target begins no call from then on.
    stop: Option<Instant>,
    /// When measuring ends, until it has.
    closing: Option<Instant>,
    open: Option<Open>,
    /// The other file, after [`Operation::TurnOver`].
    other: Option<Open>,
    /// Files that it turned away from, by number, after [`Operation::TurnTo`].
    shelf: BTreeMap<usize, Open>,
    /// Asynchronous calls.
    queue: Option<CallQueue>,
    /// Bytes submitted without waiting, which count with the next call that waits.
    unseen: u64,
    own: Buffer,
    data: WriteData,
    /// What computing costs in virtual time.
    charge: Option<Charge>,
    /// What was read last.
    sequence: Sequence,
}

/// Bytes about which the page cache is asked at a time: a system call of a guest is dear.
const LOOK_AHEAD: u64 = 256 << 10;

/// Files that a process keeps open beside the one in use: descriptors are few.
const SHELF: usize = 256;

/// What a process is made of.
#[derive(Debug)]
pub struct Parts {
    pub p: usize,
    pub load: Box<dyn Load>,
    pub shared: Arc<SharedMemory>,
    pub files: Descriptors,
    pub unwritten: Arc<[bool]>,
    pub parties: Arc<[u32]>,
    pub target: bool,
    pub end: Instant,
    /// In virtual time: what is slept for computing.
    pub charge: Option<Charge>,
}

impl WorkerProcess {
    /// `clock`: stands at zero at the common start.
    pub fn new(parts: Parts, clock: Clock) -> WorkerProcess {
        let Parts { p, load, shared, files, unwritten, parties, target, end, charge } = parts;
        WorkerProcess {
            p,
            load,
            shared,
            clock,
            files,
            unwritten,
            parties,
            stop: target.then_some(end),
            closing: Some(end),
            open: None,
            other: None,
            shelf: BTreeMap::new(),
            queue: None,
            unseen: 0,
            own: Buffer::empty(),
            data: WriteData::new(p, charge.is_some()),
            charge,
            sequence: Sequence::default(),
        }
    }

    /// The load's next operation, carried out.
    pub fn turn(&mut self, identity: &mut BlockIdentity) -> Result<Flow, String> {
        let now = self.clock.now();
        if let Some(end) = self.closing.filter(|&end| now >= end) {
            self.closing = None;
            // The last instant of the window.
            let last = Instant::from_nanos(end.as_nanos() - 1);
            for (what, n) in self.load.closing(end) {
                self.record(Event::Noticed(last, Notice::Count { what, n }))?;
            }
        }
        if is_over(self.stop, now) {
            self.collect_all()?;
            return Ok(Flow::End(WorkerState::Over));
        }
        match self.load.next(now) {
            Operation::Open { file, advice } => {
                self.open = Some(self.files.open(file.0 as usize, advice)?);
            }
            Operation::TurnOver => std::mem::swap(&mut self.open, &mut self.other),
            Operation::TurnTo { file, advice, afresh } => {
                self.turn_to(file.0 as usize, advice, afresh)?;
            }
            Operation::DontNeed(file) => self.files.dont_need(file.0 as usize, None)?,
            Operation::DontNeedPart { file, offset, len } => {
                self.files.dont_need(file.0 as usize, Some((offset, len)))?;
            }
            Operation::Read { offset, bs, count } => match self.charge {
                Some(charge) => self.read_charged(offset, bs, count, charge)?,
                None => self.read(offset, bs, count)?,
            },
            Operation::Write { offset, bs, count, sync } => self.write(offset, bs, count, sync)?,
            Operation::Direct { write, offset, len, since, sync } => {
                self.direct(write, (offset, len), since, sync)?;
            }
            Operation::Queue { write, offset, len, since, room } => {
                self.enqueue(write, (offset, len), since, room)?;
            }
            Operation::Collect => self.collect_all()?,
            Operation::Fdatasync(file) => self.sync(file.0 as usize, false)?,
            Operation::Fsync(file) => self.sync(file.0 as usize, true)?,
            Operation::Sync => paid(self.charge, &self.clock, || self.files.sync_all())?,
            Operation::Create(file) => self.files.create(file.0 as usize)?,
            Operation::Unlink(file) => self.unlink(file.0 as usize)?,
            Operation::DropCaches => self.drop_caches()?,
            Operation::Block(io) => self.block(io, identity, now)?,
            Operation::Barrier(barrier) => {
                let parties = self.parties[barrier.0 as usize];
                let passed = self.shared.barrier(barrier.0 as usize, parties);
                passed.map_err(|e| format!("barrier: {e}"))?;
            }
            Operation::Compute(time) => match &self.charge {
                Some(charge) => charge.compute(&self.clock, time),
                None => compute(time),
            },
            Operation::Sleep(until) => {
                // A target whose time is over has nothing to wait for.
                let until = self.stop.map_or(until, |stop| until.min(stop));
                self.clock.sleep_until(until);
            }
            Operation::Tell(Notice::RunAs { slot, lasting, .. }) => {
                return Ok(Flow::Become { slot, lasting });
            }
            Operation::Tell(Notice::EndProcs) => return Ok(Flow::Home),
            Operation::Tell(notice) => self.record(Event::Noticed(self.clock.now(), notice))?,
            Operation::Exit => {
                self.collect_all()?;
                self.record(Event::Exited(self.clock.now()))?;
                return Ok(Flow::End(WorkerState::Exited));
            }
        }
        Ok(Flow::On)
    }

    /// Another file is the one in use. What is closed for want of room is opened again when its turn comes.
    fn turn_to(&mut self, file: usize, advice: Advice, afresh: bool) -> Result<(), String> {
        if let Some(open) = self.open.take() {
            self.shelf.insert(open.id, open);
        }
        let kept = self.shelf.remove(&file).filter(|_| !afresh);
        if self.shelf.len() > SHELF {
            self.shelf.pop_first();
        }
        self.open = Some(match kept {
            Some(open) => open,
            None => self.files.open(file, advice)?,
        });
        Ok(())
    }

    fn record(&self, event: Event) -> Result<(), String> {
        let raw = event.encode()?;
        while !self.shared.push(self.p, raw) {
            // The coordinator is behind by thousands of calls: processors are short.
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// A call is over.
    fn end(&self, bytes: u64, write: bool, begun: Instant, end: Instant) -> Result<(), String> {
        self.record(Event::call(bytes, write, begun, end))?;
        self.shared.set_began(self.p, None);
        Ok(())
    }

    fn read(&mut self, offset: u64, bs: u64, count: u64) -> Result<(), String> {
        let open = self.open.take().ok_or("a read without an open file")?;
        let buffer = buffer_of(&mut self.own, bs);
        // For the loop, so that the rest can be borrowed.
        let mut buffer = std::mem::take(buffer);
        for call in 0..count {
            let begun = self.clock.now();
            if is_over(self.stop, begun) {
                break;
            }
            self.shared.set_began(self.p, Some(begun.as_nanos()));
            let at = open.base + offset + call * bs;
            let read = open.file.read_exact_at(&mut buffer[..bs as usize], at);
            let end = self.clock.now();
            read.map_err(|e| call_failed(&open.file, "read", bs, at, &e))?;
            self.end(bs, false, begun, end)?;
        }
        (self.own, self.open) = (buffer, Some(open));
        Ok(())
    }

    /// The same in virtual time: what is in the cache is read with one sleep for a run of calls, each call recorded with
    /// the times that it would have had alone.
    fn read_charged(
        &mut self,
        offset: u64,
        bs: u64,
        count: u64,
        charge: Charge,
    ) -> Result<(), String> {
        let open = self.open.take().ok_or("a read without an open file")?;
        let each = charge.cached(bs);
        let start = self.sequence.start(open.id, offset);
        let mut buffer = std::mem::take(&mut self.own);
        // When the next call begins; the process has slept until the last one began, if that is owed.
        let (mut call, mut next, mut owed) = (0, self.clock.now(), None);
        // Up to there all is known to be in the cache: what was read ahead stays, so that it is asked once.
        let mut known = 0;
        while call < count && !is_over(self.stop, next) {
            let place = offset + call * bs;
            let wanted = charge.run(place - start, bs).min(count - call);
            if known < place + wanted * bs {
                let far = (wanted * bs).max(LOOK_AHEAD.min((count - call) * bs));
                known = place + self.files.cached(open.id, place, far)?;
            }
            let there = (known - place).min(wanted * bs) / bs;
            let calls = there.max(1);
            self.clock.sleep_until(next + each * (calls - 1));
            self.record_read(bs, owed.take(), each)?;
            let begun = self.clock.now();
            self.shared.set_began(self.p, Some(begun.as_nanos()));
            let (at, bytes) = (open.base + place, calls * bs);
            let into = &mut buffer_of(&mut buffer, bytes)[..bytes as usize];
            let read = open.file.read_exact_at(into, at);
            read.map_err(|e| call_failed(&open.file, "read", bytes, at, &e))?;
            for i in 0..calls - 1 {
                self.record_read(bs, Some(next + each * i), each)?;
            }
            if there == 0 || waited(begun, self.clock.now()) {
                charge.read(&self.clock, begun, bs);
                next = self.clock.now();
                self.end(bs, false, begun, next)?;
            } else {
                self.shared.set_began(self.p, None);
                let last = next + each * (calls - 1);
                (next, owed) = (last + each, Some(last));
            }
            call += calls;
        }
        self.clock.sleep_until(next);
        self.record_read(bs, owed, each)?;
        self.sequence.read(open.id, offset + call * bs);
        (self.own, self.open) = (buffer, Some(open));
        Ok(())
    }

    /// A read from the cache is over that began at `begun`, if there is one and it did not begin too late.
    fn record_read(&self, bs: u64, begun: Option<Instant>, took: Nanos) -> Result<(), String> {
        match begun {
            Some(begun) if !is_over(self.stop, begun) => {
                self.record(Event::call(bs, false, begun, begun + took))
            }
            _ => Ok(()),
        }
    }

    fn write(&mut self, offset: u64, bs: u64, count: u64, sync: SyncKind) -> Result<(), String> {
        let open = self.open.take().ok_or("a write without an open file")?;
        for call in 0..count {
            let data = self.data.next(bs);
            let mut begun = self.clock.now();
            if is_over(self.stop, begun) {
                break;
            }
            self.shared.set_began(self.p, Some(begun.as_nanos()));
            let at = open.base + offset + call * bs;
            let written = open.file.write_all_at(data, at);
            written.map_err(|e| call_failed(&open.file, "write", bs, at, &e))?;
            if let Some(charge) = &self.charge {
                charge.write(&self.clock, bs);
            }
            if call + 1 == count && sync != SyncKind::No {
                if sync == SyncKind::FullAlone {
                    begun = self.clock.now();
                }
                let full = sync != SyncKind::Data;
                let files = &mut self.files;
                sync_file(files, (open.id, full), Some(&open.file), self.charge, &self.clock)?;
            }
            let end = self.clock.now();
            self.end(bs, true, begun, end)?;
        }
        self.open = Some(open);
        Ok(())
    }

    fn direct(
        &mut self,
        write: bool,
        (offset, len): (u64, u64),
        since: Option<Instant>,
        sync: bool,
    ) -> Result<(), String> {
        let open = self.open.as_ref().ok_or("a direct call without an open file")?;
        let at = open.base + offset;
        let file = self.files.direct(open.id)?;
        let begun = since.unwrap_or_else(|| self.clock.now());
        if is_over(self.stop, begun) {
            return Ok(());
        }
        self.shared.set_began(self.p, Some(begun.as_nanos()));
        if let Some(charge) = &self.charge {
            charge.direct(&self.clock, len);
        }
        let sent = self.clock.now();
        transfer(file, write, at, len, &mut self.own, &mut self.data)?;
        if let Some(charge) = &self.charge {
            charge.woken(&self.clock, sent);
        }
        if sync {
            let (files, file) = (&mut self.files, Some(&open.file));
            sync_file(files, (open.id, false), file, self.charge, &self.clock)?;
        }
        let end = self.clock.now();
        self.end(len, write, begun, end)
    }

    fn enqueue(
        &mut self,
        write: bool,
        (offset, len): (u64, u64),
        since: Option<Instant>,
        room: Room,
    ) -> Result<(), String> {
        let mut queue = match self.queue.take() {
            Some(queue) => queue,
            None => CallQueue::new(room.depth)?,
        };
        if queue.open() >= room.depth {
            while queue.open() > room.low {
                let wait = room.batch.min(queue.open() - room.low).max(1);
                self.wait_for(&mut queue, wait)?;
                self.collect(&mut queue)?;
            }
        }
        let begun = since.unwrap_or_else(|| self.clock.now());
        if !is_over(self.stop, begun) {
            if let Some(charge) = &self.charge {
                charge.direct(&self.clock, len);
            }
            let open = self.open.as_ref().ok_or("a queued call without an open file")?;
            let call = Call { write, offset: open.base + offset, len, begun };
            let file = self.files.direct(open.id)?;
            let data = if write { self.data.next(len) } else { &[] };
            queue.push(file.as_fd(), call, |into| into.copy_from_slice(data));
            if !room.more {
                queue.send(0)?;
            }
            self.collect(&mut queue)?;
        }
        self.queue = Some(queue);
        Ok(())
    }

    /// Waits until so many of the asynchronous calls are over.
    fn wait_for(&self, queue: &mut CallQueue, calls: u32) -> Result<(), String> {
        let since = self.clock.now();
        queue.send(calls)?;
        if let Some(charge) = &self.charge {
            charge.woken(&self.clock, since);
        }
        Ok(())
    }

    /// Takes what is over of the asynchronous calls.
    fn collect(&self, queue: &mut CallQueue) -> Result<(), String> {
        let (mut recorded, end) = (Ok(()), self.clock.now());
        queue.reap(|done| {
            let event = Event::call(done.bytes, done.write, done.begun, end);
            recorded = std::mem::replace(&mut recorded, Ok(())).and_then(|()| self.record(event));
        })?;
        self.shared.set_began(self.p, queue.oldest().map(|at| at.as_nanos()));
        recorded
    }

    fn collect_all(&mut self) -> Result<(), String> {
        let Some(mut queue) = self.queue.take() else { return Ok(()) };
        while queue.open() > 0 {
            self.wait_for(&mut queue, 1)?;
            self.collect(&mut queue)?;
        }
        self.queue = Some(queue);
        Ok(())
    }

    fn sync(&mut self, id: usize, full: bool) -> Result<(), String> {
        let own = self.open.as_ref().filter(|open| open.id == id);
        let file = own.map(|open| &open.file);
        sync_file(&mut self.files, (id, full), file, self.charge, &self.clock)
    }

    fn unlink(&mut self, id: usize) -> Result<(), String> {
        // Its blocks are freed with the last descriptor.
        for open in [&mut self.open, &mut self.other] {
            if open.as_ref().is_some_and(|open| open.id == id) {
                *open = None;
            }
        }
        self.files.unlink(id)
    }

    fn drop_caches(&mut self) -> Result<(), String> {
        (0..self.files.len())
            .filter(|&id| self.unwritten[id])
            .try_for_each(|id| self.files.dont_need(id, None))
    }

    fn block(
        &mut self,
        io: BlockIo,
        identity: &mut BlockIdentity,
        now: Instant,
    ) -> Result<(), String> {
        let file = self.files.block()?;
        let call = Call { write: io.write, offset: io.start, len: io.len, begun: now };
        if let Some(charge) = &self.charge {
            charge.block(&self.clock, io.len);
        }
        if !io.wait {
            let ahead = match &mut identity.ahead {
                Some(ahead) => ahead,
                none => none.insert(CallQueue::new(AHEAD)?),
            };
            ahead.reap(|_| {})?;
            while ahead.is_full() {
                ahead.send(1)?;
                ahead.reap(|_| {})?;
            }
            let data = if io.write { self.data.next(io.len) } else { &[] };
            ahead.push(file.as_fd(), call, |into| into.copy_from_slice(data));
            self.unseen += io.len;
            return ahead.send(0);
        }
        self.shared.set_began(self.p, Some(now.as_nanos()));
        if let Some(ahead) = &mut identity.ahead {
            ahead.settle()?;
        }
        let sent = self.clock.now();
        transfer(file, io.write, io.start, io.len, &mut self.own, &mut self.data)?;
        if let Some(charge) = &self.charge {
            charge.woken(&self.clock, sent);
        }
        let bytes = io.len + std::mem::take(&mut self.unseen);
        self.end(bytes, io.write, now, self.clock.now())
    }
}

/// The time of a target, which begins no call from `stop` on, is over.
fn is_over(stop: Option<Instant>, now: Instant) -> bool {
    stop.is_some_and(|stop| now >= stop)
}

/// fsync (`full`) or fdatasync of a file with what it computes: between the data and the flush, too, since a few
/// microseconds decide which flush of the drive a write is in time for.
fn sync_file(
    files: &mut Descriptors,
    (id, full): (usize, bool),
    file: Option<&File>,
    charge: Option<Charge>,
    clock: &Clock,
) -> Result<(), String> {
    let Some(charge) = charge else { return files.sync(id, full, file) };
    charge.sync(clock);
    let begun = clock.now();
    files.write_out(id, file)?;
    charge.written(clock, begun);
    let begun = clock.now();
    files.sync(id, full, file)?;
    charge.woken(clock, begun);
    Ok(())
}

/// A sync with what it computes.
fn paid(
    charge: Option<Charge>,
    clock: &Clock,
    sync: impl FnOnce() -> Result<(), String>,
) -> Result<(), String> {
    let Some(charge) = charge else { return sync() };
    charge.sync(clock);
    let begun = clock.now();
    sync()?;
    charge.synced(clock, begun);
    Ok(())
}

/// I/O of an identity that may be under way without anybody waiting for it.
const AHEAD: u32 = 256;

/// Room for `len` bytes.
fn buffer_of(buffer: &mut Buffer, len: u64) -> &mut Buffer {
    if buffer.len() < len as usize {
        *buffer = Buffer::zeroed(len as usize);
    }
    buffer
}

/// One call that is waited for.
fn transfer(
    file: &File,
    write: bool,
    at: u64,
    len: u64,
    own: &mut Buffer,
    data: &mut WriteData,
) -> Result<(), String> {
    if write {
        let written = file.write_all_at(data.next(len), at);
        return written.map_err(|e| call_failed(file, "write", len, at, &e));
    }
    let buffer = &mut buffer_of(own, len)[..len as usize];
    file.read_exact_at(buffer, at).map_err(|e| call_failed(file, "read", len, at, &e))
}

/// What is written: random, so that nothing on the way can compress it, and each page marked, so that none is the same
/// as another. In virtual time all zero: nothing is compressed there, and what is not zero would have to be kept.
#[derive(Debug)]
struct WriteData {
    zero: bool,
    bytes: Buffer,
    at: usize,
    mark: u64,
}

/// Bytes of random data, unless a call is longer.
const DATA: u64 = 2 << 20;

impl WriteData {
    fn new(p: usize, zero: bool) -> WriteData {
        WriteData { zero, bytes: Buffer::empty(), at: 0, mark: (p as u64) << 48 }
    }

    fn next(&mut self, len: u64) -> &[u8] {
        if (self.bytes.len() as u64) < len.max(DATA) {
            self.bytes = Buffer::zeroed(len.max(DATA) as usize);
            if !self.zero {
                let mut rng = stream(self.mark, "data");
                for word in self.bytes.chunks_exact_mut(8) {
                    word.copy_from_slice(&rng.bits().to_ne_bytes());
                }
            }
        }
        let len = len as usize;
        if self.zero {
            return &self.bytes[..len];
        }
        if self.at + len > self.bytes.len() {
            self.at = 0;
        }
        let piece = &mut self.bytes[self.at..self.at + len];
        self.at = (self.at + len).next_multiple_of(4096);
        for page in piece.chunks_mut(4096).filter(|page| page.len() >= 8) {
            self.mark += 1;
            page[..8].copy_from_slice(&self.mark.to_ne_bytes());
        }
        piece
    }
}

/// Uses a processor until this thread has had so much of its time: longer where processors are shared.
fn compute(time: Nanos) {
    let until = processor_time() + time.0;
    while processor_time() < until {
        (0..64).for_each(|_| std::hint::spin_loop());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn computing_takes_the_processor_time_asked_for() {
        let before = processor_time();
        compute(Nanos::ms(3));
        let ns = processor_time() - before;
        assert!(ns >= 3_000_000, "{ns}");
    }

    #[test]
    fn no_page_is_written_twice() {
        let mut data = WriteData::new(3, false);
        let mut pages: Vec<Vec<u8>> = (0..1200).map(|_| data.next(4096).to_vec()).collect();
        pages.extend(data.next(5 << 20).chunks(4096).map(<[u8]>::to_vec));
        assert_eq!(pages.len(), 1200 + 1280);
        pages.sort_unstable();
        pages.dedup();
        assert_eq!(pages.len(), 1200 + 1280);
        assert_eq!(data.next(512).len(), 512);
    }
}
