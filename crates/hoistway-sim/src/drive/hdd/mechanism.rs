//! One actuator: its queue, buffer and read-ahead, and the choice of its next operation
//! (specs/drives.md 3.3 to 3.6, 3.8).

mod choice;

use super::Bus;
use super::dirty::{Extent, Extents};
use super::geometry::{Geometry, MediaPos, ns};
use super::queue::{Queue, QueuedAccess};
use super::shingled::{Cleaning, Shingles, WritePlace};
use crate::drive::DriveFile;
use choice::Choice;
use std::collections::VecDeque;

/// A read or write of this actuator; places count from its first byte.
#[derive(Clone, Copy, Debug)]
pub(super) struct Access {
    pub job: u32,
    pub write: bool,
    pub fua: bool,
    pub start: u64,
    pub end: u64,
}

/// One actuator.
#[derive(Debug)]
pub(super) struct Mechanism {
    geometry: Geometry,
    cfg: Config,
    /// Of a drive with shingled bands.
    shingles: Option<Shingles>,
    /// Where byte 0 lies on the medium: behind the media cache.
    base: u64,
    queue: Queue,
    /// Writes that wait for room in the buffer.
    waiting: VecDeque<WaitingAccess>,
    /// Dirty extents by start.
    dirty: Extents,
    /// Bytes of `dirty` and of the destaging operation in progress.
    dirty_bytes: u64,
    /// Read segments, least recently used first.
    segments: Vec<(u64, u64)>,
    /// All segments so far lie in there: a write elsewhere leaves them alone.
    spanned: (u64, u64),
    /// What became available in segments and extents since the last choice: queued reads inside
    /// hit.
    grown: Vec<(u64, u64)>,
    /// So many queued accesses have not been looked up, the last ones.
    unseen: usize,
    /// Scratch: places in the queue of the reads that a choice serves from the buffer, and of those that begin where
    /// something has grown or the read-ahead is.
    hits: Vec<usize>,
    near: Vec<usize>,
    head: Head,
    read_ahead: Option<ReadAhead>,
    busy: Option<Busy>,
    /// Flushes that wait for the last dirty byte.
    flushes: Vec<(u32, u64)>,
    /// Last arrival or end of a command: what idling is counted from. Destaging is not activity, or
    /// every scattered block would wait for `destage_idle_ms` anew.
    activity: u64,
    /// End of the last operation if it was a destage.
    destaged_to: Option<u64>,
    number: u64,
    /// Of [`Mechanism::next_event`], which is asked several times for each change.
    event: u64,
}

#[derive(Clone, Copy, Debug)]
struct Config {
    overhead: u64,
    settle: u64,
    segments: usize,
    segment: u64,
    readahead: u64,
    skip_gap: u64,
    write_cache: bool,
    buffer: u64,
    high: u64,
    idle: u64,
    penalty: f64,
    chunk: u64,
    /// ns of positioning per ns of age.
    age_weight: f64,
    /// 0 = none.
    age_limit: u64,
}

#[derive(Clone, Copy, Debug)]
struct WaitingAccess {
    access: Access,
    arrival: u64,
}

#[derive(Clone, Copy, Debug)]
struct Head {
    cyl: u64,
    lba: u64,
}

/// The drive reads on from `base` since `since`.
#[derive(Clone, Copy, Debug)]
struct ReadAhead {
    base: u64,
    since: u64,
    clock: u64,
    rate: f64,
}

#[derive(Clone, Copy, Debug)]
struct Busy {
    until: u64,
    begun: u64,
    /// When the first byte passed.
    media: u64,
    work: Work,
}

#[derive(Clone, Copy, Debug)]
enum Work {
    /// `base`: a read that continued the read-ahead begun there.
    Command {
        queued: QueuedAccess,
        base: Option<u64>,
    },
    Destage {
        start: u64,
        end: u64,
        to: MediaPos,
        /// Into the media cache.
        logged: bool,
    },
    Clean {
        cleaning: Cleaning,
    },
}

