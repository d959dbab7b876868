//! Targets: what a device is made of, and how it is opened.

use super::{Emulation, FileOptions, Opened, cow, emulate, file, null, ram};
use crate::error::LiveError;
use hoistway_sim::drive::DriveFile;
use std::path::PathBuf;

/// What a device is made of.
#[derive(Clone, Debug)]
pub enum Target {
    /// Memory that is given back when it is discarded; contents are lost at the end.
    Ram {
        /// Size in bytes, a multiple of 512.
        size: u64,
    },
    /// Takes writes and forgets them, reads as zeroes: for measuring everything else.
    Null {
        /// Size in bytes, a multiple of 512.
        size: u64,
    },
    /// A file or block device.
    File {
        /// Its path.
        path: PathBuf,
        /// How it is used.
        options: FileOptions,
    },
    /// A drive that behaves as its model, on the wall clock.
    Emulated(Box<Emulation>),
    /// Copy on write: a base that is only read, and an overlay for everything that is written.
    Cow {
        /// The base; a file is opened for reading only.
        base: Box<Target>,
        /// A file for what is written, made if there is none, kept, and only good with this very base;
        /// `None`: memory, and all of it is gone at the end.
        overlay: Option<PathBuf>,
    },
}

impl Target {
    /// An emulated drive whose data is in memory, of the drive's own size.
    pub fn emulated(drive: DriveFile) -> Target {
        Target::Emulated(Box::new(Emulation::new(drive)))
    }

    pub(crate) fn open(&self) -> Result<Opened, LiveError> {
        match self {
            Target::Ram { size } => ram::open(check_size(*size)?),
            Target::Null { size } => null::open(check_size(*size)?),
            Target::File { path, options } => file::open(path, options),
            Target::Emulated(emulation) => emulate::open(emulation),
            Target::Cow { base, overlay } => cow::open(base, overlay.as_deref()),
        }
    }
}

fn check_size(size: u64) -> Result<u64, LiveError> {
    if size == 0 || !size.is_multiple_of(512) || size > 1 << 62 {
        let message = format!("a size of {size} bytes: choose a multiple of 512 above 0");
        return Err(LiveError::Refused(message));
    }
    Ok(size)
}
