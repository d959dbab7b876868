//! What a job asks of its host, call by call.

use super::*;
use crate::drive::DriveFile;
use crate::host::{Host, HostConfig};
use crate::load::params::Params;
use hoistway::Sectors;

fn build(params: &str) -> Result<Box<dyn Load>, JobError> {
    let drive = DriveFile::load("plextor-px-256m5s").unwrap();
    let mut host = Host::new(HostConfig::profile("2019").unwrap(), &drive, Sectors(1024), 1);
    let table: toml::Table = params.parse().unwrap();
    let params = Params::new("job", &table, ENTRY.params)?;
    let start = Instant::ZERO;
    (ENTRY.build)(&mut Build { params, host: &mut host, index: 0, seed: 1, start })
}

/// What it does until it exits, at most `most` operations; each takes `step`.
fn operations(params: &str, step: Nanos, most: usize) -> Vec<Operation> {
    let mut load = build(params).unwrap();
    let mut now = Instant::ZERO;
    let mut all = Vec::new();
    while all.len() < most {
        let operation = load.next(now);
        all.push(operation);
        match operation {
            Operation::Exit => break,
            Operation::Sleep(until) => now = now.max(until),
            Operation::Compute(time) => now += time,
            _ => now += step,
        }
    }
    all
}

/// (write, offset, bytes) of every call.
fn calls(operations: &[Operation]) -> Vec<(bool, u64, u64)> {
    let mut all = Vec::new();
    for operation in operations {
        match *operation {
            Operation::Read { offset, bs, count } => {
                all.extend((0..count).map(|i| (false, offset + i * bs, bs)));
            }
            Operation::Write { offset, bs, count, .. } => {
                all.extend((0..count).map(|i| (true, offset + i * bs, bs)));
            }
            Operation::Direct { write, offset, len, .. }
            | Operation::Queue { write, offset, len, .. } => all.push((write, offset, len)),
            _ => {}
        }
    }
    all
}

const STEP: Nanos = Nanos::us(10);

#[test]
fn a_job_drops_its_cache_opens_its_file_does_its_bytes_and_exits() {
    let all = operations("size = \"64k\"\nbs = \"4k\"", STEP, 100);
    assert!(matches!(all[0], Operation::DontNeed(_)));
    assert!(matches!(all[1], Operation::Open { advice: Advice::Sequential, .. }));
    assert_eq!(all[2..], [Operation::Read { offset: 0, bs: 4096, count: 16 }, Operation::Exit]);
    let twice = operations("size = \"64k\"\nbs = \"4k\"\nloops = 2", STEP, 100);
    assert_eq!(twice.len(), 7);
    let random = operations("rw = \"randwrite\"\nsize = \"64k\"\nend_fsync = true", STEP, 100);
    let mut offsets: Vec<u64> = calls(&random).iter().map(|c| c.1 / 4096).collect();
    assert!(offsets.windows(2).any(|w| w[1] != w[0] + 1), "in another order");
    offsets.sort_unstable();
    assert!(offsets.into_iter().eq(0..16), "each block once");
    assert!(matches!(random[random.len() - 2..], [Operation::Fsync(_), Operation::Exit]));
}

#[test]
fn a_mix_has_its_share_of_reads_and_its_sizes() {
    let params = "rw = \"randrw\"\nmix = 70\nsize = \"256m\"\nbs = \"4k/50:16k/50\"\nbs_write = \"8k\"\ndirect = true";
    let all = calls(&operations(params, STEP, 20_000));
    let reads = all.iter().filter(|c| !c.0).count() as f64 / all.len() as f64;
    assert!((reads - 0.7).abs() < 0.015, "{reads}");
    assert!(all.iter().filter(|c| c.0).all(|c| c.2 == 8192));
    let small = all.iter().filter(|c| !c.0 && c.2 == 4096).count() as f64;
    assert!((small / (reads * all.len() as f64) - 0.5).abs() < 0.02);
    assert!(all.iter().all(|c| c.1 + c.2 <= 256 << 20 && c.1 % 4096 == 0));
}

