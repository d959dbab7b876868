//! A drive's model as a block device of this machine: `hoistway emulate`.
//!
//! Commands of the block layer go straight to the model (`acting`), with nothing of ours in between that
//! would order, merge or delay them: what schedules is the kernel's scheduler on the loop device, and it
//! finds a queue like the drive's (`queue`). The way there is a file (FUSE, `file`) and a loop device on it with
//! direct I/O. How much this machine carries that way is measured first (`probe`).
//!
//! **What differs from the drive** is told by [`Emulator::rows`] and the figures of lateness. Known: the loop driver
//! has at most its own number of tags and one hardware queue; it sends a flush or discard only by a thread that
//! waits for it, so commands of the same cgroup behind it come to the drive when that is done; it takes no forced
//! unit access; requests of more than 128 separate pieces of memory are cut by it.

mod acting;
mod awake;
mod figures;
mod file;
mod probe;
mod process;
mod queue;
mod state;
mod store;
mod stripes;

pub use acting::PathTime;
pub(crate) use figures::lateness;
pub use probe::Carried;
pub use process::EmulatorProcess;
pub use queue::QueueRow;
pub use state::{Known, cleanup, known};

use crate::kernel::Volume;
use crate::kernel::loopdev::{Detached, LoopDevice, LoopOptions};
use crate::{MachineError, os};
use acting::{Acting, Service};
use awake::Awake;
use file::DriveFolder;
use fuser::{Config, Session, SessionACL};
use hoistway::{Nanos, Op};
use hoistway_serve::ServeError;
use hoistway_serve::front::fuse::attach::{self, MountPoint};
use hoistway_serve::front::fuse::{NOTICE, over};
use hoistway_serve::storage::{EmulationFigures, TargetError, single_command};
use hoistway_serve::system::thread;
use hoistway_serve::system::wall_clock;
use hoistway_sim::drive::DriveFile;
use rustix::process::{getgid, getuid};
use state::StateFolder;
use std::fmt;
use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{Builder, JoinHandle, sleep};
use std::time::Duration;
use store::Store;

/// Threads that read the kernel's requests: each copies what is written.
const READERS: usize = 2;
/// Requests of that many bytes are as long as the block layer makes them.
const LONGEST: u64 = 1280 << 10;
/// How many pages FUSE lets a request have, for all mounts to come (Linux 6.12).
const PAGES_LIMIT: &str = "/proc/sys/fs/fuse/max_pages_limit";
/// Before there was that limit (from linux/fuse.h).
const PAGES: u64 = 256;
/// How often, and how long, a user of the device is waited for.
const LOOK: Duration = Duration::from_millis(50);

/// Whether a file is the drive of an emulator, as a loop device names it.
pub fn is_drive(file: &Path) -> bool {
    file.starts_with(state::base())
}

/// Whether all storage of a place is drives of emulators.
pub fn is_emulated(place: &Volume) -> bool {
    drive_files(place).is_some()
}

/// The files that emulators act the storage of a place out as; `None`: not all of it is.
fn drive_files(place: &Volume) -> Option<Vec<PathBuf>> {
    let file = |what: &String| what.strip_prefix("backing file ").map(PathBuf::from);
    let files = place.chain.iter().filter_map(|link| file(link.what.as_ref()?));
    let files: Vec<PathBuf> = files.collect();
    (!files.is_empty() && files.iter().all(|f| is_drive(f))).then_some(files)
}

/// Which drive, and where its data is.
#[derive(Clone, Debug)]
pub struct EmulatorOptions {
    /// The drive.
    pub drive: DriveFile,
    /// Bytes of it, from its beginning; `None`: all.
    pub size: Option<u64>,
    /// A sparse file for the data; `None`: memory.
    pub store: Option<PathBuf>,
    /// Bytes of memory for the data; `None`: half of what is free now.
    pub memory: Option<u64>,
    /// Seed of the model's randomness.
    pub seed: u64,
    /// Start although this machine does not keep up.
    pub anyway: bool,
}

