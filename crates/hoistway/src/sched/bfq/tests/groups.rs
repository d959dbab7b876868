//! C43 to C45 through the trait: groups share by weight, and what an asymmetric scenario is.

use super::rig::Rig;
use crate::group::{GroupId, ProcId};
use crate::setting::TunableError;
use crate::stage::{Change, Stage};
use crate::unit::{IoPrio, Nanos};

fn proc_in(rig: &mut Rig, group: GroupId) -> ProcId {
    rig.env.procs.add(group, IoPrio::be(4))
}

#[test]
fn c43_backlogged_groups_share_by_weight() {
    let mut rig = Rig::ssd();
    let (g, h) = (rig.group(300), rig.group(100));
    let (a, b) = (proc_in(&mut rig, g), proc_in(&mut rig, h));
    let mut served = [0u32; 2];
    for (n, p) in [a, b, a, b, a, b, a, b].into_iter().enumerate() {
        rig.read(p, ((p.0 as u64) << 28) + 256 * n as u64, 256);
    }
    for n in 8..8_000 {
        rig.now += Nanos::ms(1);
        let (id, by) = rig.issue();
        served[by.index()] += 1;
        rig.read(by, ((by.0 as u64) << 28) + 256 * n, 256);
        rig.complete(id);
    }
    let share = f64::from(served[0]) / f64::from(served[0] + served[1]);
    assert!((share - 0.75).abs() < 0.01, "{served:?}");
    rig.sched.check();
}

#[test]
fn a_change_of_weight_counts_from_the_next_slot_on() {
    let mut rig = Rig::ssd();
    let g = rig.group(300);
    let a = proc_in(&mut rig, g);
    rig.read(a, 1_000, 8);
    let node = rig.sched.groups.nodes[g.index()];
    let e = rig.sched.fair.nodes[node].entity;
    let mut set = |value| {
        let cx = &mut rig.env.cx();
        rig.sched.set_group(rig.now, g, "weight", value, cx)
    };
    assert!(matches!(set(Some(0)), Err(TunableError::OutOfRange { .. })));
    assert!(matches!(set(Some(1_001)), Err(TunableError::OutOfRange { .. })));
    assert!(set(Some(1_000)).is_ok());
    assert_eq!((rig.sched.fair.ents[e].weight, rig.sched.fair.ents[e].new_weight), (300, 1_000));
    rig.serve_all();
    rig.fire_timer();
    rig.read(a, 1_008, 8);
    assert_eq!(rig.sched.fair.ents[e].weight, 1_000);
    let cx = &mut rig.env.cx();
    rig.sched.set_group(rig.now, g, "weight", None, cx).unwrap();
    assert_eq!(rig.sched.fair.ents[e].new_weight, 100);
}

#[test]
fn c44_queues_in_two_groups_make_a_scenario_asymmetric() {
    let mut rig = Rig::ssd();
    let (g, h) = (rig.group(100), rig.group(100));
    let (a, b, c) = (proc_in(&mut rig, g), proc_in(&mut rig, g), proc_in(&mut rig, h));
    let d = proc_in(&mut rig, GroupId::ROOT);
    rig.read(a, 1_000, 8);
    rig.read(b, 1 << 24, 8);
    let q = rig.q(a);
    assert!(!rig.sched.asymmetric(q), "all in one group");
    rig.set("base", 0);
    assert!(rig.sched.asymmetric(q), "6.1: any group but the root");
    rig.set("base", 1);
    rig.read(c, 2 << 24, 8);
    assert!(rig.sched.asymmetric(q));

    let mut rig = Rig::ssd();
    let g = rig.group(100);
    let a = proc_in(&mut rig, g);
    let _ = (b, d);
    let d = proc_in(&mut rig, GroupId::ROOT);
    rig.read(a, 1_000, 8);
    let (id, _) = rig.issue();
    rig.read(d, 1 << 24, 8);
    let q = rig.q(a);
    assert!(rig.sched.asymmetric(q), "the root and a group; A is in flight");
    rig.complete(id);
    assert!(rig.queue(a).slot.waiting, "and so A is waited for");
}

