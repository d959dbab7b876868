//! Goals: what is asked of a configuration, as limits that it must keep and criteria in their order.
//!
//! A goal is a list, not a score: nobody can say how many milliseconds of a start-up a megabyte per second
//! is worth, but most can say which of the two comes first, and what may not be lost for it. *Limits* rule
//! configurations out. *Criteria* are gone through in order: of each, those remain that lie within its
//! *tolerance* of the best; the next one chooses among these. What remains at the end is equally good for
//! this goal, and the configuration that is there already stays, or the simplest is taken.
//!
//! Numbers, and why: a fifth longer is about the least that people notice of a wait, so that is the
//! tolerance where a person waits; a server's figures are read by programs and added up, a tenth. Of
//! throughput, what counts as different at all (5 % on real drives, 3 % in the simulator). Beside somebody
//! who waits, a loss of throughput is the price of serving him. A server's readers never stop, so of theirs a quarter may
//! go. On a desktop the price is paid while he waits and no longer, and a wait that is shorter is paid for shorter, so
//! the limit is on what the others lose in the time that his wait takes *now* ([`Limit::Others`]): with a wait g times as
//! short, in which the others get the part k of what they get now, they keep `1 - (1 - k) / g` of it. That is to be
//! 90 %, as of throughput elsewhere. BFQ on a disk serves a reader a hundred times sooner and nearly stops the
//! others meanwhile, and they keep 99 %; on a device where nobody would wait long anyway, who stops the others to
//! serve him three times sooner keeps two thirds.

use crate::result::Kind;
use hoistway::quantity;
use std::fmt;

/// One thing that a workload tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Aspect {
    /// Mean time of the starts.
    Startup,
    /// Mean latency of a target that somebody waits for.
    Interactive,
    /// Its 99th percentile.
    InteractiveTail,
    /// Mean latency of small synced writes.
    Sync,
    /// Its 99th percentile.
    SyncTail,
    /// What all processes of a mix move.
    Throughput,
    /// What the device moves in all beside somebody who waits.
    Beside,
    /// What all move where shares are measured.
    Shared,
    /// What the worst served process lacks of what it is entitled to.
    Share,
    /// Processor time per request.
    Processor,
}

impl Aspect {
    /// Every one, in the order of printing.
    pub const ALL: [Aspect; 10] = [
        Aspect::Startup,
        Aspect::Interactive,
        Aspect::InteractiveTail,
        Aspect::Sync,
        Aspect::SyncTail,
        Aspect::Throughput,
        Aspect::Beside,
        Aspect::Share,
        Aspect::Shared,
        Aspect::Processor,
    ];

    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Aspect::Startup => "start-up time",
            Aspect::Interactive => "latency",
            Aspect::InteractiveTail => "latency, 99th percentile",
            Aspect::Sync => "synced writes",
            Aspect::SyncTail => "synced writes, 99th percentile",
            Aspect::Throughput => "throughput",
            Aspect::Beside => "throughput beside waiting",
            Aspect::Share => "share lacking",
            Aspect::Shared => "throughput while sharing",
            Aspect::Processor => "processor time",
        }
    }

    /// Does a workload of this kind tell it?
    pub fn of(self, kind: Kind) -> bool {
        match self {
            Aspect::Startup => kind == Kind::Startup,
            Aspect::Interactive | Aspect::InteractiveTail => kind == Kind::Interactive,
            Aspect::Sync | Aspect::SyncTail => kind == Kind::Sync,
            Aspect::Throughput => kind == Kind::Throughput,
            Aspect::Beside => matches!(kind, Kind::Startup | Kind::Interactive | Kind::Sync),
            Aspect::Share | Aspect::Shared => kind == Kind::Share,
            Aspect::Processor => kind == Kind::Throughput,
        }
    }

    /// More is better.
    pub fn rises(self) -> bool {
        matches!(self, Aspect::Throughput | Aspect::Beside | Aspect::Shared)
    }

    /// Somebody waits for it.
    pub fn is_wait(self) -> bool {
        use Aspect::{Interactive, InteractiveTail, Startup, Sync, SyncTail};
        matches!(self, Startup | Interactive | InteractiveTail | Sync | SyncTail)
    }

    /// Compared by differences rather than ratios: it may be 0.
    pub fn is_part(self) -> bool {
        self == Aspect::Share
    }

    /// The mean that stands for a percentile where samples are few.
    pub fn mean(self) -> Option<Aspect> {
        match self {
            Aspect::InteractiveTail => Some(Aspect::Interactive),
            Aspect::SyncTail => Some(Aspect::Sync),
            _ => None,
        }
    }

    /// What stands for the mean where there are samples enough.
    fn tail(self) -> Option<Aspect> {
        match self {
            Aspect::Interactive => Some(Aspect::InteractiveTail),
            Aspect::Sync => Some(Aspect::SyncTail),
            _ => None,
        }
    }
}

