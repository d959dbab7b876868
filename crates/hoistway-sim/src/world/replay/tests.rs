//! Replays of the simulator's own runs, and the rules of the two loops on small recordings.

use super::*;
use crate::drive::DriveFile;
use crate::host::HostConfig;
use crate::world::run_recorded;
use hoistway::{Profile, sched};
use hoistway_run::{ControlSpec, ControllerSpec, GroupSpec, SchedulerSpec, TraceMode, Window};
use std::borrow::Cow;

/// An event of the drive: whether it is a completion, when, of what.
type Event = (bool, u64, Op, u64, u64);

/// The steps of a run, as a recording, and what the drive saw.
#[derive(Debug, Default)]
struct Tape {
    groups: usize,
    members: Vec<Member>,
    steps: VecDeque<Arrival>,
    drive: Vec<Event>,
    plugs: usize,
}

impl Recorder for Tape {
    fn step(&mut self, now: Instant, step: Step<'_>) {
        let deed =
            |proc: ProcId, deed| Arrival { at: now, proc: proc.0, deed, ..Arrival::default() };
        match step {
            Step::Group { .. } => self.groups += 1,
            Step::Proc { group, prio, role, name, .. } => self.members.push(Member {
                name: name.into(),
                group: group.index().checked_sub(1),
                prio,
                counted: role.is_some(),
            }),
            Step::Plug(p) => {
                self.plugs += 1;
                self.steps.push_back(deed(p, Deed::Plug));
            }
            Step::Unplug(p) => self.steps.push_back(deed(p, Deed::Unplug)),
            Step::Sleep(p) => self.steps.push_back(deed(p, Deed::Sleep)),
            Step::Exit(p) => self.steps.push_back(deed(p, Deed::Exit)),
            Step::DirtySlept(p) => self.steps.push_back(deed(p, Deed::DirtySlept)),
            Step::Submit(io) => self.steps.push_back(Arrival {
                op: io.op,
                flags: io.flags,
                prio: io.prio,
                group: Some(io.group),
                cpu: Some(io.cpu),
                segments: io.segments,
                start: io.start.0,
                sectors: io.sectors.0,
                ..deed(io.proc, Deed::Submit)
            }),
            Step::Issue { command: c, .. } => {
                self.drive.push((false, now.as_nanos(), c.op, c.start, c.len));
            }
            Step::Done { command: c, .. } => {
                self.drive.push((true, now.as_nanos(), c.op, c.start, c.len));
            }
        }
    }
}

impl Feed for Tape {
    fn next(&mut self) -> Result<Option<Arrival>, JobError> {
        Ok(self.steps.pop_front())
    }

    fn introduce(&mut self, number: u32) -> Member {
        self.members[number as usize].clone()
    }

    fn progress(&self) -> u64 {
        0
    }

    fn at_once(&self) -> u32 {
        self.members.len() as u32
    }
}

const SSD: &str = "samsung-970-pro";
const DISK: &str = "hitachi-hts727550a9e364";

/// A load of the simulator: its processes as load and parameters.
struct Case {
    drive: &'static str,
    host: &'static str,
    scheduler: &'static str,
    controller: Option<&'static str>,
    groups: usize,
    loads: &'static [(&'static str, &'static str)],
}

fn job<'a>(case: &Case, drive: &'a DriveFile) -> Job<'a> {
    let entry = sched::find(case.scheduler).unwrap();
    let mut host = HostConfig::profile(case.host).unwrap();
    let profile = if entry.profile == Profile::Legacy { "legacy" } else { "multi-queue" };
    host.set("block_profile", &profile.into()).unwrap();
    let procs = case.loads.iter().enumerate().map(|(i, (load, params))| ProcSpec {
        name: format!("{load}{i}"),
        role: if i == 0 { Role::Target } else { Role::Interferer },
        group: (case.groups > 0).then(|| i % case.groups),
        prio: if i == 0 { IoPrio::be(2) } else { IoPrio::NONE },
        start: Nanos::us(3) * i as u64,
        load: load.to_string(),
        params: params.parse().unwrap(),
    });
    let controllers = case.controller.iter();
    Job {
        drive: Cow::Borrowed(drive),
        host,
        scheduler: SchedulerSpec { entry, set: Vec::new(), queue: Vec::new() },
        control: ControlSpec {
            controllers: controllers
                .map(|name| ControllerSpec { name: name.to_string(), set: Vec::new() })
                .collect(),
            root: Vec::new(),
            monitor: None,
        },
        groups: (0..case.groups)
            .map(|i| GroupSpec { name: format!("g{i}"), ..GroupSpec::default() })
            .collect(),
        procs: procs.collect(),
        window: Window {
            ramp: Nanos::ZERO,
            measured: Nanos::secs(2),
            grace: Nanos::secs(60),
            target_interval: Nanos::ms(500),
            device_interval: Nanos::secs(1),
        },
        seed: 7,
        trace: TraceMode::Off,
    }
}

