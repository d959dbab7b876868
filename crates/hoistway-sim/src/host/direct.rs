//! Direct I/O (specs/host.md 6).

use super::bio::{Pending, pieces};
use super::cache::PAGE;
use super::kernel::Kernel;
use super::op::Act;
use super::sync::{Fsync, WriteOut};
use super::task::{Call, Step, Task};
use hoistway::{Flags, Instant, Op};

/// How far a direct call is.
#[derive(Clone, Copy, Debug)]
enum At {
    /// Before the call.
    Begin,
    /// The call is paid for.
    Entered,
    /// Dirty pages of its range go out first.
    Out(WriteOut),
    /// They are submitted.
    OutSent,
    /// It is submitted.
    Go,
    /// Its bios are.
    Sent,
    /// It is followed by an fdatasync.
    Sync(Fsync),
}

/// One direct call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Direct {
    write: bool,
    offset: u64,
    len: u64,
    begun: Instant,
    sync: bool,
    at: At,
}

impl Direct {
    /// A call of `len` bytes that was meant to be issued at `begun`.
    pub fn new(write: bool, offset: u64, len: u64, begun: Instant, sync: bool) -> Direct {
        Direct { write, offset, len, begun, sync, at: At::Begin }
    }

    /// Since when the call has been open.
    pub fn begun(&self) -> Option<Instant> {
        match &self.at {
            At::Begin => None,
            At::Sync(sync) => sync.begun(),
            _ => Some(self.begun),
        }
    }

    /// What the call does next.
    pub fn step(&mut self, now: Instant, task: &mut Task, k: &mut Kernel) -> Step {
        let file = task.opened().file;
        // Its pages, rounded outwards.
        let (a, b) = (self.offset / PAGE, (self.offset + self.len).div_ceil(PAGE));
        match &mut self.at {
            At::Begin => {
                if let Some(act) = task.held_back(now) {
                    return Step::Act(act);
                }
                self.at = At::Entered;
                Step::Act(Act::WaitUntil(now + k.costs.direct_call))
            }
            At::Entered => {
                // The device must not be asked for what is newer in the cache.
                let dirty = k.cache.any_dirty(file, a, b);
                self.at = if dirty { At::Out(WriteOut::new(file, a, b)) } else { At::Go };
                Step::Again
            }
            At::Out(out) => {
                let step = out.step(now, task, k);
                step.unwrap_or_else(|| {
                    self.at = At::OutSent;
                    Step::Again
                })
            }
            At::OutSent => {
                self.at = At::Go;
                Step::wait(k.wait_for_writes(now, task.p, file))
            }
            At::Go => {
                debug_assert!(
                    self.offset + self.len <= k.files[file].bytes,
                    "a load stays inside its file"
                );
                k.cache.drop_clean(file, a, b);
                if self.write {
                    // The blocks of an extending write; whole pages, as elsewhere.
                    k.write_around(now, file, a, b, self.offset + self.len);
                }
                self.push_bios(task, k, file);
                self.at = At::Sent;
                let plug = task.submission.len() > 1;
                k.submit(task, plug);
                Step::Again
            }
            At::Sent => {
                if let Some(act) = k.wait_for_own(now, task) {
                    return Step::Act(act);
                }
                let call = Call { begun: self.begun, bytes: self.len };
                if self.sync {
                    self.at = At::Sync(Fsync::new(file, false, Some(call)));
                    return Step::Again;
                }
                Step::Last(call.over(now))
            }
            At::Sync(sync) => sync.step(now, task, k),
        }
    }

    fn push_bios(&self, task: &mut Task, k: &Kernel, file: u32) {
        let (op, flags) = match (self.write, k.legacy) {
            (false, _) => (Op::Read, Flags::NONE),
            (true, false) => (Op::Write, Flags::SYNC | Flags::IDLE),
            (true, true) => (Op::Write, Flags::SYNC),
        };
        let start = k.files[file].start + self.offset;
        for (start, len) in pieces(start, self.len, k.bio_pages * PAGE) {
            task.submission.push(Pending::own(op, flags, task.info.group, start, len));
        }
        task.own.left = task.submission.len() as u32;
        k.unplug_last(task);
    }
}
