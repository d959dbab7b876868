//! What a load is made of, in one pass and in memory that does not depend on the trace's length.
//!
//! | question | how |
//! |---|---|
//! | mix, sizes | counts; histograms by size |
//! | sequential or random | continuations of the device's last request, of the process's, of one of 32 streams ([`Sequence`]) |
//! | steady or in bursts | times between arrivals; index of dispersion at five time scales ([`Windows`]) |
//! | how deep | completions where the format has them ([`Depth`]) |
//! | working set | distinct 4 KiB blocks and 1 MiB regions, HyperLogLog ([`sketch::Distinct`]) |
//! | hot spots | most frequent 1 MiB regions, Misra-Gries ([`sketch::Frequent`]); concentration over 4096 bins |
//! | who | counters by process and device |
//!
//! Weaknesses: a request that was merged before it was recorded counts once; a sequential reader through the page cache
//! shows as read-ahead's large requests; the depth of a closed-loop load is partly the recorded device's speed.

mod flow;
pub mod sketch;

pub use flow::{Arrivals, Depth, Sequence, Windows};

use crate::{Flags, Kind, Op, Reader, Record};
use sketch::{Bins, Distinct, Frequent, Histogram};

/// What a load is made of.
#[derive(Debug)]
pub struct Description {
    /// By operation, in the order of [`Op::ALL`].
    pub ops: [Counts; 4],
    /// Requests with each mark.
    pub marks: [(&'static str, u64); 5],
    /// Time of the last record in ns; the first has 0 (or later, with filters).
    pub last: u64,
    /// Time of the first.
    pub first: Option<u64>,
    /// Sizes of reads and writes in bytes.
    pub sizes: [Histogram; 2],
    /// Reads and writes whose offset or length is no multiple of 4 KiB.
    pub unaligned: u64,
    /// Largest end of a request in bytes: the device has at least this size.
    pub end: u64,
    /// Order of places.
    pub sequence: Sequence,
    /// Order of times.
    pub arrivals: Arrivals,
    /// Outstanding requests; of use if `completions` is not 0 or responses are known.
    pub depth: Depth,
    /// Completions seen.
    pub completions: u64,
    /// Distinct 4 KiB blocks read, written, and either; distinct 1 MiB regions.
    pub blocks: [Distinct; 4],
    /// Most frequent 1 MiB regions, by device and number.
    pub hot: Frequent,
    /// Requests over the offsets of all devices together.
    pub places: Bins<1>,
    /// By number of the process; index 0: not said.
    pub processes: Vec<Party>,
    /// By number of the device.
    pub devices: Vec<Party>,
}

/// Requests and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests.
    pub requests: u64,
    /// Bytes.
    pub bytes: u64,
}

/// What one process does, or what is done to one device.
#[derive(Clone, Copy, Debug, Default)]
pub struct Party {
    /// Reads.
    pub reads: Counts,
    /// Writes.
    pub writes: Counts,
    /// Flushes and discards.
    pub others: u64,
    /// Reads and writes that continue its process's last one.
    pub sequential: u64,
}

impl Party {
    /// All its requests.
    pub fn requests(&self) -> u64 {
        self.reads.requests + self.writes.requests + self.others
    }

    fn add(&mut self, r: &Record, sequential: bool) {
        let counts = match r.op {
            Op::Read => &mut self.reads,
            Op::Write => &mut self.writes,
            Op::Flush | Op::Discard => {
                self.others += 1;
                return;
            }
        };
        counts.requests += 1;
        counts.bytes += r.len;
        self.sequential += u64::from(sequential);
    }
}

/// Processes and devices counted apart; those beyond are counted under the last.
const PARTIES: usize = 65_536;
/// Blocks counted of one request: 1 GiB of it. Longer ones are no reads or writes of a program.
const BLOCKS_MAX: u64 = 1 << 18;

impl Default for Description {
    fn default() -> Self {
        Description {
            ops: Default::default(),
            marks: [("sync", 0), ("meta", 0), ("ahead", 0), ("fua", 0), ("preflush", 0)],
            last: 0,
            first: None,
            sizes: Default::default(),
            unaligned: 0,
            end: 0,
            sequence: Sequence::default(),
            arrivals: Arrivals::default(),
            depth: Depth::default(),
            completions: 0,
            blocks: Default::default(),
            hot: Frequent::default(),
            places: Bins::new(1 << 20, 4096),
            processes: Vec::new(),
            devices: Vec::new(),
        }
    }
}

impl Description {
    /// Describes what a reader delivers. The reader should have been opened with completions; `tick` is called every
    /// 65 536 records and ends the work by returning false.
    pub fn of(
        reader: &mut Reader,
        mut tick: impl FnMut(&Reader) -> bool,
    ) -> Result<Description, crate::Error> {
        let mut all = Description::default();
        let mut record = Record::default();
        let mut n = 0_u64;
        while reader.read(&mut record)? {
            all.add(&record);
            n += 1;
            if n.is_multiple_of(65_536) && !tick(reader) {
                break;
            }
        }
        all.sequence.finish();
        Ok(all)
    }

