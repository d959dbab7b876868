//! Plans within their limits, and a bench that is broken off and goes on.

use super::plan::{
    self, BenchPlan, BenchPlanError, BenchRequest, BenchSubject, Level, ROUNDS_MIN, Rates,
};
use super::record::Record;
use super::run::{BenchCallbacks, BenchPlace, Ended, Outcome, run};
use super::{subject, suite::SUITE};
use crate::config::Config;
use crate::result::tests::Folder;
use crate::world::{Sim, WorldError};
use hoistway::Nanos;
use hoistway_sim::drive::DriveFile;
use hoistway_sim::world::Job;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

fn plan(request: &BenchRequest, subject: &BenchSubject) -> Result<BenchPlan, BenchPlanError> {
    plan::plan(request, subject, &|_| Ok(()))
}

fn configs(names: &str) -> Vec<Config> {
    names.split(',').map(|n| Config::parse(n).unwrap()).collect()
}

fn request(level: Level) -> BenchRequest {
    BenchRequest {
        level,
        time: None,
        writes: None,
        rounds: None,
        configs: configs("none,mq-deadline,kyber,bfq"),
        shares: configs("none,prop-bfq"),
        seed: 1,
    }
}

fn real(drive: &str) -> BenchSubject {
    let drive = DriveFile::load(drive).unwrap();
    let rates = subject::rates_of(subject::class_of(&drive));
    BenchSubject { drive, rates, overhead: Nanos::ms(700), real: true, wears: true, prepares: true }
}

fn names(plan: &BenchPlan) -> Vec<&'static str> {
    plan.parts.iter().map(|p| p.part.workload).collect()
}

#[test]
fn plans_keep_their_limits_and_drop_the_least_important_first() {
    for level in [Level::Quick, Level::Standard, Level::Full] {
        for drive in ["plextor-px-256m5s", "hitachi-hts727550a9e364", "samsung-970-pro"] {
            let plan = plan(&request(level), &real(drive)).unwrap();
            assert!(plan.estimate.time_ns < plan.limit.0, "{drive}: {:?}", plan.estimate);
            assert!(plan.estimate.written <= plan.writes_limit, "{drive}: {:?}", plan.estimate);
            assert!(
                plan.rounds >= ROUNDS_MIN && plan.parts.len() >= 2,
                "{drive}: {:?}",
                names(&plan)
            );
            assert_eq!(names(&plan)[0], SUITE[0].workload);
            assert_eq!(plan.parts.len() + plan.left_out.len(), SUITE.len());
        }
    }
    let disk = real("hitachi-hts727550a9e364");
    let (quick, standard) = (
        plan(&request(Level::Quick), &disk).unwrap(),
        plan(&request(Level::Standard), &disk).unwrap(),
    );
    assert!(names(&quick).iter().all(|w| names(&standard).contains(w)));
    assert!(quick.parts.len() < standard.parts.len());
    let simulated = subject::simulated(&DriveFile::load("samsung-970-pro").unwrap());
    assert_eq!(plan(&request(Level::Full), &simulated).unwrap().parts.len(), SUITE.len());
}

/// Three rounds rarely decide; a fourth is worth more than another workload.
#[test]
fn a_quick_bench_leaves_workloads_out_for_a_fourth_round() {
    for drive in ["plextor-px-256m5s", "hitachi-hts727550a9e364"] {
        let plan = plan(&request(Level::Quick), &real(drive)).unwrap();
        assert!(plan.rounds >= 4 && plan.most > plan.rounds, "{drive}: {}", plan.rounds);
        assert_eq!(names(&plan)[..2], ["readers", "bash+mixed"], "{drive}");
        assert!(plan.parts.len() < SUITE.len());
    }
}

#[test]
fn what_is_written_is_limited_where_it_wears_and_by_the_rate_that_is_known() {
    let fast = BenchSubject {
        rates: Rates { read: 3_600_000_000, write: 3_600_000_000 },
        ..real("plextor-px-256m5s")
    };
    let limited = plan(&request(Level::Quick), &fast).unwrap();
    assert!(limited.estimate.written <= limited.writes_limit, "{:?}", limited.estimate);
    assert!(limited.parts.iter().filter(|p| p.part.writes).count() == 0, "{:?}", names(&limited));
    let emulated = plan(&request(Level::Quick), &BenchSubject { wears: false, ..fast }).unwrap();
    assert_eq!(names(&emulated)[..3], ["readers", "bash+mixed", "fsync+copy"]);
}

