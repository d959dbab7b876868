//! What a job asks of its host, call by call.

use super::*;
use crate::drive::DriveFile;
use crate::host::{Host, HostConfig};
use crate::load::Build;
use crate::load::params::Params;
use hoistway::Sectors;
use hoistway_run::JobError;

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
    let end = &random[random.len() - 3..];
    assert!(matches!(end, [Operation::Fsync(_), Operation::Tell(_), Operation::Exit]));
}

#[test]
fn a_mix_has_its_share_of_reads_and_its_sizes() {
    let params = "rw = \"randrw\"\nmix = 70\nsize = \"256m\"\nbs = \"4k/50:16k/50\"\nbs_write = \"8k\"\ndirect = true\nrepeat_blocks = true";
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
    let all = operations("rw = \"write\"\nsize = \"64k\"\nfsync = 4\nfdatasync = 6", STEP, 100);
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
    // As fio 3.33: 11 syncs for 21 writes of 40 calls, where every fourth write would make 5.
    let mixed =
        operations("rw = \"randrw\"\nsize = \"4m\"\nfsync = 4\ndirect = true", STEP, 10_000);
    let (mut writes, mut last) = (0u64, false);
    for operation in &mixed {
        match operation {
            Operation::Fsync(_) => assert!(!std::mem::replace(&mut last, true) && writes % 4 == 0),
            Operation::Direct { write, .. } => {
                assert!(last || writes == 0 || writes % 4 != 0, "a sync is due");
                writes += u64::from(*write);
                last = false;
            }
            _ => {}
        }
    }
    let syncs = mixed.iter().filter(|o| matches!(o, Operation::Fsync(_))).count() as u64;
    assert!(syncs > writes / 3, "{syncs} syncs of {writes} writes");
    let synced = operations("rw = \"write\"\nsize = \"8k\"\nsync = true", STEP, 100);
    let one = |o: &Operation| matches!(o, Operation::Write { count: 1, sync: SyncKind::Data, .. });
    assert_eq!(synced.iter().filter(|o| one(o)).count(), 2);
}

/// How many calls, and in how many openings of a file.
fn passes(params: &str) -> (usize, usize) {
    let all = operations(&format!("direct = true\n{params}"), STEP, 10_000);
    let opened = all.iter().filter(|o| matches!(o, Operation::Open { .. })).count();
    (calls(&all).len(), opened)
}

/// Figures of fio 3.33 for the same jobs.
#[test]
fn bytes_calls_and_loops_end_a_job_where_fio_does() {
    for (params, expected) in [
        // 10 MiB in calls of 3 MiB.
        ("bs = \"3m\"\nsize = \"10m\"", (3, 1)),
        ("bs = \"3m\"\nsize = \"10m\"\nio_size = \"20m\"", (6, 2)),
        ("size = \"64k\"\nio_size = \"10k\"", (3, 1)),
        ("rw = \"randread\"\nsize = \"64k\"\nio_size = \"130k\"", (32, 2)),
        ("rw = \"randread\"\nsize = \"64k\"\nio_size = \"134k\"", (34, 3)),
        ("size = \"32k\"\nio_size = \"80k\"\nloops = 2", (24, 3)),
        ("size = \"64k\"\nio_size = \"20k\"\nloops = 3", (15, 1)),
        ("rw = \"randread\"\nsize = \"64k\"\ncalls = 5", (5, 1)),
        ("rw = \"randread\"\nsize = \"64k\"\ncalls = 30", (16, 1)),
        ("rw = \"randread\"\nsize = \"64k\"\ncalls = 5\nloops = 3", (15, 1)),
        ("rw = \"randread\"\nsize = \"64k\"\ncalls = 30\nio_size = \"256k\"", (30, 2)),
        ("size = \"32k\"\noffset = \"32k\"\nhole = 4096", (4, 1)),
        ("size = \"64k\"\nhole = 4096", (16, 1)),
        // What fills its time opens its file once, and its cache keeps what it has read.
        ("size = \"32k\"\ntime_based = true\nrun = \"1ms\"", (98, 1)),
    ] {
        assert_eq!(passes(params), expected, "{params}");
    }
}

#[test]
fn in_a_mix_the_rates_decide_what_comes_next() {
    let mix = |rates: &str| {
        let params = format!(
            "rw = \"randrw\"\nmix = 70\nsize = \"16m\"\nrun = \"2s\"\ntime_based = true\ndirect = true\n{rates}"
        );
        let all = calls(&operations(&params, STEP, 1_000_000));
        let writes = all.iter().filter(|c| c.0).count();
        (all.len() - writes, writes)
    };
    // As fio 3.33: 400 and 400 in four seconds, 400 and 41, 400 and as many as there is time for.
    let (reads, writes) = mix("rate_iops = 100\nrate_iops_write = 100");
    assert!(reads.abs_diff(200) < 3 && writes.abs_diff(200) < 3, "{reads} {writes}");
    let (reads, writes) = mix("rate = \"400k\"\nrate_write = \"40k\"");
    assert!(reads.abs_diff(200) < 3 && writes.abs_diff(20) < 3, "{reads} {writes}");
    let (reads, writes) = mix("rate_iops = 100");
    assert!(reads.abs_diff(200) < 3 && writes > 100_000, "{reads} {writes}");
    // Calls per second are of the smallest size.
    let (reads, _) = mix("rate_iops = 100\nrate_iops_write = 1\nbs = \"4k/50:16k/50\"");
    assert!((70..95).contains(&reads), "{reads}");
}

