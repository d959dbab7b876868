//! Putting changes back, the last first.

use super::super::state::Change;
use super::super::{System, line, put};
use super::{TAGS, setting};
use std::collections::BTreeSet;
use std::ffi::CString;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

/// Puts changes back. Returns those that could not be but may be later, and what went wrong in words.
pub(in super::super) fn put_back(
    system: &System,
    changes: &[Change],
) -> (Vec<Change>, Vec<String>) {
    let mut left = Vec::new();
    let mut problems = Vec::new();
    for change in changes.iter().rev() {
        match undo(system, change, changes) {
            Ok(()) => {}
            Err(Problem::Gone(why)) => problems.push(why),
            Err(Problem::Later(why)) => {
                problems.push(why);
                left.push(change.clone());
                if let Change::Queue { folder, .. } = change {
                    let own =
                        |c: &&Change| matches!(c, Change::Wrote { folder: f, .. } if f == folder);
                    left.extend(changes.iter().filter(own).rev().cloned());
                }
            }
        }
    }
    left.reverse();
    (left, problems)
}

enum Problem {
    /// There is nothing left to put back.
    Gone(String),
    /// Another try may succeed.
    Later(String),
}

fn undo(system: &System, change: &Change, all: &[Change]) -> Result<(), Problem> {
    let later =
        |what: &dyn std::fmt::Display| Problem::Later(format!("{}: {what}", change.describe()));
    match change {
        Change::Queue { name, inode, folder, old, .. } => {
            let now = fs::metadata(folder.join("queue")).map(|meta| meta.ino());
            match now {
                Ok(now) if now == *inode => {}
                Ok(_) => {
                    return Err(Problem::Gone(format!(
                        "{name}: is another device now; left alone"
                    )));
                }
                Err(_) => {
                    return Err(Problem::Gone(format!("{name}: has gone; nothing to put back")));
                }
            }
            let wrote = all.iter().filter_map(|c| match c {
                Change::Wrote { folder: f, file } if f == folder => Some(file.as_str()),
                _ => None,
            });
            let wrote = wrote.collect();
            let refused = Vec::new();
            let mut settings = Settings { system, folder, old, wrote: &wrote, refused };
            settings.put_back().map_err(|why| later(&why))
        }
        Change::Wrote { .. } => Ok(()),
        Change::File { path, old } => match line(path) {
            None => Err(Problem::Gone(format!("{}: has gone", path.display()))),
            Some(now) if now == *old => Ok(()),
            Some(_) => put(path, old).map_err(|e| later(&e)),
        },
        Change::Keyed { path, key, old } => keyed(path, key, old.as_deref()).map_err(|e| later(&e)),
        Change::Enabled { path, controllers } => {
            let on = line(path).unwrap_or_default();
            for controller in controllers.iter().filter(|c| on.split(' ').any(|o| o == *c)) {
                put(path, &format!("-{controller}")).map_err(|e| later(&e))?;
            }
            Ok(())
        }
        Change::Cgroup { path } => cgroup(path).map_err(|e| later(&e)),
        Change::Folder { path, made } => remove_folder(path, *made).map_err(|e| later(&e)),
        Change::NewFile { path } => match fs::remove_file(path) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(later(&e)),
            _ => Ok(()),
        },
        Change::Mount { at } => unmount(system, at).map_err(|e| later(&e)),
        Change::Loop { device, backing } => detach(system, device, backing).map_err(|e| later(&e)),
        Change::Process { pid, started } => end(system, *pid, *started).map_err(|e| later(&e)),
    }
}

/// The settings of a queue as they were, and which of them are ours to put back.
struct Settings<'a> {
    system: &'a System,
    folder: &'a Path,
    old: &'a [(String, String)],
    wrote: &'a BTreeSet<&'a str>,
    refused: Vec<String>,
}

impl<'a> Settings<'a> {
    /// In the order in which they depend on each other.
    fn put_back(&mut self) -> Result<(), String> {
        // Without debugfs nobody sees how many tags the driver hands out: they are set once, unseen.
        let mut unseen = self.wrote.contains(TAGS);
        for _ in 0..ROUNDS {
            self.refused.clear();
            if !unseen && self.wrong().is_empty() {
                return Ok(());
            }
            if std::mem::take(&mut unseen) || self.differs(TAGS) {
                self.set_tags();
            }
            for name in ["scheduler", "nr_requests"] {
                if self.differs(name) {
                    self.set(name, self.was(name).unwrap_or_default());
                }
            }
            for (name, value) in self.old {
                if !matches!(name.as_str(), "scheduler" | "nr_requests" | TAGS)
                    && self.differs(name)
                {
                    self.set_one(name, value);
                }
            }
        }
        let wrong = self.wrong();
        if wrong.is_empty() {
            return Ok(());
        }
        let wrong: Vec<String> = wrong
            .iter()
            .map(|name| format!("{name} was {}", self.was(name).unwrap_or("?")))
            .collect();
        Err(format!("{} ({})", wrong.join(", "), self.refused.join("; ")))
    }

