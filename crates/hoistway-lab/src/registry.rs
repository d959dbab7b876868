//! What names stand for: a value that experiments, configurations and plans are read with.
//!
//! [`Registry::shipped`] knows what the program ships. A program that brings a scheduler, a drive or an experiment of its
//! own adds it to a copy; two copies in one process do not see each other's.
//!
//! ```
//! use hoistway_lab::grid::Plan;
//! use hoistway_lab::registry::Registry;
//! use hoistway_sim::drive::DriveFile;
//!
//! let mut registry = Registry::default();
//! let text = "schema = 1\nname = \"ours\"\nbase = \"null-block\"\n";
//! registry.add_drive(DriveFile::parse("ours.toml", text)?)?;
//!
//! let plan = Plan::of(registry.experiment("latency-2019")?).registry(&registry).drives(["ours"]);
//! let grid = plan.configs(["bfq{low_latency=0}"]).grid(&mut |warning| eprintln!("warning: {warning}"))?;
//! assert_eq!(grid.drives[0].id, "ours");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use crate::config::{Config, ConfigError};
use crate::experiment::{Experiment, ExperimentError};
use hoistway::sched::{Entry, SCHEDULERS};
use hoistway_sim::drive::{DriveFile, DriveFileError};
use std::fmt;
use std::sync::LazyLock;

/// Schedulers, drives and experiments by name. Controllers, loads and drive models are those of the program: a
/// configuration names controllers by its policy, and the other two are code of the simulator.
#[derive(Clone, Debug)]
pub struct Registry {
    schedulers: Vec<&'static Entry>,
    /// Beside those the program ships.
    drives: Vec<DriveFile>,
    experiments: Vec<Experiment>,
}

/// That name stands for something else already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameTaken {
    /// `scheduler`, `drive` or `experiment`.
    pub kind: &'static str,
    /// The name.
    pub name: String,
}

impl fmt::Display for NameTaken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let NameTaken { kind, name } = self;
        write!(f, "there is a {kind} '{name}' already; choose another name")
    }
}

impl std::error::Error for NameTaken {}

static SHIPPED: LazyLock<Registry> = LazyLock::new(|| Registry {
    schedulers: SCHEDULERS.to_vec(),
    drives: Vec::new(),
    experiments: Vec::new(),
});

/// A copy of [`Registry::shipped`].
impl Default for Registry {
    fn default() -> Registry {
        Registry::shipped().clone()
    }
}

