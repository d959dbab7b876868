//! A process of a job as a thread: it asks its load what to do, hands it over, waits, takes its pages,
//! and reads the clock.
//!
//! Of a run of calls that the page cache can serve at once, the thread carries out each on its own: it
//! copies the call's pages into its buffer and checks them. What it writes it makes up beforehand, a
//! few calls at a time, because pages may be written back as soon as they are in the cache.

use super::memory::{Lender, Lent};
use super::pages::Page;
use super::pattern::{FIRST, Stamp, check, fill};
use hoistway::{Instant, Nanos};
use hoistway_serve::system::Clock;
use hoistway_serve::system::EventFd;
use hoistway_sim::host::{Operation, Ran, SyncKind};
use hoistway_sim::load::Load;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

/// What the owner tells a process.
#[derive(Debug)]
pub(super) enum Instruction {
    /// Its operation is over: what next?
    Next,
    /// Calls of its operation can be carried out.
    Calls(Box<Calls>),
}

/// Calls that can be carried out.
#[derive(Debug)]
pub(super) struct Calls {
    /// As the host has counted them.
    pub ran: Ran,
    /// The pages that buffered reads are about, in order.
    pub pages: Vec<Option<Page>>,
    /// What came past the cache.
    pub own: Vec<Piece>,
}

/// Data that came past the page cache.
#[derive(Debug)]
pub(super) struct Piece {
    /// First byte on the device.
    pub place: u64,
    pub buffer: Arc<Lent>,
    /// Per page of the device, from the one `place` is in: the writes it may hold.
    pub allowed: Vec<[Stamp; 4]>,
}

/// An operation of a process.
#[derive(Debug)]
pub(super) struct Begin {
    pub operation: Operation,
    /// What it writes.
    pub data: Option<Data>,
}

/// Bytes to be written.
#[derive(Clone, Debug)]
pub(super) struct Data {
    /// First byte on the device.
    pub place: u64,
    pub buffer: Arc<Lent>,
    pub stamp: Stamp,
}

/// What a process tells the owner.
#[derive(Debug)]
pub(super) enum Report {
    Begin {
        p: usize,
        begin: Begin,
    },
    /// It has carried out calls; if that was all of its operation, it says at once what comes next.
    Did {
        p: usize,
        ran: Vec<Ran>,
        next: Option<Begin>,
    },
    /// It was given other data than it should have been.
    Wrong {
        what: String,
    },
}

/// Where the owner leaves what it tells a process.
#[derive(Debug, Default)]
pub(super) struct Mailbox {
    state: Mutex<MailboxState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct MailboxState {
    turn: Option<Instruction>,
    stop: bool,
}

impl Mailbox {
    pub fn put(&self, turn: Instruction) {
        let before = self.lock().turn.replace(turn);
        debug_assert!(before.is_none(), "a process is told one thing at a time");
        self.changed.notify_one();
    }

    /// After what lies there, the process ends.
    pub fn stop(&self) {
        self.lock().stop = true;
        self.changed.notify_one();
    }

    fn take(&self) -> Option<Instruction> {
        let mut state = self.lock();
        loop {
            if let Some(turn) = state.turn.take() {
                return Some(turn);
            }
            if state.stop {
                return None;
            }
            state = self.changed.wait(state).expect(NO_PANIC);
        }
    }

    fn lock(&self) -> MutexGuard<'_, MailboxState> {
        self.state.lock().expect(NO_PANIC)
    }
}

const NO_PANIC: &str = "nobody panics while holding the lock";

/// Where processes leave what they tell the owner.
#[derive(Debug)]
pub(super) struct Inbox {
    state: Mutex<InBox>,
    wakeup: EventFd,
}

#[derive(Debug, Default)]
struct InBox {
    reports: Vec<Report>,
    /// The owner waits: who says something must ring.
    asleep: bool,
}

impl Inbox {
    pub fn new() -> io::Result<Inbox> {
        Ok(Inbox { state: Mutex::default(), wakeup: EventFd::new()? })
    }

    fn send(&self, report: Report) {
        let mut state = self.state.lock().expect(NO_PANIC);
        state.reports.push(report);
        if std::mem::take(&mut state.asleep) {
            self.wakeup.signal();
        }
    }

    /// Takes everything; with nothing there, who speaks next will ring.
    pub fn take(&self, into: &mut Vec<Report>, sleep: bool) {
        let mut state = self.state.lock().expect(NO_PANIC);
        into.append(&mut state.reports);
        state.asleep = sleep && into.is_empty();
    }

