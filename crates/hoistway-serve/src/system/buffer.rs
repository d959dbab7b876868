//! Memory for I/O: page-aligned buffers, a pool of them, and the pieces of them that a device works on.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// Alignment of every buffer: enough for direct I/O on every block device.
pub const ALIGN: usize = 4096;

/// Page-aligned memory of a fixed size, initialised from the start.
pub struct Buffer {
    memory: NonNull<u8>,
    /// Allocated bytes; 0: nothing is allocated.
    room: usize,
    len: usize,
}

// SAFETY: a buffer owns its memory, as a Box<[u8]> does.
unsafe impl Send for Buffer {}
// SAFETY: a shared buffer only hands out shared slices.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// No memory.
    pub const fn empty() -> Buffer {
        Buffer { memory: NonNull::dangling(), room: 0, len: 0 }
    }

    /// `len` zeroes.
    pub fn zeroed(len: usize) -> Buffer {
        if len == 0 {
            return Buffer::empty();
        }
        let room = len.next_multiple_of(ALIGN);
        let layout = layout(room);
        // SAFETY: the layout is not of size zero.
        let memory = unsafe { alloc_zeroed(layout) };
        let memory = NonNull::new(memory).unwrap_or_else(|| handle_alloc_error(layout));
        Buffer { memory, room, len }
    }

    /// A copy of `bytes`.
    pub fn from_slice(bytes: &[u8]) -> Buffer {
        let mut buffer = Buffer::zeroed(bytes.len());
        buffer.copy_from_slice(bytes);
        buffer
    }

    /// Bytes it could hold without another allocation.
    pub fn room(&self) -> usize {
        self.room
    }

    /// Changes the length within the room; what comes into view was there before.
    pub fn set_len(&mut self, len: usize) {
        assert!(len <= self.room, "a buffer does not grow");
        self.len = len;
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if self.room > 0 {
            // SAFETY: allocated by `zeroed` with this very layout.
            unsafe { dealloc(self.memory.as_ptr(), layout(self.room)) };
        }
    }
}

impl Deref for Buffer {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: `len` bytes within the allocation are initialised (it began as zeroes).
        unsafe { std::slice::from_raw_parts(self.memory.as_ptr(), self.len) }
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and the borrow is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.memory.as_ptr(), self.len) }
    }
}

impl Default for Buffer {
    fn default() -> Buffer {
        Buffer::empty()
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} of {} bytes)", self.len, self.room)
    }
}

fn layout(room: usize) -> Layout {
    Layout::from_size_align(room, ALIGN).expect("a buffer is far smaller than the address space")
}

/// A piece of a buffer in the hands of a device; laid out as the kernel's `iovec`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Part {
    memory: *mut u8,
    len: usize,
}

// SAFETY: whoever makes a part promises that nobody else touches the memory meanwhile (`Part::new`).
unsafe impl Send for Part {}

impl Part {
    /// `len` bytes of `buffer` from `from` on.
    ///
    /// # Safety
    ///
    /// Until the device has reported the command done, the buffer must neither be dropped nor touched.
    pub unsafe fn new(buffer: &mut Buffer, from: usize, len: usize) -> Part {
        assert!(from <= buffer.len && len <= buffer.len - from, "a part lies within its buffer");
        // By the pointer, not by a slice: a new borrow of the whole would end that of other parts.
        // SAFETY: within the allocation, as seen just now.
        Part { memory: unsafe { buffer.memory.as_ptr().add(from) }, len }
    }

    /// `len` bytes of a buffer that is shared, for a command that only reads them (a write).
    ///
    /// # Safety
    ///
    /// Until the device has reported the command done, the buffer must not be dropped; nobody may ask
    /// the part for [`Part::bytes_mut`].
    pub unsafe fn shared(buffer: &Buffer, from: usize, len: usize) -> Part {
        Part { memory: buffer[from..from + len].as_ptr().cast_mut(), len }
    }

    /// Bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// There are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// What is in it.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: valid and ours alone until the command is done (`Part::new`).
        unsafe { std::slice::from_raw_parts(self.memory, self.len) }
    }

    /// What is in it, to be changed.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts_mut(self.memory, self.len) }
    }

    /// The first `n` bytes.
    pub fn first(&self, n: usize) -> Part {
        assert!(n <= self.len, "a part is not longer than it is");
        Part { memory: self.memory, len: n }
    }

    /// Forgets the first `n` bytes.
    pub fn advance(&mut self, n: usize) {
        assert!(n <= self.len, "a part is not longer than it is");
        // SAFETY: the result still points into the piece, or just behind it.
        self.memory = unsafe { self.memory.add(n) };
        self.len -= n;
    }
}

