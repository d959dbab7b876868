//! Processes that have just begun: a start-up goes first, for a bounded time.
//!
//! *Problem.* An application that starts is a chain of small reads by a handful of processes that act one after
//! another. Each of them is new, owns nothing that could be shared out, and waits for one read at a time: beside
//! greedy streams a fair share takes a minute over what the drive does in two seconds.
//!
//! *Idea.* Least attained service first (Kleinrock), cut down to two levels: whoever has had little of the drive
//! since it began *leads*. What it asks for goes past the valve, and while it thinks the others are held for a moment,
//! because its next request is near. An account bounds what all leaders together may take.
//!
//! *Rule.* A leaf begins with its first request, and anew after two idle seconds. It leads while it reads, nobody else
//! is leading, it has had less than `begin` of the drive (an eighth of that on flash; the moments for which others were
//! held while it thought count), and the account is open. Nine that begin within
//! 200 ms of each other are a batch of jobs, not a start-up: none of them leads. Nor does anybody while another
//! group with a target is being served: targets were asked for.
//!
//! *Guarantee.* In any time T leaders hold the others for at most the account (15 s) plus T/2; nobody leads with more
//! than `begin` of the drive behind it.
//!
//! *Weaknesses.* A greedy process that has just begun leads too, for that long. Of a batch only those are marked whose
//! next request comes before the next beginning. A read that is asked for while another process of the same start-up
//! is being served does not lead: without a target it waits as everybody does.

use super::Paternoster;
use super::fair::LeafId;
use crate::group::GroupId;
use crate::rows::Id;
use crate::unit::{Instant, Nanos};

/// Idle for so long, a leaf begins anew.
const ANEW: Nanos = Nanos::secs(2);
/// Flash takes so much less time than a disk.
const FLASH_FASTER: u64 = 8;
/// Who has so many under way at once does not wait for one read after another: two windows of read-ahead in pieces
/// of 32 KiB are 16.
const DEEP: u32 = 24;
/// How long the others are held while a leader thinks.
const THINKS: Nanos = Nanos::ms(8);
/// The account: what leaders may hold others for at once; it fills by half of the time.
const ACCOUNT: Nanos = Nanos::secs(15);
/// Beginnings so near to each other belong together.
const NEAR: Nanos = Nanos::ms(200);
/// More than so many together are a batch.
const TOGETHER: u32 = 8;
/// Whoever had a target served so lately comes before leaders.
const TARGET_LATELY: Nanos = Nanos::secs(1);

/// Beginnings that lie near each other.
#[derive(Clone, Copy, Debug, Default)]
struct Together {
    number: u32,
    count: u32,
    last: Option<Instant>,
}

#[derive(Debug)]
pub(super) struct Begin {
    /// Of the drive, for each that begins; zero: nobody leads.
    pub most: Nanos,
    together: Together,
    /// Requests of leaders, waiting and inside.
    requests: u32,
    /// Whose.
    leader: LeafId,
    /// While a leader thinks.
    until: Option<Instant>,
    account: Nanos,
    at: Instant,
    /// For how long others were held while the leader thought, as far as it has not been charged for it.
    thinking: Nanos,
    pub count: u64,
}

impl Begin {
    pub fn new(now: Instant) -> Begin {
        Begin {
            most: Nanos::ZERO,
            together: Together::default(),
            requests: 0,
            leader: LeafId::NONE,
            until: None,
            account: ACCOUNT,
            at: now,
            thinking: Nanos::ZERO,
            count: 0,
        }
    }

    /// A leaf begins; the answer names those that began with it.
    pub fn begins(&mut self, now: Instant) -> u32 {
        let t = &mut self.together;
        if t.last.is_none_or(|last| last + NEAR <= now) {
            *t = Together { number: t.number.wrapping_add(1), count: 0, last: None };
        }
        t.count += 1;
        t.last = Some(now);
        t.number
    }

    /// Too many began with it.
    pub fn is_batch(&self, number: u32) -> bool {
        self.together.number == number && self.together.count > TOGETHER
    }

    /// May one lead that has had so much? `other_target`: when another group's target was last served.
    pub fn allows(
        &mut self,
        now: Instant,
        (leaf, drive_time): (LeafId, Nanos),
        other_target: Option<Instant>,
    ) -> bool {
        if drive_time >= self.most {
            return false;
        }
        self.settle(now);
        (self.requests == 0 || self.leader == leaf)
            && self.account > Nanos::ZERO
            && other_target.is_none_or(|at| at + TARGET_LATELY <= now)
    }

    /// Brings the account up to date.
    fn settle(&mut self, now: Instant) {
        let past = now.since(self.at);
        self.at = now;
        let held = match self.until {
            _ if self.requests > 0 => past,
            Some(until) => {
                let held = past.saturating_sub(now.since(until));
                self.thinking += held;
                held
            }
            None => Nanos::ZERO,
        };
        let free = past - held;
        self.account = (self.account + free).min(ACCOUNT).saturating_sub(held);
    }

    /// The leader, and for how long others were held while it thought since it was asked last. Who reads little and
    /// often holds everybody all the time; its service alone would not show it for minutes.
    pub fn take_thinking(&mut self, now: Instant) -> Option<(LeafId, Nanos)> {
        self.settle(now);
        let thought = core::mem::take(&mut self.thinking);
        (thought > Nanos::ZERO).then_some((self.leader, thought))
    }

    pub fn arrived(&mut self, now: Instant, leaf: LeafId) {
        self.settle(now);
        self.leader = leaf;
        self.requests += 1;
        self.until = None;
        self.count += 1;
    }

