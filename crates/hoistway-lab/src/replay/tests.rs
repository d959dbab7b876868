//! Traces through files: our own runs to the nanosecond, and traces of others through the grid.

use super::saved::{SavedFeed, Saver};
use super::*;
use crate::config::Config;
use crate::experiment::Options as Changes;
use crate::result::Run;
use crate::result::tests::Folder;
use crate::run::Grid;
use hoistway_sim::drive::DriveFile;
use std::sync::atomic::AtomicBool;

const DISK: &str = "hitachi-hts727550a9e364";
const SSD: &str = "samsung-970-pro";

fn plan(path: PathBuf) -> ReplayPlan {
    ReplayPlan {
        path,
        reader: hoistway_trace::Options::default(),
        by: Loop::Open,
        depth: None,
        speed: 1.0,
        split: Split::Process,
        target: None,
        place: OffsetMapping::Wrap,
        backlog: 1 << 20,
        sync_writes: false,
        exact: false,
    }
}

fn grid(plan: &ReplayPlan, members: &[String], drive: &str, configs: &[&str]) -> Grid {
    Grid {
        experiment: experiment(plan, members).unwrap(),
        drives: vec![DriveFile::load(drive).unwrap()],
        workloads: vec!["trace".into()],
        configs: configs.iter().map(|c| Config::parse(c).unwrap()).collect(),
        reps: 1,
        seed: 1,
        options: Changes::default(),
        command: String::new(),
    }
}

fn play(plan: &ReplayPlan, members: &[String], drive: &str, configs: &[&str]) -> Run {
    let world = ReplayWorld(plan.clone());
    let grid = grid(plan, members, drive, configs);
    grid.run(&world, 2, &AtomicBool::new(false), &|_| ()).unwrap()
}

/// What the drive was given and gave back: records D and C of a trace of ours, without their numbers.
fn drive_events(bytes: &[u8]) -> Vec<Vec<u8>> {
    let (mut at, mut events) = (0, Vec::new());
    while at < bytes.len() {
        let record = &bytes[at..at + 48];
        let action = u16::from_le_bytes([record[28], record[29]]);
        let notify = record[31] & 4 != 0;
        if !notify && (action == 7 || action == 8) {
            // Time, sector, bytes, action and pid.
            events.push(record[8..36].to_vec());
        }
        at += 48 + usize::from(u16::from_le_bytes([record[46], record[47]]));
    }
    events
}

#[test]
fn a_saved_run_replayed_from_its_file_does_the_same_to_the_nanosecond() {
    let folder = Folder::new("replay-saved");
    let cases = [
        (SSD, "none", "latency-2019", "readers"),
        (SSD, "kyber", "latency-2019", "writers"),
        (SSD, "prop-bfq", "latency-2019", "writers"),
        (DISK, "mq-deadline", "latency-2019", "readers"),
        (DISK, "cost-bfq+wbt", "latency-2019", "writers"),
        (DISK, "cfq", "latency-2019", "readers"),
        (DISK, "deadline", "latency-2019", "writers"),
        (SSD, "none-bfq", "startup-ssd-2012", "10r"),
    ];
    for (n, (drive, config, experiment_id, workload)) in cases.into_iter().enumerate() {
        let what = format!("{experiment_id}/{workload} under {config} on {drive}");
        let path = folder.0.join(format!("{n}.trace"));
        let experiment = Experiment::load(experiment_id).unwrap();
        let drive = DriveFile::load(drive).unwrap();
        let config = Config::parse(config).unwrap();
        let changes = Changes { duration: Some(Nanos::ms(700)), ..Changes::default() };
        let workload = experiment.workload(workload).unwrap_or(&experiment.workloads[0]);
        let job = experiment.job(&drive, workload, &config, 3, &changes).unwrap();
        let saving = SavingSim { path: path.clone(), config: config.id.clone() };
        let original = saving.run(&job, &mut |_| true).unwrap();
        assert_eq!(saved_from(&path).unwrap(), [drive.id.as_str(), "3", config.id.as_str()]);

        let plan = ReplayPlan { exact: true, ..plan(path.clone()) };
        let experiment = super::experiment(&plan, &[]).unwrap();
        let workload = experiment.workload("trace").unwrap();
        let job = experiment.job(&drive, workload, &config, 3, &Changes::default()).unwrap();
        let mut feed = SavedFeed::open(&path).unwrap();
        feed.place(&job);
        let mut saver = Saver::new(Vec::new(), &drive.id, 3, &config.id);
        let options = options(&plan, false);
        let (outcome, _) =
            world::replay(&job, options, &mut feed, &mut saver, &mut |_| true).unwrap();
        let again = drive_events(&saver.finish(outcome.end).unwrap());
        let first = drive_events(&std::fs::read(&path).unwrap());
        assert!(first.len() > 100 && again.len() >= first.len(), "{what}: {}", first.len());
        let differs = first.iter().zip(&again).position(|(a, b)| a != b);
        assert_eq!(differs, None, "{what}: first event that differs, of {}", first.len());
        let names = |o: &Outcome| o.procs.iter().map(|p| p.name.clone()).collect::<Vec<_>>();
        assert_eq!(names(&outcome)[1..], names(&original)[..], "{what}");
    }
}

