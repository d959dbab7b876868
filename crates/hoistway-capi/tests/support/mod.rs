//! What tests and the bench need beside the library: where it was built, the C and Go compilers, valgrind.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The crate's folder.
pub fn here() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// The folder with the library that belongs to this test: cargo puts it beside the test itself.
pub fn built() -> PathBuf {
    let me = std::env::current_exe().expect("a test knows its own file");
    me.parent().expect("a file lies in a folder").into()
}

/// A folder for what tests make.
pub fn scratch(name: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&dir).expect("the folder can be made");
    dir
}

/// Whether a program is there; says so if not.
pub fn there(program: &str, argument: &str) -> bool {
    let there = Command::new(program).arg(argument).output().is_ok_and(|o| o.status.success());
    if !there {
        println!("skipped: {program} is not there");
    }
    there
}

/// Whether Go is there and knows what the programs say to cgo: 1.24 or later.
pub fn go_there() -> bool {
    let said = Command::new("go").arg("version").output();
    let said = said.map(|o| String::from_utf8_lossy(&o.stdout).into_owned()).unwrap_or_default();
    let minor = said.split("go1.").nth(1).and_then(|v| v.split(['.', ' ', 'r', 'b']).next());
    let there = minor.and_then(|m| m.parse::<u32>().ok()).is_some_and(|m| m >= 24);
    if !there {
        println!("skipped: Go 1.24 is not there ({})", said.trim());
    }
    there
}

/// What `command` said; ends the test with it if the command failed.
pub fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{command:?}: {}\n{said}{errors}", output.status);
    output
}

/// The first line of what a command printed.
pub fn first_line(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().next().unwrap_or_default().into()
}

/// How a C program is linked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    Static,
    Shared,
}

/// What a program that is linked with the static library needs beside it.
pub const SYSTEM_LIBRARIES: [&str; 3] = ["-lpthread", "-ldl", "-lm"];

/// Compiles a C program against the library in `libraries`.
pub fn compile(source: &Path, to: &Path, libraries: &Path, link: Link, more: &[&str]) {
    let mut gcc = Command::new("gcc");
    gcc.args(["-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-D_GNU_SOURCE"]).args(more);
    gcc.arg("-I").arg(here().join("include")).arg(source).arg("-o").arg(to);
    match link {
        Link::Static => gcc.arg(libraries.join("libhoistway_capi.a")).args(SYSTEM_LIBRARIES),
        Link::Shared => gcc
            .arg(libraries.join("libhoistway_capi.so"))
            .arg(format!("-Wl,-rpath,{}", libraries.display())),
    };
    run(&mut gcc);
}

/// Builds the Go program of a folder against the static library in `libraries`.
pub fn go_build(folder: &Path, to: &Path, libraries: &Path) {
    let library = libraries.join("libhoistway_capi.a");
    let flags = format!("{} {}", library.display(), SYSTEM_LIBRARIES.join(" "));
    let mut go = Command::new("go");
    go.arg("build").arg("-o").arg(to).current_dir(folder);
    go.env("CGO_ENABLED", "1").env("GOFLAGS", "-buildvcs=false").env("GOTOOLCHAIN", "local");
    go.env("CGO_CFLAGS", format!("-O2 -I{}", here().join("include").display()));
    // Go lets only some flags through by itself, and the path of a library is none of them.
    go.env("CGO_LDFLAGS_ALLOW", ".*").env("CGO_LDFLAGS", flags);
    run(&mut go);
}
