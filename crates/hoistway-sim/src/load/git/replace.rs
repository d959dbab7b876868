//! `git checkout` and `git merge`: one process that replaces file after file of the tree.
//!
//! *Problem.* Every file costs a look at its inode, reads from the pack, and three changes of metadata, and the process
//! does nothing else meanwhile. A single seek that another reader's stream puts before each of these reads doubles the time
//! of the whole; journal commits come in between.
//!
//! *Model.* For each file: with probability one half its metadata are cached, else one read of 4 KiB somewhere in the
//! tree; 1.3 reads on average of 4 to 16 KiB at random places of a pack of 300 MiB; 0.3 ms of computing; the old version is
//! deleted, the new one created and written, buffered, 4 to 32 KiB. Old versions exist and lie side by side, in an
//! order of their own; the new one takes the place of the old one (host.md 3: freed space is used first).
//!
//! *Counts.* Files replaced; their share of all the files is the progress, in percent. The process exits when all are
//! done.
//!
//! *Weaknesses.* No index is written at the end, no directories are created, the pack's own index is cached; a new
//! version that is larger than the old one would lie elsewhere: here both have the size of the larger.

use crate::host::{Advice, BlockIo, FileId, Notice, Operation, SyncKind};
use crate::load::params::ParamDoc;
use crate::load::tree::{self, PAGE};
use crate::load::{Better, Build, CountDoc, Load, LoadEntry};
use crate::rng::Rng;
use hoistway::{Flags, Instant, Nanos};
use hoistway_run::JobError;

const fn files(default: &'static str) -> [ParamDoc; 5] {
    [
        ParamDoc { name: "files", default, doc: "Files to replace, 1 to 1000000." },
        ParamDoc {
            name: "pack",
            default: "300 MiB",
            doc: "Size of the file that objects are read from.",
        },
        ParamDoc {
            name: "reads",
            default: "1.3",
            doc: "Mean number of reads from the pack for a file, 0 to 10.",
        },
        ParamDoc {
            name: "cached",
            default: "50",
            doc: "Percent of the files whose metadata are cached already.",
        },
        ParamDoc { name: "compute", default: "300 us", doc: "Computing for a file." },
    ]
}

const COUNTS: &[CountDoc] = &[
    CountDoc {
        name: "files_replaced",
        unit: "files",
        better: Better::Higher,
        of: Some("files_to_replace"),
        doc: "Files whose new version was written; their share is the progress.",
    },
    CountDoc {
        name: "files_to_replace",
        unit: "files",
        better: Better::Neither,
        of: None,
        doc: "Files of the whole task.",
    },
];

pub(in crate::load) const CHECKOUT: LoadEntry = LoadEntry {
    name: "git_checkout",
    summary: "replaces 12 000 files of a tree by their versions of another branch (7.3)",
    writes: true,
    params: &files("12000"),
    counts: COUNTS,
    build: |build| Ok(Box::new(Replace::new(build, 12_000)?)),
    ..LoadEntry::USUAL
};

pub(in crate::load) const MERGE: LoadEntry = LoadEntry {
    name: "git_merge",
    summary: "replaces 9 000 files of a tree by their merged versions (7.3)",
    writes: true,
    params: &files("9000"),
    counts: COUNTS,
    build: |build| Ok(Box::new(Replace::new(build, 9_000)?)),
    ..LoadEntry::USUAL
};

/// Sizes of a version of a file and of a read from the pack.
const FILE: (u64, u64) = (4 << 10, 32 << 10);
const OBJECT: (u64, u64) = (4 << 10, 16 << 10);

#[derive(Clone, Copy, Debug)]
enum ReplaceStep {
    Begin,
    Metadata,
    OpenPack,
    Pack,
    Compute,
    Unlink,
    Create,
    Open,
    Write,
    Count,
}

