//! Conformance scenarios of specs/cfq.md 13 and what the algorithm promises, with a look inside.

mod fairness;
mod idling;
mod random;
mod rig;
mod slices;
mod versions;
