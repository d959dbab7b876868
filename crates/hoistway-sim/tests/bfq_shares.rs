//! What bfq promises over the whole path: loads, page cache, block layer, scheduler, drive model. Run with
//! `--nocapture` to see the figures; `docs/results/bfq.md` quotes them.

use hoistway::sched;
use hoistway::{IoPrio, Nanos};
use hoistway_run::{
    ControlSpec, GroupSpec, JobError, Outcome, ProcRecord, ProcSpec, Role, SchedulerSpec,
    TraceMode, Window,
};
use hoistway_sim::drive::DriveFile;
use hoistway_sim::host::HostConfig;
use hoistway_sim::world::Job;
use hoistway_sim::world::run;
use std::borrow::Cow;

const HITACHI: &str = "hitachi-hts727550a9e364";
const PLEXTOR: &str = "plextor-px-256m5s";

/// Sequential readers that start 0.7 s apart: none shares a queue with another as bfq's stable merge
/// (queues created within 180 ms) would have it. All start before measuring begins.
fn readers(n: u64) -> Vec<ProcSpec> {
    let reader = |i| ProcSpec {
        name: format!("reader{i}"),
        role: Role::Target,
        group: None,
        prio: IoPrio::NONE,
        start: Nanos::ms(700) * i,
        load: "reader".into(),
        params: toml::Table::new(),
    };
    (0..n).map(reader).collect()
}

fn job<'a>(drive: &'a DriveFile, scheduler: &str, procs: Vec<ProcSpec>, secs: u64) -> Job<'a> {
    let set = if scheduler == "bfq" { vec![("low_latency".into(), 0)] } else { vec![] };
    Job {
        drive: Cow::Borrowed(drive),
        host: HostConfig::profile("2019").unwrap(),
        scheduler: SchedulerSpec {
            entry: sched::find(scheduler).expect("it is registered"),
            set,
            queue: vec![],
        },
        control: ControlSpec::default(),
        groups: vec![],
        procs,
        window: Window {
            ramp: Nanos::secs(30),
            measured: Nanos::secs(secs),
            grace: Nanos::secs(60),
            target_interval: Nanos::ms(500),
            device_interval: Nanos::secs(1),
        },
        seed: 1,
        trace: TraceMode::Off,
    }
}

fn total(outcome: &Outcome) -> f64 {
    outcome.procs.iter().map(|p| p.bytes as f64).sum()
}

/// The largest distance of a process's share from the one its weight promises, as a part of the latter.
fn unfairness(outcome: &Outcome, weights: &[f64]) -> f64 {
    let sum: f64 = weights.iter().sum();
    let all = total(outcome);
    let off = |(p, w): (&ProcRecord, &f64)| (p.bytes as f64 / all / (w / sum) - 1.0).abs();
    outcome.procs.iter().zip(weights).map(off).fold(0.0, f64::max)
}

fn mb_per_s(outcome: &Outcome) -> f64 {
    total(outcome) / outcome.measured.0 as f64 * 1e3
}

fn outcome(job: &Job<'_>) -> Outcome {
    run(job, &mut |_| true).unwrap()
}

/// Sequential rate of the drive where the readers' files lie: each reader alone for 10 s, the mean.
fn rate_alone(drive: &DriveFile, n: u64) -> f64 {
    let alone = |only: usize| {
        let mut job = job(drive, "none", readers(n), 10);
        job.window.ramp = Nanos::secs(1);
        let others = job.procs.iter_mut().enumerate().filter(|&(i, _)| i != only);
        // Their files are laid out all the same; they never start.
        others.for_each(|(_, p)| p.start = Nanos::secs(1000));
        mb_per_s(&outcome(&job))
    };
    (0..n as usize).map(alone).sum::<f64>() / n as f64
}

fn fifteen(drive: &str) -> (f64, f64, f64) {
    let drive = DriveFile::load(drive).unwrap();
    let bfq = outcome(&job(&drive, "bfq", readers(15), 120));
    let none = outcome(&job(&drive, "none", readers(15), 120));
    let (off, rate, none) = (unfairness(&bfq, &[1.0; 15]), mb_per_s(&bfq), mb_per_s(&none));
    let alone = rate_alone(&drive, 15);
    println!(
        "{}, 15 readers: worst share {:.2} % off; {rate:.1} MB/s with bfq, {none:.1} with none, \
         {alone:.1} one reader alone",
        drive.name,
        100.0 * off
    );
    assert!(off <= 0.03, "the worst share is {off} off");
    (rate, none, alone)
}

#[test]
fn fifteen_readers_share_flash_equally_at_the_rate_of_none() {
    let (rate, none, _) = fifteen(PLEXTOR);
    assert!(rate >= 0.95 * none, "{rate} MB/s with bfq, {none} with none");
}

#[test]
fn fifteen_readers_share_a_disk_equally_near_its_sequential_rate() {
    let (rate, _, alone) = fifteen(HITACHI);
    assert!(rate >= 0.90 * alone, "{rate} MB/s with bfq, {alone} sequentially");
}

#[test]
fn groups_share_by_weight() {
    let drive = DriveFile::load(PLEXTOR).unwrap();
    let weights = [100, 200, 300];
    let mut job = job(&drive, "bfq", readers(3), 120);
    for (i, weight) in weights.into_iter().enumerate() {
        let set = vec![("weight".to_string(), weight)];
        job.groups.push(GroupSpec { name: format!("g{weight}"), set, ..GroupSpec::default() });
        job.procs[i].group = Some(i);
    }
    let outcome = outcome(&job);
    let off = unfairness(&outcome, &weights.map(|w| w as f64));
    println!(
        "{PLEXTOR}, groups 1:2:3: worst share {:.3} % off, {:.1} MB/s",
        100.0 * off,
        mb_per_s(&outcome)
    );
    assert!(off <= 0.03, "the worst share is {off} off");
}

#[test]
fn a_wrong_setting_of_a_group_is_refused() {
    let drive = DriveFile::load(PLEXTOR).unwrap();
    for (name, value) in [("wieght", 100), ("weight", 1001)] {
        let mut job = job(&drive, "bfq", readers(1), 1);
        job.groups.push(GroupSpec {
            name: "g".into(),
            set: vec![(name.into(), value)],
            ..GroupSpec::default()
        });
        let error = run(&job, &mut |_| true).err();
        assert!(matches!(error, Some(JobError::Tunable(_))), "{name} = {value}: {error:?}");
    }
}
