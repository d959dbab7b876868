//! One leaf: the requests of a process to a group, and the habits by which it is told what kind of load it is.
//!
//! *Rule.* It streams when most of its starts continue the request before; sync writes count only while many are under way.
//! Between its last completion and the next request it thinks; a wait for a tag is no thinking.
//!
//! Source: specs/paternoster.md 2 and 8.

use super::StartTag;
use crate::group::{GroupId, ProcId};
use crate::list::List;
use crate::unit::{Instant, Nanos, Sectors};

/// A time that has not come.
const NEVER: Instant = Instant::from_nanos(u64::MAX);

/// Queue and habits of one leaf: two lines of the cache.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub(in super::super) struct Leaf {
    pub proc: ProcId,
    pub group: GroupId,
    pub sync: bool,
    /// Counted among the streams that wait (rotational drives).
    pub(super) streams: bool,
    /// The last request was a sync write.
    pub sync_write: bool,
    pub(super) tag: StartTag,
    /// In the tournament of its group.
    pub(super) seat: u32,
    /// Greedy requests that wait.
    pub fifo: List,
    /// Requests that wait, of either kind.
    pub waiting: u32,
    /// Requests in the drive.
    pub inside: u32,
    /// Moving share of starts that continue the request before, of 1024.
    pub seq: u16,
    /// End of the last one.
    pub last_end: Sectors,
    /// Sectors for which it has gone on there.
    pub run: u32,
    /// Since nothing of it was under way, requests that did not continue the one before.
    pub jumps: u8,
    /// Moving time from the last completion to the next request.
    pub think: Nanos,
    /// The last such time; of a leaf that was never idle the longest there is.
    pub thought: Nanos,
    /// Moving mean of such times from a long one on: who asks at intervals, and once is so late that the next
    /// request is due already, has not become one that asks without pause.
    pub rest: Nanos,
    /// Or `NEVER`.
    idle_since: Instant,
    /// When it asked for a tag for its next request, or `NEVER`: it thinks no longer, though nothing of it waits here.
    asked: Instant,
    /// Of the drive since it began.
    pub drive_time: Nanos,
    /// Between its requests since it began, no more than `COMPUTES_MOST` at a time.
    pub computed: Nanos,
    /// Number of the beginnings near its own.
    pub together: u32,
    /// Its process or its group has gone.
    pub(super) gone: bool,
}

impl Leaf {
    pub(super) fn new(proc: ProcId, group: GroupId, sync: bool, seat: u32) -> Leaf {
        Leaf {
            proc,
            group,
            sync,
            streams: false,
            sync_write: false,
            tag: StartTag::NEW,
            seat,
            fifo: List::new(),
            waiting: 0,
            inside: 0,
            seq: 0,
            last_end: Sectors(u64::MAX),
            run: 0,
            jumps: 0,
            think: Nanos::ZERO,
            thought: Nanos(u64::MAX),
            rest: THINK_MOST,
            idle_since: NEVER,
            asked: NEVER,
            drive_time: Nanos::ZERO,
            computed: Nanos::ZERO,
            together: 0,
            gone: false,
        }
    }

    /// It reads or writes back in long runs: worth staying with on a disk. Sync writes come one by one, whatever
    /// their places, unless many of them wait at once.
    pub fn is_stream(&self) -> bool {
        self.seq > STREAM && (!self.sync_write || self.waiting + self.inside >= SYNC_STREAM)
    }

    pub fn idle_since(&self) -> Option<Instant> {
        (self.idle_since != NEVER).then_some(self.idle_since)
    }

    /// It begins, or begins anew.
    pub fn begins(&mut self) {
        (self.drive_time, self.computed) = (Nanos::ZERO, Nanos::ZERO);
    }

    pub fn is_idle(&self) -> bool {
        self.waiting == 0 && self.inside == 0
    }

    /// It asks for a tag.
    pub fn asks(&mut self, now: Instant) {
        self.asked = self.asked.min(now);
    }

    /// A request of it arrives that begins at `start` and ends at `end`.
    #[inline]
    pub fn arrives(&mut self, now: Instant, start: Sectors, end: Sectors) {
        if self.is_idle() {
            self.jumps = 0;
            self.resumes(now);
        }
        self.asked = NEVER;
        let sectors = (end.0 - start.0) as u32;
        if start == self.last_end {
            self.seq = (7 * self.seq + 1024) / 8;
            self.run = self.run.saturating_add(sectors);
        } else {
            self.seq = 7 * self.seq / 8;
            self.run = sectors;
            self.jumps = self.jumps.saturating_add(1);
        }
        self.last_end = end;
        self.waiting += 1;
    }

    /// Something of it comes after nothing was under way.
    #[inline]
    fn resumes(&mut self, now: Instant) {
        let Some(since) = self.idle_since() else { return };
        self.idle_since = NEVER;
        self.thought = self.asked.min(now).since(since);
        if self.drive_time > Nanos::ZERO {
            self.computed += self.thought.min(COMPUTES_MOST);
        }
        let thought = self.thought.0.min(THINK_MOST.0);
        self.think = Nanos((7 * self.think.0 + thought) / 8);
        self.rest = Nanos((7 * self.rest.0 + thought) / 8);
    }

    /// More has joined its last request: a stream whose requests wait long enough to be merged is still one.
    pub fn extended(&mut self, start: Sectors, end: Sectors) {
        if start < self.last_end && self.last_end < end {
            self.seq = (7 * self.seq + 1024) / 8;
            self.run = self.run.saturating_add((end.0 - self.last_end.0) as u32);
            self.last_end = end;
        }
    }

    /// `jumps`, with a request that begins at `start`.
    pub fn jumps_to(&self, start: Sectors) -> u8 {
        let before = if self.is_idle() { 0 } else { self.jumps };
        before.saturating_add(u8::from(start != self.last_end))
    }

    /// A request of it has left the drive.
    #[inline]
    pub fn left(&mut self, now: Instant) {
        self.inside -= 1;
        if self.is_idle() {
            self.idle_since = now;
        }
    }
}

/// Of 1024 starts so many must continue the request before.
const STREAM: u16 = 600;
/// So many sync writes under way are a run: a program that writes past the cache, many at a time.
const SYNC_STREAM: u32 = 8;
/// Longest think time that the moving mean takes in: one long pause is no habit.
const THINK_MOST: Nanos = Nanos::secs(1);
/// A longer pause of a process that starts is a person's.
const COMPUTES_MOST: Nanos = Nanos::ms(50);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leaf_is_two_lines_of_the_cache() {
        assert_eq!(size_of::<Leaf>(), 128);
    }

    #[test]
    fn a_leaf_streams_when_most_of_its_starts_continue_the_request_before() {
        let mut leaf = Leaf::new(ProcId(0), GroupId::ROOT, true, 0);
        let after = |leaf: &mut Leaf, n: u64| {
            (0..n).for_each(|_| {
                let start = leaf.last_end;
                leaf.arrives(Instant::ZERO, start, Sectors(start.0.wrapping_add(8)));
            });
            leaf.is_stream()
        };
        leaf.last_end = Sectors(0);
        assert!(!after(&mut leaf, 6));
        assert!(after(&mut leaf, 1), "1 - (7/8)^7 is above 600 of 1024");
        leaf.sync_write = true;
        assert!(!leaf.is_stream(), "sync writes come one by one");
        leaf.waiting = SYNC_STREAM;
        assert!(leaf.is_stream(), "but for who has many under way");
    }
}
