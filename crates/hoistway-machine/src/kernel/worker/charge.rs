//! What a process computes, where processors take no time.
//!
//! Under a virtual clock that moves only while everybody sleeps a call into the kernel costs nothing: a process that
//! reads from the page cache would read for ever at one instant, and one whose request completes would have the freed
//! tag back before anybody who waits for it. So each call sleeps for as long as the simulated host computes
//! (specs/host.md 2.1):
//!
//! | call                | before it                              | behind it                                  |
//! |---------------------|----------------------------------------|--------------------------------------------|
//! | buffered read       |                                        | the call, by its bytes; if it waited, also one bio and one wake-up |
//! | buffered write      |                                        | the call, by its bytes                      |
//! | fdatasync, fsync    | the call and one bio; between data and flush: if the data was waited for a wake-up, and on a drive with a volatile cache a bio | if it waited: a wake-up |
//! | sync                | the call and one bio                   | if it waited: two wake-ups and a bio, on a drive with a volatile cache |
//! | direct, queued      | the call and a bio per 1 MiB           | if it waited: a wake-up                     |
//!
//! Many small reads from the page cache are one sleep: the process asks which of the next pages are there (`mincore`,
//! which starts no read-ahead), sleeps for all of them but the last, and reads them in one call, when the last begins;
//! each is recorded with its own times. So nothing is asked of the device before its time. What can ask for something is
//! the first page of a read-ahead window, and later than its time would shift each second window: runs end where
//! windows begin ([`Charge::run`]).
//!
//! What cannot be charged from outside the kernel: a bio of read-ahead that the reader does not wait for, and the bios
//! of write-back (1 us each). A bio that a buffered read waits for is charged behind it, not before.

use hoistway::{Instant, Nanos};
use hoistway_serve::system::Clock;
use hoistway_sim::host::Costs;
use hoistway_sim::world::Job;

/// Largest bio of the simulated host.
const BIO: u64 = 1 << 20;

/// What is slept for computing.
#[derive(Clone, Copy, Debug)]
pub struct Charge {
    costs: Costs,
    /// A sync ends with a flush of the drive's cache.
    flushes: bool,
}

/// Reads from the cache of so much time together may be one sleep. It is the most by which read-ahead can come late.
const TOGETHER: Nanos = Nanos::us(25);
/// Where windows of read-ahead begin, in bytes from where a process began to read a page after the other: the windows
/// have 4, 8, 16 [...] pages, so that each begins at a multiple of `RUN` and `WINDOW` more, from the fourth on, as long
/// as the largest has 16 pages or more (`read_ahead_kb` is 128).
const RUN: u64 = 64 << 10;
const WINDOW: u64 = 48 << 10;

impl Charge {
    /// On the drive of a job.
    pub fn on(job: &Job<'_>) -> Charge {
        let flushes = job.drive.device().write_cache;
        Charge { costs: job.host.costs(&job.drive), flushes }
    }

    /// What a read of so many bytes from the cache takes.
    pub fn cached(&self, bytes: u64) -> Nanos {
        Nanos(self.costs.call(bytes))
    }

    /// How many reads of `bytes` are one sleep at most, if a process began to read one after another so many bytes
    /// before: the last is the one that reads the first page of a window.
    pub fn run(&self, since: u64, bytes: u64) -> u64 {
        let window = (WINDOW + RUN - since % RUN) % RUN;
        (window / bytes + 1).min((TOGETHER.0 / self.costs.call(bytes)).max(1))
    }

    /// A buffered read that began at `begun` is back, and what it read was not in the cache or it had to wait for a place
    /// for its read-ahead.
    pub fn read(&self, clock: &Clock, begun: Instant, bytes: u64) {
        let now = clock.now();
        let mut cost = Nanos(self.costs.call(bytes));
        if waited(begun, now) {
            cost = cost + self.costs.submit + self.costs.wake;
        }
        clock.sleep_until(now + cost);
    }

    /// A buffered write is in the cache.
    pub fn write(&self, clock: &Clock, bytes: u64) {
        clock.sleep_until(clock.now() + Nanos(self.costs.call(bytes)));
    }

    /// A direct call is about to be made.
    pub fn direct(&self, clock: &Clock, bytes: u64) {
        let bios = bytes.div_ceil(BIO).max(1);
        clock.sleep_until(clock.now() + self.costs.direct_call + self.costs.submit * bios);
    }

    /// Bios are about to be submitted, past all files.
    pub fn block(&self, clock: &Clock, bytes: u64) {
        clock.sleep_until(clock.now() + self.costs.submit * bytes.div_ceil(BIO).max(1));
    }

    /// A call that could wait for the device since `begun` is back.
    pub fn woken(&self, clock: &Clock, begun: Instant) {
        let now = clock.now();
        if waited(begun, now) {
            clock.sleep_until(now + self.costs.wake);
        }
    }

