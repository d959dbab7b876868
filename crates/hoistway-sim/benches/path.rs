//! Simulated commands per second on the whole path: loads, host, stack, drive. The processes of
//! `latency-2019`, with sequential readers, writers that sync or do not, and an application that starts.
//!
//! `cargo bench --bench path` measures medians of the wall clock; words choose among the rows
//! (`-- samsung none`). `-- --instructions` counts instructions per command instead, which a busy machine
//! does not change: each row runs twice under valgrind, and the difference of the two lengths leaves out
//! what setting a run up costs. `-- --check` compares the counts of an eighth of each row with `benches/instructions.txt`,
//! `-- --record` writes them there.
//!
//! `-- --growth N...` says for so many processes what a command costs in processor time, and what a process takes in
//! memory, for readers in sequence and at random, and for writers that sync.

#[path = "support/gate.rs"]
mod gate;

use gate::Gated;
use hoistway::{IoPrio, Nanos, sched};
use hoistway_run::{ControlSpec, Outcome, ProcSpec, Role, SchedulerSpec, TraceMode, Window};
use hoistway_sim::drive::DriveFile;
use hoistway_sim::host::HostConfig;
use hoistway_sim::world::{Job, run};
use std::borrow::Cow;

/// One row: a drive, a scheduler, and what runs beside the random reader.
struct Row {
    drive: &'static str,
    scheduler: &'static str,
    load: &'static str,
    params: &'static str,
    seconds: u64,
    /// What must be true of a run for the row to measure what it says.
    premise: fn(&Outcome) -> bool,
}

const SSD: &str = "samsung-970-pro";
const SATA: &str = "plextor-px-256m5s";
const DISK: &str = "hitachi-hts727550a9e364";

/// Commands are windows of 256 KiB.
fn reads_windows(o: &Outcome) -> bool {
    o.device.written_bytes == 0 && o.device.read_bytes / o.device.commands > 150 << 10
}

/// The real-time reader comes first: its small reads are most of the commands.
fn reads(o: &Outcome) -> bool {
    let target = &o.procs[0];
    o.device.written_bytes == 0 && target.ios * 2 > o.device.commands
}

/// Small commands, most of them written, and flushes where files are synced.
fn syncs(o: &Outcome) -> bool {
    o.device.flushes > 0 && o.device.written_bytes > 0
}

/// Memory takes it up, the flushers write it.
fn writes_back(o: &Outcome) -> bool {
    o.device.flushes == 0 && o.device.written_bytes > o.device.read_bytes
}

/// An application has started again and again.
fn starts(o: &Outcome) -> bool {
    o.marks.iter().filter(|m| m.text == "done").count() >= 2
}

const ROWS: &[Row] = &[
    row(SSD, "none", "reader", "", 4, reads_windows),
    row(SATA, "none", "reader", "", 20, reads_windows),
    row(DISK, "none", "reader", "", 60, reads_windows),
    row(SSD, "bfq", "reader", "", 4, reads),
    row(DISK, "bfq", "reader", "", 60, reads),
    row(SSD, "none", "writer", "dsync = 1", 4, syncs),
    row(SATA, "none", "writer", "dsync = 1", 20, syncs),
    row(DISK, "none", "writer", "dsync = 1", 240, syncs),
    row(SSD, "bfq", "writer", "dsync = 1", 4, syncs),
    row(SSD, "none", "writer", "dsync = 0", 8, writes_back),
    row(SATA, "none", "writer", "dsync = 0", 40, writes_back),
    row(DISK, "none", "writer", "dsync = 0", 120, writes_back),
    row(SSD, "none", "app_start", STARTS, 5, starts),
];

/// Loads that grow, on the NVMe drive: what its processes are called, and their parameters.
const GROWING: &[(&str, &str, &str)] = &[
    ("sequential", "reader", "size = \"2m\""),
    ("random", "reader", "pattern = \"rand\"\nsize = \"2m\""),
    ("fdatasync", "writer", "dsync = 1\nsize = \"2m\""),
];

/// Parts of a row.
const WHOLE: u64 = 32;

const STARTS: &str =
    "profile = \"gnome-terminal\"\nform = \"synthetic\"\nstarts = 1000\npause = \"100ms\"";

