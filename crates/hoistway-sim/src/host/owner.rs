//! Whose inode it is: who pays for its write-back (specs/groups-and-priorities.md 3.1).
//!
//! An inode belongs to the group that dirtied it first. While it is written back, the bytes are counted
//! per owner of the pages; a group that wins over and over gets the inode, and its flusher with it. A
//! page belongs to the group that brought it into the cache; kept per chunk of 64 pages
//! (simplified: the first page's).

use super::cache::PAGE;
use hoistway::GroupId;

/// The votes on an inode's owner.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ballot {
    /// Winner of the last round.
    last: Option<GroupId>,
    /// Average length of a round in 1/8192 s; `None` before the first.
    average: Option<u32>,
    /// A bit per 1/16 of 2 s of write-back: set where somebody else than the owner had won.
    history: u16,
    /// Bytes of this round: the owner's, the last winner's, the candidate's by majority vote.
    own: u64,
    of_last: u64,
    candidate: Option<GroupId>,
    of_candidate: u64,
}

/// Units of a second.
const UNITS: u64 = 8192;
/// Units that one bit of the history stands for.
const SLOT: u64 = 1024;
/// Bits that one round may set.
const SLOTS_MAX: u64 = 5;
/// Bits above which the inode changes hands.
const FOREIGN_MAX: u32 = 8;

impl Ballot {
    /// Bytes of pages of `group` are written.
    pub fn count(&mut self, owner: GroupId, group: GroupId, bytes: u64) {
        if group == owner {
            self.own += bytes;
            return;
        }
        if self.last == Some(group) {
            self.of_last += bytes;
        }
        if self.of_candidate == 0 {
            self.candidate = Some(group);
        }
        if self.candidate == Some(group) {
            self.of_candidate += bytes;
        } else {
            self.of_candidate = self.of_candidate.saturating_sub(bytes);
        }
    }

    /// The round is over; the new owner if it changes. `bw`: pages per second.
    pub fn decide(&mut self, owner: GroupId, bw: u64) -> Option<GroupId> {
        let (own, last, candidate) = (self.own, self.of_last, self.of_candidate);
        let (winner, bytes) = if own >= last && own >= candidate {
            (owner, own)
        } else if let Some(group) = self.last.filter(|_| last >= candidate) {
            (group, last)
        } else {
            (self.candidate.unwrap_or(owner), candidate)
        };
        (self.own, self.of_last, self.candidate, self.of_candidate) = (0, 0, None, 0);
        if bytes == 0 {
            return None;
        }
        self.last = Some(winner);
        let time = (bytes.div_ceil(PAGE) * UNITS).div_ceil(bw.max(1));
        let average = match self.average {
            None => time,
            Some(average) => u64::from(average) + time / 8 - u64::from(average) / 8,
        };
        let average = average.min(65_535);
        self.average = Some(average as u32);
        if time < average / 8 {
            return None;
        }
        let slots = time.div_ceil(SLOT).min(SLOTS_MAX);
        self.history <<= slots;
        if winner != owner {
            self.history |= (1 << slots) - 1;
        }
        if self.history.count_ones() <= FOREIGN_MAX {
            return None;
        }
        self.history = 0;
        Some(winner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: GroupId = GroupId(1);
    const B: GroupId = GroupId(2);
    const C: GroupId = GroupId(3);

    #[test]
    fn an_inode_changes_hands_after_more_than_half_of_two_seconds_of_foreign_writes() {
        let mut ballot = Ballot::default();
        let bw = 8192;
        // A round of 1/8 s (1024 units, one bit): eight of them are not enough, the ninth is.
        for round in 0..9 {
            ballot.count(A, B, 1024 * PAGE);
            let new = ballot.decide(A, bw);
            assert_eq!(new, (round == 8).then_some(B), "round {round}");
        }
        // It starts afresh; the owner's own bytes win ties.
        ballot.count(B, B, PAGE * 1024);
        ballot.count(B, A, PAGE * 1024);
        assert_eq!(ballot.decide(B, bw), None);
        assert_eq!(ballot.history, 0);
    }

    #[test]
    fn a_long_round_counts_five_bits_and_a_short_one_does_not_vote() {
        let mut ballot = Ballot::default();
        ballot.count(A, B, 81_920 * PAGE);
        assert_eq!(ballot.decide(A, 8192), None);
        assert_eq!(ballot.history, 0b11111);
        // 81,920 units on average: a round of 1,000 is below an eighth of it.
        ballot.count(A, B, 1000 * PAGE);
        assert_eq!(ballot.decide(A, 8192), None);
        assert_eq!(ballot.history, 0b11111);
    }

    #[test]
    fn the_candidate_is_found_by_majority_vote() {
        let mut ballot = Ballot::default();
        for group in [C, B, B, C, B] {
            ballot.count(A, group, 1024 * PAGE);
        }
        assert_eq!(ballot.candidate, Some(B));
        assert_eq!(ballot.decide(A, 8192), None);
        assert_eq!(ballot.last, Some(B));
    }
}
