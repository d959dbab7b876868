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
//! ```text
//!   Host = processes + Kernel
//!
//!   process   what it is about: read, write, direct, sync, block; `fs` and flusher have threads
//!             of the kernel's own. Each is a machine with a `step`; they know the kernel, not each other.
//!   Kernel    cache      which pages there are, and reclaim
//!             files      where they lie, their inodes       writeback  dirty pages, flushers, throttling
//!             bios       what is under way                  journal    transactions
//!             sleepers   who waits for what                 fs         where blocks go, what makes them durable
//! ```
//!
//! Not built: dirty limits per group. Parameters that would need them are refused.

mod ahead;
mod balance;
mod barrier;
mod bio;
mod block;
mod cache;
mod calls;
mod config;
mod cpus;
mod direct;
mod file;
mod flusher;
mod fs;
mod journal;
mod kernel;
mod layout;
mod op;
mod owner;
mod process;
mod read;
mod shared;
mod submission;
mod sync;
mod task;
#[cfg(test)]
mod tests;
mod wait;
mod wb30;
mod write;
mod writeback;

pub use ahead::Variant;
pub use cache::PAGE;
pub use config::{DataMode, Fs, HostConfig, Writeback};
pub use kernel::Costs;
pub use op::{
    Act, Advice, BarrierId, Bio, BlockIo, FileId, Notice, Operation, PageChange, ProcInfo, Ran,
    Room, SyncKind,
};

use crate::drive::DriveFile;
use bio::BioKind;
use hoistway::{Flags, Instant, Io, IoId, Sectors};
use hoistway_run::{JobError, NamedFigure};
use kernel::Kernel;
use process::{NoMemory, Process};
use shared::SharedMemory;
use std::sync::Arc;
use wait::Wait;

/// A file and where it lies, before anything runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaidOut {
    /// First byte on the device.
    pub start: u64,
    /// Bytes, once it has been written.
    pub bytes: u64,
    /// It has been; otherwise [`Operation::Create`] makes it.
    pub exists: bool,
    /// It is the device itself.
    pub raw: bool,
    /// Pieces of other files lie between its own.
    pub in_pieces: bool,
}

/// The host: memory, files and processes.
#[derive(Debug)]
pub struct Host {
    kernel: Kernel,
    /// The loads' processes, then the journal's, then the flushers'.
    processes: Vec<Process>,
    sector: u64,
    start_frac: f64,
    memory: SharedMemory,
}

/// What processes do.
impl Host {
    /// A host for `drive`, whose block layer builds requests of at most `max_request`.
    pub fn new(config: HostConfig, drive: &DriveFile, max_request: Sectors, seed: u64) -> Host {
        Host {
            sector: drive.identity.sector_bytes,
            start_frac: config.start_frac_on(drive),
            kernel: Kernel::new(config, drive, max_request, seed),
            processes: Vec::new(),
            memory: SharedMemory::default(),
        }
    }

    /// Gives process `p`, whose last operation is over, its next one.
    pub fn begin(&mut self, now: Instant, p: usize, operation: Operation) {
        self.processes[p].begin(now, operation);
    }

    /// Until the next step has been asked for, nobody but its process acts before `at`.
    #[inline]
    pub fn alone_until(&mut self, at: Instant) {
        self.kernel.alone = at;
    }

    /// What process `p` does next. To be asked when an operation was begun, at the time the last act
    /// named, when a submission was accepted, and when [`Host::woken`] named it; never otherwise.
    #[inline]
    pub fn step(&mut self, now: Instant, p: usize) -> Act {
        let step = self.processes[p].step(now, &mut self.kernel);
        self.kernel.alone = Instant::ZERO;
        if self.kernel.fault.is_some() {
            return Act::Fault;
        }
        match step {
            Ok(act) => act,
            Err(NoMemory) if self.processes.iter().all(|q| q.task.submission.is_empty()) => {
                let message =
                    format!("ram = {} holds too few pages for this load", self.kernel.config.ram);
                let error = JobError::Parameter { of: "host".into(), message };
                self.kernel.fault = Some(Box::new(error));
                Act::Fault
            }
            Err(NoMemory) => self.kernel.block_for_memory(now, p),
        }
    }

