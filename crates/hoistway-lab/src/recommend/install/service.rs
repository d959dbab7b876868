//! What must be told about the service or the program that is to be served: its class, its weight, its limits.

use super::{Lines, Step, queue_of};
use crate::config::{Config, Member};
use crate::recommend::identity::Identity;
use hoistway::IoPrio;
use hoistway_sim::drive::DriveFile;

/// Adds what the configuration's policy asks of a service.
pub(super) fn add(
    config: &Config,
    identity: &Identity,
    drive: Option<&DriveFile>,
    lines: &mut Lines,
) {
    if config.target_prio != IoPrio::NONE && config.scheduler.name != "none" {
        lines.service.push(real_time());
    }
    let device = format!("/dev/{}", queue_of(identity));
    match config.policy.map(|p| p.name) {
        Some("prop") => lines.service.push(property(
            "IOWeight=400",
            "IOWeight=",
            "a weight (100 is what everybody has)",
        )),
        Some("cost") => lines.service.push(property(
            "IOWeight=400",
            "IOWeight=",
            "a weight (100 is what everybody has)",
        )),
        Some("lat") => {
            let us = given(config, "target").unwrap_or(10);
            let name = "IODeviceLatencyTargetSec=";
            let step = property(&format!("'{name}{device} {us}us'"), name, "a latency target");
            lines.service.push(step);
        }
        Some("max") => match drive {
            Some(drive) => lines.service.push(limits(config, drive, &device)),
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
    }
}

fn property(assignment: &str, reset: &str, what: &str) -> Step {
    Step {
        title: format!("for a service: {what}"),
        lines: vec![format!("systemctl set-property SERVICE {assignment}")],
        undo: vec![format!("systemctl set-property SERVICE {reset}")],
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
    let mut step = Step { title: "for each service: limits".into(), ..Step::default() };
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