/// What decides between those that are left.
#[derive(Clone, Debug, PartialEq)]
pub struct Criterion {
    /// In words.
    pub name: &'static str,
    /// What it is made of; each that was measured weighs the same.
    pub aspects: Vec<Aspect>,
    /// Take the 99th percentile where every run has enough samples for it.
    pub tails: bool,
    /// So much worse than the best is as good, as a part; `None`: what counts as different at all.
    pub tolerance: Option<f64>,
}

impl Criterion {
    fn new(name: &'static str, aspects: &[Aspect], tolerance: Option<f64>) -> Criterion {
        Criterion { name, aspects: aspects.to_vec(), tails: false, tolerance }
    }

    /// The aspects to look at, given which have values.
    pub fn measured(&self, has: &dyn Fn(Aspect) -> bool) -> Vec<Aspect> {
        let pick = |&a: &Aspect| match a.tail().filter(|&t| self.tails && has(t)) {
            Some(tail) => Some(tail),
            None => has(a).then_some(a),
        };
        self.aspects.iter().filter_map(pick).collect()
    }
}

/// What a configuration must keep.
#[derive(Clone, Debug, PartialEq)]
pub enum Limit {
    /// Of the best configuration's throughput, at least this part.
    Keeps {
        /// Throughput of mixes, or beside somebody who waits.
        aspect: Aspect,
        /// The part.
        part: f64,
    },
    /// In every workload where somebody waits, the latency stays below this, nanoseconds.
    Below(u64),
    /// In every workload where somebody waits, the others keep at least this part of what they move under the present
    /// configuration in the time that the wait takes there.
    Others {
        /// The part.
        part: f64,
    },
}

/// What is asked.
#[derive(Clone, Debug, PartialEq)]
pub struct Goal {
    /// As given on the command line.
    pub name: String,
    /// What it asks for, one line.
    pub about: String,
    /// What must be kept.
    pub limits: Vec<Limit>,
    /// What decides, in order.
    pub criteria: Vec<Criterion>,
}

/// Names of the goals without a number, in the order of documentation.
pub const GOALS: [&str; 4] = ["desktop", "server", "throughput", "share"];

/// What people do not notice of a wait.
const UNNOTICED: f64 = 0.2;
/// What a desktop keeps of throughput, whatever it gains for it.
const KEPT: f64 = 0.9;
/// What does not count among figures of a server.
const UNCOUNTED: f64 = 0.1;
/// Parts of what somebody is entitled to: what counts as an error of a share.
const SHARE: f64 = 0.05;

impl Goal {
    /// By its word: one of [`GOALS`], or `latency<TIME`.
    ///
    /// # Errors
    ///
    /// What is wrong, and what there is.
    pub fn parse(text: &str) -> Result<Goal, GoalError> {
        let text: String = text.chars().filter(|c| !c.is_whitespace()).collect();
        if let Some(time) = text.strip_prefix("latency<") {
            let ns = quantity::duration(time).map_err(|e| GoalError(format!("'{text}': {e}")))?;
            if ns.0 == 0 {
                return Err(GoalError(format!("'{text}': the latency must be above 0")));
            }
            return Ok(Goal::below(&text, time, ns.0));
        }
        match text.as_str() {
            "desktop" => Ok(Goal::desktop()),
            "server" => Ok(Goal::server()),
            "throughput" => Ok(Goal::throughput()),
            "share" => Ok(Goal::share()),
            _ => Err(GoalError(format!(
                "no goal '{text}'; there are: {}, latency<TIME (such as 'latency<5ms')",
                GOALS.join(", ")
            ))),
        }
    }

