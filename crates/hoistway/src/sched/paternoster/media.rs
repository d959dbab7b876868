//! Is there a platter behind it?
//!
//! *Problem.* What a device says of itself cannot be trusted: disks of virtual machines say `rotational` although
//! flash is behind them. Served as a disk, in slices and with pauses, flash makes a target wait fifty times too long.
//!
//! *Idea.* Physics. After a jump of more than [`FAR`] an arm has to move and the platter to turn: hardly any read comes
//! back within a millisecond. On flash nearly all do.
//!
//! *State.* A score, and the last places that were counted: places read again and again may be in the cache of a disk.
//!
//! *Rule.* A read far from the request sent before it, at a place not counted lately, took the time since the
//! completion before or since it was sent, whichever is later. Faster than [`FAST`] (beside eight others
//! [`FAST_OF_MANY`]: a disk chooses the nearest) and its transfer: one up for flash.
//! Slower than [`SLOW`] and its transfer: one up for a disk. Each takes [`BACK`] off the other's score; at [`ENOUGH`] it
//! is decided, and may be decided anew. Only devices that say `rotational` are asked: nobody says he has no platter
//! and has one, and what says so keeps its results.
//!
//! Reads of the lane score apart, wherever they are: where one in [`QUICK_BACK`] at most is no quick one, neither arm nor
//! platter keeps who sent them, be it flash or the cache of a disk. A start-up hits the cache too, but for each read or two
//! of a file the arm moves.
//!
//! *Weaknesses.* A device on which nobody reads at random stays what it says. A disk whose cache holds more than sixteen
//! places that are read far apart passes for flash until others are read.

use crate::unit::{Instant, Nanos, Sectors};

/// Farther than any two places in a segment of a disk's cache.
const FAR: u64 = (128 << 20) / 512;
/// A disk needs a millisecond for the shortest seek alone, and half a turn on average (2 to 6 ms).
const FAST: Nanos = Nanos::ms(1);
/// But one that chooses the nearest of 31 does a thousand in a second.
const FAST_OF_MANY: Nanos = Nanos::us(400);
const MANY: u32 = 8;
const SLOW: Nanos = Nanos::ms(2);
/// Transfer of a sector at 200 MB/s.
const SECTOR: Nanos = Nanos(2_560);
/// Of a disk one read in ten may be fast by chance: its score still falls by three and a half a read.
const BACK: u32 = 4;
/// Sixteen in a row by chance: once in 10^16 on a disk.
const ENOUGH: u32 = 16;
/// Quick reads of the lane that are enough, what each other takes off, and the most that counts.
const QUICK: u32 = 256;
const QUICK_BACK: u32 = 64;
const QUICK_MOST: u32 = 512;
/// Places nearer than this to one counted lately are the same.
const PLACE: u64 = (1 << 20) / 512;

/// The kind of drive that is assumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Choice {
    Auto,
    Flash,
    Disk,
}

#[derive(Debug)]
pub(super) struct Media {
    choice: Choice,
    /// The device says it is rotational.
    says: bool,
    /// Measurements contradict it.
    flash: bool,
    /// What follows from these.
    disk: bool,
    fast: u32,
    slow: u32,
    /// Of reads of the lane, wherever they were.
    quick: u32,
    places: [u64; ENOUGH as usize],
    next: usize,
    last_end: u64,
    last_completion: Instant,
}

/// A read that is over.
#[derive(Clone, Copy, Debug)]
pub(super) struct MediaRead {
    pub start: Sectors,
    pub sectors: Sectors,
    /// Sent far from the request before it.
    pub far: bool,
    /// Of the lane.
    pub lane: bool,
    /// So many others are inside.
    pub beside: u32,
}

/// The words of the tunable.
pub(super) const CHOICES: &[&str] = &["auto", "flash", "disk"];

impl Media {
    pub fn new(says: bool) -> Media {
        Media {
            choice: Choice::Auto,
            says,
            flash: false,
            disk: says,
            fast: 0,
            slow: 0,
            quick: 0,
            places: [u64::MAX; ENOUGH as usize],
            next: 0,
            last_end: u64::MAX,
            last_completion: Instant::ZERO,
        }
    }

