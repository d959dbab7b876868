//! What experiments run on: an emulated drive, a scratch file, a file, a block device.

use super::ledger::{Ledger, PAGE};
use super::machine::Processors;
use super::pattern::{PREPARED, UNKNOWN, ZERO, fill};
use super::ranges::Ranges;
use super::{disk, machine, turn};
use crate::{MachineError, os};
use hoistway::{Device, Instant, Nanos, Sectors};
use hoistway_run::{JobError, Outcome, ProcSpec};
use hoistway_serve::storage::{self, Emulation, EmulationFigures, FileOptions, Opened};
use hoistway_serve::system::Buffer;
use hoistway_sim::drive::DriveFile;
use hoistway_sim::host::Fs;
use hoistway_sim::load;
use hoistway_sim::world::{Job, Survey, survey};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};

/// Which storage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StorageTarget {
    /// The drive of each job, emulated over memory.
    Emulated,
    /// A file made for the runs, of which nothing is left afterwards.
    Scratch {
        /// Where.
        dir: PathBuf,
        /// Its size in bytes; it takes room only where the experiment's files lie.
        size: Option<u64>,
    },
    /// A file that exists.
    File(PathBuf),
    /// A block device.
    Device(PathBuf),
}

/// A file or device that is open for the runs.
#[derive(Debug)]
pub(super) struct Disk {
    /// What a backend opens.
    pub path: PathBuf,
    /// What people call it.
    pub name: String,
    /// Kept open, and (a device) for us alone.
    pub file: File,
    /// Keeps a file locked.
    pub _lock: Option<File>,
    pub options: FileOptions,
    /// What experiments see of it.
    pub drive: DriveFile,
    /// What it holds before anything is written: zeroes, or nobody knows.
    pub blank: bool,
    /// Free bytes where the file lies; `None` if no room has to be found.
    pub free: Option<u64>,
    pub warning: Option<String>,
}

/// Storage that experiments run on, one run at a time.
#[derive(Debug)]
pub struct Storage {
    /// `None`: the drives of the jobs are emulated.
    disk: Option<Disk>,
    state: Mutex<StorageState>,
    opened: Option<Processors>,
}

#[derive(Debug, Default)]
struct StorageState {
    /// What the disk holds.
    ledger: Option<Ledger>,
    /// Where experiments' files have been laid out.
    laid: Ranges,
    /// How requests reach it.
    reach: Option<String>,
    /// By drive.
    emulations: Vec<(String, EmulationFigures)>,
}

/// Share of stolen time from which results are doubtful.
const STOLEN: f64 = 0.01;
const HELD_UP: &str = "which holds processes up: a stream that stops lets others in. Repeat the run on a quiet \
                       machine before you compare it with another, or with the simulator";

/// Bytes laid out at once.
const STEP: u64 = 1 << 20;

impl Storage {
    /// Opens it. `destroy`: the file or device whose data may be overwritten, which must be the very one.
    ///
    /// # Errors
    ///
    /// When it cannot be used, is in use, or its data would be overwritten without leave.
    pub fn open(place: &StorageTarget, destroy: Option<&Path>) -> Result<Storage, MachineError> {
        let disk = match place {
            StorageTarget::Emulated | StorageTarget::Scratch { .. } if destroy.is_some() => {
                let what = "--yes-destroy-data goes with --file or --device, and names the same";
                return Err(MachineError::Refused(what.into()));
            }
            StorageTarget::Emulated => None,
            StorageTarget::Scratch { dir, size } => Some(disk::scratch(dir, *size)?),
            StorageTarget::File(path) => Some(disk::file(path, destroy)?),
            StorageTarget::Device(path) => Some(disk::device(path, destroy)?),
        };
        Ok(Storage { disk, state: Mutex::default(), opened: Processors::now() })
    }

    /// The drive that it is, unless drives are emulated.
    pub fn drive(&self) -> Option<&DriveFile> {
        self.disk.as_ref().map(|d| &d.drive)
    }

    /// Something a user should know at the start.
    pub fn warning(&self) -> Option<&str> {
        self.disk.as_ref().and_then(|d| d.warning.as_deref())
    }

