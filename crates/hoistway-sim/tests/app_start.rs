//! Application start-up over the whole path (specs/experiments.md 6): marks, processes, the idle times
//! beside the traced ones, and start-up under BFQ against sequential readers. Run with `--nocapture` to
//! see the figures.

use hoistway::{IoPrio, Nanos, Profile, sched};
use hoistway_run::{ControlSpec, Mark, Outcome, ProcSpec, Role, SchedulerSpec, TraceMode, Window};
use hoistway_sim::drive::DriveFile;
use hoistway_sim::host::HostConfig;
use hoistway_sim::world::Job;
use hoistway_sim::world::run;
use std::borrow::Cow;

const INTEL: &str = "intel-320-160g";
const MAXTOR: &str = "maxtor-stm3320613as";

/// One run: an application that starts beside sequential readers.
#[derive(Clone, Copy, Debug)]
struct Setting<'a> {
    drive: &'a str,
    scheduler: &'a str,
    app: &'a str,
    form: &'a str,
    starts: i64,
    readers: u64,
    settle: Nanos,
    limit: &'a str,
    seed: u64,
}

const IDLE: Setting<'_> = Setting {
    drive: INTEL,
    scheduler: "noop",
    app: "xterm",
    form: "synthetic",
    starts: 1,
    readers: 0,
    settle: Nanos::ZERO,
    limit: "60 s",
    seed: 1,
};

impl Setting<'_> {
    fn run(&self) -> Outcome {
        let drive = DriveFile::load(self.drive).unwrap();
        let mut host = HostConfig::profile("2012").unwrap();
        let profile = match sched::find(self.scheduler).unwrap().profile {
            Profile::Legacy => "legacy",
            Profile::MultiQueue => "multi-queue",
        };
        host.set("block_profile", &profile.into()).unwrap();
        let mut params = toml::Table::new();
        params.insert("profile".into(), self.app.into());
        params.insert("form".into(), self.form.into());
        params.insert("limit".into(), self.limit.into());
        params.insert("starts".into(), self.starts.into());
        let target = ProcSpec {
            name: "target".into(),
            role: Role::Target,
            group: None,
            prio: IoPrio::NONE,
            start: self.settle,
            load: "app_start".into(),
            params,
        };
        let reader = |i| ProcSpec {
            name: format!("reader{i}"),
            role: Role::Interferer,
            start: Nanos::us(3) * i,
            load: "reader".into(),
            params: toml::Table::new(),
            ..target.clone()
        };
        let mut procs = vec![target.clone()];
        procs.extend((0..self.readers).map(reader));
        let job = Job {
            drive: Cow::Borrowed(&drive),
            host,
            scheduler: SchedulerSpec {
                entry: sched::find(self.scheduler).expect("it is registered"),
                set: vec![],
                queue: vec![],
            },
            groups: vec![],
            control: ControlSpec::default(),
            procs,
            window: Window {
                ramp: Nanos::ZERO,
                measured: Nanos::secs(200),
                grace: Nanos::secs(60),
                target_interval: Nanos::ms(500),
                device_interval: Nanos::secs(1),
            },
            seed: self.seed,
            trace: TraceMode::Off,
        };
        run(&job, &mut |_| true).unwrap()
    }

    /// Start-up times in seconds; all must have finished.
    fn times(&self) -> Vec<f64> {
        let outcome = self.run();
        let times: Vec<f64> = outcome.marks.chunks(2).map(|pair| seconds(pair, self)).collect();
        assert_eq!(times.len() as i64, self.starts, "{self:?}");
        times
    }

    /// Mean over seeds 1 to `seeds` and all starts.
    fn mean(&self, seeds: u64) -> f64 {
        let all: Vec<f64> =
            (1..=seeds).flat_map(|seed| Setting { seed, ..*self }.times()).collect();
        all.iter().sum::<f64>() / all.len() as f64
    }
}

#[track_caller]
fn seconds(pair: &[Mark], of: &Setting<'_>) -> f64 {
    let [start, done] = pair else { panic!("{of:?}: a start without an end") };
    assert_eq!((start.text.as_str(), done.text.as_str()), ("start", "done"), "{of:?}");
    (done.at - start.at).0 as f64 / 1e9
}

