use super::*;
use hoistway::target::Answer;
use hoistway_run::{Histogram, NamedFigure, Role};

fn histogram(values: &[u64]) -> Histogram {
    let mut h = Histogram::new();
    values.iter().for_each(|&v| h.record(v));
    h
}

fn proc(name: &str, role: Role, latency: &[u64], bytes: u64) -> ProcRecord {
    ProcRecord {
        name: name.into(),
        role,
        latency: histogram(latency),
        bytes,
        ios: latency.len() as u64,
        intervals: vec![
            Interval { at: Nanos(0), bytes: bytes / 2, ios: 1 },
            Interval { at: Nanos::ms(500), bytes: bytes - bytes / 2, ios: 2 },
        ],
        censored: (name == "stuck").then_some(Nanos::secs(60)),
        starved: Nanos(7),
        ..ProcRecord::default()
    }
}

pub(crate) fn rep(seed: u64, target_ms: u64, with: &str) -> Rep {
    let target = [target_ms * 1_000_000, target_ms * 3_000_000];
    Rep {
        seed,
        measured: Nanos::secs(1),
        procs: vec![
            proc(with, Role::Target, &target, 8192),
            proc("reader0", Role::Interferer, &[10, 20], 3_000_000),
            proc("reader1", Role::Interferer, &[], 1_000_000),
        ],
        device: DeviceRecord {
            read_bytes: 4_008_192,
            written_bytes: 0,
            commands: 20,
            flushes: 0,
            sequential: 5,
            merges: 1,
            utilisation: 0.1 + 0.2,
            depth: 1.5,
            intervals: vec![Interval { at: Nanos(0), bytes: 4_008_192, ios: 20 }],
            device_time: histogram(&[100_000, u64::MAX / 8]),
        },
        marks: vec![Mark {
            at: Nanos(5),
            process: "reader0".into(),
            text: "a, \"quoted\"\nmark".into(),
            moved: 4096,
        }],
        monitor: vec![
            Monitor {
                stage: "io.cost".into(),
                name: "vrate".into(),
                unit: "0.01 %".into(),
                group: None,
                points: vec![(-5, 10_000), (7, 9_600)],
            },
            Monitor {
                stage: "io.cost".into(),
                name: "debt".into(),
                unit: "us".into(),
                group: Some("/a,b".into()),
                points: vec![(7, -1)],
            },
        ],
        files: vec![("/a".into(), "io.stat".into(), "8:0 rbytes=1\n".into())],
        targets: vec![TargetRecord {
            group: "/a".into(),
            target: Some(Nanos::ms(1)),
            p99: Nanos::ms(2),
            mean: Nanos(800_000),
            share_permille: 31,
            answer: Answer::Loss { best_p99: Nanos::ms(2), cost_permille: Some(120) },
        }],
        trace_digest: u64::MAX - seed,
        figures: vec![NamedFigure { name: "x_ns".into(), of: Some(3), value: -4 }].into(),
    }
}

fn config(id: &str) -> ConfigInfo {
    ConfigInfo {
        id: id.into(),
        scheduler: "mq-deadline".into(),
        summary: "for tests".into(),
        tunables: vec![("writes_starved".into(), 2), ("fifo_batch".into(), 16)],
    }
}

fn cell(config: &str, factor: u64, with: &str) -> Cell {
    let reps = (1..=3).map(|seed| rep(seed, factor * (10 + seed), with)).collect();
    Cell {
        drive: "plextor-px-256m5s".into(),
        config: config.into(),
        workload: "readers".into(),
        reps,
    }
}

pub(crate) fn manifest() -> Manifest {
    Manifest {
        schema: SCHEMA,
        experiment: "latency-2019".into(),
        title: "A \"title\"".into(),
        about: "About.".into(),
        world: "sim".into(),
        version: "0.1.0".into(),
        command: "hoistway compare".into(),
        seed: 1,
        reps: 3,
        judge: None,
        guarantee: None,
        drives: vec![DriveInfo {
            id: "plextor-px-256m5s".into(),
            name: "Plextor".into(),
            model: "flash".into(),
            parameters: "a = 1\n[b]\nc = 2.5\n".into(),
        }],
        configs: vec![config("none-none"), config("mq-deadline{fifo_batch=8,front_merges=0}")],
        workloads: vec![WorkloadInfo {
            id: "readers".into(),
            summary: "15 readers".into(),
            weights: Vec::new(),
            kind: None,
            load: String::new(),
        }],
        host: vec![("ram".into(), "8589934592".into())],
        machine: Vec::new(),
        quick: false,
    }
}

fn run() -> Run {
    run_with("stuck")
}

/// The second configuration's target is `with`: `target`, or `stuck` in an I/O that does not end.
fn run_with(with: &str) -> Run {
    let cells = vec![
        cell("none-none", 4, "target"),
        cell("mq-deadline{fifo_batch=8,front_merges=0}", 1, with),
    ];
    derive(manifest(), cells)
}

