//! `latency-2019` without I/O control over the whole path: loads, page cache, block layer with `none`,
//! drive model. The drive files are used as they are.
//!
//! Held here: the six published averages within 25 % (data/published.csv), the prototype's
//! figures of specs/drives.md 8 within the 10 or 15 % of its section 8.2, and the sensitivity table of
//! section 8.1 within 25 %. Run with `--nocapture` to see the figures.
//!
//! The rows of 8.1 with a smaller queue depth are held by `hdd_figures` against the drive alone: with
//! fewer tags than requests they depend on who is given a free tag. The prototype had one queue in order
//! of arrival above the drive; the block layer wakes sleepers in batches (specs/blk-mq-and-noop.md 6), a
//! process that sleeps for a tag has one request in that queue instead of two, and a flush holds the tag
//! it waits with, so that with one tag no two writers share a flush.

use hoistway::sched;
use hoistway::{IoPrio, Nanos};
use hoistway_run::{ControlSpec, ProcSpec, Role, SchedulerSpec, TraceMode, Window};
use hoistway_sim::drive::DriveFile;
use hoistway_sim::host::HostConfig;
use hoistway_sim::world::{Job, run};
use std::borrow::Cow;

const HITACHI: &str = "hitachi-hts727550a9e364";
const PLEXTOR: &str = "plextor-px-256m5s";
const SAMSUNG: &str = "samsung-970-pro";

/// One cell of a table: a target beside interferers of one kind.
#[derive(Clone, Copy, Debug)]
struct Cell {
    drive: &'static str,
    load: &'static str,
    interferers: u64,
    read_ahead_kib: i64,
    measured: Nanos,
    seeds: u64,
}

/// As in specs/drives.md 8: ten layouts on the disk, over 60 s if few reads end in a second.
fn cell(drive: &'static str, load: &'static str) -> Cell {
    let (measured, seeds) = match (drive, load) {
        (HITACHI, "reader") => (Nanos::secs(60), 10),
        (HITACHI, _) => (Nanos::secs(10), 10),
        _ => (Nanos::secs(2), 3),
    };
    Cell { drive, load, interferers: 15, read_ahead_kib: 128, measured, seeds }
}

impl Cell {
    /// Mean latency of the target in one run, in ms.
    fn run(&self, drive: &DriveFile, seed: u64) -> f64 {
        let mut host = HostConfig::profile("2019").unwrap();
        host.set("read_ahead_kb", &self.read_ahead_kib.into()).unwrap();
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
            name: format!("{}{i}", self.load),
            role: Role::Interferer,
            start: Nanos::us(3) * i,
            load: self.load.into(),
            params: toml::Table::new(),
            ..target.clone()
        };
        let mut procs = vec![target.clone()];
        procs.extend((0..self.interferers).map(interferer));
        let job = Job {
            drive: Cow::Borrowed(drive),
            host,
            scheduler: SchedulerSpec {
                entry: sched::find("none").expect("it is registered"),
                set: vec![],
                queue: vec![],
            },
            control: ControlSpec::default(),
            groups: vec![],
            procs,
            window: Window {
                ramp: Nanos::ZERO,
                measured: self.measured,
                grace: Nanos::secs(60),
                target_interval: Nanos::ms(500),
                device_interval: Nanos::secs(1),
            },
            seed,
            trace: TraceMode::Off,
        };
        let outcome = run(&job, &mut |_| true).unwrap();
        assert_eq!(outcome.procs[0].censored, None);
        outcome.procs[0].latency.mean().expect("the target reads") / 1e6
    }

    /// Mean over the seeds of the runs' means, in ms.
    fn mean(&self) -> f64 {
        let drive = DriveFile::load(self.drive).unwrap();
        (1..=self.seeds).map(|seed| self.run(&drive, seed)).sum::<f64>() / self.seeds as f64
    }
}

#[track_caller]
fn near(what: &str, got: f64, source: &str, want: f64, tolerance: f64) {
    let off = got / want - 1.0;
    println!("{what}: {got:.3} ms, {source} {want} ms, {:+.1} %", off * 100.0);
    assert!(off.abs() <= tolerance, "{what}: {got:.3} ms is not near {want} ms ({source})");
}

#[test]
fn the_six_published_averages_come_out() {
    for (drive, load, published, prototype, tolerance) in [
        (HITACHI, "reader", 4500.0, 4760.0, 0.15),
        (HITACHI, "writer", 56.0, 46.8, 0.15),
        (PLEXTOR, "reader", 39.0, 41.0, 0.10),
        (PLEXTOR, "writer", 3.0, 2.84, 0.10),
        (SAMSUNG, "reader", 2.0, 2.09, 0.10),
        (SAMSUNG, "writer", 3.0, 2.77, 0.10),
    ] {
        let mean = cell(drive, load).mean();
        let what = format!("{drive}, 15 {load}s");
        near(&what, mean, "published", published, 0.25);
        near(&what, mean, "prototype", prototype, tolerance);
    }
}

#[test]
fn windows_and_interferers_matter_as_in_the_prototype() {
    for (drive, row) in [
        (HITACHI, [4900.0, 3600.0, 650.0]),
        (PLEXTOR, [39.0, 11.0, 2.6]),
        (SAMSUNG, [1.05, 0.45, 0.10]),
    ] {
        let base = cell(drive, "reader");
        for (what, cell, want) in [
            ("windows of 128 KiB", Cell { read_ahead_kib: 64, ..base }, row[0]),
            ("4 readers", Cell { interferers: 4, ..base }, row[1]),
            ("1 reader", Cell { interferers: 1, ..base }, row[2]),
        ] {
            near(&format!("{drive}, {what}"), cell.mean(), "prototype", want, 0.25);
        }
    }
    for (interferers, want) in [(1, 12.9), (4, 19.7)] {
        let cell = Cell { interferers, ..cell(HITACHI, "writer") };
        let what = format!("{HITACHI}, {interferers} writers");
        near(&what, cell.mean(), "prototype", want, 0.25);
    }
}