/// An MSR trace: a request every `gap` us, two hosts in turn, with response times of 1 ms.
fn msr(n: u64, gap: u64) -> String {
    let line = |i: u64| {
        let (time, op) =
            (128_166_372_003_061_629 + i * gap * 10, ["Read", "Write"][i as usize % 2]);
        let offset = i * 7_919 * 4096 % (400 << 30);
        format!("{time},host{},0,{op},{offset},4096,10000\n", i % 2)
    };
    (0..n).map(line).collect()
}

fn saved(folder: &Folder, name: &str, text: &str) -> PathBuf {
    std::fs::create_dir_all(&folder.0).unwrap();
    let path = folder.0.join(name);
    std::fs::write(&path, text).unwrap();
    path
}

fn value(run: &Run, config: &str, workload: &str, metric: &str) -> f64 {
    let found = run.metrics.iter().find(|m| {
        (&*m.config, &*m.workload, &*m.metric) == (config, workload, metric) && m.rep.is_none()
    });
    found.and_then(|m| m.value).unwrap_or_else(|| panic!("{config} {workload} {metric}"))
}

fn fact<'a>(run: &'a Run, name: &str) -> &'a str {
    &run.manifest.host.iter().find(|(n, _)| n == name).unwrap_or_else(|| panic!("{name}")).1
}

#[test]
fn a_trace_is_an_experiment_whose_phases_are_its_devices() {
    let folder = Folder::new("replay-msr");
    let path =
        saved(&folder, "web.csv", &(msr(2000, 1000) + "128166372003061629,usr,0,Rea,1,2,3\n"));
    let plan = ReplayPlan { split: Split::Lun, ..plan(path) };
    let run = play(&plan, &[], SSD, &["none", "mq-deadline"]);
    assert_eq!(run.manifest.experiment, "replay-web.csv");
    assert_eq!((fact(&run, "trace.records"), fact(&run, "trace.malformed")), ("2000", "1"));
    assert!(fact(&run, "trace.malformed_first").contains("line 2001"));
    for config in ["none", "mq-deadline"] {
        assert_eq!(value(&run, config, "trace", "samples"), 2000.0);
        let latency = value(&run, config, "trace", "latency_avg");
        assert!((0.01..1.0).contains(&latency), "{latency} ms");
        let parts: f64 = ["host0.0", "host1.0"]
            .map(|host| value(&run, config, host, "throughput_total"))
            .iter()
            .sum();
        let whole = value(&run, config, "trace", "throughput_total");
        assert!((parts / whole - 1.0).abs() < 1e-6, "{parts} of {whole} MB/s");
    }
    // Twice as fast takes half the time; the rest is the end of the last.
    let fast = play(&ReplayPlan { speed: 2.0, ..plan.clone() }, &[], SSD, &["none"]);
    let measured = |run: &Run| run.cells[0].reps[0].measured.0 as f64;
    assert!((measured(&run) / measured(&fast) - 2.0).abs() < 0.01);
    assert_eq!(fact(&run, "trace.digest"), fact(&fast, "trace.digest"));
}

#[test]
fn a_target_stands_beside_its_interferers_and_groups_are_of_members() {
    let folder = Folder::new("replay-target");
    let path = saved(&folder, "web.csv", &msr(1000, 500));
    let plan = ReplayPlan { split: Split::Lun, target: Some("host1.0".into()), ..plan(path) };
    let members = members(&plan).unwrap();
    assert_eq!(members, ["host0.0", "host1.0"]);
    let run = play(&plan, &members, SSD, &["none-none", "prop-bfq"]);
    for cell in &run.cells {
        let names: Vec<_> = cell.reps[0].procs.iter().map(|p| (p.name.as_str(), p.role)).collect();
        assert_eq!(names, [("host1.0", Role::Target), ("host0.0", Role::Interferer)]);
        assert_eq!(cell.reps[0].procs[0].ios, 500);
    }
    let files = &run.cells[1].reps[0].files;
    for group in ["/host0.0", "/host1.0"] {
        assert!(files.iter().any(|f| f.0 == group && f.1 == "io.bfq.weight"), "{files:?}");
    }
    let other = ReplayPlan { target: Some("host2.0".into()), ..plan };
    let error = experiment(&other, &members).unwrap_err().to_string();
    assert!(error.contains("did you mean 'host"), "{error}");
}

