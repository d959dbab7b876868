//! One run of a kernel: boots it, serves its drive, waits for its end.

use super::Kernel;
use super::drive::{Drive, Said};
use super::group::Group;
use super::processor::Processor;
use crate::MachineError;
use crate::os;
use hoistway::{Instant, Nanos};
use hoistway_serve::system::Clock;
use hoistway_sim::drive::DriveFile;
use std::ffi::{OsStr, OsString};
use std::fs::{DirBuilder, File};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// What is booted, and with what.
#[derive(Clone, Debug)]
pub struct Boot<'a> {
    /// The kernel.
    pub kernel: &'a Kernel,
    /// The drive behind the disk `/dev/hw0`.
    pub drive: &'a DriveFile,
    /// Of the drive's model, and of the kernel's own random numbers.
    pub seed: u64,
    /// Memory of the guest.
    pub memory_mib: u32,
    /// Program and arguments of the guest's process 1, by their paths on the host: the guest's root is the host's, to be
    /// read. A folder to write to the guest has by `mount -t hostfs -o FOLDER none /somewhere`.
    pub init: Vec<OsString>,
    /// Where the calls into the scheduler are recorded.
    pub record: Option<PathBuf>,
}

/// How a run ended.
#[derive(Clone, Debug)]
pub struct Ended {
    /// What the guest has printed.
    pub console: String,
    /// The guest's clock at the end.
    pub virtual_time: Nanos,
    /// What the drive was given.
    pub requests: Requests,
    /// Digest of all that went to and came from the drive, with its instants: equal digests are equal runs.
    pub digest: u64,
}

/// Commands that came to the drive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Requests {
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Flushes.
    pub flushes: u64,
    /// Discards.
    pub discards: u64,
    /// Bytes read and written.
    pub bytes: u64,
}

/// Does something with a guest, and once more if the guest fails at it; `say` hears of that.
///
/// A guest is a process of a host, which may do to it what no machine does to its kernel: whoever stops and continues all
/// processes of the host does so in the midst of a system call under ptrace, at which user-mode Linux aborts. What
/// the second guest says is what the first would have said: virtual time knows nothing of the host. What the guest itself
/// is to blame for comes again.
pub fn twice<T>(
    say: &mut dyn FnMut(&str),
    mut run: impl FnMut() -> Result<T, MachineError>,
) -> Result<T, MachineError> {
    match run() {
        Err(MachineError::Guest(why)) => {
            say(&format!("{why}\nonce more, in case it was the host's doing"));
            run()
        }
        other => other,
    }
}

