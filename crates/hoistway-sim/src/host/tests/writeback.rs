//! Write-back and throttling: scenarios 13 and 14 of specs/host.md 18, and what must hold in any mix.

use super::*;
use crate::host::file::Listed;
use crate::rng::stream;
use hoistway::Flags;

fn write(page: u64, pages: u64) -> Operation {
    Operation::Write { offset: page * PAGE, bs: PAGE, count: pages, sync: SyncKind::No }
}

/// Bios of the flusher: file offsets are bytes from the file's place.
fn flushed(b: &Bench) -> Vec<(Instant, u64, u64, Flags)> {
    let flusher = b.seats.len() - 1;
    let own = b.bios.iter().filter(|bio| bio.1 == flusher);
    own.map(|(t, _, io)| (*t, io.start.0 * 512, io.sectors.0 / 8, io.flags)).collect()
}

#[test]
fn scenario_14_two_big_files_take_turns_of_a_quota_in_bios_of_1_mib() {
    // The first second of a device far faster than the estimate it starts with.
    let mut b = Bench::new(config("2019", &[]), 1, Nanos::us(10));
    let (x, y) = (b.file(100_000), b.file(100_000));
    for f in [x, y] {
        b.open(f, Advice::Normal);
        b.does(write(0, 91_000));
    }
    while b.advance(Instant::ZERO + Nanos::secs(2)).is_some() {}
    let bios = flushed(&b);
    // More than 178,257 pages were dirty: the background work ran until they were not.
    let pages: u64 = bios.iter().map(|bio| bio.2).sum();
    assert!(pages >= 182_000 - 178_257, "{pages}");
    assert!(bios.iter().all(|bio| bio.3 == Flags::BACKGROUND));
    let turn: Vec<_> = bios.iter().take(52).collect();
    assert!(turn.iter().all(|bio| bio.2 == 256), "{turn:?}");
    assert_eq!(turn[0].1, b.host.place_of(x));
    assert_eq!(turn[51].1, b.host.place_of(x) + 51 * 256 * PAGE);
}

/// How many of three files the flusher writes of, once 4,743 pages more than the background level are dirty.
fn written_over_the_level(submit_ns: i64) -> usize {
    let set = [("submit_ns", submit_ns.into()), ("ram", "8G".into())];
    let mut b = Bench::new(config("2012", &set), 1, Nanos::us(100));
    let files = [0; 3].map(|_| b.file(70_000));
    for f in files {
        b.open(f, Advice::Normal);
        b.does(write(0, 61_000));
    }
    while b.advance(Instant::ZERO + Nanos::secs(20)).is_some() {}
    let bios = flushed(&b);
    let written = |f: FileId| {
        let place = b.host.place_of(f);
        bios.iter().any(|bio| (place..place + 70_000 * PAGE).contains(&bio.1))
    };
    files.into_iter().filter(|&f| written(f)).count()
}

#[test]
fn a_pass_writes_far_below_the_level() {
    // The level is met in the first turn, of 52 MiB.
    assert_eq!(written_over_the_level(1000), 3);
}

#[test]
fn a_pass_ends_after_100_ms_with_the_turn_that_is_under_way() {
    // The first turn is 104 bios of 512 KiB, so the second would begin 99 and 101 ms after it.
    assert_eq!(written_over_the_level(952_000), 2);
    assert_eq!(written_over_the_level(972_000), 1);
}

