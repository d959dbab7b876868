//! The whole path: loads, host, stack, drive. Its figures: tests/latency_2019.rs.

use super::setup::check_room;
use super::*;
use crate::drive::DriveFile;
use crate::host::HostConfig;
use hoistway::sched;
use hoistway::{Instant, IoPrio, Nanos};
use hoistway_run::{
    ControlSpec, GroupSpec, JobError, Outcome, ProcRecord, ProcSpec, Role, SchedulerSpec,
    TraceMode, Window,
};
use std::borrow::Cow;

struct Setting<'a> {
    drive: &'a str,
    scheduler: &'a str,
    /// A tunable of it.
    set: Option<(&'a str, u64)>,
    interferer: &'a str,
    params: &'a str,
    interferers: u64,
    /// Children of the root that the interferers are in, in turn; none: they are in the root.
    groups: usize,
    measured: Nanos,
    seed: u64,
    trace: TraceMode,
}

impl Setting<'_> {
    fn run(&self) -> Outcome {
        self.run_on(HostConfig::profile("2019").unwrap()).unwrap()
    }

    fn run_on(&self, host: HostConfig) -> Result<Outcome, JobError> {
        let drive = DriveFile::load(self.drive).unwrap();
        let target = ProcSpec {
            name: "target".into(),
            role: Role::Target,
            group: None,
            prio: IoPrio::NONE,
            start: Nanos::ms(200),
            load: "reader".into(),
            params: "pattern = \"rand\"".parse().unwrap(),
        };
        let interferer = |i| ProcSpec {
            name: format!("{}{i}", self.interferer),
            role: Role::Interferer,
            start: Nanos::us(3) * i,
            load: self.interferer.into(),
            params: self.params.parse().unwrap(),
            group: (self.groups > 0).then(|| i as usize % self.groups),
            ..target.clone()
        };
        let mut procs = vec![target.clone()];
        procs.extend((0..self.interferers).map(interferer));
        let job = Job {
            drive: Cow::Borrowed(&drive),
            host,
            scheduler: SchedulerSpec {
                entry: sched::find(self.scheduler).expect("it is registered"),
                set: self.set.iter().map(|(name, value)| (name.to_string(), *value)).collect(),
                queue: Vec::new(),
            },
            control: ControlSpec::default(),
            groups: (0..self.groups).map(group).collect(),
            procs,
            window: Window {
                ramp: Nanos::ZERO,
                measured: self.measured,
                grace: Nanos::secs(60),
                target_interval: Nanos::ms(500),
                device_interval: Nanos::secs(1),
            },
            seed: self.seed,
            trace: self.trace,
        };
        run(&job, &mut |_| true)
    }
}

/// A child of the root.
fn group(index: usize) -> GroupSpec {
    GroupSpec { name: format!("group{index}"), parent: None, set: Vec::new(), write: Vec::new() }
}

const HITACHI: &str = "hitachi-hts727550a9e364";

fn readers(drive: &str) -> Setting<'_> {
    Setting {
        drive,
        scheduler: "none",
        set: None,
        interferer: "reader",
        groups: 0,
        params: "",
        interferers: 15,
        measured: Nanos::secs(2),
        seed: 1,
        trace: TraceMode::Digest,
    }
}

fn near(got: f64, want: f64, tolerance: f64) {
    assert!((got / want - 1.0).abs() <= tolerance, "{got} is not within {tolerance} of {want}");
}

#[test]
fn the_same_job_gives_the_same_records_and_trace() {
    let base = Setting { trace: TraceMode::Keep(5000), ..readers(HITACHI) };
    let (a, b) = (base.run(), base.run());
    assert_eq!(a.trace_digest, b.trace_digest);
    assert_eq!(a.trace.len(), 5000);
    assert_eq!(a.trace, b.trace);
    assert_eq!((a.end, a.commands_total), (b.end, b.commands_total));
    for (x, y) in a.procs.iter().zip(&b.procs) {
        assert_eq!((&x.latency, x.bytes, &x.intervals), (&y.latency, y.bytes, &y.intervals));
    }
    let other = Setting { seed: 2, ..base }.run();
    assert_ne!(a.trace_digest, other.trace_digest);
}

