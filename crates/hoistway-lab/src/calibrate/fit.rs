//! Measured against simulated: what every fit works with.

use super::Raw;
use super::candidate::Candidate;
use super::search::{self, Parameter, Space};
use hoistway_sim::drive::DriveFile;
use hoistway_sim::probe::{Action, Outcome, Pattern, Probe, SimProbe, Stream, StreamOutcome, Test};

/// One figure of a test.
#[derive(Clone, Debug, PartialEq)]
pub struct FitRow {
    /// Test.
    pub test: String,
    /// What of it.
    pub what: &'static str,
    /// `us` or `MB/s`.
    pub unit: &'static str,
    /// On the device.
    pub measured: f64,
    /// On the simulated drive.
    pub simulated: f64,
    /// Latencies on the device; `None` of throughputs.
    pub count: Option<u64>,
    /// Distance of the distributions relative to the mean, where there are enough latencies.
    pub demerit: Option<f64>,
}

impl FitRow {
    /// Relative error of the simulated figure.
    pub fn error(&self) -> f64 {
        self.simulated / self.measured - 1.0
    }
}

/// What the machine that asks needs for each submitter after a flush, µs; a race that it loses from some 20 on.
pub const REACTION: Parameter<Candidate> = Parameter {
    space: Space::OneOf(&[0.001, 25.0, 50.0, 100.0, 200.0, 400.0]),
    apply: |c, v| c.reaction_us = v,
};
/// From where it is searched: none to speak of (the values are stepped by their logarithms), and one that loses the race.
pub const REACTIONS: [f64; 2] = [0.001, 50.0];

/// Latencies below this number say nothing of their mean.
const FEW: u64 = 5;
/// A demerit needs at least so many on both sides.
const FEW_QUANTILES: u64 = 40;
/// Commands of a test while a fit runs: a percent of error is enough there, since many tests are asked together.
const COMMANDS_FIT: u64 = 1_500;
const COMMANDS_LEAST: u64 = 150;
/// The same of tests in which one reader has many companions.
const COMMANDS_FIT_MIXED: u64 = 12_000;
/// The error that a figure has which the candidate does not deliver at all, as a factor.
const NOTHING: f64 = 10.0;

/// Figures of an answer beside those of another.
pub fn rows(test: &Test, measured: &Outcome, simulated: &Outcome) -> Vec<FitRow> {
    let mut rows = Vec::new();
    let mut row = |what, unit, a: f64, b: f64, demerit, count| {
        if a > 0.0 {
            rows.push(FitRow {
                test: test.name.clone(),
                what,
                unit,
                measured: a,
                simulated: b,
                count,
                demerit,
            });
        }
    };
    for (at, stream) in test.streams.iter().enumerate() {
        let (m, s) = (&measured.streams[at], &simulated.streams[at]);
        // Bulk streams are a matter of bytes, and so is everything that runs at the side, and a stream that was starved.
        let bulk = stream.bytes >= 1 << 20 && stream.action != Action::Discard;
        if at > 0 || bulk || starved(stream, m, measured.counted_ns) {
            let what = if at == 0 { "throughput" } else { "throughput of the others" };
            row(what, "MB/s", measured.rate(at) / 1e6, simulated.rate(at) / 1e6, None, None);
            continue;
        }
        if m.commands.count >= FEW {
            let enough = m.commands.count.min(s.commands.count) >= FEW_QUANTILES;
            let demerit = enough.then(|| m.commands.demerit(&s.commands));
            let (a, b) = (m.commands.mean_ns / 1e3, s.commands.mean_ns / 1e3);
            row("mean latency", "us", a, b, demerit, Some(m.commands.count));
        }
        if m.flushes.count >= FEW {
            let (a, b) = (m.flushes.mean_ns / 1e3, s.flushes.mean_ns / 1e3);
            row("mean flush", "us", a, b, None, Some(m.flushes.count));
        }
    }
    rows
}

/// Most of a closed loop's time must be in latencies that were seen to their end.
const SEEN: f64 = 0.6;

/// A closed loop whose commands did not come to an end for a large part of the time: the mean of those that did says how
/// it was before, not what waiting there was. Its throughput tells both.
fn starved(stream: &Stream, m: &StreamOutcome, counted_ns: u64) -> bool {
    let closed = stream.pause_ns == 0 && stream.interval_ns == 0 && stream.flush_every == 0;
    let slots = f64::from(stream.copies * stream.depth);
    let spent = m.commands.mean_ns * m.commands.count as f64 / slots;
    let counts = !matches!(stream.pattern, Pattern::Pairs { .. });
    closed && counts && m.commands.count >= FEW && spent < SEEN * counted_ns as f64
}

/// A device's answers and the simulated drive that shall give the same.
#[derive(Debug)]
pub struct Fit<'a> {
    /// The answers.
    pub raw: &'a Raw,
    /// Seed of the simulated drive.
    pub seed: u64,
    /// Weight of squared demerits.
    pub shape: f64,
}

