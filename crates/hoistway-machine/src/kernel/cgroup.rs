//! The cgroups of this machine, and the files of I/O control in them.
//!
//! Three kinds of machine are met. *Unified*: cgroup v2 with controller `io`, the default of every current
//! distribution. *Hybrid or legacy*: `blkio` mounted as v1; v2 may be there too, but then without `io`, since a
//! controller belongs to one hierarchy at a time. *None*: no cgroups mounted, or a kernel without them.
//!
//! Jobs speak v2 (`io.max`, `io.bfq.weight`, `io.latency`, `io.cost.qos`). On v1 what has a file there is
//! translated:
//!
//! | v2 | v1 |
//! |---|---|
//! | `io.bfq.weight`: `100`, `default 100` | `blkio.bfq.weight`: `100` |
//! | `io.bfq.weight`: `8:0 100` | `blkio.bfq.weight_device`: `8:0 100` |
//! | `io.max`: `8:0 rbps=1 wbps=max` | `blkio.throttle.read_bps_device`: `8:0 1`, `...write_bps_device`: `8:0 0` |
//! | `io.prio.class` | `blkio.prio.class` |
//! | `io.latency`, `io.cost.*`, `io.weight` | none: v2 alone has them |
//!
//! In v2 groups get the controllers `io` and `memory`: only with both does the kernel charge write-back to
//! the group that wrote. In v1 write-back is always charged to the root group.
//!
//! Groups are made directly below the root of the hierarchy, in a folder of their own. systemd tolerates
//! that, though it would rather be asked; if it takes the controller away (it may, when units change), the
//! next write fails with the file's name, rather than a run without control being taken for one with it.

use super::queue::Queue;
use super::state::GROUP;
use super::{Guard, Lack, System, line};
use crate::MachineError;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

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
    /// Files that a group below the root has, once somebody asked.
    files: OnceLock<Option<BTreeSet<String>>>,
}

impl Groups {
    /// What this machine has, for work on these queues.
    pub fn open(queues: &[Queue]) -> Groups {
        Groups::open_in(&System::real(), queues)
    }

    /// The same on another tree of files.
    pub fn open_in(system: &System, queues: &[Queue]) -> Groups {
        let (hierarchy, controllers) = detect(system);
        let numbers = queues.iter().map(|q| q.number.clone()).collect();
        let system = system.clone();
        Groups { hierarchy, controllers, numbers, system, files: OnceLock::new() }
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
        let name = translated(&self.hierarchy, file);
        let why = match &self.hierarchy {
            Hierarchy::None => return Some(no_control(&self.system, file)),
            Hierarchy::V1(_) if name.is_none() => {
                let option = FILES.iter().find(|(name, ..)| *name == own_name(file));
                let (why, remedy) = match option {
                    Some((_, _, option)) => (
                        "only cgroup v2 has it, and controller blkio is mounted as v1 here",
                        format!("{UNIFIED}; the kernel needs {option}"),
                    ),
                    None => ("no kernel of today has it", String::new()),
                };
                return Some(Lack::new(file, why, remedy));
            }
            _ => {
                let Some(names) = name else {
                    return Some(Lack::new(file, "no kernel of today has it", ""));
                };
                let missing = names.into_iter().find(|name| !self.has(name))?;
                format!("this kernel's cgroups have no file {missing}")
            }
        };
        Some(Lack::new(file, why, remedy(file)))
    }

    /// Makes a group below another (or below [`Groups::root`]) and enables I/O control in it.
    pub fn make(
        &self,
        guard: &mut Guard,
        parent: &Path,
        name: &str,
    ) -> Result<PathBuf, MachineError> {
        if self.hierarchy == Hierarchy::None {
            return Err(MachineError::Lack(no_control(&self.system, "cgroups")));
        }
        self.enable(guard, parent)?;
        let group = parent.join(name);
        guard.make_group(&group)?;
        Ok(group)
    }

