//! What building and installing share: programs that are run, a folder to work in, the machine's kernel.

use crate::kernel::Lack;
use crate::{MachineError, os, programs};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The release of the kernel that runs here.
pub fn running_release() -> String {
    let text = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    text.trim().to_string()
}

/// Where modules that are built are kept, a folder for each release.
pub(super) fn cache() -> Result<PathBuf, MachineError> {
    Ok(crate::linux::kernels::cache()?.join("module"))
}

/// A folder of this process, which is removed with all that is in it.
#[derive(Debug)]
pub(super) struct BuildFolder {
    pub path: PathBuf,
}

impl BuildFolder {
    pub fn new() -> Result<BuildFolder, MachineError> {
        let cache = cache()?;
        let name = || cache.display().to_string();
        // Nobody else may change what becomes code of the kernel.
        let folder = hoistway_files::Dir::make_own(&cache)?;
        // The first name that is free: what a process left that was killed is not looked at.
        for number in 0..1000 {
            let path = folder.path().join(format!(".building-{}-{number}", std::process::id()));
            match fs::create_dir(&path) {
                Ok(()) => return Ok(BuildFolder { path }),
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(os(name())(error)),
            }
        }
        Err(MachineError::Refused(format!(
            "{}: is full of folders .building-*; remove them",
            name()
        )))
    }
}

impl Drop for BuildFolder {
    fn drop(&mut self) {
        // What cannot be removed now stands in a cache under a name that says what it is.
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Programs by the packages of Debian that have them; what is missing is an error.
pub(super) fn wanted(these: &[(&str, &str)], what: &str) -> Result<(), MachineError> {
    let Some(list) = programs::lacking(these) else { return Ok(()) };
    let remedy = format!("install them (Debian: `apt install {list}`)");
    Err(MachineError::Lack(Lack::new(list, format!("{what} needs it"), remedy)))
}

/// Runs a program to its end and gives what it said, both on stdout and stderr.
pub(super) fn run(mut command: Command, what: &str, log: &Path) -> Result<String, MachineError> {
    let name = || log.display().to_string();
    let to = File::create(log).map_err(os(name()))?;
    let program = command.get_program().to_string_lossy().into_owned();
    command.stdin(Stdio::null()).stderr(to.try_clone().map_err(os(name()))?).stdout(to);
    let status = programs::for_this_machine(&mut command).status().map_err(os(program))?;
    let said = fs::read(log).map_err(os(name()))?;
    let said = String::from_utf8_lossy(&said).into_owned();
    if status.success() {
        return Ok(said);
    }
    let lines: Vec<&str> = said.lines().filter(|line| !line.trim().is_empty()).collect();
    let said = programs::last_lines(&lines);
    Err(MachineError::Program(format!("{what} failed; it says:{said}")))
}

pub(super) fn read(path: &Path) -> Result<String, MachineError> {
    fs::read_to_string(path).map_err(os(path.display().to_string()))
}

pub(super) fn write(path: &Path, bytes: impl AsRef<[u8]>) -> Result<(), MachineError> {
    fs::write(path, bytes).map_err(os(path.display().to_string()))
}
