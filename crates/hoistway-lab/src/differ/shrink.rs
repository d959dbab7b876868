//! From a scenario in which two schedulers differ to a small one in which they still do.
//!
//! Delta debugging by rounds: each round proposes scenarios that are smaller in one way (fewer processes, groups or
//! changes, shorter, shallower, plainer), all of which are recorded at once; the first that still differs is the next
//! round's. It ends when none does. The proposals of a round go from large steps to small ones, so a scenario of 64
//! processes takes a handful of rounds.

use hoistway::unit::IoPrio;
use hoistway_machine::linux::actor::scenario::{IoOrder, Load, Scenario, What};

/// Smaller scenarios, the boldest first.
pub fn proposals(s: &Scenario) -> Vec<Scenario> {
    let mut all = Vec::new();
    let n = s.processes.len();
    let mut part = n.div_ceil(2);
    while part >= 1 && n > 1 {
        for from in (0..n).step_by(part) {
            all.push(without_processes(s, from, (from + part).min(n)));
        }
        if part == 1 {
            break;
        }
        part = part.div_ceil(2);
    }
    if s.length > 20 {
        all.push(shorter(s, s.length / 2));
        all.push(shorter(s, s.length * 4 / 5));
    }
    if s.changes.len() > 1 {
        all.push(Scenario { changes: Vec::new(), ..s.clone() });
    }
    for i in 0..s.changes.len() {
        let mut less = s.clone();
        less.changes.remove(i);
        all.push(less);
    }
    if !s.groups.is_empty() {
        all.push(without_groups(s));
    }
    all.extend((0..n).flat_map(|p| plainer(s, p)));
    all.retain(|smaller| smaller != s && !smaller.processes.is_empty());
    all
}

fn without_processes(s: &Scenario, from: usize, to: usize) -> Scenario {
    let mut less = s.clone();
    less.processes.drain(from..to);
    less.changes.retain_mut(|c| match &mut c.what {
        What::Prio(p, _) | What::Move(p, _) => {
            let gone = (from..to).contains(p);
            if *p >= to {
                *p -= to - from;
            }
            !gone
        }
        What::Set(..)
        | What::Weight(..)
        | What::DeviceWeight(..)
        | What::Remove(_)
        | What::Write(..) => true,
    });
    less
}

fn shorter(s: &Scenario, length: u64) -> Scenario {
    let mut less = Scenario { length, ..s.clone() };
    for p in &mut less.processes {
        p.start = p.start.min(length);
        p.end = p.end.min(length);
    }
    less.changes.retain(|c| c.at < length);
    less
}

fn without_groups(s: &Scenario) -> Scenario {
    let mut less = Scenario { groups: Vec::new(), ..s.clone() };
    less.processes.iter_mut().for_each(|p| p.group = None);
    less.changes
        .retain(|c| matches!(c.what, What::Set(..) | What::Prio(..) | What::Write(None, ..)));
    less
}

/// The same with process `p` plainer in one way.
fn plainer(s: &Scenario, p: usize) -> Vec<Scenario> {
    let with = |change: &dyn Fn(&mut hoistway_machine::linux::actor::scenario::Process)| {
        let mut less = s.clone();
        change(&mut less.processes[p]);
        less
    };
    let mut all = vec![
        with(&|p| p.depth = p.depth.div_ceil(2)),
        with(&|p| p.prio = IoPrio::NONE),
        with(&|p| p.bytes = p.bytes.min(4096)),
        with(&|p| p.end = p.start + (p.end - p.start) / 2),
    ];
    if !matches!(s.processes[p].load, Load::Read | Load::Write) {
        all.push(with(&|p| p.load = Load::Read));
    }
    if s.processes[p].order != IoOrder::Sequential {
        all.push(with(&|p| p.order = IoOrder::Sequential));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::super::generate::scenario;
    use super::*;

    #[test]
    fn every_proposal_is_a_scenario_and_smaller_ones_come_to_an_end() {
        let mut s = scenario("bfq", 3, 11, 20);
        for round in 0.. {
            assert!(round < 200, "{s}");
            let all = proposals(&s);
            for smaller in &all {
                assert_eq!(smaller.to_string().parse(), Ok(smaller.clone()));
            }
            match all.into_iter().next() {
                Some(next) => s = next,
                None => break,
            }
        }
        assert_eq!(s.processes.len(), 1);
    }

    #[test]
    fn changes_follow_the_processes_they_are_about() {
        let text = "scheduler bfq\ndrive x\nlength 100\nprocess end=100 span=4096\nprocess end=100 span=8192\n\
                    at 5 prio 0 rt1\nat 6 prio 1 be2\n";
        let less = without_processes(&text.parse().unwrap(), 0, 1);
        assert_eq!(less.changes.len(), 1);
        assert_eq!(less.changes[0].what, What::Prio(0, IoPrio::be(2)));
    }
}
