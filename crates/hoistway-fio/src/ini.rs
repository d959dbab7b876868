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
/// Longest file, and most jobs: a job file is written by hand.
const LONGEST: usize = 4 << 20;
const JOBS: usize = 4096;

struct Reader<'a> {
    source: &'a mut dyn Source,
    global: Vec<Setting>,
    sections: Vec<Section>,
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
    let mut reader = Reader { source, global: Vec::new(), sections: Vec::new(), at: At::Nothing };
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
        let text = self.source.file(path).map_err(|e| failed(format!("cannot be read: {e}")))?;
        if text.len() > LONGEST {
            return Err(failed(format!("longer than {LONGEST} bytes")));
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
                return Err(wrong(format!("'{line}' is no section; write [NAME]")));
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
            Some((key, value)) => (key.trim(), Some(self.substitute(value.trim()))),
            None => (line, None),
        };
        if key.is_empty() || key.contains(char::is_whitespace) {
            return Err(wrong(format!("'{line}' is no setting; write KEY=VALUE")));
        }
        let setting = Setting { key: key.to_string(), value, place: place.clone() };
        match self.at {
            At::Nothing => {
                Err(wrong(format!("'{key}' stands in no section; begin with [global] or [NAME]")))
            }
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
        self.at = At::Job;
        let (name, settings) = (name.to_string(), self.global.clone());
        self.sections.push(Section { name, place, settings });
        Ok(())
    }

    /// `${NAME}` is replaced once: what comes in is not looked at again.
    fn substitute(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find("${") {
            let Some(end) = rest[at..].find('}') else { break };
            out.push_str(&rest[..at]);
            let name = &rest[at + 2..at + end];
            out.push_str(&self.source.variable(name).unwrap_or_default());
            rest = &rest[at + end + 1..];
        }
        out.push_str(rest);
        out
    }
}
