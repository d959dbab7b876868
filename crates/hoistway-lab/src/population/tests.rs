use super::*;
use hoistway::Nanos;

#[test]
fn drives_and_loads_of_a_thousand_seeds_are_valid_and_differ() {
    let mut classes: BTreeMap<&str, u32> = BTreeMap::new();
    let mut rates = Vec::new();
    for number in 0..1000 {
        // Measuring for [iocost] is most of the time, and not what is tested here.
        let drawn = drive::draw_unmeasured(1, number);
        *classes.entry(drawn.class).or_default() += 1;
        rates.push(drawn.file.link.read_rate as u64);
        let load = load::draw(1, number, &drawn);
        let experiment = Experiment::parse("x.toml", &load.text);
        let experiment = experiment.unwrap_or_else(|e| panic!("{number}: {e}\n{}", load.text));
        let config = Config::parse(REFERENCE).unwrap();
        for workload in &experiment.workloads {
            let job = experiment.job(&drawn.file, workload, &config, 1, &Options::default());
            let mut job = job.unwrap_or_else(|e| panic!("{number}: {e}\n{}", load.text));
            // Parameters of loads are checked when a run is set up.
            if number < 100 {
                (job.window.ramp, job.window.measured) = (Nanos::ZERO, Nanos::ms(1));
                let run = hoistway_sim::world::run(&job, &mut |_| true);
                run.unwrap_or_else(|e| panic!("{number}: {e}\n{}", load.text));
            }
        }
    }
    assert_eq!(classes.len(), 6, "{classes:?}");
    assert!(classes.values().all(|&n| n > 20), "{classes:?}");
    rates.sort_unstable();
    rates.dedup();
    assert!(rates.len() > 400, "{} rates", rates.len());
}

#[test]
fn a_case_is_a_function_of_seed_and_number() {
    let of = |seed, number| {
        let case = Case::draw(seed, number);
        (case.drive_text, case.experiment.text)
    };
    assert_eq!(of(1, 3), of(1, 3));
    assert_ne!(of(1, 3).0, of(1, 4).0);
    assert_ne!(of(1, 3).1, of(2, 3).1);
    // The file says what the case ran: read again, it is the same drive.
    let case = Case::draw(1, 3);
    let again = DriveFile::parse("random-1-3.toml", &case.drive_text).unwrap();
    assert_eq!((again.id.as_str(), &again.table), (case.drive.id.as_str(), &case.drive.table));
}

#[test]
fn halves_have_no_case_in_common() {
    assert_eq!(Half::Design.numbers(3), [0, 2, 4]);
    assert_eq!(Half::Report.numbers(3), [1, 3, 5]);
    assert_eq!(Half::All.numbers(3), [0, 1, 2]);
}

#[test]
fn quantiles_are_linear_between_neighbours() {
    assert_eq!(quantiles(&[3.0, 1.0, 2.0], &[0.0, 0.25, 0.5, 1.0]), [1.0, 1.5, 2.0, 3.0]);
    assert!(quantiles(&[], &[0.5]).is_empty());
}

fn figures(total: f64, mean: Option<f64>, bytes: &[u64]) -> Figures {
    Figures {
        total,
        others: total / 2.0,
        mean,
        p99: mean,
        max: mean,
        ios: 1.0,
        bytes: bytes.to_vec(),
    }
}

fn finished(question: Question, runs: &[(&str, Figures)], weights: &[u64]) -> Finished {
    let runs = runs.iter().map(|(n, f)| (n.to_string(), f.clone())).collect();
    Finished { question, runs, weights: weights.to_vec(), ..Finished::empty() }
}

#[test]
fn worth_is_told_against_none_and_against_the_lone_target() {
    let runs = [
        (REFERENCE, figures(100.0, Some(50.0), &[])),
        (ALONE, figures(1.0, Some(2.0), &[])),
        ("x", figures(90.0, Some(6.0), &[])),
    ];
    let case = finished(Question::Latency, &runs, &[]);
    let worth = case.worth("x").unwrap();
    assert_eq!((worth.total, worth.mean, worth.share_error), (0.9, Some(3.0), None));
    assert_eq!(case.worth("y"), None, "it did not run");
    let runs = [(REFERENCE, figures(100.0, None, &[5, 5])), ("x", figures(100.0, None, &[30, 70]))];
    let case = finished(Question::Weights, &runs, &[100, 300]);
    let error = case.worth("x").unwrap().share_error.unwrap();
    assert!((error - 5.0).abs() < 1e-9, "30 % where 25 % are due: {error}");
    let demands = summary::demands(&[case], "x");
    let unmet: Vec<&str> = demands.iter().filter(|d| !d.met()).map(|d| &*d.what).collect();
    assert_eq!(demands.len(), 5, "nobody has a lone latency");
    assert!(
        unmet.len() == 2 && unmet.iter().all(|what| what.contains("error of a share")),
        "{unmet:?}"
    );
}

/// A drive of 528 MB/s and 0.146 ms: at 95 % of the others 4 KiB are possible below four lone ones, 64 KiB are not, and on a
/// disk nothing beside streams.
#[test]
fn cases_that_bounds_exclude_do_not_count_against_a_configuration() {
    let case = |class: &str, beside: &str, block: f64| {
        let ios = 1.0 / 146e-6;
        let alone = Figures { ios, ..figures(ios * block, Some(146e3), &[]) };
        let runs = [
            (REFERENCE, figures(528e6, Some(40e6), &[])),
            (ALONE, alone),
            ("x", figures(528e6, Some(300e3), &[])),
        ];
        let (class, load) = (class.into(), format!("1 x target (pattern=rand) beside {beside}"));
        Finished { class, load, ..finished(Question::Latency, &runs, &[]) }
    };
    let (seq, rand) = ("2 x reader (pattern=seq)", "2 x hog (pattern=rand)");
    let cases = [
        case("sata", seq, 4096.0),
        case("sata", seq, 65536.0),
        case("disk", rand, 4096.0),
        case("disk", seq, 4096.0),
    ];
    let demand = LatencyDemand { loss: 0.05, factor: 4.0 };
    let allowed: Vec<Option<bool>> = cases.iter().map(|c| c.allows(demand)).collect();
    assert_eq!(allowed, [Some(true), Some(false), Some(true), Some(false)]);
    let demands = summary::demands(&cases, "x");
    let below = demands.iter().find(|d| d.what.contains("of the 2 cases")).unwrap();
    assert!(below.met() && below.is == 100.0, "{below:?}");
}