/// What of a read is still on the link when the medium is done.
const TAIL_BYTES: u64 = 4096;

impl Mechanism {
    pub fn new(file: &DriveFile, capacity: u64) -> Mechanism {
        let f = |key| file.f64("hdd", key);
        let kib = |key| file.u64("hdd", key) * 1024;
        let buffer = kib("write_buffer_kib");
        let shingles =
            Shingles::new(file, capacity, ns(file.opt_f64("hdd", "clean_idle_ms").unwrap_or(0.0)));
        let base = shingles.as_ref().map_or(0, |s| s.cache);
        let mut mechanism = Mechanism {
            geometry: Geometry::new(file, base + capacity).expect("checked when the file was read"),
            shingles,
            base,
            cfg: Config {
                overhead: ns(f("cmd_overhead_us") / 1e3),
                settle: ns(f("write_settle_ms")),
                segments: file.u64("hdd", "segments") as usize,
                segment: kib("segment_kib"),
                readahead: kib("readahead_kib"),
                skip_gap: kib("skip_gap_kib"),
                write_cache: file.bool("hdd", "write_cache"),
                buffer,
                high: (u128::from(buffer) * u128::from(file.u64("hdd", "destage_high_pct")) / 100)
                    as u64,
                idle: ns(f("destage_idle_ms")),
                penalty: f("destage_penalty_ms") * 1e6,
                chunk: kib("destage_chunk_kib"),
                age_weight: f("age_weight_ms_per_s") / 1e3,
                age_limit: ns(f("age_limit_ms")),
            },
            queue: Queue::default(),
            waiting: VecDeque::new(),
            dirty: Extents::new(),
            dirty_bytes: 0,
            segments: Vec::new(),
            spanned: (u64::MAX, 0),
            grown: Vec::new(),
            unseen: 0,
            hits: Vec::new(),
            near: Vec::new(),
            head: Head { cyl: 0, lba: 0 },
            read_ahead: None,
            busy: None,
            flushes: Vec::new(),
            activity: 0,
            destaged_to: None,
            number: 0,
            event: u64::MAX,
        };
        // Of a shingled drive that has been in use: its bands are to be cleaned.
        mechanism.event = mechanism.coming_event();
        mechanism
    }

    /// What a shingled drive keeps account of.
    #[cfg(test)]
    pub fn shingles(&self) -> Option<&Shingles> {
        self.shingles.as_ref()
    }

    /// Bytes in the write buffer.
    #[cfg(test)]
    pub fn dirty_bytes(&self) -> u64 {
        self.dirty_bytes
    }

    /// The end of the operation in progress, or the end of idling with dirty data; `u64::MAX`: neither.
    pub fn next_event(&self) -> u64 {
        self.event
    }

    fn coming_event(&self) -> u64 {
        match (&self.busy, &self.shingles) {
            (Some(busy), _) => busy.until,
            _ if !self.dirty.is_empty() => self.activity + self.cfg.idle,
            (None, Some(s)) if s.next_band().is_some() => self.activity + s.idle,
            _ => u64::MAX,
        }
    }

    pub fn access(&mut self, now: u64, access: Access, bus: &mut Bus) {
        self.activity = now;
        if access.write {
            self.cut_segments(access.start, access.end, now);
        }
        if access.write && self.cfg.write_cache && !access.fua {
            self.waiting.push_back(WaitingAccess { access, arrival: now });
            self.admit(now, bus);
        } else {
            self.number += 1;
            let queued = self.queued(now, access);
            self.queue.push(queued);
            self.unseen += 1;
        }
        if self.busy.is_none() {
            self.choose(now, bus);
        }
        self.event = self.coming_event();
    }

    /// Where byte `at` lies in its own place.
    fn place(&self, at: u64) -> MediaPos {
        self.geometry.place(self.base + at)
    }

