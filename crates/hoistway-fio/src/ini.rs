//! Sections: fio's INI, which keeps the order of jobs and of repeated keys.
//!
//! `[global]` holds for the jobs behind it, and there may be several. `;` and `#` begin a comment, also behind a
//! value. `include FILE` reads another file in place, relative to the one that includes it. `${NAME}` is the
//! environment's, empty if it is not set; `$pagesize`, `$mb_memory` and `$ncpus` are the machine's, and what stands
//! around them is calculated.
//!
//! Comments may have any bytes: files are older than UTF-8. What is not a comment has to be text.

use super::keys::{self, Key};
use super::notes::{Notes, Weight};
use super::{Error, Origin, Place, Source};
use std::path::Path;
use std::sync::Arc;

/// `key=value`, or a key alone.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The key as it stands there.
    pub key: String,
    /// Its row, if it is known.
    row: Option<&'static Key>,
    /// The value.
    pub value: Option<String>,
    /// Where.
    pub place: Place,
}

impl Setting {
    /// The key under its first name.
    pub fn name(&self) -> &str {
        self.row.map_or(&self.key, |row| row.name)
    }

    pub fn is(&self, row: &'static Key) -> bool {
        self.row == Some(row)
    }
}

/// A job with everything that holds for it.
#[derive(Clone, Debug)]
pub struct Section {
    /// Its name.
    pub name: String,
    /// Where it begins.
    pub place: Place,
    /// What holds for others too, and comes first.
    pub global: Arc<Vec<Setting>>,
    /// Its own settings.
    pub own: Vec<Setting>,
    /// It begins when all before it are over, since another file begins with it.
    pub behind: bool,
}

/// Files in files; a loop would never end.
const INCLUDES: u32 = 16;
/// Longest file with all that it includes, and most jobs: a job file is written by hand, or by a script.
const LONGEST: usize = 4 << 20;
const JOBS: usize = 4096;
/// Longest value with its variables, and all of them together.
const VALUE: usize = 64 << 10;
const VALUES: usize = 64 << 20;

/// Puts sections together.
pub struct Reader<'a> {
    source: &'a mut dyn Source,
    global: Arc<Vec<Setting>>,
    pub sections: Vec<Section>,
    pub notes: Notes,
    /// Every origin, in the order of reading.
    pub origins: Vec<Arc<Origin>>,
    /// Sections that are wanted, if not all are.
    pub wanted: Option<Vec<String>>,
    at: At,
    /// The next section begins behind all before it.
    behind: bool,
    /// Bytes read so far, and bytes of values.
    read: usize,
    held: usize,
}

/// Where settings go.
#[derive(Clone, Copy, PartialEq)]
enum At {
    Nothing,
    Global,
    Job,
    /// The section is not wanted.
    Nowhere,
}

