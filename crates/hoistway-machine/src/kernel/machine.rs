//! The world `kernel`: jobs under the kernel's own schedulers and controllers, on a directory or a device.
//!
//! What is real: everything. What is the same as in the other worlds: the loads, their files' sizes and random choices
//! ([`build`]), when measuring begins and ends, and how calls become records ([`Recording`]).
//!
//! [`Machine::lacks`] says why a job's configuration cannot run here; [`Machine::check`] refuses what no configuration
//! could do. Every change of the machine goes through a [`Guard`]; settings stay changed between runs of a grid, and
//! are put back when the machine is dropped.
//!
//! [`Recording`]: hoistway_sim::world::Recording

use super::files::{FileStore, Filled, Folder};
use super::probe::{Probed, probe};
use super::run::{self, Run};
use super::state::SCRATCH;
use super::volume::{Volume, VolumeTarget, resolve};
use super::worker::MAX_REQUEST;
use super::{Conditions, Groups, Guard, Hierarchy, Lack, Queue, ours};
use crate::MachineError;
use crate::engine::drive_of;
use crate::engine::{device, machine};
use hoistway::Instant;
use hoistway::setting::{Tunable, Unit};
use hoistway_files::Dir;
use hoistway_run::{JobError, Outcome};
use hoistway_sim::drive::DriveFile;
use hoistway_sim::load;
use hoistway_sim::world::{Built, Job, build};
use std::ffi::OsString;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};

/// How a machine is to be used.
#[derive(Clone, Debug)]
pub struct MachineOptions {
    /// Size that experiments see of a directory; `None`: 16 GiB.
    pub size: Option<u64>,
    /// The device whose data may be lost.
    pub destroy: Option<PathBuf>,
    /// What is done, for the record of changes: the command.
    pub what: String,
    /// What the device is, where that is known: files lie on it where they lie in the simulator. `None`: as the machine
    /// tells.
    pub drive: Option<DriveFile>,
    /// The clock stands still while somebody computes: what the simulated host would have computed is slept, and
    /// nothing has to be written before it can be read.
    pub virtual_time: bool,
    /// The program, and its arguments, that carries out [`work`](super::work); the order and the processes follow.
    pub worker: Vec<OsString>,
}

impl Default for MachineOptions {
    fn default() -> MachineOptions {
        MachineOptions {
            size: None,
            destroy: None,
            what: "compare --on kernel".into(),
            drive: None,
            virtual_time: false,
            worker: vec!["/proc/self/exe".into(), "kernel-worker".into()],
        }
    }
}

/// A place under the kernel's schedulers, one run at a time.
#[derive(Debug)]
pub struct Machine {
    pub(super) place: Volume,
    pub(super) store: FileStore,
    pub(super) groups: Groups,
    pub(super) options: MachineOptions,
    drive: DriveFile,
    /// What the machine was like before anything was changed.
    rows: Vec<(String, String)>,
    state: Mutex<MachineState>,
    /// The directory, open: nobody can put another in its place.
    around: Option<Dir>,
    /// Keeps others off a device that is written to.
    _exclusive: Option<std::fs::File>,
}

#[derive(Debug, Default)]
struct MachineState {
    guard: Option<Guard>,
    filled: Filled,
    /// Tunables that each scheduler has here.
    tunables: Vec<(String, Vec<String>)>,
    /// What else went on during the runs.
    conditions: Noted,
}

/// Conditions of all runs so far.
#[derive(Debug, Default)]
pub(super) struct Noted {
    runs: u32,
    /// Of the last run.
    rows: Vec<(String, String)>,
    /// The first warning of each kind, and how many runs had one.
    warnings: Vec<(String, u32)>,
}

impl Noted {
    /// Adds those of a run.
    pub fn add(&mut self, conditions: Conditions) {
        // Warnings of one kind differ in their figures only.
        let kind = |text: &str| -> String {
            text.chars().filter(|c| !c.is_ascii_digit() && *c != '.').collect()
        };
        self.runs += 1;
        self.rows = conditions.rows;
        for text in conditions.flags {
            match self.warnings.iter_mut().find(|(known, _)| kind(known) == kind(&text)) {
                Some((_, runs)) => *runs += 1,
                None => self.warnings.push((text, 1)),
            }
        }
    }

    fn rows(&self) -> impl Iterator<Item = (String, String)> {
        let warning = |(text, runs): &(String, u32)| {
            (
                "warning".to_string(),
                format!("{text} (such a warning: {runs} of {} runs)", self.runs),
            )
        };
        self.rows.iter().cloned().chain(self.warnings.iter().map(warning))
    }
}

