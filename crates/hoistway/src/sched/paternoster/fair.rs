//! Shares: start-time fair queueing over a tree of groups.
//!
//! *Problem.* Behind the valve somebody has to be chosen, and groups were promised shares by weight, at every level
//! of the tree.
//!
//! *Idea.* Start-time fair queueing (Goyal, Vin, Cheng 1996) at each level: everybody has a start tag, the smallest is
//! served, and pays `service / weight` on its tag. A *leaf* is what one process submits to one group, sync and async
//! apart; leaves and child groups of a group compete with each other, a leaf with the weight of a group nobody
//! configured.
//!
//! *State.* A tag per leaf and group; the virtual time of each group, which is the largest tag that was *chosen* in
//! it; the children with greedy requests in a tournament of tags.
//!
//! *Rule.* Who becomes backlogged takes max(own tag, virtual time): idle time earns nothing. A group with a weight
//! of its own takes max(own tag, virtual time - C/weight) instead. Without that claim a process whose only request is in
//! the drive would give its turn away with each request, and its weight would be worth nothing. Virtual time follows
//! only choices by tag, not services that merely go on (a row, a slice): if it followed those, the claims of all
//! others would be cancelled at the end of each, and every share come out equal.
//!
//! *Guarantee.* Two leaves that stay backlogged differ in `service / weight` by at most
//! `(u_max + row) (1/w_i + 1/w_j)`; likewise siblings at each level, by C (1/w_i + 1/w_j) more where claims are kept.
//!
//! *Cost.* O(depth x log children) a request; no allocation but for a new leaf or group.

mod leaf;

use super::measure::Units;
use super::tournament::Tournament;
use crate::group::{GroupId, ProcId};
use crate::list::Links;
use crate::rows::{Id, Rows, ids};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
pub(super) use leaf::Leaf;

ids! {
    /// Requests of one process to one group, sync or async.
    LeafId;
}

/// The weight of a group nobody configured, and of every leaf.
pub(super) const WEIGHT: u32 = 100;
/// Service is kept in this part of a sixteenth of a unit, so that 64 bits last for 30 years of 7 GB/s at weight 1.
const SCALE: u64 = 1 << 10;

/// Of a tag, in which parts are counted.
const PART: u64 = 1 << 10;
/// Children of the root whose weights make a mean; one of many needs no more.
const MEAN_OF: usize = 64;

/// A place in the queue of its parent: a leaf or a group.
#[derive(Clone, Copy, Debug)]
struct StartTag {
    start: u64,
    weight: u32,
    /// Rest of the last division.
    rest: u32,
}

impl StartTag {
    const NEW: StartTag = StartTag { start: 0, weight: WEIGHT, rest: 0 };

    /// Where it stands in a queue at `vtime`: its own tag, or the virtual time, less `claim` if its weight is its own.
    fn at(&self, vtime: u64, claim: Units) -> u64 {
        if self.weight == WEIGHT {
            return self.start.max(vtime);
        }
        let kept = claim.0 * SCALE / u64::from(self.weight);
        self.start.max(vtime.saturating_sub(kept))
    }

    /// Pays for `units` from there on.
    fn pay(&mut self, vtime: u64, claim: Units, units: u64) {
        let due = units * SCALE + u64::from(self.rest);
        let weight = u64::from(self.weight);
        self.start = self.at(vtime, claim) + due / weight;
        self.rest = (due % weight) as u32;
    }
}

/// A group.
#[derive(Clone, Debug)]
struct FairGroup {
    parent: GroupId,
    tag: StartTag,
    /// In the tournament of its parent.
    seat: u32,
    vtime: u64,
    /// Children with greedy requests: leaves with even numbers, groups with odd ones.
    children: Tournament,
    /// Of those children.
    weights: u64,
    gone: bool,
}

/// Leaves, groups and their tags.
#[derive(Debug)]
pub(super) struct Fair {
    groups: Rows<GroupId, FairGroup>,
    leaves: Rows<LeafId, Leaf>,
    free: Vec<LeafId>,
    by_owner: BTreeMap<(ProcId, GroupId, bool), LeafId>,
    /// The leaf a process used last, sync and async: saves the look-up.
    last: Vec<[LeafId; 2]>,
    /// Greedy requests that wait.
    waiting: u32,
    /// Backlogged leaves, and those of them that stream.
    backlogged: u32,
    streams: u32,
    /// Groups with a weight of their own.
    weighted: u32,
    /// Work that a group with a weight of its own keeps a claim to while it is empty.
    pub claim: Units,
}

