//! What was changed, on disk: enough to put it back after this process was killed or the power failed.
//!
//! One file per run, in `/var/lib/hoistway`, or `/run/hoistway` where that cannot be written
//! (`HOISTWAY_STATE_DIR` overrides both; without root the user's own state folder). It is locked while its process lives. Each change is one line, written before the change
//! is made. Lines about files and folders are synced, since only those outlive a reboot: sysfs, cgroups,
//! mounts and loop devices begin anew then, and the boot id of the file says so.
//!
//! ```text
//! hoistway-state 1
//! boot 1b4e28ba-2fa1-11d2-883f-0016d3cca427
//! owner 4711 88123 compare latency-2019
//! queue loop0<TAB>7:0<TAB>12345<TAB>/sys/devices/virtual/block/loop0<TAB>scheduler=...
//! wrote ...
//! ```

use super::System;
use super::guard::put_back;
use crate::LiveError;
use crate::error::os;
use rustix::fs::{FlockOperation, flock};
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

/// One change, with what it takes to undo it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// All settings of a queue, before the first was changed. `inode` is that of its folder `queue`, which
    /// no other device ever has.
    Queue { name: String, number: String, inode: u64, folder: PathBuf, old: Vec<(String, String)> },
    /// A setting of that queue is about to be written.
    Wrote { folder: PathBuf, file: String },
    /// A file of the kernel with one value.
    File { path: PathBuf, old: String },
    /// A file of a cgroup with one line per device.
    Keyed { path: PathBuf, key: String, old: Option<String> },
    /// Controllers that were enabled for the children of a cgroup.
    Enabled { path: PathBuf, controllers: Vec<String> },
    /// A cgroup.
    Cgroup { path: PathBuf },
    /// A folder, which did not exist. `made` holds device and inode once it does.
    Folder { path: PathBuf, made: Option<(u64, u64)> },
    /// A file, which did not exist.
    NewFile { path: PathBuf },
    /// A mount.
    Mount { at: PathBuf },
    /// A loop device, by what it was attached to.
    Loop { device: PathBuf, backing: PathBuf },
    /// A process, by the time it was started.
    Process { pid: u32, started: u64 },
}

impl Change {
    /// Whether it is still there after a reboot.
    pub fn lasts(&self) -> bool {
        matches!(self, Change::Folder { .. } | Change::NewFile { .. })
    }

    /// In words.
    pub fn describe(&self) -> String {
        match self {
            Change::Queue { name, old, .. } => {
                let scheduler = old.iter().find(|(key, _)| key == "scheduler");
                let scheduler = scheduler.map_or("", |(_, value)| value);
                format!("queue of {name}: scheduler {scheduler} and its settings")
            }
            Change::Wrote { folder, file } => {
                format!("{} of {}", file, super::chain::file_name(folder))
            }
            Change::File { path, old } => format!("{}: {old}", path.display()),
            Change::Keyed { path, key, old } => {
                format!("{}: {key} {}", path.display(), old.as_deref().unwrap_or("(none)"))
            }
            Change::Enabled { path, controllers } => {
                format!("{}: {} enabled", path.display(), controllers.join(" "))
            }
            Change::Cgroup { path } => format!("cgroup {}", path.display()),
            Change::Folder { path, .. } => format!("folder {}", path.display()),
            Change::NewFile { path } => format!("file {}", path.display()),
            Change::Mount { at } => format!("mount at {}", at.display()),
            Change::Loop { device, backing } => {
                format!("loop device {} on {}", device.display(), backing.display())
            }
            Change::Process { pid, .. } => format!("process {pid}"),
        }
    }