    /// Of a shingled drive a read goes to its first piece; each further one costs the way there and half a turn.
    fn queued(&self, arrival: u64, access: Access) -> QueuedAccess {
        let Access { write, start, end, .. } = access;
        let (from, to) = self.geometry.places(self.base + start, self.base + end);
        let plain = QueuedAccess {
            access,
            arrival,
            number: self.number,
            from,
            to,
            extra: 0,
            cached: false,
        };
        let Some(shingles) = self.shingles.as_ref().filter(|_| !write) else { return plain };
        let (log, pieces) = shingles.read(start, end);
        let Some(log) = log.or((pieces > 1).then_some(self.base + start)) else { return plain };
        let (first, way) = (self.geometry.place(log), self.geometry.seek.time(from.cyl));
        let last = self.geometry.at_clock(first.clock + (to.clock - from.clock), first.cyl);
        let extra = (pieces - 1) * (way + self.geometry.rev / 2);
        QueuedAccess { from: first, to: last, extra, cached: true, ..plain }
    }

    pub fn flush(&mut self, now: u64, job: u32, bus: &mut Bus) {
        self.activity = now;
        self.flushes.push((job, now));
        if self.busy.is_none() {
            self.choose(now, bus);
        }
        self.event = self.coming_event();
    }

    /// The event that [`Mechanism::next_event`] announced.
    pub fn advance(&mut self, now: u64, bus: &mut Bus) {
        if let Some(busy) = self.busy.take() {
            match busy.work {
                Work::Command { queued, base } => self.command_over(&busy, queued, base, bus),
                Work::Destage { start, end, to, logged } => {
                    self.dirty_bytes -= end - start;
                    self.head = Head { cyl: to.cyl, lba: if logged { 0 } else { end } };
                    self.destaged_to = Some(end);
                }
                Work::Clean { cleaning } => {
                    let Cleaning { end, .. } = cleaning;
                    self.head = Head { cyl: self.place(end).cyl, lba: end };
                    self.destaged_to = None;
                }
            }
        }
        self.choose(now, bus);
        self.event = self.coming_event();
    }

    fn command_over(
        &mut self,
        busy: &Busy,
        queued: QueuedAccess,
        base: Option<u64>,
        bus: &mut Bus,
    ) {
        let Busy { until, begun, media, .. } = *busy;
        let Access { job, write, start, end, .. } = queued.access;
        let tail = if write { 0 } else { bus.dur(false, TAIL_BYTES) };
        let done = bus.overlapped(write, media, end - start, until + tail);
        bus.end(job, done, [begun - queued.arrival, until - begun, done - until]);
        self.activity = until;
        self.destaged_to = None;
        self.head = Head { cyl: queued.to.cyl, lba: end };
        if !write {
            self.extend_segment(base.unwrap_or(start), start, end);
            let (clock, rate) = (queued.to.clock, self.geometry.rate(self.base + end));
            self.read_ahead =
                (!queued.cached).then_some(ReadAhead { base: end, since: until, clock, rate });
        }
    }

    // ---- The choice (3.5).

    fn choose(&mut self, now: u64, bus: &mut Bus) {
        debug_assert!(self.busy.is_none());
        self.end_flushes(now, bus);
        if !self.waiting.is_empty() {
            self.admit(now, bus);
        }
        let window = self.continued_window(now);
        self.serve_hits(now, window, bus);
        match self.best(now, window) {
            None => {}
            Some(Choice::Continue(at)) => self.begin_continued(now, at),
            Some(Choice::Go(at)) => self.begin_command(now, at),
            Some(Choice::Destage(slot)) => self.begin_destage(now, slot),
            Some(Choice::Clean(band)) => self.begin_cleaning(now, band),
        }
    }

    fn end_flushes(&mut self, now: u64, bus: &mut Bus) {
        if self.dirty_bytes > 0 {
            return;
        }
        for (job, arrival) in self.flushes.drain(..) {
            let overhead = self.cfg.overhead;
            bus.end(job, now + overhead, [0, now - arrival + overhead, 0]);
        }
    }

