//! Conformance scenarios of specs/host.md 18, against a device that serves every bio after a fixed time.

mod journal;
mod systems;
mod writeback;

use super::*;
use hoistway::{Flags, GroupId, Io, IoPrio, Nanos, Op, ProcId, Profile};

/// Host, one or more processes, and a device.
struct Bench {
    host: Host,
    now: Instant,
    /// When each process goes on; processes in order, then the journal, then the flusher.
    seats: Vec<Option<Instant>>,
    device: Vec<(Instant, IoId)>,
    service: Nanos,
    /// One bio at a time, instead of all at once.
    serial: bool,
    /// Every bio: when, by whom, what.
    bios: Vec<(Instant, usize, Io)>,
    ran: Vec<(usize, Ran)>,
    fault: Option<JobError>,
}

const HITACHI: &str = "hitachi-hts727550a9e364";

/// The journal's map is in memory, so that commits are what host.md 18 says.
fn config(profile: &str, set: &[(&str, toml::Value)]) -> HostConfig {
    let mut config = HostConfig::profile(profile).unwrap();
    config.set("journal_mapped", &true.into()).unwrap();
    for (name, value) in set {
        config.set(name, value).unwrap();
    }
    config
}

impl Bench {
    fn new(config: HostConfig, procs: usize, service: Nanos) -> Bench {
        Bench::on(HITACHI, config, procs, service)
    }

    fn on(drive: &str, config: HostConfig, procs: usize, service: Nanos) -> Bench {
        let drive = DriveFile::load(drive).unwrap();
        let kib = if config.block_profile == Profile::Legacy { 512 } else { 1280 };
        let mut host = Host::new(config, &drive, Sectors(2 * kib), 7);
        let info = |i: usize| ProcInfo {
            id: ProcId(i as u32),
            group: GroupId(i as u32),
            prio: IoPrio::be(4),
            cpu: 0,
        };
        for i in 0..procs {
            host.add_proc(info(i), None);
        }
        host.add_journal(ProcInfo { group: GroupId::ROOT, prio: IoPrio::be(3), ..info(procs) });
        host.add_flushers([ProcInfo { group: GroupId::ROOT, ..info(procs + 1) }]);
        Bench {
            host,
            now: Instant::ZERO,
            seats: vec![None; procs + 2],
            device: Vec::new(),
            service,
            serial: false,
            bios: Vec::new(),
            ran: Vec::new(),
            fault: None,
        }
    }

    fn usual() -> Bench {
        Bench::new(config("2019", &[]), 1, Nanos::us(100))
    }

    fn file(&mut self, pages: u64) -> FileId {
        self.host.add_file(pages * PAGE).unwrap()
    }

    /// Process `p` goes on until it has to wait; true when its operation is over.
    fn go(&mut self, p: usize) -> bool {
        let over = self.acts(p);
        while let Some((q, at)) = self.host.woken() {
            self.seats[q] = Some(at);
        }
        over
    }

    fn acts(&mut self, p: usize) -> bool {
        loop {
            match self.host.step(self.now, p) {
                Act::Plug | Act::Unplug | Act::Tell => {}
                Act::Submit | Act::SubmitAlone => {
                    let io = *self.host.submitted();
                    self.bios.push((self.now, p, io));
                    let queued = self.device.iter().map(|d| d.0).max().filter(|_| self.serial);
                    self.device.push((queued.unwrap_or(self.now) + self.service, io.id));
                }
                Act::WaitUntil(at) | Act::PlugUntil(at) | Act::Throttled(at) => {
                    self.seats[p] = Some(at);
                    return false;
                }
                Act::Ran => {
                    let ran = *self.host.ran();
                    self.ran.push((p, ran));
                    self.seats[p] = Some(ran.until);
                    return false;
                }
                Act::RanThrottled(_) => unreachable!("this caller does not say who acts alone"),
                Act::Block | Act::Rest => return false,
                Act::Finished | Act::Exited | Act::Stopped => return true,
                Act::Fault => {
                    self.fault = Some(self.host.fault());
                    return true;
                }
            }
        }
    }

