//! From a drive that answers to a drive file (specs/drives.md section 10).
//!
//! A *probe* answers tests ([`hoistway_sim::probe`]); a [`suite()`] says which. [`measure`] asks them one by one and keeps
//! every answer ([`Raw`], JSON), so that an interrupted run goes on where it stopped. [`find`] chooses the drive model,
//! starts from the shipped drive that answers most alike, fits every parameter that the answers tell by running the same
//! tests on the simulated drive, marks what they do not tell, and compares once more: the *fit table*.
//!
//! Guarantees: the same answers and the same seed give the same file. What is in the file either was told by the device,
//! was measured (by which tests stands beside it), or is marked as guessed. Weakness: a drive does what no model here
//! does (thermal limits, power states); then the fit table shows it and the file says `fit = "poor"`.

mod bucket;
mod candidate;
mod card;
mod choose;
mod fit;
mod flash;
mod flash_writes;
mod hdd;
mod rates;
mod search;
mod suite;
mod summary;

pub use candidate::Origin;
pub use choose::ChosenModel;
pub use fit::FitRow;
pub use rates::{Targets, targets};
pub use suite::{SuiteOptions, suite};
pub use summary::{ERROR_MAX, Quality, quality, undecided};

use candidate::Candidate;
use fit::Fit;
use hoistway_sim::drive::DriveFile;
use hoistway_sim::probe::{Outcome, Probe, ProbeError, Subject, Test};
use serde::{Deserialize, Serialize};

/// Version of the raw results.
pub const SCHEMA: u32 = 1;

/// A test and its answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// The test.
    pub test: Test,
    /// The answer: of several repetitions the one with the median of the first stream's mean.
    pub outcome: Outcome,
    /// Largest over smallest mean of the repetitions; 1 for one.
    pub spread: f64,
}

/// All answers of a device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Raw {
    /// Version.
    pub schema: u32,
    /// What is known of the device.
    pub subject: Subject,
    /// Conditions worth telling: scheduler, write cache, other I/O.
    pub notes: Vec<String>,
    /// The answers so far.
    pub answers: Vec<Answer>,
}

impl Raw {
    /// Of a device that was not asked yet.
    pub fn new(subject: Subject) -> Raw {
        Raw { schema: SCHEMA, subject, notes: Vec::new(), answers: Vec::new() }
    }
}

/// Asks every test of the list that `raw` has no answer to. `progress` hears of each before it begins, and of each
/// answer; it stores them.
///
/// # Errors
///
/// The first test that has no answer; those before it are in `raw`.
pub fn measure(
    probe: &mut dyn Probe,
    tests: &[Test],
    repetitions: usize,
    raw: &mut Raw,
    progress: &mut dyn FnMut(MeasureStep<'_>) -> Result<(), ProbeError>,
) -> Result<(), ProbeError> {
    for (number, test) in tests.iter().enumerate() {
        if raw.answers.iter().any(|a| a.test == *test) {
            continue;
        }
        raw.answers.retain(|a| a.test.name != test.name);
        progress(MeasureStep::Begins { number, test })?;
        // What fills a drive would meet a filled one the second time.
        let times = times(test, repetitions);
        let mut outcomes: Vec<Outcome> = Vec::new();
        for _ in 0..times {
            outcomes.push(probe.run(test)?);
        }
        let mean = |o: &Outcome| o.first().commands.mean_ns;
        outcomes.sort_by(|a, b| mean(a).total_cmp(&mean(b)));
        let spread = mean(&outcomes[outcomes.len() - 1]) / mean(&outcomes[0]).max(1.0);
        let outcome = outcomes.swap_remove(outcomes.len() / 2);
        // No command ended: the write budget was used up before. Nothing was learnt.
        if outcome.streams.iter().all(|s| s.bytes == 0) {
            continue;
        }
        raw.answers.push(Answer { test: test.clone(), outcome, spread });
        progress(MeasureStep::Ended { raw })?;
    }
    Ok(())
}

/// How often a test runs: what fills a drive would meet a filled one the second time, and a long test repeats itself.
pub fn times(test: &Test, repetitions: usize) -> usize {
    let once = test.warm_up_ns == 0 || test.duration_ns > LONG_NS;
    if once { 1 } else { repetitions.max(1) }
}

/// Tests longer than this run once, ns.
const LONG_NS: u64 = 20_000_000_000;

/// What [`measure`] tells.
#[derive(Debug)]
pub enum MeasureStep<'a> {
    /// A test begins.
    Begins {
        /// Its number from 0.
        number: usize,
        /// It.
        test: &'a Test,
    },
    /// It has its answer.
    Ended {
        /// All answers.
        raw: &'a Raw,
    },
}

