//! The submission of a batch of bios, paced by its cost and by the block layer (specs/host.md 2.1, 5.4
//! and 6).

use super::bio::Pending;
use super::kernel::Kernel;
use super::op::{Act, ProcInfo};
use hoistway::{Flags, Instant, Nanos, Op};

/// How far a process is with its batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    /// No batch.
    #[default]
    Off,
    /// The plug section begins.
    Plug,
    /// The next bio is paid for (`submit_ns`), or the section ends.
    Pay,
    /// The next bio is submitted.
    Send,
    /// It is accepted when the process is asked again.
    Accepted,
}

/// The bios that a process is about to submit.
#[derive(Debug, Default)]
pub(super) struct Submission {
    batch: Vec<Pending>,
    /// How many of them have gone, and how far the current one is.
    next: usize,
    phase: Phase,
    plugged: bool,
    sent_at: Instant,
    /// Time in which the block layer had it wait.
    pub waited: Nanos,
}

impl Submission {
    /// Puts a bio behind those of the batch.
    pub fn push(&mut self, bio: Pending) {
        self.batch.push(bio);
    }

    /// Bios of the batch.
    pub fn len(&self) -> usize {
        self.batch.len()
    }

    /// Nothing is to be submitted.
    pub fn is_empty(&self) -> bool {
        self.batch.is_empty()
    }

    /// Marks the last bio of the batch.
    pub fn flag_last(&mut self, flags: Flags) {
        if let Some(last) = self.batch.last_mut() {
            last.flags |= flags;
        }
    }

    /// Starts the submission of the batch, if it holds anything. `plug`: as one plug section, so that the
    /// scheduler sees neighbours together.
    pub fn start(&mut self, plug: bool) {
        if self.batch.is_empty() {
            return;
        }
        debug_assert_eq!(self.phase, Phase::Off);
        self.plugged = plug;
        self.phase = if plug { Phase::Plug } else { Phase::Pay };
        self.next = 0;
    }

    /// The next act of process `p`'s submission; `None` when it is over.
    #[inline]
    pub fn next_act(
        &mut self,
        now: Instant,
        p: usize,
        info: &ProcInfo,
        k: &mut Kernel,
    ) -> Option<Act> {
        if self.phase == Phase::Off {
            return None;
        }
        loop {
            match self.phase {
                Phase::Off => return None,
                Phase::Plug if self.batch.len() == 1 => {
                    self.phase = Phase::Send;
                    return Some(Act::PlugUntil(now + cost(&self.batch[0], k)));
                }
                Phase::Plug => {
                    self.phase = Phase::Pay;
                    return Some(Act::Plug);
                }
                Phase::Pay if self.next < self.batch.len() => {
                    self.phase = Phase::Send;
                    return Some(Act::WaitUntil(now + cost(&self.batch[self.next], k)));
                }
                Phase::Pay => {
                    self.batch.clear();
                    self.phase = Phase::Off;
                    return self.plugged.then_some(Act::Unplug);
                }
                Phase::Send => {
                    let bio = &self.batch[self.next];
                    self.next += 1;
                    self.phase = Phase::Accepted;
                    self.sent_at = now;
                    let asynchronous = bio.op == Op::Write && !bio.flags.any(Flags::SYNC);
                    let pooled = asynchronous && k.pool_submits(now);
                    k.submitted = k.bios.send(p, info, bio, pooled);
                    let alone = self.plugged && self.batch.len() == 1;
                    return Some(if alone { Act::SubmitAlone } else { Act::Submit });
                }
                Phase::Accepted => {
                    self.waited += now - self.sent_at;
                    self.phase = Phase::Pay;
                }
            }
        }
    }

    /// The only bio of the batch has been accepted at once, and its plug section is closed.
    pub fn passed(&mut self) {
        debug_assert!(self.phase == Phase::Accepted && self.next == self.batch.len());
        self.batch.clear();
        self.phase = Phase::Off;
    }
}

/// What a process pays before it submits a bio.
fn cost(bio: &Pending, k: &Kernel) -> Nanos {
    k.costs.submit + if bio.op == Op::Write { bio.cpu } else { Nanos::ZERO }
}
