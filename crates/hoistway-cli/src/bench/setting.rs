//! What is benched, and in which world.

use super::{Bench, share_configs};
use crate::Failure;
use hoistway_lab::bench::plan::{Level, Subject};
use hoistway_lab::bench::subject;
use hoistway_lab::config::Config;
use hoistway_lab::world::{Sim, World, WorldError};
use hoistway_sim::drive::DriveFile;
use hoistway_sim::world::Job;
use std::path::{Path, PathBuf};

/// A place and the world that runs on it.
#[derive(Debug)]
pub struct Setting {
    pub world: Box<dyn World>,
    pub subject: Subject,
    /// What people call it: part of the folder's name.
    pub name: String,
    /// Names it for good: finished runs of another place are not reused.
    pub target: String,
    /// Lines about it, for the plan.
    pub about: Vec<String>,
    /// Configurations that are compared when none are named.
    pub configs: Vec<String>,
    /// Those that cannot run here, and why.
    pub lacks: Vec<(String, String)>,
    /// Rows for the manifests.
    pub rows: Vec<(String, String)>,
    /// The rights to run are there.
    pub root: bool,
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
pub fn limited(level: Level, read: u64, write: u64) -> Option<String> {
    let part = |rate: u64| (rate / 16 / 1_000_000).max(1);
    let id = format!("max-none{{rbps={}MB/s,wbps={}MB/s}}", part(read), part(write));
    (level != Level::Quick).then_some(id)
}

/// Where results go when nothing else is said.
pub fn usual_place(world: &str, name: &str, level: Level) -> PathBuf {
    PathBuf::from("runs").join(format!("bench.{world}.{name}.{}", level.name()))
}

/// Schedulers that a distribution's kernel has.
pub const USUAL: &[&str] = &["none", "mq-deadline", "kyber", "bfq"];

impl Setting {
    pub fn choose(options: &Bench) -> Result<Setting, Failure> {
        match (&options.place, &options.drive) {
            (_, Some(name)) => simulated(name, options.level()),
            (Some(path), _) => real(options, path),
            (None, None) => Err(Failure::Usage(
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

    /// The configurations that are compared where shares are: of the experiment's own those that can run here. Where
    /// configurations were named, only those of them.
    pub fn shares(&self, configs: &[Config], given: bool) -> Vec<Config> {
        let lacks = |id: &str| self.lacks.iter().any(|(of, _)| of == id);
        let of = share_configs().into_iter().filter(|id| !lacks(id));
        let of = of.filter(|id| !given || configs.iter().any(|c| c.id == *id));
        let parse =
            |id: String| Config::parse(&id).expect("an embedded experiment names configurations");
        of.map(parse).collect()
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
    let about = vec![format!("{}: a simulated drive; time is virtual", drive.name)];
    let subject = subject::simulated(&drive);
    let limited = limited(level, subject.rates.read, subject.rates.write);
    Ok(Setting {
        world: Box::new(Sim),
        subject,
        name: drive.id.clone(),
        // All its parameters: a drive file that was changed is another drive.
        target: format!("{}\n{}", drive.id, drive.table),
        about,
        configs: USUAL.iter().map(|c| (*c).to_string()).chain(also(level)).chain(limited).collect(),
        lacks: Vec::new(),
        root: true,
        rows: subject::rows_of(&drive),
    })
}
