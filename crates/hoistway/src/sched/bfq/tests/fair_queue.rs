//! C1 to C10 and C43's order: the core driven directly.

use crate::sched::bfq::ids::*;
use crate::sched::bfq::tunables::SETTINGS;
use crate::sched::bfq::wf2q::*;
use crate::unit::{Instant, Nanos};
use alloc::string::String;
use alloc::vec::Vec;

pub(super) struct Core {
    pub fair: FairQueue,
    pub now: Instant,
}

impl Core {
    pub fn new() -> Core {
        Core { fair: FairQueue::new(Instant::ZERO, SETTINGS.defaults().fair), now: Instant::ZERO }
    }

    /// An active queue.
    pub fn queue(&mut self, weight: u32, budget: u64) -> QueueNo {
        self.queue_in(ROOT, BE, weight, budget)
    }

    pub fn queue_in(
        &mut self,
        node: NodeNo,
        class: ServiceClass,
        weight: u32,
        budget: u64,
    ) -> QueueNo {
        let q = self.fair.add_entity(node, class, weight).queue();
        self.wake(q, budget, false);
        q
    }

    pub fn wake(&mut self, q: QueueNo, budget: u64, hole: bool) {
        self.ent(q).service = 0;
        self.ent(q).budget = budget;
        self.fair.activate_or_requeue(q, hole, false, self.now);
        self.fair.check();
    }

    pub fn ent(&mut self, q: QueueNo) -> &mut Entity {
        &mut self.fair.ents[q]
    }

    pub fn select(&mut self) -> QueueNo {
        self.fair.select(self.now)
    }

    /// Ends the slot of `q`; it still has work.
    pub fn requeue(&mut self, q: QueueNo) {
        self.fair.activate_or_requeue(q, false, true, self.now);
        self.over(q);
    }

    /// Ends the slot of `q`; it is empty.
    pub fn expire_empty(&mut self, q: QueueNo) {
        self.fair.deactivate(q.into(), true, true, self.now);
        self.over(q);
    }

    fn over(&mut self, q: QueueNo) {
        self.fair.clear_in_service(q);
        self.ent(q).service = 0;
        self.fair.clear_ancestor_service(q);
        self.fair.check();
    }

    /// A whole slot of whoever is next.
    pub fn slot(&mut self) -> QueueNo {
        let q = self.select();
        let budget = self.ent(q).budget;
        self.fair.serve(q, budget);
        self.requeue(q);
        q
    }

    pub fn v(&self) -> u64 {
        self.fair.nodes[ROOT].trees[BE].v.0
    }

    fn wsum(&self) -> u64 {
        self.fair.nodes[ROOT].trees[BE].wsum
    }

    fn stamps(&self, q: QueueNo) -> (u64, u64) {
        let e = &self.fair.ents[q];
        (e.start.0, e.finish.0)
    }

    fn slots(&mut self, n: usize, names: &str) -> String {
        let name = |q: QueueNo| names.as_bytes()[q.0 as usize] as char;
        (0..n).map(|_| name(self.slot())).collect()
    }
}

#[test]
fn c1_half_the_budget_is_served_twice_as_often() {
    let mut c = Core::new();
    let (a, b) = (c.queue(40, 1000), c.queue(40, 500));
    assert_eq!((c.stamps(a).1, c.stamps(b).1), (104_857_600, 52_428_800));
    assert_eq!(c.slot(), b);
    assert_eq!((c.v(), c.stamps(b).0), (26_214_400, 52_428_800));
    assert_eq!(c.slot(), a);
    assert_eq!((c.v(), c.stamps(a).0), (78_643_200, 104_857_600));
    assert_eq!(c.slot(), b);
    assert_eq!(c.v(), 104_857_600);
    assert_eq!(c.slots(5, "AB"), "BABBA");
}

#[test]
fn c2_weights_three_to_one() {
    let mut c = Core::new();
    let (a, b) = (c.queue(30, 300), c.queue(10, 300));
    assert_eq!(c.slot(), a);
    assert_eq!((c.v(), c.stamps(a)), (31_457_280, (41_943_040, 83_886_080)));
    assert_eq!(c.stamps(b).1, 125_829_120);
    assert_eq!(c.slots(9, "AB"), "BAAABAAAB");
}

#[test]
fn c3_a_heavy_queue_alternates_with_ten_light_ones() {
    let mut c = Core::new();
    c.queue(50, 100);
    for _ in 0..10 {
        c.queue(5, 100);
    }
    assert_eq!(c.slots(23, "Habcdefghij"), "HaHbHcHdHeHfHgHhHijHHaH");
}

