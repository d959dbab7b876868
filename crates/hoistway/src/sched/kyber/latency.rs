//! What kyber measures of one domain: two histograms of latency against a target
//! (specs/kyber.md sections 2 and 5).

use crate::unit::{Instant, Nanos};

/// Buckets of a histogram, each a quarter of the target wide; the last is open-ended.
pub(super) const BUCKETS: usize = 8;
/// The first bucket of those that miss the target.
pub(super) const BAD: u8 = 4;
/// A histogram with so many samples is evaluated at once.
const SAMPLES: u32 = 500;
/// One with fewer is evaluated when so much time has passed since somebody first looked.
const PATIENCE: Nanos = Nanos::secs(1);

/// Which of the two latencies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum LatencyKind {
    /// From the start of the request (its tag is taken): with the time in kyber's queues.
    Total,
    /// From its issue to the device.
    Io,
}

/// The measurements of one domain.
#[derive(Clone, Debug)]
pub(super) struct Latencies {
    target: Nanos,
    /// Width of a bucket: target / 4, rounded down, at least 1 ns.
    width: u64,
    /// [`LatencyKind::Total`], [`LatencyKind::Io`]. At most a timer period of samples beyond [`SAMPLES`].
    histograms: [[u32; BUCKETS]; 2],
    /// Until when an evaluation with few samples is put off; shared by both histograms.
    ready_at: Option<Instant>,
    /// The bucket of the 99th percentile of the total latency when nothing was congested.
    pub saved_p99: Option<u8>,
}

impl Latencies {
    pub fn new(target: Nanos) -> Latencies {
        let mut new = Latencies {
            target,
            width: 1,
            histograms: [[0; BUCKETS]; 2],
            ready_at: None,
            saved_p99: None,
        };
        new.aim(target);
        new
    }

    pub fn target(&self) -> Nanos {
        self.target
    }

    /// A new target, for samples added from now on.
    pub fn aim(&mut self, target: Nanos) {
        self.target = target;
        self.width = (target.0 / 4).max(1);
    }

    /// A request is complete.
    pub fn add(&mut self, total: Nanos, io: Nanos) {
        let buckets = [self.bucket(total), self.bucket(io)];
        for (histogram, bucket) in self.histograms.iter_mut().zip(buckets) {
            histogram[bucket] += 1;
        }
    }

    fn bucket(&self, latency: Nanos) -> usize {
        let above = latency.0.saturating_sub(1) / self.width;
        above.min(BUCKETS as u64 - 1) as usize
    }

    /// The bucket in which that percentile lies, if there are enough samples or enough time has passed
    /// to say so; the samples are then gone.
    ///
    /// Quirk: both histograms share `ready_at`. The one asked first that becomes ready by time alone unsets
    /// it, so that the other starts a new second.
    ///
    /// A p99 of twenty samples is noise, hence 500; and a domain that is slow rarely fills its histogram,
    /// hence the second.
    pub fn percentile(&mut self, now: Instant, kind: LatencyKind, percent: u32) -> Option<u8> {
        let histogram = &mut self.histograms[kind as usize];
        let samples: u32 = histogram.iter().sum();
        if samples == 0 {
            return None;
        }
        let ready_at = *self.ready_at.get_or_insert(now + PATIENCE);
        if samples < SAMPLES && now < ready_at {
            return None;
        }
        self.ready_at = None;
        let found = bucket_of(histogram, percent);
        *histogram = [0; BUCKETS];
        Some(found)
    }

    pub fn histogram(&self, kind: LatencyKind) -> &[u32; BUCKETS] {
        &self.histograms[kind as usize]
    }
}

