//! Front-ends: how clients outside this process reach a device.

mod export;
#[cfg(feature = "fuse")]
pub mod fuse;
pub mod nbd;
#[cfg(feature = "ublk")]
pub mod ublk;

pub use export::Export;
use export::View;

use crate::error::ServeError;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A front-end in the registry: one line in [`FRONTS`] per module.
#[derive(Debug)]
pub struct Front {
    /// Its name.
    pub name: &'static str,
    /// What it shows exports as.
    pub summary: &'static str,
    /// How `hoistway serve` is asked for it.
    pub usage: &'static str,
    /// What this machine lacks for it, with the remedy.
    pub missing: fn() -> Option<String>,
    /// Its options of `hoistway serve`, flags and keys of the configuration file; the first one asks for it.
    pub options: &'static [FrontOption],
    /// Shows exports; none: clients come by sockets, which the server opens itself.
    pub attach: Option<AttachFn>,
}

/// How a front-end shows exports.
pub type AttachFn = fn(AttachRequest<'_>) -> Result<Vec<Attached>, ServeError>;

/// An option of a front-end.
#[derive(Debug)]
pub struct FrontOption {
    /// Its name, without dashes before it.
    pub name: &'static str,
    /// What its value is; empty: it is a switch.
    pub value: &'static str,
    /// What it does.
    pub help: &'static str,
}

/// What a front-end is to show.
pub struct AttachRequest<'a> {
    /// The exports.
    pub exports: &'a [Export],
    /// Its options that were given; the value of a switch is empty.
    pub options: &'a BTreeMap<String, String>,
    /// Called when a place was taken away by somebody else.
    pub ended: Arc<dyn Fn(&Path) + Send + Sync>,
}

impl fmt::Debug for AttachRequest<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AttachRequest").field("options", self.options).finish_non_exhaustive()
    }
}

/// Exports that are shown at a place.
#[derive(Debug)]
pub struct Attached {
    /// To take it away.
    pub attachment: Box<dyn Attachment>,
    /// Where each export is.
    pub places: Vec<(String, PathBuf)>,
    /// What a user should know.
    pub notes: Vec<String>,
    /// A variable for commands that use it.
    pub variable: Option<&'static str>,
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
pub trait Attachment: fmt::Debug {
    /// The folder or device.
    fn place(&self) -> PathBuf;

    /// Takes it away if nobody uses it; then all its requests are answered. False if somebody does.
    ///
    /// # Errors
    ///
    /// What the system says other than that it is busy.
    fn detach(&self) -> Result<bool, ServeError>;

    /// Who keeps it from being taken away, as phrases, as far as we can see.
    fn users(&self) -> Vec<String>;

    /// Takes it away from whoever uses it, after what was asked for is done: who still does gets errors
    /// from then on. Nothing happens if it is gone already.
    ///
    /// # Errors
    ///
    /// When the system refuses, or not all that was written could be made durable.
    fn sever(&self) -> Result<(), ServeError>;
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
