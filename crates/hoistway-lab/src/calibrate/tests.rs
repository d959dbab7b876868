use super::*;
use hoistway_sim::probe::{Action, Latencies, Pattern, SimProbe, Stream, StreamOutcome};

/// The answers of a simulated drive, whose dice are not those of the fit.
fn asked(id: &str, write: bool) -> Raw {
    let file = DriveFile::load(id).unwrap();
    let subject = subject_of(&file);
    let options = SuiteOptions { quick: true, write, write_budget: 1 << 34, seed: 1 };
    let tests = suite(&subject, &options);
    let mut raw = Raw::new(subject);
    let mut probe = SimProbe::new(&file, 99).with_places(1);
    measure(&mut probe, &tests, 1, &mut raw, &mut |_| Ok(())).unwrap();
    assert!(raw.answers.len() > tests.len() / 2);
    raw
}

fn how(id: &str) -> FindOptions {
    FindOptions { id: "found".into(), model: None, exclude: vec![id.into()], seed: 1 }
}

#[test]
fn a_metered_volume_is_found_from_its_answers_and_by_another_class() {
    let raw = asked("cloud-gp3", false);
    let found = find(&raw, &how("cloud-gp3")).unwrap();
    assert_eq!((found.choice.model, found.choice.class.as_str()), ("bucket", "fixed-100us"));
    let near = |key: &str, wanted: f64| {
        let got = found.file.f64("bucket", key);
        assert!(
            (got / wanted - 1.0).abs() < 0.1,
            "{key} = {got}, {wanted} is right\n{}",
            found.text
        );
    };
    near("iops", 3000.0);
    near("bytes_mb_s", 131.072);
    near("read_us", 550.0);
    assert!(found.quality.mean_error < 0.15, "{}", found.quality.sentence());
    assert!(
        found.guessed.contains(&"bucket.write_us".to_string()),
        "read only: {:?}",
        found.guessed
    );
    assert!(found.text.contains("guessed: as fixed-100us"));
    assert_eq!(find(&raw, &how("cloud-gp3")).unwrap().text, found.text, "the same answers");
}

#[test]
fn answers_that_are_there_are_not_asked_for_again() {
    let file = DriveFile::load("fixed-100us").unwrap();
    let subject = subject_of(&file);
    let options = SuiteOptions { quick: true, write: false, write_budget: 0, seed: 1 };
    let tests = &suite(&subject, &options)[..3];
    let mut raw = Raw::new(subject);
    let mut probe = SimProbe::new(&file, 1);
    let mut heard = 0;
    // The second test is interrupted.
    let stopped = measure(&mut probe, tests, 1, &mut raw, &mut |step| {
        heard += u32::from(matches!(step, MeasureStep::Begins { .. }));
        if heard == 2 { Err(ProbeError::Interrupted) } else { Ok(()) }
    });
    assert_eq!((stopped, raw.answers.len()), (Err(ProbeError::Interrupted), 1));
    let text = serde_json::to_string(&raw).unwrap();
    let mut raw: Raw = serde_json::from_str(&text).unwrap();
    let mut again = Vec::new();
    measure(&mut probe, tests, 1, &mut raw, &mut |step| {
        if let MeasureStep::Begins { test, .. } = step {
            again.push(test.name.clone());
        }
        Ok(())
    })
    .unwrap();
    assert_eq!(again, tests[1..].iter().map(|t| t.name.clone()).collect::<Vec<_>>());
}

#[test]
fn nothing_writes_unless_it_is_allowed_and_each_test_has_a_name_of_its_own() {
    for id in ["hitachi-hts727550a9e364", "plextor-px-256m5s"] {
        let subject = subject_of(&DriveFile::load(id).unwrap());
        for (quick, write) in [(true, false), (true, true), (false, true)] {
            let options = SuiteOptions { quick, write, write_budget: 1 << 34, seed: 1 };
            let tests = suite(&subject, &options);
            assert_eq!(tests.iter().any(Test::writes), write);
            let mut names: Vec<_> = tests.iter().map(|t| &t.name).collect();
            names.sort();
            names.dedup();
            assert_eq!(names.len(), tests.len(), "{id}");
            for stream in tests.iter().flat_map(|t| &t.streams) {
                let (start, len) = stream.area;
                assert!(start + len <= subject.capacity && stream.bytes <= len, "{stream:?}");
            }
        }
    }
}