impl Boot<'_> {
    /// Boots it and waits until it powers off. `watch` is asked now and then; `false`: the guest is killed, and that
    /// is an error.
    ///
    /// # Errors
    ///
    /// The kernel does not start, panics or hangs; `watch` said so.
    pub fn run(self, watch: &mut dyn FnMut() -> bool) -> Result<Ended, MachineError> {
        let scratch = ScratchFolder::create()?;
        // The guest inherits it.
        let _processor = Processor::take();
        let (ours, theirs) = UnixStream::pair().map_err(os("socket for the drive"))?;
        ours.set_read_timeout(Some(LOOK)).map_err(os("socket for the drive"))?;
        let (console, [output, errors]) = Console::create(&scratch.0)?;
        let mut command = self.command(&scratch.0)?;
        command.stdin(OwnedFd::from(theirs));
        command.stdout(output).stderr(errors);
        let child = command.spawn().map_err(os(self.kernel.image.display().to_string()))?;
        // The command holds the guest's end of the socket, which is to close when the guest ends.
        drop(command);
        let mut group = Group::new(child);
        let mut drive = Drive::new(self.drive, self.seed, DATA_LIMIT);
        let served = serve(&mut drive, ours, &mut group, watch);
        // Whoever is left could still write.
        let _ = group.kill();
        wait_for_the_dead(group.leader());
        let console = console.text();
        match served {
            Ok(()) => {}
            Err(Broken::Guest(what)) => {
                return Err(MachineError::Guest(format!(
                    "Linux {} in virtual time {what}; it said last:{}",
                    self.kernel.release,
                    last_lines(&console)
                )));
            }
            Err(Broken::Other(error)) => return Err(error),
        }
        Ok(Ended {
            console,
            virtual_time: drive.now() - Instant::ZERO,
            requests: drive.requests(),
            digest: drive.digest(),
        })
    }

    fn command(&self, scratch: &Path) -> Result<Command, MachineError> {
        let image = &self.kernel.image;
        let mut command =
            Command::new(std::path::absolute(image).map_err(os(image.display().to_string()))?);
        command.current_dir(scratch);
        for argument in self.arguments()? {
            command.arg(argument);
        }
        // What the host's environment holds must not decide where the guest's memory lies.
        command.env_clear().env("TMPDIR", memory_folder(scratch, self.memory_mib));
        command.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").process_group(0);
        // SAFETY: between fork and exec only a system call is made.
        unsafe {
            command.pre_exec(|| {
                // The same addresses in every run. Where it is refused (a strict container), the kernel asks again.
                libc::personality(libc::ADDR_NO_RANDOMIZE as libc::c_ulong);
                Ok(())
            });
        }
        Ok(command)
    }

    /// The kernel's command line.
    fn arguments(&self) -> Result<Vec<OsString>, MachineError> {
        let mut arguments: Vec<OsString> = Vec::new();
        let mut add = |text: &str| arguments.push(text.into());
        add(&format!("mem={}M", self.memory_mib));
        // Time moves only while all sleep, and begins at the same date.
        add("time-travel=inf-cpu");
        add("time-travel-start=1000000000000000000");
        ["root=/dev/root", "rootfstype=hostfs", "rootflags=/", "ro"].iter().for_each(|a| add(a));
        ["con=null", "con0=null,fd:1", "quiet", "loglevel=5"].iter().for_each(|a| add(a));
        let with = |key: &str, path: &Path| -> Result<OsString, MachineError> {
            let mut text = OsString::from(key);
            text.push(plain(path.as_os_str())?);
            Ok(text)
        };
        // The folder of this run, in words that are the same in every run: the kernel stirs its command line into its
        // random numbers.
        arguments.push("uml_dir=./".into());
        if let Some(record) = &self.record {
            let record = std::path::absolute(record).map_err(os(record.display().to_string()))?;
            arguments.push(with("hoistway_record=", &record)?);
            // Files of groups tell all that controllers count.
            arguments.push("blk_cgroup.blkcg_debug_stats=1".into());
        }
        let Some((program, rest)) = self.init.split_first() else {
            return Err(MachineError::Refused("a guest needs a program to run".into()));
        };
        arguments.push(with("init=", Path::new(program))?);
        if !rest.is_empty() {
            arguments.push("--".into());
        }
        for argument in rest {
            arguments.push(plain(argument)?.into());
        }
        let len: usize = arguments.iter().map(|a| a.len() + 1).sum();
        if len > COMMAND_LINE {
            return Err(MachineError::Refused(format!(
                "the guest's command line has {len} bytes, a kernel takes {COMMAND_LINE}; choose shorter paths"
            )));
        }
        Ok(arguments)
    }
}

/// Bytes of data that are not zero, at most.
const DATA_LIMIT: u64 = 4 << 30;
/// What a kernel takes (COMMAND_LINE_SIZE of arch/um).
const COMMAND_LINE: usize = 4095;
/// How often `watch` is asked, in time and in messages.
const LOOK: Duration = Duration::from_millis(100);
const MESSAGES: u64 = 4096;
/// A guest that uses no processor and says nothing for so long hangs.
const IDLE: Nanos = Nanos::secs(20);
/// Between two looks at a guest, at most.
const GAP: Nanos = Nanos::secs(5);
/// A guest that has used so much processor time since it said something waits for a time that never comes. Of processor
/// time: on a machine with much else to do one that only lays out its files said nothing for 300 s.
const SILENT: u64 = 300 * TICKS;
/// Per second, in /proc (USER_HZ).
const TICKS: u64 = 100;

