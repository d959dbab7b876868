//! What kind of machine this is.

use std::fs::read_to_string;

/// Bytes of memory that can be used without swapping (`MemAvailable`).
pub(super) fn memory_available() -> u64 {
    let text = read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|l| l.split_whitespace().next()).and_then(|n| n.parse::<u64>().ok());
    // Without /proc nobody knows: the kernel says when there is none left.
    kib.map_or(u64::MAX, |kib| kib * 1024)
}

/// Kernel and processor.
pub(super) fn facts() -> Vec<(String, String)> {
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
