//! Jobs from sections: every key has a meaning, or a note that says why it has none.
//!
//! Keys by subject: `what` a job does, `places` where, and `how` (engine, syncs, pace, time). Each key that the table
//! calls carried out is asked for here; a test holds the two together.

mod how;
mod places;
mod what;

use super::ini::{self, Section, Setting};
use super::job::{Amount, Direction, Exits, Job};
use super::keys;
use super::notes::{Notes, Weight};
use super::value::{amount, bytes, flag, sides, time, whole};
use super::{Error, JobFile};
use hoistway_files::input::{FILES_MAX, PROCESSES_MAX};
use std::collections::{BTreeMap, BTreeSet};

type Result<T, E = Error> = std::result::Result<T, E>;

const SECOND: u64 = 1_000_000_000;
const MICROSECOND: u64 = 1_000;

/// All jobs of the sections.
pub fn jobs(sections: ini::Reader<'_>) -> Result<JobFile> {
    let ini::Reader { sections, mut notes, origins, wanted, .. } = sections;
    if sections.is_empty() {
        let names = wanted.unwrap_or_default().join(", ");
        return Err(Error { place: None, what: format!("no section of the name: {names}") });
    }
    let mut jobs: Vec<Job> = Vec::with_capacity(sections.len());
    let mut numbers: BTreeMap<String, usize> = BTreeMap::new();
    let (mut group, mut processes, mut files) = (0, 0, 0);
    for (i, section) in sections.iter().enumerate() {
        let reader = Reader { section, notes: &mut notes, base: 1024 };
        let mut job = reader.job(&numbers)?;
        processes = u64::saturating_add(processes, job.numjobs);
        files = u64::saturating_add(files, job.numjobs.saturating_mul(job.nrfiles));
        if files > FILES_MAX {
            let what = format!(
                "nrfiles: with it the jobs so far have {files} files, of at most {FILES_MAX}"
            );
            return Err(Error { place: Some(section.place.clone()), what });
        }
        if processes > PROCESSES_MAX {
            let what = format!(
                "numjobs={}: with it the jobs so far are {processes} processes, of at most {PROCESSES_MAX}",
                job.numjobs
            );
            return Err(Error { place: Some(section.place.clone()), what });
        }
        job.stonewall = i > 0 && (job.stonewall || section.behind);
        let new_group = job.stonewall || i > 0 && last_flag(section, "new_group");
        group += u64::from(new_group);
        job.group = group;
        // The first of a name is waited for.
        numbers.entry(job.name.clone()).or_insert(i);
        jobs.push(job);
    }
    places::share(&mut jobs)?;
    one_drive(&jobs, &sections, &mut notes);
    ramps(&jobs, &mut notes);
    Ok(JobFile { jobs, notes: notes.finish(&origins) })
}

/// A switch that has been read before.
fn last_flag(section: &Section, key: &str) -> bool {
    let found = settings(section).find(|s| s.name() == key);
    found.is_some_and(|s| flag(s.value.as_deref()) == Ok(true))
}

/// Settings that hold for a section, the last first.
fn settings(section: &Section) -> impl Iterator<Item = &Setting> {
    section.own.iter().rev().chain(section.global.iter().rev())
}

/// Several devices are one here.
fn one_drive(jobs: &[Job], sections: &[Section], notes: &mut Notes) {
    let mut devices: BTreeSet<&str> = BTreeSet::new();
    let mut place = None;
    for (job, section) in jobs.iter().zip(sections).filter(|(job, _)| job.raw) {
        devices.extend(job.files.iter().map(String::as_str));
        let named = settings(section).find(|s| s.name() == "filename");
        place = place.or(named.filter(|_| devices.len() > 1).map(|s| &s.place));
    }
    let Some(place) = place else { return };
    let (n, shown) = (devices.len(), devices.iter().take(4).copied().collect::<Vec<_>>());
    let more = if n > shown.len() { ", ..." } else { "" };
    let why = format!(
        "{n} devices ({}{more}) are put on the one drive that is simulated or named: their jobs share it",
        shown.join(", ")
    );
    notes.add(place, "filename", Weight::Unsupported, why);
}

