//! Sparse memory that several threads use at a time.
//!
//! **Problem.** The first write to a page costs ten microseconds where the machine is a virtual one, 2.5 ms for a
//! request of 1 MiB. Under one lock all other commands would wait for it, those of other places of the drive, too.
//!
//! **Idea.** Stripes of the drive take turns among several memories, each of which has a lock of its own: a
//! command keeps those of its own stripes busy, mostly one.

use hoistway_serve::storage::Memory;
use std::io;
use std::ops::Range;
use std::sync::RwLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

const STRIPE: u64 = 1 << 20;
const MEMORIES: u64 = 32;

/// Zero where nothing was written; at most so many bytes are written.
#[derive(Debug)]
pub(super) struct Stripes {
    memories: Vec<RwLock<Memory>>,
    used: AtomicU64,
    limit: u64,
}

/// The part of a range that lies in one stripe.
struct StripePart {
    memory: usize,
    /// Where it lies in that memory.
    at: u64,
    /// Which bytes of the range it is.
    bytes: Range<usize>,
}

fn pieces(at: u64, len: u64) -> impl Iterator<Item = StripePart> {
    let end = at + len;
    (at / STRIPE..end.div_ceil(STRIPE)).map(move |stripe| {
        let (from, to) = (at.max(stripe * STRIPE), end.min((stripe + 1) * STRIPE));
        StripePart {
            memory: (stripe % MEMORIES) as usize,
            at: stripe / MEMORIES * STRIPE + from % STRIPE,
            bytes: (from - at) as usize..(to - at) as usize,
        }
    })
}

impl Stripes {
    pub fn new(size: u64, limit: u64) -> io::Result<Stripes> {
        let each = size.div_ceil(STRIPE).div_ceil(MEMORIES) * STRIPE;
        let memory = |_| {
            let memory = Memory::new(each)?;
            memory.small_pages();
            Ok(RwLock::new(memory))
        };
        let memories = (0..MEMORIES).map(memory).collect::<io::Result<_>>()?;
        Ok(Stripes { memories, used: AtomicU64::new(0), limit })
    }

    /// Hands the bytes of a range to `give`, without a copy where they lie in one piece.
    pub fn read(&self, at: u64, len: u64, scratch: &mut Vec<u8>, give: impl FnOnce(&[u8])) {
        if at / STRIPE == (at + len.max(1) - 1) / STRIPE
            && let Some(piece) = pieces(at, len).next()
        {
            let memory = self.memories[piece.memory].read().expect(NO_PANIC);
            if let Some(bytes) = memory.written(piece.at, len) {
                return give(bytes);
            }
        }
        if scratch.len() < len as usize {
            scratch.resize(len as usize, 0);
        }
        for piece in pieces(at, len) {
            let memory = self.memories[piece.memory].read().expect(NO_PANIC);
            memory.read(piece.at, &mut scratch[piece.bytes]);
        }
        give(&scratch[..len as usize]);
    }

    /// An error where the limit is reached; what lies in stripes before that is stored.
    pub fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        for piece in pieces(at, bytes.len() as u64) {
            let part = &bytes[piece.bytes];
            let mut memory = self.memories[piece.memory].write().expect(NO_PANIC);
            let fresh = memory.used_after(piece.at, part.len() as u64) - memory.used();
            let more = |used: u64| used.checked_add(fresh).filter(|&used| used <= self.limit);
            if self.used.fetch_update(Relaxed, Relaxed, more).is_err() {
                return Err(io::ErrorKind::StorageFull.into());
            }
            memory.write(piece.at, part);
        }
        Ok(())
    }

    /// The range reads as zeroes and takes no room.
    pub fn zero(&self, at: u64, len: u64) {
        for piece in pieces(at, len) {
            let mut memory = self.memories[piece.memory].write().expect(NO_PANIC);
            let before = memory.used();
            memory.zero(piece.at, piece.bytes.len() as u64);
            self.used.fetch_sub(before - memory.used(), Relaxed);
        }
    }

    /// Bytes that were written, in grains of the memory.
    pub fn used(&self) -> u64 {
        self.used.load(Relaxed)
    }
}

const NO_PANIC: &str = "nobody panics while holding the lock";

#[cfg(test)]
mod tests {
    use super::*;

    fn read(stripes: &Stripes, at: u64, len: u64) -> Vec<u8> {
        let mut got = Vec::new();
        stripes.read(at, len, &mut Vec::new(), |bytes| got = bytes.to_vec());
        got
    }

    #[test]
    fn a_range_over_several_stripes_is_one_range() {
        let stripes = Stripes::new(80 * STRIPE, u64::MAX).unwrap();
        let bytes: Vec<u8> = (0..3 * STRIPE).map(|i| (i / 4096 % 251) as u8 + 1).collect();
        // Stripes 30 and 62 are of one memory.
        for first in [30, 62] {
            stripes.write(first * STRIPE - 512, &bytes).unwrap();
        }
        assert_eq!(read(&stripes, 30 * STRIPE - 512, 3 * STRIPE), bytes);
        assert_eq!(read(&stripes, 62 * STRIPE - 512, 3 * STRIPE), bytes);
        assert_eq!(read(&stripes, 62 * STRIPE + 4096, 10), bytes[4608..4618]);
        assert!(read(&stripes, 33 * STRIPE, 28 * STRIPE).iter().all(|&b| b == 0));
        stripes.zero(31 * STRIPE, STRIPE);
        let got = read(&stripes, 30 * STRIPE - 512, 3 * STRIPE);
        let hole = STRIPE as usize + 512..2 * STRIPE as usize + 512;
        assert!(got[hole.clone()].iter().all(|&b| b == 0));
        assert_eq!(got[..hole.start], bytes[..hole.start]);
        assert_eq!(got[hole.end..], bytes[hole.end..]);
        // The last byte of a drive that fills its last stripe.
        stripes.write(80 * STRIPE - 1, b"z").unwrap();
        assert_eq!(read(&stripes, 80 * STRIPE - 2, 2), b"\0z");
    }

    #[test]
    fn the_limit_counts_what_all_memories_hold_and_zeroing_gives_back() {
        let stripes = Stripes::new(8 * STRIPE, 192 << 10).unwrap();
        stripes.write(STRIPE - 1, b"ab").unwrap();
        stripes.write(5 * STRIPE, b"c").unwrap();
        assert_eq!(stripes.used(), 192 << 10);
        let full = stripes.write(3 * STRIPE, b"d").unwrap_err();
        assert_eq!(full.kind(), io::ErrorKind::StorageFull);
        assert_eq!(stripes.used(), 192 << 10);
        stripes.zero(5 * STRIPE, STRIPE);
        stripes.write(3 * STRIPE, b"d").unwrap();
        assert_eq!(read(&stripes, 3 * STRIPE, 2), b"d\0");
    }
}
