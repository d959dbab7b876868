//! One file or folder for each verb: its options, and what it does.

pub mod bench;
pub mod calibrate;
pub mod compare;
pub mod describe;
pub mod diff;
pub mod list;
pub mod merge;
pub mod oracle;
pub mod population;
pub mod recommend;
pub mod repeat;
pub mod replay;
pub mod replay_decisions;
pub mod report;
pub mod reproduce;
pub mod run;
pub mod show;
pub mod what_if;

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
