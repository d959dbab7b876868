//! The stack of hoistway on real storage, for real clients (Linux).
//!
//! [`Device`] is a scheduler, controllers and a backend in a thread of their own; [`Client`]s submit to
//! it. This is the only crate with threads, a clock and `unsafe`.
#![cfg(target_os = "linux")]
#![warn(missing_docs)]

pub mod backend;
mod bell;
mod buffer;
mod clock;
pub mod engine;
mod error;
pub mod front;
pub mod lab;
mod slots;

pub use backend::{Facts, Target};
pub use buffer::Buffer;
pub use clock::Clock;
pub use engine::{Client, Device, DeviceOptions, Group, GroupSpec, Pending};
pub use error::LiveError;
