//! A made-up run, plausible in shape and the same every time. Not a measurement.

use hoistway::Nanos;
use hoistway_lab::result::{
    Cell, ConfigInfo, DriveInfo, Judge, Manifest, Metric, MetricPlace, Rep, Run, SCHEMA,
    WorkloadInfo, derive,
};
use hoistway_run::{DeviceRecord, Histogram, Interval, Mark, ProcRecord, Role};

const DRIVES: [(&str, &str, f64, f64); 3] = [
    ("plextor-px-256m5s", "Plextor PX-256M5S (SATA SSD, 2013)", 39e6, 520.0),
    ("hitachi-hts727550a9e364", "Hitachi HTS727550A9E364 (HDD, 7200 rpm)", 4.5e9, 92.0),
    ("samsung-970-pro", "Samsung 970 PRO 512 GB (NVMe SSD)", 2e6, 2400.0),
];

/// Latency against `none-none`, share of its throughput.
const CONFIGS: [(&str, f64, f64); 12] = [
    ("none-none", 1.0, 1.0),
    ("none-bfq", 0.023, 0.97),
    ("mq-deadline", 0.82, 0.99),
    ("deadline", 0.64, 0.98),
    ("deadline{fifo_batch=8,read_expire=250 ms}", 0.41, 0.95),
    ("noop", 1.02, 1.0),
    ("kyber", 0.3, 0.93),
    ("cfq", 0.09, 0.84),
    ("sio", 0.55, 0.97),
    ("lat-none", 0.051, 0.35),
    ("cost-none", 0.12, 0.71),
    ("prop-bfq", 0.04, 0.9),
];

/// A run of so many drives, configurations, repetitions and latencies per repetition.
pub fn run(drives: usize, configs: usize, reps: u32, samples: u64) -> Run {
    let workloads = [
        ("readers", "4 KiB random reads beside 15 sequential readers, each its own file", 1.0),
        ("writers", "4 KiB random reads beside 15 sequential writers that sync each write", 0.3),
    ];
    let mut cells = Vec::new();
    let mut metrics = Vec::new();
    let mut flags = Vec::new();
    for (drive, _, wait, rate) in &DRIVES[..drives] {
        for (workload, _, load) in workloads {
            for (n, (config, factor, share)) in CONFIGS[..configs].iter().enumerate() {
                // An HDD completes few reads in the window.
                let samples = if *wait > 1e9 { samples / 500 + 3 } else { samples };
                let rep = |r| {
                    let seed = u64::from(r) + 1;
                    one(seed, wait * load * factor, rate * share * load.sqrt(), samples, n)
                };
                cells.push(Cell {
                    drive: drive.to_string(),
                    config: config.to_string(),
                    workload: workload.to_string(),
                    reps: (0..reps).map(rep).collect(),
                });
            }
            let place = MetricPlace {
                experiment: "latency-2019".into(),
                drive: drive.into(),
                config: "none-none".into(),
                workload: workload.into(),
                source: "invented for this sample".into(),
            };
            metrics.push(Metric {
                place: place.into(),
                metric: "latency_avg".into(),
                unit: "ms",
                value: Some(wait * load / 1e6 * 0.94),
                bound: Default::default(),
                rep: None,
            });
            if *wait > 1e9 {
                let text = "few samples: percentiles above p50 are missing";
                flags.push((format!("{drive}/none-none/{workload}"), text.into()));
            }
        }
    }
    let run = derive(manifest(drives, configs, reps, &workloads), cells);
    Run { metrics, flags, ..run }
}

