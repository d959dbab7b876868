use super::*;

#[test]
fn targets_are_read_as_they_are_written() {
    let cases = [
        ("gold=1ms", Ok(("gold", Some(1_000_000), None))),
        (" gold = 1500us , weight=400", Ok(("gold", Some(1_500_000), Some(400)))),
        ("gold=auto", Ok(("gold", None, None))),
        ("gold", Err("write NAME=TIME")),
        ("=1ms", Err("write NAME=TIME")),
        ("gold=1", Err("'1' is not a time")),
        ("gold=0s", Err("whole microseconds")),
        ("gold=1ns", Err("whole microseconds")),
        ("gold=1ms,weight=0", Err("1..=10000")),
        ("gold=1ms,wait=3", Err("'wait=3' is not weight=N")),
    ];
    for (text, expected) in cases {
        match (Wanted::parse(text), expected) {
            (Ok(w), Ok((name, ns, weight))) => {
                assert_eq!((&w.name[..], w.target.map(|t| t.0), w.weight), (name, ns, weight));
                assert_eq!(Wanted::parse(&w.text()), Ok(w));
            }
            (Err(message), Err(part)) => assert!(message.contains(part), "{text}: {message}"),
            (got, _) => panic!("{text}: {got:?}"),
        }
    }
}

fn question(load: &str, wanted: &[&str]) -> WhatIfQuestion {
    let wanted: Vec<_> = wanted.iter().map(|w| Wanted::parse(w).unwrap()).collect();
    let (experiment, workload) = match load {
        "" => default_load(&wanted).unwrap(),
        load => find_load(load).unwrap(),
    };
    WhatIfQuestion {
        experiment,
        workload,
        drive: DriveFile::load("plextor-px-256m5s").unwrap(),
        wanted,
        strict: false,
        loss_permille: 30,
        duration: Some(Nanos::ms(500)),
        seed: 1,
    }
}

#[test]
fn a_target_names_a_process_or_a_kind_of_processes() {
    let load = "latency-2019/readers";
    let cases = [
        (load, &["target=1ms"][..], None),
        (load, &["reader3=1ms"], None),
        (load, &["reader=1ms"], None),
        (load, &["raeder=1ms"], Some("did you mean 'reader'?")),
        (load, &["reader=1ms", "target=auto"], Some("nobody is left")),
        (load, &["reader=1ms", "reader=auto"], Some("two targets for 'reader'")),
        (load, &["reader=1ms", "reader0=auto"], Some("has two targets")),
        ("", &["gold=1ms", "silver=auto"], None),
    ];
    for (load, wanted, expected) in cases {
        let checked = question(load, wanted).check();
        match expected {
            None => assert_eq!(checked, Ok(()), "{wanted:?}"),
            Some(part) => {
                let message = checked.unwrap_err();
                assert!(message.contains(part), "{wanted:?}: {message}");
            }
        }
    }
    assert!(
        find_load("latency-2019/reader").unwrap_err().to_string().contains("there are: readers, ")
    );
}

/// Groups, lines and priorities are what each means of control needs, and nobody else has a target.
#[test]
fn each_way_gives_the_targets_to_those_who_asked() {
    let question = question("latency-2019/readers", &["reader3=2ms,weight=300"]);
    let of = |job: &Job<'_>, name: &str| job.procs.iter().find(|p| p.name == name).unwrap().clone();
    let bfq = question.job(&Way::Other("none-bfq")).unwrap();
    assert_eq!(of(&bfq, "reader3").prio, IoPrio::rt(4));
    assert_eq!(
        of(&bfq, "target").prio,
        IoPrio::NONE,
        "the experiment's own target is not asked for"
    );
    assert_eq!(
        (of(&bfq, "reader3").role, of(&bfq, "target").role),
        (Role::Target, Role::Interferer)
    );
    let lines = |job: &Job<'_>, name: &str| {
        job.groups[of(job, name).group.unwrap()]
            .write
            .iter()
            .map(|l| l.1.clone())
            .collect::<Vec<_>>()
    };
    let lat = question.job(&Way::Other("lat-none")).unwrap();
    assert_eq!(
        (lines(&lat, "reader3"), lines(&lat, "target")),
        (vec!["8:0 target=2000".into()], vec![])
    );
    let cost = question.job(&Way::Other("cost-none")).unwrap();
    assert_eq!(lines(&cost, "reader3"), ["8:0 300"]);
    assert!(cost.control.root.iter().any(|(file, _)| file == "io.cost.qos"));
    let alone = question.job(&Way::Alone(0)).unwrap();
    assert_eq!(alone.procs.len(), 1);
}

#[test]
fn the_kernels_own_means_come_with_what_to_write() {
    let question = question("", &["gold=1ms,weight=400"]);
    let stop = std::sync::atomic::AtomicBool::new(false);
    let basis = question.basis(2, &stop, &|_, _| {}).unwrap();
    let report = question.answer(basis, 2, &stop, &|_, _| {}).unwrap();
    let kernel = question.kernel(&report);
    assert_eq!((kernel.config, kernel.kept), ("none-bfq", true));
    assert_eq!(
        kernel.lines,
        [
            "echo bfq > /sys/block/DEVICE/queue/scheduler",
            "echo 0 > /sys/block/DEVICE/queue/iosched/low_latency",
            "ionice -c 1 -n 4 -p PID    # of gold",
        ]
    );
    // None of them keeps this one: the lines are those of the nearest.
    let impossible =
        WhatIfQuestion { wanted: vec![Wanted::parse("gold=20us").unwrap()], ..question };
    let kernel = impossible.kernel(&report);
    assert!(!kernel.kept);
    let lines = |config| impossible.kernel_lines(config);
    assert_eq!(
        lines("lat-none"),
        [
            "echo none > /sys/block/DEVICE/queue/scheduler",
            "echo 'MAJ:MIN target=20' > /sys/fs/cgroup/gold/io.latency",
        ]
    );
    let cost = lines("cost-none");
    assert!(cost[1].starts_with("echo 'MAJ:MIN ") && cost[1].contains("io.cost."), "{cost:?}");
}