    fn encode(&self) -> String {
        let path = |p: &Path| p.to_string_lossy().into_owned();
        let fields: Vec<String> = match self {
            Change::Queue { name, number, inode, folder, old } => {
                let head = [name.clone(), number.clone(), inode.to_string(), path(folder)];
                let rows = old.iter().map(|(key, value)| format!("{key}={value}"));
                std::iter::once("queue".into()).chain(head).chain(rows).collect()
            }
            Change::Wrote { folder, file } => vec!["wrote".into(), path(folder), file.clone()],
            Change::File { path: p, old } => vec!["file".into(), path(p), old.clone()],
            Change::Keyed { path: p, key, old } => {
                let mut fields = vec!["keyed".into(), path(p), key.clone()];
                fields.extend(old.clone());
                fields
            }
            Change::Enabled { path: p, controllers } => {
                vec!["enabled".into(), path(p), controllers.join(" ")]
            }
            Change::Cgroup { path: p } => vec!["cgroup".into(), path(p)],
            Change::Folder { path: p, made: None } => vec!["folder".into(), path(p)],
            Change::Folder { path: p, made: Some((device, inode)) } => {
                vec!["folder".into(), path(p), device.to_string(), inode.to_string()]
            }
            Change::NewFile { path: p } => vec!["new-file".into(), path(p)],
            Change::Mount { at } => vec!["mount".into(), path(at)],
            Change::Loop { device, backing } => vec!["loop".into(), path(device), path(backing)],
            Change::Process { pid, started } => {
                vec!["process".into(), pid.to_string(), started.to_string()]
            }
        };
        let fields: Vec<String> = fields.iter().map(|f| escape(f)).collect();
        fields.join("\t")
    }

    fn decode(line: &str) -> Option<Change> {
        let fields: Vec<String> = line.split('\t').map(unescape).collect();
        let text = |n: usize| fields.get(n).cloned();
        let path = |n: usize| text(n).map(PathBuf::from);
        let number = |n: usize| text(n)?.parse::<u64>().ok();
        Some(match fields.first()?.as_str() {
            "queue" => {
                let rows = fields.get(5..)?.iter();
                let old = rows.filter_map(|row| row.split_once('='));
                Change::Queue {
                    name: text(1)?,
                    number: text(2)?,
                    inode: number(3)?,
                    folder: path(4)?,
                    old: old.map(|(key, value)| (key.into(), value.into())).collect(),
                }
            }
            "wrote" => Change::Wrote { folder: path(1)?, file: text(2)? },
            "file" => Change::File { path: path(1)?, old: text(2)? },
            "keyed" => Change::Keyed { path: path(1)?, key: text(2)?, old: text(3) },
            "enabled" => Change::Enabled {
                path: path(1)?,
                controllers: text(2)?.split_whitespace().map(String::from).collect(),
            },
            "cgroup" => Change::Cgroup { path: path(1)? },
            "folder" => Change::Folder { path: path(1)?, made: number(2).zip(number(3)) },
            "new-file" => Change::NewFile { path: path(1)? },
            "mount" => Change::Mount { at: path(1)? },
            "loop" => Change::Loop { device: path(1)?, backing: path(2)? },
            "process" => Change::Process { pid: number(1)? as u32, started: number(2)? },
            _ => return None,
        })
    }
}

/// The file of a run that is under way.
#[derive(Debug)]
pub(super) struct StateFile {
    path: PathBuf,
    what: String,
    file: File,
}

impl StateFile {
    /// A new one, in the first of these folders that takes it.
    pub fn create(
        system: &System,
        folders: &[PathBuf],
        what: &str,
    ) -> Result<StateFile, LiveError> {
        let mut refused = None;
        for folder in folders {
            match StateFile::create_in(system, folder, what) {
                Ok(file) => return Ok(file),
                Err(error) => refused = refused.or(Some(error)),
            }
        }
        Err(refused.expect("there is a folder"))
    }

    fn create_in(system: &System, folder: &Path, what: &str) -> Result<StateFile, LiveError> {
        fs::create_dir_all(folder).map_err(os(folder.display().to_string()))?;
        let pid = std::process::id();
        let mut number = 0;
        let (path, mut file) = loop {
            let path = folder.join(format!("{pid}-{number}.state"));
            match OpenOptions::new().read(true).append(true).create_new(true).open(&path) {
                Ok(file) => break (path, file),
                // Another of this process, or the leftover of one with the same number.
                Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => number += 1,
                Err(e) => return Err(os(path.display().to_string())(e)),
            }
        };
        // Between `open` and `flock` it is empty: `repair` leaves files without a head alone.
        flock(&file, FlockOperation::NonBlockingLockExclusive)
            .map_err(os(path.display().to_string()))?;
        let head = head(system, what);
        let written = file.write_all(head.as_bytes()).and_then(|()| file.sync_all());
        written.map_err(os(path.display().to_string()))?;
        sync_folder(folder);
        Ok(StateFile { path, what: what.into(), file })
    }

