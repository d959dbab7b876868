//! Linux's I/O schedulers and I/O controllers as sans-I/O state machines.
//!
//! Everything that decides is a state machine that is told the time; everything that waits is a small
//! loop around it. This crate holds the first kind only: no clock, no thread, no file, no randomness.
//! It is `no_std` plus `alloc`, so the compiler keeps that promise.
//!
//! [`stack::Stack`] is the block layer in small and the only thing most callers talk to: I/Os go in as
//! [`stack::Input`], commands for the device come out as [`stack::Output`]. The schedulers in [`sched`]
//! and the controllers in [`ctl`] can also be driven directly through their traits.
#![no_std]
#![forbid(unsafe_code)]
#![warn(missing_docs)]

extern crate alloc;

pub mod ctl;
pub mod device;
pub mod env;
pub mod group;
pub mod knob;
pub mod list;
pub mod merge;
pub mod quantity;
pub mod request;
mod rows;
pub mod sched;
pub mod setting;
pub mod stack;
pub mod stage;
pub mod table;
pub mod target;
#[cfg(any(test, feature = "testkit"))]
#[doc(hidden)]
pub mod testkit;
pub mod trace;
pub mod tree;
pub mod unit;

pub use device::{Device, Profile};
pub use env::{Cx, Env};
pub use group::{GroupId, Groups, ProcId, Procs};
pub use request::{BioId, Flags, Io, IoId, Op, ReqId, Request, Requests};
pub use stack::{Input, Output, Stack};
pub use unit::{Bytes, Class, Instant, IoPrio, Nanos, QueueId, Sectors, Weight};

/// The README's example is compiled and run with the tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
