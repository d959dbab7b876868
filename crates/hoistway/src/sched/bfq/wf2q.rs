//! The fair-queue core: hierarchical B-WF2Q+ (specs/bfq.md section 2).
//!
//! It knows entities, weights, budgets and service, but neither requests nor devices. A leaf entity
//! is a queue; a group is a scheduling [`GroupNode`] with an entity of its own in the node above. Every walk
//! goes along the path from a leaf to the root; with the root alone a path has one step.
//!
//! ```text
//!   start  = max(V, finish of the last slot)      V: virtual time of the service tree
//!   finish = start + budget / weight
//!   V      advances by service / (sum of the weights of all tracked entities)
//!   next   = smallest finish among those with start <= V
//! ```
//!
//! Service and budgets are in sectors; they stay plain integers here because virtual time mixes them
//! with weights.

use super::active::{self, ActiveSet, Places};
use super::census::Census;
pub(super) use super::class::{BE, ByClass, IDLE, RT, ServiceClass};
use super::ids::{EntityNo, Id, NodeNo, QueueNo, Rows};
pub(super) use super::vtime::{VTime, delta};
use crate::list::{Links, List};
use crate::tree::{Nodes, SlotOrder};
use crate::unit::{Instant, Nanos};
use alloc::vec::Vec;

/// Sectors over which the boost of `bfq-v1` fades: 24 MiB (11.5).
pub(super) const BOOST_SECTORS: u32 = 49_152;

/// The node of the root group.
pub(super) const ROOT: NodeNo = NodeNo(0);

/// Largest weight (2.8).
const WEIGHT_MAX: u32 = 1000;

/// Which set an entity is in. One that is in service is in neither (a group may stay active).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum On {
    None,
    Active,
    Idle,
}

/// A queue or a group as its node sees it (1.4).
#[derive(Clone, Debug)]
pub(super) struct Entity {
    /// The node it is scheduled by.
    pub node: NodeNo,
    /// The node it stands for; `NONE` for a queue.
    pub child: NodeNo,
    pub start: VTime,
    pub finish: VTime,
    /// Sectors received in the current slot.
    pub service: u64,
    /// Sectors it may receive in a slot.
    pub budget: u64,
    /// Weight in force: `orig_weight * wr`.
    pub weight: u32,
    pub orig_weight: u32,
    pub new_weight: u32,
    /// Weight-raising coefficient; 1 = not raised.
    pub wr: u32,
    /// The weight it is counted under in the census, 0 if it is not.
    pub counted: u32,
    pub class: ServiceClass,
    pub new_class: ServiceClass,
    pub on: On,
    /// On a tree or in service: its weight is part of `wsum`.
    pub tracked: bool,
    /// `new_weight`, `new_class` or `wr` wait to be applied.
    pub prio_dirty: bool,
    /// Counted as a busy queue of its class.
    pub busy: bool,
    /// Counted in its group as a queue that is busy or has requests in flight (4.3).
    pub grouped: bool,
    /// A queue without users: to be freed once it is forgotten.
    pub dying: bool,
    /// Rest of the boost of `bfq-v1`, in sectors (11.5).
    pub boost: u32,
}

impl Entity {
    /// Rest of the budget, in sectors.
    pub fn left(&self) -> u64 {
        self.budget.saturating_sub(self.service)
    }

    fn is_queue(&self) -> bool {
        self.child.is_none()
    }
}

/// One B-WF2Q+ instance: a class of a node (1.5).
#[derive(Clone, Debug, Default)]
pub(super) struct ServiceTree {
    active: ActiveSet,
    idle: SlotOrder,
    /// The remembered last of the idle set (2.7); not always the last.
    idle_hi: Option<EntityNo>,
    pub v: VTime,
    pub wsum: u64,
}

