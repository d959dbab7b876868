//! Drive files: parameters of one drive, with the origin of each (specs/drives.md section 2).
//!
//! A file is read in two steps. *Layers*: the file and those it is derived from (`base = "id"`),
//! each with the lines of its keys. *Checking*: the merged tables against the keys as declared in
//! [`super::keys`] and in the model's file; every complaint names the file and line where the
//! value, or the table that lacks it, stands. What passed is valid, so the accessors cannot fail.

use super::embedded::EMBEDDED;
use super::faults::{self, Faults, Faulty};
use super::keys::{self, Key, TABLES};
use super::{Drive, MODELS, Model};
use hoistway::setting::nearest;
use hoistway_files::input::{self, Limit, Lines, ReadError};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use toml::de::{DeTable, DeValue};

/// `[identity]`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Identity {
    /// Size in bytes.
    pub capacity_bytes: u64,
    /// 512 or 4096.
    pub sector_bytes: u64,
    /// Spinning disk.
    pub rotational: bool,
    /// Year of introduction.
    pub year: u64,
}

/// `[host]`: how the block layer sees the drive.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct HostSide {
    /// sata, pata, nvme, emmc, sd, usb or virtual.
    pub bus: String,
    /// Tags of the whole device.
    pub queue_depth: u32,
    /// Dispatch contexts that share them.
    pub hw_queues: u16,
    /// The block layer splits above it.
    pub max_request_kib: u64,
    /// A flush runs alone.
    pub flush_nonqueued: bool,
    /// Forced unit access.
    pub fua: bool,
    /// Default CPU cost of a buffered reader on the drive's host.
    pub copy_ns_per_kib: u64,
}

/// `[link]`.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Link {
    /// Bytes per second towards the host.
    pub read_rate: f64,
    /// Bytes per second towards the drive.
    pub write_rate: f64,
    /// Each direction has a link of its own.
    pub full_duplex: bool,
}

/// `[iocost]`: the six coefficients of the linear model (bytes/s and 1/s).
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct IoCost {
    /// Sequential read bytes per second.
    pub rbps: u64,
    /// Sequential 4 KiB reads per second.
    pub rseqiops: u64,
    /// Random 4 KiB reads per second.
    pub rrandiops: u64,
    /// Sequential write bytes per second.
    pub wbps: u64,
    /// Sequential 4 KiB writes per second.
    pub wseqiops: u64,
    /// Random 4 KiB writes per second.
    pub wrandiops: u64,
}

/// One drive file, checked.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DriveFile {
    /// File name without `.toml`: the id on the command line and in results.
    pub id: String,
    /// Title for people.
    pub name: String,
    /// hdd, flash, card or bucket.
    pub model: String,
    /// Identity.
    pub identity: Identity,
    /// Host side.
    pub host: HostSide,
    /// The link.
    pub link: Link,
    /// Published figures and geometry of the reference experiment.
    pub baseline: BTreeMap<String, f64>,
    /// io.cost model.
    pub iocost: IoCost,
    /// The whole file after `base` was resolved, for the manifest and the model's constructor.
    pub table: toml::Table,
}

/// What is wrong with a drive file: message with file and line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriveFileError(pub String);

impl fmt::Display for DriveFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for DriveFileError {}

/// What a model's own check complains about: the key (in the model's table unless `table` says
/// otherwise) and the end of a sentence that begins with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// Table of the key.
    pub table: &'static str,
    /// The key.
    pub key: &'static str,
    /// What is wrong, such as "must be a multiple of channels".
    pub what: String,
}

/// Largest number of files in a chain of derivation (specs/drives.md 2.1).
const LEVELS_MAX: usize = 8;

/// Largest discard of drives that take one: what SATA drives announce, 2 GiB less one 32 KiB page.
const MAX_DISCARD_SECTORS: u64 = 4_194_240;