    /// What [`Act::Submit`] submits.
    #[inline]
    pub fn submitted(&self) -> &Io {
        &self.kernel.submitted
    }

    /// What the calls of [`Act::Ran`] took.
    #[inline]
    pub fn ran(&self) -> &Ran {
        &self.kernel.ran
    }

    /// What [`Act::Tell`] tells.
    pub fn notice(&self) -> Notice {
        self.kernel.notice
    }

    /// Why [`Act::Fault`].
    ///
    /// # Panics
    ///
    /// When that was not the last act.
    pub fn fault(&mut self) -> JobError {
        *self.kernel.fault.take().expect("asked behind a fault")
    }

    /// The I/O that process `p` has just submitted alone ([`Act::SubmitAlone`]) is accepted, and its plug section closed.
    #[inline]
    pub fn passed(&mut self, p: usize) {
        self.processes[p].task.submission.passed();
    }

    /// The device has served an I/O.
    pub fn completed(&mut self, now: Instant, io: IoId) {
        let k = &mut self.kernel;
        let flight = k.bios.land(io);
        if let Some(old) = k.writeback.old.as_mut().filter(|_| flight.pooled) {
            old.served(now, &mut k.sleepers);
        }
        let pages = (flight.first, flight.first + u64::from(flight.pages));
        match flight.kind {
            BioKind::Read => k.read_done(now, flight.file, pages.0, pages.1, flight.cpu),
            BioKind::Write => k.write_done(now, flight.file, pages, flight.seq, flight.order),
            BioKind::Own => {
                let p = flight.proc as usize;
                let task = &mut self.processes[p].task;
                if task.own.done(task.info.id, flight.owner) && k.sleepers.wait(p) == Wait::Own {
                    k.sleepers.wake(now + flight.cpu, p);
                }
            }
            BioKind::Call => {
                let p = flight.proc as usize;
                let served = self.processes[p].task.calls.bio_served(flight.seq as u32);
                if let Wait::Calls(wanted) = k.sleepers.wait(p)
                    && served.is_some_and(|served| served >= wanted)
                {
                    k.sleepers.wake(now + flight.cpu, p);
                }
            }
        }
        k.sleepers.wake_for_memory(now);
    }

    /// Takes a process that goes on because I/O has completed, and when.
    #[inline]
    pub fn woken(&mut self) -> Option<(usize, Instant)> {
        self.kernel.sleepers.take_woken()
    }

    /// Since when the oldest unfinished call of process `p` has been running.
    pub fn call_begun(&self, p: usize) -> Option<Instant> {
        self.processes[p].call_begun()
    }

    /// Asynchronous calls of process `p` that it has not collected.
    pub fn open_calls(&self, p: usize) -> u32 {
        self.processes[p].task.calls.open()
    }

    /// A controller has process `p`, unless it is the journal or a flusher, start no call before `until`.
    pub fn delay(&mut self, p: usize, until: Instant) {
        let task = &mut self.processes[p].task;
        task.delay = task.delay.max(until);
    }

    /// Until when process `p` starts no call.
    pub fn delayed(&self, p: usize) -> Instant {
        self.processes[p].task.delay
    }

    /// A controller slows the group of process `p` down: its read-ahead is cut to the missing page
    /// (host.md 5.1).
    pub fn set_congested(&mut self, p: usize, congested: bool) {
        self.processes[p].task.congested = congested;
    }

    /// From now on the I/O of process `p` carries another identity.
    pub fn become_proc(&mut self, p: usize, info: ProcInfo) {
        self.processes[p].task.act_as(info);
    }
}

/// How it is set up.
impl Host {
    /// Lays out an allocated file; files lie in the order of these calls.
    pub fn add_file(&mut self, bytes: u64) -> Result<FileId, JobError> {
        let file = self.kernel.files.place(bytes)?;
        Ok(self.kernel.file_added(file))
    }

