//! The host model: page cache, read-ahead, journal, and what a system call costs (specs/host.md).
//!
//! A state machine like all others. A process is given an [`Operation`] ([`Host::begin`]); then
//! [`Host::step`] is asked, each time the process may go on, what it does next ([`Act`]): submit a bio,
//! wait until a time, block, finish. [`Host::completed`] tells of bios that the device has served;
//! processes that this wakes come out of [`Host::woken`]. The caller owns the clock.
//!
//! The *shape* of the I/O at the block layer is what the model keeps: sizes, order, who waits for what.
//! Runs of calls that cannot block are one step (host.md 1.3): without that a 256 KiB window read in
//! 4 KiB calls would cost 64 events instead of one.
//!
//! Not built: btrfs and nilfs2, writes through the raw device, dirty limits per group. Parameters that
//! would need them are refused.

mod ahead;
mod block;
mod cache;
mod config;
mod contents;
mod direct;
mod dirty;
mod files;
mod flusher;
mod journal;
mod layout;
mod owner;
mod process;
mod read;
mod submit;
mod sync;
#[cfg(test)]
mod tests;
mod wb30;
mod write;

pub use ahead::Variant;
pub use block::{BlockIo, Notice};
pub use cache::PAGE;
pub use config::{DataMode, Fs, HostConfig, Writeback};
pub use contents::{Bio, Change};

use crate::drive::DriveFile;
use crate::world::{JobError, NamedFigure};
use cache::{FileCache, Memory};
use dirty::Thresholds;
use flusher::{Flusher, Listed};
use hoistway::list::Links;
use hoistway::{GroupId, Instant, Io, IoId, IoPrio, Nanos, ProcId, Profile, Sectors};
use journal::Journal;
use layout::Layout;
use owner::Ballot;
use process::{Proc, Stage, Wait};
use submit::Flight;
use wb30::Old;

/// A file of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileId(pub u32);

/// A process's advice on the file it has opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Advice {
    /// None.
    #[default]
    Normal,
    /// The read-ahead limit is doubled.
    Sequential,
    /// No read-ahead.
    Random,
}

/// What follows a buffered write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SyncKind {
    /// Nothing.
    #[default]
    No,
    /// fdatasync, which counts into the call's latency.
    Data,
    /// fsync, which counts into the call's latency.
    Full,
    /// fsync, and only its time counts as the call's latency.
    FullAlone,
}

/// What a process asks of its host, one at a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Operation {
    /// Opens a file afresh: forgets the read-ahead state.
    Open {
        /// Which.
        file: FileId,
        /// What it will do.
        advice: Advice,
    },
    /// Starts the write-back of the file's dirty pages and drops the clean ones (host.md 4.3).
    DontNeed(FileId),
    /// The same for the pages of a part of it.
    DontNeedPart {
        /// Which file.
        file: FileId,
        /// From where; a multiple of the page.
        offset: u64,
        /// How much.
        len: u64,
    },
    /// `count` buffered calls of `bs` bytes, one behind the other, from `offset` on. The file is open.
    Read {
        /// From where.
        offset: u64,
        /// Bytes of a call.
        bs: u64,
        /// Number of calls.
        count: u64,
    },
    /// The same with writes, into blocks that exist; whole pages only.
    Write {
        /// From where.
        offset: u64,
        /// Bytes of a call, a multiple of the page.
        bs: u64,
        /// Number of calls.
        count: u64,
        /// What follows the last call.
        sync: SyncKind,
    },
    /// One direct call (host.md 6). The file is open.
    Direct {
        /// A write into blocks that exist, instead of a read.
        write: bool,
        /// From where; a multiple of the sector size.
        offset: u64,
        /// How much; a multiple of the sector size.
        len: u64,
        /// When it was meant to be issued, if not now: latency counts from there.
        since: Option<Instant>,
        /// It is followed by an fdatasync, which counts into its latency.
        sync: bool,
    },
    /// fdatasync of a file.
    Fdatasync(FileId),
    /// fsync of a file.
    Fsync(FileId),
    /// sync(): everything dirtied so far, of all files.
    Sync,
    /// Makes a declared file, or empties it if it exists.
    Create(FileId),
    /// Deletes it: its pages and blocks are gone, dirty or not.
    Unlink(FileId),
    /// Drops all clean pages of all files.
    DropCaches,
    /// Straight to the block layer.
    Block(BlockIo),
    /// Nothing that the host does itself; takes no time.
    Tell(Notice),
    /// Nothing until then.
    Sleep(Instant),
    /// The process ends.
    Exit,
}

