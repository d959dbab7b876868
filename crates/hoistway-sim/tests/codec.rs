//! A job as a text, on every drive: what another process of this program is told.

use hoistway::sched::SCHEDULERS;
use hoistway::{IoPrio, Nanos};
use hoistway_run::{
    ControlSpec, ControllerSpec, GroupSpec, ProcSpec, Role, SchedulerSpec, TraceMode, Window,
    decode, encode,
};
use hoistway_sim::drive::DriveFile;
use hoistway_sim::host::HostConfig;
use hoistway_sim::rng::{Rng, stream};
use hoistway_sim::world::Job;
use std::borrow::Cow;

fn settings(r: &mut Rng) -> Vec<(String, u64)> {
    (0..r.below(3)).map(|i| (format!("t{i}"), u64::MAX - r.below(1 << 40))).collect()
}

fn lines(r: &mut Rng) -> Vec<(String, String)> {
    (0..r.below(3)).map(|i| ("io.max".into(), format!("8:0 rbps={i}\n"))).collect()
}

fn group(r: &mut Rng, i: u64) -> GroupSpec {
    GroupSpec {
        name: format!("g{i}"),
        parent: (i > 0 && r.below(2) == 0).then_some(0),
        set: settings(r),
        write: lines(r),
    }
}

fn proc(r: &mut Rng, i: u64) -> ProcSpec {
    let prios = [IoPrio::NONE, IoPrio::rt(4), IoPrio::be(7), IoPrio::idle()];
    ProcSpec {
        name: format!("p{i} \"x\""),
        role: if i == 0 { Role::Target } else { Role::Interferer },
        group: (r.below(2) == 0).then_some(0),
        prio: r.one_of(&prios),
        start: Nanos(r.below(1 << 40)),
        load: "reader".into(),
        params: format!("bs = \"4k\"\nwhole = 1.0\nranges = [1, 2.5]\nshare = {}", r.unit())
            .parse()
            .unwrap(),
    }
}

fn random_job(drive: &DriveFile, seed: u64) -> Job<'_> {
    let mut random = stream(seed, "job");
    let r = &mut random;
    let profiles: Vec<&str> = HostConfig::profiles().collect();
    let mut host = HostConfig::profile(r.one_of(&profiles)).unwrap();
    host.set("layout_gap_kib", &toml::Value::Integer(r.below(5000) as i64)).unwrap();
    let mut time = || Nanos(1 + r.below(1 << 40));
    let [ramp, measured, grace, target_interval, device_interval] = std::array::from_fn(|_| time());
    Job {
        drive: Cow::Borrowed(drive),
        host,
        scheduler: SchedulerSpec {
            entry: r.one_of(SCHEDULERS),
            set: settings(r),
            queue: settings(r),
        },
        control: ControlSpec {
            controllers: vec![ControllerSpec { name: "wbt".into(), set: settings(r) }],
            root: lines(r),
            monitor: (r.below(2) == 0).then_some(Nanos(r.below(1 << 40))),
        },
        groups: (0..r.below(3)).map(|i| group(r, i)).collect(),
        procs: (0..r.below(4)).map(|i| proc(r, i)).collect(),
        window: Window { ramp, measured, grace, target_interval, device_interval },
        seed: u64::MAX - r.below(1 << 62),
        trace: TraceMode::Off,
    }
}

#[test]
fn random_jobs_on_every_drive_are_read_back_exactly() {
    for (seed, id) in DriveFile::ids().into_iter().enumerate() {
        let drive = DriveFile::load(id).unwrap();
        let job = random_job(&drive, seed as u64);
        let text = encode(&job);
        let read: Job<'static> = decode(&text).unwrap();
        assert!(format!("{read:?}") == format!("{job:?}"), "{id}");
        assert!(encode(&read) == text, "{id}");
    }
}

#[test]
fn what_is_no_job_is_refused() {
    let drive = DriveFile::load(DriveFile::ids()[0]).unwrap();
    let text = encode(&random_job(&drive, 1));
    let name = random_job(&drive, 1).scheduler.entry.name;
    for (from, to) in [(format!("\"{name}\""), "\"of my own\""), ("\"prio\":".into(), "\"prio\":9")]
    {
        let wrong = text.replace(&from, to);
        assert!(wrong == text || decode::<Job<'static>>(&wrong).is_err(), "{from}");
    }
    assert!(decode::<Job<'static>>("{\"seed\":1}").unwrap_err().to_string().contains("drive"));
}
