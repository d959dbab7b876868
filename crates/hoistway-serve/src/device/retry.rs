//! Requests that failed, tried again bio by bio, so that each I/O gets its own result.
//!
//! A durable write is tried as a plain write with a flush behind it: only so can be told whether the write
//! failed, which is its own misfortune, or the sync behind it, which concerns everybody.

use super::flush::SyncFailures;
use super::in_flight::InFlightTable;
use hoistway::{IoId, Sectors};
use rustix::io::Errno;

/// A piece of a failed request: whose, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub io: IoId,
    pub start: Sectors,
    pub sectors: Sectors,
}

/// What is to be done next for a failed request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RetryStep {
    /// Try this piece.
    Piece(Piece),
    /// Flush behind durable pieces.
    Flush,
    /// Each I/O has its own result by now.
    Over,
}

/// The failed requests, by the tags of their commands.
#[derive(Debug, Default)]
pub(super) struct Retries {
    list: Vec<Retry>,
}

#[derive(Debug)]
struct Retry {
    tag: u64,
    pieces: Vec<Piece>,
    /// Counts to one beyond the pieces while the flush behind durable ones is under way.
    next: usize,
    durable: bool,
    /// Pieces that failed again.
    failed: usize,
    /// What the request failed with.
    errno: Errno,
}

impl Retries {
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub fn contains(&self, tag: u64) -> bool {
        self.list.iter().any(|r| r.tag == tag)
    }

    /// A request with these pieces has failed; its first piece is tried.
    pub fn begin(
        &mut self,
        tag: u64,
        pieces: Vec<Piece>,
        durable: bool,
        errno: Errno,
    ) -> RetryStep {
        let first = RetryStep::Piece(pieces[0]);
        self.list.push(Retry { tag, pieces, next: 0, durable, failed: 0, errno });
        first
    }

    /// A step of a request has ended like that.
    pub fn completed(
        &mut self,
        tag: u64,
        result: Result<(), Errno>,
        ios: &mut InFlightTable,
        syncs: &mut SyncFailures,
    ) -> RetryStep {
        let at = self.list.iter().position(|r| r.tag == tag).expect("asked for what it contains");
        let step = self.list[at].stepped(result, ios, syncs);
        if step == RetryStep::Over {
            self.list.swap_remove(at);
        }
        step
    }
}

impl Retry {
    fn stepped(
        &mut self,
        result: Result<(), Errno>,
        ios: &mut InFlightTable,
        syncs: &mut SyncFailures,
    ) -> RetryStep {
        let piece = self.pieces.get(self.next);
        self.next += 1;
        match (piece, result) {
            (Some(_), Ok(())) => {}
            (Some(piece), Err(errno)) => {
                self.failed += 1;
                ios.blame(piece.io, errno);
            }
            // All could be written after all, and the flush behind them succeeded: what failed was a sync.
            (None, Ok(())) if self.failed == 0 => syncs.record(self.errno),
            (None, Ok(())) => {}
            (None, Err(errno)) => {
                syncs.record(errno);
                self.pieces.iter().for_each(|piece| ios.blame(piece.io, errno));
            }
        }
        match self.pieces.get(self.next) {
            Some(piece) => RetryStep::Piece(*piece),
            None if self.next == self.pieces.len()
                && self.durable
                && self.failed < self.pieces.len() =>
            {
                RetryStep::Flush
            }
            None => RetryStep::Over,
        }
    }
}
