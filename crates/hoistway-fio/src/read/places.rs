//! Where a job's calls lie: files, devices, and parts of them.

use super::what::What;
use super::{Amount, Error, Job, Reader, Result, Weight, bytes, whole};
use crate::job::{Hint, Service};
use crate::value::range_of;
use hoistway_files::input::FILES_MAX;
use std::collections::{BTreeMap, BTreeSet};

pub(super) struct Places {
    pub files: Vec<String>,
    pub raw: bool,
    pub nrfiles: u64,
    pub service: Service,
    pub service_calls: u64,
    pub size: Option<Amount>,
    pub filesize: Option<u64>,
}

/// Names below `/dev/` that are no block devices.
const NO_DEVICES: &[&str] = &["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];

impl Reader<'_> {
    pub(super) fn places(&mut self, what: &What) -> Result<Places> {
        let files = self.filenames()?;
        let raw = self.raw(&files)?;
        let mut nrfiles = self.number("nrfiles", 1..=FILES_MAX)?.unwrap_or(1);
        if !files.is_empty() {
            // fio does not look at it either.
            nrfiles = 1;
        }
        let (files, nrfiles) = match files.is_empty() {
            true => (self.formatted(nrfiles)?, nrfiles),
            false => (files, 1),
        };
        let (service, service_calls) = self.service()?;
        let size = self.amount("size")?;
        let filesize = self.filesize()?;
        self.fits(what, filesize)?;
        Ok(Places { files, raw, nrfiles, service, service_calls, size, filesize })
    }

    /// The names in `filename`: separated by colons that no backslash stands before.
    fn filenames(&mut self) -> Result<Vec<String>> {
        let Some(setting) = self.setting("filename") else { return Ok(Vec::new()) };
        let text = setting.value.as_deref().unwrap_or("");
        let mut names: Vec<String> = vec![String::new()];
        let mut chars = text.chars().peekable();
        while let Some(c) = chars.next() {
            let last = names.last_mut().expect("there is one");
            match c {
                '\\' if chars.next_if_eq(&':').is_some() => last.push(':'),
                ':' => names.push(String::new()),
                c => last.push(c),
            }
        }
        names.retain(|name| !name.is_empty());
        let mut seen = BTreeSet::new();
        names.retain(|name| seen.insert(name.clone()));
        if names.is_empty() {
            return self.wrong(setting, "has no value");
        }
        if names.len() as u64 > FILES_MAX {
            return self.wrong(setting, format!("more than {FILES_MAX} names"));
        }
        if names.iter().any(|name| name.contains("$job") || name.contains("$filenum")) {
            let why = "fio replaces $jobname and $jobnum in filename_format only: all jobs share the file of that name";
            self.note(setting, Weight::Ignored, why);
        }
        Ok(names)
    }

    /// Whether they are devices.
    fn raw(&self, files: &[String]) -> Result<bool> {
        let Some(setting) = self.setting("filename") else { return Ok(false) };
        let device = |name: &String| {
            (name.starts_with("/dev/") && !name.starts_with("/dev/shm/"))
                || name.starts_with("\\\\.\\")
        };
        if let Some(no) = files.iter().find(|name| NO_DEVICES.contains(&name.as_str())) {
            return self.wrong(setting, format!("{no} is no block device"));
        }
        match files.iter().filter(|name| device(name)).count() {
            0 => Ok(false),
            n if n == files.len() => Ok(true),
            _ => self.wrong(setting, "files and devices in one job; name either"),
        }
    }

    /// Files with a format of their own are shared where the names come out the same.
    fn formatted(&mut self, nrfiles: u64) -> Result<Vec<String>> {
        let Some(format) = self.text("filename_format")? else { return Ok(Vec::new()) };
        // Copies of a job have files of their own if their number is in the name.
        if format.contains("$jobnum") {
            return Ok(Vec::new());
        }
        let name =
            format.replace("$jobname", &self.section.name).replace("$clientuid", "localhost");
        if !name.contains("$filenum") && nrfiles > 1 {
            // One file under several numbers.
            return Ok(vec![name]);
        }
        Ok((0..nrfiles).map(|i| name.replace("$filenum", &i.to_string())).collect())
    }

    fn service(&mut self) -> Result<(Service, u64)> {
        let Some(setting) = self.setting("file_service_type") else {
            return Ok((Service::RoundRobin, 1));
        };
        let text = setting.value.as_deref().unwrap_or("");
        let (word, extra) = text.split_once(':').unwrap_or((text, ""));
        let service = match word {
            "roundrobin" => Service::RoundRobin,
            "random" => Service::Random,
            "sequential" => Service::Sequential,
            "zipf" | "pareto" | "normal" | "gauss" => {
                let why = "files are chosen at random, all alike";
                self.note(setting, Weight::Unsupported, why);
                return Ok((Service::Random, 1));
            }
            other => {
                let what = format!("'{other}': choose roundrobin, random or sequential");
                return self.wrong(setting, what);
            }
        };
        match if extra.is_empty() { Ok(1) } else { whole(extra) } {
            Ok(calls) => Ok((service, calls.max(1))),
            Err(what) => self.wrong(setting, what),
        }
    }

    /// A range of sizes is drawn from by fio, for each file.
    fn filesize(&mut self) -> Result<Option<u64>> {
        let base = self.base;
        let range = self.value("filesize", |text| range_of(text, base))?;
        let Some(range) = range else { return Ok(None) };
        let largest = range.split_once('-').map(|(_, to)| to);
        if let (Some(_), Some(setting)) = (largest, self.setting("filesize")) {
            let why = "sizes are not drawn at random: all files have the largest";
            self.note(setting, Weight::Unsupported, why);
        }
        Ok(bytes(largest.unwrap_or(&range), 1024).ok().filter(|&n| n > 0))
    }

    /// What fio refuses at once.
    fn fits(&self, what: &What, filesize: Option<u64>) -> Result<()> {
        let sides = what.sizes.iter().zip(what.direction.sides()).filter(|(_, used)| *used);
        let smallest = sides.filter_map(|(text, _)| {
            let sizes = text.split(':').filter_map(|part| part.split(['/', '-']).next());
            sizes.filter_map(|n| n.parse::<u64>().ok()).min()
        });
        let Some(smallest) = smallest.max() else { return Ok(()) };
        let given = [("filesize", filesize.map(Amount::Bytes)), ("size", self.amount("size")?)];
        for (key, amount) in given {
            if let (Some(Amount::Bytes(n)), Some(setting)) = (amount, self.setting(key))
                && n < smallest
            {
                return self
                    .wrong(setting, format!("{n} bytes are less than a call of {smallest}"));
            }
        }
        Ok(())
    }

    pub(super) fn hint(&mut self, random: bool) -> Result<Hint> {
        let Some(setting) = self.setting("fadvise_hint") else { return Ok(Hint::Pattern) };
        let same = if random { "random" } else { "sequential" };
        match setting.value.as_deref() {
            None | Some("1") => Ok(Hint::Pattern),
            Some("0" | "none") => Ok(Hint::None),
            Some(word) if word == same => Ok(Hint::Pattern),
            Some("random" | "sequential") => {
                self.note(setting, Weight::Unsupported, "the advice follows the pattern");
                Ok(Hint::Pattern)
            }
            Some(other) => {
                self.wrong(setting, format!("'{other}': choose 0, 1, random or sequential"))
            }
        }
    }
}

