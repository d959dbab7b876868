//! Modules that are built, in place, loaded; and taking them away.

use super::choice::{Choice, is_file};
use super::dkms;
use super::tools::{BuildFolder, cache, run, running_release, wanted};
use crate::kernel::{Lack, System, in_sys, loaded};
use crate::{MachineError, os};
use hoistway::sched::of_module;
use hoistway_files::{Dir, Kind};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Below /lib/modules/RELEASE. A folder of our own, so that what stands in it is ours.
const PLACE: &str = "updates/hoistway";
/// Key and certificate that this machine's firmware may know, as DKMS and Debian's shim make them.
const KEYS: &[(&str, &str)] = &[
    ("/var/lib/dkms/mok.key", "/var/lib/dkms/mok.pub"),
    ("/var/lib/shim-signed/mok/MOK.priv", "/var/lib/shim-signed/mok/MOK.der"),
];

/// What there is of the module for one kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    /// The kernel's release.
    pub release: String,
    /// The files that were built, in the order of their names.
    pub built: Vec<PathBuf>,
    /// The file that modprobe finds.
    pub installed: Option<PathBuf>,
    /// What is loaded now is called so.
    pub loaded: Option<String>,
    /// Devices that have a scheduler of ours, and which.
    pub used: Vec<(String, String)>,
}

/// What installing did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installed {
    /// The file that modprobe finds.
    pub path: PathBuf,
    /// The key it is signed with.
    pub signed: Option<PathBuf>,
    /// It is loaded now.
    pub loaded: bool,
    /// A scheduler that it has, as sysfs calls it.
    pub example: &'static str,
}

/// Devices below `block` (/sys/block) that have a scheduler of ours.
fn used(block: &Path) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(block).into_iter().flatten().flatten() {
        let text = fs::read_to_string(entry.path().join("queue/scheduler")).unwrap_or_default();
        let chosen = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
        if let Some((name, _)) = chosen.filter(|(name, _)| of_module(name).is_some()) {
            found.push((entry.file_name().to_string_lossy().into_owned(), name.to_string()));
        }
    }
    found.sort();
    found
}

fn target(release: &str) -> PathBuf {
    Path::new("/lib/modules").join(release).join(PLACE)
}

/// The file that DKMS has put in place; it may have compressed it.
fn of_dkms(release: &str) -> Option<PathBuf> {
    let plain = |name: &str| {
        is_file(["xz", "gz", "zst"].iter().fold(name, |name, end| {
            name.strip_suffix(end).and_then(|name| name.strip_suffix('.')).unwrap_or(name)
        }))
    };
    ours(&Path::new("/lib/modules").join(release).join(dkms::PLACE), plain).into_iter().next()
}

/// The files of a folder whose names are ours, in their order; there may be no such folder.
fn ours(folder: &Path, is_ours: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut found: Vec<PathBuf> = entries
        .filter(|path| {
            path.is_file() && path.file_name().and_then(|n| n.to_str()).is_some_and(&is_ours)
        })
        .collect();
    found.sort();
    found
}

/// Every kernel for which there is something, in the order of their names.
///
/// # Errors
///
/// The cache directory cannot be read.
pub fn list() -> Result<Vec<Module>, MachineError> {
    let running = running_release();
    let loaded = loaded(&System::real());
    let mut releases: Vec<String> = Vec::new();
    for folder in [cache()?, PathBuf::from("/lib/modules")] {
        let names = fs::read_dir(&folder).into_iter().flatten().flatten();
        releases.extend(names.map(|entry| entry.file_name().to_string_lossy().into_owned()));
    }
    releases.push(running.clone());
    releases.sort();
    releases.dedup();
    let cache = cache()?;
    let modules = releases.into_iter().map(|release| {
        let here = loaded.clone().filter(|_| release == running);
        Module {
            built: ours(&cache.join(&release), is_file),
            installed: ours(&target(&release), is_file)
                .into_iter()
                .next()
                .or_else(|| of_dkms(&release)),
            used: if here.is_some() { used(Path::new("/sys/block")) } else { Vec::new() },
            loaded: here,
            release,
        }
    });
    let there = |m: &Module| !m.built.is_empty() || m.installed.is_some() || m.loaded.is_some();
    Ok(modules.filter(there).collect())
}

fn known_release(asked: Option<&str>) -> Result<String, MachineError> {
    let release = asked.map_or_else(running_release, str::to_string);
    let plain = release.bytes().all(|b| b.is_ascii_alphanumeric() || b"._+-~".contains(&b));
    if !plain || release.starts_with('.') || release.is_empty() {
        return Err(MachineError::Refused(format!(
            "--kernel {release}: is no release of a kernel"
        )));
    }
    Ok(release)
}

