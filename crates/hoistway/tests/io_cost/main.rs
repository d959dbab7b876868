//! `io.cost` inside the stack: shares, donation, debts, and random runs that must come to rest.

mod rig;

use hoistway::trace::Trace;
use hoistway::{GroupId, Instant, Nanos, Sectors};
use rig::{Load, Rig};

/// vrate pinned: the model alone decides.
const PINNED: &str = "enable=1 ctrl=user rpct=0 rlat=10000 wpct=0 wlat=10000 min=100 max=100";

fn secs(n: u64) -> Instant {
    Instant::ZERO + Nanos::secs(n)
}

fn busy(group: GroupId) -> Load {
    Load { group, depth: 8, sectors_max: 256, others: 0, think: Nanos::ZERO }
}

/// What a group should get of the device: the product over its levels of weight by the sum of the
/// siblings' weights.
fn expected(tree: &[(GroupId, GroupId, u64)], leaf: GroupId) -> f64 {
    let mut share = 1.0;
    let mut at = leaf;
    while at != GroupId::ROOT {
        let &(_, parent, weight) = tree.iter().find(|g| g.0 == at).unwrap();
        let sum: u64 = tree.iter().filter(|g| g.1 == parent).map(|g| g.2).sum();
        share *= weight as f64 / sum as f64;
        at = parent;
    }
    share
}

/// All leaves always have I/O waiting: each gets its share within 5 %.
#[test]
fn backlogged_groups_share_the_device_by_weight() {
    for seed in 1..=12 {
        let mut rig = Rig::new(PINNED, 64, seed);
        let mut tree = Vec::new();
        let mut leaves = Vec::new();
        for _ in 0..2 + rig.rng.below(3) {
            let weight = 50 + rig.rng.below(450);
            let top = rig.group(GroupId::ROOT, weight);
            tree.push((top, GroupId::ROOT, weight));
            let children = rig.rng.below(4);
            for _ in 0..children {
                let weight = 50 + rig.rng.below(450);
                let child = rig.group(top, weight);
                tree.push((child, top, weight));
                leaves.push(child);
            }
            if children == 0 {
                leaves.push(top);
            }
        }
        for &leaf in &leaves {
            for _ in 0..3 {
                rig.task(busy(leaf));
            }
        }
        rig.run_until(secs(2));
        let before = rig.served.clone();
        rig.run_until(secs(42));
        let got: Vec<u64> =
            leaves.iter().map(|g| rig.served[g] - before.get(g).copied().unwrap_or(0)).collect();
        let all: u64 = got.iter().sum();
        // The device, a tenth faster than the model, is not idle for longer than that tenth.
        assert!(all > 38_000_000_000, "seed {seed}: {all} ns");
        for (&leaf, &got) in leaves.iter().zip(&got) {
            let (share, want) = (got as f64 / all as f64, expected(&tree, leaf));
            let apart = (share / want - 1.0).abs();
            assert!(apart <= 0.05, "seed {seed}: {leaf:?} has {share:.4} instead of {want:.4}");
        }
    }
}

/// A group that uses little lends its weight, and has it back in the period in which it wants it.
#[test]
fn a_donated_share_returns_within_one_period() {
    let mut rig = Rig::new(PINNED, 64, 5);
    let [donor, other] = [300, 100].map(|w| rig.group(GroupId::ROOT, w));
    let light = Load { depth: 1, sectors_max: 8, think: Nanos::ms(5), ..busy(donor) };
    let task = rig.task(light);
    for _ in 0..3 {
        rig.task(busy(other));
    }
    rig.run_until(secs(2));
    let (active, inuse) = (Some(49_152), rig.gauge("hweight_inuse", Some(donor)).unwrap());
    assert_eq!(rig.gauge("hweight_active", Some(donor)), active);
    assert!(inuse < 10_000, "it keeps {inuse} of 65,536");
    let before = rig.served[&other];
    rig.run_until(secs(4));
    let used = rig.served[&other] - before;
    assert!(used > 1_700_000_000, "the other one has nearly all: {used} ns of 2 s");

    *rig.load_mut(task) = Load { depth: 64, ..busy(donor) };
    let from = rig.now;
    // The period is 20 ms, 24 ms with the tick.
    while rig.gauge("hweight_inuse", Some(donor)) != active {
        assert!(rig.now < from + Nanos::ms(24), "its weight is not back");
        rig.run_until(rig.now + Nanos::us(100));
    }
    // Both are short from then on: 3 to 1.
    rig.run_until(from + Nanos::ms(200));
    let before = rig.served.clone();
    rig.run_until(from + Nanos::ms(10_200));
    let got = [donor, other].map(|g| rig.served[&g] - before[&g]);
    let share = got[0] as f64 / (got[0] + got[1]) as f64;
    assert!((share / 0.75 - 1.0).abs() <= 0.05, "{share}");
}

