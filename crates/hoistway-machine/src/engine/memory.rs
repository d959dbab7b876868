//! Buffers that processes, cache and device share, and that are used again when nobody has them any more.

use hoistway_serve::system::{Buffer, Pool};
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex};

/// Gives buffers out; clones are the same.
#[derive(Clone, Debug)]
pub(super) struct Lender(Arc<Mutex<Pool>>);

impl Lender {
    pub fn new() -> Lender {
        Lender(Arc::new(Mutex::new(Pool::new())))
    }

    /// `len` bytes that hold anything.
    pub fn lend(&self, len: usize) -> Lent {
        let buffer = self.0.lock().expect(NO_PANIC).take(len);
        Lent { buffer, lender: self.clone() }
    }
}

const NO_PANIC: &str = "nobody panics while holding the lock";

/// A buffer that goes back when it is dropped.
pub(super) struct Lent {
    buffer: Buffer,
    lender: Lender,
}

impl Drop for Lent {
    fn drop(&mut self) {
        let buffer = std::mem::take(&mut self.buffer);
        self.lender.0.lock().expect(NO_PANIC).give(buffer);
    }
}

impl Lent {
    /// For the device.
    pub fn buffer(&self) -> &Buffer {
        &self.buffer
    }

    /// For the device.
    pub fn buffer_mut(&mut self) -> &mut Buffer {
        &mut self.buffer
    }
}

impl Deref for Lent {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.buffer
    }
}

impl DerefMut for Lent {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.buffer
    }
}

impl fmt::Debug for Lent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.buffer.fmt(f)
    }
}
