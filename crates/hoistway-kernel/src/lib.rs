//! The schedulers of hoistway inside a Linux kernel: the seam between the operations of an elevator and
//! [`hoistway::sched::Scheduler`].
//!
//! blk-mq is the stack here. The shim in C (`linux/module`) is an elevator of the kernel; each of its operations comes down to
//! one call of this crate about one [`queue::Queue`], the core of a request queue:
//!
//! ```text
//!   the kernel's elevator operation     border (extern "C")        Queue                    Scheduler
//!   insert_requests               ->    hw_arrive, hw_insert  ->   arrive, insert      ->   prepare, open, insert
//!   dispatch_request              ->    hw_dispatch           ->   dispatch            ->   dispatch, reinsert
//!   completed_request             ->    hw_complete           ->   complete            ->   complete
//!   a requeue that comes back     ->    hw_requeue            ->   requeue             ->   requeue, prepare, insert(Head)
//! ```
//!
//! # What the shim promises
//!
//! It holds one spin lock with interrupts off around each call about a queue, but for its beginning and its end, which may
//! sleep and which nothing else happens beside. So a call has the queue to itself. What the shim reads without the lock
//! is [`view::View`], which is the shim's memory and all atomics.
//!
//! # What the crate promises
//!
//! It never unwinds and touches nothing of the kernel. A panic, or memory that has run out, ends in `hw_panic`, which does not
//! return here: the shim takes the stack back to where it entered and never enters this queue again. Everything that was
//! allocated for a queue is on a list of the shim, which frees it without this crate.
//!
//! `unsafe` stands in [`border`] and `memory` only, each block with its reason.
#![no_std]
#![warn(missing_docs, clippy::undocumented_unsafe_blocks)]

extern crate alloc;

pub mod border;
pub mod choice;
#[cfg(target_os = "none")]
mod memory;
pub mod queue;
pub mod view;