    /// One more record.
    pub fn add(&mut self, r: &Record) {
        self.depth.add(r);
        match r.kind {
            Kind::Complete => {
                self.completions += 1;
                return;
            }
            Kind::Plug | Kind::Unplug => return,
            Kind::Arrival => {}
        }
        self.first.get_or_insert(r.time);
        self.last = self.last.max(r.time);
        let counts = &mut self.ops[r.op as usize];
        counts.requests += 1;
        counts.bytes += r.len;
        let flags = [Flags::SYNC, Flags::META, Flags::AHEAD, Flags::FUA, Flags::PREFLUSH];
        for ((_, count), flag) in self.marks.iter_mut().zip(flags) {
            *count += u64::from(r.flags.has(flag));
        }
        self.arrivals.add(r);
        let data = matches!(r.op, Op::Read | Op::Write) && r.len > 0;
        let sequential = data && self.place(r);
        party(&mut self.processes, r.process).add(r, sequential);
        party(&mut self.devices, r.device).add(r, sequential);
    }

    fn place(&mut self, r: &Record) -> bool {
        let write = usize::from(r.op == Op::Write);
        self.sizes[write].add(r.len);
        self.unaligned += u64::from(!(r.offset | r.len).is_multiple_of(4096));
        self.end = self.end.max(r.offset + r.len);
        self.places.add(r.offset, [1]);
        // Numbers of blocks of different devices are different numbers.
        let device = u64::from(r.device) << 48;
        let (first, last) = (r.offset >> 12, (r.offset + r.len - 1) >> 12);
        for block in first..=last.min(first + BLOCKS_MAX) {
            self.blocks[write].add(device ^ block);
            self.blocks[2].add(device ^ block);
        }
        for region in (first >> 8)..=(last >> 8).min((first + BLOCKS_MAX) >> 8) {
            self.blocks[3].add(device ^ region);
        }
        self.hot.add((r.device, r.offset >> 20));
        self.sequence.add(r)
    }

    /// All requests.
    pub fn requests(&self) -> u64 {
        self.ops.iter().map(|c| c.requests).sum()
    }

    /// From the first arrival to the last, in ns.
    pub fn span(&self) -> u64 {
        self.last - self.first.unwrap_or(self.last)
    }

    /// Whether anything is known about completions.
    pub fn has_completions(&self) -> bool {
        self.depth.responses.iter().any(|h| h.count() > 0)
    }

    /// The share of requests that went to the busiest `percent` of the bins of [`Description::places`] that were touched
    /// at all, 0 to 1. `None` with fewer than 100 such bins.
    pub fn concentration(&self, percent: f64) -> Option<f64> {
        let mut counts: Vec<u64> =
            self.places.bins().iter().map(|b| b[0]).filter(|c| *c > 0).collect();
        if counts.len() < 100 {
            return None;
        }
        counts.sort_unstable_by(|a, b| b.cmp(a));
        let n = (counts.len() as f64 * percent / 100.0).round() as usize;
        let all: u64 = counts.iter().sum();
        Some(counts[..n].iter().sum::<u64>() as f64 / all as f64)
    }
}

fn party(all: &mut Vec<Party>, id: u32) -> &mut Party {
    let at = (id as usize).min(PARTIES - 1);
    if all.len() <= at {
        all.resize(at + 1, Party::default());
    }
    &mut all[at]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Names, Options};

    fn of(records: Vec<Record>) -> Description {
        let options = Options { completions: true, ..Options::default() };
        let mut reader = Reader::from_records(records, Names::default(), &options).unwrap();
        Description::of(&mut reader, |_| true).unwrap()
    }

