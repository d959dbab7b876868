//! Start-ups of applications: from the marks of a load to times (specs/experiments.md 6.3).
//!
//! A start that was not over when it was given up is censored: then there is no mean, a median only if
//! less than half are, and the count is told beside it (specs/statistics.md 4).

use super::{Cell, Rep, Spread};
use crate::stats;
use hoistway::Nanos;

/// One start of an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    /// From the start to its end, or until it was given up.
    pub took: Nanos,
    /// The application was there.
    pub finished: bool,
    /// Bytes the device moved meanwhile, for everybody.
    pub moved: u64,
}

/// The starts of a repetition, in order.
pub fn starts(rep: &Rep) -> Vec<Start> {
    let device = rep.device.read_bytes + rep.device.written_bytes;
    let mut starts = Vec::new();
    for (i, begin) in rep.marks.iter().enumerate().filter(|(_, m)| m.text == "start") {
        let mut later = rep.marks[i + 1..].iter().filter(|m| m.process == begin.process);
        let end = later.find(|m| matches!(m.text.as_str(), "done" | "unfinished"));
        // Without an end the window was over first.
        let (at, moved, finished) = match end {
            Some(end) => (end.at, end.moved, end.text == "done"),
            None => (rep.measured.max(begin.at), device.max(begin.moved), false),
        };
        starts.push(Start { took: at - begin.at, finished, moved: moved - begin.moved });
    }
    starts
}

/// Mean time of a repetition's starts in seconds; `None` without starts or if one is censored.
pub fn mean_time(starts: &[Start]) -> Option<f64> {
    let finished = !starts.is_empty() && starts.iter().all(|s| s.finished);
    finished.then(|| stats::sum(starts.iter().map(seconds)) / starts.len() as f64)
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

fn seconds(start: &Start) -> f64 {
    start.took.0 as f64 / 1e9
}

/// The starts of a cell, or of one repetition. Times in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Startups {
    /// How many were begun.
    pub count: usize,
    /// How many were given up.
    pub unfinished: usize,
    /// Mean of the repetitions' means; `None` if a start was given up.
    pub mean: Option<Spread>,
    /// Median of all starts; `None` if half or more were given up.
    pub median: Option<f64>,
    /// The shortest of all.
    pub min: f64,
    /// The longest; those given up count with the time they had.
    pub max: f64,
    /// The shortest time after which one was given up.
    pub cut: Option<f64>,
}

impl Startups {
    /// `None` if nothing was started.
    pub fn of(reps: &[Rep]) -> Option<Startups> {
        let each: Vec<Vec<Start>> = reps.iter().map(starts).collect();
        let all: Vec<Start> = each.iter().flatten().copied().collect();
        let mut times: Vec<f64> = all.iter().map(seconds).collect();
        // Given up after other times than they would have taken: behind all that finished.
        let censored = |s: &&Start| !s.finished;
        let cut = all.iter().filter(censored).map(seconds).reduce(f64::min);
        let unfinished = all.iter().filter(censored).count();
        let (min, max) =
            (times.iter().copied().reduce(f64::min)?, times.iter().copied().reduce(f64::max)?);
        times = all.iter().filter(|s| s.finished).map(seconds).collect();
        times.sort_by(f64::total_cmp);
        times.resize(all.len(), f64::INFINITY);
        let half = times.len() / 2;
        let median =
            if times.len() % 2 == 1 { times[half] } else { (times[half - 1] + times[half]) / 2.0 };
        let means: Option<Vec<f64>> = each.iter().map(|s| mean_time(s)).collect();
        Some(Startups {
            count: all.len(),
            unfinished,
            mean: means.and_then(|m| stats::spread(&m)),
            median: (2 * unfinished < all.len() && median.is_finite()).then_some(median),
            min,
            max,
            cut,
        })
    }

    /// The same of a cell.
    pub fn of_cell(cell: &Cell) -> Option<Startups> {
        Startups::of(&cell.reps)
    }

    /// What stands in the place of a mean that does not exist: `>60`, the shortest time after which a
    /// start was given up, rounded down.
    pub fn beyond(&self) -> Option<String> {
        self.cut.map(|cut| match cut {
            10.0.. => format!(">{cut:.0}", cut = cut.floor()),
            _ => format!(">{cut:.1}", cut = (cut * 10.0).floor() / 10.0),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::tests::rep;
    use hoistway_sim::world::Mark;

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
            (71_100, "unfinished", 900),
        ]);
        let found = starts(&rep);
        assert_eq!(found[0], Start { took: Nanos::ms(2500), finished: true, moved: 400 });
        assert_eq!(found[1], Start { took: Nanos::ms(60_100), finished: false, moved: 300 });
        assert_eq!((found.len(), mean_time(&found), mean_time(&found[..1])), (2, None, Some(2.5)));
        rep.marks.pop();
        let open = starts(&rep)[1];
        assert_eq!((open.took, open.finished), (Nanos::ms(89_000), false));
    }

    #[test]
    fn censored_starts_leave_a_median_while_they_are_the_fewer() {
        let one = |ms| with(&[(0, "start", 0), (ms, "done", 5)]);
        let cut = with(&[(0, "start", 0), (60_100, "unfinished", 5)]);
        let few = Startups::of(&[one(1000), cut.clone(), one(3000)]).unwrap();
        assert_eq!((few.count, few.unfinished, few.mean, few.median), (3, 1, None, Some(3.0)));
        assert_eq!((few.min, few.max, few.beyond().as_deref()), (1.0, 60.1, Some(">60")));
        let half = Startups::of(&[one(1000), cut]).unwrap();
        assert_eq!(half.median, None);
        let all = Startups::of(&[one(1000), one(2000)]).unwrap();
        assert_eq!((all.mean.unwrap().mean, all.median, all.beyond()), (1.5, Some(1.5), None));
        assert_eq!(Startups::of(&[with(&[])]), None);
    }
}