/// The scheduler of one group.
#[derive(Clone, Debug)]
pub(super) struct GroupNode {
    pub trees: ByClass<ServiceTree>,
    pub in_service: EntityNo,
    /// The candidate for the next slot.
    pub cached: EntityNo,
    /// When the idle class last had its turn; `None`: long ago.
    idle_class_last: Option<Instant>,
    /// Its entity in the node above; `NONE` for the root.
    pub entity: EntityNo,
    /// Its entities that are tracked.
    tracked: u32,
    /// Its queues that are busy or have requests in flight (4.3).
    pub queues: u32,
    /// Counted as a group with pending requests (4.3, base 6.1).
    pub pending: bool,
}

impl GroupNode {
    fn active(&self) -> u32 {
        self.trees.0.iter().map(|t| t.active.len()).sum()
    }
}

/// Settings of the fair queue: rows of the table of tunables.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FairRules {
    /// Quirk Q1: the exact minimum, or the reference's descent.
    pub exact_pick: bool,
    /// Quirk Q15: a look-up instead of the comparison with the cached candidate.
    pub exact_candidate: bool,
    /// How often a waiting idle class is offered a selection (2.2).
    pub idle_class_period: Nanos,
    /// Quirk Q3: a group in service that is repositioned is not charged twice.
    pub fix_double_charge: bool,
    /// Quirk Q10: the idle class keeps its turn until one of it is set in service.
    pub keep_idle_ticket: bool,
    /// Quirk Q22: the idle class of a new group waits for its first turn.
    pub fix_group_ticket: bool,
    /// Quirk Q19: a busy queue whose class changes is counted in the new one.
    pub fix_class_count: bool,
}

/// All nodes and entities of a device.
#[derive(Clone, Debug)]
pub(super) struct FairQueue {
    pub ents: Rows<EntityNo, Entity>,
    /// Of the active sets.
    places: Places,
    /// Of the idle sets, by finish.
    idle_nodes: Nodes<VTime>,
    pub nodes: Rows<NodeNo, GroupNode>,
    pub census: Census,
    /// Nodes in which more than one entity is tracked.
    shared: u32,
    pub rules: FairRules,
    /// Weights are counted (4.3); `bfq-v1` knows no symmetry.
    pub count_weights: bool,
    /// Queues on an active set, the latest insertion first.
    pub active_list: List,
    pub active_links: Links,
    /// Queues that may be freed: looked at when the call ends.
    pub loose: Vec<QueueNo>,
}

impl FairQueue {
    /// The root node, nothing in it.
    pub fn new(now: Instant, rules: FairRules) -> FairQueue {
        let mut fair = FairQueue {
            ents: Rows::new(),
            places: Places::new(rules.exact_pick),
            idle_nodes: Nodes::new(0),
            nodes: Rows::new(),
            census: Census::new(),
            shared: 0,
            rules,
            count_weights: true,
            active_list: List::new(),
            active_links: Links::new(0),
            loose: Vec::new(),
        };
        fair.add_node(EntityNo::NONE, now);
        fair
    }

    /// Other rules. Those that wait go on waiting; what went wrong without the count of classes (quirk Q19)
    /// is put right.
    pub fn set_rules(&mut self, rules: FairRules) {
        let trees = self.nodes.iter_mut().flat_map(|n| &mut n.trees.0);
        let sets = trees.map(|t| (&mut t.active, t.v));
        active::set_exact(&mut self.places, sets, rules.exact_pick);
        let counted = core::mem::replace(&mut self.rules, rules).fix_class_count;
        if rules.fix_class_count && !counted {
            self.census.recount_classes(&self.ents);
        }
    }

    fn add_node(&mut self, entity: EntityNo, now: Instant) -> NodeNo {
        self.nodes.push(GroupNode {
            trees: Default::default(),
            in_service: EntityNo::NONE,
            cached: EntityNo::NONE,
            idle_class_last: (entity.is_none() || self.rules.fix_group_ticket).then_some(now),
            entity,
            tracked: 0,
            queues: 0,
            pending: false,
        })
    }

    /// A blank entity scheduled by `node` (allocates).
    pub fn add_entity(&mut self, node: NodeNo, class: ServiceClass, weight: u32) -> EntityNo {
        let id = self.ents.push(Entity::new(node, class, weight));
        self.places.grow(self.ents.len());
        self.idle_nodes.grow(self.ents.len());
        self.active_links.grow(self.ents.len());
        self.loose.reserve(2 * self.ents.len());
        id
    }