    /// Writes a line to a file of a group. The device number of the line, if it has one, is replaced by those of
    /// the queues, one line each; files of v2 are translated where the machine has v1.
    pub fn write(
        &self,
        guard: &mut Guard,
        group: &Path,
        file: &str,
        line: &str,
    ) -> Result<(), MachineError> {
        if let Some(lack) = self.lacks(file) {
            return Err(MachineError::Lack(lack));
        }
        for line in self.lines(line) {
            let lines = match self.hierarchy {
                Hierarchy::V1(_) => to_v1(file, &line),
                _ => Ok(vec![(own_name(file).to_string(), line.clone())]),
            };
            let lines = lines.map_err(|why| {
                MachineError::Refused(format!("{file}: '{line}': {why}; write it as in cgroup v2"))
            })?;
            for (name, text) in lines {
                guard.write(&group.join(name), &text)?;
            }
        }
        Ok(())
    }

    /// Moves a process into a group.
    pub fn join(&self, group: &Path, pid: u32) -> Result<(), MachineError> {
        super::put(&group.join("cgroup.procs"), &pid.to_string())
    }

    /// What the files of I/O control of a group print about the devices of the run; those that print nothing are left
    /// out.
    pub fn texts(&self, group: &Path) -> Vec<(String, String)> {
        let ours = |line: &&str| {
            let number = line.split(' ').next().unwrap_or_default();
            !is_number(number) || self.numbers.iter().any(|own| own == number)
        };
        let one = |name: &&'static str| {
            let text = fs::read_to_string(group.join(name)).ok()?;
            let text: String = text.lines().filter(ours).map(|line| format!("{line}\n")).collect();
            (!text.is_empty()).then(|| (name.to_string(), text))
        };
        TOLD.iter().filter_map(one).collect()
    }

    /// The devices that lines are written for.
    pub fn numbers(&self) -> &[String] {
        &self.numbers
    }

    /// The line once per queue, with that queue's number; as it is if it names no device.
    fn lines(&self, line: &str) -> Vec<String> {
        match line.split_once(' ') {
            Some((number, rest)) if is_number(number) => {
                self.numbers.iter().map(|own| format!("{own} {rest}")).collect()
            }
            _ => vec![line.to_string()],
        }
    }

    /// v2: the controllers for the children of a group.
    fn enable(&self, guard: &mut Guard, parent: &Path) -> Result<(), MachineError> {
        let Hierarchy::V2(_) = self.hierarchy else { return Ok(()) };
        let file = parent.join("cgroup.subtree_control");
        let on = line(&file).unwrap_or_default();
        for controller in ["io", "memory"] {
            let offered = self.controllers.iter().any(|c| c == controller);
            if offered && !on.split(' ').any(|c| c == controller) {
                guard.write(&file, &format!("+{controller}")).map_err(|e| {
                    MachineError::Refused(format!(
                        "{e}; a cgroup with processes of its own, as that of a container, cannot \
                         have groups with controllers below it: run hoistway outside of it"
                    ))
                })?;
            }
        }
        Ok(())
    }

    fn has(&self, name: &str) -> bool {
        let root = self.root();
        // io.cost.qos and io.cost.model are in the root group alone.
        if name.starts_with("io.cost.") {
            return root.join(name).exists();
        }
        match self.files.get_or_init(|| self.files_of_a_group(&root)) {
            Some(files) => files.contains(name),
            // Not to be found out without making a group, which is root's: what the kernel was built with.
            None => built_with(&self.system, name).unwrap_or(true),
        }
    }

    /// The files of a group that exists, or of one made for the moment.
    fn files_of_a_group(&self, root: &Path) -> Option<BTreeSet<String>> {
        let prefix = if matches!(self.hierarchy, Hierarchy::V1(_)) { "blkio." } else { "io." };
        let entries = fs::read_dir(root).ok()?.flatten();
        for folder in entries.map(|e| e.path()).filter(|p| p.join("cgroup.procs").exists()) {
            let files = names(&folder);
            // io.pressure is there without the controller.
            if files.iter().any(|f| f.starts_with(prefix) && f != "io.pressure") {
                return Some(files);
            }
        }
        if !self.system.is_real() || !rustix::process::geteuid().is_root() {
            return None;
        }
        let mut guard = Guard::begin("looking for controllers").ok()?;
        let name = format!("{GROUP}look-{}", std::process::id());
        let group = self.make(&mut guard, root, &name).ok()?;
        Some(names(&group))
    }
}

