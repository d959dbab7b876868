//! What all processes of the host share, by component, and the few things that concern several of them at
//! once: a page that becomes dirty, a page that is written, a file that loses all it has.

use super::barrier::Barriers;
use super::bio::{BioKind, BioTable, Pending, pieces};
use super::cache::{PAGE, PageCache};
use super::config::{Fs, HostConfig};
use super::cpus::Cpus;
use super::file::{Files, Listed};
use super::fs::{FileSystem, btrfs, nilfs2};
use super::journal::{InodeChange, Journal};
use super::op::{Act, FileId, Notice, Ran};
use super::task::{OpStep, Task};
use super::wait::{Sleepers, Turns, Wait};
use super::writeback::WritebackState;
use crate::drive::DriveFile;
use hoistway::{Flags, GroupId, Instant, Io, Nanos, Op, ProcId, Profile, Sectors};
use hoistway_run::JobError;

/// What things cost a process in its own time (host.md 2.1).
#[derive(Clone, Copy, Debug)]
pub struct Costs {
    /// Base of what a buffered call costs.
    pub copy_ns_per_kib: u64,
    /// A bio, before it enters the block layer.
    pub submit: Nanos,
    /// From what a process waits for until it runs.
    pub wake: Nanos,
    /// What a woken process takes of one of `cpus` processors.
    pub turn: Nanos,
    /// An fsync or fdatasync, at its start.
    pub sync_call: Nanos,
    /// A direct call, before its first bio.
    pub direct_call: Nanos,
    /// A checksum, before a write and behind a read (btrfs).
    pub checksum_ns_per_kib: u64,
}

impl HostConfig {
    /// What things cost on a drive.
    pub fn costs(&self, drive: &DriveFile) -> Costs {
        Costs {
            copy_ns_per_kib: self.copy_ns_per_kib_on(drive),
            submit: Nanos(self.submit_ns),
            wake: Nanos(self.wake_ns),
            turn: Nanos(self.turn_ns),
            sync_call: Nanos(self.sync_call_ns),
            direct_call: Nanos(self.direct_call_ns),
            checksum_ns_per_kib: self.checksum_ns_per_kib,
        }
    }
}

impl Costs {
    /// Cost of a buffered call in ns: 1.5 x + 0.625 x per KiB (host.md 2.1), rounded down. At least 1 ns,
    /// so that no process calls for ever at one instant.
    pub fn call(&self, bs: u64) -> u64 {
        let x = self.copy_ns_per_kib;
        (x * 3 / 2 + x * 5 * bs / (8 * 1024)).max(1)
    }

    /// Processor time of the checksum of so many bytes, rounded down.
    pub fn checksum(&self, bytes: u64) -> Nanos {
        Nanos(self.checksum_ns_per_kib * bytes / 1024)
    }
}

/// What processes have read, for the record.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ReadCounts {
    pub hits: u64,
    pub misses: u64,
    pub windows: u64,
    pub ahead_pages: u64,
}

/// Everything but the processes.
#[derive(Debug)]
pub(super) struct Kernel {
    pub config: HostConfig,
    /// The block layer before blk-mq.
    pub legacy: bool,
    /// Most pages of a bio.
    pub bio_pages: u64,
    /// Largest request of the device in pages.
    pub request_pages: u64,
    pub costs: Costs,
    pub files: Files,
    pub fs: FileSystem,
    pub cache: PageCache,
    pub writeback: WritebackState,
    pub journal: Journal,
    pub bios: BioTable,
    pub sleepers: Sleepers,
    pub cpus: Cpus,
    pub barriers: Barriers,
    pub reads: ReadCounts,
    /// Calls of sync() so far.
    pub syncs: u64,
    /// What belongs to the act that a process does: the I/O that it submits, what its calls took, what it tells.
    pub submitted: Io,
    pub ran: Ran,
    pub notice: Notice,
    /// Nobody else acts before then.
    pub alone: Instant,
    /// Something went wrong for which there is no answer to a process: the run ends with it.
    pub fault: Option<Box<JobError>>,
    /// Pages made dirty, for somebody who holds their contents: process, file, from, to.
    pub dirtied: Option<Vec<(usize, FileId, u64, u64)>>,
}

