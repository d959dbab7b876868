//! Journal, fsync, sync and new files: scenarios 9 and 10 of specs/host.md 18, and their like.

use super::*;

fn write(page: u64, pages: u64, sync: SyncKind) -> Operation {
    Operation::Write { offset: page * PAGE, bs: pages * PAGE, count: 1, sync }
}

/// Bios since the last question: who, operation, pages, flags.
fn bios(b: &mut Bench) -> Vec<(usize, Op, u64, Flags)> {
    b.bios.drain(..).map(|(_, p, io)| (p, io.op, io.sectors.0 / 8, io.flags)).collect()
}

const JOURNAL_FLAGS: Flags =
    Flags::from_bits(Flags::SYNC.bits() | Flags::META.bits() | Flags::IDLE.bits());

fn seal() -> Flags {
    JOURNAL_FLAGS | Flags::PREFLUSH | Flags::FUA
}

#[test]
fn scenario_9_fsync_is_data_then_the_journal_run_then_the_commit_block() {
    let mut b = Bench::usual();
    let f = b.file(1000);
    b.open(f, Advice::Normal);
    b.does(write(0, 1, SyncKind::Full));
    let [(t0, 0, data), (t1, 1, run), (t2, 1, commit)] = b.bios[..] else { panic!("{:?}", b.bios) };
    assert_eq!((data.sectors.0, data.flags), (8, Flags::SYNC));
    assert_eq!((run.start.0 * 512, run.sectors.0), (b.host.journal_place(), 16));
    assert_eq!((run.flags, commit.flags), (JOURNAL_FLAGS, seal()));
    assert_eq!((commit.start.0, commit.sectors.0), (run.start.0 + 16, 8));
    // Each step: the device, the wake-up, the submission; the journal's thread is woken once more.
    let step = Nanos(100_000 + 1400 + 1000);
    assert_eq!((t1, t2), (t0 + step + Nanos(1400), t1 + step));
    let ran = b.ran.last().unwrap().1;
    // The journal's thread is woken by the device, and wakes the caller.
    assert_eq!((ran.calls, ran.first_end), (1, t2 + Nanos(100_000 + 2 * 1400)));
    // Nothing has changed since: fsync is a flush, and there is nothing left to commit.
    b.bios.clear();
    b.does(Operation::Fsync(f));
    assert_eq!(bios(&mut b), [(0, Op::Flush, 0, Flags::PREFLUSH | Flags::SYNC)]);
    while b.advance(Instant::ZERO + Nanos::secs(60)).is_some() {}
    assert_eq!(bios(&mut b), []);
}

#[test]
fn the_first_commit_after_caches_were_dropped_reads_where_the_journal_lies() {
    let cold = |profile, fs: &str| {
        let set = [("journal_mapped", false.into()), ("fs", fs.into())];
        let mut b = Bench::new(config(profile, &set), 1, Nanos::us(100));
        let f = b.file(1000);
        b.open(f, Advice::Normal);
        b
    };
    let commit = |b: &mut Bench, at: u64| {
        b.does(Operation::Sleep(b.now + Nanos::ms(10)));
        b.does(write(at, 1, SyncKind::Full));
        let threads = bios(b).into_iter().filter(|bio| bio.0 == 1);
        threads.map(|(_, op, pages, _)| (op, pages)).collect::<Vec<_>>()
    };
    let (read, run) = ((Op::Read, 1), [(Op::Write, 2), (Op::Write, 1)]);
    let mut b = cold("today", "ext4");
    b.does(write(0, 1, SyncKind::Full));
    let first = b.bios.iter().find(|bio| bio.1 == 1).unwrap().2;
    assert_eq!((first.op, first.flags, first.sectors.0), (Op::Read, Flags::META, 8));
    assert_eq!(first.start.0 * 512, b.host.journal_place() - 2 * PAGE);
    b.bios.clear();
    assert_eq!(commit(&mut b, 1), run, "it is known");
    b.does(Operation::DropCaches);
    assert_eq!(commit(&mut b, 2), [read, run[0], run[1]], "it is forgotten");
    // ext3's and old journals are short.
    for (profile, fs) in [("2010", "ext4"), ("2009", "ext3"), ("today", "ext3")] {
        let mut b = cold(profile, fs);
        let bios = commit(&mut b, 0);
        assert!(bios.iter().all(|bio| bio.0 == Op::Write), "{profile} {fs}: {bios:?}");
        assert!(!bios.is_empty());
    }
}

