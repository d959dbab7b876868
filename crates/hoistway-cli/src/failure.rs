//! How a command ends when it does not end well: a message and an exit code.

use hoistway_lab::result::DirectoryError;
use hoistway_lab::run::RunError;
use hoistway_lab::world::WorldError;
use hoistway_run::JobError;

/// How a command ends when it does not end well.
#[derive(Debug)]
pub enum Failure {
    /// Wrong usage: names, files and flags (exit code 2).
    Usage(String),
    /// The work failed (exit code 1).
    Failed(String),
    /// The environment lacks something (exit code 3).
    Environment(String),
    /// The work is done, and its answer is no (exit code 1, no message).
    No,
    /// Ctrl-C (exit code 130): what is left of the work.
    Interrupted(String),
}

/// What keeps a run directory from being written.
pub fn directory_failure(error: DirectoryError) -> Failure {
    match error {
        DirectoryError::Io { .. } => {
            Failure::Environment(format!("{error}; choose a writable place with --out"))
        }
        DirectoryError::InTheWay(_) => Failure::Usage(error.to_string()),
        error => Failure::Failed(error.to_string()),
    }
}

/// A job that cannot run was asked for in a wrong way.
pub fn run_failure(error: RunError) -> Failure {
    match error {
        RunError::Interrupted { .. } => Failure::Interrupted(error.to_string()),
        RunError::Keep { what } => {
            Failure::Environment(format!("{what}; choose a writable place with --out"))
        }
        RunError::InTheWay { what } => Failure::Usage(what),
        RunError::Job { error: JobError::Storage { .. }, .. }
        | RunError::Broken { .. }
        | RunError::Unread { .. }
        | RunError::Scheduler { .. } => Failure::Failed(error.to_string()),
        error => Failure::Usage(error.to_string()),
    }
}

/// What this machine lacks, what was asked for in a wrong way, and what failed.
#[cfg(all(feature = "live", target_os = "linux"))]
pub fn machine_failure(error: hoistway_machine::MachineError) -> Failure {
    use hoistway_machine::MachineError;
    match error {
        MachineError::Lack(_) | MachineError::Os { .. } => Failure::Environment(error.to_string()),
        MachineError::Refused(_) => Failure::Usage(error.to_string()),
        _ => Failure::Failed(error.to_string()),
    }
}

/// What a world refuses to begin.
pub fn refused(error: WorldError) -> Failure {
    match error {
        WorldError::Usage(what) => Failure::Usage(what),
        WorldError::Environment(what) => Failure::Environment(what),
    }
}
