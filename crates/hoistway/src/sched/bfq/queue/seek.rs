//! Seekiness: how many of a queue's last requests were far from their predecessor (specs/bfq.md 1.3, 5.4).

/// One bit for each of the last 32 requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Seek {
    /// Newest bit lowest, 1 = far from the one before.
    history: u32,
    /// How many of them are 1: counting them anew costs more than following them.
    jumps: u32,
    /// End of the last request enqueued.
    pub last_pos: u64,
}

impl Seek {
    /// One jump, to the first request.
    pub const NEW: Seek = Seek { history: 1, jumps: 1, last_pos: 0 };

    /// After requests of that history.
    #[cfg(test)]
    pub fn of(history: u32) -> Seek {
        Seek { history, jumps: history.count_ones(), last_pos: 0 }
    }

    /// The last requests were like that.
    #[cfg(test)]
    pub fn recall(&mut self, history: u32) {
        *self = Seek { last_pos: self.last_pos, ..Seek::of(history) };
    }

    /// A request of `len` sectors at `pos` arrives.
    #[inline]
    pub fn record(&mut self, pos: u64, len: u64, rotational: bool) {
        let far = u32::from(is_far(self.last_pos, pos, len, rotational));
        self.jumps = self.jumps + far - (self.history >> 31);
        self.history = (self.history << 1) | far;
    }

    /// 20 or more of the last 32 requests were far.
    ///
    /// CFQ asks for 5. With that, queues of cooperating readers that had been merged were split again although
    /// their union ran near peak speed, and throughput was bad in most runs with seven processes or more; 19
    /// jumps is the least tolerance that worked reliably up to nine.
    #[inline]
    pub fn seeky(&self) -> bool {
        self.jumps > TOLERATED
    }

    /// All of the last 32 were: not the pattern of a player (6.3).
    #[inline]
    pub fn totally(&self) -> bool {
        self.jumps == u32::BITS
    }
}

/// Jumps that a queue which is not seeky may have in 32 requests.
const TOLERATED: u32 = 19;

/// Is a request at `pos` far from the end of the last one (3.3, 5.4)? Position 0 means that there was none.
///
/// Within 400 KiB a disk's read-ahead probably has the sectors already. On flash distance costs nothing; only
/// small requests waste its transfer rate, so a jump to a large one does not count.
#[inline]
pub(in super::super) fn is_far(last: u64, pos: u64, len: u64, rotational: bool) -> bool {
    last != 0 && pos.abs_diff(last) > FAR_SECTORS && (rotational || len < SMALL_SECTORS)
}

/// 400 KiB (3.1).
const FAR_SECTORS: u64 = 800;
/// 32 KiB (3.1).
const SMALL_SECTORS: u64 = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_twentieth_jump_of_32_makes_a_queue_seeky() {
        let mut seek = Seek { last_pos: 1 << 30, ..Seek::of(0) };
        for n in 1..=32 {
            seek.record(0, 8, true);
            assert_eq!(seek.seeky(), n >= 20, "{n} jumps");
            assert_eq!(seek.totally(), n == 32, "{n} jumps");
            assert_eq!(seek, Seek { last_pos: 1 << 30, ..Seek::of(seek.history) });
        }
        (0..13).for_each(|_| seek.record(1 << 30, 8, true));
        assert!(!seek.seeky() && !seek.totally());
    }

    #[test]
    fn far_is_more_than_800_sectors_either_way() {
        for (pos, far) in [(9_200, false), (9_199, true), (10_800, false), (10_801, true)] {
            assert_eq!(is_far(10_000, pos, 8, true), far, "{pos}");
        }
        assert!(!is_far(0, 1 << 30, 8, true), "nothing came before");
    }

    #[test]
    fn on_flash_only_small_requests_seek() {
        assert!(is_far(1, 1 << 30, 63, false));
        assert!(!is_far(1, 1 << 30, 64, false));
        assert!(is_far(1, 1 << 30, 64, true));
    }
}
