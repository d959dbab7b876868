//! What runs inside the guest: this very program, by the guest's root, which is the host's.
//!
//! **Process 1** mounts what a Linux has (`proc`, `sysfs`, `devtmpfs`, `cgroup2`, a `tmpfs` at `/run`) and the folder that
//! host and guest have in common, starts itself once more, waits for it, and powers off whatever has become of it: a
//! process 1 that ended would be a kernel panic.
//!
//! **Its child** reads the job, and carries it out by the code of the world `kernel` ([`Machine`]) on `/dev/hw0`, with
//! workers that are processes of the guest. What differs is the clock, which moves only while everybody sleeps: what
//! the simulated host computes is slept by the workers. Then it writes the outcome, or what went wrong.
//!
//! ```text
//!   job.json       in    the job
//!   outcome.json   out   what it yielded
//!   survey.json    out   what the kernel offers, of the task `survey`
//!   error.txt      out   why there is neither
//! ```

use super::format::Format;
use super::survey;
use crate::kernel::{Machine, MachineOptions, VolumeTarget, put};
use crate::{MachineError, os};
use hoistway_run::decode;
use hoistway_sim::host::HostConfig;
use hoistway_sim::world::Job;
use rustix::mount::{MountFlags, mount};
use std::ffi::CString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

/// The disk.
pub(super) const DISK: &str = "/dev/hw0";
/// Where the guest has the folder in common.
const COMMON: &str = "/run/hoistway/common";
/// Where a file system of the guest's is mounted.
const MOUNT: &str = "/run/hoistway/disk";
/// Where changes of the guest are remembered, which ends before anybody would put them back.
const STATE: &str = "/run/hoistway/state";

pub(super) const JOB: &str = "job.json";
pub(super) const OUTCOME: &str = "outcome.json";
pub(super) const SURVEY: &str = "survey.json";
pub(super) const ERROR: &str = "error.txt";

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Task {
    /// The job is run.
    Run(Format),
    /// What the kernel offers is written down.
    Survey,
}

impl Task {
    /// As arguments.
    pub fn words(self) -> [&'static str; 2] {
        match self {
            Task::Run(format) => ["run", format.name()],
            Task::Survey => ["survey", Format::Raw.name()],
        }
    }

    fn of(words: [&str; 2]) -> Option<Task> {
        match words {
            ["run", format] => Some(Task::Run(Format::find(format)?)),
            ["survey", _] => Some(Task::Survey),
            _ => None,
        }
    }
}

const NOT_FOR_PEOPLE: &str =
    "linux-guest is what `--on linux` starts in a kernel of its own, and does nothing elsewhere";

/// Carries out a task in the guest; `args`: the folder, as the host names it, and the task. As process 1 it does not
/// come back.
///
/// # Errors
///
/// This is no guest; nothing was done then.
pub fn guest(args: &[String]) -> Result<(), MachineError> {
    // The kernel puts `console=tty0` behind its command line, and thus behind these.
    let refused = || MachineError::Refused(NOT_FOR_PEOPLE.into());
    let [folder, what, format, ..] = args else { return Err(refused()) };
    let task = Task::of([what, format]).ok_or_else(refused)?;
    if !is_guest() {
        return Err(refused());
    }
    if std::process::id() == 1 {
        match prepare(folder).and_then(|()| child(args)) {
            Ok(status) if status.success() => {}
            Ok(status) => println!("hoistway: the guest's work ended: {status}"),
            Err(why) => println!("hoistway: {why}"),
        }
        power_off();
    }
    let done = match task {
        Task::Run(format) => run(format),
        Task::Survey => survey::take().map(|text| (SURVEY, text)),
    };
    let (name, text) = done.unwrap_or_else(|why| (ERROR, why));
    let file = Path::new(COMMON).join(name);
    std::fs::write(&file, text).map_err(os(file.display().to_string()))?;
    // Settings are not put back: the guest ends.
    std::process::exit(0);
}

/// The root is a folder of a host, which only a kernel in user mode has.
fn is_guest() -> bool {
    rustix::fs::statfs("/").is_ok_and(|facts| facts.f_type == HOSTFS)
}

/// The number of `hostfs` (HOSTFS_SUPER_MAGIC).
const HOSTFS: rustix::fs::FsWord = 0x00c0_ffee;

