//! One file or folder for each verb: its options, and what it does.

pub mod compare;
pub mod diff;
pub mod list;
pub mod repeat;
pub mod report;
pub mod show;
#[cfg(feature = "studies")]
pub mod studies;

// What needs a real machine.
#[cfg(all(feature = "live", target_os = "linux"))]
pub mod ctl;
#[cfg(all(feature = "live", target_os = "linux"))]
pub mod differ;
#[cfg(all(feature = "fuse", target_os = "linux"))]
pub mod emulate;
#[cfg(all(feature = "live", target_os = "linux"))]
pub mod linux;
#[cfg(all(feature = "live", target_os = "linux"))]
pub mod live;
#[cfg(all(feature = "live", target_os = "linux"))]
pub mod module;
#[cfg(all(feature = "live", target_os = "linux"))]
pub mod record;
#[cfg(all(feature = "live", target_os = "linux"))]
pub mod restore;
#[cfg(all(feature = "live", target_os = "linux"))]
pub mod serve;
#[cfg(all(feature = "live", target_os = "linux"))]
pub mod top;
#[cfg(all(feature = "fuse", target_os = "linux"))]
pub mod validate;
