//! Which of two pending requests a head serves first: shared by the schedulers that sort by sector and serve one
//! process at a time (specs/cfq.md 4, specs/bfq.md 5.2).
//!
//! A strict one-way sweep would pass by a request just behind the head and come back to it a whole sweep later. So a
//! short way back is allowed, at a price; what lies farther back waits for the next sweep.

use crate::rows::Id;

/// How the arm of a disk moves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arm {
    /// Sectors it goes back at most. Farther back a one-way sweep wins: 16 MiB by default.
    pub back_max: u64,
    /// How much farther a step back counts. By default 2: the platter turns the other way and the read-ahead of the
    /// drive is lost, so it costs about as much as twice the way forward. From the anticipatory scheduler.
    pub back_penalty: u64,
}

/// Facts that decide about a pending request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate {
    pub start: u64,
    /// Somebody waits for it.
    pub sync: bool,
    /// Metadata: others may hold locks until it is there.
    pub meta: bool,
}

impl Arm {
    /// The better of two requests, either of which may be nobody, for a head at `head`.
    #[inline]
    pub fn better<I: Id>(&self, a: I, b: I, head: u64, target: impl Fn(I) -> Candidate) -> I {
        if a.is_none() || a == b {
            return b;
        }
        if b.is_none() {
            return a;
        }
        if self.first(target(a), target(b), head) { a } else { b }
    }

    /// Does `a` come before `b`?
    #[inline]
    fn first(&self, a: Candidate, b: Candidate, head: u64) -> bool {
        if a.sync != b.sync {
            return a.sync;
        }
        if a.meta != b.meta {
            return a.meta;
        }
        match (self.way(a.start, head), self.way(b.start, head)) {
            (Some(da), Some(db)) if da != db => da < db,
            // As far forward as back: forward, the sweep goes on.
            (Some(_), Some(_)) => a.start >= b.start,
            (Some(_), None) => true,
            (None, Some(_)) => false,
            // Both are of the next sweep, which begins at the lowest.
            (None, None) => a.start <= b.start,
        }
    }

    /// How far it is, a way back at its price; `None`: out of reach in this sweep.
    #[inline]
    fn way(&self, start: u64, head: u64) -> Option<u64> {
        if start >= head {
            Some(start - head)
        } else if start + self.back_max >= head {
            Some((head - start) * self.back_penalty)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::group::GroupId;

    const ARM: Arm = Arm { back_max: 1000, back_penalty: 2 };

    fn at(start: u64) -> Candidate {
        Candidate { start, sync: true, meta: false }
    }

    /// Both orders of the question give the same answer.
    fn first(a: Candidate, b: Candidate, head: u64) -> bool {
        let answer = ARM.first(a, b, head);
        assert_ne!(answer, ARM.first(b, a, head));
        answer
    }

    #[test]
    fn the_nearer_one_wins_and_a_way_back_counts_twice() {
        assert!(first(at(5000), at(5001), 5000));
        assert!(first(at(5199), at(4900), 5000), "199 forward, 200 back");
        assert!(first(at(5200), at(4900), 5000), "a tie goes forward");
        assert!(first(at(4900), at(5201), 5000));
    }

    #[test]
    fn beyond_the_reach_the_next_sweep_begins_at_the_lowest() {
        assert!(first(at(4000), at(9_999_999), 5000), "1000 back is in reach");
        assert!(first(at(9_999_999), at(3999), 5000), "1001 back is not");
        assert!(first(at(10), at(20), 5000));
    }

    #[test]
    fn sync_goes_before_metadata_and_metadata_before_distance() {
        let far = |sync, meta| Candidate { start: 9_000_000, sync, meta };
        assert!(first(far(true, false), Candidate { start: 5000, sync: false, meta: true }, 5000));
        assert!(first(far(true, true), at(5000), 5000));
    }

    #[test]
    fn nobody_loses_against_anybody() {
        let (a, b) = (GroupId(0), GroupId(1));
        let target = |id: GroupId| at(5000 + u64::from(id.0));
        assert_eq!(ARM.better(GroupId::NONE, b, 5000, target), b);
        assert_eq!(ARM.better(a, GroupId::NONE, 5000, target), a);
        assert_eq!(ARM.better(b, a, 5000, target), a);
        assert!(ARM.better(GroupId::NONE, GroupId::NONE, 5000, target).is_none());
    }
}
