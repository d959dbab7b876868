//! `hoistway record`: a block trace of this machine, through the kernel's tracepoints.
//!
//! A tracefs *instance* is made: a buffer and event switches of our own, so that nothing of the machine's other tracing
//! is touched and nothing has to be put back: the instance is removed at the end, also after Ctrl-C or an error. Where
//! tracefs is not mounted, it is mounted for this process alone, without a place in the tree of files.
//!
//! Recorded are `block_bio_queue` (arrivals) and `block_rq_complete`, read as text from `trace_pipe`, so times are exact to
//! the microsecond, and written as blktrace's binary format. Plugs are not recorded: their events name no device.
//! blktrace itself would give nanoseconds and plugs, but its files in debugfs are closed to containers and locked-down
//! kernels, where this works.

use crate::common::output::{self, print};
use crate::common::trace_args::failure;
use crate::failure::Failure;
use clap::Args as ClapArgs;
use hoistway::{Instant, Nanos, quantity};
use hoistway_files::{Kind as Ours, Output};
use hoistway_serve::Clock;
use hoistway_trace::{Format, Kind, Options, Reader, Record as Request, write};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};
use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// `hoistway record`.
#[derive(Debug, ClapArgs)]
pub struct Record {
    /// Block device to record, such as /dev/sda; may be repeated
    #[arg(long, value_name = "DEVICE", required_unless_present = "all")]
    pub device: Vec<PathBuf>,
    /// Record all block devices
    #[arg(long, conflicts_with = "device")]
    pub all: bool,
    /// How long to record; Ctrl-C ends it earlier
    #[arg(long, value_name = "TIME", default_value = "30s")]
    pub duration: String,
    /// File to write, in blktrace's binary format; compressed if its name ends in .gz. An existing file is replaced only
    /// if hoistway recorded it
    #[arg(long, short, alias = "output", value_name = "FILE")]
    pub out: PathBuf,
    /// Buffer of the kernel for each CPU
    #[arg(long, value_name = "SIZE", default_value = "8MiB", hide_short_help = true)]
    pub buffer: String,
    /// Print nothing but warnings and errors
    #[arg(long, short)]
    pub quiet: bool,
}

static STOP: AtomicBool = AtomicBool::new(false);

/// A day.
const LONGEST: Nanos = Nanos(86_400 * 1_000_000_000);
/// Longest wait before Ctrl-C is noticed, in ns.
const SLICE: u64 = 100_000_000;
const EVENTS: [&str; 2] = ["block_bio_queue", "block_rq_complete"];

pub fn record(options: &Record) -> Result<(), Failure> {
    let usage = |what: &str, text: &str, e: &dyn std::fmt::Display| {
        Failure::Usage(format!("--{what} {text}: {e}"))
    };
    let duration = quantity::duration(&options.duration)
        .map_err(|e| usage("duration", &options.duration, &e))?;
    if duration.0 == 0 || duration > LONGEST {
        return Err(usage("duration", &options.duration, &"from 1ns to 24h"));
    }
    let buffer =
        quantity::bytes(&options.buffer).map_err(|e| usage("buffer", &options.buffer, &e))?;
    if !(64 << 10..=1 << 30).contains(&buffer) {
        return Err(usage("buffer", &options.buffer, &"from 64KiB to 1GiB"));
    }
    let devices: Vec<u64> = options.device.iter().map(|d| number(d)).collect::<Result<_, _>>()?;
    ctrlc::set_handler(|| STOP.store(true, Ordering::Relaxed))
        .map_err(|e| Failure::Failed(format!("Ctrl-C cannot be caught: {e}")))?;
    // Made before anything of the kernel is touched: a file that cannot be written is found out first.
    let refused = |e| output::failure("--out", e);
    let mut file = Output::begin(&options.out, Ours::Marked).map_err(refused)?;
    let instance = TraceInstance::new(&devices, buffer)?;
    if !options.quiet {
        eprintln!("recording for {}; Ctrl-C ends it earlier", options.duration);
    }
    let pipe = instance.pipe(duration)?;
    let gz = options.out.extension().is_some_and(|e| e == "gz");
    let out: Box<dyn Write + '_> = match gz {
        true => {
            let mark = flate2::GzBuilder::new().comment(RECORDED);
            Box::new(mark.write(&mut file, flate2::Compression::default()))
        }
        false => Box::new(&mut file),
    };
    let counts = copy(pipe, BufWriter::new(out)).map_err(|e| with_path(&options.out, e))?;
    for (what, n) in instance.lost() {
        eprintln!("warning: {n} events {what}; record fewer devices or with a larger --buffer");
    }
    drop(instance);
    file.finish().map_err(refused)?;
    if counts.arrivals == 0 {
        eprintln!("warning: no request was seen; partitions are recorded by their whole disk");
    }
    let path = options.out.display();
    print(&format!(
        "{}: {} requests, {} completions\nnext: hoistway describe {path}\n",
        path, counts.arrivals, counts.completions
    ))
}

