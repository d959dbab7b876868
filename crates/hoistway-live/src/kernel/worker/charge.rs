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
//! which starts no read-ahead), sleeps for the calls that they make up, and reads them in one call; each call is
//! recorded with its own times. So nothing is asked of the device before its time, and at most [`Charge::batch`] later.
//!
//! What cannot be charged from outside the kernel: a bio of read-ahead that the reader does not wait for, and the bios
//! of write-back (1 us each). A bio that a buffered read waits for is charged behind it, not before.

use crate::clock::Clock;
use hoistway::{Instant, Nanos};
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
    /// Reads of so much time together may be one sleep.
    together: Nanos,
}

/// Reads that are one sleep on a rotating drive: read-ahead that comes later leaves gaps in a stream, in which the drive
/// turns to others. With 100 us a random reader beside fifteen streams waited 2.7 instead of 4.4 s.
const TOGETHER_ROTATING: Nanos = Nanos::us(5);
/// The same on others, which have no head to keep in place.
const TOGETHER: Nanos = Nanos::us(25);

impl Charge {
    /// On the drive of a job.
    pub fn on(job: &Job<'_>) -> Charge {
        let together = if job.drive.identity.rotational { TOGETHER_ROTATING } else { TOGETHER };
        let flushes = job.drive.device().write_cache;
        Charge { costs: job.host.costs(job.drive), flushes, together }
    }

    /// What a read of so many bytes from the cache takes.
    pub fn cached(&self, bytes: u64) -> Nanos {
        Nanos(self.costs.call(bytes))
    }

    /// How many reads of so many bytes from the cache are one sleep at most.
    pub fn batch(&self, bytes: u64) -> u64 {
        (self.together.0 / self.costs.call(bytes)).max(1)
    }

    /// A buffered read that began at `begun` is back.
    pub fn read(&self, clock: &Clock, begun: Instant, bytes: u64) {
        let now = clock.now();
        let mut cost = Nanos(self.costs.call(bytes));
        if now > begun {
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
        if now > begun {
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
        if now > begun {
            let flush = if self.flushes { self.costs.submit } else { Nanos::ZERO };
            clock.sleep_until(now + self.costs.wake + flush);
        }
    }

    /// A sync that waited since `begun` is back.
    pub fn synced(&self, clock: &Clock, begun: Instant) {
        let now = clock.now();
        if now > begun {
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
