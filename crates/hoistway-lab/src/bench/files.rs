//! How much room the files of a part take: said in the plan, before anything is laid out.
//!
//! A survey of the simulated host would count the journal and the file system's own places, which a real directory
//! has already. The suite's loads say the sizes of their files themselves.

use hoistway_run::{JobError, ProcSpec};
use hoistway_sim::load::params;
use hoistway_sim::world::Job;

/// Bytes of the job's files.
pub fn bytes(job: &Job<'_>) -> Result<u64, JobError> {
    job.procs.iter().map(of_proc).sum()
}

fn of_proc(proc: &ProcSpec) -> Result<u64, JobError> {
    let given = |name: &str| {
        let value =
            proc.params.get(name).ok_or_else(|| wrong(proc, format!("{name} is not given")))?;
        params::quantity(value).map_err(|e| wrong(proc, format!("{name}: {e}")))
    };
    match proc.load.as_str() {
        "reader" | "writer" => given("size"),
        // It and its copy.
        "file_copy" => Ok(2 * given("size")?),
        "fsync_tester" => given("bs"),
        // It reads the drive, not files.
        "app_start" => Ok(0),
        other => Err(wrong(proc, format!("the suite has no rule for the files of load '{other}'"))),
    }
}

fn wrong(proc: &ProcSpec, message: String) -> JobError {
    JobError::Parameter { of: proc.name.clone(), message }
}

#[cfg(test)]
mod tests {
    use super::super::suite::SUITE;
    use super::*;
    use crate::config::Config;
    use crate::experiment::Experiment;
    use hoistway_sim::drive::DriveFile;

    #[test]
    fn the_files_of_every_part_are_a_few_hundred_megabytes() {
        let drive = DriveFile::load("plextor-px-256m5s").unwrap();
        let config = Config::parse("none").unwrap();
        for part in SUITE {
            let e = Experiment::load(part.experiment).unwrap();
            let workload = e.workload(part.workload).unwrap();
            let job = e.job(&drive, workload, &config, 1, &Default::default()).unwrap();
            let bytes = bytes(&job).unwrap();
            assert!((64 << 20..=352 << 20).contains(&bytes), "{part:?}: {bytes}");
        }
    }
}
