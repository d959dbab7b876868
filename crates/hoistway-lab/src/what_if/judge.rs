//! From what the runs measured to an answer for each target.

use super::run::kept_permille;
use super::{Basis, OTHERS, Point, TargetBounds, Wanted, Way, WhatIfQuestion};
use crate::run::RunError;
use hoistway::Nanos;
use hoistway::target::{Answer, millis, percent};
use std::sync::atomic::AtomicBool;

/// Valves of the sweep, in units, and largest greedy requests, in KiB: from the least the scheduler uses to where
/// no flash drive of the catalogue gains any more.
const VALVES: [u64; 7] = [6, 12, 24, 48, 96, 192, 384];
const CUTS_KIB: [u64; 3] = [32, 64, 128];
/// Other numbers for the targets, those of the first: times that somebody may ask for, of flash and of disks.
const FLASH: [Nanos; 16] =
    us([30, 50, 70, 100, 150, 200, 300, 400, 600, 800, 1200, 1600, 2400, 3200, 5000, 8000]);
const DISK: [Nanos; 16] = us([
    15_000, 25_000, 50_000, 75_000, 100_000, 150_000, 200_000, 250_000, 300_000, 350_000, 400_000,
    500_000, 600_000, 800_000, 1_200_000, 1_600_000,
]);

const fn us(all: [u64; 16]) -> [Nanos; 16] {
    let (mut out, mut n) = ([Nanos(0); 16], 0);
    while n < all.len() {
        out[n] = Nanos::us(all[n]);
        n += 1;
    }
    out
}

/// An answer in words.
pub type Sentence = String;

/// What was found out about one target.
#[derive(Clone, Debug)]
pub struct TargetFinding {
    /// The target.
    pub wanted: Wanted,
    /// It is kept without losing more throughput than may be lost, or with `strict` at all.
    pub kept: bool,
    /// Kept, or what stands in its way.
    pub answer: Answer,
    /// The same in words.
    pub words: Sentence,
    /// The run that keeps it, if another than that with the targets as they are does with the throughput that is
    /// asked for, or else the best without loss: its place in the sweep.
    pub by: Option<usize>,
    /// Other means that keep its number, with the throughput they leave in thousandths.
    pub also: Vec<(&'static str, u32)>,
}

/// Everything that was run, and the answers.
#[derive(Clone, Debug)]
pub struct Report {
    /// Each target alone on the drive.
    pub alone: Vec<Point>,
    /// Under the usual means, in the order of [`OTHERS`]; the first is no control.
    pub others: Vec<Point>,
    /// Under the scheduler with the targets.
    pub ours: Point,
    /// Under fixed settings of it; empty if none was needed.
    pub sweep: Vec<Point>,
    /// What no scheduler can do, by target.
    pub bounds: Vec<TargetBounds>,
    /// By target.
    pub findings: Vec<TargetFinding>,
}

impl Report {
    /// Every target is kept.
    pub fn kept(&self) -> bool {
        self.findings.iter().all(|f| f.kept)
    }

    /// Part of the throughput without control, in thousandths.
    pub fn kept_permille(&self, point: &Point) -> u32 {
        kept_permille(point.total, self.others[0].total)
    }
}

impl WhatIfQuestion {
    /// Runs what is needed beside `basis` and judges. `progress` hears how many runs are over, and how many there are.
    ///
    /// # Errors
    ///
    /// A run that cannot be made, or that it was stopped.
    pub fn answer(
        &self,
        basis: Basis,
        threads: usize,
        stop: &AtomicBool,
        progress: &(dyn Fn(usize, usize) + Sync),
    ) -> Result<Report, RunError> {
        let bounds = self.bounds(&basis);
        let Basis { alone, none } = basis;
        let mut ways: Vec<Way> = OTHERS[1..].iter().copied().map(Way::Other).collect();
        ways.push(Way::Targets);
        let done = std::sync::atomic::AtomicUsize::new(alone.len() + 1);
        let over = |total: usize| {
            let done = done.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1;
            progress(done, total);
        };
        let first = alone.len() + 1 + ways.len();
        let mut points = self.points(&ways, threads, stop, &|| over(first))?;
        let ours = points.pop().expect("the last way is ours");
        let others: Vec<Point> = std::iter::once(none).chain(points).collect();
        let mut report =
            Report { alone, others, ours, bounds, sweep: Vec::new(), findings: Vec::new() };
        if self.wants_sweep(&report) {
            let ways = self.sweep();
            let total = first + ways.len();
            report.sweep = self.points(&ways, threads, stop, &|| over(total))?;
        }
        report.findings = (0..self.wanted.len()).map(|n| self.judge(n, &report)).collect();
        Ok(report)
    }

    /// Something is not as it should be, and no drive alone is the reason.
    fn wants_sweep(&self, report: &Report) -> bool {
        (0..self.wanted.len()).any(|n| {
            let possible = self.fits(n, &report.alone[n]);
            possible && !(self.fits(n, &report.ours) && self.enough(report, &report.ours))
        })
    }

    fn sweep(&self) -> Vec<Way> {
        let disk = self.drive.identity.rotational;
        let mut ways = Vec::new();
        if let Some(first) = self.wanted.iter().find_map(|w| w.target) {
            let permille = |time: Nanos| (u128::from(time.0) * 1000 / u128::from(first.0)) as u64;
            let times = if disk { DISK } else { FLASH };
            // Without the number that was asked for: that is the first run, and on flash the strict one.
            let scales = times.map(permille).into_iter().filter(|&p| p > 0 && p != 1000);
            ways.extend(scales.map(|permille| Way::Scaled { permille, strict: !disk }));
            ways.extend((!disk).then_some(Way::Scaled { permille: 1000, strict: true }));
        }
        let entry = hoistway::sched::find(super::SCHEDULER).expect("the registry has it");
        if !disk && entry.tunables.iter().any(|t| t.name == "valve") {
            let fixed = |cut_kib| VALVES.map(|valve| Way::Fixed { valve, cut_kib });
            ways.extend(CUTS_KIB.into_iter().flat_map(fixed));
        }
        ways
    }

