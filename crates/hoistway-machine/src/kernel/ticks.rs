//! Whole seconds of a kernel's own clock.
//!
//! The kernel counts ticks (*jiffies*) from some number on that is no multiple of a second, and rounds timers that have
//! time, such as that of ext4's journal, to whole seconds of that count. On a machine that has been up for a while a run
//! begins anywhere in such a second. In virtual time it begins where one is whole, as in the simulator, so that the same
//! timer runs out at the same time of the run in both.

use crate::MachineError;
use crate::os;
use hoistway::{Instant, Nanos};
use hoistway_serve::system::{Clock, monotonic};

/// Says what the clock and the count are now.
const FILE: &str = "/proc/timer_list";

/// The clock and the count of ticks at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct TickReading {
    /// Monotonic clock, ns.
    now: u64,
    jiffies: u64,
}

impl TickReading {
    fn take() -> Result<TickReading, MachineError> {
        let text = std::fs::read_to_string(FILE).map_err(os(FILE))?;
        let what = format!("{FILE} does not say `now at` and `jiffies`");
        TickReading::parse(&text).ok_or(MachineError::Refused(what))
    }

    fn parse(text: &str) -> Option<TickReading> {
        let after = |key: &str| text.lines().find_map(|line| line.strip_prefix(key));
        let now = after("now at ")?.strip_suffix(" nsecs")?.parse().ok()?;
        let jiffies = after("jiffies: ")?.trim().parse().ok()?;
        Some(TickReading { now, jiffies })
    }

    /// The first time, not before `earliest`, half a tick behind that at which the count becomes a multiple of
    /// `per_second`: who wakes at the instant of a tick may find the count before it. Ticks are at multiples of their
    /// length.
    fn whole_second(self, per_second: u64, earliest: u64) -> u64 {
        let length = SECOND.0 / per_second;
        let whole = self.jiffies.next_multiple_of(per_second);
        let at = self.now / length * length + (whole - self.jiffies) * length + length / 2;
        at + earliest.saturating_sub(at).next_multiple_of(SECOND.0)
    }
}

const SECOND: Nanos = Nanos::secs(1);

/// The next time of the monotonic clock, `ahead` from now at least, at which a second of the kernel's count of ticks is
/// whole, to half a tick. It sleeps for a second, to see how many ticks that has.
///
/// # Errors
///
/// The kernel does not say how far it has counted.
pub(super) fn next_whole_second(ahead: Nanos) -> Result<u64, MachineError> {
    let before = TickReading::take()?;
    Clock::starting_at(before.now).sleep_until(Instant::ZERO + SECOND);
    let after = TickReading::take()?;
    let per_second = after.jiffies - before.jiffies;
    if per_second == 0 || !SECOND.0.is_multiple_of(per_second) {
        let what = format!("{per_second} ticks in a second: no such kernel is known");
        return Err(MachineError::Refused(what));
    }
    Ok(after.whole_second(per_second, monotonic() + ahead.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernels_count_is_read() {
        let text = "Timer List Version: v0.9\nnow at 501388153 nsecs\n\ncpu: 0\n  .last_jiffies   : 7\njiffies: 4294892421\n";
        let read = TickReading { now: 501_388_153, jiffies: 4_294_892_421 };
        assert_eq!(TickReading::parse(text), Some(read));
        assert_eq!(TickReading::parse("now at 5 nsecs\n"), None);
    }

    #[test]
    fn a_second_is_whole_where_the_count_is_a_multiple() {
        // 4,294,892,500 is the next multiple of 250, 79 ticks of 4 ms after 500 ms.
        let read = TickReading { now: 501_388_153, jiffies: 4_294_892_421 };
        assert_eq!(read.whole_second(250, 0), 818_000_000);
        assert_eq!(read.whole_second(250, 818_000_000), 818_000_000);
        assert_eq!(read.whole_second(250, 818_000_001), 1_818_000_000);
        assert_eq!(read.whole_second(250, 5_000_000_000), 5_818_000_000);
        let whole = TickReading { now: 816_000_500, jiffies: 4_294_892_500 };
        assert_eq!(whole.whole_second(250, 818_000_500), 1_818_000_000);
    }
}
