//! Jobs from sections: every key has a meaning, or a note that says why it has none.

use super::ini::{self, Section, Setting};
use super::keys::{self, ENGINES, Fate};
use super::value::{bytes, flag, sides, time, whole};
use super::{Error, JobFile, Note, Place, Source, Weight};
use std::path::Path;

/// Which directions a job moves data in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Reads.
    Read,
    /// Writes.
    Write,
    /// Both.
    Mixed,
}

/// One job; what is not given is fio's default. Times in nanoseconds.
#[derive(Clone, Debug)]
pub struct Job {
    /// Its section's name.
    pub name: String,
    /// Where its section begins.
    pub place: Place,
    /// Its description, or nothing.
    pub description: String,
    /// Copies of it.
    pub numjobs: u64,
    /// Directions.
    pub direction: Direction,
    /// At random places.
    pub random: bool,
    /// Percent of reads of a mix.
    pub mix: u64,
    /// Percent of random places of a random job.
    pub percentage_random: u64,
    /// Calls in a row from a random place; bytes left out behind a sequential call.
    pub row: u64,
    /// See `row`.
    pub hole: u64,
    /// Sizes of reads and writes: `4096`, `4096-65536`, `4096/60:65536/40`.
    pub sizes: [String; 2],
    /// Alignment of random places.
    pub align: Option<u64>,
    /// Random blocks may repeat.
    pub repeat_blocks: bool,
    /// Distribution of random places, in the words of load `job`.
    pub distribution: Option<String>,
    /// Name of a file shared with others; a device begins with `/dev/`.
    pub filename: Option<String>,
    /// Bytes of the region.
    pub size: Option<u64>,
    /// Size of the file.
    pub filesize: Option<u64>,
    /// Bytes of a pass.
    pub io_size: Option<u64>,
    /// Where the region begins, and how much later in each copy.
    pub offset: u64,
    /// See `offset`.
    pub offset_increment: u64,
    /// The file exists although the job only writes.
    pub overwrite: bool,
    /// Advice on the access pattern is given.
    pub advise: bool,
    /// Cached pages are dropped.
    pub invalidate: bool,
    /// Past the page cache.
    pub direct: bool,
    /// Calls in flight; the low mark, and sizes of batches.
    pub depth: u64,
    /// See `depth`.
    pub depth_low: Option<u64>,
    /// See `depth`.
    pub batch: u64,
    /// See `depth`.
    pub batch_complete: u64,
    /// Syncs after so many writes.
    pub fsync: u64,
    /// See `fsync`.
    pub fdatasync: u64,
    /// A last fsync.
    pub end_fsync: bool,
    /// Every write is synced.
    pub sync: bool,
    /// Pause, its busy part, and calls between pauses.
    pub think: u64,
    /// See `think`.
    pub think_spin: u64,
    /// See `think`.
    pub think_blocks: u64,
    /// Bytes per second of reads and of writes.
    pub rate: [u64; 2],
    /// Calls per second of reads and of writes.
    pub rate_iops: [u64; 2],
    /// Independent arrivals.
    pub poisson: bool,
    /// Its time.
    pub runtime: Option<u64>,
    /// It fills the time.
    pub time_based: bool,
    /// It starts so much later.
    pub startdelay: u64,
    /// It is not measured so long.
    pub ramp: u64,
    /// Passes.
    pub loops: u64,
    /// It begins when all jobs before it are over.
    pub stonewall: bool,
    /// It begins when that job is over.
    pub wait_for: Option<String>,
    /// I/O priority: `rt/4`, `be/2`, `idle`.
    pub prio: Option<String>,
    /// Group, and its weight.
    pub cgroup: Option<String>,
    /// See `cgroup`.
    pub cgroup_weight: Option<u64>,
}

