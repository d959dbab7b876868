//! The guest's process 1 while calls into a scheduler are recorded: carries out scenarios one after the other.
//!
//! Each scenario has a fresh scheduler, fresh groups and fresh processes. The kernel's side of the recording
//! (`linux/driver/hoistway_record.c`) is told by `/proc/hoistway` where one begins and ends; whatever is written to
//! change a setting is written through it, so that the change and its line are one step.
//!
//! Nothing here waits by looking at the clock again and again: in virtual time that never ends.

mod load;
pub mod scenario;
mod watch;

use crate::kernel::group_file;
use crate::kernel::queue::moved_tunable;
use hoistway::unit::IoPrio;
use scenario::{Change, DEV, Load, Scenario, What};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};

/// The disk of the guest.
const DISK: &str = "/dev/hw0";
const QUEUE: &str = "/sys/block/hw0/queue";
const GROUPS: &str = "/sys/fs/cgroup";
const COMMANDS: &str = "/proc/hoistway";
/// From the beginning of a scenario to its time 0: all that starts at 0 is there by then.
const LEAD_MS: u64 = 20;
/// Between scenarios: from one look whether groups that were removed are gone to the next.
const FORGETTING_NS: u64 = 500_000_000;
/// Looks at most.
const FORGETTING_LOOKS: u32 = 20;
/// Between two attempts at removing a group, and how many. A process that ends stays in it until the last of its I/O is
/// over: under cfq that takes longer than under the kernel's own.
const LEAVING_NS: u64 = 10_000;
const LEAVING_LOOKS: u32 = 100_000;
/// Memory that the page cache leaves free, of 384 MiB.
const RESERVE_KIB: u32 = 32 << 10;
/// Writes a disk's page cache back and forgets it (include/uapi/linux/fs.h).
const BLKFLSBUF: libc::Ioctl = 0x1261;
/// The line that the console shows after each scenario, before its name.
pub const DONE: &str = "hoistway: done: ";
/// The same of what went wrong.
pub const FAILED: &str = "hoistway: failed: ";

/// The same of a scenario that stands still, which every guest would do at it.
pub const STILL: &str = "hoistway: stands still: ";

/// The line of the console where the machine is switched off before the next scenario, which needs a fresh one.
pub const STALE: &str = "hoistway: groups of the scenario before do not go";

/// Process 1: carries out the scenarios of `files` and switches the machine off, at once where groups of one do not go.
/// What goes wrong is on the console.
pub fn run(files: &[PathBuf]) -> ! {
    if let Err(e) = prepare().and_then(|()| all(files)) {
        println!("{FAILED}{e}");
    }
    let _ = io::stdout().flush();
    // SAFETY: no memory is touched.
    unsafe { libc::reboot(libc::LINUX_REBOOT_CMD_POWER_OFF) };
    std::process::exit(1);
}

fn all(files: &[PathBuf]) -> Result<(), String> {
    let mut hold = false;
    for (n, file) in files.iter().enumerate() {
        if n > 0 && !forget_groups(hold)? {
            println!("{STALE}");
            break;
        }
        let name = file.display();
        let text = at(&name.to_string(), fs::read_to_string(file))?;
        let scenario: Scenario = text.parse().map_err(|e| format!("{name}: {e}"))?;
        if !watched(n, &name.to_string(), &scenario)? {
            break;
        }
        println!("{DONE}{name}");
        // Whether a controller may still hold I/O of its groups.
        hold = scenario.is_of_controller();
    }
    Ok(())
}

