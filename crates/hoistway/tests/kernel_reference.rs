//! Stack and schedulers in closed loop beside Linux 6.1: the same drive, machine and processes, and what
//! every process got in a window of 6 s (`data/kernel-reference-metrics.csv`).
//!
//! Run with `--nocapture` for the tables; docs/results/kernel-reference.md discusses them.

mod reference;

use reference::host::{Config, Control, Measured, run};
use reference::scenario::{Job, scenario};
use std::collections::BTreeMap;

/// What differs by less is the host's doing: who is first when two are ready within a microsecond.
const TOLERANCE: f64 = 0.10;
/// Shares of levels that get 3 to 25 %: the kernel's own vary by so much between machines.
const SHARE_TOLERANCE: f64 = 0.06;

const PLAIN_T0: u64 = 60_166_065;
/// Under BFQ the recorded processes start 2 us later.
const BFQ_T0: u64 = 60_168_065;

const MQ_DEADLINE: Config = Config {
    scheduler: "mq-deadline",
    tunables: &[],
    tags: 16,
    tag_hint: 0,
    t0: PLAIN_T0,
    control: None,
};
const KYBER: Config = Config { scheduler: "kyber", ..MQ_DEADLINE };
const NONE: Config = Config { scheduler: "none", tags: 64, ..MQ_DEADLINE };
/// The settings were written at 10.1 ms, when the kernel's tick counter, ahead by one until its second edge,
/// read 2 already: slices begin as if it had been at 20 ms.
const IO_MAX: Config = Config {
    control: Some(Control {
        name: "io.max",
        tunables: &[],
        files: &[("b", "io.max", "rbps=50000000 wbps=50000000")],
        written_at: 20_000_000,
    }),
    ..NONE
};
const BFQ_LL0: Config = Config {
    scheduler: "bfq",
    tunables: &[("base", 0), ("first_think", 1), ("low_latency", 0)],
    tags: 16,
    tag_hint: 0,
    t0: BFQ_T0,
    control: None,
};
const BFQ: Config = Config { tunables: &[("base", 0), ("first_think", 1)], ..BFQ_LL0 };

const IO_COST: Config = Config {
    control: Some(Control {
        name: "io.cost",
        tunables: &[("wake", 1)],
        files: &[
            (
                "/",
                "io.cost.qos",
                "enable=1 ctrl=user rpct=95 rlat=5000 wpct=95 wlat=5000 min=50 max=150",
            ),
            (
                "/",
                "io.cost.model",
                "ctrl=user model=linear rbps=200000000 rseqiops=8000 rrandiops=8000 wbps=200000000 \
                 wseqiops=8000 wrandiops=8000",
            ),
            ("a", "io.weight", "300"),
            ("b", "io.weight", "100"),
            ("w0", "io.weight", "100"),
            ("w1", "io.weight", "200"),
            ("w2", "io.weight", "300"),
            ("w3", "io.weight", "400"),
        ],
        written_at: WRITTEN_AT,
    }),
    ..NONE
};
const IO_LATENCY: Config = Config {
    control: Some(Control {
        name: "io.latency",
        tunables: &[("from_boot", 1)],
        files: &[("a", "io.latency", "target=3000"), ("b", "io.latency", "target=1000000")],
        written_at: WRITTEN_AT,
    }),
    ..NONE
};

/// When the recorded machine's cgroup files were written.
const WRITTEN_AT: u64 = 10_100_000;
/// Starts of the runs that react to the host's timing: so many, spread over one tick.
const STARTS: u64 = 16;
const START_STEP: u64 = 617_000;

/// One process's figures.
#[derive(Clone, Copy, Debug)]
struct Figures {
    latency_us: f64,
    throughput: f64,
    /// Of the throughput of all but the target; `None` for the target.
    share: Option<f64>,
}

