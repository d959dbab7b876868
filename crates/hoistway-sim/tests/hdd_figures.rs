//! Published and prototype figures of hard disks, driven by raw loads (specs/drives.md sections 8,
//! 8.1 and 8.2).

mod raw;

use hoistway::{Nanos, Op};
use hoistway_sim::drive::DriveFile;
use raw::{Load, Raw};

const HITACHI: &str = "hitachi-hts727550a9e364";
const MIB: u64 = 1 << 20;
const TARGET: Load = Load::Random { op: Op::Read, len: 4096, depth: 1 };

fn drive(id: &str) -> DriveFile {
    DriveFile::load(id).unwrap()
}

/// Within 25 % of what was published (if anything was) and 10 % of the simulation behind the spec.
#[track_caller]
fn agrees(what: &str, got: f64, published: Option<f64>, simulated: f64, tolerance: f64) {
    println!("{what}: {got:.3}, published {published:?}, simulated {simulated}");
    if let Some(p) = published {
        assert!((got / p - 1.0).abs() <= 0.25, "{what}: {got:.3}, published {p}");
    }
    assert!((got / simulated - 1.0).abs() <= tolerance, "{what}: {got:.3}, not {simulated}");
}

/// The target and interferers in 500 MiB files: (mean latency of the target in ms, MB/s of the
/// rest).
fn against(file: &DriveFile, load: Load, count: usize, seconds: u64, seeds: u64) -> (f64, f64) {
    let mut loads = vec![TARGET];
    loads.extend(std::iter::repeat_n(load, count));
    let (mut sum, mut rate) = (0.0, 0.0);
    for seed in 1..=seeds {
        let frac = file.baseline["file_start_frac"];
        let figures = Raw::new(file, seed, frac, 500 * MIB, &loads).run(Nanos::secs(seconds));
        sum += figures[0].mean_ms();
        let bytes: u64 = figures[1..].iter().map(|f| f.bytes).sum();
        rate += bytes as f64 / seconds as f64 / 1e6;
    }
    (sum / seeds as f64, rate / seeds as f64)
}

/// One load over part of the drive: (mean latency in ms, I/Os per second, MB/s).
fn alone(file: &DriveFile, frac: f64, len: u64, load: Load, seconds: u64) -> (f64, f64, f64) {
    let figures = &Raw::new(file, 1, frac, len, &[load]).run(Nanos::secs(seconds))[0];
    let seconds = seconds as f64;
    let rate = figures.bytes as f64 / seconds / 1e6;
    (figures.mean_ms(), figures.ios as f64 / seconds, rate)
}

/// I/Os per second over the whole drive in the second minute, when the write buffer is full.
fn sustained(file: &DriveFile, load: Load) -> f64 {
    let ios = |seconds| {
        let (_, rate, _) = alone(file, 0.0, file.identity.capacity_bytes, load, seconds);
        rate * seconds as f64
    };
    (ios(120) - ios(60)) / 60.0
}

#[test]
fn hitachi_against_15_sequential_readers() {
    let file = drive(HITACHI);
    let (mean, rate) = against(&file, Load::Reader { window: 256 << 10 }, 15, 60, 10);
    agrees("readers, target ms", mean, Some(4500.0), 4760.0, 0.15);
    agrees("readers, total MB/s", rate, None, 121.0, 0.10);
}

#[test]
fn hitachi_against_15_fdatasync_writers() {
    let (mean, _) = against(&drive(HITACHI), Load::Syncer, 15, 30, 10);
    agrees("writers, target ms", mean, Some(56.0), 46.8, 0.15);
}

#[test]
fn hitachi_random_reads_over_the_whole_drive() {
    let file = drive(HITACHI);
    let (mean, _, _) = alone(&file, 0.0, file.identity.capacity_bytes, TARGET, 300);
    agrees("random read ms", mean, Some(16.5), 16.2, 0.10);
    let (mean, _, _) = alone(&file, 0.05, 500 * MIB, TARGET, 100);
    agrees("random read in a file, ms", mean, None, 5.9, 0.10);
}

#[test]
fn sequential_reads_reach_the_rates_of_the_zones() {
    for (id, published, simulated) in [
        ("maxtor-6l080l0", 55.0, 55.5),
        ("maxtor-7l250s0", 61.0, 61.5),
        ("maxtor-stm3320613as", 89.0, 90.0),
    ] {
        let load = Load::Sequential { op: Op::Read, len: 128 << 10, depth: 2 };
        let (_, _, rate) = alone(&drive(id), 0.0, 2048 * MIB, load, 10);
        agrees(id, rate, Some(published), simulated, 0.02);
    }
    // 8.2, item 3: 1 MiB reads of an idle drive, one at a time, from both ends.
    for id in DriveFile::ids().into_iter().filter(|id| drive_is_hdd(id)) {
        let file = drive(id);
        let load = Load::Sequential { op: Op::Read, len: MIB, depth: 1 };
        let capacity = file.identity.capacity_bytes as f64;
        let last_zone = 1.0 - 2048.0 * MIB as f64 / capacity;
        for (frac, key) in [(0.0, "outer_mb_s"), (last_zone, "inner_mb_s")] {
            let (_, _, rate) = alone(&file, frac, 2000 * MIB, load, 6);
            agrees(&format!("{id} {key}"), rate, None, file.f64("hdd", key), 0.01);
        }
    }
}

fn drive_is_hdd(id: &str) -> bool {
    DriveFile::embedded(id).unwrap().contains("model = \"hdd\"")
}

