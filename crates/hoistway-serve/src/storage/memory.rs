//! Sparse memory: an anonymous mapping of which only what was written takes room.

use super::{Command, Extent, push_extent};
use crate::system::Part;
use hoistway::Op;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use std::io;
use std::ptr::NonNull;

/// Bytes per bit of the map of what was written.
const GRAIN: u64 = 64 << 10;
const PAGE: u64 = 4096;

/// Zeroes at first.
#[derive(Debug)]
pub struct Memory {
    base: NonNull<u8>,
    len: u64,
    /// Grains that were written.
    grains: u64,
    /// One bit per grain: something was written there. What was not is never touched, so that reading
    /// a hole takes no memory.
    written: Vec<u64>,
}

// SAFETY: the mapping is private and owned by this value alone.
unsafe impl Send for Memory {}
// SAFETY: a shared reference only reads the mapping.
#[cfg(feature = "fuse")]
unsafe impl Sync for Memory {}

impl Memory {
    /// Zeroes, which take no memory.
    ///
    /// # Errors
    ///
    /// There is no address space for them.
    pub fn new(len: u64) -> io::Result<Memory> {
        let bytes = usize::try_from(len).map_err(|_| io::ErrorKind::OutOfMemory)?;
        let (prot, flags) =
            (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::NORESERVE);
        // SAFETY: a fresh mapping at a place of the kernel's choice disturbs nothing.
        let base = unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, prot, flags)? };
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        let words = len.div_ceil(GRAIN).div_ceil(64) as usize;
        Ok(Memory { base, len, grains: 0, written: vec![0; words] })
    }

    /// Carries out a command on the bytes it names.
    pub fn carry_out(&mut self, command: &Command, parts: impl IntoIterator<Item = Part>) {
        let mut at = command.start;
        match command.op {
            Op::Read => {
                for mut part in parts {
                    self.read(at, part.bytes_mut());
                    at += part.len() as u64;
                }
            }
            Op::Write => {
                for part in parts {
                    self.write(at, part.bytes());
                    at += part.len() as u64;
                }
            }
            Op::Discard | Op::WriteZeroes => self.zero(at, command.len),
            Op::Flush => {}
        }
    }

    /// Copies what is there from byte `at` on.
    pub fn read(&self, at: u64, into: &mut [u8]) {
        let end = self.check(at, into.len() as u64);
        let (mut from, mut rest) = (at, into);
        while from < end {
            let stop = end.min((from / GRAIN + 1) * GRAIN);
            let (piece, behind) = rest.split_at_mut((stop - from) as usize);
            if self.is_written(from / GRAIN) {
                // SAFETY: `check` has seen that the range lies in the mapping.
                let source = unsafe {
                    std::slice::from_raw_parts(self.base.as_ptr().add(from as usize), piece.len())
                };
                piece.copy_from_slice(source);
            } else {
                piece.fill(0);
            }
            (from, rest) = (stop, behind);
        }
    }

    /// Memory is taken in pages of 4 KiB, so that [`used`](Memory::used) is what is used.
    #[cfg(feature = "fuse")]
    pub fn small_pages(&self) {
        // SAFETY: advice about our own mapping; it changes no content.
        let advised = unsafe {
            madvise(self.base.as_ptr().cast(), self.len as usize, Advice::LinuxNoHugepage)
        };
        // Kernels without huge pages refuse it, and need it not.
        let _ = advised;
    }

    /// The bytes of a range that was written as a whole.
    #[cfg(feature = "fuse")]
    pub fn written(&self, at: u64, len: u64) -> Option<&[u8]> {
        let end = self.check(at, len);
        if !(at / GRAIN..end.div_ceil(GRAIN)).all(|grain| self.is_written(grain)) {
            return None;
        }
        // SAFETY: `check` has seen that the range lies in the mapping, and nobody writes while self is
        // borrowed.
        Some(unsafe {
            std::slice::from_raw_parts(self.base.as_ptr().add(at as usize), len as usize)
        })
    }

    /// Bytes that were written, in grains of 64 KiB.
    #[cfg(feature = "fuse")]
    pub fn used(&self) -> u64 {
        self.grains * GRAIN
    }

    /// What [`used`](Memory::used) would be after a write.
    #[cfg(feature = "fuse")]
    pub fn used_after(&self, at: u64, len: u64) -> u64 {
        let end = self.check(at, len);
        let fresh = (at / GRAIN..end.div_ceil(GRAIN)).filter(|&grain| !self.is_written(grain));
        self.used() + fresh.count() as u64 * GRAIN
    }

    /// Puts bytes there from byte `at` on.
    pub fn write(&mut self, at: u64, from: &[u8]) {
        if from.is_empty() {
            return;
        }
        let end = self.check(at, from.len() as u64);
        for grain in at / GRAIN..end.div_ceil(GRAIN) {
            let (word, bit) = (&mut self.written[(grain / 64) as usize], 1 << (grain % 64));
            self.grains += u64::from(*word & bit == 0);
            *word |= bit;
        }
        self.slice(at, from.len() as u64).copy_from_slice(from);
    }

    /// The range reads as zeroes; its memory is given back as far as it is whole pages.
    pub fn zero(&mut self, at: u64, len: u64) {
        let end = self.check(at, len);
        let (first, last) = (at.next_multiple_of(PAGE).min(end), (end / PAGE * PAGE).max(at));
        if first >= last {
            // Within a page, or over the border of two.
            return self.clear(at, len);
        }
        self.clear(at, first - at);
        self.clear(last, end - last);
        // SAFETY: whole pages of our own private anonymous mapping, which read as zeroes afterwards;
        // nobody holds a slice of them.
        let advised = unsafe {
            let place = self.base.as_ptr().add(first as usize).cast();
            madvise(place, (last - first) as usize, Advice::LinuxDontNeed)
        };
        if advised.is_err() {
            self.clear(first, last - first);
            return;
        }
        for grain in at.div_ceil(GRAIN)..end / GRAIN {
            let (word, bit) = (&mut self.written[(grain / 64) as usize], 1 << (grain % 64));
            self.grains -= u64::from(*word & bit != 0);
            *word &= !bit;
        }
    }

    /// As [`super::Backend::extents`], which is known at once.
    pub fn extents(&self, start: u64, len: u64, most: usize) -> Vec<Extent> {
        let end = self.check(start, len);
        let (mut from, mut list) = (start, Vec::new());
        while from < end {
            let (grain, written) = (from / GRAIN, self.is_written(from / GRAIN));
            // A word of one kind is passed in one step: a range may have a million grains.
            let word = self.written[(grain / 64) as usize] >> (grain % 64);
            let same = if written { word.trailing_ones() } else { word.trailing_zeros() };
            let same = u64::from(same).min(64 - grain % 64);
            let stop = end.min((grain + same) * GRAIN);
            let extent = Extent { len: stop - from, hole: !written };
            if !push_extent(&mut list, extent, most) {
                break;
            }
            from = stop;
        }
        list
    }

    /// Fills a range with zeroes where something was written.
    fn clear(&mut self, at: u64, len: u64) {
        let (mut from, end) = (at, at + len);
        while from < end {
            let stop = end.min((from / GRAIN + 1) * GRAIN);
            if self.is_written(from / GRAIN) {
                self.slice(from, stop - from).fill(0);
            }
            from = stop;
        }
    }

    fn is_written(&self, grain: u64) -> bool {
        self.written[(grain / 64) as usize] >> (grain % 64) & 1 == 1
    }

    fn slice(&mut self, at: u64, len: u64) -> &mut [u8] {
        self.check(at, len);
        // SAFETY: the range lies in the mapping, and the borrow of self is exclusive.
        unsafe {
            let first = self.base.as_ptr().add(at as usize);
            std::slice::from_raw_parts_mut(first, len as usize)
        }
    }

    /// The end of the range, which must lie in the mapping.
    fn check(&self, at: u64, len: u64) -> u64 {
        let end = at.checked_add(len).expect("the stack has checked the range");
        assert!(end <= self.len, "the stack has checked the range");
        end
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the mapping of `new`; nobody can hold a slice of it any more.
        let unmapped = unsafe { munmap(self.base.as_ptr().cast(), self.len as usize) };
        debug_assert!(unmapped.is_ok(), "a mapping of our own can be unmapped");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_and_the_rest_is_zero() {
        let mut m = Memory::new(1 << 40).unwrap();
        m.write(GRAIN - 3, b"abcdef");
        let mut got = [9; 10];
        m.read(GRAIN - 5, &mut got);
        assert_eq!(&got, b"\0\0abcdef\0\0");
        m.read((1 << 40) - 10, &mut got);
        assert_eq!(got, [0; 10]);
    }

    #[test]
    fn zeroing_gives_whole_grains_back() {
        let mut m = Memory::new(8 * GRAIN).unwrap();
        m.write(0, &[7; 4 * GRAIN as usize]);
        m.zero(100, 3 * GRAIN);
        let mut got = vec![9; 4 * GRAIN as usize];
        m.read(0, &mut got);
        assert!(got[..100].iter().all(|&b| b == 7));
        assert!(got[100..100 + 3 * GRAIN as usize].iter().all(|&b| b == 0));
        assert!(got[100 + 3 * GRAIN as usize..].iter().all(|&b| b == 7));
        let map = |hole, grains| Extent { len: grains * GRAIN, hole };
        assert_eq!(
            m.extents(0, 8 * GRAIN, 9),
            [map(false, 1), map(true, 2), map(false, 1), map(true, 4)]
        );
        assert_eq!(m.extents(0, 8 * GRAIN, 2), [map(false, 1), map(true, 2)]);
        m.zero(5, 10);
        m.read(0, &mut got[..20]);
        assert_eq!(&got[..20], &[7, 7, 7, 7, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7, 7, 7, 7, 7]);
    }
}
