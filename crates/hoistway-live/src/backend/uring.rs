//! A file or block device by io_uring: one submission per turn for all commands of the turn.

use super::{Backend, Command, Done, Extent, file};
use crate::buffer::{Buffer, Part, advance};
use hoistway::{Instant, Op};
use io_uring::{IoUring, opcode, squeue, types};
use rustix::fs::FallocateFlags;
use rustix::io::Errno;
use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

pub(super) struct Uring {
    ring: IoUring,
    file: File,
    block_device: bool,
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// Pushed, not submitted yet.
    pushed: usize,
    /// What write-zeroes writes where the file system cannot do it by itself.
    zeroes: Buffer,
    zero_range: bool,
    done: Vec<Done>,
    reaped: Vec<(u32, i32)>,
}

/// A command under way.
#[derive(Debug)]
struct Slot {
    command: Command,
    /// What is still to be read or written; the kernel reads this list while a command is under way.
    parts: Vec<Part>,
    /// Where that begins.
    at: u64,
    step: Step,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// The command itself.
    Itself,
    /// The fdatasync behind a discard or write-zeroes with forced unit access.
    Sync,
}

/// RWF_DSYNC of `pwritev2`.
const DSYNC: i32 = 2;
/// Bytes of zeroes written per part.
const ZEROES: usize = 64 << 10;

impl Uring {
    /// Gives the file back when the kernel has no ring for us.
    pub fn new(file: File, depth: u32, block_device: bool) -> Result<Uring, (File, io::Error)> {
        let ring = match IoUring::new(depth.next_power_of_two()) {
            Ok(ring) => ring,
            Err(error) => return Err((file, error)),
        };
        let nothing = Command { tag: 0, op: Op::Flush, start: 0, len: 0, fua: false };
        let slot =
            || Slot { command: nothing, parts: Vec::with_capacity(16), at: 0, step: Step::Itself };
        Ok(Uring {
            ring,
            file,
            block_device,
            slots: (0..depth).map(|_| slot()).collect(),
            free: (0..depth).rev().collect(),
            pushed: 0,
            zeroes: Buffer::empty(),
            zero_range: true,
            done: Vec::with_capacity(depth as usize),
            reaped: Vec::with_capacity(depth as usize),
        })
    }

    fn push(&mut self, index: u32) {
        let entry = self.entry(index).user_data(u64::from(index));
        // SAFETY: the parts are valid until the command is reported done (`Part::new`), the list of
        // them is not touched before its completion is reaped, and `drop` waits for completions.
        let full = unsafe { self.ring.submission().push(&entry).is_err() };
        assert!(!full, "the ring has a place for every command the device takes");
        self.pushed += 1;
    }

    fn entry(&self, index: u32) -> squeue::Entry {
        let slot = &self.slots[index as usize];
        let (fd, c) = (types::Fd(self.file.as_raw_fd()), &slot.command);
        let sync = || opcode::Fsync::new(fd).flags(types::FsyncFlags::DATASYNC).build();
        let allocate = |mode: FallocateFlags| {
            opcode::Fallocate::new(fd, c.len).offset(c.start).mode(mode.bits() as i32).build()
        };
        let (list, count) = (slot.parts.as_ptr().cast(), slot.parts.len() as u32);
        if slot.step == Step::Sync {
            return sync();
        }
        match c.op {
            Op::Read => opcode::Readv::new(fd, list, count).offset(slot.at).build(),
            Op::WriteZeroes if self.zero_range => {
                allocate(FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE)
            }
            Op::Write | Op::WriteZeroes => {
                let flags = if c.fua { DSYNC } else { 0 };
                opcode::Writev::new(fd, list, count).offset(slot.at).rw_flags(flags).build()
            }
            Op::Discard => allocate(FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE),
            Op::Flush => sync(),
        }
    }

