//! Parameters of the host: eras and their differences (specs/host.md 1.4 and 15).
//!
//! A parameter is a field of [`HostConfig`] and a row in `ROWS`; what a file may say, what is refused, the
//! default and what the record of a run shows all come from the row. An era is a list of values.

use super::ahead::Variant;
use super::balance::Thresholds;
use super::cache::PAGE;
use crate::drive::DriveFile;
use hoistway::device::RunAtCompletion;
use hoistway::setting::{Setting, TextSetting, Tunable, Unit};
use hoistway::{Nanos, Profile};
use hoistway_run::JobError;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The file system: where its journal's flags and its fdatasync come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fs {
    #[default]
    /// ext4, ordered, flush at every fdatasync while barriers are on.
    Ext4,
    /// ext3 of 2.6.30 to 36: fdatasync of allocated blocks never flushes.
    Ext3,
    /// btrfs: copy-on-write, commits of its trees, a log tree for fsync.
    Btrfs,
    /// nilfs2: all that is written goes to the end of a log.
    Nilfs2,
}

/// Who writes when too much is dirty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Writeback {
    #[default]
    /// Linux 6.1: the writer sleeps, the flusher writes (specs/host.md 8.1).
    Wb61,
    /// Linux 2.6.30 to 36: the writer itself writes (specs/host.md 8.2).
    Wb30,
}

/// What a commit waits for (specs/host.md 11).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DataMode {
    #[default]
    /// The data of newly allocated blocks.
    Ordered,
    /// Nothing.
    Writeback,
}

/// As its profile's name, and what differs from it: names and values.
impl Serialize for HostConfig {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        (self.profile, self.differences()).serialize(to)
    }
}

impl<'de> Deserialize<'de> for HostConfig {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<HostConfig, D::Error> {
        let (profile, differences) = <(String, Vec<(String, String)>)>::deserialize(from)?;
        let mut host = HostConfig::profile(&profile).map_err(D::Error::custom)?;
        for (name, text) in differences {
            host.set_text(&name, &text).map_err(D::Error::custom)?;
        }
        Ok(host)
    }
}

/// Parameters of the host: an era's profile (host.md 1.4) and what differs from it (host.md 15).
#[derive(Clone, Debug, Default)]
pub struct HostConfig {
    profile: &'static str,
    pub(super) ram: u64,
    pub(super) dirty_background_ratio: u64,
    pub(super) dirty_background_bytes: Option<u64>,
    pub(super) dirty_ratio: u64,
    pub(super) dirty_bytes: Option<u64>,
    pub(super) dirty_writeback_centisecs: u64,
    pub(super) dirty_expire_centisecs: u64,
    pub(super) writeback_variant: Writeback,
    pub(super) group_writeback: Option<bool>,
    pub(super) read_ahead_kb: u64,
    pub(super) fs: Fs,
    pub(super) data_mode: DataMode,
    pub(super) barriers: bool,
    /// fsync asks for the commit while its data is on its way: kernels before 2.6.32.
    pub(super) commit_beside_data: bool,
    commit_s: Option<u64>,
    commit_rounded: bool,
    /// The block that says where the journal's blocks are is in memory when the run begins.
    pub(super) journal_mapped: bool,
    pub(super) readahead_variant: Variant,
    pub(super) block_profile: Profile,
    /// `None`: the generation's.
    max_request_kib: Option<u64>,
    run_at_completion: RunAtCompletion,
    delayed_rerun: bool,
    plug_keeps_rerun: bool,
    bfq_base: &'static str,
    start_frac: Option<f64>,
    pub(super) layout_gap_kib: u64,
    copy_ns_per_kib: Option<u64>,
    pub(super) submit_ns: u64,
    pub(super) wake_ns: u64,
    pub(super) turn_ns: u64,
    pub(super) sync_call_ns: u64,
    flush_kick_ns: u64,
    pub(super) checksum_ns_per_kib: u64,
    /// Processors that computations share; 0: each process has its own.
    pub(super) cpus: u64,
    /// A direct call before its first bio (host.md 2.1).
    pub(super) direct_call_ns: u64,
}

