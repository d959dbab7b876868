//! Failed flushes, and who has been told of them.

use rustix::io::Errno;

/// The kernel tells each failed flush once and then takes what it could not write for
/// written; all tenants share one file, so failures are remembered here until each tenant has been told.
#[derive(Clone, Copy, Debug)]
pub(super) struct SyncFailures {
    count: u64,
    last: Errno,
    /// Somebody who is still there has been told of the last one. Until then a tenant that comes anew
    /// is told too: it may be the client whose connection broke over it.
    told: bool,
}

impl SyncFailures {
    pub fn none() -> SyncFailures {
        SyncFailures { count: 0, last: Errno::IO, told: true }
    }

    /// What was written before may be lost: every tenant is to hear of it at its next flush.
    pub fn record(&mut self, errno: Errno) {
        *self = SyncFailures { count: self.count + 1, last: errno, told: false };
    }

    /// How many a tenant that comes now need not be told of.
    pub fn known_to_newcomer(&self) -> u64 {
        self.count - u64::from(!self.told)
    }

    /// The error a tenant that knows of `known` has not been told yet.
    pub fn untold(&self, known: u64) -> Option<Errno> {
        (known != self.count).then_some(self.last)
    }

    /// The error of the last one; of a flush nobody was blamed for.
    pub fn last(&self) -> Errno {
        self.last
    }

    /// A tenant hears of all of them; `leaving`: but may not live to pass it on. Returns what it knows of now.
    pub fn tell(&mut self, leaving: bool) -> u64 {
        self.told |= !leaving;
        self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_newcomer_is_told_of_the_last_failure_until_somebody_who_stays_was() {
        let mut failures = SyncFailures::none();
        assert_eq!(failures.untold(failures.known_to_newcomer()), None);
        failures.record(Errno::NOSPC);
        failures.record(Errno::IO);
        assert_eq!(failures.untold(0), Some(Errno::IO));
        assert_eq!(failures.untold(failures.known_to_newcomer()), Some(Errno::IO));
        assert_eq!(failures.tell(true), 2);
        assert_eq!(failures.untold(failures.known_to_newcomer()), Some(Errno::IO));
        assert_eq!(failures.tell(false), 2);
        assert_eq!(failures.untold(failures.known_to_newcomer()), None);
    }
}
