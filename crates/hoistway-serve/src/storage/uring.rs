//! A file or block device by io_uring: one submission per turn for all commands of the turn.

use super::{Backend, Command, Done, ExtentsAnswer, holes};
use crate::system::{Buffer, Part, advance};
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
    slots: Vec<UringSlot>,
    free: Vec<u32>,
    /// Pushed, not submitted yet.
    pushed: usize,
    /// What write-zeroes writes where the file system cannot do it by itself.
    zeroes: Buffer,
    zero_range: bool,
    done: Vec<Done>,
    reaped: Vec<(u32, i32)>,
    /// What a test makes of the kernel's results.
    #[cfg(test)]
    twist: Option<Twist>,
}

#[cfg(test)]
type Twist = Box<dyn FnMut(&UringSlot, i32) -> i32 + Send>;

/// A command under way.
#[derive(Debug)]
struct UringSlot {
    command: Command,
    /// What is still to be read or written; the kernel reads this list while a command is under way.
    parts: Vec<Part>,
    /// Where that begins.
    at: u64,
    step: UringStep,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UringStep {
    /// The command itself.
    Itself,
    /// The fdatasync behind a discard or write-zeroes with forced unit access.
    Sync,
}

impl UringSlot {
    /// The file system is asked to zero the range by itself; nothing is written for it.
    fn is_zero_range(&self) -> bool {
        self.command.op == Op::WriteZeroes
            && self.step == UringStep::Itself
            && self.parts.is_empty()
    }
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
        let slot = || UringSlot {
            command: nothing,
            parts: Vec::with_capacity(16),
            at: 0,
            step: UringStep::Itself,
        };
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
            #[cfg(test)]
            twist: None,
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
        if slot.step == UringStep::Sync {
            return sync();
        }
        match c.op {
            Op::Read => opcode::Readv::new(fd, list, count).offset(slot.at).build(),
            // Not by `zero_range`: another command may have found out meanwhile, while this one is
            // tried again.
            Op::WriteZeroes if slot.is_zero_range() => {
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
                Errno::OPNOTSUPP if slot.is_zero_range() => {
                    self.zero_range = false;
                    return self.write_zeroes(index);
                }
                error => return self.finish(index, Err(error)),
            },
        };
        let data = slot.step == UringStep::Itself && !slot.parts.is_empty();
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
        if slot.command.fua && separate && slot.step == UringStep::Itself {
            slot.step = UringStep::Sync;
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
            #[cfg(test)]
            let result = match &mut self.twist {
                Some(twist) => twist(&self.slots[index as usize], result),
                None => result,
            };
            self.completed(index, result);
        }
        self.reaped = reaped;
    }
}