/// The bucket that holds the sample of rank ceil(n * percent / 100).
fn bucket_of(histogram: &[u32; BUCKETS], percent: u32) -> u8 {
    let samples: u64 = histogram.iter().map(|&n| u64::from(n)).sum();
    let mut rank = (samples * u64::from(percent)).div_ceil(100);
    for (bucket, &n) in histogram[..BUCKETS - 1].iter().enumerate() {
        if u64::from(n) >= rank {
            return bucket as u8;
        }
        rank -= u64::from(n);
    }
    BUCKETS as u8 - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_what_was_aimed_at() {
        let mut latencies = Latencies::new(Nanos::ms(2));
        assert_eq!(latencies.target(), Nanos::ms(2));
        latencies.aim(Nanos::ms(10));
        assert_eq!(latencies.target(), Nanos::ms(10));
    }

    #[test]
    fn k1_a_latency_falls_into_quarters_of_its_target() {
        let cases: [(u64, &[(u64, usize)]); 3] = [
            (
                2_000_000,
                &[
                    (0, 0),
                    (1, 0),
                    (500_000, 0),
                    (500_001, 1),
                    (2_000_000, 3),
                    (2_000_001, 4),
                    (3_500_000, 6),
                    (3_500_001, 7),
                    (100_000_000, 7),
                ],
            ),
            (3, &[(1, 0), (2, 1), (4, 3), (8, 7)]),
            (10_000_000, &[(2_500_000, 0), (2_500_001, 1), (10_000_000, 3), (10_000_001, 4)]),
        ];
        for (target, samples) in cases {
            let latencies = Latencies::new(Nanos(target));
            for &(latency, bucket) in samples {
                assert_eq!(latencies.bucket(Nanos(latency)), bucket, "{latency} of {target} ns");
            }
        }
    }

    #[test]
    fn k2_percentiles_are_buckets() {
        let cases: [([u32; BUCKETS], u8, u8); 6] = [
            ([400, 50, 30, 10, 5, 3, 1, 1], 1, 4),
            ([449, 0, 0, 0, 51, 0, 0, 0], 4, 4),
            ([450, 0, 0, 0, 50, 0, 0, 0], 0, 4),
            ([0, 0, 0, 90, 10, 0, 0, 0], 3, 4),
            ([500, 0, 0, 0, 0, 0, 0, 0], 0, 0),
            ([0, 0, 0, 0, 0, 0, 0, 500], 7, 7),
        ];
        for (histogram, p90, p99) in cases {
            assert_eq!(bucket_of(&histogram, 90), p90, "{histogram:?}");
            assert_eq!(bucket_of(&histogram, 99), p99, "{histogram:?}");
        }
    }

    #[test]
    fn few_samples_are_evaluated_after_a_second() {
        let mut l = Latencies::new(Nanos::ms(2));
        let at = |ms| Instant::ZERO + Nanos::ms(ms);
        assert_eq!(l.percentile(at(0), LatencyKind::Io, 90), None);
        assert_eq!(l.ready_at, None, "an empty histogram starts no second");
        l.add(Nanos::ms(1), Nanos(1));
        assert_eq!(l.percentile(at(100), LatencyKind::Io, 90), None);
        assert_eq!(l.percentile(at(1099), LatencyKind::Io, 90), None);
        assert_eq!(l.percentile(at(1100), LatencyKind::Io, 90), Some(0));
        assert_eq!(l.histogram(LatencyKind::Io), &[0; BUCKETS]);
        assert_eq!(l.percentile(at(1100), LatencyKind::Total, 99), None, "a new second has begun");
        assert_eq!(l.percentile(at(2100), LatencyKind::Total, 99), Some(1));
    }

    #[test]
    fn many_samples_are_evaluated_at_once() {
        let mut l = Latencies::new(Nanos::ms(2));
        (0..499).for_each(|_| l.add(Nanos::ms(3), Nanos(1)));
        assert_eq!(l.percentile(Instant::ZERO, LatencyKind::Total, 99), None);
        l.add(Nanos::ms(3), Nanos(1));
        assert_eq!(l.percentile(Instant::ZERO, LatencyKind::Total, 99), Some(5));
    }
}
