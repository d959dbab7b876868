//! Charts, one file per kind.

mod bars;
mod lines;
mod matrix;
mod tradeoff;

pub(super) use bars::{Bar, Parts, Spots, Stack, bars, parts, spots, stacks};
pub(super) use lines::{Line, Panel, ecdf, panels};
pub(super) use matrix::{Matrix, MatrixCell, matrix};
pub(super) use tradeoff::{Axes, TradeoffPoint, tradeoff};

/// A name cut to so many characters. What configurations of one scheduler have in common stands in front,
/// so the middle goes.
fn shorten(label: &str, most: usize) -> String {
    let count = label.chars().count();
    if count <= most {
        return label.to_string();
    }
    let head = (most - 1) / 3;
    let tail = most - 1 - head;
    label.chars().take(head).chain(['…']).chain(label.chars().skip(count - tail)).collect()
}
