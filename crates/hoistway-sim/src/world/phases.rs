//! Phases of a process's load (such as the four of tiotest): when each began and ended, and its calls.
//!
//! Of loads that mix directions, each direction is a phase, from its first call to its last.
//!
//! Otherwise at most one phase of a process is on. What lies outside of the measured window is not known: a phase that
//! was on when measuring began has no beginning, one that is on when it ends has no end, and whoever derives
//! its length from these knows a lower bound only.

use super::record::Span;
use hoistway::{Instant, Nanos};
use hoistway_run::{Histogram, PhaseRecord};

/// The phases of one process.
#[derive(Debug)]
#[repr(C)] // As in `ProcStats`.
pub(super) struct Phases {
    span: Span,
    all: Vec<PhaseRecord>,
    /// The one that is on, and since when.
    on: Option<(usize, Instant)>,
    /// The phases are the directions.
    directions: bool,
}

impl Phases {
    pub fn new(span: Span) -> Phases {
        Phases { span, all: Vec::new(), on: None, directions: false }
    }

    /// From now on reads and writes are the phases.
    pub fn by_direction(&mut self) {
        self.directions = true;
    }

    /// The window, which has begun, ends sooner. What ended there has ended in it.
    pub fn cut(&mut self, end: Instant) {
        self.span.end = end;
    }

    /// The phase that is on.
    #[cfg(test)]
    fn open(&mut self) -> Option<&mut PhaseRecord> {
        self.on.map(|(i, _)| &mut self.all[i])
    }

    /// A call may count into a phase.
    #[inline]
    pub fn listen(&self) -> bool {
        self.directions || self.on.is_some()
    }

    /// The phase into which a call counts that began and ended then. `so_far`: the latencies of all calls before it.
    #[inline]
    pub fn of_call(
        &mut self,
        write: bool,
        begun: Instant,
        end: Instant,
        so_far: &Histogram,
    ) -> Option<OpenPhase<'_>> {
        let phase = match self.directions {
            true => self.direction(write, begun, end, so_far),
            false => self.on.map(|(i, _)| i)?,
        };
        Some(OpenPhase { apart: !self.one_direction(), record: &mut self.all[phase] })
    }

    /// All calls have one direction: its latencies are those of the process.
    #[inline]
    fn one_direction(&self) -> bool {
        self.directions && self.all.len() == 1
    }

    fn direction(
        &mut self,
        write: bool,
        begun: Instant,
        end: Instant,
        so_far: &Histogram,
    ) -> usize {
        let inside = |at: Instant| at.min(self.span.end).since(self.span.begin);
        let (begun, end) = (inside(begun), inside(end));
        let name = if write { "write" } else { "read" };
        let i = self.all.iter().position(|p| p.name == name).unwrap_or_else(|| {
            // Most have one.
            self.all.reserve_exact(1);
            if let Some(other) = self.all.first_mut() {
                other.latency.clone_from(so_far);
            }
            self.all.push(record_of(name, Some(begun)));
            self.all.len() - 1
        });
        let phase = &mut self.all[i];
        phase.begin = phase.begin.map(|first| first.min(begun));
        phase.end = phase.end.max(Some(end));
        i
    }

    /// The phase `name` begins, or none; the one that was on is over.
    pub fn change(&mut self, now: Instant, name: Option<&'static str>) {
        if let Some((i, since)) = self.on.take() {
            self.end(i, since, now);
        }
        let Some(name) = name.filter(|_| now < self.span.end) else { return };
        let begin = (now >= self.span.begin).then(|| now - self.span.begin);
        let i = self.all.iter().position(|p| p.name == name).unwrap_or_else(|| {
            self.all.push(record_of(name, begin));
            self.all.len() - 1
        });
        self.all[i].end = None;
        self.on = Some((i, now));
    }

    fn end(&mut self, i: usize, since: Instant, now: Instant) {
        let phase = &mut self.all[i];
        if now < self.span.begin {
            // It was over before anybody looked.
            self.all.remove(i);
        } else if now <= self.span.end {
            phase.end = Some(now - self.span.begin);
            if since >= self.span.begin {
                phase.turns += 1;
                phase.spent += now - since;
            }
        }
    }

    /// The records; `latency`: that of all calls.
    pub fn finish(mut self, latency: &Histogram) -> Vec<PhaseRecord> {
        if self.one_direction() {
            self.all[0].latency.clone_from(latency);
        }
        for phase in &mut self.all {
            phase.latency = phase.latency.finished();
        }
        self.all
    }
}

