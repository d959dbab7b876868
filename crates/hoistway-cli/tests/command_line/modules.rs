//! `--scheduler FILE`: schedulers that are modules.

use super::{Folder, stderr as err, stdout as out};
#[cfg(feature = "plugin")]
#[path = "../../../hoistway-plugin/tests/modules/mod.rs"]
#[expect(dead_code, reason = "the tests of that crate need more of it")]
mod wasm;

#[cfg(not(feature = "plugin"))]
#[test]
fn a_program_without_modules_says_how_to_build_one_with_them() {
    let folder = Folder::new("no-modules");
    let output = folder.run(&["compare", "--scheduler", "mine.wasm"]);
    assert_eq!(output.status.code(), Some(2));
    let told = err(&output);
    assert!(
        told.contains("--scheduler mine.wasm: this program was built without modules"),
        "{told}"
    );
    assert!(told.contains("--features plugin"), "{told}");
    assert_eq!((out(&output), folder.entries()), (String::new(), 0));
}

#[test]
fn other_worlds_refuse_modules_before_they_are_read() {
    let folder = Folder::new("worlds");
    for on in ["engine", "sim,linux", "kernel"] {
        let output = folder.run(&["compare", "--scheduler", "mine.wasm", "--on", on]);
        assert_eq!(output.status.code(), Some(2), "{on}");
        let told = err(&output);
        assert!(told.contains("a module decides in the simulator alone; leave out --on"), "{told}");
    }
}

#[cfg(feature = "plugin")]
mod with_modules {
    use super::wasm::{FIFO, module};
    use super::{Folder, err, out};
    use std::fs;

    /// A run of a moment.
    const SHORT: [&str; 5] = ["--workload", "readers", "--reps=1", "--duration=100ms", "--quiet"];

    impl Folder {
        fn module(&self, name: &str, body: &str) {
            let bytes = wat::parse_str(module(body)).unwrap();
            fs::write(self.0.join(name), bytes).unwrap();
        }

        fn compare(&self, more: &[&str]) -> std::process::Output {
            self.run(&[&["compare", "latency-2019"], &SHORT[..], more].concat())
        }

        fn dirs(&self) -> Vec<String> {
            let names = fs::read_dir(self.0.join("runs")).unwrap();
            names.map(|e| e.unwrap().file_name().into_string().unwrap()).collect()
        }
    }

    #[test]
    fn a_module_is_compared_and_repeated_to_the_byte() {
        let folder = Folder::new("module");
        folder.module("fifo.wasm", FIFO);
        let output =
            folder.compare(&["--config", "none,bfq", "--scheduler", "fifo.wasm", "--out=one"]);
        assert_eq!(output.status.code(), Some(0), "{}", err(&output));
        assert!(out(&output).contains(" fifo "), "{}", out(&output));
        let manifest = String::from_utf8(folder.file("one/run.toml")).unwrap();
        let command = "--config none,bfq,fifo --drive plextor-px-256m5s --scheduler fifo.wasm --workload readers";
        assert!(manifest.contains(command), "{manifest}");
        let again = folder.run(&["repeat", "one"]);
        assert_eq!(again.status.code(), Some(0), "{}", err(&again));
        assert!(out(&again).contains("same bytes: "), "{}", out(&again));

        // One that is named is not compared twice; one of several is named with its setting.
        let output = folder.compare(&[
            "--config",
            "fifo{k=2},none",
            "--scheduler",
            "fifo.wasm",
            "--dry-run",
        ]);
        let told = out(&output);
        assert!(told.contains("fifo{k=2}") && !told.contains("/fifo/"), "{told}{}", err(&output));
    }

    #[test]
    fn another_module_under_the_same_name_has_another_folder() {
        let folder = Folder::new("bytes");
        for body in [FIFO.to_string(), format!("{FIFO} (func (nop))")] {
            folder.module("fifo.wasm", &body);
            let output = folder.compare(&["--config", "fifo", "--scheduler", "fifo.wasm"]);
            assert_eq!(output.status.code(), Some(0), "{}", err(&output));
        }
        assert_eq!(folder.dirs().len(), 2, "{:?}", folder.dirs());
    }

    #[test]
    fn a_module_that_goes_wrong_ends_its_cell_and_keeps_the_others() {
        let folder = Folder::new("wrong");
        folder.module("loops.wasm", &FIFO.replace("(call $oldest)", "(loop (br 0)) (i64.const 0)"));
        let more = ["--config", "none", "--scheduler", "loops.wasm", "--out=one"];
        let output = folder.compare(&more);
        assert_eq!(output.status.code(), Some(1));
        let told = err(&output);
        let wanted = "plextor-px-256m5s/loops/readers: scheduler 'loops' (loops.wasm): dispatch: it did not end within";
        assert!(told.contains(wanted) && !told.contains("panicked"), "{told}");
        // The same command has nothing left to do but the cell that failed.
        let told = err(&folder.compare(&more));
        assert!(told.contains("reusing 1 of 2 runs"), "{told}");
    }

    #[test]
    fn a_module_that_cannot_be_loaded_is_wrong_usage() {
        let folder = Folder::new("refused");
        folder.module("none-bfq.wasm", FIFO);
        folder.module("fifo.wasm", FIFO);
        fs::write(folder.0.join("long.wasm"), vec![0; 2 << 20]).unwrap();
        folder.module("short.wasm", &FIFO.replace(r#"(export "gone")"#, ""));
        let cases: [(&[&str], &str); 5] = [
            (
                &["--scheduler", "none-bfq.wasm"],
                "none-bfq.wasm: there is a configuration 'none-bfq' already; rename the file",
            ),
            (&["--scheduler", "long.wasm"], "long.wasm: is longer than a module may be (1 MiB)"),
            (&["--scheduler", "short.wasm"], "short.wasm: it does not export gone(i64, i64)"),
            (&["--scheduler", "gone.wasm"], "gone.wasm: No such file"),
            (
                &["--scheduler", "fifo.wasm", "--scheduler", "fifo.wasm"],
                "there is a configuration 'fifo' already",
            ),
        ];
        for (more, told) in cases {
            let output = folder.compare(more);
            assert_eq!(output.status.code(), Some(2), "{told}");
            assert!(err(&output).contains(told), "{}", err(&output));
        }
        assert!(!folder.0.join("runs").exists());
    }

    #[test]
    fn run_takes_the_module_where_no_configuration_is_named() {
        let folder = Folder::new("run");
        folder.module("fifo.wasm", FIFO);
        let run = |more: &[&str]| {
            let words = [
                "run",
                "latency-2019",
                "--scheduler",
                "fifo.wasm",
                "--dry-run",
                "--workload",
                "readers",
            ];
            folder.run(&[&words[..], more].concat())
        };
        for more in [&[][..], &["fifo{k=1}"], &["max-fifo"]] {
            let output = run(more);
            assert_eq!(output.status.code(), Some(0), "{}", err(&output));
            assert!(out(&output).contains("fifo"), "{}", out(&output));
        }
        let told = err(&run(&["bfq"]));
        assert!(
            told.contains("bfq does not use it; write fifo, or leave --scheduler out"),
            "{told}"
        );
    }
}