/// Length of the tick in which time stamps (host.md 7) and ages of transactions (11) count.
pub(super) const TICK: Nanos = Nanos::ms(4);

impl Kernel {
    pub fn new(config: HostConfig, drive: &DriveFile, max_request: Sectors, seed: u64) -> Kernel {
        let legacy = config.block_profile == Profile::Legacy;
        let request_pages = max_request.bytes().0 / PAGE;
        // Kernel, programs and reserves take the rest (host.md 4.2): floor(0.85 total).
        let limit = config.ram / PAGE * 85 / 100;
        let (costs, start_frac) = (config.costs(drive), config.start_frac_on(drive));
        let (bytes, rotational) = (drive.identity.capacity_bytes, drive.identity.rotational);
        let copy = (config.fs == Fs::Btrfs && rotational).then_some(btrfs::COPY);
        Kernel {
            legacy,
            bio_pages: if legacy { request_pages.clamp(1, 256) } else { 256 },
            request_pages,
            costs,
            files: Files::new(&config, bytes, start_frac, seed, copy),
            fs: FileSystem::new(&config, rotational),
            cache: PageCache::new(limit),
            writeback: WritebackState::new(&config, limit),
            journal: Journal::new(&config),
            bios: BioTable::default(),
            sleepers: Sleepers::new(costs.wake).with_turns(Turns::new(config.cpus, costs.turn)),
            cpus: Cpus::new(config.cpus),
            barriers: Barriers::default(),
            reads: ReadCounts::default(),
            syncs: 0,
            submitted: Io::read(0, ProcId::NONE, 0, 0),
            ran: Ran::NONE,
            notice: Notice::PhaseEnd,
            alone: Instant::ZERO,
            fault: None,
            dirtied: None,
            config,
        }
    }

    /// A file has been laid out: the others learn of it.
    pub fn file_added(&mut self, file: FileId) -> FileId {
        self.cache.add_file(self.files[file.0].bytes.div_ceil(PAGE));
        self.writeback.make_room(self.files.len());
        file
    }

    // Waiting.

    /// Process `p` sleeps on something of a file.
    pub fn block_on(&mut self, now: Instant, p: usize, file: u32, wait: Wait) -> Act {
        self.files[file].waiters.push(p as u32);
        self.sleepers.block(now, p, wait);
        Act::Block
    }

    /// Wakes the waiters of a file of which `ends` says that their wait is over.
    pub fn wake_waiters(&mut self, now: Instant, file: u32, ends: impl Fn(&mut Wait) -> bool) {
        self.files[file].waiters.wake(
            &mut self.sleepers,
            |sleepers, p| ends(sleepers.wait_mut(p as usize)),
            |sleepers, p| sleepers.wake(now, p as usize),
        );
    }

    /// Waits for the write-back bios of a file that are in flight now; not at all if there are none.
    pub fn wait_for_writes(&mut self, now: Instant, p: usize, file: u32) -> Option<Act> {
        let f = &self.files[file];
        let (mark, left) = (f.write_seq, f.writing);
        (left > 0).then(|| self.block_on(now, p, file, Wait::Writes { mark, left }))
    }

    /// Waits for the bios that a process counts itself, if any are under way.
    pub fn wait_for_own(&mut self, now: Instant, task: &Task) -> Option<Act> {
        (task.own.left > 0).then(|| {
            self.sleepers.block(now, task.p, Wait::Own);
            Act::Block
        })
    }

    /// Waits until transaction `id` is on disk, if it is not.
    pub fn wait_for_commit(&mut self, now: Instant, p: usize, id: u64) -> Option<Act> {
        self.journal.wait_for(now, p, id, &mut self.sleepers).then_some(Act::Block)
    }

    /// A process found no room in memory: it waits until something may be taken back.
    pub fn wait_for_memory(&mut self, now: Instant, p: usize) -> OpStep {
        if self.writeback.held() == 0 && self.bios.in_flight() == 0 {
            return OpStep::NoMemory;
        }
        OpStep::Act(self.block_for_memory(now, p))
    }