/// A row of the table of parameters.
#[derive(Clone, Copy, Debug)]
enum Row {
    /// A number, quantity, switch or word.
    Value(Setting<HostConfig>),
    /// A number that follows from something else where it is not given, which this says in words.
    Optional(Setting<HostConfig>, &'static str),
    /// A text of its own kind.
    Text(TextSetting<HostConfig>),
}

/// What the legacy block layer makes of any drive (host.md 1.4).
const LEGACY_REQUEST_KIB: u64 = 512;

/// The value of an optional parameter that is not given.
const UNSET: u64 = u64::MAX;

fn given(value: u64) -> Option<u64> {
    (value != UNSET).then_some(value)
}

const SYSTEMS: [Fs; 4] = [Fs::Ext4, Fs::Ext3, Fs::Btrfs, Fs::Nilfs2];

const VARIANTS: [Variant; 3] = [
    Variant::Ra61 { large_requests: true },
    Variant::Ra61 { large_requests: false },
    Variant::Ra30,
];

/// Every parameter, in the order of listing.
const ROWS: &[Row] = &[
    Row::Value(
        Tunable::new("ram", Unit::Bytes, 8 << 30, (64 << 20, 1 << 50), "Memory.")
            .field(|c| c.ram, |c, v| c.ram = v),
    ),
    Row::Value(
        Tunable::new("dirty_background_ratio", Unit::Count, 10, (1, 100), "Percent of the dirtyable memory above which background write-back begins.")
            .field(|c| c.dirty_background_ratio, |c, v| c.dirty_background_ratio = v),
    ),
    Row::Optional(
        Tunable::new("dirty_background_bytes", Unit::Bytes, UNSET, (PAGE, 1 << 50), "The same in bytes; rules where given.")
            .field(|c| c.dirty_background_bytes.unwrap_or(UNSET), |c, v| c.dirty_background_bytes = given(v)),
        "by ratio",
    ),
    Row::Value(
        Tunable::new("dirty_ratio", Unit::Count, 20, (1, 100), "Percent of the dirtyable memory that may be dirty or under write-back.")
            .field(|c| c.dirty_ratio, |c, v| c.dirty_ratio = v),
    ),
    Row::Optional(
        Tunable::new("dirty_bytes", Unit::Bytes, UNSET, (PAGE, 1 << 50), "The same in bytes; rules where given.")
            .field(|c| c.dirty_bytes.unwrap_or(UNSET), |c, v| c.dirty_bytes = given(v)),
        "by ratio",
    ),
    Row::Value(
        Tunable::new("dirty_writeback_centisecs", Unit::Count, 500, (1, 360_000), "Interval of the periodic write-back, in hundredths of a second.")
            .field(|c| c.dirty_writeback_centisecs, |c, v| c.dirty_writeback_centisecs = v),
    ),
    Row::Value(
        Tunable::new("dirty_expire_centisecs", Unit::Count, 3000, (1, 360_000), "Age at which the periodic write-back writes a page, in hundredths of a second.")
            .field(|c| c.dirty_expire_centisecs, |c, v| c.dirty_expire_centisecs = v),
    ),
    Row::Value(
        Tunable::choice("writeback_variant", &["wb61", "wb30"], 0, "Who writes when too much is dirty: the flusher (Linux 6.1), or the writer itself (2.6.30 to 36).")
            .field(|c| (c.writeback_variant == Writeback::Wb30).into(), |c, v| c.writeback_variant = [Writeback::Wb61, Writeback::Wb30][v as usize]),
    ),
    Row::Optional(
        Tunable::new("group_writeback", Unit::Switch, UNSET, (0, 1), "One flusher per group.")
            .field(|c| c.group_writeback.map_or(UNSET, u64::from), |c, v| c.group_writeback = given(v).map(|v| v == 1)),
        "where the era's file system has it",
    ),
    Row::Value(
        Tunable::new("read_ahead_kb", Unit::Kib, 128, (0, 1 << 20), "Largest read-ahead window; doubled where a process says that it reads in sequence.")
            .field(|c| c.read_ahead_kb, |c, v| c.read_ahead_kb = v),
    ),
    Row::Value(
        Tunable::choice("fs", &["ext4", "ext3", "btrfs", "nilfs2"], 0, "The file system.")
            .field(|c| SYSTEMS.iter().position(|fs| *fs == c.fs).unwrap_or(0) as u64, |c, v| c.fs = SYSTEMS[v as usize]),
    ),
    Row::Value(
        Tunable::choice("data_mode", &["ordered", "writeback"], 0, "What a commit of ext3 or ext4 waits for: the data of newly allocated blocks, or nothing.")
            .field(|c| (c.data_mode == DataMode::Writeback).into(), |c, v| c.data_mode = [DataMode::Ordered, DataMode::Writeback][v as usize]),
    ),
    Row::Value(
        Tunable::switch("barriers", true, "The file system flushes the drive's cache.")
            .field(|c| c.barriers.into(), |c, v| c.barriers = v == 1),
    ),
    Row::Optional(
        Tunable::new("commit_s", Unit::Secs, UNSET, (1, 3600), "Age at which a transaction is committed.")
            .field(|c| c.commit_s.unwrap_or(UNSET), |c, v| c.commit_s = given(v)),
        "the file system's: 5, btrfs 30",
    ),
    Row::Value(
        Tunable::switch("commit_rounded", true, "ext4 commits by age at the next whole second of the clock, or with a change before that.")
            .field(|c| c.commit_rounded.into(), |c, v| c.commit_rounded = v == 1),
    ),
    Row::Value(
        Tunable::switch("journal_mapped", false, "Where the blocks of ext4's journal are is in memory at first. If not, the first commit reads it (drives from 128 GiB on).")
            .field(|c| c.journal_mapped.into(), |c, v| c.journal_mapped = v == 1),
    ),
    Row::Value(
        Tunable::choice("readahead_variant", &["ra61", "ra61 without large requests", "ra30"], 0, "Rules of read-ahead: Linux 6.1, 2.6.31 to 36, 2.6.30.")
            .field(|c| VARIANTS.iter().position(|v| *v == c.readahead_variant).unwrap_or(0) as u64, |c, v| c.readahead_variant = VARIANTS[v as usize]),
    ),
    Row::Value(
        Tunable::choice("block_profile", &["multi-queue", "legacy"], 0, "Generation of the block layer.")
            .field(|c| (c.block_profile == Profile::Legacy).into(), |c, v| c.block_profile = [Profile::MultiQueue, Profile::Legacy][v as usize]),
    ),
    Row::Optional(
        Tunable::new("max_request_kib", Unit::Kib, UNSET, (4, 1 << 20), "Largest request that the block layer makes; less where the drive takes less.")
            .field(|c| c.max_request_kib.unwrap_or(UNSET), |c, v| c.max_request_kib = given(v)),
        "by block_profile and drive",
    ),
    Row::Value(
        Tunable::choice("run_at_completion", &["never", "scsi"], 0, "Whose hardware queues run at the end of every request.")
            .field(|c| (c.run_at_completion == RunAtCompletion::Scsi).into(), |c, v| c.run_at_completion = [RunAtCompletion::Never, RunAtCompletion::Scsi][v as usize]),
    ),
    Row::Value(
        Tunable::switch("delayed_rerun", true, "All queues run again after a scheduler withheld everything.")
            .field(|c| c.delayed_rerun.into(), |c, v| c.delayed_rerun = v == 1),
    ),
    Row::Value(
        Tunable::switch("plug_keeps_rerun", true, "Who closes a plug runs the queue itself, and a delayed rerun stays pending.")
            .field(|c| c.plug_keeps_rerun.into(), |c, v| c.plug_keeps_rerun = v == 1),
    ),
    Row::Text(TextSetting {
        name: "bfq_base",
        form: "a word of BFQ's tunable base",
        default: "hoistway",
        doc: "Whose rules BFQ decides by where a configuration does not say.",
        get: |c| Some(c.bfq_base.into()),
        set: |c, text| {
            let known = bases().iter().find(|&&word| word == text);
            let choices = bases().join("\", \"");
            c.bfq_base = known.ok_or_else(|| format!("choose one of \"{choices}\""))?;
            Ok(())
        },
    }),
    Row::Text(TextSetting {
        name: "start_frac",
        form: "a number from 0 to below 1",
        default: "the drive file's",
        doc: "Where files begin, as a part of the drive.",
        get: |c| c.start_frac.map(|f| f.to_string()),
        set: |c, text| {
            let number = text.parse::<f64>().ok().filter(|f| (0.0..1.0).contains(f));
            c.start_frac = Some(number.ok_or("choose a number from 0 to below 1")?);
            Ok(())
        },
    }),
    Row::Value(
        Tunable::new("layout_gap_kib", Unit::Kib, 8192, (0, 1 << 30), "Largest gap between two files.")
            .field(|c| c.layout_gap_kib, |c, v| c.layout_gap_kib = v),
    ),
    Row::Optional(
        Tunable::new("copy_ns_per_kib", Unit::Nanos, UNSET, (0, 1_000_000), "Base of what a buffered call costs.")
            .field(|c| c.copy_ns_per_kib.unwrap_or(UNSET), |c, v| c.copy_ns_per_kib = given(v)),
        "the drive file's",
    ),
    Row::Value(
        Tunable::new("submit_ns", Unit::Nanos, 1000, (0, 1_000_000), "Processor time of a bio before it enters the block layer.")
            .field(|c| c.submit_ns, |c, v| c.submit_ns = v),
    ),
    Row::Value(
        Tunable::new("wake_ns", Unit::Nanos, 1400, (0, 1_000_000), "From what a process waits for until it runs.")
            .field(|c| c.wake_ns, |c, v| c.wake_ns = v),
    ),
    Row::Value(
        Tunable::new("turn_ns", Unit::Nanos, 0, (0, 1_000_000), "What a process that was woken takes of one of `cpus` processors, while others wait for it.")
            .field(|c| c.turn_ns, |c, v| c.turn_ns = v),
    ),
    Row::Value(
        Tunable::new("sync_call_ns", Unit::Nanos, 11_000, (0, 1_000_000_000), "Processor time of an fsync or fdatasync at its start.")
            .field(|c| c.sync_call_ns, |c, v| c.sync_call_ns = v),
    ),
    Row::Value(
        Tunable::new("flush_kick_ns", Unit::Nanos, 20_000, (0, 1_000_000), "From the completion that makes a flush possible until it is issued.")
            .field(|c| c.flush_kick_ns, |c, v| c.flush_kick_ns = v),
    ),
    Row::Value(
        Tunable::new("checksum_ns_per_kib", Unit::Nanos, 100, (0, 1_000_000), "Processor time of a checksum (btrfs), before a write and behind a read.")
            .field(|c| c.checksum_ns_per_kib, |c, v| c.checksum_ns_per_kib = v),
    ),
    Row::Value(
        Tunable::new("cpus", Unit::Count, 0, (0, 1024), "Processors that the computing of loads shares equally, and woken processes in turns of `turn_ns`; a device has no more hardware queues than that. 0: each process has its own.")
            .field(|c| c.cpus, |c, v| c.cpus = v),
    ),
];

/// The words of BFQ's tunable `base`.
fn bases() -> &'static [&'static str] {
    match hoistway::sched::bfq::ENTRY.tunables.iter().find(|t| t.name == "base").map(|t| t.unit) {
        Some(Unit::Choice(words)) => words,
        _ => &[],
    }
}

