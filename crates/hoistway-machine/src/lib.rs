//! Worlds outside the simulator: experiments on real machines and real kernels (Linux).
//!
//! [`engine`]: hoistway's schedulers on real storage. [`kernel`]: the machine's own schedulers and
//! controllers. [`linux`]: Linux in virtual time, with those of any kernel. [`emulator`]: a drive model as a
//! block device. [`module`]: the schedulers as a module of a stock kernel. [`calibrate`]: the probes by which a drive model is made from a drive.
#![cfg(target_os = "linux")]
#![warn(missing_docs)]

pub mod calibrate;
#[cfg(feature = "fuse")]
pub mod emulator;
pub mod engine;
mod error;
pub mod kernel;
pub mod linux;
pub mod module;
mod programs;

pub use error::MachineError;
use error::os;
