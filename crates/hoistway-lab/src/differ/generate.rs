//! Random scenarios: the same seed and number give the same scenario on every machine.
//!
//! What is drawn is what schedulers decide by: who is there (1 to 64 processes, mostly few), what they read and write
//! and where, how long they think, priorities, groups, and what changes on the way. Regions are kept small and shared
//! now and then, or nothing would ever merge or lie next to anything else.

use hoistway::sched::{Entry, find, of_module};
use hoistway::setting::Unit;
use hoistway::unit::IoPrio;
use hoistway_machine::linux::actor::scenario::{Change, IoOrder, Load, Process, Scenario, What};
use hoistway_replay::control::CONTROLLERS;
use hoistway_sim::rng::{self, Rng};

/// The drives scenarios run on: rotational and not, shallow and deep.
pub const DRIVES: &[&str] = &[
    "hitachi-hts727550a9e364",
    "plextor-px-256m5s",
    "emmc-5.1-64g",
    "samsung-970-pro",
    "maxtor-6l080l0",
    "usb-stick-32g",
];

/// Bytes of the disk that scenarios use: what the smallest of [`DRIVES`] has.
const SPACE: u64 = 16 << 30;

/// Scenario `number` of those that `seed` gives for a scheduler or controller; scenarios of one batch share a drive.
pub fn scenario(scheduler: &str, seed: u64, number: u64, batch: u64) -> Scenario {
    if CONTROLLERS.contains(&scheduler) {
        return super::control::scenario(scheduler, seed, number, batch);
    }
    match of_module(scheduler) {
        Some(of) => inside(drawn(of.name, seed, number, batch), scheduler, of),
        None => drawn(scheduler, seed, number, batch),
    }
}

/// Of a scheduler by our name.
fn drawn(scheduler: &str, seed: u64, number: u64, batch: u64) -> Scenario {
    let drive = rng::stream(seed, &format!("differ/{scheduler}/drive/{}", number / batch.max(1)))
        .one_of(DRIVES);
    let mut rng = rng::stream(seed, &format!("differ/{scheduler}/{number}"));
    let r = &mut rng;
    let length = 40 + r.below(460);
    let groups = groups(r, scheduler);
    let count = 1 + match r.below(10) {
        0..5 => r.below(4),
        5..8 => r.below(12),
        8 => r.below(32),
        _ => r.below(64),
    };
    let prios = r.below(3);
    let processes: Vec<Process> = (0..count).map(|_| process(r, length, &groups, prios)).collect();
    let changes = changes(r, scheduler, length, count, &groups, prios);
    Scenario {
        scheduler: scheduler.to_string(),
        drive: drive.to_string(),
        length,
        groups,
        processes,
        changes,
    }
}

/// The same for ours inside the kernel, where a weight is for all devices, and cfq takes none below 100.
fn inside(mut scenario: Scenario, scheduler: &str, of: &Entry) -> Scenario {
    scenario.scheduler = scheduler.into();
    let Some(range) = of.group_tunables.iter().find(|t| t.name == "weight") else {
        return scenario;
    };
    let fit = |weight: u32| u64::from(weight).clamp(range.min, range.max) as u32;
    scenario.groups.iter_mut().for_each(|(_, weight)| *weight = weight.map(fit));
    for change in &mut scenario.changes {
        match &mut change.what {
            What::DeviceWeight(group, 0) => change.what = What::Weight(group.clone(), 100),
            What::DeviceWeight(group, weight) => {
                change.what = What::Weight(group.clone(), fit(*weight));
            }
            What::Weight(_, weight) => *weight = fit(*weight),
            _ => {}
        }
    }
    scenario
}

pub(super) fn chance(r: &mut Rng, percent: u64) -> bool {
    r.below(100) < percent
}

fn weight(r: &mut Rng) -> u32 {
    r.one_of(&[1, 10, 50, 100, 200, 300, 500, 1000])
}

/// Whether its groups have weights.
fn weighs(scheduler: &str) -> bool {
    find(scheduler).is_some_and(Entry::weighs_groups)
}

fn groups(r: &mut Rng, scheduler: &str) -> Vec<(String, Option<u32>)> {
    let names: &[&str] = match r.below(4) {
        0 | 1 => &[],
        2 => &["a", "b"],
        _ => &["a", "b", "a/x", "a/y", "c"],
    };
    let weighted = weighs(scheduler);
    names.iter().map(|n| (n.to_string(), (weighted && chance(r, 70)).then(|| weight(r)))).collect()
}

/// 0: nobody sets one; 1: levels; 2: classes too.
fn prio(r: &mut Rng, prios: u64) -> IoPrio {
    let level = r.below(8) as u8;
    match (prios, r.below(5)) {
        (0, _) | (_, 0) => IoPrio::NONE,
        (1, _) => IoPrio::be(level),
        (_, 1) => IoPrio::rt(level),
        (_, 2) => IoPrio::idle(),
        _ => IoPrio::be(level),
    }
}