#[test]
fn a_queue_is_settled_before_pauses_and_the_end_and_batches_are_held_back() {
    let params =
        "rw = \"randread\"\ndirect = true\ndepth = 8\nbatch = 4\nio_size = \"24k\"\nsize = \"1m\"";
    let more = |o: &Operation| match o {
        Operation::Queue { room, .. } => Some(room.more),
        _ => None,
    };
    let all = operations(params, STEP, 100);
    let held: Vec<bool> = all.iter().filter_map(more).collect();
    assert_eq!(held, [true, true, true, false, true, false], "the last goes at once");
    assert!(matches!(all[all.len() - 2..], [Operation::Collect, Operation::Exit]));
    let params = "direct = true\ndepth = 8\nsize = \"16k\"\nthink = \"5ms\"\nthink_spin = \"1ms\"\nthink_blocks = 2";
    let all = operations(params, STEP, 100);
    let kinds: Vec<&str> = all[2..]
        .iter()
        .map(|o| match o {
            Operation::Queue { .. } => "call",
            Operation::Collect => "collect",
            Operation::Compute(_) => "compute",
            Operation::Sleep(_) => "sleep",
            Operation::Exit => "exit",
            other => panic!("{other:?}"),
        })
        .collect();
    let expected = "call call collect compute sleep call call collect exit";
    assert_eq!(kinds.join(" "), expected);
}

#[test]
fn rates_and_time_limits_hold() {
    let rated =
        "rw = \"randread\"\nrate_iops = 1000\nrun = \"1s\"\ntime_based = true\nsize = \"1m\"";
    let n = calls(&operations(rated, STEP, 10_000)).len();
    assert!((999..=1001).contains(&n), "{n} calls in a second");
    let poisson = format!("{rated}\npoisson = true");
    let n = calls(&operations(&poisson, STEP, 10_000)).len();
    // Five standard deviations: 5 x sqrt(1000).
    assert!(n.abs_diff(1000) < 160, "{n}");
    let bytes = "rate = \"1m\"\nrun = \"2s\"\nsize = \"64m\"\nbs = \"64k\"";
    let n = calls(&operations(bytes, STEP, 10_000)).len();
    assert!((32..=33).contains(&n), "{n} calls of 64 KiB in two seconds");
    let all = operations("run = \"1s\"\nsize = \"500m\"", STEP, 10_000);
    assert!(
        all.iter().all(|o| !matches!(o, Operation::Read { count: 257.., .. })),
        "1 MiB at a time"
    );
}

#[test]
fn syncs_follow_their_number_of_writes_and_are_counted() {
    let all = operations("rw = \"write\"\nsize = \"64k\"\nfsync = 4\nfdatasync = 8", STEP, 100);
    let syncs: Vec<u64> = all
        .iter()
        .scan(0, |wrote, o| {
            Some(match o {
                Operation::Write { count, .. } => {
                    *wrote += count;
                    None
                }
                Operation::Fsync(_) => Some(*wrote),
                _ => None,
            })
        })
        .flatten()
        .collect();
    assert_eq!(syncs, [4, 8, 12]);
    assert!(all.iter().any(|o| matches!(o, Operation::Fdatasync(_))));
    let counted = all.iter().filter(|o| matches!(o, Operation::Tell(Notice::Count { .. }))).count();
    assert!(counted >= 3, "{counted}");
    let synced = operations("rw = \"write\"\nsize = \"8k\"\nsync = true", STEP, 100);
    let one = |o: &Operation| matches!(o, Operation::Write { count: 1, sync: SyncKind::Data, .. });
    assert_eq!(synced.iter().filter(|o| one(o)).count(), 2);
}

#[test]
fn what_cannot_be_is_refused_with_what_to_do() {
    for (params, part) in [
        ("rw = \"trim\"", "choose one of"),
        ("depth = 4", "set direct = true"),
        ("direct = true\nbs = 100", "multiples of 512"),
        ("rw = \"write\"\nbs = \"1k\"", "multiples of 4096"),
        ("rw = \"randrw\"\nmix = 101", "0 to 100"),
        ("time_based = true", "needs run"),
        ("raw = true\nrw = \"write\"", "set direct = true"),
        ("new_file = true", "writes alone"),
        ("size = \"4k\"\nbs = \"8k\"", "at least one call"),
        ("direct = true\ndepth = 4\nbatch = 5", "choose 1 to 4"),
        ("direct = true\ndepth = 4\ndepth_low = 4", "choose 0 to 3"),
        ("direct = true\ndepth = 4\nsync = true", "set depth = 1"),
        ("distribution = \"zipf:1\"", "not 1"),
        ("file_size = \"1m\"\nsize = \"2m\"", "less than offset"),
    ] {
        let error = build(params).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains(part), "{params}: {error}");
    }
}