/// Sizes of files that several jobs use, and of those whose size no job says.
pub(super) fn share(jobs: &mut [Job]) -> Result<()> {
    let mut known: BTreeMap<String, u64> = BTreeMap::new();
    for job in jobs.iter().filter(|job| !job.raw) {
        let Some(end) = end_of(job) else { continue };
        for name in &job.files {
            let size = known.entry(name.clone()).or_default();
            *size = (*size).max(end);
        }
    }
    for job in jobs.iter_mut().filter(|job| !job.raw) {
        let shared = job.files.iter().filter_map(|name| known.get(name)).max().copied();
        job.filesize = job.filesize.or(match job.size {
            Some(Amount::Bytes(_)) => None,
            _ => shared,
        });
        let wrong = |what: &str| Err(Error { place: Some(job.place.clone()), what: what.into() });
        if job.size.is_none() && job.filesize.is_none() {
            return wrong(
                "the job has no size; add size=BYTES, or filename=/dev/... for a whole device",
            );
        }
        let percent = |a: &Amount| matches!(a, Amount::Percent(_));
        let amounts = [job.size, Some(job.offset), Some(job.offset_increment), job.io_size];
        if job.filesize.is_none() && amounts.iter().flatten().any(percent) {
            return wrong("percent of a file whose size is not known; add filesize=BYTES");
        }
    }
    Ok(())
}

/// Where a job ends in each of its files, as far as bytes say so.
fn end_of(job: &Job) -> Option<u64> {
    let files = (job.files.len() as u64).max(job.nrfiles);
    let own = match (job.filesize, job.size) {
        (Some(filesize), _) => return Some(filesize),
        (None, Some(Amount::Bytes(size))) => size / files,
        _ => return None,
    };
    let (Amount::Bytes(offset), Amount::Bytes(step)) = (job.offset, job.offset_increment) else {
        return None;
    };
    let last = (job.numjobs - 1).saturating_mul(step);
    Some(offset.saturating_add(last).saturating_add(own))
}
