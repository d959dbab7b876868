//! The jobs as an experiment file: what `hoistway compare --job` runs, and what it shows with `hoistway show`.

use super::jobs::{Direction, Job};
use super::{Error, JobFile};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Longest measured time of jobs whose end is not known beforehand. Measuring ends when the last job does.
const LIMIT_S: u64 = 3600;
const SECOND: u64 = 1_000_000_000;

/// The experiment file of a job file called `title`; `target`: the job that is measured as the target.
///
/// # Errors
///
/// A target that does not exist or has several processes.
pub fn experiment(file: &JobFile, title: &str, target: Option<&str>) -> Result<String, Error> {
    let names = names(&file.jobs);
    let target = match target {
        None => None,
        Some(wanted) => Some(find_target(&file.jobs, wanted)?),
    };
    let stages = stages(&file.jobs);
    let mut out = String::new();
    let about: Vec<&str> =
        file.jobs.iter().map(|j| j.description.as_str()).filter(|d| !d.is_empty()).collect();
    let about = match about.is_empty() {
        true => format!("The jobs of {title}."),
        false => about.join(" "),
    };
    let judge = if target.is_some() { "latency" } else { "throughput" };
    let _ = write!(
        out,
        "# Made from a fio job file.\nschema = 1\ntitle = {}\nabout = {}\njudge = \"{judge}\"\n\
         drives = [\"plextor-px-256m5s\"]\nconfigs = [\"none-none\", \"mq-deadline\", \"kyber\", \"bfq\"]\n\
         workloads = [\"jobs\"]\nreps = 3\n\n[host]\nprofile = \"today\"\n\n",
        text(&format!("fio jobs of {title}")),
        text(&about)
    );
    window(&mut out, file, &stages, target);
    groups(&mut out, file, &names);
    let _ = write!(out, "[workload.jobs]\nsummary = {}\n", text(&summary(&file.jobs)));
    let files = shared_files(&file.jobs);
    for (i, job) in file.jobs.iter().enumerate() {
        // Copies whose regions differ are processes of their own.
        let apart = job.numjobs > 1 && job.offset_increment > 0;
        let copies = if apart { job.numjobs } else { 1 };
        for copy in 0..copies {
            if target == Some(i) {
                out.push_str("\n[workload.jobs.target]\n");
            } else {
                let name = if apart { format!("{}-{copy}", names[i]) } else { names[i].clone() };
                let _ = write!(out, "\n[[workload.jobs.procs]]\nname = {}\n", text(&name));
                if job.numjobs > 1 && !apart {
                    let _ = writeln!(out, "count = {}", job.numjobs);
                }
            }
            let offset = job.offset.saturating_add(copy.saturating_mul(job.offset_increment));
            process(&mut out, &file.jobs, i, offset, stages[i], &files);
        }
    }
    Ok(out)
}

