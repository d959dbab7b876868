//! One run of a kernel: boots it, serves its drive, waits for its end.

use super::Kernel;
use crate::LiveError;
use hoistway::Nanos;
use hoistway_sim::drive::DriveFile;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// What is booted, and with what.
#[derive(Clone, Debug)]
pub struct Boot<'a> {
    /// The kernel.
    pub kernel: &'a Kernel,
    /// The drive behind the disk `/dev/hw0`.
    pub drive: &'a DriveFile,
    /// Of the drive's model, and of the kernel's own random numbers.
    pub seed: u64,
    /// Memory of the guest.
    pub memory_mib: u32,
    /// A folder of the host that the guest may write to: `mount -t hostfs -o FOLDER none /somewhere` in the guest.
    /// Everything else of the host is there to be read, as the guest's root.
    pub folder: &'a Path,
    /// Program and arguments of the guest's process 1, by their paths on the host.
    pub init: Vec<OsString>,
    /// Where the calls into the scheduler are recorded.
    pub record: Option<PathBuf>,
}

/// How a run ended.
#[derive(Clone, Debug)]
pub struct Ended {
    /// What the guest has printed.
    pub console: String,
    /// The guest's clock at the end.
    pub virtual_time: Nanos,
    /// What the drive was given.
    pub requests: Requests,
    /// Digest of all that went to and came from the drive, with its instants: equal digests are equal runs.
    pub digest: u64,
}

/// Commands that came to the drive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Requests {
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Flushes.
    pub flushes: u64,
    /// Discards.
    pub discards: u64,
    /// Bytes read and written.
    pub bytes: u64,
}

impl Boot<'_> {
    /// Boots it and waits until it powers off. `watch` is asked now and then; `false`: the guest is killed, and that
    /// is an error.
    ///
    /// # Errors
    ///
    /// The kernel does not start, panics or hangs; `watch` said so.
    pub fn run(self, _watch: &mut dyn FnMut() -> bool) -> Result<Ended, LiveError> {
        Err(LiveError::Refused("no kernel is built; `hoistway linux build` builds one".into()))
    }
}