    /// The eventfd was cleared.
    pub fn heard(&self) {
        self.wakeup.clear();
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.wakeup.as_fd()
    }
}

/// Gives out stamps.
#[derive(Debug)]
pub(super) struct Stamps(AtomicU64);

impl Stamps {
    pub fn from(next: Stamp) -> Stamps {
        Stamps(AtomicU64::new(u64::from(next)))
    }

    pub fn give(&self) -> Stamp {
        let n = self.0.fetch_add(1, Ordering::Relaxed);
        // After four thousand million writes they begin anew.
        let round = u64::from(Stamp::MAX - FIRST);
        ((n - u64::from(FIRST)) % round) as Stamp + FIRST
    }

    pub fn next(&self) -> Stamp {
        self.0.load(Ordering::Relaxed).try_into().unwrap_or(FIRST)
    }
}

/// A process of a job.
#[derive(Debug)]
pub(super) struct EngineProcess {
    pub p: usize,
    pub load: Box<dyn Load>,
    pub mailbox: Arc<Mailbox>,
    pub inbox: Arc<Inbox>,
    pub clock: Clock,
    pub stamps: Arc<Stamps>,
    pub lender: Lender,
    /// Where each file lies on the device.
    pub files: Arc<[u64]>,
    /// It starts no call from then on.
    pub stop: Option<Instant>,
    pub state: ProcessState,
}

/// Where it is.
#[derive(Debug, Default)]
pub(super) struct ProcessState {
    /// Where the file it has open lies.
    base: u64,
    /// Where its other file lies.
    other: u64,
    operation: Option<Operation>,
    /// What is left of a write of which the host has been given the beginning.
    rest: Option<Operation>,
    /// Calls of the operation that are not over.
    left: u64,
    /// Where the next call is in the file.
    offset: u64,
    /// When the current call began.
    begun: Instant,
    /// Where its data goes to.
    own: Vec<u8>,
}

/// Bytes of a write that are made up at a time, if a call is not longer.
const CHUNK: u64 = 256 << 10;

impl EngineProcess {
    pub fn run(mut self) {
        while let Some(turn) = self.mailbox.take() {
            match turn {
                Instruction::Next => {
                    let begin = self.next();
                    self.inbox.send(Report::Begin { p: self.p, begin });
                }
                Instruction::Calls(calls) => match self.make(&calls) {
                    Ok(ran) => {
                        let next = (self.state.left == 0).then(|| self.next());
                        self.inbox.send(Report::Did { p: self.p, ran, next });
                    }
                    Err(what) => self.inbox.send(Report::Wrong { what }),
                },
            }
        }
    }

    /// Its next operation; its first call begins now.
    fn next(&mut self) -> Begin {
        let s = &mut self.state;
        let now = self.clock.now();
        let mut operation = s.rest.take().unwrap_or_else(|| self.load.next(now));
        s.begun = now;
        s.left = 0;
        let mut data = None;
        match &mut operation {
            Operation::Open { file, .. } => s.base = self.files[file.0 as usize],
            Operation::TurnOver => std::mem::swap(&mut s.base, &mut s.other),
            Operation::TurnTo { file, .. } => s.base = self.files[file.0 as usize],
            Operation::Read { offset, count, .. } => (s.offset, s.left) = (*offset, *count),
            Operation::Write { offset, bs, count, sync } => {
                let calls = (CHUNK / *bs).clamp(1, *count);
                if calls < *count {
                    s.rest = Some(Operation::Write {
                        offset: *offset + calls * *bs,
                        bs: *bs,
                        count: *count - calls,
                        sync: std::mem::replace(sync, SyncKind::No),
                    });
                    *count = calls;
                }
                (s.offset, s.left) = (*offset, calls);
                data = Some((s.base + *offset, calls * *bs));
            }
            Operation::Direct { write, offset, len, since, .. } => {
                s.begun = since.unwrap_or(now);
                s.left = 1;
                data = write.then_some((s.base + *offset, *len));
            }
            Operation::Queue { write, offset, len, .. } => {
                // Calls that are collected before this one is queued are others'.
                s.left = u64::MAX;
                data = write.then_some((s.base + *offset, *len));
            }
            Operation::Collect => s.left = u64::MAX,
            Operation::Block(io) => {
                s.left = u64::from(io.wait);
                data = io.write.then_some((io.start, io.len));
            }
            _ => {}
        }
        s.operation = Some(operation);
        let data = data.map(|(place, len)| {
            let (stamp, mut buffer) = (self.stamps.give(), self.lender.lend(len as usize));
            fill(&mut buffer, place, stamp);
            Data { place, buffer: Arc::new(buffer), stamp }
        });
        Begin { operation, data }
    }

