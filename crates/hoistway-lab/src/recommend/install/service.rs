//! What must be told about the service or the program that is to be served: its class, its weight, its limits.
//!
//! Installed is what was measured. Runs write weights into `io.weight` and `io.bfq.weight` as they are; systemd (250 and
//! newer) writes `IOWeight=` into `io.weight` as it is, and into `io.bfq.weight` in BFQ's range: 1 to 100 unchanged, 100 to
//! 10000 evenly over 100 to 1000, rounded down. So the property that gives BFQ what was measured is another number
//! ([`property_for_bfq`]), and the one for io.cost the same.

use super::udev::pattern;
use super::{Asks, Lines, Step, Tried, kernel_tunables, queue_of};
use crate::config::{Config, Member};
use crate::experiment::Weights;
use crate::recommend::identity::Identity;
use hoistway::IoPrio;
use hoistway_sim::drive::DriveFile;

/// What everybody weighs who was given nothing, in the files and for systemd.
pub const USUAL: u64 = 100;
/// Most for systemd and in `io.weight`.
const WEIGHT_MAX: u64 = 10_000;
/// Most in `io.bfq.weight`.
const BFQ_MAX: u64 = 1000;

/// `io.bfq.weight` of a service with this `IOWeight=`, by systemd 250 and newer.
pub fn bfq_weight(property: u64) -> u64 {
    if property <= USUAL {
        return property;
    }
    USUAL + (property - USUAL) * (BFQ_MAX - USUAL) / (WEIGHT_MAX - USUAL)
}

/// The least `IOWeight=` that gives this `io.bfq.weight`; `None`: BFQ has no such weight.
pub fn property_for_bfq(weight: u64) -> Option<u64> {
    match weight {
        1..=USUAL => Some(weight),
        // Rounded up, since systemd rounds down.
        _ if (USUAL..=BFQ_MAX).contains(&weight) => {
            Some(USUAL + ((weight - USUAL) * (WEIGHT_MAX - USUAL)).div_ceil(BFQ_MAX - USUAL))
        }
        _ => None,
    }
}

/// Adds what the configuration's policy asks of a service.
pub(super) fn add(
    config: &Config,
    identity: &Identity,
    drive: Option<&DriveFile>,
    tried: &Tried,
    lines: &mut Lines,
) {
    if config.target_prio != IoPrio::NONE && config.scheduler.name != "none" && tried.target {
        lines.steps.push(real_time());
    }
    let device = format!("/dev/{}", queue_of(identity));
    match config.policy.map(|p| p.name) {
        Some("prop" | "cost") => weights(config, tried, lines),
        Some("lat") => {
            let us = given(config, "target").unwrap_or(10);
            let name = "IODeviceLatencyTargetSec=";
            let assignment = format!("'{name}{device} {us}us'");
            lines.steps.push(property("a latency target", &assignment, name, Asks::Service(None)));
        }
        Some("max") => match drive {
            Some(drive) => lines.steps.push(limits(config, drive, &device)),
            None => lines
                .cannot
                .push("no lines for io.max: its limits come from the rates of a drive file".into()),
        },
        _ => {}
    }
    if config.groups && identity.cgroup.as_deref().is_some_and(|c| c != "v2") {
        let has = identity.cgroup.as_deref().unwrap_or("none");
        lines.notes.push(format!(
            "this machine has its io controller in cgroup {has}; the properties of systemd need v2: boot with \
             systemd.unified_cgroup_hierarchy=1 on the kernel's command line (undo: without it)"
        ));
    }
}

fn given(config: &Config, name: &str) -> Option<u64> {
    config.given.iter().rev().find(|(n, _)| n == name).map(|&(_, v)| v)
}

/// The weights of the runs; where the runs gave none, all weighed the same.
fn weights(config: &Config, tried: &Tried, lines: &mut Lines) {
    if config.policy.is_some_and(|p| p.name == "prop")
        && kernel_tunables(config.scheduler.name).is_none()
    {
        let why = "no lines for weights: systemd does not know io.hoistway.weight; write them into that file of the services' cgroups";
        return lines.cannot.push(why.into());
    }
    let by_bfq = config.scheduler.name == "bfq";
    let by_cost = config.controllers.iter().any(|c| c.name == "io.cost");
    if by_bfq && by_cost {
        let why = "no lines for weights: io.cost and BFQ both share by them here, and one IOWeight= gives each another one";
        return lines.cannot.push(why.into());
    }
    let mut all = tried.weights.clone();
    if all.is_empty() {
        all.push((USUAL, "each of them".to_string()));
    }
    for (weight, whose) in all {
        let (given, file) = match by_bfq {
            true => (property_for_bfq(weight), "io.bfq.weight"),
            false => (Some(weight).filter(|w| (1..=WEIGHT_MAX).contains(w)), "io.weight"),
        };
        let Some(value) = given else {
            lines.cannot.push(format!("no line for weight {weight}: {file} cannot have it"));
            continue;
        };
        let what = format!("weight {weight}, as {whose} was measured with ({file})");
        let assignment = format!("IOWeight={value}");
        let of = Asks::Service(Some(weight));
        lines.steps.push(property(&what, &assignment, "IOWeight=", of));
        if value != weight {
            lines.notes.push(format!(
                "IOWeight={value}: systemd 250 and newer write {file} {weight} for it; an older one: write {weight} into \
                 {file} of the service's cgroup"
            ));
        }
    }
}