    /// Gives a forgotten entity to somebody new.
    pub fn reuse_entity(&mut self, e: EntityNo, node: NodeNo, class: ServiceClass, weight: u32) {
        assert!(!self.ents[e].tracked, "only a forgotten entity is reused");
        self.ents[e] = Entity::new(node, class, weight);
    }

    /// A group below `parent`; returns its node. Its own entity is always best-effort (1.5).
    pub fn add_group(&mut self, parent: NodeNo, weight: u32, now: Instant) -> NodeNo {
        let e = self.add_entity(parent, BE, weight);
        let node = self.add_node(e, now);
        self.ents[e].child = node;
        node
    }

    /// The queues on an active set, the latest insertion first.
    pub fn active_queues(&self) -> impl Iterator<Item = QueueNo> {
        self.active_list.iter(&self.active_links).map(QueueNo)
    }

    // Choice: 2.2 and 2.3.

    /// Who is next in the node (2.2). If nobody is in service V may jump ahead.
    fn lookup(&mut self, node: NodeNo, expiring: bool, now: Instant) -> EntityNo {
        let n = &mut self.nodes[node];
        let mut first = RT;
        let period = self.rules.idle_class_period;
        if n.idle_class_last.is_none_or(|last| last + period < now) {
            if !n.trees[IDLE].active.is_empty() {
                first = IDLE;
            }
            if first == RT || !self.rules.keep_idle_ticket {
                n.idle_class_last = Some(now);
            }
        }
        let push = n.in_service.is_none() || expiring;
        for &class in &ServiceClass::ALL[first as usize..] {
            let tree = &mut n.trees[class];
            if tree.active.is_empty() {
                continue;
            }
            let (next, v) = tree.active.next(&mut self.places, tree.v);
            if push && v.after(tree.v) {
                tree.v = v;
                if !tree.idle.is_empty() {
                    self.forget(node, class);
                }
            }
            return next;
        }
        EntityNo::NONE
    }

    /// Refreshes the cached candidate after `changed` (or `NONE`) was activated or requeued (2.3). True:
    /// the level above must be updated.
    pub fn refresh(
        &mut self,
        node: NodeNo,
        changed: EntityNo,
        expiring: bool,
        now: Instant,
    ) -> bool {
        let cached = self.nodes[node].cached;
        let candidate = if changed.is_none() || changed == cached || self.rules.exact_candidate {
            self.lookup(node, expiring, now)
        } else if cached.is_none() {
            changed
        } else {
            let (new, old) = (&self.ents[changed], &self.ents[cached]);
            let v = self.nodes[node].trees[new.class].v;
            if new.class == old.class && !new.start.after(v) && old.finish.after(new.finish) {
                changed
            } else {
                self.lookup(node, expiring, now)
            }
        };
        let mut shrunk = false;
        let up = self.nodes[node].entity;
        if candidate.is_some() && up.is_some() {
            let budget = self.ents[candidate].budget;
            shrunk = self.ents[up].budget > budget;
            self.ents[up].budget = budget;
        }
        self.nodes[node].cached = candidate;
        candidate.is_some() && (cached.is_none() || shrunk)
    }

    // Activation and requeue: 2.4 and 2.5.

    fn activate(&mut self, e: EntityNo, hole: bool) {
        let ent = &mut self.ents[e];
        let v = self.nodes[ent.node].trees[ent.class].v;
        let back = hole && v.after(ent.finish);
        let base = if back { ent.finish } else { v };
        if ent.on == On::Idle {
            ent.start = base.later(ent.finish);
            self.idle_remove(e);
        } else {
            debug_assert!(!ent.tracked && ent.on == On::None);
            ent.start = base;
            self.track(e);
        }
        let child = self.ents[e].child;
        if child.is_some() && !self.nodes[child].pending {
            self.nodes[child].pending = true;
            self.census.groups_pending += 1;
        }
        self.enqueue(e, back);
    }

