//! The stream of records: parsers merged by time, ordered, rebased and filtered.
//!
//! ```text
//!   files -> parser each -> merge by time -> window -> time base -> filters -> caller's buffer
//! ```
//!
//! Several files are one trace only where a format says so (blktrace: one file a CPU). The time base is the first
//! record that leaves the window, filtered out or not, so that a filter does not shift times.

use crate::error::{Error, Malformed, excerpt, shown};
use crate::format::{self, Context, Format, Parser, Step, looks, recognise};
use crate::input::Input;
use crate::order::Order;
use crate::{Kind, Names, Options, Record};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Malformed records before the first good one after which a trace is given up: it is in another format. As many lines as
/// recognition looks at.
const HOPELESS: u64 = 1000;

/// Reads a trace.
pub struct Reader {
    name: String,
    source: Source,
    format: Option<&'static Format>,
    options: Options,
    context: Context,
    order: Order,
    base: Option<u64>,
    /// Records in order of time, wanted or not, and whether one has another time than the first.
    ordered: u64,
    moved: bool,
    /// By device: passes the filter. Indexed by the device's number.
    wanted: Vec<bool>,
    arrivals: u64,
    /// Records parsed, wanted or not.
    understood: u64,
    malformed: u64,
    first: Option<Malformed>,
    ended: bool,
}

enum Source {
    Streams(Vec<Stream>),
    Records(std::vec::IntoIter<Record>),
}

/// One file of the trace.
struct Stream {
    input: Input,
    parser: Box<dyn Parser>,
    /// The next record, if several files are merged.
    head: Option<Record>,
    ended: bool,
}

impl std::fmt::Debug for Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Reader({}, {} arrivals so far)", self.name, self.arrivals)
    }
}

impl Reader {
    /// Opens a trace: a file (plain, gzip or zstd), `-` for standard input, or the common name of the files of
    /// `blktrace -o NAME`, which are `NAME.blktrace.0`, `NAME.blktrace.1`, ...
    pub fn open(path: &Path, options: &Options) -> Result<Reader, Error> {
        let paths = format::files_of(path)?;
        let inputs = paths.iter().map(|p| Input::open(p)).collect::<Result<Vec<_>, _>>()?;
        Reader::new(shown(path), inputs, options)
    }

    /// A trace that lies in memory, in any of the formats; `name` is for messages.
    pub fn from_bytes(name: &str, bytes: Vec<u8>, options: &Options) -> Result<Reader, Error> {
        Reader::from_read(name, Box::new(std::io::Cursor::new(bytes)), options)
    }

    /// A trace that comes from anywhere, in any of the formats; `name` is for messages.
    pub fn from_read(
        name: &str,
        source: Box<dyn std::io::Read + Send>,
        options: &Options,
    ) -> Result<Reader, Error> {
        let input = Input::new(name.to_string(), source, None)?;
        Reader::new(name.to_string(), vec![input], options)
    }

    /// Records made elsewhere, with their names; they pass through the same window and filters.
    pub fn from_records(
        records: Vec<Record>,
        names: Names,
        options: &Options,
    ) -> Result<Reader, Error> {
        options.check()?;
        let mut reader = Reader::empty("records".into(), options);
        reader.source = Source::Records(records.into_iter());
        reader.context.names = names;
        Ok(reader)
    }

    fn new(name: String, mut inputs: Vec<Input>, options: &Options) -> Result<Reader, Error> {
        options.check()?;
        let mut reader = Reader::empty(name, options);
        let format = format_of(&mut inputs, options)?;
        reader.format = Some(format);
        reader.order = Order::new(options.window.unwrap_or(format.window));
        let several = inputs.len() > 1;
        let mut streams = Vec::new();
        for input in inputs {
            let parser = (format.parser)(&input.name)?;
            streams.push(Stream { input, parser, head: None, ended: false });
        }
        reader.source = Source::Streams(streams);
        if several {
            reader.prime()?;
        }
        Ok(reader)
    }