    /// Refuses jobs that cannot be carried out: a drive faster than this machine, writes without leave,
    /// too little room.
    pub fn check(&self, jobs: &[Job<'_>]) -> Result<(), MachineError> {
        // The checks of what is read know a page of a file by its place.
        let moving = |job: &Job<'_>| matches!(job.host.fs(), Fs::Btrfs | Fs::Nilfs2);
        if jobs.iter().any(moving) {
            let what = "[host] fs: btrfs and nilfs2 move pages of files to new blocks, which the engine does \
                        not follow; use --on sim, or fs = \"ext4\"";
            return Err(MachineError::Refused(what.into()));
        }
        let scattered = |p: &ProcSpec| {
            p.params.get("interleave").and_then(|v| v.as_integer()).is_some_and(|n| n > 1)
        };
        if let Some(p) = jobs.iter().flat_map(|job| &job.procs).find(|p| scattered(p)) {
            let what = format!(
                "{}: interleave: the engine's files lie in one piece each; use --on sim, or leave it out",
                p.name
            );
            return Err(MachineError::Refused(what));
        }
        let Some(disk) = &self.disk else {
            let mut seen: Vec<&str> = Vec::new();
            for job in jobs {
                if !seen.contains(&job.drive.id.as_str()) {
                    seen.push(&job.drive.id);
                    storage::check_speed(&job.drive)?;
                }
            }
            return Ok(());
        };
        let mut ranges = Ranges::default();
        for job in jobs {
            let writer = job.procs.iter().find(|p| load::find(&p.load).is_ok_and(|l| l.writes));
            if let Some(writer) = writer
                && disk.options.read_only
            {
                return Err(MachineError::Refused(format!(
                    "{}: process {} writes to it; name it once more with --yes-destroy-data {} if \
                     everything on it may be lost",
                    disk.name, writer.name, disk.name
                )));
            }
            for (start, len) in disk.places(job)? {
                ranges.add(start, start + len);
            }
        }
        disk.check_room(&ranges)
    }

    /// Runs a job to its end. `watch` is called about every 50 ms with the time since the run began;
    /// `false` interrupts it.
    pub fn run(
        &self,
        job: &Job<'_>,
        watch: &mut dyn FnMut(Instant) -> bool,
    ) -> Result<Outcome, JobError> {
        let mut job = job.clone();
        job.host = job.host.without_cpu_time();
        let mut state = self.state.lock().expect(NO_PANIC);
        let pages = machine::memory_available() / 2 / PAGE;
        match &self.disk {
            None => {
                let emulation =
                    Emulation { seed: job.seed, ..Emulation::new(job.drive.clone().into_owned()) };
                let opened = storage::open_emulated(&emulation).map_err(|e| failed(e.into()))?;
                let opened = (&*format!("emulated {}", job.drive.id), opened);
                let (outcome, _) = turn::run(&job, opened, Ledger::new(ZERO), pages, watch);
                let (outcome, figures) = outcome?;
                if let Some(figures) = figures {
                    state.emulated(&job.drive.id, &figures);
                }
                Ok(outcome)
            }
            Some(disk) => {
                let state = &mut *state;
                let blank = if disk.blank { ZERO } else { UNKNOWN };
                let mut ledger = state.ledger.take().unwrap_or_else(|| Ledger::new(blank));
                if !disk.options.read_only {
                    let places = disk.places(&job).map_err(failed)?;
                    disk.lay_out(&places, &mut state.laid, &mut ledger, watch)?;
                }
                let opened = disk.open().map_err(failed)?;
                state.reach.get_or_insert_with(|| disk.reach(&opened));
                let opened = (&*disk.name, opened);
                let (outcome, ledger) = turn::run(&job, opened, ledger, pages, watch);
                if ledger.is_none() {
                    state.laid = Ranges::default();
                }
                state.ledger = ledger;
                outcome.map(|(outcome, _)| outcome).map_err(|error| disk.explained(error))
            }
        }
    }

    /// What a reader of the results must know: name and value.
    pub fn facts(&self) -> Vec<(String, String)> {
        let state = self.state();
        let mut rows = Vec::new();
        let mut row = |name: &str, value: String| rows.push((name.to_string(), value));
        match &self.disk {
            None => row("target", "drives emulated on the wall clock, over memory".into()),
            Some(disk) => {
                row("target", disk.name.clone());
                row("size", format!("{} bytes", disk.drive.identity.capacity_bytes));
                if let Some(reach) = &state.reach {
                    row("reached", reach.clone());
                }
                if let Some(warning) = &disk.warning {
                    row("warning", warning.clone());
                }
            }
        }
        for (drive, e) in &state.emulations {
            let us = |ns: u64| format!("{:.1} us", ns as f64 / 1e3);
            let text = format!(
                "{} commands; service time modelled {}, achieved {} (means); late by {} (median), {} (99 %)",
                e.commands,
                us(e.modelled_mean.0),
                us(e.achieved_mean.0),
                us(e.late_p50.0),
                us(e.late_p99.0)
            );
            row(&format!("emulation of {drive}"), text);
            if !e.kept_up() {
                row("warning", format!("{drive} answered late, {HELD_UP}"));
            }
        }
        if let (Some(then), Some(now)) = (self.opened, Processors::now()) {
            let stolen = now.stolen_since(&then);
            row("stolen", format!("{:.1} % of the processors' time (steal)", stolen * 100.0));
            if stolen >= STOLEN {
                row(
                    "warning",
                    format!("other sessions of this machine's host ran instead, {HELD_UP}"),
                );
            }
        }
        rows.extend(machine::facts());
        rows
    }

    fn state(&self) -> MutexGuard<'_, StorageState> {
        self.state.lock().expect(NO_PANIC)
    }
}

const NO_PANIC: &str = "nobody panics while holding the lock";

fn failed(error: MachineError) -> JobError {
    JobError::Storage { what: error.to_string() }
}

