//! Random drives around the shipped files (specs/drives.md 2; ranges of the class).
//!
//! A drive is a shipped file of its class with parameters multiplied by factors that are uniform in their
//! logarithm, and switches set by chance. The result is a complete drive file that is read and checked as any other.
//! Its `[iocost]` is measured on the drive as new, one short round of each test, as `hoistway calibrate --new` does:
//! controllers that are told a model are told one of this drive.

use hoistway::Nanos;
use hoistway_sim::calibrate::{Plan, measure};
use hoistway_sim::drive::DriveFile;
use hoistway_sim::rng::{Rng, stream};
use toml::Value;

/// A drive that was drawn.
#[derive(Clone, Debug)]
pub struct Drawn {
    /// Its class.
    pub class: &'static str,
    /// The shipped file.
    pub around: &'static str,
    /// It, checked.
    pub file: DriveFile,
    /// Its text.
    pub text: String,
}

/// A class: its name, parts of a hundred, the files, and what is drawn.
struct DriveClass {
    name: &'static str,
    percent: u64,
    files: &'static [&'static str],
    draw: fn(&mut Draw<'_>),
}

const CLASSES: &[DriveClass] = &[
    DriveClass {
        name: "sata",
        percent: 34,
        files: &["plextor-px-256m5s", "intel-320-160g", "intel-dc-s3520-240g", "sata-qlc-1tb"],
        draw: sata,
    },
    DriveClass {
        name: "nvme",
        percent: 28,
        files: &["samsung-970-pro", "nvme-consumer-gen4", "nvme-enterprise-gen4"],
        draw: nvme,
    },
    DriveClass { name: "emmc", percent: 6, files: &["emmc-5.1-64g"], draw: emmc },
    DriveClass { name: "usb", percent: 5, files: &["usb-stick-32g"], draw: card },
    DriveClass { name: "metered", percent: 10, files: &["cloud-gp3"], draw: metered },
    DriveClass {
        name: "disk",
        percent: 17,
        files: &[
            "hitachi-hts727550a9e364",
            "hdd-nearline-16tb",
            "maxtor-stm3320613as",
            "laptop-hdd-2009",
        ],
        draw: disk,
    },
];

/// Name of the drive of a case, and of its file.
pub fn id(seed: u64, number: u32) -> String {
    format!("random-{seed}-{number}")
}

/// Drive `number` of the population of `seed`.
pub fn draw(seed: u64, number: u32) -> Drawn {
    let mut drawn = draw_unmeasured(seed, number);
    let plan = Plan { duration: round(&drawn.file), steady: false, seed };
    let rates = measure(&drawn.file, &plan, &mut |_| {}).rates;
    let names = hoistway::ctl::cost::Rates::NAMES.iter();
    let rates = names.zip(rates.values()).map(|(n, v)| (n.to_string(), Value::Integer(v as i64)));
    let mut table = drawn.file.table.clone();
    table.insert("iocost".into(), Value::Table(rates.collect()));
    drawn.file = check(&drawn.file.id, &table);
    let around = drawn.around;
    drawn.text = format!(
        "# Drawn by `hoistway population --seed {seed} --print-drive {number}` around {around}.\n\
         # Its random streams carry its name: keep it in a file called {}.toml.\n{table}",
        drawn.file.id
    );
    drawn
}

/// The same with the rates for io.cost of the shipped file, and without its text.
pub(super) fn draw_unmeasured(seed: u64, number: u32) -> Drawn {
    let mut rng = stream(seed, &format!("population/{number}/drive"));
    let mut place = rng.below(100);
    let class = CLASSES
        .iter()
        .find(|c| match place.checked_sub(c.percent) {
            None => true,
            Some(rest) => {
                place = rest;
                false
            }
        })
        .expect("the classes make a hundred");
    let around = rng.one_of(class.files);
    let base = DriveFile::load(around).expect("an embedded drive");
    let mut table = base.table.clone();
    let id = id(seed, number);
    let title = format!("Random {} drive {number} of seed {seed}, around {around}", class.name);
    table.insert("name".into(), title.into());
    table.insert("baseline".into(), baseline(&base));
    (class.draw)(&mut Draw { table: &mut table, rng: &mut rng });
    let file = check(&id, &table);
    Drawn { class: class.name, around, file, text: String::new() }
}