    /// Waits although nothing that could free memory has been submitted yet.
    pub fn block_for_memory(&mut self, now: Instant, p: usize) -> Act {
        self.writeback.ask_reclaim(now, &mut self.sleepers);
        self.sleepers.block(now, p, Wait::Memory);
        Act::Block
    }

    // Submitting.

    /// Starts the submission of a process's batch. Task plugs came with blk-mq's time; the legacy layer
    /// plugs the device itself.
    pub fn submit(&self, task: &mut Task, plug: bool) {
        task.submission.start(plug && !self.legacy);
    }

    /// Who waits for the last bio of its batch has the legacy layer unplug the device behind it.
    pub fn unplug_last(&self, task: &mut Task) {
        if self.legacy {
            task.submission.flag_last(Flags::UNPLUG);
        }
    }

    /// Flags of writes somebody waits for.
    pub fn sync_flags(&self) -> Flags {
        if self.legacy { Flags::SYNC | Flags::NOIDLE } else { Flags::SYNC }
    }

    /// An asynchronous write is submitted; true if it takes a place in the old request pool.
    pub fn pool_submits(&mut self, now: Instant) -> bool {
        let Some(old) = &mut self.writeback.old else { return false };
        old.submitted(now, &mut self.sleepers);
        true
    }

    // Inodes.

    /// Pages [a, b) of a file get their blocks, where they have none; the transaction that knows of them.
    fn allocate(&mut self, now: Instant, file: u32, a: u64, b: u64) -> Option<u64> {
        let f = &mut self.files[file];
        let fresh = f.blocks.allocate(a, b);
        let change = InodeChange::Mapping(fresh * PAGE);
        (fresh > 0).then(|| self.journal.join(now, f, change, &mut self.sleepers))
    }

    /// A write up to byte `end` may make the file longer.
    fn extend(&mut self, now: Instant, file: u32, end: u64) {
        let f = &mut self.files[file];
        if end > f.size {
            f.size = end;
            self.journal.join(now, f, InodeChange::Size, &mut self.sleepers);
        }
    }

    /// A direct write covers bytes up to `end`, pages [a, b).
    pub fn write_around(&mut self, now: Instant, file: u32, a: u64, b: u64, end: u64) {
        let mut at = a;
        while at < b {
            (_, at, _) = self.assign(now, file, at, b);
        }
        self.extend(now, file, end);
    }

    /// The file loses its pages, dirty ones too, and its blocks: it is unlinked, truncated to nothing, or
    /// created empty.
    pub fn empty(&mut self, now: Instant, file: u32) {
        let dirty = self.cache.discard_dirty(file);
        let pages = self.cache.pages(file);
        self.cache.drop_clean(file, 0, pages);
        self.fs.emptied(&self.files, file);
        let f = &mut self.files[file];
        f.blocks.clear(pages);
        f.size = 0;
        f.stamped = None;
        self.writeback.discarded(f, dirty);
        self.writeback.unlist(file, f);
        self.journal.join(now, f, InodeChange::Name, &mut self.sleepers);
    }

