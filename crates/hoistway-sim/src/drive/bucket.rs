//! Cloud volumes and fixed-latency devices: two token buckets and a latency (specs/drives.md
//! section 6).

use super::keys::Key;
use super::rate::{Coming, us};
use super::{Command, Drive, DriveFile, DriveOutput, Model};
use crate::rng::{self, Rng};
use hoistway::{Instant, Op};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The entry in the list of models.
pub const MODEL: Model = Model {
    name: "bucket",
    summary: "cloud volume, fixed latency: token buckets for operations and bytes",
    keys: BUCKET_KEYS,
    check: |_| Ok(()),
    build: |file, seed| Box::new(Bucket::new(&BucketParams::from_file(file), seed, &file.id)),
};

/// Keys of `[bucket]`.
pub const BUCKET_KEYS: &[Key] = &[
    Key::off("iops", 1e-3, 1e9, "Operations per second; 0: no limit."),
    Key::num("iops_burst", 1.0, 1e9, "Operations that may be saved up."),
    Key::off("bytes_mb_s", 1e-3, 1e6, "Rate; 0: no limit."),
    Key::kib("bytes_burst_kib", "Bytes that may be saved up."),
    Key::us("read_us", "Mean latency of a read."),
    Key::us("write_us", "Mean latency of a write."),
    Key::us("flush_us", "Mean latency of a flush."),
    Key::num("sigma", 0.0, 10.0, "Spread of the log-normal latency."),
    Key::int("io_unit_kib", 1, 1 << 30, "Bytes that count as one operation."),
    Key::flag("merge_sequential", "Small commands in sequence share an operation."),
    Key::int("parallel", 1, 1 << 20, "Commands that run at the same time."),
];

/// `[bucket]` in ns and bytes.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the keys of the drive file, see BUCKET_KEYS")]
pub struct BucketParams {
    pub iops: f64,
    pub iops_burst: f64,
    pub bytes_per_s: f64,
    pub bytes_burst: u64,
    pub read: u64,
    pub write: u64,
    pub flush: u64,
    pub sigma: f64,
    pub io_unit: u64,
    pub merge_sequential: bool,
    pub parallel: usize,
}

impl BucketParams {
    /// From a checked file.
    pub fn from_file(file: &DriveFile) -> BucketParams {
        let num = |key| file.f64("bucket", key);
        BucketParams {
            iops: num("iops"),
            iops_burst: num("iops_burst"),
            bytes_per_s: num("bytes_mb_s") * 1e6,
            bytes_burst: file.u64("bucket", "bytes_burst_kib") << 10,
            read: us(num("read_us")),
            write: us(num("write_us")),
            flush: us(num("flush_us")),
            sigma: num("sigma"),
            io_unit: file.u64("bucket", "io_unit_kib") << 10,
            merge_sequential: file.bool("bucket", "merge_sequential"),
            parallel: file.u64("bucket", "parallel") as usize,
        }
    }
}

/// Tokens in units of 10^-12, filled at a rate in thousandths per second: exact in integers.
#[derive(Debug)]
pub(super) struct Tokens {
    /// Units of 10^-12 tokens per ns; 0: no limit.
    per_ns: i128,
    depth: i128,
    level: i128,
    /// When the level was that.
    at: u64,
}

const TOKEN: i128 = 1_000_000_000_000;

impl Tokens {
    /// Full, `per_s` more each second.
    pub fn new(per_s: f64, depth: f64) -> Tokens {
        let depth = (depth * 1e3 + 0.5) as i128 * (TOKEN / 1000);
        let least = i128::from(per_s > 0.0);
        let per_ns = ((per_s * 1e3 + 0.5) as i128).max(least);
        Tokens { per_ns, depth, level: depth, at: 0 }
    }

    fn level(&self, at: u64) -> i128 {
        (self.level + i128::from(at.saturating_sub(self.at)) * self.per_ns).min(self.depth)
    }

    /// The earliest time from `from` at which `n` tokens are there.
    ///
    /// A command larger than the bucket is deep waits for a full bucket and leaves a debt, otherwise
    /// it would wait for ever.
    pub fn earliest(&self, from: u64, n: u64) -> u64 {
        if self.per_ns == 0 || n == 0 {
            return from;
        }
        let missing = (i128::from(n) * TOKEN).min(self.depth) - self.level(from);
        if missing <= 0 { from } else { from + ((missing + self.per_ns - 1) / self.per_ns) as u64 }
    }

    /// Takes them at `at`.
    pub fn take(&mut self, at: u64, n: u64) {
        if self.per_ns > 0 {
            self.level = self.level(at) - i128::from(n) * TOKEN;
            self.at = at;
        }
    }
}

/// The command that a following one may continue.
#[derive(Clone, Copy, Debug)]
struct Last {
    op: Op,
    end: u64,
    /// Bytes that share its operation.
    merged: u64,
}

/// A volume. Commands pass in order of arrival, so a completion is known on arrival.
#[derive(Debug)]
pub struct Bucket {
    params: BucketParams,
    rng: Rng,
    operations: Tokens,
    bytes: Tokens,
    last_start: u64,
    last: Option<Last>,
    /// Ends of the commands that run, earliest on top; at most `parallel`.
    running: BinaryHeap<Reverse<u64>>,
    coming: Coming,
}

impl Bucket {
    /// The drive called `name`.
    pub fn new(params: &BucketParams, seed: u64, name: &str) -> Bucket {
        Bucket {
            rng: rng::stream(seed, &format!("drive/{name}/latency")),
            operations: Tokens::new(params.iops, params.iops_burst),
            bytes: Tokens::new(params.bytes_per_s, params.bytes_burst as f64),
            last_start: 0,
            last: None,
            running: BinaryHeap::new(),
            coming: Coming::default(),
            params: params.clone(),
        }
    }

