//! The kernel's own schedulers and controllers: what a machine lets us see and change.
//!
//! [`resolve`] follows a directory or a device down to the queues that schedule. A [`Queue`] tells what
//! schedulers it offers and which device lies behind it. [`Groups`] are the cgroups that the machine has.
//! Every change goes through a [`Guard`], which remembers on disk what was there before, and puts it back.
//! A [`Watch`] notes what else went on while a run was measured. A [`Lack`] says why a configuration cannot
//! run here, and how to get it.
//!
//! Everything reads below a [`System`]: `/` on a machine, a folder of made-up files in tests.

mod cgroup;
mod chain;
mod conditions;
mod debug;
mod files;
mod guard;
pub mod loopdev;
mod machine;
mod mounts;
mod others;
mod ours;
mod probe;
pub(crate) mod queue;
mod reading;
mod run;
mod state;
mod ticks;
mod volume;
mod worker;

pub use cgroup::{Groups, Hierarchy};
pub use chain::Link;
pub use conditions::{Conditions, Lateness, Traffic, Watch};
pub use guard::Guard;
pub use hoistway_run::Lack;
pub use machine::{Machine, MachineOptions};
pub use others::Moved;
pub use probe::Probed;
pub use queue::{Diskstats, Identity, Queue};
pub use state::{Refused, Repair, Repaired, repair, repair_in};
pub use volume::{Volume, VolumeTarget, resolve, resolve_in};
pub use worker::work;

pub(crate) use cgroup::{own_name, remedy as control_remedy};
pub(crate) use machine::check_shared_memory;
#[cfg(test)]
pub(crate) use ours::of_sys;
pub(crate) use ours::{MODULE, group_file, is_kernels, is_ours, loaded, name_here};
pub(crate) use queue::scheduler_lack;
pub(crate) use run::WBT;
pub(crate) use state::SCRATCH;
#[cfg(feature = "fuse")]
pub(crate) use state::{make_state, open_state, read_state};
pub(crate) use volume::settled;
pub(crate) use worker::MAX_REQUEST;

use crate::MachineError;
use std::fs;
use std::path::{Path, PathBuf};

/// Where `/sys`, `/proc` and the rest are.
#[derive(Clone, Debug)]
pub struct System {
    root: PathBuf,
}

impl System {
    /// This machine.
    pub fn real() -> System {
        System { root: "/".into() }
    }

    /// Files below another folder, for tests.
    pub fn below(root: &Path) -> System {
        System { root: root.into() }
    }

    /// Whether this is the machine itself.
    pub fn is_real(&self) -> bool {
        self.root == Path::new("/")
    }

    /// The path of `/sys/...` and its like.
    pub fn path(&self, absolute: &str) -> PathBuf {
        self.root.join(absolute.trim_start_matches('/'))
    }

    /// The text of a file, without the end of line; `None` if it cannot be read.
    pub(crate) fn text(&self, absolute: &str) -> Option<String> {
        line(&self.path(absolute))
    }
}

/// The text of a small file, without the end of line.
pub(crate) fn line(file: &Path) -> Option<String> {
    Some(fs::read_to_string(file).ok()?.trim_end().to_string())
}

/// Writes a value as one system call, as files of the kernel want it, and says which file refused.
pub(crate) fn put(file: &Path, value: &str) -> Result<(), MachineError> {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    let what = || format!("{}: writing '{value}'", file.display());
    let mut options = fs::OpenOptions::new();
    // The kernel's files are no links.
    let open = options.write(true).truncate(false).custom_flags(libc::O_NOFOLLOW).open(file);
    let mut open = open.map_err(crate::os(what()))?;
    open.write_all(value.as_bytes()).map_err(crate::os(what()))
}
