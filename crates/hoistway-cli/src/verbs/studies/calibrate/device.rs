//! `calibrate DEVICE|DIR`: a real drive is asked.

use super::{Calibrate, Session, check_places, usage, wanted};
use crate::failure::Failure;
use hoistway::quantity;
use hoistway_machine::MachineError;
use hoistway_machine::calibrate::{Allowed, look, open};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

static STOP: AtomicBool = AtomicBool::new(false);

/// Short tests run once; others three times, and the median counts (specs/drives.md 10.1).
const REPETITIONS: usize = 3;

pub fn of_device(options: &Calibrate, target: &Path) -> Result<(), Failure> {
    let scratch_bytes = quantity::bytes(&options.size)
        .map_err(|e| usage(&format!("--size {}", options.size), e))?;
    if scratch_bytes < SCRATCH_LEAST {
        return Err(usage("--size", "at least 64MiB, or the places would be too few"));
    }
    let allowed = Allowed {
        write: options.write,
        destroy: options.yes_destroy_data.clone(),
        scratch_bytes,
        bus: options.bus.clone(),
    };
    let wanted = wanted(options, options.write)?;
    let repetitions = if options.quick { 1 } else { REPETITIONS };
    let session = |subject, notes| Session {
        options,
        wanted: wanted.clone(),
        subject,
        exclude: Vec::new(),
        repetitions,
        notes,
    };
    if options.dry_run {
        let (_, subject, notes) = look(target, &allowed).map_err(environment)?;
        return session(subject, notes).plan();
    }
    let out = options.out.clone().unwrap_or_else(|| PathBuf::from("calibrated.toml"));
    check_places(options, Some(&out))?;
    // A second signal ends the program at once; `hoistway restore` then puts back what is left.
    let handler = || {
        if STOP.swap(true, Ordering::Relaxed) {
            std::process::exit(130);
        }
    };
    ctrlc::set_handler(handler).map_err(|e| Failure::Failed(format!("signals: {e}")))?;
    let mut progress = |what: &str| {
        if !options.quiet {
            eprintln!("{what}");
        }
    };
    let opened = open(target, &allowed, &STOP, &mut progress);
    let opened = opened.map_err(|e| match STOP.load(Ordering::Relaxed) {
        true => Failure::Interrupted("interrupted; nothing was written".into()),
        false => environment(e),
    })?;
    if !options.quiet {
        eprintln!("{}", opened.chain);
    }
    let mut probe = opened.probe(options.seed, wanted.write_budget, &STOP).map_err(environment)?;
    let session = session(opened.subject.clone(), opened.notes.clone());
    let raw = session.ask(&mut probe, Some(&out));
    drop(probe);
    let flags = opened.close().map_err(|problems| Failure::Failed(problems.join("; ")))?;
    let mut raw = raw?;
    raw.notes.extend(flags);
    session.answer(&raw, Some(&out))
}

/// Smallest scratch file.
const SCRATCH_LEAST: u64 = 64 << 20;

/// What the machine lacks is its environment's matter; what contradicts itself is the caller's.
fn environment(e: MachineError) -> Failure {
    match e {
        MachineError::Refused(what) => Failure::Usage(what),
        MachineError::Os { ref error, .. } if error.kind() == std::io::ErrorKind::NotFound => {
            Failure::Usage(e.to_string())
        }
        MachineError::Os { ref error, .. }
            if error.kind() == std::io::ErrorKind::PermissionDenied =>
        {
            let remedy = "run it as root; in a container the device has to be allowed, too";
            Failure::Environment(format!("{e}; {remedy}"))
        }
        e => Failure::Environment(e.to_string()),
    }
}
