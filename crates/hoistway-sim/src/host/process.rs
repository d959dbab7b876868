//! What a process does next: its operation as a sequence of acts (specs/host.md 2, 5 to 7, 10 and 11).

use super::ahead::{Ahead, Limits, Window};
use super::layout::JOURNAL;
use super::submit::{Kind, Pending, Phase};
use super::{Act, Advice, DIRTY_EXPIRE, FileId, Fs, Host, Operation, PAGE, ProcInfo, Ran};
use super::{STAMP_TICK, STEP};
use crate::world::JobError;
use hoistway::{Flags, GroupId, Instant, Nanos, Op, Profile};

/// What a blocked process waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    None,
    /// This page of its file.
    Page(u64),
    /// The end of `left` more of the file's write-back bios numbered up to `mark`.
    Writes {
        mark: u64,
        left: u64,
    },
    /// All bios it counts itself.
    Own,
}

/// A call whose latency is still open.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call {
    begun: Instant,
    bytes: u64,
}

/// How far a write-out of dirty pages is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Out {
    Gather,
    Sent,
    Flush,
    FlushSent,
    Done,
}

/// Where a process is in its operation.
#[derive(Clone, Copy, Debug)]
pub(super) enum Stage {
    Idle,
    Over,
    Exit,
    Open {
        file: FileId,
        advice: Advice,
    },
    DontNeed {
        file: FileId,
        sent: bool,
    },
    DropCaches,
    Sleep(Instant),
    /// `at`: first page of the current call that it has not read; `entered`: the call is under way.
    Read {
        offset: u64,
        bs: u64,
        left: u64,
        begun: Instant,
        at: u64,
        entered: bool,
    },
    Write {
        offset: u64,
        bs: u64,
        left: u64,
        begun: Instant,
        entered: bool,
        sync: bool,
    },
    DirectBegin {
        write: bool,
        offset: u64,
        len: u64,
        begun: Instant,
        sync: bool,
        late: bool,
    },
    DirectGo {
        write: bool,
        offset: u64,
        len: u64,
        begun: Instant,
        sync: bool,
    },
    DirectSent {
        len: u64,
        begun: Instant,
        sync: bool,
    },
    SyncBegin {
        file: u32,
        call: Option<Call>,
    },
    /// Dirty pages [from, to) go out; a direct call follows if `then` says so.
    WriteOut {
        file: u32,
        from: u64,
        to: u64,
        step: Out,
        call: Option<Call>,
        then: Option<Direct>,
    },
    JournalRest,
    JournalRun,
    JournalCommit,
    JournalDone,
}

/// A direct call that waits for the write-out of its range.
#[derive(Clone, Copy, Debug)]
pub(super) struct Direct {
    write: bool,
    offset: u64,
    len: u64,
    begun: Instant,
    sync: bool,
}

impl Stage {
    pub(super) fn of(now: Instant, operation: Operation) -> Stage {
        match operation {
            Operation::Open { file, advice } => Stage::Open { file, advice },
            Operation::DontNeed(file) => Stage::DontNeed { file, sent: false },
            Operation::Read { offset, bs, count } => Stage::Read {
                offset,
                bs,
                left: count,
                begun: now,
                at: offset / PAGE,
                entered: false,
            },
            Operation::Write { offset, bs, count, sync } => {
                Stage::Write { offset, bs, left: count, begun: now, entered: false, sync }
            }
            Operation::Direct { write, offset, len, since, sync } => Stage::DirectBegin {
                write,
                offset,
                len,
                begun: since.unwrap_or(now),
                sync,
                late: false,
            },
            Operation::Fdatasync(file) => Stage::SyncBegin { file: file.0, call: None },
            Operation::DropCaches => Stage::DropCaches,
            Operation::Sleep(until) => Stage::Sleep(until),
            Operation::Exit => Stage::Exit,
        }
    }

