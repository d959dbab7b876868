//! What an experiment judges configurations by. Tables, verdicts and warnings follow it.

use super::startup::Startups;
use super::{Cell, Manifest, counts, target};
use serde::{Deserialize, Serialize};

/// The quantity that decides between configurations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Judge {
    /// Mean latency of the target: less is better.
    Latency,
    /// What each process gets of what it is entitled to: nobody far below is better.
    Share,
    /// What the device moves, and how evenly the processes share it: more is better.
    Throughput,
    /// How long an application takes to start: less is better.
    Startup,
    /// What the target's load counts: its first count that is better high or low.
    Count,
}

impl Judge {
    /// Every one, in the order of the documentation.
    pub const ALL: [Judge; 5] =
        [Judge::Latency, Judge::Share, Judge::Throughput, Judge::Startup, Judge::Count];

    /// The word in experiment files.
    pub fn name(self) -> &'static str {
        match self {
            Judge::Latency => "latency",
            Judge::Share => "share",
            Judge::Throughput => "throughput",
            Judge::Startup => "startup",
            Judge::Count => "count",
        }
    }

    /// By its word.
    pub fn find(name: &str) -> Option<Judge> {
        Judge::ALL.into_iter().find(|j| j.name() == name)
    }

    /// What the cells of one drive and workload are judged by: what the experiment declares, and
    /// without a word of it what their records have: starts, counts or latencies of a target, throughput.
    pub fn of<'a>(manifest: &Manifest, cells: impl IntoIterator<Item = &'a Cell> + Clone) -> Judge {
        if let Some(declared) = manifest.judge {
            return declared;
        }
        let any = |has: &dyn Fn(&Cell) -> bool| cells.clone().into_iter().any(has);
        if any(&|c| Startups::of(&c.reps).is_some()) {
            Judge::Startup
        } else if any(&|c| counts::decisive(c).is_some()) {
            Judge::Count
        } else if any(&|c| c.reps.iter().any(|rep| target(rep).is_some())) {
            Judge::Latency
        } else {
            Judge::Throughput
        }
    }
}
