//! State of one group on the device: the member that is judged and limited, and the parent that says how
//! far its children are to be held back (specs/io-latency.md section 2).

use super::tunables::LatencyConf;
use crate::ctl::Delay;
use crate::list::List;
use crate::table::NIL;
use crate::unit::{Instant, Nanos};

/// The cookie of a parent none of whose children misses its target.
pub(super) const BASE: u64 = 1_000_000;
/// A depth that limits nothing.
pub(super) const UNLIMITED: u32 = u32::MAX;
/// Factors of the moving average of a rotational device, in 1/2048, by windows of 250 ms.
const DECAY: [u64; 5] = [2045, 2039, 2031, 2023, 2014];
const DECAY_STEP: Nanos = Nanos::ms(250);
const DECAY_ONE: u64 = 2048;

/// Has the group a node on this device?
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Life {
    /// Not yet: no I/O and no setting of it has come.
    #[default]
    Absent,
    Alive,
    /// It was removed; I/O of it may still be under way.
    Gone,
}

/// Latencies measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LatencyStat {
    pub samples: u64,
    /// Of these at or above the target.
    pub missed: u64,
    /// Sum of the latencies in ns.
    pub sum: u64,
}

impl LatencyStat {
    /// Mean latency in ns, rounded down; 0 of nothing.
    pub fn mean(self) -> u64 {
        self.sum.checked_div(self.samples).unwrap_or(0)
    }

    /// Was the target met? By the mean on a rotational device, by the share of misses on others.
    ///
    /// Latencies of flash are spiky: masses of quick I/Os hide a bad tenth in a mean. On a disk all are
    /// slow in the same way, and the mean needs fewer samples.
    pub fn good(self, rotational: bool, target: Nanos, set: &LatencyConf) -> bool {
        if rotational {
            self.mean() <= target.0
        } else {
            self.missed < (self.samples * set.miss_percent / 100).max(1)
        }
    }

    pub fn add(&mut self, other: LatencyStat) {
        self.samples += other.samples;
        self.missed += other.missed;
        self.sum += other.sum;
    }
}

/// One group. With 100,000 groups an I/O costs what the cache misses cost: the first 64 bytes are all that
/// a submission looks at, the next 64 what a completion needs besides.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub(super) struct LatencyNode {
    /// Table index of the parent; the root's is `NIL`.
    pub parent: u32,
    /// 0 for the root.
    pub level: u32,
    /// I/Os that may be under way, `UNLIMITED` if as many as like.
    pub depth: u32,
    pub inflight: u32,
    pub waiters: List,
    pub life: Life,
    /// Which statistics decide; from the device when the node was made.
    pub rotational: bool,
    /// The parent's cookie as of this group's last I/O.
    pub seen: u64,
    /// Zero: none.
    pub target: Nanos,
    pub window: Nanos,
    pub window_start: Instant,

    /// The current window.
    pub stat: LatencyStat,
    pub delay: Delay,

    /// Windows since this node's last decision.
    pub cum: LatencyStat,
    /// Samples of `cum` at the last look.
    pub n_last: u64,
    /// Moving average of the windows' means in ns (rotational, for display).
    pub avg: u64,

    pub scale: Scale,
}

impl LatencyNode {
    /// The place of a group of which nothing has come yet.
    pub fn absent(parent: u32, level: u32, last_scale: Option<Instant>) -> LatencyNode {
        LatencyNode {
            parent,
            level,
            depth: UNLIMITED,
            inflight: 0,
            waiters: List::new(),
            life: Life::Absent,
            rotational: false,
            seen: BASE,
            target: Nanos::ZERO,
            window: Nanos::ZERO,
            window_start: Instant::ZERO,
            stat: LatencyStat::default(),
            delay: Delay::default(),
            cum: LatencyStat::default(),
            n_last: 0,
            avg: 0,
            scale: Scale::new(last_scale),
        }
    }

    /// May one more I/O be under way?
    pub fn has_room(&self) -> bool {
        self.inflight < self.depth
    }

    /// The depth in force, of `requests` that can exist.
    pub fn effective(&self, requests: u32) -> u32 {
        self.depth.min(requests)
    }

    /// One step up or down (4.3); true if waiters may now fit.
    ///
    /// Halved down, a sixteenth up: relief for the victim is urgent, the return is tried with care.
    pub fn change_depth(&mut self, down: bool, requests: u32) -> bool {
        let old = self.effective(requests);
        if down {
            self.depth = (old / 2).max(1);
            return false;
        }
        // Delay is taken back before depth.
        if old == 1 && self.delay.use_less() {
            return false;
        }
        if old < requests {
            self.depth = (old + up_step(requests) as u32).min(requests);
            return true;
        }
        false
    }

    /// Moves the average of a rotational device on.
    pub fn average(&mut self, mean: u64) {
        let at = (self.window.0 / DECAY_STEP.0).min(DECAY.len() as u64 - 1);
        self.avg = decay(self.avg, mean, DECAY[at as usize]);
    }
}

/// The parent part.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    /// Below [`BASE`]: children are held back.
    pub cookie: u64,
    /// The last decision; `None`: long ago.
    pub last: Option<Instant>,
    /// Target of the child for whose sake the cookie is low; it outlives `group`. Zero: none.
    pub target: Nanos,
    /// That child; `NIL`: none.
    pub group: u32,
    /// Sum of `n_last` of the children.
    pub n_total: u64,
    /// It is on the list of lowered parents.
    pub listed: bool,
}

