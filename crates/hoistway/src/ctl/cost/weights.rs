//! Weights and shares over the group tree (specs/io-cost.md section 5).
//!
//! Every active leaf has a weight *active* and what it makes use of, *inuse* (less for a donor). Inner
//! nodes take their own weight, and inuse in the proportion of their children's. A leaf's share is the
//! product over its levels of weight by the sum of its siblings; it is computed once per *generation*, in
//! O(depth), and a generation lasts until a batch of changes is committed.

use super::model::ONE;
use crate::ctl::Delay;
use crate::group::GroupId;
use crate::list::List;
use crate::rows::{Id, Rows};
use alloc::vec::Vec;

/// Weight of a group nobody configured.
pub(super) const WEIGHT_DEFAULT: u32 = 100;

/// State of one group on this device. What every I/O looks at lies in the first two cache lines,
/// what every period adds in the third: with many groups both cost little more than fetching them.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub(super) struct Node {
    /// A group has reached the device, or was given a weight here.
    pub exists: bool,
    /// The group was removed; its I/O keeps it.
    pub leaving: bool,
    /// It has left.
    pub dead: bool,
    /// On the list of active nodes.
    pub listed: bool,
    /// It may wait, be in debt or under delay: `times` has something to add up.
    pub timed: bool,
    /// Released I/O that the stack has not asked for yet.
    pub ready: u32,
    /// Held I/O in order of arrival.
    pub waiters: List,
    /// Nobody for the root.
    pub parent: GroupId,
    pub vtime: u64,
    pub done_vtime: u64,
    /// Shares as of `generation`.
    generation: u64,
    hwa: u64,
    hwi: u64,
    pub active: u64,
    pub inuse: u64,
    /// Absolute cost of what was let through and not paid yet.
    pub debt: u64,
    /// Credit when inuse was last changed by the planner or a snap-back.
    pub saved_margin: i64,
    /// End of the last I/O in sectors; 0: none yet.
    pub cursor: u64,
    pub active_period: u64,
    /// Absolute cost charged ever.
    pub usage: u64,
    pub last_inuse: u64,

    /// Delay of its tasks in us.
    pub delay_us: u64,
    /// `usage` at the end of the last period, and device time used in that period, in us.
    pub usage_flushed: u64,
    pub usage_us: u64,
    pub activated_at_us: u64,
    /// What is printed and not yet published.
    pub fresh: Stat,

    /// When the delay was set (us), and what tasks meet.
    pub delay_at_us: u64,
    pub delay: Delay,
    /// The weight in force, in units of 1 / ONE.
    pub weight: u64,
    /// Sums over the children.
    pub sum_active: u64,
    pub sum_inuse: u64,
    /// When the wake timer is to fire at the earliest, in ns; valid while it is set.
    pub wake_at_ns: u64,
    /// The default weight of the group, as in `io.weight`.
    pub weight_default: u32,
    /// Override for this device; 0: none.
    pub weight_here: u32,
    pub times: Times,
    /// What is printed, descendants included.
    pub stat: Stat,
    /// Scratch of the weight transfer (section 9.2).
    pub plan: Plan,
}

/// What is being timed, to be printed; nothing is decided by it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Times {
    /// Since when it waits, is in debt, is under delay (us).
    pub waiting: Option<u64>,
    pub indebted: Option<u64>,
    pub delayed: Option<u64>,
}

/// Fields of `io.stat`, all in us.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Stat {
    pub usage_us: u64,
    pub wait_us: u64,
    pub indebt_us: u64,
    pub indelay_us: u64,
}

impl Stat {
    pub fn add(&mut self, other: &Stat) {
        self.usage_us += other.usage_us;
        self.wait_us += other.wait_us;
        self.indebt_us += other.indebt_us;
        self.indelay_us += other.indelay_us;
    }
}

/// Scratch of one plan: t, t', b, b' and s' of specs/io-cost.md 9.2.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Plan {
    pub seen: bool,
    pub donating: u64,
    pub after: u64,
    pub share: u64,
    pub share_after: u64,
    pub sum_after: u64,
}

