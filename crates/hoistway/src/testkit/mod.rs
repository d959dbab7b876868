//! What tests of schedulers, controllers and the stack share: one rig for each level, one generator of
//! random numbers, one scenario language. Only in tests, and for crates that enable the feature `testkit`.
//!
//! | level | rig | the device |
//! |---|---|---|
//! | a scheduler alone | [`scheduler::Rig`] | the test says what is done |
//! | a controller alone | [`controller::Rig`] | the test says what is done |
//! | a stack | [`stack::Rig`] | takes commands, completes nothing by itself |
//!
//! [`contract`] holds a scheduler to what its trait promises.
//!
//! A rig holds what every test of its level needs; a test that needs more wraps it and derefs to it.

pub mod contract;
pub mod controller;
mod rng;
pub mod scenario;
pub mod scheduler;
pub mod stack;

pub use rng::Rng;
