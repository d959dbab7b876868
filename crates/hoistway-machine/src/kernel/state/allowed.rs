//! What a run can have changed: anything else is neither noted nor put back.
//!
//! State lies where only its user can write. Should a line be in it all the same that hoistway did not write, no
//! place is reached by it that hoistway does not change: settings of queues, files of I/O control, things of the names
//! that hoistway gives.

use super::super::System;
use super::super::cgroup::is_control_file;
use super::super::guard::TAGS;
use super::super::mounts::Mount;
use super::change::NotedChange;
use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};

/// Names of what hoistway makes in folders of others begin so.
pub(crate) const SCRATCH: &str = ".hoistway-";

/// Names of cgroups begin so.
pub(crate) const GROUP: &str = "hoistway-";

/// Longest value of a setting.
const VALUE_MAX: usize = 4096;

/// Why hoistway cannot have made this change, or would not undo it.
pub(in super::super) fn check(system: &System, change: &NotedChange) -> Result<(), String> {
    match change {
        NotedChange::Queue { name, number, folder, old, .. } => {
            is_disk(system, folder)?;
            if folder.file_name() != Some(OsStr::new(name)) || !is_device_number(number) {
                return Err("names no block device".into());
            }
            old.iter().try_for_each(|(key, value)| {
                is_setting(key)?;
                is_value(value)
            })
        }
        NotedChange::Wrote { folder, file } => {
            is_disk(system, folder)?;
            is_setting(file)
        }
        NotedChange::File { path, old } => {
            in_root_group(system, path, is_control_file)?;
            is_value(old)
        }
        NotedChange::Keyed { path, key, old } => {
            in_root_group(system, path, is_control_file)?;
            if !is_device_number(key) {
                return Err(format!("'{key}' is no number of a device"));
            }
            let Some(old) = old else { return Ok(()) };
            if old.split(' ').next() != Some(key) {
                return Err(format!("the line is not that of {key}"));
            }
            is_value(old)
        }
        NotedChange::Enabled { path, controllers } => {
            in_root_group(system, path, |name| name == "cgroup.subtree_control")?;
            match controllers.iter().find(|name| !["io", "memory"].contains(&name.as_str())) {
                Some(other) => Err(format!("hoistway enables no controller '{other}'")),
                None => Ok(()),
            }
        }
        NotedChange::Cgroup { path, .. } => is_own_group(system, path),
        NotedChange::Folder { path, .. } | NotedChange::NewFile { path, .. } => {
            is_plain(path)?;
            match path.file_name().is_some_and(is_scratch) {
                true => Ok(()),
                false => Err(format!("hoistway's own are called {SCRATCH}...")),
            }
        }
        NotedChange::Mount { at, .. } => {
            is_plain(at)?;
            match at.iter().any(is_scratch) {
                true => Ok(()),
                false => Err(format!("hoistway mounts in folders of its own, {SCRATCH}...")),
            }
        }
        NotedChange::Loop { device, backing, .. } => {
            is_plain(backing)?;
            let number = device.to_str().and_then(|path| path.strip_prefix("/dev/loop"));
            match number.is_some_and(|number| is_digits(number) && number.len() <= 7) {
                true => Ok(()),
                false => Err("is no loop device".into()),
            }
        }
        NotedChange::Process { pid, .. } => match *pid > 1 && *pid <= i32::MAX as u32 {
            true => Ok(()),
            false => Err("hoistway starts no such process".into()),
        },
    }
}

/// An absolute path that goes down only.
fn is_plain(path: &Path) -> Result<(), String> {
    let mut components = path.components();
    let down = components.next() == Some(Component::RootDir)
        && components.all(|component| matches!(component, Component::Normal(_)));
    if down { Ok(()) } else { Err("the path is not an absolute one without '..'".into()) }
}