/// Calls that are over: the first took `first` and ended at `first_end`, each further one took `each`
/// and followed at once.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ran {
    /// Latency of the first call.
    pub first: Nanos,
    /// When it ended.
    pub first_end: Instant,
    /// Latency of each further call.
    pub each: Nanos,
    /// Number of calls.
    pub calls: u64,
    /// Bytes of one call.
    pub bytes: u64,
    /// When the process goes on; ask again then.
    pub until: Instant,
}

/// What a process does next.
#[derive(Clone, Debug)]
pub enum Act {
    /// It opens a plug section. Ask again at once.
    Plug,
    /// It closes the plug section. Ask again at once.
    Unplug,
    /// It submits this I/O. Ask again when the submission is over (accepted).
    Submit(Io),
    /// It is busy. Ask again then.
    WaitUntil(Instant),
    /// Calls are over.
    Ran(Ran),
    /// It pauses until then, because too much is dirty.
    Throttled(Instant),
    /// It waits for I/O; [`Host::woken`] says when it goes on.
    Block,
    /// It has nothing to do; [`Host::woken`] says when it goes on.
    Rest,
    /// Something for the caller to carry out. Ask again at once.
    Tell(Notice),
    /// The operation is over: [`Host::begin`] another one, at this instant.
    Finished,
    /// It has reached its stop time between two calls.
    Stopped,
    /// It has exited.
    Exited,
    /// The model cannot do that.
    Fault(Box<JobError>),
}

/// Who a process is to the host.
#[derive(Clone, Copy, Debug)]
pub struct ProcInfo {
    /// Its id in the block layer.
    pub id: ProcId,
    /// Its group.
    pub group: GroupId,
    /// Its effective I/O priority.
    pub prio: IoPrio,
    /// Its CPU.
    pub cpu: u32,
}

#[derive(Debug)]
struct File {
    cache: FileCache,
    /// Place on the device in bytes.
    start: u64,
    bytes: u64,
    /// The group that dirtied it first.
    owner: Option<GroupId>,
    ballot: Ballot,
    /// Its flusher, and where it stands with it.
    flusher: u32,
    listed: Listed,
    /// Page at which the flusher goes on.
    cursor: u64,
    /// Pages under write-back.
    out: u64,
    /// Its length so far.
    size: u64,
    /// Some page may have no block.
    sparse: bool,
    /// Transaction of its last change, and of its last change of length or blocks; 0: none.
    changed: u64,
    remapped: u64,
    /// The last sync() that has been over it.
    synced: u64,
    /// When its oldest dirty page became dirty.
    dirtied_at: Instant,
    /// The 4 ms tick of its last time stamp.
    stamped: Option<u64>,
    /// Processes that wait for its pages or write-back.
    waiters: Vec<u32>,
    /// Number of the write-back bio emitted last.
    write_seq: u64,
    /// Write-back bios that are not served yet.
    writing: u64,
}

/// Length of the tick in which time stamps count (host.md 7).
const STAMP_TICK: Nanos = Nanos::ms(4);
/// Largest device that raw loads may use: its map takes 76 bytes for every 256 KiB, here 640 MB.
const RAW_MOST: u64 = 1 << 41;
/// Longest run of calls in one step (host.md 1.3).
const STEP: u64 = 10_000_000;

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    hits: u64,
    misses: u64,
    windows: u64,
    ahead_pages: u64,
    read_bios: u64,
    write_bios: u64,
    flush_bios: u64,
    dirty_max: u64,
    held_max: u64,
    owner_changes: u64,
    pauses: u64,
    chunks: u64,
    pause_time: Nanos,
}

