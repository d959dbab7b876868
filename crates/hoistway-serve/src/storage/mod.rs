//! What a stack's requests are carried out on: memory, nothing, a file or block device, or an
//! emulated drive.
//!
//! A backend belongs to the owner thread of its device. It takes commands (`issue`), starts
//! them in one batch per turn (`kick`) and reports them done (`poll`); it never
//! blocks for longer than a copy of the data, the sparse file of an emulated drive excepted.

mod api;
mod cow;
mod emulate;
mod file;
mod holes;
mod image;
mod memory;
mod null;
mod open;
mod ram;
mod threads;
mod uring;

pub(crate) use api::SizeProbe;
pub use api::{Backend, Command, DeferredLookup, Done, Extent, ExtentsAnswer, Facts, Opened};
pub use cow::OverlayError;
#[cfg(feature = "fuse")]
pub use emulate::single_command;
pub use emulate::{Emulation, EmulationFigures, check_speed, open_checked as open_emulated};
pub use file::{FileOptions, Way, open as open_file, rotational};
pub(crate) use holes::push_extent;
#[cfg(feature = "fuse")]
pub use image::open as open_image;
#[cfg(feature = "fuse")]
pub use memory::Memory;
#[allow(unused_imports, reason = "the way in for backends without a variant of their own")]
pub(crate) use open::OpenTarget;
pub use open::{OtherTarget, Target, TargetError, TargetKey, TargetKind, TargetText};
#[cfg(feature = "fuse")]
pub use threads::without_data;

/// The kinds of targets, in the order of listing.
#[rustfmt::skip]
pub static TARGETS: &[&TargetKind] = &[
    &ram::TARGET,
    &null::TARGET,
    &file::TARGET,
    &emulate::TARGET,
];
