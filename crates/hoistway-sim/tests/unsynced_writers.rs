//! Buffered writers that never sync, over the whole path: dirty throttling and the flusher; and what
//! an fsync beside them takes under the old write-back.

use hoistway::sched;
use hoistway::{IoPrio, Nanos};
use hoistway_run::{
    ControlSpec, ControllerSpec, GroupSpec, Outcome, ProcSpec, Role, SchedulerSpec, TraceMode,
    Window,
};
use hoistway_sim::drive::DriveFile;
use hoistway_sim::host::HostConfig;
use hoistway_sim::world::{Job, run};
use std::borrow::Cow;

const HITACHI: &str = "hitachi-hts727550a9e364";
const PLEXTOR: &str = "plextor-px-256m5s";

/// Seven writers beside a random reader; measured for 10 s behind a ramp. No file is written to its end: there its writer
/// drops the pages and submits what is dirty itself, and which of them the block layer has wait decides who gets on
/// (Linux in virtual time: 302 to 662 MB each in 10 s on the PLEXTOR).
fn bandwidth(drive: &str, pattern: &str, target: &str, ramp: Nanos) -> Outcome {
    let drive = DriveFile::load(drive).unwrap();
    let target = ProcSpec {
        name: "target".into(),
        role: Role::Target,
        group: None,
        prio: IoPrio::NONE,
        start: Nanos::ms(200),
        load: "reader".into(),
        params: format!("pattern = \"{target}\"").parse().unwrap(),
    };
    let writer = |i| ProcSpec {
        name: format!("writer{i}"),
        role: Role::Interferer,
        start: Nanos::us(3) * i,
        load: "writer".into(),
        params: format!("dsync = 0\nsize = \"2G\"\npattern = \"{pattern}\"").parse().unwrap(),
        ..target.clone()
    };
    let mut procs = vec![target.clone()];
    procs.extend((0..7).map(writer));
    let job = Job {
        drive: Cow::Borrowed(&drive),
        host: HostConfig::profile("2019").unwrap(),
        scheduler: SchedulerSpec {
            entry: sched::find("none").expect("it is registered"),
            set: vec![],
            queue: vec![],
        },
        control: ControlSpec::default(),
        groups: vec![],
        procs,
        window: Window {
            ramp,
            measured: Nanos::secs(10),
            grace: Nanos::secs(60),
            target_interval: Nanos::ms(500),
            device_interval: Nanos::secs(1),
        },
        seed: 1,
        trace: TraceMode::Off,
    };
    run(&job, &mut |_| true).unwrap()
}

fn figure(o: &Outcome, name: &str) -> i64 {
    o.host_figures.iter().find(|f| f.name == name && f.of.is_none()).unwrap().value
}

#[test]
fn writers_settle_at_the_speed_of_the_device_and_share_it_evenly() {
    // D = floor(0.85 * 2^21) pages; 20 % of it may be held, 10 % may be dirty without write-back.
    let (background, limit) = (178_257, 356_515);
    // A writer may dirty 1024 pages between two checks.
    let slack = 7 * 1024;
    for drive in [PLEXTOR, HITACHI] {
        for pattern in ["seq", "rand"] {
            let o = bandwidth(drive, pattern, "rand", Nanos::secs(5));
            let held = figure(&o, "held_pages_max");
            assert!(background < held && held < limit + slack, "{drive} {pattern}: {held} pages");
            assert!(figure(&o, "pauses") > 0);
            let bytes: Vec<u64> = o.procs[1..].iter().map(|p| p.bytes).collect();
            let all: u64 = bytes.iter().sum();
            println!(
                "{drive}, 7 {pattern} writers: device {:.1} MB/s written, writers {:.1} MB/s, target \
                 {:.3} MB/s, mean {:.2} ms",
                o.device.written_bytes as f64 / 1e7,
                all as f64 / 1e7,
                o.procs[0].bytes as f64 / 1e7,
                o.procs[0].latency.mean().expect("the target reads") / 1e6,
            );
            // What is dirtied is what is written, but for the change of what is held.
            let off = all.abs_diff(o.device.written_bytes);
            assert!(off < limit as u64 / 5 * 4096, "{drive} {pattern}: {off} bytes off");
            let (least, most) = (bytes.iter().min().unwrap(), bytes.iter().max().unwrap());
            assert!(*most as f64 <= 1.1 * *least as f64, "{drive} {pattern}: {bytes:?}");
        }
    }
}

#[test]
fn writers_are_not_slowed_before_the_limits_and_go_at_memory_speed() {
    // 7 writers at 1.6 us per page dirty the 267,386 pages of the free run in 61 ms.
    let o = bandwidth(HITACHI, "seq", "rand", Nanos::ZERO);
    let first = &o.procs[1].latency;
    assert_eq!(first.min(), Some(1600));
    assert!(figure(&o, "held_pages_max") > 267_386);
}

