//! Kernels that are built, in the cache directory: a folder each, with the program, its configuration, the log of its
//! build and a manifest.
//!
//! The manifest is written last, into a folder that then gets its name: a folder with a manifest is a whole kernel.

use crate::os;
use crate::{MachineError, kernel::Lack};
use hoistway_files::{Dir, Kind, Place};
use std::cmp::Ordering;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A kernel that is built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// What it is called: `6.1`, or what `--name` said.
    pub name: String,
    /// Its release, such as `6.1.170`.
    pub release: String,
    /// The program.
    pub image: PathBuf,
    /// Its configuration.
    pub config: PathBuf,
    /// Of its source, patches, our files and configuration.
    pub digest: String,
    /// Where its source came from.
    pub source: String,
    /// Names of the patches that were applied.
    pub patches: Vec<String>,
    /// Schedulers of hoistway's module that is built in, by the module's names.
    pub module: Vec<String>,
}

/// What a kernel contains, by its configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// I/O schedulers.
    pub schedulers: Vec<&'static str>,
    /// Controllers of blk-cgroup, and write-back throttling.
    pub controllers: Vec<&'static str>,
    /// File systems.
    pub file_systems: Vec<&'static str>,
    /// Ticks per second.
    pub hz: Option<u64>,
}

/// What a kernel may contain, and the option that says so.
const SCHEDULERS: &[(&str, &str)] = &[
    ("mq-deadline", "MQ_IOSCHED_DEADLINE"),
    ("kyber", "MQ_IOSCHED_KYBER"),
    ("bfq", "IOSCHED_BFQ"),
];
const CONTROLLERS: &[(&str, &str)] = &[
    ("io.max", "BLK_DEV_THROTTLING"),
    ("io.latency", "BLK_CGROUP_IOLATENCY"),
    ("io.cost", "BLK_CGROUP_IOCOST"),
    ("io.prio.class", "BLK_CGROUP_IOPRIO"),
    ("io.bfq.weight", "BFQ_GROUP_IOSCHED"),
    ("wbt", "BLK_WBT_MQ"),
];
const FILE_SYSTEMS: &[(&str, &str)] =
    &[("ext4", "EXT4_FS"), ("btrfs", "BTRFS_FS"), ("xfs", "XFS_FS")];

impl Kernel {
    /// What it contains.
    ///
    /// # Errors
    ///
    /// Its configuration cannot be read.
    pub fn contents(&self) -> Result<Contents, MachineError> {
        let text =
            fs::read_to_string(&self.config).map_err(os(self.config.display().to_string()))?;
        Ok(Contents::of(&text))
    }

    fn read(folder: &Path) -> Result<Option<Kernel>, MachineError> {
        let path = folder.join(MANIFEST);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            // A build under way, or what is left of one that was killed.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(os(path.display().to_string())(error)),
        };
        let name = folder.file_name().map(|name| name.to_string_lossy().into_owned());
        Kernel::parse(&name.unwrap_or_default(), folder, &text).map(Some).map_err(|what| {
            let (path, folder) = (path.display(), folder.display());
            MachineError::Refused(format!("{path}: {what}; remove {folder} and build it anew"))
        })
    }

    fn parse(name: &str, folder: &Path, text: &str) -> Result<Kernel, String> {
        let table: toml::Table = text.parse().map_err(|e: toml::de::Error| e.to_string())?;
        let field = |key: &str| {
            let value = table.get(key).and_then(toml::Value::as_str).map(str::to_string);
            value.ok_or_else(|| format!("no `{key}`"))
        };
        let list = |key: &str| {
            let values = table.get(key).and_then(toml::Value::as_array)?.iter();
            Some(values.filter_map(|v| v.as_str().map(str::to_string)).collect::<Vec<_>>())
        };
        Ok(Kernel {
            name: name.to_string(),
            release: field("release")?,
            image: folder.join(IMAGE),
            config: folder.join(CONFIG),
            digest: field("digest")?,
            source: field("source")?,
            patches: list("patches").ok_or("no `patches`")?,
            // Kernels without it do not say so.
            module: list("module").unwrap_or_default(),
        })
    }

    /// Its manifest.
    pub(super) fn manifest(&self) -> String {
        let mut table = toml::Table::new();
        for (key, value) in
            [("release", &self.release), ("digest", &self.digest), ("source", &self.source)]
        {
            table.insert(key.into(), value.as_str().into());
        }
        let list = |words: &[String]| -> toml::Value {
            words.iter().map(|word| toml::Value::from(word.as_str())).collect::<Vec<_>>().into()
        };
        table.insert("patches".into(), list(&self.patches));
        if !self.module.is_empty() {
            table.insert("module".into(), list(&self.module));
        }
        table.to_string()
    }
}

