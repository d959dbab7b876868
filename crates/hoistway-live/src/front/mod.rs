//! Front-ends: how clients outside this process reach a device.

#[cfg(feature = "fuse")]
pub mod fuse;
pub mod line;
pub mod nbd;
mod passed;

pub use passed::{Passed, passed};

use crate::error::{LiveError, os};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

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

/// Removes a socket file whose server is gone. Everything else is left alone, and binding fails.
fn replace_stale(path: &Path) -> Result<(), LiveError> {
    let socket = std::fs::symlink_metadata(path).is_ok_and(|m| m.file_type().is_socket());
    let refused = std::io::ErrorKind::ConnectionRefused;
    if socket && UnixStream::connect(path).is_err_and(|e| e.kind() == refused) {
        std::fs::remove_file(path).map_err(os(format!("remove {}", path.display())))?;
    }
    Ok(())
}