#[test]
fn a_writer_that_drops_its_pages_is_held_by_io_cost() {
    // Far below the dirty limits, so that nothing but the end of its file holds it.
    let (file, limit, seconds) = (20 << 20, 10_000_000, 10);
    let drive = DriveFile::load(PLEXTOR).unwrap();
    let params = format!("dsync = 0\nsize = \"{file}\"");
    let writer = process("writer", Role::Target, "writer", &params);
    let model = format!(
        "8:0 ctrl=user model=linear rbps={limit} rseqiops=2500 rrandiops=2500 wbps={limit} wseqiops=2500 wrandiops=2500"
    );
    let qos = "8:0 enable=1 ctrl=user min=100.00 max=100.00".to_string();
    let job = Job {
        drive: Cow::Borrowed(&drive),
        host: HostConfig::profile("today").unwrap(),
        scheduler: SchedulerSpec {
            entry: sched::find("none").expect("it is registered"),
            set: vec![],
            queue: vec![],
        },
        control: ControlSpec {
            controllers: vec![ControllerSpec { name: "io.cost".into(), set: vec![] }],
            root: vec![("io.cost.model".into(), model), ("io.cost.qos".into(), qos)],
            monitor: None,
        },
        groups: vec![GroupSpec {
            name: "limited".into(),
            parent: None,
            set: vec![],
            write: vec![],
        }],
        procs: vec![ProcSpec { group: Some(0), ..writer }],
        window: Window {
            ramp: Nanos::ZERO,
            measured: Nanos::secs(seconds),
            grace: Nanos::ZERO,
            target_interval: Nanos::ms(500),
            device_interval: Nanos::secs(1),
        },
        seed: 1,
        trace: TraceMode::Off,
    };
    let bytes = run(&job, &mut |_| true).unwrap().procs[0].bytes;
    // One file at memory speed, then each takes as long as the limit has it take.
    let most = limit * seconds + 2 * file;
    assert!(file < bytes && bytes <= most, "{bytes} bytes of at most {most}");
}

fn process(name: &str, role: Role, load: &str, params: &str) -> ProcSpec {
    ProcSpec {
        name: name.into(),
        role,
        group: None,
        prio: IoPrio::NONE,
        start: Nanos::ZERO,
        load: load.into(),
        params: params.parse().unwrap(),
    }
}

/// An old host under deadline.
fn old_host(drive: &DriveFile, procs: Vec<ProcSpec>, measured: Nanos) -> Outcome {
    let job = Job {
        drive: Cow::Borrowed(drive),
        host: HostConfig::profile("2009").unwrap(),
        scheduler: SchedulerSpec {
            entry: sched::find("deadline").expect("it is registered"),
            set: vec![],
            queue: vec![],
        },
        control: ControlSpec::default(),
        groups: vec![],
        procs,
        window: Window {
            ramp: Nanos::ZERO,
            measured,
            grace: Nanos::secs(60),
            target_interval: Nanos::ms(500),
            device_interval: Nanos::secs(1),
        },
        seed: 1,
        trace: TraceMode::Off,
    };
    run(&job, &mut |_| true).unwrap()
}

#[test]
fn an_fsync_beside_a_big_copy_takes_seconds_on_an_old_host() {
    let drive = DriveFile::load(HITACHI).unwrap();
    let mean = |beside: bool| {
        let dd = beside.then(|| process("dd", Role::Interferer, "ddloop", ""));
        let tester = process("tester", Role::Target, "fsync_tester", "");
        let o = old_host(&drive, dd.into_iter().chain([tester]).collect(), Nanos::secs(60));
        let tester = o.procs.last().unwrap();
        let ms = tester.latency.mean().expect("it syncs") / 1e6;
        println!(
            "dd {beside}: {} fsyncs, mean {ms:.0} ms, most {:.0} ms; written {:.0} MB/s, chunks {}",
            tester.ios,
            tester.latency.max().unwrap() as f64 / 1e6,
            o.device.written_bytes as f64 / 6e7,
            figure(&o, "writers_own_chunks")
        );
        ms
    };
    let (alone, beside) = (mean(false), mean(true));
    // Alone: 1 MiB at the outer tracks, then two short writes far away.
    assert!(alone < 200.0 && beside > 2.0 * alone, "{alone} ms alone, {beside} ms beside it");
}

/// W6: every 4 s instead of every second, and the load writes all over a file that fits the page cache.
#[test]
fn the_later_edition_of_the_fsync_tester_pauses_four_seconds_beside_its_random_writer() {
    let drive = DriveFile::load(HITACHI).unwrap();
    let tester = process("tester", Role::Target, "fsync_tester", "variant = \"random-writer\"");
    let alone = old_host(&drive, vec![tester.clone()], Nanos::secs(13));
    // At 0, 4, 8 and 12 s, and a little later each.
    assert!((3..=4).contains(&alone.procs[0].ios), "{}", alone.procs[0].ios);
    let writer = process("random-writer", Role::Interferer, "random_writer", "");
    let beside = old_host(&drive, vec![writer, tester], Nanos::secs(13));
    assert!(beside.procs[0].bytes > 256 << 20, "it writes places again: {}", beside.procs[0].bytes);
    let mean = |o: &Outcome| o.procs.last().and_then(|p| p.latency.mean()).unwrap();
    assert!(mean(&beside) > 2.0 * mean(&alone), "{} and {} ns", mean(&alone), mean(&beside));
}
