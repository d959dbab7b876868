//! Deep and wide trees.

use super::*;

#[test]
fn a_tree_of_depth_64_has_the_products_of_its_levels_as_shares() {
    let mut b = Bench::new(SSD, "");
    let mut at = GroupId::ROOT;
    let mut sides = Vec::new();
    for _ in 0..64 {
        let parent = at;
        at = b.group(parent, 100);
        let side = b.group(parent, 100);
        sides.push(side);
    }
    let (bio, verdict) = b.read_at(at, 8);
    assert_eq!(verdict, Verdict::Pass);
    b.serve(bio);
    assert_eq!(b.shares(at), (65_536, 65_536));
    for &side in &sides[..3] {
        let bio = b.read_at(side, 8).0;
        b.serve(bio);
    }
    assert_eq!(b.shares(at), (8192, 8192));
    assert_eq!([0, 1, 2].map(|i| b.shares(sides[i]).0), [32_768, 16_384, 8192]);
    for &side in &sides[3..] {
        let (bio, verdict) = b.read_at(side, 8);
        if verdict == Verdict::Pass {
            b.serve(bio);
        }
    }
    assert_eq!(b.shares(at), (1, 1), "at least 1");
    // What waits gets its turn (the least share is a 65,536th of the device), then all retire.
    for _ in 0..100_000 {
        let Some(due) = b.c.next_timer() else { break };
        b.until(due);
        for bio in core::mem::take(&mut b.released) {
            b.serve(bio);
        }
    }
    assert_eq!((b.c.next_timer(), b.c.active.len()), (None, 0));
    assert_eq!(b.node(GroupId::ROOT).sums.active, 0);
}

#[test]
fn a_hundred_thousand_groups_come_and_go() {
    let mut b = Bench::new(HDD, "");
    let groups: Vec<GroupId> = (0..100_000u32)
        .map(|_| {
            let group = b.env.groups.add(GroupId::ROOT, "g");
            b.c.changed(b.now, &Change::GroupAdded(group), &mut b.env.cx());
            group
        })
        .collect();
    let mut held = 0;
    for &g in &groups {
        let (bio, verdict) = b.read_at(g, 8);
        if verdict == Verdict::Pass {
            b.serve(bio);
        } else {
            held += 1;
        }
    }
    assert_eq!(b.c.active.len(), 100_000);
    let total = 100_000 * 6_553_600;
    assert_eq!(b.node(GroupId::ROOT).sums.active, total);
    assert!(held > 0, "each has the least share only");
    // The least share makes 24 us of device time 1.6 s.
    let end = b.now + Nanos::secs(4);
    while let Some(due) = b.c.next_timer().filter(|&due| due < end) {
        b.until(due);
        for bio in core::mem::take(&mut b.released) {
            b.serve(bio);
        }
    }
    let waiting: u32 = groups.iter().map(|&g| b.node(g).waiters.len()).sum();
    assert_eq!(waiting, 0);
    b.until(b.now + Nanos::secs(5));
    assert_eq!((b.c.active.len(), b.node(GroupId::ROOT).sums.active), (0, 0));
}

/// The caches against shares computed from scratch, under random changes of the tree.
#[test]
fn cached_shares_are_those_computed_from_scratch() {
    let mut x = 7u64;
    let mut rand = move |n: u64| {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        x % n
    };
    let mut b = Bench::new(SSD, "");
    let mut all = alloc::vec![GroupId::ROOT];
    for _ in 0..60 {
        let parent = all[rand(all.len() as u64) as usize];
        let weight = 1 + rand(10_000) as u32;
        all.push(b.group(parent, weight));
    }
    for _ in 0..5000 {
        let g = all[1 + rand(all.len() as u64 - 1) as usize];
        let now = b.now();
        match rand(5) {
            0 | 1 => {
                b.c.exist(g, &now);
                b.c.activate(g, &now);
            }
            2 => {
                b.c.retire(g);
                b.c.shares.commit();
            }
            3 if b.node(g).listed => {
                let active = b.node(g).weights.active;
                b.c.shares.set(g, active, rand(active + 2), Some(now.v));
                b.c.shares.commit();
            }
            _ => {
                let line = format!("{}", 1 + rand(10_000));
                b.write(g, "io.weight", &line);
                b.c.shares.commit();
            }
        }
        for &g in &all[1..] {
            if b.node(g).listed {
                assert_eq!(b.c.shares.of(g), b.c.shares.look(g));
            }
        }
        for &g in &all {
            let children = b.env.groups.children(g);
            let active: u64 = children.iter().map(|&c| b.node(c).weights.active).sum();
            let inuse: u64 = children.iter().map(|&c| b.node(c).weights.inuse).sum();
            assert_eq!((b.node(g).sums.active, b.node(g).sums.inuse), (active, inuse));
        }
    }
}