    /// The pieces in which bytes [offset, offset + len) of a file lie on the device: first byte, length.
    pub fn device_pieces(
        &self,
        file: u32,
        offset: u64,
        len: u64,
    ) -> impl Iterator<Item = (u64, u64)> + '_ {
        let (f, end, most) = (&self.files[file], offset + len, self.bio_pages * PAGE);
        let mut at = offset;
        let runs = core::iter::from_fn(move || {
            if at == end {
                return None;
            }
            let place = f.place(at / PAGE) + at % PAGE;
            let to = end.min(f.run_end(at / PAGE, end.div_ceil(PAGE)) * PAGE);
            let len = to - at;
            at = to;
            Some((place, len))
        });
        runs.flat_map(move |(start, len)| pieces(start, len, most))
    }

    // Dirty pages.

    /// A process makes pages [a, b) dirty; false if there is no memory for one of them.
    #[inline(always)] // Of each step of each writer.
    pub fn make_dirty(&mut self, now: Instant, task: &mut Task, file: u32, a: u64, b: u64) -> bool {
        let (group, alone) = (task.info.group, self.fs.writes_alone());
        if alone && self.files[file].raw {
            let message =
                "nilfs2: buffered writes to the device itself are not modelled beside it".into();
            self.fault = Some(Box::new(JobError::Parameter { of: "host".into(), message }));
        }
        let dirty = self.cache.dirty(file);
        let Some(fresh) = self.cache.dirty_pages(file, a, b, group) else { return false };
        if self.files[file].owner.is_none() {
            self.hand_over(now, file, group, dirty);
        }
        if let Some(dirtied) = &mut self.dirtied {
            dirtied.push((task.p, FileId(file), a, b));
        }
        task.dirtier.dirtied += fresh;
        if let Some(old) = &mut self.writeback.old {
            task.dirtier.due = old.dirtied(task.p, fresh);
        }
        // ext3 allocates in the write call, ext4 not before write-back, when it knows how much there is.
        if self.config.fs == Fs::Ext3 && self.allocate(now, file, a, b).is_some() {
            self.journal.dirtied_fresh(file, a, b);
        }
        let f = &mut self.files[file];
        if dirty == 0 {
            f.dirtied_at = now;
        }
        self.writeback.dirtied(f, fresh);
        let tick = now.as_nanos() / TICK.0;
        // A file system that writes data with its commits must know of every page that one has to write.
        let told = alone && fresh > 0;
        let stamps = (f.stamped != Some(tick) || told) && !f.raw;
        let (listed, extends) = (f.listed != Listed::No, b * PAGE > f.size);
        if !listed {
            self.writeback.list(now, file, &mut self.files, &mut self.sleepers);
        }
        if extends {
            self.extend(now, file, b * PAGE);
        }
        if stamps {
            let f = &mut self.files[file];
            f.stamped = Some(tick);
            if !self.journal.has_joined(now, f) {
                self.journal.join(now, f, InodeChange::Stamp, &mut self.sleepers);
            }
        }
        if told && self.writeback.dirty >= nilfs2::MANY {
            self.journal.ask_commit(now, &mut self.sleepers);
        }
        true
    }

    /// Pages [a, b), or the first of them, get the blocks that they are written to: first byte, page behind
    /// the last, and the transaction in which they are new, if they are.
    fn assign(&mut self, now: Instant, file: u32, a: u64, b: u64) -> (u64, u64, Option<u64>) {
        let fs = match &mut self.fs {
            FileSystem::Btrfs(fs) if !self.files[file].raw => fs,
            _ => {
                let id = self.allocate(now, file, a, b);
                return (self.files[file].place(a), b, id);
            }
        };
        let Some(placed) = fs.place(&mut self.files, file, a, b) else {
            let message =
                "btrfs: no free block is left; choose a larger drive or smaller files".into();
            self.fault = Some(Box::new(JobError::Parameter { of: "host".into(), message }));
            return (self.files[file].place(a), b, None);
        };
        let f = &mut self.files[file];
        let extents = u64::from(placed.extent);
        f.unlogged += extents;
        let change = InodeChange::Extents(extents);
        let id = self.journal.join(now, f, change, &mut self.sleepers);
        (placed.start, a + placed.pages, Some(id))
    }

    /// Pages [a, b), or the first of them, go under write-back; the bio that writes them. It is shorter where
    /// the file system has no longer run for them.
    pub fn start_write(
        &mut self,
        now: Instant,
        file: u32,
        (a, b): (u64, u64),
        flags: Flags,
        group: GroupId,
    ) -> Pending {
        let (start, b, id) = self.assign(now, file, a, b);
        let order = id.map_or(0, |id| self.journal.order(id));
        if self.writeback.flushers.len() > 1
            && let Some(owner) = self.files[file].owner
        {
            for (group, pages) in self.cache.groups(file, a, b) {
                self.files[file].ballot.count(owner, group, pages * PAGE);
            }
        }
        self.cache.start_write(file, a, b);
        let f = &mut self.files[file];
        self.writeback.sent(f, b - a);
        Pending {
            kind: BioKind::Write,
            op: Op::Write,
            flags,
            group,
            file,
            first: a,
            seq: f.write_seq,
            order,
            start,
            len: (b - a) * PAGE,
            cpu: self.checksum((b - a) * PAGE),
        }
    }

    /// Processor time of what the file system does with so much data that it writes or has read.
    pub fn checksum(&self, bytes: u64) -> Nanos {
        match self.fs {
            FileSystem::Btrfs(_) => self.costs.checksum(bytes),
            FileSystem::Ext | FileSystem::Nilfs2(_) => Nanos::ZERO,
        }
    }

    /// Puts the dirty pages of [from, to) that are not under write-back into a process's batch.
    pub fn gather_idle(
        &mut self,
        now: Instant,
        task: &mut Task,
        file: u32,
        from: u64,
        to: u64,
        flags: Flags,
    ) {
        if self.fs.writes_alone() {
            self.journal.ask_commit(now, &mut self.sleepers);
            return;
        }
        let mut at = from;
        while let Some(end) = self.gather_run(now, task, file, (at, to), flags) {
            at = end;
        }
        self.gathered(now, file);
    }

    /// Puts the first bio of the dirty pages of [from, to) that are not under write-back into a process's batch; the
    /// page behind it.
    pub fn gather_run(
        &mut self,
        now: Instant,
        task: &mut Task,
        file: u32,
        (from, to): (u64, u64),
        flags: Flags,
    ) -> Option<u64> {
        let run = self.cache.idle_run(file, from, to, self.bio_pages)?;
        // Deviation: the owner's group pays also without group write-back, as the specification's
        // section 13 says of fsync; the caller's priority goes with it.
        let group = self.files[file].owner.unwrap_or(task.info.group);
        let bio = self.start_write(now, file, run, flags, group);
        task.submission.push(bio);
        Some(bio.end())
    }

    /// All dirty pages that a process had to write are in its batch, or have been.
    pub fn gathered(&mut self, now: Instant, file: u32) {
        if self.cache.dirty(file) == 0 {
            self.writeback.unlist(file, &mut self.files[file]);
        }
        self.round_over(now, file);
    }

    /// A round of write-back of a file is over: its owner may change.
    pub fn round_over(&mut self, now: Instant, file: u32) {
        if self.writeback.flushers.len() == 1 {
            return;
        }
        let f = &mut self.files[file];
        let Some(owner) = f.owner else { return };
        let bw = self.writeback.flushers[f.flusher as usize].pace.bandwidth;
        if let Some(winner) = f.ballot.decide(owner, bw) {
            self.writeback.owner_changes += 1;
            self.hand_over(now, file, winner, self.cache.dirty(file));
        }
    }

    fn hand_over(&mut self, now: Instant, file: u32, group: GroupId, dirty: u64) {
        let (files, sleepers) = (&mut self.files, &mut self.sleepers);
        self.writeback.hand_over(now, file, group, dirty, files, sleepers);
    }

    /// A bio of a file's pages [a, b) has been served: they are up to date. Who waits for one of them goes on
    /// `cpu` later. [simplified: who comes meanwhile finds them up to date]
    pub fn read_done(&mut self, now: Instant, file: u32, a: u64, b: u64, cpu: Nanos) {
        self.cache.set_ready(file, a, b);
        self.wake_waiters(now + cpu, file, |wait| match *wait {
            Wait::Page(page) => a <= page && page < b,
            _ => false,
        });
    }

    /// Write-back bio number `seq` of a file's pages [a, b) has been served; transaction `order` waits
    /// for it, if it is not 0.
    pub fn write_done(
        &mut self,
        now: Instant,
        file: u32,
        (a, b): (u64, u64),
        seq: u64,
        order: u64,
    ) {
        self.cache.end_write(file, a, b);
        self.writeback.written(now, &mut self.files[file], b - a);
        if order > 0 {
            self.journal.ordered_done(now, order, &mut self.sleepers);
        }
        self.wake_waiters(now, file, |wait| match wait {
            Wait::Writes { mark, left } if seq <= *mark => {
                *left -= 1;
                *left == 0
            }
            _ => false,
        });
    }
}
