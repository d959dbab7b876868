//! Processes that have just begun: a start-up goes first, for a bounded time.
//!
//! *Problem.* An application that starts is a chain of small reads by a handful of processes that act one after
//! another. Each of them is new, owns nothing that could be shared out, and waits for one read at a time: beside
//! greedy streams a fair share takes a minute over what the drive does in two seconds.
//!
//! *Idea.* Least attained service first (Kleinrock), cut down to two levels: whoever has had little of the drive
//! since it began *leads*: what it asks for goes past the valve. On a disk others are held while it is served and for
//! a moment behind each of its requests, because its next one is near and the head would have moved. Flash serves what
//! goes past the valve in little more than the lone time, so that holding others would only leave the drive idle.
//!
//! *Rule.* A leaf begins with its first request, and anew after two idle seconds. It leads while it reads, has few
//! requests under way, has had less than `begin` of the drive (the moments for which others were held while it
//! thought count), and the account is open. On a disk who computes less than 1/64 of its time in the drive leads for
//! half of `begin`; for 1/16 if it has gone on for four mebibytes in one place, and who pauses for longer than it was in
//! the drive and so asks now and then. On flash, and on a disk whose reads come back as if nothing moved (`media.rs`), it
//! leads for 1/16, or 1/8 if it computes at least half as long as it reads; who has gone on for four mebibytes in one
//! place passes for 1/64 and holds nobody. What tells a start-up from greedy work: it waits for its reads. Who has
//! jumped to more than four places since nothing of it was under way does not lead; a burst of pages read ahead is one.
//! Nine that begin within 200 ms of each other are a batch of jobs, not a start-up: none of them leads. Nor does anybody
//! while another group with a target is being served: targets were asked for.
//!
//! *Guarantee.* In any time T leaders hold the others for at most the account (15 s) plus T/2; nobody leads with more
//! than `begin` of the drive behind it. What a leader is served is charged to its tags.
//!
//! *Weaknesses.* A greedy process that has just begun leads too, for that long. Of a batch only those are marked whose
//! next request comes before the next beginning.

use super::Paternoster;
use super::fair::{Leaf, LeafId};
use crate::group::GroupId;
use crate::request::{Io, Op, Request};
use crate::rows::Id;
use crate::unit::{Instant, Nanos, Sectors};

/// Idle for so long, a leaf begins anew.
const ANEW: Nanos = Nanos::secs(2);
/// Flash takes so much less time than a disk, and again half of it for who hardly computes.
const FLASH_FASTER: u64 = 8;
const FLASH_READS: u64 = 16;
/// Who has read on in one place for so many sectors is a stream: it passes.
const FLASH_STREAMS: u64 = 64;
const STREAM: u32 = 1 << 13;
/// Who has so many places under way at once does not wait for what it reads. Reads ahead of a burst count as one; of the
/// 31 of a full one the rest went behind the streams otherwise, and a start-up took four times as long. On disks random
/// hogs with weights led for seconds, and repaid it to the heaviest for ten.
const JUMPS_MOST: u8 = 4;
/// Who has so many under way at once does not wait for one read after another, and does not lead while it has. A
/// window of read-ahead by pages is 32; the last page of one, left to the streams, cost a start-up 22 s.
const DEEP: u32 = 48;
/// Who has read on a disk for so many times as long as it computed is no start-up but a reader, and leads for a part
/// only; lowriter on a laptop's disk, which is one for two seconds, needs that part.
const DISK_READS: u64 = 64;
const DISK_READER: u64 = 2;
/// The same of such a reader that reads on in one place: what it led it repays, and beside heavier groups that took
/// seconds.
const DISK_STREAMS: u64 = 16;
/// The same of who asks now and then: it pauses for so many times as long as it reads and others are held for it.
const DISK_ASKS: u64 = 1;
const DISK_ASKER: u64 = 16;
/// A drive with fewer tags serves one request after another, so that only holding others helps.
const TAGS_OF_FLASH: u32 = 3;
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

/// How a request of a process that has just begun goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lead {
    /// Past the valve.
    Passing,
    /// And others are held meanwhile.
    Holding,
}

#[derive(Debug)]
pub(super) struct Begin {
    /// Of the drive, for each that begins; zero: nobody leads.
    pub most: Nanos,
    together: Together,
    /// Requests of leaders, waiting and inside, and of those for whom others are held.
    requests: u32,
    holding: u32,
    /// Who led last of those.
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
            holding: 0,
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
    fn allows(&self, now: Instant, drive_time: Nanos, other_target: Option<Instant>) -> bool {
        drive_time < self.most
            && self.account > Nanos::ZERO
            && other_target.is_none_or(|at| at + TARGET_LATELY <= now)
    }