impl Scale {
    fn new(last: Option<Instant>) -> Scale {
        Scale { cookie: BASE, last, target: Nanos::ZERO, group: NIL, n_total: 0, listed: false }
    }

    /// Nobody misses anything; `last` is the initial time of the last decision.
    pub fn reset(&mut self, last: Option<Instant>) {
        let (n_total, listed) = (self.n_total, self.listed);
        *self = Scale { n_total, listed, ..Scale::new(last) };
    }

    fn gap(&self) -> u64 {
        BASE.saturating_sub(self.cookie)
    }

    /// Children are to have less (6.1). It ends at a gap of twice the requests.
    ///
    /// Groups step at their own I/Os, so the cookie has to say how bad it is, not only which way to go. From
    /// far below the floor the way back would take hours.
    pub fn down(&mut self, requests: u32) {
        let q = u64::from(requests);
        if self.gap() <= q {
            self.cookie -= (q / 4).max(1);
        } else if self.gap() < 2 * q {
            self.cookie -= 1;
        }
    }

    /// Children may have more.
    pub fn up(&mut self, requests: u32) {
        let step = up_step(requests);
        if self.cookie + step > BASE {
            self.cookie = BASE;
        } else if self.gap() > u64::from(requests) {
            self.cookie += 1;
        } else {
            self.cookie += step;
        }
    }
}

/// A sixteenth of the requests, at least 1.
fn up_step(requests: u32) -> u64 {
    (u64::from(requests) / 16).max(1)
}

/// (avg e + mean (2048 - e)) / 2048, rounded up when the mean is not below the average.
fn decay(avg: u64, mean: u64, e: u64) -> u64 {
    let round = if mean >= avg { DECAY_ONE - 1 } else { 0 };
    (avg * e + mean * (DECAY_ONE - e) + round) / DECAY_ONE
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn scale(cookie: u64) -> Scale {
        Scale { cookie, ..Scale::new(None) }
    }

    /// Scenario 2 of specs/io-latency.md.
    #[test]
    fn the_cookie_falls_by_quarters_then_by_one_and_stops_at_a_gap_of_two_depths() {
        let mut s = scale(BASE);
        let mut step = || {
            s.down(64);
            s.cookie
        };
        let first: Vec<u64> = (0..8).map(|_| step()).collect();
        let expected = [999_984, 999_968, 999_952, 999_936, 999_920, 999_919, 999_918, 999_917];
        assert_eq!(first, expected);
        let last = (0..100).map(|_| step()).last();
        assert_eq!(last, Some(999_872));
    }

    /// Scenario 3.
    #[test]
    fn the_cookie_rises_by_one_to_a_gap_of_one_depth_then_by_sixteenths() {
        let mut s = scale(999_872);
        for _ in 0..64 {
            assert!(s.cookie < 999_936);
            s.up(64);
        }
        assert_eq!(s.cookie, 999_936);
        s.up(64);
        assert_eq!(s.cookie, 999_940);
        (1..15).for_each(|_| s.up(64));
        assert_eq!(s.cookie, 999_996);
        s.up(64);
        assert_eq!(s.cookie, BASE);
        s.up(64);
        assert_eq!(s.cookie, BASE, "never above");
    }

    /// Section 8.5: decisions from unlimited to depth 1.
    #[test]
    fn a_depth_of_one_is_reached_after_so_many_steps() {
        let steps = |requests| {
            let mut node = LatencyNode::absent(0, 1, None);
            (1..).find(|_| {
                node.change_depth(true, requests);
                node.depth == 1
            })
        };
        assert_eq!([32, 64, 1023].map(steps), [Some(5), Some(6), Some(9)]);
    }

    /// Scenario 16.
    #[test]
    fn the_average_of_a_rotational_device_is_rounded_up_on_the_way_up() {
        let mut node = LatencyNode { window: Nanos::secs(1), ..LatencyNode::absent(0, 1, None) };
        node.average(50_000_000);
        assert_eq!(node.avg, 830_079);
        assert_eq!(decay(1000, 0, 2045), 998);
        let factors = [0, 250, 500, 750, 1000].map(|ms| {
            let mut node = LatencyNode { window: Nanos::ms(ms), ..LatencyNode::absent(0, 1, None) };
            node.average(2048);
            node.avg
        });
        assert_eq!(factors, [3, 9, 17, 25, 34]);
    }

    #[test]
    fn a_group_takes_256_bytes() {
        assert!(size_of::<LatencyNode>() <= 256);
        assert_eq!(core::mem::offset_of!(LatencyNode, stat), 64);
    }

    /// Scenario 7.
    #[test]
    fn a_window_is_bad_at_a_tenth_missed_and_at_one_of_a_few() {
        let set = crate::ctl::latency::tunables::SETTINGS.defaults();
        let good = |samples, missed| {
            LatencyStat { samples, missed, sum: 0 }.good(false, Nanos::ms(5), &set)
        };
        assert!(!good(100, 10) && good(100, 9) && !good(5, 1) && good(5, 0));
    }
}