fn check(id: &str, table: &toml::Table) -> DriveFile {
    DriveFile::parse(&format!("{id}.toml"), &table.to_string())
        .unwrap_or_else(|e| panic!("a drive that was drawn is valid (tested): {e}"))
}

/// Places and sizes of files; published figures are of the shipped drive.
fn baseline(base: &DriveFile) -> Value {
    let kept = ["file_start_frac", "readahead_window_kib", "file_mib"];
    let kept =
        kept.iter().filter_map(|k| Some((k.to_string(), base.value("baseline", k)?.clone())));
    Value::Table(kept.collect())
}

/// A round of the io.cost tests: slow drives need longer to do anything.
fn round(file: &DriveFile) -> Nanos {
    if file.host.bus == "nvme" && file.model == "flash" { Nanos::ms(100) } else { Nanos::secs(1) }
}

/// A file that is being changed.
struct Draw<'a> {
    table: &'a mut toml::Table,
    rng: &'a mut Rng,
}

impl Draw<'_> {
    fn get(&self, table: &str, key: &str) -> f64 {
        match &self.table[table][key] {
            Value::Integer(i) => *i as f64,
            Value::Float(f) => *f,
            other => unreachable!("{table}.{key} = {other} is no number"),
        }
    }

    /// Integers stay integers; numbers keep four digits, so that files can be read.
    fn put(&mut self, table: &str, key: &str, value: f64) {
        let old = self.table[table].get(key);
        let new = match old {
            Some(Value::Integer(_)) if INTEGERS.iter().any(|i| key.ends_with(i)) => {
                Value::Integer(value.round().max(1.0) as i64)
            }
            _ => Value::Float(digits(value)),
        };
        self.set(table, key, new);
    }

    fn set(&mut self, table: &str, key: &str, value: Value) {
        let inner = self.table[table].as_table_mut().expect("a table of the file");
        inner.insert(key.to_string(), value);
    }

    /// Uniform in its logarithm.
    fn between(&mut self, low: f64, high: f64) -> f64 {
        low * libm::exp(self.rng.unit() * libm::log(high / low))
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.rng.below(100) < percent
    }

    /// Multiplies each key by a factor of its own.
    fn scale(&mut self, table: &str, keys: &[&str], low: f64, high: f64) {
        for key in keys {
            let factor = self.between(low, high);
            self.put(table, key, self.get(table, key) * factor);
        }
    }

    /// Multiplies all keys by the same factor.
    fn scale_together(&mut self, table: &str, keys: &[&str], low: f64, high: f64) {
        let factor = self.between(low, high);
        for key in keys {
            self.put(table, key, self.get(table, key) * factor);
        }
    }
}

/// Ends of keys that are whole numbers.
const INTEGERS: &[&str] = &["_kib", "_mib", "dies", "parallel", "open_units"];

/// Four significant digits, as a file shows them.
fn digits(value: f64) -> f64 {
    format!("{value:.3e}").parse().expect("a number that was printed")
}

