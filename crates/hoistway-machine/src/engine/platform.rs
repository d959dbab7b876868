//! What a run on real storage stands on: a backend, memory, and threads.

use super::ledger::{Held, Ledger};
use super::memory::{Lender, Lent};
use super::pages::{PAGE, Page, Pages};
use super::pattern::{NONE, Stamp, fill};
use super::process::{Begin, Calls, Data, Instruction, Mailbox, Piece, Stamps};
use hoistway::{Instant, Io, IoId, Op, ReqId, Stack};
use hoistway_serve::storage::{Backend, Command};
use hoistway_serve::system::Part;
use hoistway_sim::host::{Bio, Host, Operation, PageChange, Ran};
use hoistway_sim::world::Platform;
use std::collections::VecDeque;
use std::sync::Arc;

/// A process of the job, as the owner sees it.
#[derive(Debug)]
pub(super) struct ProcessSlot {
    pub mailbox: Arc<Mailbox>,
    /// What it has said it does next.
    pub next: Option<Begin>,
    operation: Option<Operation>,
    /// Calls of the operation that it has carried out or is carrying out.
    done: u64,
    /// What the operation writes, and behind it what earlier ones of a queue write: some of those may not
    /// have been submitted yet.
    data: VecDeque<Data>,
    /// What has come for it past the cache.
    own: Vec<Piece>,
    /// Since when it could go on.
    pub told: Instant,
}

impl ProcessSlot {
    pub fn new() -> ProcessSlot {
        let mailbox = Arc::default();
        let told = Instant::ZERO;
        ProcessSlot {
            mailbox,
            next: None,
            operation: None,
            done: 0,
            data: VecDeque::new(),
            own: Vec::new(),
            told,
        }
    }

    fn tell(&mut self, now: Instant, turn: Instruction) {
        self.told = now;
        self.mailbox.put(turn);
    }

    /// An operation begins.
    pub fn begin(&mut self, begin: Begin) -> Operation {
        (self.operation, self.done) = (Some(begin.operation), 0);
        if let Some(data) = begin.data {
            let others = match begin.operation {
                Operation::Queue { room, .. } => room.depth as usize,
                _ => 0,
            };
            self.data.truncate(others);
            self.data.push_front(data);
        }
        begin.operation
    }
}

/// A bio in the stack's hands.
#[derive(Debug)]
struct Flight {
    /// First byte on the device.
    start: u64,
    moves: Moves,
}

#[derive(Debug)]
enum Moves {
    Nothing,
    /// With what the pages held when it was submitted.
    Read(Lent, Vec<Held>),
    /// Pieces of memory in order, and the stamps of the pages.
    Written(Vec<(Arc<Lent>, usize, usize)>, Vec<Stamp>),
}

#[derive(Debug)]
pub(super) struct Real {
    // First, so that nothing is under way any more when the buffers are freed.
    pub backend: Box<dyn Backend>,
    pub processes: Vec<ProcessSlot>,
    pub pages: Pages,
    pub ledger: Ledger,
    pub stamps: Arc<Stamps>,
    pub lender: Lender,
    /// By the slots of their ids.
    flights: Vec<Option<Flight>>,
    parts: Vec<Part>,
}

impl Real {
    pub fn new(
        backend: Box<dyn Backend>,
        ledger: Ledger,
        stamps: Arc<Stamps>,
        processes: usize,
    ) -> Real {
        Real {
            backend,
            processes: (0..processes).map(|_| ProcessSlot::new()).collect(),
            pages: Pages::default(),
            ledger,
            stamps,
            lender: Lender::new(),
            flights: Vec::new(),
            parts: Vec::new(),
        }
    }

    /// What the device holds, once nothing is under way any more.
    pub fn into_ledger(self) -> Ledger {
        let Real { backend, ledger, .. } = self;
        drop(backend);
        ledger
    }

