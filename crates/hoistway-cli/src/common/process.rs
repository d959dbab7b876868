//! This process: its build, its arguments, its threads, and the signals that stop it.

use crate::failure::Failure;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// Names this build: version, and size and digest of the program file, which are the same on every machine. A program with
/// debug assertions is ten times as large, slow at this, and tested where it was built: its time stands for the digest.
pub fn program() -> String {
    static PROGRAM: OnceLock<String> = OnceLock::new();
    let mark = || if cfg!(debug_assertions) { built() } else { digest() };
    PROGRAM.get_or_init(|| format!("{} {}", env!("CARGO_PKG_VERSION"), mark())).clone()
}

fn built() -> String {
    let file = std::env::current_exe().and_then(std::fs::metadata).ok();
    let time = file.as_ref().and_then(|f| f.modified().ok());
    let since = time.and_then(|t| t.duration_since(std::time::UNIX_EPOCH).ok());
    format!("{} built {}", file.map_or(0, |f| f.len()), since.map_or(0, |t| t.as_nanos()))
}

fn digest() -> String {
    let mut sum = flate2::CrcWriter::new(std::io::sink());
    let file = std::env::current_exe().and_then(std::fs::File::open);
    // Of a file that cannot be read, what can be.
    let _ = file.and_then(|mut file| std::io::copy(&mut file, &mut sum));
    format!("{} {:08x}", sum.crc().amount(), sum.crc().sum())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_one_digest() {
        assert_eq!(digest(), digest());
        assert!(!digest().starts_with("0 "), "the file was read");
    }
}
