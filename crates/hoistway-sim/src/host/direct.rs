//! Direct I/O (specs/host.md 6).

use super::process::{Call, Direct, Out, Stage, one_call};
use super::submit::{Kind, Pending};
use super::{Act, Host, PAGE};
use hoistway::{Flags, Instant, Nanos, Op, Profile};

impl Host {
    /// A direct call (host.md 6).
    pub(super) fn direct(&mut self, now: Instant, p: usize) -> Option<Act> {
        let file = self.procs[p].open.expect("a load opens its file before it reads").file;
        match self.procs[p].stage {
            Stage::DirectBegin { write, offset, len, begun, sync, late: false } => {
                if let Some(act) = self.held_back(now, p) {
                    return Some(act);
                }
                self.procs[p].stage =
                    Stage::DirectBegin { write, offset, len, begun, sync, late: true };
                Some(Act::WaitUntil(now + Nanos(self.config.direct_call_ns)))
            }
            Stage::DirectBegin { write, offset, len, begun, sync, late: true } => {
                let cache = &self.files[file as usize].cache;
                let (from, to) = (offset / PAGE, (offset + len).div_ceil(PAGE));
                self.procs[p].stage = if cache.dirty_run(from, to, 1).is_some() {
                    let then = Some(Direct { write, offset, len, begun, sync });
                    Stage::WriteOut {
                        file,
                        from,
                        to,
                        step: Out::Gather,
                        call: None,
                        full: false,
                        then,
                    }
                } else {
                    Stage::DirectGo { write, offset, len, begun, sync }
                };
                None
            }
            Stage::DirectGo { write, offset, len, begun, sync } => {
                let f = &mut self.files[file as usize];
                debug_assert!(offset + len <= f.bytes, "a load stays inside its file");
                self.memory.drop_clean(&mut f.cache, offset / PAGE, (offset + len).div_ceil(PAGE));
                if write {
                    // The blocks of an extending write; whole pages, as elsewhere.
                    let (a, b) = (offset / PAGE, (offset + len).div_ceil(PAGE));
                    self.allocate(now, file, a, b);
                    self.extend(now, file, offset + len);
                }
                self.direct_bios(p, file, write, offset, len);
                self.procs[p].stage = Stage::DirectSent { len, begun, sync };
                let plugged = self.procs[p].batch.len() > 1;
                self.submit(p, plugged);
                None
            }
            Stage::DirectSent { len, begun, sync } => {
                if let Some(act) = self.wait_for_own(now, p) {
                    return Some(act);
                }
                let call = Call { begun, bytes: len };
                if sync {
                    self.procs[p].stage = Stage::SyncBegin { file, call: Some(call), full: false };
                    return None;
                }
                self.procs[p].stage = Stage::Over;
                Some(one_call(now, call))
            }
            _ => unreachable!("asked for these stages only"),
        }
    }

    fn direct_bios(&mut self, p: usize, file: u32, write: bool, offset: u64, len: u64) {
        let flags = match (write, self.config.block_profile) {
            (false, _) => Flags::NONE,
            (true, Profile::MultiQueue) => Flags::SYNC | Flags::IDLE,
            (true, Profile::Legacy) => Flags::SYNC,
        };
        let start = self.files[file as usize].start;
        let group = self.procs[p].info.group;
        let mut at = 0;
        while at < len {
            let part = (len - at).min(self.bio_pages * PAGE);
            self.procs[p].batch.push(Pending {
                kind: Kind::Own,
                op: if write { Op::Write } else { Op::Read },
                flags,
                group,
                file,
                first: 0,
                seq: 0,
                order: 0,
                start: start + offset + at,
                len: part,
            });
            at += part;
        }
        self.procs[p].own_left = self.procs[p].batch.len() as u32;
        self.unplug_last(p);
    }
}