    fn enqueue(&mut self, e: EntityNo, back: bool) {
        if self.ents[e].prio_dirty {
            self.apply(e, true);
        }
        let ent = &mut self.ents[e];
        let tree = &mut self.nodes[ent.node].trees[ent.class];
        ent.finish = ent.start.plus(delta(ent.budget, ent.weight.into()));
        if back && tree.v.after(ent.finish) {
            // Without the push a queue that is often back-shifted could keep timestamps far in the
            // past and monopolise the device.
            let mut push = tree.v.0.wrapping_sub(ent.finish.0);
            if ent.is_queue() {
                push /= u64::from(ent.wr);
            }
            ent.start = ent.start.plus(push);
            ent.finish = ent.finish.plus(push);
        }
        ent.on = On::Active;
        if ent.is_queue() {
            self.active_list.push_front(&mut self.active_links, e.0);
        }
        tree.active.insert(&mut self.places, e, [ent.start, ent.finish], tree.v);
    }

    fn requeue(&mut self, e: EntityNo) {
        let ent = &mut self.ents[e];
        if self.nodes[ent.node].in_service == e {
            ent.finish = ent.start.plus(delta(ent.service, ent.weight.into()));
            ent.start = ent.finish;
            if self.rules.fix_double_charge && !ent.is_queue() {
                ent.service = 0;
            }
        }
        self.active_remove(e);
        self.enqueue(e, false);
    }

    /// Takes `e` off the active set if it is there.
    #[inline(never)]
    fn active_remove(&mut self, e: EntityNo) {
        let ent = &mut self.ents[e];
        if ent.on == On::Active {
            ent.on = On::None;
            let (node, class) = (ent.node, ent.class);
            if ent.is_queue() {
                self.active_list.remove(&mut self.active_links, e.0);
            }
            self.nodes[node].trees[class].active.remove(&mut self.places, e);
        }
    }

    /// Activates a queue's entity, or requeues it if it is active or in service, and whatever above it
    /// has to follow (2.5).
    pub fn activate_or_requeue(&mut self, q: QueueNo, hole: bool, expiry: bool, now: Instant) {
        let mut at = EntityNo::from(q);
        loop {
            let node = self.ents[at].node;
            let in_service = self.nodes[node].in_service == at;
            if in_service || self.ents[at].on == On::Active {
                self.requeue(at);
            } else {
                self.activate(at, hole);
            }
            // At expiry every ancestor stops being served, so all are requeued.
            if !self.refresh(node, at, expiry, now) && !expiry {
                return;
            }
            at = self.nodes[node].entity;
            if at.is_none() {
                return;
            }
        }
    }

    // Deactivation and forgetting: 2.6 and 2.7.

    /// Returns its node, `NONE` if it was off its tree already.
    fn deactivate_one(&mut self, e: EntityNo, keep_idle: bool) -> NodeNo {
        let ent = &mut self.ents[e];
        if !ent.tracked {
            return NodeNo::NONE;
        }
        let finish = ent.start.plus(delta(ent.service, ent.weight.into()));
        ent.finish = finish;
        let at = ent.node;
        let node = &mut self.nodes[at];
        let was_in_service = node.in_service == e;
        if was_in_service {
            node.in_service = EntityNo::NONE;
        } else {
            ent.service = 0;
        }
        let keep = keep_idle && finish.after(node.trees[ent.class].v);
        match ent.on {
            On::Active => self.active_remove(e),
            On::Idle if !was_in_service => self.idle_remove(e),
            On::Idle | On::None => {}
        }
        if keep {
            self.idle_insert(e);
        } else {
            self.untrack(e);
        }
        at
    }

    /// Takes a queue's entity out of service or off its tree, and ancestors that are left without work
    /// (2.6).
    pub fn deactivate(&mut self, e: EntityNo, keep_idle: bool, expiring: bool, now: Instant) {
        let (mut at, mut keep) = (e, keep_idle);
        let mut up;
        loop {
            let node = self.deactivate_one(at, keep);
            if node.is_none() {
                return;
            }
            if self.nodes[node].cached == at {
                self.refresh(node, EntityNo::NONE, expiring, now);
            }
            let n = &self.nodes[node];
            up = n.entity;
            if n.cached.is_some() || n.in_service.is_some() || up.is_none() {
                break;
            }
            at = up;
            keep = true;
        }
        while up.is_some() {
            self.requeue(up);
            let node = self.ents[up].node;
            if !self.refresh(node, up, expiring, now) && !expiring {
                return;
            }
            up = self.nodes[node].entity;
        }
    }