/// What the kernel did, by tags, scheduler, scenario and process.
fn kernel() -> BTreeMap<[String; 4], Figures> {
    let csv = include_str!("data/kernel-reference-metrics.csv");
    let mut lines = csv.lines();
    assert_eq!(
        lines.next().unwrap(),
        "tags,scheduler,scenario,job,ios,latency_avg_us,latency_sd_us,latency_p50_us,\
         latency_p99_us,latency_max_us,throughput_MBs,share_of_interferers"
    );
    let parse = |line: &str| {
        let f: Vec<&str> = line.split(',').collect();
        let key = [f[0], f[1], f[2], f[3]].map(String::from);
        let figures = Figures {
            latency_us: f[5].parse().unwrap(),
            throughput: f[10].parse().unwrap(),
            share: f[11].parse().ok(),
        };
        (key, figures)
    };
    lines.map(parse).collect()
}

fn figures(jobs: &[Job], measured: &[Measured]) -> Vec<Figures> {
    let target = |job: &Job| job.name == "target";
    let all: u64 = jobs.iter().zip(measured).filter(|(j, _)| !target(j)).map(|p| p.1.bytes).sum();
    let of = |(job, m): (&Job, &Measured)| Figures {
        latency_us: m.latency_us(),
        throughput: m.megabytes_per_second(),
        share: (!target(job)).then(|| m.bytes as f64 / all as f64),
    };
    jobs.iter().zip(measured).map(of).collect()
}

/// The mean of several runs.
fn mean(runs: &[Vec<Figures>]) -> Vec<Figures> {
    let n = runs.len() as f64;
    let of = |i: usize| Figures {
        latency_us: runs.iter().map(|r| r[i].latency_us).sum::<f64>() / n,
        throughput: runs.iter().map(|r| r[i].throughput).sum::<f64>() / n,
        share: runs[0][i].share.map(|_| runs.iter().filter_map(|r| r[i].share).sum::<f64>() / n),
    };
    (0..runs[0].len()).map(of).collect()
}

/// Throughput of all but the target.
fn others(all: &[Figures]) -> f64 {
    all.iter().filter(|f| f.share.is_some()).fold(0.0, |sum, f| sum + f.throughput)
}

/// A scenario under one scheduler, ours beside the kernel's.
struct Comparison {
    title: String,
    names: Vec<String>,
    ours: Vec<Figures>,
    kernel: Vec<Figures>,
    /// The same throughput of each run.
    sums: Vec<f64>,
}

impl Comparison {
    /// `label`: the scheduler's name in the recording; `starts`: how many runs to take the mean of.
    fn new(config: &Config, label: &str, name: &str, starts: u64) -> Comparison {
        let loads = scenario(name);
        let runs: Vec<Vec<Figures>> = (0..starts)
            .map(|k| Config { t0: config.t0 + k * START_STEP, ..*config })
            .map(|config| figures(&loads.jobs, &run(&config, &loads)))
            .collect();
        let recorded = kernel();
        let tags = config.tags.to_string();
        let names: Vec<String> = loads.jobs.iter().map(|j| j.name.clone()).collect();
        let theirs = |job: &String| recorded[&[&tags, label, name, job].map(String::from)];
        let kernel = names.iter().map(theirs).collect();
        let sums = runs.iter().map(|r| others(r)).collect();
        let c =
            Comparison { title: format!("{label} {name}"), names, ours: mean(&runs), kernel, sums };
        c.print();
        c
    }

    fn rows(&self) -> impl Iterator<Item = (&String, &Figures, &Figures)> {
        self.names.iter().zip(&self.ours).zip(&self.kernel).map(|((n, o), k)| (n, o, k))
    }

    /// Throughput of all but the target, ours and the kernel's.
    fn interferers(&self) -> (f64, f64) {
        (others(&self.ours), others(&self.kernel))
    }

    /// The largest differences of any process: latency, throughput (relative) and share.
    fn largest(&self) -> [f64; 3] {
        let mut most = [0.0_f64; 3];
        for (_, o, k) in self.rows() {
            most[0] = most[0].max(apart(o.latency_us, k.latency_us).abs());
            most[1] = most[1].max(apart(o.throughput, k.throughput).abs());
            if let (Some(o), Some(k)) = (o.share, k.share) {
                most[2] = most[2].max((o - k).abs());
            }
        }
        most
    }

