//! Weights of groups: a general one and one for this device, and the files they are written to
//! (specs/bfq.md 8.2; specs/groups-and-priorities.md 6.2).

use super::Bfq;
use super::ids::Id;
use crate::device::Device;
use crate::env::Cx;
use crate::group::{GroupId, Groups};
use crate::knob::{Knob, KnobError, KnobOf, body_for, is_blank, number};
use crate::setting::{Tunable, TunableError, Unit, check};
use alloc::format;
use alloc::string::String;
use core::fmt::Write;

/// The only tunable of a group (8.2).
pub(super) static GROUP_TUNABLES: &[Tunable] = &[Tunable::new(
    "weight",
    Unit::Weight,
    DEFAULT_WEIGHT as u64,
    (1, WEIGHT_MAX),
    "Share of the group among its siblings. Queues of the same parent weigh 10 to 80.",
)];

/// The kernel's files for it, of cgroup v2 and of v1.
pub(super) static KNOBS: &[Knob] = &[
    Knob {
        file: "io.bfq.weight",
        of: KnobOf::Groups,
        form: "N | default N | MAJ:MIN N | MAJ:MIN default",
        doc: "Share of the group among its siblings, 1 to 1000, default 100; for one device before the general \
              one (specs/groups-and-priorities.md 6.2).",
    },
    Knob {
        file: "blkio.bfq.weight",
        of: KnobOf::Groups,
        form: "N",
        doc: "The general weight, as cgroup v1 has it.",
    },
    Knob {
        file: "blkio.bfq.weight_device",
        of: KnobOf::Groups,
        form: "MAJ:MIN N | MAJ:MIN default",
        doc: "The weight for one device, as cgroup v1 has it.",
    },
];

pub(super) const DEFAULT_WEIGHT: u32 = 100;
const WEIGHT_MAX: u64 = 1000;

/// Weights written for a group; the one in force is its entity's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct GroupWeight {
    general: u32,
    device: Option<u32>,
}

impl GroupWeight {
    pub const DEFAULT: GroupWeight = GroupWeight { general: DEFAULT_WEIGHT, device: None };
}

/// A line, read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Line {
    General(u32),
    /// `None`: the general one applies again.
    Device(Option<u32>),
}

impl Bfq {
    pub(super) fn set_group_weight(
        &mut self,
        group: GroupId,
        name: &str,
        value: Option<u64>,
        groups: &Groups,
    ) -> Result<(), TunableError> {
        let weight = value.unwrap_or(DEFAULT_WEIGHT.into());
        check(GROUP_TUNABLES, "bfq", name, weight)?;
        self.write_weight(group, Line::General(weight as u32), groups)
            .map_err(|stage| TunableError::Unknown { name: name.into(), stage })
    }

    pub(super) fn write_weight_file(
        &mut self,
        group: GroupId,
        file: &str,
        line: &str,
        cx: &Cx<'_>,
    ) -> Result<(), KnobError> {
        let line = parse(file, line, cx.device)?;
        self.write_weight(group, line, cx.groups)
            .map_err(|what| KnobError::unsupported(format!("{what} has no weight")))
    }

    pub(super) fn read_weight_file(
        &self,
        group: GroupId,
        file: &str,
        cx: &Cx<'_>,
        out: &mut String,
    ) {
        let node = self.groups.node(group);
        let written = if node.is_some() { self.groups[node].weight } else { GroupWeight::DEFAULT };
        let put = match (file, written.device) {
            ("io.bfq.weight", None) => writeln!(out, "default {}", written.general),
            ("io.bfq.weight", Some(w)) => {
                writeln!(out, "default {}\n{} {w}", written.general, cx.device.number)
            }
            ("blkio.bfq.weight", _) => writeln!(out, "{}", written.general),
            ("blkio.bfq.weight_device", Some(w)) => writeln!(out, "{} {w}", cx.device.number),
            _ => Ok(()),
        };
        put.expect("a String takes everything");
    }

    /// Takes over what was written; the entity follows at its next enqueue. The error is who has no weight.
    fn write_weight(
        &mut self,
        group: GroupId,
        line: Line,
        groups: &Groups,
    ) -> Result<(), &'static str> {
        if !groups.alive(group) {
            return Err("a removed group");
        }
        let node = self.node_of(group, groups);
        let up = self.fair.nodes[node].entity;
        if up.is_none() {
            return Err("the root group");
        }
        if matches!(line, Line::Device(_)) {
            self.know(node);
        }
        let keep = self.conf.keep_device_weight;
        let e = &mut self.fair.ents[up];
        let part = &mut self.groups[node];
        match line {
            Line::General(weight) => {
                part.weight.general = weight;
                if !keep {
                    // Quirk (a) of 6.2.
                    part.weight.device = None;
                }
            }
            Line::Device(weight) => part.weight.device = weight,
        }
        // Quirk Q16: without its override the group stays at the weight in force until the general one is written.
        // That is not one that still waits for the next enqueue: recorded of Linux 6.1.
        let weight = match part.weight.device {
            None if !keep && line == Line::Device(None) => e.weight,
            device => device.unwrap_or(part.weight.general),
        };
        if !part.known {
            // What a group begins with needs no enqueue to be in force.
            (e.weight, e.orig_weight, e.new_weight) = (weight, weight, weight);
        } else if e.new_weight != weight {
            e.new_weight = weight;
            e.prio_dirty = true;
        }
        Ok(())
    }
}

fn parse(file: &str, line: &str, device: &Device) -> Result<Line, KnobError> {
    let text = line.trim_matches(is_blank);
    let for_device = text.contains(':');
    let fits = match file {
        "io.bfq.weight" => true,
        "blkio.bfq.weight" => !for_device,
        _ => for_device,
    };
    if !fits {
        return Err(KnobError::invalid(format!("'{text}' is not a line of {file}")));
    }
    if for_device {
        return match body_for(device.number, text)? {
            "default" => Ok(Line::Device(None)),
            body => Ok(Line::Device(Some(in_range(number("weight", body)?)?))),
        };
    }
    let general = text.strip_prefix("default").filter(|_| file == "io.bfq.weight");
    let n = match general.filter(|rest| rest.starts_with(is_blank)) {
        Some(rest) => number("weight", rest.trim_start_matches(is_blank))?,
        None => bare(text)?,
    };
    in_range(n).map(Line::General)
}

/// A number that may be written in hexadecimal or octal, as the bare form allows.
fn bare(text: &str) -> Result<u64, KnobError> {
    let hex = text.strip_prefix("0x").or(text.strip_prefix("0X"));
    let (digits, radix) = match hex {
        Some(digits) => (digits, 16),
        None if text.len() > 1 && text.starts_with('0') => (&text[1..], 8),
        None => return number("weight", text),
    };
    let valid = !digits.is_empty() && digits.chars().all(|c| c.is_digit(radix));
    match u64::from_str_radix(digits, radix) {
        Ok(n) if valid => Ok(n),
        _ if valid => Err(KnobError::range(format!("weight {text} is above 2^64 - 1"))),
        _ => Err(KnobError::invalid(format!("'{text}' is not a weight such as 100"))),
    }
}

fn in_range(weight: u64) -> Result<u32, KnobError> {
    match weight {
        1..=WEIGHT_MAX => Ok(weight as u32),
        _ => Err(KnobError::range(format!("weight {weight} is outside 1..={WEIGHT_MAX}"))),
    }
}
