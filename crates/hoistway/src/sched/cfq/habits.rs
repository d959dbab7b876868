//! What is learnt of a process and of a queue from their requests: think time, jumps (specs/cfq.md 6).

/// A request this far from where the head is (in sectors) is close. 4 MiB: within a few tracks, so that a jump there
/// costs hardly more than none; a wrong guess is repaired, since cooperators that turn seeky are split.
pub(super) const CLOSE: u64 = 8192;
/// A request farther from its predecessor than this (in sectors) is a seek. Within 400 KiB the drive's read-ahead
/// probably has it already (ML "cfq-iosched: rework seeky detection").
const FAR: u64 = 800;
/// On non-rotational devices distance is nothing, but requests shorter than this (in sectors) are small: only they
/// waste the transfer rate.
pub(super) const SMALL: u32 = 64;
/// A queue with more jumps than this among the last 32 requests is seeky. A count, where 2.6.30 had a mean distance:
/// a mean cannot tell seeks of medium length from runs with a rare long jump.
const SEEKY_JUMPS: u32 = 4;

/// Think-time (and, in 2.6.30, distance) means are believed above this: the third sample, since each of the first
/// ones brings less than the scale of 256 (from the anticipatory scheduler).
const VALID_SAMPLES: i64 = 80;

/// 2.6.30: a distance counts at most four means and this many sectors: while there are few samples, and later. One
/// jump across the disk says nothing of the habit, though the first ones are to move the mean at all.
const FIRST_DISTANCE: i64 = 2_097_152;
const LATER_DISTANCE: i64 = 131_072;
const FEW_SAMPLES: i64 = 60;

/// A running mean: an eighth of weight to the newest sample. One shift and one subtraction; it forgets half within
/// five samples, which rides out an odd one and still follows a change of phase. The scale of 256 keeps fractions.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Mean {
    samples: i64,
    total: i64,
    mean: i64,
}

impl Mean {
    pub fn add(&mut self, sample: i64) {
        self.samples = (7 * self.samples + 256) / 8;
        self.total = (7 * self.total + 256 * sample) / 8;
        self.mean = (self.total + 128) / self.samples;
    }

    /// The mean, once there are enough samples to go by.
    pub fn known(&self) -> Option<i64> {
        (self.samples > VALID_SAMPLES).then_some(self.mean)
    }
}

/// How long a process takes from the end of a sync request of it to its next request. Ticks.
#[derive(Clone, Copy, Debug)]
pub(super) struct ThinkTime {
    last_end: i64,
    mean: Mean,
}

impl ThinkTime {
    /// Of a process first seen at `t`.
    pub fn new(t: i64) -> ThinkTime {
        ThinkTime { last_end: t, mean: Mean::default() }
    }

    /// Its next request came. Cut at twice `slice_idle`: beyond the longest wait all pauses are equally too long, and
    /// one coffee break must not make a process slow for minutes.
    pub fn request_came(&mut self, t: i64, slice_idle: i64) {
        self.mean.add((t - self.last_end).min(2 * slice_idle));
    }

    pub fn request_ended(&mut self, t: i64) {
        self.last_end = t;
    }

    /// Does it come back within `slice_idle`? `None`: too early to say.
    pub fn within(&self, slice_idle: i64) -> Option<bool> {
        self.mean.known().map(|mean| mean <= slice_idle)
    }

    /// It will not be back in that time, as far as is known.
    pub fn longer_than(&self, left: i64) -> bool {
        self.mean.known().is_some_and(|mean| left < mean)
    }
}

/// 2.6.30: mean distance of a process's requests from their predecessors.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Distance {
    mean: Mean,
    /// End of the last request; 0 = none.
    last_end: u64,
}

impl Distance {
    pub fn add(&mut self, start: u64, end: u64) {
        let distance = if self.last_end == 0 { 0 } else { self.last_end.abs_diff(start) as i64 };
        let more = if self.mean.samples <= FEW_SAMPLES { FIRST_DISTANCE } else { LATER_DISTANCE };
        self.mean.add(distance.min(4 * self.mean.mean + more));
        self.last_end = end;
    }

    /// Its requests are far from each other. Believed from the first sample on.
    pub fn seeky(&self) -> bool {
        self.mean.mean > CLOSE as i64
    }

