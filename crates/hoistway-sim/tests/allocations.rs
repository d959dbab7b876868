//! The whole path does not allocate in steady state (style.md section 3): loads, host, stack, drive and
//! what is counted. Tables and rings grow while a run warms up; then only a histogram may, when its
//! process sees a latency longer than ever before.

#[path = "../../hoistway/tests/common/counting.rs"]
mod counting;

use hoistway::sched;
use hoistway::{Instant, IoPrio, Nanos};
use hoistway_run::{ControlSpec, ProcSpec, Role, SchedulerSpec, TraceMode, Window};
use hoistway_sim::drive::DriveFile;
use hoistway_sim::host::HostConfig;
use hoistway_sim::world::{Job, run};
use std::borrow::Cow;

/// Allocations in the second half of a run, and the commands of the whole.
fn second_half(drive: &str, scheduler: &str, load: &str, params: &str, ms: u64) -> (u64, u64) {
    let drive = DriveFile::load(drive).unwrap();
    let spec = |i: u64, role, load: &str, params: &str| ProcSpec {
        name: format!("{load}{i}"),
        role,
        group: None,
        prio: IoPrio::NONE,
        start: Nanos::us(3) * i,
        load: load.into(),
        params: params.parse().unwrap(),
    };
    let mut procs = vec![spec(0, Role::Target, "reader", "pattern = \"rand\"")];
    procs.extend((1..=15).map(|i| spec(i, Role::Interferer, load, params)));
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
        procs,
        window: Window {
            ramp: Nanos::ZERO,
            measured: Nanos::ms(ms),
            grace: Nanos::ZERO,
            target_interval: Nanos::ms(500),
            device_interval: Nanos::secs(1),
        },
        seed: 1,
        trace: TraceMode::Digest,
    };
    let half = Instant::ZERO + Nanos::ms(ms / 2);
    let (mut from, mut to) = (None, 0);
    let outcome = run(&job, &mut |now| {
        to = counting::allocations();
        if now >= half && from.is_none() {
            from = Some(to);
        }
        true
    });
    (to - from.expect("the run lasts longer"), outcome.unwrap().commands_total)
}

/// 16 processes and the device have a histogram each: a list that doubles, or becomes pages, which double; most stay as
/// they are.
const GROWTH: u64 = 6 * 17;

#[test]
fn nothing_is_allocated_once_a_run_is_warm() {
    // One test alone in its binary: nobody else allocates meanwhile.
    let mut wrong = 0;
    for (drive, ms) in [
        ("samsung-970-pro", 400),
        ("plextor-px-256m5s", 1000),
        ("hitachi-hts727550a9e364", 20_000),
        ("usb-stick-32g", 60_000),
        ("cloud-gp3", 2000),
    ] {
        for scheduler in ["none", "mq-deadline", "bfq"] {
            for (load, params) in [
                ("reader", ""),
                ("reader", "direct = true"),
                ("reader", "pattern = \"rand\""),
                ("writer", ""),
                ("writer", "pattern = \"rand\"\ndirect = true"),
                ("sporadic_probe", "interval = \"5 ms\""),
            ] {
                let (allocations, commands) = second_half(drive, scheduler, load, params, ms);
                let what = format!("{drive}, {scheduler}, {load} {params}");
                println!("{what}: {allocations} allocations, {commands} commands");
                wrong += u64::from(allocations > GROWTH);
            }
        }
    }
    assert_eq!(wrong, 0, "jobs that allocate when warm");
}