impl Row {
    fn name(&self) -> &'static str {
        match self {
            Row::Value(row) | Row::Optional(row, _) => row.tunable.name,
            Row::Text(row) => row.name,
        }
    }

    /// Sets it from what a file would say; the error says what is wrong.
    fn set(&self, config: &mut HostConfig, text: &str) -> Result<(), String> {
        match self {
            Row::Value(row) | Row::Optional(row, _) => {
                let value = row.tunable.parse(text)?;
                row.tunable.check(value).map_err(|e| e.to_string())?;
                (row.set)(config, value);
                Ok(())
            }
            Row::Text(row) => {
                (row.set)(config, text).map_err(|why| format!("{} = {text}: {why}", row.name))
            }
        }
    }

    fn set_default(&self, config: &mut HostConfig) {
        match self {
            Row::Value(row) | Row::Optional(row, _) => (row.set)(config, row.tunable.default),
            // A default in words stands for what is not given.
            Row::Text(row) => drop((row.set)(config, row.default)),
        }
    }

    /// What is in force, as a file would say it.
    fn text(&self, config: &HostConfig) -> String {
        let (row, unset) = match self {
            Row::Text(row) => return (row.get)(config).unwrap_or_else(|| row.default.into()),
            Row::Value(row) => (row, ""),
            Row::Optional(row, unset) => (row, *unset),
        };
        match ((row.get)(config), row.tunable.unit) {
            (UNSET, _) => unset.into(),
            (value, Unit::Switch) => (value == 1).to_string(),
            (value, Unit::Choice(words)) => words[value as usize].into(),
            (value, _) => value.to_string(),
        }
    }
}

