//! io.cost: its lines for now, and the hwdb entry that systemd's `iocost` tool applies at every boot.
//!
//! The entry is as in systemd's own `90-iocost.hwdb`: a match on model and firmware
//! (`block:PATH:name:MODEL:fwrev:REVISION:`, where systemd leaves the path empty), the names of solutions, and for each `IOCOST_MODEL_NAME` and
//! `IOCOST_QOS_NAME`. udev's rule `90-iocost.rules` runs `iocost apply` on drives that have one.

use super::udev::{Match, pattern, slug};
use super::{Lines, Step, SystemFile};
use crate::config::{Config, Member};
use crate::recommend::identity::Identity;
use hoistway_sim::drive::DriveFile;

/// The name of our solution.
const SOLUTION: &str = "hoistway";

pub(super) fn add(
    config: &Config,
    identity: &Identity,
    drive: Option<&DriveFile>,
    by: Match,
    lines: &mut Lines,
) {
    if !config.controllers.iter().any(|c| c.name == "io.cost") {
        return;
    }
    let Some(drive) = drive else {
        let why = "no lines for io.cost: its model and QoS come from a drive file; `hoistway calibrate` makes one";
        return lines.cannot.push(why.into());
    };
    let written = config.lines(drive, Member::Root);
    let body = |file: &str| {
        let line = written.iter().find(|l| l.0 == file).map(|l| l.1.clone());
        line.map(|l| l.split_once(' ').map_or(String::new(), |(_, body)| body.to_string()))
    };
    let qos = body("io.cost.qos").unwrap_or_default();
    let c = &drive.iocost;
    let linear = format!(
        "rbps={} rseqiops={} rrandiops={} wbps={} wseqiops={} wrandiops={}",
        c.rbps, c.rseqiops, c.rrandiops, c.wbps, c.wseqiops, c.wrandiops
    );
    let number = "MAJ:MIN";
    let mut step = Step {
        title: format!("io.cost now (cgroup v2; {number}: of the drive, as `lsblk` prints it)"),
        ..Step::default()
    };
    if let Some(model) = body("io.cost.model") {
        step.lines.push(format!("echo '{number} {model}' > /sys/fs/cgroup/io.cost.model"));
        step.undo.push(format!("echo '{number} ctrl=auto' > /sys/fs/cgroup/io.cost.model"));
    }
    step.lines.push(format!("echo '{number} {qos}' > /sys/fs/cgroup/io.cost.qos"));
    step.undo.insert(0, format!("echo '{number} enable=0 ctrl=auto' > /sys/fs/cgroup/io.cost.qos"));
    lines.steps.push(step);
    let Some(model) = identity.model.as_deref().filter(|_| by == Match::Model) else {
        let why = "no hwdb entry for io.cost: its model is that of one drive, and no model is known to match it by";
        return lines.cannot.push(why.into());
    };
    let kept: Vec<&str> = qos
        .split_whitespace()
        .filter(|p| !p.starts_with("enable=") && !p.starts_with("ctrl="))
        .collect();
    let key = SOLUTION.to_uppercase();
    let text = format!(
        "# Undo: delete this file, then systemd-hwdb update.\n\
         block:*:name:{}:fwrev:*:\n IOCOST_SOLUTIONS={SOLUTION}\n IOCOST_MODEL_{key}={linear}\n IOCOST_QOS_{key}={}\n",
        pattern(model.trim()),
        kept.join(" ")
    );
    let path = format!("/etc/udev/hwdb.d/90-iocost-hoistway-{}.hwdb", slug(model));
    lines.files.push(SystemFile { path, text });
    lines.files.push(SystemFile {
        path: "/etc/systemd/iocost.conf.d/hoistway.conf".into(),
        text: format!("# Made by hoistway recommend.\n[IOCost]\nTargetSolution={SOLUTION}\n"),
    });
}