#[test]
fn scenario_9_fsync_on_ext3_without_barriers_never_flushes() {
    let mut b = Bench::new(config("2009", &[]), 1, Nanos::us(100));
    let f = b.file(1000);
    b.open(f, Advice::Normal);
    b.does(write(0, 256, SyncKind::Full));
    let sync = Flags::SYNC | Flags::NOIDLE;
    let wait = sync | Flags::UNPLUG;
    assert_eq!(
        bios(&mut b),
        [
            (0, Op::Write, 128, sync),
            (0, Op::Write, 128, wait),
            (1, Op::Write, 2, sync),
            (1, Op::Write, 1, wait)
        ]
    );
    // fdatasync of the overwrite: data only.
    b.does(write(0, 1, SyncKind::Data));
    assert_eq!(bios(&mut b), [(0, Op::Write, 1, wait)]);
    // With barriers the commit block carries one.
    let mut b = Bench::new(config("2009", &[("barriers", true.into())]), 1, Nanos::us(100));
    let f = b.file(1000);
    b.open(f, Advice::Normal);
    b.does(write(0, 1, SyncKind::Full));
    assert_eq!(b.bios.last().unwrap().2.flags, wait | Flags::BARRIER);
}

#[test]
fn scenario_10_callers_wait_for_their_transaction_and_share_it() {
    // Slower than the tick in which time stamps count as one change.
    let mut b = Bench::new(config("2019", &[]), 3, Nanos::ms(5));
    let files = [b.file(10), b.file(10), b.file(10)];
    for (p, &file) in files.iter().enumerate() {
        b.host.begin(b.now, p, Operation::Open { file, advice: Advice::Normal });
        assert!(b.go(p));
        // All three change in one transaction.
        b.host.begin(b.now, p, write(0, 1, SyncKind::No));
        while !b.advance_or_go(p) {}
    }
    let started = b.now;
    b.host.begin(b.now, 0, Operation::Fsync(files[0]));
    b.go(0);
    while b.host.kernel.journal.newest() == Some(1) && b.host.kernel.journal.commits == 0 {
        let run = b.bios.iter().any(|x| x.1 == 3);
        if run {
            break;
        }
        b.advance(Instant::from_nanos(u64::MAX)).unwrap();
    }
    // The commit is under way: B's change is in it, C's new one is not.
    b.host.begin(b.now, 2, write(1, 1, SyncKind::No));
    while !b.advance_or_go(2) {}
    b.host.begin(b.now, 1, Operation::Fsync(files[1]));
    b.go(1);
    b.host.begin(b.now, 2, Operation::Fsync(files[2]));
    b.go(2);
    let mut ends = [Instant::ZERO; 3];
    while ends.contains(&Instant::ZERO) {
        for p in b.advance(started + Nanos::secs(1)).expect("all end soon") {
            ends[p] = b.now;
        }
    }
    assert_eq!((b.host.kernel.journal.commits, b.host.kernel.journal.done()), (2, 2));
    // A's and B's end with the first commit; C's with the second, which follows at once.
    assert!(ends[0] <= ends[1] && ends[1] < ends[2], "{ends:?}");
    let commits = b.bios.iter().filter(|x| x.1 == 3).count();
    assert_eq!(commits, 4, "two runs and two commit blocks");
}