/// What all flash drives vary in.
fn flash(d: &mut Draw<'_>) {
    let times = ["read_us", "program_us", "cmd_read_us", "cmd_write_us", "pipeline_us"];
    d.scale("flash", &times, 0.5, 2.0);
    let channels = d.get("flash", "channels");
    let dies = d.get("flash", "dies") * d.between(0.5, 2.0);
    d.put("flash", "dies", (dies / channels).round().max(1.0) * channels);
    let buffer = d.get("flash", "write_buffer_kib") * d.between(0.25, 4.0);
    let least = 2.0 * d.get("flash", "program_unit_kib");
    d.put("flash", "write_buffer_kib", buffer.max(least));
    d.scale("flash", &["flush_us"], 0.3, 3.0);
    d.scale("flash", &["channel_mb_s"], 0.7, 1.5);
    let suspend = if d.chance(50) { d.between(20.0, 150.0) } else { 0.0 };
    d.put("flash", "suspend_us", suspend);
    let plp = d.chance(30);
    d.set("flash", "plp", plp.into());
    let blocks = if d.chance(30) { "all" } else { "none" };
    d.set("flash", "flush_blocks", blocks.into());
}

/// Rate of the link; the write direction keeps its relation.
fn link(d: &mut Draw<'_>, low: f64, high: f64) {
    let rate = d.between(low, high);
    let factor = rate / d.get("link", "rate_mb_s");
    d.put("link", "rate_mb_s", rate);
    if d.table["link"].get("write_rate_mb_s").is_some() {
        d.put("link", "write_rate_mb_s", d.get("link", "write_rate_mb_s") * factor);
    }
}

fn sata(d: &mut Draw<'_>) {
    flash(d);
    link(d, 200.0, 560.0);
    let quantum = if d.chance(50) { d.rng.one_of(&[128, 256, 512, 1024]) } else { 0 };
    d.set("flash", "seq_quantum_kib", quantum.into());
}

fn nvme(d: &mut Draw<'_>) {
    flash(d);
    link(d, 1500.0, 7000.0);
    let quantum = if d.chance(20) { d.rng.one_of(&[128, 256, 512, 1024]) } else { 0 };
    d.set("flash", "seq_quantum_kib", quantum.into());
}

fn emmc(d: &mut Draw<'_>) {
    flash(d);
    link(d, 150.0, 400.0);
}

fn card(d: &mut Draw<'_>) {
    d.scale("card", &["cmd_us", "read_access_us", "flush_us", "erase_ms"], 0.5, 2.0);
    d.scale("card", &["read_mb_s", "write_mb_s", "copy_mb_s"], 0.6, 1.7);
    let units = d.rng.one_of(&[1, 2, 3, 4, 6, 8]);
    d.set("card", "open_units", units.into());
}

fn metered(d: &mut Draw<'_>) {
    let iops = d.between(500.0, 20_000.0);
    d.put("bucket", "iops", iops);
    let rate = d.between(60.0, 1000.0);
    d.put("bucket", "bytes_mb_s", rate);
    d.put("link", "rate_mb_s", 1250.0);
    d.scale("bucket", &["iops_burst", "bytes_burst_kib"], 0.25, 4.0);
    d.scale("bucket", &["read_us", "write_us", "flush_us"], 0.4, 2.5);
    d.scale("bucket", &["parallel"], 0.25, 2.0);
    let sigma = d.between(0.05, 0.6);
    d.put("bucket", "sigma", sigma);
}

fn disk(d: &mut Draw<'_>) {
    d.scale_together("hdd", &["outer_mb_s", "inner_mb_s"], 0.7, 1.4);
    let seeks = ["seek_track_ms", "seek_avg_ms", "seek_full_ms", "write_settle_ms"];
    d.scale_together("hdd", &seeks, 0.7, 1.4);
    let rpm = d.rng.one_of(&[5400, 7200]);
    d.set("hdd", "rpm", rpm.into());
    d.scale("hdd", &["cmd_overhead_us"], 0.5, 2.0);
    d.scale("hdd", &["write_buffer_kib", "readahead_kib"], 0.25, 4.0);
    d.scale("hdd", &["age_weight_ms_per_s", "destage_penalty_ms"], 0.5, 2.0);
    // Mainboards of the years around 2008 ran SATA as IDE.
    if d.chance(15) {
        d.set("host", "queue_depth", 1.into());
    }
}
