//! The merge look-up in a software queue, for `none` and, per domain, `kyber`
//! (specs/blk-mq-and-noop.md 3.8).

use crate::list::{Links, List};
use crate::request::{Flags, Io, Op, Request, Requests, Side};
use crate::table::NIL;

/// Entries of a software queue a bio is compared with.
pub(super) const SCAN: u32 = 8;

/// Flags that keep a bio or request from merging in the multi-queue block layer (section 1).
const UNMERGEABLE: Flags =
    Flags::from_bits(Flags::NOMERGE.bits() | Flags::PREFLUSH.bits() | Flags::FUA.bits());

/// The newest of the last [`SCAN`] entries of `list` that lies beside the bio, may join it by the generic
/// test, and passes `open`. What the limits say is left to the stack: the first hit decides.
pub(super) fn newest_match(
    list: &List,
    links: &Links,
    requests: &Requests,
    io: &Io,
    open: impl Fn(u32) -> bool,
) -> Option<(u32, Side)> {
    let mut slot = list.tail();
    for _ in 0..SCAN {
        if slot == NIL {
            return None;
        }
        let r = requests.at(slot);
        if let Some(side) = adjacent(io, r)
            && mergeable(io, r)
            && open(slot)
        {
            return Some((slot, side));
        }
        slot = links.prev(slot);
    }
    None
}

/// On which side of `r` the bio lies, if directly beside it.
fn adjacent(io: &Io, r: &Request) -> Option<Side> {
    if r.end() == io.start {
        Some(Side::Back)
    } else if io.end() == r.start {
        Some(Side::Front)
    } else {
        None
    }
}

/// The generic test (3.1, modern form) as far as request and bio show it.
fn mergeable(io: &Io, r: &Request) -> bool {
    matches!(io.op, Op::Read | Op::Write | Op::Discard)
        && io.op == r.op
        && io.prio == r.prio
        && io.group == r.group
        && io.flags.issue_as_root() == r.flags.issue_as_root()
        && !io.flags.any(UNMERGEABLE)
        && !r.flags.any(UNMERGEABLE)
}
