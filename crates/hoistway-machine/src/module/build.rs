//! The module of one kernel.

use super::choice::Choice;
use super::headers::Headers;
use super::object::{CoreFacts, make_core};
use super::tools::{BuildFolder, cache, run, running_release, wanted, write};
use crate::kernel::Lack;
use crate::programs::last_lines;
use crate::{MachineError, os};
use hoistway_files::{Dir, Kind, Place};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What is built of what.
#[derive(Clone, Debug, Default)]
pub struct ModuleOptions {
    /// The folder that modules are built against; `None`: that of the running kernel.
    pub kernel_dir: Option<PathBuf>,
    /// The kernel's source, a tree or a tarball; `None`: the distribution's package.
    pub kernel_source: Option<PathBuf>,
    /// The core, an object made before; `None`: the package's, or made of `source`.
    pub core: Option<PathBuf>,
    /// The schedulers it has, where the core is made of `source`; a core that was made before says what it has.
    pub only: Choice,
    /// A source tree of hoistway; `None`: the folder of the process, if it is one.
    pub source: Option<PathBuf>,
    /// The core, which then has to be made, has the checks of KASAN: for a kernel in user mode.
    pub kasan: bool,
    /// Where the module is to stand; `None`: in the cache, for `install`.
    pub out: Option<PathBuf>,
}

/// A module that was built.
#[derive(Clone, Debug)]
pub struct BuiltModule {
    /// The file.
    pub path: PathBuf,
    /// The release it is for.
    pub release: String,
    /// What was found in the core; `None`: it was made before.
    pub core: Option<CoreFacts>,
    /// Size of the file, in bytes.
    pub bytes: u64,
}

macro_rules! files {
    ($($name:literal)*) => {
        &[$(($name, include_str!(concat!("../../../../linux/module/", $name)))),*]
    };
}

/// The shim.
const SHIM: &[(&str, &str)] = files!(
    "Kbuild" "hoistway.h" "hoistway_compat.h" "hoistway_core.h" "hoistway_divide.c" "hoistway_elevator.c" "hoistway_flush.c"
    "hoistway_group.c" "hoistway_guard.S" "hoistway_limits.c" "hoistway_memory.c" "hoistway_module.c" "hoistway_request.h" "hoistway_thunks.S"
);

/// Where a package has the core, beside the folder of the program.
const PACKAGED: &str = "../share/hoistway/module/core.o";
/// The core beside the shim, and how it was made.
const CORE: &str = "hoistway_rust.o_shipped";
const CORE_MADE: &str = ".hoistway_rust.o.cmd";

/// Builds it. `watch` hears what is going on.
///
/// # Errors
///
/// Something is missing, with how to get it; the kernel does not fit; it does not compile.
pub fn build(
    options: &ModuleOptions,
    watch: &mut dyn FnMut(&str),
) -> Result<BuiltModule, MachineError> {
    if let Some(out) = &options.out {
        Place::make(out)?.may_replace(Kind::New)?;
    }
    let headers = Headers::find(options.kernel_dir.as_deref(), &running_release())?;
    wanted(&headers.programs(), "a module")?;
    let scratch = BuildFolder::new()?;
    let work = scratch.path.join("module");
    fs::create_dir(&work).map_err(os(work.display().to_string()))?;
    for (name, text) in SHIM {
        write(&work.join(name), text)?;
    }
    let log = scratch.path.join("log");
    watch("headers of the block layer");
    headers.block_headers(options.kernel_source.as_deref(), &work.join("block"), &log)?;
    let object = work.join(CORE);
    let core = core_for(options, &object, watch)?;
    let bytes = fs::read(&object).map_err(os(object.display().to_string()))?;
    let only = Choice::of_core(&bytes)?;
    watch("tables of the core");
    prepare(&headers, &object, &log)?;
    // kbuild looks for how a file was made before it takes one as it is.
    write(&work.join(CORE_MADE), "")?;
    watch("compiling the shim");
    let mut make = Command::new("make");
    make.arg("-C").arg(&headers.folder).arg(format!("M={}", work.display()));
    make.arg(format!("HOISTWAY_MODULE={}", only.module())).arg("modules");
    let said = run(make, "building the module", &log)?;
    silent(&said)?;
    let path = keep(&work, &only.file(), options.out.as_deref(), &headers.release)?;
    let bytes = fs::metadata(&path).map_err(os(path.display().to_string()))?.len();
    Ok(BuiltModule { path, release: headers.release, core, bytes })
}