    /// Time goes on to the next event, not beyond `limit`; the processes that finished.
    fn advance(&mut self, limit: Instant) -> Option<Vec<usize>> {
        let io = self.device.iter().map(|d| d.0).min();
        let seat = self.seats.iter().flatten().min().copied();
        let next = [io, seat].into_iter().flatten().min().filter(|&t| t <= limit)?;
        self.now = next;
        while let Some(i) = self.device.iter().position(|d| d.0 <= next) {
            let (_, io) = self.device.remove(i);
            self.host.completed(next, io);
            while let Some((q, at)) = self.host.woken() {
                self.seats[q] = Some(at);
            }
        }
        let mut over = Vec::new();
        for p in 0..self.seats.len() {
            if self.seats[p] == Some(next) {
                self.seats[p] = None;
                if self.go(p) {
                    over.push(p);
                }
            }
        }
        Some(over)
    }

    /// Process 0 does one operation to its end.
    fn does(&mut self, operation: Operation) {
        self.host.begin(self.now, 0, operation);
        if self.go(0) {
            return;
        }
        while !self.advance(Instant::from_nanos(u64::MAX)).expect("it goes on").contains(&0) {}
    }

    /// Process `p` goes on if it is its turn, else time does; true when its operation is over.
    fn advance_or_go(&mut self, p: usize) -> bool {
        if self.seats[p].is_none() && self.host.kernel.sleepers.wait(p) == Wait::None {
            return self.go(p);
        }
        self.advance(Instant::from_nanos(u64::MAX)).expect("it goes on").contains(&p)
    }

    fn open(&mut self, file: FileId, advice: Advice) {
        self.does(Operation::Open { file, advice });
    }

    fn read(&mut self, page: u64, bytes: u64) {
        self.does(Operation::Read { offset: page * PAGE, bs: bytes, count: 1 });
    }

    /// Requested windows of a file in pages, first and last, since the last question.
    fn windows(&mut self, file: FileId) -> Vec<(u64, u64)> {
        let start = self.host.place_of(file) / 512;
        self.bios
            .drain(..)
            .map(|(_, _, io)| {
                let first = (io.start.0 - start) / 8;
                (first, first + io.sectors.0 / 8 - 1)
            })
            .collect()
    }

    /// The page that carries a marker, if exactly one does.
    fn marker(&self, file: FileId) -> Option<u64> {
        let cache = &self.host.kernel.cache;
        let pages = 0..cache.pages(file.0);
        let all: Vec<u64> = pages.filter(|&p| cache.is(file.0, p, |w| w.marker)).collect();
        assert!(all.len() <= 1, "{all:?}");
        all.first().copied()
    }

    /// Puts pages into the cache as if they had been read long ago.
    fn cached(&mut self, file: FileId, a: u64, b: u64) {
        assert!(self.host.kernel.cache.insert(file.0, a, b, true, GroupId::ROOT));
    }
}

/// The windows that reading page after page requests, each with the page that is read then and the
/// marker behind it.
fn sequential(bench: &mut Bench, file: FileId, pages: u64) -> Vec<(u64, u64, u64, Option<u64>)> {
    let mut all = Vec::new();
    for page in 0..pages {
        bench.read(page, PAGE);
        for (a, b) in bench.windows(file) {
            all.push((page, a, b, bench.marker(file)));
        }
    }
    all
}

#[test]
fn scenario_1_windows_grow_and_each_is_requested_at_the_marker() {
    for variant in ["ra61", "ra30"] {
        let set = [("readahead_variant", toml::Value::from(variant))];
        let mut b = Bench::new(config("2019", &set), 1, Nanos::us(100));
        let f = b.file(10_000);
        b.open(f, Advice::Sequential);
        let m = |page, a, last, marker| (page, a, last, Some(marker));
        assert_eq!(
            sequential(&mut b, f, 130),
            [
                m(0, 0, 3, 1),
                m(1, 4, 11, 4),
                m(4, 12, 27, 12),
                m(12, 28, 59, 28),
                m(28, 60, 123, 60),
                m(60, 124, 187, 124),
                m(124, 188, 251, 188)
            ],
            "{variant}"
        );
        let f = b.file(10_000);
        b.open(f, Advice::Normal);
        let all = sequential(&mut b, f, 61);
        assert_eq!(all[3..], [m(12, 28, 59, 28), m(28, 60, 91, 60), m(60, 92, 123, 92)]);
    }
}

