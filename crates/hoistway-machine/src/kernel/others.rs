//! Who else reads and writes while a run is measured.
//!
//! *Problem.* A device's counters say how much it moved, not for whom. The difference to what the run's processes were
//! accounted for holds more than the I/O of others: a journal is written by a thread of the kernel, metadata when the
//! file system sees fit, and the counters of a process are gone once it has been waited for.
//!
//! *Rule.* What is told is what cannot be the run's:
//!
//! - Reads are accounted to whoever submits them, when they are submitted. So what the device has read beyond the run's
//!   reads is somebody else's: another process, or the kernel on its own account (a check of an array, the setting
//!   up of a file system). Where several queues lie below a place, arrays read for themselves; there it counts no more than
//!   other processes have read.
//! - Writes are accounted when pages become dirty, and what a file system writes for itself is nobody's. So writes beyond
//!   the run's count as far as other processes have written; if the run writes nothing, all of them count.
//!
//! *Weaknesses.* `/proc/PID/io` is not by device: whoever writes to another drive can make a journal's writes look like his.
//! So it is named only if it has a file of this device open, or the device itself. The counters of a process that has
//! ended are its parent's.

use super::System;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};

/// Bytes that processes have read from storage and made dirty or written, as `/proc/PID/io` counts them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// Read.
    pub read: u64,
    /// Written.
    pub written: u64,
}

impl Moved {
    /// Both directions.
    pub fn bytes(&self) -> u64 {
        self.read + self.written
    }

    /// Since then; a counter that fell began anew.
    fn since(&self, then: &Moved) -> Moved {
        let of = |now: u64, then: u64| now.checked_sub(then).unwrap_or(now);
        Moved { read: of(self.read, then.read), written: of(self.written, then.written) }
    }

    fn add(&mut self, other: Moved) {
        self.read += other.read;
        self.written += other.written;
    }
}

/// What a process has moved so far, also one that has ended and was not waited for yet. `None`: it is gone, or the
/// kernel does not say.
pub fn moved_by(system: &System, pid: u32) -> Option<Moved> {
    let text = system.text(&format!("/proc/{pid}/io"))?;
    let of = |name: &str| {
        let mut values = text.lines().filter_map(|line| line.split_once(": "));
        values.find(|(key, _)| *key == name)?.1.trim().parse::<u64>().ok()
    };
    let written = of("write_bytes")?.saturating_sub(of("cancelled_write_bytes").unwrap_or(0));
    Some(Moved { read: of("read_bytes")?, written })
}

/// The counters of all processes at one time.
#[derive(Clone, Debug, Default)]
pub struct Processes(BTreeMap<u32, Moved>);

/// What other processes have moved.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Others {
    /// All of them.
    pub moved: Moved,
    /// Of those that have a file of the device open the one that moved most, and its bytes.
    pub most: Option<(String, u64)>,
}

impl Processes {
    /// Now. Those whose counters this user may not read are left out.
    pub fn now(system: &System) -> Processes {
        let entries = fs::read_dir(system.path("/proc")).into_iter().flatten().flatten();
        let pids = entries.filter_map(|e| e.file_name().to_str()?.parse::<u32>().ok());
        Processes(pids.filter_map(|pid| Some((pid, moved_by(system, pid)?))).collect())
    }

    /// What was moved since then by processes other than these. `devices`: the numbers of the device and its parts.
    pub fn since(
        &self,
        then: &Processes,
        system: &System,
        ours: &[u32],
        devices: &BTreeSet<String>,
    ) -> Others {
        let mut others = Others::default();
        for (pid, now) in self.0.iter().filter(|(pid, _)| !ours.contains(pid)) {
            let moved = now.since(&then.0.get(pid).copied().unwrap_or_default());
            // Threads of the kernel move what others have asked for.
            if moved.bytes() == 0 || is_of_kernel(system, *pid) {
                continue;
            }
            others.moved.add(moved);
            let more = others.most.as_ref().is_none_or(|(_, most)| *most < moved.bytes());
            if more && uses(system, *pid, devices) {
                let name = system.text(&format!("/proc/{pid}/comm")).unwrap_or_default();
                others.most = Some((format!("{name}, process {pid}"), moved.bytes()));
            }
        }
        // Who waits for a process inherits its counters, also what they held before.
        for (pid, held) in then.0.iter().filter(|(pid, _)| !self.0.contains_key(pid)) {
            if !ours.contains(pid) {
                others.moved.read = others.moved.read.saturating_sub(held.read);
                others.moved.written = others.moved.written.saturating_sub(held.written);
            }
        }
        others
    }

    /// What one process has moved since then.
    pub fn of(&self, pid: u32, then: &Processes) -> Moved {
        let now = self.0.get(&pid).copied().unwrap_or_default();
        now.since(&then.0.get(&pid).copied().unwrap_or_default())
    }
}

/// Whether a process has a file open that lies on one of these devices, or one of them.
fn uses(system: &System, pid: u32, devices: &BTreeSet<String>) -> bool {
    let number = |n: u64| format!("{}:{}", rustix::fs::major(n), rustix::fs::minor(n));
    let open = fs::read_dir(system.path(&format!("/proc/{pid}/fd"))).into_iter().flatten();
    // A file system that spans devices gives its files a number of its own: who uses it is not known.
    open.flatten().filter_map(|entry| fs::metadata(entry.path()).ok()).any(|file| {
        let block = file.file_type().is_block_device();
        devices.contains(&number(if block { file.rdev() } else { file.dev() }))
    })
}