    /// Operations and bytes that a command takes from the buckets.
    fn tokens(&mut self, command: &Command) -> (u64, u64) {
        if !matches!(command.op, Op::Read | Op::Write) {
            return (0, 0);
        }
        let (op, len, unit) = (command.op, command.len, self.params.io_unit);
        let end = command.start + len;
        let joined = self.last.filter(|last| {
            self.params.merge_sequential
                && last.op == op
                && last.end == command.start
                && last.merged + len <= unit
        });
        if let Some(last) = joined {
            self.last = Some(Last { op, end, merged: last.merged + len });
            return (0, len);
        }
        self.last = Some(Last { op, end, merged: len });
        (len.div_ceil(unit), len)
    }

    fn latency(&mut self, op: Op) -> u64 {
        let mean = match op {
            Op::Read => self.params.read,
            Op::Flush => self.params.flush,
            Op::Write | Op::Discard | Op::WriteZeroes => self.params.write,
        };
        let sigma = self.params.sigma;
        if sigma <= 0.0 {
            return mean;
        }
        let factor = libm::exp(sigma * self.rng.normal() - sigma * sigma / 2.0);
        (mean as f64 * factor + 0.5) as u64
    }
}

impl Drive for Bucket {
    fn handle(&mut self, now: Instant, command: Command) {
        let now = now.as_nanos();
        let (operations, bytes) = self.tokens(&command);
        let mut start = now.max(self.last_start);
        start = self.operations.earliest(start, operations);
        start = self.bytes.earliest(start, bytes);
        while self.running.peek().is_some_and(|&Reverse(end)| end <= start) {
            self.running.pop();
        }
        if self.running.len() == self.params.parallel
            && let Some(Reverse(end)) = self.running.pop()
        {
            start = end;
        }
        self.operations.take(start, operations);
        self.bytes.take(start, bytes);
        self.last_start = start;
        let at = start + self.latency(command.op);
        self.running.push(Reverse(at));
        self.coming.push(command.tag, now, start, at, 0);
    }

    fn poll(&mut self, now: Instant) -> DriveOutput {
        self.coming.poll(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gp3() -> BucketParams {
        let params = BucketParams::from_file(&DriveFile::load("cloud-gp3").unwrap());
        BucketParams { sigma: 0.0, ..params }
    }

    fn read(tag: u64, start: u64, len: u64) -> Command {
        Command { tag, op: Op::Read, start, len, fua: false }
    }

    /// Submits all at 0; when they start, in µs.
    fn starts(params: &BucketParams, commands: &[Command]) -> Vec<u64> {
        let mut drive = Bucket::new(params, 1, "t");
        for &command in commands {
            drive.handle(Instant::ZERO, command);
        }
        let end = Instant::from_nanos(u64::MAX >> 1);
        let mut starts = Vec::new();
        while let DriveOutput::Done(done) = drive.poll(end) {
            starts.push(done.waiting.as_us());
        }
        starts
    }

    #[test]
    fn operations_pass_after_the_burst_at_their_rate() {
        let commands: Vec<_> = (0..40).map(|i| read(i, i << 20, 4096)).collect();
        let starts = starts(&gp3(), &commands);
        assert!(starts[..32].iter().all(|&s| s == 0));
        assert_eq!(&starts[32..35], [333, 666, 1000]);
    }

    #[test]
    fn bytes_pass_after_the_burst_at_their_rate() {
        // 2048 KiB saved up are eight commands; then 256 KiB at 131.072 MB/s each 2 ms.
        let commands: Vec<_> = (0..11).map(|i| read(i, i << 30, 256 << 10)).collect();
        let starts = starts(&gp3(), &commands);
        assert_eq!(&starts[6..], [0, 0, 2000, 4000, 6000]);
    }

    #[test]
    fn sequential_commands_share_an_operation_up_to_the_unit() {
        let params = BucketParams { iops_burst: 1.0, bytes_per_s: 0.0, ..gp3() };
        let commands: Vec<_> = (0..65).map(|i| read(i, i * 4096, 4096)).collect();
        let merged = starts(&params, &commands);
        assert!(merged[..64].iter().all(|&s| s == 0));
        assert_eq!(merged[64], 333);
        let apart = BucketParams { merge_sequential: false, ..params };
        assert_eq!(starts(&apart, &commands)[64], 64 * 1_000_000 / 3000);
    }

    #[test]
    fn no_more_than_parallel_run_at_once() {
        let params =
            BucketParams { iops: 0.0, bytes_per_s: 0.0, parallel: 2, read: 100_000, ..gp3() };
        let commands: Vec<_> = (0..6).map(|i| read(i, i << 20, 4096)).collect();
        assert_eq!(starts(&params, &commands), [0, 0, 100, 100, 200, 200]);
    }

    #[test]
    fn a_command_larger_than_the_bucket_waits_for_a_full_one_and_leaves_a_debt() {
        let params = BucketParams { iops: 0.0, ..gp3() };
        let commands = [read(0, 0, 4 << 20), read(1, 1 << 30, 2 << 20)];
        // 2 MiB of debt and 2 MiB to fill, 16 ms each.
        assert_eq!(starts(&params, &commands), [0, 32000]);
    }

    #[test]
    fn the_mean_of_the_latency_is_the_parameter() {
        let params = BucketParams { sigma: 0.25, ..gp3() };
        let mut drive = Bucket::new(&params, 1, "t");
        let n = 100_000;
        let sum: u64 = (0..n).map(|_| drive.latency(Op::Read)).sum();
        // Standard error 0.08 %.
        assert!((sum / n).abs_diff(550_000) < 550_000 / 200);
    }
}