    pub fn choice(&self) -> u64 {
        self.choice as u64
    }

    pub fn choose(&mut self, value: u64) {
        self.choice = match value {
            0 => Choice::Auto,
            1 => Choice::Flash,
            _ => Choice::Disk,
        };
        self.decide();
    }

    /// Another device, or it says something else.
    pub fn says(&mut self, rotational: bool) {
        if self.says != rotational {
            *self = Media { choice: self.choice, ..Media::new(rotational) };
            self.decide();
        }
    }

    fn decide(&mut self) {
        self.disk = match self.choice {
            Choice::Auto => self.says && !self.flash,
            Choice::Flash => false,
            Choice::Disk => true,
        };
    }

    /// It is served as a disk.
    #[inline]
    pub fn is_disk(&self) -> bool {
        self.disk
    }

    /// Reads of the lane come back as if nothing moved: others need not be held for them.
    #[inline]
    pub fn is_quick(&self) -> bool {
        !self.disk || (self.choice == Choice::Auto && self.quick >= QUICK)
    }

    /// A request goes to the drive; true: far from the one before.
    #[inline]
    pub fn sent(&mut self, start: Sectors, end: Sectors) -> bool {
        let far = self.last_end != u64::MAX && start.0.abs_diff(self.last_end) > FAR;
        self.last_end = end.0;
        far
    }

    /// Is the device asked? What it said of itself before is forgotten when it says something else.
    #[inline]
    pub fn asks(&self) -> bool {
        self.says
    }

    /// A completion of a read, far from the one before or of the lane, or of something else.
    pub fn completed(&mut self, now: Instant, issued: Instant, read: Option<MediaRead>) {
        if !self.asks() {
            return;
        }
        let took = now.since(self.last_completion.max(issued));
        self.last_completion = now;
        if let Some(read) = read.filter(|_| self.choice == Choice::Auto) {
            if read.lane {
                self.quick = match took < FAST + SECTOR * read.sectors.0 {
                    true => (self.quick + 1).min(QUICK_MOST),
                    false => self.quick.saturating_sub(QUICK_BACK),
                };
            }
            if read.far {
                self.judge(took, read);
            }
        }
    }

