//! nilfs2 in the form that its I/O takes: all that is written goes to the end of one log (specs/host.md 14).
//!
//! The device is a row of segments of 8 MiB, which one cursor fills in ascending order, leaving out those
//! that hold anything still in use. A *log write* takes the dirty blocks of one file or of all, and writes
//! them as one run:
//!
//! ```text
//! | summary | data blocks, file after file, ascending     | metadata          |
//!   1 + n/128       n                                       3 + n/100            blocks of 4 KiB
//! ```
//!
//! The file's blocks lie there from then on. So random writes leave as a sequential one, and a later
//! sequential read jumps. One log write is under way at a time, and a thread does them all: for an fsync
//! (of that file's blocks), for sync(), 5 s after the first dirty block, and at 3600 dirty blocks. Flushers
//! and writers above the dirty limit cannot write anything; they ask for it and wait.
//!
//! Weaknesses: the cleaner is not modelled, so a segment is free only once nothing in it is in use, and a
//! device whose every segment holds something is full; metadata has no content and no place of its own.
//!
//! Source: R. Konishi et al., "The Linux Implementation of a Log-structured File System", SIGOPS OSR 40(3),
//! 2006; specs/host.md 14.

use super::super::bio::{Pending, pieces};
use super::super::cache::PAGE;
use super::super::file::{File, Files};
use super::super::kernel::Kernel;
use super::super::op::Act;
use super::super::sync::push_flush;
use super::super::task::{OpStep, Task};
use super::super::wait::Wait;
use super::begin_commit;
use hoistway::{Flags, GroupId, Instant, Op};
use hoistway_run::JobError;
use std::collections::VecDeque;

/// Bytes of a segment.
const SEGMENT: u64 = 8 << 20;
/// Dirty blocks that start a log write.
pub(in super::super) const MANY: u64 = 3600;

/// Blocks of a log write of `data` blocks that come before and behind them.
fn around(data: u64) -> (u64, u64) {
    (1 + data.div_ceil(128), 3 + data.div_ceil(100))
}

/// The segments and the cursor in them.
#[derive(Debug)]
struct Segments {
    /// Blocks in use in each.
    live: Vec<u32>,
    /// The first that lies in the file area.
    first: u64,
    /// Where the log goes on.
    cursor: u64,
}

impl Segments {
    /// All but those that files occupy are free; the cursor stands behind the files.
    fn survey(files: &Files) -> Segments {
        let (begin, next) = files.area();
        let mut segments = Segments {
            live: vec![0; (files.capacity() / SEGMENT) as usize],
            first: begin.div_ceil(SEGMENT),
            cursor: next.next_multiple_of(SEGMENT),
        };
        for f in files.iter().filter(|f| !f.raw) {
            f.runs(0, f.pages()).for_each(|(start, len)| segments.count(start, len, true));
        }
        segments
    }

    /// Bytes of the device came into use, or are no longer.
    fn count(&mut self, start: u64, len: u64, used: bool) {
        for at in (start..start + len).step_by(PAGE as usize) {
            // Behind the last whole segment nothing is ever written.
            if let Some(live) = self.live.get_mut((at / SEGMENT) as usize) {
                if used { *live += 1 } else { *live -= 1 }
            }
        }
    }

    /// The next `blocks` blocks of the log as runs, first byte and length, each within a segment; `None`
    /// if that many are not free.
    fn append(&mut self, blocks: u64) -> Option<Vec<(u64, u64)>> {
        let mut runs: Vec<(u64, u64)> = Vec::new();
        let mut left = blocks * PAGE;
        let mut cursor = self.cursor;
        while left > 0 {
            if cursor.is_multiple_of(SEGMENT) {
                cursor = self.free_segment(cursor / SEGMENT, &runs)? * SEGMENT;
            }
            let len = left.min(SEGMENT - cursor % SEGMENT);
            runs.push((cursor, len));
            (cursor, left) = (cursor + len, left - len);
        }
        self.cursor = cursor;
        Some(runs)
    }

