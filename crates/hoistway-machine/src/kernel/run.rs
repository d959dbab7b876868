//! One run under the kernel's schedulers: prepare, start the workers, watch, collect.
//!
//! ```text
//!   files written once; dirty pages written, caches dropped
//!   scheduler chosen anew, settings, groups, controllers
//!   workers start and get ready
//!   |start----ramp----|begin ------- measured ------- end|---- grace ----|   all workers killed
//!                     device counters: begin, every interval, end
//! ```
//!
//! Records come from each worker in the order of its calls. They are counted once every worker's records up to that
//! time are in, since an exit may end measuring at a time that lies some milliseconds back.

use super::files::{FileAt, Fill, Filled, settle};
use super::machine::{Machine, Noted, in_kernel_words};
use super::others::{Moved, moved_by};
use super::reading::{MachineTime, Reading, bytes_of, commands_of, lateness};
use super::state::GROUP;
use super::ticks::next_whole_second;
use super::worker::MAX_REQUEST;
use super::worker::order::{Order, of_workers};
use super::worker::shared::{SharedMemory, WorkerState};
use super::worker::wire::Event;
use super::{Conditions, Diskstats, Guard, Lateness, System, Traffic, Watch, ours};
use crate::MachineError;
use crate::os;
use hoistway::{Instant, Nanos};
use hoistway_run::{
    DeviceRecord, Histogram, Interval, JobError, NamedFigure, Outcome, Role, encode,
};
use hoistway_serve::system::{Clock, monotonic};
use hoistway_sim::world::{Built, Job, Recording, build};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use std::collections::VecDeque;
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Target of write-back throttling, in sysfs.
pub(crate) const WBT: &str = "wbt_lat_usec";

/// How far the page cache reads ahead, in sysfs.
const READ_AHEAD: &str = "read_ahead_kb";

/// One run.
pub(super) struct Run<'a, 'j> {
    pub machine: &'a Machine,
    pub job: &'a Job<'j>,
    pub guard: &'a mut Guard,
    pub filled: &'a mut Filled,
    pub conditions: &'a mut Noted,
}

/// An error of the system as one of a run.
pub(super) fn failed(error: MachineError) -> JobError {
    JobError::Storage { what: error.to_string() }
}

/// What loads reach past the file system: first byte and length.
pub(super) fn blocks_of(built: &Built) -> Vec<(u64, u64)> {
    built.loads.iter().flat_map(|load| load.places()).collect()
}

/// How often the workers' records are read, and `watch` is asked.
const POLL: Duration = Duration::from_millis(20);
/// A record is in the ring that long after its call at the latest, unless a processor is not to be had.
const LAG: Nanos = Nanos::ms(60);
/// After the end of measuring a target that has no call open begins none any more.
const SETTLED: Nanos = Nanos::ms(50);
/// A reading is of the instant it was due when it came no later than that.
const PUNCTUAL: Nanos = Nanos::ms(1);
/// From the last worker being ready to the start, at least.
const RUN_UP: Nanos = Nanos::ms(30);
/// For workers to get ready: they build the loads of all.
const PATIENCE: Nanos = Nanos::secs(60);