#[derive(Debug)]
struct Replace {
    /// Files in the order of the task, with their sizes.
    files: Vec<(FileId, u64)>,
    /// The room that they lie in: first byte and length.
    room: (u64, u64),
    pack: FileId,
    pack_pages: u64,
    reads: f64,
    cached: u64,
    compute: Nanos,
    meta: Flags,
    rng: Rng,
    at: usize,
    /// Reads from the pack that this file still needs.
    left: u64,
    step: ReplaceStep,
}

impl Replace {
    fn new(build: &mut Build<'_>, usual: u64) -> Result<Replace, JobError> {
        let params = &build.params;
        let count = params.number("files")?.unwrap_or(usual);
        if !(1..=1_000_000).contains(&count) {
            return Err(params.wrong(format!("files = {count}: choose 1 to 1000000")));
        }
        let pack = params.bytes("pack")?.unwrap_or(300 << 20) / PAGE * PAGE;
        if pack < 1 << 20 {
            return Err(params.wrong(format!("pack = {pack}: choose at least 1 MiB")));
        }
        let reads = params.real("reads")?.unwrap_or(1.3);
        if !(0.0..=10.0).contains(&reads) {
            return Err(params.wrong(format!("reads = {reads}: choose a mean from 0 to 10")));
        }
        let cached = params.number("cached")?.unwrap_or(50);
        if cached > 100 {
            return Err(params.wrong(format!("cached = {cached}: choose a percentage")));
        }
        let compute = Nanos(params.time("compute")?.unwrap_or(300_000));
        let mut rng = build.rng();
        let sizes: Vec<u64> =
            (0..count).map(|_| tree::file_size(&mut rng, FILE.0, FILE.1)).collect();
        let room = sizes.iter().sum();
        let start = build.host.reserve(room)?;
        let mut at = start;
        let place = |size: u64| {
            let file = build.host.add_file_in(at, size, true);
            at += size;
            (file, size)
        };
        Ok(Replace {
            files: sizes.into_iter().map(place).collect(),
            room: (start, room),
            pack: build.host.add_file(pack)?,
            pack_pages: pack / PAGE,
            reads,
            cached,
            compute,
            meta: build.host.meta_flags(),
            rng,
            at: 0,
            left: 0,
            step: ReplaceStep::Begin,
        })
    }
}

impl Load for Replace {
    fn places(&self) -> Vec<(u64, u64)> {
        vec![self.room]
    }