    fn track(&mut self, e: EntityNo) {
        let ent = &mut self.ents[e];
        ent.tracked = true;
        let node = &mut self.nodes[ent.node];
        node.trees[ent.class].wsum += u64::from(ent.weight);
        node.tracked += 1;
        self.shared += u32::from(node.tracked == 2);
    }

    fn untrack(&mut self, e: EntityNo) {
        let ent = &mut self.ents[e];
        ent.tracked = false;
        if ent.dying {
            self.loose.push(e.queue());
        }
        let node = &mut self.nodes[ent.node];
        node.trees[ent.class].wsum -= u64::from(ent.weight);
        self.shared -= u32::from(node.tracked == 2);
        node.tracked -= 1;
    }

    /// Somewhere several share: elsewhere everybody has all there is.
    #[inline]
    pub fn shared(&self) -> bool {
        self.shared > 0
    }

    fn idle_insert(&mut self, e: EntityNo) {
        let ent = &mut self.ents[e];
        ent.on = On::Idle;
        let (node, class, finish) = (ent.node, ent.class, ent.finish);
        let tree = &mut self.nodes[node].trees[class];
        tree.idle.insert(&mut self.idle_nodes, e.0, finish);
        if tree.idle_hi.is_none_or(|hi| finish.after(self.ents[hi].finish)) {
            tree.idle_hi = Some(e);
        }
    }

    #[inline]
    fn idle_remove(&mut self, e: EntityNo) {
        let ent = &mut self.ents[e];
        ent.on = On::None;
        let (node, class) = (ent.node, ent.class);
        let tree = &mut self.nodes[node].trees[class];
        if tree.idle_hi == Some(e) {
            // Quirk Q17: none if it was first, even if others remain.
            let prev = EntityNo(self.idle_nodes.prev(e.0));
            tree.idle_hi = prev.is_some().then_some(prev);
        }
        tree.idle.remove(&mut self.idle_nodes, e.0);
    }

    /// Forgets the first idle entity, of which there is one, once V has passed it (2.7).
    fn forget(&mut self, node: NodeNo, class: ServiceClass) {
        let tree = &mut self.nodes[node].trees[class];
        let lo = EntityNo(tree.idle.first());
        if tree.active.is_empty() {
            // Quirk Q2: V moves back to the last idle finish.
            if let Some(hi) = tree.idle_hi {
                let finish = self.ents[hi].finish;
                if !finish.after(tree.v) {
                    tree.v = finish;
                }
            }
        }
        if !self.ents[lo].finish.after(tree.v) {
            self.idle_remove(lo);
            self.untrack(lo);
        }
    }

    /// Accounts `n` sectors of service to `q` and its ancestors (2.7). Returns its raising coefficient.
    #[inline]
    pub fn serve(&mut self, q: QueueNo, n: u64) -> u32 {
        let wr = self.ents[q].wr;
        let mut up = self.serve_one(q.into(), n);
        while up.is_some() {
            up = self.serve_one(up, n);
        }
        wr
    }

    /// Returns the entity above.
    #[inline(always)]
    fn serve_one(&mut self, e: EntityNo, n: u64) -> EntityNo {
        let ent = &mut self.ents[e];
        ent.service += n;
        let (at, class) = (ent.node, ent.class);
        let node = &mut self.nodes[at];
        let up = node.entity;
        let tree = &mut node.trees[class];
        tree.v = tree.v.plus(delta(n, tree.wsum));
        if !tree.idle.is_empty() {
            // Mostly V has not passed it, which `forget` finds out too, but for the price of a call.
            let lo = EntityNo(tree.idle.first());
            if tree.active.is_empty() || !self.ents[lo].finish.after(tree.v) {
                self.forget(at, class);
            }
        }
        up
    }