const OPEN: Options = Options { pace: Pace::Open, backlog: 1 << 20, delays: true };

const RANDOM: (&str, &str) = ("reader", "pattern = \"rand\"");
const STREAM: (&str, &str) = ("reader", "");
const SYNCING: (&str, &str) = ("writer", "dsync = 3");
const LAZY: (&str, &str) = ("writer", "dsync = 0");
const APP: (&str, &str) = (
    "app_start",
    "profile = \"gnome-terminal\"\nform = \"synthetic\"\nstarts = 3\npause = \"50ms\"",
);

const MIXED: &[(&str, &str)] = &[RANDOM, STREAM, STREAM, SYNCING, LAZY, LAZY, RANDOM, APP];
const MANY: &[(&str, &str)] = &[RANDOM; 48];

#[test]
fn a_recording_of_a_run_replayed_makes_the_same_timeline_to_the_nanosecond() {
    let case = |drive, host, scheduler, loads| Case {
        drive,
        host,
        scheduler,
        controller: None,
        groups: 0,
        loads,
    };
    let cases = [
        case(SSD, "2019", "none", MIXED),
        case(SSD, "2019", "mq-deadline", MIXED),
        case(SSD, "2019", "kyber", MIXED),
        case(SSD, "2019", "bfq", MIXED),
        case(DISK, "2018", "none", MANY),
        case(DISK, "2018", "mq-deadline", MIXED),
        case(DISK, "2018", "bfq", MIXED),
        case(DISK, "2018", "kyber", MANY),
        case(DISK, "2009", "cfq", MIXED),
        case(DISK, "2010", "deadline", MANY),
        case(DISK, "2009", "noop", MIXED),
        Case { groups: 3, ..case(DISK, "2019", "bfq", MIXED) },
        Case { groups: 2, controller: Some("wbt"), ..case(SSD, "2019", "none", MIXED) },
        Case { groups: 2, controller: Some("io.cost"), ..case(SSD, "2019", "none", MIXED) },
    ];
    let mut waited = 0;
    for c in cases {
        let what = format!("{} {} {:?} {}", c.drive, c.scheduler, c.controller, c.groups);
        let drive = DriveFile::load(c.drive).unwrap();
        let job = job(&c, &drive);
        let mut tape = Tape::default();
        let run = run_recorded(&job, &mut |_| true, &mut tape).unwrap();
        tape.steps.push_back(Arrival { at: run.end, deed: Deed::End, ..Arrival::default() });
        assert!(tape.drive.len() > 500, "{what}: {} events of the drive", tape.drive.len());
        // The legacy layer plugs the device, not the task.
        let tasks = sched::find(c.scheduler).unwrap().profile == Profile::MultiQueue;
        assert!(tape.plugs > 0 || !tasks || c.loads.len() > 8, "{what}: plugged submissions");
        assert_eq!(tape.groups, c.groups);
        let original = std::mem::take(&mut tape.drive);
        let mut again = Tape::default();
        let options = Options { delays: false, ..OPEN };
        let (outcome, ended) = replay(&job, options, &mut tape, &mut again, &mut |_| true).unwrap();
        waited += ended.backlog_max;
        // The run ended with I/Os under way, which the replay lets end.
        assert!(again.drive.len() >= original.len(), "{what}");
        for (i, (a, b)) in original.iter().zip(&again.drive).enumerate() {
            assert_eq!(a, b, "{what}: event {i} of {}", original.len());
        }
        assert_eq!(outcome.procs.len(), 1 + c.loads.len());
        assert!(!ended.stopped);
    }
    assert_eq!(waited, 0, "nobody is told to do anything before it may");
}