    /// Reserves the place of a file that does not exist yet: [`Operation::Create`] makes it. Places lie in
    /// the order of these calls and of [`Host::add_file`], and a file that is unlinked and made again gets
    /// its place back.
    pub fn declare_file(&mut self, bytes: u64) -> Result<FileId, JobError> {
        let file = self.add_file(bytes)?;
        let f = &mut self.kernel.files[file.0];
        f.size = 0;
        f.blocks.clear(bytes.div_ceil(PAGE));
        Ok(file)
    }

    /// The allocated file called `name`, laid out when it is first asked for; all who ask must want the
    /// same size.
    pub fn shared_file(&mut self, name: &str, bytes: u64) -> Result<FileId, JobError> {
        if let Some(file) = self.kernel.files.find_shared(name, bytes)? {
            return Ok(file);
        }
        let file = self.add_file(bytes)?;
        self.kernel.files.share(name, file);
        Ok(file)
    }

    /// Lays out an allocated file as if it had been written at the same time as others, `of` in all: on the
    /// device, pieces of them alternate. Files of one size and kind belong together in the order of these calls.
    /// `piece`: bytes, a multiple of the page.
    pub fn interleaved_file(
        &mut self,
        bytes: u64,
        of: u64,
        piece: u64,
    ) -> Result<FileId, JobError> {
        let file = self.kernel.files.place_between(bytes, of, piece)?;
        Ok(self.kernel.file_added(file))
    }

    /// One more process, the one that asks, joins the barrier called `name`; the first makes it.
    /// [`Operation::Barrier`] waits until all of them have come.
    pub fn barrier(&mut self, name: &str) -> BarrierId {
        self.kernel.barriers.join(name)
    }

    /// How many processes have joined a barrier so far.
    pub fn joined(&self, barrier: BarrierId) -> u64 {
        self.kernel.barriers.parties(barrier)
    }

    /// Reserves room on the device for the small files of a tree, which lie side by side instead of with a gap
    /// behind each: [`Host::add_file_in`] fills it. Returns its first byte.
    pub fn reserve(&mut self, bytes: u64) -> Result<u64, JobError> {
        self.kernel.files.reserve(bytes)
    }

    /// Lays a file out at byte `start` of room that was reserved; one that does not exist yet has its place
    /// and no blocks, until [`Operation::Create`] makes it.
    pub fn add_file_in(&mut self, start: u64, bytes: u64, exists: bool) -> FileId {
        let file = self.kernel.files.place_at(start, bytes);
        let file = self.kernel.file_added(file);
        if !exists {
            let f = &mut self.kernel.files[file.0];
            f.size = 0;
            f.blocks.clear(bytes.div_ceil(PAGE));
        }
        file
    }

