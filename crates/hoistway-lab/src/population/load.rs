//! Random loads: an experiment file for a drive that was drawn.
//!
//! Three cases of four ask for the *latency* of a target, a random reader (4 KiB mostly, through the page cache or past it,
//! back to back or with think time) beside one to three kinds of greedy processes. The others ask for *shares*: two to
//! six processes of one kind, each in a group with a weight of its own, all of them always with work.

use super::Question;
use super::drive::Drawn;
use hoistway::sched::SCHEDULERS;
use hoistway_sim::rng::{Rng, stream};
use std::fmt::Write as _;

/// Id of the workload with everybody in it.
pub const WORKLOAD: &str = "load";
/// Id of the workload of the target alone.
pub const ALONE: &str = "alone";
/// The files that weights are written to, if somebody has them.
pub const WEIGHT_FILES: &[&str] = &["io.weight", "io.bfq.weight"];

/// A load that was drawn.
#[derive(Clone, Debug)]
pub struct Load {
    /// The experiment file.
    pub text: String,
    /// In words.
    pub summary: String,
    /// What it asks.
    pub question: Question,
    /// Weights of the processes, in their order.
    pub weights: Vec<u64>,
}

/// Name of the load of a case, and of its file.
pub fn id(seed: u64, number: u32) -> String {
    format!("load-{seed}-{number}")
}

/// Load `number` of the population of `seed`, for the drive of the same number.
pub fn draw(seed: u64, number: u32, drive: &Drawn) -> Load {
    let mut rng = stream(seed, &format!("population/{number}/load"));
    let weights = rng.below(4) == 0;
    let mut text = format!(
        "# Drawn by `hoistway population --seed {seed} --print-load {number}`.\n\
         # Run it with: hoistway compare ./{load}.toml -d ./{drive}.toml -r 1 --seed {seed}\n\
         schema = 1\ntitle = \"Random load {number} of seed {seed}\"\n\
         about = \"Drawn by hoistway population.\"\n",
        load = id(seed, number),
        drive = super::drive::id(seed, number),
    );
    if weights { shares(&mut rng, drive, &mut text) } else { latency(&mut rng, drive, &mut text) }
        .with(text)
}

/// A load without its text.
struct LoadFacts {
    summary: String,
    question: Question,
    weights: Vec<u64>,
}

impl LoadFacts {
    fn with(self, text: String) -> Load {
        Load { text, summary: self.summary, question: self.question, weights: self.weights }
    }
}

/// Its targets think for longer.
fn is_slow(drive: &Drawn) -> bool {
    matches!(drive.class, "disk" | "usb")
}

fn window(target: bool, text: &mut String) {
    text.push_str("\n[host]\nprofile = \"2019\"\n\n[window]\nramp = \"2s\"\nmeasured = \"10s\"\n");
    if target {
        text.push_str("head_start = \"200ms\"\ngrace = \"20s\"\n");
    }
    text.push_str("target_interval = \"500ms\"\ndevice_interval = \"1s\"\n");
}

/// A kind of processes: what stands in `[[workload.load.procs]]` behind name and count.
struct ProcKind {
    name: &'static str,
    most: u64,
    params: String,
}

/// One of the kinds of greedy processes.
fn kind(rng: &mut Rng) -> ProcKind {
    let dice = rng.below(100);
    let deep = |rng: &mut Rng| rng.one_of(&[4, 8, 16, 32, 64]);
    let large = |rng: &mut Rng| rng.one_of(&["64k", "128k", "256k", "512k", "1m"]);
    let small = |rng: &mut Rng| rng.one_of(&["4k", "4k", "8k", "16k", "64k"]);
    let kind = |name, most, params: String| ProcKind { name, most, params };
    match dice {
        0..28 => {
            let bs = rng.one_of(&["4k", "64k"]);
            kind("reader", 15, format!("load = \"reader\"\npattern = \"seq\"\nbs = \"{bs}\"\n"))
        }
        28..42 => {
            let (bs, depth) = (large(rng), rng.one_of(&[1, 2, 4, 8, 16]));
            kind("stream", 8, direct("reader", "seq", bs, depth))
        }
        42..60 => {
            let (bs, depth) = (small(rng), deep(rng));
            kind("hog", 8, direct("reader", "rand", bs, depth))
        }
        60..75 => {
            let dsync = rng.one_of(&[1, 1, 4, 16]);
            let text =
                format!("load = \"writer\"\npattern = \"seq\"\nbs = \"4k\"\ndsync = {dsync}\n");
            kind("syncer", 15, text)
        }
        75..90 => {
            let (pattern, bs) = (rng.one_of(&["seq", "seq", "rand"]), rng.one_of(&["4k", "64k"]));
            let text =
                format!("load = \"writer\"\npattern = \"{pattern}\"\nbs = \"{bs}\"\ndsync = 0\n");
            kind("writer", 8, text)
        }
        _ => {
            let pattern = rng.one_of(&["seq", "rand"]);
            let bs = if pattern == "seq" { large(rng) } else { small(rng) };
            let depth = rng.one_of(&[1, 4, 16, 32]);
            kind("filler", 4, direct("writer", pattern, bs, depth) + "dsync = 0\n")
        }
    }
}

fn direct(load: &str, pattern: &str, bs: &str, depth: u64) -> String {
    format!(
        "load = \"{load}\"\npattern = \"{pattern}\"\nbs = \"{bs}\"\ndirect = true\ndepth = {depth}\n"
    )
}

