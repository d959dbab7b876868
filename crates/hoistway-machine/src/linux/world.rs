//! The world `linux`: jobs under a kernel of its own in virtual time, on any drive of the simulator.
//!
//! Each job is one run of the kernel ([`Boot`]): the guest's process 1 is this program ([`guest`](super::guest())), which
//! reads the job from a folder that host and guest have in common, runs it with the code of the world `kernel`, and
//! leaves the outcome there. Jobs are independent of each other and of the machine, so that several run at a time, and
//! the same job gives the same bytes.
//!
//! What the host's processors would have computed is charged as in the simulator (host.md 2.1), as far as the loads'
//! processes can pay it; the kernel itself takes no time.

use super::boot::{Boot, Ended, twice};
use super::format::Format;
use super::guest::{ERROR, JOB, OUTCOME, SURVEY, Task};
use super::kernels::{Kernel, find};
use super::survey::Survey;
use crate::MachineError;
use crate::kernel::{Lack, MAX_REQUEST, check_shared_memory, is_kernels};
use crate::{os, programs};
use hoistway::setting::Unit;
use hoistway::{Instant, Nanos};
use hoistway_run::{JobError, Outcome, decode, encode};
use hoistway_serve::Clock;
use hoistway_sim::drive::DriveFile;
use hoistway_sim::world::{Built, Job, build};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};

/// A kernel in virtual time.
#[derive(Debug)]
pub struct Linux {
    kernel: Kernel,
    format: Format,
    program: PathBuf,
    survey: OnceLock<Result<Survey, String>>,
    totals: Mutex<Totals>,
}

/// What all runs have cost so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Runs.
    pub runs: u64,
    /// Their time in the guests.
    pub virtual_time: Nanos,
    /// Their time on the wall clock, one after another.
    pub wall_time: Nanos,
    /// Requests that the drives were given.
    pub requests: u64,
}

/// Memory of a guest: as much as the simulated host has, up to this.
const MEMORY_MAX_MIB: u64 = 8192;
/// A guest that is only asked what it offers.
const MEMORY_SURVEY_MIB: u32 = 256;

impl Linux {
    /// The kernel of that name; `None`: the newest that is built.
    ///
    /// # Errors
    ///
    /// It is not built; the program that makes the file system is not there.
    pub fn open(name: Option<&str>, format: Format) -> Result<Linux, MachineError> {
        let kernel = find(name)?;
        if let Some(program) = format.program()
            && !programs::there(program)
        {
            let (what, remedy) = (format!("program {program}"), "install it");
            let why = format!("it makes the file system of --fs {}", format.name());
            return Err(MachineError::Lack(Lack::new(what, why, remedy)));
        }
        let program = std::env::current_exe().map_err(os("/proc/self/exe"))?;
        let (survey, totals) = (OnceLock::new(), Mutex::default());
        Ok(Linux { kernel, format, program, survey, totals })
    }

    /// The kernel.
    pub fn kernel(&self) -> &Kernel {
        &self.kernel
    }

    /// What all runs have cost so far.
    pub fn totals(&self) -> Totals {
        *self.totals.lock().expect(NO_PANIC)
    }

    /// What a reader of results must know: name and value.
    pub fn facts(&self) -> Vec<(String, String)> {
        let rows = [
            ("linux", self.kernel.release.as_str()),
            ("linux_build", &self.kernel.digest),
            ("file_system", self.format.name()),
        ];
        rows.map(|(name, value)| (name.to_string(), value.to_string())).into()
    }

