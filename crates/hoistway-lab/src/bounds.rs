//! What no scheduler can do: the bounds B1 and B2 of docs/specs/paternoster.md, section 5, from what a drive and a
//! target alone on it measure.
//!
//! A target that moves A alone and may take a part `loss` of the rate R is slowed down by A / (loss R) at least, and
//! its mean latency with it: who thinks between its I/Os thinks no less for that. For one I/O outstanding at a time
//! A is b / L0, and the least mean latency b / (loss R).

/// What a visit of a disk costs beside streams, in lone latencies: the way there and back. Assumed, not measured.
pub const VISIT: f64 = 2.5;

/// The part of the throughput that `paternoster` lets targets take from the others, as it is by default.
pub fn others_loss() -> f64 {
    let entry = hoistway::sched::find("paternoster").expect("the registry has it");
    let loss = entry.tunables.iter().find(|t| t.name == "others_loss").expect("it has it");
    loss.default as f64 / 1000.0
}

/// Measures of a drive and of a target on it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measures {
    /// R: what the drive moves under the load without control, bytes/s.
    pub rate: f64,
    /// L0: mean latency of the target alone on the drive, s.
    pub lone: f64,
    /// b: size of one of its I/Os, bytes.
    pub block: f64,
    /// Its I/Os a second, alone.
    pub ios: f64,
}

impl Measures {
    /// R L0 in blocks of the target: what the drive moves while one of its I/Os is served.
    pub fn blocks(&self) -> f64 {
        self.rate * self.lone / self.block
    }

    /// Mean outstanding I/Os of the target alone (Little's law).
    pub fn outstanding(&self) -> f64 {
        self.ios * self.lone
    }

    /// B1: the least mean latency, in lone ones, if the others may lose that part of R.
    pub fn least_factor(&self, loss: f64) -> f64 {
        (self.least_loss(1.0) / loss).max(1.0)
    }

    /// B1: the part of R that the others lose at least, if the mean latency is so many lone ones.
    pub fn least_loss(&self, factor: f64) -> f64 {
        self.ios * self.block / (self.rate * factor)
    }

    /// B2, on a disk beside streams: the same as `least_factor`. `None`: with several I/Os outstanding some share a
    /// visit, and nothing is known.
    pub fn least_factor_of_visits(&self, loss: f64) -> Option<f64> {
        // One that asks again at once comes out a little above 1 where the clock is coarse.
        let alone = self.outstanding();
        (alone <= 1.05).then(|| (alone.min(1.0) * VISIT / loss).max(1.0))
    }
}

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LatencyDemand {
    /// The part of R that the others may lose.
    pub loss: f64,
    /// The mean latency, in lone ones.
    pub factor: f64,
}

/// A bound, and whether the demand is within it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LatencyBound {
    /// The least mean latency, in lone ones.
    pub factor: f64,
    /// The demand is not below it.
    pub allows: bool,
}

impl LatencyDemand {
    fn beside(&self, factor: f64) -> LatencyBound {
        LatencyBound { factor, allows: self.factor >= factor }
    }
}

/// The bounds for a target.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LatencyBounds {
    /// What was measured.
    pub of: Measures,
    /// What is asked for.
    pub demand: LatencyDemand,
    /// Any drive.
    pub b1: LatencyBound,
    /// A disk, where the others stream.
    pub b2: Option<LatencyBound>,
}

impl LatencyBounds {
    /// Those of a drive, which rotates or not.
    pub fn new(of: Measures, demand: LatencyDemand, rotates: bool) -> LatencyBounds {
        let visits = if rotates { of.least_factor_of_visits(demand.loss) } else { None };
        let b1 = demand.beside(of.least_factor(demand.loss));
        LatencyBounds { of, demand, b1, b2: visits.map(|factor| demand.beside(factor)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One 4 KiB I/O outstanding at a time.
    fn closed(rate: f64, lone: f64) -> Measures {
        Measures { rate, lone, block: 4096.0, ios: 1.0 / lone }
    }

    fn near(a: f64, b: f64) -> bool {
        (a - b).abs() <= 0.001 * b.abs()
    }

    #[test]
    fn one_outstanding_waits_for_its_block_at_the_rate_that_is_left() {
        // A SATA drive: 528 MB/s, 0.146 ms.
        let plextor = closed(528e6, 146e-6);
        assert!(near(plextor.blocks(), 18.82) && near(plextor.outstanding(), 1.0));
        let least = plextor.least_factor(0.05) * plextor.lone;
        assert!(near(least, 4096.0 / (0.05 * 528e6)), "{least}");
    }

    /// Others at 95 % and 4 x lone go together from 5 blocks on.
    #[test]
    fn a_twentieth_and_four_times_lone_need_five_blocks() {
        let demand = LatencyDemand { loss: 0.05, factor: 4.0 };
        for (blocks, allows) in [(3.1, false), (4.99, false), (5.01, true), (40.0, true)] {
            let of = closed(blocks * 4096.0 / 1e-3, 1e-3);
            let bounds = LatencyBounds::new(of, demand, false);
            assert!(near(of.blocks(), blocks));
            assert_eq!(bounds.b1.allows, allows, "{blocks} blocks: {bounds:?}");
            assert_eq!(bounds.b2, None, "no disk");
            assert!(near(of.least_loss(bounds.b1.factor), (1.0 / blocks).min(0.05)));
        }
    }

    #[test]
    fn a_target_that_thinks_is_slowed_down_as_a_whole() {
        let rare = Measures { ios: 20.0, ..closed(100e6, 200e-6) };
        assert!(near(rare.least_factor(0.05), 1.0), "82 kB/s of 5 MB/s");
        assert!(near(rare.least_loss(1.0), 20.0 * 4096.0 / 100e6));
        // Eight at a time move eight times as much.
        let deep = Measures { ios: 8.0 / 200e-6, ..closed(100e6, 200e-6) };
        assert!(near(deep.least_factor(0.05), 8.0 * 4096.0 / (0.05 * 100e6) / 200e-6));
    }

    #[test]
    fn a_visit_of_a_disk_costs_more_than_what_it_moves() {
        let disk = closed(130e6, 13e-3);
        let bounds = LatencyBounds::new(disk, LatencyDemand { loss: 0.05, factor: 4.0 }, true);
        assert!(bounds.b1.allows && near(bounds.b1.factor, 1.0), "{bounds:?}");
        let visits = bounds.b2.expect("a disk");
        assert!(!visits.allows && near(visits.factor, 50.0), "{visits:?}");
        assert!(LatencyDemand { loss: 0.05, factor: 60.0 }.beside(visits.factor).allows);
        let rare = Measures { ios: 1.0, ..disk };
        assert!(near(rare.least_factor_of_visits(0.05).unwrap(), 1.0), "32 ms a second");
        let deep = Measures { ios: 300.0, ..disk };
        assert_eq!(deep.least_factor_of_visits(0.05), None, "some go in one visit");
    }
}
