//! Drive models: commands in, completions out, told the time (specs/drives.md).

mod adapter;
mod bucket;
mod card;
mod embedded;
pub mod faults;
mod file;
mod flash;
mod hdd;
pub mod keys;
mod rate;

pub use adapter::Adapter;
pub use file::{DriveFile, DriveFileError, HostSide, Identity, IoCost, Link, Wrong};

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
pub enum DriveOutput {
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
    fn poll(&mut self, now: Instant) -> DriveOutput;

    /// The time for which [`Drive::poll`] would answer `WaitUntil`, without asking it: valid right behind `handle` or `poll`
    /// at the same instant, if it is later. The end of time stands for no time: no `Option` of an `Option`, for it is asked
    /// with each command. `None`: only asking tells.
    fn due(&self) -> Option<Instant> {
        None
    }
}

/// A drive model as the registry knows it.
#[derive(Clone, Copy, Debug)]
pub struct Model {
    /// The `model` of drive files, and the name of its table.
    pub name: &'static str,
    /// One line for `hoistway list`.
    pub summary: &'static str,
    /// The keys of its table.
    pub keys: &'static [keys::Key],
    /// What one key alone does not tell, such as dies being a multiple of channels.
    pub check: fn(&DriveFile) -> Result<(), Wrong>,
    /// Makes a drive; its randomness comes from the seed alone.
    pub build: fn(&DriveFile, u64) -> Box<dyn Drive>,
}

/// All models.
pub const MODELS: &[Model] = &[bucket::MODEL, card::MODEL, flash::MODEL, hdd::MODEL];

impl Model {
    /// A model by name.
    pub fn find(name: &str) -> Option<&'static Model> {
        MODELS.iter().find(|m| m.name == name)
    }
}

/// A resource is the time at which it is free. Takes it for `d` at `earliest` or as soon as it is
/// free; returns the end (specs/drives.md 1).
pub(crate) fn reserve(resource: &mut u64, earliest: u64, d: u64) -> u64 {
    *resource = earliest.max(*resource) + d;
    *resource
}
