//! The target of a repetition: every process whose wait the experiment measures, taken together.

use super::Rep;
use hoistway::Nanos;
use hoistway_run::{Histogram, ProcRecord, Role};
use std::borrow::Cow;

/// The measured processes of a repetition. A target with `count = 5` is all five: their calls are one sample, their
/// bytes one sum.
#[derive(Clone, Debug)]
pub struct Target<'a> {
    /// They, at least one.
    pub procs: Vec<&'a ProcRecord>,
    /// The latencies of all of them.
    pub latency: Cow<'a, Histogram>,
    /// What their unfinished I/Os had waited.
    pub censored: Vec<Nanos>,
    /// What their calls moved in the window.
    pub bytes: u64,
}

/// The target; `None` without one.
pub fn target(rep: &Rep) -> Option<Target<'_>> {
    let procs: Vec<&ProcRecord> = rep.procs.iter().filter(|p| p.role == Role::Target).collect();
    let (first, others) = procs.split_first()?;
    let mut latency = Cow::Borrowed(&first.latency);
    others.iter().for_each(|p| latency.to_mut().merge(&p.latency));
    let censored = procs.iter().filter_map(|p| p.censored).collect();
    let bytes = procs.iter().map(|p| p.bytes).sum();
    Some(Target { procs, latency, censored, bytes })
}

/// The targets of several repetitions in one: latencies, and what unfinished I/Os had waited.
pub fn pooled(reps: &[Rep]) -> (Histogram, Vec<Nanos>) {
    let (mut all, mut censored) = (Histogram::new(), Vec::new());
    for target in reps.iter().filter_map(target) {
        all.merge(&target.latency);
        censored.extend(target.censored);
    }
    (all, censored)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::tests::{manifest, rep};
    use crate::result::{Cell, derive};
    use crate::stats::Bound;

    /// Five processes of one target: what they move and wait is theirs together.
    #[test]
    fn a_target_of_several_processes_is_all_of_them() {
        let mut one = rep(1, 10, "target");
        let first = one.procs[0].clone();
        for n in 1..5 {
            let mut proc =
                ProcRecord { name: format!("target{n}"), bytes: 8192 * n, ..first.clone() };
            proc.latency.record(n * 40_000_000);
            one.procs.push(proc);
        }
        let all = target(&one).expect("there is one");
        assert_eq!((all.procs.len(), all.bytes), (5, 8192 * 11));
        assert_eq!((all.latency.count(), all.latency.max()), (14, Some(160_000_000)));
        let mut cut = one.clone();
        cut.procs[6].censored = Some(Nanos::secs(2));
        let m = manifest();
        let cell = |config: usize, rep: Rep| Cell {
            drive: m.drives[0].id.clone(),
            config: m.configs[config].id.clone(),
            workload: m.workloads[0].id.clone(),
            reps: vec![rep],
        };
        let run = derive(m.clone(), vec![cell(0, one), cell(1, cut)]);
        let value = |config: usize, metric: &str| {
            let of = |m: &&crate::result::Metric| {
                m.config == run.manifest.configs[config].id && m.metric == metric && m.rep.is_none()
            };
            let found = run.metrics.iter().find(of).unwrap_or_else(|| panic!("{metric}"));
            (found.value, found.bound)
        };
        assert_eq!(value(0, "throughput_target").0, Some(8192.0 * 11.0 / 1e6));
        assert_eq!(value(0, "throughput_interferers").0, Some(4.0), "none of the target's");
        // Five times 10 and 30 ms, and 40, 80, 120 and 160 ms.
        assert_eq!(value(0, "latency_avg"), (Some(600.0 / 14.0), Bound::Exact));
        assert_eq!(value(0, "samples").0, Some(14.0));
        assert_eq!(value(0, "latency_max").0, Some(160.0));
        assert_eq!(value(1, "censored").0, Some(1.0));
        assert_eq!(value(1, "latency_avg"), (Some(2600.0 / 15.0), Bound::Above));
        assert_eq!(value(1, "latency_max"), (Some(2000.0), Bound::Above));
    }
}
