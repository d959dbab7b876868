//! A conversation with the page: what can be chosen, a plan, its runs one by one, the report.

use crate::catalog::{self, Catalog};
use crate::live::{Live, PARTS, Steps};
use hoistway_lab::experiment::Experiment;
use hoistway_lab::grid::{Plan, PlanError};
use hoistway_lab::report::html;
use hoistway_lab::result::kept::FinishedRun;
use hoistway_lab::result::{Rep, metrics_csv, target};
use hoistway_lab::run::{Grid, RunError};
use hoistway_lab::world::Sim;
use serde::{Deserialize, Serialize};
use std::sync::atomic::AtomicBool;

/// What the page asks.
#[derive(Debug, Deserialize)]
#[serde(tag = "ask", rename_all = "lowercase")]
pub enum Question {
    /// What there is to choose.
    Catalog,
    /// One of its experiments.
    Experiment {
        /// Its id.
        id: String,
    },
    /// One of its drives.
    Drive {
        /// Its id.
        id: String,
    },
    /// Makes a grid of a wish; nothing runs yet.
    Plan(Wish),
    /// One run of the grid.
    Run {
        /// Its number ([`Grid::cell_of`]).
        run: usize,
    },
    /// Puts the runs together.
    Report,
}

/// What was chosen and typed.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wish {
    /// Its id.
    pub experiment: String,
    /// Its id.
    pub drive: String,
    /// One of the experiment's.
    pub workload: String,
    /// As on the command line: `bfq{slice_idle=0}`.
    pub configs: Vec<String>,
    /// A number.
    pub reps: String,
    /// A number.
    pub seed: String,
    /// Such as `2s`; empty: the experiment's.
    pub duration: String,
}

/// Why there is no answer.
#[derive(Debug, PartialEq, Serialize)]
pub struct Complaint {
    /// For people.
    pub text: String,
    /// Field of the wish that it is about.
    pub field: Option<&'static str>,
}

/// What the page asked for last, and how far it is.
#[derive(Debug, Default)]
pub struct Session {
    going: Option<Going>,
}

#[derive(Debug)]
struct Going {
    grid: Grid,
    finished: Vec<Option<FinishedRun>>,
}

#[derive(Serialize)]
struct Planned {
    /// The command that gives the same results.
    command: String,
    /// Where it would be written by that command, and what files of it are named here.
    name: String,
    configs: Vec<String>,
    reps: u32,
    /// Of [`Live::wait`].
    parts: &'static [u64],
    /// What of the plan has no effect.
    warnings: Vec<String>,
}

#[derive(Serialize)]
struct Ran {
    /// Number of its configuration.
    config: usize,
    /// There is a process that is measured.
    target: bool,
    /// Length of the intervals of the series, seconds.
    step: f64,
    live: Live,
}

#[derive(Serialize)]
struct Reported {
    html: String,
    metrics: String,
}

impl From<String> for Complaint {
    fn from(text: String) -> Complaint {
        Complaint { text, field: None }
    }
}

impl From<RunError> for Complaint {
    fn from(error: RunError) -> Complaint {
        error.to_string().into()
    }
}

impl From<PlanError> for Complaint {
    fn from(error: PlanError) -> Complaint {
        let field = match &error {
            PlanError::Drive(_) | PlanError::SameDrive { .. } => Some("drive"),
            PlanError::Config(_) | PlanError::SameConfig { .. } | PlanError::List(_) => {
                Some("configs")
            }
            PlanError::Value { option: "duration", .. } => Some("duration"),
            PlanError::NoWorkload { .. } => Some("workload"),
            PlanError::Experiment(_) => Some("experiment"),
            _ => None,
        };
        Complaint { text: error.to_string(), field }
    }
}

/// An answer as the page reads it.
pub(crate) fn said<T: Serialize>(answer: Result<T, Complaint>) -> String {
    #[derive(Serialize)]
    #[serde(rename_all = "lowercase")]
    enum Said<T> {
        Done(T),
        Error(Complaint),
    }
    let said = answer.map_or_else(Said::Error, Said::Done);
    serde_json::to_string(&said).expect("no map with keys that are not texts")
}

