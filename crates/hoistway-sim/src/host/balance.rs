//! How much may be dirty, and how long a writer pauses for it: throttling without the writer's own I/O
//! (specs/host.md 8.1).
//!
//! Pages that are dirty or under write-back are *held*. Below `freerun` nobody is slowed. Above, each
//! writer is allowed `rate * position` pages a second: `rate` is the flusher's estimate of what one
//! writer may dirty so that all of them together dirty as fast as the device writes, and `position` pulls
//! the number of held pages to the setpoint half way between `freerun` and `limit`:
//!
//! ```text
//! position = 1 + t^3,  t = (setpoint - held) / (limit - setpoint),  within 0 and 2
//! pause    = pages dirtied / (rate * position) - time since the last pause
//! ```
//!
//! Source: Wu Fengguang, "IO-less dirty throttling", 2011; specs/host.md 8.1.

use super::cache::PAGE;
use super::config::HostConfig;
use hoistway::{Instant, Nanos};

/// Levels of held pages (host.md 8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Thresholds {
    /// Dirty pages above which the flusher writes in the background.
    pub background: u64,
    pub limit: u64,
    /// Held pages up to which nobody is slowed.
    pub freerun: u64,
    pub setpoint: u64,
}

impl Thresholds {
    /// For `dirtyable` pages of memory.
    pub fn new(dirtyable: u64, config: &HostConfig) -> Thresholds {
        let of = |bytes: Option<u64>, ratio: u64| match bytes {
            Some(bytes) => (bytes / PAGE).min(dirtyable),
            None => dirtyable * ratio / 100,
        };
        // Room for a few pages, so that the levels are in order.
        let limit = of(config.dirty_bytes, config.dirty_ratio).max(8);
        let background = of(config.dirty_background_bytes, config.dirty_background_ratio);
        // Deviation: the text does not say what happens with a background level at or above the limit;
        // it then counts as half of it, as the sysctls are documented.
        let background = if background >= limit { limit / 2 } else { background };
        let freerun = (background + limit) / 2;
        Thresholds { background, limit, freerun, setpoint: (freerun + limit) / 2 }
    }

    /// All levels times `share` / 65536.
    pub fn scaled(&self, share: u64) -> Thresholds {
        let part = |n: u64| (n * share) >> SHARE_BITS;
        Thresholds {
            background: part(self.background),
            limit: part(self.limit),
            freerun: part(self.freerun),
            setpoint: part(self.setpoint),
        }
    }

    /// The position factor in 1/1024, within 0 and 2048.
    pub fn position(&self, held: u64) -> u64 {
        let span = self.limit.saturating_sub(self.setpoint).max(1) as i64;
        // Beyond two spans either way the clamp decides; pages are below 2^40, so nothing overflows.
        let t = ((self.setpoint as i64 - held as i64) * 1024 / span).clamp(-2048, 2048);
        (1024 + t * t * t / (1024 * 1024)).clamp(0, 2048) as u64
    }
}

/// Fixed point of a flusher's share.
pub(super) const SHARE_BITS: u32 = 16;

/// What one flusher has seen of its device and its writers.
#[derive(Clone, Copy, Debug)]
pub(super) struct FlusherPace {
    /// Pages written per second, of late.
    estimate: u64,
    /// The same, which follows slowly: what a turn of the flusher is measured by, and how fast writers may be.
    pub bandwidth: u64,
    /// Pages one writer may dirty per second at position 1.
    pub rate: u64,
    balanced: u64,
    dirtied: u64,
    written: u64,
    updated: Instant,
}

/// 100 MiB/s in pages (host.md 8.1): what a disk of the time writes. The estimate moves from there with what
/// is seen.
const START: u64 = 25_600;
/// Between two updates of the estimates.
pub(super) const UPDATE: Nanos = Nanos::ms(200);
/// Over which the bandwidth is averaged: 4.096 s, long enough to span the bursts in which a drive and its
/// flusher write.
const PERIOD: u64 = 4_096_000_000;
const SECOND: u64 = 1_000_000_000;

impl FlusherPace {
    pub fn new() -> FlusherPace {
        FlusherPace {
            estimate: START,
            bandwidth: START,
            rate: START,
            balanced: START,
            dirtied: 0,
            written: 0,
            updated: Instant::ZERO,
        }
    }

    /// Pages became dirty.
    pub fn dirtied(&mut self, pages: u64) {
        self.dirtied += pages;
    }

    /// Pages have been written.
    pub fn written(&mut self, pages: u64) {
        self.written += pages;
    }

    /// Write-back begins after a time without any: what was not tried does not count as slow.
    pub fn restart(&mut self, now: Instant) {
        if now.since(self.updated).0 > SECOND {
            (self.dirtied, self.written, self.updated) = (0, 0, now);
        }
    }

    /// The estimates are 200 ms old.
    #[inline]
    pub fn due(&self, now: Instant) -> bool {
        now.since(self.updated) >= UPDATE
    }

