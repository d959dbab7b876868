//! What the page draws of a configuration while its repetitions go on: throughput over time, and how long I/Os waited.

use hoistway::Nanos;
use hoistway_lab::result::{Rep, target};
use hoistway_run::{Histogram, Interval};
use serde::Serialize;

/// Parts of 1000 at which waits are told.
pub const PARTS: [u64; 103] = parts();

/// A percentile needs so many I/Os above it, as in the report.
const ABOVE: u64 = 10;

/// Lengths of the intervals of series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Steps {
    /// Of processes.
    pub target: Nanos,
    /// Of the device.
    pub device: Nanos,
}

impl Steps {
    /// Of what is drawn.
    pub fn of(self, target: bool) -> Nanos {
        if target { self.target } else { self.device }
    }
}

/// Of the repetitions of one configuration that are over.
#[derive(Debug, PartialEq, Serialize)]
pub struct Live {
    /// How many there are.
    reps: usize,
    /// Throughput of the target (without one: of the device) over time, mean over repetitions, MB/s.
    rate: Vec<f64>,
    /// Of the whole measured time.
    rate_mean: f64,
    /// Throughput of the device, MB/s.
    device_mean: f64,
    /// Wait at each of [`PARTS`], ms; none without a target, and where there are too few I/Os.
    wait: Vec<Option<f64>>,
    /// Mean wait, ms.
    wait_mean: Option<f64>,
}

impl Live {
    /// Of these repetitions, at least one, whose series have intervals of these lengths.
    pub fn of(reps: &[&Rep], steps: Steps) -> Live {
        let (n, measured) = (reps.len() as f64, reps[0].measured.0);
        let of_target = target(reps[0]).is_some();
        let step = steps.of(of_target).0;
        let mut bytes = vec![0_u64; measured.div_ceil(step) as usize];
        let (mut waits, mut device, mut targets) = (Histogram::new(), 0_u64, 0_u64);
        let mut add = |intervals: &[Interval]| {
            for i in intervals {
                if let Some(sum) = bytes.get_mut((i.at.0 / step) as usize) {
                    *sum += i.bytes;
                }
            }
        };
        for rep in reps {
            device += rep.device.read_bytes + rep.device.written_bytes;
            match target(rep) {
                Some(target) => {
                    target.procs.iter().for_each(|p| add(&p.intervals));
                    waits.merge(&target.latency);
                    targets += target.bytes;
                }
                None => add(&rep.device.intervals),
            }
        }
        // The last interval may be shorter.
        let length = |i: usize| Nanos(step.min(measured - i as u64 * step));
        let over_time = bytes.iter().enumerate().map(|(i, &b)| rate(b, length(i)) / n);
        let mean = |bytes: u64| rate(bytes, reps[0].measured) / n;
        Live {
            reps: reps.len(),
            rate: over_time.collect(),
            rate_mean: mean(if of_target { targets } else { device }),
            device_mean: mean(device),
            wait: PARTS.iter().map(|&part| wait(&waits, part)).collect(),
            wait_mean: waits.mean().map(|ns| ns / 1e6),
        }
    }
}

/// MB/s.
fn rate(bytes: u64, time: Nanos) -> f64 {
    bytes as f64 * 1e3 / time.0 as f64
}

fn wait(waits: &Histogram, part: u64) -> Option<f64> {
    let above = waits.count() * (1000 - part) / 1000;
    let told = above >= ABOVE;
    told.then(|| waits.quantile(part, 1000)).flatten().map(|ns| ns as f64 / 1e6)
}

const fn parts() -> [u64; 103] {
    let mut all = [0; 103];
    let mut i = 0;
    while i < 99 {
        all[i] = (i as u64 + 1) * 10;
        i += 1;
    }
    (all[99], all[100], all[101], all[102]) = (993, 995, 997, 999);
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoistway_run::{DeviceRecord, ProcRecord, Role};

    const STEPS: Steps = Steps { target: Nanos::ms(500), device: Nanos::ms(1_000) };

    fn rep(target: bool) -> Rep {
        let at = |ms, bytes| Interval { at: Nanos::ms(ms), bytes, ios: 1 };
        let mut latency = Histogram::new();
        (1..=100).for_each(|ms| latency.record(ms * 1_000_000));
        let proc = ProcRecord {
            name: "target".into(),
            role: Role::Target,
            bytes: 5_000_000,
            latency,
            intervals: vec![at(0, 1_000_000), at(500, 2_000_000), at(1_000, 2_000_000)],
            ..ProcRecord::default()
        };
        let device = DeviceRecord {
            read_bytes: 12_000_000,
            intervals: vec![at(0, 10_000_000), at(1_000, 2_000_000)],
            ..DeviceRecord::default()
        };
        let procs = if target { vec![proc] } else { Vec::new() };
        Rep { measured: Nanos::ms(1_200), procs, device, ..Rep::default() }
    }

    #[test]
    fn the_last_interval_may_be_shorter() {
        let (one, two) = (rep(true), rep(true));
        let live = Live::of(&[&one, &two], STEPS);
        assert_eq!((live.reps, live.rate), (2, vec![2.0, 4.0, 10.0]));
        assert_eq!((live.device_mean, live.wait_mean), (10.0, Some(50.5)));
        let live = Live::of(&[&rep(false)], STEPS);
        assert_eq!((live.rate, live.rate_mean), (vec![10.0, 10.0], 10.0));
        assert!(live.wait.iter().all(Option::is_none));
    }

    #[test]
    fn a_percentile_needs_ten_waits_above_it() {
        let live = Live::of(&[&rep(true)], STEPS);
        let last = live.wait.iter().rposition(Option::is_some).map(|i| PARTS[i]);
        assert_eq!(last, Some(900));
    }
}
