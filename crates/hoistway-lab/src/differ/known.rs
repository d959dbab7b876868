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
pub static KNOWN: &[Known] = &[];

/// The listed difference that this is.
pub fn find(scheduler: &str, difference: &Difference) -> Option<&'static Known> {
    KNOWN.iter().find(|k| k.scheduler == scheduler && (k.matches)(difference))
}