/// Size of a directory as experiments see it, if nothing else is said: above it files have their usual size
/// (experiments.md 3.1).
const SIZE: u64 = 16 << 30;
/// Smallest size: the simulated host's journal alone takes 128 MiB.
const LEAST: u64 = 300 << 20;

impl Machine {
    /// Finds the queues of a place and what they offer. Nothing is changed, and no rights are needed.
    ///
    /// # Errors
    ///
    /// A place where nothing schedules, or that must not be touched.
    pub fn open(target: &VolumeTarget, options: MachineOptions) -> Result<Machine, MachineError> {
        let place = resolve(target)?;
        let mut around = None;
        let (store, bytes, exclusive) = match target {
            VolumeTarget::Dir(dir) => {
                if options.destroy.is_some() {
                    let what = "--yes-destroy-data goes with --device, and names the same";
                    return Err(MachineError::Refused(what.into()));
                }
                around = Some(place.open_dir(dir)?);
                let folder = place.path.join(format!("{SCRATCH}{}", std::process::id()));
                let bytes = options.size.unwrap_or(SIZE) / 4096 * 4096;
                if bytes < LEAST {
                    return Err(MachineError::Refused(format!(
                        "{}: {bytes} bytes; choose at least {} MB with --size",
                        dir.display(),
                        LEAST / 1_000_000
                    )));
                }
                (FileStore::Folder(Folder::planned(folder)), bytes, None)
            }
            VolumeTarget::Device(_) => device_store(&place, options.destroy.as_deref())?,
        };
        let drive = match &options.drive {
            Some(drive) => drive.clone(),
            None => drive_of_queues(&place.queues, bytes),
        };
        let groups = Groups::open(&place.queues);
        let rows = rows(&place, &groups);
        Ok(Machine {
            store,
            groups,
            options,
            drive,
            rows,
            state: Mutex::default(),
            around,
            _exclusive: exclusive,
            place,
        })
    }

    /// The storage as experiments see a drive.
    pub fn drive(&self) -> &DriveFile {
        &self.drive
    }

    /// Where it is.
    pub fn place(&self) -> &Volume {
        &self.place
    }

    /// Why the configuration of a job cannot run here; the first reason found.
    pub fn lacks(&self, job: &Job<'_>) -> Option<Lack> {
        let name = job.scheduler.entry.name;
        for queue in &self.place.queues {
            if let Some(lack) = queue.lacks(name) {
                return Some(lack);
            }
        }
        self.lacks_tunable(name, &job.scheduler.set)
            .or_else(|| self.lacks_attribute(&job.scheduler.queue))
            .or_else(|| self.lacks_control(job))
    }

    /// The scheduler's settings that the kernel's does not have.
    fn lacks_tunable(&self, scheduler: &str, set: &[(String, u64)]) -> Option<Lack> {
        if set.is_empty() || !is_root() {
            // Only a chosen scheduler shows its tunables; choosing it needs root.
            return None;
        }
        let known = match self.tunables_of(scheduler) {
            Ok(known) => known,
            Err(error) => {
                let what = format!("scheduler {scheduler}");
                return Some(Lack::new(what, error.to_string(), ""));
            }
        };
        let missing = set.iter().find(|(name, _)| !known.contains(name))?;
        Some(Lack::new(
            format!("tunable {} of {scheduler}", missing.0),
            format!("the kernel's {scheduler} has {}", known.join(", ")),
            "leave it out, or use --on engine for hoistway's own scheduler",
        ))
    }

    /// Tunables of a scheduler here, found by choosing it once.
    fn tunables_of(&self, scheduler: &str) -> Result<Vec<String>, MachineError> {
        let mut state = self.state();
        if let Some((_, known)) = state.tunables.iter().find(|(name, _)| name == scheduler) {
            return Ok(known.clone());
        }
        let queue = &self.place.queues[0];
        let mut guard = Guard::begin(&self.options.what)?;
        guard.write(&queue.attribute_file("scheduler"), queue.called(scheduler))?;
        let known: Vec<String> = queue.tunables()?.into_iter().map(|(name, _)| name).collect();
        guard.restore().map_err(|problems| MachineError::Refused(problems.join("; ")))?;
        state.tunables.push((scheduler.to_string(), known.clone()));
        Ok(known)
    }

    fn lacks_attribute(&self, set: &[(String, u64)]) -> Option<Lack> {
        let names = || set.iter().map(|(name, _)| name);
        self.place.queues.iter().find_map(|q| names().find_map(|name| q.lacks_attribute(name)))
    }

