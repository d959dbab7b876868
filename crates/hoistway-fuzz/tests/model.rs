//! The fuzzer itself: what it makes, prints, finds and shrinks.

use hoistway_fuzz::source::Rng;
use hoistway_fuzz::{Case, make, run, run_traced, shrink};

#[test]
fn a_case_is_read_back_as_it_was_printed() {
    for seed in 0..300 {
        let case = make::case(&mut Rng::new(seed), 200);
        let text = case.to_string();
        assert_eq!(Case::parse(&text).as_ref(), Ok(&case), "seed {seed}\n{text}");
    }
}

#[test]
fn a_script_that_is_wrong_is_refused_by_line() {
    let wrong = [
        ("scheduler nobody", "line 1: no scheduler 'nobody'"),
        ("scheduler none\n\ndepht 3", "line 3: 'depht' is no field"),
        ("depth 100000", "line 1: depth 100000 is above 1024"),
        ("[5] tick\n[4] tick", "line 2: time 4 lies before"),
        ("[0] done", "line 1: command is missing"),
        ("[0] submit write 0+8 color=3", "line 1: no 'color'"),
        ("[0] jump", "line 1: no operation 'jump'"),
        ("[0 tick", "line 1: a time ends with ']'"),
        ("[0] tick tock", "line 1: 'tock' is too much"),
        ("[0] prio 1 rt9", "line 1: no priority 'rt9'"),
    ];
    for (text, message) in wrong {
        let error = Case::parse(text).expect_err(text);
        assert!(error.starts_with(message), "{error}");
    }
}

/// BFQ waits for the next request of the queue in service: a rule that forbids this is broken, and the
/// case that breaks it shrinks to what matters.
#[test]
fn a_finding_shrinks_to_what_matters() {
    let mut found = 0;
    for seed in 0..400 {
        let mut case = make::case(&mut Rng::new(seed), 300);
        if case.scheduler != "bfq" {
            continue;
        }
        case.set("still_ms", 4);
        let Err(failure) = run(&case) else { continue };
        if !failure.broken.rule.contains("no longer than still_ms") {
            continue;
        }
        let (small, how) = shrink::shrink(&case, &failure, || true);
        assert_eq!(how.broken.rule, failure.broken.rule);
        assert_eq!(run(&small).unwrap_err(), how, "the script breaks the rule by itself");
        let again = Case::parse(&small.to_string()).unwrap();
        assert_eq!(run(&again).unwrap_err(), how);
        assert!(small.steps.len() <= 12, "seed {seed}:\n{small}");
        found += 1;
    }
    assert!(found > 3, "{found}");
}

#[test]
fn cases_do_a_bit_of_everything() {
    let (mut switched, mut merged, mut held, mut requeued, mut barriers) = (0, 0, 0, 0, 0);
    for seed in 0..400 {
        let case = make::case(&mut Rng::new(seed), 400);
        let (_, records) = run_traced(&case);
        for record in records {
            use hoistway::trace::Event;
            match record.event {
                Event::Merged { .. } | Event::Joined { .. } => merged += 1,
                Event::Held { .. } => held += 1,
                Event::Requeued { .. } => requeued += 1,
                _ => {}
            }
        }
        let text = case.to_string();
        switched += text.matches("switch ").count();
        barriers += text.matches("BARRIER").count();
    }
    let counts = [switched, merged, held, requeued, barriers];
    assert!(counts.iter().all(|&n| n > 300), "{counts:?}");
}