/// Carries out a scenario in a process of its own, and watches over it. `false`: what has failed is on the console.
fn watched(n: usize, name: &str, scenario: &Scenario) -> Result<bool, String> {
    // SAFETY: this process has one thread, so the child may go on with everything as it is.
    let pid = match unsafe { libc::fork() } {
        -1 => return Err(format!("{name}: {}", io::Error::last_os_error())),
        0 => {
            let done = one(n, name, scenario);
            if let Err(e) = &done {
                println!("{FAILED}{name}: {e}");
            }
            let _ = io::stdout().flush();
            // SAFETY: nothing of the parent's is run or flushed in the child.
            unsafe { libc::_exit(i32::from(done.is_err())) }
        }
        pid => pid,
    };
    match at(name, watch::wait_for(pid, scenario))? {
        Ok(status) => Ok(status == 0),
        Err(why) => {
            println!("{STILL}{why}");
            Ok(false)
        }
    }
}

fn at<T>(what: &str, result: io::Result<T>) -> Result<T, String> {
    result.map_err(|e| format!("{what}: {e}"))
}

fn prepare() -> Result<(), String> {
    for (kind, place) in
        [("proc", "/proc"), ("sysfs", "/sys"), ("cgroup2", GROUPS), ("devtmpfs", "/dev")]
    {
        let flags = rustix::mount::MountFlags::empty();
        match rustix::mount::mount(kind, place, kind, flags, None) {
            // devtmpfs may be there already.
            Ok(()) | Err(rustix::io::Errno::BUSY) => {}
            Err(e) => return Err(format!("mount {kind} on {place}: {e}")),
        }
    }
    // Timers fire when they are due, not up to 50 us later.
    // SAFETY: no memory is touched.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
    // The recorder's numbers of bios are allocated in interrupts, which cannot wait until the page cache has given
    // memory back: what write-back of a fast drive takes at a time must be free. The kernel keeps 2.5 MiB by itself.
    write("/proc/sys/vm/min_free_kbytes", &RESERVE_KIB.to_string())?;
    // Writeback throttling is a controller of its own.
    let _ = fs::write(format!("{QUEUE}/wbt_lat_usec"), "0");
    write(Path::new(GROUPS).join("cgroup.subtree_control"), "+io")
}

fn write(path: impl AsRef<Path>, text: &str) -> Result<(), String> {
    let path = path.as_ref();
    at(&format!("{}: writing '{text}'", path.display()), fs::write(path, text))
}

/// What the name of a folder of scenario `n` ends with. The page cache of the disk may stay with a group of an earlier
/// scenario after that is gone: its I/O is told apart by the name.
pub fn mark(n: usize) -> String {
    format!("@{n}")
}

fn one(n: usize, name: &str, scenario: &Scenario) -> Result<(), String> {
    let mut guest = Guest::begin(scenario, name, mark(n))?;
    let outcome = guest.act();
    guest.end().and(outcome)
}

/// A scenario under way.
struct Guest<'a> {
    scenario: &'a Scenario,
    disk: File,
    /// Device number of the disk, as in files of groups.
    number: String,
    commands: File,
    /// Time 0 in ns.
    origin: u64,
    /// By process: its id once it is born.
    born: Vec<Option<libc::pid_t>>,
    /// What the names of its groups' folders end with.
    mark: String,
    /// Groups that exist.
    groups: Vec<String>,
}

