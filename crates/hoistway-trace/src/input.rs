//! Bytes of a trace: from a file, standard input or memory; plain, gzip or zstd, told apart by content.
//!
//! One buffer, refilled in place; lines and blocks are slices of it. Memory is the buffer and the
//! decompressor's window, whatever the length of the trace.

use crate::error::{Error, Fault, shown};
use crate::zstd::{Zstd, is_zstd};
use hoistway_files::input::{self, Limit, ReadError};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes asked for at a time: many lines, and still within the second-level cache.
const CHUNK: usize = 256 * 1024;
/// Longest line. Anything longer is no line of a trace.
pub(crate) const LINE_MAX: usize = 64 * 1024;
/// Most bytes without a line's end, or without an event of blktrace, that are passed over: what has so many is no trace,
/// and may have no end.
pub(crate) const JUNK_MAX: u64 = 16 << 20;
/// Byte order mark of UTF-8.
pub(crate) const BOM: &[u8] = b"\xef\xbb\xbf";
/// A trace is read as it comes and may have any length, but it is a file or a pipe that was handed over: a FIFO that
/// nobody writes to would be waited for silently, and a device has no end.
const TRACE: Limit = Limit { what: "a trace, or `-` and redirect standard input", bytes: u64::MAX };

/// Whether a trace comes as a stream, standard input or a pipe that was handed over, and so only once.
///
/// # Errors
///
/// What cannot be a trace: a folder, a device, a FIFO.
pub fn comes_once(path: &Path) -> Result<bool, Error> {
    if path == Path::new("-") {
        return Ok(true);
    }
    Ok(opened(path)?.1.is_none())
}

fn opened(path: &Path) -> Result<(File, Option<u64>), Error> {
    input::open(path, TRACE).map_err(|error| match error {
        ReadError::Io { error, .. } => Error::Io { name: shown(path), error },
        other => Error::NotAFile(other),
    })
}

/// A buffered source of bytes.
pub(crate) struct Input {
    pub(crate) name: String,
    source: Box<dyn Read + Send>,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// Bytes before `start`.
    passed: u64,
    /// Lines handed out.
    pub(crate) lines: u64,
    at_end: bool,
    /// How it is compressed.
    packed: Option<&'static str>,
    /// Of the file as it lies on disk.
    taken: Arc<AtomicU64>,
    size: Option<u64>,
}

/// What `line` found.
pub(crate) enum Line {
    /// It lies there in the buffer, without its end.
    At(usize, usize),
    /// Longer than any line of a trace; skipped.
    TooLong,
    /// None is left.
    End,
}

impl Input {
    pub(crate) fn open(path: &Path) -> Result<Input, Error> {
        if path == Path::new("-") {
            return Input::new(shown(path), Box::new(io::stdin()), None);
        }
        let (file, size) = opened(path)?;
        Input::new(shown(path), Box::new(file), size)
    }

    pub(crate) fn new(
        name: String,
        source: Box<dyn Read + Send>,
        size: Option<u64>,
    ) -> Result<Input, Error> {
        let taken = Arc::new(AtomicU64::new(0));
        let mut source = Counted { source, taken: taken.clone() };
        let mut magic = [0; 4];
        let have = fill(&mut source, &mut magic).map_err(|e| io_error(&name, e))?;
        let whole = Rest { head: magic, at: 0, have, rest: source };
        let (source, packed): (Box<dyn Read + Send>, _) = match &magic[..have] {
            [0x1f, 0x8b, ..] => (Box::new(flate2::read::MultiGzDecoder::new(whole)), Some("gzip")),
            magic if is_zstd(magic) => (Box::new(Zstd::new(whole)), Some("zstd")),
            _ => (Box::new(whole), None),
        };
        let buffer = vec![0; CHUNK];
        let (start, end, passed, lines, at_end) = (0, 0, 0, 0, false);
        Ok(Input { name, source, buffer, start, end, passed, lines, at_end, packed, taken, size })
    }

    /// The next bytes, up to `n` of them, without taking them.
    pub(crate) fn peek(&mut self, n: usize) -> Result<&[u8], Error> {
        while self.end - self.start < n && !self.at_end {
            self.fill()?;
        }
        Ok(&self.buffer[self.start..self.end.min(self.start + n)])
    }

    /// The beginning of what is left, up to `n` bytes, and whether that is all of it.
    pub(crate) fn head(&mut self, n: usize) -> Result<(&[u8], bool), Error> {
        // One more, to know of the end.
        self.peek(n + 1)?;
        let whole = self.end - self.start <= n;
        Ok((&self.buffer[self.start..self.end.min(self.start + n)], whole))
    }