#[test]
fn rounds_are_never_fewer_than_three() {
    let flash = real("plextor-px-256m5s");
    let with = |seconds| BenchRequest { time: Some(Nanos::secs(seconds)), ..request(Level::Quick) };
    let short = plan(&with(60), &flash).unwrap();
    assert_eq!((short.rounds, short.parts[0].part), (ROUNDS_MIN, SUITE[0]));
    assert!(short.parts.len() < 4, "{:?}", names(&short));
    let shorter = plan(&with(40), &flash).unwrap();
    let measured = |plan: &BenchPlan| plan.parts[0].measured;
    assert!((Nanos::secs(1)..measured(&short)).contains(&measured(&shorter)), "{shorter:?}");
    match plan(&with(10), &flash) {
        Err(BenchPlanError::Time { least, .. }) => {
            assert!(
                plan(&BenchRequest { time: Some(least), ..request(Level::Quick) }, &flash).is_ok()
            );
        }
        other => panic!("{other:?}"),
    }
}

/// The command that adds rounds measures the same workloads for as long, or its runs could not be put together with
/// those that are there.
#[test]
fn more_rounds_in_more_time_are_rounds_of_the_same() {
    let simulated = |name: &str| subject::simulated(&DriveFile::load(name).unwrap());
    let drives = ["sd-card-2009", "hitachi-hts727550a9e364", "samsung-970-pro"];
    for (i, subject) in drives.map(simulated).into_iter().enumerate() {
        for time in [None, Some(1), Some(2), Some(5), Some(60), Some(90), Some(300)] {
            for rounds in [None, Some(2), Some(6)] {
                let request =
                    BenchRequest { time: time.map(Nanos::secs), rounds, ..request(Level::Quick) };
                let Ok(first) = plan(&request, &subject) else { continue };
                let record = Record::of(&first, "", "", &[], Vec::new());
                for more in [3, 7, 40] {
                    let limits = record.limits.with(&first.estimate, more).unwrap();
                    let (time, writes) = (Some(Nanos(limits.time_ns)), Some(limits.writes));
                    let request =
                        BenchRequest { time, writes, rounds: Some(more as u32), ..request.clone() };
                    let then = plan(&request, &subject).unwrap();
                    let of = |plan: &BenchPlan| {
                        let each = plan.parts.iter().map(|p| (p.part.workload, p.measured));
                        each.collect::<Vec<_>>()
                    };
                    assert_eq!(of(&then), of(&first), "{i} {time:?} {rounds:?} {more}");
                    assert_eq!(then.rounds, more as u32);
                }
            }
        }
    }
}

#[test]
fn a_budget_of_writes_leaves_out_what_writes() {
    let flash = BenchSubject {
        rates: Rates { read: 500_000_000, write: 400_000_000 },
        ..real("plextor-px-256m5s")
    };
    let small = BenchRequest { writes: Some(1 << 30), ..request(Level::Quick) };
    let small = plan(&small, &flash).unwrap();
    assert!(small.parts.iter().all(|p| !p.part.writes), "{:?}", names(&small));
    assert!(small.left_out.iter().any(|(_, why)| why.contains("--write-budget")));
    let none = BenchRequest { writes: Some(1 << 20), ..request(Level::Quick) };
    let error = plan(&none, &flash).unwrap_err();
    assert!(matches!(error, BenchPlanError::Writes { .. }), "{error}");
    let one =
        BenchRequest { configs: configs("none"), shares: Vec::new(), ..request(Level::Quick) };
    assert_eq!(plan(&one, &flash).unwrap_err(), BenchPlanError::Configs);
}

#[test]
fn what_the_place_refuses_is_left_out_and_what_the_machine_lacks_ends_it() {
    let flash = real("plextor-px-256m5s");
    let (refused, lacking) =
        (WorldError::Usage("makes files".into()), WorldError::Environment("root".into()));
    let only = |error: &WorldError, load: &'static str| {
        let error = error.clone();
        let check = move |job: &Job<'_>| match job.procs.iter().any(|p| p.load == load) {
            true => Err(error.clone()),
            false => Ok(()),
        };
        plan::plan(&request(Level::Quick), &flash, &check)
    };
    let some = only(&refused, "fsync_tester").unwrap();
    assert!(!names(&some).contains(&"fsync+copy") && names(&some).contains(&"readers"));
    assert!(some.left_out.iter().any(|(_, why)| why == "makes files"));
    assert_eq!(
        only(&lacking, "fsync_tester").unwrap_err(),
        BenchPlanError::Environment("root".into())
    );
    let all = |_: &Job<'_>| Err(refused.clone());
    let nothing = plan::plan(&request(Level::Quick), &flash, &all).unwrap_err();
    assert_eq!(nothing, BenchPlanError::Nothing { why: "makes files".into() });
}

