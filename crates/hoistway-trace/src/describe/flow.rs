//! How requests follow each other: in place (sequential runs) and in time (arrivals, depth).

use super::sketch::{Bins, Histogram};
use crate::{Kind, Op, Record};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

/// Which requests continue where another ended.
///
/// Three questions, since each hides what another shows: does it continue the *previous request of the device* (what a
/// disk without a scheduler sees); the previous one of *its process* (what the program does); *any of the last 32 streams*
/// of the device (what a scheduler or a drive's cache can make of interleaved streams). A run is a stream's length in
/// bytes until it is given up for a newer one or the trace ends.
#[derive(Debug, Default)]
pub struct Sequence {
    /// Requests looked at: reads and writes with data.
    pub looked: u64,
    /// Continue the previous one of their device.
    pub of_device: u64,
    /// Continue the previous one of their process on the device.
    pub of_process: u64,
    /// Continue one of the device's streams.
    pub of_streams: u64,
    /// Lengths of runs in bytes.
    pub runs: Histogram,
    /// By device: where its last request ended.
    ends: BTreeMap<u32, u64>,
    /// By process and device.
    process_ends: BTreeMap<(u32, u32), u64>,
    /// By device and operation, the most recent last: (end, bytes so far).
    streams: BTreeMap<(u32, Op), VecDeque<(u64, u64)>>,
}

/// Streams of a device and direction that are followed: as many as a disk's cache has segments, about.
const STREAMS: usize = 32;
/// Processes whose last request is remembered, and pairs of device and direction whose streams are; of further ones no
/// request counts as sequential.
const PROCESSES: usize = 65_536;

impl Sequence {
    /// One more request; true if it continues its process's last.
    pub(super) fn add(&mut self, r: &Record) -> bool {
        self.looked += 1;
        let end = r.offset + r.len;
        self.of_device += u64::from(self.ends.insert(r.device, end) == Some(r.offset));
        let key = (r.process, r.device);
        let room = self.process_ends.len() < PROCESSES || self.process_ends.contains_key(&key);
        let continues = room && self.process_ends.insert(key, end) == Some(r.offset);
        self.of_process += u64::from(continues);
        let key = (r.device, r.op);
        if self.streams.len() >= PROCESSES && !self.streams.contains_key(&key) {
            return continues;
        }
        let streams = self.streams.entry(key).or_default();
        match streams.iter().rposition(|(end, _)| *end == r.offset) {
            Some(at) => {
                self.of_streams += 1;
                let (_, bytes) = streams.remove(at).expect("it was just found");
                streams.push_back((end, bytes + r.len));
            }
            None => {
                if streams.len() == STREAMS {
                    let (_, bytes) = streams.pop_front().expect("it is full");
                    self.runs.add(bytes);
                }
                streams.push_back((end, r.len));
            }
        }
        continues
    }

    pub(super) fn finish(&mut self) {
        for (_, bytes) in std::mem::take(&mut self.streams).into_values().flatten() {
            self.runs.add(bytes);
        }
    }
}

/// When requests arrive.
#[derive(Debug)]
pub struct Arrivals {
    /// Times between arrivals in ns.
    pub between: Histogram,
    /// Since the first arrival: requests, bytes read, bytes written. Width in ns.
    pub series: Bins<3>,
    /// Counts in windows of 1 ms, 10 ms, 100 ms, 1 s and 10 s.
    pub windows: [Windows; 5],
    first: Option<u64>,
    last: Option<u64>,
}

/// Counts of arrivals in windows of one length.
#[derive(Clone, Copy, Debug)]
pub struct Windows {
    /// Length in ns.
    pub length: u64,
    at: u64,
    count: u64,
    windows: u64,
    sum: f64,
    squares: f64,
    /// The most arrivals in one window, and when it begins.
    pub peak: (u64, u64),
}

impl Windows {
    fn new(length: u64) -> Windows {
        let (at, count, windows, sum, squares, peak) = (0, 0, 0, 0.0, 0.0, (0, 0));
        Windows { length, at, count, windows, sum, squares, peak }
    }

    #[inline]
    fn add(&mut self, time: u64) {
        let at = time / self.length;
        if at != self.at {
            self.close();
            // Empty windows between count as windows.
            self.windows += at - self.at - 1;
            self.at = at;
        }
        self.count += 1;
    }

    fn close(&mut self) {
        let n = self.count as f64;
        self.sum += n;
        self.squares += n * n;
        self.windows += 1;
        if self.count > self.peak.0 {
            self.peak = (self.count, self.at * self.length);
        }
        self.count = 0;
    }

    /// Index of dispersion: variance / mean of the counts. 1 for independent arrivals (Poisson), 0 for a metronome,
    /// more for bursts. `None` with fewer than 10 whole windows: nothing can be said.
    pub fn dispersion(&self) -> Option<f64> {
        // The last window is cut off by the trace's end, so it is not closed and not counted.
        if self.windows < 10 || self.sum == 0.0 {
            return None;
        }
        let n = self.windows as f64;
        let mean = self.sum / n;
        Some((self.squares / n - mean * mean).max(0.0) / mean)
    }
}

