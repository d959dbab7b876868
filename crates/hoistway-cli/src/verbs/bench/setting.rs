//! What is benched, and in which world.

use super::Bench;
use crate::common::lists::chosen;
use crate::failure::Failure;
use hoistway_lab::bench::plan::{BenchSubject, Level};
use hoistway_lab::bench::subject;
use hoistway_lab::bench::suite::{SUITE, Under};
use hoistway_lab::config::{Config, WBT, throttled};
use hoistway_lab::experiment::Experiment;
use hoistway_lab::world::{Sim, World, WorldError};
use hoistway_sim::drive::DriveFile;
use hoistway_sim::world::Job;
use std::path::{Path, PathBuf};

/// A place and the world that runs on it.
#[derive(Debug)]
pub struct Setting {
    pub world: Box<dyn World>,
    pub subject: BenchSubject,
    /// What people call it: part of the folder's name.
    pub name: String,
    /// What it was called on the command line.
    pub named: String,
    /// Names it for good: finished runs of another place are not reused.
    pub target: String,
    /// Lines about it, for the plan.
    pub about: Vec<String>,
    /// What is in force, as a configuration.
    pub present: String,
    /// Configurations that are compared when none are named.
    pub configs: Vec<String>,
    /// Those that cannot run here, and why.
    pub lacks: Vec<(String, String)>,
    /// Rows for the manifests.
    pub rows: Vec<(String, String)>,
    /// The rights to run are there.
    pub root: bool,
    /// Rates are those of its class: a run measures them first.
    pub assumed: bool,
}

/// What is compared beside the schedulers when there is time: BFQ as its documentation advises for servers, io.cost for
/// the whole device.
pub fn also(level: Level) -> Vec<String> {
    let names: &[&str] = match level {
        Level::Quick => &[],
        Level::Standard | Level::Full => &["bfq{low_latency=0}", "cost-none"],
    };
    names.iter().map(|c| (*c).to_string()).collect()
}

/// io.max with a sixteenth of these rates (bytes per second) for each process, where there is time for it.
pub fn limited(level: Level, read: u64, write: u64, throttles: bool) -> Option<String> {
    let part = |rate: u64| (rate / 16 / 1_000_000).max(1);
    let id = format!("max-none{{rbps={}MB/s,wbps={}MB/s}}", part(read), part(write));
    (level != Level::Quick).then(|| named(&id, throttles))
}

/// A scheduler as a kernel has it that throttles write-back or does not.
pub fn named(scheduler: &str, throttles: bool) -> String {
    if throttles { throttled(scheduler) } else { scheduler.to_string() }
}

/// What is compared where shares are: what is in force beside what shares. `present`: a configuration.
pub fn share_configs(present: &str) -> Vec<String> {
    let part = SUITE.iter().find(|p| p.configs == Under::Shares);
    let part = part.expect("the suite compares shares");
    let experiment = Experiment::load(part.experiment).expect("an embedded experiment");
    let shares = |id: &String| Config::parse(id).is_ok_and(|c| c.groups);
    let present = Config::parse(present).map_or_else(|_| "none".into(), |c| c.id);
    std::iter::once(present).chain(experiment.configs.into_iter().filter(shares)).collect()
}

/// Where results go when nothing else is said.
pub fn usual_place(world: &str, name: &str, level: Level) -> PathBuf {
    PathBuf::from("runs").join(format!("bench.{world}.{name}.{}", level.name()))
}

/// Schedulers that a distribution's kernel has.
pub const USUAL: &[&str] = &["none", "mq-deadline", "kyber", "bfq"];

