//! Tunables as data, declared next to the code that reads them. The command line, the documents and the
//! bindings are generated from these tables.

use alloc::string::String;
use alloc::string::ToString;
use core::fmt;

/// What a tunable counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Nanoseconds.
    Nanos,
    /// Microseconds.
    Micros,
    /// Milliseconds.
    Millis,
    /// Seconds.
    Secs,
    /// 512-byte sectors.
    Sectors,
    /// KiB.
    Kib,
    /// Bytes per second.
    BytesPerSec,
    /// A number of requests.
    Requests,
    /// A number of anything else.
    Count,
    /// A factor.
    Factor,
    /// A weight.
    Weight,
    /// 0 or 1.
    Switch,
    /// The value is an index into the words, and the words are accepted.
    Choice(&'static [&'static str]),
}

impl Unit {
    /// The suffix shown behind a value.
    pub fn suffix(self) -> &'static str {
        match self {
            Unit::Nanos => "ns",
            Unit::Micros => "us",
            Unit::Millis => "ms",
            Unit::Secs => "s",
            Unit::Sectors => "sectors",
            Unit::Kib => "KiB",
            Unit::BytesPerSec => "B/s",
            Unit::Requests => "requests",
            Unit::Factor => "x",
            Unit::Count | Unit::Weight | Unit::Switch | Unit::Choice(_) => "",
        }
    }
}

/// What a change of a tunable does to waits, stamps, limits and budgets made under the old value.
///
/// Whatever it is, no change strands I/O: as long as something is queued, something is with the device, or a
/// time is named at which the stage is asked again, and that time is within what the *new* value allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnChange {
    /// Nothing was made from it in advance: it is looked at in each decision.
    Decides,
    /// Requests that wait keep the deadline they were given, which orders them but holds nobody back; later
    /// ones get the new one.
    LaterRequests,
    /// The deadlines of requests that wait move with it.
    WaitingRequests,
    /// A wait that is armed ends no later than one armed under the new value; it is never lengthened.
    Waits,
    /// The slot, slice or window under way ends by the new value if that is sooner, budgets given are cut to
    /// it; nothing is lengthened.
    Limits,
    /// Samples already taken stay as they were counted; later ones are counted by it.
    LaterSamples,
    /// Makes a state of its own anew, as its text says.
    Resets,
    /// Comes into force when no request exists; until then requests leave by `drain` and new I/O waits.
    Frozen,
}

impl OnChange {
    /// One line for people.
    pub const fn text(self) -> &'static str {
        match self {
            OnChange::Decides => "looked at in each decision",
            OnChange::LaterRequests => "for later requests; those that wait keep their deadlines",
            OnChange::WaitingRequests => "deadlines of waiting requests move with it",
            OnChange::Waits => "an armed wait is shortened to it, never lengthened",
            OnChange::Limits => {
                "slots, windows and budgets under way are cut to it, never lengthened"
            }
            OnChange::LaterSamples => "for later samples",
            OnChange::Resets => "makes what it is about anew",
            OnChange::Frozen => "in force when no request exists; until then requests drain",
        }
    }
}

/// One tunable.
#[derive(Clone, Copy, Debug)]
pub struct Tunable {
    /// Its name, the kernel's where there is one.
    pub name: &'static str,
    /// What it counts.
    pub unit: Unit,
    /// Value of a fresh instance.
    pub default: u64,
    /// Smallest value.
    pub min: u64,
    /// Largest value.
    pub max: u64,
    /// One or two sentences.
    pub doc: &'static str,
    /// What a change does to what was made under the old value.
    pub on_change: OnChange,
}

impl Tunable {
    /// The same with another effect of a change.
    pub const fn on_change(self, on_change: OnChange) -> Tunable {
        Tunable { on_change, ..self }
    }
}

/// Why a tunable was not set. Nothing changed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TunableError {
    /// Outside the range.
    OutOfRange {
        /// The tunable.
        name: &'static str,
        /// What was given.
        got: u64,
        /// Smallest value.
        min: u64,
        /// Largest value.
        max: u64,
    },
    /// No such tunable.
    Unknown {
        /// What was asked for.
        name: String,
        /// The stage that was asked.
        stage: &'static str,
    },
}

impl fmt::Display for TunableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TunableError::OutOfRange { name, got, min, max } => {
                write!(f, "{name} = {got} is outside {min}..={max}; choose a value in that range")
            }
            TunableError::Unknown { name, stage } => {
                write!(f, "{stage} has no tunable '{name}'; `hoistway show {stage}` lists them")
            }
        }
    }
}

impl core::error::Error for TunableError {}

/// Finds `name` in `table` and checks `value` against its range.
pub fn check(
    table: &'static [Tunable],
    stage: &'static str,
    name: &str,
    value: u64,
) -> Result<&'static Tunable, TunableError> {
    let tunable = table
        .iter()
        .find(|t| t.name == name)
        .ok_or_else(|| TunableError::Unknown { name: name.to_string(), stage })?;
    if value < tunable.min || value > tunable.max {
        return Err(TunableError::OutOfRange {
            name: tunable.name,
            got: value,
            min: tunable.min,
            max: tunable.max,
        });
    }
    Ok(tunable)
}
