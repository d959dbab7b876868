//! What is benched, in which world, and what is asked of it.

use super::plan::{BenchRequest, BenchSubject, Level};
use super::subject;
use super::suite::{SUITE, Under};
use crate::config::{Config, WBT, throttled};
use crate::experiment::Experiment;
use crate::grid::chosen;
use crate::registry::Registry;
use crate::world::{Sim, World, WorldError};
use hoistway::{Nanos, quantity};
use hoistway_sim::drive::{DriveFile, DriveFileError};
use hoistway_sim::world::Job;
use std::path::PathBuf;

/// A place and the world that runs on it.
#[derive(Debug)]
pub struct Setting {
    /// The world.
    pub world: Box<dyn World>,
    /// The drive, and what its runs cost beside their time.
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

/// A simulated drive.
///
/// # Errors
///
/// As of [`DriveFile::load`].
pub fn simulated(name: &str, level: Level) -> Result<Setting, DriveFileError> {
    let drive = DriveFile::load(name)?;
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

/// What is asked of a bench, as people write it.
#[derive(Clone, Debug)]
pub struct BenchAsked {
    /// Directory or block device; `None`: a simulated drive.
    pub place: Option<PathBuf>,
    /// How thorough.
    pub level: Level,
    /// Time for all of it, with its unit; `None`: the level's.
    pub time: Option<String>,
    /// Bytes that may be written, with their unit; `None`: the level's.
    pub writes: Option<String>,
    /// Rounds; `None`: as many as the time allows.
    pub rounds: Option<u32>,
    /// Configurations; none: those of the place.
    pub configs: Vec<String>,
    /// First seed; round r has seed + r - 1.
    pub seed: u64,
    /// The device that may lose its data.
    pub destroy: Option<PathBuf>,
    /// What names of configurations stand for.
    pub registry: Registry,
}

impl BenchAsked {
    /// What a plan is made from.
    ///
    /// # Errors
    ///
    /// A value out of its range, a configuration that is not known or stands there twice.
    pub fn request(&self, setting: &Setting) -> Result<BenchRequest, String> {
        let wrong = |flag: &str, e: &dyn std::fmt::Display| format!("{flag}: {e}");
        let time = match &self.time {
            None => None,
            Some(text) => {
                let time = quantity::duration(text).map_err(|e| wrong("--time", &e))?;
                if time.0 == 0 || time > TIME_MAX {
                    let what = format!("{text} must be above 0 and at most 24h");
                    return Err(wrong("--time", &what));
                }
                Some(time)
            }
        };
        let writes = self.writes.as_ref().map(|text| quantity::bytes(text)).transpose();
        let writes = writes.map_err(|e| wrong("--write-budget", &e))?;
        let mut configs: Vec<Config> = Vec::new();
        for text in
            chosen(&self.configs, &setting.configs, "configuration").map_err(|e| e.to_string())?
        {
            let config = self.registry.config(&text).map_err(|e| e.to_string())?;
            if configs.iter().any(|c| c.id == config.id) {
                return Err(format!("configuration '{}' is given twice", config.id));
            }
            if configs.len() == CONFIGS_MAX {
                return Err(format!("--config: at most {CONFIGS_MAX} configurations"));
            }
            // The plan says why.
            if !setting.lacks.iter().any(|(id, _)| *id == config.id) {
                configs.push(config);
            }
        }
        let given = !self.configs.is_empty();
        Ok(BenchRequest {
            level: self.level,
            time,
            writes,
            rounds: self.rounds,
            shares: setting.shares(&configs, given),
            configs,
            seed: self.seed,
        })
    }

    /// The command without what does not change the plan: rounds are added to it, and the folder is the one that is there.
    pub fn command(&self, setting: &Setting) -> String {
        let word = |text: &str| {
            let plain = |c: char| c.is_ascii_alphanumeric() || "-._,:/".contains(c);
            if text.chars().all(plain) { text.to_string() } else { format!("'{text}'") }
        };
        let mut out = "hoistway bench".to_string();
        let mut flag = |name: &str, value: &str| {
            out +=
                &format!(" {name}{}", if value.is_empty() { String::new() } else { word(value) });
        };
        match &self.place {
            Some(place) => flag("", &place.display().to_string()),
            None => flag("--drive ", &setting.named),
        }
        if self.level != Level::Quick {
            flag(&format!("--{}", self.level.name()), "");
        }
        for (name, value) in [("--time ", &self.time), ("--write-budget ", &self.writes)] {
            value.iter().for_each(|v| flag(name, v));
        }
        if !self.configs.is_empty() {
            flag("--config ", &self.configs.join(","));
        }
        if self.seed != 1 {
            flag("--seed ", &self.seed.to_string());
        }
        if let Some(device) = &self.destroy {
            flag("--yes-destroy-data ", &device.display().to_string());
        }
        out
    }
}

/// Longest `--time`.
const TIME_MAX: Nanos = Nanos::secs(86_400);
/// More than anybody has time for.
const CONFIGS_MAX: usize = 32;
