//! W1, the greedy reader: a closed loop over its own file, without think time.
//!
//! Raw, it reads the device instead, through the device's own page cache (experiments.md 3.2): in
//! sequence a range of its own, at random blocks anywhere.

use super::params::ParamDoc;
use super::{BS, Blocks, Build, Calls, DEPTH, DIRECT, Load, LoadEntry, PATTERN, RATE, SIZE, Turn};
use crate::host::{Advice, FileId, Operation, PAGE};
use hoistway::Instant;
use hoistway_run::JobError;

pub(super) const ENTRY: LoadEntry = LoadEntry {
    name: "reader",
    summary: "reads its file over and over, each call after the last one, cached pages dropped before \
              each pass (W1)",
    writes: false,
    params: &[
        PATTERN,
        BS,
        DIRECT,
        DEPTH,
        SIZE,
        RATE,
        ParamDoc {
            name: "file",
            default: "its own",
            doc: "Name of a file that it reads together with all readers that name it.",
        },
        ParamDoc {
            name: "interleave",
            default: "1",
            doc: "Its file was written at the same time as others, so many in all: on the device, pieces of \
                  them alternate. Readers with the same value belong together in their order.",
        },
        ParamDoc {
            name: "piece",
            default: "128 KiB",
            doc: "Bytes of a file that lie in one piece where files are interleaved.",
        },
        ParamDoc {
            name: "raw",
            default: "false",
            doc: "Reads the device past the file system: with `pattern = \"seq\"` the i-th raw reader \
                  has the range [i * size, (i + 1) * size), with `pattern = \"rand\"` each has the whole \
                  device.",
        },
    ],
    build: |build| Ok(Box::new(Reader::new(build)?)),
    ..LoadEntry::USUAL
};

#[derive(Debug)]
#[repr(C)] // What each call looks at are neighbours.
struct Reader {
    file: FileId,
    /// The file has been dropped from the cache and is to be opened for the next pass.
    opens: bool,
    blocks: Blocks,
    /// Past the page cache.
    direct: Option<Calls>,
    /// Bytes of the file it reads, from the first block on; a raw reader shares its file with others.
    part: Option<u64>,
}

impl Reader {
    fn new(build: &mut Build<'_>) -> Result<Reader, JobError> {
        let direct = build.params.flag("direct")?.unwrap_or(false);
        let depth = build.depth(direct)?;
        let bs = build.block_size(if direct { build.host.sector() } else { 512 })?;
        let raw = build.params.flag("raw")?.unwrap_or(false);
        let random = build.random()?;
        let own = build.size(bs)?;
        // The file first: a permutation is made only of blocks that exist.
        let shared = build.params.text("file")?;
        let (file, base, size) = match (raw, random) {
            (true, _) if build.params.number("interleave")?.is_some_and(|n| n > 1) => {
                let message =
                    "interleave: a raw reader reads the device; leave interleave or raw out";
                return Err(build.params.wrong(message.into()));
            }
            (true, _) if shared.is_some() => {
                let message = "file: a raw reader reads the device; leave file or raw out";
                return Err(build.params.wrong(message.into()));
            }
            (false, _) => (file_of(build, own)?, 0, own),
            (true, false) => (build.host.device_file()?, build.host.raw_range(own)?, own),
            (true, true) if build.params.bytes("size")?.is_some() => {
                let message = "size: a raw random reader has the whole device; leave size out";
                return Err(build.params.wrong(message.into()));
            }
            (true, true) => (build.host.device_file()?, 0, build.host.capacity() / bs * bs),
        };
        let mut blocks = Blocks::new(build, bs, size)?;
        blocks.base = base;
        let direct = direct.then(|| Calls::new(false, depth));
        Ok(Reader { file, part: raw.then_some(size), direct, blocks, opens: false })
    }
}

/// The file of a reader: shared, between others, or its own.
fn file_of(build: &mut Build<'_>, bytes: u64) -> Result<FileId, JobError> {
    let between = build.params.number("interleave")?.unwrap_or(1);
    let piece = build.params.bytes("piece")?.unwrap_or(128 << 10);
    let wrong = |message: String| Err(build.params.wrong(message));
    match build.params.text("file")? {
        _ if !(1..=64).contains(&between) => {
            wrong(format!("interleave = {between}: choose 1 to 64 files"))
        }
        _ if piece == 0 || !piece.is_multiple_of(PAGE) || piece > 1 << 30 => {
            wrong(format!("piece = {piece}: choose a multiple of {PAGE}"))
        }
        Some(_) if between > 1 => wrong("interleave: a shared file is one; leave file out".into()),
        Some(name) => build.host.shared_file(name, bytes),
        None if between > 1 => build.host.interleaved_file(bytes, between, piece),
        None => build.host.add_file(bytes),
    }
}

