//! Front-ends: how clients outside this process reach a device.

mod export;
#[cfg(feature = "fuse")]
pub mod fuse;
pub mod nbd;
#[cfg(feature = "ublk")]
pub mod ublk;

pub use export::Export;
use export::View;

#[cfg(any(feature = "fuse", feature = "ublk"))]
use crate::error::LiveError;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::sync::atomic::{AtomicU64, Ordering};
#[cfg(any(feature = "fuse", feature = "ublk"))]
use std::{fmt, path::PathBuf};

/// A front-end that exists: one line in [`FRONTS`] per module.
#[derive(Debug)]
pub struct Front {
    /// Its name.
    pub name: &'static str,
    /// What it shows exports as.
    pub summary: &'static str,
    /// The option of `hoistway serve` that asks for it.
    pub option: &'static str,
    /// What this machine lacks for it, with the remedy.
    pub missing: fn() -> Option<String>,
}

/// The front-ends this program was built with.
pub static FRONTS: &[&Front] = &[
    &nbd::FRONT,
    #[cfg(feature = "fuse")]
    &fuse::FRONT,
    #[cfg(feature = "ublk")]
    &ublk::FRONT,
];

/// A front-end that shows exports at a place of the file system, where somebody may use them when the
/// server wants to end.
#[cfg(any(feature = "fuse", feature = "ublk"))]
pub trait Attachment: fmt::Debug {
    /// The folder or device.
    fn place(&self) -> PathBuf;

    /// Takes it away if nobody uses it; then all its requests are answered. False if somebody does.
    ///
    /// # Errors
    ///
    /// What the system says other than that it is busy.
    fn detach(&self) -> Result<bool, LiveError>;

    /// Who keeps it from being taken away, as phrases, as far as we can see.
    fn users(&self) -> Vec<String>;

    /// Takes it away from whoever uses it, after what was asked for is done: who still does gets errors
    /// from then on. Nothing happens if it is gone already.
    ///
    /// # Errors
    ///
    /// When the system refuses, or not all that was written could be made durable.
    fn sever(&self) -> Result<(), LiveError>;
}

/// Number of a client, unique in the process.
fn connection_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Lets this process have as many descriptors, thus connections, as its hard limit allows.
///
/// # Errors
///
/// The system's, when it refuses.
pub fn raise_descriptor_limit() -> std::io::Result<()> {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit })?;
    Ok(())
}