    /// A request of a leader is over; `idle`: it was the last of its leaf.
    pub fn completed(&mut self, now: Instant, idle: bool) {
        self.settle(now);
        self.requests -= 1;
        if idle && self.requests == 0 && self.account > Nanos::ZERO {
            self.until = Some(now + THINKS);
        }
    }

    /// A request of a leader is over or waits no longer in another way.
    pub fn withdrawn(&mut self, now: Instant) {
        self.settle(now);
        self.requests -= 1;
    }

    /// Others are held: until then, if it is for a time.
    fn holds(&self, now: Instant) -> Option<Hold> {
        if self.requests > 0 {
            return Some(Hold::Served);
        }
        self.until.filter(|&until| until > now).map(Hold::Until)
    }
}

/// Why others are held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hold {
    /// A leader's request waits or is inside.
    Served,
    /// A leader thinks.
    Until(Instant),
}

impl Paternoster {
    /// A process that has just begun is served, or thinks for a moment: greedy requests are held.
    pub(super) fn leader_holds(&mut self, now: Instant) -> bool {
        match self.begin.holds(now) {
            None => false,
            Some(Hold::Served) => true,
            Some(Hold::Until(until)) => {
                self.wake_by(until);
                true
            }
        }
    }

    /// Has the leaf just begun, so that its next request goes first?
    pub(super) fn leads(&mut self, now: Instant, id: LeafId, group: GroupId) -> bool {
        if let Some((leader, thought)) = self.begin.take_thinking(now) {
            let leader = self.fair.leaf_mut(leader);
            leader.drive_time = Nanos(leader.drive_time.0.saturating_add(thought.0));
        }
        let leaf = self.fair.leaf_mut(id);
        if leaf.is_idle() && leaf.idle_since().is_none_or(|since| since + ANEW <= now) {
            leaf.drive_time = Nanos::ZERO;
            leaf.together = self.begin.begins(now);
        }
        if self.begin.is_batch(leaf.together) || leaf.waiting + leaf.inside >= DEEP {
            leaf.drive_time = Nanos(u64::MAX);
        }
        if !leaf.sync || leaf.sync_write {
            return false;
        }
        let drive_time = if self.media.is_disk() {
            leaf.drive_time
        } else {
            Nanos(leaf.drive_time.0.saturating_mul(FLASH_FASTER))
        };
        let own = self.lane.target(group).map(|t| t.owner);
        self.begin.allows(now, (id, drive_time), self.lane.target_served(own))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Nanos::ms(ms)
    }

    fn begin() -> Begin {
        let mut begin = Begin::new(Instant::ZERO);
        begin.most = Nanos::secs(4);
        begin
    }

    #[test]
    fn nine_that_begin_together_are_a_batch() {
        let mut b = begin();
        let numbers: [u32; 9] = core::array::from_fn(|n| {
            assert!(n == 0 || !b.is_batch(1), "{n} are none");
            b.begins(at(100 * n as u64))
        });
        assert!(numbers.iter().all(|&n| b.is_batch(n)));
        let alone = b.begins(at(2000));
        assert!(!b.is_batch(alone));
    }

    #[test]
    fn others_are_held_while_a_leader_is_served_and_for_a_moment_behind_it() {
        let mut b = begin();
        assert_eq!(b.holds(at(0)), None);
        b.arrived(at(0), LeafId(1));
        assert_eq!(b.holds(at(5)), Some(Hold::Served));
        b.completed(at(10), true);
        assert_eq!(b.holds(at(17)), Some(Hold::Until(at(18))));
        assert_eq!(b.holds(at(18)), None);
    }

    #[test]
    fn a_leader_pays_for_the_moments_in_which_it_thinks() {
        let mut b = begin();
        assert_eq!(b.take_thinking(at(0)), None);
        b.arrived(at(0), LeafId(1));
        b.completed(at(1), true);
        assert_eq!(b.take_thinking(at(5)), Some((LeafId(1), Nanos::ms(4))));
        assert_eq!(b.take_thinking(at(7)), Some((LeafId(1), Nanos::ms(2))), "each moment once");
        assert_eq!(
            b.take_thinking(at(100)),
            Some((LeafId(1), Nanos::ms(2))),
            "up to the end of the hold"
        );
        b.arrived(at(200), LeafId(2));
        assert_eq!(b.take_thinking(at(300)), None, "being served is not thinking");
    }

    #[test]
    fn the_account_bounds_what_leaders_take() {
        let mut b = begin();
        let (mut now, mut held) = (0, 0);
        while now < 100_000 {
            if b.allows(at(now), (LeafId(1), Nanos::ZERO), None) {
                b.arrived(at(now), LeafId(1));
                b.completed(at(now + 10), true);
                held += 10;
            }
            now += 10;
        }
        assert!((50_000..=65_000).contains(&held), "15 s and half of 100 s, not {held} ms");
    }

    #[test]
    fn who_has_had_enough_leads_no_more_nor_beside_the_target_of_another() {
        let mut b = begin();
        assert!(b.allows(at(0), (LeafId(1), Nanos::ZERO), None));
        assert!(!b.allows(at(0), (LeafId(1), Nanos::secs(4)), None));
        assert!(!b.allows(at(1500), (LeafId(1), Nanos::ZERO), Some(at(600))));
        assert!(b.allows(at(1600), (LeafId(1), Nanos::ZERO), Some(at(600))));
    }
}