    /// New estimates, which are due. `position` in 1/1024; `below`: fewer pages are held than the setpoint.
    pub fn update(&mut self, now: Instant, position: u64, below: bool) {
        let elapsed = now.since(self.updated).0;
        // u128: a rate times nanoseconds may pass 2^64.
        let e = elapsed.min(PERIOD);
        let sum = u128::from(self.estimate) * u128::from(PERIOD - e)
            + u128::from(self.written) * u128::from(SECOND);
        let last =
            core::mem::replace(&mut self.estimate, ((sum / u128::from(PERIOD)) as u64).max(1));
        self.follow(last, elapsed);
        let dirtied = (u128::from(self.dirtied) * u128::from(SECOND) / u128::from(elapsed)) as u64;
        if self.dirtied > 0 || elapsed <= SECOND {
            self.adjust(dirtied, position, below);
        }
        (self.dirtied, self.written, self.updated) = (0, 0, now);
    }

    /// An eighth of the way to the `last` estimate, unless the new one has turned back: bursts are shorter than the time
    /// that this takes. After a time that no older estimate has a part in there is nothing to follow slowly.
    fn follow(&mut self, last: u64, elapsed: u64) {
        if elapsed > PERIOD {
            self.bandwidth = self.estimate;
        } else if self.bandwidth < last && last <= self.estimate {
            self.bandwidth += (last - self.bandwidth) >> 3;
        } else if self.bandwidth > last && last >= self.estimate {
            self.bandwidth -= (self.bandwidth - last) >> 3;
        }
    }

    /// Moves the rate towards the balanced one, by smaller steps the nearer it is: the estimate is noisy, and
    /// a rate that followed it at once would have all writers pause together and run together.
    fn adjust(&mut self, dirtied: u64, position: u64, below: bool) {
        let task = ((self.rate * position) >> 10) + 1;
        let balanced = u128::from(task) * u128::from(self.bandwidth) / u128::from(dirtied.max(1));
        let balanced = balanced.min(u128::from(self.bandwidth)) as u64;
        let step = if below {
            self.balanced.min(balanced).min(task).saturating_sub(self.rate)
        } else {
            self.rate.saturating_sub(self.balanced.max(balanced).max(task))
        };
        let shift = self.rate / (2 * step + 1);
        let step = if shift < 64 { (step >> shift).div_ceil(8) } else { 0 };
        if self.rate < balanced {
            self.rate += step;
        } else {
            self.rate = self.rate.saturating_sub(step).max(1);
        }
        self.balanced = balanced;
    }
}

/// `a * b / c`, which only huge numbers take a long division for.
fn times(a: u64, b: u64, c: u64) -> u64 {
    match a.checked_mul(b) {
        Some(product) => product / c,
        None => (u128::from(a) * u128::from(b) / u128::from(c)) as u64,
    }
}

/// What a writer has dirtied since it last paused.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dirtier {
    pub dirtied: u64,
    pub since: Instant,
    /// Pages until the next check.
    pub every: u64,
    /// It was the one that the count of its processor fell to (`wb30`, which uses nothing else here).
    pub due: bool,
}

impl Dirtier {
    pub fn new() -> Dirtier {
        Dirtier { dirtied: 0, since: Instant::ZERO, every: 32, due: false }
    }
}

/// Shortest pause that is slept (host.md 8.1, step 4): a shorter one is owed instead, since sleeping costs
/// more than it delays, and timers of the kernel are coarse.
const PAUSE_MIN: i64 = 10_000_000;
/// Longest pause: what a person at the keyboard takes for a stall.
const PAUSE_MAX: u64 = 200_000_000;
/// `check_every` while more than the limit is held: every page beyond it counts.
pub(super) const EVERY_ABOVE: u64 = 8;

/// The end of one check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The writer goes on.
    Go,
    /// It pauses; with `again` it is checked once more behind the pause.
    Pause { length: Nanos, again: bool },
    /// It writes so many pages itself first (specs/host.md 8.2).
    Write(u64),
}

impl Dirtier {
    /// Steps 3 to 5 of the check, above `freerun`. `position` in 1/1024; `held`: the flusher's.
    pub fn check(&mut self, now: Instant, pace: &FlusherPace, position: u64, held: u64) -> Verdict {
        let task = (pace.rate * position) >> 10;
        let backlog = times(held, 128_000_000, pace.bandwidth);
        let most = PAUSE_MAX.min(4_000_000 + backlog.min(PAUSE_MAX));
        if task > 0 {
            let period = times(self.dirtied, SECOND, task) as i64;
            // `since` may lie ahead: that is credit not yet used up.
            let passed = now.as_nanos() as i64 - self.since.as_nanos() as i64;
            let pause = period - passed;
            if pause < PAUSE_MIN {
                let late = pause < -(SECOND as i64);
                self.since = if late { now } else { self.since + Nanos(period as u64) };
                self.dirtied = 0;
                return Verdict::Go;
            }
            return Verdict::Pause { length: Nanos((pause as u64).min(most)), again: false };
        }
        Verdict::Pause { length: Nanos(most), again: true }
    }