    fn judge(&mut self, took: Nanos, read: MediaRead) {
        let start = read.start;
        if self.places.iter().any(|&place| place.abs_diff(start.0) < PLACE) {
            return;
        }
        let transfer = SECTOR * read.sectors.0;
        let fast = if read.beside >= MANY { FAST_OF_MANY } else { FAST };
        let (up, down) = match took {
            t if t < fast + transfer => (&mut self.fast, &mut self.slow),
            t if t > SLOW + transfer => (&mut self.slow, &mut self.fast),
            _ => return,
        };
        *up = (*up + 1).min(ENOUGH);
        *down = down.saturating_sub(BACK);
        self.places[self.next] = start.0;
        self.next = (self.next + 1) % self.places.len();
        if self.fast == ENOUGH {
            (self.flash, self.fast) = (true, 0);
        } else if self.slow == ENOUGH {
            (self.flash, self.slow) = (false, 0);
        }
        self.decide();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads that take so long each, at places so far apart; returns whether it is served as a disk.
    fn read(media: &mut Media, now: &mut Instant, took: Nanos, places: impl Iterator<Item = u64>) {
        read_beside(media, now, took, 0, places);
    }

    fn read_beside(
        media: &mut Media,
        now: &mut Instant,
        took: Nanos,
        beside: u32,
        places: impl Iterator<Item = u64>,
    ) {
        for start in places {
            let (start, sectors) = (Sectors(start), Sectors(8));
            let far = media.sent(start, start + sectors);
            let issued = *now;
            *now += took;
            let read = MediaRead { start, sectors, far, lane: false, beside };
            media.completed(*now, issued, Some(read));
        }
    }

    fn far(n: u64) -> impl Iterator<Item = u64> {
        (0..n).map(|i| (i * 7 % 64) * (FAR + PLACE))
    }

    #[test]
    fn fast_reads_at_many_places_are_flash_and_slow_ones_a_disk_again() {
        let (mut media, mut now) = (Media::new(true), Instant::ZERO);
        assert!(media.is_disk());
        read(&mut media, &mut now, Nanos::us(100), far(16));
        assert!(media.is_disk(), "fifteen are not enough: the first follows nothing");
        read(&mut media, &mut now, Nanos::us(100), far(64).skip(16).take(1));
        assert!(!media.is_disk());
        read(&mut media, &mut now, Nanos::ms(8), far(64).skip(20).take(20));
        assert!(media.is_disk());
    }

    /// It led for a second as on a disk, was charged that time, and owed it to others who paid for commands: it waited
    /// for thirty seconds.
    #[test]
    fn a_disk_that_chooses_among_31_is_no_flash() {
        let (mut media, mut now) = (Media::new(true), Instant::ZERO);
        read_beside(&mut media, &mut now, Nanos::us(900), 31, far(1000));
        assert!(media.is_disk());
        read_beside(&mut media, &mut now, Nanos::us(300), 31, far(64));
        assert!(!media.is_disk(), "three thousand in a second");
    }

    #[test]
    fn a_fast_read_in_ten_is_a_disk() {
        let (mut media, mut now) = (Media::new(true), Instant::ZERO);
        for n in 0..1000 {
            let took = if n % 10 == 0 { Nanos::us(900) } else { Nanos::ms(7) };
            read(&mut media, &mut now, took, far(n + 1).skip(n as usize));
            assert!(media.is_disk());
        }
    }

    #[test]
    fn the_cache_of_a_disk_is_no_flash() {
        let (mut media, mut now) = (Media::new(true), Instant::ZERO);
        let few = (0..1000).map(|i| (i % 4) * (FAR + PLACE));
        read(&mut media, &mut now, Nanos::us(100), few);
        assert!(media.is_disk(), "four places in a cache");
        let near = (0..1000).map(|i| (i * 13 % 97) * PLACE);
        read(&mut media, &mut now, Nanos::us(100), near);
        assert!(media.is_disk(), "a hundred megabytes in a cache");
    }

    /// A virtual disk that says it rotates, and a target that reads a small file: nothing of it is far, and while others were
    /// held for it nobody else could show what the drive is.
    #[test]
    fn quick_reads_of_the_lane_hold_nobody_and_slow_ones_do() {
        let (mut media, mut now) = (Media::new(true), Instant::ZERO);
        let mut near = |media: &mut Media, took: Nanos, n: u64| {
            for i in 0..n {
                let issued = now;
                now += took;
                let (start, sectors) = (Sectors(i * 13 % 97 * PLACE), Sectors(8));
                media.completed(
                    now,
                    issued,
                    Some(MediaRead { start, sectors, far: false, lane: true, beside: 0 }),
                );
            }
        };
        near(&mut media, Nanos::us(90), u64::from(QUICK) - 1);
        assert!(!media.is_quick());
        near(&mut media, Nanos::us(90), 1);
        assert!(media.is_quick() && media.is_disk());
        near(&mut media, Nanos::ms(6), 1);
        assert!(!media.is_quick(), "an arm moves");
        for _ in 0..1000 {
            near(&mut media, Nanos::us(90), u64::from(QUICK_BACK) / 2);
            near(&mut media, Nanos::ms(6), 1);
            assert!(!media.is_quick(), "a window of read-ahead in a cache, and a seek");
        }
        media.choose(2);
        near(&mut media, Nanos::us(90), 1000);
        assert!(!media.is_quick(), "what is chosen is believed");
    }

    #[test]
    fn what_is_chosen_is_believed_and_flash_is_not_asked() {
        let (mut media, mut now) = (Media::new(false), Instant::ZERO);
        read(&mut media, &mut now, Nanos::ms(20), far(1000));
        assert!(!media.is_disk());
        media.choose(2);
        read(&mut media, &mut now, Nanos::us(50), far(1000));
        assert!(media.is_disk());
        media.choose(0);
        assert!(!media.is_disk());
        media.says(true);
        assert!(media.is_disk());
    }
}
