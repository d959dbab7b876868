//! A drive file in the making: values, and where each comes from.

use hoistway_sim::drive::keys::{TABLES, ValueType};
use hoistway_sim::drive::{DriveFile, Model};
use hoistway_sim::probe::Subject;
use std::collections::BTreeMap;
use std::fmt::Write;
use toml::Value;

/// Where a value comes from; stands beside it in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// What the kernel or the user says of the device.
    Told,
    /// Found by these tests.
    Measured(String),
    /// No test of this run tells it: the value of this shipped drive.
    Guessed(String),
}

impl Origin {
    /// In words, as in the file.
    pub fn words(&self) -> String {
        match self {
            Origin::Told => "told: by the device".into(),
            Origin::Measured(tests) => format!("measured: {tests}"),
            Origin::Guessed(id) => format!("guessed: as {id}; no test of this run tells"),
        }
    }
}

/// Values and origins.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// Id and title of the file to be.
    pub id: String,
    table: toml::Table,
    origins: BTreeMap<(String, String), Origin>,
    model: String,
    /// What the machine that asks needs for each submitter after a flush, µs: not the drive's, but without it the
    /// drive would be blamed (`SimProbe::with_reaction`).
    pub reaction_us: f64,
    /// A flash drive's pipeline takes no longer than this, µs: writes that are answered sooner have shown it.
    pub pipeline_most: f64,
}

impl Candidate {
    /// The device as it says it is, with everything else as in `class`.
    pub fn new(id: &str, subject: &Subject, class: &DriveFile) -> Candidate {
        let mut table = class.table.clone();
        table.remove("base");
        table.remove("fit");
        table.remove("faults");
        let mut candidate = Candidate {
            id: id.into(),
            table,
            origins: BTreeMap::new(),
            model: class.model.clone(),
            reaction_us: 0.0,
            pipeline_most: f64::INFINITY,
        };
        let all: Vec<(String, String)> = candidate
            .table
            .iter()
            .filter_map(|(name, t)| Some((name, t.as_table()?)))
            .flat_map(|(name, t)| t.keys().map(move |k| (name.clone(), k.clone())))
            .collect();
        for place in all {
            candidate.origins.insert(place, Origin::Guessed(class.id.clone()));
        }
        candidate.tell(subject);
        candidate
    }

    fn tell(&mut self, subject: &Subject) {
        self.table.insert("name".into(), subject.title.clone().into());
        let baseline = ["file_start_frac", "readahead_window_kib", "file_mib"];
        let kept = self.table["baseline"].as_table().expect("a table of every file");
        let kept = kept.iter().filter(|(k, _)| baseline.contains(&k.as_str()));
        let kept: toml::Table = kept.map(|(k, v)| (k.clone(), v.clone())).collect();
        self.table.insert("baseline".into(), Value::Table(kept));
        let int = |v: u64| Value::Integer(v as i64);
        // Some volumes end in half a sector, which a drive file does not know.
        let capacity = subject.capacity / subject.sector * subject.sector;
        let told = [
            ("identity", "capacity_bytes", int(capacity)),
            ("identity", "sector_bytes", int(subject.sector)),
            ("identity", "rotational", subject.rotational.into()),
            ("host", "bus", subject.bus.clone().into()),
            ("host", "queue_depth", int(subject.queue_depth.into())),
            ("host", "hw_queues", int(subject.hw_queues.into())),
            ("host", "max_request_kib", int(subject.max_request_kib.max(4))),
            ("host", "fua", subject.fua.into()),
        ];
        for (table, key, value) in told {
            self.put(table, key, value);
            self.mark(table, &[key], Origin::Told);
        }
        // A flush that runs alone is a property of the transport (specs/drives.md 1.2).
        let alone = matches!(subject.bus.as_str(), "sata" | "pata" | "sd" | "emmc" | "usb");
        self.put("host", "flush_nonqueued", alone.into());
        self.mark("host", &["flush_nonqueued"], Origin::Told);
        if self.model == "hdd" {
            self.put("hdd", "write_cache", subject.write_cache.into());
            self.mark("hdd", &["write_cache"], Origin::Told);
        }
    }

    /// Sets a value.
    pub fn put(&mut self, table: &str, key: &str, value: Value) {
        let inner = self.table[table].as_table_mut().expect("a table of the class's file");
        inner.insert(key.to_string(), value);
    }

