//! The files of a job, and the part of each that its calls lie in.

use super::super::Build;
use super::super::params::Params;
use crate::host::{FileId, PAGE};
use hoistway::quantity;
use hoistway_run::JobError;

/// Where a job's calls go: a part of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Region {
    pub file: FileId,
    pub base: u64,
    pub size: u64,
    /// There is more in the file than it.
    pub part: bool,
    /// Bytes of the device behind it.
    pub behind: u64,
}

/// The files of a job.
#[derive(Debug)]
pub(super) struct Regions {
    pub all: Vec<Region>,
    /// The job creates them.
    pub creates: bool,
}

/// What the calls of a job are like, as far as their places depend on it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    /// Sizes are multiples of it.
    pub unit: u64,
    /// The smallest call, the largest, and the smallest of the direction with the larger calls.
    pub smallest: u64,
    pub largest: u64,
    pub least: u64,
    /// Percent of the calls that read.
    pub mix: u64,
    pub direct: bool,
}

/// Most files of a process: each costs the host memory before anything runs.
const FILES: u64 = 65_536;

/// A number of bytes, or percent of a whole, or the sum of several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Amount {
    bytes: u64,
    percent: u64,
}

impl Amount {
    fn parse(text: &str) -> Result<Amount, String> {
        let mut sum = Amount::default();
        for part in text.split('+').map(str::trim) {
            let too_much = || format!("'{text}' is too much");
            match part.strip_suffix('%') {
                Some(percent) => {
                    let percent: u64 = percent
                        .trim()
                        .parse()
                        .map_err(|_| format!("'{part}' is no whole number of percent"))?;
                    sum.percent = sum.percent.checked_add(percent).ok_or_else(too_much)?;
                }
                None => {
                    let bytes = quantity::bytes(part).map_err(|e| e.to_string())?;
                    sum.bytes = sum.bytes.checked_add(bytes).ok_or_else(too_much)?;
                }
            }
        }
        Ok(sum)
    }

    /// Parameter `name`.
    pub fn of(p: &Params<'_>, name: &str) -> Result<Option<Amount>, JobError> {
        match p.text(name) {
            Ok(Some(text)) if text.contains(['%', '+']) => Amount::parse(text)
                .map(Some)
                .map_err(|what| p.wrong(format!("{name} = {text}: {what}"))),
            _ => Ok(p.bytes(name)?.map(|bytes| Amount { bytes, percent: 0 })),
        }
    }

    /// Its bytes. The percent are of `whole`, rounded up to a multiple of `unit`.
    pub fn take(self, whole: Option<u64>, unit: u64) -> Option<u64> {
        if self.percent == 0 {
            return Some(self.bytes);
        }
        let part = u128::from(whole?) * u128::from(self.percent) / 100;
        u64::try_from(part).ok()?.checked_next_multiple_of(unit.max(1))?.checked_add(self.bytes)
    }
}