impl Run<'_, '_> {
    pub fn execute(mut self, watch: &mut dyn FnMut(Instant) -> bool) -> Result<Outcome, JobError> {
        let built = build(self.job, MAX_REQUEST)?;
        let (store, capacity) = (&self.machine.store, built.host.capacity());
        let places = store.places(&built.host.layout(), capacity);
        let blocks = blocks_of(&built);
        let mut asked = || watch(Instant::ZERO);
        let data = if self.machine.options.virtual_time { Fill::Zero } else { Fill::Random };
        let filled = self.filled.fill(store, &places, &blocks, capacity, data, &mut asked);
        if !filled.map_err(failed)? {
            return Err(JobError::Interrupted);
        }
        settle(store, &places, capacity).map_err(failed)?;
        if self.machine.options.virtual_time {
            // Files belong to the group that writes to them first, not to ours, which has laid them out: their inodes are
            // forgotten. The machine is the run's own.
            super::put(Path::new("/proc/sys/vm/drop_caches"), "3").map_err(failed)?;
        }
        self.choose_scheduler().map_err(failed)?;
        // Groups last as long as the run; their guard is dropped after the workers.
        let mut groups = None;
        if !(self.job.groups.is_empty() && self.job.control.root.is_empty()) {
            groups = Some(Guard::begin(&self.machine.options.what).map_err(failed)?);
        }
        let folders = groups.as_mut().map(|groups| self.make_groups(groups)).transpose();
        let folders = folders.map_err(failed)?.unwrap_or_default();
        let programs = programs(self.job, &built);
        let shared = SharedMemory::new(self.job.procs.len());
        let shared = shared.map_err(|e| failed(os("shared memory")(e)))?;
        let order = self.order(&shared).map_err(failed)?;
        let mut workers = Workers { children: Vec::new(), programs };
        // Before the workers: whatever they read is counted on both sides.
        let conditions = Watch::begin(&self.machine.place);
        let begun = self.begin(&mut workers, &shared, &order, &folders, watch);
        let over = begun.and_then(|clock| {
            let watched = Watched::new(self.machine, self.job, &shared, clock, conditions)?;
            watched.watch(&mut workers, watch)
        });
        workers.end();
        let outcome = over.and_then(|watched| watched.finish(self.job));
        let tunables = self.tunables();
        let parameters = self.parameters(&places);
        let files = self.files(&folders);
        if let Some(Err(problems)) = groups.map(|mut groups| groups.restore()) {
            return Err(JobError::Storage { what: problems.join("; ") });
        }
        let mut outcome = outcome?;
        self.conditions.add(outcome.1);
        outcome.0.tunables = tunables;
        outcome.0.host_parameters = parameters;
        outcome.0.files = files;
        Ok(outcome.0)
    }

    /// A fresh scheduler on every queue, with the job's settings.
    fn choose_scheduler(&mut self) -> Result<(), MachineError> {
        let spec = &self.job.scheduler;
        let wbt = self.job.control.controllers.iter().find(|c| c.name == "wbt");
        for queue in &self.machine.place.queues {
            self.guard.hold(queue)?;
            // Nothing of what the run before has set is left, tags included.
            self.guard.reset(queue)?;
            if queue.attribute("iostats").is_some_and(|text| text == "0") {
                // Without them nobody knows what the device does.
                self.guard.write(&queue.attribute_file("iostats"), "1")?;
            }
            let file = queue.attribute_file("scheduler");
            let name = queue.called(spec.entry.name);
            // The same name again would change nothing: what it has learnt must be gone.
            let away = if name == "none" { "mq-deadline" } else { "none" };
            if queue.scheduler()? == name && queue.schedulers()?.iter().any(|name| name == away) {
                self.guard.write(&file, away)?;
            }
            self.guard.write(&file, name)?;
            let now = queue.scheduler()?;
            if now != name {
                return Err(MachineError::Refused(format!(
                    "{}: {name} was chosen, and {now} is in force; something (a udev rule) changed it",
                    queue.name
                )));
            }
            let ahead = queue.attribute(READ_AHEAD);
            for (name, value) in &spec.queue {
                self.guard.write(&queue.attribute_file(name), &value.to_string())?;
            }
            // The kernel derives it anew when the largest request changes.
            if let Some(ahead) = ahead.filter(|a| queue.attribute(READ_AHEAD).as_ref() != Some(a)) {
                self.guard.write(&queue.attribute_file(READ_AHEAD), &ahead)?;
            }
            for (name, value) in &spec.set {
                let tunable = spec.entry.tunables.iter().find(|t| t.name == *name);
                // The module knows numbers, no words.
                let tunable = tunable.filter(|_| !ours::has(spec.entry.name));
                let text = in_kernel_words(tunable, *value);
                self.guard.write(&queue.tunable_file(name), &text)?;
            }
            if queue.attribute(WBT).is_some() {
                // A configuration says what throttles; the kernel's default would be on in most.
                let target = wbt.map(|wbt| wbt.set.iter().find(|(name, _)| name == "target"));
                let value = match target {
                    None => "0".to_string(),
                    Some(None) => "-1".to_string(),
                    Some(Some((_, us))) => us.to_string(),
                };
                self.guard.write(&queue.attribute_file(WBT), &value)?;
            }
        }
        Ok(())
    }