    /// The first free segment from number `from` on, and from the beginning behind the last; none that
    /// `runs` have a part of.
    fn free_segment(&self, from: u64, runs: &[(u64, u64)]) -> Option<u64> {
        let taken = |i: u64| runs.iter().any(|run| run.0 / SEGMENT == i);
        let free = |i: &u64| self.live[*i as usize] == 0 && !taken(*i);
        let end = self.live.len() as u64;
        (from..end).find(free).or_else(|| (self.first..from.min(end)).find(free))
    }
}

/// Somebody waits for a file's blocks to be in the log.
#[derive(Clone, Copy, Debug)]
struct LogRequest {
    file: u32,
    /// It is the n-th ever.
    number: u64,
}

/// A run of pages in the log write under way, with its number among its file's writes.
#[derive(Clone, Copy, Debug)]
struct Piece {
    file: u32,
    pages: (u64, u64),
    seq: u64,
}

/// What nilfs2 remembers.
#[derive(Debug, Default)]
pub(in super::super) struct Nilfs2 {
    /// Made at the first log write, since files are laid out until then.
    segments: Option<Segments>,
    requests: VecDeque<LogRequest>,
    asked: u64,
    /// Who waits for which request.
    waiters: Vec<(u32, u64)>,
    pieces: Vec<Piece>,
    /// Log writes, and blocks of 4 KiB in them.
    pub logs: u64,
    pub log_blocks: u64,
}

impl Nilfs2 {
    /// The blocks of all pages of a file are given up.
    pub fn emptied(&mut self, f: &File) {
        if let Some(segments) = &mut self.segments {
            f.runs(0, f.pages()).for_each(|(start, len)| segments.count(start, len, false));
        }
    }

    /// Every segment is in use.
    #[cfg(test)]
    pub fn occupy_all(&mut self) {
        let segments = self.segments.as_mut().expect("something has been written");
        segments.live.iter_mut().for_each(|live| *live += 1);
    }

    /// The number of the request that writes a file's blocks, made unless it still lies there.
    fn request(&mut self, file: u32) -> u64 {
        if let Some(request) = self.requests.iter().find(|r| r.file == file) {
            return request.number;
        }
        self.asked += 1;
        self.requests.push_back(LogRequest { file, number: self.asked });
        self.asked
    }
}

fn nilfs2(k: &mut Kernel) -> &mut Nilfs2 {
    match &mut k.fs {
        super::FileSystem::Nilfs2(fs) => fs,
        _ => unreachable!("asked on nilfs2 only"),
    }
}

/// Process `p` wants the blocks of a file in the log, and waits for it; `None` if they are.
pub(in super::super) fn ask(now: Instant, p: usize, k: &mut Kernel, file: u32) -> Option<Act> {
    let f = &k.files[file];
    let open = f.changed > k.journal.done() || f.writing > 0 || k.cache.dirty(file) > 0;
    if !open {
        return None;
    }
    let fs = nilfs2(k);
    let number = fs.request(file);
    fs.waiters.push((p as u32, number));
    k.journal.rouse(now, &mut k.sleepers);
    k.sleepers.block(now, p, Wait::Log(number));
    Some(Act::Block)
}

/// How far the thread that writes the log is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum LogWriter {
    /// No log write is under way.
    Rest,
    /// It is submitted, for a request or for all that is dirty (0).
    Sent { request: u64, flush: bool },
    /// So is the flush behind it.
    Flushed { request: u64 },
}

