//! Why there is no grid.

use super::list::ListError;
use crate::config::ConfigError;
use crate::experiment::ExperimentError;
use hoistway::setting::nearest;
use hoistway_sim::drive::DriveFileError;
use std::fmt;

/// What is wrong with a plan. All of it is wrong usage: nothing has run.
#[derive(Debug)]
#[non_exhaustive]
pub enum PlanError {
    /// A list of names.
    List(ListError),
    /// The experiment, its groups or its faults.
    Experiment(ExperimentError),
    /// A drive.
    Drive(DriveFileError),
    /// A configuration.
    Config(ConfigError),
    /// What one option says.
    Value {
        /// As on the command line, without its dashes.
        option: &'static str,
        /// What is wrong, with the value.
        what: String,
    },
    /// Two files of drives that could not be told apart.
    SameDrive {
        /// Their name.
        id: String,
    },
    /// One configuration in two spellings.
    SameConfig {
        /// Its name.
        id: String,
    },
    /// The experiment has no such workload.
    NoWorkload {
        /// The experiment.
        experiment: String,
        /// What was asked for.
        name: String,
        /// Those that it has.
        known: Vec<String>,
    },
    /// Real storage has the faults that it has.
    RealFaults,
    /// More than can be run and read again.
    TooLarge {
        /// The numbers that make it so.
        what: String,
    },
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PlanError::List(error) => error.fmt(f),
            PlanError::Experiment(error) => error.fmt(f),
            PlanError::Drive(error) => error.fmt(f),
            PlanError::Config(error) => error.fmt(f),
            PlanError::Value { option, what } => write!(f, "--{option}: {what}"),
            PlanError::SameDrive { id } => {
                write!(f, "two drive files have the name '{id}'; rename one")
            }
            PlanError::SameConfig { id } => write!(f, "configuration '{id}' is given twice"),
            PlanError::NoWorkload { experiment, name, known } => {
                write!(f, "{experiment} has no workload '{name}'; ")?;
                match nearest(name, known.iter().map(String::as_str)) {
                    Some(n) => write!(f, "did you mean '{n}'?"),
                    None => write!(f, "there are: {}", known.join(", ")),
                }
            }
            PlanError::RealFaults => f.write_str(
                "faults are of simulated drives, and this run uses real storage; name a drive with --drive",
            ),
            PlanError::TooLarge { what } => f.write_str(what),
        }
    }
}

impl std::error::Error for PlanError {}

impl From<ListError> for PlanError {
    fn from(error: ListError) -> PlanError {
        PlanError::List(error)
    }
}

impl From<ExperimentError> for PlanError {
    fn from(error: ExperimentError) -> PlanError {
        PlanError::Experiment(error)
    }
}

impl From<DriveFileError> for PlanError {
    fn from(error: DriveFileError) -> PlanError {
        PlanError::Drive(error)
    }
}

impl From<ConfigError> for PlanError {
    fn from(error: ConfigError) -> PlanError {
        PlanError::Config(error)
    }
}