    /// The dirty pages of a bio, as pieces of memory, and their stamps.
    fn dirty(&self, bio: Bio, io: &Io) -> Moves {
        let mut pieces: Vec<(Arc<Lent>, usize, usize)> = Vec::new();
        let mut stamps: Vec<Stamp> = Vec::new();
        match bio {
            Bio::Cached { file, first, pages } => {
                for number in first..first + pages {
                    let page = self.pages.get(file, number).expect("a dirty page has contents");
                    stamps.push(page.allowed[0]);
                    let at = page.at as usize;
                    match pieces.last_mut() {
                        Some((last, from, len))
                            if Arc::ptr_eq(last, &page.buffer) && *from + *len == at =>
                        {
                            *len += PAGE;
                        }
                        _ => pieces.push((Arc::clone(&page.buffer), at, PAGE)),
                    }
                }
            }
            Bio::Own(p) => {
                let (start, len) = (io.start.bytes().0, io.sectors.bytes().0);
                let covers =
                    |d: &&Data| d.place <= start && start + len <= d.place + d.buffer.len() as u64;
                let data = self.processes.get(p).and_then(|s| s.data.iter().find(covers));
                let (buffer, from, stamp) = match data {
                    Some(d) => (Arc::clone(&d.buffer), (start - d.place) as usize, d.stamp),
                    // The journal's: the model does not say what is in it.
                    None => {
                        let (mut buffer, stamp) =
                            (self.lender.lend(len as usize), self.stamps.give());
                        fill(&mut buffer, start, stamp);
                        (Arc::new(buffer), 0, stamp)
                    }
                };
                stamps.resize(page_range(start, len).count(), stamp);
                pieces.push((buffer, from, len as usize));
            }
        }
        Moves::Written(pieces, stamps)
    }

    /// The memory of a part of an I/O.
    fn part(&mut self, io: IoId, start: u64, len: usize) {
        let flight = self.flights[slot(io)].as_mut().expect("an I/O lives until it is finished");
        let mut from = (start - flight.start) as usize;
        match &mut flight.moves {
            Moves::Nothing => {}
            Moves::Read(buffer, _) => {
                // SAFETY: the buffer stays in the table, untouched, until the stack has finished the
                // I/O, which it does after the backend has reported the command done; on drop the
                // backend goes first and waits.
                self.parts.push(unsafe { Part::new(buffer.buffer_mut(), from, len) });
            }
            Moves::Written(pieces, _) => {
                let mut left = len;
                for (buffer, at, whole) in pieces.iter() {
                    if from >= *whole {
                        from -= whole;
                        continue;
                    }
                    let take = left.min(whole - from);
                    // SAFETY: the buffer is kept alive as above; nobody changes a buffer that is shared,
                    // and a write only reads it.
                    self.parts.push(unsafe { Part::shared(buffer.buffer(), at + from, take) });
                    (from, left) = (0, left - take);
                    if left == 0 {
                        break;
                    }
                }
            }
        }
    }
}

impl Platform for Real {
    fn issue(&mut self, now: Instant, command: Command, req: ReqId, stack: &Stack) {
        self.parts.clear();
        if matches!(command.op, Op::Read | Op::Write) {
            for (_, bio) in stack.env().requests.bios(req) {
                self.part(bio.id, bio.start.bytes().0, bio.sectors.bytes().0 as usize);
            }
        }
        self.backend.issue(now, command, &self.parts);
    }

    fn submitted(&mut self, io: &Io, host: &Host) {
        let (start, len) = (io.start.bytes().0, io.sectors.bytes().0);
        let moves = match io.op {
            Op::Read => {
                let before = page_range(start, len).map(|page| self.ledger.of(page)).collect();
                Moves::Read(self.lender.lend(len as usize), before)
            }
            Op::Write => {
                let moves = self.dirty(host.bio(io.id), io);
                if let Moves::Written(_, stamps) = &moves {
                    for (page, &stamp) in page_range(start, len).zip(stamps) {
                        self.ledger.sends(page, stamp);
                    }
                }
                moves
            }
            _ => Moves::Nothing,
        };
        let slot = slot(io.id);
        if self.flights.len() <= slot {
            self.flights.resize_with(slot + 1, || None);
        }
        self.flights[slot] = Some(Flight { start, moves });
    }

