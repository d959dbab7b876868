//! What answers hang by beside chance ([`doubt`]).

use super::*;

/// Of a mix in which BFQ keeps so much, beside a wait that it shortens tenfold.
fn beside_a_mix(kept: f64) -> Run {
    let mixes = [(5.0, 100.0), (5.0, 100.0), (5.0, kept)];
    run(&[(Kind::Interactive, BFQ_FAST), (Kind::Throughput, &mixes[..])], 5, 0.002, 21)
}

/// The same drive at two levels of a bench: 92 % of the throughput at one, 84 % at the other, and a limit of 90 %.
#[test]
fn near_a_limit_nothing_is_sure_and_it_is_said_what_would_be_otherwise() {
    let (quick, standard) =
        (ask(&beside_a_mix(92.0), "desktop"), ask(&beside_a_mix(84.0), "desktop"));
    assert_eq!((&quick.answer, quick.sureness), (&Recommendation::Change(2), Sureness::Likely));
    let tighter = |d: &doubt::Doubt| match d.kind {
        doubt::DoubtKind::Limit(goal::Limit::Keeps { part, .. }) => (part > 0.94, d.instead),
        _ => panic!("{d:?}"),
    };
    assert_eq!(quick.hangs_by.iter().map(tighter).collect::<Vec<_>>(), [(true, Some(1))]);
    // No limit is near, but BFQ without its raising was not tried.
    assert_eq!((&standard.answer, standard.sureness), (&Recommendation::Keep(1), Sureness::Likely));
    assert_eq!(standard.hangs_by.len(), 1, "{:?}", standard.hangs_by);
    assert_eq!((standard.gains_a_lot(), standard.rejected.clone()), (vec![2], vec![(2, 0)]));
    assert!((standard.kept(2, 0) - 0.84).abs() < 0.01, "{}", standard.kept(2, 0));
    let between = ask(&beside_a_mix(87.0), "desktop");
    assert_eq!((&between.answer, between.sureness), (&Recommendation::Keep(1), Sureness::Likely));
}

/// A quick bench of a disk kept mq-deadline for throughput, the standard one changed to a BFQ that it alone tries, and
/// both were sure.
#[test]
fn nothing_surely_beats_a_bfq_that_was_not_tried() {
    for goal in ["desktop", "server", "throughput"] {
        let quick = ask(&beside_a_mix(70.0), goal);
        assert_eq!((&quick.answer, quick.sureness), (&Recommendation::Keep(1), Sureness::Likely));
        let untried = |d: &doubt::Doubt| d.kind == doubt::DoubtKind::Untried(doubt::CALM);
        assert!(quick.hangs_by.iter().any(untried), "{:?}", quick.hangs_by);
    }
    // Nor is the one that raises surely the better of the two, where nobody's start comes first.
    let chosen = ask(&beside_a_mix(130.0), "throughput");
    assert_eq!((&chosen.answer, chosen.sureness), (&Recommendation::Change(2), Sureness::Likely));
    assert_eq!(ask(&beside_a_mix(130.0), "desktop").sureness, Sureness::Sure);
}

/// Workloads with too few samples for a percentile were not looked at where another had enough: `latency<200ms` kept a
/// scheduler under which reads took a second.
#[test]
fn means_stand_for_percentiles_where_samples_are_few() {
    let run = run(&[(Kind::Interactive, BFQ_FAST), (Kind::Interactive, EQUAL)], 5, 0.01, 1);
    let mut field = ask(&run, "desktop").field;
    let told = |field: &Field, aspect| -> Vec<(String, Aspect)> {
        field.told(aspect).map(|q| (q.place.clone(), q.aspect)).collect()
    };
    let means = told(&field, Aspect::Interactive);
    assert_eq!(means.len(), 2);
    field.quantities.retain(|q| q.aspect != Aspect::InteractiveTail);
    let first = field.told(Aspect::Interactive).next().unwrap().clone();
    field.quantities.push(Quantity { aspect: Aspect::InteractiveTail, ..first });
    let both = told(&field, Aspect::InteractiveTail);
    assert_eq!(both.len(), 2, "{both:?}");
    assert!(both.contains(&(means[0].0.clone(), Aspect::InteractiveTail)), "{both:?}");
    assert!(both.contains(&means[1]), "{both:?}");
}