#[test]
fn scenario_14_turns_alternate_while_both_files_have_pages() {
    let set = [("dirty_background_ratio", 1.into()), ("dirty_ratio", 20.into())];
    let mut b = Bench::new(config("2019", &set), 1, Nanos::us(10));
    let (x, y) = (b.file(50_000), b.file(50_000));
    for f in [x, y] {
        b.open(f, Advice::Normal);
        // One call, so that the work does not begin before all is dirty.
        b.does(Operation::Write { offset: 0, bs: 40_000 * PAGE, count: 1, sync: SyncKind::No });
    }
    while b.advance(Instant::ZERO + Nanos::secs(4)).is_some() {}
    let border = b.host.place_of(y);
    let mut turns: Vec<(bool, u64)> = Vec::new();
    for (_, at, pages, _) in flushed(&b) {
        let second = at >= border;
        match turns.last_mut() {
            Some((last, sum)) if *last == second => *sum += pages,
            _ => turns.push((second, pages)),
        }
    }
    assert!(turns.len() >= 4, "{turns:?}");
    assert!(turns.windows(2).all(|w| w[0].0 != w[1].0));
    // The estimate has moved since it began at 25,600 pages/s; the first turns are 1024-page multiples.
    assert!(turns[..2].iter().all(|t| t.1 % 1024 == 0 && t.1 >= 1024), "{turns:?}");
}

#[test]
fn scenario_14_an_old_page_is_written_by_the_periodic_work() {
    let mut b = Bench::usual();
    let f = b.file(1000);
    b.open(f, Advice::Normal);
    b.does(write(7, 1));
    while b.advance(Instant::ZERO + Nanos::secs(100)).is_some() {}
    let bios = flushed(&b);
    let [(t, at, 1, Flags::BACKGROUND)] = bios[..] else { panic!("{bios:?}") };
    assert_eq!(at, b.host.place_of(f) + 7 * PAGE);
    let s = |n| Instant::ZERO + Nanos::secs(n);
    assert!(s(30) <= t && t <= s(35), "{t:?}");
    assert_eq!((b.host.kernel.writeback.dirty, b.host.kernel.writeback.out), (0, 0));
}

#[test]
fn an_inode_that_is_always_written_does_not_keep_the_periodic_work_busy() {
    let mut b = Bench::usual();
    let f = b.file(1000);
    b.open(f, Advice::Normal);
    let end = Instant::ZERO + Nanos::secs(70);
    while b.now < end {
        b.does(write(3, 1));
        let until = b.now + Nanos::ms(1);
        b.does(Operation::Sleep(until));
    }
    let n = flushed(&b).len();
    assert!((1..=3).contains(&n), "{n} bios");
}

#[test]
fn a_writer_waits_for_memory_that_only_write_back_can_free() {
    // Everything may be dirty, so that reclaim finds nothing else.
    let set = [("ram", "64M".into()), ("dirty_ratio", 100.into())];
    let mut b = Bench::new(config("2019", &set), 1, Nanos::us(100));
    b.serial = true;
    let f = b.file(30_000);
    b.open(f, Advice::Normal);
    b.does(write(0, 30_000));
    assert_eq!(b.fault, None);
    assert!(b.host.kernel.cache.reclaimed >= 30_000 - 13_926);
    assert!(b.host.kernel.cache.cached() <= 13_926);
}

#[test]
fn dontneed_writes_and_waits_for_nothing_to_be_served() {
    let mut b = Bench::usual();
    let f = b.file(1000);
    b.open(f, Advice::Normal);
    b.does(write(0, 300));
    let before = b.now;
    b.does(Operation::DontNeed(f));
    // Two bios at 1 us each; they take 0.1 ms.
    assert_eq!(b.now, before + Nanos(2000));
    while b.advance(Instant::ZERO + Nanos::secs(1)).is_some() {}
    // The caller's own bios: whoever holds one of them holds the caller.
    let bios: Vec<_> = b.bios.iter().map(|(_, p, io)| (*p, io.sectors.0 / 8, io.flags)).collect();
    assert_eq!(bios, [(0, 256, Flags::NONE), (0, 44, Flags::NONE)]);
}

#[test]
fn dontneed_of_anothers_file_is_paid_by_its_owner() {
    let mut b = grouped();
    let x = b.file(100);
    b.open(x, Advice::Normal);
    b.does(write(0, 10));
    b.host.begin(b.now, 1, Operation::DontNeed(x));
    while !b.advance_or_go(1) {}
    let [(_, 1, io)] = b.bios[..] else { panic!("{:?}", b.bios) };
    assert_eq!((io.group, io.proc), (GroupId(1), ProcId(1)));
}

