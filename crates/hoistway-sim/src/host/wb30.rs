//! Write-back and throttling of 2.6.30 to 36: the writer itself writes (specs/host.md 8.2 and 9.3).
//!
//! A writer that finds too much held writes a chunk of anybody's dirty pages before it goes on, and waits
//! for the device's request pool like everybody else. The background and the periodic work write in passes
//! of 1024 pages, oldest inode first, and skip the device while its pool is congested. Many writers that
//! each write a little of everything at once are why it was replaced: the device sees their files mixed.

use super::balance::Verdict;
use super::cache::PAGE;
use super::kernel::Kernel;
use super::op::Act;
use super::task::{OpStep, Task};
use super::wait::Sleepers;
use super::writeback::WritebackState;
use hoistway::table::NIL;
use hoistway::{Flags, Instant, Nanos};

/// Pages of one pass.
const PASS: u64 = 1024;
/// Asynchronous requests at which the pool is congested, and below which no longer, of the usual 128
/// (specs/blk-mq-and-noop.md 5). The distance keeps it from going back and forth with each request.
const CONGESTED: u64 = 113;
const RELAXED: u64 = 103;
/// Pages between two checks while too much is held.
const EVERY_EXCEEDED: u64 = 8;
/// How long a pass or a writer waits for the congestion to end.
const PATIENCE: Nanos = Nanos::ms(100);

/// What the old write-back remembers.
#[derive(Clone, Debug)]
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
    /// Pages that may be dirtied on a processor between two checks while little is held.
    ratio: u64,
    /// Pages dirtied on each processor since its last check.
    dirtied: Vec<u64>,
    /// Processes that wait for the end of the pool's congestion, at most for a while.
    waiters: Vec<u32>,
    /// Chunks that writers were told to write.
    pub chunks: u64,
}

impl Old {
    /// For a machine of `ram` bytes and so many processors; 0: unknown, taken as one.
    pub fn new(ram: u64, cpus: u64) -> Old {
        let cpus = cpus.max(1);
        Old {
            exceeded: false,
            async_out: 0,
            congested: false,
            background: false,
            pass: 0,
            // A thirty-second of memory: enough for one check to be cheap, and little enough for all
            // processors together not to overrun the limit.
            ratio: (ram / PAGE / (32 * cpus)).clamp(16, 1024),
            dirtied: vec![0; cpus as usize],
            waiters: Vec::new(),
            chunks: 0,
        }
    }

    /// Pages that process `p` may dirty until somebody on its processor is checked. Which one that is, chance
    /// decides: one that writes little beside others that write much is checked too.
    pub fn room(&self, p: usize) -> u64 {
        let every = if self.exceeded { EVERY_EXCEEDED } else { self.ratio };
        every.saturating_sub(self.dirtied[p % self.dirtied.len()])
    }

    /// Process `p` dirtied pages. True: it is to be checked, and the count of its processor begins again.
    pub fn dirtied(&mut self, p: usize, pages: u64) -> bool {
        let cpus = self.dirtied.len();
        self.dirtied[p % cpus] += pages;
        let due = self.room(p) == 0;
        if due {
            self.dirtied[p % cpus] = 0;
        }
        due
    }

    /// Waits for the end of the congestion; the time to wait at most.
    fn patience(&mut self, p: usize) -> Nanos {
        if self.congested {
            self.waiters.push(p as u32);
        }
        PATIENCE
    }

    /// Process `p` waits no longer, whether the congestion has ended or not.
    pub fn patience_over(&mut self, p: usize) {
        self.waiters.retain(|&q| q as usize != p);
    }

    /// An asynchronous write was submitted.
    // Deviation: the marks are of requests; the host sees bios, of which several may share a request.
    pub fn submitted(&mut self, now: Instant, sleepers: &mut Sleepers) {
        self.async_out += 1;
        self.judge(now, sleepers);
    }

    /// An asynchronous write was served.
    pub fn served(&mut self, now: Instant, sleepers: &mut Sleepers) {
        self.async_out -= 1;
        self.judge(now, sleepers);
    }

    fn judge(&mut self, now: Instant, sleepers: &mut Sleepers) {
        if self.async_out >= CONGESTED {
            self.congested = true;
        } else if self.congested && self.async_out < RELAXED {
            self.congested = false;
            while let Some(p) = self.waiters.pop() {
                sleepers.rouse(now, p as usize);
            }
        }
    }
}

fn old(writeback: &mut WritebackState) -> &mut Old {
    writeback.old.as_mut().expect("asked under the old write-back only")
}

/// The check of a writer: it goes on, or has so many pages to write first.
pub(super) fn throttle(now: Instant, task: &mut Task, k: &mut Kernel) -> Verdict {
    let (t, held) = (k.writeback.thresholds, k.writeback.held());
    if held <= t.limit || held < t.freerun {
        return writer_over(now, k);
    }
    let old = old(&mut k.writeback);
    old.exceeded = true;
    if k.fs.writes_alone() {
        let length = old.patience(task.p);
        k.journal.ask_commit(now, &mut k.sleepers);
        return Verdict::Pause { length, again: true };
    }
    old.chunks += 1;
    // More than it has dirtied since the last check, so that the number of held pages falls.
    Verdict::Write(old.ratio * 3 / 2)
}

/// The writer goes on (host.md 8.2, step 4).
fn writer_over(now: Instant, k: &mut Kernel) -> Verdict {
    let w = &mut k.writeback;
    if w.held() < w.thresholds.limit {
        old(w).exceeded = false;
    }
    if w.dirty > w.thresholds.background {
        old(w).background = true;
        w.rouse(now, 0, &mut k.sleepers);
    }
    Verdict::Go
}

