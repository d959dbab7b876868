//! What a replay leaves behind: the records of a run, as of any other world.

use super::{Actors, Ended, Feed, Replay};
use crate::world::control::{files, targets};
use crate::world::record::figure;
use crate::world::step::Recorder;
use hoistway::{Instant, Nanos};
use hoistway_run::{Interval, JobError, NamedFigure, Outcome, ProcRecord, Role};

/// Name of the record of all processes together.
pub const ALL: &str = "all";

impl<F: Feed, R: Recorder> Replay<'_, F, R> {
    /// The first record is that of all processes together, the target; those of the processes follow.
    pub(super) fn outcome(mut self) -> Result<(Outcome, Ended), JobError> {
        let (now, counters) = (self.scene.core.now, self.scene.core.stack.counters());
        let flights = self.scene.actors.flights.iter();
        let pieces: u64 = flights.map(|f| u64::from(f.left)).sum();
        // Nothing is lost: what was submitted has been finished or is still under way.
        assert!(counters.submitted - counters.finished <= pieces, "I/Os of the recording");
        assert_eq!(counters.issued, counters.completed + self.scene.core.stats.outstanding);
        self.scene.ended.end = now;
        self.scene.ended.timeline = self.scene.core.timeline;
        // In closed loop recorded times mean nothing for the end.
        let last = if self.scene.actors.closed { Instant::ZERO } else { self.scene.ended.last };
        let end = now.max(last).max(Instant::from_nanos(1));
        let procs = procs_of(self.scene.actors, end);
        let stats = &mut self.scene.core.stats;
        stats.coarsen(common_length(stats.interval(), end));
        stats.cut(end);
        stats.end(counters.merged);
        let stack = &mut self.scene.core.stack;
        let (scheduler, entry) = (stack.scheduler(), stack.scheduler_entry());
        let tunables = (entry.tunables.iter())
            .filter_map(|t| scheduler.value(t.name).map(|v| (t.name.to_string(), v)))
            .collect();
        let mut scheduler_figures = Vec::new();
        scheduler.figures(&mut |f| scheduler_figures.push(figure(f)));
        let mut controller_figures = Vec::new();
        for (entry, stage) in stack.controllers() {
            stage.figures(&mut |f| controller_figures.push((entry.name.to_string(), figure(f))));
        }
        let outcome = Outcome {
            procs,
            measured: end - Instant::ZERO,
            tunables,
            host_figures: figures_of(&self.scene.ended),
            scheduler_figures,
            controller_figures,
            files: files(stack),
            targets: targets(stack),
            monitor: self.scene.core.monitor.finish(Instant::ZERO),
            begin: Instant::ZERO,
            end: now,
            commands_total: self.scene.core.stats.issued,
            trace_digest: self.scene.core.timeline,
            trace: self.scene.core.stack.trace_mut().take(),
            device: self.scene.core.stats.finish(end),
            ..Outcome::default()
        };
        Ok((outcome, self.scene.ended))
    }
}

/// The records: all, then each process that is counted.
fn procs_of(actors: Actors, end: Instant) -> Vec<ProcRecord> {
    let starved = actors.starved;
    let mut all: Vec<_> = actors.all.into_iter().filter(|a| a.counted).collect();
    let length = all.iter().map(|a| a.stats.interval()).max().unwrap_or(1);
    let length = common_length(length, end);
    let mut records = Vec::with_capacity(all.len() + 1);
    let mut sum =
        ProcRecord { name: ALL.into(), role: Role::Target, starved, ..ProcRecord::default() };
    for mut actor in all.drain(..) {
        actor.stats.coarsen(length);
        actor.stats.cut(end);
        let record = actor.stats.record(&actor.spec);
        sum.latency.merge(&record.latency);
        sum.bytes += record.bytes;
        sum.ios += record.ios;
        add(&mut sum.intervals, &record.intervals);
        records.push(record);
    }
    records.insert(0, sum);
    records
}

/// Adds the counts of equal intervals.
fn add(sum: &mut Vec<Interval>, more: &[Interval]) {
    sum.extend(more.iter().skip(sum.len()).map(|i| Interval { at: i.at, bytes: 0, ios: 0 }));
    for (sum, more) in sum.iter_mut().zip(more) {
        sum.bytes += more.bytes;
        sum.ios += more.ios;
    }
}

/// A length of intervals, `length` times a power of two, of which few reach to `end`.
fn common_length(mut length: u64, end: Instant) -> u64 {
    while end.as_nanos() / length >= super::super::record::SLOTS_MAX as u64 {
        length *= 2;
    }
    length
}

fn figures_of(ended: &Ended) -> Vec<NamedFigure> {
    let ms = |n: Nanos| n.0 / 1_000_000;
    let late = ended.end.since(ended.last);
    let all = [
        ("replay.submitted", ended.submitted),
        ("replay.unsupported", ended.unsupported),
        ("replay.backlog_at_end", ended.backlog),
        ("replay.backlog_max", ended.backlog_max),
        ("replay.stopped", u64::from(ended.stopped)),
        ("replay.ran_dry", ended.ran_dry),
        ("replay.last_ms", ms(ended.last.since(Instant::ZERO))),
        ("replay.behind_ms", ms(late)),
    ];
    let figure = |(name, value): (&str, u64)| NamedFigure {
        name: name.into(),
        of: None,
        value: i64::try_from(value).unwrap_or(i64::MAX),
    };
    all.map(figure).into()
}
