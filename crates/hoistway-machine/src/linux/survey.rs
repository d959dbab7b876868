//! What a kernel offers: its schedulers with their tunables, settings of the queue, files of its cgroups.
//!
//! The guest is asked once, since only a kernel that runs can tell: a tunable comes and goes with a version, and with
//! a patch.

use super::guest::DISK;
use crate::kernel::{Lack, Queue, System, name_here, put, scheduler_lack};
use hoistway_run::encode;
use hoistway_sim::world::Job;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// What there is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Survey {
    /// The kernel's release.
    pub release: String,
    /// Schedulers, each with its tunables.
    schedulers: Vec<(String, Vec<String>)>,
    /// Settings of the queue.
    attributes: Vec<String>,
    /// Files of the root group, and of one below it.
    groups: Vec<String>,
    /// File systems.
    pub systems: Vec<String>,
}

/// Where cgroups are.
const CGROUPS: &str = "/sys/fs/cgroup";

/// Looks, in the guest.
pub(super) fn take() -> Result<String, String> {
    let name = DISK.trim_start_matches("/dev/");
    let queue = Queue::by_name(&System::real(), name).map_err(|e| e.to_string())?;
    let mut survey = Survey::default();
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").map_err(|e| e.to_string())?;
    survey.release = release.trim().into();
    for scheduler in queue.schedulers().map_err(|e| e.to_string())? {
        put(&queue.attribute_file("scheduler"), &scheduler).map_err(|e| e.to_string())?;
        let tunables = queue.tunables().map_err(|e| e.to_string())?;
        survey.schedulers.push((scheduler, tunables.into_iter().map(|t| t.0).collect()));
    }
    let attributes = names(&queue.folder.join("queue"))?.into_iter();
    survey.attributes = attributes.filter(|name| queue.attribute(name).is_some()).collect();
    let controllers = Path::new(CGROUPS).join("cgroup.subtree_control");
    for controller in ["+io", "+memory"] {
        // A kernel without one of them has no files of it, which is what is asked.
        let _ = put(&controllers, controller);
    }
    let group = Path::new(CGROUPS).join("look");
    let mut files = names(Path::new(CGROUPS))?;
    if fs::create_dir(&group).is_ok() {
        files.extend(names(&group)?);
    }
    survey.groups = files.into_iter().collect();
    let systems = fs::read_to_string("/proc/filesystems").unwrap_or_default();
    let system = |line: &str| line.split_whitespace().last().map(str::to_string);
    survey.systems = systems.lines().filter_map(system).collect();
    Ok(encode(&survey))
}

fn names(folder: &Path) -> Result<BTreeSet<String>, String> {
    let entries = fs::read_dir(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    Ok(entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect())
}

impl Survey {
    /// Why the configuration of a job cannot run under this kernel; the first reason found. `name`: of the kernel.
    pub fn lacks(&self, job: &Job<'_>, name: &str) -> Option<Lack> {
        let scheduler = job.scheduler.entry.name;
        let offered: Vec<String> = self.schedulers.iter().map(|s| s.0.clone()).collect();
        let here = name_here(scheduler, &offered);
        let known = here.and_then(|here| self.schedulers.iter().find(|(known, _)| known == here));
        let Some((_, known)) = known else {
            return Some(scheduler_lack(scheduler, name, &offered));
        };
        if let Some((tunable, _)) = job.scheduler.set.iter().find(|(n, _)| !known.contains(n)) {
            return Some(Lack::new(
                format!("tunable {tunable} of {scheduler}"),
                format!("the {scheduler} of {name} has {}", known.join(", ")),
                "leave it out, or use --on sim for hoistway's own scheduler",
            ));
        }
        let wbt = job.control.controllers.iter().any(|c| c.name == "wbt");
        let wbt = wbt.then_some(crate::kernel::WBT);
        let set = job.scheduler.queue.iter().map(|(n, _)| n.as_str()).chain(wbt);
        if let Some(missing) = set.into_iter().find(|n| !self.attributes.iter().any(|a| a == n)) {
            return Some(Lack::new(missing, format!("the queues of {name} have none"), ""));
        }
        for controller in &job.control.controllers {
            if let Some((tunable, _)) = controller.set.iter().find(|(n, _)| n != "target") {
                return Some(Lack::new(
                    format!("tunable {tunable} of {}", controller.name),
                    format!("that of {name} has none of this name"),
                    "leave it out, or use --on sim",
                ));
            }
        }
        let written = job.groups.iter().flat_map(|g| &g.write).chain(&job.control.root);
        let written = written.map(|(file, _)| crate::kernel::own_name(file).to_string());
        let set = job.groups.iter().flat_map(|g| &g.set);
        let set = set.map(|(n, _)| crate::kernel::group_file(scheduler, n));
        let missing = written.chain(set).find(|file| !self.groups.contains(file))?;
        let remedy = crate::kernel::control_remedy(&missing);
        Some(Lack::new(missing, format!("the cgroups of {name} have no such file"), remedy))
    }
}