impl EmulatorOptions {
    /// All of the drive, in memory, with seed 1.
    pub fn new(drive: DriveFile) -> EmulatorOptions {
        EmulatorOptions { drive, size: None, store: None, memory: None, seed: 1, anyway: false }
    }
}

/// A drive that is acted out, with its loop device.
pub struct Emulator {
    device: LoopDevice,
    mount: Option<MountPoint>,
    session: Option<JoinHandle<()>>,
    timer: Option<JoinHandle<()>>,
    awake: Option<Awake>,
    drive: Arc<Acting>,
    state: Option<StateFolder>,
    /// Bytes of the drive, and of memory or file at most.
    size: u64,
    room: u64,
    rows: Vec<QueueRow>,
    carried: Carried,
    notes: Vec<String>,
}

impl Emulator {
    /// Starts a drive: mounts it, attaches a loop device, measures what is carried, sets up the queue.
    ///
    /// # Errors
    ///
    /// Without root, FUSE or loop devices; when the drive is faster than this machine and it is not to be acted
    /// out anyway; a size that does not fit it.
    pub fn start(options: &EmulatorOptions) -> Result<Emulator, MachineError> {
        let size = check_size(options)?;
        let (store, room) = store_of(options, size)?;
        let drive = Arc::new(Acting::new(&options.drive, options.seed, store));
        let mut state = StateFolder::create()?;
        state.add("drive", &options.drive.id)?;
        let raised = PagesLimit::raise(longest(&options.drive));
        let longest = longest(&options.drive).min(raised.pages() * 4096);
        let (folder, _) = attach::prepare(&state.mount_point())?;
        let (connection, mount) = attach::attach(folder.clone(), false)?;
        let timer = spawn("hoistway-drive", {
            let drive = Arc::clone(&drive);
            move || {
                thread::precise_timers();
                thread::urgent();
                drive.run();
            }
        })?;
        // From here on dropping it undoes everything.
        let mut emulator = Emulator {
            device: LoopDevice { number: u32::MAX, backing: PathBuf::new(), own: false, seq: None },
            mount: Some(mount),
            session: None,
            timer: Some(timer),
            awake: None,
            drive: Arc::clone(&drive),
            state: Some(state),
            size,
            room,
            rows: Vec::new(),
            carried: Carried { iops: 0, bytes_per_second: 0, path: PathTime::default() },
            notes: Vec::new(),
        };
        let tree = DriveFolder {
            name: options.drive.id.clone(),
            size,
            sector: options.drive.identity.sector_bytes,
            discard: discard_granularity(&options.drive),
            longest: longest as u32,
            drive,
            born: wall_clock(),
            owner: (getuid().as_raw(), getgid().as_raw()),
        };
        emulator.session = Some(serve(tree, connection)?);
        drop(raised);
        emulator.awake = Some(Awake::watch(&emulator.drive).map_err(os("thread"))?);
        emulator.attach(options, &folder.join(&options.drive.id))?;
        emulator.measure(options, longest)?;
        emulator.rows = queue::set_up(&emulator.device, &options.drive, longest)?;
        Ok(emulator)
    }

    fn attach(&mut self, options: &EmulatorOptions, file: &Path) -> Result<(), MachineError> {
        let block = options.drive.identity.sector_bytes as u32;
        let how = LoopOptions { block, ..LoopOptions::default() };
        let state = self.state.as_mut().expect("it is there until the end");
        self.device = LoopDevice::attach_known(file, how, |device| {
            state.add("backing", &device.backing.display().to_string())?;
            state.add("own", if device.own { "1" } else { "0" })?;
            state.add("loop", &device.number.to_string())
        })?;
        self.device.seq.map_or(Ok(()), |seq| state.add("seq", &seq.to_string()))
    }

