//! Random scenarios for controllers: groups within groups, and what is written to their files.
//!
//! The loads are those of the schedulers' scenarios ([`super::generate`]), fewer at a time and for longer: io.max decides
//! in slices of 100 ms, io.cost in periods of 10 to 500 ms, io.latency every half second.

use super::generate::{DRIVES, chance, process};
use hoistway_machine::linux::actor::scenario::{Change, DEV, Process, Scenario, What};
use hoistway_sim::rng::{self, Rng};

/// Scenario `number` of those that `seed` gives for `controller`; scenarios of one batch share a drive.
pub fn scenario(controller: &str, seed: u64, number: u64, batch: u64) -> Scenario {
    let drive = rng::stream(seed, &format!("differ/{controller}/drive/{}", number / batch.max(1)))
        .one_of(DRIVES);
    let mut rng = rng::stream(seed, &format!("differ/{controller}/{number}"));
    let r = &mut rng;
    let length = match controller {
        "io.max" => 200 + r.below(1000),
        "io.cost" => 400 + r.below(1200),
        _ => 1200 + r.below(1800),
    };
    let names: &[&str] = match r.below(4) {
        0 => &["a", "b"],
        1 => &["a", "b", "c", "d"],
        2 => &["a", "a/x", "a/y", "b"],
        _ => &["a", "a/x", "a/y", "b", "b/x", "b/x/q", "c"],
    };
    let groups: Vec<(String, Option<u32>)> = names.iter().map(|n| (n.to_string(), None)).collect();
    let count = 1 + if chance(r, 80) { r.below(8) } else { r.below(24) };
    let processes: Vec<Process> = (0..count).map(|_| one(r, length, &groups)).collect();
    let changes = changes(r, controller, length, count, names);
    Scenario {
        scheduler: controller.to_string(),
        drive: drive.to_string(),
        length,
        groups,
        processes,
        changes,
    }
}

/// Settings of time 0 are written before anybody begins.
const FIRST_START: u64 = 5;

fn one(r: &mut Rng, length: u64, groups: &[(String, Option<u32>)]) -> Process {
    let mut p = process(r, length, groups, 0);
    p.start = p.start.max(FIRST_START);
    p.end = p.end.max(p.start);
    p
}

fn changes(
    r: &mut Rng,
    controller: &str,
    length: u64,
    processes: u64,
    names: &[&str],
) -> Vec<Change> {
    let mut all: Vec<Change> = Vec::new();
    if controller == "io.cost" {
        all.push(Change { at: 0, what: root_file("io.cost.model", model(r)) });
        all.push(Change { at: 0, what: root_file("io.cost.qos", qos(r)) });
    }
    for name in names {
        if chance(r, 75) {
            all.push(Change { at: 0, what: setting(r, controller, name) });
        }
    }
    let count = if chance(r, 40) { 0 } else { 1 + r.below(6) };
    let mut later: Vec<Change> = (0..count)
        .map(|_| {
            let name = r.one_of(names);
            let what = match r.below(10) {
                0 => What::Move(r.below(processes) as usize, leaf(names, name)),
                1 => What::Remove(name.to_string()),
                2 if controller == "io.cost" => root_file("io.cost.qos", qos(r)),
                3 if controller == "io.cost" => root_file("io.cost.model", model(r)),
                _ => setting(r, controller, name),
            };
            Change { at: FIRST_START + r.below(length), what }
        })
        .collect();
    later.sort_by_key(|c| c.at);
    all.extend(later);
    all
}

/// Only groups without groups below them have processes.
fn leaf(names: &[&str], name: &str) -> Option<String> {
    let inner = names.iter().any(|other| other.starts_with(&format!("{name}/")));
    (!inner).then(|| name.to_string())
}

fn root_file(file: &str, value: String) -> What {
    What::Write(None, file.to_string(), format!("{DEV} {value}"))
}

/// What is written to a group's file of the controller.
fn setting(r: &mut Rng, controller: &str, group: &str) -> What {
    let (file, value) = match controller {
        "io.max" => ("io.max", format!("{DEV} {}", limits(r))),
        "io.cost" => {
            let weight = r.one_of(&[1, 10, 50, 100, 100, 200, 500, 1000, 10_000]);
            let of = if chance(r, 70) { "default" } else { DEV };
            ("io.weight", format!("{of} {weight}"))
        }
        _ => {
            let us = r.one_of(&[0, 50, 200, 1000, 3000, 10_000, 30_000, 100_000]);
            ("io.latency", format!("{DEV} target={us}"))
        }
    };
    What::Write(Some(group.to_string()), file.to_string(), value)
}

fn limits(r: &mut Rng) -> String {
    const BYTES: &[u64] = &[2000, 100_000, 1 << 20, 4 << 20, 10_000_000, 50_000_000, 200_000_000];
    const IOS: &[u64] = &[2, 10, 33, 100, 500, 2000, 20_000];
    let mut words = Vec::new();
    for (name, some) in [("rbps", BYTES), ("wbps", BYTES), ("riops", IOS), ("wiops", IOS)] {
        match r.below(10) {
            0..5 => {}
            5 => words.push(format!("{name}=max")),
            _ => words.push(format!("{name}={}", r.one_of(some))),
        }
    }
    if words.is_empty() {
        words.push("rbps=1048576".to_string());
    }
    words.join(" ")
}

fn model(r: &mut Rng) -> String {
    if chance(r, 30) {
        return "ctrl=auto".to_string();
    }
    // From a slow disk to a fast drive.
    let scale = r.one_of(&[1u64, 2, 5, 20, 100]);
    let bytes = scale * (20_000_000 + r.below(20_000_000));
    let (sequential, random) = (scale * (1000 + r.below(9000)), scale * (50 + r.below(500)));
    format!(
        "ctrl=user model=linear rbps={bytes} rseqiops={sequential} rrandiops={random} wbps={} wseqiops={} wrandiops={}",
        bytes * (3 + r.below(8)) / 10,
        sequential * (3 + r.below(8)) / 10,
        random * (3 + r.below(8)) / 10
    )
}

fn qos(r: &mut Rng) -> String {
    if chance(r, 30) {
        return "enable=1 ctrl=auto".to_string();
    }
    let percent = r.one_of(&["0.00", "50.00", "90.00", "95.00"]);
    let (rlat, wlat) =
        (r.one_of(&[500, 2500, 10_000, 50_000]), r.one_of(&[500, 5000, 20_000, 50_000]));
    let (min, max) = r.one_of(&[
        ("100.00", "100.00"),
        ("50.00", "150.00"),
        ("10.00", "400.00"),
        ("1.00", "10000.00"),
    ]);
    format!(
        "enable=1 ctrl=user rpct={percent} rlat={rlat} wpct={percent} wlat={wlat} min={min} max={max}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scenario_can_be_read_again_and_sets_something() {
        for controller in hoistway_replay::control::CONTROLLERS {
            for n in 0..200 {
                let scenario = scenario(controller, 7, n, 20);
                assert!(
                    scenario.changes.iter().any(|c| matches!(c.what, What::Write(..))) || n > 0
                );
                assert!(scenario.processes.iter().all(|p| p.start >= FIRST_START));
                assert_eq!(scenario.to_string().parse(), Ok(scenario), "{controller} {n}");
            }
        }
    }
}
