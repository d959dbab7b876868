//! Differential testing: random scenarios in Linux itself, every call into its scheduler recorded, and each fed to the
//! scheduler of ours of the same name.
//!
//! *Problem.* A scheduler written from a description is as good as the cases somebody thought of. Six recordings agree;
//! the seventh may not.
//!
//! *Idea.* Scenarios nobody thought of ([`generate`]), run in Linux in virtual time, where a recording of every call
//! and answer is exact and repeats; replayed into our scheduler ([`hoistway_replay`]), every answer compared. What the
//! host, the drive or the clock did cannot cause a difference: the recording says what came when. The first difference
//! of a scenario is cut down ([`shrink`]) to a scenario small enough to be understood, and kept.
//!
//! *Guarantees.* The same kernel, seed and number of scenarios give the same report. A difference is never forgiven
//! for its size; those that are understood and left are listed ([`known`]), with the rule and whose it is.

pub mod control;
pub mod generate;
pub mod known;
pub mod shrink;
pub mod suite;

use hoistway_machine::linux::actor::scenario::Scenario;
use hoistway_replay::{Outcome, Recorded, replay};
pub use known::Known;

/// Scenarios recorded at a time: a boot is dearer than a scenario.
pub const BATCH: u64 = 20;

/// The same of one scheduler or controller. io.cost learns how fast the drive is, and keeps that as long as the machine
/// runs; io.latency gives its siblings all their depth back when a group goes, which a group of an earlier scenario may
/// do at any time, with the last of its pages. Each of their scenarios has a boot of its own.
pub fn batch(subject: &str) -> u64 {
    if matches!(subject, "io.cost" | "io.latency") { 1 } else { BATCH }
}

/// Rounds of cutting down at most.
const ROUNDS: u32 = 60;

/// Proposals recorded at a time. The first are the largest cuts and often differ still: recording those behind them is
/// in vain, and what is held to the end of a scenario of io.max makes each dear.
const PROPOSALS: u64 = 5;

/// Runs scenarios in Linux.
pub trait Recorder {
    /// The recording of each of these, which have one drive.
    fn record(&mut self, scenarios: &[Scenario]) -> Result<Vec<String>, NotCompared>;
}

/// Why scenarios were not compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotCompared {
    /// Which of them was not, as far as that is known.
    pub at: Option<usize>,
    /// What went wrong.
    pub what: String,
}

/// What came of one scenario.
#[derive(Clone, Debug)]
pub struct ComparedScenario {
    /// The scenario.
    pub scenario: Scenario,
    /// What Linux did.
    pub recording: String,
    /// How it compares.
    pub outcome: Outcome,
}

impl ComparedScenario {
    /// Some line differs, and of a controller some process got more or less by more than 1 %.
    pub fn differs(&self) -> bool {
        !self.outcome.agrees() && !self.outcome.is_close()
    }

    /// The listed difference that this is.
    pub fn known(&self) -> Option<&'static Known> {
        known::find(&self.scenario.scheduler, self.outcome.first.as_ref()?)
    }
}

/// Records these scenarios and compares each; `settings` are ours.
pub fn compare(
    recorder: &mut dyn Recorder,
    scenarios: &[Scenario],
    settings: &Recorded,
) -> Result<Vec<ComparedScenario>, NotCompared> {
    let recordings = recorder.record(scenarios)?;
    if recordings.len() != scenarios.len() {
        let what = format!("{} scenarios gave {} recordings", scenarios.len(), recordings.len());
        return Err(NotCompared { at: None, what });
    }
    let compared =
        scenarios.iter().zip(recordings).enumerate().map(|(n, (scenario, recording))| {
            let outcome = replay(&recording, settings).map_err(|e| NotCompared {
                at: Some(n),
                what: format!("a recording of Linux: {e}\n{scenario}"),
            })?;
            Ok(ComparedScenario { scenario: scenario.clone(), recording, outcome })
        });
    compared.collect()
}