impl Node {
    fn new(parent: GroupId) -> Node {
        Node {
            parent,
            exists: false,
            leaving: false,
            dead: false,
            weight_default: WEIGHT_DEFAULT,
            weight_here: 0,
            weight: u64::from(WEIGHT_DEFAULT) * ONE,
            listed: false,
            timed: false,
            active: 0,
            inuse: 0,
            last_inuse: 0,
            sum_active: 0,
            sum_inuse: 0,
            generation: 0,
            hwa: ONE,
            hwi: ONE,
            saved_margin: 0,
            cursor: 0,
            vtime: 0,
            done_vtime: 0,
            debt: 0,
            delay_us: 0,
            delay_at_us: 0,
            delay: Delay::default(),
            active_period: 0,
            activated_at_us: 0,
            waiters: List::new(),
            ready: 0,
            wake_at_ns: 0,
            usage: 0,
            usage_flushed: 0,
            usage_us: 0,
            fresh: Stat::default(),
            times: Times::default(),
            stat: Stat::default(),
            plan: Plan::default(),
        }
    }

    /// The configured weight: the override, or the group's default.
    pub fn configured(&self) -> u64 {
        let weight = if self.weight_here == 0 { self.weight_default } else { self.weight_here };
        u64::from(weight) * ONE
    }

    /// Something waits for it: debt, a delay, or held I/O.
    pub fn owes_or_is_delayed(&self) -> bool {
        self.debt != 0 || self.delay_us != 0
    }
}

/// All nodes by group number, and the state of their shares.
///
/// A flattened share makes the path of an I/O one comparison, however deep its group. Inner weights
/// follow from the leaves', so what an idle sibling leaves falls to its own branch first.
#[derive(Debug)]
pub(super) struct Shares {
    nodes: Rows<GroupId, Node>,
    generation: u64,
    /// Weights have changed since the last commit.
    changed: bool,
    path: Vec<GroupId>,
}

impl Shares {
    pub fn new() -> Shares {
        Shares {
            nodes: Rows::from(alloc::vec![Node::new(GroupId::NONE)]),
            generation: 1,
            changed: false,
            path: Vec::with_capacity(16),
        }
    }

    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// All nodes.
    pub fn ids(&self) -> impl Iterator<Item = GroupId> + use<> {
        self.nodes.ids()
    }

    /// Adds the node of the next group.
    pub fn push(&mut self, parent: GroupId) -> GroupId {
        self.nodes.push(Node::new(parent))
    }

    pub fn get(&self, n: GroupId) -> Option<&Node> {
        self.nodes.get(n)
    }

