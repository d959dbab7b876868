//! Copy on write: reads come from a base that is never written, writes go to an overlay in memory or
//! in a file.
//!
//! A bit per block of the device says where the block is. Commands come in whole blocks, so nothing is
//! ever copied from the base: a write makes the block the overlay's. A discard or write-zeroes does the
//! same with a hole. A read is split where the place changes, and done when all its pieces are; a block
//! becomes the overlay's when the write is done, so that one that failed leaves the base's in view.
//!
//! An overlay in memory is gone at the end. One in a file is kept: what was flushed is there after a crash
//! at any point (`sync`), and what was not may be there or not, block by block, as on a disk.

mod bits;
mod lower;
mod overlay;
mod sync;
#[cfg(test)]
mod tests;

use super::memory::Memory;
use super::{
    Backend, Command, DeferredLookup, Done, EmulationFigures, Extent, ExtentsAnswer, Facts,
};
use super::{FileOptions, file, push_extent};
use super::{Opened, Target};
use crate::error::{ServeError, os};
use crate::system::Part;
use crate::system::Slab;
use bits::Bits;
use hoistway::{Instant, Op, Sectors};
use lower::{Lower, Owner};
pub use overlay::OverlayError;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use sync::Sync;

#[derive(Debug)]
struct Cow {
    // First, so that nothing is under way any more when the rest is dropped.
    base: Lower,
    overlay: Overlay,
    bits: Bits,
    block: u64,
    /// Commands from above, by slot.
    works: Slab<Work>,
    done: Vec<Done>,
    /// Readable when either backend has something.
    epoll: OwnedFd,
    results: Vec<(Owner, Result<(), Errno>)>,
}

#[derive(Debug)]
enum Overlay {
    Memory(Memory),
    File(Box<FileOverlay>),
}

#[derive(Debug)]
struct FileOverlay {
    below: Lower,
    /// Where the blocks begin.
    data: u64,
    punches: bool,
    sync: Sync,
}

/// A command from above.
#[derive(Clone, Copy, Debug)]
struct Work {
    command: Command,
    /// Commands below that are under way.
    pieces: usize,
    result: Result<(), Errno>,
}

/// Opens the base for reading only, and the overlay.
pub(super) fn open(base: &Target, overlay: Option<&Path>) -> Result<Opened, ServeError> {
    let base = read_only(base);
    let Opened { backend, mut device, facts } = base.open()?;
    let blocks = facts.size / u64::from(facts.block);
    let below = Lower::new(backend, device.queue_depth);
    let (overlay, bits, place, warning) = match overlay {
        None => {
            let memory = Memory::new(facts.size).map_err(os("memory for the overlay"))?;
            (Overlay::Memory(memory), Bits::new(blocks), "memory".to_string(), None)
        }
        Some(path) => {
            let (file, bits, warning) = open_file(path, &base, &facts)?;
            (Overlay::File(Box::new(file)), bits, path.display().to_string(), warning)
        }
    };
    let kept = matches!(overlay, Overlay::File(_));
    (device.write_cache, device.fua) = (kept, kept);
    device.max_discard_sectors = Sectors(1 << 22);
    device.discard_granularity = Sectors((u64::from(facts.block)).max(4096) / 512);
    let facts = Facts {
        read_only: false,
        discard: true,
        discard_zeroes: true,
        persistent: kept,
        summary: format!("{}, copy on write to {place}", facts.summary),
        warning: file::join(facts.warning, warning),
        ..facts
    };
    let epoll = watch(&below, &overlay).map_err(os("epoll"))?;
    let backend = Box::new(Cow {
        base: below,
        overlay,
        bits,
        block: facts.block.into(),
        works: Slab::with_capacity(64),
        done: Vec::new(),
        epoll,
        results: Vec::new(),
    });
    Ok(Opened { backend, device, facts })
}

fn read_only(base: &Target) -> Target {
    match base {
        Target::File { path, options } => {
            let options = FileOptions { read_only: true, ..*options };
            Target::File { path: path.clone(), options }
        }
        other => other.clone(),
    }
}