/// Mounts everything. The root's own `/proc` and its like are the host's.
fn prepare(folder: &str) -> Result<(), String> {
    mount_kind("proc", "/proc", "")?;
    mount_kind("sysfs", "/sys", "")?;
    // The kernel may have done it.
    if !Path::new(DISK).exists() {
        mount_kind("devtmpfs", "/dev", "")?;
    }
    mount_kind("cgroup2", "/sys/fs/cgroup", "")?;
    mount_kind("tmpfs", "/run", "")?;
    for place in [COMMON, MOUNT, STATE] {
        std::fs::create_dir_all(place).map_err(|e| format!("{place}: {e}"))?;
    }
    mount_kind("hostfs", COMMON, folder)
}

fn mount_kind(kind: &str, at: &str, data: &str) -> Result<(), String> {
    let data = CString::new(data).map_err(|e| format!("{data}: {e}"))?;
    let data = (!data.is_empty()).then_some(data.as_c_str());
    mount(kind, at, kind, MountFlags::empty(), data).map_err(|e| format!("{kind} at {at}: {e}"))
}

fn child(args: &[String]) -> Result<ExitStatus, String> {
    let mut command = Command::new("/proc/self/exe");
    command.arg("linux-guest").args(args).env("HOISTWAY_STATE_DIR", STATE);
    // Programs that make file systems.
    command.env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
    command.status().map_err(|e| format!("/proc/self/exe: {e}"))
}

fn power_off() -> ! {
    // SAFETY: it takes no memory; process 1 of a guest ends the guest by it.
    unsafe { libc::reboot(libc::RB_POWER_OFF) };
    // It is refused to nobody in process 1; were it, nobody could be told.
    loop {
        std::thread::park();
    }
}

/// The job's outcome, encoded.
fn run(format: Format) -> Result<(&'static str, String), String> {
    let file = Path::new(COMMON).join(JOB);
    let text = std::fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()))?;
    let job: Job<'static> = decode(&text).map_err(|e| e.to_string())?;
    set_host(&job.host)?;
    let mut options = MachineOptions {
        drive: Some(job.drive.clone().into_owned()),
        virtual_time: true,
        what: "linux-guest".into(),
        ..MachineOptions::default()
    };
    let target = match format {
        Format::Raw => {
            options.destroy = Some(DISK.into());
            VolumeTarget::Device(DISK.into())
        }
        format => {
            format.make(DISK, MOUNT)?;
            VolumeTarget::Dir(PathBuf::from(MOUNT))
        }
    };
    let machine = Machine::open(&target, options).map_err(|e| e.to_string())?;
    let outcome = machine.run(&job, &mut |_| true).map_err(|e| e.to_string())?;
    // Its settings go with the guest.
    std::mem::forget(machine);
    Ok((OUTCOME, outcome.encode()))
}

/// The rules of write-back and read-ahead of the simulated host.
fn set_host(host: &HostConfig) -> Result<(), String> {
    for (name, value) in host.vm_settings() {
        let file = PathBuf::from(format!("/proc/sys/vm/{name}"));
        put(&file, &value.to_string()).map_err(|e| e.to_string())?;
    }
    let file = PathBuf::from("/sys/block/hw0/queue/read_ahead_kb");
    put(&file, &host.read_ahead_kb().to_string()).map_err(|e| e.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outside_of_a_guest_nothing_is_done() {
        let args = |words: &[&str]| words.iter().map(|w| w.to_string()).collect::<Vec<_>>();
        assert_eq!(guest(&args(&["/tmp", "run", "raw"])).unwrap_err().to_string(), NOT_FOR_PEOPLE);
        assert_eq!(guest(&args(&["/tmp", "eat", "raw"])).unwrap_err().to_string(), NOT_FOR_PEOPLE);
        assert_eq!(guest(&args(&[])).unwrap_err().to_string(), NOT_FOR_PEOPLE);
    }

    #[test]
    fn tasks_are_understood() {
        for task in [Task::Survey, Task::Run(Format::Raw), Task::Run(Format::Ext4)] {
            assert_eq!(Task::of(task.words()), Some(task));
        }
        assert_eq!(Task::of(["run", "fat"]), None);
    }
}
