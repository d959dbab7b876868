//! Exports as files, through the real kernel: any byte at any time, holes, ends, errors. Needs root and
//! /dev/fuse; what is missing is a printed skip.
#![cfg(all(target_os = "linux", feature = "fuse"))]

use hoistway::sched;
use hoistway_serve::front::Attachment;
use hoistway_serve::front::Export;
use hoistway_serve::front::fuse::{FuseOptions, Mount};
use hoistway_serve::storage::FileOptions;
use hoistway_serve::{Device, DeviceOptions, ServeError, Target};
use hoistway_sim::rng::{Rng, stream};
use rustix::fs::{FallocateFlags, SeekFrom, fallocate, seek};
use rustix::io::Errno;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};

/// A mounted folder with its devices; taken away at the end, whatever happens.
struct Site {
    mount: Option<Mount>,
    base: PathBuf,
}

impl Site {
    /// `None` with a printed reason where the machine lacks something.
    fn new(name: &str, make: impl FnOnce(&Path) -> Vec<Export>) -> Option<Site> {
        let base =
            std::env::temp_dir().join(format!("hoistway-fuse-{}-{name}", std::process::id()));
        std::fs::create_dir_all(base.join("shaft")).unwrap();
        let exports = make(&base);
        match Mount::start(&exports, &base.join("shaft"), FuseOptions::default(), || {}) {
            Ok(mount) => Some(Site { mount: Some(mount), base }),
            Err(error @ ServeError::Os { .. }) => {
                println!("skipped: {error}");
                let _ = std::fs::remove_dir_all(&base);
                None
            }
            Err(other) => panic!("{other}"),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.base.join("shaft").join(name)
    }

    fn open(&self, name: &str) -> File {
        OpenOptions::new().read(true).write(true).open(self.path(name)).unwrap()
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        drop(self.mount.take());
        let _ = std::fs::remove_dir_all(&self.base);
    }
}

fn device(target: Target, scheduler: &str) -> Device {
    let options = DeviceOptions::new(sched::find(scheduler).unwrap());
    Device::open(&target, &options).unwrap()
}

fn ram(size: u64, scheduler: &str) -> Device {
    device(Target::Ram { size }, scheduler)
}

fn errno(result: io::Result<impl Sized>) -> Option<Errno> {
    result.err().and_then(|e| Errno::from_io_error(&e))
}

/// Bytes per stripe and threads: neighbours in every block, so that each write has others to lose.
const STRIPE: u64 = 37;
const THREADS: u64 = 6;
const SIZE: u64 = 96 << 10;

/// Each thread owns every sixth stripe of 37 bytes and knows what must be there; whatever it reads of its
/// own must be that at any time, and everything must be there in the end.
fn interleaved(site: &Site, name: &str, rounds: u64) {
    let path = site.path(name);
    let barrier = Arc::new(Barrier::new(THREADS as usize));
    let threads: Vec<_> = (0..THREADS)
        .map(|me| {
            let (path, barrier) = (path.clone(), Arc::clone(&barrier));
            std::thread::spawn(move || {
                let file = OpenOptions::new().read(true).write(true).open(path).unwrap();
                let mut shadow = vec![0u8; SIZE as usize];
                let mut random = stream(me + 1, "fuse");
                barrier.wait();
                for _ in 0..rounds {
                    one_operation(&file, me, &mut shadow, &mut random);
                }
                shadow
            })
        })
        .collect();
    let shadows: Vec<_> = threads.into_iter().map(|t| t.join().unwrap()).collect();
    let mut all = vec![0; SIZE as usize];
    File::open(&path).unwrap().read_exact_at(&mut all, 0).unwrap();
    for (at, byte) in all.into_iter().enumerate() {
        let owner = at / STRIPE as usize % THREADS as usize;
        assert_eq!(byte, shadows[owner][at], "byte {at} of thread {owner}");
    }
}

fn one_operation(file: &File, me: u64, shadow: &mut [u8], random: &mut Rng) {
    let stripes = SIZE / STRIPE / THREADS;
    let stripe = (random.below(stripes) * THREADS + me) * STRIPE;
    let from = stripe + random.below(STRIPE);
    let len = 1 + random.below(stripe + STRIPE - from);
    let mine = from as usize..(from + len) as usize;
    match random.below(16) {
        0 => file.sync_data().unwrap(),
        1 | 2 => {
            let how = match random.below(2) {
                0 => FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE,
                _ => FallocateFlags::ZERO_RANGE,
            };
            fallocate(file, how, from, len).unwrap();
            shadow[mine].fill(0);
        }
        3..6 => {
            let from = random.below(SIZE);
            let mut got = vec![0; random.below((SIZE - from).min(5000)) as usize];
            file.read_exact_at(&mut got, from).unwrap();
            for (at, byte) in (from..).zip(got) {
                if at / STRIPE % THREADS == me {
                    assert_eq!(byte, shadow[at as usize], "byte {at} of thread {me}");
                }
            }
        }
        _ => {
            shadow[mine.clone()].fill_with(|| 1 + random.below(255) as u8);
            file.write_all_at(&shadow[mine], from).unwrap();
        }
    }
}

#[test]
fn no_byte_is_lost_between_writers_of_one_block() {
    let site = Site::new("odd", |base| {
        let path = base.join("disk");
        File::create(&path).unwrap().set_len(SIZE).unwrap();
        let file = Target::File { path, options: FileOptions::default() };
        vec![Export::new("ram", ram(SIZE, "bfq")), Export::new("file", device(file, "mq-deadline"))]
    });
    let Some(site) = site else { return };
    for name in ["ram", "file"] {
        interleaved(&site, name, 1500);
    }
}

/// One thread, long ranges over many blocks, any operation, against a copy in memory.
#[test]
fn long_ranges_at_odd_places_are_what_they_should_be() {
    const LONG: u64 = 3 << 20;
    let make = |_: &Path| {
        let mut export = Export::new("part", ram(8 << 20, "kyber"));
        (export.offset, export.size) = (1 << 20, Some(LONG));
        vec![export]
    };
    let Some(site) = Site::new("long", make) else { return };
    let file = site.open("part");
    let (mut shadow, mut random) = (vec![0u8; LONG as usize], stream(5, "fuse"));
    for round in 0..250u64 {
        let from = random.below(LONG);
        let len = 1 + random.below((LONG - from).min(1_300_000));
        let range = from as usize..(from + len) as usize;
        match random.below(4) {
            0 => {
                let how = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                fallocate(&file, how, from, len).unwrap();
                shadow[range].fill(0);
            }
            1 => {
                fallocate(&file, FallocateFlags::ZERO_RANGE, from, len).unwrap();
                shadow[range].fill(0);
            }
            2 => {
                let mut got = vec![0; len as usize];
                file.read_exact_at(&mut got, from).unwrap();
                assert!(got == shadow[range], "round {round}: {len} bytes from {from}");
            }
            _ => {
                let mut state = round as u8;
                shadow[range.clone()].fill_with(|| {
                    state = state.wrapping_mul(5).wrapping_add(17);
                    state
                });
                file.write_all_at(&shadow[range], from).unwrap();
            }
        }
    }
    let mut all = vec![0; LONG as usize];
    file.read_exact_at(&mut all, 0).unwrap();
    assert!(all == shadow);
}

#[test]
fn the_end_is_the_end_and_holes_are_found() {
    let Some(site) = Site::new("end", |_| vec![Export::new("disk", ram(1 << 20, "none"))]) else {
        return;
    };
    let file = site.open("disk");
    let size = 1u64 << 20;
    let found = file.metadata().unwrap();
    assert_eq!((found.len(), found.mode() & 0o7777, found.blocks()), (size, 0o600, 0));
    // Reads end there; writes go up to there, and not beyond.
    let mut byte = [7; 10];
    assert_eq!(file.read_at(&mut byte, size - 3).unwrap(), 3);
    assert_eq!(file.read_at(&mut byte, size).unwrap(), 0);
    assert_eq!(file.write_at(&byte, size - 3).unwrap(), 3);
    assert_eq!(errno(file.write_at(&byte, size)), Some(Errno::NOSPC));
    assert_eq!(errno(file.write_at(&byte, size + 12345)), Some(Errno::NOSPC));
    // The size is the device's; truncating on open is what a block device makes of it: nothing.
    assert_eq!(errno(file.set_len(5)), Some(Errno::INVAL));
    assert_eq!(errno(file.set_len(2 * size)), Some(Errno::INVAL));
    file.set_len(size).unwrap();
    OpenOptions::new().write(true).truncate(true).open(site.path("disk")).unwrap();
    assert_eq!(std::fs::metadata(site.path("disk")).unwrap().len(), size);
    assert_eq!(file.read_at(&mut byte, size - 3).unwrap(), 3);
    // Memory is kept in pieces of 64 KiB.
    file.write_all_at(&[1; 512], 300 << 10).unwrap();
    assert_eq!(seek(&file, SeekFrom::Data(0)), Ok(256 << 10));
    assert_eq!(seek(&file, SeekFrom::Hole(256 << 10)), Ok(320 << 10));
    assert_eq!(seek(&file, SeekFrom::Hole(5)), Ok(5));
    assert_eq!(seek(&file, SeekFrom::Data(400 << 10)), Ok(960 << 10));
    assert_eq!(seek(&file, SeekFrom::Hole(960 << 10)), Ok(size));
    assert_eq!(seek(&file, SeekFrom::Data(size)), Err(Errno::NXIO));
    let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    fallocate(&file, hole, 0, size / 2).unwrap();
    fallocate(&file, hole, size, size).unwrap();
    assert_eq!(seek(&file, SeekFrom::Data(0)), Ok(960 << 10));
    assert_eq!(file.metadata().unwrap().blocks(), 128, "attributes are asked for anew");
    assert_eq!(fallocate(&file, FallocateFlags::empty(), 0, 4096), Err(Errno::OPNOTSUPP));
    assert_eq!(fallocate(&file, FallocateFlags::ZERO_RANGE, size - 1, 2), Err(Errno::NOSPC));
    // Synchronous writes.
    let sync = OpenOptions::new().write(true).custom_flags(libc_o_dsync()).open(site.path("disk"));
    sync.unwrap().write_all_at(b"durable", 1).unwrap();
    let mut got = [0; 9];
    file.read_exact_at(&mut got, 0).unwrap();
    assert_eq!(&got, b"\0durable\0");
    file.sync_all().unwrap();
}

fn libc_o_dsync() -> i32 {
    rustix::fs::OFlags::DSYNC.bits() as i32
}

#[test]
fn nothing_can_be_made_removed_or_written_where_it_must_not() {
    let make = |_: &Path| {
        let mut fixed = Export::new("fixed", ram(1 << 20, "none"));
        fixed.read_only = true;
        vec![Export::new("disk", ram(1 << 20, "none")), fixed]
    };
    let Some(site) = Site::new("fixed", make) else { return };
    let (folder, fixed) = (site.base.join("shaft"), site.path("fixed"));
    let names = std::fs::read_dir(&folder).unwrap().map(|e| e.unwrap().file_name());
    assert_eq!(names.collect::<Vec<_>>(), ["disk", "fixed"]);
    assert_eq!(errno(OpenOptions::new().write(true).open(&fixed)), Some(Errno::ROFS));
    let file = File::open(&fixed).unwrap();
    assert_eq!(file.metadata().unwrap().mode() & 0o7777, 0o400);
    assert_eq!(file.read_at(&mut [0; 100], 1).unwrap(), 100);
    file.sync_all().unwrap();
    assert_eq!(errno(File::create(folder.join("new"))), Some(Errno::PERM));
    assert_eq!(errno(std::fs::create_dir(folder.join("new"))), Some(Errno::PERM));
    assert_eq!(errno(std::fs::remove_file(&fixed)), Some(Errno::PERM));
    assert_eq!(errno(std::fs::rename(&fixed, folder.join("other"))), Some(Errno::PERM));
    assert_eq!(errno(File::open(folder.join("none"))), Some(Errno::NOENT));
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o666);
    assert_eq!(errno(std::fs::set_permissions(&fixed, mode)), Some(Errno::PERM));
}