    /// Refuses jobs that cannot be carried out under any configuration.
    ///
    /// # Errors
    ///
    /// With what to do instead.
    pub fn check(&self, jobs: &[Job<'_>]) -> Result<(), MachineError> {
        if let (Some(job), false) = (jobs.first(), self.format == Format::Raw) {
            let survey = self.survey(&job.drive).map_err(MachineError::Refused)?;
            if !survey.systems.iter().any(|s| s == self.format.name()) {
                return Err(MachineError::Lack(Lack::new(
                    format!("file system {}", self.format.name()),
                    format!("Linux {} was built without it", self.kernel.name),
                    "choose another with --fs",
                )));
            }
        }
        for job in jobs {
            let built =
                build(job, MAX_REQUEST).map_err(|e| MachineError::Refused(e.to_string()))?;
            self.check_layout(job, &built)?;
        }
        Ok(())
    }

    fn check_layout(&self, job: &Job<'_>, built: &Built) -> Result<(), MachineError> {
        let layout = built.host.layout();
        let name = |file: usize| &job.procs[built.owners[file]].name;
        let refuse =
            |file: usize, what: &str| Err(MachineError::Refused(format!("{}: {what}", name(file))));
        if let Some(file) = layout.iter().position(|f| f.in_pieces) {
            return refuse(file, "interleave: no file lies in pieces here; use --on sim");
        }
        let raw = self.format == Format::Raw;
        if let (Some(file), true) = (layout.iter().position(|f| !f.exists), raw) {
            return refuse(file, "makes files, and a disk has none; add --fs ext4");
        }
        if let (Some(file), false) = (layout.iter().position(|f| f.raw), raw) {
            return refuse(file, "reads the disk as a whole; leave out --fs");
        }
        check_shared_memory(job, built)
    }

    /// Why the configuration of a job cannot run under this kernel.
    pub fn lacks(&self, job: &Job<'_>) -> Option<Lack> {
        let name = format!("Linux {}", self.kernel.release);
        let job = match self.as_kernel_says(job) {
            Ok(job) => job,
            Err(lack) => return Some(lack),
        };
        match self.survey(&job.drive) {
            Ok(survey) => survey.lacks(&job, &name),
            Err(why) => {
                let remedy = "try again; if it stays, build the kernel again: hoistway linux build";
                Some(Lack::new(name, why, remedy))
            }
        }
    }

    /// The job without what the kernel's version decides: `base` of its own BFQ.
    fn as_kernel_says<'a>(&self, job: &Job<'a>) -> Result<Job<'a>, Lack> {
        let mut job = job.clone();
        if !is_kernels(job.scheduler.entry.name) {
            return Ok(job);
        }
        let spec = &mut job.scheduler;
        let base = spec.entry.tunables.iter().find(|t| t.name == "base");
        let Some(at) = spec.set.iter().position(|(name, _)| name == "base") else {
            return Ok(job);
        };
        let Some(Unit::Choice(words)) = base.map(|t| t.unit) else { return Ok(job) };
        let (_, value) = spec.set.remove(at);
        let word = words.get(value as usize).copied().unwrap_or_default();
        if is_base_of(word, &self.kernel.release) {
            return Ok(job);
        }
        Err(Lack::new(
            format!("base={word} of {}", spec.entry.name),
            format!("its rules here are those of Linux {}", self.kernel.release),
            "leave it out, or name another kernel: --on linux:NAME",
        ))
    }

    fn survey(&self, drive: &DriveFile) -> Result<&Survey, String> {
        let survey = self.survey.get_or_init(|| {
            let text = twice(&mut warn, || {
                let folder = GuestFolder::new()?;
                let boot = self.boot(drive, 1, MEMORY_SURVEY_MIB, &folder.0, Task::Survey, None);
                folder.answer(SURVEY, &boot.run(&mut || true)?)
            });
            decode(&text.map_err(|e| e.to_string())?).map_err(|e| e.to_string())
        });
        survey.as_ref().map_err(String::clone)
    }

    fn boot<'a>(
        &'a self,
        drive: &'a DriveFile,
        seed: u64,
        memory_mib: u32,
        folder: &Path,
        task: Task,
        record: Option<&Path>,
    ) -> Boot<'a> {
        let mut init: Vec<OsString> = vec![self.program.clone().into(), "linux-guest".into()];
        init.push(folder.into());
        init.extend(task.words().map(OsString::from));
        let record = record.map(Path::to_path_buf);
        Boot { kernel: &self.kernel, drive, seed, memory_mib, init, record }
    }

    /// Runs a job to its end; `watch` is asked now and then, and `false` interrupts it. A guest that dies is followed by
    /// one more, and a warning on stderr.
    ///
    /// # Errors
    ///
    /// What went wrong in the guest, or with it.
    pub fn run(
        &self,
        job: &Job<'_>,
        watch: &mut dyn FnMut(Instant) -> bool,
    ) -> Result<Outcome, JobError> {
        self.run_recorded(job, None, watch).map(|(outcome, _)| outcome)
    }

    /// The same, with every call into the scheduler recorded in a file; also how the guest ended.
    ///
    /// # Errors
    ///
    /// What went wrong in the guest, or with it.
    pub fn run_recorded(
        &self,
        job: &Job<'_>,
        record: Option<&Path>,
        watch: &mut dyn FnMut(Instant) -> bool,
    ) -> Result<(Outcome, Ended), JobError> {
        let storage = |what: String| JobError::Storage { what };
        let job = self.as_kernel_says(job).map_err(|lack| storage(lack.to_string()))?;
        let (clock, mut interrupted) = (Clock::new(), false);
        let mut watch = || {
            interrupted |= !watch(Instant::ZERO);
            !interrupted
        };
        let answer = twice(&mut warn, || self.attempt(&job, record, &mut watch));
        if interrupted {
            return Err(JobError::Interrupted);
        }
        let (text, ended) = answer.map_err(|e| storage(e.to_string()))?;
        let outcome = Outcome::decode(&text).map_err(|e| storage(e.to_string()))?;
        let mut totals = self.totals.lock().expect(NO_PANIC);
        totals.runs += 1;
        totals.virtual_time += ended.virtual_time;
        totals.wall_time += clock.now().since(Instant::ZERO);
        let requests = ended.requests;
        totals.requests += requests.reads + requests.writes + requests.flushes + requests.discards;
        drop(totals);
        Ok((outcome, ended))
    }

    /// One guest for a job; its outcome as it wrote it.
    fn attempt(
        &self,
        job: &Job<'_>,
        record: Option<&Path>,
        watch: &mut dyn FnMut() -> bool,
    ) -> Result<(String, Ended), MachineError> {
        let folder = GuestFolder::new()?;
        let file = folder.0.join(JOB);
        fs::write(&file, encode(job)).map_err(os(file.display().to_string()))?;
        let memory = (job.host.ram() >> 20).min(MEMORY_MAX_MIB) as u32;
        let task = Task::Run(self.format);
        let ended = self.boot(&job.drive, job.seed, memory, &folder.0, task, record).run(watch)?;
        Ok((folder.answer(OUTCOME, &ended)?, ended))
    }
}

