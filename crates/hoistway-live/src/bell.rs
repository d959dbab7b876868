//! A bell: how one thread wakes another that waits for descriptors.

use rustix::event::{EventfdFlags, eventfd};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// An eventfd: readable from when it rings until it is heard.
#[derive(Debug)]
pub(crate) struct Bell(OwnedFd);

impl Bell {
    pub fn new() -> io::Result<Bell> {
        Ok(Bell(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?))
    }

    pub fn ring(&self) {
        // It can only fail by being full of rings that were not heard yet.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }

    /// Silent until it rings anew. If it has not rung, nothing happens.
    pub fn hear(&self) {
        let _ = rustix::io::read(&self.0, &mut [0u8; 8]);
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
