//! The loads of the recorded runs.

use hoistway::{Flags, IoPrio, Op};

/// Size of the modelled drive.
pub const DEVICE_BYTES: u64 = 250_000_000_000;
const MIB: u64 = 1 << 20;
const KIB: u64 = 1 << 10;
/// Start offset from one process to the next where they do not start together.
const STAGGER_MS: u64 = 700;

/// The groups of all runs, children of the root, with their weights under BFQ.
pub const GROUPS: &[(&str, u64)] =
    &[("a", 300), ("b", 100), ("w0", 100), ("w1", 200), ("w2", 300), ("w3", 400)];

/// Which offsets a process visits.
#[derive(Clone, Debug)]
pub enum Pattern {
    /// One block after the other, wrapping at the region's end.
    Sequential {
        /// The next block.
        block: u64,
    },
    /// xorshift64.
    Random {
        /// Its state.
        state: u64,
    },
}

/// One process of a scenario.
#[derive(Clone, Debug)]
pub struct Job {
    pub name: String,
    pub op: Op,
    pub block_bytes: u64,
    pub base: u64,
    pub region_bytes: u64,
    pub pattern: Pattern,
    pub depth: usize,
    /// Start after t0 in ms.
    pub start_ms: u64,
    pub prio: IoPrio,
    /// `None`: the root.
    pub group: Option<&'static str>,
}

impl Job {
    fn new(name: String, depth: usize, block_bytes: u64) -> Job {
        Job {
            name,
            op: Op::Read,
            block_bytes,
            base: 0,
            region_bytes: DEVICE_BYTES,
            pattern: Pattern::Sequential { block: 0 },
            depth,
            start_ms: 0,
            prio: IoPrio::NONE,
            group: None,
        }
    }

    /// The offset of the next operation in bytes.
    pub fn next_offset(&mut self) -> u64 {
        let blocks = self.region_bytes / self.block_bytes;
        let block = match &mut self.pattern {
            Pattern::Sequential { block } => {
                *block += 1;
                (*block - 1) % blocks
            }
            Pattern::Random { state } => xorshift(state) % blocks,
        };
        self.base + block * self.block_bytes
    }

    /// Direct I/O: somebody waits for the write and more may follow.
    pub fn flags(&self) -> Flags {
        match self.op {
            Op::Write => Flags::SYNC | Flags::IDLE,
            _ => Flags::NONE,
        }
    }
}

fn xorshift(x: &mut u64) -> u64 {
    *x ^= *x << 13;
    *x ^= *x >> 7;
    *x ^= *x << 17;
    *x
}

/// The processes in list order and when measuring begins, in ms after t0.
#[derive(Clone, Debug)]
pub struct Scenario {
    pub jobs: Vec<Job>,
    pub measure_ms: u64,
}

/// The scenario of that name.
pub fn scenario(name: &str) -> Scenario {
    let (mut jobs, measure_ms) = match name {
        "alone" => (vec![target(0)], 1_000),
        "two_d1_st" => (readers(2, 1), 1_700),
        "ioprio_st" => {
            let mut jobs = readers(8, 1);
            for (level, job) in (0..).zip(&mut jobs) {
                job.prio = IoPrio::be(level);
            }
            (jobs, 6_600)
        }
        "rand15" => {
            let mut jobs = vec![target(0)];
            jobs.extend((0..15).map(|i| Job { name: format!("i{i}"), ..target(0) }));
            (jobs, 1_000)
        }
        "seq_d4_st" => {
            let mut jobs = readers(15, 4);
            jobs.push(target(10_500));
            (jobs, 11_500)
        }
        "mixed_rw_st" => {
            let mut jobs = readers(8, 4);
            for (i, job) in jobs.iter_mut().enumerate() {
                job.block_bytes = 64 * KIB;
                job.op = if i % 2 == 0 { Op::Read } else { Op::Write };
            }
            jobs.push(target(5_600));
            (jobs, 6_600)
        }
        "cg_target_d4_st" => {
            let mut jobs = readers(15, 4);
            for job in &mut jobs {
                job.group = Some("b");
            }
            jobs.push(Job { group: Some("a"), ..target(10_500) });
            (jobs, 11_500)
        }
        "wr_d4_st" => {
            let mut jobs = readers(15, 4);
            for job in &mut jobs {
                job.op = Op::Write;
            }
            jobs.push(target(10_500));
            (jobs, 11_500)
        }
        "cgw_r16_st" => {
            let job = |(j, &group): (usize, &&'static str)| Job {
                name: format!("i{j}"),
                depth: 16,
                group: Some(group),
                ..target(STAGGER_MS * j as u64)
            };
            (["w0", "w1", "w2", "w3"].iter().enumerate().map(job).collect(), 3_100)
        }
        "cgw_d8_st" => {
            let mut jobs = readers(4, 8);
            let region = DEVICE_BYTES / 4 / 4096 * 4096;
            for (j, job) in jobs.iter_mut().enumerate() {
                job.group = Some(["w0", "w1", "w2", "w3"][j]);
                (job.base, job.region_bytes) = (j as u64 * region, region);
            }
            (jobs, 3_100)
        }
        other => panic!("no scenario {other}"),
    };
    for (i, job) in (4..).zip(&mut jobs) {
        if let Pattern::Random { state } = &mut job.pattern {
            *state = 88_172_645_463_325_252 + 7_919 * i;
            for _ in 0..20 {
                xorshift(state);
            }
        }
    }
    Scenario { jobs, measure_ms }
}

fn target(start_ms: u64) -> Job {
    let pattern = Pattern::Random { state: 0 };
    Job { pattern, start_ms, ..Job::new("target".into(), 1, 4 * KIB) }
}

/// Sequential readers of 128 KiB, one region each, started one after the other.
fn readers(n: u64, depth: usize) -> Vec<Job> {
    let region = DEVICE_BYTES / n / MIB * MIB;
    let reader = |j: u64| Job {
        base: j * region,
        region_bytes: region,
        start_ms: STAGGER_MS * j,
        ..Job::new(format!("i{j}"), depth, 128 * KIB)
    };
    (0..n).map(reader).collect()
}