    /// Removes a key that may be missing.
    pub fn remove(&mut self, table: &str, key: &str) {
        let inner = self.table[table].as_table_mut().expect("a table of the class's file");
        inner.remove(key);
    }

    /// Sets a number; keys that hold integers get the nearest, all are kept in their bounds.
    pub fn set(&mut self, table: &str, key: &str, value: f64) {
        let value = match self.kind(table, key) {
            ValueType::Int { min, max } => {
                Value::Integer((value.round().max(0.0) as u64).clamp(min, max) as i64)
            }
            ValueType::Num { min, max } => Value::Float(digits(value.clamp(min, max))),
            ValueType::Off { .. } if value == 0.0 => Value::Float(0.0),
            ValueType::Off { min, max } => Value::Float(digits(value.clamp(min, max))),
            other => unreachable!("{table}.{key} is no number but {other:?}"),
        };
        self.put(table, key, value);
    }

    /// Multiplies a number that may be missing.
    pub fn scale_if_there(&mut self, table: &str, key: &str, factor: f64) {
        if self.table[table].get(key).is_some() {
            self.set(table, key, self.get(table, key) * factor);
        }
    }

    /// A number.
    pub fn get(&self, table: &str, key: &str) -> f64 {
        match &self.table[table][key] {
            Value::Integer(i) => *i as f64,
            Value::Float(f) => *f,
            other => unreachable!("{table}.{key} = {other} is no number"),
        }
    }

    /// A switch.
    pub fn is(&self, table: &str, key: &str) -> bool {
        self.table[table][key].as_bool().expect("a switch of the class's file")
    }

    /// A word.
    pub fn text_of(&self, table: &str, key: &str) -> &str {
        self.table[table][key].as_str().expect("a word of the class's file")
    }

    /// The reaction of the machine that asks, ns.
    pub fn reaction_ns(&self) -> u64 {
        (self.reaction_us * 1e3) as u64
    }

    /// Says where values come from.
    pub fn mark(&mut self, table: &str, keys: &[&str], origin: Origin) {
        for key in keys {
            self.origins.insert((table.into(), (*key).into()), origin.clone());
        }
    }

    /// Keys by origin: how many were guessed, and which.
    pub fn guessed(&self) -> Vec<String> {
        let kept = self.origins.iter().filter(|((table, key), origin)| {
            matches!(origin, Origin::Guessed(_))
                && table != "baseline"
                && self.table.get(table).is_some_and(|t| t.get(key).is_some())
        });
        kept.map(|((table, key), _)| format!("{table}.{key}")).collect()
    }

    fn kind(&self, table: &str, key: &str) -> ValueType {
        let own = Model::find(&self.model).filter(|m| m.name == table).map(|m| m.keys);
        let keys = own.or_else(|| TABLES.iter().find(|t| t.name == table).map(|t| t.keys));
        let key = keys.and_then(|keys| keys.iter().find(|k| k.name == key));
        key.expect("a key of the format").kind
    }

    /// The drive; `Err` if the values make none.
    pub fn file(&self) -> Result<DriveFile, String> {
        let label = format!("{}.toml", self.id);
        DriveFile::parse(&label, &self.table.to_string()).map_err(|e| e.to_string())
    }

    /// The text of the file: every value with its origin.
    pub fn text(&self, head: &[String], fit: &str) -> String {
        let mut out = String::new();
        for line in head {
            writeln!(out, "# {line}").expect("a string");
        }
        writeln!(out, "schema = 1").expect("a string");
        for key in ["name", "model"] {
            writeln!(out, "{key} = {}", self.table[key]).expect("a string");
        }
        writeln!(out, "fit = \"{fit}\"").expect("a string");
        let order = ["identity", "host", "link", self.model.as_str(), "baseline", "iocost"];
        for name in order {
            writeln!(out, "\n[{name}]").expect("a string");
            let table = self.table[name].as_table().expect("a table of every file");
            for (key, value) in table {
                let origin = self.origins.get(&(name.to_string(), key.clone()));
                let words = origin.map_or_else(|| "estimate".into(), Origin::words);
                writeln!(out, "{:<36} # {words}", format!("{key} = {value}")).expect("a string");
            }
        }
        out
    }
}

/// Four significant digits, as a file shows them.
fn digits(value: f64) -> f64 {
    format!("{value:.3e}").parse().expect("a number that was printed")
}