impl<'a> Guest<'a> {
    fn begin(scenario: &'a Scenario, name: &str, mark: String) -> Result<Guest<'a>, String> {
        let disk = at(DISK, File::open(DISK))?;
        let commands = at(COMMANDS, OpenOptions::new().write(true).open(COMMANDS))?;
        let number = at("dev", fs::read_to_string("/sys/block/hw0/dev"))?.trim().to_string();
        let mut guest = Guest {
            scenario,
            disk,
            number,
            commands,
            origin: 0,
            born: vec![None; scenario.processes.len()],
            mark,
            groups: Vec::new(),
        };
        let (scheduler, disk) = (format!("{QUEUE}/scheduler"), guest.disk.as_raw_fd());
        if scenario.is_of_controller() {
            write(&scheduler, "none")?;
            guest.attach_controller(disk)?;
        } else {
            write(&scheduler, &scenario.scheduler)?;
            // Wrapped it is from here on, but it was made before: once more.
            guest.command(&format!("attach {disk}"))?;
            write(&scheduler, "none")?;
            write(&scheduler, &scenario.scheduler)?;
        }
        guest.command(&format!("begin {name}"))?;
        for (path, weight) in &scenario.groups {
            guest.make_group(path, *weight)?;
        }
        Ok(guest)
    }

    fn command(&mut self, text: &str) -> Result<(), String> {
        at(&format!("{COMMANDS}: '{text}'"), self.commands.write_all(text.as_bytes()))
    }

    fn end_recording(&mut self) -> Result<(), String> {
        self.commands.write_all(b"end").map_err(not_whole)
    }

    fn attach_controller(&mut self, disk: i32) -> Result<(), String> {
        let name = &self.scenario.scheduler;
        let command = format!("attach {disk} {name}");
        match self.commands.write_all(command.as_bytes()) {
            // EOPNOTSUPP: a function to wrap is not there.
            Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => Err(format!(
                "what {name} decides cannot be recorded in this kernel (Linux 5.17 is the first that has the places for \
                 it); choose a newer one: --on linux:NAME"
            )),
            result => at(&format!("{COMMANDS}: '{command}'"), result),
        }
    }

    /// Notes that a setting is not written: the comparison says so.
    fn leave_out(&mut self, group: &str, result: &str) -> Result<(), String> {
        self.command(&format!("note left-out,,,,,,,{group},{result},"))
    }

    /// Writes a value and notes the event at once. The columns are those of a recording.
    fn put(
        &mut self,
        event: &str,
        group: &str,
        result: &str,
        path: &Path,
        value: &str,
    ) -> Result<(), String> {
        let text = format!("put {event},,,,,,,{group},{result},\t{}\t{value}", path.display());
        match self.commands.write_all(text.as_bytes()) {
            // The kernel does not take it (7.3: a weight for a disk whose io.cost is off), and nothing was noted.
            Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => {
                self.leave_out(group, result)
            }
            written => at(&format!("{COMMANDS}: '{text}'"), written),
        }
    }

    fn folder(&self, group: &str) -> PathBuf {
        let parts = group.split('/').map(|part| format!("{part}{}", self.mark));
        Path::new(GROUPS).join(parts.collect::<PathBuf>())
    }

    fn make_group(&mut self, path: &str, weight: Option<u32>) -> Result<(), String> {
        let folder = self.folder(path);
        if let Some((parent, _)) = path.rsplit_once('/') {
            write(self.folder(parent).join("cgroup.subtree_control"), "+io")?;
        }
        at(&folder.display().to_string(), fs::create_dir(&folder))?;
        self.groups.push(path.to_string());
        match weight {
            Some(weight) => self.weigh(path, weight),
            None => Ok(()),
        }
    }

    fn weigh(&mut self, group: &str, weight: u32) -> Result<(), String> {
        let file = self.folder(group).join(group_file(&self.scenario.scheduler, "weight"));
        self.put("weight", group, &weight.to_string(), &file, &weight.to_string())
    }

    /// All of it, until the last process has ended.
    fn act(&mut self) -> Result<(), String> {
        self.origin = load::clock() + LEAD_MS * 1_000_000;
        let mut births: Vec<usize> = (0..self.scenario.processes.len()).collect();
        births.sort_by_key(|&p| self.scenario.processes[p].start);
        let mut births = births.into_iter().peekable();
        let mut changes = self.scenario.changes.iter().peekable();
        loop {
            let birth = births.peek().map(|&p| self.scenario.processes[p].start);
            let change = changes.peek().map(|c| c.at);
            match (birth, change) {
                (None, None) => break,
                (Some(at), other) if other.is_none_or(|other| at <= other) => {
                    // Born a little earlier, so that all with one time begin at the same moment.
                    self.wait_until(at.saturating_sub(LEAD_MS / 2));
                    let p = births.next().expect("it was there");
                    self.bear(p)?;
                }
                (_, Some(at)) => {
                    self.wait_until(at);
                    let change = changes.next().expect("it was there");
                    self.change(change)?;
                }
                (Some(_), None) => unreachable!("a birth with no change before it is taken above"),
            }
        }
        self.wait_for_all()
    }

    fn wait_until(&self, ms: u64) {
        load::sleep_until(self.origin + ms * 1_000_000);
    }

    fn bear(&mut self, p: usize) -> Result<(), String> {
        let process = &self.scenario.processes[p];
        let group = process.group.as_deref().filter(|g| self.groups.iter().any(|have| have == g));
        let group = group.map_or(PathBuf::from(GROUPS), |g| self.folder(g));
        let buffered = matches!(process.load, Load::Buffered(_));
        // SAFETY: this process has one thread, so the child may go on with everything as it is.
        match unsafe { libc::fork() } {
            -1 => Err(format!("process {p}: {}", io::Error::last_os_error())),
            0 => {
                // A group that is removed before this runs has gone to the root with all that is in it.
                let joined = write(group.join("cgroup.procs"), "0");
                let done = joined
                    .or_else(|e| if group.exists() { Err(e) } else { Ok(()) })
                    .and_then(|()| set_prio(0, process.prio))
                    .and_then(|()| load::run(process, p, self.origin));
                if let Err(e) = &done {
                    println!("{FAILED}process {p}: {e}");
                }
                // SAFETY: nothing of the parent's is run or flushed in the child.
                unsafe { libc::_exit(i32::from(done.is_err())) }
            }
            pid => {
                self.born[p] = Some(pid);
                // Bios do not tell that the page cache writes them.
                match buffered && self.scenario.is_of_controller() {
                    true => self.command(&format!("note buffered,,{pid},,,,,,,")),
                    false => Ok(()),
                }
            }
        }
    }

    fn change(&mut self, change: &Change) -> Result<(), String> {
        match &change.what {
            What::Set(name, value) => {
                let queue = Path::new(QUEUE);
                let file = moved_tunable(queue, name).unwrap_or(queue.join("iosched").join(name));
                let result = format!("{name}={value}");
                // The name is one of ours (the scenario was read), and this kernel may be older than it.
                if !file.exists() {
                    return self.leave_out("", &result);
                }
                self.put("set", "", &result, &file, &value.to_string())
            }
            What::Weight(group, weight) if self.has(group) => self.weigh(group, *weight),
            What::DeviceWeight(group, weight) if self.has(group) => {
                let file = self.folder(group).join("io.bfq.weight");
                let value = match weight {
                    0 => format!("{} default", self.number),
                    weight => format!("{} {weight}", self.number),
                };
                self.put("devweight", group, &weight.to_string(), &file, &value)
            }
            What::Prio(p, prio) => match self.living(*p) {
                Some(pid) => set_prio(pid, *prio),
                None => Ok(()),
            },
            What::Move(p, group) => match self.living(*p) {
                Some(pid) if group.as_ref().is_none_or(|g| self.has(g)) => {
                    self.put_into(pid, group.as_deref())
                }
                _ => Ok(()),
            },
            What::Remove(group) if self.has(group) => self.remove(group),
            What::Write(group, file, value) if group.as_deref().is_none_or(|g| self.has(g)) => {
                let folder = group.as_deref().map_or(PathBuf::from(GROUPS), |g| self.folder(g));
                let path = folder.join(file);
                let group = group.as_deref().unwrap_or("root");
                let result = format!("{file} {value}");
                self.put("write", group, &result, &path, &value.replace(DEV, &self.number))
            }
            // A group that is gone by then.
            What::Weight(..) | What::DeviceWeight(..) | What::Remove(_) | What::Write(..) => Ok(()),
        }
    }

    fn has(&self, group: &str) -> bool {
        self.groups.iter().any(|have| have == group)
    }

    fn living(&self, p: usize) -> Option<libc::pid_t> {
        let pid = self.born[p]?;
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // Zombies have no place in a group any more.
        let state = stat.rsplit(") ").next()?.chars().next()?;
        (state != 'Z').then_some(pid)
    }

    fn put_into(&self, pid: libc::pid_t, group: Option<&str>) -> Result<(), String> {
        let folder = group.map_or(PathBuf::from(GROUPS), |g| self.folder(g));
        write(folder.join("cgroup.procs"), &pid.to_string())
    }

    /// Takes a group away, and those below it.
    fn remove(&mut self, group: &str) -> Result<(), String> {
        let below = format!("{group}/");
        let gone: Vec<String> = self
            .groups
            .iter()
            .rev()
            .filter(|g| *g == group || g.starts_with(&below))
            .cloned()
            .collect();
        for group in gone {
            let folder = self.folder(&group);
            let mut pids = String::new();
            let file = folder.join("cgroup.procs");
            at("cgroup.procs", File::open(&file).and_then(|mut f| f.read_to_string(&mut pids)))?;
            for pid in pids.lines() {
                // It may have ended in between.
                let _ = write(Path::new(GROUPS).join("cgroup.procs"), pid);
            }
            let open = at(&group, File::open(&folder))?;
            self.command(&format!("watch {} {group}", open.as_raw_fd()))?;
            at(&group, remove_group(&folder))?;
            self.groups.retain(|g| *g != group);
        }
        Ok(())
    }

    fn wait_for_all(&mut self) -> Result<(), String> {
        let mut failed = 0;
        loop {
            let mut status = 0;
            // SAFETY: `status` lives.
            match unsafe { libc::wait(&raw mut status) } {
                -1 => break,
                pid if self.born.contains(&Some(pid)) && status != 0 => failed += 1,
                _ => {}
            }
        }
        match failed {
            0 => Ok(()),
            n => Err(format!("{n} processes failed")),
        }
    }

    /// The lines end; what the scenario made is taken away again.
    fn end(&mut self) -> Result<(), String> {
        // What was written through the page cache reaches the scheduler while it is recorded.
        at(DISK, load::write_back(&self.disk))?;
        if self.scenario.is_of_controller() {
            self.note_statistics()?;
        }
        self.end_recording()?;
        let scheduler = self.scenario.scheduler.as_str();
        if self.scenario.weighs_groups() {
            // What is written through the page cache later may be theirs: then at least with the usual weight.
            for group in &self.groups {
                write(self.folder(group).join(group_file(scheduler, "weight")), "100")?;
            }
        }
        for group in std::mem::take(&mut self.groups).iter().rev() {
            self.unlimit(group)?;
            at(group, remove_group(&self.folder(group)))?;
        }
        write(format!("{QUEUE}/scheduler"), "none")
    }
}

/// Why a recording is not whole, as `linux/driver/hoistway_record.c` says it.
fn not_whole(error: io::Error) -> String {
    let why = match error.raw_os_error() {
        Some(libc::ENOBUFS) => "its buffer in the guest was full",
        Some(libc::ENOMEM) => "the guest had no memory left for it",
        Some(libc::E2BIG) => "a line of it was too long",
        Some(libc::ENOSPC) => "the controller came and went too often in one boot",
        Some(libc::EIO) => "the host's file could not be written (is the temporary folder full?)",
        _ => return format!("the recording could not be ended: {error}"),
    };
    format!("the recording is not whole: {why}")
}

/// Removes a group without processes. Newer kernels (7.3, not 6.12) count one that has ended for some time longer.
fn remove_group(folder: &Path) -> io::Result<()> {
    for _ in 0..LEAVING_LOOKS {
        match fs::remove_dir(folder) {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                load::sleep_until(load::clock() + LEAVING_NS);
            }
            other => return other,
        }
    }
    fs::remove_dir(folder)
}

