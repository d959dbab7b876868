//! The clocks: the only place of this crate where time comes from.

use hoistway::{Instant, Nanos};
use rustix::io::Errno;
use rustix::thread::{ClockId as ThreadClock, clock_nanosleep_absolute};
use rustix::time::Timespec;

/// Nanoseconds of the monotonic clock since the clock was made.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: u64,
}

impl Clock {
    /// A clock that stands at [`Instant::ZERO`].
    pub fn new() -> Clock {
        Clock { start: monotonic() }
    }

    /// A clock that stands at [`Instant::ZERO`] at that time of the monotonic clock.
    pub fn starting_at(start: u64) -> Clock {
        Clock { start }
    }

    /// Sleeps until then, if it is still to come.
    pub fn sleep_until(&self, at: Instant) {
        let until = timespec(Nanos(self.start.saturating_add(at.as_nanos())));
        // Whatever a signal interrupts is begun again; nothing else can fail.
        while clock_nanosleep_absolute(ThreadClock::Monotonic, &until) == Err(Errno::INTR) {}
    }

    /// Now.
    pub fn now(&self) -> Instant {
        Instant::from_nanos(monotonic() - self.start)
    }
}

impl Default for Clock {
    fn default() -> Clock {
        Clock::new()
    }
}

/// The time from `now` until `at` as the kernel takes it; zero if it has passed.
pub fn until(now: Instant, at: Instant) -> Timespec {
    timespec(at.since(now))
}

/// A length of time as the kernel takes it.
pub fn timespec(span: Nanos) -> Timespec {
    let ns = i64::try_from(span.0).unwrap_or(i64::MAX);
    Timespec { tv_sec: ns / 1_000_000_000, tv_nsec: ns % 1_000_000_000 }
}

/// The time of day: for the times of files, never for a decision.
#[cfg(feature = "fuse")]
pub fn wall_clock() -> std::time::SystemTime {
    std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_nanos(read(libc::CLOCK_REALTIME))
}

/// Today's date, UTC, as `2025-03-01`: for the record of a run, never for a decision.
pub fn today() -> String {
    date(read(libc::CLOCK_REALTIME) / 86_400_000_000_000)
}

/// The date so many days after 1970-01-01, by eras of 400 years that begin with a March.
fn date(days: u64) -> String {
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    format!("{:04}-{month:02}-{day:02}", era * 400 + year + u64::from(month <= 2))
}

/// Now, in nanoseconds of the monotonic clock.
pub fn monotonic() -> u64 {
    read(libc::CLOCK_MONOTONIC)
}

/// Processor time of this thread, in nanoseconds.
pub fn processor_time() -> u64 {
    read(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// A clock of the machine, in nanoseconds. By the C library, since rustix takes a vDSO without getcpu for an error, and
/// that of user-mode Linux 7.3 has none.
fn read(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes to `time` alone.
    let result = unsafe { libc::clock_gettime(clock, &mut time) };
    assert_eq!(result, 0, "every Linux has clock {clock}");
    // Negative is the time of day alone, of a machine that believes it is before 1970.
    time.tv_sec.max(0) as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::date;

    #[test]
    fn days_have_their_dates() {
        let known =
            [(0, "1970-01-01"), (59, "1970-03-01"), (11_016, "2000-02-29"), (19_782, "2024-02-29")];
        for (days, text) in
            known.into_iter().chain([(20_088, "2024-12-31"), (20_089, "2025-01-01")])
        {
            assert_eq!(date(days), text, "{days}");
        }
    }
}
