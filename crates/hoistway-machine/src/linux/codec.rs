//! Jobs and outcomes as texts: what the guest is told, and what it answers.
//!
//! Exact: what is read back is what was written, floating-point numbers and sums of 128 bits included. The text is
//! TOML, whose tables are ordered, so that equal things are equal texts.
//!
//! Of an [`Outcome`] goes over what the world `kernel` yields. Figures and gauges of our own stages, and a trace, no
//! kernel yields.

use crate::kernel::told_file;
use crate::words::{
    flag, host_of, int, lines, lines_of, list_of, nanos, number, parts, proc_of, proc_table,
    put_host, said, settings, settings_of, string, table_of, text_of, unsigned,
};
use hoistway::sched::SCHEDULERS;
use hoistway::{Instant, Nanos};
use hoistway_sim::drive::DriveFile;
use hoistway_sim::hist::Histogram;
use hoistway_sim::host::HostConfig;
use hoistway_sim::world::{
    ControlSpec, ControllerSpec, DeviceRecord, GroupSpec, Interval, Job, Mark, NamedFigure,
    Outcome, PhaseRecord, ProcRecord, ProcSpec, Role, SchedulerSpec, TraceMode, Window,
};
use toml::{Table, Value};

/// A job that was read.
#[derive(Debug)]
pub struct Told {
    drive: DriveFile,
    host: HostConfig,
    scheduler: SchedulerSpec,
    control: ControlSpec,
    groups: Vec<GroupSpec>,
    procs: Vec<ProcSpec>,
    window: Window,
    seed: u64,
}

impl Told {
    /// The drive.
    pub fn drive(&self) -> &DriveFile {
        &self.drive
    }

    /// The job. Its trace is off: no kernel keeps one.
    pub fn job(&self) -> Job<'_> {
        Job {
            drive: &self.drive,
            host: self.host.clone(),
            scheduler: self.scheduler.clone(),
            control: self.control.clone(),
            groups: self.groups.clone(),
            procs: self.procs.clone(),
            window: self.window,
            seed: self.seed,
            trace: TraceMode::Off,
        }
    }
}

/// A job as a text.
pub fn encode_job(job: &Job<'_>) -> String {
    let mut table = Table::new();
    put_host(&mut table, &job.host);
    let mut set = |name: &str, value: Value| drop(table.insert(name.into(), value));
    set("drive", job.drive.id.clone().into());
    set("drive_file", Value::Table(job.drive.table.clone()));
    set("scheduler", job.scheduler.entry.name.into());
    set("set", settings(&job.scheduler.set));
    set("queue", settings(&job.scheduler.queue));
    let controllers = job
        .control
        .controllers
        .iter()
        .map(|c| Value::Array(vec![c.name.clone().into(), settings(&c.set)]));
    set("controllers", Value::Array(controllers.collect()));
    set("root", lines(&job.control.root));
    if let Some(monitor) = job.control.monitor {
        set("monitor", int(monitor.0));
    }
    set("groups", Value::Array(job.groups.iter().map(group_table).collect()));
    set("procs", Value::Array(job.procs.iter().map(proc_table).collect()));
    let Window { ramp, measured, grace, target_interval, device_interval } = job.window;
    let times = [ramp, measured, grace, target_interval, device_interval];
    set("window", Value::Array(times.map(|t| int(t.0)).into()));
    set("seed", int(job.seed));
    table.to_string()
}