/// Three processes with so many bytes, under three configurations.
fn shared(bytes: [[u64; 3]; 3]) -> Run {
    let mut manifest = manifest();
    manifest.judge = Some(Judge::Share);
    manifest.configs = ["none-none", "lat-none", "prop-bfq"].map(config).to_vec();
    let cell_of = |(config, bytes): (&str, [u64; 3])| {
        let mut cell = cell(config, 4, "target");
        for rep in &mut cell.reps {
            rep.procs.iter_mut().zip(bytes).for_each(|(p, b)| p.bytes = b);
        }
        cell
    };
    let names = ["none-none", "lat-none", "prop-bfq"].into_iter();
    derive(manifest, names.zip(bytes).map(cell_of).collect())
}

#[test]
fn where_shares_are_judged_control_is_lost_by_share() {
    let lost = |run: &Run| {
        let flags = run.flags.iter().filter(|f| f.1.starts_with(LOSS_OF_CONTROL));
        flags.map(|f| (f.0.split('/').nth(1).unwrap().to_string(), f.1.clone())).collect::<Vec<_>>()
    };
    // Fair without control: who gives the target everything has lost it, although it waits least.
    let run = shared([[500, 500, 500], [1400, 50, 50], [480, 490, 500]]);
    let found = lost(&run);
    assert_eq!(found.len(), 1, "{found:?}");
    let text = "loss of control: reader0 receives 10 % of what it is entitled to; under none-none \
                nobody receives less than 100 %";
    assert_eq!(found[0], ("lat-none".into(), text.into()));
    // Starved without control, and no better under one configuration of two.
    let run = shared([[10, 745, 745], [12, 744, 744], [300, 600, 600]]);
    let found = lost(&run);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].1.contains("target receives 2.4 %") && found[0].1.contains("60 %"));
    // Much better than without control is not lost, even if another is better still.
    assert!(lost(&shared([[10, 745, 745], [100, 700, 700], [300, 600, 600]])).is_empty());
    let of = |metric: &str| {
        let found = run.metrics.iter().find(|m| {
            m.config == "prop-bfq" && m.metric == metric && m.rep.is_none() && m.source == "sim"
        });
        found.unwrap().value.unwrap()
    };
    assert!((of("share_target") - 20.0).abs() < 1e-9);
    assert!((of("share_target_entitled") - 100.0 / 3.0).abs() < 1e-9);
    assert!((of("share_met_worst") - 0.6).abs() < 1e-9);
}

#[test]
fn a_share_is_no_matter_where_latency_is_judged() {
    let mut run = shared([[500, 500, 500], [1400, 50, 50], [480, 490, 500]]);
    run.manifest.judge = Some(Judge::Latency);
    let run = derive(run.manifest, run.cells);
    assert!(run.metrics.iter().all(|m| !m.metric.starts_with("share_")));
    assert!(run.flags.iter().all(|f| !f.1.contains("entitled")));
}

/// A folder of this test's own that is gone at its end.
pub(crate) struct Folder(pub(crate) std::path::PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("hoistway-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_run_directory_is_read_back_exactly() {
    let folder = Folder::new("round-trip");
    let dir = folder.0.join("run");
    let run = run();
    run.write(&dir, "<html>").unwrap();
    let back = Run::read(&dir).unwrap();
    assert_eq!(back.manifest, run.manifest);
    assert_eq!(format!("{:?}", back.cells), format!("{:?}", run.cells));
    assert_eq!(back.metrics, run.metrics);
    assert_eq!(back.flags, run.flags);
    // Again over the old one; nothing else is left lying about.
    back.write(&dir, "<html>").unwrap();
    let names: Vec<_> =
        std::fs::read_dir(&folder.0).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names, ["run"]);
}

#[test]
fn a_foreign_folder_is_not_replaced() {
    let folder = Folder::new("foreign");
    std::fs::write(folder.0.join("precious.txt"), "x").unwrap();
    let error = run().write(&folder.0, "").unwrap_err();
    assert!(matches!(error, DirectoryError::InTheWay { .. }), "{error}");
    assert!(folder.0.join("precious.txt").is_file());
}

#[test]
fn damaged_records_are_refused_with_file_and_line() {
    let folder = Folder::new("damaged");
    let dir = folder.0.join("run");
    run().write(&dir, "").unwrap();
    let path = dir.join("records/intervals.csv.gz");
    let mut good = String::new();
    let mut packed = flate2::read::GzDecoder::new(std::fs::File::open(&path).unwrap());
    std::io::Read::read_to_string(&mut packed, &mut good).unwrap();
    // Older versions, and people, keep it as plain text.
    std::fs::write(dir.join("records/intervals.csv"), &good).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert_eq!(Run::read(&dir).unwrap().metrics, run().metrics);
    let bad = good.replacen("device,0,", "device,zero,", 1);
    let file = std::fs::File::create(&path).unwrap();
    kept::compress(file, |out| out.write_all(bad.as_bytes())).unwrap();
    let error = Run::read(&dir).unwrap_err().to_string();
    assert!(error.contains("intervals.csv.gz: line 2: 'zero' is not a whole number"), "{error}");
    std::fs::write(&path, "no gzip").unwrap();
    let error = Run::read(&dir).unwrap_err().to_string();
    assert!(error.contains("intervals.csv.gz: "), "{error}");
}

