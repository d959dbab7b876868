//! What git does to a drive (specs/experiments.md 7.3): checking out and merging, which replace thousands of small
//! files, and grep, which reads all of them.

mod grep;
mod replace;

pub(super) use grep::GREP;
pub(super) use replace::{CHECKOUT, MERGE};