    fn make(&mut self, calls: &Calls) -> Result<Vec<Ran>, String> {
        let ran = &calls.ran;
        let operation = self.state.operation.expect("calls belong to an operation");
        let taken = match operation {
            Operation::Read { .. } => self.read(calls)?,
            Operation::Write { sync, .. } => {
                let end = self.clock.now();
                // Of several calls that the cache took at once each has its part of the time.
                let mut begun = self.state.begun;
                if sync == SyncKind::FullAlone {
                    begun = Instant::from_nanos(ran.first_end.as_nanos() - ran.first.0);
                }
                let each = Nanos(end.since(begun).0 / ran.calls);
                vec![Ran { first: each, first_end: begun + each, each, until: end, ..*ran }]
            }
            _ => {
                let mut end = self.clock.now();
                for piece in &calls.own {
                    self.state.own.clear();
                    self.state.own.extend_from_slice(&piece.buffer);
                    end = self.clock.now();
                    check_piece(&self.state.own, piece)?;
                }
                // An asynchronous call began when it was queued, some operations ago.
                let begun = match operation {
                    Operation::Queue { .. } | Operation::Collect => {
                        Instant::from_nanos(ran.first_end.as_nanos() - ran.first.0)
                    }
                    _ => self.state.begun,
                };
                vec![single(ran.bytes, ran.write, begun, end.max(ran.first_end))]
            }
        };
        self.state.left = self.state.left.saturating_sub(ran.calls);
        self.state.begun = self.clock.now();
        Ok(taken)
    }

    /// Buffered reads, one call after another.
    fn read(&mut self, calls: &Calls) -> Result<Vec<Ran>, String> {
        let s = &mut self.state;
        let bs = calls.ran.bytes;
        let first = s.offset / PAGE;
        let mut taken = Vec::with_capacity(calls.ran.calls as usize);
        let mut begun = s.begun;
        for _ in 0..calls.ran.calls {
            if self.stop.is_some_and(|stop| begun >= stop) {
                break;
            }
            s.own.clear();
            let pieces = || {
                pieces(s.offset, bs).map(|(page, from, to)| {
                    (page, calls.pages[(page - first) as usize].as_ref(), from, to)
                })
            };
            for (_, page, from, to) in pieces() {
                match page {
                    Some(page) => s.own.extend_from_slice(&page.bytes()[from..to]),
                    // A hole of the file.
                    None => s.own.resize(s.own.len() + to - from, 0),
                }
            }
            let end = self.clock.now();
            taken.push(single(bs, false, begun, end));
            let mut at = 0;
            for (number, page, from, to) in pieces() {
                if let Some(page) = page {
                    let place = s.base + number * PAGE + from as u64;
                    check(&s.own[at..at + to - from], place, &page.allowed)?;
                }
                at += to - from;
            }
            s.offset += bs;
            begun = self.clock.now();
        }
        Ok(taken)
    }
}

const PAGE: u64 = super::pages::PAGE as u64;

/// Pages of `len` bytes from `offset` on: number, and the first byte and the one behind the last in it.
fn pieces(offset: u64, len: u64) -> impl Iterator<Item = (u64, usize, usize)> {
    (offset / PAGE..(offset + len).div_ceil(PAGE)).map(move |page| {
        let from = offset.saturating_sub(page * PAGE);
        let to = (offset + len - page * PAGE).min(PAGE);
        (page, from as usize, to as usize)
    })
}

fn check_piece(bytes: &[u8], piece: &Piece) -> Result<(), String> {
    let mut at = 0;
    for ((_, from, to), allowed) in pieces(piece.place, bytes.len() as u64).zip(&piece.allowed) {
        check(&bytes[at..at + to - from], piece.place + at as u64, allowed)?;
        at += to - from;
    }
    Ok(())
}

fn single(bytes: u64, write: bool, begun: Instant, end: Instant) -> Ran {
    let first = end.since(begun);
    Ran { first, first_end: end, each: Nanos::ZERO, calls: 1, bytes, write, until: end }
}
