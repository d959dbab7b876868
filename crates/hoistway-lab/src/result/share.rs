//! Entitlement against received share (specs/statistics.md 5).
//!
//! A process is entitled to its weight over the weights of all, of the bytes that all of them moved in
//! the same run; or the target to a guaranteed rate. What it *has of it* is received over entitled: 1 is
//! exactly its part. Bytes, not time: a random reader among sequential ones stays below its part of the
//! bytes even where it has its part of the drive's time, so a configuration is said to lose control only
//! beside another one that does better (`derive.rs`).

use super::{Cell, Manifest, Rep, WorkloadInfo};
use crate::stats;
use hoistway_run::Role;

/// Weight of a process of which the experiment says nothing.
pub const WEIGHT: u64 = 100;

/// One process.
#[derive(Clone, Debug, PartialEq)]
pub struct Client {
    /// Its name.
    pub name: String,
    /// It is the target.
    pub target: bool,
    /// Its weight.
    pub weight: u64,
    /// What it received, MB/s.
    pub mb_s: f64,
    /// What it is entitled to, MB/s; `None` for the others beside a guarantee.
    pub entitled_mb_s: Option<f64>,
}

impl Client {
    /// Received over entitled.
    pub fn met(&self) -> Option<f64> {
        self.entitled_mb_s.filter(|&e| e > 0.0).map(|e| self.mb_s / e)
    }
}

/// Every process of a repetition, or of all of them (means).
#[derive(Clone, Debug, PartialEq)]
pub struct Shares {
    /// In the order of the processes.
    pub clients: Vec<Client>,
    /// What all received, MB/s.
    pub total: f64,
    /// Jain's index of received over weight: 1 = proportional to the weights.
    pub jain: Option<f64>,
}

impl Shares {
    /// Of a cell: rates averaged over the repetitions. `None` without processes or if nothing was moved.
    pub fn of_cell(manifest: &Manifest, cell: &Cell) -> Option<Shares> {
        let workload = manifest.workloads.iter().find(|w| w.id == cell.workload)?;
        Shares::of(manifest, workload, &cell.reps)
    }

    /// Of some repetitions of one cell, which have the same processes in the same order.
    pub fn of(manifest: &Manifest, workload: &WorkloadInfo, reps: &[Rep]) -> Option<Shares> {
        let first = reps.first()?;
        let mean = |i: usize| {
            let each = reps.iter().map(|r| mb_s(r.procs[i].bytes, r.measured.0));
            stats::sum(each) / reps.len() as f64
        };
        let weight_of = |name: &str| {
            let given = workload.weights.iter().find(|w| w.0 == name);
            given.map_or(WEIGHT, |w| w.1)
        };
        let received: Vec<f64> = (0..first.procs.len()).map(mean).collect();
        let total = stats::sum(received.iter().copied());
        let weights: u64 = first.procs.iter().map(|p| weight_of(&p.name)).sum();
        if total <= 0.0 || weights == 0 {
            return None;
        }
        let targets = first.procs.iter().filter(|p| p.role == Role::Target).count().max(1);
        let clients: Vec<Client> = first
            .procs
            .iter()
            .zip(received)
            .map(|(p, mb_s)| {
                let (weight, target) = (weight_of(&p.name), p.role == Role::Target);
                let part = total * weight as f64 / weights as f64;
                let entitled_mb_s = match manifest.guarantee {
                    None => Some(part),
                    // Of a target of several processes each is promised its part.
                    Some(rate) => target.then_some(rate as f64 / 1e6 / targets as f64),
                };
                Client { name: p.name.clone(), target, weight, mb_s, entitled_mb_s }
            })
            .collect();
        let over_weight: Vec<f64> = clients.iter().map(|c| c.mb_s / c.weight as f64).collect();
        Some(Shares { clients, total, jain: stats::jain(&over_weight) })
    }

