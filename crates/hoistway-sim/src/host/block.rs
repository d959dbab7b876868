//! I/O straight to the block layer (specs/host.md 1.1, `block_io`), and processes that act in turns.
//!
//! Some loads are one chain of actions that several processes of the block layer carry out one after
//! another: an application that starts. To the host that is one thread of control which changes the
//! identity its I/O carries ([`Notice::RunAs`]); the caller makes the identities and gives them by
//! [`Host::become_proc`]. What an identity has under way goes on while
//! another acts.

use super::process::{Call, Stage, one_call};
use super::submit::{Kind, Pending};
use super::{Act, Host, ProcInfo};
use hoistway::{Flags, Instant, Nanos, Op, ProcId, Profile};

/// A block I/O of a process.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BlockIo {
    /// A write instead of a read.
    pub write: bool,
    /// First byte on the device, a multiple of 512.
    pub start: u64,
    /// Bytes, a multiple of 512, above 0.
    pub len: u64,
    /// Flags of the bios, as given.
    pub flags: Flags,
    /// The process waits: first for everything this identity has under way, then for this I/O. Without
    /// it the I/O is only submitted.
    pub wait: bool,
}

/// What a load says to the caller of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// What follows is done by another process of the block layer: the load's own of that slot, made when
    /// it is first named. [`Host::become_proc`] is to follow.
    RunAs {
        /// Number among the processes of this load.
        slot: u32,
        /// Its name, for the record.
        name: &'static str,
        /// It outlives [`Notice::EndProcs`].
        lasting: bool,
    },
    /// The load's processes of the block layer exit, but for the lasting ones.
    EndProcs,
    /// A mark for the record.
    Mark(&'static str),
    /// The mark of something that was given up: it took longer than this.
    GivenUp(Nanos),
}

/// How far a block I/O is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BlockStep {
    /// It waits for what is under way.
    Begin,
    /// It is submitted.
    Sent,
}

impl Host {
    /// From now on the I/O of process `p` carries another identity.
    pub fn become_proc(&mut self, p: usize, info: ProcInfo) {
        let proc = &mut self.procs[p];
        if proc.own_left > 0 {
            proc.away.push((proc.info.id, proc.own_left));
        }
        let back = proc.away.iter().position(|&(id, _)| id == info.id);
        proc.own_left = back.map_or(0, |i| proc.away.swap_remove(i).1);
        proc.info = info;
    }

    pub(super) fn block_io(
        &mut self,
        now: Instant,
        p: usize,
        io: BlockIo,
        begun: Instant,
        step: BlockStep,
    ) -> Option<Act> {
        if step == BlockStep::Begin {
            if io.wait
                && let Some(act) = self.wait_for_own(now, p)
            {
                return Some(act);
            }
            self.block_bios(p, io);
            self.procs[p].stage = Stage::Block { io, begun, step: BlockStep::Sent };
            let plugged = self.procs[p].batch.len() > 1;
            self.submit(p, plugged);
            return None;
        }
        if !io.wait {
            self.procs[p].unseen += io.len;
            self.procs[p].stage = Stage::Over;
            return None;
        }
        if let Some(act) = self.wait_for_own(now, p) {
            return Some(act);
        }
        self.procs[p].stage = Stage::Over;
        // What was submitted without waiting counts with the call that comes after it.
        let bytes = io.len + std::mem::take(&mut self.procs[p].unseen);
        Some(one_call(now, Call { begun, bytes }))
    }

    fn block_bios(&mut self, p: usize, io: BlockIo) {
        debug_assert!(io.len > 0 && (io.len | io.start).is_multiple_of(512), "whole sectors");
        debug_assert!(io.start + io.len <= self.capacity(), "a load stays on the device");
        let most = self.bio_pages * super::PAGE;
        let group = self.procs[p].info.group;
        let mut at = 0;
        while at < io.len {
            let len = (io.len - at).min(most);
            self.procs[p].batch.push(Pending {
                kind: Kind::Own,
                op: if io.write { Op::Write } else { Op::Read },
                flags: io.flags,
                group,
                file: 0,
                first: 0,
                seq: 0,
                order: 0,
                start: io.start + at,
                len,
            });
            at += len;
        }
        self.procs[p].own_left += self.procs[p].batch.len() as u32;
        if io.wait {
            self.unplug_last(p);
        }
    }

    /// A bio that its process counts itself has been served.
    pub(super) fn own_done(&mut self, now: Instant, p: usize, id: ProcId) {
        let proc = &mut self.procs[p];
        if proc.info.id != id {
            let other = proc.away.iter_mut().find(|(owner, _)| *owner == id);
            let other = other.expect("an identity is away while its bios are under way");
            other.1 -= 1;
            proc.away.retain(|&(_, left)| left > 0);
            return;
        }
        proc.own_left -= 1;
        if proc.own_left == 0 && proc.wait == super::Wait::Own {
            self.wake(now, p);
        }
    }

    /// What marks a read of metadata (specs/host.md 5.5).
    pub fn meta_flags(&self) -> Flags {
        match self.config.block_profile {
            Profile::MultiQueue => Flags::SYNC | Flags::META | Flags::PRIO,
            Profile::Legacy => Flags::SYNC | Flags::META,
        }
    }
}