    fn read(time: u64, process: u32, offset: u64, len: u64) -> Record {
        Record { time, process, offset, len, ..Record::default() }
    }

    #[test]
    fn interleaved_streams_are_random_for_the_device_and_sequential_for_their_processes() {
        let mut records = Vec::new();
        for i in 0..100_u64 {
            records.push(read(i * 20, 1, i * 4096, 4096));
            records.push(read(i * 20 + 10, 2, (1 << 30) + i * 4096, 4096));
        }
        let d = of(records);
        let s = &d.sequence;
        assert_eq!((s.looked, s.of_device, s.of_process, s.of_streams), (200, 0, 198, 198));
        assert_eq!((s.runs.count(), s.runs.max()), (2, Some(409_600)));
        assert_eq!((d.processes[1].sequential, d.processes[2].reads.bytes), (99, 409_600));
        assert_eq!(d.blocks[2].estimate(), 200);
        assert_eq!(d.blocks[3].estimate(), 2);
        assert_eq!((d.span(), d.requests(), d.unaligned), (1990, 200, 0));
    }

    #[test]
    fn the_index_of_dispersion_tells_a_metronome_from_bursts() {
        let ms = 1_000_000;
        let metronome = of((0..2000).map(|i| read(i * ms / 2, 0, 0, 512)).collect());
        let w = &metronome.arrivals.windows[1];
        assert_eq!(w.dispersion(), Some(0.0));
        // 20 at once every 10 ms, in one millisecond of ten.
        let bursts = of((0..2000).map(|i| read(i / 20 * 10 * ms, 0, 0, 512)).collect());
        let d = bursts.arrivals.windows[0].dispersion().unwrap();
        assert!((17.0..19.0).contains(&d), "{d}");
        assert_eq!(bursts.arrivals.windows[1].dispersion(), Some(0.0));
        assert_eq!(bursts.arrivals.peak(), (2000, 0));
        assert_eq!(bursts.arrivals.between.percentile(50.0), Some(0));
        assert_eq!(of(vec![read(0, 0, 0, 512)]).arrivals.windows[0].dispersion(), None);
    }

    #[test]
    fn a_completion_ends_the_arrivals_that_were_merged_into_it() {
        let complete =
            |time, offset, len| Record { kind: Kind::Complete, ..read(time, 0, offset, len) };
        let d = of(vec![
            read(0, 1, 0, 4096),
            read(10, 1, 4096, 4096),
            read(20, 1, 1 << 20, 4096),
            complete(110, 0, 8192),
            complete(120, 1 << 20, 4096),
            complete(130, 1 << 20, 4096),
        ]);
        let responses = &d.depth.responses[0];
        assert_eq!((responses.count(), responses.max()), (3, Some(110)));
        assert_eq!(responses.mean(), Some(310.0 / 3.0));
        assert_eq!(d.depth.at_arrival.max(), Some(2));
        assert_eq!((d.depth.unmatched, d.completions), (1, 3));
        // 110 + 100 + 100 request-ns.
        assert_eq!(d.depth.mean(310), 1.0);
    }

    #[test]
    fn response_times_give_depth_too() {
        let timed = |time, response| Record { response: Some(response), ..read(time, 0, 0, 512) };
        let d = of(vec![timed(0, 100), timed(10, 100), timed(105, 10)]);
        assert_eq!(d.depth.at_arrival.percentile(100.0), Some(1));
        assert_eq!(d.depth.at_arrival.mean(), Some(2.0 / 3.0));
        assert!(d.has_completions());
        assert!(!of(vec![read(0, 0, 0, 512)]).has_completions());
    }

    #[test]
    fn hot_spots_show_in_the_concentration_and_among_the_frequent_regions() {
        let mut records = Vec::new();
        for i in 0..1000_u64 {
            records.push(read(i, 0, i << 20, 4096));
            records.push(read(i, 0, 7 << 20, 4096));
        }
        let d = of(records);
        assert_eq!(d.hot.top(1), [((0, 7), 1001)]);
        assert_eq!(d.concentration(1.0), Some((1001.0 + 9.0) / 2000.0));
        assert_eq!(d.concentration(100.0), Some(1.0));
    }
}