    /// Waiting writes that fit enter the buffer, in order of arrival; long ones in pieces of half
    /// of it.
    fn admit(&mut self, now: u64, bus: &mut Bus) {
        let half = self.cfg.buffer / 2 / 512 * 512;
        while let Some(WaitingAccess { access, arrival }) = self.waiting.front().copied() {
            let piece = (access.end - access.start).min(half);
            if self.dirty_bytes + piece > self.cfg.buffer {
                break;
            }
            let done = bus.transfer(true, now + self.cfg.overhead, piece);
            let middle = access.start + piece;
            self.soil(access.start, middle, now);
            if middle == access.end {
                self.waiting.pop_front();
                bus.end(access.job, done, [now - arrival, 0, done - now]);
            } else {
                self.waiting[0].access.start = middle;
            }
        }
    }

    /// Marks a range as dirty. Adjacent and overlapping extents become one, as old as the oldest.
    fn soil(&mut self, mut start: u64, mut end: u64, now: u64) {
        self.number += 1;
        let (mut arrival, mut number) = (now, self.number);
        let mut behind = None;
        while let Some(slot) = self.dirty.at_or_below(end) {
            let x = *self.dirty.get(slot);
            if x.end < start {
                break;
            }
            self.dirty_bytes -= x.end - x.start;
            end = end.max(x.end);
            (arrival, number) = (arrival.min(x.arrival), number.min(x.number));
            if x.start <= start {
                // As of most that are written in sequence: its start stays.
                (start, behind) = (x.start, Some(slot));
                break;
            }
            self.dirty.remove(slot);
        }
        match behind {
            Some(slot) => {
                let x = self.dirty.get_mut(slot);
                (x.end, x.arrival, x.number) = (end, arrival, number);
            }
            None => {
                let from = self.place(start);
                self.dirty.insert(Extent { start, end, arrival, number, from });
            }
        }
        self.dirty_bytes += end - start;
        if !self.queue.is_empty() {
            self.grown.push((start, end));
        }
    }

    /// Queued reads that lie in a segment or a dirty extent need no mechanics. Reads that were
    /// looked up before are compared only with what has grown since.
    fn serve_hits(&mut self, now: u64, window: (u64, u64), bus: &mut Bus) {
        let unseen = std::mem::take(&mut self.unseen);
        // One look at the queue for both.
        let (mut first, mut last) = window;
        for &(start, end) in &self.grown {
            (first, last) =
                if first > last { (start, end) } else { (first.min(start), last.max(end)) };
        }
        self.find_near(first, last);
        if !self.grown.is_empty() || unseen > 0 {
            self.find_hits(unseen);
            self.grown.clear();
        }
        if self.hits.is_empty() {
            return;
        }
        let all = self.queue.all();
        self.hits.sort_unstable_by_key(|&at| all[at].number);
        for &at in &self.hits {
            let q = &all[at];
            let Access { job, start, end, .. } = q.access;
            let done = bus.transfer(false, now + self.cfg.overhead, end - start);
            bus.end(job, done, [now - q.arrival, 0, done - now]);
        }
        // From the back: what a removal moves is not one of them.
        self.hits.sort_unstable();
        while let Some(at) = self.hits.pop() {
            self.queue.take(at);
        }
        self.find_near(first, last);
    }

    fn find_near(&mut self, first: u64, last: u64) {
        self.near.clear();
        if first > last {
            return;
        }
        let width = last - first;
        let mut at = self.queue.next_start(0, first, width);
        while at < self.queue.all().len() {
            self.near.push(at);
            at = self.queue.next_start(at + 1, first, width);
        }
    }

    /// Those of the last `unseen` accesses are looked up from the first on; each time that one is served the last ones come
    /// before, up to one that is not. The order decides which segments count as used most recently.
    fn find_hits(&mut self, unseen: usize) {
        let mut back = self.queue.all().len();
        let mut front = back - unseen;
        for n in 0..self.near.len() {
            let at = self.near[n];
            if at < front && self.has_grown(at) {
                self.hits.push(at);
                self.look_up_last(front, &mut back);
            }
        }
        while front < back {
            let at = front;
            front += 1;
            if self.look_up(at) {
                self.hits.push(at);
                self.look_up_last(front, &mut back);
            }
        }
    }