    /// Controllers and groups.
    fn lacks_control(&self, job: &Job<'_>) -> Option<Lack> {
        for controller in &job.control.controllers {
            if controller.name == "wbt" {
                let mut queues = self.place.queues.iter();
                if let Some(lack) = queues.find_map(|q| q.lacks_attribute(run::WBT)) {
                    return Some(lack);
                }
            }
            if let Some((name, _)) = controller.set.iter().find(|(name, _)| name != "target") {
                return Some(Lack::new(
                    format!("tunable {name} of {}", controller.name),
                    "the kernel's has none of this name",
                    "leave it out, or use --on engine",
                ));
            }
        }
        let written = job.groups.iter().flat_map(|g| &g.write).chain(&job.control.root);
        for (file, _) in written {
            if let Some(lack) = self.groups.lacks(&ours::file_of(job, file)) {
                return Some(lack);
            }
        }
        for (name, _) in job.groups.iter().flat_map(|g| &g.set) {
            let file = ours::group_file(job.scheduler.entry.name, name);
            if let Some(lack) = self.groups.lacks(&file) {
                return Some(lack);
            }
        }
        let no_groups = !job.groups.is_empty() && self.groups.hierarchy == Hierarchy::None;
        no_groups.then(|| self.groups.lacks("io.weight")).flatten()
    }