/// Repetitions and seeds, as on the command line.
const REPS: (u64, u64) = (1, 10_000);
const SEEDS: (u64, u64) = (0, 1 << 62);

fn number(text: &str, field: &'static str, (least, most): (u64, u64)) -> Result<u64, Complaint> {
    let number = text.trim().parse().ok().filter(|n| (least..=most).contains(n));
    number.ok_or_else(|| Complaint {
        text: format!("{field}: '{text}' is not a whole number from {least} to {most}"),
        field: Some(field),
    })
}

impl Session {
    /// Answers a question, JSON with JSON.
    pub fn answer(&mut self, question: &[u8]) -> String {
        match serde_json::from_slice(question) {
            Ok(Question::Catalog) => said(Ok(Catalog::new())),
            Ok(Question::Experiment { id }) => {
                said(catalog::experiment(&id).map_err(Complaint::from))
            }
            Ok(Question::Drive { id }) => said(catalog::drive(&id).map_err(Complaint::from)),
            Ok(Question::Plan(wish)) => said(self.plan(&wish)),
            Ok(Question::Run { run }) => said(self.run(run)),
            Ok(Question::Report) => said(self.report()),
            Err(error) => {
                let text = format!("the question cannot be read: {error}");
                said(Err::<(), _>(text.into()))
            }
        }
    }

    fn plan(&mut self, wish: &Wish) -> Result<Planned, Complaint> {
        self.going = None;
        let reps = number(&wish.reps, "reps", REPS)?;
        let seed = number(&wish.seed, "seed", SEEDS)?;
        let duration = Some(wish.duration.trim()).filter(|text| !text.is_empty());
        let experiment = Experiment::load(&wish.experiment).map_err(PlanError::from)?;
        let plan = Plan::of(experiment)
            .drives([&wish.drive])
            .workloads([&wish.workload])
            .configs(&wish.configs)
            .reps(u32::try_from(reps).expect("at most 10 000"))
            .seed(seed)
            .duration(duration);
        let mut warnings = Vec::new();
        let grid = plan.grid(&mut |warning| warnings.push(warning.to_string()))?;
        let planned = Planned {
            command: grid.command.clone(),
            name: format!("{}.{}", grid.experiment.id, grid.digest()),
            configs: grid.configs.iter().map(|c| c.id.clone()).collect(),
            reps: grid.reps,
            parts: &PARTS,
            warnings,
        };
        self.going = Some(Going { finished: vec![None; grid.len()], grid });
        Ok(planned)
    }

    fn going(&mut self) -> Result<&mut Going, Complaint> {
        self.going.as_mut().ok_or_else(|| "nothing is planned".to_string().into())
    }

    fn run(&mut self, run: usize) -> Result<Ran, Complaint> {
        let Going { grid, finished } = self.going()?;
        if run >= finished.len() {
            return Err(format!("there is no run {run}, only {}", finished.len()).into());
        }
        let bytes = grid.encoded(&Sim, run, &AtomicBool::new(false))?;
        finished[run] = Some(FinishedRun::decode(&bytes)?);
        let config = run / grid.reps as usize;
        let of_config = finished.chunks(grid.reps as usize).nth(config);
        let reps: Vec<&Rep> = of_config.into_iter().flatten().flatten().map(|f| &f.rep).collect();
        let (window, target) = (&grid.experiment.window, target(reps[0]).is_some());
        let steps = Steps { target: window.target_interval, device: window.device_interval };
        let step = steps.of(target).0 as f64 / 1e9;
        Ok(Ran { config, target, step, live: Live::of(&reps, steps) })
    }

