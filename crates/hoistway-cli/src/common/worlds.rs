//! `--on WORLD` and its target.

use crate::common::modules::simulator_only;
use crate::common::options::Common;
#[cfg(all(feature = "live", target_os = "linux"))]
use crate::common::process::{arguments, stop_flag};
use crate::failure::{Failure, refused, run_failure};
use hoistway::setting::nearest;
use hoistway_lab::run::Grid;
use hoistway_lab::words::{shell_quoted, shell_word};
use hoistway_lab::world::{Sim, WORLDS, World, WorldError};
use hoistway_sim::drive::DriveFile;
use std::fmt::Write as _;
use std::path::PathBuf;

/// The world a command asks for.
#[derive(Debug)]
pub struct Chosen {
    pub world: Box<dyn World>,
    /// The only drive there is, in place of the experiment's.
    pub drive: Option<DriveFile>,
}

pub fn choose(common: &Common) -> Result<Chosen, Failure> {
    let on = common.world();
    if let Some(other) = common.worlds().get(1) {
        let what =
            format!("--on {other}: one world at a time here; `hoistway compare` takes several");
        return Err(Failure::Usage(what));
    }
    simulator_only(common)?;
    let (name, which) = match on.split_once(':') {
        Some((name, which)) => (name, Some(which)),
        None => (on.as_str(), None),
    };
    if let (Some(which), false) = (which, name == "linux") {
        let what = format!("--on {}: ':{which}' names a kernel, as in --on linux:{which}", on);
        return Err(Failure::Usage(what));
    }
    if common.fs.is_some() && name != "linux" {
        let what = "--fs makes a file system in a kernel of its own; add --on linux";
        return Err(Failure::Usage(what.into()));
    }
    match name {
        "sim" => simulator(common),
        "linux" => linux(common, which),
        "engine" => engine(common),
        "kernel" => kernel(common),
        other => {
            let names = WORLDS.iter().map(|w| w.name);
            let hint = match nearest(other, names.clone()) {
                Some(n) => format!("did you mean '{n}'?"),
                None => format!("there are: {}", names.collect::<Vec<_>>().join(", ")),
            };
            Err(Failure::Usage(format!("--on {other}: there is no such world; {hint}")))
        }
    }
}

fn simulator(common: &Common) -> Result<Chosen, Failure> {
    no_storage(common)?;
    Ok(Chosen { world: Box::new(Sim), drive: None })
}

/// Refuses real storage beside a drive model.
fn no_storage(common: &Common) -> Result<(), Failure> {
    let targets = [
        ("--target-dir", &common.target_dir),
        ("--file", &common.file),
        ("--device", &common.device),
        ("--yes-destroy-data", &common.yes_destroy_data),
    ];
    match targets.iter().find(|(_, given)| given.is_some()) {
        Some((flag, _)) => Err(Failure::Usage(format!(
            "{flag} names real storage, which the simulator does not use; add --on engine or --on kernel"
        ))),
        None => Ok(()),
    }
}

#[cfg(not(all(feature = "live", target_os = "linux")))]
fn engine(common: &Common) -> Result<Chosen, Failure> {
    Err(Failure::Usage(format!(
        "--on {}: this program was built without access to real storage; build it on Linux \
         with the feature `live` (cargo build --release -p hoistway-cli)",
        common.world()
    )))
}

#[cfg(not(all(feature = "live", target_os = "linux")))]
fn kernel(common: &Common) -> Result<Chosen, Failure> {
    engine(common)
}

#[cfg(all(feature = "live", target_os = "linux"))]
fn engine(common: &Common) -> Result<Chosen, Failure> {
    use hoistway_lab::world::Engine;
    use hoistway_machine::engine::{Storage, StorageTarget};
    let size = one_at_a_time(common)?;
    let place = match (&common.target_dir, &common.file, &common.device) {
        (Some(dir), ..) => StorageTarget::Scratch { dir: dir.clone(), size },
        (_, Some(file), _) => StorageTarget::File(file.clone()),
        (_, _, Some(device)) => StorageTarget::Device(device.clone()),
        _ => StorageTarget::Emulated,
    };
    let storage = Storage::open(&place, common.yes_destroy_data.as_deref());
    let storage = storage.map_err(|e| refused(WorldError::from(e)))?;
    if let Some(warning) = storage.warning() {
        eprintln!("warning: {warning}");
    }
    let drive = storage.drive().cloned();
    Ok(Chosen { world: Box::new(Engine(storage)), drive })
}

/// Refuses several runs at a time; the size given.
#[cfg(all(feature = "live", target_os = "linux"))]
fn one_at_a_time(common: &Common) -> Result<Option<u64>, Failure> {
    if common.jobs.is_some_and(|jobs| jobs > 1) {
        return Err(Failure::Usage(format!(
            "--jobs: runs on the wall clock disturb each other; leave it out with --on {}",
            common.world()
        )));
    }
    let bytes = common.size.as_ref().map(|text| hoistway::quantity::bytes(text)).transpose();
    bytes.map_err(|e| Failure::Usage(format!("--size: {e}")))
}

