//! Calls that a process does not wait for, by io_uring: real ones, at a real depth.

use super::descriptors::call_failed;
use hoistway::Instant;
use hoistway_serve::system::Buffer;
use io_uring::{IoUring, opcode, types};
use rustix::io::Errno;
use std::fmt;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};

/// A call that is over.
#[derive(Clone, Copy, Debug)]
pub struct Done {
    /// When it was queued, or was meant to be.
    pub begun: Instant,
    pub bytes: u64,
    pub write: bool,
}

/// What is to be done.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    pub write: bool,
    pub offset: u64,
    pub len: u64,
    pub begun: Instant,
}

/// Calls under way.
pub struct CallQueue {
    ring: IoUring,
    slots: Vec<CallSlot>,
    free: Vec<u32>,
    /// Calls pushed that the kernel has not been told of.
    held: usize,
}

struct CallSlot {
    call: Call,
    /// The descriptor that it is carried out on, for messages.
    fd: RawFd,
    buffer: Buffer,
}

impl fmt::Debug for CallQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Queue({} of {})", self.open(), self.slots.len())
    }
}

impl CallQueue {
    /// Room for `depth` calls.
    pub fn new(depth: u32) -> Result<CallQueue, String> {
        let ring = IoUring::new(depth.next_power_of_two());
        let ring = ring.map_err(|e| {
            format!("io_uring: {e}; asynchronous loads need it (sysctl kernel.io_uring_disabled=0)")
        })?;
        let nothing = Call { write: false, offset: 0, len: 0, begun: Instant::ZERO };
        let slot = |_| CallSlot { call: nothing, fd: -1, buffer: Buffer::empty() };
        Ok(CallQueue {
            ring,
            slots: (0..depth).map(slot).collect(),
            free: (0..depth).rev().collect(),
            held: 0,
        })
    }

    /// Calls that are not over.
    pub fn open(&self) -> u32 {
        (self.slots.len() - self.free.len()) as u32
    }

    /// No further call has room.
    pub fn is_full(&self) -> bool {
        self.free.is_empty()
    }

    /// When the oldest of the open calls began.
    pub fn oldest(&self) -> Option<Instant> {
        let open = (0..self.slots.len() as u32).filter(|i| !self.free.contains(i));
        open.map(|i| self.slots[i as usize].call.begun).min()
    }

    /// Takes a call; the kernel hears of it with [`CallQueue::send`]. There is room. `fill`: what it writes.
    pub fn push(&mut self, fd: BorrowedFd<'_>, call: Call, fill: impl FnOnce(&mut [u8])) {
        let index = self.free.pop().expect("the caller has made room");
        let slot = &mut self.slots[index as usize];
        (slot.call, slot.fd) = (call, fd.as_raw_fd());
        if slot.buffer.len() < call.len as usize {
            slot.buffer = Buffer::zeroed(call.len as usize);
        }
        if call.write {
            fill(&mut slot.buffer[..call.len as usize]);
        }
        let (fd, len) = (types::Fd(fd.as_raw_fd()), call.len as u32);
        let entry = match call.write {
            true => opcode::Write::new(fd, slot.buffer.as_ptr(), len).offset(call.offset).build(),
            false => {
                opcode::Read::new(fd, slot.buffer.as_mut_ptr(), len).offset(call.offset).build()
            }
        };
        // SAFETY: the buffer belongs to the slot, which is not given out again, nor its buffer touched, before the
        // call is over; `drop` waits for all. The descriptor outlives the queue: the process keeps it open.
        let full = unsafe { self.ring.submission().push(&entry.user_data(index.into())).is_err() };
        assert!(!full, "the ring has a place for every slot");
        self.held += 1;
    }

    /// Tells the kernel of what is held back, and waits until `wait` calls can be collected.
    pub fn send(&mut self, wait: u32) -> Result<(), String> {
        loop {
            match self.ring.submit_and_wait(wait as usize) {
                Ok(sent) => self.held -= sent.min(self.held),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if Errno::from_io_error(&error) == Some(Errno::AGAIN) => {
                    std::thread::yield_now();
                    continue;
                }
                Err(error) => return Err(format!("io_uring: {error}")),
            }
            if self.held == 0 {
                return Ok(());
            }
        }
    }

    /// Collects what is over.
    pub fn reap(&mut self, mut each: impl FnMut(Done)) -> Result<(), String> {
        let CallQueue { ring, slots, free, .. } = self;
        for entry in ring.completion() {
            let index = entry.user_data() as u32;
            let CallSlot { call: Call { write, offset, len, begun }, fd, .. } =
                slots[index as usize];
            free.push(index);
            let error = match u64::try_from(entry.result()) {
                Ok(moved) if moved == len => None,
                Ok(moved) => Some(io::Error::other(format!("{moved} bytes were moved"))),
                Err(_) => Some(io::Error::from_raw_os_error(-entry.result())),
            };
            if let Some(error) = error {
                let what = if write { "write" } else { "read" };
                return Err(call_failed(&fd, what, len, offset, &error));
            }
            each(Done { begun, bytes: len, write });
        }
        Ok(())
    }

    /// Waits for all, uncounted.
    pub fn settle(&mut self) -> Result<(), String> {
        while self.open() > 0 {
            self.send(1)?;
            self.reap(|_| {})?;
        }
        Ok(())
    }
}

impl Drop for CallQueue {
    fn drop(&mut self) {
        // The kernel may write into the buffers until then. An error means that it has given the call up.
        while self.open() > 0 {
            if self.send(1).is_err() {
                break;
            }
            let _ = self.reap(|_| {});
        }
    }
}
