//! The early releases against specs/bfq.md sections 11 and 14.

mod rig;
mod v1;
mod v4;
