//! What is counted while a run goes on: latencies and throughput per process, and the device.

use super::phases::Phases;
use crate::host::Ran;
use crate::load;
use hoistway::{Instant, Nanos, Op};
use hoistway_run::{
    DeviceRecord, Histogram, Interval, NamedFigure, ProcRecord, ProcSpec, Role, Window,
};

/// The measured window as instants.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub begin: Instant,
    pub end: Instant,
}

/// A throughput series: counters of equal intervals; the last, partial one is discarded
/// (statistics.md 3).
#[derive(Clone, Debug)]
#[repr(C)] // As in `ProcStats`.
struct Series {
    begin: Instant,
    length: u64,
    /// The end is not known yet: slots come into being as they are needed.
    grows: bool,
    slots: Vec<Interval>,
    /// The interval counted into last, as instants [from, to).
    at: usize,
    from: Instant,
    to: Instant,
}

/// Slots of a series whose end is not known: with one more, each two become one of twice the length.
pub(super) const SLOTS_MAX: usize = 512;

impl Series {
    fn new(span: Span, length: Nanos) -> Series {
        let length = length.0.max(1);
        let n = (span.end - span.begin).0 / length;
        let slots = (0..n).map(|i| Interval { at: Nanos(i * length), bytes: 0, ios: 0 }).collect();
        let to = span.begin + Nanos(length);
        Series { begin: span.begin, length, slots, at: 0, from: span.begin, to, grows: false }
    }

    /// A series from the beginning of the run on, whose end is not known.
    fn growing(length: Nanos) -> Series {
        let nowhere = Span { begin: Instant::ZERO, end: Instant::ZERO };
        // `to` lies so that the first slot comes with the first count.
        Series { grows: true, to: Instant::ZERO, ..Series::new(nowhere, length) }
    }

    /// There are slots up to the present one.
    #[cold]
    fn grow(&mut self) {
        while self.at >= SLOTS_MAX {
            self.halve();
        }
        let (length, have) = (self.length, self.slots.len());
        let fresh =
            (have..=self.at).map(|i| Interval { at: Nanos(i as u64 * length), bytes: 0, ios: 0 });
        self.slots.extend(fresh);
    }

    /// Each two slots become one.
    fn halve(&mut self) {
        self.length *= 2;
        let length = self.length;
        let one = |(i, pair): (usize, &[Interval])| Interval {
            at: Nanos(i as u64 * length),
            bytes: pair.iter().map(|s| s.bytes).sum(),
            ios: pair.iter().map(|s| s.ios).sum(),
        };
        self.slots = self.slots.chunks(2).enumerate().map(one).collect();
        self.at /= 2;
        self.from = self.begin + Nanos(self.at as u64 * length);
        self.to = self.from + Nanos(length);
    }

    /// Slots of `length`, which is this one's times a power of two.
    fn coarsen(&mut self, length: u64) {
        while self.length < length {
            self.halve();
        }
    }

    /// The series ends at `end`.
    fn cut(&mut self, end: Instant) {
        let whole = ((end - self.begin).0 / self.length) as usize;
        if self.grows && whole > self.slots.len() {
            // Nothing happened in the last ones.
            self.at = whole - 1;
            self.grow();
        }
        self.slots.truncate(((end - self.begin).0 / self.length) as usize);
    }

    /// The interval of `end`, which lies in the measured window, is the one counted into.
    #[inline]
    fn turn(&mut self, end: Instant) {
        if end < self.from || end >= self.to {
            self.at = ((end - self.begin).0 / self.length) as usize;
            self.from = self.begin + Nanos(self.at as u64 * self.length);
            self.to = self.from + Nanos(self.length);
            if self.grows && self.at >= self.slots.len() {
                self.grow();
            }
        }
    }

    /// Counts what was completed at `end`, which lies in the measured window.
    #[inline]
    fn add(&mut self, end: Instant, bytes: u64, ios: u64) {
        self.turn(end);
        if let Some(slot) = self.slots.get_mut(self.at) {
            slot.bytes += bytes;
            slot.ios += ios;
        }
    }
}

/// Behind every end.
pub(super) const FOREVER: Instant = Instant::from_nanos(u64::MAX);