/// A folder of a disk, as sysfs resolves it.
fn is_disk(system: &System, folder: &Path) -> Result<(), String> {
    is_plain(folder)?;
    match folder.strip_prefix(system.path("/sys/devices")) {
        Ok(below) if below.components().next().is_some() => Ok(()),
        _ => Err("lies outside of /sys/devices".into()),
    }
}

/// A file of `queue/`, or of the scheduler's folder in it.
fn is_setting(name: &str) -> Result<(), String> {
    let known = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
    let own = name.strip_prefix("iosched/").unwrap_or(name);
    match name == TAGS || (!own.is_empty() && own.chars().all(known)) {
        true => Ok(()),
        false => Err(format!("'{}' is no setting of a queue", name.escape_debug())),
    }
}

fn is_value(value: &str) -> Result<(), String> {
    match value.len() <= VALUE_MAX && !value.contains(['\n', '\r', '\0']) {
        true => Ok(()),
        false => Err("the value is not one line of usual length".into()),
    }
}

/// A file of that name in a group that has none above it.
fn in_root_group(system: &System, path: &Path, known: impl Fn(&str) -> bool) -> Result<(), String> {
    is_plain(path)?;
    let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
    match path.parent().is_some_and(|group| roots(system).iter().any(|root| root == group)) {
        true if known(name) => Ok(()),
        true => Err(format!("'{name}' is no file that hoistway writes")),
        false => Err("is no file of a root cgroup".into()),
    }
}

fn is_own_group(system: &System, path: &Path) -> Result<(), String> {
    is_plain(path)?;
    let below = |root: &PathBuf| path.strip_prefix(root).ok()?.iter().next()?.to_str();
    match roots(system).iter().filter_map(below).any(|first| first.starts_with(GROUP)) {
        true => Ok(()),
        false => Err(format!("hoistway's cgroups are called {GROUP}... and lie in no other")),
    }
}

/// Where hierarchies of cgroups are mounted.
fn roots(system: &System) -> Vec<PathBuf> {
    let mounts = Mount::all(system).unwrap_or_default().into_iter();
    let groups = mounts.filter(|mount| mount.kind == "cgroup" || mount.kind == "cgroup2");
    groups.map(|mount| system.path(&mount.point.to_string_lossy())).collect()
}

fn is_scratch(name: &OsStr) -> bool {
    let rest = name.to_str().and_then(|name| name.strip_prefix(SCRATCH));
    let known = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    rest.is_some_and(|rest| !rest.is_empty() && rest.chars().all(known))
}

