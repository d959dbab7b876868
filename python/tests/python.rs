//! The package as Python sees it: the library that cargo has built beside this test becomes its module, and the tests in
//! `tests/*.py` run. The package is in `target/python` then: `PYTHONPATH=target/python python3`.

extern crate alloc;

/// The scheduler that people copy; compiled to WebAssembly, it decides the same (its own test).
#[path = "../../templates/scheduler/src/rr.rs"]
mod rr;

use hoistway_lab::grid::Plan;
use hoistway_lab::registry::Registry;
use hoistway_lab::result::Cell;
use hoistway_lab::world::Sim;
use hoistway_plugin::{Guest, Request, native};
use rr::RoundRobin;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The `target` folder of this build.
fn target() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("a folder in `target`")
}

/// The interpreter: that of `target/venv`, which `setup.sh test` makes, or the system's.
fn python() -> Option<PathBuf> {
    let ours = target().join("venv/bin/python");
    let interpreter = if ours.exists() { ours } else { "python3".into() };
    let said = Command::new(&interpreter)
        .args(["-c", "import sys; print(sys.version_info >= (3, 10))"])
        .output();
    let fits = said.is_ok_and(|o| o.stdout.starts_with(b"True"));
    if !fits {
        println!("skipped: there is no Python of version 3.10 or newer");
    }
    fits.then_some(interpreter)
}

/// The package with its module. Made anew beside the old one and renamed, so that whoever imports it meanwhile sees one
/// of the two.
fn package() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = target().join("python");
    let package = folder.join("hoistway");
    fs::create_dir_all(&package).expect("a folder in `target` can be made");
    let put = |from: &Path, name: &str| {
        let new = package.join(format!(".{name}.new"));
        fs::copy(from, &new).unwrap_or_else(|e| panic!("{}: {e}", from.display()));
        fs::rename(&new, package.join(name)).expect("within a folder");
    };
    for entry in fs::read_dir(here.join("hoistway")).expect("the package is there") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name").to_str().expect("a name in ASCII");
        if [".py", ".pyi", ".typed"].iter().any(|end| name.ends_with(end)) {
            put(&path, name);
        }
    }
    let me = std::env::current_exe().expect("a test knows its own file");
    put(&me.with_file_name("lib_hoistway.so"), "_hoistway.abi3.so");
    folder
}

/// What the tests in Python say: stdout and stderr.
fn tests(python: &Path) -> (String, String) {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let output = Command::new(python)
        .args(["-B", "-m", "unittest", "discover", "--verbose"])
        // Not the package's own folder, which has a package without its module.
        .current_dir(here.join("tests"))
        .env("PYTHONPATH", package())
        .env("HOISTWAY", target().join("debug/hoistway"))
        .output()
        .expect("the interpreter has run before");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{printed}{said}");
    // No test is no success.
    assert!(said.lines().any(|l| l.starts_with("Ran ") && !l.starts_with("Ran 0 ")), "{said}");
    (printed, said)
}

#[derive(Debug)]
struct Twin(RoundRobin);

impl Guest for Twin {
    fn set(&mut self, _row: u32, value: u64) {
        self.0.quantum = value;
    }

    fn insert(&mut self, _now: u64, r: &Request) {
        self.0.insert(r.number, r.process, r.flags & Request::RETURNED != 0);
    }

    fn dispatch(&mut self, _now: u64) -> u64 {
        self.0.dispatch().unwrap_or(0)
    }

    fn gone(&mut self, _now: u64, number: u64) {
        self.0.gone(number);
    }
}

/// `digest DRIVE DIGEST` for each run of the twin in Rust, as the test in Python prints its own.
fn of_the_twin() -> BTreeSet<String> {
    let mut registry = Registry::default();
    let about = include_str!("../../templates/scheduler/src/about.toml");
    let twin = native("rust-turns", about, || Twin(RoundRobin::NEW)).expect("a description");
    registry.add_scheduler(twin).expect("a name of its own");
    let deep = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/deep.toml");
    let experiment =
        registry.experiment(deep.to_str().expect("a path of text")).expect("it is there");
    let plan = Plan::of(experiment).registry(&registry).configs(["rust-turns{quantum=3}"]);
    let grid = plan.grid(&mut |_| {}).expect("a plan");
    let run = grid.run(&Sim, 1, &false.into(), &|_| {}).expect("it runs");
    let line = |c: &Cell| format!("digest {} {:016x}", c.drive, c.reps[0].trace_digest);
    run.cells.iter().map(line).collect()
}

#[test]
fn the_tests_in_python_pass() {
    let Some(python) = python() else { return };
    let (printed, said) = tests(&python);
    for line in said.lines() {
        if let Some((_, why)) = line.split_once(" ... skipped ") {
            println!("skipped: {}", why.trim_matches(['\'', '"']));
        }
    }
    // A class decides as its twin in Rust: every step of the runs is the same.
    let printed = printed.lines().map(str::trim).filter(|l| l.starts_with("digest "));
    assert_eq!(printed.map(String::from).collect::<BTreeSet<_>>(), of_the_twin());
}