/// Counters of one process. In this order: what each call looks at are neighbours, in few lines of the cache.
#[derive(Debug)]
#[repr(C)]
pub(super) struct ProcStats {
    target: bool,
    pub censored: Option<Nanos>,
    /// What the load counts, in order of first appearance.
    counts: Vec<(&'static str, u64)>,
    phases: Phases,
    series: Series,
    span: Span,
    bytes: u64,
    ios: u64,
    last_end: Instant,
    starved: Nanos,
    /// The time that calls behind the first of a run take is nearly always the same: so many of them are not in
    /// `latency` yet.
    alike: (Nanos, u64),
    latency: Histogram,
}

impl ProcStats {
    pub fn new(spec: &ProcSpec, span: Span, window: &Window) -> ProcStats {
        ProcStats {
            span,
            target: spec.role == Role::Target,
            latency: Histogram::new(),
            bytes: 0,
            ios: 0,
            series: Series::new(span, window.target_interval),
            last_end: Instant::ZERO,
            starved: Nanos::ZERO,
            alike: (Nanos::ZERO, 0),
            censored: None,
            // What never happens is counted too: as 0.
            counts: load::find(&spec.load)
                .map_or_else(|_| Vec::new(), |l| l.counts.iter().map(|c| (c.name, 0)).collect()),
            phases: Phases::new(span),
        }
    }

    /// The load counts something.
    pub fn count_of(&mut self, now: Instant, what: &'static str, n: u64) {
        if now < self.span.begin || now >= self.span.end {
            return;
        }
        match self.counts.iter_mut().find(|c| c.0 == what) {
            Some(count) => count.1 += n,
            None => self.counts.push((what, n)),
        }
    }

    /// Reads and writes are recorded apart.
    pub fn by_direction(&mut self) {
        self.phases.by_direction();
    }

    /// A phase of the load begins, or none.
    pub fn phase(&mut self, now: Instant, name: Option<&'static str>) {
        self.phases.change(now, name);
    }

    /// Counters from the beginning of the run on, whose end is not known: [`cut`](ProcStats::cut) will say.
    pub fn open_ended(spec: &ProcSpec, window: &Window) -> ProcStats {
        let begin = Instant::ZERO;
        let mut stats = ProcStats::new(spec, Span { begin, end: begin }, window);
        stats.span.end = FOREVER;
        stats.series = Series::growing(window.target_interval);
        stats
    }

    /// Length of an interval.
    pub fn interval(&self) -> u64 {
        self.series.length
    }

    /// Makes intervals so long, at least.
    pub fn coarsen(&mut self, length: u64) {
        self.series.coarsen(length);
    }

    /// The window, which has begun, ends sooner. Calls that the host did in one step stay counted, up to
    /// 10 ms beyond `end`.
    pub fn cut(&mut self, end: Instant) {
        self.span.end = end;
        self.series.cut(end);
        self.phases.cut(end);
    }

    /// Calls are over.
    #[inline]
    pub fn ran(&mut self, ran: &Ran) {
        let last_end = ran.first_end + ran.each * (ran.calls - 1);
        let inside = ran.first_end >= self.span.begin && last_end < self.span.end;
        if inside {
            self.series.turn(ran.first_end);
        }
        if inside && last_end < self.series.to {
            if self.phases.listen() {
                self.count_in_phase(ran, last_end);
            }
            self.latency.record(ran.first.0);
            self.count(ran.first_end, ran.bytes, ran.calls);
            self.gap(ran.first_end, ran.first);
            if ran.calls > 1 {
                if self.alike.0 != ran.each {
                    self.add_alike();
                    self.alike.0 = ran.each;
                }
                self.alike.1 += ran.calls - 1;
                self.starved = self.starved.max(ran.each);
            }
        } else if last_end >= self.span.begin && self.is_awaited(ran) {
            self.one_by_one(ran);
        }
        self.last_end = last_end;
    }

    /// All latencies so far are in the histogram.
    #[cold]
    fn add_alike(&mut self) {
        let (each, n) = std::mem::take(&mut self.alike);
        self.latency.record_n(each.0, n);
    }

    /// Calls that ended in the window and one interval count into the phase that is on.
    #[cold]
    fn count_in_phase(&mut self, ran: &Ran, last_end: Instant) {
        self.add_alike();
        let begun = before(ran.first_end, ran.first);
        let phase = self.phases.of_call(ran.write, begun, last_end, &self.latency);
        if let Some(mut phase) = phase {
            phase.latency(ran.first, 1);
            phase.latency(ran.each, ran.calls - 1);
            phase.record.bytes += ran.bytes * ran.calls;
            phase.record.ios += ran.calls;
        }
    }

    /// One of the calls may count: it ended in the window, or began in it and is the target's.
    fn is_awaited(&self, ran: &Ran) -> bool {
        let first = if self.target { before(ran.first_end, ran.first) } else { ran.first_end };
        first < self.span.end
    }

