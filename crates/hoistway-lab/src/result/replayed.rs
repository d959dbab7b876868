//! What a reader must know of a replayed trace before believing its latencies.

use super::Cell;

/// The value of a figure in the repetition of the cell where it is largest.
pub fn figure(cell: &Cell, name: &str) -> Option<i64> {
    cell.reps.iter().flat_map(|r| r.figures.of_name(name)).max()
}

/// So much later than the recording, over its length, is behind.
const BEHIND: f64 = 0.01;
/// Less is the end of the last I/Os, ms.
const BEHIND_MS: i64 = 1000;

/// The load is more than the drive can carry.
pub fn overloaded(cell: &Cell) -> bool {
    figure(cell, "replay.stopped") == Some(1) || behind(cell).is_some()
}

/// Figure of a replay in open loop whose trace has no times.
pub const UNTIMED: &str = "replay.untimed";

/// All I/Os were submitted at once, since the trace has no times: latencies are those of a queue that nobody had.
pub fn untimed(cell: &Cell) -> bool {
    figure(cell, UNTIMED).is_some()
}

/// By how many ms the replay ended later than the recording in open loop, if that is much.
fn behind(cell: &Cell) -> Option<i64> {
    // In closed loop the end is no matter of keeping up.
    figure(cell, "replay.backlog_at_end").filter(|&n| n > 0)?;
    let late = figure(cell, "replay.behind_ms")?;
    let length = figure(cell, "replay.last_ms")?;
    (late > BEHIND_MS && late as f64 > BEHIND * length as f64).then_some(late)
}

/// Warnings about a cell; none unless it is of a replay.
pub(super) fn flags(cell: &Cell) -> Vec<String> {
    let seconds = |ms: i64| format!("{:.1} s", ms as f64 / 1e3);
    let mut flags = Vec::new();
    if untimed(cell) {
        let what = "the trace has no times: its I/Os were submitted at once, and latencies are those of that queue; \
                    --closed replays them one after another";
        return vec![what.into()];
    }
    let backlog = figure(cell, "replay.backlog_at_end").unwrap_or(0);
    if figure(cell, "replay.stopped") == Some(1) {
        let at = figure(cell, "replay.last_ms").map_or_else(String::new, seconds);
        flags.push(format!(
            "the drive cannot keep up: {backlog} I/Os waited {at} into the trace, where the replay was stopped; \
             latencies are those of what was served, and would grow with the length of the trace"
        ));
    } else if let Some(late) = behind(cell) {
        flags.push(format!(
            "the drive cannot keep up: {backlog} I/Os were not finished when the trace ended, and took {} more; \
             latencies have that backlog in them",
            seconds(late)
        ));
    }
    if let Some(n) = figure(cell, "replay.unsupported").filter(|&n| n > 0) {
        flags.push(format!("{n} discards were left out: the drive does not support them"));
    }
    flags
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::tests::rep;
    use hoistway_run::NamedFigure;

    fn cell(figures: &[(&str, i64)]) -> Cell {
        let mut rep = rep(1, 1000, "done");
        let figures = (figures.iter()).map(|&(name, value)| NamedFigure {
            name: format!("replay.{name}"),
            of: None,
            value,
        });
        rep.figures = figures.collect::<Vec<_>>().into();
        let (drive, config, workload) = ("d".into(), "none".into(), "trace".into());
        Cell { drive, config, workload, reps: vec![rep] }
    }

    #[test]
    fn a_drive_that_cannot_keep_up_is_told_apart_from_a_late_last_io() {
        let good = cell(&[("backlog_at_end", 3), ("behind_ms", 20), ("last_ms", 60_000)]);
        assert!(flags(&good).is_empty() && !overloaded(&good));
        let late = cell(&[("backlog_at_end", 900), ("behind_ms", 9_000), ("last_ms", 60_000)]);
        assert!(flags(&late)[0].contains("took 9.0 s more") && overloaded(&late));
        let closed = cell(&[("backlog_at_end", 0), ("behind_ms", 9_000), ("last_ms", 60_000)]);
        assert!(!overloaded(&closed));
        let stopped = cell(&[("backlog_at_end", 900), ("stopped", 1), ("last_ms", 12_300)]);
        assert!(flags(&stopped)[0].contains("900 I/Os waited 12.3 s into the trace"));
        let discards = cell(&[("unsupported", 7)]);
        assert!(flags(&discards)[0].starts_with("7 discards were left out"));
    }
}