fn by_dkms(path: &Path) -> MachineError {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let module = name.split(".ko").next().unwrap_or_default();
    let (path, version) = (path.display(), env!("CARGO_PKG_VERSION"));
    MachineError::Refused(format!(
        "{path}: DKMS has put it in place, and takes it away: dkms remove {module}/{version} --all"
    ))
}

/// Whether what is loaded is what is to be installed: modprobe leaves what is there, and says nothing.
fn may_stay(name: &str, only: &Choice, built: &Path) -> Result<(), MachineError> {
    let why = if name != only.module() {
        "has the same files of groups"
    } else {
        let note = Path::new("/sys/module").join(in_sys(name)).join("notes/.note.gnu.build-id");
        let note = fs::read(note).unwrap_or_default();
        let file = fs::read(built).map_err(os(built.display().to_string()))?;
        if is_build(&note, &file) {
            return Ok(());
        }
        "is of another build"
    };
    Err(MachineError::Refused(format!(
        "{name} is loaded, and {why}; take it away first: `hoistway module remove`"
    )))
}

/// Whether the build that the kernel tells by a note is that of a module's file.
fn is_build(note: &[u8], file: &[u8]) -> bool {
    !note.is_empty() && file.windows(note.len()).any(|part| part == note)
}

/// Puts the module of a release in place, signed where this machine asks for it, and loads it into the kernel that runs.
///
/// # Errors
///
/// None is built; it cannot be signed; there are no rights to do it; the kernel refuses it.
pub fn install(asked: Option<&str>, only: &Choice) -> Result<Installed, MachineError> {
    let release = known_release(asked)?;
    let built = cache()?.join(&release).join(only.file());
    if !built.is_file() {
        return Err(MachineError::Refused(not_built(&release, &built)));
    }
    let modules = Path::new("/lib/modules").join(&release);
    if !modules.is_dir() {
        return Err(MachineError::Refused(format!(
            "there is no {}: Linux {release} is not installed here",
            modules.display()
        )));
    }
    // Of several that answer to one name modprobe would take any.
    if let Some(path) = of_dkms(&release) {
        return Err(by_dkms(&path));
    }
    let running = release == running_release();
    if let Some(name) = loaded(&System::real()).filter(|_| running) {
        may_stay(&name, only, &built)?;
    }
    wanted(&[("depmod", "kmod"), ("modprobe", "kmod")], "installing a module")?;
    let scratch = BuildFolder::new()?;
    let file = scratch.path.join(only.file());
    fs::copy(&built, &file).map_err(os(built.display().to_string()))?;
    let signed = if must_be_signed() { Some(sign(&file, &modules, &scratch)?) } else { None };
    let bytes = fs::read(&file).map_err(os(file.display().to_string()))?;
    let folder = Dir::make_all(&target(&release))?;
    let place = folder.place(only.file())?;
    place.replace(&bytes, Kind::Named)?;
    // As above: one answers to the name.
    for path in ours(&target(&release), is_file).iter().filter(|path| **path != place.path()) {
        path.file_name().map_or(Ok(()), |name| folder.place(name)?.remove_file())?;
    }
    depmod(&release, &scratch)?;
    if running {
        let mut modprobe = Command::new("modprobe");
        modprobe.arg(only.module());
        run(modprobe, "loading the module", &scratch.path.join("log"))?;
    }
    Ok(Installed { path: place.path(), signed, loaded: running, example: only.example() })
}

/// What to do where the module that is meant is not built.
fn not_built(release: &str, wanted: &Path) -> String {
    let others = ours(wanted.parent().unwrap_or(wanted), is_file);
    let names: Vec<&str> = others.iter().filter_map(|path| path.file_name()?.to_str()).collect();
    let beside = match names.is_empty() {
        true => String::new(),
        false => format!("; built is {} (--only)", names.join(", ")),
    };
    format!(
        "no module for Linux {release} is built: there is no {}; `hoistway module build`, run by the same user, makes it{beside}",
        wanted.display()
    )
}

/// Unloads the module and takes it away; false: there was none in place.
///
/// # Errors
///
/// A device has a scheduler of ours; there are no rights to do it.
pub fn remove(asked: Option<&str>) -> Result<bool, MachineError> {
    let release = known_release(asked)?;
    let folder = target(&release);
    if let Some(path) = of_dkms(&release) {
        return Err(by_dkms(&path));
    }
    let scratch = BuildFolder::new()?;
    let loaded = loaded(&System::real()).filter(|_| release == running_release());
    if let Some(name) = &loaded {
        let used = used(Path::new("/sys/block"));
        if !used.is_empty() {
            return Err(MachineError::Refused(in_use(&used)));
        }
        let mut rmmod = Command::new("rmmod");
        rmmod.arg(name);
        run(rmmod, "unloading the module", &scratch.path.join("log"))?;
    }
    if !folder.is_dir() {
        return Ok(loaded.is_some());
    }
    let dir = Dir::open(&folder)?;
    for path in ours(&folder, is_file) {
        path.file_name().map_or(Ok(()), |name| dir.place(name)?.remove_file())?;
    }
    let (parent, name) = (folder.parent(), folder.file_name());
    if let Some((parent, name)) = parent.zip(name) {
        Dir::open(parent)?.place(name)?.remove_dir()?;
    }
    depmod(&release, &scratch)?;
    Ok(true)
}