    /// Refuses jobs that cannot be carried out here under any configuration.
    ///
    /// # Errors
    ///
    /// With what to do instead.
    pub fn check(&self, jobs: &[Job<'_>]) -> Result<(), MachineError> {
        if !is_root() {
            let queues: Vec<&str> = self.place.queues.iter().map(|q| q.name.as_str()).collect();
            let files = queues.iter().map(|name| format!("/sys/block/{name}/queue/scheduler"));
            return Err(MachineError::Lack(Lack::new(
                "root",
                format!("schedulers are chosen in {}", files.collect::<Vec<_>>().join(", ")),
                "run the command with sudo",
            )));
        }
        for job in jobs {
            let built =
                build(job, MAX_REQUEST).map_err(|e| MachineError::Refused(e.to_string()))?;
            self.check_layout(job, &built)?;
        }
        let needed = self.writes_first(jobs);
        if let Some(around) = &self.around {
            let free = free_in(around);
            if needed > free {
                let mb = |bytes: u64| bytes.div_ceil(1_000_000);
                let what = format!(
                    "{}: the experiment's files need {} MB, {} MB are free; choose another place, or a smaller \
                     --size, with which files are smaller",
                    self.place.path.display(),
                    mb(needed),
                    mb(free)
                );
                return Err(MachineError::Os {
                    what,
                    error: std::io::ErrorKind::StorageFull.into(),
                });
            }
        }
        Ok(())
    }

    /// Bytes of files that are written before the first run of each of these jobs.
    pub fn writes_first(&self, jobs: &[Job<'_>]) -> u64 {
        if !self.store.writable() {
            return 0;
        }
        let mut filled = self.state().filled.clone();
        let mut bytes = 0;
        for built in jobs.iter().filter_map(|job| build(job, MAX_REQUEST).ok()) {
            let places = self.store.places(&built.host.layout(), built.host.capacity());
            bytes += filled.assume(&self.store, &places, &run::blocks_of(&built));
        }
        bytes
    }

    fn check_layout(&self, job: &Job<'_>, built: &Built) -> Result<(), MachineError> {
        let refuse = |what: String| Err(MachineError::Refused(what));
        let layout = built.host.layout();
        let name = |file: usize| job.procs[built.owners[file]].name.as_str();
        if let Some(file) = layout.iter().position(|f| f.in_pieces) {
            return refuse(format!(
                "{}: interleave: where a file's pieces lie is the file system's business here; use --on sim",
                name(file)
            ));
        }
        if self.store.is_device() {
            if let Some(file) = layout.iter().position(|f| !f.exists) {
                return refuse(format!(
                    "{}: makes files, and a device has none; use --target-dir with a file system on it",
                    name(file)
                ));
            }
        } else if let Some(file) = layout.iter().position(|f| f.raw) {
            return refuse(format!("{}: reads the device as a whole; use --device", name(file)));
        }
        let writer = job.procs.iter().find(|p| load::find(&p.load).is_ok_and(|l| l.writes));
        if let (Some(writer), false) = (writer, self.store.writable()) {
            let path = self.place.path.display();
            return refuse(format!(
                "{path}: process {} writes to it; name it once more with --yes-destroy-data {path} if \
                 everything on it may be lost, or use --target-dir",
                writer.name
            ));
        }
        check_shared_memory(job, built)
    }

    /// Runs a job to its end. `watch` is called about every 20 ms with the time since the run began; `false`
    /// interrupts it.
    ///
    /// # Errors
    ///
    /// What went wrong with the storage or the workers.
    pub fn run(
        &self,
        job: &Job<'_>,
        watch: &mut dyn FnMut(Instant) -> bool,
    ) -> Result<Outcome, JobError> {
        let mut state = self.state();
        let MachineState { guard, filled, conditions, .. } = &mut *state;
        let guard = match guard {
            Some(guard) => guard,
            none => none.insert(self.begin().map_err(run::failed)?),
        };
        let run = Run { machine: self, job, guard, filled, conditions };
        run.execute(watch)
    }

    /// Measures what the place carries, about, by a file of its own that is deleted, or by reading the device.
    ///
    /// # Errors
    ///
    /// The system's.
    pub fn probe(&self) -> Result<Probed, MachineError> {
        let mut state = self.state();
        if state.guard.is_none() {
            state.guard = Some(self.begin()?);
        }
        let free = match &self.store {
            FileStore::Folder(_) => self.around.as_ref().map_or(0, free_in),
            FileStore::Device { .. } => u64::MAX,
        };
        let identity = &self.drive.identity;
        probe(&self.store, identity.capacity_bytes, free, identity.rotational)
    }

    /// From now on the machine is changed.
    fn begin(&self) -> Result<Guard, MachineError> {
        let mut guard = Guard::begin(&self.options.what)?;
        if let (FileStore::Folder(folder), Some(around)) = (&self.store, &self.around) {
            let name = folder.path.file_name().unwrap_or_default();
            folder.open(guard.make_dir(&around.place(name)?)?);
        }
        Ok(guard)
    }

    /// What a reader of the results must know: name and value.
    pub fn facts(&self) -> Vec<(String, String)> {
        let mut rows = self.rows.clone();
        rows.extend(self.state().conditions.rows());
        rows.extend(machine::facts());
        rows
    }

    fn state(&self) -> MutexGuard<'_, MachineState> {
        self.state.lock().expect("nobody panics while holding the lock")
    }
}

/// Bytes that files in a folder may take; 0: it does not tell.
fn free_in(folder: &Dir) -> u64 {
    let space = rustix::fs::fstatvfs(folder);
    space.map_or(0, |space| space.f_bavail.saturating_mul(space.f_frsize))
}

/// Refuses processes that have memory in common and are in several groups.
pub(crate) fn check_shared_memory(job: &Job<'_>, built: &Built) -> Result<(), MachineError> {
    let mut groups = built.sharers.iter().map(|&p| job.procs[p].group);
    if let Some(first) = groups.next()
        && !groups.all(|group| group == first)
    {
        let p = &job.procs[built.sharers[0]].name;
        return Err(MachineError::Refused(format!(
            "{p}: its processes have memory in common, so that they are threads of one process here, \
             which is in one group; choose a configuration without groups"
        )));
    }
    Ok(())
}

/// Schedulers, cgroups and I/O classes can be changed.
pub(super) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

type OfDevice = (FileStore, u64, Option<std::fs::File>);

/// A device that nobody else uses, or is only read.
fn device_store(place: &Volume, destroy: Option<&Path>) -> Result<OfDevice, MachineError> {
    let path = place.path.as_path();
    let name = path.display().to_string();
    let writable = crate::engine::allowed(path, destroy)?;
    let is_block = std::fs::metadata(path).is_ok_and(|m| m.file_type().is_block_device());
    if !is_block {
        return Err(MachineError::Refused(format!("--device {name}: is not a block device")));
    }
    device::check_unused(&device::identify(path)?, &name)?;
    let bytes = place.queues.first().map_or(0, |q| q.identity().bytes);
    let bytes = size_of(path).unwrap_or(bytes) / 4096 * 4096;
    if bytes < LEAST {
        let what = format!("--device {name}: {bytes} bytes; at least {} MB", LEAST / 1_000_000);
        return Err(MachineError::Refused(what));
    }
    let mut open = std::fs::OpenOptions::new();
    open.read(true).write(writable);
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut open, libc::O_EXCL);
    let exclusive = match open.open(path) {
        Ok(file) => Some(file),
        Err(e) if e.raw_os_error() == Some(libc::EBUSY) => {
            return Err(MachineError::Refused(format!("--device {name}: is in use")));
        }
        // Without rights what would run can still be told.
        Err(e) if e.kind() == std::io::ErrorKind::PermissionDenied && !is_root() => None,
        Err(error) => return Err(MachineError::Os { what: name, error }),
    };
    Ok((FileStore::Device { path: path.into(), writable }, bytes, exclusive))
}