#[test]
fn nearline_random_reads_and_writes() {
    let file = drive("hdd-nearline-16tb");
    let capacity = file.identity.capacity_bytes;
    let load = |op| Load::Random { op, len: 4096, depth: 16 };
    let (_, reads, _) = alone(&file, 0.0, capacity, load(Op::Read), 60);
    agrees("nearline reads/s", reads, Some(170.0), 174.0, 0.10);
    let writes = sustained(&file, load(Op::Write));
    agrees("nearline writes/s", writes, Some(440.0), 410.0, 0.10);

    let file = drive("hdd-nearline-18tb-dual-actuator");
    let capacity = file.identity.capacity_bytes;
    let (_, reads, _) = alone(&file, 0.0, capacity, load(Op::Read), 60);
    agrees("dual reads/s", reads, Some(304.0), 278.0, 0.10);
    let writes = sustained(&file, load(Op::Write));
    agrees("dual writes/s", writes, Some(560.0), 634.0, 0.10);
}

#[test]
fn laptop_disk_of_2009() {
    let file = drive("laptop-hdd-2009");
    let frac = file.baseline["file_start_frac"];
    let write = Load::Sequential { op: Op::Write, len: 512 << 10, depth: 4 };
    let (_, _, rate) = alone(&file, frac, 2000 * MIB, write, 20);
    agrees("laptop sequential write MB/s", rate, None, 34.6, 0.10);
    // Files of 80 MiB: specs/experiments.md, deadline-2009-tiotest.
    let total = |load| {
        let figures = Raw::new(&file, 1, frac, 80 * MIB, &[load; 32]).run(Nanos::secs(60));
        figures.iter().map(|f| f.bytes).sum::<u64>() as f64 / 60.0 / MIB as f64
    };
    agrees("laptop 32 readers MiB/s", total(Load::Reader { window: 128 << 10 }), None, 19.4, 0.10);
    agrees("laptop 32 random MiB/s", total(TARGET), None, 1.11, 0.10);
}

/// specs/drives.md 8.1, tolerance 25 %.
#[test]
fn sensitivity_of_the_hitachi() {
    let file = drive(HITACHI);
    let with_depth = |depth: u32| {
        let text = DriveFile::embedded(HITACHI).unwrap();
        let text = text.replace("queue_depth = 31", &format!("queue_depth = {depth}"));
        DriveFile::parse("d.toml", &text).unwrap()
    };
    let reader = |window: u64| Load::Reader { window: window << 10 };
    let mut wrong = Vec::new();
    let mut row = |what: String, got: f64, wanted: f64| {
        println!("{what}: {got:.2} ms, the specification says {wanted}");
        if (got / wanted - 1.0).abs() > 0.25 {
            wrong.push(format!("{what}: {got:.2} instead of {wanted}"));
        }
    };
    row("128 KiB windows".into(), against(&file, reader(128), 15, 60, 5).0, 4900.0);
    row("4 readers".into(), against(&file, reader(256), 4, 60, 5).0, 3600.0);
    for (depth, wanted) in [(1, 160.0), (4, 190.0), (8, 180.0)] {
        let got = against(&with_depth(depth), reader(256), 15, 20, 5).0;
        row(format!("readers, depth {depth}"), got, wanted);
    }
    for (writers, wanted) in [(1, 12.9), (4, 19.7)] {
        let got = against(&file, Load::Syncer, writers, 20, 5).0;
        row(format!("{writers} writers"), got, wanted);
    }
    for (depth, wanted) in [(1, 121.0), (4, 78.0), (8, 47.0)] {
        let got = against(&with_depth(depth), Load::Syncer, 15, 20, 5).0;
        row(format!("15 writers, depth {depth}"), got, wanted);
    }
    // One reader: sd 1.3 s around 0.65 s; only the order of magnitude can be held.
    let one = against(&file, reader(256), 1, 60, 20).0;
    println!("1 reader: {one:.2} ms, the specification says 650 with sd 1300");
    assert!((100.0..2000.0).contains(&one), "{one}");
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// 8.2, items 2, 5 and 6 on random mixtures: same seed, same completions; nothing lost, nothing
/// early, never more in the drive than its depth, never more over the link than its rate.
#[test]
fn random_mixtures_keep_the_contract() {
    let loads = [
        Load::Random { op: Op::Read, len: 4096, depth: 3 },
        Load::Random { op: Op::Write, len: 65536, depth: 5 },
        Load::Sequential { op: Op::Write, len: 512 << 10, depth: 2 },
        Load::Reader { window: 128 << 10 },
        Load::Syncer,
        Load::Syncer,
    ];
    for id in DriveFile::ids().into_iter().filter(|id| drive_is_hdd(id)) {
        let file = drive(id);
        // Around the border of two actuators.
        let frac = 0.5 - 900.0 * MIB as f64 / file.identity.capacity_bytes as f64;
        let run = || {
            let mut raw = Raw::new(&file, 3, frac, 300 * MIB, &loads);
            raw.keep = true;
            let figures = raw.run(Nanos::secs(5));
            assert!(figures.iter().all(|f| f.ios > 0), "{id}: {figures:?}");
            assert!(raw.max_in_flight <= file.host.queue_depth);
            assert_eq!(raw.commands, raw.completions.len() as u64 + raw.open());
            let bytes: u64 = figures.iter().map(|f| f.bytes).sum();
            assert!(bytes as f64 <= 5.0 * file.link.read_rate);
            raw.completions
        };
        let first = run();
        assert!(first.windows(2).all(|w| w[0].at <= w[1].at));
        assert!(first == run(), "{id}: two runs differ");
    }
}
