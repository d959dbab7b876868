//! What a module must not do, and what is said of it.

mod modules;

use hoistway_lab::grid::Plan;
use hoistway_lab::registry::Registry;
use hoistway_lab::result::kept::Kept;
use hoistway_lab::run::{Grid, RunError};
use hoistway_lab::world::Sim;
use hoistway_plugin::{limits, load};
use modules::{ABOUT, FIFO, Folder, module};
use std::sync::atomic::AtomicBool;

/// What is said of a file with that text.
fn refused(name: &str, wat: &str) -> String {
    let folder = Folder::new(name);
    let path = folder.write("bad.wasm", &wat::parse_str(wat).unwrap());
    let error = load(&path).expect_err(name).to_string();
    let rest = error.strip_prefix(&format!("{}: ", path.display()));
    rest.unwrap_or_else(|| panic!("{error}: does not begin with the file")).into()
}

#[test]
fn what_is_wrong_with_a_module_is_said_before_it_runs() {
    let cases = [
        (
            "import",
            module(FIFO).replace("(module", r#"(module (import "env" "now" (func))"#),
            "it imports env.now; a module imports nothing",
        ),
        (
            "float",
            module(FIFO).replace("(module", "(module (func (result f64) (f64.const 1))"),
            "count in integers",
        ),
        (
            "missing",
            module(FIFO).replace(r#"(export "gone")"#, ""),
            "it does not export gone(i64, i64)",
        ),
        (
            "other",
            module(FIFO)
                .replace(r#""gone") (param i64 i64)"#, r#""gone") (param i64) (local i64)"#),
            "it exports gone(i64); the interface has gone(i64, i64)",
        ),
        ("memory", module(FIFO).replace(r#"(export "memory")"#, ""), "does not export its memory"),
        (
            "large",
            module(FIFO)
                .replace("(memory (export \"memory\") 1)", "(memory (export \"memory\") 300)"),
            "it cannot begin: ",
        ),
        (
            "set",
            module(FIFO).replace(r#"(export "set")"#, ""),
            "the module does not export set(i32, i64)",
        ),
        (
            "about",
            module(FIFO).replace("interface = 1", "interface = 9"),
            "it is made for interface 9",
        ),
        (
            "nowhere",
            module(FIFO).replace("(i64.const 0)", "(i64.const 70000)"),
            "its text does not lie in its memory",
        ),
        (
            "start",
            module(FIFO).replace("(module", "(module (func $s (loop (br 0))) (start $s)"),
            "it cannot begin: it did not end within 10000000 steps",
        ),
        (
            "set-trap",
            module(FIFO).replace("(global.set $k (local.get 1))", "unreachable"),
            "set: it gave up",
        ),
    ];
    for (name, wat, told) in cases {
        let error = refused(name, &wat);
        assert!(error.contains(told), "{name}: {error}");
    }
}

#[test]
fn what_is_no_module_is_said_by_its_file() {
    let folder = Folder::new("files");
    let long = folder.write("long.wasm", &vec![0; 2 << 20]);
    let error = load(&long).unwrap_err().to_string();
    assert!(error.ends_with("long.wasm: is longer than a module may be (1 MiB)"), "{error}");
    let text = folder.write("text.wasm", b"fn main() {}");
    let error = load(&text).unwrap_err().to_string();
    assert!(
        error
            .ends_with("text.wasm: it is not a WebAssembly module (it does not begin with \\0asm)"),
        "{error}"
    );
    let cut = folder.write("cut.wasm", b"\0asm\x01\0\0\0\x01\x7f");
    let error = load(&cut).unwrap_err().to_string();
    assert!(error.contains("cut.wasm: it is not a valid module: "), "{error}");
    let good = wat::parse_str(module(FIFO)).unwrap();
    let name = folder.write("My Module.wasm", &good);
    let error = load(&name).unwrap_err().to_string();
    assert!(
        error.contains("'My Module' is no name of a scheduler; call the file by small letters"),
        "{error}"
    );
    assert!(load(&folder.0.join("gone.wasm")).is_err());
}

/// One drive, `none` and the module, two repetitions.
fn grid(folder: &Folder, name: &str, wat: &str) -> Grid {
    let path = folder.write(&format!("{name}.wasm"), &wat::parse_str(wat).unwrap());
    let mut registry = Registry::default();
    registry.add_scheduler(load(&path).unwrap()).unwrap();
    let experiment = registry.experiment("latency-2019").unwrap();
    let plan = Plan::of(experiment).registry(&registry).configs(["none"]).beside([name]);
    let plan = plan.workloads(["readers"]).reps(2).duration(Some("100ms"));
    plan.grid(&mut |warning| panic!("{warning}")).unwrap()
}

#[test]
fn what_a_module_does_wrong_in_a_run_ends_its_cell_alone() {
    let dispatch = "(call $oldest)";
    let cases = [
        (
            "loops",
            module(FIFO).replace(dispatch, "(loop (br 0)) (i64.const 0)"),
            "dispatch: it did not end within 10000000 steps",
        ),
        (
            "invents",
            module(FIFO).replace(dispatch, "(i64.const 77777)"),
            "dispatch: answered 77777, and no such request waits",
        ),
        (
            "minus",
            module(FIFO).replace(dispatch, "(i64.const -1)"),
            "dispatch: answered -1, and no such request waits",
        ),
        (
            "traps",
            module(FIFO).replace(dispatch, "unreachable"),
            "dispatch: it gave up (unreachable)",
        ),
        ("outside", module(FIFO).replace(dispatch, "(i64.load (i32.const -8))"), "dispatch: "),
        (
            "nests",
            module(FIFO)
                .replace("(module", "(module (func $r (call $r))")
                .replace(dispatch, "(call $r) (i64.const 0)"),
            "dispatch: its calls are nested too deeply",
        ),
        (
            "hoards",
            module(FIFO).replace(dispatch, "(drop (memory.grow (i32.const 400))) (i64.const 0)"),
            "dispatch: it asked for more than 16 MiB",
        ),
        (
            "again",
            module(FIFO).replace(dispatch, "(i64.const 1)"),
            "dispatch: answered 1, and no such request waits",
        ),
    ];
    for (name, wat, told) in cases {
        let folder = Folder::new(name);
        let grid = grid(&folder, name, &wat);
        let stop = AtomicBool::new(false);
        let (kept, _) = Kept::open(&folder.0.join("run"), &grid.key(&Sim, "test"), false).unwrap();
        let error = grid.run_kept(&Sim, 2, &stop, &|_| {}, Some(&kept)).unwrap_err();
        let RunError::Scheduler { cell, what } = error else { panic!("{name}: {error}") };
        assert_eq!(cell, format!("plextor-px-256m5s/{name}/readers, repetition 1"));
        let begins = format!("scheduler '{name}' (");
        assert!(what.starts_with(&begins) && what.contains(told), "{what}");
        // The other cell's runs are there, and none of the module's.
        let there: Vec<bool> = (0..4).map(|run| kept.load(run).is_some()).collect();
        assert_eq!(there, [true, true, false, false], "{name}");
    }
}

#[test]
fn one_that_holds_everything_back_starves_its_processes_and_breaks_nothing() {
    let folder = Folder::new("holds");
    let mut grid = grid(&folder, "holds", &module(FIFO).replace("(call $oldest)", "(i64.const 0)"));
    grid.experiment.window.grace = hoistway::Nanos::ms(50);
    let run = grid.run(&Sim, 1, &AtomicBool::new(false), &|_| {}).unwrap();
    assert_eq!(run.cells[1].reps[0].procs[0].ios, 0);
    assert!(run.cells[0].reps[0].procs[0].ios > 0);
}

#[test]
fn other_bytes_under_the_same_name_are_another_grid() {
    let folder = Folder::new("digest");
    let of = |wat: &str| grid(&folder, "fifo", wat).digest();
    let one = of(&module(FIFO));
    assert_eq!(one, of(&module(FIFO)));
    assert_ne!(one, of(&module(&format!("{FIFO} (func (nop))"))));
}

#[test]
fn limits_are_those_of_the_page() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/plugin.md");
    let page = std::fs::read_to_string(page).unwrap();
    for told in [
        format!("{} MiB of file", limits::FILE_BYTES >> 20),
        format!("{} MiB of memory", limits::MEMORY_BYTES >> 20),
        format!("{} table elements", limits::TABLE_ELEMENTS),
        format!("{} steps a call", limits::STEPS),
        format!("{} KiB of `about`", limits::ABOUT_BYTES >> 10),
        format!("{} tunables", limits::SETTINGS),
    ] {
        let plain = page.replace(',', "");
        assert!(plain.contains(&told), "docs/reference/plugin.md lacks: {told}");
    }
    assert!(ABOUT.contains("interface = 1"));
}