impl Setting {
    /// A place, or every drive that is named.
    pub fn choose(options: &Bench) -> Result<Vec<Setting>, Failure> {
        let all: Vec<String> = DriveFile::ids().into_iter().map(String::from).collect();
        let named = match chosen(&options.drive, &[], "drive")? {
            named if named == ["all"] => all,
            named => named,
        };
        match &options.place {
            _ if !named.is_empty() => {
                let settings: Vec<Setting> =
                    named.iter().map(|name| simulated(name, options.level())).collect::<Result<_, _>>()?;
                let twice = settings.iter().enumerate().find(|(i, s)| settings[..*i].iter().any(|o| o.name == s.name));
                match twice {
                    Some((_, s)) => {
                        Err(Failure::Usage(format!("two drive files have the name '{}'; rename one", s.name)))
                    }
                    None => Ok(settings),
                }
            }
            Some(path) => Ok(vec![real(options, path)?]),
            None => Err(Failure::Usage(
                "what is to be benched? name a directory or a device, or a simulated drive with --drive (`hoistway list \
                 drives`)"
                    .into(),
            )),
        }
    }

    /// What the world says to a job of the plan. Without the rights it would say nothing but that.
    pub fn check(&self, job: &Job<'_>) -> Result<(), WorldError> {
        if !self.root {
            return Ok(());
        }
        // The world knows the flags of `compare`.
        let here = |what: String| {
            what.replace("use --target-dir with a file system on it", "bench a directory instead")
                .replace("or use --target-dir", "or bench a directory")
        };
        self.world.check(std::slice::from_ref(job)).map_err(|error| match error {
            WorldError::Usage(what) => WorldError::Usage(here(what)),
            error => error,
        })
    }

    /// The configurations that are compared where shares are, of those that can run here. Where configurations were
    /// named, those of them that share or are a scheduler alone, whether they throttle write-back or not.
    pub fn shares(&self, configs: &[Config], given: bool) -> Vec<Config> {
        let lacks = |id: &str| self.lacks.iter().any(|(of, _)| of == id);
        let all = share_configs(&self.present);
        let parse = |id: &String| Config::parse(id).expect("names that were parsed before");
        if !given {
            return all.iter().filter(|id| !lacks(id)).map(parse).collect();
        }
        let bare = |id: &str| id.strip_suffix(WBT).unwrap_or(id).to_string();
        let known = |id: &str| id == "none" || all.iter().any(|other| bare(other) == id);
        let of = |c: &&Config| known(&bare(&c.id));
        configs.iter().filter(of).cloned().collect()
    }

    /// Where results go when nothing else is said.
    pub fn usual_place(&self, level: Level) -> PathBuf {
        usual_place(self.world.name(), &self.name, level)
    }
}

#[cfg(all(feature = "live", target_os = "linux"))]
fn real(options: &Bench, path: &Path) -> Result<Setting, Failure> {
    super::kernel::setting(options, path)
}

#[cfg(not(all(feature = "live", target_os = "linux")))]
fn real(_options: &Bench, path: &Path) -> Result<Setting, Failure> {
    Err(Failure::Usage(format!(
        "{}: this program was built without access to real storage; build it on Linux with the feature `live` (cargo \
         build --release -p hoistway-cli), or name a simulated drive with --drive",
        path.display()
    )))
}

fn simulated(name: &str, level: Level) -> Result<Setting, Failure> {
    let drive = DriveFile::load(name).map_err(|e| Failure::Usage(e.to_string()))?;
    let present = throttled(subject::usual_scheduler(&drive));
    let about = vec![
        format!("{}: a simulated drive; time is virtual", drive.name),
        format!("compared with {present}, which Linux chooses for such a drive"),
    ];
    let subject = subject::simulated(&drive);
    let limited = limited(level, subject.rates.read, subject.rates.write, true);
    let usual = USUAL.iter().map(|c| throttled(c));
    Ok(Setting {
        world: Box::new(Sim),
        subject,
        name: drive.id.clone(),
        named: name.to_string(),
        // All its parameters: a drive file that was changed is another drive.
        target: format!("{}\n{}", drive.id, drive.table),
        about,
        configs: usual.chain(also(level)).chain(limited).collect(),
        present,
        lacks: Vec::new(),
        root: true,
        assumed: false,
        rows: subject::rows_of(&drive),
    })
}