impl Fair {
    pub fn new() -> Fair {
        let mut fair = Fair {
            groups: Rows::new(),
            leaves: Rows::new(),
            free: Vec::new(),
            by_owner: BTreeMap::new(),
            last: Vec::new(),
            waiting: 0,
            backlogged: 0,
            streams: 0,
            weighted: 0,
            claim: Units(0),
        };
        fair.add_group(GroupId::ROOT, GroupId::NONE);
        fair
    }

    pub fn leaf(&self, id: LeafId) -> &Leaf {
        &self.leaves[id]
    }

    pub fn leaf_mut(&mut self, id: LeafId) -> &mut Leaf {
        &mut self.leaves[id]
    }

    /// Greedy requests that wait.
    pub fn waiting(&self) -> u32 {
        self.waiting
    }

    /// The next group comes into being below `parent`.
    pub fn add_group(&mut self, group: GroupId, parent: GroupId) {
        debug_assert_eq!(group, self.next_group());
        let seat = if parent.is_some() { self.groups[parent].children.seat() } else { 0 };
        let (tag, children) = (StartTag::NEW, Tournament::new());
        self.groups.push(FairGroup {
            parent,
            tag,
            seat,
            vtime: 0,
            children,
            weights: 0,
            gone: false,
        });
    }

    /// The first that is not known.
    pub fn next_group(&self) -> GroupId {
        GroupId(self.groups.len() as u32)
    }

    pub fn knows(&self, group: GroupId) -> bool {
        self.groups.len() > group.index()
    }

    /// Has the leaf's group, or one above it, a weight of its own?
    pub fn is_weighted(&self, id: LeafId) -> bool {
        let mut group = self.leaves[id].group;
        while group != GroupId::ROOT {
            let node = &self.groups[group];
            if node.tag.weight != WEIGHT {
                return true;
            }
            group = node.parent;
        }
        false
    }

    /// What the group is ahead of its siblings was paid at the old weight: the distance is rescaled, or a group that
    /// was far ahead at weight 1 would stay so at 10000.
    pub fn set_weight(&mut self, group: GroupId, weight: u32) {
        let node = &self.groups[group];
        let parent = node.parent;
        let vtime = if parent.is_some() { self.groups[parent].vtime } else { 0 };
        let tag = &mut self.groups[group].tag;
        let ahead = tag.start.saturating_sub(vtime);
        let scaled = u128::from(ahead) * u128::from(tag.weight) / u128::from(weight);
        tag.start = tag.start - ahead + u64::try_from(scaled).unwrap_or(u64::MAX / 2);
        self.weighted -= u32::from(tag.weight != WEIGHT);
        self.weighted += u32::from(weight != WEIGHT);
        let before = core::mem::replace(&mut tag.weight, weight);
        tag.rest = 0;
        let (start, seat) = (tag.start, self.groups[group].seat);
        if parent.is_some() && self.groups[parent].children.is_taken(seat) {
            let node = &mut self.groups[parent];
            node.weights = node.weights + u64::from(weight) - u64::from(before);
            node.children.leave(seat);
            node.children.enter(seat, start, 2 * group.0 + 1);
        }
    }

    /// The group goes away; what it still has waiting goes its way.
    pub fn group_gone(&mut self, group: GroupId) {
        if !self.knows(group) {
            return;
        }
        self.groups[group].gone = true;
        self.set_weight(group, WEIGHT);
        for id in self.leaves.ids() {
            if self.leaves[id].group == group {
                self.leaf_gone(id);
            }
        }
    }

    /// The process has exited, or left `group`.
    pub fn proc_gone(&mut self, proc: ProcId, group: Option<GroupId>) {
        let (from, to) = match group {
            Some(g) => (g, g),
            None => (GroupId(0), GroupId(u32::MAX)),
        };
        let range = (proc, from, false)..=(proc, to, true);
        while let Some((_, &id)) =
            self.by_owner.range(range.clone()).find(|(_, id)| !self.leaves[**id].gone)
        {
            self.leaf_gone(id);
        }
    }

    fn leaf_gone(&mut self, id: LeafId) {
        self.leaves[id].gone = true;
        self.release_if_idle(id);
    }