#[test]
fn an_fsync_whose_commit_was_sealed_before_its_data_flushes_once_more() {
    let mut b = Bench::new(config("2019", &[]), 2, Nanos::ms(1));
    let f = b.file(10);
    b.open(f, Advice::Normal);
    b.does(write(0, 1, SyncKind::No));
    b.host.begin(b.now, 0, Operation::Fsync(f));
    b.go(0);
    while !b.bios.iter().any(|x| x.2.flags == seal()) {
        b.advance(Instant::from_nanos(u64::MAX)).unwrap();
    }
    b.bios.clear();
    // The commit block is on its way; another process syncs the same file.
    b.host.begin(b.now, 1, Operation::Fsync(f));
    b.go(1);
    while b.advance(b.now + Nanos::secs(1)).is_some() {}
    assert_eq!(bios(&mut b), [(1, Op::Flush, 0, Flags::PREFLUSH | Flags::SYNC)]);
}

#[test]
fn new_blocks_on_ext4_are_allocated_by_write_back_and_awaited_by_the_commit() {
    let mut b = Bench::usual();
    let f = b.host.declare_file(1000 * PAGE).unwrap();
    b.does(Operation::Create(f));
    b.open(f, Advice::Normal);
    b.does(write(0, 600, SyncKind::No));
    assert!(b.host.kernel.files[f.0].blocks.has_holes());
    // fdatasync: the size and the blocks are new, so a commit follows.
    b.does(Operation::Fdatasync(f));
    let all = bios(&mut b);
    let sizes: Vec<_> = all.iter().map(|x| (x.0, x.2)).collect();
    // Descriptor, inode, bitmap of blocks, bitmap of inodes, directory, group descriptor.
    assert_eq!(sizes, [(0, 256), (0, 256), (0, 88), (1, 6), (1, 1)]);
    // An overwrite of them needs no commit.
    b.does(write(0, 600, SyncKind::Data));
    assert!(bios(&mut b).iter().all(|x| x.0 == 0));
}

#[test]
fn a_commit_waits_for_the_data_the_flusher_has_in_flight() {
    let mut b = Bench::usual();
    b.service = Nanos::secs(2);
    let (x, y) = (b.host.declare_file(300 * PAGE).unwrap(), b.file(10));
    b.open(x, Advice::Normal);
    b.does(write(0, 300, SyncKind::No));
    b.does(Operation::DontNeed(x));
    while b.bios.len() < 2 {
        b.advance(Instant::from_nanos(u64::MAX)).unwrap();
    }
    b.open(y, Advice::Normal);
    b.does(write(0, 1, SyncKind::Full));
    // Flusher's two bios at about 0, y's data for 2 s, then the run: not before all of it is there.
    let run = b.bios.iter().find(|x| x.1 == 1).expect("a commit");
    let last_data = b.bios.iter().filter(|x| x.1 != 1).map(|x| x.0).max().unwrap();
    assert!(run.0 >= last_data + Nanos::secs(2));
    assert_eq!(b.host.kernel.journal.commits, 1);
}

#[test]
fn ext3_ordered_writes_the_new_data_before_the_commit_and_writeback_does_not() {
    for (mode, data) in [("ordered", 300), ("writeback", 0)] {
        let set = [("data_mode", mode.into())];
        let mut b = Bench::new(config("2010", &set), 1, Nanos::us(100));
        let f = b.host.declare_file(300 * PAGE).unwrap();
        b.open(f, Advice::Normal);
        b.does(write(0, 300, SyncKind::No));
        while b.advance(Instant::ZERO + Nanos::ms(5_100)).is_some() {}
        let all = bios(&mut b);
        let pages: u64 = all.iter().filter(|x| x.3.any(Flags::SYNC)).map(|x| x.2).sum();
        // The commit's own run is asynchronous: its timer began it. The commit block is not.
        assert_eq!(pages, data + 1, "{mode}: {all:?}");
    }
}

