//! Replayed records per second of wall time: the block layer and a drive model, fed from memory. Reading a trace is
//! beside it (`cargo bench -p hoistway-trace`), on a thread of its own.
//!
//! `cargo bench -p hoistway-sim --bench replay` prints medians of five; `-- --once N ROW` runs row ROW with N records
//! once and prints the resident memory. `-- --instructions`, `-- --check` and `-- --record` count instructions per record
//! as those of the bench `path` do.

#[path = "support/gate.rs"]
mod gate;

use gate::Gated;
use hoistway::{Flags, Instant, IoPrio, Nanos, Op, sched};
use hoistway_run::{ControlSpec, JobError, Outcome, SchedulerSpec, TraceMode, Window};
use hoistway_sim::drive::DriveFile;
use hoistway_sim::host::HostConfig;
use hoistway_sim::rng::{Rng, stream};
use hoistway_sim::world::replay::{Arrival, Ended, Feed, Member, Options, Pace, replay};
use hoistway_sim::world::{Job, NoRecorder};
use std::borrow::Cow;

/// One row: scheduler, and mean time between records.
struct Row {
    drive: &'static str,
    scheduler: &'static str,
    gap: Nanos,
    closed: bool,
}

const SSD: &str = "samsung-970-pro";

const ROWS: &[Row] = &[
    Row { drive: SSD, scheduler: "none", gap: Nanos::us(10), closed: false },
    Row { drive: SSD, scheduler: "none", gap: Nanos::us(10), closed: true },
    Row { drive: SSD, scheduler: "mq-deadline", gap: Nanos::us(10), closed: false },
    Row { drive: SSD, scheduler: "bfq", gap: Nanos::us(20), closed: false },
];

const RECORDS: u64 = 1_000_000;
const PROCESSES: u64 = 8;

/// 4 KiB all over the drive, three reads to a write, by eight processes.
struct Random {
    rng: Rng,
    left: u64,
    now: u64,
    gap: u64,
    blocks: u64,
}

impl Feed for Random {
    #[inline]
    fn next(&mut self) -> Result<Option<Arrival>, JobError> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        self.now += self.rng.below(2 * self.gap);
        let bits = self.rng.bits();
        Ok(Some(Arrival {
            at: Instant::from_nanos(self.now),
            proc: (bits % PROCESSES) as u32,
            op: if bits >> 62 == 0 { Op::Write } else { Op::Read },
            flags: Flags::NONE,
            start: (bits >> 8) % self.blocks * 8,
            sectors: 8,
            think: Nanos(self.gap),
            ..Arrival::default()
        }))
    }

    fn introduce(&mut self, number: u32) -> Member {
        Member { name: format!("p{number}"), group: None, prio: IoPrio::NONE, counted: true }
    }

    fn progress(&self) -> u64 {
        self.left
    }
}

impl Row {
    fn run(&self, records: u64) -> (Outcome, Ended) {
        let drive = DriveFile::load(self.drive).expect("an embedded drive");
        let entry = sched::find(self.scheduler).expect("it is registered");
        let job = Job {
            drive: Cow::Borrowed(&drive),
            host: HostConfig::profile("today").expect("a profile"),
            scheduler: SchedulerSpec { entry, set: Vec::new(), queue: Vec::new() },
            control: ControlSpec::default(),
            groups: Vec::new(),
            procs: Vec::new(),
            window: Window {
                ramp: Nanos::ZERO,
                measured: Nanos::secs(1),
                grace: Nanos::ZERO,
                target_interval: Nanos::secs(1),
                device_interval: Nanos::secs(1),
            },
            seed: 1,
            trace: TraceMode::Off,
        };
        let blocks = drive.identity.capacity_bytes / 4096;
        let mut feed = Random {
            rng: stream(1, "bench/replay"),
            left: records,
            now: 0,
            gap: self.gap.0,
            blocks,
        };
        let pace = if self.closed { Pace::Closed { depth: Some(4) } } else { Pace::Open };
        let options = Options { pace, backlog: 1 << 18, delays: true };
        let done = replay(&job, options, &mut feed, NoRecorder, &mut |_| true);
        let (outcome, ended) = done.expect("the job is sound");
        // What the row is about: every record is a command of its own, and none is left out.
        let what = format!("{} {ended:?}", self.name());
        assert!(!ended.stopped && ended.submitted == records, "{what}");
        assert!(outcome.device.commands > records * 999 / 1000, "{what}: merged");
        assert_eq!(outcome.procs[0].ios, records, "{what}");
        (outcome, ended)
    }

    fn name(&self) -> String {
        let pace = if self.closed { "closed" } else { "open" };
        format!("{} {} {pace}", self.drive, self.scheduler)
    }

    #[allow(clippy::disallowed_methods)] // A benchmark measures the wall clock.
    fn measure(&self) {
        let mut nanos: Vec<f64> = Vec::new();
        for _ in 0..5 {
            let began = std::time::Instant::now();
            self.run(RECORDS);
            nanos.push(began.elapsed().as_secs_f64() * 1e9 / RECORDS as f64);
        }
        nanos.sort_by(f64::total_cmp);
        let (least, median, most) = (nanos[0], nanos[2], nanos[4]);
        let rate = 1e9 / median;
        println!(
            "{:<40} {median:>6.0} ns a record ({least:.0} to {most:.0})  {rate:>9.0} records/s",
            self.name()
        );
    }
}

/// Largest resident memory so far, KiB.
fn resident() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|l| l.starts_with("VmHWM"));
    line.map_or_else(|| "unknown".into(), |l| l.split_whitespace().skip(1).collect())
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let Some(at) = args.iter().position(|a| a == "--once") {
        let number = |i: usize| args.get(i).and_then(|a| a.parse::<u64>().ok());
        let (records, row) = (number(at + 1).unwrap_or(RECORDS), number(at + 2).unwrap_or(0));
        let row = &ROWS[row as usize % ROWS.len()];
        let (outcome, _) = row.run(records);
        let mean = outcome.procs[0].latency.mean().unwrap_or(0.0) / 1e3;
        println!("{}: {records} records, mean {mean:.1} us, resident {}", row.name(), resident());
        return;
    }
    if let Some(at) = args.iter().position(|a| a == "--row") {
        let (row, records) = args[at + 1].split_once(' ').expect("written by `gated`");
        let number = |text: &str| text.parse::<u64>().expect("written by `gated`");
        println!("{}", ROWS[number(row) as usize].run(number(records)).1.submitted);
        return;
    }
    let says = |word: &str| args.iter().any(|a| a == word);
    let (check, record) = (says("--check"), says("--record"));
    if check || record {
        // In a build for tests what bfq takes is its assertions; its own bench has it without them.
        let mut rows = gated(20_000);
        rows.retain(|row| !row.name.contains("bfq"));
        gate::gate(&rows, record);
    }
    if !says("--instructions") {
        return ROWS.iter().for_each(Row::measure);
    }
    for row in gated(400_000) {
        match gate::instructions(&row) {
            Ok(each) => println!("{} instructions per record", gate::line(&row.name, each)),
            Err(why) => println!("{}: skipped: {why}", row.name),
        }
    }
}

/// The rows, to be counted over so many records, without the first half.
fn gated(records: u64) -> Vec<Gated> {
    let one = |(i, row): (usize, &Row)| {
        let lengths = [records / 2, records].map(|n| format!("{i} {n}"));
        Gated { name: format!("replay {}", row.name()), lengths }
    };
    ROWS.iter().enumerate().map(one).collect()
}