    /// The number of the target is kept; one without a number always is.
    fn fits(&self, n: usize, point: &Point) -> bool {
        match (self.wanted[n].target, &point.targets[n]) {
            (_, None) => false,
            (None, Some(_)) => true,
            (Some(target), Some(measured)) => measured.p99 <= target,
        }
    }

    fn enough(&self, report: &Report, point: &Point) -> bool {
        self.strict || report.kept_permille(point) + self.loss_permille >= 1000
    }

    fn judge(&self, n: usize, report: &Report) -> TargetFinding {
        let wanted = self.wanted[n].clone();
        let fits = |p: &&Point| self.fits(n, p);
        let named = OTHERS.iter().zip(&report.others).filter(|(_, p)| fits(p));
        let also = named.map(|(name, p)| (*name, report.kept_permille(p)));
        let also = if wanted.target.is_some() { also.collect() } else { Vec::new() };
        let (answer, by) = self.answer_for(n, report);
        let kept = answer == Answer::Met;
        let words = self.words(n, report, answer, by);
        TargetFinding { wanted, kept, answer, words, by, also }
    }

    /// The answer, and the place in the sweep of what keeps the target if the scheduler's own choice does not.
    fn answer_for(&self, n: usize, report: &Report) -> (Answer, Option<usize>) {
        let Some(ours) = &report.ours.targets[n] else { return (Answer::Unknown, None) };
        if self.fits(n, &report.ours) && self.enough(report, &report.ours) {
            return (Answer::Met, None);
        }
        if let Some(alone) = &report.alone[n].targets[n]
            && !self.fits(n, &report.alone[n])
        {
            return (Answer::Device { least: alone.p99 }, None);
        }
        let kept = |p: &Point| report.kept_permille(p);
        let fitting = report.sweep.iter().enumerate().filter(|(_, p)| self.fits(n, p));
        let cheapest = fitting.max_by_key(|(at, p)| (kept(p), std::cmp::Reverse(*at)));
        if let Some((at, _)) = cheapest.filter(|(_, p)| self.enough(report, p)) {
            return (Answer::Met, Some(at));
        }
        let all = || report.sweep.iter().chain([&report.ours]);
        let p99 = |p: &Point| p.targets[n].as_ref().map(|m| m.p99);
        let best_p99 = all().filter(|p| self.enough(report, p)).filter_map(p99).min();
        let best = report.sweep.iter().position(|p| self.enough(report, p) && p99(p) == best_p99);
        let most = all().filter(|p| self.fits(n, p)).map(kept).max();
        let cost_permille = most.map(|kept| 1000u32.saturating_sub(kept));
        let said = || report.ours.states.iter().find(|s| s.group.ends_with(&self.wanted[n].name));
        match (best_p99, cost_permille, said().map(|s| s.answer)) {
            // No setting keeps it: the scheduler knows of what the group has too little.
            (_, None, Some(answer @ (Answer::Share { .. } | Answer::Place { .. }))) => {
                (answer, None)
            }
            (found, cost_permille, _) => {
                let best_p99 = found.unwrap_or(ours.p99);
                (
                    Answer::Loss { best_p99, cost_permille },
                    best.filter(|_| p99(&report.ours) != Some(best_p99)),
                )
            }
        }
    }

    fn words(&self, n: usize, report: &Report, answer: Answer, by: Option<usize>) -> Sentence {
        let wanted = &self.wanted[n];
        let point = by.map_or(&report.ours, |at| &report.sweep[at]);
        let Some(measured) = &point.targets[n] else {
            return "it had no I/O in the measured time; a longer --duration may give it some"
                .into();
        };
        let kept = percent(report.kept_permille(point));
        let p99 = millis(measured.p99);
        let without = percent(1000 - self.loss_permille.min(1000));
        let target = |t: Option<Nanos>| t.map_or_else(String::new, millis);
        match answer {
            Answer::Met if wanted.target.is_none() => {
                format!("as low as goes without loss: p99 {p99} at {kept} of the throughput")
            }
            Answer::Met => format!("kept: p99 {p99} at {kept} of the throughput"),
            Answer::Device { least } => {
                format!("device: alone on this drive its p99 is {}", millis(least))
            }
            Answer::Loss { best_p99, cost_permille } => {
                let found = report.sweep.iter().chain([&report.ours]);
                let any = found.into_iter().any(|p| self.enough(report, p));
                let best = match any {
                    true => format!(
                        "the best p99 at {without} of the throughput is {}",
                        millis(best_p99)
                    ),
                    false => format!("no setting keeps {without} of the throughput"),
                };
                match (cost_permille, wanted.target) {
                    (Some(cost), Some(_)) => {
                        format!("loss: {best}; {} costs {}", target(wanted.target), percent(cost))
                    }
                    (None, Some(_)) => {
                        format!("loss: {best}; no setting keeps {}", target(wanted.target))
                    }
                    (_, None) => {
                        let cost = 1000u32.saturating_sub(report.kept_permille(&report.ours));
                        let own = format!("p99 {p99} costs {} of the throughput", percent(cost));
                        // Nothing else was tried on a disk: its valve is no matter.
                        if report.sweep.is_empty() {
                            return format!("loss: {own}; a number as target may cost less");
                        }
                        format!("loss: {best}; {own}")
                    }
                }
            }
            other => other.words(wanted.target),
        }
    }
}