fn open_file(
    path: &Path,
    base: &Target,
    facts: &Facts,
) -> Result<(FileOverlay, Bits, Option<String>), ServeError> {
    let Target::File { path: base, options } = base else {
        let message = "an overlay that is kept wants a base that is kept: file:PATH";
        return Err(ServeError::Refused(message.into()));
    };
    let shape = overlay::OverlayShape::of(base, facts.size, facts.block)?;
    let overlay::OpenedOverlay { file, bits, data, punches } = overlay::open(path, &shape)?;
    let (backend, _, warning) = file::backend(file, options.way, false)?;
    let below = Lower::new(backend, file::DEPTH);
    Ok((FileOverlay { below, data, punches, sync: Sync::default() }, bits, warning))
}

fn watch(base: &Lower, overlay: &Overlay) -> Result<OwnedFd, Errno> {
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let overlay = match overlay {
        Overlay::Memory(_) => None,
        Overlay::File(file) => file.below.backend.fd(),
    };
    for fd in [base.backend.fd(), overlay].into_iter().flatten() {
        epoll::add(&epoll, fd, EventData::new_u64(0), EventFlags::IN)?;
    }
    Ok(epoll)
}

impl Cow {
    /// First block of a command and the one behind its last.
    fn blocks(&self, command: &Command) -> (u64, u64) {
        let end = command.start + command.len;
        debug_assert!(command.start.is_multiple_of(self.block) && end.is_multiple_of(self.block));
        (command.start / self.block, end / self.block)
    }

    /// Splits a read where the place of the blocks changes.
    fn read(&mut self, now: Instant, at: u32, command: &Command, parts: &[Part]) {
        let (mut from, to) = self.blocks(command);
        let mut rest = parts.to_vec();
        let mut pieces = 0;
        while from < to {
            let (stored, stop) = self.bits.run(from, to);
            let (start, len) = (from * self.block, (stop - from) * self.block);
            let piece = split_off(&mut rest, len as usize);
            match &mut self.overlay {
                _ if !stored => {
                    self.base.submit(now, Owner::Work(at), (Op::Read, start, len), piece)
                }
                Overlay::Memory(memory) => {
                    memory.carry_out(&Command { start, len, ..*command }, piece);
                    from = stop;
                    continue;
                }
                Overlay::File(file) => {
                    let range = (Op::Read, file.data + start, len);
                    file.below.submit(now, Owner::Work(at), range, piece);
                }
            }
            pieces += 1;
            from = stop;
        }
        self.expect(now, at, pieces);
    }

    fn change(&mut self, now: Instant, at: u32, command: &Command, parts: &[Part]) {
        match &mut self.overlay {
            Overlay::Memory(memory) => {
                memory.carry_out(command, parts.iter().copied());
                self.expect(now, at, 0);
            }
            Overlay::File(file) => {
                let op = match command.op {
                    Op::Discard if !file.punches => Op::WriteZeroes,
                    op => op,
                };
                let range = (op, file.data + command.start, command.len);
                file.below.submit(now, Owner::Work(at), range, parts.to_vec());
                self.expect(now, at, 1);
            }
        }
    }

    /// The command has that many pieces below; none: it is done.
    fn expect(&mut self, now: Instant, at: u32, pieces: usize) {
        let work = self.works.get_mut(at).expect("it was put there just now");
        work.pieces = pieces;
        if pieces == 0 {
            self.carried_out(now, at);
        }
    }

    fn piece_done(&mut self, now: Instant, at: u32, result: Result<(), Errno>) {
        let work = self.works.get_mut(at).expect("a command lives until its pieces are done");
        work.result = work.result.and(result);
        work.pieces -= 1;
        if work.pieces == 0 {
            self.carried_out(now, at);
        }
    }

    /// All pieces are done: changed blocks are the overlay's now, and are made durable if they must be.
    fn carried_out(&mut self, now: Instant, at: u32) {
        let Work { command, result, .. } = *self.works.get_mut(at).expect("looked at just now");
        let changes = !matches!(command.op, Op::Read | Op::Flush);
        if result.is_ok() && changes {
            let (from, to) = self.blocks(&command);
            self.bits.set(from, to);
            if let Overlay::File(file) = &mut self.overlay {
                file.sync.changed(from, to);
            }
        }
        let durable = command.op == Op::Flush || (changes && command.fua);
        match &mut self.overlay {
            Overlay::File(file) if durable && result.is_ok() => {
                file.sync.ask(now, at, &self.bits, &mut file.below);
            }
            _ => self.finish(at, result),
        }
    }

    fn finish(&mut self, at: u32, result: Result<(), Errno>) {
        let work = self.works.remove(at).expect("a command is finished once");
        self.done.push(Done { tag: work.command.tag, result });
    }