impl Fit<'_> {
    /// The tests whose names begin with one of these.
    pub fn tests(&self, prefixes: &[&str]) -> Vec<(&Test, &Outcome)> {
        let all = self.raw.answers.iter().map(|a| (&a.test, &a.outcome));
        all.filter(|(t, _)| prefixes.iter().any(|p| t.name.starts_with(p))).collect()
    }

    /// A test's answer.
    pub fn answer(&self, name: &str) -> Option<&Outcome> {
        self.raw.answers.iter().find(|a| a.test.name == name).map(|a| &a.outcome)
    }

    /// The answer of a simulated drive to a test, shorter than the test if it is during the search; `reaction_ns` is
    /// the asking machine's after a flush.
    pub fn simulate(
        &self,
        file: &DriveFile,
        reaction_ns: u64,
        test: &Test,
        whole: bool,
    ) -> Outcome {
        let mut test = test.clone();
        if !whole && test.commands_max > 0 {
            let mixed = test.streams.len() > 1;
            let largest = test.streams.iter().map(|s| s.bytes).max().unwrap_or(4096);
            let most = match mixed {
                true => COMMANDS_FIT_MIXED,
                // Long commands cost as many steps as they have pages.
                false => (COMMANDS_FIT * 16_384 / largest).clamp(COMMANDS_LEAST, COMMANDS_FIT),
            };
            test.commands_max = test.commands_max.min(most);
        }
        let mut probe = SimProbe::new(file, self.seed).with_reaction(reaction_ns);
        probe.run(&test).expect("a simulated drive answers")
    }

    /// Mean of the squared logarithms of measured over simulated; anything above `enough` if it is above.
    fn error(
        &self,
        file: &DriveFile,
        reaction_ns: u64,
        tests: &[(&Test, &Outcome)],
        enough: f64,
    ) -> f64 {
        // Which figures a test has depends on what was measured alone.
        let count: usize = tests.iter().map(|(test, m)| rows(test, m, m).len()).sum();
        let mut sum = 0.0;
        for (test, measured) in tests {
            for row in rows(test, measured, &self.simulate(file, reaction_ns, test, false)) {
                let apart = if row.simulated > 0.0 {
                    libm::log(row.simulated / row.measured)
                } else {
                    libm::log(NOTHING)
                };
                sum += apart * apart;
                if let Some(demerit) = row.demerit.filter(|d| d.is_finite()) {
                    sum += self.shape * demerit * demerit;
                }
            }
            if sum > enough * count as f64 {
                return f64::INFINITY;
            }
        }
        sum / count.max(1) as f64
    }

    /// The error of a candidate; what makes no drive is infinitely wrong.
    pub fn error_of(&self, candidate: &Candidate, tests: &[(&Test, &Outcome)]) -> f64 {
        self.error_up_to(candidate, tests, f64::INFINITY)
    }

    fn error_up_to(&self, c: &Candidate, tests: &[(&Test, &Outcome)], enough: f64) -> f64 {
        let reaction = c.reaction_ns();
        c.file().map_or(f64::INFINITY, |file| self.error(&file, reaction, tests, enough))
    }

    /// Pattern search over `parameters` for the tests with these prefixes; the error left.
    pub fn search(
        &self,
        candidate: &mut Candidate,
        parameters: &[Parameter<Candidate>],
        start: &[f64],
        prefixes: &[&str],
        rounds: usize,
    ) -> f64 {
        let tests = self.tests(prefixes);
        let with = |values: &[f64]| {
            let mut changed = candidate.clone();
            for (parameter, &value) in parameters.iter().zip(values) {
                (parameter.apply)(&mut changed, value);
            }
            changed
        };
        let mut error =
            |values: &[f64], enough: f64| self.error_up_to(&with(values), &tests, enough);
        let (found, least) = search::pattern(parameters, start, rounds, &mut error);
        *candidate = with(&found);
        least
    }

    /// Corrects a value by bisection within a factor of 2 until the test's mean latency, which grows with it, is that
    /// of the device (specs/drives.md 10.1). A latency that does not depend on the value there leaves it alone.
    pub fn correct(&self, c: &mut Candidate, (table, key): (&str, &str), name: &str) {
        let Some(answer) = self.raw.answers.iter().find(|a| a.test.name == name) else { return };
        let now = c.get(table, key);
        let wanted = answer.outcome.first().commands.mean_ns;
        let with = |value: f64| {
            let mut tried = c.clone();
            tried.set(table, key, value);
            let file = tried.file().ok()?;
            Some(self.simulate(&file, 0, &answer.test, false).first().commands.mean_ns)
        };
        let (Some(low), Some(high)) = (with(now / 2.0), with(now * 2.0)) else { return };
        if now > 0.0 && low < wanted && wanted < high {
            let mut latency = |value| with(value).unwrap_or(f64::INFINITY);
            let found = search::bisect(now / 2.0, now * 2.0, wanted, &mut latency);
            c.set(table, key, found);
        }
    }
}