    /// Somebody could lead, as far as the account goes.
    #[inline]
    fn is_open(&self) -> bool {
        self.most > Nanos::ZERO && self.account > Nanos::ZERO
    }

    /// Brings the account up to date.
    #[inline]
    fn settle(&mut self, now: Instant) {
        // Completion, insertion and dispatch mostly come at once.
        if now != self.at {
            self.settle_past(now);
        }
    }

    fn settle_past(&mut self, now: Instant) {
        let past = now.since(self.at);
        self.at = now;
        match self.until {
            _ if self.requests > 0 => self.account = self.account.saturating_sub(past),
            None => self.account = (self.account + past).min(ACCOUNT),
            Some(until) => {
                let held = past.saturating_sub(now.since(until));
                self.thinking += held;
                let free = past - held;
                self.account = (self.account + free).min(ACCOUNT).saturating_sub(held);
            }
        }
    }

    /// The leader, and for how long others were held while it thought since it was asked last. Who reads little and
    /// often holds everybody all the time; its service alone would not show it for minutes.
    pub fn take_thinking(&mut self, now: Instant) -> Option<(LeafId, Nanos)> {
        self.settle(now);
        if self.thinking == Nanos::ZERO {
            return None;
        }
        Some((self.leader, core::mem::take(&mut self.thinking)))
    }

    pub fn arrived(&mut self, now: Instant, leaf: LeafId, lead: Lead) {
        self.settle(now);
        self.requests += 1;
        self.count += 1;
        if lead == Lead::Holding {
            self.holding += 1;
            self.leader = leaf;
            self.until = None;
        }
    }

    /// A request of a leader is over; `idle`: it was the last of its leaf.
    pub fn completed(&mut self, now: Instant, lead: Lead, idle: bool) {
        self.withdrawn(now, lead);
        if lead == Lead::Holding && idle && self.holding == 0 && self.account > Nanos::ZERO {
            self.until = Some(now + THINKS);
        }
    }

    /// A request of a leader is over or waits no longer in another way.
    pub fn withdrawn(&mut self, now: Instant, lead: Lead) {
        self.settle(now);
        self.requests -= 1;
        self.holding -= u32::from(lead == Lead::Holding);
    }

    /// Requests of leaders wait or are inside.
    pub fn is_served(&self) -> bool {
        self.requests > 0
    }

    /// Others are held, so that what completes says nothing about the drive.
    #[inline]
    pub fn stops_others(&self, now: Instant) -> bool {
        self.holds(now).is_some()
    }

    /// Others are held: until then, if it is for a time.
    fn holds(&self, now: Instant) -> Option<Hold> {
        if self.holding > 0 {
            return Some(Hold::Served);
        }
        self.until.filter(|&until| until > now).map(Hold::Until)
    }
}

/// Why others are held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hold {
    /// A request of a leader waits or is inside.
    Served,
    /// A leader thinks.
    Until(Instant),
}

impl Paternoster {
    /// A process that has just begun is served, or thinks for a moment: greedy requests are held.
    #[inline]
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

    /// Has the leaf just begun, so that its next request, which it has not counted yet, goes first?
    #[inline]
    pub(super) fn leads(
        &mut self,
        now: Instant,
        id: LeafId,
        r: &Request,
        tags: u32,
    ) -> Option<Lead> {
        if let Some((leader, thought)) = self.begin.take_thinking(now) {
            let leader = self.fair.leaf_mut(leader);
            leader.drive_time = Nanos(leader.drive_time.0.saturating_add(thought.0));
        }
        let leaf = self.fair.leaf_mut(id);
        if begins_anew(leaf, now) {
            leaf.begins();
            leaf.together = self.begin.begins(now);
        }
        if self.begin.is_batch(leaf.together) {
            leaf.drive_time = Nanos(u64::MAX);
        }
        if !leaf.sync || leaf.sync_write {
            return None;
        }
        // That was all: once it is held it falls behind, pauses no more, and would pass for a start-up.
        let had = leaf.drive_time.0.saturating_mul(DISK_ASKER);
        if !self.media.is_quick() && asks_at_times(leaf) && had >= self.begin.most.0 {
            leaf.drive_time = Nanos(u64::MAX);
        }
        self.may_lead(now, self.fair.leaf(id), (r.group, r.start), tags)
    }

    /// Would the next request of that process, which asks for a tag, lead? It must not wait for one behind greedy work.
    pub(super) fn would_lead(
        &self,
        now: Instant,
        io: &Io,
        leaf: Option<LeafId>,
        tags: u32,
    ) -> bool {
        if io.op != Op::Read || self.begin.most == Nanos::ZERO {
            return false;
        }
        match leaf.map(|id| self.fair.leaf(id)) {
            Some(leaf) if !begins_anew(leaf, now) => {
                self.may_lead(now, leaf, (io.group, io.start), tags).is_some()
            }
            _ => true,
        }
    }

