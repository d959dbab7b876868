//! `hoistway module`: what it refuses and why, and the core that it makes.

use super::{Folder, stderr, stdout};
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

/// Called with a cache of its own, in a folder that is no source tree.
fn module(folder: &Folder, args: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hoistway"));
    command.arg("module").args(args.split(' ')).current_dir(&folder.0);
    command.env("HOISTWAY_CACHE_DIR", folder.0.join("cache")).output().unwrap()
}

fn refused(folder: &Folder, args: &str, code: i32, why: &str) {
    let output = module(folder, args);
    let told = stderr(&output);
    assert_eq!(output.status.code(), Some(code), "{args}: {told}");
    assert!(told.contains(why), "{args}: {told}");
}

/// A folder that looks like the headers of a kernel.
fn headers(folder: &Folder, release: &str, config: &str) {
    let place = folder.0.join("headers");
    fs::create_dir_all(place.join("include/config")).unwrap();
    fs::write(place.join("include/config/kernel.release"), release).unwrap();
    fs::write(place.join(".config"), config).unwrap();
}

const CONFIG: &str = "CONFIG_X86_64=y\nCONFIG_MODULES=y\nCONFIG_BLK_CGROUP=y\nCONFIG_RETPOLINE=y\nCONFIG_RETHUNK=y\n";

#[test]
fn a_kernel_that_does_not_fit_is_refused_with_the_reason() {
    let folder = Folder::new("module-kernel");
    refused(&folder, "build --kernel-dir .", 2, "no folder that modules are built against");
    headers(&folder, "5.10.0-9-amd64\n", CONFIG);
    refused(&folder, "build --kernel-dir headers", 2, "for Linux 6.1 and later");
    headers(&folder, "6.1.0-56-rt-amd64\n", &format!("{CONFIG}CONFIG_PREEMPT_RT=y\n"));
    refused(&folder, "build --kernel-dir headers", 2, "PREEMPT_RT");
    headers(&folder, "6.1.0-56-amd64\n", "CONFIG_X86_64=y\nCONFIG_MODULES=y\n");
    refused(&folder, "build --kernel-dir headers", 2, "CONFIG_BLK_CGROUP");
}