/// Drops the first `n` bytes of a list of parts, and parts that are empty then.
pub fn advance(parts: &mut Vec<Part>, mut n: usize) {
    let whole = parts.iter().take_while(|p| {
        let gone = p.len <= n;
        n -= if gone { p.len } else { 0 };
        gone
    });
    let whole = whole.count();
    parts.drain(..whole);
    if let Some(first) = parts.first_mut() {
        first.advance(n);
    }
}

/// Free buffers by size, so that a steady load allocates nothing.
#[derive(Debug, Default)]
pub struct Pool {
    /// Powers of two from 4 KiB to 32 MiB.
    classes: [Vec<Buffer>; CLASSES],
    /// Bytes kept.
    kept: usize,
    /// Bytes handed out.
    used: usize,
}

const CLASSES: usize = 14;
/// Bytes the pool keeps at most (chosen: a few hundred requests of 64 KiB).
const KEPT_MAX: usize = 64 << 20;

impl Pool {
    /// Nothing is kept yet.
    pub fn new() -> Pool {
        Pool::default()
    }

    /// A buffer of `len` bytes that hold anything: what somebody else read or wrote before.
    pub fn take(&mut self, len: usize) -> Buffer {
        if len == 0 {
            return Buffer::empty();
        }
        let class = class(len);
        let mut buffer = match self.classes.get_mut(class).and_then(Vec::pop) {
            Some(buffer) => {
                self.kept -= buffer.room();
                buffer
            }
            None => Buffer::zeroed(if class < CLASSES { ALIGN << class } else { len }),
        };
        buffer.set_len(len);
        self.used += buffer.room();
        buffer
    }

    /// Bytes handed out and not given back.
    pub fn used(&self) -> usize {
        self.used
    }

    /// Takes a buffer back, and keeps it for later if there is room.
    pub fn give(&mut self, buffer: Buffer) {
        self.used = self.used.saturating_sub(buffer.room());
        let class = class(buffer.room().max(1));
        if class < CLASSES
            && buffer.room() == ALIGN << class
            && self.kept + buffer.room() <= KEPT_MAX
        {
            self.kept += buffer.room();
            self.classes[class].push(buffer);
        }
    }
}

fn class(len: usize) -> usize {
    len.div_ceil(ALIGN).next_power_of_two().trailing_zeros() as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_aligned_and_begin_as_zeroes() {
        let buffer = Buffer::zeroed(5000);
        assert_eq!(buffer.as_ptr() as usize % ALIGN, 0);
        assert_eq!((buffer.len(), buffer.room()), (5000, 8192));
        assert!(buffer.iter().all(|&b| b == 0));
        assert_eq!(&Buffer::from_slice(b"abc")[..], b"abc");
        assert!(Buffer::empty().is_empty());
    }

    #[test]
    fn the_pool_hands_out_what_it_was_given() {
        let mut pool = Pool::new();
        let first = pool.take(4096);
        let place = first.as_ptr();
        pool.give(first);
        assert_ne!(pool.take(8192).as_ptr(), place, "another size");
        assert_eq!(pool.take(100).as_ptr(), place);
        assert_eq!(pool.kept, 0);
        for _ in 0..20 {
            let big = pool.take(32 << 20);
            pool.give(big);
        }
        let (a, b, c) = (pool.take(32 << 20), pool.take(32 << 20), pool.take(32 << 20));
        [a, b, c].into_iter().for_each(|big| pool.give(big));
        assert_eq!(pool.kept, KEPT_MAX, "the third is freed");
    }

    #[test]
    fn a_list_of_parts_is_advanced_over_part_borders() {
        let mut buffer = Buffer::from_slice(b"0123456789");
        // SAFETY: the buffer outlives the parts and is not touched.
        let mut parts = unsafe { vec![Part::new(&mut buffer, 0, 4), Part::new(&mut buffer, 4, 4)] };
        advance(&mut parts, 3);
        assert_eq!((parts[0].bytes(), parts.len()), (&b"3"[..], 2));
        advance(&mut parts, 2);
        assert_eq!((parts[0].bytes(), parts.len()), (&b"567"[..], 1));
        advance(&mut parts, 3);
        assert!(parts.is_empty());
    }
}