    fn report(&mut self) -> Result<Reported, Complaint> {
        let Going { grid, finished } = self.going()?;
        let place = |config: &str, rep: u32| {
            let config = grid.configs.iter().position(|c| c.id == config)?;
            finished[config * grid.reps as usize + rep as usize].clone()
        };
        let run = grid.gathered(&Sim, &|_, config, rep| place(config, rep))?;
        Ok(Reported { html: html::render(&run), metrics: metrics_csv(&[&run]) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn ask(session: &mut Session, question: Value) -> Value {
        let said = session.answer(question.to_string().as_bytes());
        serde_json::from_str(&said).expect("JSON")
    }

    fn wish(changes: &[(&str, Value)]) -> Value {
        let mut wish = json!({
            "ask": "plan", "experiment": "latency-2019", "drive": "plextor-px-256m5s",
            "workload": "readers", "configs": ["none", "bfq{slice_idle=0}"], "reps": "2",
            "seed": "7", "duration": "1s",
        });
        for (name, value) in changes {
            wish[name] = value.clone();
        }
        wish
    }

    /// What the lab gives for the same plan without the page.
    fn alone() -> hoistway_lab::result::Run {
        let plan = Plan::of(Experiment::load("latency-2019").unwrap())
            .drives(["plextor-px-256m5s"])
            .workloads(["readers"])
            .configs(["none,bfq{slice_idle=0}"])
            .reps(2)
            .seed(7)
            .duration(Some("1s"));
        let grid = plan.grid(&mut |w| panic!("{w}")).unwrap();
        grid.run(&Sim, 1, &AtomicBool::new(false), &|_| {}).unwrap()
    }

    #[test]
    fn runs_one_by_one_give_what_the_lab_gives_in_one() {
        let mut session = Session::default();
        let planned = ask(&mut session, wish(&[]));
        let command = "hoistway compare latency-2019 --config 'none,bfq{slice_idle=0}' --drive plextor-px-256m5s \
                       --workload readers --reps 2 --seed 7 --duration '1s'";
        assert_eq!(planned["done"]["command"], command);
        let early = ask(&mut session, json!({"ask": "report"}));
        assert!(early["error"]["text"].is_string(), "not all have run: {early}");
        // The first repetition of each comes first, so that there is something to compare.
        for (run, config, reps) in [(0, 0, 1), (2, 1, 1), (1, 0, 2), (3, 1, 2)] {
            let ran = ask(&mut session, json!({"ask": "run", "run": run}));
            assert_eq!(
                (&ran["done"]["config"], &ran["done"]["live"]["reps"]),
                (&json!(config), &json!(reps))
            );
            assert_eq!(ran["done"]["step"], 0.5);
        }
        let report = ask(&mut session, json!({"ask": "report"}));
        let run = alone();
        assert_eq!(report["done"]["metrics"], metrics_csv(&[&run]));
        assert_eq!(report["done"]["html"], html::render(&run));
    }

    #[test]
    fn errors_name_their_field() {
        let mut session = Session::default();
        for (field, value, text) in [
            ("reps", json!("0"), "reps: '0' is not a whole number from 1 to 10000"),
            ("seed", json!("-1"), "seed: '-1' is not a whole number from 0 to 4611686018427387904"),
            ("duration", json!("3 weeks"), "--duration: "),
            (
                "configs",
                json!(["bfq{slice_idle=x}"]),
                "configuration 'bfq{slice_idle=x}': slice_idle = ",
            ),
            ("configs", json!(["bfq", "bfq"]), "configuration 'bfq' is given twice"),
            ("drive", json!("plextr"), "no drive 'plextr'"),
            (
                "workload",
                json!("reader"),
                "latency-2019 has no workload 'reader'; did you mean 'readers'?",
            ),
        ] {
            let said = ask(&mut session, wish(&[(field, value)]));
            let error = &said["error"];
            assert_eq!(error["field"], field, "{said}");
            assert!(error["text"].as_str().unwrap().starts_with(text), "{said}");
        }
        let said = ask(&mut session, json!({"ask": "run", "run": 0}));
        assert_eq!(said["error"]["text"], "nothing is planned");
    }
}