/// What was found.
#[derive(Clone, Debug)]
pub struct FoundDrive {
    /// The drive.
    pub file: DriveFile,
    /// Its text, with the origin of every value.
    pub text: String,
    /// Why this model, and from which shipped drive the rest comes.
    pub choice: ChosenModel,
    /// Measured beside simulated, every test.
    pub rows: Vec<FitRow>,
    /// How good that is.
    pub quality: Quality,
    /// Keys that no test told.
    pub guessed: Vec<String>,
    /// Proposals for io.cost and io.latency.
    pub targets: Targets,
    /// What the machine that asked seems to need for each submitter after a flush, µs; in the simulated figures.
    pub reaction_us: f64,
    /// The longest write, over time.
    pub sustained: Option<Sustained>,
}

/// A long sequential write, on the device and on the drive that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sustained {
    /// Its test.
    pub test: String,
    /// Length of each of its parts, ns.
    pub span_ns: u64,
    /// Bytes in each part on the device.
    pub measured: Vec<u64>,
    /// On the simulated drive.
    pub simulated: Vec<u64>,
}

/// How to find it.
#[derive(Clone, Debug)]
pub struct FindOptions {
    /// Id of the file to be.
    pub id: String,
    /// The user knows which model.
    pub model: Option<String>,
    /// Shipped drives that must not be looked at: a drive must not be found by its own file.
    pub exclude: Vec<String>,
    /// Seed of the simulated drives.
    pub seed: u64,
}

/// The drive that answers as `raw` says.
///
/// # Errors
///
/// No shipped drive of the model to start from, or answers are missing that every fit needs.
pub fn find(raw: &Raw, how: &FindOptions) -> Result<FoundDrive, String> {
    // The distributions of a disk show its revolution; those of a flash drive are narrow.
    let shape = if raw.subject.rotational { SHAPE } else { 0.0 };
    let fit = Fit { raw, seed: how.seed, shape };
    let (model, why, classes) = choose::choose(&fit, how)?;
    let (class, mut candidate) = best_of(&fit, &how.id, model, classes)?;
    let choice = ChosenModel { model, why, class };
    rates::fill(raw, &mut candidate);
    let file = candidate.file()?;
    let rows = all_rows(&fit, &file, candidate.reaction_ns());
    let quality = quality(&rows);
    let word = if quality.good { "good" } else { "poor" };
    let head = [
        format!("Written by `hoistway calibrate`: {}.", raw.subject.title),
        format!("Model: {}; where no test tells, as {}.", choice.why, choice.class),
        quality.sentence(),
    ];
    let text = candidate.text(&head, word);
    let file = DriveFile::parse(&format!("{}.toml", how.id), &text).map_err(|e| e.to_string())?;
    let (guessed, targets) = (candidate.guessed(), targets(raw));
    let reaction_us = candidate.reaction_us;
    let sustained = sustained(&fit, &file, candidate.reaction_ns());
    Ok(FoundDrive { file, text, choice, rows, quality, guessed, targets, reaction_us, sustained })
}