impl Backend for Uring {
    fn issue(&mut self, _now: Instant, command: Command, parts: &[Part]) {
        let index = self.free.pop().expect("a stack issues no more than the depth of the device");
        let slot = &mut self.slots[index as usize];
        (slot.command, slot.at, slot.step) = (command, command.start, UringStep::Itself);
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

    fn resizable_file(&self) -> Option<File> {
        self.file.try_clone().ok()
    }

    fn extents(&self, start: u64, len: u64, most: usize) -> ExtentsAnswer {
        holes::look_up(&self.file, self.block_device, start, len, most)
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    const SIZE: usize = 64 << 10;

    /// A ring over a file of its own, or the reason why there is none.
    fn ring(name: &str) -> Option<(Uring, File)> {
        let path =
            std::env::temp_dir().join(format!("hoistway-ring-{}-{name}", std::process::id()));
        let file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        file.set_len(SIZE as u64).unwrap();
        match Uring::new(file.try_clone().unwrap(), 8, false) {
            Ok(ring) => Some((ring, file)),
            Err((_, e)) => {
                println!("skipped: io_uring: {e}");
                None
            }
        }
    }

    fn wait(ring: &mut Uring) {
        match ring.ring.submit_and_wait(1) {
            Ok(_) => {}
            // A process that was stopped and goes on.
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => panic!("{e}"),
        }
    }

    /// One command to its end, over pieces of those lengths of the buffer.
    fn run(
        ring: &mut Uring,
        op: Op,
        fua: bool,
        buffer: &mut Buffer,
        pieces: &[usize],
    ) -> Result<(), Errno> {
        let (mut parts, mut from) = (Vec::new(), 0);
        for &len in pieces {
            // SAFETY: the buffer outlives the command, which is over when this function returns.
            parts.push(unsafe { Part::new(buffer, from, len) });
            from += len;
        }
        let len = match op {
            Op::Discard | Op::WriteZeroes => 4096,
            _ => from as u64,
        };
        let command = Command { tag: 5, op, start: 512, len, fua };
        ring.issue(Instant::ZERO, command, &parts);
        let mut done = Vec::new();
        while done.is_empty() {
            ring.kick();
            wait(ring);
            ring.poll(Instant::ZERO, &mut done);
        }
        assert_eq!((done.len(), done[0].tag), (1, 5));
        assert_eq!(ring.free.len(), ring.slots.len());
        done[0].result
    }

    fn pattern(len: usize) -> Buffer {
        let bytes: Vec<u8> = (0..len).map(|n| (n % 251) as u8).collect();
        Buffer::from_slice(&bytes)
    }

    #[test]
    fn transfers_that_stop_at_any_byte_go_on_from_there() {
        let Some((mut ring, file)) = ring("short") else { return };
        let (pieces, len) = ([512, 1024, 512], 2048);
        for cut in (1..len as i32).step_by(7).chain([511, 512, 513, 1535, 1536, 1537, 2047]) {
            // The first step is cut there, later ones at random-looking places.
            let mut step = 0;
            ring.twist = Some(Box::new(move |_, result| {
                step += 1;
                match result {
                    moved if moved <= 0 => moved,
                    moved if step == 1 => moved.min(cut),
                    moved => moved.min(1 + (cut * step) % 600),
                }
            }));
            file.write_all_at(&[0; SIZE], 0).unwrap();
            let mut buffer = pattern(len);
            assert_eq!(run(&mut ring, Op::Write, cut % 2 == 0, &mut buffer, &pieces), Ok(()));
            let mut stored = vec![9; SIZE];
            file.read_exact_at(&mut stored, 0).unwrap();
            assert_eq!(stored[512..512 + len], pattern(len)[..], "cut at {cut}");
            assert!(stored[..512].iter().chain(&stored[512 + len..]).all(|&b| b == 0));
            let mut buffer = Buffer::zeroed(len);
            assert_eq!(run(&mut ring, Op::Read, false, &mut buffer, &pieces), Ok(()));
            assert_eq!(buffer[..], pattern(len)[..], "cut at {cut}");
        }
    }

    #[test]
    fn interruptions_are_tried_again_and_errors_are_exact_at_every_step() {
        let Some((mut ring, file)) = ring("errors") else { return };
        file.write_all_at(&[7; SIZE], 0).unwrap();
        for errno in [Errno::INTR, Errno::AGAIN, Errno::IO, Errno::NOSPC, Errno::NODATA] {
            for at in 1..=3 {
                for (op, fua) in [
                    (Op::Read, false),
                    (Op::Write, true),
                    (Op::WriteZeroes, true),
                    (Op::Discard, true),
                    (Op::Flush, false),
                ] {
                    let mut step = 0;
                    ring.twist = Some(Box::new(move |slot, result| {
                        step += 1;
                        match result {
                            _ if step == at => -errno.raw_os_error(),
                            moved if slot.parts.is_empty() => moved,
                            moved => moved.min(500),
                        }
                    }));
                    let data = matches!(op, Op::Read | Op::Write);
                    let mut buffer = pattern(1024);
                    let pieces: &[usize] = if data { &[512, 512] } else { &[] };
                    let result = run(&mut ring, op, fua, &mut buffer, pieces);
                    // How many steps it takes without an error: three transfers, or the sync behind.
                    let steps = match op {
                        Op::Read | Op::Write => 3,
                        Op::Flush => 1,
                        _ => 2,
                    };
                    let again = matches!(errno, Errno::INTR | Errno::AGAIN);
                    let expected = if again || at > steps { Ok(()) } else { Err(errno) };
                    assert_eq!(result, expected, "{op:?}, {errno} at step {at}");
                }
            }
        }
    }

    #[test]
    fn zeroes_are_written_where_the_file_system_has_no_such_call() {
        let Some((mut ring, file)) = ring("zeroes") else { return };
        for fua in [false, true] {
            file.write_all_at(&[7; SIZE], 0).unwrap();
            let mut step = 0;
            ring.zero_range = true;
            ring.twist = Some(Box::new(move |_, result| {
                step += 1;
                if step == 1 { -Errno::OPNOTSUPP.raw_os_error() } else { result.min(1000) }
            }));
            let command = Command { tag: 5, op: Op::WriteZeroes, start: 512, len: 4096, fua };
            ring.issue(Instant::ZERO, command, &[]);
            let mut done = Vec::new();
            while done.is_empty() {
                ring.kick();
                wait(&mut ring);
                ring.poll(Instant::ZERO, &mut done);
            }
            assert_eq!(done, [Done { tag: 5, result: Ok(()) }]);
            let mut stored = vec![9; SIZE];
            file.read_exact_at(&mut stored, 0).unwrap();
            assert!(stored[512..4608].iter().all(|&b| b == 0));
            assert!(stored[..512].iter().chain(&stored[4608..]).all(|&b| b == 7));
        }
    }

    #[test]
    fn every_command_under_way_is_written_when_the_file_system_has_no_such_call() {
        let Some((mut ring, file)) = ring("several") else { return };
        file.write_all_at(&[7; SIZE], 0).unwrap();
        // All are asked for before the first refusal is heard; one is interrupted before.
        let mut interrupted = false;
        ring.twist = Some(Box::new(move |slot, result| {
            if !slot.is_zero_range() {
                return result;
            }
            if slot.command.tag == 3 && !std::mem::replace(&mut interrupted, true) {
                return -Errno::INTR.raw_os_error();
            }
            -Errno::OPNOTSUPP.raw_os_error()
        }));
        for tag in 0..4 {
            let start = 512 + 8192 * tag;
            let command = Command { tag, op: Op::WriteZeroes, start, len: 4096, fua: tag == 1 };
            ring.issue(Instant::ZERO, command, &[]);
        }
        let mut done = Vec::new();
        while done.len() < 4 {
            ring.kick();
            ring.ring.submit_and_wait(1).unwrap();
            ring.poll(Instant::ZERO, &mut done);
        }
        assert!(done.iter().all(|d| d.result == Ok(())), "{done:?}");
        let mut stored = vec![9; SIZE];
        file.read_exact_at(&mut stored, 0).unwrap();
        for (at, byte) in stored.iter().enumerate() {
            let zero = at < 4 * 8192 && (512..4608).contains(&(at % 8192));
            assert_eq!(*byte, if zero { 0 } else { 7 }, "byte {at}");
        }
    }
}
