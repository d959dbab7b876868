//! An eventfd: how one thread wakes another that waits for descriptors.

use rustix::event::{EventfdFlags, eventfd};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Readable from when it is signalled until it is cleared.
#[derive(Debug)]
pub struct EventFd(OwnedFd);

impl EventFd {
    /// Not signalled yet.
    ///
    /// # Errors
    ///
    /// There is no descriptor left.
    pub fn new() -> io::Result<EventFd> {
        Ok(EventFd(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?))
    }

    /// Readable from now on.
    pub fn signal(&self) {
        // It can only fail by being full of signals that were not cleared yet.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }

    /// No longer readable until it is signalled anew. If it was not signalled, nothing happens.
    pub fn clear(&self) {
        let _ = rustix::io::read(&self.0, &mut [0u8; 8]);
    }
}

impl AsFd for EventFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