/// The host: memory, files and processes.
#[derive(Debug)]
pub struct Host {
    config: HostConfig,
    copy_ns_per_kib: u64,
    start_frac: f64,
    /// Most pages of a bio.
    bio_pages: u64,
    /// Largest request of the device in pages.
    request_pages: u64,
    sector: u64,
    thresholds: Thresholds,
    /// Dirty pages, and pages under write-back.
    dirty: u64,
    out: u64,
    flushers: Vec<Flusher>,
    /// By group: its flusher.
    flusher_of: Vec<Option<u32>>,
    /// When the flushers' shares were computed last.
    shares_at: Instant,
    /// Places of the files in the flushers' lists.
    inode_links: Links,
    /// Processes that wait for memory.
    memory_waiters: Vec<u32>,
    /// The request made last was cut for want of memory.
    short_of_memory: bool,
    layout: Layout,
    memory: Memory,
    files: Vec<File>,
    /// The device as one file, once somebody has asked for it.
    device: Option<FileId>,
    /// Files that several loads use, by name.
    shared: Vec<(String, FileId)>,
    /// First byte of the device that no raw sequential load has been given.
    raw_next: u64,
    /// The loads' processes, then the journal's, then the flushers'.
    procs: Vec<Proc>,
    journal: Option<usize>,
    log: Journal,
    old: Old,
    /// Processes that wait for the end of the pool's congestion, at most for a while.
    congestion_waiters: Vec<u32>,
    /// Calls of sync() so far.
    syncs: u64,
    flights: Vec<Flight>,
    free: Vec<u32>,
    woken: Vec<(usize, Instant)>,
    fault: Option<Box<JobError>>,
    /// Pages made dirty, for somebody who holds their contents: process, file, from, to.
    dirtied: Option<Vec<(usize, FileId, u64, u64)>>,
    counts: Counts,
}

impl Host {
    /// A host for `drive`, whose block layer builds requests of at most `max_request`.
    pub fn new(config: HostConfig, drive: &DriveFile, max_request: Sectors, seed: u64) -> Host {
        let legacy = config.block_profile == Profile::Legacy;
        let request_pages = max_request.bytes().0 / PAGE;
        let start_frac = config
            .start_frac
            .or_else(|| drive.baseline.get("file_start_frac").copied())
            .unwrap_or(0.05);
        // Kernel, programs and reserves take the rest (host.md 4.2): floor(0.85 total).
        let limit = config.ram / PAGE * 85 / 100;
        let layout =
            Layout::new(drive.identity.capacity_bytes, start_frac, config.layout_gap_kib, seed);
        Host {
            copy_ns_per_kib: config.copy_ns_per_kib.unwrap_or(drive.host.copy_ns_per_kib),
            start_frac,
            bio_pages: if legacy { request_pages.clamp(1, 256) } else { 256 },
            request_pages,
            sector: drive.identity.sector_bytes,
            thresholds: Thresholds::new(limit, &config),
            dirty: 0,
            out: 0,
            flushers: Vec::new(),
            flusher_of: Vec::new(),
            shares_at: Instant::ZERO,
            inode_links: Links::new(0),
            memory_waiters: Vec::new(),
            short_of_memory: false,
            layout,
            memory: Memory::new(limit),
            files: Vec::new(),
            device: None,
            shared: Vec::new(),
            raw_next: 0,
            procs: Vec::new(),
            journal: None,
            log: Journal::default(),
            old: Old::default(),
            congestion_waiters: Vec::new(),
            syncs: 0,
            flights: Vec::new(),
            free: Vec::new(),
            woken: Vec::new(),
            fault: None,
            dirtied: None,
            counts: Counts::default(),
            config,
        }
    }

    /// Lays out an allocated file; files lie in the order of these calls.
    pub fn add_file(&mut self, bytes: u64) -> Result<FileId, JobError> {
        let start = self.layout.place(bytes)?;
        Ok(self.push_file(start, bytes))
    }

    /// The allocated file called `name`, laid out when it is first asked for; all who ask must want the
    /// same size.
    pub fn shared_file(&mut self, name: &str, bytes: u64) -> Result<FileId, JobError> {
        if let Some(&(_, file)) = self.shared.iter().find(|(known, _)| known == name) {
            let size = self.files[file.0 as usize].bytes;
            if size == bytes {
                return Ok(file);
            }
            let message =
                format!("file {name} has {size} B for one and {bytes} B for another load");
            return Err(JobError::Parameter { of: "host".into(), message });
        }
        let file = self.add_file(bytes)?;
        self.shared.push((name.to_string(), file));
        Ok(file)
    }