impl LogWriter {
    /// What the thread does next.
    pub fn step(&mut self, now: Instant, task: &mut Task, k: &mut Kernel) -> OpStep {
        match *self {
            LogWriter::Rest => self.rest(now, task, k),
            LogWriter::Sent { request, flush } => {
                if let Some(act) = k.wait_for_own(now, task) {
                    return OpStep::Act(act);
                }
                for Piece { file, pages, seq } in core::mem::take(&mut nilfs2(k).pieces) {
                    k.write_done(now, file, pages, seq, 0);
                }
                *self = LogWriter::Flushed { request };
                if flush {
                    push_flush(task);
                    k.submit(task, false);
                }
                OpStep::Again
            }
            LogWriter::Flushed { request } => {
                if let Some(act) = k.wait_for_own(now, task) {
                    return OpStep::Act(act);
                }
                *self = LogWriter::Rest;
                over(now, k, request);
                OpStep::Again
            }
        }
    }

    /// The next request, or all that is dirty when that is due.
    fn rest(&mut self, now: Instant, task: &mut Task, k: &mut Kernel) -> OpStep {
        let barriers = k.config.barriers;
        if let Some(LogRequest { file, number }) = nilfs2(k).requests.pop_front() {
            k.journal.resting = false;
            let changed = k.files[file].changed > k.journal.done();
            *self = LogWriter::Sent { request: number, flush: barriers };
            return self.write(now, task, k, (file, file + 1), true, changed);
        }
        if let Some(step) = begin_commit(now, k) {
            return step;
        }
        let awaited = k.journal.is_awaited();
        let needed = awaited || k.journal.committing().names() > 0;
        *self = LogWriter::Sent { request: 0, flush: barriers && awaited };
        let all = (0, k.files.len());
        self.write(now, task, k, all, awaited, needed)
    }

    /// Puts a log write of the files' dirty blocks into the batch; without any only if it is `needed` for
    /// changes of inodes.
    fn write(
        &mut self,
        now: Instant,
        task: &mut Task,
        k: &mut Kernel,
        (first, end): (u32, u32),
        sync: bool,
        needed: bool,
    ) -> OpStep {
        let runs = dirty_runs(k, first, end);
        let data: u64 = runs.iter().map(|(_, a, b)| b - a).sum();
        if data == 0 && !needed {
            return OpStep::Again;
        }
        let (before, behind) = around(data);
        let Kernel { fs, files, .. } = k;
        let super::FileSystem::Nilfs2(fs) = fs else { unreachable!("asked on nilfs2 only") };
        let segments = fs.segments.get_or_insert_with(|| Segments::survey(files));
        let Some(log) = segments.append(before + data + behind) else {
            k.fault = Some(Box::new(full(data)));
            return OpStep::Act(Act::Fault);
        };
        fs.logs += 1;
        fs.log_blocks += before + data + behind;
        move_blocks(now, k, &runs, &log, before);
        let flags = if sync { k.sync_flags() } else { Flags::NONE };
        for &(start, len) in &log {
            for (start, len) in pieces(start, len, k.bio_pages * PAGE) {
                let bio = Pending::own(Op::Write, flags, GroupId::ROOT, start, len);
                task.submission.push(bio);
            }
        }
        task.own.left = task.submission.len() as u32;
        if sync {
            k.unplug_last(task);
        }
        k.submit(task, true);
        OpStep::Again
    }
}

/// No segment is free.
fn full(data: u64) -> JobError {
    let message = format!(
        "nilfs2: no free segment for a log write of {data} blocks; every segment holds blocks in use, and \
         the cleaner is not modelled: choose a larger drive or smaller files"
    );
    JobError::Parameter { of: "host".into(), message }
}

/// All dirty runs of files [first, end): file, first page, page behind the last.
fn dirty_runs(k: &Kernel, first: u32, end: u32) -> Vec<(u32, u64, u64)> {
    let mut runs = Vec::new();
    for file in (first..end).filter(|&file| !k.files[file].raw) {
        let mut at = 0;
        while let Some((a, b)) = k.cache.idle_run(file, at, k.cache.pages(file), u64::MAX / 2) {
            runs.push((file, a, b));
            at = b;
        }
    }
    runs
}