/// A bench with two processes in groups 1 and 2, each of which has a flusher.
fn grouped() -> Bench {
    let mut b = Bench::new(config("2019", &[]), 2, Nanos::us(100));
    for p in 0..2 {
        b.host.processes[p].task.info.group = GroupId(p as u32 + 1);
    }
    for g in 1..3 {
        let prio = IoPrio::be(4);
        b.host.add_flushers([ProcInfo { id: ProcId(10 + g), group: GroupId(g), prio, cpu: 0 }]);
        b.seats.push(None);
    }
    b
}

#[test]
fn a_group_with_more_than_its_part_is_written_below_the_background_level() {
    let mut b = grouped();
    let background = b.host.kernel.writeback.thresholds.background;
    // Group 2 has little, group 1 most: together they exceed the level.
    let (few, many) = (background / 8, background);
    let (x, y) = (b.file(2 * background), b.file(2 * background));
    b.host.begin(b.now, 1, Operation::Open { file: y, advice: Advice::Normal });
    assert!(b.go(1));
    b.host.begin(b.now, 1, write(0, few));
    while !b.advance_or_go(1) {}
    b.open(x, Advice::Normal);
    b.does(write(0, many));
    // Before anything is old.
    while b.advance(Instant::ZERO + Nanos::secs(25)).is_some() {}
    let w = &b.host.kernel.writeback;
    let own = w.flushers.iter().find(|f| f.group == GroupId(1)).unwrap();
    // Its part is at most a half. All together would be below the level with 7/8 of it dirty here.
    assert!(own.held - own.out <= background / 2, "{} of {background}", own.held - own.out);
    assert!(own.held > 0);
    let other = w.flushers.iter().find(|f| f.group == GroupId(2)).unwrap();
    assert_eq!(other.held, few, "it has less than its part");
}

#[test]
fn each_group_has_a_flusher_that_pays_for_its_inodes() {
    let mut b = grouped();
    let (x, y) = (b.file(100), b.file(100));
    b.open(x, Advice::Normal);
    b.does(write(0, 10));
    b.host.begin(b.now, 1, Operation::Open { file: y, advice: Advice::Normal });
    assert!(b.go(1));
    b.host.begin(b.now, 1, write(0, 10));
    b.go(1);
    while b.advance(Instant::ZERO + Nanos::secs(60)).is_some() {}
    let mut paid: Vec<_> = b
        .bios
        .iter()
        .filter(|x| x.2.flags == Flags::BACKGROUND)
        .map(|x| (x.1, x.2.group))
        .collect();
    paid.sort();
    // Processes 0 and 1, the journal, the root's flusher, then theirs.
    assert_eq!(paid, [(4, GroupId(1)), (5, GroupId(2))]);
}

#[test]
fn an_inode_goes_over_to_the_group_that_writes_it() {
    let mut b = grouped();
    let f = b.file(100_000);
    b.open(f, Advice::Normal);
    b.does(write(0, 1));
    b.does(Operation::Fdatasync(f));
    b.host.begin(b.now, 1, Operation::Open { file: f, advice: Advice::Normal });
    assert!(b.go(1));
    // Each round is 40,000 of process 1's pages at 25,600 pages/s: five bits.
    for round in 0..3 {
        let owner = b.host.kernel.files[f.0].owner;
        assert_eq!(owner, Some(GroupId(if round < 2 { 1 } else { 2 })), "round {round}");
        b.bios.clear();
        b.host.begin(b.now, 1, write(64, 40_000));
        b.go(1);
        while b.advance(b.now + Nanos::secs(1)).is_some() {}
        b.host.begin(b.now, 1, Operation::Fdatasync(f));
        b.go(1);
        while b.advance(b.now + Nanos::secs(1)).is_some() {}
        let paid = b.bios.iter().filter(|x| x.2.op == Op::Write && x.1 == 1);
        assert!(paid.map(|x| x.2.group).all(|g| g == owner.unwrap()), "the owner pays");
        check(&b.host, 0);
    }
}