    fn print(&self) {
        println!("\n{} (ours / kernel / difference)", self.title);
        for (name, o, k) in self.rows() {
            let both = |o: f64, k: f64, digits: usize| {
                format!("{o:10.digits$} {k:10.digits$} {:+7.2} %", 100.0 * apart(o, k))
            };
            let share = match (o.share, k.share) {
                (Some(o), Some(k)) => format!("  share {o:.4} {k:.4} {:+.4}", o - k),
                _ => String::new(),
            };
            println!(
                "  {name:7} us {}  MB/s {}{share}",
                both(o.latency_us, k.latency_us, 1),
                both(o.throughput, k.throughput, 3)
            );
        }
        let (ours, theirs) = self.interferers();
        let [latency, throughput, share] = self.largest();
        println!(
            "  others: {ours:.2} {theirs:.2} MB/s ({:.2} to {:.2} in {} runs); largest differences: \
             latency {:.2} %, throughput {:.2} %, share {share:.4}",
            self.sums.iter().copied().fold(f64::INFINITY, f64::min),
            self.sums.iter().copied().fold(0.0, f64::max),
            self.sums.len(),
            100.0 * latency,
            100.0 * throughput
        );
    }

    /// Latency, throughput and share of every process.
    fn all_agree(&self) {
        for (name, o, k) in self.rows() {
            self.near(name, "latency in us", o.latency_us, k.latency_us);
            self.near(name, "throughput in MB/s", o.throughput, k.throughput);
            assert_eq!(o.share.is_some(), k.share.is_some(), "{}: {name}", self.title);
            if let (Some(o), Some(k)) = (o.share, k.share) {
                self.near(name, "share", o, k);
            }
        }
    }

    /// The target's latency and throughput, and what the others get together.
    fn target_and_sum_agree(&self) {
        for (name, o, k) in self.rows().filter(|(name, ..)| *name == "target") {
            self.near(name, "latency in us", o.latency_us, k.latency_us);
            self.near(name, "throughput in MB/s", o.throughput, k.throughput);
        }
        let (ours, theirs) = self.interferers();
        if theirs > 0.0 {
            self.near("all others", "throughput in MB/s", ours, theirs);
        }
    }

    /// Where the kernel's sum is not reached for a reason that is known: ours must stay what it is.
    fn sum_stays(&self, reached: f64) {
        let (ours, _) = self.interferers();
        let title = &self.title;
        assert!(apart(ours, reached).abs() <= TOLERANCE, "{title}: {ours} MB/s, was {reached}");
    }

    fn shares_agree(&self) {
        for (name, o, k) in self.rows() {
            if let (Some(o), Some(k)) = (o.share, k.share) {
                let title = &self.title;
                assert!((o - k).abs() <= SHARE_TOLERANCE, "{title}: {name}: share {o}, kernel {k}");
            }
        }
    }

    fn near(&self, who: &str, what: &str, ours: f64, kernel: f64) {
        assert!(
            apart(ours, kernel).abs() <= TOLERANCE,
            "{}: {who}: {what} is {ours}, the kernel's {kernel}",
            self.title
        );
    }
}

/// Relative difference.
fn apart(ours: f64, kernel: f64) -> f64 {
    ours / kernel - 1.0
}

const SCENARIOS: [&str; 7] =
    ["alone", "two_d1_st", "ioprio_st", "rand15", "seq_d4_st", "mixed_rw_st", "cgw_d8_st"];

#[test]
fn mq_deadline_serves_every_process_as_the_kernels() {
    for name in SCENARIOS {
        Comparison::new(&MQ_DEADLINE, "mq-deadline", name, 1).all_agree();
    }
}

#[test]
fn kyber_serves_every_process_as_the_kernels() {
    for name in SCENARIOS {
        Comparison::new(&KYBER, "kyber", name, 1).all_agree();
    }
}

