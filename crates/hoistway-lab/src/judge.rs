//! One quantity of a cell beside the same of another cell: ratio, interval, bound, and what they say. Computed here and
//! nowhere else; tables, metrics, JSON, reports, `diff` and `--baseline` only write it down.
//!
//! Repetitions with the same seeds are compared one by one, others all together ([`stats::ratio`]). Where a side is
//! known only as a bound the ratio is one, and where both are nothing is said ([`Finding::Unknown`]).

use crate::result::share::Shares;
use crate::result::{Cell, Judge, Manifest, Name, Rep, Run, counts, rep_value, startup, target};
use crate::stats::{self, Bounded, Finding, Ratio};
use hoistway_sim::load::Better;

/// A cell, with the manifest that says who is entitled to what.
#[derive(Clone, Copy, Debug)]
pub struct Side<'a> {
    /// Of the cell's run.
    pub manifest: &'a Manifest,
    /// The cell.
    pub cell: &'a Cell,
}

/// A quantity on two sides.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Comparison {
    /// Mean over the repetitions; `None` if one of them has no value.
    pub value: Option<Bounded>,
    /// The same of the reference.
    pub reference: Option<Bounded>,
    /// Value over reference; `None` without values, over nothing, and of bounds on both sides.
    pub ratio: Option<Ratio>,
    /// What the two say.
    pub finding: Finding,
    /// Repetitions with the same seeds were compared one by one.
    pub paired: bool,
}

impl Comparison {
    /// Of one value per repetition on each side; `None` if a repetition has none.
    pub fn of(
        values: Option<&[Bounded]>,
        reference: Option<&[Bounded]>,
        paired: bool,
    ) -> Comparison {
        let both = values.zip(reference);
        Comparison {
            value: values.and_then(Bounded::mean),
            reference: reference.and_then(Bounded::mean),
            ratio: both.and_then(|(v, r)| stats::ratio(v, r, paired)),
            finding: both.map_or(Finding::Unknown, |(v, r)| stats::finding(v, r, paired)),
            paired,
        }
    }

    /// How many times better than the reference, where one direction is.
    pub fn gain(&self, better: Better) -> Option<Ratio> {
        match better {
            Better::Lower => self.ratio.map(Ratio::turned),
            Better::Higher => self.ratio,
            Better::Neither => None,
        }
    }

    /// It is known to be better than the reference.
    pub fn is_better(&self, better: Better) -> bool {
        match better {
            Better::Lower => self.finding == Finding::Less,
            Better::Higher => self.finding == Finding::More,
            Better::Neither => false,
        }
    }
}

/// A comparison of one run: a cell, or one of its phases, beside the same under the reference configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Compared {
    /// Drive id.
    pub drive: Name,
    /// Configuration id.
    pub config: Name,
    /// Workload id; of a phase its row ([`crate::result::phases::row_name`]).
    pub workload: Name,
    /// The quantity, as in `metrics.csv`.
    pub metric: &'static str,
    /// What is beside it.
    pub reference: Name,
    /// What came out.
    pub comparison: Comparison,
}

impl Run {
    /// How a cell compares with the reference configuration in a quantity; `row`: the cell's workload, or one of its
    /// phases. `None` of the reference itself, and of quantities that are not compared.
    pub fn compared(&self, cell: &Cell, row: &str, metric: &str) -> Option<&Comparison> {
        let here = |c: &&Compared| {
            (c.drive.as_str(), c.config.as_str(), c.workload.as_str(), c.metric)
                == (cell.drive.as_str(), cell.config.as_str(), row, metric)
        };
        self.comparisons.iter().find(here).map(|c| &c.comparison)
    }
}

/// Compares one quantity of two cells.
pub fn compare(value: Side<'_>, reference: Side<'_>, metric: &str) -> Comparison {
    let (ours, theirs) = (column(value, metric), column(reference, metric));
    let paired = seeds(value.cell) == seeds(reference.cell);
    Comparison::of(ours.as_deref(), theirs.as_deref(), paired)
}

/// The seeds of a cell's repetitions.
pub fn seeds(cell: &Cell) -> Vec<u64> {
    cell.reps.iter().map(|rep| rep.seed).collect()
}

/// A quantity of every repetition, by its name in `metrics.csv`.
pub fn column(of: Side<'_>, metric: &str) -> Option<Vec<Bounded>> {
    of.cell.reps.iter().map(|rep| value(of, rep, metric)).collect()
}

fn value(of: Side<'_>, rep: &Rep, metric: &str) -> Option<Bounded> {
    if metric != WORST_SERVED {
        // What other repetitions counted and this one did not never happened in it.
        let never = || counts::names(of.cell).contains(&metric).then(|| Bounded::from(0.0));
        return rep_value(rep, metric).or_else(never);
    }
    let workload = of.manifest.workloads.iter().find(|w| w.id == of.cell.workload)?;
    let shares = Shares::of(of.manifest, workload, std::slice::from_ref(rep))?;
    shares.worst_met().map(Bounded::from)
}

/// What the worst served process has of what it is entitled to.
const WORST_SERVED: &str = "share_met_worst";

/// The quantity that decides where this is judged by, of cells of one drive and workload; `None` where nothing is
/// counted.
pub fn decisive(judge: Judge, cells: &[&Cell]) -> Option<&'static str> {
    match judge {
        Judge::Latency => Some("latency_avg"),
        Judge::Startup => Some("startup_time"),
        Judge::Share => Some(WORST_SERVED),
        Judge::Throughput => Some("throughput_total"),
        Judge::Count => Some(cells.iter().find_map(|c| counts::decisive(c))?.name),
    }
}

/// What is compared between cells of one drive and workload, the decisive quantity first.
pub fn quantities(judge: Judge, cells: &[&Cell]) -> Vec<&'static str> {
    let reps = || cells.iter().flat_map(|c| &c.reps);
    let targeted = reps().any(|rep| target(rep).is_some());
    let starts = reps().any(|rep| !startup::starts(rep).is_empty());
    let of_target = ["latency_avg", "throughput_target", "throughput_interferers"];
    let mut all: Vec<&str> = decisive(judge, cells).into_iter().collect();
    let usual = ["throughput_total"].into_iter();
    let usual = usual.chain(of_target.into_iter().filter(|_| targeted));
    for metric in usual.chain(["startup_time"].into_iter().filter(|_| starts)) {
        if !all.contains(&metric) {
            all.push(metric);
        }
    }
    all
}

/// Which way a quantity is better.
pub fn better(metric: &str) -> Better {
    match metric {
        "startup_time" | "startup_slowdown" | "phase_time" => Better::Lower,
        m if m.starts_with("latency_") => Better::Lower,
        m if m.starts_with("throughput_") || m.starts_with("jain_") => Better::Higher,
        m if m.starts_with("share_met_") => Better::Higher,
        m => counts::of_name(m).1,
    }
}