/// Two parts on a drive that is simulated fast.
fn small() -> BenchPlan {
    let drive = DriveFile::load("hitachi-hts727550a9e364").unwrap();
    let subject = BenchSubject { overhead: Nanos::ZERO, ..subject::simulated(&drive) };
    let request = BenchRequest {
        time: Some(Nanos::secs(2)),
        configs: configs("none,bfq"),
        shares: Vec::new(),
        ..request(Level::Quick)
    };
    plan(&request, &subject).unwrap()
}

fn carry_out(plan: &BenchPlan, out: &Path, threads: usize, after: usize) -> Outcome {
    let (stop, runs) = (AtomicBool::new(false), AtomicUsize::new(0));
    let progress = |_| {
        if runs.fetch_add(1, Ordering::Relaxed) + 1 == after {
            stop.store(true, Ordering::Relaxed);
        }
    };
    let callbacks = BenchCallbacks { clock: &|| 0.0, progress: &progress, told: &|_| {} };
    let rows = [("suite".to_string(), "x".to_string())];
    let place = BenchPlace { out, program: "p", target: "t", fresh: false, rows: &rows };
    run(plan, &Sim, threads, &place, &stop, &callbacks).unwrap()
}

/// Files of finished runs.
fn kept_files(out: &Path) -> Vec<PathBuf> {
    let inside = |folder: &Path| -> Vec<PathBuf> {
        std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect()
    };
    let kept = |p: &PathBuf| p.extension().is_some_and(|e| e == "partial");
    let all = inside(out).into_iter().filter(kept).flat_map(|p| inside(&p));
    all.filter(|p| p.extension().is_some_and(|e| e == "gz")).collect()
}

#[test]
fn a_bench_that_was_broken_off_goes_on_and_ends_with_the_same_bytes() {
    let folder = Folder::new("bench");
    let (whole, parts) = (folder.0.join("whole"), folder.0.join("parts"));
    let plan = small();
    let all = carry_out(&plan, &whole, 2, usize::MAX);
    assert_eq!((all.ended, all.rounds), (Ended::Whole, plan.rounds));
    let of_round: usize = plan.parts.iter().map(|p| p.configs).sum();
    let first = carry_out(&plan, &parts, 1, of_round + 1);
    assert_eq!((first.ended, first.rounds), (Ended::Interrupted, 1), "one round is whole");
    assert!(
        first
            .runs
            .iter()
            .all(|(dir, run)| dir.join("run.toml").is_file() && run.manifest.reps == 1)
    );
    let damaged = kept_files(&parts).remove(0);
    std::fs::write(&damaged, "").unwrap();
    let rest = carry_out(&plan, &parts, 1, usize::MAX);
    assert_eq!((rest.ended, rest.rounds), (Ended::Whole, plan.rounds));
    for (dir, _) in &all.runs {
        let name = dir.file_name().unwrap();
        for file in ["run.toml", "metrics.csv", "records/histograms.json.gz"] {
            let read = |folder: &Path| std::fs::read(folder.join(name).join(file)).unwrap();
            assert!(read(&whole) == read(&parts), "{name:?}/{file}");
        }
    }
}

/// Runs are as long as what is judged needs, and what they take is known before any of them.
#[test]
fn a_simulated_plan_watches_starts_to_their_end_and_keeps_to_its_processor_time() {
    for drive in DriveFile::ids() {
        let drive = DriveFile::load(drive).unwrap();
        let subject = subject::simulated(&drive);
        let of = |level| plan(&request(level), &subject).unwrap();
        let (quick, standard) = (of(Level::Quick), of(Level::Standard));
        assert!(quick.estimate.time_ns <= quick.limit.0 && quick.rounds >= 3, "{}", drive.id);
        assert_eq!(standard.parts.len(), SUITE.len(), "{}", drive.id);
        for planned in quick.parts.iter().chain(&standard.parts) {
            let name = (drive.id.as_str(), planned.part.workload);
            match planned.part.time {
                super::suite::Time::Limit(..) => {
                    assert!(planned.measured >= Nanos::secs(1200), "{name:?}")
                }
                _ => assert!(planned.measured >= Nanos::ms(250), "{name:?}"),
            }
        }
        // Both levels look at the same: what they say of a figure differs by chance alone.
        for planned in &quick.parts {
            let same = standard.parts.iter().find(|p| p.part == planned.part).unwrap();
            assert_eq!(same.measured, planned.measured, "{}", drive.id);
        }
        // A virtual disk that says so does more than can be simulated for so long; `recommend` doubts it.
        let reads = subject::as_it_reads(&drive, drive.iocost.rrandiops).0;
        if reads.identity.rotational {
            let seen =
                |p: &super::plan::PlannedPart| p.measured >= crate::recommend::doubt::RAISING;
            assert!(quick.parts.iter().all(seen), "{}: BFQ raises for longer", drive.id);
        }
    }
}