    // Weight and class changes: 2.8.

    /// Applies a pending change of weight, raising and (`with_class`) class to a tracked entity.
    pub fn apply(&mut self, e: EntityNo, with_class: bool) {
        let ent = &mut self.ents[e];
        if !ent.prio_dirty {
            return;
        }
        let trees = &mut self.nodes[ent.node].trees;
        trees[ent.class].wsum -= u64::from(ent.weight);
        if ent.new_weight != ent.orig_weight {
            ent.orig_weight = ent.new_weight.clamp(1, WEIGHT_MAX);
            ent.new_weight = ent.orig_weight;
        }
        let mut moved = false;
        if ent.is_queue() && with_class && ent.class != ent.new_class {
            if ent.busy && self.rules.fix_class_count {
                self.census.change_class_count(ent.class, -1);
                self.census.change_class_count(ent.new_class, 1);
            }
            ent.class = ent.new_class;
            moved = true;
        }
        ent.prio_dirty = ent.is_queue() && ent.class != ent.new_class;
        let weight = match ent.is_queue() {
            true => ent.orig_weight * ent.wr + 9 * ent.orig_weight * ent.boost / BOOST_SECTORS,
            false => ent.orig_weight,
        };
        if weight != ent.weight {
            ent.weight = weight;
            if ent.is_queue() && self.count_weights {
                self.census.uncount(ent);
                if ent.wr == 1 {
                    self.census.count(ent);
                }
            }
        }
        let tree = &mut trees[ent.class];
        tree.wsum += u64::from(weight);
        if moved {
            ent.start = tree.v;
        }
    }

    // Leaving for good: 8.3.

    /// Forgets an entity that waits in the idle set.
    pub fn forget_idle(&mut self, e: EntityNo) {
        if self.ents[e].on == On::Idle {
            self.idle_remove(e);
            self.untrack(e);
        }
    }

    /// Forgets everything in an idle set of a node that goes away.
    pub fn flush_idle(&mut self, node: NodeNo, class: ServiceClass) {
        loop {
            let e = EntityNo(self.nodes[node].trees[class].idle.first());
            if e.is_none() {
                return;
            }
            self.forget_idle(e);
        }
    }

    /// The leaf of an active set of a node that comes first, `NONE` if that is empty.
    pub fn first_leaf(&self, node: NodeNo, class: ServiceClass) -> QueueNo {
        let first = |node: NodeNo, class: ServiceClass| {
            self.nodes[node].trees[class].active.first(&self.places)
        };
        let mut e = first(node, class);
        while e.is_some() && self.ents[e].child.is_some() {
            let child = self.ents[e].child;
            // A group entity is best-effort; what it has to offer may be of another class.
            e = [class, RT, BE, IDLE]
                .map(|class| first(child, class))
                .into_iter()
                .fold(EntityNo::NONE, Id::or);
            if first(child, class).is_none() && self.nodes[child].in_service.is_some() {
                e = self.leaf_in_service(child).into();
            }
        }
        e.queue()
    }

    /// The leaf in service below a node, `NONE` if there is none.
    pub fn leaf_in_service(&self, node: NodeNo) -> QueueNo {
        let mut e = self.nodes[node].in_service;
        while e.is_some() && self.ents[e].child.is_some() {
            e = self.nodes[self.ents[e].child].in_service;
        }
        e.queue()
    }

    /// Takes the entity of a group that goes away off the sets of its parent: this entity only.
    pub fn retire(&mut self, e: EntityNo, now: Instant) {
        if self.ents[e].on == On::Idle {
            self.forget_idle(e);
        } else {
            // Something of it was active without a leaf to move: the parent must look again.
            self.deactivate(e, false, false, now);
        }
    }

    // Setting in service: 2.9.

