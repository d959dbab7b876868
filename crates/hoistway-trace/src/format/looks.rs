//! What a file is that is no trace: said instead of "unknown", since the next step is then clear.

use super::recognise::Head;

/// Archives and recordings by their first bytes: these are no trace, whatever `--format` says.
const MAGIC: &[(&[u8], &str)] = &[
    (b"\x7fELF", "is a program (ELF)"),
    (
        b"PERFILE2",
        "is a recording of perf: `perf script -i FILE` makes text of it, which can be read",
    ),
    (
        b"\x17\x08\x44tracing",
        "is a recording of trace-cmd: `trace-cmd report FILE` makes text of it, which can be read",
    ),
    (b"\xfd7zXZ\0", "is compressed with xz: `xz -dc FILE | hoistway ... -` reads it"),
    (b"BZh", "is compressed with bzip2: `bzip2 -dc FILE | hoistway ... -` reads it"),
    (b"\x04\x22\x4d\x18", "is compressed with lz4: `lz4 -dc FILE | hoistway ... -` reads it"),
    (b"PK\x03\x04", "is a zip archive: `unzip -p FILE | hoistway ... -` reads it"),
    (b"7z\xbc\xaf\x27\x1c", "is a 7z archive: `7z x -so FILE | hoistway ... -` reads it"),
    (b"Rar!\x1a\x07", "is a rar archive: take the trace out of it"),
    (b"PAR1", "is a table of Apache Parquet: write it as CSV"),
    (b"SQLite format 3\0", "is a database of SQLite: write its table as CSV"),
    (b"%PDF-", "is a PDF"),
];

/// What these bytes are, if they can be no trace in any format.
pub(crate) fn binary(head: &Head<'_>) -> Option<&'static str> {
    let bytes = head.bytes;
    if let Some((_, what)) = MAGIC.iter().find(|(magic, _)| bytes.starts_with(magic)) {
        return Some(what);
    }
    if bytes.get(257..262) == Some(b"ustar") {
        return Some("is a tar archive: `tar -xOf FILE | hoistway ... -` reads a trace in it");
    }
    if is_utf_16(bytes) {
        return Some(
            "is text in UTF-16: `iconv -f UTF-16 -t UTF-8 FILE | hoistway ... -` reads it",
        );
    }
    None
}

/// UTF-16 by its mark (UTF-32 has the same one), or without: every second byte of the first characters is 0.
fn is_utf_16(bytes: &[u8]) -> bool {
    if bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]) {
        return true;
    }
    let start = &bytes[..bytes.len().min(64) & !1];
    let plain = |b: u8| matches!(b, b' '..=b'~' | b'\t' | b'\r' | b'\n');
    let pairs = |zero: usize| start.chunks(2).all(|c| c[zero] == 0 && plain(c[1 - zero]));
    start.len() >= 8 && (pairs(0) || pairs(1))
}

/// What a file that no format reads seems to be.
pub(crate) fn like(head: &Head<'_>) -> Option<&'static str> {
    let bytes = head.bytes;
    if let [version, b't', b'a', b'e'] | [b'e', b'a', b't', version] = bytes[..bytes.len().min(4)] {
        return Some(match version {
            7 => "begins as a recording of blktrace and holds no whole event",
            _ => "is a recording of blktrace in a version other than 7",
        });
    }
    let start = &bytes[..bytes.len().min(4096)];
    if start.iter().any(|b| matches!(b, 0..=8 | 14..=26 | 28..=31)) {
        return Some("is no text, no recording of blktrace, and no trace of another known format");
    }
    let text = start.trim_ascii_start();
    if text.starts_with(b"{") || text.starts_with(b"[{") {
        return Some("is JSON, no trace of a known format");
    }
    let small: Vec<u8> = text.iter().take(16).map(u8::to_ascii_lowercase).collect();
    if small.starts_with(b"<!doctype html")
        || small.starts_with(b"<html")
        || small.starts_with(b"<?xml")
    {
        return Some("is a page in HTML or XML, no trace: was it a download that failed?");
    }
    settings(head)
}

/// Files of settings: sections and `key = value`.
fn settings(head: &Head<'_>) -> Option<&'static str> {
    let (mut section, mut keys, mut others) = (false, Vec::new(), 0);
    for (_, line) in head.lines() {
        let line = line.trim_ascii();
        match line {
            [] | [b'#' | b';', ..] => {}
            [b'[', .., b']'] => section = true,
            _ => match memchr::memchr(b'=', line) {
                Some(at) if is_key(line[..at].trim_ascii()) => keys.push(line[..at].trim_ascii()),
                Some(_) => others += 1,
                // A flag of fio, or a further line of a list.
                None => others += 1,
            },
        }
    }
    let has = |names: &[&[u8]]| keys.iter().any(|k| names.contains(k));
    if keys.len() < others || keys.is_empty() {
        return None;
    }
    if section
        && has(&[b"rw", b"readwrite", b"bs", b"blocksize", b"ioengine", b"iodepth", b"filename"])
    {
        return Some("is a fio job file, no trace: `hoistway run --job FILE` runs it");
    }
    if has(&[b"schema"]) && has(&[b"model"]) {
        return Some("is a drive file, no trace: `--drive FILE` takes it");
    }
    if has(&[b"schema"]) && has(&[b"workloads", b"drives", b"configs"]) {
        return Some("is an experiment file, no trace: `hoistway run FILE` runs it");
    }
    Some("is a file of settings, no trace of a known format")
}

fn is_key(word: &[u8]) -> bool {
    !word.is_empty() && word.iter().all(|b| b.is_ascii_alphanumeric() || b"_-.".contains(b))
}
