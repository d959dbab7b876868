//! Charts, one file per kind.

mod bars;
mod lines;

pub(super) use bars::{Bar, Spots, Stack, bars, spots, stacks};
pub(super) use lines::{Line, Panel, ecdf, panels};