fn manifest(drives: usize, configs: usize, reps: u32, loads: &[(&str, &str, f64)]) -> Manifest {
    let info = |c: &(&str, f64, f64)| ConfigInfo {
        id: c.0.into(),
        scheduler: c.0.split(['{', '-']).next_back().unwrap_or("none").into(),
        summary: "a configuration of the sample".into(),
        tunables: vec![("fifo_batch".into(), 16), ("read_expire".into(), 500)],
    };
    Manifest {
        schema: SCHEMA,
        experiment: "latency-2019".into(),
        title: "Latency of a random reader under load (SYNTHETIC SAMPLE DATA)".into(),
        about: "A page to look at the layout with. All figures are invented: nothing was measured \
                or simulated."
            .into(),
        world: "sim".into(),
        version: "0.1.0".into(),
        command: "cargo run -p hoistway-lab --example sample_report".into(),
        seed: 1,
        reps,
        judge: None,
        guarantee: None,
        drives: DRIVES[..drives]
            .iter()
            .map(|d| DriveInfo {
                id: d.0.into(),
                name: d.1.into(),
                model: if d.2 > 1e9 { "hdd" } else { "flash" }.into(),
                parameters: format!("id = \"{}\"\nmodel = \"sample\"\nrate_mb_s = {}\n", d.0, d.3),
            })
            .collect(),
        configs: CONFIGS[..configs].iter().map(info).collect(),
        workloads: loads
            .iter()
            .map(|w| WorkloadInfo {
                id: w.0.into(),
                summary: w.1.into(),
                weights: Vec::new(),
                kind: None,
                load: String::new(),
            })
            .collect(),
        host: vec![("read_ahead_kb".into(), "128".into()), ("cpus".into(), "8".into())],
        machine: Vec::new(),
        quick: false,
    }
}

fn one(seed: u64, wait: f64, rate: f64, samples: u64, key: usize) -> Rep {
    // A generator of its own, so that no change elsewhere moves the stored page.
    let mut state = seed * 7919 + key as u64 * 104_729 + 1;
    let mut draw = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        (state >> 40) as f64 / (1u64 << 24) as f64
    };
    let drift = 0.94 + 0.12 * draw();
    let mut latency = Histogram::new();
    for _ in 0..samples {
        // Sum of uniforms: a hump; its square a long tail. Products only, the same everywhere.
        let hump = (draw() + draw() + draw()) / 1.5;
        let tail = if draw() > 0.97 { 2.5 } else { 1.0 };
        latency.record((wait * drift * (0.25 + 0.6 * hump * hump) * tail) as u64 + 20_000);
    }
    let mine = (4096.0 * 1e3 / wait).min(rate * 0.3);
    let mut series = |mb_s: f64| -> Vec<Interval> {
        let interval = |i: u64| {
            let bytes = (mb_s * (0.9 + 0.2 * draw()) * 5e5) as u64;
            Interval { at: Nanos::ms(i * 500), bytes, ios: bytes / 4096 }
        };
        (0..20).map(interval).collect()
    };
    let proc_of = |name: &str, role, latency: Histogram, intervals: Vec<Interval>| {
        let bytes = intervals.iter().map(|i| i.bytes).sum();
        ProcRecord {
            name: name.into(),
            role,
            latency,
            bytes,
            ios: bytes / 4096,
            intervals,
            ..ProcRecord::default()
        }
    };
    let target = proc_of("target", Role::Target, latency, series(mine));
    let rest = proc_of("reader1", Role::Interferer, Histogram::new(), series(rate - mine));
    let device = DeviceRecord { read_bytes: target.bytes + rest.bytes, ..DeviceRecord::default() };
    Rep {
        seed,
        measured: Nanos::secs(10),
        procs: vec![target, rest],
        device,
        trace_digest: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ key as u64,
        ..Rep::default()
    }
}