/// A word that survives the kernel's command line.
fn plain(text: &OsStr) -> Result<&OsStr, MachineError> {
    match text.as_bytes().iter().find(|b| b.is_ascii_whitespace() || **b == b'"' || **b == 0) {
        None => Ok(text),
        Some(_) => Err(MachineError::Refused(format!(
            "'{}' has a space or quotation mark, which cannot be passed to a kernel; choose a path without",
            text.to_string_lossy()
        ))),
    }
}

/// Where the guest's memory is a file: memory if there is enough that may hold programs, else our own folder.
fn memory_folder(scratch: &Path, memory_mib: u32) -> PathBuf {
    let shared = Path::new("/dev/shm");
    let fits = rustix::fs::statvfs(shared).is_ok_and(|facts| {
        let free = facts.f_bavail * facts.f_frsize;
        let programs = !facts.f_flag.contains(rustix::fs::StatVfsMountFlags::NOEXEC);
        programs && free > (u64::from(memory_mib) + 64) << 20
    });
    if fits { shared.into() } else { scratch.into() }
}

/// Why a guest was not served to its end.
enum Broken {
    /// It did something: the end of a sentence.
    Guest(String),
    /// Somebody else did.
    Other(MachineError),
}

/// Serves the drive until the guest has ended.
fn serve(
    drive: &mut Drive,
    mut socket: UnixStream,
    group: &mut Group,
    watch: &mut dyn FnMut() -> bool,
) -> Result<(), Broken> {
    let clock = Clock::new();
    let mut life = Life::new(group.leader(), clock.now());
    loop {
        let said = drive.serve(&mut socket).map_err(Broken::Other)?;
        match said {
            Said::More if !drive.figures().messages.is_multiple_of(MESSAGES) => continue,
            Said::More | Said::Nothing => {
                if !watch() {
                    let what = "the run in virtual time was given up".into();
                    return Err(Broken::Other(MachineError::Refused(what)));
                }
                life.check(clock.now(), drive.figures().messages).map_err(Broken::Guest)?;
            }
            Said::Bye => break,
            Said::Gone => {
                let status = group.wait().map_err(os("kernel")).map_err(Broken::Other)?;
                return Err(Broken::Guest(format!("ended without powering off ({status})")));
            }
        }
    }
    // What it does from here on is to end its processes. On a busy machine that takes as long as it does.
    let mut leaving = Life::new(group.leader(), clock.now());
    let mut rounds: u64 = 0;
    loop {
        match group.try_wait().map_err(os("kernel")).map_err(Broken::Other)? {
            Some(status) if status.success() => return Ok(()),
            Some(status) => return Err(Broken::Guest(format!("ended with {status}"))),
            None => std::thread::sleep(Duration::from_millis(1)),
        }
        rounds += 1;
        // All of /proc is read for it.
        if !rounds.is_multiple_of(128) {
            continue;
        }
        if leaving.quiet(clock.now(), processor_ticks(leaving.leader)).is_err() {
            return Err(Broken::Guest("powers off, but does not end".into()));
        }
    }
}

/// Whether a guest that says nothing is at work.
struct Life {
    leader: u32,
    /// When it said something, or had used another processor time than before.
    worked: Instant,
    /// When it was looked at.
    looked: Instant,
    ticks: u64,
    /// Messages that it had sent when it was looked at.
    messages: u64,
    /// Its processor time when it was found to say nothing; `None`: it has just spoken.
    silent: Option<u64>,
}

impl Life {
    fn new(leader: u32, now: Instant) -> Life {
        Life { leader, worked: now, looked: now, ticks: 0, messages: 0, silent: None }
    }

    /// It has sent so many messages so far. The error is the end of a sentence about the guest.
    fn check(&mut self, now: Instant, messages: u64) -> Result<(), String> {
        if messages != self.messages {
            (self.messages, self.silent) = (messages, None);
            (self.worked, self.looked) = (now, now);
            return Ok(());
        }
        self.quiet(now, processor_ticks(self.leader))
    }