#[test]
fn bfq_decides_by_the_rules_of_the_host_unless_told_otherwise() {
    let digest = |base: Option<&str>, told: Option<u64>| {
        let mut host = HostConfig::profile("2019").unwrap();
        if let Some(base) = base {
            host.set("bfq_base", &base.into()).unwrap();
        }
        let set = told.map(|value| ("base", value));
        let setting = Setting { scheduler: "bfq", set, ..readers("plextor-px-256m5s") };
        setting.run_on(host).unwrap().trace_digest
    };
    // Values of the tunable: 2 = hoistway, 3 = 5.3.
    let of_2019 = digest(None, None);
    assert_eq!(of_2019, digest(Some("hoistway"), Some(3)));
    assert_eq!(digest(Some("hoistway"), None), digest(None, Some(2)));
    assert_ne!(of_2019, digest(Some("hoistway"), None));
}

#[test]
fn what_processes_and_device_count_fits_together() {
    let o = Setting { measured: Nanos::secs(10), ..readers(HITACHI) }.run();
    let read: u64 = o.procs.iter().map(|p| p.bytes).sum();
    // Processes are behind the device by what is read ahead, at most 3 windows each, at either end.
    let slack = 15 * 3 * 256 * 1024;
    assert!(read.abs_diff(o.device.read_bytes) < slack, "{read} {}", o.device.read_bytes);
    assert!(o.device.utilisation > 0.99 && o.device.utilisation <= 1.0);
    assert!(o.device.depth > 25.0 && o.device.depth <= 31.0);
    let series: u64 = o.device.intervals.iter().map(|i| i.bytes).sum();
    assert_eq!((series, o.device.intervals.len()), (o.device.read_bytes, 10));
    for p in &o.procs {
        assert_eq!(p.intervals.len(), 20);
        assert_eq!(p.intervals.iter().map(|i| i.bytes).sum::<u64>(), p.bytes);
    }
    // The target's last read runs to its end.
    let target = &o.procs[0];
    assert!(target.latency.count() == target.ios || target.latency.count() == target.ios + 1);
    assert!(target.starved.0 <= target.latency.max().unwrap());
    assert!(o.end > Instant::ZERO + Nanos::ms(10_200));
}

#[test]
fn an_io_that_outlasts_the_grace_is_censored() {
    let drive = DriveFile::load(HITACHI).unwrap();
    let target = ProcSpec {
        name: "target".into(),
        role: Role::Target,
        group: None,
        prio: IoPrio::NONE,
        start: Nanos::ZERO,
        load: "reader".into(),
        params: "pattern = \"rand\"".parse().unwrap(),
    };
    let window = Window {
        ramp: Nanos::ZERO,
        measured: Nanos::us(100),
        grace: Nanos::us(200),
        target_interval: Nanos::ms(1),
        device_interval: Nanos::ms(1),
    };
    let scheduler = SchedulerSpec {
        entry: sched::find("none").expect("it is registered"),
        set: Vec::new(),
        queue: Vec::new(),
    };
    let job = Job {
        drive: Cow::Borrowed(&drive),
        host: HostConfig::profile("2019").unwrap(),
        scheduler,
        control: ControlSpec::default(),
        groups: Vec::new(),
        procs: vec![target],
        window,
        seed: 1,
        trace: TraceMode::Off,
    };
    let o = run(&job, &mut |_| true).unwrap();
    assert_eq!(o.procs[0].latency.count(), 0);
    assert_eq!(o.procs[0].censored, Some(Nanos::us(300)));
    assert_eq!(run(&job, &mut |_| false).err(), None, "too short to be asked");
    let long = Job { window: Window { measured: Nanos::secs(1), ..job.window }, ..job };
    assert_eq!(run(&long, &mut |_| false).err(), Some(JobError::Interrupted));
}

#[test]
fn mistakes_in_a_job_are_named() {
    let base = readers(HITACHI);
    let err = |s: Setting<'_>| s.run_on(HostConfig::profile("2019").unwrap()).unwrap_err();
    assert!(matches!(
        err(Setting { interferer: "juggler", ..base }),
        JobError::Unknown { kind: "load", .. }
    ));
    let base = readers(HITACHI);
    let Err(JobError::Parameter { of, message }) =
        Setting { params: "sise = 4", ..base }.run_on(HostConfig::profile("2019").unwrap())
    else {
        panic!("accepted")
    };
    assert_eq!(of, "reader0");
    assert!(message.contains("sise") && message.contains("size"), "{message}");
    let base = readers(HITACHI);
    assert!(matches!(
        err(Setting { params: "size = \"100GiB\"", ..base }),
        JobError::DoesNotFit { .. }
    ));
    let legacy = readers(HITACHI).run_on(HostConfig::profile("2010").unwrap());
    assert!(matches!(legacy, Err(JobError::Parameter { .. })));
}