impl DriveFile {
    /// Ids of the embedded drives, sorted.
    pub fn ids() -> Vec<&'static str> {
        EMBEDDED.iter().map(|&(id, _)| id).collect()
    }

    /// Text of an embedded drive file.
    pub fn embedded(id: &str) -> Option<&'static str> {
        EMBEDDED.iter().find(|&&(known, _)| known == id).map(|&(_, text)| text)
    }

    /// An embedded drive by id, or a file by path (contains `/` or ends in `.toml`).
    pub fn load(id_or_path: &str) -> Result<DriveFile, DriveFileError> {
        let source = Source::find(id_or_path, None).map_err(DriveFileError)?;
        Chain::read(source)?.check()
    }

    /// A drive file from its text; `label` stands in messages and its last part without `.toml` is
    /// the id. Bases by path are looked for relative to the label's folder.
    pub fn parse(label: &str, text: &str) -> Result<DriveFile, DriveFileError> {
        let path = PathBuf::from(label);
        let source = Source { label: label.into(), path: Some(path), text: text.into() };
        Chain::read(source)?.check()
    }

    /// The device as the block layer sees it (multi-queue profile, usual limits).
    pub fn device(&self) -> hoistway::Device {
        use hoistway::Sectors;
        let capacity = self.identity.capacity_bytes / 512;
        let mut device = hoistway::Device::new(Sectors(capacity), self.host.queue_depth);
        // The block layer's own limit is 1280 KiB; a request is always a multiple of 4 KiB pages.
        let limit = (self.host.max_request_kib * 2).min(device.max_sectors.0);
        device.max_sectors = Sectors(limit / 8 * 8);
        // `max_request_kib` is where the block layer splits (1.2), so a request of that size of single
        // pages must not be cut earlier by the usual 128 segments, which would be 512 KiB.
        device.max_segments = device.max_segments.max((limit / 8) as u32);
        device.hw_queues = self.host.hw_queues;
        device.rotational = self.identity.rotational;
        device.scsi = matches!(self.host.bus.as_str(), "sata" | "usb");
        device.tags_round_robin = self.host.bus == "sata";
        device.flush_nonqueued = self.host.flush_nonqueued;
        device.fua = self.host.fua;
        // "Derived, not stored", specs/drives.md 2.1.
        device.write_cache = self.model != "hdd" || self.bool("hdd", "write_cache");
        device.nr_requests = device.default_nr_requests(true);
        // Deviation: the specification does not say who offers discard. Conventional disks and USB
        // sticks do not offer discard.
        if !device.rotational && self.host.bus != "usb" {
            device.max_discard_sectors = Sectors(MAX_DISCARD_SECTORS);
            device.discard_granularity = Sectors(8.max(self.identity.sector_bytes / 512));
        }
        if self.model == "hdd" && self.u64("hdd", "actuators") == 2 {
            let border = super::hdd::border(self) / 512;
            // Half-open ranges [first sector, first sector behind).
            device.actuators =
                vec![(Sectors(0), Sectors(border)), (Sectors(border), Sectors(capacity))];
        }
        device
    }

    /// The model, seeded.
    pub fn build(&self, seed: u64) -> Box<dyn Drive> {
        let model =
            Model::find(&self.model).expect("the model was looked up when the file was read");
        let drive = (model.build)(self, seed);
        match Faults::from_file(self) {
            None => drive,
            Some(faults) => Box::new(Faulty::new(drive, &faults, seed, &self.id)),
        }
    }

    /// The same drive with these keys of `[faults]` besides its own; the later of two that are given holds.
    ///
    /// # Errors
    ///
    /// A key that is unknown or wrong, or a fault that lacks one.
    pub fn with_faults(
        &self,
        given: &[(String, toml::Value)],
    ) -> Result<DriveFile, DriveFileError> {
        let mut file = self.clone();
        let error = |what: String| DriveFileError(format!("[{}]: {what}", faults::TABLE));
        for (name, own) in given {
            let keys = faults::FAULT_KEYS;
            let Some(key) = keys.iter().find(|k| k.name == name) else {
                let hint = meant(name, keys.iter().map(|k| k.name));
                return Err(error(format!("unknown key '{name}'{hint} (`hoistway show faults`)")));
            };
            let read = own.as_str().and_then(|text| key.with_unit(text)).transpose();
            let value = read.map_err(|e| error(format!("{name} = {e}")))?;
            let value = value.unwrap_or_else(|| own.clone());
            key.check(&value).map_err(error)?;
            let table =
                file.table.entry(faults::TABLE).or_insert_with(|| toml::Table::new().into());
            table.as_table_mut().expect(CHECKED).insert(name.clone(), value);
        }
        faults::check(&file).map_err(|w| error(format!("{} {}", w.key, w.what)))?;
        Ok(file)
    }

    /// The value of a required integer key.
    pub fn u64(&self, table: &str, key: &str) -> u64 {
        let value = self.value(table, key).and_then(toml::Value::as_integer);
        value.and_then(|i| u64::try_from(i).ok()).expect(CHECKED)
    }

    /// The value of an integer key that may be missing: 0 then.
    pub fn u64_or_0(&self, table: &str, key: &str) -> u64 {
        if self.value(table, key).is_some() { self.u64(table, key) } else { 0 }
    }

    /// The value of a required number key.
    pub fn f64(&self, table: &str, key: &str) -> f64 {
        self.opt_f64(table, key).expect(CHECKED)
    }

    /// The value of a number key that may be missing.
    pub fn opt_f64(&self, table: &str, key: &str) -> Option<f64> {
        self.value(table, key).map(|v| keys::number(v).expect(CHECKED))
    }

    /// The value of a required true/false key.
    pub fn bool(&self, table: &str, key: &str) -> bool {
        self.value(table, key).and_then(toml::Value::as_bool).expect(CHECKED)
    }

    /// The value of a required text key.
    pub fn str(&self, table: &str, key: &str) -> &str {
        self.value(table, key).and_then(toml::Value::as_str).expect(CHECKED)
    }

    /// The value of a list of [cylinders, ms], if it is there.
    pub fn knots(&self, table: &str, key: &str) -> Option<Vec<(f64, f64)>> {
        self.value(table, key).map(|v| keys::knots(v).expect(CHECKED))
    }

    /// A value by table (empty: the top of the file) and key.
    pub fn value(&self, table: &str, key: &str) -> Option<&toml::Value> {
        if table.is_empty() { self.table.get(key) } else { self.table.get(table)?.get(key) }
    }

    /// Builds the typed view of tables that were checked.
    fn typed(id: String, table: toml::Table) -> DriveFile {
        let mut file = DriveFile {
            id,
            name: String::new(),
            model: String::new(),
            identity: Identity { capacity_bytes: 0, sector_bytes: 0, rotational: false, year: 0 },
            host: HostSide {
                bus: String::new(),
                queue_depth: 0,
                hw_queues: 0,
                max_request_kib: 0,
                flush_nonqueued: false,
                fua: false,
                copy_ns_per_kib: 0,
            },
            link: Link { read_rate: 0.0, write_rate: 0.0, full_duplex: false },
            baseline: BTreeMap::new(),
            iocost: IoCost {
                rbps: 0,
                rseqiops: 0,
                rrandiops: 0,
                wbps: 0,
                wseqiops: 0,
                wrandiops: 0,
            },
            table,
        };
        file.name = file.str("", "name").into();
        file.model = file.str("", "model").into();
        file.identity = Identity {
            capacity_bytes: file.u64("identity", "capacity_bytes"),
            sector_bytes: file.u64("identity", "sector_bytes"),
            rotational: file.bool("identity", "rotational"),
            year: file.u64("identity", "year"),
        };
        file.host = HostSide {
            bus: file.str("host", "bus").into(),
            queue_depth: file.u64("host", "queue_depth") as u32,
            hw_queues: file.u64("host", "hw_queues") as u16,
            max_request_kib: file.u64("host", "max_request_kib"),
            flush_nonqueued: file.bool("host", "flush_nonqueued"),
            fua: file.bool("host", "fua"),
            copy_ns_per_kib: file.u64("host", "copy_ns_per_kib"),
        };
        let read_rate = file.f64("link", "rate_mb_s") * 1e6;
        file.link = Link {
            read_rate,
            write_rate: file.opt_f64("link", "write_rate_mb_s").map_or(read_rate, |r| r * 1e6),
            full_duplex: file.str("link", "duplex") == "full",
        };
        let baseline = file.table["baseline"].as_table().expect(CHECKED);
        file.baseline =
            baseline.iter().map(|(k, v)| (k.clone(), keys::number(v).expect(CHECKED))).collect();
        file.baseline.entry("file_start_frac".into()).or_insert(FILE_START_FRAC);
        let cost = |key| file.u64("iocost", key);
        file.iocost = IoCost {
            rbps: cost("rbps"),
            rseqiops: cost("rseqiops"),
            rrandiops: cost("rrandiops"),
            wbps: cost("wbps"),
            wseqiops: cost("wseqiops"),
            wrandiops: cost("wrandiops"),
        };
        file
    }
}

