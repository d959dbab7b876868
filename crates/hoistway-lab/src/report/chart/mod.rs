//! Charts, one file per kind.

mod bars;
mod lines;

pub(super) use bars::{Bar, Stack, bars, stacks};
pub(super) use lines::{Line, Panel, ecdf, panels};
