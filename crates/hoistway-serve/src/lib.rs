//! The stack of hoistway on real storage, for real clients (Linux).
//!
//! [`Device`] is a scheduler, controllers and a backend in a thread of their own; [`Client`]s submit to
//! it. This is the only crate with threads, a clock and `unsafe`.
//!
//! [`storage`]: what requests are carried out on. [`device`]: the stack, its owner thread and the
//! way in for threads of this program. [`front`]: the ways in for clients outside it. [`net`]: the
//! listeners of the operator's side (metrics, control). [`lab`]: experiments on real storage. [`kernel`]:
//! the machine's own schedulers and controllers. [`linux`]: Linux in virtual time, with those of any kernel.
#![cfg(target_os = "linux")]
#![warn(missing_docs)]

mod buffer;
pub mod calibrate;
mod clock;
pub mod device;
#[cfg(feature = "fuse")]
pub mod emulator;
mod error;
mod eventfd;
pub mod front;
pub mod kernel;
pub mod lab;
pub mod linux;
pub mod net;
mod slab;
pub mod storage;
mod thread;
mod words;

pub use buffer::Buffer;
pub use clock::Clock;
pub use device::{Client, Device, DeviceOptions, Group, GroupSpec, Pending};
pub use error::LiveError;
pub use storage::{Facts, Target};
