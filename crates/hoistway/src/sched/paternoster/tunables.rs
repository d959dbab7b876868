//! What can be set, and the files of groups.

use super::Paternoster;
use super::budget::NO_LIMIT;
use super::fair::WEIGHT;
use super::lane::Target;
use super::measure::{Permille, Units};
use super::media::CHOICES;
use crate::env::Cx;
use crate::group::GroupId;
use crate::knob::{Knob, KnobError, KnobOf, body_for, is_blank, number, pair, unknown_key};
use crate::setting::{OnChange, Setting, Settings, Tunable, TunableError, Unit, check, listed};
use crate::unit::{Instant, Nanos, Sectors};
use alloc::format;
use alloc::string::String;
use core::fmt::Write;

pub(super) const ROWS: &[Setting<Paternoster>] = &[
    Tunable::new(
        "loss",
        Unit::Count,
        30,
        (5, 300),
        "Thousandths of the throughput that may be given for a smaller valve and smaller requests.",
    )
    .field(|p| p.valve.loss().0, |p, v| p.valve.set_loss(Permille(v))),
    Tunable::new(
        "lane_part",
        Unit::Count,
        4,
        (0, 50),
        "Percent of the greedy work that targets without a number may cost in changes of place, where those have a \
         price, and four times as much if they pause between requests; 0: they wait 500 ms each.",
    )
    .field(|p| p.lane.part, |p, v| p.lane.part = v),
    Tunable::new(
        "others_loss",
        Unit::Count,
        50,
        (0, NO_LIMIT),
        "Thousandths of the throughput that targets without a number may take from the others; they get their share \
         in any case. 1000: no limit.",
    )
    .field(|p| p.budget.others_loss, |p, v| p.budget.others_loss = v),
    Tunable::new(
        "valve",
        Unit::Count,
        0,
        (0, 4096),
        "Units (a command, or 8 KiB) of greedy work inside the drive; 0: learnt.",
    )
    .field(|p| p.valve.fixed_k().in_whole(), |p, v| p.valve.fix_k(Units::whole(v))),
    Tunable::new(
        "cut",
        Unit::Count,
        0,
        (0, 65536),
        "Largest greedy request in KiB; 0: learnt.",
    )
    .field(|p| p.valve.fixed_cut().0 / 2, |p, v| p.valve.fix_cut(Sectors(2 * v))),
    Tunable::switch(
        "strict",
        false,
        "A numeric target is kept though it costs throughput: less is inside, and in smaller pieces, than the drive \
         needs to be saturated. Flash only.",
    )
    .on_change(OnChange::Resets)
    .field(|p| p.strict.on.into(), |p, v| p.strict.set(v != 0)),
    Tunable::new(
        "media",
        Unit::Choice(CHOICES),
        0,
        (0, 2),
        "How the drive is served; auto: as a disk if it says that it rotates, until reads show that it does not.",
    )
    .field(|p| p.media.choice(), |p, v| p.media.choose(v)),
    Tunable::new(
        "begin",
        Unit::Millis,
        4_000,
        (0, 60_000),
        "Of the drive, what a process that has just begun may have before others; 0: it waits like everybody.",
    )
    .field(|p| p.begin.most.as_ms(), |p, v| p.begin.most = Nanos::ms(v)),
];
pub(super) static SETTINGS: Settings<Paternoster> = Settings::new("paternoster", ROWS);
pub(super) static TUNABLES: [Tunable; ROWS.len()] = listed(ROWS);

pub(super) static GROUP_TUNABLES: &[Tunable] = &[Tunable::new(
    "weight",
    Unit::Weight,
    WEIGHT as u64,
    (1, WEIGHT_MAX),
    "Share of the group among its siblings; a process of the same parent counts as a group of 100.",
)];
const WEIGHT_MAX: u64 = 10_000;

pub(super) static KNOBS: &[Knob] = &[
    Knob {
        file: "io.latency",
        of: KnobOf::Groups,
        form: "MAJ:MIN target=US|auto|max",
        doc: "Latency that the I/O of the group and its descendants is to have, in us; auto: as low as goes \
              without loss of throughput; 0 and max: no target.",
    },
    Knob {
        file: "io.weight",
        of: KnobOf::Groups,
        form: "N | default N | MAJ:MIN N | MAJ:MIN default",
        doc: "Share of the group among its siblings, 1 to 10000, default 100; for one device before the general one.",
    },
];

/// Weights written to `io.weight` of a group.
#[derive(Clone, Copy, Debug)]
pub(super) struct WrittenWeight {
    general: u32,
    device: Option<u32>,
}

