//! One drive in one machine, and everything it measured.

use super::Bench;
use crate::recommend::{Field, Identity, RunSource};

/// A drive in a machine.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Where it was read; several if it was measured several times.
    pub benches: Vec<String>,
    /// Benches that hold the same records as another one, and do not count.
    pub copies: Vec<String>,
    /// What is known of it.
    pub identity: Identity,
    /// What it measured, a field for each bench.
    pub fields: Vec<Field>,
    /// Known by the hash of a serial number.
    pub certain: bool,
}

/// The drives of all benches, in the order of first appearance.
pub(super) fn of(benches: &[&Bench]) -> Vec<Machine> {
    let mut machines: Vec<Machine> = Vec::new();
    let mut seen: Vec<(u64, usize)> = Vec::new();
    for bench in benches {
        for field in Field::of(&bench.sources) {
            let mark = mark(&bench.sources, &field.identity.drive);
            let same = |m: &Machine| m.identity.key_of_drive() == field.identity.key_of_drive();
            let at = machines.iter().position(same);
            match at {
                Some(at) if seen.contains(&(mark, at)) => {
                    machines[at].copies.push(bench.name.clone());
                    continue;
                }
                Some(at) => {
                    machines[at].benches.push(bench.name.clone());
                    seen.push((mark, at));
                    machines[at].fields.push(field);
                }
                None => {
                    seen.push((mark, machines.len()));
                    machines.push(Machine {
                        benches: vec![bench.name.clone()],
                        copies: Vec::new(),
                        certain: field.identity.serial.is_some(),
                        identity: field.identity.clone(),
                        fields: vec![field],
                    });
                }
            }
        }
    }
    machines
}

/// Equal for equal records: FNV-1a over what no two measurements share.
fn mark(sources: &[RunSource], drive: &str) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut add = |value: u128| {
        for byte in value.to_le_bytes() {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    };
    for source in sources {
        let cells = source.run.cells.iter().filter(|c| c.drive == drive);
        for rep in cells.flat_map(|c| &c.reps) {
            add(u128::from(rep.seed));
            add(u128::from(rep.device.read_bytes) << 64 | u128::from(rep.device.written_bytes));
            for p in &rep.procs {
                add(u128::from(p.bytes));
                add(p.latency.sum());
            }
        }
    }
    hash
}

impl Identity {
    /// What tells a drive in a machine from another.
    pub fn key_of_drive(&self) -> Vec<&str> {
        if let Some(serial) = &self.serial {
            return vec![self.model.as_deref().unwrap_or_default(), serial];
        }
        let rest = [&self.model, &self.size, &self.cpu, &self.kernel];
        let rest = rest.into_iter().map(|t| t.as_deref().unwrap_or_default());
        std::iter::once(self.drive.as_str()).chain(rest).collect()
    }
}
