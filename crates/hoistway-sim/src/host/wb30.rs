//! Write-back and throttling of 2.6.30 to 36: the writer itself writes (specs/host.md 8.2 and 9.3).
//!
//! A writer that finds too much held writes a chunk of anybody's dirty pages before it goes on, and waits
//! for the device's request pool like everybody else. The background and the periodic work write in passes
//! of 1024 pages, oldest inode first, and skip the device while its pool is congested.

use super::dirty::Verdict;
use super::flusher::Listed;
use super::{Act, Host, PAGE};
use hoistway::table::NIL;
use hoistway::{Flags, Instant, Nanos};

/// Pages of one pass.
const PASS: u64 = 1024;
/// Asynchronous requests at which the pool is congested, and below which no longer, of the usual 128
/// (specs/blk-mq-and-noop.md 5).
const CONGESTED: u64 = 113;
const RELAXED: u64 = 103;
/// How long a pass or a writer waits for the congestion to end.
const PATIENCE: Nanos = Nanos::ms(100);

/// What the old write-back remembers.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Old {
    /// More than the limit was held when a writer last looked.
    exceeded: bool,
    /// Asynchronous writes at the device or in its queue.
    async_out: u64,
    congested: bool,
    /// The background work is asked for.
    background: bool,
    /// Pages left in the pass under way.
    pass: u64,
}

impl Host {
    /// Pages a writer may dirty between two checks (one processor).
    pub(super) fn old_every(&self) -> u64 {
        if self.old.exceeded { 8 } else { self.old_ratio() }
    }

    fn old_ratio(&self) -> u64 {
        (self.config.ram / PAGE / 32).clamp(16, 1024)
    }

    /// The check of a writer: it goes on, or has so many pages to write first.
    pub(super) fn throttle_old(&mut self, now: Instant, p: usize) -> Verdict {
        let t = self.thresholds;
        let held = self.held();
        if held <= t.limit || held < t.freerun {
            return self.old_over(now, p);
        }
        self.old.exceeded = true;
        let chunk = self.old_ratio() * 3 / 2;
        self.counts.chunks += 1;
        Verdict::Write(chunk)
    }

    /// The writer goes on (host.md 8.2, step 4).
    fn old_over(&mut self, now: Instant, p: usize) -> Verdict {
        if self.held() < self.thresholds.limit {
            self.old.exceeded = false;
        }
        self.procs[p].dirtier.dirtied = 0;
        if self.dirty > self.thresholds.background {
            self.old.background = true;
            self.rouse(now, 0);
        }
        Verdict::Go
    }

    /// A writer's own write-back: the next bio of its chunk, of which `left` pages are to go.
    pub(super) fn write_chunk(&mut self, now: Instant, p: usize, left: u64) -> Verdict {
        if left == 0 {
            return self.old_over(now, p);
        }
        if let Some(pages) = self.old_bio(now, p, left, None) {
            return Verdict::Write(left - pages);
        }
        if self.held() <= self.thresholds.limit {
            return self.old_over(now, p);
        }
        let length = self.patience(p);
        Verdict::Pause { length, again: true }
    }

    /// Waits for the end of the congestion; the time to wait at most.
    fn patience(&mut self, p: usize) -> Nanos {
        if self.old.congested {
            self.congestion_waiters.push(p as u32);
        }
        PATIENCE
    }

    /// Process `p` waits no longer, whether the congestion has ended or not.
    pub(super) fn patience_over(&mut self, p: usize) {
        self.congestion_waiters.retain(|&q| q as usize != p);
    }