#[test]
fn too_many_processes_and_groups_are_refused_with_the_number_that_fits() {
    check_room(1_000_000, 1_000_000).unwrap();
    let error = check_room(2_200_001, 0).unwrap_err().to_string();
    let expected =
        "procs: 2200001 processes and 0 groups: more than 2097148 together; choose fewer of either";
    assert_eq!(error, expected);
}

#[test]
fn every_load_runs_under_every_scheduler_of_both_generations() {
    for (profile, scheduler) in
        [("2019", "none"), ("2019", "mq-deadline"), ("2010", "deadline"), ("2009", "noop")]
    {
        for (interferer, params) in [
            ("reader", ""),
            ("reader", "direct = true"),
            ("reader", "rate = \"4000k\""),
            ("writer", "dsync = 3"),
            ("writer", "direct = true"),
            ("writer", "pattern = \"rand\""),
            ("sporadic_probe", "interval = \"20 ms\""),
            ("writer", "dsync = 0\nnew_file = true"),
            ("writer", "dsync = 5\nfsync = true\npattern = \"rand\"\nnew_file = true"),
            ("fsync_tester", "pause = \"50 ms\""),
            ("ddloop", "size = \"64 MiB\""),
        ] {
            let base = Setting { scheduler, interferer, params, ..readers(HITACHI) };
            let base = Setting { interferers: 4, measured: Nanos::secs(6), ..base };
            let o = base.run_on(HostConfig::profile(profile).unwrap()).unwrap();
            for p in &o.procs {
                assert!(p.ios > 0, "{profile} {scheduler} {interferer} {params} {}", p.name);
            }
            if params.starts_with("rate") {
                let rate = o.procs[1].bytes as f64 / 6.0;
                near(rate, 4_096_000.0, 0.02);
            }
        }
    }
}

#[test]
fn raw_readers_share_the_device_with_files() {
    // In sequence windows of 256 KiB, two of which may merge; the target's reads of 4 KiB among them.
    let kinds = [("raw = true", 64..513), ("raw = true\npattern = \"rand\"", 4..5)];
    for (params, kib) in kinds {
        for (profile, scheduler) in [("2019", "mq-deadline"), ("2012", "cfq")] {
            let base = Setting { scheduler, params, interferers: 4, ..readers("intel-320-160g") };
            let o = base.run_on(HostConfig::profile(profile).unwrap()).unwrap();
            assert!(o.procs.iter().all(|p| p.ios > 0), "{profile} {params}");
            let mean = o.device.read_bytes / o.device.commands / 1024;
            assert!(kib.contains(&mean), "{profile} {params}: {mean} KiB per command");
        }
    }
}

#[test]
fn requests_of_2009_are_of_128_kib_at_most() {
    let mut larger = HostConfig::profile("2009").unwrap();
    larger.set("max_request_kib", &toml::Value::Integer(512)).unwrap();
    let mean = |host| {
        let base = Setting {
            scheduler: "deadline",
            params: "raw = true",
            interferers: 4,
            ..readers("intel-320-160g")
        };
        let o = base.run_on(host).unwrap();
        o.device.read_bytes / o.device.commands / 1024
    };
    let own = mean(HostConfig::profile("2009").unwrap());
    assert!((64..=128).contains(&own), "{own} KiB per command");
    let larger = mean(larger);
    assert!((129..=512).contains(&larger), "{larger} KiB per command");
}

/// More groups than the event queue once had numbers for. Set up one by one, each by a look at all before
/// it, they would take minutes.
#[test]
fn a_hundred_thousand_groups_are_set_up_and_run() {
    let setting = Setting {
        scheduler: "bfq",
        groups: 100_000,
        interferers: 100,
        measured: Nanos::ms(300),
        ..readers("fixed-100us")
    };
    let o = setting.run();
    assert_eq!(o.procs.len(), 101);
    assert!(o.procs.iter().all(|p| p.ios > 0));
}

