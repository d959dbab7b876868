//! The owner's far deadlines.
//!
//! A scheduler's timers lie milliseconds ahead and nearly always move on before they come: BFQ idles
//! anew after each request. A timeout given to every wait would make the kernel start and stop a timer
//! per turn, for nothing. So far deadlines are left to a timer that may ring too early and is only set
//! again when it has rung, or would ring too late.

use crate::clock::timespec;
use hoistway::{Instant, Nanos};
use rustix::io;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// From here on a deadline is far. Nearer ones mostly come, and then a timeout costs less.
const FAR: Nanos = Nanos::ms(1);

#[derive(Debug)]
pub(crate) struct Alarm {
    timer: OwnedFd,
    set: Option<Instant>,
}

impl Alarm {
    pub fn new() -> io::Result<Alarm> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        Ok(Alarm { timer: timerfd_create(TimerfdClockId::Monotonic, flags)?, set: None })
    }

    /// To be waited for edge-triggered: it is never read.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.timer.as_fd()
    }

    /// True if it takes care of that deadline: it rings by then, perhaps before.
    pub fn takes(&mut self, now: Instant, deadline: Instant) -> bool {
        let left = deadline.since(now);
        if left < FAR {
            return false;
        }
        if self.set.is_some_and(|at| at <= deadline) {
            return true;
        }
        let never = timespec(Nanos::ZERO);
        let once = Itimerspec { it_interval: never, it_value: timespec(left) };
        let set = timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &once);
        self.set = set.is_ok().then_some(deadline);
        self.set.is_some()
    }

    /// It has rung.
    pub fn rang(&mut self) {
        self.set = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;
    use rustix::event::{PollFd, PollFlags, poll};

    fn rings(alarm: &Alarm, limit: Nanos) -> bool {
        let mut fds = [PollFd::from_borrowed_fd(alarm.fd(), PollFlags::IN)];
        poll(&mut fds, Some(&timespec(limit))) == Ok(1)
    }

    #[test]
    fn rings_by_the_earliest_deadline_it_took() {
        let mut alarm = Alarm::new().unwrap();
        let clock = Clock::new();
        let now = clock.now();
        assert!(!alarm.takes(now, now + Nanos::us(999)), "near ones are not its business");
        assert!(alarm.takes(now, now + Nanos::secs(3600)));
        assert!(alarm.takes(now, now + Nanos::secs(7200)), "the earlier one covers it");
        assert!(!rings(&alarm, Nanos::ZERO));
        assert!(alarm.takes(now, now + Nanos::ms(20)));
        assert!(rings(&alarm, Nanos::secs(20)));
        assert!(clock.now() >= now + Nanos::ms(20));
        alarm.rang();
        let now = clock.now();
        assert!(alarm.takes(now, now + Nanos::secs(3600)), "and is set again");
        assert!(!rings(&alarm, Nanos::ZERO));
    }
}