    fn measure(&mut self, options: &EmulatorOptions, longest: u64) -> Result<(), MachineError> {
        let depth = options.drive.host.queue_depth;
        let path = self.device.path();
        self.carried = probe::measure(&path, &self.drive, self.size, longest as u32, depth)?;
        self.drive.serve(Service::Model, self.carried.path);
        let lacking = shortfalls(&options.drive, &self.carried);
        match (lacking.first(), options.anyway) {
            (Some((drive_figure, machine_figure)), false) => {
                Err(MachineError::Serve(ServeError::TooFast {
                    drive: options.drive.id.clone(),
                    drive_figure: drive_figure.clone(),
                    machine_figure: machine_figure.clone(),
                }))
            }
            _ => {
                let tell = |(drive, machine): &(String, String)| {
                    format!("the drive does {drive}, this machine carries {machine}")
                };
                self.notes.extend(lacking.iter().map(tell));
                Ok(())
            }
        }
    }

    /// The block device.
    pub fn device(&self) -> PathBuf {
        self.device.path()
    }

    /// Bytes of the drive.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Bytes of memory or of the file that its data may take.
    pub fn room(&self) -> u64 {
        self.room
    }

    /// Bytes that its data takes.
    pub fn used(&self) -> u64 {
        self.drive.store().used()
    }

    /// What was set in the queue of the loop device, and what could not be.
    pub fn rows(&self) -> &[QueueRow] {
        &self.rows
    }

    /// What the self-test found.
    pub fn carried(&self) -> Carried {
        self.carried
    }

    /// What a user should know: where the machine is slower than the drive.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// How late commands were.
    pub fn figures(&self) -> EmulationFigures {
        self.drive.figures()
    }

    /// Most commands in the drive at a time.
    pub fn most_under_way(&self) -> u32 {
        self.drive.most_under_way()
    }

    /// Who keeps the device from being detached.
    pub fn users(&self) -> Vec<String> {
        self.device.users()
    }

    /// Detaches the device and unmounts the drive, after waiting so long for whoever uses it; then it is pulled from
    /// under them. Says who that was.
    ///
    /// # Errors
    ///
    /// What the system says when it refuses.
    pub fn stop(mut self, patience: Duration) -> Result<Vec<String>, MachineError> {
        let mut looks = patience.as_millis() / LOOK.as_millis();
        let mut users = self.users();
        while !users.is_empty() && looks > 0 {
            looks -= 1;
            sleep(LOOK);
            users = self.users();
        }
        self.end()?;
        Ok(users)
    }

    /// Takes everything away. What is gone already stays gone.
    fn end(&mut self) -> Result<(), MachineError> {
        let Some(mount) = self.mount.take() else { return Ok(()) };
        let detached = match self.device.number {
            u32::MAX => Ok(Detached::Gone),
            _ => self.device.detach(),
        };
        // The loop driver lets go of the file a moment after it was detached.
        let gone = matches!(detached, Ok(Detached::Gone | Detached::NotOurs));
        let free = gone
            && (0..40).any(|_| {
                let free = mount.detach().unwrap_or(false);
                if !free {
                    sleep(LOOK);
                }
                free
            });
        if !free {
            mount.sever();
        }
        self.awake = None;
        self.drive.close();
        if let Some(timer) = self.timer.take() {
            let _ = timer.join();
        }
        if !over(&mut self.session, NOTICE) {
            // Gone from here, it is still mounted in another namespace (a container, a sandbox).
            mount.sever();
            // What cannot be cut ends with this process.
            over(&mut self.session, NOTICE);
        }
        if matches!(detached, Ok(Detached::Later)) {
            // With the connection gone nothing holds it up but whoever has it open or mounted.
            if let Detached::Later = self.device.detach()? {
                let users = self.users().join(", ");
                let device = self.device().display().to_string();
                // The state stays for `--cleanup`.
                return Err(MachineError::Refused(format!(
                    "{device} is still used ({users}); it gives errors now. Unmount it, then run \
                     `hoistway emulate --cleanup`"
                )));
            }
        }
        self.drive.store().close().map_err(os("data of the drive"))?;
        // A device that could not be detached is for `--cleanup` to find.
        detached?;
        if let Some(state) = self.state.take() {
            state.remove();
        }
        Ok(())
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

impl fmt::Debug for Emulator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Emulator").field("device", &self.device).finish_non_exhaustive()
    }
}