/// Reads a job; the error says what is wrong with the text.
pub fn decode_job(text: &str) -> Result<Told, String> {
    let table: Table = text.parse().map_err(said)?;
    let id = text_of(&table, "drive")?;
    let file = table_of(table.get("drive_file").ok_or("no drive_file")?)?;
    let drive = DriveFile::parse(&format!("{id}.toml"), &file.to_string()).map_err(said)?;
    let name = text_of(&table, "scheduler")?;
    let entry = SCHEDULERS.iter().copied().find(|entry| entry.name == name);
    let entry = entry.ok_or_else(|| format!("no scheduler {name}"))?;
    let controller = |value: &Value| {
        let [name, _] = parts(value)?;
        let pair = value.as_array().ok_or("no controller")?;
        let mut set = Table::new();
        set.insert("set".into(), pair[1].clone());
        Ok::<_, String>(ControllerSpec { name: string(name)?, set: settings_of(&set, "set")? })
    };
    let times = list_of(&table, "window")?.iter().map(unsigned).collect::<Result<Vec<_>, _>>()?;
    let [ramp, measured, grace, target_interval, device_interval] = times[..] else {
        return Err("a window has five times".into());
    };
    Ok(Told {
        drive,
        host: host_of(&table)?,
        scheduler: SchedulerSpec {
            entry,
            set: settings_of(&table, "set")?,
            queue: settings_of(&table, "queue")?,
        },
        control: ControlSpec {
            controllers: each(&table, "controllers", controller)?,
            root: lines_of(&table, "root")?,
            monitor: table.get("monitor").map(unsigned).transpose()?.map(Nanos),
        },
        groups: each(&table, "groups", group_of)?,
        procs: each(&table, "procs", proc_of)?,
        window: Window {
            ramp: Nanos(ramp),
            measured: Nanos(measured),
            grace: Nanos(grace),
            target_interval: Nanos(target_interval),
            device_interval: Nanos(device_interval),
        },
        seed: number(&table, "seed")?,
    })
}

fn each<T>(
    table: &Table,
    name: &str,
    read: impl Fn(&Value) -> Result<T, String>,
) -> Result<Vec<T>, String> {
    let read = list_of(table, name)?.iter().map(read).collect::<Result<Vec<T>, String>>();
    read.map_err(|e| format!("{name}: {e}"))
}

fn group_table(group: &GroupSpec) -> Value {
    let mut table = Table::new();
    table.insert("name".into(), group.name.clone().into());
    if let Some(parent) = group.parent {
        table.insert("parent".into(), int(parent as u64));
    }
    table.insert("set".into(), settings(&group.set));
    table.insert("write".into(), lines(&group.write));
    Value::Table(table)
}

fn group_of(value: &Value) -> Result<GroupSpec, String> {
    let table = table_of(value)?;
    Ok(GroupSpec {
        name: text_of(table, "name")?.into(),
        parent: table.get("parent").map(unsigned).transpose()?.map(|p| p as usize),
        set: settings_of(table, "set")?,
        write: lines_of(table, "write")?,
    })
}

/// An outcome as a text.
pub fn encode_outcome(outcome: &Outcome) -> String {
    let mut table = Table::new();
    let mut set = |name: &str, value: Value| drop(table.insert(name.into(), value));
    set("procs", Value::Array(outcome.procs.iter().map(record_table).collect()));
    set("device", device_table(&outcome.device));
    set("measured", int(outcome.measured.0));
    let mark = |m: &Mark| {
        let text = [m.process.clone().into(), m.text.clone().into()];
        Value::Array([int(m.at.0)].into_iter().chain(text).chain([int(m.moved)]).collect())
    };
    set("marks", Value::Array(outcome.marks.iter().map(mark).collect()));
    set("tunables", settings(&outcome.tunables));
    set("host_parameters", lines(&outcome.host_parameters));
    set("host_figures", Value::Array(outcome.host_figures.iter().map(figure_table).collect()));
    let file = |(group, file, text): &(String, &'static str, String)| {
        Value::Array([group.as_str(), file, text].map(Value::from).into())
    };
    set("files", Value::Array(outcome.files.iter().map(file).collect()));
    set("begin", int(outcome.begin.as_nanos()));
    set("end", int(outcome.end.as_nanos()));
    set("commands_total", int(outcome.commands_total));
    table.to_string()
}

