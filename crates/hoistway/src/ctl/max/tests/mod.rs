//! Tests of `io.max` on its own; those with the stack are in `tests/io_max.rs`.

mod bounds;
mod low;
mod rig;
mod scenarios;
