//! What the scheduler says of itself: figures for reports, gauges for monitors.

use super::Paternoster;
use super::lane::Target;
use super::measure::UNIT;
use super::valve::UNCUT;
use crate::stage::{Figure, FigureDoc, Gauge};

/// Counts of requests sent.
#[derive(Debug, Default)]
pub(super) struct SentCounts {
    pub lane: u64,
    pub greedy: u64,
}

const fn doc(name: &'static str, unit: &'static str, doc: &'static str) -> FigureDoc {
    FigureDoc { name, unit, of: "device", doc }
}

pub(super) static FIGURES: &[&[FigureDoc]] = &[&[
    doc(
        "valve_units",
        "units",
        "Greedy work that may be inside the drive; a unit is a command or 8 KiB.",
    ),
    doc("knee_units", "units", "The valve accepted last."),
    doc("cut_sectors", "sectors", "Largest request built; 0: the device's limit."),
    doc(
        "ceiling_sectors_per_s",
        "sectors/s",
        "What the drive delivers wide open, as last measured.",
    ),
    doc(
        "phase",
        "",
        "0 ceiling, 1 batch, 2 again, 3 down, 4 confirm, 5 cut, 6 hold, 7 pairs, 8 proof.",
    ),
    doc(
        "row_units",
        "units",
        "Units of one process in a row; 0: changing between streams costs nothing.",
    ),
    doc("change_units", "units", "What a change of stream costs."),
    doc("inside_units", "units", "Greedy work inside the drive."),
    doc("debt_units", "units", "How far the lane is ahead of its part."),
    doc("owed_units", "units", "What changes of stream for the lane have cost beyond their part."),
    doc("lane_requests", "", "Requests sent past the valve."),
    doc("greedy_requests", "", "Requests sent through the valve."),
    doc("flushes", "", "Flush commands."),
    doc("flush_holds", "", "Flushes behind which writers were held."),
    FigureDoc {
        name: "target",
        unit: "ns",
        of: "group",
        doc: "Latency target of the group; 0: as low as goes.",
    },
    FigureDoc {
        name: "target_p99",
        unit: "ns",
        of: "group",
        doc: "Its moving p99 of arrival to completion.",
    },
    FigureDoc { name: "target_mean", unit: "ns", of: "group", doc: "Its moving mean of the same." },
]];

impl Paternoster {
    fn device_values(&self) -> [(&'static str, &'static str, u64); 15] {
        let cut = if self.valve.cut() == UNCUT { 0 } else { self.valve.cut().0 };
        [
            ("disk", "", self.media.is_disk().into()),
            ("valve_units", "units", self.valve.k().in_whole()),
            ("knee_units", "units", self.valve.knee().k.in_whole()),
            ("cut_sectors", "sectors", cut),
            ("ceiling_sectors_per_s", "sectors/s", self.valve.ceiling().0),
            ("phase", "", self.valve.phase().number()),
            ("row_units", "units", self.valve.row().in_whole()),
            ("change_units", "units", self.valve.change().in_whole()),
            ("inside_units", "units", self.w / UNIT),
            ("debt_units", "units", self.lane.debt()),
            ("owed_units", "units", self.lane.changes()),
            ("lane_requests", "", self.counts.lane),
            ("greedy_requests", "", self.counts.greedy),
            ("flushes", "", self.flushes.count),
            ("flush_holds", "", self.flushes.holds),
        ]
    }

    pub(super) fn report_figures(&self, sink: &mut dyn FnMut(Figure)) {
        for (name, _, value) in self.device_values() {
            sink(Figure { name, of: None, value: as_i64(value) });
        }
        for (group, target) in self.lane.targets() {
            let mut put =
                |name, value| sink(Figure { name, of: Some(group.0), value: as_i64(value) });
            put("target", number(target));
            if let Some(l) = self.lane.latencies(group) {
                put("target_p99", l.p99().0);
                put("target_mean", l.mean().0);
            }
        }
    }

    pub(super) fn report_gauges(&self, sink: &mut dyn FnMut(Gauge)) {
        for (name, unit, value) in self.device_values() {
            sink(Gauge { name, unit, group: None, value: as_i64(value) });
        }
        for (group, target) in self.lane.targets() {
            let mut put = |name, value| {
                sink(Gauge { name, unit: "ns", group: Some(group), value: as_i64(value) });
            };
            put("target", number(target));
            if let Some(l) = self.lane.latencies(group) {
                put("target_p99", l.p99().0);
                put("target_mean", l.mean().0);
            }
        }
    }
}

fn number(target: Target) -> u64 {
    match target {
        Target::Auto => 0,
        Target::Number(t) => t.0,
    }
}

fn as_i64(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