#[test]
fn a_congested_group_reads_single_pages() {
    let mut b = Bench::usual();
    let f = b.file(10_000);
    b.open(f, Advice::Sequential);
    b.read(0, PAGE);
    assert_eq!((b.windows(f), b.marker(f)), (vec![(0, 3)], Some(1)));
    b.host.set_congested(0, true);
    // The marker passes without effect, then each missing page is read alone.
    for page in 1..6 {
        b.read(page, PAGE);
    }
    assert_eq!((b.windows(f), b.marker(f)), (vec![(4, 4), (5, 5)], None));
    b.read(10, 2 * PAGE);
    assert_eq!(b.windows(f), [(10, 10), (11, 11)]);
}

#[test]
fn a_delayed_process_starts_no_call_before_its_time() {
    let mut b = Bench::usual();
    let f = b.file(1000);
    b.open(f, Advice::Sequential);
    b.does(Operation::Read { offset: 0, bs: PAGE, count: 10 });
    let until = b.now + Nanos::ms(5);
    b.host.delay(0, until);
    let before = b.ran.len();
    b.does(Operation::Read { offset: 0, bs: PAGE, count: 10 });
    let run = b.ran[before].1;
    assert_eq!((run.calls, run.first_end), (10, until + Nanos(1600)));
}

#[test]
fn scenario_13_the_old_writer_writes_a_chunk_per_check() {
    let b = Bench::new(config("2009", &[]), 1, Nanos::us(100));
    let t = b.host.kernel.writeback.thresholds;
    assert_eq!((t.background, t.limit, t.freerun), (44_564, 89_128, 66_846));
    assert_eq!(b.host.kernel.writeback.old.as_ref().unwrap().room(9), 1024);

    // A device that takes its time: pages under write-back stay held, so that the limit is passed.
    let mut b = Bench::new(config("2009", &[]), 1, Nanos::secs(3600));
    let f = b.file(200_000);
    b.open(f, Advice::Normal);
    b.host.begin(
        b.now,
        0,
        Operation::Write { offset: 0, bs: PAGE, count: 90_150, sync: SyncKind::No },
    );
    assert!(!b.go(0));
    let mut held_at_first = 0;
    while b.host.kernel.writeback.held() < 90_150 {
        b.advance(Instant::ZERO + Nanos::secs(1000)).expect("the writer goes on");
        if held_at_first == 0 && b.bios.iter().any(|x| x.1 == 0) {
            held_at_first = b.host.kernel.writeback.held();
        }
    }
    // The first check above the limit, at most 1024 pages later; each of the bios is 512 KiB.
    assert!((89_129..=89_128 + 1024).contains(&held_at_first), "{held_at_first}");
    let own: Vec<u64> = b.bios.iter().filter(|x| x.1 == 0).map(|x| x.2.sectors.0 / 8).collect();
    assert!(own.len() >= 12 && own[..12].iter().sum::<u64>() == 1536, "{own:?}");
    // From then on it is checked every 8 pages and writes a chunk each time.
    let checks = b.host.kernel.writeback.old.as_ref().unwrap().chunks;
    let after = 90_150 - held_at_first;
    assert!((after / 8).abs_diff(checks) <= 1, "{checks} checks for {after} pages");
    assert!(own.iter().sum::<u64>().abs_diff(1536 * checks) <= 1536);
}

#[test]
fn no_page_is_lost_and_no_limit_overrun_in_a_random_mix() {
    for seed in 1..40 {
        mix(seed, "2019");
        mix(seed, "2009");
    }
}

