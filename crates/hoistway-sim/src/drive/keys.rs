//! The keys of drive files as data: what `hoistway show` lists, the documents are made from, and
//! every file is checked against (specs/drives.md 2.1). A model's own keys live in the model's
//! file.
//!
//! Bounds above those of the specification keep arithmetic in range: no size above 2^50 bytes, no
//! time above 11 days, no rate above 10^6 MB/s.

use super::faults;
use hoistway::quantity::QuantityError;

/// What a key holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ValueType {
    /// An integer.
    Int {
        /// Smallest value.
        min: u64,
        /// Largest value.
        max: u64,
    },
    /// A number, integer or decimal.
    Num {
        /// Smallest value.
        min: f64,
        /// Largest value.
        max: f64,
    },
    /// A number, or 0 for nothing of the kind.
    Off {
        /// Smallest value above 0.
        min: f64,
        /// Largest value.
        max: f64,
    },
    /// true or false.
    Bool,
    /// Any text that is not empty.
    Text,
    /// One of these words.
    Word(&'static [&'static str]),
    /// A list of [cylinders, ms] with both ascending, at least two.
    Knots,
}

/// One key of a table.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Its name; the unit is its suffix.
    pub name: &'static str,
    /// What it holds.
    pub kind: ValueType,
    /// `None`: required. Otherwise what holds when it is missing, in words.
    pub default: Option<&'static str>,
    /// One sentence.
    pub doc: &'static str,
}

impl Key {
    const fn new(name: &'static str, kind: ValueType, doc: &'static str) -> Key {
        Key { name, kind, default: None, doc }
    }

    /// An integer in `min..=max`.
    pub const fn int(name: &'static str, min: u64, max: u64, doc: &'static str) -> Key {
        Key::new(name, ValueType::Int { min, max }, doc)
    }

    /// A size in KiB, from 0.
    pub const fn kib(name: &'static str, doc: &'static str) -> Key {
        Key::int(name, 0, 1 << 40, doc)
    }

    /// A size in KiB, from 1.
    pub const fn kib1(name: &'static str, doc: &'static str) -> Key {
        Key::int(name, 1, 1 << 40, doc)
    }

    /// A size in MiB, from 0.
    pub const fn mib(name: &'static str, doc: &'static str) -> Key {
        Key::int(name, 0, 1 << 30, doc)
    }

    /// A number in `min..=max`.
    pub const fn num(name: &'static str, min: f64, max: f64, doc: &'static str) -> Key {
        Key::new(name, ValueType::Num { min, max }, doc)
    }

    /// A time in microseconds, from 0.
    pub const fn us(name: &'static str, doc: &'static str) -> Key {
        Key::num(name, 0.0, 1e12, doc)
    }

    /// A time in milliseconds, from 0.
    pub const fn ms(name: &'static str, doc: &'static str) -> Key {
        Key::num(name, 0.0, 1e9, doc)
    }

    /// A rate in 10^6 bytes/s: at least 1 kB/s, with which a page takes four seconds.
    pub const fn rate(name: &'static str, doc: &'static str) -> Key {
        Key::num(name, 1e-3, 1e6, doc)
    }

    /// The same, or 0 (what that means is up to the key).
    pub const fn rate0(name: &'static str, doc: &'static str) -> Key {
        Key::off(name, 1e-3, 1e6, doc)
    }

    /// A number in `min..=max`, or 0: nothing of the kind.
    pub const fn off(name: &'static str, min: f64, max: f64, doc: &'static str) -> Key {
        Key::new(name, ValueType::Off { min, max }, doc)
    }

    /// The mean time between things that happen by themselves, or the length of such a thing, in milliseconds; 0: it
    /// does not happen. What is shorter than 0.1 ms is no event that a scheduler could see but part of every service,
    /// and a run would be nothing but such events: with this bound it has at most 10,000 in a second.
    pub const fn event_ms(name: &'static str, doc: &'static str) -> Key {
        Key::off(name, 0.1, 1e9, doc)
    }

    /// true or false.
    pub const fn flag(name: &'static str, doc: &'static str) -> Key {
        Key::new(name, ValueType::Bool, doc)
    }

    /// Any text.
    pub const fn text(name: &'static str, doc: &'static str) -> Key {
        Key::new(name, ValueType::Text, doc)
    }

