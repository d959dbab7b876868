//! The folder of a build: made beside the kernels that are there, and renamed at the end.

use super::{LOG, OLD, Options, Source, TREE, WORK};
use crate::MachineError;
use crate::linux::kernels::{self, CONFIG, IMAGE, Kernel, MANIFEST};
use crate::os;
use hoistway::sched::{SCHEDULERS, module_name};
use hoistway_files::{Dir, Kind, PlaceError};
use rustix::fs::{FlockOperation, flock};
use std::fs::{self, File};
use std::path::PathBuf;

/// The folder of a build, for one at a time.
pub(super) struct Work {
    cache: Dir,
    pub folder: Dir,
    keep_tree: bool,
    /// Held until the end.
    _lock: File,
}

/// What a kernel is called, and made from.
pub(super) struct Facts {
    pub name: String,
    pub release: String,
    pub digest: String,
}

impl Work {
    pub fn begin(cache: Dir, keep_tree: bool) -> Result<Work, MachineError> {
        let lock = cache.place(".lock")?;
        let lock = if lock.what()?.is_none() { lock.create(0o666) } else { lock.open_writable() }?;
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            let cache = cache.path().display();
            let what = format!("{cache}: another build is at work there; wait for its end");
            return Err(MachineError::Program(what));
        }
        for left in [WORK, OLD] {
            let left = cache.place(left)?;
            left.may_fill(|dir| kernels::is_kernel(dir) || dir.holds(LOG, Kind::Named))?;
            if left.identity()?.is_some() {
                left.remove_tree(left.open_dir()?.identity()?)?;
            }
        }
        let folder = cache.place(WORK)?.fill(|_| false)?;
        Ok(Work { cache, folder, keep_tree, _lock: lock })
    }

    pub fn tree(&self) -> PathBuf {
        self.folder.path().join(TREE)
    }

    fn remove_tree(&self) -> Result<(), PlaceError> {
        let tree = self.folder.place(TREE)?;
        match tree.identity()? {
            None => Ok(()),
            Some(_) => tree.remove_tree(tree.open_dir()?.identity()?),
        }
    }

    /// Gives the folder the kernel's name.
    pub fn finish(
        self,
        source: &Source,
        options: &Options,
        facts: Facts,
    ) -> Result<Kernel, MachineError> {
        let home = self.cache.path().join(&facts.name);
        let name = |patch: &PathBuf| patch.file_name().unwrap_or_default().to_string_lossy().into();
        let kernel = Kernel {
            image: home.join(IMAGE),
            config: home.join(CONFIG),
            name: facts.name,
            release: facts.release,
            digest: facts.digest,
            source: source.path.display().to_string(),
            patches: options.patches.iter().map(name).collect(),
            module: if options.with_module { in_module() } else { Vec::new() },
        };
        let copy = |from: &str, to: &str| {
            let from = self.tree().join(from);
            let copied = fs::copy(&from, self.folder.path().join(to));
            copied.map(drop).map_err(os(from.display().to_string()))
        };
        copy("linux", IMAGE)?;
        copy(".config", CONFIG)?;
        if !self.keep_tree {
            self.remove_tree()?;
        }
        self.folder.place(MANIFEST)?.replace(kernel.manifest().as_bytes(), Kind::New)?;
        // The one before stands until the new one has its place: half a kernel would be found and not start.
        let (home, old) = (self.cache.place(&kernel.name)?, self.cache.place(OLD)?);
        home.may_hold(kernels::is_kernel)?;
        let before = home.identity()?.is_some();
        if before {
            home.rename_new(&old)?;
        }
        self.cache.place(WORK)?.rename_new(&home)?;
        if before {
            old.remove_tree(old.open_dir()?.identity()?)?;
        }
        Ok(kernel)
    }
}

/// What the module calls its schedulers.
fn in_module() -> Vec<String> {
    SCHEDULERS.iter().filter_map(|entry| module_name(entry)).map(str::to_string).collect()
}

impl Drop for Work {
    fn drop(&mut self) {
        // After a failure the log stays, and with `keep_tree` the tree.
        if !self.keep_tree {
            let _ = self.remove_tree();
        }
    }
}
