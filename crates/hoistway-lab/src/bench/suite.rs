//! The suite: which workloads of which experiments, in order of importance.
//!
//! The experiments are ordinary embedded files (`experiments/bench-*.toml`), so that each can be run alone with
//! `hoistway compare bench-latency`, in every world. What stands here is what a file cannot say: which workload
//! goes first when the time does not suffice for all of them, and how long a run is measured.

use crate::experiment::EMBEDDED;
use crate::recommend::goal::Aspect;
use hoistway::Nanos;

/// Version of the suite: results of different versions are not put together.
pub const VERSION: u32 = 1;

/// One workload of the suite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Id of the experiment.
    pub experiment: &'static str,
    /// Id of the workload in it.
    pub workload: &'static str,
    /// What it answers, in a few words.
    pub question: &'static str,
    /// It writes for as long as it runs.
    pub writes: bool,
    /// How long a run lasts.
    pub time: Time,
    /// Under which configurations it runs.
    pub configs: Under,
}

impl Part {
    /// What it tells a goal.
    pub fn tells(&self) -> &'static [Aspect] {
        match self.experiment {
            "bench-latency" => &[Aspect::Interactive, Aspect::Sync],
            "bench-startup" => &[Aspect::Startup],
            "bench-fsync" => &[Aspect::Sync],
            "bench-throughput" => &[Aspect::Throughput],
            _ => &[Aspect::Share],
        }
    }

    /// As results name it.
    pub fn place(&self) -> String {
        format!("{}/{}", self.experiment, self.workload)
    }
}

/// How long a run of a part is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Time {
    /// So long as the level says.
    Level,
    /// Until it has ended by itself, at most so long on flash and on disks.
    Limit(Nanos, Nanos),
}

/// Which configurations a part compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Under {
    /// Those of the bench.
    Whole,
    /// Those of the experiment's own list: the ones that share by the weights of groups.
    Shares,
}

const fn part(experiment: &'static str, workload: &'static str, question: &'static str) -> Part {
    Part { experiment, workload, question, writes: false, time: Time::Level, configs: Under::Whole }
}

/// A start ends by itself after a fraction of a second, or is cut off by the end of the run.
const START: Time = Time::Limit(Nanos::secs(6), Nanos::secs(8));

/// Every part, the most important first: what people feel, what servers need, what the drive delivers, then the same
/// questions under other loads.
pub static SUITE: &[Part] = &[
    part("bench-latency", "readers", "a random read beside sequential readers"),
    Part {
        writes: true,
        time: START,
        ..part("bench-startup", "bash+mixed", "a command starts beside readers and writers")
    },
    Part { writes: true, ..part("bench-fsync", "fsync+copy", "fsync of 4 KiB beside a copy") },
    Part { writes: true, ..part("bench-throughput", "mixed", "throughput of a mix") },
    Part {
        writes: true,
        ..part("bench-latency", "writers", "a random read beside buffered writers")
    },
    part("bench-throughput", "random", "random reads, 128 in flight"),
    Part { configs: Under::Shares, ..part("bench-share", "weights", "shares by weight, 1 : 3") },
    Part {
        writes: true,
        ..part("bench-latency", "synced", "a random read beside fdatasync writers")
    },
    Part {
        time: START,
        ..part("bench-startup", "bash+readers", "a command starts beside readers")
    },
    part("bench-throughput", "sequential", "sequential throughput"),
];

/// What stands in manifests: version, and a digest of the experiments and of this table.
pub fn name() -> String {
    format!("{VERSION} ({:08x})", digest())
}

/// FNV-1a, 64 bits, folded.
fn digest() -> u32 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut add = |text: &str| {
        for byte in text.bytes().chain([0]) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    };
    for (id, text) in EMBEDDED.iter().filter(|(id, _)| SUITE.iter().any(|p| p.experiment == *id)) {
        add(id);
        add(text);
    }
    for part in SUITE {
        add(&format!("{part:?}"));
    }
    (hash >> 32) as u32 ^ hash as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::experiment::Experiment;
    use hoistway_sim::drive::DriveFile;
    use hoistway_sim::load::LOADS;

    #[test]
    fn every_part_is_a_workload_and_every_workload_a_part() {
        for id in Experiment::ids().filter(|id| id.starts_with("bench-")) {
            let e = Experiment::load(id).unwrap();
            let parts: Vec<&str> =
                SUITE.iter().filter(|p| p.experiment == id).map(|p| p.workload).collect();
            assert_eq!(parts.len(), e.default_workloads.len(), "{id}");
            assert!(e.default_workloads.iter().all(|w| parts.contains(&w.as_str())), "{id}");
        }
    }

    #[test]
    fn parts_that_write_say_so() {
        let drive = DriveFile::load("plextor-px-256m5s").unwrap();
        for part in SUITE {
            let e = Experiment::load(part.experiment).unwrap();
            let workload = e.workload(part.workload).unwrap();
            let config = Config::parse("none").unwrap();
            let job = e.job(&drive, workload, &config, 1, &Default::default()).unwrap();
            let writes = |load: &str| LOADS.iter().any(|l| l.name == load && l.writes);
            assert_eq!(part.writes, job.procs.iter().any(|p| writes(&p.load)), "{part:?}");
        }
    }
}