    /// The nodes from the parent of `n` up to the root.
    pub fn ancestors(&self, n: GroupId) -> impl Iterator<Item = GroupId> + '_ {
        let up = |n: GroupId| self[n].parent.some();
        core::iter::successors(up(n), move |&n| up(n))
    }

    /// Makes what was changed valid: cached shares are computed anew.
    pub fn commit(&mut self) {
        if self.changed {
            self.generation += 1;
            self.changed = false;
        }
    }

    /// Active and inuse weight of a node. `save`: vnow, to note the credit left.
    pub fn set(&mut self, n: GroupId, active: u64, inuse: u64, save: Option<u64>) {
        let node = &mut self.nodes[n];
        let inuse = if !node.listed && node.sum_active != 0 {
            ceil_of(active, node.sum_inuse, node.sum_active)
        } else {
            // Also a retired node keeps 1 until it is activated again.
            inuse.min(active).max(1)
        };
        node.last_inuse = node.inuse;
        if let Some(vnow) = save {
            node.saved_margin = vnow.wrapping_sub(node.vtime) as i64;
        }
        if (active, inuse) != (node.active, node.inuse) {
            self.propagate(n, active, inuse);
        }
    }

    fn propagate(&mut self, n: GroupId, mut active: u64, mut inuse: u64) {
        self.changed = true;
        let mut child = n;
        while self[child].parent.is_some() {
            let up = self[child].parent;
            let c = &mut self[child];
            let (old_active, old_inuse) = (c.active, c.inuse);
            (c.active, c.inuse) = (active, inuse);
            let p = &mut self[up];
            p.sum_active = p.sum_active + active - old_active;
            p.sum_inuse = p.sum_inuse + inuse - old_inuse;
            (active, inuse) = match p.sum_active {
                0 => (0, 0),
                sum => (p.weight, ceil_of(p.weight, p.sum_inuse, sum)),
            };
            if (active, inuse) == (p.active, p.inuse) {
                return;
            }
            child = up;
        }
    }

    /// The hierarchical shares of a node by active and by inuse weights: (hwa, hwi), in 1 / ONE.
    #[inline]
    pub fn of(&mut self, n: GroupId) -> (u64, u64) {
        let node = &self.nodes[n];
        if node.generation != self.generation {
            self.compute(n);
        }
        let node = &self.nodes[n];
        (node.hwa, node.hwi)
    }

    fn compute(&mut self, n: GroupId) {
        let up = self[n].parent;
        let (hwa, hwi) = if up.is_some() && self[up].parent.is_none() {
            // Below the root, as most groups of a flat tree are, there is no path to collect.
            let (hwa, hwi) = step_down((ONE, ONE), &self[n], &self[up]);
            (hwa.max(1), hwi.max(1))
        } else {
            let mut path = core::mem::take(&mut self.path);
            path.clear();
            path.push(n);
            path.extend(self.ancestors(n));
            let shares = self.along(&path);
            self.path = path;
            shares
        };
        let generation = self.generation;
        let node = &mut self[n];
        (node.generation, node.hwa, node.hwi) = (generation, hwa, hwi);
    }

    /// The shares without touching any cache, for those who only look.
    pub fn look(&self, n: GroupId) -> (u64, u64) {
        let mut path = alloc::vec![n];
        path.extend(self.ancestors(n));
        self.along(&path)
    }

    /// `path`: from the node up to the root.
    fn along(&self, path: &[GroupId]) -> (u64, u64) {
        let levels = path.windows(2).rev();
        let (hwa, hwi) = levels
            .fold((ONE, ONE), |shares, level| step_down(shares, &self[level[0]], &self[level[1]]));
        (hwa.max(1), hwi.max(1))
    }

    /// hwm: the share a node would have with inuse = active, all else being equal.
    pub fn at_most(&self, n: GroupId) -> u64 {
        let (mut share, mut inuse, mut child) = (ONE, self[n].active, n);
        for up in self.ancestors(n) {
            let (p, c) = (&self[up], &self[child]);
            let sum = p.sum_inuse + inuse - c.inuse;
            share = (u128::from(share) * u128::from(inuse) / u128::from(sum.max(1))) as u64;
            inuse = ceil_of(p.active, sum, p.sum_active.max(1));
            child = up;
        }
        share.max(1)
    }
}

impl core::ops::Index<GroupId> for Shares {
    type Output = Node;
    #[inline]
    fn index(&self, n: GroupId) -> &Node {
        &self.nodes[n]
    }
}

impl core::ops::IndexMut<GroupId> for Shares {
    #[inline]
    fn index_mut(&mut self, n: GroupId) -> &mut Node {
        &mut self.nodes[n]
    }
}

/// The shares (hwa, hwi) of a child from those of its parent.
#[inline]
fn step_down((hwa, hwi): (u64, u64), child: &Node, parent: &Node) -> (u64, u64) {
    if parent.sum_active == 0 || parent.sum_inuse == 0 {
        return (hwa, hwi);
    }
    // At most 2^16 * (10,000 * 2^16) < 2^46.
    (
        hwa * child.active / parent.sum_active.max(child.active),
        hwi * child.inuse / parent.sum_inuse.max(child.inuse),
    )
}

/// ceil(a * b / c). Weights of many groups exceed 64 bits when multiplied.
pub(super) fn ceil_of(a: u64, b: u64, c: u64) -> u64 {
    match a.checked_mul(b) {
        Some(product) => product.div_ceil(c),
        None => (u128::from(a) * u128::from(b)).div_ceil(u128::from(c)) as u64,
    }
}
