//! Differences that are understood and left as they are.

use hoistway_replay::Difference;

/// A difference, and whose it is.
#[derive(Debug)]
pub struct Known {
    /// Its name in reports.
    pub name: &'static str,
    /// The scheduler.
    pub scheduler: &'static str,
    /// The rule at which the two part.
    pub rule: &'static str,
    /// Where the rule is described.
    pub specification: &'static str,
    /// Ours is wrong, or does something else on purpose; otherwise the recording cannot tell.
    pub ours: bool,
    /// Is it this one?
    matches: fn(&Difference) -> bool,
}

/// All of them.
pub static KNOWN: &[Known] = &[Known {
    name: "flushes are samples",
    scheduler: "kyber",
    rule: "the write of a flush sequence, which passes kyber by, is a sample of its latencies and arms its timer; ours \
           takes samples of what it has handed out",
    specification: "docs/specs/kyber.md section 5, Complete",
    ours: true,
    matches: |d| d.recorded.starts_with("timer,") && d.ours == "the timer is not due: None",
}];

/// The listed difference that this is.
pub fn find(scheduler: &str, difference: &Difference) -> Option<&'static Known> {
    KNOWN.iter().find(|k| k.scheduler == scheduler && (k.matches)(difference))
}
