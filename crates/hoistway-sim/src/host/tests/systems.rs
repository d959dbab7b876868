//! btrfs and nilfs2 (specs/host.md 14): where blocks go, and the bios of fsync, commits and log writes.

use super::*;
use crate::host::fs::FileSystem;

const SSD: &str = "plextor-px-256m5s";

fn write(page: u64, pages: u64, sync: SyncKind) -> Operation {
    Operation::Write { offset: page * PAGE, bs: pages * PAGE, count: 1, sync }
}

fn bench(fs: &str, drive: &str, procs: usize) -> Bench {
    let set = [("fs", fs.into())];
    Bench::on(drive, config("2019", &set), procs, Nanos::us(100))
}

/// Bios since the last question: who, first byte, pages, flags.
fn bios(b: &mut Bench) -> Vec<(usize, u64, u64, Flags)> {
    let all = b.bios.drain(..);
    all.map(|(_, p, io)| (p, io.start.0 * 512, io.sectors.0 / 8, io.flags)).collect()
}

const META: Flags = Flags::from_bits(Flags::SYNC.bits() | Flags::META.bits());
const SUPERBLOCK: u64 = 64 << 10;

fn seal() -> Flags {
    META | Flags::PREFLUSH | Flags::FUA
}

/// Where data written next goes: behind the files that were laid out.
fn behind_files(b: &Bench) -> u64 {
    b.host.kernel.files.area().1
}

fn place(b: &Bench, file: FileId, page: u64) -> u64 {
    b.host.kernel.files[file.0].place(page)
}

#[test]
fn btrfs_writes_data_to_new_blocks_then_the_log_tree_then_the_superblock() {
    for sync in [SyncKind::Data, SyncKind::Full] {
        let mut b = bench("btrfs", SSD, 1);
        let f = b.file(1000);
        let new = behind_files(&b);
        b.open(f, Advice::Normal);
        b.does(write(7, 1, sync));
        let [t0, t1, t2] = [0, 1, 2].map(|i| b.bios[i].0);
        let nodes = b.host.journal_place();
        // Two nodes and one more for one changed extent, of 16 KiB each.
        assert_eq!(
            bios(&mut b),
            [(0, new, 1, Flags::SYNC), (0, nodes, 12, META), (0, SUPERBLOCK, 1, seal())]
        );
        // One strictly after the other: device, wake-up, submission.
        assert_eq!((t1 - t0, t2 - t1), (Nanos(102_400), Nanos(102_400)));
        let (before, here) = (place(&b, f, 6), place(&b, f, 7));
        assert_eq!((before, here), (b.host.place_of(f) + 6 * PAGE, new));
        // There is no fast path for the next overwrite, and nothing is overwritten.
        b.does(write(7, 1, sync));
        let [(_, data, ..), (_, at, 12, _), _] = bios(&mut b)[..] else { panic!("three bios") };
        assert_eq!((data, at), (new + PAGE, nodes + (48 << 10)));
    }
}

#[test]
fn btrfs_writes_its_trees_twice_on_a_rotating_disk() {
    let mut b = bench("btrfs", HITACHI, 1);
    let f = b.file(1000);
    b.open(f, Advice::Normal);
    b.does(write(0, 1, SyncKind::Data));
    let nodes = b.host.journal_place();
    let all = bios(&mut b);
    assert_eq!(all[1..3], [(0, nodes, 12, META), (0, nodes + (1 << 30), 12, META)]);
    assert_eq!(all.len(), 4);
}

