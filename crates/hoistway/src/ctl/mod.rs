//! I/O controllers: the trait and the registry.
//!
//! A controller answers one question: may this I/O enter now? It sees bios as they are submitted, before
//! and after merging, reorders nothing inside a group and direction, and may ask that a submitter be
//! delayed. Where it stands in the path of an I/O is a field of its registry entry
//! ([`Gate`]; the order is that of Linux 6.1, specs/groups-and-priorities.md section 5).

mod delay;
mod tick_timer;

pub mod cost;
pub mod latency;
pub mod max;
pub mod wbt;

use crate::device::Device;
use crate::env::Cx;
use crate::group::{GroupId, ProcId};
use crate::request::{BioId, ReqId};
use crate::stage::{Stage, StageInfo};
use crate::unit::{Instant, Nanos};
use alloc::boxed::Box;
use alloc::string::String;
pub use delay::Delay;
pub use tick_timer::{TickTimers, tick_of};

/// May the bio go on?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Yes.
    Pass,
    /// Not now: the controller keeps it until `release` returns it.
    Hold,
}

/// Where a controller stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Gate {
    /// Before splitting and merging; a hold does not stop the submitting task (io.max).
    BeforeMerge,
    /// After merging, before the tag; a hold stops the submitting task (io.cost, wbt, io.latency).
    BeforeTag,
}

/// One I/O controller for one device.
///
/// The contract: a controller never loses a bio, and never reorders within a group and direction. A bio
/// that passed is told of exactly once more: by `merged`, or by the `complete` of the request it became
/// (or that absorbed this one). After `timer`, `next_timer` lies in the future or is `None`.
pub trait Controller: Stage {
    /// A bio arrives.
    fn submit(&mut self, now: Instant, bio: BioId, cx: &mut Cx<'_>) -> Verdict;

    /// A held bio that may go on now; asked after every event until `None`.
    fn release(&mut self, now: Instant, cx: &mut Cx<'_>) -> Option<BioId>;

    /// Hands over every held bio, whatever the limits say; at the end of a stack asked in place of `release`,
    /// until `None`. A controller that holds bios has its own; order within a group and direction is kept.
    fn drain(&mut self, now: Instant, cx: &mut Cx<'_>) -> Option<BioId> {
        self.release(now, cx)
    }

    /// A bio joined a request and will not be submitted.
    fn merged(&mut self, _now: Instant, _bio: BioId, _into: ReqId, _cx: &mut Cx<'_>) {}

    /// A request goes to the device; again if the device gave it back. A pure flush never does itself,
    /// the stack's own flush command does it for all that wait.
    fn issue(&mut self, _now: Instant, _id: ReqId, _cx: &mut Cx<'_>) {}

    /// The device gave a request back unserved; another `issue` follows.
    fn requeue(&mut self, _now: Instant, _id: ReqId, _cx: &mut Cx<'_>) {}

    /// A request is over, its flush steps included, whether it was served or failed; it is still in the
    /// table during the call.
    fn complete(&mut self, _now: Instant, _id: ReqId, _cx: &mut Cx<'_>) {}

    /// How long this submitter must wait before it goes on; asked once when its submission is over.
    fn delay(&mut self, _now: Instant, _proc: ProcId, _cx: &mut Cx<'_>) -> Nanos {
        Nanos::ZERO
    }

    /// Appends the controller's fields of the group's `io.stat` line, each with a blank before it
    /// (specs/groups-and-priorities.md 6.9).
    fn stat(&self, _now: Instant, _group: GroupId, _cx: &Cx<'_>, _out: &mut String) {}

    /// Does a task of this group meet a delay, so that its read-ahead is cut to the missing page
    /// (specs/groups-and-priorities.md section 7)? Ancestors count.
    fn congested(&self, _group: GroupId, _cx: &Cx<'_>) -> bool {
        false
    }
}

/// One line of the registry.
pub struct Entry {
    /// Facts that every stage has: name, tunables, files, figures.
    pub stage: StageInfo,
    /// Where it stands.
    pub gate: Gate,
    /// Makes an instance with all tunables at their defaults; as of schedulers, it may take along what it needs.
    pub build: &'static (dyn Fn(&Device) -> Box<dyn Controller> + Send + Sync),
}

impl core::fmt::Debug for Entry {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Entry").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Fields of the stage are read as the entry's own: `entry.name`, `entry.tunables`.
impl core::ops::Deref for Entry {
    type Target = StageInfo;

    fn deref(&self) -> &StageInfo {
        &self.stage
    }
}

/// Every controller. In gate 2 they are asked in this order: io.cost, wbt, io.latency.
pub static CONTROLLERS: &[&Entry] =
    &[&max::ENTRY, &max::ENTRY_LOW, &cost::ENTRY, &wbt::ENTRY, &latency::ENTRY];

/// Finds an entry by name.
pub fn find(name: &str) -> Option<&'static Entry> {
    CONTROLLERS.iter().copied().find(|e| e.name == name)
}