/// What metadata has cost without waiting is paid for: in the long run the group has no more than its share.
#[test]
fn debts_are_paid() {
    let mut rig = Rig::new(PINNED, 64, 9);
    let [debtor, other] = [100, 100].map(|w| rig.group(GroupId::ROOT, w));
    for _ in 0..3 {
        rig.task(Load { others: 4, ..busy(debtor) });
        rig.task(busy(other));
    }
    rig.run_until(secs(2));
    let before = rig.served.clone();
    let mut debts = 0;
    for i in 0..300 {
        rig.run_until(secs(2) + Nanos::ms(100 * (i + 1)));
        debts += rig.gauge("debt", Some(debtor)).unwrap_or(0);
    }
    assert!(debts > 0, "there were debts");
    let got = [debtor, other].map(|g| rig.served[&g] - before[&g]);
    let share = got[0] as f64 / (got[0] + got[1]) as f64;
    // Discards and flushes of the debtor are nearly free, here as in the model.
    assert!(share < 0.55, "{share}");
    rig.run_dry(Nanos::secs(60));
    assert!(rig.at_rest());
}

/// Random groups, loads, weights, settings, removals and moves: nothing is lost, each group's reads and
/// writes stay in order (`rig` checks), the same seed gives the same trace, and everything comes to rest.
#[test]
fn random_runs_lose_nothing_and_come_to_rest() {
    for seed in 1..=60 {
        let (digest, rig) = random_run(seed);
        assert!(rig.at_rest(), "seed {seed}");
        assert_eq!(rig.submitted, rig.finished, "seed {seed}");
        if seed % 10 == 0 {
            assert_eq!(random_run(seed).0, digest, "seed {seed} repeats");
        }
    }
}

fn random_run(seed: u64) -> (u64, Rig) {
    let line = [PINNED, "enable=1", "enable=1 rpct=95 rlat=3000 wpct=90 wlat=5000 min=10 max=300"];
    let mut rig = Rig::new(
        line[seed as usize % 3],
        if seed.is_multiple_of(2) { 512 } else { 2 + seed as u32 },
        seed,
    );
    *rig.stack.trace_mut() = Trace::digest_only();
    let mut groups = vec![GroupId::ROOT];
    for _ in 0..8 {
        random_step(&mut rig, &mut groups);
    }
    for _ in 0..60 {
        random_step(&mut rig, &mut groups);
        let pause = Nanos::us(rig.rng.below(40_000));
        rig.run_until(rig.now + pause);
    }
    rig.run_dry(Nanos::secs(3000));
    (rig.stack.trace_mut().digest(), rig)
}

fn random_step(rig: &mut Rig, groups: &mut Vec<GroupId>) {
    let some =
        |rig: &mut Rig, groups: &[GroupId]| groups[rig.rng.below(groups.len() as u64) as usize];
    let weight = 1 + rig.rng.below(10_000);
    match rig.rng.below(8) {
        0 | 1 => {
            let parent = some(rig, groups);
            let group = rig.group(parent, weight);
            groups.push(group);
        }
        2 | 3 => {
            let load = Load {
                group: some(rig, groups),
                depth: 1 + rig.rng.below(8) as usize,
                sectors_max: 8 << rig.rng.below(9),
                others: rig.rng.below(6),
                think: Nanos::us(rig.rng.below(20_000)),
            };
            rig.task(load);
        }
        4 => {
            let group = some(rig, groups);
            if group != GroupId::ROOT {
                rig.write(group, "io.weight", &format!("8:0 {weight}"));
            }
        }
        5 => {
            let lines = ["enable=0", "enable=1", "min=50 max=50", "ctrl=auto", "rpct=99 rlat=100"];
            let line = lines[rig.rng.below(5) as usize];
            rig.write(GroupId::ROOT, "io.cost.qos", &format!("8:0 {line}"));
        }
        6 if groups.len() > 4 => {
            // A leaf goes, with its I/O waiting and under way; its processes submit on.
            let leaf = *groups.last().unwrap();
            if rig.stack.env().groups.children(leaf).is_empty() {
                groups.pop();
                rig.remove(leaf);
            }
        }
        // Pieces would run out of tags.
        _ if !rig.ordered => {
            let limits = [Sectors(64), Sectors(2560)];
            let at = rig.rng.below(2) as usize;
            rig.limit(limits[at]);
        }
        _ => {}
    }
}
