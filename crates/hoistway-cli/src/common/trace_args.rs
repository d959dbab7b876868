//! Options of the commands that read block traces.

use crate::failure::Failure;
use clap::Args as ClapArgs;
use hoistway::quantity;
use hoistway_trace::{FORMATS, Format, Options, Reader};

fn formats() -> clap::builder::PossibleValuesParser {
    FORMATS.iter().map(|f| f.name).collect::<Vec<_>>().into()
}

/// Which records of a trace are read, and how.
#[derive(Clone, Debug, Default, ClapArgs)]
pub struct TraceArgs {
    /// Format of the trace [default: found from its content]
    #[arg(long, value_name = "FORMAT", value_parser = formats())]
    pub format: Option<String>,
    /// Only requests of this device, as the trace names it; may be repeated
    #[arg(long, value_name = "NAME")]
    pub device: Vec<String>,
    /// Only records from this time after the trace's first, such as 90s or 2h
    #[arg(long, value_name = "TIME")]
    pub from: Option<String>,
    /// Only records before this time
    #[arg(long, value_name = "TIME")]
    pub to: Option<String>,
    /// Only requests that begin within this range of the device, such as 0-64GiB
    #[arg(long, value_name = "FROM-TO")]
    pub offsets: Option<String>,
    /// End after this many requests
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub limit: Option<u64>,
    /// Records held back to bring them into order of time [default: as the format needs]
    #[arg(long, value_name = "N", hide_short_help = true)]
    #[arg(value_parser = clap::value_parser!(u32).range(0..=1 << 20))]
    pub window: Option<u32>,
    /// Stop at the first record that cannot be parsed, instead of counting it
    #[arg(long)]
    pub strict: bool,
}

impl TraceArgs {
    /// The options of the reader.
    pub fn options(&self) -> Result<Options, Failure> {
        let time = |name: &str, text: &Option<String>| match text {
            None => Ok(None),
            Some(text) => quantity::duration(text)
                .map(|t| Some(t.0))
                .map_err(|e| Failure::Usage(format!("--{name} {text}: {e}"))),
        };
        let (offset_from, offset_to) = match &self.offsets {
            None => (0, None),
            Some(text) => offsets(text)?,
        };
        Ok(Options {
            format: self.format.as_deref().and_then(Format::named),
            strict: self.strict,
            window: self.window.map(|w| w as usize),
            devices: self.device.clone(),
            from: time("from", &self.from)?.unwrap_or(0),
            to: time("to", &self.to)?,
            offset_from,
            offset_to,
            limit: self.limit,
            ..Options::default()
        })
    }
}

fn offsets(text: &str) -> Result<(u64, Option<u64>), Failure> {
    let wrong = |why: String| Failure::Usage(format!("--offsets {text}: {why}"));
    let Some((from, to)) = text.split_once('-') else {
        return Err(wrong("two offsets with a minus between, such as 0-64GiB".into()));
    };
    let bytes = |part: &str| quantity::bytes(part).map_err(|e| wrong(e.to_string()));
    let to = if to.is_empty() { None } else { Some(bytes(to)?) };
    Ok((bytes(from)?, to))
}

/// How an error of reading a trace ends the program: bad input is wrong usage, whatever is wrong with it.
pub fn failure(error: hoistway_trace::Error) -> Failure {
    Failure::Usage(error.to_string())
}

/// Lines about what could not be used of a trace, for stderr.
pub fn warnings(reader: &Reader) -> Vec<String> {
    let mut out = Vec::new();
    let count = |n: u64, one: &str, many: &str| match n {
        1 => format!("1 {one}"),
        n => format!("{n} {many}"),
    };
    if let Some(first) = reader.first_malformed() {
        let n = reader.malformed();
        let n = match first.line {
            Some(_) => count(n, "line was left out", "lines were left out"),
            None => count(n, "record was left out", "records were left out"),
        };
        out.push(format!("{n}; the first: {first}"));
    }
    if reader.recordings() > 0 {
        let n = count(reader.recordings(), "recording follows", "recordings follow");
        out.push(format!(
            "{n} the first in the same file, with times from 0; each was put behind the one before"
        ));
    }
    if reader.late() > 0 {
        let n = reader.late();
        out.push(format!(
            "{n} records were out of order by more than the window and were moved; try --window 100000"
        ));
    }
    // Where no time is known, that is said in place of them.
    if reader.untimed() > 0 && reader.times_known() {
        let n = count(
            reader.untimed(),
            "request has no time of its own",
            "requests have no time of their own",
        );
        out.push(format!("{n}, and the one of the request before"));
    }
    out
}