    /// A leaf that nobody will use again gives its place away when nothing of it is left.
    #[inline]
    pub fn release_if_idle(&mut self, id: LeafId) {
        if self.leaves[id].gone {
            self.release(id);
        }
    }

    #[cold]
    fn release(&mut self, id: LeafId) {
        let leaf = &self.leaves[id];
        if leaf.is_idle() && self.by_owner.get(&owner(leaf)) == Some(&id) {
            self.groups[leaf.group].children.give_back(leaf.seat);
            self.by_owner.remove(&owner(leaf));
            if let Some(last) = self.last.get_mut(leaf.proc.0 as usize) {
                last.iter_mut().filter(|l| **l == id).for_each(|l| *l = LeafId::NONE);
            }
            self.free.push(id);
        }
    }

    /// The leaf of a request.
    #[inline]
    pub fn leaf_of(&mut self, proc: ProcId, group: GroupId, sync: bool) -> LeafId {
        if let Some(last) = self.last.get(proc.0 as usize) {
            let id = last[usize::from(sync)];
            if id.is_some() && self.leaves[id].group == group {
                return id;
            }
        }
        self.find_leaf(proc, group, sync)
    }

    /// The same, if it is there already.
    pub fn known_leaf(&self, proc: ProcId, group: GroupId, sync: bool) -> Option<LeafId> {
        if let Some(last) = self.last.get(proc.index()) {
            let id = last[usize::from(sync)];
            if id.is_some() && self.leaves[id].group == group {
                return Some(id);
            }
        }
        self.by_owner.get(&(proc, group, sync)).copied()
    }

    #[cold]
    fn find_leaf(&mut self, proc: ProcId, group: GroupId, sync: bool) -> LeafId {
        let id = match self.by_owner.get(&(proc, group, sync)) {
            Some(&id) => id,
            None => {
                let seat = self.groups[group].children.seat();
                let mut leaf = Leaf::new(proc, group, sync, seat);
                // Late requests of a group that is gone.
                leaf.gone = self.groups[group].gone;
                let id = match self.free.pop() {
                    Some(id) => {
                        self.leaves[id] = leaf;
                        id
                    }
                    None => self.leaves.push(leaf),
                };
                self.by_owner.insert((proc, group, sync), id);
                id
            }
        };
        if proc != ProcId::NONE {
            if self.last.len() <= proc.index() {
                self.last.resize(proc.index() + 1, [LeafId::NONE; 2]);
            }
            self.last[proc.index()][usize::from(sync)] = id;
        }
        id
    }

    /// A greedy request of that slot waits.
    #[inline]
    pub fn push(&mut self, links: &mut Links, id: LeafId, slot: u32) {
        let leaf = &mut self.leaves[id];
        leaf.fifo.push_back(links, slot);
        self.waiting += 1;
        let streams = leaf.is_stream();
        self.streams += u32::from(streams);
        self.streams -= u32::from(core::mem::replace(&mut leaf.streams, streams));
        if leaf.fifo.len() == 1 {
            self.backlogged += 1;
            self.activate(id);
        }
    }

    /// A greedy request waits no longer.
    pub fn remove(&mut self, links: &mut Links, id: LeafId, slot: u32) {
        let leaf = &mut self.leaves[id];
        leaf.fifo.remove(links, slot);
        self.waiting -= 1;
        if leaf.fifo.is_empty() {
            self.ends(id);
        }
    }

    /// Takes the oldest greedy request of a leaf that has one.
    #[inline]
    pub fn take_first(&mut self, links: &mut Links, id: LeafId) -> u32 {
        let leaf = &mut self.leaves[id];
        let slot = leaf.fifo.take_first(links);
        self.waiting -= 1;
        if leaf.fifo.is_empty() {
            self.ends(id);
        }
        slot
    }

    /// A request of the leaf goes to the drive.
    #[inline]
    pub fn sent(&mut self, id: LeafId) {
        let leaf = &mut self.leaves[id];
        leaf.waiting -= 1;
        leaf.inside += 1;
    }

    /// It has no backlog any more.
    #[inline]
    fn ends(&mut self, id: LeafId) {
        let leaf = &mut self.leaves[id];
        self.streams -= u32::from(core::mem::take(&mut leaf.streams));
        self.backlogged -= 1;
        self.deactivate(id);
    }