    /// A completion: the command is done, or goes on.
    fn completed(&mut self, index: u32, result: i32) {
        let slot = &mut self.slots[index as usize];
        let moved = match usize::try_from(result) {
            Ok(moved) => moved,
            Err(_) => match Errno::from_raw_os_error(-result) {
                Errno::INTR | Errno::AGAIN => return self.push(index),
                Errno::OPNOTSUPP if slot.command.op == Op::WriteZeroes && self.zero_range => {
                    self.zero_range = false;
                    return self.write_zeroes(index);
                }
                error => return self.finish(index, Err(error)),
            },
        };
        let data = slot.step == Step::Itself && !slot.parts.is_empty();
        if data {
            if moved == 0 {
                // The end of the file: somebody has cut it.
                return self.finish(index, Err(Errno::IO));
            }
            advance(&mut slot.parts, moved);
            slot.at += moved as u64;
            if !slot.parts.is_empty() {
                return self.push(index);
            }
        }
        let separate = matches!(slot.command.op, Op::Discard | Op::WriteZeroes) && !data;
        if slot.command.fua && separate && slot.step == Step::Itself {
            slot.step = Step::Sync;
            return self.push(index);
        }
        self.finish(index, Ok(()));
    }

    fn finish(&mut self, index: u32, result: Result<(), Errno>) {
        self.done.push(Done { tag: self.slots[index as usize].command.tag, result });
        self.free.push(index);
    }

    fn write_zeroes(&mut self, index: u32) {
        if self.zeroes.is_empty() {
            self.zeroes = Buffer::zeroed(ZEROES);
        }
        let slot = &mut self.slots[index as usize];
        slot.at = slot.command.start;
        slot.parts.clear();
        let mut rest = slot.command.len as usize;
        while rest > 0 {
            let len = rest.min(ZEROES);
            // SAFETY: the zeroes live as long as the ring and are only ever read.
            slot.parts.push(unsafe { Part::new(&mut self.zeroes, 0, len) });
            rest -= len;
        }
        self.push(index);
    }

    fn submit(&mut self) -> io::Result<()> {
        while self.pushed > 0 {
            match self.ring.submit() {
                Ok(n) => self.pushed = self.pushed.saturating_sub(n),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    fn reap(&mut self) {
        let mut reaped = std::mem::take(&mut self.reaped);
        reaped.extend(self.ring.completion().map(|e| (e.user_data() as u32, e.result())));
        for (index, result) in reaped.drain(..) {
            self.completed(index, result);
        }
        self.reaped = reaped;
    }
}

impl Backend for Uring {
    fn issue(&mut self, _now: Instant, command: Command, parts: &[Part]) {
        let index = self.free.pop().expect("a stack issues no more than the depth of the device");
        let slot = &mut self.slots[index as usize];
        (slot.command, slot.at, slot.step) = (command, command.start, Step::Itself);
        slot.parts.clear();
        slot.parts.extend_from_slice(parts);
        if command.op == Op::WriteZeroes && !self.zero_range {
            self.write_zeroes(index);
        } else {
            self.push(index);
        }
    }

    fn kick(&mut self) {
        if let Err(error) = self.submit() {
            // EBUSY: completions must be taken first; they are, and then it is tried again.
            let busy = [Errno::BUSY, Errno::AGAIN].map(|e| Some(e.raw_os_error()));
            assert!(busy.contains(&error.raw_os_error()), "io_uring_enter: {error}");
        }
    }

    fn poll(&mut self, _now: Instant, done: &mut Vec<Done>) {
        self.reap();
        self.kick();
        done.append(&mut self.done);
    }

    fn wake_at(&self) -> Option<Instant> {
        // The kernel had no memory for what was pushed; no completion may come to remind us of it.
        (self.pushed > 0).then_some(Instant::ZERO)
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        // SAFETY: the ring's descriptor is open as long as the ring, which the borrow keeps alive.
        Some(unsafe { BorrowedFd::borrow_raw(self.ring.as_raw_fd()) })
    }

    fn extents(&mut self, start: u64, len: u64, most: usize) -> Result<Vec<Extent>, Errno> {
        file::extents(&self.file, self.block_device, start, len, most)
    }
}

impl Drop for Uring {
    fn drop(&mut self) {
        // The kernel may still write into the parts: wait until it no longer does.
        while self.free.len() < self.slots.len() {
            match self.ring.submit_and_wait(1) {
                Ok(_) => self.pushed = 0,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                // Without an answer from the kernel the memory must not be freed.
                Err(_) => std::process::abort(),
            }
            self.reap();
        }
        debug_assert!(
            self.file.as_fd().as_raw_fd() >= 0,
            "the file is closed after the ring is idle"
        );
    }
}

impl fmt::Debug for Uring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let under_way = self.slots.len() - self.free.len();
        write!(f, "Uring({:?}, {under_way} under way)", self.file)
    }
}