/// An era: what differs from today's host (host.md 1.4).
#[derive(Debug)]
struct Era {
    name: &'static str,
    /// The era it is derived from.
    base: Option<&'static str>,
    set: &'static [(&'static str, &'static str)],
    /// fsync asks for the commit while its data is on its way: before 2.6.32.
    commit_beside_data: bool,
}

const ERAS: &[Era] = &[
    // Kernels before 5.10 (specs/blk-mq-and-noop.md 7.4), with the BFQ of the comparison of 2019
    // (specs/bfq.md 11.7).
    Era {
        name: "2018",
        base: None,
        set: &[("run_at_completion", "scsi"), ("delayed_rerun", "false"), ("bfq_base", "5.3")],
        commit_beside_data: false,
    },
    Era { name: "2019", base: Some("2018"), set: &[], commit_beside_data: false },
    Era { name: "today", base: None, set: &[], commit_beside_data: false },
    Era {
        name: "2012",
        base: None,
        set: &[("ram", "2G"), ("block_profile", "legacy")],
        commit_beside_data: false,
    },
    Era {
        name: "2010",
        base: Some("2012"),
        set: &[
            ("writeback_variant", "wb30"),
            ("fs", "ext3"),
            ("barriers", "false"),
            ("readahead_variant", "ra61 without large requests"),
        ],
        commit_beside_data: false,
    },
    Era {
        name: "2009",
        base: Some("2010"),
        set: &[
            ("readahead_variant", "ra30"),
            ("data_mode", "writeback"),
            // Measured there: 1010 MiB in 8,113 writes (host.md 1.4).
            ("max_request_kib", "128"),
        ],
        commit_beside_data: true,
    },
    Era {
        name: "netbook-2009",
        base: Some("2010"),
        set: &[("readahead_variant", "ra30"), ("ram", "1G")],
        commit_beside_data: true,
    },
];