/// A recording written down: time in us, process, first sector, sectors.
#[derive(Debug, Default)]
struct Listed(VecDeque<Arrival>);

impl Feed for Listed {
    fn next(&mut self) -> Result<Option<Arrival>, JobError> {
        Ok(self.0.pop_front())
    }

    fn introduce(&mut self, number: u32) -> Member {
        Member { name: format!("p{number}"), group: None, prio: IoPrio::NONE, counted: true }
    }

    fn progress(&self) -> u64 {
        0
    }
}

fn read(us: u64, proc: u32, start: u64) -> Arrival {
    let at = Instant::from_nanos(us * 1000);
    Arrival { at, proc, start, sectors: 8, ..Arrival::default() }
}

/// When submitted, by sector.
#[derive(Debug, Default)]
struct Submissions(Vec<(u64, u64)>);

impl Recorder for Submissions {
    fn step(&mut self, now: Instant, step: Step<'_>) {
        if let Step::Submit(io) = step {
            self.0.push((now.as_nanos(), io.start.0));
        }
    }
}

fn play(
    scheduler: &'static str,
    options: Options,
    list: Vec<Arrival>,
) -> (Outcome, Ended, Vec<(u64, u64)>) {
    let drive = DriveFile::load(DISK).unwrap();
    let case =
        Case { drive: DISK, host: "2019", scheduler, controller: None, groups: 0, loads: &[] };
    let mut said = Submissions::default();
    let mut feed = Listed(list.into());
    let (outcome, ended) =
        replay(&job(&case, &drive), options, &mut feed, &mut said, &mut |_| true).unwrap();
    (outcome, ended, said.0)
}

/// Reads all over the disk, so many a second.
fn scattered(n: u64, per_s: u64) -> Vec<Arrival> {
    (0..n).map(|i| read(i * 1_000_000 / per_s, 0, i * 7_919_993 % (1 << 29) / 8 * 8)).collect()
}

#[test]
fn open_loop_submits_at_the_recorded_times_and_counts_latency_from_them() {
    let (outcome, ended, said) = play("none", OPEN, scattered(200, 20));
    let times: Vec<u64> = said.iter().map(|s| s.0 / 1_000_000).collect();
    assert_eq!(times, (0..200).map(|i| i * 50).collect::<Vec<_>>());
    assert_eq!((ended.submitted, outcome.procs[0].ios, ended.stopped), (200, 200, false));
    let all = &outcome.procs[0];
    assert_eq!((all.name.as_str(), all.role, all.bytes), (ALL, Role::Target, 200 * 4096));
    assert_eq!(all.latency, outcome.procs[1].latency);
    // Half a turn of this disk takes 5.6 ms; a seek comes before it.
    let mean = all.latency.mean().unwrap() / 1e6;
    assert!((6.0..25.0).contains(&mean), "{mean} ms");
}

#[test]
fn a_load_beyond_the_drive_stops_at_the_bound_and_says_so() {
    let options = Options { backlog: 500, ..OPEN };
    let (outcome, ended, _) = play("none", options, scattered(20_000, 2000));
    assert!(ended.stopped && ended.backlog > 500 && ended.submitted < 20_000, "{ended:?}");
    let figure = |name: &str| outcome.host_figures.iter().find(|f| f.name == name).unwrap().value;
    assert_eq!(figure("replay.stopped"), 1);
    assert_eq!(figure("replay.backlog_at_end"), ended.backlog as i64);
    // Without the bound all of them are served, late.
    let (outcome, ended, _) = play("none", OPEN, scattered(2_000, 2000));
    assert_eq!((outcome.procs[0].ios, ended.stopped), (2000, false));
    assert!(ended.end > ended.last + Nanos::secs(5) && ended.backlog > 1500, "{ended:?}");
}

