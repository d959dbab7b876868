//! The settings of a queue, all together.

use super::super::{System, line, put};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The row of a snapshot that holds the driver's tags.
pub(in super::super) const TAGS: &str = "(tags)";

/// A disk's folder in sysfs.
#[derive(Debug)]
pub(in super::super) struct DiskFolder {
    pub name: String,
    pub folder: PathBuf,
}

impl DiskFolder {
    pub fn at(folder: &Path) -> DiskFolder {
        DiskFolder { name: super::super::chain::file_name(folder), folder: folder.into() }
    }

    /// A file of its queue.
    fn file(&self, name: &str) -> PathBuf {
        self.folder.join("queue").join(name)
    }
}

/// All settings of a queue that can be written, and the driver's tags, by name.
pub(in super::super) fn snapshot(system: &System, disk: &DiskFolder) -> Vec<(String, String)> {
    let mut names = vec![TAGS.to_string()];
    for part in ["", "iosched"] {
        let entries = fs::read_dir(disk.file(part)).into_iter().flatten().flatten();
        let writable = entries.filter(|entry| {
            let writable = |meta: fs::Metadata| meta.permissions().mode() & 0o200 != 0;
            entry.metadata().is_ok_and(|meta| meta.is_file() && writable(meta))
        });
        let name = |entry: fs::DirEntry| Path::new(part).join(entry.file_name());
        names.extend(writable.map(|entry| name(entry).to_string_lossy().into_owned()));
    }
    names.sort();
    // What cannot be read, as wbt_lat_usec of a kernel without it, cannot be put back, nor written.
    let row = |name: String| Some((name.clone(), setting(system, disk, &name)?));
    names.into_iter().filter_map(row).collect()
}

/// One of them, now.
pub(super) fn setting(system: &System, disk: &DiskFolder, name: &str) -> Option<String> {
    match name {
        TAGS => {
            let allocated = || line(&disk.folder.join("mq/0/nr_tags"));
            let depth = super::super::debug::depth(system, &disk.name);
            depth.map(|depth| depth.to_string()).or_else(allocated)
        }
        "scheduler" => Some(chosen(&line(&disk.file("scheduler"))?)),
        name => line(&disk.file(name)),
    }
}

/// The settings of a queue as they were, and which of them are ours to put back.
pub(super) struct Settings<'a> {
    pub system: &'a System,
    pub disk: &'a DiskFolder,
    pub old: &'a [(String, String)],
    pub wrote: &'a BTreeSet<&'a str>,
    refused: Vec<String>,
}

impl<'a> Settings<'a> {
    pub fn new(
        system: &'a System,
        disk: &'a DiskFolder,
        old: &'a [(String, String)],
        wrote: &'a BTreeSet<&'a str>,
    ) -> Settings<'a> {
        Settings { system, disk, old, wrote, refused: Vec::new() }
    }

    /// In the order in which they depend on each other.
    pub fn put_back(&mut self) -> Result<(), String> {
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
            let text = line(&self.disk.file("scheduler")).unwrap_or_default();
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
            if line(&self.disk.file(name)).as_deref() == Some(value) {
                return;
            }
        }
        self.set(name, value);
    }

    fn set(&mut self, name: &str, value: &str) {
        if let Err(e) = put(&self.disk.file(name), value) {
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
        self.ours(name) && setting(self.system, self.disk, name).as_deref() != self.was(name)
    }

    /// What we wrote, and what choosing a scheduler or resizing tags changes beside the file that is written.
    fn ours(&self, name: &str) -> bool {
        let anew = self.wrote.contains("scheduler") || self.wrote.contains("nr_requests");
        let dragged = matches!(name, "scheduler" | "nr_requests" | "wbt_lat_usec" | TAGS)
            || name.starts_with("iosched/");
        // A write to `max_sectors_kb` makes the read-ahead twice that (Linux 6.18).
        let ahead = name == "read_ahead_kb" && self.wrote.contains("max_sectors_kb");
        self.wrote.contains(name) || (anew && dragged) || ahead
    }
}

/// `none [bfq] kyber`: the one in brackets.
fn chosen(text: &str) -> String {
    let chosen = text.split_whitespace().find(|word| word.starts_with('['));
    chosen.unwrap_or(text.trim()).trim_matches(['[', ']']).into()
}

/// Linux has no fewer.
const TAGS_MIN: u64 = 4;

/// How often a queue is looked at: a tunable may move others. Chosen.
const ROUNDS: u32 = 4;