fn is_device_number(text: &str) -> bool {
    text.split_once(':').is_some_and(|(major, minor)| is_digits(major) && is_digits(minor))
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// A machine with a hierarchy of cgroups.
    fn machine(name: &str) -> (PathBuf, System) {
        let root =
            std::env::temp_dir().join(format!("hoistway-allowed-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        fs::create_dir_all(root.join("proc/self")).unwrap();
        let mounts = "31 23 0:28 / / rw - ext4 /dev/vda rw\n\
                      32 31 0:29 / /cg\\040roup rw - cgroup2 cgroup2 rw\n";
        fs::write(root.join("proc/self/mountinfo"), mounts).unwrap();
        let system = System::below(&root);
        (root, system)
    }

    #[test]
    fn what_hoistway_changes_is_allowed_and_its_neighbours_are_not() {
        let (root, system) = machine("table");
        let at = |path: &str| format!("{}{path}", root.display());
        let (disk, group) = (at("/sys/devices/virtual/block/loop0"), at("/cg roup"));
        let table = [
            (format!("queue\tloop0\t7:0\t5\t{disk}\t\tscheduler=none\tiosched/slice_idle=8"), true),
            (format!("queue\tloop0\t7:0\t5\t{disk}\t\t(tags)=64"), true),
            (format!("queue\tloop1\t7:0\t5\t{disk}\t"), false),
            (format!("queue\tloop0\t7\t5\t{disk}\t"), false),
            (format!("queue\tloop0\t7:0\t5\t{disk}/../loop0\t"), false),
            (format!("queue\tloop0\t7:0\t5\t{disk}\t\t../../uevent=add"), false),
            (format!("queue\tloop0\t7:0\t5\t{disk}\t\tiosched/../x=1"), false),
            (format!("queue\tloop0\t7:0\t5\t{disk}\t\t=1"), false),
            (format!("queue\tloop0\t7:0\t5\t{disk}\t\tscheduler=a\\nb"), false),
            ("queue\tloop0\t7:0\t5\t/home/u/loop0\t".into(), false),
            (format!("wrote\t{disk}\tread_ahead_kb"), true),
            (format!("wrote\t{disk}\t/etc/passwd"), false),
            ("wrote\t/etc\tpasswd".into(), false),
            (format!("file\t{group}/blkio.bfq.weight\t100"), true),
            (format!("file\t{group}/cgroup.procs\t1"), false),
            (format!("file\t{group}/system.slice/io.weight\t1"), false),
            ("file\t/etc/passwd\tx".into(), false),
            ("file\t/proc/sys/kernel/core_pattern\t|/tmp/x".into(), false),
            ("file\t/sys/kernel/uevent_helper\t/tmp/x".into(), false),
            (format!("keyed\t{group}/io.cost.qos\t8:0\t8:0 enable=0"), true),
            (format!("keyed\t{group}/io.cost.qos\t8:0"), true),
            (format!("keyed\t{group}/io.cost.qos\tuser"), false),
            (format!("keyed\t{group}/io.cost.qos\t8:0\t9:0 enable=0"), false),
            ("keyed\t/home/u/io.cost.qos\t8:0\t8:0 x".into(), false),
            (format!("enabled\t{group}/cgroup.subtree_control\tio memory"), true),
            (format!("enabled\t{group}/cgroup.subtree_control\tpids"), false),
            (format!("enabled\t{group}/a.slice/cgroup.subtree_control\tio"), false),
            (format!("cgroup\t{group}/hoistway-1-gold"), true),
            (format!("cgroup\t{group}/hoistway-1-gold/inner"), true),
            (format!("cgroup\t{group}"), false),
            (format!("cgroup\t{group}/user.slice"), false),
            (format!("cgroup\t{group}/user.slice/hoistway-1"), false),
            (format!("cgroup\t{group}/hoistway-1/../user.slice"), false),
            ("cgroup\t/home/u/hoistway-1".into(), false),
            ("folder\t/mnt/x/.hoistway-77\t1:2:-\t-".into(), true),
            ("folder\t/mnt/x/.hoistway-77".into(), true),
            ("folder\t/mnt/.hoistway-77/../y\t1:2:-\t-".into(), false),
            ("folder\tx/.hoistway-77".into(), false),
            ("folder\t/home\t1:2:-\t-".into(), false),
            ("folder\t/".into(), false),
            ("new-file\t/mnt/x/.hoistway-calibrate-77".into(), true),
            ("new-file\t/etc/passwd".into(), false),
            ("new-file\t/mnt/.hoistway-".into(), false),
            ("mount\t/mnt/x/.hoistway-77/at\t5".into(), true),
            ("mount\t/boot\t5".into(), false),
            ("mount\t/mnt/.hoistway-7/../../boot\t5".into(), false),
            ("loop\t/dev/loop7\t/a\t5".into(), true),
            ("loop\t/dev/loop7/../sda\t/a\t5".into(), false),
            ("loop\t/dev/sda\t/a\t5".into(), false),
            ("process\t77\t5".into(), true),
            ("process\t1\t5".into(), false),
            ("process\t0\t5".into(), false),
            ("process\t4294967295\t5".into(), false),
        ];
        for (line, allowed) in table {
            let change = NotedChange::decode(2, &line).unwrap_or_else(|| panic!("{line}"));
            assert_eq!(check(&system, &change).is_ok(), allowed, "{line}");
        }
        fs::remove_dir_all(root).unwrap();
    }
}
