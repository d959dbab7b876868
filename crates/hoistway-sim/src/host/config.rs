//! Parameters of the host: eras and their differences (specs/host.md 1.4 and 15).

use super::ahead::Variant;
use super::cache::PAGE;
use crate::drive::DriveFile;
use crate::load::params::{quantity, real, switch, whole};
use crate::world::JobError;
use hoistway::Profile;
use hoistway::device::RunAtCompletion;
use hoistway::setting::Unit;

/// The file system: where its journal's flags and its fdatasync come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fs {
    /// ext4, ordered, flush at every fdatasync while barriers are on.
    Ext4,
    /// ext3 of 2.6.30 to 36: fdatasync of allocated blocks never flushes.
    Ext3,
}

/// Who writes when too much is dirty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writeback {
    /// Linux 6.1: the writer sleeps, the flusher writes (specs/host.md 8.1).
    Wb61,
    /// Linux 2.6.30 to 36: the writer itself writes (specs/host.md 8.2).
    Wb30,
}

/// What a commit waits for (specs/host.md 11).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataMode {
    /// The data of newly allocated blocks.
    Ordered,
    /// Nothing.
    Writeback,
}

/// Parameters of the host: an era's profile (host.md 1.4) and what differs from it (host.md 15).
#[derive(Clone, Debug)]
pub struct HostConfig {
    profile: &'static str,
    /// Bytes of memory.
    pub(super) ram: u64,
    /// Percent of the dirtyable memory above which background write-back begins.
    pub(super) dirty_background_ratio: u64,
    /// The same in bytes; rules where given.
    pub(super) dirty_background_bytes: Option<u64>,
    /// Percent of the dirtyable memory that may be dirty or under write-back.
    pub(super) dirty_ratio: u64,
    /// The same in bytes; rules where given.
    pub(super) dirty_bytes: Option<u64>,
    /// Interval of the periodic write-back, in hundredths of a second.
    pub(super) dirty_writeback_centisecs: u64,
    /// Age at which the periodic write-back writes a page, in hundredths of a second.
    pub(super) dirty_expire_centisecs: u64,
    pub(super) writeback_variant: Writeback,
    /// One flusher per group; `None`: where the era's file system has it and the job has groups.
    pub(super) group_writeback: Option<bool>,
    pub(super) read_ahead_kb: u64,
    pub(super) fs: Fs,
    pub(super) data_mode: DataMode,
    pub(super) barriers: bool,
    /// fsync asks for the commit while its data is on its way: kernels before 2.6.32.
    pub(super) commit_beside_data: bool,
    /// Age at which a transaction is committed.
    pub(super) commit_s: u64,
    pub(super) readahead_variant: Variant,
    pub(super) block_profile: Profile,
    run_at_completion: RunAtCompletion,
    delayed_rerun: bool,
    bfq_base: &'static str,
    /// `None`: the drive file's.
    pub(super) start_frac: Option<f64>,
    pub(super) layout_gap_kib: u64,
    /// `None`: the drive file's.
    pub(super) copy_ns_per_kib: Option<u64>,
    pub(super) submit_ns: u64,
    pub(super) wake_ns: u64,
    pub(super) sync_call_ns: u64,
    /// A direct call before its first bio (host.md 2.1).
    pub(super) direct_call_ns: u64,
}

/// Names that [`HostConfig::set`] takes.
const NAMES: &[&str] = &[
    "ram",
    "dirty_background_ratio",
    "dirty_background_bytes",
    "dirty_ratio",
    "dirty_bytes",
    "dirty_writeback_centisecs",
    "dirty_expire_centisecs",
    "writeback_variant",
    "group_writeback",
    "read_ahead_kb",
    "fs",
    "data_mode",
    "barriers",
    "commit_s",
    "readahead_variant",
    "block_profile",
    "run_at_completion",
    "delayed_rerun",
    "bfq_base",
    "start_frac",
    "layout_gap_kib",
    "copy_ns_per_kib",
    "submit_ns",
    "wake_ns",
    "sync_call_ns",
];