    /// It says nothing, and has used so much processor time so far.
    fn quiet(&mut self, now: Instant, ticks: u64) -> Result<(), String> {
        // Whoever looks so late was stopped (Ctrl-Z), and the guest with it.
        let stopped = now - self.looked > GAP;
        self.looked = now;
        if stopped || ticks != self.ticks || ready(self.leader) {
            (self.ticks, self.worked) = (ticks, now);
        }
        if now - self.worked > IDLE {
            return Err("hangs: all its processes sleep, and nothing will wake them".into());
        }
        let since = *self.silent.get_or_insert(ticks);
        if ticks.saturating_sub(since) > SILENT {
            return Err(format!(
                "computes for {} s of processor time without using its drive: a program that waits for a clock by \
                 reading it never ends there",
                SILENT / TICKS
            ));
        }
        Ok(())
    }
}

/// The lines of /proc/PID/stat of all processes.
fn stats() -> impl Iterator<Item = String> {
    let all = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    all.filter(|e| e.file_name().to_string_lossy().starts_with(|c: char| c.is_ascii_digit()))
        .filter_map(|entry| std::fs::read_to_string(entry.path().join("stat")).ok())
}

/// Processor time of a process group in ticks, for comparison only.
fn processor_ticks(leader: u32) -> u64 {
    stats().filter_map(|stat| ticks_of(&stat, leader)).sum()
}

/// Some process of the group wants a processor or waits for a disk: that it gets neither is not its fault.
fn ready(leader: u32) -> bool {
    stats().any(|stat| is_ready(&stat, leader))
}

fn is_ready(stat: &str, group: u32) -> bool {
    ticks_of(stat, group).is_some() && matches!(state_of(stat), Some('R' | 'D'))
}

/// R, S, Z and so on, in a line of /proc/PID/stat.
fn state_of(stat: &str) -> Option<char> {
    stat.rsplit_once(')')?.1.trim_start().chars().next()
}