#[test]
fn behind_a_pause_a_rate_is_caught_up_with_or_not() {
    let rated = "rw = \"randread\"\nrate_iops = 100\nthink = \"1s\"\nthink_blocks = 50\nrun = \"4s\"\n\
                 time_based = true\nsize = \"1m\"";
    let n = |more: &str| calls(&operations(&format!("{rated}{more}"), STEP, 10_000)).len();
    // fio 3.33: 200 and 150.
    assert!(n("").abs_diff(200) < 2 && n("\ncatch_up = false").abs_diff(150) < 2);
}

#[test]
fn several_files_are_used_by_turns() {
    let params =
        "files = 3\nsize = \"8k\"\nrw = \"write\"\nfsync = 4\ndirect = true\nend_fsync = true";
    let all = operations(params, STEP, 100);
    let mut open = u32::MAX;
    let mut order = Vec::new();
    for operation in &all {
        match *operation {
            Operation::TurnTo { file, .. } => open = file.0,
            Operation::Direct { offset, .. } => order.push((open, offset / 4096)),
            Operation::Fsync(file) => order.push((file.0, 99)),
            _ => {}
        }
    }
    // As fio 3.33: the sync has a turn too.
    let (first, calls) = (order[0].0, order);
    let calls: Vec<(u32, u64)> = calls.iter().map(|c| (c.0 - first, c.1)).collect();
    let begin = [(0, 0), (1, 0), (2, 0), (0, 1), (1, 99), (2, 1)];
    assert_eq!(calls[..6], begin);
    assert_eq!(calls[calls.len() - 3..], [(0, 99), (1, 99), (2, 99)]);
    let opened = all.iter().filter(|o| matches!(o, Operation::TurnTo { afresh: true, .. })).count();
    assert_eq!(opened, 3);
}

#[test]
fn percent_are_of_the_device_or_of_a_file_of_known_size() {
    let span = |params: &str| {
        let all = calls(&operations(&format!("direct = true\n{params}"), STEP, 1_000_000));
        (all.iter().map(|c| c.1).min().unwrap(), all.iter().map(|c| c.1 + c.2).max().unwrap())
    };
    let of_file = span("file_size = \"128k\"\nsize = \"25%\"\noffset = \"33%\"");
    assert_eq!(of_file, (45_056, 77_824));
    assert_eq!(span("file_size = \"128k\"\nsize = \"50%\"\noffset = \"75%\""), (98_304, 131_072));
    let (begin, end) = span("raw = true\noffset = \"50%\"\nsize = \"1%\"\nbs = \"1m\"");
    assert!(end - begin > begin / 52 && end - begin < begin / 49, "{begin} {end}");
    let unknown = build("size = \"50%\"").map(|_| ()).unwrap_err().to_string();
    assert!(unknown.contains("set file_size"), "{unknown}");
}

#[test]
fn a_job_that_is_over_stops_those_that_heed_it() {
    let drive = DriveFile::load("plextor-px-256m5s").unwrap();
    let mut host = Host::new(HostConfig::profile("2019").unwrap(), &drive, Sectors(1024), 1);
    let mut load = |params: &str| {
        let table: toml::Table = params.parse().unwrap();
        let params = Params::new("job", &table, ENTRY.params).unwrap();
        let start = Instant::ZERO;
        (ENTRY.build)(&mut Build { params, host: &mut host, index: 0, seed: 1, start }).unwrap()
    };
    let mut short = load("size = \"8k\"\nstops = \"group-0\"");
    let mut long = load("size = \"8m\"\ndirect = true\nstopped_by = \"all group-0\"");
    for _ in 0..10 {
        assert!(!matches!(long.next(Instant::ZERO), Operation::Exit));
    }
    while !matches!(short.next(Instant::ZERO), Operation::Exit) {}
    assert!(matches!(long.next(Instant::ZERO), Operation::Exit));
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
        ("calls = 0", "at least a call"),
        ("files = 0", "choose 1 to"),
        ("files = 2\nfile = [\"a\", \"b\"]", "leave one of"),
        ("file = []", "a list of names"),
        ("distribution = \"zoned_abs:50/1g:50/1g\"\nsize = \"1m\"", "the region has 1048576"),
        ("hole = 100", "multiple of 512"),
    ] {
        let error = build(params).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains(part), "{params}: {error}");
    }
}