    /// The device as one file with a page cache of its own (host.md 14, raw). It lies over the files of
    /// [`Host::add_file`] and shares no page with them.
    pub fn device_file(&mut self) -> Result<FileId, JobError> {
        if let Some(file) = self.device {
            return Ok(file);
        }
        let bytes = self.layout.capacity() / PAGE * PAGE;
        if bytes > RAW_MOST {
            return Err(JobError::Parameter {
                of: "host".into(),
                message: format!(
                    "raw loads: the drive has {} GB; choose one of at most {} GB (the map of its page \
                     cache is held in memory)",
                    bytes / 1_000_000_000,
                    RAW_MOST / 1_000_000_000
                ),
            });
        }
        let file = self.push_file(0, bytes);
        self.device = Some(file);
        Ok(file)
    }

    /// Gives the next raw sequential load its range of the device: the i-th asked for lies behind the
    /// ones before it, from byte 0 on (experiments.md 3.2). Returns where it begins.
    pub fn raw_range(&mut self, bytes: u64) -> Result<u64, JobError> {
        let begin = self.raw_next;
        if bytes > self.capacity() - begin {
            return Err(JobError::DoesNotFit { needed: bytes, available: self.capacity() - begin });
        }
        self.raw_next += bytes.next_multiple_of(PAGE).min(self.capacity() - begin);
        Ok(begin)
    }

    fn push_file(&mut self, start: u64, bytes: u64) -> FileId {
        let id = self.files.len() as u32;
        self.inode_links.grow(self.files.len() + 1);
        self.files.push(File {
            cache: self.memory.add_file(id, bytes.div_ceil(PAGE)),
            start,
            bytes,
            owner: None,
            size: bytes,
            sparse: false,
            changed: 0,
            remapped: 0,
            synced: 0,
            ballot: Ballot::default(),
            flusher: 0,
            listed: Listed::No,
            cursor: 0,
            out: 0,
            dirtied_at: Instant::ZERO,
            stamped: None,
            waiters: Vec::new(),
            write_seq: 0,
            writing: 0,
        });
        FileId(id)
    }

    /// Adds a process; processes are numbered from 0 in the order of these calls. `stop`: it starts no
    /// call at or after that time.
    pub fn add_proc(&mut self, info: ProcInfo, stop: Option<Instant>) -> usize {
        self.procs.push(Proc::new(info, stop));
        self.procs.len() - 1
    }

    /// Adds the journal's thread, behind the loads' processes.
    pub fn add_journal(&mut self, info: ProcInfo) -> usize {
        let p = self.add_proc(info, None);
        self.procs[p].stage = Stage::JournalRest;
        self.journal = Some(p);
        p
    }

    /// Best-effort level of the journal's thread (host.md 11).
    pub fn journal_level(&self) -> u8 {
        if self.config.fs == Fs::Ext4 { 3 } else { 4 }
    }

    /// First byte of a file on the device.
    pub fn place_of(&self, file: FileId) -> u64 {
        self.files[file.0 as usize].start
    }

    /// First byte of the journal on the device.
    pub fn journal_place(&self) -> u64 {
        self.layout.journal
    }

    /// Smallest unit of direct I/O in bytes.
    pub fn sector(&self) -> u64 {
        self.sector
    }

    /// Bytes of the device.
    pub fn capacity(&self) -> u64 {
        self.layout.capacity()
    }

    /// I/Os submitted and not completed.
    pub fn in_flight(&self) -> u64 {
        (self.flights.len() - self.free.len()) as u64
    }

    /// Gives process `p`, whose last operation is over, its next one.
    pub fn begin(&mut self, now: Instant, p: usize, operation: Operation) {
        assert!(matches!(self.procs[p].stage, Stage::Idle), "one operation of a process at a time");
        self.procs[p].stage = Stage::of(now, operation);
    }

    /// Takes a process that goes on because I/O has completed, and when.
    pub fn woken(&mut self) -> Option<(usize, Instant)> {
        self.woken.pop()
    }

    /// Since when the unfinished call of process `p` has been running.
    pub fn call_begun(&self, p: usize) -> Option<Instant> {
        self.procs[p].stage.begun()
    }