    fn look_up_last(&mut self, front: usize, back: &mut usize) {
        while front < *back {
            *back -= 1;
            if !self.look_up(*back) {
                break;
            }
            self.hits.push(*back);
        }
    }

    /// True if a queued access is a read inside of what has grown.
    fn has_grown(&self, at: usize) -> bool {
        let Access { write, start, end, .. } = self.queue.all()[at].access;
        !write && self.grown.iter().any(|&(s, e)| s <= start && end <= e)
    }

    /// True if a queued access is a read that the buffer serves.
    fn look_up(&mut self, at: usize) -> bool {
        let Access { write, start, end, .. } = self.queue.all()[at].access;
        if write {
            return false;
        }
        let segment = self.segments.iter().rposition(|&(s, e)| s <= start && end <= e);
        if let Some(n) = segment {
            // Used: the most recent now.
            self.segments[n..].rotate_left(1);
        }
        segment.is_some() || self.is_dirty(start, end)
    }

    fn is_dirty(&self, start: u64, end: u64) -> bool {
        self.dirty.at_or_below(start).is_some_and(|slot| end <= self.dirty.get(slot).end)
    }

    // ---- Beginning an operation.

    fn begin_continued(&mut self, now: u64, at: usize) {
        let ahead = self.read_ahead.take().expect("a read continues a read-ahead");
        let queued = self.queue.take(at);
        let until = now.max(ahead.since + (queued.to.clock - ahead.clock));
        let work = Work::Command { queued, base: Some(ahead.base) };
        self.busy = Some(Busy { until, begun: now, media: now, work });
    }

    fn begin_command(&mut self, now: u64, at: usize) {
        self.end_read_ahead(now);
        let queued = self.queue.take(at);
        let then = now + self.cfg.overhead;
        let wait = self.wait(queued.from, then);
        let media = then + self.position(queued.from, queued.access.write, wait);
        let until = media + (queued.to.clock - queued.from.clock) + queued.extra;
        // The data of a write come over the link while the arm moves.
        let media = if queued.access.write { then } else { media };
        let work = Work::Command { queued, base: None };
        self.busy = Some(Busy { until, begun: now, media, work });
    }

    fn begin_destage(&mut self, now: u64, slot: u32) {
        self.end_read_ahead(now);
        let extent = *self.dirty.get(slot);
        let start = extent.start;
        let mut end = extent.end.min(start + self.cfg.chunk);
        let place = self.shingles.as_ref().map(|s| s.place(start, end));
        end = match place {
            Some(WritePlace::Band(to)) => end.min(to),
            Some(WritePlace::Log(_, most)) => end.min(start + most),
            _ => end,
        };
        let behind = self.place(end);
        if end < extent.end {
            self.dirty.cut(slot, end, behind);
        } else {
            self.dirty.remove(slot);
        }
        let (from, to) = match place {
            Some(WritePlace::Log(log, _)) => {
                (self.geometry.place(log), self.geometry.place(log + (end - start)))
            }
            _ => (extent.from, behind),
        };
        let logged = matches!(place, Some(WritePlace::Log(..)));
        match &mut self.shingles {
            Some(s) if logged => s.logged(start, end),
            Some(s) => s.banded(start, end),
            None => {}
        }
        let media = now + self.position(from, true, self.wait(from, now));
        let until = media + (to.clock - from.clock);
        let work = Work::Destage { start, end, to, logged };
        self.busy = Some(Busy { until, begun: now, media, work });
    }

