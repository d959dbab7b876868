//! When the I/Os of a process are submitted.
//!
//! In *closed loop* an I/O waits for the one it had waited for. A recording does not say which that was; the best
//! guess is the I/O of the same process that ended last before it was submitted (the feed finds it out and says how
//! many submissions back it was). It is submitted its *think time* after that one's end in the replay: the time
//! between the two in the recording. An I/O before whose submission nothing of its process had ended keeps its distance
//! from the submission before it: so a batch stays a batch.
//!
//! Where a recording has no ends, dependencies are not known. Then every I/O keeps at least its distance from the
//! submission before it, and no more than `depth` of a process are under way.
//!
//! A process's I/Os are always submitted in the recorded order.

use super::Arrival;
use hoistway::Instant;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// When I/Os are submitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// At the recorded times.
    Open,
    /// After what they had waited for; at most `depth` of a process are under way (`None`: any number).
    Closed {
        /// Most I/Os of a process that are under way.
        depth: Option<u32>,
    },
}

/// Submissions back that a dependency can reach. What lies further back was waited for by nobody that the recording
/// shows: a process with so many I/Os under way.
pub const LOOK_BACK: u32 = 4096;

/// The submissions of one process.
#[derive(Debug)]
pub(super) struct Pacer {
    depth: u32,
    closed: bool,
    submitted: u64,
    under_way: u32,
    last: Option<Instant>,
    /// Ends of the last submissions, the latest behind; `None`: under way.
    ends: VecDeque<Option<Instant>>,
}

impl Pacer {
    pub fn new(pace: Pace) -> Pacer {
        let depth = match pace {
            Pace::Closed { depth: Some(depth) } => depth.max(1),
            _ => u32::MAX,
        };
        let closed = pace != Pace::Open;
        Pacer { depth, closed, submitted: 0, under_way: 0, last: None, ends: VecDeque::new() }
    }

    /// When the process's next submission is due; `None`: when one that is under way has ended.
    pub fn due(&self, next: &Arrival) -> Option<Instant> {
        if self.under_way >= self.depth {
            return None;
        }
        // Everything but a submission follows what was done before.
        if next.deed != super::Deed::Submit {
            return Some(self.last.unwrap_or(next.at));
        }
        let back = next.after as usize;
        if back > 0 && back <= self.ends.len() {
            return self.ends[self.ends.len() - back].map(|end| end + next.think);
        }
        Some(self.last.map_or(next.at, |last| last + next.think))
    }

    /// A submission; its number.
    #[inline]
    pub fn submitted(&mut self, now: Instant) -> u64 {
        if self.closed {
            self.under_way += 1;
            self.last = Some(now);
            if self.ends.len() == LOOK_BACK as usize {
                self.ends.pop_front();
            }
            self.ends.push_back(None);
        }
        self.submitted += 1;
        self.submitted - 1
    }

    /// Submission `number` has ended.
    pub fn finished(&mut self, now: Instant, number: u64) {
        self.under_way -= 1;
        let back = (self.submitted - number) as usize;
        if let Some(at) = self.ends.len().checked_sub(back) {
            self.ends[at] = Some(now);
        }
    }
}

/// What an [`Arrival`] of a recording with ends follows, found while the recording is read: per process the I/Os whose
/// ends are known and still to come. Of an I/O whose end is not known nothing is kept: a recording without ends costs
/// nothing, however long it is.
#[derive(Debug, Default)]
pub struct Follow {
    submitted: u64,
    last: u64,
    /// End and number of the one that ended last so far.
    latest: Option<(u64, u64)>,
    /// End and number of those that end after the last submission, the earliest end first.
    coming: BinaryHeap<Reverse<(u64, u64)>>,
}

/// Ends that are kept: four times those that a dependency can reach.
const COMING_MAX: usize = 4 * LOOK_BACK as usize;

impl Follow {
    /// A submission at `at` (recorded ns) that ends at `end`, if that is known already: what it follows, as
    /// [`Arrival::after`] and [`Arrival::think`] (recorded ns), and its number.
    pub fn submit(&mut self, at: u64, end: Option<u64>) -> (u32, u64, u64) {
        while let Some(&Reverse((end, number))) = self.coming.peek().filter(|c| c.0.0 <= at) {
            self.coming.pop();
            if self.latest.is_none_or(|latest| latest.0 <= end) {
                self.latest = Some((end, number));
            }
        }
        let number = self.submitted;
        let back = self.latest.map_or(0, |(_, latest)| number - latest);
        let gap = if number == 0 { at } else { at.saturating_sub(self.last) };
        let (after, think) = match self.latest {
            Some((end, _)) if back <= u64::from(LOOK_BACK) => (back as u32, at - end),
            _ => (0, gap),
        };
        self.submitted += 1;
        self.last = at;
        if let Some(end) = end {
            self.ended(number, end);
        }
        (after, think, number)
    }

    /// The recording says that submission `number` ended at `end`.
    pub fn ended(&mut self, number: u64, end: u64) {
        if self.coming.len() == COMING_MAX {
            // Ends that never come, since the recorded ones are absurd.
            let oldest = self.submitted.saturating_sub(u64::from(LOOK_BACK));
            self.coming.retain(|Reverse((_, number))| *number >= oldest);
        }
        self.coming.push(Reverse((end, number)));
    }
}
