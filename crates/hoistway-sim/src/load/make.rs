//! A kernel being compiled: `make -j` (specs/experiments.md 7.3).
//!
//! *Problem.* A compilation reads little, in small pieces all over the tree, and computes in between. Whoever makes each
//! of these reads wait half a second behind other people's streams makes it ten times slower without taking anything
//! from its throughput: the drive hardly notices it.
//!
//! *Model.* The job's processes with this load and one `name` are the workers of one make. Each takes the next source
//! file that nobody has taken, and compiles it in a new process of the block layer, as make starts a compiler for every
//! file: one read of the source, then its headers one by one, each a jump and cold; computing, on the processors of the
//! host (`cpus`); an object file, buffered, into new blocks. The first 50 files meet 15 headers on average that nobody
//! has read before, those after them 2 (geometric). What belongs to a file (its headers, sizes, places, computing) is
//! drawn for the file, so that every configuration compiles the same tree.
//!
//! *Count.* Files compiled.
//!
//! *Weaknesses.* No make process between the compilers, no links, no dependency between files; headers are drawn for
//! each file instead of being shared by name (the falling mean stands for that).

use super::params::ParamDoc;
use super::tree::{self, PAGE, log_uniform};
use super::{Better, Build, CountDoc, Load, LoadEntry};
use crate::host::{Advice, FileId, Host, Notice, Operation, SyncKind};
use crate::rng::Rng;
use hoistway::{Instant, Nanos};
use hoistway_run::JobError;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

pub(super) const ENTRY: LoadEntry = LoadEntry {
    name: "make",
    summary: "a worker of a parallel make: compiles source files, each in a process of its own (7.3)",
    writes: true,
    params: &[
        ParamDoc {
            name: "files",
            default: "2000",
            doc: "Source files of the tree, 1 to 100000; the workers exit when all are compiled.",
        },
        ParamDoc { name: "tree", default: "400 MiB", doc: "Room that sources and headers lie in." },
        ParamDoc {
            name: "early",
            default: "50",
            doc: "So many files are compiled before most headers have been read by somebody.",
        },
        ParamDoc {
            name: "early_headers",
            default: "15",
            doc: "Mean number of headers that are read from the drive for each of the early files.",
        },
        ParamDoc { name: "headers", default: "2", doc: "The same for each file after them." },
        ParamDoc { name: "compute_min", default: "400 ms", doc: "Shortest computing for a file." },
        ParamDoc {
            name: "compute_max",
            default: "2.5 s",
            doc: "Longest; log-uniform between the two. Both are of a processor of 2010.",
        },
        ParamDoc {
            name: "program",
            default: "make",
            doc: "Workers with the same word share the tree and the work.",
        },
    ],
    counts: &[CountDoc {
        name: "files_compiled",
        unit: "files",
        better: Better::Higher,
        of: None,
        doc: "Source files of which the object file was written.",
    }],
    build: |build| Ok(Box::new(Make::new(build)?)),
    ..LoadEntry::USUAL
};

/// The object file of a source file: smallest and largest, log-uniform.
const OBJECT: (u64, u64) = (10 << 10, 100 << 10);
/// A source file, log-uniform, and a header, uniform over whole pages.
const SOURCE: (u64, u64) = (4 << 10, 64 << 10);
const HEADER: (u64, u64) = (4 << 10, 16 << 10);
/// No file has more cold headers.
const MOST_HEADERS: u64 = 200;

/// What the workers of one make have in common.
#[derive(Debug)]
struct MakeTree {
    /// Sources and headers.
    sources: FileId,
    /// Object files by source file, with their sizes.
    objects: Vec<(FileId, u64)>,
    next: AtomicU64,
}

#[derive(Clone, Copy, Debug)]
enum MakeStep {
    Take,
    Open,
    Read,
    Create,
    OpenObject,
    Write,
    End,
    Count,
}

#[derive(Debug)]
struct Make {
    tree: Arc<MakeTree>,
    seed: u64,
    program: String,
    early: u64,
    early_headers: f64,
    headers: f64,
    compute: (f64, f64),
    room: u64,
    /// Of the file being compiled: its number, reads to come, computing.
    file: usize,
    reads: VecDeque<(u64, u64)>,
    length: Nanos,
    step: MakeStep,
}