/// A text in quotes as TOML has it.
fn text(text: &str) -> String {
    let mut out = String::from('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => {
                out.push('\\');
                out.push(c);
            }
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Names of processes: letters, digits, - and _, none twice, and none that a numbered one may have.
fn names(jobs: &[Job]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for job in jobs {
        let clean =
            |c: char| if c.is_ascii_alphanumeric() || c == '-' || c == '_' { c } else { '_' };
        let mut name: String = job.name.chars().map(clean).collect();
        // Its copies are numbered.
        if job.numjobs > 1 {
            name.push('-');
        }
        if name == "target" {
            name = "target-job".into();
        }
        let base = name.clone();
        let mut n = 2;
        while names.contains(&name) {
            name = format!("{base}_{n}");
            n += 1;
        }
        names.push(name);
    }
    names
}

fn find_target(jobs: &[Job], wanted: &str) -> Result<usize, Error> {
    let wrong = |what: String| Err(Error { place: None, what });
    match jobs.iter().position(|j| j.name == wanted) {
        Some(i) if jobs[i].numjobs == 1 => Ok(i),
        Some(i) => {
            wrong(format!("the target is one process; job '{wanted}' has {}", jobs[i].numjobs))
        }
        None => {
            let known: Vec<&str> = jobs.iter().map(|j| j.name.as_str()).collect();
            wrong(format!("no job '{wanted}'; there are: {}", known.join(", ")))
        }
    }
}

/// The stage of each job: those of a stage begin when the ones before are over.
fn stages(jobs: &[Job]) -> Vec<usize> {
    let mut stage = 0;
    let mut stages = Vec::new();
    for (i, job) in jobs.iter().enumerate() {
        if job.stonewall && i > 0 {
            stage += 1;
        }
        stages.push(stage);
    }
    stages
}

fn window(out: &mut String, file: &JobFile, stages: &[usize], target: Option<usize>) {
    let last = stages.last().copied().unwrap_or(0);
    let ramp = match last {
        // Behind a first stage there is no beginning that all have in common.
        0 => file.jobs.iter().map(|j| j.ramp).max().unwrap_or(0),
        _ => 0,
    };
    // A stage lasts as long as its longest job; one without a time may last for ever.
    let mut whole = Some(0u64);
    for stage in 0..=last {
        let jobs = file.jobs.iter().zip(stages).filter(|(_, s)| **s == stage);
        let longest = jobs
            .map(|(j, _)| j.runtime.map(|t| t.saturating_add(j.startdelay)))
            .max_by_key(|t| t.unwrap_or(u64::MAX));
        whole = match (whole, longest.flatten()) {
            (Some(sum), Some(time)) => sum.checked_add(time),
            _ => None,
        };
        let open = file
            .jobs
            .iter()
            .zip(stages)
            .any(|(j, s)| *s == stage && (j.runtime.is_none() || j.wait_for.is_some()));
        if open {
            whole = None;
        }
    }
    // The last calls end a little later.
    let limit = LIMIT_S * SECOND;
    let measured = whole.map_or(limit, |sum| sum.saturating_add(60 * SECOND)).min(86_400 * SECOND);
    let measured = match target.and_then(|i| file.jobs[i].runtime) {
        Some(time) if last == 0 => time,
        _ => measured,
    };
    let _ = writeln!(
        out,
        "[window]\nramp = \"{}us\"\nmeasured = \"{}us\"",
        ramp / 1000,
        measured / 1000
    );
    if target.is_some() {
        out.push_str("grace = \"60s\"\n");
    }
    out.push_str("target_interval = \"500ms\"\ndevice_interval = \"1s\"\n\n");
}

fn groups(out: &mut String, file: &JobFile, names: &[String]) {
    let mut groups: BTreeMap<&str, (Vec<String>, Option<u64>)> = BTreeMap::new();
    for (job, name) in file.jobs.iter().zip(names) {
        let Some(group) = job.cgroup.as_deref() else { continue };
        let group = groups.entry(group.trim_matches('/')).or_default();
        match job.numjobs > 1 && job.offset_increment > 0 {
            true => group.0.extend((0..job.numjobs).map(|i| text(&format!("{name}-{i}")))),
            false => group.0.push(text(name)),
        }
        group.1 = job.cgroup_weight.or(group.1);
    }
    for (path, (procs, weight)) in groups {
        let _ = writeln!(
            out,
            "[[group]]\npath = {}\nprocs = [{}]",
            text(&format!("/{path}")),
            procs.join(", ")
        );
        if let Some(weight) = weight {
            let bfq = weight.min(1000);
            let _ = writeln!(out, "write = [\"io.weight: {weight}\", \"io.bfq.weight: {bfq}\"]");
        }
        out.push('\n');
    }
}

fn summary(jobs: &[Job]) -> String {
    let one = |job: &Job| {
        let random = if job.random { "rand" } else { "" };
        let kind = match job.direction {
            Direction::Read => "read",
            Direction::Write => "write",
            Direction::Mixed => "rw",
        };
        let copies = if job.numjobs > 1 { format!("{} x ", job.numjobs) } else { String::new() };
        format!("{copies}{} ({random}{kind})", job.name)
    };
    jobs.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// Files that several processes use, and the size that is enough for all.
fn shared_files(jobs: &[Job]) -> BTreeMap<&str, (u64, u64)> {
    let mut files: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for job in jobs {
        let Some(name) = job.filename.as_deref().filter(|n| !n.starts_with("/dev/")) else {
            continue;
        };
        let last = (job.numjobs - 1).saturating_mul(job.offset_increment);
        let end = job.offset.saturating_add(last).saturating_add(job.size.unwrap_or(0));
        let entry = files.entry(name).or_default();
        entry.0 = entry.0.max(end).max(job.filesize.unwrap_or(0));
        entry.1 += job.numjobs;
    }
    files
}

fn process(
    out: &mut String,
    jobs: &[Job],
    i: usize,
    offset: u64,
    stage: usize,
    files: &BTreeMap<&str, (u64, u64)>,
) {
    let job = &jobs[i];
    let mut put = |key: &str, value: String| {
        let _ = writeln!(out, "{key} = {value}");
    };
    let random = if job.random { "rand" } else { "" };
    let kind = match job.direction {
        Direction::Read => "read",
        Direction::Write => "write",
        Direction::Mixed => "rw",
    };
    put("load", text("job"));
    if let Some(prio) = &job.prio {
        put("prio", text(prio));
    }
    put("rw", text(&format!("{random}{kind}")));
    if job.direction == Direction::Mixed {
        put("mix", job.mix.to_string());
    }
    put("bs", text(&job.sizes[0]));
    put("bs_write", text(&job.sizes[1]));
    if let Some(size) = job.size {
        put("size", size.to_string());
    }
    place(&mut put, job, offset, files);
    times(&mut put, job);
    let mut number = |key: &str, value: u64, usual: u64| {
        if value != usual {
            put(key, value.to_string());
        }
    };
    number("random", job.percentage_random, 100);
    number("row", job.row, 1);
    number("hole", job.hole, 0);
    number("depth", job.depth, 1);
    if let Some(low) = job.depth_low {
        number("depth_low", low, u64::MAX);
    }
    number("batch", job.batch, 1);
    number("batch_complete", job.batch_complete, 1);
    number("fsync", job.fsync, 0);
    number("fdatasync", job.fdatasync, 0);
    number("loops", job.loops, 1);
    number("rate", job.rate[0], 0);
    number("rate_write", job.rate[1], 0);
    number("rate_iops", job.rate_iops[0], 0);
    number("rate_iops_write", job.rate_iops[1], 0);
    if let Some(align) = job.align {
        number("align", align, 0);
    }
    if let Some(distribution) = &job.distribution {
        put("distribution", text(distribution));
    }
    for (key, value, usual) in [
        ("direct", job.direct, false),
        ("repeat_blocks", job.repeat_blocks, false),
        ("advice", job.advise, true),
        ("keep_cache", !job.invalidate, false),
        ("poisson", job.poisson, false),
        ("end_fsync", job.end_fsync, false),
        ("sync", job.sync, false),
        ("time_based", job.time_based, false),
    ] {
        if value != usual {
            put(key, value.to_string());
        }
    }
    barriers(&mut put, jobs, i, stage);
}

/// Where its region lies.
fn place(
    put: &mut dyn FnMut(&str, String),
    job: &Job,
    offset: u64,
    files: &BTreeMap<&str, (u64, u64)>,
) {
    if offset > 0 {
        put("offset", offset.to_string());
    }
    if let Some(io_size) = job.io_size {
        put("io_size", io_size.to_string());
    }
    let name = job.filename.as_deref();
    if name.is_some_and(|n| n.starts_with("/dev/")) {
        return put("raw", "true".into());
    }
    let shared = name.and_then(|n| files.get_key_value(n)).filter(|(_, (_, users))| *users > 1);
    match shared {
        Some((name, (size, _))) => {
            put("file", text(name));
            put("file_size", size.to_string());
        }
        None => {
            let end = offset.saturating_add(job.size.unwrap_or(0));
            let whole = job.filesize.unwrap_or(0).max(end);
            if whole > end {
                put("file_size", whole.to_string());
            }
            // Nobody has written it before.
            if job.direction == Direction::Write && !job.overwrite {
                put("new_file", "true".into());
            }
        }
    }
}

fn times(put: &mut dyn FnMut(&str, String), job: &Job) {
    let mut time = |key: &str, ns: u64| {
        if ns > 0 {
            put(key, format!("\"{}us\"", ns / 1000));
        }
    };
    // What is not measured comes before the time that is.
    time("run", job.runtime.map_or(0, |t| t.saturating_add(job.ramp)));
    time("delay", job.startdelay);
    time("think", job.think);
    time("think_spin", job.think_spin);
    if job.think_blocks > 1 && job.think > 0 {
        put("think_blocks", job.think_blocks.to_string());
    }
}

/// Stages, and jobs that wait for one.
fn barriers(put: &mut dyn FnMut(&str, String), jobs: &[Job], i: usize, stage: usize) {
    let last = stages(jobs).last().copied().unwrap_or(0);
    let mut waits = Vec::new();
    let mut ends = Vec::new();
    if stage > 0 {
        waits.push(format!("stage-{stage}"));
    }
    let number = |name: &str| jobs.iter().position(|j| j.name == name);
    if let Some(of) = jobs[i].wait_for.as_deref().and_then(number) {
        waits.push(format!("job-{of}"));
    }
    let awaited = jobs.iter().any(|j| j.wait_for.as_deref().and_then(number) == Some(i));
    if awaited {
        ends.push(format!("job-{i}"));
    }
    if stage < last {
        ends.push(format!("stage-{}", stage + 1));
    }
    if !waits.is_empty() {
        put("waits_for", text(&waits.join(" ")));
    }
    if !ends.is_empty() {
        put("ends_at", text(&ends.join(" ")));
    }
}
