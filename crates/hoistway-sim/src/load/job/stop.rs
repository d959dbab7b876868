//! Jobs that end when another one does.

use super::super::Build;
use hoistway_run::JobError;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

type Flag = Arc<AtomicBool>;

/// Flags that a job raises when it is over, and those that end it.
#[derive(Debug, Default)]
pub(super) struct Stop {
    raises: Vec<Flag>,
    heeds: Vec<Flag>,
}

impl Stop {
    /// Parameters `stops` and `stopped_by`.
    pub fn new(build: &mut Build<'_>) -> Result<Stop, JobError> {
        let mut flags = |name: &str| -> Result<Vec<Flag>, JobError> {
            let names = build.params.text(name)?.unwrap_or_default();
            let host = &mut *build.host;
            let flag = |name: &str| {
                host.shared_memory(&format!("job/stop/{name}"), |_| Ok(AtomicBool::new(false)))
            };
            names.split_whitespace().map(flag).collect()
        };
        Ok(Stop { raises: flags("stops")?, heeds: flags("stopped_by")? })
    }

    pub fn is_stopped(&self) -> bool {
        self.heeds.iter().any(|flag| flag.load(Ordering::Relaxed))
    }

    pub fn stop_others(&self) {
        self.raises.iter().for_each(|flag| flag.store(true, Ordering::Relaxed));
    }
}