    /// Weights were given, and the leaf has more than its part of so many tags: its share among those with a backlog,
    /// and room for one more of them. Equal parts would be the shares of who fills them, whatever its weight.
    pub fn is_above(&self, id: LeafId, tags: u32) -> bool {
        if self.weighted == 0 {
            return false;
        }
        let leaf = &self.leaves[id];
        let n = u64::from(self.backlogged.max(1));
        let mut part = u64::from(tags) * PART * n / (n + 1);
        let (mut waits, mut tag, mut group) = (!leaf.fifo.is_empty(), leaf.tag, leaf.group);
        loop {
            let node = &self.groups[group];
            let weight = u64::from(tag.weight);
            part = part * weight / (node.weights + if waits { 0 } else { weight });
            if node.parent.is_none() {
                return u64::from(leaf.waiting + leaf.inside) * PART > part;
            }
            (waits, tag, group) = (!node.children.is_empty(), node.tag, node.parent);
        }
    }

    /// Backlogged leaves that stream.
    pub fn streams(&self) -> u32 {
        self.streams
    }

    /// Mean weight of the children of the root that have a backlog, by count; that of nobody is the usual.
    pub fn share_of(&self, id: LeafId) -> (u64, u64) {
        let mut group = self.leaves[id].group;
        let mut weight = u64::from(self.leaves[id].tag.weight);
        while group != GroupId::ROOT {
            weight = u64::from(self.groups[group].tag.weight);
            group = self.groups[group].parent;
        }
        let (mut sum, mut n) = (0u64, 0u64);
        self.groups[GroupId::ROOT].children.smallest::<MEAN_OF>(|child| {
            sum += match child % 2 {
                0 => u64::from(WEIGHT),
                _ => u64::from(self.groups[GroupId(child / 2)].tag.weight),
            };
            n += 1;
        });
        (weight * n.max(1), sum.max(1))
    }

    /// The oldest greedy request of a leaf.
    pub fn head(&self, id: LeafId) -> u32 {
        self.leaves[id].fifo.head()
    }

    /// The backlogged leaf with the smallest tags on the way down.
    #[inline]
    pub fn smallest(&self) -> Option<LeafId> {
        let mut at = GroupId::ROOT;
        // Each turn goes one level down.
        loop {
            let Some(first) = self.groups[at].children.first() else {
                debug_assert!(at == GroupId::ROOT, "a group in a tournament has a backlog");
                return None;
            };
            if first % 2 == 0 {
                return Some(LeafId(first / 2));
            }
            at = GroupId(first / 2);
        }
    }

    /// Has the leaf had more than its share? At each level that has a backlog: would others go before it?
    pub fn is_ahead(&self, id: LeafId) -> bool {
        let leaf = &self.leaves[id];
        let (mut tag, mut parent) = (leaf.tag.start, leaf.group);
        loop {
            let node = &self.groups[parent];
            if !node.children.is_empty() && tag > node.vtime {
                return true;
            }
            if node.parent.is_none() {
                return false;
            }
            (tag, parent) = (node.tag.start, node.parent);
        }
    }

    /// The leaf is served `units` (sixteenths of a unit); `chosen`: because its tags were smallest.
    #[inline]
    pub fn charge(&mut self, id: LeafId, units: u64, chosen: bool) {
        let leaf = &mut self.leaves[id];
        let mut group = leaf.group;
        let node = &mut self.groups[group];
        if chosen {
            node.vtime = node.vtime.max(leaf.tag.start);
        }
        leaf.tag.pay(node.vtime, self.claim, units);
        if !leaf.fifo.is_empty() {
            node.children.raise(leaf.seat, leaf.tag.start, 2 * id.0);
        }
        while group != GroupId::ROOT {
            group = self.charge_group(group, units, chosen);
        }
    }

    /// The same for a group; its parent.
    #[inline(never)]
    fn charge_group(&mut self, group: GroupId, units: u64, chosen: bool) -> GroupId {
        let node = &self.groups[group];
        let FairGroup { parent, seat, mut tag, .. } = *node;
        let waits = !node.children.is_empty();
        let up = &mut self.groups[parent];
        if chosen {
            up.vtime = up.vtime.max(tag.start);
        }
        tag.pay(up.vtime, self.claim, units);
        if waits {
            up.children.raise(seat, tag.start, 2 * group.0 + 1);
        }
        self.groups[group].tag = tag;
        parent
    }

