//! Random jobs over the whole path: any drive, scheduler, host profile, loads, groups, tunables.
//!
//! Whatever comes out, it comes out twice the same, the run ends in time, and what the world itself
//! asserts holds: Little's law in integers, and that nothing is lost between host, stack and drive. A job
//! may be refused, but only with a `JobError`, and then always with the same one. A failure names its
//! seed; `SEED=n cargo test -p hoistway-sim --test random_jobs` repeats it, and `SEEDS=n` runs more of them.

use hoistway::sched;
use hoistway::sched::SCHEDULERS;
use hoistway::setting::Tunable;
use hoistway::stack::QUEUE_TUNABLES;
use hoistway::{Instant, IoPrio, Nanos};
use hoistway_run::{
    ControlSpec, GroupSpec, JobError, Outcome, ProcSpec, Role, SchedulerSpec, TraceMode, Window,
};
use hoistway_sim::drive::DriveFile;
use hoistway_sim::host::HostConfig;
use hoistway_sim::rng::{Rng, stream};
use hoistway_sim::world::Job;
use hoistway_sim::world::run;
use std::borrow::Cow;
use toml::{Table, Value};

fn pick<'a, T>(rng: &mut Rng, all: &'a [T]) -> &'a T {
    &all[rng.below(all.len() as u64) as usize]
}

fn chance(rng: &mut Rng, percent: u64) -> bool {
    rng.below(100) < percent
}

/// Both ends often, otherwise every order of magnitude alike.
fn between(rng: &mut Rng, min: u64, max: u64) -> u64 {
    match rng.below(4) {
        0 => min,
        1 => max,
        _ => {
            let bits = u64::from(63 - (max - min).max(1).leading_zeros());
            min + small(rng, bits).min(max - min)
        }
    }
}

/// Below 2^n for a random n of at most `bits`.
fn small(rng: &mut Rng, bits: u64) -> u64 {
    let n = rng.below(bits + 1);
    rng.below(1 << n)
}

fn settings(rng: &mut Rng, tunables: &[Tunable], percent: u64) -> Vec<(String, u64)> {
    let mut set = Vec::new();
    for t in tunables {
        if chance(rng, percent) {
            // k2 with 0 requests in flight stands still.
            let min = if t.name == "max_inflight" { 1 } else { t.min };
            set.push((t.name.to_string(), between(rng, min, t.max)));
        }
    }
    set
}

fn host(rng: &mut Rng) -> HostConfig {
    let profiles = ["2018", "2019", "today", "2012", "2010", "2009", "netbook-2009"];
    let mut host = HostConfig::profile(profiles[rng.below(7) as usize]).unwrap();
    let choices: &[(&str, &[Value])] = &[
        ("ram", &["64M".into(), "1G".into()]),
        ("dirty_background_ratio", &[1.into(), 100.into()]),
        ("dirty_ratio", &[1.into(), 100.into()]),
        ("dirty_background_bytes", &["4k".into(), "3MiB".into()]),
        ("dirty_bytes", &["64k".into(), "8MiB".into()]),
        ("dirty_writeback_centisecs", &[1.into(), 20.into()]),
        ("dirty_expire_centisecs", &[1.into(), 10.into()]),
        ("writeback_variant", &["wb61".into(), "wb30".into()]),
        ("group_writeback", &[true.into(), false.into()]),
        ("read_ahead_kb", &[0.into(), 4.into(), 64.into(), 1024.into(), 8192.into()]),
        ("fs", &["ext3".into(), "ext4".into()]),
        ("data_mode", &["ordered".into(), "writeback".into()]),
        ("barriers", &[true.into(), false.into()]),
        ("commit_s", &[1.into()]),
        ("readahead_variant", &["ra30".into(), "ra61".into()]),
        ("block_profile", &["legacy".into(), "multi-queue".into()]),
        ("max_request_kib", &[4.into(), 64.into()]),
        ("run_at_completion", &["never".into(), "scsi".into()]),
        ("delayed_rerun", &[true.into(), false.into()]),
        ("bfq_base", &["5.3".into(), "6.1".into(), "hoistway".into()]),
        ("start_frac", &[0.0.into(), 0.45.into(), 0.9.into()]),
        ("layout_gap_kib", &[0.into(), 64.into(), 1_000_000.into()]),
        ("copy_ns_per_kib", &[20.into(), 5000.into()]),
        ("submit_ns", &[0.into(), 10_000.into()]),
        ("wake_ns", &[0.into(), 50_000.into()]),
        ("sync_call_ns", &[0.into(), 100_000.into()]),
        ("checksum_ns_per_kib", &[0.into(), 50_000.into()]),
    ];
    for (name, values) in choices {
        if chance(rng, 12) {
            host.set(name, pick(rng, values)).unwrap();
        }
    }
    if chance(rng, 30) {
        host.set("fs", pick(rng, &["btrfs".into(), "nilfs2".into()])).unwrap();
    }
    host
}