/// What the parameters say, in one line.
fn in_words(count: u64, kind: &ProcKind) -> String {
    let line = kind.params.trim().replace('"', "").replace(" = ", "=").replace('\n', " ");
    let rest = line.split_once(' ').map_or("", |(_, rest)| rest);
    format!("{count} x {} ({rest})", kind.name)
}

fn latency(rng: &mut Rng, drive: &Drawn, text: &mut String) -> LoadFacts {
    let kinds = rng.one_of(&[1, 1, 1, 1, 1, 2, 2, 2, 3, 3]);
    let mut all: Vec<(u64, ProcKind)> = Vec::new();
    while all.len() < kinds {
        let next = kind(rng);
        // Of each kind once; the names must differ.
        if all.iter().all(|(_, k)| k.name != next.name) {
            let most = next.most / (all.len() as u64 + 1);
            all.push((1 + rng.below(most.max(1)), next));
        }
    }
    let bs = rng.one_of(&["4k", "4k", "4k", "8k", "16k", "64k"]);
    let past = rng.below(2) == 0;
    let mut target =
        format!("load = \"reader\"\npattern = \"rand\"\nbs = \"{bs}\"\ndirect = {past}\n");
    if rng.below(10) < 3 {
        let ms = if is_slow(drive) { [50, 100, 200] } else { [1, 5, 20] };
        let size: u64 = bs.trim_end_matches('k').parse().expect("a size in KiB");
        let rate = size * 1024 * 1000 / rng.one_of(&ms);
        let _ = writeln!(target, "rate = {rate}");
    }
    let summary = all.iter().map(|(n, k)| in_words(*n, k)).collect::<Vec<_>>().join(", ");
    text.push_str(
        "judge = \"latency\"\ndrives = [\"plextor-px-256m5s\"]\n\
         configs = [\"none-none\", \"none-bfq\"]\nworkloads = [\"load\"]\nreps = 1\n",
    );
    window(true, text);
    let _ = write!(text, "\n[target]\n{target}");
    let _ = write!(text, "\n[workload.{ALONE}]\nsummary = \"the target alone\"\n");
    let _ = write!(text, "\n[workload.{WORKLOAD}]\nsummary = \"{summary}\"\n");
    for (count, kind) in &all {
        procs(text, kind.name, *count, &kind.params);
    }
    let target = in_words(1, &ProcKind { name: "target", most: 1, params: target });
    LoadFacts {
        summary: format!("{target} beside {summary}"),
        question: Question::Latency,
        weights: Vec::new(),
    }
}

fn procs(text: &mut String, name: &str, count: u64, params: &str) {
    let _ = write!(
        text,
        "\n[[workload.{WORKLOAD}.procs]]\nname = \"{name}\"\ncount = {count}\nstagger = \"3us\"\n{params}"
    );
}

fn shares(rng: &mut Rng, drive: &Drawn, text: &mut String) -> LoadFacts {
    let count = 2 + rng.below(5);
    let weights: Vec<u64> =
        (0..count).map(|_| rng.one_of(&[50, 100, 100, 200, 300, 400, 800])).collect();
    // One process's read-ahead does not fill a fast drive: there streams are direct and deep.
    let (name, params) = match rng.below(3) {
        0 if is_slow(drive) => {
            ("stream", "load = \"reader\"\npattern = \"seq\"\nbs = \"4k\"\n".into())
        }
        0 | 1 => {
            let (bs, depth) = (rng.one_of(&["128k", "256k", "512k"]), rng.one_of(&[8, 16, 32]));
            ("stream", direct("reader", "seq", bs, depth))
        }
        _ => {
            let (bs, depth) = (rng.one_of(&["4k", "8k", "16k"]), rng.one_of(&[32, 64]));
            ("hog", direct("reader", "rand", bs, depth))
        }
    };
    let words = weights.iter().map(u64::to_string).collect::<Vec<_>>().join(":");
    let summary = in_words(count, &ProcKind { name, most: 0, params: String::new() });
    let kind = in_words(count, &ProcKind { name, most: 0, params: params.clone() });
    text.push_str(
        "judge = \"share\"\ndrives = [\"plextor-px-256m5s\"]\n\
         configs = [\"none-none\", \"prop-bfq\"]\nworkloads = [\"load\"]\nreps = 1\n",
    );
    text.push_str("\n[share]\nweights = { ");
    let listed = weights.iter().enumerate().map(|(i, w)| format!("{name}{i} = {w}"));
    text.push_str(&listed.collect::<Vec<_>>().join(", "));
    text.push_str(" }\n");
    window(false, text);
    for (i, weight) in weights.iter().enumerate() {
        let lines = WEIGHT_FILES.iter().filter(|f| crate::config::is_file(f, SCHEDULERS));
        let lines = lines.map(|f| format!("\"{f}: {weight}\"")).collect::<Vec<_>>().join(", ");
        let _ = write!(text, "\n[[files]]\nof = \"{name}{i}\"\nwrite = [{lines}]\n");
    }
    let _ = write!(text, "\n[workload.{WORKLOAD}]\nsummary = \"{}\"\n", summary.replace(" ()", ""));
    procs(text, name, count, &params);
    LoadFacts { summary: format!("{kind}, weights {words}"), question: Question::Weights, weights }
}