/// Cuts a scenario that differs down, as long as `go_on` says so; what it came to by then is not lost.
pub fn smallest(
    recorder: &mut dyn Recorder,
    found: ComparedScenario,
    settings: &Recorded,
    go_on: &mut dyn FnMut(&ComparedScenario) -> bool,
) -> Result<ComparedScenario, String> {
    let (mut best, known) = (found.clone(), found.known().map(|k| k.name));
    for _ in 0..ROUNDS {
        if !go_on(&best) {
            break;
        }
        let mut smaller = None;
        let at_a_time = batch(&best.scenario.scheduler).min(PROPOSALS) as usize;
        for some in shrink::proposals(&best.scenario).chunks(at_a_time) {
            let same = |c: &ComparedScenario| c.differs() && c.known().map(|k| k.name) == known;
            smaller = match compare(recorder, some, settings) {
                Ok(all) => all.into_iter().find(same),
                // It was interrupted.
                Err(_) if !go_on(&best) => return Ok(best),
                Err(e) => return Err(e.what),
            };
            if smaller.is_some() || !go_on(&best) {
                break;
            }
        }
        match smaller {
            Some(smaller) => best = smaller,
            None => break,
        }
    }
    Ok(best)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "event,ns,tick,request,ctx,sector,sectors,op,level,group,result,segments\n\
        device,,,,,,,,,,scheduler=mq-deadline rotational=0 created_tick=0 tick_ns=10000000 max_sectors=1024 \
        max_segments=256 tags=64 noweights timers,\n";

    /// A machine that has two requests for each process, and at times the wrong one goes first.
    struct Fake {
        recorded: usize,
    }

    impl Recorder for Fake {
        fn record(&mut self, scenarios: &[Scenario]) -> Result<Vec<String>, NotCompared> {
            self.recorded += scenarios.len();
            let one = |s: &Scenario| {
                let wrong = s.processes.iter().any(|p| p.depth >= 4);
                let (a, b) = if wrong { (1, 0) } else { (0, 1) };
                format!(
                    "{HEAD}insert,100,0,0,,800,8,R,,root,,1\ninsert,100,0,1,,8000,8,R,,root,,1\n\
                     dispatch,100,0,{a},,,,,,,,\ndispatch,100,0,{b},,,,,,,,\n"
                )
            };
            Ok(scenarios.iter().map(one).collect())
        }
    }

    #[test]
    fn a_difference_is_cut_down_to_what_causes_it() {
        let text = "scheduler mq-deadline\ndrive x\nlength 100\nprocess end=100 span=65536 depth=2\n\
                    process end=100 span=65536 depth=9 prio=rt2 order=random\n\
                    process end=100 span=65536 depth=3\nat 5 set fifo_batch 3\n";
        let settings = Recorded::linux_6_1();
        let mut fake = Fake { recorded: 0 };
        let found = compare(&mut fake, &[text.parse().unwrap()], &settings).unwrap().remove(0);
        assert_eq!(found.outcome.first.as_ref().unwrap().line, 5);
        let small = smallest(&mut fake, found, &settings, &mut |_| true).unwrap();
        assert_eq!(small.scenario.processes.len(), 1);
        assert_eq!(
            small.scenario.processes[0].depth, 5,
            "4 and more differ, and halves of 5 are tried"
        );
        assert!(small.scenario.changes.is_empty() && small.scenario.length <= 20);
    }

    /// A machine that is stopped in its third recording.
    struct Stopped<'a>(Fake, &'a std::cell::Cell<bool>);

    impl Recorder for Stopped<'_> {
        fn record(&mut self, scenarios: &[Scenario]) -> Result<Vec<String>, NotCompared> {
            self.1.set(self.0.recorded > 2);
            if self.1.get() {
                return Err(NotCompared { at: None, what: "stopped".into() });
            }
            self.0.record(scenarios)
        }
    }

    #[test]
    fn what_was_cut_down_is_kept_when_it_is_interrupted() {
        let text = "scheduler mq-deadline\ndrive x\nlength 100\nprocess end=100 span=65536 depth=2\n\
                    process end=100 span=65536 depth=9\nprocess end=100 span=65536 depth=3\n";
        let (settings, stop) = (Recorded::linux_6_1(), std::cell::Cell::new(false));
        let mut machine = Stopped(Fake { recorded: 0 }, &stop);
        let found = compare(&mut machine, &[text.parse().unwrap()], &settings).unwrap().remove(0);
        let small = smallest(&mut machine, found, &settings, &mut |_| !stop.get()).unwrap();
        assert!(small.differs() && small.scenario.processes.len() < 3);
    }
}
