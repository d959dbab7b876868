//! Kernels that are built, in the cache directory.

use crate::LiveError;
use std::path::PathBuf;

/// A kernel that is built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// What it is called: `6.1`, or what `--name` said.
    pub name: String,
    /// Its release, such as `6.1.170`.
    pub release: String,
    /// The program.
    pub image: PathBuf,
    /// Its configuration.
    pub config: PathBuf,
    /// Of its source, patches, our files and configuration.
    pub digest: String,
}

/// The kernels that are built, the newest release last.
///
/// # Errors
///
/// The cache directory cannot be read.
pub fn list() -> Result<Vec<Kernel>, LiveError> {
    Ok(Vec::new())
}

/// The kernel of that name; `None`: the newest release.
///
/// # Errors
///
/// It is not built.
pub fn find(_name: Option<&str>) -> Result<Kernel, LiveError> {
    Err(LiveError::Refused("no kernel is built; `hoistway linux build` builds one".into()))
}