/// Waits until those who were killed are dead: they hold memory, and could still write. One who is in the midst of a read
/// of a disk takes as long as that does; who takes longer than a second is left to the host.
fn wait_for_the_dead(group: u32) {
    let lives = |stat: String| ticks_of(&stat, group).is_some() && state_of(&stat) != Some('Z');
    for _ in 0..1000 {
        if !stats().any(lives) {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// User and system time in a line of /proc/PID/stat, if the process is in that group.
fn ticks_of(stat: &str, group: u32) -> Option<u64> {
    // The name in parentheses may hold anything.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let of_group = fields.get(2)?.parse() == Ok(group);
    let ticks = fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?;
    of_group.then_some(ticks)
}

/// A folder of this run's own.
struct ScratchFolder(PathBuf);

impl ScratchFolder {
    fn create() -> Result<ScratchFolder, MachineError> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("hoistway-linux-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        DirBuilder::new().mode(0o700).create(&path).map_err(os(path.display().to_string()))?;
        Ok(ScratchFolder(path))
    }
}

impl Drop for ScratchFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// What the guest prints: a file in the run's folder.
///
/// Of a pipe or a terminal the kernel is told, by SIGIO, that there is room again, at the moment at which somebody has read
/// from it: an interrupt of the guest that depends on the host's time, and two tasks that wake at the same instant of
/// virtual time may go on in another order behind it. A file has always room.
struct Console(PathBuf);

impl Console {
    /// The kernel's output, and its errors.
    fn create(folder: &Path) -> Result<(Console, [File; 2]), MachineError> {
        let path = folder.join("console");
        let named = || path.display().to_string();
        let output = File::create(&path).map_err(os(named()))?;
        let errors = output.try_clone().map_err(os(named()))?;
        Ok((Console(path), [output, errors]))
    }

    fn text(&self) -> String {
        let text = std::fs::read(&self.0).unwrap_or_default();
        let text = String::from_utf8_lossy(&text).replace('\r', "");
        text.split_inclusive('\n').filter(|line| !line.starts_with(NO_SIGNALS)).collect()
    }
}

/// The kernel finds that a file sends no signals, which is what is wanted of it.
const NO_SIGNALS: &str = "epollctl add err fd";

fn last_lines(console: &str) -> String {
    let lines: Vec<&str> = console.lines().filter(|line| !line.trim().is_empty()).collect();
    let last = lines.len().saturating_sub(LINES);
    lines[last..].iter().map(|line| format!("\n  {line}")).collect()
}

/// Of the console, in an error.
const LINES: usize = 15;

#[cfg(test)]
mod tests {
    use super::*;

    fn boot<'a>(kernel: &'a Kernel, drive: &'a DriveFile, init: &[&str]) -> Boot<'a> {
        let init = init.iter().map(OsString::from).collect();
        Boot { kernel, drive, seed: 7, memory_mib: 256, init, record: None }
    }

    fn made_up() -> (Kernel, DriveFile) {
        let kernel = Kernel {
            name: "6.1".into(),
            release: "6.1.0".into(),
            image: "/nonexistent/linux".into(),
            config: "/nonexistent/config".into(),
            digest: String::new(),
            source: String::new(),
            patches: Vec::new(),
            module: Vec::new(),
        };
        (kernel, DriveFile::load("null-block").unwrap())
    }

    #[test]
    fn arguments_of_process_1_stand_behind_two_dashes() {
        let (kernel, drive) = made_up();
        let line = boot(&kernel, &drive, &["/bin/x", "a", "b"]).arguments().unwrap();
        let line: Vec<_> = line.iter().map(|a| a.to_str().unwrap()).collect();
        assert_eq!(line[line.len() - 4..], ["init=/bin/x", "--", "a", "b"]);
        assert!(line.contains(&"mem=256M") && line.contains(&"uml_dir=./"));
        let spaced = boot(&kernel, &drive, &["/a b"]).arguments().unwrap_err();
        assert!(spaced.to_string().starts_with("'/a b' has a space"), "{spaced}");
        let long = "x".repeat(4096);
        let long = boot(&kernel, &drive, &["/x", &long]).arguments().unwrap_err();
        assert!(long.to_string().contains("a kernel takes 4095"), "{long}");
    }

    #[test]
    fn a_kernel_that_is_not_there_is_an_error_and_leaves_nothing() {
        let (kernel, drive) = made_up();
        let error = boot(&kernel, &drive, &["/bin/true"]).run(&mut || true).unwrap_err();
        assert!(error.to_string().starts_with("/nonexistent/linux: "), "{error}");
    }

    #[test]
    fn a_program_that_is_no_kernel_ends_without_powering_off() {
        let (mut kernel, drive) = made_up();
        kernel.image = "/bin/echo".into();
        let error =
            boot(&kernel, &drive, &["/bin/true"]).run(&mut || true).unwrap_err().to_string();
        assert!(error.contains("ended without powering off (exit status: 0)"), "{error}");
        assert!(error.contains("time-travel=inf-cpu"), "its last words: {error}");
    }

    /// A program in the place of a kernel: a shell script in a folder of its own.
    fn script(name: &str, lines: &str) -> (ScratchFolder, Kernel, DriveFile) {
        let scratch = ScratchFolder::create().unwrap();
        let (mut kernel, drive) = made_up();
        kernel.image = scratch.0.join(name);
        std::fs::write(&kernel.image, format!("#!/bin/sh\ncd {}\n{lines}", scratch.0.display()))
            .unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        std::fs::set_permissions(&kernel.image, mode).unwrap();
        (scratch, kernel, drive)
    }

    #[test]
    fn who_outlives_the_kernel_is_gone_with_it() {
        let (scratch, kernel, drive) = script("kernel", "sleep 600 <&- & echo $! >child\nexit 3\n");
        let error = boot(&kernel, &drive, &["/x"]).run(&mut || true).unwrap_err().to_string();
        assert!(error.contains("ended without powering off (exit status: 3)"), "{error}");
        let child = std::fs::read_to_string(scratch.0.join("child")).unwrap();
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.trim()));
        assert!(stat.is_err() || stat.unwrap().contains(" Z "), "it is dead");
    }

    #[test]
    fn the_console_is_a_file_which_sends_no_signals() {
        let print = "echo epollctl add err fd 1, refused; echo one; echo two >&2\n[ -f /proc/self/fd/1 ] && exit 3\nexit 4\n";
        let (_scratch, kernel, drive) = script("console", print);
        let error = boot(&kernel, &drive, &["/x"]).run(&mut || true).unwrap_err().to_string();
        assert!(error.ends_with("(exit status: 3); it said last:\n  one\n  two"), "{error}");
    }

    #[test]
    fn a_guest_that_dies_is_followed_by_one_more_and_by_no_third() {
        // It counts its lives, dies in the first so many of them, and then says bye at its time 0.
        let lives = |deaths: u32| {
            let bye = r"\4\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
            let lines = format!(
                "echo x >>lives\n[ $(wc -l <lives) -gt {deaths} ] || kill -ABRT $$\nprintf '{bye}' >&0\n"
            );
            let (scratch, kernel, drive) = script("kernel", &lines);
            let mut said = Vec::new();
            let ended = twice(&mut |why| said.push(why.to_string()), || {
                boot(&kernel, &drive, &["/x"]).run(&mut || true)
            });
            let lives = std::fs::read_to_string(scratch.0.join("lives")).unwrap().lines().count();
            (ended.map(|ended| ended.virtual_time), said, lives)
        };
        let (ended, said, count) = lives(0);
        assert_eq!((ended.unwrap(), said.len(), count), (Nanos::ZERO, 0, 1));
        let (ended, said, count) = lives(1);
        assert_eq!((ended.unwrap(), said.len(), count), (Nanos::ZERO, 1, 2));
        assert!(said[0].contains("SIGABRT") && said[0].contains("once more"), "{said:?}");
        let (ended, said, count) = lives(9);
        assert!(ended.unwrap_err().to_string().contains("SIGABRT"));
        assert_eq!((said.len(), count), (1, 2));
    }

    #[test]
    fn what_is_no_fault_of_the_guest_is_not_tried_again() {
        let (kernel, drive) = made_up();
        let mut times = 0;
        let error = twice(&mut |why| panic!("{why}"), || {
            times += 1;
            boot(&kernel, &drive, &["/bin/true"]).run(&mut || true)
        });
        assert!(matches!(error, Err(MachineError::Os { .. })));
        assert_eq!(times, 1);
    }

    #[test]
    fn processor_time_is_of_the_group_alone() {
        let line = "12 (a ) b) S 1 77 12 0 -1 4 0 0 0 0 30 12 5 5 20 0";
        assert_eq!((ticks_of(line, 77), ticks_of(line, 12)), (Some(42), None));
        assert_eq!(ticks_of("nonsense", 1), None);
        let running = line.replace(" S ", " R ");
        assert!(is_ready(&running, 77) && !is_ready(&running, 12) && !is_ready(line, 77));
        assert!(!is_ready("nonsense", 1));
    }

    #[test]
    fn a_guest_hangs_when_it_neither_speaks_nor_works() {
        let at = |s| Instant::ZERO + Nanos::secs(s);
        // No process is in this group.
        let mut life = Life::new(u32::MAX, at(0));
        assert!((0..20).all(|s| life.check(at(s), 0).is_ok()));
        // One message is enough.
        assert!((20..41).all(|s| life.check(at(s), 1).is_ok()));
        // Time in which nobody looked does not count.
        assert!(life.check(at(60), 1).is_ok());
        assert!((61..81).all(|s| life.check(at(s), 1).is_ok()));
        assert!(life.check(at(81), 1).unwrap_err().starts_with("hangs"));
    }

    #[test]
    fn a_guest_computes_for_ever_by_its_processor_time_alone() {
        let at = |s| Instant::ZERO + Nanos::secs(s);
        let mut life = Life::new(u32::MAX, at(0));
        // A machine that gives it a tick in ten seconds.
        assert!((1..100).all(|n| life.quiet(at(10 * n), n).is_ok()));
        assert!(life.quiet(at(1000), 1 + SILENT).is_ok());
        assert!(life.quiet(at(1001), 2 + SILENT).unwrap_err().contains("300 s of processor time"));
        life.check(at(1002), 1).unwrap();
        assert!(life.quiet(at(1003), 3 + SILENT).is_ok());
    }
}