const fn row(
    drive: &'static str,
    scheduler: &'static str,
    load: &'static str,
    params: &'static str,
    seconds: u64,
    premise: fn(&Outcome) -> bool,
) -> Row {
    Row { drive, scheduler, load, params, seconds, premise }
}

impl Row {
    fn name(&self) -> String {
        let params = if self.load == "writer" { self.params } else { "" };
        format!("{} {} {} {params}", self.drive, self.scheduler, self.load)
    }

    fn procs(&self, others: u64) -> Vec<ProcSpec> {
        let spec = |i: u64, role, load: &str, params: &str, prio| ProcSpec {
            name: if i == 0 { "target".into() } else { format!("{load}{i}") },
            role,
            group: None,
            prio,
            start: if i == 0 { Nanos::ms(200) } else { Nanos::us(3) * ((i - 1) % 50_000) },
            load: load.into(),
            params: params.parse().expect("the text above is valid"),
        };
        let mut all = vec![spec(0, Role::Target, "reader", "pattern = \"rand\"", IoPrio::rt(4))];
        let other = |i| spec(i, Role::Interferer, self.load, self.params, IoPrio::NONE);
        all.extend((1..=others).map(other));
        all
    }

    /// Runs it for `parts` of the [`WHOLE`].
    fn run(&self, parts: u64) -> Outcome {
        let others = if self.load == "app_start" { 1 } else { 15 };
        self.run_with(others, Nanos(1_000_000_000 / WHOLE) * (self.seconds * parts))
    }

    /// Runs it with so many others than the first process.
    fn run_with(&self, others: u64, measured: Nanos) -> Outcome {
        let drive = DriveFile::load(self.drive).expect("an embedded drive");
        let entry = sched::find(self.scheduler).expect("it is registered");
        let job = Job {
            drive: Cow::Borrowed(&drive),
            host: HostConfig::profile("2019").expect("a profile"),
            scheduler: SchedulerSpec { entry, set: Vec::new(), queue: Vec::new() },
            control: ControlSpec::default(),
            groups: Vec::new(),
            procs: self.procs(others),
            window: Window {
                ramp: Nanos::ZERO,
                measured,
                grace: Nanos::secs(60),
                target_interval: Nanos::ms(500),
                device_interval: Nanos::secs(1),
            },
            seed: 1,
            trace: TraceMode::Off,
        };
        run(&job, &mut |_| true).expect("the job is sound")
    }

    #[allow(clippy::disallowed_methods)] // A benchmark measures the wall clock.
    fn measure(&self) {
        let mut nanos = Vec::new();
        let mut commands = 0;
        for _ in 0..9 {
            let began = std::time::Instant::now();
            let outcome = self.run(WHOLE);
            let taken = began.elapsed().as_secs_f64();
            let d = &outcome.device;
            let figures = (d.commands, d.flushes, d.read_bytes, d.written_bytes);
            assert!((self.premise)(&outcome), "{}: its premise: {figures:?}", self.name());
            commands = outcome.commands_total;
            nanos.push(taken * 1e9 / commands as f64);
        }
        nanos.sort_by(f64::total_cmp);
        let (least, median, most) = (nanos[0], nanos[4], nanos[8]);
        println!(
            "{:<56} {commands:>8} commands  {median:>6.0} ns each ({least:.0} to {most:.0})  \
             {:>9.0} commands/s",
            self.name(),
            1e9 / median
        );
    }

    /// To be counted over `parts` of the [`WHOLE`], without its first half.
    fn gated(&self, index: usize, parts: u64) -> Gated {
        let lengths = [parts / 2, parts].map(|parts| format!("{index} {parts}"));
        Gated { name: self.name().trim_end().into(), lengths }
    }
}

/// Processor time so far in ns, and the largest resident memory in KiB.
fn used() -> (u64, u64) {
    // Linux adds up what a thread has run when it lets go of the processor, and some milliseconds late otherwise.
    std::thread::yield_now();
    let read = |file: &str| std::fs::read_to_string(file).unwrap_or_else(|e| panic!("{file}: {e}"));
    let time = read("/proc/self/schedstat").split(' ').next().and_then(|n| n.parse().ok());
    let status = read("/proc/self/status");
    let peak = status.lines().find_map(|l| l.strip_prefix("VmHWM:")?.split_whitespace().next());
    time.zip(peak.and_then(|n| n.parse().ok())).expect("Linux says both")
}

