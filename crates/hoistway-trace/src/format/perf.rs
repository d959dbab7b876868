//! The kernel's block tracepoints as text, from `perf script` or from tracefs (`trace`, `trace_pipe`):
//!
//! ```text
//!   fio  1234 [003] 205791.409875: block:block_bio_queue: 8,16 RM 390439208 + 8 [fio]
//!   fio-1234  [003] ..... 205791.409901: block_rq_issue: 8,16 RM 4096 () 390439208 + 8 none,0,0 [fio]
//!   swapper 0 [006] 205791.410012: block:block_rq_complete: 8,16 RM () 390439208 + 8 none,0,0 [0]
//! ```
//!
//! Arrivals are `block_bio_queue` if the beginning of the trace has any, else `block_io_start`, `block_rq_insert` or
//! `block_rq_issue`, in this order: one of them, or a request would count twice. Completions are `block_rq_complete`, else
//! `block_io_done`. Other events and comments (`#`) are passed over. Times are exact to the microsecond (`perf script --ns`:
//! to the nanosecond).
//!
//! Source: the `format` files of these events in tracefs of Linux 6.18; perf-script(1).

use super::blkparse::{bracketed, is_device, next_word};
use super::text::{self, Found, LineParser, billionths, number, sectors};
use super::{Completions, Context, Format, recognise, rwbs};
use crate::error::Fault;
use crate::{Kind, Record};

pub(crate) static FORMAT: Format = Format {
    name: "perf",
    summary: "block tracepoints as text: perf script, tracefs trace and trace_pipe",
    columns: "process pid [cpu] time (s): block_EVENT: maj,min rwbs ... sector + sectors [process]",
    completions: Completions::Records,
    window: 4096,
    trial: recognise::trial::<Perf>,
    refusal: None,
    parser: text::lines::<Perf>,
};

const ARRIVALS: [&[u8]; 4] =
    [b"block_bio_queue", b"block_io_start", b"block_rq_insert", b"block_rq_issue"];
const COMPLETIONS: [&[u8]; 2] = [b"block_rq_complete", b"block_io_done"];

#[derive(Default)]
struct Perf {
    arrival: &'static [u8],
    completion: &'static [u8],
    name: Vec<u8>,
}

impl LineParser for Perf {
    fn begin(&mut self, head: &[u8]) {
        let first = |names: &[&'static [u8]]| {
            let there = |name: &&&'static [u8]| {
                memchr::memmem::find_iter(head, **name)
                    .any(|at| head.get(at + name.len()) == Some(&b':'))
            };
            names.iter().find(there).copied().unwrap_or(names[0])
        };
        self.arrival = first(&ARRIVALS);
        self.completion = first(&COMPLETIONS);
    }

    fn line(&mut self, line: &[u8], context: &mut Context, r: &mut Record) -> Result<Found, Fault> {
        let Some((open, close)) = cpu(line) else { return between(line) };
        let who = line[..open].trim_ascii();
        let mut rest = &line[close + 1..];
        let missing = Fault::new("time", "is missing");
        let time = loop {
            let word = next_word(&mut rest).ok_or(missing)?;
            if let Some(time) = word.strip_suffix(b":") {
                break time;
            }
        };
        r.time = text::time(Some(billionths(time, "time")?), "time")?;
        let event = next_word(&mut rest).ok_or(Fault::new("event", "is missing"))?;
        let event = event.strip_prefix(b"block:").unwrap_or(event);
        let Some(event) = event.strip_suffix(b":") else { return no_event(event, rest) };
        r.kind = match event {
            e if e == self.arrival => Kind::Arrival,
            e if e == self.completion && context.completions => Kind::Complete,
            b"block_plug" if context.plugs => Kind::Plug,
            b"block_unplug" if context.plugs => Kind::Unplug,
            _ => return Ok(Found::Unwanted),
        };
        if matches!(r.kind, Kind::Plug | Kind::Unplug) {
            let (_, count) = bracketed(rest).ok_or(Fault::new("process", "is not in brackets"))?;
            self.process(who, context, r)?;
            if r.kind == Kind::Unplug {
                r.len = number(count, "requests")?;
            }
            return Ok(Found::Record);
        }
        if !request(rest, context, r)? {
            return Ok(Found::Unwanted);
        }
        if r.kind == Kind::Arrival {
            self.process(who, context, r)?;
        }
        Ok(Found::Record)
    }

    fn shaped(line: &[u8]) -> bool {
        cpu(line).is_some() && memchr::memmem::find(line, b"block_").is_some()
    }
}