impl StorageState {
    /// Adds the figures of a run: means over all commands, lateness of the worst run.
    fn emulated(&mut self, drive: &str, run: &EmulationFigures) {
        let at = match self.emulations.iter().position(|(id, _)| id == drive) {
            Some(at) => at,
            None => {
                self.emulations.push((drive.to_string(), EmulationFigures::default()));
                self.emulations.len() - 1
            }
        };
        let e = &mut self.emulations[at].1;
        let all = e.commands + run.commands;
        let mean = |old: Nanos, new: Nanos| {
            let sum = u128::from(old.0) * u128::from(e.commands)
                + u128::from(new.0) * u128::from(run.commands);
            Nanos((sum / u128::from(all.max(1))) as u64)
        };
        *e = EmulationFigures {
            commands: all,
            modelled_mean: mean(e.modelled_mean, run.modelled_mean),
            achieved_mean: mean(e.achieved_mean, run.achieved_mean),
            late_p50: e.late_p50.max(run.late_p50),
            late_p99: e.late_p99.max(run.late_p99),
        };
    }
}

impl Disk {
    fn size(&self) -> u64 {
        self.drive.identity.capacity_bytes
    }

    /// Where the job's files lie: first byte and length.
    fn places(&self, job: &Job<'_>) -> Result<Vec<(u64, u64)>, MachineError> {
        let device = Device::new(Sectors(self.size() / 512), 128);
        let refused = |e: JobError| MachineError::Refused(e.to_string());
        let Survey { mut places, whole } = survey(job, device).map_err(refused)?;
        // Whoever reads a whole device takes it as it is; a file has holes, which cost nothing to read.
        if whole && self.free.is_some() {
            places.push((0, self.size()));
        }
        Ok(places)
    }

    fn check_room(&self, ranges: &Ranges) -> Result<(), MachineError> {
        let Some(free) = self.free else { return Ok(()) };
        let needed = ranges.bytes();
        if self.options.read_only || needed <= free {
            return Ok(());
        }
        let mb = |bytes: u64| bytes.div_ceil(1_000_000);
        let what = format!(
            "{}: the experiment's files need {} MB, {} MB are free; choose another place, or a smaller \
             device with --size, whose files are smaller",
            self.name,
            mb(needed),
            mb(free)
        );
        Err(MachineError::Os { what, error: std::io::ErrorKind::StorageFull.into() })
    }

    fn open(&self) -> Result<Opened, MachineError> {
        let mut opened = storage::open_file(&self.path, &self.options)?;
        opened.device.rotational = self.drive.identity.rotational;
        Ok(opened)
    }

    /// Whoever shortens the file of a run takes its data away: EIO alone would look like a broken disk.
    fn explained(&self, error: JobError) -> JobError {
        let JobError::Storage { what } = error else { return error };
        // A device says nothing by its metadata.
        let cut =
            self.file.metadata().ok().filter(|meta| meta.is_file() && meta.len() < self.size());
        let what = match cut {
            Some(meta) => format!(
                "{what}; it has {} of its {} bytes by now: somebody has shortened it during the run",
                meta.len(),
                self.size()
            ),
            None => what,
        };
        JobError::Storage { what }
    }

    /// Direct or buffered, by io_uring or threads.
    fn reach(&self, opened: &Opened) -> String {
        let path = format!("{}, ", self.path.display());
        let how = opened.facts.summary.strip_prefix(&path).unwrap_or(&opened.facts.summary);
        match &opened.facts.warning {
            Some(warning) => format!("{how}; {warning}"),
            None => how.to_string(),
        }
    }

    /// Writes the files of a job that are not there yet: what was never written is read without the
    /// storage having to do anything.
    fn lay_out(
        &self,
        places: &[(u64, u64)],
        laid: &mut Ranges,
        ledger: &mut Ledger,
        watch: &mut dyn FnMut(Instant) -> bool,
    ) -> Result<(), JobError> {
        let mut buffer = Buffer::zeroed(STEP as usize);
        let mut wrote = false;
        for &(start, len) in places {
            let (start, end) = (start / PAGE * PAGE, (start + len).next_multiple_of(PAGE));
            for (start, end) in laid.missing(start, end.min(self.size() / PAGE * PAGE)) {
                let mut at = start;
                while at < end {
                    if !watch(Instant::ZERO) {
                        return Err(JobError::Interrupted);
                    }
                    let bytes = &mut buffer[..(end - at).min(STEP) as usize];
                    fill(bytes, at, PREPARED);
                    let written = self.file.write_all_at(bytes, at);
                    written.map_err(os(self.name.clone())).map_err(failed)?;
                    let pages = at / PAGE..(at + bytes.len() as u64) / PAGE;
                    pages.for_each(|page| ledger.holds(page, PREPARED));
                    at += bytes.len() as u64;
                }
                laid.add(start, end);
                wrote = true;
            }
        }
        if wrote {
            self.file.sync_data().map_err(os(self.name.clone())).map_err(failed)?;
        }
        Ok(())
    }
}
