//! Why a world cannot carry out a configuration, and how to get it.

use std::fmt;

/// What a world lacks for a configuration.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Lack {
    /// What is missing: `scheduler kyber`, `io.latency`.
    pub what: String,
    /// Why it is.
    pub why: String,
    /// What to do about it; empty if nothing can be done.
    pub remedy: String,
}

impl Lack {
    /// All three.
    pub fn new(what: impl Into<String>, why: impl Into<String>, remedy: impl Into<String>) -> Lack {
        Lack { what: what.into(), why: why.into(), remedy: remedy.into() }
    }
}

impl fmt::Display for Lack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.why)?;
        if self.remedy.is_empty() {
            return Ok(());
        }
        write!(f, "; {}", self.remedy)
    }
}
