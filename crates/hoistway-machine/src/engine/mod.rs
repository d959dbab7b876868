//! Experiments on real storage: the simulator's host and loads, our stack, and a backend.
//!
//! What is modelled: where files lie, the page cache with read-ahead and write-back, the journal. What
//! is real: the storage and its time, the data (every sector that is read is checked against what was
//! written to it), the processes (threads of their own, which read the clock themselves), the time that
//! the processors take.

pub(crate) mod device;
mod disk;
mod ledger;
pub(crate) mod machine;
mod memory;
mod pages;
mod pattern;
mod platform;
mod process;
pub(crate) mod ranges;
mod storage;
mod turn;
pub(crate) mod users;

pub(crate) use disk::{allowed, drive_of};
pub use machine::Processors;
pub use storage::{Storage, StorageTarget};