    /// One of `words`.
    pub const fn word(
        name: &'static str,
        words: &'static [&'static str],
        doc: &'static str,
    ) -> Key {
        Key::new(name, ValueType::Word(words), doc)
    }

    /// A list of [cylinders, ms].
    pub const fn knots(name: &'static str, doc: &'static str) -> Key {
        Key::new(name, ValueType::Knots, doc)
    }

    /// The same, but it may be missing; `default` says in words what holds then.
    pub const fn or(self, default: &'static str) -> Key {
        Key { default: Some(default), ..self }
    }

    /// The number that a text with a unit stands for in the unit of the key's name: `"1.5GB/s"` of a
    /// `rate_mb_s` is 1500. `None` where the key holds no such quantity.
    pub(super) fn with_unit(&self, text: &str) -> Option<Result<toml::Value, QuantityError>> {
        use hoistway::quantity::{bytes, duration, rate};
        let numeric = matches!(
            self.kind,
            ValueType::Int { .. } | ValueType::Num { .. } | ValueType::Off { .. }
        );
        // A price per something is no quantity of that.
        if !numeric || self.name.contains("_per_") {
            return None;
        }
        let time: Read = |text| duration(text).map(|t| t.0);
        let (read, unit): (Read, u64) = match self.name {
            n if n.ends_with("_mb_s") => (rate, 1_000_000),
            n if n.ends_with("_bytes") => (bytes, 1),
            n if n.ends_with("_kib") => (bytes, 1 << 10),
            n if n.ends_with("_mib") => (bytes, 1 << 20),
            n if n.ends_with("_ns") => (time, 1),
            n if n.ends_with("_us") => (time, 1_000),
            n if n.ends_with("_ms") => (time, 1_000_000),
            n if n.ends_with("_s") => (time, 1_000_000_000),
            _ => return None,
        };
        Some(read(text).map(|total| match i64::try_from(total / unit) {
            Ok(whole) if total.is_multiple_of(unit) => toml::Value::Integer(whole),
            _ => toml::Value::Float(total as f64 / unit as f64),
        }))
    }

    /// What is wrong with `value`, as the end of a sentence that begins with the key.
    pub fn check(&self, value: &toml::Value) -> Result<(), String> {
        let must = |what: String| Err(format!("{} = {} {what}", self.name, short(value)));
        match self.kind {
            ValueType::Int { min, max } => match value.as_integer() {
                None => must("must be an integer".into()),
                Some(i) if u64::try_from(i).is_ok_and(|i| i >= min && i <= max) => Ok(()),
                Some(_) => must(format!("is outside {min}..={max}")),
            },
            ValueType::Num { min, max } => match number(value) {
                None => must("must be a number".into()),
                Some(f) if f >= min && f <= max => Ok(()),
                Some(_) => must(format!("is outside {min}..={max}")),
            },
            ValueType::Off { min, max } => match number(value) {
                None => must("must be a number".into()),
                Some(f) if f == 0.0 || f >= min && f <= max => Ok(()),
                Some(_) => must(format!("is neither 0 nor in {min}..={max}")),
            },
            ValueType::Bool if value.is_bool() => Ok(()),
            ValueType::Bool => must("must be true or false".into()),
            ValueType::Text => match value.as_str() {
                Some(s) if !s.is_empty() => Ok(()),
                Some(_) => must("must not be empty".into()),
                None => must("must be text in quotes".into()),
            },
            ValueType::Word(words) => match value.as_str() {
                Some(s) if words.contains(&s) => Ok(()),
                _ => must(format!("must be one of \"{}\"", words.join("\", \""))),
            },
            ValueType::Knots => match knots(value) {
                Some(_) => Ok(()),
                None => must(
                    "must be a list of at least two [cylinders, ms], both ascending from [1, ...]"
                        .into(),
                ),
            },
        }
    }
}

/// Reads a text as a quantity.
type Read = fn(&str) -> Result<u64, QuantityError>;

/// An integer or decimal as a number.
pub(super) fn number(value: &toml::Value) -> Option<f64> {
    match value {
        toml::Value::Integer(i) => Some(*i as f64),
        toml::Value::Float(f) => Some(*f),
        _ => None,
    }
}

/// The list of a [`ValueType::Knots`]: cylinders and milliseconds; `None` if it is malformed.
pub(super) fn knots(value: &toml::Value) -> Option<Vec<(f64, f64)>> {
    let list = value.as_array()?;
    let pairs: Option<Vec<(f64, f64)>> = list
        .iter()
        .map(|pair| match pair.as_array()?.as_slice() {
            [d, ms] => Some((d.as_integer()? as f64, number(ms)?)),
            _ => None,
        })
        .collect();
    let pairs = pairs?;
    let ascending = pairs.windows(2).all(|w| w[0].0 < w[1].0 && w[0].1 <= w[1].1);
    let in_range = pairs.iter().all(|&(d, ms)| d >= 1.0 && (0.0..=1e9).contains(&ms));
    (pairs.len() >= 2 && ascending && in_range).then_some(pairs)
}

/// A value as it is quoted in a message.
fn short(value: &toml::Value) -> String {
    let text = value.to_string().replace('\n', " ");
    if text.chars().count() <= 40 {
        return text;
    }
    text.chars().take(37).chain("...".chars()).collect()
}