impl Registry {
    /// What the program ships, and nothing else.
    pub fn shipped() -> &'static Registry {
        &SHIPPED
    }

    /// Adds a scheduler; configurations may name it then, alone or behind a policy (`max-mine`).
    ///
    /// # Errors
    ///
    /// Its name is taken.
    pub fn add_scheduler(&mut self, entry: &'static Entry) -> Result<(), NameTaken> {
        let taken = self.schedulers.iter().any(|known| known.name == entry.name);
        free("scheduler", entry.name, taken)?;
        self.schedulers.push(entry);
        Ok(())
    }

    /// Adds a drive under its id.
    ///
    /// # Errors
    ///
    /// Its id is taken.
    pub fn add_drive(&mut self, drive: DriveFile) -> Result<(), NameTaken> {
        free("drive", &drive.id, self.drive_ids().any(|id| id == drive.id))?;
        self.drives.push(drive);
        Ok(())
    }

    /// Adds an experiment under its id.
    ///
    /// # Errors
    ///
    /// Its id is taken.
    pub fn add_experiment(&mut self, experiment: Experiment) -> Result<(), NameTaken> {
        free("experiment", &experiment.id, self.experiment_ids().any(|id| id == experiment.id))?;
        self.experiments.push(experiment);
        Ok(())
    }

    /// Every scheduler, in the order of listing.
    pub fn schedulers(&self) -> &[&'static Entry] {
        &self.schedulers
    }

    /// Ids of the drives: those shipped, then those added.
    pub fn drive_ids(&self) -> impl Iterator<Item = &str> {
        DriveFile::ids().into_iter().chain(self.drives.iter().map(|d| d.id.as_str()))
    }

    /// Ids of the experiments: those shipped, then those added.
    pub fn experiment_ids(&self) -> impl Iterator<Item = &str> + Clone {
        // The shipped ones live for ever, and the others as long as the registry.
        let shipped = Experiment::ids().map(|id: &str| id);
        shipped.chain(self.experiments.iter().map(|e| e.id.as_str()))
    }

    /// A configuration, as of [`Config::parse`].
    ///
    /// # Errors
    ///
    /// A name that is not known, braces, a tunable.
    pub fn config(&self, text: &str) -> Result<Config, ConfigError> {
        Config::parse_with(text, &self.schedulers)
    }

    /// A drive by id, or a file by path (contains `/` or ends in `.toml`).
    ///
    /// # Errors
    ///
    /// As of [`DriveFile::load`].
    pub fn drive(&self, id_or_path: &str) -> Result<DriveFile, DriveFileError> {
        match self.drives.iter().find(|d| d.id == id_or_path) {
            Some(drive) => Ok(drive.clone()),
            None => DriveFile::load(id_or_path),
        }
    }

    /// An experiment by id, or a file by path (contains `/` or ends in `.toml`).
    ///
    /// # Errors
    ///
    /// As of [`Experiment::load`].
    pub fn experiment(&self, id_or_path: &str) -> Result<Experiment, ExperimentError> {
        match self.experiments.iter().find(|e| e.id == id_or_path) {
            Some(experiment) => Ok(experiment.clone()),
            None => Experiment::load_with(id_or_path, self),
        }
    }

    /// An experiment from its text, as of [`Experiment::parse`].
    ///
    /// # Errors
    ///
    /// What is wrong with the text, with the label and the line.
    pub fn experiment_text(&self, label: &str, text: &str) -> Result<Experiment, ExperimentError> {
        Experiment::parse_with(label, text, self)
    }
}

fn free(kind: &'static str, name: &str, taken: bool) -> Result<(), NameTaken> {
    match taken {
        false => Ok(()),
        true => Err(NameTaken { kind, name: name.into() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::breaks::BREAKS;

    /// A shipped experiment that compares with a scheduler that is not.
    fn of_breaks() -> String {
        let text = Registry::shipped().experiment("latency-2019").unwrap().text;
        let changed = text.replace("\"none-none\", \"none-bfq\"]", "\"none-none\", \"breaks\"]");
        assert_ne!(changed, text);
        changed
    }

    #[test]
    fn a_copy_knows_what_was_added_to_it_and_the_shipped_one_does_not() {
        let mut registry = Registry::default();
        registry.add_scheduler(&BREAKS).unwrap();
        let experiment = registry.experiment_text("mine.toml", &of_breaks()).unwrap();
        registry.add_experiment(experiment).unwrap();
        assert_eq!(registry.config("max-breaks").unwrap().scheduler.name, "breaks");
        assert_eq!(registry.experiment("mine").unwrap().configs, ["none-none", "breaks"]);

        let error = Registry::shipped().experiment_text("mine.toml", &of_breaks()).unwrap_err();
        let error = error.to_string();
        let told = "no configuration 'breaks'";
        assert!(error.starts_with("mine.toml:15: ") && error.contains(told), "{error}");
        assert!(Registry::shipped().config("breaks").is_err());
        assert!(Registry::shipped().experiment("mine").is_err());
    }

    #[test]
    fn a_name_is_given_once() {
        let mut registry = Registry::default();
        registry.add_scheduler(&BREAKS).unwrap();
        let drive = registry.drive("plextor-px-256m5s").unwrap();
        let experiment = registry.experiment("latency-2019").unwrap();
        let errors = [
            registry.add_scheduler(&BREAKS).unwrap_err(),
            registry.add_scheduler(SCHEDULERS[0]).unwrap_err(),
            registry.add_drive(drive).unwrap_err(),
            registry.add_experiment(experiment).unwrap_err(),
        ];
        let names: Vec<_> = errors.iter().map(|e| (e.kind, e.name.as_str())).collect();
        assert_eq!(
            names,
            [
                ("scheduler", "breaks"),
                ("scheduler", "none"),
                ("drive", "plextor-px-256m5s"),
                ("experiment", "latency-2019")
            ]
        );
    }
}
