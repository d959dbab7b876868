//! From pages to bios: the submission of a batch, paced by its cost and by the block layer
//! (specs/host.md 2.1, 5.4 and 6).

use super::process::Proc;
use super::{Act, Host, PAGE, Writeback};
use hoistway::{Flags, GroupId, Instant, Io, IoId, Nanos, Op, ProcId, Profile, Sectors};

/// What becomes of a bio when it is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Pages become up to date.
    Read,
    /// Pages leave write-back.
    Write,
    /// Its process counts it.
    Own,
}

/// A bio that its process is about to submit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pending {
    pub kind: Kind,
    pub op: Op,
    pub flags: Flags,
    pub group: GroupId,
    pub file: u32,
    /// First page in the file.
    pub first: u64,
    /// Its number among the file's write-back bios.
    pub seq: u64,
    /// The transaction that waits for it; 0: none.
    pub order: u64,
    /// Place on the device.
    pub start: u64,
    /// Bytes; 0 for a flush.
    pub len: u64,
}

/// A bio in the block layer's hands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flight {
    pub kind: Kind,
    pub file: u32,
    pub proc: u32,
    /// Whose identity it carries.
    pub owner: ProcId,
    pub pages: u32,
    pub first: u64,
    /// Its number among the file's write-back bios.
    pub seq: u64,
    /// The transaction that waits for it; 0: none.
    pub order: u64,
    /// An asynchronous write under the old write-back.
    pub pooled: bool,
    generation: u32,
    live: bool,
}

/// How far a process is with its batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Phase {
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

impl Host {
    /// Starts the submission of the process's batch, if it holds anything.
    pub(super) fn submit(&mut self, p: usize, plugged: bool) {
        let proc = &mut self.procs[p];
        if proc.batch.is_empty() {
            return;
        }
        debug_assert_eq!(proc.phase, Phase::Off);
        // Task plugs came with blk-mq's time; the legacy layer plugs the device itself.
        proc.plugged = plugged && self.config.block_profile == Profile::MultiQueue;
        proc.phase = if proc.plugged { Phase::Plug } else { Phase::Pay };
        proc.next = 0;
    }

    /// The next act of a submission; `None` when it is over.
    #[inline]
    pub(super) fn submitting(&mut self, now: Instant, p: usize) -> Option<Act> {
        let proc = &mut self.procs[p];
        loop {
            match proc.phase {
                Phase::Off => return None,
                Phase::Plug => {
                    proc.phase = Phase::Pay;
                    return Some(Act::Plug);
                }
                Phase::Pay if proc.next < proc.batch.len() => {
                    proc.phase = Phase::Send;
                    return Some(Act::WaitUntil(now + Nanos(self.config.submit_ns)));
                }
                Phase::Pay => {
                    proc.batch.clear();
                    proc.phase = Phase::Off;
                    return proc.plugged.then_some(Act::Unplug);
                }
                Phase::Send => {
                    let bio = proc.batch[proc.next];
                    proc.next += 1;
                    proc.phase = Phase::Accepted;
                    proc.sent_at = now;
                    return Some(Act::Submit(self.take_off(now, p, bio)));
                }
                Phase::Accepted => {
                    proc.waited_submit += now - proc.sent_at;
                    proc.phase = Phase::Pay;
                }
            }
        }
    }

    fn take_off(&mut self, now: Instant, p: usize, bio: Pending) -> Io {
        let old = self.config.writeback_variant == Writeback::Wb30;
        let pages = bio.len.div_ceil(PAGE) as u32;
        let mut flight = Flight {
            kind: bio.kind,
            file: bio.file,
            proc: p as u32,
            owner: self.procs[p].info.id,
            pages,
            first: bio.first,
            seq: bio.seq,
            order: bio.order,
            pooled: old && bio.op == Op::Write && !bio.flags.any(Flags::SYNC),
            generation: 0,
            live: true,
        };
        if flight.pooled {
            self.count_async(now, false);
        }
        match (bio.kind, bio.op) {
            (Kind::Read, _) => self.counts.read_bios += 1,
            (Kind::Write, _) => self.counts.write_bios += 1,
            (Kind::Own, Op::Flush) => self.counts.flush_bios += 1,
            (Kind::Own, Op::Read) => self.counts.read_bios += 1,
            (Kind::Own, _) => self.counts.write_bios += 1,
        }
        let slot = match self.free.pop() {
            Some(slot) => {
                flight.generation = self.flights[slot as usize].generation + 1;
                self.flights[slot as usize] = flight;
                slot
            }
            None => {
                self.flights.push(flight);
                self.flights.len() as u32 - 1
            }
        };
        let Proc { info, .. } = &self.procs[p];
        Io {
            id: IoId(u64::from(flight.generation) << 32 | u64::from(slot)),
            proc: info.id,
            group: bio.group,
            cpu: info.cpu,
            op: bio.op,
            start: Sectors(bio.start / 512),
            sectors: Sectors(bio.len / 512),
            segments: pages,
            flags: bio.flags,
            prio: info.prio,
        }
    }

    /// Which process submitted an I/O that is still in flight.
    pub fn submitter(&self, io: IoId) -> usize {
        self.flight(io).proc as usize
    }

    pub(super) fn flight(&self, io: IoId) -> &Flight {
        let flight = &self.flights[(io.0 & 0xffff_ffff) as usize];
        assert!(flight.live && u64::from(flight.generation) == io.0 >> 32, "an I/O lives once");
        flight
    }

    pub(super) fn land(&mut self, io: IoId) -> Flight {
        let slot = (io.0 & 0xffff_ffff) as u32;
        let flight = &mut self.flights[slot as usize];
        assert!(
            flight.live && u64::from(flight.generation) == io.0 >> 32,
            "an I/O completes exactly once"
        );
        flight.live = false;
        let landed = *flight;
        self.free.push(slot);
        landed
    }
}
