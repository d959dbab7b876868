//! Reading files whole, within limits.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Most processes that a file may ask for in one run, be it an experiment or jobs of fio: each takes 10 to 20 kB while
/// its run is under way.
pub const PROCESSES_MAX: u64 = 100_000;
/// Most files that those processes may have of their own: each is known to the host, in up to a kB.
pub const FILES_MAX: u64 = 131_072;

/// How much of a kind of file is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// What the file is, with its article: `a drive file`.
    pub what: &'static str,
    /// The most bytes it may have.
    pub bytes: u64,
}

/// Why a file was not read.
#[derive(Debug)]
#[non_exhaustive]
pub enum ReadError {
    /// The system refused.
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// It is a folder, a device, a FIFO or a socket.
    NotAFile {
        /// The file.
        path: PathBuf,
        /// What it is instead.
        is: &'static str,
        /// What was wanted.
        limit: Limit,
    },
    /// It is longer than its kind may be.
    TooLong {
        /// The file.
        path: PathBuf,
        /// The limit.
        limit: Limit,
    },
    /// It is no text.
    NotText {
        /// The file.
        path: PathBuf,
        /// The first line, from 1, with bytes that are not UTF-8.
        line: usize,
    },
}

impl ReadError {
    /// Whether there is no such file.
    pub fn is_missing(&self) -> bool {
        matches!(self, ReadError::Io { error, .. } if error.kind() == io::ErrorKind::NotFound)
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadError::Io { path, error } => write!(f, "{}: {error}", path.display()),
            ReadError::NotAFile { path, is, limit } => {
                write!(f, "{}: is {is}; name {}", path.display(), limit.what)
            }
            ReadError::TooLong { path, limit: Limit { what, bytes } } => {
                write!(f, "{}: is longer than {what} may be ({})", path.display(), size(*bytes))
            }
            ReadError::NotText { path, line } => {
                write!(f, "{}:{line}: is no text in UTF-8", path.display())
            }
        }
    }
}

impl std::error::Error for ReadError {}

/// Opens a file that can be read to its end, and says how long it is; `None` for a pipe that was handed over as a
/// descriptor (`/dev/stdin`, `/dev/fd/N`), whose other end is open.
///
/// # Errors
///
/// [`ReadError::Io`]; [`ReadError::NotAFile`] for whatever else has no end.
pub fn open(path: &Path, limit: Limit) -> Result<(File, Option<u64>), ReadError> {
    let io = |error| ReadError::Io { path: path.into(), error };
    let handed = is_descriptor(path);
    let wrong = |is| ReadError::NotAFile { path: path.into(), is, limit };
    if !handed {
        // A device may act on being opened (a tape rewinds, a watchdog starts), so it is not opened.
        let kind = std::fs::metadata(path).map_err(io)?.file_type();
        if !kind.is_file() {
            return Err(wrong(what(&kind)));
        }
    }
    let mut options = File::options();
    options.read(true);
    #[cfg(unix)]
    if !handed {
        use std::os::unix::fs::OpenOptionsExt;
        // In between it may have become a FIFO that nobody writes to, which would hold up `open`.
        options.custom_flags(rustix::fs::OFlags::NONBLOCK.bits() as i32);
    }
    let file = options.open(path).map_err(io)?;
    let meta = file.metadata().map_err(io)?;
    if meta.is_file() {
        return Ok((file, Some(meta.len())));
    }
    let is = what(&meta.file_type());
    if handed && is == "a FIFO" {
        return Ok((file, None));
    }
    Err(wrong(is))
}

/// Opens a file that is read piece by piece, and is not longer than the limit.
///
/// # Errors
///
/// As [`open`], and [`ReadError::TooLong`].
pub fn sized(path: &Path, limit: Limit) -> Result<File, ReadError> {
    let (file, length) = open(path, limit)?;
    match length {
        Some(length) if length > limit.bytes => {
            Err(ReadError::TooLong { path: path.into(), limit })
        }
        _ => Ok(file),
    }
}

/// The bytes of a file, at most as many as the limit allows.
///
/// # Errors
///
/// As [`open`], and [`ReadError::TooLong`].
pub fn bytes(path: &Path, limit: Limit) -> Result<Vec<u8>, ReadError> {
    let file = sized(path, limit)?;
    let too_long = || ReadError::TooLong { path: path.into(), limit };
    // Files of sysfs and procfs claim a length of their own, and any file may grow.
    let read = bounded(file, limit.bytes);
    read.map_err(|error| ReadError::Io { path: path.into(), error })?.ok_or_else(too_long)
}