#[test]
fn c4_a_queue_that_returns_soon_goes_on_from_its_finish() {
    let (mut c, a, b) = c4();
    c.select();
    c.fair.serve(b, 100);
    assert_eq!(c.v(), 26_214_400);
    c.wake(a, 1000, false);
    assert_eq!(c.stamps(a), (41_943_040, 146_800_640));
}

/// A and B of weight 40; A has had 400 of 1000 sectors and left empty.
fn c4() -> (Core, QueueNo, QueueNo) {
    let mut c = Core::new();
    let (a, b) = (c.queue(40, 1000), c.queue(40, 1000));
    assert_eq!(c.select(), a);
    c.fair.serve(a, 400);
    c.expire_empty(a);
    assert_eq!((c.stamps(a).1, c.v(), c.wsum()), (41_943_040, 20_971_520, 80));
    assert_eq!(c.fair.ents[a].on, On::Idle);
    (c, a, b)
}

#[test]
fn c5_a_queue_is_forgotten_once_virtual_time_has_passed_it() {
    let (mut c, a, b) = c4();
    assert_eq!(c.select(), b);
    c.fair.serve(b, 400);
    assert_eq!((c.v(), c.wsum()), (41_943_040, 40));
    c.fair.serve(b, 100);
    assert_eq!(c.v(), 52_428_800);
    c.wake(a, 1000, false);
    assert_eq!((c.stamps(a), c.wsum()), ((52_428_800, 157_286_400), 80));
}

#[test]
fn c5_virtual_time_is_clipped_to_the_last_idle_finish() {
    let (mut c, _, b) = c4();
    c.select();
    c.fair.serve(b, 600);
    assert_eq!((c.v(), c.wsum()), (41_943_040, 40));
}

#[test]
fn with_equal_finishes_the_clip_is_lost_after_the_first() {
    // Quirk Q17: the first of the two is also the remembered last.
    let mut c = Core::new();
    let (a, b) = (c.queue(40, 400), c.queue(40, 400));
    for q in [a, b] {
        assert_eq!(c.select(), q);
        c.fair.serve(q, 400);
        if q == a {
            c.expire_empty(a);
        }
    }
    assert_eq!((c.v(), c.fair.ents[a].on), (41_943_040, On::None));
    c.expire_empty(b);
    assert_eq!(c.wsum(), 0);

    let mut c = Core::new();
    let (a, b, x) = (c.queue(40, 400), c.queue(40, 400), c.queue(40, 10_000));
    for q in [a, b] {
        assert_eq!(c.select(), q);
        c.fair.serve(q, 400);
        c.expire_empty(q);
    }
    assert_eq!((c.v(), c.stamps(a).1, c.stamps(b).1), (27_962_026, 41_943_040, 41_943_040));
    assert_eq!(c.select(), x);
    c.fair.serve(x, 1000);
    // a forgotten, V moved back to its finish; b stays and the next service does not move V back.
    assert_eq!((c.v(), c.wsum()), (41_943_040, 80));
    c.fair.serve(x, 1000);
    assert_eq!((c.v(), c.wsum()), (41_943_040 + delta(1000, 80), 40));
}

#[test]
fn c6_a_hole_is_recovered_by_going_back() {
    let (mut c, a) = c6(40, 1);
    assert_eq!((c.v(), c.wsum()), (118_838_613, 80));
    c.wake(a, 600, true);
    assert_eq!(c.stamps(a), (55_924_053, 118_838_613));
    assert_eq!(c.fair.nodes[ROOT].cached, a.into());

    let (mut c, a) = c6(40, 1);
    c.wake(a, 1000, false);
    assert_eq!(c.stamps(a), (118_838_613, 223_696_213));
}

/// A, B, C; A leaves after 400 of 1000 sectors, B is served 3000 of 4000.
fn c6(weight: u32, wr: u32) -> (Core, QueueNo) {
    let mut c = Core::new();
    let a = c.queue(weight, 1000);
    c.ent(a).wr = wr;
    c.ent(a).orig_weight = weight / wr;
    c.ent(a).new_weight = weight / wr;
    let b = c.queue(40, 4000);
    c.queue(40, 4000);
    assert_eq!(c.select(), a);
    c.fair.serve(a, 400);
    c.expire_empty(a);
    if wr == 1 {
        assert_eq!((c.stamps(a).1, c.v(), c.wsum()), (41_943_040, 13_981_013, 120));
    }
    assert_eq!(c.select(), b);
    c.fair.serve(b, 3000);
    (c, a)
}

#[test]
fn c7_a_raised_queue_is_pushed_much_less() {
    let (mut c, a) = c6(1200, 30);
    assert_eq!((c.stamps(a).1, c.v()), (1_398_101, 11_141_120));
    c.wake(a, 600, true);
    assert_eq!(c.stamps(a), (1_652_963, 3_750_115));
}

