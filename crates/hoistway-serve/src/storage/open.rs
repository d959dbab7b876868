//! Targets: what a device is made of, how it is written and how it is opened.
//!
//! To add a backend, write a file with its [`TargetKind`] and a type that implements [`OpenTarget`], and add
//! its line to [`TARGETS`]: `hoistway serve`, its help and `hoistway list targets` follow the table.

use super::{Emulation, FileOptions, Opened, TARGETS, cow, emulate, file, null, ram};
use crate::error::ServeError;
use hoistway_sim::drive::DriveFile;
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

/// A kind of targets in the registry.
#[derive(Debug)]
pub struct TargetKind {
    /// What stands before the colon.
    pub name: &'static str,
    /// How it is written.
    pub syntax: &'static str,
    /// What it is.
    pub summary: &'static str,
    /// Keys of an export that only it understands.
    pub keys: &'static [TargetKey],
    /// Makes the target of what was written.
    pub parse: fn(&TargetText<'_>) -> Result<Target, TargetError>,
}

/// Why a target that was written cannot be.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TargetError {
    /// There is no colon in it.
    NoKind(String),
    /// No kind of that name.
    UnknownKind(String),
    /// A key that belongs to another kind.
    ForeignKey {
        /// The key.
        key: String,
        /// The kind that has it; `None`: there is none.
        of: Option<&'static str>,
        /// The kind of the target.
        kind: &'static str,
    },
    /// A key whose value is none.
    BadValue {
        /// The key.
        key: &'static str,
        /// The value.
        value: String,
        /// What it must be.
        wanted: String,
    },
    /// A size that is no quantity.
    Quantity(hoistway::quantity::QuantityError),
    /// A size that no device has: zero, more than 2^62, or not a multiple of 512 bytes.
    Size(u64),
    /// An emulated drive of which more is to be served than there is, or not in whole sectors.
    DriveSize {
        /// The drive.
        drive: String,
        /// Bytes asked for.
        size: u64,
        /// Bytes there are.
        whole: u64,
        /// Bytes per sector.
        sector: u64,
    },
    /// A drive file that cannot be read; why.
    Drive(String),
}

impl fmt::Display for TargetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = |item: fn(&TargetKind) -> &str| {
            listed(&TARGETS.iter().copied().map(item).collect::<Vec<_>>())
        };
        match self {
            TargetError::NoKind(text) => {
                write!(f, "target '{text}': write {}", all(|kind| kind.syntax))
            }
            TargetError::UnknownKind(name) => {
                write!(f, "no target '{name}'; write {}", all(|kind| kind.name))
            }
            TargetError::ForeignKey { key, of, kind } => {
                write!(f, "{key} is for {}, not for {kind}", of.unwrap_or("no target"))
            }
            TargetError::BadValue { key, value, wanted } => {
                write!(f, "{key} = '{value}': write {wanted}")
            }
            TargetError::Quantity(error) => error.fmt(f),
            TargetError::Size(size) => {
                write!(f, "a size of {size} bytes: choose a multiple of 512 above 0")
            }
            TargetError::DriveSize { drive, size, whole, sector } => write!(
                f,
                "{drive}: {size} bytes; choose at most its {whole}, in multiples of {sector}"
            ),
            TargetError::Drive(error) => f.write_str(error),
        }
    }
}

impl std::error::Error for TargetError {}

/// A key of an export that belongs to a kind of targets.
#[derive(Debug)]
pub struct TargetKey {
    /// Its name.
    pub name: &'static str,
    /// What its value looks like; empty: it is a switch.
    pub value: &'static str,
    /// What it does.
    pub help: &'static str,
}

/// A target as it was written.
#[derive(Clone, Copy, Debug)]
pub struct TargetText<'a> {
    /// What stands behind the colon.
    pub rest: &'a str,
    /// The keys of its kind that were given; the value of a switch is empty.
    pub keys: &'a BTreeMap<String, String>,
    /// Nothing may be written.
    pub read_only: bool,
}

impl TargetText<'_> {
    /// The value of a key.
    pub fn key(&self, name: &str) -> Option<&str> {
        self.keys.get(name).map(|value| &value[..])
    }

    /// The bytes that `text` names.
    pub fn bytes(&self, text: &str) -> Result<u64, TargetError> {
        hoistway::quantity::bytes(text).map_err(TargetError::Quantity)
    }
}

impl TargetKind {
    /// The target that a text names: `ram:1G`, with the keys of an export that are given for it.
    ///
    /// # Errors
    ///
    /// No such kind, a key of another kind, or what the kind says of the text.
    pub fn target(
        text: &str,
        keys: &BTreeMap<String, String>,
        read_only: bool,
    ) -> Result<Target, TargetError> {
        let Some((name, rest)) = text.split_once(':') else {
            return Err(TargetError::NoKind(text.into()));
        };
        let Some(kind) = TARGETS.iter().find(|kind| kind.name == name) else {
            return Err(TargetError::UnknownKind(name.into()));
        };
        let has = |kind: &TargetKind, key: &str| kind.keys.iter().any(|k| k.name == key);
        if let Some(key) = keys.keys().find(|key| !has(kind, key)) {
            let of = TARGETS.iter().find(|kind| has(kind, key)).map(|kind| kind.syntax);
            return Err(TargetError::ForeignKey { key: key.clone(), of, kind: kind.name });
        }
        (kind.parse)(&TargetText { rest, keys, read_only })
    }
}

