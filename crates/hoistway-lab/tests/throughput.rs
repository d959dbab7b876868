//! Experiments without a target, run whole: the published rows without control, and what schedulers of
//! the same kind must agree on.

use hoistway_lab::config::Config;
use hoistway_lab::experiment::{Experiment, Options};
use hoistway_lab::result::Run;
use hoistway_lab::run::Grid;
use hoistway_sim::drive::DriveFile;
use std::sync::atomic::AtomicBool;

fn run(experiment: &str, drive: &str, configs: &[&str], workloads: &[&str]) -> Run {
    let grid = Grid {
        experiment: Experiment::load(experiment).unwrap(),
        drives: vec![DriveFile::load(drive).unwrap()],
        workloads: workloads.iter().map(|w| w.to_string()).collect(),
        configs: configs.iter().map(|c| Config::parse(c).unwrap()).collect(),
        reps: 1,
        seed: 1,
        options: Options::default(),
        command: String::new(),
    };
    grid.run(&hoistway_lab::world::Sim, 1, &AtomicBool::new(false), &|_| {}).unwrap()
}

fn value(run: &Run, config: &str, workload: &str, metric: &str, published: bool) -> Option<f64> {
    let of = run.metrics.iter().find(|m| {
        (&*m.config, &*m.workload, &*m.metric) == (config, workload, metric)
            && m.rep.is_none()
            && (m.source != "sim") == published
    });
    of.and_then(|m| m.value)
}

/// The promise: noop and deadline within 25 % of the published table.
#[test]
fn the_uncontrolled_rows_of_throughput_ssd_2012_are_near_the_published_ones() {
    let (configs, workloads) = (["noop", "deadline"], ["10r-rawseq", "10r-rawrand"]);
    let run = run("throughput-ssd-2012", "intel-320-160g", &configs, &workloads);
    for config in configs {
        for workload in workloads {
            let of = |published| value(&run, config, workload, "throughput_total", published);
            let (ours, theirs) = (of(false).unwrap(), of(true).expect("a published row"));
            println!("{config} {workload}: {ours:.0} MB/s, published {theirs:.0}");
            assert!((ours / theirs - 1.0).abs() <= 0.25, "{config} {workload}: {ours} {theirs}");
            let jain = value(&run, config, workload, "jain_interferers", false).unwrap();
            assert!(jain > 0.99, "{config} {workload}: shares {jain}");
        }
    }
    assert!(
        value(&run, "noop", "10r-rawseq", "latency_avg", false).is_none(),
        "nobody is the target"
    );
}

/// The device is the sum of what is read ahead for the processes, and the series adds up to it.
#[test]
fn device_and_processes_agree_where_nothing_is_written() {
    let run = run("throughput-2010", "maxtor-7l250s0", &["cfq", "sio"], &["10r-seq", "10r-rand"]);
    for cell in &run.cells {
        let rep = &cell.reps[0];
        let read: u64 = rep.procs.iter().map(|p| p.bytes).sum();
        // Windows of 256 KiB, at most three per process, are read ahead at either end.
        let slack = rep.procs.len() as u64 * 3 * 256 * 1024;
        assert!(read.abs_diff(rep.device.read_bytes) <= slack, "{} {}", cell.config, cell.workload);
        assert_eq!(rep.device.written_bytes, 0);
        let series: u64 = rep.device.intervals.iter().map(|i| i.bytes).sum();
        assert_eq!(series, rep.device.read_bytes);
        assert_eq!(rep.device.intervals.len(), 5, "10 s in samples of 2 s");
    }
}