/// A bench of 12 s chose, sure, what one of 25 s ruled out: it had left out what ruled it out.
#[test]
fn a_bench_that_left_workloads_out_is_not_sure() {
    let run = beside_a_mix(97.0);
    let goal = Goal::parse("desktop").unwrap();
    let mut field = ask(&run, "desktop").field;
    assert_eq!(Advice::of(field.clone(), &goal, None).unwrap().sureness, Sureness::Sure);
    field.identity.suite = Some("1 (00000000)".into());
    let advice = Advice::of(field, &goal, None).unwrap();
    assert_eq!(advice.sureness, Sureness::Likely);
    let left_out = advice.hangs_by.iter().find_map(|d| match &d.kind {
        doubt::DoubtKind::LeftOut(places) => Some(places),
        _ => None,
    });
    assert!(left_out.is_some_and(|p| p.contains(&"bench-latency/readers".to_string())));
    assert!(left_out.is_some_and(|p| !p.iter().any(|p| p.contains("share"))), "{left_out:?}");
}

/// Gives the throughput of BFQ's mix another value in the first half of each run, the mean as it was.
fn lopsided(run: &mut Run, first: f64) {
    for cell in run.cells.iter_mut() {
        for rep in &mut cell.reps {
            let all = rep.device.read_bytes;
            let first = if cell.config == "bfq" && cell.workload == "w1" { first } else { 1.0 };
            let interval = |at: u64| hoistway_run::Interval {
                at: Nanos::secs(at),
                bytes: (all as f64 / 10.0 * if at < 5 { first } else { 2.0 - first }) as u64,
                ios: 1,
            };
            rep.device.intervals = (0..10).map(interval).collect();
        }
    }
}

#[test]
fn where_half_of_the_run_alone_tells_otherwise_the_answer_is_not_sure() {
    let with = |first: f64| {
        let mut run = beside_a_mix(97.0);
        lopsided(&mut run, first);
        ask(&run, "desktop")
    };
    let (steady, falls) = (with(1.0), with(1.15));
    assert_eq!((&steady.answer, steady.sureness), (&Recommendation::Change(2), Sureness::Sure));
    assert_eq!((&falls.answer, falls.sureness), (&Recommendation::Change(2), Sureness::Likely));
    let late = doubt::Doubt { kind: doubt::DoubtKind::Half(true), instead: Some(1) };
    assert_eq!(falls.hangs_by, [late]);
}

/// On a disk, where everything was measured for 10 s: no longer than BFQ raises.
#[test]
fn runs_of_a_disk_shorter_than_bfq_raises_are_not_sure_of_bfq() {
    let with = |rotational: &str, kept: f64, seconds: u64| {
        let mut run = beside_a_mix(kept);
        run.manifest.machine.push(("rotational".into(), rotational.into()));
        for rep in run.cells.iter_mut().flat_map(|c| &mut c.reps) {
            rep.device.read_bytes = rep.device.read_bytes * seconds / 10;
            rep.measured = Nanos::secs(seconds);
        }
        let a = ask(&run, "desktop");
        (a.answer.config(), a.sureness, a.hangs_by.len())
    };
    assert_eq!(with("1", 97.0, 10), (Some(2), Sureness::Likely, 1));
    assert_eq!(with("1", 70.0, 10), (Some(1), Sureness::Likely, 2), "it may keep more later");
    assert_eq!(with("1", 97.0, 25), (Some(2), Sureness::Sure, 0));
    assert_eq!(with("0", 97.0, 10), (Some(2), Sureness::Sure, 0));
}

/// A virtual disk says that it rotates, and schedulers treat it as a disk.
#[test]
fn what_says_that_it_rotates_and_reads_like_flash_is_doubted() {
    let with = |rotational: &str, reads: &str| {
        let mut run = beside_a_mix(97.0);
        run.manifest.machine.push(("rotational".into(), rotational.into()));
        run.manifest.machine.push(("measured_random_reads".into(), reads.into()));
        for rep in run.cells.iter_mut().flat_map(|c| &mut c.reps) {
            rep.device.read_bytes = rep.device.read_bytes * 5 / 2;
            rep.measured = doubt::RAISING;
        }
        let a = ask(&run, "desktop");
        (a.sureness, a.hangs_by)
    };
    let doubt = doubt::Doubt { kind: doubt::DoubtKind::NoDisk(40_000), instead: None };
    assert_eq!(with("1", "40000/s"), (Sureness::Likely, vec![doubt]));
    assert_eq!(with("1", "350/s"), (Sureness::Sure, Vec::new()));
    assert_eq!(with("0", "40000/s"), (Sureness::Sure, Vec::new()));
    // A simulated drive tells by its file.
    let of_file = |id: &str| {
        let file = hoistway_sim::drive::DriveFile::load(id).unwrap();
        let mut run = beside_a_mix(97.0);
        run.manifest.world = "sim".into();
        run.manifest.drives[0].parameters = file.table.to_string();
        let doubts = ask(&run, "desktop").hangs_by;
        doubts.iter().any(|d| matches!(d.kind, doubt::DoubtKind::NoDisk(_)))
    };
    assert!(of_file("virtio-blk") && !of_file("hitachi-hts727550a9e364"));
}
