//! Made-up runs whose right answer is known.

use super::field::Quantity;
use super::goal::Aspect;
use super::*;
use crate::result::{Cell, DriveInfo, Kind, Manifest, Rep, Run, WorkloadInfo, derive};
use crate::stats::sum;
use hoistway::Nanos;
use hoistway_run::{Histogram, NamedFigure};

mod doubts;

/// A workload: its kind, and by configuration the target's latency in ms and what the device moves in MB/s.
pub(crate) type Load<'a> = (Kind, &'a [(f64, f64)]);

/// Factors of rounds: each round's own drift, which all configurations share, times own chance of `spread`.
struct Chance(u64);

impl Chance {
    fn part(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Nearly normal, of mean 0 and deviation 1.
    fn normal(&mut self) -> f64 {
        sum((0..12).map(|_| self.part())) - 6.0
    }
}

const CONFIGS: [&str; 3] = ["none", "mq-deadline", "bfq"];

fn run(loads: &[Load<'_>], rounds: u64, spread: f64, seed: u64) -> Run {
    let rows = [
        ("present_scheduler", "mq-deadline".to_string()),
        ("present_tunables", "fifo_batch=16".into()),
        ("drive_model", "TEST [1]".into()),
        ("drive_class", "nvme".into()),
        ("queue", "nvme9n1".into()),
    ];
    run_on(loads, rounds, spread, seed, &rows)
}

/// The same on a machine with these rows in its manifest.
pub(crate) fn run_on(
    loads: &[Load<'_>],
    rounds: u64,
    spread: f64,
    seed: u64,
    rows: &[(&str, String)],
) -> Run {
    let mut m: Manifest = crate::result::tests::manifest();
    m.world = "kernel".into();
    m.machine = rows.iter().map(|(name, value)| (name.to_string(), value.clone())).collect();
    m.drives = vec![DriveInfo {
        id: "here".into(),
        name: "A drive".into(),
        model: "real".into(),
        parameters: String::new(),
    }];
    let of_config = |id: &&str| {
        let mut info = m.configs[0].clone();
        (info.id, info.scheduler) = (id.to_string(), id.to_string());
        info
    };
    m.configs = CONFIGS.iter().map(of_config).collect();
    m.reps = rounds as u32;
    m.workloads.clear();
    let mut cells = Vec::new();
    for (w, (kind, configs)) in loads.iter().enumerate() {
        let id = format!("w{w}");
        m.workloads.push(WorkloadInfo {
            id: id.clone(),
            summary: String::new(),
            weights: Vec::new(),
            kind: Some(*kind),
            load: String::new(),
        });
        for (c, &(ms, mb_s)) in configs.iter().enumerate() {
            let rep = |round: u64| {
                let mut drift = Chance(round * 977 + seed);
                let mut own = Chance(round * 7919 + seed * 31 + (w * 64 + c) as u64);
                (0..8).for_each(|_| assert!(drift.part() < 1.0 && own.part() < 1.0));
                let drift = 1.0 + 0.3 * drift.part();
                one(
                    round,
                    ms * drift * libm::exp(spread * own.normal()),
                    mb_s * drift * libm::exp(spread * own.normal()),
                )
            };
            cells.push(Cell {
                drive: "here".into(),
                config: CONFIGS[c].into(),
                workload: id.clone(),
                reps: (1..=rounds).map(rep).collect(),
            });
        }
    }
    derive(m, cells)
}

fn one(seed: u64, ms: f64, mb_s: f64) -> Rep {
    let mut rep = crate::result::tests::rep(seed, 1, "target");
    let mut latency = Histogram::new();
    latency.record_n((ms * 1e6) as u64, 100);
    rep.procs[0].latency = latency;
    rep.measured = Nanos::secs(10);
    rep.device.read_bytes = (mb_s * 1e7) as u64;
    rep.device.written_bytes = 0;
    rep
}

fn ask(run: &Run, goal: &str) -> Advice {
    let sources = [RunSource { name: "run".into(), run: run.clone() }];
    recommend(&sources, &Goal::parse(goal).unwrap(), None).unwrap().remove(0)
}

pub(crate) const EQUAL: &[(f64, f64)] = &[(5.0, 100.0), (5.0, 100.0), (5.0, 100.0)];
pub(crate) const BFQ_FAST: &[(f64, f64)] = &[(5.0, 100.0), (5.0, 100.0), (0.5, 80.0)];
const BFQ_SLOW: &[(f64, f64)] = &[(5.0, 100.0), (5.0, 100.0), (50.0, 80.0)];

#[test]
fn equal_ones_are_no_difference_and_what_is_there_stays() {
    let run = run(&[(Kind::Interactive, EQUAL), (Kind::Throughput, EQUAL)], 5, 0.01, 1);
    for goal in ["desktop", "server", "throughput"] {
        let a = ask(&run, goal);
        assert_eq!(a.answer, Recommendation::NoDifference(1), "{goal}: mq-deadline is in force");
        assert_eq!((a.sureness, a.base_is.clone()), (Sureness::Sure, advice::BaseIs::Present));
    }
}

#[test]
fn the_better_one_is_found_unless_it_breaks_a_limit() {
    let loads = |kept| vec![(5.0, 100.0), (5.0, 100.0), (5.0, kept)];
    let with = |kept: f64| {
        let mixes = loads(kept);
        let run = run(&[(Kind::Interactive, BFQ_FAST), (Kind::Throughput, &mixes)], 5, 0.005, 2);
        (ask(&run, "desktop"), ask(&run, "server"), ask(&run, "throughput"))
    };
    let (desktop, server, throughput) = with(93.0);
    assert_eq!((&desktop.answer, desktop.sureness), (&Recommendation::Change(2), Sureness::Likely));
    assert_eq!(desktop.runner_up.map(|r| r.0), Some(1));
    assert_eq!(server.choice.reasons[2], choose::ChoiceReason::Limit(0), "a server gives 5 %");
    assert!(
        matches!(server.answer, Recommendation::NoDifference(1) | Recommendation::Keep(1)),
        "{:?}",
        server.answer
    );
    assert!(matches!(throughput.answer, Recommendation::Keep(1)), "{:?}", throughput.answer);
    assert_eq!(with(97.0).0.sureness, Sureness::Sure, "93 % is too near to 90");
    let (desktop, ..) = with(60.0);
    assert_eq!(desktop.choice.reasons[2], choose::ChoiceReason::Limit(0));
    assert_eq!(desktop.answer, Recommendation::Keep(1));
}

#[test]
fn too_few_rounds_are_never_enough() {
    for rounds in [1, 2] {
        let a = ask(&run(&[(Kind::Interactive, BFQ_FAST)], rounds, 0.0, 1), "desktop");
        let Recommendation::NotEnough { more, .. } = a.answer else { panic!("{:?}", a.answer) };
        assert_eq!((more as u64, a.sureness), (3 - rounds, Sureness::Doubtful));
        assert_eq!(a.choice.config, Some(2), "what it looks like so far");
    }
}

#[test]
fn what_spreads_too_much_needs_more_rounds_and_with_them_is_told() {
    let near: &[(f64, f64)] = &[(5.0, 100.0), (5.0, 100.0), (2.5, 100.0)];
    let a = ask(&run(&[(Kind::Interactive, near)], 3, 0.3, 3), "desktop");
    let Recommendation::NotEnough { more, .. } = a.answer else { panic!("{:?}", a.answer) };
    let b = ask(&run(&[(Kind::Interactive, near)], 3 + 2 * more as u64, 0.3, 3), "desktop");
    assert_eq!(b.answer, Recommendation::Change(2));
}

/// One workload ten times better, another ten times worse: not "no difference".
#[test]
fn contradicting_workloads_are_told() {
    let loads = [(Kind::Interactive, BFQ_FAST), (Kind::Interactive, BFQ_SLOW)];
    let a = ask(&run(&loads, 5, 0.01, 4), "desktop");
    assert_eq!(a.answer, Recommendation::Keep(1), "as good on the whole is no reason to change");
    let better = a.places(2, compare::Verdict::Better);
    assert!(better.iter().any(|(q, _)| q.place.ends_with("w0")));
    assert!(a.places(2, compare::Verdict::Worse).iter().any(|(q, _)| q.place.ends_with("w1")));
}

/// The others lose as long as somebody waits, and a wait that is shorter costs them for shorter.
#[test]
fn a_desktop_does_not_starve_the_others_for_a_wait_that_is_short_anyway() {
    let with = |ms: f64, mb_s: f64, goal: &str| {
        let loads = [(5.0, 100.0), (5.0, 100.0), (ms, mb_s)];
        ask(&run(&[(Kind::Interactive, &loads)], 5, 0.01, 13), goal)
    };
    let starves = with(1.5, 1.0, "desktop");
    assert_eq!(starves.choice.reasons[2], choose::ChoiceReason::Limit(0), "they keep 70 %");
    assert!(matches!(starves.answer, Recommendation::Keep(1)), "{:?}", starves.answer);
    assert_eq!(
        with(1.5, 1.0, "latency<4ms").answer,
        Recommendation::Change(2),
        "asked for latency alone"
    );
    assert_eq!(
        with(0.05, 1.0, "desktop").answer,
        Recommendation::Change(2),
        "a wait of a hundredth"
    );
    assert_eq!(with(1.5, 90.0, "desktop").answer, Recommendation::Change(2), "they keep 97 %");
    assert_eq!(
        with(5.0, 50.0, "desktop").choice.reasons[2],
        choose::ChoiceReason::Limit(0),
        "for nothing"
    );
    // One workload in which they starve is not made up for by another.
    let fair = [(5.0, 100.0), (5.0, 100.0), (0.05, 100.0)];
    let unfair = [(5.0, 100.0), (5.0, 100.0), (1.5, 1.0)];
    let both = run(&[(Kind::Interactive, &fair), (Kind::Interactive, &unfair)], 5, 0.01, 14);
    assert_eq!(ask(&both, "desktop").choice.reasons[2], choose::ChoiceReason::Limit(0));
}

#[test]
fn what_kept_the_processors_busy_is_said_and_makes_the_answer_less_sure() {
    let with = |busy: i64| {
        let mut run = run(&[(Kind::Interactive, BFQ_FAST)], 5, 0.01, 15);
        for cell in run.cells.iter_mut().filter(|c| c.config == "none") {
            for rep in &mut cell.reps {
                for (name, value) in [("machine_cpu_ns", busy), ("machine_idle_ns", 100 - busy)] {
                    add_figure(rep, name, value);
                }
            }
        }
        ask(&run, "desktop")
    };
    let (calm, busy) = (with(60), with(97));
    assert_eq!((calm.sureness, calm.processor_bound().len()), (Sureness::Sure, 0));
    assert_eq!((&busy.answer, busy.sureness), (&Recommendation::Change(2), Sureness::Likely));
    let said = busy.processor_bound()[0];
    assert_eq!((said.config.as_str(), said.busy), ("none", Some(0.97)));
    assert!(said.place.ends_with("/w0"), "{said:?}");
}

/// Another figure of the repetition.
fn add_figure(rep: &mut Rep, name: &str, value: i64) {
    let figure = |(name, value): (&str, i64)| NamedFigure { name: name.into(), of: None, value };
    let all = rep.figures.iter().chain([(name, value)]).map(figure).collect::<Vec<_>>();
    rep.figures = all.into();
}

/// A mix in which BFQ is short of processors, beside a wait that it shortens.
fn short_of_processors(kept: f64, busy: &[(&str, i64)], rows: &[(&str, String)]) -> Run {
    let mixes = [(5.0, 100.0), (5.0, 100.0), (5.0, kept)];
    let waits = [(5.0, 100.0), (5.0, 100.0), (0.5, 95.0)];
    let loads = [(Kind::Interactive, &waits[..]), (Kind::Throughput, &mixes[..])];
    let mut run = run_on(&loads, 5, 0.01, 16, rows);
    for cell in run.cells.iter_mut().filter(|c| c.config == "bfq") {
        let busy = busy.iter().find(|b| b.0 == cell.workload).map_or(50, |b| b.1);
        for rep in &mut cell.reps {
            for (name, value) in [("machine_cpu_ns", busy), ("machine_idle_ns", 100 - busy)] {
                add_figure(rep, name, value);
            }
        }
    }
    run
}

/// On either side of the limit of 90 %: of a real drive the processors' cost decides, of an emulated one it says nothing.
#[test]
fn processors_decide_of_a_real_drive_and_not_of_an_emulated_one() {
    let present = ("present_scheduler", "none".to_string());
    let emulated = ("emulated", "by this machine's processors".to_string());
    let chain = "loop9 (backing file /run/hoistway/emulate/7/mnt/x) [none]".to_string();
    let busy = [("w1", 99)];
    for kept in [95.0, 72.0] {
        let real =
            ask(&short_of_processors(kept, &busy, std::slice::from_ref(&present)), "desktop");
        let wanted = if kept > 90.0 { Recommendation::Change(2) } else { Recommendation::Keep(0) };
        assert_eq!(real.answer, wanted, "{kept} %");
        assert_eq!((real.processor_bound().len(), real.not_judged().len()), (1, 0));
        for row in [emulated.clone(), ("chain", chain.clone())] {
            let rows = [present.clone(), row];
            let a = ask(&short_of_processors(kept, &busy, &rows), "desktop");
            assert_eq!((&a.answer, a.sureness), (&Recommendation::Change(2), Sureness::Likely));
            assert_eq!((a.not_judged().len(), a.open_limits().len()), (1, 1), "throughput");
            let calm = short_of_processors(kept, &[], &rows);
            assert_eq!(ask(&calm, "desktop").answer, wanted, "with processors to spare");
        }
    }
}

/// Processors with time to spare, and still not in time: of an emulated drive that is another drive.
#[test]
fn an_emulated_drive_that_is_late_is_not_judged() {
    let with = |late: i64| {
        let rows = [("emulated", "yes".to_string())];
        let mut run = short_of_processors(95.0, &[], &rows);
        for cell in run.cells.iter_mut().filter(|c| c.config == "none" && c.workload == "w1") {
            for rep in &mut cell.reps {
                for (name, value) in [("drive_modelled_ns", 1000), ("drive_late_ns", late)] {
                    add_figure(rep, name, value);
                }
            }
        }
        ask(&run, "desktop")
    };
    assert_eq!(with(190).not_judged().len(), 0);
    let late = with(210);
    assert_eq!((late.not_judged().len(), late.processor_bound().len()), (1, 0));
    let told = late.field.strains.iter().find(|s| s.is_late()).unwrap();
    assert_eq!((told.config.as_str(), told.late, told.busy), ("none", Some(0.21), None));
}

#[test]
fn nothing_but_processors_decides_nothing() {
    let rows = [("emulated", "yes".to_string())];
    let run = short_of_processors(60.0, &[("w0", 95), ("w1", 99)], &rows);
    for goal in ["desktop", "server", "throughput", "latency<1ms"] {
        let a = ask(&run, goal);
        assert_eq!(
            (&a.answer, a.sureness),
            (&Recommendation::Processors, Sureness::Doubtful),
            "{goal}"
        );
        assert_eq!(a.answer.config(), None);
    }
    let half = short_of_processors(60.0, &[("w0", 95)], &rows);
    assert_eq!(
        ask(&half, "desktop").answer,
        Recommendation::Processors,
        "a wait is what it is about"
    );
    assert!(matches!(
        ask(&half, "throughput").answer,
        Recommendation::Keep(_) | Recommendation::NoDifference(_)
    ));
    let share = recommend(
        &[RunSource { name: "run".into(), run: half }],
        &Goal::parse("share").unwrap(),
        None,
    );
    assert!(share.is_err(), "it was never measured");
}

#[test]
fn a_latency_must_stay_below_its_limit_for_sure() {
    let mixed: &[(f64, f64)] = &[(4.0, 100.0), (8.0, 120.0), (1.0, 90.0)];
    let run = run(&[(Kind::Interactive, mixed), (Kind::Sync, mixed)], 5, 0.01, 5);
    let a = ask(&run, "latency<7ms");
    assert_eq!(
        (a.answer, a.choice.reasons[1]),
        (Recommendation::Change(0), choose::ChoiceReason::Limit(0))
    );
    assert_eq!(ask(&run, "latency<2ms").answer, Recommendation::Change(2));
    assert_eq!(ask(&run, "latency<500us").answer, Recommendation::Nothing(2));
    let noisy = super::tests::run(&[(Kind::Interactive, mixed)], 3, 0.3, 6);
    assert!(matches!(ask(&noisy, "latency<6ms").answer, Recommendation::NotEnough { .. }));
}

#[test]
fn warnings_make_an_answer_less_sure() {
    let mut run = run(&[(Kind::Interactive, BFQ_FAST)], 5, 0.01, 7);
    run.manifest.machine.push(("warning".into(), "2 % of the time were stolen".into()));
    let a = ask(&run, "desktop");
    assert_eq!((a.answer, a.sureness), (Recommendation::Change(2), Sureness::Likely));
    assert_eq!(a.field.warnings.len(), 1);
}

/// At 89 % of a limit of 90 %, spread by 2 %: not surely broken, so it stays, and is not called sure.
#[test]
fn a_limit_that_is_near_makes_the_answer_less_sure() {
    let with = |kept: f64, spread: f64| {
        let mixes = [(5.0, 100.0), (5.0, 100.0), (5.0, kept)];
        let loads = [(Kind::Interactive, BFQ_FAST), (Kind::Throughput, &mixes[..])];
        ask(&run(&loads, 5, spread, 11), "desktop")
    };
    let near = with(90.0, 0.02);
    assert_eq!((&near.answer, near.sureness), (&Recommendation::Change(2), Sureness::Likely));
    assert_eq!(near.doubts().len(), 1);
    let far = with(97.0, 0.002);
    assert_eq!((far.sureness, far.doubts().len()), (Sureness::Sure, 0));
    assert_eq!(
        with(75.0, 0.08).choice.reasons[2],
        choose::ChoiceReason::Limit(0),
        "twice the limit is too much"
    );
}

/// Whatever the seed: an answer that is called sure is the same with twice the rounds.
#[test]
fn more_rounds_of_the_same_do_not_flip_a_sure_answer() {
    let sets: [&[(f64, f64)]; 4] = [
        EQUAL,
        &[(5.0, 100.0), (5.0, 100.0), (0.5, 97.0)],
        &[(5.0, 100.0), (5.0, 100.0), (3.0, 97.0)],
        &[(5.0, 104.0), (6.5, 100.0), (5.2, 90.0)],
    ];
    let mut sure = 0;
    for (n, set) in sets.into_iter().enumerate() {
        for seed in 0..12 {
            let of = |rounds| {
                let loads = [(Kind::Interactive, set), (Kind::Throughput, set)];
                ask(&run(&loads, rounds, 0.03, seed * 101 + n as u64), "desktop")
            };
            let (few, many) = (of(5), of(20));
            if few.sureness != Sureness::Sure {
                continue;
            }
            sure += 1;
            assert_eq!(few.answer.config(), many.answer.config(), "set {n}, seed {seed}");
        }
    }
    assert!(sure >= 24, "only {sure} of 48 were sure: the rule is too timid");
}

/// As of the world `kernel`: write-back throttling is on, and only BFQ switches it off.
#[test]
fn the_present_configuration_is_found_with_its_write_back_throttling() {
    let mut run = run(&[(Kind::Interactive, BFQ_FAST)], 5, 0.01, 10);
    let throttled = |id: &str| if id == "bfq" { id.to_string() } else { format!("{id}+wbt") };
    run.manifest.configs.iter_mut().for_each(|c| c.id = throttled(&c.id));
    run.cells.iter_mut().for_each(|c| c.config = throttled(&c.config));
    run.manifest.machine = vec![
        ("present_scheduler".into(), "none".into()),
        ("present_tunables".into(), "nr_requests=31 wbt_lat_usec=2000".into()),
        ("queue".into(), "loop9".into()),
        ("drive_class".into(), "loop".into()),
    ];
    let a = ask(&run, "desktop");
    assert_eq!((a.base, a.base_is.clone()), (0, advice::BaseIs::Present));
    assert_eq!(a.answer, Recommendation::Change(2));
    let lines = a.lines(2, Match::Model);
    assert!(lines.files.is_empty(), "no rule, so no module: {:?}", lines.files);
    let now = lines.now.unwrap();
    assert_eq!(
        now.undo,
        [
            "echo none > /sys/block/loop9/queue/scheduler",
            "echo 31 > /sys/block/loop9/queue/nr_requests"
        ]
    );
    let kept = a.lines(1, Match::Model).now.unwrap();
    assert_eq!(kept.lines.len(), 2, "throttling is on already: {:?}", kept.lines);
    run.manifest.machine.push(("present_config".into(), "mq-deadline+wbt".into()));
    assert_eq!(ask(&run, "desktop").base, 1, "the runs say it themselves");
}

#[test]
fn io_cost_has_its_lines_and_an_entry_of_the_hwdb() {
    let mut run = run(&[(Kind::Interactive, BFQ_FAST)], 5, 0.01, 12);
    run.manifest.configs[2].id = "cost-none{model=drive}".into();
    let third = run.cells.iter_mut().filter(|c| c.config == "bfq");
    third.for_each(|c| c.config = "cost-none{model=drive}".into());
    let drive = hoistway_sim::drive::DriveFile::load("samsung-970-pro").unwrap();
    run.manifest.drives[0].parameters = drive.table.to_string();
    let a = ask(&run, "desktop");
    assert_eq!(a.answer, Recommendation::Change(2));
    let lines = a.lines(2, Match::Model);
    let hwdb = lines.files.iter().find(|f| f.path.ends_with(".hwdb")).unwrap();
    assert!(
        hwdb.text.contains("\nblock:*:name:TEST ?1?:fwrev:*:\n IOCOST_SOLUTIONS=hoistway\n"),
        "{}",
        hwdb.text
    );
    assert!(hwdb.text.contains(&format!(" IOCOST_MODEL_HOISTWAY=rbps={} ", drive.iocost.rbps)));
    assert!(hwdb.text.contains(" IOCOST_QOS_HOISTWAY=rpct=95 rlat=5000 "), "{}", hwdb.text);
    let step = lines.steps.iter().find(|s| s.title.starts_with("io.cost")).unwrap();
    assert!(
        step.lines[1].starts_with("echo 'MAJ:MIN enable=1 ctrl=user rpct=95"),
        "{:?}",
        step.lines
    );
    assert!(step.undo[0].contains("enable=0"), "{:?}", step.undo);
}

#[test]
fn what_the_runs_do_not_have_cannot_be_asked_for() {
    let run = run(&[(Kind::Throughput, EQUAL)], 5, 0.01, 8);
    let sources = [RunSource { name: "run".into(), run }];
    let error = recommend(&sources, &Goal::parse("desktop").unwrap(), None).unwrap_err();
    assert!(
        error.0.contains("start-up time and latency") && error.0.contains("throughput"),
        "{error}"
    );
    let goal = Goal::parse("throughput").unwrap();
    let error = recommend(&sources, &goal, Some("kyber")).unwrap_err();
    assert!(error.0.contains("there are: none, mq-deadline, bfq"), "{error}");
    assert!(Goal::parse("dekstop").is_err() && Goal::parse("latency<0").is_err());
}

#[test]
fn rules_match_one_model_or_one_class_and_undo_themselves() {
    let a = ask(&run(&[(Kind::Interactive, BFQ_FAST)], 5, 0.01, 9), "desktop");
    let lines = a.lines(2, Match::Model);
    let rule = &lines.files[0];
    assert_eq!(rule.path, "/etc/udev/rules.d/90-hoistway-test-1.rules");
    assert!(rule.text.contains("KERNEL==\"nvme[0-9]*n[0-9]*\""), "{}", rule.text);
    assert!(
        rule.text.contains("ATTR{device/model}==\"TEST ?1?\""),
        "no pattern of ours: {}",
        rule.text
    );
    assert!(rule.text.contains("ATTR{queue/scheduler}=\"bfq\""), "{}", rule.text);
    assert_eq!(lines.files[1].path, "/etc/modules-load.d/hoistway-bfq.conf");
    let now = lines.now.unwrap();
    assert_eq!(now.lines, ["modprobe bfq", "echo bfq > /sys/block/nvme9n1/queue/scheduler"]);
    assert_eq!(
        now.undo,
        [
            "echo mq-deadline > /sys/block/nvme9n1/queue/scheduler",
            "echo 16 > /sys/block/nvme9n1/queue/iosched/fifo_batch"
        ]
    );
    let class = a.lines(2, Match::Class);
    assert!(!class.files[0].text.contains("TEST ["), "{}", class.files[0].text);
    assert!(class.files[0].text.contains("ATTR{queue/rotational}==\"0\""));
}

#[test]
fn what_came_with_a_run_ends_up_in_no_line_of_its_own() {
    let rows = [
        ("present_scheduler", "none; reboot".to_string()),
        ("present_tunables", "fifo_batch=16 x=$(reboot)".into()),
        ("drive_model", "SSD\nRUN+=\"/bin/x\"".into()),
        ("drive_class", "nvme".into()),
        ("queue", "sda/queue/x; reboot #".into()),
    ];
    let loads = [(Kind::Interactive, BFQ_FAST), (Kind::Throughput, EQUAL)];
    let advice = ask(&run_on(&loads, 8, 0.02, 1, &rows), "desktop");
    let lines = advice.lines(2, Match::Model);
    let rule = lines.files.iter().find(|f| f.path.ends_with(".rules")).unwrap();
    let starts = |l: &&str| l.starts_with(['#', ' ']) || l.starts_with("ACTION==");
    assert!(rule.text.lines().all(|l| starts(&l)), "{}", rule.text);
    let now = lines.now.unwrap();
    let all: Vec<&String> = now.lines.iter().chain(&now.undo).collect();
    assert!(all.iter().all(|l| !l.contains("reboot")), "{all:?}");
    assert!(now.undo.iter().any(|l| l.contains("WHAT-WAS-THERE")), "{all:?}");
}

/// As an emulator tells: 0.12 % of the modelled time late, while both processors had no rest.
#[test]
fn an_emulated_drive_that_kept_up_is_judged_however_busy_the_processors_were() {
    let with = |late: i64, wait: f64| {
        let rows = [("emulated", "yes".to_string()), ("present_scheduler", "none".into())];
        let waits = [(5.0, 100.0), (5.0, 100.0), (wait, 95.0)];
        let mut run = run_on(&[(Kind::Interactive, &waits[..])], 5, 0.01, 16, &rows);
        for rep in run.cells.iter_mut().flat_map(|c| &mut c.reps) {
            let figures = [
                ("machine_cpu_ns", 99),
                ("machine_idle_ns", 1),
                ("drive_modelled_ns", 10_000),
                ("drive_late_ns", late),
            ];
            figures.into_iter().for_each(|(name, value)| add_figure(rep, name, value));
        }
        ask(&run, "desktop")
    };
    let kept_up = with(12, 0.5);
    assert_eq!((&kept_up.answer, kept_up.sureness), (&Recommendation::Change(2), Sureness::Likely));
    assert_eq!((kept_up.not_judged().len(), kept_up.coarse().len()), (0, 0));
    assert_eq!(kept_up.processor_bound().len(), 3, "which is said");
    assert_eq!(with(5000, 0.5).answer, Recommendation::Processors, "half as late as it worked");
    let huge = with(5000, 5.0 / 300.0);
    assert_eq!((&huge.answer, huge.sureness), (&Recommendation::Change(2), Sureness::Likely));
    assert_eq!(huge.coarse().len(), 1, "300 times is no lateness");
}

/// Runs without write-back throttling of a machine that has it on.
fn without_throttling(written: u64) -> Advice {
    let mut run = run(&[(Kind::Interactive, BFQ_FAST)], 5, 0.01, 10);
    run.manifest.machine = vec![
        ("present_scheduler".into(), "none".into()),
        ("present_config".into(), "none+wbt".into()),
        ("present_tunables".into(), "wbt_lat_usec=2000".into()),
        ("drive_class".into(), "nvme".into()),
        ("queue".into(), "nvme0n1".into()),
    ];
    for rep in run.cells.iter_mut().flat_map(|c| &mut c.reps) {
        rep.device.written_bytes = written;
    }
    ask(&run, "desktop")
}

#[test]
fn what_was_in_force_has_its_throttling_and_is_not_taken_for_another() {
    let present = || "none+wbt".to_string();
    let read = without_throttling(0);
    assert_eq!((read.base, &read.base_is), (0, &advice::BaseIs::Like(present())));
    assert_eq!((read.sureness, read.lacks_throttling()), (Sureness::Sure, false));
    let kept = read.lines(1, Match::Model);
    let all = format!("{kept:?}");
    assert!(!all.contains("wbt_lat_usec") && all.contains("throttling stays on"), "{all}");
    let written = without_throttling(1 << 20);
    assert_eq!((written.base, &written.base_is), (0, &advice::BaseIs::NotMeasured(present())));
    assert_eq!((written.sureness, written.lacks_throttling()), (Sureness::Likely, true));
    let kept = written.lines(1, Match::Model).now.unwrap();
    assert!(
        kept.lines.iter().any(|l| l == "echo 0 > /sys/block/nvme0n1/queue/wbt_lat_usec"),
        "{kept:?}"
    );
}

/// Runs of `compare` say nothing of a machine: the drive file tells what Linux would choose.
#[test]
fn simulated_runs_are_compared_with_what_linux_chooses_for_the_drive() {
    let with = |drive: &str, configs: [&str; 3]| {
        let mut run = run_on(&[(Kind::Interactive, BFQ_FAST)], 5, 0.01, 10, &[]);
        run.manifest.world = "sim".into();
        let drive = hoistway_sim::drive::DriveFile::load(drive).unwrap();
        run.manifest.drives[0].parameters = drive.table.to_string();
        for (c, id) in run.manifest.configs.iter_mut().zip(configs) {
            let cells = run.cells.iter_mut().filter(|cell| cell.config == c.id);
            cells.for_each(|cell| cell.config = id.into());
            c.id = id.into();
        }
        let a = ask(&run, "desktop");
        (a.field.configs[a.base].clone(), a.base_is)
    };
    let wbt = ["none+wbt", "mq-deadline+wbt", "bfq"];
    assert_eq!(with("samsung-970-pro", wbt), ("none+wbt".into(), advice::BaseIs::Present));
    assert_eq!(with("plextor-px-256m5s", wbt), ("mq-deadline+wbt".into(), advice::BaseIs::Present));
    let bare = with("plextor-px-256m5s", CONFIGS);
    assert_eq!(bare, ("mq-deadline".into(), advice::BaseIs::Like("mq-deadline+wbt".into())));
}

/// 300,000 requests per second: no time for BFQ, and none of it in the runs.
#[test]
fn decisions_that_took_no_time_make_a_simulated_answer_less_sure_on_a_fast_drive() {
    let with = |world: &str, commands: u64, loads: &[(f64, f64)]| {
        let mut run = run(&[(Kind::Interactive, loads)], 5, 0.01, 17);
        run.manifest.world = world.into();
        run.cells.iter_mut().flat_map(|c| &mut c.reps).for_each(|r| r.device.commands = commands);
        let a = ask(&run, "desktop");
        (a.answer.config(), a.sureness, a.decisions().is_some_and(|d| d.matter()))
    };
    assert_eq!(with("sim", 3_000_000, BFQ_FAST), (Some(2), Sureness::Likely, true));
    assert_eq!(with("sim", 900_000, BFQ_FAST), (Some(2), Sureness::Sure, false), "90,000 a second");
    assert_eq!(with("kernel", 3_000_000, BFQ_FAST), (Some(2), Sureness::Sure, false));
    let none_fast = [(0.5, 100.0), (5.0, 100.0), (5.0, 100.0)];
    let (fast, slow) = (with("sim", 3_000_000, &none_fast), with("sim", 900_000, &none_fast));
    assert_eq!((fast.0, fast.1, fast.2), (Some(0), slow.1, true), "the cheapest");
}

/// Weights 100 and 300 as they were written into `io.bfq.weight` and `io.weight`.
#[test]
fn what_is_installed_of_a_share_is_what_was_measured() {
    let with = |id: &str, goal: &str| {
        let worst: &[(f64, f64)] = &[(5.0, 100.0), (5.0, 100.0), (5.0, 100.0)];
        let mut run = run(&[(Kind::Share, worst), (Kind::Interactive, BFQ_FAST)], 5, 0.01, 12);
        run.manifest.configs[2].id = id.into();
        run.cells.iter_mut().filter(|c| c.config == "bfq").for_each(|c| c.config = id.into());
        run.manifest.workloads[0].weights =
            vec![("light0".into(), 100), ("reader0".into(), 300), ("reader1".into(), 300)];
        let drive = hoistway_sim::drive::DriveFile::load("samsung-970-pro").unwrap();
        run.manifest.drives[0].parameters = drive.table.to_string();
        for rep in run.cells.iter_mut().filter(|c| c.workload == "w0").flat_map(|c| &mut c.reps) {
            rep.procs[0].role = hoistway_run::Role::Interferer;
            rep.procs[0].name = "light0".into();
        }
        let lines = ask(&run, goal).lines(2, Match::Model);
        let steps = lines.steps.iter().filter(|s| s.asks != install::Asks::Nothing);
        steps.flat_map(|s| s.lines.clone()).collect::<Vec<_>>()
    };
    let property = |w: u64| format!("systemctl set-property SERVICE IOWeight={w}");
    assert_eq!(with("prop-bfq", "share"), [property(100), property(2300)]);
    assert_eq!(with("cost-none", "share"), [property(100), property(300)]);
    let desktop = with("prop-bfq", "desktop");
    assert!(desktop[0].starts_with("ionice"), "there was a target: {desktop:?}");
    assert_eq!(desktop.last(), Some(&property(100)), "all weighed the same");
}

#[test]
fn files_say_what_they_are_installed_for_and_rules_of_a_class_leave_usb_alone() {
    let mut run = run(&[(Kind::Interactive, BFQ_FAST)], 5, 0.01, 9);
    run.manifest.machine.push(("date".into(), "2025-03-01".into()));
    run.manifest.machine.push(("kernel".into(), "Linux 6.12".into()));
    let of = |run: &Run, class: &str| {
        let mut run = run.clone();
        let rows = run.manifest.machine.iter_mut();
        rows.for_each(|r| {
            if r.0 == "drive_class" {
                r.1 = class.into()
            }
        });
        ask(&run, "desktop").lines(2, Match::Class).files
    };
    let files = of(&run, "nvme");
    assert_eq!(files.len(), 2);
    for file in &files {
        let lines: Vec<&str> = file.text.lines().collect();
        let version = env!("CARGO_PKG_VERSION");
        assert_eq!(
            lines[0],
            format!(
                "# Made by hoistway {version} for goal desktop: bfq instead of mq-deadline, sure (100 % of draws)."
            )
        );
        let made = &run.manifest.version;
        assert_eq!(
            lines[1],
            format!(
                "# Measured: 5 rounds of 1 workload, Linux 6.12, by hoistway {made}, on 2025-03-01."
            )
        );
    }
    let rule = |class: &str| of(&run, class)[0].text.clone();
    let usb = rule("usb");
    assert!(usb.contains("SUBSYSTEMS==\"usb\", \\\n") && !usb.contains("ID_BUS"), "{usb}");
    for class in ["sata-ssd", "hdd"] {
        let rule = rule(class);
        let lines: Vec<&str> = rule.lines().filter(|l| !l.starts_with('#')).collect();
        let end = format!("hoistway_{}_end", class.replace('-', "_"));
        assert_eq!(lines[0], format!("SUBSYSTEMS==\"usb\", GOTO=\"{end}\""));
        assert_eq!(lines.last(), Some(&format!("LABEL=\"{end}\"").as_str()));
        assert!(lines[1].starts_with("ACTION=="), "{rule}");
    }
    assert!(rule("mmc").contains("ATTR{device/type}==\"MMC\""));
    assert!(rule("sd-card").contains("ATTR{device/type}==\"SD\""));
}