fn with_path(path: &Path, e: Failure) -> Failure {
    match e {
        Failure::Failed(what) => Failure::Failed(format!("{}: {what}", path.display())),
        other => other,
    }
}

/// What tells a recording of ours from other traces: its first event, or the comment of a compressed one.
const RECORDED: &str = "Made by hoistway record";

#[derive(Debug, Default)]
struct Counts {
    arrivals: u64,
    completions: u64,
}

/// The kernel's lines as blktrace's events.
fn copy(pipe: Pipe, out: impl Write) -> Result<Counts, Failure> {
    let format = Format::named("perf");
    let options = Options { format, completions: true, ..Options::default() };
    let failed = |e: io::Error| Failure::Failed(e.to_string());
    let mut reader = Reader::from_read("trace_pipe", Box::new(pipe), &options).map_err(failure)?;
    let mut writer = write::Blktrace::new(out);
    let (mut counts, mut request) = (Counts::default(), Request::default());
    while reader.read(&mut request).map_err(failure)? {
        if counts.arrivals + counts.completions == 0 {
            writer.message(request.time, RECORDED).map_err(failed)?;
        }
        match request.kind {
            Kind::Arrival => counts.arrivals += 1,
            _ => counts.completions += 1,
        }
        writer.record(&request, reader.names()).map_err(failed)?;
    }
    if let Some(first) = reader.first_malformed() {
        eprintln!(
            "warning: {} lines of the kernel were not understood: {first}",
            reader.malformed()
        );
    }
    if counts.arrivals + counts.completions == 0 {
        writer.message(0, RECORDED).map_err(failed)?;
    }
    writer.finish().map_err(failed)?.flush().map_err(failed)?;
    Ok(counts)
}

/// The number by which the kernel's filters know a whole disk.
fn number(device: &Path) -> Result<u64, Failure> {
    let shown = device.display();
    let meta = fs::metadata(device).map_err(|e| Failure::Usage(format!("{shown}: {e}")))?;
    if !meta.file_type().is_block_device() {
        return Err(Failure::Usage(format!("{shown}: is no block device")));
    }
    let dev = meta.rdev();
    let major = ((dev >> 8) & 0xfff) | ((dev >> 32) & 0xffff_f000);
    let minor = (dev & 0xff) | ((dev >> 12) & 0xffff_ff00);
    let sys = PathBuf::from(format!("/sys/dev/block/{major}:{minor}"));
    if sys.join("partition").exists() {
        let disk = fs::canonicalize(&sys).ok();
        let disk = disk.as_deref().and_then(Path::parent).and_then(Path::file_name);
        let disk = disk.map_or("the disk".into(), |d| format!("/dev/{}", d.to_string_lossy()));
        return Err(Failure::Usage(format!(
            "{shown}: is a partition; record {disk} and read it with `--offsets`"
        )));
    }
    Ok((major << 20) | minor)
}

/// A buffer and switches of tracefs of our own.
struct TraceInstance {
    folder: PathBuf,
    /// Tracefs, where it was mounted for this alone: `folder` leads through it.
    _mounted: Option<OwnedFd>,
}

impl TraceInstance {
    fn new(devices: &[u64], buffer: u64) -> Result<TraceInstance, Failure> {
        let (root, mounted) = tracefs()?;
        let folder = root.join("instances").join(format!("hoistway-{}", std::process::id()));
        fs::create_dir(&folder).map_err(|e| denied(&folder, &e))?;
        // From here on what was done is undone by dropping this.
        let instance = TraceInstance { folder, _mounted: mounted };
        instance.set("tracing_on", "0")?;
        instance.set("trace_clock", "mono")?;
        instance.set("buffer_size_kb", &(buffer >> 10).to_string())?;
        for event in EVENTS {
            let folder = format!("events/block/{event}");
            if !devices.is_empty() {
                let any: Vec<String> = devices.iter().map(|d| format!("dev == {d}")).collect();
                instance.set(&format!("{folder}/filter"), &any.join(" || "))?;
            }
            instance.set(&format!("{folder}/enable"), "1")?;
        }
        instance.set("tracing_on", "1")?;
        Ok(instance)
    }

