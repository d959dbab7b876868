//! The C interface of hoistway: a stack of I/O scheduler and controllers for a program that does its own
//! I/O, in C or in any language that calls C.
//!
//! `include/hoistway.h` is made from this crate; `docs/guide/c.md` is the guide. In short: I/Os go in with
//! their time ([`hw_submit`], or many inputs at once with [`hw_step`]), events come out ([`hw_poll`]), the
//! caller hands what is issued to its device and says when it is done ([`hw_done`]).
//!
//! # What a caller promises
//!
//! Pointers are valid for what the function does with them, a stack is one that [`hw_stack_new`] made and
//! [`hw_stack_free`] has not freed, texts end with a zero byte. No function can find out whether this
//! holds, and each `unsafe` block of this crate rests on it alone.
//!
//! # What the crate promises
//!
//! Everything else is checked, and answered by a code. The core asserts rules of its callers (drain, time
//! never goes back); here they are looked at before the core is called. Should the core panic all the same,
//! the panic ends at this border, and the stack is *poisoned*: each later call says so
//! ([`hw_code::HW_E_PANIC`]). Sizes that a caller chooses are bounded, so that no number given by mistake
//! takes the machine's memory; memory that runs out in spite of that ends the process, as in any Rust program.

#![warn(missing_docs, clippy::undocumented_unsafe_blocks)]
// The names are those that a C program writes.
#![allow(non_camel_case_types)]
// What callers promise is the same for all functions and stands above once.
#![allow(clippy::missing_safety_doc)]

// In the order that the header is to have.

mod types;

mod create;

mod guard;

mod flow;

mod group;

mod control;

mod list;

mod memory;
mod texts;

pub use control::*;
pub use create::*;
pub use flow::*;
pub use group::*;
pub use guard::{hw_error, hw_stack, hw_stack_free};
pub use list::*;
pub use types::*;
