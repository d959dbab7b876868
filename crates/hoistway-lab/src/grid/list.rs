//! Lists of names: with commas between, in one text or in several.

use crate::config::split_list;
use crate::experiment::Experiment;
use std::fmt;

/// Most names of a list.
const NAMES_MAX: usize = 1000;

/// What is wrong with a list; `what`: what its names are of.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ListError {
    /// More names than anybody means.
    TooLong {
        /// Such as `drive`.
        what: String,
        /// How many.
        names: usize,
    },
    /// A comma too many.
    Empty {
        /// Such as `drive`.
        what: String,
    },
    /// A name stands in it twice.
    Twice {
        /// Such as `drive`.
        what: String,
        /// The name.
        name: String,
    },
    /// Several configurations where one runs.
    Several {
        /// As given.
        text: String,
    },
}

impl fmt::Display for ListError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ListError::TooLong { what, names } => {
                write!(f, "{names} {what} names in the list, at most {NAMES_MAX}")
            }
            ListError::Empty { what } => {
                write!(f, "an empty {what} name in the list; remove the extra comma")
            }
            ListError::Twice { what, name } => write!(f, "{what} '{name}' is given twice"),
            ListError::Several { text } => write!(
                f,
                "run takes one configuration, not '{text}'; `hoistway compare` takes several"
            ),
        }
    }
}

impl std::error::Error for ListError {}

/// Everything given, split at commas.
pub fn parts(given: &[String]) -> Vec<String> {
    given.iter().flat_map(|g| split_list(g)).collect()
}

/// `given`, or `default` where nothing is; each thing once.
///
/// # Errors
///
/// A list that is too long, or has an empty name or one twice.
pub fn chosen(given: &[String], default: &[String], what: &str) -> Result<Vec<String>, ListError> {
    let list = match parts(given) {
        list if list.is_empty() => default.to_vec(),
        list => list,
    };
    let what = what.to_string();
    if list.len() > NAMES_MAX {
        return Err(ListError::TooLong { what, names: list.len() });
    }
    if list.iter().any(String::is_empty) {
        return Err(ListError::Empty { what });
    }
    match list.iter().enumerate().find(|(i, x)| list[..*i].contains(x)) {
        Some((_, twice)) => Err(ListError::Twice { what, name: twice.clone() }),
        None => Ok(list),
    }
}

/// The only configuration: `given`, or the first of the experiment's.
///
/// # Errors
///
/// Several.
pub fn only(given: Option<&str>, experiment: &Experiment) -> Result<String, ListError> {
    let text = given.unwrap_or(&experiment.configs[0]).to_string();
    match split_list(&text).len() {
        0 | 1 => Ok(text),
        _ => Err(ListError::Several { text }),
    }
}
