//! Buffered writes (specs/host.md 7).

use super::process::{Call, Stage, Wait};
use super::{Act, DIRTY_EXPIRE, Host, PAGE, Ran, STAMP_TICK};
use crate::world::JobError;
use hoistway::{Instant, Nanos};

impl Host {
    /// A run of buffered writes (host.md 7).
    pub(super) fn write(&mut self, now: Instant, p: usize) -> Option<Act> {
        let Stage::Write { offset, bs, left, begun, entered, sync } = self.procs[p].stage else {
            unreachable!("asked for this stage only")
        };
        if left == 0 {
            self.procs[p].stage = Stage::Over;
            return None;
        }
        if !entered && self.stopped(now, p) {
            return Some(Act::Stopped);
        }
        let open = self.procs[p].open.expect("a load opens its file before it writes");
        assert!(bs % PAGE == 0 && offset % PAGE == 0, "loads write whole pages");
        let cost = self.call_cost(bs);
        let calls = self.run_length(now, p, left, cost);
        let (a, b) = (offset / PAGE, (offset + bs * calls) / PAGE);
        let f = &mut self.files[open.file as usize];
        debug_assert!(offset + bs * left <= f.bytes, "a load writes inside its file");
        let locked = f.cache.find(a, b, |w| w.cached & !w.ready);
        if locked < b {
            self.procs[p].stage = Stage::Write { offset, bs, left, begun, entered: true, sync };
            return Some(self.block(now, p, open.file, Wait::Page(locked)));
        }
        if !self.dirty(now, p, open.file, a, b) {
            return None;
        }
        let until = now + Nanos(cost * calls);
        let ends_synced = sync && calls == left;
        let report = calls - u64::from(ends_synced);
        if ends_synced {
            let begun = if calls == 1 { begun } else { now + Nanos(cost * report) };
            let call = Some(Call { begun, bytes: bs });
            self.procs[p].stage = Stage::SyncBegin { file: open.file, call };
            if report == 0 {
                return Some(Act::WaitUntil(until));
            }
        } else {
            let (offset, left) = (offset + bs * calls, left - calls);
            let entered = false;
            self.procs[p].stage = Stage::Write { offset, bs, left, begun: until, entered, sync };
        }
        let first_end = now + Nanos(cost);
        let (first, each) = (first_end - begun, Nanos(cost));
        Some(Act::Ran(Ran { first, first_end, each, calls: report, bytes: bs, until }))
    }

    /// Makes pages [a, b) dirty. False, with the fault set, where write-back would have to begin.
    fn dirty(&mut self, now: Instant, p: usize, file: u32, a: u64, b: u64) -> bool {
        let mut at = a;
        while at < b {
            let cache = &self.files[file as usize].cache;
            let from = cache.find(at, b, |w| !w.cached);
            let to = cache.find(from, b, |w| w.cached);
            if from < to && !self.memory.insert(&mut self.files, file, from, to, true) {
                self.fault = Some(Box::new(self.no_memory()));
                return false;
            }
            at = to;
        }
        let f = &mut self.files[file as usize];
        if f.cache.dirty == 0 {
            f.dirtied_at = now;
        }
        let group = self.procs[p].info.group;
        f.owner.get_or_insert(group);
        self.counts.dirty += f.cache.set_dirty(a, b);
        self.counts.dirty_max = self.counts.dirty_max.max(self.counts.dirty);
        let too_old = f.dirtied_at + DIRTY_EXPIRE <= now;
        if self.counts.dirty > self.background || too_old {
            let why = if too_old {
                "a page stays dirty for 30 s".to_string()
            } else {
                format!("more than {} pages (dirty_background_ratio) are dirty", self.background)
            };
            self.fault = Some(Box::new(JobError::Parameter {
                of: "host".into(),
                message: format!(
                    "{why}: background write-back would begin, which the host does not model; let the \
                     writers call fdatasync more often (dsync)"
                ),
            }));
            return false;
        }
        let tick = now.as_nanos() / STAMP_TICK.0;
        if f.stamped != Some(tick) {
            f.stamped = Some(tick);
            self.change(now);
        }
        true
    }
}
