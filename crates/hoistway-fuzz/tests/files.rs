//! Files of users, mutated from fixed seeds: the same functions that libFuzzer drives (`fuzz/`).

use flate2::read::GzDecoder;
use hoistway_fuzz::files;
use hoistway_fuzz::source::{Rng, Source};
use std::io::Read;
use std::path::{Path, PathBuf};

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name)
}

fn texts(dir: &str) -> Vec<String> {
    let mut paths: Vec<_> =
        std::fs::read_dir(folder(dir)).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.retain(|path| path.extension().is_some_and(|e| e == "toml"));
    paths.iter().map(|path| std::fs::read_to_string(path).unwrap()).collect()
}

/// Values that numbers and words become.
const VALUES: &[&str] = &[
    "0",
    "-1",
    "1",
    "18446744073709551615",
    "1e308",
    "nan",
    "inf",
    "0.0",
    "-0.5",
    "9223372036854775808",
    "\"\"",
    "[]",
    "{}",
    "true",
    "\"x\"",
    "[[0, 0]]",
    "4294967296",
    "max",
    "default",
];

/// One to three small changes: of a byte, a line, a value, or a word.
fn mutated(text: &str, rng: &mut Rng) -> Vec<u8> {
    let mut lines: Vec<String> = text.lines().map(str::to_string).collect();
    for _ in 0..1 + rng.below(3) {
        if lines.is_empty() {
            break;
        }
        let (at, other) =
            (rng.below(lines.len() as u64) as usize, rng.below(lines.len() as u64) as usize);
        match rng.below(8) {
            0 => drop(lines.remove(at)),
            1 => lines.insert(at, lines[other].clone()),
            2 => lines.swap(at, other),
            3 => lines[at].push_str(rng.pick(VALUES)),
            4 => lines.truncate(at),
            5 => {
                let cut = rng.below(lines[at].chars().count() as u64 + 1) as usize;
                lines[at] = lines[at].chars().take(cut).collect();
            }
            _ => {
                // Behind the last '=', ',' or blank.
                let keep = lines[at].rfind(['=', ',', ' ']).map_or(0, |i| i + 1);
                lines[at].truncate(keep);
                lines[at].push_str(rng.pick(VALUES));
            }
        }
    }
    let mut bytes = lines.join("\n").into_bytes();
    if rng.one_in(8) && !bytes.is_empty() {
        let at = rng.below(bytes.len() as u64) as usize;
        bytes[at] = rng.below(256) as u8;
    }
    bytes
}

fn mutate_all(texts: &[String], rounds: u64, body: fn(&[u8])) {
    for (n, text) in texts.iter().enumerate() {
        body(text.as_bytes());
        for seed in 0..rounds {
            let bytes = mutated(text, &mut Rng::new(seed << 16 | n as u64));
            if std::panic::catch_unwind(|| body(&bytes)).is_err() {
                panic!("text {n}, seed {seed}:\n{}", String::from_utf8_lossy(&bytes));
            }
        }
    }
}

#[test]
fn experiments() {
    mutate_all(&texts("experiments"), 60, files::experiment);
}

#[test]
fn drives() {
    mutate_all(&texts("drives"), 60, files::drive);
}

#[test]
fn groups() {
    let tree = [
        "io.cost.qos|8:0 enable=1 ctrl=user rpct=95 rlat=5000 wpct=95 wlat=5000 min=50 max=150",
        "io.cost.model|8:0 ctrl=user model=linear rbps=1000000",
        "a/io.max|drive rbps=1048576 wiops=120\n8:0 riops=max",
        "a/cgroup.procs|reader1\nwriter",
        "a/b/io.low|8:0 rbps=1000000 idle=1000 latency=100",
        "a/b/io.latency|8:0 target=100",
        "c/io.weight|default 200\n8:0 300",
        "c/io.bfq.weight|300",
        "c/io.prio.class|idle",
        "c/memory.max|1G",
    ];
    // No path, line or name has the character that stands for the zero byte here.
    let text = tree.join("\n|").replace('|', "\0");
    mutate_all(&[text], 500, files::groups);
}

#[test]
fn recordings() {
    let dir = folder("crates/hoistway-replay/tests/data");
    let mut heads = Vec::new();
    for name in
        ["hdd.bfq.tree", "hdd.bfq.async", "hdd.bfq.tunables", "ssd.bfq.moves", "hdd.bfq.exits"]
    {
        let file = std::fs::File::open(dir.join(format!("{name}.csv.gz"))).unwrap();
        let mut text = String::new();
        GzDecoder::new(file).read_to_string(&mut text).unwrap();
        heads.push(text.lines().take(400).collect::<Vec<_>>().join("\n"));
    }
    mutate_all(&heads, 300, files::recording);
}