#[test]
fn c8_virtual_time_jumps_only_when_nobody_is_in_service() {
    for in_service in [false, true] {
        let mut c = Core::new();
        let (a, b) = (c.queue(40, 1000), c.queue(40, 100));
        assert_eq!(c.slot(), b);
        let before = VTime(c.v());
        // b starts at its finish, ahead of V; a leaves.
        assert!(c.fair.ents[b].start.after(before));
        let other = c.fair.add_entity(ROOT, BE, 40);
        c.fair.nodes[ROOT].in_service = if in_service { other } else { EntityNo::NONE };
        c.fair.deactivate(a.into(), false, false, c.now);
        assert_eq!(c.fair.nodes[ROOT].cached, b.into());
        let start = c.fair.ents[b].start;
        assert_eq!(VTime(c.v()), if in_service { before } else { start });
    }
}

#[test]
fn c9_the_idle_class_gets_a_slot_about_every_200_ms() {
    let mut c = Core::new();
    let r = c.queue_in(ROOT, RT, 40, 100);
    c.queue(40, 100);
    let i = c.queue_in(ROOT, IDLE, 10, 100);
    let mut seen = Vec::new();
    while c.now < Instant::ZERO + Nanos::ms(460) {
        let q = c.select();
        seen.push((c.now.as_nanos() / 1_000_000, q));
        c.now += Nanos::ms(if q == i { 1 } else { 50 });
        c.fair.serve(q, 100);
        c.requeue(q);
    }
    let at = [0, 50, 100, 150, 200, 250, 251, 301, 351, 401, 451, 452];
    let who = [r, r, r, r, r, i, r, r, r, r, i, r];
    assert_eq!(seen, at.into_iter().zip(who).collect::<Vec<_>>());
}

#[test]
fn c10_a_new_weight_counts_from_the_next_enqueue() {
    let mut c = Core::new();
    let a = c.queue(40, 1000);
    let before = (c.stamps(a), c.wsum());
    c.ent(a).new_weight = 80;
    c.ent(a).prio_dirty = true;
    assert_eq!((c.stamps(a), c.wsum()), before);
    assert_eq!(c.select(), a);
    c.fair.serve(a, 1000);
    c.requeue(a);
    assert_eq!(c.stamps(a), (104_857_600, 104_857_600 + delta(1000, 80)));
    assert_eq!(c.wsum(), 80);
}

#[test]
fn a_new_class_takes_effect_at_the_next_enqueue_and_starts_at_its_time() {
    let mut c = Core::new();
    let (a, r) = (c.queue(40, 1000), c.queue_in(ROOT, RT, 40, 500));
    c.ent(a).new_class = RT;
    c.ent(a).prio_dirty = true;
    c.slot();
    assert_eq!(c.fair.ents[a].class, BE);
    // Requeue without service in between, as a change of its next request would.
    c.wake(a, 1000, false);
    let v = c.fair.tree(r.into()).v;
    assert_eq!((c.fair.ents[a].class, c.fair.ents[a].start), (RT, v));
    assert_eq!((c.wsum(), c.fair.tree(r.into()).wsum), (0, 80));
}

#[test]
fn c43_groups_of_weights_300_and_100_share_three_to_one() {
    let mut c = Core::new();
    let g = c.fair.add_group(ROOT, 300, c.now);
    let h = c.fair.add_group(ROOT, 100, c.now);
    let (a, b) = (c.queue_in(g, BE, 40, 300), c.queue_in(h, BE, 40, 300));
    let order: String = (0..10).map(|_| if c.slot() == a { 'G' } else { 'H' }).collect();
    assert_eq!(order, "GHGGGHGGGH");
    assert_eq!((a, b), (QueueNo(2), QueueNo(3)));
}

#[test]
fn a_group_whose_last_queue_leaves_leaves_too_and_shares_again_when_it_returns() {
    let mut c = Core::new();
    let g = c.fair.add_group(ROOT, 100, c.now);
    let (a, b) = (c.queue_in(g, BE, 40, 300), c.queue_in(g, BE, 40, 300));
    let x = c.queue(100, 300);
    let first: Vec<QueueNo> = (0..8).map(|_| c.slot()).collect();
    assert_eq!(first.iter().filter(|&&q| q == x).count(), 4);
    for _ in 0..2 {
        loop {
            let q = c.select();
            c.fair.serve(q, 300);
            if q == x {
                c.requeue(q);
            } else {
                c.expire_empty(q);
                break;
            }
        }
    }
    assert!((0..3).all(|_| c.slot() == x));
    c.wake(a, 300, false);
    c.wake(b, 300, false);
    let again: Vec<QueueNo> = (0..8).map(|_| c.slot()).collect();
    for (q, n) in [(x, 4), (a, 2), (b, 2)] {
        assert_eq!(again.iter().filter(|&&s| s == q).count(), n, "{again:?}");
    }
}