/// What a kernel of `hoistway linux build` has of the module: its files by their names, the core among them; `kasan`: the
/// kernel has KASAN, and the core is to be checked by it as the shim is.
pub(crate) fn built_in(
    kasan: bool,
    watch: &mut dyn FnMut(&str),
) -> Result<Vec<(String, Vec<u8>)>, MachineError> {
    let scratch = BuildFolder::new()?;
    let object = scratch.path.join(CORE);
    core_for(&ModuleOptions { kasan, ..ModuleOptions::default() }, &object, watch)?;
    let core = fs::read(&object).map_err(os(object.display().to_string()))?;
    let shim = SHIM.iter().map(|(name, text)| (name.to_string(), text.as_bytes().to_vec()));
    // kbuild looks for how a file was made before it takes one as it is.
    let made = [(CORE.to_string(), core), (CORE_MADE.to_string(), Vec::new())];
    Ok(shim.chain(made).collect())
}

/// The core: named, packaged, or made.
pub(super) fn core_for(
    options: &ModuleOptions,
    object: &Path,
    watch: &mut dyn FnMut(&str),
) -> Result<Option<CoreFacts>, MachineError> {
    let copy = |from: &Path| {
        let name = from.display().to_string();
        if !from.is_file() {
            return Err(MachineError::Refused(format!("--core {name}: there is no such file")));
        }
        let bytes = fs::read(from).map_err(os(name.clone()))?;
        if !bytes.starts_with(b"\x7fELF") {
            return Err(MachineError::Refused(format!("--core {name}: is no object file")));
        }
        write(object, bytes)
    };
    if let Some(core) = &options.core {
        return copy(core).map(|()| None);
    }
    if options.source.is_none()
        && !options.kasan
        && options.only == Choice::default()
        && let Ok(program) = std::env::current_exe()
        && let Some(packaged) = program.parent().map(|folder| folder.join(PACKAGED))
        && packaged.is_file()
    {
        return copy(&packaged).map(|()| None);
    }
    let tree = options.source.clone().unwrap_or_else(|| PathBuf::from("."));
    if options.source.is_none() && !tree.join("crates/hoistway-kernel").is_dir() {
        let cause = match options.kasan {
            true => "KASAN checks one that is compiled for it",
            false => "this program came without it",
        };
        let why = format!("{cause}, and the folder it was called in is no source tree of hoistway");
        let remedy =
            "give --tree a source tree of hoistway, or `module build --core` the core of a package";
        return Err(MachineError::Lack(Lack::new("the core of the module", why, remedy)));
    }
    watch("compiling the core");
    make_core(&tree, &options.only, options.kasan, object).map(Some)
}

/// Lets the kernel's tool write its tables into the core, where its build does not do that itself.
fn prepare(headers: &Headers, object: &Path, log: &Path) -> Result<(), MachineError> {
    if headers.checks_whole() {
        return Ok(());
    }
    let Some(mut objtool) = headers.objtool() else {
        let why = format!("{} has no tools/objtool/objtool", headers.folder.display());
        let remedy = "install the package that belongs to the headers (Debian: linux-kbuild)";
        return Err(MachineError::Lack(Lack::new("objtool", why, remedy)));
    };
    objtool.arg(object);
    silent(&run(objtool, "objtool", log)?)
}

/// What the kernel's checker finds is an error: such code could not be patched or unwound.
fn silent(said: &str) -> Result<(), MachineError> {
    let found: Vec<&str> = said
        .lines()
        .filter(|line| line.contains("warning: objtool") || line.contains("error: objtool"))
        .collect();
    match found.is_empty() {
        true => Ok(()),
        false => Err(MachineError::Program(format!(
            "objtool does not accept the module:{}",
            last_lines(&found)
        ))),
    }
}

/// Puts the file where it is to stand.
fn keep(
    work: &Path,
    file: &str,
    out: Option<&Path>,
    release: &str,
) -> Result<PathBuf, MachineError> {
    let built = work.join(file);
    let bytes = fs::read(&built).map_err(os(built.display().to_string()))?;
    let place = match out {
        Some(out) => Place::make(out)?,
        None => Dir::make_own(&cache()?.join(release))?.place(file)?,
    };
    // A module is told from anything else by nothing; the cache is ours.
    let kind = if out.is_some() { Kind::New } else { Kind::Named };
    place.replace(&bytes, kind)?;
    Ok(place.path())
}