    /// Since when a call has been open.
    pub(super) fn begun(&self) -> Option<Instant> {
        match *self {
            Stage::Read { begun, entered: true, .. }
            | Stage::Write { begun, entered: true, .. }
            | Stage::DirectBegin { begun, late: true, .. }
            | Stage::DirectGo { begun, .. }
            | Stage::DirectSent { begun, .. } => Some(begun),
            Stage::SyncBegin { call, .. } => call.map(|c| c.begun),
            Stage::WriteOut { call, then, .. } => call.map(|c| c.begun).or(then.map(|d| d.begun)),
            _ => None,
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct OpenFile {
    file: u32,
    advice: Advice,
    ahead: Ahead,
}

#[derive(Debug)]
pub(super) struct Proc {
    pub info: ProcInfo,
    stop: Option<Instant>,
    open: Option<OpenFile>,
    pub stage: Stage,
    pub wait: Wait,
    /// Bios to submit, how many of them have gone, and how far the current one is.
    pub batch: Vec<Pending>,
    pub next: usize,
    pub phase: Phase,
    pub plugged: bool,
    pub sent_at: Instant,
    /// Bios it counts itself (direct, flush, journal) that are not served yet.
    pub own_left: u32,
    pub blocked_at: Instant,
    pub waited_page: Nanos,
    pub waited_io: Nanos,
    pub waited_submit: Nanos,
}

impl Proc {
    pub fn new(info: ProcInfo, stop: Option<Instant>) -> Proc {
        Proc {
            info,
            stop,
            open: None,
            stage: Stage::Idle,
            wait: Wait::None,
            batch: Vec::with_capacity(8),
            next: 0,
            phase: Phase::Off,
            plugged: false,
            sent_at: Instant::ZERO,
            own_left: 0,
            blocked_at: Instant::ZERO,
            waited_page: Nanos::ZERO,
            waited_io: Nanos::ZERO,
            waited_submit: Nanos::ZERO,
        }
    }
}

impl Host {
    /// What process `p` does next. To be asked when an operation was begun, at the time the last act
    /// named, when a submission was accepted, and when [`Host::woken`] named it; never otherwise.
    pub fn step(&mut self, now: Instant, p: usize) -> Act {
        loop {
            if let Some(fault) = self.fault.take() {
                return Act::Fault(fault);
            }
            if let Some(act) = self.submitting(now, p) {
                return act;
            }
            let turn = match self.procs[p].stage {
                Stage::Idle => return Act::Finished,
                Stage::Over => {
                    self.procs[p].stage = Stage::Idle;
                    return Act::Finished;
                }
                Stage::Exit => return Act::Exited,
                Stage::Read { offset, bs, left, begun, at, entered } => {
                    self.read(now, p, offset, bs, left, begun, at, entered)
                }
                Stage::Write { .. } => self.write(now, p),
                Stage::WriteOut { .. } => self.write_out(now, p),
                Stage::DirectBegin { .. } | Stage::DirectGo { .. } | Stage::DirectSent { .. } => {
                    self.direct(now, p)
                }
                Stage::JournalRest
                | Stage::JournalRun
                | Stage::JournalCommit
                | Stage::JournalDone => self.commit(now, p),
                _ => self.rare(now, p),
            };
            if let Some(act) = turn {
                return act;
            }
        }
    }

    /// Operations that are over at once, or nearly.
    fn rare(&mut self, now: Instant, p: usize) -> Option<Act> {
        let next = match self.procs[p].stage {
            Stage::Open { file, advice } => {
                self.procs[p].open =
                    Some(OpenFile { file: file.0, advice, ahead: Ahead::default() });
                Stage::Over
            }
            Stage::DontNeed { file, sent: false } => {
                let pages = self.files[file.0 as usize].cache.pages();
                self.gather(p, file.0, 0, pages, Flags::NONE);
                self.submit(p, true);
                Stage::DontNeed { file, sent: true }
            }
            Stage::DontNeed { file, sent: true } => {
                let cache = &mut self.files[file.0 as usize].cache;
                let pages = cache.pages();
                self.memory.drop_clean(cache, 0, pages);
                Stage::Over
            }
            Stage::DropCaches => {
                for f in &mut self.files {
                    let pages = f.cache.pages();
                    self.memory.drop_clean(&mut f.cache, 0, pages);
                }
                Stage::Over
            }
            Stage::Sleep(until) => {
                self.procs[p].stage = Stage::Over;
                return Some(Act::WaitUntil(until.max(now)));
            }
            Stage::SyncBegin { file, call } => {
                let to = self.files[file as usize].cache.pages();
                let step = Out::Gather;
                self.procs[p].stage = Stage::WriteOut { file, from: 0, to, step, call, then: None };
                return Some(Act::WaitUntil(now + Nanos(self.config.sync_call_ns)));
            }
            other => unreachable!("{other:?} has a function of its own"),
        };
        self.procs[p].stage = next;
        None
    }

    /// Cost of a buffered call: 1.5 x + 0.625 x per KiB (host.md 2.1), rounded down.
    fn call_cost(&self, bs: u64) -> u64 {
        let x = self.copy_ns_per_kib;
        x * 3 / 2 + x * 5 * bs / (8 * 1024)
    }

    /// How many calls of `cost` may be done in one step that begins now.
    fn run_length(&self, now: Instant, p: usize, left: u64, cost: u64) -> u64 {
        let mut room = STEP;
        if let Some(stop) = self.procs[p].stop {
            room = room.min(stop.since(now).0);
        }
        room.checked_div(cost).map_or(left, |fit| left.min(fit.max(1)))
    }

    fn stopped(&self, now: Instant, p: usize) -> bool {
        self.procs[p].stop.is_some_and(|stop| stop <= now)
    }

    /// One buffered read, or a run of them (host.md 5.1 and 1.3).
    #[allow(clippy::too_many_arguments)] // The fields of `Stage::Read`, taken apart once.
    fn read(
        &mut self,
        now: Instant,
        p: usize,
        offset: u64,
        bs: u64,
        left: u64,
        begun: Instant,
        at: u64,
        entered: bool,
    ) -> Option<Act> {
        if left == 0 {
            self.procs[p].stage = Stage::Over;
            return None;
        }
        if !entered && self.stopped(now, p) {
            return Some(Act::Stopped);
        }
        let cost = self.call_cost(bs);
        let calls = self.run_length(now, p, left, cost);
        let open = self.procs[p].open.expect("a load opens its file before it reads");
        let file = &mut self.files[open.file as usize];
        debug_assert!(offset + bs * left <= file.bytes, "a load reads inside its file");
        let end = (offset + bs * calls).div_ceil(PAGE);
        let page = file.cache.find(at, end, |w| !(w.ready & !w.marker));
        let done = if page == end { calls } else { (page * PAGE).saturating_sub(offset) / bs };
        if done > 0 {
            let last = (offset + bs * done - 1) / PAGE;
            file.cache.touch(offset / PAGE, last + 1);
            self.counts.hits += last + 1 - offset / PAGE;
            if let Some(open) = &mut self.procs[p].open {
                open.ahead.prev = Some(last);
            }
            let until = now + Nanos(cost * done);
            let offset = offset + bs * done;
            self.procs[p].stage = Stage::Read {
                offset,
                bs,
                left: left - done,
                begun: until,
                at: offset / PAGE,
                entered: false,
            };
            let first_end = now + Nanos(cost);
            let first = first_end - begun;
            let each = Nanos(cost);
            return Some(Act::Ran(Ran { first, first_end, each, calls: done, bytes: bs, until }));
        }
        // The current call cannot be done at once: it stands at `page`.
        if let Some(open) = &mut self.procs[p].open
            && page > offset / PAGE
        {
            open.ahead.prev = Some(page - 1);
        }
        self.procs[p].stage = Stage::Read { offset, bs, left, begun, at: page, entered: true };
        let want = (offset + bs).div_ceil(PAGE) - page;
        self.stand(now, p, open.file, page, want)
    }

    /// The reader stands at a page that is absent, marked, or not there yet.
    fn stand(&mut self, now: Instant, p: usize, file: u32, page: u64, want: u64) -> Option<Act> {
        let cache = &mut self.files[file as usize].cache;
        let absent = !cache.is(page, |w| w.cached);
        let marked = !absent && cache.is(page, |w| w.marker);
        if !absent && !marked {
            return Some(self.block(now, p, file, Wait::Page(page)));
        }
        let open = self.procs[p].open.as_mut().expect("it is reading");
        let plain = open.advice == Advice::Random || self.config.read_ahead_kb == 0;
        let mut window = None;
        if marked {
            cache.unmark(page);
        }
        if absent {
            self.counts.misses += 1;
        }
        if plain && absent {
            let to = if self.config.read_ahead_kb == 0 { page + 1 } else { page + want };
            window = Some(Window { from: page, to, marker: None });
        } else if !plain && (absent || !cache.is(page, |w| w.out)) {
            let doubled = if open.advice == Advice::Sequential { 2 } else { 1 };
            let limits = Limits {
                max: self.config.read_ahead_kb / 4 * doubled,
                request: self.request_pages,
                variant: self.config.readahead_variant,
            };
            window = open.ahead.advance(&limits, cache, page, want, marked);
        }
        if let Some(window) = window {
            self.request(p, file, window, absent);
            self.submit(p, true);
        }
        None
    }

    /// Requests the absent pages of a window (host.md 5.2 and 5.4).
    fn request(&mut self, p: usize, file: u32, window: Window, waits: bool) {
        let to = window.to.min(self.files[file as usize].cache.pages());
        if window.marker.is_some() {
            self.counts.windows += 1;
        }
        let legacy = self.config.block_profile == Profile::Legacy;
        let group = self.procs[p].info.group;
        let mut at = window.from;
        loop {
            let cache = &mut self.files[file as usize].cache;
            let a = cache.find(at, to, |w| !w.cached);
            if a >= to {
                break;
            }
            let b = cache.find(a, to.min(a + self.bio_pages), |w| w.cached);
            if !self.memory.insert(&mut self.files, file, a, b, false) {
                self.fault = Some(Box::new(self.no_memory()));
                return;
            }
            let f = &mut self.files[file as usize];
            if let Some(marker) = window.marker
                && a <= marker
                && marker < b
            {
                f.cache.mark(marker);
            }
            self.counts.ahead_pages += b - a;
            self.procs[p].batch.push(Pending {
                kind: Kind::Read,
                op: Op::Read,
                flags: if legacy { Flags::NONE } else { Flags::RAHEAD },
                group,
                file,
                first: a,
                start: f.start + a * PAGE,
                len: (b - a) * PAGE,
            });
            at = b;
        }
        if legacy
            && waits
            && let Some(last) = self.procs[p].batch.last_mut()
        {
            last.flags |= Flags::SYNC | Flags::UNPLUG;
        }
    }

    fn no_memory(&self) -> JobError {
        JobError::Parameter {
            of: "host".into(),
            message: format!("ram = {} holds too few pages for this load", self.config.ram),
        }
    }

    fn block(&mut self, now: Instant, p: usize, file: u32, wait: Wait) -> Act {
        if wait != Wait::Own {
            self.files[file as usize].waiters.push(p as u32);
        }
        let proc = &mut self.procs[p];
        proc.wait = wait;
        proc.blocked_at = now;
        Act::Block
    }

    /// A run of buffered writes (host.md 7).
    fn write(&mut self, now: Instant, p: usize) -> Option<Act> {
        let Stage::Write { offset, bs, left, begun, entered, sync } = self.procs[p].stage else {
            unreachable!("asked for this stage only")
        };
        if left == 0 {
            self.procs[p].stage = Stage::Over;
            return None;
        }
        if !entered && self.stopped(now, p) {
            return Some(Act::Stopped);
        }
        let open = self.procs[p].open.expect("a load opens its file before it writes");
        assert!(bs % PAGE == 0 && offset % PAGE == 0, "loads write whole pages");
        let cost = self.call_cost(bs);
        let calls = self.run_length(now, p, left, cost);
        let (a, b) = (offset / PAGE, (offset + bs * calls) / PAGE);
        let f = &mut self.files[open.file as usize];
        debug_assert!(offset + bs * left <= f.bytes, "a load writes inside its file");
        let locked = f.cache.find(a, b, |w| w.cached & !w.ready);
        if locked < b {
            self.procs[p].stage = Stage::Write { offset, bs, left, begun, entered: true, sync };
            return Some(self.block(now, p, open.file, Wait::Page(locked)));
        }
        if !self.dirty(now, p, open.file, a, b) {
            return None;
        }
        let until = now + Nanos(cost * calls);
        let ends_synced = sync && calls == left;
        let report = calls - u64::from(ends_synced);
        if ends_synced {
            let begun = if calls == 1 { begun } else { now + Nanos(cost * report) };
            let call = Some(Call { begun, bytes: bs });
            self.procs[p].stage = Stage::SyncBegin { file: open.file, call };
            if report == 0 {
                return Some(Act::WaitUntil(until));
            }
        } else {
            let (offset, left) = (offset + bs * calls, left - calls);
            let entered = false;
            self.procs[p].stage = Stage::Write { offset, bs, left, begun: until, entered, sync };
        }
        let first_end = now + Nanos(cost);
        let (first, each) = (first_end - begun, Nanos(cost));
        Some(Act::Ran(Ran { first, first_end, each, calls: report, bytes: bs, until }))
    }

    /// Makes pages [a, b) dirty. False, with the fault set, where write-back would have to begin.
    fn dirty(&mut self, now: Instant, p: usize, file: u32, a: u64, b: u64) -> bool {
        let mut at = a;
        while at < b {
            let cache = &self.files[file as usize].cache;
            let from = cache.find(at, b, |w| !w.cached);
            let to = cache.find(from, b, |w| w.cached);
            if from < to && !self.memory.insert(&mut self.files, file, from, to, true) {
                self.fault = Some(Box::new(self.no_memory()));
                return false;
            }
            at = to;
        }
        let f = &mut self.files[file as usize];
        if f.cache.dirty == 0 {
            f.dirtied_at = now;
        }
        let group = self.procs[p].info.group;
        f.owner.get_or_insert(group);
        self.counts.dirty += f.cache.set_dirty(a, b);
        self.counts.dirty_max = self.counts.dirty_max.max(self.counts.dirty);
        let too_old = f.dirtied_at + DIRTY_EXPIRE <= now;
        if self.counts.dirty > self.background || too_old {
            let why = if too_old {
                "a page stays dirty for 30 s".to_string()
            } else {
                format!("more than {} pages (dirty_background_ratio) are dirty", self.background)
            };
            self.fault = Some(Box::new(JobError::Parameter {
                of: "host".into(),
                message: format!(
                    "{why}: background write-back would begin, which the host does not model; let the \
                     writers call fdatasync more often (dsync)"
                ),
            }));
            return false;
        }
        let tick = now.as_nanos() / STAMP_TICK.0;
        if f.stamped != Some(tick) {
            f.stamped = Some(tick);
            self.change(now);
        }
        true
    }

    /// An inode changes: it joins the running transaction, which is committed when it is old enough.
    fn change(&mut self, now: Instant) {
        if self.running.is_some() {
            return;
        }
        self.running = Some(now);
        if let Some(journal) = self.journal
            && matches!(self.procs[journal].stage, Stage::JournalRest)
        {
            self.woken.push((journal, now + Nanos::secs(self.config.commit_s)));
        }
    }

    /// Puts the dirty pages of [from, to) into the batch; stops at a page still under write-back and
    /// returns it.
    fn gather(&mut self, p: usize, file: u32, from: u64, to: u64, flags: Flags) -> Option<u64> {
        let mut at = from;
        let f = &mut self.files[file as usize];
        // Deviation: the owner's group pays also without group write-back, as the specification's
        // section 13 says of fsync; the caller's priority goes with it.
        let group = f.owner.unwrap_or(self.procs[p].info.group);
        while let Some((a, b)) = f.cache.dirty_run(at, to, self.bio_pages) {
            let b = match f.cache.find(a, b, |w| w.out) {
                busy if busy == a => return Some(a),
                busy => busy,
            };
            f.cache.start_write(a, b);
            self.counts.dirty -= b - a;
            self.procs[p].batch.push(Pending {
                kind: Kind::Write,
                op: Op::Write,
                flags,
                group,
                file,
                first: a,
                start: f.start + a * PAGE,
                len: (b - a) * PAGE,
            });
            at = b;
        }
        None
    }

    /// Flags of writes somebody waits for.
    fn sync_flags(&self) -> Flags {
        match self.config.block_profile {
            Profile::MultiQueue => Flags::SYNC,
            Profile::Legacy => Flags::SYNC | Flags::NOIDLE,
        }
    }

    fn unplug_last(&mut self, p: usize) {
        if self.config.block_profile == Profile::Legacy
            && let Some(last) = self.procs[p].batch.last_mut()
        {
            last.flags |= Flags::UNPLUG;
        }
    }

    /// Writes dirty pages out and waits for them, then flushes (host.md 10.1 and 10.2).
    fn write_out(&mut self, now: Instant, p: usize) -> Option<Act> {
        let Stage::WriteOut { file, from, to, step, call, then } = self.procs[p].stage else {
            unreachable!("asked for this stage only")
        };
        let stage = |from, step| Stage::WriteOut { file, from, to, step, call, then };
        match step {
            Out::Gather => {
                let flags = self.sync_flags();
                let busy = self.gather(p, file, from, to, flags);
                if busy.is_none() {
                    self.unplug_last(p);
                    self.procs[p].stage = stage(from, Out::Sent);
                    self.submit(p, true);
                    return None;
                }
                // A page is both dirty and under write-back: what is gathered goes first.
                let busy = busy.unwrap_or(to);
                if !self.procs[p].batch.is_empty() {
                    self.procs[p].stage = stage(busy, Out::Gather);
                    self.submit(p, true);
                    return None;
                }
                self.procs[p].stage = stage(busy, Out::Gather);
                self.wait_for_writes(now, p, file)
            }
            Out::Sent => {
                let flush = then.is_none() && self.config.barriers && self.config.fs == Fs::Ext4;
                self.procs[p].stage = stage(from, if flush { Out::Flush } else { Out::Done });
                self.wait_for_writes(now, p, file)
            }
            Out::Flush => {
                let group = self.procs[p].info.group;
                self.procs[p].batch.push(Pending {
                    kind: Kind::Own,
                    op: Op::Flush,
                    flags: Flags::PREFLUSH | Flags::SYNC,
                    group,
                    file,
                    first: 0,
                    start: 0,
                    len: 0,
                });
                self.procs[p].own_left = 1;
                self.procs[p].stage = stage(from, Out::FlushSent);
                self.submit(p, false);
                None
            }
            Out::FlushSent => {
                self.procs[p].stage = stage(from, Out::Done);
                self.wait_for_own(now, p)
            }
            Out::Done => {
                self.procs[p].stage = match then {
                    Some(Direct { write, offset, len, begun, sync }) => {
                        Stage::DirectGo { write, offset, len, begun, sync }
                    }
                    None => Stage::Over,
                };
                call.map(|call| one_call(now, call))
            }
        }
    }

    /// Waits for the write-back bios of a file that are in flight now; not at all if there are none.
    fn wait_for_writes(&mut self, now: Instant, p: usize, file: u32) -> Option<Act> {
        let f = &self.files[file as usize];
        let (mark, left) = (f.write_seq, f.writing);
        (left > 0).then(|| self.block(now, p, file, Wait::Writes { mark, left }))
    }

    fn wait_for_own(&mut self, now: Instant, p: usize) -> Option<Act> {
        (self.procs[p].own_left > 0).then(|| self.block(now, p, 0, Wait::Own))
    }

    /// A direct call (host.md 6).
    fn direct(&mut self, now: Instant, p: usize) -> Option<Act> {
        let file = self.procs[p].open.expect("a load opens its file before it reads").file;
        match self.procs[p].stage {
            Stage::DirectBegin { write, offset, len, begun, sync, late: false } => {
                if self.stopped(now, p) {
                    return Some(Act::Stopped);
                }
                self.procs[p].stage =
                    Stage::DirectBegin { write, offset, len, begun, sync, late: true };
                Some(Act::WaitUntil(now + DIRECT_CALL))
            }
            Stage::DirectBegin { write, offset, len, begun, sync, late: true } => {
                let cache = &self.files[file as usize].cache;
                let (from, to) = (offset / PAGE, (offset + len).div_ceil(PAGE));
                self.procs[p].stage = if cache.dirty_run(from, to, 1).is_some() {
                    let then = Some(Direct { write, offset, len, begun, sync });
                    Stage::WriteOut { file, from, to, step: Out::Gather, call: None, then }
                } else {
                    Stage::DirectGo { write, offset, len, begun, sync }
                };
                None
            }
            Stage::DirectGo { write, offset, len, begun, sync } => {
                let f = &mut self.files[file as usize];
                debug_assert!(offset + len <= f.bytes, "a load stays inside its file");
                self.memory.drop_clean(&mut f.cache, offset / PAGE, (offset + len).div_ceil(PAGE));
                self.direct_bios(p, file, write, offset, len);
                self.procs[p].stage = Stage::DirectSent { len, begun, sync };
                let plugged = self.procs[p].batch.len() > 1;
                self.submit(p, plugged);
                None
            }
            Stage::DirectSent { len, begun, sync } => {
                if let Some(act) = self.wait_for_own(now, p) {
                    return Some(act);
                }
                let call = Call { begun, bytes: len };
                if sync {
                    self.procs[p].stage = Stage::SyncBegin { file, call: Some(call) };
                    return None;
                }
                self.procs[p].stage = Stage::Over;
                Some(one_call(now, call))
            }
            _ => unreachable!("asked for these stages only"),
        }
    }

    fn direct_bios(&mut self, p: usize, file: u32, write: bool, offset: u64, len: u64) {
        let flags = match (write, self.config.block_profile) {
            (false, _) => Flags::NONE,
            (true, Profile::MultiQueue) => Flags::SYNC | Flags::IDLE,
            (true, Profile::Legacy) => Flags::SYNC,
        };
        let start = self.files[file as usize].start;
        let group = self.procs[p].info.group;
        let mut at = 0;
        while at < len {
            let part = (len - at).min(self.bio_pages * PAGE);
            self.procs[p].batch.push(Pending {
                kind: Kind::Own,
                op: if write { Op::Write } else { Op::Read },
                flags,
                group,
                file,
                first: 0,
                start: start + offset + at,
                len: part,
            });
            at += part;
        }
        self.procs[p].own_left = self.procs[p].batch.len() as u32;
        self.unplug_last(p);
    }

    /// The journal's thread: a commit when the running transaction is old enough (host.md 11).
    fn commit(&mut self, now: Instant, p: usize) -> Option<Act> {
        let legacy = self.config.block_profile == Profile::Legacy;
        let flags = if legacy { Flags::SYNC | Flags::NOIDLE } else { JOURNAL_FLAGS };
        match self.procs[p].stage {
            Stage::JournalRest => {
                assert!(self.running.take().is_some(), "the journal is woken by a change");
                self.commit_began = now;
                // Freeze; nothing is ordered before it, since no blocks are allocated. The timer's own
                // commits are asynchronous in the legacy layer.
                let flags = if legacy { Flags::NONE } else { flags };
                self.journal_bios(p, (1 + METADATA_BLOCKS) * PAGE, flags);
                self.procs[p].stage = Stage::JournalRun;
                self.submit(p, true);
                None
            }
            Stage::JournalRun => {
                self.procs[p].stage = Stage::JournalCommit;
                self.wait_for_own(now, p)
            }
            Stage::JournalCommit => {
                let order = match (self.config.barriers, legacy) {
                    (false, _) => Flags::NONE,
                    (true, false) => Flags::PREFLUSH | Flags::FUA,
                    (true, true) => Flags::BARRIER,
                };
                self.journal_bios(p, PAGE, flags | order);
                self.unplug_last(p);
                self.procs[p].stage = Stage::JournalDone;
                self.submit(p, false);
                None
            }
            Stage::JournalDone => {
                if let Some(act) = self.wait_for_own(now, p) {
                    return Some(act);
                }
                self.counts.commits += 1;
                self.counts.commit_time += now - self.commit_began;
                self.procs[p].stage = Stage::JournalRest;
                match self.running {
                    Some(since) => {
                        let due = since + Nanos::secs(self.config.commit_s);
                        Some(Act::WaitUntil(due.max(now)))
                    }
                    None => Some(Act::Block),
                }
            }
            _ => unreachable!("asked for these stages only"),
        }
    }

    /// A run at the journal's cursor, in two parts where the journal wraps.
    fn journal_bios(&mut self, p: usize, len: u64, flags: Flags) {
        let mut left = len;
        while left > 0 {
            let part = left.min(JOURNAL - self.journal_cursor);
            self.procs[p].batch.push(Pending {
                kind: Kind::Own,
                op: Op::Write,
                flags,
                group: GroupId::ROOT,
                file: 0,
                first: 0,
                start: self.layout.journal + self.journal_cursor,
                len: part,
            });
            self.journal_cursor = (self.journal_cursor + part) % JOURNAL;
            left -= part;
        }
        self.procs[p].own_left = self.procs[p].batch.len() as u32;
    }
}

/// A single call that ends now.
fn one_call(now: Instant, call: Call) -> Act {
    Act::Ran(Ran {
        first: now - call.begun,
        first_end: now,
        each: Nanos::ZERO,
        calls: 1,
        bytes: call.bytes,
        until: now,
    })
}

/// A direct call before its first bio (host.md 2.1).
const DIRECT_CALL: Nanos = Nanos(1500);
/// Metadata blocks of a transaction that changes only inodes (host.md 11).
const METADATA_BLOCKS: u64 = 4;
/// Flags of the journal's writes (host.md 11).
const JOURNAL_FLAGS: Flags =
    Flags::from_bits(Flags::SYNC.bits() | Flags::META.bits() | Flags::IDLE.bits());
