//! What a simulated process costs: bytes allocated at the peak of a run, counted by the allocator. Files
//! of processes are large and memory is what the host could cache, so the cost must be that of what a
//! process does, not of what its file could hold.

use hoistway::sched;
use hoistway::{Instant, IoPrio, Nanos};
use hoistway_run::{ControlSpec, ProcSpec, Role, SchedulerSpec, TraceMode, Window};
use hoistway_sim::drive::DriveFile;
use hoistway_sim::host::HostConfig;
use hoistway_sim::world::{Job, run};
use std::borrow::Cow;

#[path = "common/peak.rs"]
mod peak;

/// Peak of a run with `n` processes of `load`, in bytes.
fn peak_of(n: u64, scheduler: &str, load: &str, params: &str) -> usize {
    let drive = DriveFile::load("samsung-970-pro").unwrap();
    let spec = |i: u64| ProcSpec {
        name: format!("{load}{i}"),
        role: if i == 0 { Role::Target } else { Role::Interferer },
        group: None,
        prio: IoPrio::NONE,
        start: Nanos::us(3) * i,
        load: load.into(),
        params: params.parse().unwrap(),
    };
    let job = Job {
        drive: Cow::Borrowed(&drive),
        host: HostConfig::profile("2019").unwrap(),
        scheduler: SchedulerSpec {
            entry: sched::find(scheduler).expect("it is registered"),
            set: vec![],
            queue: vec![],
        },
        control: ControlSpec::default(),
        groups: vec![],
        procs: (0..n).map(spec).collect(),
        window: Window {
            ramp: Nanos::ZERO,
            measured: Nanos::ms(50),
            grace: Nanos::ZERO,
            target_interval: Nanos::ms(500),
            device_interval: Nanos::secs(1),
        },
        seed: 1,
        trace: TraceMode::Off,
    };
    peak::of(|| run(&job, &mut |_: Instant| true).unwrap()).0
}

/// The cost of one more process: what all have in common goes out. Each reads some megabytes; what a process
/// that runs for longer takes beside it is its histogram, 2 bytes per different latency.
fn per_process(scheduler: &str, load: &str, params: &str) -> usize {
    let (few, many) = (50, 200);
    let one = |n| peak_of(n, scheduler, load, params);
    (one(many) - one(few)) / (many - few) as usize
}

#[test]
fn a_process_costs_at_most_20_kb() {
    // One test alone in its binary: nobody else allocates meanwhile.
    let mut over = Vec::new();
    for scheduler in ["none", "bfq"] {
        for (load, params) in [
            ("reader", ""),
            ("writer", "dsync = 1"),
            // A new file has a bit per block: 3 KB for 100 MiB.
            ("writer", "size = \"100 MiB\"\nnew_file = true\ndsync = 0"),
            // A random order is a number per block, so that each is visited once: 4 KB here.
            ("reader", "size = \"4 MiB\"\npattern = \"rand\""),
        ] {
            let bytes = per_process(scheduler, load, params);
            let what = format!("{scheduler}, {load} {}: {bytes} B", params.replace('\n', ", "));
            println!("{what}");
            if bytes > 20_000 {
                over.push(what);
            }
        }
    }
    assert!(over.is_empty(), "{over:#?}");
}