#[test]
fn in_closed_loop_an_io_follows_what_it_had_waited_for() {
    let options = Options { pace: Pace::Closed { depth: None }, ..OPEN };
    // The recording's drive took 1 ms; each read came 2 ms after the end of the one before.
    let mut follow = Follow::default();
    let list = (0..50u64).map(|i| {
        let at = i * 3_000_000;
        let (after, think, _) = follow.submit(at, Some(at + 1_000_000));
        Arrival {
            after,
            think: Nanos(think),
            ..read(i * 3000, 0, i * 7_919_993 % (1 << 29) / 8 * 8)
        }
    });
    let (outcome, ended, said) = play("none", options, list.collect());
    assert_eq!(said.len(), 50);
    let mean = outcome.procs[0].latency.mean().unwrap();
    let whole = (ended.end.as_nanos()) as f64;
    // 50 services and 49 think times, and nothing else.
    assert!((whole - (50.0 * mean + 49.0 * 2e6)).abs() < 1e3, "{whole} {mean}");
}

#[test]
fn without_ends_no_more_than_the_depth_are_under_way() {
    for depth in [1, 4] {
        let options = Options { pace: Pace::Closed { depth: Some(depth) }, ..OPEN };
        let list: Vec<Arrival> = scattered(400, 100_000)
            .into_iter()
            .map(|a| Arrival { think: Nanos::us(10), ..a })
            .collect();
        let (outcome, ended, _) = play("none", options, list);
        assert_eq!((ended.submitted, ended.stopped), (400, false));
        let depth_seen = outcome.device.depth;
        assert!((depth_seen / f64::from(depth) - 1.0).abs() < 0.05, "{depth_seen} of {depth}");
    }
}

#[test]
fn what_an_io_follows_is_the_one_that_ended_last_before_it() {
    let mut follow = Follow::default();
    // A batch of three: nothing has ended before.
    assert_eq!(follow.submit(0, Some(100)), (0, 0, 0));
    assert_eq!(follow.submit(10, Some(50)), (0, 10, 1));
    assert_eq!(follow.submit(20, None), (0, 10, 2));
    // The second ended last so far, then the first.
    assert_eq!(follow.submit(60, Some(90)), (2, 10, 3));
    assert_eq!(follow.submit(120, Some(130)), (4, 20, 4));
    follow.ended(2, 125);
    assert_eq!(follow.submit(128, None), (3, 3, 5));
}

/// A million submissions whose ends are missing, or in another century, take no more memory or time than any.
#[test]
fn ends_that_never_come_are_not_waited_for() {
    for absurd in [None, Some(u64::MAX)] {
        let mut follow = Follow::default();
        let n = 1_000_000;
        for i in 0..n {
            assert_eq!(follow.submit(i, absurd).0, 0);
        }
        assert!(format!("{follow:?}").len() < 1_000_000);
        follow.ended(n - 1, n);
        assert_eq!(follow.submit(n + 5, None), (1, 5, n));
    }
}

#[test]
fn the_legacy_layer_gets_bios_of_the_size_of_a_request() {
    let long = Arrival { sectors: 5000, ..read(0, 0, 80) };
    let (outcome, ended, said) = play("deadline", OPEN, vec![long, read(1, 0, 1 << 20)]);
    assert_eq!((ended.submitted, outcome.procs[0].ios), (2, 2));
    let starts: Vec<u64> = said.iter().map(|s| s.1).collect();
    assert_eq!(starts, [80, 80 + 1024, 80 + 2048, 80 + 3072, 80 + 4096, 1 << 20]);
    assert_eq!(outcome.procs[0].bytes, 5008 * 512);
}

#[test]
fn intervals_of_a_long_recording_grow_longer_instead_of_more() {
    let list = (0..3000).map(|i| read(i * 1_000_000, (i % 3) as u32, i * 8)).collect();
    let (outcome, ..) = play("none", OPEN, list);
    let counts = |r: &[hoistway_run::Interval]| r.iter().map(|i| i.ios).sum::<u64>();
    let all = &outcome.procs[0].intervals;
    assert!(all.len() <= 512 && all.len() > 200, "{}", all.len());
    assert!(all.windows(2).all(|w| w[1].at.0 - w[0].at.0 == all[1].at.0));
    assert!(counts(all) >= 2990 && counts(&outcome.device.intervals) >= 2990);
    let quiet = play("none", OPEN, Vec::new()).0;
    assert_eq!((quiet.procs.len(), quiet.procs[0].ios), (1, 0));
}