    /// The target; of several processes all of them together, under the first one's name.
    pub fn target(&self) -> Option<Client> {
        let mut all = self.clients.iter().filter(|c| c.target).cloned();
        let first = all.next()?;
        Some(all.fold(first, |sum, c| Client {
            weight: sum.weight + c.weight,
            mb_s: sum.mb_s + c.mb_s,
            entitled_mb_s: sum.entitled_mb_s.zip(c.entitled_mb_s).map(|(a, b)| a + b),
            ..sum
        }))
    }

    /// Whoever has least of what it is entitled to.
    pub fn worst(&self) -> Option<&Client> {
        let entitled = self.clients.iter().filter_map(|c| Some((c, c.met()?)));
        entitled.min_by(|a, b| a.1.total_cmp(&b.1)).map(|(c, _)| c)
    }

    /// What the worst served has of its part.
    pub fn worst_met(&self) -> Option<f64> {
        self.worst().and_then(Client::met)
    }

    /// A client's part of everything moved, 0 to 1.
    pub fn share(&self, client: &Client) -> f64 {
        client.mb_s / self.total
    }
}

/// Bytes per microsecond are MB/s.
fn mb_s(bytes: u64, window: u64) -> f64 {
    if window == 0 { 0.0 } else { bytes as f64 * 1e3 / window as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::tests::{manifest, rep};

    /// The target and two others with so many bytes in a second.
    fn cell(bytes: [u64; 3]) -> Rep {
        let mut rep = rep(1, 10, "target");
        rep.procs.iter_mut().zip(bytes).for_each(|(p, b)| p.bytes = b);
        rep
    }

    #[test]
    fn equal_weights_entitle_to_equal_parts() {
        let m = manifest();
        let of = |bytes| Shares::of(&m, &m.workloads[0], &[cell(bytes)]).unwrap();
        let even = of([5_000_000; 3]);
        assert_eq!((even.total, even.jain, even.worst_met()), (15.0, Some(1.0), Some(1.0)));
        let starved = of([0, 30_000_000, 30_000_000]);
        assert_eq!(
            starved.worst().map(|c| (c.name.as_str(), c.met())),
            Some(("target", Some(0.0)))
        );
        assert_eq!(starved.share(&starved.clients[1]), 0.5);
        let greedy = of([59_000_000, 500_000, 500_000]);
        assert_eq!(greedy.worst().unwrap().name, "reader0", "who takes all leaves others nothing");
        assert!(Shares::of(&m, &m.workloads[0], &[cell([0; 3])]).is_none());
    }

    #[test]
    fn weights_and_guarantees_say_who_is_entitled_to_what() {
        let mut m = manifest();
        m.workloads[0].weights = vec![("target".into(), 200)];
        let of = |m: &Manifest| Shares::of(m, &m.workloads[0], &[cell([10_000_000; 3])]).unwrap();
        let weighted = of(&m);
        assert_eq!(weighted.target().and_then(|t| t.entitled_mb_s), Some(15.0));
        assert_eq!(weighted.worst().map(|c| c.name.as_str()), Some("target"));
        assert!(weighted.jain.unwrap() < 1.0);
        m.guarantee = Some(4_000_000);
        let guaranteed = of(&m);
        assert_eq!(guaranteed.worst_met(), Some(2.5));
        assert_eq!(guaranteed.clients[1].met(), None, "the others are promised nothing");
    }

    #[test]
    fn a_target_of_two_processes_is_both() {
        let mut m = manifest();
        m.guarantee = Some(12_000_000);
        let mut rep = cell([2_000_000, 7_000_000, 9_000_000]);
        rep.procs[1].role = Role::Target;
        let both = Shares::of(&m, &m.workloads[0], &[rep]).unwrap();
        let target = both.target().unwrap();
        assert_eq!((target.mb_s, target.entitled_mb_s), (9.0, Some(12.0)));
        assert_eq!((both.share(&target), target.met()), (0.5, Some(0.75)));
        assert_eq!(both.worst_met(), Some(2.0 / 6.0), "one of the two");
    }
}