/// The traced times are those of other drives and machines; a model of the kind must come within 30 % of
/// them (specs/experiments.md 6.2). As generated only `lowriter` does: the mixture of think times gives
/// every hundredth read a pause of 60 ms in the mean, while the traces have pauses above 50 ms of 0.70 s
/// (xterm), none (gnome-terminal) and 1.63 s (lowriter). With the traces' own pauses in the place of the
/// mixture's all three do.
#[test]
fn idle_starts_take_as_long_as_the_traced_ones_but_for_the_pauses() {
    for (app, drive, reads, cpu, pauses, traced) in [
        ("xterm", MAXTOR, 164.0, 1.0, 0.70, 2.44),
        ("gnome-terminal", INTEL, 788.0, 1.0, 0.0, 0.51),
        ("lowriter", MAXTOR, 606.0, 3.0, 1.63, 6.88),
    ] {
        let mean = Setting { app, drive, ..IDLE }.mean(10);
        let exchanged = mean - f64::round(reads / 100.0) * 0.060 * cpu + pauses;
        let off = |t: f64| t / traced - 1.0;
        println!(
            "{app} on {drive}: {mean:.2} s idle ({:+.0} % of the traced {traced} s), {exchanged:.2} s \
             with its pauses ({:+.0} %)",
            100.0 * off(mean),
            100.0 * off(exchanged)
        );
        assert!(off(exchanged).abs() <= 0.30, "{app}: {exchanged} s");
        assert!(app != "lowriter" || off(mean).abs() <= 0.30, "{app}: {mean} s");
    }
}

#[test]
fn assumed_profiles_take_the_time_they_are_calibrated_to() {
    for (app, from, to) in [("bash", 0.1, 0.2), ("konsole", 1.8, 2.2)] {
        let mean = Setting { app, drive: MAXTOR, ..IDLE }.mean(10);
        println!("{app} on {MAXTOR}: {mean:.2} s idle");
        assert!((from..=to).contains(&mean), "{app}: {mean} s");
    }
}

#[test]
fn every_start_has_processes_of_its_own_and_measuring_ends_with_the_last() {
    let setting = Setting { starts: 3, ..IDLE };
    let outcome = setting.run();
    let texts: Vec<&str> = outcome.marks.iter().map(|m| m.text.as_str()).collect();
    assert_eq!(texts, ["start", "done"].repeat(3));
    let names: Vec<&str> = outcome.made.iter().map(|(_, name)| name.as_str()).collect();
    let expected = ["target/xterm", "target/x-server", "target/xterm#2", "target/xterm#3"];
    assert_eq!(names, expected, "the server stays");
    let times: Vec<f64> = outcome.marks.chunks(2).map(|pair| seconds(pair, &setting)).collect();
    // Pauses of 4 s and 0.2 s before each start, and 2 s after a short one.
    let expected: f64 = times.iter().map(|t| t + 6.2).sum();
    assert!((outcome.measured.0 as f64 / 1e9 - expected).abs() < 1e-6, "{outcome:?}");
    // Caches are cold: the device reads the same again.
    let moved: Vec<u64> = outcome.marks.chunks(2).map(|p| p[1].moved - p[0].moved).collect();
    assert!(moved.iter().all(|m| m.abs_diff(moved[0]) < 200_000), "{moved:?}");
    assert_eq!(outcome.procs[0].bytes / 3, moved[0]);
}

#[test]
fn a_start_beyond_the_limit_is_killed_and_the_others_are_left_out() {
    let setting = Setting { drive: MAXTOR, limit: "500 ms", starts: 3, ..IDLE };
    let outcome = setting.run();
    let texts: Vec<&str> = outcome.marks.iter().map(|m| m.text.as_str()).collect();
    assert_eq!(texts, ["start", "unfinished after 500000000ns"]);
    let took = outcome.marks[1].at - outcome.marks[0].at;
    assert!((500..600).contains(&(took.0 / 1_000_000)), "{took:?}");
}

/// Under BFQ with `low_latency`, its default, an application starts against ten sequential readers within
/// twice the time it takes on the idle drive: every replayed start on average, and the first synthetic
/// one. A second one, whose server shares the queue of the application that has exited, may take longer
/// (docs/results/startup.md).
#[test]
fn on_the_ssd_bfq_starts_applications_within_twice_the_idle_time() {
    for (form, starts) in [("synthetic", 1), ("replay", 2)] {
        for app in ["xterm", "gnome-terminal", "lowriter"] {
            let idle = Setting { app, form, starts, scheduler: "bfq", ..IDLE };
            let loaded = Setting { readers: 10, settle: Nanos::secs(29), ..idle };
            let (alone, beside) = (idle.mean(3), loaded.mean(3));
            println!("{form} {app}: {alone:.3} s idle, {beside:.3} s against 10 readers");
            assert!(beside <= 2.0 * alone, "{form} {app}: {alone} s idle, {beside} s loaded");
        }
    }
}
