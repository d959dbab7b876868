//! The jobs as an experiment file: what `hoistway compare --job` runs, and what it shows with `hoistway show`.

use super::job::{Direction, Exits, Job};
use super::process::{Setting, process};
use super::{Error, JobFile};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// Longest measured time of jobs whose end is not known beforehand. Measuring ends when the last job does.
const LIMIT_S: u64 = 3600;
/// Longest of all.
const DAY_S: u64 = 86_400;
const SECOND: u64 = 1_000_000_000;
/// Jobs that a summary names.
const NAMED: usize = 12;

/// Jobs as an experiment.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// The experiment file.
    pub text: String,
    /// Every entry for processes, in the order of the file: its name, and the number of its job.
    pub procs: Vec<(String, usize)>,
    /// What it cannot do as a whole.
    pub notes: Vec<String>,
}

/// The experiment file of jobs called `title`; `target`: the job that is measured as the target.
///
/// # Errors
///
/// A target that does not exist or has several processes.
pub fn experiment(file: &JobFile, title: &str, target: Option<&str>) -> Result<Experiment, Error> {
    let names = names(&file.jobs);
    let target = target.map(|wanted| find_target(&file.jobs, wanted)).transpose()?;
    let plan = Plan::new(&file.jobs);
    let mut out = String::new();
    let about: BTreeSet<&str> =
        file.jobs.iter().map(|j| j.description.as_str()).filter(|d| !d.is_empty()).collect();
    let about = match about.is_empty() {
        true => format!("The jobs of {title}."),
        false => about.into_iter().collect::<Vec<_>>().join(" "),
    };
    let judge = if target.is_some() { "latency" } else { "throughput" };
    let _ = write!(
        out,
        "# Made from fio jobs.\nschema = 1\ntitle = {}\nabout = {}\njudge = \"{judge}\"\n\
         drives = [\"plextor-px-256m5s\"]\nconfigs = [\"none-none\", \"mq-deadline\", \"kyber\", \"bfq\"]\n\
         workloads = [\"jobs\"]\nreps = 3\n\n[host]\nprofile = \"today\"\n\n",
        text(&match target {
            Some(i) => format!("fio jobs of {title}, target {}", names[i]),
            None => format!("fio jobs of {title}"),
        }),
        text(&about)
    );
    let mut notes = Vec::new();
    notes.extend(target.and_then(|i| plan.behind(i, &names)));
    window(&mut out, file, &plan, target, &mut notes);
    groups(&mut out, file, &names);
    let _ = write!(out, "[workload.jobs]\nsummary = {}\n", text(&summary(&file.jobs)));
    let mut procs = Vec::new();
    for (i, job) in file.jobs.iter().enumerate() {
        // Copies whose regions differ are processes of their own.
        let apart = is_apart(job);
        for copy in 0..if apart { job.numjobs } else { 1 } {
            if target == Some(i) {
                out.push_str("\n[workload.jobs.target]\n");
                procs.push(("target".to_string(), i));
            } else {
                let name = if apart { format!("{}-{copy}", names[i]) } else { names[i].clone() };
                let _ = write!(out, "\n[[workload.jobs.procs]]\nname = {}\n", text(&name));
                if job.numjobs > 1 && !apart {
                    let _ = writeln!(out, "count = {}", job.numjobs);
                }
                procs.push((name, i));
            }
            for (key, value) in process(job, copy, &plan.of(i)) {
                let _ = match value {
                    Setting::Text(value) => writeln!(out, "{key} = {}", text(&value)),
                    Setting::Texts(list) => {
                        let list: Vec<String> = list.iter().map(|name| text(name)).collect();
                        writeln!(out, "{key} = [{}]", list.join(", "))
                    }
                    Setting::Bare(value) => writeln!(out, "{key} = {value}"),
                };
            }
        }
    }
    Ok(Experiment { text: out, procs, notes })
}

/// Its copies do not use the same part of a file.
fn is_apart(job: &Job) -> bool {
    job.numjobs > 1 && job.offset_increment != super::Amount::Bytes(0)
}

/// What follows from all jobs together.
struct Plan<'a> {
    jobs: &'a [Job],
    /// The stage of each job: those of a stage begin when the ones before are over.
    stages: Vec<usize>,
    /// Jobs that others wait for.
    awaited: BTreeSet<usize>,
    /// Files that several processes use, and the size that is enough for all.
    files: BTreeMap<&'a str, u64>,
    /// Flags that jobs raise when they are over.
    raised: BTreeSet<String>,
}