    /// A pause is over (simplified: host.md 8.1, step 5).
    pub fn paused(&mut self, now: Instant, rate: u64) {
        self.since = now;
        self.dirtied = 0;
        self.every = (rate / 100).clamp(32, 1024);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn eight_gib() -> Thresholds {
        let config = HostConfig::profile("2019").unwrap();
        Thresholds::new((8u64 << 30) / PAGE * 85 / 100, &config)
    }

    #[test]
    fn scenario_11_levels_of_8_gib_and_the_position_between_them() {
        let t = eight_gib();
        assert_eq!((8u64 << 30) / PAGE * 85 / 100, 1_782_579);
        let levels = (t.background, t.limit, t.freerun, t.setpoint);
        // The setpoint rounds down: (267 386 + 356 515) / 2 = 311 950.5.
        assert_eq!(levels, (178_257, 356_515, 267_386, 311_950));
        assert_eq!(t.position(t.setpoint), 1024);
        assert_eq!(t.position(t.limit), 0);
        assert_eq!(t.position(t.limit + 10_000), 0);
        assert!((2040..=2048).contains(&t.position(t.freerun)), "{}", t.position(t.freerun));
    }

    #[test]
    fn scenario_12_short_pauses_are_carried_on_and_long_ones_slept() {
        let pace = FlusherPace { rate: 7680, ..FlusherPace::new() };
        let now = Instant::ZERO + Nanos::secs(5);
        let mut d = Dirtier { dirtied: 32, since: now, ..Dirtier::new() };
        assert_eq!(d.check(now, &pace, 1024, 300_000), Verdict::Go);
        assert_eq!((d.dirtied, d.since), (0, now + Nanos(4_166_666)));
        let mut d = Dirtier { dirtied: 128, since: now, ..Dirtier::new() };
        let length = Nanos(16_666_666);
        assert_eq!(d.check(now, &pace, 1024, 300_000), Verdict::Pause { length, again: false });
        let length = Nanos::ms(200);
        assert_eq!(d.check(now, &pace, 0, 300_000), Verdict::Pause { length, again: true });
        // A writer that was away for long gets no credit for it.
        let mut d = Dirtier { dirtied: 8, ..Dirtier::new() };
        assert_eq!(d.check(now, &pace, 1024, 300_000), Verdict::Go);
        assert_eq!(d.since, now);
    }

    /// A bandwidth that rises from 100 to 373 MiB/s, as a flusher's does on a fast drive.
    #[test]
    fn the_bandwidth_that_a_turn_is_measured_by_follows_slowly() {
        let (mut pace, mut now) = (FlusherPace::new(), Instant::ZERO);
        let mut seen = Vec::new();
        for _ in 0..10 {
            now += Nanos::ms(200);
            pace.written(19_100);
            pace.update(now, 1024, true);
            seen.push(pace.bandwidth);
        }
        // From the second on, an eighth of the way to the estimate before: 29,013, 32,259 and 35,347.
        assert_eq!(seen[..4], [25_600, 26_026, 26_805, 27_872]);
        assert!((37_500..38_000).contains(&seen[9]), "{seen:?}");
        // It does not fall while the estimate still rises towards it.
        let mut pace = FlusherPace { estimate: 10_000, bandwidth: 40_000, ..FlusherPace::new() };
        pace.written(19_100);
        pace.update(Instant::ZERO + Nanos::ms(200), 1024, true);
        assert_eq!(pace.bandwidth, 40_000);
        // Nothing of an estimate is left when all of its time has passed.
        pace.written(500_000);
        pace.update(Instant::ZERO + Nanos::ms(5300), 1024, true);
        assert_eq!(pace.bandwidth, pace.estimate);
    }

    #[test]
    fn the_rate_settles_where_writers_dirty_what_the_device_writes() {
        // Four writers, a device of 10,000 pages/s, from the setpoint on.
        let t = eight_gib();
        let (mut pace, mut now, mut held) = (FlusherPace::new(), Instant::ZERO, t.setpoint);
        for _ in 0..500 {
            now += Nanos::ms(200);
            let position = t.position(held);
            let dirtied = 4 * ((pace.rate * position) >> 10) / 5;
            held = held + dirtied - 2000;
            pace.dirtied(dirtied);
            pace.written(2000);
            pace.update(now, position, held < t.setpoint);
        }
        assert!(t.freerun < held && held < t.limit, "{held}");
        assert!((9_900..=10_100).contains(&pace.bandwidth), "{}", pace.bandwidth);
        assert!((2_200..=2_900).contains(&pace.rate), "{}", pace.rate);
    }
}