/// Measuring begins for all at the same time.
fn ramps(jobs: &[Job], notes: &mut Notes) {
    let longest = jobs.iter().map(|job| job.ramp).max().unwrap_or(0);
    if longest == 0 {
        return;
    }
    let seconds = |ns: u64| format!("{} s", ns as f64 / 1e9);
    let staged = jobs.iter().any(|job| job.stonewall);
    for job in jobs {
        let ends = job.runtime.map(|t| t.saturating_add(job.ramp).saturating_add(job.startdelay));
        if staged {
            if job.ramp > 0 {
                let why =
                    "ramp_time: where jobs follow one another there is none, and all is measured";
                notes.add(&job.place, "", Weight::Unsupported, why);
            }
        } else if ends.is_some_and(|ends| ends <= longest) {
            let why = format!(
                "job '{}' is over after {}, before measuring begins behind the longest ramp_time, {}: it has no results",
                job.name,
                seconds(ends.unwrap_or(0)),
                seconds(longest)
            );
            notes.add(&job.place, "", Weight::Unsupported, why);
        } else if job.ramp < longest {
            let why = format!(
                "measuring begins behind the longest ramp_time, {}, for all jobs",
                seconds(longest)
            );
            notes.add(&job.place, "", Weight::Ignored, why);
        }
    }
}

struct Reader<'a> {
    section: &'a Section,
    notes: &'a mut Notes,
    base: u64,
}

/// How values are looked up.
impl<'a> Reader<'a> {
    fn note(&mut self, setting: &Setting, weight: Weight, why: impl Into<String>) {
        self.notes.add(&setting.place, &setting.key, weight, why);
    }

    /// The last setting of a key, under any of its names.
    fn setting(&self, key: &str) -> Option<&'a Setting> {
        let row = keys::find(key).expect("the reader asks for keys of the table");
        settings(self.section).find(|s| s.is(row))
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

    fn bytes(&self, key: &str) -> Result<Option<u64>> {
        let base = self.base;
        self.value(key, |text| match text.ends_with('%') {
            true => Err("is in bytes, not in percent".into()),
            false => bytes(text, base),
        })
    }

    /// Bytes or percent; 0 is not given.
    fn amount(&self, key: &str) -> Result<Option<Amount>> {
        let base = self.base;
        let amount = self.value(key, |text| amount(text, base))?;
        Ok(amount.filter(|a| !matches!(a, Amount::Bytes(0) | Amount::Percent(0))))
    }

    fn time(&self, key: &str, unit: u64) -> Result<u64> {
        Ok(self.value(key, |text| time(text, unit))?.unwrap_or(0))
    }

    fn both<T>(
        &self,
        key: &str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Result<[Option<T>; 2]> {
        let both = self.value(key, |text| {
            let [reads, writes] = sides(text);
            Ok([reads.map(&parse).transpose()?, writes.map(&parse).transpose()?])
        })?;
        Ok(both.unwrap_or([None, None]))
    }

    fn percent(&self, key: &str) -> Result<[Option<u64>; 2]> {
        self.both(key, |text| match whole(text.trim_end_matches('%'))? {
            n @ 0..=100 => Ok(n),
            n => Err(format!("{n} is outside 0 to 100 percent")),
        })
    }
}

impl<'a> Reader<'a> {
    /// `numbers`: the jobs before it by name.
    fn job(mut self, numbers: &BTreeMap<String, usize>) -> Result<Job> {
        self.base = match self.number("kb_base", 1000..=1024)? {
            Some(1000) => 1000,
            _ => 1024,
        };
        let wait_for = self.value("wait_for", |name| match numbers.get(name) {
            Some(&number) => Ok(number),
            None => Err(format!("no job '{name}' stands before it")),
        })?;
        let what = self.what()?;
        let how = self.how()?;
        let pace = self.pace(how.depth)?;
        let places = self.places(&what)?;
        let exits = self.exits()?;
        let name = self.text("name")?.unwrap_or_else(|| self.section.name.clone());
        let runtime = self.value("runtime", |t| time(t, SECOND))?.filter(|&t| t > 0);
        let time_based = self.time_based(runtime)?;
        let job = Job {
            name,
            place: self.section.place.clone(),
            description: self.text("description")?.unwrap_or_default(),
            numjobs: self.number("numjobs", 1..=PROCESSES_MAX)?.unwrap_or(1),
            options: self.options(),
            group: 0,
            direction: what.direction,
            random: what.random,
            mix: what.mix,
            percentage_random: what.percentage_random,
            row: what.row,
            row_stays: what.row_stays,
            hole: what.hole,
            sizes: what.sizes,
            align: what.align,
            repeat_blocks: what.repeat_blocks,
            distribution: what.distribution,
            files: places.files,
            raw: places.raw,
            nrfiles: places.nrfiles,
            service: places.service,
            service_calls: places.service_calls,
            openfiles: self.number("openfiles", 0..=u64::from(u32::MAX))?.filter(|&n| n > 0),
            size: places.size,
            filesize: places.filesize,
            io_size: self.amount("io_size")?,
            number_ios: self.number("number_ios", 0..=u64::MAX)?.filter(|&n| n > 0),
            offset: self.amount("offset")?.unwrap_or(Amount::Bytes(0)),
            offset_increment: self.amount("offset_increment")?.unwrap_or(Amount::Bytes(0)),
            offset_align: self.bytes("offset_align")?.unwrap_or(0),
            overwrite: self.flag("overwrite")?.unwrap_or(false),
            hint: self.hint(what.random)?,
            invalidate: self.flag("invalidate")?.unwrap_or(true),
            direct: how.direct,
            depth: how.depth,
            depth_low: how.depth_low,
            batch: how.batch,
            batch_complete: how.batch_complete,
            fsync: self.number("fsync", 0..=u64::from(u32::MAX))?.unwrap_or(0),
            fdatasync: self.number("fdatasync", 0..=u64::from(u32::MAX))?.unwrap_or(0),
            end_fsync: self.flag("end_fsync")?.unwrap_or(false)
                || self.flag("fsync_on_close")?.unwrap_or(false),
            sync: how.sync,
            think: pace.think,
            think_spin: self.time("thinktime_spin", MICROSECOND)?,
            think_blocks: pace.think_blocks,
            think_first: pace.think_first,
            think_every: self.time("thinktime_iotime", SECOND)?,
            rate: pace.rate,
            rate_iops: pace.rate_iops,
            poisson: pace.poisson,
            rate_ignore_thinktime: self.flag("rate_ignore_thinktime")?.unwrap_or(false),
            runtime,
            time_based,
            startdelay: self.startdelay()?,
            ramp: self.time("ramp_time", SECOND)?,
            loops: self.number("loops", 1..=1_000_000)?.unwrap_or(1),
            stonewall: self.flag("stonewall")?.unwrap_or(false),
            wait_for,
            exits,
            prio: self.prio()?,
            cgroup: self.text("cgroup")?,
            cgroup_weight: self.number("cgroup_weight", 1..=10_000)?,
        };
        self.flag("new_group")?;
        Ok(job)
    }