/// The text of a file.
///
/// # Errors
///
/// As [`bytes`], and [`ReadError::NotText`].
pub fn text(path: &Path, limit: Limit) -> Result<String, ReadError> {
    utf8(path, bytes(path, limit)?)
}

/// The bytes of a file as text.
///
/// # Errors
///
/// [`ReadError::NotText`].
pub fn utf8(path: &Path, bytes: Vec<u8>) -> Result<String, ReadError> {
    String::from_utf8(bytes).map_err(|error| {
        let good = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = 1 + good.iter().filter(|byte| **byte == b'\n').count();
        ReadError::NotText { path: path.into(), line }
    })
}

/// All that a reader has; `None` if that is more than the limit, of which one byte more is read.
///
/// # Errors
///
/// What the reader said.
pub fn bounded(reader: impl Read, limit: u64) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    reader.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    Ok((bytes.len() as u64 <= limit).then_some(bytes))
}

/// Where the lines of a text begin: for messages about many places of it.
#[derive(Clone, Debug)]
pub struct Lines(Vec<usize>);

impl Lines {
    /// Of this text.
    pub fn of(text: &str) -> Lines {
        Lines(text.bytes().enumerate().filter(|(_, b)| *b == b'\n').map(|(at, _)| at).collect())
    }

    /// The line, from 1, that the byte at this offset stands in.
    pub fn at(&self, offset: usize) -> usize {
        1 + self.0.partition_point(|end| *end < offset)
    }
}

/// Whether a path names a descriptor of this process.
pub(crate) fn is_descriptor(path: &Path) -> bool {
    ["/dev/stdin", "/dev/stdout", "/dev/stderr"].iter().any(|name| path == Path::new(name))
        || path.starts_with("/dev/fd")
        || path.starts_with("/proc/self/fd")
}

/// What a file is, in words.
pub(crate) fn what(kind: &std::fs::FileType) -> &'static str {
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt;
        if kind.is_fifo() {
            return "a FIFO";
        } else if kind.is_char_device() || kind.is_block_device() {
            return "a device";
        } else if kind.is_socket() {
            return "a socket";
        }
    }
    if kind.is_dir() {
        "a folder"
    } else if kind.is_symlink() {
        "a link"
    } else {
        "no file"
    }
}

/// `1 MiB`, `64 KiB`, `12 bytes`: limits are round.
fn size(bytes: u64) -> String {
    match bytes {
        b if b >= 1 << 30 && b.is_multiple_of(1 << 30) => format!("{} GiB", b >> 30),
        b if b >= 1 << 20 && b.is_multiple_of(1 << 20) => format!("{} MiB", b >> 20),
        b if b >= 1 << 10 && b.is_multiple_of(1 << 10) => format!("{} KiB", b >> 10),
        b => format!("{b} bytes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const FILE: Limit = Limit { what: "a drive file", bytes: 1024 };

    #[test]
    fn a_file_at_its_limit_is_read_and_one_beyond_is_not() {
        let path = std::env::temp_dir().join(format!("hoistway-input-{}", std::process::id()));
        fs::write(&path, [b'a'; 1024]).unwrap();
        assert_eq!(text(&path, FILE).unwrap().len(), 1024);
        fs::write(&path, [b'a'; 1025]).unwrap();
        let error = text(&path, FILE).unwrap_err().to_string();
        assert!(error.ends_with("is longer than a drive file may be (1 KiB)"), "{error}");
        fs::write(&path, b"a\nb\xff").unwrap();
        let error = text(&path, FILE).unwrap_err().to_string();
        assert!(error.ends_with(":2: is no text in UTF-8"), "{error}");
        fs::remove_file(&path).unwrap();
        assert!(text(&path, FILE).unwrap_err().is_missing());
    }

    #[test]
    fn lines_are_counted_from_their_beginnings() {
        let lines = Lines::of("a\n\nbc");
        assert_eq!([0, 1, 2, 3, 4, 9].map(|at| lines.at(at)), [1, 1, 2, 3, 3, 3]);
    }

    #[cfg(unix)]
    #[test]
    fn what_has_no_end_is_not_read() {
        let folder = std::env::temp_dir();
        let fifo = folder.join(format!("hoistway-fifo-{}", std::process::id()));
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        for (path, is) in
            [(Path::new("/dev/zero"), "a device"), (&folder, "a folder"), (&fifo, "a FIFO")]
        {
            let error = text(path, FILE).unwrap_err().to_string();
            assert!(error.ends_with(&format!("is {is}; name a drive file")), "{error}");
        }
        fs::remove_file(&fifo).unwrap();
        // A file of procfs claims to be empty.
        assert!(!text(Path::new("/proc/self/stat"), FILE).unwrap().is_empty());
    }
}
