//! Everything of a run as a text: JSON, exact. What is read back is what was written, numbers of 64 and sums of 128 bits
//! and floating-point numbers included; equal things are equal texts.

use crate::{Interval, Outcome, put_series, series};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt;

/// Why a text is not what it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecodeError(pub(crate) String);

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for DecodeError {}

/// As a text.
pub fn encode(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("keys are texts, and nothing refuses to be written")
}

/// What was encoded.
///
/// # Errors
///
/// What is wrong with the text, and where.
pub fn decode<T: DeserializeOwned>(text: &str) -> Result<T, DecodeError> {
    serde_json::from_str(text).map_err(|error| DecodeError(error.to_string()))
}

impl Outcome {
    /// As a text, but for its trace.
    pub fn encode(&self) -> String {
        encode(&(self, series(&self.device, &self.procs)))
    }

    /// What was encoded.
    ///
    /// # Errors
    ///
    /// What is wrong with the text, and where.
    pub fn decode(text: &str) -> Result<Outcome, DecodeError> {
        let (mut outcome, series): (Outcome, Vec<Vec<Interval>>) = decode(text)?;
        put_series(series, &mut outcome.device, &mut outcome.procs)?;
        Ok(outcome)
    }
}
