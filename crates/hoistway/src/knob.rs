//! Settings as the kernel's cgroup v2 files take and print them (specs/groups-and-priorities.md
//! section 6): one write is one line for one device, applied completely or not at all.
//!
//! A stage lists its files as [`Knob`]s in its registry entry and reads and prints their lines itself;
//! this module has what they share: device numbers, numbers, the errors.

use alloc::format;
use alloc::string::String;
use core::fmt;
use core::str::FromStr;

/// Number of a block device, printed and read as `MAJ:MIN`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DevNo {
    /// Driver.
    pub major: u32,
    /// Device of that driver.
    pub minor: u32,
}

impl Default for DevNo {
    /// The first SCSI disk, 8:0.
    fn default() -> DevNo {
        DevNo { major: 8, minor: 0 }
    }
}

impl fmt::Display for DevNo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.major, self.minor)
    }
}

impl FromStr for DevNo {
    type Err = ();

    fn from_str(text: &str) -> Result<DevNo, ()> {
        let (major, minor) = text.split_once(':').ok_or(())?;
        let number = |t: &str| match t.bytes().all(|b| b.is_ascii_digit()) {
            true => t.parse::<u32>().map_err(|_| ()),
            false => Err(()),
        };
        Ok(DevNo { major: number(major)?, minor: number(minor)? })
    }
}

/// A file of a group (or of the root) that a stage understands.
#[derive(Clone, Copy, Debug)]
pub struct Knob {
    /// The kernel's name: `io.max`, `io.cost.qos`, ...
    pub file: &'static str,
    /// Which groups have it.
    pub of: KnobOf,
    /// The accepted form of a line, as errors and documents show it.
    pub form: &'static str,
    /// One or two sentences: units, ranges, default, source.
    pub doc: &'static str,
}

/// Which groups have a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KnobOf {
    /// The root only.
    Root,
    /// All but the root.
    Groups,
    /// All.
    All,
}

/// The kind of an error, with the error number the kernel returns for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KnobErrorKind {
    /// EINVAL.
    Invalid,
    /// ERANGE.
    Range,
    /// ENODEV.
    NoDevice,
    /// EOPNOTSUPP: no installed stage has this file, or not for this group.
    Unsupported,
}

/// Why a line was refused. Nothing of it was applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnobError {
    /// The kernel's error.
    pub kind: KnobErrorKind,
    /// The error in it.
    pub what: String,
}

impl KnobError {
    /// EINVAL.
    pub fn invalid(what: impl Into<String>) -> KnobError {
        KnobError { kind: KnobErrorKind::Invalid, what: what.into() }
    }

    /// ERANGE.
    pub fn range(what: impl Into<String>) -> KnobError {
        KnobError { kind: KnobErrorKind::Range, what: what.into() }
    }

    /// EOPNOTSUPP.
    pub fn unsupported(what: impl Into<String>) -> KnobError {
        KnobError { kind: KnobErrorKind::Unsupported, what: what.into() }
    }
}

impl fmt::Display for KnobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.kind {
            KnobErrorKind::Invalid => "EINVAL",
            KnobErrorKind::Range => "ERANGE",
            KnobErrorKind::NoDevice => "ENODEV",
            KnobErrorKind::Unsupported => "EOPNOTSUPP",
        };
        write!(f, "{} ({name})", self.what)
    }
}

impl core::error::Error for KnobError {}

/// Splits `MAJ:MIN body` and checks that the line is for `device`. Blanks before the body are skipped,
/// those behind it are the body's (io.latency refuses them); a newline at the end of the line is not.
///
/// # Errors
///
/// Invalid without a number or without a blank behind it, no such device for any other device.
pub fn body_for(device: DevNo, line: &str) -> Result<&str, KnobError> {
    let line = line.strip_suffix('\n').unwrap_or(line).trim_start_matches(is_blank);
    let (number, body) = line.split_once(is_blank).ok_or_else(|| {
        KnobError::invalid(format!("nothing follows '{line}'; write '{device} ', then the setting"))
    })?;
    let given: DevNo = number.parse().map_err(|()| {
        KnobError::invalid(format!("'{number}' is not a device number such as {device}"))
    })?;
    if given != device {
        return Err(KnobError {
            kind: KnobErrorKind::NoDevice,
            what: format!("there is no device {given}; this one is {device}"),
        });
    }
    Ok(body.trim_start_matches(is_blank))
}

/// White space as the kernel's line parsers know it.
pub fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r' | '\x0b' | '\x0c')
}

/// An unsigned decimal number; signs, blanks and overflow are refused.
pub fn number(key: &str, text: &str) -> Result<u64, KnobError> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    match text.parse() {
        Ok(n) if digits => Ok(n),
        _ if digits => Err(KnobError::range(format!("{key}={text} is above 2^64 - 1"))),
        _ => Err(KnobError::invalid(format!("{key}={text}: '{text}' is not a decimal number"))),
    }
}

/// `key=value`.
pub fn pair(token: &str) -> Result<(&str, &str), KnobError> {
    token
        .split_once('=')
        .ok_or_else(|| KnobError::invalid(format!("'{token}' has no '='; write key=value")))
}

/// An unknown key, with those that exist.
pub fn unknown_key(key: &str, known: &[&str]) -> KnobError {
    KnobError::invalid(format!("no key '{key}'; there are: {}", known.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_for_one_device() {
        let d = DevNo::default();
        assert_eq!(body_for(d, "8:0 target=10"), Ok("target=10"));
        assert_eq!(body_for(d, " 8:0\trbps=1  wbps=2 \n"), Ok("rbps=1  wbps=2 "));
        let kind = |line| body_for(d, line).unwrap_err().kind;
        assert_eq!(kind("8:16 rbps=1"), KnobErrorKind::NoDevice);
        for line in ["", "8:0", "8: 1", "sda rbps=1", "+8:0 x", "8:0x y", "4294967296:0 x"] {
            assert_eq!(kind(line), KnobErrorKind::Invalid, "{line:?}");
        }
    }

    #[test]
    fn numbers_are_plain_decimals() {
        assert_eq!(number("rbps", "18446744073709551615"), Ok(u64::MAX));
        assert_eq!(number("rbps", "18446744073709551616").unwrap_err().kind, KnobErrorKind::Range);
        for text in ["", "-1", "+1", "0x10", "1 ", "1.5", "max"] {
            assert_eq!(number("rbps", text).unwrap_err().kind, KnobErrorKind::Invalid, "{text:?}");
        }
    }
}
