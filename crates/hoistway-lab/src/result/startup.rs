//! Start-ups of applications: from the marks of a load to times (specs/experiments.md 6.3).
//!
//! A start that was given up, or that the end of the run cut off, is censored: it lasts longer than the time
//! it had. It stays in the mean, which is a lower bound then; the median is that of Kaplan and Meier
//! ([`crate::stats::median`]); the shortest is that of those that finished (specs/statistics.md 4).

use super::{Cell, Rep, Spread};
use crate::stats::{self, Bounded};
use hoistway::Nanos;
use hoistway::quantity;
use hoistway_run::UNFINISHED;

/// How a start ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The application was there.
    Done,
    /// It was killed: it took longer than this.
    GivenUp(Nanos),
    /// The run was over first.
    CutOff,
}

/// One start of an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    /// From the start to its end, whatever that was. One that is killed ends with the I/O it waits for, so
    /// that this is above its limit.
    pub took: Nanos,
    /// How it ended.
    pub end: End,
    /// Bytes the device moved meanwhile, for everybody.
    pub moved: u64,
}

impl Start {
    /// The start-up time in seconds, or what it is larger than: the same limit for everything that was
    /// given up at it.
    pub fn time(&self) -> Bounded {
        let seconds = |t: Nanos| t.0 as f64 / 1e9;
        match self.end {
            End::Done => seconds(self.took).into(),
            End::GivenUp(limit) => Bounded::above(seconds(limit.min(self.took))),
            End::CutOff => Bounded::above(seconds(self.took)),
        }
    }
}

/// The starts of a repetition, in order.
pub fn starts(rep: &Rep) -> Vec<Start> {
    let device = rep.device.read_bytes + rep.device.written_bytes;
    let mut starts = Vec::new();
    for (i, begin) in rep.marks.iter().enumerate().filter(|(_, m)| m.text == "start") {
        let mut later = rep.marks[i + 1..].iter().filter(|m| m.process == begin.process);
        let (at, moved, end) = match later.find_map(|m| Some((m, end_of(&m.text)?))) {
            // Before the limit was told, the time it had was.
            Some((m, end)) => (m.at, m.moved, end.unwrap_or(End::CutOff)),
            // Without an end the window was over first.
            None => (rep.measured.max(begin.at), device.max(begin.moved), End::CutOff),
        };
        starts.push(Start { took: at - begin.at, end, moved: moved - begin.moved });
    }
    starts
}

/// The end that a mark tells of, if it is one; `Some(None)`: it was given up at a limit that the mark does
/// not name.
fn end_of(mark: &str) -> Option<Option<End>> {
    match mark {
        "done" => Some(Some(End::Done)),
        "unfinished" => Some(None),
        _ => {
            let limit = quantity::duration(mark.strip_prefix(UNFINISHED)?).ok();
            Some(limit.map(End::GivenUp))
        }
    }
}

/// Mean time of a repetition's starts in seconds; `None` without starts.
pub fn mean_time(starts: &[Start]) -> Option<Bounded> {
    Bounded::mean(&starts.iter().map(Start::time).collect::<Vec<_>>())
}

/// MB/s of the device while the application was starting.
pub fn rate(starts: &[Start]) -> Option<f64> {
    let time: u64 = starts.iter().map(|s| s.took.0).sum();
    let moved: u64 = starts.iter().map(|s| s.moved).sum();
    (time > 0).then(|| moved as f64 * 1e3 / time as f64)
}

/// `APP+idle` of a workload `APP+LOAD` that is not that itself.
pub fn idle_workload(workload: &str) -> Option<String> {
    let (app, load) = workload.split_once('+')?;
    (load != "idle").then(|| format!("{app}+idle"))
}

/// The starts of a cell, or of one repetition. Times in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Startups {
    /// How many were begun.
    pub count: usize,
    /// How many did not finish.
    pub unfinished: usize,
    /// How many of those the end of the run cut off; the others were given up at their limit.
    pub cut_off: usize,
    /// Mean of the repetitions' means with its interval; `None` if a start did not finish.
    pub mean: Option<Spread>,
    /// The same, or what it is larger than.
    pub time: Bounded,
    /// Median of all starts; `None` if less than half of it is known.
    pub median: Option<f64>,
    /// The shortest that finished.
    pub min: Option<f64>,
    /// The longest, or what it is larger than.
    pub max: Bounded,
    /// The shortest time after which one did not finish.
    pub cut: Option<f64>,
}

impl Startups {
    /// `None` if nothing was started.
    pub fn of(reps: &[Rep]) -> Option<Startups> {
        let each: Vec<Vec<Start>> = reps.iter().map(starts).filter(|s| !s.is_empty()).collect();
        let all: Vec<Start> = each.iter().flatten().copied().collect();
        let times: Vec<Bounded> = all.iter().map(Start::time).collect();
        let ended: Vec<f64> = times.iter().filter_map(|t| t.exact()).collect();
        let cut: Vec<f64> = times.iter().filter(|t| t.exact().is_none()).map(|t| t.value).collect();
        let longest = |v: &[f64]| v.iter().copied().reduce(f64::max);
        let shortest = |v: &[f64]| v.iter().copied().reduce(f64::min);
        let means: Vec<Bounded> = each.iter().filter_map(|s| mean_time(s)).collect();
        let exact: Option<Vec<f64>> = means.iter().map(|m| m.exact()).collect();
        Some(Startups {
            count: all.len(),
            unfinished: cut.len(),
            cut_off: all.iter().filter(|s| s.end == End::CutOff).count(),
            mean: exact.and_then(|m| stats::spread(&m)),
            time: Bounded::mean(&means)?,
            median: stats::median(&ended, &cut),
            min: shortest(&ended),
            max: Bounded::largest(longest(&ended), longest(&cut))?,
            cut: shortest(&cut),
        })
    }

