//! The scheduler natively: it keeps the contract of schedulers, and decides as its module does.

use hoistway::sched::Entry;
use hoistway::testkit::contract;
use hoistway_lab::grid::Plan;
use hoistway_lab::registry::Registry;
use hoistway_lab::world::Sim;
use hoistway_plugin::{Guest, Request, load, native};
use rr::ABOUT;
use rr::rr::RoundRobin;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;

/// What `module.rs` exports, without a module.
#[derive(Debug)]
struct Native(RoundRobin);

impl Guest for Native {
    fn set(&mut self, row: u32, value: u64) {
        if row == 0 {
            self.0.quantum = value;
        }
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

fn entry() -> &'static Entry {
    native("rr", ABOUT, || Native(RoundRobin::NEW)).unwrap()
}

#[test]
fn it_keeps_the_contract() {
    contract::check(entry());
}

/// The digest of each run's trace: drive by drive, then configuration by configuration.
fn digests(entry: &'static Entry, configs: [&str; 2]) -> Vec<u64> {
    let mut registry = Registry::default();
    registry.add_scheduler(entry).unwrap();
    let experiment = Path::new(env!("CARGO_MANIFEST_DIR")).join("mine.toml");
    let experiment = registry.experiment(&experiment.display().to_string()).unwrap();
    let plan = Plan::of(experiment).registry(&registry).configs(configs).reps(2).quick(true);
    let grid = plan.grid(&mut |warning| panic!("{warning}")).unwrap();
    let run = grid.run(&Sim, 1, &AtomicBool::new(false), &|_| {}).unwrap();
    run.cells.iter().flat_map(|cell| cell.reps.iter().map(|rep| rep.trace_digest)).collect()
}

/// Builds the module; `None` where the tool chain has no target for it.
fn module() -> Option<PathBuf> {
    const TARGET: &str = "wasm32-unknown-unknown";
    let asked =
        Command::new("rustc").args(["--print", "target-libdir", "--target", TARGET]).output();
    let folder =
        asked.map(|o| String::from_utf8_lossy(&o.stdout).trim().to_string()).unwrap_or_default();
    if !Path::new(&folder).is_dir() {
        println!("skipped: the tool chain has no {TARGET} (rustup target add {TARGET})");
        return None;
    }
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("module");
    let built = Command::new(env!("CARGO"))
        .args(["module", "--quiet", "--locked", "--offline", "--target-dir"])
        .arg(&target)
        // In this folder: its .cargo says what `module` is.
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status()
        .unwrap();
    assert!(built.success());
    Some(target.join(TARGET).join("release/rr.wasm"))
}

#[test]
fn the_module_is_small_and_decides_alike_on_two_drives() {
    let Some(module) = module() else { return };
    let bytes = std::fs::metadata(&module).unwrap().len();
    println!("{bytes} bytes");
    assert!(bytes <= 8192, "{bytes} bytes");
    let configs = ["rr", "rr{quantum=1}"];
    let natively = digests(entry(), configs);
    println!("{natively:016x?}");
    assert_eq!(natively, digests(load(&module).unwrap(), configs));
    // Two drives, two configurations, two repetitions: no two alike, or the digests tell nothing.
    let different: std::collections::BTreeSet<_> = natively.iter().collect();
    assert_eq!(different.len(), 8);
}