    /// A sync is about to begin.
    pub fn sync(&self, clock: &Clock) {
        clock.sleep_until(clock.now() + self.costs.sync_call + self.costs.submit);
    }

    /// The data of a file that is synced is written, for which somebody waited since `begun`; a flush is next.
    pub fn written(&self, clock: &Clock, begun: Instant) {
        let now = clock.now();
        if waited(begun, now) {
            let flush = if self.flushes { self.costs.submit } else { Nanos::ZERO };
            clock.sleep_until(now + self.costs.wake + flush);
        }
    }

    /// A sync that waited since `begun` is back.
    pub fn synced(&self, clock: &Clock, begun: Instant) {
        let now = clock.now();
        if waited(begun, now) {
            let flush = self.costs.wake + self.costs.submit;
            let flush = if self.flushes { flush } else { Nanos::ZERO };
            clock.sleep_until(now + self.costs.wake + flush);
        }
    }

    /// Computes for so long.
    pub fn compute(&self, clock: &Clock, time: Nanos) {
        clock.sleep_until(clock.now() + time);
    }
}

/// Whether a call that began at `begun` has waited. A guest's clock moves by a nanosecond with each reading, the kernel's
/// own included, so that a call that did not wait takes some, too; no drive answers so soon.
pub fn waited(begun: Instant, now: Instant) -> bool {
    now - begun > Nanos(200)
}

/// Reads of one file, one after another.
#[derive(Debug, Default)]
pub struct Sequence {
    file: Option<usize>,
    /// Where they began, and what follows them.
    start: u64,
    end: u64,
}

impl Sequence {
    /// Where the reads began that one at `offset` continues: there, if it continues none.
    pub fn start(&mut self, file: usize, offset: u64) -> u64 {
        if (self.file, self.end) != (Some(file), offset) {
            (self.file, self.start) = (Some(file), offset);
        }
        self.start
    }

    /// They go as far as `end`.
    pub fn read(&mut self, file: usize, end: u64) {
        (self.file, self.end) = (Some(file), end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn charge(copy_ns_per_kib: u64) -> Charge {
        let none = Nanos::ZERO;
        let costs = Costs {
            copy_ns_per_kib,
            submit: none,
            wake: none,
            turn: none,
            sync_call: none,
            direct_call: none,
            checksum_ns_per_kib: 0,
        };
        Charge { costs, flushes: false }
    }

    /// Where the last call of each run lies, of reads of `bytes` from the start on.
    fn ends(charge: &Charge, bytes: u64, upto: u64) -> Vec<u64> {
        let mut since = 0;
        let mut ends = Vec::new();
        while since < upto {
            since += charge.run(since, bytes) * bytes;
            ends.push(since - bytes);
        }
        ends
    }

    #[test]
    fn runs_end_with_the_first_page_of_a_window() {
        // 0.4 us per call: sixteen of them are far less than may be together.
        let fast = charge(100);
        assert_eq!(ends(&fast, 4096, 241 << 10), [48 << 10, 112 << 10, 176 << 10, 240 << 10]);
        // Calls that are no divisor of a window: the one that has its first page.
        for bytes in [1000, 4000, 12 << 10, 20 << 10] {
            for end in ends(&fast, bytes, 1 << 20) {
                let first = (end / RUN) * RUN + WINDOW;
                let first = if first < end { first + RUN } else { first };
                assert!((end..end + bytes).contains(&first), "{bytes} from {end}");
            }
        }
        // Calls of whole windows are by themselves.
        assert_eq!(ends(&fast, 64 << 10, 256 << 10), [0, 64 << 10, 128 << 10, 192 << 10]);
    }

    #[test]
    fn no_run_is_longer_than_may_be_together() {
        // 1.6 us per call of 4 KiB: fifteen are 24 us.
        let slow = charge(400);
        let each = slow.cached(4096);
        assert_eq!(each, Nanos(1600));
        for since in (0..RUN).step_by(4096) {
            assert!(each * slow.run(since, 4096) <= TOGETHER, "{since}");
        }
        assert_eq!(slow.run(WINDOW + 4096, 4096), 15);
        // Whoever takes longer than that for one call has each by itself.
        assert_eq!(charge(20_000).run(0, 4096), 1);
    }

    #[test]
    fn runs_are_counted_from_where_reads_began() {
        let mut sequence = Sequence::default();
        let began = 8192;
        let mut at = began;
        for _ in 0..100 {
            assert_eq!(sequence.start(1, at), began);
            at += 4096;
            sequence.read(1, at);
        }
        // Elsewhere in the file, and at the same place of another: anew.
        assert_eq!(sequence.start(1, at + 4096), at + 4096);
        sequence.read(1, at + 8192);
        assert_eq!(sequence.start(2, at + 8192), at + 8192);
    }
}