/// Bytes of a device or partition, by sysfs: nothing has to be opened.
fn size_of(path: &Path) -> Option<u64> {
    let stat = rustix::fs::stat(path).ok()?;
    let number = format!("{}:{}", rustix::fs::major(stat.st_rdev), rustix::fs::minor(stat.st_rdev));
    let text = std::fs::read_to_string(format!("/sys/dev/block/{number}/size")).ok()?;
    Some(text.trim().parse::<u64>().ok()? * 512)
}

/// A device of this machine as a drive.
fn drive_of_queues(queues: &[Queue], bytes: u64) -> DriveFile {
    let first = &queues[0];
    let identity = first.identity();
    let id = identity.model.clone().unwrap_or_else(|| first.name.clone());
    let names: Vec<&str> = queues.iter().map(|q| q.name.as_str()).collect();
    let title = match &identity.model {
        Some(model) => format!("{model} ({})", names.join(", ")),
        None => names.join(", "),
    };
    let rotational = queues.iter().any(|q| q.identity().rotational == Some(true));
    let sector = identity.block_bytes.unwrap_or(512).clamp(512, 4096);
    drive_of(id.trim(), &title, bytes, sector, rotational)
}

/// Names that `recommend` and `merge` go by.
fn rows(place: &Volume, groups: &Groups) -> Vec<(String, String)> {
    let mut rows = Vec::new();
    let mut row = |name: &str, value: String| rows.push((name.to_string(), value));
    row("target", place.path.display().to_string());
    row("date", hoistway_serve::system::today());
    for line in place.describe().lines() {
        row("chain", line.to_string());
    }
    let queue = &place.queues[0];
    let identity = queue.identity();
    let names: Vec<&str> = place.queues.iter().map(|q| q.name.as_str()).collect();
    row("queue", names.join(" "));
    if let Some(model) = &identity.model {
        row("drive_model", model.trim().to_string());
    }
    row("drive_class", identity.class.clone());
    // Without FUSE this program acts out no drive.
    #[cfg(feature = "fuse")]
    if crate::emulator::is_emulated(place) {
        row("emulated", "by this machine's processors".into());
    }
    if let Some(hash) = &identity.serial_hash {
        row("drive_serial_hash", hash.clone());
    }
    if let Some(rotational) = identity.rotational {
        row("rotational", u8::from(rotational).to_string());
    }
    row("size", identity.bytes.to_string());
    row("hardware_queues", identity.hardware_queues.to_string());
    if let Ok(scheduler) = queue.scheduler() {
        row("present_scheduler", scheduler);
    }
    let tunables = queue.tunables().unwrap_or_default();
    let attributes = ["nr_requests", "read_ahead_kb", "nomerges", run::WBT];
    let attributes = attributes.iter().filter_map(|name| Some((*name, queue.attribute(name)?)));
    let all = tunables.into_iter().chain(attributes.map(|(n, v)| (n.to_string(), v)));
    let all: Vec<String> = all.map(|(name, value)| format!("{name}={value}")).collect();
    row("present_tunables", all.join(" "));
    row("cgroup", groups.word().into());
    if let Some(kind) = &place.file_system {
        row("file_system", kind.clone());
    }
    rows
}

/// A value in the words of the kernel's file, where ours are other words.
pub(super) fn in_kernel_words(tunable: Option<&Tunable>, value: u64) -> String {
    match tunable.map(|t| t.unit) {
        Some(Unit::Choice(words)) => {
            words.get(value as usize).map_or(value.to_string(), |w| w.to_string())
        }
        _ => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_of_one_kind_are_one_row_with_their_number() {
        let mut noted = Noted::default();
        for share in ["1.5", "20"] {
            let flags = vec![format!("{share} % of the traffic was not the run's")];
            let rows = vec![("device_ios".to_string(), share.to_string())];
            noted.add(Conditions { rows, flags });
        }
        noted.add(Conditions::default());
        noted.add(Conditions { rows: Vec::new(), flags: vec!["vda has gone".into()] });
        let rows: Vec<String> =
            noted.rows().map(|(name, text)| format!("{name}: {text}")).collect();
        assert_eq!(
            rows,
            [
                "warning: 1.5 % of the traffic was not the run's (such a warning: 2 of 4 runs)",
                "warning: vda has gone (such a warning: 1 of 4 runs)",
            ]
        );
    }
}