impl Make {
    fn new(build: &mut Build<'_>) -> Result<Make, JobError> {
        let params = &build.params;
        let program = params.text("program")?.unwrap_or("make").to_string();
        let files = params.number("files")?.unwrap_or(2000);
        if !(1..=100_000).contains(&files) {
            return Err(params.wrong(format!("files = {files}: choose 1 to 100000")));
        }
        let room = params.bytes("tree")?.unwrap_or(400 << 20) / PAGE * PAGE;
        if room < 16 << 20 {
            return Err(params.wrong(format!("tree = {room}: choose at least 16 MiB")));
        }
        let mean = |name: &str, usual: f64| -> Result<f64, JobError> {
            let mean = params.real(name)?.unwrap_or(usual);
            match (0.0..=100.0).contains(&mean) {
                true => Ok(mean),
                false => Err(params.wrong(format!("{name} = {mean}: choose a mean from 0 to 100"))),
            }
        };
        let (early_headers, headers) = (mean("early_headers", 15.0)?, mean("headers", 2.0)?);
        let lo = params.time("compute_min")?.unwrap_or(400_000_000);
        let hi = params.time("compute_max")?.unwrap_or(2_500_000_000);
        if lo == 0 || hi < lo {
            let what =
                format!("compute_min = {lo} ns, compute_max = {hi} ns: choose 0 < min <= max");
            return Err(params.wrong(what));
        }
        let early = params.number("early")?.unwrap_or(50);
        let seed = build.seed;
        let tree = build
            .host
            .shared_memory(&program, |host| lay_out(host, seed, &program, files, room))?;
        Ok(Make {
            tree,
            seed,
            program,
            early,
            early_headers,
            headers,
            compute: (lo as f64, hi as f64),
            room,
            file: 0,
            reads: VecDeque::new(),
            length: Nanos::ZERO,
            step: MakeStep::Take,
        })
    }

    /// Draws what compiling file `k` takes.
    fn plan(&mut self, k: u64) {
        let mut rng = tree::of_file(self.seed, &self.program, k);
        object_size(&mut rng); // drawn when the tree was laid out
        let mean = if k < self.early { self.early_headers } else { self.headers };
        // Geometric from 0 on: goes on with probability mean / (1 + mean).
        let mut headers = 0;
        while headers < MOST_HEADERS && rng.unit() < mean / (1.0 + mean) {
            headers += 1;
        }
        // Never page 0 of the room, where read-ahead has rules of its own.
        let pages = self.room / PAGE - 1;
        let place =
            |size: u64, rng: &mut Rng| (PAGE * (1 + rng.below(pages - size / PAGE + 1)), size);
        let source = tree::file_size(&mut rng, SOURCE.0, SOURCE.1);
        self.reads.push_back(place(source, &mut rng));
        for _ in 0..headers {
            let size = HEADER.0 + PAGE * rng.below((HEADER.1 - HEADER.0) / PAGE + 1);
            self.reads.push_back(place(size, &mut rng));
        }
        self.length = Nanos(log_uniform(&mut rng, self.compute.0, self.compute.1) as u64);
    }
}

/// The tree of `files` source files: the first worker lays it out.
fn lay_out(
    host: &mut Host,
    seed: u64,
    program: &str,
    files: u64,
    room: u64,
) -> Result<MakeTree, JobError> {
    let sources = host.add_file(room)?;
    let size = |k| object_size(&mut tree::of_file(seed, program, k));
    let sizes: Vec<u64> = (0..files).map(size).collect();
    let mut at = host.reserve(sizes.iter().sum())?;
    let mut place = |&size: &u64| {
        let file = host.add_file_in(at, size, false);
        at += size;
        (file, size)
    };
    let objects = sizes.iter().map(&mut place).collect();
    Ok(MakeTree { sources, objects, next: AtomicU64::new(0) })
}

/// Bytes of an object file, in whole pages.
fn object_size(rng: &mut Rng) -> u64 {
    (log_uniform(rng, OBJECT.0 as f64, OBJECT.1 as f64) as u64).next_multiple_of(PAGE)
}

