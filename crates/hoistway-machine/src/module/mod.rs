//! The schedulers as a module of a stock kernel: built, put in place, taken away.
//!
//! ```text
//!   crates/hoistway-kernel   cargo rustc, bare metal, fat LTO     -> core.s
//!   core.s                   assembly::rewrite                    -> core.s for a kernel; frames and registers checked
//!   core.s                   as, ld -r, objcopy, nm               -> core.o: nothing global but hw_core_*
//!   core.o                   the kernel's objtool                 -> tables for unwinding and for patching
//!   linux/module, core.o, block/*.h of the kernel's source        -> make -C HEADERS modules -> hoistway.ko
//! ```
//!
//! Up to `core.o` nothing depends on the kernel: a package can carry that file, and a machine needs no Rust then.

mod assembly;
mod build;
mod choice;
mod dkms;
mod headers;
mod install;
mod object;
mod tools;

pub use assembly::FRAME_LIMIT;
pub(crate) use build::built_in;
pub use build::{BuiltModule, ModuleOptions, build};
pub use choice::Choice;
pub use dkms::write_dkms;
pub use install::{Installed, Module, install, list, remove};
pub use object::{CoreFacts, write_core};
pub use tools::running_release;