/// Reads a job file.
///
/// # Errors
///
/// Files that cannot be read, lines that say nothing, values out of their ranges, and what a job cannot be
/// without.
pub fn read(path: &Path, source: &mut dyn Source) -> Result<JobFile, Error> {
    let sections = ini::sections(path, source)?;
    let mut notes = Vec::new();
    let mut jobs: Vec<Job> = Vec::new();
    for section in &sections {
        let job = Reader::new(section, &mut notes).job()?;
        if let Some(name) = &job.wait_for
            && !jobs.iter().any(|j| j.name == *name)
        {
            let what = format!("wait_for={name}: no job of that name stands before it");
            return Err(Error { place: Some(section.place.clone()), what });
        }
        jobs.push(job);
    }
    Ok(JobFile { jobs, notes })
}

struct Reader<'a> {
    section: &'a Section,
    notes: &'a mut Vec<Note>,
    base: u64,
}

type Result<T, E = Error> = std::result::Result<T, E>;

const SECOND: u64 = 1_000_000_000;
const MICROSECOND: u64 = 1_000;

impl<'a> Reader<'a> {
    fn new(section: &'a Section, notes: &'a mut Vec<Note>) -> Reader<'a> {
        Reader { section, notes, base: 1024 }
    }

    fn note(&mut self, setting: &Setting, weight: Weight, why: impl Into<String>) {
        let note = Note {
            place: setting.place.clone(),
            key: setting.key.clone(),
            weight,
            why: why.into(),
        };
        // A line of [global] is read once for each job.
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// The last setting of a key, under any of its names.
    fn setting(&self, key: &str) -> Option<&'a Setting> {
        let names = keys::find(key).expect("the reader asks for keys of the table");
        let is = |s: &&Setting| s.key == names.0 || (!names.1.is_empty() && s.key == names.1);
        self.section.settings.iter().rev().find(is)
    }

    fn wrong<T>(&self, setting: &Setting, what: impl std::fmt::Display) -> Result<T> {
        let what = format!("{}: {what}", setting.key);
        Err(Error { place: Some(setting.place.clone()), what })
    }

    fn value<T>(&self, key: &str, parse: impl Fn(&str) -> Result<T, String>) -> Result<Option<T>> {
        let Some(setting) = self.setting(key) else { return Ok(None) };
        let Some(text) = setting.value.as_deref().filter(|v| !v.is_empty()) else {
            return self.wrong(setting, "has no value");
        };
        match parse(text) {
            Ok(value) => Ok(Some(value)),
            Err(what) => self.wrong(setting, what),
        }
    }

    fn text(&self, key: &str) -> Result<Option<String>> {
        self.value(key, |text| Ok(text.to_string()))
    }

    fn flag(&self, key: &str) -> Result<Option<bool>> {
        let Some(setting) = self.setting(key) else { return Ok(None) };
        match flag(setting.value.as_deref()) {
            Ok(value) => Ok(Some(value)),
            Err(what) => self.wrong(setting, what),
        }
    }

    fn number(&self, key: &str, range: std::ops::RangeInclusive<u64>) -> Result<Option<u64>> {
        self.value(key, |text| match whole(text)? {
            n if range.contains(&n) => Ok(n),
            n => Err(format!("{n} is outside {} to {}", range.start(), range.end())),
        })
    }

    fn size(&self, key: &str) -> Result<Option<u64>> {
        let base = self.base;
        self.value(key, |text| match text.strip_suffix('%') {
            Some(_) => Err("a share of a file is not known beforehand; write the bytes".into()),
            None => bytes(text, base),
        })
    }

    fn time(&self, key: &str, unit: u64) -> Result<u64> {
        Ok(self.value(key, |text| time(text, unit))?.unwrap_or(0))
    }

    fn both(&self, key: &str, parse: impl Fn(&str) -> Result<u64, String>) -> Result<[u64; 2]> {
        let both = self.value(key, |text| {
            let mut all = [0; 2];
            for (side, text) in all.iter_mut().zip(sides(text)) {
                if let Some(text) = text {
                    *side = parse(text)?;
                }
            }
            Ok(all)
        })?;
        Ok(both.unwrap_or_default())
    }

    /// Keys whose fate is not to be carried out, and keys that nobody knows.
    fn survey(&mut self) {
        for setting in &self.section.settings {
            match keys::find(&setting.key).map(|row| row.2) {
                Some(Fate::Carried) => {}
                Some(Fate::Ignored(why)) => self.note(setting, Weight::Ignored, why),
                // A switch that is off asks for nothing.
                Some(Fate::Unsupported(_)) if setting.value.as_deref() == Some("0") => {}
                Some(Fate::Unsupported(why)) => self.note(setting, Weight::Unsupported, why),
                None => self.note(setting, Weight::Unsupported, "the key is not known"),
            }
        }
    }

    fn job(mut self) -> Result<Job> {
        self.survey();
        self.base = match self.number("kb_base", 1000..=1024)? {
            Some(1000) => 1000,
            _ => 1024,
        };
        let (direction, random, extra) = self.kind()?;
        let direct = self.flag("direct")?.unwrap_or_else(|| {
            // The other way of saying it.
            matches!(self.flag("buffered"), Ok(Some(false)))
        });
        let depth = self.depth(direct)?;
        let batch = self.number("iodepth_batch", 0..=4096)?.unwrap_or(1);
        let complete = self.number("iodepth_batch_complete", 0..=4096)?.unwrap_or(1);
        let low = self.number("iodepth_low", 0..=4096)?;
        let (row, hole) = self.sequence(random, extra)?;
        let every = |n: Option<u64>| n.unwrap_or(0);
        let mix = match (self.number("rwmixread", 0..=100)?, self.number("rwmixwrite", 0..=100)?) {
            (Some(read), _) => read,
            (None, Some(write)) => 100 - write,
            (None, None) => 50,
        };
        let base = self.base;
        let job = Job {
            name: self.section.name.clone(),
            place: self.section.place.clone(),
            description: self.text("description")?.unwrap_or_default(),
            numjobs: self.number("numjobs", 1..=10_000)?.unwrap_or(1),
            direction,
            random,
            mix,
            percentage_random: self.percentage_random()?,
            row,
            hole,
            sizes: self.sizes()?,
            align: self
                .both("ba", |t| bytes(t, base))
                .map(|b| b.into_iter().max().filter(|&b| b > 0))?,
            repeat_blocks: self.flag("norandommap")?.unwrap_or(false),
            distribution: self.distribution()?,
            filename: self.filename()?,
            size: self.size("size")?,
            filesize: match self.size("filesize")? {
                Some(size) => Some(size),
                None => self.size("file_size")?,
            },
            io_size: self.size("io_size")?,
            offset: self.size("offset")?.unwrap_or(0),
            offset_increment: self.size("offset_increment")?.unwrap_or(0),
            overwrite: self.flag("overwrite")?.unwrap_or(false),
            advise: self.advise()?,
            invalidate: self.flag("invalidate")?.unwrap_or(true),
            direct,
            depth,
            depth_low: low.filter(|&low| low < depth),
            // 0: as many as there are.
            batch: if batch == 0 { depth } else { batch.min(depth) },
            batch_complete: complete.clamp(1, depth),
            fsync: every(self.number("fsync", 0..=u64::from(u32::MAX))?),
            fdatasync: every(self.number("fdatasync", 0..=u64::from(u32::MAX))?),
            end_fsync: self.flag("end_fsync")?.unwrap_or(false)
                || self.flag("fsync_on_close")?.unwrap_or(false),
            sync: self.synced(depth)?,
            think: self.time("thinktime", MICROSECOND)?,
            think_spin: self.time("thinktime_spin", MICROSECOND)?,
            think_blocks: self.number("thinktime_blocks", 1..=u64::from(u32::MAX))?.unwrap_or(1),
            rate: self.both("rate", |t| bytes(t, base))?,
            rate_iops: self.both("rate_iops", whole)?,
            poisson: self.poisson()?,
            runtime: self.value("runtime", |t| time(t, SECOND))?.filter(|&t| t > 0),
            time_based: self.flag("time_based")?.unwrap_or(false),
            startdelay: self.startdelay()?,
            ramp: self.time("ramp_time", SECOND)?,
            loops: self.number("loops", 1..=1_000_000)?.unwrap_or(1),
            stonewall: self.flag("stonewall")?.unwrap_or(false),
            wait_for: self.text("wait_for")?,
            prio: self.prio()?,
            cgroup: self.text("cgroup")?,
            cgroup_weight: self.number("cgroup_weight", 1..=10_000)?,
        };
        self.complete(job)
    }

    /// What a job cannot be without.
    fn complete(self, mut job: Job) -> Result<Job> {
        let wrong = |what: &str| Err(Error { place: Some(job.place.clone()), what: what.into() });
        let raw = job.filename.as_ref().is_some_and(|f| f.starts_with("/dev/"));
        job.size = job.size.or(job.filesize);
        if job.size.is_none() && !raw {
            return wrong(
                "the job has no size; add size=BYTES, or filename=/dev/... for a whole device",
            );
        }
        if job.time_based && job.runtime.is_none() {
            return wrong("time_based needs runtime");
        }
        Ok(job)
    }

    fn kind(&self) -> Result<(Direction, bool, Option<&'a str>)> {
        let Some(setting) = self.setting("rw") else { return Ok((Direction::Read, false, None)) };
        let text = setting.value.as_deref().unwrap_or("");
        let (word, extra) = match text.split_once(':') {
            Some((word, extra)) => (word.trim(), Some(extra.trim())),
            None => (text, None),
        };
        let (direction, random) = match word {
            "read" => (Direction::Read, false),
            "write" => (Direction::Write, false),
            "randread" => (Direction::Read, true),
            "randwrite" => (Direction::Write, true),
            "rw" | "readwrite" => (Direction::Mixed, false),
            "randrw" => (Direction::Mixed, true),
            "trim" | "randtrim" | "trimwrite" | "randtrimwrite" => {
                return self.wrong(setting, format!("{word}: trims are not modelled"));
            }
            _ => {
                let what =
                    format!("'{word}': choose read, write, randread, randwrite, rw or randrw");
                return self.wrong(setting, what);
            }
        };
        Ok((direction, random, extra))
    }

    /// `rw=randread:8`: calls in a row; `rw=read:64k`: bytes left out.
    fn sequence(&self, random: bool, extra: Option<&str>) -> Result<(u64, u64)> {
        let (Some(extra), Some(setting)) = (extra, self.setting("rw")) else { return Ok((1, 0)) };
        let read = match random {
            true => whole(extra).map(|n| (n.max(1), 0)),
            false => bytes(extra, self.base).map(|n| (1, n)),
        };
        match read {
            Ok(both) => Ok(both),
            Err(what) => self.wrong(setting, what),
        }
    }

    /// Calls in flight: those of an asynchronous engine, past the page cache.
    fn depth(&mut self, direct: bool) -> Result<u64> {
        let wanted = self.number("iodepth", 1..=4096)?.unwrap_or(1);
        let engine = self.setting("ioengine");
        let asynchronous = match engine {
            None => false,
            Some(setting) => {
                let name = setting.value.as_deref().unwrap_or("");
                match ENGINES.iter().find(|e| e.0 == name) {
                    Some(&(_, asynchronous)) => asynchronous,
                    None => {
                        let known: Vec<&str> = ENGINES.iter().map(|e| e.0).collect();
                        let what = format!(
                            "engine '{name}' is not known here; choose one of {}",
                            known.join(", ")
                        );
                        return self.wrong(setting, what);
                    }
                }
            }
        };
        let why = match (asynchronous, direct) {
            (true, true) => return Ok(wanted),
            (false, _) => {
                "a synchronous engine has one call in flight; give ioengine=libaio or io_uring"
            }
            (true, false) => "buffered calls are carried out one after another; give direct=1",
        };
        if wanted > 1
            && let Some(setting) = self.setting("iodepth")
        {
            // libaio and the synchronous engines are the same in the kernel; io_uring hands buffered calls to
            // workers, which is not modelled.
            let workers =
                asynchronous && engine.is_some_and(|e| e.value.as_deref() == Some("io_uring"));
            let weight = if workers { Weight::Unsupported } else { Weight::Ignored };
            self.note(setting, weight, why);
        }
        Ok(1)
    }

    fn sizes(&self) -> Result<[String; 2]> {
        let base = self.base;
        let one = move |text: &str| bytes(text, base).map(|n| n.to_string());
        let plain = |text: &str| one(text);
        let range = |text: &str| match text.split_once('-') {
            Some((from, to)) => Ok(format!("{}-{}", one(from)?, one(to)?)),
            None => one(text),
        };
        type Parse<'p> = &'p dyn Fn(&str) -> std::result::Result<String, String>;
        let split = |text: &str| split_of(text, base);
        let kinds: [(&str, Parse<'_>); 3] =
            [("bssplit", &split), ("bsrange", &range), ("bs", &plain)];
        for (key, parse) in kinds {
            // A list of sizes is separated by commas for directions as well.
            let given = self.value(key, |text| {
                let [reads, writes] = sides(text);
                let side = |text: Option<&str>| text.map_or(Ok("4096".into()), parse);
                Ok([side(reads)?, side(writes)?])
            })?;
            if let Some(given) = given {
                return Ok(given);
            }
        }
        Ok(["4096".into(), "4096".into()])
    }

    fn percentage_random(&self) -> Result<u64> {
        let all = self.both("percentage_random", |t| whole(t.trim_end_matches('%')))?;
        let given = self.setting("percentage_random");
        match (given, all[0]) {
            (None, _) => Ok(100),
            (Some(_), n @ 0..=100) => Ok(n),
            (Some(setting), n) => self.wrong(setting, format!("{n} is outside 0 to 100 percent")),
        }
    }

    fn distribution(&mut self) -> Result<Option<String>> {
        let Some(setting) = self.setting("random_distribution") else { return Ok(None) };
        let text = setting.value.as_deref().unwrap_or("").trim();
        if let Some(zones) = text.strip_prefix("zoned:") {
            if zones.contains(',') {
                self.note(
                    setting,
                    Weight::Unsupported,
                    "zones are the same for both directions: those of reads",
                );
            }
            return Ok(Some(format!("zoned:{}", zones.split(',').next().unwrap_or(""))));
        }
        let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
        let rest = match rest.split_once('/') {
            Some((rest, _)) => {
                self.note(
                    setting,
                    Weight::Unsupported,
                    "the centre of the distribution cannot be chosen",
                );
                rest
            }
            None => rest,
        };
        // fio's own defaults.
        let rest = match (kind, rest) {
            ("zipf", "") => "1.1",
            ("pareto", "") => "0.2",
            (_, rest) => rest,
        };
        match kind {
            "random" => Ok(None),
            "zipf" | "pareto" | "normal" if rest.parse::<f64>().is_ok() => {
                Ok(Some(format!("{kind}:{rest}")))
            }
            _ => self.wrong(
                setting,
                format!("'{text}': choose random, zipf:T, pareto:H, normal:D or zoned:..."),
            ),
        }
    }

    fn filename(&mut self) -> Result<Option<String>> {
        let Some(setting) = self.setting("filename") else { return Ok(None) };
        let text = setting.value.as_deref().unwrap_or("");
        let mut names = text.split(':').filter(|n| !n.is_empty());
        let Some(first) = names.next() else { return self.wrong(setting, "has no value") };
        if names.next().is_some() {
            self.note(
                setting,
                Weight::Unsupported,
                "each process has one file: the first of the list",
            );
        }
        let first = first.replace("$jobname", &self.section.name);
        if first.contains('$') {
            self.note(
                setting,
                Weight::Unsupported,
                "all copies of a job share the file of that name",
            );
        }
        Ok(Some(first))
    }

    fn advise(&mut self) -> Result<bool> {
        let Some(setting) = self.setting("fadvise_hint") else { return Ok(true) };
        match setting.value.as_deref() {
            None | Some("1") => Ok(true),
            Some("0") => Ok(false),
            Some(_) => {
                self.note(setting, Weight::Unsupported, "the advice follows the pattern");
                Ok(true)
            }
        }
    }

    fn synced(&mut self, depth: u64) -> Result<bool> {
        let Some(setting) = self.setting("sync") else { return Ok(false) };
        match setting.value.as_deref() {
            Some("0" | "none") => Ok(false),
            None | Some("1" | "sync" | "dsync") if depth > 1 => {
                self.note(
                    setting,
                    Weight::Unsupported,
                    "synced writes are waited for; they need iodepth=1",
                );
                Ok(false)
            }
            None | Some("1" | "sync" | "dsync") => Ok(true),
            Some(other) => self.wrong(setting, format!("'{other}': choose none, sync or dsync")),
        }
    }

    fn poisson(&self) -> Result<bool> {
        let process = self.value("rate_process", |text| match text {
            "linear" => Ok(false),
            "poisson" => Ok(true),
            other => Err(format!("'{other}': choose linear or poisson")),
        })?;
        Ok(process.unwrap_or(false))
    }

    fn startdelay(&mut self) -> Result<u64> {
        let Some(setting) = self.setting("startdelay") else { return Ok(0) };
        let text = setting.value.as_deref().unwrap_or("");
        let (from, range) = match text.split_once('-') {
            Some((from, _)) => (from, true),
            None => (text, false),
        };
        if range {
            self.note(
                setting,
                Weight::Unsupported,
                "a delay is not drawn at random: the shortest is taken",
            );
        }
        match time(from, SECOND) {
            Ok(delay) => Ok(delay),
            Err(what) => self.wrong(setting, what),
        }
    }

    /// The I/O priority: given, or what the kernel makes of the niceness.
    fn prio(&self) -> Result<Option<String>> {
        let level = self.number("prio", 0..=7)?;
        let class = self.number("prioclass", 1..=3)?;
        if class.is_some() || level.is_some() {
            let level = level.unwrap_or(0);
            return Ok(Some(match class.unwrap_or(2) {
                1 => format!("rt/{level}"),
                2 => format!("be/{level}"),
                _ => "idle".into(),
            }));
        }
        self.value("nice", |text| match text.parse::<i64>() {
            Ok(nice @ -20..=19) => Ok(format!("be/{}", (nice + 20) / 5)),
            _ => Err(format!("'{text}' is outside -20 to 19")),
        })
    }
}

/// `4k/10:64k/50:32k`: what has no share has what is left, in equal parts.
fn split_of(text: &str, base: u64) -> std::result::Result<String, String> {
    let mut parts: Vec<(u64, Option<u64>)> = Vec::new();
    for part in text.split(':') {
        let (size, share) = match part.split_once('/') {
            Some((size, share)) => (size, Some(share.trim()).filter(|s| !s.is_empty())),
            None => (part, None),
        };
        let share = share.map(whole).transpose()?;
        if share.is_some_and(|s| s > 100) {
            return Err(format!("'{part}': more than 100 percent"));
        }
        parts.push((bytes(size, base)?, share));
    }
    let given: u64 = parts.iter().filter_map(|p| p.1).sum();
    let open = parts.iter().filter(|p| p.1.is_none()).count() as u64;
    if given > 100 || (open == 0 && given != 100) {
        return Err(format!("the shares come to {given} percent, not 100"));
    }
    let part = |(size, share): (u64, Option<u64>)| {
        // In hundredths, so that what is left can be divided.
        let share = share.map_or_else(|| (100 - given) * 100 / open.max(1), |s| s * 100);
        format!("{size}/{share}")
    };
    Ok(parts.into_iter().map(part).collect::<Vec<_>>().join(":"))
}