#[test]
fn none_serves_every_process_as_the_kernels() {
    for name in ["cg_target_d4_st", "cgw_d8_st"] {
        Comparison::new(&NONE, "none", name, 1).all_agree();
    }
}

#[test]
fn io_max_limits_a_group_as_the_kernels() {
    for name in ["cg_target_d4_st", "cgw_d8_st"] {
        Comparison::new(&IO_MAX, "io.max", name, 1).all_agree();
    }
}

#[test]
fn io_cost_serves_every_process_as_the_kernels() {
    for name in ["cg_target_d4_st", "cgw_d8_st"] {
        Comparison::new(&IO_COST, "io.cost", name, 1).all_agree();
    }
}

#[test]
fn none_under_io_latency_serves_every_process_as_the_kernels() {
    for name in ["cg_target_d4_st", "cgw_d8_st"] {
        Comparison::new(&IO_LATENCY, "io.latency", name, 1).all_agree();
    }
}

#[test]
fn bfq_without_low_latency_serves_every_process_as_the_kernels() {
    for name in ["alone", "two_d1_st", "rand15", "seq_d4_st", "mixed_rw_st"] {
        Comparison::new(&BFQ_LL0, "bfq-ll0", name, 1).all_agree();
    }
    // Short of tags in groups: who starves depends on which tags are free. Over a spread of starts that
    // does not matter.
    Comparison::new(&BFQ_LL0, "bfq-ll0", "cgw_d8_st", STARTS).all_agree();
}

#[test]
fn bfq_divides_among_levels_as_the_kernels_over_a_spread_of_starts() {
    for (config, label) in [(BFQ_LL0, "bfq-ll0"), (BFQ, "bfq")] {
        let c = Comparison::new(&config, label, "ioprio_st", STARTS);
        c.shares_agree();
        // The kernel has 95 and 91 MB/s: docs/results/kernel-reference.md tells why.
        c.sum_stays(77.0);
    }
}

#[test]
fn bfq_with_low_latency_serves_the_target_as_the_kernels_over_a_spread_of_starts() {
    for name in ["alone", "two_d1_st", "rand15", "seq_d4_st", "mixed_rw_st", "cgw_d8_st"] {
        Comparison::new(&BFQ, "bfq", name, STARTS).target_and_sum_agree();
    }
}

/// A scenario in which the places of free tags decide who waits: chaotic, in the kernel too, so only
/// means over many starts are compared.
struct Short {
    config: Config,
    label: &'static str,
    scenario: &'static str,
    /// Throughput of all in MB/s of each start.
    sums: Vec<f64>,
    /// Mean latency of the last process in ms of each start.
    latencies: Vec<f64>,
}