    /// The same of a cell.
    pub fn of_cell(cell: &Cell) -> Option<Startups> {
        Startups::of(&cell.reps)
    }

    /// What a reader must know about starts that did not finish.
    pub fn warning(&self) -> Option<String> {
        let cut = Bounded::from(self.cut?);
        let (n, all) = (self.unfinished, self.count);
        let given_up = n - self.cut_off;
        Some(match (given_up, self.cut_off) {
            (_, 0) => format!("{n} of {all} starts were given up after {cut} s"),
            (0, _) => format!(
                "{n} of {all} starts were cut off by the end of the run, the first after {cut} s; a \
                 longer --duration lets them finish"
            ),
            (g, c) => format!(
                "{n} of {all} starts did not finish: {g} were given up at their limit, {c} cut off by \
                 the end of the run"
            ),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::tests::rep;
    use hoistway_run::Mark;

    fn with(marks: &[(u64, &str, u64)]) -> Rep {
        let marks = marks.iter().map(|&(ms, text, moved)| Mark {
            at: Nanos::ms(ms),
            process: "target".into(),
            text: text.into(),
            moved,
        });
        Rep { measured: Nanos::secs(100), marks: marks.collect(), ..rep(1, 10, "reader0") }
    }

    #[test]
    fn a_start_lasts_until_its_own_end() {
        let mut rep = with(&[
            (4200, "start", 100),
            (6700, "done", 500),
            (11_000, "start", 600),
            (85_000, "unfinished after 60000000000ns", 900),
        ]);
        let found = starts(&rep);
        assert_eq!(found[0], Start { took: Nanos::ms(2500), end: End::Done, moved: 400 });
        let given_up = End::GivenUp(Nanos::secs(60));
        assert_eq!(found[1], Start { took: Nanos::ms(74_000), end: given_up, moved: 300 });
        assert_eq!(found[1].time(), Bounded::above(60.0), "the limit, not the wait behind it");
        assert_eq!(mean_time(&found), Some(Bounded::above(31.25)));
        assert_eq!(mean_time(&found[..1]), Some(2.5.into()));
        rep.marks.pop();
        let open = starts(&rep)[1];
        assert_eq!((open.took, open.end), (Nanos::ms(89_000), End::CutOff));
    }

    /// The limit was not told in records of older versions; the time it had is still a bound.
    #[test]
    fn an_end_without_a_limit_is_a_bound() {
        let rep = with(&[(0, "start", 0), (60_100, "unfinished", 5)]);
        assert_eq!(starts(&rep)[0].time(), Bounded::above(60.1));
    }

    const GIVEN_UP: &str = "unfinished after 60000000000ns";

    #[test]
    fn censored_starts_stay_in_the_mean_and_in_the_median() {
        let one = |ms| with(&[(0, "start", 0), (ms, "done", 5)]);
        let cut = |ms| with(&[(0, "start", 0), (ms, GIVEN_UP, 5)]);
        let few = Startups::of(&[one(1000), cut(74_000), one(3000)]).unwrap();
        assert_eq!((few.count, few.unfinished, few.mean, few.median), (3, 1, None, Some(3.0)));
        assert_eq!(few.time, Bounded::above(64.0 / 3.0));
        assert_eq!((few.min, few.max), (Some(1.0), Bounded::above(60.0)));
        let half = Startups::of(&[one(1000), cut(60_100)]).unwrap();
        assert_eq!(half.median, None, "the other half is not known");
        let all = Startups::of(&[one(1000), one(2000)]).unwrap();
        assert_eq!((all.mean.unwrap().mean, all.time), (1.5, 1.5.into()));
        assert_eq!((all.median, all.max, all.warning()), (Some(1.5), 2.0.into(), None));
        assert_eq!(Startups::of(&[with(&[])]), None);
        // However long the last I/O of each took: one limit, one figure.
        for ms in [60_000, 63_000, 74_000] {
            let none = Startups::of(&[cut(ms), cut(ms + 500)]).unwrap();
            let texts = [none.time, none.max].map(|b| b.to_string());
            assert_eq!((texts, none.min), ([">60".to_string(), ">60".into()], None));
            let said = none.warning().unwrap();
            assert_eq!(said, "2 of 2 starts were given up after 60 s");
        }
    }

    /// A start of 25.6 s, and one that the end of the run cut off after 1 s.
    #[test]
    fn a_start_cut_early_is_neither_the_shortest_nor_the_mean() {
        let mut rep = with(&[(4200, "start", 0), (29_800, "done", 5), (34_000, "start", 6)]);
        rep.measured = Nanos::secs(35);
        let all = Startups::of(&[rep]).unwrap();
        assert_eq!((all.count, all.unfinished, all.cut_off), (2, 1, 1));
        assert_eq!((all.min, all.median), (Some(25.6), Some(25.6)));
        assert_eq!([all.time, all.max].map(|b| b.to_string()), [">13.3", ">=25.6"]);
        let said = all.warning().unwrap();
        assert!(said.contains("1 of 2 starts were cut off by the end of the run"), "{said}");
    }
}