#[test]
fn what_every_shipped_drive_says_of_itself_makes_a_valid_file_of_its_class() {
    for id in DriveFile::ids() {
        let file = DriveFile::load(id).unwrap();
        let candidate = Candidate::new("found", &subject_of(&file), &file);
        let text = candidate.text(&["head".into()], "good");
        let read = DriveFile::parse("found.toml", &text).unwrap_or_else(|e| panic!("{id}: {e}"));
        assert_eq!(read.identity.capacity_bytes, file.identity.capacity_bytes);
        assert_eq!(read.host.queue_depth, file.host.queue_depth);
    }
}

#[test]
fn a_starved_stream_is_judged_by_its_throughput() {
    let stream = Stream::new(Action::Read, Pattern::Random, 4096, (0, 1 << 30));
    let streams = vec![stream.clone()];
    let test = Test {
        name: "H9/reader".into(),
        streams,
        warm_up_ns: 0,
        duration_ns: 1 << 32,
        commands_max: 0,
    };
    let outcome = |count: u64| {
        let commands = Latencies::of(&mut vec![10_000_000; count as usize]);
        let of = StreamOutcome { commands, bytes: 4096 * count, ..StreamOutcome::default() };
        Outcome { counted_ns: 1_000_000_000, streams: vec![of] }
    };
    let what = |test: &Test, count| fit::rows(test, &outcome(count), &outcome(count))[0].what;
    assert_eq!(what(&test, 95), "mean latency");
    // Thirty reads of 10 ms, and then none for 0.7 s.
    assert_eq!(what(&test, 30), "throughput");
    let paused = Stream { pause_ns: 1_000_000, ..stream };
    assert_eq!(what(&Test { streams: vec![paused], ..test }, 30), "mean latency");
}

#[test]
fn the_machine_that_asks_is_not_the_drive() {
    let file = DriveFile::load("plextor-px-256m5s").unwrap();
    let subject = subject_of(&file);
    let options = SuiteOptions { quick: true, write: true, write_budget: 1 << 30, seed: 1 };
    let tests = suite(&subject, &options).into_iter().filter(|t| t.name.starts_with("F8/"));
    let tests: Vec<Test> = tests.collect();
    let mut raw = Raw::new(subject);
    let mut probe = SimProbe::new(&file, 99).with_places(1).with_reaction(100_000);
    measure(&mut probe, &tests, 1, &mut raw, &mut |_| Ok(())).unwrap();
    let fit = Fit { raw: &raw, seed: 1, shape: 0.0 };
    let asked = |reaction_us| {
        let mut c = Candidate::new("found", &raw.subject, &file);
        c.reaction_us = reaction_us;
        fit.error_of(&c, &fit.tests(&["F8"]))
    };
    assert!(asked(100.0) < 0.01 && asked(0.0) > 0.2, "{} {}", asked(100.0), asked(0.0));
}

#[test]
fn a_fit_is_poor_when_a_deciding_figure_of_many_latencies_is_off() {
    let row = |test: &str, simulated, count| FitRow {
        test: test.into(),
        what: "mean latency",
        unit: "us",
        measured: 100.0,
        simulated,
        count: Some(count),
        demerit: Some(0.1),
    };
    let good = quality(&[row("F1", 110.0, 500), row("F3/8k", 150.0, 500)]);
    assert!(good.good && good.deciding == 1, "F3 does not decide");
    assert!(good.sentence().contains("not deciding: F3/8k mean latency +50 %"), "but is told");
    let few = quality(&[row("F1", 150.0, 10)]);
    assert!(few.good && few.deciding == 0, "ten latencies are no mean");
    assert_eq!(undecided(&row("F1", 150.0, 10)).as_deref(), Some("10 latencies"));
    let poor = quality(&[row("F1", 150.0, 500)]);
    assert!(!poor.good && poor.sentence().contains("F1 mean latency +50 %"), "{}", poor.sentence());
}