fn warn(what: &str) {
    eprintln!("warning: {}", hoistway_files::shown::text(what));
}

const NO_PANIC: &str = "nobody panics while holding the lock";

/// Whether the rules that BFQ calls `word` are those of a release: the same version, or from it on where it ends in a
/// plus.
fn is_base_of(word: &str, release: &str) -> bool {
    let version = |text: &str| {
        let mut parts =
            text.split(|c: char| !c.is_ascii_digit()).map_while(|n| n.parse::<u32>().ok());
        Some((parts.next()?, parts.next()?))
    };
    match (version(word), version(release)) {
        (Some(word_is), Some(release)) if word.ends_with('+') => release >= word_is,
        (Some(word_is), Some(release)) => release == word_is,
        _ => false,
    }
}

/// A folder that a guest may write to, gone with this.
#[derive(Debug)]
struct GuestFolder(PathBuf);

impl GuestFolder {
    fn new() -> Result<GuestFolder, MachineError> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("hoistway-job-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).map_err(os(path.display().to_string()))?;
        Ok(GuestFolder(path))
    }

    /// What the guest has left there.
    fn answer(&self, name: &str, ended: &Ended) -> Result<String, MachineError> {
        if let Ok(text) = fs::read_to_string(self.0.join(name)) {
            return Ok(text);
        }
        if let Ok(why) = fs::read_to_string(self.0.join(ERROR)) {
            return Err(MachineError::Refused(why));
        }
        let lines: Vec<&str> = ended.console.lines().collect();
        let last = lines[lines.len().saturating_sub(CONSOLE)..].join("\n");
        let what = format!("the guest ended without an answer; its last lines:\n{last}");
        Err(MachineError::Guest(what))
    }
}

/// Lines of the console that are shown.
const CONSOLE: usize = 12;

impl Drop for GuestFolder {
    fn drop(&mut self) {
        // What cannot be deleted stays in the folder for temporary files.
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_of_bfq_belong_to_releases() {
        assert!(is_base_of("6.1", "6.1.170"));
        assert!(!is_base_of("6.1", "6.12.3") && !is_base_of("6.1", "6.2.0"));
        assert!(is_base_of("6.2+", "6.12.3") && is_base_of("6.2+", "6.2.0-rc1"));
        assert!(!is_base_of("6.2+", "6.1.170") && !is_base_of("hoistway", "6.1.170"));
    }

    #[test]
    fn what_a_guest_leaves_is_found_and_the_folder_goes() {
        let folder = GuestFolder::new().unwrap();
        let ended = Ended {
            console: "a\nKernel panic\n".into(),
            virtual_time: Nanos::ZERO,
            requests: Default::default(),
            digest: 0,
        };
        let error = folder.answer(OUTCOME, &ended).unwrap_err();
        assert!(matches!(&error, MachineError::Guest(why) if why.ends_with("a\nKernel panic")));
        fs::write(folder.0.join(ERROR), "no disk").unwrap();
        assert_eq!(folder.answer(OUTCOME, &ended).unwrap_err().to_string(), "no disk");
        fs::write(folder.0.join(OUTCOME), "x").unwrap();
        assert_eq!(folder.answer(OUTCOME, &ended).unwrap(), "x");
        let path = folder.0.clone();
        drop(folder);
        assert!(!path.exists());
    }
}