impl WrittenWeight {
    pub const NOTHING: WrittenWeight = WrittenWeight { general: WEIGHT, device: None };

    fn in_force(self) -> u32 {
        self.device.unwrap_or(self.general)
    }
}

impl Paternoster {
    pub(super) fn set_group_weight(
        &mut self,
        group: GroupId,
        name: &str,
        value: Option<u64>,
        cx: &Cx<'_>,
    ) -> Result<(), TunableError> {
        let weight = value.unwrap_or(WEIGHT.into());
        check(GROUP_TUNABLES, "paternoster", name, weight)?;
        if group == GroupId::ROOT {
            return Err(TunableError::Unknown { name: name.into(), stage: "the root group" });
        }
        self.learn(group, cx);
        self.written[group].general = weight as u32;
        self.fair.set_weight(group, self.written[group].in_force());
        Ok(())
    }

    pub(super) fn write_file(
        &mut self,
        now: Instant,
        group: GroupId,
        file: &str,
        line: &str,
        cx: &mut Cx<'_>,
    ) -> Result<(), KnobError> {
        match file {
            "io.latency" => {
                let target = parse_target(body_for(cx.device.number, line)?)?;
                self.set_target(now, group, target, cx);
                Ok(())
            }
            "io.weight" => self.write_weight(group, line, cx),
            _ => Err(KnobError::unsupported(format!("no file '{file}'"))),
        }
    }

    fn set_target(&mut self, now: Instant, group: GroupId, target: Option<Target>, cx: &Cx<'_>) {
        self.learn(group, cx);
        let groups = cx.groups;
        // A limit is for the targets it was found with.
        self.strict.release();
        self.notes.reset(now, group, target.is_some());
        self.budget.reset(group);
        self.lane.set_target(group, target, groups.parent(group), &|g| groups.children(g));
    }

    fn write_weight(&mut self, group: GroupId, line: &str, cx: &Cx<'_>) -> Result<(), KnobError> {
        let text = line.trim_matches(is_blank);
        let mut written = if self.written.len() > group.index() {
            self.written[group]
        } else {
            WrittenWeight::NOTHING
        };
        if text.contains(':') {
            written.device = match body_for(cx.device.number, text)?.trim_matches(is_blank) {
                "default" => None,
                body => Some(in_range(body)?),
            };
        } else {
            let general = text.strip_prefix("default").filter(|rest| rest.starts_with(is_blank));
            written.general = in_range(general.unwrap_or(text).trim_matches(is_blank))?;
        }
        self.learn(group, cx);
        self.written[group] = written;
        self.fair.set_weight(group, written.in_force());
        Ok(())
    }

    pub(super) fn read_file(&self, group: GroupId, file: &str, cx: &Cx<'_>, out: &mut String) {
        let device = cx.device.number;
        let put = match file {
            "io.latency" => match self.lane.own_target(group) {
                Some(Target::Auto) => writeln!(out, "{device} target=auto"),
                Some(Target::Number(t)) => writeln!(out, "{device} target={}", t.as_us()),
                None => Ok(()),
            },
            "io.weight" => {
                let written = self.written.get(group).copied().unwrap_or(WrittenWeight::NOTHING);
                let general = written.general;
                match written.device {
                    None => writeln!(out, "default {general}"),
                    Some(w) => writeln!(out, "default {general}\n{device} {w}"),
                }
            }
            _ => Ok(()),
        };
        put.expect("a String takes everything");
    }
}

fn in_range(text: &str) -> Result<u32, KnobError> {
    match number("weight", text)? {
        n @ 1..=WEIGHT_MAX => Ok(n as u32),
        n => Err(KnobError::range(format!("weight {n} is outside 1..={WEIGHT_MAX}"))),
    }
}

/// The target in the body of a line.
fn parse_target(body: &str) -> Result<Option<Target>, KnobError> {
    let mut target = None;
    for token in body.split(' ') {
        if token.is_empty() {
            return Err(KnobError::invalid("settings are separated by exactly one blank"));
        }
        let (key, value) = pair(token)?;
        if key != "target" {
            return Err(unknown_key(key, &["target"]));
        }
        target = Some(match value {
            "auto" => Some(Target::Auto),
            "max" => None,
            _ => {
                let us = number(key, value)?;
                let ns = us.checked_mul(1000).ok_or_else(|| {
                    let most = u64::MAX / 1000;
                    KnobError::range(format!("target={us} is above {most}, the most in us"))
                })?;
                (us > 0).then_some(Target::Number(Nanos(ns)))
            }
        });
    }
    target.ok_or_else(|| KnobError::invalid("no setting follows the device number"))
}