impl Default for Arrivals {
    fn default() -> Self {
        let lengths = [1_000_000, 10_000_000, 100_000_000, 1_000_000_000, 10_000_000_000];
        Arrivals {
            between: Histogram::default(),
            series: Bins::new(1_000_000, 512),
            windows: lengths.map(Windows::new),
            first: None,
            last: None,
        }
    }
}

impl Arrivals {
    #[inline]
    pub(super) fn add(&mut self, r: &Record) {
        if let Some(last) = self.last.replace(r.time) {
            self.between.add(r.time - last);
        }
        let (read, write) = match r.op {
            Op::Read => (r.len, 0),
            Op::Write => (0, r.len),
            Op::Flush | Op::Discard => (0, 0),
        };
        let time = r.time - *self.first.get_or_insert(r.time);
        self.series.add(time, [1, read, write]);
        self.windows.iter_mut().for_each(|w| w.add(time));
    }

    /// The most arrivals in one second, and the time at which it begins. The cut-off last second counts too.
    pub fn peak(&self) -> (u64, u64) {
        let w = &self.windows[3];
        w.peak.max((w.count, w.at * w.length))
    }
}

/// How many requests were outstanding, and how long each took on the recorded device, from completions or response times.
#[derive(Debug, Default)]
pub struct Depth {
    /// Requests outstanding when one arrives, that one left out.
    pub at_arrival: Histogram,
    /// Response times in ns of reads and of everything else.
    pub responses: [Histogram; 2],
    /// Completions that matched no arrival.
    pub unmatched: u64,
    /// Sum of outstanding requests times ns.
    area: f64,
    last: u64,
    /// By (device, offset, order of arrival): time of arrival and operation. For traces with completions of their own.
    waiting: BTreeMap<(u32, u64, u64), (u64, Op)>,
    arrived: u64,
    /// Times at which requests with a known response time complete.
    due: BinaryHeap<Reverse<u64>>,
    /// Requests forgotten because their completion never came.
    pub lost: u64,
}

/// Outstanding requests that are remembered; no device has as many.
const OUTSTANDING: usize = 1 << 16;

impl Depth {
    /// One more record, arrival or completion.
    pub(super) fn add(&mut self, r: &Record) {
        match (r.kind, r.response) {
            (Kind::Arrival, Some(response)) => self.timed(r, response),
            (Kind::Arrival, None) => self.arrival(r),
            (Kind::Complete, _) => self.completion(r),
            (Kind::Plug | Kind::Unplug, _) => {}
        }
    }

    fn advance(&mut self, time: u64) {
        while let Some(Reverse(due)) = self.due.peek().copied().filter(|Reverse(d)| *d <= time) {
            self.pass(due);
            self.due.pop();
        }
        self.pass(time);
    }

    fn pass(&mut self, time: u64) {
        let out = (self.waiting.len() + self.due.len()) as f64;
        self.area += out * time.saturating_sub(self.last) as f64;
        self.last = self.last.max(time);
    }

    fn timed(&mut self, r: &Record, response: u64) {
        self.advance(r.time);
        self.at_arrival.add((self.waiting.len() + self.due.len()) as u64);
        self.responses[usize::from(r.op != Op::Read)].add(response);
        if self.due.len() < OUTSTANDING {
            self.due.push(Reverse(r.time.saturating_add(response)));
        } else {
            self.lost += 1;
        }
    }

    fn arrival(&mut self, r: &Record) {
        self.advance(r.time);
        self.at_arrival.add((self.waiting.len() + self.due.len()) as u64);
        if self.waiting.len() >= OUTSTANDING {
            // Completions are missing from the trace: begin anew.
            self.lost += self.waiting.len() as u64;
            self.waiting.clear();
        }
        self.arrived += 1;
        self.waiting.insert((r.device, r.offset, self.arrived), (r.time, r.op));
    }

    /// A completion ends every arrival that begins within its range: requests are merged bios.
    fn completion(&mut self, r: &Record) {
        self.advance(r.time);
        let end = r.offset.saturating_add(r.len.max(1));
        let range = (r.device, r.offset, 0)..(r.device, end, 0);
        let keys: Vec<_> = self
            .waiting
            .range(range)
            .filter(|(_, (_, op))| *op == r.op)
            .map(|(key, _)| *key)
            .collect();
        self.unmatched += u64::from(keys.is_empty());
        for key in keys {
            let (arrived, op) = self.waiting.remove(&key).expect("it was just found");
            self.responses[usize::from(op != Op::Read)].add(r.time.saturating_sub(arrived));
        }
    }

    /// Mean number of outstanding requests over so many ns.
    pub fn mean(&self, span: u64) -> f64 {
        if span == 0 { 0.0 } else { self.area / span as f64 }
    }
}
