//! Phases of a process's load (such as the four of tiotest): when each began and ended, and its calls.
//!
//! Of loads that mix directions, each direction is a phase, from its first call to its last.
//!
//! Otherwise at most one phase of a process is on. What lies outside of the measured window is not known: a phase that
//! was on when measuring began has no beginning, one that is on when it ends has no end, and whoever derives
//! its length from these knows a lower bound only.

use super::record::Span;
use hoistway::{Instant, Nanos};
use hoistway_run::PhaseRecord;

/// The phases of one process.
#[derive(Debug)]
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
    #[inline]
    pub fn open(&mut self) -> Option<&mut PhaseRecord> {
        self.on.map(|(i, _)| &mut self.all[i])
    }

    /// The phase into which a call counts that began and ended then.
    #[inline]
    pub fn of_call(
        &mut self,
        write: bool,
        begun: Instant,
        end: Instant,
    ) -> Option<&mut PhaseRecord> {
        if self.directions { Some(self.direction(write, begun, end)) } else { self.open() }
    }

    fn direction(&mut self, write: bool, begun: Instant, end: Instant) -> &mut PhaseRecord {
        let inside = |at: Instant| at.min(self.span.end).since(self.span.begin);
        let (begun, end) = (inside(begun), inside(end));
        let name = if write { "write" } else { "read" };
        let i = self.all.iter().position(|p| p.name == name).unwrap_or_else(|| {
            self.all.push(record_of(name, Some(begun)));
            self.all.len() - 1
        });
        let phase = &mut self.all[i];
        phase.begin = phase.begin.map(|first| first.min(begun));
        phase.end = phase.end.max(Some(end));
        phase
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

    pub fn finish(self) -> Vec<PhaseRecord> {
        self.all
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
        phases.finish().into_iter().map(line).collect()
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
        p.of_call(true, ms(90), ms(120)).unwrap().ios += 1;
        p.of_call(false, ms(110), ms(130)).unwrap().ios += 1;
        p.of_call(true, ms(150), ms(250)).unwrap().ios += 1;
        let line = |name: &str, begin, end| (name.into(), Some(begin), Some(end), 0, 0);
        assert_eq!(lines(p), [line("write", 0, 100), line("read", 10, 30)]);
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