impl Short {
    /// Starts at `starts`, each an instant in ms after the recorded one and the place where the first
    /// search for a tag begins.
    fn new(
        (config, label): (Config, &'static str),
        scenario_name: &'static str,
        starts: impl Iterator<Item = (u64, u32)>,
    ) -> Short {
        let loads = scenario(scenario_name);
        let mut short = Short {
            config,
            label,
            scenario: scenario_name,
            sums: Vec::new(),
            latencies: Vec::new(),
        };
        for (ms, tag_hint) in starts {
            let t0 = config.t0 + ms * 1_000_000;
            let measured = run(&Config { t0, tag_hint, ..config }, &loads);
            short.sums.push(measured.iter().map(Measured::megabytes_per_second).sum());
            short.latencies.push(measured.last().expect("a process").latency_us() / 1e3);
        }
        short
    }

    /// Prints mean and range of what the kernel's mean is known of, and holds it against that.
    fn near(&self, what: &str, values: &[f64], kernel: f64) {
        let (ours, from, to) = self.summary(what, values);
        println!("  kernel {kernel:.1}: {:+.1} %", 100.0 * apart(ours, kernel));
        assert!(
            apart(ours, kernel).abs() <= SHORT_TOLERANCE,
            "{} {}: {what} {ours} ({from} to {to}), the kernel's {kernel}",
            self.label,
            self.scenario
        );
    }

    /// Prints and returns mean, least and most.
    fn summary(&self, what: &str, values: &[f64]) -> (f64, f64, f64) {
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let from = values.iter().copied().fold(f64::INFINITY, f64::min);
        let to = values.iter().copied().fold(0.0, f64::max);
        let spread = (values.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / n).sqrt();
        let Short { config, label, scenario, .. } = self;
        println!(
            "{} tags, {label} {scenario}, {what}: {mean:.1} ({from:.1} to {to:.1}) in {n} starts, \
             standard error {:.1}",
            config.tags,
            spread / n.sqrt()
        );
        (mean, from, to)
    }
}

/// Required of means where tags are short.
const SHORT_TOLERANCE: f64 = 0.25;
const BFQ_64: (Config, &str) = (Config { tags: 64, ..BFQ }, "bfq");
const BFQ_LL0_64: (Config, &str) = (Config { tags: 64, ..BFQ_LL0 }, "bfq-ll0");

/// Every millisecond up to 52, as far as the kernel's starts were moved; the tags are first looked for at
/// place 80 of 128, 16 of 32.
fn every_start() -> impl Iterator<Item = (u64, u32)> {
    (0..=52).map(|ms| (ms, 80))
}

/// The kernel's figures are means of seven starts.
#[test]
fn bfq_short_of_tags_serves_as_the_kernels_over_a_spread_of_starts() {
    for (scheduler, kernel) in [(BFQ_64, 120.8), (BFQ_LL0_64, 84.7)] {
        let c = Short::new(scheduler, "cg_target_d4_st", every_start());
        c.near("MB/s", &c.sums, kernel);
    }
    let c = Short::new((BFQ, "bfq"), "wr_d4_st", every_start());
    c.near("MB/s", &c.sums, 152.7);
    c.near("target ms", &c.latencies, 54.7);
}

/// The kernel's figures are of one start each.
#[test]
fn bfq_very_short_of_tags_serves_like_one_start_of_the_kernels() {
    let starts = || every_start().step_by(4);
    for (scheduler, kernel) in [((BFQ, "bfq"), 16.6), ((BFQ_LL0, "bfq-ll0"), 15.6)] {
        let c = Short::new(scheduler, "cgw_r16_st", starts());
        c.near("MB/s", &c.sums, kernel);
    }
    // Single starts of ours have 3 to 150 MB/s: one of the kernel's (101.7 and 47.4) is no reference.
    // Counting requests instead of numbering tags gave 13 and 20 at every start.
    for scheduler in [(BFQ, "bfq"), (BFQ_LL0, "bfq-ll0")] {
        let c = Short::new(scheduler, "cg_target_d4_st", starts());
        let (mean, _, to) = c.summary("MB/s", &c.sums);
        assert!(mean > 30.0 && to > 100.0, "{}: {mean} MB/s, at most {to}", c.label);
    }
}

/// All scenarios short of tags over many starts *and* places of the first search, which the kernel draws
/// at random. Run with `--ignored --nocapture`; prints the last table of kernel-reference.md.
#[test]
#[ignore = "takes a minute or more and only prints"]
fn the_place_of_the_first_search_is_part_of_the_start() {
    let starts = || (0..200_u64).map(|k| (k * 7 % 53, (k * 11 % 128) as u32));
    for scheduler in [BFQ_64, BFQ_LL0_64, (BFQ, "bfq"), (BFQ_LL0, "bfq-ll0")] {
        let c = Short::new(scheduler, "cg_target_d4_st", starts());
        c.summary("MB/s", &c.sums);
    }
    for scheduler in [(BFQ, "bfq"), (BFQ_LL0, "bfq-ll0")] {
        let c = Short::new(scheduler, "cgw_r16_st", starts());
        c.summary("MB/s", &c.sums);
    }
    let c = Short::new((BFQ, "bfq"), "wr_d4_st", starts());
    c.summary("MB/s", &c.sums);
    c.summary("target ms", &c.latencies);
}