#[test]
fn btrfs_commits_after_30_s_and_the_log_holds_a_node_per_hundred_extents() {
    let mut b = bench("btrfs", SSD, 1);
    let f = b.file(1000);
    b.open(f, Advice::Normal);
    for page in 0..150 {
        b.does(write(6 * page, 1, SyncKind::No));
    }
    // One run at the cursor, although every page was written by itself.
    b.does(Operation::Fdatasync(f));
    let all = bios(&mut b);
    let first = behind_files(&b);
    for (i, bio) in all[..150].iter().enumerate() {
        assert_eq!(*bio, (0, first + i as u64 * PAGE, 1, Flags::SYNC));
    }
    assert_eq!((all[150].2, all[151].1), ((2 + 2) * 4, SUPERBLOCK));
    while b.advance(Instant::ZERO + Nanos::ms(29_900)).is_some() {}
    assert_eq!(bios(&mut b), []);
    while b.advance(Instant::ZERO + Nanos::secs(60)).is_some() {}
    // 8 nodes and one for each 50 of the 150 extents; then the superblock, and its copy.
    let nodes = b.host.journal_place() + 4 * (16 << 10);
    assert_eq!(
        bios(&mut b),
        [(1, nodes, (8 + 3) * 4, META), (1, SUPERBLOCK, 1, seal()), (1, 64 << 20, 1, META)]
    );
}

#[test]
fn btrfs_shares_the_next_log_among_those_who_came_during_one() {
    let mut b = bench("btrfs", SSD, 4);
    let files: Vec<_> = (0..4).map(|_| b.file(10)).collect();
    for (p, &file) in files.iter().enumerate() {
        b.host.begin(b.now, p, Operation::Open { file, advice: Advice::Normal });
        assert!(b.go(p));
        b.host.begin(b.now, p, write(0, 1, SyncKind::Data));
        b.go(p);
    }
    let mut over = 0;
    while over < 4 {
        over += b.advance(Instant::ZERO + Nanos::secs(1)).expect("all end soon").len();
    }
    let all = bios(&mut b);
    let logs: Vec<_> = all.iter().filter(|x| x.3 == META).map(|x| x.2).collect();
    assert_eq!(logs, [12, 12], "the first for one file, the second for three");
    let FileSystem::Btrfs(fs) = &b.host.kernel.fs else { panic!("btrfs") };
    assert_eq!((fs.logs, fs.log_blocks), (2, 2 * 13));
}

#[test]
fn btrfs_gives_blocks_back_with_the_commit_and_reads_a_file_in_pieces() {
    let mut b = bench("btrfs", SSD, 1);
    let f = b.file(64);
    b.open(f, Advice::Normal);
    for page in [40, 8, 24] {
        b.does(write(page, 8, SyncKind::Data));
    }
    b.does(Operation::DropCaches);
    b.bios.clear();
    b.open(f, Advice::Random);
    b.does(Operation::Read { offset: 0, bs: 64 * PAGE, count: 1 });
    let (old, new) = (b.host.place_of(f), behind_files(&b));
    let at = |page: u64| old + page * PAGE;
    let pieces: Vec<_> = bios(&mut b).iter().map(|x| (x.1, x.2)).collect();
    assert_eq!(
        pieces,
        [
            (at(0), 8),
            (new + 8 * PAGE, 8),
            (at(16), 8),
            (new + 16 * PAGE, 8),
            (at(32), 8),
            (new, 8),
            (at(48), 16)
        ]
    );
    // Unlinked and written again it goes on at the cursor, not to its old place.
    b.does(Operation::Unlink(f));
    b.does(Operation::Create(f));
    b.open(f, Advice::Normal);
    b.does(write(0, 64, SyncKind::Data));
    assert_eq!((bios(&mut b)[0].1, place(&b, f, 63)), (new + 24 * PAGE, new + 87 * PAGE));
}

#[test]
fn btrfs_is_full_when_what_was_given_up_is_not_committed() {
    let mut b = bench("btrfs", SSD, 1);
    let f = b.file(1000);
    b.open(f, Advice::Normal);
    b.does(write(0, 100, SyncKind::Data));
    let FileSystem::Btrfs(fs) = &mut b.host.kernel.fs else { panic!("btrfs") };
    fs.leave_free(50 * PAGE);
    b.does(write(0, 50, SyncKind::Data));
    assert!(b.fault.is_none());
    // The 100 blocks of the first write are free after the commit.
    b.does(Operation::Sync);
    b.does(write(0, 100, SyncKind::Data));
    assert!(b.fault.is_none());
    b.does(write(500, 100, SyncKind::Data));
    let fault = b.fault.take().expect("the device is full").to_string();
    assert!(fault.contains("btrfs: no free block is left"), "{fault}");
}

