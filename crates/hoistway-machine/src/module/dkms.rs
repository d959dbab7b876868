//! The folder from which DKMS makes the module anew for each kernel that comes: the core, and what is to be called.

use super::build::{ModuleOptions, core_for};
use super::choice::Choice;
use super::object::CoreFacts;
use super::tools::BuildFolder;
use crate::kernel::MODULE;
use crate::{MachineError, os};
use hoistway_files::{Dir, Kind, Place};
use std::fs;
use std::path::Path;

/// What DKMS and `hoistway module` both may have put in place.
pub(super) const PLACE: &str = "updates/dkms";
const CORE: &str = "core.o";
const CONF: &str = "dkms.conf";

/// What DKMS reads. The folder it builds in is of its own making: also the cache is there, as whoever calls it may have no home.
fn conf(only: &Choice) -> String {
    let version = env!("CARGO_PKG_VERSION");
    let module = only.module();
    format!(
        "# Made by hoistway module core.
PACKAGE_NAME=\"{module}\"
PACKAGE_VERSION=\"{version}\"
BUILT_MODULE_NAME[0]=\"{module}\"
DEST_MODULE_LOCATION[0]=\"/{PLACE}\"
MAKE[0]=\"env HOISTWAY_CACHE_DIR=$dkms_tree/{module}/{version}/build/cache {MODULE} module build --kernel-dir $kernel_source_dir \
--core {CORE} --out {module}.ko\"
CLEAN=\"rm -rf {module}.ko cache\"
AUTOINSTALL=\"yes\"
"
    )
}

/// Puts the core into a folder with what DKMS wants beside it: the package's, or one that is made of `tree`. The folder is new,
/// empty, or was made here.
///
/// # Errors
///
/// As of `build`, where it needs a core; the folder is somebody else's.
pub fn write_dkms(
    tree: Option<&Path>,
    only: &Choice,
    folder: &Path,
) -> Result<Option<CoreFacts>, MachineError> {
    let place = Place::make(folder)?;
    place.may_fill(is_ours)?;
    let scratch = BuildFolder::new()?;
    let object = scratch.path.join(CORE);
    let source = tree.map(Path::to_path_buf);
    let wanted = ModuleOptions { only: only.clone(), source, ..ModuleOptions::default() };
    let facts = core_for(&wanted, &object, &mut |_| {})?;
    let bytes = fs::read(&object).map_err(os(object.display().to_string()))?;
    let dir = place.fill(is_ours)?;
    dir.place(CORE)?.replace(&bytes, Kind::Named)?;
    dir.place(CONF)?.replace(conf(only).as_bytes(), Kind::Named)?;
    Ok(facts)
}

fn is_ours(dir: &Dir) -> bool {
    dir.holds(CONF, Kind::Begins(&[b"# Made by hoistway"]))
}