    /// A run that crosses a border of the window or of an interval.
    fn one_by_one(&mut self, ran: &Ran) {
        self.add_alike();
        let listens = self.phases.listen();
        let mut i = 0;
        while i < ran.calls {
            let end = ran.first_end + ran.each * i;
            let latency = if i == 0 { ran.first } else { ran.each };
            i += 1;
            if end < self.span.begin {
                continue;
            }
            let inside = end < self.span.end;
            if inside && i > 1 && !listens {
                i += self.some_alike(end, ran, ran.calls - i);
                continue;
            }
            // A call that began in the window counts although it ends behind it, if it is the target's.
            let began = before(end, latency);
            if inside || (self.target && began < self.span.end) {
                let phase = self.phases.of_call(ran.write, began, end, &self.latency);
                if let Some(mut phase) = phase {
                    phase.latency(latency, 1);
                    phase.record.bytes += ran.bytes * u64::from(inside);
                    phase.record.ios += u64::from(inside);
                }
                self.latency.record(latency.0);
                self.gap(end, latency);
            }
            if inside {
                self.count(end, ran.bytes, 1);
            }
            self.last_end = end;
        }
    }

    /// A call behind the first of a run, which ends in the window, and at most so many that follow, up to the end of the
    /// interval; how many of them.
    fn some_alike(&mut self, end: Instant, ran: &Ran, most: u64) -> u64 {
        self.series.turn(end);
        let rest = self.series.to.min(self.span.end) - end;
        let following = match ran.each.0 {
            0 => most,
            each => most.min((rest.0 - 1) / each),
        };
        self.latency.record_n(ran.each.0, 1 + following);
        self.gap(end, ran.each);
        if following > 0 {
            self.starved = self.starved.max(ran.each);
        }
        self.count(end, ran.bytes, 1 + following);
        self.last_end = end + ran.each * following;
        following
    }

    fn count(&mut self, end: Instant, bytes: u64, calls: u64) {
        self.bytes += bytes * calls;
        self.ios += calls;
        self.series.add(end, bytes * calls, calls);
    }

    /// The time without a completion while this call was outstanding.
    fn gap(&mut self, end: Instant, latency: Nanos) {
        let since = before(end, latency).max(self.last_end).max(self.span.begin);
        self.starved = self.starved.max(end.since(since));
    }

    /// A call begun at `began` is still open when the process is no longer looked at.
    pub fn left_open(&mut self, now: Instant, began: Instant) {
        let since = began.max(self.last_end).max(self.span.begin);
        self.starved = self.starved.max(now.since(since));
    }

    /// A call of `latency` is over at `end`; counts as [`ran`](ProcStats::ran) of one call.
    #[inline]
    pub fn one(&mut self, end: Instant, latency: Nanos, bytes: u64) {
        self.latency.record(latency.0);
        self.count(end, bytes, 1);
        self.gap(end, latency);
        self.last_end = end;
    }

    pub fn record(mut self, spec: &ProcSpec) -> ProcRecord {
        self.add_alike();
        ProcRecord {
            name: spec.name.clone(),
            role: spec.role,
            latency: self.latency.finished(),
            bytes: self.bytes,
            ios: self.ios,
            intervals: self.series.slots,
            censored: self.censored,
            starved: self.starved,
            counts: self.counts.iter().map(|&(what, n)| (what.to_string(), n)).collect(),
            phases: self.phases.finish(&self.latency),
        }
    }
}

/// When a call began that took so long; what began before the clock began with it.
fn before(end: Instant, latency: Nanos) -> Instant {
    Instant::from_nanos(end.as_nanos().saturating_sub(latency.0))
}

/// One command at the device.
#[derive(Clone, Copy, Debug)]
pub(super) struct Served {
    pub op: Op,
    pub bytes: u64,
    pub issued: Instant,
    pub sequential: bool,
}

/// Sums over the time of one value of the depth.
#[derive(Clone, Copy, Debug, Default)]
struct Area {
    /// Integral of requests outstanding, in request-nanoseconds.
    depth: u128,
    /// Time with at least one.
    busy: u64,
}

/// Counters of the device.
#[derive(Debug)]
pub(super) struct DeviceStats {
    span: Span,
    record: DeviceRecord,
    series: Series,
    pub outstanding: u64,
    last: Instant,
    area: Area,
    at_begin: Area,
    at_end: Area,
    /// Sum of the device times of all commands served.
    served_time: u128,
    /// Sum of the issue times of the commands outstanding.
    issue_times: u128,
    pub issued: u64,
    /// Where recent commands ended, by a hash of the place: a command that begins there is sequential.
    ends: Vec<u64>,
}

/// Size of the table of recent ends, a power of two.
const ENDS: usize = 1024;

fn end_slot(byte: u64) -> usize {
    ((byte >> 9).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 54) as usize & (ENDS - 1)
}

impl DeviceStats {
    pub fn new(span: Span, window: &Window) -> DeviceStats {
        DeviceStats {
            span,
            record: DeviceRecord { device_time: Histogram::new(), ..DeviceRecord::default() },
            series: Series::new(span, window.device_interval),
            outstanding: 0,
            last: Instant::ZERO,
            area: Area::default(),
            at_begin: Area::default(),
            at_end: Area::default(),
            served_time: 0,
            issue_times: 0,
            issued: 0,
            ends: vec![u64::MAX; ENDS],
        }
    }