    fn next(&mut self, _now: Instant) -> Operation {
        loop {
            let Some(&(file, size)) = self.files.get(self.at) else { return Operation::Exit };
            match self.step {
                ReplaceStep::Begin => {
                    self.step = ReplaceStep::Metadata;
                    let n = self.files.len() as u64;
                    return Operation::Tell(Notice::Count { what: "files_to_replace", n });
                }
                ReplaceStep::Metadata => {
                    self.step = ReplaceStep::OpenPack;
                    // Two draws, whatever comes of the first.
                    let (cached, page) =
                        (self.rng.below(100) < self.cached, self.rng.below(self.room.1 / PAGE));
                    if !cached {
                        let start = self.room.0 + page * PAGE;
                        let flags = self.meta;
                        return Operation::Block(BlockIo {
                            write: false,
                            start,
                            len: PAGE,
                            flags,
                            wait: true,
                        });
                    }
                }
                ReplaceStep::OpenPack => {
                    self.step = ReplaceStep::Pack;
                    let whole = self.reads as u64;
                    self.left = whole + u64::from(self.rng.unit() < self.reads - whole as f64);
                    return Operation::Open { file: self.pack, advice: Advice::Random };
                }
                ReplaceStep::Pack if self.left > 0 => {
                    self.left -= 1;
                    let bs = tree::file_size(&mut self.rng, OBJECT.0, OBJECT.1);
                    let offset = self.rng.below(self.pack_pages - bs / PAGE + 1) * PAGE;
                    return Operation::Read { offset, bs, count: 1 };
                }
                ReplaceStep::Pack => self.step = ReplaceStep::Compute,
                ReplaceStep::Compute => {
                    self.step = ReplaceStep::Unlink;
                    return Operation::Compute(self.compute);
                }
                ReplaceStep::Unlink => {
                    self.step = ReplaceStep::Create;
                    return Operation::Unlink(file);
                }
                ReplaceStep::Create => {
                    self.step = ReplaceStep::Open;
                    return Operation::Create(file);
                }
                ReplaceStep::Open => {
                    self.step = ReplaceStep::Write;
                    return Operation::Open { file, advice: Advice::Normal };
                }
                ReplaceStep::Write => {
                    self.step = ReplaceStep::Count;
                    return Operation::Write { offset: 0, bs: size, count: 1, sync: SyncKind::No };
                }
                ReplaceStep::Count => {
                    self.step = ReplaceStep::Metadata;
                    self.at += 1;
                    return Operation::Tell(Notice::Count { what: "files_replaced", n: 1 });
                }
            }
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

    fn task(entry: &LoadEntry, params: &str) -> Result<Box<dyn Load>, JobError> {
        let drive = DriveFile::load("maxtor-6l080l0").unwrap();
        let mut host = Host::new(HostConfig::profile("2010").unwrap(), &drive, Sectors(1024), 1);
        let table: toml::Table = params.parse().unwrap();
        let params = Params::new("target", &table, entry.params).unwrap();
        let start = Instant::ZERO;
        (entry.build)(&mut Build { params, host: &mut host, index: 0, seed: 1, start })
    }

    #[test]
    fn every_file_is_looked_at_deleted_created_and_written_once() {
        let mut load = task(&CHECKOUT, "").unwrap();
        let (mut metadata, mut objects, mut bytes, mut done) = (0, 0, 0, 0);
        let (mut unlinked, mut written) = (Vec::new(), Vec::new());
        loop {
            match load.next(Instant::ZERO) {
                Operation::Block(io) => {
                    assert!(!io.write && io.wait && io.len == 4096);
                    metadata += 1;
                }
                Operation::Read { offset, bs, count: 1 } => {
                    assert!((4096..=16_384).contains(&bs) && offset + bs <= 300 << 20);
                    objects += 1;
                }
                Operation::Compute(t) => assert_eq!(t, Nanos::us(300)),
                Operation::Unlink(file) => unlinked.push(file.0),
                Operation::Create(file) => assert_eq!(unlinked.last(), Some(&file.0)),
                Operation::Write { offset: 0, bs, count: 1, sync: SyncKind::No } => {
                    written.push(*unlinked.last().unwrap());
                    bytes += bs;
                }
                Operation::Tell(Notice::Count { what: "files_to_replace", n }) => {
                    assert_eq!(n, 12_000)
                }
                Operation::Tell(Notice::Count { what: "files_replaced", n: 1 }) => done += 1,
                Operation::Open { .. } => {}
                Operation::Exit => break,
                other => panic!("{other:?}"),
            }
        }
        assert_eq!((done, unlinked.len()), (12_000, 12_000));
        assert_eq!(unlinked, written);
        unlinked.sort_unstable();
        unlinked.dedup();
        assert_eq!(unlinked.len(), 12_000);
        // Within four standard deviations of half, of 1.3, and of 12 KiB.
        assert!((5780..=6220).contains(&metadata), "{metadata}");
        assert!((15_400..=15_800).contains(&objects), "{objects}");
        let mean = bytes as f64 / 12_000.0 / 1024.0;
        assert!((11.0..13.0).contains(&mean), "{mean} KiB");
    }

    #[test]
    fn what_cannot_be_is_refused() {
        for (params, word) in [
            ("files = 0", "files"),
            ("pack = 5", "pack"),
            ("reads = 11", "reads"),
            ("cached = 101", "cached"),
            ("files = 1000000000", "1000000"),
        ] {
            let error = task(&MERGE, params).unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
    }
}