fn load(rng: &mut Rng) -> (&'static str, Table) {
    let mut params = Table::new();
    let mut put = |name: &str, value: Value| params.insert(name.into(), value);
    let names = ["reader", "reader", "writer", "writer", "writer", "sporadic_probe"];
    let rare = ["fsync_tester", "ddloop", "syncer"];
    let name = if chance(rng, 12) { *pick(rng, &rare) } else { *pick(rng, &names) };
    match name {
        "fsync_tester" => {
            put("bs", (4096 << rng.below(12)).into());
            put("pause", (*pick(rng, &["0ns", "1 ms", "300 ms"])).into());
            return (name, params);
        }
        "ddloop" => {
            put("bs", (*pick(rng, &["4k", "8MiB"])).into());
            put("size", (*pick(rng, &["8MiB", "100MiB"])).into());
            return (name, params);
        }
        "syncer" => {
            put("interval", (*pick(rng, &["1 ms", "100 ms"])).into());
            return (name, params);
        }
        _ => {}
    }
    let mut bs = 4096;
    if chance(rng, 40) {
        bs = *pick(rng, &[512, 4096, 12_288, 128 << 10, 1 << 20, 3 << 20]);
        put("bs", bs.into());
    }
    put("size", (bs << rng.below(14)).min(64 << 20).max(bs).into());
    if name == "sporadic_probe" {
        let intervals = ["1 us", "300 us", "7 ms", "1 s"];
        put("interval", (*pick(rng, &intervals)).into());
        return (name, params);
    }
    put("pattern", (*pick(rng, &["seq", "rand"])).into());
    put("direct", chance(rng, 35).into());
    if chance(rng, 25) {
        put("rate", (*pick(rng, &["1k", "400k", "30MB", "10GB"])).into());
    }
    if name == "writer" && chance(rng, 60) {
        put("dsync", Value::from(rng.below(20) as i64));
        put("new_file", chance(rng, 40).into());
    }
    (name, params)
}

fn prio(rng: &mut Rng) -> IoPrio {
    let level = rng.below(8) as u8;
    match rng.below(6) {
        0 => IoPrio::rt(level),
        1 => IoPrio::be(level),
        2 => IoPrio::idle(),
        _ => IoPrio::NONE,
    }
}

fn job<'a>(drive: &'a DriveFile, seed: u64, rng: &mut Rng) -> Job<'a> {
    let groups = rng.below(5) as usize;
    let procs = (0..1 + rng.below(12)).map(|i| {
        let (load, params) = load(rng);
        ProcSpec {
            name: format!("p{i}"),
            role: if i == 0 || chance(rng, 15) { Role::Target } else { Role::Interferer },
            group: (groups > 0 && chance(rng, 70)).then(|| rng.below(groups as u64) as usize),
            prio: prio(rng),
            start: Nanos::us(small(rng, 16)),
            load: load.into(),
            params,
        }
    });
    let procs = procs.collect();
    let entry = *pick(rng, SCHEDULERS);
    Job {
        drive: Cow::Borrowed(drive),
        host: host(rng),
        scheduler: SchedulerSpec {
            entry: sched::find(entry.name).expect("it is registered"),
            set: settings(rng, entry.tunables, 20),
            queue: settings(rng, QUEUE_TUNABLES, 10),
        },
        control: ControlSpec::default(),
        groups: (0..groups)
            .map(|g| GroupSpec { name: format!("g{g}"), ..GroupSpec::default() })
            .collect(),
        procs,
        window: Window {
            ramp: Nanos::us(rng.below(30_000)),
            measured: Nanos::us(1 + small(rng, 18)),
            grace: Nanos::us(small(rng, 20)),
            target_interval: Nanos::us(1 + rng.below(100_000)),
            device_interval: Nanos::us(1 + rng.below(100_000)),
        },
        seed,
        trace: *pick(rng, &[TraceMode::Digest, TraceMode::Digest, TraceMode::Keep(100)]),
    }
}

