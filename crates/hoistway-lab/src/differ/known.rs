//! Differences that are understood and left as they are.

use hoistway::sched::of_module;
use hoistway_replay::Difference;

/// A difference, and whose it is.
#[derive(Debug)]
pub struct Known {
    /// Its name in reports.
    pub name: &'static str,
    /// The scheduler.
    pub scheduler: &'static str,
    /// The rule at which the two part.
    pub rule: &'static str,
    /// Where the rule is described.
    pub specification: &'static str,
    /// Ours is wrong, or does something else on purpose; otherwise the recording cannot tell.
    pub ours: bool,
    /// Is it this one?
    matches: fn(&Difference) -> bool,
}

/// All of them.
pub static KNOWN: &[Known] = &[
    Known {
        name: "numbers of tokens after a shrink",
        scheduler: "kyber",
        rule: "a token is a number below the depth; where the search for a free one begins is random in the kernel once \
               the depth has shrunk, so which of those that are out are below the depth is not known, and so is \
               whether there is another",
        specification: "docs/specs/kyber.md section 5, Get token",
        ours: false,
        matches: |d| d.recorded.starts_with("dispatch,") && more_out_than_there_are(&d.state),
    },
    Known {
        name: "a new queue at the place of another in memory",
        scheduler: "bfq",
        rule: "the queue that is suspected to wake another is remembered by its address, so a new queue at the same \
               address passes for it; which address a new queue gets is not known. Ours gives it that of the queue \
               freed last",
        specification: "docs/specs/bfq.md Q26",
        ours: false,
        matches: |d| d.recorded.starts_with("dispatch,") && wakes_by_number(&d.state),
    },
];

/// The queue in service has a waker, or is one, that was found by a number which two queues have had.
fn wakes_by_number(state: &str) -> bool {
    let in_service = state.strip_prefix("in service ").and_then(|rest| rest.split(',').next());
    let Some(in_service) = in_service else { return false };
    let queue = format!("queue {in_service}:");
    let wakes = format!(" waker {in_service} by its number");
    let found = |line: &str| line.ends_with(" by its number");
    state.lines().any(|line| (line.starts_with(&queue) && found(line)) || line.ends_with(&wakes))
}

/// Some domain of kyber's has at least as many tokens out as its depth, which was changed.
fn more_out_than_there_are(state: &str) -> bool {
    let figure = |name: &str, domain: u32| -> Option<u64> {
        let head = format!("{name}[{domain}] = ");
        state.lines().find_map(|line| line.strip_prefix(&head))?.parse().ok()
    };
    (0..3).any(|domain| {
        figure("adjusted", domain).is_some_and(|n| n > 0)
            && figure("outstanding", domain) >= figure("depth", domain)
    })
}

/// The listed difference that this is.
pub fn find(scheduler: &str, difference: &Difference) -> Option<&'static Known> {
    let scheduler = of_module(scheduler).map_or(scheduler, |of| of.name);
    KNOWN.iter().find(|k| k.scheduler == scheduler && (k.matches)(difference))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_dispatch_of_kyber_after_a_shrink_is_listed() {
        let state = |depth, out, adjusted| {
            format!("depth[1] = {depth}\noutstanding[1] = {out}\nadjusted[1] = {adjusted}\n")
        };
        let difference = |recorded: &str, state: String| Difference {
            line: 9,
            recorded: recorded.to_string(),
            ours: "dispatched 3".to_string(),
            state,
        };
        let listed = |d: &Difference| find("kyber", d).is_some();
        assert!(listed(&difference("dispatch,1,1,,,,,,,,,", state(16, 32, 2))));
        assert!(!listed(&difference("dispatch,1,1,,,,,,,,,", state(16, 15, 2))));
        assert!(!listed(&difference("dispatch,1,1,,,,,,,,,", state(128, 128, 0))));
        assert!(!listed(&difference("timer,1,1,,,,,,,,,", state(16, 32, 2))));
        let other = difference("dispatch,1,1,,,,,,,,,", state(16, 32, 2));
        assert!(find("bfq", &other).is_none());
    }

    #[test]
    fn a_waker_found_by_its_number_is_listed_where_it_is_waited_for() {
        let listed = |recorded: &str, ours: &str| {
            let state = format!("in service 7, queued 1\nqueue 3: base 0\nqueue 7: base 0{ours}\n");
            let (recorded, ours) = (recorded.to_string(), "dispatched 3".to_string());
            let known = find("bfq", &Difference { line: 9, recorded, ours, state });
            known.map(|k| (k.name, k.ours))
        };
        let name = Some(("a new queue at the place of another in memory", false));
        assert_eq!(listed("dispatch,1,1,,,,,,,,,", " waker 3 by its number"), name);
        assert_eq!(
            listed("dispatch,1,1,,,,,,,,,", "\nqueue 9: base 0 waker 7 by its number"),
            name
        );
        assert_eq!(
            listed("dispatch,1,1,,,,,,,,,", "\nqueue 9: base 0 waker 3 by its number"),
            None
        );
        assert_eq!(listed("dispatch,1,1,,,,,,,,,", ""), None);
        assert_eq!(listed("limit,1,1,,,,,,,,,", " waker 3 by its number"), None);
    }
}
