//! blktrace's binary files as records: an arrival is `Q`, a completion `C`, plugs are `P`, `U` and `UT`.
//!
//! The raw events are in [`crate::blktrace`]. Where bytes are no event, the next magic number is looked for: what lies
//! between is one malformed record. The files of the CPUs are merged by time by the reader.

use super::recognise::{Head, Trial};
use super::{Bad, Completions, Context, Format, Parser, Step};
use crate::blktrace::{EVENT, Event, Parsed, action, category, device_name, parse};
use crate::error::{Error, Fault, Malformed};
use crate::input::{Input, JUNK_MAX};
use crate::{Kind, Op, Record};

pub(crate) static FORMAT: Format = Format {
    name: "blktrace",
    summary: "blktrace binary, one file or NAME.blktrace.0, .1, ... by CPU",
    columns: "48-byte events of either byte order; arrivals are Q, completions C, plugs P, U and UT",
    completions: Completions::Records,
    // The kernel's buffers are per CPU, so that one concatenated file may be out of order by a few events.
    window: 4096,
    trial,
    refusal: None,
    parser: |_| Ok(Box::new(Blktrace)),
};

/// Events follow each other without a gap; what lies between is one misfit.
fn trial(head: &Head<'_>) -> Trial {
    let mut trial = Trial::default();
    let mut at = 0;
    while at < head.bytes.len() {
        let rest = &head.bytes[at..];
        let whole = match parse(rest) {
            Parsed::Event(event) => EVENT + usize::from(event.payload),
            Parsed::Short | Parsed::NoMagic => 0,
        };
        if (1..=rest.len()).contains(&whole) {
            trial.read += 1;
            at += whole;
            continue;
        }
        let (byte, file, line, text) = (at as u64, None, None, String::new());
        let next = (at + 1..head.bytes.len()).find(|&at| is_event(&head.bytes[at..]));
        // The head may end in the middle of an event.
        if next.is_some() || head.whole {
            trial.misfit(whole > 0, || Malformed { file, line, byte, fault: NO_EVENT, text });
        }
        at = next.unwrap_or(head.bytes.len());
    }
    trial
}

fn is_event(bytes: &[u8]) -> bool {
    matches!(parse(bytes), Parsed::Event(_))
}

const NO_EVENT: Fault = Fault::new("event", "has no magic number of blktrace version 7");

struct Blktrace;

impl Parser for Blktrace {
    #[inline]
    fn next(
        &mut self,
        input: &mut Input,
        context: &mut Context,
        record: &mut Record,
    ) -> Result<Step, Error> {
        let byte = input.offset();
        let bytes = input.peek(EVENT)?;
        let event = match parse(bytes) {
            Parsed::Event(event) => event,
            Parsed::Short if bytes.is_empty() => return Ok(Step::End),
            Parsed::Short => {
                let left = bytes.len();
                input.take(left);
                return Ok(Step::Bad(bad_at(byte)));
            }
            Parsed::NoMagic => {
                resynchronise(input)?;
                return Ok(Step::Bad(Bad { fault: NO_EVENT, ..bad_at(byte) }));
            }
        };
        let whole = EVENT + usize::from(event.payload);
        let bytes = input.peek(whole)?;
        if bytes.len() < whole {
            let left = bytes.len();
            input.take(left);
            return Ok(Step::Bad(bad_at(byte)));
        }
        let step = turn(&event, &bytes[EVENT..], context, record);
        input.take(whole);
        Ok(match step {
            Ok(step) => step,
            Err(fault) => Step::Bad(Bad { fault, ..bad_at(byte) }),
        })
    }
}

fn bad_at(byte: u64) -> Bad {
    let fault = Fault::new("event", "is cut off at the end of the trace");
    Bad { line: None, byte, fault, from: 0, to: 0, known: false }
}

/// Passes on to the next event.
fn resynchronise(input: &mut Input) -> Result<(), Error> {
    let from = input.offset();
    input.take(1);
    loop {
        let bytes = input.peek(4096)?;
        if bytes.len() < EVENT {
            let left = bytes.len();
            input.take(left);
            return Ok(());
        }
        let last = bytes.len() - EVENT;
        let found = (0..=last).find(|at| is_event(&bytes[*at..]));
        input.take(found.unwrap_or(last + 1));
        if found.is_some() {
            return Ok(());
        }
        if input.offset() - from > JUNK_MAX {
            let problem =
                format!("holds no event of blktrace in {} MiB from byte {from} on", JUNK_MAX >> 20);
            return Err(Error::Unrecognised { name: input.name.clone(), problem });
        }
    }
}

fn turn(
    event: &Event,
    payload: &[u8],
    context: &mut Context,
    record: &mut Record,
) -> Result<Step, Fault> {
    if event.is(category::NOTIFY) {
        if event.what() == action::NOTIFY_PROCESS {
            name_process(event.pid, payload, context);
        }
        return Ok(Step::Nothing);
    }
    let kind = match event.what() {
        action::QUEUE => Kind::Arrival,
        action::COMPLETE if context.completions => Kind::Complete,
        action::PLUG if context.plugs => Kind::Plug,
        action::UNPLUG | action::UNPLUG_TIMER if context.plugs => Kind::Unplug,
        _ => return Ok(Step::Unwanted),
    };
    let time = super::text::time(Some(event.time), "time")?;
    *record = Record { kind, time, ..Record::default() };
    let payload = match payload.split_first_chunk::<8>() {
        Some((group, rest)) if event.action & action::CGROUP != 0 => {
            // A number of the machine that recorded; here it is a name only.
            let id = u64::from_le_bytes(*group);
            record.group = context.names.groups.keyed(id, || format!("cgroup {id}"));
            rest
        }
        _ => payload,
    };
    let (device, pid) = (event.device, event.pid);
    record.device = context.names.devices.keyed(device.into(), || device_name(device));
    record.process = context.names.processes.keyed(pid.into(), || pid.to_string());
    match kind {
        Kind::Plug => return Ok(Step::Record),
        Kind::Unplug => {
            record.len = payload.first_chunk::<8>().map_or(0, |n| u64::from_be_bytes(*n));
            return Ok(Step::Record);
        }
        Kind::Arrival | Kind::Complete => {}
    }
    let Some((op, flags)) = event.op() else { return Ok(Step::Unwanted) };
    record.op = op;
    record.flags = flags;
    if op != Op::Flush {
        record.offset = super::text::offset(event.sector.checked_mul(512), "sector")?;
        record.len = event.bytes.into();
    }
    Ok(Step::Record)
}

fn name_process(pid: u32, payload: &[u8], context: &mut Context) {
    let end = memchr::memchr(0, payload).unwrap_or(payload.len());
    let name = || format!("{}/{pid}", String::from_utf8_lossy(&payload[..end]));
    let id = context.names.processes.keyed(pid.into(), name);
    context.names.processes.rename(id, name());
}