    fn empty(name: String, options: &Options) -> Reader {
        Reader {
            name,
            source: Source::Records(Vec::new().into_iter()),
            format: None,
            options: options.clone(),
            context: Context::new(options),
            order: Order::new(options.window.unwrap_or(0)),
            base: None,
            ordered: 0,
            moved: false,
            wanted: Vec::new(),
            arrivals: 0,
            understood: 0,
            malformed: 0,
            first: None,
            ended: false,
        }
    }

    /// The next record into `record`; false at the end of the trace.
    pub fn read(&mut self, record: &mut Record) -> Result<bool, Error> {
        while !self.ended {
            let Some(next) = self.ordered()? else {
                self.ended = true;
                break;
            };
            let base = *self.base.get_or_insert(next.time);
            let time = next.time - base;
            self.ordered += 1;
            self.moved |= time > 0;
            if self.options.to.is_some_and(|to| time >= to) {
                self.ended = true;
                break;
            }
            if time < self.options.from || !self.passes(&next) {
                continue;
            }
            if next.kind == Kind::Arrival {
                if self.options.limit.is_some_and(|limit| self.arrivals >= limit) {
                    self.ended = true;
                    break;
                }
                self.arrivals += 1;
            }
            *record = Record { time: time - self.options.from, ..next };
            return Ok(true);
        }
        Ok(false)
    }