/// The phase into which a call counts.
pub(super) struct OpenPhase<'a> {
    pub record: &'a mut PhaseRecord,
    /// It keeps latencies of its own.
    apart: bool,
}

impl OpenPhase<'_> {
    /// `n` calls of a latency.
    #[inline]
    pub fn latency(&mut self, latency: Nanos, n: u64) {
        if self.apart {
            self.record.latency.record_n(latency.0, n);
        }
    }
}

/// A phase that begins.
fn record_of(name: &str, begin: Option<Nanos>) -> PhaseRecord {
    PhaseRecord { name: name.to_string(), begin, ..PhaseRecord::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Instant {
        Instant::ZERO + Nanos::ms(n)
    }

    /// (name, begin, end, turns, spent) in ms.
    type Line = (String, Option<u64>, Option<u64>, u64, u64);

    fn lines(phases: Phases) -> Vec<Line> {
        let ms = |t: Nanos| t.0 / 1_000_000;
        let line = |p: PhaseRecord| (p.name, p.begin.map(ms), p.end.map(ms), p.turns, ms(p.spent));
        phases.finish(&Histogram::new()).into_iter().map(line).collect()
    }

    fn phases() -> Phases {
        Phases::new(Span { begin: ms(100), end: ms(200) })
    }

    #[test]
    fn beginnings_and_ends_outside_of_the_window_are_not_known() {
        let mut p = phases();
        p.change(ms(10), Some("gone"));
        p.change(ms(90), Some("a"));
        p.change(ms(130), Some("b"));
        p.change(ms(150), None);
        assert!(p.open().is_none());
        p.change(ms(190), Some("c"));
        p.open().unwrap().ios += 1;
        p.change(ms(210), Some("late"));
        assert!(p.open().is_none());
        let line = |name: &str, begin, end, turns, spent| (name.into(), begin, end, turns, spent);
        assert_eq!(
            lines(p),
            [
                line("a", None, Some(30), 0, 0),
                line("b", Some(30), Some(50), 1, 20),
                line("c", Some(90), None, 0, 0),
            ]
        );
    }

    #[test]
    fn directions_are_phases_from_their_first_call_to_their_last() {
        let mut p = phases();
        p.by_direction();
        let mut all = Histogram::new();
        let mut call = |p: &mut Phases, write, begun, end| {
            p.of_call(write, ms(begun), ms(end), &all).unwrap().latency(ms(end) - ms(begun), 1);
            all.record((ms(end) - ms(begun)).0);
        };
        call(&mut p, true, 90, 120);
        call(&mut p, true, 130, 131);
        call(&mut p, false, 110, 130);
        call(&mut p, true, 150, 250);
        let line = |name: &str, begin, end| (name.into(), Some(begin), Some(end), 0, 0);
        // Also what was counted before there was a second direction.
        let of = |all: &[u64]| {
            let mut h = Histogram::new();
            all.iter().for_each(|&latency| h.record(Nanos::ms(latency).0));
            h
        };
        let [write, read] = p.finish(&all).try_into().unwrap();
        assert_eq!((&write.latency, &read.latency), (&of(&[30, 1, 100]), &of(&[20])));
        let ended = Phases { all: vec![write, read], ..phases() };
        assert_eq!(lines(ended), [line("write", 0, 100), line("read", 10, 30)]);
    }

    #[test]
    fn the_latencies_of_one_direction_are_those_of_the_process() {
        let (mut p, mut all) = (phases(), Histogram::new());
        p.by_direction();
        p.of_call(false, ms(110), ms(130), &all).unwrap().latency(Nanos::ms(20), 1);
        all.record(Nanos::ms(20).0);
        assert_eq!(p.finish(&all)[0].latency, all);
    }

    #[test]
    fn a_phase_that_comes_again_is_one_record_with_several_turns() {
        let mut p = phases();
        for at in [110, 150] {
            p.change(ms(at), Some("a"));
            p.change(ms(at + 20), Some("b"));
        }
        p.cut(ms(180));
        p.change(ms(180), None);
        let line = |name: &str, begin, end, spent| (name.into(), Some(begin), Some(end), 2, spent);
        assert_eq!(lines(p), [line("a", 10, 70, 40), line("b", 30, 80, 30)]);
    }
}
