//! Lists on the command line: names with commas between, in one option or in several.

use crate::failure::Failure;
use hoistway_lab::grid;

/// `given`, or the default; each thing once.
pub fn chosen(given: &[String], default: &[String], what: &str) -> Result<Vec<String>, Failure> {
    grid::chosen(given, default, what).map_err(|e| Failure::Usage(e.to_string()))
}
