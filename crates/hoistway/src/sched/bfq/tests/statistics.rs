//! Figures: each is described, and what they count.

use super::rig::Rig;
use crate::group::GroupId;
use crate::stage::{Figure, Stage};
use crate::unit::{IoPrio, Nanos};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

fn figures(rig: &Rig) -> Vec<Figure> {
    let mut all = Vec::new();
    rig.sched.figures(&mut |f| all.push(f));
    all
}

/// Two processes, the first in a group of weight 200; both are served for a while.
fn run(statistics: u64) -> Rig {
    let mut rig = Rig::hdd();
    rig.set("queue_statistics", statistics);
    let group = rig.group(200);
    let a = rig.env.procs.add(group, IoPrio::be(4));
    let b = rig.proc(IoPrio::be(4));
    for n in 0..8 {
        rig.read(a, 1000 + 8 * n, 8);
        rig.read(b, 1 << 25, 16);
        rig.now += Nanos::ms(1);
        rig.serve_all();
        rig.fire_timer_if_armed();
    }
    while rig.sched.load.queued > 0 {
        rig.serve_all();
        rig.fire_timer_if_armed();
    }
    rig
}

#[test]
fn every_figure_is_described_once_and_every_description_has_a_figure() {
    let rig = run(1);
    let mut described = BTreeMap::new();
    for doc in rig.sched.info().figures.iter().copied().flatten() {
        assert!(described.insert(doc.name, doc).is_none(), "{} twice", doc.name);
        assert!(doc.doc.ends_with('.') && !doc.of.is_empty());
        for (suffix, unit) in [("_ns", "ns"), ("_sectors", "sectors"), ("_per_s", "sectors/s")] {
            assert!(!doc.name.ends_with(suffix) || doc.unit == unit, "{}: {}", doc.name, doc.unit);
        }
    }
    let given: BTreeSet<_> = figures(&rig).iter().map(|f| f.name).collect();
    assert_eq!(given, described.keys().copied().collect());
    for f in figures(&rig) {
        assert_eq!(f.of.is_some(), described[f.name].of != "device", "{}", f.name);
    }
}

#[test]
fn a_page_lists_every_figure() {
    let page = include_str!("../../../../../../docs/schedulers/bfq.md");
    for doc in run(0).sched.info().figures.iter().copied().flatten() {
        let shared = ["queue_", "group_"].iter().find_map(|p| doc.name.strip_prefix(p));
        let found = [doc.name, shared.unwrap_or(doc.name)].iter().any(|name| {
            let name: alloc::string::String = ["`", name, "`"].concat();
            page.contains(&name)
        });
        assert!(found, "{} is not in docs/schedulers/bfq.md", doc.name);
    }
}

#[test]
fn what_the_queues_have_adds_up_to_what_groups_and_the_device_have() {
    let rig = run(1);
    let mut sums: BTreeMap<&str, [i64; 3]> = BTreeMap::new();
    for f in figures(&rig) {
        let prefixes = [("queue_", 0), ("group_", 1), ("", 2)];
        let (name, at) =
            prefixes.iter().find_map(|&(p, at)| Some((f.name.strip_prefix(p)?, at))).unwrap();
        sums.entry(name).or_default()[at] += f.value;
    }
    for name in ["requests_served", "sectors_served", "time_in_service_ns", "idle_timer_armed"] {
        let [queues, groups, device] = sums[name];
        assert!(device > 0, "{name}");
        assert_eq!((queues, groups), (device, device), "{name}");
    }
    assert_eq!(sums["sectors_served"][2], 8 * (8 + 16));
    let slots = sums.iter().filter(|(name, _)| name.starts_with("slots_expired"));
    let slots = slots.fold([0; 3], |sum, (_, n)| core::array::from_fn(|i| sum[i] + n[i]));
    assert!(slots[2] > 2);
    assert_eq!((slots[0], slots[1]), (slots[2], slots[2]));
}

#[test]
fn without_the_switch_queues_have_no_figures_and_take_no_room() {
    let rig = run(0);
    assert!(figures(&rig).iter().all(|f| !f.name.starts_with("queue_")));
    assert_eq!(rig.sched.stats.queues.capacity(), 0);
    let rig = run(1);
    let weights: Vec<_> = figures(&rig)
        .iter()
        .filter(|f| f.name == "queue_weight" || f.name == "group_weight")
        .map(|f| (f.name, f.of, f.value))
        .collect();
    let group = Some(GroupId(1).0);
    // The queue of number 0 is the place of the group's entity.
    let expected = [
        ("group_weight", group, 200),
        ("queue_weight", Some(1), 40),
        ("queue_weight", Some(2), 40),
    ];
    assert_eq!(weights, expected);
}