    /// The format; `None` for records from memory.
    pub fn format(&self) -> Option<&'static Format> {
        self.format
    }

    /// The names of the processes, groups and devices met so far.
    pub fn names(&self) -> &Names {
        &self.context.names
    }

    /// Records that could not be parsed so far.
    pub fn malformed(&self) -> u64 {
        self.malformed
    }

    /// The first of them.
    pub fn first_malformed(&self) -> Option<&Malformed> {
        self.first.as_ref()
    }

    /// Records further out of order than the window; each was given the time of the one before it.
    pub fn late(&self) -> u64 {
        self.order.late()
    }

    /// Arrivals so far for which the trace has no time of their own (fio iolog 2: no `wait` before them); each has the time
    /// of the one before it.
    pub fn untimed(&self) -> u64 {
        self.context.untimed
    }

    /// Recordings so far that follow another one in the same file and begin their times anew. Each is put behind the one
    /// before.
    pub fn recordings(&self) -> u64 {
        self.context.recordings
    }

    /// Whether the times of what was read so far are those of the recording. Not if all records have the same one, or if
    /// most have none of their own or lost it since they were out of order.
    pub fn times_known(&self) -> bool {
        let lost = self.untimed() + self.late();
        lost * 2 <= self.ordered && (self.moved || self.ordered <= 1)
    }

    /// Records parsed so far, whether they were asked for or not.
    pub fn understood(&self) -> u64 {
        self.understood
    }

    /// Time of the first record as the trace has it, in ns: since 1970 for formats with a date (MSR: since 1601), else
    /// since whatever the tracer counts from. `None` before the first record.
    pub fn base(&self) -> Option<u64> {
        self.base
    }

    /// Bytes of the file that have been read, compressed as it lies there, and its size. The size is `None` for
    /// standard input.
    pub fn progress(&self) -> (u64, Option<u64>) {
        let Source::Streams(streams) = &self.source else { return (0, None) };
        let mut taken = 0;
        let mut size = Some(0);
        for (t, s) in streams.iter().map(|s| s.input.progress()) {
            taken += t.load(Ordering::Relaxed);
            size = size.zip(s).map(|(a, b)| a + b);
        }
        (taken, size)
    }

    /// The counters behind [`Reader::progress`], one a file, for a thread that shows progress while another reads.
    pub fn progress_counters(&self) -> Vec<Arc<AtomicU64>> {
        match &self.source {
            Source::Streams(streams) => streams.iter().map(|s| s.input.progress().0).collect(),
            Source::Records(_) => Vec::new(),
        }
    }

    /// The next record in order of time.
    #[inline]
    fn ordered(&mut self) -> Result<Option<Record>, Error> {
        loop {
            match self.merged()? {
                Some(record) => {
                    if let Some(next) = self.order.push(record) {
                        return Ok(Some(next));
                    }
                }
                None => return Ok(self.order.pop()),
            }
        }
    }

    /// The next record of the file whose next record is earliest.
    #[inline]
    fn merged(&mut self) -> Result<Option<Record>, Error> {
        match &mut self.source {
            Source::Records(records) => Ok(records.next()),
            Source::Streams(streams) if streams.len() == 1 => self.parsed(0),
            Source::Streams(streams) => {
                let heads = streams.iter().enumerate();
                let heads = heads.filter_map(|(i, s)| s.head.map(|r| (r.time, i)));
                let Some((_, at)) = heads.min() else { return Ok(None) };
                let next = streams[at].head.take();
                let refill = self.parsed(at)?;
                if let Source::Streams(streams) = &mut self.source {
                    streams[at].head = refill;
                }
                Ok(next)
            }
        }
    }

    fn prime(&mut self) -> Result<(), Error> {
        let n = if let Source::Streams(streams) = &self.source { streams.len() } else { 0 };
        for at in 0..n {
            let head = self.parsed(at)?;
            if let Source::Streams(streams) = &mut self.source {
                streams[at].head = head;
            }
        }
        Ok(())
    }

    /// The next record of one file. Malformed ones are counted here, or end it all.
    #[inline]
    fn parsed(&mut self, at: usize) -> Result<Option<Record>, Error> {
        let mut record = Record::default();
        loop {
            let Source::Streams(streams) = &mut self.source else { return Ok(None) };
            let several = streams.len() > 1;
            let stream = &mut streams[at];
            if stream.ended {
                break;
            }
            match stream.parser.next(&mut stream.input, &mut self.context, &mut record)? {
                Step::Record => {
                    self.understood += 1;
                    return Ok(Some(record));
                }
                Step::Unwanted => self.understood += 1,
                Step::Nothing => {}
                Step::End => stream.ended = true,
                Step::Bad(bad) => {
                    self.understood += u64::from(bad.known);
                    let what = Malformed {
                        file: several.then(|| stream.input.name.clone()),
                        line: bad.line,
                        byte: bad.byte,
                        fault: bad.fault,
                        text: excerpt(stream.input.text(bad.from, bad.to)),
                    };
                    self.bad(what)?;
                }
            }
        }
        if self.malformed > 0 && self.understood == 0 {
            return Err(self.hopeless());
        }
        Ok(None)
    }

    fn bad(&mut self, what: Malformed) -> Result<(), Error> {
        if self.options.strict {
            let what = if self.understood > 0 { what } else { without_text(what) };
            return Err(Error::Malformed { name: self.name.clone(), what: Box::new(what) });
        }
        self.malformed += 1;
        self.first.get_or_insert(what);
        if self.malformed >= HOPELESS && self.understood == 0 {
            return Err(self.hopeless());
        }
        Ok(())
    }

    fn hopeless(&self) -> Error {
        let first = self.first.clone().expect("a malformed record was kept");
        Error::Hopeless {
            name: self.name.clone(),
            format: self.format.map_or("?", |f| f.name),
            count: self.malformed,
            first: Box::new(without_text(first)),
        }
    }

    fn passes(&mut self, record: &Record) -> bool {
        let within = record.offset >= self.options.offset_from
            && self.options.offset_to.is_none_or(|to| record.offset < to);
        let anywhere = matches!(record.kind, Kind::Plug | Kind::Unplug);
        (within || anywhere) && (self.options.devices.is_empty() || self.device_passes(record))
    }

    fn device_passes(&mut self, record: &Record) -> bool {
        let id = record.device as usize;
        while self.wanted.len() <= id {
            let name = self.context.names.devices.name(self.wanted.len() as u32);
            self.wanted.push(self.options.devices.iter().any(|d| d == name));
        }
        self.wanted[id]
    }
}