/// The pages of `runs` go under write-back, and their blocks to the log behind `skip` blocks of it.
fn move_blocks(
    now: Instant,
    k: &mut Kernel,
    runs: &[(u32, u64, u64)],
    log: &[(u64, u64)],
    skip: u64,
) {
    let mut log = log.iter().copied();
    let mut next = |left: &mut (u64, u64)| {
        if left.1 == 0 {
            *left = log.next().expect("the log has room for all blocks");
        }
    };
    let mut at = (0, 0);
    let mut skip = skip * PAGE;
    while skip > 0 {
        next(&mut at);
        let len = skip.min(at.1);
        at = (at.0 + len, at.1 - len);
        skip -= len;
    }
    for &(file, from, to) in runs {
        let mut a = from;
        while a < to {
            next(&mut at);
            let b = to.min(a + at.1 / PAGE);
            move_run(now, k, file, (a, b), at.0);
            let len = (b - a) * PAGE;
            at = (at.0 + len, at.1 - len);
            a = b;
        }
        let f = &mut k.files[file];
        // Its inode is in the log too.
        (f.changed, f.remapped) = (0, 0);
        k.writeback.unlist(file, f);
    }
}

/// Pages [a, b) of a file go to `start`.
fn move_run(now: Instant, k: &mut Kernel, file: u32, (a, b): (u64, u64), start: u64) {
    let Kernel { fs, files, cache, writeback, .. } = k;
    let super::FileSystem::Nilfs2(fs) = fs else { unreachable!("asked on nilfs2 only") };
    let segments = fs.segments.as_mut().expect("made by the first log write");
    let f = &mut files[file];
    f.runs(a, b).for_each(|(start, len)| segments.count(start, len, false));
    f.relocate(a, b, start);
    segments.count(start, (b - a) * PAGE, true);
    cache.start_write(file, a, b);
    let flusher = &mut writeback.flushers[f.flusher as usize];
    if flusher.out == 0 {
        flusher.pace.restart(now);
    }
    writeback.sent(f, b - a);
    fs.pieces.push(Piece { file, pages: (a, b), seq: f.write_seq });
}

/// A log write is on disk: who waits for it goes on.
fn over(now: Instant, k: &mut Kernel, request: u64) {
    if request == 0 {
        k.journal.commit_over(now, &mut k.sleepers);
        return;
    }
    let fs = nilfs2(k);
    let (served, waiting) = fs.waiters.iter().partition(|w| w.1 == request);
    fs.waiters = waiting;
    let served: Vec<(u32, u64)> = served;
    for (p, _) in served {
        k.sleepers.wake(now, p as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_write_brings_its_summary_and_its_metadata() {
        assert_eq!((around(0), around(1), around(128)), ((1, 3), (2, 4), (2, 5)));
        assert_eq!((around(129), around(3600)), ((3, 5), (30, 39)));
    }

    #[test]
    fn the_log_leaves_out_segments_in_use_and_begins_anew_at_the_end() {
        let per_segment = SEGMENT / PAGE;
        let mut s = Segments { live: vec![0, 0, 5, 0, 1], first: 1, cursor: SEGMENT };
        let runs = s.append(per_segment + 10).unwrap();
        assert_eq!(runs, [(SEGMENT, SEGMENT), (3 * SEGMENT, 10 * PAGE)]);
        s.count(SEGMENT, SEGMENT, true);
        assert_eq!(s.append(1), Some(vec![(3 * SEGMENT + 10 * PAGE, PAGE)]));
        s.count(2 * SEGMENT, 5 * PAGE, false);
        let runs = s.append(per_segment).unwrap();
        assert_eq!(
            runs,
            [(3 * SEGMENT + 11 * PAGE, SEGMENT - 11 * PAGE), (2 * SEGMENT, 11 * PAGE)]
        );
        s.count(3 * SEGMENT, PAGE, true);
        // What is left of the segment under way is all there is.
        assert_eq!(s.append(2 * per_segment), None);
    }
}
