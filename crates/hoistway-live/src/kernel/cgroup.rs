//! The cgroups of this machine, and the files of I/O control in them.

use super::queue::Queue;
use super::{Guard, Lack, System};
use crate::LiveError;
use std::path::{Path, PathBuf};

/// Where I/O is controlled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hierarchy {
    /// The `blkio` hierarchy of v1.
    V1(PathBuf),
    /// The unified hierarchy, with controller `io`.
    V2(PathBuf),
    /// Nowhere.
    None,
}

/// The groups of a run.
#[derive(Clone, Debug)]
pub struct Groups {
    /// Which hierarchy controls I/O.
    pub hierarchy: Hierarchy,
    /// Its controllers.
    pub controllers: Vec<String>,
    numbers: Vec<String>,
    system: System,
}

impl Groups {
    /// What this machine has, for work on these queues.
    pub fn open(queues: &[Queue]) -> Groups {
        Groups::open_in(&System::real(), queues)
    }

    /// The same on another tree of files.
    pub fn open_in(system: &System, queues: &[Queue]) -> Groups {
        let numbers = queues.iter().map(|q| q.number.clone()).collect();
        let system = system.clone();
        Groups { hierarchy: Hierarchy::None, controllers: Vec::new(), numbers, system }
    }

    /// `v1`, `v2` or `none`, as in the manifest.
    pub fn word(&self) -> &'static str {
        match self.hierarchy {
            Hierarchy::V1(_) => "v1",
            Hierarchy::V2(_) => "v2",
            Hierarchy::None => "none",
        }
    }

    /// The group of those that are in no other: where `io.cost.qos` is. Also the parent of a run's groups.
    pub fn root(&self) -> PathBuf {
        match &self.hierarchy {
            Hierarchy::V1(root) | Hierarchy::V2(root) => root.clone(),
            Hierarchy::None => self.system.path("/sys/fs/cgroup"),
        }
    }

    /// Why a file (`io.max`, `io.bfq.weight`, `io.cost.qos`) cannot be written here.
    pub fn lacks(&self, file: &str) -> Option<Lack> {
        Some(Lack::new(file, "no cgroup controls I/O here", ""))
    }

    /// Makes a group below another (or below [`Groups::root`]) and enables I/O control in it.
    pub fn make(&self, guard: &mut Guard, parent: &Path, name: &str) -> Result<PathBuf, LiveError> {
        let group = parent.join(name);
        guard.make_dir(&group)?;
        Ok(group)
    }

    /// Writes a line to a file of a group. The device numbers of the line are replaced by those of the queues,
    /// one line each; files of v2 are translated where the machine has v1.
    pub fn write(
        &self,
        guard: &mut Guard,
        group: &Path,
        file: &str,
        line: &str,
    ) -> Result<(), LiveError> {
        if let Some(lack) = self.lacks(file) {
            return Err(LiveError::Lack(lack));
        }
        guard.write(&group.join(file), line).map(|_| ())
    }

    /// Moves a process into a group.
    pub fn join(&self, group: &Path, pid: u32) -> Result<(), LiveError> {
        super::put(&group.join("cgroup.procs"), &pid.to_string())
    }

    /// The devices that lines are written for.
    pub fn numbers(&self) -> &[String] {
        &self.numbers
    }
}