    /// The band is read, what the cache holds of it is fetched, the band is written (3.8). Nothing interrupts it.
    fn begin_cleaning(&mut self, now: u64, band: u64) {
        self.end_read_ahead(now);
        let shingles = self.shingles.as_mut().expect("chosen of a shingled drive only");
        let cleaning = shingles.clean(band);
        let (from, to) = (self.place(cleaning.start), self.place(cleaning.end));
        let (whole, half) = (to.clock - from.clock, self.geometry.rev / 2);
        let media = now + self.position(from, false, self.wait(from, now));
        let seek = &self.geometry.seek;
        // The cache lies at the outermost cylinders; its pieces of a band are scattered in it.
        let log = self.geometry.place(0);
        let fetch = match cleaning.pieces {
            0 => 0,
            n => {
                let way = 2 * seek.time(from.cyl.abs_diff(log.cyl));
                let rate = self.geometry.rate(0);
                way + n * (half + seek.time(1)) + (cleaning.bytes as f64 / rate) as u64
            }
        };
        let until = media + whole + fetch + half + self.cfg.settle + whole;
        self.busy = Some(Busy { until, begun: now, media, work: Work::Clean { cleaning } });
    }

    // ---- Read-ahead and segments (3.4).

    /// Where a read must start to continue the read-ahead; an empty range if there is none.
    fn continued_window(&self, now: u64) -> (u64, u64) {
        match &self.read_ahead {
            None => (1, 0),
            Some(ahead) => {
                let last = self.reached(ahead, now) + self.cfg.skip_gap;
                (ahead.base, last.min(ahead.base + self.cfg.readahead))
            }
        }
    }

    fn continues(&self, now: u64, at: usize) -> bool {
        let (first, last) = self.continued_window(now);
        let access = &self.queue.all()[at].access;
        !access.write && access.start >= first && access.start <= last
    }

    /// How far the read-ahead has come.
    fn reached(&self, ahead: &ReadAhead, now: u64) -> u64 {
        let read = ahead.rate * (now - ahead.since) as f64;
        ahead.base + (read as u64).min(self.cfg.readahead)
    }

    fn end_read_ahead(&mut self, now: u64) {
        if let Some(ahead) = self.read_ahead.take() {
            let reached = self.reached(&ahead, now);
            if reached > ahead.base {
                self.extend_segment(ahead.base, ahead.base, reached);
            }
        }
    }

    /// The segment that ends at `base` now ends at `end`; if there is none, [start, end) becomes
    /// one.
    fn extend_segment(&mut self, base: u64, start: u64, end: u64) {
        if self.cfg.segments == 0 || self.cfg.segment == 0 {
            return;
        }
        let from = |begin: u64| begin.max(end.saturating_sub(self.cfg.segment));
        let found = self.segments.iter().rposition(|s| s.1 == base);
        let segment = (from(found.map_or(start, |n| self.segments[n].0)), end);
        self.spanned = (self.spanned.0.min(segment.0), self.spanned.1.max(segment.1));
        match found {
            // As of each read of a stream but its first ones: it is the most recent.
            Some(n) if n + 1 == self.segments.len() => self.segments[n] = segment,
            found => {
                if let Some(n) = found {
                    self.segments.remove(n);
                } else if self.segments.len() == self.cfg.segments {
                    self.segments.remove(0);
                }
                self.segments.push(segment);
            }
        }
        if !self.queue.is_empty() {
            self.grown.push(segment);
        }
    }

    /// A write makes what was read before stale: of each segment the longer rest stays.
    fn cut_segments(&mut self, start: u64, end: u64, now: u64) {
        if let Some(ahead) = &self.read_ahead
            && start < ahead.base + self.cfg.readahead
            && end > ahead.base
        {
            self.end_read_ahead(now);
        }
        let within = |s: &(u64, u64)| start < s.1 && s.0 < end;
        if !within(&self.spanned) || !self.segments.iter().any(within) {
            return;
        }
        self.segments.retain_mut(|s| {
            if start < s.1 && s.0 < end {
                let (before, after) = (start.saturating_sub(s.0), s.1.saturating_sub(end));
                *s = if before >= after { (s.0, s.0 + before) } else { (s.1 - after, s.1) };
            }
            s.0 < s.1
        });
    }
}
