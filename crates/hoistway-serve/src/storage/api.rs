//! What a backend is: the trait, its commands and what is known about an opened one.

use super::EmulationFigures;
use crate::system::Part;
use hoistway::{Device, Instant};
pub use hoistway_sim::drive::Command;
use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;
use std::fmt;
use std::fs::File;
use std::os::fd::BorrowedFd;

/// A backend and what must be known about it.
#[derive(Debug)]
pub struct Opened {
    /// What carries commands out.
    pub backend: Box<dyn Backend>,
    /// The device as a stack sees it.
    pub device: Device,
    /// What users of it want to know.
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

/// A command is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// The command's.
    pub tag: u64,
    /// How it ended.
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

/// What a backend says of its extents.
#[derive(Debug)]
pub enum ExtentsAnswer {
    /// They are known.
    Now(Result<Vec<Extent>, Errno>),
    /// They have to be asked for, and that may wait for the storage.
    Later(DeferredLookup),
}

/// A question about extents for a thread that may wait.
pub struct DeferredLookup(Box<dyn FnOnce() -> Result<Vec<Extent>, Errno> + Send>);

impl DeferredLookup {
    /// The thread calls it.
    pub fn new(
        ask: impl FnOnce() -> Result<Vec<Extent>, Errno> + Send + 'static,
    ) -> DeferredLookup {
        DeferredLookup(Box::new(ask))
    }

    /// Asks, and waits for the answer.
    pub fn ask(self) -> Result<Vec<Extent>, Errno> {
        self.0()
    }
}

impl fmt::Debug for DeferredLookup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DeferredLookup")
    }
}

impl ExtentsAnswer {
    /// Waits for the answer if it must.
    pub fn wait(self) -> Result<Vec<Extent>, Errno> {
        match self {
            ExtentsAnswer::Now(result) => result,
            ExtentsAnswer::Later(lookup) => lookup.ask(),
        }
    }
}

/// What carries out the commands of one device.
pub trait Backend: fmt::Debug + Send {
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
    fn extents(&self, start: u64, len: u64, most: usize) -> ExtentsAnswer;

    /// The file whose size may change while it is served.
    fn resizable_file(&self) -> Option<File> {
        None
    }

    /// Modelled and achieved service times, of an emulated drive.
    fn emulation(&self) -> Option<EmulationFigures> {
        None
    }
}

/// Looks at the size of a file or block device, from any thread.
#[derive(Debug)]
pub struct SizeProbe {
    file: File,
    block: u32,
}

impl SizeProbe {
    /// Of a backend; `None`: its size never changes.
    pub fn of(backend: &dyn Backend, facts: &Facts) -> Option<SizeProbe> {
        Some(SizeProbe { file: backend.resizable_file()?, block: facts.block })
    }

    /// Bytes that can be served, in whole blocks.
    pub fn size(&self) -> Result<u64, Errno> {
        let bytes = seek(&self.file, SeekFrom::End(0))?;
        Ok(bytes / u64::from(self.block) * u64::from(self.block))
    }
}
