//! Embeds every file of `experiments/`: adding an experiment is adding a file.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    let folder =
        Path::new(&env::var("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("experiments");
    println!("cargo::rerun-if-changed={}", folder.display());
    let entries = fs::read_dir(&folder).expect("the repository has a folder experiments/");
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.expect("the folder can be listed").path())
        .filter(|path| path.extension().is_some_and(|e| e == "toml"))
        .collect();
    files.sort();
    let mut list = String::from("&[\n");
    for file in &files {
        let id = file.file_stem().and_then(|s| s.to_str()).expect("names of experiments are UTF-8");
        let path = file.canonicalize().expect("the file was just listed");
        writeln!(list, "    ({id:?}, include_str!({:?})),", path.display().to_string())
            .expect("writing to a string cannot fail");
    }
    list.push_str("]\n");
    let out = Path::new(&env::var("OUT_DIR").expect("cargo sets it")).join("experiments.rs");
    fs::write(out, list).expect("the build folder can be written");
}