    fn finished(&mut self, io: IoId, host: &Host) {
        let flight = self.flights[slot(io)].take().expect("an I/O is finished once");
        match flight.moves {
            Moves::Nothing => {}
            Moves::Written(pieces, stamps) => {
                let len: usize = pieces.iter().map(|(_, _, len)| len).sum();
                let end = flight.start + len as u64;
                for (page, stamp) in page_range(flight.start, len as u64).zip(stamps) {
                    let first = page * PAGE as u64;
                    let whole = flight.start <= first && first + PAGE as u64 <= end;
                    self.ledger.wrote(page, stamp, whole);
                }
            }
            Moves::Read(buffer, before) => {
                let pages = page_range(flight.start, buffer.len() as u64);
                let mut allowed: Vec<[Stamp; 4]> = pages
                    .zip(before)
                    .map(|(page, before)| {
                        let after = self.ledger.of(page);
                        let other = |now| if after == before { NONE } else { now };
                        [before.now, before.coming, other(after.now), other(after.coming)]
                    })
                    .collect();
                let (place, buffer) = (flight.start, Arc::new(buffer));
                match host.bio(io) {
                    Bio::Cached { file, first, .. } => {
                        for (i, allowed) in allowed.drain(..).enumerate() {
                            let (buffer, at) = (Arc::clone(&buffer), (i * PAGE) as u32);
                            self.pages.put(file, first + i as u64, Page { buffer, at, allowed });
                        }
                    }
                    Bio::Own(p) => {
                        if let Some(process) = self.processes.get_mut(p) {
                            process.own.push(Piece { place, buffer, allowed });
                        }
                    }
                }
            }
        }
    }

    fn stepped(&mut self, host: &mut Host) {
        let Real { pages, processes, .. } = self;
        host.changes(|change| match change {
            PageChange::Dropped { file, page } => pages.drop_page(file, page),
            PageChange::Dirtied { p, file, from, to } => {
                let process = &processes[p];
                let data = process.data.front().expect("a write brings its data");
                let Some(Operation::Write { offset, .. }) = process.operation else {
                    unreachable!("only a buffered write makes pages dirty");
                };
                for page in from..to {
                    let at = (page * PAGE as u64 - offset) as usize;
                    pages.put(file, page, Page::written(&data.buffer, at, data.stamp));
                }
            }
        });
    }

    fn next(&mut self, now: Instant, p: usize) -> Option<Operation> {
        let process = &mut self.processes[p];
        match process.next.take() {
            Some(begin) => Some(process.begin(begin)),
            None => {
                process.tell(now, Instruction::Next);
                None
            }
        }
    }

    fn ran(&mut self, now: Instant, p: usize, ran: &Ran, host: &Host) -> bool {
        let process = &mut self.processes[p];
        let mut pages = Vec::new();
        if let Some(Operation::Read { offset, bs, .. }) = process.operation {
            let (from, to) = (offset + process.done * bs, offset + (process.done + ran.calls) * bs);
            let file = host.opened(p).expect("a process opens its file before it reads");
            pages.extend(page_range(from, to - from).map(|n| self.pages.get(file, n).cloned()));
        }
        process.done += ran.calls;
        let own = std::mem::take(&mut process.own);
        process.tell(now, Instruction::Calls(Box::new(Calls { ran: *ran, pages, own })));
        false
    }
}

/// Numbers of the pages that `len` bytes from `start` on touch.
fn page_range(start: u64, len: u64) -> std::ops::Range<u64> {
    start / PAGE as u64..(start + len).div_ceil(PAGE as u64)
}

fn slot(io: IoId) -> usize {
    (io.0 & 0xffff_ffff) as usize
}
