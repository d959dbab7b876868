//! Why a job cannot run.

use hoistway::setting::nearest;
use std::fmt;

/// Why a job cannot run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum JobError {
    /// No scheduler, load or profile of that name.
    Unknown {
        /// What kind of thing.
        kind: &'static str,
        /// The name asked for.
        name: String,
        /// The names that exist.
        known: Vec<String>,
    },
    /// A parameter of a load, or of the host, is wrong.
    Parameter {
        /// Whose parameter.
        of: String,
        /// What is wrong and what would be right.
        message: String,
    },
    /// A tunable was refused.
    Tunable(hoistway::setting::TunableError),
    /// The next file does not fit on the drive.
    DoesNotFit {
        /// Bytes needed.
        needed: u64,
        /// Bytes left behind what lies there already.
        available: u64,
    },
    /// The storage under a run failed, or gave back other data than was written to it.
    Storage {
        /// What happened.
        what: String,
    },
    /// `watch` said stop.
    Interrupted,
}

impl fmt::Display for JobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JobError::Unknown { kind, name, known } => {
                match nearest(name, known.iter().map(String::as_str)) {
                    Some(near) => write!(f, "no {kind} '{name}'; did you mean '{near}'?"),
                    None => write!(f, "no {kind} '{name}'; there are: {}", known.join(", ")),
                }
            }
            JobError::Parameter { of, message } => write!(f, "{of}: {message}"),
            JobError::Tunable(error) => error.fmt(f),
            JobError::DoesNotFit { needed, available } => write!(
                f,
                "the drive is full: {} MiB are needed, {} MiB are left behind the files that lie there and the gaps \
                 between them (each up to layout_gap_kib of the host, 8 MiB if it is not set); use fewer or smaller \
                 files, files that processes share, or a larger drive",
                needed.div_ceil(1 << 20),
                available >> 20
            ),
            JobError::Storage { what } => f.write_str(what),
            JobError::Interrupted => f.write_str("interrupted"),
        }
    }
}

impl std::error::Error for JobError {}
