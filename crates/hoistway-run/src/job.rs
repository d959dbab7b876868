//! What a run is made of.

use hoistway::sched::Entry;
use hoistway::{IoPrio, Nanos};
use serde::{Deserialize, Serialize};

/// Who a process is in an experiment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "bool", into = "bool")]
pub enum Role {
    /// It is measured.
    #[default]
    Target,
    /// It makes the load.
    Interferer,
}

impl From<bool> for Role {
    fn from(target: bool) -> Role {
        if target { Role::Target } else { Role::Interferer }
    }
}

impl From<Role> for bool {
    fn from(role: Role) -> bool {
        role == Role::Target
    }
}

/// One process: a name, a place, a priority and a load.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ProcSpec {
    /// Unique in the job, such as `target` or `reader3`.
    pub name: String,
    /// Measured, or part of the load.
    #[serde(rename = "target")]
    pub role: Role,
    /// Index into the groups of its job; `None`: the root group.
    pub group: Option<usize>,
    /// I/O priority; [`IoPrio::NONE`] if never set.
    #[serde(with = "crate::plain")]
    pub prio: IoPrio,
    /// When it starts.
    #[serde(with = "crate::plain")]
    pub start: Nanos,
    /// Name of the load in the registry (`reader`, `writer`, `sporadic_probe`).
    pub load: String,
    /// Its parameters, as in the experiment file.
    pub params: toml::Table,
}

/// A group.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct GroupSpec {
    /// Its name.
    pub name: String,
    /// Index of its parent in the groups of its job, which must be smaller than its own; `None`: the root.
    pub parent: Option<usize>,
    /// What is set on it at the scheduler, in order (such as `weight` of bfq).
    pub set: Vec<(String, u64)>,
    /// Lines written to its cgroup files, in order: file and line. The device is 8:0.
    pub write: Vec<(String, String)>,
}

/// A controller and what is set on it, in order.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ControllerSpec {
    /// Registry name.
    pub name: String,
    /// Tunables.
    pub set: Vec<(String, u64)>,
}

/// The controllers, and what is written to the root's files.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ControlSpec {
    /// Controllers, in any order: they stand in that of the registry.
    pub controllers: Vec<ControllerSpec>,
    /// Lines written to the cgroup files of the root, in order: file and line. The device is 8:0.
    pub root: Vec<(String, String)>,
    /// How often gauges are recorded, over the whole run; `None`: never.
    #[serde(with = "crate::plain")]
    pub monitor: Option<Nanos>,
}

/// The scheduler and what is set on it, in order.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SchedulerSpec {
    /// Its registry entry; one from outside the tree will do.
    #[serde(with = "crate::plain")]
    pub entry: &'static Entry,
    /// Tunables.
    pub set: Vec<(String, u64)>,
    /// Tunables of the block layer (`nr_requests`, `nomerges`, `max_sectors_kb`).
    pub queue: Vec<(String, u64)>,
}

/// When measuring begins and ends.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Window {
    /// Measuring begins so long after the target's start (the ramp).
    #[serde(with = "crate::plain")]
    pub ramp: Nanos,
    /// Length of the measured window.
    #[serde(with = "crate::plain")]
    pub measured: Nanos,
    /// The target's last I/O runs to its end with the load still on, at most this long
    /// (statistics.md 1.4); then it is censored.
    #[serde(with = "crate::plain")]
    pub grace: Nanos,
    /// Interval of the target's throughput series (0.5 s) and of the device's (1 s).
    #[serde(with = "crate::plain")]
    pub target_interval: Nanos,
    /// The device's interval.
    #[serde(with = "crate::plain")]
    pub device_interval: Nanos,
}

/// How much of the trace a run keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TraceMode {
    /// Nothing.
    #[default]
    Off,
    /// The digest.
    Digest,
    /// The digest and the first so many records.
    Keep(usize),
}