    /// Takes bytes that were peeked.
    pub(crate) fn take(&mut self, n: usize) {
        assert!(n <= self.end - self.start, "only what was peeked can be taken");
        self.start += n;
        self.passed += n as u64;
    }

    /// Offset of what comes next in the decompressed trace.
    pub(crate) fn offset(&self) -> u64 {
        self.passed
    }

    /// Bytes taken from the file as it lies on disk, and its size if it is known.
    pub(crate) fn progress(&self) -> (Arc<AtomicU64>, Option<u64>) {
        (self.taken.clone(), self.size)
    }

    /// Takes the next line.
    #[inline]
    pub(crate) fn line(&mut self) -> Result<Line, Error> {
        let mut searched = 0;
        loop {
            let text = &self.buffer[self.start..self.end];
            if let Some(n) = memchr::memchr(b'\n', &text[searched..]) {
                let from = self.start;
                self.take(searched + n + 1);
                self.lines += 1;
                return Ok(self.without_return(from, from + searched + n));
            }
            searched = text.len();
            if self.at_end {
                if searched == 0 {
                    return Ok(Line::End);
                }
                let from = self.start;
                self.take(searched);
                self.lines += 1;
                return Ok(self.without_return(from, from + searched));
            }
            if searched > LINE_MAX {
                self.skip_line()?;
                self.lines += 1;
                return Ok(Line::TooLong);
            }
            self.fill()?;
        }
    }

    pub(crate) fn text(&self, from: usize, to: usize) -> &[u8] {
        &self.buffer[from..to]
    }

    fn without_return(&self, from: usize, to: usize) -> Line {
        let end = to - usize::from(to > from && self.buffer[to - 1] == b'\r');
        Line::At(from, end)
    }

    fn skip_line(&mut self) -> Result<(), Error> {
        let began = self.passed;
        loop {
            let text = &self.buffer[self.start..self.end];
            match memchr::memchr(b'\n', text) {
                Some(n) => {
                    self.take(n + 1);
                    return Ok(());
                }
                None => self.take(text.len()),
            }
            if self.at_end {
                return Ok(());
            }
            if self.passed - began > JUNK_MAX {
                let what =
                    format!("line {} has no end within {} MiB", self.lines + 1, JUNK_MAX >> 20);
                return Err(io_error(&self.name, io::Error::other(what)));
            }
            self.fill()?;
        }
    }

    fn fill(&mut self) -> Result<(), Error> {
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        if self.end == self.buffer.len() {
            // A peek or a line longer than the buffer; both are bounded.
            self.buffer.resize(self.buffer.len() * 2, 0);
        }
        let room = &mut self.buffer[self.end..];
        let got = loop {
            match self.source.read(room) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(self.unreadable(e)),
                Ok(n) => break n,
            }
        };
        self.end += got;
        self.at_end = got == 0;
        Ok(())
    }

    /// What the source says, and where; a decompressor says little itself.
    fn unreadable(&self, error: io::Error) -> Error {
        let Some(packed) = self.packed.filter(|_| error.raw_os_error().is_none()) else {
            return io_error(&self.name, error);
        };
        let at = self.passed + (self.end - self.start) as u64;
        let what = format!("{packed}: cut off or damaged after {at} unpacked bytes ({error})");
        io_error(&self.name, io::Error::new(error.kind(), what))
    }
}

/// What is wrong with a line that is too long.
pub(crate) const TOO_LONG: Fault = Fault::new("line", "is longer than 64 KiB");

fn io_error(name: &str, error: io::Error) -> Error {
    Error::Io { name: name.to_string(), error }
}

fn fill(source: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut have = 0;
    while have < buffer.len() {
        match source.read(&mut buffer[have..]) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
            Ok(0) => break,
            Ok(n) => have += n,
        }
    }
    Ok(have)
}

/// Counts what is read, for progress.
struct Counted {
    source: Box<dyn Read + Send>,
    taken: Arc<AtomicU64>,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.source.read(buffer)?;
        self.taken.fetch_add(n as u64, Ordering::Relaxed);
        Ok(n)
    }
}

/// The bytes looked at, then the rest.
struct Rest {
    head: [u8; 4],
    at: usize,
    have: usize,
    rest: Counted,
}

impl Read for Rest {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.at == self.have {
            return self.rest.read(buffer);
        }
        let n = buffer.len().min(self.have - self.at);
        buffer[..n].copy_from_slice(&self.head[self.at..self.at + n]);
        self.at += n;
        Ok(n)
    }
}