/// What follows for one job.
pub(crate) struct Part<'a> {
    /// Size of a file that it uses with others.
    pub shared: Option<u64>,
    pub waits_for: Vec<String>,
    pub ends_at: Vec<String>,
    pub stops: Option<String>,
    pub stopped_by: Vec<String>,
    /// Names of its files, if they are shared.
    pub names: &'a [String],
}

impl<'a> Plan<'a> {
    fn new(jobs: &'a [Job]) -> Plan<'a> {
        let mut stage = 0;
        let mut stages = Vec::with_capacity(jobs.len());
        for job in jobs {
            stage += usize::from(job.stonewall);
            stages.push(stage);
        }
        let awaited = jobs.iter().filter_map(|job| job.wait_for).collect();
        let raised = jobs.iter().zip(&stages).filter_map(|(job, stage)| flag(job, *stage));
        let raised = raised.collect();
        Plan { jobs, awaited, files: shared_files(jobs), raised, stages }
    }

    /// Says that jobs which begin behind the target do not run: measuring ends with it.
    fn behind(&self, target: usize, names: &[String]) -> Option<String> {
        let mut late: BTreeSet<usize> = BTreeSet::from([target]);
        // A job waits for one that stands before it.
        for (i, job) in self.jobs.iter().enumerate() {
            if self.stages[i] > self.stages[target]
                || job.wait_for.is_some_and(|of| late.contains(&of))
            {
                late.insert(i);
            }
        }
        late.remove(&target);
        let all: Vec<&str> = late.iter().map(|&i| names[i].as_str()).collect();
        let more = all.len().saturating_sub(NAMED);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let shown = all[..all.len().min(NAMED)].join(", ");
        (!all.is_empty()).then(|| {
            format!(
                "measuring ends when the target, job '{}', is over, so that what begins behind it does not run: {shown}{more}; \
                 without --target all jobs run",
                names[target]
            )
        })
    }

    fn of(&self, i: usize) -> Part<'_> {
        let (job, stage) = (&self.jobs[i], self.stages[i]);
        let last = self.stages.last().copied().unwrap_or(0);
        let mut waits_for = Vec::new();
        let mut ends_at = Vec::new();
        if stage > 0 {
            waits_for.push(format!("stage-{stage}"));
        }
        waits_for.extend(job.wait_for.map(|of| format!("job-{of}")));
        if self.awaited.contains(&i) {
            ends_at.push(format!("job-{i}"));
        }
        if stage < last {
            ends_at.push(format!("stage-{}", stage + 1));
        }
        let stopped_by = [format!("group-{}", job.group), format!("stage-{stage}"), "all".into()];
        let stopped_by = stopped_by.into_iter().filter(|f| self.raised.contains(f)).collect();
        let shared = job.files.first().and_then(|name| self.files.get(name.as_str())).copied();
        let shared = shared.filter(|_| !job.raw);
        let names = if shared.is_some() { &job.files[..] } else { &[] };
        Part { shared, waits_for, ends_at, stops: flag(job, stage), stopped_by, names }
    }
}

fn flag(job: &Job, stage: usize) -> Option<String> {
    Some(match job.exits? {
        Exits::Group => format!("group-{}", job.group),
        Exits::Stage => format!("stage-{stage}"),
        Exits::All => "all".into(),
    })
}