fn check_size(options: &EmulatorOptions) -> Result<u64, MachineError> {
    let identity = &options.drive.identity;
    let (whole, sector) = (identity.capacity_bytes, identity.sector_bytes);
    let size = options.size.unwrap_or(whole);
    if size == 0 || size > whole || !size.is_multiple_of(sector) {
        let drive = options.drive.id.to_string();
        return Err(TargetError::DriveSize { drive, size, whole, sector }.into());
    }
    Ok(size)
}

fn store_of(options: &EmulatorOptions, size: u64) -> Result<(Store, u64), MachineError> {
    match &options.store {
        Some(path) => Ok((Store::file(path, size)?, size)),
        None => {
            let room = options.memory.unwrap_or_else(|| available() / 2).min(size);
            Ok((Store::memory(size, room)?, room))
        }
    }
}

/// Memory that is free, by the kernel's estimate.
fn available() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|l| l.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|l| l.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kib.unwrap_or(1 << 20) * 1024
}

fn discard_granularity(drive: &DriveFile) -> Option<u64> {
    let seen = drive.device();
    (seen.max_discard_sectors.0 > 0).then_some(seen.discard_granularity.0 * 512)
}

/// The longest request the drive takes; FUSE may carry less.
fn longest(drive: &DriveFile) -> u64 {
    (drive.device().max_sectors.0 * 512).min(LONGEST)
}

/// What the machine carries less of than the drive does: the drive's figure, and the machine's.
fn shortfalls(drive: &DriveFile, carried: &Carried) -> Vec<(String, String)> {
    let mut list = Vec::new();
    let cost = &drive.iocost;
    let most = cost.rrandiops.max(cost.wrandiops);
    if most > carried.iops {
        let machine = format!("{} through loop device and FUSE", carried.iops);
        list.push((format!("{most} random 4 KiB I/Os per second"), machine));
    }
    let rate = cost.rbps.max(cost.wbps);
    if rate > carried.bytes_per_second {
        let mb = |bytes: u64| format!("{} MB/s", bytes / 1_000_000);
        list.push((mb(rate), mb(carried.bytes_per_second)));
    }
    let (read, path) = (single_command(drive, Op::Read), carried.path.fixed);
    if path.0.saturating_sub(read.0) > (read.0 / 20).max(Nanos::us(20).0) {
        let us = |time: Nanos| format!("{:.0} us", time.0 as f64 / 1e3);
        list.push((format!("a random read in {}", us(read)), format!("one in {}", us(path))));
    }
    list
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, MachineError> {
    Builder::new().name(name.into()).spawn(run).map_err(os("thread"))
}

/// Shakes hands with the kernel and starts to read requests.
fn serve(tree: DriveFolder, connection: OwnedFd) -> Result<JoinHandle<()>, MachineError> {
    let mut config = Config::default();
    config.n_threads = Some(READERS);
    config.clone_fd = true;
    let session = Session::from_fd(tree, connection, SessionACL::All, config);
    let session = session.map_err(os("FUSE"))?;
    spawn("hoistway-fuse", move || {
        thread::io_flusher();
        thread::urgent();
        // It ends when the folder is unmounted or severed.
        let _ = session.run();
    })
}

/// The kernel's limit on the length of a FUSE request, raised while ours is negotiated: it holds for the
/// connections made meanwhile.
struct PagesLimit(Option<String>);

impl PagesLimit {
    fn raise(longest: u64) -> PagesLimit {
        let wanted = longest.div_ceil(4096);
        let before = fs::read_to_string(PAGES_LIMIT).unwrap_or_default();
        let low = before.trim().parse::<u64>().is_ok_and(|limit| limit < wanted);
        if low && fs::write(PAGES_LIMIT, wanted.to_string()).is_ok() {
            return PagesLimit(Some(before));
        }
        PagesLimit(None)
    }

    /// Pages of a request of a connection that is made now.
    fn pages(&self) -> u64 {
        let limit = fs::read_to_string(PAGES_LIMIT).ok().and_then(|t| t.trim().parse().ok());
        limit.unwrap_or(PAGES)
    }
}

impl Drop for PagesLimit {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            let _ = fs::write(PAGES_LIMIT, before.trim());
        }
    }
}