impl Load for Make {
    fn next(&mut self, _now: Instant) -> Operation {
        let object = |make: &Make| make.tree.objects[make.file];
        match self.step {
            MakeStep::Take => {
                let k = self.tree.next.fetch_add(1, Ordering::Relaxed);
                if k >= self.tree.objects.len() as u64 {
                    return Operation::Exit;
                }
                self.file = k as usize;
                self.plan(k);
                self.step = MakeStep::Open;
                Operation::Tell(Notice::RunAs { slot: 0, name: "cc", lasting: false })
            }
            MakeStep::Open => {
                self.step = MakeStep::Read;
                Operation::Open { file: self.tree.sources, advice: Advice::Random }
            }
            MakeStep::Read => match self.reads.pop_front() {
                Some((offset, bs)) => Operation::Read { offset, bs, count: 1 },
                None => {
                    self.step = MakeStep::Create;
                    Operation::Compute(self.length)
                }
            },
            MakeStep::Create => {
                self.step = MakeStep::OpenObject;
                Operation::Create(object(self).0)
            }
            MakeStep::OpenObject => {
                self.step = MakeStep::Write;
                Operation::Open { file: object(self).0, advice: Advice::Normal }
            }
            MakeStep::Write => {
                self.step = MakeStep::End;
                Operation::Write { offset: 0, bs: object(self).1, count: 1, sync: SyncKind::No }
            }
            MakeStep::End => {
                self.step = MakeStep::Count;
                Operation::Tell(Notice::EndProcs)
            }
            MakeStep::Count => {
                self.step = MakeStep::Take;
                Operation::Tell(Notice::Count { what: "files_compiled", n: 1 })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drive::DriveFile;
    use crate::host::HostConfig;
    use crate::load::params::Params;
    use hoistway::Sectors;

    fn worker(host: &mut Host, index: usize, params: &str) -> Make {
        let table: toml::Table = params.parse().unwrap();
        let params = Params::new("target", &table, ENTRY.params).unwrap();
        let start = Instant::ZERO;
        Make::new(&mut Build { params, host, index, seed: 1, start }).unwrap()
    }

    fn host() -> Host {
        let drive = DriveFile::load("maxtor-6l080l0").unwrap();
        Host::new(HostConfig::profile("2010").unwrap(), &drive, Sectors(1024), 1)
    }

    /// What compiling a file consists of: reads, computing, the object and its bytes.
    type Compiled = (Vec<(u64, u64)>, Nanos, (FileId, u64));

    fn compile(make: &mut Make) -> Option<Compiled> {
        let (mut reads, mut computed, mut object) = (Vec::new(), None, None);
        loop {
            match make.next(Instant::ZERO) {
                Operation::Read { offset, bs, count: 1 } => reads.push((offset, bs)),
                Operation::Compute(length) => computed = Some(length),
                Operation::Create(file) => object = Some(file),
                Operation::Write { offset: 0, bs, count: 1, sync: SyncKind::No } => {
                    object = object
                        .inspect(|file| assert_eq!(bs, make.tree.objects[file.0 as usize - 1].1));
                }
                Operation::Tell(Notice::Count { what: "files_compiled", n: 1 }) => {
                    let file = object.unwrap();
                    return Some((
                        reads,
                        computed.unwrap(),
                        (file, make.tree.objects[make.file].1),
                    ));
                }
                Operation::Tell(_) | Operation::Open { .. } => {}
                Operation::Exit => return None,
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn workers_take_files_from_one_tree_and_none_twice() {
        let mut host = host();
        let mut workers = [0, 1].map(|i| worker(&mut host, i, "files = 101"));
        let mut objects = Vec::new();
        let mut turn = 0;
        while let Some((_, _, object)) = compile(&mut workers[turn % 2]) {
            objects.push(object.0.0);
            // The first is twice as fast.
            turn += 1 + usize::from(turn % 3 == 1);
        }
        objects.sort_unstable();
        objects.dedup();
        assert_eq!(objects.len(), 101);
        assert!(compile(&mut workers[0]).is_none() && compile(&mut workers[1]).is_none());
    }

    #[test]
    fn headers_become_fewer_and_computing_keeps_its_range() {
        let mut host = host();
        let mut make = worker(&mut host, 0, "");
        let all: Vec<_> = (0..1000).map(|_| compile(&mut make).unwrap()).collect();
        let mean = |part: &[Compiled]| {
            part.iter().map(|f| f.0.len() - 1).sum::<usize>() as f64 / part.len() as f64
        };
        let (early, late) = (mean(&all[..50]), mean(&all[50..]));
        assert!((9.0..22.0).contains(&early), "15 headers, within three deviations: {early}");
        assert!((1.7..2.3).contains(&late), "2 headers: {late}");
        for (reads, computed, (_, object)) in &all {
            assert!((400..=2500).contains(&(computed.0 / 1_000_000)), "{computed:?}");
            assert!((10 << 10..=100 << 10).contains(object) && object % PAGE == 0);
            let (source, headers) = reads.split_first().unwrap();
            assert!((4 << 10..=64 << 10).contains(&source.1));
            assert!(headers.iter().all(|h| (4 << 10..=16 << 10).contains(&h.1)));
            assert!(reads.iter().all(|r| r.0 >= PAGE && r.0 + r.1 <= 400 << 20 && r.0 % PAGE == 0));
        }
        let mut times: Vec<u64> = all.iter().map(|f| f.1.0).collect();
        times.sort_unstable();
        assert!(
            (0.9..1.1).contains(&(times[500] as f64 / 1e9)),
            "the median is 1 s: {}",
            times[500]
        );
    }

    #[test]
    fn the_same_files_whoever_compiles_them() {
        let (mut a, mut b) = (host(), host());
        let mut alone = worker(&mut a, 0, "");
        let mut team = [0, 1, 2].map(|i| worker(&mut b, i, ""));
        for k in 0..30 {
            assert_eq!(compile(&mut alone), compile(&mut team[k % 3]));
        }
    }

    #[test]
    fn what_cannot_be_is_refused() {
        for (text, word) in [
            ("files = 0", "files"),
            ("tree = \"1m\"", "16 MiB"),
            ("headers = -1", "headers"),
            ("compute_min = \"3s\"", "min <= max"),
        ] {
            let mut host = host();
            let table: toml::Table = text.parse().unwrap();
            let params = Params::new("target", &table, ENTRY.params).unwrap();
            let start = Instant::ZERO;
            let mut build = Build { params, host: &mut host, index: 0, seed: 1, start };
            let error = Make::new(&mut build).unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
    }
}