#[test]
fn the_source_must_be_that_of_the_kernel() {
    let folder = Folder::new("module-source");
    headers(&folder, "6.1.0-56-amd64\n", CONFIG);
    let build = "build --kernel-dir headers --kernel-source";
    refused(&folder, &format!("{build} nowhere"), 2, "no tarball and no source tree of Linux");
    fs::create_dir_all(folder.0.join("linux/block")).unwrap();
    fs::write(folder.0.join("linux/block/elevator.h"), "").unwrap();
    fs::write(folder.0.join("linux/Makefile"), "VERSION = 6\nPATCHLEVEL = 12\n").unwrap();
    refused(&folder, &format!("{build} linux"), 2, "is the source of Linux 6.12");
    fs::write(folder.0.join("linux/Makefile"), "VERSION = 6\nPATCHLEVEL = 1\n").unwrap();
    refused(
        &folder,
        &format!("{build} linux --core nowhere"),
        2,
        "--core nowhere: there is no such file",
    );
    fs::write(folder.0.join("text"), "no object").unwrap();
    refused(&folder, &format!("{build} linux --core text"), 2, "--core text: is no object file");
    // Neither a core nor a place to make one of.
    refused(&folder, &format!("{build} linux"), 3, "give --tree a source tree of hoistway");
    refused(&folder, &format!("{build} linux --tree headers"), 2, "is no source tree of hoistway");
    let left: Vec<_> = fs::read_dir(folder.0.join("cache/module")).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn only_what_is_built_is_installed() {
    let folder = Folder::new("module-install");
    refused(&folder, "install --kernel ../6.1", 2, "is no release of a kernel");
    refused(&folder, "install --kernel 6.1.0-none", 2, "no module for Linux 6.1.0-none is built");
    refused(&folder, "remove --kernel /", 2, "is no release of a kernel");
    fs::create_dir_all(folder.0.join("cache/module/6.1.0-none")).unwrap();
    fs::write(folder.0.join("cache/module/6.1.0-none/hoistway.ko"), "").unwrap();
    refused(&folder, "install --kernel 6.1.0-none", 2, "Linux 6.1.0-none is not installed here");
    let listed = module(&folder, "list");
    assert!(stdout(&listed).contains("6.1.0-none  built\n"), "{}", stdout(&listed));
    let listed: serde_json::Value =
        serde_json::from_slice(&module(&folder, "list --json").stdout).unwrap();
    let one = listed.as_array().unwrap().iter().find(|m| m["release"] == "6.1.0-none").unwrap();
    assert_eq!(one["built"].as_array().map(Vec::len), Some(1));
    assert!(one["installed"].is_null() && one["loaded"].is_null());
}

#[test]
fn a_module_of_some_schedulers_is_one_of_its_own() {
    let folder = Folder::new("module-only");
    refused(&folder, "core --out core.o --only nobody", 2, "'nobody' is none of noop, h-deadline");
    refused(
        &folder,
        "install --kernel 6.1.0-none --only bfq",
        2,
        "hoistway-h-bfq.ko; `hoistway module build`",
    );
    let built = folder.0.join("cache/module/6.1.0-none");
    fs::create_dir_all(&built).unwrap();
    fs::write(built.join("hoistway-paternoster.ko"), "").unwrap();
    refused(&folder, "install --kernel 6.1.0-none", 2, "built is hoistway-paternoster.ko (--only)");
    let install = "install --kernel 6.1.0-none --only paternoster";
    refused(&folder, install, 2, "Linux 6.1.0-none is not installed here");
    let listed = module(&folder, "list");
    assert!(
        stdout(&listed).contains("6.1.0-none  built hoistway-paternoster\n"),
        "{}",
        stdout(&listed)
    );
    fs::write(folder.0.join("core.o"), "\x7fELF").unwrap();
    refused(&folder, "build --core core.o --only bfq", 2, "cannot be used with");
}

/// Where the package has the core, DKMS needs neither Rust nor a tree of the source.
#[test]
fn dkms_takes_the_core_of_the_package() {
    let folder = Folder::new("module-packaged");
    refused(&folder, "core --dkms dkms", 3, "give --tree a source tree of hoistway");
    let program = folder.0.join("bin/hoistway");
    let core = folder.0.join("share/hoistway/module/core.o");
    for file in [&program, &core] {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
    }
    fs::copy(env!("CARGO_BIN_EXE_hoistway"), &program).unwrap();
    fs::write(&core, "\x7fELF..hoistway core of:\0.").unwrap();
    let output = Command::new(&program)
        .args(["module", "core", "--dkms", "dkms"])
        .current_dir(&folder.0)
        .env("HOISTWAY_CACHE_DIR", folder.0.join("cache"))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(stdout(&output), "dkms\n");
    assert_eq!(fs::read(folder.0.join("dkms/core.o")).unwrap(), fs::read(&core).unwrap());
    let conf = fs::read_to_string(folder.0.join("dkms/dkms.conf")).unwrap();
    assert!(conf.contains("BUILT_MODULE_NAME[0]=\"hoistway\""), "{conf}");
}

/// Frames, registers and calls are looked at while it is made: it is an error if one does not fit a kernel.
#[test]
fn the_core_fits_a_kernel() {
    let tree = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let target = Command::new("rustc")
        .args(["--print", "target-libdir", "--target", "x86_64-unknown-none"])
        .current_dir(&tree)
        .output();
    let there = target.is_ok_and(|t| Path::new(String::from_utf8_lossy(&t.stdout).trim()).is_dir());
    if !there {
        println!("skipped: rustc has no target x86_64-unknown-none");
        return;
    }
    let folder = Folder::new("module-core");
    // As DKMS wants it, with what is to be called for each kernel.
    let output = module(&folder, &format!("core --tree {} --dkms dkms", tree.display()));
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let told = stdout(&output);
    let frame = told.split("largest frame ").nth(1).and_then(|t| t.split(' ').next());
    let frame: u64 = frame.and_then(|n| n.parse().ok()).unwrap_or_else(|| panic!("{told}"));
    assert!((100..=2048).contains(&frame), "{told}");
    let made = |name: &str| fs::read(folder.0.join("dkms").join(name)).unwrap();
    assert!(made("core.o").starts_with(b"\x7fELF"));
    let conf = String::from_utf8(made("dkms.conf")).unwrap();
    assert!(conf.contains(&format!("PACKAGE_VERSION=\"{}\"", env!("CARGO_PKG_VERSION"))), "{conf}");
    refused(&folder, "core", 2, "--out");
    // One of one scheduler is smaller by far, and so is named.
    let only = format!("core --tree {} --dkms one --only paternoster", tree.display());
    let output = module(&folder, &only);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let one = fs::read(folder.0.join("one/core.o")).unwrap();
    assert!(3 * one.len() < made("core.o").len(), "{} of {}", one.len(), made("core.o").len());
    let conf = fs::read_to_string(folder.0.join("one/dkms.conf")).unwrap();
    assert!(conf.contains("BUILT_MODULE_NAME[0]=\"hoistway-paternoster\""), "{conf}");
}
