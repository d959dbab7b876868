//! Every entry of the registry keeps the contract of `Scheduler` (`hoistway::testkit::contract`, where the rules are).

#[path = "common/counting.rs"]
mod counting;

use hoistway::sched::{Dispatch, SCHEDULERS};
use hoistway::testkit::contract::{self, Harness, RULES};

/// The rule of that name, over every entry.
fn all_keep(name: &str) {
    let (_, rule) = RULES.iter().find(|(known, _)| *known == name).expect("a rule of that name");
    SCHEDULERS.iter().for_each(|entry| rule(entry));
}

/// A test for each rule: they run side by side, and a failure names its rule.
macro_rules! rules {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            all_keep(stringify!($name));
        })*

        #[test]
        fn every_rule_has_a_test() {
            let tested = [$(stringify!($name)),*];
            assert_eq!(RULES.iter().map(|(name, _)| *name).collect::<Vec<_>>(), tested);
        }
    };
}

rules! {
    an_empty_scheduler_says_so
    one_request_comes_out_once
    a_full_table_empties
    draining_hands_over_everything_at_once
    random_loads_lose_nothing_and_repeat_nothing
    the_same_seed_gives_the_same_run
    an_early_timer_changes_no_order
    tunables_take_their_ends_and_nothing_beyond
    a_fresh_instance_has_its_defaults
    an_unknown_tunable_is_refused_by_name
    insertion_at_the_head_goes_before_all_that_waits
    a_groups_tunable_takes_its_ends_and_goes_back_to_its_default
    a_file_of_a_group_takes_a_line_whole_or_not_at_all
    queues_of_processes_are_those_the_trace_has_told
}

#[test]
fn steady_state_allocates_nothing() {
    for entry in SCHEDULERS {
        contract::steady_state_allocates_nothing(entry, &counting::allocations);
    }
}

#[test]
fn registry_names_are_unique_and_sourced() {
    for (i, entry) in SCHEDULERS.iter().enumerate() {
        assert!(SCHEDULERS[..i].iter().all(|e| e.name != entry.name));
        assert!(!entry.summary.is_empty() && entry.source.contains("specs/"), "{}", entry.name);
        assert!(hoistway::sched::find(entry.name).is_some());
        assert!(entry.tunables.iter().all(|t| !t.doc.is_empty()), "{}", entry.name);
    }
}

#[test]
fn nobody_stands_still_by_default() {
    let mut stopping = Vec::new();
    for entry in SCHEDULERS {
        for t in entry.tunables {
            let Some(value) = t.stops_at else { continue };
            assert!(t.check(value).is_ok() && value != t.default, "{}: {}", entry.name, t.name);
            stopping.push((entry.name, t.name));
        }
    }
    assert_eq!(stopping, [("k2", "max_inflight"), ("k2", "base")]);
}

/// `k2` as published does not keep the contract (specs/k2.md Q2): each request that is given back is counted as out for
/// ever, so that in the end nothing goes out. Its default mends that; the other tests are of the default.
#[test]
fn published_k2_loses_service() {
    let mut h = Harness::new(hoistway::sched::find("k2").unwrap(), 1, 4);
    h.sched.set(h.now, "base", 0, &mut h.env.cx()).unwrap();
    h.sched.set(h.now, "max_inflight", 3, &mut h.env.cx()).unwrap();
    for lost in 0..3 {
        assert!(h.submit());
        assert!(matches!(h.dispatch(0), Dispatch::Issue(_)), "{lost} lost");
        h.give_back(0);
        if lost < 2 {
            assert!(matches!(h.dispatch(0), Dispatch::Issue(_)), "{lost} lost, and given back");
            h.finish(0);
        }
    }
    assert!(h.flying.is_empty() && h.waiting > 0);
    assert_eq!(h.dispatch(0), Dispatch::Idle, "the drive is idle, and what waits stays");
    h.run_dry();
}