    /// What the processes of one program have in common, by the program's name: made by the first that asks,
    /// with the files it consists of. All of them must ask for the same type.
    pub fn shared_memory<T: Send + Sync + 'static>(
        &mut self,
        name: &str,
        make: impl FnOnce(&mut Host) -> Result<T, JobError>,
    ) -> Result<Arc<T>, JobError> {
        if let Some(known) = self.memory.find(name) {
            return Ok(known);
        }
        let made = Arc::new(make(self)?);
        self.memory.add(name, Arc::clone(&made));
        Ok(made)
    }

    /// The device as one file with a page cache of its own (host.md 14, raw). It lies over the files of
    /// [`Host::add_file`] and shares no page with them.
    pub fn device_file(&mut self) -> Result<FileId, JobError> {
        match self.kernel.files.whole_device() {
            Some(file) => Ok(file),
            None => {
                let file = self.kernel.files.open_device()?;
                Ok(self.kernel.file_added(file))
            }
        }
    }

    /// Gives the next raw sequential load its range of the device: the i-th asked for lies behind the
    /// ones before it, from byte 0 on (experiments.md 3.2). Returns where it begins.
    pub fn raw_range(&mut self, bytes: u64) -> Result<u64, JobError> {
        self.kernel.files.raw_range(bytes)
    }

    fn push(&mut self, process: Process) -> usize {
        self.processes.push(process);
        self.kernel.sleepers.add();
        self.processes.len() - 1
    }

    /// Adds a process; processes are numbered from 0 in the order of these calls. `stop`: it starts no
    /// call at or after that time.
    pub fn add_proc(&mut self, info: ProcInfo, stop: Option<Instant>) -> usize {
        self.push(Process::new(self.processes.len(), info, stop))
    }

    /// Adds the journal's thread, behind the loads' processes.
    pub fn add_journal(&mut self, info: ProcInfo) -> usize {
        let p = self.push(Process::thread(self.processes.len(), info, self.kernel.fs.thread()));
        self.kernel.journal.set_thread(p);
        p
    }

    /// Best-effort level of the journal's thread (host.md 11).
    pub fn journal_level(&self) -> u8 {
        if self.kernel.config.fs == Fs::Ext4 { 3 } else { 4 }
    }

    /// Adds flushers: the first of all is everything's, any other one `info.group`'s inodes'. They come
    /// behind the journal. In one call, since each has the same share of the device at first: asking
    /// for it one by one would be quadratic in the number of groups.
    pub fn add_flushers(&mut self, infos: impl IntoIterator<Item = ProcInfo>) {
        assert!(self.kernel.journal.thread().is_some(), "flushers come behind the journal");
        for info in infos {
            let p = self.processes.len();
            let index = self.kernel.writeback.add_flusher(p, &info);
            self.push(Process::flusher(p, info, index));
        }
        self.kernel.writeback.share_alike();
    }
}

/// What it knows.
impl Host {
    /// First byte of a file on the device.
    pub fn place_of(&self, file: FileId) -> u64 {
        self.kernel.files[file.0].start
    }

    /// First byte of the journal on the device.
    pub fn journal_place(&self) -> u64 {
        self.kernel.files.journal()
    }

    /// Places on the device that files occupy, and the journal: first byte and length. The device as a
    /// file is all of it.
    pub fn places(&self) -> Vec<(u64, u64)> {
        self.kernel.files.places()
    }

    /// Every file, in order of [`FileId`]: what a world needs that makes them for real.
    pub fn layout(&self) -> Vec<LaidOut> {
        let laid_out = |f: &file::File| LaidOut {
            start: f.start,
            bytes: f.bytes,
            exists: f.size > 0,
            raw: f.raw,
            in_pieces: f.run_end(0, f.pages()) < f.pages() && f.size > 0,
        };
        self.kernel.files.iter().map(laid_out).collect()
    }

    /// Number of files.
    pub fn files(&self) -> usize {
        self.kernel.files.len() as usize
    }

    /// How many processes come to each barrier, in order of [`BarrierId`].
    pub fn parties(&self) -> Vec<u32> {
        self.kernel.barriers.all_parties()
    }

    /// Has anybody asked for memory that processes have in common, since the last time?
    pub fn asked_for_memory(&mut self) -> bool {
        self.memory.asked()
    }

    /// The device as a file, if somebody reads it as one.
    pub fn whole_device(&self) -> Option<FileId> {
        self.kernel.files.whole_device()
    }

    /// Smallest unit of direct I/O in bytes.
    pub fn sector(&self) -> u64 {
        self.sector
    }

    /// Bytes of the device.
    pub fn capacity(&self) -> u64 {
        self.kernel.files.capacity()
    }

    /// What marks a read of metadata (specs/host.md 5.5).
    pub fn meta_flags(&self) -> Flags {
        if self.kernel.legacy {
            Flags::SYNC | Flags::META
        } else {
            Flags::SYNC | Flags::META | Flags::PRIO
        }
    }

    /// I/Os submitted and not completed.
    pub fn in_flight(&self) -> u64 {
        self.kernel.bios.in_flight()
    }

