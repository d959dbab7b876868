//! Drive models: commands in, completions out, told the time (specs/drives.md).

mod file;
pub use file::{DriveFile, DriveFileError, HostSide, Identity, IoCost};

use hoistway::{Instant, Nanos, Op};

/// One command as the host adapter passes it on.
#[derive(Clone, Copy, Debug)]
pub struct Command {
    /// The caller's tag, handed back on completion.
    pub tag: u64,
    /// Read, write, discard or flush.
    pub op: Op,
    /// First byte; a multiple of the sector size.
    pub start: u64,
    /// Length in bytes; 0 for a flush.
    pub len: u64,
    /// Forced unit access.
    pub fua: bool,
}

/// A finished command and where its time went.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Completion {
    /// The command's tag.
    pub tag: u64,
    /// When it was done.
    pub at: Instant,
    /// Waiting in the drive's queue.
    pub waiting: Nanos,
    /// Positioning or media time.
    pub media: Nanos,
    /// Transfer.
    pub transfer: Nanos,
}

/// What a drive says when asked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Said {
    /// A command is done (its `at` is not later than the time of asking).
    Done(Completion),
    /// Nothing more until then; `None`: until the next command.
    WaitUntil(Option<Instant>),
}

/// A drive. `now` never goes back. A drive never refuses a command: the adapter enforces the depth.
pub trait Drive: std::fmt::Debug + Send {
    /// Takes a command.
    fn handle(&mut self, now: Instant, command: Command);

    /// Works off everything due until `now`; ask until `WaitUntil`.
    fn poll(&mut self, now: Instant) -> Said;
}
