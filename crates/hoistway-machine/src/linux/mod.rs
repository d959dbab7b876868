//! Linux itself in virtual time: the kernel's own block layer, schedulers and controllers as a process of this machine.
//!
//! User-mode Linux has a clock that moves only while everybody sleeps (`time-travel=inf-cpu`). [`build`] makes such a
//! kernel of any source tree, with a block driver of ours in it; [`kernels`] knows those that are built; [`Boot`] runs
//! one: the driver hands every request to a drive model of `hoistway-sim` outside ([`drive`]) and completes it at the
//! instant that the model names. Same kernel, same job, same seed: the same bytes.
//!
//! [`record`] has every call into its scheduler noted, while [`actor`] carries scenarios out in it.
//!
//! [`Linux`] is the world that experiments run in: it gives each job a kernel of its own, in which [`guest()`] carries it
//! out with the code of the world `kernel`.

pub mod actor;
pub mod boot;
pub mod build;
pub mod drive;
mod format;
mod group;
mod guest;
pub mod kernels;
mod processor;
pub mod record;
mod survey;
mod world;

pub use boot::{Boot, Ended, twice};
pub use format::Format;
pub use guest::guest;
pub use kernels::{Kernel, find, list};
pub use world::{Linux, Totals};
