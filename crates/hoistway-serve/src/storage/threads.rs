//! A file or block device by a pool of threads: for machines whose kernel forbids io_uring.

use super::{Backend, Command, Done, ExtentsAnswer, holes};
use crate::system::EventFd;
use crate::system::thread::errors_instead_of_signals;
use crate::system::{Buffer, Part, advance};
use hoistway::{Instant, Op};
use rustix::fs::{FallocateFlags, fallocate, fdatasync};
use rustix::io::{Errno, ReadWriteFlags, preadv, pwritev2, retry_on_intr};
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};

#[derive(Debug)]
pub(super) struct Threads {
    shared: Arc<SharedFile>,
    workers: Vec<JoinHandle<()>>,
    block_device: bool,
}

#[derive(Debug)]
struct SharedFile {
    file: File,
    /// Rings when something is done.
    wakeup: EventFd,
    state: Mutex<CommandQueue>,
    work: Condvar,
}

#[derive(Debug, Default)]
struct CommandQueue {
    waiting: VecDeque<(Command, Vec<Part>)>,
    done: Vec<Done>,
    /// Lists for the parts of later commands.
    spare: Vec<Vec<Part>>,
    stop: bool,
}

/// Commands under way at once; further ones wait in the pool.
const WORKERS: usize = 16;

impl Threads {
    pub fn new(file: File, block_device: bool) -> io::Result<Threads> {
        let wakeup = EventFd::new()?;
        let shared =
            Arc::new(SharedFile { file, wakeup, state: Mutex::default(), work: Condvar::new() });
        let mut pool = Threads { shared, workers: Vec::new(), block_device };
        for n in 0..WORKERS {
            let shared = Arc::clone(&pool.shared);
            let name = format!("hoistway-io-{n}");
            pool.workers.push(thread::Builder::new().name(name).spawn(move || shared.work())?);
        }
        Ok(pool)
    }
}

impl SharedFile {
    fn lock(&self) -> MutexGuard<'_, CommandQueue> {
        self.state.lock().expect("no worker panics while it holds the lock")
    }

    fn work(&self) {
        errors_instead_of_signals();
        let mut state = self.lock();
        loop {
            if let Some((command, mut parts)) = state.waiting.pop_front() {
                drop(state);
                let result = carry_out(&self.file, command, &mut parts);
                parts.clear();
                state = self.lock();
                state.spare.push(parts);
                state.done.push(Done { tag: command.tag, result });
                if state.done.len() == 1 {
                    self.wakeup.signal();
                }
            } else if state.stop {
                return;
            } else {
                state = self.work.wait(state).expect("no worker panics while it holds the lock");
            }
        }
    }
}

impl Backend for Threads {
    fn issue(&mut self, _now: Instant, command: Command, parts: &[Part]) {
        let mut state = self.shared.lock();
        let mut list = state.spare.pop().unwrap_or_default();
        list.extend_from_slice(parts);
        state.waiting.push_back((command, list));
        drop(state);
        self.shared.work.notify_one();
    }

    fn poll(&mut self, _now: Instant, done: &mut Vec<Done>) {
        let mut state = self.shared.lock();
        if !state.done.is_empty() {
            self.shared.wakeup.clear();
            done.append(&mut state.done);
        }
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.shared.wakeup.as_fd())
    }

    fn resizable_file(&self) -> Option<File> {
        self.shared.file.try_clone().ok()
    }

    fn extents(&self, start: u64, len: u64, most: usize) -> ExtentsAnswer {
        holes::look_up(&self.shared.file, self.block_device, start, len, most)
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        // What was issued is carried out first: its memory is in use until then.
        self.shared.lock().stop = true;
        self.shared.work.notify_all();
        for worker in self.workers.drain(..) {
            let _ = worker.join();
        }
    }
}

fn carry_out(file: &File, command: Command, parts: &mut Vec<Part>) -> Result<(), Errno> {
    let at = command.start;
    match command.op {
        Op::Read => transfer(parts, at, |parts, at| read(file, parts, at)),
        Op::Write => {
            let flags = if command.fua { ReadWriteFlags::DSYNC } else { ReadWriteFlags::empty() };
            transfer(parts, at, |parts, at| write(file, parts, at, flags))
        }
        Op::Flush | Op::Discard | Op::WriteZeroes => without_data(file, command),
    }
}