/// Where files begin when `[baseline]` does not say (specs/host.md section 3).
const FILE_START_FRAC: f64 = 0.05;

const CHECKED: &str = "every key was checked against its declaration when the file was read";

/// Drive files are written by hand.
const DRIVE_FILE: Limit = Limit { what: "a drive file", bytes: 1 << 20 };

/// A file before it is understood.
#[derive(Debug)]
struct Source {
    label: String,
    /// `None`: embedded.
    path: Option<PathBuf>,
    text: String,
}

impl Source {
    /// `folder`: where a relative path starts.
    fn find(id_or_path: &str, folder: Option<&Path>) -> Result<Source, String> {
        if id_or_path.contains('/') || id_or_path.ends_with(".toml") {
            let path = folder.map_or_else(|| PathBuf::from(id_or_path), |f| f.join(id_or_path));
            let label = path.display().to_string();
            let text = input::text(&path, DRIVE_FILE).map_err(|e| match e {
                ReadError::Io { error, .. } => {
                    format!("{label}: cannot be read: {error}; give an id or the path of a file")
                }
                other => other.to_string(),
            })?;
            return Ok(Source { label, path: Some(path), text });
        }
        match DriveFile::embedded(id_or_path) {
            Some(text) => Ok(Source {
                label: format!("drives/{id_or_path}.toml"),
                path: None,
                text: text.into(),
            }),
            None => Err(format!(
                "no drive '{id_or_path}'{}; `hoistway list drives` lists them, a path contains '/' \
                 or ends in .toml",
                meant_drive(id_or_path)
            )),
        }
    }