    /// Under `none` a write to `nr_requests` resizes the driver's tags. A write of the value that is shown does
    /// nothing, and what is shown is not what is in force once a scheduler was chosen in between.
    fn set_tags(&mut self) {
        let Some(tags) = self.was(TAGS).and_then(|tags| tags.parse::<u64>().ok()) else { return };
        self.set("scheduler", "none");
        let other = if tags > TAGS_MIN { tags - 1 } else { tags + 1 };
        self.set("nr_requests", &other.to_string());
        self.set("nr_requests", &tags.to_string());
        // Shown is the driver's own number again after a scheduler was in between.
        if self.was("scheduler") == Some("none") && self.differs("nr_requests") {
            let text = line(&self.folder.join("queue/scheduler")).unwrap_or_default();
            let names = text.split_whitespace().map(|word| word.trim_matches(['[', ']']));
            if let Some(other) = names.into_iter().find(|name| *name != "none") {
                self.set("scheduler", other);
                self.set("scheduler", "none");
            }
        }
    }

    fn set_one(&mut self, name: &str, value: &str) {
        if name == "wbt_lat_usec" {
            // -1 is the default, which follows the device; the number would be kept by hand.
            self.set(name, "-1");
            if line(&self.folder.join("queue").join(name)).as_deref() == Some(value) {
                return;
            }
        }
        self.set(name, value);
    }

    fn set(&mut self, name: &str, value: &str) {
        if let Err(e) = put(&self.folder.join("queue").join(name), value) {
            self.refused.push(e.to_string());
        }
    }

    fn was(&self, name: &str) -> Option<&'a str> {
        self.old.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }

    fn wrong(&self) -> Vec<&str> {
        let names = self.old.iter().map(|(name, _)| name.as_str());
        names.filter(|name| self.differs(name)).collect()
    }

    fn differs(&self, name: &str) -> bool {
        self.ours(name) && setting(self.system, self.folder, name).as_deref() != self.was(name)
    }

    /// What we wrote, and what choosing a scheduler or resizing tags changes beside the file that is written.
    fn ours(&self, name: &str) -> bool {
        let anew = self.wrote.contains("scheduler") || self.wrote.contains("nr_requests");
        let dragged = matches!(name, "scheduler" | "nr_requests" | "wbt_lat_usec" | TAGS)
            || name.starts_with("iosched/");
        self.wrote.contains(name) || (anew && dragged)
    }
}

/// `none [bfq] kyber`: the one in brackets.
pub(super) fn chosen(text: &str) -> String {
    let chosen = text.split_whitespace().find(|word| word.starts_with('['));
    chosen.unwrap_or(text.trim()).trim_matches(['[', ']']).into()
}

fn keyed(path: &Path, key: &str, old: Option<&str>) -> Result<(), String> {
    let text = fs::read_to_string(path).map_err(|e| e.to_string())?;
    let now = text.lines().find(|line| line.split(' ').next() == Some(key));
    if now == old {
        return Ok(());
    }
    let name = super::super::chain::file_name(path);
    let off = match name.as_str() {
        "io.cost.qos" => "enable=0 ctrl=auto",
        "io.cost.model" => "ctrl=auto",
        "io.max" => "rbps=max wbps=max riops=max wiops=max",
        "io.latency" => "target=0",
        "io.weight" | "io.bfq.weight" => "default",
        // blkio.*_device: 0 takes the line away.
        _ => "0",
    };
    let line = old.map_or_else(|| format!("{key} {off}"), str::to_string);
    put(path, &line).map_err(|e| e.to_string())
}

/// Ends a cgroup: who is still in it goes to its parent.
fn cgroup(path: &Path) -> Result<(), String> {
    let mut error = String::new();
    for _ in 0..TRIES {
        if !path.exists() {
            return Ok(());
        }
        let parent = path.parent().unwrap_or(Path::new("/"));
        for pid in line(&path.join("cgroup.procs")).unwrap_or_default().lines() {
            // One that ends meanwhile is no error.
            let _ = put(&parent.join("cgroup.procs"), pid);
        }
        match fs::remove_dir(path) {
            Ok(()) => return Ok(()),
            Err(e) => error = e.to_string(),
        }
        // Processes that have ended stay members until the kernel is done with them.
        sleep(PAUSE);
    }
    Err(error)
}

