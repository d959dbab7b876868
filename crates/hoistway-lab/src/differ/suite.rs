//! The standing scenarios: small ones that a reader can follow, each about one mechanism.
//!
//! Random scenarios find what nobody thought of; these say what is known to matter, and stay the same from kernel to
//! kernel and from seed to seed.

use hoistway_machine::linux::actor::scenario::{Scenario, What};

/// Their names and texts; written for bfq, which takes all of what they say.
pub static SUITE: &[(&str, &str)] = &[
    ("levels", include_str!("../../scenarios/levels.scenario")),
    ("groups", include_str!("../../scenarios/groups.scenario")),
    ("mixed", include_str!("../../scenarios/mixed.scenario")),
    ("random", include_str!("../../scenarios/random.scenario")),
    ("streams", include_str!("../../scenarios/streams.scenario")),
    ("short-lived", include_str!("../../scenarios/short-lived.scenario")),
    ("interleaved", include_str!("../../scenarios/interleaved.scenario")),
    ("classes", include_str!("../../scenarios/classes.scenario")),
    ("tree", include_str!("../../scenarios/tree.scenario")),
    ("periodic", include_str!("../../scenarios/periodic.scenario")),
    ("buffered", include_str!("../../scenarios/buffered.scenario")),
    ("many", include_str!("../../scenarios/many.scenario")),
    ("moves", include_str!("../../scenarios/moves.scenario")),
    ("tunables", include_str!("../../scenarios/tunables.scenario")),
];

/// The standing scenarios for a scheduler: without weights and tunables, which are bfq's, if it is another.
pub fn suite(scheduler: &str) -> Vec<(&'static str, Scenario)> {
    let one = |&(name, text): &(&'static str, &str)| {
        let mut scenario: Scenario =
            text.parse().unwrap_or_else(|e| panic!("the standing scenario {name}: {e}"));
        if scheduler != "bfq" {
            scenario.scheduler = scheduler.to_string();
            scenario.groups.iter_mut().for_each(|(_, weight)| *weight = None);
            scenario
                .changes
                .retain(|c| matches!(c.what, What::Prio(..) | What::Move(..) | What::Remove(_)));
        }
        (name, scenario)
    };
    SUITE.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_for_every_scheduler() {
        for scheduler in ["bfq", "mq-deadline", "kyber"] {
            let all = suite(scheduler);
            assert_eq!(all.len(), SUITE.len());
            for (name, s) in all {
                assert_eq!(s.scheduler, scheduler);
                assert!(!s.processes.is_empty() && s.length <= 1000, "{name}");
                assert!(hoistway_sim::drive::DriveFile::load(&s.drive).is_ok(), "{name}");
                let sets = s.changes.iter().filter(|c| matches!(c.what, What::Set(..))).count();
                assert!(scheduler == "bfq" || sets == 0, "{name}");
            }
        }
    }
}