impl HostConfig {
    /// A profile by name: `2019`, `2018`, `today`, `2012`, `2010`, `2009`, `netbook-2009`.
    pub fn profile(name: &str) -> Result<HostConfig, JobError> {
        let Some(era) = ERAS.iter().find(|era| era.name == name) else {
            return Err(JobError::Unknown {
                kind: "host profile",
                name: name.to_string(),
                known: ERAS.iter().map(|era| era.name.to_string()).collect(),
            });
        };
        let mut config = match era.base {
            Some(base) => HostConfig::profile(base)?,
            None => {
                // Not a parameter: assumed, as the costs above are.
                let mut config = HostConfig { direct_call_ns: 1_500, ..HostConfig::default() };
                ROWS.iter().for_each(|row| row.set_default(&mut config));
                config
            }
        };
        config.profile = era.name;
        config.commit_beside_data = era.commit_beside_data;
        for (name, text) in era.set {
            config.set_text(name, text)?;
        }
        Ok(config)
    }

    /// The profile that it began as.
    pub fn profile_name(&self) -> &'static str {
        self.profile
    }

    /// The names of the profiles.
    pub fn profiles() -> impl Iterator<Item = &'static str> {
        ERAS.iter().map(|era| era.name)
    }

    /// Every parameter, for people: name, value here, what may be written, what it is.
    pub fn documented(&self) -> impl Iterator<Item = [String; 4]> + '_ {
        ROWS.iter().map(|row| {
            let (range, doc) = match row {
                Row::Value(row) | Row::Optional(row, _) => {
                    let range = match row.tunable.unit {
                        Unit::Choice(words) => words.join(", "),
                        Unit::Switch => "true, false".into(),
                        _ => format!("{}..={}", row.tunable.min, row.tunable.max),
                    };
                    (range, row.tunable.doc)
                }
                Row::Text(row) => (row.form.into(), row.doc),
            };
            [row.name().into(), row.text(self), range, doc.into()]
        })
    }

    /// What differs from the profile that it began as: names and what [`HostConfig::set`] takes.
    pub fn differences(&self) -> Vec<(&'static str, String)> {
        let profile = HostConfig::profile(self.profile).expect("it began as a profile");
        let differs = |row: &&Row| row.text(self) != row.text(&profile);
        ROWS.iter().filter(differs).map(|row| (row.name(), row.text(self))).collect()
    }

    /// Sets one parameter by its name in host.md 15.
    pub fn set(&mut self, name: &str, value: &toml::Value) -> Result<(), JobError> {
        match value.as_str() {
            Some(text) => self.set_text(name, text),
            None => self.set_text(name, &value.to_string()),
        }
    }

    fn set_text(&mut self, name: &str, text: &str) -> Result<(), JobError> {
        let Some(row) = ROWS.iter().find(|row| row.name() == name) else {
            return Err(JobError::Unknown {
                kind: "host parameter",
                name: name.to_string(),
                known: ROWS.iter().map(|row| row.name().to_string()).collect(),
            });
        };
        let wrong = |message| JobError::Parameter { of: "host".into(), message };
        row.set(self, text).map_err(wrong)
    }

    /// The processes are real threads, whose calls take real time: none is added by the model.
    pub fn without_cpu_time(mut self) -> HostConfig {
        self.copy_ns_per_kib = Some(0);
        let Self { submit_ns, wake_ns, turn_ns, sync_call_ns, checksum_ns_per_kib, .. } = &mut self;
        for time in [submit_ns, wake_ns, turn_ns, sync_call_ns, checksum_ns_per_kib] {
            *time = 0;
        }
        self.direct_call_ns = 0;
        self
    }

    /// Memory in bytes.
    pub fn ram(&self) -> u64 {
        self.ram
    }

    /// Most hardware queues of a device: one for each processor.
    pub fn hw_queues_max(&self) -> u16 {
        if self.cpus == 0 { u16::MAX } else { self.cpus as u16 }
    }

    /// Largest read-ahead window in KiB.
    pub fn read_ahead_kb(&self) -> u64 {
        self.read_ahead_kb
    }

    /// What gives a real host with any memory the same rules of write-back: names below `/proc/sys/vm`, and values.
    pub fn vm_settings(&self) -> [(&'static str, u64); 4] {
        let dirtyable = self.ram / PAGE * 85 / 100;
        let levels = Thresholds::new(dirtyable, self);
        [
            ("dirty_background_bytes", levels.background * PAGE),
            ("dirty_bytes", levels.limit * PAGE),
            ("dirty_writeback_centisecs", self.dirty_writeback_centisecs),
            ("dirty_expire_centisecs", self.dirty_expire_centisecs),
        ]
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

    /// The file system.
    pub fn fs(&self) -> Fs {
        self.fs
    }

    /// Age in seconds at which a transaction is committed.
    pub(super) fn commit_s(&self) -> u64 {
        self.commit_s.unwrap_or(if self.fs == Fs::Btrfs { 30 } else { 5 })
    }

    /// A commit by age waits for a whole second (host.md 11): jbd2's timer, and so ext4's alone.
    pub(super) fn commit_rounded(&self) -> bool {
        self.commit_rounded && self.fs == Fs::Ext4
    }

    /// Each group has a flusher of its own (host.md 13), if the job has groups at all.
    pub fn group_writeback(&self) -> bool {
        let modern = self.block_profile == Profile::MultiQueue;
        let modern = modern && matches!(self.fs, Fs::Ext4 | Fs::Btrfs);
        self.group_writeback.unwrap_or(modern) && self.writeback_variant == Writeback::Wb61
    }

    /// The generation of the block layer.
    pub fn block_profile(&self) -> Profile {
        self.block_profile
    }

    /// Largest request that the block layer makes, for a drive that takes any.
    pub fn max_request_sectors(&self) -> u64 {
        let legacy = self.block_profile == Profile::Legacy;
        let kib = self.max_request_kib.or(legacy.then_some(LEGACY_REQUEST_KIB));
        kib.map_or(u64::MAX, |kib| kib / 4 * 8)
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

    /// A run by who closes a plug leaves such a rerun pending.
    pub fn plug_keeps_rerun(&self) -> bool {
        self.plug_keeps_rerun
    }

    /// From the completion that makes a flush possible until it is issued.
    pub fn flush_kick(&self) -> Nanos {
        Nanos(self.flush_kick_ns)
    }

    /// Every parameter in force, for the record of a run: the last three are what the drive and the groups
    /// of a job have made of those that were not given.
    pub(super) fn parameters(
        &self,
        copy_ns_per_kib: u64,
        start_frac: f64,
        group_writeback: bool,
    ) -> Vec<(String, String)> {
        let mut made = self.clone();
        made.copy_ns_per_kib = Some(copy_ns_per_kib);
        made.start_frac = Some(start_frac);
        made.group_writeback = Some(group_writeback);
        made.commit_s = Some(self.commit_s());
        let rows = ROWS.iter().map(|row| (row.name().to_string(), row.text(&made)));
        std::iter::once(("profile".to_string(), self.profile.to_string())).chain(rows).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(name: &str, value: impl Into<toml::Value>) -> String {
        let mut config = HostConfig::profile("today").unwrap();
        config.set(name, &value.into()).unwrap_err().to_string()
    }

    #[test]
    fn every_parameter_can_be_set_to_what_is_shown_of_it() {
        for era in ERAS {
            let config = HostConfig::profile(era.name).unwrap();
            let shown = config.parameters(400, 0.05, true);
            assert_eq!(shown.len(), ROWS.len() + 1);
            let mut other = HostConfig::profile("today").unwrap();
            for (name, text) in shown.iter().skip(1).filter(|(_, text)| !text.starts_with("by ")) {
                other.set(name, &text.as_str().into()).unwrap();
            }
            other.profile = config.profile;
            assert_eq!(other.parameters(400, 0.05, true), shown);
        }
    }

    #[test]
    fn eras_differ_as_the_specification_says() {
        let of = |name: &str| HostConfig::profile(name).unwrap();
        let (modern, older) = (of("today"), of("2019"));
        assert_eq!((modern.ram, modern.commit_s(), modern.bfq_base().0), (8 << 30, 5, "hoistway"));
        assert_eq!((older.bfq_base().0, older.delayed_rerun()), ("5.3", false));
        let (slow, slower) = (of("2010"), of("2009"));
        assert_eq!((slow.fs, slow.barriers, slow.ram), (Fs::Ext3, false, 2 << 30));
        assert_eq!((slow.data_mode, slower.data_mode), (DataMode::Ordered, DataMode::Writeback));
        assert!(slower.commit_beside_data && !slow.commit_beside_data);
        assert_eq!(of("netbook-2009").ram, 1 << 30);
        assert_eq!(of("2012").fs, Fs::Ext4);
        assert!(HostConfig::profile("1995").is_err());
    }

    #[test]
    fn a_value_that_is_refused_is_named_with_what_may_be_written() {
        assert!(
            message("ram", 5).contains("ram = 5 is outside 67108864..="),
            "{}",
            message("ram", 5)
        );
        assert!(message("fs", "xfs").contains("choose one of ext4, ext3, btrfs, nilfs2"));
        assert!(message("barriers", "maybe").contains("barriers"));
        assert!(message("start_frac", 1.5).contains("start_frac = 1.5: choose a number from 0"));
        assert!(
            message("bfq_base", "7.0").contains("choose one of \"6.1\""),
            "{}",
            message("bfq_base", "7.0")
        );
        assert!(message("read_ahead_kib", 1).contains("read_ahead_kb"));
        let mut config = HostConfig::profile("today").unwrap();
        config.set("ram", &"64M".into()).unwrap();
        config.set("barriers", &false.into()).unwrap();
        config.set("start_frac", &0.into()).unwrap();
        assert_eq!((config.ram, config.barriers, config.start_frac), (64 << 20, false, Some(0.0)));
    }
}