pub(super) fn process(
    r: &mut Rng,
    length: u64,
    groups: &[(String, Option<u32>)],
    prios: u64,
) -> Process {
    let start = if chance(r, 50) { 0 } else { r.below(length) };
    let end = if chance(r, 60) { length } else { start + r.below(length - start + 1) };
    // Only groups without groups below them have processes.
    let leaf = |g: &str| !groups.iter().any(|(other, _)| other.starts_with(&format!("{g}/")));
    let leaves: Vec<&String> = groups.iter().map(|(g, _)| g).filter(|g| leaf(g)).collect();
    let group = (!leaves.is_empty() && chance(r, 80))
        .then(|| leaves[r.below(leaves.len() as u64) as usize].clone());
    let load = match r.below(20) {
        0..8 => Load::Read,
        8..12 => Load::Write,
        12..15 => Load::Mixed,
        15..17 => Load::Buffered(r.one_of(&[0, 8, 32])),
        17 | 18 => Load::Periodic(1 + r.below(40)),
        _ => Load::Children(1 + r.below(20) as u32),
    };
    let bytes = 512
        * match r.below(6) {
            0 => 1 + r.below(8),
            1 | 2 => 8,
            3 => 8 * (1 + r.below(16)),
            4 => 256,
            _ => 1024,
        };
    let bytes =
        if matches!(load, Load::Buffered(_)) { bytes.next_multiple_of(4096) } else { bytes };
    let order = match r.below(10) {
        0..5 => IoOrder::Sequential,
        5..8 => IoOrder::Random,
        _ => IoOrder::Stride(bytes * (2 + r.below(3))),
    };
    // One in three works where others do.
    let (base, span) = match r.below(3) {
        0 => (r.below(4) * bytes, 1 << (18 + r.below(6))),
        _ => (r.below(SPACE >> 22) << 20, 1 << (20 + r.below(11))),
    };
    let span = u64::max(span, bytes);
    let base = (base / 4096 * 4096).min(SPACE - span);
    Process {
        start,
        end,
        group,
        prio: prio(r, prios),
        load,
        order,
        bytes,
        depth: match r.below(4) {
            0 | 1 => 1,
            2 => 2 + r.below(7) as u32,
            _ => 1 + r.below(32) as u32,
        },
        base,
        span,
        think: match r.below(4) {
            0 => 0,
            1 => 10,
            2 => r.below(300),
            _ => r.below(12_000),
        },
    }
    .paced()
}

/// Without any pause a process of buffered writes never ends in virtual time.
trait Paced {
    fn paced(self) -> Self;
}

impl Paced for Process {
    fn paced(mut self) -> Process {
        let floor = match self.load {
            Load::Buffered(_) => 200,
            Load::Read | Load::Write | Load::Mixed | Load::Periodic(_) | Load::Children(_) => 10,
        };
        self.think = self.think.max(floor);
        self
    }
}

fn changes(
    r: &mut Rng,
    scheduler: &str,
    length: u64,
    processes: u64,
    groups: &[(String, Option<u32>)],
    prios: u64,
) -> Vec<Change> {
    let count = if chance(r, 40) { 0 } else { 1 + r.below(8) };
    let mut changes: Vec<Change> = (0..count)
        .filter_map(|_| {
            let what = match r.below(4) {
                0 | 1 => tunable(r, scheduler),
                2 if prios > 0 => Some(What::Prio(r.below(processes) as usize, prio(r, 2))),
                _ if !groups.is_empty() => Some(group_change(r, scheduler, processes, groups)),
                _ => None,
            }?;
            Some(Change { at: if chance(r, 20) { 0 } else { r.below(length) }, what })
        })
        .collect();
    changes.sort_by_key(|c| c.at);
    changes
}

fn group_change(
    r: &mut Rng,
    scheduler: &str,
    processes: u64,
    groups: &[(String, Option<u32>)],
) -> What {
    let (group, _) = groups[r.below(groups.len() as u64) as usize].clone();
    let leaf = !groups.iter().any(|(other, _)| other.starts_with(&format!("{group}/")));
    match r.below(4) {
        0 if weighs(scheduler) => What::Weight(group, weight(r)),
        1 if weighs(scheduler) => {
            What::DeviceWeight(group, if chance(r, 30) { 0 } else { weight(r) })
        }
        _ => {
            let to = (leaf && chance(r, 70)).then_some(group);
            What::Move(r.below(processes) as usize, to)
        }
    }
}