#[test]
fn btrfs_checks_what_it_reads_and_writes_in_processor_time() {
    // Time of a lone read, and of a lone write with its fdatasync up to the data's submission.
    let times = |fs: &str, direct: bool| {
        let mut b = bench(fs, SSD, 1);
        let f = b.file(1000);
        b.open(f, Advice::Random);
        let begun = b.now;
        let (offset, len) = (0, 64 * PAGE);
        b.does(match direct {
            true => Operation::Direct { write: false, offset, len, since: None, sync: false },
            false => Operation::Read { offset, bs: len, count: 1 },
        });
        let read = b.ran.last().unwrap().1.first_end - begun;
        b.bios.clear();
        let begun = b.now;
        b.does(write(100, 64, SyncKind::Data));
        (read, b.bios[0].0 - begun)
    };
    for direct in [false, true] {
        let (ext4, btrfs) = (times("ext4", direct), times("btrfs", direct));
        // 256 KiB at 100 ns per KiB.
        assert_eq!(btrfs.0 - ext4.0, Nanos(25_600), "direct {direct}");
        assert_eq!(btrfs.1 - ext4.1, Nanos(25_600));
    }
}

/// nilfs2 flushes on modern hosts; the log's thread is process 1.
const LOG: usize = 1;

#[test]
fn nilfs2_writes_scattered_blocks_as_one_run_and_flushes() {
    let mut b = bench("nilfs2", SSD, 1);
    let f = b.file(1000);
    let log = behind_files(&b).next_multiple_of(8 << 20);
    b.open(f, Advice::Normal);
    for page in [900, 3, 500] {
        b.does(write(page, 1, SyncKind::No));
    }
    b.does(Operation::Fdatasync(f));
    // 1 + 1 blocks of summary, the three in ascending order, 3 + 1 of metadata; then a flush.
    let flush = (LOG, 0, 0, Flags::PREFLUSH | Flags::SYNC);
    assert_eq!(bios(&mut b), [(LOG, log, 9, Flags::SYNC), flush]);
    let at = [3, 500, 900].map(|page| place(&b, f, page));
    assert_eq!(at, [log + 2 * PAGE, log + 3 * PAGE, log + 4 * PAGE]);
    // Nothing has changed: nothing is written.
    b.does(Operation::Fsync(f));
    assert_eq!(bios(&mut b), []);
    // The next one goes on behind it; a sequential read jumps.
    b.does(write(3, 1, SyncKind::Full));
    assert_eq!(bios(&mut b), [(LOG, log + 9 * PAGE, 7, Flags::SYNC), flush]);
    b.does(Operation::DropCaches);
    b.bios.clear();
    b.open(f, Advice::Random);
    b.does(Operation::Read { offset: 0, bs: 8 * PAGE, count: 1 });
    let old = b.host.place_of(f);
    let pieces: Vec<_> = bios(&mut b).iter().map(|x| (x.1, x.2)).collect();
    assert_eq!(pieces, [(old, 3), (log + 11 * PAGE, 1), (old + 4 * PAGE, 4)]);
}

#[test]
fn nilfs2_without_barriers_does_not_flush() {
    let set = [("fs", "nilfs2".into())];
    let mut b = Bench::on("sd-card-2009", config("2009", &set), 1, Nanos::us(100));
    let f = b.file(1000);
    b.open(f, Advice::Normal);
    b.does(write(0, 300, SyncKind::Full));
    let sync = Flags::SYNC | Flags::NOIDLE;
    let flags: Vec<_> = bios(&mut b).iter().map(|x| (x.2, x.3)).collect();
    // 1 + 3, 300, 3 + 3: requests of at most 512 KiB.
    assert_eq!(flags, [(128, sync), (128, sync), (310 - 256, sync | Flags::UNPLUG)]);
}