    fn id(&self) -> String {
        let stem = Path::new(&self.label).file_stem();
        stem.map_or_else(|| self.label.clone(), |s| s.to_string_lossy().into_owned())
    }
}

/// "; did you mean 'x'?" or nothing.
fn meant<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    nearest(word, known).map_or_else(String::new, |k| format!("; did you mean '{k}'?"))
}

/// The same of drives, where a part of the id, the bus or the model may be meant as well.
fn meant_drive(word: &str) -> String {
    let lower = word.to_lowercase();
    let ids = || EMBEDDED.iter().map(|&(id, _)| id);
    let said = |key: &str, text: &str| text.contains(&format!("\n{key} = \"{lower}\""));
    let by_bus = EMBEDDED.iter().filter(|(_, text)| said("bus", text) || said("model", text));
    let lists: [Vec<&str>; 3] = [
        ids().filter(|id| id.starts_with(&lower)).collect(),
        ids().filter(|id| lower.len() >= 3 && id.contains(&lower)).collect(),
        by_bus.map(|&(id, _)| id).collect(),
    ];
    match lists.iter().find(|l| !l.is_empty() && !lower.is_empty()).map(Vec::as_slice) {
        None => meant(word, ids()),
        Some([one]) => format!("; did you mean '{one}'?"),
        Some(several) => format!("; there are {}", several.join(", ")),
    }
}

/// Where something stands: index of the layer, line from 1.
type LineAt = (usize, usize);

/// A file and those it is derived from, merged. Layer 0 is the file itself.
#[derive(Debug)]
struct Chain {
    id: String,
    labels: Vec<String>,
    table: toml::Table,
    /// Place of (table, key); of a table itself: (table, "").
    places: BTreeMap<(String, String), LineAt>,
}

impl Chain {
    fn read(first: Source) -> Result<Chain, DriveFileError> {
        let id = first.id();
        let mut chain =
            Chain { id, labels: Vec::new(), table: toml::Table::new(), places: BTreeMap::new() };
        let mut next = Some(first);
        while let Some(source) = next.take() {
            let level = chain.labels.len();
            chain.labels.push(source.label.clone());
            let (table, places) = read_layer(&source, level)?;
            // What each file must or may say for itself only.
            let name_missing = !table.contains_key("name");
            if name_missing {
                return Err(chain.at((level, 1), "missing key 'name' (it is not inherited)"));
            }
            if let Some(base) = table.get("base") {
                let place = places[&(String::new(), "base".to_string())];
                let base = base.as_str().ok_or_else(|| {
                    chain.at(place, "base must be the id or path of a drive file")
                })?;
                let folder = source.path.as_deref().and_then(Path::parent);
                let found = Source::find(base, folder).map_err(|e| chain.at(place, &e))?;
                if chain.labels.contains(&found.label) {
                    return Err(chain.at(place, &format!("base = \"{base}\" makes a cycle")));
                }
                if chain.labels.len() == LEVELS_MAX {
                    let what = format!("more than {LEVELS_MAX} files derived from each other");
                    return Err(chain.at(place, &what));
                }
                next = Some(found);
            }
            chain.merge(level, table, places);
        }
        chain.table.remove("base");
        Ok(chain)
    }