/// What a reason names to include a part does include it.
#[test]
fn what_is_left_out_says_which_flag_includes_it() {
    let flag = |why: &str, name: &str| {
        let value = why.split(&format!("{name} ")).nth(1)?.split(' ').next()?;
        Some(value.to_string())
    };
    let disk = real("hitachi-hts727550a9e364");
    let quick = plan(&request(Level::Quick), &disk).unwrap();
    let (part, why) = &quick.left_out[0];
    let time = hoistway::quantity::duration(&flag(why, "--time").unwrap()).unwrap();
    let more = plan(&BenchRequest { time: Some(time), ..request(Level::Quick) }, &disk).unwrap();
    assert!(more.parts.iter().any(|p| p.part == *part), "{why}: {:?}", names(&more));
    let fast = BenchSubject {
        rates: Rates { read: 3_600_000_000, write: 3_600_000_000 },
        ..real("plextor-px-256m5s")
    };
    let limited = plan(&request(Level::Quick), &fast).unwrap();
    let (part, why) = limited.left_out.iter().find(|(p, _)| p.workload == "writers").unwrap();
    let writes = hoistway::quantity::bytes(&flag(why, "--write-budget").unwrap()).unwrap();
    let more =
        plan(&BenchRequest { writes: Some(writes), ..request(Level::Quick) }, &fast).unwrap();
    assert!(more.parts.iter().any(|p| p.part == *part), "{why}: {:?}", names(&more));
}

/// A dry run knows no rates: what it says of a part holds at whatever the run measures then.
#[test]
fn a_plan_without_rates_says_at_which_of_them_each_part_runs() {
    let subject = real("plextor-px-256m5s");
    let of_request = request(Level::Quick);
    let depends = plan::depends(&of_request, &subject, &|_| Ok(())).unwrap();
    let assumed = plan(&of_request, &subject).unwrap();
    let fsync = depends.iter().find(|d| d.part.workload == "fsync+copy").unwrap();
    assert!(fsync.rates.last().unwrap().1.is_some(), "a fast drive writes too much: {fsync:?}");
    assert!(depends.iter().all(|d| d.part.workload != "readers"), "it writes nothing: {depends:?}");
    for write in [60, 200, 400, 900, 2400, 5000].map(|mb: u64| mb * 1_000_000) {
        let measured = BenchSubject { rates: Rates { write, ..subject.rates }, ..subject.clone() };
        let real = plan(&of_request, &measured).unwrap();
        for part in SUITE {
            let runs = real.parts.iter().any(|p| p.part == *part);
            let depends = depends.iter().find(|d| d.part == *part).map(|d| d.rates.as_slice());
            // The edges lie between two rates that were tried.
            let edges = depends.into_iter().flatten().flat_map(|r| [r.0, r.1]).flatten();
            if edges.into_iter().any(|edge| near(edge, write)) {
                continue;
            }
            let within = |r: &plan::Range| {
                r.0.is_none_or(|from| write >= from) && r.1.is_none_or(|to| write <= to)
            };
            let promised = match depends {
                Some(rates) => rates.iter().any(within),
                None => assumed.parts.iter().any(|p| p.part == *part),
            };
            assert_eq!(promised, runs, "{part:?} at {write}: {depends:?}");
        }
    }
}

fn near(a: u64, b: u64) -> bool {
    let ratio = a as f64 / b as f64;
    (1.0 / 1.25..=1.25).contains(&ratio)
}

#[test]
fn a_disk_that_reads_like_flash_is_planned_as_flash() {
    let disk = DriveFile::load("hitachi-hts727550a9e364").unwrap();
    let (drive, why) = subject::as_it_reads(&disk, 40_000);
    assert!(!drive.identity.rotational && why.unwrap().contains("40000 times per second"));
    let (drive, why) = subject::as_it_reads(&disk, 350);
    assert!(drive.identity.rotational && why.is_none());
    let flash = DriveFile::load("plextor-px-256m5s").unwrap();
    assert_eq!(subject::as_it_reads(&flash, 40_000).1, None);
}

#[test]
fn a_simulated_drive_is_compared_with_what_linux_chooses() {
    let present = |drive: &str| {
        let rows = subject::rows_of(&DriveFile::load(drive).unwrap());
        rows.iter().find(|r| r.0 == "present_config").unwrap().1.clone()
    };
    assert_eq!(present("nvme-enterprise-gen4"), "none+wbt");
    assert_eq!(present("laptop-hdd-2009"), "mq-deadline+wbt");
    assert_eq!(present("usb-stick-32g"), "mq-deadline+wbt");
}