    /// The job's groups, with what is set on them; folders in order.
    fn make_groups(&self, guard: &mut Guard) -> Result<Vec<PathBuf>, MachineError> {
        let (groups, job) = (&self.machine.groups, self.job);
        let root = groups.root();
        for (file, line) in &job.control.root {
            groups.write(guard, &root, file, line)?;
        }
        let mut folders: Vec<PathBuf> = Vec::with_capacity(job.groups.len());
        for spec in &job.groups {
            let (parent, name) = match spec.parent {
                Some(p) => (folders[p].clone(), spec.name.clone()),
                None => (root.clone(), format!("{GROUP}{}-{}", std::process::id(), spec.name)),
            };
            let folder = groups.make(guard, &parent, &name)?;
            for (name, value) in &spec.set {
                let file = ours::group_file(job.scheduler.entry.name, name);
                groups.write(guard, &folder, &file, &value.to_string())?;
            }
            for (file, line) in &spec.write {
                groups.write(guard, &folder, &ours::file_of(job, file), line)?;
            }
            folders.push(folder);
        }
        Ok(folders)
    }

    /// What the files of the root and of the job's groups print.
    fn files(&self, folders: &[PathBuf]) -> Vec<(String, String, String)> {
        if folders.is_empty() && self.job.control.root.is_empty() {
            return Vec::new();
        }
        let groups = &self.machine.groups;
        let mut places = vec![("/".to_string(), groups.root())];
        for (spec, folder) in self.job.groups.iter().zip(folders) {
            // A parent comes before its children.
            let above = spec.parent.map_or("", |parent| places[1 + parent].0.as_str());
            places.push((format!("{above}/{}", spec.name), folder.clone()));
        }
        let of_group = |(path, folder): (String, PathBuf)| {
            let texts = groups.texts(&folder).into_iter();
            texts.map(move |(file, text)| (path.clone(), file, text))
        };
        places.into_iter().flat_map(of_group).collect()
    }

    /// The order for the workers, where they can read it.
    fn order(&self, shared: &SharedMemory) -> Result<OwnedFd, MachineError> {
        let order = Order {
            shared: shared.path(),
            store: self.machine.store.encode(),
            virtual_time: self.machine.options.virtual_time,
            job: of_workers(self.job, self.machine.drive()),
        };
        let file = memfd_create("hoistway-order", MemfdFlags::CLOEXEC);
        let mut file = File::from(file.map_err(os("shared memory"))?);
        file.write_all(encode(&order).as_bytes()).map_err(os("shared memory"))?;
        Ok(file.into())
    }