/// The same without a target: processes that share what the device moves, some of it written.
pub fn free(drives: usize, configs: usize, reps: u32) -> Run {
    let mut run = run(drives, configs, reps, 10);
    run.flags.clear();
    run.manifest.title = "Throughput of ten processes (SYNTHETIC SAMPLE DATA)".into();
    for m in &mut run.metrics {
        (m.metric, m.unit, m.value) = ("throughput_total".into(), "MB/s", Some(88.0));
    }
    for (n, cell) in run.cells.iter_mut().enumerate() {
        for rep in &mut cell.reps {
            let moved: u64 = rep.procs.iter().map(|p| p.bytes).sum();
            rep.device.read_bytes = moved / 10 * 7;
            rep.device.written_bytes = moved / 10 * 3;
            rep.device.intervals = rep.procs[1].intervals.clone();
            let proc = rep.procs.pop().expect("a sample has two processes");
            rep.procs.clear();
            for i in 0..10u64 {
                let mut p = proc.clone();
                p.name = format!("reader{i}");
                p.bytes = moved / 10 * (90 + i * (n as u64 % 3)) / 100;
                rep.procs.push(p);
            }
        }
    }
    again(run)
}

/// The same records compared anew.
pub fn again(run: Run) -> Run {
    let comparisons = derive(run.manifest.clone(), run.cells.clone()).comparisons;
    Run { comparisons, ..run }
}

/// So many bytes of the target and of the other one.
#[allow(dead_code, reason = "each test takes the samples it needs")]
pub fn moves(rep: &mut Rep, target: u64, other: u64) {
    rep.procs[0].bytes = target;
    rep.procs[1].bytes = other;
    rep.device.read_bytes = target + other;
}

/// Eight processes, judged by what each receives of an eighth: under the first configuration two have
/// nothing, under the second the target has nearly everything, under the others all the same.
#[allow(dead_code, reason = "each test takes the samples it needs")]
pub fn shared(drives: usize, configs: usize, reps: u32) -> Run {
    let mut run = run(drives, configs, reps, 2000);
    run.manifest.judge = Some(Judge::Share);
    run.manifest.title = "Bandwidth of a reader (SYNTHETIC SAMPLE DATA)".into();
    for (n, cell) in run.cells.iter_mut().enumerate() {
        for rep in &mut cell.reps {
            let whole: u64 = rep.procs.iter().map(|p| p.bytes).sum();
            let other = rep.procs.pop().expect("a sample has two processes");
            let part = |i: u64| match n % configs {
                0 => [0, 200, 160, 160, 160, 160, 160, 0][i as usize],
                1 => [993, 1, 1, 1, 1, 1, 1, 1][i as usize],
                n => 125 + if i == 0 { n as u64 } else { 0 },
            };
            rep.procs[0].bytes = whole * part(0) / 1000;
            for i in 1..8 {
                let bytes = whole * part(i) / 1000;
                rep.procs.push(ProcRecord { name: format!("reader{i}"), bytes, ..other.clone() });
            }
        }
    }
    let (manifest, cells) = (run.manifest, run.cells);
    derive(manifest, cells)
}

/// Starts of an application: none finished under the first configuration, short ones under the others.
#[allow(dead_code, reason = "each test takes the samples it needs")]
pub fn starting(drives: usize, configs: usize, reps: u32) -> Run {
    let mut run = free(drives, configs, reps);
    run.manifest.judge = Some(Judge::Startup);
    run.manifest.title = "Start-up of an application (SYNTHETIC SAMPLE DATA)".into();
    for (n, cell) in run.cells.iter_mut().enumerate() {
        for rep in &mut cell.reps {
            rep.procs[0].role = Role::Target;
            rep.measured = Nanos::secs(200);
            let n = n as u64 % configs as u64;
            let end = match n {
                0 => (61_000, "unfinished after 60000000000ns"),
                n => (1200 * n, "done"),
            };
            let mark = |ms, text: &str| Mark {
                at: Nanos::ms(ms),
                process: "reader0".into(),
                text: text.into(),
                moved: ms * 1000,
            };
            rep.marks = vec![mark(0, "start"), mark(end.0, end.1)];
        }
    }
    let (manifest, cells) = (run.manifest, run.cells);
    derive(manifest, cells)
}
