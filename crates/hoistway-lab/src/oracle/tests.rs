use super::*;

fn point(ms: impl Into<Option<f64>>, all: f64, others: f64) -> OraclePoint {
    OraclePoint { mean: ms.into().map(|ms: f64| ms * 1e6), all, others }
}

fn valve(valve: u64) -> FixedSetting {
    FixedSetting::Valve(valve, 32)
}

#[test]
fn the_best_is_the_fastest_of_those_that_keep_the_throughput() {
    let fixed = [
        (valve(8), point(0.1, 96.9, 99.0)),
        (valve(14), point(0.2, 99.0, 93.9)),
        (valve(24), point(0.4, 97.0, 94.0)),
        (valve(40), point(0.3, 99.0, 98.0)),
        (valve(64), point(0.3, 100.0, 100.0)),
        (valve(96), point(None, 100.0, 100.0)),
    ];
    let found = best(&fixed).unwrap();
    assert_eq!((found.setting, found.max), (valve(40), false), "the first of equals");
    assert_eq!(found.point, fixed[3].1);
    assert_eq!(best(&fixed[2..3]).unwrap().setting, valve(24), "the limits are good enough");
}

#[test]
fn where_none_keeps_the_throughput_the_best_has_the_most_of_it() {
    let fixed = [
        (valve(8), point(0.1, 60.0, 99.0)),
        (valve(14), point(0.9, 94.0, 90.0)),
        (valve(24), point(0.2, 94.0, 80.0)),
        (valve(40), point(None, 99.0, 10.0)),
    ];
    let found = best(&fixed).unwrap();
    assert_eq!((found.setting, found.max), (valve(14), true));
    assert_eq!(best(&fixed[3..]), None, "a target without I/O has no latency");
    assert_eq!(best(&[]), None);
}

#[test]
fn a_configuration_is_held_against_settings_with_no_less_throughput() {
    let fixed = [
        (valve(8), point(0.1, 97.5, 95.0)),
        (valve(14), point(0.2, 99.0, 97.0)),
        (valve(24), point(0.4, 100.0, 99.5)),
    ];
    // In thousandths, rounded.
    let over = |of: OraclePoint| super::over(&of, &fixed).map(|x| (x * 1e3).round() / 1e3);
    assert_eq!(over(point(0.3, 98.0, 95.5)), Some(3.0), "half a point is no difference");
    assert_eq!(over(point(0.3, 99.0, 96.0)), Some(1.5));
    assert_eq!(over(point(0.3, 98.0, 99.0)), Some(0.75), "the others count, too");
    assert_eq!(over(point(0.3, 100.0, 130.0)), Some(0.75), "none's is enough for the others");
    assert_eq!(over(point(0.3, 120.0, 99.0)), None, "nothing fixed gives as much");
    assert_eq!(over(point(None, 98.0, 95.0)), None);
}

/// A target beside hogs or readers, 20 ms of each.
fn experiment(target: &str) -> Experiment {
    let procs = "count = 8\nload = \"reader\"\nbs = \"64k\"\ndirect = true\n";
    let workload = |id: &str, pattern: &str| {
        format!(
            "[workload.{id}]\nsummary = \"{id}\"\n[[workload.{id}.procs]]\nname = \"{id}\"\n\
             pattern = \"{pattern}\"\n{procs}"
        )
    };
    let text = format!(
        "schema = 1\ntitle = \"t\"\nabout = \"a\"\njudge = \"latency\"\n\
         drives = [\"sata-qlc-1tb\"]\nconfigs = [\"none-none\"]\nworkloads = [\"hogs\"]\nreps = 1\n\
         [host]\nprofile = \"2019\"\n[window]\nramp = \"0s\"\nmeasured = \"20ms\"\ngrace = \"1s\"\n\
         target_interval = \"500ms\"\ndevice_interval = \"1s\"\n[target]\n{target}\n{}{}",
        workload("hogs", "rand"),
        workload("streams", "seq"),
    );
    Experiment::parse("small.toml", &text).unwrap_or_else(|e| panic!("{e}"))
}

fn target(load: &str, params: &str) -> ProcTemplate {
    experiment(&format!("load = \"{load}\"\n{params}")).target.unwrap()
}

#[test]
fn the_bound_is_what_is_inside_over_a_twentieth_of_the_rate() {
    let of = |load: &str, params: &str| bound(&target(load, params), 100e3, 400e6);
    // 4096 bytes at 20 MB/s; alone 0.1 ms.
    assert_eq!(of("reader", "pattern = \"rand\"").map(f64::round), Some(204_800.0));
    assert_eq!(
        of("reader", "bs = \"64k\"\ndirect = true\ndepth = 2").map(f64::round),
        Some((65536.0 * 2.0 / 20e6 * 1e9_f64).round())
    );
    assert_eq!(of("reader", "rate = 1000000"), Some(100e3), "1 MB/s of the 20 may be had at once");
    assert_eq!(of("reader", "rate = \"30MB\"").map(f64::round), Some(204_800.0));
    assert_eq!(of("sporadic_probe", "interval = \"100ms\""), None, "no closed loop");
}