/// The words of BFQ's tunable `base`.
fn bases() -> &'static [&'static str] {
    match hoistway::sched::bfq::ENTRY.tunables.iter().find(|t| t.name == "base").map(|t| t.unit) {
        Some(Unit::Choice(words)) => words,
        _ => &[],
    }
}

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
            dirty_background_bytes: None,
            dirty_ratio: 20,
            dirty_bytes: None,
            dirty_writeback_centisecs: 500,
            dirty_expire_centisecs: 3000,
            writeback_variant: Writeback::Wb61,
            group_writeback: None,
            read_ahead_kb: 128,
            fs: Fs::Ext4,
            data_mode: DataMode::Ordered,
            barriers: true,
            commit_beside_data: false,
            commit_s: 5,
            readahead_variant: Variant::Ra61 { large_requests: true },
            block_profile: Profile::MultiQueue,
            run_at_completion: RunAtCompletion::Never,
            delayed_rerun: true,
            bfq_base: "hoistway",
            start_frac: None,
            layout_gap_kib: 8192,
            copy_ns_per_kib: None,
            submit_ns: 1000,
            wake_ns: 1400,
            sync_call_ns: 11_000,
            direct_call_ns: 1_500,
        };
        // Kernels before 5.10 (specs/blk-mq-and-noop.md 7.4), with the BFQ of the comparison of 2019
        // (specs/bfq.md 11.7).
        let older = HostConfig {
            run_at_completion: RunAtCompletion::Scsi,
            delayed_rerun: false,
            bfq_base: "5.3",
            ..modern.clone()
        };
        let legacy = HostConfig { ram: 2 << 30, block_profile: Profile::Legacy, ..modern.clone() };
        let ext3 = HostConfig {
            writeback_variant: Writeback::Wb30,
            fs: Fs::Ext3,
            barriers: false,
            ..legacy.clone()
        };
        Ok(match profile {
            "2018" | "2019" => older,
            "2012" => legacy,
            "2010" => {
                HostConfig { readahead_variant: Variant::Ra61 { large_requests: false }, ..ext3 }
            }
            "2009" => HostConfig {
                readahead_variant: Variant::Ra30,
                data_mode: DataMode::Writeback,
                commit_beside_data: true,
                ..ext3
            },
            "netbook-2009" => HostConfig {
                readahead_variant: Variant::Ra30,
                commit_beside_data: true,
                ram: 1 << 30,
                ..ext3
            },
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
        let bytes = || -> Result<u64, JobError> {
            let bytes = quantity(value).map_err(wrong)?;
            if !(PAGE..=1 << 50).contains(&bytes) {
                return Err(wrong("choose at least one page of 4 KiB".into()));
            }
            Ok(bytes)
        };
        match name {
            "ram" => {
                let bytes = quantity(value).map_err(wrong)?;
                if !(64 << 20..=1 << 50).contains(&bytes) {
                    return Err(wrong("choose 64M or more".into()));
                }
                self.ram = bytes;
            }
            "dirty_background_ratio" => self.dirty_background_ratio = between(1, 100)?,
            "dirty_background_bytes" => self.dirty_background_bytes = Some(bytes()?),
            "dirty_ratio" => self.dirty_ratio = between(1, 100)?,
            "dirty_bytes" => self.dirty_bytes = Some(bytes()?),
            "dirty_writeback_centisecs" => {
                self.dirty_writeback_centisecs = between(1, 360_000)?;
            }
            "dirty_expire_centisecs" => self.dirty_expire_centisecs = between(1, 360_000)?,
            "writeback_variant" => {
                self.writeback_variant = match word() {
                    "wb61" => Writeback::Wb61,
                    "wb30" => Writeback::Wb30,
                    _ => return Err(wrong("choose \"wb61\" or \"wb30\"".into())),
                }
            }
            "group_writeback" => self.group_writeback = Some(switch(value).map_err(wrong)?),
            "read_ahead_kb" => self.read_ahead_kb = between(0, 1 << 20)?,
            "fs" => {
                self.fs = match word() {
                    "ext4" => Fs::Ext4,
                    "ext3" => Fs::Ext3,
                    _ => return Err(wrong("choose \"ext4\" or \"ext3\"".into())),
                }
            }
            "data_mode" => {
                self.data_mode = match word() {
                    "ordered" => DataMode::Ordered,
                    "writeback" => DataMode::Writeback,
                    _ => return Err(wrong("choose \"ordered\" or \"writeback\"".into())),
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
            "run_at_completion" => {
                self.run_at_completion = match word() {
                    "never" => RunAtCompletion::Never,
                    "scsi" => RunAtCompletion::Scsi,
                    _ => return Err(wrong("choose \"never\" or \"scsi\"".into())),
                }
            }
            "delayed_rerun" => self.delayed_rerun = switch(value).map_err(wrong)?,
            "bfq_base" => {
                let words = bases();
                let known = words.iter().find(|&&w| w == word());
                let choices = words.join("\", \"");
                let unknown = || wrong(format!("choose one of \"{choices}\""));
                self.bfq_base = known.ok_or_else(unknown)?;
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

    /// The processes are real threads, whose calls take real time: none is added by the model.
    pub fn without_cpu_time(mut self) -> HostConfig {
        self.copy_ns_per_kib = Some(0);
        for time in [&mut self.submit_ns, &mut self.wake_ns, &mut self.sync_call_ns] {
            *time = 0;
        }
        self.direct_call_ns = 0;
        self
    }

    /// Where files begin, as a part of the drive.
    pub(super) fn start_frac_on(&self, drive: &DriveFile) -> f64 {
        let of_drive = || drive.baseline.get("file_start_frac").copied();
        self.start_frac.or_else(of_drive).unwrap_or(0.05)
    }

    /// The base of what a buffered call costs.
    pub(super) fn copy_ns_per_kib_on(&self, drive: &DriveFile) -> u64 {
        self.copy_ns_per_kib.unwrap_or(drive.host.copy_ns_per_kib)
    }

    /// Each group has a flusher of its own (host.md 13), if the job has groups at all.
    pub fn group_writeback(&self) -> bool {
        let modern = self.block_profile == Profile::MultiQueue && self.fs == Fs::Ext4;
        self.group_writeback.unwrap_or(modern) && self.writeback_variant == Writeback::Wb61
    }

    /// The generation of the block layer.
    pub fn block_profile(&self) -> Profile {
        self.block_profile
    }

    /// Whose hardware queues the block layer runs at the end of every request.
    pub fn run_at_completion(&self) -> RunAtCompletion {
        self.run_at_completion
    }

    /// Whose rules BFQ decides by where a configuration does not say: a word of its tunable `base`, and its
    /// value.
    pub fn bfq_base(&self) -> (&'static str, u64) {
        let at = bases().iter().position(|&w| w == self.bfq_base);
        (self.bfq_base, at.expect("checked when it was set") as u64)
    }

    /// The block layer runs all queues again after a scheduler withheld everything.
    pub fn delayed_rerun(&self) -> bool {
        self.delayed_rerun
    }

    /// Every parameter in force, for the record of a run.
    pub(super) fn parameters(
        &self,
        copy_ns_per_kib: u64,
        start_frac: f64,
        group_writeback: bool,
    ) -> Vec<(String, String)> {
        let variant = match self.readahead_variant {
            Variant::Ra61 { large_requests: true } => "ra61",
            Variant::Ra61 { large_requests: false } => "ra61 without large requests",
            Variant::Ra30 => "ra30",
        };
        let fs = if self.fs == Fs::Ext4 { "ext4" } else { "ext3" };
        let block = if self.block_profile == Profile::Legacy { "legacy" } else { "multi-queue" };
        let at_completion = match self.run_at_completion {
            RunAtCompletion::Never => "never",
            RunAtCompletion::Scsi => "scsi",
        };
        let bytes = |b: Option<u64>| b.map_or("by ratio".to_string(), |b| b.to_string());
        let writeback = match self.writeback_variant {
            Writeback::Wb61 => "wb61",
            Writeback::Wb30 => "wb30",
        };
        let data_mode = match self.data_mode {
            DataMode::Ordered => "ordered",
            DataMode::Writeback => "writeback",
        };
        let rows: [(&str, String); 26] = [
            ("profile", self.profile.into()),
            ("ram", self.ram.to_string()),
            ("dirty_background_ratio", self.dirty_background_ratio.to_string()),
            ("dirty_background_bytes", bytes(self.dirty_background_bytes)),
            ("dirty_ratio", self.dirty_ratio.to_string()),
            ("dirty_bytes", bytes(self.dirty_bytes)),
            ("dirty_writeback_centisecs", self.dirty_writeback_centisecs.to_string()),
            ("dirty_expire_centisecs", self.dirty_expire_centisecs.to_string()),
            ("writeback_variant", writeback.into()),
            ("group_writeback", group_writeback.to_string()),
            ("read_ahead_kb", self.read_ahead_kb.to_string()),
            ("fs", fs.into()),
            ("data_mode", data_mode.into()),
            ("barriers", self.barriers.to_string()),
            ("commit_s", self.commit_s.to_string()),
            ("readahead_variant", variant.into()),
            ("block_profile", block.into()),
            ("run_at_completion", at_completion.into()),
            ("delayed_rerun", self.delayed_rerun.to_string()),
            ("bfq_base", self.bfq_base.into()),
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