    /// Adds what the layers above did not say.
    fn merge(
        &mut self,
        level: usize,
        table: toml::Table,
        places: BTreeMap<(String, String), LineAt>,
    ) {
        for (key, value) in table {
            if level > 0 && key == "fit" {
                continue;
            }
            match (self.table.get_mut(&key), value) {
                (None, value) => {
                    self.table.insert(key, value);
                }
                (Some(toml::Value::Table(mine)), toml::Value::Table(theirs)) => {
                    for (k, v) in theirs {
                        mine.entry(k).or_insert(v);
                    }
                }
                (Some(_), _) => {}
            }
        }
        for (what, place) in places {
            self.places.entry(what).or_insert(place);
        }
    }

    fn at(&self, (level, line): LineAt, what: &str) -> DriveFileError {
        DriveFileError(format!("{}:{line}: {what}", self.labels[level]))
    }

    /// The place of a key, or of its table, or the beginning of the file.
    fn place(&self, table: &str, key: &str) -> LineAt {
        let find = |t: &str, k: &str| self.places.get(&(t.to_string(), k.to_string())).copied();
        find(table, key).or_else(|| find(table, "")).unwrap_or((0, 1))
    }

    fn wrong(&self, table: &str, key: &str, what: &str) -> DriveFileError {
        self.at(self.place(table, key), what)
    }

    /// Numbers in the units of their keys in the place of texts with units of their own.
    fn numbers(&mut self) -> Result<(), DriveFileError> {
        let models = MODELS.iter().map(|m| (m.name, m.keys));
        let declared: Vec<_> = TABLES.iter().map(|t| (t.name, t.keys)).chain(models).collect();
        let mut wrong = Vec::new();
        for (table, inner) in &mut self.table {
            let keys =
                declared.iter().filter(|(name, _)| name == table).flat_map(|(_, keys)| *keys);
            let values = inner.as_table_mut().into_iter().flatten();
            for (key, value) in values {
                let declared = keys.clone().find(|k| k.name == key);
                let read = declared.zip(value.as_str()).and_then(|(k, text)| k.with_unit(text));
                match read {
                    None => {}
                    Some(Ok(number)) => *value = number,
                    Some(Err(what)) => wrong.push((table.clone(), key.to_string(), what)),
                }
            }
        }
        match wrong.first() {
            None => Ok(()),
            Some((table, key, what)) => Err(self.wrong(table, key, &format!("{key} = {what}"))),
        }
    }

    fn check(mut self) -> Result<DriveFile, DriveFileError> {
        self.numbers()?;
        self.check_keys("", TABLES[0].keys, &|key, value| {
            TABLES[1..].iter().any(|t| t.name == key) || (value.is_table() && known_model(key))
        })?;
        let model = self.model()?;
        for (key, value) in &self.table {
            if !value.is_table() {
                continue;
            }
            if known_model(key) && key != model.name {
                let what = format!("table [{key}] does not belong to model '{}'", model.name);
                return Err(self.wrong(key, "", &what));
            }
        }
        let there =
            |t: &&keys::TableKeys| t.name != faults::TABLE || self.table.contains_key(t.name);
        for table in TABLES[1..].iter().filter(there) {
            self.check_keys(table.name, table.keys, &|_, value| {
                table.name == "baseline" && keys::number(value).is_some_and(f64::is_finite)
            })?;
        }
        self.check_keys(model.name, model.keys, &|_, _| false)?;
        let file = DriveFile::typed(self.id.clone(), self.table.clone());
        let Identity { capacity_bytes, sector_bytes, .. } = file.identity;
        if sector_bytes != 512 && sector_bytes != 4096 {
            let what = format!("sector_bytes = {sector_bytes} must be 512 or 4096");
            return Err(self.wrong("identity", "sector_bytes", &what));
        }
        if capacity_bytes % sector_bytes != 0 {
            let what = format!(
                "capacity_bytes = {capacity_bytes} must be a multiple of sector_bytes \
                 = {sector_bytes}"
            );
            return Err(self.wrong("identity", "capacity_bytes", &what));
        }
        let (depth, queues) = (file.host.queue_depth.into(), file.host.hw_queues.into());
        let tags: u64 = u64::saturating_mul(depth, queues);
        if tags > keys::TAGS_MAX {
            let what = format!(
                "hw_queues = {queues} with queue_depth = {depth} make {tags} tags, at most {}; choose less of one",
                keys::TAGS_MAX
            );
            return Err(self.wrong("host", "hw_queues", &what));
        }
        let wrong = |w: Wrong| self.wrong(w.table, w.key, &format!("{} {}", w.key, w.what));
        (model.check)(&file).map_err(wrong)?;
        faults::check(&file).map_err(wrong)?;
        Ok(file)
    }