/// A table and its keys.
#[derive(Clone, Copy, Debug)]
pub struct TableKeys {
    /// Name of the table; empty for the top of the file.
    pub name: &'static str,
    /// Its keys.
    pub keys: &'static [Key],
    /// One sentence.
    pub doc: &'static str,
}

/// The tables every drive file has, and `[faults]`, which it may have. The model's own table comes from [`super::MODELS`].
pub const TABLES: &[TableKeys] = &[
    TableKeys { name: "", keys: TOP_KEYS, doc: "The file itself." },
    TableKeys { name: "identity", keys: IDENTITY_KEYS, doc: "What the drive is." },
    TableKeys { name: "host", keys: HOST_KEYS, doc: "How the block layer sees it." },
    TableKeys { name: "link", keys: LINK_KEYS, doc: "The link to the host." },
    TableKeys {
        name: "baseline",
        keys: BASELINE_KEYS,
        doc: "Published figures, the reference experiment's geometry, and any further number.",
    },
    TableKeys {
        name: "iocost",
        keys: IOCOST_KEYS,
        doc: "Coefficients of the linear cost model of io.cost.",
    },
    TableKeys {
        name: faults::TABLE,
        keys: faults::FAULT_KEYS,
        doc: "What goes wrong with it; the table may be missing.",
    },
];

const TOP_KEYS: &[Key] = &[
    Key::int("schema", 1, 1, "Version of this format."),
    Key::text("name", "Title for people."),
    Key::text("model", "The drive model, which also names the model's table."),
    Key::text("base", "Id or path of the file this one is derived from.").or("none"),
    Key::word("fit", &["good", "poor"], "How well the calibration fitted.").or("not known"),
];

const IDENTITY_KEYS: &[Key] = &[
    Key::int("capacity_bytes", 1, 1 << 60, "Size; a multiple of sector_bytes."),
    Key::int("sector_bytes", 512, 4096, "512 or 4096."),
    Key::flag("rotational", "A spinning disk."),
    Key::int("year", 0, 9999, "Year of introduction."),
];

/// Deepest queue: no driver of Linux is given more tags.
const DEPTH_MAX: u64 = 10_240;
/// Most dispatch contexts. Each has 256 requests under a scheduler, and every context is looked at for work: 4,096 of them cost
/// half a minute for what one takes a second for where there were 65,535.
const QUEUES_MAX: u64 = 4_096;
/// Most tags in all dispatch contexts: without a scheduler each context has the full depth, at 200 bytes a request. Above what
/// any machine has: 1,023 tags for each of 1,024 processors.
pub(super) const TAGS_MAX: u64 = 1 << 20;

const HOST_KEYS: &[Key] = &[
    Key::word(
        "bus",
        &["sata", "pata", "nvme", "emmc", "sd", "usb", "virtual"],
        "ValueType of link.",
    ),
    Key::int("queue_depth", 1, DEPTH_MAX, "Commands the drive takes at once (tags)."),
    Key::int("hw_queues", 1, QUEUES_MAX, "Dispatch contexts that share the tags."),
    Key::int("max_request_kib", 4, 1 << 40, "The block layer splits above it."),
    Key::flag("flush_nonqueued", "A flush runs alone."),
    Key::flag("fua", "The drive knows forced unit access."),
    Key::int(
        "copy_ns_per_kib",
        0,
        1_000_000_000,
        "CPU cost of a buffered reader on the drive's reference host.",
    ),
];

const LINK_KEYS: &[Key] = &[
    Key::rate("rate_mb_s", "Rate of the link (reads, and writes unless stated)."),
    Key::rate("write_rate_mb_s", "Rate of the write direction.").or("rate_mb_s"),
    Key::word("duplex", &["half", "full"], "Whether both directions share the link."),
];

const BASELINE_KEYS: &[Key] = &[
    Key::num("file_start_frac", 0.0, 1.0, "Where experiments place their files by default.")
        .or("0.05"),
    Key::int("readahead_window_kib", 0, 1 << 40, "Read-ahead window of the reference host."),
    Key::int("file_mib", 0, 1 << 30, "File size of the reference experiment."),
];

const IOCOST_KEYS: &[Key] = &[
    Key::int("rbps", 0, 1 << 60, "Sequential read bytes per second."),
    Key::int("rseqiops", 0, 1 << 60, "Sequential 4 KiB reads per second."),
    Key::int("rrandiops", 0, 1 << 60, "Random 4 KiB reads per second."),
    Key::int("wbps", 0, 1 << 60, "Sequential write bytes per second."),
    Key::int("wseqiops", 0, 1 << 60, "Sequential 4 KiB writes per second."),
    Key::int("wrandiops", 0, 1 << 60, "Random 4 KiB writes per second."),
];
