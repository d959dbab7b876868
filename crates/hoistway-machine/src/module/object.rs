//! The core as one object that fits any kernel: compiled, rewritten, checked.

use super::assembly::{self, Assembly};
use super::choice::Choice;
use super::tools::{BuildFolder, cache, read, run, wanted, write};
use crate::kernel::Lack;
use crate::{MachineError, os};
use hoistway_files::{Kind, Place};
use std::fs;
use std::path::Path;
use std::process::Command;

/// The target without an operating system, floating point and red zone.
const TARGET: &str = "x86_64-unknown-none";

/// What the core calls and does not have: the shim's functions, the kernel's, and thunks.
const MAY_CALL: &[&str] = &[
    "hw_alloc",
    "hw_free",
    "hw_panic",
    "memcpy",
    "memmove",
    "memset",
    "memcmp",
    "bcmp",
    "__divti3",
    "__udivti3",
];
/// What KASAN's compiler pass calls.
const KASAN: &str = "__asan_";
const THUNKS: &[&str] = &["__x86_return_thunk", "__x86_indirect_thunk_"];

/// How it is compiled for any kernel.
const FLAGS: &str = "-C relocation-model=static -C code-model=kernel -C jump-tables=no";
/// And for a kernel in user mode with KASAN: checks are calls, as in the kernel's own drivers, and the shadow memory is where
/// such a kernel has it (KASAN_SHADOW_OFFSET of arch/um on x86-64). The standard library's part stays without checks.
const CHECKED: &str = "-Zsanitizer=kernel-address -Zsanitizer-recover=kernel-address -Cunsafe-allow-abi-mismatch=sanitizer \
                       -Cllvm-args=-asan-mapping-offset=0x100000000000 -Cllvm-args=-asan-stack=0 -Cllvm-args=-asan-globals=0 \
                       -Cllvm-args=-asan-instrumentation-with-call-threshold=0";

/// One section of each kind: the module loader makes a mapping for none of the compiler's ten thousand.
const SECTIONS: &str = "SECTIONS {
  .text : { *(.text .text.*) }
  .rodata : { *(.rodata .rodata.*) }
  .data.rel.ro : { *(.data.rel.ro .data.rel.ro.*) }
  .data : { *(.data .data.*) }
  .bss : { *(.bss .bss.*) }
  /DISCARD/ : { *(.eh_frame) *(.comment) *(.note.*) *(.gcc_except_table*) *(.llvmbc) *(.llvmcmd) }
}
";

/// What was found in the core.
#[derive(Clone, Debug, Default)]
pub struct CoreFacts {
    /// The largest frame of a function, in bytes, and whose it is.
    pub frame: (u64, String),
    /// Returns, indirect calls and jumps that go through the kernel's thunks.
    pub thunks: usize,
    /// Functions that may be reached by an indirect branch, each with a landing place.
    pub landing: usize,
}

/// Makes the object of the core from a tree of hoistway's source; `kasan`: with the checks of a user-mode kernel that has it.
///
/// # Errors
///
/// There is no compiler for it; the tree is none; it does not compile; it holds what a kernel cannot have.
pub fn make_core(
    tree: &Path,
    only: &Choice,
    kasan: bool,
    out: &Path,
) -> Result<CoreFacts, MachineError> {
    let manifest = tree.join("crates/hoistway-kernel/Cargo.toml");
    if !manifest.is_file() {
        let tree = tree.display();
        return Err(MachineError::Refused(format!(
            "{tree}: is no source tree of hoistway (it has no crates/hoistway-kernel)"
        )));
    }
    wanted(
        &[("as", "binutils"), ("ld", "binutils"), ("objcopy", "binutils"), ("nm", "binutils")],
        "the core",
    )?;
    compiler_is_there(tree)?;
    let scratch = BuildFolder::new()?;
    let text = scratch.path.join("core.s");
    compile(tree, only, kasan, &text, &scratch)?;
    let assembly = assembly::rewrite(&read(&text)?)
        .map_err(|what| MachineError::Program(format!("the core's assembly, {what}")))?;
    write(&text, &assembly.text)?;
    assemble(&text, kasan, out, &scratch)?;
    let Assembly { frame, returns, indirect, landing, .. } = assembly;
    Ok(CoreFacts { frame, thunks: returns + indirect, landing })
}

/// The same, put where nothing stands: for a package.
///
/// # Errors
///
/// As `make_core`; something stands there.
pub fn write_core(tree: &Path, only: &Choice, out: &Path) -> Result<CoreFacts, MachineError> {
    let place = Place::make(out)?;
    place.may_replace(Kind::New)?;
    let folder = BuildFolder::new()?;
    let object = folder.path.join("packaged.o");
    let facts = make_core(tree, only, false, &object)?;
    let bytes = fs::read(&object).map_err(os(object.display().to_string()))?;
    place.replace(&bytes, Kind::New)?;
    Ok(facts)
}

