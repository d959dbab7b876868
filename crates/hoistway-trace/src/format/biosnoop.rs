//! biosnoop's text, of bcc and libbpf-tools:
//!
//! ```text
//!   TIME(s)     COMM           PID    DISK    T SECTOR     BYTES  LAT(ms)
//!   0.000004    supervise      1950   xvda1   W 13092560   4096      0.74
//! ```
//!
//! with `QUE(ms)` before the last column (`-Q`) and `PATTERN` after the bytes (`-P`), as the header says; without a header
//! the columns are those above. A line is printed when the request completes, so its arrival is `TIME - LAT - QUE`, and
//! lines are out of order by as much. Latencies have two decimals: arrivals are exact to 5 us at best.
//!
//! bpftrace's `biosnoop.bt` prints neither sector nor size; such a trace is recognised and refused.
//!
//! Source: the man page of biosnoop(8) of bcc.

use super::recognise::{self, Head, Refusal};
use super::text::{self, Found, LineParser, billionths, number};
use super::{Completions, Context, Format, rwbs};
use crate::error::Fault;
use crate::{Flags, Op, Record};

pub(crate) static FORMAT: Format = Format {
    name: "biosnoop",
    summary: "biosnoop text of bcc and libbpf-tools",
    columns: "TIME (s, at completion) COMM PID DISK T SECTOR BYTES [PATTERN] [QUE (ms)] LAT (ms)",
    completions: Completions::Response,
    window: 16_384,
    trial: recognise::trial::<Biosnoop>,
    refusal: Some(refusal),
    parser: text::lines::<Biosnoop>,
};

fn refusal(head: &Head<'_>) -> Option<Refusal> {
    let without_offset = |l: &[u8]| l.starts_with(b"TIME(ms)") && !contains(l, b"SECTOR");
    head.lines().any(|(_, line)| without_offset(line.trim_ascii_start())).then_some((
        "the output of bpftrace's biosnoop.bt, which has no offset and no size,",
        "record with biosnoop of bcc (biosnoop-bpfcc), with perf or with `hoistway record`",
    ))
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    memchr::memmem::find(text, part).is_some()
}

/// Columns after COMM: PID DISK T SECTOR BYTES [PATTERN] [QUE] LAT.
#[derive(Default)]
struct Biosnoop {
    pattern: bool,
    queued: bool,
    name: Vec<u8>,
}

impl LineParser for Biosnoop {
    fn line(&mut self, line: &[u8], context: &mut Context, r: &mut Record) -> Result<Found, Fault> {
        if line.starts_with(b"TIME(s)") {
            self.pattern = contains(line, b"PATTERN");
            self.queued = contains(line, b"QUE(ms)");
            return Ok(Found::Mark);
        }
        if line.starts_with(b"Tracing ") || line.starts_with(b"Attach") {
            return Ok(Found::Nothing);
        }
        let few = Fault::new("line", "has too few columns");
        // The name may have spaces in it, so the columns after it are counted from the end.
        let mut words = text::split_words(line);
        let time = words.next().ok_or(few)?;
        let mut back = || words.next_back().ok_or(few);
        let latency = milliseconds(back()?, "LAT")?;
        let queued = if self.queued { milliseconds(back()?, "QUE")? } else { 0 };
        if self.pattern {
            back()?;
        }
        let (bytes, sector, op, disk, pid) = (back()?, back()?, back()?, back()?, back()?);
        self.name.clear();
        for word in words {
            self.name.extend_from_slice(word);
            self.name.push(b' ');
        }
        // A request whose process is unknown has none or `?`.
        if self.name.pop().is_none() {
            self.name.push(b'?');
        }
        if !time.contains(&b'.') {
            return Err(Fault::new("TIME", "is not in seconds with decimals"));
        }
        let bytes = number(bytes, "BYTES")?;
        let sector = number(sector, "SECTOR")?;
        if disk.iter().all(u8::is_ascii_digit) {
            // What stands there is the PID then.
            return match bytes {
                0 => Ok(Found::LeftOut(NO_DISK)),
                _ => Err(Fault::new("DISK", "is a number; are the columns in this order?")),
            };
        }
        number(pid, "PID")?;
        if bytes == 0 && sector == u64::MAX {
            // Only a flush has this sector; older bcc calls it a read.
            (r.op, r.flags) = (Op::Flush, Flags::NONE);
        } else if !rwbs::fill(r, op, if bytes == 0 { 0 } else { sector }, Some(bytes))? {
            return Ok(Found::Unwanted);
        }
        let response = latency.saturating_add(queued);
        // The first lines may have arrived before the clock of the trace began; OFFSET keeps them in order.
        let time = text::time(Some(billionths(time, "TIME")?), "TIME")?;
        r.time = (time + OFFSET).saturating_sub(response);
        r.response = Some(response);
        self.name.push(b'/');
        self.name.extend_from_slice(pid);
        r.process = context.names.processes.intern(&self.name);
        r.device = context.names.devices.intern(disk);
        Ok(Found::Record)
    }

    fn shaped(line: &[u8]) -> bool {
        let mut words = text::split_words(line);
        let seconds = words.next().is_some_and(|w| w[0].is_ascii_digit() && w.contains(&b'.'));
        seconds && (6..=16).contains(&words.count())
    }
}

/// Older bcc prints the drive's own flushes so, and commands that skip the kernel's accounting.
const NO_DISK: Fault =
    Fault::new("DISK", "is blank: a flush or a command without data, of an unknown disk");

/// An hour, added to all times: the trace's clock begins at its first line, which is a completion.
const OFFSET: u64 = 3_600_000_000_000;

fn milliseconds(text: &[u8], field: &'static str) -> Result<u64, Fault> {
    if !text.contains(&b'.') {
        return Err(Fault::new(field, "is not in milliseconds with decimals"));
    }
    Ok(billionths(text, field)? / 1000)
}