    /// Counters from the beginning of the run on, whose end is not known: [`cut`](DeviceStats::cut) will say.
    pub fn open_ended(window: &Window) -> DeviceStats {
        let begin = Instant::ZERO;
        let mut stats = DeviceStats::new(Span { begin, end: begin }, window);
        stats.span.end = FOREVER;
        stats.series = Series::growing(window.device_interval);
        stats
    }

    /// Length of an interval.
    pub fn interval(&self) -> u64 {
        self.series.length
    }

    /// Makes intervals so long, at least.
    pub fn coarsen(&mut self, length: u64) {
        self.series.coarsen(length);
    }

    #[inline]
    fn advance(&mut self, now: Instant) {
        let passed = now - self.last;
        self.last = now;
        self.area.depth += u128::from(self.outstanding * passed.0);
        if self.outstanding > 0 {
            self.area.busy += passed.0;
        }
    }

    /// Bytes moved since measuring began.
    pub fn moved(&self) -> u64 {
        self.record.read_bytes + self.record.written_bytes
    }

    /// The window, which has begun, ends sooner: nothing has been counted beyond `end`.
    pub fn cut(&mut self, end: Instant) {
        self.span.end = end;
        self.series.cut(end);
    }

    /// A command goes to the device; true when it begins where an earlier one ended.
    #[inline]
    pub fn issue(&mut self, now: Instant, op: Op, start: u64, bytes: u64) -> bool {
        self.advance(now);
        self.outstanding += 1;
        self.issued += 1;
        self.issue_times += u128::from(now.as_nanos());
        if op == Op::Flush {
            return false;
        }
        let sequential = self.ends[end_slot(start)] == start;
        self.ends[end_slot(start + bytes)] = start + bytes;
        sequential
    }

    /// It has been served.
    #[inline]
    pub fn done(&mut self, now: Instant, served: &Served) {
        self.advance(now);
        self.outstanding -= 1;
        let time = now - served.issued;
        self.served_time += u128::from(time.0);
        self.issue_times -= u128::from(served.issued.as_nanos());
        if now < self.span.begin || now >= self.span.end {
            return;
        }
        let r = &mut self.record;
        r.commands += 1;
        match served.op {
            Op::Flush => {
                r.flushes += 1;
                return;
            }
            Op::Read => r.read_bytes += served.bytes,
            _ => r.written_bytes += served.bytes,
        }
        r.sequential += u64::from(served.sequential);
        r.device_time.record(time.0);
        self.series.add(now, served.bytes, 1);
    }

    /// The window begins; `merged`: bios that have joined a request so far.
    pub fn begin(&mut self, merged: u64) {
        self.advance(self.span.begin);
        self.at_begin = self.area;
        self.record.merges = merged;
    }

    /// The window ends.
    pub fn end(&mut self, merged: u64) {
        self.advance(self.span.end);
        self.at_end = self.area;
        self.record.merges = merged - self.record.merges;
    }

    /// The record, once Little's law has been found to hold over the whole run: the integral of the
    /// depth is the sum of the times in the device (statistics.md 6). In integers it holds exactly.
    pub fn finish(mut self, now: Instant) -> DeviceRecord {
        self.advance(now);
        let open = u128::from(self.outstanding) * u128::from(now.as_nanos()) - self.issue_times;
        assert_eq!(self.area.depth, self.served_time + open, "Little's law, L = lambda W");
        let length = (self.span.end - self.span.begin).0.max(1) as f64;
        let depth = self.at_end.depth - self.at_begin.depth;
        self.record.depth = depth as f64 / length;
        self.record.utilisation = (self.at_end.busy - self.at_begin.busy) as f64 / length;
        self.record.intervals = self.series.slots;
        self.record.device_time = self.record.device_time.finished();
        self.record
    }
}

/// A figure of the scheduler for the record.
pub(super) fn figure(f: hoistway::stage::Figure) -> NamedFigure {
    NamedFigure { name: f.name.to_string(), of: f.of, value: f.value }
}