/// Carries out a flush, discard or write-zeroes; of a write whose data is there, the forced unit access.
pub fn without_data(file: &File, command: Command) -> Result<(), Errno> {
    let (at, len) = (command.start, command.len);
    let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    let zero = FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE;
    // A signal may come to any thread of the process.
    let sync = || retry_on_intr(|| fdatasync(file));
    match command.op {
        Op::Read => return Ok(()),
        Op::Write => {}
        Op::Flush => return sync(),
        Op::Discard => retry_on_intr(|| fallocate(file, hole, at, len))?,
        Op::WriteZeroes => match retry_on_intr(|| fallocate(file, zero, at, len)) {
            Err(Errno::OPNOTSUPP) => write_zeroes(file, at, len)?,
            other => other?,
        },
    }
    if command.fua { sync() } else { Ok(()) }
}

fn write_zeroes(file: &File, mut at: u64, len: u64) -> Result<(), Errno> {
    let (zeroes, end) = (Buffer::zeroed(64 << 10), at + len);
    while at < end {
        let piece = zeroes.len().min((end - at) as usize);
        at += retry_on_intr(|| rustix::io::pwrite(file, &zeroes[..piece], at))? as u64;
    }
    Ok(())
}

fn transfer(
    parts: &mut Vec<Part>,
    mut at: u64,
    mut step: impl FnMut(&mut [Part], u64) -> Result<usize, Errno>,
) -> Result<(), Errno> {
    while !parts.is_empty() {
        match step(parts, at) {
            // The end of the file: somebody has cut it.
            Ok(0) => return Err(Errno::IO),
            Ok(moved) => {
                advance(parts, moved);
                at += moved as u64;
            }
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn read(file: &File, parts: &mut [Part], at: u64) -> Result<usize, Errno> {
    let mut slices: Vec<_> = parts.iter_mut().map(|p| IoSliceMut::new(p.bytes_mut())).collect();
    preadv(file, &mut slices, at)
}

fn write(file: &File, parts: &[Part], at: u64, flags: ReadWriteFlags) -> Result<usize, Errno> {
    let slices: Vec<_> = parts.iter().map(|p| IoSlice::new(p.bytes())).collect();
    pwritev2(file, &slices, at, flags)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transfers_that_stop_at_any_byte_go_on_from_there() {
        let source: Vec<u8> = (0..64).collect();
        for cut in 1..64 {
            let mut buffer = Buffer::zeroed(64);
            // SAFETY: the buffer outlives the parts and is not touched meanwhile.
            let mut parts = unsafe {
                [(0, 16), (16, 32), (48, 16)]
                    .map(|(from, len)| Part::new(&mut buffer, from, len))
                    .to_vec()
            };
            let mut calls = 0;
            let result = transfer(&mut parts, 100, |parts, at| {
                calls += 1;
                if calls % 3 == 2 {
                    return Err([Errno::INTR, Errno::AGAIN][cut % 2]);
                }
                let (mut from, mut left) = (at as usize - 100, cut);
                for part in parts.iter_mut() {
                    let len = part.len().min(left);
                    part.bytes_mut()[..len].copy_from_slice(&source[from..from + len]);
                    (from, left) = (from + len, left - len);
                }
                Ok(cut - left)
            });
            assert_eq!(result, Ok(()));
            assert_eq!(buffer[..], source[..], "{cut} bytes at a time");
        }
    }

    #[test]
    fn the_end_of_the_file_and_errors_end_a_transfer() {
        let mut buffer = Buffer::zeroed(64);
        for (answer, expected) in [(Ok(0), Errno::IO), (Err(Errno::NOSPC), Errno::NOSPC)] {
            // SAFETY: as above.
            let mut parts = unsafe { vec![Part::new(&mut buffer, 0, 64)] };
            let mut calls = 0;
            let result = transfer(&mut parts, 0, |_, _| {
                calls += 1;
                if calls == 1 { Ok(10) } else { answer }
            });
            assert_eq!((result, calls), (Err(expected), 2));
        }
    }
}
