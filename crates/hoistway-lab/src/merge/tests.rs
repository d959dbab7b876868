//! Made-up machines whose right answer is known.

use super::*;
use crate::recommend::tests::{BFQ_FAST, EQUAL, run_on};
use crate::recommend::{Goal, Recommendation};
use crate::result::Kind;

/// A machine: serial, class, model and what each configuration does there.
fn bench(n: u64, model: &str, class: &str, load: &[(f64, f64)]) -> Bench {
    let loads = [(Kind::Interactive, load), (Kind::Throughput, EQUAL)];
    let rows = [
        ("drive_model", model.to_string()),
        ("drive_class", class.to_string()),
        ("drive_serial_hash", format!("{n:04x}")),
        ("kernel", format!("6.{n}")),
        ("present_scheduler", "mq-deadline".into()),
        ("suite", "1 (abcd)".into()),
    ];
    let run = run_on(&loads, 4, 0.02, 40 + n, &rows);
    let name = format!("machine-{n}");
    Bench { name: name.clone(), sources: vec![RunSource { name: format!("{name}/run"), run }] }
}

fn desktop() -> Goal {
    Goal::parse("desktop").unwrap()
}

fn one(benches: &[Bench]) -> Merged {
    merge(benches, &desktop(), None, false).unwrap().remove(0)
}

fn group<'a>(merged: &'a Merged, name: &str) -> &'a Group {
    merged.groups.iter().find(|g| g.name() == name).unwrap()
}

#[test]
fn a_class_with_three_machines_gets_a_default_and_one_with_two_lacks_evidence() {
    let mut benches: Vec<Bench> =
        (1..=3).map(|n| bench(n, &format!("SSD {n}"), "nvme", BFQ_FAST)).collect();
    benches.extend((4..=5).map(|n| bench(n, "Disk", "hdd", BFQ_FAST)));
    let merged = one(&benches);
    let nvme = group(&merged, "class nvme");
    let advice = nvme.advice.as_ref().unwrap();
    assert_eq!(advice.answer, Recommendation::Change(2));
    assert_eq!((nvme.machines.len(), nvme.kernels.len(), nvme.models.len()), (3, 3, 3));
    assert_eq!(nvme.tallies[2], Tally { better: 3, ..Tally::default() });
    let hdd = group(&merged, "class hdd");
    assert_eq!(
        (hdd.advice.is_none(), hdd.lack.as_deref()),
        (true, Some("2 of at least 3 machines"))
    );
    let (files, _) = merged.files();
    assert_eq!(files[0].path, "/etc/udev/rules.d/90-hoistway-defaults.rules");
    assert!(
        files[0].text.contains("nvme[0-9]*") && !files[0].text.contains("sd[a-z]"),
        "{}",
        files[0].text
    );
    assert_eq!(files[0].text.matches("ACTION").count(), 1, "a model like its class needs no rule");
}

#[test]
fn a_model_that_disagrees_with_its_class_has_a_rule_behind_it() {
    let mut benches: Vec<Bench> =
        (1..=9).map(|n| bench(n, &format!("SSD {n}"), "nvme", EQUAL)).collect();
    benches.extend((10..=12).map(|n| bench(n, "Odd", "nvme", BFQ_FAST)));
    let merged = one(&benches);
    let odd = group(&merged, "Odd").advice.as_ref().unwrap();
    assert_eq!(odd.answer, Recommendation::Change(2));
    let class = group(&merged, "class nvme");
    assert_eq!(class.tallies[2].better, 3, "machines that disagree are counted");
    let (files, _) = merged.files();
    assert!(
        files[0].text.trim_end().lines().rev().take(3).any(|l| l.contains("Odd")),
        "{}",
        files[0].text
    );
}

#[test]
fn a_machine_counts_once_however_often_it_was_measured() {
    let twice = |n: u64| bench(n, "SSD", "nvme", BFQ_FAST);
    let mut again = bench(1, "SSD", "nvme", BFQ_FAST);
    again.name = "copy".into();
    let mut later = twice(2);
    later.name = "later".into();
    later.sources[0].run = run_on(
        &[(Kind::Interactive, BFQ_FAST), (Kind::Throughput, EQUAL)],
        4,
        0.02,
        99,
        &[
            ("drive_model", "SSD".into()),
            ("drive_class", "nvme".into()),
            ("drive_serial_hash", "0002".into()),
            ("suite", "1 (abcd)".into()),
        ],
    );
    let merged = one(&[twice(1), again, twice(2), later]);
    assert_eq!(merged.machines.len(), 2);
    assert_eq!(merged.machines[0].copies, ["copy"]);
    assert_eq!(merged.machines[1].benches, ["machine-2", "later"]);
    assert!(group(&merged, "class nvme").advice.is_none(), "two are no evidence");
}

#[test]
fn a_second_bench_with_fewer_configurations_takes_none_from_the_others() {
    let mut benches: Vec<Bench> = (1..=3).map(|n| bench(n, "SSD", "nvme", BFQ_FAST)).collect();
    let whole = one(&benches);
    let mut short = bench(1, "SSD", "nvme", BFQ_FAST);
    short.name = "short".into();
    let run = &mut short.sources[0].run;
    run.manifest.configs.retain(|c| c.id != "bfq");
    run.cells.retain(|c| c.config != "bfq");
    benches.push(short);
    let merged = one(&benches);
    assert_eq!(merged.machines[0].benches, ["machine-1", "short"]);
    let of = |merged: &Merged| {
        let advice = group(merged, "class nvme").advice.clone().unwrap();
        (advice.answer.clone(), format!("{:?}", advice.field.quantities))
    };
    assert_eq!(of(&merged), of(&whole), "its other bench says what all of them do");
    assert_eq!(of(&merged).0, Recommendation::Change(2));
}