/// Weights by value, the least first, with the kinds of processes that had them: those of one kind are numbered.
pub fn by_weight(weights: &Weights) -> Vec<(u64, String)> {
    let mut all: Vec<(u64, Vec<String>)> = Vec::new();
    for (name, weight) in weights {
        let kind = pattern(name.trim_end_matches(|c: char| c.is_ascii_digit()));
        match all.iter_mut().find(|(w, _)| w == weight) {
            Some((_, kinds)) if kinds.contains(&kind) => {}
            Some((_, kinds)) => kinds.push(kind),
            None => all.push((*weight, vec![kind])),
        }
    }
    all.sort_by_key(|(weight, _)| *weight);
    all.into_iter().map(|(weight, kinds)| (weight, kinds.join(", "))).collect()
}

/// The target was measured in the real-time class.
fn real_time() -> Step {
    Step {
        title: "the program that must not wait, in the real-time class as it was measured".into(),
        lines: vec![
            "ionice -c 1 -n 4 -p PID".into(),
            "# or for a service, for good: systemctl edit SERVICE, with".into(),
            "#   [Service]".into(),
            "#   IOSchedulingClass=realtime".into(),
            "#   IOSchedulingPriority=4".into(),
        ],
        undo: vec!["ionice -c 0 -p PID".into(), "# systemctl revert SERVICE".into()],
        asks: Asks::Program,
    }
}

fn property(what: &str, assignment: &str, reset: &str, asks: Asks) -> Step {
    Step {
        title: format!("for a service: {what}"),
        lines: vec![format!("systemctl set-property SERVICE {assignment}")],
        undo: vec![format!("systemctl set-property SERVICE {reset}")],
        asks,
    }
}

/// The limits that each group had.
fn limits(config: &Config, drive: &DriveFile, device: &str) -> Step {
    let written = config.lines(drive, Member::Interferer);
    let body = written.iter().find(|l| l.0 == "io.max").map_or("", |l| l.1.as_str());
    let names = [
        ("rbps=", "IOReadBandwidthMax="),
        ("wbps=", "IOWriteBandwidthMax="),
        ("riops=", "IOReadIOPSMax="),
        ("wiops=", "IOWriteIOPSMax="),
    ];
    let title = "for each service: limits".into();
    let mut step = Step { title, asks: Asks::Service(None), ..Step::default() };
    for word in body.split_whitespace() {
        for (key, property) in names {
            if let Some(value) = word.strip_prefix(key) {
                step.lines
                    .push(format!("systemctl set-property SERVICE '{property}{device} {value}'"));
                step.undo.push(format!("systemctl set-property SERVICE {property}"));
            }
        }
    }
    step
}

#[cfg(test)]
mod tests {
    use super::*;

    /// systemd's own examples, and those of its threads.
    #[test]
    fn systemd_maps_its_weights_into_bfqs_range() {
        for (property, weight) in [
            (1, 1),
            (50, 50),
            (100, 100),
            (400, 127),
            (500, 136),
            (666, 151),
            (5000, 545),
            (10_000, 1000),
        ] {
            assert_eq!(bfq_weight(property), weight, "IOWeight={property}");
        }
    }

    #[test]
    fn every_weight_of_bfq_has_a_property_that_gives_exactly_it() {
        assert_eq!(property_for_bfq(300), Some(2300));
        for weight in 1..=BFQ_MAX {
            let property = property_for_bfq(weight).unwrap();
            assert!((1..=WEIGHT_MAX).contains(&property), "{weight}: {property}");
            assert_eq!(bfq_weight(property), weight, "IOWeight={property}");
        }
        assert_eq!((property_for_bfq(0), property_for_bfq(1001)), (None, None));
    }

    #[test]
    fn weights_are_listed_once_each_with_those_who_had_them() {
        let of = |all: &[(&str, u64)]| {
            by_weight(&all.iter().map(|(n, w)| (n.to_string(), *w)).collect())
        };
        assert_eq!(
            of(&[("heavy0", 300), ("light0", 100), ("heavy1", 300), ("mid", 100)]),
            [(100, "light, mid".to_string()), (300, "heavy".to_string())]
        );
    }
}