/// `a, b or c`.
fn listed(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [one] => one.to_string(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    }
}

/// A target that opens itself.
pub(crate) trait OpenTarget: fmt::Debug + Send + Sync {
    fn open(&self) -> Result<Opened, ServeError>;
}

/// A target of a kind that has no variant of its own in [`Target`].
#[derive(Clone, Debug)]
pub struct OtherTarget(Arc<dyn OpenTarget>);

impl OtherTarget {
    #[allow(dead_code, reason = "the way in for backends without a variant of their own")]
    pub(crate) fn new(target: impl OpenTarget + 'static) -> OtherTarget {
        OtherTarget(Arc::new(target))
    }
}

/// What a device is made of.
#[derive(Clone, Debug)]
pub enum Target {
    /// Memory that is given back when it is discarded; contents are lost at the end.
    Ram {
        /// Size in bytes, a multiple of 512.
        size: u64,
    },
    /// Takes writes and forgets them, reads as zeroes: for measuring everything else.
    Null {
        /// Size in bytes, a multiple of 512.
        size: u64,
    },
    /// A file or block device.
    File {
        /// Its path.
        path: PathBuf,
        /// How it is used.
        options: FileOptions,
    },
    /// A drive that behaves as its model, on the wall clock.
    Emulated(Box<Emulation>),
    /// Copy on write: a base that is only read, and an overlay for everything that is written.
    Cow {
        /// The base; a file is opened for reading only.
        base: Box<Target>,
        /// A file for what is written, made if there is none, kept, and only good with this very base;
        /// `None`: memory, and all of it is gone at the end.
        overlay: Option<PathBuf>,
    },
    /// Any other kind of the registry.
    Other(OtherTarget),
}

impl Target {
    /// An emulated drive whose data is in memory, of the drive's own size.
    pub fn emulated(drive: DriveFile) -> Target {
        Target::Emulated(Box::new(Emulation::new(drive)))
    }

    pub(crate) fn open(&self) -> Result<Opened, ServeError> {
        match self {
            Target::Ram { size } => ram::open(check_size(*size)?),
            Target::Null { size } => null::open(check_size(*size)?),
            Target::File { path, options } => file::open(path, options),
            Target::Emulated(emulation) => emulate::open(emulation),
            Target::Cow { base, overlay } => cow::open(base, overlay.as_deref()),
            Target::Other(OtherTarget(target)) => target.open(),
        }
    }
}

fn check_size(size: u64) -> Result<u64, TargetError> {
    if size == 0 || !size.is_multiple_of(512) || size > 1 << 62 {
        return Err(TargetError::Size(size));
    }
    Ok(size)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Device, DeviceOptions};

    fn target(text: &str, keys: &[(&str, &str)]) -> Result<Target, String> {
        let keys = keys.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
        TargetKind::target(text, &keys, false).map_err(|e| e.to_string())
    }

    #[test]
    fn the_registry_names_each_kind_and_key_once() {
        for (at, kind) in TARGETS.iter().enumerate() {
            assert!(kind.syntax.starts_with(&format!("{}:", kind.name)), "{kind:?}");
            assert!(!TARGETS[..at].iter().any(|other| other.name == kind.name));
            for key in kind.keys {
                let of = TARGETS.iter().filter(|k| k.keys.iter().any(|k| k.name == key.name));
                assert_eq!(of.count(), 1, "{key:?}");
            }
        }
    }

    #[test]
    fn mistakes_say_what_there_is() {
        assert!(
            target("ram", &[]).unwrap_err().contains("write ram:SIZE, null:SIZE, file:PATH or")
        );
        assert!(target("rom:1G", &[]).unwrap_err().contains("write ram, null, file or emulate"));
        assert!(
            target("ram:1G", &[("direct", "")]).unwrap_err().contains("direct is for file:PATH")
        );
        assert!(target("file:/x", &[("way", "fast")]).unwrap_err().contains("io_uring or threads"));
        assert!(
            target("emulate:fixed-100us", &[("seed", "x")]).unwrap_err().contains("seed = 'x'")
        );
    }

    /// A backend without a variant of its own.
    #[derive(Debug)]
    struct Registered;

    impl OpenTarget for Registered {
        fn open(&self) -> Result<Opened, ServeError> {
            Target::Null { size: 1 << 20 }.open()
        }
    }

    #[test]
    fn a_backend_needs_no_variant() {
        let target = Target::Other(OtherTarget::new(Registered));
        let device = Device::open(&target, &DeviceOptions::default()).unwrap();
        assert_eq!(device.size(), 1 << 20);
    }
}
