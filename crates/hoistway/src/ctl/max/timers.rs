//! The timers of all parents, on the kernel's wheel (specs/groups-and-priorities.md 1.1).

use crate::ctl::TickTimers;
use crate::table::NIL;
use crate::tree::{Key, Nodes, Tree};
use alloc::vec::Vec;

/// When a timer fires: the tick, and its order among those of that tick.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct FireOrder(u64, u64);

impl Key for FireOrder {
    fn before(&self, other: &FireOrder) -> bool {
        self < other
    }
}

/// At most one timer per group.
#[derive(Debug)]
pub(super) struct Timers {
    pub kind: TickTimers,
    tree: Tree,
    nodes: Nodes<FireOrder>,
    /// The tick that each is set for.
    wanted: Vec<u64>,
    settings: u64,
    /// The last tick at which any fired.
    fired: Option<u64>,
}

impl Timers {
    /// None set.
    pub fn new() -> Timers {
        Timers {
            kind: TickTimers::default(),
            tree: Tree::new(),
            nodes: Nodes::new(0),
            wanted: Vec::new(),
            settings: 0,
            fired: None,
        }
    }

    /// Makes room for so many groups.
    pub fn grow(&mut self, groups: usize) {
        self.nodes.grow(groups);
        self.wanted.resize(groups, 0);
    }

    /// Sets the timer of a group for a tick; one that is set is moved, unless it fires at that edge
    /// already. One that is set for the same tick stays, even if a finer resolution would do by now.
    pub fn set(&mut self, group: u32, now: u64, for_tick: u64) {
        let before = core::mem::replace(&mut self.wanted[group as usize], for_tick);
        if self.nodes.linked(group) && before == for_tick {
            return;
        }
        self.settings += 1;
        let wheel = self.kind.wheel(now, for_tick, self.fired == Some(now));
        let (edge, order) = self.kind.place(wheel, for_tick, self.settings);
        if self.nodes.linked(group) {
            if self.nodes.key(group).0 == edge {
                return;
            }
            self.tree.remove(&mut self.nodes, group);
        }
        self.tree.insert(&mut self.nodes, group, FireOrder(edge, order), ());
    }

    /// The tick of the next one.
    pub fn next(&self) -> Option<u64> {
        let first = self.tree.first();
        (first != NIL).then(|| self.nodes.key(first).0)
    }

    /// Takes the next one that is due.
    pub fn take_due(&mut self, now: u64) -> Option<u32> {
        let first = self.tree.first();
        if first == NIL || self.nodes.key(first).0 > now {
            return None;
        }
        self.tree.remove(&mut self.nodes, first);
        self.fired = Some(now);
        Some(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// specs/groups-and-priorities.md 1.1: seen in Linux 6.1, where a sibling's settings were written meanwhile.
    #[test]
    fn a_timer_that_is_set_for_the_same_tick_again_keeps_its_coarse_edge() {
        let mut timers = Timers::new();
        timers.grow(2);
        timers.set(0, 1000, 1125);
        assert_eq!(timers.next(), Some(1128));
        timers.set(0, 1100, 1125);
        assert_eq!(timers.next(), Some(1128));
        timers.set(0, 1100, 1124);
        assert_eq!(timers.next(), Some(1125));
    }

    /// Scenario 27 of specs/io-max-throttling.md, in Linux 6.1 and 6.12.
    #[test]
    fn a_timer_set_63_ticks_ahead_is_fine_where_another_has_fired_in_this_tick() {
        let mut timers = Timers::new();
        timers.grow(2);
        timers.set(0, 1000, 1063);
        assert_eq!(timers.next(), Some(1064));
        timers.set(0, 1001, 1064);
        assert_eq!(timers.next(), Some(1072));
        assert_eq!(timers.take_due(1072), Some(0));
        timers.set(0, 1072, 1135);
        assert_eq!(timers.next(), Some(1136));
        assert_eq!(timers.take_due(1136), Some(0));
        timers.set(0, 1136, 1200);
        assert_eq!(timers.next(), Some(1208));
        // What has passed fires at the next edge all the same.
        timers.set(0, 1136, 1130);
        assert_eq!(timers.next(), Some(1137));
    }
}