#[test]
fn scenario_2_two_windows_are_outstanding_while_the_reader_waits() {
    let mut b = Bench::new(config("2019", &[]), 1, Nanos::ms(5));
    b.serial = true;
    let f = b.file(10_000);
    b.open(f, Advice::Sequential);
    b.host.begin(b.now, 0, Operation::Read { offset: 0, bs: PAGE, count: 400 });
    assert!(!b.go(0));
    while !b.bios.iter().any(|bio| bio.2.start.0 * 512 == b.host.place_of(f) + 188 * PAGE) {
        b.advance(Instant::from_nanos(u64::MAX)).unwrap();
    }
    let at = |page: u64| {
        let start = (b.host.place_of(f) + page * PAGE) / 512;
        b.bios.iter().find(|bio| bio.2.start.0 == start).unwrap()
    };
    // The device works on one window at a time, so page 60's comes 5 ms behind page 28's.
    // It is never idle after the second window was requested.
    let order = b.bios.iter().position(|bio| bio.0 == at(60).0).unwrap() as u64;
    let arrived = at(4).0 + b.service * order;
    assert!(at(124).0 < arrived);
    assert_eq!(at(188).0, arrived + Nanos(104_800));
    assert_eq!(at(60).2.sectors.0, 512);
    assert_eq!(at(60).2.flags, hoistway::Flags::RAHEAD);
    let run = b.ran.iter().map(|r| r.1).find(|r| r.calls == 64).unwrap();
    assert_eq!((run.first_end, run.each), (arrived + Nanos(3000), Nanos(1600)));
    assert_eq!(run.until, arrived + Nanos(103_800));
}

#[test]
fn scenario_3_a_stream_that_starts_inside_the_file() {
    let mut b = Bench::usual();
    let f = b.file(10_000);
    b.open(f, Advice::Normal);
    let mut at = |page| {
        b.read(page, PAGE);
        (b.windows(f), b.marker(f))
    };
    assert_eq!(at(1000), (vec![(1000, 1000)], None));
    assert_eq!(at(1001), (vec![(1001, 1004)], Some(1002)));
    assert_eq!(at(1002), (vec![(1005, 1012)], Some(1005)));
    assert_eq!(at(1003), (vec![], Some(1005)));
    assert_eq!(at(1005), (vec![(1013, 1028)], Some(1013)));
}

#[test]
fn scenario_4_large_requests() {
    let mut b = Bench::usual();
    let f = b.file(10_000);
    b.open(f, Advice::Normal);
    b.read(0, 1 << 20);
    assert_eq!(b.windows(f), [(0, 255), (256, 511)]);
    b.read(256, 1 << 20);
    assert_eq!(b.windows(f), [(512, 767)]);

    let mut b =
        Bench::new(config("2009", &[("block_profile", "multi-queue".into())]), 1, Nanos::us(1));
    let f = b.file(10_000);
    b.open(f, Advice::Normal);
    b.read(0, 1 << 20);
    let all = b.windows(f);
    assert_eq!(all[..8], (0..8).map(|i| (32 * i, 32 * i + 31)).collect::<Vec<_>>());
}

#[test]
fn scenario_5_small_random_reads_fetch_what_they_ask_for() {
    let mut b = Bench::usual();
    let f = b.file(10_000);
    b.open(f, Advice::Normal);
    for page in [20, 40, 60] {
        b.read(page, 4 * PAGE);
        assert_eq!((b.windows(f), b.marker(f)), (vec![(page, page + 3)], None));
    }
    b.open(f, Advice::Normal);
    for page in [110, 112, 114] {
        b.read(page, PAGE);
        assert_eq!((b.windows(f), b.marker(f)), (vec![(page, page)], None));
    }
    b.open(f, Advice::Random);
    for page in [207, 208, 209] {
        b.read(page, PAGE);
        assert_eq!((b.windows(f), b.marker(f)), (vec![(page, page)], None));
    }
}