impl<'a> Reader<'a> {
    pub fn new(source: &'a mut dyn Source) -> Reader<'a> {
        Reader {
            source,
            global: Arc::default(),
            sections: Vec::new(),
            notes: Notes::default(),
            origins: Vec::new(),
            wanted: None,
            at: At::Nothing,
            behind: false,
            read: 0,
            held: 0,
        }
    }

    /// What stands in front of the first section holds for all of them: so it is on a command line.
    pub fn begin_global(&mut self) {
        self.at = At::Global;
    }

    /// The jobs of a file come behind those that there are.
    pub fn file(&mut self, path: &Path) -> Result<(), Error> {
        self.at = At::Nothing;
        let before = self.sections.len();
        self.include(path, 0)?;
        match self.sections.len() == before && self.wanted.is_none() {
            true => Err(Error {
                place: None,
                what: format!("{}: has no job; add a section [NAME]", path.display()),
            }),
            false => Ok(()),
        }
    }

    /// Further files of a command line run one after another.
    pub fn next_file(&mut self, path: &Path, global: &Arc<Vec<Setting>>) -> Result<(), Error> {
        self.behind = true;
        self.global = Arc::clone(global);
        self.file(path)
    }

    /// What holds for the next section so far.
    pub fn global(&self) -> Arc<Vec<Setting>> {
        Arc::clone(&self.global)
    }

    fn include(&mut self, path: &Path, depth: u32) -> Result<(), Error> {
        let failed =
            |what: String| Error { place: None, what: format!("{}: {what}", path.display()) };
        if depth > INCLUDES {
            return Err(failed(format!("more than {INCLUDES} files include one another")));
        }
        let bytes = self.source.file(path).map_err(|what| Error { place: None, what })?;
        self.read += bytes.len();
        if self.read > LONGEST {
            return Err(failed(format!(
                "is longer than {LONGEST} bytes, with all that is included"
            )));
        }
        let origin = Arc::new(Origin::File(path.to_path_buf()));
        self.origins.push(Arc::clone(&origin));
        for (i, line) in bytes.split(|b| *b == b'\n').enumerate() {
            let place = Place { origin: Arc::clone(&origin), number: i as u32 + 1 };
            let end = line.iter().position(|b| b";#".contains(b)).unwrap_or(line.len());
            let Ok(line) = std::str::from_utf8(&line[..end]) else {
                let what = "is no text in UTF-8; only comments may have other bytes".into();
                return Err(Error { place: Some(place), what });
            };
            self.line(path, line.trim(), place, depth)?;
        }
        Ok(())
    }

    fn line(&mut self, path: &Path, line: &str, place: Place, depth: u32) -> Result<(), Error> {
        let wrong = |what: String| Error { place: Some(place.clone()), what };
        if line.is_empty() {
            return Ok(());
        }
        if let Some(rest) = line.strip_prefix('[') {
            let name = rest.strip_suffix(']').map(str::trim).filter(|name| !name.is_empty());
            let Some(name) = name else {
                return Err(wrong("is no section; write [NAME]".into()));
            };
            return self.section(name, place);
        }
        if let Some(file) = line.strip_prefix("include").filter(|f| f.starts_with([' ', '\t'])) {
            let file = file.trim();
            let file = path.parent().map(|dir| dir.join(file)).unwrap_or_else(|| file.into());
            return self
                .include(&file, depth + 1)
                .map_err(|e| Error { place: e.place.or(Some(place.clone())), ..e });
        }
        let (key, value) = match line.split_once('=') {
            Some((key, value)) => (key.trim(), Some(value)),
            None => (line, None),
        };
        if key.is_empty() || !key.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b)) {
            return Err(wrong("is no setting; write KEY=VALUE".into()));
        }
        self.setting(key, value, place)
    }

    /// One more setting of the section that has begun.
    pub fn setting(&mut self, key: &str, value: Option<&str>, place: Place) -> Result<(), Error> {
        if self.at == At::Nowhere {
            return Ok(());
        }
        let row = keys::find(key);
        let value = match value {
            Some(text) => Some(self.expand(key, row, text, &place)?),
            None => None,
        };
        let setting = Setting { key: key.to_string(), row, value, place };
        self.survey(&setting);
        match self.at {
            At::Nothing => Err(Error {
                what: "stands in no section; begin with [global] or [NAME]".into(),
                place: Some(setting.place),
            }),
            At::Job => {
                keep(&mut self.sections.last_mut().expect("a job has begun").own, setting);
                Ok(())
            }
            At::Global | At::Nowhere => {
                keep(Arc::make_mut(&mut self.global), setting);
                Ok(())
            }
        }
    }

    /// A section begins.
    pub fn section(&mut self, name: &str, place: Place) -> Result<(), Error> {
        if name.eq_ignore_ascii_case("global") {
            self.at = At::Global;
            return Ok(());
        }
        if self.wanted.as_ref().is_some_and(|wanted| !wanted.iter().any(|w| w == name)) {
            self.at = At::Nowhere;
            return Ok(());
        }
        if self.sections.len() >= JOBS {
            return Err(Error { place: Some(place), what: format!("more than {JOBS} jobs") });
        }
        self.at = At::Job;
        let (name, global) = (name.to_string(), Arc::clone(&self.global));
        let behind = std::mem::take(&mut self.behind) && !self.sections.is_empty();
        self.sections.push(Section { name, place, global, own: Vec::new(), behind });
        Ok(())
    }

    /// The value with variables and keywords in it replaced.
    fn expand(
        &mut self,
        key: &str,
        row: Option<&Key>,
        text: &str,
        place: &Place,
    ) -> Result<String, Error> {
        let wrong = |what: String| Error { place: Some(place.clone()), what };
        let value = self.substitute(text.trim());
        self.held += value.len();
        if value.len() > VALUE || self.held > VALUES {
            return Err(wrong(format!(
                "a value with its variables is longer than {VALUE} bytes, or all of them than {VALUES}"
            )));
        }
        let is_size = row.is_some_and(|row| keys::SIZES.contains(&row.name));
        if is_size && text.starts_with(char::is_whitespace) && has_unit(&value) {
            let number: String = value.chars().take_while(char::is_ascii_digit).collect();
            let why = format!(
                "fio 3.33 reads a blank, then a size without its unit: here it is {value}, there {number}; write {key}={value}"
            );
            self.notes.add(place, key, Weight::Unsupported, why);
        }
        self.calculate(&value).map_err(|what| wrong(format!("{key}: {what}")))
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
            // It is refused.
            if out.len() > VALUE {
                return out;
            }
        }
        out.push_str(rest);
        out
    }

    /// A value with keywords of the machine in it is an expression.
    fn calculate(&self, text: &str) -> Result<String, String> {
        let mut out = text.to_string();
        let mut any = false;
        for name in ["pagesize", "mb_memory", "ncpus"] {
            let word = format!("${name}");
            if !out.contains(&word) {
                continue;
            }
            let value = self.source.keyword(name);
            let value = value.ok_or_else(|| format!("{word} is not known here; write a number"))?;
            out = out.replace(&word, &value.to_string());
            any = true;
        }
        match any {
            // In parentheses it is calculated like any other; a number alone is one.
            true if out.parse::<u64>().is_err() && !out.starts_with('(') => Ok(format!("({out})")),
            _ => Ok(out),
        }
    }

    /// Keys whose fate is not to be carried out, and keys that nobody knows.
    fn survey(&mut self, setting: &Setting) {
        let Setting { key, row, value, place } = setting;
        let asks = value.as_deref().is_none_or(|value| !keys::NOTHING.contains(&value));
        match row.map(|row| row.fate) {
            Some(keys::Fate::Carried) => {}
            Some(keys::Fate::Ignored(why)) => self.notes.add(place, key, Weight::Ignored, why),
            Some(keys::Fate::Unsupported(why)) if asks => {
                self.notes.add(place, key, Weight::Unsupported, why);
            }
            Some(keys::Fate::Unsupported(_)) => {}
            // A file that was included may be any file, and nobody asked to see it.
            None => {
                let shown = self.origins.first().is_some_and(|first| *first == place.origin)
                    || *place.origin == Origin::Words;
                let key = if shown { key } else { "a key" };
                self.notes.add(place, key, Weight::Unsupported, "the key is not known");
            }
        }
    }
}

/// The last setting of each key counts. Keys that nobody knows have been named, and that is all: so there are at most as
/// many settings as keys, however long a file is.
fn keep(settings: &mut Vec<Setting>, setting: Setting) {
    if setting.row.is_some() {
        settings.retain(|s| s.row != setting.row);
        settings.push(setting);
    }
}

/// Whether a number with a letter behind it is all there is.
fn has_unit(value: &str) -> bool {
    let unit = value.trim_start_matches(|c: char| c.is_ascii_digit());
    unit.len() < value.len() && unit.starts_with(|c: char| c.is_ascii_alphabetic())
}
