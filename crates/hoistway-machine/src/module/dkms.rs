//! The folder from which DKMS makes the module anew for each kernel that comes: the core, and what is to be called.

use super::build::NAME;
use super::object::{CoreFacts, write_core};
use crate::MachineError;
use hoistway_files::{Dir, Kind};
use std::path::Path;

/// What DKMS and `hoistway module` both may have put in place.
pub(super) const PLACE: &str = "updates/dkms";
const CORE: &str = "core.o";
const CONF: &str = "dkms.conf";

/// What DKMS reads. The folder it builds in is of its own making: also the cache is there, as whoever calls it may have no home.
fn conf() -> String {
    let version = env!("CARGO_PKG_VERSION");
    format!(
        "# Made by hoistway module core.
PACKAGE_NAME=\"{NAME}\"
PACKAGE_VERSION=\"{version}\"
BUILT_MODULE_NAME[0]=\"{NAME}\"
DEST_MODULE_LOCATION[0]=\"/{PLACE}\"
MAKE[0]=\"env HOISTWAY_CACHE_DIR=$dkms_tree/{NAME}/{version}/build/cache {NAME} module build --kernel-dir $kernel_source_dir \
--core {CORE} --out {NAME}.ko\"
CLEAN=\"rm -rf {NAME}.ko cache\"
AUTOINSTALL=\"yes\"
"
    )
}

/// Makes the core and puts it into a folder with what DKMS wants beside it.
///
/// # Errors
///
/// As [`write_core`]; the folder cannot be made, or holds such files already.
pub fn write_dkms(tree: &Path, folder: &Path) -> Result<CoreFacts, MachineError> {
    let dir = Dir::make_all(folder)?;
    let conf_place = dir.place(CONF)?;
    conf_place.may_replace(Kind::New)?;
    let facts = write_core(tree, &folder.join(CORE))?;
    conf_place.replace(conf().as_bytes(), Kind::New)?;
    Ok(facts)
}