#[cfg(all(feature = "live", target_os = "linux"))]
fn kernel(common: &Common) -> Result<Chosen, Failure> {
    use hoistway_lab::world::Kernel;
    use hoistway_machine::kernel::{Machine, MachineOptions, VolumeTarget};
    let size = one_at_a_time(common)?;
    let target = match (&common.target_dir, &common.device) {
        (Some(dir), _) => VolumeTarget::Dir(dir.clone()),
        (_, Some(device)) => VolumeTarget::Device(device.clone()),
        _ if common.file.is_some() => {
            let what = "--file: a file is scheduled by the device it lies on; name its folder with --target-dir";
            return Err(Failure::Usage(what.into()));
        }
        _ => {
            let what = "--on kernel: name a directory with --target-dir or a device with --device";
            return Err(Failure::Usage(what.into()));
        }
    };
    let what = arguments();
    let destroy = common.yes_destroy_data.clone();
    let options = MachineOptions { size, destroy, what, ..MachineOptions::default() };
    // What it lacks is found out by trying, which changes the machine for a moment.
    stop_flag()?;
    let machine = Machine::open(&target, options).map_err(|e| refused(WorldError::from(e)))?;
    eprintln!("{}", machine.place().describe());
    let drive = machine.drive().clone();
    Ok(Chosen { world: Box::new(Kernel(machine)), drive: Some(drive) })
}

#[cfg(not(all(feature = "live", target_os = "linux")))]
fn linux(common: &Common, _: Option<&str>) -> Result<Chosen, Failure> {
    engine(common)
}

#[cfg(all(feature = "live", target_os = "linux"))]
fn linux(common: &Common, kernel: Option<&str>) -> Result<Chosen, Failure> {
    use hoistway_lab::world::Linux;
    use hoistway_machine::linux::{Format, Linux as Kernel};
    no_storage(common)?;
    let name = common.fs.as_deref().unwrap_or(Format::Raw.name());
    let format = Format::find(name).ok_or_else(|| {
        let names: Vec<&str> = Format::all().map(Format::name).collect();
        Failure::Usage(format!("--fs {name}: choose one of {}", names.join(", ")))
    })?;
    let kernel = Kernel::open(kernel, format).map_err(|e| refused(WorldError::from(e)))?;
    Ok(Chosen { world: Box::new(Linux(kernel)), drive: None })
}

/// Takes out of the grid what the world lacks something for, says so, and returns the same for the manifest.
pub fn leave_out(world: &dyn World, grid: &mut Grid) -> Result<Vec<(String, String)>, Failure> {
    let lacking = grid.lacking(world).map_err(run_failure)?;
    let rows = lacking.iter().map(|(id, lack)| ("lacking".to_string(), format!("{id}: {lack}")));
    let rows: Vec<(String, String)> = rows.collect();
    for (_, text) in &rows {
        eprintln!("left out: {text}");
    }
    grid.configs.retain(|config| !lacking.iter().any(|(id, _)| *id == config.id));
    if grid.configs.is_empty() {
        let what =
            "none of the configurations can run here; `hoistway list schedulers` names others";
        return Err(Failure::Environment(what.into()));
    }
    Ok(rows)
}

/// Everything the world has to say before anything runs.
pub fn check(world: &dyn World, grid: &Grid) -> Result<(), Failure> {
    let mut jobs = Vec::new();
    for one in grid.preview() {
        // Each is made: what is wrong with it is said before the first runs.
        let (_, job) = one.map_err(run_failure)?;
        jobs.extend(world.looks_at_jobs().then_some(job));
    }
    world.check(&jobs).map_err(|error| {
        if let WorldError::Environment(_) = error {
            let ids: Vec<&str> = grid.configs.iter().map(|c| c.id.as_str()).collect();
            let workloads = grid.workloads.join(", ");
            eprintln!("would run: {} under {workloads}, {} times each", ids.join(", "), grid.reps);
        }
        refused(error)
    })?;
    let bytes = world.writes_first(&jobs);
    if bytes > 0 {
        eprintln!("{} MB of files are written first", bytes.div_ceil(1_000_000));
    }
    Ok(())
}

/// What repeats the choice on a command line.
pub fn flags(common: &Common) -> String {
    let mut text = String::new();
    for path in &common.scheduler {
        let _ = write!(text, " --scheduler {}", shell_word(&path.display().to_string()));
    }
    let on = common.world();
    if on == "sim" {
        return text;
    }
    let _ = write!(text, " --on {on}");
    let paths: [(&str, &Option<PathBuf>); 4] = [
        ("target-dir", &common.target_dir),
        ("file", &common.file),
        ("device", &common.device),
        ("yes-destroy-data", &common.yes_destroy_data),
    ];
    for (flag, path) in paths {
        if let Some(path) = path {
            let _ = write!(text, " --{flag} {}", shell_quoted(&path.display().to_string()));
        }
    }
    if let Some(size) = &common.size {
        let _ = write!(text, " --size {}", shell_quoted(size));
    }
    if let Some(fs) = &common.fs {
        let _ = write!(text, " --fs {fs}");
    }
    text
}