#[test]
fn names_that_cannot_be_files_are_refused() {
    let device = ram(1 << 20, "none");
    let folder = std::env::temp_dir().join(format!("hoistway-fuse-{}-names", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let refusal = |names: &[&str]| {
        let exports: Vec<_> = names.iter().map(|n| Export::new(n, device.clone())).collect();
        let started = Mount::start(&exports, &folder, FuseOptions::default(), || {});
        started.unwrap_err().to_string()
    };
    for name in ["", ".", "..", "a/b", &"n".repeat(256)] {
        assert!(refusal(&[name]).contains("cannot be a file"), "{name}");
    }
    assert!(refusal(&["a", "a"]).contains("'a'"));
    std::fs::remove_dir(&folder).unwrap();
}

#[test]
fn a_folder_in_use_is_not_unmounted_and_a_severed_one_answers_with_errors() {
    let ended = Arc::new(AtomicBool::new(false));
    let Some(mut site) = Site::new("busy", |_| vec![Export::new("disk", ram(1 << 20, "bfq"))])
    else {
        return;
    };
    // Once more, to hear of the end.
    drop(site.mount.take());
    let device = ram(1 << 20, "bfq");
    let heard = Arc::clone(&ended);
    let exports = [Export::new("disk", device.clone())];
    let tell = move || heard.store(true, Ordering::SeqCst);
    let mount =
        Mount::start(&exports, &site.base.join("shaft"), FuseOptions::default(), tell).unwrap();
    let file = site.open("disk");
    file.write_all_at(b"hello", 3).unwrap();
    let report = device.report().unwrap();
    assert_eq!(report.clients[0].peer, format!("fuse {}", site.path("disk").display()));
    assert_eq!((report.clients[0].done.reads, report.clients[0].done.writes), (1, 1));
    assert!(!mount.detach().unwrap(), "a file is open");
    let users = mount.users().join("; ");
    assert!(users.contains(&format!("process {} (", std::process::id())), "{users}");
    file.write_all_at(b"still here", 3).unwrap();
    mount.sever().unwrap();
    assert!(ended.load(Ordering::SeqCst));
    let error = errno(file.write_at(b"late", 0));
    assert!(matches!(error, Some(Errno::NOTCONN | Errno::CONNABORTED)), "{error:?}");
    assert!(!site.path("disk").exists(), "the mount is gone");
    assert!(mount.detach().unwrap());
}