/// Files that tell something, of either hierarchy.
const TOLD: &[&str] = &[
    "io.stat",
    "io.weight",
    "io.bfq.weight",
    "io.max",
    "io.latency",
    "io.prio.class",
    "io.cost.qos",
    "io.cost.model",
    "io.hoistway.weight",
    "io.hoistway.latency",
    "blkio.throttle.io_service_bytes",
    "blkio.throttle.io_serviced",
    "blkio.bfq.weight",
];

/// Whether it is a file of I/O control, of either hierarchy.
pub(super) fn is_control_file(name: &str) -> bool {
    FILES.iter().any(|(v2, v1, _)| *v2 == name || v1.contains(&name))
}

/// Which hierarchy has the controller of I/O, and what else it has.
fn detect(system: &System) -> (Hierarchy, Vec<String>) {
    let mounts = super::mounts::Mount::all(system).unwrap_or_default();
    let mut v1 = None;
    for mount in &mounts {
        let root = system.path(&mount.point.to_string_lossy());
        if mount.kind == "cgroup2" {
            let controllers = line(&root.join("cgroup.controllers")).unwrap_or_default();
            let controllers: Vec<String> =
                controllers.split_whitespace().map(String::from).collect();
            if controllers.iter().any(|c| c == "io") {
                return (Hierarchy::V2(root), controllers);
            }
        }
        let v1_options = || mount.super_options.split(',').map(String::from);
        if mount.kind == "cgroup" && v1_options().any(|o| o == "blkio") {
            let known = v1_options().filter(|o| o != "rw" && o != "ro");
            v1 = Some((Hierarchy::V1(root), known.collect()));
        }
    }
    v1.unwrap_or((Hierarchy::None, Vec::new()))
}

/// Why nothing controls I/O on this machine.
fn no_control(system: &System, what: &str) -> Lack {
    let known = system.text("/proc/cgroups").unwrap_or_default();
    let row = known.lines().find(|line| line.starts_with("blkio"));
    let enabled = row.and_then(|line| line.split_whitespace().last());
    match enabled {
        None if known.is_empty() => Lack::new(
            what,
            "this kernel has no cgroups",
            "needs CONFIG_CGROUPS and CONFIG_BLK_CGROUP",
        ),
        None => Lack::new(what, "this kernel has no controller of I/O", "needs CONFIG_BLK_CGROUP"),
        Some("0") => Lack::new(
            what,
            "the controller of I/O is disabled",
            "remove cgroup_disable=io (or blkio) from the kernel's command line",
        ),
        Some(_) => Lack::new(
            what,
            "no hierarchy with the controller of I/O is mounted",
            "mount -t cgroup2 none /sys/fs/cgroup",
        ),
    }
}

/// The names by which the machine knows a file; `None` if its hierarchy has none.
fn translated(hierarchy: &Hierarchy, file: &str) -> Option<Vec<&'static str>> {
    let all = FILES.iter().find(|(name, ..)| *name == own_name(file));
    let (name, v1, _) = all?;
    match hierarchy {
        Hierarchy::V1(_) if v1.is_empty() => None,
        Hierarchy::V1(_) => Some(v1.to_vec()),
        _ => Some(vec![name]),
    }
}

/// The name in v2: jobs may use that of v1, or BFQ's word.
pub(crate) fn own_name(file: &str) -> &str {
    match file {
        "weight" | "blkio.bfq.weight" | "blkio.bfq.weight_device" => "io.bfq.weight",
        "blkio.prio.class" => "io.prio.class",
        file => file,
    }
}

/// A line of v2 as files and lines of v1.
fn to_v1(file: &str, line: &str) -> Result<Vec<(String, String)>, String> {
    let (first, rest) = line.split_once(' ').unwrap_or((line, ""));
    match own_name(file) {
        "io.bfq.weight" if is_number(first) => {
            let weight = if rest == "default" { "0" } else { rest };
            Ok(vec![("blkio.bfq.weight_device".into(), format!("{first} {weight}"))])
        }
        "io.bfq.weight" => {
            let weight = line.strip_prefix("default ").unwrap_or(line);
            Ok(vec![("blkio.bfq.weight".into(), weight.into())])
        }
        "io.max" if is_number(first) => {
            let one = |word: &str| {
                let (key, value) = word.split_once('=').ok_or(format!("'{word}' has no value"))?;
                let file = match key {
                    "rbps" => "read_bps",
                    "wbps" => "write_bps",
                    "riops" => "read_iops",
                    "wiops" => "write_iops",
                    other => return Err(format!("io.max has no '{other}'")),
                };
                // 0 takes a limit of v1 away.
                let value = if value == "max" { "0" } else { value };
                Ok((format!("blkio.throttle.{file}_device"), format!("{first} {value}")))
            };
            rest.split_whitespace().map(one).collect()
        }
        "io.prio.class" => Ok(vec![("blkio.prio.class".into(), line.into())]),
        _ => Err("names no device".into()),
    }
}