/// Runs a growing load in a process of its own: commands, processor time, and memory.
fn grown(index: usize, processes: u64, ms: u64) -> [u64; 3] {
    let program = std::env::current_exe().expect("the bench knows its own file");
    let what = format!("{index} {processes} {ms}");
    let out = std::process::Command::new(program).args(["--grown", &what]).output();
    let out = out.expect("the bench runs itself");
    assert!(out.status.success(), "{what}: {}", String::from_utf8_lossy(&out.stderr));
    let said = String::from_utf8_lossy(&out.stdout);
    let mut numbers = said.split_whitespace().map(|n| n.parse().expect("a number"));
    std::array::from_fn(|_| numbers.next().expect("three numbers"))
}

fn growth(counts: &[u64]) {
    for (index, (name, ..)) in GROWING.iter().enumerate() {
        for &n in counts {
            // Long enough for each process to have its turns, and twice that; few processes have few commands, and
            // their time is short.
            let ms = n / 8 + if n < 1000 { 4000 } else { 500 };
            // Others disturb the processor: the fastest of three. What a run of two takes is no process's memory.
            let least = |n: u64, ms: u64| {
                let runs = std::array::from_fn::<_, 3, _>(|_| grown(index, n, ms));
                runs.into_iter().min_by_key(|run| run[1]).expect("there are three")
            };
            let (short, long) = (least(n, ms), least(n, 2 * ms));
            let commands = long[0] - short[0];
            let each = long[1].saturating_sub(short[1]) as f64 / commands as f64;
            let kib = long[2].saturating_sub(grown(index, 2, 2 * ms)[2]) as f64 / n as f64;
            println!(
                "{name:<12} {n:>7} processes {commands:>8} commands {each:>7.0} ns each, \
                 {kib:>6.1} KiB a process"
            );
        }
    }
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let numbers =
        |text: &str| -> Vec<u64> { text.split(' ').map(|n| n.parse().expect("numbers")).collect() };
    if let Some(at) = args.iter().position(|a| a == "--grown") {
        let n = numbers(&args[at + 1]);
        let (_, load, params) = GROWING[n[0] as usize];
        let row = row(SSD, "none", load, params, 0, reads);
        let commands = row.run_with(n[1] - 1, Nanos::ms(n[2])).commands_total;
        let (time, memory) = used();
        println!("{commands} {time} {memory}");
        return;
    }
    if let Some(at) = args.iter().position(|a| a == "--growth") {
        let counts: Vec<u64> = args[at + 1..].iter().filter_map(|n| n.parse().ok()).collect();
        growth(if counts.is_empty() { &[16, 1024, 16_384] } else { &counts });
        return;
    }
    if let Some(at) = args.iter().position(|a| a == "--row") {
        let (index, parts) = args[at + 1].split_once(' ').expect("written by `count`");
        let number = |text: &str| text.parse::<u64>().expect("written by `count`");
        println!("{}", ROWS[number(index) as usize].run(number(parts)).commands_total);
        return;
    }
    let says = |word: &str| args.iter().any(|a| a == word);
    let words: Vec<&String> = args.iter().filter(|a| !a.starts_with('-')).collect();
    let wanted = |row: &Row| words.iter().all(|w| row.name().contains(w.as_str()));
    let rows: Vec<_> = ROWS.iter().enumerate().filter(|(_, row)| wanted(row)).collect();
    let (check, record) = (says("--check"), says("--record"));
    if check || record {
        // In a build for tests what bfq takes is its assertions; its own bench has it without them.
        let rows = rows.iter().filter(|(_, row)| row.scheduler != "bfq");
        let rows: Vec<_> = rows.map(|(i, row)| row.gated(*i, WHOLE / 8)).collect();
        gate::gate(&rows, record);
    }
    for (index, row) in rows {
        match says("--instructions").then(|| gate::instructions(&row.gated(index, WHOLE))) {
            None => row.measure(),
            Some(Ok(each)) => {
                println!("{} instructions per command", gate::line(&row.name(), each))
            }
            Some(Err(why)) => println!("{}: skipped: {why}", row.name()),
        }
    }
}
