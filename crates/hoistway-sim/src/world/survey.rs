//! What a job touches, found out without running it.

use super::Job;
use super::machine::{Machine, Platform};
use crate::drive::Command;
use crate::host::{Host, Operation, Ran};
use crate::load::Load;
use hoistway::{Device, Instant, ReqId, Stack};
use hoistway_run::JobError;

/// Places on the device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Survey {
    /// Files, the journal, and what loads read beside files: first byte and length.
    pub places: Vec<(u64, u64)>,
    /// Some load reads the device as a whole.
    pub whole: bool,
}

/// Where the job's I/O goes on `device`.
///
/// # Errors
///
/// Those of setting the job up.
pub fn survey(job: &Job<'_>, device: Device) -> Result<Survey, JobError> {
    let platform = |loads: Vec<Box<dyn Load>>, host: &Host| {
        let whole = host.whole_device();
        let files = host.places().into_iter().enumerate();
        let files = files.filter(|(i, _)| whole.is_none_or(|file| file.0 as usize != *i));
        let mut places: Vec<(u64, u64)> = files.map(|(_, place)| place).collect();
        places.extend(loads.iter().flat_map(|load| load.places()));
        Ok(Surveyor(Survey { places, whole: whole.is_some() }))
    };
    Ok(Machine::new(job, device, platform)?.into_platform().0)
}

/// Nothing runs on it.
struct Surveyor(Survey);

impl Platform for Surveyor {
    fn issue(&mut self, _now: Instant, _command: Command, _req: ReqId, _stack: &Stack) {
        unreachable!("a survey runs nothing");
    }

    fn next(&mut self, _now: Instant, _p: usize) -> Option<Operation> {
        None
    }

    fn ran(&mut self, _now: Instant, _p: usize, _ran: &Ran, _host: &Host) -> bool {
        true
    }
}