/// Empties the disk's page cache and waits until nothing that is written there is of a group of the scenario before. The
/// next one would write for it, with settings that its recording does not have, and it would go for good in the midst of
/// that without a line that tells.
///
/// A removed group is written for as long as a page is charged to it, or the disk's inode is attached to it. When a group
/// is removed the kernel attaches the inodes of all removed ones elsewhere, but only those that are clean, and this one
/// has at least a time to be written: hence `sync`, and after it another group that is removed. That it has worked is
/// seen where the kernel counts removed groups by controller (6.12); pages of programs may hold them as such, and where a
/// controller may `hold` I/O of theirs, they live for minutes.
///
/// `false`: they are still there. The next scenario would depend on them, and BFQ of 6.12 dies of a null pointer where
/// low_latency is written while a group is there that was removed before BFQ was chosen.
fn forget_groups(hold: bool) -> Result<bool, String> {
    for look in 0..FORGETTING_LOOKS {
        let disk = at(DISK, File::open(DISK))?;
        // SAFETY: no memory is touched.
        let done = unsafe {
            libc::sync();
            libc::ioctl(disk.as_raw_fd(), BLKFLSBUF)
        };
        if done != 0 {
            return Err(format!("{DISK}: BLKFLSBUF: {}", io::Error::last_os_error()));
        }
        drop(disk);
        let folder = Path::new(GROUPS).join(format!("forget@{look}"));
        at("forget", fs::create_dir(&folder).and_then(|()| fs::remove_dir(&folder)))?;
        load::sleep_until(load::clock() + FORGETTING_NS);
        let stat = Path::new(GROUPS).join("cgroup.stat");
        let stat = at("cgroup.stat", fs::read_to_string(stat))?;
        let dying = stat.lines().find_map(|line| line.strip_prefix("nr_dying_subsys_io "));
        if hold || dying.is_none_or(|n| n == "0") {
            return Ok(true);
        }
    }
    Ok(false)
}