    fn set(&self, file: &str, value: &str) -> Result<(), Failure> {
        let path = self.folder.join(file);
        fs::write(&path, value).map_err(|e| denied(&path, &e))
    }

    fn pipe(&self, duration: Nanos) -> Result<Pipe, Failure> {
        let path = self.folder.join("trace_pipe");
        let nonblock = rustix::fs::OFlags::NONBLOCK.bits() as i32;
        let file = fs::OpenOptions::new().read(true).custom_flags(nonblock).open(&path);
        let file = file.map_err(|e| denied(&path, &e))?;
        let clock = Clock::new();
        Ok(Pipe {
            file,
            switch: self.folder.join("tracing_on"),
            until: clock.now() + duration,
            clock,
            draining: false,
        })
    }

    /// What the kernel could not keep, summed over the CPUs.
    fn lost(&self) -> Vec<(&'static str, u64)> {
        let cpus = fs::read_dir(self.folder.join("per_cpu")).into_iter().flatten().flatten();
        let stats: Vec<String> =
            cpus.filter_map(|cpu| fs::read_to_string(cpu.path().join("stats")).ok()).collect();
        let sum = |name: &str| -> u64 {
            let lines = stats.iter().flat_map(|s| s.lines());
            let values = lines.filter_map(|l| l.strip_prefix(name)?.strip_prefix(": "));
            values.filter_map(|v| v.trim().parse::<u64>().ok()).sum()
        };
        let all = [
            ("were overwritten before they were read", sum("overrun")),
            ("were dropped", sum("dropped events")),
        ];
        all.into_iter().filter(|(_, n)| *n > 0).collect()
    }
}

impl Drop for TraceInstance {
    fn drop(&mut self) {
        // Removing an instance switches its events off and frees its buffer.
        if self.folder.exists()
            && let Err(e) = fs::remove_dir(&self.folder)
        {
            eprintln!("warning: {}: {e}; remove it with rmdir", self.folder.display());
        }
    }
}

fn denied(path: &Path, e: &io::Error) -> Failure {
    let path = path.display();
    Failure::Environment(format!(
        "{path}: {e}; recording needs root and a kernel that allows tracing (not locked down, not an unprivileged \
         container)"
    ))
}

/// Where tracefs is, mounted for us if need be.
fn tracefs() -> Result<(PathBuf, Option<OwnedFd>), Failure> {
    for known in ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"] {
        let known = PathBuf::from(known);
        if known.join("instances").is_dir() {
            return Ok((known, None));
        }
    }
    let mounted = fsopen("tracefs", FsOpenFlags::FSOPEN_CLOEXEC).and_then(|context| {
        fsconfig_create(&context)?;
        fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())
    });
    let mounted = mounted.map_err(|e| {
        Failure::Environment(format!(
            "tracefs cannot be mounted ({e}); recording needs root, a kernel with CONFIG_TRACING and, in a \
             container, the right to mount; or ask for `mount -t tracefs tracefs /sys/kernel/tracing`"
        ))
    })?;
    let root = format!("/proc/self/fd/{}", mounted.as_raw_fd()).into();
    Ok((root, Some(mounted)))
}

/// `trace_pipe` until the time is over or Ctrl-C; then what is left in it.
struct Pipe {
    file: File,
    switch: PathBuf,
    clock: Clock,
    until: Instant,
    draining: bool,
}

impl Read for Pipe {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.file.read(buffer) {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Ok(0) if !self.draining => {}
                other => return other,
            }
            if self.draining {
                return Ok(0);
            }
            let now = self.clock.now();
            if now >= self.until || STOP.load(Ordering::Relaxed) {
                // No new events from here on; one more look takes what is there.
                fs::write(&self.switch, "0")?;
                self.draining = true;
                continue;
            }
            let rest = self.until.since(now).0.min(SLICE);
            let limit = Timespec { tv_sec: 0, tv_nsec: rest as i64 };
            // Whether there is something or the time is over is seen above.
            let _ = poll(&mut [PollFd::new(&self.file, PollFlags::IN)], Some(&limit));
        }
    }
}
