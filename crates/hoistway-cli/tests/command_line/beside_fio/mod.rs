//! Random jobs beside real fio: the same job file goes to fio, which writes down its calls (`--write_iolog`), and to
//! hoistway, which saves the trace of its simulated drive. What does not depend on timing has to agree: how many calls
//! and bytes, the mix, sizes, order, span, repetition, syncs.
//!
//! `HOISTWAY_FIO_JOBS=200` draws more than the usual dozen, `HOISTWAY_FIO_SEED=N` others. The random choices of the two
//! programs differ, so that what is random is compared as samples: limits are five standard deviations.
//!
//! A difference that is known stands in docs/reference/fio.md, and in [`draw::Known`] by its name.

mod compare;
mod draw;

use super::*;
use draw::Drawn;
use hoistway_trace::{Kind, Op, Options, Reader, Record};
use std::collections::BTreeMap;

/// A call: number of the file, where, how long; a sync has no length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    pub file: usize,
    pub write: bool,
    pub offset: u64,
    pub len: u64,
}

/// What one program did.
#[derive(Clone, Debug, Default)]
pub(crate) struct Did {
    pub calls: Vec<Call>,
    pub syncs: u64,
    /// Most calls in flight, as fio counts them: the power of two below, at most 16.
    pub depth: u64,
}

const DRIVE: &str = "samsung-970-pro";

#[test]
fn random_jobs_do_what_fio_does() {
    let Some(version) = version() else { return println!("skipped: fio is not installed") };
    if version != "fio-3.33" {
        return println!("skipped: {version} is installed, and the rules are those of fio-3.33");
    }
    let number = |name: &str, usual: u64| {
        std::env::var(name).ok().map_or(usual, |n| n.parse().expect("a number"))
    };
    let (jobs, seed) = (number("HOISTWAY_FIO_JOBS", 12), number("HOISTWAY_FIO_SEED", 1));
    let folder = Folder::new("beside-fio");
    let (mut differ, mut known) = (Vec::new(), BTreeMap::new());
    for i in 0..jobs {
        let drawn = draw::job(seed.wrapping_mul(1_000_003).wrapping_add(i));
        let fio = of_fio(&folder, &drawn);
        let ours = of_ours(&folder, &drawn);
        let found = match (fio, ours) {
            (Ok(fio), Ok(ours)) => compare::differences(&drawn, &fio, &ours),
            // What fio refuses is no job.
            (Err(_), Err(_)) => Vec::new(),
            (Err(fio), Ok(_)) => vec![format!("only fio refuses it: {fio}")],
            (Ok(_), Err(_)) if drawn.known.contains(&draw::Known::Zones) => Vec::new(),
            (Ok(_), Err(ours)) => vec![format!("only hoistway refuses it: {ours}")],
        };
        for name in &drawn.known {
            *known.entry(name.text()).or_insert(0) += 1;
        }
        if !found.is_empty() {
            differ.push(format!("job {i}:\n{}{}\n", drawn.text(true), found.join("\n")));
        }
    }
    println!("{jobs} jobs, {} differ; with a known difference: {known:?}", differ.len());
    assert!(differ.is_empty(), "{} of {jobs} jobs differ:\n{}", differ.len(), differ.join("\n"));
}

fn version() -> Option<String> {
    let output = Command::new("fio").arg("--version").output().ok()?;
    Some(stdout(&output).trim().to_string())
}

/// What fio does. It goes through the page cache: which calls it makes does not depend on that, and not every
/// folder of temporary files takes direct ones.
fn of_fio(folder: &Folder, drawn: &Drawn) -> Result<Did, String> {
    let dir = folder.0.join("fio");
    let _ = fs::remove_dir_all(&dir);
    fs::create_dir_all(&dir).unwrap();
    fs::write(dir.join("j.fio"), drawn.text(false)).unwrap();
    for (name, size) in &drawn.exists {
        fs::File::create(dir.join(name)).unwrap().set_len(*size).unwrap();
    }
    let mut command = Command::new("fio");
    let says = ["--output-format=json", "--output=out"];
    command.args(["j.fio", "--write_iolog=log"]).args(says).current_dir(&dir);
    let output = command.output().unwrap();
    if !output.status.success() {
        return Err(format!("{}{}", stderr(&output), stdout(&output)));
    }
    let log = fs::read_to_string(dir.join("log")).map_err(|e| e.to_string())?;
    let mut did = Did::default();
    let mut files: Vec<&str> = Vec::new();
    for line in log.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            [_, name, "add"] => files.push(name),
            [_, name, op @ ("read" | "write"), offset, len] => did.calls.push(Call {
                file: files.iter().position(|f| *f == name).expect("it was added"),
                write: op == "write",
                offset: offset.parse().unwrap(),
                len: len.parse().unwrap(),
            }),
            [_, _, "sync" | "datasync", ..] => did.syncs += 1,
            _ => {}
        }
    }
    did.depth = depth_of_fio(&fs::read_to_string(dir.join("out")).map_err(|e| e.to_string())?);
    Ok(did)
}