#[test]
fn runs_of_another_suite_are_refused_by_name_or_shown_apart() {
    let mut other = bench(9, "SSD", "nvme", EQUAL);
    let rows = &mut other.sources[0].run.manifest.machine;
    rows.iter_mut().find(|r| r.0 == "suite").unwrap().1 = "2 (ffff)".into();
    let all = [bench(1, "SSD", "nvme", EQUAL), other.clone()];
    let error = merge(&all, &desktop(), None, false).unwrap_err();
    assert!(error.0.contains("machine-9") && error.0.contains("2 (ffff)"), "{error}");
    assert_eq!(merge(&all, &desktop(), None, true).unwrap().len(), 2);
    let mut version = bench(3, "SSD", "nvme", EQUAL);
    version.sources[0].run.manifest.version = "0.0.9".into();
    assert!(merge(&[all[0].clone(), version], &desktop(), None, false).is_err());
    let mut mixed = bench(4, "SSD", "nvme", EQUAL);
    mixed.sources.extend(other.sources);
    let error = merge(&[mixed], &desktop(), None, true).unwrap_err();
    assert!(error.0.contains("does not belong there"), "{error}");
}

#[test]
fn a_machine_without_a_configuration_that_most_have_is_left_out_by_name() {
    let mut poor = bench(4, "SSD", "nvme", BFQ_FAST);
    let run = &mut poor.sources[0].run;
    run.manifest.configs.retain(|c| c.id != "bfq");
    run.cells.retain(|c| c.config != "bfq");
    let mut benches: Vec<Bench> = (1..=3).map(|n| bench(n, "SSD", "nvme", BFQ_FAST)).collect();
    benches.push(poor);
    let merged = one(&benches);
    let nvme = group(&merged, "class nvme");
    assert_eq!(
        (nvme.machines.len(), nvme.left_out.clone()),
        (3, vec![(3, "lacks bfq".to_string())])
    );
    assert_eq!(nvme.advice.as_ref().unwrap().answer, Recommendation::Change(2));
}

/// Ten times better on two machines, five times worse on the third: whatever it comes to, it is no default.
#[test]
fn a_doubtful_default_gets_no_rule_and_it_is_said_why() {
    let slow = &[(5.0, 100.0), (5.0, 100.0), (25.0, 80.0)];
    let mut benches: Vec<Bench> =
        (1..=3).map(|n| bench(n, &format!("SSD {n}"), "nvme", BFQ_FAST)).collect();
    assert!(group(&one(&benches), "class nvme").no_rule().is_none());
    benches.push(bench(4, "SSD 4", "nvme", slow));
    let merged = one(&benches);
    let (files, cannot) = merged.files();
    let advice = group(&merged, "class nvme").advice.as_ref().unwrap();
    if advice.answer.config() == Some(2) {
        assert!(files.is_empty() && cannot[0].starts_with("class nvme: bfq: "), "{cannot:?}");
    } else {
        assert!(files.iter().all(|f| !f.text.contains("bfq")), "{files:?}");
    }
}

/// Under each of the limits on the whole, beyond one on two of eight machines.
#[test]
fn a_default_that_machines_rule_out_by_a_limit_gets_no_rule() {
    let with = |n: u64, kept: f64| {
        let mixes = [(5.0, 100.0), (5.0, 100.0), (5.0, kept)];
        let mut bench = bench(n, &format!("SSD {n}"), "nvme", BFQ_FAST);
        let rows: Vec<(String, String)> = bench.sources[0].run.manifest.machine.clone();
        let rows: Vec<(&str, String)> = rows.iter().map(|(n, v)| (n.as_str(), v.clone())).collect();
        let loads = [(Kind::Interactive, BFQ_FAST), (Kind::Throughput, &mixes[..])];
        bench.sources[0].run = run_on(&loads, 4, 0.005, 40 + n, &rows);
        bench
    };
    let all = |poor: usize| -> Merged {
        one(&(1..=8)
            .map(|n| with(n, if n as usize <= poor { 80.0 } else { 100.0 }))
            .collect::<Vec<_>>())
    };
    let (good, two) = (all(0), all(2));
    let answer = |m: &Merged| group(m, "class nvme").advice.as_ref().unwrap().answer.clone();
    assert_eq!((answer(&good), good.files().1.len()), (Recommendation::Change(2), 0));
    assert!(
        good.files().0[0].text.contains("# Measured: 8 machines of 2 workloads"),
        "{:?}",
        good.files().0
    );
    assert_eq!(answer(&two), Recommendation::Change(2));
    let (files, cannot) = two.files();
    assert!(files.is_empty(), "{files:?}");
    assert!(
        cannot[0].ends_with("2 of 8 machines rule it out by a limit of the goal"),
        "{cannot:?}"
    );
    assert_eq!(group(&two, "class nvme").tallies[2].ruled_out, 2);
}