/// An event without a colon: perf's own records, the head of a stack, a function and its caller.
#[cold]
fn no_event(word: &[u8], rest: &[u8]) -> Result<Found, Fault> {
    let caller = rest.trim_ascii_start().starts_with(b"<-");
    if caller || word == b"<stack" || word.starts_with(b"PERF_RECORD_") {
        return Ok(Found::Unwanted);
    }
    Err(Fault::new("event", "is missing"))
}

/// What the tools print between events: heads, losses, stacks of `perf record -g`, `trace-cmd record -T` and tracefs.
#[cold]
fn between(line: &[u8]) -> Result<Found, Fault> {
    let text = line.trim_ascii();
    let number_after = |head: &[u8]| {
        text.strip_prefix(head).is_some_and(|n| !n.is_empty() && n.iter().all(u8::is_ascii_digit))
    };
    if number_after(b"cpus=") {
        return Ok(Found::Mark);
    }
    let of_trace_cmd = number_after(b"version = ")
        || text.starts_with(b"CPU:")
        || (text.starts_with(b"CPU ") && text.ends_with(b" is empty"))
        || text.starts_with(b"=> ")
        || (text.starts_with(b"[LOST ") && text.ends_with(b" EVENTS]"));
    if of_trace_cmd || (line[0].is_ascii_whitespace() && is_frame(text)) {
        return Ok(Found::Nothing);
    }
    Err(Fault::new("line", "has no [cpu]"))
}

/// `ffffffff8a5c1234 blk_mq_start_request+0x44 ([kernel.kallsyms])`.
fn is_frame(text: &[u8]) -> bool {
    let mut rest = text;
    let Some(address) = next_word(&mut rest) else { return false };
    address.len() <= 16 && address.iter().all(u8::is_ascii_hexdigit) && !rest.is_empty()
}

impl Perf {
    /// `COMM PID`, `COMM PID/TID` (perf), `COMM-PID`, `COMM-PID (TGID)` (tracefs).
    fn process(&mut self, who: &[u8], context: &mut Context, r: &mut Record) -> Result<(), Fault> {
        let no_pid = Fault::new("pid", "is missing");
        let who = match memchr::memrchr(b'(', who) {
            Some(at) if who.ends_with(b")") => who[..at].trim_ascii_end(),
            _ => who,
        };
        let at = who.iter().rposition(|b| *b == b'-' || b.is_ascii_whitespace()).ok_or(no_pid)?;
        let pid = &who[at + 1..];
        let pid = memchr::memchr(b'/', pid).map_or(pid, |slash| &pid[..slash]);
        if pid.is_empty() || !pid.iter().all(u8::is_ascii_digit) {
            return Err(no_pid);
        }
        self.name.clear();
        self.name.extend_from_slice(who[..at].trim_ascii());
        self.name.push(b'/');
        self.name.extend_from_slice(pid);
        r.process = context.names.processes.intern(&self.name);
        Ok(())
    }
}

/// The brackets around the number of the CPU: the first that hold digits and nothing else.
fn cpu(line: &[u8]) -> Option<(usize, usize)> {
    memchr::memchr_iter(b'[', line).find_map(|open| {
        let digits = line[open + 1..].iter().take_while(|b| b.is_ascii_digit()).count();
        let close = open + 1 + digits;
        (digits > 0 && line.get(close) == Some(&b']')).then_some((open, close))
    })
}

/// `maj,min rwbs [bytes] [(command)] sector + sectors ...`.
fn request(mut rest: &[u8], context: &mut Context, r: &mut Record) -> Result<bool, Fault> {
    let few = Fault::new("event", "has too few fields");
    let device = next_word(&mut rest).ok_or(few)?;
    if !is_device(device) {
        return Err(Fault::new("device", "is not maj,min"));
    }
    let letters = next_word(&mut rest).ok_or(few)?;
    // The command of a pass-through request, in hexadecimal with spaces; `()` for all others.
    let before_brackets = memchr::memchr(b'[', rest).unwrap_or(rest.len());
    if let Some(close) = memchr::memchr(b')', &rest[..before_brackets]) {
        rest = &rest[close + 1..];
    }
    let sector = number(next_word(&mut rest).ok_or(few)?, "sector")?;
    if next_word(&mut rest) != Some(b"+") {
        return Err(Fault::new("range", "is not sector + sectors"));
    }
    let bytes = sectors(next_word(&mut rest).ok_or(few)?, "sectors")?;
    r.device = context.names.devices.intern(device);
    rwbs::fill(r, letters, sector, bytes)
}