    /// Remembers a change that is about to be made.
    pub fn add(&mut self, change: &Change) -> Result<(), LiveError> {
        let what = || format!("{}: {}", self.path.display(), change.describe());
        let line = change.encode() + "\n";
        self.file.write_all(line.as_bytes()).map_err(os(what()))?;
        if change.lasts() {
            self.file.sync_data().map_err(os(what()))?;
        }
        Ok(())
    }

    /// All is put back: the file goes. With changes left it holds those for a later `restore`.
    pub fn finish(&mut self, system: &System, left: &[Change]) {
        if left.is_empty() {
            let _ = fs::remove_file(&self.path);
            return;
        }
        let _ = rewrite(&self.path, &head(system, &self.what), left);
    }
}

/// What `repair` did about the file of one run.
#[derive(Clone, Debug)]
pub struct Repaired {
    /// The file.
    pub file: PathBuf,
    /// What the run was.
    pub what: String,
    /// Its process.
    pub pid: u32,
    /// It still runs, and was left alone.
    pub alive: bool,
    /// The machine was started anew since: only files and folders were left of it.
    pub rebooted: bool,
    /// What was (or would be) put back.
    pub changes: Vec<String>,
    /// What could not be.
    pub problems: Vec<String>,
}

/// Puts back what killed runs have left, wherever their files are; with `dry_run` only says what.
pub fn repair(dry_run: bool) -> Result<Vec<Repaired>, LiveError> {
    let mut all = Vec::new();
    for folder in folders() {
        all.extend(repair_in(&System::real(), &folder, dry_run)?);
    }
    Ok(all)
}

/// The same for the files of one folder.
pub fn repair_in(
    system: &System,
    folder: &Path,
    dry_run: bool,
) -> Result<Vec<Repaired>, LiveError> {
    let mut all = Vec::new();
    for path in state_files(folder)? {
        all.extend(repair_file(system, &path, dry_run)?);
    }
    Ok(all)
}

/// State files of a folder, the newest run first: it began with what the older ones had left.
fn state_files(folder: &Path) -> Result<Vec<PathBuf>, LiveError> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(os(folder.display().to_string())(e)),
    };
    let mut files: Vec<_> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|e| e == "state"))
        .filter_map(|path| Some((fs::metadata(&path).ok()?.modified().ok()?, path)))
        .collect();
    files.sort();
    Ok(files.into_iter().rev().map(|(_, path)| path).collect())
}

fn repair_file(system: &System, path: &Path, dry_run: bool) -> Result<Option<Repaired>, LiveError> {
    let what = || path.display().to_string();
    let Ok(file) = OpenOptions::new().read(true).write(true).open(path) else { return Ok(None) };
    let alive = flock(&file, FlockOperation::NonBlockingLockExclusive).is_err();
    // Its process may have ended well meanwhile, and taken it away.
    let Ok(text) = fs::read_to_string(path) else { return Ok(None) };
    let Some(read) = Read::parse(&text) else { return Ok(None) };
    let rebooted = boot_id(system) != read.boot;
    let left = read.changes.iter().filter(|change| !rebooted || change.lasts());
    let left: Vec<Change> = left.cloned().collect();
    let shown = left.iter().rev().filter(|change| !matches!(change, Change::Wrote { .. }));
    let mut report = Repaired {
        file: path.into(),
        what: read.what.clone(),
        pid: read.pid,
        alive,
        rebooted,
        changes: shown.map(Change::describe).collect(),
        problems: Vec::new(),
    };
    if alive || dry_run {
        return Ok(Some(report));
    }
    let (left, problems) = put_back(system, &left);
    let failed: Vec<String> = left.iter().map(Change::describe).collect();
    report.changes.retain(|change| !failed.contains(change));
    report.problems = problems;
    if left.is_empty() {
        fs::remove_file(path).map_err(os(what()))?;
    } else {
        rewrite(path, &text.lines().take(3).map(|l| format!("{l}\n")).collect::<String>(), &left)?;
    }
    Ok(Some(report))
}