/// A tunable of the kernel's and a value it takes.
fn tunable(r: &mut Rng, scheduler: &str) -> Option<What> {
    let (name, value) = match scheduler {
        "mq-deadline" => match r.below(7) {
            0 => ("read_expire", r.one_of(&[0, 1, 10, 100, 500, 2000])),
            1 => ("write_expire", r.one_of(&[0, 1, 50, 500, 5000])),
            2 => ("prio_aging_expire", r.one_of(&[0, 10, 100, 1000, 10_000])),
            3 => ("writes_starved", r.below(6)),
            4 => ("fifo_batch", r.one_of(&[0, 1, 2, 8, 16, 64])),
            5 => ("front_merges", r.below(2)),
            _ => ("async_depth", 1 + r.below(64)),
        },
        "kyber" => match r.below(2) {
            0 => ("read_lat_nsec", r.one_of(&[1, 1000, 100_000, 500_000, 2_000_000, 20_000_000])),
            _ => ("write_lat_nsec", r.one_of(&[1, 10_000, 500_000, 2_000_000, 10_000_000])),
        },
        "bfq" => match r.below(9) {
            0 => ("slice_idle_us", r.one_of(&[0, 100, 2000, 8000, 20_000])),
            1 => ("strict_guarantees", r.below(2)),
            2 => ("max_budget", r.one_of(&[0, 128, 1024, 8192])),
            3 => ("timeout_sync", r.one_of(&[10, 50, 125, 500])),
            4 => ("fifo_expire_sync", r.one_of(&[10, 125, 500])),
            5 => ("fifo_expire_async", r.one_of(&[10, 250, 1000])),
            6 => ("back_seek_max", r.one_of(&[0, 1024, 16_384])),
            7 => ("back_seek_penalty", 1 + r.below(4)),
            _ => ("low_latency", r.below(2)),
        },
        _ => return any_tunable(r, scheduler),
    };
    Some(What::Set(name.to_string(), value))
}

/// A tunable of a scheduler that the kernel does not have: any of its words, or a value around the usual one. None by which
/// processes would wait for ever.
fn any_tunable(r: &mut Rng, scheduler: &str) -> Option<What> {
    let tunables = find(scheduler)?.tunables;
    let tunable = tunables.get(r.below(tunables.len().max(1) as u64) as usize)?;
    let value = match tunable.unit {
        Unit::Switch | Unit::Choice(_) => tunable.min + r.below(tunable.max - tunable.min + 1),
        _ => {
            let usual = tunable.default.max(1);
            r.one_of(&[0, usual / 4, usual / 2, usual.saturating_mul(2), usual.saturating_mul(4)])
        }
    };
    let value = value.clamp(tunable.min, tunable.max);
    (tunable.stops_at != Some(value)).then(|| What::Set(tunable.name.to_string(), value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoistway::sched::{SCHEDULERS, module_name};

    #[test]
    fn every_scenario_can_be_read_again() {
        let ours = SCHEDULERS.iter().filter_map(|e| module_name(e));
        for scheduler in ["mq-deadline", "kyber", "bfq"].into_iter().chain(ours) {
            for n in 0..200 {
                let scenario = scenario(scheduler, 7, n, 20);
                assert_eq!(
                    scenario.to_string().parse::<Scenario>(),
                    Ok(scenario),
                    "{scheduler} {n}"
                );
            }
        }
    }

    #[test]
    fn ours_that_the_kernel_lacks_get_weights_and_tunables_of_their_own() {
        let all = |scheduler| (0..100).map(move |n| scenario(scheduler, 1, n, 20));
        let set = |s: Scenario, name: &str| {
            s.changes.iter().any(|c| matches!(&c.what, What::Set(n, _) if n == name))
        };
        let weighted = |s: Scenario| s.groups.iter().any(|(_, weight)| weight.is_some());
        assert!(all("cfq").any(|s| set(s, "slice_idle")) && all("cfq").any(weighted));
        assert!(all("zoccolo").any(|s| set(s, "fifo_batch")) && !all("zoccolo").any(weighted));
        let stops = |c: &Change| matches!(&c.what, What::Set(n, 0) if ["base", "max_inflight"].contains(&n.as_str()));
        assert!(all("k2").any(|s| set(s, "max_inflight")));
        assert!(
            !all("k2").any(|s| s.changes.iter().any(stops)),
            "its processes would wait for ever"
        );
        assert!(all("noop").all(|s| s.changes.iter().all(|c| !matches!(c.what, What::Set(..)))));
    }

    #[test]
    fn a_seed_repeats_and_a_batch_shares_its_drive() {
        assert_eq!(scenario("bfq", 1, 5, 20), scenario("bfq", 1, 5, 20));
        assert_ne!(scenario("bfq", 1, 5, 20), scenario("bfq", 2, 5, 20));
        let (own, ours) = (scenario("kyber", 1, 5, 20), scenario("h-kyber", 1, 5, 20));
        assert_eq!(Scenario { scheduler: "kyber".into(), ..ours.clone() }, own);
        assert_ne!(ours, own);
        assert!(
            (20..40).all(|n| scenario("bfq", 1, n, 20).drive == scenario("bfq", 1, 20, 20).drive)
        );
    }
}