#[test]
fn scenario_6_the_last_window_ends_with_the_file() {
    let mut b = Bench::usual();
    let f = b.file(100);
    b.open(f, Advice::Normal);
    let all = sequential(&mut b, f, 92);
    assert_eq!(all[all.len() - 2..], [(28, 60, 91, Some(60)), (60, 92, 99, Some(92))]);
    b.does(Operation::Read { offset: 92 * PAGE, bs: PAGE, count: 8 });
    assert_eq!(b.windows(f), []);
}

#[test]
fn scenario_7_cached_pages_before_the_reader_count_as_history() {
    let mut b = Bench::usual();
    let f = b.file(10_000);
    b.cached(f, 5, 10);
    b.open(f, Advice::Normal);
    b.read(10, PAGE);
    assert_eq!((b.windows(f), b.marker(f)), (vec![(10, 15)], Some(15)));
    let f = b.file(10_000);
    b.cached(f, 0, 10);
    b.open(f, Advice::Normal);
    b.read(10, PAGE);
    assert_eq!((b.windows(f), b.marker(f)), (vec![(10, 30)], Some(30)));
}

#[test]
fn scenario_8_an_overwrite_with_fdatasync_is_a_write_then_a_flush() {
    let mut b = Bench::usual();
    let f = b.file(1000);
    b.open(f, Advice::Normal);
    b.does(Operation::Write { offset: 0, bs: PAGE, count: 1, sync: SyncKind::Data });
    let [(t0, 0, write), (t1, 0, flush)] = b.bios[..] else { panic!("{:?}", b.bios) };
    assert_eq!((write.op, write.sectors.0, write.flags), (Op::Write, 8, hoistway::Flags::SYNC));
    assert_eq!((flush.op, flush.sectors.0), (Op::Flush, 0));
    assert!(flush.flags.any(hoistway::Flags::PREFLUSH));
    // Call 1.6 us, fdatasync 11 us, submission 1 us; service; wake-up 1.4 us, submission 1 us.
    assert_eq!(t0, Instant::ZERO + Nanos(13_600));
    assert_eq!(t1, t0 + Nanos(100_000 + 1400 + 1000));
    let ran = b.ran.last().unwrap().1;
    assert_eq!((ran.calls, ran.first_end), (1, t1 + Nanos(100_000 + 1400)));
    assert_eq!(ran.first, ran.first_end - Instant::ZERO);

    // Nothing from the journal for 5 s and until the next whole second, then the time stamp's commit.
    b.bios.clear();
    while b.advance(Instant::ZERO + Nanos::secs(60)).is_some() {}
    let [(t2, 1, run), (t3, 1, commit)] = b.bios[..] else { panic!("{:?}", b.bios) };
    assert_eq!(t2, Instant::ZERO + Nanos(6_000_000_000 + 1000));
    assert_eq!((run.start.0 * 512, run.sectors.0), (b.host.journal_place(), 16));
    assert_eq!((commit.start.0, commit.sectors.0), (run.start.0 + 16, 8));
    assert!(t3 > t2 + b.service);
    let ends = hoistway::Flags::PREFLUSH | hoistway::Flags::FUA;
    assert_eq!(commit.flags.bits() & ends.bits(), ends.bits());
    assert!(!run.flags.any(ends));
}

#[test]
fn fdatasync_on_ext3_never_flushes() {
    let mut b = Bench::new(config("2009", &[("barriers", true.into())]), 1, Nanos::us(100));
    let f = b.file(1000);
    b.open(f, Advice::Normal);
    // 256 pages leave as two bios of 512 KiB, the last of which starts the queue.
    b.does(Operation::Write { offset: 0, bs: 256 * PAGE, count: 1, sync: SyncKind::Data });
    let flags: Vec<_> = b.bios.iter().map(|(_, _, io)| (io.sectors.0, io.flags)).collect();
    let sync = hoistway::Flags::SYNC | hoistway::Flags::NOIDLE;
    assert_eq!(flags, [(1024, sync), (1024, sync | hoistway::Flags::UNPLUG)]);
}