fn without_text(what: Malformed) -> Malformed {
    Malformed { text: String::new(), ..what }
}

/// The format of a trace: the one that was asked for, or what the first file that has anything in it is. blktrace leaves
/// empty files for CPUs that had nothing to do.
fn format_of(inputs: &mut [Input], options: &Options) -> Result<&'static Format, Error> {
    for input in inputs.iter_mut() {
        let (bytes, whole) = input.head(format::HEAD)?;
        if bytes.is_empty() {
            continue;
        }
        if let Some(what) = looks::binary(&recognise::Head { bytes, whole }) {
            return Err(Error::Unrecognised { name: input.name.clone(), problem: what.into() });
        }
        return options.format.map_or_else(|| recognise::recognise(input), Ok);
    }
    let name = inputs.first().map_or_else(String::new, |input| input.name.clone());
    Err(Error::Unrecognised { name, problem: "is empty".into() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Op;

    fn all(reader: &mut Reader) -> Vec<Record> {
        let mut out = Vec::new();
        let mut record = Record::default();
        while reader.read(&mut record).unwrap() {
            out.push(record);
        }
        out
    }

    fn msr(lines: &[(u64, &str, u64)]) -> Vec<u8> {
        let line = |(t, op, offset): &(u64, &str, u64)| {
            format!("{},h,1,{op},{offset},4096,100\n", 128_166_372_000_000_000 + t)
        };
        lines.iter().map(line).collect::<String>().into()
    }

    fn at(time: u64, device: u32) -> Record {
        Record { time, device, ..Record::default() }
    }

    #[test]
    fn records_out_of_order_within_the_window_are_sorted_and_time_begins_at_the_earliest() {
        let bytes = msr(&[(50, "Read", 1), (20, "Write", 2), (90, "Read", 3)]);
        let mut reader = Reader::from_bytes("t", bytes, &Options::default()).unwrap();
        let got = all(&mut reader);
        let got: Vec<_> = got.iter().map(|r| (r.time, r.op, r.offset)).collect();
        assert_eq!(got, [(0, Op::Write, 2), (3000, Op::Read, 1), (7000, Op::Read, 3)]);
        assert_eq!((reader.late(), reader.base()), (0, Some(12_816_637_200_000_002_000)));
    }

    #[test]
    fn filters_do_not_shift_times_but_from_does() {
        let mut names = Names::default();
        let (a, b) = (names.devices.intern(b"a"), names.devices.intern(b"b"));
        let records = vec![at(5, a), at(15, b), at(25, a), at(35, b), at(45, b)];
        let times = |options: Options| {
            let mut reader =
                Reader::from_records(records.clone(), names.clone(), &options).unwrap();
            all(&mut reader).iter().map(|r| r.time).collect::<Vec<_>>()
        };
        let devices = vec!["b".to_string()];
        assert_eq!(times(Options::default()), [0, 10, 20, 30, 40]);
        assert_eq!(times(Options { devices: devices.clone(), ..Options::default() }), [10, 30, 40]);
        assert_eq!(times(Options { from: 20, to: Some(40), ..Options::default() }), [0, 10]);
        assert_eq!(times(Options { limit: Some(2), devices, ..Options::default() }), [10, 30]);
        let none = Options { from: 20, to: Some(20), ..Options::default() };
        assert!(Reader::from_records(Vec::new(), Names::default(), &none).is_err());
    }

    #[test]
    fn malformed_lines_are_counted_the_first_is_kept_and_strict_stops() {
        let mut bytes = msr(&[(1, "Read", 1)]);
        bytes.extend_from_slice(b"128166372000000000,h,1,Rd,1,4096,100\n\nnonsense\n");
        bytes.extend(msr(&[(2, "Read", 2)]));
        let format = Format::named("msr");
        let lenient = Options { format, ..Options::default() };
        let mut reader = Reader::from_bytes("t", bytes.clone(), &lenient).unwrap();
        assert_eq!(all(&mut reader).len(), 2);
        assert_eq!(reader.malformed(), 2);
        let first = reader.first_malformed().unwrap().to_string();
        assert!(first.starts_with("line 2: Type is neither Read nor Write: \"12816"), "{first}");
        let strict = Options { strict: true, ..lenient };
        let mut reader = Reader::from_bytes("t", bytes, &strict).unwrap();
        let error = loop {
            match reader.read(&mut Record::default()) {
                Ok(more) => assert!(more, "the malformed line must be reached"),
                Err(error) => break error.to_string(),
            }
        };
        assert!(error.starts_with("t: line 2: Type"), "{error}");
    }

    #[test]
    fn nothing_but_malformed_records_is_an_error_and_so_is_an_unknown_text() {
        let options = Options { format: Format::named("msr"), ..Options::default() };
        let bytes = b"1,2,3\n".repeat(2000);
        let mut reader = Reader::from_bytes("t", bytes, &options).unwrap();
        let error = reader.read(&mut Record::default()).unwrap_err().to_string();
        assert!(error.contains("none of the first 1000 records"), "{error}");
        assert!(error.contains("line 1: line has too few columns"), "{error}");
        let error = Reader::from_bytes("t", b"hello\n".into(), &Options::default()).unwrap_err();
        assert!(error.to_string().contains("no trace of a known format"), "{error}");
        let error = Reader::from_bytes("t", Vec::new(), &Options::default()).unwrap_err();
        assert_eq!(error.to_string(), "t: is empty");
    }

    #[test]
    fn a_million_malformed_lines_need_no_stack_and_a_long_one_no_memory() {
        let mut bytes = msr(&[(1, "Read", 1)]);
        bytes.extend(b"x\n".repeat(1_000_000));
        bytes.extend(vec![b'y'; 3_000_000]);
        bytes.push(b'\n');
        bytes.extend(msr(&[(2, "Read", 2)]));
        let options = Options { format: Format::named("msr"), ..Options::default() };
        let mut reader = Reader::from_bytes("t", bytes, &options).unwrap();
        assert_eq!(all(&mut reader).len(), 2);
        assert_eq!(reader.malformed(), 1_000_001);
    }

    #[test]
    fn gzip_is_found_by_content_and_a_cut_file_is_an_error() {
        use std::io::Write;
        let bytes = msr(&[(1, "Read", 1), (2, "Read", 2)]);
        let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gz.write_all(&bytes).unwrap();
        let gz = gz.finish().unwrap();
        // Two members, as `cat a.gz b.gz` makes them.
        let twice = [gz.clone(), gz.clone()].concat();
        let mut reader = Reader::from_bytes("t", twice, &Options::default()).unwrap();
        assert_eq!(all(&mut reader).len(), 4);
        let cut = gz[..gz.len() - 12].to_vec();
        let options = Options { format: Format::named("msr"), ..Options::default() };
        let error = Reader::from_bytes("t", cut, &options).unwrap_err().to_string();
        assert!(error.starts_with("t: gzip: cut off or damaged after "), "{error}");
        // What lies beyond the beginning is an error when it is reached.
        let long: Vec<(u64, &str, u64)> = (0..20_000).map(|i| (i, "Read", i * 7919)).collect();
        let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gz.write_all(&msr(&long)).unwrap();
        let mut cut = gz.finish().unwrap();
        cut.truncate(cut.len() - 12);
        let mut reader = Reader::from_bytes("t", cut, &options).unwrap();
        let mut read = 0;
        let error = loop {
            match reader.read(&mut Record::default()) {
                Ok(more) => assert!(more, "the cut must be reached"),
                Err(error) => break error.to_string(),
            }
            read += 1;
        };
        assert!(
            read > 10_000 && error.starts_with("t: gzip: cut off or damaged after "),
            "{error}"
        );
    }
}