#[test]
fn every_drive_has_sixteen_settings_that_the_scheduler_takes() {
    for rotational in [false, true] {
        let all = settings::of(rotational);
        assert_eq!(all.len(), 16);
        for (n, setting) in all.iter().enumerate() {
            let config = Config::parse(&setting.config()).unwrap();
            assert_eq!(config.id, setting.config());
            assert!(!all[..n].contains(setting), "{setting} twice");
        }
    }
}

/// Both loads on one drive.
fn plan(names: &[&str], keep: Option<PathBuf>) -> OraclePlan {
    let experiment = Arc::new(experiment("load = \"reader\"\npattern = \"rand\""));
    let drive = DriveFile::load("sata-qlc-1tb").unwrap();
    let of = |w: &str| OracleSubject::named(drive.clone(), &experiment, w).unwrap();
    OraclePlan {
        seed: 1,
        subjects: ["hogs", "streams"].map(of).to_vec(),
        configs: names.iter().map(|name| Config::parse(name).unwrap()).collect(),
        options: Options::default(),
        keep: keep.map(|dir| (dir, "key".into())),
    }
}

#[test]
fn rows_are_the_same_on_any_number_of_threads_and_go_on_from_what_is_kept() {
    let dir = std::env::temp_dir().join(format!("hoistway-oracle-{}", std::process::id()));
    let (stop, at) = (AtomicBool::new(false), |_, _| ());
    let whole = plan(&["slo-paternoster", "none-bfq"], None).run(2, &stop, &at).unwrap();
    let heads: Vec<_> = whole.iter().map(|r| (r.load.as_str(), r.config.as_str())).collect();
    let expected =
        ["hogs", "streams"].map(|load| [(load, "slo-paternoster"), (load, "none-bfq")]).concat();
    assert_eq!(heads, expected);
    assert!(whole.iter().all(|r| r.alone < r.none && r.best.is_some()), "{whole:?}");
    // The case is kept without the second configuration, which then is all that runs.
    plan(&["slo-paternoster"], Some(dir.clone())).run(1, &stop, &at).unwrap();
    let first = Mutex::new(None);
    let told = |done, total| {
        first.lock().unwrap().get_or_insert((done, total));
    };
    let again = plan(&["slo-paternoster", "none-bfq"], Some(dir.clone())).run(1, &stop, &told);
    assert_eq!((again.unwrap(), *first.lock().unwrap()), (whole, Some((38, 40))));
    // Another measured time is another case.
    let mut other = plan(&["slo-paternoster"], Some(dir.clone()));
    other.options.quick = true;
    let refused = other.run(1, &stop, &at).unwrap_err();
    assert!(
        matches!(&refused, RunError::InTheWay { what } if what.contains("hogs.json")),
        "{refused}"
    );
    stop.store(true, Ordering::Relaxed);
    let stopped = plan(&["kyber"], Some(dir.clone())).run(1, &stop, &at).unwrap_err();
    assert_eq!(stopped, RunError::Interrupted { kept: 36, total: 38 });
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn what_asks_for_no_latency_beside_others_is_refused() {
    let experiment = Arc::new(Experiment::load("control-latency").unwrap());
    let drive = DriveFile::load("plextor-px-256m5s").unwrap();
    let refused =
        OracleSubject::named(drive.clone(), &experiment, "alone").unwrap_err().to_string();
    assert!(refused.starts_with("control-latency/alone has nobody beside the target"), "{refused}");
    let experiment = Arc::new(Experiment::load("control-weights").unwrap());
    let refused =
        OracleSubject::named(drive, &experiment, &experiment.default_workloads[0]).unwrap_err();
    assert_eq!(refused.lacks, "no target");
}

#[test]
fn of_a_drawn_population_the_cases_of_latency_are_taken() {
    let stop = AtomicBool::new(false);
    let numbers: Vec<u32> = (0..12).collect();
    let drawn = OracleSubject::drawn(1, &numbers, 2, &stop);
    let asks = |&&n: &&u32| Case::draw(1, n).question == Question::Latency;
    let expected: Vec<String> =
        numbers.iter().filter(asks).map(|n| format!("random-1-{n}")).collect();
    assert!(expected.len() < numbers.len());
    assert_eq!(drawn.iter().map(|s| s.drive.id.clone()).collect::<Vec<_>>(), expected);
}
