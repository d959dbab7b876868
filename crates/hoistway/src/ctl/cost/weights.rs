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
pub(super) struct CostNode {
    pub life: Presence,
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
    pub time: GroupTime,
    share: CachedShare,
    pub weights: Weights,
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

    pub period: OfPeriod,

    pub slow: SlowTasks,
    pub given: GivenWeight,
    /// Sums over the children.
    pub sums: Weights,
    /// When the wake timer is to fire at the earliest, in ns; valid while it is set.
    pub wake_at_ns: u64,
    pub times: Times,
    /// Figures printed, descendants included.
    pub stat: CostStat,
    /// Scratch of the weight transfer (section 9.2).
    pub plan: Plan,
}

/// Whether a group is there.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Presence {
    /// A group has reached the device, or was given a weight here.
    pub exists: bool,
    /// The group was removed; its I/O keeps it.
    pub leaving: bool,
    /// It has left.
    pub dead: bool,
}

/// A group's virtual time. It wraps: only differences say something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct GroupTime {
    /// Moved on by the price of each I/O that passes.
    pub charged: u64,
    /// Moved on by the same when it is over.
    pub done: u64,
}

impl GroupTime {
    /// Nothing is under way.
    pub fn at(v: u64) -> GroupTime {
        GroupTime { charged: v, done: v }
    }

    /// How far it is behind the device; below 0: ahead.
    pub fn credit(self, vnow: u64) -> i64 {
        vnow.wrapping_sub(self.charged) as i64
    }

    pub fn ahead_of(self, vnow: u64) -> i64 {
        self.charged.wrapping_sub(vnow) as i64
    }

    /// Its state after another charge.
    pub fn after(self, price: u64) -> GroupTime {
        GroupTime { charged: self.charged.wrapping_add(price), ..self }
    }

    pub fn charge(&mut self, price: u64) {
        self.charged = self.charged.wrapping_add(price);
    }

    pub fn complete(&mut self, price: u64) {
        self.done = self.done.wrapping_add(price);
    }

    /// Moves on, whatever is under way with it.
    pub fn shift(&mut self, by: u64) {
        self.charge(by);
        self.complete(by);
    }

    /// The same, to a point.
    pub fn move_to(&mut self, v: u64) {
        self.shift(v.wrapping_sub(self.charged));
    }

    pub fn in_flight(self) -> u64 {
        self.charged.wrapping_sub(self.done)
    }

    pub fn is_idle(self) -> bool {
        self.charged == self.done
    }
}

/// Two weights in units of 1 / ONE: as configured while active, and what of it is made use of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Weights {
    pub active: u64,
    pub inuse: u64,
}

/// Hierarchical shares in 1 / ONE by both weights (hwa, hwi), as of a generation.
#[derive(Clone, Copy, Debug)]
struct CachedShare {
    generation: u64,
    active: u64,
    inuse: u64,
}

/// Sums of a period.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OfPeriod {
    /// `usage` at the end of the last period, and device time used in that period, in us.
    pub usage_flushed: u64,
    pub usage_us: u64,
    pub activated_at_us: u64,
    /// Figures to be printed, and not yet published.
    pub fresh: CostStat,
}

/// Delay of the group's tasks.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SlowTasks {
    /// How long, and when it was set, in us.
    pub us: u64,
    pub at_us: u64,
    /// Delay that tasks meet.
    pub tasks: Delay,
}

/// Weight as it was configured.
#[derive(Clone, Copy, Debug)]
pub(super) struct GivenWeight {
    /// In force, in units of 1 / ONE.
    pub in_force: u64,
    /// That of the group, as in `io.weight`.
    pub general: u32,
    /// Override for this device; 0: none.
    pub here: u32,
}

impl GivenWeight {
    const DEFAULT: GivenWeight =
        GivenWeight { in_force: WEIGHT_DEFAULT as u64 * ONE, general: WEIGHT_DEFAULT, here: 0 };

    /// The override, or the group's own, in units of 1 / ONE.
    pub fn configured(self) -> u64 {
        let weight = if self.here == 0 { self.general } else { self.here };
        u64::from(weight) * ONE
    }
}

/// Times that are running, to be printed; nothing is decided by them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Times {
    /// Since when it waits, is in debt, is under delay (us).
    pub waiting: Option<u64>,
    pub indebted: Option<u64>,
    pub delayed: Option<u64>,
}

/// Fields of `io.stat`, all in us.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct CostStat {
    pub usage_us: u64,
    pub wait_us: u64,
    pub indebt_us: u64,
    pub indelay_us: u64,
}

