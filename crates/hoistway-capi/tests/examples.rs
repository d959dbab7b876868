//! The examples are built, against what `install.sh` installs, and run: C, C under valgrind and under gcc's
//! sanitizers, Go.

// Each test uses a part of it.
#[allow(dead_code)]
mod support;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use support::{Link, compile, go_there, here, run, scratch, there};

/// Where the script has installed the library for these tests, without optimisation.
fn installed() -> &'static Path {
    static PREFIX: OnceLock<PathBuf> = OnceLock::new();
    PREFIX.get_or_init(|| {
        let prefix = scratch("prefix");
        let mut install = Command::new(here().join("install.sh"));
        install.arg(&prefix).env("PROFILE", "dev");
        // A folder of its own: the script builds the files that other tests link with just now.
        run(install.env("CARGO_TARGET_DIR", scratch("installed")));
        prefix
    })
}

/// What pkg-config says of the installed library.
fn pkg_config(arguments: &[&str]) -> Vec<String> {
    let mut program = Command::new("pkg-config");
    program.args(arguments).arg("hoistway");
    let said = run(program.env("PKG_CONFIG_PATH", installed().join("lib/pkgconfig"))).stdout;
    String::from_utf8_lossy(&said).split_whitespace().map(str::to_string).collect()
}

/// Builds front.c; `shared`: against the shared library that is found at run time.
fn front(name: &str, shared: bool, more: &[&str]) -> PathBuf {
    let program = scratch("examples").join(name);
    let mut gcc = Command::new("gcc");
    gcc.args(["-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror"]).args(more);
    gcc.args(pkg_config(&["--cflags"]))
        .arg(here().join("examples/front.c"))
        .arg("-o")
        .arg(&program);
    let lib = installed().join("lib");
    if shared {
        gcc.args(pkg_config(&["--libs"])).arg(format!("-Wl,-rpath,{}", lib.display()));
    } else {
        gcc.arg(lib.join("libhoistway.a")).args(support::SYSTEM_LIBRARIES);
    }
    run(&mut gcc);
    program
}

/// Runs an example over a file of its own with that many reads a tenant; what it says is right.
fn runs(name: &str, command: &mut Command, reads: u32) {
    let image = scratch("examples").join(format!("{name}.img"));
    for scheduler in ["bfq", "none"] {
        let mut one = Command::new(command.get_program());
        one.args(command.get_args()).arg(&image).args([scheduler, &reads.to_string()]);
        one.envs(command.get_envs().filter_map(|(k, v)| Some((k, v?))));
        let said = run(&mut one).stdout;
        let said = String::from_utf8_lossy(&said);
        assert!(said.starts_with(&format!("{scheduler}: ")) && said.contains("reads/s"), "{said}");
    }
    std::fs::remove_file(image).expect("the example has made its file");
}

fn tools() -> bool {
    there("gcc", "--version") && there("pkg-config", "--version")
}

#[test]
fn the_c_example_runs() {
    if tools() {
        runs("c", &mut Command::new(front("front", true, &[])), 5_000);
    }
}

#[test]
fn the_c_example_has_no_error_and_no_leak_under_valgrind() {
    if !tools() || !there("valgrind", "--version") {
        return;
    }
    let mut valgrind = Command::new("valgrind");
    valgrind.args([
        "--error-exitcode=9",
        "--leak-check=full",
        "--show-leak-kinds=definite,possible",
    ]);
    valgrind.arg("--errors-for-leak-kinds=definite,possible").arg(front("front-v", true, &[]));
    runs("valgrind", &mut valgrind, 500);
}

#[test]
fn the_c_example_has_no_error_under_the_sanitizers() {
    if !tools() {
        return;
    }
    let flags = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"];
    runs("asan", &mut Command::new(front("front-asan", false, &flags)), 5_000);
    // The load of the comparison as well, for hw_step.
    let program = scratch("examples").join("drive-asan");
    compile(
        &here().join("tests/programs/drive.c"),
        &program,
        &support::built(),
        Link::Static,
        &flags,
    );
    run(Command::new(&program).args(["bfq", "20000", "batch"]));
    run(Command::new(&program).args(["kyber", "20000", "one"]));
}

#[test]
fn the_go_example_runs() {
    if !tools() || !go_there() {
        return;
    }
    let (program, lib) = (scratch("examples").join("front-go"), installed().join("lib"));
    let mut go = Command::new("go");
    go.args(["build", "-o"]).arg(&program).current_dir(here().join("examples/go"));
    go.env("CGO_ENABLED", "1").env("GOFLAGS", "-buildvcs=false").env("GOTOOLCHAIN", "local");
    run(go.env("PKG_CONFIG_PATH", lib.join("pkgconfig")));
    let mut program = Command::new(program);
    runs("go", program.env("LD_LIBRARY_PATH", lib), 5_000);
}

/// The first program of the guide is a program.
#[test]
fn the_program_of_the_guide_runs() {
    let Ok(page) = std::fs::read_to_string(here().join("../../docs/guide/c.md")) else {
        return println!("skipped: the guide is not part of the package");
    };
    if !there("gcc", "--version") {
        return;
    }
    let (_, rest) = page.split_once("```c\n").expect("the guide has a program in C");
    let (program, _) = rest.split_once("```").expect("the program ends");
    let (source, to) = (scratch("examples").join("guide.c"), scratch("examples").join("guide"));
    std::fs::write(&source, program).expect("the file can be written");
    compile(&source, &to, &support::built(), Link::Static, &[]);
    let said = run(&mut Command::new(to)).stdout;
    assert!(String::from_utf8_lossy(&said).starts_with("read 8 sectors at 2048, then hw_done"));
}

#[test]
fn the_shared_library_has_its_name_and_no_symbols_but_ours() {
    if !there("readelf", "--version") || !there("nm", "--version") {
        return;
    }
    let library = installed().join("lib/libhoistway.so");
    let said = run(Command::new("readelf").arg("-d").arg(&library)).stdout;
    let name = format!("[libhoistway.so.{}]", hoistway_capi::HW_ABI);
    assert!(String::from_utf8_lossy(&said).contains(&name), "no soname {name}");
    let said = run(Command::new("nm").args(["-D", "--defined-only"]).arg(&library)).stdout;
    let said = String::from_utf8_lossy(&said);
    let others: Vec<_> = said.lines().filter(|l| !l.contains(" T hw_")).collect();
    assert!(others.is_empty(), "{others:?}");
    assert!(said.lines().count() > 30);
}