#[test]
fn a_page_dirtied_again_during_its_write_is_written_twice_in_order() {
    let mut b = Bench::new(config("2019", &[]), 2, Nanos::ms(1));
    let f = b.file(1000);
    b.open(f, Advice::Normal);
    let write = |sync| Operation::Write { offset: 0, bs: PAGE, count: 1, sync };
    b.host.begin(b.now, 0, write(SyncKind::Data));
    b.go(0);
    while b.bios.is_empty() {
        b.advance(Instant::from_nanos(u64::MAX));
    }
    // The page is under write-back; another process dirties it and syncs too.
    b.host.begin(b.now, 1, Operation::Open { file: f, advice: Advice::Normal });
    assert!(b.go(1));
    b.host.begin(b.now, 1, write(SyncKind::Data));
    b.go(1);
    while b.advance(Instant::ZERO + Nanos::ms(100)).is_some() {}
    let writes: Vec<_> = b.bios.iter().filter(|bio| bio.2.op == Op::Write).collect();
    assert_eq!((writes.len(), writes[0].1, writes[1].1), (2, 0, 1));
    assert!(writes[1].0 >= writes[0].0 + b.service);
    // The inode belongs to who dirtied it first, and pays.
    assert_eq!(writes[1].2.group, GroupId(0));
    assert_eq!(b.ran.len(), 2);
}

#[test]
fn scenario_15_files_lie_in_order_with_gaps_that_depend_on_the_seed_alone() {
    let drive = DriveFile::load(HITACHI).unwrap();
    let places = |seed, scheduler_independent: &str| {
        let mut host = Host::new(config(scheduler_independent, &[]), &drive, Sectors(1024), seed);
        [0; 4].map(|_| {
            let f = host.add_file(500 << 20).unwrap();
            host.place_of(f)
        })
    };
    let a = places(1, "2019");
    assert_eq!(a[0], 25_005_391_872);
    for pair in a.windows(2) {
        let gap = pair[1] - pair[0] - 524_288_000;
        assert!(gap < 8 << 20 && gap % PAGE == 0);
    }
    assert_eq!(a, places(1, "2009"));
    assert_ne!(a, places(2, "2019"));
}

#[test]
fn scenario_15_drop_caches_leaves_dirty_pages() {
    let mut b = Bench::usual();
    let f = b.file(100);
    b.open(f, Advice::Normal);
    b.does(Operation::Read { offset: 0, bs: PAGE, count: 100 });
    assert_eq!(b.host.kernel.cache.cached(), 100);
    b.does(Operation::Write { offset: 20 * PAGE, bs: PAGE, count: 10, sync: SyncKind::No });
    b.does(Operation::DropCaches);
    assert_eq!(b.host.kernel.cache.cached(), 10);
}

#[test]
fn reclaim_takes_the_oldest_chunks_and_gives_read_ones_a_second_chance() {
    // 64 MiB of memory: 16384 pages, of which 13926 may be cached.
    let mut b = Bench::new(config("2019", &[("ram", "64M".into())]), 1, Nanos::us(1));
    let f = b.file(30_000);
    b.open(f, Advice::Sequential);
    b.does(Operation::Read { offset: 0, bs: PAGE, count: 64 });
    b.does(Operation::Read { offset: 0, bs: PAGE, count: 64 });
    b.does(Operation::Read { offset: 64 * PAGE, bs: PAGE, count: 13_900 });
    assert!(b.host.kernel.cache.cached() <= 13_926);
    let cache = &b.host.kernel.cache;
    assert!(cache.is(f.0, 0, |w| w.cached), "read twice: kept");
    assert!(!cache.is(f.0, 64, |w| w.cached), "read once: gone");
    assert!(b.host.kernel.cache.reclaimed >= 256);
}

#[test]
fn a_direct_read_passes_the_cache_and_writes_dirty_pages_out_first() {
    let mut b = Bench::usual();
    let f = b.file(1000);
    b.open(f, Advice::Normal);
    b.does(Operation::Write { offset: 0, bs: PAGE, count: 4, sync: SyncKind::No });
    let direct =
        Operation::Direct { write: false, offset: 0, len: 300 * PAGE, since: None, sync: false };
    b.does(direct);
    let ops: Vec<_> = b.bios.iter().map(|(_, _, io)| (io.op, io.sectors.0 / 8)).collect();
    assert_eq!(ops, [(Op::Write, 4), (Op::Read, 256), (Op::Read, 44)]);
    assert_eq!(b.host.kernel.cache.cached(), 0);
    // Alone: 1.5 us + 1 us, the device, 1.4 us.
    b.does(Operation::Direct { write: false, offset: 0, len: 512, since: None, sync: false });
    assert_eq!(b.ran.last().unwrap().1.first, Nanos(100_000 + 3900));
}