    #[inline]
    fn may_lead(
        &self,
        now: Instant,
        leaf: &Leaf,
        (group, start): (GroupId, Sectors),
        tags: u32,
    ) -> Option<Lead> {
        if !self.begin.is_open() || leaf.waiting + leaf.inside >= DEEP {
            return None;
        }
        let is_disk = !self.media.is_quick();
        let passing = !is_disk && tags >= TAGS_OF_FLASH;
        let jumps = leaf.jumps_to(start) > JUMPS_MOST;
        if jumps && (is_disk || passing) {
            return None;
        }
        let (had, computed) = (leaf.drive_time.0, leaf.computed.0);
        let streams = start == leaf.last_end && leaf.run >= STREAM;
        let (lead, faster) = match is_disk {
            true if had >= DISK_READS * computed && streams => (Lead::Holding, DISK_STREAMS),
            true if had >= DISK_READS * computed => (Lead::Holding, DISK_READER),
            true if asks_at_times(leaf) => (Lead::Holding, DISK_ASKER),
            true => (Lead::Holding, 1),
            false if passing && streams => (Lead::Passing, FLASH_STREAMS),
            false if !passing || computed >= had / 2 => (Lead::Holding, FLASH_FASTER),
            false => (Lead::Holding, FLASH_READS),
        };
        let had = Nanos(had.saturating_mul(faster));
        self.begin.allows(now, had, self.lane.other_served(group)).then_some(lead)
    }
}

/// It pauses for so long between its reads that it is no start-up.
fn asks_at_times(leaf: &Leaf) -> bool {
    let had = leaf.drive_time.0;
    had > 0 && leaf.computed.0 > had.saturating_mul(DISK_ASKS)
}

/// Its next request is its first, or the first after a long time.
fn begins_anew(leaf: &Leaf, now: Instant) -> bool {
    leaf.is_idle() && leaf.idle_since().is_none_or(|since| since + ANEW <= now)
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
        b.arrived(at(0), LeafId(1), Lead::Holding);
        assert_eq!(b.holds(at(5)), Some(Hold::Served));
        b.arrived(at(6), LeafId(2), Lead::Holding);
        b.completed(at(8), Lead::Holding, true);
        assert_eq!(b.holds(at(9)), Some(Hold::Served), "another leads too");
        b.completed(at(10), Lead::Holding, true);
        assert_eq!(b.holds(at(17)), Some(Hold::Until(at(18))));
        assert_eq!(b.holds(at(18)), None);
        b.arrived(at(20), LeafId(1), Lead::Passing);
        assert_eq!(b.holds(at(21)), None, "it passes");
        b.completed(at(22), Lead::Passing, true);
        assert_eq!(b.holds(at(23)), None);
    }

    #[test]
    fn a_leader_pays_for_the_moments_in_which_it_thinks() {
        let mut b = begin();
        assert_eq!(b.take_thinking(at(0)), None);
        b.arrived(at(0), LeafId(1), Lead::Holding);
        b.completed(at(1), Lead::Holding, true);
        assert_eq!(b.take_thinking(at(5)), Some((LeafId(1), Nanos::ms(4))));
        assert_eq!(b.take_thinking(at(7)), Some((LeafId(1), Nanos::ms(2))), "each moment once");
        assert_eq!(
            b.take_thinking(at(100)),
            Some((LeafId(1), Nanos::ms(2))),
            "up to the end of the hold"
        );
        b.arrived(at(200), LeafId(2), Lead::Holding);
        assert_eq!(b.take_thinking(at(300)), None, "being served is not thinking");
    }

    #[test]
    fn the_account_bounds_what_leaders_take() {
        let mut b = begin();
        let (mut now, mut held) = (0, 0);
        while now < 100_000 {
            b.settle(at(now));
            if b.allows(at(now), Nanos::ZERO, None) {
                b.arrived(at(now), LeafId(1), Lead::Holding);
                b.completed(at(now + 10), Lead::Holding, true);
                held += 10;
            }
            now += 10;
        }
        assert!((50_000..=65_000).contains(&held), "15 s and half of 100 s, not {held} ms");
    }

    #[test]
    fn who_has_had_enough_leads_no_more_nor_beside_the_target_of_another() {
        let b = begin();
        assert!(b.allows(at(0), Nanos::ZERO, None));
        assert!(!b.allows(at(0), Nanos::secs(4), None));
        assert!(!b.allows(at(1500), Nanos::ZERO, Some(at(600))));
        assert!(b.allows(at(1600), Nanos::ZERO, Some(at(600))));
    }
}
