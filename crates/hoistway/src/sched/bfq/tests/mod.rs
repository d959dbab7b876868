//! Conformance scenarios C1 to C32 (specs/bfq.md section 14), bounds (13), and random runs.

mod bounds;
mod budgets;
mod fair_queue;
mod idling;
mod random;
mod rig;