fn queue(page: u64, room: Room) -> Operation {
    Operation::Queue { write: false, offset: page * PAGE, len: PAGE, since: None, room }
}

#[test]
fn asynchronous_calls_are_in_flight_up_to_the_depth_and_end_when_they_are_collected() {
    let mut b = Bench::usual();
    let f = b.file(1000);
    b.open(f, Advice::Normal);
    let start = b.now;
    for page in 0..3 {
        b.does(queue(page, Room::of(3)));
    }
    // A call and a submission each: 2.5 us. Nothing has been waited for.
    assert_eq!((b.now - start, b.host.open_calls(0), b.ran.len()), (Nanos(7500), 3, 0));
    assert_eq!(b.host.call_begun(0), Some(start), "the oldest");
    // The fourth waits for the first, which the device has served 100 us behind its submission at 2.5 us.
    b.does(queue(3, Room::of(3)));
    assert_eq!((b.host.open_calls(0), b.ran.len()), (3, 1));
    let ran = b.ran[0].1;
    assert_eq!((ran.first, ran.bytes, ran.write), (Nanos(102_500 + 1400), PAGE, false));
    // The second was served at 105 us, while the process queued the fourth: it learns of it when it asks.
    // The third was served at 107.5 us.
    b.does(Operation::Collect);
    let firsts: Vec<u64> =
        b.ran.iter().map(|(_, r)| r.first_end.as_nanos() - start.as_nanos()).collect();
    // The fourth was begun at 103.9 us, went at 106.4, was served at 206.4.
    assert_eq!(firsts, [103_900, 106_400, 108_900, 207_800]);
    assert_eq!((b.host.open_calls(0), b.host.in_flight()), (0, 0));
    b.does(Operation::Collect);
    assert_eq!(b.ran.len(), 4, "nothing is left");
}

#[test]
fn calls_that_are_held_back_go_together_and_a_full_queue_is_emptied_to_its_low_mark() {
    let mut b = Bench::usual();
    let f = b.file(1000);
    b.open(f, Advice::Normal);
    let room = |more| Room { depth: 4, low: 1, batch: 3, more };
    b.does(queue(0, room(true)));
    b.does(queue(1, room(true)));
    assert_eq!(b.bios.len(), 0, "held back");
    b.does(queue(2, room(false)));
    assert_eq!(b.bios.len(), 3);
    b.does(queue(3, room(true)));
    // Full: what is held back goes, then three calls are waited for at once.
    let begun = b.now;
    b.does(queue(4, room(false)));
    assert_eq!((b.ran.len(), b.host.open_calls(0)), (3, 2));
    assert!(b.now - begun > Nanos::us(80));
    b.does(Operation::Exit);
    assert_eq!((b.ran.len(), b.host.in_flight()), (5, 0), "an exit waits for what is under way");
}

#[test]
fn a_queue_reaches_its_stop_time_when_all_its_calls_are_over() {
    let stop = Instant::ZERO + Nanos::us(40);
    let mut b = Bench::usual();
    b.host.processes[0].task = super::task::Task::new(0, b.host.processes[0].task.info, Some(stop));
    let f = b.file(1000);
    b.open(f, Advice::Normal);
    let mut page = 0;
    while b.now < stop {
        b.does(queue(page, Room::of(64)));
        page += 1;
    }
    let queued = page;
    b.does(queue(page, Room::of(64)));
    assert_eq!((b.ran.len() as u64, b.host.open_calls(0)), (queued, 0));
    assert_eq!(b.bios.len() as u64, queued, "no call begins at the stop time");
}

#[test]
fn asynchronous_writes_write_dirty_pages_of_their_range_out_first() {
    let mut b = Bench::usual();
    let f = b.file(1000);
    b.open(f, Advice::Normal);
    b.does(Operation::Write { offset: 0, bs: PAGE, count: 4, sync: SyncKind::No });
    let (since, room) = (None, Room::of(2));
    b.does(Operation::Queue { write: true, offset: 0, len: 300 * PAGE, since, room });
    assert_eq!(b.host.open_calls(0), 1);
    b.does(Operation::Collect);
    let bios: Vec<_> = b.bios.iter().map(|(_, _, io)| (io.sectors.0 / 8, io.flags)).collect();
    let direct = Flags::SYNC | Flags::IDLE;
    assert_eq!(bios, [(4, Flags::SYNC), (256, direct), (44, direct)]);
    let ran = b.ran.last().unwrap().1;
    assert_eq!((ran.calls, ran.bytes, ran.write), (1, 300 * PAGE, true));
}