/// A run that has changed this queue: one that is alive, or one that was killed, after which the settings are not
/// what they were.
pub(super) fn changed_by(
    system: &System,
    folders: &[PathBuf],
    queue: &Path,
    alive: bool,
) -> Option<Repaired> {
    let files = folders.iter().flat_map(|folder| state_files(folder).unwrap_or_default());
    let mut runs = files.filter_map(|path| {
        let read = Read::parse(&fs::read_to_string(&path).ok()?)?;
        let touches =
            |change: &Change| matches!(change, Change::Queue { folder, .. } if folder == queue);
        let now = read.changes.iter().any(touches) && boot_id(system) == read.boot;
        if now { repair_file(system, &path, true).ok()? } else { None }
    });
    runs.find(|run| run.alive == alive)
}

struct Read {
    boot: String,
    pid: u32,
    what: String,
    changes: Vec<Change>,
}

impl Read {
    fn parse(text: &str) -> Option<Read> {
        let mut lines = text.lines();
        if lines.next()? != HEAD {
            return None;
        }
        let boot = lines.next()?.strip_prefix("boot ")?.to_string();
        let owner = lines.next()?.strip_prefix("owner ")?;
        let (pid, what) = owner.split_once(' ')?;
        let mut changes: Vec<Change> = Vec::new();
        // A last line without its end was being written when the process died: its change was not made.
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        for change in whole.lines().skip(3).filter_map(Change::decode) {
            supersede(&mut changes, change);
        }
        Some(Read { boot, pid: pid.parse().ok()?, what: what.into(), changes })
    }
}

/// Adds a change to a list; a folder that now exists takes the place of the wish to make it.
pub(super) fn supersede(changes: &mut Vec<Change>, change: Change) {
    if let Change::Folder { path, made: Some(_) } = &change {
        let wished = |c: &Change| matches!(c, Change::Folder { path: p, made: None } if p == path);
        if let Some(at) = changes.iter().rposition(wished) {
            changes[at] = change;
            return;
        }
    }
    changes.push(change);
}

/// Where state files are, the one to be tried first for new ones first: a folder that survives a reboot.
pub(super) fn folders() -> Vec<PathBuf> {
    if let Some(folder) = std::env::var_os("HOISTWAY_STATE_DIR") {
        return vec![folder.into()];
    }
    if rustix::process::geteuid().is_root() {
        return vec!["/var/lib/hoistway".into(), "/run/hoistway".into()];
    }
    let home = || std::env::var_os("HOME").map(|home| Path::new(&home).join(".local/state"));
    let state = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from).or_else(home);
    vec![state.unwrap_or_else(|| "/tmp".into()).join("hoistway")]
}

fn head(system: &System, what: &str) -> String {
    let what = what.replace('\n', " ");
    format!("{HEAD}\nboot {}\nowner {} {what}\n", boot_id(system), std::process::id())
}

fn boot_id(system: &System) -> String {
    system.text("/proc/sys/kernel/random/boot_id").unwrap_or_default()
}

/// Replaces the file as a whole: a crash leaves the old one or the new one.
fn rewrite(path: &Path, head: &str, changes: &[Change]) -> Result<(), LiveError> {
    let mut text = head.to_string();
    for change in changes {
        text += &(change.encode() + "\n");
    }
    let new = path.with_extension("new");
    let what = || path.display().to_string();
    let mut file = File::create(&new).map_err(os(what()))?;
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(os(what()))?;
    fs::rename(&new, path).map_err(os(what()))?;
    sync_folder(path.parent().unwrap_or(Path::new("/")));
    Ok(())
}

/// A new name is safe once its folder is; file systems that cannot sync a folder need not.
fn sync_folder(folder: &Path) {
    if let Ok(folder) = File::open(folder) {
        let _ = folder.sync_all();
    }
}

fn escape(text: &str) -> String {
    text.replace('\\', "\\\\").replace('\t', "\\t").replace('\n', "\\n")
}

fn unescape(text: &str) -> String {
    let mut out = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        out.push(match c {
            '\\' => match chars.next() {
                Some('t') => '\t',
                Some('n') => '\n',
                Some(other) => other,
                None => '\\',
            },
            c => c,
        });
    }
    out
}

const HEAD: &str = "hoistway-state 1";
