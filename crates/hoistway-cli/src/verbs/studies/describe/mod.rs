//! `hoistway describe`: what a recorded load is made of.

mod html;
mod json;
mod text;

use crate::common::output::{self, print};
use crate::common::trace_args::{TraceArgs, failure, warnings};
use crate::failure::Failure;
use clap::Args as ClapArgs;
use hoistway_files::Kind;
use hoistway_trace::describe::{Description, Party};
use hoistway_trace::{Format, Names, Reader, Table};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

/// `hoistway describe`.
#[derive(Debug, ClapArgs)]
pub struct Describe {
    /// Block trace: a file (plain, .gz, .zst), the NAME of NAME.blktrace.0, .1, ..., or - for standard input
    pub trace: PathBuf,
    #[command(flatten)]
    pub read: TraceArgs,
    /// Processes, devices and hot spots to list
    #[arg(long, value_name = "N", default_value_t = 10)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub top: u16,
    /// Also write a page with charts; an existing file is replaced only if hoistway made it
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Show no progress
    #[arg(long, short)]
    pub quiet: bool,
}

/// What is printed, in whatever form.
struct Described<'a> {
    trace: String,
    format: &'static Format,
    names: &'a Names,
    malformed: u64,
    late: u64,
    /// The times are those of the recording.
    timed: bool,
    top: usize,
    load: &'a Description,
}

static STOP: AtomicBool = AtomicBool::new(false);

pub fn describe(options: &Describe) -> Result<(), Failure> {
    output::check("--html", options.html.as_deref(), Kind::Marked)?;
    let mut read = options.read.options()?;
    read.completions = true;
    let mut reader = Reader::open(&options.trace, &read).map_err(failure)?;
    let format = reader.format().expect("a file has a format");
    ctrlc::set_handler(|| STOP.store(true, Ordering::Relaxed))
        .map_err(|e| Failure::Failed(format!("Ctrl-C cannot be caught: {e}")))?;
    let bar = progress(options.quiet);
    let result = Description::of(&mut reader, |reader| {
        let (done, size) = reader.progress();
        bar.set_length(size.unwrap_or(0));
        bar.set_position(done);
        !STOP.load(Ordering::Relaxed)
    });
    bar.finish_and_clear();
    let load = result.map_err(failure)?;
    warnings(&reader).iter().for_each(|w| eprintln!("warning: {w}"));
    if load.requests() == 0 {
        let trace = options.trace.display();
        let format = format.name;
        return Err(Failure::Usage(match reader.understood() {
            0 => format!("{trace}: the trace has no records (format {format})"),
            n => {
                format!("{trace}: no request passes the filters, of {n} records (format {format})")
            }
        }));
    }
    let described = Described {
        trace: options.trace.display().to_string(),
        format,
        names: reader.names(),
        malformed: reader.malformed(),
        late: reader.late(),
        timed: reader.times_known(),
        top: options.top.into(),
        load: &load,
    };
    if let Some(path) = &options.html {
        let page = hoistway_lab::report::load::page(&html::page(&described));
        output::write("--html", path, &page, Kind::Marked)?;
    }
    print(&if options.json { json::json(&described) } else { text::text(&described) })?;
    if STOP.load(Ordering::Relaxed) {
        return Err(Failure::Interrupted("what is printed covers the trace up to here".into()));
    }
    Ok(())
}

fn progress(quiet: bool) -> indicatif::ProgressBar {
    if quiet {
        return indicatif::ProgressBar::hidden();
    }
    let bar = indicatif::ProgressBar::new(0);
    let style =
        indicatif::ProgressStyle::with_template("{wide_bar} {bytes} of {total_bytes} {eta}");
    bar.with_style(style.expect("the template is fixed"))
}

impl Described<'_> {
    /// The requests and their time, as far as it is known.
    fn how_many(&self) -> String {
        let (n, span) = (self.load.requests(), self.load.span());
        if !self.timed {
            return format!("requests in all: {n}, times unknown");
        }
        if !self.has_rate() {
            return format!("requests in all: {n}");
        }
        let rate = short(n as f64 * 1e9 / span as f64);
        format!("{n} requests in {}, {rate} per second on average", time(span))
    }

    /// Something can be said per second: there are times, and some pass.
    fn has_rate(&self) -> bool {
        self.timed && self.load.span() > 0
    }

    /// The parties with the most requests: name and counts, and how many more there are.
    fn most<'a>(&self, all: &'a [Party], table: &'a Table) -> (Vec<(&'a str, &'a Party)>, usize) {
        let mut rows: Vec<_> = (0_u32..)
            .zip(all)
            .filter(|(_, p)| p.requests() > 0)
            .map(|(id, p)| (table.name(id), p))
            .collect();
        rows.sort_by_key(|(_, p)| std::cmp::Reverse(p.requests()));
        let more = rows.len().saturating_sub(self.top);
        rows.truncate(self.top);
        (rows, more)
    }

    /// Commands that go on from here.
    fn next(&self) -> Vec<String> {
        let quoted = if self.trace.contains(char::is_whitespace) {
            format!("'{}'", self.trace)
        } else {
            self.trace.clone()
        };
        let (processes, _) = self.most(&self.load.processes, &self.names.processes);
        let (devices, _) = self.most(&self.load.devices, &self.names.devices);
        let mut out = vec![format!("hoistway replay {quoted} -c none,mq-deadline,bfq")];
        if processes.len() > 1 {
            out.push(format!(
                "hoistway replay {quoted} --split-by process --target '{}'",
                processes[0].0
            ));
        } else if devices.len() > 1 {
            out.push(format!(
                "hoistway replay {quoted} --split-by lun --target '{}'",
                devices[0].0
            ));
        }
        if devices.len() > 1 {
            out.push(format!("hoistway describe {quoted} --device '{}'", devices[0].0));
        }
        out
    }
}

/// A length of time with its unit.
fn time(ns: u64) -> String {
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{} us", short(ns as f64 / 1e3)),
        1_000_000..1_000_000_000 => format!("{} ms", short(ns as f64 / 1e6)),
        1_000_000_000..120_000_000_000 => format!("{} s", short(ns as f64 / 1e9)),
        120_000_000_000..7_200_000_000_000 => format!("{} min", short(ns as f64 / 60e9)),
        _ => format!("{} h", short(ns as f64 / 3600e9)),
    }
}

/// Bytes in powers of 1024.
fn bytes(n: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let power = (0..6).find(|p| n < 1024 << (10 * p)).unwrap_or(6);
    format!("{} {}", short(n as f64 / (1_u64 << (10 * power)) as f64), units[power])
}

/// Three significant digits.
fn short(v: f64) -> String {
    let decimals = match v.abs() {
        a if a >= 99.95 || a == a.trunc() => 0,
        a if a >= 9.995 => 1,
        _ => 2,
    };
    format!("{v:.decimals$}")
}

fn percent(part: u64, whole: u64) -> String {
    if whole == 0 { "-".into() } else { format!("{} %", short(100.0 * part as f64 / whole as f64)) }
}

/// Sizes by powers of two from 512 bytes, both ends open: (label, reads, writes).
fn size_rows(load: &Description) -> Vec<(String, u64, u64)> {
    let mut rows = std::collections::BTreeMap::new();
    for (n, sizes) in load.sizes.iter().enumerate() {
        for (low, count) in sizes.powers_of_two() {
            let low = low.clamp(512, 16 << 20);
            let row: &mut [u64; 2] = rows.entry(low).or_default();
            row[n] += count;
        }
    }
    rows.into_iter().map(|(low, [r, w])| (format!("from {}", bytes(low)), r, w)).collect()
}