    fn model(&self) -> Result<&'static Model, DriveFileError> {
        let name = self.table.get("model").and_then(toml::Value::as_str).expect(CHECKED);
        Model::find(name).ok_or_else(|| {
            let known: Vec<&str> = MODELS.iter().map(|m| m.name).collect();
            let what = format!("unknown model '{name}'; models are {}", known.join(", "));
            self.wrong("", "model", &what)
        })
    }

    /// Every value against its declaration, then every declaration for its value. `open` says which
    /// further keys are fine.
    fn check_keys(
        &self,
        table: &str,
        declared: &[Key],
        open: &dyn Fn(&str, &toml::Value) -> bool,
    ) -> Result<(), DriveFileError> {
        let values = if table.is_empty() {
            &self.table
        } else {
            match self.table.get(table) {
                None => return Err(self.at((0, 1), &format!("missing table [{table}]"))),
                Some(toml::Value::Table(values)) => values,
                Some(_) => {
                    return Err(self.wrong(
                        table,
                        "",
                        &format!("{table} must be a table [{table}]"),
                    ));
                }
            }
        };
        for (key, value) in values {
            match declared.iter().find(|k| k.name == key) {
                Some(k) => k.check(value).map_err(|what| self.wrong(table, key, &what))?,
                None if open(key, value) => {}
                None if table == "baseline" => {
                    return Err(self.wrong(table, key, &format!("{key} must be a number")));
                }
                None => return Err(self.unknown(table, key, value.is_table(), declared)),
            }
        }
        match declared.iter().find(|k| k.default.is_none() && !values.contains_key(k.name)) {
            None => Ok(()),
            Some(k) if table.is_empty() => {
                Err(self.at((0, 1), &format!("missing key '{}'", k.name)))
            }
            Some(k) => {
                let what = format!("missing key '{}' in table [{table}]", k.name);
                Err(self.wrong(table, "", &what))
            }
        }
    }

    fn unknown(&self, table: &str, key: &str, is_table: bool, declared: &[Key]) -> DriveFileError {
        // At the top, what is a table is spelled as one: look it up under (key, "").
        let place =
            if table.is_empty() && is_table { self.place(key, "") } else { self.place(table, key) };
        if table.is_empty() && is_table {
            let known = TABLES[1..].iter().map(|t| t.name).chain(MODELS.iter().map(|m| m.name));
            return self.at(place, &format!("unknown table [{key}]{}", meant(key, known)));
        }
        let all = TABLES.iter().map(|t| (t.name, t.keys));
        let mut all = all.chain(MODELS.iter().map(|m| (m.name, m.keys)));
        let hint = match all.find(|(_, keys)| keys.iter().any(|k| k.name == key)) {
            Some(("", _)) => "; it belongs above the first table".to_string(),
            Some((home, _)) => format!("; it belongs to table [{home}]"),
            None => meant(key, declared.iter().map(|k| k.name)),
        };
        self.at(place, &format!("unknown key '{key}'{hint}"))
    }
}

fn known_model(name: &str) -> bool {
    Model::find(name).is_some()
}

/// The tables of one file and the places of their keys.
#[expect(clippy::type_complexity, reason = "used once")]
fn read_layer(
    source: &Source,
    level: usize,
) -> Result<(toml::Table, BTreeMap<(String, String), LineAt>), DriveFileError> {
    let text = &source.text;
    let lines = Lines::of(text);
    let line_of = |at: usize| lines.at(at);
    let syntax = |e: toml::de::Error| {
        let line = e.span().map_or(1, |span| line_of(span.start));
        DriveFileError(format!("{}:{line}: {}", source.label, e.message().replace('\n', ", ")))
    };
    let spans = DeTable::parse(text).map_err(syntax)?;
    let table: toml::Table = toml::from_str(text).map_err(syntax)?;
    let mut places = BTreeMap::new();
    for (name, value) in spans.get_ref() {
        let line = line_of(name.span().start);
        // As a key and as a table: a plain key may be written as a table by mistake.
        places.insert((String::new(), name.get_ref().to_string()), (level, line));
        places.insert((name.get_ref().to_string(), String::new()), (level, line));
        let DeValue::Table(inner) = value.get_ref() else { continue };
        for (key, _) in inner {
            let line = line_of(key.span().start);
            places.insert((name.get_ref().to_string(), key.get_ref().to_string()), (level, line));
        }
    }
    Ok((table, places))
}
