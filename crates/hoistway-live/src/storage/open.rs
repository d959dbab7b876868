//! Targets: what a device is made of, how it is written and how it is opened.
//!
//! To add a backend, write a file with its [`TargetKind`] and a type that implements [`OpenTarget`], and add
//! its line to [`TARGETS`]: `hoistway serve`, its help and `hoistway list targets` follow the table.

use super::{Emulation, FileOptions, Opened, TARGETS, cow, emulate, file, null, ram};
use crate::error::LiveError;
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
    pub parse: fn(&TargetText<'_>) -> Result<Target, LiveError>,
}

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
    pub fn bytes(&self, text: &str) -> Result<u64, LiveError> {
        hoistway::quantity::bytes(text).map_err(|e| LiveError::Refused(e.to_string()))
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
    ) -> Result<Target, LiveError> {
        let all =
            |item: fn(&TargetKind) -> &str| TARGETS.iter().copied().map(item).collect::<Vec<_>>();
        let Some((name, rest)) = text.split_once(':') else {
            let syntax = listed(&all(|kind| kind.syntax));
            return Err(LiveError::Refused(format!("target '{text}': write {syntax}")));
        };
        let Some(kind) = TARGETS.iter().find(|kind| kind.name == name) else {
            let names = listed(&all(|kind| kind.name));
            return Err(LiveError::Refused(format!("no target '{name}'; write {names}")));
        };
        let is_its_own = |key: &String| kind.keys.iter().any(|k| k.name == key);
        if let Some(key) = keys.keys().find(|key| !is_its_own(key)) {
            let of = TARGETS.iter().find(|kind| kind.keys.iter().any(|k| k.name == key));
            let of = of.map_or("no target", |kind| kind.syntax);
            return Err(LiveError::Refused(format!("{key} is for {of}, not for {name}")));
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
    fn open(&self) -> Result<Opened, LiveError>;
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

    pub(crate) fn open(&self) -> Result<Opened, LiveError> {
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

fn check_size(size: u64) -> Result<u64, LiveError> {
    if size == 0 || !size.is_multiple_of(512) || size > 1 << 62 {
        let message = format!("a size of {size} bytes: choose a multiple of 512 above 0");
        return Err(LiveError::Refused(message));
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
        fn open(&self) -> Result<Opened, LiveError> {
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