fn compiler_is_there(tree: &Path) -> Result<(), MachineError> {
    let remedy = "install Rust 1.93 or later with `rustup target add x86_64-unknown-none`, or take the core of a package \
                  (--core FILE)";
    let lack = |why: String| MachineError::Lack(Lack::new("a compiler for the core", why, remedy));
    let asked = Command::new("rustc")
        .args(["--print", "target-libdir", "--target", TARGET])
        .current_dir(tree)
        .output()
        .map_err(|e| lack(format!("rustc: {e}")))?;
    let folder = String::from_utf8_lossy(&asked.stdout).trim().to_string();
    match asked.status.success() && Path::new(&folder).is_dir() {
        true => Ok(()),
        false => Err(lack(format!("rustc knows no target {TARGET} ({folder})"))),
    }
}

fn compile(
    tree: &Path,
    only: &Choice,
    kasan: bool,
    text: &Path,
    scratch: &BuildFolder,
) -> Result<(), MachineError> {
    let mut cargo = Command::new("cargo");
    cargo
        .args(["rustc", "--locked", "--profile", "kernel", "--target", TARGET])
        .args(["-p", "hoistway-kernel", "--crate-type", "staticlib", "--"])
        .arg(format!("--emit=asm={},link", text.display()))
        .current_dir(tree)
        .env("CARGO_TARGET_DIR", cache()?.join("target"))
        .env("HOISTWAY_ONLY", only.list())
        // Flags of this machine are for its own programs.
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env("RUSTFLAGS", FLAGS);
    if kasan {
        // The pass is there, but not declared stable.
        cargo.env("RUSTC_BOOTSTRAP", "1").env("RUSTFLAGS", format!("{FLAGS} {CHECKED}"));
    }
    run(cargo, "compiling the core", &scratch.path.join("log")).map(drop)
}

fn assemble(
    text: &Path,
    kasan: bool,
    out: &Path,
    scratch: &BuildFolder,
) -> Result<(), MachineError> {
    let log = scratch.path.join("log");
    let (object, whole, script) = (
        scratch.path.join("core.o"),
        scratch.path.join("whole.o"),
        scratch.path.join("sections.lds"),
    );
    write(&script, SECTIONS)?;
    let mut assembler = Command::new("as");
    assembler.arg("-o").arg(&object).arg(text);
    run(assembler, "assembling the core", &log)?;
    let mut names = Command::new("nm");
    names.args(["--defined-only", "--extern-only", "--format=posix"]).arg(&object);
    let names = run(names, "reading the core's symbols", &log)?;
    let entries: Vec<&str> = names
        .lines()
        .filter_map(|line| line.split(' ').next())
        .filter(|name| name.starts_with("hw_core_"))
        .collect();
    if entries.is_empty() {
        return Err(MachineError::Program("the core has no function hw_core_*".into()));
    }
    let mut linker = Command::new("ld");
    linker.args(["-r", "--gc-sections", "-e", entries[0], "-T"]).arg(&script);
    entries.iter().for_each(|name| {
        linker.args(["-u", name]);
    });
    linker.arg("-o").arg(&whole).arg(&object);
    run(linker, "linking the core", &log)?;
    let mut strip = Command::new("objcopy");
    strip.arg("--strip-debug");
    strip.args(entries.iter().map(|name| format!("--keep-global-symbol={name}")));
    strip.arg(&whole).arg(out);
    run(strip, "hiding the core's symbols", &log)?;
    let mut names = Command::new("nm");
    names.args(["--undefined-only", "--format=posix"]).arg(out);
    let calls = run(names, "reading what the core calls", &log)?;
    match strangers(&calls, kasan) {
        list if list.is_empty() => Ok(()),
        list => Err(MachineError::Program(format!(
            "the core calls what a kernel does not have: {}",
            list.join(", ")
        ))),
    }
}

/// Of what `nm` prints, the names that are none of a kernel's or the shim's.
fn strangers(printed: &str, kasan: bool) -> Vec<&str> {
    let names = printed.lines().filter_map(|line| line.split(' ').next());
    names
        .filter(|name| !name.is_empty() && !MAY_CALL.contains(name))
        .filter(|name| !(kasan && name.starts_with(KASAN)))
        .filter(|name| !THUNKS.iter().any(|thunk| name.starts_with(thunk)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_kernel_has_is_no_stranger() {
        let printed =
            "__udivti3 U\n__x86_indirect_thunk_r11 U\nhw_free U\n__asan_load8_noabort U\nsqrt U\n";
        assert_eq!(strangers(printed, true), ["sqrt"]);
        assert_eq!(strangers(printed, false), ["__asan_load8_noabort", "sqrt"]);
    }
}