/// Reads an outcome; the error says what is wrong with the text.
pub fn decode_outcome(text: &str) -> Result<Outcome, String> {
    let table: Table = text.parse().map_err(said)?;
    let mark = |value: &Value| {
        let [at, process, text, moved] = parts(value)?;
        let (process, text) = (string(process)?, string(text)?);
        Ok(Mark { at: Nanos(unsigned(at)?), process, text, moved: unsigned(moved)? })
    };
    let file = |value: &Value| {
        let [group, file, text] = parts(value)?;
        let file = string(file)?;
        let known = told_file(&file).ok_or_else(|| format!("no file {file}"))?;
        Ok((string(group)?, known, string(text)?))
    };
    Ok(Outcome {
        procs: each(&table, "procs", record_of)?,
        device: device_of(table.get("device").ok_or("no device")?)?,
        measured: nanos(&table, "measured")?,
        marks: each(&table, "marks", mark)?,
        made: Vec::new(),
        tunables: settings_of(&table, "tunables")?,
        host_parameters: lines_of(&table, "host_parameters")?,
        host_figures: each(&table, "host_figures", figure_of)?,
        scheduler_figures: Vec::new(),
        controller_figures: Vec::new(),
        controller_tunables: Vec::new(),
        files: each(&table, "files", file)?,
        targets: Vec::new(),
        monitor: Vec::new(),
        begin: Instant::from_nanos(number(&table, "begin")?),
        end: Instant::from_nanos(number(&table, "end")?),
        commands_total: number(&table, "commands_total")?,
        trace_digest: 0,
        trace: Vec::new(),
    })
}

fn figure_table(figure: &NamedFigure) -> Value {
    let mut table = Table::new();
    table.insert("name".into(), figure.name.clone().into());
    if let Some(of) = figure.of {
        table.insert("of".into(), int(of.into()));
    }
    table.insert("value".into(), Value::Integer(figure.value));
    Value::Table(table)
}

fn figure_of(value: &Value) -> Result<NamedFigure, String> {
    let table = table_of(value)?;
    let of = table.get("of").map(unsigned).transpose()?;
    Ok(NamedFigure {
        name: text_of(table, "name")?.into(),
        of: of.map(u32::try_from).transpose().map_err(said)?,
        value: table.get("value").and_then(Value::as_integer).ok_or("no value")?,
    })
}

fn record_table(record: &ProcRecord) -> Value {
    let mut table = Table::new();
    let mut set = |name: &str, value: Value| drop(table.insert(name.into(), value));
    set("name", record.name.clone().into());
    set("target", (record.role == Role::Target).into());
    set("latency", histogram_table(&record.latency));
    set("bytes", int(record.bytes));
    set("ios", int(record.ios));
    set("intervals", intervals_value(&record.intervals));
    if let Some(censored) = record.censored {
        set("censored", int(censored.0));
    }
    set("starved", int(record.starved.0));
    set("counts", settings(&record.counts));
    set("phases", Value::Array(record.phases.iter().map(phase_table).collect()));
    Value::Table(table)
}

fn record_of(value: &Value) -> Result<ProcRecord, String> {
    let table = table_of(value)?;
    Ok(ProcRecord {
        name: text_of(table, "name")?.into(),
        role: if flag(table, "target")? { Role::Target } else { Role::Interferer },
        latency: histogram_of(table.get("latency"))?,
        bytes: number(table, "bytes")?,
        ios: number(table, "ios")?,
        intervals: each(table, "intervals", interval_of)?,
        censored: table.get("censored").map(unsigned).transpose()?.map(Nanos),
        starved: nanos(table, "starved")?,
        counts: settings_of(table, "counts")?,
        phases: each(table, "phases", phase_of)?,
    })
}

fn phase_table(phase: &PhaseRecord) -> Value {
    let mut table = Table::new();
    let mut set = |name: &str, value: Value| drop(table.insert(name.into(), value));
    set("name", phase.name.clone().into());
    if let Some(begin) = phase.begin {
        set("begin", int(begin.0));
    }
    if let Some(end) = phase.end {
        set("end", int(end.0));
    }
    set("turns", int(phase.turns));
    set("spent", int(phase.spent.0));
    set("latency", histogram_table(&phase.latency));
    set("bytes", int(phase.bytes));
    set("ios", int(phase.ios));
    Value::Table(table)
}

