//! Direct I/O (specs/host.md 6): a call that its process waits for, or one that it queues.

use super::bio::Pending;
use super::cache::PAGE;
use super::calls;
use super::fs::nilfs2;
use super::kernel::Kernel;
use super::op::{Act, Room};
use super::sync::{Fsync, WriteOut};
use super::task::{Call, OpStep, Task};
use hoistway::{Flags, Instant, Op};

/// How far a direct call is.
#[derive(Clone, Copy, Debug)]
enum DirectStage {
    /// Before the call; a full queue is being emptied.
    Begin,
    /// There is room for it.
    Ready,
    /// The call is paid for.
    Entered,
    /// Dirty pages of its range go out first.
    Out(WriteOut),
    /// They are submitted.
    OutSent,
    /// It is submitted.
    Go,
    /// The file system has written it with its log (nilfs2).
    Logged,
    /// Its bios are.
    Sent,
    /// It is followed by an fdatasync.
    Sync(Fsync),
}

/// What its process does behind the submission.
#[derive(Clone, Copy, Debug)]
pub(super) enum Way {
    /// It waits for the call; `sync`: and then for an fdatasync, which counts into its latency.
    Wait { sync: bool },
    /// It goes on; `full`: there was no room, and the queue is being emptied.
    Queue { room: Room, full: bool },
}

/// One direct call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Direct {
    write: bool,
    offset: u64,
    len: u64,
    /// Since when its latency counts, once that is known.
    begun: Option<Instant>,
    way: Way,
    at: DirectStage,
}

impl Direct {
    /// A call of `len` bytes; its latency counts from `begun`, or from when there is room for it.
    pub fn new(write: bool, offset: u64, len: u64, begun: Option<Instant>, way: Way) -> Direct {
        Direct { write, offset, len, begun, way, at: DirectStage::Begin }
    }

    /// Since when the call has been open.
    pub fn begun(&self) -> Option<Instant> {
        match &self.at {
            DirectStage::Begin | DirectStage::Ready => None,
            DirectStage::Sync(sync) => sync.begun(),
            _ => self.begun,
        }
    }

    /// What the call does next.
    pub fn step(&mut self, now: Instant, task: &mut Task, k: &mut Kernel) -> OpStep {
        let file = task.opened().file;
        // Its pages, rounded outwards.
        let (a, b) = (self.offset / PAGE, (self.offset + self.len).div_ceil(PAGE));
        match &mut self.at {
            DirectStage::Begin => {
                if let Some(step) = self.make_room(now, task, k) {
                    return step;
                }
                self.begun.get_or_insert(now);
                self.at = DirectStage::Ready;
                OpStep::Again
            }
            DirectStage::Ready => {
                match task.held_back(now) {
                    // It has reached its stop time when it has collected what it has under way.
                    Some(Act::Stopped) => {
                        let collected = calls::collect(now, task, k, (0, 1));
                        return collected.unwrap_or(OpStep::Act(Act::Stopped));
                    }
                    Some(act) => return OpStep::Act(act),
                    None => {}
                }
                self.at = DirectStage::Entered;
                OpStep::Act(Act::WaitUntil(now + k.costs.direct_call))
            }
            // Only the log is written, from the cache: a direct write is a buffered one that is synced.
            DirectStage::Entered if k.fs.writes_alone() && !k.files[file].raw => {
                if self.write && !k.make_dirty(now, task, file, a, b) {
                    return k.wait_for_memory(now, task.p);
                }
                self.at = if self.write { DirectStage::Logged } else { DirectStage::Go };
                let dirty = k.cache.any_dirty(file, a, b);
                let act = if dirty { nilfs2::ask(now, task.p, k, file) } else { None };
                OpStep::wait(act)
            }
            DirectStage::Logged => task.last(self.call().over(now, k)),
            DirectStage::Entered => {
                // The device must not be asked for what is newer in the cache.
                let dirty = k.cache.any_dirty(file, a, b);
                self.at = if dirty {
                    DirectStage::Out(WriteOut::new(file, a, b))
                } else {
                    DirectStage::Go
                };
                OpStep::Again
            }
            DirectStage::Out(out) => {
                let step = out.step(now, task, k);
                step.unwrap_or_else(|| {
                    self.at = DirectStage::OutSent;
                    OpStep::Again
                })
            }
            DirectStage::OutSent => {
                self.at = DirectStage::Go;
                OpStep::wait(k.wait_for_writes(now, task.p, file))
            }
            DirectStage::Go => {
                debug_assert!(
                    self.offset + self.len <= k.files[file].bytes,
                    "a load stays inside its file"
                );
                k.cache.drop_clean(file, a, b);
                if self.write {
                    // The blocks of an extending write; whole pages, as elsewhere.
                    k.write_around(now, file, a, b, self.offset + self.len);
                }
                self.send(task, k, file);
                self.at = DirectStage::Sent;
                OpStep::Again
            }
            DirectStage::Sent => {
                let Way::Wait { sync } = self.way else { return OpStep::Over };
                if let Some(act) = k.wait_for_own(now, task) {
                    return OpStep::Act(act);
                }
                if sync {
                    self.at = DirectStage::Sync(Fsync::new(file, false, Some(self.call())));
                    return OpStep::Again;
                }
                task.last(self.call().over(now, k))
            }
            DirectStage::Sync(sync) => sync.step(now, task, k),
        }
    }

    /// Submits the call, or holds it back for those behind it.
    fn send(&self, task: &mut Task, k: &Kernel, file: u32) {
        match self.way {
            Way::Wait { .. } => {
                self.push_bios(task, k, file, None);
                let plug = task.submission.len() > 1;
                k.submit(task, plug);
            }
            Way::Queue { room, .. } => {
                let bios = k.device_pieces(file, self.offset, self.len).count() as u32;
                let number = task.calls.add(self.call(), bios);
                self.push_bios(task, k, file, Some(number));
                if !room.more {
                    calls::send(task, k);
                }
            }
        }
    }

    /// What the process does about a full queue. Once it has begun to empty it, it takes all that is over.
    fn make_room(&mut self, now: Instant, task: &mut Task, k: &mut Kernel) -> Option<OpStep> {
        let Way::Queue { room, full } = &mut self.way else { return None };
        *full |= task.calls.open() >= room.depth;
        if !*full {
            return None;
        }
        calls::collect(now, task, k, (room.low, room.batch))
    }

    fn call(&self) -> Call {
        Call {
            begun: self.begun.expect("it is known before the call"),
            bytes: self.len,
            write: self.write,
        }
    }

    /// `call`: its number if it is queued.
    fn push_bios(&self, task: &mut Task, k: &Kernel, file: u32, call: Option<u32>) {
        let (op, flags) = match (self.write, k.legacy) {
            (false, _) => (Op::Read, Flags::NONE),
            (true, false) => (Op::Write, Flags::SYNC | Flags::IDLE),
            (true, true) => (Op::Write, Flags::SYNC),
        };
        for (start, len) in k.device_pieces(file, self.offset, self.len) {
            let bio = Pending::own(op, flags, task.info.group, start, len);
            let bio = Pending { cpu: k.checksum(len), ..bio };
            task.submission.push(call.map_or(bio, |number| bio.of_call(number)));
        }
        if call.is_none() {
            task.own.left = task.submission.len() as u32;
            k.unplug_last(task);
        }
    }
}