    /// It has a backlog, and so have the groups above.
    #[inline]
    fn activate(&mut self, id: LeafId) {
        let leaf = &mut self.leaves[id];
        let mut group = leaf.group;
        let node = &mut self.groups[group];
        leaf.tag.start = leaf.tag.at(node.vtime, self.claim);
        let mut first = node.children.is_empty();
        node.children.enter(leaf.seat, leaf.tag.start, 2 * id.0);
        node.weights += u64::from(leaf.tag.weight);
        while first {
            let FairGroup { parent, seat, mut tag, .. } = self.groups[group];
            if parent.is_none() {
                return;
            }
            let up = &mut self.groups[parent];
            tag.start = tag.at(up.vtime, self.claim);
            first = up.children.is_empty();
            up.children.enter(seat, tag.start, 2 * group.0 + 1);
            up.weights += u64::from(tag.weight);
            self.groups[group].tag = tag;
            group = parent;
        }
    }

    fn deactivate(&mut self, id: LeafId) {
        let Leaf { mut seat, mut tag, mut group, .. } = self.leaves[id];
        loop {
            let node = &mut self.groups[group];
            node.children.leave(seat);
            node.weights -= u64::from(tag.weight);
            if !node.children.is_empty() || node.parent.is_none() {
                return;
            }
            (seat, tag, group) = (node.seat, node.tag, node.parent);
        }
    }

    /// The tags of the first leaves.
    #[cfg(test)]
    pub fn tags(&self) -> Vec<u64> {
        self.leaves.iter().take(32).map(|leaf| leaf.tag.start).collect()
    }

    #[cfg(test)]
    pub fn leaves_kept(&self) -> usize {
        self.by_owner.len()
    }

    /// Does any leaf other than this one have a backlog?
    pub fn others_wait(&self, id: LeafId) -> bool {
        self.waiting > self.leaves[id].fifo.len()
    }
}

