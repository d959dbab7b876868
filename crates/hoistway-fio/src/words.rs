//! fio's command line: `--name=a --rw=randread --bs=4k`, as charts and issues have it.
//!
//! The rules are fio's: what stands before the first `--name` holds for all jobs, also of job files that are named;
//! jobs of the command line come before those of files, wherever these are named; further files run one after another.
//! Words are split as a shell does, without its variables and patterns.

use super::ini::Reader;
use super::keys::{self, Takes};
use super::{Error, Origin, Place};
use std::path::Path;
use std::sync::Arc;

/// Options of fio itself that change what is printed or how it is started, and whether a value belongs to them.
const TOLERATED: &[(&str, bool)] = &[
    ("output", true),
    ("output-format", true),
    ("bandwidth-log", false),
    ("minimal", false),
    ("append-terse", false),
    ("terse-version", true),
    ("eta", true),
    ("eta-interval", true),
    ("eta-newline", true),
    ("status-interval", true),
    ("alloc-size", true),
    ("max-jobs", true),
    ("idle-prof", true),
    ("inflate-log", true),
    ("aux-path", true),
    ("debug", true),
    ("warnings-fatal", false),
    ("readonly", false),
    ("parse-only", false),
    ("showcmd", false),
];

/// Options that make fio do something else.
const OTHERWISE: &[&str] = &[
    "server",
    "client",
    "daemonize",
    "remote-config",
    "trigger",
    "trigger-file",
    "trigger-remote",
    "trigger-timeout",
    "merge-blktrace-only",
    "cmdhelp",
    "enghelp",
    "crctest",
    "cpuclock-test",
    "help",
    "version",
];

/// Longest command line.
const LONGEST: usize = 1 << 20;

/// Reads a command line into sections.
pub fn read(text: &str, reader: &mut Reader<'_>) -> Result<(), Error> {
    if text.len() > LONGEST {
        let what = format!("--fio: longer than {LONGEST} bytes; write a job file");
        return Err(Error { place: None, what });
    }
    let words =
        shell_words(text).map_err(|what| Error { place: None, what: format!("--fio: {what}") })?;
    let origin = Arc::new(Origin::Words);
    reader.origins.push(Arc::clone(&origin));
    let place = |i: usize| Place { origin: Arc::clone(&origin), number: i as u32 + 1 };
    let mut files = Vec::new();
    let mut settings: Vec<(usize, String, Option<String>)> = Vec::new();
    let mut i = usize::from(words.first().is_some_and(|w| is_program(w)));
    while i < words.len() {
        let (word, at) = (&words[i], i);
        i += 1;
        let Some(option) = word.strip_prefix("--").or_else(|| word.strip_prefix('-')) else {
            files.push((at, word));
            continue;
        };
        let (key, mut value) = match option.split_once('=') {
            Some((key, value)) => (key, Some(value.to_string())),
            None => (option, None),
        };
        let wrong = |what: String| Error { place: Some(place(at)), what };
        if OTHERWISE.contains(&key) {
            return Err(wrong(format!("--{key}: hoistway runs jobs only; leave it out")));
        }
        let tolerated = TOLERATED.iter().find(|o| o.0 == key);
        let takes = match (tolerated, keys::find(key)) {
            (Some(&(_, takes)), _) => takes,
            (None, _) if key == "section" => true,
            (None, Some(row)) => row.takes == Takes::Value,
            // fio refuses what it does not know.
            (None, None) => {
                return Err(wrong(format!("--{key} is no option of fio 3.33 that is known here")));
            }
        };
        if takes && value.is_none() {
            value = words.get(i).cloned();
            i += 1;
            if value.is_none() {
                return Err(wrong(format!("--{key} needs a value")));
            }
        }
        match key {
            "section" => {
                let name = value.unwrap_or_default();
                reader.wanted.get_or_insert_default().push(name);
            }
            _ if tolerated.is_some() => {}
            _ => settings.push((at, key.to_string(), value)),
        }
    }
    jobs(reader, settings, &place)?;
    let global = reader.global();
    for (n, (at, file)) in files.into_iter().enumerate() {
        let read = match n {
            0 => reader.file(Path::new(file)),
            _ => reader.next_file(Path::new(file), &global),
        };
        read.map_err(|e| Error { place: e.place.or(Some(place(at))), ..e })?;
    }
    // Of a section that is wanted and not there more is said later.
    match reader.sections.is_empty() && reader.wanted.is_none() {
        true => Err(Error {
            place: None,
            what: "--fio: has no job; add --name=NAME, or a job file".into(),
        }),
        false => Ok(()),
    }
}

/// The jobs that stand on the command line itself.
fn jobs(
    reader: &mut Reader<'_>,
    settings: Vec<(usize, String, Option<String>)>,
    place: &dyn Fn(usize) -> Place,
) -> Result<(), Error> {
    reader.begin_global();
    // `--section` chooses among the jobs of files.
    let wanted = reader.wanted.take();
    for (at, key, value) in settings {
        match (key.as_str(), &value) {
            ("name", Some(name)) => {
                reader.section(name, place(at))?;
                // fio shows it among the job's settings.
                if !name.eq_ignore_ascii_case("global") {
                    reader.setting(&key, value.as_deref(), place(at))?;
                }
            }
            _ => reader.setting(&key, value.as_deref(), place(at))?,
        }
    }
    reader.wanted = wanted;
    Ok(())
}

fn is_program(word: &str) -> bool {
    Path::new(word).file_name().is_some_and(|name| name == "fio")
}

/// The words of a line, as a shell splits them: quotes, backslashes, and a backslash before the end of a line.
///
/// # Errors
///
/// A quote or a backslash that nothing ends.
pub fn shell_words(text: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match chars.next() {
                        Some('\'') => break,
                        Some(c) => word.push(c),
                        None => return Err("a quote ' has no end".into()),
                    }
                }
            }
            '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match chars.next() {
                        Some('"') => break,
                        Some('\\') => match chars.next() {
                            Some('\n') => {}
                            Some(c @ ('"' | '\\' | '$' | '`')) => word.push(c),
                            Some(c) => word.extend(['\\', c]),
                            None => return Err("a quote \" has no end".into()),
                        },
                        Some(c) => word.push(c),
                        None => return Err("a quote \" has no end".into()),
                    }
                }
            }
            '\\' => match chars.next() {
                // The line goes on.
                Some('\n') => {}
                Some(c) => word.get_or_insert_default().push(c),
                None => return Err("a backslash stands at the end".into()),
            },
            c if c.is_whitespace() => words.extend(word.take()),
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_split_as_a_shell_does() {
        let of = |text: &str| shell_words(text).unwrap();
        assert_eq!(of("fio --name=a  --rw=read\n"), ["fio", "--name=a", "--rw=read"]);
        assert_eq!(
            of("--name='two words' --x=\"a \\\"b\\\" \\n\""),
            ["--name=two words", "--x=a \"b\" \\n"]
        );
        assert_eq!(of("a\\ b \\\n  c '' d"), ["a b", "c", "", "d"]);
        assert_eq!(of("--f='a'\"b\"c"), ["--f=abc"]);
        assert_eq!(of(" "), [""; 0]);
        for bad in ["'a", "\"a", "a\\", "\"a\\"] {
            assert!(shell_words(bad).is_err(), "{bad}");
        }
    }
}
