//! What was changed, on disk: enough to put it back after this process was killed or the power failed.
//!
//! One file per run, in `/var/lib/hoistway`, or `/run/hoistway` where that cannot be written
//! (`HOISTWAY_STATE_DIR` overrides both; without root the user's own state folder). It is locked while its process lives.
//! Each change is one line, written before the change is made ([`read`] has the format). Lines about files and folders
//! are synced, since only those outlive a reboot: sysfs, cgroups, mounts and loop devices begin anew then, and the boot
//! id of the file says so. A file is only ever added to: what was put back is marked in it.
//!
//! Who writes such a file makes root do what it says. Three things stand against that: files and folders that somebody
//! else could have written are not believed ([`store`]), a line can only name what hoistway changes ([`allowed`]), and
//! what is undone is reached by descriptors and told by more than its name ([`put_back`]).

mod allowed;
mod change;
mod read;
mod store;

pub(super) use allowed::check;
pub(crate) use allowed::{GROUP, SCRATCH};
pub(super) use change::{Made, NotedChange};
pub use store::Refused;
pub(super) use store::folders;

#[cfg(feature = "fuse")]
use super::Lack;
use super::System;
use super::guard::put_back;
use crate::MachineError;
use crate::os;
#[cfg(feature = "fuse")]
use hoistway_files::Dir;
use hoistway_files::Place;
use read::{Entry, Read};
use rustix::fs::{FlockOperation, flock};
use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use store::{Hold, LIMIT, OpenedState};

/// The file of a run that is under way.
#[derive(Debug)]
pub(super) struct StateFile {
    place: Place,
    file: File,
    bytes: u64,
}

/// Numbers of the files of this process.
static NEXT: AtomicU32 = AtomicU32::new(0);

impl StateFile {
    /// A new one, in the first of these folders that takes it.
    pub fn create(
        system: &System,
        folders: &[PathBuf],
        what: &str,
    ) -> Result<StateFile, MachineError> {
        let mut refused = None;
        for folder in folders {
            match StateFile::create_in(system, folder, what) {
                Ok(file) => return Ok(file),
                // A folder that cannot be written; one that others can write has to be seen to.
                Err(error @ MachineError::Os { .. }) => refused = refused.or(Some(error)),
                Err(error) => return Err(error),
            }
        }
        Err(refused.expect("there is a folder"))
    }

    fn create_in(system: &System, folder: &Path, what: &str) -> Result<StateFile, MachineError> {
        let dir = store::make(folder)?;
        let pid = std::process::id();
        let (place, part) = loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let place = dir.place(format!("{pid}-{number}.state"))?;
            // One that is there is the leftover of a process with the same number.
            if place.identity()?.is_none() {
                break (place, dir.place(format!(".{pid}-{number}.new"))?);
            }
        };
        part.remove_file()?;
        let mut file = part.create(0o600)?;
        let shown = || place.path().display().to_string();
        // Under its name it is locked and has its head.
        flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(os(shown()))?;
        let head = head(system, what);
        let written = file.write_all(head.as_bytes()).and_then(|()| file.sync_all());
        let named = written.map_err(os(shown())).and_then(|()| Ok(part.rename(&place)?));
        if let Err(error) = named {
            // Best effort: the error that led here is the one to report.
            let _ = part.remove_file();
            return Err(error);
        }
        dir.sync();
        Ok(StateFile { place, file, bytes: head.len() as u64 })
    }

    /// Remembers a change that is about to be made, or has been.
    pub fn add(&mut self, change: &NotedChange) -> Result<(), MachineError> {
        let what = || format!("{}: {}", self.place.path().display(), change.describe());
        let line = change.encode() + "\n";
        self.bytes += line.len() as u64;
        if self.bytes > LIMIT.bytes / 2 {
            // The other half is for marks.
            return Err(MachineError::Refused(format!("{}: the state file is full", what())));
        }
        self.file.write_all(line.as_bytes()).map_err(os(what()))?;
        if change.lasts() {
            self.file.sync_data().map_err(os(what()))?;
        }
        Ok(())
    }

    /// All is put back, but for the changes of these numbers out of so many: without any the file goes.
    pub fn finish(&mut self, left: &[usize], changes: usize) -> io::Result<()> {
        if left.is_empty() {
            return remove(&self.place);
        }
        let done = (0..changes).filter(|number| !left.contains(number));
        mark(&mut self.file, done)
    }
}

