//! What to write on a machine whose own kernel is to keep the targets: the best of its means, and its lines.

use super::{OTHERS, Report, Way, WhatIfQuestion};
use hoistway::IoPrio;

/// The kernel's own means for the targets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelMeans {
    /// The configuration, one of [`OTHERS`].
    pub config: &'static str,
    /// It keeps every target.
    pub kept: bool,
    /// The throughput that it leaves, in thousandths of that without control.
    pub permille: u32,
    /// Lines for a shell, with `DEVICE`, `MAJ:MIN` (the device's number) and `PID` to fill in.
    pub lines: Vec<String>,
}

impl WhatIfQuestion {
    /// Of the kernel's means those that keep every target, and of these the one that leaves the most throughput;
    /// else the one whose worst target is the least far off.
    pub fn kernel(&self, report: &Report) -> KernelMeans {
        // How far the worst target is off, in thousandths of its number; without a number the latency itself.
        let off = |n: usize| {
            let measured = report.others[n].targets.iter().zip(&self.wanted);
            let off = measured.map(|(measured, wanted)| match (measured, wanted.target) {
                (None, _) => u64::MAX,
                (Some(m), Some(target)) => m.p99.0.saturating_mul(1000) / target.0.max(1),
                (Some(m), None) => m.p99.0,
            });
            off.max().unwrap_or(u64::MAX)
        };
        let numbered = self.wanted.iter().all(|w| w.target.is_some());
        let permille = |n: usize| report.kept_permille(&report.others[n]);
        let kept = |n: usize| numbered && off(n) <= 1000;
        let best = (1..OTHERS.len()).min_by_key(|&n| match kept(n) {
            true => (false, u64::from(1000u32.saturating_sub(permille(n))), n),
            false => (true, off(n), n),
        });
        let n = best.expect("there are means beside no control");
        let (config, kept, permille) = (OTHERS[n], kept(n), permille(n));
        KernelMeans { config, kept, permille, lines: self.kernel_lines(config) }
    }

    /// What a configuration writes, as lines of a shell.
    pub(super) fn kernel_lines(&self, config: &'static str) -> Vec<String> {
        let job = self.job(&Way::Other(config)).expect("it has run");
        let number = |line: &str| line.replacen(crate::config::DEVICE, "MAJ:MIN", 1);
        let scheduler = job.scheduler.entry.name;
        let mut lines = vec![format!("echo {scheduler} > /sys/block/DEVICE/queue/scheduler")];
        for (name, value) in &job.scheduler.set {
            lines.push(format!("echo {value} > /sys/block/DEVICE/queue/iosched/{name}"));
        }
        for (file, line) in &job.control.root {
            lines.push(format!("echo '{}' > /sys/fs/cgroup/{file}", number(line)));
        }
        for wanted in &self.wanted {
            let group = job.groups.iter().find(|g| g.name == wanted.name);
            for (file, line) in group.iter().flat_map(|g| &g.write) {
                lines.push(format!(
                    "echo '{}' > /sys/fs/cgroup/{}/{file}",
                    number(line),
                    wanted.name
                ));
            }
            let real_time = IoPrio::rt(4);
            let mut procs = job.procs.iter().filter(|p| super::is(p, &wanted.name));
            if procs.any(|p| p.prio == real_time) {
                lines.push(format!("ionice -c 1 -n 4 -p PID    # of {}", wanted.name));
            }
        }
        lines
    }
}