impl Contents {
    /// Of the text of a configuration.
    pub fn of(config: &str) -> Contents {
        let set = |option: &str| config.lines().any(|line| line == format!("CONFIG_{option}=y"));
        let those = |list: &[(&'static str, &str)]| -> Vec<&'static str> {
            list.iter().filter(|(_, option)| set(option)).map(|&(name, _)| name).collect()
        };
        Contents {
            schedulers: those(SCHEDULERS),
            controllers: those(CONTROLLERS),
            file_systems: those(FILE_SYSTEMS),
            hz: config.lines().find_map(|l| l.strip_prefix("CONFIG_HZ=")?.parse().ok()),
        }
    }
}

/// The kernels that are built, the newest release last.
///
/// # Errors
///
/// The cache directory, or a manifest in it, cannot be read.
pub fn list() -> Result<Vec<Kernel>, MachineError> {
    list_in(&folder()?)
}

/// The kernel of that name; `None`: the newest release.
///
/// # Errors
///
/// It is not built.
pub fn find(name: Option<&str>) -> Result<Kernel, MachineError> {
    find_in(&folder()?, name)
}

/// Removes the kernel of that name.
///
/// # Errors
///
/// There is none, or it cannot be removed.
pub fn remove(name: &str) -> Result<(), MachineError> {
    let folder = folder()?;
    find_in(&folder, Some(name))?;
    let place = Place::of(&folder.join(name))?;
    place.may_fill(is_kernel)?;
    let home = place.open_dir()?;
    // What is half gone is no kernel.
    home.place(MANIFEST)?.remove_file()?;
    Ok(place.remove_tree(home.identity()?)?)
}

/// Whether a folder is that of a kernel, by the beginning of its manifest.
pub(super) fn is_kernel(dir: &Dir) -> bool {
    dir.holds(MANIFEST, Kind::Begins(&[b"digest = \""]))
}

/// Refuses a name that something of others has in the cache directory.
pub(super) fn check_name(cache: &Path, name: &str) -> Result<(), MachineError> {
    Ok(Place::of(&cache.join(name))?.may_hold(is_kernel)?)
}

/// Where kernels are: `linux` in the cache directory.
pub(super) fn folder() -> Result<PathBuf, MachineError> {
    Ok(cache()?.join("linux"))
}

/// The cache directory of hoistway.
///
/// # Errors
///
/// No environment variable tells where it is.
pub(crate) fn cache() -> Result<PathBuf, MachineError> {
    let set = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    let cache = set("HOISTWAY_CACHE_DIR")
        .or_else(|| set("XDG_CACHE_HOME").map(|folder| folder.join("hoistway")))
        .or_else(|| set("HOME").map(|home| home.join(".cache/hoistway")));
    cache.ok_or_else(|| {
        let why = "neither HOISTWAY_CACHE_DIR nor XDG_CACHE_HOME nor HOME is set";
        MachineError::Lack(Lack::new("a cache directory", why, "set one of them"))
    })
}

fn list_in(folder: &Path) -> Result<Vec<Kernel>, MachineError> {
    let what = || folder.display().to_string();
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(os(what())(error)),
    };
    let mut kernels = Vec::new();
    for entry in entries {
        let entry = entry.map_err(os(what()))?;
        if name_is_good(&entry.file_name().to_string_lossy()) {
            kernels.extend(Kernel::read(&entry.path())?);
        }
    }
    // The order of a folder's entries is none.
    kernels.sort_by(|a, b| by_release(&a.release, &b.release).then(a.name.cmp(&b.name)));
    Ok(kernels)
}

fn find_in(folder: &Path, name: Option<&str>) -> Result<Kernel, MachineError> {
    let mut kernels = list_in(folder)?;
    let lack = |what: String, why: String, remedy: &str| {
        Err(MachineError::Lack(Lack::new(what, why, remedy)))
    };
    let Some(name) = name else {
        let why = format!("none is built in {}", folder.display());
        let remedy = "`hoistway linux build` builds one";
        return kernels.pop().map_or_else(|| lack("a kernel".into(), why, remedy), Ok);
    };
    let names: Vec<&str> = kernels.iter().map(|k| k.name.as_str()).collect();
    let why = match names.as_slice() {
        [] => format!("none is built in {}", folder.display()),
        names => format!("not built; there are {}", names.join(", ")),
    };
    match kernels.iter().find(|k| k.name == name) {
        Some(kernel) => Ok(kernel.clone()),
        None => {
            let remedy = format!("`hoistway linux build --source SOURCE --name {name}` builds it");
            lack(format!("kernel {name}"), why, &remedy)
        }
    }
}

/// A name that is one folder and no option.
pub(super) fn name_is_good(name: &str) -> bool {
    let usual = |c: char| c.is_ascii_alphanumeric() || "._-+".contains(c);
    !name.is_empty() && name.chars().all(usual) && !name.starts_with(['.', '-'])
}

/// By the numbers in them; `6.9` is older than `6.12`, and `6.12-rc1` than `6.12`.
pub(super) fn by_release(a: &str, b: &str) -> Ordering {
    let numbers = |release: &str| -> Vec<u64> {
        let (numbers, _) = release.split_once('-').unwrap_or((release, ""));
        numbers.split('.').map(|n| n.parse().unwrap_or(0)).collect()
    };
    let candidate = |release: &str| release.contains("-rc");
    numbers(a).cmp(&numbers(b)).then(candidate(b).cmp(&candidate(a))).then_with(|| a.cmp(b))
}

pub(super) const MANIFEST: &str = "kernel.toml";
pub(super) const IMAGE: &str = "linux";
pub(super) const CONFIG: &str = "config";

#[cfg(test)]
mod tests {
    use super::*;