    /// As fio shows them: the last of each key, under its first name; keys without a value are not shown.
    fn options(&self) -> [Vec<(String, String)>; 2] {
        let one = |s: &Setting| s.value.as_ref().map(|v| (s.name().to_string(), v.clone()));
        let of = |settings: &[Setting]| settings.iter().filter_map(one).collect();
        [of(&self.section.own), of(&self.section.global)]
    }

    fn exits(&mut self) -> Result<Option<Exits>> {
        let what = self.value("exit_what", |word| match word {
            "group" => Ok(Exits::Group),
            "all" => Ok(Exits::All),
            "stonewall" => Ok(Exits::Stage),
            other => Err(format!("'{other}': choose group, stonewall or all")),
        })?;
        let exits = self.flag("exitall")?.unwrap_or(false);
        Ok(exits.then(|| what.unwrap_or(Exits::Group)))
    }

    fn startdelay(&mut self) -> Result<u64> {
        let Some(setting) = self.setting("startdelay") else { return Ok(0) };
        let text = setting.value.as_deref().unwrap_or("");
        let (from, range) = match text.split_once(['-', ':']) {
            Some((from, _)) => (from, true),
            None => (text, false),
        };
        if range {
            let why = "a delay is not drawn at random: the shortest is taken";
            self.note(setting, Weight::Unsupported, why);
        }
        match time(from, SECOND) {
            Ok(delay) => Ok(delay),
            Err(what) => self.wrong(setting, what),
        }
    }

    /// fio goes on without it where there is no time.
    fn time_based(&mut self, runtime: Option<u64>) -> Result<bool> {
        let given = self.flag("time_based")?.unwrap_or(false);
        match (given, runtime, self.setting("time_based")) {
            (true, None, Some(setting)) => {
                self.note(setting, Weight::Ignored, "it needs runtime; fio goes on without it too");
                Ok(false)
            }
            _ => Ok(given),
        }
    }

    /// The I/O priority: given, or what the kernel makes of the niceness.
    fn prio(&self) -> Result<Option<String>> {
        let level = self.number("prio", 0..=7)?;
        let class = self.number("prioclass", 0..=3)?;
        if class.is_some() || level.is_some() {
            let level = level.unwrap_or(0);
            return Ok(match class.unwrap_or(2) {
                0 => None,
                1 => Some(format!("rt/{level}")),
                2 => Some(format!("be/{level}")),
                _ => Some("idle".into()),
            });
        }
        self.value("nice", |text| match text.parse::<i64>() {
            Ok(nice @ -20..=19) => Ok(format!("be/{}", (nice + 20) / 5)),
            _ => Err(format!("'{text}' is outside -20 to 19")),
        })
    }
}

impl Direction {
    /// The sides that it has: reads, writes.
    pub fn sides(self) -> [bool; 2] {
        [self != Direction::Write, self != Direction::Read]
    }
}