    /// Which process submitted an I/O that is still in flight.
    pub fn submitter(&self, io: IoId) -> usize {
        self.kernel.bios.get(io).proc as usize
    }

    /// What an I/O that is in flight moves.
    pub fn bio(&self, io: IoId) -> Bio {
        let flight = self.kernel.bios.get(io);
        match flight.kind {
            BioKind::Own | BioKind::Call => Bio::Own(flight.proc as usize),
            BioKind::Read | BioKind::Write => Bio::Cached {
                file: FileId(flight.file),
                first: flight.first,
                pages: u64::from(flight.pages),
            },
        }
    }

    /// The file that process `p` has open.
    pub fn opened(&self, p: usize) -> Option<FileId> {
        self.processes[p].task.open.map(|open| FileId(open.file))
    }

    /// From now on [`Host::changes`] tells what happens to pages: for worlds in which they have contents.
    pub fn watch_pages(&mut self) {
        self.kernel.dirtied.get_or_insert_default();
        self.kernel.cache.dropped.get_or_insert_default();
    }

    /// What has happened to pages since the last call: what was dropped, then what was written, each in
    /// order. In one step of a process no page is written and dropped behind it.
    pub fn changes(&mut self, mut each: impl FnMut(PageChange)) {
        let dropped = self.kernel.cache.dropped.iter_mut();
        for (file, first, mut mask) in dropped.flat_map(|d| d.drain(..)) {
            while mask != 0 {
                let page = first + u64::from(mask.trailing_zeros());
                each(PageChange::Dropped { file: FileId(file), page });
                mask &= mask - 1;
            }
        }
        for (p, file, from, to) in self.kernel.dirtied.iter_mut().flat_map(|d| d.drain(..)) {
            each(PageChange::Dirtied { p, file, from, to });
        }
    }

    /// Every parameter in force.
    pub fn parameters(&self) -> Vec<(String, String)> {
        let k = &self.kernel;
        let grouped = k.writeback.flushers.len() > 1;
        k.config.parameters(k.costs.copy_ns_per_kib, self.start_frac, grouped)
    }

    /// Figures of the whole run.
    pub fn figures(&self) -> Vec<NamedFigure> {
        let Kernel { reads, cache, bios, writeback, journal, sleepers, .. } = &self.kernel;
        let whole = [
            ("cache_hit_pages", reads.hits),
            ("cache_misses", reads.misses),
            ("cached_pages", cache.cached()),
            ("reclaimed_pages", cache.reclaimed),
            ("dropped_unread_pages", cache.dropped_unread),
            ("ahead_windows", reads.windows),
            ("ahead_pages", reads.ahead_pages),
            ("read_bios", bios.reads),
            ("write_bios", bios.writes),
            ("flush_bios", bios.flushes),
            ("dirty_pages_max", writeback.dirty_max),
            ("held_pages_max", writeback.held_max),
            ("owner_changes", writeback.owner_changes),
            ("pauses", writeback.pauses),
            ("pause_time_ns", writeback.pause_time.0),
            ("writers_own_chunks", writeback.old.as_ref().map_or(0, |old| old.chunks)),
            ("commits", journal.commits),
            ("commit_time_ns", journal.commit_time.0),
            ("journal_blocks", journal.blocks),
        ];
        let figure = |name: &str, of, value: u64| NamedFigure {
            name: name.to_string(),
            of,
            value: i64::try_from(value).unwrap_or(i64::MAX),
        };
        let mut all: Vec<_> =
            whole.iter().map(|&(name, value)| figure(name, None, value)).collect();
        all.extend(self.kernel.fs.figures());
        for (i, Process { task, .. }) in self.processes.iter().enumerate() {
            let of = Some(i as u32);
            let (page, io) = sleepers.waited(i);
            all.push(figure("waited_for_page_ns", of, page.0));
            all.push(figure("waited_for_io_ns", of, io.0));
            all.push(figure("waited_for_submission_ns", of, task.submission.waited.0));
            all.push(figure("waited_for_dirty_limit_ns", of, task.throttled.0));
        }
        all
    }
}