#[test]
fn a_process_that_moves_takes_its_queue_along() {
    let mut rig = Rig::ssd();
    let (g, h) = (rig.group(300), rig.group(100));
    let a = proc_in(&mut rig, g);
    rig.read(a, 1_000, 8);
    rig.read(a, 2_000, 8);
    let q = rig.q(a);
    rig.issue();
    rig.env.procs.get_mut(a).unwrap().group = h;
    rig.read(a, 3_000, 8);
    assert_eq!(rig.q(a), q);
    assert_eq!(rig.sched.fair.ents[q].node, rig.sched.groups.nodes[h.index()]);
    assert_eq!(rig.expiries(), [(q, "preempted")]);
    assert_eq!(rig.sched.groups[rig.sched.groups.nodes[h.index()]].allocated, 3);
    rig.sched.check();
}

#[test]
fn the_queues_of_a_removed_group_go_to_the_root() {
    let mut rig = Rig::ssd();
    let g = rig.group(300);
    let a = proc_in(&mut rig, g);
    rig.read(a, 1_000, 8);
    rig.read(a, 2_000, 8);
    let (id, _) = rig.issue();
    rig.sched.changed(rig.now, &Change::GroupRemoved(g), &mut rig.env.cx());
    rig.env.groups.remove(g);
    let q = rig.q(a);
    assert_eq!(rig.sched.fair.ents[q].node, super::super::wf2q::ROOT);
    rig.sched.check();
    rig.complete(id);
    rig.read(a, 3_000, 8);
    rig.serve_all();
    rig.sched.check();
}

#[test]
fn every_actuator_is_kept_busy() {
    let mut rig = Rig::with_actuators(true, 64, &[1 << 20]);
    let [a, b] = rig.procs();
    for n in 0..8 {
        rig.read(a, 8 * n, 8);
    }
    for n in 0..8 {
        rig.read(b, (1 << 20) + 8 * n, 8);
    }
    // The first actuator gets requests until it has more than the second, then the second has its turn.
    let by: [ProcId; 6] = core::array::from_fn(|_| rig.issue().1);
    assert_eq!(by.iter().filter(|&&p| p == a).count(), 3, "{by:?}");
    assert_eq!(rig.sched.load.by_actuator[..2], [3, 3]);
    rig.sched.check();

    let mut rig = Rig::with_actuators(true, 64, &[1 << 20]);
    rig.set("base", 0);
    let [a, b] = rig.procs();
    for n in 0..8 {
        rig.read(a, 8 * n, 8);
        rig.read(b, (1 << 20) + 8 * n, 8);
    }
    let by: [ProcId; 6] = core::array::from_fn(|_| rig.issue().1);
    assert_eq!(by, [by[0]; 6], "6.1 serves one queue");
}

#[test]
fn a_request_belongs_to_the_actuator_of_its_last_sector() {
    let rig = Rig::with_actuators(true, 64, &[1_000]);
    let of = |end| rig.sched.actuator_of(end, &rig.env.device);
    assert_eq!((of(8), of(1_000), of(1_001), of(1 << 30)), (0, 0, 1, 1));
}

#[test]
fn a_queue_takes_at_most_512_bytes() {
    use crate::sched::bfq::ctx::{BfqCtx, Pair};
    use crate::sched::bfq::queue::BfqQueue;
    use crate::sched::bfq::wf2q::Entity;
    use core::mem::size_of;
    // Two tree nodes (service tree, positions) and three list links, all by queue number; the loose list
    // has room for two numbers and the free list for one.
    let links = 64 + 32 + 3 * 8 + 3 * 4;
    let queue = size_of::<BfqQueue>() + size_of::<Entity>() + links;
    assert!(queue <= 512, "{queue} bytes: {} + {}", size_of::<BfqQueue>(), size_of::<Entity>());
    let context = size_of::<BfqCtx>() + size_of::<Pair>();
    assert!(context <= 256, "{context} bytes per context");
}
