//! Carries out the requests of one start: its processes act in turns, compute before their synchronous reads,
//! and send bursts of read-ahead without waiting.

use super::chain::{ReadKind, Request};
use super::profile::Actor;
use crate::host::{BlockIo, Notice, Operation};
use hoistway::{Flags, Instant, Nanos};

/// How a start is carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::load) enum Form {
    /// Computing takes its time, whoever else computes.
    Synthetic,
    /// As the suite replays traces: no pause inside a burst, and servers are made anew.
    Replay,
    /// Computing needs a processor that others may need too, and every process is new.
    Shared,
}

/// Between two requests of a burst of read-ahead.
const BURST_GAP: Nanos = Nanos::us(25);

/// A start that is under way.
#[derive(Debug)]
pub(in crate::load) struct Player {
    actors: &'static [Actor],
    form: Form,
    /// What the start does, and where.
    chain: Vec<Request>,
    starts: Vec<u64>,
    /// Of data, metadata and read-ahead.
    flags: [Flags; 3],
    /// Next request of the chain, and whether it has been computed for.
    at: usize,
    ready: bool,
    acting: Option<usize>,
    /// When the last request was handed to the host.
    sent: Instant,
}

impl Player {
    /// The requests of `chain`, each at its place in `starts`.
    pub fn new(
        actors: &'static [Actor],
        form: Form,
        chain: Vec<Request>,
        starts: Vec<u64>,
        flags: [Flags; 3],
    ) -> Player {
        let (at, ready, acting, sent) = (0, false, None, Instant::ZERO);
        Player { actors, form, chain, starts, flags, at, ready, acting, sent }
    }

    /// From the beginning, once more.
    pub fn rewind(&mut self) {
        (self.at, self.acting) = (0, None);
    }

    /// What it reads: first byte on the device and length.
    pub fn places(&self) -> impl Iterator<Item = (u64, u64)> {
        self.starts.iter().zip(&self.chain).map(|(&start, request)| (start, request.len))
    }

    /// The next operation; `None`: the application is there.
    pub fn next(&mut self, now: Instant) -> Option<Operation> {
        let &request = self.chain.get(self.at)?;
        if self.acting != Some(request.actor) {
            self.acting = Some(request.actor);
            let actor = self.actors[request.actor];
            let slot = request.actor as u32;
            // The replay makes all its threads anew, those of servers too.
            let (name, lasting) = (actor.name, actor.lasting && self.form == Form::Synthetic);
            return Some(Operation::Tell(Notice::RunAs { slot, name, lasting }));
        }
        if !std::mem::replace(&mut self.ready, true) {
            let until = match request.kind {
                ReadKind::Ahead if self.form != Form::Replay => self.sent + BURST_GAP,
                _ if self.form == Form::Shared && request.think > Nanos::ZERO => {
                    return Some(Operation::Compute(request.think));
                }
                _ => now + request.think,
            };
            if until > now {
                return Some(Operation::Sleep(until));
            }
        }
        self.ready = false;
        self.sent = now;
        self.at += 1;
        Some(Operation::Block(BlockIo {
            write: false,
            start: self.starts[self.at - 1],
            len: request.len,
            flags: self.flags[request.kind as usize],
            wait: request.kind != ReadKind::Ahead,
        }))
    }
}
