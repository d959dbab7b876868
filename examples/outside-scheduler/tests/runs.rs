//! The scheduler runs in the simulator and on a served device by its entry alone, and its decisions are told.

use hoistway::{IoPrio, Nanos};
use hoistway_lab::explain::{Subject, story};
use hoistway_run::{ControlSpec, ProcSpec, Role, SchedulerSpec, TraceMode, Window};
use hoistway_sim::drive::DriveFile;
use hoistway_sim::host::HostConfig;
use hoistway_sim::world::{Job, run};
use outside_scheduler::ENTRY;
use std::borrow::Cow;

fn reader(name: &str, role: Role) -> ProcSpec {
    ProcSpec {
        name: name.into(),
        role,
        group: None,
        prio: IoPrio::NONE,
        start: Nanos::ZERO,
        load: "reader".into(),
        params: "pattern = \"rand\"".parse().unwrap(),
    }
}

fn job(drive: &DriveFile, quantum: u64) -> Job<'_> {
    Job {
        drive: Cow::Borrowed(drive),
        host: HostConfig::profile("today").unwrap(),
        scheduler: SchedulerSpec {
            entry: &ENTRY,
            set: vec![("quantum".into(), quantum)],
            queue: vec![],
        },
        control: ControlSpec::default(),
        groups: vec![],
        procs: vec![reader("target", Role::Target), reader("other", Role::Interferer)],
        window: Window {
            ramp: Nanos::ZERO,
            measured: Nanos::secs(2),
            grace: Nanos::secs(1),
            target_interval: Nanos::ms(500),
            device_interval: Nanos::ms(500),
        },
        seed: 1,
        trace: TraceMode::Keep(1 << 20),
    }
}

#[test]
fn it_keeps_the_contract() {
    hoistway::testkit::contract::check(&ENTRY);
}

#[test]
fn it_runs_in_the_simulator_and_is_explained() {
    let drive = DriveFile::load("hitachi-hts727550a9e364").unwrap();
    let job = job(&drive, 1);
    let outcome = run(&job, &mut |_| true).unwrap();
    assert!(outcome.procs.iter().all(|p| p.bytes > 0));
    let subject = Subject::of(&job, &[], "target").unwrap();
    let told = story(&outcome.trace, &subject, 10_000).lines;
    let has = |text: &str| told.iter().any(|line| line.contains(text));
    assert!(has("target uses queue ") || has("target has queue "), "{told:#?}");
    assert!(has("(target) turn ends: "), "{told:#?}");
    assert!(has(", after 1 request; next: other"), "{told:#?}");
}

#[test]
fn an_unknown_setting_is_refused_in_its_name() {
    let drive = DriveFile::load("hitachi-hts727550a9e364").unwrap();
    let mut job = job(&drive, 1);
    job.scheduler.set = vec![("quanta".into(), 1)];
    let error = run(&job, &mut |_| true).unwrap_err().to_string();
    assert!(error.contains("round-robin has no tunable 'quanta'"), "{error}");
}

#[test]
#[cfg(target_os = "linux")]
fn it_serves_a_device() {
    use hoistway_serve::{Device, DeviceOptions, Target};
    let options = DeviceOptions::new(&ENTRY);
    let device = Device::open(&Target::Ram { size: 1 << 20 }, &options).unwrap();
    let client = device.client(IoPrio::NONE).unwrap();
    client.write(4096, &[7; 8192]).unwrap();
    let mut read = [0; 4096];
    client.read(8192, &mut read).unwrap();
    assert_eq!(read, [7; 4096]);
    assert_eq!(device.report().unwrap().scheduler, "round-robin");
    device.close().unwrap();
}