impl Regions {
    pub fn new(build: &mut Build<'_>, shape: Shape) -> Result<Regions, JobError> {
        let p = &build.params;
        let raw = p.flag("raw")?.unwrap_or(false);
        let creates = p.flag("new_file")?.unwrap_or(false);
        let shared = p.texts("file")?;
        let count = p.number("files")?.unwrap_or(1);
        if !(1..=FILES).contains(&count) {
            return Err(p.wrong(format!("files = {count}: choose 1 to {FILES}")));
        }
        if raw && (!shared.is_empty() || count > 1 || creates || (shape.mix < 100 && !shape.direct))
        {
            let what = "raw: the device is no file, and writes to it are direct; leave file, files and new_file \
                        out, and set direct = true where it writes";
            return Err(p.wrong(what.into()));
        }
        if !shared.is_empty() && count > 1 {
            return Err(
                p.wrong("files: the files have names; leave one of files and file out".into())
            );
        }
        if creates && (shape.mix > 0 || !shared.is_empty()) {
            let what =
                "new_file: only a job that writes alone, to its own file, begins with a new one";
            return Err(p.wrong(what.into()));
        }
        let place = Place::new(build, shape, raw)?;
        if raw {
            let file = build.host.device_file()?;
            let Place { base, size, .. } = place;
            let behind = build.host.capacity().saturating_sub(base + size);
            let region = Region { file, base, size, part: true, behind };
            return Ok(Regions { all: vec![region], creates });
        }
        let whole = place.whole.unwrap_or(place.base + place.size).next_multiple_of(512);
        if whole < place.base + place.size {
            let what = format!("file_size = {whole}: less than offset and size together");
            return Err(build.params.wrong(what));
        }
        let files: Result<Vec<FileId>, JobError> = match &shared[..] {
            [] if creates => (0..count).map(|_| build.host.declare_file(whole)).collect(),
            [] => (0..count).map(|_| build.host.add_file(whole)).collect(),
            names => names.iter().map(|name| build.host.shared_file(name, whole)).collect(),
        };
        let part = whole > place.size || !shared.is_empty();
        let region = |file| Region { file, base: place.base, size: place.size, part, behind: 0 };
        Ok(Regions { all: files?.into_iter().map(region).collect(), creates })
    }
}

/// Offset and size in each file.
struct Place {
    base: u64,
    size: u64,
    /// Size of the file, if that is given.
    whole: Option<u64>,
}

impl Place {
    fn new(build: &Build<'_>, shape: Shape, raw: bool) -> Result<Place, JobError> {
        let p = &build.params;
        let Shape { unit, least, .. } = shape;
        let whole = match raw {
            true => Some(build.host.capacity()),
            false => p.bytes("file_size")?,
        };
        let unknown = |name: &str| {
            p.wrong(format!("{name}: percent of a file whose size is not known; set file_size"))
        };
        let align = p.bytes("offset_align")?.filter(|&n| n > 0).unwrap_or(shape.smallest);
        let offset = Amount::of(p, "offset")?.unwrap_or_default();
        let base = offset.take(whole, align).ok_or_else(|| unknown("offset"))?;
        if base % unit != 0 {
            return Err(p.wrong(format!("offset = {base}: choose a multiple of {unit}")));
        }
        let room = whole.map(|whole| whole.saturating_sub(base));
        let given = Amount::of(p, "size")?;
        let size = match given {
            Some(amount) => {
                let size = amount.take(whole, 1).ok_or_else(|| unknown("size"))?;
                // Percent go to the end at most.
                if amount.percent > 0 { size.min(room.unwrap_or(size)) } else { size }
            }
            None => match room.filter(|_| raw || p.has("file_size")) {
                Some(room) => room,
                None => build.size(1)?,
            },
        };
        if let Some(room) = room.filter(|&room| raw && size > room) {
            let (needed, available) = (base.saturating_add(size), base + room);
            return Err(JobError::DoesNotFit { needed, available });
        }
        // Whole units, so that no call crosses the end.
        let size = size / unit * unit;
        if size < least {
            return Err(p.wrong(format!("size = {size}: choose at least one call of {least}")));
        }
        Ok(Place { base, size, whole })
    }
}

/// Smallest unit of a call.
pub(super) fn unit(build: &Build<'_>, direct: bool, writes: bool) -> u64 {
    match (direct, writes) {
        (true, _) => build.host.sector(),
        (false, true) => PAGE,
        (false, false) => 512,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_bytes_and_percent_of_a_whole() {
        let take = |text: &str| Amount::parse(text).unwrap().take(Some(131_072), 4096);
        assert_eq!(take("8k"), Some(8192));
        // As fio 3.33: 33 percent of 128 KiB in blocks of 4 KiB.
        assert_eq!(take("33%"), Some(45_056));
        assert_eq!(take("8k + 25%"), Some(8192 + 32_768));
        assert_eq!(Amount::parse("20%").unwrap().take(None, 1), None);
        for bad in ["12.5%", "%", "8k + x", "18446744073709551615 + 1"] {
            assert!(Amount::parse(bad).is_err(), "{bad}");
        }
    }
}