fn in_use(used: &[(String, String)]) -> String {
    let lines: String = used
        .iter()
        .map(|(device, name)| {
            format!("\n  echo none > /sys/block/{device}/queue/scheduler   # now {name}")
        })
        .collect();
    format!("the module is in use; choose other schedulers first, for example:{lines}")
}

fn depmod(release: &str, scratch: &BuildFolder) -> Result<(), MachineError> {
    let mut depmod = Command::new("depmod");
    depmod.arg(release);
    run(depmod, "depmod", &scratch.path.join("log")).map(drop)
}

/// The kernel, or the firmware below it, takes signed modules only.
fn must_be_signed() -> bool {
    let says = |path: &str, word: &str| fs::read_to_string(path).is_ok_and(|t| t.contains(word));
    let enforced = says("/sys/module/module/parameters/sig_enforce", "Y");
    let locked = ["[integrity]", "[confidentiality]"]
        .iter()
        .any(|word| says("/sys/kernel/security/lockdown", word));
    let secure = "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c";
    // Four bytes of attributes stand before the value.
    enforced || locked || fs::read(secure).is_ok_and(|bytes| bytes.get(4) == Some(&1))
}

fn sign(file: &Path, modules: &Path, scratch: &BuildFolder) -> Result<PathBuf, MachineError> {
    let there = |(key, certificate): &&(&str, &str)| {
        Path::new(key).is_file() && Path::new(certificate).is_file()
    };
    let Some(&(key, certificate)) = KEYS.iter().find(there) else {
        let why = "this machine takes signed modules only, and has no key of its own";
        let remedy = "make one (Debian: `apt install dkms mokutil`, then `dkms generate_mok`) and let the firmware \
                      know it (`mokutil --import /var/lib/dkms/mok.pub`, then restart and confirm)";
        return Err(MachineError::Lack(Lack::new("a key for modules", why, remedy)));
    };
    let program = modules.join("build/scripts/sign-file");
    if !program.is_file() {
        let why = format!("there is no {}", program.display());
        return Err(MachineError::Lack(Lack::new(
            "sign-file",
            why,
            "install the headers of the kernel",
        )));
    }
    let mut command = Command::new(program);
    command.args(["sha256", key, certificate]).arg(file);
    run(command, "signing the module", &scratch.path.join("log"))?;
    Ok(PathBuf::from(key))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoistway::sched::{SCHEDULERS, module_name};

    #[test]
    fn names_are_short_enough_for_sysfs_and_none_is_the_kernels() {
        let names: Vec<&str> = SCHEDULERS.iter().filter_map(|e| module_name(e)).collect();
        assert_eq!(names.len(), SCHEDULERS.len() - 1);
        for name in &names {
            assert!(name.len() <= 15, "{name}");
            assert!(!["none", "mq-deadline", "bfq", "kyber", "deadline"].contains(name));
        }
    }

    #[test]
    fn devices_with_a_scheduler_of_ours_are_named_with_the_line_that_frees_them() {
        let block = std::env::temp_dir().join(format!("hoistway-block-{}", std::process::id()));
        for (device, text) in
            [("sda", "none [paternoster] bfq"), ("sdb", "[bfq] h-bfq"), ("sdc", "none [h-bfq]")]
        {
            fs::create_dir_all(block.join(device).join("queue")).unwrap();
            fs::write(block.join(device).join("queue/scheduler"), text).unwrap();
        }
        let found = used(&block);
        fs::remove_dir_all(&block).unwrap();
        let pair = |a: &str, b: &str| (a.to_string(), b.to_string());
        assert_eq!(found, [pair("sda", "paternoster"), pair("sdc", "h-bfq")]);
        assert!(in_use(&found).contains("echo none > /sys/block/sda/queue/scheduler"));
    }

    #[test]
    fn a_build_is_told_by_its_note() {
        let file = b"\x7fELF....\x04\0\0\0GNU\0\x12\x34....";
        assert!(is_build(b"\x04\0\0\0GNU\0\x12\x34", file));
        assert!(!is_build(b"\x04\0\0\0GNU\0\x12\x35", file));
        // A kernel that tells nothing.
        assert!(!is_build(b"", file));
    }

    #[test]
    fn a_release_is_no_path() {
        assert!(known_release(Some("6.1.0-56-amd64")).is_ok());
        for bad in ["../etc", "a/b", "", "."] {
            assert!(known_release(Some(bad)).is_err(), "{bad}");
        }
    }
}
