//! What the fuzzer found once, and regression tests of the rules: every script of `scripts/` passes.

use hoistway_fuzz::{Case, run_twice};
use std::path::Path;

#[test]
fn what_was_found_once_is_not_found_again() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts");
    let mut files: Vec<_> = std::fs::read_dir(&dir).unwrap().map(|e| e.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty());
    let mut failed = Vec::new();
    for file in files {
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        let case = Case::parse(&std::fs::read_to_string(&file).unwrap());
        match case.map(|case| run_twice(&case)) {
            Ok(Ok(_)) => {}
            other => failed.push(format!("{name}: {other:#?}")),
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}
