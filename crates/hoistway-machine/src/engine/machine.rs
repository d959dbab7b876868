//! What kind of machine this is.

use std::fs::read_to_string;

/// Bytes of memory that can be used without swapping (`MemAvailable`).
pub(crate) fn memory_available() -> u64 {
    let text = read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|l| l.split_whitespace().next()).and_then(|n| n.parse::<u64>().ok());
    // Without /proc nobody knows: the kernel says when there is none left.
    kib.map_or(u64::MAX, |kib| kib * 1024)
}

/// Kernel and processor.
pub(crate) fn facts() -> Vec<(String, String)> {
    let kernel = read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let cpus = read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpus.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == "model name").then(|| value.trim().to_string())
    });
    let count = std::thread::available_parallelism().map_or(1, |n| n.get());
    let cpu = format!("{count} x {}", model.unwrap_or_else(|| std::env::consts::ARCH.into()));
    let rows = [("kernel", format!("Linux {}", kernel.trim())), ("cpu", cpu)];
    rows.into_iter().map(|(name, value)| (name.to_string(), value)).collect()
}

/// How much of the processors' time the hypervisor has given to others.
#[derive(Clone, Copy, Debug)]
pub struct Processors {
    stolen: u64,
    all: u64,
}

impl Processors {
    /// Since the machine was started; `None` where the kernel does not say.
    pub fn now() -> Option<Processors> {
        Processors::read(&read_to_string("/proc/stat").ok()?)
    }

    fn read(text: &str) -> Option<Processors> {
        let line = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
        // user, nice, system, idle, iowait, irq, softirq, steal; guests' time is in the first two.
        let ticks: Vec<u64> =
            line.split_whitespace().take(8).map_while(|n| n.parse().ok()).collect();
        Some(Processors { stolen: *ticks.get(7)?, all: ticks.iter().sum() })
    }

    /// Share of the time since then that was taken away, 0 to 1.
    pub fn stolen_since(&self, then: &Processors) -> f64 {
        let all = self.all.saturating_sub(then.all).max(1);
        self.stolen.saturating_sub(then.stolen) as f64 / all as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stolen_time_is_a_share_of_all() {
        let read = |line: &str| Processors::read(line).unwrap();
        let before = read("cpu  100 0 50 800 10 0 5 35 7 0\ncpu0 1 2 3\n");
        let after = read("cpu  150 0 50 830 10 0 5 55 9 0\n");
        assert_eq!(after.stolen_since(&before), 0.2);
        assert_eq!(after.stolen_since(&after), 0.0);
        assert!(Processors::read("cpu  1 2 3\n").is_none(), "a kernel older than steal");
        assert!(Processors::now().is_some());
    }
}