/// What the queue of an asynchronous process amounts to at the device, and that nothing of it is lost at the
/// end of the window: the target's last calls run to their ends.
#[test]
fn a_depth_is_kept_at_the_device_and_every_call_of_the_target_is_counted() {
    let drive = DriveFile::load("plextor-px-256m5s").unwrap();
    let run_with = |params: &str, role| {
        let proc = ProcSpec {
            name: "deep".into(),
            role,
            group: None,
            prio: IoPrio::NONE,
            start: Nanos::ZERO,
            load: "reader".into(),
            params: params.parse().unwrap(),
        };
        let job = Job {
            drive: Cow::Borrowed(&drive),
            host: HostConfig::profile("2019").unwrap(),
            scheduler: SchedulerSpec {
                entry: sched::find("none").expect("it is registered"),
                set: Vec::new(),
                queue: Vec::new(),
            },
            control: ControlSpec::default(),
            groups: Vec::new(),
            procs: vec![proc],
            window: Window {
                ramp: Nanos::ms(100),
                measured: Nanos::ms(300),
                grace: Nanos::secs(60),
                target_interval: Nanos::ms(100),
                device_interval: Nanos::ms(100),
            },
            seed: 1,
            trace: TraceMode::Digest,
        };
        run(&job, &mut |_| true).unwrap()
    };
    let params = "raw = true\ndirect = true\npattern = \"rand\"\ndepth = 16";
    let deep = run_with(params, Role::Target);
    // Little's law over the process's own figures: calls in flight = rate x latency. The queue is short of
    // its depth while a call is prepared, a microsecond or two of every service time.
    let rate = deep.procs[0].ios as f64 / deep.measured.0 as f64;
    let flight = rate * deep.procs[0].latency.mean().unwrap();
    assert!((15.0..16.01).contains(&flight), "{flight} calls in flight");
    assert!((14.0..16.01).contains(&deep.device.depth), "{} at the device", deep.device.depth);
    let (kept, ended) = (deep.procs[0].latency.count(), deep.procs[0].ios);
    assert!((1..=16).contains(&(kept - ended)), "{kept} latencies, {ended} ends in the window");
    assert_eq!(deep.procs[0].censored, None);
    let one = run_with("raw = true\ndirect = true\npattern = \"rand\"", Role::Interferer);
    assert!(deep.procs[0].ios > 5 * one.procs[0].ios, "a flash drive answers more at once");
}

/// A mixed job that ends by itself: the window ends with it, directions are recorded apart and come to the
/// whole, and of two jobs with a barrier between them the second begins when the first is over.
#[test]
fn jobs_record_directions_apart_and_follow_one_another() {
    let drive = DriveFile::load("plextor-px-256m5s").unwrap();
    let proc = |name: &str, params: &str| ProcSpec {
        name: name.into(),
        role: Role::Interferer,
        group: None,
        prio: IoPrio::NONE,
        start: Nanos::ZERO,
        load: "job".into(),
        params: params.parse().unwrap(),
    };
    let mixed =
        "rw = \"randrw\"\nmix = 75\ndirect = true\ndepth = 8\nsize = \"8m\"\nends_at = \"first\"";
    let second =
        "rw = \"write\"\nnew_file = true\nsize = \"8m\"\nend_fsync = true\nwaits_for = \"first\"";
    let job = Job {
        drive: Cow::Borrowed(&drive),
        host: HostConfig::profile("2019").unwrap(),
        scheduler: SchedulerSpec {
            entry: sched::find("bfq").expect("it is registered"),
            set: Vec::new(),
            queue: Vec::new(),
        },
        control: ControlSpec::default(),
        groups: Vec::new(),
        procs: vec![proc("mixed", mixed), proc("second", second)],
        window: Window {
            ramp: Nanos::ZERO,
            measured: Nanos::secs(60),
            grace: Nanos::ZERO,
            target_interval: Nanos::ms(100),
            device_interval: Nanos::ms(100),
        },
        seed: 1,
        trace: TraceMode::Digest,
    };
    let outcome = run(&job, &mut |_| true).unwrap();
    assert!(outcome.measured < Nanos::secs(5), "{:?}", outcome.measured);
    let [mixed, second] = &outcome.procs[..] else { panic!("two processes") };
    let phase =
        |p: &ProcRecord, name: &str| p.phases.iter().find(|r| r.name == name).cloned().unwrap();
    let (reads, writes) = (phase(mixed, "read"), phase(mixed, "write"));
    assert_eq!((reads.ios + writes.ios, reads.bytes + writes.bytes), (2048, 8 << 20));
    assert_eq!((mixed.ios, mixed.latency.count()), (2048, 2048));
    assert!((0.7..0.8).contains(&(reads.ios as f64 / 2048.0)), "{}", reads.ios);
    assert_eq!(reads.latency.count(), reads.ios);
    let first_end = reads.end.max(writes.end).unwrap();
    let wrote = phase(second, "write");
    assert!(wrote.begin.unwrap() >= first_end, "{wrote:?}");
    assert_eq!((wrote.bytes, second.bytes), (8 << 20, 8 << 20));
    assert!(outcome.device.written_bytes >= writes.bytes + wrote.bytes, "the fsync wrote it");
}