/// What to do for a file that the kernel does not have.
pub(crate) fn remedy(file: &str) -> String {
    let row = FILES.iter().find(|(name, ..)| *name == own_name(file));
    match row {
        Some(("io.bfq.weight", ..)) => {
            "modprobe bfq, or a kernel with CONFIG_IOSCHED_BFQ and CONFIG_BFQ_GROUP_IOSCHED".into()
        }
        Some((_, _, option)) => format!("needs a kernel with {option}"),
        None => "no kernel of today has it".into(),
    }
}

/// Whether the kernel was built with what makes this file, where it tells.
fn built_with(system: &System, name: &str) -> Option<bool> {
    let row = FILES.iter().find(|(file, v1, _)| *file == name || v1.contains(&name))?;
    if row.2 == OURS {
        return Some(super::ours::is_loaded(system));
    }
    let release = system.text("/proc/sys/kernel/osrelease")?;
    let text = fs::read_to_string(system.path(&format!("/boot/config-{release}"))).ok()?;
    let set = |value| text.lines().any(|line| line.strip_prefix(row.2) == Some(value));
    Some(set("=y") || set("=m"))
}

fn names(folder: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

fn is_number(word: &str) -> bool {
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    word.split_once(':').is_some_and(|(major, minor)| digits(major) && digits(minor))
}

/// Files of v2, what they are in v1, and the option of the kernel that makes them.
const FILES: &[(&str, &[&str], &str)] = &[
    ("io.bfq.weight", &["blkio.bfq.weight", "blkio.bfq.weight_device"], "CONFIG_BFQ_GROUP_IOSCHED"),
    (
        "io.max",
        &[
            "blkio.throttle.read_bps_device",
            "blkio.throttle.write_bps_device",
            "blkio.throttle.read_iops_device",
            "blkio.throttle.write_iops_device",
        ],
        "CONFIG_BLK_DEV_THROTTLING",
    ),
    ("io.prio.class", &["blkio.prio.class"], "CONFIG_BLK_CGROUP_IOPRIO"),
    ("io.latency", &[], "CONFIG_BLK_CGROUP_IOLATENCY"),
    ("io.weight", &[], "CONFIG_BLK_CGROUP_IOCOST"),
    ("io.cost.qos", &[], "CONFIG_BLK_CGROUP_IOCOST"),
    ("io.cost.model", &[], "CONFIG_BLK_CGROUP_IOCOST"),
    ("io.hoistway.weight", &[], OURS),
    ("io.hoistway.latency", &[], OURS),
];

/// What makes these files is no option of the kernel's.
const OURS: &str = "hoistway's module: `hoistway module install`";

/// From v1 to v2.
const UNIFIED: &str = "boot with cgroup_no_v1=blkio, or systemd.unified_cgroup_hierarchy=1 where systemd \
                       mounts the cgroups";

#[cfg(test)]
mod tests {
    use super::*;

    struct Tree(PathBuf);

    impl Tree {
        fn new(name: &str, mounts: &str, files: &[(&str, &str)]) -> Tree {
            let root =
                std::env::temp_dir().join(format!("hoistway-groups-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&root);
            let tree = Tree(root);
            tree.put("proc/self/mountinfo", mounts);
            files.iter().for_each(|(path, text)| tree.put(path, text));
            tree
        }

        fn put(&self, path: &str, text: &str) {
            let path = self.0.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }

        fn groups(&self) -> Groups {
            Groups::open_in(&System::below(&self.0), &[])
        }
    }

    impl Drop for Tree {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    const V2: &str = "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
    const HYBRID: &str = "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n\
                          38 31 0:35 / /sys/fs/cgroup/blkio rw - cgroup cgroup rw,blkio\n\
                          41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";

    #[test]
    fn the_unified_hierarchy_is_told_by_its_controllers() {
        let tree = Tree::new(
            "v2",
            V2,
            &[
                ("sys/fs/cgroup/cgroup.controllers", "cpu io memory pids\n"),
                ("sys/fs/cgroup/cgroup.procs", ""),
                ("sys/fs/cgroup/system.slice/cgroup.procs", ""),
                ("sys/fs/cgroup/system.slice/io.max", ""),
                ("sys/fs/cgroup/system.slice/io.latency", ""),
            ],
        );
        let groups = tree.groups();
        assert_eq!((groups.word(), groups.root()), ("v2", tree.0.join("sys/fs/cgroup")));
        assert_eq!((groups.lacks("io.max"), groups.lacks("io.latency")), (None, None));
        let lack = groups.lacks("io.cost.qos").unwrap();
        assert_eq!(lack.remedy, "needs a kernel with CONFIG_BLK_CGROUP_IOCOST");
        assert!(groups.lacks("weight").unwrap().remedy.starts_with("modprobe bfq"));
        tree.put("sys/fs/cgroup/io.cost.qos", "");
        assert_eq!(groups.lacks("io.cost.qos"), None);
    }

    #[test]
    fn a_hybrid_machine_has_its_controller_in_v1() {
        let tree = Tree::new(
            "hybrid",
            HYBRID,
            &[
                ("sys/fs/cgroup/unified/cgroup.controllers", ""),
                ("sys/fs/cgroup/blkio/a/cgroup.procs", ""),
                ("sys/fs/cgroup/blkio/a/blkio.bfq.weight", ""),
                ("sys/fs/cgroup/blkio/a/blkio.bfq.weight_device", ""),
            ],
        );
        let groups = tree.groups();
        assert_eq!(
            (groups.word(), groups.controllers.as_slice()),
            ("v1", &["blkio".to_string()][..])
        );
        assert_eq!(groups.lacks("io.bfq.weight"), None);
        assert!(groups.lacks("io.max").unwrap().remedy.contains("CONFIG_BLK_DEV_THROTTLING"));
        assert!(groups.lacks("io.latency").unwrap().remedy.contains("CONFIG_BLK_CGROUP_IOLATENCY"));
    }

    #[test]
    fn a_machine_without_says_what_to_do() {
        let tree = Tree::new("none", "", &[("proc/cgroups", "#name\nblkio\t0\t1\t0\n")]);
        assert_eq!(tree.groups().word(), "none");
        assert!(tree.groups().lacks("io.max").unwrap().remedy.contains("cgroup_disable=io"));
        tree.put("proc/cgroups", "#name\nblkio\t0\t1\t1\n");
        assert!(tree.groups().lacks("io.max").unwrap().remedy.starts_with("mount -t cgroup2"));
        tree.put("proc/cgroups", "#name\ncpu\t0\t1\t1\n");
        assert!(tree.groups().lacks("io.max").unwrap().remedy.contains("CONFIG_BLK_CGROUP"));
    }

    #[test]
    fn lines_of_v2_become_those_of_v1() {
        let v1 = |file: &str, line: &str| {
            let lines = to_v1(file, line).unwrap();
            lines.into_iter().map(|(f, l)| format!("{f}: {l}")).collect::<Vec<_>>()
        };
        assert_eq!(v1("weight", "default 30"), ["blkio.bfq.weight: 30"]);
        assert_eq!(v1("io.bfq.weight", "7:1 30"), ["blkio.bfq.weight_device: 7:1 30"]);
        assert_eq!(
            v1("io.max", "7:1 rbps=1000 wiops=max"),
            ["blkio.throttle.read_bps_device: 7:1 1000", "blkio.throttle.write_iops_device: 7:1 0"]
        );
        assert!(to_v1("io.max", "rbps=1").unwrap_err().contains("names no device"));
        assert!(to_v1("io.max", "7:1 rbps").unwrap_err().contains("has no value"));
    }

    #[test]
    fn a_line_is_written_for_each_queue() {
        let tree = Tree::new("numbers", V2, &[]);
        let mut groups = tree.groups();
        groups.numbers = vec!["7:1".into(), "7:2".into()];
        assert_eq!(groups.lines("8:0 rbps=1"), ["7:1 rbps=1", "7:2 rbps=1"]);
        assert_eq!(groups.lines("default 5"), ["default 5"]);
    }
}
