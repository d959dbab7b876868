//! `--scheduler FILE`: schedulers that are WebAssembly modules.

use crate::common::options::Common;
use crate::failure::Failure;
use hoistway_lab::experiment::Experiment;
use hoistway_lab::grid::Plan;
use hoistway_lab::registry::Registry;
use std::path::Path;

/// What names stand for: what the program ships, and the modules that the command loads.
#[derive(Debug)]
pub struct Modules {
    registry: Registry,
    /// Names of the modules' schedulers, in the order of the command.
    names: Vec<String>,
}

impl Modules {
    pub fn load(common: &Common) -> Result<Modules, Failure> {
        let mut modules = Modules { registry: Registry::default(), names: Vec::new() };
        common.scheduler.iter().try_for_each(|path| modules.add(path))?;
        Ok(modules)
    }

    #[cfg(feature = "plugin")]
    fn add(&mut self, path: &Path) -> Result<(), Failure> {
        let usage = |e: &dyn std::fmt::Display| Failure::Usage(format!("--scheduler {e}"));
        let entry = hoistway_plugin::load(path).map_err(|e| usage(&e))?;
        if hoistway_lab::config::is_known(entry.name, self.registry.schedulers()) {
            let (path, name) = (path.display(), entry.name);
            let what =
                format!("{path}: there is a configuration '{name}' already; rename the file");
            return Err(usage(&what));
        }
        self.registry.add_scheduler(entry).map_err(|e| usage(&e))?;
        self.names.push(entry.name.into());
        Ok(())
    }

    #[cfg(not(feature = "plugin"))]
    fn add(&mut self, path: &Path) -> Result<(), Failure> {
        Err(Failure::Usage(format!(
            "--scheduler {}: this program was built without modules; build it with the feature `plugin` \
             (cargo build --release -p hoistway-cli --features plugin)",
            path.display()
        )))
    }

    /// An experiment, which may name the modules.
    pub fn experiment(&self, name: &str) -> Result<Experiment, Failure> {
        self.registry.experiment(name).map_err(|e| Failure::Usage(e.to_string()))
    }

    /// The plan with the modules among what is compared.
    pub fn beside(&self, plan: Plan) -> Plan {
        plan.registry(&self.registry).beside(self.names.iter().cloned())
    }

    /// The configuration of `run`: as given, or the module; `None`: what the experiment has first.
    pub fn only(&self, given: Option<String>) -> Result<Option<String>, Failure> {
        let usage = |what: String| Err(Failure::Usage(what));
        let name = match &self.names[..] {
            [] => return Ok(given),
            [name] => name.clone(),
            _ => {
                return usage("run takes one --scheduler; `hoistway compare` takes several".into());
            }
        };
        let config = given.unwrap_or_else(|| name.clone());
        let parsed = self.registry.config(&config).map_err(|e| Failure::Usage(e.to_string()))?;
        match parsed.scheduler.name == name {
            true => Ok(Some(config)),
            false => usage(format!(
                "--scheduler: {config} does not use it; write {name}, or leave --scheduler out"
            )),
        }
    }
}

/// Refuses modules in other worlds.
pub fn simulator_only(common: &Common) -> Result<(), Failure> {
    match common.worlds().into_iter().find(|world| world != "sim") {
        Some(world) if !common.scheduler.is_empty() => Err(Failure::Usage(format!(
            "--scheduler: a module decides in the simulator alone; leave out --on {world}"
        ))),
        _ => Ok(()),
    }
}