    fn scratch(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("hoistway-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    fn kernel(folder: &Path, name: &str, release: &str) -> Kernel {
        let home = folder.join(name);
        let kernel = Kernel {
            name: name.into(),
            release: release.into(),
            image: home.join(IMAGE),
            config: home.join(CONFIG),
            digest: "d".into(),
            source: "/usr/src/linux-source-6.1.tar.xz".into(),
            patches: vec!["a \"quoted\".patch".into()],
            module: if name.ends_with("-hoistway") { vec!["h-bfq".into()] } else { Vec::new() },
        };
        fs::create_dir_all(&home).unwrap();
        fs::write(home.join(MANIFEST), kernel.manifest()).unwrap();
        kernel
    }

    #[test]
    fn releases_are_ordered_by_their_numbers() {
        let mut releases = ["6.12.9", "6.1.170", "6.9-rc2", "5.4", "6.9", "6.12.9-mine"];
        releases.sort_by(|a, b| by_release(a, b));
        assert_eq!(releases, ["5.4", "6.1.170", "6.9-rc2", "6.9", "6.12.9", "6.12.9-mine"]);
    }

    #[test]
    fn the_newest_is_found_and_what_is_half_built_is_not() {
        let folder = scratch("kernels");
        assert_eq!(list_in(&folder.join("nothing")).unwrap(), []);
        let old = kernel(&folder, "mine", "6.1.170");
        let new = kernel(&folder, "6.12", "6.12.9");
        fs::create_dir(folder.join("7.0")).unwrap();
        kernel(&folder, ".building-8.0", "8.0");
        assert_eq!(list_in(&folder).unwrap(), [old.clone(), new.clone()]);
        assert_eq!(find_in(&folder, None).unwrap(), new);
        let with_module = kernel(&folder, "6.12-hoistway", "6.12.9");
        assert_eq!(find_in(&folder, None).unwrap(), with_module, "it has all that the other has");
        fs::remove_dir_all(folder.join("6.12-hoistway")).unwrap();
        assert_eq!(find_in(&folder, Some("mine")).unwrap(), old);
        let error = find_in(&folder, Some("7.0")).unwrap_err().to_string();
        assert_eq!(
            error,
            "kernel 7.0: not built; there are mine, 6.12; `hoistway linux build --source SOURCE --name 7.0` builds it"
        );
        fs::write(folder.join("mine").join(MANIFEST), "release = 1").unwrap();
        let error = list_in(&folder).unwrap_err().to_string();
        assert!(error.contains("mine/kernel.toml: no `release`; remove"), "{error}");
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_name_is_one_folder() {
        assert!(["6.1", "mine-2", "v6.12+x"].iter().all(|n| name_is_good(n)));
        assert!(!["", ".", "..", ".x", "a/b", "-x", "a b"].iter().any(|n| name_is_good(n)));
    }

    #[test]
    fn what_a_kernel_contains_is_read_from_its_configuration() {
        let text = "CONFIG_IOSCHED_BFQ=y\n# CONFIG_XFS_FS is not set\nCONFIG_EXT4_FS=y\n\
                    CONFIG_EXT4_FS_SECURITY=y\nCONFIG_BLK_WBT_MQ=y\nCONFIG_HZ=250\n";
        let contents = Contents::of(text);
        assert_eq!(contents.schedulers, ["bfq"]);
        assert_eq!(contents.controllers, ["wbt"]);
        assert_eq!(contents.file_systems, ["ext4"]);
        assert_eq!(contents.hz, Some(250));
    }
}
