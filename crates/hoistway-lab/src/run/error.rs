//! Why a grid gave no result.

use crate::result::DirectoryError;
use hoistway_run::{JobError, SchedulerFault};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Why there is no result.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RunError {
    /// A job cannot run.
    Job {
        /// `drive/config/workload`, with its repetition where there are several.
        cell: String,
        /// Why.
        error: JobError,
    },
    /// A finished run cannot be kept.
    Keep {
        /// What the file system says.
        what: String,
    },
    /// A finished run cannot be read back.
    Unread {
        /// Why.
        why: String,
    },
    /// Something of others stands where results are to be written.
    InTheWay {
        /// What, and where.
        what: String,
    },
    /// A run broke off with a failed assertion: an error of this program.
    Broken {
        /// As of [`RunError::Job`].
        cell: String,
        /// The message.
        what: String,
    },
    /// A scheduler that is not the program's own has ended its run ([`end_run`](hoistway_run::end_run)).
    Scheduler {
        /// As of [`RunError::Job`].
        cell: String,
        /// What it did.
        what: String,
    },
    /// Stopped from outside.
    Interrupted {
        /// Runs that are kept for the next time.
        kept: usize,
        /// All runs.
        total: usize,
    },
}

/// What `work` gives; if it breaks off with a failed assertion, [`RunError::Broken`] of `cell`.
pub(crate) fn guarded<T>(
    cell: impl FnOnce() -> String,
    work: impl FnOnce() -> T,
) -> Result<T, RunError> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| {
        if let Some(SchedulerFault(what)) = panic.downcast_ref::<SchedulerFault>() {
            return RunError::Scheduler { cell: cell(), what: what.clone() };
        }
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let what = text.or_else(|| panic.downcast_ref::<&str>().copied());
        RunError::Broken { cell: cell(), what: what.unwrap_or("without a message").into() }
    })
}

impl From<DirectoryError> for RunError {
    fn from(error: DirectoryError) -> RunError {
        let what = error.to_string();
        match error {
            DirectoryError::InTheWay(_) => RunError::InTheWay { what },
            _ => RunError::Keep { what },
        }
    }
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunError::Job { cell, error } => write!(f, "{cell}: {error}"),
            RunError::Keep { what } | RunError::InTheWay { what } => f.write_str(what),
            RunError::Unread { why } => write!(f, "a finished run cannot be read back: {why}"),
            RunError::Broken { cell, what } => {
                write!(f, "{cell}: broke off: {what}; this is an error in hoistway")
            }
            RunError::Scheduler { cell, what } => write!(f, "{cell}: {what}"),
            RunError::Interrupted { kept: 0, .. } => {
                f.write_str("interrupted; nothing was written")
            }
            RunError::Interrupted { kept, total } => write!(
                f,
                "interrupted; {kept} of {total} runs are kept, and the same command goes on from there"
            ),
        }
    }
}

impl std::error::Error for RunError {}