    /// The device has served an I/O.
    pub fn completed(&mut self, now: Instant, io: IoId) {
        let flight = self.land(io);
        if flight.pooled {
            self.count_async(now, true);
        }
        match flight.kind {
            submit::Kind::Read => {
                let f = &mut self.files[flight.file as usize];
                let (a, b) = (flight.first, flight.first + u64::from(flight.pages));
                f.cache.set_ready(a, b);
                self.wake_waiters(now, flight.file, |wait| match *wait {
                    Wait::Page(page) => a <= page && page < b,
                    _ => false,
                });
            }
            submit::Kind::Write => {
                let end = flight.first + u64::from(flight.pages);
                self.written(now, flight.file, flight.first, end);
                if flight.order > 0 {
                    self.ordered_done(now, flight.order);
                }
                self.wake_waiters(now, flight.file, |wait| match wait {
                    Wait::Writes { mark, left } if flight.seq <= *mark => {
                        *left -= 1;
                        *left == 0
                    }
                    _ => false,
                });
            }
            submit::Kind::Own => {
                self.own_done(now, flight.proc as usize, flight.owner);
            }
        }
        while let Some(p) = self.memory_waiters.pop() {
            self.wake(now, p as usize);
        }
    }

    /// A controller has process `p`, unless it is the journal or a flusher, start no call before `until`.
    pub fn delay(&mut self, p: usize, until: Instant) {
        let proc = &mut self.procs[p];
        proc.delay = proc.delay.max(until);
    }

    /// A controller slows the group of process `p` down: its read-ahead is cut to the missing page
    /// (host.md 5.1).
    pub fn set_congested(&mut self, p: usize, congested: bool) {
        self.procs[p].congested = congested;
    }

    /// Until when process `p` starts no call.
    pub fn delayed(&self, p: usize) -> Instant {
        self.procs[p].delay
    }

    /// Wakes the waiters of a file of which `ends` says that their wait is over.
    fn wake_waiters(&mut self, now: Instant, file: u32, mut ends: impl FnMut(&mut Wait) -> bool) {
        let mut i = 0;
        while i < self.files[file as usize].waiters.len() {
            let p = self.files[file as usize].waiters[i] as usize;
            if ends(&mut self.procs[p].wait) {
                self.files[file as usize].waiters.remove(i);
                self.wake(now, p);
            } else {
                i += 1;
            }
        }
    }

    fn wake(&mut self, now: Instant, p: usize) {
        let proc = &mut self.procs[p];
        let waited = now - proc.blocked_at;
        match proc.wait {
            Wait::Page(_) => proc.waited_page += waited,
            _ => proc.waited_io += waited,
        }
        proc.wait = Wait::None;
        self.woken.push((p, now + Nanos(self.config.wake_ns)));
    }

    /// Every parameter in force.
    pub fn parameters(&self) -> Vec<(String, String)> {
        self.config.parameters(self.copy_ns_per_kib, self.start_frac, self.flushers.len() > 1)
    }

    /// Figures of the whole run.
    pub fn figures(&self) -> Vec<NamedFigure> {
        let c = &self.counts;
        let whole = [
            ("cache_hit_pages", c.hits),
            ("cache_misses", c.misses),
            ("cached_pages", self.memory.cached()),
            ("reclaimed_pages", self.memory.reclaimed),
            ("dropped_unread_pages", self.memory.dropped_unread),
            ("ahead_windows", c.windows),
            ("ahead_pages", c.ahead_pages),
            ("read_bios", c.read_bios),
            ("write_bios", c.write_bios),
            ("flush_bios", c.flush_bios),
            ("dirty_pages_max", c.dirty_max),
            ("held_pages_max", c.held_max),
            ("owner_changes", c.owner_changes),
            ("pauses", c.pauses),
            ("pause_time_ns", c.pause_time.0),
            ("writers_own_chunks", c.chunks),
            ("commits", self.log.commits),
            ("commit_time_ns", self.log.commit_time.0),
            ("journal_blocks", self.log.blocks),
        ];
        let figure = |name: &str, of, value: u64| NamedFigure {
            name: name.to_string(),
            of,
            value: i64::try_from(value).unwrap_or(i64::MAX),
        };
        let mut all: Vec<_> =
            whole.iter().map(|&(name, value)| figure(name, None, value)).collect();
        for (i, p) in self.procs.iter().enumerate() {
            let of = Some(i as u32);
            all.push(figure("waited_for_page_ns", of, p.waited_page.0));
            all.push(figure("waited_for_io_ns", of, p.waited_io.0));
            all.push(figure("waited_for_submission_ns", of, p.waited_submit.0));
            all.push(figure("waited_for_dirty_limit_ns", of, p.waited_throttle.0));
        }
        all
    }
}