fn owner(leaf: &Leaf) -> (ProcId, GroupId, bool) {
    (leaf.proc, leaf.group, leaf.sync)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::unit::{Instant, Sectors};

    /// Leaves that stay backlogged: each has one request that waits, by its slot.
    struct Rig {
        fair: Fair,
        links: Links,
        served: Vec<u64>,
    }

    impl Rig {
        fn new() -> Rig {
            Rig { fair: Fair::new(), links: Links::new(64), served: Vec::new() }
        }

        fn group(&mut self, n: u32, parent: GroupId, weight: u32) -> GroupId {
            self.fair.add_group(GroupId(n), parent);
            self.fair.set_weight(GroupId(n), weight);
            GroupId(n)
        }

        /// A leaf of a process of its own.
        fn leaf(&mut self, group: GroupId) -> LeafId {
            let id = self.fair.leaf_of(ProcId(self.served.len() as u32), group, true);
            self.served.push(0);
            self.fair.push(&mut self.links, id, id.0);
            id
        }

        /// Serves the leaf with the smallest tags; it stays backlogged.
        fn serve(&mut self, units: u64) -> LeafId {
            let id = self.fair.smallest().expect("a backlog");
            self.fair.charge(id, units, true);
            self.served[id.0 as usize] += units;
            id
        }

        fn serve_turns(&mut self, turns: usize) {
            for _ in 0..turns {
                self.serve(16);
            }
        }
    }

    #[test]
    fn a_part_of_the_tags_goes_by_weight_at_each_level() {
        let mut rig = Rig::new();
        let (light, heavy) = (rig.group(1, GroupId::ROOT, 100), rig.group(2, GroupId::ROOT, 300));
        let inner = rig.group(3, heavy, 200);
        let leaves = [rig.leaf(light), rig.leaf(inner), rig.leaf(heavy)];
        // Of 120 tags room for one more leaves 90: a quarter, and of the rest two thirds and one third.
        let most = |rig: &mut Rig, id: LeafId| {
            let above = |n: u32, rig: &mut Rig| {
                rig.fair.leaf_mut(id).inside = n;
                rig.fair.is_above(id, 120)
            };
            (0..120).rev().find(|&n| !above(n, rig)).expect("none is allowed")
        };
        let parts = |rig: &mut Rig| leaves.map(|id| most(rig, id));
        assert_eq!(parts(&mut rig), [22, 45, 22]);
        rig.fair.set_weight(light, 900);
        assert_eq!(parts(&mut rig), [67, 15, 7], "a weight changed under a backlog");
        rig.fair.remove(&mut rig.links, leaves[1], leaves[1].0);
        assert_eq!(parts(&mut rig)[2], 20, "its sibling is idle: of 80");
        assert_eq!(parts(&mut rig)[1], 13, "the part it would have again");
        rig.fair.remove(&mut rig.links, leaves[2], leaves[2].0);
        assert_eq!(parts(&mut rig)[0], 60, "all but room for one more");
        rig.fair.set_weight(light, WEIGHT);
        rig.fair.set_weight(heavy, WEIGHT);
        rig.fair.set_weight(inner, WEIGHT);
        assert_eq!(parts(&mut rig)[0], 119, "without weights nobody is held back");
    }

    /// The guarantee: `|S_i / w_i - S_j / w_j| <= u_max (1 / w_i + 1 / w_j)`, at any moment.
    #[test]
    fn backlogged_groups_differ_by_no_more_than_the_bound() {
        let (mut rig, weights) = (Rig::new(), [100u32, 200, 700, 1]);
        for (n, &weight) in weights.iter().enumerate() {
            let group = rig.group(n as u32 + 1, GroupId::ROOT, weight);
            rig.leaf(group);
        }
        let largest = 300;
        for turn in 0..20_000u64 {
            rig.serve(17 + turn * 7919 % (largest - 16));
            for (i, &wi) in weights.iter().enumerate() {
                for (j, &wj) in weights.iter().enumerate().skip(i + 1) {
                    let (wi, wj) = (u64::from(wi), u64::from(wj));
                    let apart = (rig.served[i] * wj).abs_diff(rig.served[j] * wi);
                    assert!(apart <= largest * (wi + wj) + wi * wj, "{i} and {j} at {turn}");
                }
            }
        }
    }

    #[test]
    fn weights_count_among_siblings_and_not_across_levels() {
        let mut rig = Rig::new();
        let (a, b) = (rig.group(1, GroupId::ROOT, 100), rig.group(2, GroupId::ROOT, 300));
        let (one, two) = (rig.group(3, b, 100), rig.group(4, b, 200));
        for group in [a, one, two] {
            rig.leaf(group);
        }
        rig.serve_turns(12_000);
        let parts: Vec<u64> = rig.served.iter().map(|s| s * 1000 / (12_000 * 16)).collect();
        assert!(parts[0].abs_diff(250) <= 1, "a quarter: {parts:?}");
        assert!(parts[1].abs_diff(250) <= 1 && parts[2].abs_diff(500) <= 1, "{parts:?}");
    }

    #[test]
    fn idle_time_earns_nothing() {
        let mut rig = Rig::new();
        let [a, b] = [(); 2].map(|()| rig.leaf(GroupId::ROOT));
        rig.fair.remove(&mut rig.links, b, b.0);
        rig.serve_turns(1000);
        rig.fair.push(&mut rig.links, b, b.0);
        let before = rig.served.clone();
        rig.serve_turns(100);
        let since = |leaf: LeafId| rig.served[leaf.0 as usize] - before[leaf.0 as usize];
        assert!(since(a).abs_diff(since(b)) <= 2 * 16, "{} and {}", since(a), since(b));
    }

    /// Virtual time follows choices only: a row that merely goes on does not cancel what others have coming.
    #[test]
    fn a_service_that_goes_on_leaves_the_claims_of_others() {
        let mut rig = Rig::new();
        let [a, b] = [(); 2].map(|()| rig.leaf(GroupId::ROOT));
        assert_eq!(rig.serve(16), a);
        rig.fair.charge(a, 160, false);
        let turns = (0..100).take_while(|_| rig.serve(16) == b).count();
        assert_eq!(turns, 11, "what the row took comes back");
    }

    #[test]
    fn a_leaf_whose_process_is_gone_gives_its_place_away_when_nothing_is_left() {
        let mut rig = Rig::new();
        let leaf = rig.leaf(GroupId::ROOT);
        rig.fair.leaf_mut(leaf).arrives(Instant::ZERO, Sectors(0), Sectors(8));
        rig.fair.proc_gone(ProcId(0), None);
        assert_eq!(rig.fair.leaves_kept(), 1, "its request waits");
        rig.fair.remove(&mut rig.links, leaf, leaf.0);
        rig.fair.leaf_mut(leaf).waiting = 0;
        rig.fair.release_if_idle(leaf);
        assert_eq!(rig.fair.leaves_kept(), 0);
        assert_eq!(rig.fair.leaf_of(ProcId(9), GroupId::ROOT, false), leaf, "another takes it");
    }
}