    /// Puts the next queue in service and returns it; something must be active.
    pub fn select(&mut self, now: Instant) -> QueueNo {
        let mut node = ROOT;
        let mut e;
        loop {
            e = self.nodes[node].cached;
            assert!(e.is_some(), "a node with work has a candidate");
            self.nodes[node].in_service = e;
            if self.rules.keep_idle_ticket && self.ents[e].class == IDLE {
                self.nodes[node].idle_class_last = Some(now);
            }
            let child = self.ents[e].child;
            // A group with more active children stays on the tree while in service.
            if child.is_none() || self.nodes[child].active() == 1 {
                self.active_remove(e);
            }
            if child.is_none() {
                break;
            }
            node = child;
        }
        let mut at = e;
        while at.is_some() {
            let node = self.ents[at].node;
            if !self.refresh(node, EntityNo::NONE, false, now) {
                break;
            }
            at = self.nodes[node].entity;
        }
        e.queue()
    }

    /// The slot is over: nobody on the path of `q` is in service any more.
    pub fn clear_in_service(&mut self, q: QueueNo) {
        let mut at = EntityNo::from(q);
        while at.is_some() {
            let node = self.ents[at].node;
            self.nodes[node].in_service = EntityNo::NONE;
            at = self.nodes[node].entity;
        }
    }

    /// Forgets the service of the slot for every ancestor of `q` (3.8 step 10).
    pub fn clear_ancestor_service(&mut self, q: QueueNo) {
        let mut node = self.ents[q].node;
        while node != ROOT {
            let ent = &mut self.ents[self.nodes[node].entity];
            ent.service = 0;
            node = ent.node;
        }
    }
}

impl Entity {
    fn new(node: NodeNo, class: ServiceClass, weight: u32) -> Entity {
        Entity {
            node,
            child: NodeNo::NONE,
            start: VTime(0),
            finish: VTime(0),
            service: 0,
            budget: 0,
            weight,
            orig_weight: weight,
            new_weight: weight,
            wr: 1,
            counted: 0,
            class,
            new_class: class,
            on: On::None,
            tracked: false,
            prio_dirty: false,
            busy: false,
            grouped: false,
            dying: false,
            boost: 0,
        }
    }
}

#[cfg(any(test, debug_assertions))]
impl FairQueue {
    /// The sets and sums of every node, recomputed (specs/bfq.md section 13, last item).
    pub fn check(&self) {
        for (n, node) in self.nodes.pairs() {
            for class in [RT, BE, IDLE] {
                let tree = &node.trees[class];
                let mine = |e: &&Entity| e.node == n && e.class == class;
                let of = |on| self.ents.iter().filter(mine).filter(|e| e.on == on).count() as u32;
                assert_eq!(tree.active.len(), of(On::Active));
                assert_eq!(tree.idle.len(), of(On::Idle));
                let sum = |e: &Entity| if e.tracked { u64::from(e.weight) } else { 0 };
                assert_eq!(tree.wsum, self.ents.iter().filter(mine).map(sum).sum::<u64>());
            }
            let tracked = self.ents.iter().filter(|e| e.node == n && e.tracked).count() as u32;
            assert_eq!(node.tracked, tracked);
            assert!(node.active() == 0 || node.cached.is_some());
        }
        for (i, e) in self.ents.pairs() {
            let in_service = self.nodes[e.node].in_service == i;
            assert_eq!(e.tracked, in_service || e.on != On::None);
            assert!(!in_service || e.on == On::None || (e.on == On::Active && !e.is_queue()));
        }
        let live = |n: NodeNo| self.ents.iter().filter(|e| e.grouped && e.node == n).count() as u32;
        for (n, node) in self.nodes.pairs() {
            assert_eq!(node.queues, live(n));
        }
        let with =
            |f: &dyn Fn(&GroupNode) -> bool| self.nodes.iter().filter(|n| f(n)).count() as u32;
        assert_eq!(self.shared, with(&|n| n.tracked > 1));
        assert_eq!(self.census.groups, with(&|n| n.queues > 0));
        assert_eq!(self.census.groups_pending, with(&|n| n.pending));
        let active = self.ents.iter().filter(|e| e.is_queue() && e.on == On::Active).count() as u32;
        assert_eq!(self.active_list.len(), active);
        self.census.check(&self.ents, self.rules.fix_class_count);
    }
}
