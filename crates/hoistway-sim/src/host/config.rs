//! Parameters of the host: eras and their differences (specs/host.md 1.4 and 15).

use super::ahead::Variant;
use crate::load::params::{quantity, real, switch, whole};
use crate::world::JobError;
use hoistway::Profile;

/// The file system: where its journal's flags and its fdatasync come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fs {
    /// ext4, ordered, flush at every fdatasync while barriers are on.
    Ext4,
    /// ext3 of 2.6.30 to 36: fdatasync of allocated blocks never flushes.
    Ext3,
}

/// Parameters of the host: an era's profile (host.md 1.4) and what differs from it (host.md 15).
#[derive(Clone, Debug)]
pub struct HostConfig {
    profile: &'static str,
    /// Bytes of memory.
    pub(super) ram: u64,
    /// Percent of the dirtyable memory above which background write-back would begin.
    pub(super) dirty_background_ratio: u64,
    pub(super) read_ahead_kb: u64,
    pub(super) fs: Fs,
    pub(super) barriers: bool,
    /// Age at which a transaction is committed.
    pub(super) commit_s: u64,
    pub(super) readahead_variant: Variant,
    pub(super) block_profile: Profile,
    /// `None`: the drive file's.
    pub(super) start_frac: Option<f64>,
    pub(super) layout_gap_kib: u64,
    /// `None`: the drive file's.
    pub(super) copy_ns_per_kib: Option<u64>,
    pub(super) submit_ns: u64,
    pub(super) wake_ns: u64,
    pub(super) sync_call_ns: u64,
}

/// Names that [`HostConfig::set`] takes.
const NAMES: &[&str] = &[
    "ram",
    "dirty_background_ratio",
    "read_ahead_kb",
    "fs",
    "barriers",
    "commit_s",
    "readahead_variant",
    "block_profile",
    "start_frac",
    "layout_gap_kib",
    "copy_ns_per_kib",
    "submit_ns",
    "wake_ns",
    "sync_call_ns",
];

const PROFILES: &[&str] = &["2018", "2019", "today", "2012", "2010", "2009", "netbook-2009"];

impl HostConfig {
    /// A profile by name: `2019`, `2018`, `today`, `2012`, `2010`, `2009`, `netbook-2009`.
    pub fn profile(name: &str) -> Result<HostConfig, JobError> {
        let Some(&profile) = PROFILES.iter().find(|&&p| p == name) else {
            return Err(JobError::Unknown {
                kind: "host profile",
                name: name.to_string(),
                known: PROFILES.iter().map(|p| p.to_string()).collect(),
            });
        };
        let modern = HostConfig {
            profile,
            ram: 8 << 30,
            dirty_background_ratio: 10,
            read_ahead_kb: 128,
            fs: Fs::Ext4,
            barriers: true,
            commit_s: 5,
            readahead_variant: Variant::Ra61 { large_requests: true },
            block_profile: Profile::MultiQueue,
            start_frac: None,
            layout_gap_kib: 8192,
            copy_ns_per_kib: None,
            submit_ns: 1000,
            wake_ns: 1400,
            sync_call_ns: 11_000,
        };
        let legacy = HostConfig { ram: 2 << 30, block_profile: Profile::Legacy, ..modern.clone() };
        let ext3 = HostConfig { fs: Fs::Ext3, barriers: false, ..legacy.clone() };
        Ok(match profile {
            "2012" => legacy,
            "2010" => {
                HostConfig { readahead_variant: Variant::Ra61 { large_requests: false }, ..ext3 }
            }
            "2009" => HostConfig { readahead_variant: Variant::Ra30, ..ext3 },
            "netbook-2009" => HostConfig { readahead_variant: Variant::Ra30, ram: 1 << 30, ..ext3 },
            _ => modern,
        })
    }

