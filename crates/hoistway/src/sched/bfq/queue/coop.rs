//! Cooperation: what a queue shared by several processes, or on its way to be, knows of that (specs/bfq.md
//! section 7); and what is kept of a process's own queue meanwhile.

use super::super::ids::{Id, QueueNo};
use super::inject::Injection;
use super::intensity::Intensity;
use super::past::Past;
use super::raise::Raise;
use super::think::Think;
use crate::unit::{Instant, Nanos};

/// Merging and splitting of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Coop {
    /// Shared by contexts that were merged (7.4).
    pub shared: bool,
    /// To be split at the next insertion (7.6).
    pub split_me: bool,
    /// In the index of positions (7.2).
    pub indexed: bool,
    /// The queue it will be merged into, `NONE` if none (7.3).
    pub into: QueueNo,
    /// When it was split off a shared queue.
    pub split_at: Past,
}

impl Coop {
    pub const NEW: Coop = Coop {
        shared: false,
        split_me: false,
        indexed: false,
        into: QueueNo::NONE,
        split_at: Past::LONG_AGO,
    };

    /// It was split off no longer than `d` ago.
    #[inline]
    pub fn split_within(&self, d: Nanos, tn: Instant) -> bool {
        !self.split_at.over(d, tn)
    }
}

/// State of a context's own queue while it uses a shared one (7.6). What was learnt of one process means nothing
/// of a queue of several, and is needed again after a split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Saved {
    pub think: Think,
    pub intensity: Intensity,
    pub inject: Injection,
    /// Its period, and whether it was created in a large burst.
    pub raise: Raise,
    /// Coefficient of its weight.
    pub wr: u32,
    pub orig_weight: u32,
    /// Was on the list of a burst that may still become large.
    pub was_in_burst: bool,
}

/// Nothing is decided about think times and raising for this long after a split: the first requests of a queue
/// that was split off say more about the shared one (7.6).
pub(in super::super) const SPLIT_REST: Nanos = Nanos::secs(2);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_split_is_recent_up_to_and_at_its_limit() {
        let at = Instant::ZERO + Nanos::secs(1);
        let coop = Coop { split_at: Past::at(at), ..Coop::NEW };
        assert!(coop.split_within(SPLIT_REST, at + SPLIT_REST));
        assert!(!coop.split_within(SPLIT_REST, at + SPLIT_REST + Nanos(1)));
        assert!(!Coop::NEW.split_within(SPLIT_REST, at));
    }
}