/// Three processes on three files with little memory; then all is left to drain.
fn mix(seed: u64, profile: &str) {
    let mut rng = stream(seed, "mix");
    let mut config = config(profile, &[("ram", "64M".into()), ("commit_s", 1.into())]);
    if rng.below(3) == 0 {
        config.set("fs", &"ext3".into()).unwrap();
    }
    if rng.below(2) == 0 {
        config.set("dirty_expire_centisecs", &100.into()).unwrap();
    }
    let service = Nanos::us(1 + rng.below(3000));
    let mut b = Bench::new(config, 3, service);
    b.serial = rng.below(3) > 0;
    let files: Vec<FileId> = (0..3)
        .map(|_| {
            let pages = 1 + rng.below(6000);
            match rng.below(2) {
                0 => b.file(pages),
                _ => b.host.declare_file(pages * PAGE).unwrap(),
            }
        })
        .collect();
    let mut left = [30; 3];
    for (p, &file) in files.iter().enumerate() {
        b.host.begin(b.now, p, Operation::Open { file, advice: Advice::Normal });
        b.seats[p] = Some(b.now);
    }
    let limit = b.host.kernel.writeback.thresholds.limit;
    let mut steps = 0;
    while let Some(over) = b.advance(Instant::ZERO + Nanos::secs(400)) {
        for p in over.into_iter().filter(|&p| p < 3) {
            if left[p] == 0 {
                continue;
            }
            left[p] -= 1;
            let operation = operation(&mut rng, b.now, &b.host, files[p]);
            b.host.begin(b.now, p, operation);
            b.seats[p] = Some(b.now);
        }
        assert_eq!(b.fault, None, "seed {seed}");
        check(&b.host, seed);
        // Each writer may dirty 1024 pages between two checks.
        assert!(b.host.kernel.writeback.held() <= limit + 3 * 1024, "seed {seed}");
        steps += 1;
        assert!(steps < 2_000_000, "seed {seed} does not end");
    }
    assert_eq!(left, [0; 3], "seed {seed}: a process hangs");
    assert_eq!(
        (b.host.kernel.writeback.dirty, b.host.kernel.writeback.out),
        (0, 0),
        "seed {seed}: pages stay dirty"
    );
    assert_eq!(b.host.in_flight(), 0);
}

fn operation(rng: &mut crate::rng::Rng, now: Instant, host: &Host, file: FileId) -> Operation {
    let bytes = host.kernel.files[file.0].bytes;
    let pages = bytes / PAGE;
    let from = rng.below(pages);
    let span = 1 + rng.below(pages - from);
    let per_call = 1 + rng.below(span.min(3000));
    let (offset, bs, count) = (from * PAGE, per_call * PAGE, span / per_call);
    let kinds = [SyncKind::No, SyncKind::No, SyncKind::Data, SyncKind::Full];
    match rng.below(14) {
        0 => Operation::Read { offset, bs, count },
        1 => Operation::Fdatasync(file),
        2 => Operation::DontNeed(file),
        3 => Operation::Sleep(now + Nanos::us(rng.below(2_000_000))),
        4 => Operation::Direct { write: true, offset, len: bs, since: None, sync: false },
        5 => Operation::DropCaches,
        6 => Operation::Fsync(file),
        7 => Operation::Sync,
        8 if rng.below(3) == 0 => Operation::Unlink(file),
        _ => Operation::Write { offset, bs, count, sync: kinds[rng.below(4) as usize] },
    }
}

/// What is counted is what the pages say.
fn check(host: &Host, seed: u64) {
    let (mut dirty, mut out) = (0, 0);
    let k = &host.kernel;
    for (i, f) in k.files.iter().enumerate() {
        let its = k.cache.dirty(i as u32);
        assert!(f.listed != Listed::No || its == 0, "seed {seed}: a dirty inode is lost");
        dirty += its;
        out += f.out;
    }
    let w = &k.writeback;
    assert_eq!((w.dirty, w.out), (dirty, out), "seed {seed}");
    assert_eq!(w.flushers.iter().map(|f| f.held).sum::<u64>(), dirty + out);
}