/// Files with a name, by that: those of one job have one size, and so have all that belong together through jobs.
fn shared_files(jobs: &[Job]) -> BTreeMap<&str, u64> {
    let mut number: BTreeMap<&str, usize> = BTreeMap::new();
    let mut parents: Vec<usize> = Vec::new();
    let mut users: Vec<u64> = Vec::new();
    let root = |parents: &mut Vec<usize>, mut i: usize| {
        while parents[i] != i {
            parents[i] = parents[parents[i]];
            i = parents[i];
        }
        i
    };
    let mut sizes: Vec<u64> = Vec::new();
    for job in jobs.iter().filter(|job| !job.raw) {
        let mut first = None;
        for name in &job.files {
            let i = *number.entry(name).or_insert(parents.len());
            if i == parents.len() {
                parents.push(i);
                users.push(0);
                sizes.push(0);
            }
            users[i] += job.numjobs;
            let own = root(&mut parents, i);
            let to = root(&mut parents, *first.get_or_insert(own));
            parents[own] = to;
            sizes[to] = sizes[to].max(sizes[own]).max(job.file_end());
        }
    }
    let several: BTreeSet<&str> = jobs
        .iter()
        .filter(|job| job.files.len() > 1)
        .flat_map(|job| job.files.iter().map(String::as_str))
        .collect();
    let mut files = BTreeMap::new();
    for (name, i) in number {
        // A file that one process uses alone is its own.
        if users[i] > 1 || several.contains(name) {
            let root = root(&mut parents, i);
            files.insert(name, sizes[root]);
        }
    }
    files
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
    let mut used: BTreeSet<String> = BTreeSet::new();
    let mut next: BTreeMap<String, u64> = BTreeMap::new();
    let mut names = Vec::with_capacity(jobs.len());
    for job in jobs {
        let clean =
            |c: char| if c.is_ascii_alphanumeric() || c == '-' || c == '_' { c } else { '_' };
        let mut base: String = job.name.chars().take(128).map(clean).collect();
        // Its copies are numbered.
        if job.numjobs > 1 {
            base.push('-');
        }
        if base == "target" {
            base = "target-job".into();
        }
        let mut name = base.clone();
        while !used.insert(name.clone()) {
            let n = next.entry(base.clone()).or_insert(2);
            name = format!("{base}_{n}");
            *n += 1;
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
            let known: Vec<&str> = jobs.iter().take(NAMED).map(|j| j.name.as_str()).collect();
            let more = if jobs.len() > NAMED { ", ..." } else { "" };
            wrong(format!("no job '{wanted}'; there are: {}{more}", known.join(", ")))
        }
    }
}

/// Most intervals of the throughput of all jobs together: a grid has many runs, and few would look at more.
const INTERVALS: u128 = 200_000;

fn window(
    out: &mut String,
    file: &JobFile,
    plan: &Plan<'_>,
    target: Option<usize>,
    notes: &mut Vec<String>,
) {
    let last = plan.stages.last().copied().unwrap_or(0);
    let ramp = match last {
        // Behind a first stage there is no beginning that all have in common.
        0 => file.jobs.iter().map(|j| j.ramp).max().unwrap_or(0),
        _ => 0,
    };
    // A stage lasts as long as its longest job; one without a time may last for ever.
    let mut longest = vec![Some(0u64); last + 1];
    for (job, &stage) in file.jobs.iter().zip(&plan.stages) {
        let time = job.runtime.filter(|_| job.wait_for.is_none());
        let time = time.and_then(|t| t.checked_add(job.startdelay)?.checked_add(job.ramp));
        longest[stage] = longest[stage].zip(time).map(|(a, b)| a.max(b));
    }
    let whole = longest.into_iter().try_fold(0u64, |sum, time| sum.checked_add(time?));
    let day = DAY_S * SECOND;
    if let Some(whole) = whole.filter(|&whole| whole > day) {
        notes.push(format!(
            "the jobs take {} s one after another, and a run measures at most {DAY_S} s: the last of them do not run",
            whole / SECOND
        ));
    }
    // The last calls end a little later.
    let measured = whole.map_or(LIMIT_S * SECOND, |sum| sum.saturating_add(60 * SECOND)).min(day);
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
    // Many jobs that may last for hours have coarser series.
    let procs: u64 = file.jobs.iter().map(|j| j.numjobs).sum();
    let even = (u128::from(measured) * u128::from(procs)).div_ceil(INTERVALS);
    let interval = (even as u64).div_ceil(1_000_000).max(500);
    let _ = writeln!(out, "target_interval = \"{interval}ms\"\ndevice_interval = \"1s\"\n");
}

fn groups(out: &mut String, file: &JobFile, names: &[String]) {
    let mut groups: BTreeMap<&str, (Vec<String>, Option<u64>)> = BTreeMap::new();
    for (job, name) in file.jobs.iter().zip(names) {
        let Some(group) = job.cgroup.as_deref() else { continue };
        let group = groups.entry(group.trim_matches('/')).or_default();
        match is_apart(job) {
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
        let copies = if job.numjobs > 1 { format!("{} x ", job.numjobs) } else { String::new() };
        format!("{copies}{} ({random}{})", job.name, job.direction.word())
    };
    let mut all: Vec<String> = jobs.iter().take(NAMED).map(one).collect();
    if jobs.len() > NAMED {
        all.push(format!("and {} more", jobs.len() - NAMED));
    }
    all.join(", ")
}

impl Direction {
    /// The word in fio's names.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Direction::Read => "read",
            Direction::Write => "write",
            Direction::Mixed => "rw",
        }
    }
}