#[test]
fn an_fsync_on_ext3_ordered_drags_in_the_new_data_of_other_files_and_on_writeback_it_does_not() {
    for (mode, dragged) in [("ordered", 300), ("writeback", 0)] {
        for profile in ["2010", "2009"] {
            let set = [("data_mode", mode.into())];
            let mut b = Bench::new(config(profile, &set), 1, Nanos::us(100));
            let (new, own) = (b.host.declare_file(300 * PAGE).unwrap(), b.file(10));
            b.open(new, Advice::Normal);
            b.does(write(0, 300, SyncKind::No));
            b.open(own, Advice::Normal);
            b.does(write(0, 1, SyncKind::Full));
            let all = bios(&mut b);
            let sizes = |p| all.iter().filter(|x| x.0 == p).map(|x| x.2).collect::<Vec<_>>();
            assert_eq!(sizes(0), [1], "the caller writes its own page");
            // The journal writes what is ordered, in requests of 512 KiB, then the run: descriptor, inodes,
            // and what was allocated, a bitmap and a group descriptor; the commit block is last.
            let of_thread = sizes(1);
            let (data, journal) = of_thread.split_at(of_thread.len() - 2);
            assert_eq!((data.iter().sum::<u64>(), journal), (dragged, &[4, 1][..]), "{mode}");
            assert!(data.iter().all(|&pages| pages <= 128));
        }
    }
}

#[test]
fn sync_writes_everything_that_was_dirty_and_commits() {
    let mut b = Bench::usual();
    let files = [b.file(1000), b.file(1000)];
    for f in files {
        b.open(f, Advice::Normal);
        b.does(write(0, 300, SyncKind::No));
    }
    b.does(Operation::Sync);
    let all: Vec<_> = bios(&mut b).iter().map(|x| (x.0, x.2, x.3)).collect();
    let data = |pages| (2, pages, Flags::SYNC);
    assert_eq!(
        all,
        [data(256), data(44), data(256), data(44), (1, 2, JOURNAL_FLAGS), (1, 1, seal())]
    );
    assert_eq!((b.host.kernel.writeback.dirty, b.host.kernel.writeback.out), (0, 0));
    // Nothing to do: only a flush.
    b.does(Operation::Sync);
    assert_eq!(bios(&mut b), [(0, Op::Flush, 0, Flags::PREFLUSH | Flags::SYNC)]);
}

#[test]
fn an_unlinked_file_takes_its_dirty_pages_with_it_and_its_place_is_used_again() {
    let mut b = Bench::usual();
    let f = b.host.declare_file(300 * PAGE).unwrap();
    let place = b.host.place_of(f);
    b.does(Operation::Create(f));
    b.open(f, Advice::Normal);
    b.does(write(0, 300, SyncKind::No));
    b.does(Operation::Unlink(f));
    assert_eq!((b.host.kernel.writeback.dirty, b.host.kernel.cache.cached()), (0, 0));
    while b.advance(Instant::ZERO + Nanos::secs(60)).is_some() {}
    // Two names in one transaction: descriptor, inode, bitmap of inodes, directory, group descriptor; no data.
    let sizes: Vec<_> = bios(&mut b).iter().map(|x| (x.0, x.2)).collect();
    assert_eq!(sizes, [(1, 5), (1, 1)]);
    b.does(Operation::Create(f));
    b.open(f, Advice::Normal);
    b.does(write(0, 1, SyncKind::Data));
    assert_eq!(b.bios[0].2.start.0 * 512, place);
}

#[test]
fn holes_are_read_without_the_device() {
    let mut b = Bench::usual();
    let f = b.host.declare_file(100 * PAGE).unwrap();
    b.open(f, Advice::Normal);
    b.does(write(40, 20, SyncKind::Data));
    b.does(Operation::DropCaches);
    b.bios.clear();
    b.does(Operation::Read { offset: 0, bs: 100 * PAGE, count: 1 });
    assert_eq!(b.windows(f), [(40, 59)]);
}
