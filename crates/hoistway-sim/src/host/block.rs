//! I/O straight to the block layer (specs/host.md 1.1, `block_io`), for processes that act in turns.
//!
//! Some loads are one chain of actions that several processes of the block layer carry out one after
//! another: an application that starts. To the host that is one thread of control which changes the
//! identity its I/O carries ([`super::Notice::RunAs`]); the caller makes the identities and gives them by
//! [`super::Host::become_proc`]. What an identity has under way goes on while another acts.

use super::bio::{Pending, pieces};
use super::cache::PAGE;
use super::kernel::Kernel;
use super::op::BlockIo;
use super::task::{Call, OpStep, Task};
use hoistway::{Instant, Op};

/// One block I/O of a process.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlockCall {
    io: BlockIo,
    begun: Instant,
    /// It is submitted; before that it waits for what is under way.
    sent: bool,
}

impl BlockCall {
    /// An I/O that is asked for now.
    pub fn new(io: BlockIo, now: Instant) -> BlockCall {
        BlockCall { io, begun: now, sent: false }
    }

    /// Since when the call has been open.
    pub fn begun(&self) -> Option<Instant> {
        self.io.wait.then_some(self.begun)
    }

    /// What the call does next.
    pub fn step(&mut self, now: Instant, task: &mut Task, k: &mut Kernel) -> OpStep {
        let io = self.io;
        if io.wait
            && let Some(act) = k.wait_for_own(now, task)
        {
            return OpStep::Act(act);
        }
        if !self.sent {
            self.push_bios(task, k);
            self.sent = true;
            let plug = task.submission.len() > 1;
            k.submit(task, plug);
            return OpStep::Again;
        }
        if !io.wait {
            task.own.unseen += io.len;
            return OpStep::Over;
        }
        // What was submitted without waiting counts with the call that comes after it.
        let bytes = io.len + std::mem::take(&mut task.own.unseen);
        let act = Call { begun: self.begun, bytes, write: io.write }.over(now, k);
        task.last(act)
    }

    fn push_bios(&self, task: &mut Task, k: &Kernel) {
        let io = &self.io;
        debug_assert!(io.len > 0 && (io.len | io.start).is_multiple_of(512), "whole sectors");
        debug_assert!(io.start + io.len <= k.files.capacity(), "a load stays on the device");
        let op = if io.write { Op::Write } else { Op::Read };
        for (start, len) in pieces(io.start, io.len, k.bio_pages * PAGE) {
            task.submission.push(Pending::own(op, io.flags, task.info.group, start, len));
        }
        task.own.left += task.submission.len() as u32;
        if io.wait {
            k.unplug_last(task);
        }
    }
}