#[test]
fn closed_loop_keeps_to_the_drive() {
    let folder = Folder::new("replay-closed");
    // One request after another, 1 ms each, 1 ms between end and next.
    let path = saved(&folder, "web.csv", &msr(400, 2000));
    let open = plan(path);
    assert_eq!(probe(&open).unwrap(), Probe { ends: true, timed: true });
    let closed = ReplayPlan { by: Loop::Closed, ..open.clone() };
    let run = play(&closed, &[], SSD, &["none"]);
    let latency = value(&run, "none", "trace", "latency_avg");
    let seconds = run.cells[0].reps[0].measured.0 as f64 / 1e9;
    let foretold = 0.4 * latency + 0.399;
    assert!((seconds / foretold - 1.0).abs() < 0.01, "{seconds} s, not {foretold} s");
}

#[test]
fn places_beyond_the_drive_wrap_or_scale_and_odd_ones_are_widened() {
    let folder = Folder::new("replay-places");
    let line = |i: u64, offset: u64, len: u64| {
        format!("{},h,0,Read,{offset},{len},10000\n", 128_166_372_003_061_629 + i * 100_000)
    };
    let text = line(0, 0, 4096) + &line(1, 1 << 50, 4096) + &line(2, 1000, 100) + &line(3, 7, 0);
    let plan = plan(saved(&folder, "odd.csv", &text));
    let run = play(&plan, &[], SSD, &["none"]);
    assert_eq!(fact(&run, "trace.records"), "3");
    assert_eq!((fact(&run, "trace.beyond"), fact(&run, "trace.unaligned")), ("1", "1"));
    assert_eq!(fact(&run, "trace.empty"), "1");
    assert_eq!(run.cells[0].reps[0].device.read_bytes, 4096 + 4096 + 1024);
    let scaled = ReplayPlan { place: OffsetMapping::Scale(2 << 50), ..plan };
    let run = play(&scaled, &[], SSD, &["none"]);
    assert!(!run.manifest.host.iter().any(|(name, _)| name == "trace.beyond"));
}

#[test]
fn an_overload_is_said_and_a_strict_reader_stops() {
    let folder = Folder::new("replay-overload");
    let path = saved(&folder, "web.csv", &msr(4000, 100));
    let plan = ReplayPlan { backlog: 500, ..plan(path) };
    let run = play(&plan, &[], DISK, &["none"]);
    let flags: Vec<&String> = run.flags.iter().map(|(_, text)| text).collect();
    assert!(flags.iter().any(|f| f.contains("the drive cannot keep up")), "{flags:?}");
    let bad = saved(&folder, "bad.csv", &(msr(3000, 100) + "nonsense\n"));
    let reader = hoistway_trace::Options { strict: true, ..hoistway_trace::Options::default() };
    let plan = ReplayPlan { path: bad, reader, ..plan };
    let world = ReplayWorld(plan.clone());
    let error = grid(&plan, &[], SSD, &["none"])
        .run(&world, 1, &AtomicBool::new(false), &|_| ())
        .unwrap_err()
        .to_string();
    assert!(error.contains("line 3001"), "{error}");
}

#[test]
fn files_of_others_and_damaged_ones_are_not_taken_for_ours() {
    let folder = Folder::new("replay-foreign");
    let path = saved(&folder, "web.csv", &msr(10, 100));
    assert!(!is_saved(&path) && !is_saved(Path::new("-")) && !is_saved(Path::new("/nowhere")));
    let mut bytes = Saver::new(Vec::new(), SSD, 1, "none").finish(Instant::ZERO).unwrap();
    let whole = saved_bytes(&folder, "whole", &bytes);
    assert!(is_saved(&whole));
    bytes.truncate(bytes.len() - 3);
    assert!(
        !is_saved(&saved_bytes(&folder, "cut", &bytes)),
        "its head ends in the middle of a record"
    );
}

fn saved_bytes(folder: &Folder, name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder.0.join(name);
    std::fs::write(&path, bytes).unwrap();
    path
}