fn value(run: &Run, config: usize, metric: &str, rep: Option<u32>) -> Option<f64> {
    let id = &run.manifest.configs[config].id;
    let rows: Vec<_> = run.cells.iter().flat_map(|cell| run.rows_of(cell)).collect();
    let mut found = rows
        .iter()
        .filter(|m| m.metric == metric && &m.config == id && m.rep == rep && m.source == "sim");
    let first = found.next().unwrap_or_else(|| panic!("no {metric}"));
    assert!(found.next().is_none(), "{metric} twice");
    first.value
}

#[test]
fn metrics_are_means_of_repetitions_and_percentiles_of_all_samples() {
    let run = run();
    // 44 and 132 ms, 48 and 144, 52 and 156: means 88, 96, 104.
    assert_eq!(value(&run, 0, "latency_avg", Some(1)), Some(88.0));
    assert_eq!(value(&run, 0, "latency_avg", None), Some(96.0));
    let half = value(&run, 0, "latency_avg_ci99", None).unwrap();
    assert!((half - 9.925 * 8.0 / 3f64.sqrt()).abs() < 0.01, "{half}");
    assert_eq!(value(&run, 0, "latency_max", None), Some(156.0));
    assert_eq!(value(&run, 0, "latency_p50", None), None, "ten samples above are needed");
    assert_eq!(value(&run, 0, "throughput_total", Some(2)), Some(4.008192));
    assert_eq!(value(&run, 0, "throughput_interferers", None), Some(4.0));
    assert_eq!(value(&run, 0, "jain_interferers", Some(1)), Some(0.8));
    let both = run_with("target");
    assert!((value(&both, 1, "latency_avg_ratio", None).unwrap() - 0.25).abs() < 1e-12);
    let mut rows: Vec<_> = run.cells.iter().flat_map(|cell| run.rows_of(cell)).collect();
    rows.retain(|m| m.rep.is_none());
    assert_eq!(rows, run.metrics, "what is kept is a part of all");
    let published: Vec<_> = run.metrics.iter().filter(|m| m.source != "sim").collect();
    assert_eq!(published.len(), 1);
    assert_eq!((published[0].config.as_str(), published[0].value), ("none-none", Some(39.0)));
}

fn bound(run: &Run, config: usize, metric: &str) -> &'static str {
    let id = &run.manifest.configs[config].id;
    let of = |m: &&Metric| m.metric == metric && &m.config == id && m.rep.is_none();
    run.metrics.iter().find(of).unwrap_or_else(|| panic!("no {metric}")).bound.sign()
}

#[test]
fn an_unfinished_io_makes_bounds_and_is_flagged() {
    let run = run();
    // Two I/Os and one of 60 s that did not end, in each of three runs.
    assert_eq!(value(&run, 1, "latency_max", None), Some(60_000.0));
    let mean = value(&run, 1, "latency_avg", None).unwrap();
    assert!((mean - (11.0 + 33.0 + 60_000.0 + 4.0) / 3.0).abs() < 1.0, "{mean}");
    assert_eq!(value(&run, 1, "latency_avg_ci99", None), None);
    for metric in ["latency_max", "latency_avg", "latency_time_weighted", "latency_avg_ratio"] {
        assert_eq!((bound(&run, 0, "latency_max"), bound(&run, 1, metric)), ("", ">"), "{metric}");
    }
    assert_eq!(value(&run, 1, "latency_min", None), Some(11.0));
    assert_eq!(value(&run, 1, "censored", None), Some(3.0));
    let weighted = value(&run, 1, "latency_time_weighted", Some(1)).unwrap();
    assert!(weighted > 59_000.0, "{weighted}");
    assert!(
        run.flags.iter().any(|(at, text)| at.contains("mq-deadline") && text.contains("censored"))
    );
    assert!(
        !run.flags.iter().any(|(at, text)| at.contains("none-none") && text.contains("censored"))
    );
    let csv = metrics_csv(&[&run]);
    let line = csv.lines().find(|l| l.contains("mq-deadline") && l.contains(",latency_max,ms,"));
    assert!(line.is_some_and(|l| l.ends_with(",60000,1,sim,>")), "{line:?}");
}

#[test]
fn numbers_are_plain_decimals() {
    assert_eq!(number_text(39.0), "39");
    assert_eq!(number_text(0.1 + 0.2), "0.3");
    assert_eq!(number_text(1_234_567_890_123.0), "1234567890000");
    assert_eq!(number_text(0.0), "0");
}