#[test]
fn nilfs2_writes_its_log_after_5_s_and_at_3600_dirty_blocks() {
    let mut b = bench("nilfs2", SSD, 1);
    let (f, g) = (b.file(10_000), b.file(10));
    b.open(f, Advice::Normal);
    b.does(write(0, 10, SyncKind::No));
    while b.advance(Instant::ZERO + Nanos::ms(4_990)).is_some() {}
    assert_eq!(bios(&mut b), []);
    while b.advance(Instant::ZERO + Nanos::secs(60)).is_some() {}
    let log = behind_files(&b).next_multiple_of(8 << 20);
    assert_eq!(bios(&mut b), [(LOG, log, 2 + 10 + 4, Flags::NONE)]);
    // At 3600 blocks, of all files, without waiting for the timer.
    b.open(g, Advice::Normal);
    b.does(write(0, 1, SyncKind::No));
    b.open(f, Advice::Normal);
    let begun = b.now;
    b.does(write(0, 3598, SyncKind::No));
    while b.advance(begun + Nanos::secs(1)).is_some() {}
    assert_eq!(bios(&mut b), []);
    b.does(write(5000, 1, SyncKind::No));
    while b.advance(begun + Nanos::secs(2)).is_some() {}
    let all = bios(&mut b);
    // 30 blocks of summary and 39 of metadata; bios of 1 MiB, cut where the segment ends.
    assert_eq!(all.iter().map(|x| x.2).sum::<u64>(), 3600 + 30 + 39);
    let segment = 8 << 20;
    for (i, &(p, start, pages, flags)) in all.iter().enumerate() {
        assert_eq!((p, flags), (LOG, Flags::NONE));
        assert!(start / segment == (start + pages * PAGE - 1) / segment);
        let next = all.get(i + 1).map_or(start + pages * PAGE, |x| x.1);
        assert_eq!(next, start + pages * PAGE, "one run");
    }
    assert_eq!(all[0].1, log + 16 * PAGE);
    assert_eq!(place(&b, g, 0), place(&b, f, 5000) + PAGE, "file after file");
}

#[test]
fn nilfs2_writes_one_log_at_a_time_and_a_file_at_a_time_for_fsync() {
    let mut b = bench("nilfs2", SSD, 2);
    let files = [b.file(10), b.file(10)];
    for (p, &file) in files.iter().enumerate() {
        b.host.begin(b.now, p, Operation::Open { file, advice: Advice::Normal });
        assert!(b.go(p));
        b.host.begin(b.now, p, write(0, 1 + p as u64, SyncKind::Full));
        b.go(p);
    }
    let mut over = Vec::new();
    while over.len() < 2 {
        over.extend(b.advance(Instant::ZERO + Nanos::secs(1)).expect("both end soon"));
    }
    let sizes: Vec<_> = b.bios.iter().map(|x| x.2.sectors.0 / 8).collect();
    assert_eq!((sizes, over), (vec![7, 0, 8, 0], vec![0, 1]));
    let thread = |i: usize| b.bios[i].0;
    assert!(thread(2) >= thread(1) + Nanos::us(100), "behind the flush of the first");
    // sync(): all that is dirty, and it waits.
    b.bios.clear();
    b.host.begin(b.now, 1, write(5, 2, SyncKind::No));
    while !b.advance_or_go(1) {}
    b.does(Operation::Sync);
    let sizes: Vec<_> = b.bios.iter().map(|x| x.2.sectors.0 / 8).collect();
    assert_eq!(sizes, [8, 0]);
    assert_eq!(b.host.kernel.writeback.held(), 0);
}

#[test]
fn writers_above_the_dirty_limit_wait_for_the_log_of_nilfs2() {
    for variant in ["wb30", "wb61"] {
        let set =
            [("fs", "nilfs2".into()), ("ram", "64M".into()), ("writeback_variant", variant.into())];
        let mut b = Bench::on("sd-card-2009", config("2009", &set), 1, Nanos::ms(80));
        b.serial = true;
        let f = b.host.declare_file(20_000 * PAGE).unwrap();
        b.does(Operation::Create(f));
        b.open(f, Advice::Normal);
        let limit = b.host.kernel.writeback.thresholds.limit;
        b.does(Operation::Write { offset: 0, bs: PAGE, count: 20_000, sync: SyncKind::No });
        assert!(b.fault.is_none(), "{variant}: {:?}", b.fault);
        assert!(b.now > Instant::ZERO + Nanos::secs(5), "{variant}: slowed to the device");
        let most = b.host.kernel.writeback.held_max;
        // A writer dirties up to a thirty-second of memory between two checks.
        assert!(most <= limit + 512, "{variant}: {most} held of {limit}");
        b.does(Operation::Fsync(f));
        assert_eq!((b.host.kernel.writeback.dirty, b.host.kernel.writeback.held()), (0, 0));
        let FileSystem::Nilfs2(fs) = &b.host.kernel.fs else { panic!("nilfs2") };
        assert!(fs.log_blocks > 20_000);
    }
}