impl CostStat {
    pub fn add(&mut self, other: &CostStat) {
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

impl CostNode {
    fn new(parent: GroupId) -> CostNode {
        CostNode {
            life: Presence::default(),
            listed: false,
            timed: false,
            ready: 0,
            waiters: List::new(),
            parent,
            time: GroupTime::default(),
            share: CachedShare { generation: 0, active: ONE, inuse: ONE },
            weights: Weights::default(),
            debt: 0,
            saved_margin: 0,
            cursor: 0,
            active_period: 0,
            usage: 0,
            last_inuse: 0,
            period: OfPeriod::default(),
            slow: SlowTasks::default(),
            given: GivenWeight::DEFAULT,
            sums: Weights::default(),
            wake_at_ns: 0,
            times: Times::default(),
            stat: CostStat::default(),
            plan: Plan::default(),
        }
    }

    /// Something waits for it: debt, a delay, or held I/O.
    pub fn owes_or_is_delayed(&self) -> bool {
        self.debt != 0 || self.slow.us != 0
    }
}

/// All nodes by group number, and the state of their shares.
///
/// A flattened share makes the path of an I/O one comparison, however deep its group. Inner weights
/// follow from the leaves', so what an idle sibling leaves falls to its own branch first.
#[derive(Debug)]
pub(super) struct Shares {
    nodes: Rows<GroupId, CostNode>,
    generation: u64,
    /// Weights have changed since the last commit.
    changed: bool,
    path: Vec<GroupId>,
}

impl Shares {
    pub fn new() -> Shares {
        Shares {
            nodes: Rows::from(alloc::vec![CostNode::new(GroupId::NONE)]),
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
        self.nodes.push(CostNode::new(parent))
    }

    pub fn get(&self, n: GroupId) -> Option<&CostNode> {
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
        let inuse = if !node.listed && node.sums.active != 0 {
            ceil_of(active, node.sums.inuse, node.sums.active)
        } else {
            // Also a retired node keeps 1 until it is activated again.
            inuse.min(active).max(1)
        };
        node.last_inuse = node.weights.inuse;
        if let Some(vnow) = save {
            node.saved_margin = node.time.credit(vnow);
        }
        if (active, inuse) != (node.weights.active, node.weights.inuse) {
            self.propagate(n, active, inuse);
        }
    }

    fn propagate(&mut self, n: GroupId, mut active: u64, mut inuse: u64) {
        self.changed = true;
        let mut child = n;
        while self[child].parent.is_some() {
            let up = self[child].parent;
            let c = &mut self[child];
            let (old_active, old_inuse) = (c.weights.active, c.weights.inuse);
            (c.weights.active, c.weights.inuse) = (active, inuse);
            let p = &mut self[up];
            p.sums.active = p.sums.active + active - old_active;
            p.sums.inuse = p.sums.inuse + inuse - old_inuse;
            (active, inuse) = match p.sums.active {
                0 => (0, 0),
                sum => (p.given.in_force, ceil_of(p.given.in_force, p.sums.inuse, sum)),
            };
            if (active, inuse) == (p.weights.active, p.weights.inuse) {
                return;
            }
            child = up;
        }
    }

    /// The hierarchical shares of a node by active and by inuse weights: (hwa, hwi), in 1 / ONE.
    #[inline]
    pub fn of(&mut self, n: GroupId) -> (u64, u64) {
        let node = &self.nodes[n];
        if node.share.generation != self.generation {
            self.compute(n);
        }
        let node = &self.nodes[n];
        (node.share.active, node.share.inuse)
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
        (node.share.generation, node.share.active, node.share.inuse) = (generation, hwa, hwi);
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
        let (mut share, mut inuse, mut child) = (ONE, self[n].weights.active, n);
        for up in self.ancestors(n) {
            let (p, c) = (&self[up], &self[child]);
            let sum = p.sums.inuse + inuse - c.weights.inuse;
            share = (u128::from(share) * u128::from(inuse) / u128::from(sum.max(1))) as u64;
            inuse = ceil_of(p.weights.active, sum, p.sums.active.max(1));
            child = up;
        }
        share.max(1)
    }
}

impl core::ops::Index<GroupId> for Shares {
    type Output = CostNode;
    #[inline]
    fn index(&self, n: GroupId) -> &CostNode {
        &self.nodes[n]
    }
}

impl core::ops::IndexMut<GroupId> for Shares {
    #[inline]
    fn index_mut(&mut self, n: GroupId) -> &mut CostNode {
        &mut self.nodes[n]
    }
}

/// The shares (hwa, hwi) of a child from those of its parent.
#[inline]
fn step_down((hwa, hwi): (u64, u64), child: &CostNode, parent: &CostNode) -> (u64, u64) {
    if parent.sums.active == 0 || parent.sums.inuse == 0 {
        return (hwa, hwi);
    }
    // At most 2^16 * (10,000 * 2^16) < 2^46.
    (
        hwa * child.weights.active / parent.sums.active.max(child.weights.active),
        hwi * child.weights.inuse / parent.sums.inuse.max(child.weights.inuse),
    )
}

/// ceil(a * b / c). Weights of many groups exceed 64 bits when multiplied.
pub(super) fn ceil_of(a: u64, b: u64, c: u64) -> u64 {
    match a.checked_mul(b) {
        Some(product) => product.div_ceil(c),
        None => (u128::from(a) * u128::from(b)).div_ceil(u128::from(c)) as u64,
    }
}