    /// Starts the workers; once all are ready, says when the run starts.
    fn begin(
        &mut self,
        workers: &mut Workers,
        shared: &SharedMemory,
        order: &OwnedFd,
        folders: &[PathBuf],
        watch: &mut dyn FnMut(Instant) -> bool,
    ) -> Result<Clock, JobError> {
        let order = format!("/proc/{}/fd/{}", std::process::id(), order.as_raw_fd());
        let program = &self.machine.options.worker;
        for procs in workers.programs.clone() {
            let mut command = Command::new(&program[0]);
            command.args(&program[1..]).arg(&order);
            command.args(procs.iter().map(usize::to_string));
            // A group of its own: Ctrl-C is the coordinator's business.
            command.stdin(Stdio::null()).stdout(Stdio::null()).process_group(0);
            let child = command.spawn();
            let child = child.map_err(|e| failed(os(program[0].to_string_lossy())(e)))?;
            let pid = child.id();
            // It dies with this thread: nothing has to be remembered for `restore`.
            workers.children.push(child);
            if let Some(group) = self.job.procs[procs[0]].group {
                self.machine.groups.join(&folders[group], pid).map_err(failed)?;
            }
        }
        let all = 0..self.job.procs.len();
        let since = Clock::new();
        while !all.clone().all(|p| shared.state(p) == WorkerState::Ready) {
            if !watch(Instant::ZERO) {
                return Err(JobError::Interrupted);
            }
            self.check_failed(shared)?;
            workers.check(shared)?;
            if since.now() > Instant::ZERO + PATIENCE {
                let what =
                    format!("the workers were not ready after {} s", PATIENCE.as_ms() / 1000);
                return Err(JobError::Storage { what });
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        let start = match self.machine.options.virtual_time {
            true => next_whole_second(RUN_UP).map_err(failed)?,
            false => monotonic() + RUN_UP.0,
        };
        shared.set_start(start);
        let clock = Clock::starting_at(start);
        clock.sleep_until(Instant::ZERO);
        Ok(clock)
    }

    fn check_failed(&self, shared: &SharedMemory) -> Result<(), JobError> {
        check_failed(self.job, shared)
    }

    /// Tunables in force, of the first queue, as far as they are numbers.
    fn tunables(&self) -> Vec<(String, u64)> {
        let rows = self.machine.place.queues[0].tunables().unwrap_or_default();
        rows.into_iter().filter_map(|(name, text)| Some((name, text.parse().ok()?))).collect()
    }

    /// What else was in force.
    fn parameters(&self, places: &[FileAt]) -> Vec<(String, String)> {
        let queue = &self.machine.place.queues[0];
        let names =
            ["nr_requests", "nomerges", "max_sectors_kb", "read_ahead_kb", "rotational", WBT];
        let attribute = |name: &&str| Some((name.to_string(), queue.attribute(name)?));
        let mut rows: Vec<(String, String)> = names.iter().filter_map(attribute).collect();
        let bytes: u64 = places.iter().filter(|p| p.exists && !p.raw).map(|p| p.bytes).sum();
        rows.push(("files_mib".into(), (bytes >> 20).to_string()));
        for name in ["dirty_background_ratio", "dirty_ratio"] {
            let text = std::fs::read_to_string(format!("/proc/sys/vm/{name}")).unwrap_or_default();
            rows.push((name.into(), text.trim().to_string()));
        }
        let kind = self.machine.place.file_system.clone();
        rows.push(("file_system".into(), kind.unwrap_or_else(|| "none (device)".into())));
        rows
    }
}

/// Which processes of the job each process of the kernel carries out: one, or all that have memory in common.
fn programs(job: &Job<'_>, built: &Built) -> Vec<Vec<usize>> {
    let alone = (0..job.procs.len()).filter(|p| !built.sharers.contains(p)).map(|p| vec![p]);
    let together = Some(built.sharers.clone()).filter(|all| !all.is_empty());
    alone.chain(together).collect()
}

fn check_failed(job: &Job<'_>, shared: &SharedMemory) -> Result<(), JobError> {
    for (p, spec) in job.procs.iter().enumerate() {
        if shared.state(p) == WorkerState::Failed {
            let what = format!("{}: {}", spec.name, shared.complaint(p));
            return Err(JobError::Storage { what });
        }
    }
    Ok(())
}

/// Processes that are killed when this is dropped.
struct Workers {
    children: Vec<Child>,
    programs: Vec<Vec<usize>>,
}

impl Workers {
    /// A worker that is gone without a word.
    fn check(&mut self, shared: &SharedMemory) -> Result<(), JobError> {
        for (child, procs) in self.children.iter_mut().zip(&self.programs) {
            if !has_ended(child) {
                continue;
            }
            let said =
                |p: &usize| !matches!(shared.state(*p), WorkerState::Starting | WorkerState::Ready);
            if !procs.iter().all(said) {
                let status = child.wait().map_or_else(|e| e.to_string(), |s| s.to_string());
                let what = format!("worker {} ended by itself: {status}", child.id());
                return Err(JobError::Storage { what });
            }
        }
        Ok(())
    }

    /// Processor time that all have had, in ns.
    fn processor_time(&self) -> u64 {
        self.children.iter().map(|child| processor_time(child.id())).sum()
    }

    /// What all have read and written, as the kernel accounts for it: reads when they are sent, buffered writes when
    /// pages become dirty. Those that have ended are still there ([`has_ended`]).
    fn traffic(&self) -> Traffic {
        let processes: Vec<u32> = self.children.iter().map(Child::id).collect();
        let mut moved = Moved::default();
        for of in processes.iter().filter_map(|&pid| moved_by(&System::real(), pid)) {
            moved.read += of.read;
            moved.written += of.written;
        }
        Traffic { moved, processes }
    }

    /// Kills and reaps them.
    fn end(&mut self) {
        // A worker that has ended by itself cannot be killed.
        self.children.iter_mut().for_each(|child| drop(child.kill()));
        self.children.iter_mut().for_each(|child| drop(child.wait()));
        self.children.clear();
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.end();
    }
}

/// It has ended. It is not waited for: with that its counters would be gone, and what a target has read that ends with
/// the measuring would seem to be somebody else's.
fn has_ended(child: &Child) -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    let pid = Pid::from_child(child);
    waitid(WaitId::Pid(pid), options).is_ok_and(|status| status.is_some())
}

/// Processor time of a process and its threads, in ns; 0 once it has been reaped.
fn processor_time(pid: u32) -> u64 {
    let mut clock: libc::clockid_t = 0;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: both write to variables of ours.
    unsafe {
        if libc::clock_getcpuclockid(pid as libc::pid_t, &mut clock) != 0
            || libc::clock_gettime(clock, &mut time) != 0
        {
            return 0;
        }
    }
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The counters at the times that count.
#[derive(Default)]
struct Readings {
    /// Before the first process starts.
    first: Reading,
    /// When measuring begins, and ends.
    begun: Option<Reading>,
    ended: Option<Reading>,
    /// At the end of each interval of the device.
    each: Vec<Reading>,
}

/// A run that is watched.
struct Watched<'a, 'j> {
    machine: &'a Machine,
    job: &'a Job<'j>,
    shared: &'a SharedMemory,
    clock: Clock,
    recording: Recording,
    /// Records that are not counted yet, with what the device had moved when they were read.
    waiting: Vec<VecDeque<(Event, u64)>>,
    exited: Vec<Option<Instant>>,
    watch: Option<Watch>,
    conditions: Conditions,
    readings: Readings,
    /// The device when the records were taken last.
    seen: (Instant, Diskstats),
    end: Instant,
}

impl<'a, 'j> Watched<'a, 'j> {
    fn new(
        machine: &'a Machine,
        job: &'a Job<'j>,
        shared: &'a SharedMemory,
        clock: Clock,
        watch: Watch,
    ) -> Result<Watched<'a, 'j>, JobError> {
        let procs = job.procs.len();
        let recording = Recording::new(job)?;
        let end = recording.end();
        let mut watched = Watched {
            machine,
            job,
            shared,
            clock,
            recording,
            waiting: (0..procs).map(|_| VecDeque::new()).collect(),
            exited: vec![None; procs],
            watch: Some(watch),
            conditions: Conditions::default(),
            readings: Readings::default(),
            seen: Default::default(),
            end,
        };
        watched.readings.first = watched.read(None)?;
        watched.seen = (watched.readings.first.at, watched.readings.first.device);
        Ok(watched)
    }

    /// The counters of all queues, and when they were read: this process may wait for a processor in between.
    fn diskstats(&self) -> Result<(Instant, Diskstats), JobError> {
        let mut tries = 0;
        loop {
            let before = self.clock.now();
            let mut device = Diskstats::default();
            for queue in &self.machine.place.queues {
                device = device.plus(&queue.diskstats().map_err(failed)?);
            }
            let now = self.clock.now();
            tries += 1;
            if now.since(before) < PUNCTUAL || tries == 5 {
                return Ok((now, device));
            }
        }
    }

    fn read(&self, workers: Option<&Workers>) -> Result<Reading, JobError> {
        let (at, device) = self.diskstats()?;
        Ok(Reading {
            at,
            device,
            commands: commands_of(&device),
            workers: workers.map_or(0, Workers::processor_time),
            machine: MachineTime::now(),
            late: lateness(&self.machine.place),
        })
    }

    /// The counters at `due`, which has just been. Where this process got a processor late, the device's are taken to
    /// have grown evenly since they were seen last: what the processes did is counted to the instant, too.
    fn read_at(&self, due: Instant, workers: Option<&Workers>) -> Result<Reading, JobError> {
        let mut reading = self.read(workers)?;
        let (seen, device) = &self.seen;
        if reading.at.since(due) > PUNCTUAL && *seen < due {
            let part = due.since(*seen).0 as f64 / reading.at.since(*seen).0 as f64;
            reading.device = device.towards(&reading.device, part);
            reading.at = due;
        }
        Ok(reading)
    }

    /// Until everything that counts is over.
    fn watch(
        mut self,
        workers: &mut Workers,
        watch: &mut dyn FnMut(Instant) -> bool,
    ) -> Result<Self, JobError> {
        let (begin, interval) = (self.recording.begin(), self.job.window.device_interval);
        loop {
            let now = self.clock.now();
            if !watch(now) {
                return Err(JobError::Interrupted);
            }
            check_failed(self.job, self.shared)?;
            workers.check(self.shared)?;
            if now >= begin && self.readings.begun.is_none() {
                self.readings.begun = Some(self.read_at(begin, Some(workers))?);
            }
            let mut next_interval =
                begin + Nanos(interval.0 * (self.readings.each.len() as u64 + 1));
            while now >= next_interval && next_interval <= self.end {
                self.readings.each.push(self.read_at(next_interval, None)?);
                next_interval += interval;
            }
            let seen = self.take()?;
            self.count(now);
            if now >= self.end && self.readings.ended.is_none() {
                self.readings.ended = Some(self.read_at(self.end, Some(workers))?);
                self.leave_open();
            }
            // Not before: what was due in this round is taken from the round before.
            self.seen = seen;
            if now >= self.end && self.is_over(now) {
                self.take()?;
                self.censor(now);
                let ours = || Some(workers.traffic());
                self.conditions = self.watch.take().map(|w| w.end(ours)).unwrap_or_default();
                return Ok(self);
            }
            let mut until = now + Nanos(POLL.as_nanos() as u64);
            for due in [begin, self.end, next_interval] {
                if due > now {
                    until = until.min(due);
                }
            }
            self.clock.sleep_until(until);
        }
    }

    /// Takes what the workers have recorded; returns what the device has done by then.
    fn take(&mut self) -> Result<(Instant, Diskstats), JobError> {
        let seen = self.diskstats()?;
        let now = bytes_of(&seen.1);
        let moved =
            self.readings.begun.map_or(0, |begun| now.saturating_sub(bytes_of(&begun.device)));
        for (p, waiting) in self.waiting.iter_mut().enumerate() {
            let exited = &mut self.exited[p];
            self.shared.take(p, |raw| match Event::decode(&raw) {
                Some(Event::Exited(at)) => *exited = Some(at),
                Some(event) => waiting.push_back((event, moved)),
                None => unreachable!("workers are of this program"),
            });
        }
        let measured = |p: &usize| self.job.procs[*p].role == Role::Target;
        let mut who: Vec<usize> = (0..self.exited.len()).filter(measured).collect();
        if who.is_empty() {
            who = (0..self.exited.len()).collect();
        }
        if let Some(ends) = who.iter().map(|&p| self.exited[p]).collect::<Option<Vec<_>>>()
            && let Some(&last) = ends.iter().max()
            && last < self.end
        {
            self.recording.cut(last);
            self.end = self.recording.end();
        }
        Ok(seen)
    }

    /// Counts what is surely complete.
    fn count(&mut self, now: Instant) {
        let sure = Instant::from_nanos(now.as_nanos().saturating_sub(LAG.0));
        self.count_until(Some(sure));
    }

    fn count_until(&mut self, sure: Option<Instant>) {
        for (p, waiting) in self.waiting.iter_mut().enumerate() {
            while let Some(&(event, moved)) = waiting.front() {
                if sure.is_some_and(|sure| event.at() >= sure) {
                    break;
                }
                waiting.pop_front();
                match event {
                    Event::Ran(ran) => self.recording.ran(p, &ran),
                    Event::Noticed(at, notice) => {
                        self.recording.told(self.job, at, p, notice, moved)
                    }
                    Event::Exited(_) => {}
                }
            }
        }
    }

    /// Measuring has ended: what is open now counts as waiting.
    fn leave_open(&mut self) {
        for (p, spec) in self.job.procs.iter().enumerate() {
            let began = self.shared.began(p).map(Instant::from_nanos);
            if let Some(began) = began.filter(|&began| began < self.end)
                && spec.role != Role::Target
            {
                self.recording.left_open(p, began);
            }
        }
    }

    /// No target has a call open that began while measuring went on, or the grace is over.
    fn is_over(&self, now: Instant) -> bool {
        if now >= self.end + self.job.window.grace {
            return true;
        }
        // A target between two calls sees at once that its time is over; one that computes has none to end.
        let settled = now >= self.end + SETTLED;
        let busy = |p: usize| {
            self.job.procs[p].role == Role::Target
                && self.shared.state(p) == WorkerState::Ready
                && (self.shared.began(p).is_some() || !settled)
        };
        !(0..self.job.procs.len()).any(busy)
    }

    /// The grace is over and a target's last call is not.
    fn censor(&mut self, now: Instant) {
        for (p, spec) in self.job.procs.iter().enumerate() {
            if spec.role == Role::Target
                && self.shared.state(p) == WorkerState::Ready
                && let Some(began) = self.shared.began(p).map(Instant::from_nanos)
            {
                self.recording.censored(p, began, now);
            }
        }
    }

    /// What has been counted, once the workers are gone.
    fn finish(mut self, job: &Job<'_>) -> Result<(Outcome, Conditions), JobError> {
        self.take()?;
        self.count_until(None);
        let last = self.read(None)?;
        let begun = self.readings.begun.unwrap_or(self.readings.first);
        let ended = self.readings.ended.unwrap_or(last);
        let measured = self.recording.end() - self.recording.begin();
        let device = self.device(&begun, &ended);
        let requests = (ended.commands - begun.commands).max(1);
        let figure = |name: &str, value: u64| NamedFigure {
            name: name.into(),
            of: None,
            value: i64::try_from(value).unwrap_or(i64::MAX),
        };
        let processors = ended.machine.since(&begun.machine);
        self.conditions.processors(processors.busy, processors.idle);
        let of_processors = vec![
            figure("workers_cpu_ns", ended.workers.saturating_sub(begun.workers)),
            figure("machine_cpu_ns", processors.busy),
            figure("machine_idle_ns", processors.idle),
            figure("machine_interrupt_ns", processors.interrupts),
            figure("machine_cpu_ns_per_request", processors.busy / requests),
        ];
        let of_drive = begun.late.zip(ended.late).map(|(then, now)| {
            let Lateness { modelled_ns, late_ns } = now.since(&then);
            self.conditions.emulated_drive(modelled_ns, late_ns);
            [figure("drive_modelled_ns", modelled_ns), figure("drive_late_ns", late_ns)]
        });
        // A processor that takes no time has nothing to tell.
        let virtual_time = self.machine.options.virtual_time;
        let mut host_figures = if virtual_time { Vec::new() } else { of_processors };
        host_figures.extend(of_drive.into_iter().flatten());
        let (begin, now) = (self.recording.begin(), self.clock.now());
        let (first, total) = (self.readings.first.device, commands_of(&last.device));
        let (procs, marks) = self.recording.finish(job);
        let outcome = Outcome {
            procs,
            device,
            measured: job.window.measured.min(measured),
            marks,
            host_figures,
            begin,
            end: now,
            commands_total: total - commands_of(&first),
            ..Outcome::default()
        };
        Ok((outcome, self.conditions))
    }

    /// The device while measuring went on. Which commands followed each other, and how long each took at the device,
    /// the kernel does not count; requests under way include those that wait in the scheduler.
    fn device(&self, begun: &Reading, ended: &Reading) -> DeviceRecord {
        let (a, b) = (&begun.device, &ended.device);
        let [busy_ms, queue_ms] = b.times_since(a);
        let length = ended.at.since(begun.at).0.max(1) as f64;
        let mut intervals = Vec::with_capacity(self.readings.each.len());
        let mut before = a;
        for (i, reading) in self.readings.each.iter().enumerate() {
            if reading.at > ended.at + Nanos::ms(1) {
                break;
            }
            intervals.push(Interval {
                at: Nanos(self.job.window.device_interval.0 * i as u64),
                bytes: bytes_of(&reading.device).saturating_sub(bytes_of(before)),
                ios: (reading.device.reads + reading.device.writes)
                    .saturating_sub(before.reads + before.writes),
            });
            before = &reading.device;
        }
        DeviceRecord {
            read_bytes: b.read_bytes - a.read_bytes,
            written_bytes: b.write_bytes - a.write_bytes,
            commands: commands_of(b) - commands_of(a),
            flushes: b.flushes - a.flushes,
            sequential: 0,
            merges: b.read_merges + b.write_merges - a.read_merges - a.write_merges,
            utilisation: (busy_ms as f64 * 1e6 / length).min(1.0),
            depth: queue_ms as f64 * 1e6 / length,
            intervals,
            device_time: Histogram::new(),
        }
    }
}
