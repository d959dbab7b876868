//! Simulated commands per second on the whole path: loads, host, stack, drive. `latency-2019` with
//! sequential readers; the fastest of several runs, wall-clock.

use hoistway::sched;
use hoistway::{IoPrio, Nanos};
use hoistway_sim::drive::DriveFile;
use hoistway_sim::host::HostConfig;
use hoistway_sim::world::{
    ControlSpec, Job, ProcSpec, Role, SchedulerSpec, TraceMode, Window, run,
};

fn procs(load: &str) -> Vec<ProcSpec> {
    let spec = |i: u64, role, load: &str, params: &str, prio| ProcSpec {
        name: if i == 0 { "target".into() } else { format!("{load}{i}") },
        role,
        group: None,
        prio,
        start: if i == 0 { Nanos::ms(200) } else { Nanos::us(3) * (i - 1) },
        load: load.into(),
        params: params.parse().expect("the text below is valid"),
    };
    let mut all = vec![spec(0, Role::Target, "reader", "pattern = \"rand\"", IoPrio::rt(4))];
    all.extend((1..=15).map(|i| spec(i, Role::Interferer, load, "", IoPrio::NONE)));
    all
}

#[allow(clippy::disallowed_methods)] // A benchmark measures the wall clock.
fn measure(drive: &str, scheduler: &str, seconds: u64) {
    let drive = DriveFile::load(drive).expect("an embedded drive");
    let job = Job {
        drive: &drive,
        host: HostConfig::profile("2019").expect("a profile"),
        scheduler: SchedulerSpec {
            entry: sched::find(scheduler).expect("it is registered"),
            set: Vec::new(),
            queue: Vec::new(),
        },
        control: ControlSpec::default(),
        groups: Vec::new(),
        procs: procs("reader"),
        window: Window {
            ramp: Nanos::ZERO,
            measured: Nanos::secs(seconds),
            grace: Nanos::secs(60),
            target_interval: Nanos::ms(500),
            device_interval: Nanos::secs(1),
        },
        seed: 1,
        trace: TraceMode::Off,
    };
    let mut best = f64::INFINITY;
    let mut commands = 0;
    for _ in 0..5 {
        let began = std::time::Instant::now();
        let outcome = run(&job, &mut |_| true).expect("the job is sound");
        let taken = began.elapsed().as_secs_f64();
        commands = outcome.commands_total;
        best = best.min(taken);
    }
    println!(
        "{:<24} {:<12} {:>9} commands  {:>6.0} ns each  {:>9.0} commands/s",
        drive.id,
        scheduler,
        commands,
        best * 1e9 / commands as f64,
        commands as f64 / best
    );
}

fn main() {
    // Words that are no options choose among the lines: `cargo bench --bench path -- samsung none`.
    let words: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    for (drive, scheduler, seconds) in [
        ("samsung-970-pro", "none", 4),
        ("hitachi-hts727550a9e364", "none", 60),
        ("samsung-970-pro", "bfq", 4),
        ("hitachi-hts727550a9e364", "bfq", 60),
    ] {
        let exists = hoistway::sched::find(scheduler).is_some();
        if exists && words.iter().all(|w| drive.contains(w) || scheduler.contains(w)) {
            measure(drive, scheduler, seconds);
        }
    }
}
