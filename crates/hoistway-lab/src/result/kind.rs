//! What a workload stands for among the things that people and servers notice: the word that an experiment
//! gives it, by which `hoistway recommend` knows which goals it counts for.

use super::Judge;
use serde::{Deserialize, Serialize};

/// What is noticed of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// An application starts: how long that takes.
    Startup,
    /// Somebody waits for single reads or writes while others keep the drive busy: how long each takes.
    Interactive,
    /// A small synced write beside a large copy, as of a database, a mail server, an editor: how long it takes.
    Sync,
    /// Several processes move what they can: how much all of them move.
    Throughput,
    /// Several processes are entitled to parts: how near they come to them.
    Share,
}

impl Kind {
    /// Every one, in the order of the documentation.
    pub const ALL: [Kind; 5] =
        [Kind::Startup, Kind::Interactive, Kind::Sync, Kind::Throughput, Kind::Share];

    /// The word in experiment files.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Startup => "startup",
            Kind::Interactive => "interactive",
            Kind::Sync => "sync",
            Kind::Throughput => "throughput",
            Kind::Share => "share",
        }
    }

    /// By its word.
    pub fn find(name: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|k| k.name() == name)
    }

    /// What a workload of an experiment that says nothing stands for: what it is judged by. `None` for counts,
    /// whose unit is the load's own.
    pub fn of_judge(judge: Judge) -> Option<Kind> {
        match judge {
            Judge::Startup => Some(Kind::Startup),
            Judge::Latency => Some(Kind::Interactive),
            Judge::Throughput => Some(Kind::Throughput),
            Judge::Share => Some(Kind::Share),
            Judge::Count => None,
        }
    }
}
