//! The text of a state file.
//!
//! ```text
//! hoistway-state 2
//! boot 1b4e28ba-2fa1-11d2-883f-0016d3cca427
//! owner 4711 compare latency-2019
//! queue<TAB>loop0<TAB>7:0<TAB>12345<TAB>/sys/devices/virtual/block/loop0<TAB>seq 17<TAB>scheduler=none...
//! folder<TAB>/mnt/.hoistway-4711<TAB>2049:131:1700000000123456789<TAB>2049:2:1600000000123456789
//! done 1
//! ```
//!
//! Each change is a line. `done N`: the change of that number, from 0, was put back. Version 1 has no `done`, and does
//! not tell times of birth, what a loop device was attached to, nor which mount it was.

use super::super::System;
use super::allowed::check;
use super::change::NotedChange;

/// What a file says.
#[derive(Debug)]
pub(super) struct Read {
    pub boot: String,
    pub pid: u32,
    pub what: String,
    pub entries: Vec<Entry>,
    /// Bytes up to the end of the last line that is whole.
    pub whole: u64,
}

/// A line about a change.
#[derive(Debug)]
pub(super) struct Entry {
    /// The change, or the line and why it is refused.
    pub change: Result<NotedChange, String>,
    /// It was put back.
    pub done: bool,
}

impl Read {
    /// Reads a text that is not empty.
    pub fn parse(system: &System, text: &str) -> Result<Read, String> {
        // A last line without its end was being written when the process died: its change was not made.
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        let mut lines = whole.split('\n');
        let mut next = |word: &str| lines.next().and_then(|line| line.strip_prefix(word));
        let version = match next("hoistway-state ") {
            Some("1") => 1,
            Some("2") => 2,
            Some(_) => return Err("is of a newer hoistway, which has to put it back".into()),
            None => return Err("is no state file".into()),
        };
        let boot = next("boot ").ok_or("has no line 'boot'")?.to_string();
        let owner = next("owner ").ok_or("has no line 'owner'")?;
        let (pid, what) = owner.split_once(' ').ok_or("has no owner")?;
        let pid = pid.parse().map_err(|_| "has no owner")?;
        let mut entries: Vec<Entry> = Vec::new();
        for (number, line) in lines.enumerate() {
            if let Some(done) = line.strip_prefix("done ") {
                let entry = done.parse().ok().and_then(|at: usize| entries.get_mut(at));
                entry.ok_or_else(|| format!("line {}: no such change", number + 4))?.done = true;
                continue;
            }
            let refuse = |why: &str| {
                let shown: String = line.chars().take(SHOWN).flat_map(char::escape_debug).collect();
                Err(format!("line {}: '{shown}': {why}", number + 4))
            };
            let change = match NotedChange::decode(version, line) {
                None => refuse("is nothing that hoistway notes"),
                Some(change) => match check(system, &change) {
                    Ok(()) => Ok(change),
                    Err(why) => refuse(&why),
                },
            };
            add(&mut entries, change);
        }
        Ok(Read { boot, pid, what: what.into(), entries, whole: whole.len() as u64 + 1 })
    }
}

fn add(entries: &mut Vec<Entry>, change: Result<NotedChange, String>) {
    let wish = change.as_ref().ok().and_then(NotedChange::wish);
    let known = wish.and_then(|wish| entries.iter().rposition(|e| e.change.as_ref() == Ok(&wish)));
    match known {
        Some(at) => entries[at].change = change,
        None => entries.push(Entry { change, done: false }),
    }
}

/// So much of a line is shown.
const SHOWN: usize = 160;

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Read, String> {
        Read::parse(&System::real(), text)
    }

    #[test]
    fn a_line_that_was_cut_counts_as_not_written() {
        let head = "hoistway-state 2\nboot b\nowner 7 compare x y\n";
        let text = format!("{head}new-file\t/a/.hoistway-1\nnew-file\t/a/.hoistway-2");
        let read = parse(&text).unwrap();
        assert_eq!((read.pid, read.what.as_str(), read.entries.len()), (7, "compare x y", 1));
        assert_eq!(read.whole, text.rfind('\n').unwrap() as u64 + 1);
        assert_eq!(parse(head).unwrap().entries.len(), 0);
        assert_eq!(parse(head).unwrap().whole, head.len() as u64);
    }

    #[test]
    fn what_was_put_back_is_marked_by_its_number() {
        let text = "hoistway-state 2\nboot b\nowner 7 x\nnew-file\t/a/.hoistway-1\nprocess\t5\t6\n\
                    new-file\t/a/.hoistway-1\t1:2:3\t-\ndone 1\nodd\n";
        let read = parse(text).unwrap();
        let done: Vec<bool> = read.entries.iter().map(|entry| entry.done).collect();
        assert_eq!(done, [false, true, false]);
        let Ok(NotedChange::NewFile { made: Some(_), .. }) = read.entries[0].change else {
            panic!()
        };
        let why = read.entries[2].change.as_ref().unwrap_err();
        assert_eq!(why, "line 8: 'odd': is nothing that hoistway notes");
    }

    #[test]
    fn other_texts_are_refused() {
        for (text, why) in [
            ("x\n", "is no state file"),
            ("hoistway-state 1", "is no state file"),
            ("hoistway-state 3\n", "is of a newer hoistway, which has to put it back"),
            ("hoistway-state 2\n", "has no line 'boot'"),
            ("hoistway-state 2\nboot b\nowner x y\n", "has no owner"),
            ("hoistway-state 2\nboot b\nowner 5 y\ndone 0\n", "line 4: no such change"),
        ] {
            assert_eq!(parse(text).unwrap_err(), why, "{text}");
        }
    }
}