    fn synced(&mut self, now: Instant, result: Result<(), Errno>) {
        let Overlay::File(file) = &mut self.overlay else {
            unreachable!("only a file is made durable");
        };
        let (works, result) = file.sync.stepped(now, result, &self.bits, &mut file.below);
        works.into_iter().for_each(|at| self.finish(at, result));
    }

    fn overlay_extents(&self, start: u64, len: u64, most: usize) -> ExtentsAnswer {
        match &self.overlay {
            Overlay::Memory(memory) => ExtentsAnswer::Now(Ok(memory.extents(start, len, most))),
            Overlay::File(file) => file.below.backend.extents(file.data + start, len, most),
        }
    }
}

impl Backend for Cow {
    fn issue(&mut self, now: Instant, command: Command, parts: &[Part]) {
        let at = self.works.insert(Work { command, pieces: 0, result: Ok(()) });
        match command.op {
            Op::Read => self.read(now, at, &command, parts),
            Op::Flush => self.expect(now, at, 0),
            Op::Write | Op::WriteZeroes | Op::Discard => self.change(now, at, &command, parts),
        }
    }

    fn kick(&mut self) {
        self.base.backend.kick();
        if let Overlay::File(file) = &mut self.overlay {
            file.below.backend.kick();
        }
    }

    fn poll(&mut self, now: Instant, done: &mut Vec<Done>) {
        let mut results = std::mem::take(&mut self.results);
        self.base.poll(now, &mut results);
        if let Overlay::File(file) = &mut self.overlay {
            file.below.poll(now, &mut results);
        }
        let any = !results.is_empty();
        for (owner, result) in results.drain(..) {
            match owner {
                Owner::Work(at) => self.piece_done(now, at, result),
                Owner::Sync => self.synced(now, result),
            }
        }
        self.results = results;
        if any {
            // Further steps may have been issued.
            self.kick();
        }
        done.append(&mut self.done);
    }

    fn wake_at(&self) -> Option<Instant> {
        let overlay = match &self.overlay {
            Overlay::Memory(_) => None,
            Overlay::File(file) => file.below.backend.wake_at(),
        };
        [self.base.backend.wake_at(), overlay].into_iter().flatten().min()
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.epoll.as_fd())
    }

    fn is_instant(&self) -> bool {
        matches!(self.overlay, Overlay::Memory(_)) && self.base.backend.is_instant()
    }

    fn extents(&self, start: u64, len: u64, most: usize) -> ExtentsAnswer {
        // The question may be of any byte; blocks answer it. Each run of blocks has an extent at least: more
        // runs than extents are of no use.
        let (mut at, end, mut below) = (start, start + len, Vec::new());
        while at < end && below.len() < most {
            let (stored, stop) = self.bits.run(at / self.block, end.div_ceil(self.block));
            let stop = end.min(stop * self.block);
            let answer = if stored {
                self.overlay_extents(at, stop - at, most)
            } else {
                self.base.backend.extents(at, stop - at, most)
            };
            below.push((stop - at, answer));
            at = stop;
        }
        let known = below.iter().all(|(_, answer)| matches!(answer, ExtentsAnswer::Now(_)));
        let all = move || joined(below, most);
        if known {
            ExtentsAnswer::Now(all())
        } else {
            ExtentsAnswer::Later(DeferredLookup::new(all))
        }
    }

    fn emulation(&self) -> Option<EmulationFigures> {
        self.base.backend.emulation()
    }
}

/// The extents of ranges that follow each other, each with its length, as one list.
fn joined(ranges: Vec<(u64, ExtentsAnswer)>, most: usize) -> Result<Vec<Extent>, Errno> {
    let mut list = Vec::new();
    for (len, answer) in ranges {
        let mut covered = 0;
        for extent in answer.wait()? {
            if !push_extent(&mut list, extent, most) {
                return Ok(list);
            }
            covered += extent.len;
        }
        if covered < len {
            break;
        }
    }
    Ok(list)
}

/// Takes the first `len` bytes off a list of parts.
fn split_off(parts: &mut Vec<Part>, len: usize) -> Vec<Part> {
    let (mut taken, mut missing) = (Vec::new(), len);
    for part in parts.iter() {
        if missing == 0 {
            break;
        }
        let piece = part.first(missing.min(part.len()));
        missing -= piece.len();
        taken.push(piece);
    }
    assert_eq!(missing, 0, "the parts of a read hold all of it");
    crate::system::advance(parts, len);
    taken
}