/// Removes a folder and what is in it, but nothing that lies on another file system.
fn remove_folder(path: &Path, made: Option<(u64, u64)>) -> Result<(), String> {
    let Ok(meta) = fs::symlink_metadata(path) else {
        let parent = path.parent().and_then(|parent| fs::metadata(parent).ok());
        return match made.filter(|(device, _)| parent.is_none_or(|p| p.dev() != *device)) {
            None => Ok(()),
            Some(_) => Err("is not to be seen: its file system is not mounted, or was mounted anew; mount it and \
                            try again, or remove the state file if the folder is gone"
                .into()),
        };
    };
    match made {
        // The process died between the note and the folder, or just after: it is empty.
        None => match fs::remove_dir(path) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(e.to_string()),
            _ => Ok(()),
        },
        Some((_, inode)) if meta.ino() != inode || !meta.is_dir() => {
            Err("is not the folder that was made; left alone".into())
        }
        Some(_) => remove_tree(path, meta.dev()).map_err(|e| e.to_string()),
    }
}

fn remove_tree(path: &Path, device: u64) -> std::io::Result<()> {
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        let meta = entry.metadata()?;
        if meta.is_dir() {
            if meta.dev() != device {
                return Err(std::io::Error::other(format!(
                    "{}: something is mounted there",
                    entry.path().display()
                )));
            }
            remove_tree(&entry.path(), device)?;
        } else {
            fs::remove_file(entry.path())?;
        }
    }
    fs::remove_dir(path)
}

fn unmount(system: &System, at: &Path) -> Result<(), String> {
    let mut error = String::new();
    for _ in 0..TRIES {
        let mounts = super::super::mounts::Mount::all(system).map_err(|e| e.to_string())?;
        if !mounts.iter().any(|mount| mount.point == at) {
            return Ok(());
        }
        let path = CString::new(at.as_os_str().as_encoded_bytes()).map_err(|e| e.to_string())?;
        // SAFETY: the path is a string with an end, and is not kept.
        match unsafe { libc::umount2(path.as_ptr(), libc::UMOUNT_NOFOLLOW) } {
            0 => return Ok(()),
            _ => error = std::io::Error::last_os_error().to_string(),
        }
        sleep(PAUSE);
    }
    Err(error)
}

fn detach(system: &System, device: &Path, backing: &Path) -> Result<(), String> {
    use std::os::fd::AsRawFd;
    let name = super::super::chain::file_name(device);
    let attached = || {
        let file = system.text(&format!("/sys/block/{name}/loop/backing_file"))?;
        let file = file.strip_suffix(" (deleted)").unwrap_or(&file).to_string();
        (Path::new(&file) == backing).then_some(())
    };
    let mut error = String::new();
    for _ in 0..TRIES {
        if attached().is_none() {
            return Ok(());
        }
        let file = fs::File::open(device).map_err(|e| e.to_string())?;
        // SAFETY: an ioctl without an argument, on a file that is open.
        if unsafe { libc::ioctl(file.as_raw_fd(), LOOP_CLR_FD) } != 0 {
            error = std::io::Error::last_os_error().to_string();
        }
        // With the last file closed the device goes.
        drop(file);
        sleep(PAUSE);
    }
    Err(error)
}

/// When a process was started, in ticks since boot; `None` if it has ended.
pub(super) fn start_of(system: &System, pid: u32) -> Option<u64> {
    let text = system.text(&format!("/proc/{pid}/stat"))?;
    // The name, in parentheses, may hold anything.
    let (_, rest) = text.rsplit_once(')')?;
    let mut fields = rest.split_whitespace();
    let state = fields.next()?;
    if matches!(state, "Z" | "X") {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

fn end(system: &System, pid: u32, started: u64) -> Result<(), String> {
    for attempt in 0..TRIES {
        if start_of(system, pid) != Some(started) {
            return Ok(());
        }
        if let Some(pid) = rustix::process::Pid::from_raw(pid as i32).filter(|_| attempt == 0) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
        sleep(PAUSE);
    }
    Err("does not end".into())
}

/// `LOOP_CLR_FD` of `linux/loop.h`.
const LOOP_CLR_FD: libc::Ioctl = 0x4c01;

/// Linux has no fewer.
const TAGS_MIN: u64 = 4;

/// How often a queue is looked at: a tunable may move others. Chosen.
const ROUNDS: u32 = 4;

/// How long somebody else may be in the way: 2 s. Chosen.
const TRIES: u32 = 40;
const PAUSE: Duration = Duration::from_millis(50);