    /// Sets one parameter by its name in host.md 15.
    pub fn set(&mut self, name: &str, value: &toml::Value) -> Result<(), JobError> {
        let wrong = |message: String| JobError::Parameter {
            of: "host".into(),
            message: format!("{name} = {value}: {message}"),
        };
        let between = |lo: u64, hi: u64| -> Result<u64, JobError> {
            let v = whole(value).map_err(wrong)?;
            if v < lo || v > hi {
                return Err(wrong(format!("choose a number in {lo}..={hi}")));
            }
            Ok(v)
        };
        let word = || value.as_str().unwrap_or_default();
        match name {
            "ram" => {
                let bytes = quantity(value).map_err(wrong)?;
                if !(64 << 20..=1 << 50).contains(&bytes) {
                    return Err(wrong("choose 64M or more".into()));
                }
                self.ram = bytes;
            }
            "dirty_background_ratio" => self.dirty_background_ratio = between(1, 100)?,
            "read_ahead_kb" => self.read_ahead_kb = between(0, 1 << 20)?,
            "fs" => {
                self.fs = match word() {
                    "ext4" => Fs::Ext4,
                    "ext3" => Fs::Ext3,
                    _ => return Err(wrong("choose \"ext4\" or \"ext3\"".into())),
                }
            }
            "barriers" => self.barriers = switch(value).map_err(wrong)?,
            "commit_s" => self.commit_s = between(1, 3600)?,
            "readahead_variant" => {
                self.readahead_variant = match word() {
                    "ra61" => Variant::Ra61 { large_requests: true },
                    "ra30" => Variant::Ra30,
                    _ => return Err(wrong("choose \"ra61\" or \"ra30\"".into())),
                }
            }
            "block_profile" => {
                self.block_profile = match word() {
                    "legacy" => Profile::Legacy,
                    "multi-queue" => Profile::MultiQueue,
                    _ => return Err(wrong("choose \"legacy\" or \"multi-queue\"".into())),
                }
            }
            "start_frac" => {
                let f = real(value).map_err(wrong)?;
                if !(0.0..1.0).contains(&f) {
                    return Err(wrong("choose a number from 0 to below 1".into()));
                }
                self.start_frac = Some(f);
            }
            "layout_gap_kib" => self.layout_gap_kib = between(0, 1 << 30)?,
            "copy_ns_per_kib" => self.copy_ns_per_kib = Some(between(0, 1_000_000)?),
            "submit_ns" => self.submit_ns = between(0, 1_000_000)?,
            "wake_ns" => self.wake_ns = between(0, 1_000_000)?,
            "sync_call_ns" => self.sync_call_ns = between(0, 1_000_000_000)?,
            _ => {
                return Err(JobError::Unknown {
                    kind: "host parameter",
                    name: name.to_string(),
                    known: NAMES.iter().map(|n| n.to_string()).collect(),
                });
            }
        }
        Ok(())
    }

    /// The generation of the block layer.
    pub fn block_profile(&self) -> Profile {
        self.block_profile
    }

    /// Every parameter in force, for the record of a run.
    pub(super) fn parameters(
        &self,
        copy_ns_per_kib: u64,
        start_frac: f64,
    ) -> Vec<(String, String)> {
        let variant = match self.readahead_variant {
            Variant::Ra61 { large_requests: true } => "ra61",
            Variant::Ra61 { large_requests: false } => "ra61 without large requests",
            Variant::Ra30 => "ra30",
        };
        let fs = if self.fs == Fs::Ext4 { "ext4" } else { "ext3" };
        let block = if self.block_profile == Profile::Legacy { "legacy" } else { "multi-queue" };
        let rows: [(&str, String); 15] = [
            ("profile", self.profile.into()),
            ("ram", self.ram.to_string()),
            ("dirty_background_ratio", self.dirty_background_ratio.to_string()),
            ("read_ahead_kb", self.read_ahead_kb.to_string()),
            ("fs", fs.into()),
            ("barriers", self.barriers.to_string()),
            ("commit_s", self.commit_s.to_string()),
            ("readahead_variant", variant.into()),
            ("block_profile", block.into()),
            ("start_frac", start_frac.to_string()),
            ("layout_gap_kib", self.layout_gap_kib.to_string()),
            ("copy_ns_per_kib", copy_ns_per_kib.to_string()),
            ("submit_ns", self.submit_ns.to_string()),
            ("wake_ns", self.wake_ns.to_string()),
            ("sync_call_ns", self.sync_call_ns.to_string()),
        ];
        rows.into_iter().map(|(name, value)| (name.to_string(), value)).collect()
    }
}