#[test]
fn nilfs2_without_a_free_segment_says_so() {
    let mut b = bench("nilfs2", SSD, 1);
    let f = b.file(1000);
    b.open(f, Advice::Normal);
    b.does(write(0, 1, SyncKind::Data));
    let FileSystem::Nilfs2(fs) = &mut b.host.kernel.fs else { panic!("nilfs2") };
    fs.occupy_all();
    b.does(write(0, 1000, SyncKind::Data));
    assert!(b.fault.is_none(), "the segment under way has room");
    b.host.begin(b.now, 0, write(0, 1000, SyncKind::Full));
    b.go(0);
    while b.fault.is_none() {
        b.advance(Instant::ZERO + Nanos::secs(60)).expect("it ends");
    }
    let fault = b.fault.take().unwrap().to_string();
    assert!(fault.contains("nilfs2: no free segment"), "{fault}");
}

#[test]
fn direct_writes_of_nilfs2_are_logged_and_direct_io_of_btrfs_follows_the_extents() {
    let direct = |write, page: u64, pages: u64| Operation::Direct {
        write,
        offset: page * PAGE,
        len: pages * PAGE,
        since: None,
        sync: false,
    };
    let mut b = bench("nilfs2", SSD, 1);
    let f = b.file(1000);
    b.open(f, Advice::Normal);
    b.does(direct(true, 10, 2));
    let log = behind_files(&b).next_multiple_of(8 << 20);
    assert_eq!(bios(&mut b)[0], (LOG, log, 2 + 2 + 4, Flags::SYNC));
    b.does(direct(false, 9, 2));
    let reads: Vec<_> = bios(&mut b).iter().map(|x| (x.0, x.1, x.2)).collect();
    assert_eq!(reads, [(0, b.host.place_of(f) + 9 * PAGE, 1), (0, log + 2 * PAGE, 1)]);

    let mut b = bench("btrfs", SSD, 1);
    let f = b.file(1000);
    b.open(f, Advice::Normal);
    let new = behind_files(&b);
    b.does(direct(true, 10, 2));
    b.does(direct(false, 9, 2));
    let all: Vec<_> = bios(&mut b).iter().map(|x| (x.0, x.1, x.2)).collect();
    assert_eq!(all, [(0, new, 2), (0, b.host.place_of(f) + 9 * PAGE, 1), (0, new, 1)]);
    // No data is left for the commit to wait for.
    b.does(Operation::Sync);
    assert_eq!(b.host.kernel.journal.commits, 1);
}

#[test]
fn the_device_as_a_file_is_written_in_place_and_flushed_under_any_file_system() {
    for fs in ["ext4", "btrfs"] {
        let mut b = bench(fs, SSD, 1);
        let device = b.host.device_file().unwrap();
        b.open(device, Advice::Normal);
        b.does(write(1000, 2, SyncKind::Data));
        b.does(write(1000, 1, SyncKind::Full));
        let flush = (0, 0, 0, Flags::PREFLUSH | Flags::SYNC);
        let data = |pages| (0, 1000 * PAGE, pages, Flags::SYNC);
        assert_eq!(bios(&mut b), [data(2), flush, data(1), flush], "{fs}");
        // It has no inode: nothing is committed.
        while b.advance(Instant::ZERO + Nanos::secs(60)).is_some() {}
        assert_eq!(bios(&mut b), []);
    }
}