    fn desktop() -> Goal {
        Goal {
            name: "desktop".into(),
            about: "short waits first (applications start, single reads and writes come back), then small synced writes, then throughput".into(),
            limits: vec![
                Limit::Keeps { aspect: Aspect::Throughput, part: KEPT },
                Limit::Others { part: KEPT },
            ],
            criteria: vec![
                Criterion::new("waiting", &[Aspect::Startup, Aspect::Interactive], Some(UNNOTICED)),
                Criterion::new("synced writes", &[Aspect::Sync], Some(UNNOTICED)),
                Criterion::new("throughput", &[Aspect::Throughput], None),
            ],
        }
    }

    fn server() -> Goal {
        let latency = [Aspect::Interactive, Aspect::Sync];
        Goal {
            name: "server".into(),
            about: "low latency of readers and synced writers, by the 99th percentile where there are samples enough, at nearly full throughput".into(),
            limits: vec![
                Limit::Keeps { aspect: Aspect::Throughput, part: 0.95 },
                Limit::Keeps { aspect: Aspect::Beside, part: 0.75 },
            ],
            criteria: vec![
                Criterion { tails: true, ..Criterion::new("latency", &latency, Some(UNCOUNTED)) },
                Criterion::new("throughput", &[Aspect::Throughput], None),
                Criterion::new("start-up", &[Aspect::Startup], Some(UNCOUNTED)),
            ],
        }
    }

    fn throughput() -> Goal {
        let waits = [Aspect::Startup, Aspect::Interactive, Aspect::Sync];
        Goal {
            name: "throughput".into(),
            about: "as much as the drive can move; latency decides only between equals".into(),
            limits: Vec::new(),
            criteria: vec![
                Criterion::new("throughput", &[Aspect::Throughput, Aspect::Beside], None),
                Criterion::new("waiting", &waits, Some(UNNOTICED)),
            ],
        }
    }

    fn share() -> Goal {
        Goal {
            name: "share".into(),
            about: "everybody near the part that its weight entitles it to; throughput decides between equals".into(),
            limits: Vec::new(),
            criteria: vec![
                Criterion::new("shares", &[Aspect::Share], Some(SHARE)),
                Criterion::new("throughput", &[Aspect::Shared], None),
            ],
        }
    }

    fn below(name: &str, time: &str, ns: u64) -> Goal {
        let waits = [Aspect::Interactive, Aspect::Sync];
        Goal {
            name: name.into(),
            about: format!(
                "every read and synced write below {time} (99th percentile, or the mean where samples are few), then throughput"
            ),
            limits: vec![Limit::Below(ns)],
            criteria: vec![
                Criterion::new("throughput", &[Aspect::Throughput, Aspect::Beside], None),
                Criterion { tails: true, ..Criterion::new("latency", &waits, Some(UNCOUNTED)) },
            ],
        }
    }

    /// Everything that it asks about, by means and tails.
    pub fn aspects(&self) -> Vec<Aspect> {
        let of_limit = |limit: &Limit| match limit {
            Limit::Keeps { aspect, .. } => vec![*aspect],
            Limit::Below(_) => vec![Aspect::Interactive, Aspect::Sync],
            Limit::Others { .. } => vec![Aspect::Beside],
        };
        let criteria = self.criteria.iter().flat_map(|c| c.aspects.clone());
        criteria.chain(self.limits.iter().flat_map(of_limit)).collect()
    }

    /// Without a value of any of these nothing can be said.
    pub fn needs(&self) -> Vec<Aspect> {
        match self.limits.first() {
            Some(Limit::Below(_)) => vec![Aspect::Interactive, Aspect::Sync],
            _ => self.criteria[0].aspects.clone(),
        }
    }
}

/// A goal that does not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GoalError(pub String);

impl fmt::Display for GoalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for GoalError {}
