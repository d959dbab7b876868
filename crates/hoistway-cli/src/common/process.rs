//! This process: its build, its arguments, its threads, and the signals that stop it.

use crate::failure::Failure;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// Names this build: version, size and time of the program file.
pub fn program() -> String {
    let file = std::env::current_exe().and_then(std::fs::metadata).ok();
    let built = file.as_ref().and_then(|f| f.modified().ok());
    let since = built.and_then(|t| t.duration_since(std::time::UNIX_EPOCH).ok());
    let size = file.map_or(0, |f| f.len());
    format!("{} {size} {}", env!("CARGO_PKG_VERSION"), since.map_or(0, |t| t.as_nanos()))
}

/// The arguments in words, for people.
#[cfg(all(feature = "live", target_os = "linux"))]
pub fn arguments() -> String {
    let all: Vec<_> = std::env::args_os().skip(1).collect();
    all.join(std::ffi::OsStr::new(" ")).to_string_lossy().into_owned()
}

/// So many as wanted, or one per core.
pub fn threads(jobs: Option<u16>) -> usize {
    match jobs {
        Some(n) => usize::from(n),
        None => std::thread::available_parallelism().map_or(1, |n| n.get()),
    }
}

/// Set by Ctrl-C, SIGTERM and SIGHUP from the first call on; the same for all callers. Whoever changes the machine asks
/// for it before the first change: without it a signal ends the program on the spot, and nothing is put back.
pub fn stop_flag() -> Result<Arc<AtomicBool>, Failure> {
    static STOP: OnceLock<Arc<AtomicBool>> = OnceLock::new();
    if let Some(stop) = STOP.get() {
        return Ok(Arc::clone(stop));
    }
    let stop = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&stop);
    ctrlc::set_handler(move || flag.store(true, Ordering::Relaxed))
        .map_err(|e| Failure::Environment(format!("Ctrl-C cannot be caught: {e}")))?;
    Ok(Arc::clone(STOP.get_or_init(|| stop)))
}