    /// The next write-back bio of process `p`, of at most `left` pages; with `before` only of inodes
    /// dirtied up to then. None if nothing can be written now.
    fn old_bio(
        &mut self,
        now: Instant,
        p: usize,
        left: u64,
        before: Option<Instant>,
    ) -> Option<u64> {
        let f = &self.flushers[0];
        for _ in 0..f.inodes() + 1 {
            self.take_up(0);
            let file = match before {
                Some(t) => self.find_listed(0, |f| f.dirtied_at <= t).unwrap_or(NIL),
                None => self.flushers[0].oldest(),
            };
            if file == NIL {
                return None;
            }
            let f = &mut self.files[file as usize];
            let (pages, most) = (f.cache.pages(), left.min(self.bio_pages));
            let ahead = f.cache.idle_run(f.cursor, pages, most);
            if let Some((a, b)) = ahead {
                f.cursor = b;
                let group = self.flushers[0].group;
                let bio = self.write_bio(now, file, a, b, Flags::NONE, group);
                self.procs[p].batch.push(bio);
                if self.files[file as usize].cache.dirty == 0 {
                    self.unlist(file);
                } else if left == b - a {
                    self.postpone(file);
                }
                self.submit(p, false);
                return Some(b - a);
            }
            // The sweep is over: what is dirty now was dirtied during it.
            f.cursor = 0;
            f.dirtied_at = now;
            self.postpone(file);
        }
        None
    }

    /// An inode with pages left over waits until the others have had their turn.
    fn postpone(&mut self, file: u32) {
        self.unlist(file);
        self.files[file as usize].listed = Listed::Again;
        self.flushers[0].again.push_back(&mut self.inode_links, file);
    }

    /// What the old flusher does next.
    pub(super) fn flush_old(&mut self, now: Instant, p: usize, i: usize) -> Option<Act> {
        self.flushers[i].resting = false;
        self.patience_over(p);
        if self.old.congested {
            let length = self.patience(p);
            return Some(Act::WaitUntil(now + length));
        }
        let before = self.aged_before(now, i);
        let reclaim = self.flushers[i].reclaim;
        let background = self.old.background && self.dirty >= self.thresholds.background;
        let wanted = if background || reclaim { None } else { before };
        if wanted.is_none() && !background && !reclaim {
            return self.old_rest(now, i);
        }
        if self.old.pass == 0 {
            self.old.pass = PASS;
        }
        match self.old_bio(now, p, self.old.pass, wanted) {
            Some(pages) => {
                self.old.pass -= pages;
                self.flushers[i].reclaim = false;
                self.flushers[i].pages[if wanted.is_some() { 2 } else { 3 }] += pages;
                None
            }
            None => self.old_rest(now, i),
        }
    }

    fn old_rest(&mut self, now: Instant, i: usize) -> Option<Act> {
        self.old.background = false;
        self.old.pass = 0;
        let f = &mut self.flushers[i];
        f.resting = true;
        f.reclaim = false;
        f.ageing = false;
        if f.periodic.is_some_and(|due| due <= now) {
            let interval = Nanos::ms(10) * self.config.dirty_writeback_centisecs;
            f.periodic = (f.inodes() > 0).then_some(now + interval);
        }
        Some(f.periodic.map_or(Act::Rest, Act::WaitUntil))
    }

    /// When the periodic work is due: inodes dirtied up to which instant are old.
    fn aged_before(&mut self, now: Instant, i: usize) -> Option<Instant> {
        let f = &mut self.flushers[i];
        f.ageing |= f.periodic.is_some_and(|due| due <= now);
        let expire = Nanos::ms(10) * self.config.dirty_expire_centisecs;
        let before = now.as_nanos().checked_sub(expire.0).map(Instant::from_nanos);
        before.filter(|_| f.ageing)
    }

    /// An asynchronous write was submitted, or (`done`) served.
    // Deviation: the marks are of requests; the host sees bios, of which several may share a request.
    pub(super) fn count_async(&mut self, now: Instant, done: bool) {
        let old = &mut self.old;
        if done {
            old.async_out -= 1;
        } else {
            old.async_out += 1;
        }
        if old.async_out >= CONGESTED {
            old.congested = true;
        } else if old.congested && old.async_out < RELAXED {
            old.congested = false;
            while let Some(p) = self.congestion_waiters.pop() {
                self.woken.push((p as usize, now + Nanos(self.config.wake_ns)));
            }
        }
    }
}