fn phase_of(value: &Value) -> Result<PhaseRecord, String> {
    let table = table_of(value)?;
    let time = |name: &str| table.get(name).map(unsigned).transpose().map(|t| t.map(Nanos));
    Ok(PhaseRecord {
        name: text_of(table, "name")?.into(),
        begin: time("begin")?,
        end: time("end")?,
        turns: number(table, "turns")?,
        spent: nanos(table, "spent")?,
        latency: histogram_of(table.get("latency"))?,
        bytes: number(table, "bytes")?,
        ios: number(table, "ios")?,
    })
}

fn device_table(device: &DeviceRecord) -> Value {
    let mut table = Table::new();
    let mut set = |name: &str, value: Value| drop(table.insert(name.into(), value));
    set("read_bytes", int(device.read_bytes));
    set("written_bytes", int(device.written_bytes));
    set("commands", int(device.commands));
    set("flushes", int(device.flushes));
    set("sequential", int(device.sequential));
    set("merges", int(device.merges));
    set("utilisation", device.utilisation.into());
    set("depth", device.depth.into());
    set("intervals", intervals_value(&device.intervals));
    set("device_time", histogram_table(&device.device_time));
    Value::Table(table)
}

fn device_of(value: &Value) -> Result<DeviceRecord, String> {
    let table = table_of(value)?;
    let share = |name: &str| table.get(name).and_then(Value::as_float).ok_or(format!("no {name}"));
    Ok(DeviceRecord {
        read_bytes: number(table, "read_bytes")?,
        written_bytes: number(table, "written_bytes")?,
        commands: number(table, "commands")?,
        flushes: number(table, "flushes")?,
        sequential: number(table, "sequential")?,
        merges: number(table, "merges")?,
        utilisation: share("utilisation")?,
        depth: share("depth")?,
        intervals: each(table, "intervals", interval_of)?,
        device_time: histogram_of(table.get("device_time"))?,
    })
}

fn intervals_value(intervals: &[Interval]) -> Value {
    let one = |i: &Interval| Value::Array(vec![int(i.at.0), int(i.bytes), int(i.ios)]);
    Value::Array(intervals.iter().map(one).collect())
}

fn interval_of(value: &Value) -> Result<Interval, String> {
    let [at, bytes, ios] = parts(value)?;
    Ok(Interval { at: Nanos(unsigned(at)?), bytes: unsigned(bytes)?, ios: unsigned(ios)? })
}

/// Sums are texts: TOML's numbers have 64 bits.
fn histogram_table(h: &Histogram) -> Value {
    let mut table = Table::new();
    let slot = |(slot, n): (usize, u64)| Value::Array(vec![int(slot as u64), int(n)]);
    table.insert("slots".into(), Value::Array(h.slots().map(slot).collect()));
    table.insert("sum".into(), h.sum().to_string().into());
    table.insert("squares".into(), h.sum_sq().to_string().into());
    if let (Some(min), Some(max)) = (h.min(), h.max()) {
        table.insert("min".into(), int(min));
        table.insert("max".into(), int(max));
    }
    table.insert("overflow".into(), int(h.overflow()));
    Value::Table(table)
}

