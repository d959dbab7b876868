//! Conformance scenarios C1 to C45 (specs/bfq.md section 14), bounds (13), and random runs.

mod bounds;
mod budgets;
mod cooperation;
mod fair_queue;
mod groups;
mod idling;
mod injection;
mod latency;
mod modes;
mod random;
mod release;
mod rig;
mod statistics;
mod weights;
