//! The stack of hoistway on real storage, for real clients (Linux).
//!
//! [`Device`] is a scheduler, controllers and a backend in a thread of their own; [`Client`]s submit to
//! it.
//!
//! [`storage`]: what requests are carried out on. [`device`]: the stack, its owner thread and the
//! way in for threads of this program. [`front`]: the ways in for clients outside it. [`net`]: the
//! listeners of the operator's side (metrics, control). [`system`]: clocks, threads and memory, for this
//! crate and for `hoistway-machine`.
#![cfg(target_os = "linux")]
#![warn(missing_docs)]

pub mod device;
mod error;
pub mod front;
pub mod net;
pub mod storage;
pub mod system;

pub use device::{Client, Device, DeviceOptions, Group, GroupSpec, Pending};
pub use error::ServeError;
pub use storage::{Facts, Target};
pub use system::{Buffer, Clock};