    /// The mean distance, once known.
    pub fn known(&self) -> Option<i64> {
        self.mean.known()
    }
}

/// Which of the last 32 requests of a queue were jumps.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SeekHistory {
    /// Newest bit lowest, 1 = far from its predecessor (or small, on flash).
    pub jumps: u32,
    /// End of the last request; 0 = none.
    last_end: u64,
}

impl SeekHistory {
    pub fn add(&mut self, start: u64, sectors: u32, rotational: bool) {
        let jump = if rotational {
            self.last_end != 0 && self.last_end.abs_diff(start) > FAR
        } else {
            sectors < SMALL
        };
        self.jumps = self.jumps << 1 | u32::from(jump);
        self.last_end = start + u64::from(sectors);
    }

    pub fn seeky(&self) -> bool {
        self.jumps.count_ones() > SEEKY_JUMPS
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn a_mean_is_known_from_the_third_sample_and_follows_the_newest() {
        let mut mean = Mean::default();
        mean.add(8);
        mean.add(8);
        assert_eq!(mean.known(), None, "two samples say nothing");
        mean.add(8);
        assert_eq!(mean.known(), Some(9), "rounded up at first");
        (0..5).for_each(|_| mean.add(0));
        assert_eq!(mean.known(), Some(2), "more than half is forgotten in five");
    }

    #[test]
    fn one_long_pause_does_not_make_a_quick_process_slow() {
        let mut think = ThinkTime::new(0);
        for t in 0..20 {
            think.request_came(t, 8);
            think.request_ended(t);
        }
        think.request_came(100_000, 8);
        assert_eq!(think.within(8), Some(true));
        assert!(think.longer_than(1) && !think.longer_than(8));
        (0..20).for_each(|_| think.request_came(200_000, 8));
        assert_eq!(think.within(8), Some(false), "but many do");
    }

    #[test]
    fn a_process_first_seen_is_not_judged() {
        let think = ThinkTime::new(5);
        assert_eq!((think.within(0), think.longer_than(0)), (None, false));
    }

    #[test]
    fn four_jumps_of_32_are_not_seeky_five_are() {
        let mut history = SeekHistory::default();
        let mut at = 1_000_000;
        for jump in [0, 1, 1, 1, 1, 1] {
            assert!(!history.seeky());
            at += jump * (FAR + 1);
            history.add(at, 8, true);
            at += 8;
        }
        assert!(history.seeky());
        for _ in 0..32 {
            history.add(at + FAR, 8, true);
            at += FAR + 8;
        }
        assert!(!history.seeky(), "a step of {FAR} sectors is none");
    }

    #[test]
    fn on_flash_small_requests_are_jumps_wherever_they_are() {
        let mut history = SeekHistory::default();
        history.add(1 << 30, SMALL, false);
        history.add(8, SMALL - 1, false);
        assert_eq!(history.jumps, 0b01);
    }

    #[test]
    fn a_distance_counts_so_far_only() {
        let mut distance = Distance::default();
        distance.add(1 << 40, (1 << 40) + 8);
        assert!(!distance.seeky(), "the first has no predecessor");
        distance.add(8, 16);
        assert!(distance.seeky() && distance.known().is_none());
        let before = distance.mean.mean;
        (0..20).for_each(|_| distance.add(16, 16));
        assert!(distance.known().unwrap() < before);
        let low = distance.known().unwrap();
        distance.add(1 << 50, 1 << 50);
        assert!(distance.known().unwrap() <= low + (4 * low + LATER_DISTANCE) / 8 + 1);
    }

    fn means(sample: i64, n: usize) -> Vec<(i64, i64)> {
        let mut mean = Mean::default();
        let add = |_| {
            mean.add(sample);
            (mean.samples, mean.mean)
        };
        (0..n).map(add).collect()
    }

    /// Scenario 4, the numbers.
    #[test]
    fn think_time_is_a_rounded_running_mean() {
        assert_eq!(means(0, 6), [(32, 4), (60, 2), (84, 1), (105, 1), (123, 1), (139, 0)]);
        let only_means = |sample, n| means(sample, n).iter().map(|m| m.1).collect::<Vec<_>>();
        assert_eq!(only_means(16, 4), [20, 18, 17, 17]);
        assert_eq!(only_means(8, 7), [12, 10, 9, 9, 9, 9, 8]);
    }
}