fn histogram_of(value: Option<&Value>) -> Result<Histogram, String> {
    let table = table_of(value.ok_or("no histogram")?)?;
    let slot = |value: &Value| {
        let [slot, n] = parts(value)?;
        Ok((unsigned(slot)? as usize, unsigned(n)?))
    };
    let slots = each(table, "slots", slot)?;
    if slots.is_empty() {
        return Ok(Histogram::new());
    }
    let sum = |name: &str| text_of(table, name)?.parse::<u128>().map_err(said);
    let (min, max) = (number(table, "min")?, number(table, "max")?);
    let read = Histogram::from_parts(
        &slots,
        sum("sum")?,
        sum("squares")?,
        min,
        max,
        number(table, "overflow")?,
    );
    read.ok_or_else(|| "a slot beyond the histogram".into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoistway::IoPrio;
    use hoistway_sim::rng::{Rng, stream};

    fn random_histogram(random: &mut Rng) -> Histogram {
        let mut h = Histogram::new();
        for _ in 0..random.below(200) {
            let bits = random.below(50);
            h.record_n(random.below(1 << bits), 1 + random.below(3));
        }
        h
    }

    fn random_intervals(random: &mut Rng) -> Vec<Interval> {
        let one = |random: &mut Rng, i| Interval {
            at: Nanos(i * 500_000_000),
            bytes: random.below(1 << 40),
            ios: random.below(1 << 20),
        };
        (0..random.below(5)).map(|i| one(random, i)).collect()
    }

    fn maybe(random: &mut Rng) -> Option<Nanos> {
        (random.below(2) == 0).then(|| Nanos(random.below(1 << 40)))
    }

    fn random_outcome(seed: u64) -> Outcome {
        let mut random = stream(seed, "outcome");
        let r = &mut random;
        let phase = |r: &mut Rng| PhaseRecord {
            name: "random \"read\"".into(),
            begin: maybe(r),
            end: maybe(r),
            turns: r.below(9),
            spent: Nanos(r.below(1 << 40)),
            latency: random_histogram(r),
            bytes: r.below(1 << 50),
            ios: r.below(1 << 30),
        };
        let proc = |r: &mut Rng, i: u64| ProcRecord {
            name: format!("reader{i}"),
            role: if i == 0 { Role::Target } else { Role::Interferer },
            latency: random_histogram(r),
            bytes: r.below(1 << 50),
            ios: r.below(1 << 30),
            intervals: random_intervals(r),
            censored: maybe(r),
            starved: Nanos(r.below(1 << 40)),
            counts: vec![("frames_dropped".into(), r.below(100))],
            phases: (0..r.below(3)).map(|_| phase(r)).collect(),
        };
        let procs = (0..r.below(4)).map(|i| proc(r, i)).collect();
        let device = DeviceRecord {
            read_bytes: u64::MAX - r.below(2),
            written_bytes: r.below(1 << 50),
            commands: r.below(1 << 30),
            flushes: r.below(1 << 30),
            sequential: r.below(1 << 30),
            merges: r.below(1 << 30),
            utilisation: r.unit(),
            depth: r.unit() * 32.0,
            intervals: random_intervals(r),
            device_time: random_histogram(r),
        };
        let mark = Mark {
            at: Nanos(r.below(1 << 40)),
            process: "target".into(),
            text: "unfinished after 5ns".into(),
            moved: r.below(1 << 50),
        };
        Outcome {
            procs,
            device,
            measured: Nanos(r.below(1 << 40)),
            marks: vec![mark; r.below(3) as usize],
            made: Vec::new(),
            tunables: vec![("slice_idle".into(), 8), ("fifo_batch".into(), r.below(100))],
            host_parameters: vec![("nr_requests".into(), "64 \\ 'x'".into())],
            host_figures: vec![
                NamedFigure { name: "a_ns".into(), of: None, value: -5 },
                NamedFigure { name: "b".into(), of: Some(7), value: i64::MAX },
            ],
            scheduler_figures: Vec::new(),
            controller_figures: Vec::new(),
            controller_tunables: Vec::new(),
            files: vec![("/a/b".into(), "io.stat", "8:0 rbytes=1\n".into()); r.below(3) as usize],
            targets: Vec::new(),
            monitor: Vec::new(),
            begin: Instant::from_nanos(r.below(1 << 40)),
            end: Instant::from_nanos(r.below(1 << 40)),
            commands_total: r.below(1 << 40),
            trace_digest: 0,
            trace: Vec::new(),
        }
    }

    #[test]
    fn random_outcomes_are_read_back_exactly() {
        for seed in 0..200 {
            let outcome = random_outcome(seed);
            let text = encode_outcome(&outcome);
            let mut read = decode_outcome(&text).unwrap();
            assert!(encode_outcome(&read) == text, "seed {seed}");
            // Equal histograms may have been filled in another order.
            assert!(read.device.device_time == outcome.device.device_time, "seed {seed}");
            read.device.device_time = outcome.device.device_time.clone();
            for (read, proc) in read.procs.iter_mut().zip(&outcome.procs) {
                assert!(read.latency == proc.latency, "seed {seed}");
                read.latency = proc.latency.clone();
                for (read, phase) in read.phases.iter_mut().zip(&proc.phases) {
                    assert!(read.latency == phase.latency, "seed {seed}");
                    read.latency = phase.latency.clone();
                }
            }
            assert!(format!("{read:?}") == format!("{outcome:?}"), "seed {seed}");
        }
        assert!(decode_outcome("measured = 1").unwrap_err().contains("procs"));
        let text = encode_outcome(&random_outcome(1));
        assert!(decode_outcome(&text[..text.len() / 2]).is_err(), "half a text is none");
    }

    fn random_job<'a>(drive: &'a DriveFile, seed: u64) -> Job<'a> {
        let mut random = stream(seed, "job");
        let r = &mut random;
        let profiles: Vec<&str> = HostConfig::profiles().collect();
        let mut host = HostConfig::profile(r.one_of(&profiles)).unwrap();
        host.set("layout_gap_kib", &int(r.below(5000))).unwrap();
        let set =
            |r: &mut Rng| (0..r.below(3)).map(|i| (format!("t{i}"), r.below(1 << 40))).collect();
        let write = |r: &mut Rng| -> Vec<(String, String)> {
            (0..r.below(3)).map(|i| ("io.max".into(), format!("8:0 rbps={i}\n"))).collect()
        };
        let group = |r: &mut Rng, i: u64| GroupSpec {
            name: format!("g{i}"),
            parent: (i > 0 && r.below(2) == 0).then_some(0),
            set: set(r),
            write: write(r),
        };
        let prios = [IoPrio::NONE, IoPrio::rt(4), IoPrio::be(7), IoPrio::idle()];
        let proc = |r: &mut Rng, i: u64| ProcSpec {
            name: format!("p{i}"),
            role: if i == 0 { Role::Target } else { Role::Interferer },
            group: (r.below(2) == 0).then_some(0),
            prio: r.one_of(&prios),
            start: Nanos(r.below(1 << 40)),
            load: "reader".into(),
            params: format!("bs = \"4k\"\nshare = {}", r.unit()).parse().unwrap(),
        };
        Job {
            drive,
            host,
            scheduler: SchedulerSpec { entry: r.one_of(SCHEDULERS), set: set(r), queue: set(r) },
            control: ControlSpec {
                controllers: vec![ControllerSpec { name: "wbt".into(), set: set(r) }],
                root: write(r),
                monitor: maybe(r),
            },
            groups: (0..r.below(3)).map(|i| group(r, i)).collect(),
            procs: (0..r.below(4)).map(|i| proc(r, i)).collect(),
            window: Window {
                ramp: Nanos(r.below(1 << 40)),
                measured: Nanos(r.below(1 << 40)),
                grace: Nanos(r.below(1 << 40)),
                target_interval: Nanos(1 + r.below(1 << 40)),
                device_interval: Nanos(1 + r.below(1 << 40)),
            },
            seed: r.below(1 << 62),
            trace: TraceMode::Off,
        }
    }

    #[test]
    fn random_jobs_on_every_drive_are_read_back_exactly() {
        for (seed, id) in DriveFile::ids().into_iter().enumerate() {
            let drive = DriveFile::load(id).unwrap();
            let job = random_job(&drive, seed as u64);
            let text = encode_job(&job);
            let told = decode_job(&text).unwrap();
            assert!(format!("{:?}", told.job()) == format!("{job:?}"), "{id}");
            assert!(encode_job(&told.job()) == text, "{id}");
        }
        assert!(decode_job("seed = 1").is_err());
    }
}