/// So many shipped drives the fit begins with, the most alike by their reads: what they say of writes, of actuators and
/// of what no test tells leads to different ends, and only the whole table shows which is best.
const CLASSES: usize = 3;

/// The fit from each of the classes, and the one whose whole table is nearest.
fn best_of(
    fit: &Fit<'_>,
    id: &str,
    model: &str,
    classes: Vec<String>,
) -> Result<(String, Candidate), String> {
    let begun = |class: &String| -> Result<(f64, Candidate), String> {
        let file = DriveFile::load(class).map_err(|e| e.to_string())?;
        let mut candidate = Candidate::new(id, &fit.raw.subject, &file);
        match model {
            "flash" => flash::fit(fit, &mut candidate),
            "hdd" => hdd::fit(fit, &mut candidate),
            "card" => card::fit(fit, &mut candidate),
            "bucket" => bucket::fit(fit, &mut candidate),
            other => unreachable!("{other} is no drive model (the list in `choose`)"),
        }
        Ok((fit.error_of(&candidate, &fit.tests(&[""])), candidate))
    };
    // They do not depend on each other, and are taken in order whichever ends first.
    let ends = std::thread::scope(|scope| {
        let threads: Vec<_> =
            classes.iter().take(CLASSES).map(|c| (c, scope.spawn(|| begun(c)))).collect();
        let joined = threads.into_iter().map(|(c, t)| (c, t.join().expect("a fit ends")));
        joined.collect::<Vec<_>>()
    });
    let mut best: Option<(f64, String, Candidate)> = None;
    for (class, end) in ends {
        let (error, candidate) = end?;
        if best.as_ref().is_none_or(|(least, ..)| error < *least) {
            best = Some((error, class.clone(), candidate));
        }
    }
    best.map(|(_, class, candidate)| (class, candidate)).ok_or_else(|| "no class".into())
}

/// What a squared demerit counts beside a squared logarithm of means.
const SHAPE: f64 = 0.3;

/// Every figure of every test, on the whole length of the tests.
fn all_rows(fit: &Fit<'_>, file: &DriveFile, reaction_ns: u64) -> Vec<FitRow> {
    let answers = fit.raw.answers.iter();
    answers
        .flat_map(|a| {
            let simulated = fit.simulate(file, reaction_ns, &a.test, true);
            fit::rows(&a.test, &a.outcome, &simulated)
        })
        .collect()
}

/// The write that ends when the budget does, of a disk the one that fills its buffer.
fn sustained(fit: &Fit<'_>, file: &DriveFile, reaction_ns: u64) -> Option<Sustained> {
    let long = |a: &&Answer| matches!(a.test.name.as_str(), "F6" | "H8");
    let answer = fit.raw.answers.iter().find(long)?;
    let simulated = fit.simulate(file, reaction_ns, &answer.test, true);
    let bins = |o: &Outcome| o.first().bins.clone();
    let length = answer.test.warm_up_ns + answer.test.duration_ns;
    Some(Sustained {
        test: answer.test.name.clone(),
        span_ns: length / hoistway_sim::probe::BINS as u64,
        measured: bins(&answer.outcome),
        simulated: bins(&simulated),
    })
}

/// What a drive file tells of a drive without a test, for a probe of that simulated drive.
pub fn subject_of(file: &DriveFile) -> Subject {
    let capacity = file.identity.capacity_bytes;
    Subject {
        title: file.name.clone(),
        capacity,
        area: (0, capacity / 4096 * 4096),
        sector: file.identity.sector_bytes,
        rotational: file.identity.rotational,
        bus: file.host.bus.clone(),
        queue_depth: file.host.queue_depth,
        hw_queues: file.host.hw_queues,
        max_request_kib: file.host.max_request_kib,
        fua: file.host.fua,
        write_cache: file.device().write_cache,
        discard: file.device().max_discard_sectors.0 > 0,
    }
}

#[cfg(test)]
mod tests;