/// A writer's own write-back: the next bio of its chunk, of which `left` pages are to go.
pub(super) fn write_chunk(now: Instant, task: &mut Task, k: &mut Kernel, left: u64) -> Verdict {
    if left == 0 {
        return writer_over(now, k);
    }
    if let Some(pages) = push_bio(now, task, k, left, None) {
        return Verdict::Write(left - pages);
    }
    if k.writeback.held() <= k.writeback.thresholds.limit {
        return writer_over(now, k);
    }
    let length = old(&mut k.writeback).patience(task.p);
    Verdict::Pause { length, again: true }
}

/// The next write-back bio of a process, of at most `left` pages; with `before` only of inodes dirtied up
/// to then. None if nothing can be written now.
fn push_bio(
    now: Instant,
    task: &mut Task,
    k: &mut Kernel,
    left: u64,
    before: Option<Instant>,
) -> Option<u64> {
    for _ in 0..k.writeback.flushers[0].inodes() + 1 {
        k.writeback.take_up(0, &mut k.files);
        let file = match before {
            Some(t) => k.writeback.find_listed(0, &k.files, |f| f.dirtied_at <= t).unwrap_or(NIL),
            None => k.writeback.flushers[0].oldest(),
        };
        if file == NIL {
            return None;
        }
        let (pages, most) = (k.cache.pages(file), left.min(k.bio_pages));
        if let Some((a, b)) = k.cache.idle_run(file, k.files[file].cursor, pages, most) {
            let group = k.writeback.flushers[0].group;
            let bio = k.start_write(now, file, (a, b), Flags::NONE, group);
            let b = bio.end();
            k.files[file].cursor = b;
            task.submission.push(bio);
            let f = &mut k.files[file];
            if k.cache.dirty(file) == 0 {
                k.writeback.unlist(file, f);
            } else if left == b - a {
                k.writeback.postpone(file, f);
            }
            k.submit(task, false);
            return Some(b - a);
        }
        // The sweep is over: what is dirty now was dirtied during it.
        let f = &mut k.files[file];
        f.cursor = 0;
        f.dirtied_at = now;
        k.writeback.postpone(file, f);
    }
    None
}

/// What the old flusher `i` does next.
pub(super) fn flush(now: Instant, task: &mut Task, k: &mut Kernel, i: usize) -> OpStep {
    k.writeback.flushers[i].works_on();
    let o = old(&mut k.writeback);
    o.patience_over(task.p);
    if o.congested {
        return OpStep::Act(Act::WaitUntil(now + o.patience(task.p)));
    }
    let wanted = o.background;
    let old_before = now.as_nanos().checked_sub(k.writeback.expire.0).map(Instant::from_nanos);
    let ages = k.writeback.flushers[i].looks_for_old(now);
    let before = old_before.filter(|_| ages);
    let reclaim = k.writeback.flushers[i].reclaim;
    let background = wanted && k.writeback.dirty >= k.writeback.thresholds.background;
    let before = if background || reclaim { None } else { before };
    if before.is_none() && !background && !reclaim {
        return rest(now, k, i);
    }
    let o = old(&mut k.writeback);
    if o.pass == 0 {
        o.pass = PASS;
    }
    let left = o.pass;
    match push_bio(now, task, k, left, before) {
        Some(pages) => {
            old(&mut k.writeback).pass -= pages;
            k.writeback.flushers[i].reclaim = false;
            OpStep::Again
        }
        None => rest(now, k, i),
    }
}

fn rest(now: Instant, k: &mut Kernel, i: usize) -> OpStep {
    let o = old(&mut k.writeback);
    o.background = false;
    o.pass = 0;
    let interval = k.writeback.interval;
    let f = &mut k.writeback.flushers[i];
    f.pass_over(now, interval);
    OpStep::Act(f.rest().map_or(Act::Rest, Act::WaitUntil))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pool_is_congested_between_two_marks_and_wakes_who_waits() {
        let mut s = Sleepers::new(Nanos::us(1));
        let mut old = Old::new(2 << 30, 0);
        assert_eq!(old.room(5), 1024);
        (0..CONGESTED).for_each(|_| old.submitted(Instant::ZERO, &mut s));
        assert_eq!((old.patience(7), old.patience(8)), (PATIENCE, PATIENCE));
        old.patience_over(7);
        for _ in RELAXED..CONGESTED {
            old.served(Instant::ZERO, &mut s);
            assert!(old.congested && s.take_woken().is_none());
        }
        old.served(Instant::ZERO, &mut s);
        assert_eq!(s.take_woken(), Some((8, Instant::ZERO + Nanos::us(1))));
        assert!(!old.congested && s.take_woken().is_none());
        // Nobody waits for a pool that is not congested.
        old.patience(7);
        assert!(old.waiters.is_empty());
    }

    #[test]
    fn pages_are_counted_per_processor_and_the_last_writer_is_checked() {
        let mut old = Old::new(256 << 20, 2);
        assert_eq!(old.room(0), 1024);
        // 0 and 2 share a processor, 1 has the other.
        assert!(!old.dirtied(0, 1000) && !old.dirtied(1, 1000));
        assert_eq!((old.room(2), old.room(3)), (24, 24));
        assert!(old.dirtied(2, 24), "few of them are its own");
        assert_eq!((old.room(0), old.room(1)), (1024, 24));
        old.exceeded = true;
        assert_eq!((old.room(0), old.room(1)), (8, 0));
    }
}