impl Load for Reader {
    fn next(&mut self, now: Instant) -> Operation {
        if self.opens {
            self.opens = false;
            let advice = if self.blocks.random() { Advice::Random } else { Advice::Sequential };
            return Operation::Open { file: self.file, advice };
        }
        if let Some(calls) = &mut self.direct
            && self.blocks.pauses(now)
            && let Some(operation) = calls.settle()
        {
            return operation;
        }
        let bs = self.blocks.bs;
        match self.blocks.turn(now, if self.direct.is_some() { 1 } else { u64::MAX }) {
            Turn::Pass => {
                self.opens = true;
                match self.part {
                    None => Operation::DontNeed(self.file),
                    Some(len) => {
                        Operation::DontNeedPart { file: self.file, offset: self.blocks.base, len }
                    }
                }
            }
            Turn::Wait(until) => Operation::Sleep(until),
            Turn::Calls { offset, calls } => match &mut self.direct {
                Some(direct) => direct.call(offset, bs, false),
                None => Operation::Read { offset, bs, count: calls },
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drive::DriveFile;
    use crate::host::{Host, HostConfig};
    use crate::load::params::Params;
    use hoistway::Sectors;

    /// What the `index`th process of a job with these parameters does first: opens aside.
    fn reads(host: &mut Host, index: usize, params: &str, n: usize) -> Vec<Operation> {
        let table: toml::Table = params.parse().unwrap();
        let params = Params::new("reader", &table, ENTRY.params).unwrap();
        let start = Instant::ZERO;
        let mut load = (ENTRY.build)(&mut Build { params, host, index, seed: 1, start }).unwrap();
        (0..n).map(|_| load.next(start)).collect()
    }

    fn host() -> Host {
        let drive = DriveFile::load("intel-320-160g").unwrap();
        Host::new(HostConfig::profile("2012").unwrap(), &drive, Sectors(1024), 1)
    }

    #[test]
    fn raw_sequential_readers_have_ranges_side_by_side_and_drop_only_their_own() {
        let mut host = host();
        for i in 0..3 {
            let len = 1 << 20;
            let ops = reads(&mut host, i, "raw = true\nsize = \"1m\"", 4);
            let file = host.device_file().unwrap();
            let offset = i as u64 * len;
            let pass = [
                Operation::DontNeedPart { file, offset, len },
                Operation::Open { file, advice: Advice::Sequential },
                Operation::Read { offset, bs: 4096, count: 256 },
            ];
            assert_eq!(ops[..3], pass);
            assert_eq!(ops[3], pass[0], "and again from the start");
        }
    }

    #[test]
    fn raw_random_readers_read_anywhere_on_the_device_each_in_its_own_order() {
        let mut host = host();
        let params = "raw = true\npattern = \"rand\"";
        let offsets = |ops: Vec<Operation>| -> Vec<u64> {
            let offset = |op| match op {
                Operation::Read { offset, bs: 4096, count: 1 } => offset,
                other => panic!("{other:?}"),
            };
            ops.into_iter().skip(2).map(offset).collect()
        };
        let a = offsets(reads(&mut host, 0, params, 1002));
        let b = offsets(reads(&mut host, 1, params, 1002));
        assert_ne!(a, b);
        let capacity = host.capacity();
        assert!(a.iter().all(|&o| o % 4096 == 0 && o < capacity));
        // A thousand uniform draws leave no tenth of the device empty.
        assert!((0..10).all(|t| a.iter().any(|&o| o * 10 / capacity == t)));
    }

    #[test]
    fn readers_of_one_name_share_a_file_of_one_size() {
        let mut host = host();
        let file = |op: &Operation| match *op {
            Operation::DontNeed(file) => file,
            other => panic!("{other:?}"),
        };
        let mut of = |i, params| file(&reads(&mut host, i, params, 1)[0]);
        let (a, b) = (of(0, "file = \"x\"\nsize = \"1m\""), of(1, "file = \"x\"\nsize = \"1m\""));
        assert_eq!(a, b);
        assert_ne!(a, of(2, "file = \"y\"\nsize = \"1m\""));
        assert_ne!(a, of(3, "size = \"1m\""));
        assert!(host.shared_file("x", 1 << 20).is_ok());
        let error = host.shared_file("x", 2 << 20).unwrap_err().to_string();
        assert!(error.contains("file x has 1048576 B"), "{error}");
    }

    #[test]
    fn a_reader_with_a_depth_queues_its_calls_and_settles_before_each_pass_and_pause() {
        let mut host = host();
        let ops = reads(&mut host, 0, "direct = true\ndepth = 8\nbs = \"64k\"\nsize = \"128k\"", 6);
        let queue = |offset| Operation::Queue {
            write: false,
            offset,
            len: 64 << 10,
            since: None,
            room: crate::host::Room::of(8),
        };
        assert_eq!(ops[2..5], [queue(0), queue(64 << 10), Operation::Collect]);
        assert!(matches!(ops[5], Operation::DontNeed(_)));
        let paced = "direct = true\ndepth = 8\nrate = \"4k\"";
        let ops = reads(&mut host, 1, paced, 5);
        assert!(matches!(
            ops[2..],
            [Operation::Queue { .. }, Operation::Collect, Operation::Sleep(_)]
        ));
        let table: toml::Table = "depth = 8".parse().unwrap();
        let params = Params::new("reader", &table, ENTRY.params).unwrap();
        let (start, host) = (Instant::ZERO, &mut host);
        let error =
            (ENTRY.build)(&mut Build { params, host, index: 2, seed: 1, start }).unwrap_err();
        assert!(error.to_string().contains("set direct = true"), "{error}");
    }

    #[test]
    fn a_raw_reader_beyond_the_device_is_refused() {
        let mut host = host();
        let table: toml::Table = "raw = true\nsize = \"100 GiB\"".parse().unwrap();
        let mut build = |index| {
            let params = Params::new("reader", &table, ENTRY.params).unwrap();
            let start = Instant::ZERO;
            (ENTRY.build)(&mut Build { params, host: &mut host, index, seed: 1, start })
        };
        assert!(build(0).is_ok());
        assert!(matches!(build(1), Err(JobError::DoesNotFit { .. })));
    }
}