impl Guest<'_> {
    /// What the page cache still writes for a group that is gone is held by its settings: it is to have none.
    fn unlimit(&self, group: &str) -> Result<(), String> {
        let (file, none) = match self.scenario.scheduler.as_str() {
            "io.max" => ("io.max", "rbps=max wbps=max riops=max wiops=max"),
            "io.latency" => ("io.latency", "target=0"),
            _ => return Ok(()),
        };
        write(self.folder(group).join(file), &format!("{} {none}", self.number))
    }

    /// What the files say that count what was charged.
    fn note_statistics(&mut self) -> Result<(), String> {
        for group in std::iter::once(String::new()).chain(self.groups.clone()) {
            let folder = if group.is_empty() { PathBuf::from(GROUPS) } else { self.folder(&group) };
            let path = folder.join("io.stat");
            if group.is_empty() && !path.exists() {
                // The root has one from 5.10 on.
                continue;
            }
            let text = at(&path.display().to_string(), fs::read_to_string(&path))?;
            let name = if group.is_empty() { "root" } else { &group };
            let words = text.lines().find_map(|l| l.strip_prefix(self.number.as_str()));
            if let Some(words) = words {
                self.command(&format!("note stat,,,,,,,{name},{},", words.trim()))?;
            }
        }
        Ok(())
    }
}

/// 0 is the caller.
fn set_prio(pid: libc::pid_t, prio: IoPrio) -> Result<(), String> {
    const WHO_PROCESS: libc::c_int = 1;
    if prio == IoPrio::NONE && pid == 0 {
        return Ok(());
    }
    // SAFETY: no memory is touched.
    let answer =
        unsafe { libc::syscall(libc::SYS_ioprio_set, WHO_PROCESS, pid, u32::from(prio.word())) };
    match answer {
        0 => Ok(()),
        _ => Err(format!("ioprio_set: {}", io::Error::last_os_error())),
    }
}
