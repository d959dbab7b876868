//! The file `io.latency`, the fields of `io.stat`, and what a monitor records.

use super::node::{BASE, LatencyNode, UNLIMITED};
use crate::group::GroupId;
use crate::knob::{DevNo, Knob, KnobError, KnobOf, body_for, number, pair, unknown_key};
use crate::stage::Gauge;
use crate::unit::Nanos;
use alloc::format;
use alloc::string::String;
use core::fmt::Write;

pub(super) static KNOBS: &[Knob] = &[Knob {
    file: "io.latency",
    of: KnobOf::Groups,
    form: "MAJ:MIN target=US|max",
    doc: "Latency the group's I/O is to have, in us; 0 and max: no target. Siblings with a looser target \
          or none are held back while it is missed (specs/groups-and-priorities.md 6.5).",
}];

/// The target in a line; zero: none.
pub(super) fn parse(device: DevNo, line: &str) -> Result<Nanos, KnobError> {
    let mut target = None;
    for token in body_for(device, line)?.split(' ') {
        if token.is_empty() {
            return Err(KnobError::invalid("settings are separated by exactly one blank"));
        }
        let (key, value) = pair(token)?;
        if key != "target" {
            return Err(unknown_key(key, &["target"]));
        }
        let us = if value == "max" { 0 } else { number(key, value)? };
        let ns = us.checked_mul(1000).ok_or_else(|| {
            KnobError::range(format!("target={us} is above {}, the most in us", u64::MAX / 1000))
        })?;
        target = Some(Nanos(ns));
    }
    target.ok_or_else(|| KnobError::invalid("no setting follows the device number"))
}

const FITS: &str = "a string takes everything";

pub(super) fn print_target(device: DevNo, node: &LatencyNode, out: &mut String) {
    if node.target.0 > 0 {
        writeln!(out, "{device} target={}", node.target.as_us()).expect(FITS);
    }
}

/// The delay mechanism's fields, then io.latency's own.
pub(super) fn print_stat(node: &LatencyNode, out: &mut String) {
    if node.delay.uses() != 0 {
        let (uses, ns) = (node.delay.uses(), node.delay.nanos().0);
        write!(out, " use_delay={uses} delay_nsec={ns}").expect(FITS);
    }
    let depth = match node.depth {
        UNLIMITED => "max".into(),
        depth => format!("{depth}"),
    };
    if node.rotational {
        let (avg, window) = (node.avg / 1000, node.window.as_ms());
        write!(out, " depth={depth} avg_lat={avg} win={window}").expect(FITS);
    } else {
        let (missed, total) = (node.stat.missed, node.stat.samples);
        write!(out, " missed={missed} total={total} depth={depth}").expect(FITS);
    }
}

/// The cookie of every parent in use, and all else of every group.
pub(super) fn gauges(
    group: GroupId,
    node: &LatencyNode,
    requests: u32,
    sink: &mut dyn FnMut(Gauge),
) {
    let mut say = |name, unit, value: u64| {
        let value = i64::try_from(value).unwrap_or(i64::MAX);
        sink(Gauge { name, unit, group: Some(group), value });
    };
    if node.scale.n_total > 0 || node.scale.cookie != BASE || group == GroupId::ROOT {
        say("cookie", "", node.scale.cookie);
    }
    if group == GroupId::ROOT {
        return;
    }
    // Unlimited is as much as there are requests.
    say("depth", "I/Os", node.effective(requests).into());
    say("inflight", "I/Os", node.inflight.into());
    say("waiters", "I/Os", node.waiters.len().into());
    say("use_delay", "", node.delay.uses().max(0) as u64);
    say("delay", "ns", node.delay.nanos().0);
    if node.target.0 > 0 {
        say("target", "ns", node.target.0);
        if node.rotational {
            say("mean", "ns", node.stat.mean());
        } else {
            say("missed", "I/Os", node.stat.missed);
            say("total", "I/Os", node.stat.samples);
        }
    }
}