#[test]
fn parameters_are_checked() {
    let mut c = HostConfig::profile("2019").unwrap();
    assert!(matches!(c.set("swappiness", &20.into()), Err(JobError::Unknown { .. })));
    assert!(matches!(c.set("ram", &"tiny".into()), Err(JobError::Parameter { .. })));
    assert!(c.set("read_ahead_kb", &256.into()).is_ok());
    assert!(matches!(HostConfig::profile("1999"), Err(JobError::Unknown { .. })));
}

#[test]
fn a_block_read_waits_for_what_its_own_process_has_under_way_and_for_nothing_else() {
    let mut bench = Bench::usual();
    let io = |start, wait| {
        Operation::Block(BlockIo { write: false, start, len: PAGE, flags: Flags::SYNC, wait })
    };
    let (home, other) = (bench.host.processes[0].task.info, ProcId(77));
    bench.does(io(0, false));
    assert_eq!(bench.host.in_flight(), 1, "nobody waits for it");
    bench.host.become_proc(0, ProcInfo { id: other, ..home });
    bench.does(io(PAGE, false));
    bench.host.become_proc(0, home);
    bench.does(io(2 * PAGE, true));
    // The first ends at 101 us: then the third goes, 1.4 us for the wake and 1 us for the submission
    // later. The other process's I/O is not waited for.
    let third = bench.bios.iter().find(|b| b.2.start.0 == 16).expect("it was submitted");
    assert_eq!((third.0, third.2.proc), (Instant::ZERO + Nanos(103_400), home.id));
    let owners: Vec<_> = bench.bios.iter().map(|b| b.2.proc).collect();
    assert_eq!(owners, [home.id, other, home.id]);
    let ran = bench.ran.last().expect("the call was recorded").1;
    assert_eq!(ran.bytes, 3 * PAGE, "what was not waited for counts with it");
    assert_eq!(bench.host.in_flight(), 0);
}

#[test]
fn bfq_decides_as_that_of_5_3_on_hosts_of_2018_and_2019() {
    for (profile, base) in
        [("2018", "5.3"), ("2019", "5.3"), ("today", "hoistway"), ("2012", "hoistway")]
    {
        assert_eq!(config(profile, &[]).bfq_base().0, base, "{profile}");
    }
    assert_eq!(config("2019", &[("bfq_base", "6.1".into())]).bfq_base(), ("6.1", 0));
    let mut c = config("2019", &[]);
    let error = c.set("bfq_base", &"2.6".into()).unwrap_err().to_string();
    assert!(error.contains("choose one of \"6.1\", "), "{error}");
}

#[test]
fn the_block_layer_of_2018_and_2019_runs_the_queues_of_sata_and_usb_at_completion() {
    use hoistway::device::RunAtCompletion::{Never, Scsi};
    let rules = |profile| {
        let c = config(profile, &[]);
        (c.run_at_completion(), c.delayed_rerun())
    };
    assert_eq!((rules("2018"), rules("2019")), ((Scsi, false), (Scsi, false)));
    assert_eq!(rules("today"), (Never, true));
    let set = [("run_at_completion", "never".into()), ("delayed_rerun", true.into())];
    let c = config("2019", &set);
    assert_eq!((c.run_at_completion(), c.delayed_rerun()), (Never, true));

    let device = |id| {
        let d = DriveFile::load(id).unwrap().device();
        (d.scsi, d.tags_round_robin)
    };
    assert_eq!(device("plextor-px-256m5s"), (true, true), "SATA");
    assert_eq!(device("usb-stick-32g"), (true, false));
    for id in ["samsung-970-pro", "emmc-5.1-64g", "cloud-gp3"] {
        assert_eq!(device(id), (false, false), "{id}");
    }
}
