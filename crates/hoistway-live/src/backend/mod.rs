//! What a stack's requests are carried out on: memory, nothing, a file or block device, or an
//! emulated drive.
//!
//! A backend belongs to the owner thread of its device. It takes commands (`issue`), starts
//! them in one batch per turn (`kick`) and reports them done (`poll`); it never
//! blocks for longer than a copy of the data, the sparse file of an emulated drive excepted.

mod cow;
mod emulate;
mod file;
mod memory;
mod null;
mod ram;
mod threads;
mod uring;

pub use emulate::{Emulation, EmulationFigures};
pub(crate) use emulate::{check_speed, open_checked as open_emulated};
pub use file::{FileOptions, Way};
pub(crate) use file::{open as open_file, rotational};

use crate::buffer::Part;
use crate::error::LiveError;
use hoistway::{Device, Instant, Op};
use hoistway_sim::drive::DriveFile;
use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;
use std::fmt;
use std::fs::File;
use std::os::fd::BorrowedFd;
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

/// A backend and what must be known about it.
#[derive(Debug)]
pub(crate) struct Opened {
    pub backend: Box<dyn Backend>,
    pub device: Device,
    pub facts: Facts,
}

/// What users of a device want to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Bytes that could be read and written when it was opened; now: [`crate::Device::size`].
    pub size: u64,
    /// Offsets and lengths must be multiples of this many bytes.
    pub block: u32,
    /// Nothing may be written.
    pub read_only: bool,
    /// Discards are taken.
    pub discard: bool,
    /// What was discarded reads as zeroes.
    pub discard_zeroes: bool,
    /// Spinning disk.
    pub rotational: bool,
    /// Data comes through the kernel's page cache, where it can be brought before it is asked for.
    pub page_cache: bool,
    /// Written data survives the end of the process.
    pub persistent: bool,
    /// One line for people: what it is and how it is reached.
    pub summary: String,
    /// Something a user should know at the start, such as a slower way that had to be taken.
    pub warning: Option<String>,
}

/// One command: a request of the stack.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Command {
    /// Handed back on completion; the low 32 bits are small and unique among commands under way.
    pub tag: u64,
    pub op: Op,
    /// First byte.
    pub start: u64,
    /// Bytes; 0 for a flush.
    pub len: u64,
    pub fua: bool,
}

/// A command is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Done {
    pub tag: u64,
    pub result: Result<(), Errno>,
}

/// A range of the device that is one thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Bytes.
    pub len: u64,
    /// Nothing is stored there, and it reads as zeroes.
    pub hole: bool,
}

pub(crate) trait Backend: fmt::Debug + Send {
    /// Takes a command. `parts` is the memory of a read or write in order of the bytes, and empty
    /// otherwise; it is the backend's until the command is done.
    fn issue(&mut self, now: Instant, command: Command, parts: &[Part]);

    /// Starts what was issued since the last time.
    fn kick(&mut self) {}

    /// Adds what is done to `done`.
    fn poll(&mut self, now: Instant, done: &mut Vec<Done>);

    /// Ask again then, whatever happens.
    fn wake_at(&self) -> Option<Instant> {
        None
    }

    /// Readable when there is something to ask for.
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Commands take no time but the processor's.
    fn is_instant(&self) -> bool {
        false
    }

    /// What is stored from byte `start` on, at most `most` extents; together they are at least one
    /// byte and at most `len` bytes long.
    fn extents(&mut self, start: u64, len: u64, most: usize) -> Result<Vec<Extent>, Errno>;

    /// The file whose size may change while it is served.
    fn gauge(&self) -> Option<File> {
        None
    }

    /// Modelled and achieved service times, of an emulated drive.
    fn emulation(&self) -> Option<EmulationFigures> {
        None
    }
}

/// Looks at the size of a file or block device, from any thread.
#[derive(Debug)]
pub(crate) struct Gauge {
    file: File,
    block: u32,
}

impl Gauge {
    /// Of a backend; `None`: its size never changes.
    pub fn of(backend: &dyn Backend, facts: &Facts) -> Option<Gauge> {
        Some(Gauge { file: backend.gauge()?, block: facts.block })
    }

    /// Bytes that can be served, in whole blocks.
    pub fn size(&self) -> Result<u64, Errno> {
        let bytes = seek(&self.file, SeekFrom::End(0))?;
        Ok(bytes / u64::from(self.block) * u64::from(self.block))
    }
}

/// Adds to a list of extents, joining neighbours of one kind; false when the list is full.
pub(crate) fn push_extent(list: &mut Vec<Extent>, extent: Extent, most: usize) -> bool {
    if extent.len == 0 {
        return true;
    }
    let full = list.len() == most;
    match list.last_mut() {
        Some(last) if last.hole == extent.hole => last.len += extent.len,
        _ if full => return false,
        _ => list.push(extent),
    }
    true
}
