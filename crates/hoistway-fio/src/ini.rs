//! The file as sections: fio's INI, which keeps the order of jobs and of repeated keys.
//!
//! `[global]` holds for the jobs behind it, and there may be several. `;` and `#` begin a comment, also behind a
//! value. `include FILE` reads another file in place, relative to the one that includes it. `${NAME}` is the
//! environment's, empty if it is not set.

use super::{Error, Place, Source};
use std::path::Path;

/// `key=value`, or a key alone.
#[derive(Clone, Debug)]
pub struct Setting {
    pub key: String,
    pub value: Option<String>,
    pub place: Place,
}

/// A job with everything that holds for it: of `[global]` first.
#[derive(Clone, Debug)]
pub struct Section {
    pub name: String,
    pub place: Place,
    pub settings: Vec<Setting>,
}

/// Files in files; a loop would never end.
const INCLUDES: u32 = 16;
/// Longest file with all that it includes, and most jobs: a job file is written by hand.
const LONGEST: usize = 4 << 20;
const JOBS: usize = 4096;
/// Most settings of all jobs together, each with those of `[global]`.
const SETTINGS: usize = 1 << 19;
/// Longest value with its variables.
const VALUE: usize = 64 << 10;

struct Reader<'a> {
    source: &'a mut dyn Source,
    global: Vec<Setting>,
    sections: Vec<Section>,
    /// Bytes read so far, and settings made.
    bytes: usize,
    made: usize,
    /// Settings go to the last job, to `[global]`, or there is nothing yet.
    at: At,
}

#[derive(Clone, Copy, PartialEq)]
enum At {
    Nothing,
    Global,
    Job,
}

pub fn sections(path: &Path, source: &mut dyn Source) -> Result<Vec<Section>, Error> {
    let (global, sections) = (Vec::new(), Vec::new());
    let mut reader = Reader { source, global, sections, bytes: 0, made: 0, at: At::Nothing };
    reader.file(path, 0)?;
    match reader.sections.is_empty() {
        true => Err(Error {
            place: None,
            what: format!("{}: has no job; add a section [NAME]", path.display()),
        }),
        false => Ok(reader.sections),
    }
}

impl Reader<'_> {
    fn file(&mut self, path: &Path, depth: u32) -> Result<(), Error> {
        let failed =
            |what: String| Error { place: None, what: format!("{}: {what}", path.display()) };
        if depth > INCLUDES {
            return Err(failed(format!("more than {INCLUDES} files include one another")));
        }
        let text = self.source.file(path).map_err(|what| Error { place: None, what })?;
        self.bytes += text.len();
        if self.bytes > LONGEST {
            return Err(failed(format!(
                "is longer than {LONGEST} bytes, with all that is included"
            )));
        }
        for (i, line) in text.lines().enumerate() {
            let place = Place { file: path.to_path_buf(), line: i as u32 + 1 };
            self.line(line, place, depth)?;
        }
        Ok(())
    }

    fn line(&mut self, line: &str, place: Place, depth: u32) -> Result<(), Error> {
        let line = line.split([';', '#']).next().unwrap_or("").trim();
        if line.is_empty() {
            return Ok(());
        }
        let wrong = |what: String| Error { place: Some(place.clone()), what };
        if let Some(rest) = line.strip_prefix('[') {
            let name = rest.strip_suffix(']').map(str::trim).filter(|name| !name.is_empty());
            let Some(name) = name else {
                return Err(wrong("is no section; write [NAME]".into()));
            };
            return self.section(name, place);
        }
        if let Some(file) = line.strip_prefix("include").filter(|f| f.starts_with([' ', '\t'])) {
            let file = file.trim();
            let parent =
                place.file.parent().map(|dir| dir.join(file)).unwrap_or_else(|| file.into());
            return self
                .file(&parent, depth + 1)
                .map_err(|e| Error { place: e.place.or(Some(place.clone())), ..e });
        }
        let (key, value) = match line.split_once('=') {
            Some((key, value)) => {
                let value = self.substitute(value.trim()).ok_or_else(|| {
                    wrong(format!("is longer than {VALUE} bytes with its variables"))
                })?;
                (key.trim(), Some(value))
            }
            None => (line, None),
        };
        if key.is_empty() || key.contains(char::is_whitespace) {
            return Err(wrong("is no setting; write KEY=VALUE".into()));
        }
        self.count(1, &place)?;
        let setting = Setting { key: key.to_string(), value, place: place.clone() };
        match self.at {
            At::Nothing => Err(wrong("stands in no section; begin with [global] or [NAME]".into())),
            At::Global => {
                self.global.push(setting);
                Ok(())
            }
            At::Job => {
                self.sections.last_mut().expect("a job has begun").settings.push(setting);
                Ok(())
            }
        }
    }

    fn section(&mut self, name: &str, place: Place) -> Result<(), Error> {
        if name.eq_ignore_ascii_case("global") {
            self.at = At::Global;
            return Ok(());
        }
        if self.sections.len() >= JOBS {
            return Err(Error { place: Some(place), what: format!("more than {JOBS} jobs") });
        }
        self.count(self.global.len(), &place)?;
        self.at = At::Job;
        let (name, settings) = (name.to_string(), self.global.clone());
        self.sections.push(Section { name, place, settings });
        Ok(())
    }

    /// So many settings more are kept.
    fn count(&mut self, more: usize, place: &Place) -> Result<(), Error> {
        self.made += more;
        match self.made > SETTINGS {
            true => Err(Error {
                place: Some(place.clone()),
                what: format!(
                    "more than {SETTINGS} settings of all jobs, each of which has the {} of [global] before it",
                    self.global.len()
                ),
            }),
            false => Ok(()),
        }
    }

    /// `${NAME}` is replaced once: what comes in is not looked at again. `None`: it becomes too long.
    fn substitute(&self, text: &str) -> Option<String> {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find("${") {
            let Some(end) = rest[at..].find('}') else { break };
            out.push_str(&rest[..at]);
            let name = &rest[at + 2..at + end];
            out.push_str(&self.source.variable(name).unwrap_or_default());
            rest = &rest[at + end + 1..];
            if out.len() > VALUE {
                return None;
            }
        }
        out.push_str(rest);
        (out.len() <= VALUE).then_some(out)
    }
}