/// Runs it; the run must end after a bounded number of steps.
fn outcome(job: &Job<'_>) -> Result<Outcome, JobError> {
    let mut asked = 0;
    run(job, &mut |_| {
        asked += 1;
        // Every 10 ms of simulated time, of which there are at most 3 s, or 50,000 events.
        assert!(asked < 1000, "the run does not end");
        true
    })
}

fn check(job: &Job<'_>, o: &Outcome) {
    let first = job.procs.iter().filter(|p| p.role == Role::Target).map(|p| p.start).min();
    let end = Instant::ZERO + first.unwrap() + job.window.ramp + job.window.measured;
    assert!(o.end <= end + job.window.grace, "ended at {:?}", o.end);
    let d = &o.device;
    assert!(d.utilisation <= 1.0 && d.depth <= f64::from(job.drive.host.queue_depth) + 16.0);
    assert!(d.commands <= o.commands_total && d.sequential <= d.commands);
    assert!(d.device_time.count() + d.flushes == d.commands);
    for p in &o.procs {
        let sums = p.intervals.iter().fold((0, 0), |s, i| (s.0 + i.bytes, s.1 + i.ios));
        assert!(sums.0 <= p.bytes && sums.1 <= p.ios, "{}", p.name);
        let extra = p.latency.count() - p.ios;
        assert!(extra <= u64::from(p.role == Role::Target), "{}: {extra}", p.name);
        assert!(p.censored.is_none() || p.role == Role::Target);
    }
}

#[test]
fn random_jobs_end_and_repeat_themselves() {
    let number = |name| std::env::var(name).ok().map(|s| s.parse::<u64>().expect("a number"));
    let only = number("SEED");
    let seeds = number("SEEDS").unwrap_or(1000);
    let drives: Vec<DriveFile> =
        DriveFile::ids().into_iter().map(|id| DriveFile::load(id).unwrap()).collect();
    assert_eq!(drives.len(), 28);
    let (mut ran, mut commands) = (0u64, 0);
    for seed in only.map_or(1..seeds + 1, |s| s..s + 1) {
        let mut rng = stream(seed, "random job");
        let drive = pick(&mut rng, &drives);
        let job = job(drive, seed, &mut rng);
        let named = std::panic::AssertUnwindSafe(|| {
            let first = outcome(&job);
            let second = outcome(&job);
            match (&first, &second) {
                (Ok(a), Ok(b)) => {
                    check(&job, a);
                    assert_eq!(a.trace_digest, b.trace_digest);
                    assert_eq!(format!("{a:?}"), format!("{b:?}"));
                    (1, a.commands_total)
                }
                (Err(a), Err(b)) => {
                    assert_eq!(a, b);
                    if only.is_some() {
                        println!("refused: {a:?}");
                    }
                    (0, 0)
                }
                _ => panic!("once refused, once not"),
            }
        });
        match std::panic::catch_unwind(named) {
            Ok((one, issued)) => {
                ran += one;
                commands += issued;
            }
            Err(panic) => {
                let Job { host, scheduler, procs, window, .. } = &job;
                println!("SEED={seed}: {}", drive.id);
                println!("{host:?} {scheduler:?} {window:?}");
                procs.iter().for_each(|p| println!("  {p:?}"));
                std::panic::resume_unwind(panic);
            }
        }
    }
    println!("{ran} jobs ran, {commands} commands");
    assert!(only.is_some() || ran > seeds * 7 / 10, "only {ran} jobs were accepted");
}