/// Marks changes as put back.
fn mark(file: &mut File, done: impl Iterator<Item = usize>) -> io::Result<()> {
    let mut text = String::new();
    done.for_each(|number| text += &format!("done {number}\n"));
    file.seek(SeekFrom::End(0))?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

fn remove(place: &Place) -> io::Result<()> {
    place.remove_file()?;
    place.dir().sync();
    Ok(())
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
    /// The file is still there.
    pub kept: bool,
}

/// What `repair` found.
#[derive(Clone, Debug, Default)]
pub struct Repair {
    /// Runs that have left something, and those at work.
    pub runs: Vec<Repaired>,
    /// Files and folders that are not believed.
    pub refused: Vec<Refused>,
}

/// Puts back what killed runs have left, wherever their files are; with `dry_run` only says what.
///
/// # Errors
///
/// There is no telling where the files are.
pub fn repair(dry_run: bool) -> Result<Repair, MachineError> {
    let mut all = Repair::default();
    for folder in folders()? {
        let Repair { runs, refused } = repair_in(&System::real(), &folder, dry_run);
        all.runs.extend(runs);
        all.refused.extend(refused);
    }
    Ok(all)
}

/// The same for the files of one folder.
pub fn repair_in(system: &System, folder: &Path, dry_run: bool) -> Repair {
    let dir = match store::open(folder) {
        Ok(Some(dir)) => dir,
        Ok(None) => return Repair::default(),
        Err(refused) => return Repair { runs: Vec::new(), refused: vec![refused] },
    };
    let hold = if dry_run { Hold::Shared } else { Hold::Alone };
    let (files, refused) = store::files(system, &dir, hold);
    let runs = files.into_iter().map(|file| repair_file(system, file, dry_run)).collect();
    Repair { runs, refused }
}

fn repair_file(system: &System, mut opened: OpenedState, dry_run: bool) -> Repaired {
    let rebooted = boot_id(system) != opened.read.boot;
    let entries = std::mem::take(&mut opened.read.entries);
    let due = |entry: &Entry| match &entry.change {
        Ok(change) => !entry.done && (!rebooted || change.lasts()),
        Err(_) => false,
    };
    let numbers: Vec<usize> = (0..entries.len()).filter(|&at| due(&entries[at])).collect();
    let changes: Vec<NotedChange> =
        numbers.iter().filter_map(|&at| entries[at].change.clone().ok()).collect();
    let mut report = report_of(system, &opened);
    report.changes = words(&changes, &[]);
    report.problems = entries.iter().filter_map(|entry| entry.change.clone().err()).collect();
    if opened.alive || dry_run {
        return report;
    }
    let (left, problems) = put_back(system, &changes);
    report.changes = words(&changes, &left);
    report.problems.extend(problems);
    let left: Vec<usize> = left.into_iter().map(|at| numbers[at]).collect();
    match settle(&mut opened, &entries, &left) {
        Ok(kept) => report.kept = kept,
        Err(error) => report.problems.push(format!("{}: {error}", report.file.display())),
    }
    report
}

/// What was put back is put back for good. Whether the file is still needed.
fn settle(opened: &mut OpenedState, entries: &[Entry], left: &[usize]) -> io::Result<bool> {
    if left.is_empty() && entries.iter().all(|entry| entry.change.is_ok()) {
        remove(&opened.place)?;
        return Ok(false);
    }
    // A line without its end would run into the marks.
    opened.file.set_len(opened.read.whole)?;
    let open = |at: &usize| entries[*at].change.is_ok() && !entries[*at].done && !left.contains(at);
    mark(&mut opened.file, (0..entries.len()).filter(open))?;
    Ok(true)
}

fn report_of(system: &System, opened: &OpenedState) -> Repaired {
    let Read { boot, pid, what, .. } = &opened.read;
    Repaired {
        file: opened.place.path(),
        what: what.clone(),
        pid: *pid,
        alive: opened.alive,
        rebooted: boot_id(system) != *boot,
        changes: Vec::new(),
        problems: Vec::new(),
        kept: true,
    }
}

/// Changes in words, the last first, but for those of these places.
fn words(changes: &[NotedChange], but: &[usize]) -> Vec<String> {
    let shown = |(at, change): &(usize, &NotedChange)| {
        !but.contains(at) && !matches!(change, NotedChange::Wrote { .. })
    };
    changes.iter().enumerate().rev().filter(shown).map(|(_, change)| change.describe()).collect()
}

/// A run that has changed this queue: one that is alive, or one that was killed, after which the settings are not
/// what they were.
///
/// # Errors
///
/// A file that is not believed may be about this queue, or not: nobody knows.
pub(super) fn changed_by(
    system: &System,
    folders: &[PathBuf],
    queue: &Path,
    alive: bool,
) -> Result<Option<Repaired>, Refused> {
    for folder in folders {
        let Some(dir) = store::open(folder)? else { continue };
        let (files, refused) = store::files(system, &dir, Hold::Shared);
        if let Some(refused) = refused.into_iter().next() {
            return Err(refused);
        }
        let touches = |entry: &Entry| {
            matches!(&entry.change, Ok(NotedChange::Queue { folder, .. }) if folder == queue)
                && !entry.done
        };
        let mut runs = files.iter().filter(|file| file.alive == alive);
        let run = runs.find(|file| {
            boot_id(system) == file.read.boot && file.read.entries.iter().any(touches)
        });
        if let Some(run) = run {
            return Ok(Some(report_of(system, run)));
        }
    }
    Ok(None)
}

/// Adds a change to a list; what now exists takes the place of the wish to make it.
pub(super) fn supersede(changes: &mut Vec<NotedChange>, change: NotedChange) {
    let wish = change.wish();
    match wish.and_then(|wish| changes.iter().rposition(|known| *known == wish)) {
        Some(at) => changes[at] = change,
        None => changes.push(change),
    }
}

/// A folder of what is obeyed later, which is made if it is missing: nobody else can change it.
#[cfg(feature = "fuse")]
pub(crate) fn make_state(folder: &Path) -> Result<Dir, MachineError> {
    store::make(folder)
}

/// The same; `None` if there is none.
#[cfg(feature = "fuse")]
pub(crate) fn open_state(folder: &Path) -> Result<Option<Dir>, MachineError> {
    store::open(folder).map_err(|refused| {
        MachineError::Lack(Lack::new(refused.path.display().to_string(), refused.why, ""))
    })
}

/// The text of a file in it, if nobody else can have written it.
#[cfg(feature = "fuse")]
pub(crate) fn read_state(file: &File) -> Result<String, String> {
    store::text_of(file)
}

fn head(system: &System, what: &str) -> String {
    let what = what.replace(char::is_control, " ");
    format!("hoistway-state 2\nboot {}\nowner {} {what}\n", boot_id(system), std::process::id())
}

fn boot_id(system: &System) -> String {
    system.text("/proc/sys/kernel/random/boot_id").unwrap_or_default()
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.why)
    }
}