/// The largest class of fio's `iodepth_level` that at least one call in twenty met.
fn depth_of_fio(report: &str) -> u64 {
    let report = &report[report.find('{').unwrap_or(0)..];
    let report: serde_json::Value = serde_json::from_str(report).expect("fio's report is JSON");
    let levels = report["jobs"][0]["iodepth_level"].as_object().expect("fio tells the depths");
    let often = levels.iter().filter(|(_, share)| share.as_f64().is_some_and(|s| s >= 5.0));
    often.filter_map(|(level, _)| level.parse().ok()).max().unwrap_or(0)
}

/// What hoistway does.
fn of_ours(folder: &Folder, drawn: &Drawn) -> Result<Did, String> {
    let bases = match drawn.raw {
        true => vec![0],
        false => bases(folder, drawn)?,
    };
    let (records, syncs) = trace(folder, &drawn.text(true), "ours")?;
    let mut did = Did { syncs, ..Did::default() };
    // A completion covers what was merged: bytes are counted, of calls of one size.
    let (mut flying, mut most) = (0_u64, 0);
    for record in &records {
        match record.kind {
            Kind::Complete => flying = flying.saturating_sub(record.len),
            _ => flying += record.len,
        }
        most = most.max(flying / drawn.sizes[0].0);
    }
    did.depth = most.min(16).checked_ilog2().map_or(0, |n| 1 << n);
    let records = records.iter().filter(|r| r.kind == Kind::Arrival);
    for record in records {
        let file = bases.iter().rposition(|&base| base <= record.offset).unwrap_or(0);
        let (write, offset) = (record.op == Op::Write, record.offset - bases[file]);
        did.calls.push(Call { file, write, offset, len: record.len });
    }
    Ok(did)
}

/// Where each file begins on the drive: a job reads one block of each, from the first byte on.
fn bases(folder: &Folder, drawn: &Drawn) -> Result<Vec<u64>, String> {
    let text = format!(
        "[j]\nrw=read\nbs=4k\ndirect=1\nioengine=psync\nnrfiles={0}\nfilesize={1}\nnumber_ios={0}\n",
        drawn.files, drawn.file_size
    );
    let (records, _) = trace(folder, &text, "bases")?;
    Ok(records.iter().filter(|r| r.kind == Kind::Arrival).map(|r| r.offset).collect())
}

/// The requests of a job's own process, and how many syncs it made.
fn trace(folder: &Folder, text: &str, name: &str) -> Result<(Vec<Record>, u64), String> {
    let file = folder.0.join(format!("{name}.fio"));
    fs::write(&file, text).unwrap();
    let saved = folder.0.join(format!("{name}.blktrace.0"));
    let _ = fs::remove_file(&saved);
    let out = folder.0.join(name);
    let _ = fs::remove_dir_all(&out);
    let [file, saved, out] = [&file, &saved, &out].map(|p| p.to_str().unwrap());
    let args = ["run", "--job", file, "none", "-d", DRIVE, "-o", out, "--csv", "--quiet"];
    let output = folder.run(&[&args[..], &["--strict", "--save-trace", saved]].concat());
    if !output.status.success() {
        return Err(stderr(&output));
    }
    let syncs = stdout(&output)
        .lines()
        .filter(|line| line.contains(",syncs,"))
        .find_map(|line| line.split(',').find_map(|field| field.parse::<f64>().ok()))
        .unwrap_or(0.0) as u64;
    let options = Options { completions: true, ..Options::default() };
    let mut reader = Reader::open(Path::new(saved), &options).map_err(|e| e.to_string())?;
    let (mut records, mut record) = (Vec::new(), Record::default());
    while reader.read(&mut record).map_err(|e| e.to_string())? {
        let own = reader.names().processes.name(record.process).starts_with("j/");
        if own && matches!(record.op, Op::Read | Op::Write) && record.len > 0 {
            records.push(record);
        }
    }
    Ok((records, syncs))
}
