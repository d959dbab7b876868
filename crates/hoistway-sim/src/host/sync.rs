//! Writing dirty pages out and waiting for them: fdatasync, and the head of a direct call
//! (specs/host.md 6 and 10).

use super::process::{Direct, Out, Stage, Wait, one_call};
use super::submit::{Kind, Pending};
use super::{Act, Fs, Host};
use hoistway::{Flags, Instant, Op, Profile};

impl Host {
    /// Puts the dirty pages of [from, to) into the batch; stops at a page still under write-back and
    /// returns it.
    pub(super) fn gather(
        &mut self,
        now: Instant,
        p: usize,
        file: u32,
        from: u64,
        to: u64,
        flags: Flags,
    ) -> Option<u64> {
        let mut at = from;
        // Deviation: the owner's group pays also without group write-back, as the specification's
        // section 13 says of fsync; the caller's priority goes with it.
        let group = self.files[file as usize].owner.unwrap_or(self.procs[p].info.group);
        while let Some((a, b)) = self.files[file as usize].cache.dirty_run(at, to, self.bio_pages) {
            let b = match self.files[file as usize].cache.find(a, b, |w| w.out) {
                busy if busy == a => return Some(a),
                busy => busy,
            };
            let bio = self.write_bio(file, a, b, flags, group);
            self.procs[p].batch.push(bio);
            at = b;
        }
        if self.files[file as usize].cache.dirty == 0 {
            self.unlist(file);
        }
        self.round_over(now, file);
        None
    }

    /// Flags of writes somebody waits for.
    fn sync_flags(&self) -> Flags {
        match self.config.block_profile {
            Profile::MultiQueue => Flags::SYNC,
            Profile::Legacy => Flags::SYNC | Flags::NOIDLE,
        }
    }

    /// Writes dirty pages out and waits for them, then flushes (host.md 10.1 and 10.2).
    pub(super) fn write_out(&mut self, now: Instant, p: usize) -> Option<Act> {
        let Stage::WriteOut { file, from, to, step, call, then } = self.procs[p].stage else {
            unreachable!("asked for this stage only")
        };
        let stage = |from, step| Stage::WriteOut { file, from, to, step, call, then };
        match step {
            Out::Gather => {
                let flags = self.sync_flags();
                let busy = self.gather(now, p, file, from, to, flags);
                if busy.is_none() {
                    self.unplug_last(p);
                    self.procs[p].stage = stage(from, Out::Sent);
                    self.submit(p, true);
                    return None;
                }
                // A page is both dirty and under write-back: what is gathered goes first.
                let busy = busy.unwrap_or(to);
                if !self.procs[p].batch.is_empty() {
                    self.procs[p].stage = stage(busy, Out::Gather);
                    self.submit(p, true);
                    return None;
                }
                self.procs[p].stage = stage(busy, Out::Gather);
                self.wait_for_writes(now, p, file)
            }
            Out::Sent => {
                let flush = then.is_none() && self.config.barriers && self.config.fs == Fs::Ext4;
                self.procs[p].stage = stage(from, if flush { Out::Flush } else { Out::Done });
                self.wait_for_writes(now, p, file)
            }
            Out::Flush => {
                let group = self.procs[p].info.group;
                self.procs[p].batch.push(Pending {
                    kind: Kind::Own,
                    op: Op::Flush,
                    flags: Flags::PREFLUSH | Flags::SYNC,
                    group,
                    file,
                    first: 0,
                    seq: 0,
                    start: 0,
                    len: 0,
                });
                self.procs[p].own_left = 1;
                self.procs[p].stage = stage(from, Out::FlushSent);
                self.submit(p, false);
                None
            }
            Out::FlushSent => {
                self.procs[p].stage = stage(from, Out::Done);
                self.wait_for_own(now, p)
            }
            Out::Done => {
                self.procs[p].stage = match then {
                    Some(Direct { write, offset, len, begun, sync }) => {
                        Stage::DirectGo { write, offset, len, begun, sync }
                    }
                    None => Stage::Over,
                };
                call.map(|call| one_call(now, call))
            }
        }
    }

    /// Waits for the write-back bios of a file that are in flight now; not at all if there are none.
    fn wait_for_writes(&mut self, now: Instant, p: usize, file: u32) -> Option<Act> {
        let f = &self.files[file as usize];
        let (mark, left) = (f.write_seq, f.writing);
        (left > 0).then(|| self.block(now, p, file, Wait::Writes { mark, left }))
    }
}