/// A thread of the kernel: kthreadd itself, or a child of it.
fn is_of_kernel(system: &System, pid: u32) -> bool {
    let stat = system.text(&format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name may hold anything, brackets too: state and parent stand behind the last one.
    let parent = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(1));
    pid == KTHREADD || parent.is_some_and(|parent| parent == KTHREADD.to_string())
}

/// A thread that sets up the tables of a new ext4 file system in the background.
pub fn lazy_init(system: &System) -> bool {
    let entries = fs::read_dir(system.path("/proc")).into_iter().flatten().flatten();
    entries
        .map(|e| e.path())
        .any(|p| super::line(&p.join("comm")).as_deref() == Some("ext4lazyinit"))
}

/// The parent of all threads of the kernel.
const KTHREADD: u32 = 2;

/// What of a device's traffic cannot be the run's. `alone`: one queue, so that a read of the place is one of the device.
pub fn foreign(device: Moved, ours: Moved, others: Moved, alone: bool) -> Moved {
    let read = device.read.saturating_sub(ours.read);
    let written = device.written.saturating_sub(ours.written);
    Moved {
        read: if alone { read } else { read.min(others.read) },
        written: if ours.written == 0 { written } else { written.min(others.written) },
    }
}

#[cfg(test)]
mod tests {
    use super::super::conditions::tests::Tree;
    use super::*;

    fn mb(read: u64, written: u64) -> Moved {
        Moved { read: read << 20, written: written << 20 }
    }

    #[test]
    fn what_may_be_the_runs_own_is_not_called_foreign() {
        let journal = foreign(mb(100, 150), mb(100, 100), mb(0, 0), true);
        assert_eq!(journal, mb(0, 0), "fsync writes more than the process has written");
        assert_eq!(foreign(mb(100, 150), mb(100, 100), mb(0, 20), true), mb(0, 20));
        assert_eq!(foreign(mb(100, 30), mb(100, 0), mb(0, 0), true), mb(0, 30), "it only reads");
        assert_eq!(foreign(mb(160, 0), mb(100, 0), mb(0, 0), true), mb(60, 0));
        assert_eq!(foreign(mb(160, 0), mb(100, 0), mb(5, 0), false), mb(5, 0), "an array reads");
        assert_eq!(foreign(mb(90, 90), mb(100, 100), mb(50, 50), true), mb(0, 0), "in flight");
    }

    #[test]
    fn processes_are_told_apart_and_threads_of_the_kernel_left_out() {
        let io = |read: u64, written: u64, cancelled: u64| {
            format!(
                "rchar: 1\nwchar: 1\nread_bytes: {read}\nwrite_bytes: {written}\n\
                 cancelled_write_bytes: {cancelled}\n"
            )
        };
        let tree = Tree::new(
            "processes",
            &[
                ("proc/10/io", &io(100, 0, 0)),
                ("proc/11/io", &io(5000, 70, 20)),
                ("proc/12/io", &io(0, 0, 0)),
                ("proc/12/comm", "tar (1) 2 x\n"),
                ("proc/12/stat", "12 (tar (1) 2 x) S 1 12 12 0\n"),
                ("proc/13/io", &io(0, 0, 0)),
                ("proc/13/stat", "13 (jbd2/vda-8) S 2 0 0 0\n"),
                ("proc/meminfo", "MemTotal: 1\n"),
            ],
        );
        let system = System::below(&tree.0);
        let then = Processes::now(&system);
        assert_eq!(moved_by(&system, 11), Some(Moved { read: 5000, written: 50 }));
        assert_eq!(moved_by(&system, 14), None);
        tree.put("proc/10/io", &io(400, 0, 0));
        tree.put("proc/12/io", &io(7000, 9000, 0));
        tree.put("proc/13/io", &io(0, 90_000, 0));
        let now = Processes::now(&system);
        let device = rustix::fs::stat(&tree.0).unwrap().st_dev;
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        let here = BTreeSet::from([format!("{major}:{minor}")]);
        let others = now.since(&then, &system, &[10, 11], &here);
        assert_eq!(others.moved, Moved { read: 7000, written: 9000 });
        assert_eq!(others.most, None, "it has no file of the device open");
        tree.put("proc/12/fd/3", "a file that lies here");
        let others = now.since(&then, &system, &[10, 11], &here);
        assert_eq!(others.most, Some(("tar (1) 2 x, process 12".into(), 16_000)));
        let elsewhere = BTreeSet::from(["8:77".to_string()]);
        assert_eq!(now.since(&then, &system, &[10, 11], &elsewhere).most, None);
        assert_eq!(now.of(10, &then), Moved { read: 300, written: 0 });
        // Its number was given to another process.
        tree.put("proc/12/io", &io(40, 0, 0));
        let later = Processes::now(&system);
        assert_eq!(
            later.since(&now, &system, &[10, 11, 13], &here).moved,
            Moved { read: 40, written: 0 }
        );
        // It ends, and its parent inherits all that it ever moved.
        std::fs::remove_dir_all(tree.0.join("proc/12")).unwrap();
        tree.put("proc/14/io", &io(100, 0, 0));
        let before = Processes::now(&system);
        tree.put("proc/14/io", &io(100 + 40, 0, 0));
        let inherited = Processes::now(&system).since(&later, &system, &[10, 11, 13], &here);
        assert_eq!(inherited.moved, Moved { read: 140 - 40, written: 0 });
        assert_eq!(before.since(&later, &system, &[10, 11, 13], &here).moved.read, 100 - 40);
        assert!(!lazy_init(&system));
        tree.put("proc/15/comm", "ext4lazyinit\n");
        assert!(lazy_init(&system));
    }
}
